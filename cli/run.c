/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - pawl run: take the locks, run the command, give the locks back.
 *
 * From the moment the locks are held there is one loop over three sources: signals (passed on to the command's process group), the
 * keeper's word (the command stopped, or ended), and the library's (a hold is suspect, or lost). Nothing else happens at any other
 * time. A run always ends in this order:
 *
 *     the command has ended -> its process group is ended, or left alone -> the locks are released -> pawl exits
 *
 * so that no lock is released while the command runs. Why the hold is over (a loss, --max-hold) only decides how the command is
 * asked to end. Once it is over, the exit status is EXIT_LOST, not the command's.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "common/cli.h"
#include "run_options.h"
#include "common/signals.h"
#include "take.h"
#include "common/terminal.h"

struct run {
    struct run_options options;
    struct take take;
    struct child child;
    struct terminal terminal;
    bool ended;
    int status; /* of the command, once it has ended */
    /* What ends pawl itself in the end, so that a shell sees it: a signal, and whether it is all of our group's. 0: none */
    int fatal_signal;
    bool fatal_to_group;
    bool over;   /* the hold is, or is about to be: the command must end */
    bool gentle; /* it was asked to, by TERM */
    /* Moments, PAWL_FOREVER while not set: */
    int64_t max_hold_at;
    int64_t ask_at; /* a suspect hold: TERM, unless it has recovered */
    int64_t kill_at;
    bool warned; /* that the command can't be signalled */
};

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
    child_signal_heirs(&run->child, number);
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

/* How long the command may take to end after TERM. Where a hold has a lease, others may be let in when that ends. */
static int64_t grace_of(const struct run *run) {
    int64_t grace = run->options.grace_ms, left = pawl_remaining_all_ms(run->take.parts, run->take.held);

    if (run->take.info.lease_ms != PAWL_FOREVER && left < grace)
        grace = left;
    return grace;
}

/* The hold is over: act as --on-lost says. */
static void hold_is_over(struct run *run) {
    if (run->over)
        return;
    run->over = true;
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

    if (run->over || run->options.on_lost == ON_LOST_IGNORE || left == PAWL_FOREVER)
        return;
    if (run->options.on_lost == ON_LOST_TERM)
        run->ask_at = deadline_in(left / 2);
    run->kill_at = deadline_in(left - left / 10);
}

static bool any_suspect(const struct run *run) {
    for (size_t i = 0; i < run->take.held; i++)
        if (pawl_state(run->take.parts[i].lock) != PAWL_HELD)
            return true;
    return false;
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct run *run = data;

    (void)token;
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

static bool watch_holds(struct run *run, int *status) {
    struct pawl_error error;

    for (size_t i = 0; i < run->take.held; i++) {
        if (pawl_on_loss(run->take.parts[i].lock, on_loss, run, &error) < 0) {
            *status = library_error(&error);
            return false;
        }
        if (pawl_state(run->take.parts[i].lock) == PAWL_LOST) {
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
        if (number == SIGCONT)
            resume_command(run);
        else
            signal_command(run, number);
    }
}

/* ---- The run -------------------------------------------------------------------------------------------------------------- */

static void supervise(struct run *run) {
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

static bool set_variables(const struct run *run) {
    const struct take_options *options = run->take.options;
    size_t room = 1;
    char host[256] = "", holder[300];

    for (size_t i = 0; i < options->count; i++)
        room += strlen(options->names[i]) + 24;
    char *names = calloc(2, room), *tokens = names + room;
    if (names == NULL)
        return false;
    for (size_t i = 0; i < options->count; i++) {
        snprintf(names + strlen(names), room - strlen(names), "%s%s", i > 0 ? "\n" : "", options->names[i]);
        snprintf(tokens + strlen(tokens), room - strlen(tokens), "%s%llu", i > 0 ? " " : "",
                 (unsigned long long)pawl_token(run->take.parts[i].lock));
    }
    gethostname(host, sizeof host - 1);
    snprintf(holder, sizeof holder, "%s:%ld", host, (long)getpid());
    bool done = setenv("PAWL_LOCK", names, 1) == 0 && setenv("PAWL_TOKEN", tokens, 1) == 0 &&
                setenv("PAWL_MODE",
                       options->mode == PAWL_SHARED    ? "shared"
                       : options->mode == PAWL_PERMITS ? "permits"
                                                       : "exclusive",
                       1) == 0 &&
                setenv("PAWL_HOLDER", holder, 1) == 0;
    free(names);
    return done;
}

/* Where holds are tied to processes, what the command left behind keeps them, as with flock(1). Elsewhere nobody would renew
 * them. */
static bool inherits(const struct run *run) {
    return run->take.info.flags & PAWL_OPEN_INHERIT;
}

/* May what is left behind keep the hold for some time only? */
static bool is_limited(const struct run *run) {
    return run->options.max_hold_ms != PAWL_FOREVER;
}

/* The command has ended. Returns the exit status, or does not return at all. */
static int give_back(struct run *run) {
    bool left_alone = !run->child.keeper_lost && (!run->over || run->options.on_lost == ON_LOST_IGNORE);

    if (run->child.exec_errno != 0)
        say("cannot run '%s': %s", run->options.argv[0], strerror(run->child.exec_errno));
    if (run->over && !left_alone)
        child_end_heirs(&run->child);
    if (left_alone)
        child_leave_group(&run->child, is_limited(run) && !run->over);
    else
        child_end_group(&run->child);
    run->fatal_to_group = run->terminal.given;
    terminal_take_back(&run->terminal);
    if (!run->over && child_left_heirs(&run->child)) {
        if (run->options.take.verbose)
            say("processes that the command left behind keep the lock until they end%s (-o: they don't)",
                is_limited(run) ? ", or --max-hold is over" : "");
        /* Neither release nor close: the last of them ends the hold. */
        _exit(run->status);
    }
    int lost = take_release(&run->take);
    if (!run->over && lost == 0)
        return run->status;
    run->fatal_signal = 0;
    return EXIT_LOST;
}

static bool take_locks(struct run *run, int *status) {
    /* Who is not to be ended at --max-hold can't keep the lock until it ends either. */
    bool close = run->options.close || (is_limited(run) && run->options.on_lost == ON_LOST_IGNORE);
    unsigned flags = PAWL_OPEN_LOSS_BY_DISPATCH | (close ? 0 : PAWL_OPEN_INHERIT);
    bool taken = take_open(&run->take, &run->options.take, flags, run->options.record_name, status) && take_all(&run->take, status);

    run->fatal_signal = run->take.signal;
    run->max_hold_at = deadline_in(run->options.max_hold_ms);
    return taken;
}

static bool start_command(struct run *run, int *status) {
    if (!set_variables(run)) {
        say("out of memory");
        *status = EXIT_SYSTEM;
        return false;
    }
    terminal_open(&run->terminal);
    struct heirs_limit limit = {run->max_hold_at, run->options.on_lost == ON_LOST_TERM ? run->options.grace_ms : 0};
    *status = child_start(&run->child, run->options.argv, inherits(run), &limit, &run->terminal);
    return *status == 0;
}

static int run_command(struct run *run) {
    int status = EXIT_SYSTEM;

    if (!signals_take() || !take_locks(run, &status) || !watch_holds(run, &status) || !start_command(run, &status))
        return status;
    supervise(run);
    return give_back(run);
}

int command_run(int argc, char **argv) {
    struct run run = {.max_hold_at = PAWL_FOREVER, .ask_at = PAWL_FOREVER, .kill_at = PAWL_FOREVER, .terminal = {.fd = -1}};
    bool go_on = false;
    int status = run_options_parse(&run.options, argc, argv, &go_on);

    if (go_on) {
        status = run_command(&run);
        terminal_close(&run.terminal);
        take_finish(&run.take);
    }
    run_options_finish(&run.options);
    return run.fatal_signal != 0 ? end_by_signal(run.fatal_signal, run.fatal_to_group) : status;
}
