/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_observe.c - who observes a lock is told of each change of its holder or value, at the seam: by which watches, and that
 * nothing else is asked of the server.
 */
#include "../support/zookeeper_harness.h"

static struct {
    struct pawl *client;
    struct pawl__observer observer, second;
    _Atomic unsigned told, second_told;
} here;

static void on_changed(void *core, struct pawl__observer *observer) {
    (void)core;
    assert_true(observer == &here.observer || observer == &here.second);
    atomic_fetch_add(observer == &here.second ? &here.second_told : &here.told, 1);
}

static struct zk_session *session(void) {
    return &((struct zk_engine *)here.client->engine)->session;
}

static uint64_t requests(void) {
    uint64_t count;

    pawl__zk_lock();
    count = session()->requests;
    pawl__zk_unlock(session());
    return count;
}

/* Observe through the proxy, by a client that does nothing else. */
static void begin(void) {
    struct pawl__engine *engine;

    here.client = open_proxied("");
    engine = here.client->engine;
    engine->changed = on_changed;
    here.told = 0;
    here.observer = (struct pawl__observer){.name = "lock", .name_length = 4};
    assert_works(engine->impl->values->observe(engine, &here.observer, &error), &error);
    assert_true(here.observer.every_ns == PAWL__NEVER);
    await(here.told > 0, "it was not told of what is there");
}

static void end(void) {
    struct pawl__engine *engine = here.client->engine;

    engine->impl->values->unobserve(engine, &here.observer);
    pawl_close(here.client);
}

/* Until nothing is on its way, and nothing due any more. */
static void settle(void) {
    unsigned told;
    bool busy;

    do {
        told = here.told;
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
        pawl__zk_lock();
        busy = session()->op_count > 0;
        pawl__zk_unlock(session());
    } while (busy || here.told != told);
}

/* Told, at least once, of what happened since it had settled. */
#define expect_told(...)                                                                                                           \
    do {                                                                                                                           \
        unsigned before__;                                                                                                         \
                                                                                                                                   \
        settle();                                                                                                                  \
        before__ = here.told;                                                                                                      \
        __VA_ARGS__;                                                                                                               \
        await(here.told > before__, "not told of: %s", #__VA_ARGS__);                                                              \
    } while (0)

static void test_holders_of_a_mutex(void **state) {
    struct pawl *one = open_direct(""), *two = open_direct("");
    struct pawl_lock *a = new_mutex(one, 0), *b = new_mutex(two, 0);
    struct acquire waits;
    uint64_t token;

    (void)state;
    begin(); /* before there is a lock, or a path */
    expect_told(acquire(a));
    expect_told(release(a));
    expect_told(acquire(b));
    acquire_start(&waits, a, false, PATIENCE_MS);
    await_nodes("", 2);
    expect_told(release(b)); /* one leaves, and the next one is let in */
    assert_int_equal(acquire_wait(&waits), 0);
    token = pawl_token(a);
    expect_told(assert_works(pawl_break(two, "lock", token, 0, &error), &error));
    expect_told(pawl_lock_free(a));
    pawl_lock_free(b);
    pawl_close(one);
    pawl_close(two);
    end();
    await_no_watches();
}

/* A second observer of a client asks nothing of the server, and is told at once; and it stays when the first goes. */
static void test_a_second_observer(void **state) {
    struct pawl *holder = open_direct("");
    struct pawl_lock *lock = new_mutex(holder, 0);
    const struct pawl__values *values;
    uint64_t asked;
    unsigned told;

    (void)state;
    begin();
    values = here.client->engine->impl->values;
    acquire(lock);
    settle();
    asked = requests();
    here.second = here.observer;
    here.second_told = 0;
    assert_works(values->observe(here.client->engine, &here.second, &error), &error);
    await(here.second_told > 0, "it was not told of what is there");
    settle();
    assert_int_equal(requests(), asked);
    told = here.second_told;
    expect_told(release(lock));
    await(here.second_told > told, "the second was not told");
    settle();
    values->unobserve(here.client->engine, &here.observer);
    told = here.second_told;
    acquire(lock);
    await(here.second_told > told, "it went with the first");
    values->unobserve(here.client->engine, &here.second);
    pawl_lock_free(lock);
    pawl_close(holder);
    pawl_close(here.client);
    await_no_watches();
}

/* Who waits costs nothing, nor does one who holds: no request, no word. And who observes is no waiter. */
static void test_who_waits_is_not_heard(void **state) {
    struct pawl *one = open_direct(""), *two = open_direct("");
    struct pawl_lock *a = new_mutex(one, 0), *b = new_mutex(two, 0);
    struct acquire waits;
    uint64_t asked;
    unsigned told;

    (void)state;
    acquire(a);
    begin();
    settle();
    told = here.told;
    asked = requests();
    assert_int_equal(raw_list("").count, 1);
    for (int i = 0; i < 5; i++) {
        acquire_start(&waits, b, false, 100);
        assert_int_equal(acquire_wait(&waits), PAWL_ETIMEOUT);
    }
    settle();
    assert_int_equal(here.told, told);
    assert_int_equal(requests(), asked);
    pawl_lock_free(a);
    pawl_lock_free(b);
    pawl_close(one);
    pawl_close(two);
    end();
    await_no_watches();
}

static void test_values(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    acquire(lock);
    begin();
    expect_told(assert_works(pawl_value_set(lock, "one", 3, &error), &error));
    expect_told(assert_works(pawl_value_set(lock, "two", 3, &error), &error));
    expect_told(assert_works(pawl_value_set(lock, NULL, 0, &error), &error));
    expect_told(assert_works(pawl_value_set(lock, "three", 5, &error), &error));
    pawl_lock_free(lock);
    pawl_close(client);
    end();
    await_no_watches();
}

static void test_readers(void **state) {
    struct pawl *one = open_direct(""), *two = open_direct("");
    struct pawl_lock *a = new_rwlock(one, 0), *b = new_rwlock(two, 0);

    (void)state;
    begin();
    expect_told(assert_works(pawl_acquire_shared(a, PATIENCE_MS, &error), &error));
    expect_told(assert_works(pawl_acquire_shared(b, PATIENCE_MS, &error), &error));
    expect_told(assert_works(pawl_release_shared(a, &error), &error));
    expect_told(assert_works(pawl_release_shared(b, &error), &error));
    expect_told(acquire(a));
    expect_told(assert_works(pawl_downgrade(a, &error), &error));
    pawl_lock_free(a);
    pawl_lock_free(b);
    pawl_close(one);
    pawl_close(two);
    end();
    await_no_watches();
}

static void test_a_semaphores_layout(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, PAWL_NONREENTRANT);

    (void)state;
    begin();
    for (int i = 0; i < 3; i++) {
        expect_told(acquire(lock));
        expect_told(release(lock));
    }
    pawl_lock_free(lock);
    pawl_close(client);
    end();
    await_no_watches();
}

/* What happened while nothing could be heard is told when the connection is back. */
static void test_a_cut(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    acquire(lock);
    begin();
    settle();
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(here.client, false);
    release(lock);
    acquire(lock);
    expect_told(proxy_refuse(proxy, false));
    expect_told(release(lock));
    expire(here.client); /* and with a new session */
    await(is_connected(here.client), "it does not connect again");
    expect_told(acquire(lock));
    pawl_lock_free(lock);
    pawl_close(client);
    end();
    await_no_watches();
}

/* A connection that is cut at any of its requests, or answers. */
static void test_cuts_while_it_begins(void **state) {
    static const int ops[] = {OP_LIST, OP_GET, OP_EXISTS};
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    for (size_t i = 0; i < 2 * sizeof ops / sizeof *ops; i++) {
        acquire(lock);
        strike_at(ops[i / 2], i % 2, PROXY_CUT_BEFORE);
        begin();
        await_strike();
        expect_told(release(lock));
        end();
    }
    pawl_lock_free(lock);
    pawl_close(client);
    await_no_watches();
}

/* The one who held is gone before it could be watched: who is next is found. */
static void give_up(void *lock) {
    release(lock);
    await_nodes("", 0);
}

static void test_the_holder_goes_while_it_looks(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    acquire(lock);
    strike_hook(OP_GET, give_up, lock);
    begin();
    await_strike();
    expect_told(acquire(lock));
    pawl_lock_free(lock);
    pawl_close(client);
    end();
    await_no_watches();
}

/* However often it changes hands, it is told at most once in ten milliseconds, and of what comes last. */
static void test_a_lock_that_changes_hands_quickly(void **state) {
    struct pawl *one = open_direct("?handoff=0"), *two = open_direct("?handoff=0");
    struct pawl_lock *locks[2] = {new_mutex(one, 0), new_mutex(two, 0)};
    int64_t began, took;
    unsigned told;

    (void)state;
    begin();
    settle();
    told = here.told;
    began = pawl__boottime();
    for (int i = 0; i < 200; i++) {
        acquire(locks[i % 2]);
        release(locks[i % 2]);
    }
    took = pawl__boottime() - began;
    assert_true(here.told - told <= took / (10 * ZK_MS) + 2);
    expect_told(acquire(locks[0]));
    pawl_lock_free(locks[0]);
    pawl_lock_free(locks[1]);
    pawl_close(one);
    pawl_close(two);
    end();
    await_no_watches();
}

static int count_entry(const struct pawl_entry *entry, void *data) {
    (void)entry;
    return ++*(int *)data < 0;
}

/* Who looks for an observer ends by the deadline, however patient operators are. */
static void test_a_look_has_a_deadline(void **state) {
    struct pawl_lock *lock;
    int (*look)(struct pawl__engine *, const char *, pawl_visit_fn *, void *, int64_t, struct pawl_error *);
    int count = 0;

    (void)state;
    begin();
    look = here.client->engine->impl->values->look;
    assert_works(pawl_mutex_new(here.client, "lock", 0, &lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ECONNLOST, look(here.client->engine, "lock", count_entry, &count, pawl__boottime(), &error), &error);
    assert_int_equal(count, 0);
    assert_works(look(here.client->engine, "lock", count_entry, &count, pawl__boottime() + PATIENCE_MS * INT64_C(1000000), &error),
                 &error);
    assert_int_equal(count, 1);
    pawl_lock_free(lock);
    end();
}

static int count_and_stop(const struct pawl_entry *entry, void *data) {
    assert_false(entry->flags & PAWL_ENTRY_WAITER);
    return ++*(int *)data;
}

/* How many requests a look takes at which one holder is seen. */
static uint64_t look_once(void) {
    struct pawl__engine *engine = here.client->engine;
    uint64_t before;
    int count = 0;

    settle();
    before = requests();
    assert_int_equal(engine->impl->values->look(engine, "lock", count_and_stop, &count, pawl__boottime() + 10 * ZK_S, &error), 1);
    assert_int_equal(count, 1);
    return requests() - before;
}

/* Those who wait are neither asked about, nor in the way of who may not read them. */
static void test_a_look_is_of_the_holder(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct listing nodes;
    uint64_t alone;
    char node[256];

    (void)state;
    acquire(lock);
    begin();
    alone = look_once();
    assert_in_range(alone, 1, 3);
    for (int i = 0; i < 40; i++) {
        snprintf(node, sizeof node, "_c_00000000-0000-4000-8000-0000000000%02d-lock-", i);
        raw_create("", node, ZOO_SEQUENCE);
    }
    assert_int_equal(look_once(), alone);
    nodes = raw_list("");
    for (int i = 0; i < nodes.count; i++) {
        snprintf(node, sizeof node, "%s/lock/%s", harness_path(), nodes.names[i]);
        if (strncmp(nodes.names[i], "_c_00000000-0000-4000", strlen("_c_00000000-0000-4000")) == 0)
            raw_permit_at(node, ZOO_PERM_WRITE);
    }
    assert_int_equal(look_once(), alone);
    pawl_lock_free(lock);
    pawl_close(client);
    end();
}

/* The same of leases: those who wait for one are not asked about. */
static void test_a_look_is_of_the_leases(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock;
    uint64_t alone;
    char node[256];

    (void)state;
    assert_works(pawl_semaphore_new(client, "lock", 1, PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_acquire_permits(lock, 1, PATIENCE_MS, &error), &error);
    begin();
    alone = look_once();
    for (int i = 0; i < 40; i++) {
        snprintf(node, sizeof node, "_c_00000000-0000-4000-8000-0000000000%02d-lock-", i);
        raw_create("/locks", node, ZOO_SEQUENCE);
    }
    assert_int_equal(look_once(), alone);
    pawl_lock_free(lock);
    pawl_close(client);
    end();
}

static _Atomic uint64_t seen_holder;
static _Atomic unsigned warnings;

static void see_holder(const struct pawl_observed *seen, void *data) {
    (void)data;
    assert_null(seen->value);
    atomic_store(&seen_holder, seen->holder ? seen->holder->token : 0);
}

static void count_warning(void *data, const char *text) {
    (void)data;
    if (strstr(text, "is not told of all"))
        atomic_fetch_add(&warnings, 1);
}

/* Who may not read the value is told of the holder all the same, and a warning says what is missing. */
static void test_a_value_that_may_not_be_read(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct pawl_observer *observer;
    char node[256];

    (void)state;
    acquire(lock);
    assert_works(pawl_value_set(lock, "secret", 6, &error), &error);
    snprintf(node, sizeof node, "%s/pawl.values/lock", harness_path());
    raw_permit_at(node, ZOO_PERM_WRITE);
    here.client = open_direct("");
    here.client->engine->warn = count_warning;
    assert_works(pawl_observe(here.client, "lock", see_holder, NULL, &observer, &error), &error);
    await(atomic_load(&seen_holder) == pawl_token(lock), "it is not told of the holder");
    assert_int_equal(atomic_load(&warnings), 1);
    pawl_unobserve(observer);
    pawl_close(here.client);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_names_are_checked(void **state) {
    struct pawl__observer observer = {.name = "pawl.values", .name_length = 11};
    struct pawl *client = open_direct("");

    (void)state;
    assert_fails(PAWL_ENAME, client->engine->impl->values->observe(client->engine, &observer, &error), &error);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct zookeeper_how how = {.words = NULL};
    const struct CMUnitTest tests[] = {
        TEST(test_holders_of_a_mutex),
        TEST(test_a_second_observer),
        TEST(test_who_waits_is_not_heard),
        TEST(test_values),
        TEST(test_readers),
        TEST(test_a_semaphores_layout),
        TEST(test_a_cut),
        TEST(test_cuts_while_it_begins),
        TEST(test_a_lock_that_changes_hands_quickly),
        TEST(test_the_holder_goes_while_it_looks),
        TEST(test_a_look_has_a_deadline),
        TEST(test_a_look_is_of_the_holder),
        TEST(test_a_look_is_of_the_leases),
        TEST(test_a_value_that_may_not_be_read),
        TEST(test_names_are_checked),
    };

    return harness_run(argc, argv, "zookeeper_observe", 1, &how, tests, sizeof tests / sizeof *tests);
}
