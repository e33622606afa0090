/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - what locks on one Redis server cost, in round trips of the same process and run: bench-redis HOST PORT
 *
 * Client and server on one core and on two give very different round trips: so nothing here is worth comparing but ratios. The bare
 * round trip is an EVALSHA of a script that does nothing, by hiredis, on a connection of its own, taken in turns with what is measured.
 */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

enum { ROUNDS = 20000, WARM = 500, THREADS = 64, HOLDS = 10000 };

static char url[256];
static redisContext *bare;
static char sha[41];

static void check(int rc, const struct pawl_error *error) {
    if (rc < 0) {
        fprintf(stderr, "bench-redis: %s\n", error->text);
        exit(1);
    }
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median_us(int64_t *samples, size_t count) {
    qsort(samples, count, sizeof *samples, compare);
    return (double)samples[count / 2] / 1000;
}

static struct pawl *open_client(const char *options) {
    struct pawl_error error;
    struct pawl *client;
    char text[300];

    snprintf(text, sizeof text, "%s%s", url, options);
    check(pawl_open(text, NULL, &client, &error), &error);
    return client;
}

static struct pawl_lock *open_mutex(struct pawl *client, const char *name, unsigned flags) {
    struct pawl_error error;
    struct pawl_lock *lock;

    check(pawl_mutex_new(client, name, flags, &lock, &error), &error);
    return lock;
}

static int64_t bare_trip(void) {
    int64_t begin = now_ns();
    redisReply *reply = redisCommand(bare, "EVALSHA %s 1 bench:bare", sha);

    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "bench-redis: the bare script does not run\n");
        exit(1);
    }
    freeReplyObject(reply);
    return now_ns() - begin;
}

/* One thread, nobody else. */
static double uncontended(void) {
    static int64_t trips[ROUNDS], acquires[ROUNDS], releases[ROUNDS];
    struct pawl *client = open_client("");
    struct pawl_lock *lock = open_mutex(client, "bench:alone", 0);
    struct pawl_error error;
    double trip, acquire, release;

    for (int i = -WARM; i < ROUNDS; i++) {
        int64_t begin, middle, end, round = bare_trip();

        begin = now_ns();
        check(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        middle = now_ns();
        check(pawl_release(lock, &error), &error);
        end = now_ns();
        if (i < 0)
            continue;
        trips[i] = round;
        acquires[i] = middle - begin;
        releases[i] = end - middle;
    }
    trip = median_us(trips, ROUNDS);
    acquire = median_us(acquires, ROUNDS);
    release = median_us(releases, ROUNDS);
    printf("uncontended          bare EVALSHA %.1f us; acquire %.1f us = %.2f round trips; release %.1f us = %.2f round trips\n",
           trip, acquire, acquire / trip, release, release / trip);
    pawl_lock_free(lock);
    pawl_close(client);
    return trip;
}

/* Processes (here: clients) that take turns. */
struct turner {
    pthread_t thread;
    struct pawl *client;
    struct pawl_lock *lock;
    int64_t *gaps;
    long turns;
};

static _Atomic int64_t released_at;
static _Atomic bool stop;
static _Atomic long gap_count;
static pthread_barrier_t barrier;

static void *take_turns(void *data) {
    struct turner *turner = data;
    struct pawl_error error;

    pthread_barrier_wait(&barrier);
    while (!atomic_load(&stop)) {
        int64_t now, left;
        long at;

        check(pawl_acquire(turner->lock, PAWL_FOREVER, &error), &error);
        now = now_ns();
        left = atomic_load(&released_at);
        at = atomic_fetch_add(&gap_count, 1);
        if (left && at < ROUNDS)
            turner->gaps[at] = now - left;
        turner->turns++;
        atomic_store(&released_at, now_ns());
        check(pawl_release(turner->lock, &error), &error);
    }
    return NULL;
}

static void contended(int count, double trip) {
    static int64_t gaps[ROUNDS];
    struct turner *turners = calloc((size_t)count, sizeof *turners);
    long most = 0, least = INT64_MAX;
    int64_t begin;
    long total;

    atomic_store(&stop, false);
    atomic_store(&gap_count, 0);
    atomic_store(&released_at, 0);
    memset(gaps, 0, sizeof gaps);
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        turners[i].client = open_client("");
        turners[i].lock = open_mutex(turners[i].client, "bench:turns", 0);
        turners[i].gaps = gaps;
        pthread_create(&turners[i].thread, NULL, take_turns, &turners[i]);
    }
    pthread_barrier_wait(&barrier);
    begin = now_ns();
    while (now_ns() - begin < INT64_C(2000000000) && atomic_load(&gap_count) < ROUNDS)
        usleep(1000);
    total = atomic_load(&gap_count);
    begin = now_ns() - begin;
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++) {
        pthread_join(turners[i].thread, NULL);
        most = turners[i].turns > most ? turners[i].turns : most;
        least = turners[i].turns < least ? turners[i].turns : least;
    }
    total = total < ROUNDS ? total : ROUNDS;
    printf("hand-off, %3d clients  %.0f owner changes/s; release to next holder p50 %.1f us = %.2f round trips; turns %ld to %ld\n",
           count, (double)total / ((double)begin / 1e9), median_us(gaps, (size_t)total), median_us(gaps, (size_t)total) / trip,
           least, most);
    for (int i = 0; i < count; i++) {
        pawl_lock_free(turners[i].lock);
        pawl_close(turners[i].client);
    }
    free(turners);
}

/* Threads with a lock each, over one connection. */
static void *own_lock(void *data) {
    struct turner *turner = data;
    struct pawl_error error;

    pthread_barrier_wait(&barrier);
    while (!atomic_load(&stop)) {
        check(pawl_acquire(turner->lock, PAWL_FOREVER, &error), &error);
        check(pawl_release(turner->lock, &error), &error);
        turner->turns++;
    }
    return NULL;
}

static void many_locks(int count, double trip) {
    struct turner *turners = calloc((size_t)count, sizeof *turners);
    struct pawl *client = open_client("");
    long total = 0;
    int64_t begin;

    atomic_store(&stop, false);
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof name, "bench:own:%d", i);
        turners[i].lock = open_mutex(client, name, 0);
        pthread_create(&turners[i].thread, NULL, own_lock, &turners[i]);
    }
    pthread_barrier_wait(&barrier);
    begin = now_ns();
    sleep(2);
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++) {
        pthread_join(turners[i].thread, NULL);
        total += turners[i].turns;
    }
    begin = now_ns() - begin;
    printf("a lock each, %2d threads  %.0f pairs/s; one thread that waits for two round trips a pair would make %.0f\n", count,
           (double)total / ((double)begin / 1e9), 1e6 / (2 * trip));
    for (int i = 0; i < count; i++)
        pawl_lock_free(turners[i].lock);
    pawl_close(client);
    free(turners);
}

static double own_cpu_s(void) {
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double server_cpu_s(void) {
    redisReply *reply = redisCommand(bare, "INFO cpu");
    double user = 0, system = 0;
    const char *at;

    if (reply && reply->str && (at = strstr(reply->str, "used_cpu_user:")))
        user = strtod(at + 14, NULL);
    if (reply && reply->str && (at = strstr(reply->str, "used_cpu_sys:")))
        system = strtod(at + 13, NULL);
    freeReplyObject(reply);
    return user + system;
}

/* Many holds of one process, kept for a while at the default lease. */
static void renewals(void) {
    enum { SECONDS = 20 };
    struct pawl *client = open_client("");
    struct pawl_lock **locks = calloc(HOLDS, sizeof *locks);
    struct pawl_error error;
    double own, server;

    for (int i = 0; i < HOLDS; i++) {
        char name[32];

        snprintf(name, sizeof name, "bench:hold:%d", i);
        locks[i] = open_mutex(client, name, 0);
        check(pawl_acquire(locks[i], PAWL_FOREVER, &error), &error);
    }
    own = own_cpu_s();
    server = server_cpu_s();
    sleep(SECONDS);
    own = own_cpu_s() - own;
    server = server_cpu_s() - server;
    printf("renewal of %d holds  %.2f %% of a core here, %.2f %% at the server (lease 30 s, over %d s); all held: %s\n", HOLDS,
           own / SECONDS * 100, server / SECONDS * 100, SECONDS,
           pawl_state(locks[0]) == PAWL_HELD && pawl_state(locks[HOLDS - 1]) == PAWL_HELD ? "yes" : "NO");
    for (int i = 0; i < HOLDS; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
    free(locks);
}

int main(int argc, char **argv) {
    redisReply *reply;
    double trip;

    if (argc < 3) {
        fprintf(stderr, "usage: bench-redis HOST PORT [all]\n");
        return 64;
    }
    snprintf(url, sizeof url, "redis://%s:%s", argv[1], argv[2]);
    bare = redisConnect(argv[1], atoi(argv[2]));
    if (!bare || bare->err) {
        fprintf(stderr, "bench-redis: no server at %s:%s\n", argv[1], argv[2]);
        return 1;
    }
    reply = redisCommand(bare, "SCRIPT LOAD %s", "return 1");
    snprintf(sha, sizeof sha, "%s", reply && reply->str ? reply->str : "");
    freeReplyObject(reply);
    trip = uncontended();
    contended(2, trip);
    contended(16, trip);
    contended(64, trip);
    many_locks(1, trip);
    many_locks(THREADS, trip);
    if (argc > 3)
        renewals();
    redisFree(bare);
    return 0;
}
