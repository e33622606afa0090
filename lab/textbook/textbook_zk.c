/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook_zk.c - see textbook.h: the lock with sequential nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "textbook.h"

#include "os/sleep.h"

#define MS INT64_C(1000000)

struct answer {
    bool come;
    int rc;
    char path[256];
    char children[256][64];
    int count;
};

/* ---- A synchronous client of the single-threaded library ------------------------------------------------------------------ */

static zhandle_t *new_handle(struct textbook *textbook);

/* A session that has expired takes all nodes and watches with it: those who wait begin anew. */
static void reopen(struct textbook *textbook) {
    struct simple_claim *simple_claim = NULL;

    zookeeper_close(textbook->server);
    textbook->server = new_handle(textbook);
    if (!textbook->server)
        abort();
    while ((simple_claim = pawl__simple_next(&textbook->simple, simple_claim))) {
        struct textbook_claim *claim = claim_of(simple_claim);

        claim->watched[0] = '\0';
        if (!claim->taken)
            claim->node[0] = '\0';
    }
}

/* Hear the server, until then or until the bell rings; -1: there is none. */
static void turn(struct textbook *textbook, int bell, int64_t until) {
    struct timeval span = {0, 0};
    struct pollfd fds[] = {{.fd = -1}, {.fd = bell, .events = POLLIN}};
    int interest = 0;

    zookeeper_interest(textbook->server, &fds[0].fd, &interest, &span);
    fds[0].events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    pawl__sleep(fds, 2, until, NULL);
    interest = (fds[0].revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
               (fds[0].revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    if (interest)
        zookeeper_process(textbook->server, interest);
    if (zoo_state(textbook->server) == ZOO_EXPIRED_SESSION_STATE)
        reopen(textbook);
}

static struct answer answer; /* one request at a time */

static void on_void(int rc, const void *data) {
    (void)data;
    answer.rc = rc;
    answer.come = true;
}

static void on_string(int rc, const char *path, const void *data) {
    if (rc == ZOK)
        snprintf(answer.path, sizeof answer.path, "%s", path);
    on_void(rc, data);
}

static void on_children(int rc, const struct String_vector *children, const void *data) {
    answer.count = 0;
    for (int i = 0; rc == ZOK && i < children->count && i < 256; i++)
        snprintf(answer.children[answer.count++], sizeof answer.children[0], "%s", children->data[i]);
    on_void(rc, data);
}

static void on_stat(int rc, const struct Stat *stat, const void *data) {
    (void)stat;
    on_void(rc, data);
}

static void on_data(int rc, const char *bytes, int length, const struct Stat *stat, const void *data) {
    (void)bytes;
    (void)length;
    (void)stat;
    on_void(rc, data);
}

/* The result of the request that was just made: `rc` is what the library said to it. */
static int await(struct textbook *textbook, int rc) {
    int64_t deadline = pawl__boottime() + textbook->simple.lease_ns;

    while (rc == ZOK && !answer.come && pawl__boottime() < deadline)
        turn(textbook, -1, pawl__boottime() + 20 * MS);
    if (rc == ZOK)
        rc = answer.come ? answer.rc : ZOPERATIONTIMEOUT;
    answer.come = false;
    return rc;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *data) {
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)data;
}

static void ignore_log(const char *message) {
    (void)message;
}

static zhandle_t *new_handle(struct textbook *textbook) {
    char hosts[64];

    zoo_set_debug_level((ZooLogLevel)0);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", textbook->port);
    return zookeeper_init2(hosts, on_session, (int)(textbook->simple.lease_ns / MS), NULL, textbook, 0, ignore_log);
}

static int zk_open(struct simple *simple, struct pawl_error *reterr) {
    struct textbook *textbook = textbook_of(simple);
    int64_t deadline = pawl__boottime() + 15000 * MS;

    textbook->server = new_handle(textbook);
    if (!textbook->server)
        return pawl__textbook_unreachable(textbook, reterr);
    while (zoo_state(textbook->server) != ZOO_CONNECTED_STATE && pawl__boottime() < deadline)
        turn(textbook, -1, pawl__boottime() + 20 * MS);
    if (zoo_state(textbook->server) == ZOO_CONNECTED_STATE)
        return 0;
    zookeeper_close(textbook->server);
    return pawl__textbook_unreachable(textbook, reterr);
}

static void zk_close(struct simple *simple) {
    zookeeper_close(textbook_of(simple)->server);
}

static void zk_listen(struct simple *simple, int64_t until) {
    int64_t soon = pawl__boottime() + 10 * MS; /* the library has timers of its own */

    turn(textbook_of(simple), simple->kit.bell, until < soon ? until : soon);
}

/* ---- The lock ------------------------------------------------------------------------------------------------------------- */

/* Somebody went: look again. Or sleep through it. */
static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct textbook *textbook = (struct textbook *)(uintptr_t)zoo_get_context(handle);
    struct simple_claim *claim = NULL;

    (void)state;
    (void)data;
    if (type == ZOO_SESSION_EVENT || (textbook->drops_wakes && ++textbook->wakes % 5 == 0))
        return;
    while ((claim = pawl__simple_next(&textbook->simple, claim)))
        if (strcmp(claim_of(claim)->watched, path) == 0)
            claim_of(claim)->watched[0] = '\0';
}

static void directory_of(const struct textbook_claim *claim, char ret[200]) {
    snprintf(ret, 200, "/textbook-%s", claim->simple.kit.claim->name);
}

static int create(struct textbook *textbook, const char *path, int flags) {
    return await(textbook, zoo_acreate(textbook->server, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, on_string, NULL));
}

static bool create_node(struct textbook *textbook, struct textbook_claim *claim) {
    char directory[200], path[224];
    int flags = ZOO_SEQUENCE | (textbook->persistent ? 0 : ZOO_EPHEMERAL), rc;

    directory_of(claim, directory);
    snprintf(path, sizeof path, "%s/lock-", directory);
    rc = create(textbook, path, flags);
    if (rc == ZNONODE) {
        create(textbook, directory, 0);
        rc = create(textbook, path, flags);
    }
    if (rc == ZOK)
        snprintf(claim->node, sizeof claim->node, "%s", answer.path);
    return rc == ZOK;
}

/* Watch the one before us, or everybody. Afterwards claim->watched says what is waited for; "": look again. */
static void watch(struct textbook *textbook, struct textbook_claim *claim, const char *directory, const char *before) {
    int rc;

    if (textbook->watch == WATCH_CHILDREN) {
        snprintf(claim->watched, sizeof claim->watched, "%s", directory);
        rc = await(textbook, zoo_awget_children(textbook->server, directory, on_watch, textbook, on_children, NULL));
    } else {
        snprintf(claim->watched, sizeof claim->watched, "%s/%.100s", directory, before);
        rc = textbook->watch == WATCH_EXISTS
                 ? await(textbook, zoo_awexists(textbook->server, claim->watched, on_watch, textbook, on_stat, NULL))
                 : await(textbook, zoo_awget(textbook->server, claim->watched, on_watch, textbook, on_data, NULL));
    }
    if (rc != ZOK)
        claim->watched[0] = '\0';
}

static enum simple_answer zk_acquire(struct simple *simple, struct simple_claim *simple_claim, struct pawl_error *retwhy) {
    struct textbook *textbook = textbook_of(simple);
    struct textbook_claim *claim = claim_of(simple_claim);
    const char *own, *before = NULL;
    char directory[200];

    if (claim->watched[0])
        return SIMPLE_NOT_YET;
    directory_of(claim, directory);
    if ((!claim->node[0] && !create_node(textbook, claim)) ||
        await(textbook, zoo_aget_children(textbook->server, directory, 0, on_children, NULL)) != ZOK) {
        pawl__textbook_unreachable(textbook, retwhy);
        return SIMPLE_NOT_YET;
    }
    if (!claim->node[0])
        return SIMPLE_NOT_YET; /* a new session meanwhile */
    own = strrchr(claim->node, '/') + 1;
    for (int i = 0; i < answer.count; i++)
        if (strcmp(answer.children[i], own) < 0 && (!before || strcmp(answer.children[i], before) > 0))
            before = answer.children[i];
    if (!before) {
        pawl__textbook_granted(textbook, claim, strtoull(own + strlen("lock-"), NULL, 10) + 1);
        return SIMPLE_YES;
    }
    if (!simple_claim->kit.claim->try_only)
        watch(textbook, claim, directory, before);
    return SIMPLE_NOT_YET;
}

static enum simple_answer zk_release(struct simple *simple, struct simple_claim *simple_claim) {
    struct textbook *textbook = textbook_of(simple);
    struct textbook_claim *claim = claim_of(simple_claim);

    if (claim->node[0])
        await(textbook, zoo_adelete(textbook->server, claim->node, -1, on_void, NULL));
    return SIMPLE_YES;
}

static enum simple_answer zk_renew(struct simple *simple, struct simple_claim *simple_claim) {
    struct textbook *textbook = textbook_of(simple);
    int rc = await(textbook, zoo_aexists(textbook->server, claim_of(simple_claim)->node, 0, on_stat, NULL));

    return rc == ZOK ? SIMPLE_YES : SIMPLE_NO;
}

const struct simple_ops pawl__textbook_zk = {
    .open = zk_open,
    .close = zk_close,
    .acquire = zk_acquire,
    .release = zk_release,
    .renew = zk_renew,
    .listen = zk_listen,
};
