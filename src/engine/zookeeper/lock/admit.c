/* SPDX-License-Identifier: Apache-2.0
 *
 * admit.c - thousands of claims of one client.
 *
 * Requests of one session are answered in the order in which they were sent, and so are its heartbeats. A client that asks for ten
 * thousand locks at once would have its heartbeats wait behind them all, and lose what it was granted first. So only ZK_ROOM requests
 * are on their way before new claims wait, here. When half of them are answered the service thread lets in as many as there is
 * room for: many at once, so that they share their lists. A claim that has begun goes on; but of thousands that wait, and are to look again
 * since the connection was cut or all were woken at once, few more look than there is room for (look_again in serve.c).
 *
 * Invariant: while somebody waits here, either more than half of ZK_ROOM requests are on their way, whose answers wake the service thread,
 * or the service thread is about to look (pawl__zk_admit), or there is no connection.
 */
#include "engine/zookeeper/lock/lock.h"

enum zk_event pawl__zk_admission(const struct zk_claim *claim) {
    const struct zk_engine *zk = claim->zk;
    const struct zk_session *session = &zk->session;

    /* A try has a caller who does not wait. */
    if (claim->terms.try_only || !zk_is_connected(session) || (session->op_count < ZK_ROOM && TAILQ_EMPTY(&zk->admission)))
        return ZK_BEGIN;
    return ZK_NO_ROOM;
}

void pawl__zk_admit(struct zk_engine *zk) {
    struct zk_claim *claim;

    if (zk->session.op_count > ZK_ROOM / 2)
        return;
    while (zk_is_connected(&zk->session) && zk->session.op_count < ZK_ROOM && (claim = TAILQ_FIRST(&zk->admission)))
        claim->asker.step(&claim->asker, ZK_BEGIN);
}
