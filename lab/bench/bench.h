/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - pawl bench: what is measured, on what, and where the figures are kept.
 *
 * A run is made of rounds; within a round every workload takes its turn on every target, so that a noisy machine hits all alike. What a
 * round says about one row of the table is a sample per measure; what is told is the median of the rounds with the lowest and the
 * highest. A ratio is taken within each round, too, and the median of these ratios is told.
 *
 * The process that people start opens no client itself. Every workload runs in processes that it forks (workers.h) and that end with the
 * workload; so nothing of the last one is in the way of the next, and what a client costs can be read off its process.
 */
#ifndef PAWL_CLI_BENCH_H
#define PAWL_CLI_BENCH_H

#include <stdio.h>
#include <sys/types.h>

#include "../../cli/common/cli.h"
#include "address.h"
#include "stats.h"

enum measure {
    RATE,          /* a second */
    P50,           /* these three in ns */
    P99,           /* ... */
    P999,          /* ... */
    LONGEST,       /* the longest wait of a round, in ns */
    SHARE,         /* of those that took turns: the fewest, as a part of the most */
    REQUESTS,      /* that reach the servers: for each turn (of holds: a second) */
    CLIENT_CPU,    /* ns for each turn (of holds: in a second) */
    SERVER_CPU,    /* the same, of the servers */
    CLIENT_MEMORY, /* bytes of its own that each process has */
    SERVER_MEMORY, /* bytes that the servers have */
    MEASURES,
};

/* The value that is written beside a lock, and by the bare operation. */
#define BENCH_VALUE "sixteen bytes..."

/* The rows of the table, in its order. */
enum row {
    ROW_TRIP,
    ROW_WRITE,
    ROW_READ,
    ROW_TRIP_BUSY,
    ROW_WRITE_BUSY,
    ROW_MESSAGE,
    ROW_SET,
    ROW_FLOCK_16,
    ROW_FLOCK_16_APART,
    ROW_ACQUIRE,
    ROW_PAIR,
    ROW_VALUE,
    ROW_KEPT,
    ROW_KEPT_VALUE,
    ROW_TURNS_2,
    ROW_TURNS_16,
    ROW_TURNS_64,
    ROW_THREADS,
    ROW_THREADS_EXACT,
    ROW_THREADS_OWN,
    ROW_KEPT_16,
    ROW_KEPT_16_APART,
    ROW_READS_90,
    ROW_READS_99,
    ROW_KEPT_READS_99,
    ROW_KEPT_VALUE_16,
    ROW_READS_999, /* each with ?keep=0, and then the same with ?keep=: kept.c */
    ROW_KEPT_READS_999,
    ROW_IN_TURN,
    ROW_KEPT_IN_TURN,
    ROW_GREEDY,
    ROW_KEPT_GREEDY,
    ROW_APART_3MS,
    ROW_KEPT_APART_3MS,
    ROW_APART_100US,
    ROW_KEPT_APART_100US,
    ROW_RECALL,
    ROW_QUEUE_1000,
    ROW_QUEUE_10000,
    ROW_HOLDS,
    ROW_KILL,
    ROWS,
};

struct row_description {
    const char *key; /* in JSON: never changed */
    const char *title;
    const char *what;   /* the rate counts */
    enum row limit;     /* the bare operation it is compared with; ROWS: none */
    bool limit_by_rate; /* local: both are shorter than reading a clock twice */
};
extern const struct row_description row_descriptions[ROWS];

/* What the server takes without the library: raw.h. */
static inline bool row_is_bare(enum row row) {
    return row < ROW_ACQUIRE;
}

/* All that was found out about one row on one target. */
struct result {
    struct figure figures[MEASURES];
    struct histogram latency; /* of all rounds */
    char missing[200];        /* why there is nothing; "": there is, or it was not asked for */
};

struct raw;

/* One place with locks. */
struct target {
    char url[ADDRESS_SIZE];     /* to be opened */
    char shown[ADDRESS_SIZE];   /* resolved, without secrets */
    char scratch[ADDRESS_SIZE]; /* a directory that is removed at the end; "": none */
    char engine[16];
    char server[80]; /* "Redis 7.0.15"; "": not known */
    int64_t lease_ms, notice_ms;
    bool keeps; /* it takes ?keep= */
    struct address address;
    struct raw *raw;       /* NULL: see raw_missing */
    char raw_missing[200]; /* why bare operations can't be measured */
    pid_t servers[ADDRESS_HOSTS];
    size_t server_count;    /* those on this host */
    int failure;            /* the exit status, if something could not be measured; 0: nothing went wrong */
    struct result *results; /* ROWS of them */
};

enum { BENCH_TARGETS = 8 };

struct bench {
    struct target targets[BENCH_TARGETS];
    size_t count;
    int rounds;
    int64_t span_ms; /* of each workload in each round */
    bool large;      /* 10,000 waiters, 10,000 holds, and what few want to know */
    uint64_t chosen; /* a bit for each row whose workload is to run; 0: no choice was made */
    char id[32];     /* what every name begins with */
    int64_t began_ms;
    int signal; /* that ended the run; 0: none */
};

/* rounds.c: run all workloads. 0, or the exit status after having said what went wrong. */
int bench_run(struct bench *bench);
/* Of all workloads, only those that are named here with commas between them. False: one of the names is none. */
bool bench_choose(struct bench *bench, const char *names);
/* Their names, one by one; NULL: there are no more. */
const char *bench_workload(size_t number);

/* target.c */
int target_open(struct target *target, const struct bench *bench, const char *url);
void target_close(struct target *target, const struct bench *bench);
/* The row has no sample of this round, and why. */
void note_missing(struct result *result, const char *why);

/* ratio.c: the row beside what it is compared with, median of the rounds' ratios. 0: not known. */
double ratio_to_limit(const struct target *target, enum row row);
/* What the limit is called on this target: "PING". */
const char *limit_name(const struct target *target, enum row row);
bool row_is_known(const struct target *target, enum row row);

/* table.c, json.c, svg.c */
void bench_print_table(FILE *out, const struct bench *bench);
void bench_print_json(FILE *out, const struct bench *bench);
void bench_print_svg(FILE *out, const struct bench *bench);

/* "89 ns", "1.2 ms": three digits. And "11.2 M", "450". */
char *in_time_units(char *out, size_t size, double ns);
char *in_thousands(char *out, size_t size, double number);

#endif
