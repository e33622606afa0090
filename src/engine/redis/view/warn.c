/* SPDX-License-Identifier: Apache-2.0
 *
 * warn.c - what about a server makes locks vanish: said once, at open, through the log.
 *
 * None of this stops anybody: a lock that may vanish is still a lock, with tokens that tell. What a user may not read (INFO and CONFIG are
 * rights of their own) is not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/view/view.h"

static void warn_once(struct server *server, const char *policy) {
    const struct redis *redis = server->redis;

    if (server->facts.warned)
        return;
    server->facts.warned = true;
    if (policy && strcmp(policy, "noeviction") != 0)
        pawl__warn(
            &redis->base,
            "%.200s may evict keys when its memory is full (maxmemory-policy is %s), and locks with them: set maxmemory-policy "
            "noeviction",
            server->url, policy);
    if (server->facts.known && !server->facts.aof)
        pawl__warn(&redis->base, "%.200s writes no append-only file: a restart forgets locks that are held; set appendonly yes",
                   server->url);
    if (server->facts.replicas && !server->facts.min_replicas && !redis->options.replicas)
        pawl__warn(&redis->base,
                   "%.200s has replicas but does not wait for them: a failover may forget locks that are held; write ?replicas=1 "
                   "into the URL",
                   server->url);
}

void pawl__server_warn(struct server *server) {
    warn_once(server, server->facts.policy[0] ? server->facts.policy : NULL);
}
