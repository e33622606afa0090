/* SPDX-License-Identifier: Apache-2.0
 *
 * test_simple.c - engines of blocking calls (lab/textbook/simple.h): the table of states, and a claim's life with a server that is a word.
 */
#include "../support/test.h"

#include "../../lab/textbook/simple.h"

static void test_every_cell(void **data) {
    enum { A = SIMPLE_ASKING, H = SIMPLE_HELD, L = SIMPLE_LEAVING, G = SIMPLE_GONE };
    static const int expected[SIMPLE_STATES][SIMPLE_EVENTS] = {
        /* GRANTED REFUSED WITHDRAWN RELEASED */
        [SIMPLE_ASKING] = {H, L, L, A},
        [SIMPLE_HELD] = {H, H, L, H},
        [SIMPLE_LEAVING] = {L, L, L, G},
        [SIMPLE_GONE] = {G, G, G, G},
    };

    (void)data;
    for (int state = 0; state < SIMPLE_STATES; state++)
        for (int event = 0; event < SIMPLE_EVENTS; event++)
            assert_int_equal(pawl__simple_move((enum simple_state)state, (enum simple_event)event), expected[state][event]);
}

/* What the server says next, and what was heard. */
static enum simple_answer says;
static int code, released, told[8], told_count;

static int word_open(struct simple *simple, struct pawl_error *reterr) {
    (void)simple;
    (void)reterr;
    return 0;
}

static void word_close(struct simple *simple) {
    (void)simple;
}

static enum simple_answer word_acquire(struct simple *simple, struct simple_claim *claim, struct pawl_error *retwhy) {
    (void)simple;
    claim->kit.grant.token = 7;
    retwhy->code = code;
    return says;
}

static enum simple_answer word_release(struct simple *simple, struct simple_claim *claim) {
    (void)simple;
    (void)claim;
    released++;
    return says;
}

static enum simple_answer word_renew(struct simple *simple, struct simple_claim *claim) {
    (void)simple;
    (void)claim;
    return says;
}

static const struct simple_ops word_ops = {
    .open = word_open, .close = word_close, .acquire = word_acquire, .release = word_release, .renew = word_renew};

static void hear(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    (void)core;
    (void)claim;
    (void)why;
    told[told_count++] = (int)news;
}

struct place {
    struct simple simple;
    struct pawl__claim claim;
    struct simple_claim state;
};

static struct pawl__engine *start(struct place *place, bool try_only) {
    static const struct pawl__engine_impl impl = {.name = "word", PAWL__SIMPLE_IMPL};
    struct pawl__setup setup = {.lease_ns = 3 * INT64_C(1000000000)};

    *place = (struct place){.claim = {.name = "a", .kind = PAWL_MUTEX, .mode = PAWL_EXCLUSIVE, .try_only = try_only}};
    place->simple.base = (struct pawl__engine){.impl = &impl, .tell = hear};
    code = released = told_count = 0;
    assert_int_equal(pawl__simple_open(&place->simple, &word_ops, &setup, NULL), 0);
    assert_int_equal(impl.submit(&place->simple.base, &place->claim, NULL), PAWL__PENDING);
    return &place->simple.base;
}

/* Serve until the core is told this. */
static void assert_told(struct pawl__engine *engine, enum pawl__news news) {
    for (int before = told_count; told_count == before;)
        engine->impl->serve(engine, pawl__boottime() + INT64_C(100000000));
    assert_int_equal(told[told_count - 1], news);
}

static void test_life(void **data) {
    struct place place;
    struct pawl__engine *engine = start(&place, false);

    (void)data;
    says = SIMPLE_YES;
    assert_told(engine, NEWS_GRANTED);
    assert_int_equal(place.claim.token, 7);
    engine->impl->renew(engine, &place.claim);
    assert_told(engine, NEWS_RENEWED);
    engine->impl->renew(engine, &place.claim);
    says = SIMPLE_NO;
    assert_told(engine, NEWS_LOST);
    engine->impl->withdraw(engine, &place.claim);
    says = SIMPLE_NOT_YET;
    engine->impl->serve(engine, 0);
    assert_int_equal(released, 1);
    says = SIMPLE_YES; /* it is asked again */
    assert_told(engine, NEWS_GONE);
    assert_int_equal(released, 2);
    assert_int_equal(told_count, 4);
    engine->impl->close(engine, 0);
}

/* A try is over; what it began at the server is taken back. */
static void test_refused(void **data) {
    struct place place;
    struct pawl__engine *engine = start(&place, true);

    (void)data;
    says = SIMPLE_NO;
    assert_told(engine, NEWS_REFUSED);
    assert_int_equal(released, 1);
    assert_int_equal(told_count, 1);
    engine->impl->close(engine, 0);
}

static void test_why(void **data) {
    struct pawl_error error = {0};
    struct place place;
    struct pawl__engine *engine = start(&place, false);

    (void)data;
    says = SIMPLE_NOT_YET;
    engine->impl->serve(engine, 0);
    assert_int_equal(engine->impl->extras->why(engine, &place.claim, &error), 0);
    engine->impl->withdraw(engine, &place.claim);
    says = SIMPLE_YES;
    assert_told(engine, NEWS_GONE);
    engine->impl->close(engine, 0);

    engine = start(&place, false);
    says = SIMPLE_NOT_YET;
    code = PAWL_ECONNLOST;
    engine->impl->serve(engine, 0);
    assert_int_equal(engine->impl->extras->why(engine, &place.claim, &error), PAWL_ECONNLOST);
    assert_int_equal(error.code, PAWL_ECONNLOST);
    engine->impl->close(engine, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_why),
    };

    return cmocka_run_group_tests_name("simple", tests, NULL, NULL);
}
