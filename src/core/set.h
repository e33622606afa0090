/* SPDX-License-Identifier: Apache-2.0
 *
 * set.h - several locks that are being acquired as one.
 */
#ifndef PAWL_CORE_SET_H
#define PAWL_CORE_SET_H

#include "core/core.h"

/* One lock of a set that is being acquired. */
struct part {
    TAILQ_ENTRY(part) link; /* cohort->parts */
    struct set *set;
    struct pawl_lock *lock; /* a reference, once it was enlisted */
    enum pawl_mode mode;
    uint32_t permits;
    bool enlisted; /* was put into cohort->parts */
    bool taken;
    bool reentered;        /* taken, because its owner had it before */
    struct waiter *waiter; /* waits for it; guarded by the cohort's mutex */
    struct waiter own;     /* for the waiter, where a thread waits */
};

/* Several locks that are being acquired as one. */
struct set {
    _Atomic unsigned references;
    uint64_t owner;   /* the thread that waits; asynchronous: a number of its own */
    _Atomic int fate; /* see set.c */
    int64_t timeout_ms, deadline;
    struct pawl_lock *first; /* as the user gave them */
    pawl_acquired_fn *fn;    /* asynchronous: what is called at the end; else NULL */
    void *data;
    pthread_mutex_t mutex; /* asynchronous: guards the next three; a leaf */
    bool together;         /* the parts that are awaited were asked for at once */
    size_t awaited;        /* outcomes that are still to come */
    struct pawl_error error;
    size_t count;
    struct part parts[]; /* in the canonical order */
};

/* End the acquires of sets with a part in the cohort, of this handle or (NULL) of any; no mutex is held. Returns how many. */
int pawl__set_end(struct cohort *cohort, const struct pawl_lock *lock, int code);

#endif
