/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_groups.c - simulated servers that belong together: replicas that lag, failovers, slots that move. Beside them there is a
 * clock alone: the server that is due is called.
 */
#include "../../tests/support/test.h"

#include "../servers/redis.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

enum { LINKS = 8, STEPS_MAX = 2000000 };

struct link {
    char said[8192];
    size_t size;
    bool closed;
    struct redis *redis;
    void *session;
};

static struct redis_group *group;
static struct link links[LINKS];
static int64_t now;
static bool paused[16];

void link_send(struct link *link, const void *bytes, size_t size) {
    size_t n = size < sizeof link->said - 1 - link->size ? size : sizeof link->said - 1 - link->size;

    memcpy(link->said + link->size, bytes, n);
    link->size += n;
    link->said[link->size] = '\0';
}

void link_close(struct link *link) {
    link->closed = true;
    link->session = NULL;
}

/* ---- The world ------------------------------------------------------------------------------------------------------------ */

static struct redis *server(unsigned index) {
    return redis_group_server(group, index);
}

/* Let the time go on. */
static void run_until(int64_t until) {
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        int64_t first = until;
        unsigned who = 0, count = redis_group_count(group);

        for (unsigned i = 0; i < count; i++) {
            int64_t due = paused[i] ? SERVER_NEVER : redis_ops.due(server(i));

            if (due < first) {
                first = due;
                who = i + 1;
            }
        }
        if (first > now)
            now = first;
        if (!who)
            return;
        redis_ops.tick(server(who - 1), now);
    }
    fail_msg("there is always something to do");
}

static void let_go_on(int64_t ns) {
    run_until(now + ns);
}

#define await_that(condition)                                                                                                      \
    do {                                                                                                                           \
        int64_t end__ = now + 60 * SECOND;                                                                                         \
        while (!(condition) && now < end__)                                                                                        \
            let_go_on(10 * MS);                                                                                                    \
        if (!(condition))                                                                                                          \
            fail_msg("never: %s", #condition);                                                                                     \
    } while (0)

static struct link *connect_to(unsigned number, unsigned index) {
    struct link *link = &links[number];

    *link = (struct link){.redis = server(index)};
    link->session = redis_ops.accept(link->redis, link, now);
    return link;
}

static void disconnect(struct link *link) {
    if (link->session)
        redis_ops.gone(link->redis, link->session, now);
    link->session = NULL;
}

/* Send a line; what is answered at once. */
static const char *say(struct link *link, const char *line) {
    link->size = 0;
    link->said[0] = '\0';
    redis_ops.input(link->redis, link->session, line, strlen(line), now);
    redis_ops.input(link->redis, link->session, "\r\n", 2, now);
    return link->said;
}

static const char *ask(unsigned index, const char *line) {
    static char reply[16384];

    redis_do(server(index), now, reply, sizeof reply, "%s", line);
    return reply;
}

static void start(enum redis_group_kind kind, unsigned replicas, unsigned sentinels) {
    struct redis_group_settings settings = {
        .kind = kind, .replicas = replicas, .sentinels = sentinels, .server = {.seed = 7, .port = 7000}};

    now = 3600 * SECOND;
    memset(paused, 0, sizeof paused);
    group = redis_group_new(&settings, now);
    await_that(redis_group_whole(group));
}

static void end(void) {
    for (int i = 0; i < LINKS; i++)
        disconnect(&links[i]);
    redis_group_free(group);
    group = NULL;
}

static void stop(unsigned index) {
    for (int i = 0; i < LINKS; i++)
        if (links[i].redis == server(index))
            disconnect(&links[i]);
    redis_stop(server(index), now);
}

/* ---- Replicas ------------------------------------------------------------------------------------------------------------- */

static void test_what_is_written_arrives_at_replicas(void **state) {
    struct link *link;

    (void)state;
    start(REDIS_REPLICATED, 2, 0);
    link = connect_to(0, 0);
    assert_string_equal(say(link, "SET a 1 PX 5000"), "+OK\r\n");
    assert_string_equal(ask(1, "GET a"), "$-1\r\n");
    let_go_on(5 * MS);
    assert_string_equal(ask(1, "GET a"), "$1\r\n1\r\n");
    assert_string_equal(ask(2, "GET a"), "$1\r\n1\r\n");
    assert_contains(ask(1, "SET a 2"), "-READONLY ");
    assert_contains(ask(1, "ROLE"), "slave");
    assert_contains(ask(0, "INFO replication"), "connected_slaves:2\r\nslave0:ip=127.0.0.1,port=7001,state=online");
    let_go_on(6 * SECOND);
    assert_string_equal(ask(0, "DBSIZE"), ":0\r\n");
    assert_string_equal(ask(1, "DBSIZE"), ":0\r\n");
    end();
}

static void test_wait(void **state) {
    struct link *link;

    (void)state;
    start(REDIS_REPLICATED, 2, 0);
    link = connect_to(0, 0);
    say(link, "SET a 1");
    assert_string_equal(say(link, "WAIT 2 1000"), "");
    let_go_on(5 * MS);
    assert_string_equal(link->said, ":2\r\n");
    redis_set_lag(server(2), 300 * MS, 300 * MS);
    say(link, "SET a 2");
    assert_string_equal(say(link, "WAIT 2 100"), "");
    let_go_on(50 * MS);
    assert_string_equal(link->said, "");
    let_go_on(60 * MS);
    assert_string_equal(link->said, ":1\r\n");
    paused[1] = true;
    say(link, "SET a 3");
    say(link, "WAIT 1 0");
    assert_string_equal(say(link, "GET a"), ""); /* it waits for its turn */
    let_go_on(2 * SECOND);
    assert_string_equal(link->said, ":1\r\n$1\r\n3\r\n");
    end();
}

static void test_promotion_of_one_that_lags(void **state) {
    struct link *link;

    (void)state;
    start(REDIS_REPLICATED, 1, 0);
    link = connect_to(0, 0);
    say(link, "SET a 1");
    let_go_on(5 * MS);
    redis_set_lag(server(1), SECOND, SECOND);
    say(link, "SET a 2");
    assert_true(redis_behind(server(1)) > 0);
    redis_promote(server(1), now);
    assert_true(redis_is_primary(server(0)) && redis_is_primary(server(1)));
    assert_string_equal(ask(1, "GET a"), "$1\r\n1\r\n");
    assert_string_equal(ask(1, "SET b 1"), "+OK\r\n");
    assert_string_equal(say(link, "SET c 1"), "+OK\r\n");
    redis_set_lag(server(1), 0, 0);
    redis_replicate(server(0), now, server(1));
    await_that(redis_group_whole(group));
    assert_string_equal(ask(0, "MGET a b c"), "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n");
    end();
}

static void test_one_that_was_away_goes_on(void **state) {
    (void)state;
    start(REDIS_REPLICATED, 1, 0);
    redis_part(server(1), now, true);
    ask(0, "SET a 1");
    let_go_on(SECOND);
    assert_string_equal(ask(1, "GET a"), "$-1\r\n");
    redis_part(server(1), now, false);
    let_go_on(10 * MS);
    assert_string_equal(ask(1, "GET a"), "$1\r\n1\r\n");
    stop(1);
    ask(0, "SET a 2");
    let_go_on(SECOND);
    redis_start(server(1), now, REDIS_FORGETS, 0);
    await_that(redis_group_whole(group));
    assert_string_equal(ask(1, "GET a"), "$1\r\n2\r\n");
    end();
}

/* ---- Sentinel ------------------------------------------------------------------------------------------------------------- */

static void test_sentinels_fail_over(void **state) {
    struct link *link;
    int successor;

    (void)state;
    start(REDIS_WATCHED, 2, 3);
    link = connect_to(0, 3);
    assert_string_equal(say(link, "SENTINEL get-master-addr-by-name mymaster"), "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7000\r\n");
    assert_string_equal(say(link, "SENTINEL get-master-addr-by-name other"), "*-1\r\n");
    say(link, "SUBSCRIBE +switch-master");
    link->size = 0;
    ask(0, "SET a 1");
    let_go_on(100 * MS);
    stop(0);
    await_that((successor = redis_group_primary(group, 0)) > 0);
    await_that(link->size > 0);
    assert_contains(link->said, "mymaster 127.0.0.1 7000 127.0.0.1 700");
    assert_string_equal(ask((unsigned)successor, "GET a"), "$1\r\n1\r\n");
    redis_start(server(0), now, REDIS_KEEPS_ALL, 0);
    assert_true(redis_is_primary(server(0)));
    await_that(redis_group_whole(group));
    assert_false(redis_is_primary(server(0)));
    end();
}

static void test_a_primary_that_is_cut_off(void **state) {
    struct link *link;

    (void)state;
    start(REDIS_WATCHED, 2, 3);
    link = connect_to(0, 0);
    redis_part(server(0), now, true);
    await_that(redis_group_primary(group, 0) > 0);
    assert_true(redis_is_primary(server(0)));
    assert_string_equal(say(link, "SET a lost"), "+OK\r\n");
    redis_part(server(0), now, false);
    await_that(redis_group_whole(group));
    assert_true(link->closed);
    assert_string_equal(ask(0, "GET a"), "$-1\r\n");
    end();
}

static void test_failover_by_word_and_by_pause(void **state) {
    (void)state;
    start(REDIS_WATCHED, 2, 3);
    assert_string_equal(ask(3, "SENTINEL FAILOVER mymaster"), "+OK\r\n");
    await_that(redis_group_primary(group, 0) > 0);
    await_that(redis_group_whole(group));
    assert_false(redis_is_primary(server(0)));
    paused[redis_group_primary(group, 0)] = true;
    let_go_on(10 * SECOND);
    memset(paused, 0, sizeof paused);
    await_that(redis_group_whole(group));
    end();
}

/* ---- Cluster -------------------------------------------------------------------------------------------------------------- */

static void test_slots_move(void **state) {
    unsigned slot = redis_slot_of("a", 1);
    struct link *giver, *taker, *listener;
    int from, to;
    char text[64];

    (void)state;
    start(REDIS_CLUSTERED, 1, 0);
    from = redis_group_primary(group, slot);
    to = (from + 1) % 3;
    giver = connect_to(0, (unsigned)from);
    taker = connect_to(1, (unsigned)to);
    listener = connect_to(2, (unsigned)from);
    snprintf(text, sizeof text, "-MOVED %u 127.0.0.1:%d\r\n", slot, 7000 + from);
    assert_string_equal(say(taker, "GET a"), text);
    say(giver, "MSET {a}1 x {a}2 y {a}3 z");
    assert_contains(say(listener, "SSUBSCRIBE a"), "ssubscribe");
    listener->size = 0;
    assert_true(redis_slot_move_begin(group, now, slot, (unsigned)to));
    assert_int_equal(redis_slot_move_keys(group, now, slot, 1), 2);
    assert_contains(say(giver, "GET {a}2"), "-ASK ");
    assert_contains(say(giver, "MGET {a}1 {a}2"), "-TRYAGAIN ");
    assert_contains(say(giver, "GET {a}1"), "x");
    assert_contains(say(taker, "GET {a}2"), "-MOVED ");
    assert_string_equal(say(taker, "ASKING"), "+OK\r\n");
    assert_contains(say(taker, "GET {a}2"), "y");
    assert_contains(say(taker, "GET {a}2"), "-MOVED ");
    assert_false(redis_group_whole(group));
    assert_true(redis_slot_move_end(group, now, slot));
    assert_contains(listener->said, "sunsubscribe");
    assert_contains(say(giver, "GET {a}1"), "-MOVED ");
    assert_contains(say(taker, "MGET {a}1 {a}2 {a}3"), "x");
    await_that(redis_group_whole(group));
    assert_contains(say(taker, "MGET a b"), "-CROSSSLOT ");
    end();
}

static void test_a_node_fails(void **state) {
    unsigned slot = redis_slot_of("a", 1);
    int old, successor;

    (void)state;
    start(REDIS_CLUSTERED, 1, 0);
    old = redis_group_primary(group, slot);
    ask((unsigned)old, "SET a 1");
    let_go_on(100 * MS);
    stop((unsigned)old);
    await_that((successor = redis_group_primary(group, slot)) >= 0 && successor != old);
    assert_int_equal(successor, old + 3);
    assert_string_equal(ask((unsigned)successor, "GET a"), "$1\r\n1\r\n");
    redis_start(server((unsigned)old), now, REDIS_KEEPS_ALL, 0);
    assert_contains(ask((unsigned)old, "GET a"), "-CLUSTERDOWN ");
    await_that(redis_group_whole(group));
    assert_false(redis_is_primary(server((unsigned)old)));
    assert_contains(ask((unsigned)old, "SET a 1"), "-MOVED ");
    end();
}

static void test_a_node_is_cut_off(void **state) {
    unsigned slot = redis_slot_of("a", 1);
    int old;

    (void)state;
    start(REDIS_CLUSTERED, 1, 0);
    old = redis_group_primary(group, slot);
    redis_part(server((unsigned)old), now, true);
    assert_string_equal(ask((unsigned)old, "SET a 1"), "+OK\r\n");
    let_go_on(2 * SECOND);
    assert_contains(ask((unsigned)old, "SET a 1"), "-CLUSTERDOWN ");
    await_that(redis_group_primary(group, slot) != old && redis_group_primary(group, slot) >= 0);
    redis_part(server((unsigned)old), now, false);
    await_that(redis_group_whole(group));
    assert_false(redis_is_primary(server((unsigned)old)));
    end();
}

static void test_the_slots_are_told(void **state) {
    (void)state;
    start(REDIS_CLUSTERED, 1, 0);
    assert_contains(ask(0, "CLUSTER SLOTS"), "*3\r\n*4\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$40\r\n");
    assert_contains(ask(0, "CLUSTER NODES"), "myself,master");
    assert_contains(ask(0, "CLUSTER INFO"), "cluster_state:ok");
    assert_string_equal(ask(0, "CLUSTER KEYSLOT foo"), ":12182\r\n");
    end();
}

/* ---- One alone ------------------------------------------------------------------------------------------------------------ */

static void test_restarts_forget(void **state) {
    struct redis *redis = redis_new(&(struct redis_settings){.seed = 1, .port = 1, .journal_ns = 10 * SECOND});

    (void)state;
    redis_do(redis, SECOND, NULL, 0, "SET a 1");
    redis_do(redis, 2 * SECOND, NULL, 0, "HSET h f 1 g 2");
    redis_do(redis, 3 * SECOND, NULL, 0, "SET a 2");
    redis_do(redis, 3 * SECOND, NULL, 0, "HSET h f 3");
    redis_restart(redis, 4 * SECOND, REDIS_FORGETS_SINCE, 5 * SECOND / 2);
    redis_do(redis, 4 * SECOND, links[0].said, sizeof links[0].said,
             "EVAL \"return {redis.call('GET', 'a'), unpack(redis.call('HGETALL', 'h'))}\" 0");
    assert_string_equal(links[0].said, "*5\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\ng\r\n$1\r\n2\r\n");
    redis_restart(redis, 5 * SECOND, REDIS_KEEPS_ALL, 0);
    assert_int_equal(redis_key_count(redis), 2);
    assert_false(redis_do(redis, 5 * SECOND, NULL, 0, "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0"));
    redis_restart(redis, 6 * SECOND, REDIS_FORGETS, 0);
    assert_int_equal(redis_key_count(redis), 0);
    redis_free(redis);
}

static void test_a_write_fails_halfway(void **state) {
    struct redis *redis = redis_new(&(struct redis_settings){.seed = 1, .port = 1});
    char reply[256];

    (void)state;
    redis_fail_write(redis, 2, REDIS_OOM);
    assert_false(redis_do(redis, SECOND, reply, sizeof reply,
                          "EVAL \"redis.call('SET', 'a', 1) redis.call('GET', 'a') redis.call('SET', 'b', 1) return 1\" 0"));
    assert_contains(reply, "-OOM ");
    assert_true(redis_write_failed(redis));
    assert_int_equal(redis_key_count(redis), 1);
    redis_fail_writes(redis, REDIS_MISCONF);
    assert_false(redis_do(redis, SECOND, NULL, 0, "SET c 1"));
    assert_false(redis_do(redis, SECOND, NULL, 0, "PING"));
    assert_true(redis_do(redis, SECOND, NULL, 0, "GET a"));
    redis_fail_writes(redis, NULL);
    assert_true(redis_do(redis, SECOND, NULL, 0, "SET c 1"));
    redis_free(redis);
}

static void test_a_script_that_takes_long(void **state) {
    struct redis *redis = redis_new(&(struct redis_settings){.seed = 1, .port = 1});
    struct link *one = &links[0], *other = &links[1];

    (void)state;
    now = SECOND;
    redis_do(redis, now, NULL, 0, "CONFIG SET busy-reply-threshold 100");
    *one = *other = (struct link){.redis = redis};
    one->session = redis_ops.accept(redis, one, now);
    other->session = redis_ops.accept(redis, other, now);
    say(one,
        "EVAL \"local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + 300000 repeat t = redis.call('TIME') until t[1] * "
        "1000000 + t[2] > e return 7\" 0");
    assert_string_equal(one->said, "");
    assert_string_equal(say(other, "GET a"), "");
    now = redis_ops.due(redis);
    assert_true(now == SECOND + 100 * MS);
    redis_ops.tick(redis, now);
    assert_contains(other->said, "-BUSY ");
    now = redis_ops.due(redis);
    redis_ops.tick(redis, now);
    assert_string_equal(one->said, ":7\r\n");
    assert_string_equal(say(other, "GET a"), "$-1\r\n");
    disconnect(one);
    disconnect(other);
    redis_free(redis);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_arrives_at_replicas),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_promotion_of_one_that_lags),
        cmocka_unit_test(test_one_that_was_away_goes_on),
        cmocka_unit_test(test_sentinels_fail_over),
        cmocka_unit_test(test_a_primary_that_is_cut_off),
        cmocka_unit_test(test_failover_by_word_and_by_pause),
        cmocka_unit_test(test_slots_move),
        cmocka_unit_test(test_a_node_fails),
        cmocka_unit_test(test_a_node_is_cut_off),
        cmocka_unit_test(test_the_slots_are_told),
        cmocka_unit_test(test_restarts_forget),
        cmocka_unit_test(test_a_write_fails_halfway),
        cmocka_unit_test(test_a_script_that_takes_long),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("redis groups", tests, NULL, NULL);
}
