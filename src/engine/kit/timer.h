/* SPDX-License-Identifier: Apache-2.0
 *
 * timer.h - moments at which something is to be done. The engine's mutex guards them; its loop asks when the next one is.
 */
#ifndef PAWL_KIT_TIMER_H
#define PAWL_KIT_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* PAWL__NEVER: it is off. An exact one is due at its moment, any other together with those that are due a little earlier. */
struct kit_timer {
    int64_t at;
    bool exact, listed;
    TAILQ_ENTRY(kit_timer) entry, due;
};
TAILQ_HEAD(kit_timers, kit_timer);

void pawl__kit_timer_init(struct kit_timer *timer);
void pawl__kit_timer_set(struct kit_timers *timers, struct kit_timer *timer, int64_t when, bool exact);
/* What it belongs to ends. */
void pawl__kit_timer_end(struct kit_timers *timers, struct kit_timer *timer);

/* Take those that are due out of the list, into `ret`, linked by `due`. They are off then, and may be set anew; what they belong to must
 * stay in memory until `ret` was worked through. */
void pawl__kit_timers_take(struct kit_timers *timers, int64_t now, struct kit_timers *ret);
/* The next moment, or PAWL__NEVER. */
int64_t pawl__kit_timers_next(const struct kit_timers *timers);

#endif
