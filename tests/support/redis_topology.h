/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_topology.h - several Redis servers that belong together: a primary with two replicas and three sentinels; a cluster of three
 * primaries with a replica each. All of it knows all of it from the start, so that nothing has to be discovered first.
 */
#ifndef PAWL_REDIS_TOPOLOGY_H
#define PAWL_REDIS_TOPOLOGY_H

#include "redis_server.h"

/* ---- Sentinel --------------------------------------------------------------------------------------------------------------- */

enum { WATCHED = 3, SENTINELS = 3 };

struct redis_watched {
    struct redis_server servers[WATCHED]; /* the first is the primary at the start */
    struct redis_server sentinels[SENTINELS];
    unsigned
        down_after_ms; /* set before the start, or 0: how long a silent primary is waited for. Long enough that nothing fails over */
    char extra[512];   /* set before the start: further lines of every server's configuration, */
    char sentinel_extra[512]; /* ... and of every sentinel's */
    char url[200];
};

/* For those below: start all of it, and wait no longer than until each answers; start it as redis_watched_reset() wants it. */
void redis_watched_launch(struct redis_watched *watched);
void redis_watched_relaunch(struct redis_watched *watched);
/* Start all of it, and wait until both replicas are in step and the sentinels agree. */
void redis_watched_start(struct redis_watched *watched);
void redis_watched_free(struct redis_watched *watched);
/* Cut the first server off from the others and from the sentinels, not from clients; or join it to them. False: real ones can't be. */
bool redis_watched_part(bool apart);
/* Start again what was stopped, with the first server as the primary of the others, and nothing in it. */
void redis_watched_reset(struct redis_watched *watched);
/* The server that is a primary and that the sentinels call so: waits until there is one. Not the one whose index is `not`. */
struct redis_server *redis_watched_primary(struct redis_watched *watched, int not );
int redis_watched_index(const struct redis_watched *watched, const struct redis_server *server);
/* Wait until a server has so many replicas that are in step. */
void redis_await_replicas(struct redis_server *server, unsigned count);

/* ---- Cluster ---------------------------------------------------------------------------------------------------------------- */

enum { CLUSTER_PRIMARIES = 3, CLUSTER_NODES = 6, CLUSTER_SLOTS = 16384 };

struct redis_cluster {
    struct redis_server nodes[CLUSTER_NODES]; /* the first three are the primaries at the start; i + 3 is the replica of i */
    unsigned bus_ports[CLUSTER_NODES];
    unsigned node_timeout_ms; /* set before the start, or 0: long enough that nothing fails over */
    char extra[512];          /* set before the start: further lines of every node's configuration */
    char url[200];
};

/* For the next one: no longer than until each answers. */
void redis_cluster_launch(struct redis_cluster *cluster);
/* Start all of it, and wait until every node says that the cluster is well. */
void redis_cluster_start(struct redis_cluster *cluster);
void redis_cluster_free(struct redis_cluster *cluster);
/* Remove all keys. */
void redis_cluster_flush(struct redis_cluster *cluster);
unsigned redis_cluster_slot(struct redis_cluster *cluster, const char *key);
/* The primary that has the slot of a key, by its own words: waits until there is one. Not the node whose index is `not`. */
struct redis_server *redis_cluster_node(struct redis_cluster *cluster, const char *key, int not );
/* Is it a primary that has slots? */
bool redis_cluster_has_slots(struct redis_server *node);
int redis_cluster_index(const struct redis_cluster *cluster, const struct redis_server *server);
const char *redis_cluster_id(int index);
/* Move the slot of a key, with all that is in it, to another primary. */
void redis_cluster_move(struct redis_cluster *cluster, const char *key, struct redis_server *to);
/* The same in steps: the slot is being moved; so is what is in it; it has moved. */
void redis_cluster_move_begin(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to);
void redis_cluster_move_keys(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to);
void redis_cluster_move_end(struct redis_cluster *cluster, unsigned slot, struct redis_server *from, struct redis_server *to);

#endif
