/* SPDX-License-Identifier: Apache-2.0
 *
 * test_transcript.c - the core on a virtual clock: every test plays a scene on the simulated engine and compares all that happened,
 * with its times, to the byte. Nothing here depends on the machine's speed.
 *
 * Lines are `client time what`: '>' is a call down the seam, '<' a word from the engine, the rest what the user's callbacks heard.
 */
#include "test.h"

#include "core.h"
#include "engine/sim.h"

#define MS INT64_C(1000000)

enum { CLIENTS = 3, LOCKS = 8 };

static struct scene {
    struct sim_server *server;
    struct pawl *clients[CLIENTS];
    size_t count;
    struct pawl_lock *locks[LOCKS];
    size_t lock_count;
    char text[16384];
    size_t used;
} scene;

static void say(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const char *who, const char *format, ...) {
    va_list args;

    scene.used += (size_t)snprintf(scene.text + scene.used, sizeof scene.text - scene.used, "%s ", who);
    va_start(args, format);
    scene.used += (size_t)vsnprintf(scene.text + scene.used, sizeof scene.text - scene.used, format, args);
    va_end(args);
    scene.used += (size_t)snprintf(scene.text + scene.used, sizeof scene.text - scene.used, "\n");
    assert_true(scene.used < sizeof scene.text - 1);
}

static void on_log(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    say(data, "%s", text);
}

static void clock_text(struct pawl *client, char *text, size_t size) {
    long long us = pawl__now(client->engine) / 1000;

    snprintf(text, size, "+%lld.%06llds", us / 1000000, us % 1000000);
}

static void on_acquired(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    char now[32];

    clock_text(lock->client, now, sizeof now);
    if (result == 0)
        say(data, "%s acquired, token %llu, assured for %lld ms", now, (unsigned long long)pawl_token(lock),
            (long long)pawl_remaining_ms(lock));
    else
        say(data, "%s %s", now, pawl_error_name(error->code));
}

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    char now[32];

    clock_text(lock->client, now, sizeof now);
    say(data, "%s %s, token %llu: %s", now, state == PAWL_LOST ? "LOST" : "suspect", (unsigned long long)token, why->text);
}

/* The names of the clients and of their tasks, in the transcript. */
static const char *const client_names[CLIENTS] = {"A", "B", "C"};

static int set_up(void **state) {
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.server = pawl__sim_server_new("scene", true);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < scene.lock_count; i++)
        pawl_lock_free(scene.locks[i]);
    for (size_t i = 0; i < scene.count; i++)
        pawl_close(scene.clients[i]);
    pawl__sim_server_free(scene.server);
    return 0;
}

static struct pawl *client(void) {
    struct pawl_options options = {
        .size = sizeof options,
        .flags = PAWL_OPEN_TRACE | PAWL_OPEN_LOSS_BY_DISPATCH,
        .log = on_log,
        .log_data = (void *)(uintptr_t)client_names[scene.count],
    };
    struct pawl_error error;

    assert_works(pawl_open("sim://scene?handoff=2,10", &options, &scene.clients[scene.count], &error), &error);
    return scene.clients[scene.count++];
}

static struct pawl_lock *mutex(struct pawl *of) {
    struct pawl_error error;

    assert_works(pawl_mutex_new(of, "m", PAWL_TASK, &scene.locks[scene.lock_count], &error), &error);
    return scene.locks[scene.lock_count++];
}

static struct pawl_lock *rwlock(struct pawl *of) {
    struct pawl_error error;

    assert_works(pawl_rwlock_new(of, "rw", PAWL_TASK, &scene.locks[scene.lock_count], &error), &error);
    return scene.locks[scene.lock_count++];
}

static void start(struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms, const char *who) {
    struct pawl_error error;

    assert_works(pawl_acquire_start(lock, mode, 1, timeout_ms, on_acquired, (void *)(uintptr_t)who, &error), &error);
}

static void release(struct pawl_lock *lock) {
    struct pawl_error error;

    assert_works(pawl_release(lock, &error), &error);
}

static void run(int64_t ms) {
    for (int64_t i = 0; i < ms; i++) { /* in steps, so that callbacks run in between, as a loop would have it */
        pawl__sim_run(scene.server, scene.clients, scene.count, MS);
        for (size_t c = 0; c < scene.count; c++)
            pawl_dispatch(scene.clients[c]);
    }
}

static void expect(const char *text) {
    if (strcmp(scene.text, text) != 0)
        fail_msg("the transcript is\n%s\nbut should be\n%s", scene.text, text);
    scene.used = 0;
    scene.text[0] = '\0';
}

static void listen(struct pawl_lock *lock, const char *who) {
    struct pawl_error error;

    assert_works(pawl_on_loss(lock, on_loss, (void *)(uintptr_t)who, &error), &error);
}

/* Two processes: the second is offered the lock when the first has let go. */
static void test_hand_over_between_clients(void **state) {
    struct pawl_lock *a = mutex(client()), *b = mutex(client());

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(5);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(5);
    release(a);
    run(10);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
    struct pawl *one = client();
    struct pawl_lock *a = mutex(one), *b = mutex(one), *c = mutex(one), *d = mutex(one);

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    start(c, PAWL_EXCLUSIVE, PAWL_FOREVER, "c");
    start(d, PAWL_EXCLUSIVE, PAWL_FOREVER, "d");
    run(4);
    release(a);
    run(1);
    release(b);
    run(1);
    release(c);
    run(6);
    release(d);
    run(5);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
    struct pawl *one = client(), *two = client();
    struct pawl_lock *a = mutex(one), *b = mutex(one), *x = mutex(two);

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    start(x, PAWL_EXCLUSIVE, PAWL_FOREVER, "x");
    run(20);
    release(a);
    run(10);
    release(x);
    run(10);
    release(b);
    run(5);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
    struct pawl *one = client();
    struct pawl_lock *r1 = rwlock(one), *r2 = rwlock(one), *w = rwlock(one), *r3 = rwlock(one);
    struct pawl_error error;

    (void)state;
    start(r1, PAWL_SHARED, PAWL_FOREVER, "r1");
    run(3);
    start(r2, PAWL_SHARED, PAWL_FOREVER, "r2");
    start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    start(r3, PAWL_SHARED, PAWL_FOREVER, "r3");
    run(5);
    assert_works(pawl_release_shared(r1, &error), &error);
    assert_works(pawl_release_shared(r2, &error), &error);
    run(8);
    release(w);
    run(8);
    expect("A +0.000000s 'rw' > submit: shared\n"
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
    struct pawl *one = client(), *two = client(), *three = client();
    struct pawl_lock *a = rwlock(one), *r = rwlock(two), *w = rwlock(three);
    struct pawl_error error;

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(r, PAWL_SHARED, PAWL_FOREVER, "r");
    run(3);
    start(w, PAWL_EXCLUSIVE, PAWL_FOREVER, "w");
    run(3);
    assert_works(pawl_downgrade(a, &error), &error);
    run(8);
    assert_int_equal(pawl_token(a), 128);
    assert_works(pawl_release_shared(a, &error), &error);
    run(3);
    assert_works(pawl_release_shared(r, &error), &error);
    run(8);
    expect("A +0.000000s 'rw' > submit: exclusive\n"
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
    struct pawl_lock *a = mutex(client());

    (void)state;
    pawl__sim_drop_replies(scene.clients[0], 1);
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(205);
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    pawl__sim_drop_replies(scene.clients[0], 1);
    release(a);
    run(205);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "A +0.202000s 'm' < granted, token 128\n"
           "a +0.202000s acquired, token 128, assured for 2966 ms\n"
           "A +0.205000s 'm' > withdraw (token 128)\n"
           "A +0.407000s 'm' < settled\n");
}

/* Everything comes twice, and nothing happens twice. */
static void test_duplicates(void **state) {
    struct pawl_lock *a = mutex(client()), *b = mutex(client());

    (void)state;
    pawl__sim_duplicate(scene.clients[0], true);
    pawl__sim_duplicate(scene.clients[1], true);
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(3);
    release(a);
    run(6);
    release(b);
    run(6);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
    struct pawl_lock *a = mutex(client()), *b = mutex(client());
    struct pawl_error error;

    (void)state;
    listen(a, "a");
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(10);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(1100);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    pawl__sim_cut(scene.clients[0], true);
    run(2300 - 400);
    assert_int_equal(pawl_state(a), PAWL_SUSPECT);
    run(1000);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(a), 0);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    pawl__sim_cut(scene.clients[0], false);
    run(400);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
           "a +3.968000s LOST, token 128: the lease of 'm' ran out: it could not be renewed in time\n"
           "B +4.004000s 'm' < granted, token 256\n"
           "b +4.004000s acquired, token 256, assured for 2966 ms\n"
           "A +4.170000s 'm' < settled\n");
    assert_int_equal(pawl__sim_entries(scene.server), 1); /* b's: what a gave up was withdrawn when the link was back */
}

/* A lease of 3 s, and a hold of 4.5 s at most: renewed at 1 s and at 2 s, which is as far as it may go; never suspect. The next has a
 * limit of 2 s: its lease is not renewed at all. */
static void test_max_hold(void **state) {
    struct pawl_lock *a = mutex(client()), *b = mutex(client());
    struct pawl_error error;

    (void)state;
    listen(a, "a");
    listen(b, "b");
    assert_works(pawl_set_max_hold(a, 4500, &error), &error);
    assert_works(pawl_set_max_hold(b, 2000, &error), &error);
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(10);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(4400);
    assert_int_equal(pawl_state(a), PAWL_HELD);
    run(200);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    run(2000);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
           "a +4.500000s LOST, token 128: 'm' was held for 4500 ms, as long as its max-hold allows\n"
           "A +4.502000s 'm' < settled\n"
           "B +4.504000s 'm' < granted, token 256\n"
           "b +4.504000s acquired, token 256, assured for 1998 ms\n"
           "B +6.502000s 'm' > withdraw (token 256)\n"
           "b +6.502000s LOST, token 256: 'm' was held for 2000 ms, as long as its max-hold allows\n"
           "B +6.504000s 'm' < settled\n");
    assert_int_equal(pawl__sim_entries(scene.server), 0);
}

/* A renewal whose answer takes longer than the lease does not revive what was lost. */
static void test_late_renewal_revives_nothing(void **state) {
    struct pawl_lock *a = mutex(client());
    struct pawl_error error;

    (void)state;
    listen(a, "a");
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(999);
    pawl__sim_delay(scene.clients[0], 1500 * MS);
    run(2500);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_acquire(a, 0, &error), &error); /* release it first */
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(a, &error), &error);
    pawl__sim_delay(scene.clients[0], MS);
    run(3000);
    assert_int_equal(pawl__sim_entries(scene.server), 0);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "A +0.002000s 'm' < granted, token 128\n"
           "a +0.002000s acquired, token 128, assured for 2966 ms\n"
           "A +1.000000s 'm' > renew\n"
           "a +2.000000s suspect, token 128: the lease of 'm' was not renewed for two thirds of its time\n"
           "A +2.968000s 'm' > withdraw (token 128)\n"
           "a +2.968000s LOST, token 128: the lease of 'm' ran out: it could not be renewed in time\n"
           "A +3.570000s 'm' < settled\n");
}

/* The server forgets the claim (FLUSHALL, expired session): told at the next renewal, at the latest. */
static void test_forgotten_by_the_server(void **state) {
    struct pawl_lock *a = mutex(client());
    struct pawl_error error;

    (void)state;
    listen(a, "a");
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(10);
    pawl__sim_forget(scene.clients[0]);
    run(1000);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "A +0.002000s 'm' < granted, token 128\n"
           "a +0.002000s acquired, token 128, assured for 2966 ms\n"
           "A +1.000000s 'm' > renew\n"
           "A +1.002000s 'm' < lost: the server has forgotten the claim\n"
           "A +1.002000s 'm' > withdraw (token 128)\n"
           "a +1.002000s LOST, token 128: the server has forgotten the claim\n"
           "A +1.004000s 'm' < settled\n");
}

/* Deadlines of asynchronous acquires: exactly one answer each, and no claim stays behind. */
static void test_timeout_cancel_and_try(void **state) {
    struct pawl *one = client(), *two = client();
    struct pawl_lock *a = mutex(one), *late = mutex(two), *cancelled = mutex(two), *tries = mutex(two);

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(late, PAWL_EXCLUSIVE, 5, "late");
    run(1);
    start(cancelled, PAWL_EXCLUSIVE, PAWL_FOREVER, "cancelled");
    run(9);
    assert_int_equal(pawl_cancel(cancelled), 1);
    assert_int_equal(pawl_cancel(cancelled), 0);
    run(5);
    start(tries, PAWL_EXCLUSIVE, 0, "tries");
    run(3);
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    expect("A +0.000000s 'm' > submit: exclusive\n"
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
    struct pawl *one = client();
    struct pawl_lock *timed = mutex(one), *tries = mutex(one), *forever = mutex(one);

    (void)state;
    pawl__sim_cut(one, true);
    start(forever, PAWL_EXCLUSIVE, PAWL_FOREVER, "forever");
    start(timed, PAWL_EXCLUSIVE, 20, "timed");
    run(30);
    start(tries, PAWL_EXCLUSIVE, 0, "tries");
    run(10);
    pawl__sim_cut(one, false);
    run(200);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "timed +0.020000s PAWL_ECONNLOST\n"
           "tries +0.031000s PAWL_EHELD\n"
           "A +0.202000s 'm' < granted, token 128\n"
           "forever +0.202000s acquired, token 128, assured for 2966 ms\n");
}

/* Broken by an operator: told, still in the way, free when the holder has let go. */
static void test_break(void **state) {
    struct pawl *one = client(), *two = client();
    struct pawl_lock *a = mutex(one), *b = mutex(two);
    struct pawl_error error;

    (void)state;
    listen(a, "a");
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(3);
    assert_fails(PAWL_ETOKEN, pawl_break(two, "m", 7, 0, &error), &error);
    assert_works(pawl_break(two, "m", pawl_token(a), 0, &error), &error);
    run(5);
    assert_int_equal(pawl_state(a), PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(a, &error), &error);
    run(6);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "A +0.002000s 'm' < granted, token 128\n"
           "a +0.002000s acquired, token 128, assured for 2966 ms\n"
           "B +0.003000s 'm' > submit: exclusive\n"
           "B +0.003000s 'm' < pending\n"
           "A +0.007000s 'm' < lost: broken\n"
           "a +0.007000s LOST, token 128: broken\n"
           "A +0.011000s 'm' > withdraw (token 128)\n"
           "A +0.013000s 'm' < settled\n"
           "B +0.015000s 'm' < granted, token 256\n"
           "b +0.015000s acquired, token 256, assured for 2966 ms\n");
}

/* The last one takes the handle away while its acquire is pending. */
static void test_free_while_pending(void **state) {
    struct pawl *one = client(), *two = client();
    struct pawl_lock *a = mutex(one), *b = mutex(two);

    (void)state;
    start(a, PAWL_EXCLUSIVE, PAWL_FOREVER, "a");
    run(3);
    start(b, PAWL_EXCLUSIVE, PAWL_FOREVER, "b");
    run(3);
    scene.lock_count--;
    pawl_lock_free(b);
    run(3);
    assert_int_equal(pawl__sim_entries(scene.server), 1);
    expect("A +0.000000s 'm' > submit: exclusive\n"
           "A +0.000000s 'm' < pending\n"
           "A +0.002000s 'm' < granted, token 128\n"
           "a +0.002000s acquired, token 128, assured for 2966 ms\n"
           "B +0.003000s 'm' > submit: exclusive\n"
           "B +0.003000s 'm' < pending\n"
           "B +0.006000s 'm' > withdraw (token 0)\n"
           "b +0.007000s PAWL_ECANCELED\n"
           "B +0.008000s 'm' < settled\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_hand_over_between_clients),
        TEST(test_local_hand_off_within_its_bound),
        TEST(test_local_hand_off_ends_in_time),
        TEST(test_readers_do_not_overtake_a_writer),
        TEST(test_downgrade),
        TEST(test_lost_reply_to_submit),
        TEST(test_duplicates),
        TEST(test_renewed_suspect_lost),
        TEST(test_max_hold),
        TEST(test_late_renewal_revives_nothing),
        TEST(test_forgotten_by_the_server),
        TEST(test_timeout_cancel_and_try),
        TEST(test_connection_drops),
        TEST(test_break),
        TEST(test_free_while_pending),
    };

    return cmocka_run_group_tests_name("transcript", tests, NULL, NULL);
}
