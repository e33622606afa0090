/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - one client's session with ZooKeeper: the connection, requests, watches. It knows no claim.
 *
 *     struct zk_session   the handle of the library, and all that hangs on it          session.c (THE TABLE), connect.c, proof.c, mutex.c
 *       struct zk_op      a request on its way; answered exactly once, by the library or, when a handle dies, by us      request.c
 *       struct zk_watch   a watch that the library has, or is about to have                                              watch.c
 *     struct zk_asker     the one that asks: a claim. What an answer or an event of a watch means to it, it is told by one function
 *
 * When is a session dead? By our own clock when nothing proved it alive for long enough: proof.c, and base/lease.c, by which the core ends
 * the holds. By the server's word, when it says so: connect.c, on_session_event() and is_over(). The table only keeps what they found.
 *
 * Up goes by these two: an asker's step(), and the news of the session, which are pulled (pawl__zk_session_news).
 *
 * Threads. libzookeeper's single-threaded variant has static state (the counter of its request numbers is one for the process), so
 * one mutex, pawl__zk_mutex, guards all handles of the process and with them all objects of the engine. It is never held over poll, name
 * look-up, an upcall or a note. Requests are issued by any thread, and written to the socket at once; only serve() reads. So
 * completions and watchers, and all that follows from them, run on the service thread, with the mutex held.
 */
#ifndef PAWL_ZK_SESSION_H
#define PAWL_ZK_SESSION_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <zookeeper/zookeeper.h>

#include "base/url.h"
#include "engine/engine.h"
#include "engine/kit/notes.h"
#include "engine/kit/retry.h"

#define ZK_MS INT64_C(1000000)
#define ZK_S (1000 * ZK_MS)

enum {
    ZK_MARK_SIZE = 40,
    ZK_LARGE = 4096, /* bytes */
    ZK_DEEP = 8,     /* with so many requests on their way the service thread sees to what the socket did not take */
    ZK_ANSWERED = 64,
};

struct zk_op;
struct zk_session;
struct zk_watch;

/* Who asks. An answer, or the event of a watch, means an event to it; 0 means nothing. */
struct zk_asker {
    TAILQ_HEAD(, zk_op) ops;
    uint32_t number; /* goes up with every step that makes earlier answers worthless */
    void (*step)(struct zk_asker *asker, int event);
};

/* ---- Requests: request.c -------------------------------------------------------------------------------------------------- */

/* What came back. Only the fields that the request has; the rest is NULL. */
struct zk_reply {
    int rc;
    const char *path; /* create: the znode's full path */
    const struct Stat *stat;
    const struct String_vector *children;
    const char *data;
    int length;
    const struct ACL_vector *acl;
};

/* The event that the answer is to the asker. Who asked for nobody returns 0. */
typedef int zk_done_fn(struct zk_op *op, const struct zk_reply *reply);

struct zk_op {
    TAILQ_ENTRY(zk_op) link;     /* session->ops */
    TAILQ_ENTRY(zk_op) of_asker; /* asker->ops */
    struct zk_session *session;
    struct zk_asker *asker; /* NULL: of nobody, or of one that has gone */
    uint32_t number;        /* asker->number when it was sent: an answer to an earlier one says nothing any more */
    zk_done_fn *done;
    bool writes; /* goes through the leader: its success proves the session */
    bool large;  /* the socket may not take it at once */
    bool failed; /* the library did not take it */
    int error;   /* why */
    int64_t sent_at;
    int64_t before, after; /* when it was sent: what its answer, and with others that of another one, will prove (proof.c) */
    void *data;            /* of the sender */
    struct zk_watch *watch;
    char mark[ZK_MARK_SIZE];  /* create: so that the znode can be found if the reply is lost */
    char *where;              /* create: its directory */
    zoo_op_result_t *results; /* multi */
};

/* Was the reply lost, so that what was asked may have happened or not? */
bool pawl__zk_reply_lost(int rc);

/* A request that is to be sent; NULL: out of memory. */
struct zk_op *pawl__zk_op_new(struct zk_session *session, struct zk_asker *asker, zk_done_fn *done, void *data);
/* Send it. What the library refuses is answered by the service thread, as if the connection had been lost. */
void pawl__zk_create(struct zk_op *op, const char *path, const char *data, int length, int flags);
void pawl__zk_delete(struct zk_op *op, const char *path);
void pawl__zk_list(struct zk_op *op, const char *path, struct zk_watch *watch);
/* The same, with the Stat of the directory; for operators. */
void pawl__zk_list_stat(struct zk_op *op, const char *path);
void pawl__zk_get(struct zk_op *op, const char *path, struct zk_watch *watch);
/* A watch on what is not there is set, too: see pawl__zk_watch_set. */
void pawl__zk_exists(struct zk_op *op, const char *path, struct zk_watch *watch);
void pawl__zk_get_acl(struct zk_op *op, const char *path);
void pawl__zk_set(struct zk_op *op, const char *path, const char *data, int length, int version);
void pawl__zk_sync(struct zk_op *op, const char *path);
void pawl__zk_multi(struct zk_op *op, const zoo_op_t *operations, int count);
void pawl__zk_unwatch(struct zk_op *op, const char *path, bool children);
void pawl__zk_op_fail(struct zk_op *op, int rc); /* instead of sending it: it is answered by this code */
void pawl__zk_asker_init(struct zk_asker *asker, void (*step)(struct zk_asker *, int));
void pawl__zk_asker_cut(struct zk_asker *asker); /* it goes: its requests are nobody's */
/* Does the answer still matter to whom it is for? */
bool pawl__zk_is_asked(const struct zk_op *op);
/* Answer what the library did not take; all = everything, since the handle is gone. */
void pawl__zk_ops_fail(struct zk_session *session, bool all);

/* ---- Requests that a caller's thread waits for: call.c. All of it with the mutex held --------------------------------------- */

struct zk_call {
    bool done, abandoned;
    int rc;
    int count;
    char **children;
    char *data; /* `length` bytes, and a NUL behind them; NULL: none */
    int length;
    struct Stat stat;
    int world;      /* what an ACL lets everybody do */
    int operations; /* of a multi */
    int failed;     /* the first of them that did */
};

enum zk_call_what {
    ZK_CALL_LIST,
    ZK_CALL_GET,
    ZK_CALL_ACL,
    ZK_CALL_SYNC,
    ZK_CALL_SET,
    ZK_CALL_DELETE,
    ZK_CALL_MAKE, /* a directory */
};

/* Send; NULL: out of memory. Several may be on their way at once. `data`: of ZK_CALL_SET. */
struct zk_call *pawl__zk_call(struct zk_session *session, enum zk_call_what what, const char *path, const char *data);
/* All of them or none. The Stat of one that sets data is the call's. */
struct zk_call *pawl__zk_call_multi(struct zk_session *session, zoo_op_t *operations, int count);
/* ZooKeeper's code; ZOPERATIONTIMEOUT: no answer by the deadline. Lets go of the mutex meanwhile. */
int pawl__zk_call_wait(struct zk_session *session, struct zk_call *call, int64_t deadline);
void pawl__zk_call_free(struct zk_call *call);
/* Wait, likewise, until there is a connection. */
bool pawl__zk_call_connected(struct zk_session *session, int64_t deadline);

/* ---- Watches: watch.c ----------------------------------------------------------------------------------------------------- */

/* What a watch tells, beside ZOO_..._EVENT: the connection was cut, and the server has the watch no more. */
enum { ZK_WATCH_MISSED = 1000 };

/* The event that it is to the asker. A watch that was missed is still there: set it again, or drop it. */
typedef int zk_fired_fn(struct zk_asker *asker, int type);

/* watch.c has the table, and draws it. */
enum zk_watch_state {
    ZK_WATCH_ASKED,    /* by a request that is on its way */
    ZK_WATCH_ARMED,    /* the server has it */
    ZK_WATCH_LOST,     /* the server had it before the connection was cut */
    ZK_WATCH_UNWANTED, /* ASKED, and to be taken back once it is there */
    ZK_WATCH_REMOVING, /* ARMED, and to be taken back: `remover` is the request, NULL until it can be sent */
    ZK_WATCH_GONE,     /* its memory, too */
    ZK_WATCH_STATES,
};

enum zk_watch_event {
    ZK_WATCH_ON_SET,     /* the request was answered; ... */
    ZK_WATCH_ON_NOT_SET, /* ... the server has not taken it, or who knows */
    ZK_WATCH_ON_FIRED,
    ZK_WATCH_ON_CUT,
    ZK_WATCH_ON_DROPPED, /* nobody waits for it any more */
    ZK_WATCH_ON_AGAIN,   /* another request is to set it */
    ZK_WATCH_ON_REMOVED, /* the server says so, or has none any more */
    ZK_WATCH_EVENTS,
};
enum { ZK_WATCH_NEVER = ZK_WATCH_STATES, ZK_WATCH_IGNORED };

struct zk_watch {
    TAILQ_ENTRY(zk_watch) link;       /* session->watches.list */
    LIST_ENTRY(zk_watch) same_bucket; /* of session->watches.buckets */
    struct zk_session *session;
    struct zk_asker *asker; /* NULL: nobody waits for it any more */
    struct zk_watch **slot; /* where the asker keeps it; NULL there when it is gone */
    zk_fired_fn *fired;
    watcher_fn told;           /* the library's: one for all */
    uint32_t hash;             /* of `path` */
    bool children;             /* on a directory's children; else on a znode's data */
    enum zk_watch_state state; /* written by step() in watch.c alone */
    struct zk_op *remover;
    char path[];
};

LIST_HEAD(zk_bucket, zk_watch);

/* For the next pawl__zk_get or _list; *slot is NULL: out of memory. */
struct zk_watch *pawl__zk_watch_new(struct zk_session *session, struct zk_asker *asker, struct zk_watch **slot, const char *path,
                                    bool children, zk_fired_fn *fired);
/* The table: the next state, IGNORED or NEVER. */
int pawl__zk_watch_move(enum zk_watch_state state, enum zk_watch_event event);
/* The request that was to set it was answered. False: it was not set, and is gone. */
bool pawl__zk_watch_set(struct zk_watch *watch, int rc);
/* Nobody waits for it any more: take it back from the server. NULL: nothing to do. */
void pawl__zk_watch_drop(struct zk_watch *watch);
/* Likewise, but it is about to fire by itself. */
void pawl__zk_watch_leave(struct zk_watch *watch);
/* It is about to be asked for once more, after a cut. */
void pawl__zk_watch_again(struct zk_watch *watch);
/* The connection is cut: the server has none of them any more. */
void pawl__zk_watches_miss(struct zk_session *session);
/* The handle is gone, and all watches with it. */
void pawl__zk_watches_forget(struct zk_session *session);

/* ---- The session: session.c ----------------------------------------------------------------------------------------------- */

enum zk_session_state {
    ZK_CLOSED, /* no handle */
    ZK_CONNECTING,
    ZK_CONNECTED,
    ZK_TORN,    /* the library closed its socket while sending, told nobody, and owes answers */
    ZK_EXPIRED, /* what it had is gone; a new session is opened, as after ZK_USER_REFUSED */
    ZK_USER_REFUSED,
    ZK_SESSION_STATES
};

enum zk_session_event {
    ZK_ON_OPENED,    /* a handle was made */
    ZK_ON_CONNECTED, /* the library says so */
    ZK_ON_CUT,       /* likewise */
    ZK_ON_TORN,      /* a request found the connection broken */
    ZK_ON_ANSWERED,  /* all that was owed is answered */
    ZK_ON_EXPIRED,
    ZK_ON_REFUSED, /* its user */
    ZK_ON_CLOSED,
    ZK_SESSION_EVENTS
};

/* What the session has to tell, until it is pulled. */
enum {
    ZK_NEWS_LOST = 1,    /* there is a new session: all that the old one had is gone */
    ZK_NEWS_UP = 2,      /* connected */
    ZK_NEWS_GAVE_UP = 4, /* as often as ?retry= allows, nobody answered */
};

struct zk_host {
    char name[256];
    unsigned port;
    char where[PAWL__URL_HOST_PORT]; /* both, for people */
};

/* From the URL: fixed. */
struct zk_options {
    struct zk_host *hosts;
    size_t host_count;
    char url[5120];               /* without secrets; lives as long as the engine's memory */
    char *base_path;              /* "" or "/a/b" */
    char *secret;                 /* user:password for digest; NULL: none */
    const struct ACL_vector *acl; /* of what is created */
    int64_t asked_ms;             /* session time that is asked for */
    int64_t tick_ns;              /* ?tick=; 0: not known */
    int64_t connect_ns;
    struct kit_retry retry;
};

/* The attempts to connect. */
struct zk_attempts {
    int64_t began, next; /* this attempt to connect, and not before when the next */
    int64_t resolve_at;
    unsigned failed; /* since the last success */
    bool broke;      /* the last one, or the connection that it made, and the library has not gone on yet */
    unsigned random;
};

/* When a request left, and when its answer was read. */
struct zk_answered {
    int64_t sent_at, at;
};

/* What has proved that the session lives: proof.c. Points in time at which something left. */
struct zk_proofs {
    struct zk_answered answered[ZK_ANSWERED]; /* the last ones, some way apart; a ring */
    unsigned answered_count;                  /* so many were noted, since the connection is there */
    int64_t sent;   /* the last request that went through the leader and was answered, or the attempt that connected */
    int64_t passed; /* a request that leaves from now on and is answered proves that the leader has heard of what left then */
    int64_t heard;  /* the leader has heard of what left then, or later */
};

/* All watches of a session. */
struct zk_session_watches {
    TAILQ_HEAD(, zk_watch) list;
    struct zk_bucket *buckets; /* the same by path, in so many lists; a power of two, or 0 */
    uint32_t bucket_count, count;
};

struct zk_session {
    struct pawl__engine *engine; /* whose it is: notes, warnings */
    struct zk_options options;
    enum zk_session_state state; /* written by pawl__zk_session_step() alone */
    zhandle_t *handle;
    uint64_t number;          /* counts the handles: what was made under another one died with it */
    int64_t id;               /* the server's number; what ephemeralOwner must be */
    int64_t timeout_ns;       /* T, as negotiated */
    bool fresh;               /* was not connected yet */
    bool corked;              /* requests are kept back until the mutex is let go */
    unsigned news;            /* ZK_NEWS_... */
    _Atomic uint64_t changes; /* how often the connection came or went: events are told in their order only in between */
    _Atomic int fd;           /* the library's socket, for forked() */
    int event_fd;
    _Atomic bool woken;
    struct zk_attempts attempts;
    struct zk_proofs proofs;
    int64_t sent_at;   /* the last request */
    uint64_t requests; /* sent so far; for tests */
    unsigned op_count;
    TAILQ_HEAD(, zk_op) ops;
    struct zk_session_watches watches;
    struct kit_notes notes;
    pthread_cond_t answered; /* a request that a thread waits for, or there is a connection */
};

static inline bool zk_is_connected(const struct zk_session *session) {
    return session->state == ZK_CONNECTED;
}

/* The only place that writes the state: by the table. */
void pawl__zk_session_step(struct zk_session *session, enum zk_session_event event);
void pawl__zk_session_torn(struct zk_session *session); /* a request found it so */
/* ZK_NEWS_..., once. */
unsigned pawl__zk_session_news(struct zk_session *session);

/* ---- Driving it: connect.c ------------------------------------------------------------------------------------------------- */

/* Make its lists and its bell. */
int pawl__zk_session_init(struct zk_session *session, struct pawl__engine *engine, struct pawl_error *reterr);
void pawl__zk_session_free(struct zk_session *session);
/* Open the first handle, to servers that pawl__zk_resolve found. */
int pawl__zk_session_open(struct zk_session *session, const char *servers, struct pawl_error *reterr);
bool pawl__zk_session_opens(const struct zk_session *session); /* nothing is decided yet */
/* Is it as it should be? Where it is not, or nobody has answered, it is closed. */
int pawl__zk_session_opened(struct zk_session *session, struct pawl_error *reterr);
int pawl__zk_session_silent(const struct zk_session *session, struct pawl_error *reterr); /* why nobody has; no mutex held */
/* Close the handle and answer all that was on its way. Does not wait for a server that hangs. */
void pawl__zk_session_close(struct zk_session *session, bool orderly);

/* What its owner does in every run of the loop, in this order. Are names to be looked up? Then by pawl__zk_resolve, without the mutex. */
bool pawl__zk_session_wants_names(struct zk_session *session, int64_t now);
char *pawl__zk_resolve(const struct zk_session *session, struct pawl_error *reterr);
void pawl__zk_session_named(struct zk_session *session, char *servers, int64_t now);
/* See to what is due; returns when the next thing is. */
int64_t pawl__zk_session_tend(struct zk_session *session, int64_t now);
/* What to wait for: fills fds[0], the bell, and fds[1], the socket; returns until when. */
int64_t pawl__zk_session_interest(struct zk_session *session, int64_t now, struct pollfd fds[2]);
/* Did as many rounds over all hosts fail as ?retry= allows? */
bool pawl__zk_session_gave_up(const struct zk_session *session);
/* Wait, with the mutex let go, and take what has come. True: woken by pawl__zk_ring. */
bool pawl__zk_session_wait(struct zk_session *session, struct pollfd fds[2], int64_t until);

/* Break the connection: the library goes on to the next server. */
void pawl__zk_leave_server(struct zk_session *session);

/* ---- The mutex, and what waits for it to be free: mutex.c ------------------------------------------------------------------ */

extern pthread_mutex_t pawl__zk_mutex;

void pawl__zk_lock(void);
void pawl__zk_unlock(struct zk_session *session);
void pawl__zk_cork(struct zk_session *session);   /* keep back what is sent, until the mutex is let go */
void pawl__zk_uncork(struct zk_session *session); /* or until now */
void pawl__zk_ring(struct zk_session *session);   /* wake the thread in pawl__zk_session_wait */
/* Say it when the mutex is free. */
void pawl__zk_say(struct zk_session *session, const struct pawl__claim *about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void pawl__zk_warn(struct zk_session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *pawl__zk_text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* allocated; NULL: out of memory */

/* ---- How long is it assured? proof.c --------------------------------------------------------------------------------------- */

/* At most so long after a request left. */
int64_t pawl__zk_assured(int64_t timeout_ns, int64_t tick_ns);
/* Until then it is, by what has been proved. */
int64_t pawl__zk_assured_until(const struct zk_session *session);
/* Would it be for longer if a request that goes through the leader left now, and was answered? */
bool pawl__zk_more_is_known(const struct zk_session *session);
/* When to ask at the earliest if it would not. */
int64_t pawl__zk_ask_again_ns(const struct zk_session *session);
/* Connected, after an attempt that began then. */
void pawl__zk_proved_anew(struct zk_session *session, int64_t began);
/* A request is about to leave. */
void pawl__zk_leaves(struct zk_op *op, int64_t now);
/* It was answered, by the server. */
void pawl__zk_answered(struct zk_session *session, const struct zk_op *op, int64_t now);
/* ... which went through the leader, and had success. */
void pawl__zk_proved(struct zk_session *session, const struct zk_op *op);
/* With a tick longer than the session nearly nothing of it is assured: a hold would be lost as soon as it was granted. Servers may grant
 * less than they did before, when the connection is made anew. */
int pawl__zk_check_tick(const struct zk_session *session, struct pawl_error *reterr);

/* ---- What a server tells anybody: four_letter.c. No mutex is needed for it -------------------------------------------------- */

enum zk_word {
    ZK_WORD_NOBODY,  /* no connection */
    ZK_WORD_SILENCE, /* and no answer */
    ZK_WORD_REFUSED, /* it is not on the server's list */
    ZK_WORD_ANSWER,
};

/* Ask; the answer is cut to `size`. */
enum zk_word pawl__zk_word(const struct zk_host *host, const char *word, int64_t deadline, char *ret, size_t size);
/* What follows `key` at the beginning of a line, to the answer's end; NULL: there is no such line. */
const char *pawl__zk_word_line(const char *answer, const char *key);
/* Why is no host reachable? A sentence that says what to do; takes a second at most. */
void pawl__zk_word_why(const struct zk_options *options, char *ret, size_t size);
bool pawl__zk_word_number(const char *answer, const char *key, int64_t *ret);

#endif
