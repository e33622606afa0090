/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_values.c - what lies beside a lock on a server: key by key; writes whose answers are lost, or that arrive late; and what the
 * server can't do, or may not.
 */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/redis_one.h"
#include "os/bell.h"

#define LEASE_MS 6000

static struct proxy *proxy;
static struct pawl *far, *near; /* through the proxy; straight */
static struct pawl_lock *lock, *other;

static void open_both(const char *options) {
    far = open_at(proxy_port(proxy), options, LEASE_MS);
    near = open_at(server.port, options + (options[0] && strstr(options, "command=150") ? strlen("?command=150") : 0), LEASE_MS);
    lock = mutex_of(far, "lock");
    other = mutex_of(near, "lock");
}

static int set_up(void **state) {
    empty_server(state);
    proxy = proxy_new(server.port, NULL, NULL, NULL);
    open_both("?command=150");
    return 0;
}

static void close_both(void) {
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(far);
    pawl_close(near);
}

static int tear_down(void **state) {
    (void)state;
    proxy_end(proxy);
    close_both();
    proxy_free(proxy);
    return 0;
}

static void take(struct pawl_lock *which) {
    assert_works(pawl_acquire(which, PATIENCE_MS, &error), &error);
}

static void drop(struct pawl_lock *which) {
    assert_works(pawl_release(which, &error), &error);
}

static int put(struct pawl_lock *which, const char *text) {
    return pawl_value_set(which, text, text ? strlen(text) : 0, &error);
}

/* What the server has, as other programs read it. */
static void assert_stored(const char *text) {
    redisReply *reply = redis_server_command(&server, "HGET pawl:value:{lock} value");

    if (text)
        assert_string_equal(reply->type == REDIS_REPLY_STRING ? reply->str : "(nothing)", text);
    else
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    freeReplyObject(reply);
}

/* How many writes have reached the server: nothing else that is done here reads a field. */
static long long writes(void) {
    redisReply *info = redis_server_command(&server, "INFO commandstats");
    const char *at = strstr(info->str, "cmdstat_hget:calls=");
    long long count = at ? atoll(at + strlen("cmdstat_hget:calls=")) : 0;

    freeReplyObject(info);
    return count;
}

/* Of its connection for commands: which one it is; 0: it is down. */
static unsigned connection_of(struct pawl *client) {
    const struct server *at = server_of(client);
    unsigned number;

    pawl__redis_lock(at->redis);
    number = at->commands.state == LINK_UP ? at->commands.number : 0;
    pawl__redis_unlock(at->redis);
    return number;
}

/* ---- Where it lies -------------------------------------------------------------------------------------------------------- */

static void test_value_is_a_hash(void **state) {
    const struct pawl_value *value;
    uint64_t version;

    (void)state;
    take(lock);
    assert_works(put(lock, "one"), &error);
    assert_stored("one");
    assert_int_equal(redis_server_integer(&server, "HLEN pawl:value:{lock}"), 5);
    assert_true(redis_server_integer(&server, "HGET pawl:value:{lock} token") == (long long)pawl_token(lock));
    assert_works(pawl_value_read(near, "lock", &value, &error), &error);
    version = value->version;
    assert_true(redis_server_integer(&server, "HGET pawl:value:{lock} version") == (long long)version);
    assert_true(redis_server_integer(&server, "HGET pawl:value:{lock} time") / 1000 == value->written_ms);
    assert_int_equal(redis_server_integer(&server, "PTTL pawl:value:{lock}"), -1);
    pawl_value_free(value);
    assert_works(put(lock, NULL), &error);
    assert_stored(NULL);
    assert_works(pawl_value_read(near, "lock", &value, &error), &error);
    assert_null(value);
    assert_true(redis_server_integer(&server, "HGET pawl:value:{lock} version") > (long long)version);
    assert_works(pawl_note_set(lock, "note", 4, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS pawl:note:{lock}"), 1);
    drop(lock);
}

/* The server's clock was ahead once, or is set back. */
static void test_version_rises_without_the_clock(void **state) {
    const struct pawl_value *value;

    (void)state;
    take(lock);
    assert_works(put(lock, "one"), &error);
    freeReplyObject(
        redis_server_command(&server, "HSET pawl:value:{lock} version %s by %s", "8000000000000000", "other 1 8000000000000000"));
    assert_works(put(lock, "two"), &error);
    assert_works(pawl_value_read(near, "lock", &value, &error), &error);
    assert_true(value->version == UINT64_C(8000000000000001));
    pawl_value_free(value);
    drop(lock);
}

/* A name with a brace of its own is not put into braces. */
static void test_names_with_braces(void **state) {
    struct pawl_lock *braced = mutex_of(near, "{shop}stock");

    (void)state;
    take(braced);
    assert_works(put(braced, "x"), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS pawl:value:{shop}stock"), 1);
    drop(braced);
    pawl_lock_free(braced);
}

static void test_plain_layout(void **state) {
    (void)state;
    close_both();
    open_both("?layout=plain");
    take(lock);
    assert_works(put(lock, "one"), &error);
    assert_stored("one");
    assert_works(pawl_value_set_as(near, "lock", pawl_token(lock), "two", 3, &error), &error);
    assert_stored("two");
    assert_works(pawl_break(near, "lock", pawl_token(lock), PAWL_BREAK_NOW, &error), &error);
    assert_fails(PAWL_ELOST, put(lock, "three"), &error);
    assert_stored("two");
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
}

static void test_read_write_lock(void **state) {
    struct pawl_lock *rwlock;

    (void)state;
    assert_works(pawl_rwlock_new(near, "rw", 0, &rwlock, &error), &error);
    take(rwlock);
    assert_works(put(rwlock, "written"), &error);
    assert_works(pawl_value_set_as(far, "rw", pawl_token(rwlock), "as", 2, &error), &error);
    assert_works(pawl_downgrade(rwlock, &error), &error);
    assert_true(put(rwlock, "shared") < 0);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(far, "rw", pawl_token(rwlock), "no", 2, &error), &error);
    assert_works(pawl_release_shared(rwlock, &error), &error);
    pawl_lock_free(rwlock);
}

/* Redisson's read-write lock enters although a mutex is held: then nobody holds it alone. */
static void test_one_that_entered_beside(void **state) {
    (void)state;
    take(lock);
    freeReplyObject(redis_server_command(&server, "HSET lock mode write 0f8fad5b-d9cb-469f-a165-70867728950e:77:write 1"));
    assert_fails(PAWL_ELOST, put(lock, "mine"), &error);
    assert_stored(NULL);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    pawl_release(lock, NULL);
}

/* ---- Answers that are lost, and requests that are late -------------------------------------------------------------------- */

static void test_answer_to_a_write_is_lost(void **state) {
    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error); /* the server knows the script */
    proxy_drop_answer_to(proxy, "pawl:value:{lock}");
    assert_works(put(lock, "one"), &error);
    assert_true(proxy_dropped(proxy));
    assert_stored("one");
    drop(lock);
}

/* Another may have written in the same hold's name before it was asked again: so what is there is not what this one wrote, nor is the
 * version. */
static void test_written_and_overwritten_by_token(void **state) {
    const struct pawl_value *value;

    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error);
    proxy_drop_answer_to(proxy, "pawl:value:{lock}");
    assert_works(put(lock, "one"), &error);
    assert_true(proxy_dropped(proxy));
    assert_works(pawl_value_set_as(near, "lock", pawl_token(lock), "two", 3, &error), &error);
    assert_works(pawl_value_get(lock, &value, &error), &error);
    assert_int_equal(value->size, 3);
    assert_memory_equal(value->bytes, "two", 3);
    pawl_value_free(value);
    drop(lock);
}

/* So it is with a deletion. */
static void test_deleted_and_written_by_token(void **state) {
    const struct pawl_value *value;

    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error);
    proxy_drop_answer_to(proxy, "pawl:value:{lock}");
    assert_works(pawl_value_set(lock, NULL, 0, &error), &error);
    assert_true(proxy_dropped(proxy));
    assert_works(pawl_value_set_as(near, "lock", pawl_token(lock), "two", 3, &error), &error);
    assert_works(pawl_value_get(lock, &value, &error), &error);
    assert_non_null(value);
    assert_memory_equal(value->bytes, "two", 3);
    pawl_value_free(value);
    drop(lock);
}

/* It was carried out, and before it could ask again the hold was broken: that is no loss of the write. */
static void test_written_and_then_broken(void **state) {
    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error);
    proxy_drop_answer_to(proxy, "pawl:value:{lock}");
    assert_works(put(lock, "one"), &error);
    assert_works(pawl_break(near, "lock", pawl_token(lock), PAWL_BREAK_NOW, &error), &error);
    assert_fails(PAWL_ELOST, put(lock, "two"), &error);
    assert_stored("one");
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
}

/* The holder's record, `FIRST COUNT MODE ...`, with another first token and another mode. */
static void change_record(const char *first, char mode) {
    redisReply *fields = redis_server_command(&server, "HGETALL lock");
    int at = fields->element[0]->str[0] == '@' ? 0 : 2;
    char *rest = strchr(fields->element[at + 1]->str, ' '), *was = strstr(rest, " x "), record[512];

    assert_non_null(was);
    was[1] = mode;
    snprintf(record, sizeof record, "%s%s", first, rest);
    freeReplyObject(redis_server_command(&server, "HSET lock %s %s", fields->element[at]->str, record));
    freeReplyObject(fields);
}

/* A broken hold is in the way until it is released, and writes nothing. */
static void test_broken_and_not_gone(void **state) {
    (void)state;
    take(lock);
    assert_works(put(lock, "one"), &error);
    change_record("0", 'X'); /* as `pawl break` does it, without telling the holder */
    assert_fails(PAWL_ELOST, put(lock, "two"), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", pawl_token(lock), "two", 3, &error), &error);
    assert_stored("one");
    pawl_release(lock, NULL);
}

/* The connection of the commands holds back what it has, and lets it go when there is another that has written since. */
static void test_a_write_that_is_overtaken(void **state) {
    unsigned connection = connection_of(far);
    long long before;

    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error);
    for (unsigned i = 1; connection_of(far) == connection; i++) { /* which of the first connections is it? */
        assert_in_range(i, 1, 3);
        proxy_end(proxy);
        proxy_begin(proxy, PROXY_FAULT_FREEZE, 1000, i, 0);
        assert_works(put(lock, "one"), &error); /* over the next one, if it is */
    }
    assert_works(put(lock, "two"), &error);
    before = writes();
    assert_true(before > 0);
    proxy_end(proxy);
    await(writes() > before, "what was held back never comes");
    assert_stored("two");
    drop(lock);
}

static void test_a_write_of_the_deposed_is_late(void **state) {
    long long before;

    (void)state;
    take(lock);
    assert_works(put(lock, "zero"), &error);
    proxy_begin(proxy, PROXY_FAULT_FREEZE, 1, 0, 0);
    assert_fails(PAWL_EUNKNOWN, put(lock, "late"), &error);
    assert_works(pawl_break(near, "lock", pawl_token(lock), PAWL_BREAK_NOW, &error), &error);
    take(other);
    assert_works(put(other, "new"), &error);
    before = writes();
    proxy_end(proxy);
    await(writes() > before, "what was held back never comes");
    assert_stored("new");
    drop(other);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
}

/* What the server has when the claim of a hold that ended is granted once more, since acquire was on its way a second time. Another has
 * held it meanwhile. */
static void grant_again(const char *records) {
    freeReplyObject(redis_server_command(&server, "RENAME lock aside"));
    if (records)
        freeReplyObject(redis_server_command(&server, "RENAME %s aside-who", records));
    take(other);
    drop(other);
    freeReplyObject(redis_server_command(&server, "RENAME aside lock"));
    if (records)
        freeReplyObject(redis_server_command(&server, "RENAME aside-who %s", records));
    freeReplyObject(redis_server_command(&server, "INCR redisson_lock_token:{lock}"));
}

/* As in the common case: the record says nothing of the token, since the counter does. */
static void take_with_counter(void) {
    take(lock);
    drop(lock);
    take(lock);
    assert_works(put(lock, "one"), &error);
}

static void assert_writes_nothing(void) {
    assert_fails(PAWL_ELOST, put(lock, "late"), &error);
    assert_fails(PAWL_ELOST, put(lock, NULL), &error);
    assert_fails(PAWL_ELOST, pawl_note_set(lock, "late", 4, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", pawl_token(lock), "late", 4, &error), &error);
    assert_stored("one");
}

static void test_a_write_of_an_earlier_grant(void **state) {
    char token[24];

    (void)state;
    take_with_counter();
    snprintf(token, sizeof token, "%llu", (unsigned long long)pawl_token(lock) + 2);
    grant_again(NULL);
    assert_writes_nothing();
    change_record(token, 'x'); /* so it is after a grant out of the queue */
    freeReplyObject(redis_server_command(&server, "DEL redisson_lock_token:{lock}"));
    assert_writes_nothing();
    pawl_release(lock, NULL);
}

/* The server tells of a grant: to the holder of an earlier one it says that this is over. */
static void test_told_of_a_later_grant(void **state) {
    char owner[80], grant[128];
    redisReply *fields;
    uint64_t token;

    (void)state;
    take(lock);
    token = pawl_token(lock);
    fields = redis_server_command(&server, "HKEYS lock");
    snprintf(owner, sizeof owner, "%s", strpbrk(fields->element[0]->str, "@") ? fields->element[1]->str : fields->element[0]->str);
    freeReplyObject(fields);
    owner[36] = '\0'; /* UUID:NUMBER */
    for (unsigned later = 0; later < 2; later++) {
        snprintf(grant, sizeof grant, "g %s %llu 1 %llu %d", owner + 37, (unsigned long long)token + later,
                 (unsigned long long)token, LEASE_MS);
        assert_int_equal(pawl_state(lock), PAWL_HELD);
        assert_int_equal(redis_server_integer(&server, "PUBLISH pawl:inbox:%s %s", owner, grant), 1);
    }
    await(pawl_state(lock) == PAWL_LOST, "it is never told");
    assert_fails(PAWL_ELOST, put(lock, "late"), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
}

/* With the records in a key of their own. */
static void test_a_write_of_an_earlier_grant_plain(void **state) {
    (void)state;
    close_both();
    open_both("?layout=plain");
    take_with_counter();
    grant_again("pawl:who:{lock}");
    assert_writes_nothing();
    pawl_release(lock, NULL);
}

static void test_nobody_answers(void **state) {
    (void)state;
    take(lock);
    proxy_isolate(proxy, true);
    await(!connection_of(far), "it is never noticed");
    assert_fails(PAWL_ECONNLOST, put(lock, "one"), &error); /* nothing was sent */
    proxy_isolate(proxy, false);
    assert_works(put(lock, "two"), &error);
    drop(lock);
}

/* ---- In the name of a hold ------------------------------------------------------------------------------------------------ */

static void test_by_its_token(void **state) {
    uint64_t token;

    (void)state;
    take(lock);
    token = pawl_token(lock);
    assert_works(pawl_value_set_as(near, "lock", token, "one", 3, &error), &error);
    assert_stored("one");
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", token + 1, "two", 3, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "free", token, "two", 3, &error), &error);
    assert_stored("one");
    drop(lock);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", token, "two", 3, &error), &error);
    assert_stored("one");
}

/* A program that is not pawl may call itself nothing at all: it has no token either. */
static void test_by_a_token_of_nobody(void **state) {
    (void)state;
    freeReplyObject(redis_server_command(&server, "SET lock %s", ""));
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", 7, "x", 1, &error), &error);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    freeReplyObject(redis_server_command(&server, "HSET lock %s 1", ""));
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(near, "lock", 7, "x", 1, &error), &error);
    assert_stored(NULL);
}

/* The answer is lost, and is asked for again: what another wrote meanwhile stays. */
static void test_by_its_token_twice(void **state) {
    (void)state;
    take(other);
    assert_works(pawl_value_set_as(far, "lock", pawl_token(other), "zero", 4, &error), &error);
    proxy_drop_answer_to(proxy, "pawl:value:{lock}");
    assert_works(pawl_value_set_as(far, "lock", pawl_token(other), "one", 3, &error), &error);
    assert_works(put(other, "two"), &error);
    assert_works(pawl_value_set_as(far, "lock", pawl_token(other), "three", 5, &error), &error);
    assert_stored("three");
    for (int i = 0; i < 40; i++) /* who wrote is remembered of some, not of all */
        assert_works(pawl_value_set_as(far, "lock", pawl_token(other), "many", 4, &error), &error);
    assert_in_range(redis_server_integer(&server, "HSTRLEN pawl:value:{lock} by"), 100, 1024);
    drop(other);
}

static void test_semaphore_has_none(void **state) {
    struct pawl_lock *semaphore;

    (void)state;
    assert_works(pawl_semaphore_new(near, "sem", 3, 0, &semaphore, &error), &error);
    assert_works(pawl_acquire_permits(semaphore, 1, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_EKIND, pawl_value_set_as(far, "sem", pawl_token(semaphore), "x", 1, &error), &error);
    assert_int_equal(redis_server_integer(&server, "EXISTS pawl:value:{sem}"), 0);
    assert_works(pawl_release(semaphore, &error), &error);
    pawl_lock_free(semaphore);
}

/* ---- What others put there, and what the server can't --------------------------------------------------------------------- */

static void test_a_key_of_another_type(void **state) {
    const struct pawl_value *value;

    (void)state;
    freeReplyObject(redis_server_command(&server, "SET pawl:value:{lock} mine"));
    take(lock);
    assert_fails(PAWL_EKIND, put(lock, "one"), &error);
    assert_non_null(strstr(error.text, "pawl:value:{lock}"));
    assert_fails(PAWL_EFORMAT, pawl_value_read(near, "lock", &value, &error), &error);
    assert_int_equal(redis_server_integer(&server, "STRLEN pawl:value:{lock}"), 4);
    drop(lock);
}

static void test_what_pawl_did_not_write(void **state) {
    const struct pawl_value *value;
    char *large = calloc(1, PAWL_VALUE_MAX + 2);

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET pawl:value:{lock} value x"));
    assert_fails(PAWL_EFORMAT, pawl_value_read(near, "lock", &value, &error), &error);
    memset(large, 'x', PAWL_VALUE_MAX + 1);
    freeReplyObject(redis_server_command(&server, "HSET pawl:value:{lock} value %s token 1 version 1 time 1", large));
    assert_fails(PAWL_EFORMAT, pawl_value_read(near, "lock", &value, &error), &error);
    free(large);
    take(lock); /* a holder may put it right */
    assert_works(put(lock, "one"), &error);
    assert_stored("one");
    drop(lock);
}

static bool is_rung(const struct home *home) {
    struct pollfd bell = {.fd = home->read_bell, .events = POLLIN};

    return poll(&bell, 1, 0) == 1;
}

/* The service thread may read the answer of one that sleeps, because it was about to before that one began: then it wakes it. The one that
 * reads its own answer is awake. */
static void test_the_reader_is_woken(void **state) {
    struct redis *redis = redis_of(near->engine);
    bool awake, asleep;
    struct home *home;

    (void)state;
    pawl__redis_lock(redis);
    home = home_of(pawl__route_server(redis, "lock"));
    pawl__home_called(home);
    awake = is_rung(home);
    home->reader_sleeps = true;
    pawl__home_called(home);
    asleep = is_rung(home);
    home->reader_sleeps = false;
    bell_silence(home->read_bell);
    pawl__redis_unlock(redis);
    assert_false(awake);
    assert_true(asleep);
}

static bool sleeps(void) {
    struct redis *redis = redis_of(near->engine);
    bool so;

    pawl__redis_lock(redis);
    so = home_of(pawl__route_server(redis, "lock"))->reader_sleeps;
    pawl__redis_unlock(redis);
    return so;
}

static void *read_it(void *data) {
    const struct pawl_value *value = NULL;

    (void)data;
    assert_works(pawl_value_read(near, "lock", &value, &error), &error);
    pawl_value_free(value);
    return NULL;
}

static void test_who_waits_for_an_answer_sleeps(void **state) {
    pthread_t thread;

    (void)state;
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_it, NULL), 0);
    await(sleeps(), "it does not sleep");
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    pthread_join(thread, NULL);
    assert_false(sleeps());
}

static void test_script_is_forgotten(void **state) {
    (void)state;
    take(lock);
    assert_works(put(lock, "one"), &error);
    freeReplyObject(redis_server_command(&server, "SCRIPT FLUSH"));
    assert_works(put(lock, "two"), &error);
    assert_stored("two");
    drop(lock);
}

static void test_no_memory_left(void **state) {
    (void)state;
    take(lock);
    assert_works(put(lock, "one"), &error);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 1"));
    assert_fails(PAWL_ENOSPACE, put(lock, "two"), &error);
    assert_stored("one");
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 0"));
    drop(lock);
}

static void test_no_right_to_it(void **state) {
    struct pawl *poor;
    struct pawl_lock *poors;

    (void)state;
    freeReplyObject(redis_server_command(&server, "ACL SETUSER poor on >word ~* &* +@all"));
    poor = open_client(LEASE_MS, "redis://poor:word@127.0.0.1:%u", server.port);
    poors = mutex_of(poor, "lock");
    take(poors);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER poor -hset"));
    assert_fails(PAWL_EACCES, put(poors, "one"), &error);
    assert_stored(NULL);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER poor +hset"));
    drop(poors);
    pawl_lock_free(poors);
    pawl_close(poor);
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_value_is_a_hash),
        TEST(test_version_rises_without_the_clock),
        TEST(test_names_with_braces),
        TEST(test_plain_layout),
        TEST(test_read_write_lock),
        TEST(test_one_that_entered_beside),
        TEST(test_answer_to_a_write_is_lost),
        TEST(test_written_and_overwritten_by_token),
        TEST(test_deleted_and_written_by_token),
        TEST(test_written_and_then_broken),
        TEST(test_broken_and_not_gone),
        TEST(test_a_write_that_is_overtaken),
        TEST(test_a_write_of_the_deposed_is_late),
        TEST(test_a_write_of_an_earlier_grant),
        TEST(test_a_write_of_an_earlier_grant_plain),
        TEST(test_told_of_a_later_grant),
        TEST(test_nobody_answers),
        TEST(test_by_its_token),
        TEST(test_by_a_token_of_nobody),
        TEST(test_by_its_token_twice),
        TEST(test_semaphore_has_none),
        TEST(test_a_key_of_another_type),
        TEST(test_what_pawl_did_not_write),
        TEST(test_the_reader_is_woken),
        TEST(test_who_waits_for_an_answer_sleeps),
        TEST(test_script_is_forgotten),
        TEST(test_no_memory_left),
        TEST(test_no_right_to_it),
    };

    return run_redis_tests(argc, argv, "values", tests, "", NULL, stop_server);
}
