/* SPDX-License-Identifier: Apache-2.0
 *
 * ballot.c - what a voter is asked: its scripts' arguments. See voter.h.
 */
#include <string.h>

#include "engine/redis/lock/lock.h"

/* As a ballot begins: all of them are as long, so that the servers compare them as text. */
static char *put_sixteen(char *to, uint64_t number) {
    to[16] = ' ';
    for (int i = 15; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + 17;
}

/* What the server writes if its own counter is lower than `first`: `LAST FIRST COUNT OWNER WISH`. */
static void put_ballot(const struct rclaim *claim, const struct redis_call *call, char *to) {
    uint64_t first = claim->vote.floor;

    to = put_sixteen(put_sixteen(to, first ? first + claim->want_sent - 1 : 0), first);
    to = stpcpy(stpcpy(to, call->want), " ");
    to = stpcpy(stpcpy(to, claim->owner), " ");
    strcpy(to, call->wish);
}

/* Returns how many words the script needs: the end of a hold is told to the next one, the end of a mere vote to nobody; and where it is not
 * known which it was, the server sees. */
static int put_release(const struct rclaim *claim, struct redis_call *call) {
    enum { HOLD = 3, VOTE = 4, EITHER = 5 };
    const struct redis_keys *keys = &call->keys;
    const char *words[EITHER] = {keys->lock, keys->queue, claim->owner, claim->vote.was_held ? "" : call->extra, "1"};

    memcpy(call->argv, words, sizeof words);
    if (!claim->vote.passes_on)
        return VOTE;
    return claim->vote.was_held ? HOLD : EITHER;
}

/* A voter's scripts need little, and each argument costs the server as much as a call: what is not said is the common case. */
int pawl__ballot_call(const struct rclaim *claim, int script, struct redis_call *call, int *retargc) {
    const struct redis_keys *keys = &call->keys;

    if (script == SCRIPT_RELEASE) {
        *retargc = put_release(claim, call);
        return 2;
    }
    if (claim->vote.lines_up && !claim->kit.claim->try_only && !claim->vote.registered)
        call->asks = "3";
    put_ballot(claim, call, call->rest);
    const char *acquire[] = {keys->lock, keys->token, claim->owner, call->lease, call->rest, call->asks};

    memcpy(call->argv, acquire, sizeof acquire);
    *retargc = strcmp(call->asks, "0") == 0 ? 5 : 6;
    return 2;
}
