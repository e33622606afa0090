/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_observe.c - when the engine says that an observed lock may have changed: by whom ever, over which connection, and how often.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "../../lab/servers/proxy.h"
#include "../support/findings.h"
#include "../support/redis_one.h"

#define LEASE_MS 6000

static struct proxy *proxy;
static struct pawl *far; /* who observes, through the proxy */
static struct pawl *near;

/* One that observes, and how often it was told. */
struct ear {
    struct pawl__observer observer;
    _Atomic unsigned told;
};

static struct ear ear;

static void hear(void *core, struct pawl__observer *observer) {
    (void)core;
    atomic_fetch_add(&((struct ear *)observer)->told, 1);
}

static void listen_to(struct pawl *client, struct ear *which, const char *name) {
    *which = (struct ear){.observer = {.name = name, .name_length = (uint32_t)strlen(name)}};
    assert_works(client->engine->impl->values->observe(client->engine, &which->observer, &error), &error);
}

static void stop_listening(struct pawl *client, struct ear *which) {
    client->engine->impl->values->unobserve(client->engine, &which->observer);
}

static void open_far(const char *options) {
    far = open_at(proxy_port(proxy), options, LEASE_MS);
    far->engine->changed = hear;
}

static int set_up(void **state) {
    empty_server(state);
    proxy = proxy_new(server.port, NULL, NULL, NULL);
    open_far("");
    near = open_at(server.port, "", LEASE_MS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    pawl_close(far);
    pawl_close(near);
    proxy_free(proxy);
    return 0;
}

/* Wait until it hears, and then until it has been quiet for a while: all that was to be told was. */
static unsigned settle(struct ear *which) {
    unsigned before;

    do {
        before = atomic_load(&which->told);
        usleep(100000);
    } while (atomic_load(&which->told) != before);
    return before;
}

static void await_word(struct ear *which, unsigned before) {
    await(atomic_load(&which->told) > before, "it is not told");
}

static void do_it(const char *command) {
    redis_server_plain(&server, command);
}

static bool is_tracked(void) {
    redisReply *info = redis_server_command(&server, "INFO clients");
    bool tracked = strstr(info->str, "tracking_clients:0") == NULL;

    freeReplyObject(info);
    return tracked;
}

/* ---- Who changes it ------------------------------------------------------------------------------------------------------- */

static void test_first_the_present_state(void **state) {
    (void)state;
    listen_to(far, &ear, "lock");
    await_word(&ear, 0);
    stop_listening(far, &ear);
}

static void test_pawls_and_values(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    unsigned before;

    (void)state;
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await_word(&ear, before);
    before = settle(&ear);
    assert_works(pawl_value_set(lock, "x", 1, &error), &error);
    await_word(&ear, before);
    before = settle(&ear);
    assert_works(pawl_release(lock, &error), &error);
    await_word(&ear, before);
    stop_listening(far, &ear);
    pawl_lock_free(lock);
}

/* By programs that know nothing of pawl; and by FLUSHALL, which names no key. */
static void test_others(void **state) {
    static const char *const changes[] = {"HSET lock 0f8fad5b-d9cb-469f-a165-70867728950e:77 1", "PEXPIRE lock 60000",
                                          "HSET pawl:value:{lock} value x", "FLUSHALL"};
    unsigned before;

    (void)state;
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    for (int i = 0; i < 4; i++) {
        do_it(changes[i]);
        await_word(&ear, before);
        before = settle(&ear);
    }
    do_it("HSET other x 1"); /* of another lock */
    assert_int_equal(settle(&ear), before);
    stop_listening(far, &ear);
}

/* A server does not tell of a key that has expired before it comes across it. */
static void test_a_lease_ends(void **state) {
    unsigned before;

    (void)state;
    do_it("DEBUG SET-ACTIVE-EXPIRE 0");
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    do_it("SET lock other PX 400");
    await_word(&ear, before);
    before = atomic_load(&ear.told);
    await_word(&ear, before);
    await_integer(&server, "DBSIZE", 0); /* it has looked */
    stop_listening(far, &ear);
    do_it("DEBUG SET-ACTIVE-EXPIRE 1");
}

static void test_plain_layout(void **state) {
    unsigned before;

    (void)state;
    pawl_close(far);
    open_far("?layout=plain");
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    do_it("SET lock someone PX 60000");
    await_word(&ear, before);
    stop_listening(far, &ear);
    assert_true(is_tracked()); /* it is of use to claims, too */
}

static void test_names_and_prefixes(void **state) {
    struct ear braced;
    unsigned before;

    (void)state;
    pawl_close(far);
    open_far("?prefix=app:");
    listen_to(far, &ear, "lock");
    listen_to(far, &braced, "{shop}stock");
    before = settle(&ear);
    do_it("HSET pawl:value:{app:lock} value x");
    await_word(&ear, before);
    before = settle(&braced);
    do_it("HSET pawl:value:app:{shop}stock value x");
    await_word(&braced, before);
    stop_listening(far, &ear);
    stop_listening(far, &braced);
}

/* ---- Over which connection ------------------------------------------------------------------------------------------------ */

static void test_connected_anew(void **state) {
    unsigned before;

    (void)state;
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    proxy_cut(proxy);
    await_word(&ear, before);
    before = settle(&ear);
    do_it("HSET lock x 1");
    await_word(&ear, before);
    before = settle(&ear);
    assert_in_range(redis_server_integer(&server, "CLIENT KILL TYPE pubsub"), 1, 3); /* the inbox alone */
    await_word(&ear, before);
    before = settle(&ear);
    do_it("HSET lock y 1");
    await_word(&ear, before);
    stop_listening(far, &ear);
}

/* Without the right to be told it looks every second. */
static void test_without_the_right(void **state) {
    struct findings findings = {.text = ""}, others = {.text = ""};
    unsigned before;

    (void)state;
    do_it("ACL SETUSER poor on >word ~* &* +@all -client");
    pawl_close(far);
    far = open_client(LEASE_MS, "redis://poor:word@127.0.0.1:%u", server.port);
    far->engine->changed = hear;
    listen_to(far, &ear, "lock");
    await_word(&ear, 0);
    assert_false(is_tracked());
    before = atomic_load(&ear.told);
    await_word(&ear, before + 1);
    stop_listening(far, &ear);
    assert_works(pawl_examine(far, add_finding, &findings, &error), &error);
    assert_non_null(strstr(findings.text, "warning: the user may not have the server tell of changes"));
    assert_works(pawl_examine(near, add_finding, &others, &error), &error);
    assert_null(strstr(others.text, "tell of changes"));
}

/* ---- How often ------------------------------------------------------------------------------------------------------------ */

static void test_not_too_often(void **state) {
    int64_t began, ms;
    unsigned before;

    (void)state;
    listen_to(far, &ear, "lock");
    before = settle(&ear);
    began = pawl__boottime();
    for (int i = 0; i < 300; i++)
        do_it("HINCRBY lock x 1");
    ms = (pawl__boottime() - began) / PAWL__NS_PER_MS;
    settle(&ear);
    assert_in_range(atomic_load(&ear.told) - before, 1, (unsigned)ms / 10 + 3);
    stop_listening(far, &ear);
}

/* A thousand of one lock: each is told, and the server is asked once for all of them. */
static void test_a_thousand(void **state) {
    enum { MANY = 1000 };
    struct ear *ears = calloc(MANY, sizeof *ears);
    redisReply *info;
    long long reads;

    (void)state;
    assert_non_null(ears);
    for (int i = 0; i < MANY; i++)
        listen_to(far, &ears[i], "lock");
    settle(&ears[MANY - 1]);
    for (int i = 0; i < MANY; i++)
        atomic_store(&ears[i].told, 0);
    do_it("CONFIG RESETSTAT");
    do_it("HSET lock x 1");
    for (int i = 0; i < MANY; i++)
        await_word(&ears[i], 0);
    info = redis_server_command(&server, "INFO commandstats");
    reads = strstr(info->str, "cmdstat_exists:calls=") ? atoll(strstr(info->str, "cmdstat_exists:calls=") + 21) : 0;
    freeReplyObject(info);
    assert_in_range(reads, 1, 3);
    for (int i = 0; i < MANY; i++)
        stop_listening(far, &ears[i]);
    free(ears);
}

/* Of calls of a command, from scripts too. */
static long long calls_of(const char *command) {
    redisReply *info = redis_server_command(&server, "INFO commandstats");
    char key[64];
    const char *at;
    long long calls;

    snprintf(key, sizeof key, "cmdstat_%s:calls=", command);
    at = strstr(info->str, key);
    calls = at ? atoll(at + strlen(key)) : 0;
    freeReplyObject(info);
    return calls;
}

static int see_holder(const struct pawl_entry *entry, void *data) {
    assert_false(entry->flags & PAWL_ENTRY_WAITER);
    ++*(int *)data;
    return 0;
}

static int look(struct pawl *client, int64_t deadline, int *holders) {
    return client->engine->impl->values->look(client->engine, "lock", see_holder, holders, deadline, &error);
}

/* Who looks for the holder does not read who waits, and ends by the deadline. */
static void test_a_look_is_of_the_holder(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    int holders = 0;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < 200; i++)
        freeReplyObject(redis_server_command(&server, "ZADD pawl:queue:{lock} %d %d", i, i));
    do_it("CONFIG RESETSTAT");
    assert_works(look(far, pawl__boottime() + 10 * PAWL__NS_PER_S, &holders), &error);
    assert_int_equal(holders, 1);
    assert_int_equal(calls_of("zrange"), 0);
    proxy_isolate(proxy, true);
    assert_true(look(far, pawl__boottime() + 300 * PAWL__NS_PER_MS, &holders) < 0);
    proxy_isolate(proxy, false);
    do_it("DEL pawl:queue:{lock}");
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static _Atomic uint64_t seen_token;
static _Atomic unsigned warnings;

static void see(const struct pawl_observed *seen, void *data) {
    (void)data;
    atomic_store(&seen_token, seen->holder ? seen->holder->token : 0);
}

static void count_warning(void *data, const char *text) {
    (void)data;
    if (strstr(text, "is not told of all"))
        atomic_fetch_add(&warnings, 1);
}

/* A value that may not be read keeps nobody from seeing who holds; but it is said. */
static void test_a_value_that_may_not_be_read(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct pawl_observer *observer;
    struct pawl *client;

    (void)state;
    do_it("ACL SETUSER blind on >word ~lock ~pawl:queue:* ~pawl:token:* ~pawl:who:* ~{lock}* ~redisson* &* +@all");
    client = open_client(LEASE_MS, "redis://blind:word@127.0.0.1:%u", server.port);
    client->engine->warn = count_warning;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_value_set(lock, "x", 1, &error), &error);
    assert_works(pawl_observe(client, "lock", see, NULL, &observer, &error), &error);
    await(atomic_load(&seen_token) == pawl_token(lock), "it is not told of the holder");
    assert_int_equal(atomic_load(&warnings), 1);
    pawl_unobserve(observer);
    pawl_close(client);
    pawl_lock_free(lock);
}

/* Who observes no more leaves nothing at the server. */
static void test_no_more(void **state) {
    unsigned before;

    (void)state;
    assert_false(is_tracked());
    listen_to(far, &ear, "lock");
    settle(&ear);
    assert_true(is_tracked());
    stop_listening(far, &ear);
    await(!is_tracked(), "it is still told");
    before = settle(&ear);
    do_it("HSET lock x 1");
    assert_int_equal(settle(&ear), before);
    listen_to(far, &ear, "lock"); /* and begins anew */
    before = settle(&ear);
    do_it("HSET lock y 1");
    await_word(&ear, before);
    stop_listening(far, &ear);
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_first_the_present_state),
        TEST(test_pawls_and_values),
        TEST(test_others),
        TEST(test_a_lease_ends),
        TEST(test_plain_layout),
        TEST(test_names_and_prefixes),
        TEST(test_connected_anew),
        TEST(test_without_the_right),
        TEST(test_not_too_often),
        TEST(test_a_thousand),
        TEST(test_a_look_is_of_the_holder),
        TEST(test_a_value_that_may_not_be_read),
        TEST(test_no_more),
    };

    return run_redis_tests(argc, argv, "observing", tests, "", NULL, stop_server);
}
