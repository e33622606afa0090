/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.c - the processes of one workload on one target.
 */
#include "workers.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../cli/common/signals.h"

enum { PATIENCE_MS = 60000 };

static int ended_by;

int workers_signal(void) {
    return ended_by;
}

static void wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_on(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

/* ---- The parent ----------------------------------------------------------------------------------------------------------- */

static void hear_signals(void) {
    for (int number; (number = signals_next()) != 0;) {
        if (signal_stops_us(number))
            stop_by_signal(number, false);
        else if (signal_ends_us(number) && ended_by == 0)
            ended_by = number;
    }
}

static bool in_trouble(const struct workers *workers) {
    return ended_by != 0 || atomic_load(&workers->job->board->failed) == 2;
}

bool workers_pause(struct workers *workers, int64_t ms) {
    struct pollfd signals = {.fd = signals_fd(), .events = POLLIN};
    int64_t deadline = deadline_in(ms);

    do {
        poll(&signals, 1, poll_timeout(deadline));
        hear_signals();
    } while (!in_trouble(workers) && now_ms() < deadline);
    return !in_trouble(workers);
}

static void become_member(const struct job *job, worker_fn *work, int number) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(job, number);
    atomic_fetch_add(&job->board->ended, 1);
    _exit(0);
}

bool workers_start(struct workers *workers, struct job *job, int count, worker_fn *work) {
    memset(job->board, 0, sizeof *job->board);
    workers->job = job;
    for (workers->count = 0; workers->count < count; workers->count++) {
        pid_t pid = fork();

        if (pid == 0)
            become_member(job, work, workers->count);
        if (pid < 0) {
            snprintf(job->board->failure.text, sizeof job->board->failure.text, "no more processes can be started");
            atomic_store(&job->board->failed, 2);
            return false;
        }
        workers->pids[workers->count] = pid;
    }
    return true;
}

/* Until *word is (at least) so much. */
static bool await(struct workers *workers, _Atomic uint32_t *word, uint32_t value, int64_t ms, const char *what) {
    int64_t deadline = deadline_in(ms);

    while (atomic_load(word) < value) {
        if (now_ms() > deadline) {
            snprintf(workers->job->board->failure.text, sizeof workers->job->board->failure.text, "%s within %d s", what,
                     (int)(ms / 1000));
            atomic_store(&workers->job->board->failed, 2);
        }
        if (!workers_pause(workers, 1))
            return false;
    }
    return true;
}

bool workers_await_ready(struct workers *workers) {
    return await(workers, &workers->job->board->ready, (uint32_t)workers->count, PATIENCE_MS, "not all clients could be opened");
}

bool workers_await_stage(struct workers *workers, uint32_t stage, int64_t ms) {
    return await(workers, &workers->job->board->stage, stage, ms, "it did not come to an end");
}

static void enter_phase(struct workers *workers, enum phase phase) {
    atomic_store(&workers->job->board->phase, phase);
    wake_all(&workers->job->board->phase);
}

/* Those that still run at the deadline are killed. */
void workers_finish(struct workers *workers) {
    int64_t deadline = deadline_in(in_trouble(workers) ? 3000 : PATIENCE_MS);

    enter_phase(workers, PHASE_STOP);
    board_stage(workers->job->board, UINT32_MAX);
    for (int i = 0; i < workers->count; i++) {
        while (waitpid(workers->pids[i], NULL, WNOHANG) == 0) {
            const struct timespec moment = {.tv_nsec = 500000};

            hear_signals();
            if (now_ms() > deadline || ended_by != 0)
                kill(workers->pids[i], SIGKILL);
            nanosleep(&moment, NULL);
        }
    }
    workers->count = 0;
}

const char *workers_trouble(const struct workers *workers) {
    if (ended_by != 0)
        return "ended by a signal";
    return atomic_load(&workers->job->board->failed) == 2 ? workers->job->board->failure.text : "";
}

bool workers_note_failure(const struct workers *workers) {
    const struct job *job = workers->job;
    const char *why = workers_trouble(workers);

    if (why[0] == '\0')
        return false;
    note_missing(&job->target->results[job->row], why);
    if (job->target->failure == 0)
        job->target->failure = job->board->failure.code != 0 ? exit_of(job->board->failure.code) : EXIT_UNREACHABLE;
    return true;
}

void workers_usage(const struct workers *workers, struct usage *ret) {
    const struct target *target = workers->job->target;

    *ret = (struct usage){.requests = -1};
    if (target->raw != NULL)
        ret->requests = target->raw->impl->requests(target->raw->connection);
    for (size_t i = 0; i < target->server_count; i++) {
        ret->server_cpu_ns += process_cpu_ns(target->servers[i]);
        ret->server_memory += process_memory(target->servers[i]);
    }
    for (int i = 0; i < workers->count; i++) {
        ret->client_cpu_ns += process_cpu_ns(workers->pids[i]);
        ret->client_memory += process_memory(workers->pids[i]) / workers->count;
    }
}

void usage_subtract(struct usage *after, const struct usage *before) {
    after->requests = after->requests < 0 || before->requests < 0 ? -1 : after->requests - before->requests;
    after->server_cpu_ns -= before->server_cpu_ns;
    after->client_cpu_ns -= before->client_cpu_ns;
}

static bool count_span(struct workers *workers, struct usage *ret_used, double *ret_ns) {
    struct board *board = workers->job->board;
    struct usage before;
    int64_t begin;

    enter_phase(workers, PHASE_WARM);
    if (!workers_pause(workers, workers->job->bench->span_ms / 4))
        return false;
    workers_usage(workers, &before);
    atomic_store(&board->turns, 0);
    enter_phase(workers, PHASE_COUNT);
    begin = bench_now_ns();
    bool good = workers_pause(workers, workers->job->bench->span_ms);
    /* A slow server and a short span: something must have happened. */
    while (good && atomic_load(&board->turns) == 0 && bench_now_ns() - begin < (int64_t)PATIENCE_MS * 1000000)
        good = workers_pause(workers, 1);
    uint64_t turns = atomic_load(&board->turns);
    *ret_ns = (double)(bench_now_ns() - begin);
    workers_usage(workers, ret_used);
    /* Looking took a while too, in which they went on. */
    ret_used->turns = (double)atomic_load(&board->turns);
    usage_subtract(ret_used, &before);
    atomic_store(&board->turns, turns);
    return good;
}

bool workers_count(struct job *job, int processes, worker_fn *work, struct usage *ret_used, double *ret_ns) {
    struct workers workers;
    bool good = workers_start(&workers, job, processes, work) && workers_await_ready(&workers) &&
                count_span(&workers, ret_used, ret_ns);
    uint64_t turns = atomic_load(&job->board->turns);

    workers_finish(&workers);
    /* They took further turns until they heard of the end. */
    atomic_store(&job->board->turns, turns);
    return !workers_note_failure(&workers) && good;
}

/* ---- A member ------------------------------------------------------------------------------------------------------------- */

void member_fail(const struct job *job, const struct pawl_error *error) {
    uint32_t none = 0;

    if (atomic_compare_exchange_strong(&job->board->failed, &none, 1)) {
        job->board->failure = *error;
        atomic_store(&job->board->failed, 2);
    }
    _exit(1);
}

void member_check(const struct job *job, int result, const struct pawl_error *error) {
    if (result < 0)
        member_fail(job, error);
}

void member_url(const struct job *job, char *ret, size_t size) {
    snprintf(ret, size, "%s%s%s", job->target->url,
             job->options == NULL            ? ""
             : strchr(job->target->url, '?') ? "&"
                                             : "?",
             job->options == NULL ? "" : job->options);
}

struct pawl *member_open(const struct job *job) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = job->lease_ms, .label = "pawl bench"};
    char url[ADDRESS_SIZE + 64];
    struct pawl_error error;
    struct pawl *client;

    member_url(job, url, sizeof url);
    member_check(job, pawl_open(url, &options, &client, &error), &error);
    return client;
}

struct pawl_lock *member_mutex(const struct job *job, struct pawl *client) {
    struct pawl_error error;
    struct pawl_lock *lock;

    member_check(job, pawl_mutex_new(client, job->lock, 0, &lock, &error), &error);
    return lock;
}

void member_ready(const struct job *job) {
    atomic_fetch_add(&job->board->ready, 1);
    while (atomic_load(&job->board->phase) == PHASE_WAIT)
        sleep_on(&job->board->phase, PHASE_WAIT);
}

void member_await_stop(const struct job *job) {
    uint32_t seen;

    while ((seen = atomic_load(&job->board->phase)) != PHASE_STOP)
        sleep_on(&job->board->phase, seen);
}

void member_await_stage(const struct job *job, uint32_t stage) {
    uint32_t seen;

    while ((seen = atomic_load(&job->board->stage)) < stage)
        sleep_on(&job->board->stage, seen);
}

void board_stage(struct board *board, uint32_t stage) {
    atomic_store(&board->stage, stage);
    wake_all(&board->stage);
}
