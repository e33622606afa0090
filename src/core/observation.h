/* SPDX-License-Identifier: Apache-2.0
 *
 * observation.h - what an observer sees of a lock.
 */
#ifndef PAWL_CORE_OBSERVATION_H
#define PAWL_CORE_OBSERVATION_H

#include "core/core.h"

/* What is seen of a lock at a time. */
struct observation {
    _Atomic unsigned references;
    bool held;
    bool value_is_holders;
    struct pawl_entry entry;   /* who holds it */
    char *strings;             /* all of the entry's */
    struct pawl__value *value; /* NULL: there is none */
};

/* Look. NULL: it can't be seen now. */
struct observation *pawl__observation_take(struct pawl *client, const char *name, int64_t deadline, struct pawl_error *reterr);
struct observation *pawl__observation_ref(struct observation *observation);
void pawl__observation_put(struct observation *observation); /* NULL is fine */
/* Is there nothing to tell? */
bool pawl__observation_same(const struct observation *a, const struct observation *b);
/* When the lease that is shown ends, unless it is renewed. */
int64_t pawl__observation_ends(const struct observation *observation, int64_t now);

#endif
