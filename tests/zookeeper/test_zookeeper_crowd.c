/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_crowd.c - hundreds of claims of one client: they don't bury its heartbeats, they share their lists, and they survive a
 * cut, a withdrawal and a close while they stand in line. And thousands that wait: a cut costs none of them its place, nor a hold.
 */
#include "../support/zookeeper_harness.h"

#include <poll.h>

enum { CROWD = 900, MANY = 2500 };

static struct pawl_lock *locks[MANY];
static int granted, failed, order[MANY];
static bool hand_on; /* each one that is let in lets go at once */

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

static void ask_for(struct pawl *client, int index, const char *name) {
    assert_works(pawl_mutex_new(client, name, PAWL_TASK, &locks[index], &error), &error);
    assert_works(pawl_acquire_start(locks[index], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, on_acquired, (void *)(intptr_t)index, &error),
                 &error);
}

/* All of one name, or a name each. */
static void ask_for_all(struct pawl *client, bool one_name) {
    granted = failed = 0;
    hand_on = one_name;
    for (int i = 0; i < CROWD; i++) {
        char name[32];

        snprintf(name, sizeof name, one_name ? "lock" : "lock-%d", i);
        ask_for(client, i, name);
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
    for (int i = 0; i < MANY; i++) {
        if (locks[i])
            pawl_lock_free(locks[i]);
        locks[i] = NULL;
    }
}

static unsigned on_their_way(struct pawl *client) {
    pawl__zk_lock();
    unsigned count = zk_of(client->engine)->session.op_count;
    pawl__zk_unlock(&zk_of(client->engine)->session);
    return count;
}

static uint64_t requests(struct pawl *client) {
    pawl__zk_lock();
    uint64_t count = zk_of(client->engine)->session.requests;
    pawl__zk_unlock(&zk_of(client->engine)->session);
    return count;
}

static bool is_in_line(struct pawl *client) {
    pawl__zk_lock();
    bool someone = !TAILQ_EMPTY(&zk_of(client->engine)->admission);
    pawl__zk_unlock(&zk_of(client->engine)->session);
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

/* The connection is cut while requests are on their way and claims stand in line: all are let in. */
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

/* ---- Thousands that wait -------------------------------------------------------------------------------------------------- */

/* Names so long that the watches of all, in one request, are more than a server takes. */
static const char *long_name(int i) {
    static char name[256];

    snprintf(name, sizeof name, "%0200d-%d", 0, i);
    return name;
}

static void hold_many(struct pawl *client, struct pawl_lock **held) {
    granted = failed = 0;
    hand_on = false;
    for (int i = 0; i < MANY; i++)
        ask_for(client, i, long_name(i));
    dispatch_until(client, MANY);
    memcpy(held, locks, sizeof locks);
}

static unsigned most_on_their_way;

/* How many wait for an event that the server has to tell of. */
static int armed(struct pawl *client) {
    unsigned requests_now = on_their_way(client);
    const struct zk_claim *claim;
    int count = 0;

    if (requests_now > most_on_their_way)
        most_on_their_way = requests_now;
    pawl__zk_lock();
    TAILQ_FOREACH(claim, &zk_of(client->engine)->claims, link) {
        count += claim->watch.ahead && claim->watch.ahead->state == ZK_WATCH_ARMED;
    }
    pawl__zk_unlock(&zk_of(client->engine)->session);
    return count;
}

/* Neither this client's holds are lost, nor those of others in this process (`holder`'s, until they are let go). */
static void test_a_cut_while_thousands_wait(void **state) {
    static struct pawl_lock *held[MANY];
    struct pawl *holder = open_direct(""), *client = open_proxied("");
    struct pawl_lock *own = new_mutex(client, PAWL_TASK);
    uint64_t session = zk_of(client->engine)->session.number;

    (void)state;
    hold_many(holder, held);
    assert_works(pawl_acquire(own, PATIENCE_MS, &error), &error);
    granted = 0;
    for (int i = 0; i < MANY; i++)
        ask_for(client, i, long_name(i));
    await(armed(client) == MANY, "%d wait", armed(client));
    most_on_their_way = 0;
    cut_and_reconnect(client);
    await(armed(client) == MANY, "%d wait again", armed(client));
    assert_true(most_on_their_way <= 4 * ZK_ROOM);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pawl_state(held[i]), PAWL_HELD);
        pawl_lock_free(held[i]);
    }
    dispatch_until(client, MANY);
    assert_int_equal(granted, MANY);
    assert_int_equal(pawl_state(own), PAWL_HELD);
    assert_int_equal(zk_of(client->engine)->session.number, session);
    free_all();
    pawl_lock_free(own);
    pawl_close(holder);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_rest_stands_in_line),
        TEST(test_a_crowd_in_one_queue),
        TEST(test_a_cut_while_some_stand_in_line),
        TEST(test_a_session_that_ends_while_some_stand_in_line),
        TEST(test_leaving_the_line),
        TEST(test_close_while_some_stand_in_line),
        TEST(test_a_cut_while_thousands_wait),
    };

    return harness_run(argc, argv, "test_zookeeper_crowd", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
