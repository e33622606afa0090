/* SPDX-License-Identifier: Apache-2.0
 *
 * test_claim.c - every cell of the table of a claim's states.
 */
#include "core/claim.h"
#include "../support/test.h"

static const char *const states[CLAIM_STATES] = {
    [CLAIM_NEW] = "new",   [CLAIM_PENDING] = "pending", [CLAIM_HELD] = "held", [CLAIM_OPEN] = "open",
    [CLAIM_KEPT] = "kept", [CLAIM_LEAVING] = "leaving", [CLAIM_GONE] = "gone", [CLAIM_LOST] = "lost",
};

static const char *next_of(enum claim_state state, int outcome) {
    int next = pawl__claim_move(state, outcome);

    return next == CLAIM_NEVER ? "-" : next == CLAIM_IGNORED ? "." : states[next];
}

/* `expected`: by outcome; "." is ignored, "-" never happens. */
static void assert_row(enum claim_state state, const char *const expected[CLAIM_OUTCOMES]) {
    for (int outcome = 0; outcome < CLAIM_OUTCOMES; outcome++)
        if (strcmp(next_of(state, outcome), expected[outcome]) != 0)
            fail_msg("%s, outcome %d: %s, not %s", states[state], outcome, next_of(state, outcome), expected[outcome]);
}

static void test_every_cell(void **state) {
    (void)state;
    /*              GRANTED  REFUSED  GONE  DOWNGRADED  RENEWED  LOST  BROKEN  WANTED  QUEUED  LEAVES  OPENS  RESTS  RESUMES */
    assert_row(CLAIM_NEW, (const char *const[]){"held", "gone", "-", "-", "-", "-", "-", "-", "pending", "-", "-", "-", "-"});
    assert_row(CLAIM_PENDING, (const char *const[]){"held", "gone", "gone", ".", ".", "pending", "pending", "pending", "pending",
                                                    "leaving", "-", "-", "-"});
    assert_row(CLAIM_HELD, (const char *const[]){".", "-", "gone", "held", "held", "lost", "lost", "held", "-", "leaving", "open",
                                                 "kept", "-"});
    assert_row(CLAIM_OPEN, (const char *const[]){".", "-", "gone", "-", "open", "lost", "lost", "open", "-", "leaving", "open",
                                                 "kept", "held"});
    assert_row(CLAIM_KEPT,
               (const char *const[]){".", "-", "gone", "-", "kept", "lost", "lost", "kept", "-", "leaving", "-", "-", "held"});
    assert_row(CLAIM_LOST, (const char *const[]){".", "-", "gone", "lost", ".", ".", ".", ".", "-", "leaving", "-", "-", "-"});
    assert_row(CLAIM_LEAVING, (const char *const[]){".", "gone", "gone", ".", ".", ".", ".", ".", "-", "-", "-", "-", "-"});
    assert_row(CLAIM_GONE, (const char *const[]){"-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"});
}

/* What no event takes back: a loss, a withdrawal, the end. */
static void test_no_way_back(void **state) {
    (void)state;
    for (int outcome = 0; outcome < CLAIM_OUTCOMES; outcome++) {
        assert_int_not_equal(pawl__claim_move(CLAIM_LOST, outcome), CLAIM_HELD);
        assert_int_not_equal(pawl__claim_move(CLAIM_LEAVING, outcome), CLAIM_HELD);
        assert_int_not_equal(pawl__claim_move(CLAIM_LEAVING, outcome), CLAIM_PENDING);
        assert_int_not_equal(pawl__claim_move(CLAIM_LOST, outcome), CLAIM_KEPT);
        assert_int_not_equal(pawl__claim_move(CLAIM_LOST, outcome), CLAIM_OPEN);
        assert_int_not_equal(pawl__claim_move(CLAIM_LEAVING, outcome), CLAIM_OPEN);
        assert_int_not_equal(pawl__claim_move(CLAIM_LEAVING, outcome), CLAIM_KEPT);
        assert_int_equal(pawl__claim_move(CLAIM_GONE, outcome), CLAIM_NEVER);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_no_way_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
