/* SPDX-License-Identifier: Apache-2.0
 *
 * servers.h - what the locks of a run stand on: servers of the rig's own (--start), each behind a proxy, or a place that was given (-u).
 *
 * Servers come from Debian's packages, run on loopback, on free ports, in the run's directory, and are known by pid: the rig starts them,
 * hurts them, and ends them.
 */
#ifndef PAWL_TORTURE_SERVERS_H
#define PAWL_TORTURE_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rig.h"

enum { SERVERS_MAX = 8, SERVERS_TEXT = 256, SERVERS_PATH = 160 };

struct proxy;
struct service;

struct server {
    pid_t pid;     /* 0: does not run */
    unsigned port; /* of its own */
    unsigned peers[2];
    struct proxy *proxy; /* in front of it; NULL: none */
    struct clock_page *clock;
    char directory[SERVERS_PATH];
};

struct servers {
    const struct service *service; /* NULL: a place that was given */
    struct server list[SERVERS_MAX];
    int count;
    int64_t lease_ms;
    const char *host; /* where clients find the proxies: 127.0.0.1, but for those in networks of their own */
    const char *shim; /* the library that lies about time; NULL: there is none */
    char directory[SERVERS_PATH];
    char mounted[SERVERS_PATH]; /* a small file system of our own; "" */
    char why[SERVERS_TEXT];     /* what went wrong last */
};

/* Called with each thing that was left behind. */
typedef void residue_fn(const char *what, void *data);

/* A kind of service that the rig can start. Functions that can fail say why in servers->why. */
struct service {
    const char *word;   /* --start WORD */
    const char *engine; /* in the table of guarantees */
    int count;          /* how many servers */
    bool mutex_only;
    bool one_forgets; /* it is always the first that loses what it knew: one may, and the others remember */
    int clocks;       /* so many of them, from the first on, have clocks that can be wrong; 0: all */
    bool replicated;  /* one server takes over from another: their clocks stay in step, else a lease could outlast a failover */
    bool tcp;         /* behind proxies */
    const char *(*lacks)(enum fault fault);                /* why it can't be caused here; NULL: it can be. May be NULL */
    bool (*prepare)(struct servers *servers);              /* directories, configuration */
    void (*run)(const struct servers *servers, int index); /* in the child: exec */
    bool (*ready)(struct servers *servers, int index);     /* does it serve? asked again and again */
    bool (*refuses)(struct servers *servers, int index);   /* runs, and says that it does not serve? NULL: then it ends */
    void (*finish)(struct servers *servers);               /* after the end; NULL */
    void (*forget)(struct servers *servers, int index);    /* while it is down: it loses what it knew; NULL: it does not */
    void (*tidy)(struct servers *servers, int index);      /* while it is down after a full disk: what it can't start with; NULL */
    bool (*join)(struct servers *servers);                 /* once all serve; NULL: nothing to do */
    /* The URL, by the proxies' ports or by the servers' own. */
    void (*url)(const struct servers *servers, bool proxied, char *ret, size_t size);
    /* Begin and end a fault of its own; NULL: it has none. Returns how often it took effect; of the two, the sum counts. */
    unsigned (*begin)(struct servers *servers, enum fault fault, uint64_t target);
    unsigned (*heal)(struct servers *servers, enum fault fault, uint64_t target);
    /* After all clients have left: what is still there? NULL: whatever pawl_inspect says. */
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

/* Start them all and wait until they serve. */
bool servers_start(struct servers *servers, const struct service *service);
/* End them, remove what they left. */
void servers_stop(struct servers *servers);

/* One of them. */
bool server_spawn(struct servers *servers, int index);
void server_kill(struct servers *servers, int index);
bool server_await(struct servers *servers, int index);
/* A proxy before one of its ports, where clients find it. NULL: it can't be. */
struct proxy *server_proxy(const struct servers *servers, unsigned target);
/* Is it alive, and stopped (SIGSTOP)? */
bool process_is_stopped(pid_t pid);

/* How many connections to any of them come from this address? */
unsigned servers_count_from(const struct servers *servers, uint32_t address);
/* Write `HOST:PORT,HOST:PORT` of some of them, by the proxies' ports or by the servers' own. Returns the length. */
size_t servers_places(const struct servers *servers, int first, int count, bool proxied, char *ret, size_t size);

/* Faults that are the same for every kind of server. */
unsigned servers_begin(struct servers *servers, const struct stroke *stroke);
unsigned servers_heal(struct servers *servers, const struct stroke *stroke);

#endif
