/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_smoke.c - the ZooKeeper engine on a real server, on real time, with real threads: that the simulated one of
 * test_zookeeper_*.c in the world (sim/) is like it. A little of everything; and what the kernel can do wrong, which has none in the world.
 * test_zookeeper_partition.c is the same for an ensemble.
 */
#include "../support/findings.h"
#include "../support/zookeeper_harness.h"

#include <poll.h>

/* ---- A little of everything ------------------------------------------------------------------------------------------------ */

static void test_hand_over(void **state) {
    struct pawl *a = open_direct(""), *b = open_proxied("");
    struct pawl_lock *held = new_mutex(a, 0), *lock = new_mutex(b, 0);
    struct acquire waiter;
    uint64_t token;

    (void)state;
    acquire(held);
    token = pawl_token(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await_nodes("", 2);
    assert_false(atomic_load(&waiter.ended));
    release(held);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_true(pawl_token(lock) > token);
    release(lock);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(a);
    pawl_close(b);
}

/* A reader beside a writer that is downgraded; permits. */
static void test_other_kinds(void **state) {
    struct pawl *a = open_direct(""), *b = open_direct("");
    struct pawl_lock *writer = new_rwlock(a, 0), *reader = new_rwlock(b, 0), *permits;
    struct acquire waiter;

    (void)state;
    acquire(writer);
    acquire_start(&waiter, reader, true, PAWL_FOREVER);
    await_nodes("", 2);
    assert_works(pawl_downgrade(writer, &error), &error);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_works(pawl_release_shared(writer, &error), &error);
    assert_works(pawl_release_shared(reader, &error), &error);
    await_nodes("", 0);
    pawl_lock_free(writer);
    pawl_lock_free(reader);
    assert_works(pawl_semaphore_new(a, "permits", 3, PAWL_TASK, &permits, &error), &error);
    assert_works(pawl_acquire_permits(permits, 2, PATIENCE_MS, &error), &error);
    release(permits);
    pawl_lock_free(permits);
    pawl_close(a);
    pawl_close(b);
}

/* The answer to create is lost with the connection: the node is found again, and there is one. */
static void test_cut_at_the_reply_to_create(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    strike_at(OP_CREATE, true, PROXY_CUT_BEFORE);
    acquire(lock);
    await_strike();
    assert_int_equal(await_nodes("", 1).count, 1);
    release(lock);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_session_expires_while_holding(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *next = new_mutex(other, 0);
    struct acquire waiter;
    uint64_t token;

    (void)state;
    acquire(lock);
    token = pawl_token(lock);
    acquire_start(&waiter, next, false, PAWL_FOREVER);
    await_nodes("", 2);
    expire(client);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_true(pawl_token(next) > token);
    await_state(lock, PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_link(client, true);
    release(next);
    acquire(lock);
    release(lock);
    pawl_lock_free(lock);
    pawl_lock_free(next);
    pawl_close(client);
    pawl_close(other);
}

/* Nothing comes through: lost before the server lets the next one in, by its own clock. */
static void test_half_open(void **state) {
    struct pawl *client = open_proxied("?session=4000"), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *next = new_mutex(other, 0);
    struct acquire waiter;

    (void)state;
    acquire(lock);
    acquire_start(&waiter, next, false, PAWL_FOREVER);
    await_nodes("", 2);
    proxy_freeze(proxy, true);
    await_state(lock, PAWL_LOST);
    assert_false(atomic_load(&waiter.ended));
    assert_int_equal(acquire_wait(&waiter), 0);
    proxy_freeze(proxy, false);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    release(next);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_lock_free(next);
    pawl_close(client);
    pawl_close(other);
}

static void test_doctor(void **state) {
    struct pawl *client = open_direct("");
    struct findings findings = {0};

    (void)state;
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "is ZooKeeper 3.");
    assert_contains(findings.text, ", standalone");
    assert_contains(findings.text, "tickTime is 500 ms");
    assert_contains(findings.text, "good: a session of 15000 ms is granted");
    pawl_close(client);
}

/* ---- The service thread's bell -------------------------------------------------------------------------------------------- */

enum { RINGS = 20000000 };

static void *ring_often(void *data) {
    struct pawl *client = data;

    for (int i = 0; i < RINGS; i++)
        pawl__zk_wake(client->engine);
    return NULL;
}

static void on_answer(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

/* A ring just when the service thread silences the bell is heard, and so is every later one: deadlines are kept. */
static void test_a_ring_is_never_lost(void **state) {
    struct pawl *client = open_direct(""), *other = open_direct("");
    struct pawl_lock *held = new_mutex(other, 0), *task = new_mutex(client, PAWL_TASK);
    int64_t patience = pawl__boottime() + PATIENCE_MS * ZK_MS;
    pthread_t ringers[2];
    int result = 1;

    (void)state;
    acquire(held);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&ringers[i], NULL, ring_often, client), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(ringers[i], NULL);
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, 50, on_answer, &result, &error), &error);
    while (result == 1 && pawl__boottime() < patience) {
        poll(NULL, 0, 5);
        pawl_dispatch(client);
    }
    assert_int_equal(result, PAWL_ETIMEOUT);
    release(held);
    pawl_lock_free(task);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_hand_over),
        TEST(test_other_kinds),
        TEST(test_cut_at_the_reply_to_create),
        TEST(test_session_expires_while_holding),
        TEST(test_half_open),
        TEST(test_doctor),
        TEST(test_a_ring_is_never_lost),
    };

    return harness_run(argc, argv, "test_zookeeper_smoke", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
