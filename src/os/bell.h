/* SPDX-License-Identifier: Apache-2.0
 *
 * bell.h - an eventfd as a bell: a ring wakes the one who polls it, once, however often it was rung. It does not block
 * (EFD_NONBLOCK).
 */
#ifndef PAWL_BELL_H
#define PAWL_BELL_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

static inline void bell_ring(int fd) {
    const uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue; /* another error: it is full, and so readable, which is all that matters */
}

/* A timerfd is silenced in the same way. */
static inline void bell_silence(int fd) {
    uint64_t count;

    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
}

#endif
