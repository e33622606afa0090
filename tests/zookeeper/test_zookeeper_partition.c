/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_partition.c - a follower that is cut off from its leader, by the network, while its clients still reach it. The
 * leader lets their sessions expire and others hold their locks, and the follower goes on answering pings: clients must know before
 * that.
 */
#include "../support/findings.h"
#include "../support/zookeeper_harness.h"
#include "../support/zookeeper_network.h"

static struct pawl *open_at(const char *hosts, const char *options) {
    struct pawl *client;
    char url[256];

    snprintf(url, sizeof url, "zk://%s/test%s", hosts, options);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

static char majority[64], minority[64];

static void expect_leader(void) {
    await(zookeeper_server_leader(&server) >= 0, "nobody leads");
    assert_true(zookeeper_server_leader(&server) > FOLLOWER);
}

/* The one that the leader lets in next holds only when the one at the follower has heard that it lost. */
static void test_follower_cut_off_by_the_network(void **state) {
    struct pawl *one, *two;
    struct pawl_lock *held, *lock;
    struct acquire waiter;
    uint64_t token;

    (void)state;
    expect_leader();
    one = open_at(minority, "?session=4000");
    two = open_at(majority, "?session=20000");
    held = new_mutex(one, 0);
    lock = new_mutex(two, 0);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    token = pawl_token(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    zookeeper_network_cut(&server);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(pawl_state(held), PAWL_LOST);
    assert_true(pawl_token(lock) > token);
    zookeeper_network_mend(&server);
    assert_fails(PAWL_ELOST, pawl_release(held, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    await_link(one, true);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error); /* and all is well again */
    assert_true(pawl_token(held) > token);
    assert_works(pawl_release(held, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* A lock is kept at a follower that is behind the others when somebody wants it there: it hears of that when it has caught up. */
static void test_kept_at_a_follower_that_lags(void **state) {
    struct pawl *one, *two;
    struct pawl_lock *kept, *lock;
    struct acquire waiter;
    uint64_t token;

    (void)state;
    expect_leader();
    one = open_at(minority, "?session=20000&keep=600000");
    two = open_at(majority, "?session=20000");
    kept = new_mutex(one, 0);
    lock = new_mutex(two, 0);
    assert_works(pawl_acquire(kept, PATIENCE_MS, &error), &error);
    token = pawl_token(kept);
    assert_works(pawl_release(kept, &error), &error);
    zookeeper_network_cut(&server);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await(zookeeper_server_watches(server.ports[1]) + zookeeper_server_watches(server.ports[2]) > 0, "it does not wait");
    assert_false(atomic_load(&waiter.ended));
    zookeeper_network_mend(&server);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(zk_of(one->engine)->session.number, 1); /* not by the end of its session */
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(kept, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(kept) > token);
    assert_works(pawl_release(kept, &error), &error);
    pawl_lock_free(kept);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* A server that is cut off for so long that it turns read-only: nobody locks there, and the doctor tells. */
static void test_read_only_while_the_others_serve(void **state) {
    struct findings findings = {0};
    struct pawl *client;
    char url[256];

    (void)state;
    expect_leader();
    zookeeper_network_cut(&server);
    assert_true(zookeeper_server_await_mode(&server, FOLLOWER, "read-only"));
    snprintf(url, sizeof url, "zk://%s/test?connect=1500", minority);
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, minority);
    assert_contains(error.text, "is read-only");
    snprintf(url, sizeof url, "%s,%s", minority, majority);
    client = open_at(url, ""); /* goes on to the other one */
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "is cut off from its ensemble, and only read from");
    assert_contains(findings.text, "good: the ensemble has 3 servers, and bears the loss of 1");
    pawl_close(client);
    zookeeper_network_mend(&server);
    assert_true(zookeeper_server_await_mode(&server, FOLLOWER, "follower"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follower_cut_off_by_the_network),
        cmocka_unit_test(test_kept_at_a_follower_that_lags),
        cmocka_unit_test(test_read_only_while_the_others_serve),
    };
    struct zookeeper_how how = {.read_only = true};
    const char *why = zookeeper_network_prepare(&how);
    int failed;

    if (why) {
        printf("1..1\nok 1 - test_zookeeper_partition # SKIP %s\n", why);
        return 0;
    }
    if (!harness_begin("test_zookeeper_partition", 3, &how))
        return 0;
    snprintf(minority, sizeof minority, "%s:%u", how.addresses[FOLLOWER][0] ? how.addresses[FOLLOWER][0] : "127.0.0.1",
             server.ports[FOLLOWER]);
    snprintf(majority, sizeof majority, "127.0.0.1:%u,127.0.0.1:%u", server.ports[1], server.ports[2]);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    harness_end();
    return failed ? 1 : 0;
}
