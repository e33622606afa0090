/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c - deletes znodes of ours, again and again until they are gone: released, given up, or made by a request whose reply
 * never came. They are no claim's any more: a release returns while its znode is here.
 *
 * A znode is off the list when the server says that it is deleted or not there, or when its session is dead, which deletes it too. One that
 * the server refuses to delete (an administrator took the right away) is tried again and again, since the claim behind it waits for as
 * long as this session lives. One whose name is not known is looked for by its GUID, and a second time a little later: its create may still
 * have been on its way.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/lease.h"

#define SECOND_LOOK_NS ZK_S
#define AGAIN_NS (100 * ZK_MS)
/* What was refused is tried again after that, and then after twice as long each time, up to 64 times it. */
#define REFUSED_NS (250 * ZK_MS)

enum { LOOKS = 2, DOUBLED_MAX = 6 };

/* Guaranteed to go, until it is gone or its session is. */
struct zk_leftover {
    TAILQ_ENTRY(zk_leftover) link;
    struct zk_engine *zk;
    bool by_guid; /* `path` is the directory, and the znode's name is not known */
    bool sent;
    bool stale;        /* by_guid: the server had not caught up when it was asked for the list */
    unsigned looks;    /* by_guid: how often nothing was found */
    unsigned refusals; /* how often the server said no */
    int64_t look_at;   /* not before */
    char guid[ZK_GUID_SIZE];
    char path[];
};

static void leftover_free(struct zk_leftover *leftover) {
    TAILQ_REMOVE(&leftover->zk->leftovers, leftover, link);
    free(leftover);
}

/* The server answered, and said no. */
static void refused(struct zk_leftover *leftover, int rc) {
    if (leftover->refusals == 0)
        pawl__zk_warn(
            &leftover->zk->session,
            "%.300s of a lock that was released could not be deleted (%s): nobody gets the lock until it is, or until this "
            "client ends; look at the ACL of the node above it",
            leftover->path, zerror(rc));
    leftover->look_at = pawl__boottime() + (REFUSED_NS << (leftover->refusals < DOUBLED_MAX ? leftover->refusals : DOUBLED_MAX));
    leftover->refusals++;
}

/* No answer that counts: again, when the connection is back, or soon if it was not lost. */
static void again(struct zk_leftover *leftover) {
    if (zk_is_connected(&leftover->zk->session))
        leftover->look_at = pawl__boottime() + AGAIN_NS;
}

/* Did the server say nothing that counts, or no? Then it is asked again. */
static bool is_left(struct zk_leftover *leftover, int rc) {
    leftover->sent = false;
    if (pawl__zk_reply_lost(rc) || leftover->stale)
        again(leftover);
    else if (rc != ZOK && rc != ZNONODE)
        refused(leftover, rc);
    else
        return false;
    return true;
}

static int on_deleted(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_leftover *leftover = op->data;

    if (is_left(leftover, reply->rc))
        return 0;
    pawl__zk_say(op->session, NULL, "deleted %s", pawl__zk_short(leftover->path));
    leftover_free(leftover);
    return 0;
}

static int on_caught_up(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_leftover *leftover = op->data;

    leftover->stale = !pawl__zk_caught_up(reply->rc);
    return 0;
}

static int on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_leftover *leftover = op->data;
    bool found = false;

    if (is_left(leftover, reply->rc))
        return 0;
    for (int i = 0; reply->rc == ZOK && i < reply->children->count; i++)
        if (pawl__zk_has_guid(reply->children->data[i], leftover->guid)) {
            char *path = pawl__zk_text("%s/%s", leftover->path, reply->children->data[i]);

            if (path)
                pawl__zk_sweep_path(leftover->zk, path);
            free(path);
            found = true;
        }
    if (found || ++leftover->looks >= LOOKS)
        leftover_free(leftover);
    else
        leftover->look_at = pawl__boottime() + SECOND_LOOK_NS;
    return 0;
}

static void send_leftover(struct zk_leftover *leftover) {
    struct zk_engine *zk = leftover->zk;
    struct zk_op *op, *first;

    if (leftover->sent || !zk_is_connected(&zk->session))
        return;
    if (!leftover->by_guid) {
        op = pawl__zk_op_new(&zk->session, NULL, on_deleted, leftover);
        if ((leftover->sent = op != NULL))
            pawl__zk_delete(op, leftover->path);
        return;
    }
    first = pawl__zk_op_new(&zk->session, NULL, on_caught_up, leftover);
    op = first ? pawl__zk_op_new(&zk->session, NULL, on_listed, leftover) : NULL;
    if (first)
        pawl__zk_catch_up(first, leftover->path, leftover->guid);
    if ((leftover->sent = op != NULL))
        pawl__zk_list(op, leftover->path, NULL);
}

static void add(struct zk_engine *zk, const char *path, const char *guid) {
    struct zk_leftover *leftover = calloc(1, sizeof *leftover + strlen(path) + 1);

    if (!leftover) {
        pawl__zk_warn(&zk->session, "out of memory: a lock's node stays until the session ends");
        return;
    }
    leftover->zk = zk;
    leftover->by_guid = guid != NULL;
    if (guid)
        memcpy(leftover->guid, guid, sizeof leftover->guid);
    strcpy(leftover->path, path);
    TAILQ_INSERT_TAIL(&zk->leftovers, leftover, link);
    send_leftover(leftover);
}

void pawl__zk_sweep_path(struct zk_engine *zk, const char *path) {
    add(zk, path, NULL);
}

void pawl__zk_sweep_guid(struct zk_engine *zk, const char *dir, const char *guid) {
    add(zk, dir, guid);
}

void pawl__zk_sweep_claim(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;
    struct zk_znodes *at = &claim->at;
    char *leases;

    if (!zk_is_of_session(claim))
        return;
    for (uint32_t i = 0; i < at->lease_count; i++)
        pawl__zk_sweep_path(zk, at->leases[i]);
    /* Leases whose names are not known yet: the request that made them comes before this one. */
    if (claim->state == ZK_LEASING && at->lease_count == 0 && (leases = pawl__zk_text("%s/leases", at->home))) {
        pawl__zk_sweep_guid(zk, leases, at->guid);
        free(leases);
    }
    if (at->own)
        pawl__zk_sweep_path(zk, at->own);
    if (at->twin)
        pawl__zk_sweep_path(zk, at->twin);
    /* A create whose reply was lost: nobody else will look for it. One that is on its way is seen to when it is answered. */
    if (!at->own && (claim->state == ZK_FINDING || (claim->state == ZK_CREATING && claim->stalled)))
        pawl__zk_sweep_guid(zk, at->dir, at->guid);
}

static void send_due(struct zk_engine *zk, int64_t now) {
    struct zk_leftover *leftover;

    TAILQ_FOREACH(leftover, &zk->leftovers, link) {
        if (leftover->look_at <= now)
            send_leftover(leftover);
    }
}

static int64_t next_at(const struct zk_engine *zk) {
    const struct zk_leftover *leftover;
    int64_t at = PAWL__NEVER;

    if (!zk_is_connected(&zk->session))
        return at;
    TAILQ_FOREACH(leftover, &zk->leftovers, link) {
        if (!leftover->sent && leftover->look_at < at)
            at = leftover->look_at;
    }
    return at;
}

int64_t pawl__zk_sweep(struct zk_engine *zk, int64_t now) {
    if (next_at(zk) <= now)
        send_due(zk, now);
    return next_at(zk);
}

void pawl__zk_sweep_resume(struct zk_engine *zk, bool same_session) {
    struct zk_leftover *leftover, *next;

    for (leftover = TAILQ_FIRST(&zk->leftovers); leftover; leftover = next) {
        next = TAILQ_NEXT(leftover, link);
        if (!same_session && !leftover->sent)
            leftover_free(leftover);
    }
    send_due(zk, pawl__boottime());
}

void pawl__zk_sweep_free(struct zk_engine *zk) {
    struct zk_leftover *leftover;

    while ((leftover = TAILQ_FIRST(&zk->leftovers)))
        leftover_free(leftover);
}
