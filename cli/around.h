/* SPDX-License-Identifier: Apache-2.0
 *
 * around.h - what pawl tells the command that it runs of the holds around it, by environment variables; and what a pawl in there reads of
 * them.
 */
#ifndef PAWL_CLI_AROUND_H
#define PAWL_CLI_AROUND_H

#include "take.h"

/* Set the variables for a command that is about to be started. False: out of memory. */
bool around_tell(const struct take *take);

/* A hold of a run around this process. */
struct around {
    uint64_t token;
    bool exclusive;
    char url[4096 + 1]; /* where its locks are: a URL of pawl's is no longer; "": $PAWL_URL */
};

/* Does a run around this process hold the lock? The innermost that does counts. Nobody is asked: it may have lost it. */
bool around_find(const char *name, struct around *ret);

#endif
