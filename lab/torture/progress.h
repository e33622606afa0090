/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - the live line of a run, on a terminal only.
 */
#ifndef PAWL_TORTURE_PROGRESS_H
#define PAWL_TORTURE_PROGRESS_H

#include <stdint.h>

struct progress {
    int64_t elapsed_ms, total_ms;
    uint64_t acquired, failed, lost, strokes, hits;
    const char *fault; /* what goes on now; "" */
};

/* At most a few times a second. */
void progress_draw(const struct progress *progress);
void progress_end(void);

#endif
