/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - servers of Redis, and connections to them: what is sent, and what comes.
 *
 *     struct redis          the engine, as far as connections need it
 *       struct server       a server                                                                                server.c
 *         struct link       a connection                                                                              link.c
 *           struct request  something asked on it, in the order in which the answers will come
 *
 * Nothing here calls up. What connections have to say is pulled (pawl__wire_next).
 */
#ifndef PAWL_REDIS_WIRE_H
#define PAWL_REDIS_WIRE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "engine/kit/retry.h"
#include "engine/kit/wait.h"
#include "os/resolve.h"
#include "os/tls.h"
#include "base/name.h"
#include "base/url.h"

#define REDIS_US INT64_C(1000)
#define REDIS_MS INT64_C(1000000)

enum redis_layout { LAYOUT_REDISSON, LAYOUT_PLAIN, LAYOUT_OWN /* of the layer above: redlock */ };

/* The scripts; see script.c. The first three of each are in the order of enum pawl_kind. */
enum redis_script {
    SCRIPT_ACQUIRE,
    SCRIPT_RELEASE = SCRIPT_ACQUIRE + 3,
    SCRIPT_RENEW = SCRIPT_RELEASE + 3,
    SCRIPT_BREAK = SCRIPT_RENEW + 3,
    SCRIPT_MORE_TOKENS = SCRIPT_BREAK + 3, /* not of a semaphore, whose acquires are claims of their own */
    SCRIPT_DOWNGRADE = SCRIPT_MORE_TOKENS + 2,
    SCRIPT_SURVEY,
    SCRIPT_ACQUIRE_ALL,
    SCRIPT_WRITE, /* what lies beside a lock */
    SCRIPT_READ,
    SCRIPT_RAISE,
    SCRIPT_COUNT,
};

enum { REDIS_OWNER_MAX = 64, REDIS_PREFIX_MAX = 128, REDIS_KEY_MAX = REDIS_PREFIX_MAX + PAWL__NAME_MAX + 128, REDIS_UUID = 36 };

/* What the URL's hosts are: the server; the sentinels that know it; some of the nodes of a cluster. */
enum redis_topology { TOPOLOGY_ONE, TOPOLOGY_SENTINEL, TOPOLOGY_CLUSTER };

struct redis_host_port {
    char host[256];
    unsigned port;
};

/* options.c */
struct redis_options {
    enum redis_topology topology;
    enum redis_layout layout;
    struct redis_host_port hosts[PAWL__URL_HOSTS];
    size_t host_count;
    char primary_name[256]; /* by which sentinels know it */
    char sentinel_user[256], sentinel_password[1024];
    char socket_path[108]; /* "": TCP */
    char user[256], password[1024];
    unsigned db;
    char prefix[REDIS_PREFIX_MAX];
    struct tls_options tls, sentinel_tls;
    int64_t connect_ns, command_ns; /* time-outs */
    int64_t patience_ns;            /* of open(); PAWL__NEVER: as long as a connection may take */
    struct kit_retry retry;
    unsigned replicas; /* that must have a grant; 0: none */
    int64_t lease_ns, claim_ns;
    int64_t spin_ns; /* how long a thread that waits for an answer looks for it before it sleeps */
};

struct redis;
struct server;
struct link;
struct rclaim;
struct request;

/* Run a command (script -1) or a script, and wait for its answer, which is not an error. NULL: reterr says why. `lengths` of a script's
 * arguments; NULL: they are texts. */
typedef redisReply *wire_call_fn(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                                 struct pawl_error *reterr);

/* The answer to a request, with the mutex held. NULL: the connection was lost, and nobody knows whether it was carried out. */
typedef void redis_reply_fn(struct redis *redis, struct request *request, redisReply *reply);

struct request {
    TAILQ_ENTRY(request) link; /* link->sent */
    redis_reply_fn *answered;
    struct server *server; /* where it was sent */
    struct rclaim *claim;
    void *data;
    int64_t sent_at;
    int script; /* or -1 */
    int what;   /* who takes the answer, where `answered` is NULL: the layer above knows (lock/lock.h); 0: the reply is ignored */
    int step;   /* of a greeting; of a claim: its ask_number, see send.c; of a renewal: 1, it is asked elsewhere */
    bool with_body;
    bool greets; /* of a greeting */
};

/* What is pulled from connections: an answer, NULL if there will be none; one to a greeting, which is to be judged; a message; that it is
 * up, or down. Who pulls it frees the request and the reply. */
enum wire_kind { WIRE_REPLY, WIRE_GREETING, WIRE_PUSH, WIRE_UP, WIRE_DOWN };

struct wire_event {
    enum wire_kind kind;
    struct link *link;
    struct request *request;
    redisReply *reply;
};

TAILQ_HEAD(request_list, request);
TAILQ_HEAD(server_list, server);
TAILQ_HEAD(link_list, link);

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_SHAKING, LINK_GREETING, LINK_UP, LINK_STATES };
enum link_event { LINK_STARTS, LINK_SHAKES, LINK_GREETS, LINK_WELCOME, LINK_ENDS, LINK_EVENTS };

/* What is asked in a greeting. From GREET_PRIMARY on the layer above judges the answers. */
enum greeting { GREET_AUTH, GREET_SELECT, GREET_NUMBER, GREET_SUBSCRIBE, GREET_RUN_ID, GREET_PRIMARY, GREET_ROLE, GREET_CHECK };

/* What a connection has to say, and nobody has pulled. */
struct link_news {
    TAILQ_ENTRY(link) entry; /* redis->speaking */
    bool listed;             /* there may be something: */
    bool reading;            /* in what was read; and */
    bool reads_on;           /* there may be more to read, */
    size_t read;             /* after so many bytes */
    bool fell;               /* that it is down */
};

/* What is yet to be written. */
struct link_out {
    char *bytes;
    size_t used, size;
};

struct link {
    struct link_news news;
    TAILQ_ENTRY(link) entry; /* redis->links */
    struct redis *redis;
    struct server *server;
    struct addresses *addresses; /* of the server; NULL: a Unix socket */
    const char *what;            /* for notes */
    bool subscriber;
    bool to_sentinel; /* it has a login, and TLS, of its own */
    unsigned number;  /* of the connection: each has another */
    size_t address_number;
    size_t addresses_tried; /* since started_at, before this one */
    char run_id[64];        /* what the server on the other end calls itself; "": not known */
    enum link_state state;
    int fd;
    SSL *ssl;
    bool ssl_wants_write;
    redisReader *reader;
    size_t fed; /* to it, since it gave the last answer */
    struct link_out out;
    struct request_list sent, lost; /* lost: nobody will answer these */
    unsigned greetings;             /* answers of the greeting that are still due */
    uint32_t watched;               /* what the service thread's epoll set has of it; 0: not in it */
    int64_t started_at;             /* connecting since */
    int64_t heard_at;               /* last bytes */
    int64_t retry_at;               /* when to connect again */
    unsigned failures;              /* in a row */
    struct pawl_error why;          /* why it is down */
    bool turned_away;               /* `why` has the server's own words, and no connection has worked since */
};

/* What INFO and CONFIG said of a server. */
struct server_facts {
    char version[32], mode[16], policy[32], run_id[48];
    bool is_replica, in_cluster;
    unsigned replicas, min_replicas;
    bool known, aof, warned;
};

/* A server: its connections, and what is known of it. */
struct server {
    TAILQ_ENTRY(server) entry; /* redis->servers */
    struct redis *redis;
    const char *url;             /* for people */
    struct addresses *addresses; /* NULL: a Unix socket */
    union {
        struct {
            /* The inbox is for what is published to us; `replicas` counts replicas, where the URL asks for that. */
            struct link commands, inbox, replicas;
        };
        struct link links[3];
    };
    int link_count;
    bool script_loaded[SCRIPT_COUNT];
    int64_t inbox_number; /* of the inbox's connection, as the server counts; 0: not known */
    struct server_facts facts;
    unsigned users; /* claims and calls: it stays connected for them */
};

/* What the layer above says of its servers, once. Zeros: there is one, and the URL names it. */
struct wire_traits {
    bool several;       /* others may be turned to: an address that is not known is not waited for, and errors name the server */
    bool sharded;       /* keys have slots, which move from server to server: a script keeps to one slot */
    bool lock_channels; /* channels have, too: each lock has one of its own, and what is said of them answers no request */
    bool (*greet)(
        struct link *link); /* NULL, or: asks what else a greeting is to ask, by pawl__link_greet; false: the link is down */
};

/* The engine, as far as its connections need it. Above are struct route and struct claims, which begin with it. */
struct redis {
    struct pawl__engine base;
    struct redis_options options;
    char url[4096];
    char uuid[REDIS_UUID + 1];
    SSL_CTX *tls, *sentinel_tls;
    struct kit kit;
    struct wire_traits traits;
    const struct pawl__script *scripts; /* SCRIPT_COUNT of them; set by the layer above */
    struct server_list servers;
    struct link_list links;    /* of the servers, and of the layer above */
    struct link_list speaking; /* those that may have something to say */
    size_t server_size;        /* what the layer above keeps of each is behind it, and made and freed with it */
    int (*made)(struct server *server);
    void (*gone)(struct server *server);
    wire_call_fn *call; /* by which operators ask a server: the layer above knows who reads the answers */
    size_t claim_count; /* while there are any, a server that is silent is asked whether it lives */
    bool closing;
};

static inline struct redis *redis_of(struct pawl__engine *engine) {
    return (struct redis *)engine;
}

/* Else the one channel of a client is for all its locks. */
static inline bool redis_has_lock_channels(const struct redis *redis) {
    return redis->traits.lock_channels;
}

static inline void pawl__redis_lock(struct redis *redis) {
    pawl__kit_lock(&redis->kit);
}

/* Also has the service thread watch what it must from now on. */
static inline void pawl__redis_unlock(struct redis *redis) {
    pawl__kit_unlock(&redis->kit);
}

/* See that the service thread wakes by `when`. */
static inline void pawl__redis_due(struct redis *redis, int64_t when) {
    if (when < redis->kit.asleep_until)
        redis->kit.wakes = true;
}

/* A name for a client; 37 bytes. */
int pawl__redis_uuid(char *ret, struct pawl_error *reterr);

/* options.c */
int pawl__redis_options(const struct pawl__setup *setup, struct redis_options *ret, struct pawl_error *reterr);
void pawl__redis_describe_url(const struct redis_options *options, char *buffer, size_t size);

/* link.c: one connection. The mutex is held. */

void pawl__link_init(struct link *link, struct server *server, bool subscriber, const char *what);
/* Close one that is being made, to make it to the next address. False: the host has no other that was not tried. */
bool pawl__link_elsewhere(struct link *link);
/* Close it: what is unanswered is lost. Free it once that was pulled. */
void pawl__link_close(struct link *link);
void pawl__link_free(struct link *link);
/* The one place where its state changes. */
void pawl__link_step(struct link *link, enum link_event event);
/* The next that this connection has to say; false: nothing. */
bool pawl__link_next(struct link *link, struct wire_event *ret);
/* One more question of its greeting. */
bool pawl__link_greet(struct link *link, enum greeting step, int argc, const char **argv);
/* (Un)subscribe to a channel. What a server with slots says of channels answers no request; any other's answer is for `what`. */
void pawl__link_subscribe(struct link *link, bool on, const char *channel, int what);
/* Ask. The request may be NULL where nothing is answered in turn. False: no memory, and the link is down. */
bool pawl__link_send(struct link *link, int argc, const char **argv, const size_t *lengths, const struct request *request);
/* The same for words. */
bool pawl__link_say(struct link *link, int argc, const char **argv, const struct request *request);
/* Write what is left to be written. */
void pawl__link_flush(struct link *link);
/* Read what there is: pawl__wire_next() has it. */
void pawl__link_read(struct link *link);
/* It is of no use any more: close it. That all that is unanswered is lost, and that it is down, is pulled. */
void pawl__link_drop(struct link *link, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same where the server has said why; kept while later tries are merely cut. */
void pawl__link_turned_away(struct link *link, int code, const char *text);
/* The same when the other side has ended it. */
void pawl__link_ended(struct link *link);
/* It is down, and could not even be tried: this is why. */
void pawl__link_fail(struct link *link, const struct pawl_error *why);

/* reader.c */

/* hiredis' reader, which refuses to make room for what is too large; NULL: no memory. */
redisReader *pawl__reader_new(void);
/* An answer is not complete after so many bytes: may it still become one? */
bool pawl__reader_bounded(const redisReader *reader, size_t fed);

/* connect.c: making a connection, step by step. The mutex is held. */

/* Begin, or go on: called when the descriptor is ready, and when it is time. */
void pawl__link_start(struct link *link);
void pawl__link_progress(struct link *link);
/* The next that connections have to say; false: nothing. To be called until then before the mutex is free: claims that it speaks of may be
 * gone later. */
bool pawl__wire_next(struct redis *redis, struct wire_event *ret);
/* The moment at which something must be done about the link by the clock. */
int64_t pawl__link_due(const struct link *link);
void pawl__link_tick(struct link *link, int64_t now);
/* What to poll it for; `reads`: also for answers, or messages. */
int pawl__link_events(const struct link *link, bool reads);
/* What one that is not up yet is waiting for, in words. */
const char *pawl__link_missing(const struct link *link);

/* server.c: the mutex is held, but for init, new and free. */

void pawl__wire_init(struct redis *redis);
struct server *pawl__server_new(struct redis *redis, struct pawl_error *reterr);
/* Close its connections; free it once what they lost was pulled. */
void pawl__server_close(struct server *server);
void pawl__server_free(struct server *server);
/* The i-th of its connections; NULL: there are no more. */
static inline struct link *pawl__server_link(struct server *server, int i) {
    return i < server->link_count ? &server->links[i] : NULL;
}
/* Is it at this host and port? Put it there; false: no memory. */
bool pawl__server_is_at(const struct server *server, const char *host, unsigned port);
bool pawl__server_put_at(struct server *server, const char *host, unsigned port);
/* Is it able to work? Its links are. */
bool pawl__server_up(const struct server *server);
/* Why it is not, in words; and PAWL_EACCES if it would not let us in, else PAWL_ECONNLOST. */
const char *pawl__server_errortext(const struct server *server);
int pawl__server_errorcode(const struct server *server);
/* How often in a row its connections could not be made, at most. */
unsigned pawl__server_failures(struct server *server);
/* Do its connections lead to one server? If not they are dropped. */
bool pawl__server_is_one(struct server *server);
/* Is it a primary, and not too old? If not its connection is dropped. */
void pawl__server_check(struct server *server);
/* What it answered to a check of its greeting. True: it said what it is. */
enum { SERVER_CHECKS = 3 };
bool pawl__server_said(struct server *server, int step, const redisReply *reply);

/* Decimal digits; returns the end of them. Every request has some, and printf is slow. */
static inline char *pawl__put_number(char *to, uint64_t number) {
    char digits[20];
    int count = 0;

    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        *to++ = digits[--count];
    *to = '\0';
    return to;
}

/* lua/build.py writes tables of them; where a table has no such script: zeros. */
struct pawl__script {
    const char *sha1; /* as EVALSHA wants it */
    size_t length;
    const char *const *parts; /* NULL ends them */
};

/* script.c */
/* So many locks, of `count`, one script may be about. */
size_t pawl__script_locks(const struct redis *redis, size_t count);
/* Ask the server to run a script. */
bool pawl__script_send(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                       const struct request *request);
void pawl__script_answered(struct server *server, const struct request *request, const redisReply *reply);

/* reply.c: what answers mean. */
#define REDIS_TOKENS_MAX (1 << 20)                 /* given at once: scripts have 20 bits for it */
#define REDIS_SPAN_MAX (INT64_C(1) << 40)          /* ms that can be counted in ns */
#define REDIS_TOKEN_MAX UINT64_C(9007199254740991) /* Lua counts no further */
enum reply_class { REPLY_OK, REPLY_AGAIN, REPLY_NOSCRIPT, REPLY_READONLY, REPLY_MOVED, REPLY_ASK, REPLY_REFUSED };
/* Sort an answer; of an error, *ret says what to tell. */
enum reply_class pawl__reply_class(const redisReply *reply, struct pawl_error *ret);
/* The value of a line `key:value` of INFO; "" if there is none. */
void pawl__reply_info(const char *info, const char *key, char *ret, size_t size);
/* An element of an array as a number, sent as one or as text; `otherwise` if there is none. */
int64_t pawl__reply_number(const redisReply *reply, size_t index, int64_t otherwise);
/* Milliseconds from now, within what can be counted with; -1: none, or no end. */
int64_t pawl__reply_span(const redisReply *reply, size_t index);
/* Is it {1, first token, how many, ...}, with numbers that can be so? */
bool pawl__reply_grants(const redisReply *reply);

#endif
