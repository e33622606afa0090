/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_bugs.c - the bugs that users of other libraries met, each tried here on one server. Which test shows which:
 *
 *   Redisson #7272              cancelled, and renewed for ever       test_cancel_races_the_grant, test_renewal_stops_with_the_release (F)
 *   Redisson #4698 #3854 #3636  a loss that nobody was told of        test_cut_off_longer_than_the_lease (F)
 *   Redisson #1966 #4109        the answer to an acquire was lost     test_answer_to_acquire_is_lost, test_unknown_outcome_is_released (F),
 *                                                                     test_server_pauses_longer_than_we_wait
 *   Redisson #5697 #5698 #2665  renewals stall under load             test_renewed_beside_busy_threads, test_frozen_holder_knows_its_loss
 *   Redisson #3194 #3712        held anew after a loss, not renewed   test_held_anew_after_a_loss_is_renewed
 *   Redisson #3334              BUSY stopped the renewals             test_busy_server (F)
 *   Redisson #6150 #1104 #2099  a dead waiter blocks for minutes      test_killed_head_of_the_queue (L)
 *   Redisson's fair lock        waiters spin                          test_waiters_do_not_spin (L)
 *   Redisson's fair lock        clocks of clients decide              test_clocks_of_clients_decide_nothing
 *   Redisson #3004              a waiter is dropped, and hangs        test_waiter_that_was_dropped_queues_again (L)
 *   Redisson #5761 #1763        the message of an unlock was missed   test_slow_connection (F)
 *   Redisson #3577 #4216 #7264  a connection for each subscription    test_thousands_of_contended_locks
 *   Redisson #6026              subscriptions are not made again      test_restart_of_the_server (F)
 *   Redisson 3.48               NOSCRIPT                              test_script_flush (F)
 *   Redisson #3580 #2224 #6878  threads own, tasks can't              test_task_may_be_released_by_any_thread (contract_locks.c)
 *   Redisson #4871 #6532        the answer to a release was lost      test_answer_to_release_is_lost (F)
 *   Redisson #1458 #7098        a dead reader lives on by the others   test_dead_reader_does_not_live_on_others_renewals (L)
 *   Redisson #3573 #6664        wake-ups of permits are lost          test_one_release_wakes_all_that_fit (L)
 *   Redisson #4462 #3046        a crash keeps permits                 test_permits_of_the_dead_come_back (L)
 *   Redisson #5019              queues that nobody needs stay         test_storm_of_time_outs_leaves_nothing
 *   redis-py #3847              forgotten before it was released      test_release_that_never_arrived
 *   node-redlock #296           the time counts from the first try    test_time_counts_from_the_grant
 *
 * On more than one server, or several locks at once:
 *
 *   Redisson #4706 #4822        too few replicas, and owned anyway    test_a_shortfall_is_undone (test_redis_replicas.c)
 *   Redisson #4573 #6223        WAIT on a primary that was demoted    test_a_primary_is_demoted (test_redis_replicas.c),
 *                                                                     test_failovers_mid_call (test_redis_sentinel.c)
 *   Redisson #6026              subscriptions, over a failover        test_held_and_waited_for_over_a_crash (test_redis_sentinel.c),
 *                                                                     test_a_slot_moves (test_redis_cluster.c)
 *   Redisson 3.48               NOSCRIPT after a failover             test_held_and_waited_for_over_a_change (test_redis_sentinel.c),
 *                                                                     test_scripts_are_forgotten (test_redlock_open.c)
 *   Redisson PR #3334           TRYAGAIN, CLUSTERDOWN                 test_a_slot_is_half_moved (test_redis_cluster.c)
 *   Redisson #4050 #4456        sets keep each other out              test_bug_20_multilock_livelock (contract_sets.c)
 *   Redisson #1966 #4109        a majority's answers were lost        test_answers_to_acquire_are_lost, test_unknown_outcome_is_released
 *   Redisson #4871 #6532                                              test_release_of_unknown_outcome (test_redlock.c)
 *   node-redlock #296           the time counts from the first try    test_validity_counts_from_the_last_attempt (test_redlock.c)
 *   redsync #186                a bare majority lost by a restart     test_bare_majority_then_a_restart (test_redlock.c)
 *
 * (F) is test_redis_faults.c, (L) test_redis_layout.c.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_one.h"

/* This program's wall clock is off by so much. The library takes the time of day from here, too. */
static _Atomic long skew_s;

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);

    if (clock == CLOCK_REALTIME)
        ret->tv_sec += skew_s;
    return rc;
}

static void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Dispatch until so many callbacks have run. */
static void dispatch(struct pawl *client, int wanted) {
    int ran = 0;

    for (int i = 0; i < PATIENCE_MS && ran < wanted; i++) {
        ran += pawl_dispatch(client);
        if (ran < wanted)
            pause_ms(1);
    }
    assert_int_equal(ran, wanted);
}

static void note_result(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

/* Redisson #7272: the cancel meets the grant, in all the ways that it can; either may win: nothing is held, and so nothing renewed. */
static void test_cancel_races_the_grant(void **state) {
    struct pawl *one = open_at(server.port, "", 1000), *two = open_at(server.port, "", 1000);
    struct pawl_lock *held = mutex_of(one, "lock"), *lock;
    int granted = 0, cancelled = 0;

    (void)state;
    assert_works(pawl_mutex_new(two, "lock", PAWL_TASK, &lock, &error), &error);
    for (int i = 0; i < 200; i++) {
        int result = 1;

        assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
        assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, note_result, &result, &error), &error);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        assert_works(pawl_release(held, &error), &error);
        for (volatile int spin = 0; spin < i * 1000; spin++)
            continue;
        pawl_cancel(lock);
        dispatch(two, 1);
        assert_true(result == 0 || result == PAWL_ECANCELED);
        granted += result == 0;
        cancelled += result != 0;
        if (result == 0)
            assert_works(pawl_release(lock, &error), &error);
        await_integer(&server, "EXISTS lock pawl:queue:{lock}", 0);
    }
    print_message("%d granted, %d cancelled\n", granted, cancelled);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* Redisson #4109: the server says nothing for longer than the acquire waits, and carries it out afterwards. */
static void test_server_pauses_longer_than_we_wait(void **state) {
    struct pawl *client = open_at(server.port, "", 3600000);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    freeReplyObject(redis_server_command(&server, "CLIENT PAUSE 1000 WRITE"));
    assert_true(pawl_acquire(lock, 100, &error) < 0);
    await_integer(&server, "EXISTS lock pawl:queue:{lock}", 0); /* an hour's lease would keep it */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static _Atomic bool hogs_end;

static void *hog(void *data) {
    (void)data;
    while (!atomic_load(&hogs_end))
        continue;
    return NULL;
}

/* Redisson #5697: the program is busy with itself and never comes back to the library; its hold is renewed all the same. */
static void test_renewed_beside_busy_threads(void **state) {
    enum { HOGS = 8 };
    struct pawl *client = open_at(server.port, "", 6000);
    struct pawl_lock *lock = mutex_of(client, "lock");
    pthread_t hogs[HOGS];
    int rises = 0;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < HOGS; i++)
        assert_int_equal(pthread_create(&hogs[i], NULL, hog, NULL), 0);
    for (long long before = INT64_MAX, now; rises < 2; before = now) {
        now = redis_server_integer(&server, "PTTL lock");
        assert_true(now > 0);
        rises += now > before;
        pause_ms(20);
    }
    atomic_store(&hogs_end, true);
    for (int i = 0; i < HOGS; i++)
        pthread_join(hogs[i], NULL);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* What a child says by its exit status: its hold was told as lost, and released as lost. */
static void hold_and_be_frozen(int ready) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_at(server.port, "", 1000);
    struct pawl_lock *lock = mutex_of(client, "lock");

    if (pawl_on_loss(lock, hear_loss, &losses, NULL) < 0 || pawl_acquire(lock, PATIENCE_MS, NULL) < 0 || write(ready, "", 1) != 1)
        _exit(1);
    raise(SIGSTOP);
    if (pawl_remaining_ms(lock) != 0 || pawl_state(lock) != PAWL_LOST) /* at once, by the clock: no message is needed */
        _exit(2);
    await_loss(&losses);
    _exit(pawl_release(lock, NULL) == PAWL_ELOST ? 0 : 3);
}

/* Redisson #2665: a holder that was frozen for longer than its lease knows that when it wakes, and takes nothing from the next one. */
static void test_frozen_holder_knows_its_loss(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    int ready[2], status;
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        hold_and_be_frozen(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    client = open_at(server.port, "", 30000);
    lock = mutex_of(client, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2);
    assert_works(pawl_release(lock, &error), &error);
    close(ready[0]);
    close(ready[1]);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Redisson #3194: what is left of a hold that was lost must not keep the next one from being renewed. */
static void test_held_anew_after_a_loss_is_renewed(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_at(server.port, "", 3000);
    struct pawl_lock *lock = mutex_of(client, "lock");
    bool risen = false;

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (long long before = INT64_MAX, now; !risen; before = now) {
        now = redis_server_integer(&server, "PTTL lock");
        assert_true(now > 0); /* expired: it was not renewed */
        risen = now > before;
        pause_ms(10);
    }
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Redisson's fair lock scores waiters by their own clocks: one that is ahead evicts the others. Here three wait, hours apart, and are
 * served as they came; and permits last as long as the server's clock says. */
static void test_clocks_of_clients_decide_nothing(void **state) {
    enum { WAITERS = 3 };
    static const long skews[WAITERS] = {7200, -7200, 0};
    struct pawl *holder = open_at(server.port, "", 0), *clients[WAITERS];
    struct pawl_lock *held = mutex_of(holder, "lock"), *locks[WAITERS], *permit, *others;
    struct taker takers[WAITERS];

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int i = 0; i < WAITERS; i++) {
        char count[48];

        clients[i] = open_at(server.port, "", 0);
        locks[i] = mutex_of(clients[i], "lock");
        skew_s = skews[i];
        start_taker(&takers[i], locks[i], PAWL_FOREVER);
        snprintf(count, sizeof count, "ZCARD pawl:queue:{lock}");
        await_integer(&server, count, i + 1);
    }
    skew_s = 7200;
    assert_works(pawl_semaphore_new(holder, "permits", 1, 0, &permit, &error), &error);
    assert_works(pawl_semaphore_new(clients[1], "permits", 1, 0, &others, &error), &error);
    assert_works(pawl_acquire(permit, PATIENCE_MS, &error), &error);
    skew_s = -7200;
    assert_fails(PAWL_EHELD, pawl_acquire(others, 0, &error), &error);
    assert_works(pawl_release(held, &error), &error);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(end_taker(&takers[i]), 0);
    skew_s = 0;
    for (int i = 0; i + 1 < WAITERS; i++)
        assert_true(takers[i].token < takers[i + 1].token);
    pawl_lock_free(permit);
    pawl_lock_free(others);
    pawl_lock_free(held);
    for (int i = 0; i < WAITERS; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
    pawl_close(holder);
}

static long long connections(void) {
    redisReply *reply = redis_server_command(&server, "INFO clients");
    const char *at = strstr(reply->str, "connected_clients:");
    long long count = at ? atoll(at + strlen("connected_clients:")) : -1;

    freeReplyObject(reply);
    return count;
}

static void count_granted(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data += result == 0;
}

/* Redisson #3577: thousands of locks, each with a holder and a waiter: two connections per client, and every waiter is served. */
static void test_thousands_of_contended_locks(void **state) {
    enum { LOCKS = 3000 };
    static struct pawl_lock *held[LOCKS], *waiting[LOCKS];
    struct pawl *one, *two;
    int granted = 0;

    (void)state;
    await(connections() == 1, "those of earlier tests never end"); /* ours */
    one = open_at(server.port, "", 0);
    two = open_at(server.port, "", 0);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];

        snprintf(name, sizeof name, "lock-%d", i);
        held[i] = mutex_of(one, name);
        assert_works(pawl_acquire(held[i], PATIENCE_MS, &error), &error);
        assert_works(pawl_mutex_new(two, name, PAWL_TASK, &waiting[i], &error), &error);
        assert_works(pawl_acquire_start(waiting[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_granted, &granted, &error), &error);
    }
    await_integer(&server, "EXISTS pawl:queue:{lock-2999}", 1); /* asked for last, and answered last */
    assert_int_equal(connections(), 1 + 4);
    for (int i = 0; i < LOCKS; i++)
        pawl_lock_free(held[i]);
    dispatch(two, LOCKS);
    assert_int_equal(granted, LOCKS);
    for (int i = 0; i < LOCKS; i++)
        pawl_lock_free(waiting[i]);
    pawl_close(one);
    pawl_close(two);
}

/* Redisson #5019: many give up waiting, again and again. No queue is left of that, and none was ever without an end. */
static void test_storm_of_time_outs_leaves_nothing(void **state) {
    enum { WAITERS = 300 };
    struct pawl *one = open_at(server.port, "", 0), *two = open_at(server.port, "?handoff=0", 0);
    struct pawl_lock *held = mutex_of(one, "lock");
    static struct pawl_lock *locks[WAITERS];

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int i = 0; i < WAITERS; i++)
        assert_works(pawl_mutex_new(two, "lock", PAWL_TASK, &locks[i], &error), &error);
    for (int round = 0; round < 3; round++) {
        int granted = 0;

        for (int i = 0; i < WAITERS; i++)
            assert_works(pawl_acquire_start(locks[i], PAWL_EXCLUSIVE, 1, 300 + i, count_granted, &granted, &error), &error);
        await_integer(&server, "EXISTS pawl:queue:{lock}", 1);
        assert_true(redis_server_integer(&server, "PTTL pawl:queue:{lock}") != -1);
        dispatch(two, WAITERS);
        assert_int_equal(granted, 0);
        await_integer(&server, "EXISTS pawl:queue:{lock}", 0);
    }
    for (int i = 0; i < WAITERS; i++)
        pawl_lock_free(locks[i]);
    pawl_lock_free(held);
    pawl_close(one);
    pawl_close(two);
}

/* redis-py #3847 forgets what it holds before the server has heard of the release: what never arrived is then never released. */
static void test_release_that_never_arrived(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *far = open_at(proxy_port(proxy), "?retry=10,200", 3600000), *near = open_at(server.port, "", 0);
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    proxy_freeze(proxy, true);
    assert_works(pawl_release(lock, &error), &error); /* comes back soon: the rest is the service thread's */
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2);
    proxy_isolate(proxy, true); /* and what was on its way is gone */
    proxy_freeze(proxy, false);
    proxy_isolate(proxy, false);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error); /* an hour's lease did not end by itself */
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(far);
    pawl_close(near);
    proxy_free(proxy);
}

/* node-redlock #296: waited for longer than the lease, and the lease counted from the first try. */
static void test_time_counts_from_the_grant(void **state) {
    struct pawl *one = open_at(server.port, "", 3000), *two = open_at(server.port, "", 3000);
    struct pawl_lock *held = mutex_of(one, "lock"), *lock = mutex_of(two, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_holder(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    pause_ms(3500); /* longer than the lease: that is the point */
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    assert_true(taker.state == PAWL_HELD || taker.state == PAWL_SUSPECT); /* as it was when the acquire returned */
    assert_true(redis_server_integer(&server, "PTTL lock") > 0);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

#define TEST(name) cmocka_unit_test_setup(name, empty_server)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_cancel_races_the_grant),
        TEST(test_server_pauses_longer_than_we_wait),
        TEST(test_renewed_beside_busy_threads),
        TEST(test_frozen_holder_knows_its_loss),
        TEST(test_held_anew_after_a_loss_is_renewed),
        TEST(test_clocks_of_clients_decide_nothing),
        TEST(test_thousands_of_contended_locks),
        TEST(test_storm_of_time_outs_leaves_nothing),
        TEST(test_release_that_never_arrived),
        TEST(test_time_counts_from_the_grant),
    };

    return run_redis_tests(argc, argv, "redis bugs", tests, "test_renewed_beside_busy_threads test_frozen_holder_knows_its_loss",
                           NULL, stop_server);
}
