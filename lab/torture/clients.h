/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.h - the client processes of a run, as the rig sees them: started, killed, stopped, started again.
 */
#ifndef PAWL_TORTURE_CLIENTS_H
#define PAWL_TORTURE_CLIENTS_H

#include "../servers/network.h"
#include "rig.h"

struct client_process {
    pid_t pid; /* 0: none */
    unsigned life;
    bool stopped;
    struct clock_page *clock;
};

struct clients {
    struct page *page;
    const struct history *history;
    int page_fd;
    const char *shim; /* NULL: their clocks are right */
    struct client_process *list;
    pid_t observer;
    struct network network; /* in which each has a place of its own; or none */
    int cut_off;            /* the client that is, plus 1; 0: none */
};

bool clients_open(struct clients *clients);
/* Ends those that are left, at once. */
void clients_close(struct clients *clients);

void clients_start_all(struct clients *clients); /* that don't run; and the observer */
/* Notice who ended by itself, and start it again. */
void clients_reap(struct clients *clients);

/* Faults. Each returns how often it took effect. */
unsigned clients_kill(struct clients *clients, uint64_t target); /* and start it again */
void clients_kill_all(struct clients *clients);
unsigned clients_stop(struct clients *clients, uint64_t target);
unsigned clients_continue(struct clients *clients); /* all that are stopped */
/* Cut one off; returns its address, 0: none. And mend what was cut. */
uint32_t clients_cut_off(struct clients *clients, uint64_t target);
bool clients_reconnect(struct clients *clients);
void clients_distort(struct clients *clients, uint64_t target, bool fast);
unsigned clients_straighten(struct clients *clients, uint64_t target); /* here it counts */

/* Until all are idle, or have ended: then true. Who is not by then is noted as hung, and killed. */
bool clients_await_idle(struct clients *clients, int64_t patience_ms);
void clients_await_end(struct clients *clients, int64_t patience_ms);

#endif
