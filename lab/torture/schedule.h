/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - from a seed to what happens when: pure, so that the same seed gives the same schedule on every machine.
 */
#ifndef PAWL_TORTURE_SCHEDULE_H
#define PAWL_TORTURE_SCHEDULE_H

#include "dice.h"
#include "faults.h"

/* One fault: it begins, lasts, and is over. */
struct stroke {
    int64_t at_ms, span_ms;
    enum fault fault;
    uint64_t target; /* which client, server, connections: modulo how many there are */
};

struct schedule_options {
    uint64_t seed;
    int64_t time_ms;
    int64_t lease_ms; /* 0: nothing expires */
    unsigned pace;    /* percent: 200 is twice as many faults */
    bool faults[FAULT_KINDS];
};

struct schedule {
    struct stroke *strokes; /* by at_ms */
    size_t count;
};

/* Nothing begins in the last fifth of the time (at most two leases and five seconds): what was broken must be seen to work again. */
int64_t schedule_calm_ms(const struct schedule_options *options);
/* What begins until `end_ms`. False: out of memory. */
bool schedule_make(const struct schedule_options *options, int64_t end_ms, struct schedule *ret);
void schedule_free(struct schedule *schedule);

#endif
