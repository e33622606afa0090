/* SPDX-License-Identifier: Apache-2.0
 *
 * circles.c - see circles.h.
 */
#include "circles.h"

#include <string.h>

#include "pawl.h"

static void forget(struct circles *circles, int slot) {
    memset(circles->slots[slot].parts, 0, sizeof circles->slots[slot].parts);
    for (int i = 0; i < CIRCLES_THREADS; i++)
        circles->slots[slot].since[i] = -1;
}

void circles_begin(struct circles *circles, int threads) {
    memset(circles, 0, sizeof *circles);
    circles->threads = threads < CIRCLES_THREADS ? threads : CIRCLES_THREADS;
    for (int i = 0; i < CIRCLES_SLOTS; i++)
        forget(circles, i);
}

/* Is the one in the way of the other? Permits are never held by a thread that waits for more. */
static bool is_in_the_way(const struct circles_part *holder, const struct circles_part *waiter) {
    return holder->holds && holder->lock == waiter->lock && waiter->mode != 'p' && (holder->mode == 'x' || waiter->mode == 'x');
}

/* May it have what it waits for, if those go on that are marked? */
static bool goes_on(const struct circles *circles, int slot, int thread, const bool *marked) {
    const struct circles_part *parts = circles->slots[slot].parts;

    for (int i = thread; i < CIRCLES_PARTS; i += circles->threads)
        for (int j = 0; parts[i].lock && !parts[i].holds && j < CIRCLES_PARTS; j++)
            if (!marked[j % circles->threads] && is_in_the_way(&parts[j], &parts[i]))
                return false;
    return true;
}

static void find_those_who_go_on(const struct circles *circles, int slot, bool ret[CIRCLES_THREADS]) {
    bool more = true;

    memset(ret, 0, CIRCLES_THREADS * sizeof ret[0]);
    while (more) {
        more = false;
        for (int i = 0; i < circles->threads; i++)
            if (!ret[i] && goes_on(circles, slot, i, ret))
                ret[i] = more = true;
    }
}

static bool has_something(const struct circles *circles, int slot, int thread) {
    for (int i = thread; i < CIRCLES_PARTS; i += circles->threads)
        if (circles->slots[slot].parts[i].lock && circles->slots[slot].parts[i].holds)
            return true;
    return false;
}

/* A wait is ended for the others' sake: it must be one that would last, and the thread must have what another waits for. */
static void judge(struct circles *circles, const struct record *record) {
    int thread = record->who.thread % circles->threads;
    bool on[CIRCLES_THREADS];

    find_those_who_go_on(circles, record->who.slot, on);
    if (!on[thread] && has_something(circles, record->who.slot, thread))
        return;
    if (circles->wrong++ > 0)
        return;
    circles->first_wrong = record->who;
    circles->wrong_at = record->time;
}

/* Something has changed for this client. Only waits of those who have something count: the others may wait behind a deadlock. */
static void measure(struct circles *circles, struct who who, int64_t now) {
    int64_t *since = circles->slots[who.slot].since;
    bool on[CIRCLES_THREADS];

    find_those_who_go_on(circles, who.slot, on);
    for (int i = 0; i < circles->threads; i++) {
        bool waits = !on[i] && has_something(circles, who.slot, i);

        if (since[i] >= 0 && now - since[i] > circles->worst_ns) {
            circles->worst_ns = now - since[i];
            circles->worst_at = now;
            circles->worst = (struct who){.slot = who.slot, .thread = i, .life = who.life};
        }
        since[i] = !waits ? -1 : since[i] >= 0 ? since[i] : now;
    }
}

static void by_client(struct circles *circles, const struct record *record) {
    struct circles_part *part = &circles->slots[record->who.slot].parts[record->who.thread];

    switch (record->kind) {
    case RECORD_WANT:
        *part = (struct circles_part){.lock = (short)(record->lock + 1), .mode = record->mode};
        break;
    case RECORD_GOT:
        part->holds = true;
        break;
    case RECORD_DOWN:
        part->mode = 's';
        break;
    case RECORD_FAIL:
        if (record->numbers[0] == PAWL_EDEADLK)
            judge(circles, record);
        part->lock = 0;
        break;
    case RECORD_GONE:
        part->lock = 0;
        break;
    default:
        return;
    }
    measure(circles, record->who, record->time);
}

void circles_line(struct circles *circles, const char *line, size_t length) {
    struct record record;

    if (!history_parse(line, length, &record))
        return;
    if (record.kind == RECORD_EXIT && record.process.slot < CIRCLES_SLOTS) {
        measure(circles, record.process, record.time);
        forget(circles, record.process.slot);
    } else if (record.who.slot >= 0 && record.who.slot < CIRCLES_SLOTS && record.who.thread < CIRCLES_PARTS) {
        by_client(circles, &record);
    }
}
