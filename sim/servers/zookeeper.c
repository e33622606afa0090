/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.c - the simulated ZooKeeper from outside: making it, its members as servers, faults of detail, and looking. See
 * zookeeper.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

/* ---- Making --------------------------------------------------------------------------------------------------------------- */

static void set_default(unsigned *option, unsigned value) {
    if (*option == 0)
        *option = value;
}

static void set_span(int64_t *low, int64_t *high, int64_t low_value, int64_t high_value) {
    if (*low == 0 && *high == 0) {
        *low = low_value;
        *high = high_value;
    }
}

static void set_defaults(struct zookeeper_options *options) {
    set_default(&options->count, 1);
    if (options->count > ZOOKEEPER_MEMBERS_MAX)
        options->count = ZOOKEEPER_MEMBERS_MAX;
    set_default(&options->tick_ms, 2000);
    set_default(&options->min_session_ms, 2 * options->tick_ms);
    set_default(&options->max_session_ms, 20 * options->tick_ms);
    set_default(&options->sync_limit, 5);
    set_default(&options->max_buffer, 1048575);
    set_default(&options->container_check_ms, 60000);
    set_span(&options->near_ns, &options->far_ns, ZK_MS / 20, ZK_MS);
    set_span(&options->election_min_ns, &options->election_max_ns, 200 * ZK_MS, 2000 * ZK_MS);
}

/* What is in /zookeeper/config: who the members are. A server that is alone has nothing there. */
static struct zk_blob *config_of(const struct zookeeper *zk) {
    char text[1024];
    size_t used = 0;

    if (zk->count == 1)
        return NULL;
    for (unsigned i = 0; i < zk->count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "server.%u=127.0.0.1:%u:%u:participant\n", i + 1, 2888 + i,
                                 3888 + i);
    used += (size_t)snprintf(text + used, sizeof text - used, "version=0");
    return zk_blob_new(text, used);
}

static void member_init(struct zookeeper *zk, unsigned index, const struct zk_blob *config) {
    struct zookeeper_member *member = &zk->members[index];

    member->zk = zk;
    member->index = index;
    member->role = index == 0 ? ROLE_LEADING : ROLE_FOLLOWING;
    member->epoch = zk->epoch;
    member->cut_at = member->notice_at = member->join_at = member->read_only_at = member->apply_at = SERVER_NEVER;
    member->clock = (struct server_clock){.base = zk_draw(zk, 0, 1 << 30), .rate = 1};
    member->wall = (struct server_clock){.rate = 1};
    zk_tree_init(&member->tree, zk->options.seed ^ index, config);
    member->tree.zxid = zk->zxid;
    member->next_session = (uint64_t)(index + 1) << 56 | (zk_random(zk) >> 24 << 16);
}

struct zookeeper *zookeeper_new(const struct zookeeper_options *options) {
    struct zookeeper *zk = zk_memory(sizeof *zk);
    struct zk_blob *config;

    zk->options = *options;
    set_defaults(&zk->options);
    zk->words = options->words ? strdup(options->words) : NULL;
    zk->dice.state = options->seed;
    zk->count = zk->options.count;
    zk->members = zk_memory(zk->count * sizeof *zk->members);
    if (zk->count > 1) {
        zk->epoch = 1;
        zk->zxid = INT64_C(1) << 32;
    }
    config = config_of(zk);
    zk_tree_init(&zk->head, options->seed, config);
    for (unsigned i = 0; i < zk->count; i++)
        member_init(zk, i, config);
    zk_blob_unref(config);
    zk->election_at = zk->expiry_at = zk->idle_at = SERVER_NEVER;
    zk->container_at = zk_draw(zk, 1, zk->options.container_check_ms) * ZK_MS;
    return zk;
}

void zookeeper_free(struct zookeeper *zk) {
    if (!zk)
        return;
    for (unsigned i = 0; i < zk->count; i++) {
        struct zookeeper_member *member = &zk->members[i];

        while (member->conns)
            zk_conn_drop(member->conns, false);
        zk_queue_clear(&member->up);
        zk_queue_clear(&member->down);
        zk_watches_clear(&member->watches);
        member->role = ROLE_DOWN;
    }
    zk->leader = -1;
    zk->election_at = zk->idle_at = SERVER_NEVER;
    zk_leave(zk);
    zk_log_free(zk);
    for (unsigned i = 0; i < zk->count; i++)
        zk_tree_clear(&zk->members[i].tree);
    zk_tree_clear(&zk->head);
    zk_sessions_clear(zk);
    free(zk->members);
    free(zk->words);
    free(zk);
}

void *zookeeper_member(struct zookeeper *zk, unsigned index) {
    return &zk->members[index];
}

unsigned zookeeper_count(const struct zookeeper *zk) {
    return zk->count;
}

/* ---- A server ------------------------------------------------------------------------------------------------------------- */

static void *server_accept(void *server, struct link *link, int64_t now) {
    struct zookeeper_member *member = server;
    struct zk_conn *conn;

    zk_enter(member->zk, now);
    if (member->role == ROLE_DOWN) {
        link_close(link);
        return NULL;
    }
    conn = zk_conn_new(member, link);
    return conn;
}

static void server_input(void *server, void *session, const char *bytes, size_t size, int64_t now) {
    struct zookeeper_member *member = server;

    if (!session)
        return;
    zk_enter(member->zk, now);
    zk_conn_input(session, bytes, size);
    zk_leave(member->zk);
}

static void server_gone(void *server, void *session, int64_t now) {
    struct zookeeper_member *member = server;
    struct zk_conn *conn = session;

    if (!session)
        return;
    zk_enter(member->zk, now);
    zk_conn_drop(conn, false);
    zk_leave(member->zk);
}

static int64_t server_due(const void *server) {
    const struct zookeeper_member *member = server;

    return zk_due(member->zk);
}

static void server_tick(void *server, int64_t now) {
    struct zookeeper_member *member = server;

    zk_enter(member->zk, now);
    zk_leave(member->zk);
}

const struct server_ops zookeeper_ops = {
    .accept = server_accept,
    .input = server_input,
    .gone = server_gone,
    .due = server_due,
    .tick = server_tick,
};

/* ---- Faults of detail ----------------------------------------------------------------------------------------------------- */

void zookeeper_lag(struct zookeeper *zk, unsigned index, int64_t near_ns, int64_t far_ns) {
    zk->members[index].lag_near = near_ns;
    zk->members[index].lag_far = far_ns;
}

void zookeeper_set_clock(struct zookeeper *zk, unsigned index, int64_t jump_ns, double rate, int64_t now) {
    struct zookeeper_member *member = &zk->members[index];

    zk_enter(zk, now);
    server_clock_set(&member->clock, now, jump_ns, rate);
    server_clock_set(&member->wall, now, jump_ns, rate);
    if (zk->leader == (int)index)
        zk->expiry_at = now; /* look anew */
    zk_leave(zk);
}

bool zookeeper_expire(struct zookeeper *zk, int64_t id, int64_t now) {
    struct zk_session *session;

    zk_enter(zk, now);
    session = zk_session_find(zk, id);
    if (session && !session->closing && zk->leader >= 0) {
        session->expire_ms = INT64_MIN;
        session->touch_at = SERVER_NEVER;
        zk->expiry_at = now;
    }
    zk_leave(zk);
    return session != NULL;
}

unsigned zookeeper_disconnect(struct zookeeper *zk, unsigned index, unsigned one_in, int64_t now) {
    unsigned count = 0;

    zk_enter(zk, now);
    for (struct zk_conn *conn = zk->members[index].conns, *next; conn; conn = next) {
        next = conn->after;
        if (one_in > 1 && !zk_one_in(zk, one_in))
            continue;
        zk_conn_drop(conn, true);
        count++;
    }
    zk_leave(zk);
    return count;
}

void zookeeper_throttle(struct zookeeper *zk, unsigned one_in) {
    zk->throttle = one_in;
}

void zookeeper_disk_full(struct zookeeper *zk, unsigned index, unsigned number) {
    zk->members[index].disk_full = number;
}

void zookeeper_fail_write(struct zookeeper *zk, unsigned number, int32_t code) {
    zk->fail_number = number;
    zk->fail_code = code;
}

void zookeeper_nonsense(struct zookeeper *zk, unsigned one_in) {
    zk->nonsense = one_in;
}

/* ---- Looking -------------------------------------------------------------------------------------------------------------- */

static const struct zk_tree *tree_of(const struct zookeeper *zk, int index) {
    return index < 0 ? &zk->head : &zk->members[index].tree;
}

static bool is_own(const struct zk_node *node) {
    return strncmp(node->path->bytes, "/zookeeper", 10) == 0 && (node->path->bytes[10] == '/' || !node->path->bytes[10]);
}

static int by_path(const void *a, const void *b) {
    return strcmp((*(struct zk_node *const *)a)->path->bytes, (*(struct zk_node *const *)b)->path->bytes);
}

void zookeeper_nodes(const struct zookeeper *zk, int index, zookeeper_node_fn *visit, void *data) {
    const struct zk_tree *tree = tree_of(zk, index);
    const struct zk_node **sorted = zk_memory((tree->count + 1) * sizeof *sorted);
    size_t count = 0;

    for (unsigned i = 0; i <= tree->mask; i++)
        for (const struct zk_node *node = tree->table[i]; node; node = node->chained)
            if (!is_own(node))
                sorted[count++] = node;
    qsort(sorted, count, sizeof *sorted, by_path);
    for (size_t i = 0; i < count; i++) {
        const struct zk_node *node = sorted[i];
        const struct zookeeper_node shown = {.path = node->path->bytes,
                                             .data = node->data ? node->data->bytes : "",
                                             .size = node->data ? node->data->size : 0,
                                             .owner = zk_node_shown_owner(node),
                                             .container = node->owner == ZK_OWNER_CONTAINER,
                                             .czxid = node->czxid,
                                             .mzxid = node->mzxid,
                                             .version = node->version,
                                             .cversion = (int32_t)((uint32_t)node->cversion * 2 - node->children),
                                             .children = node->children};

        visit(&shown, data);
    }
    free(sorted);
}

static int member_of(const struct zookeeper *zk, int64_t session) {
    for (unsigned i = 0; i < zk->count; i++)
        if (zk_conn_of(&zk->members[i], session))
            return (int)i;
    return -1;
}

void zookeeper_sessions(const struct zookeeper *zk, zookeeper_session_fn *visit, void *data) {
    for (const struct zk_session *session = zk->oldest, *next; session; session = next) {
        struct zookeeper_session shown = {
            .id = session->id, .timeout_ms = session->timeout_ms, .member = member_of(zk, session->id)};

        next = session->after;
        for (const struct zk_node *node = zk->head.owned; node; node = node->owned_after)
            shown.ephemerals += node->owner == session->id;
        if (!session->closing)
            visit(&shown, data);
    }
}

unsigned zookeeper_session_count(const struct zookeeper *zk) {
    unsigned count = 0;

    for (const struct zk_session *session = zk->oldest; session; session = session->after)
        count += !session->closing;
    return count;
}

unsigned zookeeper_ephemeral_count(const struct zookeeper *zk, int index) {
    return tree_of(zk, index)->ephemerals;
}

unsigned zookeeper_watch_count(const struct zookeeper *zk, int index) {
    unsigned count = 0;

    for (unsigned i = 0; i < zk->count; i++)
        if (index < 0 || index == (int)i)
            count += zk->members[i].watches.count;
    return count;
}

uint64_t zookeeper_watches_fired(const struct zookeeper *zk) {
    return zk->fired;
}

uint64_t zookeeper_events_lost(const struct zookeeper *zk) {
    return zk->lost;
}

uint64_t zookeeper_requests(const struct zookeeper *zk, int type) {
    return type == 0 ? zk->all_requests : zk->requests[type & 127];
}

int64_t zookeeper_zxid(const struct zookeeper *zk, int index) {
    if (index >= 0)
        return zk->members[index].tree.zxid;
    return zk->committed > zk->log_begin ? zk_log_at(zk, zk->committed - 1)->zxid
                                         : zk->members[zk->leader < 0 ? 0 : zk->leader].tree.zxid;
}
