/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transcript.c - the core and the Redis engine in a simulated world: every test plays a scene and compares all that happened, with its
 * times, to the byte. test_transcript_multi.c goes on with several locks at once, test_transcript_zookeeper.c with what is different there.
 */
#include "scene.h"

/* Two processes: the second is offered the lock when the first has let go. */
static void test_hand_over_between_clients(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(5);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(5);
    scene_release(a);
    scene_run(10);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.005s 'm' > submit: exclusive\n"
                 "B 0.005s 'm' < pending\n"
                 "B 0.007s 'm' queued at 0; pawl holds it, PTTL 2995\n"
                 "A 0.010s 'm' > withdraw (token 1)\n"
                 "A 0.012s 'm' < settled\n"
                 "B 0.012s 'm' PUBLISH: granted for 2000 ms\n"
                 "B 0.012s 'm' < granted, token 2\n"
                 "b 0.012s acquired, token 2, assured for 1970 ms\n");
}

/* Threads (here: tasks) of one process take turns behind one claim, with tokens that rise; past the bound a second claim waits. It asks for
 * tokens for all of them, since they were there before it was granted. */
static void test_local_hand_off_within_its_bound(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(one, "m"), *c = scene_mutex(one, "m"), *d = scene_mutex(one, "m"),
                     *x = scene_mutex(two, "m");

    (void)state;
    scene_start(x, PAWL_EXCLUSIVE, PAWL_FOREVER, "x");
    scene_run(5);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_start(c, PAWL_EXCLUSIVE, PAWL_FOREVER, "c");
    scene_start(d, PAWL_EXCLUSIVE, PAWL_FOREVER, "d");
    scene_run(10);
    scene_release(x);
    scene_run(5);
    scene_release(a);
    scene_run(1);
    scene_release(b);
    scene_run(1);
    scene_release(c);
    scene_run(6);
    scene_release(d);
    scene_run(5);
    scene_expect("B 0.000s 'm' > submit: exclusive\n"
                 "B 0.000s 'm' < pending\n"
                 "B 0.002s 'm' < granted, token 1\n"
                 "x 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'm' > submit: exclusive\n"
                 "A 0.005s 'm' < pending\n"
                 "A 0.005s 'm' > submit: exclusive\n"
                 "A 0.005s 'm' < pending\n"
                 "A 0.007s 'm' queued at 0; pawl holds it, PTTL 2995\n"
                 "A 0.007s 'm' queued at 1; pawl holds it, PTTL 2995\n"
                 "A 0.009s 'm' queued at 0; pawl holds it, PTTL 2993\n"
                 "B 0.015s 'm' > withdraw (token 1)\n"
                 "A 0.017s 'm' PUBLISH: granted for 2000 ms\n"
                 "A 0.017s 'm' < granted, token 2\n"
                 "a 0.017s acquired, token 2, assured for 1967 ms\n"
                 "B 0.017s 'm' < settled\n"
                 "A 0.020s 'm' handed on inside the process, token 3\n"
                 "b 0.020s acquired, token 3, assured for 1965 ms\n"
                 "A 0.021s 'm' handed on inside the process, token 4\n"
                 "c 0.021s acquired, token 4, assured for 1964 ms\n"
                 "A 0.022s 'm' > withdraw (token 2)\n"
                 "A 0.024s 'm' PUBLISH: granted for 2000 ms\n"
                 "A 0.024s 'm' < granted, token 5\n"
                 "A 0.024s 'm' < settled\n"
                 "d 0.024s acquired, token 5, assured for 1960 ms\n"
                 "A 0.028s 'm' > withdraw (token 5)\n"
                 "A 0.030s 'm' < settled\n");
    assert_string_equal(scene_left(), "");
}

/* Time is a bound too, counted from the first that joins a claim that is held: after 10 ms it is given back, though it has a token left,
 * and those who waited behind it queue anew, behind B. */
static void test_local_hand_off_ends_in_time(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(one, "m"), *c = scene_mutex(one, "m"), *x = scene_mutex(two, "m");

    (void)state;
    scene_start(x, PAWL_EXCLUSIVE, PAWL_FOREVER, "x");
    scene_run(5);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(5);
    scene_release(x);
    scene_run(5);
    scene_start(x, PAWL_EXCLUSIVE, PAWL_FOREVER, "x again");
    scene_run(5);
    scene_start(c, PAWL_EXCLUSIVE, PAWL_FOREVER, "c");
    scene_run(20);
    scene_release(a);
    scene_run(10);
    scene_release(x);
    scene_run(10);
    scene_release(b);
    scene_run(5);
    scene_release(c);
    scene_run(5);
    scene_expect("B 0.000s 'm' > submit: exclusive\n"
                 "B 0.000s 'm' < pending\n"
                 "B 0.002s 'm' < granted, token 1\n"
                 "x 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'm' > submit: exclusive\n"
                 "A 0.005s 'm' < pending\n"
                 "A 0.007s 'm' queued at 0; pawl holds it, PTTL 2995\n"
                 "A 0.009s 'm' queued at 0; pawl holds it, PTTL 2993\n"
                 "B 0.010s 'm' > withdraw (token 1)\n"
                 "A 0.012s 'm' PUBLISH: granted for 2000 ms\n"
                 "A 0.012s 'm' < granted, token 2\n"
                 "a 0.012s acquired, token 2, assured for 1972 ms\n"
                 "B 0.012s 'm' < settled\n"
                 "B 0.015s 'm' > submit: exclusive\n"
                 "B 0.015s 'm' < pending\n"
                 "B 0.017s 'm' queued at 0; pawl holds it, PTTL 1995\n"
                 "A 0.040s 'm' > submit: exclusive\n"
                 "A 0.040s 'm' < pending\n"
                 "A 0.040s 'm' > withdraw (token 2)\n"
                 "A 0.042s 'm' queued at 1; pawl holds it, PTTL 1970\n"
                 "A 0.042s 'm' < settled\n"
                 "B 0.042s 'm' PUBLISH: granted for 2000 ms\n"
                 "B 0.042s 'm' < granted, token 5\n"
                 "x again 0.042s acquired, token 5, assured for 1950 ms\n"
                 "B 0.050s 'm' > withdraw (token 5)\n"
                 "A 0.052s 'm' PUBLISH: granted for 2000 ms\n"
                 "A 0.052s 'm' < granted, token 6\n"
                 "b 0.052s acquired, token 6, assured for 1965 ms\n"
                 "B 0.052s 'm' < settled\n"
                 "A 0.060s 'm' handed on inside the process, token 7\n"
                 "c 0.060s acquired, token 7, assured for 1957 ms\n"
                 "A 0.062s renewing 1 holds in one script\n"
                 "A 0.065s 'm' > withdraw (token 6)\n"
                 "A 0.067s 'm' < settled\n");
}

/* A reader that comes while a writer waits goes behind it; readers before it share. */
static void test_readers_do_not_overtake_a_writer(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *r1 = scene_rwlock(one, "rw"), *r2 = scene_rwlock(one, "rw"), *w = scene_rwlock(one, "rw"),
                     *r3 = scene_rwlock(one, "rw");
    struct pawl_error error;

    (void)state;
    scene_start(r1, PAWL_SHARED, PAWL_FOREVER, "r1");
    scene_run(3);
    scene_start(r2, PAWL_SHARED, PAWL_FOREVER, "r2");
    scene_start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    scene_start(r3, PAWL_SHARED, PAWL_FOREVER, "r3");
    scene_run(5);
    assert_works(pawl_release_shared(r1, &error), &error);
    assert_works(pawl_release_shared(r2, &error), &error);
    scene_run(8);
    scene_release(w);
    scene_run(8);
    scene_expect("A 0.000s 'rw' > submit: shared\n"
                 "A 0.000s 'rw' < pending\n"
                 "A 0.002s 'rw' < granted, token 1\n"
                 "r1 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.003s 'rw' > submit: shared\n"
                 "A 0.003s 'rw' < pending\n"
                 "A 0.003s 'rw' > submit: exclusive\n"
                 "A 0.003s 'rw' < pending\n"
                 "A 0.003s 'rw' > submit: shared\n"
                 "A 0.003s 'rw' < pending\n"
                 "A 0.005s 'rw' < granted, token 2\n"
                 "A 0.005s 'rw' others want it\n"
                 "A 0.005s 'rw' queued at 0; pawl holds it, PTTL 3000\n"
                 "A 0.005s 'rw' < wanted\n"
                 "A 0.005s 'rw' queued at 1; pawl holds it, PTTL 3000\n"
                 "r2 0.005s acquired, token 2, assured for 2965 ms\n"
                 "A 0.008s 'rw' > withdraw (token 1)\n"
                 "A 0.008s 'rw' > withdraw (token 2)\n"
                 "A 0.010s 'rw' < settled\n"
                 "A 0.010s 'rw' PUBLISH: granted for 2000 ms\n"
                 "A 0.010s 'rw' others want it\n"
                 "A 0.010s 'rw' < granted, token 3\n"
                 "A 0.010s 'rw' < settled\n"
                 "w 0.010s acquired, token 3, assured for 1970 ms\n"
                 "A 0.016s 'rw' > withdraw (token 3)\n"
                 "A 0.018s 'rw' PUBLISH: granted for 2000 ms\n"
                 "A 0.018s 'rw' < granted, token 4\n"
                 "A 0.018s 'rw' < settled\n"
                 "r3 0.018s acquired, token 4, assured for 1963 ms\n");
}

/* Write to read: the reader of another process gets in, the writer does not. */
static void test_downgrade(void **state) {
    struct pawl *one = scene_client(), *two = scene_client(), *three = scene_client();
    struct pawl_lock *a = scene_rwlock(one, "rw"), *r = scene_rwlock(two, "rw"), *w = scene_rwlock(three, "rw");
    struct pawl_error error;
    uint64_t token;

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    token = pawl_token(a);
    scene_start(r, PAWL_SHARED, PAWL_FOREVER, "r");
    scene_run(3);
    scene_start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    scene_run(3);
    assert_works(pawl_downgrade(a, &error), &error);
    scene_run(8);
    assert_true(pawl_token(a) == token);
    assert_works(pawl_release_shared(a, &error), &error);
    scene_run(3);
    assert_works(pawl_release_shared(r, &error), &error);
    scene_run(8);
    scene_expect("A 0.000s 'rw' > submit: exclusive\n"
                 "A 0.000s 'rw' < pending\n"
                 "A 0.002s 'rw' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.003s 'rw' > submit: shared\n"
                 "B 0.003s 'rw' < pending\n"
                 "B 0.005s 'rw' queued at 0; pawl holds it, PTTL 2997\n"
                 "C 0.006s 'rw' > submit: exclusive\n"
                 "C 0.006s 'rw' < pending\n"
                 "C 0.008s 'rw' queued at 1; pawl holds it, PTTL 2994\n"
                 "A 0.009s 'rw' > downgrade (token 1)\n"
                 "A 0.011s 'rw' < downgraded\n"
                 "B 0.011s 'rw' PUBLISH: granted for 2000 ms\n"
                 "B 0.011s 'rw' < granted, token 2\n"
                 "r 0.011s acquired, token 2, assured for 1969 ms\n"
                 "A 0.017s 'rw' > withdraw (token 1)\n"
                 "A 0.019s 'rw' < settled\n"
                 "B 0.020s 'rw' > withdraw (token 2)\n"
                 "B 0.022s 'rw' < settled\n"
                 "C 0.022s 'rw' PUBLISH: granted for 2000 ms\n"
                 "C 0.022s 'rw' < granted, token 3\n"
                 "w 0.022s acquired, token 3, assured for 1961 ms\n");
}

/* The reply to submit is lost: the request is sent again, and there is one claim, not two. */
static void test_lost_reply_to_submit(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");

    (void)state;
    scene_lose_answer(0);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(205);
    assert_string_equal(scene_left(), "m");
    scene_lose_answer(0);
    scene_release(a);
    scene_run(205);
    assert_string_equal(scene_left(), "");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s connection (commands) dropped: the server closed the connection\n"
                 "A 0.019s server: version 7.0.15, master\n"
                 "A 0.019s connection (commands) is up\n"
                 "A 0.021s 'm' < granted, token 1\n"
                 "a 0.021s acquired, token 1, assured for 2965 ms\n"
                 "A 0.205s 'm' > withdraw (token 1)\n"
                 "A 0.207s connection (commands) dropped: the server closed the connection\n"
                 "A 0.224s server: version 7.0.15, master\n"
                 "A 0.224s connection (commands) is up\n"
                 "A 0.226s 'm' < settled\n");
}

/* The answer to every request is lost, so that each is made twice; and nothing happens twice. */
static void test_duplicates(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");

    (void)state;
    scene_lose_answer(0);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(100);
    scene_lose_answer(1);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(100);
    scene_lose_answer(0);
    scene_release(a);
    scene_run(100);
    scene_lose_answer(1);
    scene_release(b);
    scene_run(100);
    assert_string_equal(scene_left(), "");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s connection (commands) dropped: the server closed the connection\n"
                 "A 0.019s server: version 7.0.15, master\n"
                 "A 0.019s connection (commands) is up\n"
                 "A 0.021s 'm' < granted, token 1\n"
                 "a 0.021s acquired, token 1, assured for 2965 ms\n"
                 "B 0.100s 'm' > submit: exclusive\n"
                 "B 0.100s 'm' < pending\n"
                 "B 0.102s connection (commands) dropped: the server closed the connection\n"
                 "B 0.119s server: version 7.0.15, master\n"
                 "B 0.119s connection (commands) is up\n"
                 "B 0.121s 'm' queued at 0; pawl holds it, PTTL 2900\n"
                 "A 0.200s 'm' > withdraw (token 1)\n"
                 "A 0.202s connection (commands) dropped: the server closed the connection\n"
                 "B 0.202s 'm' PUBLISH: granted for 2000 ms\n"
                 "B 0.202s 'm' < granted, token of 201 ms\n"
                 "b 0.202s acquired, token of 201 ms, assured for 1894 ms\n"
                 "A 0.219s server: version 7.0.15, master\n"
                 "A 0.219s connection (commands) is up\n"
                 "A 0.221s 'm' < settled\n"
                 "B 0.300s 'm' > withdraw (token of 201 ms)\n"
                 "B 0.302s connection (commands) dropped: the server closed the connection\n"
                 "B 0.319s server: version 7.0.15, master\n"
                 "B 0.319s connection (commands) is up\n"
                 "B 0.321s 'm' < settled\n");
}

/* A hold of which no whole millisecond is left is lost: nobody is told 0, and later that it is assured again. */
static void test_no_time_left_is_final(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");
    struct pawl_error error;
    int most = 4000;

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    scene_stop(0);
    while (pawl_remaining_ms(a) > 1 && most-- > 0)
        scene_run(1);
    while (pawl_remaining_ms(a) > 0 && most-- > 0)
        world_sleep(world_now() + WORLD_MS / 10);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    scene_go_on(0);
    scene_run(100);
    assert_int_equal(pawl_remaining_ms(a), 0);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
}

/* A lease of 3 s: renewed at 1 s; nothing comes through then. It is suspect at 2/3 after that renewal left, and lost before the server's
 * end of it. */
static void test_renewed_suspect_lost(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(1100);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    scene_stop(0);
    scene_run(1900);
    assert_int_equal(pawl_state(a), PAWL_SUSPECT);
    scene_run(1000);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(a), 0);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_go_on(0);
    scene_run(400);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.010s 'm' > submit: exclusive\n"
                 "B 0.010s 'm' < pending\n"
                 "B 0.012s 'm' queued at 0; pawl holds it, PTTL 2990\n"
                 "A 1.000s 'm' > renew\n"
                 "A 1.000s renewing 1 holds in one script\n"
                 "A 1.002s 'm' < renewed\n"
                 "A 2.000s 'm' > renew\n"
                 "A 2.000s renewing 1 holds in one script\n"
                 "B 2.433s 'm' queued at 0; pawl holds it, PTTL 1569\n"
                 "A 2.750s connection (commands) dropped: no answer within 750 ms\n"
                 "a 3.000s suspect, token 1: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A 3.968s 'm' > withdraw (token 1)\n"
                 "a 3.968s PAWL_EEXPIRED, token 1: the lease of 'm' ran out: it could not be renewed in time\n"
                 "B 4.006s 'm' < granted, token 2\n"
                 "b 4.006s acquired, token 2, assured for 2965 ms\n"
                 "A 4.011s server: version 7.0.15, master\n"
                 "A 4.011s connection (commands) is up\n"
                 "A 4.013s 'm' < settled\n");
    assert_string_equal(scene_left(), "m"); /* b's: what a gave up was withdrawn when the link was back */
}

/* Nothing comes through until the hold is suspect, and then everything: it recovers, and that is told too. */
static void test_suspect_recovers(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    scene_stop(0);
    scene_run(2100);
    assert_int_equal(pawl_state(a), PAWL_SUSPECT);
    scene_go_on(0);
    scene_run(300);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 1.000s 'm' > renew\n"
                 "A 1.000s renewing 1 holds in one script\n"
                 "A 1.750s connection (commands) dropped: no answer within 750 ms\n"
                 "a 2.000s suspect, token 1: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A 2.111s server: version 7.0.15, master\n"
                 "A 2.111s connection (commands) is up\n"
                 "A 2.111s renewing 1 holds in one script\n"
                 "A 2.113s 'm' < renewed\n"
                 "a 2.113s recovered, token 1: the lease of 'm' is renewed again\n");
}

/* Held or pending: to end what was started waits for no server, whose answers take two milliseconds. */
static void test_started_ends_at_once(void **state) {
    struct pawl *client = scene_client();
    struct pawl_lock *held = scene_mutex(client, "a"), *freed, *pending = scene_mutex(client, "a");
    struct pawl_error error;
    int64_t before;

    (void)state;
    assert_works(pawl_mutex_new(client, "b", PAWL_TASK, &freed, &error), &error);
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_start(freed, PAWL_EXCLUSIVE, PAWL_FOREVER, "freed");
    scene_run(10);
    scene_start(pending, PAWL_EXCLUSIVE, PAWL_FOREVER, "pending");
    scene_run(10);
    assert_int_equal(pawl_state(held), PAWL_HELD);
    assert_int_equal(pawl_state(freed), PAWL_HELD);
    before = world_now();
    assert_int_equal(pawl_cancel(pending), 1);
    assert_works(pawl_release(held, &error), &error);
    pawl_lock_free(freed);
    assert_true(world_now() - before < WORLD_MS);
    scene_run(10);
    assert_int_equal(pawl_state(pending), PAWL_NOT_HELD);
}

/* A lease of 3 s, and a hold of 4.5 s at most: renewed at 1 s and at 2 s, which is as far as it may go; never suspect. The next has a
 * limit of 2 s: its lease is not renewed at all. */
static void test_max_hold(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_listen(b, "b");
    assert_works(pawl_set_max_hold(a, 4500, &error), &error);
    assert_works(pawl_set_max_hold(b, 2000, &error), &error);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(4400);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    scene_run(200);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_run(2000);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.010s 'm' > submit: exclusive\n"
                 "B 0.010s 'm' < pending\n"
                 "B 0.012s 'm' queued at 0; pawl holds it, PTTL 2990\n"
                 "A 1.000s 'm' > renew\n"
                 "A 1.000s renewing 1 holds in one script\n"
                 "A 1.002s 'm' < renewed\n"
                 "A 2.000s 'm' > renew\n"
                 "A 2.000s renewing 1 holds in one script\n"
                 "A 2.002s 'm' < renewed\n"
                 "B 2.433s 'm' queued at 0; pawl holds it, PTTL 2069\n"
                 "A 4.473s 'm' > withdraw (token 1)\n"
                 "a 4.473s PAWL_EEXPIRED, token 1: 'm' was held for 4500 ms, as long as its max-hold allows\n"
                 "A 4.475s 'm' < settled\n"
                 "B 4.475s 'm' PUBLISH: granted, but maybe long ago: asking the server\n"
                 "B 4.477s 'm' < granted, token 2\n"
                 "b 4.477s acquired, token 2, assured for 1975 ms\n"
                 "B 6.453s 'm' > withdraw (token 2)\n"
                 "b 6.453s PAWL_EEXPIRED, token 2: 'm' was held for 2000 ms, as long as its max-hold allows\n"
                 "B 6.455s 'm' < settled\n");
    assert_string_equal(scene_left(), "");
}

/* A renewal whose answer takes longer than the lease does not revive what was lost; not even if the client waits that long. */
static void test_late_renewal_revives_nothing(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client_with(0, "&command=5000"), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(999);
    scene_stop(0);
    scene_run(2500);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_acquire(a, 0, &error), &error); /* release it first */
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(a, &error), &error);
    scene_go_on(0);
    scene_run(3000);
    assert_string_equal(scene_left(), "");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 1.000s 'm' > renew\n"
                 "A 1.000s renewing 1 holds in one script\n"
                 "a 2.000s suspect, token 1: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A 2.968s 'm' > withdraw (token 1)\n"
                 "a 2.968s PAWL_EEXPIRED, token 1: the lease of 'm' ran out: it could not be renewed in time\n"
                 "A 3.500s 'm' < settled\n");
}

/* The server forgets the claim (FLUSHALL): told at the next renewal, at the latest. */
static void test_forgotten_by_the_server(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    redis_flush_all(scene.redis, world_now());
    scene_run(1000);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 1.000s 'm' > renew\n"
                 "A 1.000s renewing 1 holds in one script\n"
                 "A 1.002s 'm' < lost: the hold of 'm' is not on the server any more: its key expired, or was deleted\n"
                 "A 1.002s 'm' > withdraw (token 1)\n"
                 "a 1.002s PAWL_ELOST, token 1: the hold of 'm' is not on the server any more: its key expired, or was deleted\n"
                 "A 1.004s 'm' < settled\n");
}

/* Deadlines of asynchronous acquires: exactly one answer each, and no claim stays behind. */
static void test_timeout_cancel_and_try(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *late = scene_mutex(two, "m"), *cancelled = scene_mutex(two, "m"),
                     *tries = scene_mutex(two, "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(late, PAWL_EXCLUSIVE, 5, "late");
    scene_run(1);
    scene_start(cancelled, PAWL_EXCLUSIVE, PAWL_FOREVER, "cancelled");
    scene_run(9);
    assert_int_equal(pawl_cancel(cancelled), 1);
    assert_int_equal(pawl_cancel(cancelled), 0);
    scene_run(5);
    scene_start(tries, PAWL_EXCLUSIVE, 0, "tries");
    scene_run(3);
    assert_string_equal(scene_left(), "m");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.003s 'm' > submit: exclusive\n"
                 "B 0.003s 'm' < pending\n"
                 "B 0.005s 'm' queued at 0; pawl holds it, PTTL 2997\n"
                 "B 0.007s 'm' queued at 0; pawl holds it, PTTL 2995\n"
                 "late 0.008s PAWL_ETIMEOUT\n"
                 "B 0.013s 'm' > withdraw (token 0)\n"
                 "cancelled 0.013s PAWL_ECANCELED\n"
                 "B 0.015s 'm' < settled\n"
                 "B 0.018s 'm' > submit: exclusive, or nothing\n"
                 "B 0.018s 'm' < pending\n"
                 "B 0.020s 'm' < refused: PAWL_EHELD\n"
                 "tries 0.020s PAWL_EHELD\n");
}

/* Out of reach: a try fails at once, a timed acquire at its deadline, one for ever gets the lock when the link is back. */
static void test_connection_drops(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *timed = scene_mutex(one, "m"), *tries = scene_mutex(one, "m"), *forever = scene_mutex(one, "m");

    (void)state;
    scene_cut(0);
    scene_start(forever, PAWL_EXCLUSIVE, PAWL_FOREVER, "forever");
    scene_start(timed, PAWL_EXCLUSIVE, 20, "timed");
    scene_run(30);
    scene_start(tries, PAWL_EXCLUSIVE, 0, "tries");
    scene_run(10);
    scene_mend(0);
    scene_run(200);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s connection (commands) dropped: the connection broke off while writing\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.000s connection (inbox) dropped: the server closed the connection\n"
                 "A 0.015s connection (commands) dropped: can't connect: Connection refused\n"
                 "A 0.015s connection (inbox) dropped: can't connect: Connection refused\n"
                 "timed 0.020s PAWL_ECONNLOST\n"
                 "tries 0.030s PAWL_EHELD\n"
                 "A 0.054s connection (inbox) is up\n"
                 "A 0.067s server: version 7.0.15, master\n"
                 "A 0.067s connection (commands) is up\n"
                 "A 0.069s 'm' < granted, token of 68 ms\n"
                 "forever 0.069s acquired, token of 68 ms, assured for 2965 ms\n");
}

/* Broken by an operator: told, still in the way, free when the holder has let go. */
static void take_and_give_back(struct pawl_lock *lock) {
    for (int ms = 0; ms < 2000 && pawl_state(lock) != PAWL_HELD; ms++)
        scene_run(1);
    scene_release(lock);
}

/* What a client asked lies in the kernel when it gives the connection up, for the answer to what it asked before is missing. It asks again
 * by another one, and has its lock and releases it, before the hole between them ends for the old one, too: what comes then would hold a
 * lock that nobody wants. When the bytes are sent again is a matter of chance, so it is played some times. */
static void test_given_up_with_requests_in_the_kernel(void **state) {
    struct pawl *client = scene_client_with(0, "&command=400&retry=10,20");
    struct pawl_lock *first = scene_mutex(client, "first"), *second = scene_mutex(client, "second");

    (void)state;
    for (int i = 0; i < 8; i++) {
        scene_start(first, PAWL_EXCLUSIVE, PAWL_FOREVER, "first");
        world_sleep(world_now() + 3 * WORLD_MS / 2); /* the answer is on its way */
        world_hole(scene.sites[0], NULL, true);
        scene_run(300);
        scene_start(second, PAWL_EXCLUSIVE, PAWL_FOREVER, "second");
        scene_run(200);
        world_hole(scene.sites[0], NULL, false);
        take_and_give_back(first);
        take_and_give_back(second);
        scene_run(300);
        assert_string_equal(scene_left(), "");
        scene.line_count = 0;
    }
}

static void test_break(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(two, "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(3);
    assert_fails(PAWL_ETOKEN, pawl_break(two, "m", 7, 0, &error), &error);
    assert_works(pawl_break(two, "m", pawl_token(a), 0, &error), &error);
    scene_run(5);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_run(6);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.003s 'm' > submit: exclusive\n"
                 "B 0.003s 'm' < pending\n"
                 "B 0.005s 'm' queued at 0; pawl holds it, PTTL 2997\n"
                 "A 0.012s 'm' < lost: the hold of 'm' was broken by an operator: stop and release it\n"
                 "a 0.012s PAWL_EBROKEN, token 1: the hold of 'm' was broken by an operator: stop and release it\n"
                 "A 0.017s 'm' > withdraw (token 1)\n"
                 "A 0.019s 'm' < settled\n"
                 "B 0.019s 'm' PUBLISH: granted for 2000 ms\n"
                 "B 0.019s 'm' < granted, token 2\n"
                 "b 0.019s acquired, token 2, assured for 1961 ms\n");
}

/* The last one takes the handle away while its acquire is pending. */
static void test_free_while_pending(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(two, "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(3);
    scene.lock_count--;
    pawl_lock_free(b);
    scene_run(3);
    assert_string_equal(scene_left(), "m");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' < granted, token 1\n"
                 "a 0.002s acquired, token 1, assured for 2965 ms\n"
                 "B 0.003s 'm' > submit: exclusive\n"
                 "B 0.003s 'm' < pending\n"
                 "B 0.005s 'm' queued at 0; pawl holds it, PTTL 2997\n"
                 "B 0.006s 'm' > withdraw (token 0)\n"
                 "b 0.006s PAWL_ECANCELED\n"
                 "B 0.008s 'm' < settled\n");
}

int main(void) {
    const struct scene_test tests[] = {
        {SCENE_TEST(test_hand_over_between_clients)},
        {SCENE_TEST(test_local_hand_off_within_its_bound)},
        {SCENE_TEST(test_local_hand_off_ends_in_time)},
        {SCENE_TEST(test_readers_do_not_overtake_a_writer)},
        {SCENE_TEST(test_downgrade)},
        {SCENE_TEST(test_lost_reply_to_submit)},
        {SCENE_TEST(test_duplicates)},
        {SCENE_TEST(test_renewed_suspect_lost)},
        {SCENE_TEST(test_no_time_left_is_final)},
        {SCENE_TEST(test_suspect_recovers)},
        {SCENE_TEST(test_max_hold)},
        {SCENE_TEST(test_started_ends_at_once)},
        {SCENE_TEST(test_late_renewal_revives_nothing)},
        {SCENE_TEST(test_forgotten_by_the_server)},
        {SCENE_TEST(test_timeout_cancel_and_try)},
        {SCENE_TEST(test_connection_drops)},
        {SCENE_TEST(test_given_up_with_requests_in_the_kernel)},
        {SCENE_TEST(test_break)},
        {SCENE_TEST(test_free_while_pending)},
    };

    return scene_main("transcript", false, tests, sizeof tests / sizeof tests[0]);
}
