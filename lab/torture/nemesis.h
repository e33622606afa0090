/* SPDX-License-Identifier: Apache-2.0
 *
 * nemesis.h - the rig at work: it starts clients, hurts them and what they stand on, and ends with a history.
 */
#ifndef PAWL_TORTURE_NEMESIS_H
#define PAWL_TORTURE_NEMESIS_H

#include "service.h"

struct rig_options {
    const char *url; /* a place that was given; NULL: `service` */
    const struct service *service;
    const char *url_options; /* to be added; NULL: none */
    const char *engine;      /* its rows in the table */
    const char *history;     /* the file */
    int clients, threads, locks;
    bool kinds[3];   /* by enum pawl_kind */
    uint64_t least;  /* how often each fault must take effect */
    int64_t hold_ms; /* 0: mostly for a moment */
    const char *shim;
    struct schedule_options schedule;
};

/* Run. Returns 0 when there is a history to be judged, else an exit status, after having said what went wrong. */
int rig_run(const struct rig_options *options);

#endif
