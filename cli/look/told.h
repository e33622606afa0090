/* SPDX-License-Identifier: Apache-2.0
 *
 * told.h - when to look again at one lock: when its engines tell that it changed (pawl_observe), and else after some time. They tell of
 * holders, not of those who wait; and an engine that can't tell is looked at by time alone.
 */
#ifndef PAWL_CLI_TOLD_H
#define PAWL_CLI_TOLD_H

#include "look.h"

struct ear;

struct told {
    struct watch *watch;
    int fd;           /* readable: something changed */
    struct ear *ears; /* one for each URL of the watch */
};

/* Returns 0, or the exit status after having said why not. told_close() is due in any case, and before watch_close(). */
int told_open(struct told *told, struct watch *watch);
void told_close(struct told *told);
/* Listen at places that could be opened by now. To be called before a look: what changes after that look is told. */
void told_listen(struct told *told);
/* Wait until it is time for the next look: `ms` at most. */
void told_wait(struct told *told, int64_t ms);

#endif
