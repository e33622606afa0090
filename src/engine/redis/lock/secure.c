/* SPDX-License-Identifier: Apache-2.0
 *
 * secure.c - ?replicas=N: a grant or a renewal counts once N replicas have it.
 *
 *     HOLDING's place is taken by     SECURING --(N have it)--> HOLDING
 *                                         | too few in time
 *                                         v
 *                                     UNDOING --(released)--> ASKING, a little later; a try ends
 *                                             --(no answer)-> ASKING, by another name: that release may come late
 *
 * WAIT answers how many replicas have what its own connection wrote, and makes everything behind it on that connection wait. So there
 * is a connection for it alone, `replicas`: a write of its own, then WAIT. All that was answered on `commands` before that write left
 * lies before it in what replicas are sent. One round is under way at a time; what comes meanwhile goes together in the next.
 *
 * The two connections must lead to one server, or the write proves nothing: server.c compares what the server says of itself. When one of
 * them is lost nothing is known: a grant is asked for again (its owner has it, or not), a renewal is made again. So is what was granted
 * while that was down, when it is up.
 *
 * Where too few replicas have a renewal, the hold is not renewed: it is renewed again and again, and is lost at the end of its lease.
 *
 * A caller that wrote something beside a lock waits for a round, too, and is told what came of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"
#include "base/error.h"

static void secured(struct redis *redis, struct rclaim *claim) {
    pawl__rclaim_leave_round(claim);
    if (claim->state == RCLAIM_SECURING)
        pawl__rclaim_hold(redis, claim);
    else
        pawl__renew_done(redis, claim, claim->securing.sent_at, claim->securing.lease_ns);
}

/* Too few replicas have it. */
static void fell_short(struct redis *redis, struct rclaim *claim) {
    pawl__rclaim_leave_round(claim);
    pawl__kept_unheard(claim);
    if (!pawl__rclaim_step(redis, claim, RCLAIM_SHORT))
        pawl__renew_put_back(claim);
}

/* It is not known how many have it. */
static void unknown(struct redis *redis, struct rclaim *claim) {
    pawl__rclaim_leave_round(claim);
    pawl__kept_unheard(claim);
    if (!pawl__rclaim_step(redis, claim, RCLAIM_UNSURE))
        pawl__renew_put_back(claim);
}

typedef void end_fn(struct redis *redis, struct rclaim *claim);

void pawl__secure_leave(struct home *home, struct secure_call *call) {
    TAILQ_REMOVE(&home->secure.calls, call, entry);
    call->done = true;
}

static void end_calls(struct home *home, enum secured result) {
    struct secure_call *call, *next;

    for (call = TAILQ_FIRST(&home->secure.calls); call; call = next) {
        next = TAILQ_NEXT(call, entry);
        if (!call->in_round)
            continue;
        call->result = result;
        pawl__secure_leave(home, call);
        pawl__home_called(home);
    }
}

static void end_round(struct home *home, end_fn *end) {
    struct rclaim *claim;

    home->secure.open = false;
    while ((claim = TAILQ_FIRST(&home->secure.asked)))
        end(home->server.redis, claim);
    end_calls(home, end == secured ? SECURE_DONE : end == fell_short ? SECURE_SHORT : SECURE_UNKNOWN);
}

/* Is this of the round that is under way? That of one whose claims have been sent elsewhere may still be answered. */
static bool is_current(const struct request *request) {
    return home_of(request->server)->secure.open && request->step == home_of(request->server)->secure.number;
}

void pawl__secure_wrote(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct home *home = home_of(request->server);
    struct pawl_error why;

    if (is_current(request))
        home->secure.wrote = reply && pawl__reply_class(reply, &why) == REPLY_OK;
    if (reply && pawl__reply_class(reply, &why) != REPLY_OK)
        pawl__kit_note(&redis->kit, NULL, "replicas: nothing was written: %s", why.text);
    if (reply && pawl__reply_class(reply, &why) == REPLY_READONLY) {
        pawl__link_drop(&home->server.commands, why.code, "%s", why.text);
        pawl__link_drop(&home->server.replicas, why.code, "%s", why.text);
    }
}

void pawl__secure_counted(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct home *home = home_of(request->server);
    unsigned wanted = redis->options.replicas, have;

    if (!is_current(request))
        return;
    if (!reply) {
        end_round(home, unknown);
        return;
    }
    have = reply->type == REDIS_REPLY_INTEGER && home->secure.wrote ? (unsigned)reply->integer : 0;
    pawl__kit_note(&redis->kit, NULL, "WAIT: %u of %u replicas have it", have, wanted);
    home->secure.found_short = have < wanted;
    home->secure.found = have;
    home->server.facts.replicas = have > home->server.facts.replicas ? have : home->server.facts.replicas;
    home->renew_at = have < wanted ? pawl__boottime() + 100 * REDIS_MS : home->renew_at;
    end_round(home, have < wanted ? fell_short : secured);
}

/* Where the server has said that it has too few, one need not wait in order to know why nothing is granted. */
static void expect_shortfall(struct home *home) {
    if (!home->server.facts.known || home->server.facts.replicas >= home->server.redis->options.replicas)
        return;
    home->secure.found_short = true;
    home->secure.found = home->server.facts.replicas;
}

/* A write, in the slot of the first of them, and WAIT. */
void pawl__secure_begin(struct home *home) {
    struct redis *redis = home->server.redis;
    struct request write = {.what = ASKED_WITNESS, .script = -1, .step = home->secure.number + 1}, wait = write;
    struct rclaim *claim = TAILQ_FIRST(&home->secure.waiting);
    struct secure_call *call = TAILQ_FIRST(&home->secure.calls);
    struct redis_keys keys;
    char replicas[16], patience[24];

    if (home->secure.open || (!claim && !call) || home->server.replicas.state != LINK_UP)
        return;
    pawl__redis_keys(redis, claim ? claim->kit.claim->name : call->name, PAWL_MUTEX, &keys);
    snprintf(replicas, sizeof replicas, "%u", redis->options.replicas);
    snprintf(patience, sizeof patience, "%lld", (long long)(redis->options.command_ns / REDIS_MS * 2 / 3));
    TAILQ_FOREACH(claim, &home->secure.waiting, securing.entry) {
        claim->securing.in_round = true;
    }
    TAILQ_CONCAT(&home->secure.asked, &home->secure.waiting, securing.entry);
    TAILQ_FOREACH(call, &home->secure.calls, entry) {
        call->in_round = true;
    }
    wait.what = ASKED_COUNT;
    home->secure.open = true;
    home->secure.number++;
    home->secure.wrote = false;
    expect_shortfall(home);
    if (pawl__link_say(&home->server.replicas, 5, (const char *[]){"SET", keys.witness, redis->uuid, "PX", "1000"}, &write))
        pawl__link_say(&home->server.replicas, 3, (const char *[]){"WAIT", replicas, patience}, &wait);
}

void pawl__secure_anew(struct home *home) {
    struct secure_call *call;
    struct rclaim *claim;

    home->secure.open = false;
    TAILQ_CONCAT(&home->secure.waiting, &home->secure.asked, securing.entry);
    TAILQ_FOREACH(claim, &home->secure.waiting, securing.entry) {
        claim->securing.in_round = false;
    }
    while ((claim = TAILQ_FIRST(&home->secure.waiting)))
        unknown(home->server.redis, claim);
    TAILQ_FOREACH(call, &home->secure.calls, entry) {
        call->in_round = true;
    }
    end_calls(home, SECURE_UNKNOWN);
}

void pawl__secure_call(struct home *home, struct secure_call *call) {
    TAILQ_INSERT_TAIL(&home->secure.calls, call, entry);
    pawl__secure_begin(home);
}

void pawl__secure_failed(const struct home *home, const char *name, struct pawl_error *ret) {
    pawl__fail(ret, PAWL_EREPLICAS,
               "%u of the %u replicas that the URL asks for had '%s' within %lld ms: look at the replicas, or ask for fewer",
               home->secure.found, home->server.redis->options.replicas, name,
               (long long)(home->server.redis->options.command_ns / REDIS_MS * 2 / 3));
}
