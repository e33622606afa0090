/* SPDX-License-Identifier: Apache-2.0
 *
 * rejoin.c - getting in line again, behind somebody whom we saw there.
 *
 * Whoever lets go of a lock that others want, and wants it again at once, would ask for a list of a queue that it has just seen. The
 * last one that stood behind it then is ahead of it now: numbers only grow, and that one had its number before our new node was asked
 * for. While that one is there we are not first, whoever else is; so to watch it is enough. That request leaves together with create.
 * When that one goes there is a list, as after every wake-up, and by then only those are ahead who came in the short while in between:
 * in a busy queue one, who is about to leave. The list often finds it gone, since both were told at the same moment, and then we
 * hold; so of seven requests for a hand-off four or five are left: no watch on the one ahead, on the second, on our own node, was needed.
 *
 *     create + get(last) --there--> QUEUED, watching it --gone--> list, and from here on as ever
 *                        --not there------------------------------^
 *
 * That its number is below ours is made sure when our own is known: somebody may have made a node by that name with a number of his own.
 *
 * That it is still there is a guess. A wrong one costs a round trip, no more: so it is made only if that one can hardly have had its turn
 * yet. At least two stood behind us, each of whom has to be let in and to let go; the list is not old; and we let go a moment ago.
 *
 * It is for the same locks as lookahead.c, and not for a try, which must know at once.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

int64_t pawl__zk_rejoin_ns = ZK_MS;

/* The list that told of it may be so many such moments old. */
enum { MOMENTS = 10 };

void pawl__zk_remember_last(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    size_t behind, last;

    free(claim->last);
    claim->last = NULL;
    if (!pawl__zk_looks_ahead(claim))
        return;
    last = pawl__zk_last_behind(claim->node, names, (size_t)children->count, &behind);
    if (behind < 2)
        return;
    claim->last = strdup(names[last]);
    claim->last_seen_at = pawl__boottime();
}

void pawl__zk_leave_memory(struct zk_claim *claim) {
    struct zk_memory *memory = &claim->zk->memory;

    pawl__zk_forget_memory(claim->zk);
    if (claim->state != ZK_HELD || claim->lost || !claim->last || !(memory->dir = strdup(claim->dir)))
        return;
    memory->last = claim->last;
    claim->last = NULL;
    memory->seen_at = claim->last_seen_at;
    memory->left_at = pawl__boottime();
}

void pawl__zk_forget_memory(struct zk_engine *zk) {
    free(zk->memory.dir);
    free(zk->memory.last);
    zk->memory = (struct zk_memory){0};
}

static bool can_hardly_be_gone(const struct zk_memory *memory, int64_t now) {
    return now - memory->left_at < pawl__zk_rejoin_ns && now - memory->seen_at < MOMENTS * pawl__zk_rejoin_ns;
}

bool pawl__zk_rejoin(struct zk_claim *claim) {
    const struct zk_memory *memory = &claim->zk->memory;

    if (!pawl__zk_looks_ahead(claim) || claim->try_only || !memory->dir || strcmp(memory->dir, claim->dir) != 0 ||
        !can_hardly_be_gone(memory, pawl__boottime()))
        return false;
    pawl__zk_say(claim->zk, claim, "in line again behind %s", pawl__zk_short(memory->last));
    pawl__zk_watch_ahead(claim, memory->last);
    return true;
}

void pawl__zk_rejoined(struct zk_claim *claim, int64_t number) {
    int64_t last;

    if (claim->watch && pawl__zk_number(claim->watch->path, &last) && last >= number) {
        pawl__zk_say(claim->zk, claim, "it is not ahead: looking");
        pawl__zk_look(claim);
    }
}
