/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - one schedule in a world of its own: what lab/torture/nemesis.c is to real servers, by the same records.
 *
 *     set up: servers, the page, the head of the history
 *     run:    strokes begin and end as the plan says; who was killed is started again
 *     finish: all is healed; clients end what they began, and are idle: what litters the servers now is a leak
 *     leave:  clients close; the rig takes every lock once; what is still there is residue
 */
#ifndef PAWL_SIM_RUN_H
#define PAWL_SIM_RUN_H

#include "clients.h"
#include "foreigners.h"
#include "plan.h"
#include "verdict.h"

struct active {
    bool used, healing; /* healing: done, but the servers are not whole again */
    size_t number;      /* of the record */
    struct sim_stroke stroke;
    int hits;
    int64_t ends, gives_up; /* world_now() */
};

struct rig {
    const struct plan *plan;
    const struct oracle *oracle;
    struct sim_servers servers;
    struct sim_clients clients;
    struct foreigners foreigners;
    struct history history;
    struct page *page;
    size_t next[SIM_LANES], strokes;
    struct active active[SIM_LANES]; /* one in each lane at most */
    int64_t lease_ms;                /* by the place's own word */
    int64_t began;
    int64_t break_by; /* a hold is broken until then, or not at all */
    bool calm;        /* nothing begins any more */
    struct facts facts;
};

/* ending.c */
void rig_finish(struct rig *rig);
__attribute__((format(printf, 3, 4))) void rig_note(struct rig *rig, enum record_kind kind, const char *format, ...);

/* Run it, and judge. `trace`: NULL or where to. */
void run_plan(const struct plan *plan, FILE *trace, struct outcome *ret);

#endif
