/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - a program whose tests are the rows of a table. Each is played in a world of its own, on servers of its own, where bytes travel
 * for exactly a millisecond.
 */
#ifndef PAWL_SIM_ROWS_H
#define PAWL_SIM_ROWS_H

#include "rig/plan.h"
#include "world/world.h"

enum { ROW_NAME = 40 };

struct rows {
    const char *group;
    const void *table; /* each row begins with the name of its service, a const char * */
    size_t count, size;
    void (*name)(const void *row, char ret[ROW_NAME]);
    void (*play)(const void *row); /* its servers run */
    int64_t lease_ms;              /* of the servers' */
    int64_t limit_ns;              /* so much time a row may take */
};

/* Those of the row that is played. */
extern struct sim_servers servers;

/* What main() returns. */
int rows_run(const struct rows *rows);

#endif
