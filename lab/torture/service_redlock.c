/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redlock.c - `--start redlock`: five Redis servers that know nothing of each other.
 */
#include <stdio.h>

#include "files.h"
#include "../servers/proxy.h"
#include "redis_rig.h"

enum { VOTERS = 5 };

static bool prepare(struct servers *servers) {
    bool good = !redis_missing(servers) && redis_ports(servers);

    for (int i = 0; good && i < servers->count; i++)
        good = redis_write_config(servers, i, "");
    return good;
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redlock://");

    servers_places(servers, 0, VOTERS, proxied, ret + used, size - used);
}

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
    .count = VOTERS,
    .tcp = true,
    .mutex_only = true,
    .one_forgets = true,
    .replicated = true, /* as to clocks: one that is ahead takes the floor from the tokens of the others */
    .prepare = prepare,
    .run = redis_run,
    .ready = redis_ready,
    .forget = redis_forget,
    .url = url,
    .begin = begin,
    .residue = residue,
    .litter = redis_litter,
};
