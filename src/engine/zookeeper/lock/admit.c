/* SPDX-License-Identifier: Apache-2.0
 *
 * admit.c - thousands of claims of one client.
 *
 * Room. Requests of one session are answered in the order in which they were sent, and so are its heartbeats. A client that asks for ten
 * thousand locks at once would have its heartbeats wait behind them all, and lose what it was granted first. So only ZK_ROOM requests
 * are on their way before new claims stand in line, here. When half of them are answered the service thread lets in as many as there is
 * room for: many at once, so that they share their lists. Whoever has begun goes on; but of thousands that wait, and are to look again
 * since the connection was cut or all were woken at once, few more look than there is room for (look_again in session.c).
 *
 *     enter --(room, nobody in line)--> start
 *       |                                 ^
 *       +--> in line (OFFLINE) --half-----+
 *
 * Invariant: while somebody is in line, either more than half of ZK_ROOM requests are on their way, whose answers wake the service thread,
 * or the service thread is about to look (pawl__zk_admit), or there is no connection.
 *
 * Lists. Claims that want to see the same directory under one hold of the mutex share one request: it leaves when the mutex is let go,
 * after all creates of that hold. So each finds its own node in it, as if it had asked for itself. A claim that begins another
 * round leaves the listing, and does not hear of its answer.
 */
#include "engine/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

/* ---- Room ----------------------------------------------------------------------------------------------------------------- */

void pawl__zk_enter(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;

    /* A try has a caller who does not wait. */
    if (claim->try_only || !zk->connected || (zk->op_count < ZK_ROOM && TAILQ_EMPTY(&zk->line))) {
        pawl__zk_start(claim);
        return;
    }
    pawl__zk_set_state(claim, ZK_OFFLINE);
    claim->in_line = true;
    TAILQ_INSERT_TAIL(&zk->line, claim, line);
}

void pawl__zk_leave_line(struct zk_claim *claim) {
    if (claim->in_line)
        TAILQ_REMOVE(&claim->zk->line, claim, line);
    claim->in_line = false;
}

void pawl__zk_admit(struct zk_engine *zk) {
    struct zk_claim *claim;

    if (zk->op_count > ZK_ROOM / 2)
        return;
    while (zk->connected && zk->op_count < ZK_ROOM && (claim = TAILQ_FIRST(&zk->line)))
        pawl__zk_start(claim);
}

/* ---- Lists ---------------------------------------------------------------------------------------------------------------- */

struct zk_listing {
    TAILQ_ENTRY(zk_listing) link; /* zk->listings, until it is sent */
    TAILQ_HEAD(, zk_claim) claims;
    char dir[];
};

static struct zk_listing *find_or_make(struct zk_engine *zk, const char *dir) {
    struct zk_listing *listing;

    TAILQ_FOREACH(listing, &zk->listings, link) {
        if (strcmp(listing->dir, dir) == 0)
            return listing;
    }
    if (!(listing = calloc(1, sizeof *listing + strlen(dir) + 1)))
        return NULL;
    TAILQ_INIT(&listing->claims);
    strcpy(listing->dir, dir);
    TAILQ_INSERT_TAIL(&zk->listings, listing, link);
    return listing;
}

void pawl__zk_leave_listing(struct zk_claim *claim) {
    if (claim->listing)
        TAILQ_REMOVE(&claim->listing->claims, claim, of_listing);
    claim->listing = NULL;
}

void pawl__zk_send_list(struct zk_claim *claim) {
    struct zk_listing *listing = find_or_make(claim->zk, claim->dir);

    pawl__zk_leave_listing(claim);
    if (!listing) {
        pawl__zk_stall(claim);
        return;
    }
    claim->listing = listing;
    TAILQ_INSERT_TAIL(&listing->claims, claim, of_listing);
}

/* Whoever asks again on hearing this is in another listing. */
static void answer_all(struct zk_listing *listing, const struct zk_reply *reply) {
    struct zk_claim *claim;

    while ((claim = TAILQ_FIRST(&listing->claims))) {
        pawl__zk_leave_listing(claim);
        pawl__zk_listed(claim, reply);
    }
    free(listing);
}

static void on_listed(struct zk_op *op, const struct zk_reply *reply) {
    answer_all(op->data, reply);
}

void pawl__zk_send_listings(struct zk_engine *zk) {
    const struct zk_reply unsent = {.rc = ZCONNECTIONLOSS};
    struct zk_listing *listing;
    struct zk_op *op;

    while ((listing = TAILQ_FIRST(&zk->listings))) {
        TAILQ_REMOVE(&zk->listings, listing, link);
        op = zk->connected && !TAILQ_EMPTY(&listing->claims) ? pawl__zk_op_new(zk, NULL, on_listed, listing) : NULL;
        if (op)
            pawl__zk_list(op, listing->dir, NULL);
        else
            answer_all(listing, &unsent);
    }
}
