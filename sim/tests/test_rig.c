/* SPDX-License-Identifier: Apache-2.0
 *
 * test_rig.c - what the rig of the simulated world is made of, as far as it is pure: plans and strokes as text, what is drawn from a seed,
 * the shrinker on failures that are made up, the lines of the regression file, how long somebody waited for a free lock, and who of a
 * client waited for whom.
 */
#include <stdlib.h>

#include "../../tests/support/test.h"

#include "rig/calm.h"
#include "rig/breaks.h"
#include "rig/circles.h"
#include "rig/plan.h"
#include "rig/regressions.h"
#include "rig/shrink.h"

static const struct sim_service *redis(void) {
    return service_find("redis", 5);
}

/* ---- Strokes and plans ------------------------------------------------------------------------------------------------------ */

static void test_strokes_as_text(void **state) {
    static const char text[] = "cut@10+20#4711,reply-lost@30+0#8,client-kill@40+0#18446744073709551615";
    struct strokes strokes;
    char again[256];

    (void)state;
    assert_true(strokes_read(text, &strokes));
    assert_int_equal(strokes.count, 3);
    assert_int_equal(strokes.list[1].fault, SIM_REPLY_LOST);
    assert_int_equal(strokes_write(&strokes, again, sizeof again), strlen(text));
    assert_string_equal(again, text);
    assert_true(strokes_read("-", &strokes));
    assert_int_equal(strokes.count, 0);
    strokes_write(&strokes, again, sizeof again);
    assert_string_equal(again, "-");
    assert_false(strokes_read("", &strokes));
    assert_false(strokes_read("cut@10+20", &strokes));
    assert_false(strokes_read("cut@10+20#1,", &strokes));
    assert_false(strokes_read("cut@10+20#1;cut@10+20#1", &strokes));
    assert_false(strokes_read("cat@10+20#1", &strokes));
    assert_false(strokes_read("cut@-10+20#1", &strokes));
}

static void test_targets_of_lost_replies(void **state) {
    (void)state;
    for (unsigned number = 1; number <= REPLY_NUMBERS; number += 7)
        for (unsigned site = 0; site < 8; site++) {
            uint64_t target = reply_target(number, number % 2, site);

            assert_int_equal(reply_number(target), number);
            assert_int_equal(reply_before(target), number % 2);
            assert_int_equal(reply_site(target), site);
        }
}

static void test_options_as_text(void **state) {
    struct plan plan, other;
    char text[4096], again[4096], why[160];

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++)
        for (int i = 0; service_number(i) != NULL; i++) {
            plan_draw(&plan, service_number(i), seed);
            assert_true(plan_write_options(&plan, text, sizeof text) < sizeof text);
            plan_draw(&other, service_number(i), seed + 1000);
            if (!plan_read_options(&other, text, why, sizeof why))
                fail_msg("%s: %s", text, why);
            plan_write_options(&other, again, sizeof again);
            assert_string_equal(text, again);
        }
    assert_false(plan_read_options(&plan, "clients=0", why, sizeof why));
    assert_false(plan_read_options(&plan, "clients", why, sizeof why));
    assert_false(plan_read_options(&plan, "cats=3", why, sizeof why));
    assert_false(plan_read_options(&plan, "clients=3,", why, sizeof why));
    assert_false(plan_read_options(&plan, "kinds=q", why, sizeof why));
}

static void test_faults_are_those_of_the_service(void **state) {
    struct plan plan;
    char why[160];

    (void)state;
    plan_draw(&plan, redis(), 1);
    assert_true(plan_read_options(&plan, "faults=all", why, sizeof why));
    assert_true(plan.faults[FAULT_CUT] && plan.faults[FAULT_FLUSHALL] && plan.faults[SIM_WRITE_ERROR]);
    assert_false(plan.faults[FAULT_LEADER_KILL] || plan.faults[FAULT_CORRUPTION] || plan.faults[FAULT_FAILOVER]);
    assert_false(plan_read_options(&plan, "faults=cut+leader-kill", why, sizeof why));
    assert_true(plan_read_options(&plan, "faults=none", why, sizeof why));
    plan_draw_strokes(&plan);
    assert_true(plan_is_calm(&plan));
}

/* ---- The swarm -------------------------------------------------------------------------------------------------------------- */

static void test_the_same_seed_is_the_same_plan(void **state) {
    struct plan *one = calloc(1, sizeof *one), *other = calloc(1, sizeof *other);

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        plan_draw(one, redis(), plan_seed(4711, seed));
        plan_draw(other, redis(), plan_seed(4711, seed));
        other->strokes.count = one->strokes.count;
        assert_memory_equal(one, other, offsetof(struct plan, strokes));
        assert_memory_equal(one->strokes.list, other->strokes.list, one->strokes.count * sizeof one->strokes.list[0]);
    }
    free(one);
    free(other);
}

/* Every fault that a service has comes up, some runs are calm, and no plan goes too far. */
static void test_what_is_drawn(void **state) {
    enum { SEEDS = 400 };
    struct plan plan;

    (void)state;
    for (int i = 0; service_number(i) != NULL; i++) {
        unsigned struck[SIM_FAULT_KINDS] = {0}, calm = 0;

        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            plan_draw(&plan, service_number(i), plan_seed(1, seed));
            calm += plan_is_calm(&plan);
            for (size_t j = 0; j < plan.strokes.count; j++)
                struck[plan.strokes.list[j].fault]++;
            assert_in_range(plan.clients, 1, 6);
            assert_in_range(plan.threads, 1, 16);
            assert_in_range(plan.lease, 1000, 4000);
            assert_true(plan.strokes.count < STROKES_MAX);
        }
        assert_in_range(calm, SEEDS / 50, SEEDS / 3);
        for (int fault = 0; fault < SIM_FAULT_KINDS; fault++)
            if ((struck[fault] > 0) != (service_has(service_number(i), fault) && fault != SIM_WRITE_INSIDE))
                fail_msg("%s: %s strikes %u times", service_number(i)->word, sim_word(fault), struck[fault]);
    }
}

/* Without one kind of fault, the strokes of the other lanes and of the simulation's own kinds are where they were. */
static void test_streams_are_apart(void **state) {
    struct plan with, without;
    char why[160];

    (void)state;
    plan_draw(&with, redis(), 5);
    without = with;
    assert_true(plan_read_options(&with, "faults=cut+client-kill+reply-lost+pause", why, sizeof why));
    assert_true(plan_read_options(&without, "faults=client-kill+pause", why, sizeof why));
    plan_draw_strokes(&with);
    plan_draw_strokes(&without);
    assert_true(without.strokes.count > 0 && without.strokes.count < with.strokes.count);
    for (size_t i = 0, j = 0; i < with.strokes.count; i++)
        if (without.faults[with.strokes.list[i].fault])
            assert_memory_equal(&with.strokes.list[i], &without.strokes.list[j++], sizeof with.strokes.list[0]);
}

/* ---- The shrinker ------------------------------------------------------------------------------------------------------------ */

struct made_up {
    size_t count, needed[3], needs;
    unsigned asked;
};

static bool needs_all(const bool *keep, void *data) {
    struct made_up *made_up = data;
    bool all = true;

    made_up->asked++;
    for (size_t i = 0; i < made_up->needs; i++)
        all = all && keep[made_up->needed[i]];
    return all;
}

static void test_lists_shrink(void **state) {
    bool keep[100];

    (void)state;
    for (size_t needs = 0; needs <= 3; needs++)
        for (size_t count = 3; count <= 100; count += 13) {
            struct made_up made_up = {.count = count, .needed = {0, count / 2, count - 1}, .needs = needs};

            for (size_t i = 0; i < count; i++)
                keep[i] = true;
            assert_int_equal(shrink_list(keep, count, needs_all, &made_up), needs);
            assert_true(needs_all(keep, &made_up));
            assert_true(made_up.asked < 12 * 7 + 20);
        }
}

/* ---- The regression file ------------------------------------------------------------------------------------------------------ */

static void test_lines_of_the_regression_file(void **state) {
    static const char line[] = "redis 4711 clients=2,threads=1 cut@10+20#1 exclusion known";
    struct regression *regression = malloc(sizeof *regression), *again = malloc(sizeof *again);
    char text[8192], why[160];

    (void)state;
    assert_true(regression_read(line, regression, why, sizeof why));
    assert_true(regression->known);
    assert_string_equal(regression->rule, "exclusion");
    assert_int_equal(regression->plan.clients, 2);
    assert_int_equal(regression->plan.seed, 4711);
    assert_true(regression_write(&regression->plan, regression->rule, false, text, sizeof text) < sizeof text);
    assert_true(regression_read(text, again, why, sizeof why));
    assert_false(again->known);
    assert_int_equal(again->plan.hold, regression->plan.hold);
    assert_int_equal(again->plan.strokes.count, 1);
    for (const char *const *none = (const char *const[]){"", "# a comment", "   ", NULL}; *none != NULL; none++) {
        assert_false(regression_read(*none, regression, why, sizeof why));
        assert_string_equal(why, "");
    }
    for (const char *const *bad =
             (const char *const[]){"redis 1 - -", "radish 1 - - exclusion", "redis x - - exclusion", "redis 1 - - exclusive",
                                   "redis 1 - - exclusion unknown", "redis 1 cats=1 - exclusion", "redis 1 - cut exclusion", NULL};
         *bad != NULL; bad++) {
        assert_false(regression_read(*bad, regression, why, sizeof why));
        assert_string_not_equal(why, "");
    }
    free(regression);
    free(again);
}

/* ---- Calm ---------------------------------------------------------------------------------------------------------------------- */

static int64_t worst_in(bool one_queue, const char *const *lines) {
    static struct calm calm;

    calm_begin(&calm, 2, 0);
    calm.one_queue = one_queue;
    for (; *lines != NULL; lines++)
        calm_line(&calm, *lines, strlen(*lines));
    return calm.worst_ns;
}

static int64_t worst_of(const char *const *lines) {
    return worst_in(false, lines);
}

static void test_waiting_for_a_free_lock(void **state) {
    (void)state;
    /* Held until 30: what counts is from there on. */
    assert_int_equal(worst_of((const char *const[]){"10 0.1.0 want 0 x 1 -1", "10 0.1.0 got 0 1 5", "12 1.1.0 want 0 x 1 -1",
                                                    "29 0.1.0 drop 0", "30 0.1.0 gone 0 0", "47 1.1.0 got 0 2 5", NULL}),
                     17);
    /* Who comes later gets it, and the other one has waited as well. */
    assert_int_equal(
        worst_of((const char *const[]){"10 0.1.0 want 0 x 1 -1", "90 1.1.0 want 0 x 1 -1", "100 1.1.0 got 0 2 5", NULL}), 90);
    /* It gives up. */
    assert_int_equal(worst_of((const char *const[]){"10 0.1.0 want 0 x 1 5", "18 0.1.0 fail 0 -11", NULL}), 8);
    /* Its holder was killed: what the dead had may last for some time. */
    assert_int_equal(worst_of((const char *const[]){"10 0.1.0 want 0 x 1 -1", "10 0.1.0 got 0 1 5", "12 1.1.0 want 0 x 1 -1",
                                                    "20 rig kill 0.1", "20 rig exit 0.1 0", "25 1.1.0 got 0 2 5", NULL}),
                     0);
    assert_int_equal(worst_of((const char *const[]){"5 rig lease 3000000000", "10 0.1.0 want 0 x 1 -1", "10 0.1.0 got 0 1 5",
                                                    "12 1.1.0 want 0 x 1 -1", "20 rig kill 0.1", "20 rig exit 0.1 0",
                                                    "3000000055 1.1.0 got 0 2 5", NULL}),
                     35);
}

/* A writer that joins another of its process has that one's place, also when that one has given up. */
static void test_waiting_behind_a_claim_that_was_joined(void **state) {
    (void)state;
    assert_int_equal(worst_of((const char *const[]){"10 0.1.0 want 0 s 1 -1", "10 0.1.0 got 0 1 5", "12 1.1.0 want 0 x 1 8",
                                                    "14 0.1.1 want 0 s 1 -1", "16 1.1.1 want 0 x 1 -1", "20 1.1.0 fail 0 -11",
                                                    "50 0.1.0 drop 0", "50 0.1.0 gone 0 0", "51 1.1.1 got 0 2 5", NULL}),
                     1);
    /* A reader's claim may be as old as its request, also after another of its process had its turn: the writer's is no younger. */
    assert_int_equal(worst_of((const char *const[]){"5 0.1.1 want 0 x 1 -1", "5 0.1.1 got 0 1 5", "6 1.1.2 want 0 x 1 -1",
                                                    "12 1.1.1 want 0 s 1 -1", "14 1.1.0 want 0 x 1 -1", "16 0.1.0 want 0 s 1 -1",
                                                    "20 0.1.1 drop 0", "20 0.1.1 gone 0 0", "20 1.1.2 got 0 2 5", "22 1.1.2 drop 0",
                                                    "22 1.1.2 gone 0 0", "22 1.1.1 got 0 3 5", "90 1.1.1 drop 0",
                                                    "90 1.1.1 gone 0 0", "90 1.1.0 got 0 4 5", NULL}),
                     0);
    /* One that comes when nobody of its process waits any more is behind. */
    assert_int_equal(
        worst_of((const char *const[]){"10000000 0.1.0 want 0 s 1 -1", "10000000 0.1.0 got 0 1 5", "12000000 1.1.0 want 0 x 1 8",
                                       "14000000 0.1.1 want 0 s 1 -1", "20000000 1.1.0 fail 0 -11", "21000000 1.1.1 want 0 x 1 -1",
                                       "50000000 0.1.0 drop 0", "50000000 0.1.0 gone 0 0", "51000000 1.1.1 got 0 2 5", NULL}),
        31000000);
}

/* A reader waits behind a foreigner that wants to write, where that one stands in the same queue. */
static void test_waiting_behind_a_foreigner(void **state) {
    const char *const lines[] = {"10 0.1.0 want 0 s 1 -1",
                                 "10 0.1.0 got 0 1 5",
                                 "12 2.1.0 want 0 x 1 -1",
                                 "14 1.1.0 want 0 s 1 -1",
                                 "50 2.1.0 fail 0 -14",
                                 "51 1.1.0 got 0 2 5",
                                 NULL};

    (void)state;
    assert_int_equal(worst_in(true, lines), 1);
    assert_int_equal(worst_in(false, lines), 37);
}

/* Where a foreigner waits: what threads of a client hand on among themselves passes nobody. A thread that takes it twice running has
 * asked the server, unless another of its client waits. */
static unsigned passed_by(const char *waits) {
    static struct calm calm;
    const char *const lines[] = {"10 2.1.0 want 0 x 1 -1", waits,
                                 "20 0.1.0 want 0 x 1 -1", "21 0.1.0 got 0 1 5",
                                 "22 0.1.0 drop 0",        "23 0.1.0 gone 0 0",
                                 "24 0.1.0 want 0 x 1 -1", "25 0.1.0 got 0 2 5",
                                 "26 0.1.0 drop 0",        "27 0.1.0 gone 0 0",
                                 "28 2.1.0 got 0 0 5"};

    calm_begin(&calm, 2, 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        calm_line(&calm, lines[i], strlen(lines[i]));
    return calm.locks[0].passed;
}

static void test_passing_a_foreigner(void **state) {
    (void)state;
    assert_int_equal(passed_by("12 0.1.1 want 0 x 1 -1"), 1); /* its own turn */
    assert_true(passed_by("12 1.1.0 want 0 x 1 -1") > 1);
}

/* ---- Circles ------------------------------------------------------------------------------------------------------------------- */

static const struct circles *circles_of(const char *const *lines) {
    static struct circles circles;

    circles_begin(&circles, 2);
    for (; *lines != NULL; lines++)
        circles_line(&circles, *lines, strlen(*lines));
    return &circles;
}

/* Thread 0 has lock 0, and wants 1; thread 1 the other way round; the parts 2 and 3 are what they want. */
#define IN_A_CIRCLE                                                                                                                \
    "10 0.1.0 want 0 x 1 -1", "11 0.1.0 got 0 1 5", "12 0.1.1 want 1 x 1 -1", "13 0.1.1 got 1 2 5", "20 0.1.2 want 1 x 1 -1",      \
        "30 0.1.3 want 0 x 1 -1"

static void test_waiting_in_a_circle(void **state) {
    const struct circles *circles;

    (void)state;
    circles = circles_of((const char *const[]){IN_A_CIRCLE, "70 0.1.3 fail 0 -13", NULL});
    assert_int_equal(circles->worst_ns, 40);
    assert_int_equal(circles->wrong, 0);
    /* It goes on until somebody does something about it; nobody of another client could. */
    assert_int_equal(circles_of((const char *const[]){IN_A_CIRCLE, "40 1.1.0 want 1 x 1 -1", "90 rig exit 0.1 0", NULL})->worst_ns,
                     60);
    /* No circle yet; and one who has nothing, and waits behind it. */
    assert_int_equal(circles_of((const char *const[]){"10 0.1.0 want 0 x 1 -1", "11 0.1.0 got 0 1 5", "12 0.1.1 want 0 x 1 -1",
                                                      "20 0.1.1 fail 0 -13", NULL})
                         ->wrong,
                     1);
    circles = circles_of((const char *const[]){"10 0.1.0 want 0 x 1 -1", "11 0.1.0 got 0 1 5", "12 1.1.1 want 1 x 1 -1",
                                               "13 1.1.1 got 1 2 5", "20 0.1.2 want 1 x 1 -1", "40 0.1.2 fail 1 -13", NULL});
    assert_int_equal(circles->wrong, 1);
    assert_int_equal(circles->worst_ns, 0);
}

/* ---- Breaks -------------------------------------------------------------------------------------------------------------------- */

/* What is wrong with it, where a moment is 10; 0: nothing. */
static unsigned wrongs_of(bool calm, const char *const *lines) {
    static struct breaks breaks;
    unsigned wrongs = 0;

    breaks_begin(&breaks, service_oracle(redis()), 10, calm);
    for (; *lines != NULL; lines++)
        breaks_line(&breaks, *lines, strlen(*lines));
    breaks_judge(&breaks);
    for (int i = 0; i < BREAKS_WRONGS; i++)
        wrongs |= breaks.wrong[i] > 0 ? 1U << i : 0;
    return wrongs;
}
#define WRONGS(calm, ...) wrongs_of(calm, (const char *const[]){__VA_ARGS__, NULL})
#define IS_HELD "0 rig lease 100", "10 0.1.0 want 0 x 1 -1", "11 0.1.0 got 0 5 90"
#define IS_ASKED_BACK IS_HELD, "20 rig asked-back 0 0.1 5 19"
#define ENDS "70 0.1.0 drop 0", "71 0.1.0 gone 0 0"

static void test_broken_and_not_told(void **state) {
    (void)state;
    /* It may have been renewed before it was broken; and it may be told and renewed at once. */
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "60 0.1.0 sure 0 60", ENDS), 0);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "60 0.1.0 sure 0 61", ENDS), 1 << BREAKS_RENEWED);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "29 0.1.0 sure 0 99", "30 0.1.0 lost 0 5", ENDS), 0);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "60 0.1.0 lost 0 5", ENDS), 0);
    assert_int_equal(WRONGS(true, IS_ASKED_BACK, "30 0.1.0 lost 0 5", ENDS), 0);
    assert_int_equal(WRONGS(true, IS_ASKED_BACK, "31 0.1.0 lost 0 5", ENDS), 1 << BREAKS_NOT_TOLD);
    assert_int_equal(WRONGS(true, IS_ASKED_BACK, "25 rig kill 0.1", "31 rig exit 0.1 9"), 0);
    /* The lease is not what it was; and a fault that makes servers forget, or one that does not. */
    assert_int_equal(WRONGS(false, IS_HELD, "19 rig fault 0 flushall 1", "19 rig healed 0 1", "20 rig asked-back 0 0.1 5 19",
                            "60 0.1.0 sure 0 61", ENDS),
                     0);
    assert_int_equal(WRONGS(false, IS_HELD, "19 rig fault 0 cut 1", "19 rig healed 0 1", "20 rig asked-back 0 0.1 5 19",
                            "60 0.1.0 sure 0 61", ENDS),
                     1 << BREAKS_RENEWED);
}

#define HANDS_ON "23 0.1.0 drop 0", "24 0.1.0 gone 0 0", "30 0.1.1 want 0 x 1 -1", "31 0.1.1 got 0 6 80"

static void test_broken_and_handed_on(void **state) {
    (void)state;
    /* The next hold is by the same claim if that was seen on the servers after it was granted. */
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, HANDS_ON, "40 rig asked-back 0 0.1 5 32", "60 0.1.1 sure 0 61"),
                     1 << BREAKS_RENEWED);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, HANDS_ON, "40 rig asked-back 0 0.1 5 30", "60 0.1.1 sure 0 61"), 0);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, HANDS_ON, "40 rig asked-back 0 1.1 5 32", "60 0.1.1 sure 0 61"), 0);
}

static void test_broken_and_in_the_way(void **state) {
    (void)state;
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "21 0.1.0 lost 0 5", "22 1.1.0 want 0 x 1 -1", "40 1.1.0 got 0 9 90", ENDS),
                     1 << BREAKS_NOT_IN_THE_WAY);
    assert_int_equal(
        WRONGS(false, IS_ASKED_BACK, "21 0.1.0 lost 0 5", "22 1.1.0 want 0 x 1 -1", "30 0.1.0 drop 0", "40 1.1.0 got 0 9 90"), 0);
    /* Its time was over; what was granted is over, too; or an operator insisted. */
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "21 0.1.0 lost 0 5", "22 1.1.0 want 0 x 1 -1", "101 1.1.0 got 0 9 90"), 0);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "21 0.1.0 lost 0 5", "22 1.1.0 want 0 x 1 -1", "40 1.1.0 got 0 9 0", ENDS), 0);
    assert_int_equal(WRONGS(false, IS_ASKED_BACK, "21 0.1.0 lost 0 5", "22 1.1.0 want 0 x 1 -1", "30 rig fault 0 break-now 1",
                            "40 1.1.0 got 0 9 90", ENDS),
                     0);
}

/* In some runs, and only where somebody looks; and not in those whose options are from before. */
static void test_breaks_are_drawn(void **state) {
    enum { SEEDS = 400 };
    struct plan plan;
    char why[160];
    int drawn = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        plan_draw(&plan, redis(), plan_seed(1, seed));
        assert_true(plan.breaks == 0 || (plan_breaks(&plan) && plan.observer == 1));
        drawn += plan.breaks > 0;
        assert_true(plan_read_options(&plan, "clients=2", why, sizeof why));
        assert_int_equal(plan.breaks, 0);
    }
    assert_in_range(drawn, SEEDS / 10, SEEDS / 3);
}

/* The same of limits, handles and tries; a URL that says when acquires end is left alone. */
static void test_uses_are_drawn(void **state) {
    enum { SEEDS = 400 };
    struct plan plan;
    char why[160];
    int limits = 0, handles = 0, tries = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        plan_draw(&plan, redis(), plan_seed(1, seed));
        assert_true(plan.tries == 0 || plan_gives_up(&plan));
        limits += plan.extend > 0;
        handles += plan.peruse > 0;
        tries += plan.tries > 0;
        assert_true(plan_read_options(&plan, "clients=2", why, sizeof why));
        assert_int_equal(plan.extend + plan.peruse + plan.tries, 0);
        assert_true(plan_read_options(&plan, "tries=2,url=retry=5", why, sizeof why));
        assert_false(plan_gives_up(&plan));
    }
    assert_in_range(limits, SEEDS / 6, SEEDS / 3);
    assert_in_range(handles, SEEDS / 8, SEEDS / 3);
    assert_in_range(tries, SEEDS / 12, SEEDS / 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strokes_as_text),
        cmocka_unit_test(test_targets_of_lost_replies),
        cmocka_unit_test(test_options_as_text),
        cmocka_unit_test(test_faults_are_those_of_the_service),
        cmocka_unit_test(test_the_same_seed_is_the_same_plan),
        cmocka_unit_test(test_what_is_drawn),
        cmocka_unit_test(test_streams_are_apart),
        cmocka_unit_test(test_lists_shrink),
        cmocka_unit_test(test_lines_of_the_regression_file),
        cmocka_unit_test(test_waiting_for_a_free_lock),
        cmocka_unit_test(test_waiting_behind_a_claim_that_was_joined),
        cmocka_unit_test(test_waiting_behind_a_foreigner),
        cmocka_unit_test(test_passing_a_foreigner),
        cmocka_unit_test(test_waiting_in_a_circle),
        cmocka_unit_test(test_broken_and_not_told),
        cmocka_unit_test(test_broken_and_handed_on),
        cmocka_unit_test(test_broken_and_in_the_way),
        cmocka_unit_test(test_breaks_are_drawn),
        cmocka_unit_test(test_uses_are_drawn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
