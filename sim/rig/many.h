/* SPDX-License-Identifier: Apache-2.0
 *
 * many.h - many schedules, one after the other or by several processes, and what came of them.
 */
#ifndef PAWL_SIM_MANY_H
#define PAWL_SIM_MANY_H

#include "plan.h"
#include "verdict.h"

enum { SERVICES_MAX = 16 };

struct many {
    const struct sim_service *services[SERVICES_MAX]; /* in turn */
    int service_count;
    uint64_t seed;
    bool one;             /* the seed is that of the schedule itself, not of many */
    uint64_t count;       /* schedules; 0: as many as the time allows */
    int64_t time_ms;      /* of real time */
    int jobs;             /* processes */
    const char *options;  /* of all plans; NULL: as drawn */
    const char *strokes;  /* NULL: as drawn */
    const char *rule;     /* only this one counts; NULL: any */
    const char *history;  /* the file; NULL: none */
    const char *program;  /* what the user called us */
    FILE *trace;          /* NULL: none */
    bool until_violation; /* end at the first */
    bool hash_each;       /* print the hash of each schedule */
    bool shrink;          /* what breaks a rule */
};

/* The plan of one of them. False: the options or the strokes make no sense, and it was said. */
bool many_plan(const struct many *many, uint64_t index, struct plan *ret);
/* Play them, print what broke a rule, and a last line. Returns how many did. */
uint64_t many_play(const struct many *many);

/* enumerate.c: a small scene, once for every message that may get lost. */
uint64_t enumerate_play(const struct many *many);

/* What all of them came to. */
struct tally {
    uint64_t schedules, faults, violations, hash;
};
void tally_add(struct tally *tally, const struct outcome *outcome, const char *rule);
void tally_print(const struct tally *tally);
/* A paragraph on what broke a rule, with the command that plays it again. `whole`: its options and strokes were not drawn. */
void violation_print(const struct many *many, const struct plan *plan, const struct outcome *outcome, bool whole);

#endif
