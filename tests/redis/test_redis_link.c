/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_link.c - the states of a connection: every state meets every event.
 */
#include "../support/test.h"

#include "engine/redis/wire/wire.h"

/* What comes of each state: when it starts, shakes hands, greets, is welcome, ends. */
static const struct {
    enum link_state from;
    const char *becomes; /* the first letters of the states */
} cells[] = {
    {LINK_DOWN, "CDDDD"}, {LINK_CONNECTING, "CSGCD"}, {LINK_SHAKING, "SSGSD"}, {LINK_GREETING, "GGGUD"}, {LINK_UP, "UUUUD"},
};

static void test_every_cell(void **state) {
    static const char letters[] = {
        [LINK_DOWN] = 'D', [LINK_CONNECTING] = 'C', [LINK_SHAKING] = 'S', [LINK_GREETING] = 'G', [LINK_UP] = 'U'};

    (void)state;
    assert_int_equal(sizeof cells / sizeof cells[0], LINK_STATES);
    for (size_t i = 0; i < LINK_STATES; i++)
        for (int event = 0; event < LINK_EVENTS; event++) {
            struct link link = {.state = cells[i].from};

            pawl__link_step(&link, (enum link_event)event);
            if (letters[link.state] != cells[i].becomes[event])
                fail_msg("state %c, event %d: %c, not %c", letters[cells[i].from], event, letters[link.state],
                         cells[i].becomes[event]);
        }
}

/* A link that is dropped says so when it is asked: what it leaves unanswered, in order, and then that it is down. Nothing else. */
static void test_what_a_drop_leaves(void **state) {
    struct redis *redis = calloc(1, sizeof *redis);
    struct server server = {.redis = redis};
    struct link *link = &server.commands;
    struct wire_event event;

    (void)state;
    assert_non_null(redis);
    redis->kit.engine = &redis->base;
    pawl__wire_init(redis);
    pawl__link_init(link, &server, false, "commands");
    for (int i = 0; i < 3; i++) {
        struct request *request = calloc(1, sizeof *request);

        assert_non_null(request);
        request->script = -1;
        request->step = i;
        TAILQ_INSERT_TAIL(&link->sent, request, link);
    }
    link->state = LINK_UP;
    pawl__link_drop(link, PAWL_ECONNLOST, "the test wants it");
    assert_int_equal(link->state, LINK_DOWN);
    for (int i = 0; i < 3; i++) {
        assert_true(pawl__wire_next(redis, &event));
        assert_int_equal(event.kind, WIRE_REPLY);
        assert_null(event.reply);
        assert_int_equal(event.request->step, i);
        free(event.request);
    }
    assert_true(pawl__wire_next(redis, &event));
    assert_int_equal(event.kind, WIRE_DOWN);
    assert_ptr_equal(event.link, link);
    assert_false(pawl__wire_next(redis, &event));
    pawl__link_drop(link, PAWL_ECONNLOST, "it is down already");
    assert_false(pawl__wire_next(redis, &event));
    /* Nor is anything kept that is said to it: the next connection would begin with that. */
    assert_false(pawl__link_say(link, 1, (const char *[]){"PING"}, NULL));
    assert_int_equal(link->out.used, 0);
    assert_false(pawl__wire_next(redis, &event));
    pawl__link_free(link);
    free(redis);
}

/* What the server said when it turned us away is not forgotten because a later try was merely cut; but a connection that worked ends it. */
static void test_why_outlives_a_cut(void **state) {
    struct redis *redis = calloc(1, sizeof *redis);
    struct server server = {.redis = redis, .url = "redis://here"};
    struct link *link = &server.commands;
    struct wire_event event;

    (void)state;
    assert_non_null(redis);
    redis->kit.engine = &redis->base;
    pawl__wire_init(redis);
    pawl__link_init(link, &server, false, "commands");
    link->state = LINK_GREETING;
    pawl__link_turned_away(link, PAWL_EACCES, "too many clients");
    link->state = LINK_GREETING;
    pawl__link_ended(link);
    assert_int_equal(link->why.code, PAWL_EACCES);
    assert_non_null(strstr(link->why.text, "too many clients"));
    link->state = LINK_CONNECTING;
    pawl__link_drop(link, PAWL_ECONNLOST, "can't connect");
    assert_non_null(strstr(link->why.text, "can't connect"));
    link->state = LINK_GREETING;
    pawl__link_turned_away(link, PAWL_EACCES, "too many clients");
    link->state = LINK_UP;
    pawl__link_ended(link);
    assert_non_null(strstr(link->why.text, "closed"));
    while (pawl__wire_next(redis, &event))
        ;
    pawl__link_free(link);
    free(redis);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cell), cmocka_unit_test(test_what_a_drop_leaves),
                                       cmocka_unit_test(test_why_outlives_a_cut)};

    return cmocka_run_group_tests_name("redis link", tests, NULL, NULL);
}
