/* SPDX-License-Identifier: Apache-2.0
 *
 * timer.c - see timer.h. A plain list: most claims have no timer, and those that wait have theirs seconds apart.
 */
#include "engine/kit/timer.h"

#include "base/lease.h"

/* What need not be exact goes together if it is due so soon. */
#define SLACK_NS INT64_C(20000000)

void pawl__kit_timer_init(struct kit_timer *timer) {
    *timer = (struct kit_timer){.at = PAWL__NEVER};
}

void pawl__kit_timer_set(struct kit_timers *timers, struct kit_timer *timer, int64_t when, bool exact) {
    timer->at = when;
    timer->exact = exact;
    if (!timer->listed)
        TAILQ_INSERT_TAIL(timers, timer, entry);
    timer->listed = true;
}

void pawl__kit_timer_end(struct kit_timers *timers, struct kit_timer *timer) {
    if (timer->listed)
        TAILQ_REMOVE(timers, timer, entry);
    timer->listed = false;
    timer->at = PAWL__NEVER;
}

static bool is_due(const struct kit_timer *timer, int64_t now) {
    return timer->at <= now + (timer->exact ? 0 : SLACK_NS);
}

void pawl__kit_timers_take(struct kit_timers *timers, int64_t now, struct kit_timers *ret) {
    struct kit_timer *timer, *next;

    TAILQ_INIT(ret);
    for (timer = TAILQ_FIRST(timers); timer; timer = next) {
        next = TAILQ_NEXT(timer, entry);
        if (timer->at != PAWL__NEVER && !is_due(timer, now))
            continue;
        if (timer->at != PAWL__NEVER) /* else it was turned off */
            TAILQ_INSERT_TAIL(ret, timer, due);
        pawl__kit_timer_end(timers, timer);
    }
}

int64_t pawl__kit_timers_next(const struct kit_timers *timers) {
    int64_t next = PAWL__NEVER;
    const struct kit_timer *timer;

    TAILQ_FOREACH(timer, timers, entry) {
        next = timer->at < next ? timer->at : next;
    }
    return next;
}
