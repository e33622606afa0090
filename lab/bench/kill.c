/* SPDX-License-Identifier: Apache-2.0
 *
 * kill.c - the holder is killed with SIGKILL: how long until the next one holds?
 *
 * On engines with a lease or a session that is the time that was chosen for it; here a short one is, so that the run comes to an end.
 */
#include <signal.h>

#include "workloads.h"

enum { LEASE_MS = 2000, KILL_MS = 60000, A_MOMENT_MS = 20 };
enum stage { STAGE_HELD = 1, STAGE_WAITS, STAGE_INHERITED };

static void hold_or_inherit(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct pawl_error error;

    if (number == 1) {
        member_await_stage(job, STAGE_HELD);
        board_stage(job->board, STAGE_WAITS);
    }
    if (!member_stopped(job))
        member_check(job, pawl_acquire(lock, KILL_MS, &error), &error);
    if (number == 0) {
        board_stage(job->board, STAGE_HELD);
        member_await_stop(job);
    }
    atomic_store(&job->board->released_at, bench_now_ns());
    board_stage(job->board, STAGE_INHERITED);
    pawl_lock_free(lock);
    pawl_close(client);
}

static bool kill_holder(struct workers *workers, int64_t *ret_ns) {
    /* It says that it waits just before it does; a moment later it does. */
    if (!workers_await_stage(workers, STAGE_WAITS, KILL_MS) || !workers_pause(workers, A_MOMENT_MS))
        return false;
    int64_t begin = bench_now_ns();
    kill(workers->pids[0], SIGKILL);
    if (!workers_await_stage(workers, STAGE_INHERITED, KILL_MS))
        return false;
    *ret_ns = atomic_load(&workers->job->board->released_at) - begin;
    return true;
}

void measure_kill(struct job *job) {
    struct result *result = &job->target->results[job->row];
    struct workers workers;
    int64_t ns;

    name_lock(job);
    job->lease_ms = LEASE_MS;
    bool good = workers_start(&workers, job, 2, hold_or_inherit) && kill_holder(&workers, &ns);
    workers_finish(&workers);
    if (workers_note_failure(&workers) || !good)
        return;
    histogram_clear(&job->board->latency);
    histogram_add(&job->board->latency, ns);
    add_latency(result, &job->board->latency);
}
