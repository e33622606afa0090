/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - one Redis server, in a directory: what it is made of.
 */
#ifndef PAWL_SERVERS_REDIS_H
#define PAWL_SERVERS_REDIS_H

#include <stdbool.h>

enum { REDIS_NODES_MAX = 8 };

/* NULL: redis-server is here; else what to install. */
const char *redis_missing(void);
/* Write redis.conf, `lines` at its end. */
bool redis_configure(const char *directory, const char *address, unsigned port, const char *lines);
/* In a child: become the server of this directory. */
void redis_become(const char *directory, bool sentinel);
/* Write what a node of a cluster knows had it been there before: the first half are primaries, which have all slots in equal parts, the
 * others their replicas; `alone`: all are primaries. The cluster is written down, not made. */
struct redis_nodes {
    int count;
    bool alone;
    const char *host;
    unsigned ports[REDIS_NODES_MAX], buses[REDIS_NODES_MAX];
};
bool redis_write_nodes(const char *directory, const struct redis_nodes *nodes, int myself);
/* How a node is called there. */
const char *redis_node_id(int index);

#endif
