/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_observe.c - being told who holds a lock and what its value is: first as it is, then every change, the last one always. On
 * engines that have values.
 */
#include "contract.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pawl_error error;

/* What an observer was told last. */
struct told {
    pthread_mutex_t mutex;
    unsigned calls;
    uint64_t holder; /* its token; 0: nobody */
    char label[16];
    char value[32], holders_value[32]; /* "-": none */
    bool in_callback, hold_up;         /* it waits in the callback until told to go on */
    struct pawl_observer *end;         /* to be ended in the callback */
};

static struct told told_new(void) {
    return (struct told){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

static void copy_value(char to[32], const struct pawl_value *value) {
    snprintf(to, 32, "%.*s", value ? (int)value->size : 1, value ? (const char *)value->bytes : "-");
}

static void observed(const struct pawl_observed *seen, void *data) {
    struct told *told = data;
    struct pawl_observer *end;

    pthread_mutex_lock(&told->mutex);
    assert_string_equal(seen->name, "lock");
    told->calls++;
    told->holder = seen->holder ? seen->holder->token : 0;
    snprintf(told->label, sizeof told->label, "%s", seen->holder ? seen->holder->label : "");
    copy_value(told->value, seen->value);
    copy_value(told->holders_value, seen->holders_value);
    end = told->end;
    told->end = NULL;
    told->in_callback = true;
    while (told->hold_up) {
        pthread_mutex_unlock(&told->mutex);
        usleep(1000);
        pthread_mutex_lock(&told->mutex);
    }
    told->in_callback = false;
    pthread_mutex_unlock(&told->mutex);
    if (end)
        pawl_unobserve(end);
}

static struct pawl_observer *observe(struct pawl *client, struct told *told) {
    struct pawl_observer *observer;

    assert_works(pawl_observe(client, "lock", observed, told, &observer, &error), &error);
    return observer;
}

static bool is_told(struct told *told, uint64_t holder, const char *value, const char *holders_value) {
    bool so;

    pthread_mutex_lock(&told->mutex);
    so = told->calls > 0 && told->holder == holder && strcmp(told->value, value) == 0 &&
         strcmp(told->holders_value, holders_value) == 0;
    pthread_mutex_unlock(&told->mutex);
    return so;
}

static void await_told(struct told *told, uint64_t holder, const char *value, const char *holders_value) {
    await(is_told(told, holder, value, holders_value), "never told of holder %llu, value %s, its own %s",
          (unsigned long long)holder, value, holders_value);
}

static unsigned calls(struct told *told) {
    unsigned count;

    pthread_mutex_lock(&told->mutex);
    count = told->calls;
    pthread_mutex_unlock(&told->mutex);
    return count;
}

static void take(struct pawl_lock *lock) {
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
}

static void give(struct pawl_lock *lock) {
    assert_works(pawl_release(lock, &error), &error);
}

static void set(struct pawl_lock *lock, const char *text) {
    assert_works(pawl_value_set(lock, text, strlen(text), &error), &error);
}

/* ---- What is told ---------------------------------------------------------------------------------------------------------- */

/* A lock that is kept is held, to an observer: so these give theirs back. */
static struct pawl_lock *mutex(struct pawl *client) {
    struct pawl_lock *lock = contract_mutex(client, 0);

    if (contract_engine->keep)
        assert_works(pawl_set_keep(lock, 0, &error), &error);
    return lock;
}

static void test_observer_is_told(void **state) {
    struct pawl_lock *lock = mutex(one), *other = mutex(two);
    struct told told = told_new();
    struct pawl_observer *observer = observe(two, &told);
    uint64_t token;

    (void)state;
    await_told(&told, 0, "-", "-");
    take(lock);
    token = pawl_token(lock);
    await_told(&told, token, "-", "-");
    assert_string_equal(told.label, "contract");
    set(lock, "here");
    await_told(&told, token, "here", "here");
    set(lock, "there");
    await_told(&told, token, "there", "there");
    give(lock);
    await_told(&told, 0, "there", "-");
    take(other); /* what the last one wrote is not taken for its own */
    await_told(&told, pawl_token(other), "there", "-");
    set(other, "there");
    await_told(&told, pawl_token(other), "there", "there");
    assert_works(pawl_value_set(other, NULL, 0, &error), &error);
    await_told(&told, pawl_token(other), "-", "-");
    give(other);
    await_told(&told, 0, "-", "-");
    pawl_unobserve(observer);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Who comes late is told what is; and nobody sees it, waits for it or is kept from the lock by it. */
static void test_observer_of_a_held_lock(void **state) {
    struct pawl_lock *lock = mutex(one);
    struct told told = told_new();
    struct pawl_observer *observer;

    (void)state;
    take(lock);
    set(lock, "mine");
    observer = observe(two, &told);
    await_told(&told, pawl_token(lock), "mine", "mine");
    assert_int_equal(contract_holders(one), 1);
    assert_int_equal(contract_waiters(one), 0);
    give(lock);
    await_told(&told, 0, "mine", "-");
    take(lock);
    give(lock);
    pawl_unobserve(observer);
    pawl_lock_free(lock);
}

/* Many changes may be told as one, and the last one is told. */
static void test_last_state_is_told(void **state) {
    struct pawl_lock *lock = mutex(one);
    struct told told = told_new();
    struct pawl_observer *observer = observe(two, &told);
    enum { CHANGES = 40 };
    char text[16];

    (void)state;
    for (int i = 0; i < CHANGES; i++) {
        snprintf(text, sizeof text, "%d", i);
        take(lock);
        set(lock, text);
        give(lock);
    }
    await_told(&told, 0, text, "-");
    assert_true(calls(&told) <= 3 * CHANGES + 1); /* each has three states; renewals are none */
    pawl_unobserve(observer);
    pawl_lock_free(lock);
}

/* All of them hear of a change, also when others have gone meanwhile. */
static void test_a_thousand_observers(void **state) {
    enum { COUNT = 1000 };
    static struct pawl_observer *observers[COUNT];
    static struct told told[COUNT];
    struct pawl_lock *lock = mutex(one);

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        told[i] = told_new();
        observers[i] = observe(i % 2 ? one : two, &told[i]);
    }
    take(lock);
    set(lock, "all");
    for (int i = 0; i < COUNT; i++) {
        await_told(&told[i], pawl_token(lock), "all", "all");
        if (i % 3)
            pawl_unobserve(observers[i]);
    }
    give(lock);
    for (int i = 0; i < COUNT; i += 3) {
        await_told(&told[i], 0, "all", "-");
        pawl_unobserve(observers[i]);
    }
    pawl_lock_free(lock);
}

/* ---- Where it is told, and its end ------------------------------------------------------------------------------------------ */

static void test_observer_by_dispatch(void **state) {
    struct pawl *client = contract_open_as("", (struct pawl_options){.flags = PAWL_OPEN_LOSS_BY_DISPATCH});
    struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};
    struct pawl_lock *lock = mutex(one);
    struct told told = told_new();
    struct pawl_observer *observer = observe(client, &told);
    unsigned before;

    (void)state;
    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
    assert_int_equal(calls(&told), 0);
    assert_int_equal(pawl_dispatch(client), 1);
    assert_true(is_told(&told, 0, "-", "-"));
    take(lock);
    for (int i = 0; i < 100 && !is_told(&told, pawl_token(lock), "-", "-"); i++) {
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        pawl_dispatch(client);
    }
    assert_true(is_told(&told, pawl_token(lock), "-", "-"));
    give(lock);
    before = calls(&told);
    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
    pawl_unobserve(observer); /* what is due is not told any more */
    pawl_dispatch(client);
    assert_int_equal(calls(&told), before);
    pawl_close(client);
    pawl_lock_free(lock);
}

static void test_unobserve_in_the_callback(void **state) {
    struct pawl_lock *lock = mutex(one);
    struct told told = told_new();
    struct pawl_observer *observer = observe(two, &told);
    unsigned before;

    (void)state;
    await_told(&told, 0, "-", "-");
    pthread_mutex_lock(&told.mutex);
    told.end = observer;
    before = told.calls;
    pthread_mutex_unlock(&told.mutex);
    take(lock);
    await(calls(&told) > before, "never told");
    give(lock);
    observer = observe(two, &told); /* and another begins, with a thread of its own */
    await_told(&told, 0, "-", "-");
    pawl_unobserve(observer);
    assert_true(calls(&told) <= before + 2);
    pawl_lock_free(lock);
}

static void *unobserve_elsewhere(void *data) {
    pawl_unobserve(data);
    return NULL;
}

static void set_hold_up(struct told *told, bool hold_up) {
    pthread_mutex_lock(&told->mutex);
    told->hold_up = hold_up;
    pthread_mutex_unlock(&told->mutex);
}

static bool is_in_callback(struct told *told) {
    bool so;

    pthread_mutex_lock(&told->mutex);
    so = told->in_callback;
    pthread_mutex_unlock(&told->mutex);
    return so;
}

/* A callback that runs is waited for. */
static void test_unobserve_waits(void **state) {
    struct told told = told_new();
    struct pawl_observer *observer;
    pthread_t thread;

    (void)state;
    set_hold_up(&told, true);
    observer = observe(two, &told);
    await(is_in_callback(&told), "never told");
    assert_int_equal(pthread_create(&thread, NULL, unobserve_elsewhere, observer), 0);
    assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
    set_hold_up(&told, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(is_in_callback(&told));
    assert_int_equal(calls(&told), 1);
}

static void test_close_ends_observers(void **state) {
    struct pawl *client = contract_open("");
    struct told told[3] = {told_new(), told_new(), told_new()};
    struct pawl_lock *lock = mutex(one);

    (void)state;
    for (int i = 0; i < 3; i++)
        observe(client, &told[i]);
    await_told(&told[0], 0, "-", "-");
    pawl_close(client);
    for (int i = 0; i < 3; i++)
        told[i].calls = 0;
    take(lock);
    give(lock);
    for (int i = 0; i < 3; i++)
        assert_int_equal(told[i].calls, 0);
    pawl_unobserve(NULL);
    pawl_lock_free(lock);
}

static void test_observers_after_fork(void **state) {
    struct told told = told_new();
    struct pawl_observer *observer = observe(two, &told), *another;
    struct pawl_lock *lock = mutex(one);
    int status;
    pid_t pid;

    (void)state;
    await_told(&told, 0, "-", "-");
    if ((pid = fork()) == 0) {
        pawl_unobserve(observer);
        _exit(pawl_observe(two, "lock", observed, &told, &another, NULL) == PAWL_EFORKED ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    take(lock);
    await_told(&told, pawl_token(lock), "-", "-");
    give(lock);
    pawl_unobserve(observer);
    pawl_lock_free(lock);
}

static void test_observer_who_only_looks(void **state) {
    struct pawl *client = contract_open_as("", (struct pawl_options){.flags = PAWL_OPEN_LOOK});
    struct pawl_lock *lock = mutex(one);
    struct told told = told_new();
    struct pawl_observer *observer = observe(client, &told);

    (void)state;
    await_told(&told, 0, "-", "-");
    take(lock);
    set(lock, "seen");
    await_told(&told, pawl_token(lock), "seen", "seen");
    give(lock);
    await_told(&told, 0, "seen", "-");
    pawl_unobserve(observer);
    pawl_close(client);
    pawl_lock_free(lock);
}

static void test_observing_wrongly(void **state) {
    struct pawl_observer *observer;
    struct told told = told_new();

    (void)state;
    assert_fails(PAWL_EINVAL, pawl_observe(NULL, "lock", observed, &told, &observer, &error), &error);
    assert_fails(PAWL_ENAME, pawl_observe(one, "", observed, &told, &observer, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_observe(one, "lock", NULL, &told, &observer, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_observe(one, "lock", observed, &told, NULL, &error), &error);
}

static void test_nobody_observes_here(void **state) {
    struct pawl_observer *observer;
    struct told told = told_new();

    (void)state;
    assert_fails(PAWL_EUNSUPPORTED, pawl_observe(one, "lock", observed, &told, &observer, &error), &error);
}

int contract_run_observe(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_observer_is_told),     CONTRACT_TEST(test_observer_of_a_held_lock),
        CONTRACT_TEST(test_last_state_is_told),   CONTRACT_TEST(test_a_thousand_observers),
        CONTRACT_TEST(test_observer_by_dispatch), CONTRACT_TEST(test_unobserve_in_the_callback),
        CONTRACT_TEST(test_unobserve_waits),      CONTRACT_TEST(test_close_ends_observers),
        CONTRACT_TEST(test_observers_after_fork), CONTRACT_TEST(test_observer_who_only_looks),
        CONTRACT_TEST(test_observing_wrongly),
    };
    const struct CMUnitTest none[] = {CONTRACT_TEST(test_nobody_observes_here)};

    if (contract_engine->no_values)
        return contract_run_group(none, 1, "");
    return contract_run_group(tests, sizeof tests / sizeof tests[0], "");
}
