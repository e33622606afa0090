/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_lease.c - how long a hold may last: pawl_set_max_hold, ?max-hold= and pawl_extend. The exact times are in test_transcript.c, on
 * a clock that is not the machine's.
 */
#include "contract.h"

#include <time.h>

static struct pawl_error error;

/* Written on the service thread; it may come after the lock has changed hands. */
static _Atomic int told_lost;
static _Atomic uint64_t told_token;

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)data;
    if (state != PAWL_LOST)
        return;
    atomic_store(&told_token, token);
    atomic_fetch_add(&told_lost, why->code == PAWL_EEXPIRED && strstr(why->text, "max-hold") ? 1 : 100);
}

static void await_told(int wanted) {
    await(atomic_load(&told_lost) == wanted, "told %d, not %d", atomic_load(&told_lost), wanted);
}

/* Its holder never lets go, and the next one gets in all the same; again and again, each with all of its time. */
static void test_hold_ends_at_its_limit(void **state) {
    struct pawl_lock *lock = contract_mutex(one, PAWL_TASK), *other = contract_mutex(two, 0);
    uint64_t token;

    (void)state;
    assert_works(pawl_set_max_hold(lock, 200, &error), &error);
    assert_works(pawl_on_loss(lock, on_loss, NULL, &error), &error);
    atomic_store(&told_lost, 0);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        token = pawl_token(lock);
        assert_in_range(pawl_remaining_ms(lock), 0, 200);
        assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(other) > token);
        assert_int_equal(pawl_state(lock), PAWL_LOST);
        assert_int_equal(pawl_remaining_ms(lock), 0);
        assert_fails(PAWL_ELOST, pawl_acquire(lock, 0, &error), &error);
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error); /* and takes nothing from the new holder */
        assert_int_equal(contract_holders(one), 1);
        assert_works(pawl_release(other, &error), &error);
        await_told(i + 1);
        assert_true(atomic_load(&told_token) == token);
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Nobody listens and nobody asks: it ends for all that. Shared holds and permits do too. */
static void test_every_kind_ends_at_its_limit(void **state) {
    struct pawl *limited = contract_open("?max-hold=150");
    struct pawl_lock *reader, *writer, *some, *all;

    (void)state;
    reader = contract_rwlock(limited, 0);
    writer = contract_rwlock(two, 0);
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire(writer, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release_shared(reader, &error), &error);
    assert_works(pawl_release(writer, &error), &error);
    assert_works(pawl_acquire(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_shared(writer, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(reader, &error), &error);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
    assert_works(pawl_semaphore_new(limited, "permits", 3, 0, &some, &error), &error);
    assert_works(pawl_semaphore_new(two, "permits", 3, 0, &all, &error), &error);
    assert_works(pawl_acquire_permits(some, 2, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_permits(all, 3, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(some, &error), &error);
    pawl_lock_free(some);
    pawl_lock_free(all);
    pawl_close(limited);
}

/* What is released in time is released, re-entry and all; the limit of a handle can be lifted, that of its client can't. */
static void test_limit_that_is_not_reached(void **state) {
    struct pawl *limited = contract_open("?max-hold=600000");
    struct pawl_lock *lock = contract_mutex(limited, 0), *free = contract_mutex(two, 0);

    (void)state;
    assert_works(pawl_set_max_hold(lock, 300000, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 1, 300000);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_set_max_hold(lock, 0, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 1, 600000);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_set_max_hold(free, 300000, &error), &error);
    assert_works(pawl_set_max_hold(free, 0, &error), &error);
    assert_works(pawl_acquire(free, PATIENCE_MS, &error), &error);
    assert_int_equal(pawl_state(free), PAWL_HELD);
    pawl_lock_free(lock);
    pawl_lock_free(free);
    pawl_close(limited);
}

/* ---- pawl_extend ---------------------------------------------------------------------------------------------------------- */

/* A limit that is over soon: on a machine that is slow it may be before the answer is there. */
static void cut_short(struct pawl_lock *lock) {
    int rc = pawl_extend(lock, 200, PATIENCE_MS, &error);

    if (rc != PAWL_ELOST)
        assert_works(rc, &error);
    assert_true(pawl_remaining_ms(lock) <= 200);
}

/* The limit is shorter, or longer, or none; the engine has said that the hold is there. Another may have it when the new limit is over. */
static void test_extended(void **state) {
    struct pawl_lock *lock = contract_mutex(one, PAWL_TASK), *other = contract_mutex(two, 0);
    struct pawl_info info;
    uint64_t token;

    (void)state;
    pawl_describe(one, &info);
    assert_works(pawl_set_max_hold(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_on_loss(lock, on_loss, NULL, &error), &error);
    atomic_store(&told_lost, 0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    assert_works(pawl_extend(lock, PAWL_FOREVER, PATIENCE_MS, &error), &error);
    assert_true(info.lease_ms != PAWL_FOREVER || pawl_remaining_ms(lock) == PAWL_FOREVER);
    assert_works(pawl_extend(lock, 10 * PATIENCE_MS, PATIENCE_MS, &error), &error);
    assert_true(info.lease_ms != PAWL_FOREVER || pawl_remaining_ms(lock) > PATIENCE_MS);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    cut_short(lock);
    assert_true(pawl_token(lock) == token);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    await_told(1);
    assert_fails(PAWL_ELOST, pawl_extend(lock, PATIENCE_MS, PATIENCE_MS, &error), &error);
    assert_int_equal(contract_holders(one), 1); /* the new one's */
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A hold without a limit gets none; the client's limit stays. */
static void test_extended_without_a_limit(void **state) {
    struct pawl *limited = contract_open("?max-hold=600000");
    struct pawl_lock *lock = contract_mutex(one, 0), *bound = contract_mutex(limited, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_extend(lock, PAWL_MAX_HOLD_MS_MIN, PATIENCE_MS, &error), &error);
    assert_true(pawl_remaining_ms(lock) > PAWL_MAX_HOLD_MS_MIN);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(bound, PATIENCE_MS, &error), &error);
    assert_works(pawl_extend(bound, PAWL_FOREVER, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(bound), 1, 600000);
    assert_works(pawl_release(bound, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(bound);
    pawl_close(limited);
}

static void test_every_kind_is_extended(void **state) {
    struct pawl_lock *reader = contract_rwlock(one, 0), *writer = contract_rwlock(two, 0), *some, *all;

    (void)state;
    assert_works(pawl_set_max_hold(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_extend(reader, 2 * PATIENCE_MS, PATIENCE_MS, &error), &error);
    cut_short(reader);
    assert_works(pawl_acquire(writer, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release_shared(reader, &error), &error);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
    assert_works(pawl_semaphore_new(one, "permits", 3, 0, &some, &error), &error);
    assert_works(pawl_semaphore_new(two, "permits", 3, 0, &all, &error), &error);
    assert_works(pawl_set_max_hold(some, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_permits(some, 2, PATIENCE_MS, &error), &error);
    cut_short(some);
    assert_works(pawl_acquire_permits(all, 3, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(some, &error), &error);
    pawl_lock_free(some);
    pawl_lock_free(all);
}

static void test_extend_refused(void **state) {
    struct pawl *client = contract_open("");
    struct pawl_lock *lock = contract_mutex(one, 0), *closed = contract_mutex(client, 0);
    struct contract_thread thread;

    (void)state;
    assert_fails(PAWL_EINVAL, pawl_extend(NULL, 1000, 1000, &error), &error);
    assert_fails(PAWL_EDURATION, pawl_extend(lock, PAWL_MAX_HOLD_MS_MIN - 1, 1000, &error), &error);
    assert_fails(PAWL_EDURATION, pawl_extend(lock, 1000, -1, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_extend(lock, 1000, 1000, &error), &error);
    contract_start(&thread, lock, PAWL_EXCLUSIVE, PATIENCE_MS);
    assert_int_equal(contract_await(&thread), 0);
    assert_fails(PAWL_ENOTOWNER, pawl_extend(lock, 1000, 1000, &error), &error);
    contract_finish(&thread);
    pawl_close(client);
    assert_fails(PAWL_ECLOSED, pawl_extend(closed, 1000, 1000, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(closed);
}

/* Threads of one process: the second is not handed the rest of the first one's time, but queues with a claim of its own. */
static void test_each_thread_has_all_of_its_time(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    struct contract_thread thread;
    uint64_t token;

    (void)state;
    assert_works(pawl_set_max_hold(lock, 600000, &error), &error); /* nobody here waits for its end */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    contract_start(&thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(two, 1); /* of the first one's claim nobody else would see */
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_true(thread.token > token);
    contract_finish(&thread);
    pawl_lock_free(lock);
}

static void test_bad_input(void **state) {
    struct pawl_options options = {.size = sizeof options, .max_hold_ms = PAWL_MAX_HOLD_MS_MIN - 1};
    struct pawl_lock *lock = contract_mutex(one, 0);
    struct pawl *client = NULL;
    char url[300];

    (void)state;
    assert_fails(PAWL_EDURATION, pawl_set_max_hold(lock, -1, &error), &error);
    assert_fails(PAWL_EDURATION, pawl_set_max_hold(lock, PAWL_MAX_HOLD_MS_MIN - 1, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_set_max_hold(NULL, 1000, &error), &error);
    assert_works(pawl_set_max_hold(lock, INT64_MAX, &error), &error); /* PAWL_FOREVER: no limit that anybody would see */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_fails(PAWL_EOPTION, pawl_open(contract_engine->url, &options, &client, &error), &error);
    snprintf(url, sizeof url, "%s%cmax-hold=soon", contract_engine->url, strchr(contract_engine->url, '?') ? '&' : '?');
    assert_fails(PAWL_EOPTION, pawl_open(url, NULL, &client, &error), &error);
    assert_null(client);
    pawl_lock_free(lock);
}

int contract_run_lease(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_hold_ends_at_its_limit),
        CONTRACT_TEST(test_every_kind_ends_at_its_limit),
        CONTRACT_TEST(test_limit_that_is_not_reached),
        CONTRACT_TEST(test_each_thread_has_all_of_its_time),
        CONTRACT_TEST(test_extended),
        CONTRACT_TEST(test_extended_without_a_limit),
        CONTRACT_TEST(test_every_kind_is_extended),
        CONTRACT_TEST(test_extend_refused),
        CONTRACT_TEST(test_bad_input),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_every_kind_ends_at_its_limit test_every_kind_is_extended");
}
