/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_group.h - Redis servers that belong together, and what they say of themselves.
 */
#ifndef PAWL_SERVERS_REDIS_GROUP_H
#define PAWL_SERVERS_REDIS_GROUP_H

#include "redis.h"
#include "servers.h"

/* Ask one command; the answer as it came over the wire. False: none in time. */
bool redis_ask(const struct servers *servers, int index, char *answer, size_t size, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool redis_is_primary(const struct servers *servers, int index);

/* What the topologies share: `lines` are further lines of one server's configuration. */
bool redis_prepare(struct servers *servers, int index, const char *lines);
void redis_run(struct servers *servers, int index);
bool redis_ready(struct servers *servers, int index);

/* ---- Sentinel: servers, then sentinels ------------------------------------------------------------------------------------ */

enum { SENTINEL_SERVERS = 3, SENTINEL_SENTINELS = 3 };

/* Wait for a primary that most sentinels name and that agrees, other than this one (-1: any). -1: there is none. */
int sentinel_await_primary(const struct servers *servers, int other);
/* The primary, once its replicas are in step and the sentinels know of each other; -1: they never are. */
int sentinel_await_whole(const struct servers *servers);

/* ---- Cluster: primaries, then a replica of each --------------------------------------------------------------------------- */

enum { CLUSTER_PRIMARIES = 3 };

/* Wait until every node says that the cluster serves, in the same epoch, and the replicas are linked. False: it says what is not. */
bool cluster_await_whole(struct servers *servers);

#endif
