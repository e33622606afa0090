/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel.c - the workloads of README.md for what the kernel and the C library offer on one machine: peer-kernel flock|ofd|robust DIRECTORY
 *
 *     flock     flock(2) on a descriptor that stays open
 *     ofd       fcntl(F_OFD_SETLKW) on one byte
 *     robust    a process-shared, robust pthread mutex in shared memory
 *
 * None of them is fair: the owner may take the lock again and again. So a turn is counted only when the owner changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stats.h"

enum { MAX_CREW = 256, BULK = 1000 };
enum phase { WAIT, WARM, COUNT, STOP };

static struct shared {
    pthread_mutex_t robust;
    _Atomic int phase, ready, waiting;
    _Atomic uint64_t turns;
    int owner; /* these two are written by who holds */
    int64_t released_at;
    struct histogram latency;
} * shared;

static char path[4096];

static void sleep_ms(long ms) {
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&span, NULL);
}

/* ---- The locks ------------------------------------------------------------------------------------------------------------ */

static int open_file(void) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (file < 0) {
        perror(path);
        exit(1);
    }
    return file;
}

static int open_nothing(void) {
    return -1;
}

static void flock_take(int file) {
    while (flock(file, LOCK_EX) < 0)
        continue;
}

static void flock_give(int file) {
    flock(file, LOCK_UN);
}

static void ofd(int file, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    while (fcntl(file, F_OFD_SETLKW, &range) < 0)
        continue;
}

static void ofd_take(int file) {
    ofd(file, F_WRLCK);
}

static void ofd_give(int file) {
    ofd(file, F_UNLCK);
}

static void robust_take(int file) {
    (void)file;
    if (pthread_mutex_lock(&shared->robust) == EOWNERDEAD)
        pthread_mutex_consistent(&shared->robust);
}

static void robust_give(int file) {
    (void)file;
    pthread_mutex_unlock(&shared->robust);
}

static const struct kind {
    const char *name, *title;
    int (*open)(void);
    void (*take)(int), (*give)(int);
} kinds[] = {
    {"flock", "flock(2)", open_file, flock_take, flock_give},
    {"ofd", "OFD lock", open_file, ofd_take, ofd_give},
    {"robust", "robust mutex", open_nothing, robust_take, robust_give},
};

static const struct kind *kind;

/* ---- The workloads -------------------------------------------------------------------------------------------------------- */

static void tell(double rate) {
    const struct histogram *latency = &shared->latency;

    printf("{\"rate\": %.3f", rate);
    if (histogram_total(latency) > 0)
        printf(", \"p50_us\": %.4f, \"p99_us\": %.4f, \"p999_us\": %.4f", histogram_at(latency, 0.5) / 1000,
               histogram_at(latency, 0.99) / 1000, histogram_at(latency, 0.999) / 1000);
    printf("}\n");
}

/* The rate without a clock in between, as `pawl bench` has it for local locks; the percentiles with one. */
static void alone(long ms) {
    int file = kind->open();
    int64_t end = bench_now_ns() + (int64_t)ms * 1000000, bulk_ns = 0;
    double bulk = 0;

    while (bench_now_ns() < end) {
        int64_t begin = bench_now_ns();

        for (int i = 0; i < BULK; i++) {
            kind->take(file);
            kind->give(file);
        }
        bulk_ns += bench_now_ns() - begin;
        bulk += BULK;
        for (int i = 0; i < BULK / 10; i++) {
            begin = bench_now_ns();
            kind->take(file);
            kind->give(file);
            histogram_add(&shared->latency, bench_now_ns() - begin);
        }
    }
    close(file);
    tell(bulk * 1e9 / (double)bulk_ns);
}

static void take_turn(int file, int self) {
    atomic_fetch_add(&shared->waiting, 1);
    kind->take(file);
    atomic_fetch_sub(&shared->waiting, 1);
    int64_t now = bench_now_ns();
    if (shared->owner != self) {
        shared->owner = self;
        atomic_fetch_add(&shared->turns, 1);
        if (shared->released_at != 0 && atomic_load(&shared->phase) == COUNT)
            histogram_add(&shared->latency, now - shared->released_at);
    }
    while (atomic_load(&shared->waiting) == 0 && atomic_load(&shared->phase) != STOP)
        sched_yield();
    shared->released_at = bench_now_ns();
    kind->give(file);
}

static void contend(int number) {
    int file = kind->open();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->phase) == WAIT)
        sleep_ms(1);
    while (atomic_load(&shared->phase) != STOP)
        take_turn(file, number + 1);
    _exit(0);
}

static double count(long ms) {
    atomic_store(&shared->phase, WARM);
    sleep_ms(ms / 4);
    uint64_t before = atomic_load(&shared->turns);
    int64_t begin = bench_now_ns();
    atomic_store(&shared->phase, COUNT);
    sleep_ms(ms);
    double rate = (double)(atomic_load(&shared->turns) - before) * 1e9 / (double)(bench_now_ns() - begin);
    atomic_store(&shared->phase, STOP);
    return rate;
}

static void turns(int number, long ms) {
    pid_t pids[MAX_CREW];

    for (int i = 0; i < number; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            contend(i);
    }
    while (atomic_load(&shared->ready) < number)
        sleep_ms(1);
    double rate = count(ms);
    for (int i = 0; i < number; i++)
        waitpid(pids[i], NULL, 0);
    tell(rate);
}

static void *hold(void *data) {
    int file = kind->open();

    (void)data;
    while (atomic_load(&shared->phase) != STOP) {
        kind->take(file);
        atomic_fetch_add_explicit(&shared->turns, 1, memory_order_relaxed);
        kind->give(file);
    }
    close(file);
    return NULL;
}

static void threads(int number, long ms) {
    pthread_t all[MAX_CREW];

    for (int i = 0; i < number; i++)
        pthread_create(&all[i], NULL, hold, NULL);
    double rate = count(ms);
    for (int i = 0; i < number; i++)
        pthread_join(all[i], NULL);
    tell(rate);
}

static void reset(void) {
    pthread_mutexattr_t attributes;

    memset(shared, 0, sizeof(*shared));
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->robust, &attributes);
}

static void answer(const char *line) {
    int number = 0;
    long ms = 0;

    reset();
    if (sscanf(line, "alone %ld", &ms) == 1)
        alone(ms);
    else if (sscanf(line, "turns %d %ld", &number, &ms) == 2 && number <= MAX_CREW)
        turns(number, ms);
    else if (sscanf(line, "threads %d %ld", &number, &ms) == 2 && number <= MAX_CREW)
        threads(number, ms);
    else
        printf("{\"missing\": \"it knows no such workload\"}\n");
}

int main(int argc, char **argv) {
    char line[128];

    for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            kind = &kinds[i];
    if (kind == NULL) {
        fprintf(stderr, "usage: peer-kernel flock|ofd|robust DIRECTORY\n");
        return 64;
    }
    snprintf(path, sizeof(path), "%.4000s/pawl-bench-peer", argv[2]);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("{\"peer\": \"%s\", \"version\": \"\"}\n", kind->title);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        fflush(stdout);
        answer(line);
    }
    unlink(path);
    return 0;
}
