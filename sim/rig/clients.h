/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.h - the client processes of a simulated run, as the rig sees them: what lab/torture/clients.h is to real ones.
 */
#ifndef PAWL_SIM_CLIENTS_H
#define PAWL_SIM_CLIENTS_H

#include "strokes.h"
#include "torture/rig.h"
#include "world/world.h"

enum { CLIENTS_MAX = 64 };

/* What a process is started with. */
struct birth {
    struct page *page;
    const struct history *history;
    int slot;
    unsigned life;
};

struct sim_client {
    struct process *process; /* NULL: none */
    struct birth birth;
    unsigned life;
    bool stopped;
    int64_t ahead_ns; /* of its wall clock */
    double rate;      /* of all its clocks */
};

struct sim_clients {
    struct page *page;
    const struct history *history;
    struct sim_client list[CLIENTS_MAX];
    int count;
    struct process *observer;
    struct birth observer_birth;
    int cut_off;     /* the client that is, plus 1; 0: none */
    int pausing;     /* the one that stands still, or will, plus 1 */
    size_t kept;     /* bytes that every process keeps */
    size_t leaked;   /* bytes, of those that came to an end by themselves */
    char words[256]; /* what the first one said that did not end well */
};

void clients_open(struct sim_clients *clients, struct page *page, const struct history *history);
void clients_start_all(struct sim_clients *clients, bool observer);
/* Notice who ended by itself, and start it again. */
void clients_reap(struct sim_clients *clients);

/* Faults. Each returns how often it took effect. */
int clients_begin(struct sim_clients *clients, const struct sim_stroke *stroke);
int clients_heal(struct sim_clients *clients, const struct sim_stroke *stroke);
/* Is it one of theirs? */
bool clients_suffer(int fault);

/* Until all are idle, or have ended: then true. */
bool clients_await_idle(struct sim_clients *clients, int64_t patience_ns);
/* Who is still there after that is noted as hung, and killed. */
void clients_await_end(struct sim_clients *clients, int64_t patience_ns);

#endif
