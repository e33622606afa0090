/* SPDX-License-Identifier: Apache-2.0
 *
 * shortcut.c - requests that can be left out in the queue of a mutex.
 *
 * Looking ahead: being let in without a further request.
 *
 * When the one that we wait for goes, a list would tell whether somebody else is ahead still. In a mutex that can be known
 * beforehand: if it was the only one ahead of us, in a list that had our own znode in it, then nobody can have come in between,
 * since every newcomer's number is higher. What could have happened since is that somebody deleted our own znode; so that is watched
 * too, and events come in the order of the changes. Then its deletion lets us in at once: on a busy server a list would wait
 * for the disk, with everybody behind it.
 *
 * The same if it was gone before we could watch it: then the answer about our own znode, which was asked for last, decides.
 *
 * To be there in time, a claim with two or more ahead also watches the second, and lists again when that one goes: off the critical
 * path.
 *
 * Neither is for read-write locks, where a reader with a writer's number may appear late, nor for two znodes at once (compat=kazoo).
 *
 * Queueing again, behind somebody whom we saw in the queue.
 *
 * A process that lets go of a lock that others want, and wants it again at once, would ask for a list of a queue that it has just seen. The
 * last one that stood behind it then is ahead of it now: numbers only grow, and that one had its number before our new znode was asked
 * for. While that one is there we are not first; so to watch it is enough. That request leaves together with create.
 * When that one goes there is a list, as after every wake-up, and by then only those are ahead who came in the short while in between:
 * in a busy queue one, who is about to leave. The list often finds it gone, since both were told at the same moment, and then we
 * hold; so of seven requests for a hand-off four or five are left: no watch on the one ahead, on the second, on our own znode, was needed.
 *
 *     create + get(last) --there--> QUEUED, watching it --gone--> list, and from here on as ever
 *                        --not there------------------------------^
 *
 * That its number is below ours is made sure when our own is known: somebody may have made a znode by that name with a number of his own.
 *
 * That it is still there is a guess. A wrong one costs a round trip, no more: so it is made only if that one can hardly have had its turn
 * yet. At least two stood behind us, each of whom has to be let in and to let go; the list is not old; and we let go a moment ago.
 *
 * Not for a try, which must know at once.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdlib.h>
#include <string.h>

int64_t pawl__zk_rejoin_ns = ZK_MS;

/* The list that told of it may be so many such moments old. */
enum { MOMENTS = 10 };

/* Is it for this kind of lock? */
static bool is_for(const struct zk_claim *claim) {
    return claim->layout == ZK_MUTEX && !claim->zk->kazoo && !zk_is_leased(claim);
}

/* ---- Looking ahead -------------------------------------------------------------------------------------------------------- */

static void watch_further(struct zk_claim *claim, const char *child);

static void judge(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    const char *own = pawl__zk_child(claim->at.own), *watched = pawl__zk_child(claim->watch.ahead->path);
    size_t index, second, ahead;

    if (pawl__zk_rank(ZK_MUTEX, false, own, claim->at.guid, names, (size_t)children->count, &index, &second, &ahead) !=
            ZK_RANK_BEHIND ||
        strcmp(names[index], watched) != 0)
        return; /* it is gone as well: its event is on its way, and brings a full list */
    pawl__zk_remember_last(claim, children);
    if (ahead == 1)
        claim->next_in = claim->zk->session.changes;
    else
        watch_further(claim, names[second]);
}

static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (claim && claim->state == ZK_QUEUED && claim->watch.ahead && claim->at.own && reply->rc == ZOK)
        judge(claim, reply->children);
    return ZK_NOTHING;
}

static void list(struct zk_claim *claim) {
    struct zk_op *op;

    if (claim->state == ZK_QUEUED && claim->watch.ahead && (op = pawl__zk_ask(claim, on_listed, NULL)))
        pawl__zk_list(op, claim->at.dir, NULL);
}

static int on_further_event(struct zk_asker *asker, int type) {
    struct zk_claim *claim = zk_claim_of_asker(asker);

    if (type == ZK_WATCH_MISSED)
        pawl__zk_watch_drop(claim->watch.further);
    else
        list(claim);
    return ZK_NOTHING;
}

static int on_further_watched(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    pawl__zk_watch_set(op->watch, reply->rc);
    if (claim && reply->rc == ZNONODE)
        list(claim);
    return ZK_NOTHING;
}

/* Nothing depends on it: where it fails, the usual list follows in its time. */
static void watch_further(struct zk_claim *claim, const char *child) {
    char *path = pawl__zk_text("%s/%s", claim->at.dir, child);
    struct zk_watch *watch = path ? pawl__zk_watch_new(&claim->zk->session, &claim->asker, &claim->watch.further, path, false,
                                                       on_further_event)
                                  : NULL;
    struct zk_op *op = watch ? pawl__zk_ask(claim, on_further_watched, NULL) : NULL;

    if (op)
        pawl__zk_get(op, path, watch);
    else if (watch)
        pawl__zk_watch_set(watch, ZSYSTEMERROR);
    free(path);
}

void pawl__zk_look_ahead(struct zk_claim *claim, const char *further) {
    if (!is_for(claim) || !claim->watch.ahead)
        return;
    pawl__zk_watch_own(claim);
    if (further)
        watch_further(claim, further);
    else
        claim->next_in = claim->zk->session.changes;
}

/* ---- Queueing again ------------------------------------------------------------------------------------------------------- */

void pawl__zk_remember_last(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    size_t behind, last;

    free(claim->last.name);
    claim->last.name = NULL;
    if (!is_for(claim))
        return;
    last = pawl__zk_last_behind(claim->at.own, names, (size_t)children->count, &behind);
    if (behind < 2)
        return;
    claim->last.name = strdup(names[last]);
    claim->last.at = pawl__boottime();
}

void pawl__zk_leave_last_seen(struct zk_claim *claim) {
    struct zk_last_seen *seen = &claim->zk->last_seen;

    pawl__zk_forget_last_seen(claim->zk);
    if (claim->state != ZK_HELD || !claim->last.name || !(seen->dir = strdup(claim->at.dir)))
        return;
    seen->name = claim->last.name;
    claim->last.name = NULL;
    seen->seen_at = claim->last.at;
    seen->left_at = pawl__boottime();
}

void pawl__zk_forget_last_seen(struct zk_engine *zk) {
    free(zk->last_seen.dir);
    free(zk->last_seen.name);
    zk->last_seen = (struct zk_last_seen){0};
}

static bool can_hardly_be_gone(const struct zk_last_seen *seen, int64_t now) {
    return now - seen->left_at < pawl__zk_rejoin_ns && now - seen->seen_at < MOMENTS * pawl__zk_rejoin_ns;
}

const char *pawl__zk_queue_behind(const struct zk_claim *claim) {
    const struct zk_last_seen *seen = &claim->zk->last_seen;

    if (!is_for(claim) || claim->terms.try_only || !seen->dir || strcmp(seen->dir, claim->at.dir) != 0 ||
        !can_hardly_be_gone(seen, pawl__boottime()))
        return NULL;
    return seen->name;
}

bool pawl__zk_is_behind(const struct zk_claim *claim) {
    int64_t number = INT64_MAX, last;

    pawl__zk_number(claim->at.own, &number);
    return !claim->watch.ahead || !pawl__zk_number(claim->watch.ahead->path, &last) || last < number;
}
