/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transcript_multi.c - several locks taken as one, in a simulated world: see scene.h. How the set goes from step to step (multi.c),
 * what is asked of the engine in each, and that nothing is left when it ends badly.
 */
#include "scene.h"

static struct pawl_error error;

static struct pawl_part exclusive(struct pawl_lock *lock) {
    return (struct pawl_part){.lock = lock};
}

static void start_all(const struct pawl_part *parts, size_t count, int64_t timeout_ms, const char *who) {
    assert_works(pawl_acquire_all_start(parts, count, timeout_ms, scene_acquired, (void *)(uintptr_t)who, &error), &error);
}

static void expect_states(const struct pawl_part *parts, size_t count, enum pawl_state state) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pawl_state(parts[i].lock), state);
}

/* All are free: one request takes them all, of any kind, and one callback tells. */
static void test_all_free(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {
        exclusive(scene_mutex(one, "c")), {.lock = scene_rwlock(one, "a"), .mode = PAWL_SHARED}, exclusive(scene_mutex(one, "b"))};

    (void)state;
    start_all(parts, 3, PAWL_FOREVER, "abc");
    scene_run(5);
    assert_int_equal(scene_requests(0), 1);
    expect_states(parts, 3, PAWL_HELD);
    assert_int_equal(pawl_remaining_all_ms(parts, 3), 2962);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    scene_run(5);
    assert_string_equal(scene_left(), "");
    assert_int_equal(pawl_remaining_all_ms(parts, 3), 0);
    scene_expect("A 0.000s 'a' > submit: shared, all or nothing\n"
                 "A 0.000s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.000s 'c' > submit: exclusive, all or nothing\n"
                 "A 0.000s 'a' < pending\n"
                 "A 0.000s 'b' < pending\n"
                 "A 0.000s 'c' < pending\n"
                 "A 0.002s 'a' < granted, token 1\n"
                 "A 0.002s 'b' < granted, token 1\n"
                 "A 0.002s 'c' < granted, token 1\n"
                 "abc 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'b' > withdraw (token 1)\n"
                 "A 0.005s 'a' > withdraw (token 1)\n"
                 "A 0.005s 'c' > withdraw (token 1)\n"
                 "A 0.007s 'b' < settled\n"
                 "A 0.007s 'a' < settled\n"
                 "A 0.007s 'c' < settled\n");
}

/* One is not free: then none is taken. They are taken in order, the first is held while the second is waited for. */
static void test_one_is_held(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "b")), exclusive(scene_mutex(one, "a"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(10);
    assert_int_equal(pawl_state(parts[1].lock), PAWL_HELD);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_NOT_HELD);
    scene_release(held);
    scene_run(10);
    expect_states(parts, 2, PAWL_HELD);
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "A 0.011s 'b' queued at 0; pawl holds it, PTTL 2991\n"
                 "B 0.015s 'b' > withdraw (token 1)\n"
                 "A 0.017s 'b' PUBLISH: granted for 2000 ms\n"
                 "A 0.017s 'b' < granted, token 2\n"
                 "ab 0.017s acquired, token 2, assured for 1970 ms\n"
                 "B 0.017s 'b' < settled\n");
}

/* A try that finds one held takes nothing, not even for a moment. */
static void test_try(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, 0, "ab");
    scene_run(5);
    assert_int_equal(scene_requests(0), 1);
    assert_string_equal(scene_left(), "b");
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "ab 0.007s PAWL_EHELD\n");
}

/* A wants b and a, B wants a and b, at the same moment: each gets both in the end. */
static void test_opposite_orders(void **state) {
    struct pawl *one = scene_client(), *two = scene_client();
    struct pawl_lock *keeper = scene_mutex(scene_client(), "b");
    struct pawl_part first[] = {exclusive(scene_mutex(one, "b")), exclusive(scene_mutex(one, "a"))};
    struct pawl_part second[] = {exclusive(scene_mutex(two, "a")), exclusive(scene_mutex(two, "b"))};

    (void)state;
    scene_start(keeper, PAWL_EXCLUSIVE, PAWL_FOREVER, "keeper"); /* so that both have to go one by one */
    scene_run(5);
    start_all(first, 2, PAWL_FOREVER, "first");
    start_all(second, 2, PAWL_FOREVER, "second");
    scene_run(10);
    scene_release(keeper);
    scene_run(10);
    expect_states(first, 2, PAWL_HELD);
    expect_states(second, 2, PAWL_NOT_HELD);
    assert_works(pawl_release_all(first, 2, &error), &error);
    scene_run(10);
    expect_states(second, 2, PAWL_HELD);
    scene_expect("C 0.000s 'b' > submit: exclusive\n"
                 "C 0.000s 'b' < pending\n"
                 "C 0.002s 'b' < granted, token 1\n"
                 "keeper 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "B 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "B 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "B 0.005s 'a' < pending\n"
                 "B 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "B 0.007s 'a' < refused: PAWL_EHELD\n"
                 "B 0.007s 'b' < refused: PAWL_EHELD\n"
                 "B 0.007s 'a' > submit: exclusive\n"
                 "B 0.007s 'a' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "B 0.009s 'a' queued at 0; pawl holds it, PTTL 3000\n"
                 "A 0.011s 'b' queued at 0; pawl holds it, PTTL 2991\n"
                 "C 0.015s 'b' > withdraw (token 1)\n"
                 "A 0.017s 'b' PUBLISH: granted for 2000 ms\n"
                 "A 0.017s 'b' < granted, token 2\n"
                 "first 0.017s acquired, token 2, assured for 1970 ms\n"
                 "C 0.017s 'b' < settled\n"
                 "A 0.025s 'a' > withdraw (token 1)\n"
                 "A 0.025s 'b' > withdraw (token 2)\n"
                 "A 0.027s 'a' < settled\n"
                 "A 0.027s 'b' < settled\n"
                 "B 0.027s 'a' PUBLISH: granted for 2000 ms\n"
                 "B 0.027s 'a' < granted, token 2\n"
                 "B 0.027s 'b' > submit: exclusive\n"
                 "B 0.027s 'b' < pending\n"
                 "B 0.029s 'b' < granted, token 3\n"
                 "second 0.029s acquired, token 2, assured for 1955 ms\n");
}

/* The time is up while the second is waited for: the first is given back. */
static void test_time_out_in_the_middle(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, 20, "ab");
    scene_run(30);
    assert_string_equal(scene_left(), "b");
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "A 0.011s 'b' queued at 0; pawl holds it, PTTL 2991\n"
                 "A 0.025s 'b' > withdraw (token 0)\n"
                 "A 0.025s 'a' > withdraw (token 1)\n"
                 "ab 0.025s PAWL_ETIMEOUT\n"
                 "A 0.027s 'b' < settled\n"
                 "A 0.027s 'a' < settled\n");
}

/* The first is lost while the second is waited for: that is seen before success is told, and nothing is kept. */
static void test_lost_while_another_is_waited_for(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(10);
    assert_works(pawl_break(scene.clients[1], "a", pawl_token(parts[0].lock), PAWL_BREAK_NOW, &error), &error);
    scene_run(5);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_LOST);
    scene_release(held);
    scene_run(10);
    expect_states(parts, 2, PAWL_NOT_HELD);
    assert_string_equal(scene_left(), "");
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "A 0.011s 'b' queued at 0; pawl holds it, PTTL 2991\n"
                 "A 0.019s 'a' < lost: the hold of 'a' was broken by an operator: stop and release it\n"
                 "A 0.019s 'a' > withdraw (token 1)\n"
                 "A 0.021s 'a' < settled\n"
                 "B 0.024s 'b' > withdraw (token 1)\n"
                 "A 0.026s 'b' PUBLISH: granted for 2000 ms\n"
                 "A 0.026s 'b' < granted, token 2\n"
                 "A 0.026s 'b' > withdraw (token 2)\n"
                 "ab 0.026s PAWL_ELOST\n"
                 "B 0.026s 'b' < settled\n"
                 "A 0.028s 'b' < settled\n");
}

/* Cancelled through the handle that is held already; and then between two parts, when nothing is waited for. */
static void test_cancel(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(10);
    assert_int_equal(pawl_cancel(parts[0].lock), 1);
    assert_int_equal(pawl_cancel(parts[0].lock), 0);
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(3); /* refused together, and 'a' is asked for */
    scene_wait(2);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_HELD); /* it was granted, and nobody has dispatched that */
    assert_int_equal(pawl_cancel(parts[1].lock), 1);
    scene_run(5);
    assert_string_equal(scene_left(), "b");
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "A 0.011s 'b' queued at 0; pawl holds it, PTTL 2991\n"
                 "A 0.015s 'b' > withdraw (token 0)\n"
                 "A 0.015s 'a' > withdraw (token 1)\n"
                 "ab 0.015s PAWL_ECANCELED\n"
                 "A 0.017s 'b' < settled\n"
                 "A 0.017s 'a' < settled\n"
                 "A 0.020s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.020s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.020s 'a' < pending\n"
                 "A 0.020s 'b' < pending\n"
                 "A 0.022s 'a' < refused: PAWL_EHELD\n"
                 "A 0.022s 'b' < refused: PAWL_EHELD\n"
                 "A 0.022s 'a' > submit: exclusive\n"
                 "A 0.022s 'a' < pending\n"
                 "A 0.024s 'a' < granted, token 2\n"
                 "A 0.025s 'a' > withdraw (token 2)\n"
                 "ab 0.025s PAWL_ECANCELED\n"
                 "A 0.027s 'a' < settled\n");
}

/* A handle is freed, and with it the acquire of the whole set ends; a client is closed. */
static void test_free_and_close(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "b")), exclusive(scene_mutex(one, "a"))};
    struct pawl_lock *held = scene_mutex(scene_client(), "b");
    struct pawl *three = scene_client();
    struct pawl_part others[] = {exclusive(scene_mutex(three, "c")), exclusive(scene_mutex(three, "b"))};

    (void)state;
    scene_start(held, PAWL_EXCLUSIVE, PAWL_FOREVER, "held");
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    start_all(others, 2, PAWL_FOREVER, "bc");
    scene_run(10);
    scene.locks[1] = NULL;
    pawl_lock_free(parts[1].lock); /* 'a', which is held */
    scene_run(5);
    scene_close(2);
    assert_string_equal(scene_left(), "b");
    assert_int_equal(pawl_state(parts[0].lock), PAWL_NOT_HELD);
    assert_fails(PAWL_ECLOSED, pawl_acquire_all(others, 2, 0, &error), &error);
    scene_expect("B 0.000s 'b' > submit: exclusive\n"
                 "B 0.000s 'b' < pending\n"
                 "B 0.002s 'b' < granted, token 1\n"
                 "held 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.005s 'b' < pending\n"
                 "C 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "C 0.005s 'c' > submit: exclusive, all or nothing\n"
                 "C 0.005s 'b' < pending\n"
                 "C 0.005s 'c' < pending\n"
                 "A 0.007s 'a' < refused: PAWL_EHELD\n"
                 "A 0.007s 'b' < refused: PAWL_EHELD\n"
                 "A 0.007s 'a' > submit: exclusive\n"
                 "A 0.007s 'a' < pending\n"
                 "C 0.007s 'b' < refused: PAWL_EHELD\n"
                 "C 0.007s 'c' < refused: PAWL_EHELD\n"
                 "C 0.007s 'b' > submit: exclusive\n"
                 "C 0.007s 'b' < pending\n"
                 "A 0.009s 'a' < granted, token 1\n"
                 "A 0.009s 'b' > submit: exclusive\n"
                 "A 0.009s 'b' < pending\n"
                 "C 0.009s 'b' queued at 0; pawl holds it, PTTL 2993\n"
                 "A 0.011s 'b' queued at 1; pawl holds it, PTTL 2991\n"
                 "A 0.015s 'b' > withdraw (token 0)\n"
                 "A 0.015s 'a' > withdraw (token 1)\n"
                 "ab 0.015s PAWL_ECANCELED\n"
                 "A 0.017s 'b' < settled\n"
                 "A 0.017s 'a' < settled\n"
                 "C 0.020s 'b' > withdraw (token 0)\n"
                 "C 0.022s 'b' < settled\n"
                 "bc 0.022s PAWL_ECLOSED\n");
}

/* The answer to the request for all is lost: each claim asks for itself, and there is one of each, not two. */
static void test_lost_reply(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};

    (void)state;
    scene_lose_answer(0);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(205);
    expect_states(parts, 2, PAWL_HELD);
    assert_string_equal(scene_left(), "a b");
    scene_expect("A 0.000s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.000s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.000s 'a' < pending\n"
                 "A 0.000s 'b' < pending\n"
                 "A 0.002s connection (commands) dropped: the server closed the connection\n"
                 "A 0.019s server: version 7.0.15, master\n"
                 "A 0.019s connection (commands) is up\n"
                 "A 0.021s 'a' < granted, token 1\n"
                 "A 0.021s 'b' < granted, token 1\n"
                 "ab 0.021s acquired, token 1, assured for 2965 ms\n");
}

/* What the owner has is entered again, at once; what it has shared it can't have exclusively, and that is said before anything is
 * waited for. */
static void test_by_right(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_lock *shared = scene_rwlock(one, "z");
    struct pawl_part never[] = {exclusive(scene_mutex(one, "c")), exclusive(shared)};

    (void)state;
    scene_start(parts[1].lock, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    scene_start(shared, PAWL_SHARED, PAWL_FOREVER, "z");
    scene_run(5);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(5);
    start_all(parts, 2, 0, "ab again");
    scene_run(5);
    for (int i = 0; i < 2; i++)
        assert_works(pawl_release_all(parts, 2, &error), &error);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_NOT_HELD);
    assert_int_equal(pawl_state(parts[1].lock), PAWL_HELD);
    assert_fails(PAWL_EDEADLK, pawl_acquire_all_start(never, 2, PAWL_FOREVER, scene_acquired, NULL, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release_all(parts, 2, &error), &error); /* and 'b' is released all the same */
    assert_int_equal(pawl_state(parts[1].lock), PAWL_NOT_HELD);
    scene_run(5);
    scene_expect("A 0.000s 'b' > submit: exclusive\n"
                 "A 0.000s 'b' < pending\n"
                 "A 0.000s 'z' > submit: shared\n"
                 "A 0.000s 'z' < pending\n"
                 "A 0.002s 'b' < granted, token 1\n"
                 "A 0.002s 'z' < granted, token 1\n"
                 "b 0.002s acquired, token 1, assured for 2965 ms\n"
                 "z 0.002s acquired, token 1, assured for 2965 ms\n"
                 "A 0.005s 'a' > submit: exclusive\n"
                 "A 0.005s 'a' < pending\n"
                 "A 0.007s 'a' < granted, token 1\n"
                 "ab 0.007s acquired, token 1, assured for 2965 ms\n"
                 "ab again 0.010s acquired, token 1, assured for 2962 ms\n"
                 "A 0.015s 'a' > withdraw (token 1)\n"
                 "A 0.015s 'b' > withdraw (token 1)\n"
                 "A 0.017s 'a' < settled\n"
                 "A 0.017s 'b' < settled\n");
}

/* The server is out of reach for a while: the set waits, as a single acquire would. */
static void test_connection_drops(void **state) {
    struct pawl *one = scene_client();
    struct pawl_part parts[] = {exclusive(scene_mutex(one, "a")), exclusive(scene_mutex(one, "b"))};

    (void)state;
    scene_cut(0);
    scene_run(5);
    start_all(parts, 2, 0, "try");
    scene_run(5);
    start_all(parts, 2, 50, "late");
    scene_run(60);
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(300);
    scene_mend(0);
    scene_run(1000);
    expect_states(parts, 2, PAWL_HELD);
    scene_expect("A 0.000s connection (inbox) dropped: the server closed the connection\n"
                 "A 0.000s connection (commands) dropped: the server closed the connection\n"
                 "A 0.005s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.005s 'a' < PAWL_EUNSUPPORTED\n"
                 "A 0.005s 'b' < PAWL_EUNSUPPORTED\n"
                 "A 0.005s 'a' > submit: exclusive, or nothing\n"
                 "A 0.005s 'a' < PAWL_ECONNLOST\n"
                 "try 0.005s PAWL_ECONNLOST\n"
                 "A 0.010s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.010s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.010s 'a' < PAWL_EUNSUPPORTED\n"
                 "A 0.010s 'b' < PAWL_EUNSUPPORTED\n"
                 "A 0.010s 'a' > submit: exclusive\n"
                 "A 0.010s 'a' < pending\n"
                 "A 0.015s connection (commands) dropped: can't connect: Connection refused\n"
                 "A 0.015s connection (inbox) dropped: can't connect: Connection refused\n"
                 "A 0.052s connection (inbox) dropped: can't connect: Connection refused\n"
                 "A 0.060s 'a' > withdraw (token 0)\n"
                 "A 0.060s 'a' < settled\n"
                 "late 0.060s PAWL_ECONNLOST\n"
                 "A 0.065s connection (commands) dropped: can't connect: Connection refused\n"
                 "A 0.070s 'a' > submit: exclusive, all or nothing\n"
                 "A 0.070s 'b' > submit: exclusive, all or nothing\n"
                 "A 0.070s 'a' < PAWL_EUNSUPPORTED\n"
                 "A 0.070s 'b' < PAWL_EUNSUPPORTED\n"
                 "A 0.070s 'a' > submit: exclusive\n"
                 "A 0.070s 'a' < pending\n"
                 "A 0.116s connection (inbox) dropped: can't connect: Connection refused\n"
                 "A 0.136s connection (commands) dropped: can't connect: Connection refused\n"
                 "A 0.315s connection (inbox) dropped: can't connect: Connection refused\n"
                 "A 0.325s connection (commands) dropped: can't connect: Connection refused\n"
                 "A 0.582s connection (inbox) is up\n"
                 "A 0.665s server: version 7.0.15, master\n"
                 "A 0.665s connection (commands) is up\n"
                 "A 0.667s 'a' < granted, token of 666 ms\n"
                 "A 0.667s 'b' > submit: exclusive\n"
                 "A 0.667s 'b' < pending\n"
                 "A 0.669s 'b' < granted, token of 668 ms\n"
                 "ab 0.669s acquired, token of 666 ms, assured for 2963 ms\n");
}

/* Handles of two clients: one after the other, by URL and name; each client's loop takes its step. */
static void test_two_clients(void **state) {
    struct pawl *one = scene_client(), *two = scene_client_with(0, "");
    struct pawl_part parts[] = {exclusive(scene_mutex(two, "a")), exclusive(scene_mutex(one, "b"))};
    struct pawl_part twins[] = {exclusive(scene_mutex(two, "b")), parts[1]};

    (void)state;
    start_all(parts, 2, PAWL_FOREVER, "ab");
    scene_run(10);
    expect_states(parts, 2, PAWL_HELD);
    assert_fails(PAWL_EINVAL, pawl_acquire_all(twins, 2, 0, &error), &error);
    scene_expect("B 0.000s 'a' > submit: exclusive\n"
                 "B 0.000s 'a' < pending\n"
                 "A 0.002s 'b' > submit: exclusive\n"
                 "A 0.002s 'b' < pending\n"
                 "B 0.002s 'a' < granted, token 1\n"
                 "A 0.004s 'b' < granted, token 1\n"
                 "ab 0.004s acquired, token 1, assured for 2963 ms\n");
}

/* More than the engine takes at once: one after the other. */
static void test_too_many_together(void **state) {
    enum { MANY = 33 };
    struct pawl *one = scene_client();
    struct pawl_part parts[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        char name[8];

        snprintf(name, sizeof name, "%d", i);
        parts[i] = exclusive(scene_mutex(one, name));
    }
    start_all(parts, MANY, PAWL_FOREVER, "all");
    scene_run(2 * MANY + 1);
    expect_states(parts, MANY, PAWL_HELD);
    assert_int_equal(scene_requests(0), MANY);
}

static void test_bad_input(void **state) {
    struct pawl *one = scene_client();
    struct pawl_lock *mutex = scene_mutex(one, "m");
    struct pawl_part parts[] = {exclusive(mutex), exclusive(mutex)}, shared = {.lock = mutex, .mode = PAWL_SHARED};

    (void)state;
    assert_fails(PAWL_EINVAL, pawl_acquire_all(NULL, 0, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire_all(parts, 0, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_contains(error.text, "'m' is twice");
    assert_fails(PAWL_EDURATION, pawl_acquire_all(parts, 1, -1, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_all(&shared, 1, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_acquire_all_start(parts, 1, 0, NULL, NULL, &error), &error);
    parts[1].lock = NULL;
    assert_fails(PAWL_EINVAL, pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_release_all(NULL, 0, &error), &error);
    scene_expect("");
    scene_start(mutex, PAWL_EXCLUSIVE, PAWL_FOREVER, "m");
    assert_fails(PAWL_EBUSY, pawl_acquire_all(parts, 1, 0, &error), &error);
    start_all(&(struct pawl_part){.lock = scene_mutex(one, "n")}, 1, PAWL_FOREVER, "n");
    assert_fails(PAWL_EBUSY, pawl_acquire(scene.locks[1], 0, &error), &error);
}

int main(void) {
    const struct scene_test tests[] = {
        {SCENE_TEST(test_all_free)},
        {SCENE_TEST(test_one_is_held)},
        {SCENE_TEST(test_try)},
        {SCENE_TEST(test_opposite_orders)},
        {SCENE_TEST(test_time_out_in_the_middle)},
        {SCENE_TEST(test_lost_while_another_is_waited_for)},
        {SCENE_TEST(test_cancel)},
        {SCENE_TEST(test_free_and_close)},
        {SCENE_TEST(test_lost_reply)},
        {SCENE_TEST(test_by_right)},
        {SCENE_TEST(test_connection_drops)},
        {SCENE_TEST(test_two_clients)},
        {SCENE_TEST(test_too_many_together)},
        {SCENE_TEST(test_bad_input)},
    };

    return scene_main("transcript of sets", false, tests, sizeof tests / sizeof tests[0]);
}
