/* SPDX-License-Identifier: Apache-2.0
 *
 * status.h - three ways to lay out what pawl_inspect() tells: for people, for programs, and as the engine has it.
 */
#ifndef PAWL_CLI_STATUS_H
#define PAWL_CLI_STATUS_H

#include <stdio.h>

#include "common/snapshot.h"

/* What was asked, and where. */
struct status_view {
    const struct pawl_info *info;
    const char *name; /* NULL: of all locks */
    bool raw;
};

/* table.c */
void print_table(FILE *out, const struct status_view *view, const struct snapshot *snapshot);
void print_raw(FILE *out, const struct status_view *view, const struct snapshot *snapshot);
/* json.c: one document, on one line; docs/status-json.md describes it. */
void print_json(FILE *out, const struct status_view *view, const struct snapshot *snapshot);

#endif
