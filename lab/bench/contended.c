/* SPDX-License-Identifier: Apache-2.0
 *
 * contended.c - many want one lock all the time, and hold it for no time: processes, threads of one process, readers among writers.
 *
 * A hand-off begins when the holder calls release, and ends when the next one's acquire returns. It counts only when the owner changed. So
 * that there is somebody to hand it to, a holder of those processes keeps the lock until another one has asked for it: two that the kernel
 * put on one core would else take it a thousand times each while the other does not run, and no hand-off would be seen at all.
 */
#include <pthread.h>
#include <sched.h>

#include "workloads.h"

enum { READERS = 16, MAX_THREADS = 64 };

static void take_turn(const struct job *job, struct pawl_lock *lock, uint32_t self) {
    struct board *board = job->board;
    struct pawl_error error;

    atomic_fetch_add(&board->waiting, 1);
    member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
    atomic_fetch_sub(&board->waiting, 1);
    int64_t now = bench_now_ns(), released_at = atomic_load_explicit(&board->released_at, memory_order_relaxed);
    if (atomic_load_explicit(&board->owner, memory_order_relaxed) != self) {
        atomic_store_explicit(&board->owner, self, memory_order_relaxed);
        atomic_fetch_add_explicit(&board->turns, 1, memory_order_relaxed);
        if (released_at != 0 && member_counts(job))
            histogram_add(&board->latency, now - released_at);
    }
    while (atomic_load(&board->waiting) == 0 && !member_stopped(job))
        sched_yield();
    atomic_store_explicit(&board->released_at, bench_now_ns(), memory_order_relaxed);
    member_check(job, pawl_release(lock, &error), &error);
}

static void contend(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);

    member_ready(job);
    while (!member_stopped(job))
        take_turn(job, lock, (uint32_t)number + 1);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void add_turns(struct job *job, const struct usage *used, double ns) {
    struct result *result = &job->target->results[job->row];

    figure_add(&result->figures[RATE], (double)atomic_load(&job->board->turns) / ns * 1e9);
    add_latency(result, &job->board->latency);
    add_usage(result, job->target, used);
}

void measure_turns(struct job *job) {
    struct usage used;
    double ns;

    name_lock(job);
    if (workers_count(job, job->number, contend, &used, &ns))
        add_turns(job, &used, ns);
}

/* ---- Threads of one process ----------------------------------------------------------------------------------------------- */

struct thread {
    pthread_t thread;
    const struct job *job;
    struct pawl_lock *lock;
};

static void *contend_in_thread(void *data) {
    struct thread *thread = data;
    const struct job *job = thread->job;
    struct pawl_error error;

    while (!member_stopped(job)) {
        int64_t begin = bench_now_ns();

        member_check(job, pawl_acquire(thread->lock, TURN_MS, &error), &error);
        if (member_counts(job))
            histogram_add(&job->board->latency, bench_now_ns() - begin);
        atomic_fetch_add_explicit(&job->board->turns, 1, memory_order_relaxed);
        member_check(job, pawl_release(thread->lock, &error), &error);
    }
    return NULL;
}

/* The lock of all, or of this one. */
static struct pawl_lock *lock_of_thread(const struct job *job, struct pawl *client, int number) {
    struct job own = *job;

    if (job->row == ROW_THREADS_OWN)
        snprintf(own.lock, sizeof own.lock, "%.48s-%d", job->lock, number);
    return member_mutex(&own, client);
}

static void contend_in_threads(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct thread threads[MAX_THREADS];
    int started = 0;

    (void)number;
    for (int i = 0; i < job->number; i++) {
        bool shares = i > 0 && job->row != ROW_THREADS_OWN;

        threads[i] = (struct thread){.job = job, .lock = shares ? threads[0].lock : lock_of_thread(job, client, i)};
    }
    member_ready(job);
    for (; started < job->number; started++)
        if (pthread_create(&threads[started].thread, NULL, contend_in_thread, &threads[started]) != 0)
            member_fail(job, &(struct pawl_error){.code = PAWL_ESYSTEM, .text = "no more threads can be started"});
    while (started > 0)
        pthread_join(threads[--started].thread, NULL);
    for (int i = 0; i < job->number; i++)
        if (i == 0 || threads[i].lock != threads[0].lock)
            pawl_lock_free(threads[i].lock);
    pawl_close(client);
}

void measure_threads(struct job *job) {
    struct usage used;
    double ns;

    name_lock(job);
    if (workers_count(job, 1, contend_in_threads, &used, &ns))
        add_turns(job, &used, ns);
}

void measure_exact(struct job *job) {
    job->options = "handoff=0";
    measure_threads(job);
}

/* ---- Readers among writers ------------------------------------------------------------------------------------------------ */

/* Marsaglia's xorshift: the same in every run. */
static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

void read_or_write(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    uint32_t random = (uint32_t)number * 2654435761u + 1;
    struct pawl_error error;
    struct pawl_lock *lock;

    member_check(job, pawl_rwlock_new(client, job->lock, 0, &lock, &error), &error);
    member_ready(job);
    while (!member_stopped(job)) {
        bool reads = next_random(&random) % 1000 < (uint32_t)job->number;
        int64_t begin = bench_now_ns();

        member_check(job, reads ? pawl_acquire_shared(lock, TURN_MS, &error) : pawl_acquire(lock, TURN_MS, &error), &error);
        if (member_counts(job))
            histogram_add(&job->board->latency, bench_now_ns() - begin);
        atomic_fetch_add_explicit(&job->board->turns, 1, memory_order_relaxed);
        member_check(job, reads ? pawl_release_shared(lock, &error) : pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

void measure_reads(struct job *job) {
    struct usage used;
    double ns;

    name_lock(job);
    if (workers_count(job, READERS, read_or_write, &used, &ns))
        add_turns(job, &used, ns);
}
