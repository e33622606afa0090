/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - watches: one per waiter, and none left behind.
 *
 *     ASKED --(get or list answered)--> ARMED --(event)--> gone
 *      ^ | |                             | |
 *      | | +--(not set)--> gone       cut| +--(drop)--> REMOVING --(the server's answer, the event, or a cut)--> gone
 *      | |                               |                 ^
 *      | +--(drop)--> UNWANTED ----------|---(answered)----+     not set: gone
 *      |                                 v
 *      +--(when there is room)--------- LOST --(drop)--> gone
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
#include "engine/zookeeper/session/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

enum { BUCKETS_MIN = 64 };

/* ---- By path -------------------------------------------------------------------------------------------------------------- */

/* As many buckets as watches. False: there are none at all, for want of memory. */
static bool grow(struct zk_session *session) {
    uint32_t count = session->watches.bucket_count ? session->watches.bucket_count * 2 : BUCKETS_MIN;
    struct zk_bucket *buckets;
    struct zk_watch *watch;

    if (session->watches.count < session->watches.bucket_count)
        return true;
    if (!(buckets = calloc(count, sizeof *buckets)))
        return session->watches.buckets != NULL;
    free(session->watches.buckets);
    session->watches.buckets = buckets;
    session->watches.bucket_count = count;
    TAILQ_FOREACH(watch, &session->watches.list, link) {
        LIST_INSERT_HEAD(&buckets[watch->hash & (count - 1)], watch, same_bucket);
    }
    return true;
}

/* The first at this path, or the next after `watch`, in no order. */
static struct zk_watch *at_path(const struct zk_session *session, struct zk_watch *watch, const char *path) {
    uint32_t hash = pawl__name_hash(path, strlen(path));

    if (watch)
        watch = LIST_NEXT(watch, same_bucket);
    else if (session->watches.buckets)
        watch = LIST_FIRST(&session->watches.buckets[hash & (session->watches.bucket_count - 1)]);
    while (watch && (watch->hash != hash || strcmp(watch->path, path) != 0))
        watch = LIST_NEXT(watch, same_bucket);
    return watch;
}

static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *data);

/* ---- One watch ------------------------------------------------------------------------------------------------------------ */

struct zk_watch *pawl__zk_watch_new(struct zk_session *session, struct zk_asker *asker, struct zk_watch **slot, const char *path,
                                    bool children, zk_fired_fn *fired) {
    struct zk_watch *watch = grow(session) ? calloc(1, sizeof *watch + strlen(path) + 1) : NULL;

    *slot = watch;
    if (!watch)
        return NULL;
    watch->session = session;
    watch->asker = asker;
    watch->slot = slot;
    watch->children = children;
    watch->fired = fired;
    watch->told = on_watch;
    watch->hash = pawl__name_hash(path, strlen(path));
    strcpy(watch->path, path);
    TAILQ_INSERT_TAIL(&session->watches.list, watch, link);
    LIST_INSERT_HEAD(&session->watches.buckets[watch->hash & (session->watches.bucket_count - 1)], watch, same_bucket);
    session->watches.count++;
    return watch;
}

/* Nobody waits for it any more. */
static void cut(struct zk_watch *watch) {
    if (watch->slot)
        *watch->slot = NULL;
    watch->slot = NULL;
    watch->asker = NULL;
}

static void watch_free(struct zk_watch *watch) {
    if (watch->remover)
        watch->remover->watch = NULL;
    cut(watch);
    TAILQ_REMOVE(&watch->session->watches.list, watch, link);
    LIST_REMOVE(watch, same_bucket);
    watch->session->watches.count--;
    free(watch);
}

/* `i`: it means nothing, and is ignored. `x`: never. */
enum { x = ZK_WATCH_NEVER, i = ZK_WATCH_IGNORED };
enum { ASKED = ZK_WATCH_ASKED, ARMED = ZK_WATCH_ARMED, LOST = ZK_WATCH_LOST };
enum { UNWANTED = ZK_WATCH_UNWANTED, REMOVING = ZK_WATCH_REMOVING, GONE = ZK_WATCH_GONE };

static const uint8_t moves[ZK_WATCH_STATES][ZK_WATCH_EVENTS] = {
    /* SET NOT_SET FIRED CUT DROPPED AGAIN REMOVED */
    [ZK_WATCH_ASKED] = {ARMED, GONE, x, x, UNWANTED, i, x}, /* it hears of its answer alone */
    [ZK_WATCH_ARMED] = {x, x, GONE, LOST, REMOVING, x, x},
    [ZK_WATCH_LOST] = {x, x, x, x, GONE, ASKED, x},
    [ZK_WATCH_UNWANTED] = {REMOVING, GONE, x, x, x, x, x},
    [ZK_WATCH_REMOVING] = {x, x, GONE, GONE, x, x, GONE},
    [ZK_WATCH_GONE] = {x, x, x, x, x, x, x},
};

int pawl__zk_watch_move(enum zk_watch_state state, enum zk_watch_event event) {
    return moves[state][event];
}

/* The next state, or IGNORED. GONE: its memory is, too. */
static int step(struct zk_watch *watch, enum zk_watch_event event) {
    int next = moves[watch->state][event];

    assert(next != ZK_WATCH_NEVER);
    if (next == ZK_WATCH_GONE)
        watch_free(watch);
    else if (next < ZK_WATCH_STATES)
        watch->state = (enum zk_watch_state)next;
    return next;
}

/* Have the library forget it, without asking the server, which has it no more. */
static void forget(const struct zk_watch *watch) {
    zhandle_t *handle = watch->session->handle;

    if (handle)
        zoo_aremove_all_watches(handle, watch->path, watch->children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 1, NULL, NULL);
}

static int on_removed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_watch *watch = op->watch, *next;
    struct zk_session *session = op->session;

    if (!watch) /* it fired meanwhile */
        return 0;
    watch->remover = NULL;
    /* Where the server refused, an event may still come, and finds nobody. Where there was no answer, there is no watch either. */
    if (reply->rc != ZOK && !zk_is_connected(session))
        forget(watch);
    /* All watches on the path are gone; one that was set since is armed after this answer. */
    for (struct zk_watch *other = at_path(session, NULL, watch->path); other; other = next) {
        next = at_path(session, other, watch->path);
        if (other != watch && other->state == ZK_WATCH_REMOVING && !other->remover && other->children == watch->children)
            step(other, ZK_WATCH_ON_REMOVED);
    }
    step(watch, ZK_WATCH_ON_REMOVED);
    return 0;
}

static bool others_watch(const struct zk_watch *watch) {
    struct zk_watch *other = NULL;

    while ((other = at_path(watch->session, other, watch->path)))
        if (other != watch && other->state != ZK_WATCH_UNWANTED && other->state != ZK_WATCH_REMOVING &&
            other->children == watch->children)
            return true;
    return false;
}

static void take_back(struct zk_watch *watch) {
    struct zk_op *op;

    if (!zk_is_connected(watch->session) || watch->remover || others_watch(watch))
        return;
    op = pawl__zk_op_new(watch->session, NULL, on_removed, NULL);
    if (!op)
        return; /* it stays until its event comes */
    op->watch = watch;
    watch->remover = op;
    pawl__zk_unwatch(op, watch->path, watch->children);
}

bool pawl__zk_watch_set(struct zk_watch *watch, int rc) {
    int next = step(watch, rc == ZOK ? ZK_WATCH_ON_SET : ZK_WATCH_ON_NOT_SET);

    if (next == ZK_WATCH_REMOVING)
        take_back(watch);
    return next != ZK_WATCH_GONE;
}

void pawl__zk_watch_drop(struct zk_watch *watch) {
    if (!watch)
        return;
    cut(watch);
    if (step(watch, ZK_WATCH_ON_DROPPED) == ZK_WATCH_REMOVING)
        take_back(watch);
}

void pawl__zk_watch_again(struct zk_watch *watch) {
    step(watch, ZK_WATCH_ON_AGAIN);
}

void pawl__zk_watch_leave(struct zk_watch *watch) {
    if (watch)
        cut(watch);
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

static void tell(struct zk_asker *asker, int event) {
    if (event)
        asker->step(asker, event);
}

/* Does the server have it? */
static bool is_set(const struct zk_watch *watch) {
    return watch->state == ZK_WATCH_ARMED || watch->state == ZK_WATCH_REMOVING;
}

static void miss(struct zk_watch *watch) {
    struct zk_asker *asker = watch->asker;

    forget(watch);
    if (step(watch, ZK_WATCH_ON_CUT) == ZK_WATCH_GONE)
        return;
    if (asker)
        tell(asker, watch->fired(asker, ZK_WATCH_MISSED));
    else
        step(watch, ZK_WATCH_ON_DROPPED);
}

void pawl__zk_watches_miss(struct zk_session *session) {
    struct zk_watch *watch, *next;

    for (watch = TAILQ_FIRST(&session->watches.list); watch; watch = next) {
        next = TAILQ_NEXT(watch, link);
        if (is_set(watch)) /* one that is not will hear that its request was lost */
            miss(watch);
    }
}

void pawl__zk_watches_forget(struct zk_session *session) {
    struct zk_watch *watch;

    while ((watch = TAILQ_FIRST(&session->watches.list)))
        watch_free(watch);
    free(session->watches.buckets);
    session->watches.buckets = NULL;
    session->watches.bucket_count = 0;
}

static bool is_told(const struct zk_watch *watch, int type) {
    if (!is_set(watch))
        return false;
    return type == ZOO_DELETED_EVENT || watch->children == (type == ZOO_CHILD_EVENT);
}

static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct zk_session *session = data;
    struct zk_watch *watch = NULL;

    (void)state;
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT || handle != session->handle)
        return;
    while ((watch = at_path(session, watch, path))) {
        struct zk_asker *asker = watch->asker;
        zk_fired_fn *fired = watch->fired;

        if (!is_told(watch, type))
            continue;
        step(watch, ZK_WATCH_ON_FIRED);
        if (asker)
            tell(asker, fired(asker, type));
        watch = NULL; /* from the beginning: whom it told may have changed anything, but armed nothing */
    }
}
