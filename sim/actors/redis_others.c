/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_others.c - redis-py's Lock; and one that only listens.
 *
 * redis-py's Lock is a string with a random value: SET NX PX, tried again every 100 ms; released by a script that compares and deletes.
 * Nothing is renewed and nobody is told.
 */
#include "redis_line.h"

#include <stdio.h>
#include <string.h>

/* ---- redis-py ------------------------------------------------------------------------------------------------------------- */

enum { POLL_MS = 100 };

struct plain {
    struct actor actor;
    struct redis_line line;
    char value[ACTOR_UUID];
};

static struct plain *of(struct actor *actor) {
    return (struct plain *)actor;
}

static int plain_open(struct actor *actor) {
    return redis_line_open(&of(actor)->line, actor->place) ? 0 : PAWL_ECONNLOST;
}

static void plain_close(struct actor *actor) {
    redis_line_close(&of(actor)->line);
}

static int plain_take(struct actor *actor) {
    char lease[24];

    snprintf(lease, sizeof lease, "%lld", (long long)actor->place->lease_ms);
    actor_hex(actor, of(actor)->value);
    while (!actor_over(actor)) {
        int64_t sent_at = actor_now();
        redisReply *reply = redis_line_ask(
            &of(actor)->line, (const char *const[]){"SET", actor->place->name, of(actor)->value, "NX", "PX", lease, NULL});
        bool taken = reply != NULL && reply->type == REDIS_REPLY_STATUS;

        if (reply == NULL)
            return PAWL_ECONNLOST;
        freeReplyObject(reply);
        if (taken) {
            actor->sent_at = sent_at;
            return 0;
        }
        actor_nap(actor, actor_now() + POLL_MS * ACTOR_MS);
    }
    return PAWL_ECANCELED;
}

static int plain_drop(struct actor *actor) {
    int64_t number = 0;
    redisReply *reply = redis_line_ask(&of(actor)->line,
                                       (const char *const[]){"EVAL",
                                                             "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
                                                             "redis.call('del', KEYS[1]) return 1",
                                                             "1", actor->place->name, of(actor)->value, NULL});
    enum script_answer answer = redis_answer(reply, &number);

    if (answer == ANSWER_NONE)
        return PAWL_ECONNLOST;
    return answer == ANSWER_NUMBER && number == 1 ? 0 : PAWL_ELOST;
}

int actor_redis_py(const struct actor_place *place) {
    static const struct actor_ops ops = {plain_open, plain_close, plain_take, NULL, plain_drop, NULL};
    struct plain plain = {0};

    actor_init(&plain.actor, place, &ops);
    return actor_run(&plain.actor, &(struct actor_style){.mode = 'x'});
}

/* ---- One that listens ----------------------------------------------------------------------------------------------------- */

static void listen_for_a_while(const struct actor *actor, struct redis_line *line) {
    while (line->context != NULL && !actor_over(actor)) {
        redisReply *reply = redis_line_next(line, INT64_MAX);

        if (reply != NULL)
            freeReplyObject(reply);
    }
}

int actor_redis_subscriber(const struct actor_place *place) {
    const char *prefix = place->kind == 'r' ? "redisson_rwlock" : place->kind == 's' ? "redisson_sc" : "redisson_lock__channel";
    struct redis_line line = {0};
    char channel[ACTOR_NAME];
    struct actor actor;

    actor_init(&actor, place, NULL);
    redisson_prefixed(prefix, place->name, channel);
    while (!actor_over(&actor)) {
        if (redis_line_open(&line, place) && redis_line_say(&line, (const char *const[]){"SUBSCRIBE", channel, NULL}))
            listen_for_a_while(&actor, &line);
        if (line.context == NULL)
            actor_nap(&actor, actor_now() + 50 * ACTOR_MS);
    }
    redis_line_close(&line);
    return 0;
}
