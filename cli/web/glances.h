/* SPDX-License-Identifier: Apache-2.0
 *
 * glances.h - what single locks looked like a moment ago: who has one open asks every second, and all who have the same one open are
 * answered by one look. Who asks while it is under way waits for it.
 */
#ifndef PAWL_CLI_GLANCES_H
#define PAWL_CLI_GLANCES_H

#include <sys/queue.h>

#include "../http/http.h"

struct glances {
    LIST_HEAD(, glance) list;
};

enum glance_asked {
    GLANCE_ANSWERED,
    GLANCE_WAITS,
    GLANCE_LOOK,      /* it waits, and the caller is to have a look taken */
    GLANCE_FULL,      /* it would have to wait, and there is no room for that */
    GLANCE_NO_MEMORY, /* in these two it has no answer yet */
};

void glances_init(struct glances *glances);
enum glance_asked glances_ask(struct glances *glances, const char *url, const char *name, struct exchange *exchange, bool has_room);
/* That look was taken. Returns how many have waited for it. */
size_t glances_answer(struct glances *glances, const char *url, const char *name, unsigned status, struct document *document);
/* Something was done to a lock: what was seen before is too old. */
void glances_forget(struct glances *glances);
/* After http_stop(). */
void glances_finish(struct glances *glances);

#endif
