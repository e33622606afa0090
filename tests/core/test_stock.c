/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stock.c - claims that hear of others though nothing is kept, since several threads share them; and tokens that are ordered while a
 * claim is in use. On the engine of keep_fake.h.
 */
#include "../support/keep_fake.h"

/* ---- Several threads, and nothing is kept ----------------------------------------------------------------------------------- */

/* A claim hears if the last one served several, or is still there. */
static void test_who_hears(void **state) {
    struct pawl_lock *lock;

    (void)state;
    client->options.keep_ns = 0;
    use_ears();
    lock = mutex("lock", 0);
    use(lock);
    assert_false(fake.last->hears);
    client->options.handoffs = 1;
    client->options.handoff_ns = 60 * INT64_C(1000000000);
    queue_up(2);
    assert_false(fake.last->hears);
    release(tasks[0]);
    release(tasks[1]);
    free_tasks(2);
    acquire(lock);
    assert_true(fake.last->hears);
    release(lock);
    acquire(lock); /* the last one was alone */
    assert_false(fake.last->hears);
    queue_up(2);
    assert_true(fake.last->hears); /* the second is beyond the bounds of the first */
    pawl_dispatch(client);
    release(lock);
    free_tasks(2);
    pawl_lock_free(lock);
}

/* Held by a thread of several, with so many who wait. */
static struct pawl_lock *hold_of_several(int count) {
    struct pawl_lock *lock = mutex("lock", 0);

    acquire(lock);
    release(lock);
    lock->cohort->tokens_used = 2;
    acquire(lock);
    queue_up(count);
    assert_asked("sws");
    return lock;
}

static void test_bounds_of_several_count_from_wanted(void **state) {
    enum { QUEUE = 20, PASSED = 5, MOST = 3 };
    struct pawl_lock *lock;

    (void)state;
    client->options.keep_ns = 0;
    client->options.handoffs = MOST;
    client->options.handoff_ns = 1; /* before it is wanted, its time does not count either */
    use_ears();
    lock = hold_of_several(QUEUE);
    release(lock);
    for (int i = 0; i < PASSED; i++)
        release(tasks[i]);
    assert_asked("");
    client->options.handoff_ns = 60 * INT64_C(1000000000);
    tell(lock, NEWS_WANTED);
    for (int i = 0; i < MOST; i++)
        release(tasks[PASSED + i]);
    assert_asked("");
    release(tasks[PASSED + MOST]);
    assert_asked("sw");
    for (int i = PASSED + MOST + 1; i < QUEUE; i++)
        release(tasks[i]);
    assert_asked("w");
    pawl_dispatch(client);
    free_tasks(QUEUE);
    pawl_lock_free(lock);
}

/* ---- More tokens ---------------------------------------------------------------------------------------------------------- */

/* Enter it so often, and draw a token each time. */
static uint64_t draw(struct pawl_lock *lock, int count) {
    uint64_t last = 0;

    for (int i = 0; i < count; i++) {
        acquire(lock);
        assert_true(pawl_token(lock) > last);
        last = pawl_token(lock);
        release(lock);
    }
    return last;
}

/* All that was asked, but for resting and resuming. */
static void assert_asked_beside(const char *what) {
    size_t kept = 0;

    for (size_t i = 0; i < fake.length; i++)
        if (fake.asked[i] != 'k' && fake.asked[i] != 't')
            fake.asked[kept++] = fake.asked[i];
    fake.length = kept;
    fake.asked[kept] = '\0';
    assert_asked(what);
}

static void test_tokens_are_ordered_in_time(void **state) {
    struct pawl_lock *lock;

    (void)state;
    use_ears();
    lock = mutex("lock", 0);
    assert_true(draw(lock, TOKENS / 2 - 1) == TOKENS / 2 - 1);
    assert_asked_beside("s");
    assert_true(draw(lock, 1) == TOKENS / 2);
    assert_asked_beside("o");
    assert_int_equal(fake.want, TOKENS);
    fake.more = TOKENS;
    assert_true(draw(lock, TOKENS) == TOKENS + TOKENS / 2); /* one row; half of the new ones are used, too */
    assert_asked_beside("o");
    assert_int_equal(fake.want, 2 * TOKENS);
    pawl_lock_free(lock);
}

/* They do not come in time: the claim goes back. */
static void test_tokens_that_take_time(void **state) {
    struct pawl_lock *lock;

    (void)state;
    use_ears();
    lock = mutex("lock", 0);
    draw(lock, TOKENS);
    assert_asked_beside("sow");
    fake.ordered = false;
    assert_true(draw(lock, 1) == TOKENS + 1);
    assert_asked_beside("s");
    pawl_lock_free(lock);
}

/* None are given: that is not asked again. */
static void test_tokens_that_are_refused(void **state) {
    struct pawl_lock *lock;

    (void)state;
    use_ears();
    fake.more = -1;
    lock = mutex("lock", 0);
    draw(lock, TOKENS);
    assert_asked_beside("sow");
    fake.ordered = false;
    fake.tokens = 1; /* there are no more: then none are asked for */
    draw(lock, 3);
    assert_asked_beside("swswsw");
    pawl_lock_free(lock);
}

/* Neither what others want, nor readers, who draw tokens of a common counter. */
static void test_tokens_are_not_ordered(void **state) {
    struct pawl_lock *lock, *reader;

    (void)state;
    use_ears();
    lock = mutex("lock", 0);
    reader = rwlock("reader");
    acquire(lock);
    last_claim(lock)->seam.token_count = UINT32_C(1) << 30; /* more would not be counted any more */
    last_claim(lock)->tokens.stock = 1;
    last_claim(lock)->tokens.low = 1;
    last_claim(lock)->tokens.ordered = true;
    fake.ordered = true;
    fake.more = 4;
    release(lock);
    draw(lock, 4);
    assert_asked_beside("s");
    tell(lock, NEWS_WANTED);
    fake.ordered = false;
    fake.wanted = true;
    acquire(lock);
    queue_up(1);
    release(lock);
    last_claim(lock)->tokens.stock = 2;
    assert_true(pawl_token(tasks[0]) > 0);
    release(tasks[0]);
    assert_asked_beside("wsw");
    pawl_dispatch(client);
    free_tasks(1);
    fake.wanted = false;
    for (int i = 0; i < TOKENS - 1; i++) {
        assert_works(pawl_acquire_shared(reader, PAWL_FOREVER, &error), &error);
        assert_true(pawl_token(reader) > 0);
        assert_works(pawl_release_shared(reader, &error), &error);
    }
    assert_asked_beside("s");
    pawl_lock_free(reader);
    pawl_lock_free(lock);
}

int main(void) {
#define STOCK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STOCK_TEST(test_who_hears),
        STOCK_TEST(test_bounds_of_several_count_from_wanted),
        STOCK_TEST(test_tokens_are_ordered_in_time),
        STOCK_TEST(test_tokens_that_take_time),
        STOCK_TEST(test_tokens_that_are_refused),
        STOCK_TEST(test_tokens_are_not_ordered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
