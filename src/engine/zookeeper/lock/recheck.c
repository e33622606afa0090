/* SPDX-License-Identifier: Apache-2.0
 *
 * recheck.c - what if the event never comes?
 *
 * A waiter relies on one event: that the znode ahead of it goes. It comes from the server that we are connected to, if that one
 * knows. There are releases of ZooKeeper whose servers lose a transaction when the leader changes (ZOOKEEPER-4712, ZOOKEEPER-4785):
 * they go on showing znodes that all others have deleted, and a client that waits there waits for ever.
 *
 * So a claim that has waited for long asks the leader whether that znode is there. A check goes through the leader, as a heartbeat
 * does, and its answer comes after all events that our server had to send until then. If it says that the znode is not there, and the
 * watch has not fired, then the event will never come. Then we leave that server: at the next one all waiters ask again, and hear of
 * what was missed.
 *
 * This is a net below the algorithm, not a part of it: a waiter asks every few sessions, some waiters at a time, and what is caught
 * is warned of. A semaphore's wait for leases is for no znode in particular: there the leases are listed again. Before that it asks for its
 * own place in `locks`: where somebody has deleted that, another makes leases as well, and there may never be room for both.
 */
#include "engine/zookeeper/lock/lock.h"

/* So many waiters ask at a time: heartbeats must not wait behind them. */
enum { AT_ONCE = 64 };

int64_t pawl__zk_recheck_sessions = 8; /* so many session times a claim waits before it looks again; tests lower it */

static bool waits(const struct zk_claim *claim) {
    return (claim->state == ZK_QUEUED || claim->state == ZK_LEASING) && claim->watch.ahead &&
           claim->watch.ahead->state == ZK_WATCH_ARMED;
}

static int on_checked(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim || !waits(claim) || reply->rc != ZNONODE)
        return ZK_NOTHING;
    pawl__zk_warn(op->session, "'%s' was left waiting for %s, which is gone: this server did not say so; going to another",
                  claim->claim->name, pawl__zk_short(claim->watch.ahead->path));
    pawl__zk_leave_server(op->session);
    return ZK_NOTHING;
}

static int on_place_checked(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim || !waits(claim) || (reply->rc != ZOK && reply->rc != ZNONODE))
        return ZK_NOTHING;
    return reply->rc == ZOK ? ZK_RESUME : ZK_BEGIN;
}

static void ask(struct zk_claim *claim) {
    bool leases = claim->state == ZK_LEASING;
    struct zk_op *op = pawl__zk_ask(claim, leases ? on_place_checked : on_checked, NULL);
    zoo_op_t check;

    if (!op)
        return; /* next time */
    pawl__zk_say_of(claim, "waits for long: asking the leader");
    zoo_check_op_init(&check, leases ? claim->at.own : claim->watch.ahead->path, -1);
    pawl__zk_multi(op, &check, 1);
}

int64_t pawl__zk_recheck(struct zk_engine *zk, int64_t now) {
    int64_t span = zk->session.timeout_ns;
    struct zk_claim *claim;
    int asked = 0;

    if (!zk_is_connected(&zk->session))
        return PAWL__NEVER;
    if (now < zk->recheck_at)
        return zk->recheck_at;
    TAILQ_FOREACH(claim, &zk->claims, link) {
        if (!waits(claim) || now - claim->waits_since < pawl__zk_recheck_sessions * span)
            continue;
        claim->waits_since = now;
        ask(claim);
        if (++asked == AT_ONCE)
            break;
    }
    zk->recheck_at = now + span;
    return zk->recheck_at;
}
