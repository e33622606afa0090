/* SPDX-License-Identifier: Apache-2.0
 *
 * answer.c - what the server answers about a claim, and what that makes of it.
 *
 * Every claim that waits has a timer. The first two in the queue ask again when the holder's time ends; all of them every few seconds,
 * which also tells the server that they still wait.
 *
 * What one wants may be held by processes that only keep it. They were told that it is wanted, and give it back within a round trip or
 * two. So a try waits for that, in the queue, and so does one of another kind of lock, which asks again: for 20 ms, or 8 of the round
 * trip just seen if that is more.
 */
#include <string.h>

#include "engine/kit/retry.h"
#include "engine/redis/lock/lock.h"
#include "base/error.h"

#define ALIVE_NS (2000 * REDIS_MS)
#define ALIVE_MOST_NS (10000 * REDIS_MS)
#define REFUSAL_NS (60000 * REDIS_MS)

#define PATIENCE_NS (20 * REDIS_MS)
#define PATIENCE_MOST_NS (1900 * REDIS_MS) /* the core gives a try 2 s */
#define ASK_AGAIN_NS (1 * REDIS_MS)

enum { EXACT_POSITIONS = 2, PATIENCE_TRIPS = 8 };

/* Is this the answer to what was asked last about the claim's state? */
static bool current(const struct request *request) {
    return request->claim->ask_number == request->step;
}

static void refused_for_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    pawl__kit_note(&redis->kit, &claim->kit, "%s", why->text);
    if (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING)
        claim->kit.why = *why; /* for pawl__redis_why(); later on it says why it was lost */
    pawl__rclaim_try_later(redis, claim);
}

/* An answer that says nothing about the claim: what is to be done? Returns true if it was dealt with. */
static bool without_result(struct redis *redis, const struct request *request, const redisReply *reply, struct pawl_error *why) {
    struct rclaim *claim = request->claim;

    claim->asked = false;
    if (!reply)
        return true; /* asked again once the connection is there */
    switch (pawl__reply_class(reply, why)) {
    case REPLY_OK:
        claim->failures = 0;
        return false;
    case REPLY_NOSCRIPT:
        pawl__rclaim_drive(redis, claim);
        return true;
    case REPLY_AGAIN:
        refused_for_now(redis, claim, why);
        return true;
    case REPLY_READONLY:
        pawl__link_drop(&request->server->commands, why->code, "%s", why->text);
        return true;
    case REPLY_MOVED:
        if (!pawl__cluster_moved(request->server, reply, why))
            return false;
        /* The node names itself, or the nodes send the claim back and forth: ask again later. */
        if (!pawl__rclaim_slot_moved(redis, claim) || (claim->kit.claim->try_only && rclaim_moved_lately(claim, pawl__boottime())))
            pawl__rclaim_try_later(redis, claim);
        return true;
    case REPLY_ASK: /* the slot is on its way, and the keys are at two nodes: see cluster.c */
        pawl__cluster_asked(request->server, reply);
        refused_for_now(redis, claim, why);
        return true;
    case REPLY_REFUSED:
        return false;
    }
    return false;
}

/* ---- Acquire ------------------------------------------------------------------------------------------------------------- */

/* When does a claim that waits ask again? */
static void wait_more(struct redis *redis, struct rclaim *claim, int64_t ms_left) {
    int64_t now = pawl__boottime(), alive = kit_between(&redis->kit.random, ALIVE_NS, ALIVE_NS * 5 / 4);
    int64_t ends = (ms_left + 2 + (int64_t)claim->position * 50) * REDIS_MS;

    if (ms_left >= 0 && claim->position < EXACT_POSITIONS && ends < alive) {
        pawl__rclaim_set_timer(redis, claim, now + ends, true);
        return;
    }
    alive += (int64_t)claim->position * 5 * REDIS_MS;
    pawl__rclaim_set_timer(redis, claim, now + (alive < ALIVE_MOST_NS ? alive : ALIVE_MOST_NS), false);
}

/* The same, unless it was told meanwhile that it is the first, and when to ask. */
static void wait_as_told(struct redis *redis, struct rclaim *claim, int64_t ms_left) {
    int64_t told = claim->head_until;

    claim->head_until = PAWL__NEVER;
    wait_more(redis, claim, ms_left);
    if (told < claim->timer.at)
        pawl__rclaim_set_timer(redis, claim, told, true);
}

/* A position in the queue, as far as it matters. */
static unsigned place(int64_t position) {
    return position < 0 ? 0 : position < UINT16_MAX ? (unsigned)position : UINT16_MAX;
}

/* The server will not let it in. If it has waited before, it must not stay in the queue, where it would be granted the lock for
 * nothing. `wrote`: what was asked may have put it there; or it was ended by an error, and may have written half of a hold, which might
 * never end. */
static void refuse_and_undo(struct redis *redis, struct rclaim *claim, bool wrote, const struct pawl_error *why) {
    bool undo = wrote || claim->state == RCLAIM_WAITING;

    pawl__rclaim_refuse(redis, claim, why);
    if (undo)
        pawl__send_undo(redis, claim);
}

/* All who are in its way may only keep what it wants. Is there time for them to give it back? Else its own is over. */
static bool is_patient(struct rclaim *claim, int64_t sent_at) {
    int64_t now = pawl__boottime(), trips = PATIENCE_TRIPS * (now - sent_at);
    int64_t span = trips < PATIENCE_NS ? PATIENCE_NS : trips;

    if (!claim->trying.until)
        claim->trying.until = (span < PATIENCE_MOST_NS ? now + span : sent_at + PATIENCE_MOST_NS);
    return now < claim->trying.until;
}

/* A try ends, unless it is in the queue behind those who keep it, or will be when it can hear. */
static void tried(struct redis *redis, struct rclaim *claim, const struct request *request, const redisReply *reply) {
    bool in_queue = pawl__reply_number(reply, 2, 0) >= 0;
    struct pawl_error why;

    if (pawl__reply_number(reply, 5, 0) != 1 || !is_patient(claim, request->sent_at)) {
        pawl__answer_why_refused(claim->kit.claim, 0, &why);
        refuse_and_undo(redis, claim, in_queue, &why);
        return;
    }
    claim->home->contended = true;
    pawl__rclaim_step(redis, claim, RCLAIM_QUEUED);
    pawl__kit_note(&redis->kit, &claim->kit, "kept by others, who were told");
    pawl__rclaim_set_timer(redis, claim, claim->trying.until, true);
    claim->trying.in_queue = in_queue;
    if (in_queue)
        return;
    pawl__subscription_open(redis, claim);
    if (pawl__subscription_on(claim))
        pawl__rclaim_drive(redis, claim);
}

/* Its time is over, and nobody could tell it that it is free: the answer to one more question decides. */
static bool looks_once_more(const struct rclaim *claim) {
    return !claim->trying.in_queue && pawl__server_up(&claim->home->server);
}

void pawl__rclaim_due(struct redis *redis, struct rclaim *claim) {
    struct pawl_error why;

    if (claim->state == RCLAIM_WAITING && claim->kit.claim->try_only && pawl__boottime() >= claim->trying.until &&
        !looks_once_more(claim)) {
        pawl__answer_why_refused(claim->kit.claim, 0, &why);
        refuse_and_undo(redis, claim, false, &why);
    } else {
        pawl__rclaim_drive(redis, claim);
    }
}

static void queued(struct redis *redis, struct rclaim *claim, const redisReply *reply) {
    int64_t ms_left = pawl__reply_span(reply, 1), position = pawl__reply_number(reply, 2, 0);
    bool seen_foreign;

    claim->home->contended = true;
    pawl__rclaim_step(redis, claim, RCLAIM_QUEUED);
    if (position < 0) { /* it has not queued, since it could not be told */
        pawl__kit_note(&redis->kit, &claim->kit, "held, PTTL %lld; listening", (long long)ms_left);
        claim->position = 0;
        wait_more(redis, claim, ms_left);
        pawl__subscription_open(redis, claim);
        if (pawl__subscription_on(claim))
            pawl__rclaim_drive(redis, claim);
        return;
    }
    claim->position = place(position);
    seen_foreign = claim->foreign_held;
    claim->foreign_held = pawl__reply_number(reply, 4, 0) == 1;
    pawl__kit_note(&redis->kit, &claim->kit, "queued at %u; %s holds it, PTTL %lld", claim->position,
                   claim->foreign_held ? "a foreign program" : "pawl", (long long)ms_left);
    if (claim->foreign_held && claim->position < EXACT_POSITIONS)
        pawl__listen_foreign(redis, claim);
    else if (claim->head_until == PAWL__NEVER) /* else it was told later than this was written */
        pawl__listen_no_more(redis, claim);
    wait_as_told(redis, claim, ms_left);
    /* Once more: it may have been let go since; or so that the server tracks what it reads. */
    if (claim->asks_again || (claim->home->tracks && claim->foreign_held && !seen_foreign && claim->position < EXACT_POSITIONS)) {
        claim->asks_again = false;
        pawl__rclaim_drive(redis, claim);
    }
    pawl__rclaim_want_more(redis, claim);
}

void pawl__answer_why_refused(const struct pawl__claim *claim, int64_t result, struct pawl_error *ret) {
    if (result == 0)
        pawl__fail(ret, PAWL_EHELD, "'%s' is held by another, or others wait ahead", claim->name);
    else if (result == -2)
        pawl__fail(
            ret, PAWL_ELIMIT,
            "the semaphore '%s' is in use with another limit than %u, or another program counts there: choose another name, or if "
            "nobody uses it, remove its key",
            claim->name, claim->limit);
    else if (result == -1)
        pawl__fail(ret, PAWL_EKIND, "the key of '%s' holds another kind of lock, or something that is no lock: choose another name",
                   claim->name);
    else
        pawl__fail(ret, PAWL_EFORMAT,
                   "the server's answer about '%s' is of no known form: check that the URL names a Redis server itself",
                   claim->name);
}

void pawl__rclaim_entered(struct redis *redis, struct rclaim *claim, const struct request *request, const redisReply *reply) {
    pawl__home_sample_clock(home_of(request->server), request->sent_at, pawl__reply_number(reply, 3, 0));
    claim->home->contended = claim->state == RCLAIM_WAITING;
    claim->securing.broken = pawl__reply_number(reply, 5, 0) == 1;
    if (pawl__reply_number(reply, 4, 0) == 1)
        pawl__kept_wanted(redis, claim);
    pawl__rclaim_granted(redis, claim, (uint64_t)pawl__reply_number(reply, 1, 1), (uint32_t)pawl__reply_number(reply, 2, 1),
                         request->sent_at, pawl__rclaim_lease_ns(redis, claim));
}

/* The first token, if this is the short answer: the last of them. */
static uint64_t short_grant(const struct rclaim *claim, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 1)
        return 0;
    return reply->integer < claim->want_sent ? 0 : (uint64_t)(reply->integer - claim->want_sent + 1);
}

/* It is in the queue; if it was not there before, behind all of which that was said before. So says also an answer that was overtaken by
 * another question. */
static void note_place(struct redis *redis, const struct rclaim *claim, const redisReply *reply) {
    if (reply && reply->type == REDIS_REPLY_ARRAY && pawl__reply_number(reply, 0, -1) == 0 &&
        pawl__reply_number(reply, 2, -1) >= 0 && pawl__reply_number(reply, 6, 0) != 1)
        pawl__place_take(&redis->base, claim->kit.claim);
}

static void acquire_answered(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct rclaim *claim = request->claim;
    struct pawl_error why;
    uint64_t first;
    int64_t result;

    if (rclaim_holds(claim) && reply && pawl__reply_grants(reply) && pawl__reply_number(reply, 4, 0) == 1)
        pawl__kept_wanted(redis, claim); /* it was granted by a push meanwhile */
    if (claim->state != RCLAIM_ASKING && claim->state != RCLAIM_WAITING)
        return;
    note_place(redis, claim, reply);
    if (!current(request))
        return;
    if (!without_result(redis, request, reply, &why)) {
        result = pawl__reply_number(reply, 0, -3);
        if (reply->type == REDIS_REPLY_ERROR) {
            refuse_and_undo(redis, claim, true, &why);
        } else if ((first = short_grant(claim, reply))) {
            claim->home->contended = false;
            pawl__rclaim_granted(redis, claim, first, claim->want_sent, request->sent_at, pawl__rclaim_lease_ns(redis, claim));
        } else if (pawl__reply_grants(reply)) {
            pawl__rclaim_entered(redis, claim, request, reply);
        } else if (result == 0) {
            pawl__home_sample_clock(home_of(request->server), request->sent_at, pawl__reply_number(reply, 3, 0));
            if (claim->kit.claim->try_only)
                tried(redis, claim, request, reply);
            else
                queued(redis, claim, reply);
        } else if (result == -1 && claim->state == RCLAIM_ASKING && pawl__reply_number(reply, 1, 0) == 1 &&
                   is_patient(claim, request->sent_at)) {
            pawl__rclaim_set_timer(redis, claim, pawl__boottime() + ASK_AGAIN_NS, true);
        } else {
            pawl__answer_why_refused(claim->kit.claim, result, &why);
            refuse_and_undo(redis, claim, result > 0, &why);
        }
    } else if (claim->kit.claim->try_only && reply && claim->failures) {
        bool undo = claim->state == RCLAIM_WAITING;

        pawl__rclaim_not_now(redis, claim, &why);
        if (undo)
            pawl__send_undo(redis, claim);
    }
}

/* ---- Release, downgrade -------------------------------------------------------------------------------------------------- */

/* Too few replicas had it, and it is given back: once more, a little later. */
static void undone(struct redis *redis, struct rclaim *claim) {
    struct pawl_error why;

    if (claim->kit.claim->try_only) {
        pawl__secure_failed(claim->home, claim->kit.claim->name, &why);
        pawl__rclaim_not_now(redis, claim, &why);
    } else {
        pawl__rclaim_try_later(redis, claim);
    }
}

/* The release is refused: the hold ends with its lease. A server that refuses one refuses many, so the log hears once a minute. */
static void release_refused(struct redis *redis, const struct rclaim *claim, const struct pawl_error *why) {
    struct claims *claims = claims_of(redis);

    if (pawl__boottime() < claims->refusal_due)
        return;
    claims->refusal_due = pawl__boottime() + REFUSAL_NS;
    pawl__kit_warn(&redis->kit, &claim->kit, "could not be released, and stays held until its lease ends: %s", why->text);
}

static void release_answered(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct rclaim *claim = request->claim;
    bool undoes = claim->state == RCLAIM_UNDOING;
    struct pawl_error why;

    if (current(request) && !without_result(redis, request, reply, &why)) {
        bool refused = reply->type == REDIS_REPLY_ERROR;

        if (refused && !undoes)
            release_refused(redis, claim, &why);
        pawl__rclaim_step(redis, claim, !refused && reply->integer == 0 ? RCLAIM_NOTHING : RCLAIM_RELEASED);
        if (undoes)
            undone(redis, claim);
    } else if (!reply) {
        pawl__rclaim_step(redis, claim, RCLAIM_UNANSWERED);
    }
}

static void downgrade_answered(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct rclaim *claim = request->claim;
    struct pawl_error why;

    if (current(request) && (rclaim_holds(claim) || claim->state == RCLAIM_LOST) && !without_result(redis, request, reply, &why)) {
        claim->mode = PAWL_SHARED;
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
            pawl__rclaim_step(redis, claim, RCLAIM_DOWNGRADED);
        else
            pawl__rclaim_lost(redis, claim, false, "the hold of '%s' is not on the server any more", claim->kit.claim->name);
    }
}

/* ---- More tokens --------------------------------------------------------------------------------------------------------- */

/* Any other answer, or none, means no more tokens. */
static void more_tokens_answered(const struct request *request, const redisReply *reply) {
    bool given = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0 && reply->integer <= REDIS_TOKENS_MAX;

    if (given)
        request->claim->tokens.added = (uint32_t)reply->integer;
    pawl__rclaim_tokens_step(request->claim, given ? TOKENS_GIVE : TOKENS_REFUSE);
}

void pawl__answer(struct redis *redis, const struct request *request, const redisReply *reply) {
    switch (request->what) {
    case ASKED_ACQUIRE:
        acquire_answered(redis, request, reply);
        break;
    case ASKED_RELEASE:
        release_answered(redis, request, reply);
        break;
    case ASKED_DOWNGRADE:
        downgrade_answered(redis, request, reply);
        break;
    case ASKED_MORE_TOKENS:
        more_tokens_answered(request, reply);
        break;
    }
}
