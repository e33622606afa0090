/* SPDX-License-Identifier: Apache-2.0
 *
 * znode.c - a claim's znode: the directories on the way to it, making it, and finding it again when the reply was lost.
 *
 * Directories are containers, as Curator makes them: the server removes them a while after their last child has left. So one may be
 * missing at any time, and a create that says so is sent again after they were made.
 *
 * With compat=kazoo a mutex has a second znode, which stock Kazoo counts and Curator does not: both are made by one request.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pawl__zk_znodes_forget(struct zk_claim *claim) {
    struct zk_znodes *at = &claim->at;

    free(at->own);
    free(at->twin);
    for (uint32_t i = 0; i < at->lease_count; i++)
        free(at->leases[i]);
    free(at->leases);
    at->own = at->twin = NULL;
    at->leases = NULL;
    at->lease_count = 0;
}

/* ---- Directories ---------------------------------------------------------------------------------------------------------- */

static int on_prefix_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    /* No node: its parent could not be made, and that answer said why. */
    if (!claim || reply->rc == ZOK || reply->rc == ZNODEEXISTS || reply->rc == ZNONODE)
        return ZK_NOTHING;
    if (reply->rc == ZNOAUTH) { /* it may be there all the same: the last answer tells */
        pawl__zk_explain(claim->claim->name, reply->rc, "make", claim->at.home, &claim->why);
        return ZK_NOTHING;
    }
    return pawl__zk_not_made(claim, reply->rc, "make", claim->at.home);
}

bool pawl__zk_make_path(struct zk_claim *claim, const char *path, zk_done_fn *done) {
    char *prefix = strdup(path);
    bool last = false;

    if (!prefix)
        return false;
    claim->why.code = 0;
    for (char *slash = strchr(prefix + 1, '/'); !last; slash = last ? NULL : strchr(slash + 1, '/')) {
        struct zk_op *op;

        last = slash == NULL;
        op = pawl__zk_ask(claim, last ? done : on_prefix_made, NULL);
        if (!op) {
            free(prefix);
            return false;
        }
        if (slash)
            *slash = '\0';
        pawl__zk_create(op, prefix, "", 0, ZOO_CONTAINER);
        if (slash)
            *slash = '/';
    }
    free(prefix);
    return true;
}

static int on_directory_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim)
        return ZK_NOTHING;
    if (reply->rc == ZNONODE && claim->why.code == PAWL_EACCES) /* those above are missing, and may not be made */
        return ZK_REFUSED;
    if (reply->rc == ZOK || reply->rc == ZNODEEXISTS || reply->rc == ZNONODE) /* gone again: once more */
        return ZK_BEGIN;
    return pawl__zk_not_made(claim, reply->rc, "make", claim->at.dir);
}

/* The directory is missing: never made, or reaped in a moment when it was empty. */
enum zk_event pawl__zk_directory_make(struct zk_claim *claim) {
    pawl__zk_next_number(claim);
    pawl__zk_say_of(claim, "no %s: made", claim->at.dir);
    return pawl__zk_make_path(claim, claim->at.dir, on_directory_made) ? ZK_NOTHING : ZK_STALLED;
}

static int on_cleared(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim)
        return ZK_NOTHING;
    if (reply->rc == ZOK || reply->rc == ZNONODE)
        return ZK_NO_DIRECTORY;
    if (pawl__zk_reply_lost(reply->rc))
        return ZK_STALLED;
    return pawl__zk_refuse(claim, PAWL_EOVERFLOW,
                           "'%s': the sequence numbers of %s are nearly used up; they start at 0 again once all holders and "
                           "waiters have left: let them "
                           "leave, and try again",
                           claim->claim->name, claim->at.dir);
}

/* The way out of a sequence near its end: an empty directory is removed, and its successor counts from 0. */
enum zk_event pawl__zk_directory_clear(struct zk_claim *claim) {
    struct zk_op *op;

    pawl__zk_say_of(claim, "sequence near its end: removing %s if it is empty", claim->at.dir);
    pawl__zk_sweep_claim(claim);
    pawl__zk_next_number(claim);
    pawl__zk_znodes_forget(claim);
    if (!(op = pawl__zk_ask(claim, on_cleared, NULL)))
        return ZK_STALLED;
    pawl__zk_delete(op, claim->at.dir);
    return ZK_NOTHING;
}

/* ---- The znode ------------------------------------------------------------------------------------------------------------ */

static const char *marker(const struct zk_claim *claim) {
    if (claim->layout == ZK_MUTEX)
        return pawl__zk_lock_name;
    return claim->terms.mode == PAWL_SHARED ? pawl__zk_read_name : pawl__zk_write_name;
}

/* The znode is there: is it ours? Then `event`. */
static enum zk_event take_znode(struct zk_claim *claim, const char *path, const struct Stat *stat, enum zk_event event) {
    int64_t number = INT64_MAX;

    if (stat->ephemeralOwner != claim->zk->session.id) /* of an earlier session of ours, which is dying: not ours any more */
        return ZK_BEGIN;
    if (!claim->at.own && !(claim->at.own = strdup(path)))
        return ZK_STALLED;
    claim->at.czxid = stat->czxid;
    claim->at.session = claim->zk->session.number;
    pawl__zk_say_of(claim, "created %s", pawl__zk_short(claim->at.own));
    if (stat->czxid >> (63 - ZK_TOKEN_BITS))
        return pawl__zk_refuse(claim, PAWL_EOVERFLOW, "'%s': the ensemble's epoch is too high for fencing tokens",
                               claim->claim->name);
    if (stat->czxid == 0) /* so no server says, and 0 is no token */
        return pawl__zk_refuse(claim, PAWL_EFORMAT, "'%s': ZooKeeper says that transaction 0 made %.190s: that can't be",
                               claim->claim->name, claim->at.own);
    if (pawl__zk_number(claim->at.own, &number) && (number < 0 || number >= pawl__zk_sequence_limit))
        return ZK_NEAR_END;
    return event;
}

/* The answer came too late for its claim: see that the znode goes. */
static void disown(struct zk_op *op, const struct zk_reply *reply) {
    if (pawl__zk_is_busy(reply->rc))
        return;
    if (reply->rc == ZOK && reply->path)
        pawl__zk_sweep_path(zk_of_op(op), reply->path);
    else if (pawl__zk_reply_lost(reply->rc) || reply->rc == ZOK)
        pawl__zk_sweep_guid(zk_of_op(op), op->where, op->mark);
}

static int on_created(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim) {
        disown(op, reply);
        return ZK_NOTHING;
    }
    if (reply->rc == ZOK)
        return take_znode(claim, reply->path, reply->stat, ZK_CREATED);
    if (reply->rc == ZNONODE)
        return ZK_NO_DIRECTORY;
    return pawl__zk_not_made(claim, reply->rc, "create a node in", claim->at.dir);
}

/* ---- compat=kazoo: two znodes by one request ------------------------------------------------------------------------------ */

struct twins {
    char paths[2][ZK_CHILD_MAX];
};

static int on_twins(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    free(op->data);
    if (!claim) {
        disown(op, &(struct zk_reply){.rc = reply->rc});
        return ZK_NOTHING;
    }
    if (reply->rc == ZOK)
        return ZK_SEEK; /* the server says nothing about czxid here: ask */
    if (reply->rc == ZNONODE)
        return ZK_NO_DIRECTORY;
    return pawl__zk_not_made(claim, reply->rc, "create a node in", claim->at.dir);
}

static void create_twins(struct zk_claim *claim, struct zk_op *op, const char *data) {
    const struct ACL_vector *acl = claim->zk->session.options.acl;
    struct twins *twins = calloc(1, sizeof *twins);
    char *first_path = pawl__zk_text("%s/_c_%s-%s", claim->at.dir, claim->at.guid, pawl__zk_lock_name);
    char *second_path = pawl__zk_text("%s/_c_%s-z%s", claim->at.dir, claim->at.guid, pawl__zk_kazoo_name);
    zoo_op_t operations[2];

    op->done = on_twins;
    op->data = twins;
    if (twins && first_path && second_path) {
        zoo_create_op_init(&operations[0], first_path, data, (int)strlen(data), acl, ZOO_EPHEMERAL | ZOO_SEQUENCE, twins->paths[0],
                           sizeof twins->paths[0]);
        zoo_create_op_init(&operations[1], second_path, data, (int)strlen(data), acl, ZOO_EPHEMERAL | ZOO_SEQUENCE, twins->paths[1],
                           sizeof twins->paths[1]);
        pawl__zk_multi(op, operations, 2);
    } else {
        pawl__zk_op_fail(op, ZSYSTEMERROR);
    }
    free(first_path);
    free(second_path);
}

void pawl__zk_znode_data(const struct zk_claim *claim, char data[ZK_DATA_MAX]) {
    char *end = pawl__record_put(data, claim->zk->record, claim->claim->label);

    if (zk_is_leased(claim))
        snprintf(end, ZK_DATA_MAX - (size_t)(end - data), " kind=%s permits=%u limit=%u",
                 claim->terms.kind == PAWL_SEMAPHORE ? "semaphore" : "mutex", claim->terms.permits, claim->terms.limit);
}

bool pawl__zk_znode_create(struct zk_claim *claim) {
    char *path = pawl__zk_text("%s/_c_%s-%s", claim->at.dir, claim->at.guid, marker(claim)), *where = strdup(claim->at.dir);
    struct zk_op *op = path && where ? pawl__zk_ask(claim, on_created, NULL) : NULL;
    char data[ZK_DATA_MAX];

    if (op) {
        op->where = where;
        memcpy(op->mark, claim->at.guid, sizeof claim->at.guid);
        pawl__zk_znode_data(claim, data);
        if (zk_has_twin(claim))
            create_twins(claim, op, data);
        else
            pawl__zk_create(op, path, data, (int)strlen(data), ZOO_EPHEMERAL | ZOO_SEQUENCE);
    } else {
        free(where);
    }
    free(path);
    return op != NULL;
}

/* ---- Looking for the znode by its GUID ------------------------------------------------------------------------------------ */

static int on_read(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = zk_asked(op);

    if (!claim)
        return ZK_NOTHING;
    if (reply->rc == ZOK)
        return take_znode(claim, claim->at.own, reply->stat, ZK_FOUND);
    if (reply->rc == ZNONODE)
        return ZK_BEGIN;
    return pawl__zk_refuse_rc(claim, reply->rc, "read a node of", claim->at.dir);
}

enum zk_event pawl__zk_znode_read(struct zk_claim *claim) {
    struct zk_op *op = pawl__zk_ask(claim, on_read, NULL);

    if (!op)
        return ZK_STALLED;
    pawl__zk_get(op, claim->at.own, NULL);
    return ZK_NOTHING;
}

/* Note the names of our znodes among the children. False: there is none, or there is no memory. */
static bool find_own(struct zk_claim *claim, const struct String_vector *children) {
    pawl__zk_znodes_forget(claim);
    for (int i = 0; i < children->count; i++) {
        const char *child = children->data[i];
        char **place;

        if (!pawl__zk_has_guid(child, claim->at.guid))
            continue;
        place = strstr(child, pawl__zk_kazoo_name) ? &claim->at.twin : &claim->at.own;
        free(*place);
        *place = pawl__zk_text("%s/%s", claim->at.dir, child);
    }
    return claim->at.own != NULL;
}

static int on_sought(struct zk_op *op, const struct zk_reply *reply) {
    int unanswered;
    struct zk_claim *claim = zk_answered(op, reply, &unanswered);

    if (!claim)
        return unanswered;
    if (reply->rc == ZOK && find_own(claim, reply->children))
        return ZK_NAMED;
    pawl__zk_say_of(claim, "the node was not made: creating it");
    return ZK_BEGIN;
}

/* A server that lags behind might not show the znode yet: it catches up first. */
enum zk_event pawl__zk_znode_seek(struct zk_claim *claim) {
    return pawl__zk_list_fresh(claim, claim->at.dir, on_sought, NULL);
}
