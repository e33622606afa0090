/* SPDX-License-Identifier: Apache-2.0
 *
 * downgrade.c - from the write lock to a read lock, letting no writer in.
 *
 * One request makes a read znode with the write znode's own number, not a new one behind the queued writers, and removes the write znode:
 * a client that waited for that one looks again and finds the read znode in the same place. A client of Curator's that downgrades does the
 * same in two steps, from 5.5 on.
 *
 * A write znode that was changed since it was made carries a break: then there is nothing to downgrade.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int on_exchanged(struct zk_op *op, const struct zk_reply *reply) {
    if (!zk_asked(op))
        return ZK_NOTHING;
    if (reply->rc == ZOK)
        return ZK_EXCHANGED;
    if (pawl__zk_reply_lost(reply->rc))
        return ZK_STALLED;
    return reply->rc == ZBADVERSION ? ZK_BROKEN : ZK_GONE;
}

enum zk_event pawl__zk_downgrade_exchange(struct zk_claim *claim) {
    const struct ACL_vector *acl = claim->zk->session.options.acl;
    struct zk_op *op = pawl__zk_ask(claim, on_exchanged, NULL);
    zoo_op_t operations[2];
    char data[ZK_DATA_MAX], *end;

    if (!op)
        return ZK_STALLED;
    end = pawl__record_put(data, claim->zk->record, claim->claim->label);
    /* The hold keeps the write znode's token, which the read znode's own czxid does not tell. */
    snprintf(end, sizeof data - (size_t)(end - data), " token=%llu", (unsigned long long)claim->at.czxid << ZK_TOKEN_BITS);
    zoo_create_op_init(&operations[0], claim->at.twin, data, (int)strlen(data), acl, ZOO_EPHEMERAL, NULL, 0);
    zoo_delete_op_init(&operations[1], claim->at.own, 0);
    pawl__zk_multi(op, operations, 2);
    return ZK_NOTHING;
}

static bool is_child(const struct String_vector *children, const char *path) {
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], pawl__zk_child(path)) == 0)
            return true;
    return false;
}

static int on_sought(struct zk_op *op, const struct zk_reply *reply) {
    int unanswered;
    struct zk_claim *claim = zk_answered(op, reply, &unanswered);

    if (!claim)
        return unanswered;
    if (reply->rc == ZOK && is_child(reply->children, claim->at.twin))
        return ZK_WAS_EXCHANGED;
    return reply->rc == ZOK && is_child(reply->children, claim->at.own) ? ZK_EXCHANGE : ZK_GONE;
}

/* The reply was lost: which of the two znodes is there? */
enum zk_event pawl__zk_downgrade_resume(struct zk_claim *claim) {
    return pawl__zk_list_fresh(claim, claim->at.dir, on_sought, NULL);
}

/* A name for the read znode: a new GUID, the old number. False: no memory. */
static bool name_read_znode(struct zk_claim *claim) {
    const char *digits = claim->at.own + strlen(claim->at.own) - ZK_DIGITS;
    unsigned char random[16];

    if (!pawl__random(random, sizeof random))
        return false;
    pawl__zk_guid_format(claim->terms.keeps ? ZK_KEEPS : 1, random, claim->at.guid);
    claim->at.twin = pawl__zk_text("%s/_c_%s-%s%s", claim->at.dir, claim->at.guid, pawl__zk_read_name, digits);
    return claim->at.twin != NULL;
}

enum zk_event pawl__zk_downgrade_begin(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    pawl__zk_watch_leave(claim->watch.own); /* the exchange fires it */
    pawl__zk_keep_end(claim);
    if (!claim->at.own || !name_read_znode(claim))
        return ZK_GONE;
    return zk_is_connected(&claim->zk->session) ? ZK_EXCHANGE : ZK_STALLED;
}
