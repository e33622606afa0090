/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_signals.c - signals in a thread that waits: pawl_options.interrupted is asked, ends the wait or lets it go on.
 *
 * A signal that comes before the thread sleeps is heard only a second later. So that a test does not live on that, it sends more of them
 * than its patience has seconds.
 */
#include "contract.h"

#include <signal.h>
#include <time.h>

enum { SIGNALS = 2 * PATIENCE_MS / 1000 };

static struct pawl_error error;

/* Asked in the threads that wait. */
static _Atomic int asked;
static _Atomic int over;       /* the number of the thread that is to end, or none's */
static _Atomic bool elsewhere; /* in another thread than one of these */
static _Atomic pthread_t waiting[2];
enum { NONE = 2 };

static int interrupted(void *data) {
    int number = 0;

    while (number < NONE && !pthread_equal(pthread_self(), waiting[number]))
        number++;
    if (data != &over || number == NONE)
        atomic_store(&elsewhere, true);
    atomic_fetch_add(&asked, 1);
    return atomic_load(&over) == number;
}

static void ignore_signal(int number) {
    (void)number;
}

static struct sigaction before;

/* A client that listens. */
static struct pawl *open_listening(void) {
    struct sigaction action = {.sa_handler = ignore_signal};

    sigaction(SIGUSR1, &action, &before);
    atomic_store(&asked, 0);
    atomic_store(&over, NONE);
    atomic_store(&elsewhere, false);
    return contract_open_as("", (struct pawl_options){.interrupted = interrupted, .interrupted_data = &over});
}

static void close_listening(struct pawl *client) {
    assert_false(atomic_load(&elsewhere));
    pawl_close(client);
    sigaction(SIGUSR1, &before, NULL);
}

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct pawl_lock *mutex_named(struct pawl *client, const char *name) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    return lock;
}

static void start(int i, struct contract_thread *thread, struct pawl_lock *lock) {
    contract_start(thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    waiting[i] = thread->thread;
}

/* Signals that are heard one by one, and handled. */
static void handle_signals(const struct contract_thread *thread) {
    int64_t begin = now_ms();

    for (int i = 0; i < SIGNALS; i++) {
        int so_far = atomic_load(&asked);

        pthread_kill(thread->thread, SIGUSR1);
        await(atomic_load(&asked) > so_far, "signal %d was not heard", i);
    }
    assert_true(now_ms() - begin < PATIENCE_MS);
}

static void interrupt(int i, struct contract_thread *thread) {
    atomic_store(&over, i);
    pthread_kill(thread->thread, SIGUSR1);
    assert_int_equal(contract_await(thread), PAWL_ECANCELED);
    contract_finish(thread);
    atomic_store(&over, NONE);
}

static void test_signal_ends_a_wait(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other;
    struct pawl *client = open_listening();
    struct contract_thread thread;

    (void)state;
    other = contract_mutex(client, 0);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    start(0, &thread, other);
    contract_await_waiters(one, 1);
    handle_signals(&thread);
    assert_false(contract_has_ended(&thread));
    interrupt(0, &thread);
    contract_await_waiters(one, 0);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error); /* the handle is as good as before */
    pawl_lock_free(lock);
    pawl_lock_free(other);
    close_listening(client);
}

static void test_handled_signal_keeps_the_place(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *behind = contract_mutex(two, 0), *other;
    struct pawl *client = open_listening();
    struct contract_thread first, second;

    (void)state;
    other = contract_mutex(client, 0);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    start(0, &first, other);
    contract_await_waiters(one, 1);
    contract_start(&second, behind, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 2);
    handle_signals(&first);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&first), 0);
    assert_false(contract_has_ended(&second));
    contract_finish(&first);
    assert_int_equal(contract_await(&second), 0);
    assert_true(second.token > first.token);
    contract_finish(&second);
    pawl_lock_free(lock);
    pawl_lock_free(behind);
    pawl_lock_free(other);
    close_listening(client);
}

/* Two threads of a client: for the same lock, where the second sleeps in the core; and for two, where one may read for both. */
static void test_signal_for_one_of_two_threads(void **state) {
    (void)state;
    for (int same = 0; same < 2; same++) {
        struct pawl_lock *locks[2] = {mutex_named(one, "a"), mutex_named(one, "b")}, *others[2];
        struct pawl *client = open_listening();
        struct contract_thread threads[2];

        for (int i = 0; i < 2; i++) {
            others[i] = mutex_named(client, i && !same ? "b" : "a");
            assert_works(pawl_acquire(locks[i], PAWL_FOREVER, &error), &error);
        }
        for (int i = 0; i < 2; i++)
            start(i, &threads[i], others[i]);
        handle_signals(&threads[1]);
        handle_signals(&threads[0]);
        interrupt(1, &threads[1]);
        assert_false(contract_has_ended(&threads[0]));
        interrupt(0, &threads[0]);
        for (int i = 0; i < 2; i++) {
            pawl_lock_free(locks[i]);
            pawl_lock_free(others[i]);
        }
        close_listening(client);
    }
}

struct taking {
    struct pawl_part parts[2];
    int result;
};

static void *take_all(void *data) {
    struct taking *taking = data;

    taking->result = pawl_acquire_all(taking->parts, 2, PAWL_FOREVER, NULL);
    return NULL;
}

static void test_signal_ends_a_set(void **state) {
    struct pawl_lock *lock = mutex_named(one, "b"), *free = mutex_named(two, "a");
    struct pawl *client = open_listening();
    struct taking taking = {
        .parts = {{mutex_named(client, "a"), PAWL_EXCLUSIVE, 0}, {mutex_named(client, "b"), PAWL_EXCLUSIVE, 0}}};
    pthread_t thread;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, take_all, &taking), 0);
    atomic_store(&waiting[0], thread);
    await(atomic_load(&asked) > 0, "the set is not waited for"); /* after a second, if not sooner */
    atomic_store(&over, 0);
    pthread_kill(waiting[0], SIGUSR1);
    pthread_join(waiting[0], NULL);
    assert_int_equal(taking.result, PAWL_ECANCELED);
    assert_works(pawl_acquire(free, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(free);
    pawl_lock_free(taking.parts[0].lock);
    pawl_lock_free(taking.parts[1].lock);
    close_listening(client);
}

struct turns {
    struct pawl_lock *lock;
    _Atomic bool stop;
    _Atomic int count;
    int failed;
};

static void *take_turns(void *data) {
    struct turns *turns = data;

    while (!atomic_load(&turns->stop) && !turns->failed) {
        turns->failed = pawl_acquire(turns->lock, PATIENCE_MS, NULL);
        turns->failed = turns->failed ? turns->failed : pawl_release(turns->lock, NULL);
        turns->count++;
    }
    return NULL;
}

/* Signals at any moment, also of a release, change nothing as long as they are handled. */
static void test_signals_all_the_time(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    struct pawl *client = open_listening();
    struct turns turns = {.lock = contract_mutex(client, 0)};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, take_turns, &turns), 0);
    atomic_store(&waiting[0], thread);
    await(atomic_load(&turns.count) > 0, "it takes no turn");
    for (int i = 0; i < 50; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        pthread_kill(waiting[0], SIGUSR1);
        assert_works(pawl_release(lock, &error), &error);
        pthread_kill(waiting[0], SIGUSR1);
    }
    atomic_store(&turns.stop, true);
    pthread_join(waiting[0], NULL);
    assert_int_equal(turns.failed, 0);
    pawl_lock_free(lock);
    pawl_lock_free(turns.lock);
    close_listening(client);
}

/* A program that was built when the struct ended there. */
static void test_options_without_interrupted(void **state) {
    struct pawl_options options = {
        .size = offsetof(struct pawl_options, interrupted), .interrupted = interrupted, .interrupted_data = &options};
    struct pawl_lock *lock = contract_mutex(one, 0), *other;
    struct pawl *client;

    (void)state;
    assert_works(pawl_open(contract_engine->url, &options, &client, &error), &error);
    other = contract_mutex(client, 0);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 10, &error), &error); /* the callback would find other data */
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(client);
}

int contract_run_signals(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_signal_ends_a_wait),
        CONTRACT_TEST(test_handled_signal_keeps_the_place),
        CONTRACT_TEST(test_signal_for_one_of_two_threads),
        CONTRACT_TEST(test_signal_ends_a_set),
        CONTRACT_TEST(test_signals_all_the_time),
        CONTRACT_TEST(test_options_without_interrupted),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0], "");
}
