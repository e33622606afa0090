/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.c - all workloads on all targets, round by round, and the line that tells how far it is.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workloads.h"

const struct row_description row_descriptions[ROWS] = {
    [ROW_TRIP] = {"trip", "bare round trip", "trips", ROWS, false},
    [ROW_WRITE] = {"write", "bare write", "writes", ROWS, false},
    [ROW_READ] = {"read", "bare read", "reads", ROWS, false},
    [ROW_TRIP_BUSY] = {"trip_busy", "bare round trip, client waits busily", "trips", ROWS, false},
    [ROW_WRITE_BUSY] = {"write_busy", "bare write, client waits busily", "writes", ROWS, false},
    [ROW_MESSAGE] = {"message", "bare message there and back", "messages", ROWS, false},
    [ROW_SET] = {"set", "bare write of a value", "writes", ROWS, false},
    [ROW_FLOCK_16] = {"flock16", "flock(2) by 16 threads of one process", "holds", ROWS, false},
    [ROW_FLOCK_16_APART] = {"flock16_5us", "flock(2) by 16 threads, 5 us between holds", "holds", ROWS, false},
    [ROW_ACQUIRE] = {"acquire", "uncontended acquire", "acquires", ROW_WRITE, false},
    [ROW_PAIR] = {"pair", "uncontended acquire + release", "pairs", ROW_WRITE, true},
    [ROW_VALUE] = {"value", "write of a value by who holds", "writes", ROW_SET, false},
    [ROW_KEPT] = {"kept", "acquire + release, kept", "pairs", ROWS, false},
    [ROW_KEPT_VALUE] = {"kept_value", "read of a value under a shared lock, kept", "reads", ROWS, false},
    [ROW_TURNS_2] = {"turns2", "hand-off among 2 processes", "hand-offs", ROW_TRIP, false},
    [ROW_TURNS_16] = {"turns16", "hand-off among 16 processes", "hand-offs", ROW_TRIP, false},
    [ROW_TURNS_64] = {"turns64", "hand-off among 64 processes", "hand-offs", ROW_TRIP, false},
    [ROW_THREADS] = {"threads16", "16 threads of one process", "holds", ROWS, false},
    [ROW_THREADS_EXACT] = {"exact16", "16 threads of one process, ?handoff=0", "holds", ROWS, false},
    [ROW_THREADS_OWN] = {"own64", "64 threads of one process, a lock each", "holds", ROWS, false},
    [ROW_KEPT_16] = {"kept16", "16 threads of one process, kept", "holds", ROWS, false},
    [ROW_KEPT_16_APART] = {"kept16_5us", "16 threads, 5 us between holds, kept", "holds", ROWS, false},
    [ROW_READS_90] = {"reads90", "read-write lock, 16 processes, 90 % read", "holds", ROWS, false},
    [ROW_READS_99] = {"reads99", "read-write lock, 16 processes, 99 % read", "holds", ROWS, false},
    [ROW_KEPT_READS_99] = {"kept_reads99", "16 processes, 99 % read, kept", "holds", ROWS, false},
    [ROW_KEPT_VALUE_16] = {"kept_value16", "16 processes read a value under a shared lock, kept", "reads", ROWS, false},
    [ROW_READS_999] = {"reads999", "read-write lock, 16 processes, 99.9 % read", "holds", ROWS, false},
    [ROW_KEPT_READS_999] = {"kept_reads999", "16 processes, 99.9 % read, kept", "holds", ROWS, false},
    [ROW_IN_TURN] = {"in_turn", "2 processes strictly in turn", "holds", ROWS, false},
    [ROW_KEPT_IN_TURN] = {"kept_in_turn", "2 processes strictly in turn, kept", "holds", ROWS, false},
    [ROW_GREEDY] = {"greedy2", "2 processes want it all the time", "holds", ROWS, false},
    [ROW_KEPT_GREEDY] = {"kept_greedy2", "2 processes want it all the time, kept", "holds", ROWS, false},
    [ROW_APART_3MS] = {"apart_3ms", "4 processes, 3 ms between holds", "holds", ROWS, false},
    [ROW_KEPT_APART_3MS] = {"kept_apart_3ms", "4 processes, 3 ms between holds, kept", "holds", ROWS, false},
    [ROW_APART_100US] = {"apart_100us", "4 processes, 100 us between holds", "holds", ROWS, false},
    [ROW_KEPT_APART_100US] = {"kept_apart_100us", "4 processes, 100 us between holds, kept", "holds", ROWS, false},
    [ROW_RECALL] = {"recall", "acquire of what another process keeps", "acquires", ROW_MESSAGE, false},
    [ROW_QUEUE_1000] = {"queue1000", "hand-off along a queue of 1,000", "hand-offs", ROW_TRIP, false},
    [ROW_QUEUE_10000] = {"queue10000", "hand-off along a queue of 10,000", "hand-offs", ROW_TRIP, false},
    [ROW_HOLDS] = {"holds10000", "10,000 locks held, a second of it", "seconds", ROWS, false},
    [ROW_KILL] = {"kill", "kill -9 until the next one holds, lease 2 s", "kills", ROWS, false},
};

enum { ALWAYS = MAX_ROUNDS };

static const struct workload {
    workload_fn *measure;
    enum row row;
    int number;
    int rounds; /* at most in so many */
    bool large; /* only when asked for */
} workloads[] = {
    {measure_alone, ROW_PAIR, 1, ALWAYS, false},
    {measure_turns, ROW_TURNS_2, 2, ALWAYS, false},
    {measure_turns, ROW_TURNS_16, 16, ALWAYS, false},
    {measure_turns, ROW_TURNS_64, 64, ALWAYS, false},
    {measure_threads, ROW_THREADS, 16, ALWAYS, false},
    {measure_exact, ROW_THREADS_EXACT, 16, ALWAYS, false},
    {measure_threads, ROW_THREADS_OWN, 64, ALWAYS, false},
    {measure_reads, ROW_READS_90, 900, ALWAYS, false},
    {measure_reads, ROW_READS_99, 990, ALWAYS, false},
    {measure_value, ROW_VALUE, 1, ALWAYS, true},
    {measure_kept, ROW_KEPT, 1, ALWAYS, false},
    {measure_kept_value, ROW_KEPT_VALUE, 1, ALWAYS, true},
    {measure_kept_value_16, ROW_KEPT_VALUE_16, 16, ALWAYS, true},
    {measure_recall, ROW_RECALL, 2, ALWAYS, false},
    {measure_kept_threads, ROW_KEPT_16, 0, ALWAYS, true},
    {measure_kept_threads, ROW_KEPT_16_APART, 5, ALWAYS, true},
    {measure_kept_reads, ROW_KEPT_READS_99, 990, ALWAYS, true},
    {measure_kept_reads, ROW_KEPT_READS_999, 999, ALWAYS, true},
    {measure_kept_in_turn, ROW_KEPT_IN_TURN, 2, ALWAYS, true},
    {measure_kept_greedy, ROW_KEPT_GREEDY, 0, ALWAYS, true},
    {measure_kept_apart, ROW_KEPT_APART_3MS, 3000, ALWAYS, true},
    {measure_kept_apart, ROW_KEPT_APART_100US, 100, ALWAYS, true},
    {measure_queue, ROW_QUEUE_1000, 1000, 3, false},
    {measure_queue, ROW_QUEUE_10000, 10000, 1, true},
    {measure_holds, ROW_HOLDS, 10000, 1, true},
    {measure_kill, ROW_KILL, 2, 3, false},
};
enum { WORKLOADS = sizeof workloads / sizeof workloads[0] };

static size_t workload_named(const char *name, size_t length) {
    size_t w = 0;

    for (; w < WORKLOADS; w++) {
        const char *key = row_descriptions[workloads[w].row].key;

        if (strlen(key) == length && strncmp(key, name, length) == 0)
            break;
    }
    return w;
}

bool bench_choose(struct bench *bench, const char *names) {
    for (const char *name = names;; name++) {
        size_t length = strcspn(name, ","), w = workload_named(name, length);

        if (w == WORKLOADS)
            return false;
        bench->chosen |= UINT64_C(1) << workloads[w].row;
        name += length;
        if (*name == '\0')
            return true;
    }
}

const char *bench_workload(size_t number) {
    return number < WORKLOADS ? row_descriptions[workloads[number].row].key : NULL;
}

/* Is it to be measured in this round? What was named is, however large. */
static bool is_due(const struct bench *bench, const struct workload *workload, int round) {
    bool wanted = bench->chosen ? bench->chosen & UINT64_C(1) << workload->row : !workload->large || bench->large;

    return wanted && round < workload->rounds;
}

/* How far it is: workloads on targets, in all rounds. */
struct progress {
    size_t done, total;
};

static size_t count_steps(const struct bench *bench) {
    size_t steps = 0;

    for (int round = 0; round < bench->rounds; round++)
        for (size_t w = 0; w < WORKLOADS; w++)
            steps += is_due(bench, &workloads[w], round) ? bench->count : 0;
    return steps;
}

static void show_progress(const struct bench *bench, int round, const struct progress *progress, const struct job *job) {
    char line[ADDRESS_SIZE + 256];

    if (!isatty(STDERR_FILENO))
        return;
    snprintf(line, sizeof line, "%3zu %%, round %d of %d: %s, %s", 100 * progress->done / progress->total, round + 1, bench->rounds,
             row_descriptions[job->row].title, job->target->shown);
    cut_to_columns(line, terminal_columns(STDERR_FILENO) - 1);
    dprintf(STDERR_FILENO, "\r\033[K%s", line);
}

static void hide_progress(void) {
    if (isatty(STDERR_FILENO))
        dprintf(STDERR_FILENO, "\r\033[K");
}

static bool is_about_keeping(const struct workload *workload) {
    return workload->measure == measure_recall || strncmp(row_descriptions[workload->row].key, "kept", 4) == 0;
}

/* Why there is no point in it; NULL: there is. */
static const char *pointless(const struct target *target, const struct workload *workload) {
    bool votes = strcmp(target->engine, "redlock") == 0;

    if (!target->keeps && is_about_keeping(workload))
        return "no lock is kept here";
    if (workload->measure == measure_value && (target->raw == NULL || target->raw->impl->set == NULL))
        return "there is no bare write here that it could be compared with";
    if (votes && workload->measure == measure_reads)
        return "over several servers there are mutexes only";
    if (votes && workload->measure == measure_queue)
        return "over several servers there is no queue: those that wait ask again";
    return NULL;
}

static void run_workload(struct bench *bench, const struct workload *workload, int round, struct progress *progress,
                         struct board *board) {
    for (size_t t = 0; t < bench->count && workers_signal() == 0; t++, progress->done++) {
        /* Another goes first in each round. */
        struct target *target = &bench->targets[(t + (size_t)round) % bench->count];
        struct job job = {.bench = bench, .target = target, .row = workload->row, .number = workload->number, .board = board};

        if (target->results[job.row].missing[0] != '\0')
            continue;
        if (!target->keeps && is_about_keeping(workload) && !bench->chosen)
            continue; /* nobody asked for it by name */
        show_progress(bench, round, progress, &job);
        if (pointless(target, workload) != NULL)
            note_missing(&target->results[job.row], pointless(target, workload));
        else
            workload->measure(&job);
    }
}

int bench_run(struct bench *bench) {
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct progress progress = {.total = count_steps(bench)};

    if (board == MAP_FAILED) {
        say("out of memory");
        return EXIT_SYSTEM;
    }
    for (int round = 0; round < bench->rounds && workers_signal() == 0; round++)
        for (size_t w = 0; w < WORKLOADS; w++)
            if (is_due(bench, &workloads[w], round))
                run_workload(bench, &workloads[w], round, &progress, board);
    hide_progress();
    munmap(board, sizeof *board);
    return 0;
}
