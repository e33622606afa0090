/* SPDX-License-Identifier: Apache-2.0
 *
 * world_redis_topology.c - the part of tests/support/redis_topology.h that starts and stops, for tests that live in the simulated
 * world: one group of simulated servers of each kind at a time.
 */
#include "../../tests/support/redis_topology.h"

#include "../../tests/support/test.h"
#include "../world/world.h"
#include "world_redis.h"

enum { LONG_MS = 60000, FAILOVER_MS = 5000 };

static struct redis_group *watchers, *nodes;

/* A primary that has never written has nothing that a replica could acknowledge; a real one pings. So it writes some key that it has the
 * slot of. */
static void begin_history(struct redis *primary) {
    for (int i = 0; i < REDIS_SLOT_COUNT; i++)
        if (redis_do(primary, world_now(), NULL, 0, "SET begin-%d 1", i)) {
            redis_do(primary, world_now(), NULL, 0, "DEL begin-%d", i);
            return;
        }
}

/* ---- Sentinel --------------------------------------------------------------------------------------------------------------- */

static struct redis_server *watched_part(struct redis_watched *watched, unsigned i) {
    return i < WATCHED ? &watched->servers[i] : &watched->sentinels[i - WATCHED];
}

void redis_watched_launch(struct redis_watched *watched) {
    struct redis_group_settings settings = {
        .kind = REDIS_WATCHED,
        .server = world_redis_settings(WATCHED + SENTINELS),
        .replicas = WATCHED - 1,
        .sentinels = SENTINELS,
        .down_after_ns = (watched->down_after_ms ? watched->down_after_ms : LONG_MS) * WORLD_MS,
        .failover_timeout_ns = FAILOVER_MS * WORLD_MS,
    };

    assert_null(watchers);
    watchers = redis_group_new(&settings, world_now());
    for (unsigned i = 0; i < WATCHED + SENTINELS; i++)
        world_redis_place(watched_part(watched, i), redis_group_server(watchers, i));
    begin_history(redis_group_server(watchers, 0));
    for (unsigned i = 0; i < WATCHED + SENTINELS; i++)
        assert_true(redis_server_await(watched_part(watched, i)));
}

void redis_watched_free(struct redis_watched *watched) {
    for (unsigned i = 0; i < WATCHED + SENTINELS; i++)
        redis_server_free(watched_part(watched, i));
    if (watchers != NULL)
        redis_group_free(watchers);
    watchers = NULL;
}

bool redis_watched_part(bool apart) {
    redis_part(redis_group_server(watchers, 0), world_now(), apart);
    return true;
}

void redis_watched_relaunch(struct redis_watched *watched) {
    redis_watched_free(watched);
    redis_watched_launch(watched);
}

/* ---- Cluster ---------------------------------------------------------------------------------------------------------------- */

void redis_cluster_launch(struct redis_cluster *cluster) {
    struct redis_group_settings settings = {
        .kind = REDIS_CLUSTERED,
        .server = world_redis_settings(CLUSTER_NODES),
        .primaries = CLUSTER_PRIMARIES,
        .replicas = 1,
        .down_after_ns = (cluster->node_timeout_ms ? cluster->node_timeout_ms : LONG_MS) * WORLD_MS,
    };

    assert_null(nodes);
    nodes = redis_group_new(&settings, world_now());
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        world_redis_place(&cluster->nodes[i], redis_group_server(nodes, i));
    for (unsigned i = 0; i < CLUSTER_PRIMARIES; i++)
        begin_history(redis_group_server(nodes, i));
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        assert_true(redis_server_await(&cluster->nodes[i]));
}

void redis_cluster_free(struct redis_cluster *cluster) {
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        redis_server_free(&cluster->nodes[i]);
    if (nodes != NULL)
        redis_group_free(nodes);
    nodes = NULL;
}
