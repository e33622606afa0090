/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - pawl run: take the locks, run the command, give the locks back.
 *
 * A run always ends in this order:
 *
 *     the command has ended -> its process group is ended, or left alone -> the locks are released -> pawl exits
 *
 * so that no lock is released while the command runs. If the hold was over before that (tend.c), the exit status is EXIT_LOST, not the
 * command's.
 */
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

/* ---- The run -------------------------------------------------------------------------------------------------------------- */

static bool take_locks(struct run *run, int *status) {
    /* Who is not to be ended at --max-hold can't keep the lock until it ends either. */
    bool close = run->options.close || (is_limited(run) && run->options.on_lost == ON_LOST_IGNORE);
    unsigned flags = PAWL_OPEN_LOSS_BY_DISPATCH | (close ? 0 : PAWL_OPEN_INHERIT);
    bool taken = take_open(&run->take, &run->options.take, flags, run->options.record_name, status) && take_all(&run->take, status);

    run->fatal_signal = run->take.signal;
    run->max_hold_at = deadline_in(run->options.max_hold_ms);
    return taken;
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
