/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_label.c - pawl_set_label: what a handle's holds are for, as an operator sees it.
 */
#include "contract.h"

static struct pawl_error error;

/* The labels of "lock", holders first, each in brackets. */
struct labels {
    char text[1024];
};

static int add_label(const struct pawl_entry *entry, void *data) {
    struct labels *labels = data;
    size_t used = strlen(labels->text);

    snprintf(labels->text + used, sizeof labels->text - used, "[%s]", entry->label);
    return 0;
}

static bool shows(const char *name, const char *text) {
    struct labels labels = {""};

    assert_works(pawl_inspect(two, name, add_label, &labels, &error), &error);
    return strcmp(labels.text, text) == 0;
}

/* In the end: a voter that is late still shows what was released. */
#define assert_labels(text) await(shows("lock", text), "it does not show %s", text)

static void set_label(struct pawl_lock *lock, const char *label) {
    assert_works(pawl_set_label(lock, label, &error), &error);
}

static void test_holder_and_waiter(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;

    (void)state;
    set_label(held, "order 4711");
    set_label(other, "order 4712");
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    assert_labels("[order 4711]");
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_labels("[order 4711][order 4712]");
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_labels("[order 4712]");
    contract_finish(&thread);
    pawl_lock_free(held);
    pawl_lock_free(other);
}

/* The client's and one's own, in turn; also where the engine keeps the claim without being asked to. */
static void test_changed_between_acquires(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    char label[16], shown[20], last[20] = "";

    (void)state;
    for (int i = 0; i < 24; i++) {
        snprintf(label, sizeof label, "order %d", i / 2);
        set_label(lock, i % 6 == 5 ? NULL : label);
        snprintf(shown, sizeof shown, "[%s]", i % 6 == 5 ? "contract" : label);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        if (contract_engine->keep && shows("lock", last)) /* it was kept */
            strcpy(shown, last);
        assert_labels(shown);
        strcpy(last, shown);
        set_label(lock, "the next one's");
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* re-entry */
        assert_labels(shown);
        assert_works(pawl_release(lock, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
}

/* What is kept is kept with its label, also when its handle is gone; what was given back is taken with another. Whether the first one is
 * kept is for the engine to say. */
static void test_kept(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *next = contract_mutex(one, 0);

    (void)state;
    set_label(lock, "first");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    set_label(next, "second");
    assert_works(pawl_acquire(next, PATIENCE_MS, &error), &error);
    if (!contract_engine->keep || !shows("lock", "[first]"))
        assert_labels("[second]");
    assert_works(pawl_release(next, &error), &error);
    if (contract_engine->keeps)
        assert_works(pawl_set_keep(next, 0, &error), &error);
    await(contract_holders(two) == 0, "it is kept");
    assert_works(pawl_acquire(next, PATIENCE_MS, &error), &error);
    assert_labels("[second]");
    pawl_lock_free(next);
}

static void test_long_and_odd(void **state) {
    static const char *const odd[] = {"a=b %41 100% \"'\\<&> label=x", "", "订单 4711 – ½", "\xff\xfe", " ", "%"};
    struct pawl_lock *lock = contract_mutex(one, 0);
    char longest[129], shown[140];

    (void)state;
    memset(longest, '%', sizeof longest);
    longest[128] = '\0';
    assert_fails(PAWL_EOPTION, pawl_set_label(lock, longest, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_set_label(lock, "two\nlines", &error), &error);
    assert_fails(PAWL_EINVAL, pawl_set_label(NULL, "x", &error), &error);
    assert_fails(PAWL_EINVAL, pawl_set_label(NULL, NULL, &error), &error);
    longest[127] = '\0';
    for (size_t i = 0; i <= sizeof odd / sizeof odd[0]; i++) {
        const char *label = i < sizeof odd / sizeof odd[0] ? odd[i] : longest;

        set_label(lock, label);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        snprintf(shown, sizeof shown, "[%s]", label);
        assert_labels(shown);
        assert_works(pawl_release(lock, &error), &error);
        if (contract_engine->keep)
            assert_works(pawl_set_keep(lock, 0, &error), &error);
        await(contract_holders(two) == 0, "it is kept");
    }
    pawl_lock_free(lock);
}

/* Who gives up is found by what it queued with. */
static void test_changed_while_it_waits(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    set_label(other, "before");
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    set_label(other, "after");
    assert_labels("[contract][before]");
    pawl_cancel(other);
    assert_int_equal(contract_await(&thread), PAWL_ECANCELED);
    contract_finish(&thread);
    await(contract_waiters(one) == 0, "its place in the queue is still there");
    assert_works(pawl_release(held, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_labels("[after]");
    pawl_lock_free(held);
    pawl_lock_free(other);
}

/* Readers of one process share a claim, a downgrade keeps it, permits are claims of their own. */
static void test_shared_claims(void **state) {
    struct pawl_lock *first = contract_rwlock(one, PAWL_TASK), *second = contract_rwlock(one, PAWL_TASK), *semaphore;

    (void)state;
    set_label(first, "first");
    set_label(second, "second");
    assert_works(pawl_acquire(first, PATIENCE_MS, &error), &error);
    set_label(first, NULL);
    assert_works(pawl_downgrade(first, &error), &error);
    assert_labels("[first]");
    assert_works(pawl_acquire_shared(second, PATIENCE_MS, &error), &error);
    assert_true(shows("lock", "[first]") || shows("lock", "[first][second]"));
    pawl_lock_free(first);
    pawl_lock_free(second);
    assert_works(pawl_semaphore_new(one, "permits", 5, 0, &semaphore, &error), &error);
    set_label(semaphore, "third");
    assert_works(pawl_acquire_permits(semaphore, 2, PATIENCE_MS, &error), &error);
    set_label(semaphore, "fourth");
    assert_works(pawl_acquire_permits(semaphore, 2, PATIENCE_MS, &error), &error);
    assert_true(shows("permits", "[third][fourth]") || shows("permits", "[fourth][third]"));
    pawl_lock_free(semaphore);
}

static void test_set(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other;
    struct pawl_part parts[2];

    (void)state;
    assert_works(pawl_mutex_new(one, "other", 0, &other, &error), &error);
    set_label(lock, "of the one");
    set_label(other, "of the other");
    parts[0] = (struct pawl_part){lock, PAWL_EXCLUSIVE, 0};
    parts[1] = (struct pawl_part){other, PAWL_EXCLUSIVE, 0};
    assert_works(pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error);
    assert_labels("[of the one]");
    await(shows("other", "[of the other]"), "it does not show that of the other");
    assert_works(pawl_release_all(parts, 2, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_closed(void **state) {
    struct pawl *third = contract_open("");
    struct pawl_lock *lock = contract_mutex(third, 0);

    (void)state;
    set_label(lock, "before");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_close(third);
    assert_fails(PAWL_ECLOSED, pawl_set_label(lock, "after", &error), &error);
    pawl_lock_free(lock);
}

int contract_run_label(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_holder_and_waiter),
        CONTRACT_TEST(test_changed_between_acquires),
        CONTRACT_TEST(test_kept),
        CONTRACT_TEST(test_long_and_odd),
        CONTRACT_TEST(test_changed_while_it_waits),
        CONTRACT_TEST(test_shared_claims),
        CONTRACT_TEST(test_set),
        CONTRACT_TEST(test_closed),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0], "test_shared_claims");
}
