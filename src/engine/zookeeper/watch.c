/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - watches: one per waiter, and none left behind.
 *
 *     new --(get or list answered)--> armed --(event)--> gone
 *      |                                |
 *      +--(not set)--> gone             +--(drop)--> removing --(the server's word, or the event)--> gone
 *
 * The library hands session events to every watcher without using the watch up: they are left to the session. It has no way to take back
 * one watcher of several on the same path at the server, only all of them; so while another of ours watches the same path, a dropped one
 * just stays until the event comes, and the last one to be dropped takes back all.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

struct zk_watch *pawl__zk_watch_new(struct zk_claim *claim, const char *path, bool children, zk_fired_fn *fired) {
    struct zk_watch *watch = calloc(1, sizeof *watch + strlen(path) + 1);

    if (!watch)
        return NULL;
    watch->zk = claim->zk;
    watch->claim = claim;
    watch->children = children;
    watch->fired = fired;
    strcpy(watch->path, path);
    TAILQ_INSERT_TAIL(&watch->zk->watches, watch, link);
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
    free(watch);
}

static void on_removed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_watch *watch = op->watch, *next;
    struct zk_engine *zk = op->zk;

    if (!watch) /* it fired meanwhile */
        return;
    watch->remover = NULL;
    /* Unless the server took it back, the library still has it, and may call it. It stays until its event comes; when the connection is
     * back it is asked for again. */
    if (reply->rc != ZOK && zk->handle)
        return;
    /* All watches on the path are gone; one that was set since is armed after this answer. */
    for (struct zk_watch *other = TAILQ_FIRST(&zk->watches); other; other = next) {
        next = TAILQ_NEXT(other, link);
        if (other != watch && other->armed && other->removing && !other->remover && other->children == watch->children &&
            strcmp(other->path, watch->path) == 0)
            watch_free(other);
    }
    watch_free(watch);
}

static bool others_watch(const struct zk_watch *watch) {
    const struct zk_watch *other;

    TAILQ_FOREACH(other, &watch->zk->watches, link) {
        if (other != watch && !other->removing && other->children == watch->children && strcmp(other->path, watch->path) == 0)
            return true;
    }
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
    watch->removing = true;
    if (watch->armed)
        take_back(watch);
}

void pawl__zk_watches_resume(struct zk_engine *zk) {
    struct zk_watch *watch;

    TAILQ_FOREACH(watch, &zk->watches, link) {
        if (watch->removing && watch->armed)
            take_back(watch);
    }
}

void pawl__zk_watches_forget(struct zk_engine *zk) {
    struct zk_watch *watch;

    while ((watch = TAILQ_FIRST(&zk->watches)))
        watch_free(watch);
}

void pawl__zk_on_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct zk_watch *watch = data;
    struct zk_claim *claim = watch->claim;
    zk_fired_fn *fired = watch->fired;

    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT)
        return;
    watch_free(watch);
    if (claim)
        fired(claim, type);
}
