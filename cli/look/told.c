/* SPDX-License-Identifier: Apache-2.0
 *
 * told.c - when to look again at one lock. See told.h.
 *
 * An observer is told first what is. That is no reason to look again, if the look begins after it: so told_listen() waits for it, a moment.
 */
#include "told.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long the first word of an observer is waited for; and how long a look is good for, however often the lock changes. */
enum { FIRST_MS = 1000, LEAST_MS = 100 };

struct ear {
    int fd;
    bool tried;
    struct pawl_observer *observer; /* NULL: none, or the engine can't tell */
};

/* On a thread of the library's. */
static void on_observed(const struct pawl_observed *observed, void *data) {
    const struct ear *ear = data;

    (void)observed;
    eventfd_write(ear->fd, 1);
}

int told_open(struct told *told, struct watch *watch) {
    *told = (struct told){.watch = watch, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    told->ears = calloc(watch->count, sizeof told->ears[0]);
    if (told->fd >= 0 && told->ears != NULL)
        return 0;
    say("out of memory or descriptors");
    return EXIT_SYSTEM;
}

void told_close(struct told *told) {
    for (size_t i = 0; told->ears != NULL && i < told->watch->count; i++)
        pawl_unobserve(told->ears[i].observer);
    free(told->ears);
    if (told->fd >= 0)
        close(told->fd);
}

static bool wait_for_word(struct told *told, int64_t ms) {
    struct pollfd source = {.fd = told->fd, .events = POLLIN};
    eventfd_t times;

    poll(&source, 1, poll_timeout(deadline_in(ms)));
    return eventfd_read(told->fd, &times) == 0;
}

void told_listen(struct told *told) {
    for (size_t i = 0; told->watch->name != NULL && i < told->watch->count; i++) {
        struct ear *ear = &told->ears[i];
        struct pawl *client = told->watch->urls[i].client;
        struct pawl_error ignored;

        if (ear->tried || client == NULL)
            continue;
        ear->tried = true;
        ear->fd = told->fd;
        if (pawl_observe(client, told->watch->name, on_observed, ear, &ear->observer, &ignored) == 0)
            wait_for_word(told, FIRST_MS);
    }
}

void told_wait(struct told *told, int64_t ms) {
    int64_t least = ms < LEAST_MS ? ms : LEAST_MS;

    poll(NULL, 0, (int)least);
    wait_for_word(told, ms - least);
}
