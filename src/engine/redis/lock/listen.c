/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - the channels that are subscribed to for claims, and the keys that are tracked.
 *
 * Where one server has all locks, one channel per client is subscribed to when it is connected. In a cluster a message reaches a channel
 * of its own slot alone (SPUBLISH), so there is a subscription per lock that is waited for.
 *
 *     acquire, without queueing --> held by another --> SSUBSCRIBE --> subscribed: acquire, and queue
 *
 * Invariants
 *   - No claim queues unless its subscription is on, at the node where the claim is. So an acquire that finds the lock free costs one round
 *     trip, and one that waits is never passed over as dead.
 *   - A slot that moves away takes its channels along: the server says `sunsubscribe`. The subscription is off then, and its claims ask
 *     again.
 *   - A claim that holds has a subscription too, by which it is told of a break; nobody waits for that to be on. Where it goes off, or
 *     the server refuses it (CLUSTERDOWN, MOVED), it is asked for again, later and later, and with each renewal.
 *   - Subscriptions that nobody needs stay on for a while: the next acquire of the same lock can queue at once.
 *
 * Foreign holders publish their releases to a channel of the lock: who waits for one listens there. Those of the plain family never do.
 * The server itself can tell of changes to a key that was read (CLIENT TRACKING), to another connection than the one that read it: the
 * inbox. It does so for what is asked right after CLIENT CACHING YES, and once. Locks that are observed are followed so, too (observe.c).
 *
 * Nothing here changes the state of a claim; push.c does, when a message comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"

enum { IDLE_MAX = 1024 };

struct subscription {
    TAILQ_ENTRY(subscription) bucket; /* claims->subscriptions */
    TAILQ_ENTRY(subscription) idle;   /* claims->idle_subscriptions, while it has no claims */
    struct rclaim_list claims;
    struct home *home; /* where it is on, or will be */
    bool asked, on;
    int64_t since; /* on: it came on then */
    char channel[];
};

static unsigned bucket_of(const char *channel) {
    unsigned hash = 2166136261u;

    for (; *channel; channel++)
        hash = (hash ^ (unsigned char)*channel) * 16777619u;
    return hash % REDIS_SUBSCRIPTIONS;
}

static struct subscription *find(struct redis *redis, const char *channel) {
    struct subscription *subscription;

    TAILQ_FOREACH(subscription, &claims_of(redis)->subscriptions[bucket_of(channel)], bucket) {
        if (strcmp(subscription->channel, channel) == 0)
            return subscription;
    }
    return NULL;
}

static struct subscription *make(struct redis *redis, const char *channel) {
    struct claims *claims = claims_of(redis);
    struct subscription *subscription = calloc(1, sizeof *subscription + strlen(channel) + 1);

    if (!subscription)
        return NULL;
    strcpy(subscription->channel, channel);
    TAILQ_INIT(&subscription->claims);
    TAILQ_INSERT_TAIL(&claims->subscriptions[bucket_of(channel)], subscription, bucket);
    TAILQ_INSERT_TAIL(&claims->idle_subscriptions, subscription, idle);
    claims->idle_subscription_count++;
    return subscription;
}

static void say(struct subscription *subscription, bool on) {
    if (subscription->home)
        pawl__link_subscribe(&subscription->home->server.inbox, on, subscription->channel, 0);
}

static void forget(struct redis *redis, struct subscription *subscription) {
    struct claims *claims = claims_of(redis);

    if (subscription->on || subscription->asked)
        say(subscription, false);
    TAILQ_REMOVE(&claims->subscriptions[bucket_of(subscription->channel)], subscription, bucket);
    TAILQ_REMOVE(&claims->idle_subscriptions, subscription, idle);
    claims->idle_subscription_count--;
    free(subscription);
}

/* ---- Claims ------------------------------------------------------------------------------------------------------------------- */

bool pawl__subscription_on(const struct rclaim *claim) {
    return claim->subscription && claim->subscription->on && claim->subscription->home == claim->home;
}

int64_t pawl__subscription_since(const struct rclaim *claim) {
    if (!redis_has_lock_channels(claim->home->server.redis))
        return 0;
    return pawl__subscription_on(claim) ? claim->subscription->since : PAWL__NEVER;
}

static void join(struct redis *redis, struct rclaim *claim, struct subscription *subscription) {
    struct claims *claims = claims_of(redis);

    if (TAILQ_EMPTY(&subscription->claims)) {
        TAILQ_REMOVE(&claims->idle_subscriptions, subscription, idle);
        claims->idle_subscription_count--;
    }
    claim->subscription = subscription;
    TAILQ_INSERT_TAIL(&subscription->claims, claim, subscribed);
}

/* Give it the subscription of its lock, if there is one; or, where it needs one, make it. */
static void attach(struct redis *redis, struct rclaim *claim, bool needs) {
    char channel[REDIS_KEY_MAX + REDIS_UUID];
    struct redis_keys keys;
    struct subscription *subscription;

    if (claim->subscription || !redis_has_lock_channels(redis))
        return;
    pawl__redis_keys(redis, claim->kit.claim->name, claim->kit.claim->kind, &keys);
    snprintf(channel, sizeof channel, "%s%s", keys.inbox, redis->uuid);
    subscription = find(redis, channel);
    if (!subscription && needs)
        subscription = make(redis, channel);
    if (subscription)
        join(redis, claim, subscription);
}

bool pawl__subscription_suffices(struct redis *redis, struct rclaim *claim) {
    if (!redis_has_lock_channels(redis))
        return true;
    attach(redis, claim, false);
    return pawl__subscription_on(claim);
}

void pawl__subscription_open(struct redis *redis, struct rclaim *claim) {
    struct subscription *subscription;

    attach(redis, claim, true);
    subscription = claim->subscription;
    if (!subscription) /* not in a cluster; or no memory: then it asks again by its timer */
        return;
    if (subscription->home == claim->home && (subscription->on || subscription->asked))
        return;
    subscription->home = claim->home;
    subscription->on = false;
    subscription->asked = claim->home->server.inbox.state == LINK_UP;
    say(subscription, true);
}

void pawl__subscription_leave(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);
    struct subscription *subscription = claim->subscription;

    if (!subscription)
        return;
    claim->subscription = NULL;
    TAILQ_REMOVE(&subscription->claims, claim, subscribed);
    if (!TAILQ_EMPTY(&subscription->claims))
        return;
    TAILQ_INSERT_TAIL(&claims->idle_subscriptions, subscription, idle);
    if (++claims->idle_subscription_count > IDLE_MAX)
        forget(redis, TAILQ_FIRST(&claims->idle_subscriptions));
}

/* ---- The server ---------------------------------------------------------------------------------------------------------------- */

bool pawl__subscription_told(struct home *home, const char *channel, bool subscribed, struct rclaim_list **ret) {
    struct subscription *subscription = find(home->server.redis, channel);

    *ret = NULL;
    if (!subscription)
        return false;
    if (subscription->home != home)
        return true; /* of an earlier place */
    if (!subscribed)
        pawl__kit_note(&home->server.redis->kit, NULL, "sunsubscribe %s", channel);
    if (subscribed && !subscription->on)
        subscription->since = pawl__boottime();
    subscription->on = subscribed;
    subscription->asked = false;
    *ret = &subscription->claims;
    return true;
}

bool pawl__subscription_asked(const struct rclaim *claim, const struct home *home) {
    return claim->subscription && claim->subscription->home == home && claim->subscription->asked;
}

void pawl__subscriptions_refused(struct home *home) {
    struct subscription *subscription;

    for (unsigned i = 0; i < REDIS_SUBSCRIPTIONS; i++)
        TAILQ_FOREACH(subscription, &claims_of(home->server.redis)->subscriptions[i], bucket) {
            if (subscription->home == home)
                subscription->asked = false;
        }
}

void pawl__subscriptions_off(struct home *home) {
    struct subscription *subscription;

    for (unsigned i = 0; i < REDIS_SUBSCRIPTIONS; i++)
        TAILQ_FOREACH(subscription, &claims_of(home->server.redis)->subscriptions[i], bucket) {
            if (subscription->home == home)
                subscription->on = subscription->asked = false;
        }
}

void pawl__subscriptions_init(struct redis *redis) {
    struct claims *claims = claims_of(redis);

    TAILQ_INIT(&claims->idle_subscriptions);
    for (unsigned i = 0; i < REDIS_SUBSCRIPTIONS; i++)
        TAILQ_INIT(&claims->subscriptions[i]);
}

void pawl__subscriptions_free(struct redis *redis) {
    struct claims *claims = claims_of(redis);
    struct subscription *subscription;

    for (unsigned i = 0; i < REDIS_SUBSCRIPTIONS; i++)
        while ((subscription = TAILQ_FIRST(&claims->subscriptions[i]))) {
            TAILQ_REMOVE(&claims->subscriptions[i], subscription, bucket);
            free(subscription);
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

void pawl__listen_all_off(struct home *home) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home)
            claim->listens = false;
    }
}

void pawl__listen_again(struct home *home) {
    struct rclaim *claim;

    pawl__subscriptions_off(home);
    pawl__listen_all_off(home);
    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home && rclaim_holds(claim))
            pawl__subscription_open(home->server.redis, claim);
    }
}

/* ---- Tracking ------------------------------------------------------------------------------------------------------------ */

static bool send_words(struct link *link, int argc, const char **argv, enum asked what) {
    struct request request = {.what = what, .script = -1};

    return pawl__link_say(link, argc, argv, &request);
}

#define INVALIDATE "__redis__:invalidate"

static void track(struct home *home) {
    char number[24];

    snprintf(number, sizeof number, "%lld", (long long)home->server.inbox_number);
    /* Off first: it may be on, towards an inbox that is gone. */
    if (send_words(&home->server.commands, 3, (const char *[]){"CLIENT", "TRACKING", "OFF"}, ASKED_NOTHING))
        send_words(&home->server.commands, 6, (const char *[]){"CLIENT", "TRACKING", "ON", "REDIRECT", number, "OPTIN"},
                   ASKED_TRACKING);
}

/* Only for observers? */
static bool tracks_for_watches(const struct redis *redis) {
    return redis->options.layout == LAYOUT_REDISSON || redis_has_lock_channels(redis);
}

/* In a cluster the inbox may have no channel yet: what is told before it has this one is lost. And what is said of channels there answers
 * no request. */
void pawl__listen_track(struct home *home) {
    const struct redis *redis = home->server.redis;

    home->tracks = false;
    if (!home->server.inbox_number || (tracks_for_watches(redis) && !home->watch_count))
        return;
    if (redis_has_lock_channels(redis))
        pawl__link_say(&home->server.inbox, 2, (const char *[]){"SUBSCRIBE", INVALIDATE}, NULL);
    else if (send_words(&home->server.inbox, 2, (const char *[]){"SUBSCRIBE", INVALIDATE}, ASKED_NOTHING))
        track(home);
}

void pawl__listen_channel(struct home *home) {
    if (home->watch_count && home->server.commands.state == LINK_UP)
        track(home);
}

void pawl__listen_tracked(struct home *home, const redisReply *reply) {
    home->tracks = reply && reply->type == REDIS_REPLY_STATUS;
}

void pawl__listen_untrack(struct home *home) {
    if (!home->tracks || !tracks_for_watches(home->server.redis))
        return;
    home->tracks = false;
    send_words(&home->server.commands, 3, (const char *[]){"CLIENT", "TRACKING", "OFF"}, ASKED_NOTHING);
}

void pawl__listen_track_next(const struct rclaim *claim) {
    if (claim->home->tracks && claim->foreign_held)
        send_words(&claim->home->server.commands, 3, (const char *[]){"CLIENT", "CACHING", "YES"}, ASKED_NOTHING);
}
