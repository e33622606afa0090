/* SPDX-License-Identifier: Apache-2.0
 *
 * take.h - take the locks that the command line names, all or none.
 */
#ifndef PAWL_CLI_TAKE_H
#define PAWL_CLI_TAKE_H

#include "common/options.h"

struct take {
    const struct take_options *options;
    struct pawl *client;
    struct pawl_info info;
    struct pawl_part *parts; /* in the order of options->names */
    size_t held;             /* all of them, or 0 */
    int fd;                  /* of pawl_fd() */
    int signal;              /* ended the wait; 0: none did */
    int64_t deadline;        /* of -n and -w */
    int64_t waited_ms;       /* of what -w gave, what was left after the try */
    bool loss_told;          /* the user knows already */
    bool elects;             /* pawl elect: by a mutex, and a server that goes away is waited for, however long */
    bool writes;             /* pawl value: who takes it wants to write its value */
};

/* Open the client and make the handles. `open_flags` for pawl_open(), `command` for the record. False: `status` is the exit status.
 * take_finish() is due in any case. */
bool take_open(struct take *take, const struct take_options *options, unsigned open_flags, const char *command, int *status);
/* Take all, or none: false, and `status` is the exit status, which is that of -E when others hold a lock. Signals are heard
 * meanwhile: one that ends programs ends the wait, and is left in take->signal. */
bool take_all(struct take *take, int *status);
/* After this failure: may the servers come back? */
bool take_may_pass(int result);
/* Give everything back; returns 0, or EXIT_LOST if a hold turns out to have been lost. Releasing twice does nothing. */
int take_release(struct take *take);
/* Wait for a moment, hearing signals as take_all() does. False: one ends us. */
bool take_pause(struct take *take, int64_t ms);
/* Close the client, which releases what is still held. */
void take_finish(struct take *take);

#endif
