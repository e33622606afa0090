/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h - ways to lay out what was seen at a place, for people; for programs it is look/json.h.
 */
#ifndef PAWL_CLI_STATUS_H
#define PAWL_CLI_STATUS_H

#include <stdio.h>

#include "look/json.h"

/* What was asked, and what was seen at one place. */
struct status_view {
    const struct place *place;
    const char *name; /* NULL: of all locks */
};

enum graph_form {
    GRAPH_NONE,
    GRAPH_TEXT,
    GRAPH_DOT,
    GRAPH_JSON,
};

/* graph.c: who waits for whom, over all places. False: out of memory. */
bool print_graph(FILE *out, const struct look *look, enum graph_form form);
/* check.c: pawl status --check. */
struct check_options {
    bool asked, quiet;
    int64_t held_longer_ms; /* -1: not asked for */
    uint64_t waiters;       /* so many or more; 0: not asked for */
};
/* Is the answer yes for this lock? Without more it is whether anybody holds it; else whether one of the limits is reached. */
bool check_fits(const struct check_options *options, const struct lock_seen *lock);
/* The exit status: 0 if it is yes for any of them, else 1. */
int check_look(FILE *out, const struct check_options *options, const struct look *look, const char *name);
/* table.c */
void print_table(FILE *out, const struct status_view *view);
void print_raw(FILE *out, const struct status_view *view);

#endif
