/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_order.c - the engine's own form of the queue rule against the one in rule.c, over every small queue; names of foreign
 * clients; GUIDs; and how long a hold is assured.
 */
#include "engine/zookeeper/lock/lock.h"
#include "base/rule.h"
#include "../support/test.h"

enum { LONGEST = 6 };

static const char guid[] = "11111111-1111-8000-8010-111111111111";

/* Queues of readers and writers, as bits; each member asks where it stands, with the children in reverse order. */
static void test_against_the_queue_rule(void **state) {
    char names[LONGEST][96];
    const char *children[LONGEST];
    struct pawl__ticket queue[LONGEST];

    (void)state;
    for (unsigned count = 1; count <= LONGEST; count++)
        for (unsigned bits = 0; bits < 1u << count; bits++)
            for (unsigned own = 0; own < count; own++) {
                size_t index = 0, second, ahead, first, last;
                enum zk_rank rank;

                for (unsigned i = 0; i < count; i++) {
                    bool shared = bits >> i & 1;

                    queue[i] = (struct pawl__ticket){shared ? PAWL_SHARED : PAWL_EXCLUSIVE, 1};
                    snprintf(names[i], sizeof names[i], "_c_%s-%s%010u", i == own ? guid : "22222222-2222-4222-8222-222222222222",
                             shared ? "__READ__" : "__WRIT__", i * 7);
                    children[count - 1 - i] = names[i];
                }
                rank = pawl__zk_rank(ZK_RWLOCK, queue[own].mode == PAWL_SHARED, names[own], guid, children, count, &index, &second,
                                     &ahead);
                if (!pawl__queue_watches(queue, own, 1, &first, &last)) {
                    assert_int_equal(rank, ZK_RANK_FIRST);
                } else {
                    assert_int_equal(rank, ZK_RANK_BEHIND);
                    assert_int_equal(count - 1 - index, last);
                }
            }
}

static enum zk_rank rank_with(const char *other, size_t *ahead) {
    const char *own = "_c_11111111-1111-8000-8010-111111111111-lock-0000000005", *children[2] = {own, other};
    size_t index, second;

    return pawl__zk_rank(ZK_MUTEX, false, own, guid, children, 2, &index, &second, ahead);
}

static void test_foreign_names(void **state) {
    static const struct {
        const char *child;
        enum zk_rank rank;
    } cases[] = {
        {"_c_22222222-2222-4222-8222-222222222222-lock-0000000004", ZK_RANK_BEHIND}, /* Curator */
        {"_c_22222222-2222-4222-8222-222222222222-lock-0000000006", ZK_RANK_FIRST},
        {"_c_22222222222242228222222222222222-lock-0000000004", ZK_RANK_BEHIND}, /* go-zookeeper */
        {"0123456789abcdef0123456789abcdef__lock__0000000004", ZK_RANK_BEHIND},  /* Kazoo */
        {"f123456789abcdef0123456789abcdef__lock__0000000006", ZK_RANK_FIRST},
        {"x-72057594037927936-0000000004", ZK_RANK_BEHIND}, /* ZooKeeper's own recipes */
        {"!stray", ZK_RANK_STRAY},
        {"stray", ZK_RANK_FIRST},
        {"locks", ZK_RANK_FIRST},
        {"_c_22222222-2222-4222-8222-222222222222-__WRIT__0000000004", ZK_RANK_FOREIGN},
        {"_c_11111111-1111-8000-8010-111111111111-z__lock__0000000006", ZK_RANK_FIRST}, /* our own twin */
    };
    size_t ahead;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(rank_with(cases[i].child, &ahead), cases[i].rank);
}

static void test_own_node_must_be_there(void **state) {
    const char *children[] = {"_c_22222222-2222-4222-8222-222222222222-lock-0000000009"};
    size_t index, second, ahead;

    (void)state;
    assert_int_equal(pawl__zk_rank(ZK_MUTEX, false, "_c_11111111-1111-8000-8010-111111111111-lock-0000000005", guid, children, 1,
                                   &index, &second, &ahead),
                     ZK_RANK_ABSENT);
}

static void test_who_is_last_behind(void **state) {
    const char *children[] = {"_c_22222222-2222-4222-8222-222222222222-lock-0000000009",
                              "_c_11111111-1111-8000-8010-111111111111-lock-0000000005",
                              "_c_33333333-3333-4333-8333-333333333333-lock-0000000004",
                              "0123456789abcdef0123456789abcdef__lock__0000000010",
                              "leases",
                              "_c_44444444-4444-4444-8444-444444444444-lock-0000000007"};
    size_t behind;

    (void)state;
    assert_int_equal(pawl__zk_last_behind("/a/_c_11111111-1111-8000-8010-111111111111-lock-0000000005", children, 6, &behind), 3);
    assert_int_equal(behind, 3);
    assert_int_equal(pawl__zk_last_behind(children[1], children, 3, &behind), 0);
    assert_int_equal(behind, 1);
    assert_int_equal(pawl__zk_last_behind(children[3], children, 6, &behind), 6);
    assert_int_equal(behind, 0);
}

static void test_guids(void **state) {
    static const uint32_t limits[] = {1, 2, 255, 256, 65535, PAWL_PERMITS_MAX};
    unsigned char random[16];
    char made[ZK_GUID_SIZE], child[96];

    (void)state;
    memset(random, 0xff, sizeof random);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        pawl__zk_guid_format(limits[i], random, made);
        assert_int_equal(strlen(made), ZK_GUID_SIZE - 1);
        snprintf(child, sizeof child, "_c_%s-lease-0000000000", made);
        assert_int_equal(pawl__zk_guid_limit(child), limits[i]);
        assert_true(pawl__zk_has_guid(child, made));
    }
    assert_int_equal(pawl__zk_guid_limit("_c_22222222-2222-4222-8222-222222222222-lease-0000000000"), 0);
    assert_int_equal(pawl__zk_guid_limit("leases"), 0);
}

#define KEPT "_c_11111111-1111-8fff-8ff1-111111111111-"
#define KEPT_TOO "_c_22222222-2222-8fff-8ff2-222222222222-"
#define PLAIN "_c_33333333-3333-8000-8013-333333333333-"
#define CURATOR "_c_44444444-4444-4444-8444-444444444444-"
#define OWN "_c_55555555-5555-8fff-8ff5-555555555555-"
#define OWN_GUID "55555555-5555-8fff-8ff5-555555555555"
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A mark that no semaphore's limit is, and that a pawl which does not know it takes for a pawl's. */
static void test_the_mark_of_claims_that_are_kept(void **state) {
    unsigned char random[16] = {0};
    char made[ZK_GUID_SIZE], child[96];

    (void)state;
    assert_true(PAWL_PERMITS_MAX < ZK_KEEPS);
    pawl__zk_guid_format(ZK_KEEPS, random, made);
    assert_string_equal(made, "00000000-0000-8fff-8ff0-000000000000");
    snprintf(child, sizeof child, "_c_%s-lock-0000000007", made);
    assert_int_equal(pawl__zk_guid_limit(child), ZK_KEEPS);
    assert_true(pawl__zk_is_twin("_c_00000000-0000-8fff-8ff0-000000000000-z__lock__0000000008"));
    assert_false(pawl__zk_is_twin(child));
}

static bool wanted(enum zk_layout layout, bool shared, const char *other) {
    const char *children[] = {OWN "lock-0000000003", OWN "z__lock__0000000004", "below", other};

    return pawl__zk_is_wanted(layout, shared, children[0], OWN_GUID, children, COUNT(children));
}

static void test_who_wants_a_claim_that_is_kept(void **state) {
    (void)state;
    assert_false(wanted(ZK_MUTEX, false, "another-lock-below"));
    assert_true(wanted(ZK_MUTEX, false, PLAIN "lock-0000000009"));
    assert_false(wanted(ZK_MUTEX, false, PLAIN "lock-0000000002")); /* for whom it waits */
    assert_true(wanted(ZK_MUTEX, false, CURATOR "lock-0000000009"));
    assert_true(wanted(ZK_MUTEX, false, "0123456789abcdef0123456789abcdef__lock__0000000010"));
    assert_true(wanted(ZK_MUTEX, false, PLAIN "__READ__0000000009")); /* another kind */
    assert_true(wanted(ZK_MUTEX, false, "locks"));                    /* a semaphore is about to be made there */
    assert_true(wanted(ZK_RWLOCK, true, "leases"));
    assert_true(wanted(ZK_RWLOCK, false, CURATOR "__READ__0000000009"));
    assert_false(wanted(ZK_RWLOCK, true, CURATOR "__READ__0000000009"));
    assert_true(wanted(ZK_RWLOCK, true, CURATOR "__WRIT__0000000009"));
    assert_true(wanted(ZK_RWLOCK, true, PLAIN "lock-0000000009"));
}

static bool kept_ahead(enum zk_layout layout, bool shared, const char *first, const char *second) {
    const char *children[] = {layout == ZK_MUTEX ? OWN "lock-0000000005" : OWN "__READ__0000000005", first, second};

    return pawl__zk_kept_ahead(layout, shared, children[0], OWN_GUID, children, COUNT(children));
}

/* Worth waiting for are those that hold, and are marked. */
static void test_who_may_be_recalled(void **state) {
    (void)state;
    assert_true(kept_ahead(ZK_MUTEX, false, KEPT "lock-0000000003", "below"));
    assert_true(kept_ahead(ZK_MUTEX, false, KEPT "lock-0000000003", KEPT "z__lock__0000000004"));
    assert_true(kept_ahead(ZK_MUTEX, false, KEPT "lock-0000000003", PLAIN "lock-0000000009"));
    assert_false(kept_ahead(ZK_MUTEX, false, PLAIN "lock-0000000003", "below"));
    assert_false(kept_ahead(ZK_MUTEX, false, CURATOR "lock-0000000003", "below"));
    assert_false(kept_ahead(ZK_MUTEX, false, KEPT "lock-0000000003", KEPT_TOO "lock-0000000004")); /* which waits */
    assert_true(kept_ahead(ZK_RWLOCK, false, KEPT "__READ__0000000003", KEPT_TOO "__READ__0000000004"));
    assert_false(kept_ahead(ZK_RWLOCK, false, KEPT "__READ__0000000003", PLAIN "__READ__0000000004"));
    assert_false(kept_ahead(ZK_RWLOCK, false, KEPT "__READ__0000000003", KEPT_TOO "__WRIT__0000000004"));
    assert_true(kept_ahead(ZK_RWLOCK, true, KEPT "__WRIT__0000000003", PLAIN "__READ__0000000004"));
    assert_false(kept_ahead(ZK_RWLOCK, true, PLAIN "__WRIT__0000000003", "below"));
}

static void test_how_long_a_hold_is_assured(void **state) {
    (void)state;
    assert_int_equal(pawl__zk_assured(12000, 0), 5000);    /* 5T/12 */
    assert_int_equal(pawl__zk_assured(12000, 2000), 7000); /* T - T/3 - tick/2 */
    assert_int_equal(pawl__zk_assured(12000, 24000), 0);   /* a tick that no server has with it: nothing is assured */
    for (int64_t t = 1; t < 100000; t += 97)
        assert_true(pawl__zk_assured(t, 0) <= t * 5 / 12 + 2);
}

/* A request that leaves at `sent_at` and is answered at `at`, before any other one leaves. Returns from when on the leader has heard. */
static int64_t asked(struct zk_session *session, int64_t sent_at, int64_t at, bool writes) {
    struct zk_op op = {.session = session};

    pawl__zk_leaves(&op, sent_at);
    pawl__zk_answered(session, &op, at);
    if (writes)
        pawl__zk_proved(session, &op);
    return session->proofs.heard;
}

static void test_what_the_leader_has_heard(void **state) {
    struct zk_session session = {.timeout_ns = 12000}; /* half a tick may be 3000, and pings are up to 1000 late */

    (void)state;
    pawl__zk_proved_anew(&session, 1000);
    assert_int_equal(session.proofs.heard, 1000); /* a new connection is made known to it */
    assert_int_equal(asked(&session, 2000, 2100, false), 1000);
    assert_int_equal(asked(&session, 6099, 6100, true), 1000); /* too soon after the answer */
    assert_int_equal(asked(&session, 6101, 6102, true), 1000);
    assert_int_equal(asked(&session, 6103, 6104, true), 2000); /* the first that left behind another */
    assert_int_equal(asked(&session, 6105, 6106, false), 2000);
    assert_int_equal(asked(&session, 10200, 10201, true), 2000);
    assert_int_equal(asked(&session, 10202, 10203, false), 2000); /* it is read at the follower */
    assert_int_equal(asked(&session, 10204, 10205, true), 6099);  /* what left within a 64th of T is noted once */

    session.options.tick_ns = 1000;
    assert_int_equal(asked(&session, 11710, 11711, true), 6099);
    assert_int_equal(asked(&session, 11712, 11713, true), 10200);
}

/* A follower stands still, and has read nothing from us before it goes on: that it then answers several at once says nothing. */
static void test_a_follower_that_stood_still(void **state) {
    struct zk_session session = {.timeout_ns = 12000, .options.tick_ns = 2000};
    struct zk_op first = {.session = &session}, second = {.session = &session};

    (void)state;
    pawl__zk_proved_anew(&session, 1000);
    pawl__zk_leaves(&first, 3000);
    pawl__zk_leaves(&second, 7000);
    for (struct zk_op *op = &first; op; op = op == &first ? &second : NULL) {
        pawl__zk_answered(&session, op, 8400);
        pawl__zk_proved(&session, op);
    }
    for (int64_t at = 8401; at < 10400; at += 10)
        assert_int_equal(asked(&session, at, at + 5, true), 1000);
    assert_int_equal(asked(&session, 10401, 10402, true), 1000);
    assert_int_equal(asked(&session, 10403, 10404, true), 7000); /* half a tick and T/12 after they were answered */
}

static void test_several_are_answered_at_once(void **state) {
    struct zk_session session = {.timeout_ns = 12000};
    struct zk_op first = {.session = &session}, second = {.session = &session};

    (void)state;
    pawl__zk_proved_anew(&session, 1000);
    asked(&session, 2000, 2010, false);
    pawl__zk_leaves(&first, 8000);
    pawl__zk_leaves(&second, 8010);
    pawl__zk_proved(&session, &first);
    pawl__zk_proved(&session, &second);
    assert_int_equal(session.proofs.heard, 1000); /* neither left when the other had been answered */
    assert_int_equal(asked(&session, 8020, 8030, true), 2000);
}

/* Among many answers the last one that counts is found, and those of before a new connection say nothing. */
static void test_many_answers(void **state) {
    struct zk_session session = {.timeout_ns = 12000};
    int64_t at;

    (void)state;
    pawl__zk_proved_anew(&session, 1000);
    for (at = 2000; at < 60000; at += 10) {
        int64_t heard = asked(&session, at, at + 5, at % 20 == 0);

        if (at > 10000)
            assert_in_range(heard, at - 4000 - 12000 / 64 - 60, at - 4000);
    }
    pawl__zk_proved_anew(&session, at);
    assert_int_equal(asked(&session, at + 1, at + 2, true), at);
    assert_int_equal(asked(&session, at + 3, at + 4, true), at);
}

/* Never longer than the session after what the leader has heard, nor than a hold is assured after the last request. */
static void test_until_when_it_is_assured(void **state) {
    struct zk_session session = {.timeout_ns = 12 * ZK_S};

    (void)state;
    assert_int_equal(pawl__zk_assured_until(&session), 0);
    pawl__zk_proved_anew(&session, ZK_S);
    assert_int_equal(pawl__zk_assured_until(&session), 6 * ZK_S);
    session.proofs.sent = 2 * ZK_S;
    assert_int_equal(pawl__zk_assured_until(&session), 7 * ZK_S);
    session.proofs.sent = 12 * ZK_S;
    assert_in_range(pawl__zk_assured_until(&session), 12 * ZK_S + 800 * ZK_MS, 13 * ZK_S - 1);
    assert_false(pawl__zk_more_is_known(&session));
    session.proofs.passed = 2 * ZK_S;
    assert_true(pawl__zk_more_is_known(&session));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_mark_of_claims_that_are_kept),
        cmocka_unit_test(test_who_wants_a_claim_that_is_kept),
        cmocka_unit_test(test_who_may_be_recalled),
        cmocka_unit_test(test_against_the_queue_rule),
        cmocka_unit_test(test_foreign_names),
        cmocka_unit_test(test_own_node_must_be_there),
        cmocka_unit_test(test_guids),
        cmocka_unit_test(test_how_long_a_hold_is_assured),
        cmocka_unit_test(test_what_the_leader_has_heard),
        cmocka_unit_test(test_a_follower_that_stood_still),
        cmocka_unit_test(test_several_are_answered_at_once),
        cmocka_unit_test(test_many_answers),
        cmocka_unit_test(test_until_when_it_is_assured),
        cmocka_unit_test(test_who_is_last_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
