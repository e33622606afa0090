/* SPDX-License-Identifier: Apache-2.0
 *
 * test_handoff.c - a claim that is open: what each event does to it, on the engine of keep_fake.h.
 *
 * Those who sleep are waiters without a thread: so a test decides when they are awake.
 */
#include <stdlib.h>

#include "../support/keep_fake.h"

enum { SLEEPERS = 4 };
#define SLICE_NS INT64_C(100000)

/* ---- Those who sleep ------------------------------------------------------------------------------------------------------ */

static struct sleeper {
    struct pawl_lock *lock;
    struct waiter waiter;
} sleepers[SLEEPERS];

static int set_up_slices(void **state) {
    set_up(state);
    client->options.slice_ns = SLICE_NS;
    client->options.handoff_ns = 60 * INT64_C(1000000000);
    return 0;
}

/* It queues up, and sleeps. */
static void lie_down(int number, struct pawl_lock *lock) {
    struct sleeper *sleeper = &sleepers[number];
    struct waiter *waiter = &sleeper->waiter;

    sleeper->lock = lock;
    pthread_mutex_lock(&sleeper->lock->cohort->mutex);
    assert_true(pawl__lock_waiter(sleeper->lock, waiter, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, &error));
    waiter->deadline = waiter->look_at = PAWL__NEVER;
    pawl__cohort_enter(sleeper->lock->cohort, waiter);
    pawl__cohort_unlock(sleeper->lock->cohort);
}

static enum waiter_state state_of(int number) {
    return sleepers[number].waiter.state;
}

/* It looks what it waits for, and finds it open. */
static void wake_up(int number) {
    struct sleeper *sleeper = &sleepers[number];

    pthread_mutex_lock(&sleeper->lock->cohort->mutex);
    pawl__cohort_wait(sleeper->lock->cohort, &sleeper->waiter);
    pawl__cohort_unlock(sleeper->lock->cohort);
}

/* It looks so long after it was called, and finds it in use. */
static int64_t look(int number, int64_t now) {
    return pawl__handoff_sleep(client, &sleepers[number].waiter, now, PAWL__NEVER);
}

static void give_up(int number) {
    struct sleeper *sleeper = &sleepers[number];

    pthread_mutex_lock(&sleeper->lock->cohort->mutex);
    pawl__cohort_end(&sleeper->waiter, PAWL_ETIMEOUT, "its time is up");
    pawl__cohort_finish(sleeper->lock->cohort);
}

static void forget(int number) {
    if (state_of(number) == WAITER_ENDED)
        free(sleepers[number].waiter.hold);
    pawl_lock_free(sleepers[number].lock);
}

static void count_any(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock, (void)result, (void)why, (void)data;
    outcomes++;
}

static enum claim_state claim_state(const struct pawl_lock *lock) {
    return last_claim(lock)->state;
}

/* Held, then let go: open, with so many who sleep. */
static struct pawl_lock *open_claim(int count) {
    struct pawl_lock *lock = mutex("lock", 0);

    acquire(lock);
    for (int i = 0; i < count; i++)
        lie_down(i, mutex("lock", PAWL_TASK));
    release(lock);
    assert_asked("s");
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    for (int i = 0; i < count; i++)
        assert_int_equal(state_of(i), i == 0 ? WAITER_CALLED : WAITER_WAITING);
    return lock;
}

/* ---- Who takes it --------------------------------------------------------------------------------------------------------- */

static void test_the_first_waiter_takes_it(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    assert_int_equal(claim_state(lock), CLAIM_HELD);
    release(sleepers[0].lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    assert_int_equal(state_of(1), WAITER_CALLED);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

/* Its time is up when it is awake at last: but the lock has been there for it. */
static void test_called_in_time_and_awake_too_late(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    sleepers[0].waiter.deadline = sleepers[1].waiter.deadline = pawl__boottime();
    wake_up(1); /* nobody has called this one */
    assert_int_equal(state_of(1), WAITER_ENDED);
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

static void test_newcomers_pass_those_who_sleep(void **state) {
    struct pawl_lock *lock = open_claim(1), *task = mutex("lock", PAWL_TASK);
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_works(pawl_acquire(lock, i % 2 ? 0 : PAWL_FOREVER, &error), &error);
        if (i % 3 == 0) {
            assert_true(pawl_token(lock) > last);
            last = pawl_token(lock);
        }
        assert_int_equal(claim_state(lock), CLAIM_HELD);
        release(lock);
    }
    outcomes = 0;
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_int_equal(pawl_dispatch(client), 1);
    assert_int_equal(outcomes, 1);
    release(task);
    assert_int_equal(state_of(0), WAITER_CALLED);
    wake_up(0);
    assert_true(pawl_token(sleepers[0].lock) > last);
    release(sleepers[0].lock);
    assert_asked("k");
    forget(0);
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

/* It was passed for a slice, counted from when it was awake: then it is handed to it. */
static void test_due_after_its_slice(void **state) {
    struct pawl_lock *lock = open_claim(2);
    int64_t now = pawl__boottime();

    (void)state;
    acquire(lock);
    assert_true(look(0, now) == now + SLICE_NS);
    assert_true(look(0, now + SLICE_NS - 1) == now + SLICE_NS);
    release(lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    acquire(lock);
    assert_true(look(0, now + SLICE_NS) == PAWL__NEVER);
    assert_int_equal(state_of(0), WAITER_DUE);
    release(lock);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock); /* the next has a slice of its own */
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    acquire(lock);
    assert_true(look(1, now + 2 * SLICE_NS) == now + 3 * SLICE_NS);
    release(lock);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

static void test_asynchronous_acquires_are_not_passed(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *task = mutex("lock", PAWL_TASK);

    (void)state;
    outcomes = 0;
    acquire(lock);
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    release(lock);
    assert_int_equal(claim_state(lock), CLAIM_HELD);
    assert_int_equal(pawl_dispatch(client), 1);
    release(task);
    assert_asked("sk");
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

/* A slice of 0: the order is exact. */
static void test_without_slices(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    client->options.slice_ns = 0;
    acquire(lock);
    lie_down(0, mutex("lock", PAWL_TASK));
    release(lock);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    assert_int_equal(pawl_acquire(lock, 0, &error), PAWL_EHELD);
    release(sleepers[0].lock);
    assert_asked("sk");
    forget(0);
    pawl_lock_free(lock);
}

static void test_a_set_takes_it(void **state) {
    struct pawl_lock *lock = open_claim(1), *other = mutex("other", 0);
    struct pawl_part parts[] = {{lock, PAWL_EXCLUSIVE, 0}, {other, PAWL_EXCLUSIVE, 0}};

    (void)state;
    assert_works(pawl_acquire_all(parts, 2, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    wake_up(0);
    release(sleepers[0].lock);
    assert_asked("skk");
    forget(0);
    pawl_lock_free(other);
    pawl_lock_free(lock);
}

/* ---- Who may not ---------------------------------------------------------------------------------------------------------- */

/* Each has all of its time from its own grant. */
static void test_max_hold_has_its_own_claim(void **state) {
    struct pawl_lock *lock = open_claim(1), *task = mutex("lock", PAWL_TASK);

    (void)state;
    fake.queues = true;
    assert_works(pawl_set_max_hold(task, 1000, &error), &error);
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_any, NULL, &error), &error);
    assert_asked("s");
    assert_int_equal(claim_state(lock), CLAIM_PENDING);
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("w");
    assert_int_equal(pawl_cancel(task), 1);
    fake.queues = false;
    forget(0);
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

/* A reader waits behind those who write, and a writer who comes later behind the reader. */
static void test_readers_are_not_passed(void **state) {
    struct pawl_lock *lock = rwlock("lock"), *reader = rwlock("lock"), *writer = rwlock("lock");

    (void)state;
    outcomes = 0;
    acquire(lock);
    lie_down(0, rwlock("lock"));
    release(lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    fake.queues = true;
    assert_works(pawl_acquire_start(reader, PAWL_SHARED, 1, PAWL_FOREVER, count_any, NULL, &error), &error);
    assert_works(pawl_acquire_start(writer, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_any, NULL, &error), &error);
    assert_asked("sss");
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("w");
    fake.queues = false;
    forget(0);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
    assert_int_equal(pawl_dispatch(client), 2);
    share(lock);
    pawl_lock_free(lock);
}

/* It is wanted: they pass as often as the bounds allow, and then all queue anew. */
static void test_wanted_while_open(void **state) {
    enum { MOST = 3 };
    struct pawl_lock *lock, *task;

    (void)state;
    client->options.handoffs = MOST;
    lock = open_claim(1);
    task = mutex("lock", PAWL_TASK);
    tell(lock, NEWS_WANTED);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    for (int i = 0; i < MOST - 1; i++) { /* the last is for the one who waits */
        acquire(lock);
        release(lock);
    }
    assert_asked("");
    fake.queues = true;
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_any, NULL, &error), &error);
    assert_asked("s");
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("w");
    assert_int_equal(pawl_cancel(task), 1);
    fake.queues = false;
    forget(0);
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

/* The first waiter found it in use, and sleeps until its slice is over: who is told that others wait wakes it. */
static void test_wanted_while_the_first_sleeps(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    acquire(lock);
    look(0, pawl__boottime());
    atomic_store(&sleepers[0].waiter.sleeping, 1);
    tell(lock, NEWS_WANTED);
    assert_int_equal(sleepers[0].waiter.sleeping, 1); /* in use */
    release(lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    assert_int_equal(sleepers[0].waiter.sleeping, 1); /* it has its slice */
    tell(lock, NEWS_WANTED);
    assert_int_equal(sleepers[0].waiter.sleeping, 0);
    wake_up(0);
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("w");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

/* Its time is over before the first waiter is awake: it is asked for anew. */
static void test_late_while_open(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    tell(lock, NEWS_WANTED);
    last_claim(lock)->bounds.join_until = pawl__boottime();
    wake_up(0);
    assert_asked("sw");
    assert_int_equal(state_of(0), WAITER_GRANTED); /* by the new one */
    assert_int_equal(claim_state(lock), CLAIM_HELD);
    assert_int_equal(state_of(1), WAITER_WAITING);
    release(sleepers[0].lock);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

/* ---- An engine that takes its time, and lets callers wait in it ---- */

static struct {
    struct pawl__claim *leaving; /* withdrawn, and not gone yet */
    bool adopted;
} slow;

static int slow_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine;
    note('w');
    slow.leaving = claim;
    return PAWL__PENDING;
}

static void slow_adopt(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine;
    slow.adopted |= claim == slow.leaving;
}

/* What is granted to who waits is what was let go, and nothing happens to that unless somebody looks after it. */
static int slow_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    (void)engine, (void)deadline, (void)reterr;
    assert_true(slow.adopted);
    fill(claim);
    return PAWL__DONE;
}

static void slow_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
}

/* Its time is over when its first waiter is awake: that one waits for a new claim, and the service thread sees to the old one. */
static void test_what_goes_back_is_looked_after(void **state) {
    static const struct pawl__parking parking = {slow_park, slow_unpark, slow_adopt};
    struct pawl__engine_impl impl = fake_impl;
    struct pawl_lock *lock;

    (void)state;
    impl.parking = &parking;
    impl.withdraw = slow_withdraw;
    memset(&slow, 0, sizeof slow);
    client->engine->impl = &impl;
    lock = open_claim(1);
    tell(lock, NEWS_WANTED);
    last_claim(lock)->bounds.join_until = pawl__boottime();
    fake.queues = true;
    wake_up(0);
    assert_asked("sw");
    assert_int_equal(state_of(0), WAITER_GRANTED);
    pawl__tell(client, slow.leaving, NEWS_GONE, NULL);
    client->engine->impl = &fake_impl;
    fake.queues = false;
    release(sleepers[0].lock);
    forget(0);
    pawl_lock_free(lock);
}

static void test_no_token_left(void **state) {
    struct pawl_lock *lock;

    (void)state;
    fake.tokens = 2;
    lock = open_claim(1);
    acquire(lock);
    assert_true(pawl_token(lock) == 2);
    release(lock); /* nobody could enter it */
    assert_asked("sw");
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("k");
    forget(0);
    pawl_lock_free(lock);
}

/* ---- The first waiter goes away ------------------------------------------------------------------------------------------- */

static void test_the_next_is_called(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    give_up(0);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    assert_int_equal(state_of(1), WAITER_CALLED);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

static void test_another_than_the_first_gives_up(void **state) {
    struct pawl_lock *lock = open_claim(2);

    (void)state;
    give_up(1);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    assert_int_equal(state_of(0), WAITER_CALLED);
    wake_up(0);
    release(sleepers[0].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

static void test_the_next_is_asynchronous(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *task = mutex("lock", PAWL_TASK);

    (void)state;
    outcomes = 0;
    acquire(lock);
    lie_down(0, mutex("lock", PAWL_TASK));
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    release(lock);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    give_up(0);
    assert_int_equal(claim_state(lock), CLAIM_HELD);
    assert_int_equal(pawl_dispatch(client), 1);
    assert_int_equal(outcomes, 1);
    release(task);
    assert_asked("sk");
    forget(0);
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

static void test_nobody_is_left(void **state) {
    struct pawl_lock *lock = open_claim(1);

    (void)state;
    give_up(0);
    assert_asked("k");
    assert_true(is_kept(lock));
    use(lock);
    assert_asked("tk");
    forget(0);
    pawl_lock_free(lock);
}

static void test_nobody_is_left_and_nothing_is_kept(void **state) {
    struct pawl_lock *lock;

    (void)state;
    client->options.keep_ns = 0;
    lock = open_claim(1);
    give_up(0);
    assert_asked("w");
    assert_null(last_claim(lock));
    forget(0);
    pawl_lock_free(lock);
}

/* All of one handle end; nobody is called who ends at once. */
static void test_cancelled_while_open(void **state) {
    struct pawl_lock *lock = open_claim(3);

    (void)state;
    assert_int_equal(pawl_cancel(sleepers[0].lock), 1);
    assert_int_equal(state_of(0), WAITER_ENDED);
    assert_int_equal(state_of(1), WAITER_CALLED);
    pawl_lock_free(sleepers[1].lock);
    assert_int_equal(state_of(1), WAITER_ENDED);
    free(sleepers[1].waiter.hold);
    assert_int_equal(state_of(2), WAITER_CALLED);
    wake_up(2);
    release(sleepers[2].lock);
    assert_asked("k");
    forget(0);
    forget(2);
    pawl_lock_free(lock);
}

static void told_closed(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock, (void)why, (void)data;
    assert_int_equal(result, PAWL_ECLOSED);
    outcomes++;
}

static void test_closed_while_open(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *task = mutex("lock", PAWL_TASK);

    (void)state;
    outcomes = 0;
    acquire(lock);
    lie_down(0, mutex("lock", PAWL_TASK));
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, told_closed, NULL, &error), &error);
    release(lock);
    assert_asked("s");
    close_fake();
    assert_asked("w");
    assert_int_equal(state_of(0), WAITER_ENDED);
    assert_int_equal(sleepers[0].waiter.error.code, PAWL_ECLOSED);
    assert_int_equal(outcomes, 1);
    forget(0);
    pawl_lock_free(task);
    pawl_lock_free(lock);
}

/* ---- What the engine tells ------------------------------------------------------------------------------------------------ */

/* Those who wait find another claim; nobody held, so nobody is told. */
static void lose_while_open(enum pawl__news news) {
    struct pawl_lock *lock = mutex("lock", 0);

    losses = 0;
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    acquire(lock);
    lie_down(0, mutex("lock", PAWL_TASK));
    lie_down(1, mutex("lock", PAWL_TASK));
    release(lock);
    assert_asked("s");
    tell(lock, news);
    assert_asked("sw");
    assert_int_equal(state_of(0), WAITER_GRANTED);
    assert_int_equal(state_of(1), WAITER_WAITING);
    pawl__events_serve(client);
    assert_int_equal(losses, 0);
    release(sleepers[0].lock);
    wake_up(1);
    release(sleepers[1].lock);
    assert_asked("k");
    forget(0);
    forget(1);
    pawl_lock_free(lock);
}

static void test_lost_while_open(void **state) {
    (void)state;
    lose_while_open(NEWS_LOST);
}

static void test_broken_while_open(void **state) {
    (void)state;
    lose_while_open(NEWS_BROKEN);
}

/* Found by the first waiter, or by the service thread, whichever looks first. */
static void test_expired_while_open(void **state) {
    struct pawl_lock *lock = open_claim(1);

    (void)state;
    last_claim(lock)->lease.assured_until = pawl__boottime();
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    wake_up(0);
    assert_asked("sw");
    assert_int_equal(state_of(0), WAITER_GRANTED);
    release(sleepers[0].lock);
    assert_asked("k");
    use(lock);
    assert_asked("tk");
    forget(0);
    acquire(lock);
    lie_down(0, mutex("lock", PAWL_TASK));
    release(lock);
    tick(lock, pawl__boottime() + LEASE_NS);
    assert_asked("tsw");
    assert_int_equal(state_of(0), WAITER_GRANTED);
    forget(0);
    pawl_lock_free(lock);
}

static void test_renewed_while_open(void **state) {
    struct pawl_lock *lock = open_claim(1);

    (void)state;
    tell(lock, NEWS_RENEWED);
    assert_int_equal(claim_state(lock), CLAIM_OPEN);
    wake_up(0);
    release(sleepers[0].lock);
    assert_asked("k");
    forget(0);
    pawl_lock_free(lock);
}

/* ---- The option ------------------------------------------------------------------------------------------------------------ */

static void opens_with(const char *directory, const char *bounds, int64_t slice_ns) {
    char url[128];
    struct pawl *opened;

    snprintf(url, sizeof url, "local:%s?handoff=%s", directory, bounds);
    if (slice_ns < 0) {
        assert_int_equal(pawl_open(url, NULL, &opened, &error), PAWL_EOPTION);
        return;
    }
    assert_works(pawl_open(url, NULL, &opened, &error), &error);
    assert_true(opened->options.slice_ns == slice_ns);
    pawl_close(opened);
}

/* A thread may be passed for no longer than the others may hand on. */
static void test_slice_within_the_bound(void **state) {
    char directory[] = "/tmp/pawl-handoff-XXXXXX", command[64];

    (void)state;
    assert_non_null(mkdtemp(directory));
    opens_with(directory, "127,1,1001", -1);
    opens_with(directory, "127,0,1", -1);
    opens_with(directory, "127,1,1000", 1000000);
    opens_with(directory, "127,0,0", 0);
    opens_with(directory, "127,0", 0);
    opens_with(directory, "127,10", 100000);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_slices, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_waiter_takes_it),
        TEST(test_called_in_time_and_awake_too_late),
        TEST(test_newcomers_pass_those_who_sleep),
        TEST(test_due_after_its_slice),
        TEST(test_asynchronous_acquires_are_not_passed),
        TEST(test_without_slices),
        TEST(test_a_set_takes_it),
        TEST(test_max_hold_has_its_own_claim),
        TEST(test_readers_are_not_passed),
        TEST(test_wanted_while_open),
        TEST(test_wanted_while_the_first_sleeps),
        TEST(test_late_while_open),
        TEST(test_what_goes_back_is_looked_after),
        TEST(test_no_token_left),
        TEST(test_the_next_is_called),
        TEST(test_another_than_the_first_gives_up),
        TEST(test_the_next_is_asynchronous),
        TEST(test_nobody_is_left),
        TEST(test_nobody_is_left_and_nothing_is_kept),
        TEST(test_cancelled_while_open),
        TEST(test_closed_while_open),
        TEST(test_lost_while_open),
        TEST(test_broken_while_open),
        TEST(test_expired_while_open),
        TEST(test_renewed_while_open),
        TEST(test_slice_within_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
