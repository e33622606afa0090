/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_keep.c - claims that their process may keep: that they hear of everybody who wants them, at once where that is promised, and
 * that nobody is let in again who could not have heard. At the seam (redis_keep.h); those who want them are clients as they are.
 *
 * In the simulated world time is virtual, so there it is also looked at how soon they hear.
 */
#include <string.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_keep.h"
#include "../support/redis_one.h"

#define UUID_OLD "01234567-89ab-8def-8123-456789abcdef" /* a pawl's */

static struct proxy *proxy;
static struct pawl *far, *near; /* through the proxy, and straight */

static atomic_uint inbox; /* which of the two connections of `far` it is */

static enum proxy_verdict judge(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                size_t length) {
    (void)data;
    if (from == PROXY_CLIENT && memmem(message, length, "SUBSCRIBE", 9))
        atomic_store(&inbox, connection);
    return PROXY_PASS;
}

static int set_up(void **state) {
    empty_server(state);
    proxy = proxy_new(server.port, NULL, judge, NULL);
    far = open_at(proxy_port(proxy), "?retry=10,200", 5000);
    near = open_at(server.port, "", 5000);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pawl_close(far);
    pawl_close(near);
    keepers_free();
    proxy_free(proxy);
    return 0;
}

enum which { THE_INBOX, THE_COMMANDS };

static void freeze(enum which which) {
    proxy_begin(proxy, PROXY_FAULT_FREEZE, 2, (atomic_load(&inbox) + which) % 2, 0);
}

/* A message to the inbox of `far`. */
static void publish(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void publish(const char *format, ...) {
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_int_equal(redis_server_integer(&server, "PUBLISH pawl:inbox:%s %s", redis_of(far->engine)->uuid, text), 1);
}

static struct pawl_lock *rwlock_of(struct pawl *client, const char *name) {
    struct pawl_lock *lock;

    assert_works(pawl_rwlock_new(client, name, 0, &lock, &error), &error);
    return lock;
}

static void assert_soon(const struct keeper *keeper, int64_t since) {
    if (IN_WORLD)
        assert_true(atomic_load(&keeper->wanted_at) - since < 10 * REDIS_MS);
}

/* ---- Who waits tells -------------------------------------------------------------------------------------------------------- */

static void test_who_waits_tells(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;
    int64_t now;

    (void)state;
    assert_false(keeper->seam->wanted);
    assert_int_equal(keeper_rests(keeper), PAWL__DONE);
    assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
    now = pawl__boottime();
    start_taker(&taker, lock, PATIENCE_MS);
    keeper_await_wanted(keeper);
    assert_soon(keeper, now);
    assert_int_equal(keeper_rests(keeper), PAWL_EHELD);
    assert_int_equal(keeper_resumes(keeper), PAWL_EHELD);
    assert_true(taker_waits(&taker));
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* Threads that share a lock hear as well; but to a try it is held. */
static void test_what_is_shared_hears(void **state) {
    struct keeper *shared = keeper_new(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, -1);
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;
    int64_t now;

    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG RESETSTAT"));
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(redis_server_calls(&server, "publish"), 0);
    now = pawl__boottime();
    start_taker(&taker, lock, PATIENCE_MS);
    keeper_await_wanted(shared);
    assert_soon(shared, now);
    keeper_leave(shared);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* What nobody may keep has no mark, and costs no message. */
static void test_others_are_not_told(void **state) {
    struct keeper *keeper = keeper_new(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 0);
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG RESETSTAT"));
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_int_equal(redis_server_calls(&server, "publish"), 0);
    assert_int_equal(atomic_load(&keeper->wanted), 0);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* A writer tells every reader; readers that come after it queue. */
static void test_a_writer_tells_all_readers(void **state) {
    struct keeper *readers[3];
    struct pawl_lock *lock = rwlock_of(near, "lock");
    struct taker taker;
    int64_t now;

    (void)state;
    for (int i = 0; i < 3; i++)
        readers[i] = keeper_new(far, "lock", PAWL_RWLOCK, PAWL_SHARED, 60000);
    now = pawl__boottime();
    start_taker(&taker, lock, PATIENCE_MS);
    for (int i = 0; i < 3; i++) {
        keeper_await_wanted(readers[i]);
        assert_soon(readers[i], now);
        assert_int_equal(keeper_resumes(readers[i]), PAWL_EHELD);
    }
    for (int i = 0; i < 3; i++)
        keeper_leave(readers[i]);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

static void test_a_reader_tells_a_writer(void **state) {
    struct keeper *writer = keeper_new(far, "lock", PAWL_RWLOCK, PAWL_EXCLUSIVE, 60000);
    struct pawl_lock *lock = rwlock_of(near, "lock");
    int64_t now = pawl__boottime();

    (void)state;
    keeper_idles(writer);
    assert_works(pawl_acquire_shared(lock, PATIENCE_MS, &error), &error);
    assert_soon(writer, now);
    assert_works(pawl_release_shared(lock, &error), &error);
    keeper_leave(writer);
    pawl_lock_free(lock);
}

/* The message got lost with its connection; who waits asks again, and tells again. */
static void test_told_again(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    proxy_isolate(proxy, true);
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_int_equal(atomic_load(&keeper->wanted), 0);
    await(keeper_resumes(keeper) == PAWL_EHELD, "it is entered though it could not be heard");
    assert_int_equal(keeper_rests(keeper), PAWL__DONE);
    proxy_isolate(proxy, false);
    keeper_await_wanted(keeper);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* ---- Grants say who waits ---------------------------------------------------------------------------------------------------- */

/* A waits for the lock, B behind it; then it is let go. */
static void wait_behind(struct keeper *holder, struct keeper **retfirst, struct taker *second, struct pawl_lock *lock) {
    *retfirst = keeper_ask(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 60000);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    start_taker(second, lock, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 2);
    if (holder)
        keeper_leave(holder);
    keeper_await(*retfirst);
}

static void test_a_pushed_grant_says_who_waits(void **state) {
    struct keeper *holder = keeper_new(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 0), *keeper;
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    wait_behind(holder, &keeper, &taker, lock);
    assert_true(keeper->seam->wanted);
    assert_int_equal(keeper_rests(keeper), PAWL_EHELD);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    /* And nobody: */
    holder = keeper_new(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 0);
    keeper = keeper_ask(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 60000);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    keeper_leave(holder);
    keeper_await(keeper);
    assert_false(keeper->seam->wanted);
    assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
    keeper_leave(keeper);
    pawl_lock_free(lock);
}

/* An answer grants: the holder's time has run out, and the first in the queue asks. */
static void test_an_answer_says_who_waits(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct keeper *keeper;
    struct taker taker;

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock %s:7 1 @%s:7 %s", UUID_OLD, UUID_OLD, "0 1 x 1 1 -"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 500"));
    wait_behind(NULL, &keeper, &taker, lock);
    assert_true(keeper->seam->wanted);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* Readers that are let in together are wanted only if a writer is behind them. */
static void test_readers_know_of_the_writer_behind(void **state) {
    struct keeper *writer, *readers[2];
    struct pawl_lock *lock = rwlock_of(near, "lock");
    struct taker taker;
    int64_t now;

    (void)state;
    for (int with_writer = 0; with_writer < 2; with_writer++) {
        writer = keeper_new(far, "lock", PAWL_RWLOCK, PAWL_EXCLUSIVE, 0);
        for (int i = 0; i < 2; i++) {
            readers[i] = keeper_ask(far, "lock", PAWL_RWLOCK, PAWL_SHARED, 60000);
            await_integer(&server, "ZCARD pawl:queue:{lock}", i + 1);
        }
        if (with_writer) {
            start_taker(&taker, lock, PATIENCE_MS);
            await_integer(&server, "ZCARD pawl:queue:{lock}", 3);
        }
        now = pawl__boottime();
        keeper_leave(writer);
        for (int i = 0; i < 2; i++) {
            keeper_await(readers[i]);
            if (with_writer)
                await(keeper_resumes(readers[i]) == PAWL_EHELD, "reader %d does not know of the writer", i);
            else
                assert_int_equal(keeper_resumes(readers[i]), PAWL__DONE);
            if (IN_WORLD)
                assert_true(pawl__boottime() - now < 50 * REDIS_MS); /* else it may have looked */
        }
        for (int i = 0; i < 2; i++)
            keeper_leave(readers[i]);
    }
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* The message comes before the answer that grants: it counts when that has come. */
static void test_a_message_that_overtakes(void **state) {
    struct keeper *keeper;

    (void)state;
    freeze(THE_COMMANDS);
    keeper = keeper_ask(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 60000);
    publish("w +%llu", (unsigned long long)keeper->seam->id[1]);
    await(keeper_rests(keeper) == PAWL_EHELD, "the message does not come");
    proxy_end(proxy);
    keeper_await(keeper);
    assert_true(keeper->seam->wanted);
    keeper_leave(keeper);
}

/* A number that is not known, one that is leaving, the same twice. */
static void test_messages_about_nobody(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");

    (void)state;
    publish("w +7");
    publish("w");
    for (int i = 0; i < 2; i++)
        publish("w +%llu", (unsigned long long)keeper->seam->id[1]);
    keeper_await_wanted(keeper);
    assert_int_equal(atomic_load(&keeper->wanted), 1);
    keeper_leave(keeper);
}

/* ---- What is lost, and who can't tell ---------------------------------------------------------------------------------------- */

/* The inbox is deaf, and nobody knows: the next renewal says that others wait. */
static void test_a_renewal_says_who_waits(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct taker taker;
    int64_t now = pawl__boottime();

    (void)state;
    freeze(THE_INBOX);
    start_taker(&taker, lock, PATIENCE_MS);
    keeper_await_wanted(keeper);
    if (IN_WORLD)
        assert_true(atomic_load(&keeper->wanted_at) - now < 500 * REDIS_MS); /* else who waits has asked again */
    proxy_end(proxy);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
}

/* One of its connections ends. Until a renewal has said that nobody waits it is not entered, and then it is. */
static void test_not_entered_unheard(void **state) {
    static const char *const kills[] = {"CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE normal SKIPME yes"};
    struct keeper *keeper = keep_mutex(far, "lock");

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
        proxy_refuse(proxy, true);
        assert_true(redis_server_plain(&server, kills[i]) > 0);
        await(keeper_resumes(keeper) == PAWL_EHELD, "it is entered though it could not be heard");
        proxy_refuse(proxy, false);
        await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered again");
        assert_int_equal(atomic_load(&keeper->wanted), 0);
    }
    keeper_leave(keeper);
}

/* A pawl of an earlier version queues as ever, and tells nobody. */
static void test_an_earlier_version_waits(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");

    (void)state;
    freeReplyObject(redis_server_command(&server, "ZADD pawl:queue:{lock} 1 %s", UUID_OLD ":7 x 1 1 -"));
    keeper_await_wanted(keeper);
    freeReplyObject(redis_server_command(&server, "DEL pawl:queue:{lock}"));
    keeper_leave(keeper);
}

/* Redisson's waiters subscribe to its channel; those of a FairLock are in a queue of their own. */
static void test_foreigners_wait(void **state) {
    redisContext *listener = redisConnectUnix(server.socket_path);
    struct keeper *mutex = keep_mutex(far, "lock"), *writer = keeper_new(far, "rw", PAWL_RWLOCK, PAWL_EXCLUSIVE, 60000),
                  *other = keep_mutex(far, "other");

    (void)state;
    freeReplyObject(redisCommand(listener, "SUBSCRIBE redisson_lock__channel:{lock} redisson_rwlock:{rw}"));
    keeper_await_wanted(mutex);
    keeper_await_wanted(writer);
    assert_int_equal(atomic_load(&other->wanted), 0);
    assert_int_equal(keeper_resumes(other), PAWL__DONE);
    redisFree(listener);
    keeper_leave(mutex);
    keeper_leave(writer);
    keeper_leave(other);
}

/* Those of the plain family only poll: the time is counted from the grant. */
static void test_plain_goes_by_the_clock(void **state) {
    struct pawl *plain = open_at(server.port, "?layout=plain", 5000);
    struct keeper *keeper = keeper_new(plain, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 400);
    int64_t now = pawl__boottime();

    (void)state;
    assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
    keeper_await_wanted(keeper);
    assert_true(atomic_load(&keeper->wanted_at) - now > 300 * REDIS_MS);
    keeper_leave(keeper);
    pawl_close(plain);
}

/* ---- Tries, kinds, sets ------------------------------------------------------------------------------------------------------ */

/* Nobody holds it, so a try gets it. */
static void test_a_try_of_what_is_idle(void **state) {
    static const char *const options[] = {"", "?layout=plain"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pawl *one = open_at(server.port, options[i], 5000), *other = open_at(server.port, options[i], 5000);
        struct keeper *keeper = keep_mutex(one, "lock");
        struct pawl_lock *lock = mutex_of(other, "lock");

        keeper_idles(keeper);
        assert_works(pawl_acquire(lock, 0, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
        keeper_leave(keeper);
        pawl_lock_free(lock);
        pawl_close(other);
        pawl_close(one);
    }
}

static void test_a_try_of_idle_readers(void **state) {
    struct keeper *readers[3];
    struct pawl_lock *lock = rwlock_of(near, "lock");

    (void)state;
    for (int i = 0; i < 3; i++)
        readers[i] = keeper_new(far, "lock", PAWL_RWLOCK, PAWL_SHARED, 60000);
    for (int i = 0; i < 3; i++)
        keeper_idles(readers[i]);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    for (int i = 0; i < 3; i++)
        keeper_leave(readers[i]);
    pawl_lock_free(lock);
}

/* Somebody does: it ends, and is not in the queue any more. Where nothing has the mark it ends at once. */
static void test_a_try_of_what_is_held(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock"), *other = keeper_new(far, "other", PAWL_MUTEX, PAWL_EXCLUSIVE, 0);
    struct pawl_lock *lock = mutex_of(near, "lock"), *second = mutex_of(near, "other");
    int64_t now = pawl__boottime();

    (void)state;
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    if (IN_WORLD)
        assert_true(pawl__boottime() - now < 40 * REDIS_MS);
    keeper_await_wanted(keeper);
    await_integer(&server, "EXISTS pawl:queue:{lock}", 0);
    freeReplyObject(redis_server_command(&server, "CONFIG RESETSTAT"));
    assert_fails(PAWL_EHELD, pawl_acquire(second, 0, &error), &error);
    assert_int_equal(redis_server_scripts(&server), 1);
    keeper_leave(keeper);
    keeper_leave(other);
    pawl_lock_free(second);
    pawl_lock_free(lock);
}

/* Another kind of lock under a name that is only kept. */
static void test_another_kind(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock");
    struct pawl_lock *rwlock = rwlock_of(near, "lock"), *semaphore, *mutex = mutex_of(near, "lock2");

    (void)state;
    assert_works(pawl_semaphore_new(near, "lock3", 2, 0, &semaphore, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire(rwlock, PATIENCE_MS, &error), &error);
    keeper_await_wanted(keeper);
    keeper_leave(keeper);
    keeper = keep_mutex(far, "lock");
    keeper_idles(keeper);
    assert_works(pawl_acquire(rwlock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(rwlock, &error), &error);
    keeper_leave(keeper);
    keeper = keeper_new(far, "lock2", PAWL_RWLOCK, PAWL_SHARED, 60000);
    keeper_idles(keeper);
    assert_works(pawl_acquire(mutex, 0, &error), &error);
    assert_works(pawl_release(mutex, &error), &error);
    keeper_leave(keeper);
    keeper = keeper_new(far, "lock3", PAWL_RWLOCK, PAWL_EXCLUSIVE, 60000);
    keeper_idles(keeper);
    assert_works(pawl_acquire(semaphore, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(semaphore, &error), &error);
    keeper_leave(keeper);
    pawl_lock_free(rwlock);
    pawl_lock_free(mutex);
    pawl_lock_free(semaphore);
}

/* A set tells all who keep a part of it: as a try, and as one that waits. */
static void test_a_set_of_what_is_idle(void **state) {
    static const int64_t timeouts[] = {0, PATIENCE_MS};
    struct pawl_part parts[] = {{.lock = mutex_of(near, "a")}, {.lock = rwlock_of(near, "b")}, {.lock = mutex_of(near, "c")}};
    struct keeper *all[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        all[0] = keep_mutex(far, "a");
        all[1] = keeper_new(far, "b", PAWL_RWLOCK, PAWL_SHARED, 60000);
        keeper_idles(all[0]);
        keeper_idles(all[1]);
        assert_works(pawl_acquire_all(parts, 3, timeouts[i], &error), &error);
        assert_works(pawl_release_all(parts, 3, &error), &error);
        keeper_leave(all[0]);
        keeper_leave(all[1]);
    }
    await_integer(&server, "EXISTS a b c pawl:queue:{a} pawl:queue:{b} pawl:queue:{c}", 0);
    for (int i = 0; i < 3; i++)
        pawl_lock_free(parts[i].lock);
}

/* ---- The inbox, and operators ------------------------------------------------------------------------------------------------- */

/* Right after a thread has waited for a push the inbox is left alone for a moment: not if something is kept. */
static void test_the_inbox_does_not_rest(void **state) {
    struct keeper *holder = keeper_new(near, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 0), *keeper;
    struct pawl_lock *lock;
    struct pawl *third = open_at(server.port, "", 5000);
    struct taker taker;
    int64_t now;

    (void)state;
    lock = mutex_of(third, "lock");
    keeper = keeper_ask(far, "lock", PAWL_MUTEX, PAWL_EXCLUSIVE, 60000);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    keeper_leave(holder);
    keeper_await(keeper);
    now = pawl__boottime();
    start_taker(&taker, lock, PATIENCE_MS);
    keeper_await_wanted(keeper);
    if (IN_WORLD)
        assert_true(atomic_load(&keeper->wanted_at) - now < 5 * REDIS_MS);
    keeper_leave(keeper);
    assert_works(end_taker(&taker), &error);
    pawl_lock_free(lock);
    pawl_close(third);
}

static int see_keeps(const struct pawl_entry *entry, void *data) {
    *(int *)data += (entry->flags & PAWL_ENTRY_KEEPS) != 0;
    return 0;
}

/* It is shown, and can be broken; a hold that may not be kept is not shown so. */
static void test_operators(void **state) {
    struct keeper *keeper = keep_mutex(far, "lock"), *other = keeper_new(far, "other", PAWL_MUTEX, PAWL_EXCLUSIVE, 0);
    int kept = 0;

    (void)state;
    assert_works(pawl_inspect(near, NULL, see_keeps, &kept, &error), &error);
    assert_int_equal(kept, 1);
    assert_works(pawl_break(near, "lock", keeper->seam->token + keeper->seam->token_count - 1, 0, &error), &error);
    await(atomic_load(&keeper->lost) == 1, "the break is not told");
    assert_int_equal(keeper_resumes(keeper), PAWL_EHELD);
    keeper_leave(keeper);
    keeper_leave(other);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_who_waits_tells),
        TEST(test_what_is_shared_hears),
        TEST(test_others_are_not_told),
        TEST(test_a_writer_tells_all_readers),
        TEST(test_a_reader_tells_a_writer),
        TEST(test_told_again),
        TEST(test_a_pushed_grant_says_who_waits),
        TEST(test_an_answer_says_who_waits),
        TEST(test_readers_know_of_the_writer_behind),
        TEST(test_a_message_that_overtakes),
        TEST(test_messages_about_nobody),
        TEST(test_a_renewal_says_who_waits),
        TEST(test_not_entered_unheard),
        TEST(test_an_earlier_version_waits),
        TEST(test_foreigners_wait),
        TEST(test_plain_goes_by_the_clock),
        TEST(test_a_try_of_what_is_idle),
        TEST(test_a_try_of_idle_readers),
        TEST(test_a_try_of_what_is_held),
        TEST(test_another_kind),
        TEST(test_a_set_of_what_is_idle),
        TEST(test_the_inbox_does_not_rest),
        TEST(test_operators),
#undef TEST
    };

    return run_redis_tests(argc, argv, "redis_keep", tests, "", NULL, stop_server);
}
