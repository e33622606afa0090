/* SPDX-License-Identifier: Apache-2.0
 *
 * leader.c - a program that runs on several machines, works on one of them, the leader, and knows on all of them who that is.
 *
 *     leader NAME ADDRESS [STEPS]       work so many steps in a term, then let another one lead, and end; without STEPS: for ever
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pawl.h>

enum { STEP_MS = 100 };

/* On a thread of the library's: first who leads now, then every change. */
static void on_observed(const struct pawl_observed *observed, void *data) {
    const struct pawl_value *address = observed->holders_value; /* never that of a former leader */

    (void)data;
    if (observed->holder != NULL && address != NULL)
        printf("term %llu: %.*s leads\n", (unsigned long long)observed->holder->token, (int)address->size, (char *)address->bytes);
}

/* On a thread of the library's. What takes longer than a step has to be ended from here, and in time. */
static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)data;
    fprintf(stderr, "term %llu %s, %lld ms are left: %s\n", (unsigned long long)token, state == PAWL_LOST ? "is over" : "may end",
            (long long)pawl_remaining_ms(lock), why->text);
}

static void work(uint64_t term) {
    (void)term; /* goes with all that is written: the store refuses a lower one (docs/fencing.md) */
    usleep(STEP_MS * 1000);
}

int main(int argc, char **argv) {
    struct pawl_observer *observer;
    struct pawl_error error;
    struct pawl_lock *lock;
    struct pawl *client;

    if (argc < 3)
        errx(64, "leader NAME ADDRESS [STEPS]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pawl_open(NULL, NULL, &client, &error) < 0 || pawl_mutex_new(client, argv[1], 0, &lock, &error) < 0 ||
        pawl_on_loss(lock, on_loss, NULL, &error) < 0 || pawl_observe(client, argv[1], on_observed, NULL, &observer, &error) < 0)
        errx(1, "%s", error.text);
    do {
        if (pawl_acquire(lock, PAWL_FOREVER, &error) < 0)
            errx(1, "%s", error.text);
        int left = argc > 3 ? atoi(argv[3]) : -1;
        if (pawl_value_set(lock, argv[2], strlen(argv[2]), &error) < 0)
            warnx("not published: %s", error.text);
        while (pawl_remaining_ms(lock) > STEP_MS && left-- != 0) /* a step is over before the hold can be */
            work(pawl_token(lock));
        pawl_release(lock, NULL); /* resign, or acknowledge the loss: either way, another may lead */
    } while (argc < 4);
    pawl_unobserve(observer);
    pawl_lock_free(lock);
    pawl_close(client);
    return 0;
}
