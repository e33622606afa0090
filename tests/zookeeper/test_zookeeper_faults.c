/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_faults.c - what is between a client and its server fails: cuts at every request of an acquire and a release, wake-ups
 * that go astray. The bugs that others had, by name, are in test_zookeeper_bugs.c.
 */
#include <arpa/inet.h>
#include <poll.h>

#include "../support/zookeeper_harness.h"

/* ---- Cuts ----------------------------------------------------------------------------------------------------------------- */

/* Acquire and release while the proxy strikes once: after every cut the lock is held with one node, and then with none. */
static void cut_at(int op, bool reply) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0);

    strike_at(op, reply, PROXY_CUT_BEFORE);
    acquire(lock);
    assert_int_equal(await_nodes("", 1).count, 1);
    if (op == OP_DELETE) {
        release(lock);
        await_strike();
        await_nodes("", 0);
        acquire(lock);
    }
    await_strike();
    release(lock);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_cut_before_create(void **state) {
    (void)state;
    cut_at(OP_CREATE, false);
}

static void test_cut_at_the_reply_to_create(void **state) {
    (void)state;
    cut_at(OP_CREATE, true);
}

static void test_cut_between_create_and_list(void **state) {
    (void)state;
    cut_at(OP_LIST, false);
}

static void test_cut_at_the_reply_to_list(void **state) {
    (void)state;
    cut_at(OP_LIST, true);
}

/* Also CURATOR-678 and 486: a release whose delete failed is not forgotten. */
static void test_curator_678_cut_before_delete(void **state) {
    (void)state;
    cut_at(OP_DELETE, false);
}

static void test_cut_at_the_reply_to_delete(void **state) {
    (void)state;
    cut_at(OP_DELETE, true);
}

static void cut_a_waiter(int op, bool reply) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0);
    struct acquire waiter;

    acquire(held);
    strike_at(op, reply, PROXY_CUT_BEFORE);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await_strike();
    await_nodes("", 2);
    assert_false(atomic_load(&waiter.ended));
    release(held);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(await_nodes("", 1).count, 1);
    release(lock);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

static void test_cut_before_the_watch(void **state) {
    (void)state;
    cut_a_waiter(OP_GET, false);
}

static void test_cut_at_the_reply_to_the_watch(void **state) {
    (void)state;
    cut_a_waiter(OP_GET, true);
}

static void hear(void *data) {
    (void)data;
}

/* The watch by which a holder hears of a break at once: its setting is lost, and it is set anew. */
static void test_cut_at_the_reply_to_the_watch_of_a_holder(void **state) {
    struct pawl *client = open_proxied(""), *operator= open_direct("");
    struct pawl_lock *lock = new_mutex(client, PAWL_TASK);

    (void)state;
    strike_at(OP_GET, true, PROXY_CUT_BEFORE);
    acquire(lock);
    await_strike();
    await_link(client, true);
    await_watches(1);
    strike_hook(OP_EVENT, hear, NULL);
    assert_works(pawl_break(operator, "lock", pawl_token(lock), 0, &error), &error);
    await_state(lock, PAWL_LOST);
    assert_int_equal(strike.hits, 1);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(operator);
    pawl_close(client);
}

static void test_cut_while_waiting_keeps_the_place(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct(""), *third = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0), *late = new_mutex(third, 0);
    struct acquire waiter, later;
    struct listing before, after;

    (void)state;
    acquire(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    before = await_nodes("", 2);
    cut_and_reconnect(client);
    after = await_nodes("", 2);
    assert_memory_equal(&before, &after, sizeof before);
    acquire_start(&later, late, false, PAWL_FOREVER);
    release(held);
    assert_int_equal(acquire_wait(&waiter), 0);
    release(lock);
    assert_int_equal(acquire_wait(&later), 0);
    release(late);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_lock_free(late);
    pawl_close(client);
    pawl_close(other);
    pawl_close(third);
}

/* The connection drops while a timed acquire waits, and does not come back: an error of its own at its deadline, and nothing left. */
static void test_drop_while_waiting_ends_at_the_deadline(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0);
    struct acquire waiter;

    (void)state;
    acquire(held);
    acquire_start(&waiter, lock, false, 3000);
    await_nodes("", 2);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    assert_int_equal(acquire_wait(&waiter), PAWL_ECONNLOST);
    proxy_refuse(proxy, false);
    await_nodes("", 1); /* its node goes when it is back */
    await_link(client, true);
    release(held);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

/* ---- One wakes one -------------------------------------------------------------------------------------------------------- */

static void count_woken(enum pawl_log_level level, const char *text, void *data) {
    if (level == PAWL_LOG_TRACE && strstr(text, "woken"))
        atomic_fetch_add((_Atomic int *)data, 1);
}

static struct pawl *open_counting(_Atomic int *woken) {
    struct pawl_options how = {.size = sizeof how, .flags = PAWL_OPEN_TRACE, .log = count_woken, .log_data = woken};
    struct pawl *client;
    char url[128];

    snprintf(url, sizeof url, "zk://127.0.0.1:%u%s", server.ports[0], harness_path());
    assert_works(pawl_open(url, &how, &client, &error), &error);
    return client;
}

/* Each waits for the one ahead of it: however many wait, a release wakes one of them, which holds then; and so on to the last. */
static void test_release_wakes_one(void **state) {
    enum { WAITERS = 8 };
    struct pawl *clients[WAITERS + 1];
    struct pawl_lock *locks[WAITERS + 1];
    struct acquire waiters[WAITERS + 1];
    _Atomic int woken = 0;

    (void)state;
    for (int i = 0; i <= WAITERS; i++) {
        clients[i] = open_counting(&woken);
        locks[i] = new_mutex(clients[i], 0);
        acquire_start(&waiters[i], locks[i], false, PAWL_FOREVER);
        await_nodes("", i + 1);
    }
    assert_int_equal(acquire_wait(&waiters[0]), 0);
    for (int i = 1; i <= WAITERS; i++) {
        release(locks[i - 1]);
        assert_int_equal(acquire_wait(&waiters[i]), 0);
        assert_true(atomic_load(&woken) <= i); /* less where the one ahead was gone before it could be watched */
    }
    release(locks[WAITERS]);
    await_nodes("", 0);
    await_no_watches();
    for (int i = 0; i <= WAITERS; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
}

/* ---- An event that never comes -------------------------------------------------------------------------------------------- */

/* As from a server that has lost the deletion: the event is swallowed, and nothing else happens. */
static void test_zookeeper_4712_the_event_never_comes(void **state) {
    int64_t sessions = pawl__zk_recheck_sessions;
    struct pawl *client, *other;
    struct pawl_lock *lock, *held;
    struct acquire waiter;

    (void)state;
    pawl__zk_recheck_sessions = 0;
    client = open_proxied("?session=2000");
    other = open_direct("");
    lock = new_mutex(client, PAWL_TASK);
    held = new_mutex(other, 0);
    acquire(held);
    acquire_start(&waiter, lock, false, PATIENCE_MS);
    await_watches(2); /* on the one ahead, and on its own */
    strike_at(OP_EVENT, false, PROXY_DROP);
    release(held);
    await_strike();
    assert_int_equal(acquire_wait(&waiter), 0);
    await_nodes("", 1);
    release(lock);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
    pawl__zk_recheck_sessions = sessions;
}

/* ---- The service thread's bell -------------------------------------------------------------------------------------------- */

static void *ring_often(void *data) {
    struct pawl *client = data;

    for (int i = 0; i < 2000; i++)
        pawl__zk_wake(client->engine);
    return NULL;
}

static void note_result(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

/* Who rings while the bell is being silenced is heard, and so is everybody after that: a deadline is kept long before the next heartbeat.
 * In the simulated world threads lose their turn there often enough; test_zookeeper_smoke.c has real ones. */
static void test_a_ring_while_the_bell_is_silenced(void **state) {
    struct pawl *client = open_direct("?session=30000"), *other = open_direct("");
    struct pawl_lock *held = new_mutex(other, 0), *first = new_mutex(client, PAWL_TASK), *task = new_mutex(client, PAWL_TASK);
    int result = 1, result_of_first = 1;
    pthread_t ringer;

    (void)state;
    acquire(held);
    assert_works(pawl_acquire_start(first, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, note_result, &result_of_first, &error), &error);
    await_watches(2);
    poll(NULL, 0, 100);
    assert_int_equal(pthread_create(&ringer, NULL, ring_often, client), 0);
    pthread_join(ringer, NULL);
    /* The server is asked nothing for the second, so that no answer wakes the service thread. */
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, 50, note_result, &result, &error), &error);
    for (int i = 0; i < 400 && result == 1; i++) {
        poll(NULL, 0, 5);
        pawl_dispatch(client);
    }
    assert_int_equal(result, PAWL_ETIMEOUT);
    pawl_cancel(first);
    release(held);
    pawl_lock_free(task);
    pawl_lock_free(first);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

/* ---- TRIES of ?retry= ----------------------------------------------------------------------------------------------------- */

static unsigned failed_attempts(struct pawl *client) {
    struct zk_session *session = &zk_of(client->engine)->session;

    pawl__zk_lock();
    unsigned failed = session->attempts.failed;
    pawl__zk_unlock(session);
    return failed;
}

/* TRIES counts rounds over all hosts, for an acquire that comes in the middle of them as for one that waits already. */
static void gives_up_after(const char *pauses, unsigned tries) {
    enum { HOSTS = 3 };
    unsigned port = proxy_port(proxy);
    struct pawl_lock *lock;
    struct acquire waiter;
    struct pawl *client;
    char url[512];

    snprintf(url, sizeof url, "zk://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u%s?retry=%s,%u", port, port, port, harness_path(), pauses,
             tries);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    lock = new_mutex(client, 0);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await(failed_attempts(client) > tries, "it never tries to connect");
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), PAWL_ECONNLOST);
    assert_true(failed_attempts(client) >= HOSTS * tries);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, PATIENCE_MS, &error), &error); /* at once */
    proxy_refuse(proxy, false);
    await_link(client, true);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_tries_are_rounds_over_all_hosts(void **state) {
    (void)state;
    gives_up_after("10,10", 20);
}

/* What docs/from-java.md names in place of ExponentialBackoffRetry(1000, 3). */
static void test_the_retries_of_curators_example(void **state) {
    (void)state;
    gives_up_after("1000,8000", 3);
}

/* ---- A right that is taken away -------------------------------------------------------------------------------------------- */

static char logged[1024];

static void keep_log(enum pawl_log_level level, const char *text, void *data) {
    (void)data;
    if (level == PAWL_LOG_WARNING)
        snprintf(logged, sizeof logged, "%s", text);
}

/* An administrator takes the right to delete away, and gives it back: the node goes, and who waits is let in, while the session of the one
 * that released lives on. */
static void test_a_delete_that_is_refused_is_tried_again(void **state) {
    struct pawl *client = open_logged(keep_log), *other = open_direct("");
    struct pawl_lock *held = new_mutex(client, 0), *lock = new_mutex(other, PAWL_TASK);
    struct acquire waiter;

    (void)state;
    logged[0] = '\0';
    acquire(held);
    acquire_start(&waiter, lock, false, PATIENCE_MS);
    await_nodes("", 2);
    raw_permit(ZOO_PERM_ALL & ~ZOO_PERM_DELETE);
    strike_at(OP_DELETE, true, PROXY_PASS);
    release(held);
    await_strike();
    assert_int_equal(raw_list("").count, 2);
    assert_false(atomic_load(&waiter.ended));
    raw_permit(ZOO_PERM_ALL);
    assert_int_equal(acquire_wait(&waiter), 0);
    await_nodes("", 1);
    release(lock);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
    assert_non_null(strstr(logged, "/lock/"));
    assert_non_null(strstr(logged, "nobody gets the lock"));
}

static void test_a_quota_is_exceeded(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    acquire(lock);
    release(lock);
    await_nodes("", 0);
    raw_limit(1);
    assert_fails(PAWL_ENOSPACE, pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_non_null(strstr(error.text, "quota"));
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The server is slow: the text of the time-out does not say that others hold the lock. */
static void test_why_time_is_up(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0), *other = new_mutex(client, PAWL_TASK);

    (void)state;
    proxy_freeze(proxy, true);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 100, &error), &error);
    assert_non_null(strstr(error.text, "ZooKeeper has not queued it yet"));
    proxy_freeze(proxy, false);
    acquire(lock);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 100, &error), &error);
    assert_non_null(strstr(error.text, "others hold it"));
    release(lock);
    pawl_lock_free(other);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void on_permits(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

static void start_permits(struct pawl_lock *lock, int *ret) {
    *ret = PAWL_EHELD;
    assert_works(pawl_acquire_start(lock, PAWL_PERMITS, 2, PATIENCE_MS, on_permits, ret, &error), &error);
}

static void await_permits(struct pawl *client, const int *result) {
    for (int i = 0; i < PATIENCE_MS / 2 && *result != 0; i++) {
        pawl_dispatch(client);
        poll(NULL, 0, 2);
    }
    assert_int_equal(*result, 0);
}

/* Somebody deletes the place in the queue of one that has leases and waits for room: then another has leases, too, and there is room for
 * neither. The first finds out, and queues anew. */
static void test_a_place_is_taken_away_from_who_has_leases(void **state) {
    int64_t sessions = pawl__zk_recheck_sessions;
    struct pawl *clients[3];
    struct pawl_lock *locks[3];
    int results[3];

    (void)state;
    pawl__zk_recheck_sessions = 0;
    for (int i = 0; i < 3; i++) {
        clients[i] = open_direct("?session=2000");
        locks[i] = new_semaphore(clients[i], 2);
    }
    acquire(locks[0]);
    await_nodes("/locks", 0);
    start_permits(locks[1], &results[1]);
    await_nodes("/leases", 3);
    raw_delete("/locks", raw_list("/locks").names[0]);
    start_permits(locks[2], &results[2]);
    await_nodes("/leases", 5);
    release(locks[0]);
    await_permits(clients[2], &results[2]);
    release(locks[2]);
    await_permits(clients[1], &results[1]);
    release(locks[1]);
    await_nodes("/leases", 0);
    pawl__zk_recheck_sessions = sessions;
    for (int i = 0; i < 3; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
}

/* Where the body of a reply begins: behind its length, its number, a zxid and a code. */
enum { BODY = 20 };

static void less_than_none(unsigned char *message, size_t length) {
    if (length >= BODY + 4)
        memset(message + BODY, 0xff, 4);
}

static int count_entry(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 0;
}

/* A list whose length is -1 is how others would write that there is none. */
static void test_a_list_of_less_than_none(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, PAWL_TASK);
    int count = 0;

    (void)state;
    acquire(lock); /* so that its directory is there */
    release(lock);
    strike_change(OP_LIST, less_than_none);
    acquire(lock);
    await_strike();
    strike_change(OP_LIST_STAT, less_than_none);
    pawl_inspect(client, "lock", count_entry, &count, &error);
    await_strike();
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void no_transaction(unsigned char *message, size_t length) {
    uint32_t path;

    memcpy(&path, message + BODY, sizeof path);
    path = ntohl(path);
    if (length >= BODY + 4 + path + 8)
        memset(message + BODY + 4 + path, 0, 8);
}

/* A node's token comes of the transaction that made it, and none is 0. */
static void test_a_node_of_no_transaction(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, PAWL_TASK);

    (void)state;
    acquire(lock);
    release(lock);
    strike_change(OP_CREATE, no_transaction);
    assert_fails(PAWL_EFORMAT, pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await_nodes("", 0);
    acquire(lock);
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void no_scheme(unsigned char *message, size_t length) {
    if (length >= BODY + 12)
        memset(message + BODY + 8, 0xff, 4);
}

static int ignore_finding(const struct pawl_finding *finding, void *data) {
    (void)finding;
    (void)data;
    return 0;
}

/* Likewise in the list of those who have rights to a node. */
static void test_rights_of_nobody(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, PAWL_TASK);

    (void)state;
    acquire(lock); /* so that the URL's path is there */
    release(lock);
    pawl_lock_free(lock);
    strike_change(OP_ACL, no_scheme);
    assert_works(pawl_examine(client, ignore_finding, NULL, &error), &error);
    await_strike();
    pawl_close(client);
}

/* With an argument: only the tests whose names match it. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_cut_before_create),
        TEST(test_cut_at_the_reply_to_create),
        TEST(test_cut_between_create_and_list),
        TEST(test_cut_at_the_reply_to_list),
        TEST(test_curator_678_cut_before_delete),
        TEST(test_cut_at_the_reply_to_delete),
        TEST(test_cut_before_the_watch),
        TEST(test_cut_at_the_reply_to_the_watch),
        TEST(test_cut_at_the_reply_to_the_watch_of_a_holder),
        TEST(test_cut_while_waiting_keeps_the_place),
        TEST(test_drop_while_waiting_ends_at_the_deadline),
        TEST(test_release_wakes_one),
        TEST(test_zookeeper_4712_the_event_never_comes),
        TEST(test_a_ring_while_the_bell_is_silenced),
        TEST(test_tries_are_rounds_over_all_hosts),
        TEST(test_the_retries_of_curators_example),
        TEST(test_a_delete_that_is_refused_is_tried_again),
        TEST(test_a_quota_is_exceeded),
        TEST(test_why_time_is_up),
        TEST(test_a_place_is_taken_away_from_who_has_leases),
        TEST(test_a_list_of_less_than_none),
        TEST(test_a_node_of_no_transaction),
        TEST(test_rights_of_nobody),
    };

    return harness_run(argc, argv, "test_zookeeper_faults", 1, &(struct zookeeper_how){.quota = true}, tests,
                       sizeof tests / sizeof tests[0]);
}
