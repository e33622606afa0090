/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c - is anything left of a process group?
 *
 * kill(2) knows, but counts zombies: processes that ended and that their parent has not asked about. An orphan's parent is process
 * 1, and in a container that may be a program that never asks. Such a group would never be gone; so /proc is asked as well.
 *
 * Used by the supervisor, which was forked from a program with threads: all of it is async-signal-safe.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "numbers.h"

/* Skip blanks and read a number. */
static long number_at(const char **text) {
    long number = 0;

    while (**text == ' ')
        ++*text;
    for (; **text >= '0' && **text <= '9'; ++*text)
        number = number * 10 + (**text - '0');
    return number;
}

/* /proc/PID/stat reads `PID (name) state parent group ...`, and the name may contain anything. */
static bool lives_in_group(int proc, const char *pid, pid_t group) {
    char path[32], text[512];
    size_t length = strlen(pid);

    if (length > sizeof path - sizeof "/stat")
        return false;
    memcpy(path, pid, length);
    memcpy(path + length, "/stat", sizeof "/stat");
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return false;
    at += 3;
    number_at(&at);
    return number_at(&at) == group;
}

struct census {
    pid_t group;
    bool saw_any;
};

static bool look_for_life(int proc, const char *pid, void *data) {
    struct census *census = data;

    census->saw_any = true;
    return lives_in_group(proc, pid, census->group);
}

/* False also where there is nothing to look at: then kill(2) has the last word. */
static bool only_zombies(pid_t group) {
    struct census census = {.group = group};
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool alive = proc >= 0 && visit_numbers(proc, look_for_life, &census);

    if (proc >= 0)
        close(proc);
    return census.saw_any && !alive;
}

void await_end_of_group(pid_t group) {
    struct timespec pause = {.tv_nsec = 200000};

    while ((kill(-group, 0) == 0 || errno == EPERM) && !only_zombies(group)) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 100000000)
            pause.tv_nsec *= 2;
    }
}
