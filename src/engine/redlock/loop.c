/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.c - who reads, who sleeps, who tells: serve() and park(). redlock.h has the picture.
 *
 * Invariants
 *   - At most one caller leads. A follower sleeps on its bid's word, and is woken when its bid is decided, when it is to lead, or when it
 *     was unparked. Whoever stops leading while others follow makes one of them the heir: `leading` stays true in between.
 *   - The service thread reads answers only if nobody leads and claims that it looks after wait for them, or where they have been due for
 *     LATE_NS: so that those which come right after the caller had its quorum wake nobody, and are read with its next request.
 *   - A bid is told of by one thread at a time: while serve() calls up about it, its park() does not return.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "os/futex.h"
#include "base/lease.h"
#include "os/sleep.h"

#define LATE_NS (10 * REDLOCK_MS)

/* ---- The mutex ------------------------------------------------------------------------------------------------------------ */

void pawl__redlock_lock(struct redlock *redlock) {
    pthread_mutex_lock(&redlock->mutex);
}

void pawl__redlock_unlock(struct redlock *redlock) {
    char notes[sizeof redlock->notes];
    size_t used = redlock->notes_used;
    bool wake = redlock->wake;

    if (used)
        memcpy(notes, redlock->notes, used);
    redlock->notes_used = 0;
    redlock->wake = false;
    pthread_mutex_unlock(&redlock->mutex);
    if (wake)
        pawl__crew_wake(&redlock->crew);
    for (char *line = notes; line < notes + used; line += strlen(line) + 1)
        pawl__note(&redlock->base, NULL, "%s", line);
}

void pawl__redlock_note(struct redlock *redlock, const struct bid *bid, const char *format, ...) {
    char line[512];
    size_t length = 0;
    va_list args;

    if (!pawl__noting(&redlock->base))
        return;
    if (bid)
        length = (size_t)snprintf(line, sizeof line, "'%s' ", bid->claim->name);
    va_start(args, format);
    vsnprintf(line + length, sizeof line - length, format, args);
    va_end(args);
    length = strlen(line) + 1;
    if (redlock->notes_used + length > sizeof redlock->notes)
        return;
    memcpy(redlock->notes + redlock->notes_used, line, length);
    redlock->notes_used += length;
}

void pawl__redlock_due(struct redlock *redlock, int64_t when) {
    if (when >= redlock->asleep_until)
        return;
    redlock->asleep_until = when;
    pawl__crew_alarm(&redlock->crew, when);
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

/* Wake the thread that waits for the bid, however it sleeps. */
static void rouse(struct redlock *redlock, struct bid *bid) {
    if (redlock->leader == bid && !pthread_equal(redlock->leader_thread, pthread_self()))
        pawl__crew_rouse(&redlock->crew);
    if (atomic_exchange(&bid->word, 0))
        futex_wake_own(&bid->word, 1);
}

static unsigned serve_tells(const struct bid *bid) {
    return bid->adopted ? bid->tell : bid->tell & ~(unsigned)BID_TELL_PARKED;
}

static void queue_telling(struct redlock *redlock, struct bid *bid) {
    if (!serve_tells(bid) || bid->to_tell)
        return;
    bid->to_tell = true;
    TAILQ_INSERT_TAIL(&redlock->to_tell, bid, telling);
    redlock->wake = true;
}

void pawl__redlock_tell(struct redlock *redlock, struct bid *bid, unsigned what) {
    bid->tell |= what;
    queue_telling(redlock, bid);
    if (what & BID_TELL_PARKED && !bid->adopted)
        rouse(redlock, bid);
}

void pawl__redlock_untell(struct redlock *redlock, struct bid *bid) {
    bid->tell &= ~(unsigned)(BID_TELL_RENEWED | BID_TELL_LOST);
    if (bid->to_tell && !serve_tells(bid)) {
        bid->to_tell = false;
        TAILQ_REMOVE(&redlock->to_tell, bid, telling);
    }
}

/* Tokens are the core's to read from the grant on: a renewal leaves them alone. */
static void fill_claim(struct bid *bid, unsigned what) {
    if (what & BID_TELL_GRANTED) {
        bid->claim->token = bid->token;
        bid->claim->token_count = bid->token_count;
    }
    bid->claim->sent_at = bid->sent_at;
    bid->claim->lease_ns = bid->lease_ns;
}

/* Tell the core about one bid, without the mutex. */
static void call_up(struct redlock *redlock, struct pawl__claim *claim, unsigned what, bool broken, const struct pawl_error *why) {
    pawl__tell_fn *tell = redlock->base.tell;
    void *core = redlock->base.core;

    if (what & BID_TELL_GRANTED)
        tell(core, claim, NEWS_GRANTED, NULL);
    if (what & BID_TELL_RENEWED)
        tell(core, claim, NEWS_RENEWED, NULL);
    if (what & BID_TELL_LOST)
        tell(core, claim, broken ? NEWS_BROKEN : NEWS_LOST, why);
    if (what & BID_TELL_REFUSED)
        tell(core, claim, NEWS_REFUSED, why);
    else if (what & BID_TELL_SETTLED)
        tell(core, claim, NEWS_GONE, NULL);
}

static bool tell_one(struct redlock *redlock) {
    struct bid *bid = TAILQ_FIRST(&redlock->to_tell);
    struct pawl_error why;
    bool ended, broken;
    unsigned what;

    if (!bid)
        return false;
    TAILQ_REMOVE(&redlock->to_tell, bid, telling);
    bid->to_tell = false;
    what = serve_tells(bid);
    bid->tell &= ~what;
    if (!what)
        return true;
    if (what & (BID_TELL_GRANTED | BID_TELL_RENEWED))
        fill_claim(bid, what);
    bid->ended = what & (BID_TELL_REFUSED | BID_TELL_SETTLED);
    bid->told_now = true;
    ended = bid->ended; /* then its memory goes with the upcall */
    broken = bid->broken;
    why = bid->why;
    pawl__redlock_unlock(redlock);
    call_up(redlock, bid->claim, what, broken, &why);
    pawl__redlock_lock(redlock);
    if (!ended) {
        bid->told_now = false;
        rouse(redlock, bid);
    }
    return true;
}

/* ---- The service thread --------------------------------------------------------------------------------------------------- */

/* Does a claim that this thread looks after wait for answers that nobody else reads? */
static bool must_read(const struct redlock *redlock) {
    const struct bid *bid;

    if (redlock->leading)
        return false;
    TAILQ_FOREACH(bid, &redlock->bids, all) {
        if (bid->adopted && bid->state != BID_RESTING && bid->state != BID_QUEUED)
            return true;
    }
    return false;
}

void pawl__redlock_serve(struct pawl__engine *engine, int64_t deadline) {
    struct redlock *redlock = redlock_of(engine);
    int64_t now = pawl__boottime(), due, owed;
    uint32_t late;

    pawl__redlock_lock(redlock);
    pawl__seats_look(redlock);
    due = pawl__bids_tick(redlock, now);
    due = deadline < due ? deadline : due;
    owed = pawl__crew_oldest(&redlock->crew, must_read(redlock) ? PAWL__NEVER : now - LATE_NS, &late);
    owed = pawl__time_add(owed, LATE_NS);
    due = owed < due ? owed : due;
    if (!TAILQ_EMPTY(&redlock->to_tell))
        due = 0;
    redlock->asleep_until = due;
    redlock->wake = false; /* we are awake */
    pawl__redlock_unlock(redlock);
    pawl__crew_serve(&redlock->crew, due, late);
    pawl__redlock_lock(redlock);
    redlock->asleep_until = 0;
    pawl__seats_look(redlock);
    pawl__bids_tick(redlock, pawl__boottime());
    while (tell_one(redlock))
        continue;
    redlock->wake = false;
    pawl__redlock_unlock(redlock);
}

void pawl__redlock_wake(struct pawl__engine *engine) {
    pawl__crew_wake(&redlock_of(engine)->crew);
}

/* ---- Parking -------------------------------------------------------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Is the next answer worth looking for? The first one takes as long as the voters do, which may run on our CPUs; the others are close
 * behind it. And who follows has use for the CPU, too. */
static bool is_eager(const struct redlock *redlock, const struct bid *bid) {
    return bid->state != BID_RESTING && bid->answered > 0 && TAILQ_EMPTY(&redlock->followers);
}

/* Sleep until an answer comes, or until time asks for something. The mutex is held, and released meanwhile. */
static void lead(struct redlock *redlock, struct bid *bid, int64_t deadline) {
    int64_t due = sooner(deadline, pawl__bids_tick(redlock, pawl__boottime()));
    bool eager;

    if (bid->tell & BID_TELL_PARKED)
        return;
    eager = is_eager(redlock, bid);
    redlock->leader = bid;
    redlock->leader_thread = pthread_self();
    /* So that somebody looks at answers that this thread does not wait for. */
    pawl__redlock_due(redlock, pawl__boottime() + LATE_NS);
    pawl__redlock_unlock(redlock);
    pawl__crew_lead(&redlock->crew, due, eager);
    pawl__redlock_lock(redlock);
    redlock->leader = NULL;
}

/* Stop leading: one of the followers goes on, or the service thread if it must. */
static void abdicate(struct redlock *redlock) {
    struct bid *heir = TAILQ_FIRST(&redlock->followers);

    redlock->leading = heir != NULL;
    if (heir) {
        heir->heir = true;
        rouse(redlock, heir);
    } else if (must_read(redlock)) {
        redlock->wake = true;
    }
}

static void follow(struct redlock *redlock, struct bid *bid, int64_t deadline) {
    atomic_store(&bid->word, 1);
    bid->follows = true;
    TAILQ_INSERT_TAIL(&redlock->followers, bid, follower);
    pawl__redlock_unlock(redlock);
    futex_wait_own(&bid->word, 1, pawl__nap_ns(pawl__boottime(), deadline));
    pawl__redlock_lock(redlock);
    atomic_store(&bid->word, 0);
    bid->follows = false;
    TAILQ_REMOVE(&redlock->followers, bid, follower);
}

/* Decided, and nobody else speaks of the bid. */
static bool decided(const struct bid *bid) {
    return bid->tell & BID_TELL_PARKED && !bid->told_now;
}

static void wait_once(struct redlock *redlock, struct bid *bid, bool *leads, int64_t deadline) {
    if (bid->heir) {
        bid->heir = false;
        *leads = true;
    }
    if (!*leads && !redlock->leading)
        *leads = redlock->leading = true;
    if (*leads && !(bid->tell & BID_TELL_PARKED)) {
        lead(redlock, bid, deadline);
        return;
    }
    if (*leads) { /* decided, but the service thread is speaking of it */
        *leads = false;
        abdicate(redlock);
    }
    follow(redlock, bid, deadline);
}

static int take_outcome(const struct redlock *redlock, struct bid *bid, struct pawl_error *reterr) {
    unsigned what = bid->tell & BID_TELL_PARKED;

    bid->tell &= ~what;
    if (what & BID_TELL_GRANTED)
        fill_claim(bid, what);
    if (what & BID_TELL_REFUSED) {
        if (reterr)
            *reterr = bid->why;
        return bid->why.code;
    }
    if (what & BID_TELL_SETTLED && bid->granted_votes && bid->granted_votes - bid->lost_votes < redlock->quorum)
        return PAWL_ELOST;
    return PAWL__DONE;
}

int pawl__redlock_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);
    bool leads = false;
    int rc = PAWL__PENDING;

    pawl__redlock_lock(redlock);
    while (!decided(bid)) {
        if (bid->unparked || pawl__boottime() >= deadline)
            break;
        wait_once(redlock, bid, &leads, deadline);
    }
    if (leads || bid->heir) {
        bid->heir = false;
        abdicate(redlock);
    }
    bid->unparked = false;
    if (decided(bid))
        rc = take_outcome(redlock, bid, reterr);
    pawl__redlock_unlock(redlock);
    return rc;
}

void pawl__redlock_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    pawl__redlock_lock(redlock);
    bid->unparked = true;
    rouse(redlock, bid);
    pawl__redlock_unlock(redlock);
}

void pawl__redlock_adopt(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    pawl__redlock_lock(redlock);
    bid->adopted = true;
    redlock->wake = true;
    queue_telling(redlock, bid);
    pawl__redlock_unlock(redlock);
}
