/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - see lease.h.
 */
#include "base/lease.h"

enum { NS_PER_MS = 1000000, MARGIN_NS = 2 * NS_PER_MS };

int64_t pawl__time_add(int64_t from, int64_t span) {
    int64_t sum;

    if (from == PAWL__NEVER || span == PAWL__NEVER || __builtin_add_overflow(from, span, &sum))
        return PAWL__NEVER;
    return sum;
}

int64_t pawl__deadline(int64_t now, int64_t timeout_ms) {
    if (timeout_ms > INT64_MAX / NS_PER_MS)
        return PAWL__NEVER;
    return pawl__time_add(now, timeout_ms * NS_PER_MS);
}

int64_t pawl__lease_renew_at(int64_t sent_at, int64_t lease) {
    return lease == PAWL__NEVER ? PAWL__NEVER : pawl__time_add(sent_at, lease / 3);
}

int64_t pawl__lease_suspect_at(int64_t sent_at, int64_t lease) {
    return lease == PAWL__NEVER ? PAWL__NEVER : pawl__time_add(sent_at, lease / 3 * 2);
}

int64_t pawl__lease_assured_until(int64_t sent_at, int64_t lease) {
    return lease == PAWL__NEVER ? PAWL__NEVER : pawl__time_add(sent_at, lease - lease / 100 - MARGIN_NS);
}
