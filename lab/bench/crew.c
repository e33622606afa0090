/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - the processes of one workload on one target.
 */
#include "crew.h"

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

int crew_signal(void) {
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

static bool in_trouble(const struct crew *crew) {
    return ended_by != 0 || atomic_load(&crew->job->board->failed) == 2;
}

bool crew_pause(struct crew *crew, int64_t ms) {
    struct pollfd signals = {.fd = signals_fd(), .events = POLLIN};
    int64_t deadline = deadline_in(ms);

    do {
        poll(&signals, 1, poll_timeout(deadline));
        hear_signals();
    } while (!in_trouble(crew) && now_ms() < deadline);
    return !in_trouble(crew);
}

static void become_member(const struct job *job, member_fn *work, int number) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(job, number);
    atomic_fetch_add(&job->board->ended, 1);
    _exit(0);
}

bool crew_start(struct crew *crew, struct job *job, int count, member_fn *work) {
    memset(job->board, 0, sizeof *job->board);
    crew->job = job;
    for (crew->count = 0; crew->count < count; crew->count++) {
        pid_t pid = fork();

        if (pid == 0)
            become_member(job, work, crew->count);
        if (pid < 0) {
            snprintf(job->board->failure.text, sizeof job->board->failure.text, "no more processes can be started");
            atomic_store(&job->board->failed, 2);
            return false;
        }
        crew->pids[crew->count] = pid;
    }
    return true;
}

/* Until *word is (at least) so much. */
static bool await(struct crew *crew, _Atomic uint32_t *word, uint32_t value, int64_t ms, const char *what) {
    int64_t deadline = deadline_in(ms);

    while (atomic_load(word) < value) {
        if (now_ms() > deadline) {
            snprintf(crew->job->board->failure.text, sizeof crew->job->board->failure.text, "%s within %d s", what,
                     (int)(ms / 1000));
            atomic_store(&crew->job->board->failed, 2);
        }
        if (!crew_pause(crew, 1))
            return false;
    }
    return true;
}

bool crew_await_ready(struct crew *crew) {
    return await(crew, &crew->job->board->ready, (uint32_t)crew->count, PATIENCE_MS, "not all clients could be opened");
}

bool crew_await_stage(struct crew *crew, uint32_t stage, int64_t ms) {
    return await(crew, &crew->job->board->stage, stage, ms, "it did not come to an end");
}

void crew_phase(struct crew *crew, enum phase phase) {
    atomic_store(&crew->job->board->phase, phase);
    wake_all(&crew->job->board->phase);
}

void crew_stage(struct crew *crew, uint32_t stage) {
    atomic_store(&crew->job->board->stage, stage);
    wake_all(&crew->job->board->stage);
}

/* Those that still run at the deadline are killed. */
void crew_finish(struct crew *crew) {
    int64_t deadline = deadline_in(in_trouble(crew) ? 3000 : PATIENCE_MS);

    crew_phase(crew, PHASE_STOP);
    crew_stage(crew, UINT32_MAX);
    for (int i = 0; i < crew->count; i++) {
        while (waitpid(crew->pids[i], NULL, WNOHANG) == 0) {
            const struct timespec moment = {.tv_nsec = 500000};

            hear_signals();
            if (now_ms() > deadline || ended_by != 0)
                kill(crew->pids[i], SIGKILL);
            nanosleep(&moment, NULL);
        }
    }
    crew->count = 0;
}

const char *crew_trouble(const struct crew *crew) {
    if (ended_by != 0)
        return "ended by a signal";
    return atomic_load(&crew->job->board->failed) == 2 ? crew->job->board->failure.text : "";
}

bool crew_note_failure(const struct crew *crew) {
    const struct job *job = crew->job;
    const char *why = crew_trouble(crew);

    if (why[0] == '\0')
        return false;
    note_missing(&job->target->results[job->row], why);
    if (job->target->failure == 0)
        job->target->failure = job->board->failure.code != 0 ? exit_of(job->board->failure.code) : EXIT_UNREACHABLE;
    return true;
}

void crew_usage(const struct crew *crew, struct usage *ret) {
    const struct target *target = crew->job->target;

    *ret = (struct usage){.requests = -1};
    if (target->raw != NULL)
        ret->requests = target->raw->impl->requests(target->raw->connection);
    for (size_t i = 0; i < target->server_count; i++) {
        ret->server_cpu_ns += process_cpu_ns(target->servers[i]);
        ret->server_memory += process_memory(target->servers[i]);
    }
    for (int i = 0; i < crew->count; i++) {
        ret->client_cpu_ns += process_cpu_ns(crew->pids[i]);
        ret->client_memory += process_memory(crew->pids[i]) / crew->count;
    }
}

void usage_subtract(struct usage *after, const struct usage *before) {
    after->requests = after->requests < 0 || before->requests < 0 ? -1 : after->requests - before->requests;
    after->server_cpu_ns -= before->server_cpu_ns;
    after->client_cpu_ns -= before->client_cpu_ns;
}

static bool count_span(struct crew *crew, struct usage *ret_used, double *ret_ns) {
    struct board *board = crew->job->board;
    struct usage before;
    int64_t begin;

    crew_phase(crew, PHASE_WARM);
    if (!crew_pause(crew, crew->job->bench->span_ms / 4))
        return false;
    crew_usage(crew, &before);
    atomic_store(&board->turns, 0);
    crew_phase(crew, PHASE_COUNT);
    begin = bench_now_ns();
    bool good = crew_pause(crew, crew->job->bench->span_ms);
    /* A slow server and a short span: something must have happened. */
    while (good && atomic_load(&board->turns) == 0 && bench_now_ns() - begin < (int64_t)PATIENCE_MS * 1000000)
        good = crew_pause(crew, 1);
    uint64_t turns = atomic_load(&board->turns);
    *ret_ns = (double)(bench_now_ns() - begin);
    crew_usage(crew, ret_used);
    /* Looking took a while too, in which they went on. */
    ret_used->turns = (double)atomic_load(&board->turns);
    usage_subtract(ret_used, &before);
    atomic_store(&board->turns, turns);
    return good;
}

bool crew_count(struct job *job, int processes, member_fn *work, struct usage *ret_used, double *ret_ns) {
    struct crew crew;
    bool good = crew_start(&crew, job, processes, work) && crew_await_ready(&crew) && count_span(&crew, ret_used, ret_ns);
    uint64_t turns = atomic_load(&job->board->turns);

    crew_finish(&crew);
    /* They took further turns until they heard of the end. */
    atomic_store(&job->board->turns, turns);
    return !crew_note_failure(&crew) && good;
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

struct pawl *member_open(const struct job *job) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = job->lease_ms, .label = "pawl bench"};
    char url[ADDRESS_SIZE + 64];
    struct pawl_error error;
    struct pawl *client;

    snprintf(url, sizeof url, "%s%s%s", job->target->url,
             job->options == NULL            ? ""
             : strchr(job->target->url, '?') ? "&"
                                             : "?",
             job->options == NULL ? "" : job->options);
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

void member_set_stage(const struct job *job, uint32_t stage) {
    atomic_store(&job->board->stage, stage);
    wake_all(&job->board->stage);
}
