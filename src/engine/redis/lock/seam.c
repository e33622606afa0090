/* SPDX-License-Identifier: Apache-2.0
 *
 * seam.c - what the core asks of claims. Each call takes the mutex, and works on what connections have to say before it lets go.
 */
#include "base/error.h"
#include "engine/redis/lock/lock.h"

int pawl__redis_submit(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct home *home;
    int rc = pawl__rclaim_check(redis, seam, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_lock(redis);
    home = home_of(pawl__route_server(redis, seam->name));
    if (!pawl__server_up(&home->server) && (home->gave_up || (seam->try_only && !pawl__route_hopeful(&home->server)))) {
        rc = pawl__fail(reterr, pawl__server_errorcode(&home->server), "%s", pawl__server_errortext(&home->server));
        pawl__redis_unlock(redis);
        return rc;
    }
    pawl__rclaim_begin(redis, seam, home);
    pawl__rclaim_drive(redis, rclaim_of(seam));
    pawl__redis_unlock_asked(redis);
    return PAWL__PENDING;
}

int pawl__redis_submit_all(struct pawl__engine *engine, struct pawl__claim *const seams[], size_t count,
                           struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = pawl__rclaim_check(redis, seams[i], reterr);
    if (rc < 0)
        return rc;
    pawl__redis_lock(redis);
    rc = pawl__redis_set_ask(redis, seams, count, reterr);
    pawl__redis_unlock_asked(redis);
    return rc;
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
    } else if (pawl__rclaim_never_sent(claim)) {
        pawl__rclaim_step(redis, claim, RCLAIM_UNSENT);
    } else {
        pawl__rclaim_unlist(claim);
        claim->timer.at = PAWL__NEVER;
        claim->failures = 0;
        pawl__rclaim_step(redis, claim, RCLAIM_WITHDRAW);
    }
    unlock_asked(redis, claim);
    return PAWL__PENDING;
}

int pawl__redis_downgrade(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    pawl__rclaim_step(redis, claim, RCLAIM_DOWNGRADE);
    unlock_asked(redis, claim);
    return PAWL__PENDING;
}

void pawl__redis_renew(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    claim->renewal.asked_at = pawl__boottime();
    pawl__renew_want(claim);
    redis->kit.wakes = true;
    pawl__redis_unlock(redis);
}

/* With ?replicas= new tokens would need a WAIT round: ask for none. */
static bool ask_for_tokens(struct redis *redis, struct rclaim *claim, uint32_t want) {
    if (claim->state != RCLAIM_HOLDING || claim->home->server.commands.state != LINK_UP || redis->options.replicas ||
        !pawl__send_more_tokens(redis, claim, want))
        return false;
    pawl__home_look_later(claim->home);
    return true;
}

int pawl__redis_tokens(struct pawl__engine *engine, struct pawl__claim *seam, uint32_t want, uint32_t *ret) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);
    int rc = PAWL__PENDING;

    pawl__redis_lock(redis);
    if (claim->tokens.state == TOKENS_NOT_ASKED)
        pawl__rclaim_tokens_step(claim, ask_for_tokens(redis, claim, want) ? TOKENS_ASK : TOKENS_REFUSE);
    else
        pawl__home_look(claim->home);
    if (claim->tokens.state == TOKENS_REFUSED) {
        rc = PAWL_EHELD;
    } else if (claim->tokens.state == TOKENS_GIVEN) {
        pawl__rclaim_tokens_step(claim, TOKENS_TAKE);
        *ret = claim->tokens.added;
        rc = PAWL__DONE;
    }
    pawl__redis_unlock_asked(redis);
    return rc;
}

/* ---- Keeping ------------------------------------------------------------------------------------------------------------- */

int pawl__redis_rest(struct pawl__engine *engine, struct pawl__claim *seam) {
    (void)engine;
    return atomic_load_explicit(&rclaim_of(seam)->keeping.wanted, memory_order_relaxed) ? PAWL_EHELD : PAWL__DONE;
}

int pawl__redis_resume(struct pawl__engine *engine, struct pawl__claim *seam) {
    const struct rclaim *claim = rclaim_of(seam);
    bool wanted = atomic_load_explicit(&claim->keeping.wanted, memory_order_relaxed);

    (void)engine;
    return !wanted && atomic_load_explicit(&claim->keeping.heard, memory_order_relaxed) ? PAWL__DONE : PAWL_EHELD;
}

/* `failures` counts what was refused for a while, until an answer says something: then kit.why is the last of it. */
static int why_late(const struct rclaim *claim, const struct home *home, struct pawl_error *ret) {
    bool pending = claim->state == RCLAIM_ASKING || claim->state == RCLAIM_WAITING;

    if (!pawl__server_up(&home->server))
        return pawl__fail(ret, pawl__server_errorcode(&home->server), "%s", pawl__server_errortext(&home->server));
    if (home->secure.found_short)
        return pawl__fail(ret, PAWL_EREPLICAS, "%s; pawl doctor %s says more", pawl_error_text(PAWL_EREPLICAS),
                          home->server.redis->url);
    if (pending && claim->failures && claim->kit.why.code)
        return pawl__fail(ret, PAWL_ETIMEOUT, "%s", claim->kit.why.text);
    return claim->state == RCLAIM_ASKING ? pawl__fail(ret, PAWL_ETIMEOUT, "the server has not answered yet") : 0;
}

int pawl__redis_why(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *ret) {
    struct redis *redis = redis_of(engine);
    const struct rclaim *claim = rclaim_of(seam);
    int rc;

    pawl__redis_lock(redis);
    rc = claim->home ? why_late(claim, claim->home, ret) : 0;
    pawl__redis_unlock_asked(redis);
    return rc;
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------------- */

int pawl__redis_park(struct pawl__engine *engine, struct pawl__claim *seam, int64_t deadline, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);
    int rc;

    pawl__redis_lock(redis);
    pawl__rclaim_want_more(redis, claim);
    pawl__redis_take_events(redis);
    rc = pawl__kit_park(&redis->kit, &claim->kit, deadline, reterr);
    pawl__redis_unlock(redis);
    return rc;
}

void pawl__redis_unpark(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);

    pawl__redis_lock(redis);
    pawl__kit_unpark(&redis->kit, &rclaim_of(seam)->kit);
    pawl__redis_unlock(redis);
}

void pawl__redis_adopt(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct redis *redis = redis_of(engine);
    struct rclaim *claim = rclaim_of(seam);

    pawl__redis_lock(redis);
    if (!claim->kit.adopted && claim->state != RCLAIM_NONE) {
        claims_of(redis)->adopted_count++;
        claim->home->inbox_due = 0;
    }
    pawl__kit_adopt(&redis->kit, &claim->kit);
    pawl__redis_unlock(redis);
}
