/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_ensemble.c - servers that die, lose their leader or their quorum, and come back; who may connect, and what bad input
 * gets. On an ensemble of three, and on one of them alone.
 */
#include "../support/zookeeper_harness.h"

#include <poll.h>
#include <signal.h>

static struct pawl *open_url(const char *format, ...) {
    struct pawl *client;
    char url[512];
    va_list args;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

static struct pawl *open_all(const char *options) {
    return open_url("zk://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u%s%s", server.ports[0], server.ports[1], server.ports[2],
                    harness_path(), options);
}

static int leader(void) {
    int found;

    await((found = zookeeper_server_leader(&server)) >= 0, "nobody leads");
    return found;
}

/* The leader dies: who holds goes on or is told; who waits is served, by the same client. */
static void test_leader_killed(void **state) {
    struct pawl *one = open_all("?session=20000"), *two = open_all("?session=20000");
    struct pawl_lock *held = new_mutex(one, 0), *lock = new_mutex(two, 0);
    struct acquire waiter;
    int killed = leader(), rc;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await_nodes("", 2);
    zookeeper_server_kill(&server, killed);
    leader();
    assert_true(zookeeper_server_restart(&server, killed));
    rc = pawl_release(held, &error);
    assert_true(rc == 0 || rc == PAWL_ELOST);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* A follower whose leader does not answer goes on answering pings; a heartbeat is not answered, and the hold is lost in time. */
static void test_follower_cut_off_from_its_leader(void **state) {
    int stopped = leader(), follower = (stopped + 1) % 3;
    struct pawl *client = open_url("zk://127.0.0.1:%u%s?session=4000", server.ports[follower], harness_path());
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    zookeeper_server_signal(&server, stopped, SIGSTOP);
    await_state(lock, PAWL_LOST);
    assert_true(is_connected(client)); /* the follower has not noticed: that is the point */
    zookeeper_server_signal(&server, stopped, SIGCONT);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    leader();
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Alone, a server first serves nobody, and then, since these are told so, lets itself be read: no place for a lock either way. */
static void test_no_quorum_and_read_only(void **state) {
    struct pawl *held = open_url("zk://127.0.0.1:%u%s?session=4000", server.ports[0], harness_path()), *client;
    struct pawl_lock *lock = new_mutex(held, 0), *other = new_rwlock(held, 0);
    char url[128];

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    zookeeper_server_kill(&server, 1);
    zookeeper_server_kill(&server, 2);
    snprintf(url, sizeof url, "zk://127.0.0.1:%u/x?connect=1500", server.ports[0]);
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "quorum");
    assert_true(zookeeper_server_await_mode(&server, 0, "read-only"));
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "is read-only, since it does not reach the other servers");
    await_state(lock, PAWL_LOST);
    await_link(held, false);
    assert_fails(PAWL_ECONNLOST, pawl_acquire_shared(other, 0, &error), &error);
    assert_fails(PAWL_ECONNLOST, pawl_acquire_shared(other, 100, &error), &error);
    assert_true(zookeeper_server_restart(&server, 1));
    assert_true(zookeeper_server_restart(&server, 2));
    leader();
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(held);
}

static void test_retry_gives_up(void **state) {
    struct pawl *client = open_url("zk://127.0.0.1:%u%s?retry=10,20,3", proxy_port(proxy), harness_path());
    struct pawl_lock *lock = new_mutex(client, 0);
    struct acquire waiter;

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(client, false);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), PAWL_ECONNLOST);
    proxy_refuse(proxy, false);
    await_link(client, true);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_wrong_user(void **state) {
    struct pawl *owner = open_url("zk://anna:secret@127.0.0.1:%u%s", server.ports[0], harness_path());
    struct pawl *other = open_url("zk://bert:guess@127.0.0.1:%u%s", server.ports[0], harness_path());
    struct pawl_lock *lock = new_mutex(owner, 0), *refused = new_mutex(other, 0);
    struct pawl_info info;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EACCES, pawl_acquire(refused, PATIENCE_MS, &error), &error);
    pawl_describe(owner, &info);
    assert_null(strstr(info.url, "secret"));
    assert_null(strstr(error.text, "guess"));
    pawl_lock_free(lock);
    pawl_lock_free(refused);
    pawl_close(owner);
    pawl_close(other);
}

static void test_stray_child(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    raw_create("", "!stray", 0);
    assert_fails(PAWL_EFORMAT, pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_contains(error.text, "!stray");
    await_nodes("", 1);
    raw_delete("", "!stray");
    raw_create("", "stray", 0); /* sorts behind all: in nobody's way */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void fails_to_open(int code, const char *url) {
    struct pawl *client;

    assert_fails(code, pawl_open(url, NULL, &client, &error), &error);
}

static void fails_to_acquire(struct pawl *client, int code, const char *name) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    assert_fails(code, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
}

static void test_bad_input(void **state) {
    struct pawl *client = open_direct("");

    (void)state;
    fails_to_open(PAWL_ECONNLOST, "zk://127.0.0.1:1/x?connect=300");
    fails_to_open(PAWL_EURL, "zk:///x");
    fails_to_open(PAWL_EURL, "zk://127.0.0.1/a//b");
    fails_to_open(PAWL_EURL, "zk://anna@127.0.0.1/a");
    fails_to_open(PAWL_EOPTION, "zk://127.0.0.1/?acl=creator");
    fails_to_open(PAWL_EOPTION, "zk://127.0.0.1/?acl=nobody");
    fails_to_open(PAWL_EOPTION, "zk://127.0.0.1/?compat=curator");
    fails_to_open(PAWL_EOPTION, "zk://127.0.0.1/?retry=5,x");
    fails_to_open(PAWL_EOPTION, "zk://127.0.0.1/?retry=50,5,1");
    fails_to_open(PAWL_EUNSUPPORTED, "zks://127.0.0.1/");
    fails_to_open(PAWL_EUNSUPPORTED, "zk://127.0.0.1/?tls=1");
    fails_to_acquire(client, PAWL_ENAME, "a/!x");
    fails_to_acquire(client, PAWL_ENAME, "a/0x");
    fails_to_acquire(client, PAWL_ENAME, "a/leases");
    fails_to_acquire(client, PAWL_ENAME, "a/x-0000000001");
    fails_to_acquire(client, PAWL_ENAME, "a//b");
    fails_to_acquire(client, PAWL_ENAME, "/a");
    fails_to_acquire(client, PAWL_ENAME, "..");
    fails_to_acquire(client, PAWL_ENAME, "pawl.values");
    fails_to_acquire(client, PAWL_ENAME, "a/pawl.values/b");
    pawl_close(client);
}

/* A half-open server: opening and closing are bounded. */
static void test_half_open(void **state) {
    struct pawl *client;
    char url[128];

    (void)state;
    client = open_proxied("");
    proxy_freeze(proxy, true);
    pawl_close(client);
    snprintf(url, sizeof url, "zk://127.0.0.1:%u/x?connect=500", proxy_port(proxy));
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
}

/* All servers stop and start: the session survives, and so do the places in the queue; a hold was suspect or lost meanwhile. */
static void test_all_restart(void **state) {
    struct pawl *one = open_all("?session=60000"), *two = open_all("?session=60000");
    struct pawl_lock *held = new_mutex(one, 0), *lock = new_mutex(two, 0);
    struct acquire waiter;
    struct listing before, after;
    int rc;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    before = await_nodes("", 2);
    for (int i = 0; i < 3; i++)
        zookeeper_server_kill(&server, i);
    await_link(one, false);
    for (int i = 0; i < 3; i++)
        assert_true(zookeeper_server_spawn(&server, i));
    leader();
    await_link(one, true);
    await_link(two, true);
    after = raw_list("");
    for (int i = 0; i < after.count; i++)
        assert_true(strcmp(after.names[i], before.names[0]) == 0 || strcmp(after.names[i], before.names[1]) == 0);
    assert_false(atomic_load(&waiter.ended) && pawl_state(held) == PAWL_HELD);
    rc = pawl_release(held, &error);
    assert_true(rc == 0 || rc == PAWL_ELOST);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* ---- Values ----------------------------------------------------------------------------------------------------------------- */

static void set_number(struct pawl_lock *lock, int number) {
    char text[16];

    snprintf(text, sizeof text, "%d", number);
    assert_works(pawl_value_set(lock, text, strlen(text) + 1, &error), &error);
}

static int read_number(struct pawl *client) {
    const struct pawl_value *value;
    int number;

    assert_works(pawl_value_read(client, "lock", &value, &error), &error);
    number = value ? atoi(value->bytes) : -1;
    pawl_value_free(value);
    return number;
}

/* Who does not hold reads what was written last, also at a server that lags behind. */
static void test_a_value_at_every_server(void **state) {
    int last = leader();
    struct pawl *writer = open_url("zk://127.0.0.1:%u%s", server.ports[last], harness_path()), *readers[3];
    struct pawl_lock *lock = new_mutex(writer, 0);

    (void)state;
    for (int i = 0; i < 3; i++)
        readers[i] = open_url("zk://127.0.0.1:%u%s", server.ports[i], harness_path());
    acquire(lock);
    for (int i = 0; i < 100; i++) {
        set_number(lock, i);
        assert_int_equal(read_number(readers[i % 3]), i);
    }
    for (int i = 0; i < 3; i++)
        pawl_close(readers[i]);
    pawl_lock_free(lock);
    pawl_close(writer);
}

struct late_write {
    struct pawl_lock *lock;
    int result;
};

static void *write_late(void *data) {
    struct late_write *write = data;

    write->result = pawl_value_set(write->lock, "1", 2, NULL);
    return NULL;
}

/* Leave the server as soon as a request is on its way to it. */
static void leave_when_asked(struct zk_session *session) {
    bool asked;

    do {
        pawl__zk_lock();
        if ((asked = session->op_count > 0))
            pawl__zk_leave_server(session);
        pawl__zk_unlock(session);
    } while (!asked && poll(NULL, 0, 1) == 0);
}

/* A write lies in an old connection, to a server that the client has left. It is sent again, then comes another; and what lay there comes
 * through at last, to a server that the session has moved from, and is refused. */
static void test_a_write_over_an_old_connection(void **state) {
    int first = (leader() + 1) % 3, second = (leader() + 2) % 3;
    struct late_write write;
    struct pawl *client;
    pthread_t thread;

    (void)state;
    proxy_aim(proxy, server.ports[first]);
    client = open_proxied("");
    write.lock = new_mutex(client, 0);
    acquire(write.lock);
    set_number(write.lock, 0);
    proxy_aim(proxy, server.ports[second]);
    proxy_begin(proxy, PROXY_FAULT_FREEZE, 2, 1, 0); /* the first connection, and no other */
    assert_int_equal(pthread_create(&thread, NULL, write_late, &write), 0);
    leave_when_asked(&((struct zk_engine *)client->engine)->session);
    pthread_join(thread, NULL);
    assert_int_equal(write.result, 0);
    assert_int_equal(read_number(client), 1);
    set_number(write.lock, 2);
    assert_true(proxy_end(proxy) > 0);
    for (int i = 3; i < 10; i++) { /* which is time for it to come through */
        assert_int_equal(read_number(client), i - 1);
        set_number(write.lock, i);
    }
    pawl_lock_free(write.lock);
    pawl_close(client);
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_bad_input),
        TEST(test_wrong_user),
        TEST(test_stray_child),
        TEST(test_half_open),
        TEST(test_retry_gives_up),
        TEST(test_leader_killed),
        TEST(test_follower_cut_off_from_its_leader),
        TEST(test_no_quorum_and_read_only),
        TEST(test_all_restart),
        TEST(test_a_value_at_every_server),
        TEST(test_a_write_over_an_old_connection),
    };
    const struct zookeeper_how how = {.read_only = true};

    return harness_run(argc, argv, "test_zookeeper_ensemble", 3, &how, tests, sizeof tests / sizeof tests[0]);
}
