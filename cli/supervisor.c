/* SPDX-License-Identifier: Apache-2.0
 *
 * supervisor.c - the process between pawl and the command: even if pawl is killed, the command does not outlive its hold.
 *
 *     pawl --------channel-------- supervisor ---- command ---- what it starts
 *     the user's process group     its own         the command's process group
 *
 * - pawl can be killed at any instruction. The supervisor then sees the channel hang up, KILLs the command's process group and waits
 *   until nothing is left of it. It was forked after the client was opened, by _Fork(), which runs no fork handlers: so it has a
 *   share in pawl's holds (where an engine ties holds to open descriptors, as `local:` does), and it closes that share last. There
 *   is no moment at which the command runs and the lock is free.
 * - The supervisor is the command's parent and does not reap it before the end. While the zombie is there, its number is nobody else's,
 *   and a signal to the group -pid cannot hit strangers.
 * - It is in pawl's session, so that the command's group is not orphaned and can be stopped from the terminal; in a group of its
 *   own, so that neither Ctrl-C nor a signal to pawl's group reaches it; it blocks all signals; and it goes by the name of `keeper`, so
 *   that `pkill -9 pawl` does not take it along. If it is killed nevertheless, the kernel KILLs the command
 *   (PR_SET_PDEATHSIG), and pawl, which sees the channel hang up, the rest of the group.
 * - What left the group (setsid) is not killed then. On `local:` it keeps the hold, unless pawl was told otherwise (-o). With --max-hold
 *   the supervisor stays behind when pawl has ended, or was killed, for as long as such processes keep the hold, and ends them when the
 *   time is up.
 *
 * pawl may have threads by the time of the fork: everything here is async-signal-safe.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/signals.h"

static void report(int channel, enum child_event_kind kind, int value, pid_t pid) {
    struct child_event event = {.kind = kind, .value = value, .pid = pid};

    /* Nobody there to hear it: the poll says so, too. */
    if (send(channel, &event, sizeof event, MSG_NOSIGNAL) < 0)
        return;
}

_Noreturn static void become_command(const struct supervisor_setup *setup, pid_t supervisor) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(EXIT_INTERNAL);
    if (setup->give_terminal)
        terminal_give(setup->terminal, getpid());
    if (setup->lifeline >= 0)
        fcntl(setup->lifeline, F_SETFD, 0);
    signals_give_back();
    execvp(setup->argv[0], setup->argv);
    int error = errno;
    report(setup->channel, CHILD_NOT_EXECUTED, error, getpid());
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

/* What it holds open would otherwise stay open for others: the reader of a pipe waits for the last writer. */
static void let_go_of(const struct supervisor_setup *setup) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (setup->lifeline >= 0)
        close(setup->lifeline);
}

static char *arguments, *arguments_end;

void supervisor_note_arguments(char **argv) {
    arguments = argv[0];
    for (char **argument = argv; *argument != NULL; argument++)
        arguments_end = *argument + strlen(*argument) + 1;
}

/* For ps(1), pkill(1) and their like. The kernel shows the memory in which the arguments were passed. */
static void change_name(void) {
    static const char name[] = "keeper";

    prctl(PR_SET_NAME, name);
    if (arguments_end - arguments >= (ptrdiff_t)sizeof name) {
        memset(arguments, 0, (size_t)(arguments_end - arguments));
        memcpy(arguments, name, sizeof name);
    }
}

/* Returns true when the command has ended; it stays a zombie. */
static bool report_changes(int channel, pid_t command) {
    siginfo_t info;

    for (info.si_pid = 0; waitid(P_PID, (id_t)command, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0; info.si_pid = 0)
        report(channel, CHILD_STOPPED, info.si_status, command);
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)command, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    report(channel, info.si_code == CLD_EXITED ? CHILD_EXITED : CHILD_KILLED, info.si_status, command);
    return true;
}

/* Returns what pawl says, 0 if it hung up. Bounded by the lives of pawl and of the command. */
static char watch(int channel, int signals, pid_t command) {
    struct pollfd sources[] = {{.fd = channel, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

    for (;;) {
        struct signalfd_siginfo info;
        char word = 0;

        poll(sources, 2, -1);
        if (sources[0].revents != 0)
            return recv(channel, &word, 1, 0) == 1 ? word : 0;
        if (sources[1].revents == 0 || read(signals, &info, sizeof info) < 0)
            continue;
        if (report_changes(channel, command))
            sources[1].fd = -1;
    }
}

/* One KILL is enough: no process escapes it by forking. What may not be killed (another user's) is waited for: as long as it runs,
 * the lock is not free. */
static void end_group(pid_t group) {
    kill(-group, SIGKILL);
    while (waitpid(group, NULL, 0) < 0 && errno == EINTR)
        continue;
    await_end_of_group(group);
}

/* Descriptors that an exec would close are pawl's own, and say that pawl lives: it does not any more. What is to be inherited stays. */
static void close_pawls_own(int kept) {
    struct rlimit limit = {.rlim_cur = 1024};

    getrlimit(RLIMIT_NOFILE, &limit);
    int end = limit.rlim_cur > 65536 ? 65536 : (int)limit.rlim_cur;
    for (int fd = STDERR_FILENO + 1; fd < end; fd++) {
        int flags = fd == kept ? -1 : fcntl(fd, F_GETFD);

        if (flags >= 0 && flags & FD_CLOEXEC)
            close(fd);
    }
}

/* Bounded by the limit, and by the lives of those who may not be killed. */
static void guard_inheritors(int lifeline, const struct inheritors_limit *limit) {
    close_pawls_own(lifeline);
    while (now_ms() < limit->until)
        if (await_inheritors(lifeline, poll_timeout(limit->until)))
            return;
    if (limit->grace_ms > 0) {
        signal_inheritors(lifeline, SIGTERM);
        signal_inheritors(lifeline, SIGCONT);
        int64_t end = deadline_in(limit->grace_ms);
        while (now_ms() < end)
            if (await_inheritors(lifeline, poll_timeout(end)))
                return;
    }
    end_inheritors(lifeline);
}

_Noreturn void supervisor_main(const struct supervisor_setup *setup) {
    sigset_t all, child;
    pid_t self = getpid();

    setpgid(0, 0);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    close(setup->pawls_channel);

    pid_t command = signals < 0 ? -1 : _Fork();
    if (command == 0)
        become_command(setup, self);
    if (command < 0) {
        report(setup->channel, CHILD_NOT_STARTED, errno, 0);
        _exit(EXIT_SYSTEM);
    }
    setpgid(command, command);
    let_go_of(setup);
    change_name();
    report(setup->channel, CHILD_STARTED, 0, command);
    char word = watch(setup->channel, signals, command);
    if (word == 0)
        end_group(command);
    if (word != SUPERVISOR_LEAVE && setup->limit.until != PAWL_FOREVER && !await_inheritors(setup->pawls_lifeline, 0))
        guard_inheritors(setup->pawls_lifeline, &setup->limit);
    _exit(0);
}
