/* SPDX-License-Identifier: Apache-2.0
 *
 * servers.h - real servers, alone or as they belong together: on loopback, on free ports, in a directory of their own, known by pid.
 *
 * The one launcher: the torture rig, the tests in C, and by the program `pawl-servers` the tests in shell, the benchmark, the pitfalls and
 * the demo. The servers come from Debian's packages and end with the process that started them.
 */
#ifndef PAWL_SERVERS_SERVERS_H
#define PAWL_SERVERS_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVERS_MAX = 8, SERVERS_TEXT = 256, SERVERS_PATH = 160, SERVERS_OPTIONS = 16 };

struct proxy;
struct topology;

struct server {
    pid_t pid;                        /* 0: does not run */
    unsigned port;                    /* of its own */
    unsigned peers[2];                /* ports for the other servers */
    struct proxy *proxy;              /* in front of it; NULL: none */
    struct proxy *bus;                /* in front of peers[0], for all others; NULL: none */
    struct proxy *to[SERVERS_MAX][2]; /* between it and the others' ports for it; NULL: none */
    struct clock_page *clock;         /* NULL: the machine's */
    char directory[SERVERS_PATH];
};

struct servers {
    const struct topology *topology;
    struct server list[SERVERS_MAX];
    int count;
    /* Set before the start; all of it may be left out. */
    bool proxied;                      /* put a proxy before every port; servers know each other by those, too */
    const char *host;                  /* where they listen, or where clients find the proxies; NULL: 127.0.0.1 */
    const char *lines;                 /* further lines of the configuration of every server that keeps locks */
    const char *java[SERVERS_OPTIONS]; /* ZooKeeper: further options of the Java machine, up to NULL */
    unsigned port;                     /* of the first; 0: one that is free */
    int64_t down_after_ms;             /* a server that is silent for so long is given up by the others; 0: a minute */
    const char *shim;                  /* the library that lies about time; NULL: their clocks are the machine's */

    char directory[SERVERS_PATH];
    char why[SERVERS_TEXT]; /* what went wrong last */
};

/* What belongs together. Functions that can fail say why in servers->why. */
struct topology {
    const char *word;                         /* `pawl-servers start WORD`, `pawl torture --start WORD` */
    int count;                                /* how many servers */
    int clocks;                               /* so many of them, from the first on, have clocks that can be wrong; 0: all */
    const char *(*missing)(void);             /* what is to be installed; NULL: nothing */
    bool (*prepare)(struct servers *servers); /* once there are ports: configuration */
    void (*become)(struct servers *servers, int index); /* in the child: exec */
    bool (*ready)(struct servers *servers, int index);  /* does it serve? asked again and again */
    bool (*join)(struct servers *servers);              /* once all serve: are they one? NULL: they need not be */
    void (*finish)(struct servers *servers);            /* before its directory is removed; NULL: nothing to do */
    /* The URL, by the proxies' ports or by the servers' own. */
    void (*url)(const struct servers *servers, bool proxied, char *ret, size_t size);
};

extern const struct topology redis_topology, redlock_topology, redis_replicas_topology, sentinel_topology, sentinels_topology,
    cluster_topology, cluster_bare_topology, zookeeper_topology, zookeeper3_topology;

const struct topology *topology_find(const char *word);
/* All words, separated by blanks. */
const char *topology_words(void);

/* Start them all and wait until they serve. False: servers->why says why; what was started is there until servers_stop(). */
bool servers_start(struct servers *servers, const struct topology *topology);
/* End them, remove what they left. False: something could not be removed. */
bool servers_stop(struct servers *servers);
/* How many of them have clocks that can be wrong. */
int servers_clocks(const struct servers *servers);

/* One of them. */
bool server_spawn(struct servers *servers, int index);
void server_kill(struct servers *servers, int index);
bool server_await(struct servers *servers, int index);

/* The address and the port at which clients and the other servers find one. */
const char *servers_host(const struct servers *servers);
unsigned server_port(const struct servers *servers, int index);
/* With `proxied`: a proxy before a port, where clients find it. NULL: it can't be made, which is said. */
struct proxy *server_proxy(struct servers *servers, unsigned target);
/* Where servers listen themselves. */
const char *servers_address(const struct servers *servers);
/* Write `HOST:PORT,HOST:PORT` of some of them, by the proxies' ports or by the servers' own. Returns the length. */
size_t servers_places(const struct servers *servers, int first, int count, bool proxied, char *ret, size_t size);
/* Ask one of them; see ask_at(). */
bool server_ask(const struct servers *servers, int index, const char *text, const char *until, char *answer, size_t size);

#endif
