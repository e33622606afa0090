/* SPDX-License-Identifier: Apache-2.0
 *
 * keep.c - when a claim is kept, and for how long: the rules. The engine is asked in claim.c, and what follows for those who wait is in
 * cohort.c.
 *
 * A claim whose last hold is over is kept (CLAIM_KEPT) instead of withdrawn, so that the next acquire in this process enters it without
 * asking anybody:
 *
 *     event                     used (HELD)                          kept (KEPT)
 *     acquire, same mode        shared: enters. exclusive: waits     enters, if it is certainly held; else withdrawn, and a new claim
 *     acquire, other mode       a new claim behind it                withdrawn first, then a new claim
 *     ... with max_hold         likewise                             likewise: it has all of its time from its own grant
 *     ... with another label    shared: enters. exclusive: waits     enters; where nobody asked for it to be kept, as another mode
 *     ... another kind          the engine's matter                  withdrawn first (pawl__lock_make_way)
 *     a try                     EHELD                                enters
 *     last release              kept, if nobody wants it (*)         -
 *     WANTED                    bounds begin; then not kept          withdrawn
 *     LOST, or expired          holders are told                     withdrawn, nobody is told
 *     BROKEN                    told, stays until released           withdrawn
 *     close                     withdrawn                            withdrawn
 *     last handle freed         withdrawn, or kept                   stays: the cohort lives by its claims
 *                                                                    (*) and fewer than PAWL__KEEPS_MAX are
 *
 * Invariants
 *   - A KEPT claim has no waiters and no holds, and is the last of its cohort: who starts another claim withdraws it first. So no claim of
 *     this process ever waits for one that it keeps itself.
 *   - A claim that is wanted is never kept. WANTED may come before the grant is known here: it is remembered while PENDING. Whether the
 *     acquire or the WANTED of a kept claim comes first is decided by the cohort's mutex: either it is used once more, and leaves at that
 *     release; or it is withdrawn, and the acquire is a claim behind the one who wants it.
 *   - Who enters looks at the clock. The service thread may wake later than the caller after both were stopped.
 *
 * Learning: a claim that is recalled before anybody entered it again was of no use, and cost those who waited the time of the recall.
 * Then the next 1, 3, 7, ... KEEP_SKIPS_MAX claims of the cohort are not kept.
 *
 * Where several threads share a lock, its claims hear of others (`hears`), too, though they may not be kept: so they have no bounds
 * either while nobody else wants it. That is known when a claim is made: the last one served several, or is still there.
 *
 * Idle time is measured by the service thread alone, so that neither acquire nor release need look at the clock for it: it notes how many
 * holds there have been. A claim that it finds kept, with the same number, `keep_ns` later, goes back. Locks that are kept for the same
 * time are looked at together.
 */
#include <string.h>

#include "core/claim.h"
#include "base/error.h"
#include "base/lease.h"

enum { KEEP_SKIPS_MAX = 63 };
/* Where nobody asked for it, a claim is kept after so many in a row that nobody else wanted: those who take turns are not held up. */
enum { KEEP_ALONE = 8 };
/* Those that are due in the same eighth of their time are looked at together, and those within a millisecond. So one goes back after 1 to
 * 1.125 times its time if nobody entered it, and after 2.25 times at most from the last hold. */
enum { KEEP_LOOKS = 8 };
#define KEEP_LOOK_NS INT64_C(1000000)

int pawl__keep_check(const struct pawl__engine_impl *impl, uint32_t handoffs, struct pawl_error *reterr) {
    if (!impl->keeping)
        return pawl__fail(reterr, PAWL_EOPTION, "%s: can't keep a lock that was released: leave out keep", impl->name);
    if (handoffs == 0)
        return pawl__fail(reterr, PAWL_EOPTION,
                          "with handoff=0 no lock is kept, since each acquire has its place in the queue: choose one");
    return 0;
}

int64_t pawl__keep_ns(struct cohort *cohort, const struct claim_terms *terms) {
    if (!terms->keep_ns || terms->max_hold_ns || !cohort->joins)
        return 0;
    if (terms->keep_ns == PAWL__NEVER && cohort->alone < KEEP_ALONE)
        return 0;
    if (cohort->keep_skips_left) {
        cohort->keep_skips_left--;
        return 0;
    }
    return terms->keep_ns;
}

bool pawl__keep_hears(const struct cohort *cohort, const struct claim_terms *terms) {
    const struct pawl__keeping *keeping = cohort->engine->impl->keeping;

    return keeping && keeping->hears && cohort->joins && !terms->max_hold_ns &&
           (cohort->tokens_used > 1 || !TAILQ_EMPTY(&cohort->claims));
}

bool pawl__keep_may_rest(const struct claim *claim, const struct pawl_lock *lock) {
    return (claim->state == CLAIM_HELD || claim->state == CLAIM_OPEN) && claim->seam.keep_ns && lock->keep_ns && has_token(claim) &&
           !claim->wanted && !claim->downgrading && !claim->lease.suspect && !claim->lease.denied_at && !is_unsure(claim) &&
           !TAILQ_NEXT(claim, link) && !atomic_load(&lock->client->closed);
}

/* The next moment at which claims that are kept for so long are looked at. */
static int64_t look_at(int64_t now, int64_t keep_ns) {
    int64_t step = keep_ns / KEEP_LOOKS > KEEP_LOOK_NS ? keep_ns / KEEP_LOOKS : KEEP_LOOK_NS;

    return ((now + keep_ns) / step + 1) * step;
}

void pawl__keep_begin(struct claim *claim) {
    claim->bounds.join_until = 0; /* nobody else waits: so nobody has been passed by */
    claim->bounds.joined = 0;
    if (claim->keeping.idle_since || claim->seam.keep_ns == PAWL__NEVER)
        return;
    claim->keeping.idle_since = pawl__boottime();
    claim->keeping.entered_then = claim->bounds.entered;
    pawl__service_due(claim->cohort->client, look_at(claim->keeping.idle_since, claim->seam.keep_ns));
}

void pawl__keep_wanted(struct claim *claim) {
    const struct pawl *client = claim->cohort->client;
    uint32_t more = client->options.handoffs + (claim->bounds.entered == 0); /* the first hold is not one that is handed on */
    const struct waiter *waiter;

    claim->wanted = true;
    if (claim->state == CLAIM_PENDING || claim->bounds.join_until)
        return;
    claim->bounds.enter_limit = claim->bounds.entered + more;
    TAILQ_FOREACH(waiter, &claim->waiters, link) {
        more -= more > 0;
    }
    claim->bounds.join_limit = claim->bounds.joined + more;
    claim->bounds.join_until = pawl__time_add(pawl__boottime(), client->options.handoff_ns);
}

/* Not of one that is pending: what it has in the engine belongs to the thread that is parked, and its grant says whether it is wanted. */
static bool looks_wanted(const struct claim *claim) {
    const struct pawl__engine *engine = claim->cohort->engine;

    return (claim->state == CLAIM_HELD || claim->state == CLAIM_OPEN) && engine->impl->keeping->is_wanted &&
           engine->impl->keeping->is_wanted(engine, &claim->seam);
}

bool pawl__keep_is_bounded(struct claim *claim) {
    if (!is_told(claim))
        return true;
    if (!claim->wanted && looks_wanted(claim))
        pawl__keep_wanted(claim);
    return claim->wanted;
}

/* Where nobody asked for it to be kept, nobody is to see that it was. */
bool pawl__keep_fits(const struct claim *claim, const struct label *label) {
    return claim->seam.keep_ns != PAWL__NEVER || (claim->label && label && strcmp(claim->label->text, label->text) == 0);
}

void pawl__keep_note(const struct claim *claim, bool alone) {
    struct cohort *cohort = claim->cohort;

    cohort->alone = !alone ? 0 : cohort->alone < KEEP_ALONE ? cohort->alone + 1 : KEEP_ALONE;
}

void pawl__keep_learn(struct claim *claim) {
    struct cohort *cohort = claim->cohort;

    cohort->alone = 0;
    if (claim->keeping.entered_again)
        cohort->keep_skips = 0;
    else if (cohort->keep_skips < KEEP_SKIPS_MAX)
        cohort->keep_skips = 2 * cohort->keep_skips + 1;
    cohort->keep_skips_left = cohort->keep_skips;
}

bool pawl__keep_is_over(struct claim *claim, int64_t now, int64_t *retdue) {
    if (!claim->keeping.idle_since)
        return false;
    if (claim->state != CLAIM_KEPT || claim->bounds.entered != claim->keeping.entered_then) {
        claim->keeping.entered_then = claim->bounds.entered;
        claim->keeping.idle_since = now;
    }
    if (now - claim->keeping.idle_since >= claim->seam.keep_ns)
        return true;
    *retdue = look_at(claim->keeping.idle_since, claim->seam.keep_ns);
    return false;
}
