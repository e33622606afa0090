/* SPDX-License-Identifier: Apache-2.0
 *
 * keep.c - claims that are kept: held by the process while nobody in it holds. Somebody else who wants the lock must be heard of.
 *
 * Everybody who wants a lock makes a znode in its directory: pawl, Curator, Kazoo. So a claim that may be kept lists the directory with
 * a watch: when it is first kept, or when it is held for so long that a request does not matter (ZK_WATCH_OWN_NS). The list tells of those
 * who came before the server worked on it, the event of all who come later: nothing falls in between. After an event it lists again.
 *
 * THE RULE. A kept claim may be entered again while it is heard, and it is heard from when such a list was sent until
 *
 *     - a list says that others want it; then the core is told, once, and the claim is not kept any more;
 *     - the connection over which the list was sent is cut, or the list is not answered by the server;
 *     - its own znode is lost or broken.
 *
 * Nobody waits for the answer. What it will say comes over the same connection as an event would, and as soon: to enter while a list is
 * on its way is the same as to enter while an event is. If it were waited for, a process that takes a lock again at once would never
 * find its claim heard. Over a connection that has gone silent unnoticed come neither answers nor events. Then the end of what is assured
 * is the bound, as for those who wait for a holder that is cut off.
 *
 * After a cut nothing is heard until a list was sent over the new connection. The list of a server that lags behind does not show those
 * who came lately; but that server has the watch, which fires when it learns of them.
 *
 * Whether the znode is still ours is not decided here: a claim is entered only while it is assured, which the core sees to.
 *
 * A try of another client's, or of a pawl that does not know of this, comes and goes at once, and the list after the event does not show
 * it. So a mutex or a writer that finds as many children as before is wanted, too: the next try finds it free.
 *
 * Readers: every reader that comes or goes fires the watches of all that are kept. So one that may be kept lists at most once in
 * READERS_NS; a writer that comes meanwhile is heard of that much later.
 *
 * In the GUID of such a claim stands ZK_KEEPS instead of a limit. A try that finds only such claims in its way, or a claim of another
 * kind, waits a little: its own znode is what the others hear of.
 */
#include "engine/zookeeper/lock/lock.h"

/* How soon a reader's claim lists its queue again. */
#define READERS_NS (10 * ZK_MS)
/* After a list that failed though the connection stands. */
#define AGAIN_NS (100 * ZK_MS)
/* Who waits for kept claims does so for so many round trips, within these bounds. */
#define RECALL_MIN_NS (20 * ZK_MS)
#define RECALL_MAX_NS (2 * ZK_S)
enum { RECALL_ROUNDS = 8 };

static bool is_shared(const struct zk_claim *claim) {
    return claim->terms.mode == PAWL_SHARED;
}

/* ---- Who wants it? --------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct zk_claim *claim, const struct String_vector *children) {
    return pawl__zk_is_wanted(claim->layout, is_shared(claim), pawl__zk_child(claim->at.own), claim->at.guid,
                              (const char *const *)children->data, (size_t)children->count);
}

void pawl__zk_keep_listed(struct zk_claim *claim, const struct String_vector *children) {
    claim->keep.wanted = claim->terms.keeps && is_wanted(claim, children);
}

static int on_event(struct zk_asker *asker, int type) {
    if (type == ZK_WATCH_MISSED) {
        pawl__zk_watch_drop(zk_claim_of_asker(asker)->watch.queue);
        return ZK_QUEUE_MISSED;
    }
    return ZK_QUEUE_CHANGED;
}

/* Has somebody been there since the last list, whom this one does not show? */
static bool came_and_went(struct zk_claim *claim, int children) {
    bool same = children == claim->keep.children;

    claim->keep.children = children;
    return same && !is_shared(claim);
}

static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim || !claim->at.own)
        return ZK_NOTHING;
    if (pawl__zk_reply_lost(reply->rc))
        return ZK_QUEUE_MISSED;
    if (reply->rc != ZOK) /* it may not list any more, or its directory is gone: then nobody is heard of */
        return ZK_WANTED;
    return came_and_went(claim, reply->children->count) || is_wanted(claim, reply->children) ? ZK_WANTED : ZK_NOTHING;
}

/* List the queue, and be told when it changes. */
static void watch_queue(struct zk_claim *claim) {
    struct zk_session *session = &claim->zk->session;
    struct zk_watch *watch;
    struct zk_op *op;

    if (!(watch = pawl__zk_watch_new(session, &claim->asker, &claim->watch.queue, claim->at.dir, true, on_event)))
        return;
    if (!(op = pawl__zk_ask(claim, on_listed, NULL))) {
        pawl__zk_watch_set(watch, ZSYSTEMERROR);
        return;
    }
    pawl__zk_list(op, claim->at.dir, watch);
    claim->keep.listed_at = pawl__boottime();
    atomic_store_explicit(&claim->keep.heard, session->changes, memory_order_relaxed);
}

/* Can it be heard, and is it not yet known to be wanted? */
static bool may_listen(const struct zk_claim *claim) {
    return claim->terms.keeps && claim->state == ZK_HELD && !claim->keep.wanted && claim->at.own &&
           zk_is_connected(&claim->zk->session);
}

/* ---- What the table does --------------------------------------------------------------------------------------------------- */

enum zk_event pawl__zk_keep_look(struct zk_claim *claim) {
    int64_t due = is_shared(claim) && claim->keep.listed_at ? claim->keep.listed_at + READERS_NS : 0;

    if (!may_listen(claim) || claim->watch.queue)
        return ZK_NOTHING;
    if (pawl__boottime() < due)
        pawl__zk_look_at(claim, due);
    else
        watch_queue(claim);
    return ZK_NOTHING;
}

enum zk_event pawl__zk_keep_missed(struct zk_claim *claim) {
    claim->keep.children = 0;
    atomic_store_explicit(&claim->keep.heard, 0, memory_order_relaxed);
    pawl__zk_look_at(claim, pawl__boottime() + (zk_is_connected(&claim->zk->session) ? AGAIN_NS : 0));
    return ZK_NOTHING;
}

enum zk_event pawl__zk_keep_wanted(struct zk_claim *claim) {
    pawl__zk_say_of(claim, "others want it");
    claim->keep.wanted = true;
    pawl__zk_keep_end(claim);
    pawl__zk_tell(claim, ZK_TELL_WANTED);
    return ZK_NOTHING;
}

/* The watch fires when its own znode goes, and tells nothing new then. */
void pawl__zk_keep_end(struct zk_claim *claim) {
    claim->keep.children = 0;
    atomic_store_explicit(&claim->keep.heard, 0, memory_order_relaxed);
    pawl__zk_watch_leave(claim->watch.queue);
}

/* ---- What the seam asks ---------------------------------------------------------------------------------------------------- */

bool pawl__zk_is_heard(const struct zk_claim *claim) {
    uint64_t heard = atomic_load(&claim->keep.heard);

    return heard && heard == atomic_load(&claim->zk->session.changes);
}

void pawl__zk_keep_begin(struct zk_claim *claim) {
    if (may_listen(claim) && !claim->watch.queue)
        watch_queue(claim);
}

/* ---- The other side: waiting for claims that are kept ---------------------------------------------------------------------- */

/* The answer to our own create has just come, so that the time since it left is a round trip; or more, which does no harm. */
static int64_t recall_ns(const struct zk_session *session, int64_t now) {
    int64_t span = RECALL_ROUNDS * (now - session->proofs.sent);

    return span < RECALL_MIN_NS ? RECALL_MIN_NS : span > RECALL_MAX_NS ? RECALL_MAX_NS : span;
}

bool pawl__zk_may_recall(struct zk_claim *claim) {
    int64_t now = pawl__boottime();

    if (claim->recall_until == 0)
        claim->recall_until = now + recall_ns(&claim->zk->session, now);
    return now < claim->recall_until;
}
