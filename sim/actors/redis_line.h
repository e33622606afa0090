/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_line.h - a connection to Redis for code that blocks; and Redisson's rules for names.
 */
#ifndef PAWL_SIM_REDIS_LINE_H
#define PAWL_SIM_REDIS_LINE_H

#include <hiredis/hiredis.h>

#include "actor.h"

struct redis_line {
    struct redisContext *context; /* NULL: there is none */
};

bool redis_line_open(struct redis_line *line, const struct actor_place *place);
void redis_line_close(struct redis_line *line);

/* Ask, and wait for the answer. NULL: there is none, and the line is closed. `words` end with NULL. */
redisReply *redis_line_ask(struct redis_line *line, const char *const *words);
/* The same for words with any bytes. */
redisReply *redis_line_ask_bytes(struct redis_line *line, int count, const char **words, const size_t *sizes);
/* The next message, until that time at the latest (a look every 100 ms: NULL may come early). NULL with an open line: none has come. */
redisReply *redis_line_next(struct redis_line *line, int64_t until);
/* Say without an answer to wait for. */
bool redis_line_say(struct redis_line *line, const char *const *words);

/* The answer of a script that is a number or nil. */
enum script_answer { ANSWER_NONE, ANSWER_NIL, ANSWER_NUMBER, ANSWER_ERROR };
/* Takes the reply. */
enum script_answer redis_answer(redisReply *reply, int64_t *ret);

/* Redisson's rules: `p:{n}`, and `{n}:s`; without braces of ours where the name has some. */
void redisson_prefixed(const char *prefix, const char *name, char ret[ACTOR_NAME]);
void redisson_suffixed(const char *name, const char *suffix, char ret[ACTOR_NAME]);

#endif
