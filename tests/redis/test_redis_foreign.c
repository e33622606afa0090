/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_foreign.c - what others have under the same name is left as it is; and those who wait there by Redisson's rules are not
 * forgotten.
 */
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_two.h"

static struct pawl_lock *semaphore_of(struct pawl *client, const char *name, unsigned limit) {
    struct pawl_lock *lock;

    assert_works(pawl_semaphore_new(client, name, limit, 0, &lock, &error), &error);
    return lock;
}

/* ---- What lies there ------------------------------------------------------------------------------------------------------ */

/* Another program's counter, that happens to have the semaphore's name. */
static void test_foreign_counter_is_left_alone(void **state) {
    static const struct {
        const char *value;
        int code;
    } counters[] = {{"123456789", PAWL_EKIND}, {"-5", PAWL_ELIMIT}, {"0", PAWL_ELIMIT}, {"3", PAWL_ELIMIT}, {"5", PAWL_ELIMIT}};
    struct pawl_lock *lock = semaphore_of(one, "visits", 4);

    (void)state;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        freeReplyObject(redis_server_command(&server, "SET visits %s", counters[i].value));
        assert_fails(counters[i].code, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_true(redis_server_integer(&server, "GET visits") == atoll(counters[i].value));
        assert_int_equal(redis_server_integer(&server, "DBSIZE"), 1);
    }
    pawl_lock_free(lock);
}

/* Redisson's RSemaphore is that counter and nothing else: it does not show who has a permit. */
static void test_rsemaphore_is_not_exceeded(void **state) {
    struct pawl_lock *lock = semaphore_of(one, "sem", 1), *other = semaphore_of(two, "sem", 1);

    (void)state;
    freeReplyObject(redis_server_command(&server, "SET sem 1"));
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 0); /* so nobody else has it */
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "DECR sem"), 0); /* its permit is out */
    assert_fails(PAWL_ELIMIT, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_contains(error.text, "remove its key");
    assert_int_equal(redis_server_integer(&server, "INCR sem"), 1);
    assert_works(pawl_acquire(other, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Where pawl made it, too; and one that waits already is told. */
static void test_rsemaphore_beside_pawls(void **state) {
    struct pawl_lock *lock = semaphore_of(one, "sem", 2), *other = semaphore_of(two, "sem", 2);
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "DECR sem"), 0);
    assert_fails(PAWL_ELIMIT, pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_fails(PAWL_ELIMIT, pawl_acquire(other, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 1);
    assert_int_equal(redis_server_integer(&server, "INCR sem"), 2);
    assert_works(pawl_acquire_permits(lock, 2, 0, &error), &error);
    start_taker(&taker, other, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{sem}", 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A semaphore that nobody uses may have another limit, if pawl said what it had before; and all of it is there. */
static void test_limit_of_an_idle_semaphore(void **state) {
    struct pawl_lock *three = semaphore_of(one, "sem", 3), *four = semaphore_of(two, "sem", 4);

    (void)state;
    assert_works(pawl_acquire(three, 0, &error), &error);
    assert_fails(PAWL_ELIMIT, pawl_acquire(four, 0, &error), &error);
    assert_works(pawl_release(three, &error), &error);
    assert_works(pawl_acquire_permits(four, 4, 0, &error), &error);
    assert_works(pawl_release(four, &error), &error);
    assert_works(pawl_acquire_permits(three, 3, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 0);
    pawl_lock_free(three);
    pawl_lock_free(four);
}

/* Another program's hash that has a field `mode` is no read-write lock whose readers have died. */
static void test_foreign_hash_is_left_alone(void **state) {
    static const char *const modes[] = {"read", "write", "dark"};
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_rwlock_new(one, "user", 0, &lock, &error), &error);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        freeReplyObject(redis_server_command(&server, "HSET user mode %s name Ada", modes[i]));
        assert_fails(PAWL_EKIND, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_fails(PAWL_EKIND, pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
        assert_int_equal(redis_server_integer(&server, "HLEN user"), 2);
        assert_int_equal(redis_server_integer(&server, "DBSIZE"), 1);
    }
    pawl_lock_free(lock);
}

/* Redisson's RReadWriteLock looks for a field `mode` and for nothing else: it enters a mutex that somebody holds, Redisson's own too. */
static void rwlock_enters(const char *mode, const char *suffix) {
    freeReplyObject(redis_server_command(&server, "HSET lock mode %s " REDISSON "%s 1", mode, suffix));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 60000"));
}

/* Nobody is handed a mutex that such a lock has entered; who held it hears so when it releases, and who waits is told what is there. */
static void test_mutex_is_not_handed_on_beside_a_rwlock(void **state) {
    static const char *const modes[][2] = {{"read", ""}, {"write", ":write"}};
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    struct taker taker;

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        empty_server(NULL);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        start_taker(&taker, other, PAWL_FOREVER);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        rwlock_enters(modes[i][0], modes[i][1]);
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
        assert_int_equal(end_taker(&taker), PAWL_EKIND);
        assert_fails(PAWL_EKIND, pawl_acquire(lock, 0, &error), &error);
        assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2); /* Redisson's are there, and nothing else */
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A writer's unlock leaves `mode` behind where it finds a field that it does not know: that goes with the mutex. */
static void test_rwlock_enters_a_mutex_and_leaves(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    struct taker taker;

    (void)state;
    for (int waiters = 0; waiters < 2; waiters++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        if (waiters) {
            start_taker(&taker, other, PATIENCE_MS);
            await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        }
        rwlock_enters("read", "");
        freeReplyObject(redis_server_command(&server, "HDEL lock " REDISSON));
        assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
        if (waiters)
            assert_int_equal(end_taker(&taker), 0);
        assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void hear_why(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    if (state == PAWL_LOST)
        assert_contains(why->text, "RReadWriteLock");
    hear_loss(lock, state, token, why, data);
}

/* A holder is told at its next renewal, and does not prolong what is not its own. */
static void test_holder_hears_of_a_rwlock(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *brief = open_at(server.port, "", 600);
    struct pawl_lock *lock = mutex_of(brief, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_why, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    rwlock_enters("write", ":write");
    await_loss(&losses);
    assert_true(redis_server_integer(&server, "PTTL lock") > 30000);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_integer(&server, "HLEN lock", 2);
    pawl_lock_free(lock);
    pawl_close(brief);
}

/* ---- Those who wait ------------------------------------------------------------------------------------------------------- */

static redisContext *listen_at(const char *channel) {
    redisContext *listener = redisConnectUnix(server.socket_path);

    freeReplyObject(redisCommand(listener, "SUBSCRIBE %s", channel));
    return listener;
}

static void assert_hears(redisContext *listener, const char *what) {
    redisReply *reply;

    assert_int_equal(redisSetTimeout(listener, (struct timeval){.tv_sec = PATIENCE_MS / 1000}), REDIS_OK);
    assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[2]->str, what);
    freeReplyObject(reply);
}

/* Take it and let it go until it is the others' turn; false: that does not happen. */
static bool loop_until_turn(struct pawl_lock *lock, int most) {
    for (int i = 0; i < most; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
        if (redis_server_integer(&server, "EXISTS pawl:turn:{lock}"))
            return true;
    }
    return false;
}

/* A pawl that is alone with them and comes back at once is not always there before them. */
static void test_listeners_have_a_turn_without_a_queue(void **state) {
    static const struct {
        const char *channel;
        int kind;
    } kinds[] = {{"redisson_lock__channel:{lock}", PAWL_MUTEX},
                 {"redisson_rwlock:{lock}", PAWL_RWLOCK},
                 {"redisson_sc:{lock}", PAWL_SEMAPHORE}};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct pawl_lock *lock;
        redisContext *listener;

        empty_server(NULL);
        if (kinds[i].kind == PAWL_MUTEX)
            lock = mutex_of(one, "lock");
        else if (kinds[i].kind == PAWL_SEMAPHORE)
            lock = semaphore_of(one, "lock", 1);
        else
            assert_works(pawl_rwlock_new(one, "lock", 0, &lock, &error), &error);
        assert_false(loop_until_turn(lock, 100)); /* nobody listens */
        listener = listen_at(kinds[i].channel);
        assert_true(loop_until_turn(lock, 1000));
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* it does not wait long for what never comes */
        redisFree(listener);
        pawl_lock_free(lock);
    }
}

/* Who has held it lately, and so does not only listen, has it more often. The turn keeps pawls off, those that take several at once too. */
static void test_turn_keeps_pawls_off(void **state) {
    redisContext *listener = listen_at("redisson_lock__channel:{lock}");
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock"), *more = mutex_of(two, "more");
    int turns = 0;

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 1"));
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    for (int i = 0; i < 40; i++)
        turns += loop_until_turn(lock, 1);
    assert_in_range(turns, 4, 36);
    freeReplyObject(redis_server_command(&server, "SET pawl:turn:{lock} 1 PX 60000"));
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire_all((struct pawl_part[]){{.lock = other}, {.lock = more}}, 2, 10, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock more"), 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(more);
    redisFree(listener);
}

/* Redisson's FairLock: the first of its queue listens on a channel of its own, and nobody else may enter. */
static void test_first_of_a_fair_lock_is_woken(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    redisContext *listener = listen_at("redisson_lock__channel:{lock}:" REDISSON);
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "RPUSH redisson_lock_queue:{lock} " REDISSON " another"));
    assert_works(pawl_release(lock, &error), &error);
    assert_hears(listener, "0");
    assert_true(loop_until_turn(lock, 1000)); /* and has its turn, */
    assert_hears(listener, "0");
    freeReplyObject(redis_server_command(&server, "SET pawl:met:{lock} 1"));
    for (bool heard = false; !heard;) { /* also while pawls wait */
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        start_taker(&taker, other, PATIENCE_MS);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        assert_works(pawl_release(lock, &error), &error);
        heard = redis_server_integer(&server, "EXISTS pawl:turn:{lock}") == 1;
        assert_int_equal(end_taker(&taker), 0);
    }
    redisFree(listener);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static bool is_listened_to(const char *channel) {
    redisReply *list = redis_server_command(&server, "PUBSUB CHANNELS %s", channel);
    bool listens = list->type == REDIS_REPLY_ARRAY && list->elements == 1;

    freeReplyObject(list);
    return listens;
}

/* The first in the queue, by its owner: `<uuid>:<number>`. */
static void read_first_waiter(char *ret, size_t size) {
    redisReply *list = redis_server_command(&server, "ZRANGE pawl:queue:{lock} 0 0");

    assert_int_equal(list->elements, 1);
    snprintf(ret, size, "%.*s", (int)strcspn(list->element[0]->str, " "), list->element[0]->str);
    freeReplyObject(list);
}

/* A grant comes so late that it is asked for anew, and finds that a foreigner has the lock. That one lets go before the answer is there: it
 * is heard all the same. */
static void test_foreign_release_while_asking(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *far = open_at(proxy_port(proxy), "", 0);
    struct pawl_lock *lock = mutex_of(far, "lock");
    struct taker taker;
    char owner[96], text[96];

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 1"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 60000"));
    start_taker(&taker, lock, 1500); /* who waits asks by itself after two seconds */
    await(is_listened_to("redisson_lock__channel:{lock}"), "it never listens");
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    await(!owes_answers(server_of(far)), "it never waits");
    read_first_waiter(owner, sizeof owner);
    proxy_begin(proxy, PROXY_FAULT_ANSWERS, 2, 1,
                200); /* its commands go over the first connection, and what it hears over the second */
    owner[36] = '\0';
    snprintf(text, sizeof text, "g %s 1 1 1 1000", owner + 37);
    assert_int_equal(redis_server_integer(&server, "PUBLISH pawl:inbox:%s %s", owner, text), 1);
    await(owes_answers(server_of(far)), "it never asks");
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(owes_answers(server_of(far)));
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    assert_int_equal(redis_server_integer(&server, "PUBLISH redisson_lock__channel:{lock} 0"), 1);
    assert_int_equal(end_taker(&taker), 0);
    proxy_end(proxy);
    pawl_lock_free(lock);
    pawl_close(far);
    proxy_free(proxy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- What operators see --------------------------------------------------------------------------------------------------- */

static int write_name(const struct pawl_entry *entry, void *data) {
    sprintf((char *)data + strlen(data), "%s;", entry->name);
    return 0;
}

/* Keys that are named as ours, and under names that no lock of ours can have: they would reach terminals and clipboards. */
static void test_names_that_are_none_are_not_listed(void **state) {
    static const char copies[] =
        "local all, token = redis.call('HGETALL', 'held'), redis.call('GET', 'redisson_lock_token:{held}') "
        "for _, name in ipairs({'a\\3reboot\\n', 'a\\27[2J', 'a\\255', 'held\\0more', 'a\\194\\155'}) do "
        "redis.call('HSET', name, unpack(all)) redis.call('SET', 'redisson_lock_token:{' .. name .. '}', token) end return 1";
    char names[256] = "";
    struct pawl_lock *lock = mutex_of(one, "held");

    (void)state;
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EVAL %s 0", copies), 1);
    assert_int_equal(pawl_inspect(two, NULL, write_name, names, &error), 0);
    assert_string_equal(names, "held;");
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

/* One key of another type must not hide all other locks, nor the rest of its own. */
static void test_key_of_another_type_hides_nothing(void **state) {
    static const char *const keys[] = {"pawl:queue:{ours}", "redisson_lock_token:{ours}"};
    struct pawl_lock *lock = mutex_of(one, "ours"), *other = mutex_of(one, "theirs");

    (void)state;
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_acquire(other, 0, &error), &error);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char names[256] = "";

        freeReplyObject(redis_server_command(&server, "DEL %s", keys[i]));
        freeReplyObject(redis_server_command(&server, "LPUSH %s x", keys[i]));
        assert_works(pawl_inspect(two, NULL, write_name, names, &error), &error);
        assert_string_equal(names, "ours;theirs;");
        freeReplyObject(redis_server_command(&server, "DEL %s", keys[i]));
    }
    assert_works(pawl_release(other, &error), &error);
    pawl_release(lock, NULL);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_foreign_counter_is_left_alone),
        TEST(test_rsemaphore_is_not_exceeded),
        TEST(test_rsemaphore_beside_pawls),
        TEST(test_limit_of_an_idle_semaphore),
        TEST(test_foreign_hash_is_left_alone),
        TEST(test_listeners_have_a_turn_without_a_queue),
        TEST(test_turn_keeps_pawls_off),
        TEST(test_first_of_a_fair_lock_is_woken),
        TEST(test_foreign_release_while_asking),
        TEST(test_mutex_is_not_handed_on_beside_a_rwlock),
        TEST(test_rwlock_enters_a_mutex_and_leaves),
        TEST(test_holder_hears_of_a_rwlock),
        TEST(test_names_that_are_none_are_not_listed),
        TEST(test_key_of_another_type_hides_nothing),
    };

    return run_redis_tests(argc, argv, "redis foreign", tests, "", NULL, stop_server);
}
