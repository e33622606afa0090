/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_session.c - a session with ZooKeeper for code that blocks. See zookeeper_session.h.
 *
 * The library (libzookeeper_st) has no thread: who waits drives it. There is one request under way at most, and its answer goes into the
 * session; so what comes late, when the session is closed, meets memory that is still there.
 */
#include "zookeeper_session.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server that is throttling refuses so. Older headers do not know it. */
#define THROTTLED (-127)
#define OPEN_NS (3000 * ACTOR_MS)

bool actor_session_is_loss(int code) {
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == THROTTLED;
}

/* ---- Driving the library -------------------------------------------------------------------------------------------------- */

static void drop_log(const char *message) {
    (void)message;
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *data) {
    struct actor_session *session = data != NULL ? data : (void *)(uintptr_t)zoo_get_context(handle);

    (void)type;
    (void)state;
    (void)path;
    if (session != NULL)
        session->woken = true;
}

/* One step: wait for the socket, until then at the latest, and let the library work. */
static void step(struct actor_session *session, int64_t until) {
    struct timeval library = {0, 0};
    int fd = -1, interest = 0, code = zookeeper_interest(session->handle, &fd, &interest, &library), ms = actor_slice_ms(until);
    int64_t library_ms = (int64_t)library.tv_sec * 1000 + (library.tv_usec + 999) / 1000;
    struct pollfd wait = {.fd = fd};

    if (code != ZOK || fd < 0) {
        poll(NULL, 0, ms < 10 ? ms : 10); /* no server: not at once again */
        return;
    }
    wait.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    if (poll(&wait, 1, library_ms < ms ? (int)library_ms : ms) < 0)
        return;
    zookeeper_process(session->handle, (wait.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
                                           (wait.revents & POLLOUT ? ZOOKEEPER_WRITE : 0));
}

static bool is_connected(const struct actor_session *session) {
    return zoo_state(session->handle) == ZOO_CONNECTED_STATE;
}

bool actor_session_mended(struct actor_session *session, int64_t until) {
    while (session->handle != NULL && !is_unrecoverable(session->handle) && actor_now() < until) {
        if (is_connected(session))
            return true;
        step(session, until);
    }
    return false;
}

static void forget_children(struct actor_session *session) {
    for (int i = 0; i < session->child_count; i++)
        free(session->children[i]);
    free(session->children);
    session->children = NULL;
    session->child_count = 0;
}

int actor_session_open(struct actor_session *session) {
    const struct actor_place *place = session->actor->place;
    char host[ACTOR_NAME];

    actor_session_close(session);
    snprintf(host, sizeof host, "%s:%u", place->host, place->port);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    session->handle = zookeeper_init2(host, on_event, (int)place->lease_ms, NULL, session, 0, drop_log);
    if (session->handle == NULL)
        return PAWL_ECONNLOST;
    zoo_set_servers_resolution_delay(session->handle, -1);
    if (actor_session_mended(session, actor_now() + OPEN_NS))
        return 0;
    actor_session_close(session);
    return PAWL_ECONNLOST;
}

void actor_session_close(struct actor_session *session) {
    if (session->handle != NULL)
        zookeeper_close(session->handle);
    session->handle = NULL;
    forget_children(session);
}

int64_t actor_session_ns(const struct actor_session *session) {
    return session->handle != NULL ? zoo_recv_timeout(session->handle) * ACTOR_MS : 0;
}

/* ---- Answers -------------------------------------------------------------------------------------------------------------- */

static struct actor_session *answered(const void *data, int code) {
    struct actor_session *session = (struct actor_session *)(uintptr_t)data;

    session->answered = true;
    session->code = code;
    return session;
}

static void on_created(int code, const char *path, const void *data) {
    struct actor_session *session = answered(data, code);

    snprintf(session->created, sizeof session->created, "%s", code == ZOK && path != NULL ? path : "");
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
    struct actor_session *session = answered(data, code);

    forget_children(session);
    if (code != ZOK || strings == NULL || strings->count == 0)
        return;
    session->children = calloc((size_t)strings->count, sizeof session->children[0]);
    for (int i = 0; session->children != NULL && i < strings->count; i++) {
        size_t size = strlen(strings->data[i]) + 1;
        char *copy = malloc(size);

        if (copy == NULL)
            return;
        memcpy(copy, strings->data[i], size);
        session->children[session->child_count++] = copy;
    }
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

static int send_request(struct actor_session *session, const struct session_request *request, zoo_op_t *op) {
    zhandle_t *handle = session->handle;

    switch (request->verb) {
    case SESSION_CREATE:
        return zoo_acreate(handle, request->path, request->data, request->data != NULL ? (int)strlen(request->data) : -1,
                           &ZOO_OPEN_ACL_UNSAFE, request->flags, on_created, session);
    case SESSION_DELETE:
        return zoo_adelete(handle, request->path, -1, on_done, session);
    case SESSION_LIST:
        return request->watch ? zoo_awget_children(handle, request->path, on_event, session, on_children, session)
                              : zoo_aget_children(handle, request->path, 0, on_children, session);
    case SESSION_GET:
        return request->watch ? zoo_awget(handle, request->path, on_event, session, on_data, session)
                              : zoo_aget(handle, request->path, 0, on_data, session);
    case SESSION_CHECK:
        zoo_check_op_init(op, request->path, -1);
        return zoo_amulti(handle, 1, op, &session->result, on_done, session);
    default:
        return ZBADARGUMENTS;
    }
}

int actor_session_ask(struct actor_session *session, const struct session_request *request) {
    int64_t sent_at = actor_now(), until = sent_at + 2 * actor_session_ns(session);
    zoo_op_t op;

    if (session->handle == NULL || is_unrecoverable(session->handle))
        return ZSESSIONEXPIRED;
    session->answered = session->woken = false;
    int code = send_request(session, request, &op);

    while (code == ZOK && !session->answered && !is_unrecoverable(session->handle) && actor_now() < until)
        step(session, until);
    if (code != ZOK)
        return code == ZINVALIDSTATE ? ZSESSIONEXPIRED : code;
    if (!session->answered) {
        actor_session_close(session);
        return ZSESSIONEXPIRED;
    }
    if (request->verb != SESSION_LIST && request->verb != SESSION_GET && session->code == ZOK)
        session->proven_at = sent_at;
    return session->code == ZINVALIDSTATE || session->code == ZCLOSING ? ZSESSIONEXPIRED : session->code;
}

int actor_session_insist(struct actor_session *session, const struct session_request *request) {
    int64_t until = actor_now() + 2 * actor_session_ns(session);
    int code = actor_session_ask(session, request);

    while (actor_session_is_loss(code)) {
        poll(NULL, 0, 1);
        code = actor_session_mended(session, until) && actor_now() < until ? actor_session_ask(session, request) : ZSESSIONEXPIRED;
    }
    return code;
}

bool actor_session_sleep(struct actor_session *session) {
    while (!session->woken && !actor_over(session->actor)) {
        if (session->handle == NULL || is_unrecoverable(session->handle))
            return false;
        step(session, INT64_MAX);
    }
    return session->handle != NULL && !is_unrecoverable(session->handle);
}

void actor_session_nap(struct actor_session *session, int64_t until) {
    while (actor_now() < until && !actor_over(session->actor)) {
        if (session->handle == NULL || is_unrecoverable(session->handle))
            actor_nap(session->actor, until);
        else
            step(session, until);
    }
}

int actor_session_make_path(struct actor_session *session, const char *path, int flags) {
    char part[ACTOR_NAME];
    int code = ZOK;

    for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        size_t size = slash != NULL ? (size_t)(slash - path) : strlen(path);

        if (size >= sizeof part)
            return ZBADARGUMENTS;
        memcpy(part, path, size);
        part[size] = '\0';
        code = actor_session_insist(session, &(struct session_request){.verb = SESSION_CREATE, .path = part, .flags = flags});
        if ((code != ZOK && code != ZNODEEXISTS) || slash == NULL)
            break;
    }
    return code == ZNODEEXISTS ? ZOK : code;
}
