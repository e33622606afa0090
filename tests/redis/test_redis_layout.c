/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_layout.c - what pawl writes to a server, key by key, as Redisson would; and how it reads what others wrote.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_two.h"

static void test_mutex_is_a_redisson_rlock(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    redisReply *fields;
    char text[64];
    int at;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error); /* the count of re-entries stays here */
    fields = redis_server_command(&server, "HGETALL lock");
    assert_int_equal(fields->elements, 4); /* the owner, and behind an @ its record; in any order */
    at = fields->element[0]->str[0] == '@' ? 2 : 0;
    assert_int_equal(fields->element[at]->str[36], ':');
    assert_string_equal(fields->element[at + 1]->str, "1");
    assert_int_equal(fields->element[2 - at]->str[0], '@');
    assert_string_equal(fields->element[2 - at]->str + 1, fields->element[at]->str);
    assert_non_null(strstr(fields->element[3 - at]->str, " 1 x 1 "));
    freeReplyObject(fields);
    assert_in_range(redis_server_integer(&server, "PTTL lock"), 20000, 30000);
    snprintf(text, sizeof text, "%llu", (unsigned long long)pawl_token(lock));
    assert_true(redis_server_integer(&server, "GET redisson_lock_token:{lock}") == atoll(text));
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock pawl:who:{lock} pawl:queue:{lock}"), 0);
    pawl_lock_free(lock);
}

static void test_release_is_published_for_redisson(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    redisContext *listener = redisConnectUnix(server.socket_path);
    redisReply *reply = redisCommand(listener, "SUBSCRIBE redisson_lock__channel:{lock}");

    (void)state;
    freeReplyObject(reply);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
    assert_string_equal(reply->element[2]->str, "0");
    freeReplyObject(reply);
    redisFree(listener);
    pawl_lock_free(lock);
}

/* Commands that clients have sent so far. */
static long long commands(void) {
    redisReply *info = redis_server_command(&server, "INFO stats");
    const char *at = strstr(info->str, "total_commands_processed:");
    long long count = at ? atoll(at + strlen("total_commands_processed:")) : 0;

    freeReplyObject(info);
    return count;
}

static void test_acquire_and_release_are_a_script_each(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    long before;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    before = redis_server_scripts(&server);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(redis_server_scripts(&server), before + 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_scripts(&server), before + 2);
    pawl_lock_free(lock);
}

static void test_reentry_costs_no_round_trip(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    long long before;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    before = commands();
    for (int i = 0; i < 100; i++)
        assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    for (int i = 0; i < 100; i++)
        assert_works(pawl_release(lock, &error), &error);
    assert_in_range(commands() - before, 1, 3); /* the question itself */
    pawl_lock_free(lock);
}

static int copy_entry(const struct pawl_entry *entry, void *data) {
    struct pawl_entry *copy = data;

    *copy = *entry;
    copy->label = strncmp(entry->raw, REDISSON, strlen(REDISSON)) == 0 && strstr(entry->raw, "= 2") ? "count 2" : "";
    return 1;
}

/* A Redisson thread that entered twice holds until it has left twice; it is shown as what it is. */
static void test_redisson_holder_with_count_two(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    struct pawl_entry entry;
    struct taker taker;

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 2"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 30000"));
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(pawl_inspect(two, "lock", copy_entry, &entry, &error), 1);
    assert_true(entry.flags & PAWL_ENTRY_FOREIGN);
    assert_string_equal(entry.label, "count 2");
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    await_integer(&server, "PUBLISH redisson_lock__channel:{lock} 0", 1); /* listens; and finds it held still */
    assert_int_equal(redis_server_integer(&server, "HINCRBY lock " REDISSON " -1"), 1);
    assert_int_equal(redis_server_integer(&server, "ZCARD pawl:queue:{lock}"), 1);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    freeReplyObject(redis_server_command(&server, "PUBLISH redisson_lock__channel:{lock} 0"));
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
}

static void test_foreign_holder_that_expires(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 1"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 200"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

/* A holder of either family that has no time never ends by itself; it is shown as that, and an operator frees it. Who gave up waiting for
 * it has left nothing behind. */
static void endless_holder(const char *options, const char *holder) {
    struct pawl *client = open_at(server.port, options, 0);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct pawl_entry entry;
    struct taker taker;

    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    redis_server_plain(&server, holder);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 100, &error), &error);
    await_integer(&server, "EXISTS pawl:queue:{lock}", 0);
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_int_equal(pawl_inspect(client, "lock", copy_entry, &entry, &error), 1);
    assert_true(entry.flags & PAWL_ENTRY_FOREIGN && entry.remaining_ms == PAWL_FOREVER);
    assert_fails(PAWL_EUNSUPPORTED, pawl_break(client, "lock", entry.token, 0, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_break(client, "lock", entry.token + 1, PAWL_BREAK_NOW, &error), &error);
    assert_works(pawl_break(client, "lock", entry.token, PAWL_BREAK_NOW, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_foreign_holder_without_end(void **state) {
    static const char *const layouts[] = {"?layout=redisson", "?layout=plain"};
    static const char *const holders[] = {"SET lock redis-py-without-a-timeout", "HSET lock " REDISSON " 1"};

    (void)state;
    for (int i = 0; i < 4; i++)
        endless_holder(layouts[i / 2], holders[i % 2]);
}

/* Some put a whole document where the owner is expected. It is named and freed like any other. */
static void test_foreign_holder_with_a_long_name(void **state) {
    char command[6000], owner[5000];

    (void)state;
    memset(owner, 'x', sizeof owner);
    owner[sizeof owner - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, i == 0 ? "SET lock %s" : "HSET lock %s 1", owner);
        endless_holder("", command);
    }
}

/* A pawl of the other layout is met as any other program of that family: it excludes and is excluded, and is freed by an operator. */
static void test_pawls_of_both_layouts(void **state) {
    struct pawl *plain = open_at(server.port, "?layout=plain", 0);
    struct pawl_lock *locks[] = {mutex_of(one, "lock"), mutex_of(plain, "lock")};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pawl_lock *held = locks[i], *other = locks[1 - i];

        assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
        assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
        assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 20, &error), &error);
        await_integer(&server, "EXISTS pawl:queue:{lock}", 0);
        assert_works(pawl_break(i ? one : plain, "lock", pawl_token(held), PAWL_BREAK_NOW, &error), &error);
        assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
        assert_fails(PAWL_ELOST, pawl_release(held, &error), &error);
        assert_works(pawl_release(other, &error), &error);
        assert_int_equal(redis_server_integer(&server, "EXISTS lock pawl:who:{lock}"), 0);
    }
    pawl_lock_free(locks[0]);
    pawl_lock_free(locks[1]);
    pawl_close(plain);
}

/* It becomes something that is no lock while somebody waits: that one is told, and does not stay in the queue. */
static void test_key_of_another_type_while_waiting(void **state) {
    struct pawl_lock *locks[] = {mutex_of(one, "lock"), NULL};
    struct taker taker;

    (void)state;
    assert_works(pawl_rwlock_new(one, "lock", 0, &locks[1], &error), &error);
    for (int i = 0; i < 2; i++) {
        freeReplyObject(redis_server_command(&server, "DEL lock"));
        freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON "%s 1", i ? ":write" : ""));
        if (i == 1)
            freeReplyObject(redis_server_command(&server, "HSET lock mode write"));
        start_taker(&taker, locks[i], PAWL_FOREVER);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        freeReplyObject(redis_server_command(&server, "RPUSH list x"));
        freeReplyObject(redis_server_command(&server, "RENAME list lock"));
        assert_int_equal(end_taker(&taker), PAWL_EKIND);
        await_integer(&server, "EXISTS pawl:queue:{lock}", 0);
        pawl_lock_free(locks[i]);
    }
}

static void test_keys_of_other_types(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock"), *rwlock;
    struct pawl_entry entry;

    (void)state;
    assert_works(pawl_rwlock_new(one, "lock", 0, &rwlock, &error), &error);
    freeReplyObject(redis_server_command(&server, "RPUSH lock x"));
    assert_fails(PAWL_EKIND, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_fails(PAWL_EKIND, pawl_acquire_shared(rwlock, 0, &error), &error);
    assert_fails(PAWL_EKIND, pawl_inspect(two, "lock", copy_entry, &entry, &error), &error); /* it is not free */
    assert_contains(error.text, "list");
    assert_works(pawl_inspect(two, NULL, copy_entry, &entry, &error), &error);
    assert_int_equal(redis_server_integer(&server, "LLEN lock"), 1);
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    freeReplyObject(redis_server_command(&server, "RPUSH redisson_lock_token:{lock} x"));
    assert_fails(PAWL_EKIND, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    freeReplyObject(redis_server_command(&server, "SET redisson_lock_token:{lock} no-number"));
    assert_fails(PAWL_EKIND, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    pawl_lock_free(lock);
    pawl_lock_free(rwlock);
}

/* A large hash has its fields in no order: a mutex's owner and record, a read-write lock's mode and owner are told apart all the same. */
static void test_kinds_with_fields_in_any_order(void **state) {
    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG SET hash-max-listpack-entries 0"));
    for (int i = 0; i < 16; i++) {
        struct pawl_lock *rwlock, *same, *mutex, *other;
        char name[16];

        snprintf(name, sizeof name, "rw-%d", i);
        assert_works(pawl_rwlock_new(one, name, 0, &rwlock, &error), &error);
        assert_works(pawl_acquire(rwlock, PATIENCE_MS, &error), &error);
        same = mutex_of(two, name);
        assert_fails(PAWL_EKIND, pawl_acquire(same, PATIENCE_MS, &error), &error);
        snprintf(name, sizeof name, "mutex-%d", i);
        mutex = mutex_of(one, name);
        other = mutex_of(two, name);
        assert_works(pawl_acquire(mutex, PATIENCE_MS, &error), &error);
        assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 20, &error), &error);
        assert_works(pawl_release(mutex, &error), &error);
        assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
        pawl_lock_free(rwlock);
        pawl_lock_free(same);
        pawl_lock_free(mutex);
        pawl_lock_free(other);
    }
    freeReplyObject(redis_server_command(&server, "CONFIG SET hash-max-listpack-entries 128"));
}

/* Redisson's FencedLock counts on where pawl stopped, and pawl where it did. */
static void test_tokens_are_comparable_with_fenced_locks(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    uint64_t token, theirs;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    token = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    theirs = (uint64_t)redis_server_integer(&server, "INCRBY redisson_lock_token:{lock} 1000000000000");
    assert_true(theirs > token);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_true(pawl_token(lock) == theirs + 1);
    token = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    freeReplyObject(redis_server_command(&server, "SET redisson_lock_token:{lock} 1")); /* rolled back, as by a failover */
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_true(pawl_token(lock) > 1000000000000000u);
    pawl_lock_free(lock);
}

static void test_rwlock_is_redissons(void **state) {
    struct pawl_lock *lock;
    char text[64];
    redisReply *keys;

    (void)state;
    assert_works(pawl_rwlock_new(one, "lock", 0, &lock, &error), &error);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_string_equal(redis_server_text(&server, text, sizeof text, "HGET lock mode"), "write");
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2);
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_string_equal(redis_server_text(&server, text, sizeof text, "HGET lock mode"), "read");
    keys = redis_server_command(&server, "KEYS {lock}:*:rwlock_timeout:1");
    assert_int_equal(keys->elements, 1);
    assert_in_range(redis_server_integer(&server, "PTTL %s", keys->element[0]->str), 1, 30000);
    freeReplyObject(keys);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "DBSIZE"), 1); /* the tokens */
    /* A Redisson reader beside ours; a writer waits for both. */
    freeReplyObject(redis_server_command(&server, "HSET lock mode read " REDISSON " 1"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 30000"));
    freeReplyObject(redis_server_command(&server, "SET {lock}:" REDISSON ":rwlock_timeout:1 1 PX 30000"));
    assert_works(pawl_acquire_shared(lock, 0, &error), &error);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 3);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
}

/* Redisson #1458: readers that live must not keep one that died. */
static void test_dead_reader_does_not_live_on_others_renewals(void **state) {
    struct pawl_lock *reader, *writer;
    struct taker taker;

    (void)state;
    assert_works(pawl_rwlock_new(one, "lock", 0, &reader, &error), &error);
    assert_works(pawl_rwlock_new(two, "lock", 0, &writer, &error), &error);
    assert_works(pawl_acquire_shared(reader, PAWL_FOREVER, &error), &error);
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 1")); /* died: its hold key has expired */
    start_taker(&taker, writer, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_works(pawl_release_shared(reader, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(reader);
    pawl_lock_free(writer);
}

static void test_semaphore_is_redissons(void **state) {
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_semaphore_new(one, "sem", 3, 0, &lock, &error), &error);
    assert_works(pawl_acquire_permits(lock, 2, PAWL_FOREVER, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 1);
    assert_int_equal(redis_server_integer(&server, "ZCARD {sem}:timeout"), 2);
    /* A Redisson permit (16 bytes) that expired long ago is taken back by the next who looks. */
    freeReplyObject(redis_server_command(&server, "ZADD {sem}:timeout 1000 0123456789abcdef"));
    freeReplyObject(redis_server_command(&server, "DECR sem"));
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "GET sem"), 3);
    assert_int_equal(redis_server_integer(&server, "EXISTS {sem}:timeout"), 0);
    pawl_lock_free(lock);
}

/* Redisson's permits are 16 bytes of any kind. An operator frees one as any other hold. */
static void test_permit_of_redissons_is_broken(void **state) {
    struct pawl_entry entry;
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_semaphore_new(one, "sem", 1, 0, &lock, &error), &error);
    freeReplyObject(redis_server_command(&server, "SET sem 0"));
    freeReplyObject(redis_server_command(&server, "EVAL %s 0",
                                         "redis.call('ZADD', '{sem}:timeout', 9000000000000, '\\255:1\\0 \\n9876543210')"));
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(pawl_inspect(two, "sem", copy_entry, &entry, &error), 1);
    assert_true(entry.flags & PAWL_ENTRY_FOREIGN && entry.mode == PAWL_PERMITS && entry.permits == 1);
    assert_works(pawl_break(two, "sem", entry.token, PAWL_BREAK_NOW, &error), &error);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
}

/* Redisson #4462: a crash leaks no permit. */
static void test_permits_of_the_dead_come_back(void **state) {
    struct pawl *mortal = open_at(server.port, "", 500);
    struct pawl_lock *lock, *other;

    (void)state;
    assert_works(pawl_semaphore_new(mortal, "sem", 2, 0, &lock, &error), &error);
    assert_works(pawl_semaphore_new(two, "sem", 2, 0, &other, &error), &error);
    assert_works(pawl_acquire_permits(lock, 2, PAWL_FOREVER, &error), &error);
    freeReplyObject(redis_server_command(&server, "CLIENT PAUSE 0"));
    /* As if it had been killed: what it holds is renamed to an owner that nobody renews. */
    redis_server_integer(&server, "EVAL %s 1 {sem}:timeout",
                         "for i, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do local s = redis.call('ZSCORE', KEYS[1], m) "
                         "redis.call('ZREM', KEYS[1], m) redis.call('ZADD', KEYS[1], s, 'dead' .. i) end return 1");
    assert_works(pawl_acquire_permits(other, 2, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(mortal);
}

/* Who releases does not look whose time is up. The one that is first then, and had others before it until now, is told to look at once. */
static void test_late_permit_is_looked_for_at_once(void **state) {
    static const char dead[] = "0f8fad5b-d9cb-869f-a165-70867728950e:77:1"; /* a pawl's */
    enum { WAITERS = 3 };
    struct pawl_lock *held, *locks[WAITERS];
    struct taker takers[WAITERS];

    (void)state;
    assert_works(pawl_semaphore_new(one, "sem", WAITERS, 0, &held, &error), &error);
    assert_works(pawl_acquire_permits(held, 2, PAWL_FOREVER, &error), &error);
    assert_int_equal(redis_server_integer(&server, "ZADD {sem}:timeout 4000000000000 %s", dead), 1);
    assert_int_equal(redis_server_integer(&server, "DECR sem"), 0);
    for (int i = 0; i < WAITERS; i++) {
        assert_works(pawl_semaphore_new(two, "sem", WAITERS, 0, &locks[i], &error), &error);
        start_holder(&takers[i], locks[i], 1500); /* who waits asks by itself after two seconds */
        await_integer(&server, "ZCARD pawl:queue:{sem}", i + 1);
    }
    assert_int_equal(redis_server_integer(&server, "ZADD {sem}:timeout 1 %s", dead), 0);
    assert_works(pawl_release(held, &error), &error);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(end_taker(&takers[i]), 0);
    for (int i = 0; i < WAITERS; i++)
        pawl_lock_free(locks[i]);
    pawl_lock_free(held);
}

static void test_names_and_prefix(void **state) {
    static const char *const names[] = {"a{b", "a}b", "{x}y", "*?[", "ü", "a b"};
    struct pawl *prefixed = open_at(server.port, "?prefix=app:", 0);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pawl_lock *lock = mutex_of(prefixed, names[i]);
        struct pawl_entry entry;

        assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
        assert_int_equal(redis_server_integer(&server, "EXISTS app:%s", names[i]), 1);
        assert_int_equal(pawl_inspect(prefixed, NULL, copy_entry, &entry, &error), 1);
        assert_works(pawl_release(lock, &error), &error);
        pawl_lock_free(lock);
    }
    pawl_close(prefixed);
}

/* ---- The seed's stories --------------------------------------------------------------------------------------------------- */

/* (1) the first takes too long, its lock expires; (2) the second enters; (3) the first is done and releases; (4) that must not delete
 * the second's lock; (5) and so a third does not get in beside the second. */
static void test_wrongly_deleted_lock_in_five_steps(void **state) {
    struct pawl_lock *first = mutex_of(one, "lock"), *second = mutex_of(two, "lock"), *third;
    struct pawl *three = open_at(server.port, "", 0);

    (void)state;
    third = mutex_of(three, "lock");
    assert_works(pawl_acquire(first, PAWL_FOREVER, &error), &error);
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 1"));
    await_integer(&server, "EXISTS lock", 0);
    assert_works(pawl_acquire(second, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(first, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 1);
    assert_fails(PAWL_EHELD, pawl_acquire(third, 0, &error), &error);
    assert_works(pawl_release(second, &error), &error);
    pawl_lock_free(first);
    pawl_lock_free(second);
    pawl_lock_free(third);
    pawl_close(three);
}

/* (1) the first has seen that the lock is its own; (2) it is held up before it can delete it, and the lock expires; (3) the second enters;
 * (4) the first goes on. What holds it up here is the way to the server, where check and delete are one step: it finds another's lock. */
static void pause_between_check_and_delete(const char *options, const char *key) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *slow = open_at(proxy_port(proxy), options, 3600000), *quick = open_at(server.port, options, 0);
    struct pawl_lock *first = mutex_of(slow, key), *second = mutex_of(quick, key), *third = mutex_of(slow, key);
    long scripts;

    assert_works(pawl_acquire(first, PATIENCE_MS, &error), &error);
    proxy_freeze(proxy, true);
    assert_works(pawl_release(first, &error), &error); /* it is on its way */
    freeReplyObject(redis_server_command(&server, "PEXPIRE %s 1", key));
    assert_works(pawl_acquire(second, PATIENCE_MS, &error), &error);
    scripts = redis_server_scripts(&server);
    proxy_freeze(proxy, false);
    await(redis_server_scripts(&server) > scripts, "the release never arrives");
    assert_int_equal(redis_server_integer(&server, "EXISTS %s", key), 1);
    assert_fails(PAWL_EHELD, pawl_acquire(third, 0, &error), &error);
    assert_works(pawl_release(second, &error), &error);
    pawl_lock_free(first);
    pawl_lock_free(second);
    pawl_lock_free(third);
    pawl_close(slow);
    pawl_close(quick);
    proxy_free(proxy);
}

static void test_pause_between_check_and_delete(void **state) {
    (void)state;
    pause_between_check_and_delete("?layout=redisson", "lock");
    pause_between_check_and_delete("?layout=plain", "plain");
}

/* ---- The queue ------------------------------------------------------------------------------------------------------------ */

static pid_t start_waiting_process(void) {
    const char *pawl = getenv("PAWL") ? getenv("PAWL") : "pawl";
    pid_t pid = fork();
    char url[64];

    if (pid == 0) {
        snprintf(url, sizeof url, "redis://127.0.0.1:%u", server.port);
        execlp(pawl, "pawl", "run", "-u", url, "lock", "--", "true", (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* What becomes of one that waits behind a process which is sent this signal before it is served? It must be served all the same. */
static void signalled_head_of_the_queue(int number) {
    struct pawl_lock *held = mutex_of(one, "lock"), *behind = mutex_of(two, "lock");
    struct taker taker;
    pid_t pid;

    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    pid = start_waiting_process();
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    start_taker(&taker, behind, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 2);
    kill(pid, number);
    if (number == SIGKILL)
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    if (number != SIGKILL) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    pawl_lock_free(held);
    pawl_lock_free(behind);
}

/* Redisson #6150: a fair waiter that was killed blocked the others for minutes. */
static void test_killed_head_of_the_queue(void **state) {
    (void)state;
    signalled_head_of_the_queue(SIGKILL);
}

/* A winner that was frozen costs the others the claim's time, no more. That it does not believe the grant when it wakes is
 * test_grant_that_lay_in_the_socket (test_redis_lease.c). */
static void test_frozen_winner_costs_its_claim(void **state) {
    (void)state;
    signalled_head_of_the_queue(SIGSTOP);
}

/* Hand the lock to one that waits, after this was done to what its client knows of the server's clock. How often it then asks. */
static long asks_when_granted(void (*disturb)(struct home *home)) {
    struct pawl_lock *held = mutex_of(one, "lock"), *behind = mutex_of(two, "lock");
    struct taker taker;
    long before;

    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    start_taker(&taker, behind, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    await(!owes_answers(server_of(two)), "the answer never comes");
    pawl__redis_lock(redis_of(two->engine));
    disturb(home_of(server_of(two)));
    pawl__redis_unlock(redis_of(two->engine));
    before = redis_server_scripts(&server);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(held);
    pawl_lock_free(behind);
    return redis_server_scripts(&server) - before - 2; /* the releases */
}

static void leave_it(struct home *home) {
    (void)home;
}

/* As if it had been set forward since its last answer. */
static void set_forward(struct home *home) {
    home->clock.sample_server -= 10000000;
}

static void set_back(struct home *home) {
    home->clock.sample_server += 10000000;
    home->clock.older_server = 0;
}

/* As if a second and a half had gone by since its last answer, at both ends: the grant may be as old, for the clock may have been set. */
static void age(struct home *home) {
    home->clock.sample_local -= 1500 * REDIS_MS;
    home->clock.sample_server -= 1500000;
}

/* As if another answer had overtaken the grant. */
static void overtake(struct home *home) {
    home->clock.older_local = home->clock.sample_local;
    home->clock.older_server = home->clock.sample_server;
    home->clock.sample_server += 10000000;
}

/* How old a pushed grant is, the server's clock does not tell, which may have been set; but by our own clock it is no older than the last
 * request that was answered before it. */
static void test_grant_by_a_clock_that_is_off(void **state) {
    (void)state;
    assert_int_equal(asks_when_granted(leave_it), 0);
    assert_int_equal(asks_when_granted(set_forward), 0);
    assert_int_equal(asks_when_granted(overtake), 0);
    assert_int_equal(asks_when_granted(set_back), 1);
    assert_int_equal(asks_when_granted(age), 1);
}

/* Redisson #3004: a waiter that was dropped from the queue must come back by itself. */
static void test_waiter_that_was_dropped_queues_again(void **state) {
    struct pawl_lock *held = mutex_of(one, "lock"), *behind = mutex_of(two, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    start_taker(&taker, behind, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    freeReplyObject(redis_server_command(&server, "DEL pawl:queue:{lock}"));
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    assert_in_range(redis_server_integer(&server, "PTTL pawl:queue:{lock}"), 1, 120000); /* #5019: nothing is abandoned for ever */
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(held);
    pawl_lock_free(behind);
}

/* Redisson's fair lock: waiters that were told 0 ms spun. Here a waiter asks a few times a second at most, behind any kind of holder. */
static void test_waiters_do_not_spin(void **state) {
    struct pawl_lock *lock = mutex_of(one, "lock");
    struct taker taker;
    long long before;

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock " REDISSON " 1"));
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    before = commands();
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    assert_in_range(commands() - before, 0, 100); /* scripts count each of their commands */
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    freeReplyObject(redis_server_command(&server, "PUBLISH redisson_lock__channel:{lock} 0"));
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
}

/* Redisson #3573: one release may make room for several, and each of them is woken. */
static void test_one_release_wakes_all_that_fit(void **state) {
    enum { WAITERS = 3 };
    struct pawl_lock *held, *locks[WAITERS];
    struct pawl *clients[WAITERS];
    struct taker takers[WAITERS];

    (void)state;
    assert_works(pawl_semaphore_new(one, "sem", WAITERS, 0, &held, &error), &error);
    assert_works(pawl_acquire_permits(held, WAITERS, PAWL_FOREVER, &error), &error);
    for (int i = 0; i < WAITERS; i++) {
        clients[i] = open_at(server.port, "", 0);
        assert_works(pawl_semaphore_new(clients[i], "sem", WAITERS, 0, &locks[i], &error), &error);
        start_taker(&takers[i], locks[i], PAWL_FOREVER);
    }
    await_integer(&server, "ZCARD pawl:queue:{sem}", WAITERS);
    assert_works(pawl_release(held, &error), &error);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(end_taker(&takers[i]), 0);
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
    pawl_lock_free(held);
}

/* The plain family never publishes: the server itself tells when such a key changes. */
static void test_plain_holders_are_tracked(void **state) {
    struct pawl *client = open_at(server.port, "?layout=plain", 0);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;
    redisReply *list;

    (void)state;
    freeReplyObject(redis_server_command(&server, "SET lock redis-py-without-a-timeout"));
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    list = redis_server_command(&server, "CLIENT LIST");
    assert_contains(list->str, "flags=t");
    freeReplyObject(list);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void ignore_acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)why;
    (void)data;
    if (result == 0)
        pawl_release(lock, NULL);
}

/* Commands of scripts for each hand-off, with so many waiters. */
static double work_per_handoff(int waiters) {
    enum { HANDOFFS = 40 };
    struct pawl *client = open_at(server.port, "?handoff=0", 0);
    struct pawl_lock **locks = calloc((size_t)waiters, sizeof *locks), *held = mutex_of(one, "lock");
    long long before;
    int done = 0;

    assert_non_null(locks);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int i = 0; i < waiters; i++) {
        assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &locks[i], &error), &error);
        assert_works(pawl_acquire_start(locks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, ignore_acquired, NULL, &error), &error);
    }
    await(redis_server_plain(&server, "ZCARD pawl:queue:{lock}") == waiters, "not all of them queue");
    freeReplyObject(redis_server_command(&server, "CONFIG RESETSTAT"));
    before = commands();
    assert_works(pawl_release(held, &error), &error);
    while (done < HANDOFFS)
        done += pawl_dispatch(client);
    before = commands() - before;
    for (int i = 0; i < waiters; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
    pawl_lock_free(held);
    free(locks);
    return (double)before / HANDOFFS;
}

static void test_work_per_handoff_does_not_grow(void **state) {
    double few = work_per_handoff(50), many;

    (void)state;
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    many = work_per_handoff(1000);
    print_message("commands per hand-off: %.1f with 50 waiters, %.1f with 1000\n", few, many);
    assert_true(many < few * 2 + 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_mutex_is_a_redisson_rlock),
        TEST(test_release_is_published_for_redisson),
        TEST(test_acquire_and_release_are_a_script_each),
        TEST(test_reentry_costs_no_round_trip),
        TEST(test_redisson_holder_with_count_two),
        TEST(test_foreign_holder_that_expires),
        TEST(test_foreign_holder_without_end),
        TEST(test_foreign_holder_with_a_long_name),
        TEST(test_pawls_of_both_layouts),
        TEST(test_key_of_another_type_while_waiting),
        TEST(test_keys_of_other_types),
        TEST(test_kinds_with_fields_in_any_order),
        TEST(test_tokens_are_comparable_with_fenced_locks),
        TEST(test_rwlock_is_redissons),
        TEST(test_dead_reader_does_not_live_on_others_renewals),
        TEST(test_semaphore_is_redissons),
        TEST(test_permit_of_redissons_is_broken),
        TEST(test_permits_of_the_dead_come_back),
        TEST(test_late_permit_is_looked_for_at_once),
        TEST(test_names_and_prefix),
        TEST(test_wrongly_deleted_lock_in_five_steps),
        TEST(test_pause_between_check_and_delete),
        TEST(test_killed_head_of_the_queue),
        TEST(test_frozen_winner_costs_its_claim),
        TEST(test_grant_by_a_clock_that_is_off),
        TEST(test_waiter_that_was_dropped_queues_again),
        TEST(test_waiters_do_not_spin),
        TEST(test_one_release_wakes_all_that_fit),
        TEST(test_plain_holders_are_tracked),
        TEST(test_work_per_handoff_does_not_grow),
    };

    return run_redis_tests(argc, argv, "redis layout", tests, "test_killed_head_of_the_queue test_frozen_winner_costs_its_claim",
                           NULL, stop_server);
}
