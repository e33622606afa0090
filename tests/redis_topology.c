/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_topology.c - see redis_topology.h.
 */
#include "redis_topology.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test.h"

enum { ATTEMPTS = 3, LONG_MS = 60000 };

static void add(char *lines, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(char *lines, size_t size, const char *format, ...) {
    size_t used = strlen(lines);
    va_list args;

    va_start(args, format);
    assert_true((size_t)vsnprintf(lines + used, size - used, format, args) < size - used);
    va_end(args);
}

/* ---- Servers that replicate ----------------------------------------------------------------------------------------------- */

static bool is_primary(struct redis_server *server) {
    redisReply *reply = server->pid ? redis_server_command(server, "ROLE") : NULL;
    bool primary = reply && reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "master") == 0;

    freeReplyObject(reply);
    return primary;
}

/* Replicas that have acknowledged something: those are in step. */
static unsigned replicas_in_step(struct redis_server *server) {
    redisReply *reply = redis_server_command(server, "ROLE");
    unsigned count = 0;

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && strcmp(reply->element[0]->str, "master") == 0)
        for (size_t i = 0; i < reply->element[2]->elements; i++)
            count += atoll(reply->element[2]->element[i]->element[2]->str) > 0;
    freeReplyObject(reply);
    return count;
}

void redis_await_replicas(struct redis_server *server, unsigned count) {
    await(replicas_in_step(server) == count, "the server never has %u replicas in step", count);
}

static const char *const replication = "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n";

/* ---- Sentinel --------------------------------------------------------------------------------------------------------------- */

static void configure_sentinels(struct redis_watched *watched, const unsigned *ports) {
    unsigned down_after = watched->down_after_ms ? watched->down_after_ms : LONG_MS;

    for (int i = 0; i < SENTINELS; i++) {
        struct redis_server *sentinel = &watched->sentinels[i];

        sentinel->sentinel = true;
        snprintf(sentinel->extra, sizeof sentinel->extra, "%s", watched->sentinel_extra);
        add(sentinel->extra, sizeof sentinel->extra, "sentinel myid %039d%d\nsentinel monitor mymaster 127.0.0.1 %u 2\n", 0, i + 1,
            ports[0]);
        add(sentinel->extra, sizeof sentinel->extra,
            "sentinel down-after-milliseconds mymaster %u\nsentinel failover-timeout mymaster 5000\n", down_after);
        for (int j = 1; j < WATCHED; j++)
            add(sentinel->extra, sizeof sentinel->extra, "sentinel known-replica mymaster 127.0.0.1 %u\n", ports[j]);
        for (int j = 0; j < SENTINELS; j++)
            if (j != i)
                add(sentinel->extra, sizeof sentinel->extra, "sentinel known-sentinel mymaster 127.0.0.1 %u %039d%d\n",
                    ports[WATCHED + j], 0, j + 1);
    }
}

static struct redis_server *watched_part(struct redis_watched *watched, int i) {
    return i < WATCHED ? &watched->servers[i] : &watched->sentinels[i - WATCHED];
}

/* False: somebody else took a port meanwhile. */
static bool start_watched(struct redis_watched *watched) {
    unsigned ports[WATCHED + SENTINELS];

    redis_free_ports(ports, WATCHED + SENTINELS);
    for (int i = 0; i < WATCHED; i++) {
        struct redis_server *server = &watched->servers[i];

        snprintf(server->extra, sizeof server->extra, "%s%s", replication, watched->extra);
        if (i > 0)
            add(server->extra, sizeof server->extra, "replicaof 127.0.0.1 %u\n", ports[0]);
    }
    configure_sentinels(watched, ports);
    for (int i = 0; i < WATCHED + SENTINELS; i++) {
        struct redis_server *part = watched_part(watched, i);

        part->port = ports[i];
        redis_server_start(part);
        if (part->port != ports[i])
            return false;
    }
    return true;
}

static bool sentinel_sees(struct redis_server *sentinel, unsigned primary) {
    redisReply *reply = redis_server_command(sentinel, "SENTINEL MASTER mymaster");
    bool well = false, here = false, all = false;

    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const char *key = reply->element[i]->str, *value = reply->element[i + 1]->str;

        well = strcmp(key, "flags") == 0 ? strcmp(value, "master") == 0 : well;
        here = strcmp(key, "port") == 0 ? strtoul(value, NULL, 10) == primary : here;
        all = strcmp(key, "num-other-sentinels") == 0 ? atoi(value) == SENTINELS - 1 : all;
    }
    freeReplyObject(reply);
    return well && here && all;
}

static bool sentinels_see(struct redis_watched *watched, unsigned primary) {
    for (int i = 0; i < SENTINELS; i++)
        if (watched->sentinels[i].pid && !sentinel_sees(&watched->sentinels[i], primary))
            return false;
    return true;
}

void redis_watched_start(struct redis_watched *watched) {
    bool started = false;

    signal(SIGPIPE, SIG_IGN); /* hiredis, whose connection a sentinel closes, does not keep from it */
    for (int attempt = 0; attempt < ATTEMPTS && !started; attempt++) {
        started = start_watched(watched);
        for (int i = 0; i < WATCHED + SENTINELS && !started; i++)
            redis_server_free(watched_part(watched, i));
    }
    assert_true(started);
    redis_await_replicas(&watched->servers[0], WATCHED - 1);
    await(sentinels_see(watched, watched->servers[0].port), "the sentinels do not agree");
    snprintf(watched->url, sizeof watched->url, "redis-sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/mymaster",
             watched->sentinels[0].port, watched->sentinels[1].port, watched->sentinels[2].port);
}

void redis_watched_free(struct redis_watched *watched) {
    for (int i = WATCHED + SENTINELS; i-- > 0;)
        redis_server_free(watched_part(watched, i));
}

void redis_watched_reset(struct redis_watched *watched) {
    for (int i = 0; i < SENTINELS; i++)
        redis_server_stop(&watched->sentinels[i], SIGKILL);
    for (int i = 0; i < WATCHED; i++) {
        redis_server_stop(&watched->servers[i], SIGKILL);
        redis_server_start(&watched->servers[i]);
    }
    redis_await_replicas(&watched->servers[0], WATCHED - 1);
    for (int i = 0; i < SENTINELS; i++)
        redis_server_start(&watched->sentinels[i]);
    await(sentinels_see(watched, watched->servers[0].port), "the sentinels do not agree");
}

static struct redis_server *find_primary(struct redis_watched *watched, int not ) {
    for (int i = 0; i < WATCHED; i++)
        if (i != not &&is_primary(&watched->servers[i]) && sentinels_see(watched, watched->servers[i].port))
            return &watched->servers[i];
    return NULL;
}

struct redis_server *redis_watched_primary(struct redis_watched *watched, int not ) {
    struct redis_server *primary;

    await((primary = find_primary(watched, not )), "there is never a primary");
    return primary;
}

int redis_watched_index(const struct redis_watched *watched, const struct redis_server *server) {
    return (int)(server - watched->servers);
}

/* ---- Cluster ---------------------------------------------------------------------------------------------------------------- */

const char *redis_cluster_id(int index) {
    static char ids[CLUSTER_NODES][41];

    snprintf(ids[index], sizeof ids[index], "%040d", index + 1);
    return ids[index];
}

/* The file in which a node keeps what it knows of the cluster: as if it had been there before. */
static void write_nodes(const struct redis_cluster *cluster, int myself, const unsigned *ports) {
    static const char *const slots[CLUSTER_PRIMARIES] = {"0-5460", "5461-10922", "10923-16383"};
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "%s/nodes.conf", cluster->nodes[myself].directory);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        fprintf(file, "%s 127.0.0.1:%u@%u %s", redis_cluster_id(i), ports[i], cluster->bus_ports[i], i == myself ? "myself," : "");
        if (i < CLUSTER_PRIMARIES)
            fprintf(file, "master - 0 0 %d connected %s\n", i + 1, slots[i]);
        else
            fprintf(file, "slave %s 0 0 %d connected\n", redis_cluster_id(i - CLUSTER_PRIMARIES), i - CLUSTER_PRIMARIES + 1);
    }
    fprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", CLUSTER_PRIMARIES);
    assert_int_equal(fclose(file), 0);
}

static bool start_cluster(struct redis_cluster *cluster) {
    unsigned ports[2 * CLUSTER_NODES], timeout = cluster->node_timeout_ms ? cluster->node_timeout_ms : LONG_MS;

    redis_free_ports(ports, 2 * CLUSTER_NODES);
    for (int i = 0; i < CLUSTER_NODES; i++)
        cluster->bus_ports[i] = ports[CLUSTER_NODES + i];
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct redis_server *node = &cluster->nodes[i];

        redis_server_prepare(node);
        write_nodes(cluster, i, ports);
        snprintf(node->extra, sizeof node->extra, "%scluster-enabled yes\ncluster-port %u\ncluster-node-timeout %u\n%s",
                 replication, cluster->bus_ports[i], timeout, cluster->extra);
        node->port = ports[i];
        redis_server_start(node);
        if (node->port != ports[i])
            return false;
    }
    return true;
}

static bool cluster_is_well(struct redis_cluster *cluster) {
    char info[2048];

    for (int i = 0; i < CLUSTER_NODES; i++) {
        redis_server_text(&cluster->nodes[i], info, sizeof info, "CLUSTER INFO");
        if (!strstr(info, "cluster_state:ok"))
            return false;
    }
    return true;
}

void redis_cluster_start(struct redis_cluster *cluster) {
    bool started = false;

    for (int attempt = 0; attempt < ATTEMPTS && !started; attempt++) {
        started = start_cluster(cluster);
        for (int i = 0; i < CLUSTER_NODES && !started; i++)
            redis_server_free(&cluster->nodes[i]);
    }
    assert_true(started);
    await(cluster_is_well(cluster), "the cluster is never well");
    for (int i = 0; i < CLUSTER_PRIMARIES; i++)
        redis_await_replicas(&cluster->nodes[i], 1);
    snprintf(cluster->url, sizeof cluster->url, "redis-cluster://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", cluster->nodes[0].port,
             cluster->nodes[1].port, cluster->nodes[2].port);
}

void redis_cluster_free(struct redis_cluster *cluster) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_server_free(&cluster->nodes[i]);
}

void redis_cluster_flush(struct redis_cluster *cluster) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (cluster->nodes[i].pid && is_primary(&cluster->nodes[i]))
            freeReplyObject(redis_server_command(&cluster->nodes[i], "FLUSHALL"));
}

unsigned redis_cluster_slot(struct redis_cluster *cluster, const char *key) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (cluster->nodes[i].pid)
            return (unsigned)redis_server_integer(&cluster->nodes[i], "CLUSTER KEYSLOT %s", key);
    return 0;
}

/* Does the node say that it has the slot, and that the cluster works? */
static bool has_slot(struct redis_server *node, const char *key) {
    redisReply *reply;
    bool has;

    if (!node->pid || !is_primary(node))
        return false;
    reply = redis_server_command(node, "EXISTS %s", key);
    has = reply->type == REDIS_REPLY_INTEGER;
    freeReplyObject(reply);
    return has;
}

static struct redis_server *find_node(struct redis_cluster *cluster, const char *key, int not ) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (i != not &&has_slot(&cluster->nodes[i], key))
            return &cluster->nodes[i];
    return NULL;
}

struct redis_server *redis_cluster_node(struct redis_cluster *cluster, const char *key, int not ) {
    struct redis_server *node;

    await((node = find_node(cluster, key, not )), "nobody has the slot of '%s'", key);
    return node;
}

bool redis_cluster_has_slots(struct redis_server *node) {
    char nodes[8192];
    const char *line = strstr(redis_server_text(node, nodes, sizeof nodes, "CLUSTER NODES"), "myself,master");
    const char *slots = line ? strstr(line, "connected ") : NULL; /* without slots it ends there */

    return slots && slots < strchr(line, '\n');
}

int redis_cluster_index(const struct redis_cluster *cluster, const struct redis_server *server) {
    return (int)(server - cluster->nodes);
}

void redis_cluster_move_begin(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to) {
    freeReplyObject(
        redis_server_command(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, redis_cluster_id(redis_cluster_index(cluster, from))));
    freeReplyObject(
        redis_server_command(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, redis_cluster_id(redis_cluster_index(cluster, to))));
}

void redis_cluster_move_keys(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to) {
    (void)cluster;
    for (int round = 0; round < 100; round++) {
        redisReply *keys = redis_server_command(from, "CLUSTER GETKEYSINSLOT %u 100", slot);
        bool none = keys->elements == 0;

        for (size_t i = 0; i < keys->elements; i++)
            freeReplyObject(redis_server_command(from, "MIGRATE 127.0.0.1 %u %s 0 30000", to->port, keys->element[i]->str));
        freeReplyObject(keys);
        if (none)
            return;
    }
    fail_msg("slot %u is never empty", slot);
}

/* Only when all have heard of the last change does the next one win over it everywhere. */
static bool same_epoch(struct redis_cluster *cluster) {
    unsigned long first = 0;
    char info[2048];

    for (int i = 0; i < CLUSTER_NODES; i++) {
        const char *line;
        unsigned long epoch;

        if (!cluster->nodes[i].pid)
            continue;
        line = strstr(redis_server_text(&cluster->nodes[i], info, sizeof info, "CLUSTER INFO"), "cluster_current_epoch:");
        epoch = line ? strtoul(strchr(line, ':') + 1, NULL, 10) : 0;
        first = first ? first : epoch;
        if (epoch != first)
            return false;
    }
    return true;
}

void redis_cluster_move_end(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to) {
    const char *id = redis_cluster_id(redis_cluster_index(cluster, to));

    freeReplyObject(redis_server_command(to, "CLUSTER SETSLOT %u NODE %s", slot, id));
    freeReplyObject(redis_server_command(from, "CLUSTER SETSLOT %u NODE %s", slot, id));
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (cluster->nodes[i].pid && is_primary(&cluster->nodes[i]))
            freeReplyObject(redis_server_command(&cluster->nodes[i], "CLUSTER SETSLOT %u NODE %s", slot, id));
    await(same_epoch(cluster), "the nodes of the cluster never agree");
}

void redis_cluster_move(struct redis_cluster *cluster, const char *key, struct redis_server *to) {
    struct redis_server *from = redis_cluster_node(cluster, key, -1);
    unsigned slot = redis_cluster_slot(cluster, key);

    redis_cluster_move_begin(cluster, slot, from, to);
    redis_cluster_move_keys(cluster, slot, from, to);
    redis_cluster_move_end(cluster, slot, from, to);
}
