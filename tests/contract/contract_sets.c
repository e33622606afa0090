/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_sets.c - several locks taken as one: all or none, named in any order, and told of the loss of any.
 */
#include "contract.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct pawl_error error;

static struct pawl_lock *mutex(struct pawl *client, const char *name, unsigned flags) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, name, flags, &lock, &error), &error);
    return lock;
}

static struct pawl_part part(struct pawl_lock *lock) {
    return (struct pawl_part){.lock = lock};
}

static void free_all(const struct pawl_part *parts, size_t count) {
    for (size_t i = 0; i < count; i++)
        pawl_lock_free(parts[i].lock);
}

/* Nobody holds it: a try gets it. A release that nobody waited for may take a moment. */
static void assert_free(const char *name) {
    struct pawl_lock *lock = mutex(two, name, 0);

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

static void assert_held(const char *name) {
    struct pawl_lock *lock = mutex(two, name, 0);

    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
}

static void test_all_are_taken_and_given_back(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "c", 0)), part(mutex(one, "a", 0)), part(mutex(one, "b", 0))};
    uint64_t tokens[3];

    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pawl_state(parts[i].lock), PAWL_HELD);
            assert_true(pawl_token(parts[i].lock) > (round ? tokens[i] : 0));
            tokens[i] = pawl_token(parts[i].lock);
        }
        assert_true(pawl_remaining_all_ms(parts, 3) > 0);
        assert_held("a");
        assert_held("b");
        assert_held("c");
        assert_works(pawl_release_all(parts, 3, &error), &error);
        assert_int_equal(pawl_remaining_all_ms(parts, 3), 0);
        assert_free("a");
        assert_free("b");
        assert_free("c");
    }
    assert_fails(PAWL_ENOTHELD, pawl_release_all(parts, 3, &error), &error);
    free_all(parts, 3);
}

/* A mutex, the shared side of a read-write lock, and permits of a semaphore. */
static void test_all_kinds(void **state) {
    struct pawl_lock *rw, *semaphore, *reader, *permits;
    struct pawl_part parts[3] = {part(mutex(one, "mutex", 0))};

    (void)state;
    assert_works(pawl_rwlock_new(one, "rw", 0, &rw, &error), &error);
    assert_works(pawl_rwlock_new(two, "rw", 0, &reader, &error), &error);
    assert_works(pawl_semaphore_new(one, "sem", 3, 0, &semaphore, &error), &error);
    assert_works(pawl_semaphore_new(two, "sem", 3, 0, &permits, &error), &error);
    parts[1] = (struct pawl_part){.lock = rw, .mode = PAWL_SHARED};
    parts[2] = (struct pawl_part){.lock = semaphore, .mode = PAWL_PERMITS, .permits = 2};
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire(permits, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(permits, 0, &error), &error);
    assert_works(pawl_release_shared(reader, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire(reader, 0, &error), &error);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    assert_works(pawl_acquire(reader, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_permits(permits, 2, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire_all(parts, 3, 0, &error), &error);
    assert_free("mutex");
    assert_fails(PAWL_EPERMITS, pawl_acquire_all((parts[2].permits = 4, parts), 3, 0, &error), &error);
    free_all(parts, 3);
    pawl_lock_free(reader);
    pawl_lock_free(permits);
}

static void test_one_of_another_kind(void **state) {
    struct pawl_lock *rw, *held = mutex(two, "b", 0);
    struct pawl_part parts[2] = {part(mutex(one, "a", 0))};

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    assert_works(pawl_rwlock_new(one, "b", 0, &rw, &error), &error);
    parts[1] = part(rw);
    assert_fails(PAWL_EKIND, pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error);
    assert_contains(error.text, "'b'");
    assert_free("a");
    free_all(parts, 2);
    pawl_lock_free(held);
}

static void test_one_is_held(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "b", 0)), part(mutex(one, "a", 0))};
    struct pawl_lock *held = mutex(two, "b", 0);

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_contains(error.text, "'b'");
    assert_int_equal(pawl_state(parts[1].lock), PAWL_NOT_HELD);
    assert_free("a");
    assert_fails(PAWL_ETIMEOUT, pawl_acquire_all(parts, 2, 30, &error), &error);
    assert_int_equal(pawl_state(parts[1].lock), PAWL_NOT_HELD);
    assert_free("a");
    assert_works(pawl_release(held, &error), &error);
    assert_works(pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error);
    free_all(parts, 2);
    pawl_lock_free(held);
}

/* ---- In a thread of its own ----------------------------------------------------------------------------------------------- */

struct taker {
    pthread_t thread;
    const struct pawl_part *parts;
    size_t count;
    int result;
};

static void *take(void *data) {
    struct taker *taker = data;

    taker->result = pawl_acquire_all(taker->parts, taker->count, PAWL_FOREVER, NULL);
    return NULL;
}

static void start_taking(struct taker *taker, const struct pawl_part *parts, size_t count) {
    *taker = (struct taker){.parts = parts, .count = count, .result = 1};
    assert_int_equal(pthread_create(&taker->thread, NULL, take, taker), 0);
}

static int taken(struct taker *taker) {
    pthread_join(taker->thread, NULL);
    return taker->result;
}

/* Where "lock" may only be kept, both were asked for at once, and waited for together for a moment. */
static void await_first(const struct pawl_part *parts) {
    await(pawl_state(parts[1].lock) == PAWL_HELD, "the first is never held");
}

/* "lock" is the last in the order: "a" is held when somebody waits for it. Handles that own their holds, so that any thread sees. */
static void test_the_first_is_held_while_the_last_is_waited_for(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "lock", PAWL_TASK)), part(mutex(one, "a", PAWL_TASK))};
    struct pawl_lock *held = contract_mutex(two, 0);
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taking(&taker, parts, 2);
    contract_await_waiters(two, 1);
    await_first(parts);
    assert_fails(PAWL_EBUSY, pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(taken(&taker), 0);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_HELD);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    free_all(parts, 2);
    pawl_lock_free(held);
}

/* By the handle that is waited for, by one that is held, by freeing one, and by closing the client. */
static void test_ended_from_outside(void **state) {
    struct pawl *third = contract_open("");
    struct pawl_part parts[] = {part(mutex(third, "lock", PAWL_TASK)), part(mutex(third, "a", PAWL_TASK))};
    struct pawl_lock *held = contract_mutex(two, 0);
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int way = 0; way < 4; way++) {
        start_taking(&taker, parts, 2);
        contract_await_waiters(two, 1);
        if (way < 2)
            assert_int_equal(pawl_cancel(parts[way].lock), 1);
        else if (way == 2)
            pawl_lock_free(parts[1].lock);
        else
            pawl_close(third);
        assert_int_equal(taken(&taker), way == 3 ? PAWL_ECLOSED : PAWL_ECANCELED);
        if (way == 2)
            parts[1].lock = mutex(third, "a", PAWL_TASK);
        contract_await_waiters(two, 0);
        assert_free("a");
    }
    assert_fails(PAWL_ECLOSED, pawl_acquire_all(parts, 2, 0, &error), &error);
    free_all(parts, 2);
    pawl_lock_free(held);
}

/* ---- Loss ----------------------------------------------------------------------------------------------------------------- */

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    _Atomic uint64_t *told = data;

    (void)lock;
    (void)why;
    if (state == PAWL_LOST)
        atomic_store(told, token);
}

static void await_loss(const _Atomic uint64_t *told, uint64_t token) {
    await(atomic_load(told) != 0, "no loss is told");
    assert_int_equal(atomic_load(told), token);
}

static void test_loss_of_one(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "a", 0)), part(mutex(one, "b", 0)), part(mutex(one, "c", 0))};
    _Atomic uint64_t told = 0;
    uint64_t token;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_works(pawl_on_loss(parts[i].lock, on_loss, &told, &error), &error);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    token = pawl_token(parts[1].lock);
    assert_works(pawl_break(two, "b", token, PAWL_BREAK_NOW, &error), &error);
    await_loss(&told, token);
    assert_int_equal(pawl_remaining_all_ms(parts, 3), 0);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_HELD);
    assert_fails(PAWL_ELOST, pawl_acquire_all(parts, 3, 0, &error), &error); /* the lost one must be released first */
    assert_fails(PAWL_ELOST, pawl_release_all(parts, 3, &error), &error);
    assert_free("a");
    assert_free("b");
    assert_free("c");
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    free_all(parts, 3);
}

/* "a" is broken while "lock" is waited for: no success is reported, and nothing is kept. */
static void test_loss_of_one_while_another_is_waited_for(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "lock", PAWL_TASK)), part(mutex(one, "a", PAWL_TASK))};
    struct pawl_lock *held = contract_mutex(two, 0);
    _Atomic uint64_t told = 0;
    struct taker taker;
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(parts[1].lock, on_loss, &told, &error), &error);
    /* Were it kept, the set would recall it first, seen as a waiter, and hold nothing meanwhile. */
    assert_works(pawl_set_keep(held, 0, &error), &error);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taking(&taker, parts, 2);
    contract_await_waiters(two, 1);
    await_first(parts);
    token = pawl_token(parts[1].lock);
    assert_works(pawl_break(two, "a", token, PAWL_BREAK_NOW, &error), &error);
    await_loss(&told, token);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(taken(&taker), PAWL_ELOST);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_NOT_HELD);
    assert_int_equal(pawl_state(parts[1].lock), PAWL_NOT_HELD);
    assert_free("a");
    free_all(parts, 2);
    pawl_lock_free(held);
}

/* ---- Re-entry ------------------------------------------------------------------------------------------------------------- */

static void test_what_the_owner_has_is_entered_again(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "a", 0)), part(mutex(one, "b", 0))};

    (void)state;
    assert_works(pawl_acquire(parts[1].lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_works(pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_free("a");
    assert_held("b");
    free_all(parts, 2);
}

/* ---- Without blocking ----------------------------------------------------------------------------------------------------- */

static void start(const struct pawl_part *parts, int64_t timeout_ms, struct contract_outcome *outcome) {
    *outcome = (struct contract_outcome){0, 1};
    assert_works(pawl_acquire_all_start(parts, 2, timeout_ms, contract_acquired, outcome, &error), &error);
    assert_int_equal(outcome->calls, 0); /* never from within the call */
}

static void test_without_blocking(void **state) {
    struct pawl_part parts[] = {part(mutex(one, "lock", PAWL_TASK)), part(mutex(one, "a", PAWL_TASK))};
    struct pawl_part threads[] = {parts[0], part(mutex(one, "b", 0))};
    struct pawl_lock *held = contract_mutex(two, 0);
    struct contract_outcome outcome;

    (void)state;
    start(parts, PATIENCE_MS, &outcome);
    assert_int_equal(contract_await_outcome(one, &outcome), 0);
    start(parts, 0, &outcome); /* again, by right */
    assert_int_equal(contract_await_outcome(one, &outcome), 0);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start(parts, 0, &outcome);
    assert_int_equal(contract_await_outcome(one, &outcome), PAWL_EHELD);
    start(parts, 30, &outcome);
    assert_int_equal(contract_await_outcome(one, &outcome), PAWL_ETIMEOUT);
    assert_free("a");
    start(parts, PAWL_FOREVER, &outcome);
    assert_fails(PAWL_EBUSY, pawl_acquire(parts[1].lock, 0, &error), &error);
    assert_int_equal(pawl_cancel(parts[1].lock), 1);
    assert_int_equal(contract_await_outcome(one, &outcome), PAWL_ECANCELED);
    start(parts, PAWL_FOREVER, &outcome);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(contract_await_outcome(one, &outcome), 0);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire_all_start(threads, 2, 0, contract_acquired, &outcome, &error), &error);
    free_all(parts, 2);
    pawl_lock_free(threads[1].lock);
    pawl_lock_free(held);
}

/* ---- Over several engines ------------------------------------------------------------------------------------------------- */

/* A set over this engine and a local one; the local lock is held, then not. */
static void test_over_two_engines(void **state) {
    char url[64] = "local:/tmp/pawl-sets-XXXXXX", command[96];
    struct pawl *local;
    struct pawl_lock *held;
    struct pawl_part parts[2];
    struct contract_outcome outcome;

    (void)state;
    assert_non_null(mkdtemp(url + strlen("local:")));
    assert_works(pawl_open(url, NULL, &local, &error), &error);
    held = mutex(local, "lock", 0);
    parts[0] = part(mutex(one, "lock", PAWL_TASK));
    parts[1] = part(mutex(local, "lock", PAWL_TASK)); /* of the same name, but another lock */
    assert_works(pawl_acquire_all(parts, 2, PATIENCE_MS, &error), &error);
    assert_held("lock");
    assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_works(pawl_acquire(held, 0, &error), &error);
    assert_fails(PAWL_EHELD, pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_free("lock");
    assert_works(pawl_release(held, &error), &error);
    start(parts, PATIENCE_MS, &outcome);
    for (int i = 0; i < PATIENCE_MS && outcome.calls == 0; i++) {
        struct pollfd fds[] = {{.fd = pawl_fd(one), .events = POLLIN}, {.fd = pawl_fd(local), .events = POLLIN}};

        poll(fds, 2, 10);
        pawl_dispatch(one);
        pawl_dispatch(local);
    }
    assert_int_equal(outcome.result, 0);
    pawl_lock_free(held);
    pawl_lock_free(parts[1].lock);
    pawl_close(local);
    assert_int_equal(pawl_remaining_all_ms(parts, 1) > 0, 1);
    pawl_lock_free(parts[0].lock);
    snprintf(command, sizeof command, "rm -rf '%s'", url + strlen("local:"));
    assert_int_equal(system(command), 0);
}

/* ---- In all orders, by everybody ------------------------------------------------------------------------------------------ */

enum { NAMES = 3, PROCESSES = 3, THREADS = 3, ROUNDS = 12 };

static const char *const names[NAMES] = {"a", "b", "lock"};

/* Shared by the processes. What is plain is guarded by the lock of that number. */
struct oracle {
    struct {
        _Atomic int inside;
        uint64_t token;
    } locks[NAMES];
    _Atomic int violations, stuck;
};

struct worker {
    pthread_t thread;
    struct pawl *client;
    struct oracle *oracle;
    unsigned seed;
};

/* Some of the names, or one, in any order. */
static size_t choose(unsigned *seed, int *chosen) {
    static const int orders[][NAMES] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    unsigned random = (*seed = *seed * 1664525u + 1013904223u) >> 16;

    memcpy(chosen, orders[random % 4], sizeof orders[0]);
    return 1 + random / 4 % NAMES;
}

static void visit(struct oracle *oracle, int number, uint64_t token) {
    if (atomic_fetch_add(&oracle->locks[number].inside, 1) != 0 || token <= oracle->locks[number].token)
        atomic_fetch_add(&oracle->violations, 1);
    oracle->locks[number].token = token;
}

static void *take_in_any_order(void *data) {
    struct worker *worker = data;
    struct oracle *oracle = worker->oracle;
    struct pawl_part all[NAMES] = {{NULL}}, parts[NAMES];
    int chosen[NAMES];

    for (int i = 0; i < NAMES; i++)
        if (pawl_mutex_new(worker->client, names[i], 0, &all[i].lock, NULL) < 0)
            atomic_fetch_add(&oracle->violations, 1);
    for (int round = 0; round < ROUNDS && !atomic_load(&oracle->stuck); round++) {
        size_t count = choose(&worker->seed, chosen);

        for (size_t i = 0; i < count; i++)
            parts[i] = all[chosen[i]];
        if ((count > 1 ? pawl_acquire_all(parts, count, 3 * PATIENCE_MS, NULL)
                       : pawl_acquire(parts[0].lock, 3 * PATIENCE_MS, NULL)) < 0) {
            atomic_fetch_add(&oracle->stuck, 1);
            break;
        }
        for (size_t i = 0; i < count; i++)
            visit(oracle, chosen[i], pawl_token(parts[i].lock));
        for (size_t i = 0; i < count; i++)
            atomic_fetch_sub(&oracle->locks[chosen[i]].inside, 1);
        if (pawl_release_all(parts, count, NULL) < 0)
            atomic_fetch_add(&oracle->violations, 1);
    }
    for (int i = 0; i < NAMES; i++)
        pawl_lock_free(all[i].lock);
    return NULL;
}

static void run_threads(struct pawl *client, struct oracle *oracle, unsigned seed) {
    struct worker workers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.client = client, .oracle = oracle, .seed = seed + i * 7919};
        if (pthread_create(&workers[i].thread, NULL, take_in_any_order, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static pid_t start_process(struct oracle *oracle, unsigned seed) {
    pid_t pid = fork();

    if (pid == 0) {
        struct pawl *client = contract_open("");

        run_threads(client, oracle, seed);
        pawl_close(client);
        _exit(0);
    }
    return pid;
}

/* In the simulated world nobody forks. The sanitizers don't let a child of a process with threads have its own: of the address
 * sanitizer's allocator a lock may be held, for ever, by a thread that is not there any more. */
static bool without_processes(void) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(PAWL_IN_WORLD)
    return true;
#else
    return false;
#endif
}

/* Redisson #4050, #4456: sets named in opposite orders kept each other out for ever. Here threads and processes name them in all orders,
 * and others take single ones of the same. */
static void test_bug_20_multilock_livelock(void **state) {
    static struct oracle own;
    bool alone = without_processes();
    struct oracle *oracle = alone ? &own : mmap(NULL, sizeof *oracle, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[PROCESSES];
    int status;

    (void)state;
    assert_true(oracle != MAP_FAILED);
    memset(oracle, 0, sizeof *oracle); /* the suite may run twice, on another server */
    for (unsigned i = 0; i < PROCESSES && !alone; i++)
        assert_true((pids[i] = start_process(oracle, i * 104729 + 1)) > 0);
    run_threads(one, oracle, 65537);
    for (int i = 0; i < PROCESSES && !alone; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(atomic_load(&oracle->stuck), 0);
    if (atomic_load(&oracle->violations))
        fail_msg("LOCK VIOLATED %d times", atomic_load(&oracle->violations));
    if (!alone)
        munmap(oracle, sizeof *oracle);
}

int contract_run_sets(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_all_are_taken_and_given_back),
        CONTRACT_TEST(test_all_kinds),
        CONTRACT_TEST(test_one_of_another_kind),
        CONTRACT_TEST(test_one_is_held),
        CONTRACT_TEST(test_the_first_is_held_while_the_last_is_waited_for),
        CONTRACT_TEST(test_ended_from_outside),
        CONTRACT_TEST(test_loss_of_one),
        CONTRACT_TEST(test_loss_of_one_while_another_is_waited_for),
        CONTRACT_TEST(test_what_the_owner_has_is_entered_again),
        CONTRACT_TEST(test_without_blocking),
        CONTRACT_TEST(test_over_two_engines),
        CONTRACT_TEST(test_bug_20_multilock_livelock),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0], "test_all_kinds test_one_of_another_kind");
}
