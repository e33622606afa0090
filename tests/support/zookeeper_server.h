/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_server.h - real ZooKeeper servers for the tests, from Debian's jars: on loopback, on free ports, in a temporary directory,
 * known by pid. One, or an ensemble.
 */
#ifndef PAWL_ZOOKEEPER_SERVER_H
#define PAWL_ZOOKEEPER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ZOOKEEPER_SERVERS_MAX = 3 };

/* What may be otherwise; all of it may be left out. */
struct zookeeper_how {
    bool quota;        /* quotas are enforced */
    bool read_only;    /* a server without a quorum lets itself be read */
    unsigned longest;  /* session that it grants, ms; 0: a minute */
    const char *words; /* the four-letter words that it answers, besides srvr; NULL: all */
    /* Where a server listens; NULL: on loopback. The first is for clients, the second for the other servers. */
    const char *addresses[ZOOKEEPER_SERVERS_MAX][2];
    void (*inside)(int index);             /* called in the child that is to become the server */
    void (*outside)(int index, pid_t pid); /* and in the parent, meanwhile */
};

struct zookeeper_server {
    int count;
    struct zookeeper_how how;
    pid_t pids[ZOOKEEPER_SERVERS_MAX]; /* 0: not running */
    unsigned ports[ZOOKEEPER_SERVERS_MAX];
    char directory[256];
};

/* NULL: it can be started; else what is missing. */
const char *zookeeper_server_missing(void);

/* Start `count` servers and wait until they serve. False: they don't; nothing is left. */
bool zookeeper_server_start(struct zookeeper_server *server, int count);
bool zookeeper_server_start_as(struct zookeeper_server *server, int count, const struct zookeeper_how *how);
void zookeeper_server_stop(struct zookeeper_server *server);

/* One of them: SIGKILL, SIGSTOP, SIGCONT; and start again, with its data, where it was. */
void zookeeper_server_signal(struct zookeeper_server *server, int index, int number);
void zookeeper_server_kill(struct zookeeper_server *server, int index);
bool zookeeper_server_spawn(struct zookeeper_server *server, int index); /* without waiting: alone it has no quorum */
bool zookeeper_server_restart(struct zookeeper_server *server, int index);
/* Which one leads? -1: none. */
int zookeeper_server_leader(struct zookeeper_server *server);
/* Wait until it says that this is its mode: "leader", "follower", "standalone", "read-only". */
bool zookeeper_server_await_mode(struct zookeeper_server *server, int index, const char *mode);

/* How many watches the server has, of all clients. */
int zookeeper_server_watches(unsigned port);

#endif
