/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.c - a bid that holds: renewed at all voters, assured by the quorum of votes that last longest, topped up where a voter has forgotten
 * it, came back, or answered too late the first time.
 *
 * A hold whose votes fall below the quorum because voters say that they don't have it any more is lost at once: another may have got a
 * majority. Voters that merely don't answer keep their votes until these end by our own clock; the core watches that.
 *
 * A vote that came later must not hide a loss. The servers' clocks jump, all keys expire, and another has the lock for a while; we hear
 * from few servers, one after the other, and get a new vote from each. So a vote that was asked for after the hold began makes the hold
 * last no longer until it is proven: a quorum of proven votes was renewed after we had heard of it. An owner's name is used once, so what
 * can be renewed was there all the time. The hold then was ours up to that moment, and the new vote is as good as the others.
 */
#include <stdlib.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"
#include "base/lease.h"

/* The part of the lease by which a hold must last longer for the core to hear of it. */
enum { WORTH = 16 };

void pawl__bid_lose(struct redlock *redlock, struct bid *bid, unsigned news, const struct pawl_error *why) {
    if (bid->lost)
        return;
    bid->lost = true;
    bid->kit.why = *why;
    bid->kit.why.code = PAWL_ELOST;
    pawl__kit_tell(&redlock->wire.kit, &bid->kit, news);
}

static int64_t end_of(const struct vote *vote) {
    return pawl__lease_assured_until(vote->grant.sent_at, vote->grant.lease_ns);
}

static int compare_last_first(const void *a, const void *b) {
    int64_t x = end_of(*(const struct vote *const *)a), y = end_of(*(const struct vote *const *)b);

    return x > y ? -1 : x < y;
}

/* The vote that is the quorum-th to end of those that are proven. NULL: they are fewer. */
static const struct vote *quorum_vote(const struct redlock *redlock, const struct bid *bid, int64_t now) {
    const struct vote *votes[REDLOCK_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        if (pawl__vote_counts(bid->votes[i], now) && bid->votes[i]->proven)
            votes[count++] = bid->votes[i];
    if (count < redlock->quorum)
        return NULL;
    qsort(votes, count, sizeof votes[0], compare_last_first);
    return votes[redlock->quorum - 1];
}

/* How many proven votes were renewed at `then` or later? */
static unsigned count_proven(const struct redlock *redlock, const struct bid *bid, int64_t then) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++) {
        const struct vote *vote = bid->votes[i];

        count += vote && vote->state == VOTE_GRANTED && vote->proven && vote->grant.sent_at >= then;
    }
    return count;
}

/* Where no proven vote may fail, it is not left to the next renewal. */
static void prove_soon(struct redlock *redlock, struct bid *bid, int64_t then) {
    if (count_proven(redlock, bid, 0) > redlock->quorum)
        return;
    for (unsigned i = 0; i < redlock->count; i++) {
        struct vote *vote = bid->votes[i];

        if (vote && vote->proven && vote->grant.sent_at < then)
            pawl__vote_renew(redlock, vote);
    }
    redlock->wire.kit.wakes = true;
}

static void prove(struct redlock *redlock, struct bid *bid) {
    for (unsigned i = 0; i < redlock->count; i++) {
        struct vote *vote = bid->votes[i];

        if (!vote || vote->state != VOTE_GRANTED || vote->proven)
            continue;
        vote->proven = vote->held_since <= bid->began_at || count_proven(redlock, bid, vote->seen_at) >= redlock->quorum;
        if (!vote->proven)
            prove_soon(redlock, bid, vote->seen_at);
    }
}

static void lose_majority(struct redlock *redlock, struct bid *bid) {
    struct pawl_error why;

    pawl__fail(&why, PAWL_ELOST, "the hold of '%s' is on fewer than %u of the %u servers any more", bid->kit.claim->name,
               redlock->quorum, redlock->count);
    pawl__bid_lose(redlock, bid, KIT_LOST, &why);
}

/* Tell the core only if the end moved noticeably, or if it asked. */
static bool is_news(const struct redlock *redlock, const struct bid *bid, const struct vote *vote) {
    int64_t before = pawl__lease_assured_until(bid->kit.grant.sent_at, bid->kit.grant.lease_ns), after = end_of(vote);

    return after < before || after > before + redlock->wire.options.lease_ns / WORTH ||
           (bid->renewing_since && vote->grant.sent_at >= bid->renewing_since);
}

void pawl__bid_recount(struct redlock *redlock, struct bid *bid) {
    int64_t now = pawl__boottime();
    const struct vote *vote;

    if (bid->lost)
        return;
    if (pawl__votes_count(redlock, bid, now) < redlock->quorum) {
        lose_majority(redlock, bid);
        return;
    }
    pawl__token_raise(redlock, bid);
    prove(redlock, bid);
    vote = quorum_vote(redlock, bid, now);
    if (!vote || !is_news(redlock, bid, vote))
        return;
    bid->kit.grant.sent_at = vote->grant.sent_at;
    bid->kit.grant.lease_ns = vote->grant.lease_ns;
    if (vote->grant.sent_at >= bid->renewing_since)
        bid->renewing_since = 0;
    if (!(bid->kit.news & KIT_GRANTED))
        pawl__kit_tell(&redlock->wire.kit, &bid->kit, KIT_RENEWED);
}

void pawl__bid_top_up(struct redlock *redlock, struct bid *bid, unsigned voter) {
    if (bid->lost || bid->votes[voter])
        return;
    bid->owner = ++redlock->next_id;
    pawl__vote_ask(redlock, bid, voter, bid->kit.grant.token, true);
    if (bid->votes[voter])
        pawl__kit_note(&redlock->wire.kit, &bid->kit, "asking %s for its vote too", redlock->voters[voter]->where);
}

void pawl__redlock_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    pawl__kit_lock(&redlock->wire.kit);
    bid->renewing_since = pawl__boottime();
    for (unsigned i = 0; i < redlock->count && bid->state == BID_HOLDING && !bid->lost; i++) {
        struct vote *vote = bid->votes[i];

        if (vote && vote->state == VOTE_GRANTED)
            pawl__vote_renew(redlock, vote);
        else
            pawl__bid_top_up(redlock, bid, i);
    }
    pawl__token_raise(redlock, bid);
    redlock->wire.kit.wakes = true;
    pawl__kit_unlock(&redlock->wire.kit);
}
