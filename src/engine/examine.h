/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.h - for the engines' examine(): an examination under way, and its findings.
 */
#ifndef PAWL_EXAMINE_H
#define PAWL_EXAMINE_H

#include "pawl.h"

struct pawl__exam {
    pawl_finding_fn *visit;
    void *data;
    int rc; /* of the last visit; not 0: it is over, and nothing more is shown */
};

/* Show what was found; `advice` says what to change, "" where there is nothing. */
void pawl__found(struct pawl__exam *exam, enum pawl_severity severity, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
