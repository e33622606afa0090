/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.c - who observes a lock is told when its holder or its value may have changed.
 *
 * A lock that is observed has watches, and nothing else at the server: no znode, so that observers do not queue and nobody sees them. All
 * of a client's observers of it share them.
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
    TAILQ_ENTRY(zk_observer) link; /* observed->observers */
    TAILQ_ENTRY(zk_observer) news; /* zk->observers.changed, while `changed` */
    struct zk_observed *observed;
    struct pawl__observer *seam;
    bool changed; /* which the core is to be told */
};

struct zk_observed {
    struct zk_asker asker;         /* the first member */
    TAILQ_ENTRY(zk_observed) link; /* zk->observers.locks */
    TAILQ_HEAD(, zk_observer) observers;
    struct zk_engine *zk;
    char *home, *leases, *value; /* paths */
    struct {
        struct zk_watch *value, *holder, *directory, *leases;
    } watch;
    bool has_leases;   /* the lock's directory has theirs */
    int asked;         /* requests on their way */
    int64_t look_at;   /* when to set what is missing; PAWL__NEVER: nothing is */
    int64_t looked_at; /* when that was done last */
};

static struct zk_observed *observed_of(struct zk_asker *asker) {
    return (struct zk_observed *)asker;
}

static void look_by(struct zk_observed *observed, int64_t when) {
    if (when < observed->look_at)
        observed->look_at = when;
}

static void look_soon(struct zk_observed *observed) {
    int64_t now = pawl__boottime(), due = observed->looked_at + OBSERVE_NS;

    look_by(observed, due > now ? due : now);
}

/* ---- Asking ------------------------------------------------------------------------------------------------------------------ */

/* A request, with a watch for `slot`, unless that is NULL. NULL: out of memory. */
static struct zk_op *ask(struct zk_observed *observed, zk_done_fn *done, struct zk_watch **slot, const char *path, bool children,
                         zk_fired_fn *fired) {
    struct zk_session *session = &observed->zk->session;
    struct zk_op *op = NULL;

    if (!slot || pawl__zk_watch_new(session, &observed->asker, slot, path, children, fired))
        op = pawl__zk_op_new(session, &observed->asker, done, NULL);
    if (op)
        observed->asked++;
    else
        look_by(observed, pawl__boottime() + AGAIN_NS);
    if (!op && slot && *slot)
        pawl__zk_watch_set(*slot, ZSYSTEMERROR);
    return op;
}

static void drop_watches(struct zk_observed *observed) {
    pawl__zk_watch_drop(observed->watch.value);
    pawl__zk_watch_drop(observed->watch.holder);
    pawl__zk_watch_drop(observed->watch.directory);
    pawl__zk_watch_drop(observed->watch.leases);
}

static int on_event(struct zk_asker *asker, int type) {
    if (type != ZK_WATCH_MISSED)
        return CHANGED;
    drop_watches(observed_of(asker));
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
        pawl__zk_watch_drop(observed_of(op->asker)->watch.directory);
        look_soon(observed_of(op->asker));
    }
    return event;
}

/* Be told when the znode comes, changes or goes. */
static void watch_znode(struct zk_observed *observed, zk_done_fn *done, struct zk_watch **slot, const char *path) {
    struct zk_op *op = ask(observed, done, slot, path, false, on_event);

    if (op)
        pawl__zk_exists(op, path, *slot);
}

/* ---- Who holds? -------------------------------------------------------------------------------------------------------------- */

static int on_holder(struct zk_op *op, const struct zk_reply *reply) {
    if (op->asker && reply->rc == ZNONODE)
        look_soon(observed_of(op->asker)); /* gone already: who is next? */
    return watched(op, reply->rc, false);
}

static void watch_holder(struct zk_observed *observed, const char *child) {
    char *path = pawl__zk_text("%s/%s", observed->home, child);
    struct zk_op *op = path ? ask(observed, on_holder, &observed->watch.holder, path, false, on_event) : NULL;

    if (op)
        pawl__zk_get(op, path, observed->watch.holder);
    free(path);
}

static int on_leases(struct zk_op *op, const struct zk_reply *reply) {
    return watched(op, reply->rc, false); /* where they are gone, so is a child of the lock's directory */
}

static void watch_leases(struct zk_observed *observed) {
    struct zk_op *op = ask(observed, on_leases, &observed->watch.leases, observed->leases, true, on_event);

    if (op)
        pawl__zk_list(op, observed->leases, observed->watch.leases);
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
    struct zk_observed *observed = op->asker ? observed_of(op->asker) : NULL;
    const char *holder = observed && reply->rc == ZOK ? holder_in(reply->children) : NULL;
    int event = watched(op, reply->rc, false);

    if (!observed)
        return 0;
    if (holder) {
        pawl__zk_watch_drop(observed->watch.directory);
        watch_holder(observed, holder);
    } else if (reply->rc == ZOK && (observed->has_leases = has_child(reply->children, "leases")) && !observed->watch.leases) {
        watch_leases(observed);
    } else if (reply->rc == ZNONODE) {
        watch_znode(observed, on_home, &observed->watch.directory, observed->home);
    }
    return event;
}

/* Somebody else may have been there first: so this one sets no watch. */
static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_observed *observed = op->asker ? observed_of(op->asker) : NULL;
    const char *holder = reply->rc == ZOK ? holder_in(reply->children) : NULL;
    int event = watched(op, reply->rc, false);
    struct zk_op *list;

    if (event != ANSWERED || pawl__zk_reply_lost(reply->rc))
        return event;
    if (holder)
        watch_holder(observed, holder);
    else if ((list = ask(observed, on_queue, &observed->watch.directory, observed->home, true, on_event)))
        pawl__zk_list(list, observed->home, observed->watch.directory);
    return event;
}

/* ---- Looking ------------------------------------------------------------------------------------------------------------------ */

/* Set what is missing. There is a connection. */
static void look(struct zk_observed *observed, int64_t now) {
    struct zk_op *op;

    observed->look_at = PAWL__NEVER;
    observed->looked_at = now;
    if (!observed->watch.value)
        watch_znode(observed, on_looked, &observed->watch.value, observed->value);
    if (!observed->watch.holder && !observed->watch.directory) {
        if ((op = ask(observed, on_listed, NULL, NULL, false, NULL)))
            pawl__zk_list(op, observed->home, NULL);
    } else if (observed->watch.directory && observed->has_leases && !observed->watch.leases) {
        watch_leases(observed);
    }
}

static void note_change(struct zk_observer *observer) {
    if (!observer->changed)
        TAILQ_INSERT_TAIL(&observer->observed->zk->observers.changed, observer, news);
    observer->changed = true;
}

static void forget_change(struct zk_observer *observer) {
    if (observer->changed)
        TAILQ_REMOVE(&observer->observed->zk->observers.changed, observer, news);
    observer->changed = false;
}

static void step(struct zk_asker *asker, int event) {
    struct zk_observed *observed = observed_of(asker);
    struct zk_observer *observer;

    if (event == CHANGED) {
        look_soon(observed);
        return;
    }
    if (event == REFUSED)
        look_by(observed, pawl__boottime() + AGAIN_NS);
    if (--observed->asked > 0 || !zk_is_connected(&observed->zk->session))
        return;
    TAILQ_FOREACH(observer, &observed->observers, link) {
        note_change(observer);
    }
}

void pawl__zk_observers_tell(struct zk_engine *zk) {
    struct zk_observer *observer;

    while ((observer = TAILQ_FIRST(&zk->observers.changed))) {
        forget_change(observer);
        zk->observers.told = observer;
        pawl__zk_engine_unlock(zk);
        zk->base.changed(zk->base.core, observer->seam);
        pawl__zk_lock();
        zk->observers.told = NULL;
        pthread_cond_broadcast(&zk->session.answered);
    }
}

int64_t pawl__zk_observe_due(struct zk_engine *zk, int64_t now) {
    struct zk_observed *observed;
    int64_t due = PAWL__NEVER;

    if (!zk_is_connected(&zk->session))
        return PAWL__NEVER;
    TAILQ_FOREACH(observed, &zk->observers.locks, link) {
        if (observed->look_at <= now && observed->asked == 0 && zk->session.op_count < ZK_ROOM)
            look(observed, now);
        if (observed->look_at < due && observed->asked == 0)
            due = observed->look_at; /* without an answer, or room, what we wait for wakes us */
    }
    return zk->session.op_count < ZK_ROOM ? due : PAWL__NEVER;
}

void pawl__zk_observe_again(struct zk_engine *zk) {
    struct zk_observed *observed;

    TAILQ_FOREACH(observed, &zk->observers.locks, link) {
        drop_watches(observed);
        look_soon(observed);
    }
}

/* ---- The seam ----------------------------------------------------------------------------------------------------------------- */

static struct zk_observed *find(struct zk_engine *zk, const char *home) {
    struct zk_observed *observed;

    TAILQ_FOREACH(observed, &zk->observers.locks, link) {
        if (strcmp(observed->home, home) == 0)
            return observed;
    }
    return NULL;
}

static void observed_free(struct zk_observed *observed) {
    free(observed->home);
    free(observed->leases);
    free(observed->value);
    free(observed);
}

/* A lock that nobody observed. Its first look is due at once. NULL: out of memory. */
static struct zk_observed *make(struct zk_engine *zk, const char *home, const char *name) {
    struct zk_observed *observed = calloc(1, sizeof *observed);

    if (!observed)
        return NULL;
    observed->zk = zk;
    observed->home = strdup(home);
    observed->leases = pawl__zk_text("%s/leases", home);
    observed->value = pawl__zk_value_path(zk->session.options.base_path, name, false);
    if (!observed->home || !observed->leases || !observed->value) {
        observed_free(observed);
        return NULL;
    }
    pawl__zk_asker_init(&observed->asker, step);
    TAILQ_INIT(&observed->observers);
    TAILQ_INSERT_TAIL(&zk->observers.locks, observed, link);
    return observed;
}

int pawl__zk_observe(struct pawl__engine *engine, struct pawl__observer *seam, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_observer *observer;
    struct zk_observed *observed;
    int rc;
    char *home = pawl__zk_home(zk->session.options.base_path, seam->name, reterr, &rc);

    if (!home)
        return rc;
    observer = calloc(1, sizeof *observer);
    pawl__zk_lock();
    observed = observer ? find(zk, home) : NULL;
    if (observer && !observed)
        observed = make(zk, home, seam->name);
    if (observed) {
        *observer = (struct zk_observer){.seam = seam, .observed = observed};
        seam->every_ns = PAWL__NEVER;
        seam->engine_part = observer;
        TAILQ_INSERT_TAIL(&observed->observers, observer, link);
        if (observed->looked_at && observed->asked == 0 && zk_is_connected(&zk->session))
            note_change(observer); /* it stands already: no answer is on its way that would tell this one */
        pawl__zk_ring(&zk->session);
    }
    pawl__zk_engine_unlock(zk);
    free(home);
    if (observed)
        return 0;
    free(observer);
    return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
}

void pawl__zk_unobserve(struct pawl__engine *engine, struct pawl__observer *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_observer *observer = seam->engine_part;
    struct zk_observed *observed = observer->observed;

    pawl__zk_lock();
    while (zk->observers.told == observer) /* what it observes stays as long as it is in its list */
        pthread_cond_wait(&zk->session.answered, &pawl__zk_mutex);
    forget_change(observer);
    TAILQ_REMOVE(&observed->observers, observer, link);
    if (!TAILQ_EMPTY(&observed->observers)) {
        observed = NULL;
    } else {
        TAILQ_REMOVE(&zk->observers.locks, observed, link);
        drop_watches(observed);
        pawl__zk_asker_cut(&observed->asker);
    }
    pawl__zk_engine_unlock(zk);
    free(observer);
    if (observed)
        observed_free(observed);
}
