/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_line.c - a connection to Redis for code that blocks. See redis_line.h.
 *
 * hiredis reads and writes without blocking here, and poll() waits: so every wait has an end. Any error closes the line.
 */
#include "redis_line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* An answer takes no longer; a server that is silent for so long is given up. */
#define ANSWER_NS (3000 * ACTOR_MS)

void redis_line_close(struct redis_line *line) {
    if (line->context != NULL)
        redisFree(line->context);
    line->context = NULL;
}

static bool is_due(int64_t until) {
    return actor_now() >= until;
}

/* Ready for one of the events before it is too late? */
static bool await(struct redis_line *line, short events, int64_t until) {
    struct pollfd wait = {.fd = line->context->fd, .events = events};
    int64_t left = until - actor_now();

    return poll(&wait, 1, left > 0 ? (int)((left + ACTOR_MS - 1) / ACTOR_MS) : 0) > 0;
}

static bool flush(struct redis_line *line, int64_t until) {
    int done = 0;

    while (line->context != NULL && redisBufferWrite(line->context, &done) == REDIS_OK) {
        if (done)
            return true;
        if (!await(line, POLLOUT, until))
            break;
    }
    redis_line_close(line);
    return false;
}

/* The next reply. NULL with an open line: it is late. */
static redisReply *read_reply(struct redis_line *line, int64_t until) {
    void *reply = NULL;

    while (line->context != NULL) {
        if (redisGetReplyFromReader(line->context, &reply) != REDIS_OK) {
            redis_line_close(line);
            return NULL;
        }
        if (reply != NULL)
            return reply;
        if (!await(line, POLLIN, until) && is_due(until))
            return NULL;
        if (redisBufferRead(line->context) != REDIS_OK)
            redis_line_close(line);
    }
    return NULL;
}

bool redis_line_open(struct redis_line *line, const struct actor_place *place) {
    redis_line_close(line);
    line->context = redisConnectNonBlock(place->host, (int)place->port);
    if (line->context == NULL || line->context->err != 0 || !await(line, POLLOUT, actor_now() + ANSWER_NS)) {
        redis_line_close(line);
        return false;
    }
    redisReply *reply = redis_line_ask(line, (const char *const[]){"PING", NULL});

    if (reply != NULL)
        freeReplyObject(reply);
    return line->context != NULL;
}

redisReply *redis_line_ask_bytes(struct redis_line *line, int count, const char **words, const size_t *sizes) {
    int64_t until = actor_now() + ANSWER_NS;

    if (line->context == NULL)
        return NULL;
    if (redisAppendCommandArgv(line->context, count, words, sizes) != REDIS_OK) {
        redis_line_close(line);
        return NULL;
    }
    redisReply *reply = flush(line, until) ? read_reply(line, until) : NULL;

    if (reply == NULL)
        redis_line_close(line);
    return reply;
}

enum { WORDS_MAX = 32 };

static int measure(const char *const *words, const char **ret, size_t *ret_sizes) {
    int count = 0;

    for (; count < WORDS_MAX && words[count] != NULL; count++) {
        ret[count] = words[count];
        ret_sizes[count] = strlen(words[count]);
    }
    return count;
}

redisReply *redis_line_ask(struct redis_line *line, const char *const *words) {
    const char *copies[WORDS_MAX];
    size_t sizes[WORDS_MAX];
    int count = measure(words, copies, sizes);

    return redis_line_ask_bytes(line, count, copies, sizes);
}

bool redis_line_say(struct redis_line *line, const char *const *words) {
    const char *copies[WORDS_MAX];
    size_t sizes[WORDS_MAX];
    int count = measure(words, copies, sizes);

    if (line->context == NULL)
        return false;
    if (redisAppendCommandArgv(line->context, count, copies, sizes) == REDIS_OK)
        return flush(line, actor_now() + ANSWER_NS);
    redis_line_close(line);
    return false;
}

redisReply *redis_line_next(struct redis_line *line, int64_t until) {
    int64_t slice = actor_now() + actor_slice_ms(until) * ACTOR_MS;

    return read_reply(line, slice);
}

enum script_answer redis_answer(redisReply *reply, int64_t *ret) {
    enum script_answer answer = ANSWER_ERROR;

    if (reply == NULL)
        return ANSWER_NONE;
    if (reply->type == REDIS_REPLY_NIL)
        answer = ANSWER_NIL;
    if (reply->type == REDIS_REPLY_INTEGER) {
        *ret = reply->integer;
        answer = ANSWER_NUMBER;
    }
    freeReplyObject(reply);
    return answer;
}

void redisson_prefixed(const char *prefix, const char *name, char ret[ACTOR_NAME]) {
    snprintf(ret, ACTOR_NAME, strchr(name, '{') != NULL ? "%s:%s" : "%s:{%s}", prefix, name);
}

void redisson_suffixed(const char *name, const char *suffix, char ret[ACTOR_NAME]) {
    snprintf(ret, ACTOR_NAME, strchr(name, '{') != NULL ? "%s:%s" : "{%s}:%s", name, suffix);
}
