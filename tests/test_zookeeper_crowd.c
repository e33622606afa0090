/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_crowd.c - hundreds of claims of one client: they don't bury its heartbeats, they share their lists, and they survive a
 * cut, a withdrawal and a close while they stand in line.
 */
#include "zookeeper_harness.h"

#include <poll.h>

enum { CROWD = 900 };

static struct pawl_lock *locks[CROWD];
static int granted, failed, order[CROWD];
static bool hand_on; /* whoever is let in lets go at once */

static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)why;
    if (result < 0) {
        failed++;
        return;
    }
    order[granted++] = (int)(intptr_t)data;
    if (hand_on)
        assert_works(pawl_release(lock, &error), &error);
}

/* All of one name, or a name each. */
static void ask_for_all(struct pawl *client, bool one_name) {
    granted = failed = 0;
    hand_on = one_name;
    for (int i = 0; i < CROWD; i++) {
        char name[32];

        snprintf(name, sizeof name, one_name ? "lock" : "lock-%d", i);
        assert_works(pawl_mutex_new(client, name, PAWL_TASK, &locks[i], &error), &error);
        assert_works(pawl_acquire_start(locks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, on_acquired, (void *)(intptr_t)i, &error),
                     &error);
    }
}

static void dispatch_until(struct pawl *client, int count) {
    struct pollfd source = {.fd = pawl_fd(client), .events = POLLIN};
    int64_t end = pawl__boottime() + PATIENCE_MS * ZK_MS;

    while (granted + failed < count && pawl__boottime() < end) {
        poll(&source, 1, 100);
        pawl_dispatch(client);
    }
    assert_int_equal(granted + failed, count);
}

static void free_all(void) {
    for (int i = 0; i < CROWD; i++)
        if (locks[i])
            pawl_lock_free(locks[i]);
}

static unsigned on_their_way(struct pawl *client) {
    pawl__zk_lock();
    unsigned count = zk_of(client->engine)->op_count;
    pawl__zk_unlock(zk_of(client->engine));
    return count;
}

static uint64_t requests(struct pawl *client) {
    pawl__zk_lock();
    uint64_t count = zk_of(client->engine)->requests;
    pawl__zk_unlock(zk_of(client->engine));
    return count;
}

static bool is_in_line(struct pawl *client) {
    pawl__zk_lock();
    bool someone = !TAILQ_EMPTY(&zk_of(client->engine)->line);
    pawl__zk_unlock(zk_of(client->engine));
    return someone;
}

static void await_answers(struct pawl *client) {
    await(!is_in_line(client) && on_their_way(client) == 0, "%u requests are never answered", on_their_way(client));
}

/* While no answer comes, only so many requests leave. */
static void test_the_rest_stands_in_line(void **state) {
    struct pawl *client = open_proxied("");

    (void)state;
    proxy_freeze(proxy, true);
    ask_for_all(client, false);
    assert_true(is_in_line(client));
    assert_true(on_their_way(client) <= ZK_ROOM + 2);
    proxy_freeze(proxy, false);
    dispatch_until(client, CROWD);
    assert_int_equal(granted, CROWD);
    assert_false(is_in_line(client));
    for (int i = 0; i < CROWD; i++)
        assert_int_not_equal(pawl_state(locks[i]), PAWL_LOST);
    free_all();
    pawl_close(client);
}

/* First come, first served, though some stood in line; and those that were let in together were shown one list. */
static void test_a_crowd_in_one_queue(void **state) {
    struct pawl *holder = open_direct(""), *client = open_proxied("?handoff=0");
    struct pawl_lock *held = new_mutex(holder, 0);
    uint64_t before = requests(client);

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    proxy_freeze(proxy, true);
    ask_for_all(client, true);
    proxy_freeze(proxy, false);
    await_watches(CROWD); /* those of one session on one node are one */
    await_answers(client);
    /* Each makes its node, and watches it and the two ahead; lists are fewer by far. */
    assert_true(requests(client) - before < 4 * CROWD + CROWD / 2);
    assert_works(pawl_release(held, &error), &error);
    dispatch_until(client, CROWD);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(order[i], i);
    free_all();
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(held);
    pawl_close(holder);
    pawl_close(client);
}

/* Whatever was on its way, and whoever stood in line: after a cut all are let in. */
static void test_a_cut_while_some_stand_in_line(void **state) {
    struct pawl *client = open_proxied("");

    (void)state;
    proxy_freeze(proxy, true);
    ask_for_all(client, false);
    proxy_cut(proxy);
    proxy_freeze(proxy, false);
    dispatch_until(client, CROWD);
    assert_int_equal(granted, CROWD);
    free_all();
    pawl_close(client);
}

/* The session ends while some stand in line: they queue anew, in the next one. */
static void test_a_session_that_ends_while_some_stand_in_line(void **state) {
    struct pawl *client = open_proxied("");

    (void)state;
    proxy_freeze(proxy, true);
    ask_for_all(client, false);
    proxy_freeze(proxy, false);
    expire(client);
    dispatch_until(client, CROWD);
    assert_int_equal(granted, CROWD);
    free_all();
    pawl_close(client);
}

static void test_leaving_the_line(void **state) {
    struct pawl *client = open_proxied("");

    (void)state;
    proxy_freeze(proxy, true);
    ask_for_all(client, false);
    for (int i = CROWD / 2; i < CROWD; i++) {
        pawl_lock_free(locks[i]);
        locks[i] = NULL;
    }
    proxy_freeze(proxy, false);
    dispatch_until(client, CROWD);
    assert_int_equal(granted, CROWD / 2);
    assert_false(is_in_line(client));
    free_all();
    pawl_close(client);
}

static void test_close_while_some_stand_in_line(void **state) {
    struct pawl *client = open_proxied("");

    (void)state;
    proxy_freeze(proxy, true);
    ask_for_all(client, false);
    assert_true(is_in_line(client));
    pawl_close(client);
    free_all();
    proxy_freeze(proxy, false);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_rest_stands_in_line),
        TEST(test_a_crowd_in_one_queue),
        TEST(test_a_cut_while_some_stand_in_line),
        TEST(test_a_session_that_ends_while_some_stand_in_line),
        TEST(test_leaving_the_line),
        TEST(test_close_while_some_stand_in_line),
    };

    return harness_run(argc, argv, "test_zookeeper_crowd", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
