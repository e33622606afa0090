/* SPDX-License-Identifier: Apache-2.0
 *
 * vote.c - one voter's vote for one bid: asking for it, taking it back, and hearing what became of it.
 *
 *     (none) --ask--> ASKED --granted--> GRANTED --return, lost--> LEAVING --settled--> (none)
 *                      | ^                                            ^
 *                waits v | ask                                        |
 *                     WAITS -----------------return------------------+
 *
 * A vote is memory of its own: a voter that does not answer must not keep its bid from being over.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/lease.h"

/* A voter that has owed an answer for so long is silent, if there are enough others. */
#define SILENT_NS (50 * REDLOCK_MS)

static struct vote *vote_of(struct pawl__claim *claim) {
    return (struct vote *)((char *)claim - offsetof(struct vote, claim));
}

static struct pawl__engine *voter_of(const struct redlock *redlock, unsigned seat) {
    return redlock->crew.members[seat];
}

/* ---- Seats ---------------------------------------------------------------------------------------------------------------- */

bool pawl__seat_usable(const struct redlock *redlock, unsigned seat) {
    return !redlock->seats[seat].silent && atomic_load(&voter_of(redlock, seat)->link) == 0;
}

void pawl__seat_heard(struct redlock *redlock, unsigned seat) {
    if (redlock->seats[seat].silent)
        pawl__redlock_note(redlock, NULL, "%s answers again", redlock->seats[seat].where);
    redlock->seats[seat].silent = false;
}

void pawl__seat_silent(struct redlock *redlock, unsigned seat) {
    redlock->seats[seat].silent = true;
    redlock->seats[seat].usable = false; /* so that its coming back is seen, however soon that is */
    pawl__redlock_note(redlock, NULL, "%s is silent: it is left out until it answers", redlock->seats[seat].where);
}

static unsigned count_usable(const struct redlock *redlock) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        count += pawl__seat_usable(redlock, i);
    return count;
}

/* Nothing is asked of a silent one, so it owes nothing any more once it has answered, or its connection has ended. */
static void listen_again(struct redlock *redlock, unsigned seat, int64_t now) {
    if (redlock->seats[seat].silent && !pawl__crew_owes(&redlock->crew, seat, now))
        pawl__seat_heard(redlock, seat);
}

void pawl__seats_listen(struct redlock *redlock, int64_t now) {
    for (unsigned i = 0; i < redlock->crew.count; i++) {
        listen_again(redlock, i, now);
        if (!pawl__seat_usable(redlock, i) || !pawl__crew_owes(&redlock->crew, i, now - SILENT_NS) ||
            count_usable(redlock) <= redlock->quorum)
            continue;
        pawl__seat_silent(redlock, i);
    }
}

/* A voter has come back: those that hold want its vote, those that rest may have a majority now. */
static void seat_came(struct redlock *redlock, unsigned seat) {
    struct bid *bid;

    TAILQ_FOREACH(bid, &redlock->holding, all) {
        pawl__hold_top_up(redlock, bid, seat);
    }
    TAILQ_FOREACH(bid, &redlock->bids, all) {
        if (bid->state == BID_RESTING)
            pawl__bid_plan(redlock, bid);
    }
}

static void judge_all(struct redlock *redlock) {
    struct bid *bid, *next;

    for (bid = TAILQ_FIRST(&redlock->bids); bid; bid = next) {
        next = TAILQ_NEXT(bid, all);
        pawl__bid_judge(redlock, bid);
    }
}

void pawl__seats_look(struct redlock *redlock) {
    struct pawl__voter_view view;
    bool went = false;

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        struct seat *seat = &redlock->seats[i];
        bool was_usable = seat->usable;

        listen_again(redlock, i, pawl__boottime());
        pawl__voter_look(voter_of(redlock, i), &view);
        seat->tracks = view.tracks;
        seat->usable = pawl__seat_usable(redlock, i);
        if (seat->usable && !was_usable)
            seat_came(redlock, i);
        went |= was_usable && !seat->usable;
    }
    atomic_store(&redlock->base.link, count_usable(redlock) >= redlock->quorum ? 0 : PAWL_ECONNLOST);
    if (went)
        judge_all(redlock);
}

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

static struct vote *new_vote(struct redlock *redlock, struct bid *bid, unsigned seat) {
    struct vote *vote = calloc(1, sizeof *vote + voter_of(redlock, seat)->impl->claim_size);

    if (!vote)
        return NULL;
    memcpy(vote->name, bid->claim->name, bid->claim->name_length);
    vote->bid = bid;
    vote->seat = seat;
    vote->state = VOTE_ASKED;
    vote->claim = (struct pawl__claim){
        .id = {bid->claim->id[0], bid->owner},
        .name = vote->name,
        .name_length = bid->claim->name_length,
        .name_hash = bid->claim->name_hash,
        .kind = PAWL_MUTEX,
        .mode = PAWL_EXCLUSIVE,
        .permits = 1,
        .limit = 1,
    };
    return vote;
}

/* What its max_hold leaves of it: a vote that is given later must not last longer. */
static int64_t time_left(const struct bid *bid) {
    int64_t most = bid->claim->max_hold_ns, left;

    if (!most || !bid->held_since)
        return most;
    left = pawl__time_add(bid->held_since, most) - pawl__boottime();
    return left > REDLOCK_MS ? left : REDLOCK_MS;
}

static void submit_vote(struct redlock *redlock, struct bid *bid, unsigned seat, uint64_t floor, bool try_only) {
    struct pawl__engine *voter = voter_of(redlock, seat);
    struct vote *vote = new_vote(redlock, bid, seat);
    struct pawl_error why;

    if (!vote)
        return;
    vote->claim.try_only = try_only;
    vote->claim.max_hold_ns = time_left(bid);
    atomic_store(&vote->claim.token_want, atomic_load(&bid->claim->token_want));
    pawl__voter_prepare(&vote->claim, floor, bid->since_ms);
    if (bid->lines_up && bid->attempts == 1)
        pawl__voter_line_up(&vote->claim);
    if (voter->impl->submit(voter, &vote->claim, &why) < 0) {
        free(vote);
        return;
    }
    TAILQ_INSERT_TAIL(&redlock->votes, vote, all);
    bid->votes[seat] = vote;
}

void pawl__vote_ask(struct redlock *redlock, struct bid *bid, unsigned seat, uint64_t floor, bool try_only) {
    struct vote *vote = bid->votes[seat];

    if (!pawl__seat_usable(redlock, seat)) {
        redlock->seats[seat].usable = false; /* once it is, we are called again */
        return;
    }
    if (!vote) {
        submit_vote(redlock, bid, seat, floor, try_only);
    } else if (vote->state == VOTE_WAITS && !try_only) {
        vote->state = VOTE_ASKED;
        atomic_store(&vote->claim.token_want, atomic_load(&bid->claim->token_want));
        pawl__voter_ask(voter_of(redlock, seat), &vote->claim, floor);
    }
}

void pawl__vote_return(struct redlock *redlock, struct vote *vote) {
    struct pawl__engine *voter = voter_of(redlock, vote->seat);

    if (vote->state == VOTE_LEAVING)
        return;
    vote->state = VOTE_LEAVING;
    redlock->leaving++;
    voter->impl->withdraw(voter, &vote->claim); /* always pending: the voter's own serve() says when it is through */
}

void pawl__votes_detach(struct bid *bid) {
    for (unsigned i = 0; i < PAWL__CREW_MOST; i++) {
        if (bid->votes[i])
            bid->votes[i]->bid = NULL;
        bid->votes[i] = NULL;
    }
}

void pawl__vote_free(struct redlock *redlock, struct vote *vote) {
    if (vote->bid)
        vote->bid->votes[vote->seat] = NULL;
    if (vote->state == VOTE_LEAVING)
        redlock->leaving--;
    TAILQ_REMOVE(&redlock->votes, vote, all);
    free(vote);
}

bool pawl__vote_counts(const struct vote *vote, int64_t now) {
    return vote && vote->state == VOTE_GRANTED && now < pawl__lease_assured_until(vote->sent_at, vote->lease_ns);
}

unsigned pawl__votes_count(const struct redlock *redlock, const struct bid *bid, int64_t now) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        count += pawl__vote_counts(bid->votes[i], now);
    return count;
}

/* ---- Hearing -------------------------------------------------------------------------------------------------------------- */

/* Begin an upcall about a vote. */
static struct vote *hear(struct redlock *redlock, struct pawl__claim *claim) {
    struct vote *vote = vote_of(claim);

    pawl__redlock_lock(redlock);
    pawl__seat_heard(redlock, vote->seat);
    return vote;
}

static void take_grant(struct vote *vote) {
    vote->token = vote->claim.token;
    vote->token_count = vote->claim.token_count;
    vote->sent_at = vote->claim.sent_at;
    vote->lease_ns = vote->claim.lease_ns;
}

static void on_granted(void *core, struct pawl__claim *claim) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;

    if (vote->state == VOTE_ASKED) { /* else it was taken back meanwhile */
        vote->state = VOTE_GRANTED;
        take_grant(vote);
        bid->answered++;
        if (bid->state == BID_HOLDING)
            pawl__hold_count(redlock, bid);
        else if (bid->state == BID_RESTING)
            pawl__vote_return(redlock, vote); /* too late: the attempt has failed */
        else
            pawl__bid_judge(redlock, bid);
    }
    pawl__redlock_unlock(redlock);
}

/* Is this an answer that will not change by asking again? */
static bool is_final(int code) {
    return code != PAWL_EHELD && code != PAWL_ECONNLOST;
}

static void on_refused(void *core, struct pawl__claim *claim, const struct pawl_error *why) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;

    pawl__vote_free(redlock, vote);
    if (bid && (bid->state == BID_ASKING || bid->state == BID_RAISING)) {
        bid->answered += why->code != PAWL_ECONNLOST;
        if (is_final(why->code)) {
            bid->errors++;
            bid->why = *why;
        }
        pawl__bid_judge(redlock, bid);
    } else if (bid && bid->state == BID_LEAVING) {
        pawl__bid_leave(redlock, bid);
    }
    pawl__redlock_unlock(redlock);
}

static void on_settled(void *core, struct pawl__claim *claim) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;
    unsigned seat = vote->seat;

    if (pawl__voter_awaited(claim))
        pawl__bid_yield(redlock, claim);
    if (bid)
        bid->lost_votes += pawl__voter_was_lost(claim);
    pawl__vote_free(redlock, vote);
    if (bid && bid->state == BID_LEAVING)
        pawl__bid_leave(redlock, bid);
    else if (bid && bid->state == BID_HOLDING)
        pawl__hold_top_up(redlock, bid, seat);
    pawl__redlock_unlock(redlock);
}

static void on_renewed(void *core, struct pawl__claim *claim) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;

    if (vote->state == VOTE_GRANTED && bid) {
        take_grant(vote);
        if (bid->state == BID_HOLDING)
            pawl__hold_count(redlock, bid);
        else
            pawl__bid_judge(redlock, bid);
    }
    pawl__redlock_unlock(redlock);
}

void pawl__vote_waits(void *core, struct pawl__claim *claim, int64_t when) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;

    if (bid && (vote->state == VOTE_ASKED || vote->state == VOTE_WAITS)) {
        bid->answered += vote->state == VOTE_ASKED;
        vote->state = VOTE_WAITS;
        vote->again_at = when;
        vote->crowd = pawl__voter_crowd(claim);
        if (bid->state == BID_HOLDING)
            pawl__vote_return(redlock, vote); /* a holder does not wait; once that is through, it asks anew */
        else if (bid->state == BID_RESTING)
            pawl__bid_plan(redlock, bid);
        else
            pawl__bid_judge(redlock, bid);
    }
    pawl__redlock_unlock(redlock);
}

static void on_lost(void *core, struct pawl__claim *claim, bool broken, const struct pawl_error *why) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);
    struct bid *bid = vote->bid;

    if (vote->state == VOTE_GRANTED && bid) {
        if (bid->state == BID_HOLDING && (broken || pawl__voter_freed(claim))) {
            pawl__hold_lost(redlock, bid, broken, why);
        } else if (!broken) {
            pawl__redlock_note(redlock, bid, "%s has forgotten it", redlock->seats[vote->seat].where);
            pawl__vote_return(redlock, vote);
            if (bid->state == BID_HOLDING)
                pawl__hold_count(redlock, bid);
            else
                pawl__bid_judge(redlock, bid);
        }
    }
    pawl__redlock_unlock(redlock);
}

void pawl__vote_tell(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    switch (news) {
    case NEWS_GRANTED:
        on_granted(core, claim);
        break;
    case NEWS_REFUSED:
        on_refused(core, claim, why);
        break;
    case NEWS_GONE:
        on_settled(core, claim);
        break;
    case NEWS_RENEWED:
        on_renewed(core, claim);
        break;
    case NEWS_LOST:
    case NEWS_BROKEN:
        on_lost(core, claim, news == NEWS_BROKEN, why);
        break;
    case NEWS_DOWNGRADED: /* nobody asks a voter for it */
        break;
    }
}
