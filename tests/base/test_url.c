/* SPDX-License-Identifier: Apache-2.0
 *
 * test_url.c - the parts of a URL, and what is refused with which words.
 */
#include "../support/test.h"

#include "base/url.h"

static struct pawl__url url;
static struct pawl_error error;

static void parses(const char *text) {
    assert_works(pawl__url_parse(text, &url, &error), &error);
}

static void refuses(const char *text, int code, const char *because) {
    memset(&error, 0, sizeof error);
    assert_fails(code, pawl__url_parse(text, &url, &error), &error);
    assert_contains(error.text, because);
}

static void test_local(void **state) {
    (void)state;
    parses("local:");
    assert_string_equal(url.scheme, "local");
    assert_string_equal(url.path, "");
    parses("LOCAL:/var/lock/my%20dir?handoff=3");
    assert_string_equal(url.scheme, "local");
    assert_string_equal(url.path, "/var/lock/my dir");
    assert_string_equal(pawl__url_option(&url, "handoff"), "3");
}

static void test_all_parts(void **state) {
    (void)state;
    parses("zk://us%3aer:p%40ss:word@h1:2181,h2,[::1]:99/base/path?a=1&b=&c");
    assert_string_equal(url.user, "us:er");
    assert_string_equal(url.password, "p@ss:word");
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0].name, "h1");
    assert_int_equal(url.hosts[0].port, 2181);
    assert_string_equal(url.hosts[1].name, "h2");
    assert_int_equal(url.hosts[1].port, 0);
    assert_string_equal(url.hosts[2].name, "::1");
    assert_int_equal(url.hosts[2].port, 99);
    assert_string_equal(url.path, "/base/path");
    assert_int_equal(url.option_count, 3);
    assert_string_equal(pawl__url_option(&url, "b"), "");
    assert_null(pawl__url_option(&url, "nothing"));
    parses("redis://h");
    assert_int_equal(url.host_count, 1);
    assert_string_equal(url.path, "");
    parses("redis:///path");
    assert_int_equal(url.host_count, 0);
    assert_string_equal(url.path, "/path");
}

static void test_host_port(void **state) {
    char text[PAWL__URL_HOST_PORT];

    (void)state;
    assert_string_equal(pawl__url_host_port("h1", 2181, text), "h1:2181");
    assert_string_equal(pawl__url_host_port("::1", 65535, text), "[::1]:65535");
}

static void test_malformed(void **state) {
    char long_url[PAWL__URL_MAX + 20];

    (void)state;
    refuses("", PAWL_EURL, "scheme");
    refuses("/var/lock", PAWL_EURL, "scheme");
    refuses("1x:", PAWL_EURL, "scheme");
    refuses("local:/a%2", PAWL_EURL, "%25");
    refuses("local:/a%00b", PAWL_EURL, "%25");
    refuses("local:/a\nb", PAWL_EURL, "control character (0x0a)");
    refuses("redis://h:0", PAWL_EURL, "port '0'");
    refuses("redis://h:65536", PAWL_EURL, "65535");
    refuses("redis://h:12x", PAWL_EURL, "port '12x'");
    refuses("redis://h:-1", PAWL_EURL, "port");
    refuses("redis://h:", PAWL_EURL, "port ''");
    refuses("redis://a,,b", PAWL_EURL, "empty host");
    refuses("redis:host:7777/3", PAWL_EURL, "write redis://host:7777/3");
    refuses("redis:anna:hush@host", PAWL_EURL, "write redis://USER:PASSWORD@host");
    refuses("zk:a,b/base", PAWL_EURL, "write zk://a,b/base");
    refuses("redis-sentinel:host/name?db=1", PAWL_EURL, "write redis-sentinel://host/name");
    refuses("redis://[::1", PAWL_EURL, "']'");
    refuses("local:?=3", PAWL_EURL, "without a name");
    refuses("local:?a=1&&b=2", PAWL_EURL, "without a name");
    refuses("local:?a=1&a=2", PAWL_EOPTION, "'a' is given twice");
    memset(long_url, 'x', sizeof long_url);
    memcpy(long_url, "local:/", 7);
    long_url[sizeof long_url - 1] = '\0';
    refuses(long_url, PAWL_EURL, "longer than 4096");
}

static void test_too_many(void **state) {
    char text[2048] = "local:?", *end;

    (void)state;
    end = text + strlen(text);
    for (int i = 0; i <= PAWL__URL_OPTIONS; i++)
        end += sprintf(end, "%so%d=1", i ? "&" : "", i);
    refuses(text, PAWL_EURL, "more than 32 options");
    end = text + sprintf(text, "zk://");
    for (int i = 0; i <= PAWL__URL_HOSTS; i++)
        end += sprintf(end, "%sh%d", i ? "," : "", i);
    refuses(text, PAWL_EURL, "more than 64 hosts");
}

static void test_either(void **state) {
    bool full = true;

    (void)state;
    parses("local:?verify=none&again=full&bad=ful&empty=");
    assert_works(pawl__url_either(&url, "absent", "full", "none", &full, &error), &error);
    assert_true(full);
    assert_works(pawl__url_either(&url, "verify", "full", "none", &full, &error), &error);
    assert_false(full);
    assert_works(pawl__url_either(&url, "again", "full", "none", &full, &error), &error);
    assert_true(full);
    assert_fails(PAWL_EOPTION, pawl__url_either(&url, "bad", "full", "none", &full, &error), &error);
    assert_contains(error.text, "bad=ful is neither full nor none");
    assert_fails(PAWL_EOPTION, pawl__url_either(&url, "empty", "full", "none", &full, &error), &error);
    assert_true(full);
}

static void test_numbers(void **state) {
    long long number = 7;

    (void)state;
    parses("local:?n=12&bad=1x&big=99999999999999999999&empty=");
    assert_works(pawl__url_number(&url, "n", 0, 100, &number, &error), &error);
    assert_int_equal(number, 12);
    assert_works(pawl__url_number(&url, "none", 0, 100, &number, &error), &error);
    assert_int_equal(number, 12);
    assert_fails(PAWL_EOPTION, pawl__url_number(&url, "n", 13, 100, &number, &error), &error);
    assert_contains(error.text, "n=12 is not a whole number from 13 to 100");
    assert_fails(PAWL_EOPTION, pawl__url_number(&url, "bad", 0, 100, &number, &error), &error);
    assert_fails(PAWL_EOPTION, pawl__url_number(&url, "big", 0, 100, &number, &error), &error);
    assert_fails(PAWL_EOPTION, pawl__url_number(&url, "empty", 0, 100, &number, &error), &error);
    assert_int_equal(number, 12);
}

static void test_leftover_options(void **state) {
    (void)state;
    parses("local:?known=1&unknown=2");
    pawl__url_option(&url, "known");
    assert_fails(PAWL_EOPTION, pawl__url_leftover(&url, &error), &error);
    assert_contains(error.text, "'unknown'");
    pawl__url_option(&url, "unknown");
    assert_works(pawl__url_leftover(&url, &error), &error);
}

static void test_nearest(void **state) {
    char buffer[32];

    (void)state;
    assert_string_equal(pawl__nearest("loacl", "local redis zk", buffer, sizeof buffer), "local");
    assert_string_equal(pawl__nearest("reddis", "local redis zk", buffer, sizeof buffer), "redis");
    assert_null(pawl__nearest("mysql", "local redis zk", buffer, sizeof buffer));
    assert_null(pawl__nearest("", "local redis zk", buffer, sizeof buffer));
    assert_null(pawl__nearest("averyveryverylongword", "local redis zk", buffer, sizeof buffer));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local),     cmocka_unit_test(test_all_parts),        cmocka_unit_test(test_host_port),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_too_many),         cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_either),    cmocka_unit_test(test_leftover_options), cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
