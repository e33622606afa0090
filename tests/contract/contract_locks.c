/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_locks.c - the table of semantics in pawl.h, row by row.
 */
#include "contract.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct pawl_error error;

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void test_same_owner_enters_again(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    token = pawl_token(lock);
    assert_true(token > 0);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(pawl_token(lock), token);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_NOT_HELD);
    assert_int_equal(pawl_token(lock), 0);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(other) > token);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_nonreentrant(void **state) {
    struct pawl_lock *lock = contract_mutex(one, PAWL_NONREENTRANT);

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void test_shared_to_exclusive(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0);

    (void)state;
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

static void test_exclusive_then_shared_released_inside_out(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0), *other = contract_rwlock(two, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire_shared(other, 0, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release_shared(lock, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire_shared(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_exclusive_released_first_is_a_downgrade(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0), *reader = contract_rwlock(two, 0), *writer = contract_rwlock(two, 0);
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    token = pawl_token(lock);
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(pawl_token(lock), token);
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_shared(reader, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(writer, 0, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_works(pawl_acquire(writer, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(writer) > token);
    pawl_lock_free(lock);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
}

/* A writer and then a reader wait; after the downgrade the reader stays behind the writer, and the writer behind the reader that
 * we have become. */
static void test_downgrade_lets_no_writer_in(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0), *other = contract_rwlock(two, 0);
    struct contract_thread writer;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&writer, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_downgrade(lock, &error), &error);
    assert_false(contract_has_ended(&writer));
    assert_int_equal(contract_waiters(one), 1);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_int_equal(contract_await(&writer), 0);
    contract_finish(&writer);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_shared_reentry_behind_a_queued_writer(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0), *other = contract_rwlock(two, 0), *beside = contract_rwlock(one, 0);
    struct contract_thread writer;

    (void)state;
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    contract_start(&writer, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire_shared(beside, PAWL_FOREVER, &error), &error); /* through another handle too */
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_false(contract_has_ended(&writer));
    assert_works(pawl_release_shared(beside, &error), &error);
    assert_int_equal(contract_await(&writer), 0);
    contract_finish(&writer);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(beside);
}

static void test_same_thread_through_another_handle(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0), *other = contract_rwlock(one, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire(other, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire_shared(other, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EDEADLK, pawl_acquire(other, 100, &error), &error);
    pawl_lock_free(lock);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(other);
}

/* That one may be entered again and the other not makes two handles of one lock no less the same lock. */
static void test_same_thread_through_a_nonreentrant_handle(void **state) {
    struct pawl_lock *locks[] = {contract_mutex(one, 0), contract_mutex(one, PAWL_NONREENTRANT)};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pawl_lock *lock = locks[i], *other = locks[1 - i];

        assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_fails(PAWL_EDEADLK, pawl_acquire(other, PAWL_FOREVER, &error), &error);
        assert_fails(PAWL_EDEADLK, pawl_acquire(other, 0, &error), &error);
        assert_fails(PAWL_EDEADLK, pawl_acquire_all(&(struct pawl_part){other, PAWL_EXCLUSIVE, 0}, 1, PAWL_FOREVER, &error),
                     &error);
        assert_works(pawl_release(lock, &error), &error);
        assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(other, &error), &error);
    }
    pawl_lock_free(locks[0]);
    pawl_lock_free(locks[1]);
}

static void test_try_and_time_out(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    int64_t begin;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    begin = now_ms();
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 30, &error), &error);
    assert_true(now_ms() - begin >= 30);
    contract_await_waiters(one, 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_threads_exclude_each_other_on_one_handle(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    struct contract_thread tries, waits;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&tries, lock, PAWL_EXCLUSIVE, 0);
    assert_int_equal(contract_await(&tries), PAWL_EHELD);
    contract_finish(&tries);
    contract_start(&waits, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&waits), 0);
    assert_int_equal(pawl_state(lock), PAWL_NOT_HELD); /* not by this thread */
    assert_fails(PAWL_ENOTOWNER, pawl_release(lock, &error), &error);
    contract_finish(&waits);
    assert_fails(PAWL_ENOTHELD, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void test_task_may_be_released_by_any_thread(void **state) {
    struct pawl_lock *lock = contract_mutex(one, PAWL_TASK);
    struct contract_thread thread;

    (void)state;
    contract_start(&thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    assert_int_equal(contract_await(&thread), 0);
    assert_int_equal(pawl_token(lock), thread.token);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_NOT_HELD);
    contract_finish(&thread);
    pawl_lock_free(lock);
}

static void *acquire_and_exit(void *data) {
    pawl_acquire(data, PAWL_FOREVER, NULL);
    return NULL;
}

static void test_thread_exits_while_it_holds(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_exit, lock), 0);
    pthread_join(thread, NULL);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    assert_fails(PAWL_ENOTOWNER, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(other);
}

static void ignore_signal(int number) {
    (void)number;
}

static void test_signals_do_not_end_a_wait(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct sigaction action = {.sa_handler = ignore_signal}, before;
    struct contract_thread thread;

    (void)state;
    sigaction(SIGUSR1, &action, &before);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    for (int i = 0; i < 50; i++)
        pthread_kill(thread.thread, SIGUSR1);
    assert_false(contract_has_ended(&thread));
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    contract_finish(&thread);
    sigaction(SIGUSR1, &before, NULL);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A thread that is cancelled while it waits. */
struct doomed {
    struct pawl_lock *lock;
    int result; /* 100: the acquire has not returned */
};

static void let_go(void *data) {
    struct doomed *doomed = data;

    if (doomed->result == 0)
        pawl_release(doomed->lock, NULL);
}

static void *acquire_and_be_cancelled(void *data) {
    struct doomed *doomed = data;

    pthread_cleanup_push(let_go, doomed);
    doomed->result = pawl_acquire(doomed->lock, PATIENCE_MS, NULL);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

/* No function of pawl's is a cancellation point: the acquire comes to its end, and then the thread does. */
static void test_cancelled_thread(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct doomed doomed = {other, 100};
    pthread_t thread;
    void *result;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_be_cancelled, &doomed), 0);
    contract_await_waiters(one, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* longer than any engine is awake before it sleeps */
    assert_int_equal(pthread_cancel(thread), 0);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(doomed.result, 0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* It waits without a deadline: at that it would look once more, and take what nobody called it for. */
static void start_and_let_sleep(struct contract_thread *thread, struct pawl_lock *lock) {
    contract_start(thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER);
    nanosleep(&(struct timespec){.tv_nsec = 2000000},
              NULL); /* nobody is told of a thread that waits behind one of its own process */
}

/* A thread is cancelled when it was called, and has mostly not looked yet: the next one is called. */
static void test_cancelled_when_its_turn_has_come(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(one, 0), *next = contract_mutex(one, 0);
    struct contract_thread first, second;
    int result;

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        start_and_let_sleep(&first, other);
        start_and_let_sleep(&second, next);
        assert_works(pawl_release(lock, &error), &error);
        while (pawl_cancel(other) >= 0 && !contract_has_ended(&first))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* it may not have begun to wait */
        result = contract_await(&first);
        assert_true(result == 0 || result == PAWL_ECANCELED);
        contract_finish(&first);
        assert_int_equal(contract_await(&second), 0);
        contract_finish(&second);
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(next);
}

static void test_cancel_from_another_thread(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread first, second;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&first, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_int_equal(pawl_cancel(other), 1);
    assert_int_equal(contract_await(&first), PAWL_ECANCELED);
    contract_finish(&first);
    contract_start(&second, other, PAWL_EXCLUSIVE, PAWL_FOREVER); /* the handle is as good as new */
    contract_await_waiters(one, 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&second), 0);
    contract_finish(&second);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_free_with_a_pending_acquire(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    pawl_lock_free(other);
    assert_int_equal(contract_await(&thread), PAWL_ECANCELED);
    contract_finish(&thread);
    contract_await_waiters(one, 0);
    pawl_lock_free(lock);
}

static void test_close_ends_everything(void **state) {
    struct pawl *client = contract_open("");
    struct pawl_lock *held = contract_mutex(one, 0), *pending = contract_mutex(client, 0), *other;
    struct contract_thread thread;
    int64_t begin;

    (void)state;
    assert_works(pawl_rwlock_new(client, "other", 0, &other, &error), &error);
    assert_works(pawl_acquire(other, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    contract_start(&thread, pending, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    begin = now_ms();
    pawl_close(client);
    assert_true(now_ms() - begin < 10000); /* 2 s on a machine that has nothing else to do */
    assert_int_equal(contract_await(&thread), PAWL_ECLOSED);
    contract_finish(&thread);
    assert_int_equal(contract_waiters(one), 0);
    assert_fails(PAWL_ECLOSED, pawl_acquire(pending, 0, &error), &error);
    assert_fails(PAWL_ECLOSED, pawl_release(other, &error), &error);
    assert_int_equal(pawl_token(other), 0);
    assert_int_equal(pawl_state(other), PAWL_NOT_HELD);
    assert_int_equal(pawl_cancel(other), PAWL_ECLOSED);
    pawl_lock_free(pending);
    pawl_lock_free(other);
    pawl_lock_free(held);
}

static void test_close_flushes_releases(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct pawl *client = contract_open("");
        struct pawl_lock *lock = contract_mutex(client, 0), *other = contract_mutex(one, 0);

        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
        pawl_close(client);
        assert_works(pawl_acquire(other, 0, &error), &error);
        pawl_lock_free(lock);
        pawl_lock_free(other);
    }
}

/* In the child every call says EFORKED, and nothing that the child does touches the parent's hold. */
static int child_of_fork(struct pawl_lock *lock) {
    struct pawl_lock *fresh;

    if (pawl_acquire(lock, 0, &error) != PAWL_EFORKED || pawl_release(lock, &error) != PAWL_EFORKED)
        return 1;
    if (pawl_mutex_new(one, "x", 0, &fresh, &error) != PAWL_EFORKED || pawl_cancel(lock) != PAWL_EFORKED)
        return 2;
    if (pawl_token(lock) != 0 || pawl_remaining_ms(lock) != 0 || pawl_fd(one) != PAWL_EFORKED)
        return 3;
    if (pawl_inspect(one, NULL, NULL, NULL, &error) != PAWL_EFORKED || pawl_break(one, "lock", 1, 0, &error) != PAWL_EFORKED)
        return 4;
    pawl_lock_free(lock);
    pawl_close(one);
    return 0;
}

static void test_fork(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    int status;
    pid_t pid;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    pid = fork();
    if (pid == 0)
        _exit(child_of_fork(lock));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* In a process without stdio. 0: after all that was done none of these numbers is in use. */
static int use_without_stdio(const char *url) {
    struct pawl *client = NULL;
    struct pawl_lock *lock = NULL;
    int used = 0;

    for (int fd = 0; fd < 3; fd++)
        close(fd);
    if (pawl_open(url, NULL, &client, NULL) < 0 || pawl_fd(client) < 0 ||
        pawl_mutex_new(client, "other lock", 0, &lock, NULL) < 0 || pawl_acquire(lock, PATIENCE_MS, NULL) < 0)
        return 100;
    for (int fd = 0; fd < 3; fd++)
        used += fcntl(fd, F_GETFD) >= 0;
    pawl_close(client);
    pawl_lock_free(lock);
    return used;
}

static void test_stdio_is_closed(void **state) {
    int status;
    pid_t pid;

    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("# ThreadSanitizer allows no threads in a child of a process that has some\n");
    skip();
#endif
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(use_without_stdio(contract_engine->url));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_kinds_do_not_mix(void **state) {
    struct pawl_lock *mutex = contract_mutex(one, 0), *rwlock = contract_rwlock(two, 0), *three = contract_semaphore(two, 3, 0),
                     *four = contract_semaphore(one, 4, 0);

    (void)state;
    assert_works(pawl_acquire(mutex, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_shared(rwlock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire(three, 0, &error), &error);
    assert_works(pawl_release(mutex, &error), &error);
    assert_works(pawl_acquire(three, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELIMIT, pawl_acquire(four, PAWL_FOREVER, &error), &error);
    pawl_lock_free(mutex);
    pawl_lock_free(rwlock);
    pawl_lock_free(three);
    pawl_lock_free(four);
}

static void test_remaining(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    struct pawl_info info;

    (void)state;
    pawl_describe(one, &info);
    assert_string_equal(info.engine, contract_engine->engine ? contract_engine->engine : contract_engine->name);
    assert_int_equal(pawl_remaining_ms(lock), 0);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    if (info.lease_ms == PAWL_FOREVER)
        assert_true(pawl_remaining_ms(lock) == PAWL_FOREVER);
    else
        assert_in_range(pawl_remaining_ms(lock), 1, info.lease_ms);
    pawl_lock_free(lock);
}

static void test_semaphore_counts_permits(void **state) {
    struct pawl_lock *three = contract_semaphore(one, 3, 0), *other = contract_semaphore(two, 3, 0);
    uint64_t first, second;

    (void)state;
    assert_works(pawl_acquire(three, PAWL_FOREVER, &error), &error);
    first = pawl_token(three);
    assert_works(pawl_acquire_permits(other, 2, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(other) > first);
    assert_fails(PAWL_EHELD, pawl_acquire(three, 0, &error), &error);
    assert_works(pawl_release(other, &error), &error);
    assert_works(pawl_acquire(three, PATIENCE_MS, &error), &error); /* not a re-entry: a further permit */
    second = pawl_token(three);
    assert_true(second > first);
    assert_fails(PAWL_EHELD, pawl_acquire_permits(other, 2, 0, &error), &error);
    assert_works(pawl_release(three, &error), &error); /* the latest first */
    assert_int_equal(pawl_token(three), first);
    assert_works(pawl_release(three, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(three, &error), &error);
    assert_works(pawl_acquire_permits(other, 3, PATIENCE_MS, &error), &error);
    pawl_lock_free(three);
    pawl_lock_free(other);
}

/* Two that want 2 of 2 do not end with one each; and one that wants few does not overtake one that wants many. */
static void test_several_permits_at_once(void **state) {
    struct pawl_lock *held = contract_semaphore(one, 2, 0), *many = contract_semaphore(two, 2, PAWL_TASK),
                     *few = contract_semaphore(one, 2, 0);
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire_permits(many, 2, 20, &error), &error);
    assert_works(pawl_acquire(few, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(few, &error), &error);
    contract_start(&thread, many, PAWL_EXCLUSIVE, PAWL_FOREVER); /* one permit: there is one */
    assert_int_equal(contract_await(&thread), 0);
    contract_finish(&thread);
    assert_works(pawl_release(held, &error), &error);
    assert_works(pawl_acquire_permits(many, 2, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(few, 0, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(many);
    pawl_lock_free(few);
}

static void test_first_come_first_served(void **state) {
    enum { WAITERS = 5 };
    struct pawl_lock *held = contract_mutex(one, 0), *locks[WAITERS];
    struct contract_thread threads[WAITERS];
    struct pawl *clients[WAITERS];
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    token = pawl_token(held);
    for (int i = 0; i < WAITERS; i++) {
        clients[i] = contract_open("");
        locks[i] = contract_mutex(clients[i], 0);
        contract_start(&threads[i], locks[i], PAWL_EXCLUSIVE, PAWL_FOREVER);
        contract_await_waiters(one, (unsigned)i + 1);
    }
    assert_works(pawl_release(held, &error), &error);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(contract_await(&threads[i]), 0);
        assert_true(threads[i].token > token);
        token = threads[i].token;
        for (int later = i + 1; later < WAITERS; later++)
            assert_false(contract_has_ended(&threads[later]));
        contract_finish(&threads[i]);
    }
    for (int i = 0; i < WAITERS; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
    pawl_lock_free(held);
}

/* A program that relies on its children keeping its holds can look whether they do. */
static void test_inherit_is_told(void **state) {
    struct pawl_options options = {.size = sizeof options, .flags = PAWL_OPEN_INHERIT | PAWL_OPEN_LOSS_BY_DISPATCH};
    bool local = strcmp(contract_engine->name, "local") == 0;
    struct pawl_info info;
    struct pawl *client;

    (void)state;
    pawl_describe(one, &info);
    assert_int_equal(info.flags, 0);
    assert_works(pawl_open(contract_engine->url, &options, &client, &error), &error);
    pawl_describe(client, &info);
    assert_int_equal(info.flags, (local ? PAWL_OPEN_INHERIT : 0) | PAWL_OPEN_LOSS_BY_DISPATCH);
    pawl_close(client);
}

static void test_bad_input(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *semaphore = contract_semaphore(one, 3, 0), *none = NULL;

    (void)state;
    assert_fails(PAWL_EDURATION, pawl_acquire(lock, -1, &error), &error);
    assert_fails(PAWL_EDURATION, pawl_acquire_shared(lock, INT64_MIN, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_shared(lock, 0, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_permits(lock, 1, 0, &error), &error);
    assert_fails(PAWL_EKIND, pawl_downgrade(lock, &error), &error);
    assert_fails(PAWL_EPERMITS, pawl_acquire_permits(semaphore, 0, 0, &error), &error);
    assert_fails(PAWL_EPERMITS, pawl_acquire_permits(semaphore, 4, 0, &error), &error);
    assert_fails(PAWL_EPERMITS, pawl_semaphore_new(one, "s", 0, 0, &none, &error), &error);
    assert_fails(PAWL_EPERMITS, pawl_semaphore_new(one, "s", PAWL_PERMITS_MAX + 1, 0, &none, &error), &error);
    assert_fails(PAWL_ENAME, pawl_mutex_new(one, "", 0, &none, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_mutex_new(one, "m", 1u << 30, &none, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_rwlock_new(one, "m", PAWL_NONREENTRANT, &none, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_mutex_new(NULL, "m", 0, &none, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire(NULL, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_release(NULL, &error), &error);
    assert_null(none);
    assert_int_equal(pawl_acquire(lock, -1, NULL), PAWL_EDURATION); /* nobody has to want the text */
    pawl_lock_free(NULL);
    pawl_close(NULL);
    pawl_lock_free(lock);
    pawl_lock_free(semaphore);
}

int contract_run_locks(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_same_owner_enters_again),
        CONTRACT_TEST(test_nonreentrant),
        CONTRACT_TEST(test_shared_to_exclusive),
        CONTRACT_TEST(test_exclusive_then_shared_released_inside_out),
        CONTRACT_TEST(test_exclusive_released_first_is_a_downgrade),
        CONTRACT_TEST(test_downgrade_lets_no_writer_in),
        CONTRACT_TEST(test_shared_reentry_behind_a_queued_writer),
        CONTRACT_TEST(test_same_thread_through_another_handle),
        CONTRACT_TEST(test_same_thread_through_a_nonreentrant_handle),
        CONTRACT_TEST(test_try_and_time_out),
        CONTRACT_TEST(test_threads_exclude_each_other_on_one_handle),
        CONTRACT_TEST(test_task_may_be_released_by_any_thread),
        CONTRACT_TEST(test_thread_exits_while_it_holds),
        CONTRACT_TEST(test_signals_do_not_end_a_wait),
        CONTRACT_TEST(test_cancelled_thread),
        CONTRACT_TEST(test_cancelled_when_its_turn_has_come),
        CONTRACT_TEST(test_cancel_from_another_thread),
        CONTRACT_TEST(test_free_with_a_pending_acquire),
        CONTRACT_TEST(test_close_ends_everything),
        CONTRACT_TEST(test_close_flushes_releases),
        CONTRACT_TEST(test_fork),
        CONTRACT_TEST(test_stdio_is_closed),
        CONTRACT_TEST(test_kinds_do_not_mix),
        CONTRACT_TEST(test_remaining),
        CONTRACT_TEST(test_semaphore_counts_permits),
        CONTRACT_TEST(test_several_permits_at_once),
        CONTRACT_TEST(test_first_come_first_served),
        CONTRACT_TEST(test_inherit_is_told),
        CONTRACT_TEST(test_bad_input),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_shared_to_exclusive test_exclusive_then_shared_released_inside_out "
                              "test_exclusive_released_first_is_a_downgrade test_downgrade_lets_no_writer_in "
                              "test_shared_reentry_behind_a_queued_writer test_same_thread_through_another_handle "
                              "test_close_ends_everything test_kinds_do_not_mix test_semaphore_counts_permits "
                              "test_several_permits_at_once");
}
