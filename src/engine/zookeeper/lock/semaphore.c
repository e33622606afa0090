/* SPDX-License-Identifier: Apache-2.0
 *
 * semaphore.c - Curator's InterProcessSemaphoreV2, and with one lease its InterProcessSemaphoreMutex.
 *
 *     home/locks/_c_u-lock-N     a queue, as a mutex's: only its first makes leases
 *     home/leases/_c_u-lease-N   one per permit: held when there are no more than the limit
 *
 * Curator takes several permits one by one, leaving the queue in between; two that want 2 of 2 then end with one each. Here the first
 * of the queue makes all its leases by one request and stays first until there is room for all of them. Only it watches the leases.
 * When it gives up, its leases go before its place in the queue: so nobody counts leases that are about to go.
 *
 * All nodes of a claim have its GUID: that is how they are found, whatever reply was lost, and how an operator sees that they belong
 * together.
 */
#include "engine/zookeeper/zk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void look_at_leases(struct zk_claim *claim, bool wait);

static char *leases_dir(const struct zk_claim *claim) {
    return pawl__zk_text("%s/leases", claim->home);
}

/* Note the paths of our leases. False: no memory. */
static bool note_leases(struct zk_claim *claim, const struct String_vector *children) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < claim->lease_count; i++)
        free(claim->leases[i]);
    free(claim->leases);
    claim->lease_count = 0;
    claim->leases = calloc(claim->permits, sizeof *claim->leases);
    if (!claim->leases)
        return false;
    for (int i = 0; i < children->count && count < claim->permits; i++) {
        if (!pawl__zk_has_guid(children->data[i], claim->guid))
            continue;
        claim->leases[count] = pawl__zk_text("%s/leases/%s", claim->home, children->data[i]);
        if (!claim->leases[count])
            return false;
        claim->lease_count = ++count;
    }
    return true;
}

static void on_event(struct zk_claim *claim, int type) {
    (void)type;
    pawl__zk_say(claim->zk, claim, "woken: the leases changed");
    if (claim->state == ZK_LEASING)
        look_at_leases(claim, true);
}

/* All our leases are there. */
static void judge_leases(struct zk_claim *claim, int total, bool watched) {
    if ((uint32_t)total <= claim->limit) {
        pawl__zk_next_round(claim);
        if (claim->kind_seen)
            pawl__zk_check_kind(claim); /* once more: it may have left */
        else
            pawl__zk_grant(claim);
        return;
    }
    pawl__zk_say(claim->zk, claim, "%d leases, %u permits: watching the leases", total, claim->limit);
    if (claim->try_only)
        pawl__zk_refuse(claim, PAWL_EHELD, "'%s': not enough permits are free", claim->claim->name);
    else if (!watched)
        look_at_leases(claim, true);
}

static void on_leases(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);
    bool watched = op->watch != NULL;

    if (op->watch)
        pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim)
        return;
    if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
    } else if (reply->rc != ZOK && reply->rc != ZNONODE) {
        pawl__zk_refuse_rc(claim, reply->rc, "list the leases of", claim->home);
    } else if (reply->rc == ZNONODE && op->data) { /* after a lost reply: not even their directory was made */
        pawl__zk_lease(claim);
    } else if (reply->rc == ZNONODE) {
        pawl__zk_start(claim);
    } else if (!pawl__zk_limit_differs(claim, reply->children)) {
        if (!note_leases(claim, reply->children))
            pawl__zk_stall(claim);
        else if (claim->lease_count == claim->permits)
            judge_leases(claim, reply->children->count, watched);
        else if (claim->lease_count == 0 && op->data) /* after a lost reply: they were not made */
            pawl__zk_lease(claim);
        else
            pawl__zk_start(claim); /* somebody deleted them */
    }
}

/* List the leases; `wait`: and be told when they change. */
static void look_at_leases(struct zk_claim *claim, bool wait) {
    char *dir = leases_dir(claim);
    struct zk_op *op;

    pawl__zk_next_round(claim);
    op = dir ? pawl__zk_op_new(claim->zk, claim, on_leases, NULL) : NULL;
    if (op && wait)
        claim->watch = pawl__zk_watch_new(claim, dir, true, on_event);
    claim->waits_since = pawl__boottime();
    if (op)
        pawl__zk_list(op, dir, claim->watch);
    else
        pawl__zk_stall(claim);
    free(dir);
}

static void on_dir_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (reply->rc == ZOK || reply->rc == ZNODEEXISTS)
        pawl__zk_lease(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else
        pawl__zk_refuse_rc(claim, reply->rc, "make the leases of", claim->home);
}

static void make_dir(struct zk_claim *claim) {
    char *dir = leases_dir(claim);

    pawl__zk_next_round(claim);
    if (!dir || !pawl__zk_make_path(claim, dir, on_dir_made))
        pawl__zk_stall(claim);
    free(dir);
}

static void on_made(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim) {
        if (reply->rc == ZOK || pawl__zk_reply_lost(reply->rc))
            pawl__zk_doom_guid(op->zk, op->where, op->guid);
        return;
    }
    if (reply->rc == ZNONODE)
        make_dir(claim);
    else if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else if (reply->rc == ZNODEEXISTS)
        pawl__zk_refuse(claim, PAWL_EOVERFLOW,
                        "'%s': the sequence of its leases has come to its end; it begins anew when all are released",
                        claim->claim->name);
    else if (reply->rc != ZOK)
        pawl__zk_refuse_rc(claim, reply->rc, "create leases of", claim->home);
    else
        pawl__zk_say(claim->zk, claim, "created %u lease%s", claim->permits, claim->permits == 1 ? "" : "s");
}

static void create_leases(struct zk_claim *claim, struct zk_op *op, const char *path) {
    zoo_op_t *operations = calloc(claim->permits, sizeof *operations);
    char data[ZK_DATA_MAX];

    if (!operations) {
        op->failed = true;
        op->error = ZSYSTEMERROR;
        pawl__zk_wake(&claim->zk->base);
        return;
    }
    pawl__zk_node_data(claim, data);
    snprintf(data + strlen(data), sizeof data - strlen(data), " token=%llu", (unsigned long long)claim->czxid << ZK_TOKEN_BITS);
    for (uint32_t i = 0; i < claim->permits; i++) /* the first one speaks for all */
        zoo_create_op_init(&operations[i], path, data, i == 0 ? (int)strlen(data) : 0, pawl__zk_acl(claim->zk),
                           ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0);
    pawl__zk_multi(op, operations, (int)claim->permits);
    free(operations);
}

/* Make all leases and list them, in one go. */
void pawl__zk_lease(struct zk_claim *claim) {
    char *dir = leases_dir(claim), *path = pawl__zk_text("%s/leases/_c_%s-%s", claim->home, claim->guid, pawl__zk_lease_name);
    struct zk_op *make = NULL, *list = NULL;

    pawl__zk_next_round(claim);
    if (dir && path && (make = pawl__zk_op_new(claim->zk, claim, on_made, NULL)))
        list = pawl__zk_op_new(claim->zk, claim, on_leases, NULL);
    if (make && (make->where = dir)) {
        memcpy(make->guid, claim->guid, sizeof make->guid);
        create_leases(claim, make, path);
    }
    if (list)
        pawl__zk_list(list, dir, NULL);
    else
        pawl__zk_stall(claim);
    if (!make)
        free(dir);
    free(path);
}

void pawl__zk_lease_resume(struct zk_claim *claim) {
    char *dir = leases_dir(claim);

    pawl__zk_list_fresh(claim, dir, on_leases, claim); /* data: they may not be there */
    free(dir);
}

/* ---- Is the name in use as another kind? ---------------------------------------------------------------------------------- */

/* The lock's own path: a mutex's or a read-write lock's contenders would be here. */
static void on_home_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = op->claim;
    bool seen = false;
    int64_t number;
    int i;

    if (!claim)
        return;
    for (i = 0; reply->rc == ZOK && i < reply->children->count; i++)
        if ((seen = pawl__zk_number(reply->children->data[i], &number)))
            break;
    if (!op->data) { /* sent along with create: acted upon when it is our turn */
        claim->kind_seen = seen || (reply->rc != ZOK && reply->rc != ZNONODE); /* not known: it is asked again then */
        return;
    }
    if (op->round != claim->round)
        return;
    if (pawl__zk_reply_lost(reply->rc))
        pawl__zk_stall(claim);
    else if (seen)
        pawl__zk_refuse(claim, PAWL_EKIND, "'%s' is in use as another kind of lock: %s has '%.100s'", claim->claim->name,
                        claim->home, reply->children->data[i]);
    else
        pawl__zk_grant(claim);
}

/* A semaphore's directories below a mutex or a read-write lock: is anybody in them? */
static void on_below_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (!claim)
        return;
    if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
        return;
    }
    if (reply->rc == ZOK && reply->children->count)
        claim->kind_seen = true;
    if (!op->data) /* the second one follows */
        return;
    if (claim->kind_seen)
        pawl__zk_foreign(claim, "leases");
    else
        pawl__zk_grant(claim);
}

static void list_below(struct zk_claim *claim, const char *child, bool last) {
    char *path = pawl__zk_text("%s/%s", claim->home, child);
    struct zk_op *op = path ? pawl__zk_op_new(claim->zk, claim, on_below_listed, last ? claim : NULL) : NULL;

    if (op)
        pawl__zk_list(op, path, NULL);
    else
        pawl__zk_stall(claim);
    free(path);
}

void pawl__zk_check_kind(struct zk_claim *claim) {
    struct zk_op *op;

    if (!pawl__zk_leased(claim)) {
        claim->kind_seen = false;
        list_below(claim, "locks", false);
        list_below(claim, "leases", true);
        return;
    }
    op = pawl__zk_op_new(claim->zk, claim, on_home_listed, claim->kind_seen ? claim : NULL);
    if (op)
        pawl__zk_list(op, claim->home, NULL);
    else
        pawl__zk_stall(claim);
}
