/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.h - a client's observers: it is told who holds a lock and what lies beside it, and writes down what it was told.
 */
#ifndef PAWL_TORTURE_WATCH_H
#define PAWL_TORTURE_WATCH_H

#include "rig.h"

struct watches;

/* Observe some of the locks, as the dice say. NULL: none, or the engine has no observers. */
struct watches *watches_begin(struct page *page, const struct history *history, struct who who, struct pawl *pawl);
/* Nobody holds anything any more, or will not for long. Wait until each was told of the last value, and that the lock is free; one that
 * is not is written down. Then they end. NULL is fine. */
void watches_end(struct watches *watches);

/* The number of a value that put_value() of client.c made; 0: there is none; UINT64_MAX: nobody writes such a one. */
uint64_t value_number(const struct pawl_value *value);

#endif
