/* SPDX-License-Identifier: Apache-2.0
 *
 * test_requests.c - what a lock costs, as exact numbers: requests that reach the servers, deliveries that wake a client, and watches that
 * fire. One more than there is in the table is a round trip or a wake-up that somebody has added to a path that is taken all the time.
 *
 * Bytes travel for exactly a millisecond, threads run until they block, and the lease is so long that nothing is renewed meanwhile. What
 * clients do once only is over when counting begins.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../../tests/support/test.h"

#include "rows.h"

enum { WARM_UP = 3, ROUNDS = 10, LEASE_MS = 50000, PATIENCE_MS = 10000 };

struct cost {
    uint64_t requests, deliveries, watches;
};

static struct cost now;

static void on_event(struct process *process, enum world_event event) {
    (void)process;
    now.deliveries += event == EVENT_BYTES;
}

static struct cost look(void) {
    now.requests = servers_messages(&servers);
    now.watches = servers.service->wakes != NULL ? (uint64_t)servers.service->wakes(&servers) : 0;
    return now;
}

/* ---- The scenes ------------------------------------------------------------------------------------------------------------- */

struct stage {
    struct pawl *clients[2];
    struct pawl_lock *locks[2]; /* of each client, on the same name */
    int holder, rounds;
};

/* Time for all that is on its way, and not for what is done every now and then. */
static void settle(void) {
    world_sleep(world_now() + 20 * WORLD_MS);
}

static void take_and_drop(struct pawl_lock *lock) {
    struct pawl_error error;

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    settle();
    assert_works(pawl_release(lock, &error), &error);
    settle();
}

/* Nobody else wants it. */
static void play_pair(struct stage *stage) {
    take_and_drop(stage->locks[0]);
}

static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    (void)lock;
    assert_int_equal(result, 0);
    (void)error;
    *(bool *)data = true;
}

/* One of them holds it, and the other waits already: it is handed on, and the first asks for it again. */
static void play_hand_off(struct stage *stage) {
    struct pawl_error error;
    bool come = false;

    if (stage->rounds++ == 0)
        assert_works(pawl_acquire(stage->locks[0], PATIENCE_MS, &error), &error);
    int holder = stage->holder, next = 1 - holder;

    assert_works(pawl_acquire_start(stage->locks[next], PAWL_EXCLUSIVE, 1, PATIENCE_MS, on_acquired, &come, &error), &error);
    settle();
    assert_false(come);
    assert_works(pawl_release(stage->locks[holder], &error), &error);
    settle();
    pawl_dispatch(stage->clients[next]);
    assert_true(come);
    stage->holder = next;
}

/* Who holds writes the value beside the lock; ... */
static void play_write(struct stage *stage) {
    struct pawl_error error;

    if (stage->rounds++ == 0)
        assert_works(pawl_acquire(stage->locks[0], PATIENCE_MS, &error), &error);
    assert_works(pawl_value_set(stage->locks[0], "value", 5, &error), &error);
    settle();
}

static void read_it(struct pawl_lock *lock) {
    const struct pawl_value *value;
    struct pawl_error error;

    assert_works(pawl_value_get(lock, &value, &error), &error);
    pawl_value_free(value);
}

/* ... reads what it wrote; ... */
static void play_read_held(struct stage *stage) {
    if (stage->rounds == 0)
        play_write(stage);
    read_it(stage->locks[0]);
    settle();
}

/* ... and so does another. */
static void play_read(struct stage *stage) {
    if (stage->rounds == 0)
        play_write(stage);
    read_it(stage->locks[1]);
    settle();
}

enum kind { MUTEX, SEMAPHORE };

static void set_up(struct stage *stage, enum kind kind) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = LEASE_MS, .label = "requests"};
    struct pawl_error error;
    char url[512];

    servers_url(&servers, "", url, sizeof url);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_open(url, &options, &stage->clients[i], &error), &error);
        if (kind == SEMAPHORE)
            assert_works(pawl_semaphore_new(stage->clients[i], "lock", 3, PAWL_TASK, &stage->locks[i], &error), &error);
        else
            assert_works(pawl_mutex_new(stage->clients[i], "lock", PAWL_TASK, &stage->locks[i], &error), &error);
    }
}

/* ---- The table -------------------------------------------------------------------------------------------------------------- */

static const struct row {
    const char *service, *scene;
    enum kind kind;
    void (*play)(struct stage *stage);
    struct cost cost; /* of ten rounds: where chance has a part in it, one is not like the other */
} table[] = {
    {"redis", "pair", MUTEX, play_pair, {20, 20, 0}},
    {"redis", "hand-off", MUTEX, play_hand_off, {20, 30, 0}},
    {"redis", "semaphore", SEMAPHORE, play_pair, {20, 20, 0}},
    {"redis", "write", MUTEX, play_write, {10, 10, 0}},
    {"redis", "read, held", MUTEX, play_read_held, {0, 0, 0}},
    {"redis", "read", MUTEX, play_read, {10, 10, 0}},
    {"redis-replicas", "pair", MUTEX, play_pair, {40, 40, 0}},
    {"redis-replicas", "hand-off", MUTEX, play_hand_off, {50, 60, 0}},
    {"redis-replicas", "semaphore", SEMAPHORE, play_pair, {40, 40, 0}},
    {"redis-replicas", "write", MUTEX, play_write, {30, 30, 0}},
    {"redis-replicas", "read", MUTEX, play_read, {30, 30, 0}},
    {"sentinel", "pair", MUTEX, play_pair, {20, 20, 0}},
    {"sentinel", "hand-off", MUTEX, play_hand_off, {20, 30, 0}},
    {"sentinel", "semaphore", SEMAPHORE, play_pair, {20, 20, 0}},
    {"sentinel", "write", MUTEX, play_write, {10, 10, 0}},
    {"cluster", "pair", MUTEX, play_pair, {20, 20, 0}},
    {"cluster", "hand-off", MUTEX, play_hand_off, {20, 30, 0}},
    {"cluster", "semaphore", SEMAPHORE, play_pair, {20, 20, 0}},
    {"cluster", "write", MUTEX, play_write, {10, 10, 0}},
    {"cluster", "read", MUTEX, play_read, {10, 10, 0}},
    {"redlock", "pair", MUTEX, play_pair, {100, 100, 0}},
    {"redlock", "hand-off", MUTEX, play_hand_off, {298, 397, 0}},
    {"zookeeper", "pair", MUTEX, play_pair, {80, 50, 10}},
    {"zookeeper", "hand-off", MUTEX, play_hand_off, {100, 70, 20}},
    {"zookeeper", "semaphore", SEMAPHORE, play_pair, {160, 90, 10}},
    {"zookeeper", "write", MUTEX, play_write, {20, 10, 0}},
    {"zookeeper", "read, held", MUTEX, play_read_held, {0, 0, 0}},
    {"zookeeper", "read", MUTEX, play_read, {40, 20, 0}},
    {"zookeeper3", "pair", MUTEX, play_pair, {80, 50, 10}},
    {"zookeeper3", "hand-off", MUTEX, play_hand_off, {100, 70, 20}},
    {"zookeeper3", "semaphore", SEMAPHORE, play_pair, {160, 90, 10}},
    {"zookeeper3", "write", MUTEX, play_write, {20, 10, 0}},
    {"zookeeper3", "read, held", MUTEX, play_read_held, {0, 0, 0}},
    {"zookeeper3", "read", MUTEX, play_read, {40, 20, 0}},
};

static void name_of(const void *data, char ret[ROW_NAME]) {
    const struct row *row = data;

    snprintf(ret, ROW_NAME, "%s: %s", row->service, row->scene);
}

static void play_rounds(const void *data) {
    const struct row *row = data;
    struct stage stage = {.holder = 0};
    struct cost before, after;

    set_up(&stage, row->kind);
    for (int i = 0; i < WARM_UP; i++)
        row->play(&stage);
    before = look();
    for (int i = 0; i < ROUNDS; i++)
        row->play(&stage);
    after = look();
    struct cost spent = {after.requests - before.requests, after.deliveries - before.deliveries, after.watches - before.watches};

    if (memcmp(&spent, &row->cost, sizeof spent) != 0)
        fail_msg("%d rounds take {%" PRIu64 ", %" PRIu64 ", %" PRIu64 "} requests, deliveries and watches", ROUNDS, spent.requests,
                 spent.deliveries, spent.watches);
    for (int i = 0; i < 2; i++)
        pawl_close(stage.clients[i]);
}

int main(void) {
    static const struct rows rows = {.group = "requests",
                                     .table = table,
                                     .count = sizeof table / sizeof table[0],
                                     .size = sizeof table[0],
                                     .name = name_of,
                                     .play = play_rounds,
                                     .lease_ms = LEASE_MS,
                                     .limit_ns = 600 * WORLD_SECOND};

    world_on_event(on_event);
    return rows_run(&rows);
}
