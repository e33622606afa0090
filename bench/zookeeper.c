/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.c - pawl's part of the comparison on ZooKeeper; bench/zookeeper.py starts the server and the others.
 *
 *     bench-zookeeper URL cycles N                     median of N uncontended acquires and releases, in microseconds
 *     bench-zookeeper URL turns N separate|shared MS   changes of hands within MS among N sessions, or holds by N
 *                                                      threads of one client
 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pawl.h"

static struct pawl *open_client(const char *url) {
    struct pawl_error error;
    struct pawl *client;

    if (pawl_open(url, NULL, &client, &error) < 0)
        errx(1, "%s", error.text);
    return client;
}

static struct pawl_lock *new_mutex(struct pawl *client) {
    struct pawl_error error;
    struct pawl_lock *lock;

    if (pawl_mutex_new(client, "bench", 0, &lock, &error) < 0)
        errx(1, "%s", error.text);
    return lock;
}

static void cycle(struct pawl_lock *lock, atomic_ulong *count, atomic_size_t *owner, size_t self) {
    struct pawl_error error;

    if (pawl_acquire(lock, PAWL_FOREVER, &error) < 0)
        errx(1, "%s", error.text);
    if (count && (!owner || atomic_exchange(owner, self) != self))
        atomic_fetch_add(count, 1);
    if (pawl_release(lock, &error) < 0)
        errx(1, "%s", error.text);
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

    return (one > two) - (one < two);
}

static void run_cycles(const char *url, size_t count) {
    struct pawl *client = open_client(url);
    struct pawl_lock *lock = new_mutex(client);
    int64_t *times = calloc(count, sizeof *times);

    if (!times)
        errx(1, "out of memory");
    for (size_t i = 0; i < count; i++) {
        int64_t begin = now_ns();

        cycle(lock, NULL, NULL, 0);
        times[i] = now_ns() - begin;
    }
    qsort(times, count, sizeof *times, by_size);
    printf("%lld\n", (long long)(times[count / 2] / 1000));
    free(times);
    pawl_lock_free(lock);
    pawl_close(client);
}

struct worker {
    pthread_t thread;
    struct pawl *client;
    struct pawl_lock *lock;
    atomic_bool *stop;
    atomic_ulong *total;
    atomic_size_t *owner; /* NULL: every hold counts */
    size_t self;
};

static void *work(void *data) {
    struct worker *worker = data;

    while (!atomic_load(worker->stop))
        cycle(worker->lock, worker->total, worker->owner, worker->self);
    return NULL;
}

static void sleep_ms(long ms) {
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&span, NULL);
}

static void run_turns(const char *url, size_t count, bool shared, long ms) {
    struct worker *workers = calloc(count, sizeof *workers);
    atomic_bool stop = false;
    atomic_ulong total = 0;
    atomic_size_t owner = SIZE_MAX;
    unsigned long begin;

    if (!workers)
        errx(1, "out of memory");
    for (size_t i = 0; i < count; i++) {
        bool own = i == 0 || !shared;

        workers[i].client = own ? open_client(url) : NULL;
        workers[i].lock = own ? new_mutex(workers[i].client) : workers[0].lock;
        workers[i].stop = &stop;
        workers[i].total = &total;
        workers[i].owner = shared ? NULL : &owner;
        workers[i].self = i;
    }
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            errx(1, "no more threads");
    sleep_ms(ms / 4);
    begin = atomic_load(&total);
    sleep_ms(ms);
    printf("%lu\n", atomic_load(&total) - begin);
    atomic_store(&stop, true);
    for (size_t i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    for (size_t i = 0; i < count && workers[i].client; i++) {
        pawl_lock_free(workers[i].lock);
        pawl_close(workers[i].client);
    }
    free(workers);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[2], "cycles") == 0)
        run_cycles(argv[1], strtoul(argv[3], NULL, 10));
    else if (argc == 6 && strcmp(argv[2], "turns") == 0)
        run_turns(argv[1], strtoul(argv[3], NULL, 10), strcmp(argv[4], "shared") == 0, strtol(argv[5], NULL, 10));
    else
        errx(64, "usage: bench-zookeeper URL cycles N | turns N separate|shared MS");
    return 0;
}
