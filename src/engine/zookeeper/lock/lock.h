/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.h - claims in the queues of ZooKeeper, on a session (session/session.h).
 *
 *     struct zk_engine      one client: its session, its claims                                                            serve.c
 *       struct zk_claim     one claim: a state, and what it has at the server                                     claim.c (THE TABLE)
 *       struct zk_leftover  a znode of ours that must go; outlives the claim that made it                                  sweep.c
 *
 * claim.c is above the other files of this folder. They send what a claim asks for, and say what an answer, or the event of a watch, means:
 * one of enum zk_event, which claim.c's table turns into the next state and what is to be done. serve.c runs the loop, above claim.c.
 *
 *     order.c  names and who is ahead of whom, pure     list.c       the list of a queue, what it says, the watch on the one ahead
 *     path.c   names of locks to paths, pure            shortcut.c   requests that can be left out
 *     ask.c    what all of these use                    semaphore.c  leases; is the name in use as another kind?
 *     admit.c  claims that wait for room                downgrade.c  from write to read
 *     znode.c  making a znode, finding it again         renew.c      heartbeats; recheck.c  events that never come
 *     keep.c   claims that are kept, and who wants them observe.c    who is told of changes, and waits for nothing
 *
 * Memory. A claim may vanish after its last news; requests and watches that still speak of it are cut off from it first, and what they
 * find then goes to the sweep.
 */
#ifndef PAWL_ZK_LOCK_H
#define PAWL_ZK_LOCK_H

#include "base/record.h"
#include "engine/zookeeper/lock/order.h"
#include "engine/zookeeper/session/session.h"

/* A hold that lasts longer watches its own znode, so that a break is heard at once; shorter ones save the request. */
#define ZK_WATCH_OWN_NS ZK_MS

enum {
    ZK_BEAT_ZNODES = 128,  /* znodes that one heartbeat checks; a claim's are never split */
    ZK_PERMITS_MAX = 1000, /* of one claim: they are made by one request, which must stay far below 1 MB */
    ZK_DATA_MAX = PAWL__RECORD_MAX + 128,
    ZK_ROOM = 256, /* requests on their way, beyond which new claims wait: admit.c */
};

/* claim.c has the table. */
enum zk_state {
    ZK_NEW,
    ZK_OFFLINE,     /* no connection: begins when there is one */
    ZK_ADMISSION,   /* no room: begins when there is */
    ZK_CREATING,    /* create and list are on their way */
    ZK_FINDING,     /* the reply to create was lost: look for the znode by its GUID */
    ZK_CLEARING,    /* the directory's numbers are nearly used up: remove it, and begin anew */
    ZK_QUEUED,      /* the znode is there: list and watch, again and again */
    ZK_LEASING,     /* a semaphore's: first in `locks`; makes its leases and waits for room */
    ZK_PROVING,     /* nobody is ahead, but the session was last proved too long ago: wait for a heartbeat */
    ZK_HELD,        /* from here on it was granted */
    ZK_DOWNGRADING, /* held; the write znode is being exchanged for a read znode */
    ZK_LOST,        /* was held; the core was told */
    ZK_OVER,        /* withdrawn or refused: nothing of it is left but its last news */
    ZK_STATES
};

enum zk_event {
    ZK_NOTHING,
    ZK_BEGIN,        /* with a new znode */
    ZK_NO_ROOM,      /* for it to begin */
    ZK_CREATE,       /* there is a connection */
    ZK_CREATED,      /* our znode, in this session */
    ZK_SEEK,         /* the znode was made, and its name is not known */
    ZK_NAMED,        /* its name is */
    ZK_FOUND,        /* as created, after a lost reply */
    ZK_NO_DIRECTORY, /* for the znode */
    ZK_NEAR_END,     /* the znode's number is too high */
    ZK_BUSY,         /* the server refused to make it, for it has too much to do: nothing was made */
    ZK_STALLED,      /* an answer was lost, or there was no memory: go on later */
    ZK_RESUME,       /* now; or its timer */
    ZK_LIST_AGAIN,   /* who is ahead has changed */
    ZK_BEHIND,       /* seen.child is ahead, and seen.further ahead of that */
    ZK_LOOK_TWICE,   /* it seems to be in use as another kind */
    ZK_CHECK_KIND,   /* is it? */
    ZK_WATCH_AGAIN,  /* the one ahead, after a cut */
    ZK_LEASE,        /* first in `locks`, or its leases were not made */
    ZK_NO_LEASES,    /* not even their directory */
    ZK_TOO_MANY,     /* leases: wait until there are fewer */
    ZK_FIRST,        /* and the session was proved lately */
    ZK_UNPROVED,     /* first; it was not */
    ZK_CHECKED,      /* a heartbeat found all its znodes */
    ZK_CONNECTED_AGAIN,
    ZK_GONE,     /* a heartbeat did not, or the exchange */
    ZK_BROKEN,   /* it found one changed, as an operator does it */
    ZK_OWN_GONE, /* likewise, told by the watch on its own znode */
    ZK_OWN_BROKEN,
    ZK_MISSED,       /* the watch on the one ahead, or on the leases, by a cut */
    ZK_OWN_MISSED,   /* on its own znode */
    ZK_QUEUE_MISSED, /* on the queue of a claim that may be kept */
    ZK_QUEUE_CHANGED,
    ZK_WANTED,    /* a claim that may be kept: others are in its queue */
    ZK_DOWNGRADE, /* says the core */
    ZK_EXCHANGE,  /* the write znode is still there */
    ZK_EXCHANGED, /* for the read znode */
    ZK_WAS_EXCHANGED,
    ZK_SESSION_LOST, /* and the claim's znodes with it */
    ZK_GIVE_UP,      /* nobody answers */
    ZK_REFUSED,      /* claim->why says why */
    ZK_WITHDRAW,     /* says the core */
    ZK_ABANDON,      /* the client is closed */
    ZK_EVENTS
};

enum {
    ZK_TELL_GRANTED = 1,
    ZK_TELL_RENEWED = 2,
    ZK_TELL_LOST = 4,
    ZK_TELL_SETTLED = 8,
    ZK_TELL_REFUSED = 16,
    ZK_TELL_DOWNGRADED = 32,
    ZK_TELL_WANTED = 64,
};

struct zk_engine;
struct zk_claim;
struct zk_observed;
struct zk_observer;

/* One request for all claims that want the same list: list.c. */
struct zk_listing {
    TAILQ_ENTRY(zk_listing) link; /* zk->listings, until it is sent */
    TAILQ_HEAD(, zk_claim) claims;
    char dir[];
};

/* What was asked for, as at submit: the core's are its own to change. */
struct zk_terms {
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    bool try_only, nonreentrant;
    bool keeps; /* it may be kept: keep.c */
};

/* What a claim has at the server. */
struct zk_znodes {
    char guid[ZK_GUID_SIZE];
    char *home;    /* the lock's own path */
    char *dir;     /* where its queue is: home, or home/locks */
    char *own;     /* full path of its znode there; NULL: none, or not known */
    char *twin;    /* compat=kazoo: of the second one; downgrade: of the read znode */
    char **leases; /* semaphores: lease_count paths; the first one is that of the znode with data */
    uint32_t lease_count;
    int64_t czxid;
    uint64_t session; /* the handle under which they were made */
};

/* The latest of a claim's writes to one of the values beside its lock: value/write.c. */
struct zk_written {
    uint64_t number;          /* its own; 0: none */
    bool busy;                /* it is under way */
    bool unsure;              /* it may have been written, or be so later */
    struct pawl__stamp stamp; /* of the latest that was written */
};

/* What a claim watches. NULL: it does not. */
struct zk_claim_watches {
    struct zk_watch *ahead;   /* on whom it waits for, or on the leases */
    struct zk_watch *further; /* on the one ahead of that one */
    struct zk_watch *own;     /* on its own znode: so that a break is heard at once */
    struct zk_watch *queue;   /* keep.c: on the directory */
};

/* What a claim that may be kept knows of those who want it: keep.c. */
struct zk_claim_keep {
    _Atomic uint64_t heard; /* session->changes when who comes was heard of; 0: is not. Read without the mutex */
    bool wanted;            /* by the latest list of its queue */
    int64_t listed_at;
    int children; /* of its directory then; 0: not known */
};

/* Who comes last in a claim's queue: shortcut.c. */
struct zk_claim_last {
    char *name; /* who stood last behind it, by the latest list; NULL: fewer than two stood there, or their names say nothing */
    int64_t at;
};

/* Who is ahead of a claim, by the list that is being looked at: with ZK_BEHIND. */
struct zk_claim_seen {
    const char *child, *further;
};

/* What a claim has written beside its lock. */
struct zk_claim_values {
    TAILQ_ENTRY(zk_claim) link; /* zk->authors, once it has written */
    bool listed;
    struct zk_written latest[PARTS];
};

struct zk_claim {
    struct zk_asker asker;            /* the first member: zk_claim_of_asker */
    TAILQ_ENTRY(zk_claim) link;       /* zk->claims */
    TAILQ_ENTRY(zk_claim) news;       /* zk->news, while `tell` is not 0 */
    TAILQ_ENTRY(zk_claim) admission;  /* zk->admission, in that state */
    TAILQ_ENTRY(zk_claim) timed;      /* zk->timed, while there is a `look_at` */
    TAILQ_ENTRY(zk_claim) of_listing; /* of `listing`, while it is not NULL */
    struct zk_listing *listing;
    struct zk_engine *zk;
    struct pawl__claim *claim;
    struct zk_terms terms;
    enum zk_layout layout;
    enum zk_state state; /* written by step() in claim.c alone */
    bool stalled;        /* an answer was lost: go on when the connection is back */
    bool second_look;    /* it was looked at twice */
    bool broken;         /* lost by an operator */
    bool kind_seen;      /* contenders of another kind were in the lock's path */
    bool gone_already; /* whom it waited for was gone before it could be watched; only the answer about our own znode is missing */
    int64_t look_at;   /* when to look again; PAWL__NEVER: an event will tell. Set by pawl__zk_look_at() */
    int64_t waits_since;  /* since when it has watched the one ahead, or asked whether that one is still there */
    int64_t try_until;    /* a semaphore's try: how long others may pass through `locks` ahead of it */
    int64_t recall_until; /* how long it waits for claims that are kept: a try, or one of another kind; 0: it met none */
    unsigned tell;
    struct pawl_error why;
    struct zk_znodes at;
    struct zk_claim_watches watch;
    struct zk_claim_keep keep;
    uint64_t next_in; /* session->changes when a list with our own znode in it showed exactly one ahead; else 0 */
    struct zk_claim_last last;
    struct zk_claim_seen seen;
    struct zk_claim_values values;
};

/* Who stood last behind a claim that was let go: shortcut.c. */
struct zk_last_seen {
    char *dir; /* NULL: nothing is remembered */
    char *name;
    int64_t seen_at, left_at;
};

struct zk_engine {
    struct pawl__engine base;
    struct zk_session session;
    bool kazoo; /* ?compat= */
    char record[PAWL__RECORD_MAX];
    bool beat_due;         /* a heartbeat is wanted */
    unsigned beats;        /* on their way */
    int64_t recheck_at;    /* when to look next whether anybody waits for too long */
    int64_t no_room_until; /* while there is no room, no claim looks again before that */
    struct zk_last_seen last_seen;
    TAILQ_HEAD(, zk_claim) claims;
    TAILQ_HEAD(, zk_claim) news;
    TAILQ_HEAD(, zk_claim) admission;
    TAILQ_HEAD(, zk_claim) timed;
    TAILQ_HEAD(, zk_listing) listings; /* that are not sent yet */
    TAILQ_HEAD(, zk_leftover) leftovers;
    TAILQ_HEAD(, zk_claim) authors; /* claims that have written values */
    struct {
        TAILQ_HEAD(, zk_observed) locks;
        TAILQ_HEAD(, zk_observer) changed;
        struct zk_observer *told; /* the core is being told of it */
    } observers;
};

static inline struct zk_engine *zk_of(struct pawl__engine *engine) {
    return (struct zk_engine *)engine;
}

static inline struct zk_engine *zk_of_op(const struct zk_op *op) {
    return zk_of(op->session->engine);
}

static inline struct zk_claim *zk_claim_of(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

static inline struct zk_claim *zk_claim_of_asker(struct zk_asker *asker) {
    return (struct zk_claim *)asker;
}

/* The claim that the answer is for; NULL: it was withdrawn, or has gone on since. */
static inline struct zk_claim *zk_asked(const struct zk_op *op) {
    return pawl__zk_is_asked(op) ? zk_claim_of_asker(op->asker) : NULL;
}

/* The same, of an answer that says what is there. NULL also where it was lost: *retevent is what that means for who asked. */
static inline struct zk_claim *zk_answered(const struct zk_op *op, const struct zk_reply *reply, int *retevent) {
    struct zk_claim *claim = zk_asked(op);

    *retevent = claim && pawl__zk_reply_lost(reply->rc) ? ZK_STALLED : ZK_NOTHING;
    return *retevent == ZK_STALLED ? NULL : claim;
}

static inline bool zk_is_pending(const struct zk_claim *claim) {
    return claim->state < ZK_HELD;
}

/* In a semaphore's layout? */
static inline bool zk_is_leased(const struct zk_claim *claim) {
    return claim->terms.kind == PAWL_SEMAPHORE || claim->terms.nonreentrant;
}

/* compat=kazoo: does it make two znodes? */
static inline bool zk_has_twin(const struct zk_claim *claim) {
    return claim->zk->kazoo && claim->terms.kind == PAWL_MUTEX && !claim->terms.nonreentrant;
}

static inline bool zk_is_of_session(const struct zk_claim *claim) {
    return claim->at.session == claim->zk->session.number;
}

/* ---- ask.c: what all of these use ------------------------------------------------------------------------------------------ */

struct zk_op *pawl__zk_ask(struct zk_claim *claim, zk_done_fn *done, void *data); /* NULL: out of memory */
void pawl__zk_say_of(const struct zk_claim *claim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pawl__zk_tell(struct zk_claim *claim, unsigned what);
/* Set `look_at`, and keep zk->timed in step. */
void pawl__zk_look_at(struct zk_claim *claim, int64_t when);
void pawl__zk_leave_listing(struct zk_claim *claim);
void pawl__zk_next_number(struct zk_claim *claim); /* what was asked for until now does not matter any more */
/* Ask for the deletion of what was never there: when it is refused (pawl__zk_caught_up), our server knows of all that was begun before. A
 * sync is not enough: a leader that is cut off answers it until it notices, and shows nothing of what it could not write. */
void pawl__zk_catch_up(struct zk_op *op, const char *dir, const char *guid);
bool pawl__zk_caught_up(int rc);
/* List a directory as it is now: a server that lags behind catches up first. `dir` may be NULL: out of memory. */
enum zk_event pawl__zk_list_fresh(struct zk_claim *claim, const char *dir, zk_done_fn *done, void *data);
/* Did the server have too much to do? Then it has not done what was asked for, and never will. */
bool pawl__zk_is_busy(int rc);
/* What ZooKeeper's code says to a person, and the code of pawl's. */
int pawl__zk_explain(const char *name, int rc, const char *doing, const char *path, struct pawl_error *ret);
/* ZK_REFUSED, and why. */
enum zk_event pawl__zk_refuse(struct zk_claim *claim, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Likewise, by pawl__zk_explain(); ZK_STALLED where the reply was lost. */
enum zk_event pawl__zk_refuse_rc(struct zk_claim *claim, int rc, const char *doing, const char *path);
/* Likewise, where something was to be made; ZK_BUSY where it was not even begun. */
enum zk_event pawl__zk_not_made(struct zk_claim *claim, int rc, const char *doing, const char *path);
/* Nobody is ahead: ZK_FIRST or ZK_UNPROVED. */
enum zk_event pawl__zk_first(const struct zk_claim *claim);
/* The child is another kind's: look twice, then refuse. */
enum zk_event pawl__zk_foreign(struct zk_claim *claim, const char *child);
/* A semaphore of another limit? Then why. */
bool pawl__zk_limit_differs(struct zk_claim *claim, const struct String_vector *children);

/* ---- The other files; actions return the event that follows at once -------------------------------------------------------- */

/* znode.c. Making and finding end with ZK_CREATED, ZK_FOUND, ZK_NEAR_END, or ZK_BEGIN. */
bool pawl__zk_znode_create(struct zk_claim *claim); /* false: out of memory */
enum zk_event pawl__zk_znode_seek(struct zk_claim *claim);
enum zk_event pawl__zk_znode_read(struct zk_claim *claim);
enum zk_event pawl__zk_directory_make(struct zk_claim *claim);
enum zk_event pawl__zk_directory_clear(struct zk_claim *claim);
void pawl__zk_znodes_forget(struct zk_claim *claim);
/* Make the directories on the way to `path`, all of them, then go on with `done`. False: out of memory. */
bool pawl__zk_make_path(struct zk_claim *claim, const char *path, zk_done_fn *done);
/* The owner's record, and what only this engine tells. */
void pawl__zk_znode_data(const struct zk_claim *claim, char data[ZK_DATA_MAX]);

/* list.c */
enum zk_event pawl__zk_list_queue(struct zk_claim *claim); /* with others that want the same list */
void pawl__zk_send_listings(struct zk_engine *zk);         /* before the mutex is let go */
enum zk_event pawl__zk_watch_ahead(struct zk_claim *claim, const char *child);
enum zk_event pawl__zk_watch_ahead_again(struct zk_claim *claim);
/* Let go of the mutex. */
void pawl__zk_engine_unlock(struct zk_engine *zk);

/* admit.c */
enum zk_event pawl__zk_admission(const struct zk_claim *claim); /* ZK_BEGIN or ZK_NO_ROOM */
void pawl__zk_admit(struct zk_engine *zk);

/* shortcut.c */
extern int64_t pawl__zk_rejoin_ns; /* for how long what was last seen is good; tests raise it */
/* The znode that the claim waits for is watched; `further` is the one ahead of that, NULL: none. */
void pawl__zk_look_ahead(struct zk_claim *claim, const char *further);
/* From a list of the claim's queue. */
void pawl__zk_remember_last(struct zk_claim *claim, const struct String_vector *children);
/* The claim is withdrawn: the next one may want to know. */
void pawl__zk_leave_last_seen(struct zk_claim *claim);
void pawl__zk_forget_last_seen(struct zk_engine *zk);
/* Whom to queue behind instead of asking for a list; NULL: nobody. */
const char *pawl__zk_queue_behind(const struct zk_claim *claim);
/* Our own number is known: is the one that we wait for ahead of it? */
bool pawl__zk_is_behind(const struct zk_claim *claim);

/* The one it waited for was deleted: does it hold, without a further list? */
static inline bool zk_is_next(const struct zk_claim *claim) {
    return claim->next_in == claim->zk->session.changes && claim->watch.own && claim->watch.own->state == ZK_WATCH_ARMED &&
           zk_is_of_session(claim);
}

/* It was gone before it could be watched, and the watch on our own znode is on its way: its answer decides. */
static inline bool zk_is_nearly_next(const struct zk_claim *claim) {
    return claim->next_in == claim->zk->session.changes && claim->watch.own && claim->watch.own->state != ZK_WATCH_ARMED &&
           zk_is_of_session(claim);
}

/* recheck.c */
extern int64_t pawl__zk_recheck_sessions; /* so many session times one waits before it asks; tests lower it */
/* Have those who wait for long ask whether they wait for somebody who is gone. Returns when to look again. */
int64_t pawl__zk_recheck(struct zk_engine *zk, int64_t now);

/* keep.c */
/* Set or see to the watch on the queue, if it may be kept. */
enum zk_event pawl__zk_keep_look(struct zk_claim *claim);
enum zk_event pawl__zk_keep_missed(struct zk_claim *claim);
enum zk_event pawl__zk_keep_wanted(struct zk_claim *claim);
/* The list by which it is granted, or not yet. */
void pawl__zk_keep_listed(struct zk_claim *claim, const struct String_vector *children);
void pawl__zk_keep_end(struct zk_claim *claim); /* it is not kept any more, nor can be */
/* It waits for claims that are kept, which have heard of it. False: it has done so for long enough. */
bool pawl__zk_may_recall(struct zk_claim *claim);
/* May a kept claim be entered? Any thread, without the mutex. */
bool pawl__zk_is_heard(const struct zk_claim *claim);
void pawl__zk_keep_begin(struct zk_claim *claim); /* it is kept from now on, if it can be heard */

/* observe.c */
int pawl__zk_observe(struct pawl__engine *engine, struct pawl__observer *observer, struct pawl_error *reterr);
void pawl__zk_unobserve(struct pawl__engine *engine, struct pawl__observer *observer);
int64_t pawl__zk_observe_due(struct zk_engine *zk, int64_t now); /* what is due by now; returns when the next is */
void pawl__zk_observers_tell(struct zk_engine *zk);              /* what has changed; lets go of the mutex */
void pawl__zk_observe_again(struct zk_engine *zk);               /* there is a connection: set all watches anew */

/* downgrade.c */
enum zk_event pawl__zk_downgrade_begin(struct zk_claim *claim);
enum zk_event pawl__zk_downgrade_exchange(struct zk_claim *claim);
enum zk_event pawl__zk_downgrade_resume(struct zk_claim *claim);

/* semaphore.c: from the moment that the claim is first in `locks` */
enum zk_event pawl__zk_lease(struct zk_claim *claim);
enum zk_event pawl__zk_leases_make_directory(struct zk_claim *claim);
enum zk_event pawl__zk_leases_watch(struct zk_claim *claim);
enum zk_event pawl__zk_leases_resume(struct zk_claim *claim);
/* Does the directory's other layout have claims? Then the name is in use as another kind. */
enum zk_event pawl__zk_check_kind(struct zk_claim *claim);

/* sweep.c */
struct zk_leftover;
void pawl__zk_sweep_path(struct zk_engine *zk, const char *path);
void pawl__zk_sweep_guid(struct zk_engine *zk, const char *dir, const char *guid);
void pawl__zk_sweep_claim(struct zk_claim *claim);         /* all its znodes, and those that may be there */
int64_t pawl__zk_sweep(struct zk_engine *zk, int64_t now); /* returns when there is more to do */
void pawl__zk_sweep_resume(struct zk_engine *zk, bool same_session);
void pawl__zk_sweep_free(struct zk_engine *zk);

/* renew.c */
void pawl__zk_beat(struct zk_engine *zk);
/* Be told at once when the znode of a hold is changed or deleted. */
void pawl__zk_watch_own(struct zk_claim *claim);
void pawl__zk_beat_cut(struct zk_claim *claim);

/* claim.c */
pawl__submit_fn pawl__zk_submit;
pawl__withdraw_fn pawl__zk_withdraw;
pawl__downgrade_fn pawl__zk_downgrade;
int pawl__zk_rest(struct pawl__engine *engine, struct pawl__claim *seam);
int pawl__zk_resume(struct pawl__engine *engine, struct pawl__claim *seam);
pawl__why_fn pawl__zk_why;
void pawl__zk_step(struct zk_claim *claim, enum zk_event event);

/* serve.c */
pawl__serve_fn pawl__zk_serve;
pawl__wake_fn pawl__zk_wake;
pawl__renew_fn pawl__zk_renew;
int pawl__zk_open(struct zk_engine *zk, struct pawl_error *reterr);
void pawl__zk_close(struct zk_engine *zk, int64_t deadline);

#endif
