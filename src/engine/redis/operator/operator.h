/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.h - for operators: what there is, and breaking it.
 */
#ifndef PAWL_REDIS_OPERATOR_H
#define PAWL_REDIS_OPERATOR_H

#include "engine/redis/wire/wire.h"

/* warn.c: what about a server endangers locks. */
/* Once: what an operator should know. No mutex held. */
void pawl__server_warn(struct server *server);

/* examine.c */
pawl__examine_fn pawl__redis_examine;

/* call.c */
/* Run a command (script -1) or a script, and wait for its answer, which is not an error. NULL: reterr says why. `lengths` of a script's
 * arguments; NULL: they are texts. */
redisReply *pawl__server_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                              struct pawl_error *reterr);
/* The next server that has locks, after `server` or from the first; NULL: there are no more. No mutex held. */
struct server *pawl__server_next(struct redis *redis, struct server *server);
/* The one that has the lock of this name. No mutex held. */
struct server *pawl__server_having(struct redis *redis, const char *name);

/* survey.c, break.c */
pawl__survey_fn pawl__redis_survey;
pawl__break_fn pawl__redis_break;

#endif
