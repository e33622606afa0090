/* SPDX-License-Identifier: Apache-2.0
 *
 * slot.h - the periods of `pawl run --once-per`, and in which of them a moment lies.
 */
#ifndef PAWL_CLI_SLOT_H
#define PAWL_CLI_SLOT_H

#include <stdbool.h>
#include <stdint.h>

enum period_unit {
    PERIOD_LENGTH, /* slots of so many ms, the first of which began in 1970 */
    PERIOD_HOUR,   /* the calendar's; weeks begin on Mondays */
    PERIOD_DAY,
    PERIOD_WEEK,
};

struct period {
    enum period_unit unit;
    int64_t ms; /* how long it is; by the calendar: as a rule */
    bool utc;   /* the calendar of UTC, not that of this machine's time zone */
};

enum verdict {
    DUE,
    DONE,       /* in this slot; or in a later one, since the clock was set back a little */
    DUE_BEHIND, /* the last run is ahead of the clock by a period or more: that one says nothing */
};

/* 15m, 1h, 1d or any other duration above 0; hour, day, week. */
bool period_parse(const char *text, struct period *ret);
/* The number of the slot. Moments are Unix time in ms. */
int64_t slot_of(const struct period *period, int64_t moment);
/* The first moment at which a run is due again that was last run at `moment`, to the second. */
int64_t slot_end(const struct period *period, int64_t moment);
/* The last run that succeeded was granted the lock then: is another due now? */
enum verdict slot_verdict(const struct period *period, int64_t last, int64_t now);

#endif
