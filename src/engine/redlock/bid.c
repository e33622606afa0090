/* SPDX-License-Identifier: Apache-2.0
 *
 * bid.c - attempts: all voters are asked at once, and their votes counted as they come. redlock.h draws the states.
 *
 * An attempt ends with the first vote that decides it: a quorum is there, or can't be reached any more. When a quorum of voters has
 * answered and it is still open, the others get as long as those took, a few times over, and count as silent after that: so a machine that
 * is slow as a whole is waited for, and a voter that alone is slow is not.
 *
 * After an attempt that failed every vote is taken back, those too that silent voters may have given; one that comes late is taken back
 * when it comes. Voters that said no keep us on their list of those that wait. The end of a hold is told to the one that waits longest, the
 * same at all voters (voter_release.lua). Who waits alone also hears of every change of the key, for holders that are not pawl's tell
 * nobody. When so many voters have said so that a quorum may be free, the next attempt begins. Were all told that wait, they would take
 * each other's votes, the more the more they are. Bids that did wait a random while first, twice as long each time.
 *
 * Who lets go of a lock that others wait for, and wants it again at once, lines up behind them: it would always be ahead of them
 * otherwise, by the way that the news of its release has to go.
 *
 * Of the bids of one client for one name only the oldest tries (it is the head); those behind it are QUEUED and ask nobody, since they
 * would only take votes from each other. The next becomes the head when this one is granted, refused or withdrawn: then it waits like
 * those of other clients, and has no better chance than they.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"
#include "base/lease.h"

#define STRAGGLERS_NS (20 * REDLOCK_MS)
#define SPLIT_NS REDLOCK_MS
#define YIELD_NS REDLOCK_MS
#define CROWD_NS (100 * REDLOCK_MS)
#define APART_NS (5 * REDLOCK_MS)
enum { STRAGGLERS_TIMES = 3, SPLITS_MOST = 8, CROWD_MOST = 10 };

static int64_t between(struct redlock *redlock, int64_t low, int64_t high) {
    redlock->random = redlock->random * 1664525u + 1013904223u;
    return low + (high - low) * (int64_t)(redlock->random >> 16) / 65536;
}

void pawl__bid_set_timer(struct redlock *redlock, struct bid *bid, int64_t when) {
    bid->timer_at = when;
    pawl__redlock_due(redlock, when);
}

/* ---- The queue of this client ----------------------------------------------------------------------------------------------- */

static bool wants(const struct bid *bid) {
    return bid->state == BID_QUEUED || bid->state == BID_ASKING || bid->state == BID_RAISING || bid->state == BID_RESTING;
}

/* The oldest bid that waits for the name. A try is nobody's head: it does not wait. */
static struct bid *head_of(const struct redlock *redlock, const struct pawl__claim *claim) {
    struct bid *bid;

    TAILQ_FOREACH(bid, &redlock->bids, all) {
        if (bid->claim->name_hash == claim->name_hash && wants(bid) && !bid->claim->try_only &&
            strcmp(bid->claim->name, claim->name) == 0)
            return bid;
    }
    return NULL;
}

/* This bid does not wait any more: the next of its name does, in its own time, since whoever calls may be in the midst of its own. */
static void make_way(struct redlock *redlock, const struct bid *bid) {
    struct bid *head = head_of(redlock, bid->claim);

    if (!head || head->state != BID_QUEUED)
        return;
    head->state = BID_RESTING;
    pawl__bid_set_timer(redlock, head, pawl__boottime());
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static void over(struct redlock *redlock, struct bid *bid, unsigned tell) {
    pawl__votes_detach(bid);
    TAILQ_REMOVE(&redlock->bids, bid, all);
    bid->state = BID_NONE;
    make_way(redlock, bid);
    pawl__redlock_untell(redlock, bid);
    pawl__redlock_tell(redlock, bid, tell);
}

static void refuse(struct redlock *redlock, struct bid *bid) {
    if (bid->errors <= redlock->crew.count - redlock->quorum) {
        if (bid->answered < redlock->quorum)
            pawl__fail(&bid->why, PAWL_ECONNLOST, "%u of the %u servers of %.200s answered, and %u are needed", bid->answered,
                       redlock->crew.count, redlock->url, redlock->quorum);
        else
            pawl__fail(&bid->why, PAWL_EHELD, "'%s' is held by another, or others want it at this moment", bid->claim->name);
    }
    over(redlock, bid, BID_TELL_REFUSED);
}

void pawl__bid_leave(struct redlock *redlock, struct bid *bid) {
    unsigned left = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        left += bid->votes[i] != NULL;
    /* Whoever comes next needs a quorum that is free of us, and no more. */
    if (left && redlock->crew.count - left < redlock->quorum)
        return;
    over(redlock, bid, BID_TELL_SETTLED);
}

/* ---- Between attempts ----------------------------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* When a quorum of voters may be free, as far as they have said. */
static int64_t quorum_free_at(const struct redlock *redlock, const struct bid *bid) {
    int64_t times[PAWL__CREW_MOST];

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        const struct vote *vote = bid->votes[i];

        if (!pawl__seat_usable(redlock, i) || (vote && vote->state == VOTE_ASKED))
            times[i] = PAWL__NEVER;
        else
            times[i] = vote && vote->state == VOTE_WAITS ? vote->again_at : 0;
    }
    qsort(times, redlock->crew.count, sizeof times[0], compare_times);
    return times[redlock->quorum - 1];
}

static bool quorum_tracks(const struct redlock *redlock) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        count += redlock->seats[i].tracks;
    return count >= redlock->quorum;
}

/* How many others wait, as the voter says where that are fewest. */
static unsigned crowd_of(const struct redlock *redlock, const struct bid *bid) {
    unsigned crowd = UINT_MAX;

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        const struct vote *vote = bid->votes[i];

        if (vote && vote->state == VOTE_WAITS && vote->crowd < crowd)
            crowd = vote->crowd;
    }
    return crowd == UINT_MAX ? 0 : crowd;
}

/* How long it rests if it hears nothing. Who waits alone hears of all changes, if it asks once more: that is then tracked. Of many, each is
 * told when it is its turn; and they ask the less often the more they are. */
static int64_t rest(struct redlock *redlock, const struct bid *bid, int64_t crowd) {
    if (crowd)
        return between(redlock, crowd * CROWD_NS, crowd * CROWD_NS * 3 / 2);
    if (bid->attempts == 1)
        return between(redlock, 0, REDLOCK_MS);
    if (quorum_tracks(redlock))
        return between(redlock, 1000 * REDLOCK_MS, 1500 * REDLOCK_MS);
    return between(redlock, 50 * REDLOCK_MS, 150 * REDLOCK_MS);
}

void pawl__bid_plan(struct redlock *redlock, struct bid *bid) {
    unsigned crowd = crowd_of(redlock, bid);
    int64_t now = pawl__boottime(), when = quorum_free_at(redlock, bid), latest;

    crowd = crowd < CROWD_MOST ? crowd : CROWD_MOST;
    /* Of those that took each other's votes one must go on. */
    latest = bid->splits ? bid->not_before : now + rest(redlock, bid, crowd);
    if (when > now && when < latest) /* a holder's time ends, and nobody is told */
        when += between(redlock, 0, crowd * APART_NS);
    when = when < bid->not_before ? bid->not_before : when;
    pawl__bid_set_timer(redlock, bid, when < latest ? when : latest);
}

/* What need not be taken back: a no, and what will be one in a moment, or else is taken back then. */
static bool stays(const struct redlock *redlock, const struct vote *vote) {
    return vote->state == VOTE_WAITS || (vote->state == VOTE_ASKED && pawl__seat_usable(redlock, vote->seat));
}

static void fail_attempt(struct redlock *redlock, struct bid *bid) {
    bool last = bid->claim->try_only || bid->errors > redlock->crew.count - redlock->quorum;
    unsigned had = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        struct vote *vote = bid->votes[i];

        had += vote && vote->state == VOTE_GRANTED;
        if (vote && (last || !stays(redlock, vote)))
            pawl__vote_return(redlock, vote);
    }
    pawl__redlock_note(redlock, bid, "%u votes of %u, %u needed: taken back", had, redlock->crew.count, redlock->quorum);
    if (last) {
        refuse(redlock, bid);
        return;
    }
    bid->splits = had ? bid->splits + (bid->splits < SPLITS_MOST) : 0;
    bid->state = BID_RESTING;
    bid->not_before = pawl__boottime() + between(redlock, 0, SPLIT_NS << bid->splits);
    pawl__bid_plan(redlock, bid);
}

/* Names may share a place here: then one of them waits for a moment longer, or for one less. */
static int64_t *yield_until(struct redlock *redlock, const struct pawl__claim *claim) {
    return &redlock->yield_until[claim->name_hash % YIELD_NAMES];
}

void pawl__bid_yield(struct redlock *redlock, const struct pawl__claim *claim) {
    *yield_until(redlock, claim) = pawl__boottime() + YIELD_NS + 2 * redlock->attempt_ns;
}

/* ---- Attempts ------------------------------------------------------------------------------------------------------------- */

static void grant(struct redlock *redlock, struct bid *bid) {
    pawl__redlock_note(redlock, bid, "held by %u votes of %u", pawl__votes_count(redlock, bid, pawl__boottime()),
                       redlock->crew.count);
    TAILQ_REMOVE(&redlock->bids, bid, all);
    TAILQ_INSERT_TAIL(&redlock->holding, bid, all);
    bid->state = BID_HOLDING;
    bid->timer_at = PAWL__NEVER;
    make_way(redlock, bid);
    pawl__redlock_tell(redlock, bid, BID_TELL_GRANTED);
    pawl__hold_count(redlock, bid);
    bid->held_since = bid->sent_at;
    redlock->attempt_ns = pawl__boottime() - bid->started_at;
    for (unsigned i = 0; i < redlock->crew.count; i++)
        if (bid->votes[i] && bid->votes[i]->state == VOTE_WAITS)
            pawl__vote_return(redlock, bid->votes[i]);
}

static unsigned count_pending(const struct redlock *redlock, const struct bid *bid) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        count += bid->votes[i] && bid->votes[i]->state == VOTE_ASKED && pawl__seat_usable(redlock, i);
    return count;
}

/* A quorum has answered, and it is still open. */
static void hurry(struct redlock *redlock, struct bid *bid, int64_t now) {
    int64_t more = (now - bid->started_at) * STRAGGLERS_TIMES;

    more = now + (more < STRAGGLERS_NS ? STRAGGLERS_NS : more);
    if (bid->state == BID_ASKING && bid->answered >= redlock->quorum && more < bid->timer_at)
        pawl__bid_set_timer(redlock, bid, more);
}

void pawl__bid_judge(struct redlock *redlock, struct bid *bid) {
    int64_t now = pawl__boottime();
    unsigned count, pending;

    if (bid->state != BID_ASKING && bid->state != BID_RAISING)
        return;
    count = pawl__votes_count(redlock, bid, now);
    pending = count_pending(redlock, bid);
    if (count + pending < redlock->quorum) {
        fail_attempt(redlock, bid);
        return;
    }
    if (bid->state == BID_ASKING && count >= redlock->quorum) {
        bid->state = BID_RAISING;
        bid->token = pawl__token_choose(redlock, bid, now);
        pawl__bid_set_timer(redlock, bid, bid->started_at + redlock->lease_ns / 2); /* nobody is hurried any more */
    }
    if (bid->state == BID_RAISING)
        pawl__token_raise(redlock, bid);
    if (bid->state == BID_RAISING && pawl__token_written(redlock, bid, now) >= redlock->quorum)
        grant(redlock, bid);
    else
        hurry(redlock, bid, now);
}

static void attempt(struct redlock *redlock, struct bid *bid, int64_t now) {
    uint64_t floor = pawl__token_floor(redlock);

    pawl__seats_listen(redlock, now);
    bid->state = BID_ASKING;
    bid->started_at = now;
    bid->attempts++;
    bid->answered = bid->errors = 0;
    bid->owner = ++redlock->next_id;
    bid->token_count = atomic_load(&bid->claim->token_want);
    bid->token_count = bid->token_count ? bid->token_count : 1;
    pawl__bid_set_timer(redlock, bid, now + redlock->lease_ns / 2); /* what would be granted later is not worth having */
    for (unsigned i = 0; i < redlock->crew.count; i++)
        pawl__vote_ask(redlock, bid, i, floor, bid->claim->try_only);
    pawl__bid_judge(redlock, bid);
}

/* Those that have not answered are silent, or slow: it is decided without them. */
static void time_out(struct redlock *redlock, struct bid *bid) {
    for (unsigned i = 0; i < redlock->crew.count; i++)
        if (bid->votes[i] && bid->votes[i]->state == VOTE_ASKED && pawl__crew_owes(&redlock->crew, i, bid->timer_at))
            pawl__seat_silent(redlock, i);
    fail_attempt(redlock, bid);
}

static void tick(struct redlock *redlock, struct bid *bid, int64_t now) {
    switch (bid->state) {
    case BID_NONE:
    case BID_QUEUED:
    case BID_HOLDING:
        break;
    case BID_ASKING:
    case BID_RAISING:
        time_out(redlock, bid);
        break;
    case BID_RESTING:
        attempt(redlock, bid, now);
        break;
    case BID_LEAVING: /* whatever the voters still have of it has expired */
        over(redlock, bid, BID_TELL_SETTLED);
        break;
    }
}

int64_t pawl__bids_tick(struct redlock *redlock, int64_t now) {
    int64_t due = PAWL__NEVER;
    struct bid *bid, *next;

    for (bid = TAILQ_FIRST(&redlock->bids); bid; bid = next) {
        next = TAILQ_NEXT(bid, all);
        if (bid->timer_at <= now)
            tick(redlock, bid, now);
    }
    TAILQ_FOREACH(bid, &redlock->bids, all) {
        due = bid->timer_at < due ? bid->timer_at : due;
    }
    return due;
}

/* The first attempt: if we owe others the precedence, behind them. */
static void begin(struct redlock *redlock, struct bid *bid) {
    int64_t now = pawl__boottime();

    bid->lines_up = now < *yield_until(redlock, bid->claim);
    attempt(redlock, bid, now);
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

/* Since when it wants the lock. No two bids of a client have the same: that is how an operator's view tells them apart. */
static int64_t new_since(struct redlock *redlock) {
    int64_t ms = pawl__wall_us() / 1000;

    redlock->last_since_ms = ms > redlock->last_since_ms ? ms : redlock->last_since_ms + 1;
    return redlock->last_since_ms;
}

int pawl__redlock_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    if (claim->kind != PAWL_MUTEX)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED,
                          "'%s' is not a mutex, and over several servers there are only those: use one server for it (redis:)",
                          claim->name);
    pawl__redlock_lock(redlock);
    bid->claim = claim;
    bid->since_ms = new_since(redlock);
    bid->state = BID_QUEUED;
    bid->timer_at = PAWL__NEVER;
    TAILQ_INSERT_TAIL(&redlock->bids, bid, all);
    if (claim->try_only || head_of(redlock, claim) == bid)
        begin(redlock, bid);
    pawl__redlock_unlock(redlock);
    return PAWL__PENDING;
}

int pawl__redlock_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    pawl__redlock_lock(redlock);
    bid->tell &= ~(unsigned)BID_TELL_GRANTED;
    if (bid->state == BID_NONE) {
        if (!bid->ended)
            pawl__redlock_tell(redlock, bid, BID_TELL_SETTLED);
        pawl__redlock_unlock(redlock);
        return PAWL__PENDING;
    }
    if (bid->state == BID_HOLDING) {
        TAILQ_REMOVE(&redlock->holding, bid, all);
        TAILQ_INSERT_TAIL(&redlock->bids, bid, all);
        for (unsigned i = 0; i < redlock->crew.count; i++)
            if (bid->votes[i]) {
                bid->granted_votes += bid->votes[i]->state == VOTE_GRANTED;
                pawl__voter_pass_on(&bid->votes[i]->claim);
            }
    }
    bid->state = BID_LEAVING;
    bid->lost_votes = 0;
    make_way(redlock, bid);
    for (unsigned i = 0; i < redlock->crew.count; i++)
        if (bid->votes[i])
            pawl__vote_return(redlock, bid->votes[i]);
    pawl__bid_set_timer(redlock, bid, pawl__boottime() + redlock->lease_ns);
    pawl__bid_leave(redlock, bid);
    pawl__redlock_unlock(redlock);
    return PAWL__PENDING;
}

/* There are no shared holds here. */
int pawl__redlock_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine;
    (void)claim;
    return PAWL_EUNSUPPORTED;
}
