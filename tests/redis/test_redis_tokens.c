/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_tokens.c - tokens that are taken from the server for several holds of one process at once: how many are asked for, and that
 * they never outrun the server's clock, so that a counter that is lost can go on from there.
 *
 * Those who wait are tasks: each joins the claim within the call that starts it, and nothing is left to chance.
 */
#include <poll.h>
#include <signal.h>

#include "core/claim.h"
#include "../../lab/servers/proxy.h"
#include "../support/redis_one.h"
#include "../support/redis_rivals.h"

enum { TASKS = 8, WISHES = 3, LAYOUTS = 2 };

/* Handles of one lock in one client; the tokens of the holds that the last round had, in their order. */
struct crowd {
    struct pawl *client, *other; /* `other` may be NULL: a client with callbacks of its own */
    struct pawl_lock *holder, *tasks[TASKS];
    uint64_t tokens[1 + TASKS];
    int count;
};

/* What the crowd wants: a mutex, in either layout, or to write where others might read. */
static const char *const wishes[WISHES] = {"redisson", "plain", "rwlock"};

static bool writes(const char *wish) {
    return strcmp(wish, "rwlock") == 0;
}

static struct pawl *open_for(const char *wish, int handoffs) {
    char options[64];

    snprintf(options, sizeof options, "?handoff=%d,60000&layout=%s", handoffs, writes(wish) ? "redisson" : wish);
    return open_at(server.port, options, 0);
}

static struct pawl_lock *lock_for(struct pawl *client, const char *wish, unsigned flags) {
    struct pawl_lock *lock;

    assert_works((writes(wish) ? pawl_rwlock_new : pawl_mutex_new)(client, "lock", flags, &lock, &error), &error);
    return lock;
}

/* A crowd of this client's. */
static void gather(struct crowd *crowd, struct pawl *client, const char *wish) {
    *crowd = (struct crowd){.client = client};
    crowd->holder = lock_for(crowd->client, wish, 0);
    for (int i = 0; i < TASKS; i++)
        crowd->tasks[i] = lock_for(crowd->client, wish, PAWL_TASK);
}

static void open_crowd_of(struct crowd *crowd, int handoffs, const char *wish) {
    gather(crowd, open_for(wish, handoffs), wish);
}

static void open_crowd(struct crowd *crowd, const char *layout) {
    open_crowd_of(crowd, 64, layout);
}

static void close_crowd(struct crowd *crowd) {
    pawl_lock_free(crowd->holder);
    for (int i = 0; i < TASKS; i++)
        pawl_lock_free(crowd->tasks[i]);
    pawl_close(crowd->client);
}

static void acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    struct crowd *crowd = data;

    assert_works(result, why);
    crowd->tokens[crowd->count++] = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
}

static void hold(struct crowd *crowd) {
    assert_works(pawl_acquire(crowd->holder, PATIENCE_MS, &error), &error);
    crowd->tokens[0] = pawl_token(crowd->holder);
    crowd->count = 1;
}

/* Tasks come to wait, up to this one. */
static void join_before(struct crowd *crowd, int from, int end) {
    for (int i = from; i < end; i++)
        assert_works(pawl_acquire_start(crowd->tasks[i], PAWL_EXCLUSIVE, 1, PATIENCE_MS, acquired, crowd, &error), &error);
}

/* See that so many of the tasks have their turn. */
static void await_turns(struct crowd *crowd, int tasks) {
    struct pollfd fds[] = {{.fd = pawl_fd(crowd->client), .events = POLLIN},
                           {.fd = crowd->other ? pawl_fd(crowd->other) : -1, .events = POLLIN}};

    while (crowd->count < 1 + tasks) {
        if (poll(fds, 2, PATIENCE_MS) < 1)
            fail_msg("no callback became due");
        pawl_dispatch(crowd->client);
        if (crowd->other)
            pawl_dispatch(crowd->other);
    }
    for (int i = 1; i < crowd->count; i++)
        assert_true(crowd->tokens[i] > crowd->tokens[i - 1]);
}

static void let_all_have_it(struct crowd *crowd) {
    assert_works(pawl_release(crowd->holder, &error), &error);
    await_turns(crowd, TASKS);
}

/* One holds, all the others come to wait for it, and it lets go. */
static void take_round(struct crowd *crowd) {
    hold(crowd);
    join_before(crowd, 0, TASKS);
    let_all_have_it(crowd);
}

/* The server answers in order: once another question is answered, all earlier ones are. */
static void hear_the_server(const struct crowd *crowd) {
    assert_fails(PAWL_ETOKEN, pawl_break(crowd->client, "lock", 1, false, &error), &error);
}

static long long counter(void) {
    return redis_server_integer(&server, "GET redisson_lock_token:{lock}");
}

/* What was of use is asked for again: the second time all of them are served without a further request. */
static void test_asked_for_by_what_was_used(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        struct crowd crowd;
        long before;

        empty_server(NULL);
        open_crowd(&crowd, wishes[i]);
        take_round(&crowd);
        before = redis_server_scripts(&server);
        take_round(&crowd);
        assert_true(redis_server_scripts(&server) - before <
                    TASKS); /* two, but for renewals of a process that was stopped for seconds */
        for (int j = 1; j <= TASKS; j++)
            assert_true(crowd.tokens[j] == crowd.tokens[0] + (uint64_t)j);
        close_crowd(&crowd);
    }
}

/* Who was alone asks for one. */
static void test_one_for_one(void **state) {
    struct crowd crowd;

    (void)state;
    open_crowd(&crowd, "redisson");
    take_round(&crowd);
    hear_the_server(&crowd); /* it may have ordered more than it needed */
    for (int i = 0; i < 3; i++) {
        long long before = counter();

        assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(crowd.holder) == (uint64_t)before + 1);
        assert_works(pawl_release(crowd.holder, &error), &error);
        assert_true(i == 0 || counter() == before + 1); /* the first one still has what its predecessor could use */
    }
    close_crowd(&crowd);
}

/* The counter is ahead of the clock: then a claim gets one token, however many it wants. */
static void test_counter_does_not_outrun_the_clock(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        struct crowd crowd;
        long long ahead;

        empty_server(NULL);
        open_crowd(&crowd, wishes[i]);
        take_round(&crowd);
        hear_the_server(&crowd);
        ahead = redis_server_integer(&server, "INCRBY redisson_lock_token:{lock} 3600000000");
        for (int round = 0; round < 2; round++) {
            take_round(&crowd);
            for (int j = 0; j <= TASKS; j++)
                assert_true(crowd.tokens[j] == (uint64_t)++ahead);
            assert_true(counter() == ahead);
        }
        close_crowd(&crowd);
    }
}

/* Now, by the server's clock, in microseconds. */
static long long server_time(void) {
    return redis_server_integer(&server, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/* The counter is a little ahead of the clock, or behind it when it is asked: so many are given as there is room for, or one. */
static void test_as_many_as_the_clock_allows(void **state) {
    struct crowd crowd;
    long long set, after;

    (void)state;
    open_crowd(&crowd, "redisson");
    for (int ahead = 0; ahead < 1000; ahead += 10) {
        take_round(&crowd);
        hear_the_server(&crowd);
        set = server_time() + ahead;
        freeReplyObject(redis_server_command(&server, "SET redisson_lock_token:{lock} %lld", set));
        assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(crowd.holder) == (uint64_t)set + 1);
        after = counter();
        assert_true(after == set + 1 || after <= server_time());
        assert_works(pawl_release(crowd.holder, &error), &error);
    }
    close_crowd(&crowd);
}

/* Tokens that were reserved count as given: what comes after a loss is above them. */
static void test_lost_counter_goes_on_above_reserved_tokens(void **state) {
    struct crowd crowd;
    long long reserved;

    (void)state;
    open_crowd(&crowd, "redisson");
    take_round(&crowd);
    assert_works(pawl_acquire(crowd.holder, PATIENCE_MS, &error), &error);
    reserved = counter();
    assert_true((uint64_t)reserved >= pawl_token(crowd.holder) + TASKS);
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    assert_fails(PAWL_ELOST, pawl_release(crowd.holder, &error), &error);
    take_round(&crowd);
    assert_true(crowd.tokens[0] > (uint64_t)reserved);
    close_crowd(&crowd);
}

/* ---- More tokens ---------------------------------------------------------------------------------------------------------- */

/* With four hand-offs a claim is granted five tokens, and orders more when one of them is left: in the third turn after the holder's. */
enum { HANDOFFS = 4, SERVES = 1 + HANDOFFS, ORDERS_IN = 3 };

/* How many claims were made so far. */
static uint64_t claims_made(const struct crowd *crowd) {
    return crowd->holder->cohort->counts.claims;
}

static int keep_entry(const struct pawl_entry *entry, void *data) {
    *(struct pawl_entry *)data = *entry;
    return 0;
}

/* Its numbers, not its texts. */
static struct pawl_entry shown(const struct crowd *crowd) {
    struct pawl_entry entry = {0};

    assert_works(pawl_inspect(crowd->client, "lock", keep_entry, &entry, &error), &error);
    return entry;
}

/* A counter that is new gives one token, and is written down with it: a hold before the one that counts. Its claim is one of several
 * threads', as far as the core knows: so it hears. */
static void hold_for_the_second_time(struct crowd *crowd) {
    hold(crowd);
    assert_works(pawl_release(crowd->holder, &error), &error);
    crowd->holder->cohort->tokens_used = SERVES; /* so that it asks for all that it can use */
    hold(crowd);
}

/* Who looks sees the first token still; an operator's break finds the hold by any of them. */
static void test_more_tokens_belong_to_the_hold(void **state) {
    (void)state;
    for (int i = 0; i < WISHES; i++) {
        struct crowd crowd;
        uint32_t more;

        empty_server(NULL);
        open_crowd_of(&crowd, HANDOFFS, wishes[i]);
        hold_for_the_second_time(&crowd);
        assert_int_equal(ask_for_tokens(crowd.holder, TASKS, &more), PAWL__PENDING);
        hear_the_server(&crowd);
        assert_int_equal(ask_for_tokens(crowd.holder, TASKS, &more), PAWL__DONE);
        assert_int_equal(more, TASKS);
        assert_true(shown(&crowd).token == crowd.tokens[0]);
        assert_true((uint64_t)counter() == crowd.tokens[0] + SERVES + TASKS - 1);
        assert_fails(PAWL_ETOKEN, pawl_break(crowd.client, "lock", crowd.tokens[0] + SERVES + TASKS, false, &error), &error);
        assert_works(pawl_break(crowd.client, "lock", crowd.tokens[0] + SERVES + TASKS - 1, false, &error), &error);
        await(pawl_state(crowd.holder) == PAWL_LOST, "the holder is not told");
        assert_fails(PAWL_ELOST, pawl_release(crowd.holder, &error), &error);
        close_crowd(&crowd);
    }
}

/* The counter is moved, or lost, while the lock is held: what it would give now does not follow what the holder has. */
static void test_no_tokens_that_do_not_follow(void **state) {
    struct crowd crowd;
    uint32_t more;

    (void)state;
    for (int i = 0; i < 2 * WISHES; i++) {
        bool lost = i >= WISHES;

        empty_server(NULL);
        open_crowd_of(&crowd, HANDOFFS, wishes[i % WISHES]);
        hold_for_the_second_time(&crowd);
        redis_server_integer(&server, lost ? "DEL redisson_lock_token:{lock}" : "INCRBY redisson_lock_token:{lock} 7");
        assert_int_equal(ask_for_tokens(crowd.holder, TASKS, &more), PAWL__PENDING);
        hear_the_server(&crowd);
        assert_int_equal(ask_for_tokens(crowd.holder, TASKS, &more), PAWL_EHELD);
        assert_true(shown(&crowd).token == crowd.tokens[0]);
        join_before(&crowd, 0, TASKS);
        let_all_have_it(&crowd);
        assert_true(crowd.tokens[SERVES] > crowd.tokens[0] + 7); /* the first of the next claim */
        close_crowd(&crowd);
    }
}

/* Nobody looks for the answer: it is read all the same, in good time. */
static void test_answer_that_nobody_looks_for(void **state) {
    struct crowd crowd;
    uint32_t more;

    (void)state;
    gather(&crowd, open_at(server.port, "?handoff=4,60000&command=300", 0), "redisson");
    hold_for_the_second_time(&crowd);
    assert_int_equal(ask_for_tokens(crowd.holder, 1, &more), PAWL__PENDING);
    await(!owes_answers(server_of(crowd.client)), "nobody reads it");
    assert_works(pawl_release(crowd.holder, &error), &error);
    close_crowd(&crowd);
}

/* The connection is lost before the answer comes: there will be none. */
static void test_answer_that_is_lost(void **state) {
    struct proxy *proxy = proxy_new(server.port, NULL, NULL, NULL);
    struct pawl *client = open_at(proxy_port(proxy), "", 0);
    struct pawl_lock *lock = mutex_of(client, "lock");
    uint32_t more;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    proxy_freeze(proxy, true);
    assert_int_equal(ask_for_tokens(lock, 1, &more), PAWL__PENDING);
    proxy_cut(proxy);
    await(ask_for_tokens(lock, 1, &more) == PAWL_EHELD, "it hopes for tokens for ever");
    proxy_freeze(proxy, false);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
    proxy_free(proxy);
}

/* ---- Threads of one process ----------------------------------------------------------------------------------------------- */

/* What a task does in its turn, before it lets go. */
static struct crowd *stage;
static int turn_to_do_it;
static void (*do_it)(void);

static void took_turn(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    assert_works(result, why);
    stage->tokens[stage->count] = pawl_token(lock);
    hear_the_server(stage); /* tokens that were ordered have come */
    if (stage->count++ == turn_to_do_it)
        do_it();
    (void)data;
    assert_works(pawl_release(lock, &error), &error);
}

static void do_nothing(void) {
}

/* All of the crowd have it in turn, and in the turn of that number something happens. */
static void play_turns(struct crowd *crowd, int number, void (*what)(void)) {
    stage = crowd;
    turn_to_do_it = number;
    do_it = what;
    for (int i = 0; i < TASKS; i++)
        assert_works(pawl_acquire_start(crowd->tasks[i], PAWL_EXCLUSIVE, 1, PATIENCE_MS, took_turn, NULL, &error), &error);
    let_all_have_it(crowd);
}

/* Nobody else waits: one claim serves all of them, beyond its bounds, and its tokens are one row. */
static void test_no_bounds_while_nobody_else_waits(void **state) {
    (void)state;
    for (int i = 0; i < WISHES; i++) {
        struct crowd crowd;
        uint64_t claims;

        empty_server(NULL);
        open_crowd_of(&crowd, HANDOFFS, wishes[i]);
        hold_for_the_second_time(&crowd);
        claims = claims_made(&crowd);
        play_turns(&crowd, 0, do_nothing);
        for (int j = 1; j <= TASKS; j++)
            assert_true(crowd.tokens[j] == crowd.tokens[0] + (uint64_t)j);
        assert_true(claims_made(&crowd) == claims);
        close_crowd(&crowd);
    }
}

/* The server does not answer before the last token is used: the claim goes back, and another is asked for. */
static void test_tokens_that_come_too_late(void **state) {
    struct crowd crowd;
    uint64_t claims;

    (void)state;
    open_crowd_of(&crowd, HANDOFFS, "redisson");
    hold_for_the_second_time(&crowd);
    claims = claims_made(&crowd);
    join_before(&crowd, 0, TASKS);
    assert_true(claims_made(&crowd) == claims);
    kill(server.pid, SIGSTOP);
    assert_works(pawl_release(crowd.holder, &error), &error);
    await_turns(&crowd, HANDOFFS);
    kill(server.pid, SIGCONT);
    await_turns(&crowd, TASKS);
    assert_true(claims_made(&crowd) > claims);
    close_crowd(&crowd);
}

static uint64_t others_token;
static struct pawl_lock *others_lock;

static void other_acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)data;
    assert_works(result, why);
    others_token = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
}

static bool is_wanted(const struct crowd *crowd) {
    struct cohort *cohort = crowd->holder->cohort;
    bool wanted;

    pthread_mutex_lock(&cohort->mutex);
    wanted = TAILQ_FIRST(&cohort->claims)->wanted;
    pthread_mutex_unlock(&cohort->mutex);
    return wanted;
}

/* Another process comes to wait, and is heard of. */
static void another_comes(void) {
    assert_false(is_wanted(stage));
    assert_works(pawl_acquire_start(others_lock, PAWL_EXCLUSIVE, 1, PATIENCE_MS, other_acquired, NULL, &error), &error);
    await(is_wanted(stage), "the holder never hears of it");
}

/* How many of the crowd are served before one who comes in this turn? Turn 0 is the holder's, before anybody else waits. */
static int served_before_another(const char *wish, int turn) {
    struct crowd crowd;
    int before = 0;

    open_crowd_of(&crowd, HANDOFFS, wish);
    crowd.other = open_for(wish, HANDOFFS);
    others_lock = lock_for(crowd.other, wish, PAWL_TASK);
    hold_for_the_second_time(&crowd);
    stage = &crowd;
    if (turn == 0)
        another_comes();
    play_turns(&crowd, turn ? turn : -1, another_comes);
    await_turns(&crowd, TASKS);
    while (before < crowd.count && crowd.tokens[before] < others_token)
        before++;
    close_crowd(&crowd);
    pawl_lock_free(others_lock);
    pawl_close(crowd.other);
    return before;
}

/* The bounds count from when it came. */
static void test_stops_for_another(void **state) {
    (void)state;
    for (int i = 0; i < WISHES; i++) {
        empty_server(NULL);
        for (int turn = 0; turn <= ORDERS_IN; turn += ORDERS_IN) /* else it has too few tokens for it */
            assert_int_equal(served_before_another(wishes[i], turn), turn + SERVES);
    }
}

/* Listen for the lock's end, as a program does that is not pawl. */
static redisContext *listen_from_outside(void) {
    redisContext *listener = redisConnect("127.0.0.1", (int)server.port);

    freeReplyObject(redisCommand(listener, "SUBSCRIBE redisson_lock__channel:{lock}"));
    return listener;
}

/* It is looked for, long before the core asks for a renewal. */
static void await_wanted(void) {
    const struct claim *claim = TAILQ_FIRST(&stage->holder->cohort->claims);
    int64_t granted = claim->lease.sent_at;

    await(is_wanted(stage), "nobody looks for those who can't make themselves heard");
    assert_true(claim->lease.sent_at == granted && !claim->lease.renewing);
}

/* Somebody else listens for the lock's end: it is to have its chance. */
static void test_stops_for_a_foreign_program(void **state) {
    redisContext *listener = listen_from_outside();
    struct crowd crowd;
    uint64_t claims;

    (void)state;
    open_crowd_of(&crowd, HANDOFFS, "redisson");
    hold_for_the_second_time(&crowd);
    claims = claims_made(&crowd);
    play_turns(&crowd, 1, await_wanted);
    assert_true(claims_made(&crowd) > claims);
    close_crowd(&crowd);
    redisFree(listener);
}

static int64_t next_look(struct pawl *client) {
    struct server *one = server_of(client);
    int64_t when;

    pawl__redis_lock(one->redis);
    when = home_of(one)->hearers[HEARS_SHARED].look_at;
    pawl__redis_unlock(one->redis);
    return when;
}

/* While it is not handed on nobody is looked for: they wait for its holder. */
static void test_not_looked_for_while_one_holds(void **state) {
    struct crowd crowd;
    int64_t look;
    long before;

    (void)state;
    open_crowd_of(&crowd, HANDOFFS, "redisson");
    hold_for_the_second_time(&crowd);
    before = redis_server_scripts(&server);
    for (int i = 0; i < 3; i++) {
        look = next_look(crowd.client);
        assert_true(look > 0);
        await(next_look(crowd.client) != look, "it never looks");
    }
    assert_int_equal(redis_server_scripts(&server), before);
    assert_works(pawl_release(crowd.holder, &error), &error);
    close_crowd(&crowd);
}

/* Two processes' worth of threads hand on and hand over, while the counter is lost again and again. */
static void test_tokens_rise_while_the_counter_is_lost(void **state) {
    enum { CLIENTS = 2, THREADS = 6, TURNS = 150 };
    struct rivals rivals = {0};
    struct pawl_lock *locks[CLIENTS];
    struct pawl *clients[CLIENTS];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_at(server.port, "", 0);
        locks[i] = mutex_of(clients[i], "lock");
    }
    for (int i = 0; i < CLIENTS * THREADS; i++)
        rivals_add(&rivals, locks[i % CLIENTS]);
    while (rivals_least(&rivals) < TURNS && !atomic_load(&rivals.failures)) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        redis_server_integer(&server, "DEL redisson_lock_token:{lock}");
    }
    rivals_end(&rivals);
    for (int i = 0; i < CLIENTS; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
}

/* ---- The number ----------------------------------------------------------------------------------------------------------- */

static void test_number_that_is_asked_for(void **state) {
    static const uint32_t bounds[] = {0, 1, 2, 3, 64, 100000};
    struct pawl client = {0};
    struct cohort cohort = {.client = &client};

    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        client.options.handoffs = bounds[i];
        assert_int_equal(pawl__claim_tokens(&cohort, 0), 0);
        assert_int_equal(pawl__claim_tokens(&cohort, 1), 1);
        for (uint32_t used = 2; used < 300000; used = used * 3 / 2) {
            uint32_t asked = pawl__claim_tokens(&cohort, used);

            assert_true(asked <= 1 + bounds[i]);
            assert_true(asked == 2 * used || asked == 1 + bounds[i]);
            assert_true(asked >= pawl__claim_tokens(&cohort, used - 1));
        }
    }
}

#define TEST(function) cmocka_unit_test_setup(function, empty_server)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_asked_for_by_what_was_used),
        TEST(test_one_for_one),
        TEST(test_counter_does_not_outrun_the_clock),
        TEST(test_as_many_as_the_clock_allows),
        TEST(test_lost_counter_goes_on_above_reserved_tokens),
        TEST(test_more_tokens_belong_to_the_hold),
        TEST(test_no_tokens_that_do_not_follow),
        TEST(test_answer_that_nobody_looks_for),
        TEST(test_answer_that_is_lost),
        TEST(test_no_bounds_while_nobody_else_waits),
        TEST(test_tokens_that_come_too_late),
        TEST(test_stops_for_another),
        TEST(test_stops_for_a_foreign_program),
        TEST(test_not_looked_for_while_one_holds),
        TEST(test_tokens_rise_while_the_counter_is_lost),
        cmocka_unit_test(test_number_that_is_asked_for),
    };

    return run_redis_tests(argc, argv, "redis tokens", tests, "", NULL, stop_server);
}
