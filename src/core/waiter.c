/* SPDX-License-Identifier: Apache-2.0
 *
 * waiter.c - one acquire: how it stands behind a claim, is woken, and becomes a hold. What becomes of its claim is cohort.c's.
 *
 * A waiter is on the stack of its thread, or belongs to its event. It is in the list of one claim, until its fate is decided: then it is in
 * none, and who decides tells it at once. The memory of the hold is allocated before the waiter waits, so that granting never fails.
 *
 * Invariants
 *   - It is behind a claim, in claim->waiters, in the states WAITING, CALLED and DUE, and in no others.
 *   - CALLED and DUE: it is the first one there. It is no more than WAITING behind another claim.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/claim.h"
#include "os/futex.h"

/* ---- The states ----------------------------------------------------------------------------------------------------------- */

/* `i`: it means nothing any more, and is ignored. `x`: never. */
enum { x = WAITER_NEVER, i = WAITER_IGNORED };
enum { W = WAITER_WAITING, C = WAITER_CALLED, D = WAITER_DUE, G = WAITER_GRANTED, E = WAITER_ENDED };

static const uint8_t moves[WAITER_STATES][WAITER_EVENTS] = {
    /* QUEUE CALL TURN GRANT END */
    [WAITER_NEW] = {W, x, x, G, E},     /* it comes in: there may be a hold for it at once, or none ever */
    [WAITER_WAITING] = {W, C, x, G, E}, /* not the first, or the claim was never open for it */
    [WAITER_CALLED] = {W, i, D, G, E},  /* others may take the claim before it, until it is due */
    [WAITER_DUE] = {W, x, i, G, E},     /* the claim is handed to it, not left open */
    [WAITER_GRANTED] = {x, x, x, x, x}, /* the fate of an acquire is decided once */
    [WAITER_ENDED] = {x, x, x, x, x},
};

int pawl__waiter_move(enum waiter_state state, enum waiter_event event) {
    return moves[state][event];
}

bool pawl__waiter_step(struct waiter *waiter, enum waiter_event event) {
    int next = moves[waiter->state][event];

    assert(next != WAITER_NEVER);
    if (next == WAITER_NEVER || next == WAITER_IGNORED)
        return false;
    waiter->state = (enum waiter_state)next;
    return true;
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------------- */

struct claim *pawl__waiter_claim(struct cohort *cohort, const struct waiter *waiter, bool try_only) {
    const struct pawl_lock *lock = waiter->lock;

    return pawl__claim_new(
        cohort, &(struct claim_terms){waiter->mode, waiter->permits, try_only, waiter->max_hold_ns, lock->keep_ns, lock->label});
}

/* If it takes more tokens than were asked for, twice as many are: so the engine is told of it now and then, not every time. It may be
 * reading the number; only we write it. */
bool pawl__waiter_count(struct claim *claim) {
    uint32_t wanted = atomic_load_explicit(&claim->seam.token_want, memory_order_relaxed);

    if (++claim->bounds.joined <= wanted || claim->state == CLAIM_HELD || claim->seam.keep_ns)
        return false;
    wanted = pawl__claim_tokens(claim->cohort, claim->bounds.joined);
    atomic_store_explicit(&claim->seam.token_want, wanted < claim->bounds.joined ? claim->bounds.joined : wanted,
                          memory_order_relaxed);
    return true;
}

static void stand_behind(struct claim *claim, struct waiter *waiter) {
    pawl__waiter_step(waiter, WAITER_QUEUE);
    waiter->claim = claim;
    waiter->slice_until = 0;
}

void pawl__waiter_put(struct claim *claim, struct waiter *waiter) {
    stand_behind(claim, waiter);
    TAILQ_INSERT_TAIL(&claim->waiters, waiter, link);
}

void pawl__waiter_change(struct claim *claim, struct waiter *waiter) {
    TAILQ_REMOVE(&waiter->claim->waiters, waiter, link);
    stand_behind(claim, waiter);
    TAILQ_INSERT_HEAD(&claim->waiters, waiter, link);
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

void pawl__waiter_conclude(struct waiter *waiter, enum waiter_event fate) {
    pawl__waiter_step(waiter, fate);
    if (waiter->claim) {
        TAILQ_REMOVE(&waiter->claim->waiters, waiter, link);
        waiter->claim = NULL;
    }
    if (waiter->state == WAITER_ENDED)
        pawl__count_end(waiter->lock->cohort, waiter->error.code);
    if (waiter->event && waiter->since)
        pawl__count_waited(waiter->lock->cohort, pawl__boottime() - waiter->since);
    if (waiter->event)
        pawl__event_post(waiter->lock->client, waiter->event);
    else
        pawl__waiter_wake(waiter->lock->cohort, waiter);
}

/* ---- Holds ---------------------------------------------------------------------------------------------------------------- */

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
    pawl__waiter_conclude(waiter, WAITER_GRANT);
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
