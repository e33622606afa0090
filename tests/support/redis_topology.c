/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_topology.c - see redis_topology.h: the part that only talks to servers, which may be simulated. Who starts and stops them is
 * redis_topology_start.c, or in the simulated world sim/tests/world_redis_topology.c.
 */
#include "redis_topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test.h"

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

/* ---- Sentinel --------------------------------------------------------------------------------------------------------------- */

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

static void await_watched(struct redis_watched *watched) {
    redis_await_replicas(&watched->servers[0], WATCHED - 1);
    await(sentinels_see(watched, watched->servers[0].port), "the sentinels do not agree");
    snprintf(watched->url, sizeof watched->url, "redis-sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/mymaster",
             watched->sentinels[0].port, watched->sentinels[1].port, watched->sentinels[2].port);
}

void redis_watched_start(struct redis_watched *watched) {
    redis_watched_launch(watched);
    await_watched(watched);
}

void redis_watched_reset(struct redis_watched *watched) {
    redis_watched_relaunch(watched);
    await_watched(watched);
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

static bool cluster_is_well(struct redis_cluster *cluster) {
    char info[2048];

    for (int i = 0; i < CLUSTER_NODES; i++) {
        redis_server_text(&cluster->nodes[i], info, sizeof info, "CLUSTER INFO");
        if (!strstr(info, "cluster_state:ok"))
            return false;
    }
    return true;
}

static char ids[CLUSTER_NODES][41];

const char *redis_cluster_id(int index) {
    return ids[index];
}

void redis_cluster_start(struct redis_cluster *cluster) {
    redis_cluster_launch(cluster);
    await(cluster_is_well(cluster), "the cluster is never well");
    for (int i = 0; i < CLUSTER_PRIMARIES; i++)
        redis_await_replicas(&cluster->nodes[i], 1);
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_server_text(&cluster->nodes[i], ids[i], sizeof ids[i], "CLUSTER MYID");
    snprintf(cluster->url, sizeof cluster->url, "redis-cluster://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", cluster->nodes[0].port,
             cluster->nodes[1].port, cluster->nodes[2].port);
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
