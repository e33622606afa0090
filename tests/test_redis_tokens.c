/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_tokens.c - tokens that are taken from the server for several holds of one process at once: how many are asked for, and that
 * they never outrun the server's clock, so that a counter that is lost can go on from there.
 *
 * Those who wait are tasks: each joins the claim within the call that starts it, and nothing is left to chance.
 */
#include <poll.h>

#include "core.h"
#include "redis_one.h"
#include "redis_rivals.h"

enum { TASKS = 8 };

/* Handles of one lock in one client; the tokens of the holds that the last round had, in their order. */
struct crowd {
    struct pawl *client;
    struct pawl_lock *holder, *tasks[TASKS];
    uint64_t tokens[1 + TASKS];
    int count;
};

static void open_crowd(struct crowd *crowd, const char *layout) {
    char options[64];

    snprintf(options, sizeof options, "?handoff=64,60000&layout=%s", layout);
    *crowd = (struct crowd){.client = open_at(server.port, options, 0)};
    crowd->holder = mutex_of(crowd->client, "lock");
    for (int i = 0; i < TASKS; i++)
        assert_works(pawl_mutex_new(crowd->client, "lock", PAWL_TASK, &crowd->tasks[i], &error), &error);
}

static void close_crowd(struct crowd *crowd) {
    pawl_lock_free(crowd->holder);
    for (int i = 0; i < TASKS; i++)
        pawl_lock_free(crowd->tasks[i]);
    pawl_close(crowd->client);
}

static void acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    struct crowd *crowd = data;

    assert_works(result, why);
    crowd->tokens[crowd->count++] = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
}

/* One holds, all the others come to wait for it, and it lets go. */
static void take_round(struct crowd *crowd) {
    struct pollfd fd = {.fd = pawl_fd(crowd->client), .events = POLLIN};

    assert_works(pawl_acquire(crowd->holder, PATIENCE_MS, &error), &error);
    crowd->tokens[0] = pawl_token(crowd->holder);
    crowd->count = 1;
    for (int i = 0; i < TASKS; i++)
        assert_works(pawl_acquire_start(crowd->tasks[i], PAWL_EXCLUSIVE, 1, PATIENCE_MS, acquired, crowd, &error), &error);
    assert_works(pawl_release(crowd->holder, &error), &error);
    while (crowd->count < 1 + TASKS) {
        if (poll(&fd, 1, PATIENCE_MS) != 1)
            fail_msg("no callback became due");
        pawl_dispatch(crowd->client);
    }
    for (int i = 1; i < crowd->count; i++)
        assert_true(crowd->tokens[i] > crowd->tokens[i - 1]);
}

static long long counter(void) {
    return redis_server_integer(&server, "GET redisson_lock_token:{lock}");
}

static const char *const layouts[] = {"redisson", "plain"};

/* What was of use is asked for again: the second time all of them are served without a further request. */
static void test_asked_for_by_what_was_used(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct crowd crowd;
        long before;

        empty_server(NULL);
        open_crowd(&crowd, layouts[i]);
        take_round(&crowd);
        before = redis_server_scripts(&server);
        take_round(&crowd);
        assert_true(redis_server_scripts(&server) - before <
                    TASKS); /* two, but for renewals of a process that was stopped for seconds */
        for (int j = 1; j <= TASKS; j++)
            assert_true(crowd.tokens[j] == crowd.tokens[0] + (uint64_t)j);
        close_crowd(&crowd);
    }
}

/* Who was alone asks for one. */
static void test_one_for_one(void **state) {
    struct crowd crowd;

    (void)state;
    open_crowd(&crowd, "redisson");
    take_round(&crowd);
    for (int i = 0; i < 3; i++) {
        long long before = counter();

        assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(crowd.holder) == (uint64_t)before + 1);
        assert_works(pawl_release(crowd.holder, &error), &error);
        assert_true(i == 0 || counter() == before + 1); /* the first one still has what its predecessor could use */
    }
    close_crowd(&crowd);
}

/* The counter is ahead of the clock, by whatever made it so: then a claim gets one token, however many it wants. */
static void test_counter_does_not_outrun_the_clock(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct crowd crowd;
        long long ahead;

        empty_server(NULL);
        open_crowd(&crowd, layouts[i]);
        take_round(&crowd);
        ahead = redis_server_integer(&server, "INCRBY redisson_lock_token:{lock} 3600000000");
        for (int round = 0; round < 2; round++) {
            take_round(&crowd);
            for (int j = 0; j <= TASKS; j++)
                assert_true(crowd.tokens[j] == (uint64_t)++ahead);
            assert_true(counter() == ahead);
        }
        close_crowd(&crowd);
    }
}

/* Now, by the server's clock, in microseconds. */
static long long server_time(void) {
    return redis_server_integer(&server, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/* The counter is a little ahead of the clock, or behind it when it is asked: so many are given as there is room for, or one. */
static void test_as_many_as_the_clock_allows(void **state) {
    struct crowd crowd;
    long long set, after;

    (void)state;
    open_crowd(&crowd, "redisson");
    for (int ahead = 0; ahead < 1000; ahead += 10) {
        take_round(&crowd);
        set = server_time() + ahead;
        freeReplyObject(redis_server_command(&server, "SET redisson_lock_token:{lock} %lld", set));
        assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(crowd.holder) == (uint64_t)set + 1);
        after = counter();
        assert_true(after == set + 1 || after <= server_time());
        assert_works(pawl_release(crowd.holder, &error), &error);
    }
    close_crowd(&crowd);
}

/* Tokens that were reserved count as given: what comes after a loss is above them. */
static void test_lost_counter_goes_on_above_reserved_tokens(void **state) {
    struct crowd crowd;
    long long reserved;

    (void)state;
    open_crowd(&crowd, "redisson");
    take_round(&crowd);
    assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
    reserved = counter();
    assert_true((uint64_t)reserved >= pawl_token(crowd.holder) + TASKS);
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    assert_fails(PAWL_ELOST, pawl_release(crowd.holder, &error), &error);
    take_round(&crowd);
    assert_true(crowd.tokens[0] > (uint64_t)reserved);
    close_crowd(&crowd);
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

/* Two processes' worth of threads hand on and hand over, while the counter is lost again and again. */
static void test_tokens_rise_while_the_counter_is_lost(void **state) {
    enum { CLIENTS = 2, THREADS = 6, TURNS = 150 };
    struct rivals rivals = {0};
    struct pawl_lock *locks[CLIENTS];
    struct pawl *clients[CLIENTS];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_at(server.port, "", 0);
        locks[i] = mutex_of(clients[i], "lock");
    }
    for (int i = 0; i < CLIENTS * THREADS; i++)
        rivals_add(&rivals, locks[i % CLIENTS]);
    while (rivals_least(&rivals) < TURNS && !atomic_load(&rivals.failures)) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        redis_server_integer(&server, "DEL redisson_lock_token:{lock}");
    }
    rivals_end(&rivals);
    for (int i = 0; i < CLIENTS; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
}

/* ---- The number ----------------------------------------------------------------------------------------------------------- */

static void test_number_that_is_asked_for(void **state) {
    static const uint32_t bounds[] = {0, 1, 2, 3, 64, 100000};
    struct pawl client = {0};
    struct cohort cohort = {.client = &client};

    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        client.handoffs = bounds[i];
        assert_int_equal(pawl__cohort_tokens(&cohort, 0), 0);
        assert_int_equal(pawl__cohort_tokens(&cohort, 1), 1);
        for (uint32_t used = 2; used < 300000; used = used * 3 / 2) {
            uint32_t asked = pawl__cohort_tokens(&cohort, used);

            assert_true(asked <= 1 + bounds[i]);
            assert_true(asked == 2 * used || asked == 1 + bounds[i]);
            assert_true(asked >= pawl__cohort_tokens(&cohort, used - 1));
        }
    }
}

#define TEST(function) cmocka_unit_test_setup(function, empty_server)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_asked_for_by_what_was_used),
        TEST(test_one_for_one),
        TEST(test_counter_does_not_outrun_the_clock),
        TEST(test_as_many_as_the_clock_allows),
        TEST(test_lost_counter_goes_on_above_reserved_tokens),
        TEST(test_tokens_rise_while_the_counter_is_lost),
        cmocka_unit_test(test_number_that_is_asked_for),
    };

    return run_redis_tests(argc, argv, "redis tokens", tests, NULL, stop_server);
}
