/* SPDX-License-Identifier: Apache-2.0
 *
 * test_unsettled.c - a claim whose downgrade is under way, and nobody looks after that yet, is lost or withdrawn; or its withdrawal is, and
 * another thread comes to its lock: on the engine of keep_fake.h, which takes its time for both.
 */
#include "../support/keep_fake.h"

static struct {
    struct pawl_lock *losing; /* is lost while another lock of its set is given back */
    int withdrawn;            /* what the withdrawal of that one is answered */
    struct pawl__claim *lost;
} slow;

static unsigned unsettled(const struct pawl_lock *lock) {
    const struct claim *claim;
    unsigned count = 0;

    TAILQ_FOREACH(claim, &lock->cohort->unsettled, unsettled) {
        assert_true(claim->is_unsettled);
        if (++count > 1)
            break; /* a list that is broken may have no end */
    }
    return count;
}

static int slow_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note('d');
    return PAWL__PENDING;
}

/* The service thread, which has nobody's mutex. */
static void *lose(void *losing) {
    tell(losing, NEWS_LOST);
    return NULL;
}

static int slow_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct pawl_lock *losing = slow.losing;
    pthread_t service;

    (void)engine;
    note('w');
    if (!losing)
        return slow.withdrawn;
    if (claim == &last_claim(losing)->seam)
        return PAWL__DONE;
    slow.losing = NULL; /* the other one of the set: nobody has the first one's mutex */
    slow.lost = &last_claim(losing)->seam;
    assert_int_equal(unsettled(losing), 1);
    assert_int_equal(pthread_create(&service, NULL, lose, losing), 0);
    assert_int_equal(pthread_join(service, NULL), 0);
    assert_int_equal(unsettled(losing), 0); /* it is gone, or the service thread's */
    return PAWL__DONE;
}

static int slow_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    (void)engine, (void)claim, (void)deadline, (void)reterr;
    return PAWL__DONE;
}

static void no_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
}

static void lose_it(int withdrawn) {
    static const struct pawl__parking parking = {slow_park, no_unpark, no_unpark};
    static const struct pawl__extras extras = {.submit_all = fake_submit_all, .downgrade = slow_downgrade};
    struct pawl__engine_impl impl = fake_impl;
    struct pawl_lock *one, *other;

    client->options.keep_ns = 0;
    impl.parking = &parking;
    impl.extras = &extras;
    impl.withdraw = slow_withdraw;
    impl.keeping = NULL;
    client->engine->impl = &impl;
    one = rwlock("one");
    other = rwlock("other");
    struct pawl_part parts[] = {{other, PAWL_EXCLUSIVE, 0}, {one, PAWL_EXCLUSIVE, 0}}; /* the last is given back first */

    assert_works(pawl_acquire_all(parts, 2, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire_shared(one, 0, &error), &error);
    memset(&slow, 0, sizeof slow);
    slow.losing = one;
    slow.withdrawn = withdrawn;
    pawl_release_all(parts, 2, &error);
    assert_asked("ssdww");
    assert_int_equal(unsettled(one), 0);
    assert_null(last_claim(one));
    if (withdrawn == PAWL__PENDING)
        pawl__tell(client, slow.lost, NEWS_GONE, NULL);
    assert_fails(PAWL_ELOST, pawl_release_shared(one, &error), &error);
    acquire(one); /* and it is asked for anew */
    slow.withdrawn = PAWL__DONE;
    release(one);
    assert_asked("sw");
    pawl_lock_free(one);
    pawl_lock_free(other);
    close_fake();
}

static void *look_at(void *lock) {
    pawl_state(lock);
    return NULL;
}

static int withdraw_and_look(struct pawl__engine *engine, struct pawl__claim *claim) {
    pthread_t other;

    (void)engine;
    note('w');
    if (!slow.lost) {
        slow.lost = claim;
        return PAWL__PENDING;
    }
    assert_int_equal(pthread_create(&other, NULL, look_at, slow.losing), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    return PAWL__DONE;
}

static int park_lost(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    (void)engine, (void)claim, (void)deadline, (void)reterr;
    return PAWL_ELOST;
}

/* That one of a set was lost is known when its release is answered. The thread that releases the set hears of it, though another one comes
 * to that lock while the others are given back. */
static void test_lost_before_its_release(void **state) {
    static const struct pawl__parking parking = {park_lost, no_unpark, no_unpark};
    struct pawl__engine_impl impl = fake_impl;
    struct pawl_lock *one, *other;

    (void)state;
    client->options.keep_ns = 0;
    impl.parking = &parking;
    impl.withdraw = withdraw_and_look;
    impl.keeping = NULL;
    client->engine->impl = &impl;
    one = mutex("one", 0);
    other = mutex("other", 0);
    struct pawl_part parts[] = {{other, PAWL_EXCLUSIVE, 0}, {one, PAWL_EXCLUSIVE, 0}}; /* the last is given back first */

    assert_works(pawl_acquire_all(parts, 2, PAWL_FOREVER, &error), &error);
    memset(&slow, 0, sizeof slow);
    slow.losing = one;
    assert_fails(PAWL_ELOST, pawl_release_all(parts, 2, &error), &error);
    assert_asked("ssww");
    assert_int_equal(unsettled(one), 0);
    pawl_lock_free(one);
    pawl_lock_free(other);
    close_fake();
}

static void test_lost_and_withdrawn_at_once(void **state) {
    (void)state;
    lose_it(PAWL__DONE);
}

static void test_lost_and_withdrawn_later(void **state) {
    (void)state;
    lose_it(PAWL__PENDING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lost_and_withdrawn_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_and_withdrawn_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_before_its_release, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
