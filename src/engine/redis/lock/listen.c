/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - the channels that are subscribed to for claims, and the keys that are tracked.
 *
 * Where one server has all locks, one channel per client is subscribed to when it is connected. In a cluster a message reaches a channel
 * of its own slot alone (SPUBLISH), so there is a channel per lock that is waited for: an ear.
 *
 *     acquire, without queueing --> held by another --> SSUBSCRIBE --> subscribed: acquire, and queue
 *
 * Invariants
 *   - No claim queues without its ear being on, at the node where the claim is. So an acquire that finds the lock free costs one round
 *     trip, and one that waits is never passed over as dead.
 *   - A slot that moves away takes its channels along: the server says `sunsubscribe`. The ear is off then, and its claims ask again.
 *   - A claim that holds has an ear too, by which it is told of a break; nobody waits for that to be on. Where it goes off, or the server
 *     refuses it (CLUSTERDOWN, MOVED), it is asked for again, later and later, and with each renewal.
 *   - Ears that nobody needs stay on for a while: the next acquire of the same lock can queue at once.
 *
 * Foreign holders publish their releases to a channel of the lock: who waits for one listens there. Those of the plain family never do.
 * The server itself can tell of changes to a key that was read (CLIENT TRACKING), to another connection than the one that read it: the
 * inbox. It does so for what is asked right after CLIENT CACHING YES, and once.
 *
 * Nothing here changes the state of a claim; push.c does, when a message comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"

enum { IDLE_MOST = 1024 };

struct ear {
    TAILQ_ENTRY(ear) bucket; /* claims->ears */
    TAILQ_ENTRY(ear) idle;   /* claims->idle_ears, while it has no claims */
    struct rclaim_list claims;
    struct home *home; /* where it is on, or will be */
    bool asked, on;
    char channel[];
};

static unsigned bucket_of(const char *channel) {
    unsigned hash = 2166136261u;

    for (; *channel; channel++)
        hash = (hash ^ (unsigned char)*channel) * 16777619u;
    return hash % REDIS_EARS;
}

static struct ear *find(struct redis *redis, const char *channel) {
    struct ear *ear;

    TAILQ_FOREACH(ear, &claims_of(redis)->ears[bucket_of(channel)], bucket) {
        if (strcmp(ear->channel, channel) == 0)
            return ear;
    }
    return NULL;
}

static struct ear *make(struct redis *redis, const char *channel) {
    struct claims *claims = claims_of(redis);
    struct ear *ear = calloc(1, sizeof *ear + strlen(channel) + 1);

    if (!ear)
        return NULL;
    strcpy(ear->channel, channel);
    TAILQ_INIT(&ear->claims);
    TAILQ_INSERT_TAIL(&claims->ears[bucket_of(channel)], ear, bucket);
    TAILQ_INSERT_TAIL(&claims->idle_ears, ear, idle);
    claims->idle_ear_count++;
    return ear;
}

static void say(struct ear *ear, bool on) {
    if (ear->home)
        pawl__link_subscribe(&ear->home->server.inbox, on, ear->channel, 0);
}

static void forget(struct redis *redis, struct ear *ear) {
    struct claims *claims = claims_of(redis);

    if (ear->on || ear->asked)
        say(ear, false);
    TAILQ_REMOVE(&claims->ears[bucket_of(ear->channel)], ear, bucket);
    TAILQ_REMOVE(&claims->idle_ears, ear, idle);
    claims->idle_ear_count--;
    free(ear);
}

/* ---- Claims ------------------------------------------------------------------------------------------------------------------- */

bool pawl__ear_on(const struct rclaim *claim) {
    return claim->ear && claim->ear->on && claim->ear->home == claim->home;
}

static void join(struct redis *redis, struct rclaim *claim, struct ear *ear) {
    struct claims *claims = claims_of(redis);

    if (TAILQ_EMPTY(&ear->claims)) {
        TAILQ_REMOVE(&claims->idle_ears, ear, idle);
        claims->idle_ear_count--;
    }
    claim->ear = ear;
    TAILQ_INSERT_TAIL(&ear->claims, claim, hearing);
}

/* Give it the ear of its lock, if there is one; or, where it needs one, make it. */
static void attach(struct redis *redis, struct rclaim *claim, bool needs) {
    char channel[REDIS_KEY_MAX + REDIS_UUID];
    struct redis_keys keys;
    struct ear *ear;

    if (claim->ear || !redis->traits.sharded)
        return;
    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    snprintf(channel, sizeof channel, "%s%s", keys.inbox, redis->uuid);
    ear = find(redis, channel);
    if (!ear && needs)
        ear = make(redis, channel);
    if (ear)
        join(redis, claim, ear);
}

void pawl__ear_find(struct redis *redis, struct rclaim *claim) {
    attach(redis, claim, false);
}

void pawl__ear_open(struct redis *redis, struct rclaim *claim) {
    struct ear *ear;

    attach(redis, claim, true);
    ear = claim->ear;
    if (!ear) /* not in a cluster; or no memory: then it asks again by its timer */
        return;
    if (ear->home == claim->home && (ear->on || ear->asked))
        return;
    ear->home = claim->home;
    ear->on = false;
    ear->asked = claim->home->server.inbox.state == LINK_UP;
    say(ear, true);
}

void pawl__ear_leave(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);
    struct ear *ear = claim->ear;

    if (!ear)
        return;
    claim->ear = NULL;
    TAILQ_REMOVE(&ear->claims, claim, hearing);
    if (!TAILQ_EMPTY(&ear->claims))
        return;
    TAILQ_INSERT_TAIL(&claims->idle_ears, ear, idle);
    if (++claims->idle_ear_count > IDLE_MOST)
        forget(redis, TAILQ_FIRST(&claims->idle_ears));
}

/* ---- The server ---------------------------------------------------------------------------------------------------------------- */

bool pawl__ear_told(struct home *home, const char *channel, bool subscribed, struct rclaim_list **ret) {
    struct ear *ear = find(home->server.redis, channel);

    *ret = NULL;
    if (!ear)
        return false;
    if (ear->home != home)
        return true; /* of an earlier place */
    if (!subscribed)
        pawl__kit_note(&home->server.redis->kit, NULL, "sunsubscribe %s", channel);
    ear->on = subscribed;
    ear->asked = false;
    *ret = &ear->claims;
    return true;
}

bool pawl__ear_asked(const struct rclaim *claim, const struct home *home) {
    return claim->ear && claim->ear->home == home && claim->ear->asked;
}

void pawl__ears_refused(struct home *home) {
    struct ear *ear;

    for (unsigned i = 0; i < REDIS_EARS; i++)
        TAILQ_FOREACH(ear, &claims_of(home->server.redis)->ears[i], bucket) {
            if (ear->home == home)
                ear->asked = false;
        }
}

void pawl__ears_off(struct home *home) {
    struct ear *ear;

    for (unsigned i = 0; i < REDIS_EARS; i++)
        TAILQ_FOREACH(ear, &claims_of(home->server.redis)->ears[i], bucket) {
            if (ear->home == home)
                ear->on = ear->asked = false;
        }
}

void pawl__ears_init(struct redis *redis) {
    struct claims *claims = claims_of(redis);

    TAILQ_INIT(&claims->idle_ears);
    for (unsigned i = 0; i < REDIS_EARS; i++)
        TAILQ_INIT(&claims->ears[i]);
}

void pawl__ears_free(struct redis *redis) {
    struct claims *claims = claims_of(redis);
    struct ear *ear;

    for (unsigned i = 0; i < REDIS_EARS; i++)
        while ((ear = TAILQ_FIRST(&claims->ears[i]))) {
            TAILQ_REMOVE(&claims->ears[i], ear, bucket);
            free(ear);
        }
}

/* ---- Foreign holders ----------------------------------------------------------------------------------------------------- */

static bool same_lock(const struct rclaim *a, const struct rclaim *b) {
    return a->kit.claim->kind == b->kit.claim->kind && strcmp(a->kit.claim->name, b->kit.claim->name) == 0;
}

static bool another_listens(struct redis *redis, const struct rclaim *claim) {
    struct rclaim *other;

    TAILQ_FOREACH(other, &claims_of(redis)->all, all) {
        if (other != claim && other->listens && same_lock(other, claim))
            return true;
    }
    return false;
}

void pawl__listen_foreign(struct redis *redis, struct rclaim *claim) {
    struct redis_keys keys;

    if (claim->listens || claim->home->server.inbox.state != LINK_UP)
        return;
    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    if (!keys.channel[0])
        return;
    claim->listens = true;
    pawl__link_subscribe(&claim->home->server.inbox, true, keys.channel, ASKED_CHANNEL);
}

static void stop_listening(struct redis *redis, const struct rclaim *claim) {
    struct redis_keys keys;

    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    pawl__link_subscribe(&claim->home->server.inbox, false, keys.channel, 0);
}

void pawl__listen_no_more(struct redis *redis, struct rclaim *claim) {
    if (!claim->listens)
        return;
    claim->listens = false;
    if (!another_listens(redis, claim))
        stop_listening(redis, claim);
}

void pawl__listen_off(struct redis *redis, const char *channel) {
    struct redis_keys keys;
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(redis)->all, all) {
        if (!claim->listens)
            continue;
        pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
        claim->listens = strcmp(keys.channel, channel) != 0; /* asking again will tell whether it must */
    }
}

void pawl__listen_deaf(struct home *home) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home)
            claim->listens = false;
    }
}

void pawl__listen_again(struct home *home) {
    struct rclaim *claim;

    pawl__ears_off(home);
    pawl__listen_deaf(home);
    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home && rclaim_holds(claim))
            pawl__ear_open(home->server.redis, claim);
    }
}

/* ---- Tracking ------------------------------------------------------------------------------------------------------------ */

static bool send_words(struct link *link, int argc, const char **argv, enum asked what) {
    struct request request = {.what = what, .script = -1};

    return pawl__link_say(link, argc, argv, &request);
}

void pawl__listen_track(struct home *home) {
    char number[24];

    home->tracks = false;
    if (!home->server.inbox_number) /* which is asked for where tracking is of use */
        return;
    snprintf(number, sizeof number, "%lld", (long long)home->server.inbox_number);
    if (!send_words(&home->server.inbox, 2, (const char *[]){"SUBSCRIBE", "__redis__:invalidate"}, ASKED_NOTHING))
        return;
    /* Off first: it may be on, towards an inbox that is gone. */
    if (send_words(&home->server.commands, 3, (const char *[]){"CLIENT", "TRACKING", "OFF"}, ASKED_NOTHING))
        send_words(&home->server.commands, 6, (const char *[]){"CLIENT", "TRACKING", "ON", "REDIRECT", number, "OPTIN"},
                   ASKED_TRACKING);
}

void pawl__listen_tracked(struct home *home, const redisReply *reply) {
    home->tracks = reply && reply->type == REDIS_REPLY_STATUS;
}

void pawl__listen_track_next(const struct rclaim *claim) {
    if (claim->home->tracks && claim->foreign_held)
        send_words(&claim->home->server.commands, 3, (const char *[]){"CLIENT", "CACHING", "YES"}, ASKED_NOTHING);
}
