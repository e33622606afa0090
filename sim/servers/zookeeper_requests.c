/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_requests.c - connections: from bytes to requests, and answers in their order.
 *
 * The requests of a connection are answered in the order in which they came. A write goes to the leader at once; a read is carried
 * out when everything before it was answered. Only what a client tells of itself (auth) is heard at once.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { IDLE_MS = 10000 };

/* ---- Connections ---------------------------------------------------------------------------------------------------------- */

void zk_conn_not_idle(struct zk_conn *conn, int32_t timeout_ms) {
    conn->idle_ms = (zk_clock_ms(conn->member, conn->member->zk->now) + timeout_ms) / IDLE_MS * IDLE_MS + IDLE_MS;
}

struct zk_conn *zk_conn_new(struct zookeeper_member *member, struct link *link) {
    struct zk_conn *conn = zk_memory(sizeof *conn);

    conn->member = member;
    conn->link = link;
    conn->client = zk_client_new();
    zk_conn_not_idle(conn, IDLE_MS);
    if (member->zk->idle_at == SERVER_NEVER)
        member->zk->idle_at = member->zk->now + IDLE_MS * ZK_MS;
    conn->after = member->conns;
    if (member->conns)
        member->conns->before = conn;
    member->conns = conn;
    member->conn_count++;
    return conn;
}

static void pop(struct zk_conn *conn) {
    struct zk_request *request = conn->first;

    conn->first = request->next;
    if (!conn->first)
        conn->last = NULL;
    request->next = NULL;
    request->conn = NULL;
    zk_request_unref(request);
}

void zk_conn_drop(struct zk_conn *conn, bool close) {
    struct zookeeper_member *member = conn->member;

    if (!conn->link)
        return;
    zk_watch_drop_all(conn);
    while (conn->first)
        pop(conn);
    *(conn->before ? &conn->before->after : &member->conns) = conn->after;
    if (conn->after)
        conn->after->before = conn->before;
    member->conn_count--;
    if (close)
        link_close(conn->link);
    conn->link = NULL;
    conn->after = member->zk->dead;
    member->zk->dead = conn;
}

void zk_conn_drop_all(struct zookeeper_member *member) {
    while (member->conns)
        zk_conn_drop(member->conns, true);
}

struct zk_conn *zk_conn_of(const struct zookeeper_member *member, int64_t session) {
    struct zk_conn *conn = member->conns;

    while (conn && (conn->session != session || (conn->state != CONN_OPEN && conn->state != CONN_OPENING)))
        conn = conn->after;
    return conn;
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

struct zk_request *zk_request_ref(struct zk_request *request) {
    request->refs++;
    return request;
}

void zk_request_unref(struct zk_request *request) {
    if (!request || --request->refs > 0)
        return;
    zk_blob_unref(request->body);
    zk_acl_unref(request->client);
    free(request);
}

bool zk_is_write(int type) {
    switch (type) {
    case OP_CREATE:
    case OP_CREATE2:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
    case OP_DELETE:
    case OP_SET_DATA:
    case OP_SET_ACL:
    case OP_CHECK:
    case OP_MULTI:
    case OP_CLOSE_SESSION:
        return true;
    default:
        return false;
    }
}

static bool is_read(int type) {
    switch (type) {
    case OP_EXISTS:
    case OP_GET_DATA:
    case OP_GET_ACL:
    case OP_GET_CHILDREN:
    case OP_GET_CHILDREN2:
    case OP_PING:
    case OP_SET_WATCHES:
    case OP_SET_WATCHES2:
    case OP_CHECK_WATCHES:
    case OP_REMOVE_WATCHES:
        return true;
    default:
        return false;
    }
}

static bool is_known(const struct zookeeper *zk, int type) {
    enum zookeeper_version version = zk->options.version;

    if (version == ZOOKEEPER_3_4 && (type == OP_CREATE2 || type == OP_CREATE_CONTAINER || type == OP_CREATE_TTL ||
                                     type == OP_CHECK_WATCHES || type == OP_REMOVE_WATCHES))
        return false;
    if (version >= ZOOKEEPER_3_5 && type == OP_SET_WATCHES2)
        return false;
    return zk_is_write(type) || is_read(type) || type == OP_SYNC;
}

struct zk_request *zk_request_new(struct zk_conn *conn, int32_t xid, int type, const char *body, size_t size) {
    struct zk_request *request = zk_memory(sizeof *request);

    request->refs = 1;
    request->conn = conn;
    request->member = conn->member->index;
    request->session = conn->session;
    request->timeout_ms = conn->timeout_ms;
    request->xid = xid;
    request->type = type;
    request->body = zk_blob_new(body, size);
    request->client = zk_acl_ref(conn->client);
    *(conn->last ? &conn->last->next : &conn->first) = request;
    conn->last = request;
    return request;
}

/* ---- Answers -------------------------------------------------------------------------------------------------------------- */

/* Well-formed, and not what the client has asked for. */
static void write_nonsense(struct zk_writer *writer, struct zookeeper *zk) {
    switch (zk_random(zk) % 4) {
    case 0:
        zk_write_int(writer, 0); /* an empty string, list or buffer */
        break;
    case 1:
        zk_write_buffer(writer, "/nonsense", 9);
        break;
    case 2:
        for (int i = 0; i < 8; i++)
            zk_write_long(writer, (int64_t)(zk_random(zk) >> 40)); /* as long as a Stat, nearly */
        zk_write_int(writer, 0);
        break;
    default:
        zk_write_int(writer, 2);
        zk_write_buffer(writer, "one", 3);
        zk_write_buffer(writer, "two-0000000000", 14);
        break;
    }
    /* Long enough for any answer: where bytes are missing, libzookeeper reads what lies in its memory, which differs from run to run. */
    for (int i = 0; i < 16; i++)
        zk_write_long(writer, 0);
}

static int32_t odd_error(struct zookeeper *zk) {
    static const int32_t errors[] = {-1, -2, -3, -5, -6, -8, -100, -109, -113, -116, -120, -122, -9999, 1};

    return errors[zk_random(zk) % (sizeof errors / sizeof *errors)];
}

/* What a multi is answered may be an error, but has as many results as were asked for: on more of them libzookeeper ends the process by an
 * assertion of its own, of fewer it forgets memory, and pawl does not see the bytes before it does. */
static void reply(struct zk_conn *conn, bool to_multi, int32_t xid, int64_t zxid, int32_t error, const char *body, size_t size) {
    struct zookeeper *zk = conn->member->zk;
    bool odd = xid > 0 && zk_one_in(zk, zk->nonsense), shaped = odd && error == 0 && zk_random(zk) % 2 && !to_multi;
    struct zk_writer writer;

    zk_writer_begin(&writer);
    zk_write_int(&writer, xid);
    zk_write_long(&writer, zxid);
    zk_write_int(&writer, odd && !shaped ? odd_error(zk) : error);
    if (shaped)
        write_nonsense(&writer, zk);
    else if (!odd && error == 0)
        zk_write_raw(&writer, body, size);
    zk_write_frame(&writer, conn->link);
    zk_writer_end(&writer);
    conn->member->sent++;
}

void zk_reply(struct zk_conn *conn, int32_t xid, int64_t zxid, int32_t error, const char *body, size_t size) {
    reply(conn, false, xid, zxid, error, body, size);
}

static void read_now(struct zk_conn *conn, int32_t xid, int type, const char *body, size_t size, const struct zk_acl *client);

/* Reads that have waited for what was answered just now. */
static void drain(struct zk_conn *conn) {
    while (conn->link && conn->first && !conn->first->waits) {
        struct zk_request *request = zk_request_ref(conn->first);

        pop(conn);
        if (request->throttled)
            zk_reply(conn, request->xid, conn->member->tree.zxid, ZK_THROTTLED, NULL, 0);
        else
            read_now(conn, request->xid, request->type, request->body->bytes, request->body->size, request->client);
        zk_request_unref(request);
    }
}

/* Answers come in the order of the requests: all else would be a mistake of ours. */
struct zk_conn *zk_request_take(struct zk_request *request) {
    struct zk_conn *conn = request->conn;

    if (!conn || !conn->link)
        return NULL;
    if (conn->first != request)
        abort();
    pop(conn);
    return conn;
}

void zk_request_answer(struct zk_request *request, int32_t error, const struct zk_writer *body) {
    struct zk_conn *conn;

    zk_request_ref(request);
    conn = zk_request_take(request);
    if (conn && error == ZK_SESSION_MOVED) {
        zk_conn_drop(conn, true);
    } else if (conn) {
        if (request->type == OP_SYNC)
            read_now(conn, request->xid, OP_SYNC, request->body->bytes, request->body->size, request->client);
        else if (request->type != OP_CHECK || error) /* the real server trips over the answer to a check that is alone */
            reply(conn, request->type == OP_MULTI, request->xid, conn->member->tree.zxid, error, body ? body->bytes + 4 : NULL,
                  body ? body->used - 4 : 0);
        drain(conn);
    }
    zk_request_unref(request);
}

void zk_conn_session_ended(struct zookeeper_member *member, int64_t session, struct zk_request *request) {
    struct zk_conn *conn = request ? zk_request_take(request) : NULL;

    if (conn)
        zk_reply(conn, request->xid, member->tree.zxid, 0, NULL, 0);
    else
        conn = zk_conn_of(member, session);
    if (conn)
        zk_conn_drop(conn, true);
}

/* ---- Reads ---------------------------------------------------------------------------------------------------------------- */

struct reading {
    struct zk_conn *conn;
    const struct zk_acl *client;
    struct zk_reader reader;
    struct zk_writer answer;
};

static int32_t read_path(struct reading *it, int32_t perm, struct zk_text *ret, struct zk_node **ret_node) {
    *ret = zk_read_string(&it->reader);
    if (it->reader.bad)
        return ZK_MARSHALLING;
    *ret_node = zk_tree_find(&it->conn->member->tree, ret->bytes, (size_t)ret->size);
    if (!*ret_node)
        return ZK_NO_NODE;
    return !perm || zk_acl_allows((*ret_node)->acl, perm, it->client) ? 0 : ZK_NO_AUTH;
}

static int32_t read_exists(struct reading *it) {
    struct zk_node *node;
    struct zk_text path;
    int32_t error = read_path(it, 0, &path, &node);
    bool watch = zk_read_bool(&it->reader);

    if (it->reader.bad)
        return ZK_MARSHALLING;
    if (memchr(path.bytes, '\0', (size_t)path.size))
        return ZK_BAD_ARGUMENTS;
    if (watch)
        zk_watch_add(it->conn, WATCH_DATA, path.bytes, (size_t)path.size);
    if (!error)
        zk_write_stat(&it->answer, node);
    return error;
}

/* The path of a node that is there, which may be watched. */
static int32_t read_watched(struct reading *it, enum zk_watch_kind kind, struct zk_node **ret) {
    struct zk_text path;
    int32_t error = read_path(it, PERM_READ, &path, ret);
    bool watch = zk_read_bool(&it->reader);

    if (it->reader.bad)
        return ZK_MARSHALLING;
    if (!error && watch)
        zk_watch_add(it->conn, kind, path.bytes, (size_t)path.size);
    return error;
}

static int32_t read_data(struct reading *it) {
    struct zk_node *node;
    int32_t error = read_watched(it, WATCH_DATA, &node);

    if (error)
        return error;
    zk_write_blob(&it->answer, node->data);
    zk_write_stat(&it->answer, node);
    return 0;
}

static int32_t read_children(struct reading *it, bool with_stat) {
    struct zk_node *node;
    int32_t error = read_watched(it, WATCH_CHILD, &node);

    if (error)
        return error;
    zk_write_int(&it->answer, (int32_t)node->children);
    for (const struct zk_node *child = node->first; child; child = child->after)
        zk_write_buffer(&it->answer, zk_node_name(child), (int32_t)(child->path->size - child->name));
    if (with_stat)
        zk_write_stat(&it->answer, node);
    return 0;
}

static int32_t read_acl(struct reading *it) {
    struct zk_node *node;
    struct zk_text path;
    int32_t error = read_path(it, PERM_READ | PERM_ADMIN, &path, &node);

    if (error)
        return error;
    zk_acl_write(&it->answer, node->acl, !zk_acl_allows(node->acl, PERM_ADMIN, it->client));
    zk_write_stat(&it->answer, node);
    return 0;
}

enum { WATCHES_CHILD = 1, WATCHES_DATA = 2, WATCHES_ANY = 3 };

static int32_t look_at_watches(struct reading *it, bool remove) {
    struct zk_text path = zk_read_string(&it->reader);
    int32_t kinds = zk_read_int(&it->reader);
    struct zk_conn *conn = it->conn;
    bool found = false;

    if (it->reader.bad || kinds < WATCHES_CHILD || kinds > WATCHES_ANY)
        return ZK_MARSHALLING;
    if (!remove && !memchr(path.bytes, '/', (size_t)path.size))
        return path.size == 0 ? ZK_NO_WATCHER : ZK_MARSHALLING;
    if (kinds & WATCHES_CHILD)
        found = remove ? zk_watch_remove(conn, WATCH_CHILD, path.bytes, (size_t)path.size)
                       : zk_watch_any(conn->member, WATCH_CHILD, path.bytes, (size_t)path.size);
    if (kinds & WATCHES_DATA)
        found = (remove ? zk_watch_remove(conn, WATCH_DATA, path.bytes, (size_t)path.size)
                        : zk_watch_any(conn->member, WATCH_DATA, path.bytes, (size_t)path.size)) ||
                found;
    return found ? 0 : ZK_NO_WATCHER;
}

static int32_t read_sync(struct reading *it) {
    struct zk_text path = zk_read_string(&it->reader);

    zk_write_buffer(&it->answer, path.bytes, path.size);
    return it->reader.bad ? ZK_MARSHALLING : 0;
}

static int32_t read_one(struct reading *it, int type) {
    switch (type) {
    case OP_EXISTS:
        return read_exists(it);
    case OP_GET_DATA:
        return read_data(it);
    case OP_GET_CHILDREN:
        return read_children(it, false);
    case OP_GET_CHILDREN2:
        return read_children(it, true);
    case OP_GET_ACL:
        return read_acl(it);
    case OP_CHECK_WATCHES:
        return look_at_watches(it, false);
    case OP_REMOVE_WATCHES:
        return look_at_watches(it, true);
    case OP_SET_WATCHES:
    case OP_SET_WATCHES2:
        zk_watches_again(it->conn, &it->reader);
        return it->reader.bad ? ZK_MARSHALLING : 0;
    case OP_SYNC:
        return read_sync(it);
    default:
        return 0;
    }
}

/* The leader knows, and lets no one read whose session has gone to another member; the others only hear of it when they write. */
static bool is_moved(const struct zk_conn *conn) {
    struct zookeeper *zk = conn->member->zk;

    return zk_leads(conn->member) && zk_session_check(zk, conn->session, conn->member->index) == ZK_SESSION_MOVED;
}

static void read_now(struct zk_conn *conn, int32_t xid, int type, const char *body, size_t size, const struct zk_acl *client) {
    struct reading it = {.conn = conn, .client = client};
    int32_t error;

    if (is_moved(conn)) {
        zk_conn_drop(conn, true);
        return;
    }
    if (type == OP_PING) {
        zk_reply(conn, XID_PING, conn->member->tree.zxid, 0, NULL, 0);
        return;
    }
    it.reader = (struct zk_reader){.at = body, .end = body + size};
    zk_writer_begin(&it.answer);
    error = read_one(&it, type);
    zk_reply(conn, xid, conn->member->tree.zxid, error, it.answer.bytes + 4, it.answer.used - 4);
    zk_writer_end(&it.answer);
}

/* ---- Frames --------------------------------------------------------------------------------------------------------------- */

static void take_auth(struct zk_conn *conn, int32_t xid, const char *body, size_t size) {
    struct zk_reader reader = {.at = body, .end = body + size};
    struct zk_acl *client = NULL;
    struct zk_text scheme, secret;

    zk_read_int(&reader);
    scheme = zk_read_string(&reader);
    secret = zk_read_buffer(&reader);
    if (reader.bad) {
        zk_conn_drop(conn, true);
        return;
    }
    client = zk_client_add(conn->client, scheme, secret);
    zk_reply(conn, xid, 0, client ? 0 : ZK_AUTH_FAILED, NULL, 0);
    if (client) {
        zk_acl_unref(conn->client);
        conn->client = client;
    } else {
        zk_conn_drop(conn, true);
    }
}

/* A member without a leader can only be read from. */
static void take_read_only(struct zk_conn *conn, int32_t xid, int type, const char *body, size_t size) {
    bool writes = (zk_is_write(type) && type != OP_CLOSE_SESSION) || type == OP_SYNC;

    if (type == OP_CLOSE_SESSION || writes)
        zk_reply(conn, xid, conn->member->tree.zxid, writes ? ZK_NOT_READ_ONLY : 0, NULL, 0);
    else
        read_now(conn, xid, type, body, size, conn->client);
    if (type == OP_CLOSE_SESSION)
        zk_conn_drop(conn, true);
}

/* A sync waits for what the leader knows. One that takes itself for the leader asks nobody, and does not even wait for what it has
 * not applied yet. */
static bool asks_leader(const struct zookeeper_member *member, int type) {
    return zk_is_write(type) || (type == OP_SYNC && member->role == ROLE_FOLLOWING);
}

static void take_request(struct zk_conn *conn, int32_t xid, int type, const char *body, size_t size) {
    struct zookeeper *zk = conn->member->zk;
    bool spared = type == OP_PING || type == OP_CLOSE_SESSION || type == OP_SET_WATCHES || type == OP_SET_WATCHES2;
    bool throttled = !spared && zk_one_in(zk, zk->throttle);
    struct zk_request *request;

    if (throttled && !conn->first) {
        zk_reply(conn, xid, conn->member->tree.zxid, ZK_THROTTLED, NULL, 0);
    } else if (!throttled && asks_leader(conn->member, type)) {
        request = zk_request_ref(zk_request_new(conn, xid, type, body, size));
        request->waits = true;
        zk_submit(request);
        zk_request_unref(request);
    } else if (!conn->first) {
        read_now(conn, xid, type, body, size, conn->client);
    } else {
        zk_request_new(conn, xid, type, body, size)->throttled = throttled;
    }
}

static void take_frame(struct zk_conn *conn, const char *bytes, size_t size) {
    struct zk_reader reader = {.at = bytes, .end = bytes + size};
    struct zookeeper *zk = conn->member->zk;
    int32_t xid = zk_read_int(&reader), type = zk_read_int(&reader);

    if (reader.bad) {
        zk_conn_drop(conn, true);
        return;
    }
    zk->all_requests++;
    zk->requests[type & 127]++;
    if (type == OP_AUTH) {
        take_auth(conn, xid, reader.at, size - 8);
    } else if (!conn->read_only && !zk_session_touch(conn)) {
        return; /* its session is about to end, and the connection with it */
    } else if (!is_known(zk, type)) {
        zk_reply(conn, xid, -1, ZK_UNIMPLEMENTED, NULL, 0);
        zk_conn_drop(conn, true);
    } else if (conn->read_only) {
        take_read_only(conn, xid, type, reader.at, size - 8);
    } else {
        take_request(conn, xid, type, reader.at, size - 8);
    }
}

/* All that is complete. Returns how many bytes were used. */
static size_t take_frames(struct zk_conn *conn, const char *bytes, size_t size) {
    size_t used = 0;

    conn->reading = true;
    while (conn->link && conn->state != CONN_OPENING && size - used >= 4) {
        struct zk_reader reader = {.at = bytes + used, .end = bytes + size};
        int32_t length;

        if (conn->state == CONN_NEW && zk_word(conn, bytes + used))
            break;
        length = zk_read_int(&reader);
        if (length < 0 || length > (int32_t)conn->member->zk->options.max_buffer || !zk_serves(conn->member)) {
            zk_conn_drop(conn, true);
            break;
        }
        if (size - used - 4 < (size_t)length)
            break;
        used += 4 + (size_t)length;
        conn->member->received++;
        if (conn->state == CONN_NEW)
            zk_handshake(conn, reader.at, (size_t)length);
        else
            take_frame(conn, reader.at, (size_t)length);
    }
    conn->reading = false;
    return used;
}

static void keep(struct zk_conn *conn, const char *bytes, size_t size) {
    if (conn->input_size < conn->input_used + size) {
        conn->input_size = 2 * (conn->input_used + size);
        conn->input = realloc(conn->input, conn->input_size);
        if (!conn->input)
            abort();
    }
    memcpy(conn->input + conn->input_used, bytes, size);
    conn->input_used += size;
}

static void take_kept(struct zk_conn *conn) {
    size_t used = take_frames(conn, conn->input, conn->input_used);

    if (used > 0)
        memmove(conn->input, conn->input + used, conn->input_used - used);
    conn->input_used -= used;
}

void zk_conn_input(struct zk_conn *conn, const char *bytes, size_t size) {
    size_t used;

    if (!conn->link)
        return;
    if (conn->input_used > 0 || conn->state == CONN_OPENING) {
        keep(conn, bytes, size);
        take_kept(conn);
        return;
    }
    used = take_frames(conn, bytes, size);
    if (conn->link && used < size)
        keep(conn, bytes + used, size - used);
}

void zk_conn_opened(struct zk_conn *conn) {
    if (conn->input_used > 0 && !conn->reading)
        take_kept(conn);
}
