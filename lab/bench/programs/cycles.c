/* SPDX-License-Identifier: Apache-2.0
 *
 * cycles.c - a known number of cycles, to be counted from outside (lab/bench/syscalls.py):
 *
 *     bench-cycles URL alone N      one process acquires and releases N times; nobody else wants the lock
 *     bench-cycles URL turns N      two processes hand the lock to each other N times; a holder keeps it until the other one waits
 *
 * Prints how often its threads went to sleep within these cycles, as one number per cycle. A holder that waits for the other one to ask
 * yields its processor: the calls of sched_yield() are this program's, and no others.
 */
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pawl.h"

enum { WARM = 50 };

static struct board {
    _Atomic int opened, turns;
    _Atomic bool waits[2];
    _Atomic long sleeps;
} * board;

static void check(int rc, const struct pawl_error *error) {
    if (rc < 0)
        errx(1, "%s", error->text);
}

static long sleeps(void) {
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static struct pawl_lock *open_lock(const char *url, struct pawl **ret) {
    struct pawl_error error;
    struct pawl_lock *lock;

    check(pawl_open(url, NULL, ret, &error), &error);
    check(pawl_mutex_new(*ret, "pawl-bench-cycles", 0, &lock, &error), &error);
    return lock;
}

static void acquire(struct pawl_lock *lock) {
    struct pawl_error error;

    check(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
}

static void alone(const char *url, int count) {
    struct pawl *client;
    struct pawl_lock *lock = open_lock(url, &client);
    long before = 0;

    for (int i = -WARM; i < count; i++) {
        if (i == 0)
            before = sleeps();
        acquire(lock);
        pawl_release(lock, NULL);
    }
    atomic_store(&board->sleeps, sleeps() - before);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void take_turns(const char *url, int count, int self) {
    struct pawl *client;
    struct pawl_lock *lock = open_lock(url, &client);

    atomic_fetch_add(&board->opened, 1);
    while (atomic_load(&board->opened) < 2)
        sched_yield();
    long before = sleeps();
    while (atomic_load(&board->turns) < count) {
        atomic_store(&board->waits[self], true);
        acquire(lock);
        atomic_store(&board->waits[self], false);
        atomic_fetch_add(&board->turns, 1);
        while (!atomic_load(&board->waits[!self]) && atomic_load(&board->turns) < count)
            sched_yield();
        pawl_release(lock, NULL);
    }
    atomic_fetch_add(&board->sleeps, sleeps() - before);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Each process opens its own client: nothing of it is there before the fork. */
static int turns(const char *url, int count) {
    pid_t pids[2];
    int status = 0, one;

    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            err(1, "fork");
        if (pids[i] == 0) {
            take_turns(url, count, i);
            _exit(0);
        }
    }
    for (int i = 0; i < 2 && wait(&one) > 0; i++) {
        status |= one;
        for (int j = 0; one != 0 && j < 2; j++)
            kill(pids[j], SIGKILL); /* who is left would wait for ever */
    }
    return status;
}

int main(int argc, char **argv) {
    int count = argc == 4 ? atoi(argv[3]) : 0, status = 0;

    bool by_turns = argc == 4 && strcmp(argv[2], "turns") == 0;

    if (count < 1 || (!by_turns && strcmp(argv[2], "alone") != 0))
        errx(64, "usage: bench-cycles URL alone|turns N");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        err(1, "mmap");
    if (by_turns)
        status = turns(argv[1], count);
    else
        alone(argv[1], count);
    if (status != 0)
        return 1; /* it was said why */
    printf("%.2f\n", (double)atomic_load(&board->sleeps) / count);
    return 0;
}
