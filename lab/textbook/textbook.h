/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook.h - the locks that documents warn of, behind the seam and for tests only: what `pawl torture` must find out.
 *
 * `textbook+redis://host:port?...` and `textbook+zk://host:port/base?...` are mutexes as a first attempt makes them, on a real server. Each
 * switch has a right setting, its default, and wrong ones:
 *
 *     expiry=atomic|second|none      SET NX PX; SETNX and then PEXPIRE; no expiry at all                                     redis
 *     release=script|check|delete    compare and delete in one step; in two; delete whatever is there                        redis
 *     renew=checked|unchecked|off    is it still ours? renew whatever is there; never renew, and believe for ever            redis
 *     node=ephemeral|persistent      it goes with its session; it stays                                                      zk
 *     watch=get|exists|children      the predecessor by getData; by exists, which also watches what is not there; everybody  zk
 *     wake=heard|dropped             every notification counts; one in five is ignored                                       zk
 *     token=rising|reused            a counter of the server's; the same for all                                             both
 *     gap=MS                         a pause between the two steps, where there are two
 *
 * One thread does everything, in serve(), and blocks while it does: that is good enough here. Waiters on Redis poll.
 */
#ifndef PAWL_TEXTBOOK_H
#define PAWL_TEXTBOOK_H

#include <pthread.h>
#include <sys/queue.h>

#include "engine/engine.h"

enum textbook_state { TEXTBOOK_ASKING, TEXTBOOK_HELD, TEXTBOOK_LEAVING };

struct textbook_claim {
    TAILQ_ENTRY(textbook_claim) link;
    struct pawl__claim *claim;
    _Atomic int state;
    bool held, asked; /* by what the server said; asked at least once */
    bool renew, loss; /* the core asks for it; the server has said so */
    int64_t due;      /* nothing to do before */
    uint64_t token;
    char owner[48], node[256], watched[320];
};

enum textbook_answer { TEXTBOOK_NOT_YET, TEXTBOOK_YES, TEXTBOOK_NO };

struct textbook;

/* What one kind of server can do. Each call may block. */
struct textbook_backend {
    bool (*open)(struct textbook *, struct pawl__url *url);
    void (*close)(struct textbook *);
    enum textbook_answer (*acquire)(struct textbook *, struct textbook_claim *);
    void (*release)(struct textbook *, struct textbook_claim *); /* or give up */
    enum textbook_answer (*renew)(struct textbook *, struct textbook_claim *);
    void (*turn)(struct textbook *, int timeout_ms); /* hear what the server has to say; NULL: nothing */
};

enum { EXPIRY_ATOMIC, EXPIRY_SECOND, EXPIRY_NONE };
enum { RELEASE_SCRIPT, RELEASE_CHECK, RELEASE_DELETE };
enum { RENEW_CHECKED, RENEW_UNCHECKED, RENEW_OFF };
enum { WATCH_GET, WATCH_EXISTS, WATCH_CHILDREN };

struct textbook {
    struct pawl__engine base;
    const struct textbook_backend *backend;
    pthread_mutex_t mutex; /* guards the list */
    TAILQ_HEAD(, textbook_claim) claims;
    int wake;
    int64_t lease_ns;
    char url[256];
    const char *host;
    unsigned port;
    int expiry, release, renew, watch;
    bool persistent, drops_wakes, reuses_tokens;
    long long gap_ms;
    unsigned wakes;
    void *server;
};

void pawl__textbook_pause(const struct textbook *textbook); /* for the gap */

extern const struct textbook_backend pawl__textbook_redis, pawl__textbook_zk;

#endif
