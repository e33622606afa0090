/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - clocks that lie: a page of memory that says how, and a library (tests/support/clock_shim.c) that reads it in the process
 * concerned.
 */
#ifndef PAWL_SERVERS_CLOCK_H
#define PAWL_SERVERS_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The clock that the shim (tests/support/clock_shim.c) reads: what is added to the wall clock, and how fast all clocks run. */
struct clock_page {
    int fd;                /* of this memory, in the process that made it */
    _Atomic uint32_t turn; /* odd while what follows is being changed: a clock must not go back in between */
    _Atomic int64_t wall_offset_ns;
    _Atomic int64_t fast_since_ns; /* CLOCK_MONOTONIC; since then they run twice as fast; 0: they don't */
    _Atomic int64_t gained_ns;     /* what they are ahead since earlier times */
    _Atomic uint64_t reads;        /* answers that were not the truth */
};

/* A page for one process; NULL: it can't be. */
struct clock_page *clock_new(void);
void clock_free(struct clock_page *page);

/* In a child, before exec: have its clocks read from the page of this descriptor. */
void clock_lie(const char *shim, int fd);

/* From now on its wall clock is off (by an hour or so, forward), or all its clocks run fast. */
void clock_distort(struct clock_page *page, bool fast, uint64_t target);
/* From now on they are right again; `ahead`: but for the wall clock, which stays where it is. How often was the time asked for
 * meanwhile? At most 1000. */
unsigned clock_straighten(struct clock_page *page, bool ahead);

#endif
