/* SPDX-License-Identifier: Apache-2.0
 *
 * ten_threads.c - ten threads compete for one lock, each works a moment with it and lets it go. Start it several times at once, on the
 * same URL: the threads of all these processes take turns.
 *
 *     ten_threads [URL [WORK-MS]]        e.g. ten_threads local: 400
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <pawl.h>

enum { THREADS = 10 };

struct worker {
    pthread_t thread;
    int number;
    struct pawl_lock *lock;
    long work_ms;
};

static void work(long ms) {
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&span, NULL);
}

static void *compete(void *data) {
    struct worker *self = data;
    struct pawl_error error;

    printf("Thread-%d tries to get the lock\n", self->number);
    if (pawl_acquire(self->lock, PAWL_FOREVER, &error) < 0)
        errx(1, "Thread-%d: %s", self->number, error.text);
    printf("Thread-%d has got the lock, token %llu\n", self->number, (unsigned long long)pawl_token(self->lock));
    work(self->work_ms);
    if (pawl_release(self->lock, &error) < 0)
        errx(1, "Thread-%d: %s", self->number, error.text);
    return NULL;
}

int main(int argc, char **argv) {
    struct worker workers[THREADS];
    struct pawl_lock *lock;
    struct pawl_error error;
    struct pawl *client;

    if (pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client, &error) < 0)
        errx(1, "%s", error.text);
    if (pawl_mutex_new(client, "ten threads", 0, &lock, &error) < 0)
        errx(1, "%s", error.text);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .lock = lock, .work_ms = argc > 2 ? strtol(argv[2], NULL, 10) : 40};
        if (pthread_create(&workers[i].thread, NULL, compete, &workers[i]) != 0)
            errx(1, "no thread can be started");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pawl_lock_free(lock);
    pawl_close(client);
    return 0;
}
