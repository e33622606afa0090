/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_watches.c - who is to be told of what. Watches belong to a connection, are at a path (which need not exist) and are
 * used up by the first event. There are those on a node and its data, and those on its children.
 *
 * A member that applies a transaction tells the watches at once: the event is on its way before any answer that shows the change.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { TABLE_MIN = 64, STATE_CONNECTED = 3 };

static bool is_at(const struct zk_watch *watch, enum zk_watch_kind kind, uint32_t hash, const char *path, size_t size) {
    return watch->hash == hash && watch->kind == kind && watch->path->size == size && memcmp(watch->path->bytes, path, size) == 0;
}

static void grow(struct zk_watches *watches) {
    unsigned mask = watches->table ? watches->mask * 2 + 1 : TABLE_MIN - 1;
    struct zk_watch **table = zk_memory((mask + 1) * sizeof *table);

    for (unsigned i = 0; watches->table && i <= watches->mask; i++)
        for (struct zk_watch *watch = watches->table[i], *next; watch; watch = next) {
            next = watch->chained;
            watch->chained = table[watch->hash & mask];
            table[watch->hash & mask] = watch;
        }
    free(watches->table);
    watches->table = table;
    watches->mask = mask;
}

void zk_watches_clear(struct zk_watches *watches) {
    free(watches->table);
    memset(watches, 0, sizeof *watches);
}

/* Where it is, or would be. */
static struct zk_watch **place_of(struct zk_watches *watches, const struct zk_conn *conn, enum zk_watch_kind kind, uint32_t hash,
                                  const char *path, size_t size) {
    struct zk_watch **place = &watches->table[hash & watches->mask];

    while (*place && !((*place)->conn == conn && is_at(*place, kind, hash, path, size)))
        place = &(*place)->chained;
    return place;
}

void zk_watch_add(struct zk_conn *conn, enum zk_watch_kind kind, const char *path, size_t size) {
    struct zk_watches *watches = &conn->member->watches;
    uint32_t hash = zk_hash(path, size);
    struct zk_watch **place, *watch;

    if (!watches->table || watches->count > watches->mask)
        grow(watches);
    place = place_of(watches, conn, kind, hash, path, size);
    if (*place)
        return;
    watch = zk_memory(sizeof *watch);
    watch->conn = conn;
    watch->kind = kind;
    watch->hash = hash;
    watch->path = zk_blob_new(path, size);
    watch->conn_after = conn->watches;
    if (conn->watches)
        conn->watches->conn_before = watch;
    conn->watches = watch;
    *place = watch;
    watches->count++;
    watches->data_count += kind == WATCH_DATA;
}

/* Out of the table, where `place` points to it, and out of the connection. */
static void unlink_watch(struct zk_watches *watches, struct zk_watch **place) {
    struct zk_watch *watch = *place;

    *place = watch->chained;
    *(watch->conn_before ? &watch->conn_before->conn_after : &watch->conn->watches) = watch->conn_after;
    if (watch->conn_after)
        watch->conn_after->conn_before = watch->conn_before;
    watches->count--;
    watches->data_count -= watch->kind == WATCH_DATA;
}

static void watch_free(struct zk_watch *watch) {
    zk_blob_unref(watch->path);
    free(watch);
}

bool zk_watch_remove(struct zk_conn *conn, enum zk_watch_kind kind, const char *path, size_t size) {
    struct zk_watches *watches = &conn->member->watches;
    struct zk_watch **place = watches->table ? place_of(watches, conn, kind, zk_hash(path, size), path, size) : NULL;
    struct zk_watch *watch = place ? *place : NULL;

    if (!watch)
        return false;
    unlink_watch(watches, place);
    watch_free(watch);
    return true;
}

/* Of any connection: the real server does not look closer. */
bool zk_watch_any(struct zookeeper_member *member, enum zk_watch_kind kind, const char *path, size_t size) {
    struct zk_watches *watches = &member->watches;
    uint32_t hash = zk_hash(path, size);

    for (struct zk_watch *watch = watches->table ? watches->table[hash & watches->mask] : NULL; watch; watch = watch->chained)
        if (is_at(watch, kind, hash, path, size))
            return true;
    return false;
}

void zk_watch_drop_all(struct zk_conn *conn) {
    struct zk_watches *watches = &conn->member->watches;

    while (conn->watches) {
        struct zk_watch *watch = conn->watches;

        unlink_watch(watches, place_of(watches, conn, watch->kind, watch->hash, watch->path->bytes, watch->path->size));
        watch_free(watch);
        conn->member->zk->lost++;
    }
}

/* ---- Events --------------------------------------------------------------------------------------------------------------- */

void zk_send_event(struct zk_conn *conn, int event, const char *path, size_t size) {
    struct zk_writer writer;

    zk_writer_begin(&writer);
    zk_write_int(&writer, XID_EVENT);
    zk_write_long(&writer, -1);
    zk_write_int(&writer, 0);
    zk_write_int(&writer, event);
    zk_write_int(&writer, STATE_CONNECTED);
    zk_write_buffer(&writer, path, (int32_t)size);
    zk_write_frame(&writer, conn->link);
    zk_writer_end(&writer);
    conn->member->sent++;
    conn->member->zk->fired++;
}

/* Those who may not read the node are told nothing, and their watches are gone all the same: so it is since 3.8.4, and in what
 * distributions have made of earlier ones (CVE-2024-23944). */
static bool may_hear(const struct zk_conn *conn, const struct zk_node *node) {
    return conn->member->zk->options.version != ZOOKEEPER_3_8 || zk_acl_allows(node->acl, PERM_READ, conn->client);
}

/* Tell those who watch, and forget them; who is in `ret_told`, because of the other kind of watch, was told already. */
static void trigger(struct zookeeper_member *member, int event, enum zk_watch_kind kind, const struct zk_node *node,
                    struct zk_watch **ret_told) {
    struct zk_watches *watches = &member->watches;
    const char *path = node->path->bytes;
    size_t size = node->path->size;
    uint32_t hash = zk_hash(path, size);
    struct zk_watch **place = &watches->table[hash & watches->mask];

    while (*place) {
        struct zk_watch *watch = *place;
        bool told = false;

        if (!is_at(watch, kind, hash, path, size)) {
            place = &watch->chained;
            continue;
        }
        unlink_watch(watches, place);
        watches->triggered[event]++;
        for (struct zk_watch *other = *ret_told; other; other = other->chained)
            told = told || (other->conn == watch->conn && other->kind != kind);
        if (!told && may_hear(watch->conn, node))
            zk_send_event(watch->conn, event, path, size);
        watch->chained = *ret_told;
        *ret_told = watch;
    }
}

static void forget(struct zk_watch *told) {
    for (struct zk_watch *next; told; told = next) {
        next = told->chained;
        watch_free(told);
    }
}

static void trigger_one(struct zookeeper_member *member, int event, enum zk_watch_kind kind, const struct zk_node *node) {
    struct zk_watch *told = NULL;

    trigger(member, event, kind, node, &told);
    forget(told);
}

void zk_watch_created(struct zookeeper_member *member, const struct zk_node *node) {
    if (member->watches.count == 0)
        return;
    trigger_one(member, EVENT_CREATED, WATCH_DATA, node);
    trigger_one(member, EVENT_CHILD, WATCH_CHILD, node->parent);
}

void zk_watch_changed(struct zookeeper_member *member, const struct zk_node *node) {
    if (member->watches.count > 0)
        trigger_one(member, EVENT_CHANGED, WATCH_DATA, node);
}

/* Who watches the node in both ways hears of it once. */
void zk_watch_deleted(struct zookeeper_member *member, const struct zk_node *node) {
    struct zk_watch *told = NULL;

    if (member->watches.count == 0)
        return;
    trigger(member, EVENT_DELETED, WATCH_DATA, node, &told);
    trigger(member, EVENT_DELETED, WATCH_CHILD, node, &told);
    forget(told);
    trigger_one(member, EVENT_CHILD, WATCH_CHILD, node->parent);
}

/* ---- After a reconnect ---------------------------------------------------------------------------------------------------- */

enum list { LIST_DATA, LIST_EXIST, LIST_CHILD };

/* What the client has missed since it saw `since`; 0: nothing. */
static int missed(const struct zk_node *node, enum list list, int64_t since) {
    if (list == LIST_EXIST)
        return node ? EVENT_CREATED : 0;
    if (!node)
        return EVENT_DELETED;
    if (list == LIST_DATA)
        return node->mzxid > since ? EVENT_CHANGED : 0;
    return node->pzxid > since ? EVENT_CHILD : 0;
}

void zk_watches_again(struct zk_conn *conn, struct zk_reader *reader) {
    int64_t since = zk_read_long(reader);

    for (enum list list = LIST_DATA; list <= LIST_CHILD; list++) {
        int32_t count = zk_read_int(reader);

        for (int32_t i = 0; i < count && !reader->bad; i++) {
            struct zk_text path = zk_read_string(reader);
            int event;

            if (reader->bad)
                return;
            event = missed(zk_tree_find(&conn->member->tree, path.bytes, (size_t)path.size), list, since);
            if (event)
                zk_send_event(conn, event, path.bytes, (size_t)path.size);
            else
                zk_watch_add(conn, list == LIST_CHILD ? WATCH_CHILD : WATCH_DATA, path.bytes, (size_t)path.size);
        }
    }
}
