/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_cluster_test.h - what the tests of clusters share: one of three primaries with a replica each, and clients.
 */
#ifndef PAWL_REDIS_CLUSTER_TEST_H
#define PAWL_REDIS_CLUSTER_TEST_H

#include "redis_test.h"
#include "redis_topology.h"

static struct redis_cluster cluster = {.node_timeout_ms = 4000};

#define LEASE_MS 20000

static inline int set_up(void **state) {
    (void)state;
    if (!cluster.nodes[0].pid)
        redis_cluster_start(&cluster);
    redis_cluster_flush(&cluster);
    return 0;
}

static inline int stop_servers(void **state) {
    (void)state;
    redis_cluster_free(&cluster);
    return 0;
}

static inline struct pawl *open_url(const char *options, int64_t lease_ms) {
    return open_client(lease_ms, "%s%s", cluster.url, options);
}

/* Another primary than this one. */
static inline struct redis_server *another(const struct redis_server *node) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (&cluster.nodes[i] != node && cluster.nodes[i].pid && redis_cluster_has_slots(&cluster.nodes[i]))
            return &cluster.nodes[i];
    fail_msg("there is no other primary");
    return NULL;
}

/* For another thread. */
static inline void *release_it(void *lock) {
    return (void *)(intptr_t)pawl_release(lock, NULL);
}

#endif
