/* SPDX-License-Identifier: Apache-2.0
 *
 * push.c - what comes by the inbox: grants, hints and breaks from pawl's own scripts; and the releases of programs that are not pawl.
 *
 *     g NUMBER TOKEN COUNT TIME MS    claim NUMBER holds since the server's TIME (us), for MS
 *     h NUMBER MS FOREIGN             it is the first that waits, and the holder's time ends in MS (-1: never). FOREIGN 1: the holder is a
 *                                     program that is not pawl; 0: it is pawl. Earlier versions say nothing of it
 *     b NUMBER NOW                    its hold is broken; NOW 1: and gone already
 *
 * When does a pushed grant begin? No request of ours left for it, and it may have lain in the socket, or on its way, for seconds. How
 * long, the server's clock does not tell: it may have been set, or run fast. But it tells what came first. What it shows to be later than
 * the answer to a request of ours is later than that request left, by our own clock; so from there the grant is counted. What is too old by
 * that count, or older than all requests that we know of, is asked for again, by acquire, before it is believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"
#include "base/lease.h"

/* So far apart are the two pairs of a node, about: a push may be older than an answer that overtook it. */
#define TIE_NS (100 * REDIS_MS)
/* What a hold with a limit may lose of it, since it counts from before the grant: one part in so many. */
enum { LIMIT_PARTS = 16 };
#define SERVER_US_MAX (INT64_MAX / 4000) /* of a clock that makes sense; and in nanoseconds there is room for it */

static bool makes_sense(int64_t server_us) {
    return server_us > 0 && server_us <= SERVER_US_MAX;
}

void pawl__push_tie(struct home *home, int64_t local, int64_t server_us) {
    if (!makes_sense(server_us))
        return;
    if (!home_knows_clock(home))
        home->pair_server = home->tie_server = home->token_floor = 0;
    home->clock_number = home->server.commands.number;
    if (!home->token_floor)
        home->token_floor = server_us;
    if (local - home->tie_local >= TIE_NS) {
        home->tie_local = home->pair_local;
        home->tie_server = home->pair_server;
    }
    home->pair_local = local;
    home->pair_server = server_us;
}

/* The moment, by our clock, that the server's `server_us` was not before; 0: not known. */
static int64_t not_before(const struct home *home, int64_t server_us) {
    if (!home_knows_clock(home))
        return 0;
    if (home->pair_server && server_us >= home->pair_server)
        return home->pair_local;
    return home->tie_server && server_us >= home->tie_server ? home->tie_local : 0;
}

/* Is a grant that may be of that moment as fresh as it must be? */
static bool is_fresh(const struct rclaim *claim, int64_t begin, int64_t lease) {
    int64_t now = pawl__boottime(), limit = claim->kit.claim->max_hold_ns;

    return begin && now < pawl__lease_suspect_at(begin, lease) && (!limit || now - begin <= limit / LIMIT_PARTS);
}

/* The numbers of a message, in its order; those of a grant are most. */
struct numbers {
    int count;
    int64_t n[5];
};
enum { NUMBER = 0, GRANT_TOKEN = 1, GRANT_COUNT, GRANT_TIME, GRANT_MS, GRANT_NUMBERS, HEAD_MS = 1, HEAD_FOREIGN, BREAK_NOW = 1 };

static void read_numbers(const char *text, struct numbers *ret) {
    char *end;

    for (ret->count = 0; ret->count < GRANT_NUMBERS; ret->count++, text = end) {
        ret->n[ret->count] = strtoll(text, &end, 10);
        if (end == text)
            return;
    }
}

static void take_grant(struct home *home, struct rclaim *claim, const struct numbers *said) {
    struct redis *redis = home->server.redis;
    int64_t ms = said->n[GRANT_MS], at = said->n[GRANT_TIME], begin, lease;
    uint64_t token = (uint64_t)said->n[GRANT_TOKEN];
    uint32_t count = (uint32_t)said->n[GRANT_COUNT];

    if (said->count != GRANT_NUMBERS || token == 0 || token > REDIS_TOKEN_MAX || said->n[GRANT_COUNT] <= 0 ||
        said->n[GRANT_COUNT] > REDIS_TOKENS_MOST || ms <= 0 || ms > REDIS_SPAN_MOST || !makes_sense(at))
        return;
    if (claim->state != RCLAIM_ASKING && claim->state != RCLAIM_WAITING)
        return;
    begin = home == claim->home ? not_before(home, at) : 0; /* in a cluster, its slot may have moved since */
    lease = ms * REDIS_MS;
    if (is_fresh(claim, begin, lease) && !redis->options.replicas) {
        claim->turn++; /* what was asked before the grant counts no more */
        claim->asked = false;
        pawl__kit_note(&redis->kit, &claim->kit, "PUBLISH: granted for %lld ms", (long long)ms);
        pawl__claim_granted(redis, claim, token, count, begin, lease);
        return;
    }
    pawl__kit_note(&redis->kit, &claim->kit, "PUBLISH: granted, but %s: asking the server",
                   redis->options.replicas ? "replicas must have it" : "maybe long ago");
    /* By acquire, which tells the token too: a claim that was granted, expired, queued again and granted again has a later one than the
     * first message says. */
    claim->turn++;
    pawl__claim_step(redis, claim, RCLAIM_STALE);
}

/* It may overtake the answer to acquire, which was written before: then it counts when that has come. */
static void take_head(struct redis *redis, struct rclaim *claim, const struct numbers *said) {
    int64_t ms = said->n[HEAD_MS], ends;

    if (said->count <= HEAD_MS || ms > REDIS_SPAN_MOST || (claim->state != RCLAIM_WAITING && claim->state != RCLAIM_ASKING))
        return;
    claim->position = 0;
    ends = ms < 0 ? PAWL__NEVER : pawl__boottime() + (ms + 2) * REDIS_MS;
    if (said->count > HEAD_FOREIGN && said->n[HEAD_FOREIGN] == 1) {
        claim->foreign_held = true;
        pawl__push_listen(redis, claim);
    }
    if (claim->asked)
        claim->head_until = ends;
    if (claim->state == RCLAIM_WAITING && ends < claim->timer.at)
        pawl__claim_set_timer(redis, claim, ends, true);
}

static void take_break(struct redis *redis, struct rclaim *claim, const struct numbers *said) {
    bool gone = said->count > BREAK_NOW && said->n[BREAK_NOW] == 1;

    claim->vote.freed = gone;
    pawl__claim_lost(redis, claim, !gone, "the hold of '%s' was broken by an operator: stop and release it",
                     claim->kit.claim->name);
}

/* Something was let go. An answer that is on its way may have been written before that: then it is followed by another question. */
static void look_again(struct redis *redis, struct rclaim *claim) {
    claim->asks_again = claim->asked;
    if (!is_voter(redis))
        pawl__claim_drive(redis, claim);
    else if (!claim->asked)
        pawl__claim_say_waits(redis, claim, 0);
}

static void take_message(struct home *home, const char *text) {
    struct redis *redis = home->server.redis;
    struct numbers said;
    struct rclaim *claim;

    if (!text[0])
        return;
    read_numbers(text + 1, &said);
    if (!said.count || !(claim = pawl__claim_find(redis, (uint64_t)said.n[NUMBER])))
        return;
    if (text[0] == 'g')
        take_grant(home, claim, &said);
    else if (text[0] == 'h')
        take_head(redis, claim, &said);
    else if (text[0] == 'b')
        take_break(redis, claim, &said);
    else if (text[0] == 'w' && (claim->state == RCLAIM_WAITING || claim->state == RCLAIM_ASKING))
        look_again(redis, claim); /* of a voter: it is its turn */
}

/* ---- Tracking --------------------------------------------------------------------------------------------------------------
 *
 * Holders of the plain family never publish. The server itself can tell of changes to a key that was read (CLIENT TRACKING), to another
 * connection than the one that read it: the inbox. It does so for what is asked right after CLIENT CACHING YES, and once.
 */

static void tracking_answered(struct redis *redis, struct request *request, redisReply *reply) {
    (void)redis;
    home_of(request->server)->tracks = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
}

static bool send_words(struct link *link, int argc, const char **argv, redis_reply_fn *answered) {
    struct request request = {.answered = answered, .script = -1};

    return pawl__link_say(link, argc, argv, &request);
}

void pawl__push_track(struct home *home) {
    char number[24];

    home->tracks = false;
    if (home->server.redis->options.layout == LAYOUT_REDISSON || !home->server.inbox_number)
        return;
    snprintf(number, sizeof number, "%lld", (long long)home->server.inbox_number);
    if (!send_words(&home->server.inbox, 2, (const char *[]){"SUBSCRIBE", "__redis__:invalidate"}, NULL))
        return;
    /* Off first: it may be on, towards an inbox that is gone. */
    if (send_words(&home->server.commands, 3, (const char *[]){"CLIENT", "TRACKING", "OFF"}, NULL))
        send_words(&home->server.commands, 6, (const char *[]){"CLIENT", "TRACKING", "ON", "REDIRECT", number, "OPTIN"},
                   tracking_answered);
}

void pawl__push_track_next(const struct rclaim *claim) {
    if (claim->home->tracks && claim->foreign_held)
        send_words(&claim->home->server.commands, 3, (const char *[]){"CLIENT", "CACHING", "YES"}, NULL);
}

/* Keys have changed: those who wait for them look again. An array, or nil for all of them (FLUSHALL). */
static void take_changes(struct home *home, const redisReply *keys) {
    struct redis *redis = home->server.redis;
    struct redis_keys own;
    struct rclaim *claim;

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

static bool same_lock(const struct rclaim *a, const struct rclaim *b) {
    return a->kit.claim->kind == b->kit.claim->kind && strcmp(a->kit.claim->name, b->kit.claim->name) == 0;
}

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

static void stop_listening(struct redis *redis, const struct rclaim *claim) {
    bool cluster = in_cluster(redis);
    struct request request = {.script = -1};
    struct redis_keys keys;

    if (claim->home->server.inbox.state != LINK_UP)
        return;
    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    pawl__link_say(&claim->home->server.inbox, 2, (const char *[]){cluster ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", keys.channel},
                   cluster ? NULL : &request);
}

static bool another_listens(struct redis *redis, const struct rclaim *claim) {
    struct rclaim *other;

    TAILQ_FOREACH(other, &claims_of(redis)->all, all) {
        if (other != claim && other->listens && same_lock(other, claim))
            return true;
    }
    return false;
}

static void listened(struct redis *redis, struct request *request, redisReply *reply) {
    char channel[REDIS_KEY_MAX];

    (void)request;
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2 && reply->element[1]->type == REDIS_REPLY_STRING) {
        snprintf(channel, sizeof channel, "%s", reply->element[1]->str);
        pawl__push_foreign(redis, channel, true);
    }
    freeReplyObject(reply);
}

void pawl__push_listen(struct redis *redis, struct rclaim *claim) {
    bool cluster = in_cluster(redis);
    struct request request = {.answered = listened, .script = -1};
    struct redis_keys keys;

    if (claim->listens || claim->home->server.inbox.state != LINK_UP)
        return;
    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    if (!keys.channel[0])
        return;
    claim->listens = true;
    pawl__link_say(&claim->home->server.inbox, 2, (const char *[]){cluster ? "SSUBSCRIBE" : "SUBSCRIBE", keys.channel},
                   cluster ? NULL : &request);
}

void pawl__push_foreign(struct redis *redis, const char *channel, bool subscribed) {
    struct redis_keys keys;
    struct rclaim *claim;

    if (subscribed) { /* it may have let go before we listened: look again */
        take_foreign(redis, channel, "listening to foreign holders");
        return;
    }
    TAILQ_FOREACH(claim, &claims_of(redis)->all, all) {
        if (!claim->listens)
            continue;
        pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
        claim->listens = strcmp(keys.channel, channel) != 0; /* asking again will tell whether it must */
    }
}

void pawl__push_unlisten(struct redis *redis, struct rclaim *claim) {
    if (!claim->listens)
        return;
    claim->listens = false;
    if (!another_listens(redis, claim))
        stop_listening(redis, claim);
}

void pawl__push_deaf(struct home *home) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home)
            claim->listens = false;
    }
}

void pawl__push_listen_again(struct home *home) {
    struct rclaim *claim;

    pawl__ears_off(home);
    pawl__push_deaf(home);
    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home && rclaim_holds(claim))
            pawl__ear_open(home->server.redis, claim);
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
