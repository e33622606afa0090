/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - requests that a caller's thread waits for: what operators ask, and values. The service thread answers; the caller sleeps on
 * session->answered. A caller that gives up leaves the call to its answer, which frees it.
 */
#include "engine/zookeeper/session/session.h"

#include <stdlib.h>
#include <string.h>

static void call_destroy(struct zk_call *call) {
    for (int i = 0; i < call->count; i++)
        free(call->children[i]);
    free(call->children);
    free(call->data);
    free(call);
}

static void copy_children(struct zk_call *call, const struct String_vector *children) {
    call->children = calloc((size_t)children->count + 1, sizeof *call->children);
    for (int i = 0; call->children && i < children->count; i++) {
        if (!(call->children[i] = strdup(children->data[i]))) {
            call->rc = ZSYSTEMERROR;
            return;
        }
        call->count++;
    }
}

static int world_of(const struct ACL_vector *acl) {
    int perms = 0;

    for (int i = 0; i < acl->count; i++)
        if (strcmp(acl->data[i].id.scheme, "world") == 0)
            perms |= acl->data[i].perms;
    return perms;
}

static int first_failed(const zoo_op_result_t *results, int count) {
    for (int i = 0; results && i < count; i++)
        if (results[i].err != ZOK && results[i].err != ZRUNTIMEINCONSISTENCY)
            return i;
    return count;
}

static void copy_data(struct zk_call *call, const struct zk_reply *reply) {
    if (!(call->data = malloc((size_t)reply->length + 1))) {
        call->rc = ZSYSTEMERROR;
        return;
    }
    memcpy(call->data, reply->data, (size_t)reply->length);
    call->data[reply->length] = '\0';
    call->length = reply->length;
}

static int on_answer(struct zk_op *op, const struct zk_reply *reply) {
    struct zk_call *call = op->data;

    call->done = true;
    call->rc = reply->rc;
    if (call->abandoned) {
        call_destroy(call);
        return 0;
    }
    if (reply->rc == ZOK && reply->children)
        copy_children(call, reply->children);
    if (reply->rc == ZOK && reply->stat)
        call->stat = *reply->stat;
    if (reply->rc == ZOK && reply->acl)
        call->world = world_of(reply->acl);
    if (reply->rc == ZOK && reply->data && reply->length > 0)
        copy_data(call, reply);
    call->failed = first_failed(op->results, call->operations);
    pthread_cond_broadcast(&op->session->answered);
    return 0;
}

/* NULL: out of memory. */
static struct zk_op *call_new(struct zk_session *session, struct zk_call **ret) {
    struct zk_call *call = calloc(1, sizeof *call);
    struct zk_op *op = call ? pawl__zk_op_new(session, NULL, on_answer, call) : NULL;

    if (!op) {
        free(call);
        call = NULL;
    }
    *ret = call;
    return op;
}

struct zk_call *pawl__zk_call(struct zk_session *session, enum zk_call_what what, const char *path, const char *data) {
    struct zk_call *call;
    struct zk_op *op = call_new(session, &call);

    if (!op)
        return NULL;
    if (what == ZK_CALL_LIST)
        pawl__zk_list_stat(op, path);
    else if (what == ZK_CALL_GET)
        pawl__zk_get(op, path, NULL);
    else if (what == ZK_CALL_ACL)
        pawl__zk_get_acl(op, path);
    else if (what == ZK_CALL_SYNC)
        pawl__zk_sync(op, path);
    else if (what == ZK_CALL_SET)
        pawl__zk_set(op, path, data, (int)strlen(data), -1);
    else if (what == ZK_CALL_MAKE)
        pawl__zk_create(op, path, "", 0, ZOO_CONTAINER);
    else
        pawl__zk_delete(op, path);
    return call;
}

struct zk_call *pawl__zk_call_multi(struct zk_session *session, zoo_op_t *operations, int count) {
    struct zk_call *call;
    struct zk_op *op = call_new(session, &call);

    if (!op)
        return NULL;
    call->operations = count;
    for (int i = 0; i < count; i++)
        if (operations[i].type == ZOO_SETDATA_OP)
            operations[i].set_op.stat = &call->stat;
    pawl__zk_multi(op, operations, count);
    return call;
}

int pawl__zk_call_wait(struct zk_session *session, struct zk_call *call, int64_t deadline) {
    if (!call)
        return ZSYSTEMERROR;
    while (!call->done && pawl__boottime() < deadline) {
        pawl__zk_uncork(session);
        pawl__wait_until(&session->answered, &pawl__zk_mutex, deadline);
    }
    return call->done ? call->rc : ZOPERATIONTIMEOUT;
}

bool pawl__zk_call_connected(struct zk_session *session, int64_t deadline) {
    while (!zk_is_connected(session) && pawl__boottime() < deadline) {
        pawl__zk_uncork(session);
        pawl__wait_until(&session->answered, &pawl__zk_mutex, deadline);
    }
    return zk_is_connected(session);
}

void pawl__zk_call_free(struct zk_call *call) {
    if (call && call->done)
        call_destroy(call);
    else if (call)
        call->abandoned = true;
}
