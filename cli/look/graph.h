/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - who waits for whom, over all places of a look, and where they wait for each other in a circle.
 */
#ifndef PAWL_CLI_GRAPH_H
#define PAWL_CLI_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

struct look;
struct lock_seen;
struct pawl_entry;

enum edge_kind {
    EDGE_HARD,   /* it holds what the other waits for */
    EDGE_SOFT,   /* it stands ahead, and wants what the other can't share with it */
    EDGE_NESTED, /* it was started by the other (pawl run), which holds on until it has ended */
};

/* `from` waits for `to`: both are indices of agents. */
struct edge {
    size_t from, to;
    enum edge_kind kind;
    const struct lock_seen *lock; /* the one that is waited for; of EDGE_NESTED: that which `to` waits for */
    const struct pawl_entry *waiter, *blocker;
    bool in_cycle;
};

/* A process, by its number; by host and pid where it has told none; a foreign claim is one of its own. */
struct agent {
    const struct pawl_entry *entry; /* one of its holds or waits: who it is */
    size_t holds, waits;
    bool stuck; /* even if all others who can go on do so, and hand back what they hold, this one can't */
};

/* A circle of edges: the end of each is the beginning of the next. Seen from outside, it is likely: a process may have threads that are not
 * in the circle, and a wait may have a time-out. */
struct cycle {
    size_t *edges;
    size_t count;
};

struct graph {
    struct agent *agents;
    struct edge *edges; /* those of one waiter stand together, hard ones first */
    struct cycle *cycles;
    size_t agent_count, edge_count, edge_room, cycle_count;
};

/* Of a look whose locks are there; marks those in a cycle. False: out of memory. */
bool graph_build(struct look *look);
void graph_finish(struct graph *graph);
const char *edge_name(enum edge_kind kind);

#endif
