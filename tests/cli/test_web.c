/* SPDX-License-Identifier: Apache-2.0
 *
 * test_web.c - what decides in pawl web, without a network: who is let in, what a break asks for, who reads which difference, who is
 * answered by which look.
 */
#include "../support/test.h"

#include <stdlib.h>

#include "../../cli/web/breaking.h"
#include "../../cli/web/frames.h"
#include "../../cli/web/glances.h"
#include "../../cli/common/cli.h"
#include "../../cli/http/gate.h"

#define KEY "0123456789abcdef0123456789abcdef"

/* ---- the gate ------------------------------------------------------------------------------------------------------------- */

static struct gate a_gate(void) {
    struct gate gate = {.key = KEY};

    assert_true(gate_add_own(&gate, "localhost", 7295) && gate_add_own(&gate, "127.0.0.1", 7295) &&
                gate_add_own(&gate, "[::1]", 7295));
    assert_true(gate_add_host(&gate, "locks.example", 7295) && gate_add_host(&gate, "proxy.example:8443", 7295));
    return gate;
}

/* One that is let in, to be spoiled. */
static struct asked honest(void) {
    return (struct asked){.flags = ROUTE_PRIVATE,
                          .host = "localhost:7295",
                          .hosts = 1,
                          .authorization = "Bearer " KEY,
                          .authorizations = 1,
                          .site = "same-origin",
                          .head = 300};
}

static void expect_host(const struct gate *gate, const char *host, unsigned status) {
    struct asked asked = honest();

    asked.host = host;
    if (gate_judge(gate, &asked) != status)
        fail_msg("Host %s: %u, and not %u", host != NULL ? host : "(none)", gate_judge(gate, &asked), status);
}

static void test_only_our_hosts(void **state) {
    static const char *const ours[] = {"localhost:7295", "LOCALHOST:7295",     "127.0.0.1:7295",    "[::1]:7295",
                                       "locks.example",  "locks.example:7295", "proxy.example:8443"};
    static const char *const others[] = {"",
                                         "localhost",
                                         "localhost:7296",
                                         "localhost:7295 ",
                                         "localhost:07295",
                                         "127.0.0.1.evil.example:7295",
                                         "evil.example:7295",
                                         "127.0.0.1:7295.evil.example",
                                         "localhost:7295@evil.example",
                                         "proxy.example",
                                         "127.1:7295",
                                         "[::ffff:127.0.0.1]:7295",
                                         "0.0.0.0:7295"};
    struct gate gate = a_gate();

    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        expect_host(&gate, ours[i], 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        expect_host(&gate, others[i], 421);
    expect_host(&gate, NULL, 421);
    gate_finish(&gate);
}

static void test_any_port_on_a_unix_socket(void **state) {
    struct gate gate = {.key = KEY, .any_port = true};

    (void)state;
    assert_true(gate_add_own(&gate, "localhost", 0) && gate_add_own(&gate, "[::1]", 0) &&
                gate_add_host(&gate, "locks.example:1", 0));
    expect_host(&gate, "localhost", 0);
    expect_host(&gate, "localhost:9000", 0);
    expect_host(&gate, "[::1]", 0);
    expect_host(&gate, "[::1]:9000", 0);
    expect_host(&gate, "locks.example:9000", 0);
    expect_host(&gate, "localhost:", 421);
    expect_host(&gate, "localhost:9000:9000", 421);
    expect_host(&gate, "localhost:123456", 421);
    expect_host(&gate, "evil.example:9000", 421);
    gate_finish(&gate);
}

static void test_only_with_the_key(void **state) {
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "Basic " KEY,
                                        KEY,
                                        "Bearer  " KEY,
                                        "Bearer " KEY "0",
                                        "Bearer 0123456789abcdef0123456789abcde",
                                        "Bearer 0123456789abcdef0123456789abcdee",
                                        "Bearer 0123456789ABCDEF0123456789ABCDEF",
                                        "Bearer ffffffffffffffffffffffffffffffff"};
    struct gate gate = a_gate(), without = {0};
    struct asked asked = honest();

    (void)state;
    asked.authorization = "bearer " KEY;
    assert_int_equal(gate_judge(&gate, &asked), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        asked.authorization = wrong[i];
        assert_int_equal(gate_judge(&gate, &asked), 401);
    }
    asked.authorization = NULL;
    assert_int_equal(gate_judge(&gate, &asked), 401);
    asked.flags = 0;
    assert_int_equal(gate_judge(&gate, &asked), 0);
    /* A gate without a key lets nobody in, not even who has none either. */
    asked = honest();
    assert_true(gate_add_own(&without, "localhost", 7295));
    asked.authorization = "Bearer ";
    assert_int_equal(gate_judge(&without, &asked), 401);
    gate_finish(&without);
    gate_finish(&gate);
}

static void test_only_from_our_page(void **state) {
    struct gate gate = a_gate();
    struct asked asked = honest();

    (void)state;
    asked.site = "none";
    assert_int_equal(gate_judge(&gate, &asked), 0);
    asked.site = NULL;
    assert_int_equal(gate_judge(&gate, &asked), 0);
    asked.site = "cross-site";
    assert_int_equal(gate_judge(&gate, &asked), 403);
    asked.site = "same-site";
    assert_int_equal(gate_judge(&gate, &asked), 403);
    asked.flags = ROUTE_LANDING;
    assert_int_equal(gate_judge(&gate, &asked), 0);
    gate_finish(&gate);
}

static void test_one_meaning_only(void **state) {
    struct gate gate = a_gate();
    struct asked asked;

    (void)state;
    asked = honest(), asked.hosts = 2;
    assert_int_equal(gate_judge(&gate, &asked), 400);
    asked = honest(), asked.authorizations = 2;
    assert_int_equal(gate_judge(&gate, &asked), 400);
    asked = honest(), asked.lengths = 2;
    assert_int_equal(gate_judge(&gate, &asked), 400);
    asked = honest(), asked.chunks = true;
    assert_int_equal(gate_judge(&gate, &asked), 400);
    asked = honest(), asked.head = HEAD_MAX + 1;
    assert_int_equal(gate_judge(&gate, &asked), 431);
    gate_finish(&gate);
}

static void expect_length(const struct gate *gate, unsigned flags, const char *length, unsigned status) {
    struct asked asked = honest();

    asked.flags |= flags;
    asked.length = length;
    asked.lengths = length != NULL;
    if (gate_judge(gate, &asked) != status)
        fail_msg("Content-Length %s: %u, and not %u", length != NULL ? length : "(none)", gate_judge(gate, &asked), status);
}

static void test_bodies(void **state) {
    struct gate gate = a_gate();

    (void)state;
    expect_length(&gate, 0, NULL, 0);
    expect_length(&gate, 0, "0", 0);
    expect_length(&gate, 0, "1", 413);
    expect_length(&gate, ROUTE_BODY, NULL, 400);
    expect_length(&gate, ROUTE_BODY, "4096", 0);
    expect_length(&gate, ROUTE_BODY, "4097", 413);
    expect_length(&gate, ROUTE_BODY, "99999999999999999999999", 413);
    expect_length(&gate, ROUTE_BODY, "", 400);
    expect_length(&gate, ROUTE_BODY, "-1", 400);
    expect_length(&gate, ROUTE_BODY, "+1", 400);
    expect_length(&gate, ROUTE_BODY, "1 1", 400);
    expect_length(&gate, ROUTE_BODY, "0x10", 400);
    gate_finish(&gate);
}

/* ---- breaks --------------------------------------------------------------------------------------------------------------- */

static bool reads(const char *body, struct breaking *ret) {
    return breaking_read(body, strlen(body), ret) == NULL;
}

static void test_what_a_break_asks_for(void **state) {
    struct breaking what;

    (void)state;
    assert_true(reads("{\"url\":\"local:\",\"name\":\"nightly\",\"token\":\"1042\",\"now\":false}", &what));
    assert_string_equal(what.url, "local:");
    assert_string_equal(what.name, "nightly");
    assert_int_equal(what.token, 1042);
    assert_false(what.now);
    assert_true(reads(" { \"now\" : true , \"token\" : \"18446744073709551615\" ,\n\"name\":\"a\",\"url\":\"b\" } \n", &what));
    assert_true(what.now && what.token == UINT64_MAX);
    assert_true(reads("{\"url\":\"u\",\"name\":\"\\\"\\\\\\/\\u00e9\\u20ac\\ud83d\\ude00\\n\",\"token\":\"1\"}", &what));
    assert_string_equal(what.name, "\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n");
}

static void test_breaks_that_are_none(void **state) {
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"url\":\"u\",\"name\":\"n\"}",
        "{\"url\":\"u\",\"token\":\"1\"}",
        "{\"name\":\"n\",\"token\":\"1\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":1}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"0\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"-1\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"18446744073709551616\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"111111111111111111111\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\",\"now\":1}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\",\"more\":\"x\"}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\",}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\"} {}",
        "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\"",
        "{\"url\":\"u\",\"name\":\"n\\u0000\",\"token\":\"1\"}",
        "{\"url\":\"u\",\"name\":\"n\\ud83d\",\"token\":\"1\"}",
        "{\"url\":\"u\",\"name\":\"n\\ude00\",\"token\":\"1\"}",
        "{\"url\":\"u\",\"name\":\"n\\x\",\"token\":\"1\"}",
        "{\"url\":\"u\",\"name\":\"n\\",
        "{\"url\":\"u\",\"name\":\"n\n\",\"token\":\"1\"}",
    };
    static const char with_nul[] = "{\"url\":\"u\",\"name\":\"n\",\"token\":\"1\"}\0";
    struct breaking what;
    char body[BREAKING_TEXT + 64];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (reads(wrong[i], &what))
            fail_msg("it was read: %s", wrong[i]);
    assert_non_null(breaking_read(with_nul, sizeof with_nul - 1, &what));
    snprintf(body, sizeof body, "{\"url\":\"u\",\"token\":\"1\",\"name\":\"%0*d\"}", BREAKING_TEXT, 0);
    assert_false(reads(body, &what));
    snprintf(body, sizeof body, "{\"url\":\"u\",\"token\":\"1\",\"name\":\"%0*d\"}", BREAKING_TEXT - 1, 0);
    assert_true(reads(body, &what));
}

/* ---- frames --------------------------------------------------------------------------------------------------------------- */

static void add(struct frames *frames, char letter, size_t length) {
    char *text = malloc(length);

    assert_non_null(text);
    memset(text, letter, length);
    frames_add(frames, text, length);
}

/* Read all there is, in pieces of 3 bytes. */
static bool read_all(const struct frames *frames, struct reader *reader, char *out) {
    size_t length = 0, used = 0;

    do {
        if (!frames_read(frames, reader, out + used, 3, &length))
            return false;
        used += length;
    } while (length > 0);
    out[used] = '\0';
    return true;
}

static void test_readers_at_their_own_pace(void **state) {
    struct frames frames;
    struct reader early = {0}, late = {0};
    char text[64];
    size_t length;

    (void)state;
    frames_init(&frames);
    assert_true(read_all(&frames, &early, text));
    assert_string_equal(text, "");
    add(&frames, 'a', 4);
    assert_true(read_all(&frames, &early, text));
    assert_string_equal(text, "aaaa");
    add(&frames, 'b', 5);
    assert_true(frames_read(&frames, &early, text, 2, &length));
    assert_int_equal(length, 2);
    add(&frames, 'c', 1);
    assert_true(read_all(&frames, &early, text));
    assert_string_equal(text, "bbbc");
    assert_true(read_all(&frames, &late, text));
    assert_string_equal(text, "aaaabbbbbc");
    assert_int_equal(late.read, 3);
    frames_finish(&frames);
}

static void test_who_falls_behind_begins_anew(void **state) {
    struct frames frames;
    struct reader begun = {0}, next = {.read = 1}, ahead = {.read = 99};
    char text[64];
    size_t length;

    (void)state;
    frames_init(&frames);
    add(&frames, 'a', FRAMES_BYTES / 2);
    assert_true(frames_read(&frames, &begun, text, 3, &length));
    add(&frames, 'b', FRAMES_BYTES / 2);
    assert_true(frames_read(&frames, &begun, text, 3, &length));
    add(&frames, 'c', 1);
    assert_int_equal(frames.oldest, 2);
    assert_true(frames.bytes <= FRAMES_BYTES);
    assert_false(frames_read(&frames, &begun, text, 3, &length));
    assert_true(frames_read(&frames, &next, text, 3, &length));
    assert_false(frames_read(&frames, &ahead, text, 3, &length));
    frames_finish(&frames);
}

static void test_a_frame_that_is_too_long(void **state) {
    struct frames frames;
    struct reader before = {0}, after = {.read = 2};
    char text[64];
    size_t length = 7;

    (void)state;
    frames_init(&frames);
    add(&frames, 'a', 4);
    add(&frames, 'b', FRAMES_BYTES + 1);
    assert_int_equal(frames.bytes, 0);
    assert_false(frames_read(&frames, &before, text, 3, &length));
    assert_true(frames_read(&frames, &after, text, 3, &length));
    assert_int_equal(length, 0);
    add(&frames, 'c', 2);
    assert_true(read_all(&frames, &after, text));
    assert_string_equal(text, "cc");
    frames_finish(&frames);
}

static void test_frames_are_bounded_in_number(void **state) {
    struct frames frames;
    struct reader reader = {0};
    char text[8];
    size_t length;

    (void)state;
    frames_init(&frames);
    for (int i = 0; i < 3 * FRAMES_ROOM; i++)
        add(&frames, 'a', 1);
    assert_int_equal(frames.newest - frames.oldest + 1, FRAMES_ROOM);
    assert_int_equal(frames.bytes, FRAMES_ROOM);
    assert_false(frames_read(&frames, &reader, text, 3, &length));
    frames_finish(&frames);
}

/* ---- glances -------------------------------------------------------------------------------------------------------------- */

/* Instead of http.c: what was answered. */
struct exchange {
    unsigned answers, status;
};
struct document {
    unsigned owners;
};

void exchange_answer(struct exchange *exchange, unsigned status, struct document *document) {
    (void)document;
    exchange->answers++;
    exchange->status = status;
}

struct document *document_keep(struct document *document) {
    document->owners++;
    return document;
}

void document_drop(struct document *document) {
    if (document != NULL)
        document->owners--;
}

static enum glance_asked ask(struct glances *glances, const char *name, struct exchange *exchange, bool has_room) {
    return glances_ask(glances, "local:", name, exchange, has_room);
}

/* Who is answered at once needs no room; who would have to wait does. */
static void test_glances_without_room(void **state) {
    struct document document = {.owners = 1};
    struct exchange first = {0}, late = {0}, next = {0};
    struct glances glances;
    enum glance_asked asked;
    int64_t began;

    (void)state;
    glances_init(&glances);
    assert_int_equal(ask(&glances, "other", &late, false), GLANCE_FULL);
    do { /* until it is not the machine's fault that the look is too old */
        glances_forget(&glances);
        first = (struct exchange){0};
        began = now_ms();
        assert_int_equal(ask(&glances, "lock", &first, true), GLANCE_LOOK);
        assert_int_equal(ask(&glances, "lock", &late, false), GLANCE_FULL);
        assert_int_equal(glances_answer(&glances, "local:", "lock", 200, &document), 1);
        asked = ask(&glances, "lock", &next, false);
    } while (asked == GLANCE_FULL && now_ms() - began > 500);
    assert_int_equal(asked, GLANCE_ANSWERED);
    assert_int_equal(first.status, 200);
    assert_int_equal(next.answers, 1);
    assert_int_equal(late.answers, 0);
    glances_finish(&glances);
    assert_int_equal(document.owners, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_our_hosts),
        cmocka_unit_test(test_any_port_on_a_unix_socket),
        cmocka_unit_test(test_only_with_the_key),
        cmocka_unit_test(test_only_from_our_page),
        cmocka_unit_test(test_one_meaning_only),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_what_a_break_asks_for),
        cmocka_unit_test(test_breaks_that_are_none),
        cmocka_unit_test(test_readers_at_their_own_pace),
        cmocka_unit_test(test_who_falls_behind_begins_anew),
        cmocka_unit_test(test_a_frame_that_is_too_long),
        cmocka_unit_test(test_frames_are_bounded_in_number),
        cmocka_unit_test(test_glances_without_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
