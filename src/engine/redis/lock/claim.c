/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - the life of a claim on the server: acquire, wait, downgrade, release. lock.h draws its states.
 *
 * Invariants
 *   - A claim's owner, `<uuid>:<number>`, is used for that claim alone: whoever finds it in the lock's key is this claim. So acquire and
 *     release may be run again after a lost answer, and do the same.
 *   - `turn` numbers what was asked about a claim's state. Only the answer to the last counts: an answer to acquire that comes after the
 *     withdrawal was sent says nothing any more.
 *   - Every claim that waits has a timer. The first two in the queue ask again when the holder's time ends; all of them every few seconds,
 *     which also tells the server that they still wait.
 *   - A claim is gone when its release was answered; the server answers in order, so nothing about it is on its way then. In a cluster a
 *     node that had it before may owe answers still: pawl__claim_detach cuts them off.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kit/retry.h"
#include "engine/redis/lock/lock.h"
#include "base/error.h"
#include "base/lease.h"

#define ALIVE_NS (2000 * REDIS_MS)
#define ALIVE_MOST_NS (10000 * REDIS_MS)
#define AGAIN_NS (50 * REDIS_MS)
#define AGAIN_MOST_NS (1600 * REDIS_MS)
#define REFUSAL_NS (60000 * REDIS_MS)

enum { EXACT_POSITIONS = 2 };

/* ---- Little things -------------------------------------------------------------------------------------------------------- */

static struct rclaim_list *bucket_of(struct redis *redis, uint64_t id) {
    return &claims_of(redis)->buckets[(id ^ id >> 40) % REDIS_BUCKETS];
}

struct rclaim *pawl__claim_find(struct redis *redis, uint64_t id) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, bucket_of(redis, id), bucket) {
        if (claim->kit.claim->id[1] == id)
            return claim;
    }
    return NULL;
}

static void insert(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);

    TAILQ_INSERT_TAIL(&claims->all, claim, all);
    TAILQ_INSERT_TAIL(bucket_of(redis, claim->kit.claim->id[1]), claim, bucket);
    claim->home->server.users++;
    redis->claim_count++;
    claims->adopted_count += claim->kit.adopted;
}

/* The claim is gone from here. */
static void forget(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);

    pawl__push_unlisten(redis, claim);
    pawl__ear_leave(redis, claim);
    pawl__claim_detach(redis, claim);
    pawl__secure_forget(claim);
    TAILQ_REMOVE(&claims->all, claim, all);
    TAILQ_REMOVE(bucket_of(redis, claim->kit.claim->id[1]), claim, bucket);
    pawl__renew_forget(claim);
    pawl__kit_untell(&redis->kit, &claim->kit);
    pawl__kit_timer_end(&redis->kit.timers, &claim->timer);
    claim->home->server.users--;
    redis->claim_count--;
    claims->adopted_count -= claim->kit.adopted;
}

bool pawl__claim_step(struct redis *redis, struct rclaim *claim, enum rclaim_event event) {
    struct rclaim_move move;

    if (!pawl__claim_moves(claim->state, event, &move))
        return false;
    claim->state = (enum rclaim_state)move.next;
    if (move.actions & RCLAIM_ANEW)
        claim->held_since = 0;
    if (move.actions & RCLAIM_HEARS)
        pawl__ear_open(redis, claim);
    if (move.actions & RCLAIM_WAS_LOST)
        claim->kit.was_lost = true;
    if (move.actions & RCLAIM_ENDS)
        forget(redis, claim);
    if (move.news)
        pawl__kit_tell(&redis->kit, &claim->kit, move.news);
    if (move.actions & RCLAIM_ASKS) {
        claim->asked = false;
        pawl__claim_drive(redis, claim);
    }
    return true;
}

void pawl__claim_set_timer(struct redis *redis, struct rclaim *claim, int64_t when, bool exact) {
    pawl__kit_timer_set(&redis->kit.timers, &claim->timer, when, exact);
    pawl__redis_due(redis, when);
}

void pawl__claim_try_later(struct redis *redis, struct rclaim *claim) {
    int64_t wait = kit_back_off(AGAIN_NS, AGAIN_MOST_NS, claim->failures++);

    pawl__claim_set_timer(redis, claim, pawl__boottime() + kit_between(&redis->kit.random, wait, 2 * wait), true);
}

void pawl__claim_lost(struct redis *redis, struct rclaim *claim, bool broken, const char *format, ...) {
    va_list args;

    if (!rclaim_holds(claim))
        return;
    claim->kit.why.code = PAWL_ELOST;
    va_start(args, format);
    vsnprintf(claim->kit.why.text, sizeof claim->kit.why.text, format, args);
    va_end(args);
    pawl__claim_step(redis, claim, broken ? RCLAIM_BROKEN : RCLAIM_NOT_MINE);
}

void pawl__claim_refuse(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    claim->kit.why = *why;
    pawl__claim_step(redis, claim, RCLAIM_REFUSED);
}

void pawl__claim_not_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    struct pawl_error reason = *why;

    if (claim->in_set)
        reason.code = PAWL_EUNSUPPORTED;
    pawl__claim_refuse(redis, claim, &reason);
}

void pawl__claim_granted(struct redis *redis, struct rclaim *claim, uint64_t token, uint32_t count, int64_t sent_at,
                         int64_t lease_ns) {
    pawl__push_unlisten(redis, claim);
    claim->timer.at = PAWL__NEVER;
    claim->kit.grant.token = token;
    claim->kit.grant.token_count = count;
    claim->kit.grant.sent_at = claim->held_since = sent_at;
    claim->kit.grant.lease_ns = lease_ns;
    if (redis->options.replicas) {
        pawl__claim_step(redis, claim, RCLAIM_UNSECURED);
        pawl__secure(claim, sent_at, lease_ns);
    } else {
        pawl__claim_hold(redis, claim);
    }
}

/* It was granted, and that is over: the answer lay in its socket while we were stopped. Perhaps it is ours still, or else it queues. */
static bool came_too_late(struct redis *redis, struct rclaim *claim) {
    if (is_voter(redis) || pawl__boottime() < pawl__lease_assured_until(claim->kit.grant.sent_at, claim->kit.grant.lease_ns))
        return false;
    pawl__kit_note(&redis->kit, &claim->kit, "granted, but its lease is over: asking again");
    return pawl__claim_step(redis, claim, RCLAIM_TOO_LATE);
}

void pawl__claim_hold(struct redis *redis, struct rclaim *claim) {
    if (came_too_late(redis, claim))
        return;
    claim->failures = 0;
    pawl__claim_step(redis, claim, RCLAIM_GRANTED);
}

int64_t pawl__claim_lease_ns(const struct redis *redis, const struct rclaim *claim) {
    int64_t left = claim->kit.claim->max_hold_ns;

    if (!left)
        return redis->options.lease_ns;
    if (claim->held_since)
        left = pawl__time_add(claim->held_since, left) - pawl__boottime();
    if (left >= redis->options.lease_ns)
        return redis->options.lease_ns;
    return left < REDIS_MS ? REDIS_MS : (left + REDIS_MS - 1) / REDIS_MS * REDIS_MS; /* the server counts in ms */
}

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

/* Was the server ever asked about it? If not there is nothing to undo. */
static bool never_sent(const struct rclaim *claim) {
    return claim->state == RCLAIM_ASKING && claim->turn == 0;
}

static void fill_call(const struct redis *redis, const struct rclaim *claim, struct redis_call *call) {
    pawl__call_fill(redis, claim->home, claim->kit.claim->name, claim->kit.claim->kind, claim->owner, call);
    pawl__put_number(call->lease, (uint64_t)(pawl__claim_lease_ns(redis, claim) / REDIS_MS));
}

static void send_call(struct rclaim *claim, int script, int extra, struct redis_call *call, redis_reply_fn *answered) {
    struct request request = {.answered = answered, .claim = claim, .step = ++claim->turn};
    int keys = REDIS_CALL_KEYS, argc = REDIS_CALL_COMMON + extra;

    if (is_voter(claim->home->server.redis))
        keys = pawl__ballot_call(claim, script, call, &argc);
    /* What could not even be written is asked once the connection is there again, as is all that was not answered. */
    claim->asked = pawl__script_send(&claim->home->server, script, keys, argc, call->argv, NULL, &request);
}

/* Is this the answer to what was asked last about the claim's state? */
static bool current(const struct request *request) {
    return request->claim->turn == request->step;
}

static void refused_for_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    pawl__kit_note(&redis->kit, &claim->kit, "%s", why->text);
    if (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING)
        claim->kit.why = *why; /* for hindered(); later on it says why it was lost */
    pawl__claim_try_later(redis, claim);
}

/* An answer that says nothing about the claim: what is to be done? Returns true if it was dealt with. */
static bool without_result(struct redis *redis, struct request *request, const redisReply *reply, struct pawl_error *why) {
    struct rclaim *claim = request->claim;

    claim->asked = false;
    if (!reply)
        return true; /* asked again once the connection is there */
    switch (pawl__reply_class(reply, why)) {
    case REPLY_OK:
        claim->failures = 0;
        return false;
    case REPLY_NOSCRIPT:
        pawl__claim_drive(redis, claim);
        return true;
    case REPLY_AGAIN:
        refused_for_now(redis, claim, why);
        return true;
    case REPLY_READONLY:
        pawl__link_drop(&request->server->commands, why->code, "%s", why->text);
        return true;
    case REPLY_MOVED:
        if (!pawl__claims_moved(redis, request->server, reply))
            return false;
        if (&claim->home->server == request->server) /* it is sent to where it was */
            pawl__claim_try_later(redis, claim);
        return true;
    case REPLY_ASK: /* not all of its keys are there, nor here: see cluster.c */
        pawl__cluster_asked(request->server, reply);
        refused_for_now(redis, claim, why);
        return true;
    case REPLY_REFUSED:
        return false;
    }
    return false;
}

/* ---- Acquire -------------------------------------------------------------------------------------------------------------- */

/* What a claim wants, and for whom: `MODE PERMITS SINCE RECORD`, as it stands in the queue behind its owner. */
static void put_wish(const struct rclaim *claim, char *to) {
    *to++ = claim->mode == PAWL_SHARED ? 's' : claim->mode == PAWL_PERMITS ? 'p' : 'x';
    *to++ = ' ';
    to = stpcpy(pawl__put_number(to, claim->kit.claim->permits), " ");
    strcpy(stpcpy(stpcpy(to, claim->since), " "), claims_of(claim->home->server.redis)->record);
}

static void acquire_answered(struct redis *redis, struct request *request, redisReply *reply);

/* Who queues must be able to hear. */
static bool may_queue(struct redis *redis, struct rclaim *claim) {
    if (!in_cluster(redis))
        return true;
    pawl__ear_find(redis, claim);
    return pawl__ear_on(claim);
}

void pawl__claim_fill_acquire(struct redis *redis, struct rclaim *claim, struct redis_call *call) {
    const struct pawl__claim *seam = claim->kit.claim;
    uint32_t want = atomic_load_explicit(&seam->token_want, memory_order_relaxed);

    fill_call(redis, claim, call);
    claim->want_sent = want ? want : 1;
    pawl__put_number(call->want, claim->want_sent);
    call->wish = stpcpy(stpcpy(stpcpy(call->record, "0 "), call->want), " ");
    put_wish(claim, call->wish);
    call->asks = seam->try_only || !may_queue(redis, claim) ? "1" : claim->vote.registered ? "2" : "0";
    strcpy(stpcpy(pawl__put_number(call->extra, seam->limit), " "), call->asks);
    call->argv[REDIS_CALL_COMMON] = call->lease;
    call->argv[REDIS_CALL_COMMON + 1] = call->record;
    call->argv[REDIS_CALL_COMMON + 2] = call->want;
}

static void send_acquire(struct redis *redis, struct rclaim *claim) {
    enum pawl_kind kind = claim->kit.claim->kind;
    struct redis_call call;

    pawl__claim_fill_acquire(redis, claim, &call);
    pawl__push_track_next(claim);
    /* One token is what is wanted if nothing is said. */
    send_call(claim, SCRIPT_ACQUIRE + (int)kind, REDIS_ACQUIRE_ARGS - REDIS_CALL_COMMON - (claim->want_sent == 1), &call,
              acquire_answered);
}

void pawl__claim_say_waits(struct redis *redis, struct rclaim *claim, int64_t ms_left) {
    if (claim->asks_again)
        ms_left = 0; /* the key has changed since that answer left */
    claim->asks_again = false;
    pawl__claim_step(redis, claim, RCLAIM_QUEUED);
    claim->vote.registered = true;
    /* So that the next time it is tracked; where others wait, each is told of its turn. */
    claim->foreign_held = claim->position == 0;
    claim->kit.again_at = ms_left < 0 ? PAWL__NEVER : ms_left == 0 ? 0 : pawl__boottime() + (ms_left + 2) * REDIS_MS;
    pawl__kit_tell(&redis->kit, &claim->kit, KIT_WAITS);
}

/* When does a claim that waits ask again? */
static void wait_more(struct redis *redis, struct rclaim *claim, int64_t ms_left) {
    int64_t now = pawl__boottime(), alive = kit_between(&redis->kit.random, ALIVE_NS, ALIVE_NS * 5 / 4);
    int64_t ends = (ms_left + 2 + (int64_t)claim->position * 50) * REDIS_MS;

    if (ms_left >= 0 && claim->position < EXACT_POSITIONS && ends < alive) {
        pawl__claim_set_timer(redis, claim, now + ends, true);
        return;
    }
    alive += (int64_t)claim->position * 5 * REDIS_MS;
    pawl__claim_set_timer(redis, claim, now + (alive < ALIVE_MOST_NS ? alive : ALIVE_MOST_NS), false);
}

/* The same, unless it was told meanwhile that it is the first, and when to ask. */
static void wait_as_told(struct redis *redis, struct rclaim *claim, int64_t ms_left) {
    int64_t told = claim->head_until;

    claim->head_until = PAWL__NEVER;
    wait_more(redis, claim, ms_left);
    if (told < claim->timer.at)
        pawl__claim_set_timer(redis, claim, told, true);
}

/* A position in the queue, as far as it matters. */
static unsigned place(int64_t position) {
    return position < 0 ? 0 : position < UINT16_MAX ? (unsigned)position : UINT16_MAX;
}

static void queued(struct redis *redis, struct rclaim *claim, const redisReply *reply) {
    int64_t ms_left = pawl__reply_span(reply, 1), position = pawl__reply_number(reply, 2, 0);
    struct pawl_error why;
    bool seen_foreign;

    if (claim->kit.claim->try_only) {
        pawl__claim_misfit(claim->kit.claim, 0, &why);
        pawl__claim_refuse(redis, claim, &why);
        return;
    }
    if (is_voter(redis)) {
        claim->position = place(position);
        pawl__claim_say_waits(redis, claim, ms_left);
        return;
    }
    claim->home->contended = true;
    pawl__claim_step(redis, claim, RCLAIM_QUEUED);
    if (position < 0) { /* it has not queued, since it could not be told */
        pawl__kit_note(&redis->kit, &claim->kit, "held, PTTL %lld; listening", (long long)ms_left);
        claim->position = 0;
        wait_more(redis, claim, ms_left);
        pawl__ear_open(redis, claim);
        if (pawl__ear_on(claim))
            pawl__claim_drive(redis, claim);
        return;
    }
    claim->position = place(position);
    seen_foreign = claim->foreign_held;
    claim->foreign_held = pawl__reply_number(reply, 4, 0) == 1;
    pawl__kit_note(&redis->kit, &claim->kit, "queued at %u; %s holds it, PTTL %lld", claim->position,
                   claim->foreign_held ? "a foreign program" : "pawl", (long long)ms_left);
    if (claim->foreign_held && claim->position < EXACT_POSITIONS)
        pawl__push_listen(redis, claim);
    else if (claim->head_until == PAWL__NEVER) /* else it was told later than this was written */
        pawl__push_unlisten(redis, claim);
    wait_as_told(redis, claim, ms_left);
    /* Once more: it may have been let go since; or so that the server tracks what it reads. */
    if (claim->asks_again || (claim->home->tracks && claim->foreign_held && !seen_foreign && claim->position < EXACT_POSITIONS)) {
        claim->asks_again = false;
        pawl__claim_drive(redis, claim);
    }
    pawl__claim_want_more(redis, claim);
}

void pawl__claim_misfit(const struct pawl__claim *claim, int64_t result, struct pawl_error *ret) {
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
        pawl__fail(ret, PAWL_EFORMAT, "the server's answer about '%s' makes no sense", claim->name);
}

void pawl__claim_entered(struct redis *redis, struct rclaim *claim, const struct request *request, const redisReply *reply) {
    pawl__push_tie(home_of(request->server), request->sent_at, pawl__reply_number(reply, 3, 0));
    claim->home->contended = claim->state == RCLAIM_WAITING;
    pawl__claim_granted(redis, claim, (uint64_t)pawl__reply_number(reply, 1, 1), (uint32_t)pawl__reply_number(reply, 2, 1),
                        request->sent_at, pawl__claim_lease_ns(redis, claim));
}

/* The first token, if this is the short answer: the last of them; or 1 of a voter, which agrees to those that were proposed. */
static uint64_t short_grant(const struct redis *redis, const struct rclaim *claim, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 1)
        return 0;
    if (is_voter(redis))
        return claim->vote.floor;
    return reply->integer < claim->want_sent ? 0 : (uint64_t)(reply->integer - claim->want_sent + 1);
}

static void fill_release(const struct redis *redis, const struct rclaim *claim, struct redis_call *call) {
    fill_call(redis, claim, call);
    put_wish(claim, call->extra); /* as it stands in the queue, if it does */
    call->argv[REDIS_CALL_COMMON] = call->keys.channel;
}

/* The server will not let it in. If it has waited before, it must not stay in the queue, where it would be granted the lock for
 * nothing; and if the script was `torn`, ended by an error, it may have written half of a hold, which might never end. */
static void refuse_and_undo(struct redis *redis, struct rclaim *claim, bool torn, const struct pawl_error *why) {
    struct home *home = claim->home;
    int script = SCRIPT_RELEASE + (int)claim->kit.claim->kind;
    bool undo = (torn || claim->state == RCLAIM_WAITING) && !is_voter(redis);
    struct redis_call call;

    if (undo)
        fill_release(redis, claim, &call);
    pawl__claim_refuse(redis, claim, why);
    if (undo)
        pawl__script_send(&home->server, script, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 1, call.argv, NULL, &(struct request){0});
}

static void acquire_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct rclaim *claim = request->claim;
    struct pawl_error why;
    uint64_t first;
    int64_t result;

    if (!current(request) || (claim->state != RCLAIM_ASKING && claim->state != RCLAIM_WAITING)) {
        freeReplyObject(reply);
        return;
    }
    if (!without_result(redis, request, reply, &why)) {
        result = pawl__reply_number(reply, 0, -3);
        if (reply->type == REDIS_REPLY_ERROR) {
            refuse_and_undo(redis, claim, true, &why);
        } else if ((first = short_grant(redis, claim, reply))) {
            claim->home->contended = false;
            pawl__claim_granted(redis, claim, first, claim->want_sent, request->sent_at, pawl__claim_lease_ns(redis, claim));
        } else if (pawl__reply_grants(reply)) {
            pawl__claim_entered(redis, claim, request, reply);
        } else if (result == 0) {
            pawl__push_tie(home_of(request->server), request->sent_at, pawl__reply_number(reply, 3, 0));
            queued(redis, claim, reply);
        } else {
            pawl__claim_misfit(claim->kit.claim, result, &why);
            refuse_and_undo(redis, claim, result > 0, &why);
        }
    } else if (claim->kit.claim->try_only && reply && claim->timer.at != PAWL__NEVER) {
        pawl__claim_not_now(redis, claim, &why);
    }
    freeReplyObject(reply);
}

void pawl__claim_want_more(struct redis *redis, struct rclaim *claim) {
    if (claim->state == RCLAIM_WAITING && !claim->asked &&
        atomic_load_explicit(&claim->kit.claim->token_want, memory_order_relaxed) > claim->want_sent)
        pawl__claim_drive(redis, claim);
}

/* ---- Release, downgrade --------------------------------------------------------------------------------------------------- */

/* Too few replicas had it, and it is given back: once more, a little later. */
static void undone(struct redis *redis, struct rclaim *claim) {
    struct pawl_error why;

    if (claim->kit.claim->try_only) {
        pawl__secure_failed(claim->home, claim->kit.claim->name, &why);
        pawl__claim_not_now(redis, claim, &why);
    } else {
        pawl__claim_try_later(redis, claim);
    }
}

/* The server will not let us; then the lease ends it. Where it refuses one it refuses many: the log need not hear of each. */
static void release_refused(struct redis *redis, const struct rclaim *claim, const struct pawl_error *why) {
    struct claims *claims = claims_of(redis);

    if (pawl__boottime() < claims->refusal_due)
        return;
    claims->refusal_due = pawl__boottime() + REFUSAL_NS;
    pawl__kit_warn(&redis->kit, &claim->kit, "could not be released, and stays held until its lease ends: %s", why->text);
}

static void release_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct rclaim *claim = request->claim;
    bool undoes = claim->state == RCLAIM_UNDOING;
    struct pawl_error why;

    if (current(request) && !without_result(redis, request, reply, &why)) {
        bool refused = reply->type == REDIS_REPLY_ERROR;

        if (refused && !undoes)
            release_refused(redis, claim, &why);
        claim->vote.awaited = reply->integer == 2;
        pawl__claim_step(redis, claim, !refused && reply->integer == 0 ? RCLAIM_NOTHING : RCLAIM_RELEASED);
        if (undoes)
            undone(redis, claim);
    } else if (!reply) {
        pawl__claim_step(redis, claim, RCLAIM_UNANSWERED);
    }
    freeReplyObject(reply);
}

static void send_release(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_release(redis, claim, &call);
    send_call(claim, SCRIPT_RELEASE + (int)claim->kit.claim->kind, 1, &call, release_answered);
}

static void downgrade_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct rclaim *claim = request->claim;
    struct pawl_error why;

    if (current(request) && (rclaim_holds(claim) || claim->state == RCLAIM_LOST) && !without_result(redis, request, reply, &why)) {
        claim->mode = PAWL_SHARED;
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
            pawl__claim_step(redis, claim, RCLAIM_DOWNGRADED);
        else
            pawl__claim_lost(redis, claim, false, "the hold of '%s' is not on the server any more", claim->kit.claim->name);
    }
    freeReplyObject(reply);
}

static void send_downgrade(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_call(redis, claim, &call);
    call.argv[REDIS_CALL_COMMON] = call.lease;
    send_call(claim, SCRIPT_DOWNGRADE, 1, &call, downgrade_answered);
}

/* ---- Going on ------------------------------------------------------------------------------------------------------------- */

/* Whatever else it is, no answer included: then there is nothing more, and the claim ends at its bounds. */
static void extend_answered(struct redis *redis, struct request *request, redisReply *reply) {
    (void)redis;
    if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0 && reply->integer <= REDIS_TOKENS_MOST)
        request->claim->tokens_added += (uint32_t)reply->integer;
    freeReplyObject(reply);
}

static void send_extend(struct redis *redis, struct rclaim *claim, uint32_t count) {
    struct request request = {.answered = extend_answered, .claim = claim};
    const struct pawl__claim *seam = claim->kit.claim;
    struct redis_call call;
    char next[24];

    fill_call(redis, claim, &call);
    pawl__put_number(call.want, count);
    pawl__put_number(next, seam->token + seam->token_count);
    call.argv[REDIS_CALL_COMMON] = call.want;
    call.argv[REDIS_CALL_COMMON + 1] = call.keys.channel;
    call.argv[REDIS_CALL_COMMON + 2] = next;
    pawl__script_send(&claim->home->server, SCRIPT_EXTEND + (int)seam->kind, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 3, call.argv,
                      NULL, &request);
}

/* Tokens that replicas are to have would have to be secured: then the claim ends at its bounds. */
void pawl__redis_extend(struct pawl__engine *engine, struct pawl__claim *seam, uint32_t count) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    if (claim->state == RCLAIM_HOLDING && claim->home->server.commands.state == LINK_UP && !redis->options.replicas) {
        send_extend(redis, claim, count);
        pawl__home_look_later(claim->home);
    }
    pawl__redis_unlock_asked(redis);
}

uint32_t pawl__redis_extended(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);
    uint32_t added;

    pawl__redis_lock(redis);
    pawl__home_look(claim->home);
    added = claim->tokens_added;
    claim->tokens_added = 0;
    pawl__redis_unlock_asked(redis);
    return added;
}

void pawl__claim_drive(struct redis *redis, struct rclaim *claim) {
    if (claim->asked || claim->home->server.commands.state != LINK_UP)
        return;
    switch (claim->state) {
    case RCLAIM_NONE:
    case RCLAIM_STATES:
    case RCLAIM_SECURING:
    case RCLAIM_LOST:
        break;
    case RCLAIM_HOLDING:
        pawl__ear_open(redis, claim);
        break;
    case RCLAIM_WAITING:
        if (is_voter(redis))
            break; /* it asks again when it is told to */
        /* fall through */
    case RCLAIM_ASKING:
        if (pawl__server_up(&claim->home->server)) /* who queues must be able to hear */
            send_acquire(redis, claim);
        break;
    case RCLAIM_DOWNGRADING:
        send_downgrade(redis, claim);
        break;
    case RCLAIM_UNDOING:
    case RCLAIM_RELEASING:
    case RCLAIM_LEAVING:
        send_release(redis, claim);
        break;
    }
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

int pawl__claim_check(const struct redis *redis, const struct pawl__claim *claim, struct pawl_error *reterr) {
    if (redis->options.layout != LAYOUT_REDISSON && claim->kind != PAWL_MUTEX)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "'%s' is not a mutex, and layout=plain has only those: leave the option out",
                          claim->name);
    if (claim->permits > REDIS_PERMITS_MAX)
        return pawl__fail(reterr, PAWL_EPERMITS,
                          "%u permits of '%s' at once are more than the %d that a Redis is asked to write at once", claim->permits,
                          claim->name, REDIS_PERMITS_MAX);
    return pawl__redis_check_name(redis, claim->name, reterr);
}

void pawl__claim_begin(struct redis *redis, struct pawl__claim *seam, struct home *home) {
    struct rclaim *claim = rclaim_of(seam);

    claim->kit.claim = seam;
    claim->kit.reader = &home->reader;
    claim->kit.renews_token = is_voter(redis);
    claim->home = home;
    if (in_cluster(redis)) {
        claim->slot = pawl__cluster_slot_of(redis, seam->name);
        pawl__server_want(&home->server);
    }
    pawl__claim_step(redis, claim, RCLAIM_SUBMIT);
    claim->mode = seam->mode;
    if (!claim->since[0])
        pawl__put_number(claim->since, (uint64_t)pawl__wall_us() / 1000);
    claim->kit.adopted |= is_voter(redis);
    pawl__kit_timer_init(&claim->timer);
    claim->head_until = PAWL__NEVER;
    pawl__put_number(stpcpy(stpcpy(claim->owner, redis->uuid), ":"), seam->id[1]);
    insert(redis, claim);
}

int pawl__redis_submit(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct home *home;
    int rc = pawl__claim_check(redis, seam, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_lock(redis);
    home = home_of(pawl__server_for(redis, seam->name));
    if (!pawl__server_up(&home->server) && (home->gave_up || (seam->try_only && !pawl__server_hopeful(&home->server)))) {
        rc = pawl__fail(reterr, pawl__server_errorcode(&home->server), "%s", pawl__server_errortext(&home->server));
        pawl__redis_unlock(redis);
        return rc;
    }
    pawl__claim_begin(redis, seam, home);
    pawl__claim_drive(redis, rclaim_of(seam));
    pawl__redis_unlock_asked(redis);
    return PAWL__PENDING;
}

/* Who waits for the answer reads it; of a claim that was adopted that is the service thread, which must be made to. */
static void unlock_asked(struct redis *redis, const struct rclaim *claim) {
    if (claim->kit.adopted)
        pawl__redis_unlock(redis);
    else
        pawl__redis_unlock_asked(redis);
}

int pawl__redis_withdraw(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    claim->kit.news &= ~(unsigned)(KIT_GRANTED | KIT_DOWNGRADED);
    if (claim->kit.telling == KIT_LAST) {
        /* It was refused, and the core is hearing so just now: that is its end. */
    } else if (never_sent(claim)) {
        pawl__claim_step(redis, claim, RCLAIM_UNSENT);
    } else {
        pawl__renew_forget(claim);
        pawl__secure_forget(claim);
        claim->timer.at = PAWL__NEVER;
        claim->failures = 0;
        claim->vote.was_held = rclaim_holds(claim) || claim->state == RCLAIM_LOST;
        pawl__claim_step(redis, claim, RCLAIM_WITHDRAW);
    }
    unlock_asked(redis, claim);
    return PAWL__PENDING;
}

int pawl__redis_downgrade(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    pawl__claim_step(redis, claim, RCLAIM_DOWNGRADE);
    unlock_asked(redis, claim);
    return PAWL__PENDING;
}

/* There is no connection, and it is known why; or `failures` counts what was refused for a while, until an answer says something:
 * then `why` is the last of it. */
bool pawl__redis_hindered(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *ret) {
    struct redis *redis = redis_of(engine);
    const struct rclaim *claim = rclaim_of(seam);
    bool hindered;

    pawl__redis_lock(redis);
    hindered = (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING) && claim->home;
    if (hindered && !pawl__server_up(&claim->home->server))
        pawl__fail(ret, pawl__server_errorcode(&claim->home->server), "%s", pawl__server_errortext(&claim->home->server));
    else if ((hindered &= claim->failures && claim->kit.why.code))
        *ret = claim->kit.why;
    pawl__redis_unlock_asked(redis);
    return hindered;
}

/* ---- The connection ------------------------------------------------------------------------------------------------------- */

void pawl__claims_drive(struct home *home) {
    struct rclaim *claim, *next;

    for (claim = TAILQ_FIRST(&claims_of(home->server.redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home)
            pawl__claim_drive(home->server.redis, claim);
    }
}

void pawl__claims_refuse_tries(struct home *home) {
    struct rclaim *claim, *next;
    struct pawl_error why;

    pawl__fail(&why, pawl__server_errorcode(&home->server), "%s", pawl__server_errortext(&home->server));
    for (claim = TAILQ_FIRST(&claims_of(home->server.redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home && never_sent(claim) && claim->kit.claim->try_only)
            pawl__claim_refuse(home->server.redis, claim, &why);
    }
}

void pawl__claims_give_up(struct home *home) {
    struct redis *redis = home->server.redis;
    struct rclaim *claim, *next;
    struct pawl_error why;

    pawl__fail(&why, pawl__server_errorcode(&home->server), "%s (given up after %u tries)", pawl__server_errortext(&home->server),
               redis->options.retry_tries);
    for (claim = TAILQ_FIRST(&claims_of(redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home && (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING))
            pawl__claim_refuse(redis, claim, &why);
    }
}
