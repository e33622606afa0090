/* SPDX-License-Identifier: Apache-2.0
 *
 * calm.h - how long did anybody wait for a lock that it could have had? Read off a history, line by line. It means something where there
 * were no faults, or only kills: the table of guarantees is for busy machines and for faults, and allows far more.
 *
 * A writer could have the lock while nobody holds it; a reader, while no writer holds it or asked before; permits, while there
 * are enough for it and for all that asked before. A writer that joins one of its own process that waits asked when that did, and stays in
 * its place when it gives up.
 *
 * What a client that was killed held or kept lasts for a lease, and so does what it was just being given; and those who wait find out when
 * they ask anew, some 2 s later at the latest. Who only waited leaves nothing behind, but where it stood in the way of others that would
 * fit beside those that hold: they, too, find out by asking.
 */
#ifndef PAWL_SIM_CALM_H
#define PAWL_SIM_CALM_H

#include "torture/history.h"

enum { CALM_SLOTS = 64, CALM_LOCKS = 64, CALM_THREADS = 48 };

struct calm_thread {
    int64_t came;   /* when it asked */
    int64_t asked;  /* since when its claim may be there, at the latest */
    int64_t queued; /* no claim that it may wait behind is older: that of its process may have been there when it came */
    int64_t able;   /* since when it could have it; INT64_MAX: it could not */
    short lock;     /* -1: it neither waits nor holds */
    char mode;
    bool holds, drops, downs, lost;
    int64_t permits;
    unsigned life;
    unsigned passed; /* how often the lock had been handed on when it asked */
};

struct calm {
    int clients;    /* those with higher numbers are foreigners, and wait as they like */
    bool one_queue; /* foreigners wait in the same queue as clients */
    bool hasty;     /* only what is counted is of interest, not how long anybody waited */
    int64_t bound_ns, lease_ns;
    bool keeps;                 /* a client may have a lock that none of its threads holds */
    int64_t queues_ns;          /* who asks that much later may be ahead in the queue */
    int64_t worst_ns, worst_at; /* the longest wait, and when it was over */
    struct who worst;
    int worst_lock;
    unsigned starved;    /* how often the lock was handed on while a foreigner waited, at the most */
    unsigned hung, lost; /* clients that did not end; holds that were told as lost */
    int slots, width;    /* those that there are, and threads of one */
    struct {
        int64_t limit;
        bool shared;        /* several may hold it */
        int64_t dead_until; /* what the dead had is gone by then */
        struct who last;    /* who got it */
        unsigned passed;    /* how often it was handed on by the server */
    } locks[CALM_LOCKS];
    struct calm_thread threads[CALM_SLOTS][CALM_THREADS];
    int64_t could[CALM_SLOTS][CALM_LOCKS]; /* when it last held the lock, or could have */
};

/* `far_us`: how long bytes travel at most. Where that is long, so is the bound. */
void calm_begin(struct calm *calm, int clients, int64_t far_us);
void calm_line(struct calm *calm, const char *line, size_t length);

#endif
