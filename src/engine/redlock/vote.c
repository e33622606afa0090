/* SPDX-License-Identifier: Apache-2.0
 *
 * vote.c - one voter's vote for one bid: asking for it, taking it back, and hearing what became of it.
 *
 * The table says what becomes of it; pump.c brings what the voters say.
 *
 * A vote is memory of its own: a voter that does not answer must not keep its bid from being over.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/lease.h"

/* A voter that has owed an answer for so long is silent, if there are enough others. */
#define SILENT_NS (50 * REDLOCK_MS)

/* Columns are events; what is not here is ignored. It is gone whenever the voter says so. */
#define TAKEN_BACK                                                                                                                 \
    { VOTE_LEAVING, VOTE_NEWS }
#define AT_THE_VOTER                                                                                                               \
    { VOTE_NONE, VOTE_NEWS }
static const struct vote_move moves[VOTE_STATES][VOTE_EVENTS] = {
    [VOTE_NONE] = {[VOTE_ASK] = {VOTE_ASKED, VOTE_NEWS}},
    [VOTE_ASKED] = {[VOTE_YES] = {VOTE_GRANTED, VOTE_NEWS | VOTE_ANSWERS | VOTE_TAKES},
                    [VOTE_NO] = {VOTE_WAITS, VOTE_NEWS | VOTE_ANSWERS},
                    [VOTE_RETURN] = TAKEN_BACK,
                    [VOTE_GONE] = AT_THE_VOTER},
    [VOTE_WAITS] = {[VOTE_ASK] = {VOTE_ASKED, VOTE_NEWS},
                    [VOTE_NO] = {VOTE_WAITS, VOTE_NEWS},
                    [VOTE_RETURN] = TAKEN_BACK,
                    [VOTE_GONE] = AT_THE_VOTER},
    [VOTE_GRANTED] = {[VOTE_RENEWED] = {VOTE_GRANTED, VOTE_NEWS | VOTE_TAKES},
                      [VOTE_LOST] = {VOTE_GRANTED, VOTE_NEWS},
                      [VOTE_RETURN] = TAKEN_BACK,
                      [VOTE_GONE] = AT_THE_VOTER},
    [VOTE_LEAVING] = {[VOTE_GONE] = AT_THE_VOTER},
};

unsigned pawl__vote_step(struct vote *vote, enum vote_event event) {
    const struct vote_move *move = &moves[vote->state][event];

    if (move->means)
        vote->state = move->next;
    return move->means;
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
        pawl__kit_note(&redlock->kit, NULL, "%s answers again", redlock->seats[seat].where);
    redlock->seats[seat].silent = false;
}

void pawl__seat_silent(struct redlock *redlock, unsigned seat) {
    redlock->seats[seat].silent = true;
    redlock->seats[seat].usable = false; /* so that its coming back is seen, however soon that is */
    pawl__kit_note(&redlock->kit, NULL, "%s is silent: it is left out until it answers", redlock->seats[seat].where);
}

unsigned pawl__seats_usable(const struct redlock *redlock) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        count += pawl__seat_usable(redlock, i);
    return count;
}

/* Nothing is asked of a silent one, so it owes nothing any more once it has answered, or its connection has ended. */
void pawl__seat_listen(struct redlock *redlock, unsigned seat, int64_t now) {
    if (redlock->seats[seat].silent && !pawl__crew_owes(&redlock->crew, seat, now))
        pawl__seat_heard(redlock, seat);
}

void pawl__seats_listen(struct redlock *redlock, int64_t now) {
    for (unsigned i = 0; i < redlock->crew.count; i++) {
        pawl__seat_listen(redlock, i, now);
        if (!pawl__seat_usable(redlock, i) || !pawl__crew_owes(&redlock->crew, i, now - SILENT_NS) ||
            pawl__seats_usable(redlock) <= redlock->quorum)
            continue;
        pawl__seat_silent(redlock, i);
    }
}

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

static struct vote *new_vote(struct redlock *redlock, struct bid *bid, unsigned seat) {
    struct vote *vote = calloc(1, sizeof *vote + voter_of(redlock, seat)->impl->claim_size);

    if (!vote)
        return NULL;
    memcpy(vote->name, bid->kit.claim->name, bid->kit.claim->name_length);
    vote->bid = bid;
    vote->seat = seat;
    vote->claim = (struct pawl__claim){
        .id = {bid->kit.claim->id[0], bid->owner},
        .name = vote->name,
        .name_length = bid->kit.claim->name_length,
        .name_hash = bid->kit.claim->name_hash,
        .kind = PAWL_MUTEX,
        .mode = PAWL_EXCLUSIVE,
        .permits = 1,
        .limit = 1,
    };
    return vote;
}

/* What its max_hold leaves of it: a vote that is given later must not last longer. */
static int64_t time_left(const struct bid *bid) {
    int64_t most = bid->kit.claim->max_hold_ns, left;

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
    atomic_store(&vote->claim.token_want, atomic_load(&bid->kit.claim->token_want));
    pawl__voter_prepare(&vote->claim, floor, bid->since_ms);
    if (bid->lines_up && bid->attempts == 1)
        pawl__voter_line_up(&vote->claim);
    if (voter->impl->submit(voter, &vote->claim, &why) < 0) {
        free(vote);
        return;
    }
    pawl__vote_step(vote, VOTE_ASK);
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
    } else if (!try_only && pawl__vote_step(vote, VOTE_ASK)) {
        atomic_store(&vote->claim.token_want, atomic_load(&bid->kit.claim->token_want));
        pawl__voter_ask(voter_of(redlock, seat), &vote->claim, floor);
    }
}

void pawl__vote_return(struct redlock *redlock, struct vote *vote) {
    struct pawl__engine *voter = voter_of(redlock, vote->seat);

    if (pawl__vote_step(vote, VOTE_RETURN))
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
    pawl__vote_step(vote, VOTE_GONE);
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
