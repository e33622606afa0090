/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.c - the periods of `pawl run --once-per`, and in which of them a moment lies. Pure: all times are given.
 *
 * A slot is a number. It rises with time, but for one thing: where clocks go back over midnight the old day comes again for an hour. That
 * is why a run counts not only for its own slot, but for lower ones that come later, too.
 *
 * The calendar's slots are counted on the clock of the wall: what that shows is Unix time plus the offset of the zone at the moment. So a
 * day has 23 or 25 hours where clocks change, and a week 167 or 169. An hour that comes twice is two hours: its number is when it began.
 */
#include "slot.h"

#include <string.h>
#include <time.h>

#include "common/options.h"

#define HOUR INT64_C(3600) /* in seconds */
#define DAY (24 * HOUR)
#define WEEK (7 * DAY)

bool period_parse(const char *text, struct period *ret) {
    static const struct {
        const char *word;
        struct period period;
    } calendar[] = {
        {"hour", {PERIOD_HOUR, HOUR * 1000, false}},
        {"day", {PERIOD_DAY, DAY * 1000, false}},
        {"week", {PERIOD_WEEK, WEEK * 1000, false}},
    };

    for (size_t i = 0; i < sizeof calendar / sizeof calendar[0]; i++)
        if (strcmp(text, calendar[i].word) == 0) {
            *ret = calendar[i].period;
            return true;
        }
    *ret = (struct period){.unit = PERIOD_LENGTH};
    return parse_duration(text, &ret->ms) && ret->ms > 0;
}

/* Rounded down, for moments before 1970, too. */
static int64_t divide(int64_t number, int64_t by) {
    return number / by - (number % by < 0);
}

/* By how many seconds the clock of the wall is ahead of UTC then. */
static int64_t offset_at(const struct period *period, int64_t seconds) {
    time_t moment = (time_t)seconds;
    struct tm wall;

    return !period->utc && localtime_r(&moment, &wall) != NULL ? wall.tm_gmtoff : 0;
}

int64_t slot_of(const struct period *period, int64_t moment) {
    if (period->unit == PERIOD_LENGTH)
        return divide(moment, period->ms);

    int64_t seconds = divide(moment, 1000), wall = seconds + offset_at(period, seconds);
    int64_t day = divide(wall, DAY);

    if (period->unit == PERIOD_HOUR)
        return seconds - (wall - divide(wall, HOUR) * HOUR);
    return period->unit == PERIOD_DAY ? day : divide(day + 3, 7); /* 1 January 1970 was a Thursday */
}

int64_t slot_end(const struct period *period, int64_t moment) {
    int64_t slot = slot_of(period, moment);

    if (period->unit == PERIOD_LENGTH)
        return (slot + 1) * period->ms;

    /* In (low, high], in seconds: no slot is longer than twice its usual length. */
    int64_t low = divide(moment, 1000), high = low + 2 * period->ms / 1000;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (slot_of(period, middle * 1000) > slot)
            high = middle;
        else
            low = middle;
    }
    return high * 1000;
}

enum verdict slot_verdict(const struct period *period, int64_t last, int64_t now) {
    int64_t then = slot_of(period, last), slot = slot_of(period, now);

    if (last <= now)
        return slot <= then ? DONE : DUE;
    return slot == then || last - now < period->ms ? DONE : DUE_BEHIND;
}
