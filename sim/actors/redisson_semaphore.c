/* SPDX-License-Identifier: Apache-2.0
 *
 * redisson_semaphore.c - Redisson's two semaphores, as they are on the wire.
 *
 * Both keep the number of free permits in a string, and tell releases on `redisson_sc:{name}`, with that number. RSemaphore has nothing
 * else: who takes permits and dies takes them along. PermitExpirableSemaphore gives every permit an id of 16 bytes and an end, by the
 * clock of the client's host, in the sorted set `{name}:timeout`; each try takes back the permits that have ended.
 */
#include "redisson.h"

#include <stdio.h>
#include <string.h>

enum { ID_SIZE = 16, PERMITS_MAX = 8 };

struct permits {
    struct redisson redisson;
    char ends[ACTOR_NAME];
    char ids[PERMITS_MAX][ID_SIZE];
};

static struct permits *of(struct actor *actor) {
    return (struct permits *)actor;
}

/* ---- Both ----------------------------------------------------------------------------------------------------------------- */

/* So many permits, if nobody has said how many before. */
static int open_semaphore(struct actor *actor) {
    char limit[16];
    int code = redisson_open(actor);

    if (code != 0)
        return code;
    snprintf(limit, sizeof limit, "%u", actor->place->limit);
    redisReply *reply = redis_line_ask(&of(actor)->redisson.line,
                                       (const char *const[]){"EVAL",
                                                             "if redis.call('get', KEYS[1]) then return 0 end "
                                                             "redis.call('set', KEYS[1], ARGV[1]) "
                                                             "redis.call('publish', KEYS[2], ARGV[1]) return 1",
                                                             "2", actor->place->name, of(actor)->redisson.channel, limit, NULL});

    if (reply == NULL)
        return PAWL_ECONNLOST;
    freeReplyObject(reply);
    return 0;
}

/* ---- RSemaphore ----------------------------------------------------------------------------------------------------------- */

/* For ever, or so long that it makes no difference. */
#define NO_END_NS (INT64_C(86400) * 1000 * ACTOR_MS)

static redisReply *ask_counter(struct redisson *redisson, const char *script) {
    char permits[16];

    snprintf(permits, sizeof permits, "%u", redisson->actor.permits);
    return redis_line_ask(
        &redisson->line, (const char *const[]){"EVAL", script, "2", redisson->actor.place->name, redisson->channel, permits, NULL});
}

static enum script_answer semaphore_try(struct redisson *redisson, int64_t *ret_ms) {
    redisReply *reply = ask_counter(redisson, "local free = redis.call('get', KEYS[1]) "
                                              "if not free or tonumber(free) < tonumber(ARGV[1]) then return 0 end "
                                              "redis.call('decrby', KEYS[1], ARGV[1]) return 1");
    int64_t number = 0;
    enum script_answer answer = redis_answer(reply, &number);

    *ret_ms = -1;
    return answer == ANSWER_NUMBER && number == 1 ? ANSWER_NIL : answer;
}

static int semaphore_drop(struct actor *actor) {
    redisReply *reply = ask_counter(&of(actor)->redisson, "local free = redis.call('incrby', KEYS[1], ARGV[1]) "
                                                          "redis.call('publish', KEYS[2], free) return 1");

    if (reply == NULL)
        return PAWL_ECONNLOST;
    freeReplyObject(reply);
    return 0;
}

int actor_redisson_semaphore(const struct actor_place *place) {
    static const struct actor_ops ops = {open_semaphore, redisson_close, redisson_take, NULL, semaphore_drop, NULL};
    struct permits permits = {0};

    redisson_init(&permits.redisson, place, &ops, "redisson_sc");
    permits.redisson.try = semaphore_try;
    permits.redisson.actor.lease_ns = NO_END_NS;
    return actor_run(&permits.redisson.actor, &(struct actor_style){.mode = 'p', .permits = PERMITS_MAX});
}

/* ---- PermitExpirableSemaphore --------------------------------------------------------------------------------------------- */

static void draw_ids(struct permits *permits) {
    for (unsigned i = 0; i < permits->redisson.actor.permits; i++)
        for (int half = 0; half < 2; half++) {
            uint64_t number = dice_number(&permits->redisson.actor.dice);

            memcpy(permits->ids[i] + half * 8, &number, 8);
        }
}

/* KEYS: counter, channel, ends. ARGV: how many, when they end, now, the ids. */
static redisReply *ask_permits(struct permits *permits, const char *script) {
    const struct actor *actor = &permits->redisson.actor;
    const char *words[9 + PERMITS_MAX] = {"EVAL", script, "3", actor->place->name, permits->redisson.channel, permits->ends};
    size_t sizes[9 + PERMITS_MAX];
    char count[16], until[24], now[24];
    int used = 9;

    snprintf(count, sizeof count, "%u", actor->permits);
    snprintf(now, sizeof now, "%lld", (long long)actor_wall_ms());
    snprintf(until, sizeof until, "%lld", (long long)(actor_wall_ms() + actor->place->lease_ms));
    words[6] = count;
    words[7] = until;
    words[8] = now;
    for (int i = 0; i < used; i++)
        sizes[i] = strlen(words[i]);
    for (unsigned i = 0; i < actor->permits; i++, used++) {
        words[used] = permits->ids[i];
        sizes[used] = ID_SIZE;
    }
    return redis_line_ask_bytes(&permits->redisson.line, used, words, sizes);
}

/* The answer: nil, taken; else ms until the first permit ends, or -1. */
static enum script_answer permits_try(struct redisson *redisson, int64_t *ret_ms) {
    struct permits *permits = (struct permits *)redisson;

    draw_ids(permits);
    return redis_answer(
        ask_permits(permits, "local counter, channel, ends, count, now = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[3]) "
                             "local over = redis.call('zrangebyscore', ends, 0, now, 'limit', 0, count) "
                             "if #over > 0 then "
                             "  redis.call('zrem', ends, unpack(over)) "
                             "  local free = redis.call('incrby', counter, #over) "
                             "  if free > 0 then redis.call('publish', channel, free) end "
                             "end "
                             "local free = redis.call('get', counter) "
                             "if free and tonumber(free) >= tonumber(count) then "
                             "  redis.call('decrby', counter, count) "
                             "  for i = 4, #ARGV do redis.call('zadd', ends, ARGV[2], ARGV[i]) end "
                             "  local left = redis.call('pttl', counter) "
                             "  if left > 0 then redis.call('pexpire', ends, left) end "
                             "  return nil "
                             "end "
                             "local first = redis.call('zrange', ends, 0, 0, 'WITHSCORES') "
                             "return first[2] and math.max(0, tonumber(first[2]) - now) or -1"),
        ret_ms);
}

static int permits_drop(struct actor *actor) {
    int64_t number = 0;
    enum script_answer answer = redis_answer(
        ask_permits(of(actor), "local gone = 0 "
                               "for i = 4, #ARGV do gone = gone + redis.call('zrem', KEYS[3], ARGV[i]) end "
                               "if gone == 0 then return 0 end "
                               "redis.call('publish', KEYS[2], redis.call('incrby', KEYS[1], gone)) return gone"),
        &number);

    if (answer == ANSWER_NONE)
        return PAWL_ECONNLOST;
    return answer == ANSWER_NUMBER && number == actor->permits ? 0 : PAWL_ELOST;
}

int actor_redisson_permits(const struct actor_place *place) {
    static const struct actor_ops ops = {open_semaphore, redisson_close, redisson_take, NULL, permits_drop, NULL};
    struct permits permits = {0};

    redisson_init(&permits.redisson, place, &ops, "redisson_sc");
    redisson_suffixed(place->name, "timeout", permits.ends);
    permits.redisson.try = permits_try;
    return actor_run(&permits.redisson.actor, &(struct actor_style){.mode = 'p', .permits = PERMITS_MAX});
}
