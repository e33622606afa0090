/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_keep.c - locks that are kept when they are released: entered again without a request, and given back to all who want them. On
 * engines that can do that; the rules themselves are tests of tests/core/test_keep.c.
 *
 * How many claims were asked for is counted by the trace.
 */
#include "contract.h"

/* Where those who wait can't be heard, a lock goes back this long after its grant: the tests wait for it. */
#define KEEP "?keep=300"

static struct pawl_error error;
static struct pawl *keeper;
static atomic_uint submits, withdrawals;

static void count_line(enum pawl_log_level level, const char *text, void *data) {
    (void)level, (void)data;
    if (strstr(text, "> submit"))
        atomic_fetch_add(&submits, 1);
    if (strstr(text, "> withdraw"))
        atomic_fetch_add(&withdrawals, 1);
}

static int set_up(void **state) {
    int rc = contract_set_up(state);

    keeper = contract_open_as(KEEP, (struct pawl_options){.flags = PAWL_OPEN_TRACE, .log = count_line});
    atomic_store(&submits, 0);
    atomic_store(&withdrawals, 0);
    return rc;
}

static int tear_down(void **state) {
    pawl_close(keeper);
    return contract_tear_down(state);
}

static void use(struct pawl_lock *lock) {
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
}

static void share(struct pawl_lock *lock) {
    assert_works(pawl_acquire_shared(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
}

/* One claim serves all of them, as long as nobody else is there. A pause of the machine may end one: it is idle then. */
static void test_kept_pairs(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0);
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        assert_works(pawl_acquire(lock, i % 2 ? 0 : PAWL_FOREVER, &error), &error);
        if (i % 20 == 0) {
            assert_true(pawl_token(lock) > last);
            last = pawl_token(lock);
        }
        assert_works(pawl_release(lock, &error), &error);
    }
    assert_true(atomic_load(&submits) < 20);
    pawl_lock_free(lock);
}

/* Its token is above that of the one who kept it, and below that of the one who takes it again. */
static void test_another_process_wants_it(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0), *other = contract_mutex(two, 0);
    uint64_t tokens[3];

    (void)state;
    use(lock);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    tokens[0] = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    tokens[1] = pawl_token(other);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_release(other, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    tokens[2] = pawl_token(lock);
    assert_true(tokens[0] < tokens[1] && tokens[1] < tokens[2]);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* It is in use when another comes: it leaves with its release. */
static void test_wanted_in_use(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;

    (void)state;
    use(lock);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    contract_finish(&thread);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Nobody holds it: a try of another process must not say that somebody does. */
static void test_a_try_of_another_process(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0), *other = contract_mutex(two, 0);

    (void)state;
    for (int i = 0; i < 5; i++) {
        use(lock);
        use(lock); /* of use: so the next one is kept, too */
        assert_works(pawl_acquire(other, 0, &error), &error);
        assert_works(pawl_release(other, &error), &error);
    }
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_readers_keep_until_a_writer_comes(void **state) {
    struct pawl *third = contract_open(KEEP);
    struct pawl_lock *lock = contract_rwlock(keeper, 0), *second = contract_rwlock(third, 0), *writer = contract_rwlock(two, 0);

    (void)state;
    share(lock);
    share(second);
    share(lock);
    share(second);
    use(writer);
    share(lock);
    use(lock);
    share(second);
    pawl_lock_free(lock);
    pawl_lock_free(second);
    pawl_lock_free(writer);
    pawl_close(third);
}

/* In the same process, and in another. */
static void test_another_kind(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0), *other = contract_rwlock(keeper, 0), *foreign = contract_rwlock(two, 0);

    (void)state;
    use(lock);
    use(other);
    use(lock);
    use(foreign);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(foreign);
}

static void test_close_gives_it_back(void **state) {
    struct pawl *third = contract_open("?keep=600000");
    struct pawl_lock *lock = contract_mutex(third, 0), *other = contract_mutex(two, 0);

    (void)state;
    use(lock);
    pawl_close(third);
    pawl_lock_free(lock);
    assert_int_equal(contract_holders(one), 0);
    assert_works(pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_release(other, &error), &error);
    pawl_lock_free(other);
}

static void test_idle_goes_back(void **state) {
    struct pawl *third = contract_open("?keep=20");
    struct pawl_lock *lock = contract_mutex(third, 0);

    (void)state;
    use(lock);
    await(contract_holders(one) == 0, "it is kept for ever");
    use(lock);
    assert_works(pawl_set_keep(lock, 600000, &error), &error);
    use(lock);
    assert_works(pawl_set_keep(lock, 0, &error), &error);
    await(contract_holders(one) == 0, "it was not given back");
    pawl_lock_free(lock);
    pawl_close(third);
}

/* A wait that is given up while the keeper is being asked leaves nothing behind. */
static void test_cancelled_while_it_is_recalled(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;

    (void)state;
    for (int i = 0; i < 10; i++) {
        use(lock);
        contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
        pawl_cancel(other);
        if (contract_has_ended(&thread) && contract_await(&thread) == PAWL_ECANCELED)
            use(lock);
        assert_true(contract_await(&thread) == 0 || contract_await(&thread) == PAWL_ECANCELED);
        contract_finish(&thread);
    }
    use(lock);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_downgraded_and_kept(void **state) {
    struct pawl_lock *lock = contract_rwlock(keeper, 0), *reader = contract_rwlock(two, 0), *writer = contract_rwlock(one, 0);

    (void)state;
    use(lock);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_downgrade(lock, &error), &error);
    share(reader);
    assert_works(pawl_release_shared(lock, &error), &error);
    share(lock);
    use(writer);
    use(lock);
    pawl_lock_free(lock);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
}

static void test_without_blocking(void **state) {
    struct pawl_lock *lock = contract_mutex(keeper, PAWL_TASK), *other = contract_mutex(two, 0);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct contract_outcome outcome = {0, 1};

        assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PATIENCE_MS, contract_acquired, &outcome, &error), &error);
        assert_int_equal(contract_await_outcome(keeper, &outcome), 0);
        assert_works(pawl_release(lock, &error), &error);
        if (i == 1)
            use(other);
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static struct pawl_lock *named(struct pawl *client, const char *name) {
    struct pawl_lock *lock = NULL;

    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    return lock;
}

/* All kept; some kept; one of them wanted by another. */
static void test_sets(void **state) {
    struct pawl_lock *locks[] = {named(keeper, "a"), named(keeper, "b"), named(keeper, "c"), named(keeper, "d")};
    struct pawl_lock *other = named(two, "b");
    struct pawl_part parts[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        parts[i] = (struct pawl_part){locks[i], PAWL_EXCLUSIVE, 0};
    for (int i = 0; i < 4; i++) {
        assert_works(pawl_acquire_all(parts, 2 + (size_t)(i % 3), PATIENCE_MS, &error), &error);
        assert_works(pawl_release_all(parts, 2 + (size_t)(i % 3), &error), &error);
        if (i > 1)
            use(other);
    }
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire_all(parts, 4, 0, &error), &error);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pawl_state(locks[i]), PAWL_NOT_HELD);
    assert_works(pawl_release(other, &error), &error);
    assert_works(pawl_acquire_all(parts, 4, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 4, &error), &error);
    for (int i = 0; i < 4; i++)
        pawl_lock_free(locks[i]);
    pawl_lock_free(other);
}

static void test_a_handle_for_each_use(void **state) {
    struct pawl_lock *other = contract_mutex(two, 0);

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct pawl_lock *lock = contract_mutex(keeper, 0);

        use(lock);
        pawl_lock_free(lock);
    }
    assert_true(atomic_load(&submits) < 20);
    use(other);
    pawl_lock_free(other);
}

/* Two processes of two threads each: every hold excludes all others, and tokens rise. */
struct crowd {
    struct pawl_lock *lock;
    _Atomic int *inside;
    _Atomic uint64_t *highest;
    const char *complaint;
};

static const char *crowd_once(struct crowd *crowd, bool asks) {
    struct pawl_error why;
    uint64_t token;

    if (pawl_acquire(crowd->lock, PATIENCE_MS, &why) < 0)
        return "an acquire failed";
    if (atomic_fetch_add(crowd->inside, 1) != 0)
        return "LOCK VIOLATED: two are in";
    token = asks ? pawl_token(crowd->lock) : 0;
    if (asks && atomic_exchange(crowd->highest, token) >= token)
        return "LOCK VIOLATED: a token did not rise";
    atomic_fetch_sub(crowd->inside, 1);
    return pawl_release(crowd->lock, &why) < 0 ? "a release failed" : NULL;
}

static void *crowd_main(void *data) {
    struct crowd *crowd = data;

    for (int i = 0; i < 200 && !crowd->complaint; i++)
        crowd->complaint = crowd_once(crowd, i % 3 != 0);
    return NULL;
}

static void test_two_greedy_keepers(void **state) {
    enum { THREADS = 4 };
    struct pawl *third = contract_open(KEEP);
    struct pawl_lock *locks[2] = {contract_mutex(keeper, 0), contract_mutex(third, 0)};
    _Atomic uint64_t highest = 0;
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    _Atomic int inside = 0;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){locks[i % 2], &inside, &highest, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (crowds[i].complaint)
            fail_msg("%s", crowds[i].complaint);
    }
    pawl_lock_free(locks[0]);
    pawl_lock_free(locks[1]);
    pawl_close(third);
}

/* Can the engine keep locks? */
static bool can_keep(void) {
    struct pawl *client = NULL;
    struct pawl_lock *lock;
    int rc;

    if (contract_engine->set_up() < 0)
        return false;
    client = contract_open("");
    lock = contract_mutex(client, 0);
    rc = pawl_set_keep(lock, 1000, &error);
    pawl_lock_free(lock);
    pawl_close(client);
    contract_engine->tear_down();
    return rc == 0;
}

int contract_run_keep(void) {
#define KEEP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        KEEP_TEST(test_kept_pairs),
        KEEP_TEST(test_another_process_wants_it),
        KEEP_TEST(test_wanted_in_use),
        KEEP_TEST(test_a_try_of_another_process),
        KEEP_TEST(test_readers_keep_until_a_writer_comes),
        KEEP_TEST(test_another_kind),
        KEEP_TEST(test_close_gives_it_back),
        KEEP_TEST(test_idle_goes_back),
        KEEP_TEST(test_cancelled_while_it_is_recalled),
        KEEP_TEST(test_downgraded_and_kept),
        KEEP_TEST(test_without_blocking),
        KEEP_TEST(test_sets),
        KEEP_TEST(test_a_handle_for_each_use),
        KEEP_TEST(test_two_greedy_keepers),
    };

    if (!can_keep())
        return 0;
    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_readers_keep_until_a_writer_comes test_another_kind test_downgraded_and_kept");
}
