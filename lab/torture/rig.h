/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h - what the processes of a run share.
 *
 *     the rig (nemesis.c) --fork, exec--> clients (client.c): acquire, release, believe
 *                          \------------> an observer (observer.c): who waits? breaks holds when asked
 *     all of them append to the history; a page of shared memory says what to do and counts for the live line.
 *
 * Clients are programs of their own (this one, run with --worker), not children by fork alone: so each can be given another clock, and none
 * has a thread's leftovers of the rig's.
 */
#ifndef PAWL_TORTURE_RIG_H
#define PAWL_TORTURE_RIG_H

#include <stdatomic.h>
#include <sys/types.h>

#include "../../cli/common/cli.h"
#include "history.h"
#include "schedule.h"

enum { RIG_CLIENTS_MAX = 1024, RIG_LOCKS_MAX = HISTORY_LOCKS, RIG_THREADS_MAX = 16, RIG_URL = 1024 };

/* What clients are to do. */
enum rig_phase { PHASE_RUN, PHASE_FINISH /* end what was begun */, PHASE_LEAVE /* close */ };

struct rig_lock {
    enum pawl_kind kind;
    unsigned limit;
    char name[32];
};

/* A handle on one of them. */
int rig_lock_new(struct pawl *pawl, const struct rig_lock *lock, unsigned flags, struct pawl_lock **ret, struct pawl_error *reterr);

/* A client that runs, or did. */
struct rig_slot {
    _Atomic pid_t pid;
    _Atomic unsigned life;
    _Atomic int holds; /* how many of its threads hold something */
};

/* How clients use the library. */
struct rig_uses {
    int extend;       /* of 100 acquires so many have a limit, and of 100 holds so many are extended, ... */
    int64_t limit_ms; /* ... for so long at least: what is over before it is known to be held is asked for again and again */
    bool per_use;     /* each acquire is by a handle of its own, which is freed after it */
    bool gives_up;    /* acquires end while a server is away */
};

/* What the observer is to break. */
struct rig_breaks {
    int share; /* of 100 times that a hold is seen, so often its holder is asked to give it up: pawl break without --now */
    _Atomic uint64_t wanted, done; /* with it */
};

struct page {
    char url[RIG_URL];    /* for clients: through the proxies, if there are any */
    char direct[RIG_URL]; /* for the observer */
    uint64_t seed;
    int64_t lease_ms;   /* 0: the engine's */
    int64_t longest_ms; /* how long the longest holds are */
    int64_t hold_ms;    /* and all others at most; 0: mostly a moment */
    int64_t pause_ms;   /* now and then a client wants nothing for so long at most, and locks are kept; 0: never */
    int64_t began;      /* history_clock() */
    int64_t began_wall; /* Unix time then, in ns */
    int clients, threads, locks;
    int sets;        /* of 100 acquires so many are of several locks at once */
    int nests;       /* of 100 acquires so many are of two locks, one after the other: the first and the client's own */
    int64_t nest_ms; /* how long the second of them is waited for at most; 0: for ever */
    int values;      /* of 100 holds so many read or write what lies beside the lock, if the engine has that */
    int notes;       /* of 100 of these so many are of the note, the second value beside the lock */
    int by_token;    /* of 100 writes so many are in the name of a hold that is known by its token */
    struct rig_uses uses;
    int watch;        /* of 100 locks that a client has so many are observed by it, too, ... */
    int64_t watch_ms; /* ... which is told of the last state within so long */
    struct rig_lock lock[RIG_LOCKS_MAX];
    struct rig_slot slots[RIG_CLIENTS_MAX];
    _Atomic int phase;
    _Atomic int idle;                           /* clients that have finished */
    _Atomic uint64_t granted[RIG_LOCKS_MAX][2]; /* the tokens of the last two exclusive holds, the later one first */
    _Atomic uint64_t acquired, failed, lost;
    struct rig_breaks breaks;
};

/* Behind the common locks each client has one of its own, where locks are nested. */
static inline int rig_locks(const struct page *page) {
    return page->locks + (page->nests > 0 ? page->clients : 0);
}

/* The mains of the worker processes, by `--worker`. Return the exit status. */
int client_main(struct page *page, const struct history *history, int slot, unsigned life);
int observer_main(struct page *page, const struct history *history);

#endif
