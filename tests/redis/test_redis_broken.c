/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_broken.c - who was broken is told, also if the message of that was lost.
 */
#include "../support/redis_far.h"
#include "../support/redis_keep.h"

/* So long that no renewal of its own tells while a test waits. */
enum { LONG_MS = 6 * PATIENCE_MS };

static struct losses losses;

static int set_up_broken(void **state) {
    losses = (struct losses)LOSSES_INIT;
    return set_up(state);
}

/* As `pawl break` does it, and its message is lost. */
static void mark_broken(void) {
    long long marked = redis_server_integer(
        &server, "EVAL %s 0",
        "local count = 0 "
        "local function mark(record) "
        "  local marked, done = string.gsub(record, '^%d+ %d+ [xsp] ', string.upper) "
        "  count = count + done "
        "  return marked "
        "end "
        "for _, key in ipairs({'lock', 'pawl:who:{lock}'}) do "
        "  local all = redis.call('TYPE', key).ok == 'hash' and redis.call('HGETALL', key) or {} "
        "  for i = 1, #all, 2 do redis.call('HSET', key, all[i], mark(all[i + 1])) end "
        "end "
        "if redis.call('TYPE', 'pawl:who:{lock}').ok == 'string' then "
        "  local owner, record = string.match(redis.call('GET', 'pawl:who:{lock}'), '^(%S+) (.*)$') "
        "  redis.call('SET', 'pawl:who:{lock}', owner .. ' ' .. mark(record), 'PX', redis.call('PTTL', 'pawl:who:{lock}')) "
        "end "
        "return count");

    assert_int_equal(marked, 1);
}

static void await_break(struct pawl_lock *lock) {
    await_loss(&losses);
    assert_int_equal(losses.lost, 1);
    assert_int_equal(losses.why.code, PAWL_EBROKEN);
    assert_int_equal(pawl_state(lock), PAWL_LOST);
}

/* It is told, is in the way until it is released, and then no more. */
static void assert_broken(struct pawl_lock *lock) {
    await_break(lock);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 1);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_integer(&server, "EXISTS lock", 0);
}

/* ---- Renewals ------------------------------------------------------------------------------------------------------------------ */

static void test_a_renewal_tells(void **state) {
    struct pawl *plain = open_at(server.port, "?layout=plain", LEASE_MS);
    struct pawl_lock *lock;

    (void)state;
    for (int i = 0; i < 2; i++) {
        losses = (struct losses)LOSSES_INIT;
        lock = mutex_of(i ? plain : near, "lock");
        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        mark_broken();
        assert_broken(lock);
        pawl_lock_free(lock);
    }
    pawl_close(plain);
}

static void test_a_renewal_tells_readers_and_writers(void **state) {
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_rwlock_new(near, "lock", 0, &lock, &error), &error);
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire_shared(lock, PATIENCE_MS, &error), &error);
    mark_broken();
    await_break(lock);
    assert_fails(PAWL_ELOST, pawl_release_shared(lock, &error), &error);
    await_integer(&server, "EXISTS lock", 0);
    losses.lost = 0;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    mark_broken();
    assert_broken(lock);
    pawl_lock_free(lock);
}

static void test_a_renewal_tells_who_has_permits(void **state) {
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_semaphore_new(near, "lock", 3, 0, &lock, &error), &error);
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire_permits(lock, 2, PATIENCE_MS, &error), &error);
    mark_broken();
    await_break(lock);
    assert_int_equal(redis_server_integer(&server, "ZCARD {lock}:timeout"), 2);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_integer(&server, "ZCARD {lock}:timeout", 0);
    pawl_lock_free(lock);
}

/* A kept lock is renewed often: it is not entered again and again. */
static void test_a_kept_lock_is_not_entered(void **state) {
    struct keeper *keeper = keep_mutex(near, "lock");

    (void)state;
    mark_broken();
    await(atomic_load(&keeper->lost) == 1, "the break is not told");
    assert_int_equal(keeper_resumes(keeper), PAWL_EHELD);
    keeper_leave(keeper);
}

/* A write is refused: then the hold is renewed at once. */
static void test_a_write_tells(void **state) {
    struct pawl *client = open_at(server.port, "", LONG_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    mark_broken();
    assert_fails(PAWL_ELOST, pawl_value_set(lock, "value", 5, &error), &error);
    assert_broken(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- The inbox ----------------------------------------------------------------------------------------------------------------- */

/* The server has counted a hearer whose connection is half-open; and the hearer comes back. */
static void test_the_connections_were_cut(void **state) {
    struct pawl *client = open_at(proxy_port(proxy), "?retry=10,200", LONG_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    proxy_freeze(proxy, true);
    assert_works(pawl_break(near, "lock", pawl_token(lock), 0, &error), &error);
    proxy_isolate(proxy, true);
    proxy_freeze(proxy, false);
    proxy_isolate(proxy, false);
    assert_broken(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

static int tear_down_broken(void **state) {
    int rc = tear_down(state);

    keepers_free();
    return rc;
}

#define BROKEN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_broken, tear_down_broken)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        BROKEN_TEST(test_a_renewal_tells),
        BROKEN_TEST(test_a_renewal_tells_readers_and_writers),
        BROKEN_TEST(test_a_renewal_tells_who_has_permits),
        BROKEN_TEST(test_a_kept_lock_is_not_entered),
        BROKEN_TEST(test_a_write_tells),
        BROKEN_TEST(test_the_connections_were_cut),
    };

    return run_redis_tests(argc, argv, "redis broken", tests, "", NULL, stop_server);
}
