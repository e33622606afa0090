/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - the time, chance, and waiting for a moment: what all of pawl asks the machine for at this one place.
 *
 * Points in time and spans are nanoseconds of CLOCK_BOOTTIME, which goes on while the machine is suspended; base/lease.h has PAWL__NEVER.
 */
#ifndef PAWL_CLOCK_H
#define PAWL_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAWL__NS_PER_S INT64_C(1000000000)
#define PAWL__NS_PER_MS INT64_C(1000000)

/* Now. */
int64_t pawl__boottime(void);

/* A number that changes with every tick of the kernel's clock, some ms apart as a rule, and when the machine was suspended. Read in a
 * fifth of the time that pawl__boottime() takes. */
int64_t pawl__tick(void);

/* The wall clock, in us since 1970. It may be wrong, and may jump. */
int64_t pawl__wall_us(void);

/* Sleep for `ns`, less than a second. */
void pawl__pause(int64_t ns);

/* Wait for the condition until `until`, or earlier without a reason. */
void pawl__wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until);

/* A descriptor that can be read from a moment on, until bell_silence(); never before it is set. -1 with errno. */
int pawl__timer(void);
void pawl__timer_set(int fd, int64_t when);

/* Fill the buffer with random bytes. False: there are none; errno says why. */
bool pawl__random(void *buffer, size_t size);

#endif
