/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redlock.c - `--start redlock`: five Redis servers that know nothing of each other.
 */
#include "service_redis.h"

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    (void)target;
    return fault == FAULT_FLUSHALL && redis_flush(servers, 0);
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    for (int i = 0; i < servers->count; i++)
        redis_residue_of(servers, i, found, data);
}

const struct service redlock_service = {
    .word = "redlock",
    .engine = "redlock",
    .topology = &redlock_topology,
    .lines = REDIS_LINES,
    .mutex_only = true,
    .one_forgets = true,
    .replicated = true, /* as to clocks: one that is ahead takes the floor from the tokens of the others */
    .forget = redis_forget,
    .begin = begin,
    .residue = residue,
    .litter = redis_litter,
};
