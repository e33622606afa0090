/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_operator.c - what operators ask of a ZooKeeper: `pawl doctor`.
 */
#include "../support/findings.h"
#include "../support/zookeeper_harness.h"

static struct findings examine(struct pawl *client) {
    struct findings findings = {0};

    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    return findings;
}

static struct findings examined(const char *options) {
    struct pawl *client = open_direct(options);
    struct findings findings = examine(client);

    pawl_close(client);
    return findings;
}

static void test_doctor_finds_who_is_there(void **state) {
    struct findings findings = examined("");

    (void)state;
    assert_contains(findings.text, "good: 127.0.0.1:");
    assert_contains(findings.text, "is ZooKeeper 3.");
    assert_contains(findings.text, ", standalone");
    assert_contains(findings.text, ": the leader ");
    assert_contains(findings.text, "warning: there is one server");
    assert_contains(findings.text, "-> run three servers, or five");
    assert_contains(findings.text, "tickTime is 500 ms");
    assert_contains(findings.text, "good: no sequence is near its end");
}

static void test_doctor_compares_times(void **state) {
    (void)state;
    assert_contains(examined("").text, "good: a session of 15000 ms is granted");
    assert_contains(examined("?session=90000").text, "-> raise the servers' maxSessionTimeout");
    assert_contains(examined("?session=300").text, "-> lower the servers' minSessionTimeout");
    assert_contains(examined("?tick=100").text, "warning: the URL says ?tick=100, and the servers have tickTime=500");
    assert_contains(examined("?tick=500").text, "a hold is assured for 9750 ms");
}

static void test_doctor_looks_at_access(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    char url[256];

    (void)state;
    assert_contains(examined("").text, "-> give the URL a user (zk://user:secret@...)");
    snprintf(url, sizeof url, "zk://anna:secret@127.0.0.1:%u%s", server.ports[0], harness_path());
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    lock = new_mutex(client, 0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* makes the path, for anna alone */
    assert_contains(examine(client).text, "good: nodes of locks are the URL's user's own");
    pawl_lock_free(lock);
    pawl_close(client);
    snprintf(url, sizeof url, "zk://anna:secret@127.0.0.1:%u/", server.ports[0]);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    assert_contains(examine(client).text,
                    "warning: nodes of locks are the URL's user's own, but everybody may remove what is in /");
    pawl_close(client);
}

/* The number that the next node would get is known from its directory alone, with and without children. */
static void test_doctor_warns_of_a_sequence_near_its_end(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    int64_t limit = pawl__zk_sequence_limit;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        if (i < 19)
            assert_works(pawl_release(lock, &error), &error);
    }
    assert_contains(await_nodes("", 1).names[0], "lock-0000000019");
    pawl__zk_sequence_limit = 24;
    assert_contains(examine(client).text, "/lock is at 20, and ends at 24");
    assert_works(pawl_release(lock, &error), &error);
    await_nodes("", 0);
    assert_contains(examine(client).text, "/lock is at 20, and ends at 24");
    pawl__zk_sequence_limit = limit;
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Others take each child of a lock's node for a contender: a name below that of a lock in use is one that they can't read. */
static void test_doctor_warns_of_a_lock_below_a_lock(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *above = new_mutex(client, 0), *below;

    (void)state;
    assert_works(pawl_mutex_new(client, "lock/part", PAWL_TASK, &below, &error), &error);
    assert_works(pawl_acquire(below, PATIENCE_MS, &error), &error);
    assert_null(strstr(examine(client).text, "go-zookeeper")); /* a directory, and no lock */
    assert_works(pawl_acquire(above, PATIENCE_MS, &error), &error);
    assert_contains(examine(client).text, "/lock is a lock, and has others below it, as part: go-zookeeper's Lock fails there");
    pawl_lock_free(below);
    pawl_lock_free(above);
    pawl_close(client);
}

static void test_doctor_asks_every_host(void **state) {
    struct findings findings;
    struct pawl *client;
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "zk://127.0.0.1:%u,127.0.0.1:1%s", server.ports[0], harness_path());
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    findings = examine(client);
    assert_contains(findings.text, "warning: nobody answers at 127.0.0.1:1 -> start it, or take it out of the URL");
    pawl_close(client);
}

static void test_doctor_without_four_letter_words(void **state) {
    const struct zookeeper_how how = {.words = "ruok"};
    struct zookeeper_server silent;
    struct findings findings;
    struct pawl *client;
    char url[64];

    (void)state;
    assert_true(zookeeper_server_start_as(&silent, 1, &how));
    snprintf(url, sizeof url, "zk://127.0.0.1:%u", silent.ports[0]);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    findings = examine(client);
    assert_contains(findings.text, "unknown: tickTime could not be read -> set 4lw.commands.whitelist=srvr,conf");
    pawl_close(client);
    zookeeper_server_stop(&silent);
}

static int count_to_three(const struct pawl_finding *finding, void *data) {
    int *count = data;

    (void)finding;
    return ++*count == 3 ? 42 : 0;
}

static int count_lock(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 0;
}

/* How long a look at all locks takes, which are so many. */
static int64_t look_at(struct pawl *client, int locks) {
    int64_t began = pawl__boottime();
    int seen = 0;

    assert_works(pawl_inspect(client, NULL, count_lock, &seen, &error), &error);
    assert_int_equal(seen, locks);
    return pawl__boottime() - began;
}

/* In the world a round trip has its time, and nothing else takes any: so many locks cost a few of them, not two for each. */
static void test_many_locks_are_looked_at_at_once(void **state) {
    enum { MANY = 64 };
    struct pawl *client = open_direct("");
    struct pawl_lock *locks[MANY];
    int64_t one = 0;
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, i % 8 ? "lock%d" : "some/lock%d", i);
        assert_works(pawl_mutex_new(client, name, PAWL_TASK, &locks[i], &error), &error);
        acquire(locks[i]);
        if (i == 1)
            one = look_at(client, 2);
    }
    assert_true(look_at(client, MANY) <= 4 * one);
    for (int i = 0; i < MANY; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
}

static void test_doctor_stops_when_told(void **state) {
    struct pawl *client = open_proxied("");
    int count = 0;

    (void)state;
    assert_int_equal(pawl_examine(client, count_to_three, &count, &error), 42);
    assert_int_equal(count, 3);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(client, false);
    assert_fails(PAWL_ECONNLOST, pawl_examine(client, count_to_three, &count, &error), &error);
    pawl_close(client);
}

/* The hold of a writer, which becomes a reader when its node is about to be marked. */
static void downgrade(void *lock) {
    assert_works(pawl_downgrade(lock, &error), &error);
    await(strstr(raw_list("").names[0], "__READ__"), "it was not downgraded");
}

static void break_while_it_downgrades(unsigned flags) {
    struct pawl *client = open_direct(""), *operator= open_proxied("");
    struct pawl_error why;
    struct pawl_lock *lock = new_rwlock(client, PAWL_TASK);
    uint64_t token;

    acquire(lock);
    token = pawl_token(lock);
    strike_hook(OP_SET, downgrade, lock);
    assert_works(pawl_break(operator, "lock", token, flags, &why), &why);
    assert_int_equal(strike.hits, 1);
    await_state(lock, PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release_shared(lock, &why), &why);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_close(operator);
    pawl_close(client);
}

static void test_broken_while_it_is_downgraded(void **state) {
    (void)state;
    break_while_it_downgrades(0);
    break_while_it_downgrades(PAWL_BREAK_NOW);
}

static void hear(void *data) {
    (void)data;
}

/* A hold of many permits is many nodes, and only one of them is marked. Its holder hears of that by an event, not by the next heartbeat. */
static void test_broken_permits_are_told_at_once(void **state) {
    struct pawl *client = open_proxied(""), *operator= open_direct("");
    struct pawl_lock *lock = new_semaphore(client, 40);

    (void)state;
    assert_works(pawl_acquire_permits(lock, 40, PATIENCE_MS, &error), &error);
    await_watches(1);
    strike_hook(OP_EVENT, hear, NULL);
    assert_works(pawl_break(operator, "lock", pawl_token(lock), 0, &error), &error);
    await_state(lock, PAWL_LOST);
    assert_int_equal(strike.hits, 1);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_nodes("/leases", 0);
    pawl_lock_free(lock);
    pawl_close(operator);
    pawl_close(client);
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_doctor_finds_who_is_there),        TEST(test_doctor_compares_times),
        TEST(test_doctor_looks_at_access),           TEST(test_doctor_warns_of_a_sequence_near_its_end),
        TEST(test_doctor_asks_every_host),           TEST(test_doctor_without_four_letter_words),
        TEST(test_doctor_stops_when_told),           TEST(test_doctor_warns_of_a_lock_below_a_lock),
        TEST(test_many_locks_are_looked_at_at_once), TEST(test_broken_while_it_is_downgraded),
        TEST(test_broken_permits_are_told_at_once),
    };

    return harness_run(argc, argv, "test_zookeeper_operator", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
