/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_values.c - values beside locks: where they lie, what a lost answer comes to, who is let write and who is not. The proxy
 * strikes at the multi by which a value is written, or lets others do something in that moment.
 */
#include "../support/zookeeper_harness.h"

#define VALUE "pawl.values/lock"

static char data[70000];

static void set(struct pawl_lock *lock, const char *text) {
    assert_works(pawl_value_set(lock, text, strlen(text), &error), &error);
}

static void fails_to_set(int code, struct pawl_lock *lock) {
    assert_fails(code, pawl_value_set(lock, "late", 4, &error), &error);
}

/* The bytes, and the rest if it is asked for. */
static void expect_of(const struct pawl_value *value, const char *text) {
    if (!text) {
        assert_null(value);
        return;
    }
    assert_non_null(value);
    assert_int_equal(value->size, strlen(text));
    assert_memory_equal(value->bytes, text, value->size);
}

/* What a client that does not hold reads. */
static void expect(struct pawl *client, const char *text) {
    const struct pawl_value *value;

    assert_works(pawl_value_read(client, "lock", &value, &error), &error);
    expect_of(value, text);
    pawl_value_free(value);
}

/* A lock that is held through the proxy, and a client that is not behind it. */
struct stage {
    struct pawl *client, *other;
    struct pawl_lock *lock, *next;
    uint64_t token;
};
static struct stage stage;

static void begin(bool with_value) {
    stage.client = open_proxied("");
    stage.other = open_direct("");
    stage.lock = new_mutex(stage.client, 0);
    stage.next = new_mutex(stage.other, 0);
    acquire(stage.lock);
    stage.token = pawl_token(stage.lock);
    if (with_value)
        set(stage.lock, "before");
}

static void end(void) {
    pawl_lock_free(stage.lock);
    pawl_lock_free(stage.next);
    pawl_close(stage.client);
    pawl_close(stage.other);
}

/* Delete the claim's node: as an expiry would, and nobody has heard of it yet. */
static void depose(void *ignored) {
    struct listing nodes = raw_list("");

    (void)ignored;
    assert_int_equal(nodes.count, 1);
    raw_delete("", nodes.names[0]);
}

/* ---- Where it lies ---------------------------------------------------------------------------------------------------------- */

static void test_a_line_and_the_bytes(void **state) {
    static const char bytes[] = "one\ntwo\0three";
    const struct pawl_value *value;
    uint64_t version;
    char line[128];

    (void)state;
    begin(false);
    expect(stage.other, NULL);
    assert_works(pawl_value_set(stage.lock, bytes, sizeof bytes, &error), &error);
    assert_int_equal(raw_get(VALUE, data, sizeof data), 1); /* made and set by one request */
    snprintf(line, sizeof line, "pawl-value 1 token=%llu by=", (unsigned long long)stage.token);
    assert_int_equal(strncmp(data, line, strlen(line)), 0);
    assert_memory_equal(strchr(data, '\n') + 1, bytes, sizeof bytes);
    assert_works(pawl_value_read(stage.other, "lock", &value, &error), &error);
    assert_int_equal(value->size, sizeof bytes);
    assert_memory_equal(value->bytes, bytes, sizeof bytes);
    assert_true(value->token == stage.token);
    version = value->version;
    pawl_value_free(value);
    assert_works(pawl_value_set(stage.lock, NULL, 0, &error), &error);
    assert_int_equal(raw_get(VALUE, data, sizeof data), ZNONODE);
    expect(stage.other, NULL);
    assert_works(pawl_value_set(stage.lock, NULL, 0, &error), &error); /* what is not there */
    set(stage.lock, "");
    assert_works(pawl_value_read(stage.other, "lock", &value, &error), &error);
    assert_int_equal(value->size, 0);
    assert_true(value->version > version);
    pawl_value_free(value);
    end();
}

static void test_as_large_as_can_be(void **state) {
    char *bytes = calloc(1, PAWL_VALUE_MAX);
    const struct pawl_value *value;

    (void)state;
    begin(false);
    assert_works(pawl_value_set(stage.lock, bytes, PAWL_VALUE_MAX, &error), &error);
    assert_works(pawl_value_read(stage.other, "lock", &value, &error), &error);
    assert_int_equal(value->size, PAWL_VALUE_MAX);
    assert_memory_equal(value->bytes, bytes, PAWL_VALUE_MAX);
    pawl_value_free(value);
    free(bytes);
    end();
}

/* Beside the locks: no lock's directory has a child more, and nobody takes the values for locks. */
static int count_entry(const struct pawl_entry *entry, void *count) {
    assert_string_equal(entry->name, "lock");
    ++*(int *)count;
    return 0;
}

static void test_values_are_no_locks(void **state) {
    struct pawl_lock *lock;
    int count = 0;

    (void)state;
    begin(true);
    assert_works(pawl_inspect(stage.other, NULL, count_entry, &count, &error), &error);
    assert_int_equal(count, 1);
    assert_int_equal(raw_list("").count, 1);
    assert_works(pawl_mutex_new(stage.other, "pawl.values", PAWL_TASK, &lock, &error), &error);
    assert_fails(PAWL_ENAME, pawl_acquire(lock, 0, &error), &error);
    pawl_lock_free(lock);
    end();
}

static void test_names_with_slashes_and_percents(void **state) {
    struct pawl *client = open_direct("");
    const struct pawl_value *value;
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_mutex_new(client, "a/b%2Fc", PAWL_TASK, &lock, &error), &error);
    acquire(lock);
    set(lock, "here");
    assert_int_equal(raw_get("pawl.values/a%2Fb%252Fc", data, sizeof data), 1);
    assert_works(pawl_value_read(client, "a/b%2Fc", &value, &error), &error);
    expect_of(value, "here");
    pawl_value_free(value);
    assert_fails(PAWL_ENAME, pawl_value_read(client, "a//b", &value, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_a_note_is_apart(void **state) {
    const struct pawl_value *note;
    int64_t now = 0;

    (void)state;
    begin(true);
    assert_works(pawl_note_get(stage.lock, &note, &now, &error), &error);
    assert_null(note);
    assert_true(llabs(now - (int64_t)time(NULL) * 1000) < 3600 * 1000); /* the same machine, or the same world */
    assert_works(pawl_note_set(stage.lock, "done", 4, &error), &error);
    assert_int_equal(raw_get(VALUE "%note", data, sizeof data), 1);
    assert_works(pawl_note_get(stage.lock, &note, NULL, &error), &error);
    expect_of(note, "done");
    pawl_value_free(note);
    expect(stage.other, "before");
    end();
}

/* The clock is there also where nothing was ever written, and the path is not either. */
static void test_the_clock_without_a_value(void **state) {
    struct pawl *client = open_direct("/deep/path");
    struct pawl_lock *lock = new_mutex(client, 0);
    const struct pawl_value *note;
    int64_t now = 0;

    (void)state;
    assert_works(pawl_note_get(lock, &note, &now, &error), &error);
    assert_null(note);
    assert_true(now > 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_what_no_pawl_wrote(void **state) {
    static const char *const junk[] = {"",
                                       "42",
                                       "pawl-value 2 token=1 by=x number=1\nnew",
                                       "pawl-value 1 token=1 number=1\n",
                                       "pawl-value 1 token=x by=y number=1\n",
                                       "pawl-value 1 token=1 by=y number=1"};
    const struct pawl_value *value;

    (void)state;
    begin(true);
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        raw_set(VALUE, junk[i]);
        assert_fails(PAWL_EFORMAT, pawl_value_read(stage.other, "lock", &value, &error), &error);
        assert_contains(error.text, "was not written by a pawl");
    }
    raw_set(VALUE, "pawl-value 1 later=yes token=1 by=y number=1 more=so\nbytes"); /* words of a later one */
    expect(stage.other, "bytes");
    raw_set(VALUE, "42");
    set(stage.lock, "anew");
    expect(stage.other, "anew");
    end();
}

/* Of a pawl's form, and larger than a pawl writes: callers trust PAWL_VALUE_MAX. */
static void test_larger_than_a_pawl_writes(void **state) {
    static char node[sizeof data] = "pawl-value 1 token=1 by=y number=1\n";
    size_t head = strlen(node);
    const struct pawl_value *value;

    (void)state;
    begin(true);
    memset(node + head, 'x', PAWL_VALUE_MAX);
    raw_set(VALUE, node);
    assert_works(pawl_value_read(stage.other, "lock", &value, &error), &error);
    assert_int_equal(value->size, PAWL_VALUE_MAX);
    pawl_value_free(value);
    node[head + PAWL_VALUE_MAX] = 'x';
    raw_set(VALUE, node);
    assert_fails(PAWL_EFORMAT, pawl_value_read(stage.other, "lock", &value, &error), &error);
    end();
}

/* ---- Answers that are lost -------------------------------------------------------------------------------------------------- */

static void lose(bool with_value, bool reply, const char *text) {
    begin(with_value);
    strike_at(OP_MULTI, reply, PROXY_CUT_BEFORE);
    assert_works(pawl_value_set(stage.lock, text, text ? strlen(text) : 0, &error), &error);
    await_strike();
    if (text)
        assert_int_equal(raw_get(VALUE, data, sizeof data), with_value ? 2 : 1); /* not written twice */
    expect(stage.other, text);
    assert_int_equal(pawl_state(stage.lock), PAWL_HELD);
    end();
}

static void test_the_answer_is_lost(void **state) {
    (void)state;
    lose(true, true, "after");
}

static void test_the_request_is_lost(void **state) {
    (void)state;
    lose(true, false, "after");
}

static void test_the_answer_to_the_first_is_lost(void **state) {
    (void)state;
    lose(false, true, "after");
}

static void test_the_answer_to_a_delete_is_lost(void **state) {
    (void)state;
    lose(true, true, NULL);
    lose(true, false, NULL);
}

/* Who may write it, and not read it, can't find out: it is not said that nothing was written. */
static void test_the_answer_is_lost_to_one_who_may_not_read(void **state) {
    char node[128];

    (void)state;
    begin(true);
    snprintf(node, sizeof node, "%s/" VALUE, harness_path());
    raw_permit_at(node, ZOO_PERM_WRITE);
    strike_at(OP_MULTI, true, PROXY_CUT_BEFORE);
    assert_fails(PAWL_EUNKNOWN, pawl_value_set(stage.lock, "after", 5, &error), &error);
    await_strike();
    raw_permit_at(node, ZOO_PERM_ALL);
    expect(stage.other, "after");
    end();
}

/* A write in a thread of its own. */
struct write {
    pthread_t thread;
    uint64_t token; /* 0: of the lock that is held through the proxy */
    struct pawl_error error;
    int result;
};

static void *write_main(void *argument) {
    struct write *write = argument;

    write->result = write->token ? pawl_value_set_as(stage.client, "lock", write->token, "mine", 4, &write->error)
                                 : pawl_value_set(stage.lock, "mine", 4, &write->error);
    return NULL;
}

static void write_start(struct write *write) {
    assert_int_equal(pthread_create(&write->thread, NULL, write_main, write), 0);
}

/* The connection is cut at the write, and does not come back until the claim's node is gone, and `then` was done. */
static int cut_and_depose(bool reply, void (*then)(void)) {
    struct write write = {.token = 0};

    begin(true);
    proxy_refuse(proxy, true); /* what is there stays, until it is cut */
    strike_at(OP_MULTI, reply, PROXY_CUT_BEFORE);
    write_start(&write);
    await_strike();
    depose(NULL);
    if (then)
        then();
    proxy_refuse(proxy, false);
    pthread_join(write.thread, NULL);
    return write.result;
}

static void next_writes(void) {
    acquire(stage.next);
    set(stage.next, "theirs");
}

static void next_deletes(void) {
    acquire(stage.next);
    assert_works(pawl_value_set(stage.next, NULL, 0, &error), &error);
}

static void test_written_and_then_deposed(void **state) {
    (void)state;
    assert_int_equal(cut_and_depose(true, NULL), 0);
    expect(stage.other, "mine");
    end();
}

static void test_deposed_before_it_was_sent_again(void **state) {
    (void)state;
    assert_int_equal(cut_and_depose(false, NULL), PAWL_ELOST); /* which is certain: what was there before still is */
    expect(stage.other, "before");
    end();
}

static void test_deposed_and_overwritten(void **state) {
    (void)state;
    assert_int_equal(cut_and_depose(true, next_writes), PAWL_EUNKNOWN);
    expect(stage.other, "theirs");
    end();
    assert_int_equal(cut_and_depose(false, next_writes), PAWL_EUNKNOWN);
    expect(stage.other, "theirs");
    end();
    assert_int_equal(cut_and_depose(true, next_deletes), PAWL_EUNKNOWN);
    expect(stage.other, NULL);
    end();
}

static void test_no_answer_in_time(void **state) {
    struct write write = {.token = 0};

    (void)state;
    begin(true);
    proxy_refuse(proxy, true);
    strike_at(OP_MULTI, true, PROXY_CUT_BEFORE);
    write_start(&write);
    await_strike();
    pthread_join(write.thread, NULL);
    assert_int_equal(write.result, PAWL_EUNKNOWN);
    assert_int_equal(write.error.code, PAWL_EUNKNOWN);
    fails_to_set(PAWL_ECONNLOST, stage.lock); /* never sent */
    proxy_refuse(proxy, false);
    end();
}

/* ---- Who may write ---------------------------------------------------------------------------------------------------------- */

static void test_deposed_in_the_moment_of_the_write(void **state) {
    (void)state;
    begin(true);
    strike_hook(OP_MULTI, depose, NULL);
    fails_to_set(PAWL_ELOST, stage.lock);
    expect(stage.other, "before");
    end();
}

static void test_deposed_before_the_first_value(void **state) {
    (void)state;
    begin(false);
    strike_hook(OP_MULTI, depose, NULL);
    fails_to_set(PAWL_ELOST, stage.lock);
    assert_int_equal(raw_get(VALUE, data, sizeof data), ZNONODE);
    end();
}

static void break_it(void *ignored) {
    (void)ignored;
    assert_works(pawl_break(stage.other, "lock", stage.token, 0, &error), &error);
}

static void test_broken_in_the_moment_of_the_write(void **state) {
    (void)state;
    begin(true);
    strike_hook(OP_MULTI, break_it, NULL);
    fails_to_set(PAWL_ELOST, stage.lock);
    expect(stage.other, "before");
    end();
}

static void test_the_session_expires(void **state) {
    (void)state;
    begin(true);
    expire(stage.client);
    fails_to_set(PAWL_ELOST, stage.lock);
    expect(stage.other, "before");
    end();
}

static void test_after_a_downgrade(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_rwlock(client, 0);
    const struct pawl_value *value;

    (void)state;
    acquire(lock);
    set(lock, "written");
    assert_works(pawl_downgrade(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_value_set(lock, "x", 1, &error), &error);
    assert_works(pawl_value_get(lock, &value, &error), &error);
    expect_of(value, "written");
    pawl_value_free(value);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- By token ----------------------------------------------------------------------------------------------------------------- */

static int set_as(struct pawl *client, uint64_t token, const char *text) {
    return pawl_value_set_as(client, "lock", token, text, strlen(text), &error);
}

static void test_by_token(void **state) {
    (void)state;
    begin(false);
    assert_works(set_as(stage.other, stage.token, "by token"), &error);
    expect(stage.other, "by token");
    assert_works(set_as(stage.other, stage.token + 5, "by another of its tokens"), &error);
    expect(stage.other, "by another of its tokens");
    assert_fails(PAWL_ETOKEN, set_as(stage.other, stage.token + 1000, "x"), &error);
    assert_works(pawl_break(stage.other, "lock", stage.token, 0, &error), &error);
    assert_fails(PAWL_ETOKEN, set_as(stage.other, stage.token, "x"), &error);
    expect(stage.other, "by another of its tokens");
    end();
    begin(false);
    release(stage.lock);
    await_nodes("", 0);
    assert_fails(PAWL_ETOKEN, set_as(stage.other, stage.token, "x"), &error);
    end();
}

static void test_by_token_of_other_kinds(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *semaphore = new_semaphore(client, 3), *mutex, *readers = new_rwlock(client, 0);

    (void)state;
    assert_works(pawl_acquire_shared(readers, PATIENCE_MS, &error), &error);
    assert_fails(PAWL_ETOKEN, set_as(client, pawl_token(readers), "x"), &error);
    assert_works(pawl_release_shared(readers, &error), &error);
    await_nodes("", 0);
    acquire(readers);
    assert_works(set_as(client, pawl_token(readers), "by a writer"), &error);
    release(readers);
    await_nodes("", 0);
    acquire(semaphore);
    assert_fails(PAWL_EKIND, set_as(client, pawl_token(semaphore), "x"), &error);
    release(semaphore);
    await_nodes("/leases", 0);
    mutex = new_mutex(client, PAWL_NONREENTRANT);
    acquire(mutex);
    assert_works(set_as(client, pawl_token(mutex), "by a lease"), &error);
    set(mutex, "by its own");
    expect(client, "by its own");
    pawl_lock_free(semaphore);
    pawl_lock_free(mutex);
    pawl_lock_free(readers);
    pawl_close(client);
}

/* A node that Curator made holds the lock: its token is as good. */
static void test_by_token_of_a_foreign_holder(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0);
    uint64_t token;

    (void)state;
    acquire(lock); /* which makes the path */
    pawl_lock_free(lock);
    await_nodes("", 0);
    raw_create("", "_c_5b0e7a3c-1f0a-4c1f-9d33-2f1f8f1e7a11-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    token = raw_token("");
    strike_at(OP_MULTI, true, PROXY_CUT_BEFORE);
    assert_works(set_as(client, token, "for Java"), &error);
    await_strike();
    expect(client, "for Java");
    assert_int_equal(raw_get(VALUE, data, sizeof data), 1);
    pawl_close(client);
}

/* The holder writes in the moment when a write by its token, whose answer was lost, is about to be sent again: it is not undone. */
static void holder_writes(void *ignored) {
    (void)ignored;
    set(stage.next, "by the holder");
}

static void test_by_token_and_by_the_holder(void **state) {
    (void)state;
    begin(true);
    release(stage.lock);
    acquire(stage.next);
    strike_hook(OP_MULTI, holder_writes, NULL); /* between its look and its write */
    assert_works(set_as(stage.client, pawl_token(stage.next), "by token"), &error);
    expect(stage.other, "by token"); /* it looked again, and came after */
    end();
}

/* A write by token is cut, and before its client is back the holder acts. */
static int cut_by_token(bool reply, void (*meanwhile)(void)) {
    struct write write = {.token = 0};

    begin(true);
    release(stage.lock);
    acquire(stage.next);
    write.token = pawl_token(stage.next);
    proxy_refuse(proxy, true);
    strike_at(OP_MULTI, reply, PROXY_CUT_BEFORE);
    write_start(&write);
    await_strike();
    meanwhile();
    proxy_refuse(proxy, false);
    pthread_join(write.thread, NULL);
    return write.result;
}

static void holder_writes_once(void) {
    set(stage.next, "by the holder");
}

static void holder_writes_twice(void) {
    holder_writes_once();
    holder_writes_once();
}

static void holder_deletes(void) {
    assert_works(pawl_value_set(stage.next, NULL, 0, &error), &error);
}

static void holder_writes_anew(void) {
    holder_deletes();
    holder_writes_once();
}

static void next_of_all_deletes(void) {
    release(stage.next);
    acquire(stage.next);
    holder_deletes();
}

/* One write has come since, and that is another's: so this one is sent. */
static void test_by_token_cut_before_it_left(void **state) {
    (void)state;
    assert_int_equal(cut_by_token(false, holder_writes_once), 0);
    expect(stage.other, "mine");
    end();
}

/* It may have been overwritten, or deleted, or never have left: nobody says that it was written, and it does not undo what was. */
static void expect_unknown(bool reply, void (*meanwhile)(void), const char *left) {
    assert_int_equal(cut_by_token(reply, meanwhile), PAWL_EUNKNOWN);
    expect(stage.other, left);
    end();
}

static void test_by_token_and_overwritten_by_the_holder(void **state) {
    (void)state;
    expect_unknown(true, holder_writes_once, "by the holder");
    expect_unknown(false, holder_writes_twice, "by the holder");
    expect_unknown(true, holder_writes_anew, "by the holder");
    expect_unknown(false, holder_writes_anew, "by the holder");
}

/* Also where the one who deleted it came later, and never saw it. */
static void test_by_token_and_deleted(void **state) {
    (void)state;
    expect_unknown(true, holder_deletes, NULL);
    expect_unknown(false, next_of_all_deletes, NULL);
}

/* ---- Several writers ---------------------------------------------------------------------------------------------------------- */

static void token_writes(void *ignored) {
    (void)ignored;
    assert_works(set_as(stage.other, stage.token, "the first ever"), &error);
}

static void test_the_first_value_by_two(void **state) {
    (void)state;
    begin(false);
    strike_hook(OP_MULTI, token_writes, NULL);
    atomic_store(&strike.skip, 1); /* in the moment of the create */
    set(stage.lock, "the second");
    await_strike();
    expect(stage.other, "the second");
    assert_int_equal(raw_get(VALUE, data, sizeof data), 2);
    end();
}

static void remove_directory(void *ignored) {
    (void)ignored;
    raw_remove(VALUE);
    raw_remove("pawl.values");
}

static void test_the_directory_is_removed(void **state) {
    (void)state;
    begin(true);
    strike_hook(OP_MULTI, remove_directory, NULL);
    set(stage.lock, "again");
    await_strike();
    expect(stage.other, "again");
    end();
}

/* A write that comes late, after one with a higher number, is over before it began; also where that one deleted the value. */
static void test_numbers(void **state) {
    const struct pawl__values *values;
    struct pawl__author author;
    struct pawl__write write = {.name = "lock", .bytes = "two", .size = 3, .author = &author, .number = 2};
    struct pawl__stamp stamp;
    struct zk_claim *claim;
    struct pawl__engine *engine;

    (void)state;
    begin(false);
    engine = stage.client->engine;
    values = engine->impl->values;
    claim = TAILQ_FIRST(&((struct zk_engine *)engine)->claims);
    write.token = stage.token;
    values->sign(engine, claim->claim, &author);
    assert_works(values->set(engine, &write, pawl__boottime() + 10 * ZK_S, &stamp, &error), &error);
    write.bytes = "one";
    write.number = 1;
    assert_works(values->set(engine, &write, pawl__boottime() + 10 * ZK_S, &stamp, &error), &error);
    expect(stage.other, "two");
    assert_int_equal(raw_get(VALUE, data, sizeof data), 1);
    write.bytes = NULL;
    write.size = 0;
    write.number = 4;
    assert_works(values->set(engine, &write, pawl__boottime() + 10 * ZK_S, &stamp, &error), &error);
    write.bytes = "three";
    write.size = 5;
    write.number = 3;
    assert_works(values->set(engine, &write, pawl__boottime() + 10 * ZK_S, &stamp, &error), &error);
    expect(stage.other, NULL);
    release(stage.lock);
    write.number = 5;
    assert_fails(PAWL_ELOST, values->set(engine, &write, pawl__boottime() + 10 * ZK_S, &stamp, &error), &error);
    end();
}

/* ---- What servers refuse -------------------------------------------------------------------------------------------------------- */

static void test_a_quota(void **state) {
    (void)state;
    begin(false);
    raw_limit(4); /* the path, the lock, its holder, and the directory of values */
    fails_to_set(PAWL_ENOSPACE, stage.lock);
    assert_contains(error.text, "a quota lets nobody write");
    assert_int_equal(pawl_state(stage.lock), PAWL_HELD);
    end();
}

static void test_rights(void **state) {
    struct pawl *anna, *somebody = open_direct("");
    const struct pawl_value *value;
    struct pawl_lock *lock;
    char url[256];

    (void)state;
    snprintf(url, sizeof url, "zk://anna:secret@127.0.0.1:%u%s", server.ports[0], harness_path());
    assert_works(pawl_open(url, NULL, &anna, &error), &error);
    lock = new_mutex(anna, 0);
    acquire(lock);
    set(lock, "for anna");
    expect(anna, "for anna");
    assert_fails(PAWL_EACCES, pawl_value_read(somebody, "lock", &value, &error), &error);
    assert_contains(error.text, "look at the node's ACL");
    assert_fails(PAWL_EACCES, set_as(somebody, pawl_token(lock), "x"), &error);
    pawl_lock_free(lock);
    pawl_close(anna);
    pawl_close(somebody);
}

/* What docs/zookeeper.md says is enough, in a base that somebody else has made below what is not ours. */
static void test_smallest_rights(void **state) {
    const struct pawl_value *value;
    struct pawl_lock *second;
    char directory[64];
    int64_t now;

    (void)state;
    snprintf(directory, sizeof directory, "%s/pawl.values", harness_path());
    raw_make(harness_path(), ZOO_PERM_READ | ZOO_PERM_CREATE | ZOO_PERM_DELETE);
    raw_make(directory, ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_WRITE);
    raw_permit_at("/", ZOO_PERM_READ);
    begin(true);
    set(stage.lock, "again");
    expect(stage.other, "again");
    assert_works(set_as(stage.other, stage.token, "by token"), &error);
    assert_works(pawl_note_get(stage.lock, &value, &now, &error), &error);
    assert_works(pawl_value_set(stage.lock, NULL, 0, &error), &error);
    set(stage.lock, "once more");
    raw_permit_at(directory, 0);
    set(stage.lock, "the last");
    expect(stage.other, "the last");
    assert_fails(PAWL_EACCES, pawl_value_set(stage.lock, NULL, 0, &error), &error);
    assert_contains(error.text, "this client may not delete");
    assert_fails(PAWL_EACCES, pawl_note_get(stage.lock, &value, &now, &error), &error);
    assert_works(pawl_mutex_new(stage.client, "second", PAWL_TASK, &second, &error), &error);
    acquire(second);
    assert_fails(PAWL_EACCES, pawl_value_set(second, "x", 1, &error), &error);
    assert_contains(error.text, "this client may not write");
    assert_int_equal(pawl_state(second), PAWL_HELD);
    pawl_lock_free(second);
    end();
    raw_permit_at("/", ZOO_PERM_ALL);
}

/* Those above the base are missing, and may not be made. */
static void test_no_right_to_make_the_base(void **state) {
    struct pawl *client = open_direct("/deep");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    raw_permit_at("/", ZOO_PERM_READ);
    assert_fails(PAWL_EACCES, pawl_acquire(lock, PATIENCE_MS, &error), &error);
    raw_permit_at("/", ZOO_PERM_ALL);
    acquire(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct zookeeper_how how = {.quota = true};
    const struct CMUnitTest tests[] = {
        TEST(test_a_line_and_the_bytes),
        TEST(test_as_large_as_can_be),
        TEST(test_values_are_no_locks),
        TEST(test_names_with_slashes_and_percents),
        TEST(test_a_note_is_apart),
        TEST(test_the_clock_without_a_value),
        TEST(test_what_no_pawl_wrote),
        TEST(test_larger_than_a_pawl_writes),
        TEST(test_the_answer_is_lost),
        TEST(test_the_request_is_lost),
        TEST(test_the_answer_to_the_first_is_lost),
        TEST(test_the_answer_to_a_delete_is_lost),
        TEST(test_the_answer_is_lost_to_one_who_may_not_read),
        TEST(test_written_and_then_deposed),
        TEST(test_deposed_before_it_was_sent_again),
        TEST(test_deposed_and_overwritten),
        TEST(test_no_answer_in_time),
        TEST(test_deposed_in_the_moment_of_the_write),
        TEST(test_deposed_before_the_first_value),
        TEST(test_broken_in_the_moment_of_the_write),
        TEST(test_the_session_expires),
        TEST(test_after_a_downgrade),
        TEST(test_by_token),
        TEST(test_by_token_of_other_kinds),
        TEST(test_by_token_of_a_foreign_holder),
        TEST(test_by_token_and_by_the_holder),
        TEST(test_by_token_cut_before_it_left),
        TEST(test_by_token_and_overwritten_by_the_holder),
        TEST(test_by_token_and_deleted),
        TEST(test_the_first_value_by_two),
        TEST(test_the_directory_is_removed),
        TEST(test_numbers),
        TEST(test_a_quota),
        TEST(test_rights),
        TEST(test_smallest_rights),
        TEST(test_no_right_to_make_the_base),
    };

    return harness_run(argc, argv, "zookeeper_values", 1, &how, tests, sizeof tests / sizeof *tests);
}
