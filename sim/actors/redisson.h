/* SPDX-License-Identifier: Apache-2.0
 *
 * redisson.h - what Redisson's locks have in common.
 */
#ifndef PAWL_SIM_REDISSON_H
#define PAWL_SIM_REDISSON_H

#include "redis_line.h"

struct redisson {
    struct actor actor;
    struct redis_line line, subscription; /* commands; messages */
    char channel[ACTOR_NAME];             /* where a release is told */
    char uuid[ACTOR_UUID];                /* of this client */
    unsigned thread;                      /* its only thread's number */
    char owner[ACTOR_UUID + 12];          /* uuid:thread */
    char lease[24];                       /* ms, as text */
    /* Try once. ANSWER_NIL: it is held. ANSWER_NUMBER: it is not, and may be in so many ms; less than 0: nobody knows when. */
    enum script_answer (*try)(struct redisson *redisson, int64_t *ret_ms);
};

void redisson_init(struct redisson *redisson, const struct actor_place *place, const struct actor_ops *ops, const char *channel);
int redisson_open(struct actor *actor);
void redisson_close(struct actor *actor);
/* Try; subscribe; try again whenever a message comes or the time is up. */
int redisson_take(struct actor *actor);
/* Nobody knows what became of the last request: go on as another thread, whose holds are its own. What the old one may still have ends by
 * its lease. */
void redisson_be_another(struct redisson *redisson);

#endif
