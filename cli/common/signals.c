/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c - signals as events in a poll loop.
 *
 * No handler is ever installed: signals are blocked and read from a signalfd. So no system call is interrupted, nothing runs at an
 * odd moment, and dispositions stay as they were found, which is how the command must find them (nohup ignores SIGHUP, and means
 * it).
 *
 * Not blocked: what a process does to itself by a fault, and SIGCHLD, which is the supervisor's business. But as process 1, as in a
 * container, and where it was made a subreaper, pawl becomes the parent of every orphan, and has to ask how it ended: else it stays a
 * zombie. Then SIGCHLD is read, too.
 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

static int descriptor = -1;
static pid_t spared;
static sigset_t original_mask;
static struct sigaction original_child_action;

static bool inherits_orphans(void) {
    int subreaper = 0;

    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper);
}

static void fill_passed_on(sigset_t *set) {
    static const int own_affairs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGCHLD};

    sigfillset(set);
    for (size_t i = 0; i < sizeof own_affairs / sizeof own_affairs[0]; i++)
        sigdelset(set, own_affairs[i]);
    if (inherits_orphans())
        sigaddset(set, SIGCHLD);
}

/* Bounded by the number of children. Once the one that is spared has ended, all is about to. */
static void reap_orphans(void) {
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && info.si_pid != spared) {
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

bool signals_take(void) {
    sigset_t passed_on;
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    fill_passed_on(&passed_on);
    descriptor = signalfd(-1, &passed_on, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor < 0) {
        say("cannot watch for signals: %s", strerror(errno));
        return false;
    }
    sigprocmask(SIG_BLOCK, &passed_on, &original_mask);
    /* Were it ignored, children would vanish without leaving a status. */
    sigaction(SIGCHLD, &by_default, &original_child_action);
    return true;
}

int signals_fd(void) {
    return descriptor;
}

void signals_spare(pid_t child) {
    spared = child;
}

int signals_next(void) {
    struct signalfd_siginfo info;

    while (read(descriptor, &info, sizeof info) == (ssize_t)sizeof info) {
        /* Our own write to a pipe nobody reads: the write has failed already. */
        if (info.ssi_signo == SIGPIPE && info.ssi_pid == (uint32_t)getpid())
            continue;
        if (info.ssi_signo == SIGCHLD) {
            reap_orphans();
            continue;
        }
        return (int)info.ssi_signo;
    }
    return 0;
}

void signals_give_back(void) {
    sigaction(SIGCHLD, &original_child_action, NULL);
    sigprocmask(SIG_SETMASK, &original_mask, NULL);
}

static bool is_ignored(int number) {
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool signal_stops_us(int number) {
    return (number == SIGTSTP || number == SIGTTIN || number == SIGTTOU) && !is_ignored(number);
}

bool signal_ends_us(int number) {
    bool harmless = number == SIGCHLD || number == SIGCONT || number == SIGURG || number == SIGWINCH;

    return !harmless && !signal_stops_us(number) && !is_ignored(number);
}

/* Send it, and let it act here and now. */
static void suffer(int number, bool whole_group) {
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, number);
    if (whole_group)
        kill(0, number);
    else
        raise(number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    sigprocmask(SIG_BLOCK, &one, NULL);
}

bool stop_by_signal(int number, bool whole_group) {
    sigset_t pending;

    suffer(number, whole_group);
    sigpending(&pending);
    return sigismember(&pending, SIGCONT);
}

int end_by_signal(int number, bool whole_group) {
    if (number == SIGINT)
        suffer(number, whole_group);
    return EXIT_BY_SIGNAL + number;
}
