/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_pair.h - a real ZooKeeper and a simulated one side by side: clients that are connected to both, send both the same
 * bytes, and compare what comes back.
 *
 * What must differ is made the same first: times are left out; sessions are named by their number here; zxids are counted from the
 * first; lists of children are sorted. One client sends at a time, and everything that the simulated server sends because of it,
 * to any client, is waited for from the real one.
 */
#ifndef PAWL_SIM_ZOOKEEPER_PAIR_H
#define PAWL_SIM_ZOOKEEPER_PAIR_H

#include "../../lab/torture/dice.h"
#include "../../tests/support/test.h"
#include "../../tests/support/zookeeper_server.h"
#include "../servers/zookeeper.h"
#include "zookeeper_bytes.h"

enum { REAL, SIMULATED, SIDES };
enum { CLIENTS = 5, XIDS = 4096, TICK_MS = 500 };

struct client {
    int fd;     /* -1: not connected */
    int member; /* of the ensemble, to which it connects */
    struct link *link;
    void *conn;
    struct bytes received; /* of the real server */
    bool greeted;          /* the handshake is over */
    bool real_ended;       /* the real server has closed it */
    int session;           /* its number; -1: none */
    int32_t xid;
    int types[XIDS]; /* of requests */
    struct bytes out;
};

/* Of the whole test. */
struct pair {
    int count;  /* of servers on each side: 1, or an ensemble */
    int leader; /* the real one; of the simulated ones the first leads, and is its counterpart */
    struct zookeeper_server server;
    struct zookeeper *model;
    int64_t now; /* of the model */
    uint64_t seed;
    struct dice dice;
    struct client clients[CLIENTS];
    int64_t first_zxid[SIDES];
    bool any_order; /* of events, this time: those of the nodes of a session that has ended */
    bool traced;
    unsigned long requests, frames, events, errors;
};
extern struct pair pair;

void pair_begin(void); /* `server` runs already */
void pair_end(void);
unsigned below(unsigned sides); /* 0 to sides - 1, by chance */

/* Connect, with the session that the client had, or a new one. */
void pair_handshake(struct client *client, int64_t seen, int32_t timeout_ms, bool wrong_password);
void pair_disconnect(struct client *client);
/* Send what is in `out`, and compare. */
void pair_exchange(struct client *client);
/* To the simulated server alone; to the real one alone; and comparing. */
void pair_feed(struct client *client, const char *bytes, size_t size);
void pair_send(struct client *client, const char *bytes, size_t size);
void pair_compare(void);
/* Let the time of the simulated server go on until it ends a session, of this client. */
void pair_await_end(const struct client *client);

#endif
