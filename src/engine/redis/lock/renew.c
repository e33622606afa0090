/* SPDX-License-Identifier: Apache-2.0
 *
 * renew.c - renewals: many holds in one script, each only as long as it is its owner's.
 *
 * The core says when a hold is to be renewed; those of one round go together, up to BATCH of a kind. Their answers are a list; what is
 * not its owner's any more is lost, and so is what an operator has broken: the message of that is lost where a connection is. A renewal
 * that found no connection, or no answer, is asked for again when there is one, unless the core has given the hold up meanwhile: it does
 * so by its own clock, and asks for nothing after that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"

enum { BATCH = 100, ARGS_EACH = 4 };
/* When what the server refuses for a while is asked for again, or what there was no memory for. */
#define AGAIN_NS (100 * REDIS_MS)

void pawl__renew_want(struct rclaim *claim) {
    if (claim->renewal.listed || claim->renewal.sent || !rclaim_holds(claim))
        return;
    claim->renewal.listed = true;
    TAILQ_INSERT_TAIL(&claim->home->to_renew, claim, renewal.entry);
}

void pawl__renew_put_back(struct rclaim *claim) {
    claim->renewal.sent = false;
    pawl__renew_want(claim);
}

void pawl__renew_done(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns) {
    claim->renewal.sent = false;
    claim->kit.grant.sent_at = sent_at;
    claim->kit.grant.lease_ns = lease_ns;
    pawl__subscription_open(redis, claim); /* if it is not */
    pawl__kept_confirmed(claim, sent_at);
    if (!claim->renewal.asked_at) /* the core may just be reading what it was granted */
        return;
    if (sent_at >= claim->renewal.asked_at)
        claim->renewal.asked_at = 0;
    else
        pawl__renew_want(claim); /* it was on its way when the core asked */
    pawl__kit_tell(&redis->kit, &claim->kit, KIT_RENEWED);
}

void pawl__renew_answered(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns, int64_t held) {
    claim->renewal.sent = false;
    if (!rclaim_holds(claim))
        return;
    if (held == 2)
        pawl__kept_wanted(redis, claim);
    if (held > 0 && redis->options.replicas) {
        claim->renewal.sent = true;
        pawl__rclaim_to_secure(claim, sent_at, lease_ns);
    } else if (held > 0) {
        pawl__renew_done(redis, claim, sent_at, lease_ns);
    } else if (held == -1) {
        pawl__rclaim_lost(redis, claim, false,
                          "a RReadWriteLock of Redisson's has entered '%s' beside this hold: give it another name",
                          claim->kit.claim->name);
    } else if (held == -2) {
        pawl__rclaim_broken(redis, claim);
    } else {
        pawl__rclaim_lost(redis, claim, false, "the hold of '%s' is not on the server any more: its key expired, or was deleted",
                          claim->kit.claim->name);
    }
}

static bool ask_elsewhere(const struct request *request, const redisReply *reply);

void pawl__renew_answer(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct group *batch = request->data;
    struct pawl_error why;
    enum reply_class class = reply ? pawl__reply_class(reply, &why) : REPLY_AGAIN;

    if (class == REPLY_ASK && ask_elsewhere(request, reply))
        return;
    if (class == REPLY_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == batch->count) {
        for (size_t i = 0; i < batch->count; i++)
            if (batch->members[i].claim)
                pawl__renew_answered(redis, batch->members[i].claim, batch->sent_at, batch->members[i].lease_ns,
                                     pawl__reply_number(reply, i, 0));
    } else {
        if (reply)
            pawl__kit_note(&redis->kit, NULL, "renewal of %zu holds: %s", batch->count,
                           class == REPLY_OK ? "a strange answer" : why.text);
        for (size_t i = 0; i < batch->count; i++)
            if (batch->members[i].claim)
                pawl__renew_put_back(batch->members[i].claim);
        home_of(request->server)->renew_at = class == REPLY_NOSCRIPT || class == REPLY_MOVED || !reply
                                                 ? 0
                                                 : pawl__boottime() + AGAIN_NS;
        pawl__redis_due(redis, home_of(request->server)->renew_at);
    }
    free(batch);
    if (class == REPLY_MOVED)
        pawl__cluster_moved(request->server, reply, NULL);
    if (class == REPLY_READONLY)
        pawl__link_drop(&request->server->commands, why.code, "%s", why.text);
}

/* The next ones of a kind, up to BATCH. */
static struct group *collect(struct home *home, enum pawl_kind kind) {
    struct group *batch = malloc(sizeof *batch + BATCH * sizeof batch->members[0]);
    struct rclaim *claim, *next;

    if (!batch)
        return NULL;
    batch->count = 0;
    for (claim = TAILQ_FIRST(&home->to_renew); claim && batch->count < BATCH; claim = next) {
        next = TAILQ_NEXT(claim, renewal.entry);
        /* In a cluster a script is of one slot. */
        if (batch->count && claim->slot != batch->members[0].claim->slot)
            break;
        if (claim->kit.claim->kind != kind)
            continue;
        TAILQ_REMOVE(&home->to_renew, claim, renewal.entry);
        claim->renewal.listed = false;
        claim->renewal.sent = true;
        batch->members[batch->count++].claim = claim;
    }
    return batch;
}

struct renew_texts {
    struct redis_keys keys;
    char hold[REDIS_KEY_MAX + REDIS_OWNER_MAX + 32], permits[16], lease[24];
};

/* Any claim that is still there. It stands in for those that have ended, so that answers keep their positions. */
static const struct rclaim *any_of(const struct group *batch) {
    for (size_t i = 0; i < batch->count; i++)
        if (batch->members[i].claim)
            return batch->members[i].claim;
    return NULL;
}

/* The key that says whether the hold is there, where that is not the lock's own. */
static const char *hold_key(const struct rclaim *claim, struct renew_texts *texts) {
    if (claim->kit.claim->kind == PAWL_SEMAPHORE)
        return texts->keys.beside;
    if (claim->mode != PAWL_SHARED)
        return texts->keys.lock;
    snprintf(texts->hold, sizeof texts->hold, "%s%s:rwlock_timeout:1", texts->keys.beside, claim->owner);
    return texts->hold;
}

/* KEYS: lock, record and what decides of each; ARGV: of each its owner, its lease, what lies beside, and its permits. */
static bool send_batch(struct home *home, enum pawl_kind kind, struct group *batch, const struct request *request) {
    const struct redis *redis = home->server.redis;
    struct renew_texts *texts = calloc(batch->count, sizeof *texts);
    const char *argv[BATCH * (REDIS_RENEW_KEYS + ARGS_EACH)];
    size_t each = pawl__redis_renew_keys(redis, kind), keys = batch->count * each, used = keys;
    bool ok;

    if (!texts)
        return false;
    batch->sent_at = pawl__boottime();
    for (size_t i = 0; i < batch->count; i++) {
        const struct rclaim *claim = batch->members[i].claim ? batch->members[i].claim : any_of(batch);

        pawl__redis_keys(redis, claim->kit.claim->name, kind, &texts[i].keys);
        batch->members[i].lease_ns = pawl__rclaim_lease_ns(redis, claim);
        snprintf(texts[i].permits, sizeof texts[i].permits, "%u", claim->kit.claim->permits);
        snprintf(texts[i].lease, sizeof texts[i].lease, "%lld", (long long)(batch->members[i].lease_ns / REDIS_MS));
        argv[i * each] = texts[i].keys.lock;
        if (each > 1)
            argv[i * each + 1] = texts[i].keys.who;
        if (each == REDIS_RENEW_KEYS)
            argv[i * each + 2] = hold_key(claim, &texts[i]);
        argv[used++] = claim->owner;
        argv[used++] = texts[i].lease;
        argv[used++] = texts[i].keys.beside;
        argv[used++] = texts[i].permits;
    }
    ok = pawl__script_send(&home->server, SCRIPT_RENEW + (int)kind, (int)keys, (int)used, argv, NULL, request);
    free(texts);
    return ok;
}

/* The keys are on their way to another node, and those of these holds may have arrived: once, it is asked there. */
static bool ask_elsewhere(const struct request *request, const redisReply *reply) {
    static const struct request no_reply = {.script = -1};
    struct group *batch = request->data;
    struct server *server = pawl__cluster_asked(request->server, reply);
    struct request again = *request;
    const struct rclaim *first = any_of(batch);

    if (!server || !first || request->step || server->commands.state != LINK_UP)
        return false;
    again.step = 1;
    return pawl__link_say(&server->commands, 1, (const char *[]){"ASKING"}, &no_reply) &&
           send_batch(home_of(server), first->kit.claim->kind, batch, &again);
}

static bool any_of_kind(const struct home *home, enum pawl_kind kind) {
    const struct rclaim *claim;

    TAILQ_FOREACH(claim, &home->to_renew, renewal.entry) {
        if (claim->kit.claim->kind == kind)
            return true;
    }
    return false;
}

void pawl__renew_flush(struct home *home) {
    if (TAILQ_EMPTY(&home->to_renew) || home->server.commands.state != LINK_UP || pawl__boottime() < home->renew_at)
        return;
    for (int kind = PAWL_MUTEX; kind <= PAWL_SEMAPHORE; kind++)
        while (any_of_kind(home, (enum pawl_kind)kind)) {
            struct group *batch = collect(home, (enum pawl_kind)kind);
            struct request request = {.what = ASKED_RENEWAL, .data = batch};

            if (!batch) {
                home->renew_at = pawl__boottime() + AGAIN_NS;
                return;
            }
            pawl__kit_note(&home->server.redis->kit, NULL, "renewing %zu holds in one script", batch->count);
            if (!send_batch(home, (enum pawl_kind)kind, batch, &request)) {
                for (size_t i = 0; i < batch->count; i++)
                    pawl__renew_put_back(batch->members[i].claim);
                free(batch);
                home->renew_at = home->server.commands.state == LINK_UP ? pawl__boottime() + AGAIN_NS : 0; /* no memory */
                return;
            }
        }
}

void pawl__renew_all(struct home *home) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home)
            pawl__renew_want(claim);
    }
}

/* ---- Looking for those who wait ------------------------------------------------------------------------------------------ */

/* Programs that are not pawl, and pawls of earlier versions, do not tell that they wait: each renewal looks for them. It does so for claims
 * that may be kept or are being handed on inside the process: any other claim is released when its holder is done, and they get it then.
 * At most LOOKS at a time: where there are more, it takes longer. */
enum { LOOKS = 20 };

static bool was_handed_on(struct rclaim *claim) {
    return atomic_exchange_explicit(&claim->kit.claim->handed_on, false, memory_order_relaxed);
}

static void look(struct hearers *hearers, int64_t now, bool kept) {
    const struct rclaim *last = TAILQ_LAST(&hearers->claims, rclaim_list);
    struct rclaim *claim = NULL;
    bool busy = false;

    for (int i = 0; i < LOOKS && claim != last; i++) {
        bool due, heard;

        claim = TAILQ_FIRST(&hearers->claims);
        TAILQ_REMOVE(&hearers->claims, claim, keeping.entry);
        TAILQ_INSERT_TAIL(&hearers->claims, claim, keeping.entry);
        heard = atomic_load_explicit(&claim->keeping.heard, memory_order_relaxed);
        due = kept ? now - claim->kit.grant.sent_at >= hearers_look_ns(false) : was_handed_on(claim);
        busy |= due && !kept;
        if ((due || !heard) && !atomic_load_explicit(&claim->keeping.wanted, memory_order_relaxed))
            pawl__renew_want(claim);
    }
    hearers->look_at = last ? now + hearers_look_ns(busy) : 0;
}

void pawl__renew_look(struct home *home, int64_t now) {
    for (int i = 0; i < HEARERS; i++)
        if (home->hearers[i].look_at && now >= home->hearers[i].look_at)
            look(&home->hearers[i], now, i == HEARS_KEPT);
}

void pawl__renew_hearers(struct home *home) {
    struct rclaim *claim;

    for (int i = 0; i < HEARERS; i++)
        TAILQ_FOREACH(claim, &home->hearers[i].claims, keeping.entry) {
            pawl__renew_want(claim);
        }
}
