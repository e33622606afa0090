/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c - what connections have to say is pulled here, and becomes events of votes and bids.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"
#include "base/lease.h"

#define REFUSAL_NS (60000 * REDLOCK_MS)
#define CLOCK_US_MAX (INT64_MAX / 4000) /* of a clock that makes sense; and in nanoseconds there is room for it */

/* ---- What is said of a vote ----------------------------------------------------------------------------------------------- */

/* What the vote makes of it, and then its bid. */
static void step(struct redlock *redlock, struct vote *vote, enum vote_event event, enum bid_event then,
                 const struct kit_grant *grant, const struct pawl_error *why) {
    struct bid_input input = {.vote = vote, .voter = vote->voter, .why = why};
    unsigned means = vote->bid ? pawl__vote_step(vote, event) : 0;

    pawl__voter_heard(redlock, vote->voter);
    if (means & VOTE_TAKES)
        vote->grant = *grant;
    if (means & VOTE_ANSWERS)
        vote->bid->answered++;
    if (means & VOTE_NEWS)
        pawl__bid_step(redlock, vote->bid, then, &input);
}

/* The vote is no more: refused, or back at its voter. */
static void end(struct redlock *redlock, struct vote *vote, enum bid_event event, const struct pawl_error *why) {
    struct bid_input input = {.voter = vote->voter, .why = why};
    struct bid *bid = vote->bid;

    pawl__voter_heard(redlock, vote->voter);
    pawl__vote_free(redlock, vote);
    if (bid)
        pawl__bid_step(redlock, bid, event, &input);
}

static void lost(struct redlock *redlock, struct vote *vote, enum bid_event event, const char *what) {
    struct pawl_error why;

    pawl__fail(&why, PAWL_ELOST, "the hold of '%s' %s", vote->name, what);
    step(redlock, vote, VOTE_LOST, event, NULL, &why);
}

/* The lock is not free: when may asking again help? */
static void waits(struct redlock *redlock, struct vote *vote, int64_t ms_left) {
    if (vote->asks_again)
        ms_left = 0; /* the key has changed since that answer left */
    vote->asks_again = false;
    vote->registered = true;
    vote->terms.alone = vote->others_waiting == 0; /* else each is told of its turn */
    vote->again_at = ms_left < 0 ? PAWL__NEVER : ms_left == 0 ? 0 : pawl__boottime() + (ms_left + 2) * REDLOCK_MS;
    step(redlock, vote, VOTE_NO, BID_NO, NULL, NULL);
}

/* Something was let go. An answer that is on its way may have been written before that. */
static void look_again(struct redlock *redlock, struct vote *vote) {
    vote->asks_again = vote->asked;
    if (!vote->asked)
        waits(redlock, vote, 0);
}

/* ---- Answers -------------------------------------------------------------------------------------------------------------- */

/* A request that left at `local` was worked on when the server's clock showed `us`. */
static void set_clock(struct voter *voter, int64_t local, int64_t us) {
    if (us <= 0 || us > CLOCK_US_MAX)
        return;
    voter->clock_number = voter->server.commands.number;
    voter->clock_local = local;
    voter->clock_us = us;
}

/* An answer that says nothing about the vote: what is to be done? True: that is done. */
static bool without_result(struct redlock *redlock, struct vote *vote, const redisReply *reply, struct pawl_error *why) {
    vote->asked = false;
    if (!reply) {
        vote->may_be_broken = true;
        return true; /* asked again once the connection is there */
    }
    switch (pawl__reply_class(reply, why)) {
    case REPLY_OK:
        vote->failures = 0;
        return false;
    case REPLY_NOSCRIPT:
        pawl__vote_send(redlock, vote);
        return true;
    case REPLY_AGAIN:
    case REPLY_ASK:
        pawl__kit_note(&redlock->wire.kit, NULL, "%s: '%s' %s", redlock->voters[vote->voter]->where, vote->name, why->text);
        pawl__vote_try_later(redlock, vote);
        return true;
    case REPLY_READONLY:
        pawl__link_drop(&redlock->voters[vote->voter]->server.commands, why->code, "%s", why->text);
        return true;
    case REPLY_MOVED:
    case REPLY_REFUSED:
        return false;
    }
    return false;
}

static void granted(struct redlock *redlock, struct vote *vote, const struct request *request, uint64_t token, uint32_t count,
                    int64_t lease_ns) {
    struct kit_grant grant = {token, count, request->sent_at, lease_ns};
    struct bid *bid = vote->bid;
    unsigned voter = vote->voter;

    vote->held_since = request->sent_at;
    vote->seen_at = pawl__boottime();
    pawl__kit_timer_end(&redlock->retries, &vote->timer);
    step(redlock, vote, VOTE_YES, BID_YES, &grant, NULL);
    /* It may have been broken meanwhile, or its limit changed. */
    if (bid && bid->votes[voter] == vote && (vote->may_be_broken || atomic_load(&bid->kit.claim->hold_until)))
        pawl__vote_renew(redlock, vote);
}

/* Not granted: 0, -1, or something strange. */
static void not_granted(struct redlock *redlock, struct vote *vote, const redisReply *reply) {
    int64_t result = pawl__reply_number(reply, 0, -3), others = pawl__reply_number(reply, 2, 0);
    struct pawl_error why;

    if (result == 0 && !vote->terms.try_only) {
        vote->others_waiting = others < 0 ? 0 : others < UINT16_MAX ? (unsigned)others : UINT16_MAX;
        waits(redlock, vote, pawl__reply_span(reply, 1));
        return;
    }
    if (result == 0)
        pawl__fail(&why, PAWL_EHELD, "'%s' is held by another, or others wait ahead", vote->name);
    else if (result == -1)
        pawl__fail(&why, PAWL_EKIND,
                   "the key of '%s' holds another kind of lock, or something that is no lock: choose another name", vote->name);
    else
        pawl__fail(&why, PAWL_EFORMAT,
                   "the server's answer about '%s' is of no known form: check that the URL names a Redis server itself",
                   vote->name);
    end(redlock, vote, BID_REFUSED, &why);
}

static void acquire_answered(struct redlock *redlock, const struct request *request, const redisReply *reply) {
    struct vote *vote = request->data;
    struct pawl_error why;

    if (vote->number != request->step || vote->state != VOTE_ASKED)
        return;
    if (without_result(redlock, vote, reply, &why)) {
        if (vote->terms.try_only && reply && vote->timer.at != PAWL__NEVER)
            end(redlock, vote, BID_REFUSED, &why);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        end(redlock, vote, BID_REFUSED, &why);
        return;
    }
    if (reply->type == REDIS_REPLY_ARRAY)
        set_clock(redlock->voters[vote->voter], request->sent_at, pawl__reply_number(reply, 3, 0));
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= 1 && vote->terms.floor) /* it agrees to what was proposed */
        granted(redlock, vote, request, vote->terms.floor, vote->terms.want, vote->asked_ns);
    else if (pawl__reply_grants(reply))
        granted(redlock, vote, request, (uint64_t)pawl__reply_number(reply, 1, 1), (uint32_t)pawl__reply_number(reply, 2, 1),
                vote->asked_ns);
    else
        not_granted(redlock, vote, reply);
}

/* The server will not let us; then the lease ends it. Where it refuses one it refuses many: the log need not hear of each. */
static void release_refused(struct redlock *redlock, const struct vote *vote, const struct pawl_error *why) {
    if (pawl__boottime() < redlock->refusal_due)
        return;
    redlock->refusal_due = pawl__boottime() + REFUSAL_NS;
    pawl__kit_warn(&redlock->wire.kit, NULL, "'%s' could not be released, and stays held until its lease ends: %s", vote->name,
                   why->text);
}

static void release_answered(struct redlock *redlock, const struct request *request, const redisReply *reply) {
    struct vote *vote = request->data;
    struct pawl_error why;
    bool refused;

    if (!reply)
        pawl__vote_step(vote, VOTE_UNANSWERED);
    if (vote->number != request->step || without_result(redlock, vote, reply, &why))
        return;
    refused = reply->type == REDIS_REPLY_ERROR;
    if (refused)
        release_refused(redlock, vote, &why);
    else if (reply->integer == 2)
        pawl__bid_yield(redlock, vote->name_hash);
    if (vote->bid)
        vote->bid->lost_votes += !refused && reply->integer == 0 && vote->state == VOTE_RETURNING;
    end(redlock, vote, BID_RETURNED, NULL);
}

#define BROKEN_WHY "was broken by an operator: stop and release it"

/* The voter has renewed it, or not: it is not its owner's any more. `result`: see renew.lua. */
static void renewed(struct redlock *redlock, struct vote *vote, const struct kit_grant *grant, int64_t result) {
    bool held = result == 1;

    vote->renew_sent = false;
    if (vote->state != VOTE_GRANTED)
        return;
    if (held && vote->bid && grant->sent_at < vote->bid->renewing_since) /* it was on its way when the core asked */
        pawl__vote_renew(redlock, vote);
    if (held)
        step(redlock, vote, VOTE_RENEWED, BID_RENEWED, grant, NULL);
    else if (result == -2)
        lost(redlock, vote, BID_BROKEN, BROKEN_WHY);
    else
        lost(redlock, vote, BID_FORGOTTEN, "is not on the server any more: its key expired, or was deleted");
}

static void renewal_answered(struct redlock *redlock, const struct request *request, const redisReply *reply) {
    struct renewal *renewal = request->data;
    struct voter *voter = voter_of(request->server);
    struct pawl_error why;
    enum reply_class class = reply ? pawl__reply_class(reply, &why) : REPLY_AGAIN;

    if (class == REPLY_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == renewal->count) {
        for (size_t i = 0; i < renewal->count; i++) {
            struct kit_grant grant = renewal->votes[i]->grant;

            grant.sent_at = renewal->sent_at;
            grant.lease_ns = renewal->lease_ns[i];
            renewed(redlock, renewal->votes[i], &grant, pawl__reply_number(reply, i, 0));
        }
    } else {
        if (reply)
            pawl__kit_note(&redlock->wire.kit, NULL, "%s: renewal of %zu holds: %s", voter->where, renewal->count,
                           class == REPLY_OK ? "a strange answer" : why.text);
        for (size_t i = 0; i < renewal->count; i++) {
            renewal->votes[i]->renew_sent = false;
            pawl__vote_renew(redlock, renewal->votes[i]);
        }
        voter->renew_at = 0;
        if (class != REPLY_NOSCRIPT && reply) /* else now, below */
            pawl__voter_renew_later(redlock, voter);
        if (class == REPLY_READONLY)
            pawl__link_drop(&voter->server.commands, why.code, "%s", why.text);
        pawl__voter_renew(redlock, voter);
    }
    free(renewal);
}

static void raise_answered(struct redlock *redlock, const struct request *request, const redisReply *reply) {
    struct vote *vote = request->data;
    struct kit_grant grant = vote->grant;
    struct pawl_error why;
    enum reply_class class = reply ? pawl__reply_class(reply, &why) : REPLY_AGAIN;
    bool held = class == REPLY_OK && pawl__reply_grants(reply), broken = held && pawl__reply_number(reply, 3, 0) == 1;

    vote->renew_sent = false;
    if (class != REPLY_OK && class != REPLY_NOSCRIPT)
        return;
    if (held)
        grant = (struct kit_grant){(uint64_t)pawl__reply_number(reply, 1, 0), (uint32_t)pawl__reply_number(reply, 2, 1),
                                   request->sent_at, request->step * REDLOCK_MS};
    /* NOSCRIPT: nothing new, so it is asked for again, with the script's body. */
    renewed(redlock, vote, &grant, broken ? -2 : held || class == REPLY_NOSCRIPT);
}

static void call_answered(struct redlock *redlock, const struct request *request, redisReply **reply) {
    struct redlock_call *call = request->data;

    if (call->abandoned) {
        free(call);
        return;
    }
    call->reply = *reply;
    *reply = NULL;
    call->done = true;
    pthread_cond_broadcast(&redlock->called);
    if (redlock->reader.taken)
        pawl__redlock_wake_reader(redlock);
}

static void take_answer(struct redlock *redlock, const struct request *request, redisReply *reply) {
    if (request->step == REDLOCK_TRACKING && request->script < 0 && !request->data)
        voter_of(request->server)->tracks = reply && reply->type == REDIS_REPLY_STATUS;
    else if (!request->data)
        ; /* nobody wants to know */
    else if (request->script == SCRIPT_ACQUIRE)
        acquire_answered(redlock, request, reply);
    else if (request->script == SCRIPT_RELEASE)
        release_answered(redlock, request, reply);
    else if (request->script == SCRIPT_RENEW)
        renewal_answered(redlock, request, reply);
    else if (request->script == SCRIPT_RAISE)
        raise_answered(redlock, request, reply);
    else
        call_answered(redlock, request, &reply);
    freeReplyObject(reply);
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

/* w NUMBER: it is the turn of vote NUMBER. b NUMBER NOW: its hold is broken; NOW 1: and gone already. */
static void take_message(struct redlock *redlock, const struct voter *voter, const char *text) {
    char *end;
    unsigned long long id = text[0] ? strtoull(text + 1, &end, 10) : 0;
    struct vote *vote;

    TAILQ_FOREACH(vote, &redlock->votes, all) {
        if (vote->terms.id == id && vote->voter == voter->index)
            break;
    }
    if (!vote || !id)
        return;
    if (text[0] == 'w' && (vote->state == VOTE_WAITS || vote->state == VOTE_ASKED))
        look_again(redlock, vote);
    else if (text[0] == 'b' && vote->state == VOTE_GRANTED)
        lost(redlock, vote, strtol(end, NULL, 10) == 1 ? BID_FREED : BID_BROKEN, BROKEN_WHY);
    else if (text[0] == 'b' && vote->state == VOTE_ASKED)
        vote->may_be_broken = true;
}

static bool names_key(const redisReply *keys, const char *lock) {
    for (size_t i = 0; keys->type == REDIS_REPLY_ARRAY && i < keys->elements; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING && strcmp(keys->element[i]->str, lock) == 0)
            return true;
    return false;
}

/* Keys have changed: those who wait for them look again. */
static void take_changes(struct redlock *redlock, const struct voter *voter, const redisReply *changed) {
    struct vote *vote, *next;
    struct voter_keys keys;

    for (vote = TAILQ_FIRST(&redlock->votes); vote; vote = next) {
        next = TAILQ_NEXT(vote, all);
        if (vote->voter != voter->index || !vote->terms.alone || (vote->state != VOTE_WAITS && vote->state != VOTE_ASKED))
            continue;
        pawl__voter_keys(redlock, vote->name, &keys);
        if (!names_key(changed, keys.lock))
            continue;
        pawl__kit_note(&redlock->wire.kit, NULL, "%s: '%s' the key has changed", voter->where, vote->name);
        look_again(redlock, vote);
    }
}

static void take_push(struct redlock *redlock, const struct voter *voter, const redisReply *reply) {
    const redisReply *channel, *text;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3)
        return;
    channel = reply->element[1];
    text = reply->element[2];
    if (channel->type != REDIS_REPLY_STRING)
        return;
    if (strcmp(channel->str, "__redis__:invalidate") == 0)
        take_changes(redlock, voter, text);
    else if (text->type == REDIS_REPLY_STRING && strncmp(channel->str, "pawl:inbox:", 11) == 0 &&
             strcmp(channel->str + 11, redlock->wire.uuid) == 0)
        take_message(redlock, voter, text->str);
}

/* ---- Up and down ---------------------------------------------------------------------------------------------------------- */

/* ?retry= is used up: refuse those who wait. */
static void give_up(struct redlock *redlock, struct voter *voter) {
    unsigned tries = redlock->wire.options.retry.tries;
    struct vote *vote, *next;
    struct pawl_error why;

    if (!tries || pawl__server_failures(&voter->server) < tries)
        return;
    pawl__fail(&why, pawl__server_errorcode(&voter->server), "%s (given up after %u tries)", pawl__server_errortext(&voter->server),
               tries);
    for (vote = TAILQ_FIRST(&redlock->votes); vote; vote = next) {
        next = TAILQ_NEXT(vote, all);
        if (vote->voter == voter->index && !vote->asked && (vote->state == VOTE_ASKED || vote->state == VOTE_WAITS))
            end(redlock, vote, BID_REFUSED, &why);
    }
}

/* The states of its connections have changed. Who counts the votes looks at who is there in serve(). */
static void changed(struct redlock *redlock, struct voter *voter) {
    bool up = pawl__server_up(&voter->server);
    struct vote *vote;

    redlock->wire.kit.wakes = true;
    if (up && !pawl__server_is_one(&voter->server))
        return;
    pthread_cond_broadcast(&redlock->called);
    if (up)
        pawl__voter_track(voter);
    else
        give_up(redlock, voter);
    if (voter->server.commands.state != LINK_UP)
        return;
    TAILQ_FOREACH(vote, &redlock->votes, all) {
        if (vote->voter == voter->index)
            pawl__vote_send(redlock, vote);
    }
    pawl__voter_renew(redlock, voter);
}

static void take_up(struct redlock *redlock, struct link *link) {
    struct voter *voter = voter_of(link->server);
    struct vote *vote;

    /* It may be another server than before, or have forgotten; or have told us of a break while we were deaf. */
    TAILQ_FOREACH(vote, &redlock->votes, all) {
        if (vote->voter == voter->index)
            pawl__vote_renew(redlock, vote);
    }
    changed(redlock, voter);
}

/* A voter's clock is looked at before anything is asked of it. The greeting left after the connection was begun. */
static void take_greeting(const struct link *link, const struct request *request, const redisReply *reply) {
    char time[32];

    if (!pawl__server_said(link->server, request->step, reply))
        return;
    pawl__reply_info(reply->str, "server_time_usec", time, sizeof time);
    set_clock(voter_of(link->server), link->started_at, strtoll(time, NULL, 10));
    pawl__server_check(link->server);
}

void pawl__redlock_events_take(struct redlock *redlock) {
    struct wire_event event;

    while (pawl__wire_next(&redlock->wire, &event)) {
        if (event.kind == WIRE_REPLY) {
            take_answer(redlock, event.request, event.reply);
            event.reply = NULL;
        } else if (event.kind == WIRE_GREETING) {
            take_greeting(event.link, event.request, event.reply);
        } else if (event.kind == WIRE_PUSH) {
            take_push(redlock, voter_of(event.link->server), event.reply);
        } else if (event.kind == WIRE_UP) {
            take_up(redlock, event.link);
        } else {
            changed(redlock, voter_of(event.link->server));
        }
        freeReplyObject(event.reply);
        free(event.request);
    }
}
