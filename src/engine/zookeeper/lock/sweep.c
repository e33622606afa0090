/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c - nodes of ours that must go, and go on having to until they are gone: released, given up, or made by a request whose reply
 * never came. They are no claim's any more: a release returns while its node is here.
 *
 * A node is off the list when the server says that it is deleted or not there, or when its session is dead, which deletes it too. One that
 * the server refuses to delete (an administrator took the right away) is tried again and again, since whoever waits behind it waits for as
 * long as this session lives. One whose name is not known is looked for by its GUID, and a second time a little later: its create may still
 * have been on its way.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

#include "base/lease.h"

#define SECOND_LOOK_NS ZK_S
#define AGAIN_NS (100 * ZK_MS)
/* What was refused is tried again after that, and then after twice as long each time, up to 64 times it. */
#define REFUSED_NS (250 * ZK_MS)

enum { LOOKS = 2, DOUBLED_MOST = 6 };

static void doomed_free(struct zk_doomed *doomed) {
    struct zk_engine *zk = doomed->zk;

    TAILQ_REMOVE(&zk->doomed, doomed, link);
    free(doomed);
    if (TAILQ_EMPTY(&zk->doomed))
        pthread_cond_broadcast(&zk->changed);
}

/* The server answered, and said no. */
static void refused(struct zk_doomed *doomed, int rc) {
    if (doomed->refusals == 0)
        pawl__zk_warn(
            doomed->zk,
            "%.300s of a lock that was released could not be deleted (%s): nobody gets the lock until it is, or until this "
            "client ends; look at the ACL of the node above it",
            doomed->path, zerror(rc));
    doomed->look_at = pawl__boottime() + (REFUSED_NS << (doomed->refusals < DOUBLED_MOST ? doomed->refusals : DOUBLED_MOST));
    doomed->refusals++;
}

/* No answer that counts: again, when the connection is back, or soon if it was not lost. */
static void again(struct zk_doomed *doomed) {
    if (doomed->zk->connected)
        doomed->look_at = pawl__boottime() + AGAIN_NS;
}

static void on_deleted(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_doomed *doomed = op->data;

    doomed->sent = false;
    if (pawl__zk_reply_lost(reply->rc)) {
        again(doomed);
        return;
    }
    if (reply->rc != ZOK && reply->rc != ZNONODE) {
        refused(doomed, reply->rc);
        return;
    }
    pawl__zk_say(op->zk, NULL, "deleted %s", pawl__zk_short(doomed->path));
    doomed_free(doomed);
}

static void on_synced(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_doomed *doomed = op->data;

    doomed->stale = reply->rc != ZOK;
}

static void on_listed(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_doomed *doomed = op->data;
    bool found = false;

    doomed->sent = false;
    if (pawl__zk_reply_lost(reply->rc) || doomed->stale) {
        again(doomed);
        return;
    }
    if (reply->rc != ZOK && reply->rc != ZNONODE) {
        refused(doomed, reply->rc);
        return;
    }
    for (int i = 0; reply->rc == ZOK && i < reply->children->count; i++)
        if (pawl__zk_has_guid(reply->children->data[i], doomed->guid)) {
            char *path = pawl__zk_text("%s/%s", doomed->path, reply->children->data[i]);

            if (path)
                pawl__zk_doom(op->zk, path);
            free(path);
            found = true;
        }
    if (found || ++doomed->looks >= LOOKS)
        doomed_free(doomed);
    else
        doomed->look_at = pawl__boottime() + SECOND_LOOK_NS;
}

static void send_doomed(struct zk_doomed *doomed) {
    struct zk_engine *zk = doomed->zk;
    struct zk_op *op, *sync;

    if (doomed->sent || !zk->connected)
        return;
    if (!doomed->by_guid) {
        op = pawl__zk_op_new(zk, NULL, on_deleted, doomed);
        if ((doomed->sent = op != NULL))
            pawl__zk_delete(op, doomed->path);
        return;
    }
    sync = pawl__zk_op_new(zk, NULL, on_synced, doomed);
    op = sync ? pawl__zk_op_new(zk, NULL, on_listed, doomed) : NULL;
    if (sync)
        pawl__zk_sync(sync, doomed->path);
    if ((doomed->sent = op != NULL))
        pawl__zk_list(op, doomed->path, NULL);
}

static void doom(struct zk_engine *zk, const char *path, const char *guid) {
    struct zk_doomed *doomed = calloc(1, sizeof *doomed + strlen(path) + 1);

    if (!doomed) {
        pawl__zk_warn(zk, "out of memory: a lock's node stays until the session ends");
        return;
    }
    doomed->zk = zk;
    doomed->session = zk->session;
    doomed->by_guid = guid != NULL;
    if (guid)
        memcpy(doomed->guid, guid, sizeof doomed->guid);
    strcpy(doomed->path, path);
    TAILQ_INSERT_TAIL(&zk->doomed, doomed, link);
    send_doomed(doomed);
}

void pawl__zk_doom(struct zk_engine *zk, const char *path) {
    doom(zk, path, NULL);
}

void pawl__zk_doom_guid(struct zk_engine *zk, const char *dir, const char *guid) {
    doom(zk, dir, guid);
}

void pawl__zk_doom_claim(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;
    char *leases;

    if (claim->state != ZK_NEW && claim->state != ZK_OFFLINE && claim->session == zk->session) {
        for (uint32_t i = 0; i < claim->lease_count; i++)
            pawl__zk_doom(zk, claim->leases[i]);
        /* Leases whose names are not known yet: the request that made them comes before this one. */
        if (claim->state == ZK_LEASING && claim->lease_count == 0 && (leases = pawl__zk_text("%s/leases", claim->home))) {
            pawl__zk_doom_guid(zk, leases, claim->guid);
            free(leases);
        }
        if (claim->node)
            pawl__zk_doom(zk, claim->node);
        if (claim->twin)
            pawl__zk_doom(zk, claim->twin);
    }
    /* A create whose reply was lost: nobody else will look for it. One that is on its way is seen to when it is answered. */
    if (!claim->node && (claim->state == ZK_FINDING || (claim->state == ZK_CREATING && claim->stalled)) &&
        claim->session == zk->session)
        pawl__zk_doom_guid(zk, claim->dir, claim->guid);
}

void pawl__zk_sweep(struct zk_engine *zk, int64_t now) {
    struct zk_doomed *doomed;

    TAILQ_FOREACH(doomed, &zk->doomed, link) {
        if (doomed->look_at <= now)
            send_doomed(doomed);
    }
}

int64_t pawl__zk_sweep_at(const struct zk_engine *zk) {
    const struct zk_doomed *doomed;
    int64_t at = PAWL__NEVER;

    if (!zk->connected)
        return at;
    TAILQ_FOREACH(doomed, &zk->doomed, link) {
        if (!doomed->sent && doomed->look_at < at)
            at = doomed->look_at;
    }
    return at;
}

void pawl__zk_sweep_resume(struct zk_engine *zk, bool same_session) {
    struct zk_doomed *doomed, *next;

    for (doomed = TAILQ_FIRST(&zk->doomed); doomed; doomed = next) {
        next = TAILQ_NEXT(doomed, link);
        if (!same_session && !doomed->sent)
            doomed_free(doomed);
    }
    pawl__zk_sweep(zk, pawl__boottime());
}
