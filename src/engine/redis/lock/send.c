/* SPDX-License-Identifier: Apache-2.0
 *
 * send.c - what is asked of the server about a claim: which script, with which arguments.
 *
 * `ask_number` numbers what was asked about a claim's state. Only the answer to the last counts: an answer to acquire that comes after the
 * withdrawal was sent says nothing any more.
 */
#include <string.h>

#include "engine/redis/lock/lock.h"

int64_t pawl__rclaim_lease_ns(const struct redis *redis, const struct rclaim *claim) {
    int64_t left = claim->kit.claim->max_hold_ns, until = atomic_load(&claim->kit.claim->hold_until);

    if (!left || until == PAWL__NEVER)
        return redis->options.lease_ns;
    if (until || claim->held_since)
        left = (until ? until : pawl__time_add(claim->held_since, left)) - pawl__boottime();
    if (left >= redis->options.lease_ns)
        return redis->options.lease_ns;
    return left < REDIS_MS ? REDIS_MS : (left + REDIS_MS - 1) / REDIS_MS * REDIS_MS; /* the server counts in ms */
}

static void fill_call(const struct redis *redis, const struct rclaim *claim, struct redis_call *call) {
    pawl__call_fill(redis, claim->home, claim->kit.claim->name, claim->kit.claim->kind, claim->owner, call);
    pawl__put_number(call->lease, (uint64_t)(pawl__rclaim_lease_ns(redis, claim) / REDIS_MS));
}

static void send_call(struct rclaim *claim, int script, int extra, struct redis_call *call, enum asked what) {
    struct request request = {.what = what, .claim = claim, .step = ++claim->ask_number};

    /* What could not even be written is asked once the connection is there again, as is all that was not answered. */
    claim->asked = pawl__script_send(&claim->home->server, script, REDIS_CALL_KEYS, REDIS_CALL_COMMON + extra, call->argv, NULL,
                                     &request);
}

/* ---- Acquire ------------------------------------------------------------------------------------------------------------- */

/* What a claim wants, and for whom: `MODE PERMITS SINCE RECORD`, as it stands in the queue behind its owner. */
static void put_wish(const struct rclaim *claim, char *to) {
    *to++ = claim->mode == PAWL_SHARED ? 's' : claim->mode == PAWL_PERMITS ? 'p' : 'x';
    *to++ = ' ';
    to = stpcpy(pawl__put_number(to, claim->kit.claim->permits), " ");
    to = stpcpy(stpcpy(to, claim->since), " ");
    pawl__record_put(to, claims_of(claim->home->server.redis)->record, claim->kit.claim->label);
}

void pawl__rclaim_fill_acquire(struct redis *redis, struct rclaim *claim, struct redis_call *call) {
    const struct pawl__claim *seam = claim->kit.claim;
    uint32_t want = atomic_load_explicit(&seam->token_want, memory_order_relaxed);

    fill_call(redis, claim, call);
    claim->want_sent = want ? want : 1;
    pawl__put_number(call->want, claim->want_sent);
    call->wish = stpcpy(stpcpy(stpcpy(call->record, "0 "), call->want), " ");
    put_wish(claim, call->wish);
    call->asks = !pawl__subscription_suffices(redis, claim) ? "1" : seam->try_only ? "2" : "0";
    strcpy(stpcpy(pawl__put_number(call->extra, seam->limit), " "), call->asks);
    call->argv[REDIS_CALL_COMMON] = call->lease;
    call->argv[REDIS_CALL_COMMON + 1] = call->record;
    call->argv[REDIS_CALL_COMMON + 2] = call->want;
}

static void send_acquire(struct redis *redis, struct rclaim *claim) {
    enum pawl_kind kind = claim->kit.claim->kind;
    struct redis_call call;

    pawl__rclaim_fill_acquire(redis, claim, &call);
    pawl__listen_track_next(claim);
    /* One token is what is wanted if nothing is said. */
    send_call(claim, SCRIPT_ACQUIRE + (int)kind, REDIS_ACQUIRE_ARGS - REDIS_CALL_COMMON - (claim->want_sent == 1), &call,
              ASKED_ACQUIRE);
}

/* ---- Release, downgrade -------------------------------------------------------------------------------------------------- */

static void fill_release(const struct redis *redis, const struct rclaim *claim, struct redis_call *call) {
    fill_call(redis, claim, call);
    put_wish(claim, call->extra); /* as it stands in the queue, if it does */
    call->argv[REDIS_CALL_COMMON] = call->keys.channel;
}

static void send_release(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_release(redis, claim, &call);
    send_call(claim, SCRIPT_RELEASE + (int)claim->kit.claim->kind, 1, &call, ASKED_RELEASE);
}

void pawl__send_undo(struct redis *redis, const struct rclaim *claim) {
    struct redis_call call;

    fill_release(redis, claim, &call);
    pawl__script_send(&claim->home->server, SCRIPT_RELEASE + (int)claim->kit.claim->kind, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 1,
                      call.argv, NULL, &(struct request){0});
}

static void send_downgrade(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_call(redis, claim, &call);
    call.argv[REDIS_CALL_COMMON] = call.lease;
    send_call(claim, SCRIPT_DOWNGRADE, 1, &call, ASKED_DOWNGRADE);
}

/* ---- More tokens --------------------------------------------------------------------------------------------------------- */

bool pawl__send_more_tokens(struct redis *redis, struct rclaim *claim, uint32_t count) {
    struct request request = {.what = ASKED_MORE_TOKENS, .claim = claim};
    const struct pawl__claim *seam = claim->kit.claim;
    struct redis_call call;
    char next[24];

    fill_call(redis, claim, &call);
    pawl__put_number(call.want, count);
    pawl__put_number(next, seam->token + seam->token_count);
    call.argv[REDIS_CALL_COMMON] = call.want;
    call.argv[REDIS_CALL_COMMON + 1] = next;
    return pawl__script_send(&claim->home->server, SCRIPT_MORE_TOKENS + (int)seam->kind, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 2,
                             call.argv, NULL, &request);
}

/* ---- What a claim needs next --------------------------------------------------------------------------------------------- */

void pawl__rclaim_drive(struct redis *redis, struct rclaim *claim) {
    if (claim->asked || claim->home->server.commands.state != LINK_UP)
        return;
    switch (claim->state) {
    case RCLAIM_NONE:
    case RCLAIM_STATES:
    case RCLAIM_SECURING:
    case RCLAIM_LOST:
        break;
    case RCLAIM_HOLDING:
        pawl__subscription_open(redis, claim);
        pawl__kept_drive(redis, claim);
        break;
    case RCLAIM_WAITING:
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

/* ---- Claims that end, or move -------------------------------------------------------------------------------------------- */

static void detach(struct request *request, struct rclaim *claim) {
    struct group *group = request->data;

    if (request->what == ASKED_RENEWAL || request->what == ASKED_SET) {
        for (size_t i = 0; i < group->count; i++)
            if (group->members[i].claim == claim)
                group->members[i].claim = NULL;
    } else if (request->claim == claim) {
        if (request->what == ASKED_MORE_TOKENS)
            claim->tokens = TOKENS_REFUSED; /* an answer that is ignored gives none */
        request->answered = NULL;
        request->what = ASKED_NOTHING;
        request->claim = NULL;
    }
}

void pawl__rclaim_detach(struct redis *redis, struct rclaim *claim) {
    struct request *request;
    struct server *server;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        TAILQ_FOREACH(request, &server->commands.sent, link) {
            detach(request, claim);
        }
    }
}
