/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - a command that runs while locks are held. run.c does it once, elect.c again and again; tend.c is what happens meanwhile.
 */
#ifndef PAWL_CLI_RUN_H
#define PAWL_CLI_RUN_H

#include <signal.h>

#include "child.h"
#include "run_options.h"
#include "take.h"

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
    bool warned;     /* that the command can't be signalled */
    bool resigns;    /* TERM is for pawl, too: the hold is to be over, so that the command ends in time even if it ignores TERM */
    sigset_t heard;  /* while the command ran, and --at-least after it */
    int64_t granted; /* --once-per: the server's time of the grant */
    int64_t at_least_at; /* the lock is kept until then */
};

/* What it is before it begins; the options are left alone. */
void run_reset(struct run *run);

/* Be told of losses, in run_tend(). False: one is lost already, or can't be watched; `status` is the exit status. */
bool run_watch_holds(struct run *run, int *status);
/* Start the command, with its variables. False: `status` is the exit status. */
bool run_start(struct run *run, int *status);
/* Until the command has ended. */
void run_tend(struct run *run);

#endif
