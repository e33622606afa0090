/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - see redis_group.h: three primaries with a replica each, or without (`cluster-bare`).
 *
 * With proxies a node announces the ports of two of them, one for clients and replicas, one for the bus, so that a client
 * that learns of a node from the cluster connects to a proxy.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cli/common/cli.h"
#include "proxy.h"
#include "redis_group.h"

enum { PRIMARIES = CLUSTER_PRIMARIES, PATIENCE_MS = 60000, NODE_TIMEOUT_MS = 60000 };

static unsigned bus_port(const struct server *server) {
    return server->bus != NULL ? proxy_port(server->bus) : server->peers[0];
}

static bool prepare_node(struct servers *servers, const struct redis_nodes *nodes, int index) {
    const struct server *server = &servers->list[index];
    char lines[512];

    snprintf(lines, sizeof lines,
             "cluster-enabled yes\ncluster-port %u\ncluster-announce-ip %s\ncluster-announce-port %u\n"
             "cluster-announce-bus-port %u\ncluster-node-timeout %" PRId64 "\ncluster-allow-replica-migration no\n"
             "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n",
             server->peers[0], nodes->host, nodes->ports[index], nodes->buses[index],
             servers->down_after_ms > 0 ? servers->down_after_ms : NODE_TIMEOUT_MS);
    return redis_prepare(servers, index, lines) && redis_write_nodes(server->directory, nodes, index);
}

static bool prepare(struct servers *servers) {
    struct redis_nodes nodes = {.count = servers->count, .alone = servers->count == PRIMARIES, .host = servers_host(servers)};
    bool good = true;

    for (int i = 0; good && i < servers->count; i++) {
        struct server *server = &servers->list[i];

        good = !servers->proxied || (server->bus = server_proxy(servers, server->peers[0])) != NULL;
        if (good) {
            nodes.ports[i] = server_port(servers, i);
            nodes.buses[i] = bus_port(server);
        }
    }
    for (int i = 0; good && i < servers->count; i++)
        good = prepare_node(servers, &nodes, i);
    return good;
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redis-cluster://");

    servers_places(servers, 0, servers->count, proxied, ret + used, size - used);
}

/* ---- Who is what ---------------------------------------------------------------------------------------------------------- */

/* What a node says of itself and of the cluster. */
struct node {
    bool answers, serves, is_primary, is_linked;
    long long epoch;
};

/* A number that CLUSTER INFO tells; -1: it does not. */
static long long epoch_of(const char *info) {
    const char *place = strstr(info, "cluster_current_epoch:");

    return place != NULL ? strtoll(strchr(place, ':') + 1, NULL, 10) : -1;
}

static struct node ask_node(const struct servers *servers, int index) {
    struct node node = {.epoch = -1};
    char answer[4096];

    if (!redis_ask(servers, index, answer, sizeof answer, "CLUSTER INFO"))
        return node;
    node.serves = strstr(answer, "cluster_state:ok") != NULL;
    node.epoch = epoch_of(answer);
    node.answers = redis_ask(servers, index, answer, sizeof answer, "INFO replication");
    node.is_primary = node.answers && strstr(answer, "role:master") != NULL;
    node.is_linked = node.answers && strstr(answer, "master_link_status:up") != NULL;
    return node;
}

/* Does every node say that the cluster serves, in the same epoch: has the last change been heard of everywhere? And are there three
 * primaries, and are the replicas' links up? */
static bool is_whole(const struct servers *servers) {
    long long epoch = -1;
    int primaries = 0;

    for (int i = 0; i < servers->count; i++) {
        struct node node = ask_node(servers, i);

        if (!node.answers || !node.serves || !(node.is_primary || node.is_linked) || (epoch >= 0 && node.epoch != epoch))
            return false;
        epoch = node.epoch;
        primaries += node.is_primary;
    }
    return primaries == PRIMARIES;
}

/* Print what each node says, to help find the cause. */
static void say_why(const struct servers *servers) {
    char text[512] = "";
    size_t used = 0;

    for (int i = 0; i < servers->count; i++) {
        struct node node = ask_node(servers, i);

        used += (size_t)snprintf(text + used, sizeof text - used, "%s node %d ", i > 0 ? ";" : "", i);
        if (servers->list[i].pid == 0 || !node.answers)
            used += (size_t)snprintf(text + used, sizeof text - used, servers->list[i].pid == 0 ? "is down" : "does not answer");
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "is a %s in epoch %lld%s",
                                     node.is_primary  ? "primary"
                                     : node.is_linked ? "replica"
                                                      : "replica without a link",
                                     node.epoch, node.serves ? "" : " and does not serve");
    }
    say("the cluster is not whole after %d s:%s", PATIENCE_MS / 1000, text);
}

bool cluster_await_whole(struct servers *servers) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    bool whole;

    while (!(whole = is_whole(servers)) && poll_timeout(deadline) > 0)
        poll(NULL, 0, 50);
    if (!whole) {
        say_why(servers);
        snprintf(servers->why, sizeof servers->why, "the nodes of the cluster do not find each other");
    }
    return whole;
}

const struct topology cluster_topology = {
    .word = "cluster",
    .count = 2 * PRIMARIES,
    .missing = redis_missing,
    .prepare = prepare,
    .become = redis_run,
    .ready = redis_ready,
    .join = cluster_await_whole,
    .url = url,
};

const struct topology cluster_bare_topology = {
    .word = "cluster-bare",
    .count = PRIMARIES,
    .missing = redis_missing,
    .prepare = prepare,
    .become = redis_run,
    .ready = redis_ready,
    .join = cluster_await_whole,
    .url = url,
};
