/* SPDX-License-Identifier: Apache-2.0
 *
 * enter.c - an acquire comes in: by which claim it is to be served.
 *
 * A newcomer enters the claim that is kept, if there is one; or joins the last claim, if that has the same mode and is still within its
 * bounds (handoff.c); otherwise it starts a new claim at the end. So neither readers nor writers can starve each other. Who joins a claim
 * that is open has it at once, before those who sleep.
 */
#include "core/claim.h"
#include "base/error.h"

/* The claim that a newcomer may join, or NULL. */
static struct claim *joinable(struct cohort *cohort, enum pawl_mode mode, int64_t max_hold_ns) {
    struct claim *last = TAILQ_LAST(&cohort->claims, claim_list);

    if (!cohort->joins || !last || last->seam.mode != mode || last->withdraw_after_park || last->state == CLAIM_LOST ||
        last->downgrading || last->lease.denied_at || is_unsure(last))
        return NULL;
    if (last->state == CLAIM_PENDING && last->seam.try_only)
        return NULL;
    if (last->seam.max_hold_ns || max_hold_ns) /* each has all of its time, counted from its own grant */
        return NULL;
    return !pawl__claim_is_over(last) && pawl__handoff_may_join(last) ? last : NULL;
}

/* A hold that the waiter's thread has through another handle of the same name. */
static struct hold *other_hold(const struct cohort *cohort, const struct waiter *waiter) {
    if (cohort->kind == PAWL_SEMAPHORE || waiter->lock->flags & PAWL_TASK)
        return NULL;
    return pawl__cohort_hold(cohort, waiter->owner);
}

/* The thread shares the lock already: its further hold comes under the same claim at once, since to wait behind a writer that
 * waits for this thread would never end. */
static void enter_beside(struct hold *other, struct waiter *waiter) {
    if (other->claim->downgrading || !pawl__waiter_grant(other->claim, waiter))
        pawl__waiter_grant_with(other->claim, waiter, pawl__hold_token(other));
}

static void start(struct cohort *cohort, struct waiter *waiter) {
    struct claim *claim = pawl__waiter_claim(cohort, waiter, waiter->try_only);

    if (!claim) {
        pawl__cohort_end(waiter, PAWL_ENOMEM, "out of memory");
        return;
    }
    pawl__waiter_attach(claim, waiter);
    pawl__cohort_submit(claim);
}

/* Somebody joins what was granted before: from the first on its time counts. Where it is told, it counts from when it is wanted. */
static void begin_bounds(struct claim *claim) {
    if (!is_told(claim) && claim->state != CLAIM_PENDING && !claim->bounds.join_until)
        claim->bounds.join_until = pawl__time_add(pawl__boottime(), claim->cohort->client->options.handoff_ns);
}

static void join(struct claim *claim, struct waiter *waiter) {
    struct cohort *cohort = claim->cohort;

    begin_bounds(claim);
    if (claim->state == CLAIM_HELD && waiter->mode == PAWL_SHARED) {
        if (pawl__waiter_grant(claim, waiter)) {
            claim->bounds.joined++;
            note_handed_on(claim);
        } else {
            start(cohort, waiter);
        }
    } else if (waiter->try_only) {
        pawl__cohort_end(waiter, PAWL_EHELD, "'%s' is held by another thread of this process, or others wait ahead", cohort->name);
    } else {
        /* A parked thread need not be woken: it is still the first. */
        bool more = pawl__waiter_attach(claim, waiter);

        if (more || !claim->parked)
            pawl__cohort_nudge(claim);
    }
}

/* Take the claim that is open, before those who sleep. NULL: there is none, or it may not be joined. */
static struct claim *take_open(struct cohort *cohort, enum pawl_mode mode, int64_t max_hold_ns, uint64_t *rettoken) {
    struct claim *claim = joinable(cohort, mode, max_hold_ns);

    if (!claim || !pawl__claim_enter(claim, rettoken))
        return NULL;
    begin_bounds(claim);
    claim->bounds.joined++;
    note_handed_on(claim);
    return claim;
}

/* Take the claim that nobody holds, with a token for one hold. NULL: there is none, or not any more. */
static struct claim *take_idle(const struct pawl_lock *lock, enum pawl_mode mode, int64_t max_hold_ns, uint64_t *rettoken) {
    struct cohort *cohort = lock->cohort;
    struct claim *claim = TAILQ_LAST(&cohort->claims, claim_list);

    if (claim && claim->state == CLAIM_OPEN)
        return take_open(cohort, mode, max_hold_ns, rettoken);
    if (!claim || claim->state != CLAIM_KEPT)
        return NULL;
    if (claim->seam.mode == mode && !max_hold_ns && (claim->label == lock->label || pawl__keep_fits(claim, lock->label)) &&
        pawl__claim_resume(claim) && pawl__claim_enter(claim, rettoken))
        return claim;
    pawl__cohort_retire(claim);
    pawl__cohort_adopt_unsettled(cohort); /* this thread may be about to wait for another claim */
    return NULL;
}

static bool enter_idle(struct waiter *waiter) {
    uint64_t token;
    struct claim *claim = take_idle(waiter->lock, waiter->mode, waiter->max_hold_ns, &token);

    if (claim)
        pawl__waiter_grant_with(claim, waiter, token);
    return claim;
}

bool pawl__cohort_enter_idle(struct pawl_lock *lock, enum pawl_mode mode, uint64_t owner) {
    struct hold *hold = lock->spare;
    struct claim *claim;
    uint64_t token;

    if (!hold || !(claim = take_idle(lock, mode, lock->max_hold_ns, &token)))
        return false;
    lock->spare = NULL;
    pawl__hold_begin(hold, lock, claim, owner, mode, token);
    return true;
}

/* Has this thread the same mutex by a handle that differs in PAWL_NONREENTRANT alone? */
static bool holds_beside(const struct pawl_lock *lock, const struct cohort *sibling, uint64_t thread) {
    return lock->cohort->kind == PAWL_MUTEX && sibling->kind == PAWL_MUTEX && !(lock->flags & PAWL_TASK) &&
           pawl__cohort_hold(sibling, thread);
}

int pawl__lock_make_way(const struct pawl_lock *lock, uint64_t thread, struct pawl_error *reterr) {
    struct pawl *client = lock->client;
    struct cohort *cohort = NULL;
    bool holds = false;

    if (!atomic_load_explicit(&lock->cohort->has_siblings, memory_order_relaxed) || atomic_load(&client->forked) ||
        atomic_load(&client->closed) || pawl__in_log())
        return 0;
    pthread_mutex_lock(&client->mutex);
    while ((cohort = pawl__cohort_sibling(lock->cohort, cohort))) {
        pthread_mutex_lock(&cohort->mutex);
        holds |= holds_beside(lock, cohort, thread);
        pawl__cohort_give_back(cohort);
        pawl__cohort_unlock(cohort);
    }
    pthread_mutex_unlock(&client->mutex);
    if (!holds)
        return 0;
    pthread_mutex_lock(&lock->cohort->mutex);
    pawl__count_end(lock->cohort, PAWL_EDEADLK);
    pthread_mutex_unlock(&lock->cohort->mutex);
    return pawl__fail(reterr, PAWL_EDEADLK, "this thread holds '%s' through another handle: it would wait for itself",
                      lock->cohort->name);
}

/* Nobody waits in a thread of its own: the service thread keeps the time. */
static void begin_async(struct waiter *waiter) {
    int64_t now = pawl__boottime(), due = waiter->deadline;

    pawl__waiter_waits(waiter, now);
    due = waiter->look_at < due ? waiter->look_at : due;
    due = needs_looks(waiter->claim) && now + PAWL__LISTEN_NS < due ? now + PAWL__LISTEN_NS : due;
    if (pawl__service_start(waiter->lock->client))
        pawl__service_due(waiter->lock->client, due);
    else
        pawl__cohort_end(waiter, PAWL_ESYSTEM, "there is no thread to wait for '%s': out of memory, or too many of them",
                         waiter->lock->cohort->name);
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
    else if (enter_idle(waiter))
        return;
    else if ((claim = joinable(cohort, waiter->mode, waiter->max_hold_ns)))
        join(claim, waiter);
    else
        start(cohort, waiter);
    if (is_waiting(waiter) && waiter->event)
        begin_async(waiter);
}

int pawl__cohort_enter_alone(struct pawl_lock *lock, const struct claim_terms *terms, struct hold *hold, uint64_t owner,
                             struct claim **retclaim, struct pawl_error *reterr) {
    struct claim *claim = pawl__claim_new(lock->cohort, terms);
    uint64_t token;
    int outcome;

    if (!claim) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NEWS_REFUSED;
    }
    pawl__waiter_count(claim);
    outcome = pawl__claim_submit(claim, reterr);
    if (outcome == NEWS_GRANTED && pawl__claim_enter(claim, &token))
        pawl__hold_begin(hold, lock, claim, owner, terms->mode, token);
    else if (outcome == NEWS_REFUSED)
        pawl__claim_free(claim);
    else
        *retclaim = claim;
    return outcome;
}

void pawl__cohort_begin(struct claim *claim, struct waiter *waiter) {
    pawl__waiter_put(claim, waiter);
    pawl__cohort_settle(claim, CLAIM_QUEUED, NULL);
}

/* Out of memory: end all; the first `made` claims were never submitted. */
static void end_unasked(struct waiter *const waiters[], size_t count, struct claim *const claims[], size_t made) {
    struct pawl_error error;

    pawl__fail(&error, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < made; i++)
        pawl__cohort_settle(claims[i], pawl__claim_drop(claims[i]), &error);
    for (size_t i = made; i < count; i++)
        pawl__cohort_end(waiters[i], error.code, "%s", error.text);
}

void pawl__cohort_enter_all(struct waiter *const waiters[], size_t count) {
    struct claim *claims[PAWL__TOGETHER_MAX] = {NULL};
    struct pawl_error why;
    int outcome;

    for (size_t i = 0; i < count; i++) {
        claims[i] = pawl__waiter_claim(waiters[i]->lock->cohort, waiters[i], true);
        if (!claims[i]) {
            end_unasked(waiters, count, claims, i);
            return;
        }
        pawl__waiter_attach(claims[i], waiters[i]);
    }
    outcome = pawl__claim_submit_all(claims, count, &why);
    for (size_t i = 0; i < count; i++)
        pawl__cohort_settle(claims[i], outcome, &why);
    for (size_t i = 0; i < count; i++)
        if (is_waiting(waiters[i]) && waiters[i]->event)
            begin_async(waiters[i]);
}
