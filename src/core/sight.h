/* SPDX-License-Identifier: Apache-2.0
 *
 * sight.h - what an observer sees of a lock.
 */
#ifndef PAWL_CORE_SIGHT_H
#define PAWL_CORE_SIGHT_H

#include "core/core.h"

/* What is seen of a lock at a time. */
struct sight {
    _Atomic unsigned references;
    bool held;
    bool value_is_holders;
    struct pawl_entry entry;   /* who holds it */
    char *strings;             /* all of the entry's */
    struct pawl__value *value; /* NULL: there is none */
};

/* Look. NULL: it can't be seen now. */
struct sight *pawl__sight_look(struct pawl *client, const char *name, int64_t deadline, struct pawl_error *reterr);
struct sight *pawl__sight_ref(struct sight *sight);
void pawl__sight_put(struct sight *sight); /* NULL is fine */
/* Is there nothing to tell? */
bool pawl__sight_same(const struct sight *a, const struct sight *b);
/* When the lease that is shown ends, unless it is renewed. */
int64_t pawl__sight_ends(const struct sight *sight, int64_t now);

#endif
