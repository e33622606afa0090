/* SPDX-License-Identifier: Apache-2.0
 *
 * test_places.c - what is taken for a deadlock when a claim has no place in the engine's queue yet, or lost it; on the engine of
 * keep_fake.h.
 *
 * One reads A and wants B; another wants to write A; the third has B, and wants to read A. It waits for ever if it is behind the second.
 */
#include <stdlib.h>

#include "../support/keep_fake.h"

enum { READER = 1001, WRITER, THIRD };

static int told;

static void on_deadlock(const struct pawl_deadlock *found, void *data) {
    (void)found, (void)data;
    told++;
}

static struct pawl_lock *locks[5];
static struct waiter waiters[5];

/* The acquire of a thread that the test stands for. */
static void enter(int number, struct pawl_lock *lock, uint64_t owner, enum pawl_mode mode, enum waiter_state expected) {
    struct waiter *waiter = &waiters[number];

    locks[number] = lock;
    pthread_mutex_lock(&lock->cohort->mutex);
    assert_true(pawl__lock_waiter(lock, waiter, mode, 1, PAWL_FOREVER, &error));
    waiter->owner = waiter->blocked = owner;
    waiter->deadline = waiter->look_at = PAWL__NEVER;
    pawl__cohort_enter(lock->cohort, waiter);
    assert_int_equal(waiter->state, expected);
    if (expected == WAITER_WAITING)
        pawl__waiter_waits(waiter, pawl__boottime() + number);
    pawl__cohort_unlock(lock->cohort);
}

static struct pawl_lock *read_write(void) {
    struct pawl_lock *lock = NULL;

    assert_works(pawl_rwlock_new(client, "a", 0, &lock, &error), &error);
    return lock;
}

static void wait_for_each_other(void) {
    told = 0;
    client->options.deadlock = DEADLOCK_BREAK;
    client->callbacks.deadlock = on_deadlock;
    enter(0, read_write(), READER, PAWL_SHARED, WAITER_GRANTED);
    enter(1, mutex("b", 0), THIRD, PAWL_EXCLUSIVE, WAITER_GRANTED);
    fake.queues = true;
    enter(2, mutex("b", 0), READER, PAWL_EXCLUSIVE, WAITER_WAITING);
    enter(3, read_write(), WRITER, PAWL_EXCLUSIVE, WAITER_WAITING);
    enter(4, read_write(), THIRD, PAWL_SHARED, WAITER_WAITING);
    for (int i = 2; i < 5; i++)
        pawl__place_take(client->engine, &waiters[i].claim->seam);
}

static void end_all(void) {
    for (int i = 2; i < 5; i++) {
        struct cohort *cohort = locks[i]->cohort;

        pthread_mutex_lock(&cohort->mutex);
        if (waiters[i].state == WAITER_WAITING)
            pawl__cohort_end(&waiters[i], PAWL_ETIMEOUT, "its time is up");
        pawl__cohort_unlock(cohort);
        free(waiters[i].hold);
    }
    close_fake();
    for (int i = 0; i < 5; i++)
        pawl_lock_free(locks[i]);
}

static void test_behind_who_waits(void **state) {
    (void)state;
    wait_for_each_other();
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 1);
    assert_int_equal(waiters[4].state, WAITER_ENDED);
    assert_int_equal(waiters[4].error.code, PAWL_EDEADLK);
    end_all();
}

/* The writer has lost its place, and nobody knows whether the third is behind it. */
static void test_not_behind_who_queued_again(void **state) {
    (void)state;
    wait_for_each_other();
    pawl__place_lost(&waiters[3].claim->seam);
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 0);
    assert_int_equal(waiters[4].state, WAITER_WAITING);
    end_all();
}

/* So does the third, which may be ahead of it now as well. */
static void test_who_queued_again_is_behind_nobody(void **state) {
    (void)state;
    wait_for_each_other();
    pawl__place_lost(&waiters[4].claim->seam);
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 0);
    end_all();
}

/* The writer has queued again, behind the third. */
static void test_behind_who_came_before_it(void **state) {
    (void)state;
    wait_for_each_other();
    pawl__place_take(client->engine, &waiters[3].claim->seam);
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 0);
    assert_int_equal(waiters[4].state, WAITER_WAITING);
    end_all();
}

/* And so has the third. */
static void test_behind_who_queued_again_before(void **state) {
    (void)state;
    wait_for_each_other();
    for (int i = 3; i < 5; i++)
        pawl__place_take(client->engine, &waiters[i].claim->seam);
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 1);
    end_all();
}

/* A try may have passed those who wait for room. */
static void test_a_try_is_behind_nobody(void **state) {
    (void)state;
    wait_for_each_other();
    waiters[4].claim->seam.try_only = true;
    pawl__stakes_look(pawl__boottime());
    assert_int_equal(told, 0);
    end_all();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_behind_who_waits),
        TEST(test_not_behind_who_queued_again),
        TEST(test_who_queued_again_is_behind_nobody),
        TEST(test_behind_who_came_before_it),
        TEST(test_behind_who_queued_again_before),
        TEST(test_a_try_is_behind_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
