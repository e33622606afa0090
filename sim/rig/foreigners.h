/* SPDX-License-Identifier: Apache-2.0
 *
 * foreigners.h - programs that are not pawl and take part in the same locks (sim/actors), as processes of a simulated run. In the history
 * they say that they are `foreign`: what they hold has no token, and the checker knows.
 */
#ifndef PAWL_SIM_FOREIGNERS_H
#define PAWL_SIM_FOREIGNERS_H

#include "actors/actors.h"
#include "plan.h"
#include "torture/rig.h"
#include "world/world.h"

struct foreigner {
    struct process *process; /* NULL: none */
    const struct actor_class *class;
    struct actor_place place;
    char name[64]; /* of the lock, as it is on the server */
    struct page *page;
    const struct history *history;
    struct who who;
    int lock;
};

struct foreigners {
    struct foreigner list[ACTOR_CLASSES];
    int count;
};

/* May this one take part in such a run? */
bool foreigner_fits(const struct plan *plan, int class);
/* Which lock it takes part in; -1: there is none of its kind. */
int foreigner_lock(const struct page *page, const struct actor_class *class, uint64_t draw);

void foreigners_start(struct foreigners *foreigners, const struct plan *plan, struct page *page, const struct history *history);
/* They leave when the run is over. Who does not is killed; returns how many did not, or did not end well. */
int foreigners_await_end(struct foreigners *foreigners, int64_t patience_ns);

#endif
