/* SPDX-License-Identifier: Apache-2.0
 *
 * site.h - the routes of pawl web, and who reads the stream. It serves from the last look alone; who asks when that is too old
 * waits for the next.
 */
#ifndef PAWL_CLI_SITE_H
#define PAWL_CLI_SITE_H

#include <sys/queue.h>

#include "../http/patients.h"
#include "errands.h"
#include "frames.h"
#include "glances.h"

struct stream;

struct site {
    const struct about *about;
    struct looker *looker;
    struct errands *errands;
    struct frames frames;
    struct document *pages[3];               /* the assets, */
    struct document *unchanged[3];           /* and for who has them already: the same headers, and no body */
    struct document *views[VIEW_DIFFERENCE]; /* of the last look; NULL: there was none yet */
    int64_t good_until;                      /* a moment of now_ms() */
    LIST_HEAD(, stream) streams;
    struct patients patients; /* wait for a look */
    struct glances glances;
    size_t stream_count, errand_count; /* errands: those who wait for one */
    bool record;                       /* look also while nobody is here */
};

extern const struct route site_routes[];

/* False: out of memory. */
bool site_init(struct site *site);
/* After http_stop(). */
void site_finish(struct site *site);
/* What the threads have done is told to those who wait for it. */
void site_collect(struct site *site);
/* Streams that were silent for long say so; to be called now and then. */
void site_tick(struct site *site);

#endif
