/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redlock_rivals.c - a lock over five servers that others hold or wait for: foreign programs, clients whose turn it is, and many
 * waiters of one client.
 */
#include <poll.h>

#include "core/claim.h"
#include "engine/redlock/redlock.h"
#include "../support/redlock_test.h"

/* ---- Foreign holders, operators ------------------------------------------------------------------------------------------- */

struct seen {
    unsigned holders, foreign, waiters;
    uint64_t token;
    char raw[1200];
};

static int see(const struct pawl_entry *entry, void *data) {
    struct seen *seen = data;

    if (entry->flags & PAWL_ENTRY_WAITER) {
        seen->waiters++;
        return 0;
    }
    seen->holders++;
    seen->foreign += (entry->flags & PAWL_ENTRY_FOREIGN) != 0;
    seen->token = entry->token;
    snprintf(seen->raw, sizeof seen->raw, "%s", entry->raw);
    return 0;
}

static struct seen look(struct pawl *client) {
    struct seen seen = {.holders = 0};

    assert_works(pawl_inspect(client, "lock", see, &seen, &error), &error);
    return seen;
}

static void set_foreign(const char *value, int from, int to) {
    for (int i = from; i <= to; i++)
        freeReplyObject(redis_server_command(&servers[i], "SET lock %s NX PX 60000", value));
}

/* As node-redlock and redsync would hold it; nobody tells of its end but the servers. */
static void test_foreign_holder(void **state) {
    struct pawl *client = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;
    struct seen seen;

    (void)state;
    set_foreign("f00", 1, 3);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    await_integer(&servers[0], "EXISTS lock", 0); /* the votes that it got are back */
    seen = look(client);
    assert_int_equal(seen.holders, 1);
    assert_int_equal(seen.foreign, 1);
    assert_contains(seen.raw, "f00 on 3 of 5 servers");
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(&servers[2], "EXISTS pawl:wait:{lock}", 1);
    for (int i = 1; i <= 3; i++)
        redis_server_integer(&servers[i], "DEL lock");
    assert_int_equal(end_taker(&taker), 0);
    set_foreign("f01", 0, 4);
    seen = look(client);
    assert_works(pawl_break(client, "lock", seen.token, PAWL_BREAK_NOW, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    seen = look(client);
    assert_int_equal(seen.holders, 1);
    assert_int_equal(seen.foreign, 0);
    assert_true(seen.token == pawl_token(lock));
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static struct seen look_at_all(struct pawl *client) {
    struct seen seen = {.holders = 0};

    assert_works(pawl_inspect(client, NULL, see, &seen, &error), &error);
    return seen;
}

/* Who took the lock last stays written beside the counter: that is no holder, and nothing of it is said of the next one. */
static void test_record_outlives_its_hold(void **state) {
    struct pawl *client = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    assert_true(look_at_all(client).token == token);
    assert_works(pawl_release(lock, &error), &error);
    await_free(0, 4);
    assert_true(counter_of(0) >= (long long)token);
    assert_int_equal(look(client).holders, 0);
    assert_int_equal(look_at_all(client).holders, 0);
    assert_fails(PAWL_ETOKEN, pawl_break(client, "lock", token, 0, &error), &error);
    set_foreign("f00", 0, 4);
    assert_int_equal(look(client).foreign, 1);
    assert_int_equal(look_at_all(client).foreign, 1);
    assert_fails(PAWL_ETOKEN, pawl_break(client, "lock", token, PAWL_BREAK_NOW, &error), &error);
    assert_int_equal(nodes_with_lock(0, 4), 5);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* As `pawl break` does it, and its messages are lost. */
static void mark_broken(int from, int to) {
    for (int i = from; i <= to; i++)
        assert_int_equal(redis_server_integer(&servers[i], "EVAL %s 0",
                                              "local ballot, done = string.gsub(redis.call('GET', 'pawl:vote:{lock}'), "
                                              "  '^(%d+ %d+ %d+ %S+) x ', '%1 X ') "
                                              "redis.call('SET', 'pawl:vote:{lock}', ballot) return done"),
                         1);
}

static void assert_broken(struct losses *losses, struct pawl_lock *lock) {
    await_loss(losses);
    assert_int_equal(losses->why.code, PAWL_EBROKEN);
    assert_int_equal(nodes_with_lock(0, 4), 5); /* in the way until it is released */
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_free(0, 4);
}

/* The next renewal finds it out; and there is one when the inboxes are made anew. */
static void test_a_renewal_tells_of_a_break(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct losses losses = LOSSES_INIT;
        struct pawl *client = open_all("?retry=10,200", i ? LONG_MS : 1500, NULL);
        struct pawl_lock *lock = mutex_of(client, "lock");

        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        await(nodes_with_lock(0, 4) == 5, "not all have voted");
        mark_broken(0, 4);
        for (int j = 0; j < NODES && i; j++)
            redis_server_integer(&servers[j], "CLIENT KILL TYPE pubsub");
        assert_broken(&losses, lock);
        pawl_lock_free(lock);
        pawl_close(client);
    }
}

/* A vote is on its way when its voter tells of the break. */
static void test_broken_before_the_vote_is_known(void **state) {
    (void)state;
    use_proxies();
    for (unsigned i = 0; i < 2; i++) { /* one of the two connections is that of the commands */
        struct losses losses = LOSSES_INIT;
        struct pawl *client = open_all("", LONG_MS, NULL);
        struct pawl_lock *lock = mutex_of(client, "lock");

        assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
        proxy_begin(proxies[0], PROXY_FAULT_ANSWERS, 1000, proxy_connections(proxies[0]) - i, 300);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        await(nodes_with_lock(0, 4) == 5, "not all have voted");
        assert_int_equal(redis_server_integer(&servers[0], "EVAL %s 0",
                                              "local ballot = redis.call('GET', 'pawl:vote:{lock}') "
                                              "local uuid, number = string.match(ballot, '^%d+ %d+ %d+ (%S+):(%d+)') "
                                              "redis.call('SET', 'pawl:vote:{lock}', (string.gsub(ballot, ' x ', ' X '))) "
                                              "return redis.call('PUBLISH', 'pawl:inbox:' .. uuid, 'b ' .. number .. ' 0')"),
                         1);
        assert_broken(&losses, lock);
        proxy_end(proxies[0]);
        pawl_lock_free(lock);
        pawl_close(client);
    }
}

/* The answer of a voter is lost, and it breaks the hold before it is asked again. */
static void test_broken_before_it_is_asked_again(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock;
    struct pawl *client;

    (void)state;
    use_proxies();
    client = open_all("?retry=500,500", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    proxy_drop_answer_to(proxies[0], "pawl:vote:{lock}");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await(proxy_dropped(proxies[0]), "there was no answer");
    await(nodes_with_lock(0, 4) == 5, "not all have voted");
    mark_broken(0, 0);
    assert_broken(&losses, lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------------------ */

/* Clients that wait, as far as a server can see: one that waits longest and has died, and two that live if anybody listens. */
#define DEAD "00000000-0000-8000-8000-000000000000:7 x 1 1000 "
#define FIRST "11111111-1111-8111-8111-111111111111:7 x 1 2000 "
#define SECOND "22222222-2222-8222-8222-222222222222:7 x 1 3000 "
#define FIRST_INBOX "pawl:inbox:11111111-1111-8111-8111-111111111111"

static redisContext *listen_at(const struct redis_server *server, const char *channel) {
    redisContext *context = redisConnect("127.0.0.1", (int)server->port);

    assert_non_null(context);
    assert_int_equal(context->err, 0);
    assert_int_equal(redisSetTimeout(context, (struct timeval){.tv_sec = PATIENCE_MS / 1000}), REDIS_OK);
    freeReplyObject(redisCommand(context, "SUBSCRIBE %s", channel));
    return context;
}

static void assert_heard(redisContext *context, const char *text) {
    redisReply *reply = NULL;

    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->elements, 3);
    assert_string_equal(reply->element[2]->str, text);
    freeReplyObject(reply);
}

static void hold_once(void) {
    struct pawl *client = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await_integer(&servers[0], "EXISTS lock", 1);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The end of a hold is told to the one that waits longest, of those that live; and not again to one that did nothing about it. */
static void test_the_end_is_told_to_one(void **state) {
    static const char *const waiters[] = {SECOND, FIRST, DEAD};
    redisContext *first = listen_at(&servers[0], FIRST_INBOX);
    char score[32];

    (void)state;
    for (int i = 0; i < 3; i++) /* long from now: nobody takes them for those that have died */
        redis_server_integer(&servers[0], "ZADD pawl:wait:{lock} 9000000000000 %s", waiters[i]);
    hold_once();
    assert_heard(first, "w 7");
    assert_string_equal(redis_server_text(&servers[0], score, sizeof score, "ZSCORE pawl:wait:{lock} %s", FIRST),
                        "9000000000000.5");
    assert_string_equal(redis_server_text(&servers[0], score, sizeof score, "ZSCORE pawl:wait:{lock} %s", SECOND), "9000000000000");
    assert_int_equal(redis_server_integer(&servers[0], "ZCARD pawl:wait:{lock}"), 2);
    hold_once();
    await_integer(&servers[0], "ZCARD pawl:wait:{lock}", 1); /* it was the second's turn, and it has died */
    redis_server_integer(&servers[0], "PUBLISH " FIRST_INBOX " end");
    assert_heard(first, "end");
    redisFree(first);
}

enum { BURST = 3000, AHEAD_MS = 1000 };

/* How much later than by the server's clock the only one that waits says that it began to. */
static double ms_ahead(void) {
    redisReply *reply = redis_server_command(&servers[0], "ZRANGE pawl:wait:{lock} 0 0 WITHSCORES");
    double ahead;

    assert_int_equal(reply->elements, 2);
    ahead = strtod(strstr(reply->element[0]->str, " x 1 ") + 5, NULL) - strtod(reply->element[1]->str, NULL);
    freeReplyObject(reply);
    return ahead;
}

static void no_matter(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock, (void)result, (void)why, (void)data;
}

/* A client that asks for locks more than once a millisecond does not seem to have waited the less for it: else all others would always have
 * their turns before it. */
static void test_a_busy_client_has_its_turn(void **state) {
    struct pawl *client = open_all("", LONG_MS, NULL), *busy = open_all("?handoff=0", LONG_MS, NULL);
    struct pawl_lock *held = mutex_of(client, "lock"), *lock = mutex_of(busy, "lock"), *locks[BURST];
    struct taker taker;

    (void)state;
    for (int i = 0; i < BURST; i++) {
        assert_works(pawl_mutex_new(busy, "other", PAWL_TASK, &locks[i], &error), &error);
        assert_works(pawl_acquire_start(locks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, no_matter, NULL, &error), &error);
    }
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, lock, PATIENCE_MS);
    await_integer(&servers[0], "ZCARD pawl:wait:{lock}", 1);
    assert_true(ms_ahead() <= AHEAD_MS);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    for (int i = 0; i < BURST; i++)
        pawl_lock_free(locks[i]);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(busy);
    pawl_close(client);
}

/* ---- Many waiters of one client --------------------------------------------------------------------------------------------- */

enum { WAITERS = 16, CHANGES = 8 };

struct order {
    struct pawl_lock *locks[WAITERS];
    int granted;
};

/* They hold in the order in which they asked. */
static void on_granted(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    struct order *order = data;

    assert_int_equal(result, 0);
    assert_null(why);
    assert_ptr_equal(lock, order->locks[order->granted]);
    order->granted++;
    assert_works(pawl_release(lock, &error), &error);
}

/* How often the first server was asked for a lock, or told that one is not wanted any more. */
static long scripts_run(void) {
    return redis_server_calls(&servers[0], "evalsha");
}

/* Only the oldest of them asks: the servers know of one, and each change of the lock makes one try. Were it each of them, every change
 * would cost the servers as many requests as there are waiters. */
static void test_of_many_waiters_one_asks(void **state) {
    struct pawl *client = open_all("?handoff=0", LONG_MS, NULL);
    struct order order = {.granted = 0};
    struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};
    long before;

    (void)state;
    set_foreign("f00", 0, 4);
    for (int i = 0; i < WAITERS; i++) {
        assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &order.locks[i], &error), &error);
        assert_works(pawl_acquire_start(order.locks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, on_granted, &order, &error), &error);
    }
    await_integer(&servers[0], "ZCARD pawl:wait:{lock}", 1);
    before = scripts_run();
    for (int i = 0; i < CHANGES; i++) {
        long calls = scripts_run();

        set_foreign("f01", 0, 4);
        await(scripts_run() != calls, "nobody asks again");
    }
    assert_true(scripts_run() - before < WAITERS * CHANGES / 2);
    assert_int_equal(redis_server_integer(&servers[0], "ZCARD pawl:wait:{lock}"), 1);
    for (int i = 0; i < NODES; i++)
        freeReplyObject(redis_server_command(&servers[i], "DEL lock"));
    while (order.granted < WAITERS) {
        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        pawl_dispatch(client);
    }
    for (int i = 0; i < WAITERS; i++)
        pawl_lock_free(order.locks[i]);
    pawl_close(client);
    await_free(0, 4);
}

/* How long attempts took, as this client believes. */
static void set_attempt_ms(struct pawl *client, int64_t ms) {
    struct redlock *redlock = redlock_of(client->engine);

    pawl__kit_lock(&redlock->wire.kit);
    redlock->attempt_ns = ms * REDLOCK_MS;
    pawl__kit_unlock(&redlock->wire.kit);
}

/* Who releases knows of it before everybody else, and would always be first: it lets those go first that wait. */
static void test_who_releases_lets_others_go_first(void **state) {
    struct pawl *one = open_all("", LONG_MS, NULL), *two = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    struct taker waiter, returner;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    start_taker(&waiter, other, PAWL_FOREVER);
    await_integer(&servers[4], "ZCARD pawl:wait:{lock}", 1);
    set_attempt_ms(one, 3000);
    assert_works(pawl_release(lock, &error), &error);
    start_taker(&returner, lock, PAWL_FOREVER);
    assert_int_equal(end_taker(&waiter), 0);
    assert_int_equal(end_taker(&returner), 0);
    assert_true(waiter.token < returner.token);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(one);
    pawl_close(two);
    await_free(0, 4);
}

/* One that gives up while it asks, or while it is behind, keeps nobody waiting. */
static void test_head_of_many_waiters_gives_up(void **state) {
    struct pawl *holder = open_all("", LONG_MS, NULL), *client = open_all("?handoff=0", LONG_MS, NULL);
    struct pawl_lock *held = mutex_of(holder, "lock"), *locks[3];
    struct taker takers[3];

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int i = 0; i < 3; i++)
        locks[i] = mutex_of(client, "lock");
    start_taker(&takers[0], locks[0], 200);
    await_integer(&servers[0], "ZCARD pawl:wait:{lock}", 1);
    start_taker(&takers[1], locks[1], 100);
    start_taker(&takers[2], locks[2], PATIENCE_MS);
    assert_int_equal(end_taker(&takers[0]), PAWL_ETIMEOUT);
    assert_int_equal(end_taker(&takers[1]), PAWL_ETIMEOUT);
    await_integer(&servers[0], "ZCARD pawl:wait:{lock}", 1);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(end_taker(&takers[2]), 0);
    for (int i = 0; i < 3; i++)
        pawl_lock_free(locks[i]);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(holder);
}

/* Two foreign programs have two votes each: nobody holds, and the fifth server's vote is not enough. */
static void test_nobody_has_a_majority(void **state) {
    struct pawl *client = open_all("", LONG_MS, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    set_foreign("f00", 0, 1);
    set_foreign("f01", 2, 3);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    assert_int_equal(look(client).holders, 0);
    await_integer(&servers[4], "EXISTS lock", 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_foreign_holder),
        TEST(test_record_outlives_its_hold),
        TEST(test_a_renewal_tells_of_a_break),
        TEST(test_broken_before_the_vote_is_known),
        TEST(test_broken_before_it_is_asked_again),
        TEST(test_the_end_is_told_to_one),
        TEST(test_a_busy_client_has_its_turn),
        TEST(test_nobody_has_a_majority),
        TEST(test_of_many_waiters_one_asks),
        TEST(test_who_releases_lets_others_go_first),
        TEST(test_head_of_many_waiters_gives_up),
    };

    return run_redis_tests(argc, argv, "redlock rivals", tests, "", NULL, stop_servers);
}
