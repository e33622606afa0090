/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - a look as metrics: Prometheus' text format, or OpenMetrics.
 */
#ifndef PAWL_CLI_METRICS_H
#define PAWL_CLI_METRICS_H

#include "history.h"

struct metrics_options {
    const struct history *history; /* for what only a row of looks tells; NULL: leave it out */
    const char *per_lock;          /* a pattern of names; NULL: no series of single locks */
    size_t most;                   /* series of so many locks, those that need attention first */
    bool openmetrics;
};

/* The Content-Type of each form. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

void metrics_write(FILE *out, const struct look *look, const struct metrics_options *options);

#endif
