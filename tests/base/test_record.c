/* SPDX-License-Identifier: Apache-2.0
 *
 * test_record.c - the owner's record survives the way to the engine and back, and foreign data is known as such.
 */
#include "../support/test.h"

#include "base/record.h"
#include "pawl.h"

static void test_round_trip(void **state) {
    struct pawl__identity in = {.host = "db 1",
                                .pid = 4711,
                                .command = "back%up=x",
                                .label = "nightly 备份",
                                .agent = "0123456789abcdef",
                                .around = "fedcba9876543210",
                                .lease_ms = 30000},
                          out;
    char text[PAWL__RECORD_MAX];
    size_t length = pawl__record_format(&in, text, sizeof text);

    (void)state;
    assert_string_equal(text, "pawl1 host=db%201 pid=4711 cmd=back%25up%3dx label=nightly%20备份 "
                              "id=0123456789abcdef up=fedcba9876543210 ttl=30000");
    assert_int_equal(length, strlen(text));
    assert_true(pawl__record_parse(text, length, &out));
    assert_string_equal(out.host, in.host);
    assert_int_equal(out.pid, in.pid);
    assert_string_equal(out.command, in.command);
    assert_string_equal(out.label, in.label);
    assert_string_equal(out.agent, in.agent);
    assert_string_equal(out.around, in.around);
    assert_int_equal(out.lease_ms, in.lease_ms);
}

/* Records without the later keys are read, and written by who has none of them. */
static void test_record_of_yesterday(void **state) {
    static const char text[] = "pawl1 host=h pid=12 cmd=c label=l";
    char again[PAWL__RECORD_MAX];
    struct pawl__identity out;
    struct pawl_entry entry;

    (void)state;
    assert_true(pawl__record_parse(text, sizeof text - 1, &out));
    pawl__record_format(&out, again, sizeof again);
    assert_string_equal(again, text);
    pawl__record_show(&out, &entry);
    assert_string_equal(entry.host, "h");
    assert_string_equal(entry.agent, "");
    assert_string_equal(entry.around, "");
    assert_int_equal(entry.lease_ms, -1);
}

static void test_odd_values(void **state) {
    static const char text[] = "pawl1 id=0123456789abcdef0 up=0123456789ABCDEF ttl=-5";
    struct pawl__identity out;

    (void)state;
    assert_true(pawl__record_parse(text, sizeof text - 1, &out));
    assert_string_equal(out.agent, "");
    assert_string_equal(out.around, "");
    assert_int_equal(out.lease_ms, 0);
}

static void test_longest_fits(void **state) {
    struct pawl__identity in, out;
    char text[PAWL__RECORD_MAX], put[PAWL__RECORD_MAX];

    (void)state;
    memset(&in, ' ', sizeof in);
    in.pid = INT64_MIN;
    in.lease_ms = INT64_MAX;
    strcpy(in.agent, "0123456789abcdef");
    strcpy(in.around, in.agent);
    in.host[sizeof in.host - 1] = in.command[sizeof in.command - 1] = in.label[sizeof in.label - 1] = '\0';
    assert_true(pawl__record_parse(text, pawl__record_format(&in, text, sizeof text), &out));
    assert_string_equal(out.label, in.label);
    assert_int_equal(out.pid, in.pid);
    assert_int_equal(out.lease_ms, in.lease_ms);
    pawl__record_put(put, text, in.label);
    assert_string_equal(put, text);
}

/* Another label, and all else as it was. */
static void test_another_label(void **state) {
    static const char *const labels[] = {"", "order 4711", "a=b label=c %", " ", "\xff"};
    struct pawl__identity in = {.host = "h", .pid = 7, .command = "label=", .label = "the client's", .lease_ms = 9};
    char text[PAWL__RECORD_MAX], put[PAWL__RECORD_MAX], whole[PAWL__RECORD_MAX];

    (void)state;
    strcpy(in.agent, "0123456789abcdef");
    pawl__record_format(&in, text, sizeof text);
    assert_ptr_equal(pawl__record_put(put, text, NULL), put + strlen(text));
    assert_string_equal(put, text);
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        strcpy(in.label, labels[i]);
        pawl__record_format(&in, whole, sizeof whole);
        assert_ptr_equal(pawl__record_put(put, text, labels[i]), put + strlen(whole));
        assert_string_equal(put, whole);
    }
}

static void test_foreign(void **state) {
    struct pawl__identity out;

    (void)state;
    assert_false(pawl__record_parse("", 0, &out));
    assert_false(pawl__record_parse("10.0.0.7", 8, &out));
    assert_false(pawl__record_parse("pawl10 host=x", 13, &out));
    assert_string_equal(out.host, "");
}

static void test_unknown_keys_are_skipped(void **state) {
    static const char text[] = "pawl1 future=1 host=h broken pid=12x cmd=%zz label=%1b[2J";
    struct pawl__identity out;

    (void)state;
    assert_true(pawl__record_parse(text, sizeof text - 1, &out));
    assert_string_equal(out.host, "h");
    assert_int_equal(out.pid, 12);
    assert_string_equal(out.command, "%zz");
    assert_string_equal(out.label, "?[2J"); /* a record must not steer a terminal */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_record_of_yesterday),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_longest_fits),
        cmocka_unit_test(test_another_label),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_unknown_keys_are_skipped),
    };

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
