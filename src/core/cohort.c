/* SPDX-License-Identifier: Apache-2.0
 *
 * cohort.c - the threads and tasks of this process that want one lock: whom each waits for, who is next.
 *
 * The claims of a cohort stand in the order in which they were submitted, which is their order in the engine's queue:
 *
 *     claims:   [shared, HELD]  ->  [exclusive, PENDING]  ->  [shared, PENDING]
 *     waiters:                       t1 t2 t3                   t4 t5
 *     holds:     t0
 *
 * A newcomer joins the last claim if that has the same mode and is still within its bounds; otherwise it starts a new claim at the
 * end. So within the process it is first come, first served too, and neither readers nor writers can starve each other.
 *
 * The bounds: a claim serves at most 1 + `handoffs` acquires, and is neither joined nor handed on later than `handoff_ns` after the
 * first acquire that joined it. The bound is on joining, not only on handing on: else a stream of readers, each joining before the
 * last one leaves, would keep a claim for ever. Those who come over from a claim that was lost or downgraded are served beyond the
 * number: they have waited longest.
 * An engine that knows that nobody else waits may let a claim go on (pawl__claim_go_on). Then the bounds count anew, from the moment when
 * it was asked: whoever comes to wait later is passed by as many as before.
 *
 * Who waits in the engine: the first waiter of a pending claim, if it is a thread and the engine lets callers park; else serve().
 * When the first waiter goes away, pawl__cohort_nudge() finds another.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "base/error.h"
#include "os/futex.h"
#include "base/lease.h"
#include "base/name.h"
#include "os/sleep.h"

struct cohort_list *pawl__cohort_table(size_t buckets) {
    struct cohort_list *table = malloc(buckets * sizeof *table);

    for (size_t i = 0; table && i < buckets; i++)
        TAILQ_INIT(&table[i]);
    return table;
}

static struct cohort_list *bucket_of(const struct pawl *client, uint32_t hash) {
    return &client->cohorts[hash & (client->cohort_buckets - 1)];
}

/* Keep the chains short. Without memory they stay long, and all works. */
static void grow_table(struct pawl *client) {
    size_t buckets = 4 * client->cohort_buckets;
    struct cohort_list *table = client->cohorts_now > client->cohort_buckets ? pawl__cohort_table(buckets) : NULL;
    struct cohort *cohort;

    if (!table)
        return;
    free(client->cohorts);
    client->cohorts = table;
    client->cohort_buckets = buckets;
    TAILQ_FOREACH(cohort, &client->every_cohort, every) {
        TAILQ_INSERT_TAIL(bucket_of(client, cohort->name_hash), cohort, link);
    }
}

struct cohort *pawl__cohort_get(struct pawl *client, const char *name, enum pawl_kind kind, uint32_t limit, bool nonreentrant) {
    size_t length = strlen(name);
    uint32_t hash = pawl__name_hash(name, length);
    struct cohort *cohort;

    TAILQ_FOREACH(cohort, bucket_of(client, hash), link) {
        if (cohort->name_hash == hash && strcmp(cohort->name, name) == 0 && cohort->kind == kind && cohort->limit == limit &&
            cohort->nonreentrant == nonreentrant) {
            cohort->references++;
            return cohort;
        }
    }
    cohort = calloc(1, sizeof *cohort + length + 1);
    if (!cohort)
        return NULL;
    cohort->client = client;
    cohort->engine = client->engine;
    cohort->references = 1;
    cohort->next_id = client->cohort_count++ << 40;
    cohort->kind = kind;
    cohort->limit = limit;
    cohort->nonreentrant = nonreentrant;
    cohort->joins = client->handoffs > 0 && kind != PAWL_SEMAPHORE;
    cohort->name_length = (uint32_t)length;
    cohort->name_hash = hash;
    memcpy(cohort->name, name, length + 1);
    pthread_mutex_init(&cohort->mutex, NULL);
    TAILQ_INIT(&cohort->claims);
    TAILQ_INIT(&cohort->unsettled);
    TAILQ_INIT(&cohort->leaving);
    TAILQ_INIT(&cohort->parts);
    TAILQ_INSERT_TAIL(bucket_of(client, hash), cohort, link);
    TAILQ_INSERT_TAIL(&client->every_cohort, cohort, every);
    client->cohorts_now++;
    grow_table(client);
    return cohort;
}

void pawl__cohort_free(struct cohort *cohort) {
    struct pawl *client = cohort->client;
    struct claim *claim;

    while ((claim = TAILQ_FIRST(&cohort->leaving))) { /* the client was closed before the engine had settled them */
        TAILQ_REMOVE(&cohort->leaving, claim, link);
        free(claim);
    }
    TAILQ_REMOVE(bucket_of(client, cohort->name_hash), cohort, link);
    TAILQ_REMOVE(&client->every_cohort, cohort, every);
    client->cohorts_now--;
    pthread_mutex_destroy(&cohort->mutex);
    free(cohort->spare);
    free(cohort);
}

void pawl__cohort_reap(struct cohort *cohort) {
    bool idle;

    if (cohort->references)
        return;
    pthread_mutex_lock(&cohort->mutex);
    idle = cohort->claim_count == 0 || atomic_load(&cohort->client->ended);
    pthread_mutex_unlock(&cohort->mutex);
    if (idle)
        pawl__cohort_free(cohort);
}

void pawl__cohort_put(struct cohort *cohort) {
    cohort->references--;
    pawl__cohort_reap(cohort);
}

void pawl__cohort_let_go(struct cohort *cohort) {
    _Atomic uint32_t *wake = cohort->wake;

    cohort->wake = NULL;
    pthread_mutex_unlock(&cohort->mutex);
    /* The word may be gone by now, with the stack that it was on: then this wakes nobody, or somebody who looks and sleeps on. */
    if (wake)
        futex_wake_own(wake, 1);
}

int pawl__cohort_unlock(struct cohort *cohort) {
    int rc = pawl__claim_settle_all(cohort);

    pawl__cohort_let_go(cohort);
    return rc;
}

uint32_t pawl__cohort_tokens(const struct cohort *cohort, uint32_t used) {
    uint32_t most = 1 + cohort->client->handoffs;

    return used < 2 ? used : used < most / 2 ? used * 2 : most;
}

/* ---- Waiters -------------------------------------------------------------------------------------------------------------- */

/* One more acquire that the claim is to serve. If that takes more tokens than were asked for, twice as many are: so the engine is told
 * of it now and then, not every time. It may be reading the number; only we write it. True: it is to be told. */
static bool count_served(struct claim *claim) {
    uint32_t wanted = atomic_load_explicit(&claim->seam.token_want, memory_order_relaxed);

    if (++claim->served <= wanted)
        return false;
    wanted = pawl__cohort_tokens(claim->cohort, claim->served);
    atomic_store_explicit(&claim->seam.token_want, wanted < claim->served ? claim->served : wanted, memory_order_relaxed);
    return true;
}

static bool attach(struct claim *claim, struct waiter *waiter) {
    waiter->claim = claim;
    waiter->state = WAITER_WAITING;
    TAILQ_INSERT_TAIL(&claim->waiters, waiter, link);
    return count_served(claim);
}

/* Wake the waiter's thread, if it sleeps. */
static void wake(struct cohort *cohort, struct waiter *waiter) {
    if (!atomic_load_explicit(&waiter->sleeping, memory_order_relaxed))
        return;
    atomic_store(&waiter->sleeping, 0);
    if (cohort->wake)
        futex_wake_own(cohort->wake, 1);
    cohort->wake = &waiter->sleeping;
}

/* The waiter's fate is decided: tell it. */
static void conclude(struct waiter *waiter, enum waiter_state state) {
    if (waiter->claim) {
        TAILQ_REMOVE(&waiter->claim->waiters, waiter, link);
        waiter->claim = NULL;
    }
    waiter->state = state;
    if (waiter->event)
        pawl__event_post(waiter->lock->client, waiter->event);
    else
        wake(waiter->lock->cohort, waiter);
}

void pawl__cohort_grant(struct claim *claim, struct waiter *waiter, uint64_t token) {
    struct hold *hold = waiter->hold;

    waiter->hold = NULL;
    *hold = (struct hold){
        .lock = waiter->lock,
        .claim = claim,
        .owner = waiter->owner,
        .token = token,
        .exclusive = waiter->mode != PAWL_SHARED,
        .shared = waiter->mode == PAWL_SHARED,
    };
    TAILQ_INSERT_TAIL(&claim->holds, hold, of_claim);
    TAILQ_INSERT_HEAD(&waiter->lock->holds, hold, of_lock);
    conclude(waiter, WAITER_GRANTED);
}

void pawl__cohort_end(struct waiter *waiter, int code, const char *format, ...) {
    struct claim *claim = waiter->claim;
    va_list args;

    waiter->error.code = code;
    va_start(args, format);
    vsnprintf(waiter->error.text, sizeof waiter->error.text, format, args);
    va_end(args);
    conclude(waiter, WAITER_ENDED);
    if (!claim || claim->doomed || claim->state != CLAIM_PENDING)
        return;
    if (TAILQ_EMPTY(&claim->waiters))
        pawl__claim_retire(claim);
    else
        pawl__cohort_nudge(claim);
}

/* Does the server itself say why a claim is not even queued? */
static bool hindered(const struct waiter *waiter, struct pawl_error *ret) {
    struct pawl__engine *engine = waiter->lock->cohort->engine;
    pawl__hindered_fn *ask = engine->impl->extras->hindered;
    struct claim *claim = waiter->claim;

    return ask && claim && claim->state == CLAIM_PENDING && ask(engine, &claim->seam, ret);
}

void pawl__cohort_end_late(struct waiter *waiter) {
    struct cohort *cohort = waiter->lock->cohort;
    int link = atomic_load(&cohort->engine->link);
    struct pawl_error why;

    if (link && link != PAWL_ECONNLOST)
        pawl__cohort_end(waiter, link, "'%s' was not acquired within %lld ms: %s; pawl doctor %s says more", cohort->name,
                         (long long)waiter->timeout_ms, pawl_error_text(link), cohort->client->info.url);
    else if (link && hindered(waiter, &why))
        pawl__cohort_end(waiter, why.code, "'%s' was not acquired within %lld ms: %s", cohort->name, (long long)waiter->timeout_ms,
                         why.text);
    else if (link)
        pawl__cohort_end(waiter, link, "no connection to %s: '%s' was not acquired; look whether the server runs",
                         cohort->client->info.url, cohort->name);
    else if (hindered(waiter, &why))
        pawl__cohort_end(waiter, PAWL_ETIMEOUT, "'%s' was not acquired within %lld ms: %s", cohort->name,
                         (long long)waiter->timeout_ms, why.text);
    else if (waiter->try_only)
        pawl__cohort_end(waiter, PAWL_ETIMEOUT, "the engine gave no answer about '%s' in time: try again", cohort->name);
    else
        pawl__cohort_end(waiter, PAWL_ETIMEOUT, "'%s' was not acquired within %lld ms: others hold it or wait ahead", cohort->name,
                         (long long)waiter->timeout_ms);
}

void pawl__cohort_nudge(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    struct waiter *first = TAILQ_FIRST(&claim->waiters);

    if (claim->state != CLAIM_PENDING || pawl__claim_served(claim))
        return;
    if (claim->parked)
        engine->impl->parking->unpark(engine, &claim->seam);
    else if (first->event)
        pawl__claim_adopt(claim);
    else
        wake(claim->cohort, first);
}

static void sleep_until(struct cohort *cohort, struct waiter *waiter, int64_t now) {
    atomic_store(&waiter->sleeping, 1);
    pawl__cohort_let_go(cohort);
    futex_wait_own(&waiter->sleeping, 1, pawl__nap_ns(now, waiter->deadline));
    pthread_mutex_lock(&cohort->mutex);
    atomic_store(&waiter->sleeping, 0);
}

void pawl__cohort_wait(struct cohort *cohort, struct waiter *waiter) {
    while (waiter->state == WAITER_WAITING) {
        struct claim *claim = waiter->claim;
        int64_t now = pawl__boottime();

        if (now >= waiter->deadline)
            pawl__cohort_end_late(waiter);
        else if (claim->state == CLAIM_PENDING && TAILQ_FIRST(&claim->waiters) == waiter && !pawl__claim_served(claim) &&
                 !claim->parked)
            pawl__claim_park(claim, waiter->deadline);
        else
            sleep_until(cohort, waiter, now);
    }
}

/* ---- Joining -------------------------------------------------------------------------------------------------------------- */

static bool is_late(const struct claim *claim) {
    return claim->join_until && pawl__boottime() >= claim->join_until;
}

/* Nobody has noticed yet: the process was stopped, or the service thread is late. */
static bool has_expired(const struct claim *claim) {
    return claim->state == CLAIM_HELD && claim->assured_until != PAWL__NEVER && pawl__boottime() >= claim->assured_until;
}

/* Is the claim within its bounds, the new ones if it may go on? */
static bool may_be_joined(struct claim *claim) {
    if (claim->served >= claim->serves_most || is_late(claim))
        pawl__claim_go_on(claim);
    return claim->served < claim->serves_most && !is_late(claim);
}

static bool may_be_handed_on(struct claim *claim) {
    if (is_late(claim) || claim->tokens_used == claim->seam.token_count)
        pawl__claim_go_on(claim);
    return !is_late(claim) && !has_expired(claim);
}

/* The claim that a newcomer may join, or NULL. */
static struct claim *joinable(struct cohort *cohort, const struct waiter *waiter) {
    struct claim *last = TAILQ_LAST(&cohort->claims, claim_list);

    if (!cohort->joins || !last || last->seam.mode != waiter->mode || last->doomed || last->lost || last->downgrading)
        return NULL;
    if (last->state == CLAIM_PENDING && last->seam.try_only)
        return NULL;
    if (last->seam.max_hold_ns || waiter->max_hold_ns) /* each has all of its time, counted from its own grant */
        return NULL;
    return !has_expired(last) && may_be_joined(last) ? last : NULL;
}

/* A hold that the waiter's thread has through another handle of the same name. */
static struct hold *other_hold(const struct cohort *cohort, const struct waiter *waiter) {
    struct claim *claim;
    struct hold *hold;

    if (cohort->kind == PAWL_SEMAPHORE || waiter->lock->flags & PAWL_TASK)
        return NULL;
    TAILQ_FOREACH(claim, &cohort->claims, link) {
        TAILQ_FOREACH(hold, &claim->holds, of_claim) {
            if (hold->owner == waiter->owner && !hold->lost && !has_expired(claim))
                return hold;
        }
    }
    return NULL;
}

/* The thread shares the lock already: its further hold comes under the same claim at once, since to wait behind a writer that
 * waits for this thread would never end. */
static void enter_beside(struct hold *other, struct waiter *waiter) {
    uint64_t token = other->claim->downgrading ? 0 : pawl__claim_token(other->claim);

    pawl__cohort_grant(other->claim, waiter, token ? token : other->token);
}

static void start(struct cohort *cohort, struct waiter *waiter) {
    struct claim *claim = pawl__claim_new(cohort, waiter, waiter->try_only);

    if (!claim) {
        pawl__cohort_end(waiter, PAWL_ENOMEM, "out of memory");
        return;
    }
    attach(claim, waiter);
    pawl__claim_submit(claim);
}

static void join(struct claim *claim, struct waiter *waiter) {
    struct cohort *cohort = claim->cohort;
    uint64_t token;

    if (claim->state == CLAIM_HELD && !claim->join_until)
        claim->join_until = pawl__time_add(pawl__boottime(), cohort->client->handoff_ns);
    if (claim->state == CLAIM_HELD && waiter->mode == PAWL_SHARED) {
        token = pawl__claim_token(claim);
        if (!token) {
            start(cohort, waiter);
            return;
        }
        claim->served++;
        pawl__cohort_grant(claim, waiter, token);
    } else if (waiter->try_only) {
        pawl__cohort_end(waiter, PAWL_EHELD, "'%s' is held by another thread of this process, or others wait ahead", cohort->name);
    } else {
        /* A thread that is parked need not look: it stays the first. */
        bool more = attach(claim, waiter);

        if (more || !claim->parked)
            pawl__cohort_nudge(claim);
        pawl__claim_ask_to_go_on(claim);
    }
}

void pawl__cohort_enter(struct cohort *cohort, struct waiter *waiter) {
    struct hold *other = TAILQ_EMPTY(&cohort->claims) ? NULL : other_hold(cohort, waiter);
    struct claim *claim;

    if (other && (waiter->mode == PAWL_EXCLUSIVE || other->claim->seam.mode == PAWL_EXCLUSIVE)) {
        pawl__cohort_end(waiter, PAWL_EDEADLK, "this thread holds '%s' through another handle: it would wait for itself",
                         cohort->name);
        return;
    }
    if (other)
        enter_beside(other, waiter);
    else if ((claim = joinable(cohort, waiter)))
        join(claim, waiter);
    else
        start(cohort, waiter);
    if (waiter->state == WAITER_WAITING && waiter->event)
        pawl__service_due(cohort->client, waiter->deadline);
}

/* End all of them for want of memory; those of the first `made` have a claim, which nobody was asked for. */
static void end_unasked(struct waiter *const waiters[], size_t count, struct claim *const claims[], size_t made) {
    struct pawl_error error;

    pawl__fail(&error, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < made; i++)
        pawl__claim_refused(claims[i], &error);
    for (size_t i = made; i < count; i++)
        pawl__cohort_end(waiters[i], error.code, "%s", error.text);
}

void pawl__cohort_enter_all(struct waiter *const waiters[], size_t count) {
    struct claim *claims[PAWL__TOGETHER_MAX] = {NULL};

    for (size_t i = 0; i < count; i++) {
        claims[i] = pawl__claim_new(waiters[i]->lock->cohort, waiters[i], true);
        if (!claims[i]) {
            end_unasked(waiters, count, claims, i);
            return;
        }
        attach(claims[i], waiters[i]);
    }
    pawl__claim_submit_all(claims, count);
    for (size_t i = 0; i < count; i++)
        if (waiters[i]->state == WAITER_WAITING && waiters[i]->event)
            pawl__service_due(waiters[i]->lock->client, waiters[i]->deadline);
}

/* ---- Handing on ----------------------------------------------------------------------------------------------------------- */

/* The claim that waiters of `claim` may move to: the next one, if it waits for the same. */
static struct claim *next_home(const struct claim *claim, const struct waiter *waiter) {
    struct claim *next = TAILQ_NEXT(claim, link);

    if (!next || next->state != CLAIM_PENDING || next->seam.mode != waiter->mode || next->doomed || next->seam.try_only ||
        next->seam.max_hold_ns || waiter->max_hold_ns)
        return NULL;
    return next;
}

/* Move all waiters to the front of `home`: they have waited longer than those who are there. */
static void move_waiters(struct claim *claim, struct claim *home) {
    struct waiter *waiter;

    while ((waiter = TAILQ_LAST(&claim->waiters, waiter_list))) {
        TAILQ_REMOVE(&claim->waiters, waiter, link);
        TAILQ_INSERT_HEAD(&home->waiters, waiter, link);
        waiter->claim = home;
        count_served(home);
    }
}

void pawl__cohort_rehome(struct claim *claim) {
    struct waiter *waiter = TAILQ_FIRST(&claim->waiters);
    struct claim *home;

    if (!waiter)
        return;
    home = next_home(claim, waiter);
    if (home) {
        move_waiters(claim, home);
        pawl__cohort_nudge(home);
        return;
    }
    home = pawl__claim_new(claim->cohort, waiter, false);
    if (!home) {
        while ((waiter = TAILQ_FIRST(&claim->waiters)))
            pawl__cohort_end(waiter, PAWL_ENOMEM, "out of memory");
        return;
    }
    move_waiters(claim, home);
    pawl__claim_submit(home);
}

/* Give the claim to its next waiter, if it has one and is within its bounds. */
static bool hand_on(struct claim *claim) {
    struct waiter *next = TAILQ_FIRST(&claim->waiters);
    uint64_t token;

    if (!next || claim->lost || claim->downgrading || claim->seam.mode != next->mode || !may_be_handed_on(claim))
        return false;
    token = pawl__claim_token(claim);
    if (!token)
        return false;
    pawl__note(claim->cohort->engine, &claim->seam, "handed on inside the process, token %llu", (unsigned long long)token);
    pawl__cohort_grant(claim, next, token);
    return true;
}

static void drop_hold(struct hold *hold) {
    struct pawl_lock *lock = hold->lock;

    TAILQ_REMOVE(&lock->holds, hold, of_lock);
    if (lock->spare)
        free(hold);
    else
        lock->spare = hold;
}

int pawl__cohort_leave(struct hold *hold) {
    struct claim *claim = hold->claim;
    bool lost = hold->lost;
    int rc;

    if (claim)
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
    drop_hold(hold);
    if (!claim)
        return PAWL_ELOST;
    if (!TAILQ_EMPTY(&claim->holds) || hand_on(claim))
        return lost ? PAWL_ELOST : 0;
    pawl__cohort_rehome(claim);
    rc = pawl__claim_retire(claim);
    return lost ? PAWL_ELOST : rc;
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* The next deadline among asynchronous waiters; those whose time is up are ended. Threads keep their own time. */
static int64_t tick_waiters(struct claim *claim, int64_t now) {
    struct waiter *waiter, *next;
    int64_t due = PAWL__NEVER;
    bool last;

    for (waiter = TAILQ_FIRST(&claim->waiters); waiter; waiter = next) {
        next = TAILQ_NEXT(waiter, link);
        if (!waiter->event)
            continue;
        if (now < waiter->deadline) {
            due = waiter->deadline < due ? waiter->deadline : due;
            continue;
        }
        last = !next && TAILQ_FIRST(&claim->waiters) == waiter;
        pawl__cohort_end_late(waiter);
        if (last) /* the claim may be gone with it */
            break;
    }
    return due;
}

int64_t pawl__cohort_tick(struct cohort *cohort, int64_t now) {
    struct claim *claim, *next;
    int64_t due = PAWL__NEVER, when;

    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        when = tick_waiters(claim, now);
        due = when < due ? when : due;
    }
    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        when = pawl__claim_tick(claim, now);
        due = when < due ? when : due;
    }
    pawl__claim_adopt_all(cohort); /* this thread keeps time: it must not stop to settle anything itself */
    return due;
}
