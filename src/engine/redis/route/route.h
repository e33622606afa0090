/* SPDX-License-Identifier: Apache-2.0
 *
 * route.h - which server has a lock: the only one, the one that sentinels name, or the node of a cluster that has its slot.
 */
#ifndef PAWL_REDIS_ROUTE_H
#define PAWL_REDIS_ROUTE_H

#include "engine/redis/wire/wire.h"

enum { REDIS_SLOTS = 16384 };

/* The engine, with what is known of where locks are. */
struct route {
    struct redis redis; /* the first: route_of() */

    /* sentinel.c */
    struct addresses **sentinels; /* one for each place of the URL */
    size_t sentinel_at;           /* the one that is asked */

    /* cluster.c */
    struct server **slots; /* who has each of them, or NULL */
    bool mapped;
    bool moved, remapped; /* slots are elsewhere: claims are to follow; the whole map is new */
    unsigned uncovered;
    int64_t refresh_at, refreshed_at;
    int map_turn, map_turn_known;  /* counts what was asked for; of the last that was answered */
    struct server *refresh_server; /* who was asked last */
};

static inline struct route *route_of(struct redis *redis) {
    return (struct route *)redis;
}

/* Where the lock with this key is. */
struct server *pawl__server_for(const struct redis *redis, const char *lock);

/* How long open() waits for the names of its hosts: as long as for a connection. */
static inline int64_t pawl__redis_names_until(const struct redis_options *options) {
    return pawl__boottime() + (options->connect_ns < options->patience_ns ? options->connect_ns : options->patience_ns);
}

/* sentinel.c: the mutex is held, but at open. */
int pawl__sentinel_setup(struct server *server, struct pawl_error *reterr);
void pawl__sentinel_free(struct redis *redis);
/* The connection to a sentinel is gone. */
void pawl__sentinel_changed(struct server *server);
/* What a sentinel answered; one that is of no use is dropped. */
void pawl__sentinel_answer(struct server *server, const redisReply *reply);
void pawl__sentinel_push(struct server *server, const redisReply *reply);
void pawl__sentinel_tick(struct server *server);
void pawl__sentinel_check_role(struct server *server, const redisReply *reply);

/* judge.c: is the server what the URL says? If not its connection is dropped. */
void pawl__route_judge(struct server *server, enum greeting step, const redisReply *reply);

/* cluster.c: the mutex is held, but at open. */
int pawl__cluster_setup(struct redis *redis, struct pawl_error *reterr);
/* Have all of the nodes that are known failed? Then why the last one did; else NULL. */
const struct pawl_error *pawl__cluster_failed(struct redis *redis);
/* Claims have followed a new map: leave what is of no use any more. */
void pawl__cluster_settle(struct redis *redis);
/* The slot of a key; and of the lock of this name. */
unsigned pawl__cluster_slot(const char *key);
unsigned pawl__cluster_slot_of(const struct redis *redis, const char *name);
/* Have it connected. */
void pawl__server_want(struct server *server);
/* Ask for the map again, soon. */
void pawl__cluster_refresh(struct redis *redis);
/* A node is connected. */
void pawl__cluster_reached(struct redis *redis);
void pawl__cluster_tick(struct redis *redis, int64_t now);
/* What a node says of a slot: it has moved (false: that makes no sense); or this is to be asked elsewhere, for once (NULL: the same). */
bool pawl__cluster_moved(struct server *from, const redisReply *reply);
struct server *pawl__cluster_asked(struct server *from, const redisReply *reply);

#endif
