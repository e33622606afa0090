/* SPDX-License-Identifier: Apache-2.0
 *
 * handoff.c - how often, and for how long, the threads of this process pass a claim on among themselves.
 *
 * The bounds: a claim is joined by at most 1 + `handoffs` acquires, and is neither joined nor handed on later than `handoff_ns` after the
 * first acquire that joined it. The bound is on joining, not only on handing on: else a stream of readers, each joining before the
 * last one leaves, would keep a claim for ever. Those who come over from a claim that was lost or downgraded are served beyond the
 * number: they have waited longest.
 * Where the engine tells that somebody else wants it (keep.c), a claim has no bounds until then; they count from that moment.
 *
 * Who is next: the first waiter. But it sleeps, and a thread that runs could be done before it is awake; where there are more threads than
 * CPUs a switch for each hold costs more than all else. So the claim is left open (CLAIM_OPEN): the first waiter is called, and who comes
 * meanwhile, first waiter or newcomer, takes it. That goes on for a slice of time, counted from when the first waiter was awake; then it
 * is due, says so, and the next release gives it the claim. So threads have their turns by slices, and none is passed for longer.
 *
 *     first waiter    release                          it is awake, and the claim is in use
 *     WAITING         opened, and the waiter CALLED    -
 *     CALLED          opened                           sleeps until its slice is over: then DUE
 *     DUE             handed to it                     sleeps until that
 *
 * An open claim has somebody who looks: its first waiter is awake, or will be when its slice is over, or when another process is said to
 * want the claim. When that one gives up, the next is called. A waiter that is no thread (asynchronous) can't be called, and has the claim
 * at once. With a slice of 0 all have. What is wanted already is opened like any other, since each who passes counts towards the bounds:
 * to hand over each hold would serve fewer in the same time, and the others no sooner.
 */
#include "core/claim.h"

static bool is_late(const struct claim *claim) {
    return claim->bounds.join_until && pawl__boottime() >= claim->bounds.join_until;
}

/* Have as many joined it as may? The numbers wrap around. */
static bool is_full(const struct claim *claim) {
    return (int32_t)(claim->bounds.join_limit - claim->bounds.joined) <= 0;
}

/* Has it served as many as it may since it was wanted? */
static bool is_worn(const struct claim *claim) {
    return claim->wanted && claim->bounds.join_until && (int32_t)(claim->bounds.enter_limit - claim->bounds.entered) <= 0;
}

bool pawl__handoff_may_join(struct claim *claim) {
    if (!pawl__keep_is_bounded(claim))
        return true;
    return !is_full(claim) && !is_late(claim);
}

static bool may_be_handed_on(struct claim *claim) {
    pawl__keep_is_bounded(claim); /* from now on, if it is wanted */
    return !is_late(claim) && !is_worn(claim) && !claim->lease.denied_at && !is_unsure(claim) && !pawl__claim_is_over(claim);
}

/* Leave it to the first waiter, or to who comes before that one is awake. */
static void open_for(struct claim *claim, struct waiter *first) {
    pawl__claim_open(claim);
    if (pawl__waiter_step(first, WAITER_CALL))
        pawl__waiter_wake(claim->cohort, first);
}

void pawl__handoff_wake_first(struct claim *claim) {
    if (claim->state == CLAIM_OPEN)
        pawl__waiter_wake(claim->cohort, TAILQ_FIRST(&claim->waiters));
}

bool pawl__handoff_next(struct claim *claim) {
    struct waiter *next = TAILQ_FIRST(&claim->waiters);

    if (!next || claim->state == CLAIM_LOST || claim->downgrading || claim->seam.mode != next->mode || !may_be_handed_on(claim))
        return false;
    if (claim->cohort->client->options.slice_ns && !next->event && next->state != WAITER_DUE && has_token(claim)) {
        open_for(claim, next);
        return true;
    }
    if (!pawl__waiter_grant(claim, next))
        return false;
    claim->cohort->counts.handoffs++;
    note_handed_on(claim);
    if (pawl__noting(claim->cohort->engine))
        pawl__note(claim->cohort->engine, &claim->seam, "handed on inside the process, token %llu",
                   (unsigned long long)pawl__hold_token(TAILQ_FIRST(&claim->holds)));
    return true;
}

int64_t pawl__handoff_sleep(const struct pawl *client, struct waiter *waiter, int64_t now, int64_t until) {
    if (waiter->state != WAITER_CALLED)
        return until;
    if (!waiter->slice_until)
        waiter->slice_until = now + client->options.slice_ns;
    if (now >= waiter->slice_until)
        pawl__waiter_step(waiter, WAITER_TURN);
    return waiter->state == WAITER_CALLED && waiter->slice_until < until ? waiter->slice_until : until;
}
