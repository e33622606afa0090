/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook.h - the locks that documents warn of, behind the seam and for tests only: what `pawl torture` must find out.
 *
 * `textbook+redis://host:port?...` and `textbook+zk://host:port/base?...` are mutexes as a first attempt makes them, on a real server. Each
 * switch has a right setting, its default, and wrong ones:
 *
 *     expiry=atomic|second|none      SET NX PX; SETNX and then PEXPIRE; no expiry at all                                     redis
 *     release=script|check|delete    compare and delete in one step; in two; delete any value there                          redis
 *     renew=checked|unchecked|off    is it still ours? renew any value there; never renew, and believe for ever              redis
 *     node=ephemeral|persistent      it goes with its session; it stays                                                      zk
 *     watch=get|exists|children      the predecessor by getData; by exists, which also watches what is not there; everybody  zk
 *     wake=heard|dropped             every notification counts; one in five is ignored                                       zk
 *     token=rising|reused            a counter of the server's; the same for all                                             both
 *     gap=MS                         a pause between the two steps, where there are two
 *
 * They are made of blocking calls: see simple.h. Waiters on Redis poll.
 */
#ifndef PAWL_TEXTBOOK_H
#define PAWL_TEXTBOOK_H

#include "simple.h"

struct textbook_claim {
    struct simple_claim simple;
    bool taken;                   /* the server has given it */
    int64_t renew_at;             /* Redis, unchecked */
    char owner[48];               /* Redis */
    char node[256], watched[320]; /* ZooKeeper */
};

enum { EXPIRY_ATOMIC, EXPIRY_SECOND, EXPIRY_NONE };
enum { RELEASE_SCRIPT, RELEASE_CHECK, RELEASE_DELETE };
enum { RENEW_CHECKED, RENEW_UNCHECKED, RENEW_OFF };
enum { WATCH_GET, WATCH_EXISTS, WATCH_CHILDREN };

struct textbook {
    struct simple simple;
    unsigned port;
    int expiry, release, renew, watch;
    int persistent, drops_wakes, reuses_tokens;
    long long gap_ms;
    unsigned wakes;
    void *server;
};

static inline struct textbook *textbook_of(struct simple *simple) {
    return (struct textbook *)simple;
}

static inline struct textbook_claim *claim_of(struct simple_claim *claim) {
    return (struct textbook_claim *)claim;
}

void pawl__textbook_pause(const struct textbook *textbook); /* for the gap */
/* The server has given it. Those who never renew, or renew without a look, do not count the time either. */
void pawl__textbook_granted(const struct textbook *textbook, struct textbook_claim *claim, uint64_t token);
int pawl__textbook_unreachable(const struct textbook *textbook, struct pawl_error *reterr);

extern const struct simple_ops pawl__textbook_redis, pawl__textbook_zk;

#endif
