/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_keep_kinds.c - locks that are kept, and who wants them otherwise than one mutex wants another: readers and writers, tries,
 * sets, and locks of another kind.
 */
#include <poll.h>

#include "../support/zookeeper_keep.h"

/* ---- Readers --------------------------------------------------------------------------------------------------------------- */

static void test_readers_keep_beside_each_other(void **state) {
    struct pawl *others[3];
    struct pawl_lock *locks[3];

    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    read_once(kept);
    await_listens(keeper);
    for (int i = 0; i < 3; i++) {
        others[i] = open_direct(KEEPS);
        locks[i] = new_rwlock(others[i], 0);
        read_once(locks[i]);
        await_listens(others[i]);
    }
    await_nodes("", 4); /* nobody had to go */
    await_listens(keeper);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
    for (int i = 0; i < 3; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(others[i]);
    }
}

/* Each reader that comes and goes fires the watch. It is set again at most every 10 ms. */
static void test_readers_look_now_and_then(void **state) {
    int64_t began;
    uint64_t before;

    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    read_once(kept);
    await_listens(keeper);
    before = requests(keeper);
    began = pawl__boottime();
    for (int i = 0; i < 100; i++)
        read_once(wants);
    assert_true(requests(keeper) - before <= 2 + (uint64_t)((pawl__boottime() - began) / (10 * ZK_MS)));
    await_listens(keeper);
    read_once(kept);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
}

static void test_a_writer_that_is_kept_gives_way_to_a_reader(void **state) {
    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    use(kept);
    await_listens(keeper);
    acquire_start(&waiter, wants, true, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_works(pawl_release_shared(wants, &error), &error);
    await_nodes("", 0);
}

/* After a downgrade it is a reader's claim, and is marked as before. */
static void test_kept_after_a_downgrade(void **state) {
    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    use(kept);
    await_listens(keeper);
    acquire(kept);
    assert_works(pawl_downgrade(kept, &error), &error);
    await_listens(keeper); /* it lasts: one that is given up before the server has answered is not kept */
    assert_works(pawl_release_shared(kept, &error), &error);
    await_listens(keeper);
    assert_non_null(strstr(await_nodes("", 1).names[0], KEPT_GUID));
    read_once(wants);
    await_listens(keeper);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
}

/* ---- Tries, sets, other kinds ---------------------------------------------------------------------------------------------- */

static void test_a_try_gets_what_nobody_holds(void **state) {
    (void)state;
    keep_mutex();
    assert_works(pawl_acquire(wants, 0, &error), &error);
    release(wants);
    await_nodes("", 0);
}

static void test_a_try_waits_no_longer_than_a_recall_takes(void **state) {
    int64_t began;

    (void)state;
    keep_mutex();
    acquire(kept);
    began = pawl__boottime();
    assert_fails(PAWL_EHELD, pawl_acquire(wants, 0, &error), &error);
    assert_true(pawl__boottime() - began < 2 * ZK_S);
    release(kept); /* it was asked for: so it is not kept now */
    await_nodes("", 0);
}

static void test_a_try_gets_what_readers_keep(void **state) {
    struct pawl *other = open_direct(KEEPS);
    struct pawl_lock *lock = new_rwlock(other, 0);

    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    read_once(kept);
    read_once(lock);
    await_nodes("", 2);
    assert_works(pawl_acquire(wants, 0, &error), &error);
    release(wants);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_close(other);
}

/* The connection goes while a try waits for the keeper: it ends all the same. */
static void test_a_try_that_is_cut_off(void **state) {
    int rc;

    (void)state;
    pawl_close(rival);
    rival = open_proxied("");
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    acquire(kept);
    strike_at(OP_GET, true, PROXY_CUT_BEFORE);
    rc = pawl_acquire(wants, 0, &error);
    assert_true(rc == PAWL_EHELD || rc == PAWL_ECONNLOST);
    release(kept);
}

static void test_a_set_gets_what_is_kept(void **state) {
    struct pawl_part parts[2] = {{0}, {0}};

    (void)state;
    keep_mutex();
    parts[0].lock = wants;
    assert_works(pawl_mutex_new(rival, "other", PAWL_TASK, &parts[1].lock, &error), &error);
    assert_works(pawl_acquire_all(parts, 2, 0, &error), &error);
    assert_works(pawl_release_all(parts, 2, &error), &error);
    await_nodes("", 0);
    pawl_lock_free(parts[1].lock);
}

/* What is only kept is not in use as a mutex; what is held, is. */
static void test_another_kind(void **state) {
    struct pawl_lock *as_rwlock = new_rwlock(rival, 0);

    (void)state;
    keep_mutex();
    acquire(as_rwlock);
    release(as_rwlock);
    await_nodes("", 0);
    acquire(kept);
    assert_fails(PAWL_EKIND, pawl_acquire(as_rwlock, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire(as_rwlock, 0, &error), &error);
    release(kept);
    assert_works(pawl_acquire(as_rwlock, 0, &error), &error);
    release(as_rwlock);
    await_nodes("", 0);
    pawl_lock_free(as_rwlock);
}

static void test_a_semaphore_of_the_same_name(void **state) {
    struct pawl_lock *permits = new_semaphore(rival, 2);

    (void)state;
    keep_mutex();
    assert_works(pawl_acquire_permits(permits, 1, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(permits, &error), &error);
    await_nodes("", 2); /* its two directories: while they are there, nothing is kept */
    acquire(kept);
    assert_fails(PAWL_EKIND, pawl_acquire_permits(permits, 1, PATIENCE_MS, &error), &error);
    release(kept);
    assert_works(pawl_acquire_permits(permits, 1, 0, &error), &error);
    assert_works(pawl_release(permits, &error), &error);
    pawl_lock_free(permits);
}

/* Until the rival waits for a node that is there; or has given up. */
static void await_rival(void *data) {
    struct zk_engine *zk = zk_of(rival->engine);
    bool waits = false;

    (void)data;
    while (!waits && !atomic_load(&waiter.ended)) {
        const struct zk_claim *claim;

        poll(NULL, 0, 1);
        pawl__zk_lock();
        claim = TAILQ_FIRST(&zk->claims);
        waits = claim && claim->watch.ahead && claim->watch.ahead->state == ZK_WATCH_ARMED;
        pawl__zk_unlock(&zk->session);
    }
}

/* The keeper's node is still there when the other kind looks. */
static void meets(struct pawl_lock *other_kind) {
    keep_mutex();
    strike_hook(OP_DELETE, await_rival, NULL);
    acquire_start(&waiter, other_kind, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), 0);
    await_strike();
    release(other_kind);
    pawl_lock_free(other_kind);
}

static void test_another_kind_meets_the_keeper(void **state) {
    (void)state;
    meets(new_rwlock(rival, 0));
}

static void test_a_semaphore_meets_the_keeper(void **state) {
    (void)state;
    meets(new_semaphore(rival, 2));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        KEPT(test_readers_keep_beside_each_other),
        KEPT(test_readers_look_now_and_then),
        KEPT(test_a_writer_that_is_kept_gives_way_to_a_reader),
        KEPT(test_kept_after_a_downgrade),
        KEPT(test_a_try_gets_what_nobody_holds),
        KEPT(test_a_try_waits_no_longer_than_a_recall_takes),
        KEPT(test_a_try_gets_what_readers_keep),
        KEPT(test_a_try_that_is_cut_off),
        KEPT(test_a_set_gets_what_is_kept),
        KEPT(test_another_kind),
        KEPT(test_a_semaphore_of_the_same_name),
        KEPT(test_another_kind_meets_the_keeper),
        KEPT(test_a_semaphore_meets_the_keeper),
    };

    return harness_run(argc, argv, "test_zookeeper_keep_kinds", 1, &(struct zookeeper_how){0}, tests,
                       sizeof tests / sizeof tests[0]);
}
