/* SPDX-License-Identifier: Apache-2.0
 *
 * token.c - tokens that rise, over majorities that differ.
 *
 * Each voter has a counter. In one script with taking the key it gives `first`, higher than its counter and not lower than the floor that
 * we propose, and sets its counter to the last of the tokens that we want. All voters that had counted less give our floor, and so the
 * same; that is the common case, since the floor is the voters' own time in microseconds.
 *
 * The token T of a hold is the quorum-th lowest `first` among the votes. Before the hold is told of, a quorum of voters that hold our key
 * has a counter of at least T (and the rest of our range): those whose own `first` was T or more, and where that is too few, those that we
 * have raised (lua/raise.lua), which works only where our key still is.
 *
 *   T is higher than the token S of any earlier holder. Let Q be the quorum of votes with the lowest `first`, W that at which S was
 *   written while the earlier holder's key was there. Some voter is in both. If it wrote S before it gave us its vote, its `first` is
 *   above S; T is the highest in Q, so it is above S too. If it gave us its vote before, then our key was gone from it again when it
 *   had the earlier holder's: our vote had ended by our own clock before the earlier holder held, and was not counted (Q has only votes
 *   that count when the hold begins, after the earlier holder's end).
 *
 * That is as strong as exclusion itself: it rests on clocks that run at most 1 % apart, and on voters that forget nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The median of what the voters' clocks show: one that is far off does not matter. */
uint64_t pawl__token_floor(struct redlock *redlock) {
    uint64_t times[REDLOCK_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++) {
        const struct voter *voter = redlock->voters[i];

        if (voter->clock_us && voter->clock_number == voter->server.commands.number)
            times[count++] = (uint64_t)(voter->clock_us + (pawl__boottime() - voter->clock_local) / 1000);
    }
    if (!count)
        return 0;
    qsort(times, count, sizeof times[0], compare);
    return times[count / 2];
}

uint64_t pawl__token_choose(const struct redlock *redlock, const struct bid *bid, int64_t now) {
    uint64_t firsts[REDLOCK_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        if (pawl__vote_counts(bid->votes[i], now))
            firsts[count++] = bid->votes[i]->grant.token;
    qsort(firsts, count, sizeof firsts[0], compare);
    return firsts[redlock->quorum - 1];
}

/* A voter's counter is at the end of what it gave. */
static bool is_written(const struct bid *bid, const struct vote *vote) {
    return vote->grant.token + vote->grant.token_count >= bid->kit.grant.token + bid->kit.grant.token_count;
}

unsigned pawl__token_written(const struct redlock *redlock, const struct bid *bid, int64_t now) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        count += pawl__vote_counts(bid->votes[i], now) && is_written(bid, bid->votes[i]);
    return count;
}

/* Also where it is written already, if the voter's record shows another one: operators break holds by their token. And where it is the same
 * one, but an earlier attempt asked for fewer with it. */
void pawl__token_raise(struct redlock *redlock, struct bid *bid) {
    for (unsigned i = 0; i < redlock->count; i++) {
        struct vote *vote = bid->votes[i];

        if (vote && vote->state == VOTE_GRANTED && (vote->grant.token != bid->kit.grant.token || !is_written(bid, vote)))
            pawl__vote_raise(redlock, vote, bid->kit.grant.token, bid->kit.grant.token_count);
    }
}
