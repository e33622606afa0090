/* SPDX-License-Identifier: Apache-2.0
 *
 * rule.h - the queue rule: of the claims on one name, in the order of their tickets, which hold, and on whom must the others wait?
 * Pure; the reference that every engine's own form of it is tested against.
 *
 *   exclusive   holds when nobody is ahead;                      waits for its predecessor
 *   shared      holds when no exclusive claim is ahead;          waits for the nearest exclusive one ahead
 *   permits     hold when all ahead, held or waiting, and they   wait for the nearest ones ahead that together have `limit`
 *               themselves fit into the limit                      permits: any of them leaving may make room
 *
 * Waiting for a single one, at the distance of the limit, loses wake-ups: the claims between may leave first.
 */
#ifndef PAWL_RULE_H
#define PAWL_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pawl.h"

struct pawl__ticket {
    enum pawl_mode mode;
    uint32_t permits; /* 1 but for PAWL_PERMITS */
};

/* May the claim at `index` hold? */
bool pawl__queue_holds(const struct pawl__ticket *queue, size_t index, uint32_t limit);

/* The claims that the one at `index` must watch: [*first, *last]. False: it holds and watches nobody. */
bool pawl__queue_watches(const struct pawl__ticket *queue, size_t index, uint32_t limit, size_t *first, size_t *last);

#endif
