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
/* What is asked: a script with its keys and arguments, or a command (script -1). `lengths` NULL: they are texts. */
struct redis_ask {
    int script, keys, argc;
    const char **argv;
    const size_t *lengths;
    bool hurried; /* only of a server that is up: what is down, or can't answer now, is not waited for */
};
struct redis_answer {
    redisReply *reply;
    struct server *server; /* whose it is, over that connection of `commands` */
    unsigned number;
    bool unsure; /* it was sent before, and no answer came: it may have been carried out. Only ever set, never cleared */
};
/* Ask who has the lock of this name until there is an answer that is not an error, or an error that will not pass, or the deadline; what is
 * hurried follows a slot that has moved, and ends at what else would be waited for. It may be carried out more than once. No mutex held. */
int pawl__call_until(struct redis *redis, const char *name, const struct redis_ask *ask, int64_t deadline, struct redis_answer *ret,
                     struct pawl_error *reterr);
/* The next server that has locks, after `server` or from the first; NULL: there are no more. No mutex held. */
struct server *pawl__server_next(struct redis *redis, struct server *server);
/* The one that has the lock of this name. No mutex held. */
struct server *pawl__server_having(struct redis *redis, const char *name);

/* survey.c, break.c */
/* Look at a lock. The caller frees the reply, in which it stays. */
int pawl__redis_look(struct redis *redis, const char *name, struct lock_view *ret, redisReply **retreply,
                     struct pawl_error *reterr);
pawl__survey_fn pawl__redis_survey;
/* Show who holds a lock, however many wait. */
int pawl__redis_look_by(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                        struct pawl_error *reterr);
pawl__break_fn pawl__redis_break;

#endif
