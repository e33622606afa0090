/* SPDX-License-Identifier: Apache-2.0
 *
 * taker.c - take one lock after the other, as fast as it goes, and keep them all: bench-taker URL PREFIX
 *
 * Some acquires are under way at any time. For each lock that was granted a line `NUMBER NANOSECONDS` goes to stdout at once (of
 * CLOCK_MONOTONIC); what fails is asked for again. A line on stdin says that these are enough: it keeps them, and asks for no more. Ends
 * when stdin does. For `make failover`.
 */
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../stats.h"
#include "pawl.h"

enum { UNDER_WAY = 32, MOST = 50000, ONE_MS = 2000 };

static struct pawl *client;
static const char *prefix;
static int next_number, idle[UNDER_WAY], idle_count;
static struct pawl_lock *locks[MOST];

static void granted(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    int number = (int)(intptr_t)data;
    int64_t now = bench_now_ns();
    char line[64];

    (void)lock;
    (void)error;
    if (result == 0) {
        int length = snprintf(line, sizeof(line), "%d %lld\n", number, (long long)now);

        if (write(STDOUT_FILENO, line, (size_t)length) != length)
            exit(0);
        number = next_number < MOST ? next_number++ : -1;
    }
    if (number >= 0)
        idle[idle_count++] = number;
}

static void ask(int number) {
    struct pawl_error error;
    char name[256];

    snprintf(name, sizeof(name), "%s-%d", prefix, number);
    if (locks[number] == NULL && pawl_mutex_new(client, name, PAWL_TASK, &locks[number], &error) < 0)
        errx(1, "%s", error.text);
    if (pawl_acquire_start(locks[number], PAWL_EXCLUSIVE, 1, ONE_MS, granted, (void *)(intptr_t)number, &error) < 0) {
        idle[idle_count++] = number; /* not now: the connection is down */
        usleep(1000);
    }
}

static void ask_for_idle(void) {
    int numbers[UNDER_WAY], count = idle_count;

    for (int i = 0; i < count; i++)
        numbers[i] = idle[i];
    idle_count = 0;
    for (int i = 0; i < count; i++)
        ask(numbers[i]);
}

/* Has stdin ended? A line from there says that these are enough. */
static bool hear_the_end(const struct pollfd *input, bool *enough) {
    char word[16];

    if (input->revents == 0)
        return false;
    *enough = true;
    return read(input->fd, word, sizeof(word)) <= 0;
}

int main(int argc, char **argv) {
    struct pollfd sources[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
    struct pawl_error error;
    bool enough = false;

    if (argc != 3)
        errx(64, "usage: bench-taker URL PREFIX");
    prefix = argv[2];
    if (pawl_open(argv[1], NULL, &client, &error) < 0)
        errx(69, "%s", error.text);
    sources[1].fd = pawl_fd(client);
    for (next_number = 0; next_number < UNDER_WAY; next_number++)
        idle[idle_count++] = next_number;
    while (!hear_the_end(&sources[0], &enough)) {
        if (!enough)
            ask_for_idle();
        poll(sources, 2, 100);
        pawl_dispatch(client);
    }
    /* What it holds is looked at by others: no release. */
    _exit(0);
}
