/* SPDX-License-Identifier: Apache-2.0
 *
 * test_keep_unasked.c - claims that are kept without ?keep=, on the engine of keep_fake.h: only what nobody else has wanted for a while.
 */
#include "../support/keep_fake.h"

/* Without ?keep=, an engine whose waiters take what is kept by themselves keeps what nobody else has wanted for a while. */
static void test_unasked_only_after_some_alone(void **state) {
    struct pawl_lock *lock;

    (void)state;
    client->options.keep_ns = PAWL__NEVER;
    lock = mutex("unasked", 0);
    for (int i = 0; i < 8; i++)
        use(lock);
    assert_asked("swswswswswswswsw");
    use(lock);
    use(lock);
    assert_asked("sktk");
    fake.resume_fails = true; /* another process took it */
    use(lock);
    assert_asked("Twsw");
    fake.resume_fails = false;
    use(lock);
    assert_asked("sw");
    pawl_lock_free(lock);
}

static bool taken;

static int fake_check(const struct pawl__engine *engine, const struct pawl__claim *claim) {
    (void)engine, (void)claim;
    return taken ? PAWL_ELOST : 0;
}

/* The same where the service thread finds it taken first, since somebody wants to be told of losses. */
static void test_unasked_and_found_taken(void **state) {
    static struct pawl__engine_impl impl;
    static struct pawl__extras extras;
    struct pawl_lock *lock;

    (void)state;
    impl = fake_impl;
    impl.extras = &extras;
    extras = fake_extras;
    extras.check = fake_check;
    client->engine->impl = &impl;
    client->options.keep_ns = PAWL__NEVER;
    losses = 0;
    lock = mutex("unasked", 0);
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    for (int i = 0; i < 9; i++)
        use(lock);
    assert_asked("swswswswswswswswsk");
    taken = true;
    tick(lock, pawl__boottime());
    taken = false;
    assert_asked("w");
    use(lock);
    assert_asked("sw");
    pawl__events_serve(client);
    assert_int_equal(losses, 0);
    pawl_lock_free(lock);
}

static int noted_check(const struct pawl__engine *engine, const struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note(taken ? 'C' : 'c');
    return taken ? PAWL_ELOST : 0;
}

static int submit_without_lease(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    int rc = fake_submit(engine, claim, reterr);

    claim->lease_ns = PAWL__NEVER;
    return rc;
}

/* A release does not look for what rest() finds. Where that refuses it looks: what was taken is lost, and told and counted as ever. */
static void test_unasked_and_looked_at(void **state) {
    static struct pawl__engine_impl impl;
    static struct pawl__extras extras;
    struct pawl_lock *lock;

    (void)state;
    impl = fake_impl;
    impl.submit = submit_without_lease;
    impl.extras = &extras;
    extras = fake_extras;
    extras.check = noted_check;
    client->engine->impl = &impl;
    client->options.keep_ns = PAWL__NEVER;
    losses = 0;
    lock = mutex("unasked", 0);
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    for (int i = 0; i < 8; i++)
        use(lock);
    assert_asked("scwscwscwscwscwscwscwscw");
    use(lock);
    use(lock);
    assert_asked("sktk");
    acquire(lock);
    taken = fake.rest_fails = true;
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_asked("tKCw");
    assert_int_equal(lock->cohort->counts.lost_broken, 1);
    assert_int_equal(lock->cohort->counts.released, 11);
    pawl__events_serve(client);
    assert_int_equal(losses, 1);
    taken = false;
    for (int i = 0; i < 8; i++)
        use(lock);
    assert_asked("scwscwscwscwscwscwscwscw");
    use(lock); /* somebody else wants it */
    assert_asked("sKcKw");
    fake.rest_fails = false;
    pawl_lock_free(lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unasked_only_after_some_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unasked_and_found_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unasked_and_looked_at, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
