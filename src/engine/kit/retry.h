/* SPDX-License-Identifier: Apache-2.0
 *
 * retry.h - trying again: later and later, and not all at the same moment.
 */
#ifndef PAWL_KIT_RETRY_H
#define PAWL_KIT_RETRY_H

#include <stdint.h>

#include "pawl.h"

struct pawl__url;

/* What `?retry=BASE,MAX,TRIES` says. */
struct kit_retry {
    int64_t base_ns, max_ns; /* the first pause, and the longest */
    unsigned tries;          /* 0: for ever */
};

/* Take the option, which may leave out its end: what it does not say stays as it is in `ret`. */
int pawl__kit_take_retry(struct pawl__url *url, struct kit_retry *ret, struct pawl_error *reterr);

/* A moment between the two, by a cheap generator whose state is the caller's: it keeps clients apart, and guards no secret. */
static inline int64_t kit_between(uint32_t *random, int64_t low, int64_t high) {
    *random = *random * 1664525u + 1013904223u;
    return low + (high - low) * (int64_t)(*random >> 16) / 65536;
}

/* The pause after so many failures in a row: twice as long each time, up to `most`. */
static inline int64_t kit_back_off(int64_t base, int64_t most, unsigned failures) {
    while (failures-- && base < most)
        base *= 2;
    return base < most ? base : most;
}

#endif
