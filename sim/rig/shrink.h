/* SPDX-License-Identifier: Apache-2.0
 *
 * shrink.h - from a plan that breaks a rule to a small one that breaks it, too: fewer strokes, clients, threads and locks, a shorter run,
 * and a kinder world.
 */
#ifndef PAWL_SIM_SHRINK_H
#define PAWL_SIM_SHRINK_H

#include "plan.h"

enum { SHRINK_MS = 10000 }; /* of CPU time */

/* Does it still fail with these alone? */
typedef bool shrink_fails(const bool *keep, void *data);
/* Take away as much as can be, in pieces that get smaller; all of them fail. Returns how many are left. */
size_t shrink_list(bool *keep, size_t count, shrink_fails *fails, void *data);

/* For as long as there is time. Returns how often it was tried. */
unsigned shrink_plan(struct plan *plan, const char *rule, int64_t budget_ms);

#endif
