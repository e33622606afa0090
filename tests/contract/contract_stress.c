/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_stress.c - many threads of several clients at once, with an oracle that sees every overlap and every token that does not
 * rise.
 */
#include "contract.h"

enum { CLIENTS = 3, THREADS = 4, ROUNDS = 60 };

static struct pawl *clients[CLIENTS];

static const char *url_options = "";

static int set_up(void **state) {
    (void)state;
    if (contract_engine->set_up() < 0)
        return -1;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = contract_open(url_options);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        pawl_close(clients[i]);
    contract_engine->tear_down();
    return 0;
}

/* What everybody writes down while holding. Plain fields on purpose: a race in them is what the lock must prevent, and the thread
 * sanitizer would tell. */
struct oracle {
    _Atomic int inside, readers, violations;
    uint64_t last_token; /* of an exclusive hold */
    unsigned long entries;
    unsigned limit;
    _Atomic unsigned permits;
};

struct worker {
    pthread_t thread;
    struct pawl_lock *lock;
    struct oracle *oracle;
    unsigned seed;
};

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void violation(struct oracle *oracle, bool broken) {
    if (broken)
        atomic_fetch_add(&oracle->violations, 1);
}

/* tools/run-tests knows the words: there is no second try after them. */
static void assert_never_violated(const struct oracle *oracle) {
    int violations = atomic_load(&oracle->violations);

    if (violations)
        fail_msg("LOCK VIOLATED %d times: two were let in, a token did not rise, or a release failed", violations);
}

static void be_alone(struct worker *worker) {
    struct oracle *oracle = worker->oracle;
    uint64_t token = pawl_token(worker->lock);

    violation(oracle, atomic_fetch_add(&oracle->inside, 1) != 0);
    violation(oracle, atomic_load(&oracle->readers) != 0);
    violation(oracle, token <= oracle->last_token);
    oracle->last_token = token;
    oracle->entries++;
    violation(oracle, atomic_fetch_sub(&oracle->inside, 1) != 1);
}

static void be_a_reader(struct worker *worker) {
    struct oracle *oracle = worker->oracle;

    atomic_fetch_add(&oracle->readers, 1);
    violation(oracle, atomic_load(&oracle->inside) != 0);
    violation(oracle, pawl_token(worker->lock) <= oracle->last_token);
    atomic_fetch_sub(&oracle->readers, 1);
}

static int64_t some_timeout(struct worker *worker) {
    unsigned random = next_random(&worker->seed) % 8;

    return random == 0 ? 0 : random == 1 ? 1 : random == 2 ? 5 : PAWL_FOREVER;
}

static void *exclude(void *data) {
    struct worker *worker = data;

    for (int i = 0; i < ROUNDS; i++) {
        if (pawl_acquire(worker->lock, some_timeout(worker), NULL) < 0)
            continue;
        be_alone(worker);
        violation(worker->oracle, pawl_release(worker->lock, NULL) != 0);
    }
    return NULL;
}

static void *read_and_write(void *data) {
    struct worker *worker = data;

    for (int i = 0; i < ROUNDS; i++) {
        if (next_random(&worker->seed) % 3) {
            if (pawl_acquire_shared(worker->lock, some_timeout(worker), NULL) < 0)
                continue;
            be_a_reader(worker);
        } else {
            if (pawl_acquire(worker->lock, some_timeout(worker), NULL) < 0)
                continue;
            be_alone(worker);
            if (next_random(&worker->seed) % 2) {
                violation(worker->oracle, pawl_release(worker->lock, NULL) != 0);
                continue;
            }
            violation(worker->oracle, pawl_downgrade(worker->lock, NULL) != 0);
            violation(worker->oracle, atomic_load(&worker->oracle->inside) != 0);
        }
        violation(worker->oracle, pawl_release_shared(worker->lock, NULL) != 0);
    }
    return NULL;
}

static void *take_permits(void *data) {
    struct worker *worker = data;
    struct oracle *oracle = worker->oracle;

    for (int i = 0; i < ROUNDS; i++) {
        unsigned permits = 1 + next_random(&worker->seed) % oracle->limit;

        if (pawl_acquire_permits(worker->lock, permits, some_timeout(worker), NULL) < 0)
            continue;
        violation(oracle, atomic_fetch_add(&oracle->permits, permits) + permits > oracle->limit);
        atomic_fetch_sub(&oracle->permits, permits);
        violation(oracle, pawl_release(worker->lock, NULL) != 0);
    }
    return NULL;
}

static void run(void *(*work)(void *), struct pawl_lock *(*new_lock)(struct pawl *, unsigned)) {
    struct worker workers[CLIENTS * THREADS];
    struct pawl_lock *locks[CLIENTS];
    struct oracle oracle = {.limit = 3};

    for (int c = 0; c < CLIENTS; c++)
        locks[c] = new_lock(clients[c], 0);
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        workers[i] = (struct worker){.lock = locks[i % CLIENTS], .oracle = &oracle, .seed = (unsigned)i * 7919 + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < CLIENTS * THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    assert_never_violated(&oracle);
    contract_await_waiters(clients[0], 0); /* an acquire whose time was up may return before the server has heard of it */
    for (int c = 0; c < CLIENTS; c++)
        pawl_lock_free(locks[c]);
}

static struct pawl_lock *three_permits(struct pawl *client, unsigned flags) {
    return contract_semaphore(client, 3, flags);
}

static void test_mutex(void **state) {
    (void)state;
    run(exclude, contract_mutex);
}

static void test_read_write_lock(void **state) {
    (void)state;
    run(read_and_write, contract_rwlock);
}

static void test_semaphore(void **state) {
    (void)state;
    run(take_permits, three_permits);
}

static int set_up_without_handoff(void **state) {
    url_options = "?handoff=0";
    return set_up(state);
}

static int tear_down_without_handoff(void **state) {
    url_options = "";
    return tear_down(state);
}

static void test_mutex_without_handoff(void **state) {
    (void)state;
    run(exclude, contract_mutex);
}

static void test_read_write_lock_without_handoff(void **state) {
    (void)state;
    run(read_and_write, contract_rwlock);
}

/* Acquires that end while they are cancelled: each exactly once, and nothing stays behind. */
static void *acquire_until_told(void *data) {
    struct worker *worker = data;
    int rc;

    for (int i = 0; i < ROUNDS; i++) {
        rc = pawl_acquire(worker->lock, PAWL_FOREVER, NULL);
        violation(worker->oracle, rc != 0 && rc != PAWL_ECANCELED);
        if (rc < 0)
            continue;
        be_alone(worker);
        violation(worker->oracle, pawl_release(worker->lock, NULL) != 0);
    }
    atomic_fetch_add(&worker->oracle->permits, 1);
    return NULL;
}

static void test_cancel(void **state) {
    struct worker workers[THREADS];
    struct oracle oracle = {.limit = 1};
    struct pawl_lock *locks[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        locks[i] = contract_mutex(clients[i % CLIENTS], 0);
        workers[i] = (struct worker){.lock = locks[i], .oracle = &oracle, .seed = (unsigned)i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, acquire_until_told, &workers[i]), 0);
    }
    for (unsigned i = 0; atomic_load(&oracle.permits) < THREADS; i++)
        pawl_cancel(locks[i % THREADS]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        pawl_lock_free(locks[i]);
    }
    assert_never_violated(&oracle);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_WITHOUT_HANDOFF(name) cmocka_unit_test_setup_teardown(name, set_up_without_handoff, tear_down_without_handoff)

int contract_run_stress(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_mutex),
        TEST(test_read_write_lock),
        TEST(test_semaphore),
        TEST_WITHOUT_HANDOFF(test_mutex_without_handoff),
        TEST_WITHOUT_HANDOFF(test_read_write_lock_without_handoff),
        TEST(test_cancel),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_read_write_lock test_semaphore test_read_write_lock_without_handoff");
}
