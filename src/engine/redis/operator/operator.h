/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.h - for operators: what there is, and breaking it.
 */
#ifndef PAWL_REDIS_OPERATOR_H
#define PAWL_REDIS_OPERATOR_H

#include "engine/redis/view/view.h"

/* examine.c */
pawl__examine_fn pawl__redis_examine;

/* call.c */
wire_call_fn pawl__server_call;
/* The next server that has locks, after `server` or from the first; NULL: there are no more. No mutex held. */
struct server *pawl__server_next(struct redis *redis, struct server *server);
/* The one that has the lock of this name. No mutex held. */
struct server *pawl__server_having(struct redis *redis, const char *name);

/* survey.c, break.c */
/* Look at a lock. The caller frees the reply, in which it stays. */
int pawl__redis_look(struct redis *redis, const char *name, struct lock_view *ret, redisReply **retreply,
                     struct pawl_error *reterr);
pawl__survey_fn pawl__redis_survey;
pawl__break_fn pawl__redis_break;

#endif
