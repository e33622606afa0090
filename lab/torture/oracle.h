/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle.h - what is promised under which fault: read from the tables of docs/guarantees.md, the one place where it is written.
 */
#ifndef PAWL_TORTURE_ORACLE_H
#define PAWL_TORTURE_ORACLE_H

#include "faults.h"

enum promise {
    PROMISE_EXCLUSIVE, /* no overlap of what was assured */
    PROMISE_FENCED,    /* overlap is counted; tokens rise, and the fenced store loses nothing */
    PROMISE_LOSS,      /* nor do tokens have to rise */
};

/* Until when is a holder told that the fault took its hold? */
enum told {
    TOLD_NEVER, /* nothing is taken from a client that lives */
    TOLD_NOW,
    TOLD_RENEWAL,
    TOLD_LEASE,
    TOLD_RESUME,
};

/* So many leases, and so much time. */
struct bound {
    int64_t leases, ms;
};
static inline int64_t bound_ns(struct bound bound, int64_t lease_ns) {
    return bound.leases * lease_ns + bound.ms * 1000000;
}

/* Who has a hold that is to last so long may believe it for so long, until it hears more: clocks may be wrong by a little. */
static inline int64_t bound_limit(int64_t limit_ns) {
    return limit_ns - limit_ns / 50 - 5000000;
}

struct oracle {
    struct {
        bool known; /* there is a row */
        enum promise promise;
        enum told told;
        bool ordered; /* who queues keeps its place */
    } faults[FAULT_KINDS];
    bool ordered;            /* first come, first served, without any fault */
    struct bound idle, mend; /* how long a lock may be free while somebody waits; and after a fault */
};

/* The text of docs/guarantees.md as of when this program was built. */
extern const char oracle_text[];

/* Read the rows of one engine. False: there is none, or a row makes no sense; then ret_why (of this size) says which. */
bool oracle_read(const char *text, const char *engine, struct oracle *ret, char *ret_why, size_t size);

#endif
