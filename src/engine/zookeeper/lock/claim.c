/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - the life of a claim in the queue of its directory, in Curator's layout.
 *
 *     OFFLINE --connected--> CREATING --created, listed--> QUEUED --first--> (LEASING) --> (PROVING) --> HELD
 *        ^                      |  ^                          |  ^             semaphore.c
 *        |                 reply|  |not found           listed|  |event on the one ahead, or it was gone already
 *     session lost          lost v  |                          v  |
 *     (new GUID)              FINDING -----found--------->   watching
 *
 * Rules that every step keeps, each the answer to a bug that somebody had:
 *   - A node is ours only if it has our GUID and its ephemeralOwner is the present session. Each session has its own GUID.
 *   - We hold only if our own node is in the list that says so; after every wake-up there is a new list. One exception: lookahead.c.
 *   - We watch the one node that we wait for, by getData: where it is gone already, there is a new list at once and no watch.
 *   - Our node is not made anew because the one ahead vanished, only if our own did.
 *   - A reply that was lost is made good by looking for the GUID; a node that nobody wants goes to the sweep, which never gives up.
 *   - A hold begins with a session that was proved, through the leader, a short while ago.
 */
#include "engine/zookeeper/zk.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* How long what looks like another kind of lock may take to leave. */
#define SECOND_LOOK_NS (100 * ZK_MS)
/* How long a try may stand in a semaphore's queue behind those that pass through. */
#define TRY_NS (500 * ZK_MS)
/* When to try again what failed for want of memory. */
#define STALL_NS (100 * ZK_MS)

static const bool transitions[][ZK_OVER + 1] = {
    [ZK_NEW] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_OVER] = true},
    [ZK_OFFLINE] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_OVER] = true},
    [ZK_CREATING] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_FINDING] = true, [ZK_QUEUED] = true, [ZK_OVER] = true},
    [ZK_FINDING] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_FINDING] = true, [ZK_QUEUED] = true, [ZK_OVER] = true},
    [ZK_QUEUED] =
        {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_LEASING] = true, [ZK_PROVING] = true, [ZK_HELD] = true, [ZK_OVER] = true},
    [ZK_LEASING] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_PROVING] = true, [ZK_HELD] = true, [ZK_OVER] = true},
    [ZK_PROVING] = {[ZK_OFFLINE] = true, [ZK_CREATING] = true, [ZK_HELD] = true, [ZK_OVER] = true},
    [ZK_HELD] = {[ZK_DOWNGRADING] = true, [ZK_OVER] = true},
    [ZK_DOWNGRADING] = {[ZK_HELD] = true, [ZK_OVER] = true},
    [ZK_OVER] = {false},
};

void pawl__zk_set_state(struct zk_claim *claim, enum zk_state state) {
    assert(transitions[claim->state][state]);
    claim->state = state;
}

const char *pawl__zk_short(const char *path) {
    const char *slash = strrchr(path, '/'), *child = slash ? slash + 1 : path;

    if (strncmp(child, "_c_", 3) == 0 && strlen(child) > 3 + ZK_GUID_SIZE && child[3 + ZK_GUID_SIZE - 1] == '-')
        return child + 3 + ZK_GUID_SIZE;
    return child;
}

static const char *child_of(const char *path) {
    return strrchr(path, '/') + 1;
}

bool pawl__zk_leased(const struct zk_claim *claim) {
    return claim->kind == PAWL_SEMAPHORE || claim->nonreentrant;
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

void pawl__zk_tell(struct zk_claim *claim, unsigned what) {
    if (!claim->tell)
        TAILQ_INSERT_TAIL(&claim->zk->news, claim, news);
    claim->tell |= what;
}

void pawl__zk_forget_nodes(struct zk_claim *claim) {
    free(claim->node);
    free(claim->twin);
    for (uint32_t i = 0; i < claim->lease_count; i++)
        free(claim->leases[i]);
    free(claim->leases);
    claim->node = claim->twin = NULL;
    claim->leases = NULL;
    claim->lease_count = 0;
}

void pawl__zk_look_at(struct zk_claim *claim, int64_t when) {
    if (claim->look_at != PAWL__NEVER)
        TAILQ_REMOVE(&claim->zk->timed, claim, timed);
    if (when != PAWL__NEVER)
        TAILQ_INSERT_TAIL(&claim->zk->timed, claim, timed);
    claim->look_at = when;
}

void pawl__zk_next_round(struct zk_claim *claim) {
    claim->round++;
    claim->stalled = false;
    pawl__zk_look_at(claim, PAWL__NEVER);
    pawl__zk_leave_listing(claim);
    claim->next_in_line = claim->gone_already = false;
    if (claim->watch)
        pawl__zk_watch_drop(claim->watch);
    if (claim->far_watch)
        pawl__zk_watch_drop(claim->far_watch);
}

/* The watch on our own node: its deletion fires it, and tells us nothing new. */
static void forget_own_watch(struct zk_claim *claim) {
    if (claim->own_watch)
        claim->own_watch->claim = NULL;
    claim->own_watch = NULL;
}

/* Let go of everything; what is left of the claim are its news. */
static void finish(struct zk_claim *claim) {
    struct zk_op *op;

    pawl__zk_doom_claim(claim);
    pawl__zk_next_round(claim);
    pawl__zk_leave_line(claim);
    while ((op = TAILQ_FIRST(&claim->ops)))
        pawl__zk_op_cut(op);
    pawl__zk_beat_cut(claim);
    forget_own_watch(claim);
    pawl__zk_forget_nodes(claim);
    free(claim->last);
    claim->last = NULL;
    free(claim->home);
    if (claim->dir != claim->home)
        free(claim->dir);
    claim->home = claim->dir = NULL;
    TAILQ_REMOVE(&claim->zk->claims, claim, link);
    if (claim->tell)
        TAILQ_REMOVE(&claim->zk->news, claim, news);
    claim->tell = 0;
    pawl__zk_set_state(claim, ZK_OVER);
}

void pawl__zk_refuse(struct zk_claim *claim, int code, const char *format, ...) {
    va_list args;

    claim->why.code = code;
    va_start(args, format);
    vsnprintf(claim->why.text, sizeof claim->why.text, format, args);
    va_end(args);
    finish(claim);
    pawl__zk_tell(claim, ZK_TELL_REFUSED);
}

/* Servers say so since 3.7; the library has no name for it yet. */
enum { QUOTA_EXCEEDED = -125 };

void pawl__zk_refuse_rc(struct zk_claim *claim, int rc, const char *doing, const char *path) {
    const char *name = claim->claim->name;
    char where[200];

    snprintf(where, sizeof where, "%.190s", path); /* `path` may be the claim's own */
    switch (rc) {
    case ZNOAUTH:
        pawl__zk_refuse(claim, PAWL_EACCES, "'%s': this client may not %s %s: look at the node's ACL and at the URL's user", name,
                        doing, where);
        break;
    case QUOTA_EXCEEDED:
        pawl__zk_refuse(claim, PAWL_ENOSPACE, "'%s': a quota lets nobody %s %s: raise it (setquota), or delete nodes", name, doing,
                        where);
        break;
    case ZINVALIDACL:
        pawl__zk_refuse(claim, PAWL_EACCES, "'%s': acl=creator needs a user in the URL, zk://user:secret@...", name);
        break;
    case ZNOCHILDRENFOREPHEMERALS:
        pawl__zk_refuse(claim, PAWL_EFORMAT,
                        "'%s': %s lies below an ephemeral node, which can't have children: choose another name", name, where);
        break;
    case ZBADARGUMENTS:
        pawl__zk_refuse(claim, PAWL_ENAME, "'%s' is not a name that ZooKeeper takes as a path", name);
        break;
    default:
        pawl__zk_refuse(claim, PAWL_EFORMAT, "'%s': ZooKeeper could not %s %s: %s", name, doing, where, zerror(rc));
        break;
    }
}

void pawl__zk_lose(struct zk_claim *claim, bool broken, const char *format, ...) {
    va_list args;

    claim->why.code = PAWL_ELOST;
    va_start(args, format);
    vsnprintf(claim->why.text, sizeof claim->why.text, format, args);
    va_end(args);
    claim->lost = true;
    claim->broken = broken;
    pawl__zk_tell(claim, ZK_TELL_LOST);
}

/* What was asked for together with it may still be answered, and would be read as if all of it had been: it counts no more. */
void pawl__zk_stall(struct zk_claim *claim) {
    pawl__zk_next_round(claim);
    claim->stalled = true;
    /* A lost connection ends with a reconnect; anything else is tried again. */
    if (claim->zk->connected)
        pawl__zk_look_at(claim, pawl__boottime() + STALL_NS);
}

/* ---- The list ------------------------------------------------------------------------------------------------------------- */

static void on_ahead_event(struct zk_claim *claim, int type) {
    pawl__zk_say(claim->zk, claim, type == ZOO_DELETED_EVENT ? "woken: it was deleted" : "woken: it changed");
    if (claim->state != ZK_QUEUED)
        return;
    if (type == ZOO_DELETED_EVENT && pawl__zk_is_next(claim))
        pawl__zk_grant(claim);
    else
        pawl__zk_look(claim);
}

static void on_watch_set(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    pawl__zk_watch_set(op->watch, reply->rc);
    if (!claim || reply->rc == ZOK)
        return;
    if (reply->rc == ZNONODE) { /* gone between list and watch: nobody will ever wake us */
        pawl__zk_say(claim->zk, claim, "gone already");
        if (pawl__zk_is_next(claim))
            pawl__zk_grant(claim);
        else if (pawl__zk_is_nearly_next(claim))
            claim->gone_already = true;
        else
            pawl__zk_look(claim);
    } else if (pawl__zk_reply_lost(reply->rc)) {
        pawl__zk_stall(claim);
    } else {
        pawl__zk_refuse_rc(claim, reply->rc, "watch a node of", claim->dir);
    }
}

static void send_watch(struct zk_claim *claim) {
    struct zk_op *op = pawl__zk_op_new(claim->zk, claim, on_watch_set, NULL);

    if (op) {
        pawl__zk_get(op, claim->watch->path, claim->watch);
    } else {
        pawl__zk_watch_set(claim->watch, ZSYSTEMERROR);
        pawl__zk_stall(claim);
    }
}

void pawl__zk_watch_ahead(struct zk_claim *claim, const char *child) {
    char *path = pawl__zk_text("%s/%s", claim->dir, child);

    if (path && (claim->watch = pawl__zk_watch_new(claim, path, false, on_ahead_event))) {
        claim->waits_since = pawl__boottime();
        send_watch(claim);
    } else {
        pawl__zk_stall(claim);
    }
    free(path);
}

/* After a cut: is whom we wait for still there? */
static void watch_again(struct zk_claim *claim) {
    claim->watch->missed = false;
    if (claim->try_until)
        pawl__zk_look_at(claim, claim->try_until);
    send_watch(claim);
}

static void look_later(struct zk_claim *claim, int64_t span) {
    pawl__zk_look_at(claim, pawl__boottime() + span);
}

static void behind(struct zk_claim *claim, const char *child, const char *further) {
    if (claim->try_only && !pawl__zk_leased(claim)) {
        pawl__zk_say(claim->zk, claim, "not lowest");
        pawl__zk_refuse(claim, PAWL_EHELD, "'%s' is held, or others wait ahead", claim->claim->name);
        return;
    }
    pawl__zk_say(claim->zk, claim, "not lowest, watching %s", pawl__zk_short(child));
    pawl__zk_watch_ahead(claim, child);
    if (!claim->try_only)
        pawl__zk_look_ahead(claim, further);
    if (claim->try_only && claim->state == ZK_QUEUED) {
        if (claim->try_until == 0)
            claim->try_until = pawl__boottime() + TRY_NS;
        pawl__zk_look_at(claim, claim->try_until);
    }
}

void pawl__zk_foreign(struct zk_claim *claim, const char *child) {
    if (!claim->second_look) {
        claim->second_look = true;
        look_later(claim, SECOND_LOOK_NS);
        return;
    }
    pawl__zk_refuse(claim, PAWL_EKIND, "'%s' is in use as another kind of lock: %s has '%.100s'", claim->claim->name, claim->dir,
                    child);
}

/* A semaphore of another limit? The GUIDs of pawl's nodes tell. */
bool pawl__zk_limit_differs(struct zk_claim *claim, const struct String_vector *children) {
    for (int i = 0; pawl__zk_leased(claim) && i < children->count; i++) {
        uint32_t limit = pawl__zk_guid_limit(children->data[i]);

        if (limit && limit != claim->limit) {
            pawl__zk_refuse(claim, PAWL_ELIMIT, "'%s' is in use as a semaphore of %u permits, not %u", claim->claim->name, limit,
                            claim->limit);
            return true;
        }
    }
    return false;
}

/* Does the directory have the two directories of a semaphore in it? */
static bool has_semaphore(const struct String_vector *children) {
    for (int i = 0; i < children->count; i++)
        if (strcmp(children->data[i], "leases") == 0 || strcmp(children->data[i], "locks") == 0)
            return true;
    return false;
}

static void first(struct zk_claim *claim, const struct String_vector *children) {
    if (pawl__zk_leased(claim)) {
        pawl__zk_set_state(claim, ZK_LEASING);
        pawl__zk_lease(claim);
    } else if (has_semaphore(children)) {
        pawl__zk_check_kind(claim);
    } else {
        pawl__zk_grant(claim);
    }
}

static void judge(struct zk_claim *claim, const struct String_vector *children) {
    const char *const *names = (const char *const *)children->data;
    size_t index, second, ahead;

    if (pawl__zk_limit_differs(claim, children))
        return;
    pawl__zk_remember_last(claim, children);
    switch (pawl__zk_rank(claim->layout, claim->mode == PAWL_SHARED, child_of(claim->node), claim->guid, names,
                          (size_t)children->count, &index, &second, &ahead)) {
    case ZK_FIRST:
        first(claim, children);
        break;
    case ZK_BEHIND:
        behind(claim, names[index], ahead > 1 ? names[second] : NULL);
        break;
    case ZK_ABSENT:
        pawl__zk_say(claim->zk, claim, "own node is gone: queueing anew");
        pawl__zk_start(claim);
        break;
    case ZK_STRAY:
        pawl__zk_refuse(
            claim, PAWL_EFORMAT,
            "'%s': %s has a child '%.100s' that is no lock's and stands ahead of all: remove it, or choose another name",
            claim->claim->name, claim->dir, names[index]);
        break;
    case ZK_FOREIGN:
        pawl__zk_foreign(claim, names[index]);
        break;
    }
}

void pawl__zk_listed(struct zk_claim *claim, const struct zk_reply *reply) {
    if (reply->rc == ZOK && claim->node)
        judge(claim, reply->children);
    else if (reply->rc == ZNONODE && claim->node)
        pawl__zk_start(claim); /* the directory is gone, and our node with it */
    else if (pawl__zk_reply_lost(reply->rc) || !claim->node)
        pawl__zk_stall(claim);
    else
        pawl__zk_refuse_rc(claim, reply->rc, "list", claim->dir);
}

void pawl__zk_look(struct zk_claim *claim) {
    pawl__zk_next_round(claim);
    if (claim->zk->op_count < ZK_ROOM)
        pawl__zk_send_list(claim);
    else
        pawl__zk_look_at(claim, pawl__boottime()); /* as soon as there is room */
}

/* A list that was read before the server caught up says nothing. */
static void on_synced(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_claim *claim = pawl__zk_asked_for(op);

    if (claim && reply->rc != ZOK)
        pawl__zk_stall(claim);
}

void pawl__zk_list_fresh(struct zk_claim *claim, const char *dir, zk_done_fn *done, void *data) {
    struct zk_op *sync, *list;

    pawl__zk_next_round(claim);
    sync = dir ? pawl__zk_op_new(claim->zk, claim, on_synced, NULL) : NULL;
    list = sync ? pawl__zk_op_new(claim->zk, claim, done, data) : NULL;
    if (sync)
        pawl__zk_sync(sync, dir);
    if (list)
        pawl__zk_list(list, dir, NULL);
    else
        pawl__zk_stall(claim);
}

void pawl__zk_look_again(struct zk_claim *claim, int64_t now) {
    pawl__zk_look_at(claim, PAWL__NEVER);
    if (claim->stalled)
        pawl__zk_resume(claim);
    else if (claim->try_until && now >= claim->try_until && (claim->state == ZK_QUEUED || claim->state == ZK_LEASING))
        pawl__zk_refuse(claim, PAWL_EHELD, "others wait ahead for '%s'", claim->claim->name);
    else if (claim->state == ZK_QUEUED && claim->watch && claim->watch->missed)
        watch_again(claim);
    else if (claim->state == ZK_QUEUED)
        pawl__zk_look(claim);
    else if (claim->state == ZK_LEASING)
        pawl__zk_lease_resume(claim);
    else if (claim->state == ZK_HELD && !claim->lost)
        pawl__zk_watch_own(claim);
}

/* ---- Begin, go on, hold --------------------------------------------------------------------------------------------------- */

static bool new_guid(struct zk_claim *claim) {
    unsigned char random[16];

    if (!pawl__random(random, sizeof random))
        return false;
    pawl__zk_guid_format(claim->limit, random, claim->guid);
    return true;
}

void pawl__zk_start(struct zk_claim *claim) {
    pawl__zk_doom_claim(claim);
    pawl__zk_next_round(claim);
    pawl__zk_leave_line(claim);
    pawl__zk_forget_nodes(claim);
    forget_own_watch(claim);
    claim->kind_seen = false;
    claim->session = claim->zk->session;
    if (!claim->zk->connected || !new_guid(claim)) {
        pawl__zk_set_state(claim, ZK_OFFLINE);
        claim->stalled = true;
        return;
    }
    pawl__zk_set_state(claim, ZK_CREATING);
    pawl__zk_create_node(claim);
}

void pawl__zk_resume(struct zk_claim *claim) {
    if (!claim->stalled || !claim->zk->connected)
        return;
    claim->stalled = false;
    switch (claim->state) {
    case ZK_OFFLINE:
        pawl__zk_enter(claim);
        break;
    case ZK_CREATING:
    case ZK_FINDING:
        pawl__zk_find_node(claim);
        break;
    case ZK_QUEUED:
        if (claim->node)
            pawl__zk_look(claim);
        else
            pawl__zk_start(claim);
        break;
    case ZK_LEASING:
        pawl__zk_lease_resume(claim);
        break;
    case ZK_PROVING:
        claim->zk->beat_due = true;
        break;
    case ZK_DOWNGRADING:
        pawl__zk_downgrade_resume(claim);
        break;
    default:
        break;
    }
}

void pawl__zk_session_lost(struct zk_claim *claim) {
    bool held = claim->state == ZK_HELD || claim->state == ZK_DOWNGRADING;

    pawl__zk_next_round(claim);
    pawl__zk_forget_nodes(claim);
    if (held && !claim->lost)
        pawl__zk_lose(claim, false, "the ZooKeeper session that held '%s' has expired", claim->claim->name);
    if (held)
        return;
    pawl__zk_say(claim->zk, claim, "the session is gone: queueing anew");
    pawl__zk_start(claim);
}

static void hold(struct zk_claim *claim, int64_t sent_at) {
    struct pawl__claim *seam = claim->claim;

    pawl__zk_next_round(claim);
    pawl__zk_set_state(claim, ZK_HELD);
    seam->token = (uint64_t)claim->czxid << ZK_TOKEN_BITS;
    seam->token_count = 1u << ZK_TOKEN_BITS;
    seam->sent_at = sent_at;
    seam->lease_ns = pawl__zk_lease_ns(claim->zk, sent_at);
    if (claim->lease_count && claim->node) { /* the next one in `locks` has its turn */
        pawl__zk_doom(claim->zk, claim->node);
        free(claim->node);
        claim->node = NULL;
    }
    pawl__zk_look_at(claim, pawl__boottime() + ZK_WATCH_OWN_NS);
    pawl__zk_say(claim->zk, claim, "holds");
    pawl__zk_tell(claim, ZK_TELL_GRANTED);
}

void pawl__zk_grant(struct zk_claim *claim) {
    struct zk_engine *zk = claim->zk;

    if (pawl__boottime() - zk->proved_at < pawl__zk_lease_ns(zk, zk->proved_at) / 3) {
        hold(claim, zk->proved_at);
        return;
    }
    pawl__zk_set_state(claim, ZK_PROVING);
    zk->beat_due = true;
}

/* A heartbeat that checked the claim's nodes has come through. */
void pawl__zk_proved(struct zk_engine *zk, int64_t sent_at) {
    if (sent_at > zk->proved_at)
        zk->proved_at = sent_at;
}

void pawl__zk_checked(struct zk_claim *claim, int64_t sent_at) {
    struct pawl__claim *seam = claim->claim;

    if (claim->state == ZK_PROVING) {
        hold(claim, sent_at);
    } else if (claim->state == ZK_HELD && !claim->lost && sent_at > seam->sent_at) {
        seam->sent_at = sent_at;
        seam->lease_ns = pawl__zk_lease_ns(claim->zk, sent_at);
        pawl__zk_tell(claim, ZK_TELL_RENEWED);
    }
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

static int claim_init(struct zk_engine *zk, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct zk_claim *claim = zk_claim_of(seam);
    int rc = 0;

    claim->zk = zk;
    claim->claim = seam;
    claim->kind = seam->kind;
    claim->mode = seam->mode;
    claim->permits = seam->permits;
    claim->limit = seam->limit;
    claim->try_only = seam->try_only;
    claim->nonreentrant = seam->nonreentrant;
    claim->layout = seam->kind == PAWL_RWLOCK ? ZK_RWLOCK : ZK_MUTEX;
    claim->look_at = PAWL__NEVER;
    TAILQ_INIT(&claim->ops);
    if (seam->permits > ZK_PERMITS_MAX)
        return pawl__fail(reterr, PAWL_EPERMITS, "%u permits at once are too many on ZooKeeper, where each is a node: %d at most",
                          seam->permits, ZK_PERMITS_MAX);
    claim->home = pawl__zk_home(zk, seam->name, reterr, &rc);
    if (!claim->home)
        return rc;
    claim->dir = pawl__zk_leased(claim) ? pawl__zk_text("%s/locks", claim->home) : claim->home;
    if (!claim->dir) {
        free(claim->home);
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    return 0;
}

static bool given_up(const struct zk_engine *zk) {
    return zk->retry_tries && zk->attempts > zk->retry_tries;
}

int pawl__zk_submit(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);
    int rc = claim_init(zk, seam, reterr);

    if (rc < 0)
        return rc;
    pawl__zk_lock();
    if (!zk->connected && (seam->try_only || given_up(zk)))
        rc = pawl__fail(reterr, PAWL_ECONNLOST, "no connection to %s: '%s' was not acquired; look whether the servers run", zk->url,
                        seam->name);
    else
        rc = pawl__zk_check_tick(zk, reterr);
    if (rc < 0) {
        pawl__zk_unlock(zk);
        free(claim->home);
        if (claim->dir != claim->home)
            free(claim->dir);
        return rc;
    }
    TAILQ_INSERT_TAIL(&zk->claims, claim, link);
    pawl__zk_enter(claim);
    pawl__zk_unlock(zk);
    return PAWL__PENDING;
}

int pawl__zk_withdraw(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct zk_engine *zk = zk_of(engine);
    struct zk_claim *claim = zk_claim_of(seam);

    pawl__zk_lock();
    if (claim->state != ZK_OVER) { /* else it was refused, and the core is about to hear so */
        pawl__zk_leave_memory(claim);
        finish(claim);
        pawl__zk_tell(claim, ZK_TELL_SETTLED);
        /* The answer to the delete wakes the service thread soon enough; where there is none it must be woken. */
        if (!zk->connected || TAILQ_EMPTY(&zk->ops))
            pawl__zk_wake(engine);
    }
    pawl__zk_unlock(zk);
    return PAWL__PENDING;
}
