/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - what all steps of a claim use: asking, forgetting what was asked, timers, and what an answer comes to.
 */
#include "engine/zookeeper/lock/lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

/* Servers say so since 3.7; the library has no name for it. */
enum { QUOTA_EXCEEDED = -125 };

/* ---- Asking --------------------------------------------------------------------------------------------------------------- */

struct zk_op *pawl__zk_ask(struct zk_claim *claim, zk_done_fn *done, void *data) {
    return pawl__zk_op_new(&claim->zk->session, &claim->asker, done, data);
}

void pawl__zk_look_at(struct zk_claim *claim, int64_t when) {
    if (claim->look_at != PAWL__NEVER)
        TAILQ_REMOVE(&claim->zk->timed, claim, timed);
    if (when != PAWL__NEVER)
        TAILQ_INSERT_TAIL(&claim->zk->timed, claim, timed);
    claim->look_at = when;
}

void pawl__zk_leave_listing(struct zk_claim *claim) {
    if (claim->listing)
        TAILQ_REMOVE(&claim->listing->claims, claim, of_listing);
    claim->listing = NULL;
}

void pawl__zk_next_number(struct zk_claim *claim) {
    claim->asker.number++;
    claim->stalled = false;
    pawl__zk_look_at(claim, PAWL__NEVER);
    pawl__zk_leave_listing(claim);
    claim->next_in = 0;
    claim->gone_already = false;
    pawl__zk_watch_drop(claim->watch.ahead);
    pawl__zk_watch_drop(claim->watch.further);
}

void pawl__zk_catch_up(struct zk_op *op, const char *dir, const char *guid) {
    char *nowhere = pawl__zk_text("%s/%s", dir, guid);

    if (nowhere)
        pawl__zk_delete(op, nowhere);
    else
        pawl__zk_op_fail(op, ZSYSTEMERROR);
    free(nowhere);
}

bool pawl__zk_caught_up(int rc) {
    return rc == ZNONODE || rc == ZNOAUTH;
}

/* A list that was read before the server caught up says nothing. */
static int on_caught_up(struct zk_op *op, const struct zk_reply *reply) {
    return zk_asked(op) && !pawl__zk_caught_up(reply->rc) ? ZK_STALLED : ZK_NOTHING;
}

enum zk_event pawl__zk_list_fresh(struct zk_claim *claim, const char *dir, zk_done_fn *done, void *data) {
    struct zk_op *first, *list;

    pawl__zk_next_number(claim);
    first = dir ? pawl__zk_ask(claim, on_caught_up, NULL) : NULL;
    list = first ? pawl__zk_ask(claim, done, data) : NULL;
    if (first)
        pawl__zk_catch_up(first, dir, claim->at.guid);
    if (!list)
        return ZK_STALLED;
    pawl__zk_list(list, dir, NULL);
    return ZK_NOTHING;
}

bool pawl__zk_is_busy(int rc) {
    return rc == ZTHROTTLEDOP;
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

void pawl__zk_say_of(const struct zk_claim *claim, const char *format, ...) {
    va_list args;

    if (!pawl__noting(&claim->zk->base))
        return;
    va_start(args, format);
    pawl__kit_notes_add(&claim->zk->session.notes, KIT_NOTE, claim->claim->name, format, args);
    va_end(args);
}

void pawl__zk_tell(struct zk_claim *claim, unsigned what) {
    if (!claim->tell)
        TAILQ_INSERT_TAIL(&claim->zk->news, claim, news);
    claim->tell |= what;
}

/* ---- What it comes to ------------------------------------------------------------------------------------------------------ */

enum zk_event pawl__zk_first(const struct zk_claim *claim) {
    const struct zk_session *session = &claim->zk->session;
    int64_t most = pawl__zk_assured(session->timeout_ns, session->options.tick_ns);

    return pawl__zk_assured_until(session) - pawl__boottime() > most / 3 ? ZK_FIRST : ZK_UNPROVED;
}

enum zk_event pawl__zk_refuse(struct zk_claim *claim, int code, const char *format, ...) {
    va_list args;

    claim->why.code = code;
    va_start(args, format);
    vsnprintf(claim->why.text, sizeof claim->why.text, format, args);
    va_end(args);
    return ZK_REFUSED;
}

int pawl__zk_explain(const char *name, int rc, const char *doing, const char *path, struct pawl_error *ret) {
    switch (rc) {
    case ZNOAUTH:
        return pawl__fail(ret, PAWL_EACCES, "'%s': this client may not %s %.190s: look at the node's ACL and at the URL's user",
                          name, doing, path);
    case QUOTA_EXCEEDED:
        return pawl__fail(ret, PAWL_ENOSPACE, "'%s': a quota lets nobody %s %.190s: raise it (setquota), or delete nodes", name,
                          doing, path);
    case ZINVALIDACL:
        return pawl__fail(ret, PAWL_EACCES, "'%s': acl=creator needs a user in the URL, zk://user:secret@...", name);
    case ZNOCHILDRENFOREPHEMERALS:
        return pawl__fail(ret, PAWL_EFORMAT,
                          "'%s': %.190s lies below an ephemeral node, which can't have children: choose another name", name, path);
    case ZBADARGUMENTS:
        return pawl__fail(ret, PAWL_ENAME, "'%s' is not a name that ZooKeeper takes as a path", name);
    default:
        return pawl__fail(ret, PAWL_EFORMAT, "'%s': ZooKeeper could not %s %.190s: %s", name, doing, path, zerror(rc));
    }
}

enum zk_event pawl__zk_refuse_rc(struct zk_claim *claim, int rc, const char *doing, const char *path) {
    if (pawl__zk_reply_lost(rc))
        return ZK_STALLED;
    pawl__zk_explain(claim->claim->name, rc, doing, path, &claim->why);
    return ZK_REFUSED;
}

enum zk_event pawl__zk_not_made(struct zk_claim *claim, int rc, const char *doing, const char *path) {
    return pawl__zk_is_busy(rc) ? ZK_BUSY : pawl__zk_refuse_rc(claim, rc, doing, path);
}

enum zk_event pawl__zk_foreign(struct zk_claim *claim, const char *child) {
    if (!claim->second_look) {
        claim->second_look = true;
        return ZK_LOOK_TWICE;
    }
    return pawl__zk_refuse(claim, PAWL_EKIND, "'%s' is in use as another kind of lock: %s has '%.100s'", claim->claim->name,
                           claim->at.dir, child);
}

/* The GUIDs of pawl's znodes tell. */
bool pawl__zk_limit_differs(struct zk_claim *claim, const struct String_vector *children) {
    for (int i = 0; zk_is_leased(claim) && i < children->count; i++) {
        uint32_t limit = pawl__zk_guid_limit(children->data[i]);

        if (limit && limit != claim->terms.limit) {
            pawl__zk_refuse(claim, PAWL_ELIMIT, "'%s' is in use as a semaphore of %u permits, not %u", claim->claim->name, limit,
                            claim->terms.limit);
            return true;
        }
    }
    return false;
}
