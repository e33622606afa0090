/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transcript_zookeeper.c - scenes on the ZooKeeper engine (see scene.h), where it goes another way than test_transcript.c shows: a
 * place in the queue is a node, the one behind watches it, and a hold lasts as long as the session.
 */
#include "scene.h"

/* The second sees the first's node go. */
static void test_hand_over_between_clients(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(20);
    scene_release(a);
    scene_run(20);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1408\n"
                 "a 0.006s acquired, token 1408, assured for 2470 ms\n"
                 "B 0.020s 'm' > submit: exclusive\n"
                 "B 0.020s 'm' < pending\n"
                 "B 0.022s 'm' created lock-0000000001\n"
                 "B 0.022s 'm' not lowest, watching lock-0000000000\n"
                 "A 0.040s 'm' > withdraw (token 1408)\n"
                 "A 0.042s deleted lock-0000000000\n"
                 "A 0.042s 'm' < settled\n"
                 "B 0.042s 'm' woken: it was deleted\n"
                 "B 0.042s 'm' holds\n"
                 "B 0.042s 'm' < granted, token 1536\n"
                 "b 0.042s acquired, token 1536, assured for 2450 ms\n");
}

/* Threads (here: tasks) of one process take turns behind one node: its number gives tokens for all of them. Past the bound a second node
 * waits. */
static void test_local_hand_off_within_its_bound(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(one, "m"), *c = scene_mutex(one, "m"), *d = scene_mutex(one, "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_start(c, PAWL_EXCLUSIVE, PAWL_FOREVER, "c");
    scene_start(d, PAWL_EXCLUSIVE, PAWL_FOREVER, "d");
    scene_run(20);
    scene_release(a);
    scene_run(1);
    scene_release(b);
    scene_run(1);
    scene_release(c);
    scene_run(20);
    scene_release(d);
    scene_run(10);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1280\n"
                 "A 0.006s 'm' created lock-0000000001\n"
                 "A 0.006s 'm' not lowest, watching lock-0000000000\n"
                 "a 0.006s acquired, token 1280, assured for 2470 ms\n"
                 "A 0.020s 'm' handed on inside the process, token 1281\n"
                 "b 0.020s acquired, token 1281, assured for 2457 ms\n"
                 "A 0.021s 'm' handed on inside the process, token 1282\n"
                 "c 0.021s acquired, token 1282, assured for 2456 ms\n"
                 "A 0.022s 'm' > withdraw (token 1280)\n"
                 "A 0.024s 'm' woken: it was deleted\n"
                 "A 0.024s 'm' holds\n"
                 "A 0.024s deleted lock-0000000000\n"
                 "A 0.024s 'm' < settled\n"
                 "A 0.024s 'm' < granted, token 1408\n"
                 "d 0.024s acquired, token 1408, assured for 2453 ms\n"
                 "A 0.042s 'm' > withdraw (token 1408)\n"
                 "A 0.044s deleted lock-0000000001\n"
                 "A 0.044s 'm' < settled\n");
    assert_string_equal(scene_left(), "");
}

/* Write to read: the reader of another process gets in, the writer does not. */
static void test_downgrade(void **state) {
    struct pawl *one = scene_client(), *two = scene_client(), *three = scene_client();
    struct pawl_lock *a = scene_rwlock(one, "rw"), *r = scene_rwlock(two, "rw"), *w = scene_rwlock(three, "rw");
    struct pawl_error error;
    uint64_t token;

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    token = pawl_token(a);
    scene_start(r, PAWL_SHARED, PAWL_FOREVER, "r");
    scene_run(20);
    scene_start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    scene_run(20);
    assert_works(pawl_downgrade(a, &error), &error);
    scene_run(20);
    assert_true(pawl_token(a) == token);
    assert_works(pawl_release_shared(a, &error), &error);
    scene_run(20);
    assert_works(pawl_release_shared(r, &error), &error);
    scene_run(20);
    scene_expect("A 0.000s 'rw' > submit: exclusive\n"
                 "A 0.000s 'rw' < pending\n"
                 "A 0.002s 'rw' no /rw: made\n"
                 "A 0.006s 'rw' created __WRIT__0000000000\n"
                 "A 0.006s 'rw' holds\n"
                 "A 0.006s 'rw' < granted, token 1792\n"
                 "a 0.006s acquired, token 1792, assured for 2470 ms\n"
                 "B 0.020s 'rw' > submit: shared\n"
                 "B 0.020s 'rw' < pending\n"
                 "B 0.022s 'rw' created __READ__0000000001\n"
                 "B 0.022s 'rw' not lowest, watching __WRIT__0000000000\n"
                 "C 0.040s 'rw' > submit: exclusive\n"
                 "C 0.040s 'rw' < pending\n"
                 "C 0.042s 'rw' created __WRIT__0000000002\n"
                 "C 0.042s 'rw' not lowest, watching __READ__0000000001\n"
                 "A 0.060s 'rw' > downgrade (token 1792)\n"
                 "A 0.062s 'rw' downgraded: __READ__0000000000\n"
                 "A 0.062s 'rw' < renewed\n"
                 "A 0.062s 'rw' < downgraded\n"
                 "B 0.062s 'rw' woken: it was deleted\n"
                 "B 0.064s 'rw' holds\n"
                 "B 0.064s 'rw' < granted, token 1920\n"
                 "r 0.064s acquired, token 1920, assured for 1852 ms\n"
                 "A 0.080s 'rw' > withdraw (token 1792)\n"
                 "A 0.082s deleted __READ__0000000000\n"
                 "A 0.082s 'rw' < settled\n"
                 "B 0.100s 'rw' > withdraw (token 1920)\n"
                 "B 0.102s deleted __READ__0000000001\n"
                 "B 0.102s 'rw' < settled\n"
                 "C 0.102s 'rw' woken: it was deleted\n"
                 "C 0.104s 'rw' holds\n"
                 "C 0.104s 'rw' < granted, token 2048\n"
                 "w 0.104s acquired, token 2048, assured for 2408 ms\n");
}

/* The answer to create is lost: the node is found again by its GUID, and there is one, not two. */
static void test_lost_reply_to_create(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m");

    (void)state;
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_release(a);
    scene_run(20);
    scene_lose_answer(0);
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a again");
    scene_run(1000);
    assert_string_equal(scene_left(), "0000000001");
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1024\n"
                 "a 0.006s acquired, token 1024, assured for 2470 ms\n"
                 "A 0.020s 'm' > withdraw (token 1024)\n"
                 "A 0.022s deleted lock-0000000000\n"
                 "A 0.022s 'm' < settled\n"
                 "A 0.040s 'm' > submit: exclusive\n"
                 "A 0.040s 'm' < pending\n"
                 "A 0.042s disconnected\n"
                 "A 0.046s session 0x1beeb8da1650000 connected again, 6000 ms\n"
                 "A 0.050s 'm' created lock-0000000001\n"
                 "A 0.052s 'm' holds\n"
                 "A 0.052s 'm' < granted, token 1280\n"
                 "a again 0.052s acquired, token 1280, assured for 2462 ms\n"
                 "A 0.837s 'm' > renew\n"
                 "A 0.839s 'm' < renewed\n");
}

/* Nothing comes through: suspect, and lost before the server ends the session, which lets the next one in. */
static void test_suspect_lost(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(20);
    scene_stop(0);
    scene_run(6500);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(a), 0);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_go_on(0);
    scene_run(300);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1408\n"
                 "a 0.006s acquired, token 1408, assured for 2470 ms\n"
                 "B 0.020s 'm' > submit: exclusive\n"
                 "B 0.020s 'm' < pending\n"
                 "B 0.022s 'm' created lock-0000000001\n"
                 "B 0.022s 'm' not lowest, watching lock-0000000000\n"
                 "A 0.837s 'm' > renew\n"
                 "a 1.670s suspect, token 1408: the lease of 'm' was not renewed for two thirds of its time\n"
                 "A 2.477s 'm' > withdraw (token 1408)\n"
                 "A 2.477s 'm' < settled\n"
                 "a 2.477s PAWL_EEXPIRED, token 1408: the lease of 'm' ran out: it could not be renewed in time\n"
                 "A 4.010s disconnected\n"
                 "B 6.419s 'm' woken: it was deleted\n"
                 "B 6.423s 'm' holds\n"
                 "B 6.423s 'm' < granted, token 1536\n"
                 "b 6.423s acquired, token 1536, assured for 2470 ms\n"
                 "A 6.541s session 0x1beeb8da1650000 is over\n"
                 "A 6.545s session 0x1beeb8da1650002 opened, 6000 ms\n");
}

/* The server ends the sessions of a holder and of a waiter: the one is told, the other queues anew. */
static void test_session_expires(void **state) {
    struct pawl_lock *a = scene_mutex(scene_client(), "m"), *b = scene_mutex(scene_client(), "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(20);
    scene_expire(1);
    scene_run(500);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    scene_expire(0);
    scene_run(500);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_run(20);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1408\n"
                 "a 0.006s acquired, token 1408, assured for 2470 ms\n"
                 "B 0.020s 'm' > submit: exclusive\n"
                 "B 0.020s 'm' < pending\n"
                 "B 0.022s 'm' created lock-0000000001\n"
                 "B 0.022s 'm' not lowest, watching lock-0000000000\n"
                 "B 0.041s disconnected\n"
                 "B 0.045s session 0x1beeb8da1650001 is over\n"
                 "B 0.045s 'm' the session is gone: queueing anew\n"
                 "B 0.049s session 0x1beeb8da1650002 opened, 6000 ms\n"
                 "B 0.051s 'm' created lock-0000000002\n"
                 "B 0.051s 'm' not lowest, watching lock-0000000000\n"
                 "A 0.541s 'm' the node is gone: lost\n"
                 "A 0.541s disconnected\n"
                 "A 0.541s 'm' < lost: the node that held 'm' was deleted by somebody else\n"
                 "A 0.541s 'm' > withdraw (token 1408)\n"
                 "A 0.541s 'm' < settled\n"
                 "a 0.541s PAWL_ELOST, token 1408: the node that held 'm' was deleted by somebody else\n"
                 "B 0.541s 'm' woken: it was deleted\n"
                 "B 0.541s 'm' holds\n"
                 "B 0.541s 'm' < granted, token 1920\n"
                 "b 0.541s acquired, token 1920, assured for 1980 ms\n"
                 "A 0.545s session 0x1beeb8da1650000 is over\n"
                 "A 0.549s session 0x1beeb8da1650003 opened, 6000 ms\n"
                 "B 0.882s 'm' > renew\n"
                 "B 0.884s 'm' < renewed\n");
}

/* The connection of a waiter drops and comes back: its session lives on, and with it its place in the queue; that its turn had come
 * meanwhile is heard then. Who does not want to wait that long is told that it is the connection. */
static void test_connection_drops(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(two, "m"), *timed = scene_mutex(two, "n");

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(20);
    scene_cut(1);
    scene_run(20);
    scene_start(timed, PAWL_EXCLUSIVE, 20, "timed");
    scene_run(100);
    scene_release(a);
    scene_run(20);
    scene_mend(1);
    scene_run(2000);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1408\n"
                 "a 0.006s acquired, token 1408, assured for 2470 ms\n"
                 "B 0.020s 'm' > submit: exclusive\n"
                 "B 0.020s 'm' < pending\n"
                 "B 0.022s 'm' created lock-0000000001\n"
                 "B 0.022s 'm' not lowest, watching lock-0000000000\n"
                 "B 0.040s disconnected\n"
                 "B 0.060s 'n' > submit: exclusive\n"
                 "B 0.060s 'n' < pending\n"
                 "B 0.080s 'n' > withdraw (token 0)\n"
                 "B 0.080s 'n' < settled\n"
                 "timed 0.080s PAWL_ECONNLOST\n"
                 "A 0.160s 'm' > withdraw (token 1408)\n"
                 "A 0.162s deleted lock-0000000000\n"
                 "A 0.162s 'm' < settled\n"
                 "B 0.270s session 0x1beeb8da1650001 connected again, 6000 ms\n"
                 "B 0.272s 'm' gone already\n"
                 "B 0.274s 'm' holds\n"
                 "B 0.274s 'm' < granted, token 1536\n"
                 "b 0.274s acquired, token 1536, assured for 2464 ms\n"
                 "B 1.099s 'm' > renew\n"
                 "B 1.101s 'm' < renewed\n"
                 "B 1.932s 'm' > renew\n"
                 "B 1.934s 'm' < renewed\n");
    assert_string_equal(scene_left(), "0000000001");
}

/* Broken by an operator: told, still in the way, free when the holder has let go. */
static void test_break(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *a = scene_mutex(one, "m"), *b = scene_mutex(two, "m");
    struct pawl_error error;

    (void)state;
    scene_listen(a, "a");
    scene_start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    scene_run(20);
    scene_start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_run(20);
    assert_fails(PAWL_ETOKEN, pawl_break(two, "m", 7, 0, &error), &error);
    assert_works(pawl_break(two, "m", pawl_token(a), 0, &error), &error);
    scene_run(20);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    scene_run(20);
    scene_expect("A 0.000s 'm' > submit: exclusive\n"
                 "A 0.000s 'm' < pending\n"
                 "A 0.002s 'm' no /m: made\n"
                 "A 0.006s 'm' created lock-0000000000\n"
                 "A 0.006s 'm' holds\n"
                 "A 0.006s 'm' < granted, token 1408\n"
                 "a 0.006s acquired, token 1408, assured for 2470 ms\n"
                 "B 0.020s 'm' > submit: exclusive\n"
                 "B 0.020s 'm' < pending\n"
                 "B 0.022s 'm' created lock-0000000001\n"
                 "B 0.022s 'm' not lowest, watching lock-0000000000\n"
                 "A 0.050s 'm' the node was changed: broken\n"
                 "A 0.050s 'm' < lost: the hold of 'm' was broken by an operator: stop and release it\n"
                 "a 0.050s PAWL_EBROKEN, token 1408: the hold of 'm' was broken by an operator: stop and release it\n"
                 "B 0.050s 'm' woken: it changed\n"
                 "B 0.052s 'm' not lowest, watching lock-0000000000\n"
                 "A 0.070s 'm' > withdraw (token 1408)\n"
                 "A 0.072s deleted lock-0000000000\n"
                 "A 0.072s 'm' < settled\n"
                 "B 0.072s 'm' woken: it was deleted\n"
                 "B 0.072s 'm' holds\n"
                 "B 0.072s 'm' < granted, token 1536\n"
                 "b 0.072s acquired, token 1536, assured for 2449 ms\n");
}

int main(void) {
    const struct scene_test tests[] = {
        {SCENE_TEST(test_hand_over_between_clients)},
        {SCENE_TEST(test_local_hand_off_within_its_bound)},
        {SCENE_TEST(test_downgrade)},
        {SCENE_TEST(test_lost_reply_to_create)},
        {SCENE_TEST(test_suspect_lost)},
        {SCENE_TEST(test_session_expires)},
        {SCENE_TEST(test_connection_drops)},
        {SCENE_TEST(test_break)},
    };

    return scene_main("transcript of zookeeper", true, tests, sizeof tests / sizeof tests[0]);
}
