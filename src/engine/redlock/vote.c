/* SPDX-License-Identifier: Apache-2.0
 *
 * vote.c - one voter's vote for one bid: asking for it, and taking it back.
 *
 * The table says what becomes of it; send.c asks the voter, answer.c brings what it says.
 *
 * A vote is memory of its own: a voter that does not answer must not keep its bid from being over.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "os/socket.h"
#include "base/lease.h"

/* A voter that has owed an answer for so long is silent, if there are enough others. */
#define SILENT_NS (50 * REDLOCK_MS)

/* Columns are events; what is not here is ignored. It is gone whenever the voter says so. */
#define TAKEN_BACK                                                                                                                 \
    { VOTE_LEAVING, VOTE_NEWS }
#define GIVEN_BACK                                                                                                                 \
    { VOTE_RETURNING, VOTE_NEWS }
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
    [VOTE_GRANTED] =
        {[VOTE_RENEWED] = {VOTE_GRANTED, VOTE_NEWS | VOTE_TAKES}, [VOTE_LOST] = {VOTE_OVER, VOTE_NEWS}, [VOTE_RETURN] = GIVEN_BACK},
    [VOTE_OVER] = {[VOTE_RETURN] = GIVEN_BACK},
    /* That nothing was there to be returned proves a loss only if it was asked for once. */
    [VOTE_RETURNING] = {[VOTE_UNANSWERED] = {VOTE_LEAVING, VOTE_NEWS}, [VOTE_GONE] = AT_THE_VOTER},
    [VOTE_LEAVING] = {[VOTE_GONE] = AT_THE_VOTER},
};

unsigned pawl__vote_step(struct vote *vote, enum vote_event event) {
    const struct vote_move *move = &moves[vote->state][event];

    if (move->means)
        vote->state = move->next;
    return move->means;
}

/* ---- Voters --------------------------------------------------------------------------------------------------------------- */

bool pawl__voter_usable(const struct redlock *redlock, unsigned voter) {
    return !redlock->voters[voter]->silent && pawl__server_up(&redlock->voters[voter]->server);
}

void pawl__voter_heard(struct redlock *redlock, unsigned voter) {
    if (redlock->voters[voter]->silent)
        pawl__kit_note(&redlock->wire.kit, NULL, "%s answers again", redlock->voters[voter]->where);
    redlock->voters[voter]->silent = false;
}

void pawl__voter_silent(struct redlock *redlock, unsigned voter) {
    redlock->voters[voter]->silent = true;
    redlock->voters[voter]->usable = false; /* so that its coming back is seen, however soon that is */
    pawl__kit_note(&redlock->wire.kit, NULL, "%s is silent: it is left out until it answers", redlock->voters[voter]->where);
}

unsigned pawl__voters_usable(const struct redlock *redlock) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        count += pawl__voter_usable(redlock, i);
    return count;
}

bool pawl__voter_owes(const struct redlock *redlock, unsigned voter, int64_t then) {
    const struct link *link = &redlock->voters[voter]->server.commands;

    return link->state == LINK_UP && !TAILQ_EMPTY(&link->sent) && TAILQ_FIRST(&link->sent)->sent_at < then &&
           pawl__socket_silent(link->fd);
}

/* Nothing is asked of a silent one, so it owes nothing any more once it has answered, or its connection has ended. */
void pawl__voter_listen(struct redlock *redlock, unsigned voter, int64_t now) {
    if (redlock->voters[voter]->silent && !pawl__voter_owes(redlock, voter, now))
        pawl__voter_heard(redlock, voter);
}

void pawl__voters_listen(struct redlock *redlock, int64_t now) {
    for (unsigned i = 0; i < redlock->count; i++) {
        pawl__voter_listen(redlock, i, now);
        if (!pawl__voter_usable(redlock, i) || !pawl__voter_owes(redlock, i, now - SILENT_NS) ||
            pawl__voters_usable(redlock) <= redlock->quorum)
            continue;
        pawl__voter_silent(redlock, i);
    }
}

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

static uint32_t wanted_tokens(const struct bid *bid) {
    uint32_t want = atomic_load_explicit(&bid->kit.claim->token_want, memory_order_relaxed);

    return want ? want : 1;
}

static struct vote *new_vote(struct redlock *redlock, struct bid *bid, unsigned voter) {
    struct vote *vote = calloc(1, sizeof *vote);

    if (!vote)
        return NULL;
    memcpy(vote->name, bid->kit.claim->name, bid->kit.claim->name_length);
    vote->labelled = bid->kit.claim->label;
    if (vote->labelled)
        strcpy(vote->label, bid->kit.claim->label);
    vote->name_hash = bid->kit.claim->name_hash;
    vote->bid = bid;
    vote->voter = voter;
    vote->terms.id = bid->owner;
    vote->terms.since_ms = bid->since_ms;
    pawl__put_number(stpcpy(stpcpy(vote->owner, redlock->wire.uuid), ":"), bid->owner);
    pawl__kit_timer_init(&vote->timer);
    return vote;
}

/* What its max_hold leaves of it: a vote that is given later must not last longer. */
static int64_t time_left(const struct bid *bid) {
    int64_t most = bid->kit.claim->max_hold_ns, until = atomic_load(&bid->kit.claim->hold_until), left;

    if (until == PAWL__NEVER)
        return 0;
    if (!most || !(until || bid->held_since))
        return most;
    left = (until ? until : pawl__time_add(bid->held_since, most)) - pawl__boottime();
    return left > REDLOCK_MS ? left : REDLOCK_MS;
}

static void begin(struct redlock *redlock, struct bid *bid, unsigned voter, uint64_t floor, bool try_only) {
    struct vote *vote = new_vote(redlock, bid, voter);

    if (!vote)
        return;
    vote->terms.try_only = try_only;
    vote->terms.max_hold_ns = time_left(bid);
    vote->terms.want = wanted_tokens(bid);
    vote->terms.floor = floor;
    vote->terms.behind_others = bid->behind_others && bid->attempts == 1;
    pawl__vote_step(vote, VOTE_ASK);
    TAILQ_INSERT_TAIL(&redlock->votes, vote, all);
    redlock->wire.claim_count++;
    bid->votes[voter] = vote;
    pawl__vote_send(redlock, vote);
}

void pawl__vote_ask(struct redlock *redlock, struct bid *bid, unsigned voter, uint64_t floor, bool try_only) {
    struct vote *vote = bid->votes[voter];

    if (!pawl__voter_usable(redlock, voter)) {
        redlock->voters[voter]->usable = false; /* once it is, we are called again */
        return;
    }
    if (!vote) {
        begin(redlock, bid, voter, floor, try_only);
    } else if (!try_only && pawl__vote_step(vote, VOTE_ASK)) {
        vote->terms.want = wanted_tokens(bid);
        vote->terms.floor = floor;
        pawl__vote_send(redlock, vote);
    }
}

void pawl__vote_return(struct redlock *redlock, struct vote *vote) {
    if (!pawl__vote_step(vote, VOTE_RETURN))
        return;
    vote->was_held = vote->state == VOTE_RETURNING;
    vote->failures = 0;
    vote->asked = false; /* the answer to what is in flight counts no more */
    pawl__vote_forget_renewal(redlock, vote);
    pawl__kit_timer_end(&redlock->retries, &vote->timer);
    pawl__vote_send(redlock, vote);
}

void pawl__votes_detach(struct bid *bid) {
    for (unsigned i = 0; i < REDLOCK_MAX; i++) {
        if (bid->votes[i])
            bid->votes[i]->bid = NULL;
        bid->votes[i] = NULL;
    }
}

void pawl__vote_free(struct redlock *redlock, struct vote *vote) {
    if (vote->bid)
        vote->bid->votes[vote->voter] = NULL;
    pawl__vote_step(vote, VOTE_GONE);
    pawl__vote_forget_renewal(redlock, vote);
    pawl__kit_timer_end(&redlock->retries, &vote->timer);
    redlock->wire.claim_count--;
    TAILQ_REMOVE(&redlock->votes, vote, all);
    free(vote);
}

bool pawl__vote_counts(const struct vote *vote, int64_t now) {
    return vote && (vote->state == VOTE_GRANTED || vote->state == VOTE_OVER) &&
           now < pawl__lease_assured_until(vote->grant.sent_at, vote->grant.lease_ns);
}

unsigned pawl__votes_count(const struct redlock *redlock, const struct bid *bid, int64_t now) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        count += pawl__vote_counts(bid->votes[i], now);
    return count;
}
