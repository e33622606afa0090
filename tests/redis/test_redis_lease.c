/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_lease.c - what a server is told of the time of a hold: leases that are renewed, that are renewed up to a limit, and that are
 * not renewed at all. The server's own count, PTTL, is what is looked at.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_one.h"

/* How often the time of a key was seen to rise until it was gone. */
static int rises_until_gone(const char *key) {
    const struct timespec moment = {.tv_nsec = 10000000};
    long long before = INT64_MAX, now;
    int rises = 0;

    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        now = redis_server_integer(&server, "PTTL %s", key);
        if (now == -2)
            return rises;
        assert_true(now >= 0); /* never without an end */
        rises += now > before;
        before = now;
        nanosleep(&moment, NULL);
    }
    fail_msg("%s is never gone", key);
    return -1;
}

static const char *const layouts[] = {"?layout=redisson", "?layout=plain"};

/* A limit shorter than the lease: written once, with the acquire, and never again. */
static void test_lease_without_renewal(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct losses losses = LOSSES_INIT;
        struct pawl *client = open_at(server.port, layouts[i], 0);
        struct pawl_lock *lock = mutex_of(client, "lock");

        assert_works(pawl_set_max_hold(lock, 1500, &error), &error);
        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_true(redis_server_integer(&server, "PTTL lock") <= 1500);
        assert_true(redis_server_integer(&server, "PTTL pawl:who:{lock}") <= 1500);
        assert_int_equal(rises_until_gone("lock"), 0);
        await_loss(&losses);
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
        assert_int_equal(redis_server_integer(&server, "EXISTS lock pawl:who:{lock}"), 0);
        pawl_lock_free(lock);
        pawl_close(client);
    }
}

/* A limit longer than the lease: renewed, and gone at the end of it. */
static void test_renewed_up_to_the_limit(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct losses losses = LOSSES_INIT;
        struct pawl *client = open_at(server.port, layouts[i], 3000);
        struct pawl_lock *lock = mutex_of(client, "lock");

        assert_works(pawl_set_max_hold(lock, 5000, &error), &error);
        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_in_range(redis_server_integer(&server, "PTTL lock"), 1501, 3000);
        assert_in_range(rises_until_gone("lock"), 1, 2); /* after 1 s, and after 2 s: that one reaches the limit */
        await_loss(&losses);
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
        pawl_lock_free(lock);
        pawl_close(client);
    }
}

/* A hold that was handed over comes with the time of its claim; its first renewal reaches no further than the limit. */
static void test_limit_of_a_hold_that_was_handed_over(void **state) {
    struct pawl *one = open_at(server.port, "", 0), *two = open_at(server.port, "?max-hold=4000", 0);
    struct pawl_lock *first = mutex_of(one, "lock"), *second = mutex_of(two, "lock");
    struct taker taker;
    struct pawl_lock *third = mutex_of(one, "lock");

    (void)state;
    assert_works(pawl_acquire(first, PATIENCE_MS, &error), &error);
    start_holder(&taker, second, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_works(pawl_release(first, &error), &error);
    assert_int_equal(end_taker(&taker), 0); /* it has ended, and its hold lives on */
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 1, 4000);
    assert_in_range(rises_until_gone("lock"), 0, 1);
    assert_works(pawl_acquire(third, PATIENCE_MS, &error), &error);
    pawl_lock_free(first);
    pawl_lock_free(second);
    pawl_lock_free(third);
    pawl_close(one);
    pawl_close(two);
}

/* Readers and permits have times of their own; a limit bounds those too. */
static void test_limit_of_readers_and_permits(void **state) {
    struct pawl *client = open_at(server.port, "?max-hold=1000", 0), *plain = open_at(server.port, "", 0);
    struct pawl_lock *reader, *other, *permit;

    (void)state;
    assert_works(pawl_rwlock_new(client, "rw", 0, &reader, &error), &error);
    assert_works(pawl_rwlock_new(plain, "rw", 0, &other, &error), &error);
    assert_works(pawl_acquire_shared(other, PATIENCE_MS, &error), &error); /* keeps the hash, not the first one's hold */
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    await_integer(&server, "HLEN rw", 2); /* `mode`, and the reader without a limit */
    assert_in_range(redis_server_integer(&server, "PTTL rw"), 1001, 30000);
    assert_fails(PAWL_ELOST, pawl_release_shared(reader, &error), &error);
    assert_works(pawl_release_shared(other, &error), &error);
    assert_works(pawl_semaphore_new(client, "permits", 2, 0, &permit, &error), &error);
    assert_works(pawl_acquire(permit, PATIENCE_MS, &error), &error);
    await_integer(&server, "ZCARD {permits}:timeout", 0);
    assert_int_equal(redis_server_integer(&server, "GET permits"), 2);
    assert_fails(PAWL_ELOST, pawl_release(permit, &error), &error);
    pawl_lock_free(reader);
    pawl_lock_free(other);
    pawl_lock_free(permit);
    pawl_close(client);
    pawl_close(plain);
}

/* Killed: the server ends the hold by itself, though the lease would be an hour. */
static void test_limit_outlives_the_process(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    pid_t pid = fork();
    int status;

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        client = open_at(server.port, "?max-hold=1000", 3600000);
        lock = mutex_of(client, "lock");
        if (pawl_acquire(lock, PATIENCE_MS, NULL) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    client = open_at(server.port, "", 0);
    lock = mutex_of(client, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Many holds of one process are renewed together: a script for each hundred that are due, not one for each hold. */
static void test_many_holds_are_renewed_together(void **state) {
    enum { HOLDS = 500 };
    static const char stretch[] = "for i = 0, 499 do redis.call('PEXPIRE', 'lock-' .. i, 600000) end return 1";
    struct pawl *client = open_at(server.port, "", 9000);
    static struct pawl_lock *locks[HOLDS];
    long scripts;

    (void)state;
    for (int i = 0; i < HOLDS; i++) {
        char name[32];

        snprintf(name, sizeof name, "lock-%d", i);
        locks[i] = mutex_of(client, name);
        assert_works(pawl_acquire(locks[i], PATIENCE_MS, &error), &error);
    }
    assert_int_equal(redis_server_integer(&server, "EVAL %s 0", stretch), 1);
    scripts = redis_server_scripts(&server);
    for (int i = 0; i < HOLDS; i++)
        await(redis_server_integer(&server, "PTTL lock-%d", i) <= 60000, "lock-%d is not renewed", i);
    assert_in_range(redis_server_scripts(&server) - scripts, 1, HOLDS / 4);
    for (int i = 0; i < HOLDS; i++) {
        assert_int_equal(pawl_state(locks[i]), PAWL_HELD);
        pawl_lock_free(locks[i]);
    }
    pawl_close(client);
}

/* In the plain layout too, a renewal that finds another's value leaves it as it is, and one that finds nothing revives nothing. */
static void test_late_renewal_of_a_plain_lock(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_at(server.port, "?layout=plain", 1500);
    struct pawl_lock *lock = mutex_of(client, "lock");
    char value[64];

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "SET lock somebody-else PX 100000"));
    await_loss(&losses);
    assert_string_equal(redis_server_text(&server, value, sizeof value, "GET lock"), "somebody-else");
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 1501, 100000);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "DEL lock"), 1);
    losses.lost = 0;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&server, "DEL lock"), 1);
    await_loss(&losses);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A grant lies in the winner's socket until its claim has ended and the next one has entered. The winner does not believe it: it queues
 * again, and holds when the other has released. */
static void test_grant_that_lay_in_the_socket(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *one = open_at(server.port, "", 0), *two = open_at(proxy_port(proxy), "?command=60000", 0),
                *three = open_at(server.port, "", 0);
    struct pawl_lock *held = mutex_of(one, "lock"), *won = mutex_of(two, "lock"), *next;
    struct taker winner, other;

    (void)state;
    assert_works(pawl_mutex_new(three, "lock", PAWL_TASK, &next, &error), &error); /* another thread than its taker's releases it */
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_holder(&winner, won, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    await(!owes_answers(server_of(two)), "the answer never comes");
    proxy_freeze(proxy, true);
    start_holder(&other, next, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 2);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&other), 0); /* the claim's time was all that the winner cost it */
    assert_true(taker_waits(&winner));
    proxy_freeze(proxy, false);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1); /* it has heard of the grant, and asked */
    assert_true(taker_waits(&winner));
    assert_works(pawl_release(next, &error), &error);
    assert_int_equal(end_taker(&winner), 0);
    assert_true(winner.token > other.token);
    pawl_lock_free(held);
    pawl_lock_free(won);
    pawl_lock_free(next);
    pawl_close(one);
    pawl_close(two);
    pawl_close(three);
    proxy_free(proxy);
}

/* ---- pawl_extend ---------------------------------------------------------------------------------------------------------- */

/* How many calls of pawl_extend wait for an answer. */
static unsigned waits_to_extend(struct pawl_lock *lock) {
    unsigned count;

    pthread_mutex_lock(&lock->cohort->mutex);
    count = lock->extending;
    pthread_mutex_unlock(&lock->cohort->mutex);
    return count;
}

static struct pawl_lock *limited(struct pawl *client, int64_t max_hold_ms) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_set_max_hold(lock, max_hold_ms, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    return lock;
}

/* A limit within the lease is written once; who extends it writes another, and waits until that is there. */
static void test_extended_at_the_server(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pawl *client = open_at(server.port, layouts[i], 30000);
        struct pawl_lock *lock = limited(client, 5000);

        assert_in_range(redis_server_integer(&server, "PTTL lock"), 1, 5000);
        assert_works(pawl_extend(lock, 20000, PATIENCE_MS, &error), &error);
        assert_in_range(redis_server_integer(&server, "PTTL lock"), 5001, 20000);
        if (i == 1) /* its record lies beside it */
            assert_in_range(redis_server_integer(&server, "PTTL pawl:who:{lock}"), 5001, 20000);
        assert_in_range(pawl_remaining_ms(lock), 5001, 20000);
        assert_works(pawl_extend(lock, PAWL_FOREVER, PATIENCE_MS, &error), &error);
        assert_in_range(redis_server_integer(&server, "PTTL lock"), 20001, 30000);
        assert_works(pawl_extend(lock, 5000, PATIENCE_MS, &error), &error);
        assert_int_equal(rises_until_gone("lock"), 0);
        assert_fails(PAWL_ELOST, pawl_extend(lock, 5000, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0); /* it is not revived */
        pawl_lock_free(lock);
        pawl_close(client);
    }
}

/* Another's value is left as it is. */
static void test_extend_finds_the_hold_gone(void **state) {
    struct pawl *client = open_at(server.port, "?layout=plain", 30000);
    struct pawl_lock *lock = limited(client, 20000);
    char value[64];

    (void)state;
    freeReplyObject(redis_server_command(&server, "SET lock somebody-else PX 1000"));
    assert_fails(PAWL_ELOST, pawl_extend(lock, 20000, PATIENCE_MS, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_LOST);
    assert_string_equal(redis_server_text(&server, value, sizeof value, "GET lock"), "somebody-else");
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 1, 1000);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The server has done it, and its answer is lost: it is asked again, and the hold is there. */
static void test_extend_whose_answer_is_lost(void **state) {
    struct proxy *proxy = proxy_new_for_all(server.port);
    struct pawl *client = open_at(proxy_port(proxy), "", 30000);
    struct pawl_lock *lock = limited(client, 20000);

    (void)state;
    proxy_drop_answer_to(proxy, "lock");
    assert_works(pawl_extend(lock, 25000, PATIENCE_MS, &error), &error);
    assert_true(proxy_dropped(proxy));
    assert_in_range(pawl_remaining_ms(lock), 20001, 25000);
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 20001, 25000);
    pawl_lock_free(lock);
    pawl_close(client);
    proxy_free(proxy);
}

/* No answer in time: the hold is as it was. The answer that comes later counts all the same. */
static void test_extend_that_is_late(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *client = open_at(proxy_port(proxy), "?command=60000", 60000);
    struct pawl_lock *lock = limited(client, 25000);

    (void)state;
    proxy_freeze(proxy, true);
    assert_fails(PAWL_ETIMEOUT, pawl_extend(lock, 50000, 100, &error), &error);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_in_range(pawl_remaining_ms(lock), 1, 25000);
    proxy_freeze(proxy, false);
    await(pawl_remaining_ms(lock) > 25000, "the answer never counts");
    pawl_lock_free(lock);
    pawl_close(client);
    proxy_free(proxy);
}

struct extender {
    pthread_t thread;
    struct pawl_lock *lock;
    int64_t max_hold_ms;
    int result;
};

static void *extender_main(void *data) {
    struct extender *extender = data;

    extender->result = pawl_extend(extender->lock, extender->max_hold_ms, PATIENCE_MS, NULL);
    return NULL;
}

static void start_extender(struct extender *extender, struct pawl_lock *lock, int64_t max_hold_ms) {
    *extender = (struct extender){.lock = lock, .max_hold_ms = max_hold_ms, .result = 1};
    assert_int_equal(pthread_create(&extender->thread, NULL, extender_main, extender), 0);
}

/* One request is on its way when another limit is asked for: its answer is not that to the second. */
static void test_extend_behind_another(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *client = open_at(proxy_port(proxy), "?command=60000", 60000);
    struct pawl_lock *lock = limited(client, 15000);
    struct extender first, second;

    (void)state;
    proxy_freeze(proxy, true);
    start_extender(&first, lock, 18000);
    await(owes_answers(server_of(client)), "it is never asked for");
    start_extender(&second, lock, 50000);
    await(waits_to_extend(lock) == 2, "the second never waits");
    proxy_freeze(proxy, false);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    assert_int_equal(first.result, 0);
    assert_int_equal(second.result, 0);
    assert_in_range(pawl_remaining_ms(lock), 18001, 50000);
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 18001, 50000);
    pawl_lock_free(lock);
    pawl_close(client);
    proxy_free(proxy);
}

/* Who waits is told when the handle is freed, or the client closed. */
static void test_extend_ends_with_the_handle(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
        struct pawl *client = open_at(proxy_port(proxy), "?command=60000", 60000);
        struct pawl_lock *lock = limited(client, 50000);
        struct extender extender;

        proxy_freeze(proxy, true);
        start_extender(&extender, lock, 50000);
        await(waits_to_extend(lock) == 1, "it never waits");
        if (i == 0)
            pawl_lock_free(lock);
        pawl_close(client);
        pthread_join(extender.thread, NULL);
        assert_int_equal(extender.result, i == 0 ? PAWL_ENOTHELD : PAWL_ECLOSED);
        if (i == 1)
            pawl_lock_free(lock);
        proxy_free(proxy);
        empty_server(NULL); /* of the release it has not heard */
    }
}

#define TEST(name) cmocka_unit_test_setup(name, empty_server)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_lease_without_renewal),
        TEST(test_renewed_up_to_the_limit),
        TEST(test_limit_of_a_hold_that_was_handed_over),
        TEST(test_limit_of_readers_and_permits),
        TEST(test_limit_outlives_the_process),
        TEST(test_many_holds_are_renewed_together),
        TEST(test_late_renewal_of_a_plain_lock),
        TEST(test_grant_that_lay_in_the_socket),
        TEST(test_extended_at_the_server),
        TEST(test_extend_finds_the_hold_gone),
        TEST(test_extend_whose_answer_is_lost),
        TEST(test_extend_that_is_late),
        TEST(test_extend_behind_another),
        TEST(test_extend_ends_with_the_handle),
    };

    return run_redis_tests(argc, argv, "redis lease", tests, "test_limit_outlives_the_process", NULL, stop_server);
}
