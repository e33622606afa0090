/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_sentinel.c - a primary, two replicas and three sentinels: failovers while locks are held, waited for and asked for; replicas
 * that are promoted without what they should have; sentinels that are gone, know nothing, or are wrong.
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../support/findings.h"
#include "../support/names.h"
#include "../support/redis_rivals.h"
#include "../support/redis_keep.h"
#include "../support/redis_test.h"
#include "../support/redis_topology.h"

static struct redis_watched watched = {.down_after_ms = 1000};
static bool used; /* a failover has been there */

#define LEASE_MS 20000

static int set_up(void **state) {
    (void)state;
    if (!watched.url[0])
        redis_watched_start(&watched);
    else if (used)
        redis_watched_reset(&watched);
    used = false;
    freeReplyObject(redis_server_command(&watched.servers[0], "FLUSHALL"));
    return 0;
}

static int stop_servers(void **state) {
    (void)state;
    redis_watched_free(&watched);
    return 0;
}

static struct pawl *open_url(const char *options, int64_t lease_ms) {
    return open_client(lease_ms, "%s%s", watched.url, options);
}

/* The old primary is gone without a word. */
static struct redis_server *kill_primary(void) {
    used = true;
    redis_server_stop(&watched.servers[0], SIGKILL);
    return redis_watched_primary(&watched, 0);
}

/* An old primary that lives on grants beside the new one. That both keep to the time is all that there is between their tokens. */
static void test_tokens_keep_to_the_time(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    uint64_t first, last;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    first = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    last = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    assert_in_range(last - first, 2900000, 60000000);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error),
                 &error); /* and not more than that: the clock is looked at once a second */
    assert_int_equal(pawl_token(lock), last + 1);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The sentinels are asked to choose another; the old primary becomes its replica. */
static struct redis_server *change_primary(int from) {
    struct redis_server *primary;

    used = true;
    for (int i = 0; i < PATIENCE_MS / 100; i++) {
        redisReply *reply = redis_server_command(&watched.sentinels[i % SENTINELS], "SENTINEL FAILOVER mymaster");
        bool ok = reply->type == REDIS_REPLY_STATUS;

        freeReplyObject(reply);
        if (ok)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 100000000},
                  NULL); /* it has no good replica yet, or another failover is under way */
    }
    primary = redis_watched_primary(&watched, from);
    return primary;
}

static void test_finds_the_primary(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct pawl_info info;

    (void)state;
    pawl_describe(client, &info);
    assert_contains(info.url, "redis-sentinel://127.0.0.1:");
    assert_contains(info.url, "/mymaster/0");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&watched.servers[0], "HLEN lock"), 2);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Redisson #6026: what is held stays held, who waits goes on waiting and is served, by the new primary. */
static void failover_while_held(const char *options, struct redis_server *(*fail_over)(void)) {
    struct pawl *one = open_url(options, LEASE_MS), *two = open_url(options, LEASE_MS);
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock"), *fresh = mutex_of(one, "fresh");
    struct redis_server *primary;
    struct taker taker;
    uint64_t token;

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    start_holder(&taker, other, 2 * PATIENCE_MS);
    await_integer(&watched.servers[0], "ZCARD pawl:queue:{lock}", 1);
    await_integer(&watched.servers[1], "ZCARD pawl:queue:{lock}", 1); /* the replicas have it */
    await_integer(&watched.servers[2], "ZCARD pawl:queue:{lock}", 1);
    primary = fail_over();
    assert_works(pawl_acquire(fresh, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(primary, "HLEN fresh"), 2);
    await_integer(primary, "HLEN lock", 2);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_true(taker_waits(&taker));
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    assert_true(taker.token > token);
    assert_int_equal(redis_server_integer(primary, "HLEN lock"), 2);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_lock_free(fresh);
    pawl_close(one);
    pawl_close(two);
}

static struct redis_server *change_first(void) {
    return change_primary(0);
}

static void test_held_and_waited_for_over_a_crash(void **state) {
    (void)state;
    failover_while_held("", kill_primary);
}

/* The old primary lives on, and hears nothing of the new one; who waits does, and leaves it. */
static struct redis_server *part_primary(void) {
    used = true;
    redis_watched_part(true);
    return redis_watched_primary(&watched, 0);
}

static void test_held_and_waited_for_over_a_partition(void **state) {
    (void)state;
    if (!redis_watched_part(false))
        skip();
    failover_while_held("", part_primary);
}

static void test_held_and_waited_for_over_a_change(void **state) {
    (void)state;
    failover_while_held("", change_first);
}

static void test_held_and_waited_for_with_replicas(void **state) {
    (void)state;
    failover_while_held("?replicas=1", kill_primary);
}

/* A kept lock is not entered until the new primary has said that it has it, and that nobody waits. */
static void test_kept_over_a_crash(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct keeper *keeper = keep_mutex(client, "lock");

    (void)state;
    for (int i = 1; i < WATCHED; i++)
        await_integer(&watched.servers[i], "HLEN lock", 2);
    assert_int_equal(keeper_resumes(keeper), PAWL__DONE);
    used = true;
    redis_server_stop(&watched.servers[0], SIGKILL);
    await(keeper_resumes(keeper) == PAWL_EHELD, "it is entered, and there is no primary");
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered again");
    assert_int_equal(atomic_load(&keeper->lost) + atomic_load(&keeper->wanted), 0);
    keeper_leave(keeper);
    pawl_close(client);
    keepers_free();
}

/* A replica is promoted that never heard of the lock: its holder is told, and the next one's token is higher all the same. */
static void test_promoted_without_the_data(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    for (int i = 1; i < WATCHED; i++) { /* as if it had never come there, the counter of tokens included */
        await_integer(&watched.servers[i], "HLEN lock", 2);
        freeReplyObject(redis_server_command(&watched.servers[i], "CONFIG SET replica-read-only no"));
        assert_int_equal(redis_server_integer(&watched.servers[i], "DEL lock redisson_lock_token:{lock}"), 2);
    }
    kill_primary();
    await_loss(&losses);
    assert_true(losses.token == token);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(lock) > token);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Threads that take and release all the while, over failovers in both directions: each acquire ends well, tokens rise, nobody is in twice.
 * The primaries are changed in an orderly way, with replicas asked for: nothing may be lost. */
static void test_failovers_mid_call(void **state) {
    enum { CLIENTS = 4, FAILOVERS = 2 };
    struct rivals rivals = {0};
    struct pawl *clients[CLIENTS];
    int primary = 0;

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_url("?replicas=1", LEASE_MS);
        rivals_add(&rivals, mutex_of(clients[i], "lock"));
    }
    for (int i = 0; i < FAILOVERS; i++)
        primary = redis_watched_index(&watched, change_primary(primary));
    redis_await_replicas(&watched.servers[primary], 2); /* the old ones have come back as its replicas */
    rivals_end(&rivals);
    for (int i = 0; i < CLIENTS; i++) {
        pawl_lock_free(rivals.members[i].lock);
        pawl_close(clients[i]);
    }
}

/* ---- Sentinels ---------------------------------------------------------------------------------------------------------------- */

static void test_some_sentinels_are_gone(void **state) {
    (void)state;
    used = true;
    redis_server_stop(&watched.sentinels[0], SIGKILL);
    kill(watched.sentinels[1].pid, SIGSTOP); /* it takes connections and says nothing */
    for (int i = 0; i < 3; i++)
        assert_works(try_open("%s?connect=3000", watched.url), &error);
    kill(watched.sentinels[2].pid, SIGSTOP);
    assert_fails(PAWL_ECONNLOST, try_open("%s?connect=600", watched.url), &error);
    assert_contains(error.text, "none of the 3 sentinels");
}

static void count_sentinels(enum pawl_log_level level, const char *text, void *data) {
    atomic_int *count = data;

    (void)level;
    if (strstr(text, "connection (sentinel) dropped"))
        atomic_fetch_add(count, 1);
}

/* ?retry= counts rounds over all sentinels: three of them are nine connections that nobody takes. */
static void test_rounds_over_sentinels_are_bounded(void **state) {
    atomic_int dropped = 0;
    struct pawl_options how = {.size = sizeof how, .flags = PAWL_OPEN_TRACE, .log = count_sentinels, .log_data = &dropped};
    struct pawl *client;
    struct pawl_lock *lock;
    char url[512];

    (void)state;
    used = true;
    snprintf(url, sizeof url, "%s?retry=1,5,3", watched.url);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    lock = mutex_of(client, "lock");
    for (int i = 0; i < SENTINELS; i++)
        redis_server_stop(&watched.sentinels[i], SIGKILL);
    redis_server_stop(&watched.servers[0], SIGKILL);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_contains(error.text, "none of the 3 sentinels");
    assert_true(atomic_load(&dropped) >= 3 * SENTINELS);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_bad_names(void **state) {
    unsigned port = watched.sentinels[0].port;

    (void)state;
    assert_fails(PAWL_EURL, try_open("redis-sentinel://127.0.0.1:%u,127.0.0.1:%u/nobody", port, watched.sentinels[1].port), &error);
    assert_contains(error.text, "none knows a primary named 'nobody'");
    assert_fails(PAWL_EURL, try_open("redis-sentinel://127.0.0.1:%u", port), &error);
    assert_contains(error.text, "lacks the name");
    assert_fails(PAWL_EURL, try_open("redis-sentinel://127.0.0.1:%u/mymaster/x", port), &error);
    assert_fails(PAWL_EOPTION, try_open("redis-sentinel://127.0.0.1:%u/mymaster?sentinel-tls=maybe", port), &error);
    assert_fails(PAWL_EOPTION, try_open("redis-sentinel://127.0.0.1:%u/mymaster?sentinel-ca=/x", port), &error);
    assert_fails(PAWL_EURL, try_open("redis://127.0.0.1:%u,127.0.0.1:1", port), &error);
    assert_works(try_open("redis+sentinel://127.0.0.1:%u/mymaster/3", port), &error);
    assert_works(try_open("redis-sentinel://127.0.0.1:%u/3#mymaster", port), &error);
    assert_works(try_open("redis-sentinel://127.0.0.1:%u/#mymaster", port), &error);
}

/* There is nobody at the first address of that name. */
static void test_the_second_address(void **state) {
    (void)state;
    assert_works(try_open("redis-sentinel://" NAME_OF_BOTH ":%u/mymaster", watched.sentinels[0].port), &error);
}

static void test_not_a_sentinel(void **state) {
    (void)state;
    assert_true(try_open("redis-sentinel://127.0.0.1:%u/mymaster", watched.servers[0].port) < 0);
    assert_contains(error.text, "it is no sentinel");
    assert_fails(PAWL_ETOPOLOGY, try_open("redis://127.0.0.1:%u", watched.sentinels[0].port), &error);
    assert_contains(error.text, "redis-sentinel:");
}

/* A primary with a replica, and for each a sentinel that takes it for the primary. Apart from the others: sentinels find each other. */
static void test_sentinels_disagree(void **state) {
    struct redis_server primary = {.pid = 0}, replica = {.pid = 0}, right = {.sentinel = true}, wrong = {.sentinel = true};

    (void)state;
    redis_server_start(&primary);
    snprintf(replica.extra, sizeof replica.extra, "replicaof 127.0.0.1 %u\n", primary.port);
    redis_server_start(&replica);
    snprintf(right.extra, sizeof right.extra, "sentinel monitor mymaster 127.0.0.1 %u 2\n", primary.port);
    redis_server_start(&right);
    snprintf(wrong.extra, sizeof wrong.extra, "sentinel monitor mymaster 127.0.0.1 %u 2\n", replica.port);
    redis_server_start(&wrong);
    assert_fails(PAWL_ETOPOLOGY, try_open("redis-sentinel://127.0.0.1:%u/mymaster?connect=500", wrong.port), &error);
    assert_contains(error.text, "the sentinels disagree");
    for (int i = 0; i < 4; i++) /* whichever is asked first */
        assert_works(try_open("redis-sentinel://127.0.0.1:%u,127.0.0.1:%u/mymaster", wrong.port, right.port), &error);
    redis_server_free(&wrong);
    redis_server_free(&right);
    redis_server_free(&replica);
    redis_server_free(&primary);
}

static void test_sentinels_with_a_password(void **state) {
    struct redis_server primary = {.pid = 0}, guarded = {.sentinel = true};

    (void)state;
    redis_server_start(&primary);
    snprintf(guarded.extra, sizeof guarded.extra, "sentinel monitor mymaster 127.0.0.1 %u 2\nrequirepass s3cret-Wort\n",
             primary.port);
    redis_server_start(&guarded);
    assert_fails(PAWL_EACCES, try_open("redis-sentinel://127.0.0.1:%u/mymaster", guarded.port), &error);
    assert_fails(PAWL_EACCES, try_open("redis-sentinel://127.0.0.1:%u/mymaster?sentinel-password=x", guarded.port), &error);
    assert_null(strstr(error.text, "sentinel-password"));
    assert_works(try_open("redis-sentinel://127.0.0.1:%u/mymaster?sentinel-password=s3cret-Wort", guarded.port), &error);
    assert_works(
        try_open("redis-sentinel://127.0.0.1:%u/mymaster?sentinel-user=default&sentinel-password=s3cret-Wort", guarded.port),
        &error);
    redis_server_free(&guarded);
    redis_server_free(&primary);
}

/* The sentinels have an authority, a password and a user of their own; the server that they watch has none. */
static void test_sentinels_with_tls(void **state) {
    struct redis_server primary = {.pid = 0}, guarded = {.sentinel = true, .tls = true};
    const char *ours = guarded.directory, *strange = primary.directory;

    (void)state;
    redis_server_certify(&primary); /* another authority: it does not use it */
    redis_server_certify(&guarded);
    redis_server_start(&primary);
    snprintf(guarded.extra, sizeof guarded.extra, "sentinel monitor mymaster 127.0.0.1 %u 2\nrequirepass s3cret-Wort\n",
             primary.port);
    redis_server_start(&guarded);
    assert_works(try_open("redis-sentinel://localhost:%u/mymaster?sentinel-tls=yes&sentinel-password=s3cret-Wort"
                          "&sentinel-ca=%s/ca.crt&sentinel-cert=%s/client.crt&sentinel-key=%s/client.key",
                          guarded.tls_port, ours, ours, ours),
                 &error);
    assert_fails(PAWL_EACCES,
                 try_open("redis-sentinel://localhost:%u/mymaster?sentinel-tls=yes&sentinel-password=s3cret-Wort"
                          "&sentinel-ca=%s/ca.crt&sentinel-cert=%s/client.crt&sentinel-key=%s/client.key",
                          guarded.tls_port, strange, ours, ours),
                 &error);
    assert_contains(error.text, "certificate does not pass");
    assert_fails(
        PAWL_EACCES,
        try_open("redis-sentinel://localhost:%u/mymaster?sentinel-tls=yes&sentinel-servername=other.example"
                 "&sentinel-password=s3cret-Wort&sentinel-ca=%s/ca.crt&sentinel-cert=%s/client.crt&sentinel-key=%s/client.key",
                 guarded.tls_port, ours, ours, ours),
        &error);
    assert_contains(error.text, "certificate does not pass");
    assert_fails(PAWL_EACCES,
                 try_open("redis-sentinel://localhost:%u/mymaster?sentinel-tls=yes&sentinel-password=An-other"
                          "&sentinel-ca=%s/ca.crt&sentinel-cert=%s/client.crt&sentinel-key=%s/client.key",
                          guarded.tls_port, ours, ours, ours),
                 &error);
    assert_null(strstr(error.text, "An-other"));
    assert_true(try_open("redis-sentinel://localhost:%u/mymaster?connect=1000", guarded.tls_port) < 0); /* without TLS */
    redis_server_free(&guarded);
    redis_server_free(&primary);
}

/* It looks at the primary, not at the sentinels. */
static void test_doctor_looks_at_the_primary(void **state) {
    struct findings findings = {.text = ""};
    struct pawl *client = open_url("", LEASE_MS);
    char part[64];

    (void)state;
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    snprintf(part, sizeof part, "good: 127.0.0.1:%u is a Redis", watched.servers[0].port);
    assert_contains(findings.text, part);
    assert_contains(findings.text, "warning: it has 2 replicas, and does not wait until they have a lock");
    assert_contains(findings.text, "its clock agrees");
    assert_contains(findings.text, "good: the clocks of the 3 servers are");
    pawl_close(client);
    client = open_url("?replicas=1", LEASE_MS);
    findings.text[0] = '\0';
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "good: what is granted is on 1 of its 2 replicas");
    pawl_close(client);
}

/* With an argument: the tests that the pattern fits. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_finds_the_primary, set_up),
        cmocka_unit_test_setup(test_tokens_keep_to_the_time, set_up),
        cmocka_unit_test_setup(test_bad_names, set_up),
        cmocka_unit_test_setup(test_the_second_address, set_up),
        cmocka_unit_test_setup(test_not_a_sentinel, set_up),
        cmocka_unit_test_setup(test_sentinels_disagree, set_up),
        cmocka_unit_test_setup(test_sentinels_with_a_password, set_up),
        cmocka_unit_test_setup(test_sentinels_with_tls, set_up),
        cmocka_unit_test_setup(test_doctor_looks_at_the_primary, set_up),
        cmocka_unit_test_setup(test_held_and_waited_for_over_a_crash, set_up),
        cmocka_unit_test_setup(test_held_and_waited_for_over_a_change, set_up),
        cmocka_unit_test_setup(test_held_and_waited_for_over_a_partition, set_up),
        cmocka_unit_test_setup(test_held_and_waited_for_with_replicas, set_up),
        cmocka_unit_test_setup(test_kept_over_a_crash, set_up),
        cmocka_unit_test_setup(test_promoted_without_the_data, set_up),
        cmocka_unit_test_setup(test_failovers_mid_call, set_up),
        cmocka_unit_test_setup(test_some_sentinels_are_gone, set_up),
        cmocka_unit_test_setup(test_rounds_over_sentinels_are_bounded, set_up),
    };

    return run_redis_tests(argc, argv, "redis sentinel", tests,
                           "test_sentinels_disagree test_sentinels_with_a_password test_sentinels_with_tls", NULL, stop_servers);
}
