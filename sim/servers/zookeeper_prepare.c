/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_prepare.c - the leader's part: whether a write can be carried out, and what comes out of it. It looks at `head`, the
 * tree with all that was ever accepted, be it committed or not.
 *
 * An error is a transaction too: it takes a zxid, and its answer waits for its turn. The order of the checks is the real server's,
 * since it says which of several errors a client sees.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { FLAG_EPHEMERAL = 1, FLAG_SEQUENCE = 2, FLAG_CONTAINER = 4, FLAG_TTL = 5, FLAG_SEQUENCE_TTL = 6 };

#define TTL_BITS INT64_C(0xffffffffff)
#define OWNER_TTL (-(INT64_C(1) << 56))

struct preparation {
    struct zookeeper *zk;
    const struct zk_request *request;
    struct zk_entry *entry;
};

/* ---- Paths ---------------------------------------------------------------------------------------------------------------- */

static bool is_forbidden(const unsigned char *at) {
    return *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f) || (*at == 0xed && at[1] >= 0xa0) ||
           (*at == 0xee) || (*at == 0xef && at[1] < 0xa4) || (*at == 0xef && at[1] == 0xbf && at[2] >= 0xb0);
}

/* A path is what a '\0' follows, behind its `size` bytes. */
static bool is_path(const char *path, size_t size) {
    if (size == 0 || path[0] != '/')
        return false;
    if (size == 1)
        return true;
    for (size_t i = 1; i <= size; i++) {
        bool ends = i == size || path[i] == '/';

        if (ends && (path[i - 1] == '/' || (path[i - 1] == '.' && path[i - 2] == '/') ||
                     (i > 2 && path[i - 1] == '.' && path[i - 2] == '.' && path[i - 3] == '/')))
            return false;
        if (i < size && is_forbidden((const unsigned char *)path + i))
            return false;
    }
    return true;
}

static bool has_slash(struct zk_text path) {
    return memrchr(path.bytes, '/', (size_t)path.size) != NULL && memchr(path.bytes, '\0', (size_t)path.size) == NULL;
}

static bool is_special(struct zk_text path) {
    static const char *const names[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == (size_t)path.size && memcmp(names[i], path.bytes, (size_t)path.size) == 0)
            return true;
    return false;
}

static struct zk_blob *blob_of(struct zk_text text) {
    return text.size < 0 ? NULL : zk_blob_new(text.bytes, (size_t)text.size);
}

static int32_t check_session(const struct preparation *it) {
    return zk_session_check(it->zk, it->request->session, it->request->member);
}

static bool exceeds(const struct preparation *it, const struct zk_blob *path, int64_t bytes, int64_t count) {
    return it->zk->options.quota && zk_tree_exceeds(&it->zk->head, path->bytes, path->size, bytes, count);
}

/* ---- One operation each: an error, or 0 and the transaction ----------------------------------------------------------------- */

struct create {
    int type;
    struct zk_text path, data;
    struct zk_acl *acl;
    int32_t acl_error, flags;
    int64_t ttl;
};

static void read_create(const struct preparation *it, int type, struct zk_reader *reader, struct create *ret) {
    *ret = (struct create){.type = type, .ttl = -1};
    ret->path = zk_read_string(reader);
    ret->data = zk_read_buffer(reader);
    ret->acl_error = zk_acl_read(reader, it->request->client, &ret->acl);
    if (ret->acl_error == ZK_MARSHALLING)
        reader->bad = true;
    ret->flags = zk_read_int(reader);
    if (type == OP_CREATE_TTL)
        ret->ttl = zk_read_long(reader);
}

static int32_t check_flags(const struct preparation *it, const struct create *create) {
    bool timed = create->flags == FLAG_TTL || create->flags == FLAG_SEQUENCE_TTL;

    if (create->flags < 0 || create->flags > FLAG_SEQUENCE_TTL)
        return ZK_BAD_ARGUMENTS;
    if (timed && !it->zk->options.extended_types)
        return ZK_UNIMPLEMENTED;
    if (timed ? create->ttl <= 0 || create->ttl > TTL_BITS : create->ttl >= 0)
        return ZK_BAD_ARGUMENTS;
    return 0;
}

static bool is_sequential(int32_t flags) {
    return flags == FLAG_SEQUENCE || flags == (FLAG_SEQUENCE | FLAG_EPHEMERAL) || flags == FLAG_SEQUENCE_TTL;
}

static struct zk_blob *name_of(const struct create *create, const struct zk_node *parent) {
    struct zk_blob *blob;
    char number[16];
    size_t digits;

    if (!is_sequential(create->flags))
        return blob_of(create->path);
    digits = (size_t)snprintf(number, sizeof number, "%010d", (int)parent->cversion);
    blob = zk_blob_new(NULL, 0);
    blob = realloc(blob, sizeof *blob + (size_t)create->path.size + digits + 1);
    if (!blob)
        abort();
    blob->size = (uint32_t)create->path.size + (uint32_t)digits;
    memcpy(blob->bytes, create->path.bytes, (size_t)create->path.size);
    memcpy(blob->bytes + create->path.size, number, digits + 1);
    return blob;
}

/* The type of the request says what becomes of it: a plain create with a container's flag makes a plain node. */
static int64_t owner_of(const struct preparation *it, const struct create *create) {
    if (create->type == OP_CREATE_CONTAINER)
        return ZK_OWNER_CONTAINER;
    if (create->type == OP_CREATE_TTL)
        return OWNER_TTL | create->ttl;
    return create->flags == FLAG_EPHEMERAL || create->flags == (FLAG_EPHEMERAL | FLAG_SEQUENCE) ? it->request->session : 0;
}

static int32_t judge_create(const struct preparation *it, const struct create *create, struct zk_txn *txn) {
    const struct zk_tree *head = &it->zk->head;
    struct zk_node *parent;

    if (!has_slash(create->path))
        return ZK_BAD_ARGUMENTS;
    if (create->acl_error)
        return create->acl_error;
    parent = zk_tree_parent(head, create->path.bytes, (size_t)create->path.size);
    if (!parent)
        return ZK_NO_NODE;
    if (!zk_acl_allows(parent->acl, PERM_CREATE, it->request->client))
        return ZK_NO_AUTH;
    txn->path = name_of(create, parent);
    if (!is_path(txn->path->bytes, txn->path->size))
        return ZK_BAD_ARGUMENTS;
    if (zk_tree_find(head, txn->path->bytes, txn->path->size))
        return ZK_NODE_EXISTS;
    if (parent->owner > 0)
        return ZK_NO_CHILDREN_FOR_EPHEMERALS;
    if (exceeds(it, txn->path, create->data.size > 0 ? create->data.size : 0, 1))
        return ZK_QUOTA_EXCEEDED;
    txn->data = blob_of(create->data);
    txn->acl = zk_acl_ref(create->acl);
    txn->owner = owner_of(it, create);
    txn->version = (int32_t)((uint32_t)parent->cversion + 1);
    return 0;
}

static int32_t prepare_create(const struct preparation *it, int type, struct zk_reader *reader, struct zk_txn *txn) {
    struct create create;
    int32_t error;

    read_create(it, type, reader, &create);
    error = reader->bad ? ZK_MARSHALLING : check_flags(it, &create);
    if (!error)
        error = check_session(it);
    if (error == ZK_UNKNOWN_SESSION && create.flags & FLAG_EPHEMERAL)
        error = ZK_SESSION_EXPIRED;
    if (!error)
        error = judge_create(it, &create, txn);
    zk_acl_unref(create.acl);
    return error;
}

static int32_t prepare_delete(const struct preparation *it, struct zk_reader *reader, struct zk_txn *txn) {
    struct zk_text path = zk_read_string(reader);
    int32_t version = zk_read_int(reader), error = check_session(it);
    const struct zk_node *node, *parent;

    if (error || reader->bad)
        return error ? error : ZK_MARSHALLING;
    if (!has_slash(path) || is_special(path))
        return ZK_BAD_ARGUMENTS;
    parent = zk_tree_parent(&it->zk->head, path.bytes, (size_t)path.size);
    if (!parent)
        return ZK_NO_NODE;
    if (!zk_acl_allows(parent->acl, PERM_DELETE, it->request->client))
        return ZK_NO_AUTH;
    node = zk_tree_find(&it->zk->head, path.bytes, (size_t)path.size);
    if (!node)
        return ZK_NO_NODE;
    if (version != -1 && version != node->version)
        return ZK_BAD_VERSION;
    if (node->children > 0)
        return ZK_NOT_EMPTY;
    txn->path = zk_blob_ref(node->path);
    return 0;
}

/* A node that is there, at which the client has this right; with a valid path. */
static int32_t find(const struct preparation *it, struct zk_text path, int32_t perm, struct zk_node **ret) {
    struct zk_blob *blob = blob_of(path);
    bool valid = is_path(blob->bytes, blob->size);

    zk_blob_unref(blob);
    if (!valid)
        return ZK_BAD_ARGUMENTS;
    *ret = zk_tree_find(&it->zk->head, path.bytes, (size_t)path.size);
    if (!*ret)
        return ZK_NO_NODE;
    return zk_acl_allows((*ret)->acl, perm, it->request->client) ? 0 : ZK_NO_AUTH;
}

static int32_t next_version(int32_t version, int32_t wanted, int32_t *ret) {
    if (wanted != -1 && wanted != version)
        return ZK_BAD_VERSION;
    *ret = (int32_t)((uint32_t)version + 1);
    return 0;
}

static int32_t prepare_set_data(const struct preparation *it, struct zk_reader *reader, struct zk_txn *txn) {
    struct zk_text path = zk_read_string(reader), data = zk_read_buffer(reader);
    int32_t version = zk_read_int(reader), error = check_session(it);
    struct zk_node *node;

    if (!error && reader->bad)
        error = ZK_MARSHALLING;
    if (!error)
        error = find(it, path, PERM_WRITE, &node);
    if (!error && exceeds(it, node->path, (data.size > 0 ? data.size : 0) - (node->data ? (int64_t)node->data->size : 0), 0))
        error = ZK_QUOTA_EXCEEDED;
    if (!error)
        error = next_version(node->version, version, &txn->version);
    if (error)
        return error;
    txn->path = zk_blob_ref(node->path);
    txn->data = blob_of(data);
    return 0;
}

static int32_t prepare_set_acl(const struct preparation *it, struct zk_reader *reader, struct zk_txn *txn) {
    struct zk_text path = zk_read_string(reader);
    int32_t acl_error = zk_acl_read(reader, it->request->client, &txn->acl);
    int32_t version = zk_read_int(reader), error = check_session(it);
    struct zk_node *node;

    if (!error && (reader->bad || acl_error == ZK_MARSHALLING))
        error = ZK_MARSHALLING;
    if (!error)
        error = find(it, path, PERM_ADMIN, &node);
    if (acl_error && (error == 0 || error == ZK_NO_NODE || error == ZK_NO_AUTH)) /* it is looked at before the node is */
        error = acl_error;
    if (!error)
        error = next_version(node->aversion, version, &txn->version);
    if (!error)
        txn->path = zk_blob_ref(node->path);
    return error;
}

static int32_t prepare_check(const struct preparation *it, struct zk_reader *reader, struct zk_txn *txn) {
    struct zk_text path = zk_read_string(reader);
    int32_t version = zk_read_int(reader), error = check_session(it);
    struct zk_node *node;

    if (!error && reader->bad)
        error = ZK_MARSHALLING;
    if (!error)
        error = find(it, path, PERM_READ, &node);
    return error ? error : next_version(node->version, version, &txn->version);
}

static int32_t prepare_one(const struct preparation *it, int type, struct zk_reader *reader, struct zk_txn *txn) {
    txn->type = type;
    switch (type) {
    case OP_CREATE:
    case OP_CREATE2:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
        return prepare_create(it, type, reader, txn);
    case OP_DELETE:
        return prepare_delete(it, reader, txn);
    case OP_SET_DATA:
        return prepare_set_data(it, reader, txn);
    case OP_SET_ACL:
        return prepare_set_acl(it, reader, txn);
    case OP_CHECK:
        return prepare_check(it, reader, txn);
    default:
        return ZK_MARSHALLING;
    }
}

/* ---- Several at once ------------------------------------------------------------------------------------------------------ */

/* Behind the record of one operation. Returns the flags of a create. */
static int32_t skip_one(int type, struct zk_reader *reader) {
    int32_t count, flags = 0;

    zk_read_string(reader);
    if (type == OP_SET_DATA)
        zk_read_buffer(reader);
    if (type != OP_CREATE && type != OP_CREATE2 && type != OP_CREATE_CONTAINER && type != OP_CREATE_TTL) {
        zk_read_int(reader);
        return 0;
    }
    zk_read_buffer(reader);
    count = zk_read_int(reader);
    for (int32_t i = 0; i < count && !reader->bad; i++) {
        zk_read_int(reader);
        zk_read_string(reader);
        zk_read_string(reader);
    }
    flags = zk_read_int(reader);
    if (type == OP_CREATE_TTL)
        zk_read_long(reader);
    return flags;
}

static bool is_part(int type) {
    return type == OP_CREATE || type == OP_CREATE2 || type == OP_CREATE_CONTAINER || type == OP_CREATE_TTL || type == OP_DELETE ||
           type == OP_SET_DATA || type == OP_CHECK;
}

/* Read the head of a part. False: that was the end. */
static bool next_part(struct zk_reader *reader, int *ret_type) {
    bool done;

    *ret_type = zk_read_int(reader);
    done = zk_read_bool(reader);
    zk_read_int(reader);
    if (!done && !is_part(*ret_type))
        reader->bad = true;
    return !done && !reader->bad;
}

static unsigned count_parts(struct zk_reader *reader) {
    unsigned count = 0;
    int type;

    while (next_part(reader, &type)) {
        skip_one(type, reader);
        count++;
    }
    return count;
}

/* In a multi it is the flags that tell a container. The flags of a node with a time to live, without the time: nothing is done at
 * all. */
static int part_type(int type, struct zk_reader copy) {
    int32_t flags;

    if (type == OP_DELETE || type == OP_SET_DATA || type == OP_CHECK || type == OP_CREATE_TTL)
        return type;
    flags = skip_one(type, &copy);
    if (flags == FLAG_TTL || flags == FLAG_SEQUENCE_TTL)
        return OP_ERROR;
    return flags == FLAG_CONTAINER ? OP_CREATE_CONTAINER : OP_CREATE;
}

/* Each part sees what those before it did. When one fails, nothing of it stays. */
static void prepare_parts(const struct preparation *it, struct zk_reader *reader, struct zk_txn *multi) {
    struct zk_undo *undo = zk_memory((multi->count + 1) * sizeof *undo);
    unsigned done = 0;
    int type;

    for (; done < multi->count && !multi->error && next_part(reader, &type); done += !multi->error) {
        struct zk_txn *sub = &multi->subs[done];

        multi->error = prepare_one(it, part_type(type, *reader), reader, sub);
        if (!multi->error)
            zk_tree_try(&it->zk->head, it->entry, sub, &undo[done]);
    }
    for (unsigned i = done; i > 0; i--)
        multi->error ? zk_tree_undo(&it->zk->head, &undo[i - 1]) : zk_undo_forget(&undo[i - 1]);
    for (unsigned i = 0; multi->error && i < multi->count; i++)
        multi->subs[i].error = i < done ? 0 : i == done ? multi->error : ZK_RUNTIME_INCONSISTENCY;
    free(undo);
}

static void prepare_multi(const struct preparation *it, struct zk_reader *reader, struct zk_txn *multi) {
    struct zk_reader ahead = *reader;
    unsigned count = count_parts(&ahead);

    if (ahead.bad) {
        *multi = (struct zk_txn){.type = OP_ERROR, .error = ZK_MARSHALLING};
        return;
    }
    multi->type = OP_MULTI;
    multi->count = count;
    multi->subs = zk_memory((count + 1) * sizeof *multi->subs);
    prepare_parts(it, reader, multi);
    if (multi->error == ZK_MARSHALLING) {
        zk_txn_clear(multi);
        *multi = (struct zk_txn){.type = OP_ERROR, .error = ZK_MARSHALLING};
    }
    it->zk->head.zxid = it->entry->zxid;
}

/* ---- Whole requests ------------------------------------------------------------------------------------------------------- */

static void prepare_session(const struct preparation *it, struct zk_txn *txn) {
    struct zk_session *session = zk_session_new(it->zk, it->request->session, it->request->timeout_ms);

    session->owner = (int)it->request->member;
    txn->type = OP_CREATE_SESSION;
}

void zk_prepare_close(struct zookeeper *zk, int64_t id, struct zk_entry *entry) {
    struct zk_session *session = zk_session_find(zk, id);

    if (session)
        session->closing = true;
    entry->txn.type = OP_CLOSE_SESSION;
    zk_tree_apply(&zk->head, entry, NULL, NULL);
}

static bool is_refused(struct zookeeper *zk) {
    return zk->fail_number > 0 && --zk->fail_number == 0;
}

void zk_prepare(struct zookeeper *zk, const struct zk_request *request, struct zk_entry *entry) {
    const struct preparation it = {.zk = zk, .request = request, .entry = entry};
    struct zk_reader reader = {.at = request->body->bytes, .end = request->body->bytes + request->body->size};
    struct zk_txn *txn = &entry->txn;
    int32_t error = 0;

    if (request->type == OP_CREATE_SESSION) {
        prepare_session(&it, txn);
    } else if (request->type == OP_CLOSE_SESSION) {
        zk_prepare_close(zk, request->session, entry);
        return;
    } else if (is_refused(zk)) {
        error = zk->fail_code;
    } else if (request->type == OP_MULTI) {
        prepare_multi(&it, &reader, txn);
        return;
    } else {
        error = prepare_one(&it, request->type, &reader, txn);
    }
    if (error) {
        zk_txn_clear(txn);
        *txn = (struct zk_txn){.type = OP_ERROR, .error = error};
    }
    zk_tree_apply(&zk->head, entry, NULL, NULL);
}

/* Containers that were never used stay: nobody has had the time. */
bool zk_is_spent(const struct zk_node *node, int64_t wall_ms) {
    if (node->owner >= 0 || node->children > 0)
        return false;
    return node->owner == ZK_OWNER_CONTAINER ? node->cversion > 0 : wall_ms - node->mtime > (node->owner & TTL_BITS);
}

void zk_prepare_removal(struct zookeeper *zk, const struct zk_node *node, struct zk_entry *entry) {
    entry->txn.type = OP_DELETE_CONTAINER;
    entry->txn.path = zk_blob_ref(node->path);
    zk_tree_apply(&zk->head, entry, NULL, NULL);
}
