/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c - which of the three it is: the one place that asks.
 */
#include <stdlib.h>

#include "engine/redis/route/route.h"

static const struct route_kind *const kinds[] = {
    [TOPOLOGY_ONE] = &pawl__route_single,
    [TOPOLOGY_SENTINEL] = &pawl__route_sentinel,
    [TOPOLOGY_CLUSTER] = &pawl__route_cluster,
};

int pawl__route_open(struct redis *redis, struct pawl_error *reterr) {
    struct route *route = route_of(redis);

    route->kind = kinds[redis->options.topology];
    route->due = PAWL__NEVER;
    redis->traits = route->kind->traits;
    return route->kind->open(redis, reterr);
}

void pawl__route_free(struct redis *redis) {
    struct route *route = route_of(redis);

    pawl__sentinel_free(redis);
    free(route->cluster.slots);
    route->cluster.slots = NULL;
}
