/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transcript.c - the core on a virtual clock: every test plays a scene on the simulated engine and compares all that happened,
 * with its times, to the byte. test_transcript_multi.c goes on with several locks at once.
 */
#include "scene.h"

#define MS INT64_C(1000000)

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
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.005000s 'm' > submit: exclusive\n"
                 "B +0.005000s 'm' < pending\n"
                 "A +0.010000s 'm' > withdraw (token 128)\n"
                 "A +0.012000s 'm' < settled\n"
                 "B +0.014000s 'm' < granted, token 256\n"
                 "b +0.014000s acquired, token 256, assured for 2966 ms\n");
}

/* Threads (here: tasks) of one process take turns behind one claim, with tokens that rise; past the bound a second claim waits. */
static void test_local_hand_off_within_its_bound(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(one, "m"), *c = scene_mutex(one, "m"), *d = scene_mutex(one, "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_start(c, PAWL_EXCLUSIVE, PAWL_FOREVER, "c");
    scene_start(d, PAWL_EXCLUSIVE, PAWL_FOREVER, "d");
    scene_run(4);
    scene_release(a);
    scene_run(1);
    scene_release(b);
    scene_run(1);
    scene_release(c);
    scene_run(6);
    scene_release(d);
    scene_run(5);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "A +0.004000s 'm' handed on inside the process, token 129\n"
                 "b +0.005000s acquired, token 129, assured for 2963 ms\n"
                 "A +0.005000s 'm' handed on inside the process, token 130\n"
                 "c +0.006000s acquired, token 130, assured for 2962 ms\n"
                 "A +0.006000s 'm' > withdraw (token 128)\n"
                 "A +0.008000s 'm' < settled\n"
                 "A +0.010000s 'm' < granted, token 256\n"
                 "d +0.010000s acquired, token 256, assured for 2966 ms\n"
                 "A +0.012000s 'm' > withdraw (token 256)\n"
                 "A +0.014000s 'm' < settled\n");
    assert_int_equal(pawl__sim_entries(scene.server), 0);
}

/* Time is a bound too: after 10 ms the claim is given back, and those who waited behind it queue anew, behind B. */
static void test_local_hand_off_ends_in_time(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(one, "m"), *x = scene_mutex(two, "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_start(x, PAWL_EXCLUSIVE, PAWL_FOREVER, "x");
    scene_run(20);
    scene_release(a);
    scene_run(10);
    scene_release(x);
    scene_run(10);
    scene_release(b);
    scene_run(5);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'm' > submit: exclusive\n"
                 "B +0.003000s 'm' < pending\n"
                 "A +0.023000s 'm' > submit: exclusive\n"
                 "A +0.023000s 'm' < pending\n"
                 "A +0.023000s 'm' > withdraw (token 128)\n"
                 "A +0.025000s 'm' < settled\n"
                 "B +0.027000s 'm' < granted, token 256\n"
                 "x +0.027000s acquired, token 256, assured for 2966 ms\n"
                 "B +0.033000s 'm' > withdraw (token 256)\n"
                 "B +0.035000s 'm' < settled\n"
                 "A +0.037000s 'm' < granted, token 384\n"
                 "b +0.037000s acquired, token 384, assured for 2966 ms\n"
                 "A +0.043000s 'm' > withdraw (token 384)\n"
                 "A +0.045000s 'm' < settled\n");
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
    scene_expect("A +0.000000s 'rw' > submit: shared\n"
                 "A +0.000000s 'rw' < pending\n"
                 "A +0.002000s 'rw' < granted, token 128\n"
                 "r1 +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "A +0.003000s 'rw' > submit: exclusive\n"
                 "A +0.003000s 'rw' < pending\n"
                 "A +0.003000s 'rw' > submit: shared\n"
                 "A +0.003000s 'rw' < pending\n"
                 "r2 +0.004000s acquired, token 129, assured for 2964 ms\n"
                 "A +0.008000s 'rw' > withdraw (token 128)\n"
                 "A +0.010000s 'rw' < settled\n"
                 "A +0.012000s 'rw' < granted, token 256\n"
                 "w +0.012000s acquired, token 256, assured for 2966 ms\n"
                 "A +0.016000s 'rw' > withdraw (token 256)\n"
                 "A +0.018000s 'rw' < settled\n"
                 "A +0.020000s 'rw' < granted, token 384\n"
                 "r3 +0.020000s acquired, token 384, assured for 2966 ms\n");
}

/* Write to read: the reader of another process gets in, the writer does not. */
static void test_downgrade(void **state) {
    struct pawl *one = scene_client(), *two = scene_client(), *three = scene_client();
    struct pawl_lock *a = scene_rwlock(one, "rw"), *r = scene_rwlock(two, "rw"), *w = scene_rwlock(three, "rw");
    struct pawl_error error;

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(r, PAWL_SHARED, PAWL_FOREVER, "r");
    scene_run(3);
    scene_start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    scene_run(3);
    assert_works(pawl_downgrade(a, &error), &error);
    scene_run(8);
    assert_int_equal(pawl_token(a), 128);
    assert_works(pawl_release_shared(a, &error), &error);
    scene_run(3);
    assert_works(pawl_release_shared(r, &error), &error);
    scene_run(8);
    scene_expect("A +0.000000s 'rw' > submit: exclusive\n"
                 "A +0.000000s 'rw' < pending\n"
                 "A +0.002000s 'rw' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'rw' > submit: shared\n"
                 "B +0.003000s 'rw' < pending\n"
                 "C +0.006000s 'rw' > submit: exclusive\n"
                 "C +0.006000s 'rw' < pending\n"
                 "A +0.009000s 'rw' > downgrade (token 128)\n"
                 "A +0.011000s 'rw' < downgraded\n"
                 "B +0.013000s 'rw' < granted, token 256\n"
                 "r +0.013000s acquired, token 256, assured for 2966 ms\n"
                 "A +0.017000s 'rw' > withdraw (token 128)\n"
                 "A +0.019000s 'rw' < settled\n"
                 "B +0.020000s 'rw' > withdraw (token 256)\n"
                 "B +0.022000s 'rw' < settled\n"
                 "C +0.024000s 'rw' < granted, token 384\n"
                 "w +0.024000s acquired, token 384, assured for 2966 ms\n");
}

/* The reply to submit is lost: the request is sent again, and there is one claim, not two. */
static void test_lost_reply_to_submit(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");

    (void)state;
    pawl__sim_drop_replies(scene.clients[0], 1);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(205);
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    pawl__sim_drop_replies(scene.clients[0], 1);
    scene_release(a);
    scene_run(205);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.202000s 'm' < granted, token 128\n"
                 "a +0.202000s acquired, token 128, assured for 2966 ms\n"
                 "A +0.205000s 'm' > withdraw (token 128)\n"
                 "A +0.407000s 'm' < settled\n");
}

/* Everything comes twice, and nothing happens twice. */
static void test_duplicates(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");

    (void)state;
    pawl__sim_duplicate(scene.clients[0], true);
    pawl__sim_duplicate(scene.clients[1], true);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(3);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(3);
    scene_release(a);
    scene_run(6);
    scene_release(b);
    scene_run(6);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'm' > submit: exclusive\n"
                 "B +0.003000s 'm' < pending\n"
                 "A +0.006000s 'm' > withdraw (token 128)\n"
                 "A +0.008000s 'm' < settled\n"
                 "B +0.010000s 'm' < granted, token 256\n"
                 "b +0.010000s acquired, token 256, assured for 2966 ms\n"
                 "B +0.012000s 'm' > withdraw (token 256)\n"
                 "B +0.014000s 'm' < settled\n");
}

/* A lease of 3 s: renewed at 1 s; cut off then, suspect at 2/3 after that renewal left, lost before the server's end of it. */
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
    pawl__sim_cut(scene.clients[0], true);
    scene_run(2300 - 400);
    assert_int_equal(pawl_state(a), PAWL_SUSPECT);
    scene_run(1000);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(a), 0);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    pawl__sim_cut(scene.clients[0], false);
    scene_run(400);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.010000s 'm' > submit: exclusive\n"
                 "B +0.010000s 'm' < pending\n"
                 "A +1.000000s 'm' > renew\n"
                 "A +1.002000s 'm' < renewed\n"
                 "A +2.000000s 'm' > renew\n"
                 "a +3.000000s suspect, token 128: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A +3.968000s 'm' > withdraw (token 128)\n"
                 "a +3.968000s PAWL_EEXPIRED, token 128: the lease of 'm' ran out: it could not be renewed in time\n"
                 "B +4.004000s 'm' < granted, token 256\n"
                 "b +4.004000s acquired, token 256, assured for 2966 ms\n"
                 "A +4.170000s 'm' < settled\n");
    assert_int_equal(pawl__sim_entries(scene.server), 1); /* b's: what a gave up was withdrawn when the link was back */
}

/* Cut off until the hold is suspect, and then not any more: it recovers, and that is told too. */
static void test_suspect_recovers(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    pawl__sim_cut(scene.clients[0], true);
    scene_run(2100);
    assert_int_equal(pawl_state(a), PAWL_SUSPECT);
    pawl__sim_cut(scene.clients[0], false);
    scene_run(300);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "A +1.000000s 'm' > renew\n"
                 "a +2.000000s suspect, token 128: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A +2.202000s 'm' < renewed\n"
                 "a +2.202000s recovered, token 128: the lease of 'm' is renewed again\n");
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
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.010000s 'm' > submit: exclusive\n"
                 "B +0.010000s 'm' < pending\n"
                 "A +1.000000s 'm' > renew\n"
                 "A +1.002000s 'm' < renewed\n"
                 "A +2.000000s 'm' > renew\n"
                 "A +2.002000s 'm' < renewed\n"
                 "A +4.500000s 'm' > withdraw (token 128)\n"
                 "a +4.500000s PAWL_EEXPIRED, token 128: 'm' was held for 4500 ms, as long as its max-hold allows\n"
                 "A +4.502000s 'm' < settled\n"
                 "B +4.504000s 'm' < granted, token 256\n"
                 "b +4.504000s acquired, token 256, assured for 1998 ms\n"
                 "B +6.502000s 'm' > withdraw (token 256)\n"
                 "b +6.502000s PAWL_EEXPIRED, token 256: 'm' was held for 2000 ms, as long as its max-hold allows\n"
                 "B +6.504000s 'm' < settled\n");
    assert_int_equal(pawl__sim_entries(scene.server), 0);
}

/* A renewal whose answer takes longer than the lease does not revive what was lost. */
static void test_late_renewal_revives_nothing(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(999);
    pawl__sim_delay(scene.clients[0], 1500 * MS);
    scene_run(2500);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_acquire(a, 0, &error), &error); /* release it first */
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(a, &error), &error);
    pawl__sim_delay(scene.clients[0], MS);
    scene_run(3000);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "A +1.000000s 'm' > renew\n"
                 "a +2.000000s suspect, token 128: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A +2.968000s 'm' > withdraw (token 128)\n"
                 "a +2.968000s PAWL_EEXPIRED, token 128: the lease of 'm' ran out: it could not be renewed in time\n"
                 "A +3.570000s 'm' < settled\n");
}

/* The server forgets the claim (FLUSHALL, expired session): told at the next renewal, at the latest. */
static void test_forgotten_by_the_server(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(10);
    pawl__sim_forget(scene.clients[0]);
    scene_run(1000);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "A +1.000000s 'm' > renew\n"
                 "A +1.002000s 'm' < lost: the server has forgotten the claim\n"
                 "A +1.002000s 'm' > withdraw (token 128)\n"
                 "a +1.002000s PAWL_ELOST, token 128: the server has forgotten the claim\n"
                 "A +1.004000s 'm' < settled\n");
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
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'm' > submit: exclusive\n"
                 "B +0.003000s 'm' < pending\n"
                 "late +0.008000s PAWL_ETIMEOUT\n"
                 "B +0.013000s 'm' > withdraw (token 0)\n"
                 "cancelled +0.014000s PAWL_ECANCELED\n"
                 "B +0.015000s 'm' < settled\n"
                 "B +0.018000s 'm' > submit: exclusive, or nothing\n"
                 "B +0.018000s 'm' < pending\n"
                 "B +0.020000s 'm' < refused: PAWL_EHELD\n"
                 "tries +0.020000s PAWL_EHELD\n");
}

/* Out of reach: a try fails at once, a timed acquire at its deadline, one for ever gets the lock when the link is back. */
static void test_connection_drops(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *timed = scene_mutex(one, "m"), *tries = scene_mutex(one, "m"), *forever = scene_mutex(one, "m");

    (void)state;
    pawl__sim_cut(one, true);
    scene_start(forever, PAWL_EXCLUSIVE, PAWL_FOREVER, "forever");
    scene_start(timed, PAWL_EXCLUSIVE, 20, "timed");
    scene_run(30);
    scene_start(tries, PAWL_EXCLUSIVE, 0, "tries");
    scene_run(10);
    pawl__sim_cut(one, false);
    scene_run(200);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "timed +0.020000s PAWL_ECONNLOST\n"
                 "tries +0.031000s PAWL_EHELD\n"
                 "A +0.202000s 'm' < granted, token 128\n"
                 "forever +0.202000s acquired, token 128, assured for 2966 ms\n");
}

/* Broken by an operator: told, still in the way, free when the holder has let go. */
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
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'm' > submit: exclusive\n"
                 "B +0.003000s 'm' < pending\n"
                 "A +0.007000s 'm' < lost: broken\n"
                 "a +0.007000s PAWL_EBROKEN, token 128: broken\n"
                 "A +0.011000s 'm' > withdraw (token 128)\n"
                 "A +0.013000s 'm' < settled\n"
                 "B +0.015000s 'm' < granted, token 256\n"
                 "b +0.015000s acquired, token 256, assured for 2966 ms\n");
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
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    scene_expect("A +0.000000s 'm' > submit: exclusive\n"
                 "A +0.000000s 'm' < pending\n"
                 "A +0.002000s 'm' < granted, token 128\n"
                 "a +0.002000s acquired, token 128, assured for 2966 ms\n"
                 "B +0.003000s 'm' > submit: exclusive\n"
                 "B +0.003000s 'm' < pending\n"
                 "B +0.006000s 'm' > withdraw (token 0)\n"
                 "b +0.007000s PAWL_ECANCELED\n"
                 "B +0.008000s 'm' < settled\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_hand_over_between_clients),
        SCENE_TEST(test_local_hand_off_within_its_bound),
        SCENE_TEST(test_local_hand_off_ends_in_time),
        SCENE_TEST(test_readers_do_not_overtake_a_writer),
        SCENE_TEST(test_downgrade),
        SCENE_TEST(test_lost_reply_to_submit),
        SCENE_TEST(test_duplicates),
        SCENE_TEST(test_renewed_suspect_lost),
        SCENE_TEST(test_suspect_recovers),
        SCENE_TEST(test_max_hold),
        SCENE_TEST(test_late_renewal_revives_nothing),
        SCENE_TEST(test_forgotten_by_the_server),
        SCENE_TEST(test_timeout_cancel_and_try),
        SCENE_TEST(test_connection_drops),
        SCENE_TEST(test_break),
        SCENE_TEST(test_free_while_pending),
    };

    return cmocka_run_group_tests_name("transcript", tests, NULL, NULL);
}
