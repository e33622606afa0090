/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_callbacks.c - what may not be called in a callback answers so, and nothing hangs; what may be called works.
 *
 * A call is made by the first callback of a test's client, and what it answered is kept.
 */
#include "contract.h"

static struct pawl_error error;

/* What the callback calls, and on what. */
typedef int call_fn(struct pawl_error *reterr);
static call_fn *call;
static struct pawl *client;
static struct pawl_lock *lock, *other;

static _Atomic bool armed, called;
static int answer;
static char text[PAWL_ERROR_TEXT_SIZE];
static _Atomic unsigned warned;

enum { SHORT_MS = 500 };

static void make_call(void) {
    struct pawl_error why = {.text = ""};

    if (!atomic_exchange(&armed, false))
        return;
    answer = call(&why);
    strcpy(text, why.text);
    atomic_store(&called, true);
}

static void arm(call_fn *fn) {
    call = fn;
    atomic_store(&called, false);
    atomic_store(&warned, 0);
    atomic_store(&armed, true);
}

/* It was called, and answered so. */
static int answered(void) {
    await(atomic_load(&called), "the callback was never called");
    return answer;
}

static void on_log(enum pawl_log_level level, const char *line, void *data) {
    (void)data;
    if (level == PAWL_LOG_WARNING && strstr(line, "pawl_close was called in the callback"))
        atomic_fetch_add(&warned, 1);
}

static void on_trace(enum pawl_log_level level, const char *line, void *data) {
    (void)level, (void)line, (void)data;
    make_call();
}

/* Asked once a second, if not sooner; the wait goes on until the call was made. */
static int interrupted(void *data) {
    (void)data;
    make_call();
    return atomic_load(&called);
}

static void on_deadlock(const struct pawl_deadlock *found, void *data) {
    (void)found, (void)data;
    make_call();
}

static void on_loss(struct pawl_lock *lost, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lost, (void)token, (void)why, (void)data;
    if (state == PAWL_LOST)
        make_call();
}

static void on_observed(const struct pawl_observed *seen, void *data) {
    (void)seen, (void)data;
    make_call();
}

static int on_entry(const struct pawl_entry *entry, void *data) {
    (void)entry, (void)data;
    make_call();
    return 0;
}

static int on_finding(const struct pawl_finding *finding, void *data) {
    (void)finding, (void)data;
    make_call();
    return 0;
}

static void on_acquired(struct pawl_lock *acquired, int result, const struct pawl_error *why, void *data) {
    (void)acquired, (void)result, (void)why, (void)data;
    make_call();
}

static void open_client(struct pawl_options how) {
    how.log = on_log;
    client = contract_open_as("", how);
}

static struct pawl_lock *mutex_named(const char *name, unsigned flags) {
    struct pawl_lock *made;

    assert_works(pawl_mutex_new(client, name, flags, &made, &error), &error);
    return made;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------------ */

static int close_client(struct pawl_error *reterr) {
    (void)reterr;
    return pawl_close(client);
}

static int free_all_and_close(struct pawl_error *reterr) {
    (void)reterr;
    pawl_lock_free(lock);
    return pawl_close(client);
}

static int free_lock(struct pawl_error *reterr) {
    (void)reterr;
    pawl_lock_free(lock);
    return 0;
}

static int acquire_lock(struct pawl_error *reterr) {
    return pawl_acquire(lock, PAWL_FOREVER, reterr);
}

static int acquire_other(struct pawl_error *reterr) {
    return pawl_acquire(other, PAWL_FOREVER, reterr);
}

static int extend_other(struct pawl_error *reterr) {
    return pawl_extend(other, SHORT_MS, PAWL_FOREVER, reterr);
}

static int read_value(struct pawl_error *reterr) {
    const struct pawl_value *value = NULL;
    int rc = pawl_value_read(client, "other", &value, reterr);

    pawl_value_free(value);
    return rc;
}

static int inspect(struct pawl_error *reterr) {
    return pawl_inspect(client, NULL, on_entry, NULL, reterr);
}

static int examine(struct pawl_error *reterr) {
    return pawl_examine(client, on_finding, NULL, reterr);
}

/* Those that have an answer must all give that one; of the others nothing may hang. */
static int call_everything(struct pawl_error *reterr) {
    struct pawl_part part = {lock, PAWL_EXCLUSIVE, 0};
    struct pawl_counters counters = {.size = sizeof counters};
    struct pawl_observer *observer;
    struct pawl_lock *made;
    struct pawl *opened;
    int answers[] = {
        pawl_open(contract_engine->url, NULL, &opened, reterr),
        pawl_mutex_new(client, "made", 0, &made, reterr),
        pawl_set_max_hold(lock, 0, reterr),
        pawl_set_keep(lock, 0, reterr),
        pawl_set_label(lock, "label", reterr),
        pawl_acquire(lock, 0, reterr),
        pawl_release(lock, reterr),
        pawl_extend(lock, 1000, 0, reterr),
        pawl_cancel(lock),
        pawl_on_loss(lock, NULL, NULL, reterr),
        pawl_fd(client),
        pawl_dispatch(client),
        pawl_acquire_all(&part, 1, 0, reterr),
        pawl_inspect(client, NULL, on_entry, NULL, reterr),
        pawl_observe(client, "lock", on_observed, NULL, &observer, reterr),
        pawl_break(client, "lock", 1, 0, reterr),
        pawl_examine(client, on_finding, NULL, reterr),
        pawl_stats(client, &counters),
        pawl_close(client),
    };

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (answers[i] != PAWL_EDEADLK) {
            snprintf(reterr->text, sizeof reterr->text, "call %zu answered %d", i, answers[i]);
            return answers[i];
        }
    pawl_state(lock);
    pawl_token(lock);
    pawl_remaining_ms(lock);
    pawl_lock_free(lock);
    return PAWL_EDEADLK;
}

/* ---- pawl_close ------------------------------------------------------------------------------------------------------------- */

static void assert_refused(void) {
    assert_int_equal(answered(), PAWL_EDEADLK);
    await(atomic_load(&warned) > 0, "there is no sentence in the log");
}

/* The client is as good as before. */
static void still_good(void) {
    struct pawl_lock *third = mutex_named("third", 0);

    atomic_store(&called, false); /* it ends no wait any more */
    assert_works(pawl_acquire(third, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(third, &error), &error);
    pawl_lock_free(third);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    lock = other = NULL;
    assert_int_equal(pawl_close(client), 0);
}

static void begin(struct pawl_options how) {
    open_client(how);
    lock = contract_mutex(client, 0);
    other = mutex_named("other", 0);
}

/* Of one that waits in the engine, of one that sleeps behind it, and of one behind an asynchronous acquire, which the service thread waits
 * for. */
static void test_close_where_one_waits(void **state) {
    enum { ALONE, SECOND, BEHIND_A_TASK, CASES };

    (void)state;
    for (int which = ALONE; which < CASES; which++) {
        struct pawl_lock *held = contract_mutex(one, 0), *task = NULL;
        struct contract_outcome outcome = {0, 0};
        struct contract_thread first;

        begin((struct pawl_options){.interrupted = interrupted});
        assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
        if (which == SECOND) {
            contract_start(&first, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
            contract_await_waiters(one, 1);
        }
        if (which == BEHIND_A_TASK) {
            task = contract_mutex(client, PAWL_TASK);
            assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, contract_acquired, &outcome, &error), &error);
        }
        arm(close_client);
        assert_fails(PAWL_ECANCELED, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_refused();
        pawl_lock_free(held);
        if (which == SECOND) {
            contract_await(&first);
            contract_finish(&first);
        }
        pawl_lock_free(task);
        still_good();
    }
}

static void test_close_where_a_set_waits(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0);
    struct pawl_part parts[2];

    (void)state;
    begin((struct pawl_options){.interrupted = interrupted});
    parts[0] = (struct pawl_part){lock, PAWL_EXCLUSIVE, 0};
    parts[1] = (struct pawl_part){other, PAWL_EXCLUSIVE, 0};
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    arm(close_client);
    assert_fails(PAWL_ECANCELED, pawl_acquire_all(parts, 2, PAWL_FOREVER, &error), &error);
    assert_refused();
    pawl_lock_free(held);
    still_good();
}

static void lose(void) {
    assert_works(pawl_on_loss(lock, on_loss, NULL, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
}

static void test_close_where_a_loss_is_told(void **state) {
    (void)state;
    for (int by_dispatch = 0; by_dispatch < 2; by_dispatch++) {
        begin((struct pawl_options){.flags = by_dispatch ? PAWL_OPEN_LOSS_BY_DISPATCH : 0});
        arm(close_client);
        lose();
        await((pawl_dispatch(client), atomic_load(&called)), "the loss was never told");
        assert_refused();
        still_good();
    }
}

static void test_close_where_one_observes(void **state) {
    struct pawl_observer *observer;

    (void)state;
    for (int by_dispatch = 0; by_dispatch < 2; by_dispatch++) {
        begin((struct pawl_options){.flags = by_dispatch ? PAWL_OPEN_LOSS_BY_DISPATCH : 0});
        arm(close_client);
        assert_works(pawl_observe(client, "lock", on_observed, NULL, &observer, &error), &error);
        await((pawl_dispatch(client), atomic_load(&called)), "the observer was never told");
        assert_refused();
        still_good();
    }
}

static void test_close_where_one_looks(void **state) {
    int rc;

    (void)state;
    begin((struct pawl_options){0});
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    arm(close_client);
    assert_works(pawl_inspect(client, "lock", on_entry, NULL, &error), &error);
    assert_refused();
    arm(close_client);
    rc = pawl_examine(client, on_finding, NULL, &error);
    assert_true(rc == 0 || rc == PAWL_EUNSUPPORTED);
    if (rc == 0)
        assert_refused();
    still_good();
}

/* Two threads of the client that wait for each other. */
static void *take_both(void *data) {
    (void)data;
    pawl_acquire(other, PATIENCE_MS, NULL);
    atomic_store(&armed, true);
    pawl_acquire(lock, PATIENCE_MS, NULL);
    return NULL;
}

static void test_close_where_a_deadlock_is_told(void **state) {
    pthread_t thread;

    (void)state;
    begin((struct pawl_options){.deadlock = on_deadlock});
    arm(close_client);
    atomic_store(&armed, false);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, take_both, NULL), 0);
    await(atomic_load(&armed), "the other is not taken");
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 3000, &error), &error);
    assert_refused();
    pawl_release(lock, &error);
    pthread_join(thread, NULL);
    still_good();
}

/* The callback of an asynchronous acquire may end it all, its own client too. */
static void test_close_where_acquired(void **state) {
    (void)state;
    open_client((struct pawl_options){0});
    lock = contract_mutex(client, PAWL_TASK);
    arm(free_all_and_close);
    assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, on_acquired, NULL, &error), &error);
    for (struct pawl *dispatched = client; !atomic_load(&called);)
        pawl_dispatch(dispatched);
    assert_int_equal(answered(), 0);
}

/* ---- Other calls ------------------------------------------------------------------------------------------------------------ */

static void test_call_in_the_log(void **state) {
    (void)state;
    client = contract_open_traced(on_trace, NULL);
    lock = contract_mutex(client, 0);
    other = NULL;
    arm(call_everything);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    if (answered() != PAWL_EDEADLK)
        fail_msg("%s", text);
    assert_int_equal(pawl_state(lock), PAWL_HELD); /* it was not freed */
    still_good();
}

/* Where only the service thread reads answers, it can't be asked for one in a callback on it. */
static void test_call_where_a_loss_is_told(void **state) {
    static call_fn *const calls[] = {read_value, inspect, examine};
    bool deaf = strcmp(contract_engine->name, "zk") == 0;

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        begin((struct pawl_options){0});
        arm(calls[i]);
        lose();
        if ((answered() == PAWL_EDEADLK) != deaf)
            fail_msg("call %zu answered %d: %s", i, answer, text);
        still_good();
    }
}

/* No engine lets it wait for a lock there. */
static void test_acquire_where_a_loss_is_told(void **state) {
    struct pawl_lock *held;

    (void)state;
    begin((struct pawl_options){0});
    assert_works(pawl_mutex_new(one, "other", 0, &held, &error), &error);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    arm(acquire_other);
    lose();
    assert_int_equal(answered(), PAWL_EDEADLK);
    pawl_lock_free(held);
    still_good();
}

/* Only the service thread hears that it was renewed. Where it can't, the limit stays as it was. */
static void test_extend_where_a_loss_is_told(void **state) {
    bool waits = strcmp(contract_engine->name, "local") != 0;

    (void)state;
    begin((struct pawl_options){0});
    pawl_lock_free(other);
    other = mutex_named("other", PAWL_TASK);
    assert_works(pawl_set_max_hold(other, 600000, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    arm(extend_other);
    lose();
    assert_int_equal(answered(), waits ? PAWL_EDEADLK : 0);
    assert_int_equal(pawl_remaining_ms(other) < SHORT_MS, !waits);
    still_good();
}

static void test_free_where_a_loss_is_told(void **state) {
    (void)state;
    begin((struct pawl_options){0});
    arm(free_lock);
    lose();
    assert_int_equal(answered(), 0);
    lock = NULL;
    still_good();
}

/* Behind itself, in a callback of its own wait. */
static void test_acquire_what_one_waits_for(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0);

    (void)state;
    begin((struct pawl_options){.interrupted = interrupted});
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    arm(acquire_lock);
    assert_fails(PAWL_ECANCELED, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(answered(), PAWL_EDEADLK);
    pawl_lock_free(held);
    still_good();
}

int contract_run_callbacks(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_close_where_one_waits),
        CONTRACT_TEST(test_close_where_a_set_waits),
        CONTRACT_TEST(test_close_where_a_loss_is_told),
        CONTRACT_TEST(test_close_where_one_looks),
        CONTRACT_TEST(test_close_where_a_deadlock_is_told),
        CONTRACT_TEST(test_close_where_acquired),
        CONTRACT_TEST(test_call_in_the_log),
        CONTRACT_TEST(test_call_where_a_loss_is_told),
        CONTRACT_TEST(test_acquire_where_a_loss_is_told),
        CONTRACT_TEST(test_extend_where_a_loss_is_told),
        CONTRACT_TEST(test_free_where_a_loss_is_told),
        CONTRACT_TEST(test_acquire_what_one_waits_for),
        CONTRACT_TEST(test_close_where_one_observes), /* last: not where there are no values */
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0] - contract_engine->no_values, "");
}
