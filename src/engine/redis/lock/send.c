/* SPDX-License-Identifier: Apache-2.0
 *
 * send.c - what is asked of the server about a claim: which script, with which arguments.
 *
 * `ask_number` numbers what was asked about a claim's state. Only the answer to the last counts: an answer to acquire that comes after the
 * withdrawal was sent says nothing any more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "engine/kit/retry.h"
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

/* What a claim asks for, and for whom: `MODE PERMITS SINCE RECORD`, as it stands in the queue behind its owner. */
static void put_terms(const struct rclaim *claim, char *to) {
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
    call->terms = stpcpy(stpcpy(stpcpy(call->record, "0 "), call->want), " ");
    put_terms(claim, call->terms);
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
    put_terms(claim, call->extra); /* as it stands in the queue, if it does */
    call->argv[REDIS_CALL_COMMON] = call->keys.channel;
}

static void send_release(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_release(redis, claim, &call);
    send_call(claim, SCRIPT_RELEASE + (int)claim->kit.claim->kind, 1, &call, ASKED_RELEASE);
}

static void send_downgrade(struct redis *redis, struct rclaim *claim) {
    struct redis_call call;

    fill_call(redis, claim, &call);
    call.argv[REDIS_CALL_COMMON] = call.lease;
    send_call(claim, SCRIPT_DOWNGRADE, 1, &call, ASKED_DOWNGRADE);
}

/* ---- What was refused here, and may be there ------------------------------------------------------------------------------
 *
 * The claim is over, and its memory the core's. If the server can't be told now it is told when there is a connection again, or when it can
 * write again: one that is left in the queue would have its turn, and nobody would hold. Asked twice it does no harm, since an owner's name
 * is used once.
 */

struct undo {
    TAILQ_ENTRY(undo) entry; /* claims->undos, while it is not on its way */
    enum pawl_kind kind;
    unsigned sent;     /* so often, without one of these: */
    unsigned failures; /* retryable errors */
    char owner[REDIS_OWNER_MAX], terms[PAWL__RECORD_MAX + 96], name[PAWL__NAME_MAX + 1];
};

/* How often one is sent: nodes may not agree who has the slot. */
enum { UNDO_TRIES = 10 };
#define UNDO_AGAIN_NS (50 * REDIS_MS)
#define UNDO_AGAIN_MOST_NS (1600 * REDIS_MS)

static void undo_later(struct redis *redis, struct undo *undo) {
    if (undo->sent < UNDO_TRIES)
        TAILQ_INSERT_TAIL(&claims_of(redis)->undos, undo, entry);
    else
        free(undo);
}

static void send_undo(struct redis *redis, struct undo *undo) {
    struct server *server = pawl__route_server(redis, undo->name);
    const struct request request = {.what = ASKED_UNDO, .data = undo};
    struct redis_call call;

    pawl__call_fill(redis, home_of(server), undo->name, undo->kind, undo->owner, &call);
    strcpy(call.extra, undo->terms);
    call.argv[REDIS_CALL_COMMON] = call.keys.channel;
    if (server->commands.state != LINK_UP || undo->sent++ >= UNDO_TRIES ||
        !pawl__script_send(server, SCRIPT_RELEASE + (int)undo->kind, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 1, call.argv, NULL,
                           &request))
        undo_later(redis, undo);
}

void pawl__send_undo(struct redis *redis, const struct rclaim *claim) {
    struct undo *undo = calloc(1, sizeof *undo);

    if (!undo) /* then it is as if we had died: it has its turn */
        return;
    undo->kind = claim->kit.claim->kind;
    strcpy(undo->owner, claim->owner);
    strcpy(undo->name, claim->kit.claim->name);
    put_terms(claim, undo->terms);
    send_undo(redis, undo);
}

void pawl__send_undos(struct redis *redis) {
    struct undo *undo, *last = TAILQ_LAST(&claims_of(redis)->undos, undo_list);
    bool more = last;

    claims_of(redis)->undos_due = PAWL__NEVER;
    while (more) {
        undo = TAILQ_FIRST(&claims_of(redis)->undos);
        more = undo != last;
        TAILQ_REMOVE(&claims_of(redis)->undos, undo, entry);
        send_undo(redis, undo);
    }
}

/* The server can't just now: once more, a little later each time. */
static void undo_again(struct redis *redis, struct undo *undo) {
    int64_t due = pawl__boottime() + kit_back_off(UNDO_AGAIN_NS, UNDO_AGAIN_MOST_NS, undo->failures++);

    undo->sent--;
    undo_later(redis, undo);
    if (due >= claims_of(redis)->undos_due)
        return;
    claims_of(redis)->undos_due = due;
    pawl__redis_due(redis, due);
}

/* What is refused for good stays there for its time. */
void pawl__undo_answered(struct redis *redis, const struct request *request, const redisReply *reply) {
    struct undo *undo = request->data;
    struct pawl_error why;

    if (!reply) {
        undo_later(redis, undo);
        return;
    }
    switch (pawl__reply_class(reply, &why)) {
    case REPLY_READONLY:
        undo_later(redis, undo);
        pawl__link_drop(&request->server->commands, why.code, "%s", why.text);
        break;
    case REPLY_MOVED:
        pawl__cluster_moved(request->server, reply, &why);
        send_undo(redis, undo);
        break;
    case REPLY_NOSCRIPT:
        send_undo(redis, undo);
        break;
    case REPLY_AGAIN:
    case REPLY_ASK:
        undo_again(redis, undo);
        break;
    case REPLY_OK:
    case REPLY_REFUSED:
        free(undo);
        break;
    }
}

void pawl__undos_free(struct redis *redis) {
    struct undo *undo;

    while ((undo = TAILQ_FIRST(&claims_of(redis)->undos))) {
        TAILQ_REMOVE(&claims_of(redis)->undos, undo, entry);
        free(undo);
    }
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
            pawl__rclaim_tokens_step(claim, TOKENS_REFUSE); /* an answer that is ignored gives none */
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
