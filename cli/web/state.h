/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h - what the page is told, as JSON. The parts are those of look/json.h; here is only what is put around them.
 */
#ifndef PAWL_CLI_STATE_H
#define PAWL_CLI_STATE_H

#include "../look/json.h"

/* What does not change while pawl web runs. */
struct about {
    char host[256];
    int64_t started_ms, interval_ms;
    const char *breaks; /* "no", "ask", "now" */
};

/* The whole: what json_look() writes, with `look`, the number of the look, and `server` before it. */
void write_state(FILE *out, const struct about *about, uint64_t number, const struct look *look, const struct history *history);
/* What differs from the look before, as an event of the stream; `heard` is the number of the last event that was told. */
void write_difference(FILE *out, uint64_t number, const struct look *before, const struct look *look, const struct history *history,
                      uint64_t heard);
/* One lock, seen by itself, and what the looks before have told of it. `history` may be NULL. */
void write_lock(FILE *out, const struct look *look, const char *name, const struct history *history);

#endif
