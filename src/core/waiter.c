/* SPDX-License-Identifier: Apache-2.0
 *
 * waiter.c - one acquire: how it stands behind a claim, is woken, and becomes a hold. What becomes of its claim is cohort.c's.
 *
 * A waiter is on the stack of its thread, or belongs to its event. It is in the list of one claim, until its fate is decided: then it is in
 * none, and who decides tells it at once. The memory of the hold is allocated before the waiter waits, so that granting never fails.
 */
#include <stdlib.h>

#include "core/claim.h"
#include "os/futex.h"

struct claim *pawl__waiter_claim(struct cohort *cohort, const struct waiter *waiter, bool try_only) {
    const struct pawl_lock *lock = waiter->lock;

    return pawl__claim_new(
        cohort, &(struct claim_wish){waiter->mode, waiter->permits, try_only, waiter->max_hold_ns, lock->keep_ns, lock->label});
}

/* If it takes more tokens than were asked for, twice as many are: so the engine is told of it now and then, not every time. It may be
 * reading the number; only we write it. */
bool pawl__waiter_count(struct claim *claim) {
    uint32_t wanted = atomic_load_explicit(&claim->seam.token_want, memory_order_relaxed);

    if (++claim->bounds.served <= wanted || claim->state == CLAIM_HELD || claim->seam.keep_ns)
        return false;
    wanted = pawl__claim_tokens(claim->cohort, claim->bounds.served);
    atomic_store_explicit(&claim->seam.token_want, wanted < claim->bounds.served ? claim->bounds.served : wanted,
                          memory_order_relaxed);
    return true;
}

void pawl__waiter_put(struct claim *claim, struct waiter *waiter) {
    waiter->claim = claim;
    waiter->state = WAITER_WAITING;
    waiter->turn = TURN_LATER;
    waiter->slice_until = 0;
    TAILQ_INSERT_TAIL(&claim->waiters, waiter, link);
}

bool pawl__waiter_attach(struct claim *claim, struct waiter *waiter) {
    pawl__waiter_put(claim, waiter);
    return pawl__waiter_count(claim);
}

void pawl__waiter_waits(struct waiter *waiter, int64_t now) {
    bool looks = waiter->has_more && waiter->lock->client->options.deadlock != DEADLOCK_OFF;

    waiter->since = now;
    waiter->number = ++waiter->lock->cohort->counts.contended;
    waiter->look_at = looks ? now + PAWL__LOOK_NS : PAWL__NEVER;
}

void pawl__waiter_wake(struct cohort *cohort, struct waiter *waiter) {
    if (!atomic_load_explicit(&waiter->sleeping, memory_order_relaxed))
        return;
    atomic_store(&waiter->sleeping, 0);
    if (cohort->wake)
        futex_wake_own(cohort->wake, 1);
    cohort->wake = &waiter->sleeping;
}

void pawl__waiter_conclude(struct waiter *waiter, enum waiter_state state) {
    if (waiter->claim) {
        TAILQ_REMOVE(&waiter->claim->waiters, waiter, link);
        waiter->claim = NULL;
    }
    waiter->state = state;
    if (state == WAITER_ENDED)
        pawl__count_end(waiter->lock->cohort, waiter->error.code);
    if (waiter->event && waiter->since)
        pawl__count_waited(waiter->lock->cohort, pawl__boottime() - waiter->since);
    if (waiter->event)
        pawl__event_post(waiter->lock->client, waiter->event);
    else
        pawl__waiter_wake(waiter->lock->cohort, waiter);
}

void pawl__hold_begin(struct hold *hold, struct pawl_lock *lock, struct claim *claim, uint64_t owner, enum pawl_mode mode,
                      uint64_t token) {
    hold->lock = lock;
    hold->claim = claim;
    hold->owner = owner;
    hold->token = token;
    hold->exclusive = mode != PAWL_SHARED;
    hold->shared = mode == PAWL_SHARED;
    hold->lost = false;
    claim->bounds.entered++;
    lock->cohort->counts.granted++;
    TAILQ_INSERT_TAIL(&claim->holds, hold, of_claim);
    TAILQ_INSERT_HEAD(&lock->holds, hold, of_lock);
}

void pawl__waiter_grant_with(struct claim *claim, struct waiter *waiter, uint64_t token) {
    pawl__hold_begin(waiter->hold, waiter->lock, claim, waiter->owner, waiter->mode, token);
    waiter->hold = NULL;
    pawl__waiter_conclude(waiter, WAITER_GRANTED);
}

bool pawl__waiter_grant(struct claim *claim, struct waiter *waiter) {
    uint64_t token;
    bool enters = pawl__claim_enter(claim, &token);

    if (enters)
        pawl__waiter_grant_with(claim, waiter, token);
    return enters;
}

uint64_t pawl__hold_token(struct hold *hold) {
    if (!hold->token)
        hold->token = pawl__claim_draw(hold->claim);
    return hold->token;
}

void pawl__hold_drop(struct hold *hold) {
    struct pawl_lock *lock = hold->lock;

    TAILQ_REMOVE(&lock->holds, hold, of_lock);
    lock->cohort->counts.released++;
    pawl__lock_ring(lock);
    if (lock->spare)
        free(hold);
    else
        lock->spare = hold;
}
