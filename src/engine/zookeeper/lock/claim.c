/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - the life of a claim in the queue of its directory, in Curator's layout: THE TABLE, and what is done in its cells.
 *
 *     OFFLINE --connected--> CREATING --created, listed--> QUEUED --first--> (LEASING) --> (PROVING) --> HELD
 *        ^                      |  ^                          |  ^             semaphore.c
 *        |                 reply|  |not found           listed|  |event on the one ahead, or it was gone already
 *     session lost          lost v  |                          v  |
 *     (new GUID)              FINDING -----found--------->   watching
 *
 * Rules that every step keeps; each prevents a bug that a lock on ZooKeeper has had:
 *   - A znode is ours only if it has our GUID and its ephemeralOwner is the present session. Each session has its own GUID.
 *   - We hold only if our own znode is in the list that says so; after every wake-up there is a new list. One exception: shortcut.c.
 *   - We watch the one znode that we wait for, by getData: where it is gone already, there is a new list at once and no watch.
 *   - Our znode is not made anew because the one ahead vanished, only if our own did.
 *   - A reply that was lost is made good by looking for the GUID; a znode that nobody wants goes to the sweep, which never gives up.
 *   - A hold begins with a session that was proved, through the leader, a short while ago.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "engine/zookeeper/lock/path.h"
#include "os/uncancelled.h"

/* How long what looks like another kind of lock may take to leave. */
#define SECOND_LOOK_NS (100 * ZK_MS)
/* How long a try may stand in a semaphore's queue behind those that pass through. */
#define TRY_NS (500 * ZK_MS)
/* When to try again what failed for want of memory. */
#define STALL_NS (100 * ZK_MS)

/* ---- Begin, stall ---------------------------------------------------------------------------------------------------------- */

static bool new_guid(struct zk_claim *claim) {
    unsigned char random[16];

    if (!pawl__random(random, sizeof random))
        return false;
    pawl__zk_guid_format(claim->terms.keeps ? ZK_KEEPS : claim->terms.limit, random, claim->at.guid);
    return true;
}

static void leave_admission(struct zk_claim *claim) {
    if (claim->state == ZK_ADMISSION)
        TAILQ_REMOVE(&claim->zk->admission, claim, admission);
}

static enum zk_event await_room(struct zk_claim *claim) {
    TAILQ_INSERT_TAIL(&claim->zk->admission, claim, admission);
    return ZK_NOTHING;
}

static enum zk_event enter(struct zk_claim *claim) {
    claim->stalled = false;
    return pawl__zk_admission(claim);
}

static enum zk_event begin(struct zk_claim *claim) {
    pawl__place_lost(claim->claim);
    pawl__zk_sweep_claim(claim);
    pawl__zk_next_number(claim);
    leave_admission(claim);
    pawl__zk_znodes_forget(claim);
    pawl__zk_watch_leave(claim->watch.own);
    claim->kind_seen = false;
    claim->keep.wanted = false;
    claim->at.session = claim->zk->session.number;
    if (zk_is_connected(&claim->zk->session) && new_guid(claim))
        return ZK_CREATE;
    claim->stalled = true;
    return ZK_NOTHING;
}

static enum zk_event begin_in_new_session(struct zk_claim *claim) {
    pawl__zk_say_of(claim, "the session is gone: queueing anew");
    return begin(claim);
}

/* Create and list in one go: one round trip. Or create and watch: shortcut.c. */
static enum zk_event create(struct zk_claim *claim) {
    const char *behind;
    enum zk_event event;

    if (!pawl__zk_znode_create(claim))
        return ZK_STALLED;
    if (zk_has_twin(claim))
        return ZK_NOTHING;
    if ((behind = pawl__zk_queue_behind(claim))) {
        pawl__zk_say_of(claim, "in line again behind %s", pawl__zk_short(behind));
        return pawl__zk_watch_ahead(claim, behind);
    }
    event = pawl__zk_list_queue(claim);
    return event == ZK_NOTHING && zk_is_leased(claim) ? pawl__zk_check_kind(claim) : event;
}

/* Requests that were sent together with it may still be answered. Ignore that, or it would look as if all had been. */
static enum zk_event stall(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    claim->stalled = true;
    /* A lost connection ends with a reconnect; anything else is tried again. */
    if (zk_is_connected(&claim->zk->session))
        pawl__zk_look_at(claim, pawl__boottime() + STALL_NS);
    return ZK_NOTHING;
}

/* ---- In the queue ---------------------------------------------------------------------------------------------------------- */

static enum zk_event list_again(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    if (claim->zk->session.op_count < ZK_ROOM)
        return pawl__zk_list_queue(claim);
    pawl__zk_look_at(claim, pawl__boottime()); /* as soon as there is room */
    return ZK_NOTHING;
}

/* If the znode was made by a shortcut, is the one that it waits for really ahead? */
static enum zk_event created(struct zk_claim *claim) {
    pawl__place_take(&claim->zk->base, claim->claim);
    if (pawl__zk_is_behind(claim))
        return ZK_NOTHING;
    pawl__zk_say_of(claim, "it is not ahead: looking");
    return ZK_LIST_AGAIN;
}

static enum zk_event wait_behind(struct zk_claim *claim) {
    enum zk_event event;

    pawl__zk_say_of(claim, "not lowest, watching %s", pawl__zk_short(claim->seen.child));
    if ((event = pawl__zk_watch_ahead(claim, claim->seen.child)) != ZK_NOTHING)
        return event;
    if (claim->recall_until && pawl__boottime() < claim->recall_until) {
        pawl__zk_look_at(claim, claim->recall_until);
        return ZK_NOTHING;
    }
    if (!claim->terms.try_only) {
        pawl__zk_look_ahead(claim, claim->seen.further);
        return ZK_NOTHING;
    }
    if (claim->try_until == 0)
        claim->try_until = pawl__boottime() + TRY_NS;
    pawl__zk_look_at(claim, claim->try_until);
    return ZK_NOTHING;
}

static enum zk_event look_twice(struct zk_claim *claim) {
    pawl__zk_look_at(claim, pawl__boottime() + SECOND_LOOK_NS);
    return ZK_NOTHING;
}

static enum zk_event look_now(struct zk_claim *claim) {
    pawl__zk_look_at(claim, pawl__boottime());
    return ZK_NOTHING;
}

/* ---- Held ------------------------------------------------------------------------------------------------------------------ */

static enum zk_event want_beat(struct zk_claim *claim) {
    claim->zk->beat_due = true;
    return ZK_NOTHING;
}

/* The second of two heartbeats follows at once; where that was not enough, others when they may be. */
static enum zk_event checked(struct zk_claim *claim) {
    const struct zk_session *session = &claim->zk->session;

    if (pawl__zk_first(claim) == ZK_FIRST)
        return ZK_FIRST;
    if (pawl__zk_more_is_known(session))
        return want_beat(claim);
    pawl__zk_look_at(claim, pawl__boottime() + pawl__zk_ask_again_ns(session));
    return ZK_NOTHING;
}

static void take_proof(struct zk_claim *claim) {
    struct zk_session *session = &claim->zk->session;

    claim->claim->sent_at = session->proofs.sent;
    claim->claim->lease_ns = pawl__zk_assured_until(session) - session->proofs.sent;
}

static enum zk_event hold(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    claim->claim->token = (uint64_t)claim->at.czxid << ZK_TOKEN_BITS;
    claim->claim->token_count = 1u << ZK_TOKEN_BITS;
    claim->claim->wanted = claim->keep.wanted;
    take_proof(claim);
    if (claim->at.lease_count && claim->at.own) { /* the next one in `locks` has its turn */
        pawl__zk_sweep_path(claim->zk, claim->at.own);
        free(claim->at.own);
        claim->at.own = NULL;
    }
    pawl__zk_look_at(claim, pawl__boottime() + ZK_WATCH_OWN_NS);
    pawl__zk_say_of(claim, "holds");
    pawl__zk_tell(claim, ZK_TELL_GRANTED);
    return ZK_NOTHING;
}

/* After a rest, and when it is young, the first of two heartbeats proves less than the second. */
static enum zk_event renewed(struct zk_claim *claim) {
    const struct zk_session *session = &claim->zk->session;

    if (session->proofs.sent > claim->claim->sent_at) {
        take_proof(claim);
        pawl__zk_tell(claim, ZK_TELL_RENEWED);
    }
    return pawl__zk_first(claim) == ZK_UNPROVED && pawl__zk_more_is_known(session) ? want_beat(claim) : ZK_NOTHING;
}

/* A server that the session has moved to grants less time than the one before. It says nothing of the znodes. */
static enum zk_event shorten(struct zk_claim *claim) {
    int64_t until = pawl__zk_assured_until(&claim->zk->session), left = until - claim->claim->sent_at;

    if (left < claim->claim->lease_ns) {
        claim->claim->lease_ns = left;
        pawl__zk_tell(claim, ZK_TELL_RENEWED);
    }
    return ZK_NOTHING;
}

static enum zk_event watch(struct zk_claim *claim) {
    pawl__zk_watch_own(claim);
    return pawl__zk_keep_look(claim);
}

/* A server that had too much to do to set it is left alone for a while. */
static enum zk_event watch_again(struct zk_claim *claim) {
    pawl__zk_look_at(claim, pawl__boottime() + (zk_is_connected(&claim->zk->session) ? STALL_NS : 0));
    return ZK_NOTHING;
}

static enum zk_event exchanged(struct zk_claim *claim) {
    free(claim->at.own);
    claim->at.own = claim->at.twin;
    claim->at.twin = NULL;
    claim->terms.mode = PAWL_SHARED;
    pawl__zk_look_at(claim, pawl__boottime() + ZK_WATCH_OWN_NS);
    pawl__zk_say_of(claim, "downgraded: %s", pawl__zk_short(claim->at.own));
    pawl__zk_tell(claim, ZK_TELL_DOWNGRADED);
    return ZK_CHECKED; /* it is as good as a heartbeat; one that was answered meanwhile left the claim out */
}

/* Some time ago: heartbeats left it out meanwhile. */
static enum zk_event was_exchanged(struct zk_claim *claim) {
    exchanged(claim);
    return want_beat(claim);
}

/* ---- Lost ------------------------------------------------------------------------------------------------------------------ */

static void lose(struct zk_claim *claim, const char *before, const char *after) {
    claim->why.code = PAWL_ELOST;
    pawl__zk_keep_end(claim);
    snprintf(claim->why.text, sizeof claim->why.text, "%s '%s' %s", before, claim->claim->name, after);
    pawl__zk_tell(claim, ZK_TELL_LOST | (claim->state == ZK_DOWNGRADING ? ZK_TELL_DOWNGRADED : 0u));
}

static enum zk_event lose_broken(struct zk_claim *claim) {
    pawl__zk_say_of(claim, "the node was changed: broken");
    claim->broken = true;
    lose(claim, "the hold of", "was broken by an operator: stop and release it");
    return ZK_NOTHING;
}

static enum zk_event lose_gone(struct zk_claim *claim) {
    pawl__zk_say_of(claim, "the node is gone: lost");
    lose(claim, "the node that held", "was deleted by somebody else");
    return ZK_NOTHING;
}

static enum zk_event forget(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    pawl__zk_znodes_forget(claim);
    return ZK_NOTHING;
}

static enum zk_event lose_session(struct zk_claim *claim) {
    lose(claim, "the ZooKeeper session that held", "has expired");
    return forget(claim);
}

static enum zk_event lost_before(struct zk_claim *claim) {
    pawl__zk_tell(claim, ZK_TELL_DOWNGRADED);
    return ZK_NOTHING;
}

/* ---- Over ------------------------------------------------------------------------------------------------------------------ */

static void free_paths(struct zk_claim *claim) {
    free(claim->at.home);
    if (claim->at.dir != claim->at.home)
        free(claim->at.dir);
    claim->at.home = claim->at.dir = NULL;
}

/* A write in its name may be under way or wait for another one: those who make them find the claim gone. */
static void leave_authors(struct zk_claim *claim) {
    if (!claim->values.listed)
        return;
    TAILQ_REMOVE(&claim->zk->authors, claim, values.link);
    claim->values.listed = false;
    pthread_cond_broadcast(&claim->zk->session.answered);
}

/* Let go of everything; what is left of the claim are its news. */
static enum zk_event finish(struct zk_claim *claim, unsigned news) {
    pawl__zk_sweep_claim(claim);
    pawl__zk_next_number(claim);
    leave_admission(claim);
    pawl__zk_asker_cut(&claim->asker);
    pawl__zk_beat_cut(claim);
    pawl__zk_watch_leave(claim->watch.own); /* its deletion fires it, and tells us nothing new */
    pawl__zk_keep_end(claim);
    pawl__zk_znodes_forget(claim);
    free(claim->last.name);
    claim->last.name = NULL;
    free_paths(claim);
    TAILQ_REMOVE(&claim->zk->claims, claim, link);
    leave_authors(claim);
    if (claim->tell)
        TAILQ_REMOVE(&claim->zk->news, claim, news);
    claim->tell = 0;
    pawl__zk_tell(claim, news);
    return ZK_NOTHING;
}

static enum zk_event refuse(struct zk_claim *claim) {
    return finish(claim, ZK_TELL_REFUSED);
}

static enum zk_event withdraw(struct zk_claim *claim) {
    pawl__zk_leave_last_seen(claim);
    return finish(claim, ZK_TELL_SETTLED);
}

static enum zk_event give_up(struct zk_claim *claim) {
    const struct zk_options *options = &claim->zk->session.options;

    pawl__zk_refuse(claim, PAWL_ECONNLOST, "no connection to %s after %u tries: '%s' was not acquired", options->url,
                    options->retry.tries, claim->claim->name);
    return refuse(claim);
}

static enum zk_event abandon(struct zk_claim *claim) {
    pawl__zk_refuse(claim, PAWL_ECLOSED, "the client is closed");
    return refuse(claim);
}

/* ---- The table ------------------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define ENDS [ZK_WITHDRAW] = {ZK_OVER, withdraw}, [ZK_ABANDON] = {ZK_OVER, abandon}
#define PENDING                                                                                                                    \
    [ZK_SESSION_LOST] = {ZK_OFFLINE, begin_in_new_session}, [ZK_GIVE_UP] = {ZK_OVER, give_up}, [ZK_REFUSED] = {ZK_OVER, refuse}, ENDS

/* What is done in a state when an event comes, and the state after it. Where there is nothing, the event says nothing any more. What is
 * done sees the state before, and returns the event that follows at once from it, if any. */
static const struct move {
    uint8_t next;
    enum zk_event (*act)(struct zk_claim *claim);
} moves[ZK_STATES][ZK_EVENTS] = {
    [ZK_NEW] = {[ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_NO_ROOM] = {ZK_ADMISSION, await_room}},
    [ZK_OFFLINE] = {
        [ZK_RESUME] = {ZK_OFFLINE, enter}, [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_NO_ROOM] = {ZK_ADMISSION, await_room},
        [ZK_CREATE] = {ZK_CREATING, create}, PENDING},
    [ZK_ADMISSION] = {[ZK_BEGIN] = {ZK_OFFLINE, begin}, PENDING},
    [ZK_CREATING] = {
        [ZK_CREATED] = {ZK_QUEUED, created}, [ZK_SEEK] = {ZK_FINDING, pawl__zk_znode_seek},
        [ZK_NO_DIRECTORY] = {ZK_CREATING, pawl__zk_directory_make}, [ZK_NEAR_END] = {ZK_CLEARING, pawl__zk_directory_clear},
        [ZK_BUSY] = {ZK_OFFLINE, stall},
        [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_STALLED] = {ZK_CREATING, stall}, [ZK_RESUME] = {ZK_FINDING, pawl__zk_znode_seek}, PENDING},
    [ZK_FINDING] = {
        [ZK_NAMED] = {ZK_FINDING, pawl__zk_znode_read}, [ZK_FOUND] = {ZK_QUEUED, list_again},
        [ZK_NEAR_END] = {ZK_CLEARING, pawl__zk_directory_clear},
        [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_STALLED] = {ZK_FINDING, stall}, [ZK_RESUME] = {ZK_FINDING, pawl__zk_znode_seek}, PENDING},
    [ZK_CLEARING] = {
        [ZK_NO_DIRECTORY] = {ZK_CLEARING, pawl__zk_directory_make}, [ZK_BUSY] = {ZK_CLEARING, stall},
        [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_STALLED] = {ZK_CLEARING, stall}, [ZK_RESUME] = {ZK_OFFLINE, begin}, PENDING},
    [ZK_QUEUED] = {
        [ZK_LIST_AGAIN] = {ZK_QUEUED, list_again}, [ZK_BEHIND] = {ZK_QUEUED, wait_behind}, [ZK_LOOK_TWICE] = {ZK_QUEUED, look_twice},
        [ZK_CHECK_KIND] = {ZK_QUEUED, pawl__zk_check_kind}, [ZK_WATCH_AGAIN] = {ZK_QUEUED, pawl__zk_watch_ahead_again},
        [ZK_LEASE] = {ZK_LEASING, pawl__zk_lease}, [ZK_FIRST] = {ZK_HELD, hold}, [ZK_UNPROVED] = {ZK_PROVING, want_beat},
        [ZK_OWN_GONE] = {ZK_QUEUED, list_again}, [ZK_OWN_BROKEN] = {ZK_QUEUED, list_again}, [ZK_MISSED] = {ZK_QUEUED, look_now},
        [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_STALLED] = {ZK_QUEUED, stall}, [ZK_RESUME] = {ZK_QUEUED, list_again}, PENDING},
    [ZK_LEASING] = {
        [ZK_LEASE] = {ZK_LEASING, pawl__zk_lease}, [ZK_NO_LEASES] = {ZK_LEASING, pawl__zk_leases_make_directory},
        [ZK_TOO_MANY] = {ZK_LEASING, pawl__zk_leases_watch}, [ZK_CHECK_KIND] = {ZK_LEASING, pawl__zk_check_kind},
        [ZK_FIRST] = {ZK_HELD, hold}, [ZK_UNPROVED] = {ZK_PROVING, want_beat}, [ZK_MISSED] = {ZK_LEASING, look_now},
        [ZK_BUSY] = {ZK_QUEUED, stall},
        [ZK_BEGIN] = {ZK_OFFLINE, begin}, [ZK_STALLED] = {ZK_LEASING, stall}, [ZK_RESUME] = {ZK_LEASING, pawl__zk_leases_resume}, PENDING},
    [ZK_PROVING] = {
        [ZK_CHECKED] = {ZK_PROVING, checked}, [ZK_FIRST] = {ZK_HELD, hold}, [ZK_GONE] = {ZK_OFFLINE, begin},
        [ZK_BROKEN] = {ZK_OFFLINE, begin},
        [ZK_OWN_GONE] = {ZK_PROVING, want_beat}, [ZK_OWN_BROKEN] = {ZK_PROVING, want_beat}, [ZK_RESUME] = {ZK_PROVING, want_beat}, PENDING},
    [ZK_HELD] = {
        [ZK_CHECKED] = {ZK_HELD, renewed}, [ZK_CONNECTED_AGAIN] = {ZK_HELD, shorten},
        [ZK_RESUME] = {ZK_HELD, watch}, [ZK_OWN_MISSED] = {ZK_HELD, watch_again},
        [ZK_GONE] = {ZK_LOST, lose_gone}, [ZK_OWN_GONE] = {ZK_LOST, lose_gone}, [ZK_BROKEN] = {ZK_LOST, lose_broken},
        [ZK_OWN_BROKEN] = {ZK_LOST, lose_broken}, [ZK_SESSION_LOST] = {ZK_LOST, lose_session},
        [ZK_QUEUE_CHANGED] = {ZK_HELD, pawl__zk_keep_look}, [ZK_QUEUE_MISSED] = {ZK_HELD, pawl__zk_keep_missed},
        [ZK_WANTED] = {ZK_HELD, pawl__zk_keep_wanted}, [ZK_DOWNGRADE] = {ZK_DOWNGRADING, pawl__zk_downgrade_begin}, ENDS},
    [ZK_DOWNGRADING] = {
        [ZK_CONNECTED_AGAIN] = {ZK_DOWNGRADING, shorten},
        [ZK_EXCHANGE] = {ZK_DOWNGRADING, pawl__zk_downgrade_exchange}, [ZK_EXCHANGED] = {ZK_HELD, exchanged},
        [ZK_WAS_EXCHANGED] = {ZK_HELD, was_exchanged}, [ZK_GONE] = {ZK_LOST, lose_gone}, [ZK_BROKEN] = {ZK_LOST, lose_broken},
        [ZK_SESSION_LOST] = {ZK_LOST, lose_session}, [ZK_STALLED] = {ZK_DOWNGRADING, stall},
        [ZK_RESUME] = {ZK_DOWNGRADING, pawl__zk_downgrade_resume}, ENDS},
    [ZK_LOST] = {
        [ZK_OWN_GONE] = {ZK_LOST, want_beat}, [ZK_OWN_BROKEN] = {ZK_LOST, want_beat}, [ZK_DOWNGRADE] = {ZK_LOST, lost_before},
        [ZK_SESSION_LOST] = {ZK_LOST, forget}, ENDS},
    [ZK_OVER] = {{0, NULL}},
};
/* clang-format on */

/* The only place that writes the state. */
void pawl__zk_step(struct zk_claim *claim, enum zk_event event) {
    const struct move *move;

    while ((move = &moves[claim->state][event])->act) {
        event = move->act(claim);
        claim->state = (enum zk_state)move->next;
    }
}

static void step(struct zk_asker *asker, int event) {
    pawl__zk_step(zk_claim_of_asker(asker), (enum zk_event)event);
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

static int claim_init(struct zk_engine *zk, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct zk_claim *claim = zk_claim_of(seam);
    int rc = 0;

    claim->zk = zk;
    claim->claim = seam;
    claim->terms = (struct zk_terms){.kind = seam->kind,
                                     .mode = seam->mode,
                                     .permits = seam->permits,
                                     .limit = seam->limit,
                                     .try_only = seam->try_only,
                                     .nonreentrant = seam->nonreentrant};
    claim->terms.keeps = seam->keep_ns > 0 && !zk_is_leased(claim);
    claim->layout = seam->kind == PAWL_RWLOCK ? ZK_RWLOCK : ZK_MUTEX;
    claim->look_at = PAWL__NEVER;
    pawl__zk_asker_init(&claim->asker, step);
    if (seam->permits > ZK_PERMITS_MAX)
        return pawl__fail(reterr, PAWL_EPERMITS, "%u permits at once are too many on ZooKeeper, where each is a node: %d at most",
                          seam->permits, ZK_PERMITS_MAX);
    claim->at.home = pawl__zk_home(zk->session.options.base_path, seam->name, reterr, &rc);
    if (!claim->at.home)
        return rc;
    claim->at.dir = zk_is_leased(claim) ? pawl__zk_text("%s/locks", claim->at.home) : claim->at.home;
    if (!claim->at.dir) {
        free(claim->at.home);
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    return 0;
}

int pawl__zk_submit(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_session *session = &zk->session;
    struct zk_claim *claim = zk_claim_of(seam);
    int rc = claim_init(zk, seam, reterr);

    if (rc < 0)
        return rc;
    pawl__zk_lock();
    if (!zk_is_connected(session) && (seam->try_only || pawl__zk_session_gave_up(session)))
        rc = pawl__fail(reterr, PAWL_ECONNLOST, "no connection to %s: '%s' was not acquired; look whether the servers run",
                        session->options.url, seam->name);
    else
        rc = pawl__zk_check_tick(session, reterr);
    if (rc < 0) {
        pawl__zk_engine_unlock(zk);
        free_paths(claim);
        return rc;
    }
    TAILQ_INSERT_TAIL(&zk->claims, claim, link);
    pawl__zk_step(claim, pawl__zk_admission(claim));
    pawl__zk_engine_unlock(zk);
    return PAWL__PENDING;
}

/* As long as its znode is not there, nobody else is in its way. */
int pawl__zk_why(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *ret) {
    struct zk_session *session = &zk_of(engine)->session;
    enum zk_state state;
    bool connected;

    pawl__zk_lock();
    connected = zk_is_connected(session);
    state = zk_claim_of(seam)->state;
    pawl__zk_unlock(session);
    if (!connected)
        return pawl__fail(ret, PAWL_ECONNLOST, "no connection to %s; check that the servers are running", session->options.url);
    if (state == ZK_PROVING)
        return pawl__fail(ret, PAWL_ETIMEOUT,
                          "it is its turn, but ZooKeeper answers too slowly to know that the session lives: ask for a longer one "
                          "(?session=)");
    return state >= ZK_QUEUED
               ? 0
               : pawl__fail(ret, PAWL_ETIMEOUT, "ZooKeeper has not queued it yet: it is slow, or refuses requests for a while");
}

int pawl__zk_withdraw(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);

    pawl__zk_lock();
    if (claim->state != ZK_OVER) { /* else it was refused, and the core is about to hear so */
        pawl__zk_step(claim, ZK_WITHDRAW);
        /* The answer to the delete wakes the service thread soon enough; where there is none it must be woken. */
        if (!zk_is_connected(&zk->session) || TAILQ_EMPTY(&zk->session.ops))
            pawl__zk_ring(&zk->session);
    }
    pawl__zk_engine_unlock(zk);
    return PAWL__PENDING;
}

int pawl__zk_downgrade(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);

    pawl__zk_lock();
    pawl__zk_step(claim, ZK_DOWNGRADE);
    if (claim->state == ZK_LOST)
        pawl__zk_ring(&zk->session);
    pawl__zk_engine_unlock(zk);
    return PAWL__PENDING;
}

int pawl__zk_rest(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct zk_claim *claim = zk_claim_of(seam);

    if (!pawl__zk_is_heard(claim)) {
        UNCANCELLED;

        pawl__zk_lock();
        pawl__zk_keep_begin(claim);
        pawl__zk_engine_unlock(zk_of(engine));
    }
    return pawl__zk_resume(engine, seam);
}

int pawl__zk_resume(struct pawl__engine *engine, struct pawl__claim *seam) {
    (void)engine;
    return pawl__zk_is_heard(zk_claim_of(seam)) ? PAWL__DONE : PAWL_EHELD;
}
