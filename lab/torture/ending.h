/* SPDX-License-Identifier: Apache-2.0
 *
 * ending.h - what pawl itself shows at the end of a run: entries that should be gone, and locks that cannot be taken any more. The same for
 * real servers (nemesis.c) and for simulated ones (sim/rig/ending.c).
 */
#ifndef PAWL_TORTURE_ENDING_H
#define PAWL_TORTURE_ENDING_H

#include "rig.h"

struct rig; /* the caller's own */

struct ending {
    struct rig *rig;
    const struct page *page;
    int64_t mend_ns;   /* how long all may need after a fault */
    bool permits_leak; /* RSemaphores take part: permits that such a client did not give back are out for ever */
    __attribute__((format(printf, 3, 4))) void (*note)(struct rig *rig, enum record_kind kind, const char *format, ...);
    bool (*is_alive)(const struct rig *rig, int64_t pid); /* is it a client's? */
    int64_t (*now)(void);                                 /* in ns */
    bool (*pause)(void);                                  /* before the next look; false: the run is interrupted */
};

/* Look until nothing is there, or until `mend_ns` have passed; then note what there is. `of_the_living`: only clients that live count.
 * `take`: take every lock once before. False: the place could not be opened. */
bool ending_look(const struct ending *ending, bool of_the_living, bool take);

#endif
