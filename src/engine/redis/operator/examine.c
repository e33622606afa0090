/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - for `pawl doctor`: all servers that have locks.
 */
#include "engine/redis/operator/operator.h"

int pawl__redis_examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct examination exam = {.exam = {.visit = visit, .data = data}};
    int rc = 0;

    while (rc == 0 && (exam.server = pawl__server_next(redis_of(engine), exam.server)))
        rc = pawl__examine_server(&exam, reterr);
    if (rc == 0)
        pawl__examine_clocks(&exam);
    return rc < 0 ? rc : exam.exam.rc;
}
