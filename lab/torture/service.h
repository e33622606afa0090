/* SPDX-License-Identifier: Apache-2.0
 *
 * service.h - what the locks of a run stand on, and how it can be hurt: servers of the rig's own (--start), each behind a proxy, or a
 * place that was given (-u).
 */
#ifndef PAWL_TORTURE_SERVICE_H
#define PAWL_TORTURE_SERVICE_H

#include "../servers/servers.h"
#include "rig.h"

/* Called with each thing that was left behind. */
typedef void residue_fn(const char *what, void *data);

/* A kind of service that the rig can start. */
struct service {
    const char *word;                /* --start WORD */
    const char *engine;              /* in the table of guarantees */
    const struct topology *topology; /* its servers */
    int given_up_leases;             /* a silent server is given up by the others after so many leases: longer than any fault but a
                                      * failover, or a partition, takes */
    const char *lines;               /* further lines of its servers' configuration; NULL: none */
    bool mutex_only;
    bool one_forgets; /* it is always the first that loses what it knew: one may, and the others remember */
    bool replicated;  /* one server takes over from another: their clocks stay in step, else a lease could outlast a failover */
    const char *(*lacks)(enum fault fault);              /* why it can't be caused here; NULL: it can be. May be NULL */
    bool (*refuses)(struct servers *servers, int index); /* runs, and says that it does not serve? NULL: then it ends */
    void (*forget)(struct servers *servers, int index);  /* while it is down: it loses what it knew; NULL: it does not */
    void (*tidy)(struct servers *servers, int index);    /* while it is down after a full disk: what it can't start with; NULL */
    /* Begin and end a fault of its own; NULL: it has none. Returns how often it took effect; of the two, the sum counts. */
    unsigned (*begin)(struct servers *servers, enum fault fault, uint64_t target);
    unsigned (*heal)(struct servers *servers, enum fault fault, uint64_t target);
    /* After all clients have left: what is still there? NULL: what pawl_inspect says. */
    void (*residue)(struct servers *servers, residue_fn *found, void *data);
    /* While clients are idle, and connected: the same. */
    void (*litter)(struct servers *servers, residue_fn *found, void *data);
    /* How many watches have fired; -1: there are none. */
    int64_t (*wakes)(struct servers *servers);
};

extern const struct service local_service, redis_service, redis_replicas_service, sentinel_service, cluster_service,
    redlock_service, zookeeper_service, zookeeper3_service;

const struct service *service_find(const char *word);
/* All words, separated by blanks. */
const char *service_words(void);

/* Start its servers, behind proxies. False: servers->why says why. */
bool service_start(const struct service *service, struct servers *servers, int64_t lease_ms);

/* Begin a fault, or end it: those that are the same for every kind of server, and its own. */
unsigned service_begin(const struct service *service, struct servers *servers, const struct stroke *stroke, int64_t lease_ms);
unsigned service_heal(const struct service *service, struct servers *servers, const struct stroke *stroke);
/* How many connections to any of them come from this address? */
unsigned service_count_from(const struct servers *servers, uint32_t address);

#endif
