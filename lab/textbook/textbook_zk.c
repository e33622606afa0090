/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook_zk.c - see textbook.h: the lock with sequential nodes.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "textbook.h"

struct answer {
    bool come;
    int rc;
    char path[256];
    char children[256][64];
    int count;
};

/* ---- A synchronous client of the single-threaded library ------------------------------------------------------------------ */

static void reopen(struct textbook *textbook);

static void turn(struct textbook *textbook, int timeout_ms) {
    struct timeval span = {0, 0};
    int fd = -1, interest = 0;
    struct pollfd wait;

    zookeeper_interest(textbook->server, &fd, &interest, &span);
    wait = (struct pollfd){
        .fd = fd, .events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0))};
    poll(&wait, 1, timeout_ms);
    interest = (wait.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (wait.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
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
    int64_t deadline = pawl__boottime() + textbook->lease_ns;

    while (rc == ZOK && !answer.come && pawl__boottime() < deadline)
        turn(textbook, 20);
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

/* ---- The lock ------------------------------------------------------------------------------------------------------------- */

static zhandle_t *new_handle(struct textbook *textbook) {
    char hosts[64];

    zoo_set_debug_level((ZooLogLevel)0);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", textbook->port);
    return zookeeper_init2(hosts, on_session, (int)(textbook->lease_ns / 1000000), NULL, textbook, 0, ignore_log);
}

/* A session that has expired takes all nodes and watches with it: whoever waits begins anew. */
static void reopen(struct textbook *textbook) {
    struct textbook_claim *claim;

    zookeeper_close(textbook->server);
    textbook->server = new_handle(textbook);
    if (!textbook->server)
        abort();
    pthread_mutex_lock(&textbook->mutex);
    TAILQ_FOREACH(claim, &textbook->claims, link) {
        claim->watched[0] = '\0';
        if (!claim->held)
            claim->node[0] = '\0';
    }
    pthread_mutex_unlock(&textbook->mutex);
}

static bool zk_open(struct textbook *textbook, struct pawl__url *url) {
    int64_t deadline = pawl__boottime() + INT64_C(15000000000);

    (void)url;
    textbook->server = new_handle(textbook);
    if (!textbook->server)
        return false;
    while (zoo_state(textbook->server) != ZOO_CONNECTED_STATE && pawl__boottime() < deadline)
        turn(textbook, 20);
    if (zoo_state(textbook->server) == ZOO_CONNECTED_STATE)
        return true;
    zookeeper_close(textbook->server);
    return false;
}

static void zk_close(struct textbook *textbook) {
    zookeeper_close(textbook->server);
}

/* Somebody went: look again. Or sleep through it. */
static void on_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct textbook *textbook = (struct textbook *)(uintptr_t)zoo_get_context(handle);
    struct textbook_claim *claim;

    (void)state;
    (void)data;
    if (type == ZOO_SESSION_EVENT || (textbook->drops_wakes && ++textbook->wakes % 5 == 0))
        return;
    pthread_mutex_lock(&textbook->mutex);
    TAILQ_FOREACH(claim, &textbook->claims, link) {
        if (strcmp(claim->watched, path) == 0)
            claim->watched[0] = '\0';
    }
    pthread_mutex_unlock(&textbook->mutex);
}

static void directory_of(const struct textbook_claim *state, char ret[200]) {
    snprintf(ret, 200, "/textbook-%s", state->claim->name);
}

static bool create(struct textbook *textbook, struct textbook_claim *state) {
    char directory[200], path[224];
    int flags = ZOO_SEQUENCE | (textbook->persistent ? 0 : ZOO_EPHEMERAL), rc;

    directory_of(state, directory);
    snprintf(path, sizeof path, "%s/lock-", directory);
    rc = await(textbook, zoo_acreate(textbook->server, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, on_string, NULL));
    if (rc == ZNONODE) {
        await(textbook, zoo_acreate(textbook->server, directory, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, NULL));
        rc = await(textbook, zoo_acreate(textbook->server, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, on_string, NULL));
    }
    if (rc != ZOK)
        return false;
    snprintf(state->node, sizeof state->node, "%s", answer.path);
    state->token = strtoull(state->node + strlen(path), NULL, 10) + 1;
    return true;
}

/* Watch the one before us, or everybody. Afterwards state->watched says what is waited for; "": look again. */
static void watch(struct textbook *textbook, struct textbook_claim *state, const char *directory, const char *before) {
    int rc;

    if (textbook->watch == WATCH_CHILDREN) {
        snprintf(state->watched, sizeof state->watched, "%s", directory);
        rc = await(textbook, zoo_awget_children(textbook->server, directory, on_watch, textbook, on_children, NULL));
    } else {
        snprintf(state->watched, sizeof state->watched, "%s/%s", directory, before);
        rc = textbook->watch == WATCH_EXISTS
                 ? await(textbook, zoo_awexists(textbook->server, state->watched, on_watch, textbook, on_stat, NULL))
                 : await(textbook, zoo_awget(textbook->server, state->watched, on_watch, textbook, on_data, NULL));
    }
    if (rc != ZOK)
        state->watched[0] = '\0';
}

static enum textbook_answer zk_acquire(struct textbook *textbook, struct textbook_claim *state) {
    char directory[200];
    const char *own, *before = NULL;

    if (state->watched[0])
        return TEXTBOOK_NOT_YET;
    if (!state->node[0] && !create(textbook, state))
        return TEXTBOOK_NOT_YET;
    directory_of(state, directory);
    if (await(textbook, zoo_aget_children(textbook->server, directory, 0, on_children, NULL)) != ZOK)
        return TEXTBOOK_NOT_YET;
    own = strrchr(state->node, '/') + 1;
    for (int i = 0; i < answer.count; i++)
        if (strcmp(answer.children[i], own) < 0 && (!before || strcmp(answer.children[i], before) > 0))
            before = answer.children[i];
    if (!before)
        return TEXTBOOK_YES;
    if (!state->claim->try_only) {
        char name[64];

        snprintf(name, sizeof name, "%s", before);
        watch(textbook, state, directory, name);
    }
    return TEXTBOOK_NOT_YET;
}

static void zk_release(struct textbook *textbook, struct textbook_claim *state) {
    if (state->node[0])
        await(textbook, zoo_adelete(textbook->server, state->node, -1, on_void, NULL));
}

static enum textbook_answer zk_renew(struct textbook *textbook, struct textbook_claim *state) {
    return await(textbook, zoo_aexists(textbook->server, state->node, 0, on_stat, NULL)) == ZOK ? TEXTBOOK_YES : TEXTBOOK_NO;
}

const struct textbook_backend pawl__textbook_zk = {
    .open = zk_open,
    .close = zk_close,
    .acquire = zk_acquire,
    .release = zk_release,
    .renew = zk_renew,
    .turn = turn,
};
