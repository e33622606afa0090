/* SPDX-License-Identifier: Apache-2.0
 *
 * patients.h - those who asked for what only the next look can tell: their answers are owed until then.
 *
 * Far fewer may wait than there may be connections, so that a request for anything else is always let in.
 */
#ifndef PAWL_CLI_PATIENTS_H
#define PAWL_CLI_PATIENTS_H

#include <stdbool.h>
#include <sys/queue.h>

struct exchange;
struct patient;

struct patients {
    LIST_HEAD(, patient) list;
    int count;
};

void patients_init(struct patients *patients);
/* Do as many wait as may? */
bool patients_are_full(const struct patients *patients);
/* One more waits, for this form of the answer. False: out of memory. */
bool patients_add(struct patients *patients, struct exchange *exchange, int form);
/* One of them, who is to be answered now; NULL: nobody waits. */
struct exchange *patients_take(struct patients *patients, int *retform);
/* After http_stop(), which has answered them. */
void patients_finish(struct patients *patients);

#endif
