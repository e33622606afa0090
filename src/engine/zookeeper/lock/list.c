/* SPDX-License-Identifier: Apache-2.0
 *
 * list.c - the list of a queue, what it says about a claim, and the watch on the one ahead.
 *
 * Claims that want to see the same directory under one hold of the mutex share one request: it leaves when the mutex is let go,
 * after all creates of that hold. So each finds its own znode in it, as if it had asked for itself. A claim that goes on to something
 * else leaves the listing, and does not hear of its answer.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdlib.h>
#include <string.h>

/* ---- What it says --------------------------------------------------------------------------------------------------------- */

/* Does the directory have the two directories of a semaphore in it? */
static bool has_semaphore(const struct String_vector *children) {
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], "leases") == 0 || strcmp(children->data[i], "locks") == 0)
            return true;
    return false;
}

static enum zk_event first(struct zk_claim *claim, const struct String_vector *children) {
    if (zk_is_leased(claim))
        return ZK_LEASE;
    return has_semaphore(children) ? ZK_CHECK_KIND : pawl__zk_first(claim);
}

/* May it wait there? A try does not, unless it need only make itself heard. */
static bool may_wait(struct zk_claim *claim, const struct String_vector *children) {
    if (!claim->terms.try_only || zk_is_leased(claim))
        return true;
    return pawl__zk_kept_ahead(claim->layout, claim->terms.mode == PAWL_SHARED, claim->at.own, claim->at.guid,
                               (const char *const *)children->data, (size_t)children->count) &&
           pawl__zk_may_recall(claim);
}

static enum zk_event behind(struct zk_claim *claim, const char *child, const char *further, const struct String_vector *children) {
    if (!may_wait(claim, children)) {
        pawl__zk_say_of(claim, "not lowest");
        return pawl__zk_refuse(claim, PAWL_EHELD, "'%s' is held, or others wait ahead", claim->claim->name);
    }
    claim->seen.child = child;
    claim->seen.further = further;
    return ZK_BEHIND;
}

/* Another kind's: one that is kept is about to leave. */
static enum zk_event foreign(struct zk_claim *claim, const char *child, const struct String_vector *children) {
    if (!pawl__zk_others_kept(claim->layout, (const char *const *)children->data, (size_t)children->count) ||
        !pawl__zk_may_recall(claim))
        return pawl__zk_foreign(claim, child);
    claim->seen.child = child;
    claim->seen.further = NULL;
    return ZK_BEHIND;
}

static enum zk_event judge(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    size_t index, second, ahead;

    if (pawl__zk_limit_differs(claim, children))
        return ZK_REFUSED;
    pawl__zk_remember_last(claim, children);
    pawl__zk_keep_listed(claim, children);
    switch (pawl__zk_rank(claim->layout, claim->terms.mode == PAWL_SHARED, pawl__zk_child(claim->at.own), claim->at.guid, names,
                          (size_t)children->count, &index, &second, &ahead)) {
    case ZK_RANK_FIRST:
        return first(claim, children);
    case ZK_RANK_BEHIND:
        return behind(claim, names[index], ahead > 1 ? names[second] : NULL, children);
    case ZK_RANK_ABSENT:
        pawl__zk_say_of(claim, "own node is gone: queueing anew");
        return ZK_BEGIN;
    case ZK_RANK_STRAY:
        return pawl__zk_refuse(
            claim, PAWL_EFORMAT,
            "'%s': %s has a child '%.100s' that is no lock's and stands ahead of all: remove it, or choose another name",
            claim->claim->name, claim->at.dir, names[index]);
    case ZK_RANK_FOREIGN:
        return foreign(claim, names[index], children);
    }
    return ZK_NOTHING;
}

static enum zk_event listed(struct zk_claim *claim, const struct zk_reply *reply) {
    if (!claim->at.own)
        return ZK_STALLED;
    if (reply->rc == ZOK)
        return judge(claim, reply->children);
    if (reply->rc == ZNONODE)
        return ZK_BEGIN; /* the directory is gone, and our znode with it */
    return pawl__zk_refuse_rc(claim, reply->rc, "list", claim->at.dir);
}

/* ---- One request for many ------------------------------------------------------------------------------------------------- */

static struct zk_listing *find_or_make(struct zk_engine *zk, const char *dir) {
    struct zk_listing *listing;

    TAILQ_FOREACH(listing, &zk->listings, link) {
        if (strcmp(listing->dir, dir) == 0)
            return listing;
    }
    if (!(listing = calloc(1, sizeof *listing + strlen(dir) + 1)))
        return NULL;
    TAILQ_INIT(&listing->claims);
    strcpy(listing->dir, dir);
    TAILQ_INSERT_TAIL(&zk->listings, listing, link);
    return listing;
}

enum zk_event pawl__zk_list_queue(struct zk_claim *claim) {
    struct zk_listing *listing = find_or_make(claim->zk, claim->at.dir);

    pawl__zk_leave_listing(claim);
    if (!listing)
        return ZK_STALLED;
    claim->listing = listing;
    TAILQ_INSERT_TAIL(&listing->claims, claim, of_listing);
    return ZK_NOTHING;
}

/* A claim that asks again when it is told this is in another listing. */
static void answer_all(struct zk_listing *listing, const struct zk_reply *reply) {
    struct zk_claim *claim;

    while ((claim = TAILQ_FIRST(&listing->claims))) {
        pawl__zk_leave_listing(claim);
        claim->asker.step(&claim->asker, (int)listed(claim, reply));
    }
    free(listing);
}

static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    answer_all(op->data, reply);
    return ZK_NOTHING;
}

void pawl__zk_send_listings(struct zk_engine *zk) {
    const struct zk_reply unsent = {.rc = ZCONNECTIONLOSS};
    struct zk_listing *listing;
    struct zk_op *op = NULL;

    while ((listing = TAILQ_FIRST(&zk->listings))) {
        TAILQ_REMOVE(&zk->listings, listing, link);
        op = zk_is_connected(&zk->session) && !TAILQ_EMPTY(&listing->claims)
                 ? pawl__zk_op_new(&zk->session, NULL, on_listed, listing)
                 : NULL;
        if (op)
            pawl__zk_list(op, listing->dir, NULL);
        else
            answer_all(listing, &unsent);
    }
}

void pawl__zk_engine_unlock(struct zk_engine *zk) {
    pawl__zk_send_listings(zk);
    pawl__zk_unlock(&zk->session);
}

/* ---- The one ahead -------------------------------------------------------------------------------------------------------- */

static int on_ahead_event(struct zk_asker *asker, int type) {
    struct zk_claim *claim = zk_claim_of_asker(asker);

    if (type == ZK_WATCH_MISSED) {
        if (claim->state != ZK_QUEUED) /* whom it waits for in a queue is known, and is asked for again */
            pawl__zk_watch_drop(claim->watch.ahead);
        return ZK_MISSED;
    }
    pawl__zk_say_of(claim, type == ZOO_DELETED_EVENT ? "woken: it was deleted" : "woken: it changed");
    return claim->state == ZK_QUEUED && type == ZOO_DELETED_EVENT && zk_is_next(claim) ? pawl__zk_first(claim) : ZK_LIST_AGAIN;
}

static int on_ahead_watched(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim || reply->rc == ZOK)
        return ZK_NOTHING;
    if (reply->rc != ZNONODE)
        return pawl__zk_refuse_rc(claim, reply->rc, "watch a node of", claim->at.dir);
    pawl__zk_say_of(claim, "gone already"); /* between list and watch: nobody will ever wake us */
    if (zk_is_next(claim))
        return pawl__zk_first(claim);
    if (!zk_is_nearly_next(claim))
        return ZK_LIST_AGAIN;
    claim->gone_already = true;
    return ZK_NOTHING;
}

static enum zk_event send_watch(struct zk_claim *claim) {
    struct zk_op *op = pawl__zk_ask(claim, on_ahead_watched, NULL);

    if (op)
        pawl__zk_get(op, claim->watch.ahead->path, claim->watch.ahead);
    else
        pawl__zk_watch_set(claim->watch.ahead, ZSYSTEMERROR);
    return op ? ZK_NOTHING : ZK_STALLED;
}

enum zk_event pawl__zk_watch_ahead(struct zk_claim *claim, const char *child) {
    char *path = pawl__zk_text("%s/%s", claim->at.dir, child);
    enum zk_event event = ZK_STALLED;

    if (path && pawl__zk_watch_new(&claim->zk->session, &claim->asker, &claim->watch.ahead, path, false, on_ahead_event)) {
        claim->waits_since = pawl__boottime();
        event = send_watch(claim);
    }
    free(path);
    return event;
}

/* After a cut: is whom we wait for still there? */
enum zk_event pawl__zk_watch_ahead_again(struct zk_claim *claim) {
    pawl__zk_watch_again(claim->watch.ahead);
    if (claim->try_until || claim->recall_until)
        pawl__zk_look_at(claim, claim->try_until ? claim->try_until : claim->recall_until);
    return send_watch(claim);
}
