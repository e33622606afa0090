/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.h - signals that should not come. Of a simulated process they are the end, as they would be of a real one, and the run goes on
 * to its verdict. Of anything else they are the end of the program, which says what it was playing.
 */
#ifndef PAWL_SIM_CRASH_H
#define PAWL_SIM_CRASH_H

#include <stdbool.h>

/* From now on. */
void crash_watch(void);
/* This is being played; it may take so many seconds of the processor's time. */
__attribute__((format(printf, 2, 3))) void crash_begin(int seconds, const char *format, ...);
void crash_end(void);

#endif
