/* SPDX-License-Identifier: Apache-2.0
 *
 * test_value.c - values and observers in the core, on the engine of keep_fake.h with values that do what the test says: writes without an
 * answer, calls that overlap, changes during a look.
 */
#include "../support/keep_fake.h"
#include "base/error.h"

/* ---- The engine's values --------------------------------------------------------------------------------------------------- */

static struct {
    int set_answers;
    unsigned sets, gets, renewals;
    _Atomic unsigned looks;
    uint64_t number, token; /* of the last write */
    const char *lies;       /* what get() finds; NULL: nothing */
    uint64_t lies_token;
    void (*meanwhile)(void); /* during the next call */
    struct pawl_lock *lock;
    struct pawl__observer *observer;
    _Atomic int64_t look_by;
} values;

static void run_meanwhile(void) {
    void (*meanwhile)(void) = values.meanwhile;

    values.meanwhile = NULL;
    if (meanwhile)
        meanwhile();
}

static void fake_sign(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl__author *ret) {
    (void)engine, (void)claim;
    memset(ret, 0, sizeof *ret);
}

static int fake_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                    struct pawl_error *reterr) {
    int rc = values.set_answers;

    (void)engine, (void)deadline;
    values.sets++;
    values.number = write->number;
    values.token = write->token;
    run_meanwhile();
    *ret = (struct pawl__stamp){write->token, values.sets, 1};
    return rc < 0 ? pawl__fail(reterr, rc, "so says the test") : 0;
}

static int fake_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh, int64_t deadline,
                    struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr) {
    const char *found = values.lies;

    (void)engine, (void)name, (void)part, (void)fresh, (void)deadline, (void)retnow, (void)reterr;
    values.gets++;
    run_meanwhile();
    *ret = found ? pawl__value_new(found, strlen(found), &(struct pawl__stamp){values.lies_token, (uint64_t)(uintptr_t)found, 1})
                 : NULL;
    return 0;
}

static int fake_observe(struct pawl__engine *engine, struct pawl__observer *observer, struct pawl_error *reterr) {
    (void)engine, (void)reterr;
    observer->every_ns = PAWL__NEVER;
    values.observer = observer;
    return 0;
}

static void fake_unobserve(struct pawl__engine *engine, struct pawl__observer *observer) {
    (void)engine, (void)observer;
}

static int fake_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct pawl_entry entry = {.name = name, .token = 10, .label = "", .host = "", .claim = "", .remaining_ms = PAWL_FOREVER};

    (void)engine, (void)reterr;
    values.looks++;
    return visit(&entry, data);
}

static void count_renewal(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    values.renewals++;
}

static int fake_look(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                     struct pawl_error *reterr) {
    values.look_by = deadline;
    return fake_survey(engine, name, visit, data, reterr);
}

static const struct pawl__values fake_values = {fake_sign, fake_set, fake_get, fake_observe, fake_unobserve, NULL};
static const struct pawl__operators fake_operators = {.survey = fake_survey};
static struct pawl__engine_impl impl;

static int set_up_values(void **state) {
    int rc = set_up(state);

    memset(&values, 0, sizeof values);
    impl = fake_impl;
    impl.values = &fake_values;
    impl.operators = &fake_operators;
    impl.renew = count_renewal;
    client->engine->impl = &impl;
    client->engine->changed = pawl__observers_changed;
    client->engine->core = client;
    return rc;
}

static int set(struct pawl_lock *lock, const char *text) {
    return pawl_value_set(lock, text, strlen(text), &error);
}

static void assert_value(struct pawl_lock *lock, const char *text) {
    const struct pawl_value *value;

    assert_works(pawl_value_get(lock, &value, &error), &error);
    assert_true(text ? value && value->size == strlen(text) && memcmp(value->bytes, text, value->size) == 0 : !value);
    pawl_value_free(value);
}

/* ---- Writes without an answer ------------------------------------------------------------------------------------------------ */

/* The next thread has an entry of its own: in the name of the last one the write might still come. */
static void test_unsure_is_not_handed_on(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK), *next = mutex("lock", PAWL_TASK);

    (void)state;
    for (int unsure = 0; unsure < 2; unsure++) {
        acquire(lock);
        assert_asked("s");
        assert_works(pawl_acquire_start(next, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
        values.set_answers = unsure ? PAWL_EUNKNOWN : 0;
        assert_int_equal(set(lock, "text"), values.set_answers);
        release(lock);
        assert_asked(unsure ? "sw" : "");
        assert_int_equal(pawl_dispatch(client), 1);
        values.set_answers = 0;
        release(next);
        pawl_set_keep(next, 0, &error);
        pawl_set_keep(next, KEEP_MS, &error);
        fake.length = 0;
        fake.asked[0] = '\0';
    }
    pawl_lock_free(lock);
    pawl_lock_free(next);
}

static void ignore_outcome(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock, (void)result, (void)why, (void)data;
}

static void test_unsure_is_not_joined_nor_kept(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK), *next = mutex("lock", PAWL_TASK);

    (void)state;
    acquire(lock);
    values.set_answers = PAWL_EUNKNOWN;
    assert_fails(PAWL_EUNKNOWN, set(lock, "text"), &error);
    fake.queues = true;
    assert_works(pawl_acquire_start(next, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, ignore_outcome, NULL, &error), &error);
    assert_asked("ss");
    assert_int_equal(pawl_cancel(next), 1);
    assert_int_equal(pawl_dispatch(client), 1);
    release(lock);
    assert_asked("ww");
    pawl_lock_free(lock);
    pawl_lock_free(next);
}

/* Once a later one was written the server refuses the earlier one; but only of the same part. */
static void test_sure_again(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    acquire(lock);
    values.set_answers = PAWL_EUNKNOWN;
    assert_fails(PAWL_EUNKNOWN, pawl_note_set(lock, "note", 4, &error), &error);
    values.set_answers = 0;
    assert_works(set(lock, "text"), &error);
    assert_true(is_unsure(last_claim(lock)));
    values.set_answers = PAWL_EACCES;
    assert_fails(PAWL_EACCES, pawl_note_set(lock, "note", 4, &error), &error);
    assert_true(is_unsure(last_claim(lock)));
    values.set_answers = PAWL_EREPLICAS; /* that is written */
    assert_fails(PAWL_EREPLICAS, pawl_note_set(lock, "note", 4, &error), &error);
    assert_false(is_unsure(last_claim(lock)));
    assert_int_equal(values.number, 4);
    release(lock);
    assert_asked("sk");
    pawl_lock_free(lock);
}

static void release_meanwhile(void) {
    pawl_release(values.lock, NULL);
}

/* Another thread releases while the write is under way. */
static void test_released_during_a_write(void **state) {
    struct pawl_lock *lock = values.lock = mutex("lock", PAWL_TASK);

    (void)state;
    acquire(lock);
    values.meanwhile = release_meanwhile;
    assert_works(set(lock, "text"), &error);
    assert_asked("sw");
    acquire(lock); /* numbers begin anew with a claim */
    assert_works(set(lock, "text"), &error);
    assert_int_equal(values.number, 1);
    release(lock);
    pawl_lock_free(lock);
}

static void free_meanwhile(void) {
    pawl_lock_free(values.lock);
}

static void test_freed_during_a_call(void **state) {
    const struct pawl_value *value;

    (void)state;
    for (int i = 0; i < 2; i++) {
        values.lock = mutex("lock", PAWL_TASK);
        acquire(values.lock);
        values.meanwhile = free_meanwhile;
        if (i == 0)
            assert_works(set(values.lock, "text"), &error);
        else
            assert_works(pawl_value_get(values.lock, &value, &error), &error);
    }
}

/* The server knows before we do: it is asked at once, and tells. */
static void test_refused_write_is_asked_about(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    acquire(lock);
    values.set_answers = PAWL_ELOST;
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    assert_int_equal(values.renewals, 1);
    tell(lock, NEWS_LOST);
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    assert_int_equal(values.sets, 2);
    assert_int_equal(pawl_release(lock, NULL), PAWL_ELOST);
    pawl_lock_free(lock);
}

/* What the server has refused is neither handed on nor joined: those who wait have an entry of their own. */
static void test_refused_is_not_handed_on(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK), *next = mutex("lock", PAWL_TASK), *last = mutex("lock", PAWL_TASK);

    (void)state;
    outcomes = 0;
    acquire(lock);
    assert_works(pawl_acquire_start(next, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_asked("s");
    values.set_answers = PAWL_ELOST;
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    fake.queues = true;
    assert_works(pawl_acquire_start(last, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_asked("s");
    assert_int_equal(pawl_release(lock, NULL), PAWL_ELOST);
    assert_asked("w");
    fill(fake.last);
    tell(next, NEWS_GRANTED);
    release(next);
    release(last);
    pawl_dispatch(client);
    assert_int_equal(outcomes, 2);
    pawl_lock_free(lock);
    pawl_lock_free(next);
    pawl_lock_free(last);
}

/* A renewal that was on its way already tells nothing of what the server has said since. */
static void test_an_older_renewal_takes_no_denial_back(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);
    int64_t before;

    (void)state;
    acquire(lock);
    before = last_claim(lock)->seam.sent_at;
    tick(lock, last_claim(lock)->lease.renew_at);
    assert_int_equal(values.renewals, 1);
    values.set_answers = PAWL_ELOST;
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    last_claim(lock)->seam.sent_at = before + 1;
    tell(lock, NEWS_RENEWED);
    assert_int_equal(values.renewals, 2);
    assert_int_equal(pawl_release(lock, NULL), PAWL_ELOST);
    fake.length = 0;
    acquire(lock);
    assert_fails(PAWL_ELOST, set(lock, "text"), &error);
    last_claim(lock)->seam.sent_at = pawl__boottime();
    tell(lock, NEWS_RENEWED);
    release(lock);
    assert_asked("sk");
    pawl_lock_free(lock);
}

/* ---- What is remembered ------------------------------------------------------------------------------------------------------ */

static void test_remembered_while_shared_and_kept(void **state) {
    struct pawl_lock *lock = rwlock("lock");

    (void)state;
    values.lies = "text";
    for (int i = 0; i < 3; i++) {
        assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
        assert_value(lock, "text");
        assert_works(pawl_release_shared(lock, &error), &error);
    }
    assert_int_equal(values.gets, 1);
    tell(lock, NEWS_WANTED); /* it goes back: others may write */
    values.lies = NULL;
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_value(lock, NULL);
    assert_works(pawl_release_shared(lock, &error), &error);
    pawl_lock_free(lock);
}

/* Others may have written in the name of a hold that is over. */
static void test_forgotten_after_an_exclusive_hold(void **state) {
    struct pawl_lock *lock = rwlock("lock");

    (void)state;
    values.lies = "by token";
    for (int i = 0; i < 3; i++) {
        acquire(lock);
        assert_works(set(lock, "text"), &error);
        assert_value(lock, "text");
        release(lock);
    }
    assert_int_equal(values.gets, 0);
    acquire(lock);
    assert_value(lock, "by token");
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_value(lock, "by token");
    assert_value(lock, "by token");
    assert_int_equal(values.gets, 2);
    assert_works(pawl_release_shared(lock, &error), &error);
    pawl_lock_free(lock);
}

/* Nothing is remembered while a write may still come through. */
static void test_unsure_is_asked_each_time(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    values.lies = "old";
    acquire(lock);
    assert_value(lock, "old");
    values.set_answers = PAWL_EUNKNOWN;
    assert_fails(PAWL_EUNKNOWN, set(lock, "new"), &error);
    assert_value(lock, "old");
    values.lies = "new";
    assert_value(lock, "new");
    assert_int_equal(values.gets, 3);
    release(lock);
    pawl_lock_free(lock);
}

static void write_meanwhile(void) {
    set(values.lock, "new");
    values.lies = "new";
}

/* What a read found before a write of another thread is told, and not remembered. */
static void test_written_during_a_read(void **state) {
    struct pawl_lock *lock = values.lock = mutex("lock", PAWL_TASK);

    (void)state;
    acquire(lock);
    values.lies = "old";
    values.meanwhile = write_meanwhile;
    assert_value(lock, "old");
    assert_value(lock, "new");
    release(lock);
    pawl_lock_free(lock);
}

/* Of two writes at once nobody knows here which was the last. */
static void test_written_during_a_write(void **state) {
    struct pawl_lock *lock = values.lock = mutex("lock", PAWL_TASK);

    (void)state;
    acquire(lock);
    values.meanwhile = write_meanwhile;
    assert_works(set(lock, "first"), &error);
    values.lies = "the last";
    assert_value(lock, "the last");
    release(lock);
    pawl_lock_free(lock);
}

static struct pawl_lock *next_holder;

/* A handle that owns itself is released by another thread while it reads; and what it read is changed in its name before that. */
static void hand_on_meanwhile(void) {
    values.lies = "changed";
    release(values.lock);
    if (next_holder)
        acquire(next_holder);
}

/* What was read in one exclusive hold is not told to the next under the same claim, handed on or kept. */
static void test_handed_on_during_a_read(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK), *next = mutex("lock", PAWL_TASK);

    (void)state;
    for (int i = 0; i < 2; i++) {
        values.lock = lock;
        values.lies = "first";
        values.meanwhile = hand_on_meanwhile;
        next_holder = i == 0 ? next : NULL;
        acquire(lock);
        assert_value(lock, "first");
        if (i == 1)
            acquire(next);
        assert_value(next, "changed");
        release(next);
    }
    pawl_lock_free(next);
    pawl_lock_free(lock);
}

static void downgrade_meanwhile(void) {
    values.lies = "changed";
    assert_works(pawl_downgrade(values.lock, &error), &error);
}

static void test_downgraded_during_a_read(void **state) {
    struct pawl_lock *lock = values.lock = rwlock("lock");

    (void)state;
    values.lies = "first";
    values.meanwhile = downgrade_meanwhile;
    acquire(lock);
    assert_value(lock, "first");
    assert_value(lock, "changed");
    assert_works(pawl_release_shared(lock, &error), &error);
    pawl_lock_free(lock);
}

/* ---- Observers --------------------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    unsigned calls;
    char value[16];
    bool own;
} told = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void observed(const struct pawl_observed *seen, void *data) {
    (void)data;
    pthread_mutex_lock(&told.mutex);
    told.calls++;
    snprintf(told.value, sizeof told.value, "%.*s", seen->value ? (int)seen->value->size : 1,
             seen->value ? (const char *)seen->value->bytes : "-");
    told.own = seen->holders_value;
    pthread_mutex_unlock(&told.mutex);
}

static bool last_told(const char *value, bool own) {
    bool so;

    pthread_mutex_lock(&told.mutex);
    so = told.calls && strcmp(told.value, value) == 0 && told.own == own;
    pthread_mutex_unlock(&told.mutex);
    return so;
}

static void change_meanwhile(void) {
    values.lies = "new";
    values.lies_token = 10;
    client->engine->changed(client->engine->core, values.observer);
}

/* What changes while it is looked at is looked at again. */
static void test_change_during_a_look(void **state) {
    struct pawl_observer *observer;

    (void)state;
    told.calls = 0;
    values.lies = "old";
    values.lies_token = 9; /* of an earlier holder */
    values.meanwhile = change_meanwhile;
    assert_works(pawl_observe(client, "lock", observed, NULL, &observer, &error), &error);
    await(last_told("new", true), "the change was missed");
    pawl_unobserve(observer);
}

static unsigned told_calls(void) {
    unsigned count;

    pthread_mutex_lock(&told.mutex);
    count = told.calls;
    pthread_mutex_unlock(&told.mutex);
    return count;
}

/* One of several hears that it should look; what it sees is for all of them. */
static void test_a_look_is_for_all(void **state) {
    enum { COUNT = 8 };
    struct pawl_observer *observers[COUNT];
    unsigned looks;

    (void)state;
    told.calls = 0;
    values.lies = "old";
    values.lies_token = 9;
    for (int i = 0; i < COUNT; i++)
        assert_works(pawl_observe(client, "lock", observed, NULL, &observers[i], &error), &error);
    await(told_calls() == COUNT, "not all were told what is");
    looks = values.looks;
    change_meanwhile();
    await(told_calls() == 2 * COUNT, "not all were told of the change");
    assert_true(last_told("new", true));
    assert_true(values.looks - looks < COUNT);
    for (int i = 0; i < COUNT; i++)
        pawl_unobserve(observers[i]);
}

/* The holder's tokens begin with 10. */
static void test_whose_value_it_is(void **state) {
    static const struct {
        uint64_t token;
        bool own;
    } cases[] = {{9, false}, {10, true}, {11, true}, {137, true}};
    struct pawl_observer *observer;

    (void)state;
    values.lies = "value";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        told.calls = 0;
        values.lies_token = cases[i].token;
        assert_works(pawl_observe(client, "lock", observed, NULL, &observer, &error), &error);
        await(last_told("value", cases[i].own), "never told of token %llu", (unsigned long long)cases[i].token);
        pawl_unobserve(observer);
    }
}

/* The lock is looked at, and once more: so all that follows from the first of these looks is done. */
static void change_and_look(void) {
    unsigned looks = values.looks;

    change_meanwhile();
    await(values.looks > looks, "the change was not looked at");
    client->engine->changed(client->engine->core, values.observer);
    await(values.looks > looks + 1, "the lock was not looked at again");
}

/* Another thread dispatches while the callback runs: here it is the same one, in the callback. */
static void observed_slowly(const struct pawl_observed *seen, void *data) {
    int *nested = data;

    observed(seen, NULL);
    if (told.calls > 1)
        return;
    change_and_look();
    *nested = pawl_dispatch(client);
}

/* Callbacks of one observer never overlap: else pawl_unobserve would wait for one of them alone. */
static void test_one_callback_at_a_time(void **state) {
    struct pawl_observer *observer;
    int nested = -1, count;

    (void)state;
    told.calls = 0;
    client->flags |= PAWL_OPEN_LOSS_BY_DISPATCH;
    values.lies = "old";
    values.lies_token = 9;
    assert_works(pawl_observe(client, "lock", observed_slowly, &nested, &observer, &error), &error);
    await((count = pawl_dispatch(client)) > 0, "nothing was told");
    assert_int_equal(nested, 0);
    assert_int_equal(count, 2);
    assert_true(last_told("new", true));
    pawl_unobserve(observer);
}

/* pawl_close waits for a look: so it has one deadline, that of the value. */
static void test_a_look_has_a_deadline(void **state) {
    struct pawl__values with_look = fake_values;
    struct pawl_observer *observer;

    (void)state;
    told.calls = 0;
    with_look.look = fake_look;
    impl.values = &with_look;
    assert_works(pawl_observe(client, "lock", observed, NULL, &observer, &error), &error);
    await(last_told("-", false), "it was not told");
    pawl_unobserve(observer);
    assert_in_range(values.look_by, 1, pawl__boottime() + PAWL__CLOSE_NS);
    impl.values = &fake_values;
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up_values, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_unsure_is_not_handed_on),
        T(test_unsure_is_not_joined_nor_kept),
        T(test_sure_again),
        T(test_released_during_a_write),
        T(test_freed_during_a_call),
        T(test_refused_write_is_asked_about),
        T(test_refused_is_not_handed_on),
        T(test_an_older_renewal_takes_no_denial_back),
        T(test_remembered_while_shared_and_kept),
        T(test_forgotten_after_an_exclusive_hold),
        T(test_unsure_is_asked_each_time),
        T(test_written_during_a_read),
        T(test_written_during_a_write),
        T(test_handed_on_during_a_read),
        T(test_downgraded_during_a_read),
        T(test_change_during_a_look),
        T(test_a_look_is_for_all),
        T(test_whose_value_it_is),
        T(test_one_callback_at_a_time),
        T(test_a_look_has_a_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
