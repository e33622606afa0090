/* SPDX-License-Identifier: Apache-2.0
 *
 * alone.c - one process and nobody else: what an acquire and a pair cost, beside the bare operations of the same server.
 *
 * The bare operations and the pairs take turns of a few within the one process: a client and a server that the kernel put on one core
 * answer in a third of the time of two on two cores, and the kernel changes its mind from one second to the next.
 *
 * On `local:` a pair takes less time than reading the clock twice. There the rate is from many pairs in a row, and so is that of flock(2);
 * the percentiles have a reading of the clock in them.
 *
 * What a pair costs in requests, CPU and memory is read off a process that does nothing else.
 */
#include <string.h>

#include "workloads.h"

enum { FEW = 16, MANY = 1000 };

struct alone {
    const struct job *job;
    struct pawl_lock *lock;
    struct raw *raw; /* NULL: none */
    bool quick;
};

static void bare(struct alone *alone, enum raw_act act, struct histogram *histogram) {
    for (int i = 0; i < FEW; i++) {
        int64_t ns = alone->raw->impl->act(alone->raw->connection, act);

        if (ns < 0) /* the lock's own requests will tell why, if it matters */
            return;
        if (member_counts(alone->job))
            histogram_add(histogram, ns);
    }
}

static void pair(struct alone *alone) {
    struct pawl_error error;
    int64_t begin = bench_now_ns();

    member_check(alone->job, pawl_acquire(alone->lock, TURN_MS, &error), &error);
    int64_t middle = bench_now_ns();
    member_check(alone->job, pawl_release(alone->lock, &error), &error);
    int64_t end = bench_now_ns();
    if (!member_counts(alone->job))
        return;
    histogram_add(&alone->job->board->acquire, middle - begin);
    histogram_add(&alone->job->board->latency, end - begin);
}

static void many_pairs(struct alone *alone) {
    struct board *board = alone->job->board;
    struct pawl_error error;
    int64_t begin = bench_now_ns();

    for (int i = 0; i < MANY; i++) {
        member_check(alone->job, pawl_acquire(alone->lock, TURN_MS, &error), &error);
        member_check(alone->job, pawl_release(alone->lock, &error), &error);
    }
    if (!member_counts(alone->job))
        return;
    atomic_fetch_add(&board->bulk_ns[0], bench_now_ns() - begin);
    atomic_fetch_add(&board->bulk_count[0], MANY);
}

static void many_bare(struct alone *alone) {
    struct board *board = alone->job->board;
    int64_t begin = bench_now_ns();

    for (int i = 0; i < MANY; i++)
        alone->raw->impl->act(alone->raw->connection, RAW_WRITE);
    if (!member_counts(alone->job))
        return;
    atomic_fetch_add(&board->bulk_ns[1], bench_now_ns() - begin);
    atomic_fetch_add(&board->bulk_count[1], MANY);
}

static void work(const struct job *job, int number) {
    struct alone alone = {.job = job, .quick = strcmp(job->target->engine, "local") == 0};
    char why[200];

    (void)number;
    /* Before the client and its thread are there: on local: it forks. */
    alone.raw = job->target->raw != NULL ? raw_open(&job->target->address, job->bench->id, why, sizeof why) : NULL;
    if (alone.raw != NULL)
        alone.raw->impl->act(alone.raw->connection, RAW_TRIP);
    struct pawl *client = member_open(job);
    alone.lock = member_mutex(job, client);
    member_ready(job);
    while (!member_stopped(job)) {
        bool counts = member_counts(job);

        for (int act = 0; alone.raw != NULL && act < RAW_ACTS && !member_stopped(job); act++)
            if (alone.raw->impl->names[act] != NULL)
                bare(&alone, (enum raw_act)act, &job->board->limits[act]);
        for (int i = 0; i < FEW && !member_stopped(job); i++)
            pair(&alone);
        if (alone.quick)
            many_pairs(&alone);
        if (alone.quick && alone.raw != NULL)
            many_bare(&alone);
        /* All have had their turn. */
        if (counts)
            atomic_fetch_add(&job->board->turns, 1);
    }
    pawl_lock_free(alone.lock);
    pawl_close(client);
    raw_close(alone.raw);
}

static void work_without_bare(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct pawl_error error;

    (void)number;
    member_ready(job);
    while (!member_stopped(job)) {
        member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
        member_check(job, pawl_release(lock, &error), &error);
        atomic_fetch_add_explicit(&job->board->turns, 1, memory_order_relaxed);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

static void work_kept(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct alone alone = {.job = job, .lock = member_mutex(job, client)};

    (void)number;
    member_ready(job);
    while (!member_stopped(job)) {
        for (int i = 0; i < FEW; i++)
            pair(&alone);
        many_pairs(&alone);
        atomic_fetch_add_explicit(&job->board->turns, FEW + MANY, memory_order_relaxed);
    }
    pawl_lock_free(alone.lock);
    pawl_close(client);
}

static void read_value(const struct job *job, struct pawl_lock *lock) {
    const struct pawl_value *value;
    struct pawl_error error;

    member_check(job, pawl_acquire_shared(lock, TURN_MS, &error), &error);
    member_check(job, pawl_value_get(lock, &value, &error), &error);
    pawl_value_free(value);
    member_check(job, pawl_release_shared(lock, &error), &error);
}

/* NULL: delete it. */
static void write_value(const struct job *job, struct pawl_lock *lock, const char *value) {
    struct pawl_error error;

    member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
    member_check(job, pawl_value_set(lock, value, value != NULL ? strlen(value) : 0, &error), &error);
    member_check(job, pawl_release(lock, &error), &error);
}

static void read_many(const struct job *job, struct pawl_lock *lock) {
    int64_t begin = bench_now_ns();

    for (int i = 0; i < MANY; i++)
        read_value(job, lock);
    if (!member_counts(job))
        return;
    atomic_fetch_add(&job->board->bulk_ns[0], bench_now_ns() - begin);
    atomic_fetch_add(&job->board->bulk_count[0], MANY);
}

void read_kept_value(const struct job *job, int number) {
    struct pawl *client = member_open(job);
    struct pawl_error error;
    struct pawl_lock *lock;

    member_check(job, pawl_rwlock_new(client, job->lock, 0, &lock, &error), &error);
    if (number == 0) {
        write_value(job, lock, BENCH_VALUE);
        board_stage(job->board, 1);
    }
    member_await_stage(job, 1);
    read_value(job, lock); /* all keep it before anything is counted, however late one gets a CPU */
    member_ready(job);
    while (!member_stopped(job)) {
        for (int i = 0; i < FEW; i++) {
            int64_t begin = bench_now_ns();

            read_value(job, lock);
            if (member_counts(job))
                histogram_add(&job->board->latency, bench_now_ns() - begin);
        }
        read_many(job, lock);
        atomic_fetch_add_explicit(&job->board->turns, FEW + MANY, memory_order_relaxed);
    }
    if (number == 0)
        write_value(job, lock, NULL);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* As with pairs, both take turns of a few; the bare ones are in limits[0]. */
static void work_on_value(const struct job *job, int number) {
    struct alone alone = {.job = job};
    struct pawl_error error;
    char why[200];

    (void)number;
    alone.raw = raw_open(&job->target->address, job->bench->id, why, sizeof why);
    struct pawl *client = member_open(job);
    alone.lock = member_mutex(job, client);
    member_check(job, pawl_acquire(alone.lock, TURN_MS, &error), &error);
    member_ready(job);
    while (!member_stopped(job)) {
        if (alone.raw != NULL)
            bare(&alone, RAW_SET, &job->board->limits[0]);
        for (int i = 0; i < FEW && !member_stopped(job); i++) {
            int64_t begin = bench_now_ns();

            member_check(job, pawl_value_set(alone.lock, BENCH_VALUE, sizeof BENCH_VALUE - 1, &error), &error);
            if (member_counts(job))
                histogram_add(&job->board->latency, bench_now_ns() - begin);
        }
        atomic_fetch_add(&job->board->turns, 1);
    }
    member_check(job, pawl_value_set(alone.lock, NULL, 0, &error), &error);
    member_check(job, pawl_release(alone.lock, &error), &error);
    pawl_lock_free(alone.lock);
    pawl_close(client);
    raw_close(alone.raw);
}

/* From many in a row where there are such; else from the mean of single ones. */
static void add_rate(struct result *result, uint64_t many, int64_t many_ns, const struct histogram *histogram) {
    double mean = histogram_mean(histogram);

    if (many > 0)
        figure_add(&result->figures[RATE], 1e9 * (double)many / (double)many_ns);
    else if (mean > 0)
        figure_add(&result->figures[RATE], 1e9 / mean);
}

void measure_alone(struct job *job) {
    struct result *results = job->target->results;
    struct board *board = job->board;
    struct usage used;
    double ns;

    name_lock(job);
    job->row = ROW_PAIR;
    if (!workers_count(job, 1, work, &used, &ns))
        return;
    for (int act = 0; act < RAW_ACTS; act++) {
        add_latency(&results[ROW_TRIP + act], &board->limits[act]);
        if (job->target->raw == NULL)
            note_missing(&results[ROW_TRIP + act], job->target->raw_missing);
        if (act != RAW_WRITE)
            add_rate(&results[ROW_TRIP + act], 0, 0, &board->limits[act]);
    }
    add_rate(&results[ROW_WRITE], board->bulk_count[1], board->bulk_ns[1], &board->limits[RAW_WRITE]);
    add_latency(&results[ROW_ACQUIRE], &board->acquire);
    add_latency(&results[ROW_PAIR], &board->latency);
    add_rate(&results[ROW_PAIR], board->bulk_count[0], board->bulk_ns[0], &board->latency);
    if (workers_count(job, 1, work_without_bare, &used, &ns))
        add_usage(&results[ROW_PAIR], job->target, &used);
}

void measure_value(struct job *job) {
    struct result *results = job->target->results;
    struct usage used;
    double ns;

    name_lock(job);
    if (!workers_count(job, 1, work_on_value, &used, &ns))
        return;
    add_latency(&results[ROW_SET], &job->board->limits[0]);
    add_rate(&results[ROW_SET], 0, 0, &job->board->limits[0]);
    add_latency(&results[ROW_VALUE], &job->board->latency);
    add_rate(&results[ROW_VALUE], 0, 0, &job->board->latency);
}

/* For longer than it lasts: nothing is given back in between. */
static void measure_while_kept(struct job *job, worker_fn *worker) {
    struct result *result = &job->target->results[job->row];
    struct usage used;
    double ns;

    name_lock(job);
    job->options = "keep=60000";
    if (!workers_count(job, 1, worker, &used, &ns))
        return;
    add_latency(result, &job->board->latency);
    add_rate(result, job->board->bulk_count[0], job->board->bulk_ns[0], &job->board->latency);
    add_usage(result, job->target, &used);
}

void measure_kept(struct job *job) {
    measure_while_kept(job, work_kept);
}

void measure_kept_value(struct job *job) {
    measure_while_kept(job, read_kept_value);
}
