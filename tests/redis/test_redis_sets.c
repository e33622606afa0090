/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_sets.c - several locks as one on a Redis: what the server is asked, and what is left there when answers get lost. What a set
 * promises on every engine is in contract_sets.c.
 */
#include "../../lab/servers/proxy.h"
#include "../support/redis_one.h"

static struct proxy *proxy;
static struct pawl *far, *near; /* through the proxy; straight */

static int set_up(void **state) {
    empty_server(state);
    proxy = proxy_new(server.port, NULL, NULL, NULL);
    far = open_at(proxy_port(proxy), "?retry=10,200", 5000);
    near = open_at(server.port, "", 5000);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pawl_close(far);
    pawl_close(near);
    proxy_free(proxy);
    return 0;
}

static void reset_calls(void) {
    freeReplyObject(redis_server_command(&server, "CONFIG RESETSTAT"));
}

/* a: a mutex; b: the shared side of a read-write lock; c: two of three permits. */
static void make_parts(struct pawl *client, struct pawl_part parts[3]) {
    parts[0] = (struct pawl_part){.lock = mutex_of(client, "a")};
    parts[1] = (struct pawl_part){.mode = PAWL_SHARED};
    parts[2] = (struct pawl_part){.mode = PAWL_PERMITS, .permits = 2};
    assert_works(pawl_rwlock_new(client, "b", 0, &parts[1].lock, &error), &error);
    assert_works(pawl_semaphore_new(client, "c", 3, 0, &parts[2].lock, &error), &error);
}

static void free_parts(struct pawl_part parts[3]) {
    for (int i = 0; i < 3; i++)
        pawl_lock_free(parts[i].lock);
}

static void assert_nothing_left(void) {
    await_integer(&server, "EXISTS a b pawl:who:{a} pawl:queue:{a} pawl:queue:{b} pawl:queue:{c} {c}:timeout", 0);
}

/* Three locks of three kinds that are free: one request. */
static void test_one_round_trip(void **state) {
    struct pawl_part parts[3];

    (void)state;
    make_parts(near, parts);
    for (int i = 0; i < 3; i++) {
        reset_calls();
        assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_calls(&server, i ? "evalsha" : "eval"), 1); /* the first time the script goes along */
        assert_int_equal(redis_server_scripts(&server), 1);
        assert_int_equal(redis_server_integer(&server, "EXISTS a b {c}:timeout"), 3);
        for (int p = 0; p < 3; p++)
            assert_true(pawl_token(parts[p].lock) > 0);
        assert_works(pawl_release_all(parts, 3, &error), &error);
        assert_nothing_left();
    }
    free_parts(parts);
}

/* One is held: a try is one request too, and nothing was taken by it. Then it waits, and nothing is left after the time-out. */
static void test_nothing_is_taken_if_one_is_held(void **state) {
    struct pawl_lock *held = mutex_of(near, "z");
    struct pawl_part parts[] = {{.lock = held}, {.lock = mutex_of(near, "a")}}, others[] = {{.lock = mutex_of(far, "z")}, {NULL}};

    (void)state;
    others[1].lock = mutex_of(far, "a");
    assert_works(pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error); /* the script is known */
    assert_works(pawl_release(parts[1].lock, &error), &error);
    reset_calls();
    assert_fails(PAWL_EHELD, pawl_acquire_all(others, 2, 0, &error), &error);
    assert_contains(error.text, "'z'");
    assert_int_equal(redis_server_scripts(&server), 1);
    assert_int_equal(redis_server_integer(&server, "EXISTS a pawl:queue:{a} pawl:queue:{z}"), 0);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire_all(others, 2, 50, &error), &error);
    assert_works(pawl_release(held, &error), &error);
    await_integer(&server, "EXISTS a z pawl:queue:{a} pawl:queue:{z}", 0);
    for (int i = 0; i < 2; i++) {
        pawl_lock_free(parts[i].lock);
        pawl_lock_free(others[i].lock);
    }
}

/* The script was carried out, and its answer lost: each asks again by itself, and finds that it holds. */
static void test_answer_is_lost(void **state) {
    struct pawl_part parts[3];
    long long tokens;

    (void)state;
    make_parts(far, parts);
    proxy_drop_answer_to(proxy, "pawl:who:{c}");
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_true(proxy_dropped(proxy));
    assert_int_equal(redis_server_integer(&server, "HLEN a"), 2);
    assert_int_equal(redis_server_integer(&server, "ZCARD {c}:timeout"), 2);
    tokens = redis_server_integer(&server, "GET redisson_lock_token:{a}");
    assert_int_equal(pawl_token(parts[0].lock), tokens); /* taken once */
    assert_works(pawl_release_all(parts, 3, &error), &error);
    assert_nothing_left();
    free_parts(parts);
}

/* It gave up before the connection was back: what the server has taken for it must not stay. */
static void test_unknown_outcome_is_released(void **state) {
    struct pawl_part parts[3];

    (void)state;
    make_parts(far, parts);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    proxy_freeze(proxy, true);
    assert_true(pawl_acquire_all(parts, 3, 50, &error) < 0);
    proxy_freeze(proxy, false);
    assert_nothing_left();
    free_parts(parts);
}

/* Cancelled by another thread while the answer is on its way. */
static void *cancel_soon(void *data) {
    for (int i = 0; i < PATIENCE_MS && pawl_cancel(data) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return NULL;
}

static void test_cancelled_before_the_answer(void **state) {
    struct pawl_part parts[3];
    pthread_t thread;

    (void)state;
    make_parts(far, parts);
    proxy_freeze(proxy, true);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, parts[1].lock), 0);
    assert_fails(PAWL_ECANCELED, pawl_acquire_all(parts, 3, PAWL_FOREVER, &error), &error);
    pthread_join(thread, NULL);
    proxy_freeze(proxy, false);
    assert_nothing_left();
    free_parts(parts);
}

/* SCRIPT FLUSH: the server has forgotten the script, and is told it again. */
static void test_script_is_forgotten(void **state) {
    struct pawl_part parts[3];

    (void)state;
    make_parts(near, parts);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
        assert_works(pawl_release_all(parts, 3, &error), &error);
        freeReplyObject(redis_server_command(&server, "SCRIPT FLUSH"));
    }
    assert_nothing_left();
    free_parts(parts);
}

/* A waiter that is dead stands first in the queue of a lock that is free: it is passed over, as by a single acquire. */
static void test_dead_waiter_is_passed_over(void **state) {
    struct pawl_part parts[3];

    (void)state;
    make_parts(near, parts);
    freeReplyObject(redis_server_command(&server, "ZADD pawl:queue:{a} 1 %s",
                                         "00000000-0000-8000-8000-000000000000:1 x 1 1 pawl1 host=h pid=1 cmd=c label="));
    assert_works(pawl_acquire_all(parts, 3, 0, &error), &error);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    assert_nothing_left();
    free_parts(parts);
}

/* A Redisson client holds one of them. */
static void test_foreign_holder(void **state) {
    struct pawl_part parts[3];

    (void)state;
    make_parts(near, parts);
    freeReplyObject(redis_server_command(&server, "HSET a 01234567-89ab-4def-8123-456789abcdef:1 1"));
    assert_fails(PAWL_EHELD, pawl_acquire_all(parts, 3, 0, &error), &error);
    assert_contains(error.text, "'a'");
    assert_int_equal(redis_server_integer(&server, "EXISTS b {c}:timeout"), 0);
    freeReplyObject(redis_server_command(&server, "DEL a"));
    assert_works(pawl_acquire_all(parts, 3, 0, &error), &error);
    free_parts(parts);
}

/* More than fit into one request: one by one. */
static void test_forty_locks(void **state) {
    struct pawl_part parts[40];
    char name[24];

    (void)state;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "lock-%d", i);
        parts[i] = (struct pawl_part){.lock = mutex_of(near, name)};
    }
    assert_works(pawl_acquire_all(parts, 40, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 40, &error), &error);
    reset_calls();
    assert_works(pawl_acquire_all(parts, 32, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_scripts(&server), 1);
    for (int i = 0; i < 40; i++)
        pawl_lock_free(parts[i].lock);
    await_integer(&server, "EXISTS lock-0 lock-9 lock-39", 0);
}

static void test_plain_layout(void **state) {
    struct pawl *client = open_at(server.port, "?layout=plain", 0);
    struct pawl_part parts[] = {{.lock = mutex_of(client, "a")}, {.lock = mutex_of(client, "b")}, {NULL}};

    (void)state;
    assert_works(pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    reset_calls();
    assert_works(pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_int_equal(redis_server_calls(&server, "evalsha"), 1);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_works(pawl_rwlock_new(client, "c", 0, &parts[2].lock, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_acquire_all(parts, 3, 0, &error), &error);
    await_integer(&server, "EXISTS a b", 0);
    free_parts(parts);
    pawl_close(client);
}

/* A cluster of one: it has all of them, and yet no script may be over keys of different slots. Names with a tag in common are in one. */
static void test_slots_of_a_cluster(void **state) {
    struct redis_server node = {.extra = "cluster-enabled yes\n"};
    struct pawl *client;
    struct pawl_part parts[3], tagged[2];

    (void)state;
    redis_server_start(&node);
    freeReplyObject(redis_server_command(&node, "CLUSTER ADDSLOTSRANGE 0 16383"));
    await_integer(&node, "INCR x", 1); /* an error, which counts as 0, until the cluster is well */
    client = open_client(0, "redis-cluster://127.0.0.1:%u", node.port);
    make_parts(client, parts);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(&node, "EXISTS a"), 1);
        assert_works(pawl_release_all(parts, 3, &error), &error);
    }
    tagged[0].lock = mutex_of(client, "{shop}orders");
    tagged[1].lock = mutex_of(client, "{shop}stock");
    tagged[0].mode = tagged[1].mode = PAWL_EXCLUSIVE;
    freeReplyObject(redis_server_command(&node, "CONFIG RESETSTAT"));
    assert_works(pawl_acquire_all(tagged, 2, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_scripts(&node), 1);
    assert_works(pawl_release_all(tagged, 2, &error), &error);
    for (int i = 0; i < 2; i++)
        pawl_lock_free(tagged[i].lock);
    free_parts(parts);
    pawl_close(client);
    redis_server_free(&node);
}

/* The same name under two prefixes, or in two databases, is two locks. Under one prefix it is one, and is told from the others. */
static void test_prefixes_are_different_locks(void **state) {
    static const char *const options[] = {"?prefix=a%26b:", "?prefix=b:", "/1?prefix=b:", "/1", "/2"};
    enum { COUNT = sizeof options / sizeof options[0] };
    struct pawl *clients[COUNT], *again = open_at(server.port, "?prefix=a%26b:&connect=1000", 5000);
    struct pawl_part parts[COUNT];
    struct pawl_info info;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        clients[i] = open_at(server.port, options[i], 5000);
        parts[i] = (struct pawl_part){.lock = mutex_of(clients[i], "lock")};
    }
    pawl_describe(clients[0], &info);
    assert_contains(info.url, "/0?prefix=a%26b:");
    assert_works(pawl_acquire_all(parts, COUNT, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS a&b:lock b:lock"), 2);
    assert_works(pawl_release_all(parts, COUNT, &error), &error);
    pawl_lock_free(parts[1].lock);
    parts[1].lock = mutex_of(again, "lock");
    assert_fails(PAWL_EINVAL, pawl_acquire_all(parts, 2, 0, &error), &error);
    for (int i = 0; i < COUNT; i++) {
        pawl_lock_free(parts[i].lock);
        pawl_close(clients[i]);
    }
    pawl_close(again);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_one_round_trip),
        TEST(test_nothing_is_taken_if_one_is_held),
        TEST(test_answer_is_lost),
        TEST(test_unknown_outcome_is_released),
        TEST(test_cancelled_before_the_answer),
        TEST(test_script_is_forgotten),
        TEST(test_dead_waiter_is_passed_over),
        TEST(test_foreign_holder),
        TEST(test_forty_locks),
        TEST(test_plain_layout),
        TEST(test_slots_of_a_cluster),
        TEST(test_prefixes_are_different_locks),
    };

    return run_redis_tests(argc, argv, "sets on redis", tests, "", NULL, stop_server);
}
