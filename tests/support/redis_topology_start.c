/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_topology_start.c - see redis_topology.h: how real servers that belong together are configured, started and stopped.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lab/servers/redis.h"
#include "redis_topology.h"
#include "test.h"

enum { ATTEMPTS = 3, LONG_MS = 60000 };

static const char *const replication = "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n";

static void add(char *lines, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(char *lines, size_t size, const char *format, ...) {
    size_t used = strlen(lines);
    va_list args;

    va_start(args, format);
    assert_true((size_t)vsnprintf(lines + used, size - used, format, args) < size - used);
    va_end(args);
}

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

void redis_watched_launch(struct redis_watched *watched) {
    bool started = false;

    signal(SIGPIPE, SIG_IGN); /* hiredis, whose connection a sentinel closes, does not keep from it */
    for (int attempt = 0; attempt < ATTEMPTS && !started; attempt++) {
        started = start_watched(watched);
        for (int i = 0; i < WATCHED + SENTINELS && !started; i++)
            redis_server_free(watched_part(watched, i));
    }
    assert_true(started);
}

bool redis_watched_part(bool apart) {
    (void)apart;
    return false;
}

void redis_watched_relaunch(struct redis_watched *watched) {
    for (int i = 0; i < SENTINELS; i++)
        redis_server_stop(&watched->sentinels[i], SIGKILL);
    for (int i = 0; i < WATCHED; i++) {
        redis_server_stop(&watched->servers[i], SIGKILL);
        redis_server_start(&watched->servers[i]);
    }
    redis_await_replicas(&watched->servers[0], WATCHED - 1);
    for (int i = 0; i < SENTINELS; i++)
        redis_server_start(&watched->sentinels[i]);
}

void redis_watched_free(struct redis_watched *watched) {
    for (int i = WATCHED + SENTINELS; i-- > 0;)
        redis_server_free(watched_part(watched, i));
}

/* ---- Cluster ---------------------------------------------------------------------------------------------------------------- */

static bool start_cluster(struct redis_cluster *cluster) {
    unsigned ports[2 * CLUSTER_NODES], timeout = cluster->node_timeout_ms ? cluster->node_timeout_ms : LONG_MS;
    struct redis_nodes nodes = {.count = CLUSTER_NODES, .host = "127.0.0.1"};

    redis_free_ports(ports, 2 * CLUSTER_NODES);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        nodes.ports[i] = ports[i];
        nodes.buses[i] = cluster->bus_ports[i] = ports[CLUSTER_NODES + i];
    }
    for (int i = 0; i < CLUSTER_NODES; i++) {
        struct redis_server *node = &cluster->nodes[i];

        redis_server_prepare(node);
        assert_true(redis_write_nodes(node->directory, &nodes, i));
        snprintf(node->extra, sizeof node->extra, "%scluster-enabled yes\ncluster-port %u\ncluster-node-timeout %u\n%s",
                 replication, cluster->bus_ports[i], timeout, cluster->extra);
        node->port = ports[i];
        redis_server_start(node);
        if (node->port != ports[i])
            return false;
    }
    return true;
}

void redis_cluster_launch(struct redis_cluster *cluster) {
    bool started = false;

    for (int attempt = 0; attempt < ATTEMPTS && !started; attempt++) {
        started = start_cluster(cluster);
        for (int i = 0; i < CLUSTER_NODES && !started; i++)
            redis_server_free(&cluster->nodes[i]);
    }
    assert_true(started);
}

void redis_cluster_free(struct redis_cluster *cluster) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_server_free(&cluster->nodes[i]);
}
