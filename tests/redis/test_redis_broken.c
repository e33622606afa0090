/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_broken.c - who was broken is told, also if the message of that was lost, or came before it knew that it holds.
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

/* It is held by the test, whichever thread has acquired it. */
static struct pawl_lock *task_mutex_of(struct pawl *client) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    return lock;
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

/* The inbox alone is made anew. */
static void test_the_inbox_was_cut(void **state) {
    struct pawl *client = open_at(server.port, "?retry=10,200", LONG_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    mark_broken();
    assert_in_range(redis_server_integer(&server, "CLIENT KILL TYPE pubsub"), 1, 3);
    assert_broken(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Before the grant is known ------------------------------------------------------------------------------------------------- */

/* Who waits is granted the lock, which is broken, while it is stopped: what it hears of both, in that order, may be all, or half. The grant
 * is too old to be believed. */
static void test_broken_before_the_grant_is_read(void **state) {
    static const char *const heard[] = {"gb", "g", "b"};
    struct pawl *client = open_at(server.port, "", LONG_MS);
    struct pawl_lock *lock = task_mutex_of(client);
    struct taker taker;

    (void)state;
    for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++) {
        losses.lost = 0;
        freeReplyObject(redis_server_command(&server, "HSET lock foreign 1"));
        start_holder(&taker, lock, PAWL_FOREVER);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        assert_int_equal(
            redis_server_integer(&server, "EVAL %s 0 %s",
                                 "local owner = string.match(redis.call('ZRANGE', 'pawl:queue:{lock}', 0, 0)[1], '^%S+') "
                                 "local uuid, number = string.match(owner, '(.*):(.*)') "
                                 "redis.call('DEL', 'lock', 'pawl:queue:{lock}') "
                                 "redis.call('HSET', 'lock', owner, 1, '@' .. owner, '4000000000000000 1 X 1 1 pawl1') "
                                 "redis.call('PEXPIRE', 'lock', 30000) "
                                 "local function say(verb, rest) "
                                 "  if not string.find(ARGV[1], verb) then return 0 end "
                                 "  return redis.call('PUBLISH', 'pawl:inbox:' .. uuid, verb .. ' ' .. number .. rest) "
                                 "end "
                                 "return say('g', ' 4000000000000000 1 1 2000') + say('b', ' 0')",
                                 heard[i]),
            (int)strlen(heard[i]));
        assert_int_equal(end_taker(&taker), 0);
        assert_true(taker.token == 4000000000000000);
        assert_broken(lock);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The answer to acquire is on its way when the break is told: it may have been written before that. */
static void test_broken_before_the_answer_is_read(void **state) {
    (void)state;
    for (unsigned i = 1; i <= 2; i++) { /* one of them is the connection of the commands */
        struct pawl *client = open_at(proxy_port(proxy), "", LONG_MS);
        struct pawl_lock *lock = task_mutex_of(client);
        unsigned connections = proxy_connections(proxy);
        struct taker taker;
        redisReply *token;

        losses.lost = 0;
        proxy_begin(proxy, PROXY_FAULT_ANSWERS, 1000, connections + 1 - i, 2000);
        start_holder(&taker, lock, PAWL_FOREVER);
        await_integer(&server, "EXISTS lock", 1);
        token = redis_server_command(&server, "GET redisson_lock_token:{lock}");
        assert_works(pawl_break(near, "lock", strtoull(token->str, NULL, 10), 0, &error), &error);
        freeReplyObject(token);
        assert_int_equal(end_taker(&taker), 0);
        assert_broken(lock);
        proxy_end(proxy);
        pawl_lock_free(lock);
        pawl_close(client);
    }
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
        BROKEN_TEST(test_the_inbox_was_cut),
        BROKEN_TEST(test_broken_before_the_grant_is_read),
        BROKEN_TEST(test_broken_before_the_answer_is_read),
    };

    return run_redis_tests(argc, argv, "redis broken", tests, "", NULL, stop_server);
}
