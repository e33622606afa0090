/* SPDX-License-Identifier: Apache-2.0
 *
 * test_keep.c - claims that are kept: every cell of the table in keep.c, on the engine of keep_fake.h. R1 and so on are the races that
 * the rules settle.
 */
#include "../support/keep_fake.h"

/* ---- Entered again -------------------------------------------------------------------------------------------------------- */

static void test_a_kept_pair_asks_nobody(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    assert_asked("sk");
    for (int i = 0; i < 1000; i++)
        use(lock);
    assert_null(strpbrk(fake.asked, "swd"));
    assert_int_equal(fake.length, 2000);
    assert_int_equal(last_claim(lock)->tokens.stock, TOKENS - 1); /* nobody asked for more than the first */
    pawl_lock_free(lock);
}

static void test_tokens_rise_and_are_never_zero(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);
    uint64_t last = 0, token;

    (void)state;
    for (int i = 0; i < 3 * TOKENS; i++) {
        acquire(lock);
        if (i % 3) { /* some never ask */
            token = pawl_token(lock);
            assert_true(token > last);
            assert_true(pawl_token(lock) == token);
            last = token;
        }
        release(lock);
    }
    assert_true(last <= fake.token);
    pawl_lock_free(lock);
}

/* Every token of the claim was drawn: it is given back, and asked for anew. */
static void test_no_token_left(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    fake.tokens = 2;
    acquire(lock);
    release(lock);
    acquire(lock);
    assert_true(pawl_token(lock) == 2);
    release(lock);
    assert_asked("sktw");
    acquire(lock);
    assert_true(pawl_token(lock) == 3);
    release(lock);
    assert_asked("sk");
    pawl_lock_free(lock);
}

static void test_a_try_enters(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    release(lock);
    assert_asked("sktk");
    pawl_lock_free(lock);
}

static void test_an_asynchronous_acquire_enters(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK);

    (void)state;
    use(lock);
    outcomes = 0;
    assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_int_equal(pawl_dispatch(client), 1);
    assert_int_equal(outcomes, 1);
    release(lock);
    assert_asked("sktk");
    pawl_lock_free(lock);
}

static void test_readers_enter(void **state) {
    struct pawl_lock *lock = rwlock("lock"), *other = rwlock("lock");

    (void)state;
    share(lock);
    assert_works(pawl_acquire_shared(lock, 0, &error), &error);
    assert_works(pawl_acquire_shared(other, 0, &error), &error);
    assert_true(pawl_token(lock) && pawl_token(other) && pawl_token(lock) != pawl_token(other));
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_false(is_kept(lock));
    assert_works(pawl_release_shared(other, &error), &error);
    assert_asked("sktk");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A handle for each use: the cohort outlives them. */
static void test_a_handle_per_use(void **state) {
    struct pawl_lock *lock;

    (void)state;
    for (int i = 0; i < 3; i++) {
        lock = mutex("lock", 0);
        use(lock);
        pawl_lock_free(lock);
    }
    assert_asked("sktktk");
}

static void test_a_downgrade_is_kept_as_a_reader(void **state) {
    struct pawl_lock *lock = rwlock("lock"), *other = rwlock("lock");
    uint64_t reader;

    (void)state;
    use(lock);
    acquire(lock); /* its token is not asked for until others are in */
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_works(pawl_acquire_shared(other, 0, &error), &error);
    reader = pawl_token(other);
    assert_true(pawl_token(lock) < reader);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_works(pawl_release_shared(other, &error), &error);
    assert_true(is_kept(lock));
    share(lock);
    assert_asked("sktdktk");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* ---- Given back ----------------------------------------------------------------------------------------------------------- */

/* R1, recall first: the acquire is a claim behind the one who wants it. */
static void test_wanted_while_kept(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    tell(lock, NEWS_WANTED);
    assert_asked("skw");
    assert_null(last_claim(lock));
    acquire(lock);
    assert_asked("s");
    release(lock);
    pawl_lock_free(lock);
}

/* R1, acquire first; R3, told twice. */
static void test_wanted_while_used(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    acquire(lock);
    tell(lock, NEWS_WANTED);
    tell(lock, NEWS_WANTED);
    assert_asked("skt");
    release(lock);
    assert_asked("w");
    pawl_lock_free(lock);
}

/* R2: the recall overtakes the grant. */
static void test_wanted_before_the_grant(void **state) {
    struct pawl_lock *lock = mutex("lock", PAWL_TASK);

    (void)state;
    fake.queues = true;
    outcomes = 0;
    assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    tell(lock, NEWS_WANTED);
    fill(fake.last);
    tell(lock, NEWS_GRANTED);
    pawl_dispatch(client);
    assert_int_equal(outcomes, 1);
    release(lock);
    assert_asked("sw");
    pawl_lock_free(lock);
}

/* R4: others wait already when it is granted. */
static void test_the_grant_says_wanted(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    fake.wanted = true;
    use(lock);
    assert_asked("sw");
    fake.wanted = false;
    use(lock); /* what the last claim was told is not the next one's */
    assert_asked("sk");
    pawl_lock_free(lock);
}

static void test_the_engine_refuses(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    fake.rest_fails = true;
    use(lock);
    assert_asked("sKw");
    fake.rest_fails = false;
    use(lock);
    fake.resume_fails = true; /* R9: it could not hear whether others want it */
    acquire(lock);
    assert_asked("skTws");
    release(lock);
    pawl_lock_free(lock);
}

/* R12, R17: it is withdrawn before another is asked for, so no claim waits for one of its own process. */
static void test_other_mode(void **state) {
    struct pawl_lock *lock = rwlock("lock");

    (void)state;
    share(lock);
    use(lock);
    share(lock);
    assert_asked("skwskwsk");
    pawl_lock_free(lock);
}

/* R16 */
static void test_max_hold(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *limited = mutex("lock", 0);

    (void)state;
    assert_works(pawl_set_max_hold(limited, 1000, &error), &error);
    use(lock);
    use(limited);
    assert_asked("skwsw");
    pawl_lock_free(lock);
    pawl_lock_free(limited);
}

static void test_another_kind(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *other = rwlock("lock"), *strict = mutex("lock", PAWL_NONREENTRANT);

    (void)state;
    use(lock);
    use(other);
    use(strict);
    assert_asked("skwskwsk");
    use(lock);
    outcomes = 0;
    assert_works(pawl_acquire_start(other, PAWL_SHARED, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_asked("wskws");
    pawl_dispatch(client);
    assert_works(pawl_release_shared(other, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(strict);
}

static void test_a_handle_that_does_not_keep(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *other = mutex("lock", 0);

    (void)state;
    assert_works(pawl_set_keep(other, 0, &error), &error);
    use(other);
    assert_asked("sw");
    use(lock);
    acquire(other); /* it enters what is there, and its release gives back */
    release(other);
    assert_asked("sktw");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Beyond so many a lock is released as ever; and kept again, when fewer are. */
static void test_no_more_than_the_limit(void **state) {
    struct pawl_lock *last = mutex("last", 0), *beyond = mutex("beyond", 0);

    (void)state;
    atomic_store(&client->keeping, PAWL__KEEPS_MAX - 1);
    use(last);
    use(last);
    assert_asked("sktk");
    use(beyond);
    use(beyond);
    assert_asked("swsw");
    assert_works(pawl_set_keep(last, 0, &error), &error);
    use(beyond);
    assert_asked("wsk");
    use(last);
    assert_asked("sw");
    assert_int_equal(client->keeping, PAWL__KEEPS_MAX);
    pawl_lock_free(last);
    pawl_lock_free(beyond);
    close_fake();
}

/* Each has said that it goes, and the one that comes first is the one that held. */
static void test_the_last_handles_go_at_once(void **state) {
    struct pawl_lock *one, *two;

    (void)state;
    client->options.keep_ns = PAWL__NEVER;
    one = mutex("lock", 0), two = mutex("lock", 0);
    for (int i = 0; i < 9; i++)
        use(one);
    acquire(one);
    assert_asked("swswswswswswswswskt");
    atomic_fetch_sub(&one->cohort->users, 1);
    pawl_lock_free(one);
    assert_asked("kw");
    atomic_fetch_add(&two->cohort->users, 1);
    pawl_lock_free(two);
    assert_asked("");
}

static void test_set_keep(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *semaphore = NULL;

    (void)state;
    use(lock);
    assert_works(pawl_set_keep(lock, 0, &error), &error);
    assert_asked("skw");
    assert_works(pawl_set_keep(lock, 5, &error), &error);
    use(lock);
    assert_true(last_claim(lock)->seam.keep_ns == 5000000);
    assert_int_equal(pawl_set_keep(NULL, 1, &error), PAWL_EINVAL);
    assert_int_equal(pawl_set_keep(lock, -1, &error), PAWL_EDURATION);
    assert_int_equal(pawl_set_keep(lock, PAWL_KEEP_MS_MAX + 1, &error), PAWL_EDURATION);
    assert_works(pawl_semaphore_new(client, "permits", 2, 0, &semaphore, &error), &error);
    assert_int_equal(pawl_set_keep(semaphore, 1, &error), PAWL_EKIND);
    assert_works(pawl_set_keep(semaphore, 0, &error), &error);
    fake.length = 0;
    use(semaphore);
    assert_asked("sw");
    client->options.handoffs = 0;
    assert_int_equal(pawl_set_keep(lock, 1, &error), PAWL_EOPTION);
    pawl_lock_free(lock);
    pawl_lock_free(semaphore);
}

/* R8 */
static void test_close(void **state) {
    struct pawl_lock *lock = mutex("lock", 0), *used = mutex("used", 0);

    (void)state;
    use(lock);
    acquire(used);
    close_fake();
    assert_asked("sksww");
    pawl_lock_free(lock);
    pawl_lock_free(used);
}

/* ---- Lost ----------------------------------------------------------------------------------------------------------------- */

/* R6, R14: nobody is told. */
static void test_lost_or_broken_while_kept(void **state) {
    static const enum pawl__news news[] = {NEWS_LOST, NEWS_BROKEN};
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    losses = 0;
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    for (size_t i = 0; i < 2; i++) {
        use(lock);
        tell(lock, news[i]);
        assert_asked("skw");
        assert_null(last_claim(lock));
    }
    use(lock);
    assert_asked("sk");
    pawl__events_serve(client);
    assert_int_equal(losses, 0);
    pawl_lock_free(lock);
}

/* The thread that parks for the grant is told of it after the service thread heard of the loss: it holds, and is told. */
static void test_lost_or_broken_before_the_grant(void **state) {
    static const enum pawl__news news[] = {NEWS_LOST, NEWS_BROKEN};
    struct pawl_lock *lock = mutex("lock", PAWL_TASK);

    (void)state;
    fake.queues = true;
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    for (size_t i = 0; i < 2; i++) {
        losses = outcomes = 0;
        assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
        tell(lock, news[i]);
        assert_asked("s");
        fill(fake.last);
        tell(lock, NEWS_GRANTED);
        pawl_dispatch(client);
        pawl__events_serve(client);
        assert_int_equal(outcomes, 1);
        assert_int_equal(losses, 1);
        assert_int_equal(pawl_state(lock), PAWL_LOST);
        assert_asked(news[i] == NEWS_LOST ? "w" : ""); /* what was broken is in the way until it is released */
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
        assert_asked(news[i] == NEWS_LOST ? "" : "w");
    }
    pawl_lock_free(lock);
}

static void test_broken_while_used(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    acquire(lock);
    tell(lock, NEWS_BROKEN);
    assert_asked("skt"); /* it is in the way until its holder lets go */
    assert_int_equal(pawl_release(lock, &error), PAWL_ELOST);
    assert_asked("w");
    pawl_lock_free(lock);
}

/* The server was heard to say that it is not held, and has yet to be asked: such a claim is not kept, and its release says so. */
static void test_denied_while_used(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    for (int confirmed = 0; confirmed < 2; confirmed++) {
        acquire(lock);
        pthread_mutex_lock(&lock->cohort->mutex);
        pawl__claim_ask(last_claim(lock));
        pthread_mutex_unlock(&lock->cohort->mutex);
        if (confirmed) {
            last_claim(lock)->seam.sent_at = pawl__boottime();
            tell(lock, NEWS_RENEWED);
        }
        assert_int_equal(pawl_release(lock, &error), confirmed ? 0 : PAWL_ELOST);
        assert_asked(confirmed ? "sk" : "sw");
    }
    pawl_lock_free(lock);
}

/* The token of a hold that is lost can still be asked for. */
static void test_token_after_a_loss(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    acquire(lock);
    tell(lock, NEWS_LOST);
    assert_true(pawl_token(lock) == 2);
    assert_int_equal(pawl_release(lock, &error), PAWL_ELOST);
    assert_asked("sktw");
    pawl_lock_free(lock);
}

/* R5: everything stood still, and the caller wakes before the service thread. */
static void test_expired_while_kept(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    use(lock);
    last_claim(lock)->lease.suspect_at = 1;
    last_claim(lock)->lease.assured_until = 2;
    acquire(lock);
    assert_asked("skws");
    release(lock);
    assert_asked("k");
    last_claim(lock)->lease.assured_until = 2; /* ... or the service thread does */
    tick(lock, pawl__boottime());
    assert_asked("w");
    pawl_lock_free(lock);
}

/* R15: not renewed as it should be. It is not entered, nor kept, and nobody is told. */
static void test_suspect(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    losses = 0;
    assert_works(pawl_on_loss(lock, count_loss, NULL, &error), &error);
    use(lock);
    last_claim(lock)->lease.suspect_at = pawl__boottime();
    tick(lock, pawl__boottime());
    pawl__events_serve(client);
    assert_int_equal(losses, 0);
    assert_asked("sk");
    acquire(lock);
    assert_asked("ws");
    last_claim(lock)->lease.suspect = true;
    release(lock);
    assert_asked("w");
    pawl_lock_free(lock);
}

/* R7 */
static void test_renewed_while_kept(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);
    int64_t before;

    (void)state;
    use(lock);
    before = last_claim(lock)->lease.assured_until;
    last_claim(lock)->seam.sent_at += 1000;
    tell(lock, NEWS_RENEWED);
    assert_true(last_claim(lock)->lease.assured_until == before + 1000);
    assert_true(is_kept(lock));
    use(lock);
    assert_asked("sktk");
    pawl_lock_free(lock);
}

/* ---- Idle time ------------------------------------------------------------------------------------------------------------ */

static void test_idle(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);
    int64_t keep = KEEP_MS * INT64_C(1000000), began, due;

    (void)state;
    use(lock);
    began = last_claim(lock)->keeping.idle_since;
    assert_true(began > 0);
    due = tick(lock, began + keep / 2);
    assert_true(due > began + keep && due <= began + keep + keep / 4);
    use(lock); /* once in its time is enough */
    assert_asked("sktk");
    tick(lock, due);
    assert_true(is_kept(lock));
    assert_true(tick(lock, due + keep / 2) <= due + keep + keep / 4);
    acquire(lock);
    tick(lock, due + 10 * keep - LEASE_NS); /* in use it is never idle */
    release(lock);
    assert_true(is_kept(lock));
    assert_asked("tk");
    began = last_claim(lock)->keeping.idle_since;
    tick(lock, began + keep - 1);
    assert_true(is_kept(lock));
    tick(lock, began + 2 * keep);
    assert_asked("w");
    pawl_lock_free(lock);
}

/* Those that are kept for the same time are looked at together, however many there are. */
static void test_idle_in_few_rounds(void **state) {
    struct pawl_lock *lock = mutex("lock", 0);
    int64_t rounds[64] = {0};
    size_t count = 0;

    (void)state;
    use(lock);
    for (int i = 0; i < 1000; i++) {
        int64_t due;

        last_claim(lock)->keeping.idle_since = 1 + i * INT64_C(1000000);
        due = tick(lock, last_claim(lock)->keeping.idle_since);
        for (size_t n = 0; n < count; n++)
            due = rounds[n] == due ? 0 : due;
        if (due)
            rounds[count++] = due;
    }
    assert_true(count <= 10);
    pawl_lock_free(lock);
}

/* ---- Learning ------------------------------------------------------------------------------------------------------------- */

/* How many claims are not kept before one is again. */
static int rests(struct pawl_lock *lock) {
    int count = 0;

    for (use(lock); !is_kept(lock); use(lock))
        count++;
    return count;
}

static void test_learning(void **state) {
    static const int expected[] = {0, 1, 3, 7, 15, 31, 63, 63, 63};
    struct pawl_lock *lock = mutex("lock", 0);

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(rests(lock), expected[i]);
        tell(lock, NEWS_WANTED); /* before it was entered again */
    }
    assert_int_equal(rests(lock), 63);
    use(lock);
    tell(lock, NEWS_WANTED); /* it was of use */
    assert_int_equal(rests(lock), 0);
    tell(lock, NEWS_WANTED);
    assert_int_equal(rests(lock), 1);
    fake.resume_fails = true; /* it was taken away */
    use(lock);
    fake.resume_fails = false;
    assert_int_equal(rests(lock), 2);
    tell(lock, NEWS_LOST); /* that teaches nothing */
    assert_int_equal(rests(lock), 0);
    pawl_lock_free(lock);
}

/* ---- Bounds --------------------------------------------------------------------------------------------------------------- */

/* Before it is wanted, a claim is handed on without end; then as often as it may be. */
static void test_bounds_count_from_wanted(void **state) {
    enum { QUEUE = 20, PASSED = 5, MOST = 3 };

    (void)state;
    client->options.handoffs = MOST;
    client->options.handoff_ns = 60 * INT64_C(1000000000);
    queue_up(QUEUE);
    for (int i = 0; i < PASSED; i++)
        release(tasks[i]);
    assert_asked("s");
    tell(tasks[0], NEWS_WANTED);
    for (int i = 0; i < MOST; i++)
        release(tasks[PASSED + i]);
    assert_asked("");
    release(tasks[PASSED + MOST]); /* the rest queue anew, behind the one who waits */
    assert_asked("sw");
    for (int i = PASSED + MOST + 1; i < QUEUE; i++)
        release(tasks[i]);
    assert_asked("k");
    pawl_dispatch(client);
    free_tasks(QUEUE);
}

/* When it is wanted nobody joins who could not be served. */
static void test_wanted_with_a_queue(void **state) {
    enum { QUEUE = 5, MOST = 3 };

    (void)state;
    client->options.handoffs = MOST;
    client->options.handoff_ns = 60 * INT64_C(1000000000);
    queue_up(QUEUE);
    tell(tasks[0], NEWS_WANTED);
    tasks[QUEUE] = mutex("lock", PAWL_TASK);
    assert_works(pawl_acquire_start(tasks[QUEUE], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_asked("ss");
    pawl_dispatch(client);
    free_tasks(QUEUE + 1);
}

static bool looks_while_granted(const struct pawl__engine *engine, const struct pawl__claim *seam) {
    enum claim_state state = claim_of((struct pawl__claim *)(uintptr_t)seam)->state;

    (void)engine;
    assert_true(state == CLAIM_HELD || state == CLAIM_OPEN);
    note('?');
    return false;
}

/* Where holders see for themselves whether they are wanted: what is pending may have no entry any more, which a thread that parks knows. */
static void test_pending_is_not_looked_at(void **state) {
    static const struct pawl__keeping keeping = {.rest = fake_rest, .resume = fake_resume, .is_wanted = looks_while_granted};
    struct pawl__engine_impl impl = fake_impl;

    (void)state;
    impl.keeping = &keeping;
    client->engine->impl = &impl;
    outcomes = 0;
    fake.queues = true;
    queue_up(2);
    assert_asked("s");
    fill(fake.last);
    tell(tasks[0], NEWS_GRANTED);
    release(tasks[0]);
    release(tasks[1]);
    assert_asked("?k");
    free_tasks(2);
    assert_int_equal(outcomes, 2);
    client->engine->impl = &fake_impl;
}

/* ---- Sets ----------------------------------------------------------------------------------------------------------------- */

/* R11 */
static void test_sets(void **state) {
    struct pawl_lock *a = mutex("a", 0), *b = mutex("b", 0), *c = mutex("c", 0), *d = mutex("d", 0);
    struct pawl_part all[] = {{b, PAWL_EXCLUSIVE, 0}, {a, PAWL_EXCLUSIVE, 0}, {c, PAWL_EXCLUSIVE, 0}, {d, PAWL_EXCLUSIVE, 0}};

    (void)state;
    use(a);
    use(b);
    assert_asked("sksk");
    assert_works(pawl_acquire_all(all, 2, PAWL_FOREVER, &error), &error);
    assert_asked("tt");
    assert_works(pawl_release_all(all, 2, &error), &error);
    assert_asked("kk");
    assert_works(pawl_acquire_all(all, 4, PAWL_FOREVER, &error), &error);
    assert_asked("ttss");
    assert_true(pawl_token(a) && pawl_token(d));
    tell(b, NEWS_WANTED);
    assert_works(pawl_release_all(all, 4, &error), &error);
    assert_asked("kkkw");
    pawl_lock_free(a);
    pawl_lock_free(b);
    pawl_lock_free(c);
    pawl_lock_free(d);
}

/* A server that has lost a hold may have let others in, who keep it: they are withdrawn for those who wait for what is lost now. */
static void test_lost_before_one_that_is_kept(void **state) {
    struct pawl_lock *first = rwlock("lock"), *writer = rwlock("lock"), *next = rwlock("lock"), *reader = rwlock("lock");

    (void)state;
    outcomes = 0;
    assert_works(pawl_acquire_shared(first, PAWL_FOREVER, &error), &error);
    acquire(writer);
    assert_works(pawl_acquire_start(next, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    assert_works(pawl_acquire_shared(reader, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release_shared(first, &error), &error); /* its memory is kept for the next claim, that of another is not */
    assert_works(pawl_release_shared(reader, &error), &error);
    assert_true(is_kept(reader));
    tick(writer, pawl__boottime() + LEASE_NS);
    assert_int_equal(pawl_dispatch(client), 1);
    assert_int_equal(outcomes, 1);
    release(next);
    assert_int_equal(pawl_release(writer, &error), PAWL_ELOST);
    pawl_lock_free(first);
    pawl_lock_free(writer);
    pawl_lock_free(next);
    pawl_lock_free(reader);
}

int main(void) {
#define KEEP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        KEEP_TEST(test_a_kept_pair_asks_nobody),
        KEEP_TEST(test_lost_before_one_that_is_kept),
        KEEP_TEST(test_tokens_rise_and_are_never_zero),
        KEEP_TEST(test_no_token_left),
        KEEP_TEST(test_a_try_enters),
        KEEP_TEST(test_an_asynchronous_acquire_enters),
        KEEP_TEST(test_readers_enter),
        KEEP_TEST(test_a_handle_per_use),
        KEEP_TEST(test_a_downgrade_is_kept_as_a_reader),
        KEEP_TEST(test_wanted_while_kept),
        KEEP_TEST(test_wanted_while_used),
        KEEP_TEST(test_wanted_before_the_grant),
        KEEP_TEST(test_the_grant_says_wanted),
        KEEP_TEST(test_the_engine_refuses),
        KEEP_TEST(test_other_mode),
        KEEP_TEST(test_max_hold),
        KEEP_TEST(test_another_kind),
        KEEP_TEST(test_a_handle_that_does_not_keep),
        KEEP_TEST(test_no_more_than_the_limit),
        KEEP_TEST(test_the_last_handles_go_at_once),
        KEEP_TEST(test_set_keep),
        KEEP_TEST(test_close),
        KEEP_TEST(test_lost_or_broken_while_kept),
        KEEP_TEST(test_lost_or_broken_before_the_grant),
        KEEP_TEST(test_broken_while_used),
        KEEP_TEST(test_denied_while_used),
        KEEP_TEST(test_token_after_a_loss),
        KEEP_TEST(test_expired_while_kept),
        KEEP_TEST(test_suspect),
        KEEP_TEST(test_renewed_while_kept),
        KEEP_TEST(test_idle),
        KEEP_TEST(test_idle_in_few_rounds),
        KEEP_TEST(test_learning),
        KEEP_TEST(test_bounds_count_from_wanted),
        KEEP_TEST(test_wanted_with_a_queue),
        KEEP_TEST(test_pending_is_not_looked_at),
        KEEP_TEST(test_sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
