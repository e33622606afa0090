/* SPDX-License-Identifier: Apache-2.0
 *
 * renew.c - heartbeats, which prove the session (session/proof.c) and with it all that it holds.
 *
 * A heartbeat is a multi of checks: it goes through the leader, changes nothing, wakes nobody, and finds out at the same time whether our
 * znodes are still there (NONODE: lost) and unchanged since they were made (BADVERSION: somebody asked us to give up). There is one
 * stream of them per session, for all that it holds, and only while it holds something.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdlib.h>

/* ---- Heartbeats ----------------------------------------------------------------------------------------------------------- */

struct beat {
    size_t count;
    struct {
        struct zk_claim *claim; /* NULL: withdrawn since */
        int first, last;        /* its operations */
    } claims[ZK_BEAT_ZNODES];
};

static uint32_t znode_count(const struct zk_claim *claim) {
    return claim->at.lease_count ? claim->at.lease_count : 1;
}

static bool beats(const struct zk_claim *claim) {
    return (claim->state == ZK_PROVING || claim->state == ZK_HELD) && (claim->at.own || claim->at.lease_count);
}

/* What the answer to a heartbeat means to the claim that these operations are about. */
static enum zk_event judge(const struct zk_op *op, int rc, int first, int last) {
    if (rc == ZOK)
        return ZK_CHECKED;
    for (int n = first; !pawl__zk_reply_lost(rc) && n <= last; n++)
        if (op->results[n].err != ZOK && op->results[n].err != ZRUNTIMEINCONSISTENCY)
            return op->results[n].err == ZBADVERSION ? ZK_BROKEN : ZK_GONE;
    return ZK_NOTHING;
}

static int on_beat(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_engine *zk = zk_of_op(op);
    struct beat *beat = op->data;
    bool told = false;

    zk->beats--;
    for (size_t i = 0; i < beat->count; i++) {
        struct zk_claim *claim = beat->claims[i].claim;
        enum zk_event event = claim ? judge(op, reply->rc, beat->claims[i].first, beat->claims[i].last) : ZK_NOTHING;

        if (event == ZK_NOTHING)
            continue;
        told = true;
        claim->asker.step(&claim->asker, (int)event);
    }
    /* Without an answer: once more as soon as there is a connection. With a fault: once more for the others. */
    if (reply->rc != ZOK)
        zk->beat_due = true;
    if (reply->rc != ZOK && !told && !pawl__zk_reply_lost(reply->rc))
        pawl__zk_warn(op->session, "a heartbeat failed: %s", zerror(reply->rc));
    free(beat);
    return ZK_NOTHING;
}

static void send_beat(struct zk_engine *zk, struct beat *beat, const zoo_op_t *operations, int count) {
    struct zk_op *op = pawl__zk_op_new(&zk->session, NULL, on_beat, beat);

    if (!op) {
        free(beat);
        zk->beat_due = true;
        return;
    }
    zk->beats++;
    pawl__zk_multi(op, operations, count);
}

/* Somebody deleted our znode, or changed it: that is a wish that we give up. */
static int on_own_event(struct zk_asker *asker, int type) {
    if (type == ZK_WATCH_MISSED) {
        pawl__zk_watch_drop(zk_claim_of_asker(asker)->watch.own);
        return ZK_OWN_MISSED;
    }
    return type == ZOO_DELETED_EVENT ? ZK_OWN_GONE : ZK_OWN_BROKEN;
}

static int on_own_watched(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->asker ? zk_claim_of_asker(op->asker) : NULL;
    bool changed = reply->rc == ZOK && reply->stat->version != 0;

    pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim)
        return ZK_NOTHING;
    if (changed || reply->rc == ZNONODE)
        return changed ? ZK_OWN_BROKEN : ZK_OWN_GONE;
    if (claim->state != ZK_QUEUED || !claim->gone_already) /* one that was never set is missed by no cut */
        return pawl__zk_reply_lost(reply->rc) ? ZK_OWN_MISSED : ZK_NOTHING;
    return zk_is_next(claim) ? pawl__zk_first(claim) : ZK_STALLED;
}

void pawl__zk_watch_own(struct zk_claim *claim) {
    const char *path = claim->at.lease_count ? claim->at.leases[0] : claim->at.own;
    struct zk_session *session = &claim->zk->session;
    struct zk_op *op;

    if (claim->watch.own || !path || !zk_is_connected(session))
        return; /* or by the next heartbeat */
    if (!pawl__zk_watch_new(session, &claim->asker, &claim->watch.own, path, false, on_own_event))
        return;
    if ((op = pawl__zk_ask(claim, on_own_watched, NULL)))
        pawl__zk_get(op, path, claim->watch.own);
    else
        pawl__zk_watch_set(claim->watch.own, ZSYSTEMERROR);
}

static int add_checks(struct zk_claim *claim, struct beat *beat, zoo_op_t *operations, int used) {
    beat->claims[beat->count].claim = claim;
    beat->claims[beat->count].first = used;
    for (uint32_t i = 0; i < claim->at.lease_count; i++)
        zoo_check_op_init(&operations[used++], claim->at.leases[i], 0);
    if (claim->at.lease_count == 0)
        zoo_check_op_init(&operations[used++], claim->at.own, 0);
    beat->claims[beat->count++].last = used - 1;
    return used;
}

/* Check as many claims as one request takes, beginning with `claim`. Returns the first that did not fit. */
static struct zk_claim *beat_some(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;
    zoo_op_t *operations = calloc(ZK_BEAT_ZNODES + ZK_PERMITS_MAX, sizeof *operations);
    struct beat *beat = calloc(1, sizeof *beat);
    int used = 0;

    for (; operations && beat && claim; claim = TAILQ_NEXT(claim, link)) {
        if (!beats(claim))
            continue;
        if (used && (used + (int)znode_count(claim) > ZK_BEAT_ZNODES || beat->count == ZK_BEAT_ZNODES))
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

    if (!zk->beat_due || !zk_is_connected(&zk->session) || zk->beats)
        return;
    zk->beat_due = false;
    while (claim)
        claim = beat_some(claim);
}

void pawl__zk_beat_cut(struct zk_claim *claim) {
    struct zk_op *op;

    if (!claim->zk->beats)
        return;
    TAILQ_FOREACH(op, &claim->zk->session.ops, link) {
        struct beat *beat = op->data;

        for (size_t i = 0; op->done == on_beat && i < beat->count; i++)
            if (beat->claims[i].claim == claim)
                beat->claims[i].claim = NULL;
    }
}
