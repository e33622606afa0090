/* SPDX-License-Identifier: Apache-2.0
 *
 * rule.c - see rule.h.
 */
#include "base/rule.h"

/* The nearest exclusive claim ahead of `index`, or `index` itself. */
static size_t nearest_exclusive(const struct pawl__ticket *queue, size_t index) {
    for (size_t i = index; i-- > 0;)
        if (queue[i].mode == PAWL_EXCLUSIVE)
            return i;
    return index;
}

static uint64_t permits_ahead(const struct pawl__ticket *queue, size_t index) {
    uint64_t sum = 0;

    for (size_t i = 0; i < index; i++)
        sum += queue[i].permits;
    return sum;
}

bool pawl__queue_holds(const struct pawl__ticket *queue, size_t index, uint32_t limit) {
    switch (queue[index].mode) {
    case PAWL_EXCLUSIVE:
        return index == 0;
    case PAWL_SHARED:
        return nearest_exclusive(queue, index) == index;
    case PAWL_PERMITS:
        return permits_ahead(queue, index) + queue[index].permits <= limit;
    }
    return false;
}

bool pawl__queue_watches(const struct pawl__ticket *queue, size_t index, uint32_t limit, size_t *first, size_t *last) {
    uint64_t sum = 0;

    if (pawl__queue_holds(queue, index, limit))
        return false;
    *last = index - 1;
    switch (queue[index].mode) {
    case PAWL_EXCLUSIVE:
        *first = *last;
        break;
    case PAWL_SHARED:
        *first = *last = nearest_exclusive(queue, index);
        break;
    case PAWL_PERMITS:
        for (*first = index; *first > 0 && sum < limit; --*first)
            sum += queue[*first - 1].permits;
        break;
    }
    return true;
}
