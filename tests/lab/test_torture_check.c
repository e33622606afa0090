/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torture_check.c - the checker of `pawl torture` on histories written by hand: for each rule one that breaks it and one that comes
 * close and does not; those of values are in test_torture_values.c. Also the table of guarantees, the schedule, and lines that are none.
 */
#include <inttypes.h>

#include "../support/histories.h"

#include "../../lab/torture/schedule.h"

static void test_exclusion(void **state) {
    (void)state;
    breaks(RULE_EXCLUSION, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS
                               "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n40 0.1.0 drop 0\n41 1.1.0 got 0 6 900" NS
              "\n42 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    /* It was paused, but it could know that its time was over. */
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n912 1.1.0 got 0 6 900" NS
              "\n940 0.1.0 drop 0\n941 0.1.0 gone 0 -19\n950 1.1.0 drop 0\n951 1.1.0 gone 0 0\n" END);
    /* What it was assured of later counts too. */
    breaks(RULE_EXCLUSION,
           TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n300 0.1.0 sure 0 900" NS "\n920 1.1.0 want 0 x 1 -1\n"
               "930 1.1.0 got 0 6 900" NS "\n1940 0.1.0 drop 0\n1941 0.1.0 gone 0 -19\n1950 1.1.0 drop 0\n"
               "1951 1.1.0 gone 0 0\n" END);
    /* The dead believe nothing; those who were told do not either. */
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n15 rig kill 0.1\n16 rig exit 0.1 0\n20 1.1.0 want 0 x 1 -1\n"
              "30 1.1.0 got 0 6 900" NS "\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS
              "\n20 1.1.0 want 0 x 1 -1\n25 0.1.0 lost 0 5\n30 1.1.0 got 0 6 900" NS
              "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 -19\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
}

/* A program that is not pawl: its holds have no token, and exclude pawl's; what two such do to each other is not judged. */
#define FOREIGN "0 0.1.0 start 100\n0 1.1.0 foreign redisson_lock\n0 2.1.0 foreign kazoo_lock\n"

static void test_foreigners(void **state) {
    (void)state;
    breaks(RULE_EXCLUSION,
           FOREIGN "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 0 900" NS
                   "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    breaks(RULE_PERMITS,
           FOREIGN "10 0.1.0 want 2 p 2 -1\n11 0.1.0 got 2 5 900" NS "\n20 1.1.0 want 2 p 2 -1\n30 1.1.0 got 2 0 900" NS
                   "\n40 0.1.0 drop 2\n41 0.1.0 gone 2 0\n50 1.1.0 drop 2\n51 1.1.0 gone 2 0\n" END);
    breaks(RULE_ERROR, FOREIGN "10 1.1.0 want 0 x 1 -1\n11 1.1.0 fail 0 -9\n" END);
    /* That pawl does not share a semaphore is an error, unless one takes part that counts on its own. */
    breaks(RULE_ERROR, FOREIGN "10 0.1.0 want 2 p 1 -1\n11 0.1.0 fail 2 -21\n" END);
    holds(FOREIGN "5 3.1.0 foreign redisson_semaphore\n10 0.1.0 want 2 p 1 -1\n11 0.1.0 fail 2 -21\n" END);
    holds(FOREIGN
          "10 1.1.0 want 0 x 1 -1\n11 1.1.0 got 0 0 900" NS "\n20 2.1.0 want 0 x 1 -1\n30 2.1.0 got 0 0 900" NS
          "\n40 1.1.0 drop 0\n41 1.1.0 gone 0 0\n50 2.1.0 lost 0 0\n50 2.1.0 drop 0\n51 2.1.0 gone 0 0\n60 0.1.0 want 0 x 1 -1\n"
          "61 0.1.0 got 0 5 900" NS "\n70 0.1.0 drop 0\n71 0.1.0 gone 0 0\n" END);
}

static void test_readers_and_writers(void **state) {
    (void)state;
    holds(TWO "10 0.1.0 want 1 s 1 -1\n11 0.1.0 got 1 5 900" NS "\n12 1.1.0 want 1 s 1 -1\n13 1.1.0 got 1 6 900" NS
              "\n14 0.1.0 drop 1\n15 0.1.0 gone 1 0\n16 1.1.0 drop 1\n17 1.1.0 gone 1 0\n" END);
    breaks(RULE_EXCLUSION, TWO "10 0.1.0 want 1 s 1 -1\n11 0.1.0 got 1 5 900" NS "\n12 1.1.0 want 1 x 1 -1\n13 1.1.0 got 1 6 900" NS
                               "\n14 0.1.0 drop 1\n15 0.1.0 gone 1 0\n16 1.1.0 drop 1\n17 1.1.0 gone 1 0\n" END);
    /* After its downgrade a writer may have company, and not before. */
    holds(TWO "10 0.1.0 want 1 x 1 -1\n11 0.1.0 got 1 5 900" NS "\n12 1.1.0 want 1 s 1 -1\n13 0.1.0 down 1\n14 1.1.0 got 1 6 900" NS
              "\n15 0.1.0 drop 1\n15 0.1.0 gone 1 0\n16 1.1.0 drop 1\n17 1.1.0 gone 1 0\n" END);
    breaks(RULE_EXCLUSION, TWO "10 0.1.0 want 1 x 1 -1\n11 0.1.0 got 1 5 900" NS "\n12 1.1.0 want 1 s 1 -1\n13 1.1.0 got 1 6 900" NS
                               "\n14 0.1.0 down 1\n15 0.1.0 drop 1\n15 0.1.0 gone 1 0\n16 1.1.0 drop 1\n17 1.1.0 gone 1 0\n" END);
}

static void test_permits(void **state) {
    (void)state;
    holds(TWO "10 0.1.0 want 2 p 2 -1\n11 0.1.0 got 2 5 900" NS "\n12 1.1.0 want 2 p 1 -1\n13 1.1.0 got 2 6 900" NS
              "\n14 0.1.0 drop 2\n15 0.1.0 gone 2 0\n16 1.1.0 drop 2\n17 1.1.0 gone 2 0\n" END);
    breaks(RULE_PERMITS, TWO "10 0.1.0 want 2 p 2 -1\n11 0.1.0 got 2 5 900" NS "\n12 1.1.0 want 2 p 2 -1\n13 1.1.0 got 2 6 900" NS
                             "\n14 0.1.0 drop 2\n15 0.1.0 gone 2 0\n16 1.1.0 drop 2\n17 1.1.0 gone 2 0\n" END);
}

/* One hold after the other, with these tokens; the second asks when the first is over. */
static const char *in_turn(const char *first, const char *second) {
    static char body[1024];

    snprintf(body, sizeof body,
             TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 %s 900" NS "\n14 0.1.0 drop 0\n15 0.1.0 gone 0 0\n"
                 "20 1.1.0 want 0 x 1 -1\n21 1.1.0 got 0 %s 900" NS "\n24 1.1.0 drop 0\n25 1.1.0 gone 0 0\n" END,
             first, second);
    return body;
}

static void test_tokens(void **state) {
    (void)state;
    holds(in_turn("5", "6"));
    holds(in_turn("9223372036854775808", "18446744073709551615"));
    breaks(RULE_TOKEN, in_turn("5", "5"));
    breaks(RULE_TOKEN, in_turn("6", "5"));
    breaks(RULE_TOKEN, in_turn("0", "5"));
    /* A waiter that asked earlier may have the lower token only if it held earlier. */
    breaks(RULE_TOKEN,
           TWO "10 0.1.0 want 0 x 1 -1\n12 1.1.0 want 0 x 1 -1\n13 1.1.0 got 0 6 900" NS
               "\n14 1.1.0 drop 0\n15 1.1.0 gone 0 0\n16 0.1.0 got 0 5 900" NS "\n17 0.1.0 drop 0\n18 0.1.0 gone 0 0\n" END);
    /* Readers have no order among themselves. */
    holds(TWO "10 0.1.0 want 1 s 1 -1\n11 0.1.0 got 1 6 900" NS "\n12 0.1.0 drop 1\n13 0.1.0 gone 1 0\n"
              "20 1.1.0 want 1 s 1 -1\n21 1.1.0 got 1 5 900" NS "\n22 1.1.0 drop 1\n23 1.1.0 gone 1 0\n" END);
}

static void test_store(void **state) {
    (void)state;
    /* An older token after a newer one is refused: nothing is lost. */
    judge("leased", "1000000000",
          TWO
          "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n12 0.1.0 read 0 5\n950 1.1.0 want 0 x 1 -1\n951 1.1.0 got 0 6 900" NS
          "\n952 1.1.0 read 0 6\n953 1.1.0 write 0 6\n954 0.1.0 write 0 5\n955 1.1.0 drop 0\n956 1.1.0 gone 0 0\n957 0.1.0 drop 0\n"
          "958 0.1.0 gone 0 -19\n" END);
    assert_int_equal(verdict.total, 0);
    assert_int_equal(verdict.accepted, 1);
    assert_int_equal(verdict.refused, 1);
    /* A token that is used twice lets both write: the first update is gone. */
    judge("leased", "1000000000",
          TWO
          "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n12 0.1.0 read 0 5\n950 1.1.0 want 0 x 1 -1\n951 1.1.0 got 0 5 900" NS
          "\n952 1.1.0 read 0 5\n953 1.1.0 write 0 5\n954 0.1.0 write 0 5\n955 1.1.0 drop 0\n956 1.1.0 gone 0 0\n957 0.1.0 drop 0\n"
          "958 0.1.0 gone 0 -19\n" END);
    assert_int_equal(verdict.violations[RULE_STORE], 1);
}

static void test_reentry(void **state) {
    (void)state;
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n12 0.1.0 again 0 5\n13 0.1.0 inner 0\n14 0.1.0 drop 0\n"
              "15 0.1.0 gone 0 0\n" END);
    breaks(RULE_REENTRY, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n12 0.1.0 again 0 6\n13 0.1.0 inner 0\n"
                             "14 0.1.0 drop 0\n15 0.1.0 gone 0 0\n" END);
}

#define IS_HELD TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n"
#define NEXT_AT(ms) "480 1.1.0 want 0 x 1 -1\n" ms " 1.1.0 got 0 6 900" NS "\n700 1.1.0 drop 0\n701 1.1.0 gone 0 0\n"
#define IS_LATE "5000 0.1.0 drop 0\n5001 0.1.0 gone 0 -19\n" END

/* Who has asked for a hold that lasts shorter believes it for no longer than that, answered or not; what was asked for is not passed, and
 * a hold that was confirmed is assured anew. */
static void test_extended(void **state) {
    (void)state;
    holds(IS_HELD "100 0.1.0 extend 0 500" NS "\n101 0.1.0 extended 0 0 499" NS " 0\n" NEXT_AT("600") IS_LATE);
    breaks(RULE_EXCLUSION, IS_HELD "100 0.1.0 extend 0 500" NS "\n101 0.1.0 extended 0 0 499" NS " 0\n" NEXT_AT("599") IS_LATE);
    holds(IS_HELD "100 0.1.0 extend 0 400" NS "\n" NEXT_AT("500") "4000 0.1.0 extended 0 -19 0 0\n" IS_LATE);
    breaks(RULE_EXCLUSION, IS_HELD "100 0.1.0 extend 0 -1\n" NEXT_AT("500") "4000 0.1.0 extended 0 -19 0 0\n" IS_LATE);
    breaks(RULE_TOLD, IS_HELD "100 0.1.0 extend 0 500" NS "\n101 0.1.0 extended 0 0 501" NS " 0\n" IS_LATE);
    holds(IS_HELD "100 0.1.0 extend 0 -1\n101 0.1.0 extended 0 0 990" NS " 0\n" IS_LATE);
    breaks(RULE_TOLD, IS_HELD "100 0.1.0 extend 0 -1\n101 0.1.0 extended 0 0 810" NS " 0\n" IS_LATE);
    /* It was asked late, or something was broken meanwhile. */
    holds(IS_HELD "100 0.1.0 extend 0 3000" NS "\n101 0.1.0 extended 0 0 810" NS " 100" NS "\n" IS_LATE);
    holds(IS_HELD "99 rig fault 0 flushall 7\n100 0.1.0 extend 0 3000" NS "\n101 0.1.0 extended 0 0 810" NS
                  " 0\n110 rig healed 0 1\n" IS_LATE);
    breaks(RULE_ERROR, IS_HELD "100 0.1.0 extend 0 -1\n101 0.1.0 extended 0 -9 890" NS " 0\n" IS_LATE);
}

#define THREE TWO "0 2.1.0 start 102\n"

#define OVERLAP(end)                                                                                                               \
    TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n"                       \
        "20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 9000" NS "\n" end

#define OVERLAP_BY(fault, more)                                                                                                    \
    TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n15 rig fault 0 " fault " 7\n" more "16 rig healed 0 1\n"              \
        "20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS                                                                          \
        "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END

/* The server forgets the hold of one process, another holds meanwhile, and the first goes on with the next token of those that it has. It
 * is assured for so many ms at `got`. Who held first: a thread of the same process, or of a third. */
#define LATE(first, call, got, assured)                                                                                            \
    THREE "10 " first " want 0 x 1 -1\n11 " first " got 0 4 900" NS "\n14 " first " drop 0\n15 " first                             \
          " gone 0 0\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS               \
          "\n31 1.1.0 drop 0\n32 1.1.0 gone 0 0\n" call " 0.1.0 want 0 x 1 -1\n" got " 0.1.0 got 0 5 " assured NS "\n" got         \
          " 0.1.0 drop 0\n" got " 0.1.0 gone 0 -19\n" END

/* Of three that have permits the server forgot the oldest: it, and `second` and `third` permits. The third asks at `call`, and is assured
 * for so many ms. */
#define PERMITS(second, call, third, assured)                                                                                      \
    THREE "10 0.1.0 want 2 p 1 -1\n11 0.1.0 got 2 5 900" NS "\n" call "15 rig fault 0 flushall 7\n16 rig healed 0 1\n"             \
          "20 1.1.0 want 2 p " second " -1\n21 1.1.0 got 2 6 9999" NS "\n" third "23 2.1.0 got 2 7 " assured NS                    \
          "\n30 0.1.0 drop 2\n31 0.1.0 gone 2 0\n32 1.1.0 drop 2\n33 1.1.0 gone 2 0\n34 2.1.0 drop 2\n35 2.1.0 gone 2 0\n" END

static void test_told(void **state) {
    (void)state;
    /* The fault explains the overlap, as long as its time has not run out. */
    holds(OVERLAP("40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END));
    assert_int_equal(verdict.overlaps, 1);
    breaks(RULE_TOLD, OVERLAP("500 0.1.0 sure 0 900" NS "\n1400 0.1.0 drop 0\n1401 0.1.0 gone 0 0\n1500 1.1.0 drop 0\n"
                              "1501 1.1.0 gone 0 0\n" END));
    /* A fault that was over before both were granted explains nothing. */
    breaks(RULE_EXCLUSION, TWO "5 rig fault 0 flushall 7\n6 rig healed 0 1\n10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS
                               "\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n"
                               "50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    /* Nor does one under which exclusion is promised. */
    breaks(RULE_EXCLUSION,
           TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n15 rig fault 0 client-stop 7\n16 rig healed 0 1\n"
               "20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n"
               "50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    /* Lost is final. */
    breaks(RULE_TOLD, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 0.1.0 lost 0 5\n30 0.1.0 sure 0 900" NS
                          "\n40 0.1.0 drop 0\n41 0.1.0 gone 0 -19\n" END);
    /* Granted before the server forgot, heard of after the next one: its token tells. */
    holds(TWO
          "10 0.1.0 want 0 x 1 -1\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 900" NS
          "\n31 1.1.0 drop 0\n32 1.1.0 gone 0 0\n40 0.1.0 got 0 5 900" NS "\n41 0.1.0 drop 0\n42 0.1.0 gone 0 -19\n" END);
    /* The same within its process, by one that asked later: as long as it may not have been told, and no longer. */
    holds(LATE("0.1.1", "40", "41", "800"));
    breaks(RULE_TOKEN, LATE("0.1.1", "40", "41", "980"));
    breaks(RULE_TOKEN, LATE("0.1.1", "1040", "1041", "5"));
    /* But not by one whose process had nothing that could be handed on. */
    breaks(RULE_TOKEN, LATE("2.1.0", "40", "41", "800"));
    /* Who waited when the server forgot, and is assured of more than anything from before, has it from after that. */
    breaks(RULE_TOLD, TWO "10 0.1.0 want 0 x 1 -1\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n"
                          "30 1.1.0 got 0 6 9999" NS "\n40 0.1.0 got 0 7 990" NS
                          "\n41 0.1.0 drop 0\n42 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    holds(TWO "10 0.1.0 want 0 x 1 -1\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n"
              "30 1.1.0 got 0 6 9999" NS "\n40 0.1.0 got 0 5 900" NS
              "\n41 0.1.0 drop 0\n42 0.1.0 gone 0 0\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END);
    /* Of three with permits it is the oldest that the server forgot: what it gave since must fit all the same. */
    holds(PERMITS("2", "", "22 2.1.0 want 2 p 1 -1\n", "900"));
    assert_int_equal(verdict.overlaps, 1);
    breaks(RULE_PERMITS, PERMITS("2", "", "22 2.1.0 want 2 p 2 -1\n", "900"));
    /* If the third had asked before, its permits may be from before, too; unless it is assured of too much for that. */
    holds(PERMITS("2", "12 2.1.0 want 2 p 2 -1\n", "", "900"));
    breaks(RULE_TOLD, PERMITS("2", "12 2.1.0 want 2 p 2 -1\n", "", "9999"));
    /* A break is of one lock. */
    holds(OVERLAP_BY("break-now", "15 rig broke 0\n"));
    breaks(RULE_EXCLUSION, OVERLAP_BY("break-now", "15 rig broke 1\n"));
    breaks(RULE_EXCLUSION, OVERLAP_BY("break-now", ""));
    /* Tokens may fall where the table says so, and only there. */
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n14 0.1.0 drop 0\n15 0.1.0 gone 0 0\n16 rig fault 0 failover 1\n"
              "17 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n21 1.1.0 got 0 5 900" NS "\n24 1.1.0 drop 0\n25 1.1.0 gone 0 0\n" END);
    /* Nor for ever: two leases and three seconds later they have risen. */
    breaks(RULE_TOKEN, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n14 0.1.0 drop 0\n15 0.1.0 gone 0 0\n"
                           "16 rig fault 0 failover 1\n17 rig healed 0 1\n6000 1.1.0 want 0 x 1 -1\n6001 1.1.0 got 0 4 900" NS
                           "\n6004 1.1.0 drop 0\n6005 1.1.0 gone 0 0\n6010 rig end\n");
}

#define FALL(one, other)                                                                                                           \
    TWO one "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 7 900" NS "\n14 0.1.0 drop 0\n15 0.1.0 gone 0 0\n" other                       \
            "20 1.1.0 want 0 x 1 -1\n21 1.1.0 got 0 6 900" NS "\n24 1.1.0 drop 0\n25 1.1.0 gone 0 0\n" END
#define FAST "5 rig fault 0 client-fast 1\n6 rig healed 0 1\n"
#define FORGOT(stroke) "16 rig fault " stroke " flushall 1\n17 rig healed " stroke " 1\n"
#define APART "5 rig apart 500\n"

/* A client of Redlock's whose clock runs fast, or servers whose clocks differ, and a server that forgets: the one alone must not make
 * tokens fall. */
static void test_tokens_of_voters(void **state) {
    (void)state;
    judge("redlock", "1000000000", FALL(FAST, FORGOT("1")));
    assert_int_equal(verdict.total, 0);
    judge("redlock", "1000000000", FALL(APART, FORGOT("0")));
    assert_int_equal(verdict.total, 0);
    judge("redlock", "1000000000", FALL(APART, ""));
    assert_true(verdict.violations[RULE_TOKEN] > 0);
    judge("redlock", "1000000000", FALL(FAST "9 rig fault 1 flushall 1\n10 rig healed 1 1\n", "")); /* the vote was older */
    assert_int_equal(verdict.total, 0);
    judge("redlock", "1000000000", FALL(FAST, ""));
    assert_true(verdict.violations[RULE_TOKEN] > 0);
    judge("redlock", "1000000000", FALL("", FORGOT("0")));
    assert_true(verdict.violations[RULE_TOKEN] > 0);
}

#define BROKEN(gone)                                                                                                               \
    TWO "5 rig asks break-now 1\n10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 -1\n15 rig fault 0 break-now 7\n15 rig broke 0\n"        \
        "16 rig healed 0 1\n20 1.1.0 want 0 x 1 -1\n30 1.1.0 got 0 6 -1\n40 0.1.0 drop 0\n41 0.1.0 gone 0 " gone                   \
        "\n50 1.1.0 drop 0\n51 1.1.0 gone 0 0\n" END

/* Without a lease, who was told of no loss had the lock all the while. */
static void test_told_without_a_lease(void **state) {
    (void)state;
    judge("local", "0", BROKEN("-19"));
    assert_int_equal(verdict.total, 0);
    assert_int_equal(verdict.overlaps, 1);
    judge("local", "0", BROKEN("0"));
    assert_int_equal(verdict.violations[RULE_EXCLUSION], 1);
    assert_int_equal(verdict.total, 1);
}

/* Without a lease nothing is lost by itself. */
static void test_loss_without_a_reason(void **state) {
    (void)state;
    judge("local", "0",
          TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 -1\n20 0.1.0 lost 0 5\n30 0.1.0 drop 0\n31 0.1.0 gone 0 -19\n" END);
    assert_int_equal(verdict.violations[RULE_TOLD], 1);
    assert_int_equal(verdict.total, 1);
    /* It had a limit. */
    judge("local", "0",
          TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 9" NS "\n20 0.1.0 lost 0 5\n30 0.1.0 drop 0\n31 0.1.0 gone 0 -19\n" END);
    assert_int_equal(verdict.total, 0);
}

/* 0 holds, 1 waits and is seen; then 2 asks, and gets it first, so many times. */
#define QUEUE(seen)                                                                                                                \
    THREE "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n" seen "40 0.1.0 drop 0\n41 0.1.0 gone 0 "  \
          "0\n"
#define OVERTAKE(at, token)                                                                                                        \
    "4" at "0 2.1.0 want 0 x 1 -1\n4" at "1 2.1.0 got 0 " token " 900" NS "\n4" at "2 2.1.0 drop 0\n4" at "3 2.1.0 gone 0 0\n"
#define AT_LAST "490 1.1.0 got 0 9 900" NS "\n491 1.1.0 drop 0\n492 1.1.0 gone 0 0\n" END

/* 0 writes, 1 waits in one mode and is seen; 2 comes twice in another. */
#define RW_QUEUE(mode, other, first, second)                                                                                       \
    THREE "10 0.1.0 want 1 x 1 -1\n11 0.1.0 got 1 5 900" NS "\n20 1.1.0 want 1 " mode " 1 -1\n30 rig seen 1 25" NS " 1.1@22" NS    \
          "\n40 0.1.0 drop 1\n41 0.1.0 gone 1 0\n42 2.1.0 want 1 " other " 1 -1\n43 2.1.0 got 1 " first " 900" NS                  \
          "\n44 2.1.0 drop 1\n45 2.1.0 gone 1 0\n46 2.1.0 want 1 " other " 1 -1\n47 2.1.0 got 1 " second " 900" NS                 \
          "\n48 2.1.0 drop 1\n49 2.1.0 gone 1 0\n50 1.1.0 got 1 9 900" NS "\n51 1.1.0 drop 1\n52 1.1.0 gone 1 0\n" END
#define PERMIT_QUEUE(token)                                                                                                        \
    THREE "10 0.1.0 want 2 p 2 -1\n11 0.1.0 got 2 5 900" NS "\n20 1.1.0 want 2 p 3 -1\n30 rig seen 2 25" NS " 1.1@22" NS           \
          "\n42 2.1.0 want 2 p 1 -1\n43 2.1.0 got 2 " token " 900" NS "\n44 2.1.0 drop 2\n45 2.1.0 gone 2 0\n46 0.1.0 drop 2\n"    \
          "47 0.1.0 gone 2 0\n50 1.1.0 got 2 9 900" NS "\n51 1.1.0 drop 2\n52 1.1.0 gone 2 0\n" END

/* 0 writes, and 1 waits to write, and is seen; 0 goes on as a reader, and is joined by readers of its process with these two tokens. */
#define DOWN_QUEUE(first, second)                                                                                                  \
    THREE "10 0.1.0 want 1 x 1 -1\n11 0.1.0 got 1 5 900" NS "\n20 1.1.0 want 1 x 1 -1\n30 rig seen 1 25" NS " 1.1@22" NS           \
          "\n40 0.1.0 down 1\n42 0.1.1 want 1 s 1 -1\n43 0.1.1 got 1 " first " 900" NS                                             \
          "\n44 0.1.2 want 1 s 1 -1\n45 0.1.2 got 1 " second " 900" NS                                                             \
          "\n46 0.1.0 drop 1\n46 0.1.0 gone 1 0\n47 0.1.1 drop 1\n47 0.1.1 gone 1 0\n48 0.1.2 drop 1\n48 0.1.2 gone "              \
          "1 0\n50 1.1.0 got 1 9 900" NS "\n51 1.1.0 drop 1\n52 1.1.0 gone 1 0\n" END

static void test_order(void **state) {
    (void)state;
    breaks(RULE_ORDER, QUEUE("30 rig seen 0 25" NS " 1.1@22" NS "\n") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    assert_int_equal(verdict.watched, 1);
    /* Once is a hand-off within its process: the header says handoff 1. */
    holds(QUEUE("30 rig seen 0 25" NS " 1.1@22" NS "\n") OVERTAKE("2", "6") AT_LAST);
    /* Not seen, seen by an entry that is older than the acquire, or under a fault that may cost a place: nothing can be said. */
    holds(QUEUE("") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    holds(QUEUE("30 rig seen 0 25" NS " 1.1@19" NS "\n") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    /* An entry of the ms in which the acquire began is its own, at every fraction of a ms at which the run may begin... */
    breaks(RULE_ORDER, QUEUE("30 rig seen 0 25" NS " 1.1@19000001\n") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    breaks(RULE_ORDER, QUEUE("30 rig seen 0 25" NS " 1.1@19999999\n") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    /* ... unless it may be that of another of this process, which waited in that ms and does not any more. */
    holds(QUEUE("20 1.1.1 want 0 x 1 0\n22 1.1.1 fail 0 -10\n30 rig seen 0 25" NS " 1.1@19500000\n") OVERTAKE("2", "6")
              OVERTAKE("3", "7") AT_LAST);
    breaks(RULE_ORDER, QUEUE("21 1.1.1 want 0 x 1 0\n22 1.1.1 fail 0 -10\n30 rig seen 0 25" NS " 1.1@19500000\n") OVERTAKE("2", "6")
                           OVERTAKE("3", "7") AT_LAST);
    /* An entry that a neighbour may have left, who gave up after it was made; not one who had given up before. */
    holds(QUEUE("21 1.1.1 want 0 x 1 0\n24 1.1.1 fail 0 -10\n30 rig seen 0 25" NS " 1.1@22" NS "\n") OVERTAKE("2", "6")
              OVERTAKE("3", "7") AT_LAST);
    breaks(RULE_ORDER, QUEUE("20 1.1.1 want 0 x 1 0\n21 1.1.1 fail 0 -10\n30 rig seen 0 25" NS " 1.1@22" NS "\n") OVERTAKE("2", "6")
                           OVERTAKE("3", "7") AT_LAST);
    holds(QUEUE("30 rig seen 0 15" NS " 1.1@22" NS "\n") OVERTAKE("2", "6") OVERTAKE("3", "7") AT_LAST);
    holds(QUEUE("30 rig seen 0 25" NS " 1.1@22" NS "\n") "42 rig fault 0 client-stop 1\n43 rig healed 0 1\n" OVERTAKE("2", "6")
              OVERTAKE("3", "7") AT_LAST);
    breaks(RULE_ORDER, QUEUE("30 rig seen 0 25" NS " 1.1@22" NS "\n") "42 rig fault 0 client-kill 1\n43 rig healed 0 1\n" OVERTAKE(
                           "2", "6") OVERTAKE("3", "7") AT_LAST);
    /* Readers overtake writers and writers readers, as writers do; readers do not overtake readers. */
    breaks(RULE_ORDER, RW_QUEUE("x", "s", "6", "7"));
    breaks(RULE_ORDER, RW_QUEUE("s", "x", "6", "7"));
    holds(RW_QUEUE("s", "s", "6", "7"));
    /* A claim that was downgraded is handed on apart from another of the process. */
    holds(DOWN_QUEUE("6", "8"));
    breaks(RULE_ORDER, DOWN_QUEUE("6", "7"));
    breaks(RULE_ORDER, DOWN_QUEUE("7", "8"));
    /* A permit is handed on to nobody: once is too often. */
    breaks(RULE_ORDER, PERMIT_QUEUE("6"));
    holds(PERMIT_QUEUE("10"));
}

#define KEEP "0 rig keep 500" NS "\n"
/* 0 holds, and 1 waits and is seen; 0 enters what it keeps twice more, in these hundredths of a second. */
#define REENTERS(second, third)                                                                                                    \
    KEEP QUEUE("30 rig seen 0 25" NS " 1.1@22" NS "\n") second                                                                     \
        "0 0.1.0 want 0 x 1 -1\n" second "1 0.1.0 got 0 6 900" NS "\n" second "2 0.1.0 drop 0\n" second "3 0.1.0 gone 0 0\n" third \
        "0 0.1.0 want 0 x 1 -1\n" third "1 0.1.0 got 0 7 900" NS "\n" third "2 0.1.0 drop 0\n" third "3 0.1.0 gone 0 0\n" third    \
        "4 1.1.0 got 0 9 900" NS "\n" third "5 1.1.0 drop 0\n" third "6 1.1.0 gone 0 0\n99999 rig end\n"

/* Claims that are kept while nobody holds. */
static void test_kept(void **state) {
    (void)state;
    /* A hold may be of a claim that is older than all that its process ever had; what it is assured of is not. */
    holds(KEEP LATE("2.1.0", "40", "41", "800"));
    breaks(RULE_TOKEN, KEEP LATE("2.1.0", "40", "41", "980"));
    /* Who keeps the lock may enter it until it can have heard that somebody waits. */
    holds(REENTERS("10", "100"));
    breaks(RULE_ORDER, REENTERS("110", "120"));
}

static void test_wakeups(void **state) {
    (void)state;
    /* Idle is a lease and a second: 2 s. */
    breaks(RULE_WAKEUP, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n40 0.1.0 drop 0\n"
                            "41 0.1.0 gone 0 0\n2100 1.1.0 got 0 6 900" NS "\n2101 1.1.0 drop 0\n2102 1.1.0 gone 0 0\n" END);
    breaks(RULE_WAKEUP, TWO "10 1.1.0 want 0 x 1 -1\n" END);
    breaks(RULE_WAKEUP, TWO "20 1.1.0 want 0 x 1 3000\n3030 1.1.0 fail 0 -11\n" END);
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n"
              "2000 1.1.0 got 0 6 900" NS "\n2001 1.1.0 drop 0\n2002 1.1.0 gone 0 0\n" END);
    /* A fault and the time to recover from it (5 s here) don't count. */
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n40 0.1.0 drop 0\n41 0.1.0 gone 0 0\n"
              "50 rig fault 0 flushall 1\n60 rig healed 0 1\n6000 1.1.0 got 0 6 900" NS
              "\n6001 1.1.0 drop 0\n6002 1.1.0 gone 0 0\n" END);
    breaks(RULE_WAKEUP, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 1.1.0 want 0 x 1 -1\n40 0.1.0 drop 0\n"
                            "41 0.1.0 gone 0 0\n50 rig fault 0 flushall 1\n60 rig healed 0 1\n7100 1.1.0 got 0 6 900" NS
                            "\n7101 1.1.0 drop 0\n7102 1.1.0 gone 0 0\n" END);
    breaks(RULE_WAKEUP, TWO "10 rig hung 0.1\n" END);
}

/* 0 had the lock and may keep it; 1 comes later, and does not wait. */
static void test_tries(void **state) {
    (void)state;
#define HELD TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n20 0.1.0 drop 0\n21 0.1.0 gone 0 0\n"
#define TRIES(when, until) when " 1.1.0 want 0 x 1 0\n" until " 1.1.0 fail 0 -10\n"
    breaks(RULE_TRY, HELD TRIES("530", "540") END);
    breaks(RULE_TRY, TWO TRIES("20", "30") END);
    holds(HELD TRIES("510", "600") END); /* the release may be on its way */
    breaks(RULE_TRY, HELD "700 0.1.0 want 1 x 1 0\n" TRIES("701", "702") "703 0.1.0 fail 1 -11\n" END);
    /* Somebody wants it, before or meanwhile; or blinks. */
    holds(HELD "700 0.1.0 want 0 x 1 0\n" TRIES("701", "702") "703 0.1.0 fail 0 -10\n" END);
    holds(HELD "700 1.1.0 want 0 x 1 0\n701 0.1.0 want 0 x 1 0\n702 0.1.0 fail 0 -11\n703 1.1.0 fail 0 -10\n" END);
    holds(HELD "700 0.1.0 blink 0\n" TRIES("1300", "1302") "1303 0.1.0 blinked 0\n" END);
    holds(HELD "700 1.1.0 want 0 x 1 0\n701 0.1.0 blink 0\n702 0.1.0 blinked 0\n703 1.1.0 fail 0 -10\n" END);
    breaks(RULE_TRY, HELD "700 0.1.0 blink 0\n701 0.1.0 blinked 0\n" TRIES("1300", "1302") END);
    breaks(RULE_HISTORY, HELD "700 0.1.0 blinked 0\n" END);
    /* A set ends with all of its parts; and a fault leaves something for a lease and the time to mend, six seconds here. */
    holds(HELD "700 1.1.0 part 0 x 1 0\n701 1.1.0 fail 0 -10\n" END);
    holds(HELD "50 rig fault 0 flushall 1\n60 rig healed 0 1\n" TRIES("6000", "6001") END);
    breaks(RULE_TRY, HELD "50 rig fault 0 flushall 1\n60 rig healed 0 1\n" TRIES("6100", "6101") END);
    holds(HELD "50 rig kill 0.1\n51 rig exit 0.1 9\n" TRIES("6000", "6001") END);
    breaks(RULE_TRY, HELD "50 rig kill 0.1\n51 rig exit 0.1 9\n" TRIES("6100", "6101") END);
#undef TRIES
#undef HELD
}

/* 0 takes two locks as one, and has the first while it waits for the second; 1 waits for the first. */
static void test_sets(void **state) {
    (void)state;
#define SET(record)                                                                                                                \
    TWO "10 0.1.0 " record " 0 x 1 -1\n20 1.1.0 want 0 x 1 -1\n3000 0.1.0 got 0 5 900" NS                                          \
        "\n3001 0.1.0 drop 0\n3002 0.1.0 gone 0 "                                                                                  \
        "0\n3003 1.1.0 got 0 6 900" NS "\n3004 1.1.0 drop 0\n3005 1.1.0 gone 0 0\n" END
    breaks(RULE_WAKEUP, SET("want"));
    holds(SET("part"));
#undef SET
    /* Also when nothing came of it; but not longer than that. */
    holds(TWO "10 0.1.0 part 0 x 1 -1\n20 1.1.0 want 0 x 1 -1\n3000 0.1.0 fail 0 -11\n3003 1.1.0 got 0 6 900" NS
              "\n3004 1.1.0 drop 0\n3005 1.1.0 gone 0 0\n" END);
    breaks(RULE_WAKEUP, TWO "10 0.1.0 part 0 x 1 -1\n20 1.1.0 want 0 x 1 -1\n3000 0.1.0 fail 0 -11\n6003 1.1.0 got 0 6 900" NS
                            "\n6004 1.1.0 drop 0\n6005 1.1.0 gone 0 0\n" END);
    /* While it waits for the others it has a claim, which a thread beside it may join without knowing that it is lost. */
#define JOINED(record)                                                                                                             \
    TWO "10 0.1.0 " record                                                                                                         \
        " 1 s 1 -1\n15 rig fault 0 flushall 7\n16 rig healed 0 1\n20 1.1.0 want 1 x 1 -1\n30 1.1.0 got 1 8 900" NS                 \
        "\n31 1.1.0 drop 1\n32 1.1.0 gone 1 0\n40 0.1.1 want 1 s 1 -1\n41 0.1.1 got 1 5 500" NS                                    \
        "\n42 0.1.1 drop 1\n43 0.1.1 gone 1 0\n60 0.1.0 fail 1 -19\n" END
    holds(JOINED("part"));
    breaks(RULE_TOKEN, JOINED("want"));
#undef JOINED
    /* A server that forgets it may know it again after a restart; but nothing else explains that another was in between. */
#define AGAIN(fault)                                                                                                               \
    TWO "10 0.1.0 part 1 s 1 -1\n" fault "20 1.1.0 want 1 x 1 -1\n30 1.1.0 got 1 8 900" NS                                         \
        "\n31 1.1.0 drop 1\n32 1.1.0 gone 1 0\n5000 0.1.0 got 1 5 900" NS "\n5001 0.1.0 drop 1\n5002 0.1.0 gone 1 0\n" END
    holds(AGAIN("15 rig fault 0 flushall 7\n16 rig healed 0 1\n"));
    breaks(RULE_TOKEN, AGAIN(""));
#undef AGAIN
    /* It has a thread's number for each, and excludes others as any hold does. */
    breaks(RULE_EXCLUSION, TWO "10 0.1.0 part 0 x 1 -1\n10 0.1.1 part 1 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n11 0.1.1 got 1 6 900" NS
                               "\n12 1.1.0 want 1 x 1 -1\n13 1.1.0 got 1 7 900" NS "\n14 1.1.0 drop 1\n15 1.1.0 gone 1 0\n"
                               "20 0.1.0 drop 0\n21 0.1.0 gone 0 0\n22 0.1.1 drop 1\n23 0.1.1 gone 1 0\n" END);
}

static void test_what_the_rig_saw(void **state) {
    (void)state;
    breaks(RULE_RESIDUE, TWO "10 rig residue a key: pawl:queue:{x}\n" END);
    breaks(RULE_HERD, TWO "10 rig wakes 1000\n" END);
    holds(TWO "10 rig wakes 100\n" END);
    breaks(RULE_CRASH, TWO "10 rig exit 0.1 -11\n" END);
    holds(TWO "10 rig exit 0.1 0\n" END);
    breaks(RULE_HIT, TWO "10 rig asks flushall 2\n11 rig fault 0 flushall 1\n12 rig healed 0 1\n13 rig fault 1 flushall 1\n"
                         "14 rig healed 1 0\n" END);
    holds(TWO "10 rig asks flushall 1\n11 rig fault 0 flushall 1\n12 rig healed 0 1\n" END);
    breaks(RULE_ERROR, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 fail 0 -13\n" END);
    breaks(RULE_ERROR, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 got 0 5 900" NS "\n12 0.1.0 drop 0\n13 0.1.0 gone 0 -17\n" END);
    holds(TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 fail 0 -23\n" END);
}

static void test_not_a_history(void **state) {
    (void)state;
    breaks(RULE_HISTORY, TWO);
    breaks(RULE_HISTORY, "nonsense\n" END);
    breaks(RULE_HISTORY, TWO "10 0.1.0 got 0 5 900\n" END);
    breaks(RULE_HISTORY, TWO "10 0.1.0 want 7 x 1 -1\n" END);
    breaks(RULE_HISTORY, TWO "10 0.1.0 want 0 s 1 -1\n" END);
    breaks(RULE_HISTORY, TWO "10 0.1.0 want 0 x 1 -1\n11 0.1.0 want 0 x 1 -1\n12 0.1.0 fail 0 -11\n" END);
    breaks(RULE_HISTORY, TWO "10 0.2.0 want 0 x 1 -1\n" END);
    breaks(RULE_HISTORY, TWO "10 rig asks slot-migration 1\n11 rig fault 0 slot-migration 1\n12 rig healed 0 1\n" END);
    breaks(RULE_HISTORY, TWO "10 0.1.0 end\n" END);
    judge("unheard-of", "0", END);
    assert_true(verdict.violations[RULE_HISTORY] > 0);
}

/* ---- Torn records --------------------------------------------------------------------------------------------------------- */

static char torn_text[4 * HISTORY_PAGE];
static size_t torn_used;

static void say(const char *text, size_t length) {
    memcpy(torn_text + torn_used, text, length);
    torn_used += length;
}

/* A line of so many bytes that says nothing of interest. */
static void say_nothing(size_t length) {
    static const char head[] = "5000000 rig seen 0 0 ";
    size_t left = length - strlen(head) - 1;

    say(head, strlen(head));
    for (; left >= 11; left -= 6)
        say("9.9@1 ", 6);
    say("9.9@111111", left);
    say("\n", 1);
}

/* Client 0.1 is being killed if `kill` says so, and of its record `cut` bytes are written, of which `over` belong to the next page. Then
 * another goes on, and the one is gone. */
static void judge_torn(const char *kill, const char *record, size_t cut, size_t over) {
    static const char head[] =
        "0 rig version 1\n0 rig engine leased\n0 rig lease 1000000000\n0 rig handoff 1\n0 rig lock 0 mutex 1\n"
        "1000000 0.1.0 start 100\n2000000 1.1.0 start 101\n3000000 0.1.0 want 0 x 1 -1\n";
    static const char tail[] = "900000100 1.1.0 want 0 x 1 -1\n900000200 1.1.0 fail 0 -11\n900000300 rig exit 0.1 -9\n"
                               "900000400 1.1.0 bye\n900000500 rig exit 1.1 0\n900000600 rig end\n";
    struct check *check = check_new(table);
    size_t start = HISTORY_PAGE + over - cut - strlen(kill);

    assert_non_null(check);
    torn_used = 0;
    say(head, strlen(head));
    while (torn_used < start)
        say_nothing(start - torn_used > 120 ? 60 : start - torn_used);
    say(kill, strlen(kill));
    say(record, cut);
    say(tail, strlen(tail));
    for (const char *line = torn_text, *end; line < torn_text + torn_used; line = end + 1) {
        end = memchr(line, '\n', (size_t)(torn_text + torn_used - line));
        check_line(check, line, (size_t)(end - line));
    }
    check_finish(check, &verdict);
    check_free(check);
}

/* A writer that is killed leaves what was in the page; that is no fault of the history. Anything else is. */
static void test_torn_record(void **state) {
    static const char kill[] = "800000000 rig kill 0.1\n", record[] = "900000000 0.1.0 got 0 426193715527 900\n";

    (void)state;
    for (size_t cut = 1; cut < strlen(record); cut++) {
        judge_torn(kill, record, cut, 0);
        if (verdict.total || verdict.torn != 1)
            fail_msg("cut after %zu: %" PRIu64 " torn, %" PRIu64 " violations: %s", cut, verdict.torn, verdict.total,
                     verdict.total ? verdict.first[0].text : "");
    }
    judge_torn(kill, record, 20, 1); /* not at the end of a page */
    assert_true(verdict.violations[RULE_HISTORY] > 0);
    judge_torn("", record, 20, 0); /* nobody was killed */
    assert_true(verdict.violations[RULE_HISTORY] > 0);
    judge_torn("800000000 rig kill 1.1\n", record, 20, 0); /* another was */
    assert_true(verdict.violations[RULE_HISTORY] > 0);
    judge_torn(kill, "900000000 0.1.0 got 0 4261\n9371", 31, 0); /* a whole one before it */
    assert_int_equal(verdict.violations[RULE_HISTORY], 1);
    judge_torn(kill, record, strlen(record), 5); /* it goes over the page, and is whole */
    assert_int_equal(verdict.total + verdict.torn, 0);
    judge_torn(kill, record, strlen(record), strlen(record) - 3);
    assert_int_equal(verdict.total + verdict.torn, 0);
}

/* ---- The table itself ----------------------------------------------------------------------------------------------------- */

static void test_table(void **state) {
    static const char *const engines[] = {"local",          "zookeeper", "zookeeper3", "redis",
                                          "redis-replicas", "sentinel",  "cluster",    "redlock"};
    struct oracle oracle;
    char why[256];

    (void)state;
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        if (!oracle_read(oracle_text, engines[i], &oracle, why, sizeof why))
            fail_msg("%s: %s", engines[i], why);
        assert_true(oracle.faults[FAULT_CLIENT_KILL].known);
        assert_int_equal(oracle.faults[FAULT_CLIENT_KILL].promise, PROMISE_EXCLUSIVE);
        assert_true(bound_ns(oracle.idle, 0) > 0);
    }
    assert_true(oracle_read(table, "leased", &oracle, why, sizeof why));
    assert_int_equal(oracle.faults[FAULT_FAILOVER].promise, PROMISE_LOSS);
    assert_int_equal(oracle.faults[FAULT_FLUSHALL].told, TOLD_RENEWAL);
    assert_true(oracle.ordered && oracle.faults[FAULT_CLIENT_KILL].ordered && !oracle.faults[FAULT_FLUSHALL].ordered);
    assert_int_equal(bound_ns(oracle.mend, 10), 3000000020);
    assert_false(oracle_read("| engine | fault | oracle | bound | test |\n|---|\n| e | cut | MAYBE | - | t |\n", "e", &oracle, why,
                             sizeof why));
    assert_contains(why, "MAYBE");
    assert_false(oracle_read("| engine | fault | oracle | bound | test |\n|---|\n| e | cut | FENCED | soon | t |\n", "e", &oracle,
                             why, sizeof why));
    assert_contains(why, "soon");
    assert_false(oracle_read("", "e", &oracle, why, sizeof why));
}

/* ---- The schedule --------------------------------------------------------------------------------------------------------- */

static struct schedule drawn(uint64_t seed, bool with_cuts) {
    struct schedule_options options = {.seed = seed, .time_ms = 100000, .lease_ms = 2000, .pace = 100};
    struct schedule schedule;

    options.faults[FAULT_CLIENT_KILL] = options.faults[FAULT_CLIENT_STOP] = options.faults[FAULT_SERVER_STOP] = true;
    options.faults[FAULT_CUT] = with_cuts;
    assert_true(schedule_make(&options, options.time_ms - schedule_calm_ms(&options), &schedule));
    return schedule;
}

static void test_schedule(void **state) {
    struct schedule one = drawn(7, true), same = drawn(7, true), other = drawn(8, true);
    int counts[FAULT_KINDS] = {0};
    int64_t until[LANES] = {0};

    (void)state;
    assert_int_equal(one.count, same.count);
    assert_memory_equal(one.strokes, same.strokes, one.count * sizeof one.strokes[0]);
    assert_true(one.count != other.count || memcmp(one.strokes, other.strokes, one.count * sizeof one.strokes[0]) != 0);
    for (size_t i = 0; i < one.count; i++) {
        const struct stroke *stroke = &one.strokes[i];
        enum fault_lane lane = fault_classes[stroke->fault].lane;

        assert_true(i == 0 || one.strokes[i - 1].at_ms <= stroke->at_ms);
        assert_true(stroke->at_ms > until[lane]); /* a lane's faults follow each other */
        until[lane] = stroke->at_ms + stroke->span_ms;
        counts[stroke->fault]++;
        assert_true(stroke->at_ms < 100000 - 9000);
        if (stroke->fault == FAULT_CLIENT_STOP)
            assert_true(stroke->span_ms > 2000); /* longer than the lease */
    }
    assert_true(counts[FAULT_CUT] > 10 && abs(counts[FAULT_CUT] - counts[FAULT_SERVER_STOP]) <= 1);
    assert_true(counts[FAULT_CLIENT_KILL] > 30 && counts[FAULT_CLIENT_STOP] > 10);
    schedule_free(&one);
    schedule_free(&same);
    schedule_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exclusion),
        cmocka_unit_test(test_foreigners),
        cmocka_unit_test(test_readers_and_writers),
        cmocka_unit_test(test_permits),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_reentry),
        cmocka_unit_test(test_extended),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_tokens_of_voters),
        cmocka_unit_test(test_told_without_a_lease),
        cmocka_unit_test(test_loss_without_a_reason),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_wakeups),
        cmocka_unit_test(test_tries),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_what_the_rig_saw),
        cmocka_unit_test(test_not_a_history),
        cmocka_unit_test(test_torn_record),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_schedule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
