/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - all that one schedule is: which service, which clients, which faults exist, and when they strike. A plan is drawn from a seed
 * (swarm.c), and can be written down and read again, so that a failure is kept as a line of text.
 *
 * Written down, the options are KEY=VALUE parted by commas, such as clients=3,lease=2000,kinds=m+s,faults=cut+slow,url=handoff=0&spin=0.
 */
#ifndef PAWL_SIM_PLAN_H
#define PAWL_SIM_PLAN_H

#include <string.h>

#include "actors/actors.h"
#include "services.h"
#include "strokes.h"

/* Numbers: the key, what it may be at most, and what it says. All of them are kept as int64_t. */
#define PLAN_NUMBERS(X)                                                                                                            \
    X(clients, 64) /* processes */                                                                                                 \
    X(threads, 16) /* of each */                                                                                                   \
    X(locks, 64)                                                                                                                   \
    X(sets, 100)     /* of 100 acquires so many are of several locks at once */                                                    \
    X(nests, 100)    /* of 100 acquires so many are of two locks, one after the other, in either order */                          \
    X(values, 100)   /* of 100 holds so many write or read what lies beside the lock */                                            \
    X(notes, 100)    /* of 100 of these so many are of the note, the second value beside it */                                     \
    X(bytoken, 100)  /* of 100 writes so many are in the name of another's hold */                                                 \
    X(extend, 100)   /* of 100 acquires so many have a limit, and of 100 holds so many are extended, or confirmed */               \
    X(peruse, 1)     /* 1: each acquire is by a handle of its own, which is freed after it */                                      \
    X(watch, 100)    /* of 100 locks that a client has so many are observed by it, too */                                          \
    X(together, 1)   /* 1: all locks are in one slot of a cluster */                                                               \
    X(time, 3600000) /* ms, as all times unless it says otherwise */                                                               \
    X(lease, 600000)                                                                                                               \
    X(hold, 600000)      /* the longest of the usual holds; 0: mostly a moment */                                                  \
    X(pace, 10000)       /* percent: 200 is twice as many faults */                                                                \
    X(preempt, 1000000)  /* a thread loses its turn at one in so many places; 0: only where it blocks */                           \
    X(priorities, 1000)  /* not 0: random priorities, changed so often */                                                          \
    X(near, 60000000)    /* us that bytes travel at least, ... */                                                                  \
    X(far, 60000000)     /* ... and at most; 0, 0: as the world likes it */                                                        \
    X(onebyte, 1000000)  /* one in so many deliveries comes as single bytes; 0: none */                                            \
    X(observer, 1)       /* somebody looks who waits */                                                                            \
    X(down, 600000)      /* a server that is silent for so long is given up by the others */                                       \
    X(apart, 7200000)    /* Redlock: the servers' clocks show times that differ by so much at most, all the time */                \
    X(forgetful, 5)      /* Redlock: so many servers forget at once; 0: one, always the same */                                    \
    X(version, 100)      /* which of the versions of the server that the model knows */                                            \
    X(textbook, 1)       /* 1: the locks that documents warn of (lab/textbook/textbook.h); the URL has their settings */           \
    X(nonsense, 1000000) /* one in so many answers is well-formed and makes no sense; 0: none */                                   \
    X(throttle, 1000000) /* ZooKeeper: one in so many requests is refused, for there are too many; 0: none */                      \
    X(keep, 600000)      /* a lock that nobody holds stays with its client for so long; 0: it is given back at once */             \
    X(breaks, 100)       /* of 100 times that the observer sees a hold, so often it is asked back: pawl break without --now */     \
    X(tries, 100)        /* after so many failures to connect, one every few ms, acquires end: ?retry=; 0: never */                \
    X(patience, 600000)  /* nobody waits for longer for a lock that it could have, under any fault; 0: as calm and faults allow */ \
    X(requests, 1000000) /* so many hundredths of a message per hold at most, in a calm run without an observer; 0: any number */

struct plan {
    const struct sim_service *service;
    uint64_t seed;
#define PLAN_FIELD(name, most) int64_t name;
    PLAN_NUMBERS(PLAN_FIELD)
#undef PLAN_FIELD
    bool kinds[3]; /* by enum pawl_kind */
    bool faults[SIM_FAULT_KINDS];
    bool actors[ACTOR_CLASSES]; /* foreigners that take part */
    char url[160];              /* options to be added to the URL; "": none */
    struct strokes strokes;
};

/* Change what the text says. False: it makes no sense; ret_why (of this size) says which part. */
bool plan_read_options(struct plan *plan, const char *text, char *ret_why, size_t size);
/* All of them. The length, as of snprintf. */
size_t plan_write_options(const struct plan *plan, char *ret, size_t size);

/* swarm.c: everything but the service is drawn from the seed, the strokes too. */
void plan_draw(struct plan *plan, const struct sim_service *service, uint64_t seed);
/* Draw the strokes again, after options were changed. */
void plan_draw_strokes(struct plan *plan);
/* The seed of schedule number `index` of many. */
uint64_t plan_seed(uint64_t seed, uint64_t index);
static inline bool plan_has_foreigners(const struct plan *plan) {
    for (int i = 0; i < ACTOR_CLASSES; i++)
        if (plan->actors[i])
            return true;
    return false;
}
/* Does ZooKeeper refuse one in a few requests? Then it is a matter of luck when all get through. */
enum { SELDOM_REFUSED = 10 };
static inline bool plan_refuses_often(const struct plan *plan) {
    return plan->throttle > 0 && plan->throttle < SELDOM_REFUSED;
}
/* Are locks kept? Not with handoff=0, where each acquire has its place in the queue. */
static inline bool plan_keeps(const struct plan *plan) {
    return plan->keep > 0 && strstr(plan->url, "handoff=0") == NULL;
}
/* Do acquires end while a server is away? */
static inline bool plan_gives_up(const struct plan *plan) {
    return plan->tries > 0 && strstr(plan->url, "retry=") == NULL;
}
/* So long it may take in the end until the last deadlocks are ended: who waits is looked at after a second, and then every four. */
enum { PLAN_DEADLOCKS_MS = 10000 };
/* Are holds asked back? Not where locks are nested: who was told of its loss while it waits in a deadlock gives nothing back. */
static inline bool plan_breaks(const struct plan *plan) {
    return plan->breaks > 0 && plan->observer != 0 && plan->nests == 0;
}
/* Is there no fault in it at all? */
static inline bool plan_is_calm(const struct plan *plan) {
    return plan->strokes.count == 0;
}

#endif
