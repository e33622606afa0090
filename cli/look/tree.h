/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - who waits for whom, as lines for people: likely deadlocks first, then chains that begin with who holds everybody up.
 */
#ifndef PAWL_CLI_TREE_H
#define PAWL_CLI_TREE_H

#include "look.h"

struct tree_line {
    char *text;
    bool in_cycle;
    const struct lock_seen *lock; /* that the line is about; NULL: none */
};

struct tree {
    struct tree_line *lines;
    size_t count, room;
};

/* `ascii`: without the characters that draw lines. False: out of memory. */
bool tree_build(struct tree *tree, const struct look *look, bool ascii);
void tree_finish(struct tree *tree);

#endif
