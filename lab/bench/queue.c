/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c - a long queue: what does letting the next one in cost, when thousands wait? And what do thousands of holds cost?
 *
 * A waiter is an asynchronous acquire with ?handoff=0, which is a claim of its own at the engine; so thousands of them fit into four
 * processes. Stages: the holder holds; all waiters have asked; the holder lets go; the last one was let in. What they asked for before the
 * holder let go is not counted: the requests are those of handing on. Nobody ends before the counters were read, since what has ended
 * has no CPU time and no memory any more.
 */
#include <poll.h>
#include <stdlib.h>

#include "workloads.h"

enum { QUEUERS = 4, QUEUE_MS = 300000, HOLDS_MS = 10000 };
enum stage { STAGE_HELD = 1, STAGE_ASKED, STAGE_RELEASED, STAGE_EMPTY };

/* Processes have asked: the last of them tells. */
static void asked(const struct job *job) {
    if (atomic_fetch_add(&job->board->ready, 1) + 1 == QUEUERS + 1)
        board_stage(job->board, STAGE_ASKED);
}

static void hold_first(const struct job *job) {
    struct pawl *client = member_open(job);
    struct pawl_lock *lock = member_mutex(job, client);
    struct pawl_error error;

    member_check(job, pawl_acquire(lock, TURN_MS, &error), &error);
    board_stage(job->board, STAGE_HELD);
    asked(job);
    member_await_stage(job, STAGE_RELEASED);
    atomic_store(&job->board->released_at, bench_now_ns());
    pawl_release(lock, NULL);
    member_await_stop(job);
    pawl_lock_free(lock);
    pawl_close(client);
}

struct queuer {
    const struct job *job;
    int left;
};

static void let_in(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    struct queuer *queuer = data;
    struct board *board = queuer->job->board;

    if (result < 0)
        member_fail(queuer->job, error);
    histogram_add(&board->latency, bench_now_ns() - atomic_load(&board->released_at));
    queuer->left--;
    bool last = atomic_fetch_add(&board->turns, 1) + 1 == (uint64_t)queuer->job->number;
    atomic_store(&board->released_at, bench_now_ns());
    pawl_release(lock, NULL);
    if (last)
        board_stage(queuer->job->board, STAGE_EMPTY);
}

/* Requests of one client are served in order: when this one has its answer, all before it are queued. */
static void await_queued(const struct job *job, struct pawl *client, int number) {
    struct pawl_error error;
    struct pawl_lock *lock;
    char name[96];

    snprintf(name, sizeof name, "%s-fence-%d", job->lock, number);
    member_check(job, pawl_mutex_new(client, name, 0, &lock, &error), &error);
    member_check(job, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    pawl_release(lock, NULL);
    pawl_lock_free(lock);
}

/* `left` acquires: of one name, or of a name each. */
static struct pawl_lock **ask_for_many(const struct job *job, struct pawl *client, struct queuer *queuer, pawl_acquired_fn *fn,
                                       bool one_name) {
    int count = queuer->left;
    struct pawl_lock **locks = calloc((size_t)count, sizeof locks[0]);
    struct pawl_error error;

    if (locks == NULL)
        member_fail(job, &(struct pawl_error){.code = PAWL_ENOMEM, .text = "out of memory"});
    for (int i = 0; i < count; i++) {
        char name[96];

        if (one_name)
            snprintf(name, sizeof name, "%s", job->lock);
        else
            snprintf(name, sizeof name, "%s-%d", job->lock, i);
        member_check(job, pawl_mutex_new(client, name, PAWL_TASK, &locks[i], &error), &error);
        member_check(job, pawl_acquire_start(locks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, fn, queuer, &error), &error);
    }
    return locks;
}

static void dispatch_until_done(const struct job *job, struct pawl *client, const struct queuer *queuer) {
    struct pollfd source = {.fd = pawl_fd(client), .events = POLLIN};

    while (queuer->left > 0 && !member_stopped(job)) {
        poll(&source, 1, 1000);
        pawl_dispatch(client);
    }
}

static void stand_in_queue(const struct job *job, int number) {
    int count = job->number / QUEUERS;
    struct queuer queuer = {.job = job, .left = count};
    struct pawl *client = member_open(job);

    member_await_stage(job, STAGE_HELD);
    struct pawl_lock **locks = ask_for_many(job, client, &queuer, let_in, true);
    await_queued(job, client, number);
    asked(job);
    dispatch_until_done(job, client, &queuer);
    /* Ending takes time too, and must not be seen in the figures of the others. */
    member_await_stop(job);
    for (int i = 0; i < count; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
    free(locks);
}

static void hold_or_queue(const struct job *job, int number) {
    if (number == 0)
        hold_first(job);
    else
        stand_in_queue(job, number);
}

static bool count_queue(struct workers *workers, struct usage *ret_used, double *ret_ns) {
    struct usage before;
    int64_t begin;

    if (!workers_await_stage(workers, STAGE_ASKED, QUEUE_MS))
        return false;
    workers_usage(workers, &before);
    begin = bench_now_ns();
    board_stage(workers->job->board, STAGE_RELEASED);
    if (!workers_await_stage(workers, STAGE_EMPTY, QUEUE_MS))
        return false;
    *ret_ns = (double)(bench_now_ns() - begin);
    workers_usage(workers, ret_used);
    usage_subtract(ret_used, &before);
    ret_used->turns = workers->job->number;
    /* Of interest while all of them waited. */
    ret_used->client_memory = before.client_memory;
    ret_used->server_memory = before.server_memory;
    return true;
}

void measure_queue(struct job *job) {
    struct result *result = &job->target->results[job->row];
    struct workers workers;
    struct usage used;
    double ns;

    name_lock(job);
    job->options = "handoff=0";
    bool good = workers_start(&workers, job, QUEUERS + 1, hold_or_queue) && count_queue(&workers, &used, &ns);
    workers_finish(&workers);
    if (workers_note_failure(&workers) || !good)
        return;
    figure_add(&result->figures[RATE], job->number / ns * 1e9);
    add_latency(result, &job->board->latency);
    add_usage(result, job->target, &used);
}

/* ---- Many holds ----------------------------------------------------------------------------------------------------------- */

static void held(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    struct queuer *queuer = data;

    (void)lock;
    if (result < 0)
        member_fail(queuer->job, error);
    queuer->left--;
}

static void hold_many(const struct job *job, int number) {
    struct queuer queuer = {.job = job, .left = job->number};
    struct pawl *client = member_open(job);

    (void)number;
    struct pawl_lock **locks = ask_for_many(job, client, &queuer, held, false);
    dispatch_until_done(job, client, &queuer);
    member_ready(job);
    member_await_stop(job);
    for (int i = 0; i < job->number; i++)
        if (pawl_state(locks[i]) == PAWL_LOST)
            member_fail(job,
                        &(struct pawl_error){.code = PAWL_ELOST, .text = "holds were lost: the machine is too slow for so many"});
    for (int i = 0; i < job->number; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
    free(locks);
}

static bool count_holds(struct workers *workers, struct usage *ret_used, double *ret_s) {
    struct usage before;
    int64_t begin;

    if (!workers_await_ready(workers))
        return false;
    workers_usage(workers, &before);
    begin = bench_now_ns();
    bool good = workers_pause(workers, HOLDS_MS);
    *ret_s = (double)(bench_now_ns() - begin) / 1e9;
    workers_usage(workers, ret_used);
    usage_subtract(ret_used, &before);
    return good;
}

void measure_holds(struct job *job) {
    struct result *result = &job->target->results[job->row];
    struct workers workers;
    struct usage used;
    double seconds;

    name_lock(job);
    bool good = workers_start(&workers, job, 1, hold_many) && count_holds(&workers, &used, &seconds);
    workers_finish(&workers);
    if (workers_note_failure(&workers) || !good)
        return;
    used.turns = seconds; /* a second counts as a turn */
    add_usage(result, job->target, &used);
}
