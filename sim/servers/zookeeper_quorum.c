/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_quorum.c - who leads; and what becomes of members that are killed, stopped, or cut off from the others.
 *
 * A member looks for a leader, follows one, or leads. Nobody is told that another is cut off: a follower that hears nothing of the
 * leader, and a leader that hears of too few, give up after some ticks (sync_limit) of their own clock; until then they go on
 * answering reads. When a connection is closed, since the other one died, they notice at once. Who gives up closes the connections
 * of all its clients.
 *
 * When enough of those that look for a leader reach each other they elect one. A leader that was cut off may still take itself for
 * the leader then; it cannot commit anything. What was not committed is decided by the election: it stays, or is lost.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { CLOSED_MS = 20 /* until a closed connection is noticed, at most */, READ_ONLY_MS = 2000 };

bool zk_reachable(const struct zookeeper_member *member) {
    return member->role != ROLE_DOWN && !member->isolated && !member->paused;
}

bool zk_linked(const struct zookeeper_member *member) {
    const struct zookeeper *zk = member->zk;

    if (zk_leads(member))
        return !member->paused;
    return member->role == ROLE_FOLLOWING && zk->leader >= 0 && member->epoch == zk->epoch && zk_reachable(member) &&
           zk_reachable(&zk->members[zk->leader]);
}

static unsigned majority(const struct zookeeper *zk) {
    return zk->count / 2 + 1;
}

bool zk_quorum(const struct zookeeper *zk) {
    unsigned linked = 0;

    if (zk->leader < 0)
        return false;
    if (zk->count == 1)
        return !zk->members[0].paused;
    for (unsigned i = 0; i < zk->count; i++)
        linked += zk_linked(&zk->members[i]);
    return linked >= majority(zk) && zk_reachable(&zk->members[zk->leader]);
}

bool zk_serves(const struct zookeeper_member *member) {
    return member->role == ROLE_FOLLOWING || member->role == ROLE_LEADING || member->read_only;
}

/* ---- Giving up ------------------------------------------------------------------------------------------------------------ */

/* So many ticks of its own clock. */
static int64_t ticks(const struct zookeeper_member *member, double count) {
    return (int64_t)(count * (double)(member->zk->options.tick_ms * ZK_MS) / member->clock.rate);
}

static int64_t patience(struct zookeeper_member *member) {
    int64_t since_ping = zk_draw(member->zk, 0, ticks(member, 0.5));

    return ticks(member, member->zk->options.sync_limit) - since_ping;
}

static int64_t soon(struct zookeeper *zk) {
    return zk->now + zk_draw(zk, ZK_MS / 10, CLOSED_MS * ZK_MS);
}

static void stop_serving(struct zookeeper_member *member) {
    zk_conn_drop_all(member);
    zk_queue_clear(&member->up);
    zk_queue_clear(&member->down);
    zk_sessions_unheard(member->zk, member->index);
    member->apply_at = member->notice_at = member->join_at = member->cut_at = member->read_only_at = SERVER_NEVER;
    member->up_at = member->down_at = 0;
    member->read_only = false;
}

static void give_up(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    int64_t wait = zk->options.tick_ms > READ_ONLY_MS ? zk->options.tick_ms : READ_ONLY_MS;

    stop_serving(member);
    member->role = ROLE_LOOKING;
    if (zk->options.read_only)
        member->read_only_at = zk->now + wait * ZK_MS;
    if (zk->leader == (int)member->index)
        zk->leader = -1;
}

void zk_exit(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;

    if (member->role == ROLE_DOWN)
        return;
    give_up(member);
    member->read_only_at = SERVER_NEVER;
    member->role = ROLE_DOWN;
    member->paused = false;
    if (zk->count == 1)
        zk_log_settle(zk);
    zk_quorum_changed(zk);
}

/* ---- Who hears of whom ---------------------------------------------------------------------------------------------------- */

/* It hears nothing of its leader. When will it give up? */
static void watch_leader(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    const struct zookeeper_member *leader = zk_leader(zk);
    bool closed = !leader || leader->role != ROLE_LEADING || member->epoch != zk->epoch;

    if (member->notice_at == SERVER_NEVER) {
        member->cut_at = zk->now;
        member->notice_at = zk->now + patience(member);
        zk_sessions_unheard(zk, member->index);
    }
    if (closed && zk_reachable(member) && member->notice_at > zk->now + CLOSED_MS * ZK_MS)
        member->notice_at = soon(zk);
}

static void hear_leader(struct zookeeper_member *member) {
    if (member->notice_at != SERVER_NEVER) {
        zk_sessions_heard(member);
        member->notice_at = member->cut_at = SERVER_NEVER;
    }
    zk_next_apply(member);
}

/* How many are gone for good, so that their connections are closed? The rest may only be silent. */
static bool lost_at_once(const struct zookeeper *zk) {
    unsigned there = 0;

    for (unsigned i = 0; i < zk->count; i++)
        there += zk->members[i].role == ROLE_LEADING ||
                 (zk->members[i].role == ROLE_FOLLOWING && zk->members[i].epoch == zk->epoch);
    return there < majority(zk);
}

static void watch_followers(struct zookeeper_member *leader) {
    struct zookeeper *zk = leader->zk;
    int64_t tick = ticks(leader, 1);

    if (!zk_leads(leader)) { /* others have elected; when they meet it will know */
        if (zk_reachable(leader) && leader->notice_at > zk->now + tick)
            leader->notice_at = zk->now + zk_draw(zk, 0, tick);
        return;
    }
    if (zk_quorum(zk)) {
        leader->notice_at = SERVER_NEVER;
    } else if (lost_at_once(zk) && leader->notice_at > zk->now + tick) {
        leader->notice_at = zk->now + zk_draw(zk, tick / 2, tick);
    } else if (leader->notice_at == SERVER_NEVER) {
        leader->notice_at = zk->now + patience(leader);
    }
}

static void look_for_leader(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    const struct zookeeper_member *leader = zk_leader(zk);

    if (!leader || !zk_reachable(leader) || !zk_reachable(member))
        member->join_at = SERVER_NEVER;
    else if (member->join_at == SERVER_NEVER)
        member->join_at = zk->now + zk_draw(zk, zk->options.election_min_ns / 2, zk->options.election_max_ns / 2);
}

static void plan_election(struct zookeeper *zk) {
    unsigned looking = 0;
    bool led = zk->leader >= 0 && zk_reachable(&zk->members[zk->leader]);

    for (unsigned i = 0; i < zk->count; i++)
        looking += zk->members[i].role == ROLE_LOOKING && zk_reachable(&zk->members[i]);
    if (led || looking < majority(zk))
        zk->election_at = SERVER_NEVER;
    else if (zk->election_at == SERVER_NEVER)
        zk->election_at = zk->now + zk_draw(zk, zk->options.election_min_ns, zk->options.election_max_ns);
}

void zk_quorum_changed(struct zookeeper *zk) {
    if (zk->count == 1)
        return;
    for (unsigned i = 0; i < zk->count; i++) {
        struct zookeeper_member *member = &zk->members[i];

        if (member->role == ROLE_FOLLOWING)
            zk_linked(member) ? hear_leader(member) : watch_leader(member);
        else if (member->role == ROLE_LEADING)
            watch_followers(member);
        else if (member->role == ROLE_LOOKING)
            look_for_leader(member);
    }
    plan_election(zk);
}

/* ---- Elections ------------------------------------------------------------------------------------------------------------ */

static bool takes_part(const struct zookeeper_member *member) {
    return member->role == ROLE_LOOKING && zk_reachable(member);
}

/* Anybody whose disk was not lost. -1: they all were. */
static int choose(struct zookeeper *zk) {
    int found[ZOOKEEPER_MEMBERS_MAX], count = 0;

    for (unsigned i = 0; i < zk->count; i++)
        if (takes_part(&zk->members[i]) && !zk->members[i].wiped)
            found[count++] = (int)i;
    return count ? found[zk_random(zk) % (uint64_t)count] : -1;
}

static void follow(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    struct zookeeper_member *leader = zk_leader(zk);

    stop_serving(member); /* whom it let read */
    if (member->wiped) {
        zk_tree_copy(&member->tree, &leader->tree);
        member->applied = leader->applied;
        member->wiped = false;
    }
    zk_catch_up(member);
    if (leader->tree.zxid > member->tree.zxid)
        member->tree.zxid = leader->tree.zxid; /* that of a new epoch belongs to no transaction */
    member->role = ROLE_FOLLOWING;
    member->epoch = zk->epoch;
}

static void elect(struct zookeeper *zk) {
    int chosen = choose(zk);
    struct zookeeper_member *leader;

    zk->election_at = SERVER_NEVER;
    if (chosen < 0)
        return;
    zk_log_settle(zk);
    leader = &zk->members[chosen];
    stop_serving(leader);
    zk_catch_up(leader);
    zk->leader = chosen;
    leader->role = ROLE_LEADING;
    leader->epoch = ++zk->epoch;
    zk->zxid = (int64_t)zk->epoch << 32;
    leader->tree.zxid = zk->zxid;
    if (zk->stale_head)
        zk_tree_copy(&zk->head, &leader->tree);
    zk->stale_head = false;
    zk->container_at = zk->now + zk->options.container_check_ms * ZK_MS;
    for (unsigned i = 0; i < zk->count; i++)
        if (takes_part(&zk->members[i]))
            follow(&zk->members[i]);
    zk_sessions_restart(zk);
    zk_quorum_changed(zk);
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* One that is stopped notices nothing. */
static int64_t member_due(const struct zookeeper_member *member) {
    int64_t at = member->notice_at;

    if (member->paused)
        return SERVER_NEVER;
    at = member->join_at < at ? member->join_at : at;
    return member->read_only_at < at ? member->read_only_at : at;
}

int64_t zk_quorum_due(const struct zookeeper *zk) {
    int64_t at = zk->election_at;

    for (unsigned i = 0; zk->count > 1 && i < zk->count; i++) {
        int64_t own = member_due(&zk->members[i]);

        at = own < at ? own : at;
    }
    return at;
}

static void member_step(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;

    if (member->notice_at <= zk->now) {
        give_up(member);
    } else if (member->join_at <= zk->now) {
        member->join_at = SERVER_NEVER;
        follow(member);
    } else {
        member->read_only_at = SERVER_NEVER;
        member->read_only = true;
    }
    zk_quorum_changed(zk);
}

void zk_quorum_step(struct zookeeper *zk) {
    if (zk->election_at <= zk->now) {
        elect(zk);
        return;
    }
    for (unsigned i = 0; i < zk->count; i++)
        if (member_due(&zk->members[i]) <= zk->now) {
            member_step(&zk->members[i]);
            return;
        }
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

void zookeeper_kill(struct zookeeper *zk, unsigned index, int64_t now) {
    zk_enter(zk, now);
    zk_exit(&zk->members[index]);
    zk_leave(zk);
}

/* Alone: with what its disk has. */
static void begin_alone(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;

    zk_catch_up(member);
    if (zk->stale_head)
        zk_tree_copy(&zk->head, &member->tree);
    zk->stale_head = false;
    member->role = ROLE_LEADING;
    zk->leader = 0;
    zk->zxid = member->tree.zxid;
    zk->container_at = zk->now + zk->options.container_check_ms * ZK_MS;
    zk_sessions_restart(zk);
}

void zookeeper_restart(struct zookeeper *zk, unsigned index, int64_t now) {
    struct zookeeper_member *member = &zk->members[index];

    zk_enter(zk, now);
    if (member->role == ROLE_DOWN) {
        member->disk_full = 0;
        member->role = ROLE_LOOKING;
        if (zk->count == 1)
            begin_alone(member);
        else if (zk->options.read_only)
            member->read_only_at = zk->now + READ_ONLY_MS * ZK_MS;
        zk_quorum_changed(zk);
    }
    zk_leave(zk);
}

void zookeeper_wipe(struct zookeeper *zk, unsigned index) {
    struct zookeeper_member *member = &zk->members[index];

    if (member->role != ROLE_DOWN)
        return;
    if (zk->count > 1) {
        member->wiped = true;
        return;
    }
    zk_tree_clear(&member->tree);
    zk_tree_init(&member->tree, zk->head.salt, NULL);
    member->applied = zk->committed;
    zk_sessions_clear(zk);
    zk->stale_head = true;
}

void zookeeper_pause(struct zookeeper *zk, unsigned index, int64_t now) {
    zk_enter(zk, now);
    zk->members[index].paused = zk->members[index].role != ROLE_DOWN;
    zk_quorum_changed(zk);
    zk_leave(zk);
}

/* What has run out meanwhile ends now; or what clients have sent meanwhile is heard first. */
void zookeeper_resume(struct zookeeper *zk, unsigned index, int64_t now) {
    zk_enter(zk, now);
    zk->members[index].paused = false;
    if (zk->leader == (int)index && zk->expiry_at < now && zk_random(zk) % 2)
        zk->expiry_at = now + zk_draw(zk, 0, 5 * ZK_MS);
    zk_quorum_changed(zk);
    zk_leave(zk);
}

void zookeeper_isolate(struct zookeeper *zk, unsigned index, int64_t now) {
    zk_enter(zk, now);
    zk->members[index].isolated = true;
    zk_quorum_changed(zk);
    zk_leave(zk);
}

void zookeeper_join(struct zookeeper *zk, unsigned index, int64_t now) {
    zk_enter(zk, now);
    zk->members[index].isolated = false;
    zk_quorum_changed(zk);
    zk_leave(zk);
}

bool zookeeper_is_up(const struct zookeeper *zk, unsigned index) {
    return zk->members[index].role != ROLE_DOWN;
}

bool zookeeper_is_isolated(const struct zookeeper *zk, unsigned index) {
    return zk->members[index].isolated;
}

bool zookeeper_serves(const struct zookeeper *zk, unsigned index) {
    const struct zookeeper_member *member = &zk->members[index];

    return zk_serves(member) && !member->read_only;
}

int zookeeper_leader(const struct zookeeper *zk) {
    return zk->leader;
}
