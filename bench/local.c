/* SPDX-License-Identifier: Apache-2.0
 *
 * bench/local.c - the local engine beside what the kernel and the C library offer on one machine.
 *
 * Every row is measured in rounds; within a round all rivals take their turn, so that a noisy machine hits them alike. What counts is
 * the ratio within one run: medians over the rounds, with the lowest and the highest in brackets. Nothing here passes or fails.
 *
 *     pawl       this library, by its public header
 *     flock      flock(2) on a descriptor that stays open
 *     ofd        fcntl(F_OFD_SETLKW) on one byte
 *     robust     a process-shared, robust pthread mutex
 *     futex      no lock at all: two processes that wake each other, the least that handing something over can cost
 *
 * flock, ofd and robust are not fair: under load the owner takes the lock again and again. So a hand-over is counted only when the
 * owner changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

enum { ROUNDS = 7, MAX_PROCESSES = 10000, KILLS = 15 };

static char directory[] = "/tmp/pawl-bench-XXXXXX";
static char url[64];

/* What the processes share. */
static struct shared {
    pthread_mutex_t robust;
    _Atomic uint32_t ball;     /* of the ping-pong */
    _Atomic uint32_t go, stop; /* futexes */
    _Atomic uint64_t acquired, changes;
    _Atomic int64_t stamp;
    int owner; /* written by whoever holds */
} * shared;

static void die(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static void set_and_wake(_Atomic uint32_t *word, uint32_t value) {
    atomic_store(word, value);
    futex_wake(word, INT_MAX);
}

static void await_value(_Atomic uint32_t *word, uint32_t value) {
    uint32_t seen;

    while ((seen = atomic_load(word)) != value)
        futex_wait(word, seen);
}

/* ---- The rivals ----------------------------------------------------------------------------------------------------------- */

static struct pawl *client;
static struct pawl_lock *lock;
static int file = -1;

static void open_pawl_with(const char *options, unsigned flags) {
    struct pawl_error error;
    char full[128];

    snprintf(full, sizeof full, "%s%s", url, options);
    if (pawl_open(full, NULL, &client, &error) < 0 || pawl_mutex_new(client, "bench", flags, &lock, &error) < 0) {
        fprintf(stderr, "bench: %s\n", error.text);
        exit(1);
    }
}

static void open_pawl(void) {
    open_pawl_with("", 0);
}

static void close_pawl(void) {
    pawl_lock_free(lock);
    pawl_close(client);
}

static void pawl_take(void) {
    if (pawl_acquire(lock, PAWL_FOREVER, NULL) < 0)
        exit(1);
}

static void pawl_give(void) {
    pawl_release(lock, NULL);
}

static void open_file(void) {
    char path[64];

    snprintf(path, sizeof path, "%s/file", directory);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        die(path);
}

static void close_file(void) {
    close(file);
}

static void flock_take(void) {
    while (flock(file, LOCK_EX) < 0)
        continue;
}

static void flock_give(void) {
    flock(file, LOCK_UN);
}

static void ofd(short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    while (fcntl(file, F_OFD_SETLKW, &range) < 0)
        continue;
}

static void ofd_take(void) {
    ofd(F_WRLCK);
}

static void ofd_give(void) {
    ofd(F_UNLCK);
}

static void nothing(void) {
}

static void robust_take(void) {
    if (pthread_mutex_lock(&shared->robust) == EOWNERDEAD)
        pthread_mutex_consistent(&shared->robust);
}

static void robust_give(void) {
    pthread_mutex_unlock(&shared->robust);
}

static const struct rival {
    const char *name;
    void (*open)(void), (*close)(void), (*take)(void), (*give)(void);
} rivals[] = {
    {"pawl", open_pawl, close_pawl, pawl_take, pawl_give},
    {"flock", open_file, close_file, flock_take, flock_give},
    {"ofd", open_file, close_file, ofd_take, ofd_give},
    {"robust", nothing, nothing, robust_take, robust_give},
};
enum { RIVALS = sizeof rivals / sizeof rivals[0] };

/* ---- Figures -------------------------------------------------------------------------------------------------------------- */

struct figure {
    double values[ROUNDS];
};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(struct figure *figure) {
    qsort(figure->values, ROUNDS, sizeof figure->values[0], compare);
    return figure->values[ROUNDS / 2];
}

static void print_figure(const char *name, struct figure *figure, const char *unit, double base, const char *base_name) {
    double middle = median(figure);

    printf("  %-28s %10.3g %-3s [%.3g..%.3g]", name, middle, unit, figure->values[0], figure->values[ROUNDS - 1]);
    if (base > 0)
        printf("   %.2f x %s", middle / base, base_name);
    putchar('\n');
}

/* ---- One process ---------------------------------------------------------------------------------------------------------- */

static double time_pairs(const struct rival *rival, int count) {
    int64_t start = now_ns();

    for (int i = 0; i < count; i++) {
        rival->take();
        rival->give();
    }
    return (double)(now_ns() - start) / count;
}

static void bench_uncontended(void) {
    struct figure figures[RIVALS], reentry;
    double flock_ns;

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < RIVALS; i++) {
            rivals[i].open();
            figures[i].values[round] = time_pairs(&rivals[i], 200000);
            if (i == 0) {
                pawl_take();
                reentry.values[round] = time_pairs(&rivals[i], 200000);
                pawl_give();
            }
            rivals[i].close();
        }
    printf("\nuncontended acquire + release, one thread\n");
    flock_ns = median(&figures[1]);
    for (int i = 0; i < RIVALS; i++)
        print_figure(rivals[i].name, &figures[i], "ns", flock_ns, "flock");
    print_figure("pawl, re-entry", &reentry, "ns", flock_ns, "flock");
}

static void bench_open(void) {
    enum { TIMES = 200 };
    struct figure figure;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = now_ns();

        for (int i = 0; i < TIMES; i++) {
            open_pawl();
            pawl_take();
            pawl_give();
            close_pawl();
        }
        figure.values[round] = (double)(now_ns() - start) / TIMES / 1000;
    }
    printf("\nopen, acquire, release, close\n");
    print_figure("pawl", &figure, "us", 0, NULL);
}

/* ---- Several processes ---------------------------------------------------------------------------------------------------- */

static pid_t start_process(void (*work)(const void *, int), const void *data, int number) {
    pid_t pid = fork();

    if (pid < 0)
        die("fork");
    if (pid == 0) {
        work(data, number);
        _exit(0);
    }
    return pid;
}

static void saturate(const void *data, int number) {
    const struct rival *rival = data;

    rival->open();
    await_value(&shared->go, 1);
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        rival->take();
        if (shared->owner != number)
            atomic_fetch_add_explicit(&shared->changes, 1, memory_order_relaxed);
        shared->owner = number;
        atomic_fetch_add_explicit(&shared->acquired, 1, memory_order_relaxed);
        rival->give();
    }
    rival->close();
}

/* Microseconds per change of owner, with so many processes that all want the lock all the time. */
static double time_handover(const struct rival *rival, int processes) {
    const struct timespec span = {.tv_nsec = 200000000};
    pid_t pids[64];
    int64_t start;

    atomic_store(&shared->go, 0);
    atomic_store(&shared->stop, 0);
    for (int i = 0; i < processes; i++)
        pids[i] = start_process(saturate, rival, i + 1);
    set_and_wake(&shared->go, 1);
    nanosleep(&span, NULL); /* let them all come in: this is a measurement, not a test */
    atomic_store(&shared->changes, 0);
    start = now_ns();
    nanosleep(&span, NULL);
    double us = (double)(now_ns() - start) / 1000 / (double)(atomic_load(&shared->changes) + 1);
    atomic_store(&shared->stop, 1);
    for (int i = 0; i < processes; i++)
        waitpid(pids[i], NULL, 0);
    return us;
}

static void bat(const void *data, int number) {
    int throws = *(const int *)data;
    uint32_t mine = (uint32_t)number, yours = 1 - mine;

    for (int i = 0; i < throws; i++) {
        await_value(&shared->ball, mine);
        atomic_store(&shared->ball, yours);
        futex_wake(&shared->ball, 1);
    }
}

/* Microseconds for one throw of a ball between two processes. */
static double time_ping_pong(void) {
    int throws = 10000;
    int64_t start = now_ns();
    pid_t a, b;

    atomic_store(&shared->ball, 0);
    a = start_process(bat, &throws, 0);
    b = start_process(bat, &throws, 1);
    waitpid(a, NULL, 0);
    waitpid(b, NULL, 0);
    return (double)(now_ns() - start) / 1000 / (2.0 * throws);
}

static void bench_handover(void) {
    static const int crowds[] = {2, 8, 64};
    struct figure ball, figures[RIVALS];
    double ball_us;

    for (size_t c = 0; c < sizeof crowds / sizeof crowds[0]; c++) {
        for (int round = 0; round < ROUNDS; round++) {
            ball.values[round] = time_ping_pong();
            for (int i = 0; i < RIVALS; i++)
                figures[i].values[round] = time_handover(&rivals[i], crowds[c]);
        }
        printf("\nchange of owner, %d processes that want it all the time\n", crowds[c]);
        ball_us = median(&ball);
        print_figure("futex (bare, 2 processes)", &ball, "us", 0, NULL);
        for (int i = 0; i < RIVALS; i++)
            print_figure(rivals[i].name, &figures[i], "us", ball_us, "futex");
    }
}

/* ---- Many waiters --------------------------------------------------------------------------------------------------------- */

static void wait_once(const void *data, int number) {
    (void)data;
    (void)number;
    open_pawl();
    pawl_take();
    if (atomic_fetch_add(&shared->acquired, 1) + 1 == atomic_load(&shared->changes)) {
        atomic_store(&shared->stamp, now_ns());
        set_and_wake(&shared->stop, 1);
    }
    pawl_give();
    await_value(&shared->stop, 1); /* ten thousand processes that end would be all that is measured */
}

static int count_waiter(const struct pawl_entry *entry, void *data) {
    *(int *)data += entry->flags & PAWL_ENTRY_WAITER ? 1 : 0;
    return 0;
}

static int waiters(void) {
    int count = 0;

    pawl_inspect(client, "bench", count_waiter, &count, NULL);
    return count;
}

/* Microseconds per hand-over when so many processes stand in the queue. -1: they can't be started. */
static double time_queue(int processes) {
    static pid_t pids[MAX_PROCESSES];
    const struct timespec moment = {.tv_nsec = 20000000};
    int64_t start;

    open_pawl();
    pawl_take();
    atomic_store(&shared->acquired, 0);
    atomic_store(&shared->changes, (uint64_t)processes);
    atomic_store(&shared->stop, 0);
    for (int i = 0; i < processes; i++)
        pids[i] = start_process(wait_once, NULL, i);
    for (int i = 0; i < 3000 && waiters() < processes; i++)
        nanosleep(&moment, NULL);
    start = now_ns();
    pawl_give();
    await_value(&shared->stop, 1);
    for (int i = 0; i < processes; i++)
        waitpid(pids[i], NULL, 0);
    close_pawl();
    return (double)(atomic_load(&shared->stamp) - start) / 1000 / processes;
}

static void bench_queue(void) {
    static const int lengths[] = {100, 1000, 10000};
    double first = 0;

    printf("\nhand-over along a queue of waiting processes, one run each\n");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        double us = time_queue(lengths[i]);

        first = i == 0 ? us : first;
        printf("  %-28d %10.3g us    %.2f x the shortest queue\n", lengths[i], us, us / first);
    }
}

/* ---- kill -9 -------------------------------------------------------------------------------------------------------------- */

static void hold_for_ever(const void *data, int number) {
    (void)data;
    (void)number;
    open_pawl();
    pawl_take();
    set_and_wake(&shared->go, 1);
    for (;;)
        pause();
}

static void wait_for_the_dead(const void *data, int number) {
    (void)data;
    (void)number;
    open_pawl();
    pawl_take();
    atomic_store(&shared->stamp, now_ns());
    pawl_give();
    close_pawl();
}

static void bench_kill(void) {
    const struct timespec moment = {.tv_nsec = 1000000};
    struct figure figure;

    open_pawl();
    for (int round = 0; round < ROUNDS; round++) {
        double values[KILLS];

        for (int i = 0; i < KILLS; i++) {
            pid_t holder, heir;
            int64_t start;

            atomic_store(&shared->go, 0);
            holder = start_process(hold_for_ever, NULL, 0);
            await_value(&shared->go, 1);
            heir = start_process(wait_for_the_dead, NULL, 0);
            while (waiters() < 1)
                nanosleep(&moment, NULL);
            nanosleep(&moment, NULL);
            start = now_ns();
            kill(holder, SIGKILL);
            waitpid(heir, NULL, 0);
            waitpid(holder, NULL, 0);
            values[i] = (double)(atomic_load(&shared->stamp) - start) / 1000;
        }
        qsort(values, KILLS, sizeof values[0], compare);
        figure.values[round] = values[KILLS / 2];
    }
    close_pawl();
    printf("\nkill -9 of the holder until the next one holds\n");
    print_figure("pawl", &figure, "us", 0, NULL);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;

static void *thread_pawl(void *data) {
    uint64_t *count = data;

    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        pawl_take();
        ++*count;
        pawl_give();
    }
    return NULL;
}

static void *thread_plain(void *data) {
    uint64_t *count = data;

    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        pthread_mutex_lock(&plain);
        ++*count;
        pthread_mutex_unlock(&plain);
    }
    return NULL;
}

/* Acquisitions per millisecond by 16 threads. */
static double time_threads(void *(*work)(void *)) {
    enum { THREADS = 16 };
    const struct timespec span = {.tv_nsec = 200000000};
    pthread_t threads[THREADS];
    uint64_t count = 0; /* guarded by the lock that is measured */
    int64_t start;

    atomic_store(&shared->stop, 0);
    start = now_ns();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &count) != 0)
            die("pthread_create");
    nanosleep(&span, NULL);
    atomic_store(&shared->stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return (double)count / ((double)(now_ns() - start) / 1e6);
}

static void bench_threads(void) {
    struct figure cohort, exact, mutex;
    double base;

    for (int round = 0; round < ROUNDS; round++) {
        open_pawl();
        cohort.values[round] = time_threads(thread_pawl);
        close_pawl();
        open_pawl_with("?handoff=0", 0);
        exact.values[round] = time_threads(thread_pawl);
        close_pawl();
        mutex.values[round] = time_threads(thread_plain);
    }
    printf("\n16 threads of one process on one lock, acquisitions per millisecond\n");
    base = median(&exact);
    print_figure("pawl", &cohort, "/ms", base, "handoff=0");
    print_figure("pawl, ?handoff=0", &exact, "/ms", 0, NULL);
    print_figure("pthread mutex (not fair)", &mutex, "/ms", base, "handoff=0");
}

/* ---- main ----------------------------------------------------------------------------------------------------------------- */

static void prepare(void) {
    pthread_mutexattr_t attributes;
    struct rlimit files = {0, 0};

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (!mkdtemp(directory))
        die(directory);
    snprintf(url, sizeof url, "local:%s", directory);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->robust, &attributes);
}

static void clean_up(void) {
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command) != 0)
        fprintf(stderr, "bench: %s stays behind\n", directory);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* children must not print what is in the buffer again */
    prepare();
    printf("pawl %s, local:, %ld cores, %d rounds: median [lowest..highest]\n", pawl_version(), sysconf(_SC_NPROCESSORS_ONLN),
           ROUNDS);
    bench_uncontended();
    bench_open();
    bench_handover();
    bench_threads();
    bench_kill();
    bench_queue();
    clean_up();
    return 0;
}
