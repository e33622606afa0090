/* SPDX-License-Identifier: Apache-2.0
 *
 * services.h - what the locks of a simulated run stand on: the services of `pawl torture --start`, by the same words and with the same
 * meaning of each fault, but made of models (sim/servers).
 */
#ifndef PAWL_SIM_SERVICES_H
#define PAWL_SIM_SERVICES_H

#include "strokes.h"
#include "torture/oracle.h"
#include "world/world.h"

struct plan;
struct redis;
struct redis_group;
struct zookeeper;

enum { SITES_MAX = 8, SERVICE_PORT = 7000 /* of the first; the others follow */ };

struct sim_servers {
    const struct sim_service *service;
    const struct plan *plan;
    struct site *sites[SITES_MAX];
    int count;
    struct redis *redis[SITES_MAX]; /* of Redis: the servers, then the sentinels */
    struct redis_group *group;      /* NULL: they know nothing of each other */
    struct zookeeper *zk;
    /* Of the fault that goes on in the lane of the servers: */
    int struck;    /* -1: nobody */
    bool promotes; /* it lasts until another is primary in its place */
    unsigned slot, moved;
};

/* Called with each thing that was left behind. */
typedef void residue_fn(const char *what, void *data);

/* A stroke that can't begin, or can't be healed, yet: ask again. */
enum { NOT_YET = -1 };

struct sim_service {
    const char *word;   /* --service WORD */
    const char *engine; /* in the table of guarantees */
    bool mutex_only;
    bool keeps;             /* its claims can be kept while nobody holds */
    bool replicated;        /* one server takes over from another; clocks are wrong together */
    const char *prefix;     /* of the URL */
    const char *suffix;     /* of the URL */
    int first, places;      /* which servers the URL names; places 0: all from the first on */
    bool (*has)(int fault); /* of the faults that are not the same everywhere */
    void (*start)(struct sim_servers *servers);
    void (*stop)(struct sim_servers *servers);
    /* Return how often it took effect; of the two, the sum counts. Or NOT_YET. */
    int (*begin)(struct sim_servers *servers, const struct sim_stroke *stroke);
    int (*heal)(struct sim_servers *servers, const struct sim_stroke *stroke);
    bool (*whole)(struct sim_servers *servers); /* is all as it should be? */
    /* After all clients have left, and while they are idle: what is still there? Returns how much; `found` may be NULL. */
    int (*residue)(struct sim_servers *servers, residue_fn *found, void *data);
    int (*litter)(struct sim_servers *servers, residue_fn *found, void *data);
    /* How many watches have fired; NULL: there are none. */
    int64_t (*wakes)(struct sim_servers *servers);
};

/* NULL: there is none. By number: NULL ends the list. */
const struct sim_service *service_find(const char *word, size_t length);
const struct sim_service *service_number(int number);
/* Its rows. */
const struct oracle *service_oracle(const struct sim_service *service);
/* Can it be caused here, and is something promised? */
bool service_has(const struct sim_service *service, int fault);

/* In the world: start them, and take them away. */
void servers_start(struct sim_servers *servers, const struct plan *plan);
void servers_stop(struct sim_servers *servers);
void servers_url(const struct sim_servers *servers, const char *options, char *ret, size_t size);
/* What the wall clock shows when true time is 0. */
int64_t servers_wall_ns(void);
/* Messages that reached any of them. */
uint64_t servers_messages(const struct sim_servers *servers);

extern const struct sim_service sim_redis, sim_redis_replicas, sim_sentinel, sim_cluster, sim_redlock, sim_zookeeper,
    sim_zookeeper3;

#endif
