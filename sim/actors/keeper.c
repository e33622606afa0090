/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper.c - a session with ZooKeeper for code that blocks. See keeper.h.
 *
 * The library (libzookeeper_st) has no thread: who waits drives it. There is one request under way at most, and its answer goes into the
 * keeper; so what comes late, when the session is closed, meets memory that is still there.
 */
#include "keeper.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server that is throttling refuses so. Older headers do not know it. */
#define THROTTLED (-127)
#define OPEN_NS (3000 * ACTOR_MS)

bool keeper_is_loss(int code) {
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == THROTTLED;
}

/* ---- Driving the library -------------------------------------------------------------------------------------------------- */

static void drop_log(const char *message) {
    (void)message;
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct keeper *keeper = data != NULL ? data : (void *)(uintptr_t)zoo_get_context(handle);

    (void)type;
    (void)state;
    (void)path;
    if (keeper != NULL)
        keeper->woken = true;
}

/* One step: wait for the socket, until then at the latest, and let the library work. */
static void step(struct keeper *keeper, int64_t until) {
    struct timeval library = {0, 0};
    int fd = -1, interest = 0, code = zookeeper_interest(keeper->handle, &fd, &interest, &library), ms = actor_slice_ms(until);
    int64_t library_ms = (int64_t)library.tv_sec * 1000 + (library.tv_usec + 999) / 1000;
    struct pollfd wait = {.fd = fd};

    if (code != ZOK || fd < 0) {
        poll(NULL, 0, ms < 10 ? ms : 10); /* no server: not at once again */
        return;
    }
    wait.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    if (poll(&wait, 1, library_ms < ms ? (int)library_ms : ms) < 0)
        return;
    zookeeper_process(keeper->handle, (wait.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
                                          (wait.revents & POLLOUT ? ZOOKEEPER_WRITE : 0));
}

static bool is_connected(const struct keeper *keeper) {
    return zoo_state(keeper->handle) == ZOO_CONNECTED_STATE;
}

bool keeper_mended(struct keeper *keeper, int64_t until) {
    while (keeper->handle != NULL && !is_unrecoverable(keeper->handle) && actor_now() < until) {
        if (is_connected(keeper))
            return true;
        step(keeper, until);
    }
    return false;
}

static void forget_children(struct keeper *keeper) {
    for (int i = 0; i < keeper->child_count; i++)
        free(keeper->children[i]);
    free(keeper->children);
    keeper->children = NULL;
    keeper->child_count = 0;
}

int keeper_open(struct keeper *keeper) {
    const struct actor_place *place = keeper->actor->place;
    char host[ACTOR_NAME];

    keeper_close(keeper);
    snprintf(host, sizeof host, "%s:%u", place->host, place->port);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    keeper->handle = zookeeper_init2(host, on_event, (int)place->lease_ms, NULL, keeper, 0, drop_log);
    if (keeper->handle == NULL)
        return PAWL_ECONNLOST;
    zoo_set_servers_resolution_delay(keeper->handle, -1);
    if (keeper_mended(keeper, actor_now() + OPEN_NS))
        return 0;
    keeper_close(keeper);
    return PAWL_ECONNLOST;
}

void keeper_close(struct keeper *keeper) {
    if (keeper->handle != NULL)
        zookeeper_close(keeper->handle);
    keeper->handle = NULL;
    forget_children(keeper);
}

int64_t keeper_session_ns(const struct keeper *keeper) {
    return keeper->handle != NULL ? zoo_recv_timeout(keeper->handle) * ACTOR_MS : 0;
}

/* ---- Answers -------------------------------------------------------------------------------------------------------------- */

static struct keeper *answered(const void *data, int code) {
    struct keeper *keeper = (struct keeper *)(uintptr_t)data;

    keeper->answered = true;
    keeper->code = code;
    return keeper;
}

static void on_created(int code, const char *path, const void *data) {
    struct keeper *keeper = answered(data, code);

    snprintf(keeper->created, sizeof keeper->created, "%s", code == ZOK && path != NULL ? path : "");
}

static void on_done(int code, const void *data) {
    answered(data, code);
}

static void on_data(int code, const char *value, int size, const struct Stat *stat, const void *data) {
    (void)value;
    (void)size;
    (void)stat;
    answered(data, code);
}

static void on_children(int code, const struct String_vector *strings, const void *data) {
    struct keeper *keeper = answered(data, code);

    forget_children(keeper);
    if (code != ZOK || strings == NULL || strings->count == 0)
        return;
    keeper->children = calloc((size_t)strings->count, sizeof keeper->children[0]);
    for (int i = 0; keeper->children != NULL && i < strings->count; i++) {
        size_t size = strlen(strings->data[i]) + 1;
        char *copy = malloc(size);

        if (copy == NULL)
            return;
        memcpy(copy, strings->data[i], size);
        keeper->children[keeper->child_count++] = copy;
    }
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

static int send_request(struct keeper *keeper, const struct keeper_request *request, zoo_op_t *op) {
    zhandle_t *handle = keeper->handle;

    switch (request->verb) {
    case KEEPER_CREATE:
        return zoo_acreate(handle, request->path, request->data, request->data != NULL ? (int)strlen(request->data) : -1,
                           &ZOO_OPEN_ACL_UNSAFE, request->flags, on_created, keeper);
    case KEEPER_DELETE:
        return zoo_adelete(handle, request->path, -1, on_done, keeper);
    case KEEPER_LIST:
        return request->watch ? zoo_awget_children(handle, request->path, on_event, keeper, on_children, keeper)
                              : zoo_aget_children(handle, request->path, 0, on_children, keeper);
    case KEEPER_GET:
        return request->watch ? zoo_awget(handle, request->path, on_event, keeper, on_data, keeper)
                              : zoo_aget(handle, request->path, 0, on_data, keeper);
    case KEEPER_CHECK:
        zoo_check_op_init(op, request->path, -1);
        return zoo_amulti(handle, 1, op, &keeper->result, on_done, keeper);
    default:
        return ZBADARGUMENTS;
    }
}

int keeper_ask(struct keeper *keeper, const struct keeper_request *request) {
    int64_t sent_at = actor_now(), until = sent_at + 2 * keeper_session_ns(keeper);
    zoo_op_t op;

    if (keeper->handle == NULL || is_unrecoverable(keeper->handle))
        return ZSESSIONEXPIRED;
    keeper->answered = keeper->woken = false;
    int code = send_request(keeper, request, &op);

    while (code == ZOK && !keeper->answered && !is_unrecoverable(keeper->handle) && actor_now() < until)
        step(keeper, until);
    if (code != ZOK)
        return code == ZINVALIDSTATE ? ZSESSIONEXPIRED : code;
    if (!keeper->answered) {
        keeper_close(keeper);
        return ZSESSIONEXPIRED;
    }
    if (request->verb != KEEPER_LIST && request->verb != KEEPER_GET && keeper->code == ZOK)
        keeper->proven_at = sent_at;
    return keeper->code == ZINVALIDSTATE || keeper->code == ZCLOSING ? ZSESSIONEXPIRED : keeper->code;
}

int keeper_insist(struct keeper *keeper, const struct keeper_request *request) {
    int64_t until = actor_now() + 2 * keeper_session_ns(keeper);
    int code = keeper_ask(keeper, request);

    while (keeper_is_loss(code)) {
        poll(NULL, 0, 1);
        code = keeper_mended(keeper, until) && actor_now() < until ? keeper_ask(keeper, request) : ZSESSIONEXPIRED;
    }
    return code;
}

bool keeper_sleep(struct keeper *keeper) {
    while (!keeper->woken && !actor_over(keeper->actor)) {
        if (keeper->handle == NULL || is_unrecoverable(keeper->handle))
            return false;
        step(keeper, INT64_MAX);
    }
    return keeper->handle != NULL && !is_unrecoverable(keeper->handle);
}

void keeper_nap(struct keeper *keeper, int64_t until) {
    while (actor_now() < until && !actor_over(keeper->actor)) {
        if (keeper->handle == NULL || is_unrecoverable(keeper->handle))
            actor_nap(keeper->actor, until);
        else
            step(keeper, until);
    }
}

int keeper_make_way(struct keeper *keeper, const char *path, int flags) {
    char part[ACTOR_NAME];
    int code = ZOK;

    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        size_t size = slash != NULL ? (size_t)(slash - path) : strlen(path);

        if (size >= sizeof part)
            return ZBADARGUMENTS;
        memcpy(part, path, size);
        part[size] = '\0';
        code = keeper_insist(keeper, &(struct keeper_request){.verb = KEEPER_CREATE, .path = part, .flags = flags});
        if ((code != ZOK && code != ZNODEEXISTS) || slash == NULL)
            break;
    }
    return code == ZNODEEXISTS ? ZOK : code;
}
