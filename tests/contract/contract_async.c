/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_async.c - acquiring without blocking: every acquire ends exactly once, and only in pawl_dispatch().
 */
#include "contract.h"

#include <poll.h>
#include <time.h>

static struct pawl_error error;

static void start(struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms, struct contract_outcome *outcome) {
    *outcome = (struct contract_outcome){0, 1};
    assert_works(pawl_acquire_start(lock, mode, 1, timeout_ms, contract_acquired, outcome, &error), &error);
    assert_int_equal(outcome->calls, 0); /* never from within the call */
}

static void test_granted_at_once_is_told_later(void **state) {
    struct pawl_lock *lock = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome, again;

    (void)state;
    start(lock, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, 0);
    assert_true(pawl_token(lock) > 0);
    start(lock, PAWL_EXCLUSIVE, 0, &again); /* a re-entry */
    contract_await_outcome(one, &again);
    assert_int_equal(again.result, 0);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void test_granted_when_the_holder_lets_go(void **state) {
    struct pawl_lock *holder = contract_rwlock(two, 0), *lock = contract_rwlock(one, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_SHARED, PAWL_FOREVER, &outcome);
    contract_await_waiters(two, 1);
    assert_int_equal(pawl_dispatch(one), 0);
    assert_works(pawl_release(holder, &error), &error);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, 0);
    assert_works(pawl_release_shared(lock, &error), &error);
    pawl_lock_free(holder);
    pawl_lock_free(lock);
}

/* Stops a thread right where it is about to tell the core what the trace says. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *text, *or_text;
    bool reached, open;
};

#define GATE_INIT(...)                                                                                                             \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, __VA_ARGS__, false, false }

static void stop_at_the_gate(enum pawl_log_level level, const char *text, void *data) {
    struct gate *gate = data;

    if (level != PAWL_LOG_TRACE || !(strstr(text, gate->text) || strstr(text, gate->or_text)))
        return;
    pthread_mutex_lock(&gate->mutex);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void await_gate(struct gate *gate) {
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&gate->mutex);
    while (!gate->reached && rc == 0)
        rc = pthread_cond_timedwait(&gate->changed, &gate->mutex, &until);
    pthread_mutex_unlock(&gate->mutex);
    if (rc != 0)
        fail_msg("the trace never says '%s'", gate->text);
}

static void open_gate(struct gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

/* The engine says that a downgrade has come through while the hold is being released: that is not the end of the release. */
static void test_release_while_a_downgrade_is_told(void **state) {
    struct gate gate = GATE_INIT("< downgraded", "< downgraded");
    struct pawl *client = contract_open_traced(stop_at_the_gate, &gate);
    struct pawl_lock *holder = contract_rwlock(two, 0), *lock = contract_rwlock(client, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome); /* has to wait: so the service thread looks after it from now on */
    contract_await_waiters(two, 1);
    assert_works(pawl_release(holder, &error), &error);
    contract_await_outcome(client, &outcome);
    assert_int_equal(outcome.result, 0);
    assert_works(pawl_downgrade(lock, &error), &error);
    await_gate(&gate);
    assert_works(pawl_release_shared(lock, &error), &error);
    open_gate(&gate);
    assert_works(pawl_acquire(holder, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(holder, &error), &error);
    start(lock, PAWL_EXCLUSIVE, PATIENCE_MS, &outcome); /* the client is none the worse for it */
    contract_await_outcome(client, &outcome);
    assert_int_equal(outcome.result, 0);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(holder);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A thread is cancelled when the engine has granted it the lock, and the core has not heard of that yet: the lock is given back. */
static void test_cancel_while_a_grant_is_told(void **state) {
    struct gate gate = GATE_INIT("< waited: done", "< granted"); /* by its own thread; or by that which serves it */
    struct pawl *client = contract_open_traced(stop_at_the_gate, &gate);
    struct pawl_lock *holder = contract_mutex(two, 0), *lock = contract_mutex(client, 0);
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    contract_start(&thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(two, 1);
    assert_works(pawl_release(holder, &error), &error);
    await_gate(&gate);
    assert_int_equal(pawl_cancel(lock), 1);
    open_gate(&gate);
    assert_int_equal(contract_await(&thread), PAWL_ECANCELED);
    contract_finish(&thread);
    assert_works(pawl_acquire(holder, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(holder, &error), &error);
    pawl_lock_free(holder);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_many_pending_at_once(void **state) {
    enum { LOCKS = 20 };
    struct pawl_lock *held[LOCKS], *locks[LOCKS];
    struct contract_outcome outcomes[LOCKS];
    char name[16];

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "m%d", i);
        assert_works(pawl_mutex_new(two, name, 0, &held[i], &error), &error);
        assert_works(pawl_mutex_new(one, name, PAWL_TASK, &locks[i], &error), &error);
        assert_works(pawl_acquire(held[i], PAWL_FOREVER, &error), &error);
        start(locks[i], PAWL_EXCLUSIVE, PAWL_FOREVER, &outcomes[i]);
    }
    for (int i = LOCKS; i-- > 0;) {
        assert_works(pawl_release(held[i], &error), &error);
        contract_await_outcome(one, &outcomes[i]);
        assert_int_equal(outcomes[i].result, 0);
    }
    for (int i = 0; i < LOCKS; i++) {
        pawl_lock_free(held[i]);
        pawl_lock_free(locks[i]);
    }
}

static void test_time_out_try_and_cancel(void **state) {
    struct pawl_lock *holder = contract_mutex(two, 0), *lock = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_EXCLUSIVE, 20, &outcome);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, PAWL_ETIMEOUT);
    start(lock, PAWL_EXCLUSIVE, 0, &outcome);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, PAWL_EHELD);
    start(lock, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome);
    assert_fails(PAWL_EBUSY, pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, 0, contract_acquired, &outcome, &error), &error);
    assert_fails(PAWL_EBUSY, pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(pawl_cancel(lock), 1);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, PAWL_ECANCELED);
    assert_int_equal(pawl_cancel(lock), 0);
    contract_await_waiters(two, 0);
    pawl_lock_free(holder);
    pawl_lock_free(lock);
}

/* The same where a thread of the process holds it: nobody asks the engine then. */
static void test_time_out_beside_a_thread(void **state) {
    struct pawl_lock *holder = contract_mutex(one, 0), *lock = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_EXCLUSIVE, 20, &outcome);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, PAWL_ETIMEOUT);
    assert_works(pawl_release(holder, &error), &error);
    pawl_lock_free(holder);
    pawl_lock_free(lock);
}

static void test_free_while_pending(void **state) {
    struct pawl_lock *holder = contract_mutex(two, 0), *lock = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome);
    pawl_lock_free(lock);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, PAWL_ECANCELED);
    pawl_lock_free(holder);
}

static void test_close_while_pending(void **state) {
    struct pawl *client = contract_open("");
    struct pawl_lock *holder = contract_mutex(two, 0), *lock = contract_mutex(client, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    start(lock, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome);
    pawl_close(client); /* the last to run callbacks */
    assert_int_equal(outcome.calls, 1);
    assert_int_equal(outcome.result, PAWL_ECLOSED);
    pawl_lock_free(lock);
    pawl_lock_free(holder);
}

/* A thread and a task wait behind the same claim; the first in the queue is served first, also if the other one waits in the engine. */
static void test_threads_and_tasks_in_one_queue(void **state) {
    struct pawl_lock *holder = contract_mutex(two, 0), *task = contract_mutex(one, PAWL_TASK), *plain = contract_mutex(one, 0);
    struct contract_thread thread;
    struct contract_outcome outcome;

    (void)state;
    assert_works(pawl_acquire(holder, PAWL_FOREVER, &error), &error);
    contract_start(&thread, plain, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(two, 1);
    start(task, PAWL_EXCLUSIVE, PAWL_FOREVER, &outcome); /* joins the thread's claim */
    assert_int_equal(pawl_cancel(plain), 1);             /* and is alone in it now */
    assert_int_equal(contract_await(&thread), PAWL_ECANCELED);
    contract_finish(&thread);
    contract_start(&thread, plain, PAWL_EXCLUSIVE, PAWL_FOREVER);
    assert_works(pawl_release(holder, &error), &error);
    contract_await_outcome(one, &outcome);
    assert_int_equal(outcome.result, 0);
    assert_works(pawl_release(task, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    contract_finish(&thread);
    pawl_lock_free(holder);
    pawl_lock_free(task);
    pawl_lock_free(plain);
}

static void test_needs_a_task_and_a_callback(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *task = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome;

    (void)state;
    assert_fails(PAWL_EINVAL, pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, 0, contract_acquired, &outcome, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, 0, NULL, NULL, &error), &error);
    assert_fails(PAWL_EDURATION, pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, -5, contract_acquired, &outcome, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_start(task, PAWL_SHARED, 1, 0, contract_acquired, &outcome, &error), &error);
    assert_int_equal(pawl_dispatch(one), 0);
    pawl_lock_free(lock);
    pawl_lock_free(task);
}

int contract_run_async(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_granted_at_once_is_told_later),
        CONTRACT_TEST(test_granted_when_the_holder_lets_go),
        CONTRACT_TEST(test_release_while_a_downgrade_is_told),
        CONTRACT_TEST(test_cancel_while_a_grant_is_told),
        CONTRACT_TEST(test_many_pending_at_once),
        CONTRACT_TEST(test_time_out_try_and_cancel),
        CONTRACT_TEST(test_time_out_beside_a_thread),
        CONTRACT_TEST(test_free_while_pending),
        CONTRACT_TEST(test_close_while_pending),
        CONTRACT_TEST(test_threads_and_tasks_in_one_queue),
        CONTRACT_TEST(test_needs_a_task_and_a_callback),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_granted_when_the_holder_lets_go test_release_while_a_downgrade_is_told");
}
