/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slot.c - the periods of `pawl run --once-per`: where they begin and end, also when clocks change, and when a run is due.
 *
 * Zones are given by their rules, so that no list of zones need be installed; where there is one, it must agree.
 */
#include "../support/test.h"

#include "../../cli/slot.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define SAO_PAULO "<-03>3<-02>,M11.1.0/0,M2.3.0/0"       /* as of 2018: there is no midnight when summer begins */
#define ST_JOHNS "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01"   /* as of 2010: a minute of Sunday, then Saturday once more */
#define LORD_HOWE "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0" /* by half an hour */
#define KOLKATA "IST-5:30"

static void use_zone(const char *rules) {
    setenv("TZ", rules, 1);
    tzset();
}

/* A moment of UTC. */
static int64_t at(const char *text) {
    struct tm tm = {0};

    assert_non_null(strptime(text, "%Y-%m-%d %H:%M:%S", &tm));
    return (int64_t)timegm(&tm) * 1000;
}

static struct period period(const char *text) {
    struct period ret;

    if (!period_parse(text, &ret))
        fail_msg("'%s' is a period", text);
    return ret;
}

/* The slot of `period` in which `inside` lies is [begin, end). */
static void expect_slot(const char *text, const char *begin, const char *inside, const char *end) {
    struct period its = period(text);
    int64_t slot = slot_of(&its, at(inside));

    assert_int_equal(slot_of(&its, at(begin)), slot);
    assert_int_equal(slot_of(&its, at(end) - 1), slot);
    assert_true(slot_of(&its, at(begin) - 1) < slot);
    assert_true(slot_of(&its, at(end)) > slot);
    assert_int_equal(slot_end(&its, at(inside)), at(end));
    assert_int_equal(slot_end(&its, at(begin)), at(end));
    assert_int_equal(slot_end(&its, at(end) - 1), at(end));
}

static void expect(enum verdict wanted, const char *text, const char *last, const char *now) {
    struct period its = period(text);
    enum verdict got = slot_verdict(&its, at(last), at(now));

    if (got != wanted)
        fail_msg("once per %s, last at %s, now %s: %d, and not %d", text, last, now, (int)got, (int)wanted);
}

/* ---- What a period is ------------------------------------------------------------------------------------------------------ */

static void test_words(void **state) {
    static const char *const none[] = {"", "0", "0d", "-1d", "1w", "month", "days", "Day", "1 d", "day ", "1h30m", "inf"};
    struct period ret;

    (void)state;
    assert_int_equal(period("15m").ms, 15 * 60 * 1000);
    assert_int_equal(period("1d").ms, period("day").ms);
    assert_int_equal(period("1d").unit, PERIOD_LENGTH);
    assert_int_equal(period("day").unit, PERIOD_DAY);
    assert_int_equal(period("0.5").ms, 500);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (period_parse(none[i], &ret))
            fail_msg("'%s' is no period", none[i]);
}

/* Lengths count from 1970, in every zone alike: 7d begins on Thursdays. */
static void test_lengths_are_aligned_to_the_epoch(void **state) {
    static const char *const zones[] = {"UTC0", BERLIN, KOLKATA};
    struct period week = period("7d");

    (void)state;
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        use_zone(zones[i]);
        expect_slot("15m", "2026-11-18 14:45:00", "2026-11-18 14:59:59", "2026-11-18 15:00:00");
        expect_slot("1h", "2026-11-18 14:00:00", "2026-11-18 14:30:00", "2026-11-18 15:00:00");
        expect_slot("1d", "2026-03-29 00:00:00", "2026-03-29 12:00:00", "2026-03-30 00:00:00");
        expect_slot("7d", "2026-11-12 00:00:00", "2026-11-18 14:00:00", "2026-11-19 00:00:00");
        expect_slot("36500d", "1970-01-01 00:00:00", "2026-11-18 14:00:00", "2069-12-07 00:00:00");
    }
    assert_int_equal(slot_of(&week, 0), 0);
    assert_int_equal(slot_of(&week, -1), -1);
}

static void test_the_calendar_of_utc(void **state) {
    struct period day = period("day");

    (void)state;
    use_zone(BERLIN);
    day.utc = true;
    assert_int_equal(slot_of(&day, at("2026-03-29 00:00:00")), slot_of(&day, at("2026-03-29 23:59:59")));
    assert_int_equal(slot_of(&day, at("2026-03-29 23:59:59")) + 1, slot_of(&day, at("2026-03-30 00:00:00")));
    assert_int_equal(slot_end(&day, at("2026-03-29 12:00:00")), at("2026-03-30 00:00:00"));
    use_zone("UTC0");
    expect_slot("week", "2026-11-16 00:00:00", "2026-11-18 14:00:00", "2026-11-23 00:00:00");
    expect_slot("week", "1969-12-29 00:00:00", "1970-01-01 00:00:00", "1970-01-05 00:00:00");
}

/* ---- When clocks change --------------------------------------------------------------------------------------------------- */

static void expect_berlin(void) {
    expect_slot("day", "2026-11-17 23:00:00", "2026-11-18 14:00:00", "2026-11-18 23:00:00");
    expect_slot("day", "2026-03-28 23:00:00", "2026-03-29 12:00:00", "2026-03-29 22:00:00"); /* 23 hours */
    expect_slot("day", "2026-10-24 22:00:00", "2026-10-25 12:00:00", "2026-10-25 23:00:00"); /* 25 hours */
    expect_slot("week", "2026-03-22 23:00:00", "2026-03-29 12:00:00", "2026-03-29 22:00:00");
    expect_slot("week", "2026-10-18 22:00:00", "2026-10-20 12:00:00", "2026-10-25 23:00:00");
    expect_slot("hour", "2026-10-25 00:00:00", "2026-10-25 00:30:00", "2026-10-25 01:00:00"); /* 2 to 3 o'clock */
    expect_slot("hour", "2026-10-25 01:00:00", "2026-10-25 01:30:00", "2026-10-25 02:00:00"); /* and again */
}

static void test_summer_time(void **state) {
    (void)state;
    use_zone(BERLIN);
    expect_berlin();
    use_zone(SAO_PAULO);
    expect_slot("day", "2018-11-04 03:00:00", "2018-11-04 12:00:00", "2018-11-05 02:00:00");
    expect_slot("day", "2018-02-17 02:00:00", "2018-02-18 02:30:00", "2018-02-18 03:00:00"); /* 23 to 24 o'clock twice */
}

static void test_a_zone_by_its_name(void **state) {
    struct period day = period("day");

    (void)state;
    use_zone("Europe/Berlin");
    if (slot_of(&day, at("2026-07-01 22:30:00")) == slot_of(&day, at("2026-07-01 21:30:00"))) {
        puts("# there is no list of zones (Debian: tzdata)");
        skip();
    }
    expect_berlin();
}

static void test_odd_offsets(void **state) {
    (void)state;
    use_zone(KOLKATA);
    expect_slot("hour", "2026-11-18 14:30:00", "2026-11-18 15:00:00", "2026-11-18 15:30:00");
    expect_slot("day", "2026-11-17 18:30:00", "2026-11-18 12:00:00", "2026-11-18 18:30:00");
    use_zone(LORD_HOWE); /* at 2 o'clock it is half past 1 */
    expect_slot("hour", "2026-04-04 14:00:00", "2026-04-04 14:30:00", "2026-04-04 15:00:00");
    expect_slot("hour", "2026-04-04 15:00:00", "2026-04-04 15:10:00", "2026-04-04 15:30:00");
}

/* ---- When a run is due ---------------------------------------------------------------------------------------------------- */

static void test_once_a_slot(void **state) {
    (void)state;
    use_zone(BERLIN);
    expect(DONE, "1d", "2026-11-18 02:00:00", "2026-11-18 02:00:00");
    expect(DONE, "1d", "2026-11-18 00:00:00", "2026-11-18 23:59:59");
    expect(DUE, "1d", "2026-11-18 23:59:59", "2026-11-19 00:00:00");
    expect(DUE, "1d", "2026-11-18 02:00:10", "2026-11-19 02:00:00"); /* less than a period ago */
    expect(DUE, "1d", "2001-01-01 00:00:00", "2026-11-18 02:00:00");
    expect(DONE, "day", "2026-10-24 22:00:00", "2026-10-25 22:59:59"); /* 25 hours */
    expect(DUE, "day", "2026-10-24 22:00:00", "2026-10-25 23:00:00");
}

static void test_the_clock_was_set_back(void **state) {
    (void)state;
    use_zone(BERLIN);
    expect(DONE, "1d", "2026-11-18 02:00:01", "2026-11-18 02:00:00");
    expect(DONE, "1d", "2026-11-19 00:00:05", "2026-11-18 23:59:30"); /* the next slot, and hardly ahead */
    expect(DONE, "1d", "2026-11-19 01:59:59", "2026-11-18 02:00:00");
    expect(DUE_BEHIND, "1d", "2026-11-19 02:00:00", "2026-11-18 02:00:00");
    expect(DUE_BEHIND, "15m", "2026-11-18 03:00:00", "2026-11-18 02:00:00");
    expect(DUE_BEHIND, "day", "2030-01-01 00:00:00", "2026-11-18 02:00:00");
    expect(DONE, "day", "2026-10-25 22:59:59", "2026-10-24 22:00:00"); /* the same day, 25 hours */
}

/* A day that has begun is not over because yesterday comes again for an hour. */
static void test_clocks_go_back_over_midnight(void **state) {
    struct period day = period("day");

    (void)state;
    use_zone(ST_JOHNS);
    assert_true(slot_of(&day, at("2010-11-07 02:30:30")) > slot_of(&day, at("2010-11-07 02:35:00")));
    expect(DONE, "day", "2010-11-07 02:30:30", "2010-11-07 02:35:00");
    expect(DONE, "day", "2010-11-07 02:30:30", "2010-11-08 03:29:59");
    expect(DUE, "day", "2010-11-07 02:30:30", "2010-11-08 03:30:00");
    expect(DUE, "day", "2010-11-07 02:35:00", "2010-11-07 03:30:00"); /* a run in the hour that came again is yesterday's */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_lengths_are_aligned_to_the_epoch),
        cmocka_unit_test(test_the_calendar_of_utc),
        cmocka_unit_test(test_summer_time),
        cmocka_unit_test(test_a_zone_by_its_name),
        cmocka_unit_test(test_odd_offsets),
        cmocka_unit_test(test_once_a_slot),
        cmocka_unit_test(test_the_clock_was_set_back),
        cmocka_unit_test(test_clocks_go_back_over_midnight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
