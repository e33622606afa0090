/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - looks as JSON, for status, top and web: one writer. docs/status-json.md describes it.
 */
#ifndef PAWL_CLI_LOOK_JSON_H
#define PAWL_CLI_LOOK_JSON_H

#include "history.h"

/* How much of it. */
struct json_options {
    const struct history *history; /* for what one look can't tell; NULL: leave it out */
    bool raw;                      /* what the engine really stores, too */
    const char *head;              /* json_look(): keys that come before its own, each with a comma behind it; NULL: none */
};

/* What was seen at one place: the document of `pawl status --json`, without the end of the line. */
void json_place(FILE *out, const struct look *look, const struct place *place, const struct json_options *options);
/* One lock, as it stands in the document. */
void json_lock(FILE *out, const struct lock_seen *lock, const struct json_options *options);
/* All places, and what is found in them: {"format":1,"time_ms":,"places":[...],"deadlocks":[...],"events":[...],"findings":[...]}. */
void json_look(FILE *out, const struct look *look, const struct json_options *options);

/* Its parts, each an array. */
void json_deadlocks(FILE *out, const struct look *look);
void json_events(FILE *out, const struct event *const events[], size_t count);
void json_findings(FILE *out, const struct look *look);
/* Who waits for whom: {"format":1,"time_ms":,"agents":[...],"edges":[...],"deadlocks":[...]}. */
void json_graph(FILE *out, const struct look *look);
/* The last holds of a lock, the oldest first; `past` may be NULL. */
void json_holds(FILE *out, const struct lock_past *past);

#endif
