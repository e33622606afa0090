/* SPDX-License-Identifier: Apache-2.0
 *
 * test_name.c - what may be a lock's name, and that each refusal says what is wrong.
 */
#include "../support/test.h"

#include "base/name.h"

static void accepts(const char *name) {
    struct pawl_error error;

    assert_int_equal(pawl__name_check(name, &error), 0);
}

static void refuses(const char *name, const char *because) {
    struct pawl_error error = {0};

    assert_int_equal(pawl__name_check(name, &error), PAWL_ENAME);
    assert_int_equal(error.code, PAWL_ENAME);
    assert_contains(error.text, because);
}

static void test_good_names(void **state) {
    char longest[PAWL__NAME_MAX + 1];

    (void)state;
    accepts("a");
    accepts("nightly/backup of db-1: part 2");
    accepts("锁");
    accepts("\xf0\x9f\x94\x92");
    memset(longest, 'x', PAWL__NAME_MAX);
    longest[PAWL__NAME_MAX] = '\0';
    accepts(longest);
}

static void test_empty_and_missing(void **state) {
    (void)state;
    refuses("", "empty");
    refuses(NULL, "missing");
}

static void test_too_long(void **state) {
    char name[PAWL__NAME_MAX + 2];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refuses(name, "longer than 255");
}

static void test_not_utf8(void **state) {
    (void)state;
    refuses("a\x80", "byte 1 (0x80)");
    refuses("\xc3", "not UTF-8");             /* cut off */
    refuses("\xc0\xaf", "not UTF-8");         /* overlong */
    refuses("\xe0\x80\xaf", "not UTF-8");     /* overlong */
    refuses("\xed\xa0\x80", "not UTF-8");     /* a surrogate */
    refuses("\xf4\x90\x80\x80", "not UTF-8"); /* beyond the last */
    refuses("\xff", "not UTF-8");
}

static void test_control_characters(void **state) {
    (void)state;
    refuses("a\nb", "control character at byte 1");
    refuses("\x7f", "0x7f");
    refuses("\xc2\x85", "control character"); /* C1 */
    refuses("\x1b[2J", "0x1b");
}

static void test_hash_is_part_of_the_format(void **state) {
    (void)state;
    assert_int_equal(pawl__name_hash("", 0), 0x811c9dc5u);
    assert_int_equal(pawl__name_hash("a", 1), 0xe40c292cu);
    assert_int_equal(pawl__name_hash("foobar", 6), 0xbf9cf968u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_names),         cmocka_unit_test(test_empty_and_missing),
        cmocka_unit_test(test_too_long),           cmocka_unit_test(test_not_utf8),
        cmocka_unit_test(test_control_characters), cmocka_unit_test(test_hash_is_part_of_the_format),
    };

    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
