/* SPDX-License-Identifier: Apache-2.0
 *
 * regressions.h - failures that were found once, as lines of text, played for ever: sim/regressions.
 *
 *     SERVICE SEED OPTIONS STROKES RULE [known]
 *
 * Such a plan must not break anything any more. One that is marked `known` is not mended yet, and must still break its rule; when it does
 * not, the mark is to be taken away.
 */
#ifndef PAWL_SIM_REGRESSIONS_H
#define PAWL_SIM_REGRESSIONS_H

#include "plan.h"
#include "verdict.h"

struct regression {
    struct plan plan;
    char rule[RULE_WORD];
    bool known;
};

/* A line, without its newline. False: it is none; ret_why (of this size) says why. Lines that are blank or begin with # are none, too:
 * then ret_why is "". */
bool regression_read(const char *line, struct regression *ret, char *ret_why, size_t size);
/* The length, as of snprintf; without a newline. */
size_t regression_write(const struct plan *plan, const char *rule, bool known, char *ret, size_t size);

/* Play a file, and print what came of it as TAP. Returns how many failed; -1: it can't be read. */
int regressions_play(const char *path);

#endif
