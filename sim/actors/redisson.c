/* SPDX-License-Identifier: Apache-2.0
 *
 * redisson.c - Redisson's RLock and FairLock, as they are on the wire; and how all of its locks wait.
 *
 * RLock is a hash with one field, `uuid:thread` = how often it is held, that expires. Who finds it held gets the time that is left,
 * subscribes to the lock's channel, tries again, and sleeps until a message or the end of that time, whichever is first. A watchdog renews
 * at a third of the lease. FairLock has a list of waiters beside it, and a sorted set with the times (by the client's clock) at which
 * waiters count as dead; its release tells the first of the list, on a channel of its own.
 */
#include "redisson.h"

#include <stdio.h>
#include <string.h>

static struct redisson *of(struct actor *actor) {
    return (struct redisson *)actor;
}

/* ---- What all have in common ---------------------------------------------------------------------------------------------- */

static void name_owner(struct redisson *redisson) {
    snprintf(redisson->owner, sizeof redisson->owner, "%s:%u", redisson->uuid, redisson->thread);
}

void redisson_init(struct redisson *redisson, const struct actor_place *place, const struct actor_ops *ops, const char *channel) {
    memset(redisson, 0, sizeof *redisson);
    actor_init(&redisson->actor, place, ops);
    actor_uuid(&redisson->actor, redisson->uuid);
    redisson->thread = 1 + (unsigned)dice_below(&redisson->actor.dice, 90);
    name_owner(redisson);
    redisson_prefixed(channel, place->name, redisson->channel);
    snprintf(redisson->lease, sizeof redisson->lease, "%lld", (long long)place->lease_ms);
}

int redisson_open(struct actor *actor) {
    struct redisson *redisson = of(actor);

    if (redis_line_open(&redisson->line, actor->place) && redis_line_open(&redisson->subscription, actor->place))
        return 0;
    return PAWL_ECONNLOST;
}

void redisson_close(struct actor *actor) {
    redis_line_close(&of(actor)->line);
    redis_line_close(&of(actor)->subscription);
}

void redisson_be_another(struct redisson *redisson) {
    redisson->thread++;
    name_owner(redisson);
}

static enum script_answer try(struct redisson *redisson, int64_t *ret_ms) {
    int64_t sent_at = actor_now();
    enum script_answer answer = redisson->try(redisson, ret_ms);

    if (answer == ANSWER_NIL)
        redisson->actor.sent_at = sent_at;
    return answer;
}

/* Wait for a message. False: the line is gone. */
static bool listen_until(struct redisson *redisson, int64_t until) {
    while (actor_now() < until && !actor_over(&redisson->actor)) {
        redisReply *reply = redis_line_next(&redisson->subscription, until);

        if (redisson->subscription.context == NULL)
            return false;
        if (reply != NULL) {
            freeReplyObject(reply);
            return true;
        }
    }
    return true;
}

/* Subscribe, or the contrary, and wait for the word that it is done; messages before that are let go: a try follows. */
static bool subscribe(struct redisson *redisson, const char *verb) {
    int64_t until = actor_now() + 3000 * ACTOR_MS;
    bool done = false;

    if (!redis_line_say(&redisson->subscription, (const char *const[]){verb, redisson->channel, NULL}))
        return false;
    while (!done && actor_now() < until) {
        redisReply *reply = redis_line_next(&redisson->subscription, until);

        if (redisson->subscription.context == NULL)
            return false;
        done = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
               reply->element[2]->type == REDIS_REPLY_INTEGER;
        if (reply != NULL)
            freeReplyObject(reply);
    }
    return done;
}

/* The channel is on. */
static int wait_for_it(struct redisson *redisson) {
    int64_t ms;

    for (;;) {
        enum script_answer answer = try(redisson, &ms);

        if (answer == ANSWER_NIL)
            return 0;
        if (answer != ANSWER_NUMBER)
            return answer == ANSWER_NONE ? PAWL_ECONNLOST : PAWL_EKIND;
        if (actor_over(&redisson->actor))
            return PAWL_ECANCELED;
        if (!listen_until(redisson, ms < 0 ? INT64_MAX : actor_now() + ms * ACTOR_MS))
            return PAWL_ECONNLOST;
    }
}

int redisson_take(struct actor *actor) {
    struct redisson *redisson = of(actor);
    int64_t ms;
    enum script_answer answer = try(redisson, &ms);
    int code = 0;

    if (answer == ANSWER_NUMBER) {
        code = subscribe(redisson, "SUBSCRIBE") ? wait_for_it(redisson) : PAWL_ECONNLOST;
        if (code != PAWL_ECONNLOST && !subscribe(redisson, "UNSUBSCRIBE"))
            redis_line_open(&redisson->subscription, actor->place);
    } else if (answer != ANSWER_NIL) {
        code = answer == ANSWER_NONE ? PAWL_ECONNLOST : PAWL_EKIND;
    }
    if (code == PAWL_ECONNLOST)
        redisson_be_another(redisson);
    return code;
}

/* A script about the lock's own key, with the owner and the lease. */
static enum script_answer run(struct redisson *redisson, const char *script, int64_t *ret) {
    return redis_answer(
        redis_line_ask(&redisson->line, (const char *const[]){"EVAL", script, "2", redisson->actor.place->name, redisson->channel,
                                                              redisson->owner, redisson->lease, NULL}),
        ret);
}

/* ---- RLock ---------------------------------------------------------------------------------------------------------------- */

static enum script_answer lock_try(struct redisson *redisson, int64_t *ret_ms) {
    return run(redisson,
               "local lock, owner = KEYS[1], ARGV[1] "
               "if redis.call('exists', lock) == 1 and redis.call('hexists', lock, owner) == 0 then "
               "  return redis.call('pttl', lock) "
               "end "
               "redis.call('hincrby', lock, owner, 1) redis.call('pexpire', lock, ARGV[2]) return nil",
               ret_ms);
}

static int lock_renew(struct actor *actor) {
    int64_t number = 0, sent_at = actor_now();
    enum script_answer answer = run(of(actor),
                                    "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end "
                                    "return redis.call('pexpire', KEYS[1], ARGV[2])",
                                    &number);

    if (answer == ANSWER_NONE)
        return PAWL_ECONNLOST;
    if (answer != ANSWER_NUMBER || number != 1)
        return PAWL_ELOST;
    actor->sent_at = sent_at;
    return 0;
}

/* 1: not held any more. 0: held still. Nil: it was not. */
static int let_go(struct redisson *redisson, enum script_answer answer, int64_t number) {
    if (answer != ANSWER_NUMBER || number != 1)
        redisson_be_another(redisson);
    if (answer == ANSWER_NONE)
        return PAWL_ECONNLOST;
    return answer == ANSWER_NUMBER && number == 1 ? 0 : PAWL_ELOST;
}

static int lock_drop(struct actor *actor) {
    int64_t number = 0;
    enum script_answer answer = run(of(actor),
                                    "local lock, owner = KEYS[1], ARGV[1] "
                                    "if redis.call('hexists', lock, owner) == 0 then return nil end "
                                    "if redis.call('hincrby', lock, owner, -1) > 0 then "
                                    "  redis.call('pexpire', lock, ARGV[2]) return 0 "
                                    "end "
                                    "redis.call('del', lock) redis.call('publish', KEYS[2], '0') return 1",
                                    &number);

    return let_go(of(actor), answer, number);
}

int actor_redisson_lock(const struct actor_place *place) {
    static const struct actor_ops ops = {redisson_open, redisson_close, redisson_take, lock_renew, lock_drop, NULL};
    struct redisson redisson;

    redisson_init(&redisson, place, &ops, "redisson_lock__channel");
    redisson.try = lock_try;
    return actor_run(&redisson.actor, &(struct actor_style){.mode = 'x', .renew_part = 3});
}

/* ---- FairLock ------------------------------------------------------------------------------------------------------------- */

/* A waiter that is not heard of counts as dead after this, in ms. */
#define FAIR_PATIENCE "300000"

/* KEYS: lock, channel, queue, times. ARGV: owner, lease, now, patience. */
#define FAIR_HEAD                                                                                                                  \
    "local lock, queue, times, owner, now, patience = KEYS[1], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]) "   \
    "local function first() return redis.call('lindex', queue, 0) end "                                                            \
    "while first() do "                                                                                                            \
    "  local ends = redis.call('zscore', times, first()) "                                                                         \
    "  if not ends or tonumber(ends) > now then break end "                                                                        \
    "  redis.call('zrem', times, first()) redis.call('lpop', queue) "                                                              \
    "end "

static enum script_answer run_fair(struct redisson *redisson, const char *script, int64_t *ret) {
    char channel[ACTOR_NAME], queue[ACTOR_NAME], times[ACTOR_NAME], now[24];
    const char *name = redisson->actor.place->name;

    redisson_prefixed("redisson_lock__channel", name, channel);
    redisson_prefixed("redisson_lock_queue", name, queue);
    redisson_prefixed("redisson_lock_timeout", name, times);
    snprintf(now, sizeof now, "%lld", (long long)actor_wall_ms());
    return redis_answer(
        redis_line_ask(&redisson->line, (const char *const[]){"EVAL", script, "4", name, channel, queue, times, redisson->owner,
                                                              redisson->lease, now, FAIR_PATIENCE, NULL}),
        ret);
}

static enum script_answer fair_try(struct redisson *redisson, int64_t *ret_ms) {
    return run_fair(redisson,
                    FAIR_HEAD "if redis.call('exists', lock) == 0 and (not first() or first() == owner) then "
                              "  redis.call('lpop', queue) redis.call('zrem', times, owner) "
                              "  for _, other in ipairs(redis.call('zrange', times, 0, -1)) do "
                              "    redis.call('zincrby', times, -patience, other) "
                              "  end "
                              "  redis.call('hset', lock, owner, 1) redis.call('pexpire', lock, ARGV[2]) return nil "
                              "end "
                              "if redis.call('hexists', lock, owner) == 1 then "
                              "  redis.call('hincrby', lock, owner, 1) redis.call('pexpire', lock, ARGV[2]) return nil "
                              "end "
                              "if redis.call('zscore', times, owner) then return math.max(0, redis.call('pttl', lock)) end "
                              "local last = redis.call('lindex', queue, -1) "
                              "local ends = last and last ~= owner and redis.call('zscore', times, last) "
                              "local left = ends and tonumber(ends) - now or redis.call('pttl', lock) "
                              "if redis.call('zadd', times, left + patience + now, owner) == 1 then "
                              "  redis.call('rpush', queue, owner) "
                              "end "
                              "return left",
                    ret_ms);
}

static int fair_drop(struct actor *actor) {
    int64_t number = 0;
    enum script_answer answer = run_fair(
        of(actor),
        FAIR_HEAD "local function tell() "
                  "  if first() then redis.call('publish', KEYS[2] .. ':' .. first(), '0') end "
                  "end "
                  "if redis.call('exists', lock) == 0 then tell() return 1 end "
                  "if redis.call('hexists', lock, owner) == 0 then return nil end "
                  "if redis.call('hincrby', lock, owner, -1) > 0 then redis.call('pexpire', lock, ARGV[2]) return 0 end "
                  "redis.call('del', lock) tell() return 1",
        &number);

    return let_go(of(actor), answer, number);
}

/* A waiter that gives up leaves the queue. The channel is the owner's own. */
static int fair_take(struct actor *actor) {
    struct redisson *redisson = of(actor);
    char channel[ACTOR_NAME];
    int64_t number;

    redisson_prefixed("redisson_lock__channel", actor->place->name, channel);
    snprintf(redisson->channel, sizeof redisson->channel, "%.*s:%s", (int)(ACTOR_NAME - sizeof redisson->owner - 1), channel,
             redisson->owner);
    int code = redisson_take(actor);

    if (code == PAWL_ECANCELED)
        run_fair(redisson,
                 FAIR_HEAD "local all, behind = redis.call('lrange', queue, 0, -1), false "
                           "for _, other in ipairs(all) do "
                           "  if behind then redis.call('zincrby', times, -patience, other) end "
                           "  behind = behind or other == owner "
                           "end "
                           "redis.call('zrem', times, owner) return redis.call('lrem', queue, 0, owner)",
                 &number);
    return code;
}

int actor_redisson_fair(const struct actor_place *place) {
    static const struct actor_ops ops = {redisson_open, redisson_close, fair_take, lock_renew, fair_drop, NULL};
    struct redisson redisson;

    redisson_init(&redisson, place, &ops, "redisson_lock__channel");
    redisson.try = fair_try;
    return actor_run(&redisson.actor, &(struct actor_style){.mode = 'x', .renew_part = 3});
}
