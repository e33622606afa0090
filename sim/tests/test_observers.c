/* SPDX-License-Identifier: Apache-2.0
 *
 * test_observers.c - a thousand observers of one lock, over a hundred clients in a few processes: all hear of each new holder and of what
 * it writes, and what that costs the servers, as exact numbers. It depends on the clients, not on how many observers each of them has.
 *
 * As in test_requests.c bytes travel for exactly a millisecond, and the lease is so long that nothing is renewed meanwhile.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../../tests/support/test.h"

#include "rows.h"

enum { PROCESSES = 4, CLIENTS = 100, OBSERVERS = 10, TERMS = 4, LEASE_MS = 50000, PATIENCE_MS = 10000, WITHIN_MS = 100 };

static char url[512];
static unsigned ready; /* processes that observe */
static size_t each;    /* observers of a client */

/* What an observer was told last. This program's memory is the world's own: all processes write here. */
struct heard {
    uint64_t holder, writer; /* tokens; 0: nobody, nothing of the holder's */
};
static struct heard heard[CLIENTS][OBSERVERS];

static void observed(const struct pawl_observed *seen, void *data) {
    struct heard *last = data;

    last->holder = seen->holder ? seen->holder->token : 0;
    last->writer = seen->holders_value ? seen->holders_value->token : 0;
}

/* ---- Those who observe ------------------------------------------------------------------------------------------------------ */

static struct pawl *open_client(void) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .label = "observers"};
    struct pawl_error error;
    struct pawl *client;

    assert_works(pawl_open(url, &options, &client, &error), &error);
    return client;
}

static struct pawl_lock *lock_of(struct pawl *client, const char *name) {
    struct pawl_error error;
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, name, PAWL_TASK, &lock, &error), &error);
    return lock;
}

/* A process: it observes until it is let through the gate. */
static int observe(void *data) {
    size_t first = (size_t)(uintptr_t)data * (CLIENTS / PROCESSES);
    struct pawl *clients[CLIENTS / PROCESSES], *waiter;
    struct pawl_observer *observer;
    struct pawl_error error;

    for (size_t i = 0; i < CLIENTS / PROCESSES; i++) {
        clients[i] = open_client();
        for (size_t j = 0; j < each; j++)
            assert_works(pawl_observe(clients[i], "lock", observed, &heard[first + i][j], &observer, &error), &error);
    }
    waiter = open_client();
    ready++;
    assert_works(pawl_acquire(lock_of(waiter, "gate"), PAWL_FOREVER, &error), &error);
    pawl_close(waiter);
    for (size_t i = 0; i < CLIENTS / PROCESSES; i++)
        pawl_close(clients[i]); /* which ends its observers */
    return 0;
}

/* ---- Those who hold --------------------------------------------------------------------------------------------------------- */

static bool all_observe(void *data) {
    (void)data;
    return ready == PROCESSES;
}

static void settle(void) {
    world_sleep(world_now() + WITHIN_MS * WORLD_MS);
}

static void assert_all_told(uint64_t holder, uint64_t writer) {
    for (size_t i = 0; i < CLIENTS; i++)
        for (size_t j = 0; j < each; j++)
            if (heard[i][j].holder != holder || heard[i][j].writer != writer)
                fail_msg("observer %zu of client %zu was told of %" PRIu64 ", not of %" PRIu64, j, i, heard[i][j].holder, holder);
}

/* A new holder says where it is, and goes; the requests of all that. */
static uint64_t play_term(struct pawl_lock *lock) {
    uint64_t before = servers_messages(&servers);
    struct pawl_error error;

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_value_set(lock, "here", 4, &error), &error);
    settle();
    assert_all_told(pawl_token(lock), pawl_token(lock));
    assert_works(pawl_release(lock, &error), &error);
    settle();
    assert_all_told(0, 0);
    return servers_messages(&servers) - before;
}

/* ---- The table -------------------------------------------------------------------------------------------------------------- */

static const struct row {
    const char *service;
    size_t each;
    uint64_t requests; /* of all terms */
} table[] = {
    {"redis", 1, 5977},
    {"redis", OBSERVERS, 5977},
    {"zookeeper", 1, 12832},
    {"zookeeper", OBSERVERS, 12832},
};

static void name_of(const void *data, char ret[ROW_NAME]) {
    const struct row *row = data;

    snprintf(ret, ROW_NAME, "%s: %d clients, %zu each", row->service, CLIENTS, row->each);
}

static void play_terms(const void *data) {
    const struct row *row = data;
    struct process *processes[PROCESSES];
    struct pawl *keeper, *holders[2];
    struct pawl_lock *gate, *locks[2];
    struct pawl_error error;
    uint64_t requests = 0;

    servers_url(&servers, "", url, sizeof url);
    memset(heard, 0, sizeof heard);
    ready = 0;
    each = row->each;
    keeper = open_client();
    gate = lock_of(keeper, "gate");
    assert_works(pawl_acquire(gate, PATIENCE_MS, &error), &error);
    for (size_t i = 0; i < PROCESSES; i++)
        processes[i] = world_spawn("observers", observe, (void *)(uintptr_t)i);
    assert_true(world_wait(all_observe, NULL, world_now() + 10 * WORLD_SECOND));
    for (int i = 0; i < 2; i++)
        locks[i] = lock_of(holders[i] = open_client(), "lock");
    play_term(locks[0]);
    play_term(locks[1]);
    for (int i = 0; i < TERMS; i++)
        requests += play_term(locks[i % 2]);
    assert_works(pawl_release(gate, &error), &error);
    world_sleep(world_now() + WORLD_SECOND);
    for (size_t i = 0; i < PROCESSES; i++) {
        assert_true(world_ended(processes[i]));
        assert_int_equal(world_status(processes[i]), 0);
    }
    pawl_close(keeper);
    pawl_close(holders[0]);
    pawl_close(holders[1]);
    if (requests != row->requests)
        fail_msg("%d terms take %" PRIu64 " requests", TERMS, requests);
}

int main(void) {
    static const struct rows rows = {.group = "observers",
                                     .table = table,
                                     .count = sizeof table / sizeof table[0],
                                     .size = sizeof table[0],
                                     .name = name_of,
                                     .play = play_terms,
                                     .lease_ms = LEASE_MS,
                                     .limit_ns = 600 * WORLD_SECOND};

    return rows_run(&rows);
}
