/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - clocks that lie: a page of memory that says how, and a library (tests/support/clock_shim.c) that reads it in the process
 * concerned.
 */
#ifndef PAWL_TORTURE_CLOCK_H
#define PAWL_TORTURE_CLOCK_H

#include "rig.h"

/* A page for one process; NULL: it can't be. */
struct clock_page *clock_new(void);
void clock_free(struct clock_page *page);

/* In a child, before exec: have its clocks read from this page. */
void clock_lie(const char *shim, struct clock_page *page);

/* From now on its wall clock is off (by an hour or so, forward), or all its clocks run fast. */
void clock_distort(struct clock_page *page, bool fast, uint64_t target);
/* From now on they are right again; `ahead`: but for the wall clock, which stays where it is. How often was the time asked for
 * meanwhile? At most 1000. */
unsigned clock_straighten(struct clock_page *page, bool ahead);

#endif
