/* SPDX-License-Identifier: Apache-2.0
 *
 * coverage.h - which states met which events in all runs so far: a claim's state in the core and in its engine, who reads its answers,
 * what its connection does, and what happened then. What was never seen is a list of faults to add.
 */
#ifndef PAWL_SIM_COVERAGE_H
#define PAWL_SIM_COVERAGE_H

#include <stdio.h>

/* Look at every event of the worlds from now on. */
void coverage_begin(void);
/* How many of all pairs were seen, and which were not. */
void coverage_print(FILE *to);

#endif
