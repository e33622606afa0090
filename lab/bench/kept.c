/* SPDX-License-Identifier: Apache-2.0
 *
 * kept.c - locks that stay with their process while nobody there holds them (?keep=): what that gains where a lock is wanted by one
 * process again and again, and what it costs where others want it, beside the same without it.
 *
 * Rows that are compared are measured right after each other, by the same code: with and without ?keep=, or with flock(2) on a file in
 * place of a lock.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "workloads.h"

#define KEEP "keep=60000" /* for longer than any workload lasts */
#define KEEP_NOT "keep=0"

enum { THREADS = 16, READERS = 16, TRIES = 3 };

static void note_longest(struct board *board, int64_t ns) {
    int64_t longest = atomic_load_explicit(&board->longest_ns, memory_order_relaxed);

    while (ns > longest && !atomic_compare_exchange_weak(&board->longest_ns, &longest, ns))
        continue;
}

/* One more turn, after so long a wait. `who`: number of the thread or process. */
static void note_turn(const struct job *job, int who, int64_t waited_ns) {
    struct board *board = job->board;

    atomic_fetch_add_explicit(&board->turns, 1, memory_order_relaxed);
    if (!member_counts(job))
        return;
    histogram_add(&board->latency, waited_ns);
    note_longest(board, waited_ns);
    atomic_fetch_add_explicit(&board->shares[who], 1, memory_order_relaxed);
}

static double least_share(const struct board *board, int count) {
    uint64_t least = UINT64_MAX, most = 0;

    for (int i = 0; i < count; i++) {
        uint64_t share = atomic_load(&board->shares[i]);

        least = share < least ? share : least;
        most = share > most ? share : most;
    }
    return most > 0 ? (double)least / (double)most : 0;
}

/* `sharers`: so many took turns. */
static void measure_row(struct job *job, enum row row, const char *options, int processes, int sharers, worker_fn *work) {
    struct result *result = &job->target->results[row];
    struct usage used;
    double ns;

    job->row = row;
    job->options = options;
    name_lock(job);
    if (result->missing[0] != '\0' || !workers_count(job, processes, work, &used, &ns))
        return;
    figure_add(&result->figures[RATE], (double)atomic_load(&job->board->turns) / ns * 1e9);
    add_latency(result, &job->board->latency);
    add_usage(result, job->target, &used);
    if (atomic_load(&job->board->longest_ns) == 0)
        return; /* nobody noted who waited how long */
    figure_add(&result->figures[LONGEST], (double)atomic_load(&job->board->longest_ns));
    figure_add(&result->figures[SHARE], least_share(job->board, sharers));
}

/* ---- Threads of one process, beside flock(2) ---------------------------------------------------------------------------------- */

struct lane {
    pthread_t thread;
    const struct job *job;
    struct pawl_lock *lock; /* NULL: the file */
    int file;
    int number;
};

/* Errors are large, and filled only where there is one. */
static const struct pawl_error flock_failed = {.code = PAWL_ESYSTEM, .text = "flock(2) failed"};

static void take(const struct lane *lane) {
    struct pawl_error error;

    if (lane->lock != NULL)
        member_check(lane->job, pawl_acquire(lane->lock, TURN_MS, &error), &error);
    else
        member_check(lane->job, flock(lane->file, LOCK_EX), &flock_failed);
}

static void let_go(const struct lane *lane) {
    struct pawl_error error;

    if (lane->lock != NULL)
        member_check(lane->job, pawl_release(lane->lock, &error), &error);
    else
        member_check(lane->job, flock(lane->file, LOCK_UN), &flock_failed);
}

/* What a thread does between two holds: work, not sleep. */
static void work_for(int64_t us) {
    int64_t begin = us > 0 ? bench_now_ns() : 0;

    while (us > 0 && bench_now_ns() - begin < us * 1000)
        continue;
}

static void *run_lane(void *data) {
    const struct lane *lane = data;

    while (!member_stopped(lane->job)) {
        int64_t begin = bench_now_ns();

        take(lane);
        note_turn(lane->job, lane->number, bench_now_ns() - begin);
        let_go(lane);
        work_for(lane->job->number);
    }
    return NULL;
}

static void run_lanes(const struct job *job, struct lane lanes[THREADS]) {
    int started = 0;

    member_ready(job);
    for (; started < THREADS; started++)
        if (pthread_create(&lanes[started].thread, NULL, run_lane, &lanes[started]) != 0)
            member_fail(job, &(struct pawl_error){.code = PAWL_ESYSTEM, .text = "no more threads can be started"});
    while (started > 0)
        pthread_join(lanes[--started].thread, NULL);
}

static void lock_in_threads(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct lane lanes[THREADS];

    (void)number;
    for (int i = 0; i < THREADS; i++)
        lanes[i] = (struct lane){.job = job, .lock = lock, .number = i};
    run_lanes(job, lanes);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Each thread has opened the file itself: those who share a descriptor share its lock. */
static void flock_in_threads(const struct job *job, int number) {
    int file = memfd_create("pawl-bench", MFD_CLOEXEC);
    struct lane lanes[THREADS];
    char path[64];

    (void)number;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (int i = 0; i < THREADS; i++) {
        lanes[i] = (struct lane){.job = job, .file = open(path, O_RDWR | O_CLOEXEC), .number = i};
        if (lanes[i].file < 0)
            member_fail(job, &(struct pawl_error){.code = PAWL_ESYSTEM, .text = "a file in memory could not be opened"});
    }
    run_lanes(job, lanes);
    for (int i = 0; i < THREADS; i++)
        close(lanes[i].file);
    close(file);
}

void measure_kept_threads(struct job *job) {
    enum row row = job->row, flock_row = row == ROW_KEPT_16 ? ROW_FLOCK_16 : ROW_FLOCK_16_APART;

    if (strcmp(job->target->engine, "local") == 0)
        measure_row(job, flock_row, NULL, 1, THREADS, flock_in_threads);
    measure_row(job, row, KEEP, 1, THREADS, lock_in_threads);
}

/* ---- Processes ---------------------------------------------------------------------------------------------------------------- */

/* Strictly in turn: each waits until the other has let go. What is kept is always wanted before it is of use. */
static void alternate(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct pawl_error error;

    member_ready(job);
    for (uint32_t turn = (uint32_t)number; !member_stopped(job); turn += 2) {
        member_await_stage(job, turn);
        int64_t begin = bench_now_ns();

        member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
        note_turn(job, number, bench_now_ns() - begin);
        member_check(job, pawl_release(lock, &error), &error);
        if (!member_stopped(job))
            board_stage(job->board, turn + 1);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

static void pause_for(int64_t us) {
    const struct timespec moment = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    if (us > 0)
        nanosleep(&moment, NULL);
}

/* So many us apart; 0: all the time. */
static void want_again(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct pawl_error error;

    member_ready(job);
    while (!member_stopped(job)) {
        int64_t begin = bench_now_ns();

        member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
        note_turn(job, number, bench_now_ns() - begin);
        member_check(job, pawl_release(lock, &error), &error);
        pause_for(job->number);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The row before is the same without ?keep=. */
static void measure_both(struct job *job, int processes, worker_fn *work) {
    enum row row = job->row;

    measure_row(job, row - 1, KEEP_NOT, processes, processes, work);
    measure_row(job, row, KEEP, processes, processes, work);
}

void measure_kept_in_turn(struct job *job) {
    measure_both(job, 2, alternate);
}

void measure_kept_greedy(struct job *job) {
    measure_both(job, 2, want_again);
}

void measure_kept_apart(struct job *job) {
    measure_both(job, 4, want_again);
}

void measure_kept_reads(struct job *job) {
    if (job->row == ROW_KEPT_READS_999)
        measure_both(job, READERS, read_or_write);
    else
        measure_row(job, job->row, KEEP, READERS, READERS, read_or_write);
}

void measure_kept_value_16(struct job *job) {
    measure_row(job, job->row, KEEP, READERS, READERS, read_kept_value);
}

/* ---- Recall ------------------------------------------------------------------------------------------------------------------- */

/* It has entered what it keeps, so that keeping was of use; then the other wants it. */
static void keep_for_other(const struct job *job, struct pawl_lock *lock, uint32_t turn) {
    struct pawl_error error;

    for (int i = 0; i < TRIES; i++) {
        member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
        member_check(job, pawl_release(lock, &error), &error);
    }
    board_stage(job->board, turn + 1);
}

static void want_from_other(const struct job *job, struct pawl_lock *lock, uint32_t turn) {
    struct pawl_error error;

    pause_for(1000); /* what it says to its server in order to be found has been said */
    int64_t begin = bench_now_ns();

    member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
    note_turn(job, 0, bench_now_ns() - begin);
    member_check(job, pawl_release(lock, &error), &error);
    board_stage(job->board, turn + 1);
}

static void recall(const struct job *job, int number) {
    struct job own = *job;

    own.options = number == 0 ? KEEP : KEEP_NOT;
    struct pawl *client = member_open(&own);
    struct pawl_lock *lock = member_mutex(job, client);

    member_ready(job);
    for (uint32_t turn = (uint32_t)number; !member_stopped(job); turn += 2) {
        member_await_stage(job, turn);
        if (member_stopped(job))
            break;
        (number == 0 ? keep_for_other : want_from_other)(job, lock, turn);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

static void send_messages(const struct job *job, int number) {
    char why[200];
    struct raw *raw = raw_open(&job->target->address, job->bench->id, why, sizeof why);

    (void)number;
    if (raw == NULL)
        member_fail(job, &(struct pawl_error){.code = PAWL_ECONNLOST, .text = "bare messages can't be sent"});
    member_ready(job);
    while (!member_stopped(job)) {
        pause_for(1000);
        int64_t ns = raw->impl->act(raw->connection, RAW_MESSAGE);

        if (ns < 0)
            member_fail(job, &(struct pawl_error){.code = PAWL_ECONNLOST, .text = "a bare message did not come back"});
        note_turn(job, 0, ns);
    }
    raw_close(raw);
}

void measure_recall(struct job *job) {
    const struct raw *raw = job->target->raw;

    if (raw != NULL && raw->impl->message != NULL)
        measure_row(job, ROW_MESSAGE, NULL, 1, 1, send_messages);
    measure_row(job, ROW_RECALL, NULL, 2, 1, recall);
}
