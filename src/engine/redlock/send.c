/* SPDX-License-Identifier: Apache-2.0
 *
 * send.c - what voters are asked: scripts, and their arguments.
 *
 * A voter's key is that of the plain family, a string that holds the owner. Beside it lies a ballot: the counter of tokens, and who took
 * the lock last (lua/acquire.lua). It has no queue and hands nothing on: a vote that finds the lock held is told so, is written down as
 * one that waits, and asks again when its bid says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/lease.h"
#include "engine/kit/retry.h"
#include "os/bell.h"
#include "os/clock.h"

#define AGAIN_NS (50 * REDLOCK_MS)
#define AGAIN_MOST_NS (1600 * REDLOCK_MS)
#define RENEW_AGAIN_NS (100 * REDLOCK_MS)

void pawl__redlock_due(struct redlock *redlock, int64_t when) {
    if (when >= redlock->wire.kit.asleep_until)
        return;
    redlock->wire.kit.asleep_until = when;
    pawl__timer_set(redlock->timer_fd, when);
}

void pawl__redlock_wake_reader(struct redlock *redlock) {
    bell_ring(redlock->read_bell);
}

/* A prefix and a name are at most REDIS_KEY_MAX - 128 bytes together, and what is put around them is shorter than that. */
static void put_key(char *to, const char *prefix, const char *lock) {
    bool bare = strchr(lock, '{');

    to = stpcpy(stpcpy(to, prefix), bare ? ":" : ":{");
    strcpy(stpcpy(to, lock), bare ? "" : "}");
}

void pawl__voter_keys(const struct redlock *redlock, const char *name, struct voter_keys *ret) {
    strcpy(stpcpy(ret->lock, redlock->wire.options.prefix), name);
    put_key(ret->ballot, "pawl:vote", ret->lock);
    put_key(ret->wait, "pawl:wait", ret->lock);
}

int64_t pawl__vote_lease_ns(const struct redlock *redlock, const struct vote *vote) {
    int64_t left = vote->terms.max_hold_ns, most = redlock->wire.options.lease_ns;
    int64_t until = vote->bid ? atomic_load(&vote->bid->kit.claim->hold_until) : 0;

    if (until || (left && vote->held_since))
        left = (until ? until : pawl__time_add(vote->held_since, left)) - pawl__boottime();
    if (!vote->terms.max_hold_ns || until == PAWL__NEVER || left >= most)
        return most;
    return left < REDLOCK_MS ? REDLOCK_MS : (left + REDLOCK_MS - 1) / REDLOCK_MS * REDLOCK_MS; /* the server counts in ms */
}

/* So that somebody looks at answers that no caller waits for. */
static bool send_script(struct redlock *redlock, unsigned voter, int script, int keys, int argc, const char **argv,
                        const struct request *request) {
    pawl__redlock_due(redlock, pawl__boottime() + LATE_NS);
    return pawl__script_send(&redlock->voters[voter]->server, script, keys, argc, argv, NULL, request);
}

/* What could not even be written is asked once the connection is there again, as is all that was not answered. */
static void ask(struct redlock *redlock, struct vote *vote, int script, int argc, const char **argv) {
    struct request request = {.data = vote, .step = ++vote->number};

    vote->asked = send_script(redlock, vote->voter, script, 2, argc, argv, &request);
}

/* ---- Votes ---------------------------------------------------------------------------------------------------------------- */

/* Who wants it, as it stands among those that wait. */
static void put_terms(const struct redlock *redlock, const struct vote *vote, char *to) {
    to = stpcpy(pawl__put_number(stpcpy(to, "x 1 "), (uint64_t)vote->terms.since_ms), " ");
    pawl__record_put(to, redlock->record, vote->labelled ? vote->label : NULL);
}

/* As a ballot begins: all of them are as long, so that the servers compare them as text. */
static char *put_sixteen(char *to, uint64_t number) {
    to[16] = ' ';
    for (int i = 15; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + 17;
}

/* What the server writes if its own counter is lower than `first`: `LAST FIRST COUNT OWNER TERMS`. */
static void put_ballot(const struct redlock *redlock, const struct vote *vote, char *to) {
    uint64_t first = vote->terms.floor;

    to = put_sixteen(put_sixteen(to, first ? first + vote->terms.want - 1 : 0), first);
    to = stpcpy(pawl__put_number(to, vote->terms.want), " ");
    put_terms(redlock, vote, stpcpy(stpcpy(to, vote->owner), " "));
}

/* How it asks; NULL: in the usual way, which needs no word. Each argument costs the server as much as a call. */
static const char *how(const struct vote *vote) {
    if (vote->terms.try_only)
        return "1";
    return vote->registered ? "2" : vote->terms.behind_others ? "3" : NULL;
}

static void send_acquire(struct redlock *redlock, struct vote *vote) {
    struct voter *voter = redlock->voters[vote->voter];
    char lease[24], ballot[PAWL__RECORD_MAX + REDIS_OWNER_MAX + 128];
    const char *asks = how(vote);
    struct voter_keys keys;

    pawl__voter_keys(redlock, vote->name, &keys);
    vote->asked_ns = pawl__vote_lease_ns(redlock, vote);
    pawl__put_number(lease, (uint64_t)(vote->asked_ns / REDLOCK_MS));
    put_ballot(redlock, vote, ballot);
    if (voter->tracks && vote->terms.alone)
        pawl__link_say(&voter->server.commands, 3, (const char *[]){"CLIENT", "CACHING", "YES"}, &(struct request){.script = -1});
    ask(redlock, vote, SCRIPT_ACQUIRE, asks ? 6 : 5, (const char *[]){keys.lock, keys.ballot, vote->owner, lease, ballot, asks});
}

/* The end of a hold is told to the next one, the end of a mere vote to nobody; and where it is not known which it was, the server sees. */
static void send_release(struct redlock *redlock, struct vote *vote) {
    enum { HOLD = 3, VOTE = 4, EITHER = 5 };
    char terms[PAWL__RECORD_MAX + 64] = "";
    struct voter_keys keys;

    pawl__voter_keys(redlock, vote->name, &keys);
    if (!vote->was_held)
        put_terms(redlock, vote, terms);
    ask(redlock, vote, SCRIPT_RELEASE,
        !vote->passes_on ? VOTE
        : vote->was_held ? HOLD
                         : EITHER,
        (const char *[]){keys.lock, keys.wait, vote->owner, terms, "1"});
}

void pawl__vote_send(struct redlock *redlock, struct vote *vote) {
    const struct server *server = &redlock->voters[vote->voter]->server;

    if (vote->asked || server->commands.state != LINK_UP)
        return;
    if (vote->state == VOTE_ASKED && pawl__server_up(server)) /* who waits must be able to hear */
        send_acquire(redlock, vote);
    else if (vote->state == VOTE_RETURNING || vote->state == VOTE_LEAVING)
        send_release(redlock, vote);
}

void pawl__vote_try_later(struct redlock *redlock, struct vote *vote) {
    int64_t wait = kit_back_off(AGAIN_NS, AGAIN_MOST_NS, vote->failures++);
    int64_t when = pawl__boottime() + kit_between(&redlock->wire.kit.random, wait, 2 * wait);

    pawl__kit_timer_set(&redlock->retries, &vote->timer, when, true);
    pawl__redlock_due(redlock, when);
}

/* ---- Renewals: many in one script ------------------------------------------------------------------------------------------ */

void pawl__vote_renew(struct redlock *redlock, struct vote *vote) {
    if (vote->renew_listed || vote->renew_sent || vote->state != VOTE_GRANTED)
        return;
    vote->renew_listed = true;
    TAILQ_INSERT_TAIL(&redlock->voters[vote->voter]->to_renew, vote, renewal);
}

void pawl__vote_forget_renewal(struct redlock *redlock, struct vote *vote) {
    if (vote->renew_listed)
        TAILQ_REMOVE(&redlock->voters[vote->voter]->to_renew, vote, renewal);
    vote->renew_listed = false;
}

static struct renewal *collect(struct redlock *redlock, struct voter *voter) {
    struct renewal *renewal = calloc(1, sizeof *renewal);
    struct vote *vote;

    while (renewal && renewal->count < RENEW_BATCH && (vote = TAILQ_FIRST(&voter->to_renew))) {
        pawl__vote_forget_renewal(redlock, vote);
        vote->renew_sent = true;
        renewal->votes[renewal->count++] = vote;
    }
    return renewal;
}

/* It was asked to last that long from now on, which may be less than what it was granted for. It may be so for the voter before that is
 * answered, or if it never is: it counts for no longer, and for less than those that have answered, which are rounded up. */
static void count_for(struct vote *vote, int64_t lease_ns) {
    int64_t until = pawl__boottime() + lease_ns - 2 * REDLOCK_MS;

    if (until < vote->grant.sent_at + vote->grant.lease_ns)
        vote->grant.lease_ns = until - vote->grant.sent_at;
}

/* KEYS: of each the lock and the ballot; ARGV: its owner, its lease, nothing beside, one permit. See renew.lua. */
static bool send_renewal(struct redlock *redlock, struct voter *voter, struct renewal *renewal) {
    struct voter_keys *all = calloc(renewal->count, sizeof *all);
    char leases[RENEW_BATCH][24];
    const char *argv[RENEW_BATCH * 6];
    int count = (int)renewal->count, keys = 2 * count, used = keys;
    bool ok;

    if (!all)
        return false;
    renewal->sent_at = pawl__boottime();
    for (int i = 0; i < count; i++) {
        struct vote *vote = renewal->votes[i];

        renewal->lease_ns[i] = pawl__vote_lease_ns(redlock, vote);
        count_for(vote, renewal->lease_ns[i]);
        pawl__voter_keys(redlock, vote->name, &all[i]);
        pawl__put_number(leases[i], (uint64_t)(renewal->lease_ns[i] / REDLOCK_MS));
        argv[2 * i] = all[i].lock;
        argv[2 * i + 1] = all[i].ballot;
        argv[used++] = vote->owner;
        argv[used++] = leases[i];
        argv[used++] = "";
        argv[used++] = "1";
    }
    ok = send_script(redlock, voter->index, SCRIPT_RENEW, keys, used, argv, &(struct request){.data = renewal});
    free(all);
    return ok;
}

void pawl__voter_renew_later(struct redlock *redlock, struct voter *voter) {
    voter->renew_at = pawl__boottime() + RENEW_AGAIN_NS;
    pawl__redlock_due(redlock, voter->renew_at);
}

/* They were not sent. Where the connection is there, there is no memory: it is tried again, and not as fast as we can. */
static void put_back(struct redlock *redlock, struct voter *voter, struct renewal *renewal) {
    for (size_t i = 0; renewal && i < renewal->count; i++) {
        renewal->votes[i]->renew_sent = false;
        pawl__vote_renew(redlock, renewal->votes[i]);
    }
    free(renewal);
    if (voter->server.commands.state == LINK_UP)
        pawl__voter_renew_later(redlock, voter);
}

void pawl__voter_renew(struct redlock *redlock, struct voter *voter) {
    struct renewal *renewal;

    while (!TAILQ_EMPTY(&voter->to_renew) && voter->server.commands.state == LINK_UP && pawl__boottime() >= voter->renew_at) {
        renewal = collect(redlock, voter);
        if (renewal)
            pawl__kit_note(&redlock->wire.kit, NULL, "%s: renewing %zu holds in one script", voter->where, renewal->count);
        if (!renewal || !send_renewal(redlock, voter, renewal)) {
            put_back(redlock, voter, renewal);
            return;
        }
    }
}

/* If this fails it is asked for again: the next renewal is in time for that. */
void pawl__vote_raise(struct redlock *redlock, struct vote *vote, uint64_t token, uint32_t count) {
    const struct server *server = &redlock->voters[vote->voter]->server;
    int64_t lease_ns = pawl__vote_lease_ns(redlock, vote);
    struct request request = {.data = vote, .step = (int)(lease_ns / REDLOCK_MS)};
    char lease[24], first[24], many[24];
    struct voter_keys keys;

    if (vote->state != VOTE_GRANTED || vote->renew_sent || server->commands.state != LINK_UP)
        return;
    count_for(vote, lease_ns);
    pawl__put_number(lease, (uint64_t)request.step);
    pawl__put_number(first, token);
    pawl__put_number(many, count);
    pawl__voter_keys(redlock, vote->name, &keys);
    pawl__vote_forget_renewal(redlock, vote);
    vote->renew_sent = send_script(redlock, vote->voter, SCRIPT_RAISE, 2, 6,
                                   (const char *[]){keys.lock, keys.ballot, vote->owner, lease, first, many}, &request);
}

/* ---- Tracking --------------------------------------------------------------------------------------------------------------
 *
 * Holders that are not pawl never publish. The server itself can tell of changes to a key that was read (CLIENT TRACKING), to another
 * connection than the one that read it: the inbox. It does so for what is asked right after CLIENT CACHING YES, and once.
 */

void pawl__voter_track(struct voter *voter) {
    const struct request ignored = {.script = -1}, tracking = {.script = -1, .step = REDLOCK_TRACKING};
    struct link *commands = &voter->server.commands;
    char number[24];

    voter->tracks = false;
    if (!voter->server.inbox_number)
        return;
    snprintf(number, sizeof number, "%lld", (long long)voter->server.inbox_number);
    if (!pawl__link_say(&voter->server.inbox, 2, (const char *[]){"SUBSCRIBE", "__redis__:invalidate"}, &ignored))
        return;
    /* Off first: it may be on, towards an inbox that is gone. */
    if (pawl__link_say(commands, 3, (const char *[]){"CLIENT", "TRACKING", "OFF"}, &ignored))
        pawl__link_say(commands, 6, (const char *[]){"CLIENT", "TRACKING", "ON", "REDIRECT", number, "OPTIN"}, &tracking);
}
