/* SPDX-License-Identifier: Apache-2.0
 *
 * tend.c - tend to a command while its locks are held: start it, pass signals on to it, and end it before the hold does.
 *
 * There is one loop over three sources: signals (passed on to the command's process group), the supervisor's word (the command stopped, or
 * ended), and the library's (a hold is suspect, or lost). Nothing else happens at any other time. Why the hold is over (a loss, --max-hold)
 * only decides how the command is asked to end; the loop ends when the command has.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "around.h"
#include "common/cli.h"
#include "common/signals.h"
#include "run.h"

void run_reset(struct run *run) {
    run->ended = run->over = run->gentle = run->warned = run->fatal_to_group = false;
    run->status = run->fatal_signal = 0;
    run->max_hold_at = run->ask_at = run->kill_at = PAWL_FOREVER;
    run->take.loss_told = false;
    run->terminal.fd = -1;
    sigemptyset(&run->heard);
}

/* ---- Ending the command --------------------------------------------------------------------------------------------------- */

static void signal_command(struct run *run, int number) {
    if (child_signal(&run->child, number) || run->warned)
        return;
    run->warned = true;
    say("the command runs as another user and cannot be signalled; the lock stays held until it ends");
}

/* The command, and all that keeps the hold with it, whether it is still of the command's group or not. */
static void signal_all(struct run *run, int number) {
    signal_command(run, number);
    child_signal_inheritors(&run->child, number);
}

static void kill_command(struct run *run) {
    run->ask_at = run->kill_at = PAWL_FOREVER;
    signal_all(run, SIGKILL);
}

static void ask_command_to_end(struct run *run) {
    run->ask_at = PAWL_FOREVER;
    if (run->gentle)
        return;
    run->gentle = true;
    signal_all(run, SIGTERM);
    /* A stopped process hears of TERM only when it goes on. */
    signal_all(run, SIGCONT);
}

/* Of so much time: KILL leaves before it is over, since the command has to be gone by then. */
static int64_t most_of(int64_t left) {
    return left - left / 10;
}

/* How long the command may take to end after TERM. Where a hold has a lease, others may be let in when that ends. */
static int64_t grace_of(const struct run *run) {
    int64_t grace = run->options.grace_ms, left = most_of(pawl_remaining_all_ms(run->take.parts, run->take.held));

    if (run->take.info.lease_ms != PAWL_FOREVER && left < grace)
        grace = left;
    return grace;
}

/* The hold is over: act as --on-lost says. */
static void hold_is_over(struct run *run) {
    if (run->over)
        return;
    run->over = true;
    if (run->ended) /* its number may be another's by now */
        return;
    switch (run->options.on_lost) {
    case ON_LOST_IGNORE:
        say("the command goes on, as --on-lost=ignore says");
        break;
    case ON_LOST_TERM:
        ask_command_to_end(run);
        run->kill_at = deadline_in(grace_of(run));
        break;
    case ON_LOST_KILL:
        kill_command(run);
        break;
    }
}

/* ---- What the library tells ----------------------------------------------------------------------------------------------- */

/* Half of what is left is waited for the hold to recover; the other half is the command's, to end. */
static void expect_the_worst(struct run *run, struct pawl_lock *lock) {
    int64_t left = pawl_remaining_ms(lock);

    if (run->over || run->ended || run->options.on_lost == ON_LOST_IGNORE || left == PAWL_FOREVER)
        return;
    if (run->options.on_lost == ON_LOST_TERM)
        run->ask_at = deadline_in(left / 2);
    run->kill_at = deadline_in(most_of(left));
}

static bool any_suspect(const struct run *run) {
    for (size_t i = 0; i < run->take.held; i++)
        if (pawl_state(run->take.parts[i].lock) != PAWL_HELD)
            return true;
    return false;
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct run *run = data;

    if (token != pawl_token(lock)) /* of a hold that is over: an election goes on after it */
        return;
    say("%s", why->text);
    if (state == PAWL_SUSPECT) {
        expect_the_worst(run, lock);
    } else if (state == PAWL_LOST) {
        run->take.loss_told = true;
        hold_is_over(run);
    } else if (!run->over && !any_suspect(run)) {
        run->ask_at = run->kill_at = PAWL_FOREVER;
    }
}

bool run_watch_holds(struct run *run, int *status) {
    struct pawl_error error;

    for (size_t i = 0; i < run->take.held; i++) {
        struct pawl_lock *lock = run->take.parts[i].lock;

        if (pawl_on_loss(lock, on_loss, run, &error) < 0) {
            *status = library_error(&error);
            return false;
        }
        enum pawl_state state = pawl_state(lock);
        if (state == PAWL_SUSPECT) /* told before anybody listened */
            expect_the_worst(run, lock);
        if (state == PAWL_LOST) {
            say("'%s' was lost before the command started", run->options.take.names[i]);
            *status = EXIT_LOST;
            return false;
        }
    }
    return true;
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

static void max_hold_reached(struct run *run) {
    char words[32];

    run->max_hold_at = PAWL_FOREVER;
    say("the lock was held for %s, as long as --max-hold allows", duration_in_words(words, sizeof words, run->options.max_hold_ms));
    hold_is_over(run);
    if (run->options.on_lost == ON_LOST_IGNORE)
        take_release(&run->take);
}

static int64_t earliest(const struct run *run) {
    int64_t moment = run->max_hold_at;

    if (run->ask_at < moment)
        moment = run->ask_at;
    return run->kill_at < moment ? run->kill_at : moment;
}

/* A suspect hold did not recover: the command must end while the lock is still assured. */
static void give_up(struct run *run) {
    if (!run->over)
        say("the lock could not be renewed for too long, so the command has to end");
    run->over = true;
}

static void act_on_time(struct run *run) {
    int64_t now = now_ms();

    if (now >= run->max_hold_at)
        max_hold_reached(run);
    if (!run->over && (now >= run->ask_at || now >= run->kill_at) && !any_suspect(run))
        run->ask_at = run->kill_at = PAWL_FOREVER;
    if (now >= run->ask_at) {
        give_up(run);
        ask_command_to_end(run);
    }
    if (now >= run->kill_at) {
        give_up(run);
        kill_command(run);
    }
}

/* ---- What the command does, and what is sent to it ------------------------------------------------------------------------ */

/* After a stop of ours: the command goes on, with the terminal if the user gave it to us again. */
static void resume_command(struct run *run) {
    terminal_look_again(&run->terminal, run->child.pid);
    if (run->terminal.eager && terminal_is_ours(&run->terminal))
        terminal_give(&run->terminal, run->child.pid);
    signal_command(run, SIGCONT);
}

/* The command was stopped. Either it wants the terminal, and can have it; or we stop too, so that the shell notices. That goes for
 * SIGSTOP as well, which no terminal sends, if a shell waits for us: we stop as by Ctrl-Z then, which spares us where no shell could
 * continue us. */
static void follow_stop(struct run *run, int number) {
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
    bool in_front = run->terminal.given || terminal_is_ours(&run->terminal);

    if (number == SIGSTOP ? !in_front : number != SIGTSTP && !wants_terminal)
        return;
    if (wants_terminal && terminal_is_ours(&run->terminal)) {
        terminal_give(&run->terminal, run->child.pid);
        signal_command(run, SIGCONT);
        return;
    }
    bool only_command_got_it = run->terminal.given || number == SIGSTOP || (wants_terminal && run->terminal.fd >= 0);
    terminal_take_back(&run->terminal);
    if (stop_by_signal(number == SIGSTOP ? SIGTSTP : number, only_command_got_it))
        resume_command(run);
    else if (wants_terminal)
        say("the command wants the terminal, which another job has; it is stopped until it gets SIGCONT");
    else if (number == SIGTSTP)
        resume_command(run);
}

static void hear_command(struct run *run) {
    struct child_event event;

    if (!child_next(&run->child, &event)) {
        say("the process that keeps the command was killed, so the command is killed too");
        run->ended = true;
        run->status = EXIT_INTERNAL;
        return;
    }
    if (event.kind == CHILD_STOPPED) {
        follow_stop(run, event.value);
        return;
    }
    run->ended = true;
    run->fatal_signal = event.kind == CHILD_KILLED ? event.value : 0;
    run->status = event.kind == CHILD_KILLED ? EXIT_BY_SIGNAL + event.value : event.value;
}

static void pass_signals_on(struct run *run) {
    for (int number; (number = signals_next()) != 0;) {
        sigaddset(&run->heard, number);
        if (number == SIGCONT)
            resume_command(run);
        else if (number == SIGTERM && run->resigns)
            hold_is_over(run);
        else
            signal_command(run, number);
    }
}

/* ---- The run -------------------------------------------------------------------------------------------------------------- */

void run_tend(struct run *run) {
    struct pollfd sources[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = run->child.channel, .events = POLLIN},
        {.fd = run->take.fd, .events = POLLIN},
    };

    while (!run->ended) {
        poll(sources, 3, poll_timeout(earliest(run)));
        pawl_dispatch(run->take.client);
        pass_signals_on(run);
        if (sources[1].revents != 0)
            hear_command(run);
        act_on_time(run);
    }
}

/* Where holds are tied to processes, what the command left behind keeps them, as with flock(1). Elsewhere nobody would renew
 * them. */
static bool inherits(const struct run *run) {
    return run->take.info.flags & PAWL_OPEN_INHERIT;
}

bool run_start(struct run *run, int *status) {
    if (!around_tell(&run->take)) {
        say("out of memory");
        *status = EXIT_SYSTEM;
        return false;
    }
    terminal_open(&run->terminal);
    if (run->resigns)
        run->terminal.eager = false; /* Ctrl-C ends pawl, too, and so it has to hear of it */
    struct inheritors_limit limit = {run->max_hold_at, run->options.on_lost == ON_LOST_TERM ? run->options.grace_ms : 0};
    *status = child_start(&run->child, run->options.argv, inherits(run), &limit, &run->terminal);
    return *status == 0;
}
