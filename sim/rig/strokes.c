/* SPDX-License-Identifier: Apache-2.0
 *
 * strokes.c - see strokes.h.
 *
 * The torture's own are drawn by its schedule. The others are drawn one kind after the other, each from a stream of its own: with one
 * kind more or less in a run the rest stays as it was.
 */
#include "strokes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    enum fault row;
    int lane;
} own[] = {
#define SIM_FAULT_CLASS(name, word, row, lane) {word, row, lane},
    SIM_FAULTS(SIM_FAULT_CLASS)
#undef SIM_FAULT_CLASS
};

const char *sim_word(int fault) {
    return fault < FAULT_KINDS ? fault_classes[fault].word : own[fault - FAULT_KINDS].word;
}

enum fault sim_row(int fault) {
    return fault < FAULT_KINDS ? (enum fault)fault : own[fault - FAULT_KINDS].row;
}

int sim_lane(int fault) {
    return fault < FAULT_KINDS ? (int)fault_classes[fault].lane : own[fault - FAULT_KINDS].lane;
}

int sim_find(const char *word, size_t length) {
    for (int i = 0; i < SIM_FAULT_KINDS; i++)
        if (strlen(sim_word(i)) == length && memcmp(sim_word(i), word, length) == 0)
            return i;
    return -1;
}

/* ---- Drawing -------------------------------------------------------------------------------------------------------------- */

static void add(struct strokes *strokes, struct sim_stroke stroke) {
    if (strokes->count < STROKES_MAX)
        strokes->list[strokes->count++] = stroke;
}

static void draw_torture(const struct schedule_options *options, const bool *faults, int64_t end_ms, struct strokes *ret) {
    struct schedule_options wanted = *options;
    struct schedule schedule;

    memcpy(wanted.faults, faults, sizeof wanted.faults);
    if (!schedule_make(&wanted, end_ms, &schedule))
        abort();
    for (size_t i = 0; i < schedule.count; i++)
        add(ret, (struct sim_stroke){.at_ms = schedule.strokes[i].at_ms,
                                     .span_ms = schedule.strokes[i].span_ms,
                                     .fault = (int)schedule.strokes[i].fault,
                                     .target = schedule.strokes[i].target});
    schedule_free(&schedule);
}

static struct sim_stroke draw_one(struct dice *dice, int fault, int64_t lease_ms) {
    struct sim_stroke stroke = {.fault = fault, .target = dice_number(dice) >> 16};

    switch (fault) {
    case SIM_REPLY_LOST:
        stroke.span_ms = dice_between(dice, 1, lease_ms / 4);
        stroke.target = reply_target((unsigned)dice_between(dice, 1, 60), dice_percent(dice, 30), (unsigned)dice_below(dice, 30));
        break;
    case SIM_WRITE_ERROR:
    case SIM_WRITE_INSIDE:
        stroke.span_ms = dice_between(dice, 1, lease_ms / 4);
        break;
    case SIM_PAUSE:
    case SIM_MOST_AWAY:
        stroke.span_ms = dice_between(dice, 1, lease_ms * 18 / 10);
        break;
    case SIM_CLIENT_RATE:
    case SIM_SERVER_RATE:
        stroke.span_ms = dice_between(dice, lease_ms / 4, lease_ms * 2);
        break;
    case SIM_CLIENT_JUMP:
    case SIM_SERVER_JUMP:
        stroke.span_ms = dice_between(dice, 1, lease_ms / 2);
        break;
    default:
        break;
    }
    return stroke;
}

static void draw_kind(const struct schedule_options *options, int fault, int64_t end_ms, struct strokes *ret) {
    struct dice dice = dice_new(options->seed, UINT64_C(1000) + (uint64_t)fault);
    int64_t rest = options->lease_ms * 100 / options->pace, at = 0;

    for (;;) {
        at += 1 + dice_between(&dice, rest / 4, rest * 3 / 2);
        struct sim_stroke stroke = draw_one(&dice, fault, options->lease_ms);

        stroke.at_ms = at;
        at += stroke.span_ms;
        if (stroke.at_ms >= end_ms || ret->count == STROKES_MAX)
            return;
        add(ret, stroke);
    }
}

static int by_time(const void *left, const void *right) {
    const struct sim_stroke *one = left, *other = right;

    if (one->at_ms != other->at_ms)
        return one->at_ms < other->at_ms ? -1 : 1;
    if (one->fault != other->fault)
        return one->fault - other->fault;
    return one->target < other->target ? -1 : one->target > other->target;
}

void strokes_draw(const struct schedule_options *options, const bool faults[SIM_FAULT_KINDS], struct strokes *ret) {
    int64_t end_ms = options->time_ms - schedule_calm_ms(options);

    ret->count = 0;
    draw_torture(options, faults, end_ms, ret);
    for (int i = FAULT_KINDS; i < SIM_FAULT_KINDS; i++)
        if (faults[i])
            draw_kind(options, i, end_ms, ret);
    qsort(ret->list, ret->count, sizeof ret->list[0], by_time);
}

/* ---- Text ----------------------------------------------------------------------------------------------------------------- */

bool strokes_read(const char *text, struct strokes *ret) {
    int used;

    ret->count = 0;
    if (strcmp(text, "-") == 0)
        return true;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, "@");
        struct sim_stroke stroke = {.fault = sim_find(at, length)};

        if (stroke.fault < 0 || ret->count == STROKES_MAX ||
            sscanf(at + length, "@%10" SCNd64 "+%10" SCNd64 "#%20" SCNu64 "%n", &stroke.at_ms, &stroke.span_ms, &stroke.target,
                   &used) != 3 ||
            stroke.at_ms < 0 || stroke.span_ms < 0)
            return false;
        add(ret, stroke);
        at += length + (size_t)used;
        if (*at == '\0')
            break;
        if (*at != ',')
            return false;
    }
    qsort(ret->list, ret->count, sizeof ret->list[0], by_time);
    return true;
}

size_t strokes_write(const struct strokes *strokes, char *ret, size_t size) {
    size_t used = 0;

    if (strokes->count == 0)
        return (size_t)snprintf(ret, size, "-");
    for (size_t i = 0; i < strokes->count; i++) {
        const struct sim_stroke *stroke = &strokes->list[i];

        used += (size_t)snprintf(used < size ? ret + used : NULL, used < size ? size - used : 0,
                                 "%s%s@%" PRId64 "+%" PRId64 "#%" PRIu64, i > 0 ? "," : "", sim_word(stroke->fault), stroke->at_ms,
                                 stroke->span_ms, stroke->target);
    }
    return used;
}
