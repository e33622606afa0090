/* SPDX-License-Identifier: Apache-2.0
 *
 * lookahead.c - being let in without a further request.
 *
 * When the one that we wait for goes, a list would tell whether somebody else is ahead still. In a mutex that can be known
 * beforehand: if it was the only one ahead of us, in a list that had our own node in it, then nobody can have come in between,
 * since every newcomer's number is higher. What could have happened since is that somebody deleted our own node; so that is watched
 * too, and the server tells of what happened first first. Then its deletion lets us in at once: on a busy server a list would wait
 * for the disk, with everybody behind it.
 *
 * The same if it was gone before we could watch it: then the answer about our own node, which was asked for last, decides.
 *
 * To be there in time, whoever has two or more ahead also watches the second, and lists again when that one goes: off the critical
 * path.
 *
 * Not for read-write locks, where a reader with a writer's number may appear late, nor for two nodes at once (compat=kazoo).
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

bool pawl__zk_looks_ahead(const struct zk_claim *claim) {
    return claim->layout == ZK_MUTEX && !claim->zk->kazoo && !pawl__zk_leased(claim);
}

bool pawl__zk_is_next(const struct zk_claim *claim) {
    return claim->next_in_line && claim->own_watch && claim->own_watch->armed && claim->session == claim->zk->session;
}

bool pawl__zk_is_nearly_next(const struct zk_claim *claim) {
    return claim->next_in_line && claim->own_watch && !claim->own_watch->armed && claim->session == claim->zk->session;
}

static void watch_further(struct zk_claim *claim, const char *child);

static void judge(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    const char *own = strrchr(claim->node, '/') + 1, *watched = strrchr(claim->watch->path, '/') + 1;
    size_t index, second, ahead;

    if (pawl__zk_rank(ZK_MUTEX, false, own, claim->guid, names, (size_t)children->count, &index, &second, &ahead) != ZK_BEHIND ||
        strcmp(names[index], watched) != 0)
        return; /* it is gone as well: its event is on its way, and brings a full look */
    pawl__zk_remember_last(claim, children);
    if (ahead == 1)
        claim->next_in_line = true;
    else
        watch_further(claim, names[second]);
}

static void on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->claim;

    if (claim && op->round == claim->round && claim->state == ZK_QUEUED && claim->watch && claim->node && reply->rc == ZOK)
        judge(claim, reply->children);
}

static void on_event(struct zk_claim *claim, int type) {
    struct zk_op *op;

    (void)type;
    if (claim->state == ZK_QUEUED && claim->watch && (op = pawl__zk_op_new(claim->zk, claim, on_listed, NULL)))
        pawl__zk_list(op, claim->dir, NULL);
}

static void on_watch_set(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->claim;

    pawl__zk_watch_set(op->watch, reply->rc);
    if (claim && op->round == claim->round && reply->rc == ZNONODE)
        on_event(claim, ZOO_DELETED_EVENT);
}

/* Nothing depends on it: where it fails, the usual look follows in its time. */
static void watch_further(struct zk_claim *claim, const char *child) {
    char *path = pawl__zk_text("%s/%s", claim->dir, child);
    struct zk_op *op = NULL;

    if (path && (claim->far_watch = pawl__zk_watch_new(claim, path, false, on_event)))
        op = pawl__zk_op_new(claim->zk, claim, on_watch_set, NULL);
    if (op)
        pawl__zk_get(op, path, claim->far_watch);
    else if (claim->far_watch)
        pawl__zk_watch_set(claim->far_watch, ZSYSTEMERROR);
    free(path);
}

void pawl__zk_look_ahead(struct zk_claim *claim, const char *further) {
    if (!pawl__zk_looks_ahead(claim) || !claim->watch)
        return;
    pawl__zk_watch_own(claim);
    if (further)
        watch_further(claim, further);
    else
        claim->next_in_line = true;
}
