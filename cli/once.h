/* SPDX-License-Identifier: Apache-2.0
 *
 * once.h - pawl run --once-per: the note beside the lock that says who ran the command last, with success, and when.
 */
#ifndef PAWL_CLI_ONCE_H
#define PAWL_CLI_ONCE_H

#include "slot.h"
#include "take.h"

struct once_options {
    bool wanted;
    struct period period;
    int skip_exit; /* when it was run in this period already; -1: not told, so 0 */
};

/* Before the lock is asked for: may it be due? One request, without the lock. False: it is not, or the note can't be used; `status` is
 * the exit status, and the reason was said. */
bool once_may_be_due(const struct once_options *options, const struct take *take, int *status);
/* The lock was just granted: is it due? As above, and then the lock is released. `ret_granted` is the server's time of the grant. */
bool once_is_due(const struct once_options *options, struct take *take, int64_t *ret_granted, int *status);
/* The command succeeded: note it, if the hold still stands. Returns 0, or a negative code with its text in `error`. */
int once_note(const struct take *take, int64_t granted, const char *command, struct pawl_error *error);
/* Is it worth another try? */
bool once_may_pass(int result);

#endif
