/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - pawl run: take the locks, run the command, give the locks back.
 *
 * A run always ends in this order:
 *
 *     the command has ended -> its process group is ended, or left alone -> its success is noted (--once-per) -> --at-least is over ->
 *     the locks are released -> pawl exits
 *
 * so that no lock is released while the command runs. If the hold was over before that (tend.c), the exit status is EXIT_LOST, not the
 * command's.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/signals.h"
#include "run.h"

/* May what is left behind keep the hold for some time only? */
static bool is_limited(const struct run *run) {
    return run->options.max_hold_ms != PAWL_FOREVER;
}

/* ---- After the command ---------------------------------------------------------------------------------------------------- */

/* By people or a service manager, before the command ended or after it: then nothing is waited for any more. */
static bool is_asked_to_end(const struct run *run) {
    static const int requests[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (sigismember(&run->heard, requests[i]) || run->fatal_signal == requests[i])
            return true;
    return false;
}

/* The shell must see SIGINT, or its script goes on. Otherwise the status is still the command's, which has ended. */
static void hear_signals(struct run *run) {
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number))
            stop_by_signal(number, false);
        if (!signal_ends_us(number))
            continue;
        sigaddset(&run->heard, number);
        if (number == SIGINT) {
            run->fatal_signal = number;
            run->fatal_to_group = false;
        }
    }
}

/* Go on holding until then. False: the hold is over, or a signal came. */
static bool linger(struct run *run, int64_t until) {
    struct pollfd sources[] = {
        {.fd = signals_fd(), .events = POLLIN},
        {.fd = run->take.fd, .events = POLLIN},
    };

    while (!run->over && !is_asked_to_end(run) && now_ms() < until) {
        poll(sources, 2, poll_timeout(until));
        pawl_dispatch(run->take.client);
        hear_signals(run);
    }
    return !run->over && !is_asked_to_end(run);
}

/* Servers that are away are waited for as long as the hold stands without them. `ret_unsure`: one of the attempts may have been written,
 * though another after it was refused. */
static int note_in_time(struct run *run, bool *ret_unsure, struct pawl_error *error) {
    enum { PAUSE_MS = 200 };
    bool told = false;

    *ret_unsure = false;
    for (;;) {
        int result = once_note(&run->take, run->granted, run->options.record_name, error);

        *ret_unsure |= result == PAWL_EUNKNOWN || result == PAWL_EREPLICAS;
        if (!once_may_pass(result) || now_ms() >= run->max_hold_at)
            return result;
        if (!told)
            say("the command succeeded; that could not be noted yet, and is tried again: %s", error->text);
        told = true;
        if (!linger(run, deadline_in(PAUSE_MS)))
            return result;
    }
}

/* --once-per: note the success. */
static void note_success(struct run *run) {
    struct pawl_error error;
    bool unsure;

    if (!run->options.once.wanted || run->over || run->status != 0)
        return;
    int result = note_in_time(run, &unsure, &error);
    if (result >= 0) {
        if (run->options.take.verbose)
            say("noted beside '%s' that the command succeeded", run->options.take.names[0]);
        return;
    }
    say("the command succeeded, but that %s noted, so it may be run again in this period: %s", unsure ? "may not be" : "is not",
        error.text);
    run->status = exit_of(result);
    run->over |= result == PAWL_ELOST;
    run->take.loss_told |= result == PAWL_ELOST;
}

static void keep_at_least(struct run *run) {
    const struct take_options *options = &run->options.take;
    int64_t left = run->at_least_at - now_ms();
    char words[32];

    if (run->over || is_asked_to_end(run) || run->child.exec_errno != 0 || left <= 0)
        return;
    if (options->verbose || (!options->quiet && isatty(STDERR_FILENO)))
        say("the command has ended; the lock is held for %s more, as --at-least says",
            duration_in_words(words, sizeof words, left));
    linger(run, run->at_least_at);
}

/* The command has ended. Returns the exit status, or does not return at all. */
static int give_back(struct run *run) {
    bool left_alone = !run->child.supervisor_lost && (!run->over || run->options.on_lost == ON_LOST_IGNORE);

    if (run->child.exec_errno != 0)
        say("cannot run '%s': %s", run->options.argv[0], strerror(run->child.exec_errno));
    if (run->over && !left_alone)
        child_end_inheritors(&run->child);
    if (left_alone)
        child_leave_group(&run->child, is_limited(run) && !run->over);
    else
        child_end_group(&run->child);
    run->fatal_to_group = run->terminal.given;
    terminal_take_back(&run->terminal);
    note_success(run);
    keep_at_least(run);
    if (!run->over && child_has_inheritors(&run->child)) {
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

/* ---- The run -------------------------------------------------------------------------------------------------------------- */

static bool take_locks(struct run *run, int *status) {
    /* Who is not to be ended at --max-hold can't keep the lock until it ends either. */
    bool close = run->options.close || (is_limited(run) && run->options.on_lost == ON_LOST_IGNORE);
    unsigned flags = PAWL_OPEN_LOSS_BY_DISPATCH | (close ? 0 : PAWL_OPEN_INHERIT);
    bool taken = take_open(&run->take, &run->options.take, flags, run->options.record_name, status) &&
                 once_may_be_due(&run->options.once, &run->take, status) && take_all(&run->take, status);

    run->fatal_signal = run->take.signal;
    run->max_hold_at = deadline_in(run->options.max_hold_ms);
    run->at_least_at = deadline_in(run->options.at_least_ms);
    return taken && once_is_due(&run->options.once, &run->take, &run->granted, status);
}

static int run_command(struct run *run) {
    int status = EXIT_SYSTEM;

    if (!signals_take() || !take_locks(run, &status) || !run_watch_holds(run, &status) || !run_start(run, &status))
        return status;
    run_tend(run);
    return give_back(run);
}

int command_run(int argc, char **argv) {
    struct run run = {0};
    bool go_on = false;
    int status = run_options_parse(&run.options, argc, argv, &go_on);

    run_reset(&run);
    if (go_on) {
        status = run_command(&run);
        terminal_close(&run.terminal);
        take_finish(&run.take);
    }
    run_options_finish(&run.options);
    return run.fatal_signal != 0 ? end_by_signal(run.fatal_signal, run.fatal_to_group) : status;
}
