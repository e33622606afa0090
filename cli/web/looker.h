/* SPDX-License-Identifier: Apache-2.0
 *
 * looker.h - the thread that looks, while somebody wants it; and the history of what it saw.
 *
 * It looks every `interval_ms`, and never so often that looks take more than a fiftieth of the servers' time. While nobody wants
 * looks there are none. Each is handed over as text, by looker_collect(), before the next begins.
 */
#ifndef PAWL_CLI_LOOKER_H
#define PAWL_CLI_LOOKER_H

#include "state.h"

struct looker;

/* What is told of a look: as JSON (state.h), as metrics in two forms (look/metrics.h), and what differs from the look before. */
enum view { VIEW_STATE, VIEW_METRICS, VIEW_OPENMETRICS, VIEW_DIFFERENCE, VIEWS };

struct seen {
    char *texts[VIEWS]; /* to be freed */
    size_t lengths[VIEWS];
    int64_t good_until; /* a moment of now_ms(): the next look is not before */
};

/* The lists are borrowed. NULL: out of memory, or no thread can be started. */
struct looker *looker_start(struct watch *watch, const struct about *about);
void looker_stop(struct looker *looker);
void looker_want(struct looker *looker, bool wanted);
/* Readable while there is something to collect. */
int looker_fd(const struct looker *looker);
bool looker_collect(struct looker *looker, struct seen *ret);
/* Something happened that no look sees; the next one tells of it. */
void looker_note(struct looker *looker, const struct event *event);
/* The history, for as long as `read` runs. */
void looker_history(struct looker *looker, void (*read)(const struct history *history, void *data), void *data);

#endif
