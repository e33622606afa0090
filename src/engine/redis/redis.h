/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - the engine for Redis: the objects, who guards them, and who reads.
 *
 *     struct redis          the engine: options, keys' prefix, claims; in a cluster the map of slots                    cluster.c
 *       struct server       a server                                                                                server.c
 *         struct link       a connection: `commands`, `inbox` (a subscriber, where grants and breaks are pushed),     link.c
 *                           and `witness`, which counts replicas where the URL asks for them                       secure.c
 *                           `guide`, to a sentinel, which knows where the server is                                sentinel.c
 *           struct request  something asked on `commands`, in the order in which the answers will come
 *       struct rclaim       a claim's state; it is at one home at a time                                          claim.c
 *       struct home         a server as claims see it: who reads its answers, what is renewed there, its clock
 *       struct ear          in a cluster: a channel of a lock that is waited for or held                              listen.c
 *
 * wire/ and route/ call nothing above them. What connections have to say is pulled (pawl__wire_next), at one place: events.c.
 *
 * One mutex guards all of it; it is never held over a system call that blocks, an upcall, or a note. The life of a claim here; state.c has
 * the table:
 *
 *             acquire            1: granted at once
 *     ASKING --------> (reply) ---------------------------------------------------> HOLDING
 *        ^               | 0: queued         push 'g', in time                       ^  |  downgrade
 *        |               v        .--------------------------------------------------'  v
 *        +---- again -- WAITING --+                                                  DOWNGRADING
 *        |     (timer)            | push 'g', too old to be believed: acquire tells
 *        +------------------------'
 *
 *     withdraw: of a hold -> RELEASING, else LEAVING --(reply)--> gone          the hold is gone, or broken -> LOST, until it is withdrawn
 *     ?replicas=N: SECURING and UNDOING lie before HOLDING, see secure.c
 *
 * Who reads? A thread that waits in park() for its answer reads what comes from its claim's home, if no other does so already (kit/wait.h).
 * Without one the service thread reads, in serve(). Its epoll set says what it watches: see watch() in pump.c. What is asked to go on
 * (claim.c) nobody waits for: whoever wants to know looks (pawl__home_look). Only the service thread connects, keeps time and calls up.
 */
#ifndef PAWL_REDIS_H
#define PAWL_REDIS_H

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "engine/kit/wait.h"
#include "engine/redis/voter.h"
#include "os/resolve.h"
#include "os/sleep.h"
#include "os/tls.h"
#include "base/name.h"
#include "base/record.h"
#include "base/url.h"

#define REDIS_US INT64_C(1000)
#define REDIS_MS INT64_C(1000000)

/* LAYOUT_VOTER is for one of several servers that vote: see voter.h. */
enum redis_layout { LAYOUT_REDISSON, LAYOUT_PLAIN, LAYOUT_VOTER, REDIS_LAYOUTS };

/* The scripts; see script.c. The first three of each are in the order of enum pawl_kind. */
enum redis_script {
    SCRIPT_ACQUIRE,
    SCRIPT_RELEASE = SCRIPT_ACQUIRE + 3,
    SCRIPT_RENEW = SCRIPT_RELEASE + 3,
    SCRIPT_BREAK = SCRIPT_RENEW + 3,
    SCRIPT_EXTEND = SCRIPT_BREAK + 3, /* not of a semaphore, whose acquires are claims of their own */
    SCRIPT_DOWNGRADE = SCRIPT_EXTEND + 2,
    SCRIPT_SURVEY,
    SCRIPT_HELD,
    SCRIPT_ACQUIRE_ALL,
    SCRIPT_RAISE,
    SCRIPT_COUNT,
};

enum { REDIS_OWNER_MAX = 64, REDIS_PREFIX_MAX = 128, REDIS_KEY_MAX = REDIS_PREFIX_MAX + PAWL__NAME_MAX + 128, REDIS_UUID = 36 };
enum { REDIS_PERMITS_MAX = 4096 };

/* What the URL's hosts are: the server; the sentinels that know it; some of the nodes of a cluster. */
enum redis_topology { TOPOLOGY_ONE, TOPOLOGY_SENTINEL, TOPOLOGY_CLUSTER };

enum { REDIS_SLOTS = 16384, REDIS_EARS = 256 };

struct redis_place {
    char host[256];
    unsigned port;
};

/* options.c */
struct redis_options {
    enum redis_topology topology;
    enum redis_layout layout;
    struct redis_place places[PAWL__URL_HOSTS];
    size_t place_count;
    char primary_name[256]; /* by which sentinels know it */
    char sentinel_user[256], sentinel_password[1024];
    char socket_path[108]; /* "": TCP */
    char user[256], password[1024];
    unsigned db;
    char prefix[REDIS_PREFIX_MAX];
    struct tls_options tls, sentinel_tls;
    int64_t connect_ns, command_ns;      /* time-outs */
    int64_t patience_ns;                 /* of open(); PAWL__NEVER: as long as a connection may take */
    int64_t retry_base_ns, retry_max_ns; /* back-off */
    unsigned retry_tries;                /* 0: for ever */
    unsigned replicas;                   /* that must have a grant; 0: none */
    int64_t lease_ns, claim_ns;
    int64_t spin_ns; /* how long whoever waits for an answer looks for it before it sleeps */
};

struct redis;
struct server;
struct home;
struct ear;
struct link;
struct rclaim;
struct request;

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
    int step;   /* of a greeting; of a claim: its turn, see claim.c; of a renewal: 1, it is asked elsewhere */
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
TAILQ_HEAD(rclaim_list, rclaim);
TAILQ_HEAD(server_list, server);
TAILQ_HEAD(link_list, link);
TAILQ_HEAD(ear_list, ear);

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_SHAKING, LINK_GREETING, LINK_UP, LINK_STATES };
enum link_event { LINK_STARTS, LINK_SHAKES, LINK_GREETS, LINK_WELCOME, LINK_ENDS, LINK_EVENTS };

/* What is asked in a greeting. From GREET_PRIMARY on the layer above judges the answers. */
enum greeting { GREET_AUTH, GREET_SELECT, GREET_NUMBER, GREET_SUBSCRIBE, GREET_RUN_ID, GREET_PRIMARY, GREET_ROLE, GREET_CHECK };

struct link {
    TAILQ_ENTRY(link) speaking; /* redis->speaking */
    struct redis *redis;
    struct server *server;
    struct addresses *addresses; /* of the server; NULL: a Unix socket */
    const char *what;            /* for notes */
    bool subscriber;
    bool channels_unasked; /* what is said of channels answers no request */
    bool speaks;           /* there may be something to pull: */
    bool reading;          /* in what was read; and */
    bool reads_on;         /* there may be more to read, */
    size_t read;           /* after so many bytes */
    bool fell;             /* that it is down */
    unsigned number;       /* of the connection: each has another */
    size_t address_number;
    char run_id[64]; /* what the server on the other end calls itself; "": not known */
    enum link_state state;
    int fd;
    SSL *ssl;
    bool ssl_wants_write;
    redisReader *reader;
    size_t fed; /* to it, since it gave the last answer */
    char *out;
    size_t out_used, out_size;
    struct request_list sent, lost; /* lost: nobody will answer these */
    unsigned greetings;             /* answers of the greeting that are still due */
    uint32_t watched;               /* what the service thread's epoll set has of it; 0: not in it */
    int64_t started_at;             /* connecting since */
    int64_t heard_at;               /* last bytes */
    int64_t retry_at;               /* when to connect again */
    unsigned failures;              /* in a row */
    struct pawl_error why;          /* why it is down */
};

enum rclaim_state {
    RCLAIM_NONE,
    RCLAIM_ASKING,
    RCLAIM_WAITING,  /* in the queue */
    RCLAIM_SECURING, /* replicas are to have it */
    RCLAIM_UNDOING,  /* too few of them had it in time */
    RCLAIM_HOLDING,
    RCLAIM_DOWNGRADING,
    RCLAIM_LOST,      /* and the core was told */
    RCLAIM_RELEASING, /* it was held, and its release was asked for once at most */
    RCLAIM_LEAVING,   /* it was not; or more than once */
    RCLAIM_STATES,
};

enum rclaim_event {
    RCLAIM_SUBMIT,
    RCLAIM_QUEUED,    /* the server says: another holds it */
    RCLAIM_GRANTED,   /* ... or it is ours, and replicas have it where they are to; */
    RCLAIM_UNSECURED, /* ... and they are to have it first; */
    RCLAIM_TOO_LATE,  /* ... and that is over: the answer lay in its socket while we were stopped; */
    RCLAIM_REFUSED,   /* ... or it will not let us, or can't be reached */
    RCLAIM_STALE,     /* a push says that it is ours, and can't be believed */
    RCLAIM_TURN,      /* of a voter: it is to ask again */
    RCLAIM_SHORT,     /* too few replicas have it; ... */
    RCLAIM_UNSURE,    /* ... nobody knows */
    RCLAIM_NOT_MINE,  /* the hold is not on the server any more */
    RCLAIM_BROKEN,    /* it is, and an operator wants it back */
    RCLAIM_DOWNGRADE,
    RCLAIM_DOWNGRADED,
    RCLAIM_WITHDRAW,
    RCLAIM_UNSENT,     /* the same, and the server was never asked about it */
    RCLAIM_RELEASED,   /* the server has let go of it; ... */
    RCLAIM_NOTHING,    /* ... had nothing of it; ... */
    RCLAIM_UNANSWERED, /* ... was asked to, and may have done so */
    RCLAIM_MOVED,      /* its lock is at another server now */
    RCLAIM_EVENTS,
};

/* What a step does, beside telling of news (KIT_...). */
enum {
    RCLAIM_ANEW = 1 << 0,     /* nothing of it is held any more */
    RCLAIM_HEARS = 1 << 1,    /* in a cluster: of breaks */
    RCLAIM_WAS_LOST = 1 << 2, /* before it was withdrawn */
    RCLAIM_ENDS = 1 << 3,
    RCLAIM_ASKS = 1 << 4, /* what the new state asks for is sent; what is in flight counts no more */
};

struct rclaim_move {
    uint8_t next, news, actions;
};

/* renew.c */
struct rclaim_renewal {
    TAILQ_ENTRY(rclaim) entry; /* home->to_renew */
    bool listed, sent;
};

/* secure.c: its grant or its renewal is being secured. */
struct rclaim_securing {
    TAILQ_ENTRY(rclaim) entry; /* home->to_secure, in_round */
    bool listed, in_round;
    int64_t sent_at, lease_ns; /* of the renewal */
};

/* voter.c */
struct rclaim_vote {
    bool registered; /* the server has it among those that wait; ... */
    bool lines_up;   /* ... it is not to be taken ahead of those; ... */
    bool passes_on;  /* ... its end is told to the first of those */
    bool was_held;   /* when it was withdrawn; ... */
    bool awaited;    /* ... and others waited for it then */
    bool freed;      /* it was lost because an operator freed its lock */
    uint64_t floor;  /* the least that its token is to be; 0: the server's time */
};

/* The engine's state of a claim. */
struct rclaim {
    struct kit_claim kit;
    struct kit_timer timer;     /* WAITING: ask again; ASKING, LEAVING, ...: send (again) */
    TAILQ_ENTRY(rclaim) all;    /* redis->claims */
    TAILQ_ENTRY(rclaim) bucket; /* redis->buckets, by id */
    struct rclaim_renewal renewal;
    struct rclaim_securing securing;
    struct rclaim_vote vote;
    struct home *home; /* where its lock is */
    unsigned slot;     /* in a cluster */
    int64_t rehomed_at;
    struct ear *ear;             /* in a cluster: where it hears, or NULL */
    TAILQ_ENTRY(rclaim) hearing; /* ear->claims */
    enum rclaim_state state;
    enum pawl_mode mode; /* as the server knows it; the claim's own is the core's to change */
    char owner[REDIS_OWNER_MAX];
    char since[24];     /* Unix time in ms */
    bool asked;         /* a request about its state is in flight */
    bool asks_again;    /* what is in flight may be answered with what is not so any more: see look_again() in push.c */
    bool foreign_held;  /* its lock is held by a program that is not pawl */
    bool listens;       /* on the foreign channel of its lock */
    bool in_set;        /* it is asked for together with others: see set.c */
    int turn;           /* counts what was asked about its state: only the answer to the last one counts */
    uint32_t want_sent; /* tokens that the server knows we want */
    int64_t head_until; /* while an answer is on its way: it was told that it is first, and to ask then; else PAWL__NEVER */
    unsigned position;
    unsigned failures;     /* retryable errors in a row */
    uint32_t tokens_added; /* by extend(), and the core has not heard of them */
    int64_t held_since;    /* HOLDING: sent_at of the grant */
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
    struct addresses *addresses; /* NULL: a Unix socket */
    struct link commands, inbox, witness, guide;
    bool script_loaded[SCRIPT_COUNT];
    int64_t inbox_number; /* of the inbox's connection, as the server counts; 0: not known */
    struct server_facts facts;
    unsigned users; /* claims and calls: it stays connected for them */

    /* cluster.c */
    bool wanted; /* it is to be connected; everywhere else it always is */
    unsigned slot_count;

    /* sentinel.c */
    bool found;  /* they said where it is, and no connection was lost since; everywhere else it always is */
    bool sought; /* a connection waits until it is */
    bool asking_sentinels, sentinels_hinted;
    unsigned sentinels_asked, sentinels_unknowing; /* in this round: so many; they did not know the name */
};

/* A server as claims see it: who waits for its answers, what is to be renewed there, and its clock. */
struct home {
    struct server server;     /* the first: home_of() */
    struct kit_reader reader; /* who reads its answers */
    struct rclaim_list to_renew;
    int64_t renew_at;    /* not before then */
    bool reader_waits;   /* ... for a push, and so reads the inbox too */
    int64_t inbox_due;   /* 0, or: if no caller does, the service thread reads the inbox from then on */
    int64_t answers_due; /* 0, or: by then the service thread reads an answer that nobody has looked for */
    bool contended;      /* the last acquire had to wait: the next will, and its push may come before its answer is read */
    bool gave_up;        /* as many tries to connect as the URL allows have failed */
    int read_bell;       /* wakes the thread that reads */
    struct spin spin;    /* the reader's */
    /* A pair of moments: at local time `pair_local` a request left that the server worked on at `pair_server` (us). */
    int64_t pair_local, pair_server;
    int64_t tie_local, tie_server; /* an earlier one; see push.c */
    unsigned clock_number;         /* the connection that the clock was read on: what is known of it counts on no other */
    int64_t token_floor; /* the server's time (us) when the connection was new; 0: not known yet. None below it is believed */
    bool tracks;         /* the server tells the inbox of changes to keys that were asked for after CLIENT CACHING YES */

    /* secure.c */
    struct rclaim_list to_secure, in_round;
    bool round_open, round_wrote;
    int round_turn;        /* counts rounds: an answer of an earlier one says nothing of this */
    bool replicas_short;   /* the last round found too few, ... */
    unsigned replicas_had; /* ... namely so many */
};

static inline struct home *home_of(struct server *server) {
    return (struct home *)server;
}

/* Another connection may lead to another server, or to one that was restarted: what was known of its clock counts no more. */
static inline bool home_knows_clock(const struct home *home) {
    return home->clock_number == home->server.commands.number;
}

enum { REDIS_BUCKETS = 1024 };

struct redis {
    struct pawl__engine base;
    struct redis_options options;
    struct pawl__identity identity;
    char record[PAWL__RECORD_MAX];
    char url[4096];
    char uuid[REDIS_UUID + 1];
    SSL_CTX *tls, *sentinel_tls;
    struct addresses **sentinels; /* one for each place of the URL */
    size_t sentinel_at;           /* the one that is asked */

    /* cluster.c */
    struct server **slots; /* who has each of them, or NULL */
    bool mapped;
    bool moved, remapped; /* slots are elsewhere: claims are to follow; the whole map is new */
    unsigned uncovered;
    int64_t refresh_at, refreshed_at;
    int map_turn, map_turn_known;  /* counts what was asked for; of the last that was answered */
    struct server *refresh_server; /* who was asked last */

    /* listen.c */
    struct ear_list ears[REDIS_EARS], idle_ears;
    unsigned idle_ear_count;

    struct kit kit;
    pthread_cond_t called; /* a call that is not about a claim was answered */
    struct server_list servers;
    struct link_list speaking; /* those that may have something to say */
    size_t server_size;        /* what the layer above keeps of each is behind it, and made and freed with it */
    int (*made)(struct server *server);
    void (*gone)(struct server *server);
    struct rclaim_list claims, buckets[REDIS_BUCKETS];
    size_t claim_count, adopted_count; /* all; those that serve() looks after */
    bool woken, closing;
    int64_t refusal_due; /* until then the log hears of no other release that was refused */
    int epoll_fd;
};

static inline struct redis *redis_of(struct pawl__engine *engine) {
    return (struct redis *)engine;
}

static inline bool in_cluster(const struct redis *redis) {
    return redis->options.topology == TOPOLOGY_CLUSTER;
}

/* One of several servers that vote: see voter.h. */
static inline bool is_voter(const struct redis *redis) {
    return redis->options.layout == LAYOUT_VOTER;
}

static inline struct rclaim *rclaim_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

static inline bool rclaim_holds(const struct rclaim *claim) {
    return claim->state == RCLAIM_HOLDING || claim->state == RCLAIM_DOWNGRADING;
}

static inline void pawl__redis_lock(struct redis *redis) {
    pawl__kit_lock(&redis->kit);
}

/* Also has the service thread watch what it must from now on. */
static inline void pawl__redis_unlock(struct redis *redis) {
    pawl__kit_unlock(&redis->kit);
}

/* Work on what connections have to say; before the mutex is let go. */
void pawl__events_take(struct redis *redis);
/* The same right after a request whose answer its caller will wait for, or look for: who does reads it, so that the service thread need
 * not be made to. */
static inline void pawl__redis_unlock_asked(struct redis *redis) {
    pawl__events_take(redis);
    pawl__kit_unlock_quietly(&redis->kit);
}

/* See that the service thread wakes by `when`. */
static inline void pawl__redis_due(struct redis *redis, int64_t when) {
    if (when < redis->kit.asleep_until)
        redis->kit.wakes = true;
}

/* pump.c */

extern const struct kit_ops pawl__redis_kit;
/* Have the thread that reads look around. */
void pawl__home_kick_reader(struct home *home);
/* Wait until *done, reading meanwhile if nobody else does. For calls that are not about a claim. False: the deadline passed. */
bool pawl__home_wait(struct home *home, const bool *done, int64_t deadline);
/* Something was asked whose answer nobody waits for; whoever wants it looks now and then, and later the service thread does. */
void pawl__home_look_later(struct home *home);
/* Take what has been answered, unless somebody else reads. */
void pawl__home_look(struct home *home);
/* What is next by the clock, or `deadline`. */
int64_t pawl__redis_earliest(struct redis *redis, int64_t deadline);
pawl__serve_fn pawl__redis_serve;
pawl__wake_fn pawl__redis_wake;
pawl__park_fn pawl__redis_park;
pawl__unpark_fn pawl__redis_unpark;
pawl__adopt_fn pawl__redis_adopt;
/* In a cluster: the claim's slot is at another node now. */
void pawl__claim_rehome(struct redis *redis, struct rclaim *claim, struct home *home);

/* link.c: one connection. The mutex is held. */

void pawl__link_init(struct link *link, struct server *server, bool subscriber, const char *what);
/* Close it: what is unanswered is lost. Free it once that was pulled. */
void pawl__link_close(struct link *link);
void pawl__link_free(struct link *link);
/* The one place where its state changes. */
void pawl__link_step(struct link *link, enum link_event event);
/* The next that this connection has to say; false: nothing. */
bool pawl__link_next(struct link *link, struct wire_event *ret);
/* Ask. `answered` NULL: the answer is not heeded; the request may be NULL where nothing is answered in turn. False: no memory, and the link
 * is down. */
bool pawl__link_send(struct link *link, int argc, const char **argv, const size_t *lengths, const struct request *request);
/* The same for words. */
bool pawl__link_say(struct link *link, int argc, const char **argv, const struct request *request);
/* Write what is left to be written. */
void pawl__link_flush(struct link *link);
/* Read what there is: pawl__wire_next() has it. */
void pawl__link_read(struct link *link);
/* It is of no use any more: close it. That all that is unanswered is lost, and that it is down, is pulled. */
void pawl__link_drop(struct link *link, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
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
/* What one that is not up yet is waiting for, in words. */
const char *pawl__link_missing(const struct link *link);

/* server.c: the mutex is held, but for new and free. */

struct server *pawl__server_new(struct redis *redis, struct pawl_error *reterr);
/* Close its connections; free it once what they lost was pulled. */
void pawl__server_close(struct server *server);
void pawl__server_free(struct server *server);
/* The i-th of its connections; NULL: there are no more. */
struct link *pawl__server_link(struct server *server, int i);
/* Is this its place? Make it so; false: no memory. */
bool pawl__server_is_at(const struct server *server, const char *host, unsigned port);
bool pawl__server_put_at(struct server *server, const char *host, unsigned port);
/* Where the lock with this key is. */
struct server *pawl__server_for(const struct redis *redis, const char *lock);
/* Is it able to work? Its links are. */
bool pawl__server_up(const struct server *server);
/* It is not, but may well be in a moment. */
bool pawl__server_hopeful(struct server *server);
/* Why it is not, in words; and PAWL_EACCES if it would not let us in, else PAWL_ECONNLOST. */
const char *pawl__server_errortext(const struct server *server);
int pawl__server_errorcode(const struct server *server);
/* How often in a row its connections could not be made, at most. */
unsigned pawl__server_failures(struct server *server);
/* Do its connections lead to one server? If not they are dropped. */
bool pawl__server_is_one(struct server *server);
/* What it answered to the checks of its greeting. */
enum { SERVER_CHECKS = 3 };
void pawl__server_said(struct server *server, unsigned index, const redisReply *reply);

/* events.c: what is pulled, and handed on. */
/* At the end: only what was lost. */
void pawl__events_end(struct redis *redis);
int pawl__home_made(struct server *server);
void pawl__home_gone(struct server *server);
/* Set the code with which acquires end whose time is up. */
void pawl__redis_set_link(struct redis *redis);
/* A server says that a slot has moved: claims follow. False: that makes no sense. */
bool pawl__claims_moved(struct redis *redis, struct server *from, const redisReply *reply);
/* The node can't be had: those who only try don't wait. */
void pawl__claims_refuse_tries(struct home *home);
/* After so many failures in vain those who wait are told. */
void pawl__claims_give_up(struct home *home);
/* Go on with all claims of a node. */
void pawl__claims_drive(struct home *home);

/* warn.c: what about a server endangers locks. */
/* Once: what an operator should know. No mutex held. */
void pawl__server_warn(struct server *server);

/* options.c */
int pawl__redis_options(const struct pawl__setup *setup, struct redis_options *ret, struct pawl_error *reterr);
void pawl__redis_describe_url(const struct redis_options *options, char *buffer, size_t size);
/* How long open() waits for the names of its hosts: as long as for a connection. */
int64_t pawl__redis_names_until(const struct redis_options *options);

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

/* keys.c: how names become keys. */
struct redis_keys {
    char lock[REDIS_KEY_MAX], token[REDIS_KEY_MAX], queue[REDIS_KEY_MAX], who[REDIS_KEY_MAX];
    char witness[REDIS_KEY_MAX]; /* written so that replicas can be counted */
    char inbox[REDIS_KEY_MAX];   /* where pawls are told of it: with the client's uuid behind it, the channel */
    char channel[REDIS_KEY_MAX]; /* where Redisson listens; "": nowhere */
    char beside[REDIS_KEY_MAX];  /* prefix of the hold keys of a read-write lock; the sorted set of a semaphore */
};
void pawl__redis_keys(const struct redis *redis, const char *name, enum pawl_kind kind, struct redis_keys *ret);
/* Are all keys of this lock in one slot of a cluster? */
int pawl__redis_check_name(const struct redis *redis, const char *name, struct pawl_error *reterr);
/* What the keys of the counters of tokens begin with, and those of the queues. */
const char *pawl__redis_token_prefix(const struct redis *redis);
const char *pawl__redis_queue_prefix(const struct redis *redis);
/* The name of the lock whose record key this is; NULL: it is not one. */
const char *pawl__redis_name_of(const struct redis *redis, const char *key, size_t length, const char *prefix, char *buffer);

/* lua/build.py writes them; of a layout that has no such script: zeros. */
struct pawl__script {
    const char *sha1; /* as EVALSHA wants it */
    size_t length;
    const char *const *parts; /* NULL ends them */
};
extern const struct pawl__script pawl__scripts[REDIS_LAYOUTS][SCRIPT_COUNT], pawl__cluster_scripts[REDIS_LAYOUTS][SCRIPT_COUNT];

/* script.c */
/* Ask the server to run a script. */
bool pawl__script_send(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                       const struct request *request);
void pawl__script_answered(struct server *server, const struct request *request, const redisReply *reply);

/* reply.c: what answers mean. */
enum reply_class { REPLY_OK, REPLY_AGAIN, REPLY_NOSCRIPT, REPLY_READONLY, REPLY_MOVED, REPLY_ASK, REPLY_REFUSED };
/* Sort an answer; of an error, *ret says what to tell. */
enum reply_class pawl__reply_class(const redisReply *reply, struct pawl_error *ret);
/* The value of a line `key:value` of INFO; "" if there is none. */
void pawl__reply_info(const char *info, const char *key, char *ret, size_t size);
/* An element of an array as a number, in whatever form; `otherwise` if there is none. */
int64_t pawl__reply_number(const redisReply *reply, size_t index, int64_t otherwise);
/* Milliseconds from now, within what can be counted with; -1: none, or no end. */
int64_t pawl__reply_span(const redisReply *reply, size_t index);
/* Is it {1, first token, how many, ...}, with numbers that can be so? */
bool pawl__reply_grants(const redisReply *reply);

/* claim.c */

/* What every script about one lock is sent: KEYS, ARGV, and room for what is the operation's own. Each argument costs the server as much as
 * a command does: what the common cases do not read is packed into one of them, `rest`. */
enum { REDIS_CALL_KEYS = 4, REDIS_CALL_COMMON = 7, REDIS_ACQUIRE_ARGS = 10 };
#define REDIS_TOKENS_MOST (1 << 20)                /* given at once: scripts have 20 bits for it */
#define REDIS_SPAN_MOST (INT64_C(1) << 40)         /* ms that can be counted in ns */
#define REDIS_TOKEN_MAX UINT64_C(9007199254740991) /* Lua counts no further */
struct redis_call {
    struct redis_keys keys;
    char lease[24], floor[24], rest[3 * REDIS_KEY_MAX + PAWL__RECORD_MAX + 128];
    char *extra; /* the end of `rest`, where the operation's own goes */
    char want[24], record[PAWL__RECORD_MAX + 96];
    char *wish;       /* of an acquire: where in `record` what it wants begins; */
    const char *asks; /* and how it asks: "0" it would wait, "1" it only tries, "2" it is among those that wait */
    const char *argv[REDIS_ACQUIRE_ARGS];
};
/* `home`, whose floor for tokens is sent, may be NULL where the mutex is not held: then the server's clock is asked. */
void pawl__call_fill(const struct redis *redis, const struct home *home, const char *name, enum pawl_kind kind, const char *owner,
                     struct redis_call *ret);
/* Can there be such a claim? */
int pawl__claim_check(const struct redis *redis, const struct pawl__claim *claim, struct pawl_error *reterr);
/* The claim is there from here on, and is to be asked for. */
void pawl__claim_begin(struct redis *redis, struct pawl__claim *seam, struct home *home);
void pawl__claim_fill_acquire(struct redis *redis, struct rclaim *claim, struct redis_call *call);
/* The answer to acquire says that it is held. */
void pawl__claim_entered(struct redis *redis, struct rclaim *claim, const struct request *request, const redisReply *reply);
/* The answer says why it is not: 0, -1, -2, or something strange. */
void pawl__claim_misfit(const struct pawl__claim *claim, int64_t result, struct pawl_error *ret);
/* It is over without ever having been held. */
void pawl__claim_refuse(struct redis *redis, struct rclaim *claim, const struct pawl_error *why);
/* The same for a try that does not wait until the server can; one of several that are asked for together may be had by itself. */
void pawl__claim_not_now(struct redis *redis, struct rclaim *claim, const struct pawl_error *why);
pawl__submit_fn pawl__redis_submit;
pawl__withdraw_fn pawl__redis_withdraw;
pawl__downgrade_fn pawl__redis_downgrade;
pawl__extend_fn pawl__redis_extend;
pawl__extended_fn pawl__redis_extended;
pawl__hindered_fn pawl__redis_hindered;
/* Send what the claim's state asks for, if nothing is in flight for it and the connection is there. */
void pawl__claim_drive(struct redis *redis, struct rclaim *claim);
/* Drive the claim at `when`; to the moment, or together with others. */
void pawl__claim_set_timer(struct redis *redis, struct rclaim *claim, int64_t when, bool exact);
/* The same a little later each time: the server can't just now. */
void pawl__claim_try_later(struct redis *redis, struct rclaim *claim);
struct rclaim *pawl__claim_find(struct redis *redis, uint64_t id);
/* More threads wait for the claim than the server knows: tell it. */
void pawl__claim_want_more(struct redis *redis, struct rclaim *claim);
void pawl__claim_granted(struct redis *redis, struct rclaim *claim, uint64_t token, uint32_t count, int64_t sent_at,
                         int64_t lease_ns);
/* It is held from now on: what pawl__claim_granted does where no replicas are asked for, and secure.c where they have it. */
void pawl__claim_hold(struct redis *redis, struct rclaim *claim);
void pawl__claim_lost(struct redis *redis, struct rclaim *claim, bool broken, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The lease to ask for now: the engine's, or what the claim's max_hold leaves of it. */
int64_t pawl__claim_lease_ns(const struct redis *redis, const struct rclaim *claim);
/* The only one to change a claim's state: by the table, whose actions it carries out. False: it is ignored in this state. */
bool pawl__claim_step(struct redis *redis, struct rclaim *claim, enum rclaim_event event);

/* state.c: the table. False: it is ignored. */
bool pawl__claim_moves(enum rclaim_state state, enum rclaim_event event, struct rclaim_move *ret);

/* set.c */
pawl__submit_all_fn pawl__redis_submit_all;
/* In a cluster: the claim ends, or is elsewhere now. If it is one of those that this request is about, the answer is not for it. */
void pawl__together_detach(struct request *request, const struct rclaim *claim);

/* push.c: what comes by the inbox. */
/* A request that left at `local` was worked on when the server's clock showed `server_us`. The first on a connection is the floor of
 * tokens. */
void pawl__push_tie(struct home *home, int64_t local, int64_t server_us);
void pawl__push_take(struct home *home, const redisReply *reply);
/* Claims at this node listen to no foreign holders any more; asking again will tell whether they must. */
void pawl__push_deaf(struct home *home);
/* In a cluster: what is said of a channel of foreign programs. */
void pawl__push_foreign(struct redis *redis, const char *channel, bool subscribed);
/* Listen, or not any more, where the holders of this claim's lock that are not pawl tell of their releases. */
void pawl__push_listen(struct redis *redis, struct rclaim *claim);
void pawl__push_unlisten(struct redis *redis, struct rclaim *claim);
/* layout=plain: have the server tell of the end of foreign holds, if it can and we may. */
void pawl__push_track(struct home *home);
/* Before an acquire of a claim whose lock is held by a foreign program: what it reads is to be tracked. */
void pawl__push_track_next(const struct rclaim *claim);
/* After the inbox was connected anew. */
void pawl__push_listen_again(struct home *home);

/* renew.c */
pawl__renew_fn pawl__redis_renew;
void pawl__renew_flush(struct home *home);
/* Renew all holds that are there, to see whether they are. */
void pawl__renew_all(struct home *home);
/* Renew one, to see whether it is there. */
void pawl__renew_want(struct rclaim *claim);
/* In a cluster: the claim ends, or is elsewhere now; what is on its way is not heeded any more. */
void pawl__claim_detach(struct redis *redis, struct rclaim *claim);
/* No renewal of this claim leaves any more: its withdrawal does, and with the answer to that the claim is gone. */
void pawl__renew_forget(struct rclaim *claim);
/* The server has renewed the claim, or not: it is not its owner's any more. */
void pawl__renew_answered(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns, int64_t held);

/* voter.c */
extern const struct pawl__member_ops pawl__redis_member;
/* Make the arguments of acquire or release those of a voter's script; returns how many of them are keys. */
int pawl__voter_call(const struct rclaim *claim, int script, struct redis_call *call, int *retargc);
/* The lock is not free: say so, and until when. */
void pawl__voter_waits(struct redis *redis, struct rclaim *claim, int64_t ms_left);

/* A renewal counts, or must be made again: for secure.c. */
void pawl__renew_done(struct redis *redis, struct rclaim *claim, int64_t sent_at, int64_t lease_ns);
void pawl__renew_put_back(struct rclaim *claim);

/* sentinel.c: the mutex is held, but at open. */
int pawl__sentinel_setup(struct server *server, struct pawl_error *reterr);
void pawl__sentinel_free(struct redis *redis);
/* Find out where the primary is, and make the connections that wait for that. */
void pawl__sentinel_ask(struct server *server);
/* The connection to a sentinel is gone. */
void pawl__sentinel_changed(struct server *server);
/* What a sentinel answered; one that is of no use is dropped. */
void pawl__sentinel_answer(struct server *server, const redisReply *reply);
void pawl__sentinel_push(struct server *server, const redisReply *reply);
void pawl__sentinel_tick(struct server *server);
void pawl__sentinel_check_role(struct server *server, const redisReply *reply);

/* judge.c: is the server what the URL says? If not its connection is dropped. */
void pawl__route_judge(struct server *server, enum greeting step, const redisReply *reply);

/* cluster.c: the mutex is held, but at open. */
int pawl__cluster_setup(struct redis *redis, struct pawl_error *reterr);
/* Have all of the nodes that are known failed? Then why the last one did; else NULL. */
const struct pawl_error *pawl__cluster_failed(struct redis *redis);
/* Claims have followed a new map: leave what is of no use any more. */
void pawl__cluster_settle(struct redis *redis);
/* The slot of a key; and of the lock of this name. */
unsigned pawl__cluster_slot(const char *key);
unsigned pawl__cluster_slot_of(const struct redis *redis, const char *name);
/* Have it connected. */
void pawl__server_want(struct server *server);
/* Ask for the map again, soon. */
void pawl__cluster_refresh(struct redis *redis);
/* A node is connected. */
void pawl__cluster_reached(struct redis *redis);
void pawl__cluster_tick(struct redis *redis, int64_t now);
/* What a node says of a slot: it has moved (false: that makes no sense); or this is to be asked elsewhere, for once (NULL: the same). */
bool pawl__cluster_moved(struct server *from, const redisReply *reply);
struct server *pawl__cluster_asked(struct server *from, const redisReply *reply);

/* listen.c */
void pawl__ears_init(struct redis *redis);
void pawl__ears_free(struct redis *redis);
/* Can the claim be told where it is? */
bool pawl__ear_on(const struct rclaim *claim);
/* Join the ear of its lock if there is one; make it hear. */
void pawl__ear_find(struct redis *redis, struct rclaim *claim);
void pawl__ear_open(struct redis *redis, struct rclaim *claim);
void pawl__ear_leave(struct redis *redis, struct rclaim *claim);
/* The server says that a channel is subscribed to, or not any more. False: it is not that of an ear. */
bool pawl__ear_told(struct home *home, const char *channel, bool subscribed);
/* The server would not subscribe to one of the channels that it was asked for. */
void pawl__ears_refused(struct home *home);
/* Nothing is subscribed to at this node any more. */
void pawl__ears_off(struct home *home);

/* secure.c */
/* Have replicas confirm the grant of a claim in SECURING, or the renewal of one that holds, whose request left at `sent_at`. */
void pawl__secure(struct rclaim *claim, int64_t sent_at, int64_t lease_ns);
void pawl__secure_forget(struct rclaim *claim);
/* One of the connections that it takes is gone; or all of them are there, and something may have waited for that. */
void pawl__secure_anew(struct home *home);
/* What to tell who tried. */
void pawl__secure_failed(const struct home *home, const char *name, struct pawl_error *ret);

/* examine.c */
pawl__examine_fn pawl__redis_examine;

/* survey.c */
/* Run a command (script -1) or a script, and wait for its answer, which is not an error. NULL: reterr says why. `lengths` of a script's
 * arguments; NULL: they are texts. */
redisReply *pawl__server_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                              struct pawl_error *reterr);
/* The next server that has locks, after `server` or from the first; NULL: there are no more. No mutex held. */
struct server *pawl__server_next(struct redis *redis, struct server *server);
pawl__survey_fn pawl__redis_survey;
pawl__break_fn pawl__redis_break;

#endif
