/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h - the processes of servers and clients on this host: who they are, and what they use.
 */
#ifndef PAWL_CLI_BENCH_SERVER_H
#define PAWL_CLI_BENCH_SERVER_H

#include "bench.h"

/* The servers of the target that run on this host. */
void servers_find(struct target *target);

/* What processes have used so far. */
struct usage {
    double turns;    /* that were taken meanwhile */
    double requests; /* that the servers have had; -1: not known */
    double server_cpu_ns, server_memory;
    double client_cpu_ns, client_memory;
};

/* CPU time in ns, all threads; 0 if there is no such process. */
double process_cpu_ns(pid_t pid);
/* Bytes that are its own, and shared with no other. */
double process_memory(pid_t pid);

#endif
