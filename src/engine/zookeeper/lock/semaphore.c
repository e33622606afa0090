/* SPDX-License-Identifier: Apache-2.0
 *
 * semaphore.c - Curator's InterProcessSemaphoreV2, and with one lease its InterProcessSemaphoreMutex.
 *
 *     home/locks/_c_u-lock-N     a queue, as a mutex's: only its first makes leases
 *     home/leases/_c_u-lease-N   one per permit: held when there are no more than the limit
 *
 * Curator takes several permits one by one, leaving the queue in between; two that want 2 of 2 then end with one each. Here the first
 * of the queue makes all its leases by one request and stays first until there is room for all of them. Only it watches the leases.
 * When it gives up, its leases go before its place in the queue: so nobody counts leases that are about to go.
 *
 * All nodes of a claim have its GUID: that is how they are found after any lost reply, and how an operator sees that they belong
 * together.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *leases_dir(const struct zk_claim *claim) {
    return pawl__zk_text("%s/leases", claim->at.home);
}

/* The one that was made first has the data, by which an operator finds the hold, and marks it: so that one is watched (renew.c). */
static void put_marked_first(char **leases, uint32_t count) {
    int64_t lowest = INT64_MAX, number;

    for (uint32_t i = 0; i < count; i++) {
        char *lease = leases[i];

        if (!pawl__zk_number(lease, &number) || number >= lowest)
            continue;
        lowest = number;
        leases[i] = leases[0];
        leases[0] = lease;
    }
}

/* Note the paths of our leases. False: no memory. */
static bool note_leases(struct zk_claim *claim, const struct String_vector *children) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < claim->at.lease_count; i++)
        free(claim->at.leases[i]);
    free(claim->at.leases);
    claim->at.lease_count = 0;
    claim->at.leases = calloc(claim->terms.permits, sizeof *claim->at.leases);
    if (!claim->at.leases)
        return false;
    for (int i = 0; i < children->count && count < claim->terms.permits; i++) {
        if (!pawl__zk_has_guid(children->data[i], claim->at.guid))
            continue;
        claim->at.leases[count] = pawl__zk_text("%s/leases/%s", claim->at.home, children->data[i]);
        if (!claim->at.leases[count])
            return false;
        claim->at.lease_count = ++count;
    }
    put_marked_first(claim->at.leases, count);
    return true;
}

static int on_event(struct zk_asker *asker, int type) {
    struct zk_claim *claim = zk_claim_of_asker(asker);

    if (type == ZK_WATCH_MISSED) {
        pawl__zk_watch_drop(claim->watch.ahead);
        return ZK_MISSED;
    }
    pawl__zk_say_of(claim, "woken: the leases changed");
    return ZK_TOO_MANY; /* as far as is known */
}

/* All our leases are there. */
static enum zk_event judge_leases(struct zk_claim *claim, int total, bool watched) {
    if ((uint32_t)total <= claim->terms.limit) {
        pawl__zk_next_number(claim);
        return claim->kind_seen ? ZK_CHECK_KIND : pawl__zk_first(claim); /* once more: it may have left */
    }
    pawl__zk_say_of(claim, "%d leases, %u permits: watching the leases", total, claim->terms.limit);
    if (claim->terms.try_only)
        return pawl__zk_refuse(claim, PAWL_EHELD, "'%s': not enough permits are free", claim->claim->name);
    return watched ? ZK_NOTHING : ZK_TOO_MANY;
}

static int on_leases(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);
    bool watched = op->watch != NULL, resumed = op->data != NULL; /* after a lost reply: they may not have been made */

    if (op->watch)
        pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim)
        return ZK_NOTHING;
    if (reply->rc == ZNONODE)
        return resumed ? ZK_LEASE : ZK_BEGIN;
    if (reply->rc != ZOK)
        return pawl__zk_refuse_rc(claim, reply->rc, "list the leases of", claim->at.home);
    if (pawl__zk_limit_differs(claim, reply->children))
        return ZK_REFUSED;
    if (!note_leases(claim, reply->children))
        return ZK_STALLED;
    if (claim->at.lease_count == claim->terms.permits)
        return judge_leases(claim, reply->children->count, watched);
    return claim->at.lease_count == 0 && resumed ? ZK_LEASE : ZK_BEGIN; /* else somebody deleted them */
}

/* List the leases, and be told when they change. */
enum zk_event pawl__zk_leases_watch(struct zk_claim *claim) {
    char *dir = leases_dir(claim);
    struct zk_op *op;

    pawl__zk_next_number(claim);
    op = dir ? pawl__zk_ask(claim, on_leases, NULL) : NULL;
    if (op)
        pawl__zk_watch_new(&claim->zk->session, &claim->asker, &claim->watch.ahead, dir, true, on_event);
    claim->waits_since = pawl__boottime();
    if (op)
        pawl__zk_list(op, dir, claim->watch.ahead);
    free(dir);
    return op ? ZK_NOTHING : ZK_STALLED;
}

static int on_directory_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim)
        return ZK_NOTHING;
    if (reply->rc == ZOK || reply->rc == ZNODEEXISTS)
        return ZK_LEASE;
    return pawl__zk_not_made(claim, reply->rc, "make the leases of", claim->at.home);
}

enum zk_event pawl__zk_leases_make_directory(struct zk_claim *claim) {
    char *dir = leases_dir(claim);
    bool made;

    pawl__zk_next_number(claim);
    made = dir && pawl__zk_make_path(claim, dir, on_directory_made);
    free(dir);
    return made ? ZK_NOTHING : ZK_STALLED;
}

static int on_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim) {
        if (reply->rc == ZOK || (pawl__zk_reply_lost(reply->rc) && !pawl__zk_is_busy(reply->rc)))
            pawl__zk_sweep_guid(zk_of_op(op), op->where, op->mark);
        return ZK_NOTHING;
    }
    if (reply->rc == ZNONODE)
        return ZK_NO_LEASES;
    if (reply->rc == ZNODEEXISTS)
        return pawl__zk_refuse(claim, PAWL_EOVERFLOW,
                               "'%s': the sequence of its leases has come to its end; it begins anew when all are released",
                               claim->claim->name);
    if (reply->rc != ZOK)
        return pawl__zk_not_made(claim, reply->rc, "create leases of", claim->at.home);
    pawl__zk_say_of(claim, "created %u lease%s", claim->terms.permits, claim->terms.permits == 1 ? "" : "s");
    return ZK_NOTHING;
}

static void create_leases(struct zk_claim *claim, struct zk_op *op, const char *path) {
    zoo_op_t *operations = calloc(claim->terms.permits, sizeof *operations);
    char data[ZK_DATA_MAX];

    if (!operations) {
        pawl__zk_op_fail(op, ZSYSTEMERROR);
        return;
    }
    pawl__zk_znode_data(claim, data);
    snprintf(data + strlen(data), sizeof data - strlen(data), " token=%llu", (unsigned long long)claim->at.czxid << ZK_TOKEN_BITS);
    for (uint32_t i = 0; i < claim->terms.permits; i++) /* only the first one has data */
        zoo_create_op_init(&operations[i], path, data, i == 0 ? (int)strlen(data) : 0, claim->zk->session.options.acl,
                           ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0);
    pawl__zk_multi(op, operations, (int)claim->terms.permits);
    free(operations);
}

/* Make all leases and list them, in one go. */
enum zk_event pawl__zk_lease(struct zk_claim *claim) {
    char *dir = leases_dir(claim), *path = pawl__zk_text("%s/leases/_c_%s-%s", claim->at.home, claim->at.guid, pawl__zk_lease_name);
    struct zk_op *make = NULL, *list = NULL;

    pawl__zk_next_number(claim);
    if (dir && path && (make = pawl__zk_ask(claim, on_made, NULL)))
        list = pawl__zk_ask(claim, on_leases, NULL);
    if (make && (make->where = dir)) {
        memcpy(make->mark, claim->at.guid, sizeof claim->at.guid);
        create_leases(claim, make, path);
    }
    if (list)
        pawl__zk_list(list, dir, NULL);
    if (!make)
        free(dir);
    free(path);
    return list ? ZK_NOTHING : ZK_STALLED;
}

enum zk_event pawl__zk_leases_resume(struct zk_claim *claim) {
    char *dir = leases_dir(claim);
    enum zk_event event = pawl__zk_list_fresh(claim, dir, on_leases, claim); /* data: they may not be there */

    free(dir);
    return event;
}

/* ---- Is the name in use as another kind? ---------------------------------------------------------------------------------- */

static int on_kept_event(struct zk_asker *asker, int type) {
    if (type != ZK_WATCH_MISSED)
        return ZK_CHECK_KIND;
    pawl__zk_watch_drop(zk_claim_of_asker(asker)->watch.ahead);
    return ZK_MISSED;
}

static int on_kept_watched(struct zk_op *op, const struct zk_reply *reply) {
    pawl__zk_watch_set(op->watch, reply->rc);
    if (!zk_asked(op) || reply->rc == ZOK)
        return ZK_NOTHING;
    return reply->rc == ZNONODE ? ZK_CHECK_KIND : ZK_STALLED;
}

/* It is kept as another kind, by one who has heard of our directory: wait until it is gone. */
static enum zk_event await_kept(struct zk_claim *claim, const char *child) {
    char *path = pawl__zk_text("%s/%s", claim->at.home, child);
    struct zk_op *op = NULL;

    pawl__zk_next_number(claim);
    if (path && pawl__zk_watch_new(&claim->zk->session, &claim->asker, &claim->watch.ahead, path, false, on_kept_event) &&
        !(op = pawl__zk_ask(claim, on_kept_watched, NULL)))
        pawl__zk_watch_set(claim->watch.ahead, ZSYSTEMERROR);
    if (op)
        pawl__zk_get(op, path, claim->watch.ahead);
    pawl__zk_look_at(claim, claim->recall_until);
    free(path);
    return op ? ZK_NOTHING : ZK_STALLED;
}

/* The lock's own path: a mutex's or a read-write lock's contenders would be here. */
static int on_home_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->asker ? zk_claim_of_asker(op->asker) : NULL;
    const char *child = NULL;
    bool seen, kept = true;
    int64_t number;

    if (!claim)
        return ZK_NOTHING;
    for (int i = 0; reply->rc == ZOK && i < reply->children->count; i++)
        if (pawl__zk_number(reply->children->data[i], &number)) {
            child = reply->children->data[i];
            kept &= pawl__zk_guid_limit(child) == ZK_KEEPS;
        }
    seen = child != NULL;
    if (!op->data) { /* sent along with create: acted upon when it is our turn */
        claim->kind_seen = seen || (reply->rc != ZOK && reply->rc != ZNONODE); /* not known: it is asked again then */
        return ZK_NOTHING;
    }
    if (!zk_asked(op))
        return ZK_NOTHING;
    if (pawl__zk_reply_lost(reply->rc))
        return ZK_STALLED;
    if (seen && kept && pawl__zk_may_recall(claim))
        return (int)await_kept(claim, child);
    if (seen)
        return pawl__zk_refuse(claim, PAWL_EKIND, "'%s' is in use as another kind of lock: %s has '%.100s'", claim->claim->name,
                               claim->at.home, child);
    return pawl__zk_first(claim);
}

/* A semaphore's directories below a mutex or a read-write lock: is anybody in them? */
static int on_below_listed(struct zk_op *op, const struct zk_reply *reply) {
    int unanswered;
    struct zk_claim *claim = zk_answered(op, reply, &unanswered);

    if (!claim)
        return unanswered;
    if (reply->rc == ZOK && reply->children->count)
        claim->kind_seen = true;
    if (!op->data) /* the second one follows */
        return ZK_NOTHING;
    return claim->kind_seen ? pawl__zk_foreign(claim, "leases") : pawl__zk_first(claim);
}

static bool list_below(struct zk_claim *claim, const char *child, bool last) {
    char *path = pawl__zk_text("%s/%s", claim->at.home, child);
    struct zk_op *op = path ? pawl__zk_ask(claim, on_below_listed, last ? claim : NULL) : NULL;

    if (op)
        pawl__zk_list(op, path, NULL);
    free(path);
    return op != NULL;
}

enum zk_event pawl__zk_check_kind(struct zk_claim *claim) {
    struct zk_op *op;

    if (!zk_is_leased(claim)) {
        claim->kind_seen = false;
        return list_below(claim, "locks", false) && list_below(claim, "leases", true) ? ZK_NOTHING : ZK_STALLED;
    }
    if (!(op = pawl__zk_ask(claim, on_home_listed, claim->kind_seen ? claim : NULL)))
        return ZK_STALLED;
    pawl__zk_list(op, claim->at.home, NULL);
    return ZK_NOTHING;
}
