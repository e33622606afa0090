/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_tree.c - nodes by their path, and what transactions do to them.
 *
 * A transaction says what comes out (the new version, the whole name with its number), so that all trees to which the same log is
 * applied are the same. The leader's tree has one thing more: a part of a multi can be taken back, when a later part fails.
 *
 * `cversion` counts the children that were ever created; it is what numbers are made of. What clients are shown counts deletions
 * too.
 *
 * Children are kept in an order that depends on their names and the seed: clients must not rely on any.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { TABLE_MIN = 64 };

const char *zk_node_name(const struct zk_node *node) {
    return node->path->bytes + node->name;
}

static bool is_ephemeral(const struct zk_node *node) {
    return node->owner > 0;
}

int64_t zk_node_shown_owner(const struct zk_node *node) {
    return is_ephemeral(node) ? node->owner : 0;
}

void zk_write_stat(struct zk_writer *writer, const struct zk_node *node) {
    zk_write_long(writer, node->czxid);
    zk_write_long(writer, node->mzxid);
    zk_write_long(writer, node->ctime);
    zk_write_long(writer, node->mtime);
    zk_write_int(writer, node->version);
    zk_write_int(writer, (int32_t)((uint32_t)node->cversion * 2 - node->children));
    zk_write_int(writer, node->aversion);
    zk_write_long(writer, zk_node_shown_owner(node));
    zk_write_int(writer, node->data ? (int32_t)node->data->size : 0);
    zk_write_int(writer, (int32_t)node->children);
    zk_write_long(writer, node->pzxid);
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

struct zk_node *zk_tree_find(const struct zk_tree *tree, const char *path, size_t size) {
    uint32_t hash;

    if (size == 0 || (size == 1 && *path == '/'))
        return tree->root;
    hash = zk_hash(path, size);
    for (struct zk_node *node = tree->table[hash & tree->mask]; node; node = node->chained)
        if (node->hash == hash && node->path->size == size && memcmp(node->path->bytes, path, size) == 0)
            return node;
    return NULL;
}

static size_t parent_size(const char *path, size_t size) {
    while (size > 0 && path[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

struct zk_node *zk_tree_parent(const struct zk_tree *tree, const char *path, size_t size) {
    return zk_tree_find(tree, path, parent_size(path, size));
}

static void grow(struct zk_tree *tree) {
    unsigned mask = tree->mask * 2 + 1;
    struct zk_node **table = zk_memory((mask + 1) * sizeof *table);

    for (unsigned i = 0; i <= tree->mask; i++)
        for (struct zk_node *node = tree->table[i], *next; node; node = next) {
            next = node->chained;
            node->chained = table[node->hash & mask];
            table[node->hash & mask] = node;
        }
    free(tree->table);
    tree->table = table;
    tree->mask = mask;
}

static void chain(struct zk_tree *tree, struct zk_node *node) {
    struct zk_node **place;

    if (tree->count++ > tree->mask)
        grow(tree);
    place = &tree->table[node->hash & tree->mask];
    node->chained = *place;
    *place = node;
}

static void unchain(struct zk_tree *tree, struct zk_node *node) {
    struct zk_node **place = &tree->table[node->hash & tree->mask];

    while (*place != node)
        place = &(*place)->chained;
    *place = node->chained;
    tree->count--;
}

static void add_child(struct zk_tree *tree, struct zk_node *parent, struct zk_node *node) {
    node->parent = parent;
    parent->children++;
    node->before = node->after = NULL;
    if (!parent->first) {
        parent->first = parent->last = node;
    } else if ((node->hash ^ tree->salt) & 4) {
        node->after = parent->first;
        parent->first = parent->first->before = node;
    } else {
        node->before = parent->last;
        parent->last = parent->last->after = node;
    }
}

static void remove_child(struct zk_node *node) {
    struct zk_node *parent = node->parent;

    *(node->before ? &node->before->after : &parent->first) = node->after;
    *(node->after ? &node->after->before : &parent->last) = node->before;
    parent->children--;
}

static void own(struct zk_tree *tree, struct zk_node *node) {
    if (!node->owner)
        return;
    tree->ephemerals += is_ephemeral(node);
    node->owned_before = NULL;
    node->owned_after = tree->owned;
    if (tree->owned)
        tree->owned->owned_before = node;
    tree->owned = node;
}

static void disown(struct zk_tree *tree, struct zk_node *node) {
    if (!node->owner)
        return;
    tree->ephemerals -= is_ephemeral(node);
    *(node->owned_before ? &node->owned_before->owned_after : &tree->owned) = node->owned_after;
    if (node->owned_after)
        node->owned_after->owned_before = node->owned_before;
}

static bool is_limit(const struct zk_node *node) {
    return strcmp(zk_node_name(node), "zookeeper_limits") == 0;
}

static void link_node(struct zk_tree *tree, struct zk_node *parent, struct zk_node *node) {
    chain(tree, node);
    add_child(tree, parent, node);
    own(tree, node);
    tree->quotas += is_limit(node);
}

static void unlink_node(struct zk_tree *tree, struct zk_node *node) {
    tree->quotas -= is_limit(node);
    disown(tree, node);
    remove_child(node);
    unchain(tree, node);
}

static struct zk_node *node_new(struct zk_blob *path, struct zk_blob *data, struct zk_acl *acl) {
    struct zk_node *node = zk_memory(sizeof *node);

    node->path = zk_blob_ref(path);
    node->data = zk_blob_ref(data);
    node->acl = zk_acl_ref(acl);
    node->hash = zk_hash(path->bytes, path->size);
    node->name = (uint32_t)parent_size(path->bytes, path->size) + 1;
    return node;
}

static void node_free(struct zk_node *node) {
    zk_blob_unref(node->path);
    zk_blob_unref(node->data);
    zk_acl_unref(node->acl);
    free(node);
}

/* ---- The whole ------------------------------------------------------------------------------------------------------------ */

static void add_special(struct zk_tree *tree, const char *path, const struct zk_blob *content, struct zk_acl *acl,
                        int32_t aversion) {
    struct zk_blob *text = zk_blob_new(path, strlen(path));
    struct zk_blob *data = zk_blob_new(content ? content->bytes : "", content ? content->size : 0);
    struct zk_node *node = node_new(text, data, acl);

    node->aversion = aversion;
    node->version = content ? -1 : 0;
    link_node(tree, zk_tree_parent(tree, path, strlen(path)), node);
    zk_blob_unref(text);
    zk_blob_unref(data);
}

static void make_root(struct zk_tree *tree, struct zk_acl *acl) {
    struct zk_blob *path = zk_blob_new("/", 1), *data = zk_blob_new("", 0);

    tree->root = node_new(path, data, acl);
    zk_blob_unref(path);
    zk_blob_unref(data);
}

void zk_tree_init(struct zk_tree *tree, uint64_t salt, const struct zk_blob *config) {
    struct zk_acl *open = zk_acl_world(31), *readable = zk_acl_world(PERM_READ);

    memset(tree, 0, sizeof *tree);
    tree->salt = salt;
    tree->mask = TABLE_MIN - 1;
    tree->table = zk_memory(TABLE_MIN * sizeof *tree->table);
    make_root(tree, open);
    add_special(tree, "/zookeeper", NULL, open, 0);
    add_special(tree, "/zookeeper/quota", NULL, open, 0);
    add_special(tree, "/zookeeper/config", config, readable, -1);
    zk_acl_unref(open);
    zk_acl_unref(readable);
}

void zk_tree_clear(struct zk_tree *tree) {
    for (unsigned i = 0; tree->table && i <= tree->mask; i++)
        for (struct zk_node *node = tree->table[i], *next; node; node = next) {
            next = node->chained;
            node_free(node);
        }
    if (tree->root)
        node_free(tree->root);
    free(tree->table);
    memset(tree, 0, sizeof *tree);
}

static struct zk_node *copy_node(const struct zk_node *from) {
    struct zk_node *node = node_new(from->path, from->data, from->acl);

    node->version = from->version;
    node->cversion = from->cversion;
    node->aversion = from->aversion;
    node->czxid = from->czxid;
    node->mzxid = from->mzxid;
    node->pzxid = from->pzxid;
    node->ctime = from->ctime;
    node->mtime = from->mtime;
    node->owner = from->owner;
    return node;
}

/* The node after this one, and the copy of its parent. NULL: that was the last. */
static const struct zk_node *next_node(const struct zk_node *node, struct zk_node **copy) {
    if (node->first)
        return node->first;
    while (node && !node->after) {
        node = node->parent;
        *copy = (*copy)->parent;
    }
    if (!node)
        return NULL;
    *copy = (*copy)->parent;
    return node->after;
}

/* Without recursion: trees may be deep. */
void zk_tree_copy(struct zk_tree *to, const struct zk_tree *from) {
    const struct zk_node *node = from->root;
    struct zk_node *copy;

    zk_tree_clear(to);
    to->salt = from->salt;
    to->zxid = from->zxid;
    to->mask = from->mask;
    to->table = zk_memory((to->mask + 1) * sizeof *to->table);
    copy = to->root = copy_node(node);
    while ((node = next_node(node, &copy)) != NULL) {
        struct zk_node *child = copy_node(node);

        link_node(to, copy, child);
        copy = child;
    }
}

/* ---- Transactions --------------------------------------------------------------------------------------------------------- */

void zk_txn_clear(struct zk_txn *txn) {
    for (unsigned i = 0; i < txn->count; i++)
        zk_txn_clear(&txn->subs[i]);
    free(txn->subs);
    zk_blob_unref(txn->path);
    zk_blob_unref(txn->data);
    zk_acl_unref(txn->acl);
    memset(txn, 0, sizeof *txn);
}

static struct zk_node *create(struct zk_tree *tree, const struct zk_entry *entry, const struct zk_txn *txn) {
    struct zk_node *parent = zk_tree_parent(tree, txn->path->bytes, txn->path->size), *node;

    if (!parent || zk_tree_find(tree, txn->path->bytes, txn->path->size))
        return NULL;
    node = node_new(txn->path, txn->data, txn->acl);
    node->czxid = node->mzxid = node->pzxid = entry->zxid;
    node->ctime = node->mtime = entry->wall_ms;
    node->owner = txn->owner;
    if (txn->version > parent->cversion) {
        parent->cversion = txn->version;
        parent->pzxid = entry->zxid;
    }
    link_node(tree, parent, node);
    return node;
}

/* Take it out of the tree; the caller, which tells of it, still has it. */
static struct zk_node *take_out(struct zk_tree *tree, const struct zk_blob *path, int64_t zxid) {
    struct zk_node *node = zk_tree_find(tree, path->bytes, path->size);

    if (!node || !node->parent)
        return NULL;
    unlink_node(tree, node);
    if (zxid > node->parent->pzxid)
        node->parent->pzxid = zxid;
    return node;
}

static void set_data(struct zk_node *node, const struct zk_entry *entry, const struct zk_txn *txn) {
    zk_blob_unref(node->data);
    node->data = zk_blob_ref(txn->data);
    node->mtime = entry->wall_ms;
    node->mzxid = entry->zxid;
    node->version = txn->version;
}

static struct zk_node *set_acl(struct zk_tree *tree, const struct zk_txn *txn) {
    struct zk_node *node = zk_tree_find(tree, txn->path->bytes, txn->path->size);

    if (!node)
        return NULL;
    zk_acl_unref(node->acl);
    node->acl = zk_acl_ref(txn->acl);
    node->aversion = txn->version;
    return node;
}

/* All ephemerals of a session, in one transaction. */
static void end_session(struct zk_tree *tree, const struct zk_entry *entry, struct zookeeper_member *member) {
    for (struct zk_node *node = tree->owned, *next; node; node = next) {
        next = node->owned_after;
        if (node->owner != entry->session)
            continue;
        take_out(tree, node->path, entry->zxid);
        if (member)
            zk_watch_deleted(member, node);
        node_free(node);
    }
}

/* What the client is told of one part that worked: after the watches were. */
static void write_result(struct zk_writer *results, const struct zk_txn *txn, const struct zk_node *node) {
    if (!results || !node)
        return;
    if (txn->type == OP_CREATE || txn->type == OP_CREATE2 || txn->type == OP_CREATE_CONTAINER || txn->type == OP_CREATE_TTL)
        zk_write_blob(results, txn->path);
    if (txn->type != OP_CREATE)
        zk_write_stat(results, node);
}

static void apply_one(struct zk_tree *tree, const struct zk_entry *entry, const struct zk_txn *txn, struct zookeeper_member *member,
                      struct zk_writer *results) {
    struct zk_node *node;

    switch (txn->type) {
    case OP_CREATE:
    case OP_CREATE2:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
        node = create(tree, entry, txn);
        write_result(results, txn, node);
        if (node && member)
            zk_watch_created(member, node);
        break;
    case OP_DELETE:
    case OP_DELETE_CONTAINER:
        node = take_out(tree, txn->path, entry->zxid);
        if (node && member)
            zk_watch_deleted(member, node);
        if (node)
            node_free(node);
        break;
    case OP_SET_DATA:
        node = zk_tree_find(tree, txn->path->bytes, txn->path->size);
        if (!node)
            break;
        set_data(node, entry, txn);
        write_result(results, txn, node);
        if (member)
            zk_watch_changed(member, node);
        break;
    case OP_SET_ACL:
        write_result(results, txn, set_acl(tree, txn));
        break;
    case OP_CLOSE_SESSION:
        end_session(tree, entry, member);
        break;
    default:
        break;
    }
}

static void write_multi_header(struct zk_writer *results, int32_t type, bool done, int32_t error) {
    zk_write_int(results, type);
    zk_write_bool(results, done);
    zk_write_int(results, error);
}

/* Of a multi that failed: 0 before the part that is to blame, its error, and another behind it. */
static void write_failure(struct zk_writer *results, const struct zk_txn *multi) {
    for (unsigned i = 0; i < multi->count; i++) {
        write_multi_header(results, OP_ERROR, false, multi->subs[i].error);
        zk_write_int(results, multi->subs[i].error);
    }
}

static void apply_multi(struct zk_tree *tree, const struct zk_entry *entry, struct zookeeper_member *member,
                        struct zk_writer *results) {
    const struct zk_txn *multi = &entry->txn;
    int shown;

    if (multi->error && results)
        write_failure(results, multi);
    for (unsigned i = 0; !multi->error && i < multi->count; i++) {
        shown = multi->subs[i].type;
        if (shown == OP_CREATE_CONTAINER || shown == OP_CREATE_TTL)
            shown = OP_CREATE2;
        if (results)
            write_multi_header(results, shown, false, 0);
        apply_one(tree, entry, &multi->subs[i], member, results);
    }
    if (results)
        write_multi_header(results, -1, true, -1);
}

void zk_tree_apply(struct zk_tree *tree, const struct zk_entry *entry, struct zookeeper_member *member, struct zk_writer *results) {
    if (entry->txn.type == OP_MULTI)
        apply_multi(tree, entry, member, results);
    else
        apply_one(tree, entry, &entry->txn, member, results);
    tree->zxid = entry->zxid;
}

/* ---- Taking back ---------------------------------------------------------------------------------------------------------- */

static void remember(struct zk_undo *undo, const struct zk_txn *txn, struct zk_node *node, struct zk_node *parent) {
    *undo = (struct zk_undo){.type = txn->type, .node = node, .parent = parent};
    if (parent) {
        undo->parent_cversion = parent->cversion;
        undo->parent_pzxid = parent->pzxid;
    }
    if (node) {
        undo->data = zk_blob_ref(node->data);
        undo->mzxid = node->mzxid;
        undo->mtime = node->mtime;
        undo->version = node->version;
    }
}

void zk_tree_try(struct zk_tree *tree, const struct zk_entry *entry, const struct zk_txn *txn, struct zk_undo *ret) {
    struct zk_node *node = txn->path ? zk_tree_find(tree, txn->path->bytes, txn->path->size) : NULL;
    struct zk_node *parent = txn->path ? zk_tree_parent(tree, txn->path->bytes, txn->path->size) : NULL;

    remember(ret, txn, node, parent);
    switch (txn->type) {
    case OP_CREATE:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
        ret->node = create(tree, entry, txn);
        break;
    case OP_DELETE:
        take_out(tree, txn->path, entry->zxid);
        break;
    case OP_SET_DATA:
        set_data(node, entry, txn);
        break;
    default:
        break;
    }
}

void zk_tree_undo(struct zk_tree *tree, struct zk_undo *undo) {
    switch (undo->type) {
    case OP_CREATE:
    case OP_CREATE_CONTAINER:
    case OP_CREATE_TTL:
        unlink_node(tree, undo->node);
        node_free(undo->node);
        break;
    case OP_DELETE:
        link_node(tree, undo->parent, undo->node);
        break;
    case OP_SET_DATA:
        zk_blob_unref(undo->node->data);
        undo->node->data = zk_blob_ref(undo->data);
        undo->node->mzxid = undo->mzxid;
        undo->node->mtime = undo->mtime;
        undo->node->version = undo->version;
        break;
    default:
        break;
    }
    if (undo->parent && undo->type != OP_SET_DATA && undo->type != OP_CHECK) {
        undo->parent->cversion = undo->parent_cversion;
        undo->parent->pzxid = undo->parent_pzxid;
    }
    zk_blob_unref(undo->data);
}

void zk_undo_forget(struct zk_undo *undo) {
    zk_blob_unref(undo->data);
    if (undo->type == OP_DELETE)
        node_free(undo->node);
}

/* ---- Quotas --------------------------------------------------------------------------------------------------------------- */

static void count_below(const struct zk_node *top, int64_t *nodes, int64_t *bytes) {
    const struct zk_node *node = top;

    while (node) {
        ++*nodes;
        *bytes += node->data ? node->data->size : 0;
        if (node->first) {
            node = node->first;
            continue;
        }
        while (node != top && !node->after)
            node = node->parent;
        node = node == top ? NULL : node->after;
    }
}

static int64_t limit_of(const struct zk_node *limits, const char *key) {
    const char *place = limits->data ? strstr(limits->data->bytes, key) : NULL;

    return place ? strtoll(place + strlen(key), NULL, 10) : -1;
}

/* The limits of the nearest node above that has some. */
static const struct zk_node *find_limits(const struct zk_tree *tree, const char *path, size_t size,
                                         const struct zk_node **ret_top) {
    char name[1024];

    for (; size > 0; size = parent_size(path, size)) {
        int length = snprintf(name, sizeof name, "/zookeeper/quota%.*s/zookeeper_limits", (int)size, path);
        const struct zk_node *limits = length < (int)sizeof name ? zk_tree_find(tree, name, (size_t)length) : NULL;

        if (limits) {
            *ret_top = zk_tree_find(tree, path, size);
            return *ret_top ? limits : NULL;
        }
    }
    return NULL;
}

bool zk_tree_exceeds(const struct zk_tree *tree, const char *path, size_t size, int64_t bytes, int64_t count) {
    const struct zk_node *top, *limits = tree->quotas ? find_limits(tree, path, size, &top) : NULL;
    int64_t nodes = 0, data = 0, most_nodes, most_bytes;

    if (!limits)
        return false;
    count_below(top, &nodes, &data);
    most_nodes = limit_of(limits, "countHardLimit=");
    most_bytes = limit_of(limits, "byteHardLimit=");
    return (count != 0 && most_nodes > -1 && nodes + count > most_nodes) ||
           (bytes != 0 && most_bytes > -1 && data + bytes > most_bytes);
}
