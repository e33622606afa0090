/* SPDX-License-Identifier: Apache-2.0
 *
 * zk.h - the ZooKeeper engine: its objects, and who owns and guards them.
 *
 *     struct zk_engine    one client: the session, its requests, its claims                                        session.c, engine.c
 *       struct zk_op      a request on its way; answered exactly once, by the library or, when a handle dies, by us      request.c
 *       struct zk_watch   a watch that the library has, or is about to have                                          watch.c
 *       struct zk_claim   the engine's state of one claim    claim.c, admit.c, node.c, rejoin.c, semaphore.c, downgrade.c, recheck.c
 *       struct zk_doomed  a node of ours that must go; outlives the claim that made it                                   sweep.c
 *
 * Beside them: order.c (names and who stands ahead of whom, pure), path.c (names of locks to paths, pure), renew.c (how long a
 * hold is assured, and the requests that renew it), survey.c and examine.c (for operators), four_letter.c
 * (four-letter words).
 *
 * Threads. libzookeeper's single-threaded variant has static state (the counter of its request numbers is one for the process), so
 * one mutex, pawl__zk_mutex, guards all handles of the process and with them all objects here. It is never held over poll, name
 * look-up, an upcall or a note. Requests are issued by any thread, and written to the socket at once; only serve() reads. So
 * completions and watchers, and all that follows from them, run on the service thread, with the mutex held; what the core is to be
 * told is put on zk->news, and told when the mutex is free.
 *
 * Memory. A claim may vanish after its last news; requests and watches that still speak of it are cut off from it first (their
 * `claim` becomes NULL), and what they find then goes to the sweep.
 */
#ifndef PAWL_ZK_H
#define PAWL_ZK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <zookeeper/zookeeper.h>

#include "engine/engine.h"
#include "base/record.h"
#include "base/url.h"
#include "engine/zookeeper/lock/order.h"

#define ZK_MS INT64_C(1000000)
#define ZK_S (1000 * ZK_MS)
/* A hold that lasts longer watches its own node, so that a break is heard at once; shorter ones save the request. */
#define ZK_WATCH_OWN_NS ZK_MS

enum {
    ZK_TOKEN_BITS = 7,     /* tokens per node: 128 */
    ZK_BEAT_NODES = 128,   /* nodes that one heartbeat checks; a claim's are never split */
    ZK_PERMITS_MAX = 1000, /* of one claim: they are made by one request, which must stay far below 1 MB */
    ZK_DATA_MAX = PAWL__RECORD_MAX + 128,
    ZK_ROOM = 256, /* requests on their way, beyond which new claims stand in line: admit.c */
    ZK_DEEP = 8,   /* with so many requests on their way the service thread sees to what the socket did not take */
};

struct zk_engine;
struct zk_claim;
struct zk_listing;
struct zk_op;
struct zk_watch;

extern pthread_mutex_t pawl__zk_mutex;

/* ---- Requests: request.c ------------------------------------------------------------------------------------------------------- */

/* What came back. Only the fields that the request has; the rest is NULL. */
struct zk_reply {
    int rc;
    const char *path; /* create: the node's full path */
    const struct Stat *stat;
    const struct String_vector *children;
    const char *data;
    int length;
    const struct ACL_vector *acl;
};

typedef void zk_done_fn(struct zk_op *op, const struct zk_reply *reply);

struct zk_op {
    TAILQ_ENTRY(zk_op) link;     /* zk->ops */
    TAILQ_ENTRY(zk_op) of_claim; /* claim->ops */
    struct zk_engine *zk;
    struct zk_claim *claim; /* NULL: of no claim, or of one that was withdrawn */
    uint32_t round;         /* claim->round when it was sent: an answer to an earlier round says nothing any more */
    zk_done_fn *done;
    bool writes; /* goes through the leader: its success proves the session */
    bool failed; /* the library did not take it */
    int error;   /* why */
    int64_t sent_at;
    void *data; /* of whoever sent it */
    struct zk_watch *watch;
    char guid[ZK_GUID_SIZE];  /* create: so that the node can be found if the reply is lost */
    char *where;              /* create: its directory */
    zoo_op_result_t *results; /* multi */
    int result_count;
};

/* Was the reply lost, so that what was asked may have happened or not? */
bool pawl__zk_reply_lost(int rc);

/* A request that is to be sent; NULL: out of memory. */
struct zk_op *pawl__zk_op_new(struct zk_engine *zk, struct zk_claim *claim, zk_done_fn *done, void *data);
/* Send it. What the library refuses is answered by the service thread, as if the connection had been lost. */
void pawl__zk_create(struct zk_op *op, const char *path, const char *data, int length, int flags);
void pawl__zk_delete(struct zk_op *op, const char *path);
void pawl__zk_list(struct zk_op *op, const char *path, struct zk_watch *watch);
void pawl__zk_get(struct zk_op *op, const char *path, struct zk_watch *watch);
void pawl__zk_get_acl(struct zk_op *op, const char *path);
void pawl__zk_set(struct zk_op *op, const char *path, const char *data, int length, int version);
void pawl__zk_sync(struct zk_op *op, const char *path);
void pawl__zk_multi(struct zk_op *op, const zoo_op_t *operations, int count);
void pawl__zk_unwatch(struct zk_op *op, const char *path, bool children);
/* Without asking the server, which has it no more. */
void pawl__zk_forget_watch(struct zk_engine *zk, const char *path, bool children);
void pawl__zk_uncork(struct zk_engine *zk); /* let what was sent leave */
void pawl__zk_op_cut(struct zk_op *op);     /* from its claim */
/* The claim that the answer is for; NULL: it was withdrawn, or has gone on since. */
struct zk_claim *pawl__zk_asked_for(const struct zk_op *op);
/* Answer what the library did not take; all = everything, since the handle is gone. */
void pawl__zk_ops_fail(struct zk_engine *zk, bool all);

/* ---- Watches: watch.c ----------------------------------------------------------------------------------------------------- */

typedef void zk_fired_fn(struct zk_claim *claim, int type);

struct zk_watch {
    TAILQ_ENTRY(zk_watch) link;       /* zk->watches */
    LIST_ENTRY(zk_watch) same_bucket; /* of zk->buckets */
    struct zk_engine *zk;
    struct zk_claim *claim; /* NULL: nobody waits for it any more */
    zk_fired_fn *fired;
    uint32_t hash; /* of `path` */
    bool children; /* on a directory's children; else on a node's data */
    bool armed;    /* the server has it */
    bool missed;   /* the server had it before the connection was cut; its claim asks again */
    bool removing; /* to be taken back; `remover` is the request, NULL until it can be sent */
    struct zk_op *remover;
    char path[];
};

LIST_HEAD(zk_bucket, zk_watch);

/* For the next pawl__zk_get or _list; NULL: out of memory. */
struct zk_watch *pawl__zk_watch_new(struct zk_claim *claim, const char *path, bool children, zk_fired_fn *fired);
/* The request that was to set it was answered. False: it was not set, and is gone. */
bool pawl__zk_watch_set(struct zk_watch *watch, int rc);
/* Nobody waits for it any more: take it back from the server. */
void pawl__zk_watch_drop(struct zk_watch *watch);
/* The connection is cut: the server has none of them any more. Who relied on one looks again. */
void pawl__zk_watches_miss(struct zk_engine *zk);
/* The handle is gone, and all watches with it. */
void pawl__zk_watches_forget(struct zk_engine *zk);
void pawl__zk_on_watch(zhandle_t *handle, int type, int state, const char *path, void *data);

/* ---- Claims --------------------------------------------------------------------------------------------------------------- */

/* claim.c has the table of the allowed transitions. */
enum zk_state {
    ZK_NEW,
    ZK_OFFLINE,  /* no connection, or no room: begins when there is */
    ZK_CREATING, /* create and list are on their way */
    ZK_FINDING,  /* the reply to create was lost: look for the node by its GUID */
    ZK_QUEUED,   /* the node is there: list and watch, again and again */
    ZK_LEASING,  /* a semaphore's: first in `locks`; makes its leases and waits for room */
    ZK_PROVING,  /* first in line, but the session was last proved too long ago: wait for a heartbeat */
    ZK_HELD,
    ZK_DOWNGRADING, /* held; the write node is being exchanged for a read node */
    ZK_OVER,        /* withdrawn or refused: nothing of it is left but its last news */
};

enum {
    ZK_TELL_GRANTED = 1,
    ZK_TELL_RENEWED = 2,
    ZK_TELL_LOST = 4,
    ZK_TELL_SETTLED = 8,
    ZK_TELL_REFUSED = 16,
    ZK_TELL_DOWNGRADED = 32
};

struct zk_claim {
    TAILQ_ENTRY(zk_claim) link;       /* zk->claims */
    TAILQ_ENTRY(zk_claim) news;       /* zk->news, while `tell` is not 0 */
    TAILQ_ENTRY(zk_claim) line;       /* zk->line, while `in_line` */
    TAILQ_ENTRY(zk_claim) timed;      /* zk->timed, while there is a `look_at` */
    TAILQ_ENTRY(zk_claim) of_listing; /* of `listing`, while it is not NULL */
    struct zk_listing *listing;
    struct zk_engine *zk;
    struct pawl__claim *claim;
    /* As they were at submit: the core's are its own to change. */
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    bool try_only, nonreentrant;

    enum zk_state state;
    uint32_t round;      /* goes up with every step that makes earlier answers worthless */
    bool in_line;        /* waits for room to begin */
    bool stalled;        /* an answer was lost: go on when the connection is back */
    bool second_look;    /* seemed to be in use as another kind: it may have been on its way out */
    bool lost, broken;   /* the core was told so; `broken`: by an operator */
    bool kind_seen;      /* contenders of another kind were in the lock's path */
    int64_t look_at;     /* when to look again; PAWL__NEVER: an event will tell. Set by pawl__zk_look_at() */
    int64_t waits_since; /* for whom it watches now; or since it last asked whether that one is still there */
    int64_t try_until;   /* a semaphore's try: how long others may pass through `locks` ahead of it */
    unsigned tell;
    struct pawl_error why;

    enum zk_layout layout;
    char guid[ZK_GUID_SIZE];
    char *home;    /* the lock's own path */
    char *dir;     /* where its queue is: home, or home/locks */
    char *node;    /* full path of its node there; NULL: none, or not known */
    char *twin;    /* compat=kazoo: of the second one */
    char **leases; /* semaphores: lease_count paths */
    uint32_t lease_count;
    int64_t czxid;
    uint64_t session; /* the handle under which the node was made */

    TAILQ_HEAD(, zk_op) ops;
    struct zk_watch *watch;     /* on whom it waits for */
    struct zk_watch *far_watch; /* on the one ahead of that one */
    struct zk_watch *own_watch; /* on its own node: so that a break is heard at once */
    bool gone_already;          /* whom it waited for was gone before it could be watched; only our own node is to be seen yet */
    bool next_in_line;          /* whom it waits for was the only one ahead, in a list that had our own node in it */
    char *last;                 /* who stood last behind it, by the latest list; NULL: not two, or of no use */
    int64_t last_seen_at;
};

/* ---- The engine ----------------------------------------------------------------------------------------------------------- */

/* A node that must go: guaranteed, until it is gone or its session is. */
struct zk_doomed {
    TAILQ_ENTRY(zk_doomed) link;
    struct zk_engine *zk;
    uint64_t session;
    bool by_guid; /* `path` is the directory, and the node's name is not known */
    bool sent;
    bool stale;        /* by_guid: the server had not caught up when it was asked for the list */
    unsigned looks;    /* by_guid: how often nothing was found */
    unsigned refusals; /* how often the server said no */
    int64_t look_at;   /* not before */
    char guid[ZK_GUID_SIZE];
    char path[];
};

/* Who stood last behind a claim that was let go: rejoin.c. */
struct zk_memory {
    char *dir; /* NULL: nothing is remembered */
    char *last;
    int64_t seen_at, left_at;
};

struct zk_note {
    TAILQ_ENTRY(zk_note) link;
    struct pawl__claim claim; /* its name only */
    bool about;               /* a claim */
    bool warning;
    char name[256];
    char text[480];
};

TAILQ_HEAD(zk_note_list, zk_note);

struct zk_host {
    char name[256];
    unsigned port;
    char where[PAWL__URL_PLACE]; /* both, for people */
};

struct zk_engine {
    struct pawl__engine base;

    /* From the URL: fixed. */
    struct zk_host *hosts;
    size_t host_count;
    char *base_path; /* "" or "/a/b" */
    char url[5120];  /* without secrets; lives as long as the engine's memory */
    char *secret;    /* user:password for digest; NULL: none */
    bool creator_acl, kazoo;
    int64_t asked_ms; /* session time that is asked for */
    int64_t tick_ns;  /* ?tick=; 0: not known */
    int64_t connect_ns;
    int64_t retry_base, retry_max;
    long long retry_tries; /* 0: for ever */
    struct pawl__identity identity;
    char record[PAWL__RECORD_MAX];

    /* The session: session.c. */
    zhandle_t *handle;
    uint64_t session;   /* counts the handles: what was made under another one died with it */
    int64_t session_id; /* the server's number; what ephemeralOwner must be */
    int64_t timeout_ns; /* T, as negotiated */
    bool connected, expired, auth_failed;
    bool fresh;     /* a session that was not connected yet */
    bool corked;    /* requests are kept back until the mutex is let go */
    bool torn;      /* the library closed its socket while sending, and told nobody */
    _Atomic int fd; /* the library's socket, for forked() */
    int event_fd;
    _Atomic bool woken;
    int64_t attempt_at; /* when this attempt to connect began */
    int64_t next_attempt;
    int64_t resolve_at;
    unsigned attempts;                      /* failed since the last success */
    int64_t interest_due, late_ns, late_at; /* how late the library's pings were: renew.c */
    int64_t proved_at;                      /* when the last request left that went through the leader and was answered */
    bool beat_due;                          /* a heartbeat is wanted */
    unsigned beats;                         /* on their way */
    int64_t doubt_at;                       /* when to look next whether anybody waits for too long */
    uint64_t requests;                      /* sent so far; for bench */
    unsigned op_count;
    int64_t crowded_until; /* while there is no room, no claim looks again before that */
    struct zk_memory memory;
    unsigned random;

    TAILQ_HEAD(, zk_op) ops;
    TAILQ_HEAD(, zk_watch) watches;
    struct zk_bucket *buckets; /* the same by path, in so many lists; a power of two, or 0 */
    uint32_t bucket_count, watch_count;
    TAILQ_HEAD(, zk_claim) claims;
    TAILQ_HEAD(, zk_claim) news;
    TAILQ_HEAD(, zk_claim) line;
    TAILQ_HEAD(, zk_claim) timed;
    TAILQ_HEAD(, zk_listing) listings; /* that are not sent yet */
    TAILQ_HEAD(, zk_doomed) doomed;
    struct zk_note_list notes;
    pthread_cond_t changed; /* something that a caller waits for: open, close, survey */
};

static inline struct zk_engine *zk_of(struct pawl__engine *engine) {
    return (struct zk_engine *)engine;
}

static inline struct zk_claim *zk_claim_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

/* The mutex, and what is due when it is let go: notes. */
void pawl__zk_lock(void);
void pawl__zk_unlock(struct zk_engine *zk);
/* Say it when the mutex is free. */
void pawl__zk_say(struct zk_engine *zk, const struct zk_claim *claim, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void pawl__zk_warn(struct zk_engine *zk, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* engine.c */
char *pawl__zk_text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* allocated; NULL: out of memory */
const struct ACL_vector *pawl__zk_acl(const struct zk_engine *zk);

/* session.c */
int pawl__zk_session_open(struct zk_engine *zk, struct pawl_error *reterr);
void pawl__zk_session_close(struct zk_engine *zk, int64_t deadline);
/* With a tick longer than the session nearly nothing of it is assured: a hold would be lost as soon as it was granted. Servers may grant
 * less than they did before, when the connection is made anew. */
int pawl__zk_check_tick(const struct zk_engine *zk, struct pawl_error *reterr);
/* After a request: did the library lose its socket over it? */
void pawl__zk_check_socket(struct zk_engine *zk);
/* Break the connection: the library goes on to the next server. */
void pawl__zk_leave_server(struct zk_engine *zk);
pawl__serve_fn pawl__zk_serve;
pawl__wake_fn pawl__zk_wake;

/* claim.c */
pawl__submit_fn pawl__zk_submit;
pawl__withdraw_fn pawl__zk_withdraw;
/* Begin, or begin anew with a new node: there is a connection, or the claim waits for one. */
void pawl__zk_start(struct zk_claim *claim);
/* Go on after a reconnect. */
void pawl__zk_resume(struct zk_claim *claim);
/* The session is gone, and the claim's nodes with it. */
void pawl__zk_session_lost(struct zk_claim *claim);
void pawl__zk_set_state(struct zk_claim *claim, enum zk_state state);
void pawl__zk_tell(struct zk_claim *claim, unsigned what);
void pawl__zk_refuse(struct zk_claim *claim, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Refuse with what ZooKeeper's code says to a person. */
void pawl__zk_refuse_rc(struct zk_claim *claim, int rc, const char *doing, const char *path);
void pawl__zk_lose(struct zk_claim *claim, bool broken, const char *format, ...) __attribute__((format(printf, 3, 4)));
void pawl__zk_stall(struct zk_claim *claim);
/* Does it rely on an event that is to come? */
static inline bool pawl__zk_waits(const struct zk_claim *claim) {
    return (claim->state == ZK_QUEUED || claim->state == ZK_LEASING) && claim->watch;
}
/* Nobody is ahead: hold, as soon as the session is proved. */
void pawl__zk_grant(struct zk_claim *claim);
/* A request that left at `sent_at` and went through the leader was answered: the session lived then. */
void pawl__zk_proved(struct zk_engine *zk, int64_t sent_at);
/* A heartbeat that left at `sent_at` found all nodes of the claim: it is renewed, or held from now on. */
void pawl__zk_checked(struct zk_claim *claim, int64_t sent_at);
void pawl__zk_look(struct zk_claim *claim); /* list the queue again */
/* List a directory as it is now: a server that lags behind catches up first. `dir` may be NULL: out of memory. */
void pawl__zk_list_fresh(struct zk_claim *claim, const char *dir, zk_done_fn *done, void *data);
/* Wait for this one, which is ahead of the claim's node. */
void pawl__zk_watch_ahead(struct zk_claim *claim, const char *child);
void pawl__zk_listed(struct zk_claim *claim, const struct zk_reply *reply); /* the answer to that */
void pawl__zk_next_round(struct zk_claim *claim); /* what was asked for until now does not matter any more */
bool pawl__zk_limit_differs(struct zk_claim *claim, const struct String_vector *children); /* then it was refused */
void pawl__zk_node_data(const struct zk_claim *claim,
                        char data[ZK_DATA_MAX]);                  /* the owner's record, and what only this engine tells */
bool pawl__zk_leased(const struct zk_claim *claim);               /* in a semaphore's layout? */
void pawl__zk_foreign(struct zk_claim *claim, const char *child); /* the child is another kind's: look twice, then refuse */
/* Set `look_at`, and keep zk->timed in step. */
void pawl__zk_look_at(struct zk_claim *claim, int64_t when);
/* When it has come. */
void pawl__zk_look_again(struct zk_claim *claim, int64_t now);
const char *pawl__zk_short(const char *path); /* the last component, without what every reader knows: "lock-0000000003" */

void pawl__zk_forget_nodes(struct zk_claim *claim);

/* admit.c */
void pawl__zk_enter(struct zk_claim *claim); /* begin, when there is room */
void pawl__zk_leave_line(struct zk_claim *claim);
void pawl__zk_admit(struct zk_engine *zk);
/* List the queue; the answer comes to pawl__zk_listed() unless the claim has left by then. */
void pawl__zk_send_list(struct zk_claim *claim);
void pawl__zk_leave_listing(struct zk_claim *claim);
void pawl__zk_send_listings(struct zk_engine *zk); /* before the mutex is let go */

/* node.c */
void pawl__zk_create_node(struct zk_claim *claim); /* and list, in one go */
void pawl__zk_find_node(struct zk_claim *claim);   /* the reply to create was lost */
/* Make the directories on the way to `path`, all of them, then go on with `done`. False: out of memory. */
bool pawl__zk_make_path(struct zk_claim *claim, const char *path, zk_done_fn *done);

/* lookahead.c */
bool pawl__zk_looks_ahead(const struct zk_claim *claim); /* is it for this kind of lock? */
/* Whoever the claim waits for is watched; `further` is the one ahead of that, NULL: none. */
void pawl__zk_look_ahead(struct zk_claim *claim, const char *further);
/* The one it waited for was deleted: does it hold, without a further look? */
bool pawl__zk_is_next(const struct zk_claim *claim);
/* It was gone before it could be watched, and the watch on our own node is on its way: its answer decides. */
bool pawl__zk_is_nearly_next(const struct zk_claim *claim);

/* rejoin.c */
extern int64_t pawl__zk_rejoin_ns; /* for how long a memory is good; tests raise it */
/* From a list of the claim's queue. */
void pawl__zk_remember_last(struct zk_claim *claim, const struct String_vector *children);
/* The claim is withdrawn: the next one may want to know. */
void pawl__zk_leave_memory(struct zk_claim *claim);
void pawl__zk_forget_memory(struct zk_engine *zk);
/* A node was asked for: wait behind whom we remember. False: there is nobody, and a list is needed. */
bool pawl__zk_rejoin(struct zk_claim *claim);
/* Our own number is known: is the one that we stand behind ahead of it? */
void pawl__zk_rejoined(struct zk_claim *claim, int64_t number);

/* recheck.c */
extern int64_t pawl__zk_doubt_sessions; /* so many session times one waits before it doubts; tests lower it */
/* Have those who wait for long ask whether they wait for somebody who is gone. Returns when to look again. */
int64_t pawl__zk_doubt(struct zk_engine *zk, int64_t now);

/* downgrade.c */
pawl__downgrade_fn pawl__zk_downgrade;
void pawl__zk_downgrade_resume(struct zk_claim *claim);

/* semaphore.c: from the moment that the claim is first in `locks` */
void pawl__zk_lease(struct zk_claim *claim);
void pawl__zk_lease_resume(struct zk_claim *claim);
/* Does the directory's other layout have claims? Then the name is in use as another kind. */
void pawl__zk_check_kind(struct zk_claim *claim);

/* sweep.c */
void pawl__zk_doom(struct zk_engine *zk, const char *path);
void pawl__zk_doom_guid(struct zk_engine *zk, const char *dir, const char *guid);
void pawl__zk_doom_claim(struct zk_claim *claim); /* all its nodes, and those that may be there */
void pawl__zk_sweep(struct zk_engine *zk, int64_t now);
int64_t pawl__zk_sweep_at(const struct zk_engine *zk);
void pawl__zk_sweep_resume(struct zk_engine *zk, bool same_session);

/* renew.c */
int64_t pawl__zk_assured(int64_t timeout_ns, int64_t tick_ns, int64_t late_ns);
int64_t pawl__zk_lease_ns(const struct zk_engine *zk, int64_t sent_at);
void pawl__zk_beat(struct zk_engine *zk);
/* Be told at once when the node of a hold is changed or deleted. */
void pawl__zk_watch_own(struct zk_claim *claim);
void pawl__zk_beat_cut(struct zk_claim *claim);
pawl__renew_fn pawl__zk_renew;

/* survey.c */
pawl__survey_fn pawl__zk_survey;
pawl__break_fn pawl__zk_break;

/* examine.c */
pawl__examine_fn pawl__zk_examine;

/* path.c */
char *pawl__zk_home(const struct zk_engine *zk, const char *name, struct pawl_error *reterr, int *rc);

#endif
