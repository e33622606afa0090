/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - see schedule.h.
 *
 * Each lane is drawn for itself, and from a stream of its own: adding a kind of fault to one lane leaves the others as they were.
 * Within a lane the kinds take turns in an order that is shuffled anew each time round, so that all come equally often.
 */
#include "schedule.h"

#include <stdlib.h>

/* How long a fault lasts, in hundredths of the lease: some must outlast it, some must not. */
static int64_t span_of(struct dice *dice, enum fault fault, int64_t lease_ms) {
    static const struct {
        unsigned char low, high; /* tenths of the lease */
    } spans[FAULT_KINDS] = {
        [FAULT_CLIENT_STOP] = {12, 18},
        [FAULT_CLIENT_CLOCK] = {6, 12},
        [FAULT_CLIENT_FAST] = {10, 20},
        [FAULT_SERVER_RESTART] = {1, 3},
        [FAULT_SERVER_RESTART_AOF] = {1, 3},
        [FAULT_SERVER_STOP] = {3, 16},
        [FAULT_SERVER_CLOCK] = {3, 6},
        [FAULT_SERVER_FAST] = {10, 20},
        [FAULT_CUT] = {0, 3},
        [FAULT_HALF_OPEN] = {3, 16},
        [FAULT_SLOW] = {5, 12},
        [FAULT_REORDER] = {5, 12},
        [FAULT_PARTITION_CLIENT] = {12, 18},
        [FAULT_PARTITION_SERVERS] = {8, 18},
        [FAULT_LEADER_KILL] = {2, 8},
        [FAULT_FOLLOWER_ISOLATE] = {12, 18},
        [FAULT_FAILOVER] = {10, 20},
        [FAULT_SLOT_MIGRATION] = {1, 2},
        [FAULT_DISK_FULL] = {2, 5},
    };
    /* Without a lease there is still the second after which a sleeper is passed over. */
    int64_t unit = (lease_ms > 0 ? lease_ms : 1000) / 10;

    return dice_between(dice, spans[fault].low * unit, spans[fault].high * unit);
}

/* The time from the end of one to the beginning of the next. */
static int64_t rest_of(struct dice *dice, const struct schedule_options *options, enum fault_lane lane) {
    int64_t lease_ms = options->lease_ms > 0 ? options->lease_ms : 1000;
    int64_t mean = lane != LANE_KILL ? lease_ms / 2 : options->lease_ms == 0 ? 15 : lease_ms;

    return 1 + dice_between(dice, mean / 2, mean * 3 / 2) * 100 / options->pace;
}

static void shuffle(struct dice *dice, enum fault *kinds, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t other = dice_below(dice, i);
        enum fault kind = kinds[i - 1];

        kinds[i - 1] = kinds[other];
        kinds[other] = kind;
    }
}

static bool add(struct schedule *schedule, size_t *room, struct stroke stroke) {
    if (schedule->count == *room) {
        size_t more = *room > 0 ? *room * 2 : 64;
        struct stroke *strokes = reallocarray(schedule->strokes, more, sizeof *strokes);

        if (strokes == NULL)
            return false;
        schedule->strokes = strokes;
        *room = more;
    }
    schedule->strokes[schedule->count++] = stroke;
    return true;
}

static bool draw_lane(const struct schedule_options *options, enum fault_lane lane, int64_t end_ms, struct schedule *schedule,
                      size_t *room) {
    struct dice dice = dice_new(options->seed, (uint64_t)lane);
    enum fault kinds[FAULT_KINDS];
    size_t count = 0, turn = 0;
    int64_t at = 0;

    for (int i = 0; i < FAULT_KINDS; i++)
        if (options->faults[i] && fault_classes[i].lane == lane)
            kinds[count++] = (enum fault)i;
    if (count == 0)
        return true;
    for (;; turn++) {
        if (turn % count == 0)
            shuffle(&dice, kinds, count);
        struct stroke stroke = {.fault = kinds[turn % count]};

        stroke.at_ms = at += rest_of(&dice, options, lane);
        stroke.span_ms = span_of(&dice, stroke.fault, options->lease_ms);
        stroke.target = dice_number(&dice) >> 16;
        at += stroke.span_ms;
        if (stroke.at_ms >= end_ms)
            return true;
        if (!add(schedule, room, stroke))
            return false;
    }
}

static int by_time(const void *left, const void *right) {
    const struct stroke *one = left, *other = right;

    if (one->at_ms != other->at_ms)
        return one->at_ms < other->at_ms ? -1 : 1;
    return (int)one->fault - (int)other->fault;
}

int64_t schedule_calm_ms(const struct schedule_options *options) {
    int64_t calm = options->time_ms / 5, longest = 2 * options->lease_ms + 5000;

    return calm < longest ? calm : longest;
}

bool schedule_make(const struct schedule_options *options, int64_t end_ms, struct schedule *ret) {
    size_t room = 0;

    *ret = (struct schedule){0};
    for (int lane = 0; lane < LANES; lane++)
        if (!draw_lane(options, (enum fault_lane)lane, end_ms, ret, &room)) {
            schedule_free(ret);
            return false;
        }
    if (ret->count > 0)
        qsort(ret->strokes, ret->count, sizeof ret->strokes[0], by_time);
    return true;
}

void schedule_free(struct schedule *schedule) {
    free(schedule->strokes);
    *schedule = (struct schedule){0};
}
