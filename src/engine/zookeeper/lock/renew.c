/* SPDX-License-Identifier: Apache-2.0
 *
 * renew.c - how long a hold is assured, and the requests that renew it.
 *
 * Why pings are not enough: a follower that is cut off from its leader goes on answering pings and reads for a while, though the leader
 * has let the session expire and others hold its locks. A request that goes through the leader can't be answered then. So a heartbeat
 * is a multi of checks: it goes through the leader, changes nothing, wakes nobody, and finds out at the same time whether our nodes are
 * still there (NONODE: lost) and unchanged since they were made (BADVERSION: somebody asked us to give up). There is one stream of them
 * per session, for all that it holds, and only while it holds something.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>

/* THE BOUND. When, counted from the sending of a request that went through the leader and was answered, might the session expire?
 *
 * A session of T expires at the leader T after the last sign of life that the leader has heard of. Followers pass these on with their
 * answers to the leader's pings, every half tick; a request that they forward is none by itself. So if our follower is cut off right
 * after it answered, the leader knows of what we sent up to half a tick before that; and the packet that we sent last before that
 * moment was at most one ping interval, T/3, older; more, if this process was too starved to ping in time. Hence
 *
 *     T - T/3 - tick/2 - how late we were
 *
 * The client is not told the tick. A server does not grant sessions of less than two ticks unless its administrator says otherwise, so
 * half a tick is at most T/4, and what is left is 5T/12. `?tick=` says better. The server rounds expiry up, never down. Clocks that run
 * at different speeds are seen to by lease.c, which takes off a hundredth.
 *
 * What it rests on: that the leader asks for its followers' reports in time. Nothing that a client may ask makes the leader count from
 * now: a request that a follower forwards is checked against the session and does not prolong it, and only who is connected to the leader
 * itself, or connects anew, does. So a leader that stands still for so long that G goes by between two reports, lets a request through when
 * it goes on, and looks at its clock before the next report, ends a session that was proved a moment ago; G is
 *
 *     T - assured - the time since we last sent something before
 *
 * which is T/4 where we only pinged, and 4T/9 while we hold and beat; half a tick of it is used up as it is. With T of 15 s and a tick of
 * 2 s the leader may be late by 2.7 s and 5.6 s; where T is two ticks, not at all and by 0.2 T. No bound closes that, since a server
 * may stand still for as long as it likes; a longer session makes it rarer in proportion. (docs/guarantees.md: what is not promised.) */
int64_t pawl__zk_assured(int64_t timeout_ns, int64_t tick_ns, int64_t late_ns) {
    int64_t assured = timeout_ns - timeout_ns / 3 - (tick_ns ? tick_ns / 2 : timeout_ns / 4) - late_ns;

    return assured > 0 ? assured : 0;
}

/* What the core gets as the lease: it renews at a third of that (5T/36, more often than T/6), calls it suspect at two thirds, and lost a
 * little before its end. */
int64_t pawl__zk_lease_ns(const struct zk_engine *zk, int64_t sent_at) {
    int64_t late = 0, overdue = sent_at - zk->interest_due;

    /* Lateness counts while the leader may still not have heard of what came after it. */
    if (zk->late_at && sent_at - zk->late_at <= (zk->tick_ns ? zk->tick_ns / 2 : zk->timeout_ns / 4))
        late = zk->late_ns;
    if (zk->interest_due && overdue > late)
        late = overdue;
    return pawl__zk_assured(zk->timeout_ns, zk->tick_ns, late);
}

/* ---- Heartbeats ----------------------------------------------------------------------------------------------------------- */

struct beat {
    size_t count;
    struct {
        struct zk_claim *claim; /* NULL: withdrawn since */
        int first, last;        /* its operations */
    } claims[ZK_BEAT_NODES];
};

static uint32_t node_count(const struct zk_claim *claim) {
    return claim->lease_count ? claim->lease_count : 1;
}

static bool beats(const struct zk_claim *claim) {
    return (claim->state == ZK_PROVING || (claim->state == ZK_HELD && !claim->lost)) && (claim->node || claim->lease_count);
}

/* The claim's node at operation `index` was not as it should be. */
static void fault(struct zk_claim *claim, int rc) {
    const char *name = claim->claim->name;

    if (claim->state == ZK_PROVING) {
        pawl__zk_start(claim); /* deleted, or broken before it was ever held: it queues anew */
    } else if (rc == ZBADVERSION) {
        pawl__zk_say(claim->zk, claim, "the node was changed: broken");
        pawl__zk_lose(claim, true, "the hold of '%s' was broken by an operator: stop and release it", name);
    } else {
        pawl__zk_say(claim->zk, claim, "the node is gone: lost");
        pawl__zk_lose(claim, false, "the node that held '%s' was deleted by somebody else", name);
    }
}

static void on_beat(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_engine *zk = op->zk;
    struct beat *beat = op->data;
    bool told = false;

    zk->beats--;
    for (size_t i = 0; i < beat->count; i++) {
        struct zk_claim *claim = beat->claims[i].claim;

        if (!claim)
            continue;
        if (reply->rc == ZOK)
            pawl__zk_checked(claim, op->sent_at);
        for (int n = beat->claims[i].first; reply->rc != ZOK && !pawl__zk_reply_lost(reply->rc) && n <= beat->claims[i].last; n++) {
            int rc = op->results[n].err;

            if (rc == ZOK || rc == ZRUNTIMEINCONSISTENCY)
                continue;
            fault(claim, rc);
            told = true;
            break;
        }
    }
    /* Without an answer: once more as soon as there is a connection. With a fault: once more for the others. */
    if (reply->rc != ZOK)
        zk->beat_due = true;
    if (reply->rc != ZOK && !told && !pawl__zk_reply_lost(reply->rc))
        pawl__zk_warn(zk, "a heartbeat failed: %s", zerror(reply->rc));
    free(beat);
}

static void send_beat(struct zk_engine *zk, struct beat *beat, const zoo_op_t *operations, int count) {
    struct zk_op *op = pawl__zk_op_new(zk, NULL, on_beat, beat);

    if (!op) {
        free(beat);
        zk->beat_due = true;
        return;
    }
    zk->beats++;
    pawl__zk_multi(op, operations, count);
}

/* Somebody deleted our node, or changed it: that is a wish that we give up. */
static void on_own_event(struct zk_claim *claim, int type) {
    if (claim->state == ZK_HELD && !claim->lost)
        fault(claim, type == ZOO_DELETED_EVENT ? ZNONODE : ZBADVERSION);
    else if (claim->state == ZK_QUEUED)
        pawl__zk_look(claim); /* it finds out that the node is gone, and queues anew */
    else
        claim->zk->beat_due = true;
}

static void on_own_watched(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->claim;
    bool changed = reply->rc == ZOK && reply->stat->version != 0;

    pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim)
        return;
    if (changed || reply->rc == ZNONODE)
        on_own_event(claim, changed ? ZOO_CHANGED_EVENT : ZOO_DELETED_EVENT);
    else if (claim->state == ZK_QUEUED && claim->gone_already && pawl__zk_is_next(claim))
        pawl__zk_grant(claim);
    else if (claim->state == ZK_QUEUED && claim->gone_already)
        pawl__zk_stall(claim);
}

void pawl__zk_watch_own(struct zk_claim *claim) {
    const char *path = claim->lease_count ? claim->leases[0] : claim->node;
    struct zk_op *op;

    if (claim->own_watch || !path || !claim->zk->connected)
        return; /* or by the next heartbeat */
    claim->own_watch = pawl__zk_watch_new(claim, path, false, on_own_event);
    op = claim->own_watch ? pawl__zk_op_new(claim->zk, claim, on_own_watched, NULL) : NULL;
    if (op)
        pawl__zk_get(op, path, claim->own_watch);
    else if (claim->own_watch)
        pawl__zk_watch_set(claim->own_watch, ZSYSTEMERROR);
}

static int add_checks(struct zk_claim *claim, struct beat *beat, zoo_op_t *operations, int used) {
    beat->claims[beat->count].claim = claim;
    beat->claims[beat->count].first = used;
    for (uint32_t i = 0; i < claim->lease_count; i++)
        zoo_check_op_init(&operations[used++], claim->leases[i], 0);
    if (claim->lease_count == 0)
        zoo_check_op_init(&operations[used++], claim->node, 0);
    beat->claims[beat->count++].last = used - 1;
    return used;
}

/* Check as many claims as one request takes, beginning with `claim`. Returns the first that did not fit. */
static struct zk_claim *beat_some(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;
    zoo_op_t *operations = calloc(ZK_BEAT_NODES + ZK_PERMITS_MAX, sizeof *operations);
    struct beat *beat = calloc(1, sizeof *beat);
    int used = 0;

    for (; operations && beat && claim; claim = TAILQ_NEXT(claim, link)) {
        if (!beats(claim))
            continue;
        if (used && (used + (int)node_count(claim) > ZK_BEAT_NODES || beat->count == ZK_BEAT_NODES))
            break;
        used = add_checks(claim, beat, operations, used);
    }
    if (used) {
        send_beat(zk, beat, operations, used);
    } else {
        free(beat);
        claim = NULL; /* nobody, or no memory: the next renewal tries again */
    }
    free(operations);
    return claim;
}

void pawl__zk_beat(struct zk_engine *zk) {
    struct zk_claim *claim = TAILQ_FIRST(&zk->claims);

    if (!zk->beat_due || !zk->connected || zk->beats)
        return;
    zk->beat_due = false;
    while (claim)
        claim = beat_some(claim);
}

void pawl__zk_beat_cut(struct zk_claim *claim) {
    struct zk_op *op;

    if (!claim->zk->beats)
        return;
    TAILQ_FOREACH(op, &claim->zk->ops, link) {
        struct beat *beat = op->data;

        for (size_t i = 0; op->done == on_beat && i < beat->count; i++)
            if (beat->claims[i].claim == claim)
                beat->claims[i].claim = NULL;
    }
}

void pawl__zk_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct zk_engine *zk = zk_of(engine);

    (void)claim; /* all that is held is renewed by the same request */
    pawl__zk_lock();
    zk->beat_due = true;
    pawl__zk_unlock(zk);
    pawl__zk_wake(engine);
}
