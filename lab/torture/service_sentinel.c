/* SPDX-License-Identifier: Apache-2.0
 *
 * service_sentinel.c - `--start sentinel` and `--start redis-replicas`: a failover, and a primary that is cut off from the others.
 */
#include "service_redis.h"

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static int struck = -1;
static bool promotes; /* the partition lasts until another is primary in its place */

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    int primary = sentinel_await_whole(servers);

    struck = -1;
    if (primary < 0)
        return 0;
    if (fault == FAULT_FLUSHALL)
        return redis_flush(servers, primary);
    struck = primary;
    promotes = target / 2 % 4 == 0;
    redis_depose(servers, fault, struck);
    return 0;
}

/* A new primary, or the fault was none. The old one comes back as a replica, by an operator's word: the sentinels would let some
 * seconds go by. */
static unsigned heal_failover(struct servers *servers) {
    int successor = sentinel_await_primary(servers, struck);
    char answer[256];

    server_spawn(servers, struck);
    if (!server_await(servers, struck) || successor < 0)
        return 0;
    redis_ask(servers, struck, answer, sizeof answer, "REPLICAOF %s %u", servers_host(servers), server_port(servers, successor));
    return 1;
}

/* If another was promoted there are two primaries, and that ends only when the sentinels demote the old one. */
static unsigned heal_partition(struct servers *servers) {
    bool good = !promotes || sentinel_await_primary(servers, struck) >= 0;
    unsigned hits = redis_join(servers);

    return good && sentinel_await_whole(servers) >= 0 ? hits : 0;
}

static unsigned heal(struct servers *servers, enum fault fault, uint64_t target) {
    (void)target;
    if (struck < 0)
        return 0;
    return fault == FAULT_FAILOVER ? heal_failover(servers) : fault == FAULT_PARTITION_SERVERS ? heal_partition(servers) : 0;
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    int primary = sentinel_await_whole(servers);

    if (primary < 0)
        found("in the end the servers are not whole", data);
    else
        redis_residue_of(servers, primary, found, data);
}

#define WATCHED_SERVICE                                                                                                            \
    .lines = REDIS_LINES, .given_up_leases = 3, .replicated = true, .begin = begin, .heal = heal, .residue = residue,              \
    .litter = redis_litter

const struct service sentinel_service = {
    .word = "sentinel",
    .engine = "sentinel",
    .topology = &sentinel_topology,
    WATCHED_SERVICE,
};

const struct service redis_replicas_service = {
    .word = "redis-replicas",
    .engine = "redis-replicas",
    .topology = &redis_replicas_topology,
    WATCHED_SERVICE,
};
