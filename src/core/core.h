/* SPDX-License-Identifier: Apache-2.0
 *
 * core.h - the objects between pawl.h and engine.h, and who owns and guards what. The claim itself is in claim.h, the set in set.h, what an
 * observer sees in observation.h, its states in observe.h.
 *
 *     struct pawl         a client: one engine, its cohorts, its service thread, its callbacks                     client.c
 *       struct cohort     everything this process does with one name and kind; has the mutex                       cohort.c
 *         struct claim    one entry in the engine's queue; the acquires that wait for it, the holds under it       claim.c
 *           struct waiter an acquire that is pending                                                               waiter.c
 *           struct hold   an acquire that succeeded, with its re-entries
 *       struct pawl_lock  the user's handle: points to its cohort, knows its holds                                 handle.c
 *       struct set        several handles that are being acquired as one                                           set.c
 *         struct part     one of them
 *       struct event      a callback that is due                                                                   events.c
 *       struct pawl_observer  one who is told of a lock; struct observation: what it sees                                observe.c,
 *       observation.c
 *
 * The files, lowest first, each of which calls only earlier ones: calling, service, operator, stats, life, events, keep, claim, waiter,
 * handoff, cohort, enter, fork, deadlock, handle, label, extend, value, observation, observe, set, client. What is above is reached by what
 * a function returns (claim.c), or by a table that the upper one fills (service_ops).
 *
 * Locks, in the order in which they are taken: client->mutex (the table of cohorts), cohort->mutex (all that hangs on it: claims,
 * waiters, holds, and the handles' lists of holds), client->observers.mutex, client->events.mutex (a leaf). Before all of them: the list of
 * the clients (fork.c), for who looks at several. No engine call that may block, and no callback of the user's, is made with any of them
 * held. Only set.c holds the mutexes of several cohorts at a time, taken in the order of their names.
 *
 * Why cohorts: threads of one process that want the same lock queue here, behind one claim, and hand the hold on without asking the
 * engine; within bounds, so that other processes have their turn (see handoff.c).
 */
#ifndef PAWL_CORE_H
#define PAWL_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "engine/engine.h"
#include "os/futex.h"

/* How long pawl_close waits for the engine. */
#define PAWL__CLOSE_NS (2 * INT64_C(1000000000))
/* How long a try may wait for the engine's word. */
#define PAWL__TRY_NS (2 * INT64_C(1000000000))
/* How long a call about a value may wait for the engine's word: pawl_close waits for those that are under way. */
#define PAWL__VALUE_NS (2 * INT64_C(1000000000))
/* How long a thread that waits sleeps at most where signals may end waits: one that comes just before it sleeps does not end the sleep; and
 * where it has to look for itself whether the claim that it waits for is still there. */
#define PAWL__LISTEN_NS INT64_C(1000000000)
/* How long an acquire waits before it looks for a deadlock, and until it looks again. */
#define PAWL__LOOK_NS INT64_C(1000000000)
#define PAWL__LOOK_AGAIN_NS (4 * PAWL__LOOK_NS)
/* How many claims are asked for at once, at most: a server with one thread works on all of them at a stretch, while others wait. */
enum { PAWL__TOGETHER_MAX = 32 };
/* How many claims a client keeps at most: a program with ever new names must not fill a server with what is renewed. */
enum { PAWL__KEEPS_MAX = 65536 };

struct claim_terms;
TAILQ_HEAD(claim_list, claim);
TAILQ_HEAD(waiter_list, waiter);
TAILQ_HEAD(hold_list, hold);
TAILQ_HEAD(cohort_list, cohort);
TAILQ_HEAD(event_list, event);
TAILQ_HEAD(part_list, part);
TAILQ_HEAD(observer_list, pawl_observer);

enum { PAWL__COHORT_BUCKETS = 256 }; /* at first; a power of two */

enum service_state { SERVICE_NONE, SERVICE_RUNS, SERVICE_OVER };

/* The service thread's work beside the engine's. */
struct service_ops {
    int64_t (*tick)(struct pawl *client, int64_t now); /* look at every cohort; returns when to look again */
    void (*run)(struct pawl *client);                  /* the callbacks that are due */
};

struct service {
    const struct service_ops *ops;
    pthread_mutex_t mutex; /* for starting and stopping it; a leaf */
    _Atomic int state;     /* enum service_state */
    _Atomic bool stop;
    pthread_t thread;
    pthread_t self;      /* as the thread itself knows it; guarded by events.mutex */
    _Atomic int64_t due; /* when it must look at the clock next */
};

/* What is counted: see struct pawl_counters. All but the last are sums. */
enum { PAWL__KINDS = PAWL_SEMAPHORE + 1 };
#define PAWL__WAIT_BOUNDS_NS                                                                                                       \
    { 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000 }
struct counts {
    uint64_t granted, reentered, held, timed_out, cancelled, deadlocked, failed;
    uint64_t contended, handoffs, claims, released;
    uint64_t renewed, renewed_late, suspects;
    uint64_t lost_expired, lost_broken, lost_gone;
    uint64_t deadlocks;
    uint64_t waited_ns, waits[PAWL_WAIT_BUCKETS];
    int64_t least_left_ns; /* 0: no lease was renewed yet */
};

struct events {
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    struct event_list for_dispatch, for_service;
    struct pawl_lock *calling; /* whose callback the service thread is running */
    int fd;                    /* -1: nobody asked for it yet */
};

/* Of the thread that looks. OVER: to be joined. */
enum looking_state { LOOKING_NONE, LOOKING_RUNS, LOOKING_OVER, LOOKING_STATES };

/* Those who observe locks, and the thread that looks for them. */
struct observers {
    pthread_mutex_t mutex;
    pthread_cond_t wake, idle; /* for the thread; for who waits until a callback has returned */
    struct observer_list list;
    enum looking_state state;
    bool stop;
    pthread_t thread;
};

/* ?deadlock=: what becomes of one that is found. */
enum deadlock_rule { DEADLOCK_REPORT, DEADLOCK_BREAK, DEADLOCK_OFF };

/* What the URL says to the core. */
struct client_options {
    uint32_t handoffs; /* how often a claim may be handed on inside this process, and for how long */
    int64_t handoff_ns;
    int64_t slice_ns;    /* how long threads that run may pass the first one that sleeps; 0: never */
    int64_t max_hold_ns; /* of every handle; 0: no limit */
    int64_t keep_ns;     /* of new handles; 0: nothing is kept */
    enum deadlock_rule deadlock;
};

/* Functions of the user's that are his for as long as the client is open. NULL: there is none. */
struct client_callbacks {
    pawl_log_fn *log; /* without it: silence */
    void *log_data;
    pawl_interrupted_fn *interrupted; /* without it signals end no wait */
    void *interrupted_data;
    pawl_deadlock_fn *deadlock; /* without it nobody is told but by the log */
    void *deadlock_data;
};

/* The cohorts of a client. Guarded by its mutex. */
struct cohort_table {
    struct cohort_list *buckets; /* by the hash of the name */
    size_t bucket_count;         /* a power of two, which grows with their number */
    struct cohort_list every;
    size_t cohorts; /* there are now */
};

struct pawl {
    struct pawl__engine *engine;
    unsigned flags; /* enum pawl_open_flags */
    struct client_options options;
    struct client_callbacks callbacks;
    uint64_t id;             /* random; the first half of every claim's id */
    _Atomic uint64_t blocks; /* of second halves: so many were given to cohorts */
    int64_t opened_at;       /* the trace counts from here */
    bool does_io; /* no thread is cancelled where it calls the engine; `local:` rarely does any, and takes care of it itself */
    bool notes;   /* somebody hears each step: then no thread is cancelled anywhere in a call */
    struct pawl_info info;        /* as described by the engine */
    char agent[PAWL__AGENT_SIZE]; /* of this process */

    pthread_mutex_t mutex; /* guards the table and `references` */
    struct cohort_table table;
    struct counts counts[PAWL__KINDS]; /* of cohorts that are no more; guarded by mutex */
    unsigned references;               /* 1 for the user until pawl_close, 1 per handle */

    _Atomic bool closed;
    _Atomic bool forked;
    _Atomic bool ended;       /* the engine is closed: what it never settled may be freed */
    _Atomic unsigned inside;  /* calls under way that let go of a cohort's mutex and come back: pawl_close waits for them */
    _Atomic unsigned leaving; /* claims that the engine has yet to settle */
    _Atomic unsigned keeping; /* claims that are kept, or were and are held again */

    struct service service;
    struct events events;
    struct observers observers;
    bool look_due; /* the service thread is to look for a deadlock, since one that waits from `look_since` on asks for it */
    int64_t look_since;
    _Atomic unsigned loss_callbacks; /* handles with a loss callback: only then is the engine asked for breaks */

    TAILQ_ENTRY(pawl) all; /* fork.c */
};

struct cohort {
    TAILQ_ENTRY(cohort) link;  /* client->table.buckets[...] */
    TAILQ_ENTRY(cohort) every; /* client->table.every */
    struct pawl *client;
    struct pawl__engine *engine; /* the client's: at hand, since every acquire needs it */
    pthread_mutex_t mutex;
    unsigned references;    /* handles; guarded by client->mutex */
    _Atomic unsigned users; /* of these, those that the user has not freed */
    unsigned claim_count;   /* claims that are not gone: without handles, they keep the cohort alive */
    uint64_t next_id; /* the second half of the next claim's id, in a block of the cohort's own; where one begins: it has none */
    enum pawl_kind kind;
    uint32_t limit;
    bool nonreentrant;
    bool joins;                  /* may acquires share a claim? */
    _Atomic bool has_siblings;   /* there are, or were, other cohorts of this name: of another kind */
    unsigned keep_skips;         /* claims that are not kept after the last one that was kept for nothing ... */
    unsigned keep_skips_left;    /* ... and how many of these are still to come */
    unsigned alone;              /* so many claims in a row found the lock free when they asked */
    uint32_t tokens_used;        /* by the last claim that was held */
    struct claim_list claims;    /* pending and held ones, in the order of their submission */
    struct claim_list unsettled; /* withdrawn or downgraded, not yet settled, and nobody looks after them */
    struct claim_list leaving;   /* withdrawn, not yet settled: all of them */
    struct part_list parts;      /* of the sets that are being acquired */
    _Atomic uint32_t *wake;      /* who is to be woken once the mutex is free: sooner, it would only wait for that */
    struct claim *spare;         /* kept so that the next acquire need not allocate */
    struct counts counts;
    uint32_t name_length, name_hash;
    char name[];
};

struct hold {
    TAILQ_ENTRY(hold) of_lock;
    TAILQ_ENTRY(hold) of_claim;
    struct pawl_lock *lock;
    struct claim *claim; /* NULL: lost, and the claim is gone */
    uint64_t owner;
    uint64_t token;             /* 0: not asked for yet; one is reserved for it */
    uint32_t exclusive, shared; /* how often; a semaphore's counts as exclusive */
    bool lost;
};

/* The table is in waiter.c; what CALLED and DUE are for, in handoff.c. */
enum waiter_state {
    WAITER_NEW,
    WAITER_WAITING, /* behind a claim, as in the next two; */
    WAITER_CALLED,  /* ... which was left open for it; */
    WAITER_DUE,     /* ... and which it is to have next */
    WAITER_GRANTED,
    WAITER_ENDED, /* without a hold */
    WAITER_STATES,
};

enum waiter_event {
    WAITER_QUEUE, /* it stands behind a claim, or behind another */
    WAITER_CALL,  /* it is the first of a claim that is left open */
    WAITER_TURN,  /* it was passed for long enough, or takes the claim */
    WAITER_GRANT,
    WAITER_END, /* it does not get the lock */
    WAITER_EVENTS,
};
enum { WAITER_NEVER = WAITER_NEW, WAITER_IGNORED = WAITER_STATES };

struct waiter {
    TAILQ_ENTRY(waiter) link; /* claim->waiters */
    struct pawl_lock *lock;
    struct claim *claim;
    struct hold *hold;       /* allocated beforehand: granting never fails */
    enum waiter_state state; /* written by pawl__waiter_step() alone, but for the first */
    enum pawl_mode mode;
    uint32_t permits;
    uint64_t owner;
    uint64_t blocked; /* the owner that this wait blocks, a thread or a set: it releases nothing meanwhile */
    pthread_t thread; /* which that is; set when it begins to wait */
    uint64_t number;  /* among all waits of the cohort */
    int64_t since;    /* when it began to wait; 0: it did not */
    bool has_more;    /* the thread or set has something else: it may be part of a deadlock */
    bool told;        /* ... and was told as such */
    int64_t look_at;  /* when it looks for one; PAWL__NEVER: it does not */
    int64_t deadline;
    int64_t timeout_ms; /* for the error's text */
    int64_t max_hold_ns;
    bool try_only;
    bool in_set;               /* it waits for a part of a set, which ends it */
    int64_t slice_until;       /* CALLED: when it is due; 0: it has not looked yet */
    struct event *event;       /* asynchronous: its callback; else NULL, and a thread waits */
    _Atomic uint32_t sleeping; /* a futex: 1 while that thread sleeps */
    struct pawl_error error;   /* why it ended */
};

/* What a handle has its claims say. It lasts as long as the handle says so, and as those claims; guarded by cohort->mutex. */
struct label {
    unsigned references;
    char text[];
};

struct pawl_lock {
    struct pawl *client;
    struct cohort *cohort;
    unsigned flags;
    uint64_t owner;      /* PAWL_TASK: the handle's own number; else 0 */
    unsigned references; /* the user's, one per call under way and per event; guarded by cohort->mutex */
    unsigned pending;    /* acquires that wait */
    int64_t max_hold_ns; /* of its next holds; 0: no limit */
    int64_t keep_ns;     /* for its next releases; 0: they give back */
    struct label *label; /* of its next claims, a reference; NULL: the client's */
    struct hold_list holds;
    struct hold *spare;
    unsigned extending;       /* calls of pawl_extend that wait; guarded by cohort->mutex */
    _Atomic uint32_t changes; /* a futex for them: rung when a hold was renewed or lost, or is over */
    pawl_loss_fn *on_loss;
    void *on_loss_data;
};

/* A callback that is due: of an acquire, of a loss; or what run() does. */
struct event {
    TAILQ_ENTRY(event) link;
    void (*run)(struct event *event); /* if not NULL: the event is this call alone, which frees it; the rest is not used */
    struct pawl_lock *lock;           /* a reference */
    struct waiter *waiter;            /* of an asynchronous acquire; freed with the event */
    pawl_acquired_fn *acquired;
    void *data;
    enum pawl_state state; /* of a loss: PAWL_SUSPECT, PAWL_LOST, or PAWL_HELD again */
    uint64_t token;
    struct pawl_error error; /* code 0: none */
};

static inline const struct pawl__engine_impl *impl_of(const struct pawl *client) {
    return client->engine->impl;
}

/* stats.c: what is counted. cohort->mutex is held. */

/* A wait is over. */
void pawl__count_waited(struct cohort *cohort, int64_t ns);
/* An acquire has ended with this code. */
void pawl__count_end(struct cohort *cohort, int code);
/* A hold was lost for this reason. */
void pawl__count_lost(struct cohort *cohort, int code);
/* A lease was renewed when so much of it was left; `late`: when it was suspect. */
void pawl__count_renewed(struct cohort *cohort, bool late, int64_t left_ns);
void pawl__counts_add(struct counts *to, const struct counts *from);

/* life.c: memory and references */

struct pawl *pawl__client_new(const struct pawl_options *options);
void pawl__client_free(struct pawl *client); /* one that was not opened */
void pawl__client_ref(struct pawl *client);
void pawl__client_put(struct pawl *client);
/* Count down, and wake pawl_close if it waits for zero: of client->inside or ->leaving. */
void pawl__client_one_less(struct pawl *client, _Atomic unsigned *count);
/* Find or make the cohort of a name and kind, with one reference more. client->mutex held. NULL: out of memory. */
struct cohort *pawl__cohort_get(struct pawl *client, const char *name, enum pawl_kind kind, uint32_t limit, bool nonreentrant);
/* The next cohort of the same name after this one; NULL: the first. client->mutex held. */
struct cohort *pawl__cohort_sibling(const struct cohort *cohort, const struct cohort *after);
/* Drop a reference. client->mutex held, cohort->mutex not. */
void pawl__cohort_put(struct cohort *cohort);
/* Free a cohort that no handle and no claim needs any more. client->mutex held. */
void pawl__cohort_reap(struct cohort *cohort);
/* Drop a reference of the handle; no mutex held. */
void pawl__lock_put(struct pawl_lock *lock);
/* Drop a reference; NULL is fine. cohort->mutex held, or nobody else there. */
void pawl__label_put(struct label *label);

/* Unlock without settling anything, and wake the waiter that cohort->wake names. */
static inline void pawl__cohort_let_go(struct cohort *cohort) {
    _Atomic uint32_t *wake = cohort->wake;

    cohort->wake = NULL;
    pthread_mutex_unlock(&cohort->mutex);
    /* The waiter may have returned by now, and its futex with its stack: then this wakes nobody, or a sleeper that looks and sleeps on. */
    if (wake)
        futex_wake_own(wake, 1);
}

/* Something has become of a hold of the handle: let those look who wait for that. cohort->mutex is held. */
static inline void pawl__lock_ring(struct pawl_lock *lock) {
    if (!lock->extending)
        return;
    atomic_fetch_add(&lock->changes, 1);
    futex_wake_own(&lock->changes, INT_MAX);
}

static inline bool is_waiting(const struct waiter *waiter) {
    return waiter->state == WAITER_WAITING || waiter->state == WAITER_CALLED || waiter->state == WAITER_DUE;
}

/* waiter.c: one acquire. cohort->mutex is held. */

/* The table: the next state, WAITER_IGNORED or WAITER_NEVER. */
int pawl__waiter_move(enum waiter_state state, enum waiter_event event);
/* The only one that changes the state. False: the event means nothing to it now. */
bool pawl__waiter_step(struct waiter *waiter, enum waiter_event event);

/* A claim for what this waiter wants. NULL: out of memory. */
struct claim *pawl__waiter_claim(struct cohort *cohort, const struct waiter *waiter, bool try_only);
/* One more acquire that the claim is to serve. True: the engine is to be told that it takes more tokens. */
bool pawl__waiter_count(struct claim *claim);
/* Let it wait for the claim; `attach` counts it, too. */
void pawl__waiter_put(struct claim *claim, struct waiter *waiter);
bool pawl__waiter_attach(struct claim *claim, struct waiter *waiter);
/* Let it wait for this claim instead, before those who are there. */
void pawl__waiter_change(struct claim *claim, struct waiter *waiter);
/* It was neither granted nor refused at once. */
void pawl__waiter_waits(struct waiter *waiter, int64_t now);
/* Wake the waiter's thread, if it sleeps. */
void pawl__waiter_wake(struct cohort *cohort, struct waiter *waiter);
/* The waiter's fate is decided, GRANT or END: tell it. */
void pawl__waiter_conclude(struct waiter *waiter, enum waiter_event fate);
/* It holds from now on: with this token, or one of the claim's. False: the claim has none for it. */
void pawl__waiter_grant_with(struct claim *claim, struct waiter *waiter, uint64_t token);
bool pawl__waiter_grant(struct claim *claim, struct waiter *waiter);
/* A hold begins, in memory of the caller's; it is over, and the memory is the handle's. */
void pawl__hold_begin(struct hold *hold, struct pawl_lock *lock, struct claim *claim, uint64_t owner, enum pawl_mode mode,
                      uint64_t token);
void pawl__hold_drop(struct hold *hold);
/* Its token: what was reserved is drawn when it is first asked for. */
uint64_t pawl__hold_token(struct hold *hold);

/* handoff.c: who has the claim next, within its bounds. cohort->mutex is held. */

/* Is the claim within its bounds? */
bool pawl__handoff_may_join(struct claim *claim);
/* Nobody holds it: give it to its next waiter, or leave it open for him, if it has one and is within its bounds. */
bool pawl__handoff_next(struct claim *claim);
/* Another process wants it: if it is open nobody in this one is to sleep while it lies there. */
void pawl__handoff_wake_first(struct claim *claim);
/* The claim's first waiter is awake, and the claim is in use: how long does it sleep at most? */
int64_t pawl__handoff_sleep(const struct pawl *client, struct waiter *waiter, int64_t now, int64_t until);

/* cohort.c: who waits and who holds. cohort->mutex is held unless said otherwise. */

/* What was withdrawn or downgraded, and nobody looks after, is the service thread's. */
void pawl__cohort_adopt_unsettled(struct cohort *cohort);
/* Unlock. What was withdrawn or downgraded and nobody looks after, the service thread finishes. */
static inline void pawl__cohort_unlock(struct cohort *cohort) {
    if (!TAILQ_EMPTY(&cohort->unsettled))
        pawl__cohort_adopt_unsettled(cohort);
    pawl__cohort_let_go(cohort);
}
/* Unlock. What this thread has withdrawn it will finish itself, and nobody else: it comes back for it. */
void pawl__cohort_let_go_unsettled(struct cohort *cohort);
/* Finish it in this thread. 0, or PAWL_ELOST: what this thread withdrew had been lost before. */
int pawl__cohort_finish_unsettled(struct cohort *cohort);
/* The same, then unlock. */
static inline int pawl__cohort_finish(struct cohort *cohort) {
    int rc = TAILQ_EMPTY(&cohort->unsettled) ? 0 : pawl__cohort_finish_unsettled(cohort);

    pawl__cohort_let_go(cohort);
    return rc;
}
/* What the owner holds by any handle; NULL: nothing that is not lost. */
struct hold *pawl__cohort_hold(const struct cohort *cohort, uint64_t owner);
/* Give back what is kept, if anything is. */
void pawl__cohort_give_back(struct cohort *cohort);
/* See that somebody waits, in park() or in serve(), for a pending claim. */
void pawl__cohort_nudge(struct claim *claim);
/* Ask for the claim, and do what follows. The claim may be freed. */
void pawl__cohort_submit(struct claim *claim);
/* Withdraw a claim without waiters and holds. 0, or PAWL_ELOST: it had been lost. The claim may be freed. */
int pawl__cohort_retire(struct claim *claim);
/* Do what follows from what became of a claim. The claim may be freed. */
void pawl__cohort_settle(struct claim *claim, int outcome, const struct pawl_error *why);
/* Wait until the (synchronous) waiter was granted or has ended, or has to look for a deadlock; the mutex is released meanwhile. */
void pawl__cohort_wait(struct cohort *cohort, struct waiter *waiter);
/* End a waiter with an error. */
void pawl__cohort_end(struct waiter *waiter, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The hold is over: hand its claim on, or withdraw it. 0, or PAWL_ELOST if it had been lost. Takes the hold away. */
int pawl__cohort_leave(struct hold *hold);
/* The same, if its claim is kept by that, and it is known by that as well that it was not lost: nobody need look first. False: not so, and
 * the hold is as before. */
bool pawl__cohort_leave_kept(struct hold *hold);
/* Held exclusively by a hold that keeps only a shared acquire: let readers in, by the time the cohort is unlocked. 0, or PAWL_ELOST. */
int pawl__cohort_downgrade(struct claim *claim);
/* Look whether the claim is lost by now; if so, its holders are told. */
void pawl__cohort_refresh(struct claim *claim);
/* Do what is due by now: expiry, suspicion, renewal, deadlines of asynchronous acquires. Returns when to look again. */
int64_t pawl__cohort_tick(struct cohort *cohort, int64_t now);
/* What the engine tells of a claim: on the service thread, from serve(). No mutex is held. */
pawl__tell_fn pawl__tell;

/* enter.c: an acquire comes in. cohort->mutex is held. */

/* Before all that, with no mutex held: what this process keeps of the same name as another kind of lock goes back. PAWL_EDEADLK: this
 * thread, of that number, holds what differs only in PAWL_NONREENTRANT. */
int pawl__lock_make_way(const struct pawl_lock *lock, uint64_t thread, struct pawl_error *reterr);
/* Let the waiter join a claim or start one. Afterwards it waits, or was granted, or has ended. */
void pawl__cohort_enter(struct cohort *cohort, struct waiter *waiter);
/* The same for a cohort without claims, and without a waiter: one is made only if the claim has to wait. `hold`: memory for the hold to
 * be. NEWS_GRANTED; NEWS_REFUSED, and the hold is the caller's again; or CLAIM_QUEUED: a waiter has to begin() before the cohort is
 * unlocked. */
int pawl__cohort_enter_alone(struct pawl_lock *lock, const struct claim_terms *terms, struct hold *hold, uint64_t owner,
                             struct claim **retclaim, struct pawl_error *reterr);
void pawl__cohort_begin(struct claim *claim, struct waiter *waiter);
/* The same where a claim is open or kept: it is entered, without a waiter and without asking anybody. False: there is none. */
bool pawl__cohort_enter_idle(struct pawl_lock *lock, enum pawl_mode mode, uint64_t owner);
/* Let waiters of different cohorts, whose mutexes are all held and which have no claims, start claims that are asked for at once. */
void pawl__cohort_enter_all(struct waiter *const waiters[], size_t count);

/* service.c */

/* Is this thread the client's service thread, in a callback of the user's? */
bool pawl__service_calls(struct pawl *client);
/* May this thread ask the engine something and wait? 0, or PAWL_EDEADLK: it is in such a callback, and it alone reads answers. */
int pawl__client_check_asks(struct pawl *client, struct pawl_error *reterr);

/* Make sure that the service thread runs. False: it can't be started. */
bool pawl__service_start(struct pawl *client);
void pawl__service_stop(struct pawl *client);
/* A thread that blocks all signals. False: it can't be started. */
bool pawl__service_thread(pthread_t *ret, void *(*run)(void *), void *data);
/* Have the service thread look at the clock at `when`, if not earlier. Any mutex may be held. */
void pawl__service_due(struct pawl *client, int64_t when);

/* events.c */

/* Queue a callback. A cohort's mutex may be held. */
void pawl__event_post(struct pawl *client, struct event *event);
/* Run the service thread's own events. */
void pawl__events_serve(struct pawl *client);
/* Wait until no callback of the handle runs on the service thread, unless this is that thread. */
void pawl__events_quiesce(struct pawl_lock *lock);

/* calling.c: callbacks of the user's that run in this thread */

enum callback { CALLING_LOG, CALLING_INTERRUPTED, CALLING_DEADLOCK, CALLING_LOSS, CALLING_OBSERVED, CALLING_VISIT };

struct calling {
    struct calling *around;
    enum callback kind;
    const struct pawl *client;   /* its pawl_close would wait for the callback, ... */
    struct pawl *const *others;  /* ... and that of these, up to a NULL; or NULL */
    const struct cohort *cohort; /* of the lock that this thread waits for, or NULL */
};

/* The innermost of them, in the initial TLS block: every call looks. */
extern _Thread_local struct calling *pawl__calling __attribute__((tls_model("initial-exec")));

void pawl__calling_begin(struct calling *calling, enum callback kind, const struct pawl *client);
void pawl__calling_end(const struct calling *calling);
/* The log's callback may run with mutexes held: nothing may be called in it. */
static inline bool pawl__in_log(void) {
    return pawl__calling && pawl__calling->kind == CALLING_LOG;
}
int pawl__refuse_in_log(struct pawl_error *reterr);
/* The callback in which this thread is, if pawl_close would wait for its end; else NULL. */
const char *pawl__close_waits_for(const struct pawl *client);
/* Ask the user whether the wait of this thread is to end, since a signal has come. `cohort`: of the lock that it waits for, or NULL. No
 * mutex is held. */
bool pawl__ask_interrupted(const struct pawl *client, const struct cohort *cohort);
/* Is this thread in a callback while it waits for this lock? */
bool pawl__calling_waits_for(const struct cohort *cohort);

/* operator.c */

/* May the client be used? Not where it is NULL, or the parent's. */
int pawl__client_check(const struct pawl *client, struct pawl_error *reterr);

/* password.c */

enum { PAWL__PASSWORD_SIZE = 1024 };
/* Find the password of the URL where it does not say one itself; `buffer` is for one from a file. */
int pawl__password_take(struct pawl__url *url, char buffer[PAWL__PASSWORD_SIZE], struct pawl_error *reterr);

/* fork.c: the clients of this process, so that a child can be told that they are not its own; and its number. */
/* No client comes or goes, and none is freed, while the list is locked. Each one after the other; NULL: the first, the end. */
void pawl__clients_lock(void);
void pawl__clients_unlock(void);
struct pawl *pawl__clients_next(const struct pawl *client);
/* While a client is being opened no other thread forks: the child would have descriptors that nobody closes in it. */
void pawl__fork_hold(void);
void pawl__fork_go_on(struct pawl *opened); /* NULL: it was not */
void pawl__fork_forget(struct pawl *client);
/* The number of this process, between hold and go_on: the random one of its first client. */
void pawl__fork_agent(uint64_t client_id, char ret[PAWL__AGENT_SIZE]);

/* deadlock.c */

/* Look for deadlocks in this process, unless somebody has looked after `since`; tell, and end one acquire of each if that is wanted. No
 * mutex is held. */
void pawl__stakes_look(int64_t since);

/* handle.c */

/* The calling thread's number, and one that nobody has. */
uint64_t pawl__owner_self(void);
uint64_t pawl__owner_new(void);
/* The calling thread has so many acquires more, or less. */
void pawl__owner_counts(const struct pawl_lock *lock, int acquires);
/* May the handle be used? Not where its client is closed, or the parent's. */
int pawl__lock_check_alive(const struct pawl_lock *lock, struct pawl_error *reterr);
/* Lock the handle's cohort, unless the client is closed or belongs to the parent. */
int pawl__lock_cohort(const struct pawl_lock *lock, struct pawl_error *reterr);
/* Does the request make sense? */
int pawl__lock_check(const struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                     struct pawl_error *reterr);
/* A handle that owns its holds acquires one at a time. */
int pawl__lock_check_busy(const struct pawl_lock *lock, struct pawl_error *reterr);
/* Decide from what this owner holds already: 0 or an error. 1: it holds nothing, and must join the queue. The cohort is locked. */
int pawl__lock_reenter(struct pawl_lock *lock, enum pawl_mode mode, struct pawl_error *reterr);
/* Make a waiter of the calling owner's, with memory for the hold to be. False: out of memory. The cohort is locked. */
bool pawl__lock_waiter(struct pawl_lock *lock, struct waiter *waiter, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                       struct pawl_error *reterr);
/* Join the queue and wait; or only wait. The cohort is locked, and unlocked afterwards. */
int pawl__lock_queue_up(struct pawl_lock *lock, struct waiter *waiter, struct pawl_error *reterr);
int pawl__lock_await(struct pawl_lock *lock, struct waiter *waiter, struct pawl_error *reterr);
/* An event, with a waiter that is yet to be made, for an acquire whose end is told by `fn`. NULL: out of memory. */
struct event *pawl__lock_event(struct pawl_lock *lock, pawl_acquired_fn *fn, void *data);
void pawl__lock_event_free(struct event *event);
/* From here on the event will come: when its waiter was granted or has ended, or when it is posted. The cohort is locked. */
void pawl__lock_expect(struct event *event);
/* One acquire of the calling owner's less, without waiting for the engine: `later` the service thread finishes it, else settle does. */
int pawl__lock_give_back(struct pawl_lock *lock, bool shared, bool later, struct pawl_error *reterr);
int pawl__lock_settle(struct pawl_lock *lock, struct pawl_error *reterr);
/* The calling owner's hold, looked at; of a semaphore its latest. NULL: none. The cohort is locked. */
struct hold *pawl__lock_hold(const struct pawl_lock *lock);
/* PAWL_ENOTHELD or PAWL_ENOTOWNER: it has none. The cohort is locked. */
int pawl__lock_fail_not_held(const struct pawl_lock *lock, bool shared, struct pawl_error *reterr);
/* Does the calling owner hold it, as far as is known here? 0, or why not. */
int pawl__lock_check_held(const struct pawl_lock *lock, struct pawl_error *reterr);

/* label.c */

/* May it be shown to operators, and does it fit? `what` it is, for the error. */
int pawl__label_check(const char *what, const char *text, struct pawl_error *reterr);

/* value.c */

/* Has the engine values, and observers? 0, or PAWL_EUNSUPPORTED. */
int pawl__client_check_values(const struct pawl *client, struct pawl_error *reterr);

/* observe.c */

pawl__changed_fn pawl__observers_changed;
/* The thread is to end; then wait for it, and end those who still observe. */
void pawl__observers_stop(struct pawl *client);
void pawl__observers_end(struct pawl *client);

#endif
