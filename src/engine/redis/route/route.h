/* SPDX-License-Identifier: Apache-2.0
 *
 * route.h - which server has a lock: the only one, the one that sentinels name, or the node of a cluster that has its slot.
 *
 * A lock is in a slot, and a slot at a server. Where there is one server it has all slots. The layer above asks where a lock is, hands on
 * what it hears, and follows when that has moved: it never asks which of the three it is.
 */
#ifndef PAWL_REDIS_ROUTE_H
#define PAWL_REDIS_ROUTE_H

#include "engine/redis/wire/wire.h"

enum { REDIS_SLOTS = 16384 };

/* What the three do, each in its own way; the mutex is held, but at open. */
struct route_kind {
    struct wire_traits traits;
    /* Make the servers and look their names up. */
    int (*open)(struct redis *redis, struct pawl_error *reterr);
    /* May open() end? 1: locks can be asked for. 0: not yet, and never so when it is `late`. Negative: why not. */
    int (*ready)(struct redis *redis, bool late, struct pawl_error *reterr);
    /* What a connection says, other than answers to requests. True: it was meant for the route alone. */
    bool (*heard)(struct redis *redis, const struct wire_event *event);
    void (*tick)(struct redis *redis, int64_t now); /* or NULL */
};
extern const struct route_kind pawl__route_single, pawl__route_sentinel, pawl__route_cluster;

/* A server, as the route sees it. */
struct node {
    struct server server; /* the first: node_of() */
    bool wanted;          /* it is to be connected */
    unsigned slot_count;
};

/* sentinel.c */
struct sentinel_route {
    struct link link;
    struct addresses **list;   /* one for each host of the URL */
    size_t at;                 /* the one that is asked */
    bool found;                /* they said where the server is, and no connection was lost since */
    bool asking;               /* a round is under way: */
    unsigned asked, unknowing; /* so many were asked; did not know the name */
    bool hinted;               /* one says that the primary is another now */
};

/* cluster.c */
struct cluster_route {
    struct server **slots; /* who has each of them, or NULL; NULL itself where one server has all */
    bool mapped;
    bool moved, remapped; /* slots are elsewhere: claims are to follow; the whole map is new */
    unsigned uncovered;
    int64_t refreshed_at;
    int map_turn, map_turn_known;  /* counts what was asked for; of the last that was answered */
    struct server *refresh_server; /* who was asked last */
};

/* The engine, with what is known of where locks are. */
struct route {
    struct redis redis; /* the first: route_of() */
    const struct route_kind *kind;
    int64_t due; /* when tick() has something to do */
    struct sentinel_route sentinel;
    struct cluster_route cluster;
};

static inline struct route *route_of(struct redis *redis) {
    return (struct route *)redis;
}

static inline struct node *node_of(struct server *server) {
    return (struct node *)server;
}

/* open.c */
int pawl__route_open(struct redis *redis, struct pawl_error *reterr);
void pawl__route_free(struct redis *redis);

/* route.c: the mutex is held, but at open. */

/* How long open() waits for names, and for connections. */
int64_t pawl__route_names_until(const struct redis *redis);
int64_t pawl__route_patience(const struct redis *redis);
/* The slot of a key; of the lock of this name; who has a slot; and who has the lock. */
unsigned pawl__route_key_slot(const char *key);
unsigned pawl__route_slot(const struct redis *redis, const char *name);
struct server *pawl__route_at(const struct redis *redis, unsigned slot);
struct server *pawl__route_server(const struct redis *redis, const char *name);
/* The next server that has locks, after `server` or from the first; NULL: there are no more. */
struct server *pawl__route_next(const struct redis *redis, const struct server *server);
/* Have it connected. */
void pawl__route_want(struct server *server);
/* The one that has all locks; NULL: there may be others. */
struct server *pawl__route_only(const struct redis *redis);
/* A node of a cluster is connected when it is first wanted. One that is not up: may it well be in a moment? */
bool pawl__route_hopeful(struct server *server);
/* ... Or was it wanted, and could not be connected? */
bool pawl__route_hopeless(struct server *server);

static inline int pawl__route_ready(struct redis *redis, bool late, struct pawl_error *reterr) {
    return route_of(redis)->kind->ready(redis, late, reterr);
}

static inline bool pawl__route_heard(struct redis *redis, const struct wire_event *event) {
    return route_of(redis)->kind->heard(redis, event);
}

static inline void pawl__route_tick(struct redis *redis, int64_t now) {
    if (route_of(redis)->kind->tick)
        route_of(redis)->kind->tick(redis, now);
}

/* Is pawl__route_at() another for some slots, since this was last asked? Then claims are to follow them. */
static inline bool pawl__route_has_moved(struct redis *redis) {
    struct cluster_route *cluster = &route_of(redis)->cluster;
    bool moved = cluster->moved;

    cluster->moved = false;
    return moved;
}

/* single.c: is a server that is no node of a cluster what the URL says? What it says in its greeting tells. */
bool pawl__single_heard(struct redis *redis, const struct wire_event *event);
int pawl__single_ready(struct redis *redis, bool late, struct pawl_error *reterr);
/* A server that has all locks. */
struct server *pawl__single_new(struct redis *redis, struct pawl_error *reterr);

/* sentinel.c */
void pawl__sentinel_free(struct redis *redis);

/* cluster.c: where nothing has slots these do nothing. */
/* Claims have followed: leave what is of no use any more. */
void pawl__cluster_settle(struct redis *redis);
/* Ask for the map again, soon. */
void pawl__cluster_refresh(struct redis *redis);
/* Take the answer MOVED; false: it is of no known form. *why, which may be NULL, is then what is told where nothing comes after it: not
 * that the URL is wrong, as where there is no cluster. Take the answer ASK: the node for this one request; NULL: of no known form. */
bool pawl__cluster_moved(struct server *from, const redisReply *reply, struct pawl_error *why);
struct server *pawl__cluster_asked(struct server *from, const redisReply *reply);
/* After this error: who is to be asked again, by a caller without the mutex; NULL: that would not help. Waits for a slot that moves. */
struct server *pawl__cluster_again(struct server *from, const redisReply *reply, enum reply_class class, struct pawl_error *why);

#endif
