/* SPDX-License-Identifier: Apache-2.0
 *
 * event_loop.c - a lock in a program that has a loop of its own and must never block: acquire with a callback, hear of a loss in the
 * same loop, and go on with other things meanwhile.
 *
 *     event_loop [URL]
 */
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>

#include <pawl.h>

static bool done;

/* Called by pawl_dispatch(), so in this loop's own thread. */
static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    (void)data;
    if (result < 0)
        errx(1, "%s", error->text);
    printf("holding it, token %llu\n", (unsigned long long)pawl_token(lock));
    pawl_release(lock, NULL);
    done = true;
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)data;
    if (state == PAWL_LOST)
        fprintf(stderr, "lost the hold with token %llu: %s\n", (unsigned long long)token, why->text);
}

int main(int argc, char **argv) {
    struct pawl_options options = {.size = sizeof options, .flags = PAWL_OPEN_LOSS_BY_DISPATCH, .label = "an event loop"};
    struct pawl_lock *lock;
    struct pawl_error error;
    struct pawl *client;
    struct pollfd fd;
    int ticks = 0;

    if (pawl_open(argc > 1 ? argv[1] : NULL, &options, &client, &error) < 0)
        errx(1, "%s", error.text);
    if (pawl_mutex_new(client, "event loop", PAWL_TASK, &lock, &error) < 0 || pawl_on_loss(lock, on_loss, NULL, &error) < 0)
        errx(1, "%s", error.text);
    if (pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, 60000, on_acquired, NULL, &error) < 0)
        errx(1, "%s", error.text);
    fd = (struct pollfd){.fd = pawl_fd(client), .events = POLLIN};
    while (!done) {
        if (poll(&fd, 1, 1000) > 0)
            pawl_dispatch(client);
        else
            printf("still waiting (%d), and free to do other things\n", ++ticks);
    }
    pawl_lock_free(lock);
    pawl_close(client);
    return 0;
}
