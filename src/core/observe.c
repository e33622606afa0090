/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.c - those who are told who holds a lock, and what its value is.
 *
 * An engine only says that something may have changed (pawl__observers_changed). A thread of the client's, which is there while somebody
 * observes, then looks (observation.c), compares with what it saw last, and tells; itself, or by an event for pawl_dispatch(). It looks
 * anyway now and then, as often as the engine says, and when the lease that it was shown would end: that others may only notice late.
 *
 *     observer:   look_at   when it is to be looked at; changed() brings it forward, but no two looks begin within LOOK_NS
 *                 next      what the last look has shown, if that is news
 *                 seen      what it was told last, or is about to be (POSTED)
 *
 * A look is for all observers of that name: a thousand of one lock cost no more requests than one.
 * One thread looks at all names. So a look at what is at a server that is down fails at once (FRESH_TOLD), and the engine tells when that
 * is back: else each of its names would keep the thread from those of the other servers, for as long as a look may take.
 *
 * Invariants
 *   - observers.mutex guards all of it, and is a leaf: engines call changed() with mutexes of their own. No engine is called, and no
 *     callback runs, with it held.
 *   - What changes during a look is looked at again: `changed` is reset before it. So the last state is never missed.
 *   - An observer lives as long as its user, the look and the event that speak of it. After pawl_unobserve none of them tells: it waits
 *     for a callback that runs, unless it is called in it.
 *   - The thread ends when nobody observes any more, and is joined by the next who needs one, or by pawl_close.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/observe.h"
#include "core/observation.h"
#include "base/error.h"
#include "base/lease.h"
#include "base/name.h"
#include "os/uncancelled.h"

#define LOOK_NS (10 * PAWL__NS_PER_MS)   /* from one look to the next, at least */
#define RETRY_NS PAWL__NS_PER_S          /* after a look that failed */
#define RARELY_NS (30 * PAWL__NS_PER_S)  /* if nothing is told */
#define LOOK_WITHIN (2 * PAWL__NS_PER_S) /* how long a look may take */
#define ENDED_NS (20 * PAWL__NS_PER_MS)  /* so long after a lease has ended the server has noticed */

struct pawl_observer {
    struct event event; /* first: its run() gets this. Posted with PAWL_OPEN_LOSS_BY_DISPATCH */
    TAILQ_ENTRY(pawl_observer) link;
    struct pawl *client;
    struct pawl__observer seam;
    pawl_observed_fn *fn;
    void *data;
    unsigned references;
    enum telling_state state; /* written by step() alone */
    pthread_t caller;         /* CALLING, LAST: the thread in which its callback runs */
    bool looks;               /* the look that goes on is for it, too */
    bool changed;             /* since that look began */
    int64_t look_at, looked_at;
    int warned_of; /* the error of its look that was last told of */
    struct observation *next, *seen;
    char name[];
};

/* ---- The states ----------------------------------------------------------------------------------------------------------- */

/* What is seen while its callback runs is told after it: see run_event(). So no callback is called twice at a time, and no event is in
 * the queue twice. An event that was posted comes in any case, and finds perhaps that nobody observes. */
static const uint8_t telling_moves[TELLING_STATES][TELLING_EVENTS] = {
    /* POST CALL RETURN END */
    [TELLING_NOTHING] = {TELLING_POSTED, TELLING_CALLING, TELLING_NEVER, TELLING_OVER},
    [TELLING_POSTED] = {TELLING_IGNORED, TELLING_CALLING, TELLING_NEVER, TELLING_OVER},
    [TELLING_CALLING] = {TELLING_IGNORED, TELLING_NEVER, TELLING_NOTHING, TELLING_LAST},
    [TELLING_LAST] = {TELLING_IGNORED, TELLING_NEVER, TELLING_OVER, TELLING_NEVER},
    [TELLING_OVER] = {TELLING_IGNORED, TELLING_IGNORED, TELLING_NEVER, TELLING_NEVER},
};

static const uint8_t looking_moves[LOOKING_STATES][LOOKING_EVENTS] = {
    /* START LEAVE JOIN */
    [LOOKING_NONE] = {LOOKING_RUNS, LOOKING_NEVER, LOOKING_NEVER},
    [LOOKING_RUNS] = {LOOKING_IGNORED, LOOKING_OVER, LOOKING_NEVER}, /* it looks for the new one, too */
    [LOOKING_OVER] = {LOOKING_NEVER, LOOKING_NEVER, LOOKING_NONE},
};

int pawl__telling_move(enum telling_state state, enum telling_event event) {
    return telling_moves[state][event];
}

int pawl__looking_move(enum looking_state state, enum looking_event event) {
    return looking_moves[state][event];
}

/* The mutex is held. False: the event means nothing to it now. */
static bool step(struct pawl_observer *observer, enum telling_event event) {
    int next = pawl__telling_move(observer->state, event);

    assert(next != TELLING_NEVER);
    if (next >= TELLING_STATES)
        return false;
    observer->state = (enum telling_state)next;
    return true;
}

/* Likewise, of the thread. */
static void step_thread(struct observers *all, enum looking_event event) {
    int next = pawl__looking_move(all->state, event);

    assert(next != LOOKING_NEVER);
    if (next < LOOKING_STATES)
        all->state = (enum looking_state)next;
}

/* ---- Observers ------------------------------------------------------------------------------------------------------------ */

static struct pawl_observer *observer_of(struct pawl__observer *seam) {
    return (struct pawl_observer *)((char *)seam - offsetof(struct pawl_observer, seam));
}

/* The mutex is held. */
static void put(struct pawl_observer *observer) {
    if (--observer->references > 0)
        return;
    pawl__observation_put(observer->next);
    pawl__observation_put(observer->seen);
    free(observer);
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

/* Unless nobody observes any more. The mutex is held, but for the callback. True: more was seen meanwhile. */
static bool tell(struct pawl_observer *observer) {
    struct observers *all = &observer->client->observers;
    struct observation *observation;
    struct pawl_observed observed;
    struct calling calling;
    bool more;

    if (!step(observer, TELLING_CALL))
        return false;
    observation = pawl__observation_ref(observer->seen);
    observed = (struct pawl_observed){
        .name = observer->name,
        .holder = observation->held ? &observation->entry : NULL,
        .value = pawl__value_shown(observation->value),
        .holders_value = observation->value_is_holders ? pawl__value_shown(observation->value) : NULL,
    };

    observer->caller = pthread_self();
    pthread_mutex_unlock(&all->mutex);
    pawl__calling_begin(&calling, CALLING_OBSERVED, observer->client);
    observer->fn(&observed, observer->data);
    pawl__calling_end(&calling);
    pthread_mutex_lock(&all->mutex);
    step(observer, TELLING_RETURN);
    pthread_cond_broadcast(&all->idle);
    more = observer->seen != observation;
    pawl__observation_put(observation);
    return more;
}

static void post(struct pawl_observer *observer) {
    if (!step(observer, TELLING_POST))
        return;
    observer->references++;
    pawl__event_post(observer->client, &observer->event);
}

/* In pawl_dispatch(), which several threads may call: what is seen while the callback runs is posted after it. */
static void run_event(struct event *event) {
    struct pawl_observer *observer = (struct pawl_observer *)event;
    struct observers *all = &observer->client->observers;

    pthread_mutex_lock(&all->mutex);
    if (tell(observer))
        post(observer);
    put(observer);
    pthread_mutex_unlock(&all->mutex);
}

static void tell_or_post(struct pawl_observer *observer) {
    if (!(observer->client->flags & PAWL_OPEN_LOSS_BY_DISPATCH))
        tell(observer);
    else
        post(observer);
}

/* ---- Looking -------------------------------------------------------------------------------------------------------------- */

static int64_t next_look(const struct pawl_observer *observer, const struct observation *observation, int64_t now) {
    int64_t rarely = now + RARELY_NS, every = pawl__time_add(now, observer->seam.every_ns), ends;

    if (observer->changed)
        return observer->looked_at + LOOK_NS;
    if (!observation)
        return now + RETRY_NS;
    ends = pawl__time_add(pawl__observation_ends(observation, now), ENDED_NS);
    rarely = every < rarely ? every : rarely;
    return ends < rarely ? ends : rarely;
}

static void begin_look(struct observers *all, const struct pawl_observer *first) {
    int64_t now = pawl__boottime();
    struct pawl_observer *observer;

    TAILQ_FOREACH(observer, &all->list, link) {
        if (observer->seam.name_hash != first->seam.name_hash || strcmp(observer->name, first->name) != 0)
            continue;
        observer->looks = true;
        observer->changed = false;
        observer->looked_at = now;
    }
}

static void end_look(struct observers *all, struct observation *observation) {
    int64_t now = pawl__boottime();
    struct pawl_observer *observer;

    TAILQ_FOREACH(observer, &all->list, link) {
        if (!observer->looks)
            continue;
        observer->looks = false;
        observer->look_at = next_look(observer, observation, now);
        if (!observation)
            continue;
        pawl__observation_put(observer->next);
        observer->next = observer->seen && pawl__observation_same(observer->seen, observation) ? NULL
                                                                                               : pawl__observation_ref(observation);
    }
}

/* Once of each error that will not pass by itself. Of lost connections engines tell. The mutex is held, but for the warning. */
static void warn_once(struct pawl_observer *observer, const struct pawl_error *why) {
    struct observers *all = &observer->client->observers;

    if (why->code == PAWL_ECONNLOST || why->code == PAWL_ETIMEOUT || why->code == observer->warned_of)
        return;
    observer->warned_of = why->code;
    if (why->code == 0)
        return;
    pthread_mutex_unlock(&all->mutex);
    pawl__warn(observer->client->engine, "who observes '%s' is not told of all: %s", observer->name, why->text);
    pthread_mutex_lock(&all->mutex);
}

/* The mutex is held, but for the look. */
static void look(struct pawl_observer *observer) {
    struct observers *all = &observer->client->observers;
    struct pawl_error why;
    struct observation *observation;

    observer->references++;
    begin_look(all, observer);
    pthread_mutex_unlock(&all->mutex);
    observation = pawl__observation_take(observer->client, observer->name, pawl__boottime() + LOOK_WITHIN, &why);
    pthread_mutex_lock(&all->mutex);
    warn_once(observer, &why);
    end_look(all, observation);
    pawl__observation_put(observation);
    put(observer);
}

/* The mutex is held, but for the callback. False: there is no news. */
static bool tell_next(struct observers *all) {
    struct pawl_observer *observer;
    struct observation *before;

    TAILQ_FOREACH(observer, &all->list, link) {
        if (observer->next)
            break;
    }
    if (!observer)
        return false;
    observer->references++;
    before = observer->seen;
    observer->seen = observer->next;
    observer->next = NULL;
    tell_or_post(observer);
    pawl__observation_put(before);
    put(observer);
    return true;
}

/* The first that is due, which goes to the end; NULL: none is before `retuntil`. */
static struct pawl_observer *next_due(struct observers *all, int64_t now, int64_t *retuntil) {
    struct pawl_observer *observer;

    *retuntil = PAWL__NEVER;
    TAILQ_FOREACH(observer, &all->list, link) {
        if (observer->look_at <= now) {
            TAILQ_REMOVE(&all->list, observer, link);
            TAILQ_INSERT_TAIL(&all->list, observer, link);
            return observer;
        }
        *retuntil = observer->look_at < *retuntil ? observer->look_at : *retuntil;
    }
    return NULL;
}

static void *observers_main(void *data) {
    struct pawl *client = data;
    struct observers *all = &client->observers;
    struct pawl_observer *observer;
    int64_t until;

    pthread_mutex_lock(&all->mutex);
    while (!all->stop && !TAILQ_EMPTY(&all->list)) {
        if (tell_next(all))
            continue;
        observer = next_due(all, pawl__boottime(), &until);
        if (observer)
            look(observer);
        else
            pawl__wait_until(&all->wake, &all->mutex, until);
    }
    step_thread(all, LOOKING_LEAVE);
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

void pawl__observers_changed(void *core, struct pawl__observer *seam) {
    struct pawl *client = core;
    struct pawl_observer *observer = observer_of(seam);
    int64_t soon;

    pthread_mutex_lock(&client->observers.mutex);
    observer->changed = true;
    soon = observer->looked_at + LOOK_NS;
    if (soon < observer->look_at) {
        observer->look_at = soon;
        pthread_cond_signal(&client->observers.wake);
    }
    pthread_mutex_unlock(&client->observers.mutex);
}

/* ---- Beginning and ending -------------------------------------------------------------------------------------------------- */

static void join_thread(struct observers *all) {
    pthread_join(all->thread, NULL);
    step_thread(all, LOOKING_JOIN);
}

/* Put it where the thread finds it, and see that there is one. The mutex is held. */
static bool begin(struct pawl_observer *observer) {
    struct observers *all = &observer->client->observers;

    if (all->state == LOOKING_OVER)
        join_thread(all);
    TAILQ_INSERT_TAIL(&all->list, observer, link);
    if (all->state == LOOKING_NONE && !pawl__service_thread(&all->thread, observers_main, observer->client)) {
        TAILQ_REMOVE(&all->list, observer, link);
        return false;
    }
    step_thread(all, LOOKING_START);
    pthread_cond_signal(&all->wake);
    return true;
}

static struct pawl_observer *new_observer(struct pawl *client, const char *name, pawl_observed_fn *fn, void *data) {
    size_t length = strlen(name);
    struct pawl_observer *observer = calloc(1, sizeof *observer + length + 1);

    if (!observer)
        return NULL;
    memcpy(observer->name, name, length + 1);
    observer->event.run = run_event;
    observer->client = client;
    observer->seam = (struct pawl__observer){
        .name = observer->name,
        .name_length = (uint32_t)length,
        .name_hash = pawl__name_hash(name, length),
        .every_ns = PAWL__NEVER,
    };
    observer->fn = fn;
    observer->data = data;
    observer->references = 1;
    observer->looked_at = -LOOK_NS;
    return observer;
}

static int check(const struct pawl *client, const char *name, pawl_observed_fn *fn, struct pawl_observer **ret,
                 struct pawl_error *reterr) {
    int rc = pawl__client_check(client, reterr);

    if (rc < 0 || (rc = pawl__name_check(name, reterr)) < 0)
        return rc;
    if (!fn || !ret)
        return pawl__fail(reterr, PAWL_EINVAL, "observing '%s' needs a function that is told, and a place for the observer", name);
    if (atomic_load(&client->closed))
        return pawl__fail(reterr, PAWL_ECLOSED, "the client is closed: nobody can observe '%s'", name);
    return pawl__client_check_values(client, reterr);
}

int pawl_observe(struct pawl *client, const char *name, pawl_observed_fn *fn, void *data, struct pawl_observer **ret,
                 struct pawl_error *reterr) {
    struct pawl_observer *observer;
    bool begun;
    int rc;
    UNCANCELLED;

    if ((rc = check(client, name, fn, ret, reterr)) < 0)
        return rc;
    if (!(observer = new_observer(client, name, fn, data)))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if ((rc = impl_of(client)->values->observe(client->engine, &observer->seam, reterr)) < 0) {
        free(observer);
        return rc;
    }
    pthread_mutex_lock(&client->observers.mutex);
    begun = begin(observer);
    pthread_mutex_unlock(&client->observers.mutex);
    if (!begun) {
        impl_of(client)->values->unobserve(client->engine, &observer->seam);
        free(observer);
        return pawl__fail(reterr, PAWL_ESYSTEM, "a thread that looks at '%s' can't be started", name);
    }
    *ret = observer;
    return 0;
}

void pawl_unobserve(struct pawl_observer *observer) {
    struct observers *all;
    UNCANCELLED;

    if (!observer || atomic_load(&observer->client->forked) || pawl__in_log())
        return;
    all = &observer->client->observers;
    impl_of(observer->client)->values->unobserve(observer->client->engine, &observer->seam);
    pthread_mutex_lock(&all->mutex);
    step(observer, TELLING_END);
    TAILQ_REMOVE(&all->list, observer, link);
    pthread_cond_signal(&all->wake);
    while (observer->state == TELLING_LAST && !pthread_equal(observer->caller, pthread_self()))
        pthread_cond_wait(&all->idle, &all->mutex);
    put(observer);
    pthread_mutex_unlock(&all->mutex);
}

void pawl__observers_stop(struct pawl *client) {
    pthread_mutex_lock(&client->observers.mutex);
    client->observers.stop = true;
    pthread_cond_signal(&client->observers.wake);
    pthread_mutex_unlock(&client->observers.mutex);
}

void pawl__observers_end(struct pawl *client) {
    struct observers *all = &client->observers;
    struct pawl_observer *observer;
    bool started;

    pthread_mutex_lock(&all->mutex);
    started = all->state != LOOKING_NONE;
    pthread_mutex_unlock(&all->mutex);
    if (started)
        join_thread(all);
    while ((observer = TAILQ_FIRST(&all->list)))
        pawl_unobserve(observer);
}
