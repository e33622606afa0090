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
 * A claim that may be kept (keep.c) has no bounds until somebody else wants it; then they count from that moment.
 * An engine that knows that nobody else waits may let a claim go on (pawl__claim_go_on). Then the bounds count anew, from the moment when
 * it was asked: a waiter that comes later is passed by as many as before.
 *
 * Who waits in the engine: the first waiter of a pending claim, if it is a thread and the engine lets callers park; else serve().
 * When the first waiter goes away, nudge() finds another.
 *
 * What becomes of a claim is found out in claim.c, wherever it is asked; what follows for waiters and holds is in one place: settle().
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
#include "os/sleep.h"

static int retire(struct claim *claim);
static void nudge(struct claim *claim);
static void settle(struct claim *claim, int outcome, const struct pawl_error *why);

/* ---- Waiters -------------------------------------------------------------------------------------------------------------- */

/* One more acquire that the claim is to serve. If that takes more tokens than were asked for, twice as many are: so the engine is told
 * of it now and then, not every time. It may be reading the number; only we write it. True: it is to be told. */
static bool count_served(struct claim *claim) {
    uint32_t wanted = atomic_load_explicit(&claim->seam.token_want, memory_order_relaxed);

    if (++claim->served <= wanted || claim->seam.keep_ns)
        return false;
    wanted = pawl__claim_tokens(claim->cohort, claim->served);
    atomic_store_explicit(&claim->seam.token_want, wanted < claim->served ? claim->served : wanted, memory_order_relaxed);
    return true;
}

static void put_waiter(struct claim *claim, struct waiter *waiter) {
    waiter->claim = claim;
    waiter->state = WAITER_WAITING;
    TAILQ_INSERT_TAIL(&claim->waiters, waiter, link);
}

static bool attach(struct claim *claim, struct waiter *waiter) {
    put_waiter(claim, waiter);
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

static void begin_hold(struct hold *hold, struct pawl_lock *lock, struct claim *claim, uint64_t owner, enum pawl_mode mode,
                       uint64_t token) {
    hold->lock = lock;
    hold->claim = claim;
    hold->owner = owner;
    hold->token = token;
    hold->exclusive = mode != PAWL_SHARED;
    hold->shared = mode == PAWL_SHARED;
    hold->lost = false;
    claim->entered++;
    TAILQ_INSERT_TAIL(&claim->holds, hold, of_claim);
    TAILQ_INSERT_HEAD(&lock->holds, hold, of_lock);
}

static void grant_with(struct claim *claim, struct waiter *waiter, uint64_t token) {
    begin_hold(waiter->hold, waiter->lock, claim, waiter->owner, waiter->mode, token);
    waiter->hold = NULL;
    conclude(waiter, WAITER_GRANTED);
}

/* False: the claim has no token for it. */
static bool grant(struct claim *claim, struct waiter *waiter) {
    uint64_t token;
    bool enters = pawl__claim_enter(claim, &token);

    if (enters)
        grant_with(claim, waiter, token);
    return enters;
}

uint64_t pawl__cohort_token(struct hold *hold) {
    if (!hold->token)
        hold->token = pawl__claim_draw(hold->claim);
    return hold->token;
}

void pawl__cohort_end(struct waiter *waiter, int code, const char *format, ...) {
    struct claim *claim = waiter->claim;
    va_list args;

    waiter->error.code = code;
    va_start(args, format);
    vsnprintf(waiter->error.text, sizeof waiter->error.text, format, args);
    va_end(args);
    conclude(waiter, WAITER_ENDED);
    if (!claim || claim->withdraw_after_park || claim->state != CLAIM_PENDING)
        return;
    if (TAILQ_EMPTY(&claim->waiters))
        retire(claim);
    else
        nudge(claim);
}

/* End a waiter whose time is up. */
static void end_late(struct waiter *waiter) {
    struct cohort *cohort = waiter->lock->cohort;
    struct pawl_error why;

    if (waiter->claim && pawl__claim_why(waiter->claim, &why))
        pawl__cohort_end(waiter, why.code, "'%s' was not acquired within %lld ms: %s", cohort->name, (long long)waiter->timeout_ms,
                         why.text);
    else if (waiter->try_only)
        pawl__cohort_end(waiter, PAWL_ETIMEOUT, "the engine gave no answer about '%s' in time: try again", cohort->name);
    else
        pawl__cohort_end(waiter, PAWL_ETIMEOUT, "'%s' was not acquired within %lld ms: others hold it or wait ahead", cohort->name,
                         (long long)waiter->timeout_ms);
}

/* See that somebody waits, in park() or in serve(), for a pending claim. */
static void nudge(struct claim *claim) {
    struct waiter *first = TAILQ_FIRST(&claim->waiters);

    if (claim->state != CLAIM_PENDING || pawl__claim_is_adopted(claim))
        return;
    if (claim->parked)
        pawl__claim_unpark(claim);
    else if (first->event)
        pawl__claim_adopt(claim);
    else
        wake(claim->cohort, first);
}

static void sleep_until(struct cohort *cohort, struct waiter *waiter, int64_t now, int64_t until) {
    atomic_store(&waiter->sleeping, 1);
    pawl__cohort_let_go(cohort);
    futex_wait_own(&waiter->sleeping, 1, pawl__nap_ns(now, until));
    pthread_mutex_lock(&cohort->mutex);
    atomic_store(&waiter->sleeping, 0);
}

static void wait_in_engine(struct claim *claim, int64_t deadline) {
    struct pawl_error why;
    int outcome = pawl__claim_wait(claim, deadline, &why);

    settle(claim, outcome, &why);
}

/* Sleep, here or in the engine, until something has become of the waiter, or for no reason. */
static void wait_once(struct cohort *cohort, struct waiter *waiter, int64_t now, int64_t until) {
    struct claim *claim = waiter->claim;

    if (claim->state == CLAIM_PENDING && TAILQ_FIRST(&claim->waiters) == waiter && !pawl__claim_is_adopted(claim) && !claim->parked)
        wait_in_engine(claim, until);
    else
        sleep_until(cohort, waiter, now, until);
}

/* A signal may have come: is the wait to end? */
static void ask_interrupted(struct cohort *cohort, struct waiter *waiter) {
    const struct pawl *client = cohort->client;
    bool over;

    if (!client->interrupted || waiter->state != WAITER_WAITING)
        return;
    pawl__cohort_let_go(cohort);
    over = client->interrupted(client->interrupted_data) != 0;
    pthread_mutex_lock(&cohort->mutex);
    if (over && waiter->state == WAITER_WAITING)
        pawl__cohort_end(waiter, PAWL_ECANCELED, "the acquire of '%s' was ended: a signal interrupted it", cohort->name);
}

void pawl__cohort_wait(struct cohort *cohort, struct waiter *waiter) {
    while (waiter->state == WAITER_WAITING) {
        int64_t now = pawl__boottime(), until = waiter->deadline;

        if (now >= until) {
            end_late(waiter);
            break;
        }
        if (cohort->client->interrupted && until - now > PAWL__LISTEN_NS)
            until = now + PAWL__LISTEN_NS;
        wait_once(cohort, waiter, now, until);
        ask_interrupted(cohort, waiter);
    }
}

/* ---- Joining -------------------------------------------------------------------------------------------------------------- */

static bool is_late(const struct claim *claim) {
    return claim->join_until && pawl__boottime() >= claim->join_until;
}

/* Have as many joined it as may? The numbers wrap around. */
static bool is_full(const struct claim *claim) {
    return (int32_t)(claim->serves_most - claim->served) <= 0;
}

/* Has it served as many as it may since it was wanted? */
static bool is_worn(const struct claim *claim) {
    return claim->wanted && claim->join_until && (int32_t)(claim->enters_most - claim->entered) <= 0;
}

/* Is the claim within its bounds, the new ones if it may go on? */
static bool may_be_joined(struct claim *claim) {
    if (!pawl__keep_is_bounded(claim))
        return true;
    if (is_full(claim) || is_late(claim))
        pawl__claim_go_on(claim);
    return !is_full(claim) && !is_late(claim);
}

static bool may_be_handed_on(struct claim *claim) {
    if (is_late(claim) || claim->stock == claim->reserved)
        pawl__claim_go_on(claim);
    return !is_late(claim) && !is_worn(claim) && !pawl__claim_has_expired(claim);
}

/* The claim that a newcomer may join, or NULL. */
static struct claim *joinable(struct cohort *cohort, const struct waiter *waiter) {
    struct claim *last = TAILQ_LAST(&cohort->claims, claim_list);

    if (!cohort->joins || !last || last->seam.mode != waiter->mode || last->withdraw_after_park || last->state == CLAIM_LOST ||
        last->downgrading)
        return NULL;
    if (last->state == CLAIM_PENDING && last->seam.try_only)
        return NULL;
    if (last->seam.max_hold_ns || waiter->max_hold_ns) /* each has all of its time, counted from its own grant */
        return NULL;
    return !pawl__claim_has_expired(last) && may_be_joined(last) ? last : NULL;
}

/* A hold that the waiter's thread has through another handle of the same name. */
static struct hold *other_hold(const struct cohort *cohort, const struct waiter *waiter) {
    struct claim *claim;
    struct hold *hold;

    if (cohort->kind == PAWL_SEMAPHORE || waiter->lock->flags & PAWL_TASK)
        return NULL;
    TAILQ_FOREACH(claim, &cohort->claims, link) {
        TAILQ_FOREACH(hold, &claim->holds, of_claim) {
            if (hold->owner == waiter->owner && !hold->lost && !pawl__claim_has_expired(claim))
                return hold;
        }
    }
    return NULL;
}

/* The thread shares the lock already: its further hold comes under the same claim at once, since to wait behind a writer that
 * waits for this thread would never end. */
static void enter_beside(struct hold *other, struct waiter *waiter) {
    if (other->claim->downgrading || !grant(other->claim, waiter))
        grant_with(other->claim, waiter, pawl__cohort_token(other));
}

/* A claim for what this waiter wants. NULL: out of memory. */
static struct claim *new_claim(struct cohort *cohort, const struct waiter *waiter, bool try_only) {
    return pawl__claim_new(
        cohort, &(struct claim_wish){waiter->mode, waiter->permits, try_only, waiter->max_hold_ns, waiter->lock->keep_ns});
}

static void submit(struct claim *claim) {
    struct pawl_error why;
    int outcome = pawl__claim_submit(claim, &why);

    settle(claim, outcome, &why);
}

static void start(struct cohort *cohort, struct waiter *waiter) {
    struct claim *claim = new_claim(cohort, waiter, waiter->try_only);

    if (!claim) {
        pawl__cohort_end(waiter, PAWL_ENOMEM, "out of memory");
        return;
    }
    attach(claim, waiter);
    submit(claim);
}

static void join(struct claim *claim, struct waiter *waiter) {
    struct cohort *cohort = claim->cohort;

    if (claim->state == CLAIM_HELD && !claim->join_until && pawl__keep_is_bounded(claim))
        claim->join_until = pawl__time_add(pawl__boottime(), cohort->client->handoff_ns);
    if (claim->state == CLAIM_HELD && waiter->mode == PAWL_SHARED) {
        if (grant(claim, waiter))
            claim->served++;
        else
            start(cohort, waiter);
    } else if (waiter->try_only) {
        pawl__cohort_end(waiter, PAWL_EHELD, "'%s' is held by another thread of this process, or others wait ahead", cohort->name);
    } else {
        /* A thread that is parked need not look: it stays the first. */
        bool more = attach(claim, waiter);

        if (more || !claim->parked)
            nudge(claim);
        pawl__claim_ask_to_go_on(claim);
    }
}

/* What was withdrawn or downgraded, and nobody looks after, is the service thread's. */
static void adopt_unsettled(struct cohort *cohort) {
    struct claim *claim;

    while ((claim = TAILQ_FIRST(&cohort->unsettled)) && pawl__claim_adopt(claim))
        TAILQ_REMOVE(&cohort->unsettled, claim, unsettled);
}

void pawl__cohort_give_back(struct cohort *cohort) {
    struct claim *claim = TAILQ_LAST(&cohort->claims, claim_list);

    if (claim && claim->state == CLAIM_KEPT)
        retire(claim);
}

/* Take the claim that is kept, with a token for one hold. NULL: there is none, or not any more. */
static struct claim *take_kept(struct cohort *cohort, enum pawl_mode mode, int64_t max_hold_ns, uint64_t *rettoken) {
    struct claim *claim = TAILQ_LAST(&cohort->claims, claim_list);

    if (!claim || claim->state != CLAIM_KEPT)
        return NULL;
    if (claim->seam.mode == mode && !max_hold_ns && pawl__claim_resume(claim) && pawl__claim_enter(claim, rettoken))
        return claim;
    retire(claim);
    adopt_unsettled(cohort); /* this thread may be about to wait for another claim */
    return NULL;
}

static bool enter_kept(struct cohort *cohort, struct waiter *waiter) {
    uint64_t token;
    struct claim *claim = take_kept(cohort, waiter->mode, waiter->max_hold_ns, &token);

    if (claim)
        grant_with(claim, waiter, token);
    return claim;
}

bool pawl__cohort_enter_kept(struct pawl_lock *lock, enum pawl_mode mode, uint64_t owner) {
    struct hold *hold = lock->spare;
    struct claim *claim;
    uint64_t token;

    if (!hold || !(claim = take_kept(lock->cohort, mode, lock->max_hold_ns, &token)))
        return false;
    lock->spare = NULL;
    begin_hold(hold, lock, claim, owner, mode, token);
    return true;
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
    else if (enter_kept(cohort, waiter))
        return;
    else if ((claim = joinable(cohort, waiter)))
        join(claim, waiter);
    else
        start(cohort, waiter);
    if (waiter->state == WAITER_WAITING && waiter->event)
        pawl__service_due(cohort->client, waiter->deadline);
}

int pawl__cohort_enter_alone(struct pawl_lock *lock, const struct claim_wish *wish, struct hold *hold, uint64_t owner,
                             struct claim **retclaim, struct pawl_error *reterr) {
    struct claim *claim = pawl__claim_new(lock->cohort, wish);
    uint64_t token;
    int outcome;

    if (!claim) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NEWS_REFUSED;
    }
    count_served(claim);
    outcome = pawl__claim_submit(claim, reterr);
    if (outcome == NEWS_GRANTED && pawl__claim_enter(claim, &token))
        begin_hold(hold, lock, claim, owner, wish->mode, token);
    else if (outcome == NEWS_REFUSED)
        pawl__claim_free(claim);
    else
        *retclaim = claim;
    return outcome;
}

void pawl__cohort_begin(struct claim *claim, struct waiter *waiter) {
    put_waiter(claim, waiter);
    settle(claim, CLAIM_QUEUED, NULL);
}

/* Out of memory: end all; the first `made` claims were never submitted. */
static void end_unasked(struct waiter *const waiters[], size_t count, struct claim *const claims[], size_t made) {
    struct pawl_error error;

    pawl__fail(&error, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < made; i++)
        settle(claims[i], pawl__claim_drop(claims[i]), &error);
    for (size_t i = made; i < count; i++)
        pawl__cohort_end(waiters[i], error.code, "%s", error.text);
}

void pawl__cohort_enter_all(struct waiter *const waiters[], size_t count) {
    struct claim *claims[PAWL__TOGETHER_MAX] = {NULL};
    struct pawl_error why;
    int outcome;

    for (size_t i = 0; i < count; i++) {
        claims[i] = new_claim(waiters[i]->lock->cohort, waiters[i], true);
        if (!claims[i]) {
            end_unasked(waiters, count, claims, i);
            return;
        }
        attach(claims[i], waiters[i]);
    }
    outcome = pawl__claim_submit_all(claims, count, &why);
    for (size_t i = 0; i < count; i++)
        settle(claims[i], outcome, &why);
    for (size_t i = 0; i < count; i++)
        if (waiters[i]->state == WAITER_WAITING && waiters[i]->event)
            pawl__service_due(waiters[i]->lock->client, waiters[i]->deadline);
}

/* ---- Handing on ----------------------------------------------------------------------------------------------------------- */

/* The claim that waiters of `claim` may move to: the next one, if it waits for the same. */
static struct claim *next_home(const struct claim *claim, const struct waiter *waiter) {
    struct claim *next = TAILQ_NEXT(claim, link);

    if (!next || next->state != CLAIM_PENDING || next->seam.mode != waiter->mode || next->withdraw_after_park ||
        next->seam.try_only || next->seam.max_hold_ns || waiter->max_hold_ns)
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

/* Find the waiters of a held claim another claim to wait for: this one can't serve them. */
static void move_waiters_on(struct claim *claim) {
    struct waiter *waiter = TAILQ_FIRST(&claim->waiters);
    struct claim *home;

    if (!waiter)
        return;
    home = next_home(claim, waiter);
    if (home) {
        move_waiters(claim, home);
        nudge(home);
        return;
    }
    pawl__cohort_give_back(claim->cohort);
    home = new_claim(claim->cohort, waiter, false);
    if (!home) {
        while ((waiter = TAILQ_FIRST(&claim->waiters)))
            pawl__cohort_end(waiter, PAWL_ENOMEM, "out of memory");
        return;
    }
    move_waiters(claim, home);
    submit(home);
}

/* Give the claim to its next waiter, if it has one and is within its bounds. */
static bool hand_on(struct claim *claim) {
    struct waiter *next = TAILQ_FIRST(&claim->waiters);

    if (!next || claim->state == CLAIM_LOST || claim->downgrading || claim->seam.mode != next->mode || !may_be_handed_on(claim) ||
        !grant(claim, next))
        return false;
    if (pawl__noting(claim->cohort->engine))
        pawl__note(claim->cohort->engine, &claim->seam, "handed on inside the process, token %llu",
                   (unsigned long long)pawl__cohort_token(TAILQ_FIRST(&claim->holds)));
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
    struct pawl_lock *lock = hold->lock;
    bool lost = hold->lost;
    int rc;

    if (claim)
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
    if (claim && !hold->token)
        pawl__claim_unreserve(claim);
    drop_hold(hold);
    if (!claim)
        return PAWL_ELOST;
    if (!TAILQ_EMPTY(&claim->holds) || hand_on(claim))
        return lost ? PAWL_ELOST : 0;
    move_waiters_on(claim);
    rc = pawl__keep_may_rest(claim, lock) && pawl__claim_rest(claim) ? 0 : retire(claim);
    return lost ? PAWL_ELOST : rc;
}

/* ---- What becomes of a claim ---------------------------------------------------------------------------------------------- */

/* Withdraw a claim without waiters and holds. 0, or PAWL_ELOST: it had been lost. The claim may be freed. */
static int retire(struct claim *claim) {
    int rc;

    assert(TAILQ_EMPTY(&claim->waiters) && TAILQ_EMPTY(&claim->holds));
    if (claim->parked) {
        claim->withdraw_after_park = true;
        pawl__claim_unpark(claim);
        return 0;
    }
    rc = pawl__claim_withdraw(claim);
    if (claim->state == CLAIM_GONE)
        pawl__claim_free(claim);
    return rc;
}

/* It is granted: so are its first waiter, or all that share it. */
static void share_out(struct claim *claim) {
    struct waiter *waiter;

    if (TAILQ_EMPTY(&claim->waiters)) {
        retire(claim);
        return;
    }
    while ((waiter = TAILQ_FIRST(&claim->waiters)) && grant(claim, waiter))
        if (claim->seam.mode != PAWL_SHARED)
            return;
    move_waiters_on(claim);
}

static void refuse(struct claim *claim, const struct pawl_error *why) {
    struct waiter *waiter;

    while ((waiter = TAILQ_FIRST(&claim->waiters)))
        pawl__cohort_end(waiter, why->code, "%s", why->text);
    pawl__claim_free(claim);
}

static void post_loss(struct hold *hold, enum pawl_state state, const struct pawl_error *why) {
    struct event *event;

    if (!hold->lock->on_loss || !(event = calloc(1, sizeof *event)))
        return;
    event->lock = hold->lock;
    event->lock->references++;
    event->state = state;
    event->token = pawl__cohort_token(hold);
    event->error = *why;
    pawl__event_post(hold->lock->client, event);
}

/* The holds are lost. After a break the claim stays until they are released: that is what the one who broke it waits for. */
static void lose(struct claim *claim, bool broken, const struct pawl_error *why) {
    struct hold *hold;

    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        hold->lost = true;
        pawl__cohort_token(hold); /* while there is a claim to draw it from */
        post_loss(hold, PAWL_LOST, why);
    }
    move_waiters_on(claim);
    if (broken && !TAILQ_EMPTY(&claim->holds))
        return;
    while ((hold = TAILQ_FIRST(&claim->holds))) {
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
        hold->claim = NULL;
    }
    retire(claim);
}

/* Its lease is not renewed for long; or it is, after all. */
static void tell_holders(const struct claim *claim, enum pawl_state state) {
    struct pawl_error why;
    struct hold *hold;

    if (state == PAWL_SUSPECT)
        pawl__fail(&why, PAWL_ELOST, "the lease of '%s' was not renewed for two thirds of its time", claim->cohort->name);
    else
        pawl__fail(&why, 0, "the lease of '%s' is renewed again", claim->cohort->name);
    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        post_loss(hold, state, &why);
    }
}

/* Do what follows from what became of a claim. The claim may be freed. */
static void settle(struct claim *claim, int outcome, const struct pawl_error *why) {
    switch (outcome) {
    case CLAIM_QUEUED:
        if (TAILQ_EMPTY(&claim->waiters))
            retire(claim);
        else
            nudge(claim);
        break;
    case NEWS_GRANTED:
        share_out(claim);
        break;
    case NEWS_REFUSED:
        refuse(claim, why);
        break;
    case NEWS_GONE:
        pawl__claim_free(claim);
        break;
    case NEWS_LOST:
    case NEWS_BROKEN:
        lose(claim, outcome == NEWS_BROKEN, why);
        break;
    case NEWS_WANTED: /* in use, it leaves at its last release */
        if (claim->state != CLAIM_KEPT)
            break;
        pawl__keep_learn(claim);
        retire(claim);
        break;
    case CLAIM_IDLE:
        retire(claim);
        break;
    case CLAIM_SUSPECT:
        tell_holders(claim, PAWL_SUSPECT);
        break;
    case NEWS_RENEWED:
        tell_holders(claim, PAWL_HELD);
        break;
    default: /* a downgrade changes nothing for waiters and holds of this process */
        break;
    }
}

void pawl__cohort_refresh(struct claim *claim) {
    struct pawl_error why;
    int outcome = pawl__claim_look_at(claim, &why);

    if (outcome != CLAIM_NOTHING)
        settle(claim, outcome, &why);
}

int pawl__cohort_downgrade(struct claim *claim) {
    struct pawl_error why;
    int outcome;

    /* A reader of this process that comes in now must not draw a token before the one who was here first. */
    pawl__cohort_token(TAILQ_FIRST(&claim->holds));
    /* Its exclusive waiters can't be served by a shared claim: they queue anew, behind the readers that come in now. */
    move_waiters_on(claim);
    outcome = pawl__claim_downgrade(claim, &why);
    settle(claim, outcome, &why);
    return outcome == NEWS_LOST || outcome == NEWS_BROKEN ? PAWL_ELOST : 0;
}

/* The claim can't vanish before the mutex is taken: only GONE and REFUSED end it. */
void pawl__tell(void *core, struct pawl__claim *seam, enum pawl__news news, const struct pawl_error *why) {
    struct claim *claim = claim_of(seam);
    struct cohort *cohort = claim->cohort;
    struct pawl_error told;
    int outcome;

    (void)core;
    if (why)
        told = *why;
    pthread_mutex_lock(&cohort->mutex);
    outcome = pawl__claim_news(claim, news, &told);
    settle(claim, outcome, &told);
    pawl__cohort_unlock(cohort);
}

void pawl__cohort_unlock(struct cohort *cohort) {
    adopt_unsettled(cohort);
    pawl__cohort_let_go(cohort);
}

int pawl__cohort_finish(struct cohort *cohort) {
    bool lost = false, one;
    struct claim *claim;
    int outcome;

    if (!TAILQ_EMPTY(&cohort->unsettled)) {
        atomic_fetch_add(&cohort->client->inside, 1);
        while ((claim = TAILQ_FIRST(&cohort->unsettled))) {
            TAILQ_REMOVE(&cohort->unsettled, claim, unsettled);
            one = false;
            outcome = pawl__claim_finish(claim, &one);
            lost |= one;
            if (outcome == NEWS_GONE)
                pawl__claim_free(claim);
            else if (claim->withdraw_after_park &&
                     claim->state != CLAIM_LEAVING) /* it was to be withdrawn while its downgrade was under way */
                retire(claim);
        }
        pawl__client_one_less(cohort->client, &cohort->client->inside);
    }
    pawl__cohort_let_go(cohort);
    return lost ? PAWL_ELOST : 0;
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
        end_late(waiter);
        if (last) /* the claim may be gone with it */
            break;
    }
    return due;
}

int64_t pawl__cohort_tick(struct cohort *cohort, int64_t now) {
    struct claim *claim, *next;
    int64_t due = PAWL__NEVER, when;
    struct pawl_error why;

    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        when = tick_waiters(claim, now);
        due = when < due ? when : due;
    }
    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        int outcome;

        next = TAILQ_NEXT(claim, link);
        outcome = pawl__claim_tick(claim, now, &when, &why);
        settle(claim, outcome, &why);
        due = when < due ? when : due;
    }
    return due;
}
