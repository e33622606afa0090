/* SPDX-License-Identifier: Apache-2.0
 *
 * inheritors.c - those who have inherited the hold: every process that has the other end of the pipe that child.c made, wherever it went.
 *
 * The command's process group can be signalled as one; who has left it (setsid) can't. But it is found by what it has: a pipe has a number
 * that no other pipe has, and /proc shows who has it open. Processes of other users can neither be looked at nor be signalled.
 *
 * Used by the supervisor, too: all of it is async-signal-safe.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numbers.h"

struct search {
    struct stat pipe;
    int number; /* the signal */
};

static bool is_the_pipe(int directory, const char *fd, void *data) {
    const struct search *search = data;
    struct stat status, link;

    /* We have it, too, for reading. An inheritor has it for writing. */
    return fstatat(directory, fd, &status, 0) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == search->pipe.st_ino &&
           status.st_dev == search->pipe.st_dev && fstatat(directory, fd, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
           link.st_mode & S_IWUSR;
}

static bool has_the_pipe(int proc, const char *pid, struct search *search) {
    char path[32];
    size_t length = strlen(pid);

    if (length > sizeof path - sizeof "/fd")
        return false;
    memcpy(path, pid, length);
    memcpy(path + length, "/fd", sizeof "/fd");
    int fds = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool has = fds >= 0 && visit_numbers(fds, is_the_pipe, search);
    if (fds >= 0)
        close(fds);
    return has;
}

/* By a descriptor that names the process for good: the number may be another's by the time it is signalled. */
static bool signal_if_inheritor(int proc, const char *pid, void *data) {
    struct search *search = data;
    int number = 0;

    for (const char *at = pid; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (*at - '0');
    int fd = (int)syscall(SYS_pidfd_open, number, 0);
    if (has_the_pipe(proc, pid, search)) {
        if (fd >= 0)
            syscall(SYS_pidfd_send_signal, fd, search->number, NULL, 0);
        else if (errno == ENOSYS)
            kill(number, search->number);
    }
    if (fd >= 0)
        close(fd);
    return false;
}

void signal_inheritors(int lifeline, int number) {
    struct search search = {.number = number};
    int proc = lifeline < 0 || fstat(lifeline, &search.pipe) < 0 ? -1 : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (proc < 0)
        return;
    visit_numbers(proc, signal_if_inheritor, &search);
    close(proc);
}

bool await_inheritors(int lifeline, int ms) {
    struct pollfd source = {.fd = lifeline, .events = POLLIN};

    return lifeline < 0 || poll(&source, 1, ms) > 0;
}

void end_inheritors(int lifeline) {
    do
        signal_inheritors(lifeline, SIGKILL);
    while (!await_inheritors(lifeline, 100));
}
