/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redlock_open.c - opening a lock over several servers: what is refused, what is warned of, hosts that nobody knows, or not
 * yet; what doctor says of them; and scripts that they do not have.
 */
#include "../support/findings.h"
#include "../support/names.h"
#include "../support/redlock_test.h"

/* ---- Names ---------------------------------------------------------------------------------------------------------------- */

/* `late.test` is nobody until it is known; `slow.test` is looked up for as long as the gate is shut. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool late_is_known, gate_is_open;
    int slow_started, slow_ended;
} names = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool is_known(const char *host) {
    bool known;

    pthread_mutex_lock(&names.mutex);
    known = names.late_is_known;
    if (strcmp(host, "slow.test") == 0) {
        names.slow_started++;
        while (!names.gate_is_open)
            pthread_cond_wait(&names.changed, &names.mutex);
        names.slow_ended++;
        pthread_cond_broadcast(&names.changed);
        known = false;
    }
    pthread_mutex_unlock(&names.mutex);
    return known;
}

static void open_gate(void) {
    pthread_mutex_lock(&names.mutex);
    names.gate_is_open = true;
    pthread_cond_broadcast(&names.changed);
    while (names.slow_ended < names.slow_started)
        pthread_cond_wait(&names.changed, &names.mutex);
    pthread_mutex_unlock(&names.mutex);
}

/* Two of the servers, and a third by that name. */
static struct pawl *open_with(const char *host, struct log *log) {
    struct pawl_options how = {.size = sizeof how, .lease_ms = LONG_MS, .log = keep_log, .log_data = log};
    struct pawl *client;
    char url[600];

    snprintf(url, sizeof url, "redlock://%s:%u,127.0.0.1:%u,127.0.0.1:%u?retry=10,100,0", host, servers[0].port, servers[1].port,
             servers[2].port);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    return client;
}

/* With nobody at the first address of any of them. */
static void test_the_second_address(void **state) {
    struct pawl *client = open_client(LONG_MS, "redlock://%s:%u,%s:%u,%s:%u", NAME_OF_BOTH, servers[0].port, NAME_OF_BOTH,
                                      servers[1].port, NAME_OF_BOTH, servers[2].port);

    (void)state;
    pawl_close(client);
}

static void test_host_that_is_known_later(void **state) {
    struct log log = LOG_INIT;
    struct pawl *client = open_with("late.test", &log);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_true(log_has(&log, "late.test"));
    assert_true(log_has(&log, "not known"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&servers[0], "EXISTS lock"), 0);
    pthread_mutex_lock(&names.mutex);
    names.late_is_known = true;
    pthread_mutex_unlock(&names.mutex);
    await_integer(&servers[0], "EXISTS lock", 1); /* topped up */
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The others are not looked for one after the other, and nobody waits for the last. */
static void test_host_whose_look_up_hangs(void **state) {
    static const char *const urls[] = {"redis://slow.test?connect=100", "redis-sentinel://slow.test,slow.test:2/main?connect=100",
                                       "redis-cluster://slow.test?connect=100"};
    struct log log = LOG_INIT;
    struct pawl *client = open_with("slow.test", &log);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_true(log_has(&log, "slow.test"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
    /* Nor is it waited for where there is nobody else. */
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        assert_fails(PAWL_ECONNLOST, pawl_open(urls[i], NULL, &client, &error), &error);
    open_gate();
}

/* ---- Bad input ------------------------------------------------------------------------------------------------------------ */

static void refuse(const char *url, int code, const char *part) {
    struct pawl *client;

    assert_fails(code, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, part);
}

static void test_bad_urls(void **state) {
    char url[600];

    (void)state;
    refuse("redlock://", PAWL_EURL, "at least 3");
    refuse(url_of(1, ""), PAWL_EURL, "at least 3");
    refuse(url_of(2, ""), PAWL_EURL, "at least 3");
    snprintf(url, sizeof url, "redlock://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", servers[0].port, servers[1].port,
             servers[0].port);
    refuse(url, PAWL_EURL, "twice");
    snprintf(url, sizeof url, "redlock://127.0.0.1:%u,127.0.0.1:%u,localhost:%u", servers[0].port, servers[1].port,
             servers[0].port);
    refuse(url, PAWL_ETOPOLOGY, "same server");
    refuse(url_of(3, "?layout=redisson"), PAWL_EOPTION, "layout");
    refuse(url_of(3, "?nonsense=1"), PAWL_EOPTION, "nonsense");
    refuse(url_of(3, "?ca=/x"), PAWL_EOPTION, "redlocks:");
    refuse("redlock://late.test,later.test,latest.test", PAWL_ECONNLOST, ".test' is not known");
    refuse("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", PAWL_ECONNLOST, "of the 3 servers");
    snprintf(url, sizeof url, "redlock://127.0.0.1:%u,127.0.0.1:1,127.0.0.1:2", servers[0].port);
    refuse(url, PAWL_ECONNLOST, "2 of the 3 servers"); /* whether the one that is there has answered yet or not */
}

/* One of them is a replica of another: two votes that are one. */
static void test_replica_among_them(void **state) {
    struct redis_server replica = {.pid = 0};
    char url[600];

    (void)state;
    snprintf(replica.extra, sizeof replica.extra, "replicaof 127.0.0.1 %u", servers[0].port);
    redis_server_start(&replica);
    snprintf(url, sizeof url, "redlock://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", servers[0].port, servers[1].port, replica.port);
    refuse(url, PAWL_ETOPOLOGY, "is a replica");
    redis_server_free(&replica);
}

static void test_part_of_a_cluster_among_them(void **state) {
    struct redis_server shard = {.extra = "cluster-enabled yes"};
    char url[600];

    (void)state;
    redis_server_start(&shard);
    snprintf(url, sizeof url, "redlock://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", servers[0].port, servers[1].port, shard.port);
    refuse(url, PAWL_ETOPOLOGY, "part of a Redis Cluster");
    redis_server_free(&shard);
}

static void test_wrong_password(void **state) {
    struct pawl *client;
    char url[600];

    (void)state;
    for (int i = 0; i < 3; i++)
        freeReplyObject(redis_server_command(&servers[i], "CONFIG SET requirepass secret"));
    refuse(url_of(3, ""), PAWL_EACCES, "password");
    snprintf(url, sizeof url, "redlock://:secret@%s", url_of(3, "") + strlen("redlock://"));
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    pawl_close(client);
    for (int i = 0; i < 3; i++)
        freeReplyObject(redis_server_command(&servers[i], "CONFIG SET requirepass %s", ""));
}

static int count_holders(const struct pawl_entry *entry, void *data) {
    *(int *)data += !(entry->flags & PAWL_ENTRY_WAITER);
    return 0;
}

/* The rights that docs/redlock.md asks for are enough to take, wait, look, break and release. */
static void test_smallest_rights(void **state) {
    struct pawl_options how = {.size = sizeof how, .lease_ms = LONG_MS};
    struct pawl_lock *lock, *rival;
    struct pawl *client, *other;
    struct taker taker;
    int holders = 0;
    char url[600];

    (void)state;
    for (int i = 0; i < 3; i++) {
        give_smallest_rights(&servers[i], "few");
        freeReplyObject(redis_server_command(&servers[i], "ACL SETUSER few on >secret +getset +zremrangebyscore"));
    }
    snprintf(url, sizeof url, "redlock://few:secret@%s", url_of(3, "?prefix=app:") + strlen("redlock://"));
    assert_works(pawl_open(url, &how, &client, &error), &error);
    assert_works(pawl_open(url, &how, &other, &error), &error);
    lock = mutex_of(client, "lock");
    rival = mutex_of(other, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    start_taker(&taker, rival, PAWL_FOREVER);
    await_integer(&servers[0], "ZCARD pawl:wait:{app:lock}", 1);
    assert_works(pawl_inspect(client, NULL, count_holders, &holders, &error), &error);
    assert_int_equal(holders, 1);
    assert_works(pawl_break(other, "lock", pawl_token(lock), 0, &error), &error);
    pawl_release(lock, &error); /* whether it has heard of that yet or not */
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_lock_free(rival);
    pawl_close(client);
    pawl_close(other);
    for (int i = 0; i < 3; i++)
        redis_server_integer(&servers[i], "ACL DELUSER few");
}

/* Servers that refuse a release hold on to their votes until the lease ends: the log hears so. */
static void test_a_release_is_refused(void **state) {
    struct log log = LOG_INIT;
    struct pawl_options how = {.size = sizeof how, .lease_ms = LONG_MS, .log = keep_log, .log_data = &log};
    struct pawl *client;
    struct pawl_lock *lock;
    char url[600];

    (void)state;
    for (int i = 0; i < 3; i++)
        freeReplyObject(redis_server_command(&servers[i], "ACL SETUSER other reset on >secret ~* &* +@all"));
    snprintf(url, sizeof url, "redlock://other:secret@%s", url_of(3, "") + strlen("redlock://"));
    assert_works(pawl_open(url, &how, &client, &error), &error);
    lock = mutex_of(client, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < 3; i++)
        freeReplyObject(redis_server_command(&servers[i], "ACL SETUSER other -evalsha -eval"));
    pawl_release(lock, &error);
    pawl_lock_free(lock);
    pawl_close(client);
    assert_true(log_has(&log, "'lock' could not be released"));
    for (int i = 0; i < 3; i++)
        redis_server_integer(&servers[i], "ACL DELUSER other");
}

static void test_even_number_is_warned_of(void **state) {
    struct findings findings = {0};
    struct log log = LOG_INIT;
    struct pawl_options how = {.size = sizeof how, .log = keep_log, .log_data = &log};
    struct pawl *client;

    (void)state;
    assert_works(pawl_open(url_of(4, ""), &how, &client, &error), &error);
    assert_true(log_has(&log, "even number"));
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text,
                    "warning: the URL names 4 servers: of an even number no more may fail than of one less -> name 3 or 5");
    pawl_close(client);
}

/* Two prefixes, or two databases, are two locks: the resolved URL tells them apart, and so does a set. */
static void test_url_tells_prefix_and_database(void **state) {
    struct pawl *one = open_all("/1?prefix=a%3f", 0, NULL), *two = open_all("?db=1&prefix=b", 0, NULL);
    struct pawl_part parts[2] = {{.lock = NULL}};
    struct pawl_info info;

    (void)state;
    pawl_describe(one, &info);
    assert_contains(info.url, "/1?prefix=a%3F");
    pawl_describe(two, &info);
    assert_contains(info.url, "/1?prefix=b");
    assert_works(pawl_mutex_new(one, "lock", 0, &parts[0].lock, &error), &error);
    assert_works(pawl_mutex_new(two, "lock", 0, &parts[1].lock, &error), &error);
    assert_works(pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    for (int i = 0; i < 2; i++)
        pawl_lock_free(parts[i].lock);
    pawl_close(one);
    pawl_close(two);
}

static void test_only_mutexes(void **state) {
    struct pawl *client = open_all("", 0, NULL);
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_rwlock_new(client, "lock", 0, &lock, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_acquire_shared(lock, 0, &error), &error);
    pawl_lock_free(lock);
    assert_works(pawl_semaphore_new(client, "lock", 2, 0, &lock, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static int count_findings(const struct pawl_finding *finding, void *data) {
    int *counts = data;

    counts[finding->severity == PAWL_FINDING_WARNING && strstr(finding->what, "does not answer")]++;
    return 0;
}

static void test_doctor_looks_at_all(void **state) {
    struct pawl *client;
    int counts[2] = {0, 0};

    (void)state;
    redis_server_stop(&servers[2], SIGKILL);
    client = open_all("", 0, NULL);
    assert_works(pawl_examine(client, count_findings, counts, &error), &error);
    assert_true(counts[0] > 4 * 3);
    assert_int_equal(counts[1], 1);
    pawl_close(client);
}

/* The scripts are gone from all servers. */
static void test_scripts_are_forgotten(void **state) {
    struct pawl *client = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    for (int round = 0; round < 3; round++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        for (int i = 0; i < NODES; i++)
            freeReplyObject(redis_server_command(&servers[i], "SCRIPT FLUSH"));
        assert_works(pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
    pawl_close(client);
    await_free(0, 4);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_bad_urls),
        TEST(test_the_second_address),
        TEST(test_host_that_is_known_later),
        TEST(test_host_whose_look_up_hangs),
        TEST(test_replica_among_them),
        TEST(test_wrong_password),
        TEST(test_even_number_is_warned_of),
        TEST(test_url_tells_prefix_and_database),
        TEST(test_only_mutexes),
        TEST(test_part_of_a_cluster_among_them),
        TEST(test_smallest_rights),
        TEST(test_a_release_is_refused),
        TEST(test_doctor_looks_at_all),
        TEST(test_scripts_are_forgotten),
    };

    name_is_known = is_known;
    return run_redis_tests(argc, argv, "redlock_open", tests, "", NULL, stop_servers);
}
