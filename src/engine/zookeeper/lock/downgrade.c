/* SPDX-License-Identifier: Apache-2.0
 *
 * downgrade.c - from the write lock to a read lock, letting no writer in.
 *
 * One request makes a read node with the write node's own number, not a new one behind the queued writers, and removes the write node:
 * whoever waited for that one looks again and finds the read node in the same place. A client of Curator's that downgrades does the
 * same in two steps, from 5.5 on.
 *
 * A write node that was changed since it was made carries a break: then there is nothing to downgrade.
 */
#include "engine/zookeeper/zk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void exchanged(struct zk_claim *claim) {
    free(claim->node);
    claim->node = claim->twin;
    claim->twin = NULL;
    claim->mode = PAWL_SHARED;
    pawl__zk_look_at(claim, pawl__boottime() + ZK_WATCH_OWN_NS);
    pawl__zk_set_state(claim, ZK_HELD);
    pawl__zk_say(claim->zk, claim, "downgraded: %s", pawl__zk_short(claim->node));
    pawl__zk_tell(claim, ZK_TELL_DOWNGRADED);
}

static void failed(struct zk_claim *claim, bool broken) {
    pawl__zk_set_state(claim, ZK_HELD);
    if (broken)
        pawl__zk_lose(claim, true, "the hold of '%s' was broken by an operator: stop and release it", claim->claim->name);
    else
        pawl__zk_lose(claim, false, "the node that held '%s' was deleted by somebody else", claim->claim->name);
    pawl__zk_tell(claim, ZK_TELL_DOWNGRADED);
}

static void on_exchanged(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (reply->rc == ZOK) {
        exchanged(claim);
        pawl__zk_checked(claim, op->sent_at); /* as good as a heartbeat; one that was answered meanwhile did not count */
    } else if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
    } else {
        failed(claim, reply->rc == ZBADVERSION);
    }
}

static void exchange(struct zk_claim *claim) {
    struct zk_op *op = pawl__zk_op_new(claim->zk, claim, on_exchanged, NULL);
    zoo_op_t operations[2];
    char data[ZK_DATA_MAX];

    if (!op) {
        pawl__zk_stall(claim);
        return;
    }
    /* The hold keeps the write node's token, which the read node's own czxid does not tell. */
    snprintf(data, sizeof data, "%s token=%llu", claim->zk->record, (unsigned long long)claim->czxid << ZK_TOKEN_BITS);
    zoo_create_op_init(&operations[0], claim->twin, data, (int)strlen(data), pawl__zk_acl(claim->zk), ZOO_EPHEMERAL, NULL, 0);
    zoo_delete_op_init(&operations[1], claim->node, 0);
    pawl__zk_multi(op, operations, 2);
}

static bool is_child(const struct String_vector *children, const char *path) {
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], strrchr(path, '/') + 1) == 0)
            return true;
    return false;
}

static void on_sought(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
    } else if (reply->rc == ZOK && is_child(reply->children, claim->twin)) {
        exchanged(claim);
        claim->zk->beat_due = true; /* those that were due meanwhile left it out */
    } else if (reply->rc == ZOK && is_child(reply->children, claim->node)) {
        exchange(claim);
    } else {
        failed(claim, false);
    }
}

/* The reply was lost: which of the two nodes is there? */
void pawl__zk_downgrade_resume(struct zk_claim *claim) {
    pawl__zk_list_fresh(claim, claim->dir, on_sought, NULL);
}

/* A name for the read node: a new GUID, the old number. False: no memory. */
static bool name_read_node(struct zk_claim *claim) {
    const char *digits = claim->node + strlen(claim->node) - ZK_DIGITS;
    unsigned char random[16];

    if (!pawl__random(random, sizeof random))
        return false;
    pawl__zk_guid_format(1, random, claim->guid);
    claim->twin = pawl__zk_text("%s/_c_%s-%s%s", claim->dir, claim->guid, pawl__zk_read_name, digits);
    return claim->twin != NULL;
}

int pawl__zk_downgrade(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);

    pawl__zk_lock();
    pawl__zk_next_round(claim);
    pawl__zk_set_state(claim, ZK_DOWNGRADING);
    if (claim->own_watch) { /* the exchange fires it */
        claim->own_watch->claim = NULL;
        claim->own_watch = NULL;
    }
    if (!claim->node || claim->session != zk->session || !name_read_node(claim)) {
        failed(claim, false); /* its session is gone: the news of that are on their way */
        pawl__zk_wake(engine);
    } else if (zk->connected) {
        exchange(claim);
    } else {
        claim->stalled = true;
    }
    pawl__zk_unlock(zk);
    return PAWL__PENDING;
}
