/* SPDX-License-Identifier: Apache-2.0
 *
 * cohort.c - the threads and tasks of this process that want one lock: whom each waits for, and what becomes of their claims.
 *
 * The claims of a cohort stand in the order in which they were submitted, which is their order in the engine's queue:
 *
 *     claims:   [shared, HELD]  ->  [exclusive, PENDING]  ->  [shared, PENDING]
 *     waiters:                       t1 t2 t3                   t4 t5
 *     holds:     t0
 *
 * Which claim a newcomer waits for is decided in enter.c, and who has a claim next in handoff.c.
 *
 * Who waits in the engine: the first waiter of a pending claim, if it is a thread and the engine lets callers park; else serve().
 * When the first waiter goes away, pawl__cohort_nudge() finds another.
 *
 * What becomes of a claim is found out in claim.c, wherever it is asked; what follows for waiters and holds is in one place:
 * pawl__cohort_settle().
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/claim.h"
#include "base/error.h"
#include "os/futex.h"
#include "base/lease.h"
#include "os/sleep.h"
#include "os/uncancelled.h"

static int pass_on(struct claim *claim, const struct pawl_lock *lock);

/* ---- Waiters -------------------------------------------------------------------------------------------------------------- */

/* All that wait for it end, and nothing follows for the claim. */
static void end_all(struct claim *claim, const struct pawl_error *why) {
    struct waiter *waiter;

    while ((waiter = TAILQ_FIRST(&claim->waiters))) {
        waiter->error = *why;
        pawl__waiter_conclude(waiter, WAITER_END);
    }
}

void pawl__cohort_end(struct waiter *waiter, int code, const char *format, ...) {
    struct claim *claim = waiter->claim;
    bool first = claim && TAILQ_FIRST(&claim->waiters) == waiter;
    va_list args;

    waiter->error.code = code;
    va_start(args, format);
    vsnprintf(waiter->error.text, sizeof waiter->error.text, format, args);
    va_end(args);
    pawl__waiter_conclude(waiter, WAITER_END);
    if (first && claim->state == CLAIM_OPEN) { /* it was to look */
        pass_on(claim, waiter->lock);
        return;
    }
    if (!claim || claim->withdraw_after_park || claim->state != CLAIM_PENDING)
        return;
    if (TAILQ_EMPTY(&claim->waiters))
        pawl__cohort_retire(claim);
    else
        pawl__cohort_nudge(claim);
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

void pawl__cohort_nudge(struct claim *claim) {
    struct waiter *first = TAILQ_FIRST(&claim->waiters);

    if (claim->state != CLAIM_PENDING || pawl__claim_is_adopted(claim))
        return;
    if (claim->parked)
        pawl__claim_unpark(claim);
    else if (first->event)
        pawl__claim_adopt(claim);
    else
        pawl__waiter_wake(claim->cohort, first);
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

    pawl__cohort_settle(claim, outcome, &why);
}

/* Was it called, and has nobody else taken the claim yet? */
static bool may_take(const struct waiter *waiter) {
    return waiter->claim->state == CLAIM_OPEN && TAILQ_FIRST(&waiter->claim->waiters) == waiter;
}

/* Sleep, here or in the engine, until something has become of the waiter, or for no reason. */
static void wait_once(struct cohort *cohort, struct waiter *waiter, int64_t now, int64_t until) {
    struct claim *claim = waiter->claim;

    bool first = TAILQ_FIRST(&claim->waiters) == waiter;

    if (first && claim->state == CLAIM_PENDING && !pawl__claim_is_adopted(claim) && !claim->parked) {
        wait_in_engine(claim, until);
    } else if (may_take(waiter)) {
        pawl__waiter_step(waiter, WAITER_TURN);
        pass_on(claim, waiter->lock);
        pawl__cohort_adopt_unsettled(cohort); /* if it went back: this thread is about to wait for another */
    } else {
        sleep_until(cohort, waiter, now, pawl__handoff_sleep(cohort->client, waiter, now, until));
    }
}

/* A signal may have come: is the wait to end? */
static void ask_interrupted(struct cohort *cohort, struct waiter *waiter) {
    const struct pawl *client = cohort->client;
    bool over;

    if (!client->callbacks.interrupted || !is_waiting(waiter))
        return;
    UNCANCELLED;
    pawl__cohort_let_go(cohort);
    over = pawl__ask_interrupted(client, cohort);
    pthread_mutex_lock(&cohort->mutex);
    if (over && is_waiting(waiter))
        pawl__cohort_end(waiter, PAWL_ECANCELED, "the acquire of '%s' was ended: a signal interrupted it", cohort->name);
}

/* Is the claim still there that another thread holds? */
static void look_beside(struct waiter *waiter) {
    if (!is_waiting(waiter) || !needs_looks(waiter->claim))
        return;
    pawl__cohort_refresh(waiter->claim);
    pawl__cohort_adopt_unsettled(waiter->lock->cohort); /* this thread is about to wait for another claim */
}

/* Is this thread in a callback that must not wait for the lock? Then the wait has ended. */
static bool refuse_wait(struct cohort *cohort, struct waiter *waiter) {
    if (pawl__calling_waits_for(cohort))
        pawl__cohort_end(waiter, PAWL_EDEADLK,
                         "this thread waits for '%s' already, in whose callback it is: it would wait for itself", cohort->name);
    else if (pawl__service_calls(cohort->client))
        pawl__cohort_end(waiter, PAWL_EDEADLK,
                         "'%s' can't be waited for in this callback, which runs in the thread that renews and hears of grants: "
                         "acquire it in another",
                         cohort->name);
    return !is_waiting(waiter);
}

void pawl__cohort_wait(struct cohort *cohort, struct waiter *waiter) {
    if (pawl__calling && refuse_wait(cohort, waiter))
        return;
    while (is_waiting(waiter)) {
        int64_t now = pawl__boottime(), until = waiter->deadline;

        if (now >= until && !may_take(waiter)) { /* it may be late because it was asleep */
            end_late(waiter);
            break;
        }
        if (now >= waiter->look_at && !may_take(waiter))
            break;
        if (waiter->look_at < until)
            until = waiter->look_at;
        if ((cohort->client->callbacks.interrupted || needs_looks(waiter->claim)) && until - now > PAWL__LISTEN_NS)
            until = now + PAWL__LISTEN_NS;
        wait_once(cohort, waiter, now, until);
        ask_interrupted(cohort, waiter);
        look_beside(waiter);
    }
}

/* ---- Another claim --------------------------------------------------------------------------------------------------------- */

void pawl__cohort_submit(struct claim *claim) {
    struct pawl_error why;
    int outcome = pawl__claim_submit(claim, &why);

    pawl__cohort_settle(claim, outcome, &why);
}

/* The next that this thread may look after. */
static struct claim *next_unsettled(const struct cohort *cohort) {
    struct claim *claim;

    TAILQ_FOREACH(claim, &cohort->unsettled, unsettled) {
        if (!claim->awaited || pthread_equal(claim->retired_by, pthread_self()) || atomic_load(&cohort->client->closed))
            return claim;
    }
    return NULL;
}

void pawl__cohort_adopt_unsettled(struct cohort *cohort) {
    struct claim *claim;

    while ((claim = next_unsettled(cohort)) && pawl__claim_adopt(claim))
        pawl__claim_take_up(claim);
}

void pawl__cohort_let_go_unsettled(struct cohort *cohort) {
    struct claim *claim;

    TAILQ_FOREACH(claim, &cohort->unsettled, unsettled) {
        claim->awaited |= claim->state == CLAIM_LEAVING && pthread_equal(claim->retired_by, pthread_self());
    }
    pawl__cohort_let_go(cohort);
}

struct hold *pawl__cohort_hold(const struct cohort *cohort, uint64_t owner) {
    struct claim *claim;
    struct hold *hold;

    TAILQ_FOREACH(claim, &cohort->claims, link) {
        TAILQ_FOREACH(hold, &claim->holds, of_claim) {
            if (hold->owner == owner && !hold->lost && !pawl__claim_is_over(claim))
                return hold;
        }
    }
    return NULL;
}

void pawl__cohort_give_back(struct cohort *cohort) {
    struct claim *claim = TAILQ_LAST(&cohort->claims, claim_list);

    if (claim && claim->state == CLAIM_KEPT)
        pawl__cohort_retire(claim);
}

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
        pawl__waiter_change(home, waiter);
        pawl__waiter_count(home);
    }
}

/* Find the waiters of a held claim another claim to wait for: this one can't serve them. */
static void move_waiters_on(struct claim *claim) {
    struct waiter *waiter = TAILQ_FIRST(&claim->waiters);
    struct pawl_error error;
    struct claim *home;

    if (!waiter)
        return;
    home = next_home(claim, waiter);
    if (home) {
        move_waiters(claim, home);
        pawl__cohort_nudge(home);
        return;
    }
    pawl__cohort_give_back(claim->cohort);
    home = pawl__waiter_claim(claim->cohort, waiter, false);
    if (!home) {
        pawl__fail(&error, PAWL_ENOMEM, "out of memory");
        end_all(claim, &error);
        return;
    }
    move_waiters(claim, home);
    pawl__cohort_submit(home);
}

/* Nobody holds it: the next one has it, or it is kept, or it goes back. As retire. */
static int pass_on(struct claim *claim, const struct pawl_lock *lock) {
    if (claim->tokens.ordered)
        pawl__claim_restock(claim);
    if (!TAILQ_EMPTY(&claim->waiters)) {
        if (pawl__handoff_next(claim))
            return 0;
        move_waiters_on(claim);
    }
    return pawl__keep_may_rest(claim, lock) && pawl__claim_rest(claim) ? 0 : pawl__cohort_retire(claim);
}

/* Take the hold away; its claim stays as it is. */
static void end_hold(struct hold *hold) {
    struct claim *claim = hold->claim;

    if (claim)
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
    if (claim && !hold->token)
        pawl__claim_unreserve(claim);
    if (claim && claim->value.known && claim->seam.mode == PAWL_EXCLUSIVE)
        pawl__claim_forget_value(claim);
    pawl__hold_drop(hold);
}

int pawl__cohort_leave(struct hold *hold) {
    struct claim *claim = hold->claim;
    struct pawl_lock *lock = hold->lock;
    bool lost = hold->lost || (claim && claim->lease.denied_at); /* the server has denied it, if only to a write */
    int rc;

    end_hold(hold);
    if (!claim)
        return PAWL_ELOST;
    rc = TAILQ_EMPTY(&claim->holds) ? pass_on(claim, lock) : 0;
    return lost ? PAWL_ELOST : rc;
}

bool pawl__cohort_leave_kept(struct hold *hold) {
    struct claim *claim = hold->claim;
    bool alone = claim && TAILQ_FIRST(&claim->holds) == hold && !TAILQ_NEXT(hold, of_claim) && TAILQ_EMPTY(&claim->waiters);

    if (!alone || !rest_finds_loss(claim) || !pawl__keep_may_rest(claim, hold->lock) || !pawl__claim_rest(claim))
        return false;
    end_hold(hold);
    return true;
}

/* ---- What becomes of a claim ---------------------------------------------------------------------------------------------- */

int pawl__cohort_retire(struct claim *claim) {
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

    while ((waiter = TAILQ_FIRST(&claim->waiters)) && pawl__waiter_grant(claim, waiter))
        if (claim->seam.mode != PAWL_SHARED)
            return;
    move_waiters_on(claim);
}

static void refuse(struct claim *claim, const struct pawl_error *why) {
    end_all(claim, why);
    pawl__claim_free(claim);
}

static void post_loss(struct hold *hold, enum pawl_state state, const struct pawl_error *why) {
    struct event *event;

    if (!hold->lock->on_loss || !(event = calloc(1, sizeof *event)))
        return;
    event->lock = hold->lock;
    event->lock->references++;
    event->state = state;
    event->token = pawl__hold_token(hold);
    event->error = *why;
    pawl__event_post(hold->lock->client, event);
}

/* The holds are lost. After a break the claim stays until they are released: that is what the one who broke it waits for. */
static void lose(struct claim *claim, bool broken, const struct pawl_error *why) {
    struct hold *hold;

    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        hold->lost = true;
        pawl__count_lost(claim->cohort, why->code);
        pawl__lock_ring(hold->lock);
        pawl__hold_token(hold); /* while there is a claim to draw it from */
        post_loss(hold, PAWL_LOST, why);
    }
    move_waiters_on(claim);
    if (broken && !TAILQ_EMPTY(&claim->holds))
        return;
    while ((hold = TAILQ_FIRST(&claim->holds))) {
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
        hold->claim = NULL;
    }
    pawl__cohort_retire(claim);
}

/* The service thread may hear of a loss before the thread that parks has said that it is granted: that counts now. */
static void granted(struct claim *claim) {
    struct pawl_error why;
    int outcome;

    if (TAILQ_EMPTY(&claim->waiters)) {
        pawl__cohort_retire(claim);
        return;
    }
    share_out(claim);
    outcome = pawl__claim_lose_early(claim, &why);
    if (outcome != CLAIM_NOTHING)
        lose(claim, outcome == NEWS_BROKEN, &why);
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

/* Those who wait for a renewal look whether this was it. */
static void ring_holders(const struct claim *claim) {
    const struct hold *hold;

    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        pawl__lock_ring(hold->lock);
    }
}

void pawl__cohort_settle(struct claim *claim, int outcome, const struct pawl_error *why) {
    switch (outcome) {
    case CLAIM_QUEUED:
        if (TAILQ_EMPTY(&claim->waiters))
            pawl__cohort_retire(claim);
        else
            pawl__cohort_nudge(claim);
        break;
    case NEWS_GRANTED:
        granted(claim);
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
    case NEWS_WANTED: /* in use, it leaves at its last release, or at its bounds */
        pawl__handoff_wake_first(claim);
        if (claim->state != CLAIM_KEPT)
            break;
        pawl__keep_learn(claim);
        pawl__cohort_retire(claim);
        break;
    case CLAIM_IDLE:
        pawl__cohort_retire(claim);
        break;
    case CLAIM_SUSPECT:
        tell_holders(claim, PAWL_SUSPECT);
        break;
    case CLAIM_RECOVERED:
        tell_holders(claim, PAWL_HELD);
        ring_holders(claim);
        break;
    case NEWS_RENEWED:
        ring_holders(claim);
        break;
    default: /* a downgrade changes nothing for waiters and holds of this process */
        break;
    }
}

void pawl__cohort_refresh(struct claim *claim) {
    struct pawl_error why;
    int outcome = pawl__claim_look_at(claim, &why);

    if (outcome != CLAIM_NOTHING)
        pawl__cohort_settle(claim, outcome, &why);
}

int pawl__cohort_downgrade(struct claim *claim) {
    struct pawl_error why;
    int outcome;

    /* A reader of this process that comes in now must not draw a token before the one who was here first. */
    pawl__hold_token(TAILQ_FIRST(&claim->holds));
    /* Its exclusive waiters can't be served by a shared claim: they queue anew, behind the readers that come in now. */
    move_waiters_on(claim);
    outcome = pawl__claim_downgrade(claim, &why);
    pawl__cohort_settle(claim, outcome, &why);
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
    pawl__cohort_settle(claim, outcome, &told);
    pawl__cohort_unlock(cohort);
}

int pawl__cohort_finish_unsettled(struct cohort *cohort) {
    bool lost = false, one;
    struct claim *claim;
    int outcome;

    atomic_fetch_add(&cohort->client->inside, 1);
    while ((claim = next_unsettled(cohort))) {
        pawl__claim_take_up(claim);
        one = false;
        outcome = pawl__claim_finish(claim, &one);
        lost |= one;
        if (outcome == NEWS_GONE)
            pawl__claim_free(claim);
        else if (claim->withdraw_after_park &&
                 claim->state != CLAIM_LEAVING) /* it was to be withdrawn while its downgrade was under way */
            pawl__cohort_retire(claim);
    }
    pawl__client_one_less(cohort->client, &cohort->client->inside);
    return lost ? PAWL_ELOST : 0;
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* An asynchronous set that has waited for long: the service thread looks, later, for who is in its way. When is that due again? */
static int64_t tick_look(struct waiter *waiter, int64_t now) {
    struct pawl *client = waiter->lock->client;

    if (now >= waiter->look_at) {
        client->look_due = true;
        client->look_since = waiter->look_at - PAWL__LOOK_NS;
        waiter->look_at = now + PAWL__LOOK_AGAIN_NS;
    }
    return waiter->look_at;
}

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
            int64_t when = tick_look(waiter, now);

            due = when < due ? when : due;
            due = waiter->deadline < due ? waiter->deadline : due;
            due = needs_looks(claim) && now + PAWL__LISTEN_NS < due ? now + PAWL__LISTEN_NS : due;
            continue;
        }
        last = !next && TAILQ_FIRST(&claim->waiters) == waiter;
        end_late(waiter);
        if (last) /* the claim may be gone with it */
            break;
    }
    return due;
}

/* The next after the claim with this number, which may be gone, and so may the one that was next, if it was kept; up to `last`. */
static struct claim *claim_after(const struct cohort *cohort, uint64_t number, uint64_t last) {
    struct claim *claim;

    TAILQ_FOREACH(claim, &cohort->claims, link) {
        if (claim->seam.id[1] > number)
            return claim->seam.id[1] <= last ? claim : NULL;
    }
    return NULL;
}

int64_t pawl__cohort_tick(struct cohort *cohort, int64_t now) {
    struct claim *claim, *next;
    int64_t due = PAWL__NEVER, when;
    uint64_t last = cohort->next_id - 1; /* those that come of it are not looked at */
    struct pawl_error why;

    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        when = tick_waiters(claim, now);
        due = when < due ? when : due;
    }
    for (claim = TAILQ_FIRST(&cohort->claims); claim; claim = next) {
        uint64_t number = claim->seam.id[1];
        int outcome = pawl__claim_tick(claim, now, &when, &why);

        next = TAILQ_NEXT(claim, link);
        if (outcome != CLAIM_NOTHING) {
            pawl__cohort_settle(claim, outcome, &why);
            next = claim_after(cohort, number, last);
        }
        due = when < due ? when : due;
    }
    return due;
}
