/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_values.c - values beside locks: what was written is read byte for byte, only who holds writes, and only while it does. On
 * engines that have them; redlock: says that it has none.
 *
 * What the engine was asked is counted by the trace.
 */
#include "contract.h"

#include <sys/wait.h>
#include <unistd.h>

static struct pawl_error error;
static atomic_uint reads, writes;

static void count_line(enum pawl_log_level level, const char *text, void *data) {
    (void)level, (void)data;
    if (strstr(text, "> read its"))
        atomic_fetch_add(&reads, 1);
    if (strstr(text, "> write its"))
        atomic_fetch_add(&writes, 1);
}

static int set_up(void **state) {
    int rc = contract_set_up(state);

    atomic_store(&reads, 0);
    atomic_store(&writes, 0);
    return rc;
}

static void take(struct pawl_lock *lock) {
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
}

static void give(struct pawl_lock *lock) {
    assert_works(pawl_release(lock, &error), &error);
}

static void set(struct pawl_lock *lock, const char *text) {
    assert_works(pawl_value_set(lock, text, text ? strlen(text) : 0, &error), &error);
}

/* Is this its value, as the handle's owner reads it? NULL: there is none. */
static void assert_value(struct pawl_lock *lock, const char *text) {
    const struct pawl_value *value;

    assert_works(pawl_value_get(lock, &value, &error), &error);
    if (text) {
        assert_non_null(value);
        assert_int_equal(value->size, strlen(text));
        assert_memory_equal(value->bytes, text, value->size);
    } else {
        assert_null(value);
    }
    pawl_value_free(value);
}

static struct pawl_value look_at(struct pawl *client, const char *name) {
    const struct pawl_value *value;
    struct pawl_value copy = {0};

    assert_works(pawl_value_read(client, name, &value, &error), &error);
    if (value)
        copy = *value;
    copy.bytes = NULL;
    pawl_value_free(value);
    return copy;
}

/* ---- What is written is read ----------------------------------------------------------------------------------------------- */

static void test_value_round_trip(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    static const char bytes[] = "\0a\nb\xff\0";
    const struct pawl_value *value;

    (void)state;
    assert_value(lock, NULL);
    take(lock);
    assert_value(lock, NULL);
    assert_works(pawl_value_set(lock, bytes, sizeof bytes, &error), &error);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_value_get(i ? other : lock, &value, &error), &error);
        assert_int_equal(value->size, sizeof bytes);
        assert_memory_equal(value->bytes, bytes, sizeof bytes);
        assert_int_equal(value->token, pawl_token(lock));
        assert_true(value->version > 0 && value->written_ms > INT64_C(1500000000000));
        pawl_value_free(value);
    }
    set(lock, "");
    assert_value(lock, "");
    assert_value(other, "");
    give(lock);
    assert_value(lock, "");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_value_of_every_size(void **state) {
    static const size_t sizes[] = {1, 4095, 4096, PAWL_VALUE_MAX - 1, PAWL_VALUE_MAX};
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    static unsigned char bytes[PAWL_VALUE_MAX + 1];
    const struct pawl_value *value;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    take(lock);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_works(pawl_value_set(lock, bytes, sizes[i], &error), &error);
        assert_works(pawl_value_get(other, &value, &error), &error);
        assert_int_equal(value->size, sizes[i]);
        assert_memory_equal(value->bytes, bytes, sizes[i]);
        pawl_value_free(value);
    }
    assert_fails(PAWL_ETOOLARGE, pawl_value_set(lock, bytes, PAWL_VALUE_MAX + 1, &error), &error);
    assert_contains(error.text, "65536");
    assert_int_equal(look_at(two, "lock").size, PAWL_VALUE_MAX);
    give(lock);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_value_is_deleted(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    uint64_t version;

    (void)state;
    take(lock);
    set(lock, NULL); /* there was none */
    set(lock, "first");
    version = look_at(two, "lock").version;
    set(lock, NULL);
    assert_value(lock, NULL);
    assert_value(other, NULL);
    set(lock, "second");
    assert_value(other, "second");
    assert_true(look_at(two, "lock").version > version);
    give(lock);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_versions_and_tokens_rise(void **state) {
    struct pawl_lock *locks[] = {contract_mutex(one, 0), contract_mutex(two, 0)};
    struct pawl_value last = {0}, now;

    (void)state;
    for (int i = 0; i < 10; i++) {
        take(locks[i % 2]);
        for (int j = 0; j < 2; j++) {
            set(locks[i % 2], "same");
            now = look_at(one, "lock");
            assert_true(now.version > last.version);
            assert_int_equal(now.token, pawl_token(locks[i % 2]));
            last = now;
        }
        give(locks[i % 2]);
    }
    pawl_lock_free(locks[0]);
    pawl_lock_free(locks[1]);
}

static void test_value_outlives_its_writer(void **state) {
    struct pawl *client = contract_open("");
    struct pawl_lock *lock = contract_mutex(client, 0), *other = contract_mutex(two, 0);
    const struct pawl_value *value;

    (void)state;
    take(lock);
    set(lock, "kept");
    assert_works(pawl_value_get(lock, &value, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
    assert_memory_equal(value->bytes, "kept", 4); /* nor does what was got depend on them */
    pawl_value_free(value);
    pawl_value_free(NULL);
    assert_value(other, "kept");
    pawl_lock_free(other);
}

static bool is_no_path(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "/") == 0;
}

/* Each has its own, also of names that are no file names. */
static void test_values_of_odd_names(void **state) {
    char longest[2][256];
    const char *names[] = {".",        "..",      "a/b", "a%2Fb", "a_b", "a b", "/", "-x", "{a}", "a:b", "\xc3\xbc\xe4\xb8\xad",
                           longest[0], longest[1]};
    enum { COUNT = sizeof names / sizeof names[0] };
    struct pawl_lock *locks[COUNT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(longest[i], 'n', 255);
        longest[i][254] = (char)('0' + i);
        longest[i][255] = '\0';
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_works(pawl_mutex_new(one, names[i], 0, &locks[i], &error), &error);
        if (contract_engine->paths && is_no_path(names[i])) {
            assert_fails(PAWL_ENAME, pawl_acquire(locks[i], 0, &error), &error);
            assert_fails(PAWL_ENAME, pawl_value_set_as(one, names[i], 1, "x", 1, &error), &error);
            pawl_lock_free(locks[i]);
            locks[i] = NULL;
            continue;
        }
        take(locks[i]);
        set(locks[i], names[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (!locks[i])
            continue;
        assert_int_equal(look_at(two, names[i]).token, pawl_token(locks[i]));
        give(locks[i]);
        assert_value(locks[i], names[i]);
        pawl_lock_free(locks[i]);
    }
    assert_int_equal(look_at(two, "lock").version, 0);
}

static void test_note_is_apart(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    const struct pawl_value *value;
    int64_t now, later;

    (void)state;
    assert_works(pawl_note_get(other, &value, &now, &error), &error);
    assert_null(value);
    assert_true(now > INT64_C(1500000000000));
    take(lock);
    set(lock, "value");
    assert_works(pawl_note_set(lock, "note", 4, &error), &error);
    assert_value(other, "value");
    assert_works(pawl_note_get(other, &value, &later, &error), &error);
    assert_int_equal(value->size, 4);
    assert_memory_equal(value->bytes, "note", 4);
    assert_int_equal(value->token, pawl_token(lock));
    assert_true(value->written_ms >= now - 1000 && later >= value->written_ms - 1000);
    pawl_value_free(value);
    set(lock, NULL);
    assert_works(pawl_note_get(lock, &value, NULL, &error), &error);
    assert_non_null(value);
    pawl_value_free(value);
    give(lock);
    assert_fails(PAWL_ENOTHELD, pawl_note_set(lock, "late", 4, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* ---- Only who holds writes ------------------------------------------------------------------------------------------------- */

static void test_value_needs_a_hold(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);

    (void)state;
    take(lock);
    set(lock, "right");
    assert_fails(PAWL_ENOTHELD, pawl_value_set(other, "wrong", 5, &error), &error);
    give(lock);
    assert_fails(PAWL_ENOTHELD, pawl_value_set(lock, "wrong", 5, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_value_set(lock, NULL, 5, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_value_set(NULL, "", 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_value_get(lock, NULL, &error), &error);
    assert_value(other, "right");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_reader_may_not_write(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0);

    (void)state;
    take(lock);
    set(lock, "by a writer");
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_value_set(lock, "by a reader", 11, &error), &error);
    assert_contains(error.text, "shared");
    assert_value(lock, "by a writer");
    assert_works(pawl_release_shared(lock, &error), &error);
    pawl_lock_free(lock);
}

static void test_semaphore_has_no_value(void **state) {
    struct pawl_lock *lock = contract_semaphore(one, 2, 0);
    const struct pawl_value *value;

    (void)state;
    take(lock);
    assert_fails(PAWL_EKIND, pawl_value_set(lock, "x", 1, &error), &error);
    assert_fails(PAWL_EKIND, pawl_value_get(lock, &value, &error), &error);
    assert_fails(PAWL_EKIND, pawl_value_set_as(one, "lock", pawl_token(lock), "x", 1, &error), &error);
    give(lock);
    pawl_lock_free(lock);
}

/* Another was let in over its head. It may not know yet: the server does. */
static void test_deposed_writer(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);

    (void)state;
    take(lock);
    set(lock, "before");
    assert_works(pawl_break(two, "lock", pawl_token(lock), PAWL_BREAK_NOW, &error), &error);
    assert_fails(PAWL_ELOST, pawl_value_set(lock, "after", 5, &error), &error);
    assert_value(other, "before");
    take(other);
    set(other, "next");
    assert_fails(PAWL_ELOST, pawl_value_set(lock, "after", 5, &error), &error);
    assert_fails(PAWL_ELOST, pawl_value_set(lock, NULL, 0, &error), &error);
    assert_fails(PAWL_ELOST, pawl_note_set(lock, "after", 5, &error), &error);
    assert_value(other, "next");
    give(other);
    assert_int_equal(pawl_release(lock, NULL), PAWL_ELOST);
    assert_value(lock, "next");
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* It is still in the way, but must not write. */
static void test_broken_writer(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    uint64_t token;

    (void)state;
    take(lock);
    token = pawl_token(lock);
    set(lock, "before");
    assert_works(pawl_break(two, "lock", token, 0, &error), &error);
    assert_fails(PAWL_ELOST, pawl_value_set(lock, "after", 5, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", token, "after", 5, &error), &error);
    assert_value(other, "before");
    assert_int_equal(pawl_release(lock, NULL), PAWL_ELOST);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_write_by_token(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    uint64_t token, version;

    (void)state;
    take(lock);
    token = pawl_token(lock);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", 0, "x", 1, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", token + 100000, "x", 1, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "another", token, "x", 1, &error), &error);
    assert_fails(PAWL_ENAME, pawl_value_set_as(two, "", token, "x", 1, &error), &error);
    assert_int_equal(look_at(two, "lock").version, 0);
    assert_works(pawl_value_set_as(two, "lock", token, "by a child", 10, &error), &error);
    assert_int_equal(look_at(one, "lock").token, token);
    assert_value(lock, "by a child");
    version = look_at(one, "lock").version;
    set(lock, "by the holder");
    assert_works(pawl_value_set_as(two, "lock", token, "again", 5, &error), &error);
    assert_true(look_at(one, "lock").version > version);
    give(lock);
    take(lock);
    if (!contract_engine->keep) /* it was given back: this is another entry */
        assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", token, "late", 4, &error), &error);
    assert_value(lock, "again");
    assert_works(pawl_value_set_as(two, "lock", pawl_token(lock), NULL, 0, &error), &error);
    assert_int_equal(look_at(two, "lock").version, 0);
    give(lock);
    pawl_lock_free(lock);
}

/* A hold that another thread of the process was handed has a token of its own, and so has what it writes. */
static void test_each_hold_writes_its_token(void **state) {
    struct pawl_lock *first = contract_mutex(one, PAWL_TASK), *second = contract_mutex(one, PAWL_TASK);
    struct contract_thread thread;
    uint64_t tokens[2];

    (void)state;
    take(first);
    tokens[0] = pawl_token(first);
    set(first, "first");
    contract_start(&thread, second, PAWL_EXCLUSIVE, PATIENCE_MS);
    give(first);
    assert_int_equal(contract_await(&thread), 0);
    assert_value(second, "first");
    set(second, "second");
    tokens[1] = pawl_token(second);
    assert_true(tokens[1] > tokens[0]);
    assert_int_equal(look_at(two, "lock").token, tokens[1]);
    assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", tokens[0], "by a child", 10, &error), &error);
    assert_int_equal(look_at(two, "lock").token, tokens[1]);
    assert_works(pawl_value_set_as(two, "lock", tokens[1], "by a child", 10, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_value_set(first, "late", 4, &error), &error);
    contract_finish(&thread);
    pawl_lock_free(first);
    pawl_lock_free(second);
}

/* A deletion is a write: who held before does not write after it. On ZooKeeper nothing is left that would say so, and it is written where
 * both had one node (docs/zookeeper.md), whose tokens are 128. */
static void test_each_hold_deletes_by_its_token(void **state) {
    struct pawl_lock *first = contract_mutex(one, PAWL_TASK), *second = contract_mutex(one, PAWL_TASK);
    struct contract_thread thread;
    uint64_t token;

    (void)state;
    take(first);
    token = pawl_token(first);
    set(first, "first");
    contract_start(&thread, second, PAWL_EXCLUSIVE, PATIENCE_MS);
    give(first);
    assert_int_equal(contract_await(&thread), 0);
    set(second, NULL);
    assert_int_equal(look_at(two, "lock").version, 0);
    if (contract_engine->paths && pawl_token(second) / 128 == token / 128) {
        assert_works(pawl_value_set_as(two, "lock", token, "by a child", 10, &error), &error);
        assert_true(look_at(two, "lock").token == token);
    } else {
        assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", token, "by a child", 10, &error), &error);
        assert_fails(PAWL_ETOKEN, pawl_value_set_as(two, "lock", token, NULL, 0, &error), &error);
        assert_int_equal(look_at(two, "lock").version, 0);
    }
    assert_works(pawl_value_set_as(two, "lock", pawl_token(second), "by its own", 10, &error), &error);
    contract_finish(&thread);
    pawl_lock_free(first);
    pawl_lock_free(second);
}

/* ---- From memory ------------------------------------------------------------------------------------------------------------ */

static void test_value_is_read_once(void **state) {
    struct pawl *client = contract_open_traced(count_line, NULL);
    struct pawl_lock *lock = contract_mutex(client, 0), *other = contract_mutex(two, 0);

    (void)state;
    take(lock);
    for (int i = 0; i < 5; i++)
        assert_value(lock, NULL);
    assert_int_equal(atomic_load(&reads), 1);
    set(lock, "mine");
    for (int i = 0; i < 5; i++)
        assert_value(lock, "mine"); /* what one has written oneself is known */
    assert_int_equal(atomic_load(&reads), 1);
    assert_int_equal(atomic_load(&writes), 1);
    give(lock);
    take(other);
    set(other, "theirs");
    assert_value(lock, "theirs"); /* not held: asked each time */
    assert_value(lock, "theirs");
    assert_int_equal(atomic_load(&reads), 3);
    give(other);
    take(lock);
    assert_value(lock, "theirs");
    give(lock);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(client);
}

static void test_readers_see_what_was_written(void **state) {
    struct pawl *client = contract_open_traced(count_line, NULL);
    struct pawl_lock *reader = contract_rwlock(client, 0), *second = contract_rwlock(client, PAWL_TASK),
                     *writer = contract_rwlock(two, 0);
    char text[16];

    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "%d", i);
        take(writer);
        set(writer, text);
        give(writer);
        atomic_store(&reads, 0);
        assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
        assert_value(reader, text);
        assert_value(reader, text);
        assert_int_equal(atomic_load(&reads), 1);
        assert_works(pawl_release_shared(reader, &error), &error);
        assert_works(pawl_acquire_shared(second, PATIENCE_MS, &error), &error);
        assert_value(second, text);
        assert_works(pawl_release_shared(second, &error), &error);
    }
    pawl_lock_free(reader);
    pawl_lock_free(second);
    pawl_lock_free(writer);
    pawl_close(client);
}

/* ---- At the edges ----------------------------------------------------------------------------------------------------------- */

static void test_values_after_close_and_fork(void **state) {
    struct pawl *client = contract_open("");
    struct pawl_lock *lock = contract_mutex(client, 0);
    const struct pawl_value *value;
    int status;
    pid_t pid;

    (void)state;
    take(lock);
    set(lock, "parent");
    if ((pid = fork()) == 0) {
        bool refused = pawl_value_set(lock, "child", 5, NULL) == PAWL_EFORKED &&
                       pawl_value_get(lock, &value, NULL) == PAWL_EFORKED &&
                       pawl_value_read(client, "lock", &value, NULL) == PAWL_EFORKED &&
                       pawl_value_set_as(client, "lock", 1, "child", 5, NULL) == PAWL_EFORKED;

        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    set(lock, "parent again");
    pawl_close(client);
    assert_fails(PAWL_ECLOSED, pawl_value_set(lock, "late", 4, &error), &error);
    assert_fails(PAWL_ECLOSED, pawl_value_get(lock, &value, &error), &error);
    pawl_lock_free(lock);
    lock = contract_mutex(two, 0);
    assert_value(lock, "parent again");
    pawl_lock_free(lock);
}

/* Who only looks reads, and does not write. */
static void test_values_of_who_only_looks(void **state) {
    struct pawl *client = contract_open_as("", (struct pawl_options){.flags = PAWL_OPEN_LOOK});
    struct pawl_lock *lock = contract_mutex(one, 0);
    const struct pawl_value *value;

    (void)state;
    assert_works(pawl_value_read(client, "lock", &value, &error), &error);
    assert_null(value);
    take(lock);
    set(lock, "seen");
    assert_works(pawl_value_read(client, "lock", &value, &error), &error);
    assert_memory_equal(value->bytes, "seen", 4);
    pawl_value_free(value);
    assert_fails(PAWL_EINVAL, pawl_value_set_as(client, "lock", pawl_token(lock), "x", 1, &error), &error);
    give(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_no_values_here(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);
    const struct pawl_value *value;

    (void)state;
    take(lock);
    assert_fails(PAWL_EUNSUPPORTED, pawl_value_set(lock, "x", 1, &error), &error);
    assert_contains(error.text, contract_engine->engine ? contract_engine->engine : contract_engine->name);
    assert_fails(PAWL_EUNSUPPORTED, pawl_value_set_as(one, "lock", 1, "x", 1, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_value_get(lock, &value, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_value_read(one, "lock", &value, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_note_set(lock, "x", 1, &error), &error);
    assert_fails(PAWL_EUNSUPPORTED, pawl_note_get(lock, &value, NULL, &error), &error);
    give(lock);
    pawl_lock_free(lock);
}

#define VALUE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, contract_tear_down)

int contract_run_values(void) {
    const struct CMUnitTest tests[] = {
        VALUE_TEST(test_value_round_trip),
        VALUE_TEST(test_value_of_every_size),
        VALUE_TEST(test_value_is_deleted),
        VALUE_TEST(test_versions_and_tokens_rise),
        VALUE_TEST(test_value_outlives_its_writer),
        VALUE_TEST(test_values_of_odd_names),
        VALUE_TEST(test_note_is_apart),
        VALUE_TEST(test_value_needs_a_hold),
        VALUE_TEST(test_reader_may_not_write),
        VALUE_TEST(test_semaphore_has_no_value),
        VALUE_TEST(test_deposed_writer),
        VALUE_TEST(test_broken_writer),
        VALUE_TEST(test_write_by_token),
        VALUE_TEST(test_each_hold_writes_its_token),
        VALUE_TEST(test_each_hold_deletes_by_its_token),
        VALUE_TEST(test_value_is_read_once),
        VALUE_TEST(test_readers_see_what_was_written),
        VALUE_TEST(test_values_after_close_and_fork),
        VALUE_TEST(test_values_of_who_only_looks),
    };
    const struct CMUnitTest none[] = {VALUE_TEST(test_no_values_here)};

    if (contract_engine->no_values)
        return contract_run_group(none, 1, "");
    return contract_run_group(tests, sizeof tests / sizeof tests[0],
                              "test_reader_may_not_write test_semaphore_has_no_value test_readers_see_what_was_written");
}
