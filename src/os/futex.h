/* SPDX-License-Identifier: Apache-2.0
 *
 * futex.h - sleeping on a word that threads or processes share, and waking who does.
 */
#ifndef PAWL_FUTEX_H
#define PAWL_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* False: a signal ended it. */
static inline bool futex_wait_by(int operation, const void *word, uint32_t value, int64_t ns) {
    struct timespec timeout = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    return syscall(SYS_futex, word, operation, value, &timeout, NULL, 0) == 0 || errno != EINTR;
}

/* Sleep while *word is `value`, for `ns` at most. The clock stands still in suspend; so callers sleep in slices. False: a signal came. */
static inline bool futex_wait(const void *word, uint32_t value, int64_t ns) {
    return futex_wait_by(FUTEX_WAIT, word, value, ns);
}

static inline void futex_wake(const void *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

/* The same for a word that only threads of this process know, which the kernel finds faster. */
static inline bool futex_wait_own(const void *word, uint32_t value, int64_t ns) {
    return futex_wait_by(FUTEX_WAIT_PRIVATE, word, value, ns);
}

static inline void futex_wake_own(const void *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#endif
