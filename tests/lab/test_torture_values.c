/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torture_values.c - what the checker of `pawl torture` says of values beside locks, on histories written by hand: for each rule some
 * that break it and some that come close and do not.
 */
#include "../support/histories.h"

/* The holds of two clients, one after the other, tokens 5 and 8; what is done with values goes in between. */
#define FIRST TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n"
#define SECOND "40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n42 1.1.0 want 0 x 1 -1\n43 1.1.0 got 0 8 900" NS "\n"
#define ENDED "80 1.1.0 drop 0\n81 1.1.0 gone 0 0\n"
#define PUT "20 0.1.0 put 0 5 1\n"

static void test_values_are_read_as_written(void **state) {
    (void)state;
    holds(FIRST PUT "21 0.1.0 stored 0 0\n22 1.1.0 look 0 0\n23 1.1.0 saw 0 0 1 70 5\n" SECOND
                    "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 5\n52 1.1.0 put 0 8 2\n53 1.1.0 stored 0 0\n" ENDED
                    "90 0.1.0 look 0 0\n91 0.1.0 saw 0 0 2 71 8\n" END);
    assert_int_equal(verdict.values, 5);
    /* What nobody wrote; what was not written yet; another token, or another version than the one before. */
    breaks(RULE_VALUE, FIRST PUT "21 0.1.0 stored 0 0\n" SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 3 70 5\n" ENDED END);
    breaks(RULE_VALUE, FIRST "18 1.1.0 look 0 0\n19 1.1.0 saw 0 0 1 70 5\n" PUT "21 0.1.0 stored 0 0\n" SECOND ENDED END);
    breaks(RULE_VALUE, FIRST PUT "21 0.1.0 stored 0 0\n" SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 6\n" ENDED END);
    breaks(RULE_VALUE, FIRST PUT "21 0.1.0 stored 0 0\n22 1.1.0 look 0 0\n23 1.1.0 saw 0 0 1 70 5\n" SECOND
                                 "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 71 5\n" ENDED END);
    /* What it refused is not there; what it may have written can be. */
    breaks(RULE_VALUE, FIRST PUT "21 0.1.0 stored 0 -19\n" SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 5\n" ENDED END);
    holds(FIRST PUT "21 0.1.0 stored 0 -24\n" SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 5\n" ENDED END);
    holds(FIRST PUT "21 0.1.0 stored 0 -24\n" SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 0 0 0\n" ENDED END);
    breaks(RULE_ERROR, FIRST PUT "21 0.1.0 stored 0 -27\n" SECOND ENDED END);
}

/* A note is beside the value: neither is ever read in place of the other, and the same rules are for both. */
static void test_notes_are_apart_from_values(void **state) {
    (void)state;
#define BOTH PUT "21 0.1.0 stored 0 0\n22 0.1.0 put-note 0 5 2\n23 0.1.0 stored 0 0\n"
#define READ(what, number) "50 1.1.0 " what " 0 8\n51 1.1.0 saw 0 0 " number " 70 5\n"
    holds(FIRST BOTH SECOND READ("look", "1") ENDED END);
    holds(FIRST BOTH SECOND READ("look-note", "2") ENDED END);
    breaks(RULE_VALUE, FIRST BOTH SECOND READ("look", "2") ENDED END);
    breaks(RULE_VALUE, FIRST BOTH SECOND READ("look-note", "1") ENDED END);
    /* A value takes nothing from the note; who holds finds the last note; one of a deposed holder is refused. */
    breaks(RULE_VALUE, FIRST BOTH SECOND "50 1.1.0 look-note 0 8\n51 1.1.0 saw 0 0 0 0 0\n" ENDED END);
    breaks(RULE_VALUE, FIRST BOTH "24 0.1.0 put-note 0 5 3\n25 0.1.0 stored 0 0\n" SECOND READ("look-note", "2") ENDED END);
    holds(FIRST SECOND "50 0.1.0 put-note 0 5 1\n51 0.1.0 stored 0 -19\n" ENDED END);
    breaks(RULE_VALUE, FIRST SECOND "50 0.1.0 put-note 0 5 1\n51 0.1.0 stored 0 0\n" ENDED END);
#undef READ
#undef BOTH
}

/* Nobody goes back: neither to what was there before, nor to nothing. A fault may have made the server forget. */
static void test_values_do_not_go_back(void **state) {
    (void)state;
#define BACK(fault, saw)                                                                                                           \
    FIRST PUT "21 0.1.0 stored 0 0\n22 0.1.0 put 0 5 2\n23 0.1.0 stored 0 0\n" fault "30 1.1.0 look 0 0\n31 1.1.0 saw 0 0 " saw    \
              "\n" SECOND ENDED END
    holds(BACK("", "2 71 5"));
    breaks(RULE_VALUE, BACK("", "1 70 5"));
    breaks(RULE_VALUE, BACK("", "0 0 0"));
    holds(BACK("25 rig fault 0 flushall 7\n26 rig healed 0 1\n", "0 0 0"));
    holds(BACK("25 rig fault 0 failover 7\n26 rig healed 0 1\n", "1 70 5"));
    breaks(RULE_VALUE, BACK("25 rig fault 0 break-now 7\n26 rig healed 0 1\n", "1 70 5"));
#undef BACK
    /* A server that knows again what it had forgotten takes a write of an earlier token: a later one was read, or nothing was. */
#define KNOWS_AGAIN(fault, later, saw)                                                                                             \
    FIRST SECOND later "50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" fault "60 0.1.0 put-by-token 0 5 1\n61 0.1.0 stored 0 0\n" saw END
#define LATER "45 1.1.0 put 0 8 2\n46 1.1.0 stored 0 0\n47 1.1.0 look 0 0\n48 1.1.0 saw 0 0 2 70 8\n"
#define NOTHING "45 1.1.0 look 0 8\n46 1.1.0 saw 0 0 0 0 0\n"
#define EARLIER "62 0.1.0 look 0 0\n63 0.1.0 saw 0 0 1 71 5\n"
    holds(KNOWS_AGAIN("52 rig fault 0 failover 7\n53 rig healed 0 1\n", LATER, EARLIER));
    holds(KNOWS_AGAIN("52 rig fault 0 failover 7\n53 rig healed 0 1\n", NOTHING, ""));
    breaks(RULE_VALUE, KNOWS_AGAIN("", LATER, EARLIER));
    breaks(RULE_VALUE, KNOWS_AGAIN("", NOTHING, ""));
#undef EARLIER
#undef NOTHING
#undef LATER
#undef KNOWS_AGAIN
    /* While it is written either may be seen, but not first the new one and then the old one. */
    holds(FIRST "20 0.1.0 put 0 5 1\n21 1.1.0 look 0 0\n22 1.1.0 saw 0 0 0 0 0\n23 1.1.0 look 0 0\n24 1.1.0 saw 0 0 1 70 5\n"
                "25 0.1.0 stored 0 0\n" SECOND ENDED END);
    breaks(RULE_VALUE,
           FIRST "20 0.1.0 put 0 5 1\n21 1.1.0 look 0 0\n22 1.1.0 saw 0 0 1 70 5\n23 1.1.0 look 0 0\n24 1.1.0 saw 0 0 0 0 0\n"
                 "25 0.1.0 stored 0 0\n" SECOND ENDED END);
    /* Versions rise with the tokens. */
    breaks(RULE_VALUE, FIRST PUT "21 0.1.0 stored 0 0\n22 0.1.0 look 0 5\n23 0.1.0 saw 0 0 1 70 5\n" SECOND
                                 "50 1.1.0 put 0 8 2\n51 1.1.0 stored 0 0\n52 1.1.0 look 0 8\n53 1.1.0 saw 0 0 2 69 8\n" ENDED END);
}

/* Who was deposed writes nothing: not when it begins afterwards, and not by what was on its way. */
static void test_values_of_the_deposed(void **state) {
    (void)state;
#define DEPOSED(fault, code, saw)                                                                                                  \
    FIRST "15 rig stop 0.1\n912 1.1.0 want 0 x 1 -1\n913 1.1.0 got 0 8 900" NS "\n" fault                                          \
          "914 1.1.0 look 0 8\n915 1.1.0 saw 0 0 0 0 0\n920 0.1.0 put 0 5 1\n921 0.1.0 stored 0 " code "\n" saw                    \
          "940 1.1.0 drop 0\n941 1.1.0 gone 0 0\n950 0.1.0 drop 0\n951 0.1.0 gone 0 -19\n" END
    holds(DEPOSED("", "-19", ""));
    breaks(RULE_VALUE, DEPOSED("", "0", ""));
    breaks(RULE_VALUE, DEPOSED("", "-24", "930 1.1.0 look 0 0\n931 1.1.0 saw 0 0 1 70 5\n"));
    breaks(RULE_VALUE, DEPOSED("913 rig fault 0 flushall 7\n913 rig healed 0 1\n", "0", ""));
    holds(DEPOSED("913 rig fault 0 failover 7\n913 rig healed 0 1\n", "0", ""));
#undef DEPOSED
    /* It was on its way when the other came to hold, and read. */
    breaks(RULE_VALUE, FIRST PUT
           "912 1.1.0 want 0 x 1 -1\n913 1.1.0 got 0 8 900" NS
           "\n914 1.1.0 look 0 8\n915 1.1.0 saw 0 0 0 0 0\n921 0.1.0 stored 0 -24\n930 1.1.0 look 0 8\n"
           "931 1.1.0 saw 0 0 1 70 5\n940 1.1.0 drop 0\n941 1.1.0 gone 0 0\n950 0.1.0 drop 0\n951 0.1.0 gone 0 -19\n" END);
}

/* Written in the name of a hold, by its token: while it stands, or not at all. */
static void test_values_by_token(void **state) {
    (void)state;
#define BY_TOKEN(code) "20 1.1.1 put-by-token 0 5 1\n21 1.1.1 stored 0 " code "\n"
    holds(FIRST BY_TOKEN("0") SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 5\n" ENDED END);
    breaks(RULE_VALUE, FIRST BY_TOKEN("0") SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 0 0 0\n" ENDED END);
    breaks(RULE_VALUE, FIRST BY_TOKEN("0") "22 1.1.0 look 0 0\n23 1.1.0 saw 0 0 0 0 0\n" SECOND ENDED END);
    breaks(RULE_VALUE, FIRST BY_TOKEN("-22") SECOND "50 1.1.0 look 0 8\n51 1.1.0 saw 0 0 1 70 5\n" ENDED END);
    breaks(RULE_ERROR, FIRST PUT "21 0.1.0 stored 0 -22\n" SECOND ENDED END);
    /* The holder may have read before. */
    holds(FIRST BY_TOKEN("0") "22 0.1.0 look 0 5\n23 0.1.0 saw 0 0 0 0 0\n" SECOND ENDED END);
    breaks(RULE_VALUE, FIRST "12 0.1.0 put 0 5 2\n13 0.1.0 stored 0 0\n" BY_TOKEN("0") "22 0.1.0 look 0 5\n"
                                                                                       "23 0.1.0 saw 0 0 0 0 0\n" SECOND ENDED END);
    /* It was over. */
    holds(FIRST SECOND "50 0.1.0 put-by-token 0 5 1\n51 0.1.0 stored 0 -22\n" ENDED END);
    breaks(RULE_VALUE, FIRST SECOND "50 0.1.0 put-by-token 0 5 1\n51 0.1.0 stored 0 0\n" ENDED END);
    breaks(RULE_VALUE, FIRST SECOND "50 0.1.0 put-by-token 0 5 1\n51 0.1.0 stored 0 -24\n52 1.1.0 look 0 0\n"
                                    "53 1.1.0 saw 0 0 1 70 5\n" ENDED END);
    /* Two writes at the same time come in either order, but everybody sees the same one last. */
#define TWO_AT_ONCE(saw)                                                                                                           \
    FIRST "20 0.1.0 put 0 5 2\n21 1.1.1 put-by-token 0 5 1\n22 0.1.0 stored 0 0\n23 1.1.1 stored 0 0\n" saw SECOND ENDED END
    holds(TWO_AT_ONCE("30 1.1.0 look 0 0\n31 1.1.0 saw 0 0 1 71 5\n"));
    holds(TWO_AT_ONCE("30 1.1.0 look 0 0\n31 1.1.0 saw 0 0 2 71 5\n"));
    breaks(RULE_VALUE, TWO_AT_ONCE("30 1.1.0 look 0 0\n31 1.1.0 saw 0 0 0 0 0\n"));
#undef TWO_AT_ONCE
#undef BY_TOKEN
    /* Holds that one process has one after the other may be one to the server; not so when another process was between them. */
#define AGAIN(between)                                                                                                             \
    FIRST "30 0.1.0 drop 0\n31 0.1.0 gone 0 0\n" between "40 0.1.0 want 0 x 1 -1\n41 0.1.0 got 0 9 900" NS                         \
          "\n42 0.1.0 put 0 9 2\n43 0.1.0 stored 0 0\n44 1.1.0 put-by-token 0 5 1\n45 1.1.0 stored 0 0\n"                          \
          "46 1.1.0 look 0 0\n47 1.1.0 saw 0 0 1 70 5\n50 0.1.0 drop 0\n51 0.1.0 gone 0 0\n" END
    holds(AGAIN(""));
    breaks(RULE_VALUE, AGAIN("32 1.1.0 want 0 x 1 -1\n33 1.1.0 got 0 7 900" NS "\n34 1.1.0 drop 0\n35 1.1.0 gone 0 0\n"));
#undef AGAIN
}

/* Who observes may be told late, and not of everything; but never of what is older than what it was told, and of the last. */
static void test_values_that_observers_are_told(void **state) {
    (void)state;
#define SHOWN(fault, shown)                                                                                                        \
    FIRST PUT "21 0.1.0 stored 0 0\n22 0.1.0 put 0 5 2\n23 0.1.0 stored 0 0\n24 0.1.0 shown 0 2 71 5\n" fault shown SECOND ENDED END
    holds(SHOWN("", "30 1.1.0 shown 0 1 70 5\n31 1.1.0 shown 0 2 71 5\n"));
    assert_int_equal(verdict.values, 5);
    breaks(RULE_VALUE, SHOWN("", "30 0.1.0 shown 0 1 70 5\n"));
    breaks(RULE_VALUE, SHOWN("", "30 0.1.0 shown 0 0 0 0\n"));
    holds(SHOWN("25 rig fault 0 flushall 7\n26 rig healed 0 1\n", "30 0.1.0 shown 0 0 0 0\n"));
    /* Nobody wrote it; by another; and what was told is there for those who read afterwards. */
    breaks(RULE_VALUE, SHOWN("", "30 1.1.0 shown 0 3 71 5\n"));
    breaks(RULE_VALUE, SHOWN("", "30 1.1.0 shown 0 2 71 6\n"));
    breaks(RULE_VALUE, FIRST "20 0.1.0 put 0 5 1\n21 1.1.0 shown 0 1 70 5\n22 1.1.0 look 0 0\n23 1.1.0 saw 0 0 0 0 0\n"
                             "24 0.1.0 stored 0 0\n" SECOND ENDED END);
    breaks(RULE_VALUE, SHOWN("", "30 1.1.0 blind 0\n"));
#undef SHOWN
}

/* It may be told what too few replicas have, and what a failover takes back; but not what is not to be taken back any more. */
static void test_values_that_observers_are_told_early(void **state) {
    (void)state;
#define EARLY(code, then)                                                                                                          \
    FIRST PUT "21 1.1.0 shown 0 1 70 5\n22 0.1.0 stored 0 " code "\n" then                                                         \
              "30 1.1.0 look 0 0\n31 1.1.0 saw 0 0 0 0 0\n" SECOND ENDED END
    judge("redis-replicas", "1000000000", EARLY("-34", ""));
    assert_int_equal(verdict.violations[RULE_VALUE], 0);
    judge("redis-replicas", "1000000000", EARLY("-34", "23 1.1.0 shown 0 0 0 0\n"));
    assert_int_equal(verdict.violations[RULE_VALUE], 0);
    breaks(RULE_VALUE, EARLY("-24", ""));
    judge("redis-replicas", "1000000000", EARLY("0", ""));
    assert_true(verdict.violations[RULE_VALUE] > 0);
    judge("redis-replicas", "1000000000", EARLY("-34", "23 1.1.1 look 0 0\n24 1.1.1 saw 0 0 1 70 5\n"));
    assert_true(verdict.violations[RULE_VALUE] > 0);
#undef EARLY
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_read_as_written),
        cmocka_unit_test(test_notes_are_apart_from_values),
        cmocka_unit_test(test_values_do_not_go_back),
        cmocka_unit_test(test_values_of_the_deposed),
        cmocka_unit_test(test_values_by_token),
        cmocka_unit_test(test_values_that_observers_are_told),
        cmocka_unit_test(test_values_that_observers_are_told_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
