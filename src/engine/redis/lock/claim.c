/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - the life of a claim on the server, by the table of state.c. lock.h draws its states.
 *
 * Invariants
 *   - A claim's owner, `<uuid>:<number>`, is used for that claim alone: where it stands in the lock's key, this claim holds. So acquire and
 *     release may be run again after a lost answer, and do the same. But a release that was not answered is the last word about its owner,
 *     since it may come late: a claim that is asked for again after one (?replicas=) has another.
 *   - A claim is gone when its release was answered; the server answers in order, so nothing about it is on its way then. Answers may be
 *     due if it ends otherwise (?retry= is used up), and in a cluster from a node that had it before: pawl__rclaim_detach cuts them off.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/kit/retry.h"
#include "engine/redis/lock/lock.h"
#include "base/error.h"
#include "base/lease.h"

#define AGAIN_NS (50 * REDIS_MS)
#define AGAIN_MOST_NS (1600 * REDIS_MS)
/* The engine's own numbers: the core's never come so far, and as they are read by strtoll() they must be positive. */
#define OWN_NUMBERS (UINT64_C(1) << 62)

static struct rclaim_list *bucket_of(struct redis *redis, uint64_t number) {
    return &claims_of(redis)->buckets[(number ^ number >> 16) % REDIS_BUCKETS];
}

struct rclaim *pawl__rclaim_find(struct redis *redis, uint64_t number) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, bucket_of(redis, number), bucket) {
        if (claim->number == number)
            return claim;
    }
    return NULL;
}

static void insert(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);

    TAILQ_INSERT_TAIL(&claims->all, claim, all);
    TAILQ_INSERT_TAIL(bucket_of(redis, claim->number), claim, bucket);
    claim->home->server.users++;
    redis->claim_count++;
    claims->adopted_count += claim->kit.adopted;
}

void pawl__rclaim_to_secure(struct rclaim *claim, int64_t sent_at, int64_t lease_ns) {
    claim->securing.listed = true;
    claim->securing.sent_at = sent_at;
    claim->securing.lease_ns = lease_ns;
    TAILQ_INSERT_TAIL(&claim->home->secure.waiting, claim, securing.entry);
}

void pawl__rclaim_leave_round(struct rclaim *claim) {
    if (claim->securing.listed)
        TAILQ_REMOVE(claim->securing.in_round ? &claim->home->secure.asked : &claim->home->secure.waiting, claim, securing.entry);
    claim->securing.listed = claim->securing.in_round = false;
}

void pawl__rclaim_unlist(struct rclaim *claim) {
    pawl__rclaim_leave_round(claim);
    if (claim->renewal.listed)
        TAILQ_REMOVE(&claim->home->to_renew, claim, renewal.entry);
    claim->renewal.listed = false;
}

/* The claim is gone from here. */
static void forget(struct redis *redis, struct rclaim *claim) {
    struct claims *claims = claims_of(redis);

    pawl__listen_no_more(redis, claim);
    pawl__subscription_leave(redis, claim);
    if (!pawl__route_only(redis))
        pawl__rclaim_detach(redis, claim); /* else one server answers in order: nothing is on its way when it has ended a claim */
    pawl__rclaim_unlist(claim);
    TAILQ_REMOVE(&claims->all, claim, all);
    TAILQ_REMOVE(bucket_of(redis, claim->number), claim, bucket);
    pawl__kit_untell(&redis->kit, &claim->kit);
    pawl__kit_timer_end(&redis->kit.timers, &claim->timer);
    claim->home->server.users--;
    redis->claim_count--;
    claims->adopted_count -= claim->kit.adopted;
}

static void take_name(struct redis *redis, struct rclaim *claim, uint64_t number) {
    claim->number = number;
    pawl__put_number(stpcpy(stpcpy(stpcpy(claim->owner, redis->uuid), ":"), pawl__kept_begin(claim)), number);
}

/* A release of it is on its way, and may come after what is asked next has been granted: by the same name it would free that. What the
 * server has by this one is still taken back. */
static void take_another_name(struct redis *redis, struct rclaim *claim) {
    pawl__kit_note(&redis->kit, &claim->kit, "its release was not answered: asking by another name");
    pawl__send_undo(redis, claim);
    TAILQ_REMOVE(bucket_of(redis, claim->number), claim, bucket);
    take_name(redis, claim, OWN_NUMBERS + claims_of(redis)->numbers++);
    TAILQ_INSERT_TAIL(bucket_of(redis, claim->number), claim, bucket);
}

bool pawl__rclaim_step(struct redis *redis, struct rclaim *claim, enum rclaim_event event) {
    struct rclaim_move move;

    if (!pawl__rclaim_moves(claim->state, event, &move))
        return false;
    claim->state = (enum rclaim_state)move.next;
    if (event == RCLAIM_UNSECURED || event == RCLAIM_TOO_LATE || event == RCLAIM_STALE) /* it was granted, which may be over */
        pawl__place_lost(claim->kit.claim);
    pawl__kept_follow(claim);
    if (move.actions & RCLAIM_ANEW) {
        claim->held_since = 0;
        claim->securing.broken = false;
    }
    if (move.actions & RCLAIM_RENAMES)
        take_another_name(redis, claim);
    if (move.actions & RCLAIM_HEARS)
        pawl__subscription_open(redis, claim);
    if (move.actions & RCLAIM_WAS_LOST)
        claim->kit.was_lost = true;
    if (move.actions & RCLAIM_ENDS)
        forget(redis, claim);
    if (move.news)
        pawl__kit_tell(&redis->kit, &claim->kit, move.news);
    if (move.actions & RCLAIM_ASKS) {
        claim->asked = false;
        pawl__rclaim_drive(redis, claim);
    }
    return true;
}

void pawl__rclaim_set_timer(struct redis *redis, struct rclaim *claim, int64_t when, bool exact) {
    pawl__kit_timer_set(&redis->kit.timers, &claim->timer, when, exact);
    pawl__redis_due(redis, when);
}

void pawl__rclaim_try_later(struct redis *redis, struct rclaim *claim) {
    int64_t wait = kit_back_off(AGAIN_NS, AGAIN_MOST_NS, claim->failures++);

    pawl__rclaim_set_timer(redis, claim, pawl__boottime() + kit_between(&redis->kit.random, wait, 2 * wait), true);
}

bool pawl__rclaim_slot_moved(struct redis *redis, const struct rclaim *claim) {
    const struct server *server = pawl__route_at(redis, claim->slot);

    return server && server != &claim->home->server;
}

void pawl__rclaim_lost(struct redis *redis, struct rclaim *claim, bool broken, const char *format, ...) {
    va_list args;

    if (!rclaim_holds(claim))
        return;
    claim->kit.why.code = PAWL_ELOST;
    va_start(args, format);
    vsnprintf(claim->kit.why.text, sizeof claim->kit.why.text, format, args);
    va_end(args);
    pawl__rclaim_step(redis, claim, broken ? RCLAIM_BROKEN : RCLAIM_NOT_MINE);
}

void pawl__rclaim_broken(struct redis *redis, struct rclaim *claim) {
    pawl__rclaim_lost(redis, claim, true, "the hold of '%s' was broken by an operator: stop and release it",
                      claim->kit.claim->name);
}

void pawl__rclaim_refuse(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    claim->kit.why = *why;
    pawl__rclaim_step(redis, claim, RCLAIM_REFUSED);
}

void pawl__rclaim_not_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    struct pawl_error reason = *why;

    if (claim->in_set)
        reason.code = PAWL_EUNSUPPORTED;
    pawl__rclaim_refuse(redis, claim, &reason);
}

void pawl__rclaim_granted(struct redis *redis, struct rclaim *claim, uint64_t token, uint32_t count, int64_t sent_at,
                          int64_t lease_ns) {
    pawl__listen_no_more(redis, claim);
    claim->timer.at = PAWL__NEVER;
    claim->kit.grant.token = token;
    claim->kit.grant.token_count = count;
    claim->kit.grant.sent_at = claim->held_since = sent_at;
    claim->kit.grant.lease_ns = lease_ns;
    if (redis->options.replicas) {
        pawl__rclaim_step(redis, claim, RCLAIM_UNSECURED);
        pawl__rclaim_to_secure(claim, sent_at, lease_ns);
    } else {
        pawl__rclaim_hold(redis, claim);
    }
}

/* The lease of this grant ended before we read it. Ask again: the claim may still be ours, or else it queues. */
static bool came_too_late(struct redis *redis, struct rclaim *claim) {
    if (pawl__boottime() < pawl__lease_assured_until(claim->kit.grant.sent_at, claim->kit.grant.lease_ns))
        return false;
    pawl__kit_note(&redis->kit, &claim->kit, "granted, but its lease is over: asking again");
    return pawl__rclaim_step(redis, claim, RCLAIM_TOO_LATE);
}

void pawl__rclaim_hold(struct redis *redis, struct rclaim *claim) {
    if (came_too_late(redis, claim))
        return;
    claim->failures = 0;
    pawl__rclaim_step(redis, claim, RCLAIM_GRANTED);
    pawl__kept_confirmed(claim, claim->kit.grant.sent_at);
    if (claim->securing.broken)
        pawl__rclaim_broken(redis, claim);
}

bool pawl__rclaim_never_sent(const struct rclaim *claim) {
    return claim->state == RCLAIM_ASKING && claim->ask_number == 0;
}

void pawl__rclaim_want_more(struct redis *redis, struct rclaim *claim) {
    if (claim->state == RCLAIM_WAITING && !claim->asked &&
        atomic_load_explicit(&claim->kit.claim->token_want, memory_order_relaxed) > claim->want_sent)
        pawl__rclaim_drive(redis, claim);
}

/* ---- Its beginning ------------------------------------------------------------------------------------------------------- */

int pawl__rclaim_check(const struct redis *redis, const struct pawl__claim *claim, struct pawl_error *reterr) {
    int rc = pawl__redis_check_kind(redis, claim->name, claim->kind, reterr);

    if (rc < 0)
        return rc;
    if (claim->permits > REDIS_PERMITS_MAX)
        return pawl__fail(reterr, PAWL_EPERMITS,
                          "%u permits of '%s' at once are more than the %d that a Redis is asked to write at once", claim->permits,
                          claim->name, REDIS_PERMITS_MAX);
    return pawl__redis_check_name(redis, claim->name, reterr);
}

void pawl__rclaim_begin(struct redis *redis, struct pawl__claim *seam, struct home *home) {
    struct rclaim *claim = rclaim_of(seam);

    claim->kit.claim = seam;
    claim->kit.reader = &home->reader;
    claim->home = home;
    claim->slot = pawl__route_slot(redis, seam->name);
    pawl__route_want(&home->server);
    pawl__rclaim_step(redis, claim, RCLAIM_SUBMIT);
    claim->mode = seam->mode;
    pawl__put_number(claim->since, (uint64_t)pawl__wall_us() / 1000);
    pawl__kit_timer_init(&claim->timer);
    claim->head_until = PAWL__NEVER;
    take_name(redis, claim, seam->id[1]);
    insert(redis, claim);
}

/* ---- The connection ------------------------------------------------------------------------------------------------------ */

void pawl__rclaims_drive(struct home *home) {
    struct rclaim *claim, *next;

    for (claim = TAILQ_FIRST(&claims_of(home->server.redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home)
            pawl__rclaim_drive(home->server.redis, claim);
    }
}

void pawl__rclaims_refuse_tries(struct home *home) {
    struct rclaim *claim, *next;
    struct pawl_error why;

    pawl__fail(&why, pawl__server_errorcode(&home->server), "%s", pawl__server_errortext(&home->server));
    for (claim = TAILQ_FIRST(&claims_of(home->server.redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home && pawl__rclaim_never_sent(claim) && claim->kit.claim->try_only)
            pawl__rclaim_refuse(home->server.redis, claim, &why);
    }
}

/* The inbox alone may be down: then what is asked on the other connection is answered yet. What the server has of the claim is taken
 * back. */
static void give_up(struct redis *redis, struct rclaim *claim, const struct pawl_error *why) {
    bool undo = !pawl__rclaim_never_sent(claim);

    pawl__rclaim_detach(redis, claim);
    pawl__rclaim_refuse(redis, claim, why);
    if (undo)
        pawl__send_undo(redis, claim);
}

void pawl__rclaims_give_up(struct home *home) {
    struct redis *redis = home->server.redis;
    struct rclaim *claim, *next;
    struct pawl_error why;

    pawl__fail(&why, pawl__server_errorcode(&home->server), "%s (given up after %u tries)", pawl__server_errortext(&home->server),
               redis->options.retry.tries);
    for (claim = TAILQ_FIRST(&claims_of(redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->home == home && (claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING))
            give_up(redis, claim, &why);
    }
}
