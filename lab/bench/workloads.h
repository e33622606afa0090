/* SPDX-License-Identifier: Apache-2.0
 *
 * workloads.h - what is done to a target, one function each. A workload adds a sample to the rows it is about; where it can't, the row
 * gets its reason.
 */
#ifndef PAWL_CLI_BENCH_WORKLOADS_H
#define PAWL_CLI_BENCH_WORKLOADS_H

#include "workers.h"

/* The job has the target, the first row and the number; the workload sets the rest. */
typedef void workload_fn(struct job *job);

workload_fn measure_alone;   /* rows TRIP to PAIR: one process, nobody else */
workload_fn measure_value;   /* rows SET and VALUE: one process, which holds all the while */
workload_fn measure_turns;   /* `number` processes want one lock all the time */
workload_fn measure_threads; /* `number` threads of one process, on one lock or on one each */
workload_fn measure_exact;   /* the same with ?handoff=0 */
workload_fn measure_reads;   /* 16 processes on one read-write lock; `number` in a thousand read */
workload_fn measure_queue;   /* `number` waiters in four processes, let in one after the other */
workload_fn measure_holds;   /* `number` locks of one process, kept */
workload_fn measure_kill;    /* the holder is killed; when does the next one hold? */
/* With ?keep=, and where it says so without it: */
workload_fn measure_kept;          /* one process, nobody else */
workload_fn measure_kept_value;    /* likewise: it reads the value beside the lock, which it shares */
workload_fn measure_kept_value_16; /* the same by 16 processes at once */
workload_fn measure_kept_threads;  /* 16 threads, `number` us of work between holds; on local: flock(2), too */
workload_fn measure_kept_reads;    /* as measure_reads; the last of them without it, too */
workload_fn measure_kept_in_turn;  /* two processes strictly in turn; without it, too */
workload_fn measure_kept_greedy;   /* two processes that want it all the time; without it, too */
workload_fn measure_kept_apart;    /* four processes, `number` us apart; without it, too */
workload_fn measure_recall;        /* one process keeps it, another wants it; with it, bare messages */

/* ---- What they share ------------------------------------------------------------------------------------------------------ */

/* The share of reads is the job's number, in a thousand. */
worker_fn read_or_write;
/* With ?keep=: the value beside a lock that is shared. The first one writes it, and deletes it in the end. */
worker_fn read_kept_value;
/* Name the lock after the row and the run. */
void name_lock(struct job *job);
/* Add what lies in the histogram to the row: percentiles of this round, and the whole. */
void add_latency(struct result *result, const struct histogram *histogram);
/* Add what each turn cost. */
void add_usage(struct result *result, const struct target *target, const struct usage *used);

#endif
