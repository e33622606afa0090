/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.h - the processes of one workload on one target: started together, stopped together, watched while they work.
 *
 *     forked -> opens its client -> ready -> (go) -> works -> (stop) -> lets go of everything -> ends
 *
 * The parent waits for all to be ready, lets them get warm, and looks at the counters twice: what lies between is the sample. A member
 * that fails says why and ends; the sample is then missing, with that reason. No wait is for ever: members that don't become ready or
 * don't end within a minute are killed.
 */
#ifndef PAWL_CLI_BENCH_CREW_H
#define PAWL_CLI_BENCH_CREW_H

#include "bench.h"
#include "raw.h"
#include "server.h"

enum { CREW_MAX = 256 };

enum phase { PHASE_WAIT, PHASE_WARM, PHASE_COUNT, PHASE_STOP };

/* What the parent and all members share. */
struct board {
    _Atomic uint32_t phase; /* a futex */
    _Atomic uint32_t ready, ended;
    _Atomic uint64_t turns; /* what the rate counts */
    _Atomic int64_t released_at;
    _Atomic uint32_t owner;   /* written by who holds */
    _Atomic uint32_t waiting; /* contended.c: how many are in acquire */
    _Atomic uint32_t stage;   /* a futex; for workloads with more steps than the phases: queue.c, kill.c */
    struct histogram latency;
    struct histogram limits[RAW_ACTS]; /* alone.c */
    struct histogram acquire;          /* alone.c */
    _Atomic int64_t bulk_ns[2];        /* alone.c: without a clock in between; pairs, and bare ones ... */
    _Atomic uint64_t bulk_count[2];    /* ... so many */
    _Atomic int64_t longest_ns;        /* kept.c: the longest wait ... */
    _Atomic uint64_t shares[16];       /* ... and the turns of each */
    _Atomic uint32_t failed;           /* 1: somebody is writing why; 2: it stands in failure */
    struct pawl_error failure;
    struct pawl_info info; /* target.c: strings are copied to the texts below */
    char url[ADDRESS_SIZE], engine[16];
    bool keeps;
};

struct job {
    const struct bench *bench;
    struct target *target;
    enum row row;
    int number;          /* of processes, threads, waiters, holds; or the share of reads */
    char lock[64];       /* the name to be locked */
    const char *options; /* for the URL */
    int64_t lease_ms;    /* 0: the default */
    struct board *board;
};

/* By the parent or a member. */
void board_stage(struct board *board, uint32_t stage);

typedef void worker_fn(const struct job *job, int number);

struct workers {
    struct job *job;
    pid_t pids[CREW_MAX];
    int count;
};

/* In the parent. Each returns false when the run is to end by a signal, or the sample is missing: see workers_trouble. */
bool workers_start(struct workers *workers, struct job *job, int count, worker_fn *work);
bool workers_await_ready(struct workers *workers);
/* Let time pass. */
bool workers_pause(struct workers *workers, int64_t ms);
/* Until `stage` is this, a minute at most (or `ms`). */
bool workers_await_stage(struct workers *workers, uint32_t stage, int64_t ms);
/* Stop them, and wait until they are gone. */
void workers_finish(struct workers *workers);
/* After workers_finish: if it failed, put the reason into its row, which is missing now. Did it? */
bool workers_note_failure(const struct workers *workers);
/* Why; "" if it did not. */
const char *workers_trouble(const struct workers *workers);
void workers_usage(const struct workers *workers, struct usage *ret);

/* What was used in between; memory as it is at the end. */
void usage_subtract(struct usage *after, const struct usage *before);

/* Start, count for the span, stop. False: no sample. `ns` is how long was counted. */
bool workers_count(struct job *job, int processes, worker_fn *work, struct usage *ret_used, double *ret_ns);

/* In a member. */

/* How long it waits for its turn: for longer than anybody needs whose server is there. */
enum { TURN_MS = 20000 };
/* The target's URL with the job's options. */
void member_url(const struct job *job, char *ret, size_t size);
struct pawl *member_open(const struct job *job);
struct pawl_lock *member_mutex(const struct job *job, struct pawl *client);
/* Say why and end. */
_Noreturn void member_fail(const struct job *job, const struct pawl_error *error);
void member_check(const struct job *job, int result, const struct pawl_error *error);
/* Say that it is ready, and wait for what follows. */
void member_ready(const struct job *job);
void member_await_stop(const struct job *job);
void member_await_stage(const struct job *job, uint32_t stage);

static inline bool member_stopped(const struct job *job) {
    return atomic_load_explicit(&job->board->phase, memory_order_relaxed) == PHASE_STOP;
}

static inline bool member_counts(const struct job *job) {
    return atomic_load_explicit(&job->board->phase, memory_order_relaxed) == PHASE_COUNT;
}

/* The signal that ended the run; 0: none yet. */
int workers_signal(void);

#endif
