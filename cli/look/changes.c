/* SPDX-License-Identifier: Apache-2.0
 *
 * changes.c - when to look again at one lock. See changes.h.
 *
 * An observer is told first what is. That is no reason to look again, if the look begins after it: so changes_listen() waits for it, a
 * moment.
 */
#include "changes.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long the first word of an observer is waited for; and how long a look is good for, however often the lock changes. */
enum { FIRST_MS = 1000, LEAST_MS = 100 };

struct listener {
    int fd;
    bool tried;
    struct pawl_observer *observer; /* NULL: none, or the engine can't tell */
};

/* On a thread of the library's. */
static void on_observed(const struct pawl_observed *observed, void *data) {
    const struct listener *listener = data;

    (void)observed;
    eventfd_write(listener->fd, 1);
}

int changes_open(struct changes *changes, struct watch *watch) {
    *changes = (struct changes){.watch = watch, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    changes->listeners = calloc(watch->count, sizeof changes->listeners[0]);
    if (changes->fd >= 0 && changes->listeners != NULL)
        return 0;
    say("out of memory or descriptors");
    return EXIT_SYSTEM;
}

void changes_close(struct changes *changes) {
    for (size_t i = 0; changes->listeners != NULL && i < changes->watch->count; i++)
        pawl_unobserve(changes->listeners[i].observer);
    free(changes->listeners);
    if (changes->fd >= 0)
        close(changes->fd);
}

static bool wait_for_word(struct changes *changes, int64_t ms) {
    struct pollfd source = {.fd = changes->fd, .events = POLLIN};
    eventfd_t times;

    poll(&source, 1, poll_timeout(deadline_in(ms)));
    return eventfd_read(changes->fd, &times) == 0;
}

void changes_listen(struct changes *changes) {
    for (size_t i = 0; changes->watch->name != NULL && i < changes->watch->count; i++) {
        struct listener *listener = &changes->listeners[i];
        struct pawl *client = changes->watch->urls[i].client;
        struct pawl_error ignored;

        if (listener->tried || client == NULL)
            continue;
        listener->tried = true;
        listener->fd = changes->fd;
        if (pawl_observe(client, changes->watch->name, on_observed, listener, &listener->observer, &ignored) == 0)
            wait_for_word(changes, FIRST_MS);
    }
}

void changes_wait(struct changes *changes, int64_t ms) {
    int64_t least = ms < LEAST_MS ? ms : LEAST_MS;

    poll(NULL, 0, (int)least);
    wait_for_word(changes, ms - least);
}
