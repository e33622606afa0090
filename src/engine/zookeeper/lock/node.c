/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - a claim's node: the directories on the way to it, making it, and finding it again when the reply was lost.
 *
 * Directories are containers, as Curator makes them: the server removes them a while after their last child has left. So one may be
 * missing at any time, and a create that says so is sent again after they were made.
 *
 * With compat=kazoo a mutex has a second node, which stock Kazoo counts and Curator does not: both are made by one request.
 */
#include "engine/zookeeper/zk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Directories ---------------------------------------------------------------------------------------------------------- */

static void on_prefix_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim || reply->rc == ZOK || reply->rc == ZNODEEXISTS)
        return;
    if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else if (reply->rc != ZNONODE) /* the one above it has said why */
        pawl__zk_refuse_rc(claim, reply->rc, "make", claim->home);
}

bool pawl__zk_make_path(struct zk_claim *claim, const char *path, zk_done_fn *done) {
    char *prefix = strdup(path);
    bool last = false;

    if (!prefix)
        return false;
    for (char *slash = strchr(prefix + 1, '/'); !last; slash = last ? NULL : strchr(slash + 1, '/')) {
        struct zk_op *op;

        last = slash == NULL;
        op = pawl__zk_op_new(claim->zk, claim, last ? done : on_prefix_made, NULL);
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

static void on_dir_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (reply->rc == ZOK || reply->rc == ZNODEEXISTS || reply->rc == ZNONODE) /* gone again: once more */
        pawl__zk_start(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else
        pawl__zk_refuse_rc(claim, reply->rc, "make", claim->dir);
}

/* The directory is missing: never made, or reaped in a moment when it was empty. */
static void make_dir(struct zk_claim *claim) {
    pawl__zk_next_round(claim);
    pawl__zk_say(claim->zk, claim, "no %s: made", claim->dir);
    if (!pawl__zk_make_path(claim, claim->dir, on_dir_made))
        pawl__zk_stall(claim);
}

static void on_cleared(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (reply->rc == ZOK || reply->rc == ZNONODE)
        make_dir(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else
        pawl__zk_refuse(claim, PAWL_EOVERFLOW,
                        "'%s': the sequence of %s is near its end, where ZooKeeper's locks fail; it begins anew when nobody is in "
                        "line: let all of them leave and try again",
                        claim->claim->name, claim->dir);
}

/* The way out of a sequence near its end: an empty directory is removed, and its successor counts from 0. */
static void clear_dir(struct zk_claim *claim) {
    struct zk_op *op;

    pawl__zk_say(claim->zk, claim, "sequence near its end: removing %s if it is empty", claim->dir);
    pawl__zk_doom_claim(claim);
    pawl__zk_next_round(claim);
    pawl__zk_forget_nodes(claim);
    op = pawl__zk_op_new(claim->zk, claim, on_cleared, NULL);
    if (op)
        pawl__zk_delete(op, claim->dir);
    else
        pawl__zk_stall(claim);
}

/* ---- The node ------------------------------------------------------------------------------------------------------------- */

static const char *marker(const struct zk_claim *claim) {
    if (claim->layout == ZK_MUTEX)
        return pawl__zk_lock_name;
    return claim->mode == PAWL_SHARED ? pawl__zk_read_name : pawl__zk_write_name;
}

/* The node is there and ours. False: the claim was refused, or begins anew. */
static bool take_node(struct zk_claim *claim, const char *path, const struct Stat *stat) {
    struct zk_engine *zk = claim->zk;
    int64_t number = INT64_MAX;

    if (stat->ephemeralOwner != zk->session_id) { /* of an earlier session of ours, which is dying: not ours any more */
        pawl__zk_start(claim);
        return false;
    }
    if (!claim->node && !(claim->node = strdup(path))) {
        pawl__zk_stall(claim);
        return false;
    }
    claim->czxid = stat->czxid;
    claim->session = zk->session;
    pawl__zk_set_state(claim, ZK_QUEUED);
    pawl__zk_say(zk, claim, "created %s", pawl__zk_short(claim->node));
    if (stat->czxid >> (63 - ZK_TOKEN_BITS)) {
        pawl__zk_refuse(claim, PAWL_EOVERFLOW, "'%s': the ensemble's epoch is too high for fencing tokens", claim->claim->name);
        return false;
    }
    if (pawl__zk_number(claim->node, &number) && (number < 0 || number >= pawl__zk_sequence_limit)) {
        clear_dir(claim);
        return false;
    }
    pawl__zk_rejoined(claim, number);
    return true;
}

/* The answer came too late for its claim: see that the node goes. */
static void disown(struct zk_op *op, const struct zk_reply *reply) {
    if (reply->rc == ZOK && reply->path)
        pawl__zk_doom(op->zk, reply->path);
    else if (pawl__zk_reply_lost(reply->rc) || reply->rc == ZOK)
        pawl__zk_doom_guid(op->zk, op->where, op->guid);
}

static void on_created(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim) {
        disown(op, reply);
        return;
    }
    if (reply->rc == ZOK)
        take_node(claim, reply->path, reply->stat);
    else if (reply->rc == ZNONODE)
        make_dir(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else
        pawl__zk_refuse_rc(claim, reply->rc, "create a node in", claim->dir);
}

/* ---- compat=kazoo: two nodes by one request ------------------------------------------------------------------------------- */

struct twins {
    char paths[2][ZK_CHILD_MAX];
};

static void on_twins(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);
    struct twins *twins = op->data;

    if (!claim) {
        const struct zk_reply unnamed = {.rc = reply->rc};

        disown(op, &unnamed);
    } else if (reply->rc == ZNONODE) {
        make_dir(claim);
    } else if (reply->rc == ZOK || pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
        if (reply->rc == ZOK)
            pawl__zk_find_node(claim); /* the server says nothing about czxid here: ask */
    } else {
        pawl__zk_refuse_rc(claim, reply->rc, "create a node in", claim->dir);
    }
    free(twins);
}

static void create_twins(struct zk_claim *claim, struct zk_op *op, const char *data) {
    struct twins *twins = calloc(1, sizeof *twins);
    char *first_path = pawl__zk_text("%s/_c_%s-%s", claim->dir, claim->guid, pawl__zk_lock_name);
    char *second_path = pawl__zk_text("%s/_c_%s-z%s", claim->dir, claim->guid, pawl__zk_kazoo_name);
    zoo_op_t operations[2];

    op->done = on_twins;
    op->data = twins;
    if (twins && first_path && second_path) {
        zoo_create_op_init(&operations[0], first_path, data, (int)strlen(data), pawl__zk_acl(claim->zk),
                           ZOO_EPHEMERAL | ZOO_SEQUENCE, twins->paths[0], sizeof twins->paths[0]);
        zoo_create_op_init(&operations[1], second_path, data, (int)strlen(data), pawl__zk_acl(claim->zk),
                           ZOO_EPHEMERAL | ZOO_SEQUENCE, twins->paths[1], sizeof twins->paths[1]);
        pawl__zk_multi(op, operations, 2);
    } else {
        op->failed = true;
        op->error = ZSYSTEMERROR;
        pawl__zk_wake(&claim->zk->base);
    }
    free(first_path);
    free(second_path);
}

/* ---- Looking for the node by its GUID ------------------------------------------------------------------------------------- */

static void on_found(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (reply->rc == ZNONODE)
        pawl__zk_start(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else if (reply->rc != ZOK)
        pawl__zk_refuse_rc(claim, reply->rc, "read a node of", claim->dir);
    else if (take_node(claim, claim->node, reply->stat))
        pawl__zk_look(claim);
}

/* Note the names of our nodes among the children. False: there is none, or there is no memory. */
static bool find_own(struct zk_claim *claim, const struct String_vector *children) {
    pawl__zk_forget_nodes(claim);
    for (int i = 0; i < children->count; i++) {
        const char *child = children->data[i];
        char **place;

        if (!pawl__zk_has_guid(child, claim->guid))
            continue;
        place = strstr(child, pawl__zk_kazoo_name) ? &claim->twin : &claim->node;
        free(*place);
        *place = pawl__zk_text("%s/%s", claim->dir, child);
    }
    return claim->node != NULL;
}

static void on_sought(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);
    struct zk_op *next;

    if (!claim)
        return;
    if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
    } else if (reply->rc != ZOK || !find_own(claim, reply->children)) {
        pawl__zk_say(claim->zk, claim, "the node was not made: creating it");
        pawl__zk_start(claim);
    } else if ((next = pawl__zk_op_new(claim->zk, claim, on_found, NULL))) {
        pawl__zk_get(next, claim->node, NULL);
    } else {
        pawl__zk_stall(claim);
    }
}

/* The reply to create was lost. A server that lags behind might not show the node yet: make it catch up first. */
void pawl__zk_find_node(struct zk_claim *claim) {
    pawl__zk_set_state(claim, ZK_FINDING);
    pawl__zk_list_fresh(claim, claim->dir, on_sought, NULL);
}

void pawl__zk_node_data(const struct zk_claim *claim, char data[ZK_DATA_MAX]) {
    snprintf(data, ZK_DATA_MAX, "%s", claim->zk->record);
    if (pawl__zk_leased(claim))
        snprintf(data + strlen(data), ZK_DATA_MAX - strlen(data), " kind=%s permits=%u limit=%u",
                 claim->kind == PAWL_SEMAPHORE ? "semaphore" : "mutex", claim->permits, claim->limit);
}

/* Create and list in one go: one round trip. Or create and watch, rejoin.c. */
void pawl__zk_create_node(struct zk_claim *claim) {
    struct zk_op *op = pawl__zk_op_new(claim->zk, claim, on_created, NULL);
    char *path = pawl__zk_text("%s/_c_%s-%s", claim->dir, claim->guid, marker(claim));
    char data[ZK_DATA_MAX];

    if (op && path && (op->where = strdup(claim->dir))) {
        memcpy(op->guid, claim->guid, sizeof op->guid);
        pawl__zk_node_data(claim, data);
        if (claim->zk->kazoo && claim->kind == PAWL_MUTEX && !pawl__zk_leased(claim)) {
            create_twins(claim, op, data);
        } else {
            pawl__zk_create(op, path, data, (int)strlen(data), ZOO_EPHEMERAL | ZOO_SEQUENCE);
            if (!pawl__zk_rejoin(claim))
                pawl__zk_send_list(claim);
            if (pawl__zk_leased(claim))
                pawl__zk_check_kind(claim);
        }
    } else if (op) {
        op->done = NULL;
        op->failed = true;
        pawl__zk_stall(claim);
    } else {
        pawl__zk_stall(claim);
    }
    free(path);
}
