/* SPDX-License-Identifier: Apache-2.0
 *
 * push.c - what comes by the inbox: grants, hints and breaks from pawl's own scripts; and the releases of programs that are not pawl.
 *
 *     g NUMBER TOKEN COUNT TIME MS WANTED   claim NUMBER holds since the server's TIME (us), for MS. WANTED 1, or nothing: others wait
 *                                     behind it
 *     h NUMBER MS FOREIGN             it is the first that waits, and the holder's time ends in MS (-1: never). FOREIGN 1: the holder is a
 *                                     program that is not pawl; 0: it is pawl. Earlier versions say nothing of it
 *     b NUMBER NOW                    its hold is broken; NOW 1: and gone already. It may come before we know of the hold, or after that
 *                                     has expired: then acquire is asked, and tells
 *     w NUMBER                        others wait for it: kept.c
 *
 * When does a pushed grant begin? No request of ours left for it, and it may have lain in the socket, or on its way, for seconds. How long,
 * the server's clock does not tell: it may have been set, or run fast. But it tells what came first. If it shows the grant after the answer
 * to a request of ours, the grant was made after that request left; so it is counted from there, by our own clock. What is too old by that
 * count, or older than all requests that we know of, is asked for again, by acquire, before it is believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"
#include "base/lease.h"

/* What a hold with a limit may lose of it, since it counts from before the grant: one part in so many. */
enum { LIMIT_PARTS = 16 };
/* It may have let go before we listened: look again. */
#define LISTENING "listening to foreign holders"

/* Is a grant that may be of that moment as fresh as it must be? */
static bool is_fresh(const struct rclaim *claim, int64_t begin, int64_t lease) {
    int64_t now = pawl__boottime(), limit = claim->kit.claim->max_hold_ns;

    return begin && now < pawl__lease_suspect_at(begin, lease) && (!limit || now - begin <= limit / LIMIT_PARTS);
}

/* The numbers of a message, in its order; those of a grant are most. */
struct numbers {
    int count;
    int64_t n[6];
};
enum { NUMBER, GRANT_TOKEN, GRANT_COUNT, GRANT_TIME, GRANT_MS, GRANT_WANTED, NUMBERS, HEAD_MS = 1, HEAD_FOREIGN, BREAK_NOW = 1 };

static void read_numbers(const char *text, struct numbers *ret) {
    char *end;

    for (ret->count = 0; ret->count < NUMBERS; ret->count++, text = end) {
        ret->n[ret->count] = strtoll(text, &end, 10);
        if (end == text)
            return;
    }
}

/* The server has the last word, by acquire: whether it is held, with which token, and whether it was broken. */
static void ask_anew(struct redis *redis, struct rclaim *claim) {
    pawl__rclaim_leave_round(claim);
    claim->ask_number++;
    pawl__rclaim_step(redis, claim, RCLAIM_STALE);
}

static void take_grant(struct home *home, struct rclaim *claim, const struct numbers *said) {
    struct redis *redis = home->server.redis;
    int64_t ms = said->n[GRANT_MS], at = said->n[GRANT_TIME], begin, lease;
    uint64_t token = (uint64_t)said->n[GRANT_TOKEN];
    uint32_t count = (uint32_t)said->n[GRANT_COUNT];

    if (said->count <= GRANT_MS || token == 0 || token > REDIS_TOKEN_MAX || said->n[GRANT_COUNT] <= 0 ||
        said->n[GRANT_COUNT] > REDIS_TOKENS_MAX || ms <= 0 || ms > REDIS_SPAN_MAX || !redis_time_makes_sense(at))
        return;
    /* A later grant of a claim that holds, by an acquire that was still on its way: the hold ended, and others may have held since. */
    if (home == claim->home && token > claim->kit.grant.token)
        pawl__rclaim_lost(redis, claim, false, "the hold of '%s' ended on the server, which has granted it anew: release it",
                          claim->kit.claim->name);
    if (claim->state != RCLAIM_ASKING && claim->state != RCLAIM_WAITING)
        return;
    begin = home == claim->home ? pawl__home_not_before(home, at) : 0; /* in a cluster, its slot may have moved since */
    lease = ms * REDIS_MS;
    if (is_fresh(claim, begin, lease) && !redis->options.replicas) {
        claim->ask_number++; /* what was asked before the grant counts no more */
        claim->asked = false;
        pawl__kit_note(&redis->kit, &claim->kit, "PUBLISH: granted for %lld ms", (long long)ms);
        if (said->count > GRANT_WANTED && said->n[GRANT_WANTED] == 1)
            pawl__kept_wanted(redis, claim);
        pawl__rclaim_granted(redis, claim, token, count, begin, lease);
        return;
    }
    pawl__kit_note(&redis->kit, &claim->kit, "PUBLISH: granted, but %s: asking the server",
                   redis->options.replicas ? "replicas must have it" : "maybe long ago");
    /* A claim that was granted, expired, queued again and granted again has a later token than the first message says. */
    ask_anew(redis, claim);
}

/* It may overtake the answer to acquire, which was written before: then it counts when that has come. */
static void take_head(struct redis *redis, struct rclaim *claim, const struct numbers *said) {
    int64_t ms = said->n[HEAD_MS], ends;

    if (said->count <= HEAD_MS || ms > REDIS_SPAN_MAX || (claim->state != RCLAIM_WAITING && claim->state != RCLAIM_ASKING))
        return;
    claim->position = 0;
    ends = ms < 0 ? PAWL__NEVER : pawl__boottime() + (ms + 2) * REDIS_MS;
    if (said->count > HEAD_FOREIGN && said->n[HEAD_FOREIGN] == 1) {
        claim->foreign_held = true;
        pawl__listen_foreign(redis, claim);
    }
    if (claim->asked)
        claim->head_until = ends;
    if (claim->state == RCLAIM_WAITING && ends < claim->timer.at)
        pawl__rclaim_set_timer(redis, claim, ends, true);
}

static void take_break(struct redis *redis, struct rclaim *claim, const struct numbers *said) {
    bool gone = said->count > BREAK_NOW && said->n[BREAK_NOW] == 1;

    if (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING || claim->state == RCLAIM_SECURING) {
        pawl__kit_note(&redis->kit, &claim->kit, "PUBLISH: broken: asking the server");
        ask_anew(redis, claim);
    } else if (gone) {
        pawl__rclaim_lost(redis, claim, false, "the hold of '%s' was broken by an operator: stop and release it",
                          claim->kit.claim->name);
    } else {
        pawl__rclaim_broken(redis, claim);
    }
}

/* Something was let go. An answer that is on its way may have been written before that: then it is followed by another question. */
static void look_again(struct redis *redis, struct rclaim *claim) {
    claim->asks_again = claim->asked;
    pawl__rclaim_drive(redis, claim);
}

static void take_message(struct home *home, const char *text) {
    struct redis *redis = home->server.redis;
    struct numbers said;
    struct rclaim *claim;

    if (!text[0])
        return;
    read_numbers(text + 1, &said);
    if (!said.count || !(claim = pawl__rclaim_find(redis, (uint64_t)said.n[NUMBER])))
        return;
    if (text[0] == 'g')
        take_grant(home, claim, &said);
    else if (text[0] == 'h')
        take_head(redis, claim, &said);
    else if (text[0] == 'b')
        take_break(redis, claim, &said);
    else if (text[0] == 'w')
        pawl__kept_wanted(redis, claim);
}

/* Keys have changed: those who observe them, or wait for them, look again. An array, or nil for all of them (FLUSHALL). */
static void take_changes(struct home *home, const redisReply *keys) {
    struct redis *redis = home->server.redis;
    struct redis_keys own;
    struct rclaim *claim;

    if (keys->type != REDIS_REPLY_ARRAY)
        pawl__watch_all(home, true);
    for (size_t i = 0; keys->type == REDIS_REPLY_ARRAY && i < keys->elements; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            pawl__watch_changed(home, keys->element[i]->str);
    TAILQ_FOREACH(claim, &claims_of(redis)->all, all) {
        if (claim->home != home || !claim->foreign_held || (claim->state != RCLAIM_WAITING && claim->state != RCLAIM_ASKING))
            continue;
        pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &own);
        for (size_t i = 0; keys->type == REDIS_REPLY_ARRAY && i < keys->elements; i++)
            if (keys->element[i]->type == REDIS_REPLY_STRING && strcmp(keys->element[i]->str, own.lock) == 0) {
                pawl__kit_note(&redis->kit, &claim->kit, "the key has changed");
                look_again(redis, claim);
                break;
            }
    }
}

/* ---- Foreign releases ----------------------------------------------------------------------------------------------------- */

/* What came of the channel, and is a reason to look again. */
static void take_foreign(struct redis *redis, const char *channel, const char *what) {
    struct redis_keys keys;
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(redis)->all, all) {
        if (!claim->listens || (claim->state != RCLAIM_WAITING && claim->state != RCLAIM_ASKING))
            continue;
        pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
        if (strcmp(keys.channel, channel) == 0) {
            pawl__kit_note(&redis->kit, &claim->kit, "%s", what);
            look_again(redis, claim);
        }
    }
}

void pawl__push_listened(struct redis *redis, const redisReply *reply) {
    char channel[REDIS_KEY_MAX];

    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || reply->element[1]->type != REDIS_REPLY_STRING)
        return;
    snprintf(channel, sizeof channel, "%s", reply->element[1]->str);
    take_foreign(redis, channel, LISTENING);
}

/* ---- Channels ------------------------------------------------------------------------------------------------------------ */

static void hear_again(struct redis *redis, struct rclaim *claim) {
    if (pawl__subscription_on(claim)) {
        claim->failures = 0;
        if (claim->keeping.listed)
            pawl__renew_want(claim);
        redis->kit.wakes |= claim->keeping.listed;
        return;
    }
    pawl__kept_unheard(claim);
    pawl__subscription_open(redis, claim);
}

/* Claims that wait ask again: to queue, or to subscribe anew; holders only subscribe. Driving a claim may end it, but frees none while
 * the mutex is held. */
static void drive_claims(struct redis *redis, const struct rclaim_list *claims) {
    struct rclaim *claim, *next;

    for (claim = TAILQ_FIRST(claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, subscribed);
        if (claim->state == RCLAIM_WAITING || claim->state == RCLAIM_ASKING)
            pawl__rclaim_drive(redis, claim);
        else if (rclaim_holds(claim))
            hear_again(redis, claim);
    }
}

void pawl__push_channel(struct home *home, const char *channel, bool subscribed) {
    struct redis *redis = home->server.redis;
    struct rclaim_list *claims;

    if (strcmp(channel, "__redis__:invalidate") == 0) {
        pawl__listen_channel(home);
        return;
    }
    if (pawl__subscription_told(home, channel, subscribed, &claims)) {
        if (claims)
            drive_claims(redis, claims);
    } else if (subscribed) {
        take_foreign(redis, channel, LISTENING);
    } else {
        pawl__listen_off(redis, channel);
    }
}

void pawl__push_take(struct home *home, const redisReply *reply) {
    struct redis *redis = home->server.redis;
    const redisReply *channel = reply->element[1], *text = reply->element[2];
    size_t length = channel->type == REDIS_REPLY_STRING ? channel->len : 0;

    if (channel->type == REDIS_REPLY_STRING && strcmp(channel->str, "__redis__:invalidate") == 0) {
        take_changes(home, text);
        return;
    }
    if (channel->type != REDIS_REPLY_STRING || text->type != REDIS_REPLY_STRING)
        return;
    if (strncmp(channel->str, "pawl:inbox:", 11) == 0 && length > REDIS_UUID &&
        strcmp(channel->str + length - REDIS_UUID, redis->uuid) == 0)
        take_message(home, text->str);
    else
        take_foreign(redis, channel->str, "a foreign holder let go");
}
