/* SPDX-License-Identifier: Apache-2.0
 *
 * changes.h - when to look again at one lock: when its engines tell that it changed (pawl_observe), and else after some time. They tell of
 * holders, not of those who wait; and an engine that can't tell is looked at by time alone.
 */
#ifndef PAWL_CLI_CHANGES_H
#define PAWL_CLI_CHANGES_H

#include "look.h"

struct listener;

struct changes {
    struct watch *watch;
    int fd;                     /* readable: something changed */
    struct listener *listeners; /* one for each URL of the watch */
};

/* Returns 0, or the exit status after having said why not. changes_close() is due in any case, and before watch_close(). */
int changes_open(struct changes *changes, struct watch *watch);
void changes_close(struct changes *changes);
/* Listen at places that could be opened by now. To be called before a look: what changes after that look is told. */
void changes_listen(struct changes *changes);
/* Wait until it is time for the next look: `ms` at most. */
void changes_wait(struct changes *changes, int64_t ms);

#endif
