/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.c - the loop: timers of claims, news of the session to claims, news of claims to the core.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdlib.h>

#include "base/lease.h"

/* How often a claim looks again though there is no room. */
#define NO_ROOM_NS (10 * ZK_MS)

/* ---- From the session to the claims --------------------------------------------------------------------------------------- */

static void tell_claims(struct zk_engine *zk, enum zk_event event) {
    struct zk_claim *claim, *next;

    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        if (event != ZK_RESUME || (claim->stalled && zk_is_connected(&zk->session)))
            pawl__zk_step(claim, event);
    }
}

/* Connected: a session that is too short for ?tick= grants no lock any more. */
static void check_tick(struct zk_engine *zk) {
    struct zk_claim *claim, *next;
    struct pawl_error why;

    if (pawl__zk_check_tick(&zk->session, &why) == 0)
        return;
    pawl__zk_warn(&zk->session, "no lock is granted any more: %s", why.text);
    for (claim = TAILQ_FIRST(&zk->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        if (zk_is_pending(claim))
            pawl__zk_step(claim, pawl__zk_refuse(claim, why.code, "%s", why.text));
    }
}

static void take_session_news(struct zk_engine *zk) {
    unsigned news = pawl__zk_session_news(&zk->session);

    if (news & ZK_NEWS_LOST) {
        pawl__zk_sweep_resume(zk, false);
        tell_claims(zk, ZK_SESSION_LOST);
    }
    if (news & ZK_NEWS_GAVE_UP)
        tell_claims(zk, ZK_GIVE_UP);
    if (news & ZK_NEWS_UP) {
        check_tick(zk);
        tell_claims(zk, ZK_CONNECTED_AGAIN);
        pawl__zk_beat(zk); /* if one is due: ahead of those who wait */
        tell_claims(zk, ZK_RESUME);
        pawl__zk_sweep_resume(zk, true);
        pawl__zk_observe_again(zk);
    }
}

/* ---- Timers --------------------------------------------------------------------------------------------------------------- */

static int64_t earliest_look(const struct zk_engine *zk) {
    const struct zk_claim *claim;
    int64_t at = PAWL__NEVER;

    TAILQ_FOREACH(claim, &zk->timed, timed) {
        if (claim->look_at < at)
            at = claim->look_at;
    }
    return at;
}

/* How many claims may look again. Where others keep all room taken, one now and then. */
static int room_to_look(struct zk_engine *zk, int64_t now) {
    if (zk->session.op_count < ZK_ROOM)
        return ZK_ROOM - (int)zk->session.op_count;
    if (now < zk->no_room_until)
        return 0;
    zk->no_room_until = now + NO_ROOM_NS;
    return 1;
}

/* The event that the claim's timer is. */
static enum zk_event timer(struct zk_claim *claim, int64_t now) {
    const struct zk_watch *ahead = claim->watch.ahead;

    pawl__zk_look_at(claim, PAWL__NEVER);
    if (claim->stalled)
        return ZK_RESUME;
    if (claim->try_until && now >= claim->try_until && (claim->state == ZK_QUEUED || claim->state == ZK_LEASING))
        return pawl__zk_refuse(claim, PAWL_EHELD, "others wait ahead for '%s'", claim->claim->name);
    return claim->state == ZK_QUEUED && ahead && ahead->state == ZK_WATCH_LOST ? ZK_WATCH_AGAIN : ZK_RESUME;
}

/* Claims that are to look again by now, as many as there is room for. Returns when the next one is. */
static int64_t look_again(struct zk_engine *zk, int64_t now) {
    const struct zk_session *session = &zk->session;
    int room = room_to_look(zk, now);
    struct zk_claim *claim, *next;

    for (claim = TAILQ_FIRST(&zk->timed); claim && zk_is_connected(session) && room > 0; claim = next) {
        next = TAILQ_NEXT(claim, timed);
        if (claim->look_at > now)
            continue;
        pawl__zk_step(claim, timer(claim, now));
        room--;
    }
    /* Without a connection, or without room, what we wait for wakes us. */
    return zk_is_connected(session) && session->op_count < ZK_ROOM ? earliest_look(zk) : PAWL__NEVER;
}

static int64_t sooner(int64_t one, int64_t other) {
    return one < other ? one : other;
}

/* What is due by now. Returns when the next thing is. */
static int64_t tend(struct zk_engine *zk, int64_t now) {
    int64_t due = pawl__zk_session_tend(&zk->session, now);

    pawl__zk_beat(zk);
    due = sooner(look_again(zk, now), due);
    due = sooner(pawl__zk_sweep(zk, now), due);
    due = sooner(pawl__zk_recheck(zk, now), due);
    due = sooner(pawl__zk_observe_due(zk, now), due);
    pawl__zk_beat(zk);
    pawl__zk_admit(zk);
    return due;
}

/* Is there something to tell the core? */
static bool has_news(const struct zk_engine *zk) {
    return !TAILQ_EMPTY(&zk->news) || !TAILQ_EMPTY(&zk->observers.changed);
}

/* ---- The loop ------------------------------------------------------------------------------------------------------------- */

/* See to timers, wait for the socket, a wake-up or `until`, take what has come. True: woken. */
static bool run_once(struct zk_engine *zk, int64_t until) {
    struct zk_session *session = &zk->session;
    int64_t now = pawl__boottime();
    struct pollfd fds[2];
    char *servers;
    bool woken;

    if (pawl__zk_session_wants_names(session, now)) {
        pawl__zk_engine_unlock(zk);
        servers = pawl__zk_resolve(session, NULL);
        pawl__zk_lock();
        pawl__zk_session_named(session, servers, now);
        take_session_news(zk);
    }
    until = sooner(tend(zk, now), until);
    until = sooner(pawl__zk_session_interest(session, now, fds), until);
    take_session_news(zk);
    if (has_news(zk))
        until = now;
    pawl__zk_send_listings(zk);
    woken = pawl__zk_session_wait(session, fds, until);
    take_session_news(zk);
    return woken;
}

/* ---- What the core is told ------------------------------------------------------------------------------------------------ */

static void tell(struct zk_engine *zk, struct zk_claim *claim) {
    pawl__tell_fn *up = zk->base.tell;
    struct pawl__claim *seam = claim->claim;
    struct pawl_error why = claim->why;
    bool broken = claim->broken;
    unsigned news = claim->tell;

    TAILQ_REMOVE(&zk->news, claim, news);
    claim->tell = 0;
    pawl__zk_engine_unlock(zk);
    if (news & ZK_TELL_GRANTED)
        up(zk->base.core, seam, NEWS_GRANTED, NULL);
    if (news & ZK_TELL_RENEWED)
        up(zk->base.core, seam, NEWS_RENEWED, NULL);
    if (news & ZK_TELL_WANTED)
        up(zk->base.core, seam, NEWS_WANTED, NULL);
    if (news & ZK_TELL_LOST)
        up(zk->base.core, seam, broken ? NEWS_BROKEN : NEWS_LOST, &why);
    if (news & ZK_TELL_DOWNGRADED)
        up(zk->base.core, seam, NEWS_DOWNGRADED, NULL);
    if (news & ZK_TELL_REFUSED)
        up(zk->base.core, seam, NEWS_REFUSED, &why);
    else if (news & ZK_TELL_SETTLED)
        up(zk->base.core, seam, NEWS_GONE, NULL);
    pawl__zk_lock();
}

void pawl__zk_serve(struct pawl__engine *engine, int64_t deadline) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim;

    pawl__zk_lock();
    while (!has_news(zk) && !run_once(zk, deadline) && pawl__boottime() < deadline)
        ;
    while ((claim = TAILQ_FIRST(&zk->news)))
        tell(zk, claim);
    pawl__zk_observers_tell(zk);
    pawl__zk_engine_unlock(zk);
}

void pawl__zk_wake(struct pawl__engine *engine) {
    pawl__zk_ring(&zk_of(engine)->session);
}

void pawl__zk_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct zk_engine *zk = zk_of(engine);

    (void)claim;
    pawl__zk_lock();
    zk->beat_due = true; /* all that is held is renewed by the same request */
    pawl__zk_engine_unlock(zk);
    pawl__zk_wake(engine);
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

int pawl__zk_open(struct zk_engine *zk, struct pawl_error *reterr) {
    struct zk_session *session = &zk->session;
    int64_t deadline = pawl__boottime() + session->options.connect_ns;
    char *servers = pawl__zk_resolve(session, reterr);
    bool silent;
    int rc;

    if (!servers)
        return PAWL_ECONNLOST;
    pawl__zk_lock();
    rc = pawl__zk_session_open(session, servers, reterr);
    while (rc == 0 && pawl__zk_session_opens(session) && pawl__boottime() < deadline)
        run_once(zk, deadline);
    if (rc == 0)
        rc = pawl__zk_session_opened(session, reterr);
    silent = rc == 0 && !zk_is_connected(session);
    pawl__zk_engine_unlock(zk);
    free(servers);
    return silent ? pawl__zk_session_silent(session, reterr) : rc;
}

static int on_probe(struct zk_op *op, const struct zk_reply *reply) {
    bool *answered = op->data;

    *answered = reply->rc == ZOK || reply->rc == ZNONODE;
    return 0;
}

/* Let what is on its way come through; then ask for an answer, so that closing does not wait for a server that hangs. */
void pawl__zk_close(struct zk_engine *zk, int64_t deadline) {
    struct zk_session *session = &zk->session;
    bool answered = false;
    struct zk_op *probe;

    pawl__zk_lock();
    while (zk_is_connected(session) && !TAILQ_EMPTY(&zk->leftovers) && pawl__boottime() < deadline)
        run_once(zk, deadline);
    if (zk_is_connected(session) && (probe = pawl__zk_op_new(session, NULL, on_probe, &answered))) {
        pawl__zk_get(probe, "/", NULL);
        while (zk_is_connected(session) && !answered && pawl__boottime() < deadline)
            run_once(zk, deadline);
    }
    pawl__zk_session_close(session, answered && zk_is_connected(session));
    tell_claims(zk, ZK_ABANDON); /* the core frees claims; we free what they point to */
    pawl__zk_engine_unlock(zk);
    pawl__zk_sweep_free(zk);
    pawl__zk_forget_last_seen(zk);
}
