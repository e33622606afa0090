/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - watches: one per waiter, and none left behind.
 *
 *     new --(get or list answered)--> armed --(event)--> gone
 *      ^ |                             | |
 *      | +--(not set)--> gone       cut| +--(drop)--> removing --(the server's answer, the event, or a cut)--> gone
 *      |                               v
 *      +--(when there is room)------ missed --(drop)--> gone
 *
 * The library has no way to take back one watcher of several on the same path at the server, only all of them; so while another of ours
 * watches the same path, a dropped one just stays until the event comes, and the last one to be dropped takes back all.
 *
 * A cut takes all watches from the server, and the library would set them again by one request, ahead of everything else. With ten
 * thousand that request is longer than servers take, and the session never gets beyond it. So the library is made to forget them at the
 * cut, and who waits asks again for itself, some at a time, after the heartbeats.
 *
 * The library tells every watcher of session events, and compares each with each to tell none twice, with the mutex of all clients held. So
 * it gets one watcher for all paths, and which claims wait for a path is known here.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MIN = 64 };

/* ---- By path -------------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *path) {
    uint32_t hash = 2166136261u;

    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 16777619u;
    return hash;
}

/* As many buckets as watches. False: there are none at all, for want of memory. */
static bool grow(struct zk_engine *zk) {
    uint32_t count = zk->bucket_count ? zk->bucket_count * 2 : BUCKETS_MIN;
    struct zk_bucket *buckets;
    struct zk_watch *watch;

    if (zk->watch_count < zk->bucket_count)
        return true;
    if (!(buckets = calloc(count, sizeof *buckets)))
        return zk->buckets != NULL;
    free(zk->buckets);
    zk->buckets = buckets;
    zk->bucket_count = count;
    TAILQ_FOREACH(watch, &zk->watches, link) {
        LIST_INSERT_HEAD(&buckets[watch->hash & (count - 1)], watch, same_bucket);
    }
    return true;
}

/* The first at this path, or the next after `watch`, in no order. */
static struct zk_watch *at_path(const struct zk_engine *zk, struct zk_watch *watch, const char *path) {
    uint32_t hash = hash_of(path);

    if (watch)
        watch = LIST_NEXT(watch, same_bucket);
    else if (zk->buckets)
        watch = LIST_FIRST(&zk->buckets[hash & (zk->bucket_count - 1)]);
    while (watch && (watch->hash != hash || strcmp(watch->path, path) != 0))
        watch = LIST_NEXT(watch, same_bucket);
    return watch;
}

/* ---- One watch ------------------------------------------------------------------------------------------------------------ */

struct zk_watch *pawl__zk_watch_new(struct zk_claim *claim, const char *path, bool children, zk_fired_fn *fired) {
    struct zk_watch *watch = grow(claim->zk) ? calloc(1, sizeof *watch + strlen(path) + 1) : NULL;
    struct zk_engine *zk = claim->zk;

    if (!watch)
        return NULL;
    watch->zk = zk;
    watch->claim = claim;
    watch->children = children;
    watch->fired = fired;
    watch->hash = hash_of(path);
    strcpy(watch->path, path);
    TAILQ_INSERT_TAIL(&zk->watches, watch, link);
    LIST_INSERT_HEAD(&zk->buckets[watch->hash & (zk->bucket_count - 1)], watch, same_bucket);
    zk->watch_count++;
    return watch;
}

/* Nobody waits for it any more. */
static void cut(struct zk_watch *watch) {
    struct zk_claim *claim = watch->claim;

    if (!claim)
        return;
    if (claim->watch == watch)
        claim->watch = NULL;
    if (claim->far_watch == watch)
        claim->far_watch = NULL;
    if (claim->own_watch == watch)
        claim->own_watch = NULL;
    watch->claim = NULL;
}

static void watch_free(struct zk_watch *watch) {
    if (watch->remover)
        watch->remover->watch = NULL;
    cut(watch);
    TAILQ_REMOVE(&watch->zk->watches, watch, link);
    LIST_REMOVE(watch, same_bucket);
    watch->zk->watch_count--;
    free(watch);
}

static void on_removed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_watch *watch = op->watch, *next;
    struct zk_engine *zk = op->zk;

    if (!watch) /* it fired meanwhile */
        return;
    watch->remover = NULL;
    /* Where the server refused, an event may still come, and finds nobody. Where there was no answer, there is no watch either. */
    if (reply->rc != ZOK && !zk->connected)
        pawl__zk_forget_watch(zk, watch->path, watch->children);
    /* All watches on the path are gone; one that was set since is armed after this answer. */
    for (struct zk_watch *other = at_path(zk, NULL, watch->path); other; other = next) {
        next = at_path(zk, other, watch->path);
        if (other != watch && other->armed && other->removing && !other->remover && other->children == watch->children)
            watch_free(other);
    }
    watch_free(watch);
}

static bool others_watch(const struct zk_watch *watch) {
    struct zk_watch *other = NULL;

    while ((other = at_path(watch->zk, other, watch->path)))
        if (other != watch && !other->removing && other->children == watch->children)
            return true;
    return false;
}

static void take_back(struct zk_watch *watch) {
    struct zk_op *op;

    if (!watch->zk->connected || watch->remover || others_watch(watch))
        return;
    op = pawl__zk_op_new(watch->zk, NULL, on_removed, NULL);
    if (!op)
        return; /* it stays until its event comes */
    op->watch = watch;
    watch->remover = op;
    pawl__zk_unwatch(op, watch->path, watch->children);
}

bool pawl__zk_watch_set(struct zk_watch *watch, int rc) {
    if (rc != ZOK) {
        watch_free(watch);
        return false;
    }
    watch->armed = true;
    if (watch->removing)
        take_back(watch);
    return true;
}

void pawl__zk_watch_drop(struct zk_watch *watch) {
    cut(watch);
    if (watch->missed) {
        watch_free(watch);
        return;
    }
    watch->removing = true;
    if (watch->armed)
        take_back(watch);
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

/* Whom it waits for in a queue is known, and is asked for again; anything else is looked at afresh. */
static void miss(struct zk_watch *watch) {
    struct zk_claim *claim = watch->claim;

    pawl__zk_forget_watch(watch->zk, watch->path, watch->children);
    watch->armed = false;
    if (claim && watch != claim->far_watch && (watch == claim->watch || claim->state == ZK_HELD))
        pawl__zk_look_at(claim, pawl__boottime());
    if (claim && watch == claim->watch && claim->state == ZK_QUEUED)
        watch->missed = true;
    else
        watch_free(watch);
}

void pawl__zk_watches_miss(struct zk_engine *zk) {
    struct zk_watch *watch, *next;

    for (watch = TAILQ_FIRST(&zk->watches); watch; watch = next) {
        next = TAILQ_NEXT(watch, link);
        if (watch->armed) /* one that is not will hear that its request was lost */
            miss(watch);
    }
}

void pawl__zk_watches_forget(struct zk_engine *zk) {
    struct zk_watch *watch;

    while ((watch = TAILQ_FIRST(&zk->watches)))
        watch_free(watch);
    free(zk->buckets);
    zk->buckets = NULL;
    zk->bucket_count = 0;
}

static bool is_told(const struct zk_watch *watch, int type) {
    if (!watch->armed)
        return false;
    return type == ZOO_DELETED_EVENT || watch->children == (type == ZOO_CHILD_EVENT);
}

void pawl__zk_on_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct zk_engine *zk = data;
    struct zk_watch *watch = NULL;

    (void)state;
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT || handle != zk->handle)
        return;
    while ((watch = at_path(zk, watch, path))) {
        struct zk_claim *claim = watch->claim;
        zk_fired_fn *fired = watch->fired;

        if (!is_told(watch, type))
            continue;
        watch_free(watch);
        if (claim)
            fired(claim, type);
        watch = NULL; /* from the beginning: whom it told may have changed anything, but armed nothing */
    }
}
