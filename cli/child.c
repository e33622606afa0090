/* SPDX-License-Identifier: Apache-2.0
 *
 * child.c - pawl's side of the supervisor (supervisor.c): start it, hear from it, end it.
 *
 * The lifeline is a pipe whose one end the command inherits together with the hold, and so does all that it starts: it tells whether
 * anybody is left who keeps the hold, wherever they went (a process group can be left, a descriptor can't).
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/signals.h"

static void close_pair(int pair[2]) {
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

/* Wait for the word that the command runs. Returns 0 or an errno. */
static int hear_of_start(struct child *child) {
    struct child_event event;

    if (!child_next(child, &event))
        return ECHILD;
    child->pid = event.pid;
    return event.kind == CHILD_NOT_STARTED ? event.value : 0;
}

static int fork_supervisor(struct child *child, struct supervisor_setup *setup) {
    child->supervisor = _Fork();
    if (child->supervisor == 0)
        supervisor_main(setup);
    signals_spare(child->supervisor);
    return child->supervisor < 0 ? errno : 0;
}

int child_start(struct child *child, char **argv, bool inherit, const struct inheritors_limit *limit, struct terminal *terminal) {
    int channel[2] = {-1, -1}, lifeline[2] = {-1, -1};
    int error = 0;

    *child = (struct child){.channel = -1, .lifeline = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) < 0 || (inherit && pipe2(lifeline, O_CLOEXEC) < 0)) {
        error = errno;
        close_pair(channel);
    } else {
        bool give = terminal->eager && terminal_is_ours(terminal);
        struct supervisor_setup setup = {
            .argv = argv,
            .channel = channel[1],
            .pawls_channel = channel[0],
            .lifeline = lifeline[1],
            .pawls_lifeline = lifeline[0],
            .limit = *limit,
            .terminal = terminal,
            .give_terminal = give,
        };

        error = fork_supervisor(child, &setup);
        close(channel[1]);
        if (lifeline[1] >= 0)
            close(lifeline[1]);
        child->channel = channel[0];
        child->lifeline = lifeline[0];
        terminal->given = give;
        if (error == 0)
            error = hear_of_start(child);
    }
    if (error == 0)
        return 0;
    say("cannot start a process: %s", strerror(error));
    return EXIT_SYSTEM;
}

bool child_next(struct child *child, struct child_event *event) {
    for (;;) {
        ssize_t length = recv(child->channel, event, sizeof *event, 0);

        if (length < 0 && errno == EINTR)
            continue;
        if (length != (ssize_t)sizeof *event) {
            child->supervisor_lost = true;
            return false;
        }
        if (event->kind != CHILD_NOT_EXECUTED)
            return true;
        child->exec_errno = event->value;
    }
}

bool child_signal(const struct child *child, int number) {
    return kill(-child->pid, number) == 0 || errno != EPERM;
}

/* Hang up, and wait for the supervisor to end. */
static void dismiss(struct child *child) {
    close(child->channel);
    child->channel = -1;
    while (waitpid(child->supervisor, NULL, 0) < 0 && errno == EINTR)
        continue;
}

void child_end_group(struct child *child) {
    kill(-child->pid, SIGKILL);
    dismiss(child);
    if (child->supervisor_lost)
        await_end_of_group(child->pid);
}

void child_leave_group(struct child *child, bool limited) {
    bool guard = limited && child_has_inheritors(child);
    char word = guard ? SUPERVISOR_GUARD : SUPERVISOR_LEAVE;

    /* A supervisor that is gone leaves the group alone, too. */
    if (send(child->channel, &word, 1, MSG_NOSIGNAL) < 0)
        child->supervisor_lost = true;
    if (!guard)
        dismiss(child);
}

bool child_has_inheritors(const struct child *child) {
    return !await_inheritors(child->lifeline, 0);
}

void child_signal_inheritors(const struct child *child, int number) {
    signal_inheritors(child->lifeline, number);
}

void child_end_inheritors(const struct child *child) {
    if (child_has_inheritors(child))
        end_inheritors(child->lifeline);
}
