/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - what /proc knows about the process of a session, and about those that have inherited its lifeline.
 *
 * A lifeline tells by itself who is alive, as long as it can be opened. If somebody has removed the file (cleaners of /tmp do), it can't:
 * the FIFO lives on without a name. Then the session's record says which process it was, when that started, and which FIFO it had. All
 * of it counts only inside one PID namespace, and what can't be told for sure counts as alive.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"

/* /proc/PID/stat reads `PID (name) state parent ...`, and the name may contain anything. After the state, the 17th word is the number of
 * threads, the 19th the start. */
enum { WORDS_TO_THREADS = 17, WORDS_TO_START = 19 };

struct process {
    bool over;     /* a zombie. (Not if only its first thread has ended.) */
    bool headless; /* its first thread has ended, others have not */
    uint64_t start;
};

/* False: it can't be read. */
static bool read_stat(const char *pid, struct process *ret) {
    char path[288], text[1024];
    unsigned long threads = 0;
    const char *at;
    bool ended;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    at = pawl__local_read(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!at || at[1] != ' ')
        return false;
    ended = at[2] == 'Z' || at[2] == 'X';
    at += 2;
    for (int i = 1; i <= WORDS_TO_START && (at = strchr(at + 1, ' ')); i++)
        if (i == WORDS_TO_THREADS)
            threads = strtoul(at, NULL, 10);
    if (!at)
        return false;
    *ret = (struct process){ended && threads <= 1, ended && threads > 1, strtoull(at, NULL, 10)};
    return true;
}

void pawl__local_introduce_process(struct session *session) {
    struct process process;

    session->pid = getpid();
    session->uid = geteuid();
    session->pid_namespace = pawl__local_namespace("pid");
    session->process_start = read_stat("self", &process) ? process.start : 0;
}

/* Do the numbers in /proc mean what they mean to us? Not where it was mounted for another namespace. */
static bool is_our_proc(void) {
    char text[24];
    ssize_t size = readlink("/proc/self", text, sizeof text - 1);

    text[size > 0 ? size : 0] = '\0';
    return strtoll(text, NULL, 10) == getpid();
}

static bool in_our_namespace(const struct session *session) {
    return session->pid_namespace != 0 && pawl__local_namespace("pid") == session->pid_namespace && is_our_proc();
}

/* Is the process surely over? Its number may be another's by now. */
static bool is_over(const struct session *session) {
    struct process process;
    char pid[24];

    if (session->pid <= 0 || session->pid > INT32_MAX)
        return false;
    if (kill((pid_t)session->pid, 0) < 0 && errno == ESRCH)
        return true;
    snprintf(pid, sizeof pid, "%" PRId64, session->pid);
    if (!read_stat(pid, &process))
        return false;
    return process.over || (session->process_start != 0 && process.start != session->process_start);
}

/* What can't be looked at may have it, unless it is older than the session. */
static bool is_younger(const char *pid, const struct session *session) {
    struct process process;

    return !read_stat(pid, &process) || process.start >= session->process_start;
}

/* Is it open for reading? Who only watches has it for writing. */
static bool reads(int fds, const char *fd) {
    struct stat link;

    return fstatat(fds, fd, &link, AT_SYMLINK_NOFOLLOW) == 0 && link.st_mode & S_IRUSR;
}

/* Has the process this FIFO open? One that has a name is not one that was removed: the number of a file is used again. */
static bool may_have(const char *pid, const struct session *session, bool removed) {
    struct process process;
    bool found = false, hidden = read_stat(pid, &process) && process.headless;
    struct dirent *entry;
    struct stat status;
    char path[288];
    DIR *fds;

    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    fds = opendir(path);
    if (!fds)
        return errno != ENOENT && errno != ESRCH && is_younger(pid, session);
    while (!found && (entry = readdir(fds))) {
        if (fstatat(dirfd(fds), entry->d_name, &status, 0) < 0)
            hidden |= errno == EACCES || errno == EPERM;
        else
            found = S_ISFIFO(status.st_mode) && (status.st_nlink == 0) == removed && status.st_ino == session->lifeline_inode &&
                    status.st_dev == session->lifeline_device && reads(dirfd(fds), entry->d_name);
    }
    closedir(fds);
    return found || (hidden && is_younger(pid, session));
}

/* Who knows: 1. (Mounted with hidepid=2, it does not show others' processes.) */
size_t pawl__local_inheritors(const struct session *session, bool removed, int64_t pids[], size_t room) {
    DIR *proc = access("/proc/1", F_OK) == 0 ? opendir("/proc") : NULL;
    struct dirent *entry;
    size_t count = 0;

    while (proc && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && may_have(entry->d_name, session, removed)) {
            if (count < room)
                pids[count] = strtoll(entry->d_name, NULL, 10);
            count++;
        }
    if (!proc)
        return 1;
    closedir(proc);
    return count;
}

bool pawl__local_surely_over(struct local *local, uint64_t owner, bool removed) {
    const struct session *session = &local->table->sessions[slot_of(owner)];

    if (slot_of(owner) >= GET(local->table->header.session_high) || atomic_load(&session->known) != owner ||
        !in_our_namespace(session) || !is_over(session))
        return false;
    return !session->inherits || pawl__local_inheritors(session, removed, NULL, 0) == 0;
}
