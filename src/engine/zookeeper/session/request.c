/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c - requests on their way.
 *
 * Every request is a struct zk_op in session->ops from the moment it is sent until it is answered, and is answered exactly once: by the
 * library's completion; or by pawl__zk_ops_fail, if the library did not take it, or if its handle is gone (at close the library may
 * forget completions). So what hangs on a request can neither leak nor be freed twice.
 *
 * Requests of one session are carried out in the order in which they were sent, and answered in that order: that is what makes it
 * sound to send create and list together, and not to wait for a delete before the next create.
 */
#include "engine/zookeeper/session/session.h"

#include <stdlib.h>
#include <string.h>

bool pawl__zk_reply_lost(int rc) {
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZINVALIDSTATE || rc == ZCLOSING || rc == ZSESSIONEXPIRED ||
           rc == ZSESSIONMOVED || rc == ZMARSHALLINGERROR || rc == ZSYSTEMERROR || rc == ZRUNTIMEINCONSISTENCY ||
           rc == ZTHROTTLEDOP;
}

struct zk_op *pawl__zk_op_new(struct zk_session *session, struct zk_asker *asker, zk_done_fn *done, void *data) {
    struct zk_op *op = calloc(1, sizeof *op);

    if (!op)
        return NULL;
    op->session = session;
    op->asker = asker;
    op->done = done;
    op->data = data;
    if (asker) {
        op->number = asker->number;
        TAILQ_INSERT_TAIL(&asker->ops, op, of_asker);
    }
    TAILQ_INSERT_TAIL(&session->ops, op, link);
    session->op_count++;
    return op;
}

void pawl__zk_asker_init(struct zk_asker *asker, void (*step)(struct zk_asker *, int)) {
    TAILQ_INIT(&asker->ops);
    asker->step = step;
}

static void cut(struct zk_op *op) {
    if (op->asker)
        TAILQ_REMOVE(&op->asker->ops, op, of_asker);
    op->asker = NULL;
}

void pawl__zk_asker_cut(struct zk_asker *asker) {
    struct zk_op *op;

    while ((op = TAILQ_FIRST(&asker->ops)))
        cut(op);
}

bool pawl__zk_is_asked(const struct zk_op *op) {
    return op->asker && op->number == op->asker->number;
}

static void op_free(struct zk_op *op) {
    free(op->where);
    free(op->results);
    free(op);
}

/* Unlink it, then say what it means. */
static void answer(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_session *session = op->session;
    struct zk_asker *asker = op->asker;
    int event = 0;

    TAILQ_REMOVE(&session->ops, op, link);
    session->op_count--;
    if (asker)
        TAILQ_REMOVE(&asker->ops, op, of_asker);
    if (!op->failed && !pawl__zk_reply_lost(reply->rc))
        pawl__zk_answered(session, op, pawl__boottime());
    if (op->writes && reply->rc == ZOK)
        pawl__zk_proved(session, op);
    if (op->done)
        event = op->done(op, reply);
    if (asker && event)
        asker->step(asker, event);
    op_free(op);
}

/* ---- The library's completions -------------------------------------------------------------------------------------------- */

static struct zk_op *op_of(const void *data) {
    return (struct zk_op *)(uintptr_t)data;
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data) {
    const struct zk_reply reply = {.rc = rc, .path = path, .stat = stat};

    answer(op_of(data), &reply);
}

static void on_done(int rc, const void *data) {
    const struct zk_reply reply = {.rc = rc};

    answer(op_of(data), &reply);
}

static void on_text(int rc, const char *text, const void *data) {
    const struct zk_reply reply = {.rc = rc, .path = text};

    answer(op_of(data), &reply);
}

/* The library passes on a list that has less than no names, and leaves NULL where a server gave a name of no length at all. */
static bool has_gaps(const struct String_vector *children) {
    if (children->count < 0)
        return true;
    for (int i = 0; i < children->count; i++)
        if (!children->data[i])
            return true;
    return false;
}

static void on_children(int rc, const struct String_vector *children, const void *data) {
    const struct zk_reply reply = {.rc = rc == ZOK && has_gaps(children) ? ZMARSHALLINGERROR : rc, .children = children};

    answer(op_of(data), &reply);
}

static void on_children_stat(int rc, const struct String_vector *children, const struct Stat *stat, const void *data) {
    const struct zk_reply reply = {
        .rc = rc == ZOK && has_gaps(children) ? ZMARSHALLINGERROR : rc, .stat = stat, .children = children};

    answer(op_of(data), &reply);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    const struct zk_reply reply = {.rc = rc, .data = value, .length = length, .stat = stat};

    answer(op_of(data), &reply);
}

static bool names_nobody(const struct ACL_vector *acl) {
    for (int i = 0; i < acl->count; i++)
        if (!acl->data[i].id.scheme || !acl->data[i].id.id)
            return true;
    return false;
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data) {
    const struct zk_reply reply = {.rc = rc == ZOK && names_nobody(acl) ? ZMARSHALLINGERROR : rc, .acl = acl, .stat = stat};

    answer(op_of(data), &reply);
}

static void on_stat(int rc, const struct Stat *stat, const void *data) {
    const struct zk_reply reply = {.rc = rc, .stat = stat};

    answer(op_of(data), &reply);
}

/* ---- Sending -------------------------------------------------------------------------------------------------------------- */

void pawl__zk_op_fail(struct zk_op *op, int rc) {
    op->failed = true;
    op->error = rc;
    pawl__zk_ring(op->session);
}

static void sent(struct zk_op *op, int rc) {
    struct zk_session *session = op->session;

    if (rc != ZOK) {
        pawl__zk_op_fail(op, rc);
        return;
    }
    session->requests++;
    if (zoo_state(session->handle) == ZOO_NOTCONNECTED_STATE)
        pawl__zk_session_torn(session);
    /* What the socket did not take at once is written by the service thread, which must be told that there is something. */
    if (session->op_count > ZK_DEEP || op->large)
        pawl__zk_ring(session);
}

/* False: there is no handle, and the request has failed already. */
static bool sendable(struct zk_op *op) {
    pawl__zk_leaves(op, pawl__boottime());
    if (op->session->handle && zk_is_connected(op->session)) {
        pawl__zk_cork(op->session);
        return true;
    }
    sent(op, ZCONNECTIONLOSS);
    return false;
}

void pawl__zk_create(struct zk_op *op, const char *path, const char *data, int length, int flags) {
    op->writes = true;
    if (sendable(op))
        sent(op, zoo_acreate2(op->session->handle, path, data, length, op->session->options.acl, flags, on_created, op));
}

void pawl__zk_delete(struct zk_op *op, const char *path) {
    op->writes = true;
    if (sendable(op))
        sent(op, zoo_adelete(op->session->handle, path, -1, on_done, op));
}

void pawl__zk_list(struct zk_op *op, const char *path, struct zk_watch *watch) {
    op->watch = watch;
    if (sendable(op))
        sent(op, zoo_awget_children(op->session->handle, path, watch ? watch->told : NULL, op->session, on_children, op));
}

void pawl__zk_list_stat(struct zk_op *op, const char *path) {
    if (sendable(op))
        sent(op, zoo_aget_children2(op->session->handle, path, 0, on_children_stat, op));
}

void pawl__zk_get(struct zk_op *op, const char *path, struct zk_watch *watch) {
    op->watch = watch;
    if (sendable(op))
        sent(op, zoo_awget(op->session->handle, path, watch ? watch->told : NULL, op->session, on_data, op));
}

void pawl__zk_exists(struct zk_op *op, const char *path, struct zk_watch *watch) {
    op->watch = watch;
    if (sendable(op))
        sent(op, zoo_awexists(op->session->handle, path, watch ? watch->told : NULL, op->session, on_stat, op));
}

void pawl__zk_get_acl(struct zk_op *op, const char *path) {
    if (sendable(op))
        sent(op, zoo_aget_acl(op->session->handle, path, on_acl, op));
}

void pawl__zk_set(struct zk_op *op, const char *path, const char *data, int length, int version) {
    op->writes = true;
    if (sendable(op))
        sent(op, zoo_aset(op->session->handle, path, data, length, version, on_stat, op));
}

void pawl__zk_sync(struct zk_op *op, const char *path) {
    if (sendable(op))
        sent(op, zoo_async(op->session->handle, path, on_text, op));
}

void pawl__zk_multi(struct zk_op *op, const zoo_op_t *operations, int count) {
    op->writes = true;
    for (int i = 0; i < count; i++)
        op->large |= operations[i].type == ZOO_SETDATA_OP && operations[i].set_op.datalen > ZK_LARGE;
    op->results = calloc((size_t)count, sizeof *op->results);
    if (!op->results)
        sent(op, ZSYSTEMERROR);
    else if (sendable(op))
        sent(op, zoo_amulti(op->session->handle, count, operations, op->results, on_done, op));
}

/* The call that names one watcher would only ask the server whether there is a watch; this one takes it back. */
void pawl__zk_unwatch(struct zk_op *op, const char *path, bool children) {
    /* The library declares a pointer to the function's pointer, and takes it for the function. */
    void_completion_t *done = (void_completion_t *)(uintptr_t)on_done;

    if (sendable(op))
        sent(op, zoo_aremove_all_watches(op->session->handle, path, children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 0, done, op));
}

void pawl__zk_ops_fail(struct zk_session *session, bool all) {
    struct zk_op *op, *next;

    for (op = TAILQ_FIRST(&session->ops); op; op = next) {
        struct zk_reply reply = {.rc = op->failed ? op->error : ZCLOSING};

        next = TAILQ_NEXT(op, link);
        if (op->failed || all)
            answer(op, &reply);
        /* Whom it told may have sent more; a `next` that was answered meanwhile can't be, since only this loop and the library do. */
    }
}
