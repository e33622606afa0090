/* SPDX-License-Identifier: Apache-2.0
 *
 * voter.c - see voter.h; and what a crew (crew.h) asks of its members.
 */
#include "engine/redis/voter.h"

#include <stdio.h>
#include <string.h>

#include "engine/redis/redis.h"

/* One server: its only server. */
static struct home *home_of_voter(struct redis *redis) {
    return home_of(TAILQ_FIRST(&redis->servers));
}

void pawl__voter_look(struct pawl__engine *engine, struct pawl__voter_view *ret) {
    struct redis *redis = redis_of(engine);
    const struct home *home = home_of_voter(redis);
    const struct link *link = home->server.commands.failures ? &home->server.commands : &home->server.inbox;

    pawl__redis_lock(redis);
    *ret = (struct pawl__voter_view){
        .up = pawl__server_up(&home->server),
        .tracks = home->tracks,
        .is_replica = home->server.facts.is_replica,
        .in_cluster = home->server.facts.in_cluster,
        .failures = link->failures,
        .why = link->why,
    };
    memcpy(ret->run_id, home->server.facts.run_id, sizeof ret->run_id);
    pawl__redis_unlock_asked(redis);
}

int64_t pawl__voter_time(struct pawl__engine *engine) {
    struct redis *redis = redis_of(engine);
    const struct home *home = home_of_voter(redis);
    int64_t time = 0;

    pawl__redis_lock(redis);
    if (home_knows_clock(home) && home->pair_server)
        time = home->pair_server + (pawl__boottime() - home->pair_local) / 1000;
    pawl__redis_unlock_asked(redis);
    return time;
}

int64_t pawl__voter_patience(struct pawl__engine *engine) {
    return redis_of(engine)->options.connect_ns;
}

int64_t pawl__voter_spin(struct pawl__engine *engine) {
    return redis_of(engine)->options.spin_ns;
}

void pawl__voter_warn(struct pawl__engine *engine) {
    pawl__server_warn(&home_of_voter(redis_of(engine))->server);
}

void pawl__voter_prepare(struct pawl__claim *seam, uint64_t floor, int64_t since_ms) {
    struct rclaim *claim = rclaim_of(seam);

    claim->vote.floor = floor;
    snprintf(claim->since, sizeof claim->since, "%lld", (long long)since_ms);
}

void pawl__voter_line_up(struct pawl__claim *claim) {
    rclaim_of(claim)->vote.lines_up = true;
}

unsigned pawl__voter_crowd(struct pawl__claim *claim) {
    return rclaim_of(claim)->position;
}

void pawl__voter_pass_on(struct pawl__claim *claim) {
    rclaim_of(claim)->vote.passes_on = true;
}

void pawl__voter_ask(struct pawl__engine *engine, struct pawl__claim *seam, uint64_t floor) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    if (pawl__claim_step(redis, claim, RCLAIM_TURN)) {
        claim->vote.floor = floor;
        claim->kit.news &= ~(unsigned)KIT_WAITS;
        pawl__claim_drive(redis, claim);
    }
    pawl__redis_unlock_asked(redis);
}

/* ---- Raising -------------------------------------------------------------------------------------------------------------- */

static void raised(struct redis *redis, struct request *request, redisReply *reply) {
    struct rclaim *claim = request->claim;
    struct pawl_error why;

    enum reply_class class = reply ? pawl__reply_class(reply, &why) : REPLY_AGAIN;

    claim->renewal.sent = false;
    if (class == REPLY_NOSCRIPT) {
        pawl__kit_tell(&redis->kit, &claim->kit, KIT_RENEWED); /* nothing new: so it is asked for again, with the script's body */
    } else if (class == REPLY_OK) {
        bool held = pawl__reply_grants(reply);

        if (held) {
            claim->kit.grant.token = (uint64_t)pawl__reply_number(reply, 1, 0);
            claim->kit.grant.token_count = (uint32_t)pawl__reply_number(reply, 2, 1);
        }
        pawl__renew_answered(redis, claim, request->sent_at, request->step * REDIS_MS, held);
    }
    freeReplyObject(reply);
}

/* The caller asks again if this fails: the next renewal is in time for that. */
void pawl__voter_raise(struct pawl__engine *engine, struct pawl__claim *seam, uint64_t token, uint32_t count) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);
    struct request request = {.answered = raised, .claim = claim};
    char lease[24], first[24], many[16];
    struct redis_keys keys;

    snprintf(first, sizeof first, "%llu", (unsigned long long)token);
    snprintf(many, sizeof many, "%u", count);
    pawl__redis_lock(redis);
    if (claim->state == RCLAIM_HOLDING && !claim->renewal.sent && claim->home->server.commands.state == LINK_UP) {
        request.step = (int)(pawl__claim_lease_ns(redis, claim) / REDIS_MS);
        snprintf(lease, sizeof lease, "%d", request.step);
        pawl__redis_keys(redis, seam->name, seam->kind, &keys);
        pawl__claim_unlist(claim);
        claim->renewal.sent = true;
        if (!pawl__script_send(&claim->home->server, SCRIPT_RAISE, 2, 6,
                               (const char *[]){keys.lock, keys.token, claim->owner, lease, first, many}, NULL, &request))
            claim->renewal.sent = false;
    }
    pawl__redis_unlock_asked(redis);
}

bool pawl__voter_freed(struct pawl__claim *claim) {
    return rclaim_of(claim)->vote.freed;
}

bool pawl__voter_was_lost(struct pawl__claim *claim) {
    return rclaim_of(claim)->kit.was_lost;
}

bool pawl__voter_awaited(struct pawl__claim *claim) {
    return rclaim_of(claim)->vote.awaited;
}

/* ---- A member of a crew --------------------------------------------------------------------------------------------------- */

static int member_descriptor(struct pawl__engine *engine) {
    return claims_of(redis_of(engine))->epoll_fd;
}

static int64_t member_due(struct pawl__engine *engine) {
    struct redis *redis = redis_of(engine);
    int64_t due;

    pawl__redis_lock(redis);
    due = TAILQ_EMPTY(&redis->kit.outbox) ? pawl__redis_earliest(redis, PAWL__NEVER) : 0;
    pawl__redis_unlock_asked(redis);
    return due;
}

static int member_answers(struct pawl__engine *engine, int64_t *retsince) {
    struct redis *redis = redis_of(engine);
    const struct link *link = &home_of_voter(redis)->server.commands;
    int fd;

    pawl__redis_lock(redis);
    fd = link->state == LINK_UP ? link->fd : -1;
    *retsince = fd >= 0 && !TAILQ_EMPTY(&link->sent) ? TAILQ_FIRST(&link->sent)->sent_at : PAWL__NEVER;
    pawl__redis_unlock_asked(redis);
    return fd;
}

static void member_take(struct pawl__engine *engine) {
    struct redis *redis = redis_of(engine);
    struct link *link = &home_of_voter(redis)->server.commands;

    pawl__redis_lock(redis);
    redis->kit.telling = true;
    if (link->state == LINK_UP)
        pawl__link_read(link);
    pawl__events_take(redis);
    pawl__kit_tell_all(&redis->kit);
    pawl__redis_unlock(redis);
}

const struct pawl__member_ops pawl__redis_member = {
    .descriptor = member_descriptor,
    .due = member_due,
    .answers = member_answers,
    .take = member_take,
};
