/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.c - who observes a lock is told when its holder or its value may have changed.
 *
 * An observer has watches, and nothing else at the server: no znode, so it does not queue and nobody sees it.
 *
 *     value      on the value's znode, there or not
 *     holder     on the znode of the one who holds exclusively: it goes, or is broken
 *     directory  on the lock's children, while nobody holds so: it is free, or readers have it; or on the lock's znode, while there is none
 *     leases     likewise, in a semaphore's layout
 *
 * So those who come to wait behind a holder cost nothing. An event takes its watch away. Then what is missing is set again, and when the
 * answers are there the core is told, which looks for itself: what happened before the watch was set is seen by that look, what happens
 * later by the watch. That is done at most once in OBSERVE_NS, however fast a lock changes hands; and what comes last is never missed,
 * since a watch stands, or a look is due, at any time that there is a connection.
 *
 * After a cut the server has none of the watches: when the connection is back all are set again, and the core is told.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/zookeeper/lock/lock.h"
#include "engine/zookeeper/lock/path.h"

#define OBSERVE_NS (10 * ZK_MS)
/* After an answer that set no watch: there are no rights, or no memory, or the server has too much to do. */
#define AGAIN_NS ZK_S

/* What an answer or a watch means to an observer. */
enum { CHANGED = 1, ANSWERED, REFUSED };

struct zk_observer {
    struct zk_asker asker;         /* the first member */
    TAILQ_ENTRY(zk_observer) link; /* zk->observers.all */
    TAILQ_ENTRY(zk_observer) news; /* zk->observers.changed, while `changed` */
    struct zk_engine *zk;
    struct pawl__observer *seam;
    char *home, *leases, *value; /* paths */
    struct {
        struct zk_watch *value, *holder, *directory, *leases;
    } watch;
    bool has_leases;   /* the lock's directory has theirs */
    bool changed;      /* which the core is to be told */
    int asked;         /* requests on their way */
    int64_t look_at;   /* when to set what is missing; PAWL__NEVER: nothing is */
    int64_t looked_at; /* when that was done last */
};

static struct zk_observer *observer_of(struct zk_asker *asker) {
    return (struct zk_observer *)asker;
}

static void look_by(struct zk_observer *observer, int64_t when) {
    if (when < observer->look_at)
        observer->look_at = when;
}

static void look_soon(struct zk_observer *observer) {
    int64_t now = pawl__boottime(), due = observer->looked_at + OBSERVE_NS;

    look_by(observer, due > now ? due : now);
}

/* ---- Asking ------------------------------------------------------------------------------------------------------------------ */

/* A request, with a watch for `slot`, unless that is NULL. NULL: out of memory. */
static struct zk_op *ask(struct zk_observer *observer, zk_done_fn *done, struct zk_watch **slot, const char *path, bool children,
                         zk_fired_fn *fired) {
    struct zk_session *session = &observer->zk->session;
    struct zk_op *op = NULL;

    if (!slot || pawl__zk_watch_new(session, &observer->asker, slot, path, children, fired))
        op = pawl__zk_op_new(session, &observer->asker, done, NULL);
    if (op)
        observer->asked++;
    else
        look_by(observer, pawl__boottime() + AGAIN_NS);
    if (!op && slot && *slot)
        pawl__zk_watch_set(*slot, ZSYSTEMERROR);
    return op;
}

static void drop_watches(struct zk_observer *observer) {
    pawl__zk_watch_drop(observer->watch.value);
    pawl__zk_watch_drop(observer->watch.holder);
    pawl__zk_watch_drop(observer->watch.directory);
    pawl__zk_watch_drop(observer->watch.leases);
}

static int on_event(struct zk_asker *asker, int type) {
    if (type != ZK_WATCH_MISSED)
        return CHANGED;
    drop_watches(observer_of(asker));
    return 0; /* they are set again when there is a connection */
}

/* What the answer to a request means that was to set a watch. `absent`: one on what is not there is as good. */
static int watched(struct zk_op *op, int rc, bool absent) {
    bool is_set = rc == ZOK || (absent && rc == ZNONODE);

    if (op->watch)
        pawl__zk_watch_set(op->watch, is_set ? ZOK : rc);
    if (!op->asker)
        return 0;
    if (pawl__zk_is_busy(rc)) /* nothing else will have us look again: there is a connection */
        return REFUSED;
    return is_set || rc == ZNONODE || pawl__zk_reply_lost(rc) ? ANSWERED : REFUSED;
}

static int on_looked(struct zk_op *op, const struct zk_reply *reply) {
    return watched(op, reply->rc, true);
}

/* The lock's znode has come before the watch for that: it is its children that are to be watched. */
static int on_home(struct zk_op *op, const struct zk_reply *reply) {
    int event = watched(op, reply->rc, true);

    if (op->asker && reply->rc == ZOK) {
        pawl__zk_watch_drop(observer_of(op->asker)->watch.directory);
        look_soon(observer_of(op->asker));
    }
    return event;
}

/* Be told when the znode comes, changes or goes. */
static void watch_znode(struct zk_observer *observer, zk_done_fn *done, struct zk_watch **slot, const char *path) {
    struct zk_op *op = ask(observer, done, slot, path, false, on_event);

    if (op)
        pawl__zk_exists(op, path, *slot);
}

/* ---- Who holds? -------------------------------------------------------------------------------------------------------------- */

static int on_holder(struct zk_op *op, const struct zk_reply *reply) {
    if (op->asker && reply->rc == ZNONODE)
        look_soon(observer_of(op->asker)); /* gone already: who is next? */
    return watched(op, reply->rc, false);
}

static void watch_holder(struct zk_observer *observer, const char *child) {
    char *path = pawl__zk_text("%s/%s", observer->home, child);
    struct zk_op *op = path ? ask(observer, on_holder, &observer->watch.holder, path, false, on_event) : NULL;

    if (op)
        pawl__zk_get(op, path, observer->watch.holder);
    free(path);
}

static int on_leases(struct zk_op *op, const struct zk_reply *reply) {
    return watched(op, reply->rc, false); /* where they are gone, so is a child of the lock's directory */
}

static void watch_leases(struct zk_observer *observer) {
    struct zk_op *op = ask(observer, on_leases, &observer->watch.leases, observer->leases, true, on_event);

    if (op)
        pawl__zk_list(op, observer->leases, observer->watch.leases);
}

/* The one who holds exclusively, by a list of the lock's directory; NULL: nobody, or it does not say. */
static const char *holder_in(const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    size_t count = (size_t)children->count, first = pawl__zk_first_of(names, count);

    return first < count && !pawl__zk_reads(names[first]) ? names[first] : NULL;
}

static bool has_child(const struct String_vector *children, const char *name) {
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], name) == 0)
            return true;
    return false;
}

/* Nobody holds, or nobody alone: here is a list with a watch. */
static int on_queue(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_observer *observer = op->asker ? observer_of(op->asker) : NULL;
    const char *holder = observer && reply->rc == ZOK ? holder_in(reply->children) : NULL;
    int event = watched(op, reply->rc, false);

    if (!observer)
        return 0;
    if (holder) {
        pawl__zk_watch_drop(observer->watch.directory);
        watch_holder(observer, holder);
    } else if (reply->rc == ZOK && (observer->has_leases = has_child(reply->children, "leases")) && !observer->watch.leases) {
        watch_leases(observer);
    } else if (reply->rc == ZNONODE) {
        watch_znode(observer, on_home, &observer->watch.directory, observer->home);
    }
    return event;
}

/* Somebody else may have been there first: so this one sets no watch. */
static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_observer *observer = op->asker ? observer_of(op->asker) : NULL;
    const char *holder = reply->rc == ZOK ? holder_in(reply->children) : NULL;
    int event = watched(op, reply->rc, false);
    struct zk_op *list;

    if (event != ANSWERED || pawl__zk_reply_lost(reply->rc))
        return event;
    if (holder)
        watch_holder(observer, holder);
    else if ((list = ask(observer, on_queue, &observer->watch.directory, observer->home, true, on_event)))
        pawl__zk_list(list, observer->home, observer->watch.directory);
    return event;
}

/* ---- Looking ------------------------------------------------------------------------------------------------------------------ */

/* Set what is missing. There is a connection. */
static void look(struct zk_observer *observer, int64_t now) {
    struct zk_op *op;

    observer->look_at = PAWL__NEVER;
    observer->looked_at = now;
    if (!observer->watch.value)
        watch_znode(observer, on_looked, &observer->watch.value, observer->value);
    if (!observer->watch.holder && !observer->watch.directory) {
        if ((op = ask(observer, on_listed, NULL, NULL, false, NULL)))
            pawl__zk_list(op, observer->home, NULL);
    } else if (observer->watch.directory && observer->has_leases && !observer->watch.leases) {
        watch_leases(observer);
    }
}

static void step(struct zk_asker *asker, int event) {
    struct zk_observer *observer = observer_of(asker);
    struct zk_engine *zk = observer->zk;

    if (event == CHANGED) {
        look_soon(observer);
        return;
    }
    if (event == REFUSED)
        look_by(observer, pawl__boottime() + AGAIN_NS);
    if (--observer->asked > 0 || !zk_is_connected(&zk->session) || observer->changed)
        return;
    observer->changed = true;
    TAILQ_INSERT_TAIL(&zk->observers.changed, observer, news);
}

static void forget_change(struct zk_observer *observer) {
    if (observer->changed)
        TAILQ_REMOVE(&observer->zk->observers.changed, observer, news);
    observer->changed = false;
}

void pawl__zk_observers_tell(struct zk_engine *zk) {
    struct zk_observer *observer;

    while ((observer = TAILQ_FIRST(&zk->observers.changed))) {
        forget_change(observer);
        zk->observers.told = observer;
        pawl__zk_leave(zk);
        zk->base.changed(zk->base.core, observer->seam);
        pawl__zk_lock();
        zk->observers.told = NULL;
        pthread_cond_broadcast(&zk->session.answered);
    }
}

int64_t pawl__zk_observe_due(struct zk_engine *zk, int64_t now) {
    struct zk_observer *observer;
    int64_t due = PAWL__NEVER;

    if (!zk_is_connected(&zk->session))
        return PAWL__NEVER;
    TAILQ_FOREACH(observer, &zk->observers.all, link) {
        if (observer->look_at <= now && observer->asked == 0 && zk->session.op_count < ZK_ROOM)
            look(observer, now);
        if (observer->look_at < due && observer->asked == 0)
            due = observer->look_at; /* without an answer, or room, what we wait for wakes us */
    }
    return zk->session.op_count < ZK_ROOM ? due : PAWL__NEVER;
}

void pawl__zk_observe_again(struct zk_engine *zk) {
    struct zk_observer *observer;

    TAILQ_FOREACH(observer, &zk->observers.all, link) {
        drop_watches(observer);
        look_soon(observer);
    }
}

/* ---- The seam ----------------------------------------------------------------------------------------------------------------- */

static void observer_free(struct zk_observer *observer) {
    free(observer->home);
    free(observer->leases);
    free(observer->value);
    free(observer);
}

int pawl__zk_observe(struct pawl__engine *engine, struct pawl__observer *seam, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    const char *base_path = zk->session.options.base_path;
    struct zk_observer *observer;
    int rc;
    char *home = pawl__zk_home(base_path, seam->name, reterr, &rc);

    if (!home)
        return rc;
    observer = calloc(1, sizeof *observer);
    if (!observer) {
        free(home);
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    observer->zk = zk;
    observer->seam = seam;
    observer->home = home;
    observer->leases = pawl__zk_text("%s/leases", home);
    observer->value = pawl__zk_value_path(base_path, seam->name, false);
    if (!observer->leases || !observer->value) {
        observer_free(observer);
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    pawl__zk_asker_init(&observer->asker, step);
    seam->every_ns = PAWL__NEVER;
    seam->engine_part = observer;
    pawl__zk_lock();
    TAILQ_INSERT_TAIL(&zk->observers.all, observer, link);
    pawl__zk_ring(&zk->session); /* its first look is due at once */
    pawl__zk_leave(zk);
    return 0;
}

void pawl__zk_unobserve(struct pawl__engine *engine, struct pawl__observer *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_observer *observer = seam->engine_part;

    pawl__zk_lock();
    while (zk->observers.told == observer)
        pthread_cond_wait(&zk->session.answered, &pawl__zk_mutex);
    forget_change(observer);
    TAILQ_REMOVE(&zk->observers.all, observer, link);
    drop_watches(observer);
    pawl__zk_asker_cut(&observer->asker);
    pawl__zk_leave(zk);
    observer_free(observer);
}
