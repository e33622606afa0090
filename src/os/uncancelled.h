/* SPDX-License-Identifier: Apache-2.0
 *
 * uncancelled.h - no function of the library's is a point at which a thread may be cancelled.
 *
 * A thread that pthread_cancel() ended in the middle of one would leave locked mutexes, claims that nobody waits for, and counts that never
 * come down. So cancellation is off from where a call may reach a cancellation point until it returns; the thread is cancelled afterwards,
 * at its next one. Turning it off and on costs as much as half of an uncontended acquire: so calls that get along without any I/O, as most
 * of `local:` and those about a kept lock do, leave it alone until they need some.
 *
 * (Asynchronous cancellation, PTHREAD_CANCEL_ASYNCHRONOUS, is not to be used around any library but the few functions that POSIX names.)
 */
#ifndef PAWL_UNCANCELLED_H
#define PAWL_UNCANCELLED_H

#include <pthread.h>
#include <stdbool.h>

enum { CANCEL_LEFT_ALONE = -1 };

static inline int cancel_off(bool needed) {
    int before = CANCEL_LEFT_ALONE;

    if (needed)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline __attribute__((always_inline)) void cancel_restore(const int *before) {
    int ignored;

    if (*before != CANCEL_LEFT_ALONE)
        pthread_setcancelstate(*before, &ignored);
}

/* From here to the end of the block; or only if it is needed. */
#define UNCANCELLED_IF(needed) __attribute__((cleanup(cancel_restore), unused)) int cancel_state_ = cancel_off(needed)
#define UNCANCELLED UNCANCELLED_IF(true)

#endif
