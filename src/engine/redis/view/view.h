/* SPDX-License-Identifier: Apache-2.0
 *
 * view.h - what a server says: of its locks, and of itself. For operators, over any server of wire/.
 *
 * All of it asks through redis->call, which waits for the answer: no mutex is held.
 */
#ifndef PAWL_REDIS_VIEW_H
#define PAWL_REDIS_VIEW_H

#include "base/record.h"
#include "engine/examine.h"
#include "engine/redis/wire/wire.h"

/* The parts of the script's answer. That about the usual mutex ends before AT_WHO: its records lie in its content. */
enum { AT_TYPE, AT_LEFT, AT_CONTENT, AT_LAST, AT_WHO, AT_QUEUE, AT_OUT, AT_HOLDS, AT_TIME, AT_COUNT };

/* A lock as the server has it. */
struct lock_view {
    const struct redis *redis;
    const char *name;
    const redisReply *reply; /* the script's answer about it */
    enum pawl_kind kind;
    int64_t now_ms;
    unsigned limit;
};

static inline const redisReply *lock_view_part(const struct lock_view *view, size_t which) {
    static const redisReply none = {.type = REDIS_REPLY_ARRAY};

    return which < view->reply->elements ? view->reply->element[which] : &none;
}

/* `TOKEN COUNT MODE PERMITS SINCE RECORD`, the mode in capitals after a break; or of a waiter `OWNER MODE PERMITS SINCE RECORD`. */
struct facts {
    unsigned long long token;
    unsigned count, permits;
    long long since_ms;
    char mode;
    struct pawl__identity identity;
    bool known;
};

/* One holder, as it is found in the lock's key; valid as long as the reply that it was read from. */
struct holder {
    const char *owner; /* what the server calls it: bytes of any kind, however many */
    size_t length;
    enum pawl_mode mode;
    int64_t left_ms; /* -1: no end */
    unsigned permits;
    char count[24]; /* how often Redisson's holder entered */
    bool broken;
    struct facts facts;
    uint64_t token;
};

/* lock_view.c */
/* Make it of the script's answer, in which it stays. */
void pawl__view_take(const struct redis *redis, const char *name, const redisReply *reply, struct lock_view *ret);
/* Call `fn` for each holder, until it returns something else than 0: that is returned. */
typedef int holder_fn(const struct lock_view *view, const struct holder *holder, void *data);
int pawl__view_holders(const struct lock_view *view, holder_fn *fn, void *data);
/* Show holders and those that wait as entries. */
int pawl__view_show(const struct lock_view *view, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);

/* break.c */
/* What scripts that begin with common.lua are sent to break: keys, then arguments. */
enum { VIEW_KEYS = 4, VIEW_OWNER = VIEW_KEYS, VIEW_LAST = 7, VIEW_ARGS = 8 };
/* Break the hold with this token by the script, whose owner and last argument are filled in. */
int pawl__view_break(const struct lock_view *view, struct server *server, int script, const char *argv[VIEW_ARGS], uint64_t token,
                     bool now, struct pawl_error *reterr);

/* look.c: looking at several locks of one server by one script. */
enum { LOOK_MAX = 100 };
/* The keys of one lock, which are all that the script is sent about it, in the memory that is returned; NULL: there is none. */
enum { LOOK_KEYS = VIEW_KEYS };
typedef void *view_fill_fn(const struct redis *redis, const char *name, const char *argv[LOOK_KEYS]);
/* One answer for each, at most LOOK_MAX, to be made a lock_view. `found`: by a counter alone; then the answer is a number about those
 * that nobody holds, or that the user has no right to. The caller frees the reply. */
int pawl__look(struct server *server, char *const names[], size_t count, bool found, view_fill_fn *fill, redisReply **ret,
               struct pawl_error *reterr);
/* Is it an answer of the script, about so many locks? */
int pawl__look_check(const redisReply *reply, size_t count, bool found, struct pawl_error *reterr);

/* names.c: all locks of a server. */
struct named_lock {
    char *name;
    redisReply *reply; /* what the script said of it; NULL: it was not looked at yet */
};
struct named_locks {
    struct named_lock *list;
    size_t count, size;
};
/* By which keys they are found. */
struct lock_finder {
    const char *prefixes[2]; /* of keys that are there while somebody holds or waits */
    const char *counter;     /* of keys that outlive that, or NULL */
    view_fill_fn *fill;
};
/* The name of the lock whose key with this prefix it is, in `buffer`; NULL: it is not one. */
const char *pawl__names_of_key(const struct redis *redis, const char *key, size_t length, const char *prefix,
                               char buffer[REDIS_KEY_MAX]);
/* Add all locks of this server, looked at. */
int pawl__named_locks_find(struct server *server, const struct lock_finder *finder, struct named_locks *named_locks,
                           struct pawl_error *reterr);
/* Show them by name, each once; what is no lock is passed over. */
int pawl__named_locks_show(const struct redis *redis, struct named_locks *named_locks, pawl_visit_fn *visit, void *data,
                           struct pawl_error *reterr);
void pawl__named_locks_free(struct named_locks *named_locks);

/* warn.c: what about a server endangers locks. */
/* Once: what an operator should know. No mutex held. */
void pawl__server_warn(struct server *server);

/* visit.c: a server that is none of the engine's, such as a replica. */
/* Connect to it, as the URL says of servers. Its call() takes commands alone. NULL: it can't be reached. */
struct server *pawl__visit(const struct redis *redis, const char *host, unsigned port);
void pawl__visit_end(struct server *server);

/* examine.c */
struct examination {
    struct server *server;
    unsigned clocks; /* that were read; the servers' against ours, in us: */
    int64_t least_ahead, most_ahead;
    char least_name[PAWL__URL_HOST_PORT], most_name[PAWL__URL_HOST_PORT];
    struct pawl__exam exam;
};
/* What there is to say of exam->server; negative: it does not answer. */
int pawl__examine_server(struct examination *exam, struct pawl_error *reterr);
/* ... and of the clocks of all of them. */
void pawl__examine_clocks(struct examination *exam);

#endif
