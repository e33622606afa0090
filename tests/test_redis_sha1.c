/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_sha1.c - the name of a script is the SHA-1 that everybody else computes. Were it wrong, nothing would fail: the
 * server would only be sent every script anew, every time.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/redis/redis.h"

static void check(const char *text, size_t length, const char *wanted) {
    char hex[SHA_HEX + 1];

    pawl__sha1_hex(text, length, hex);
    assert_string_equal(hex, wanted);
}

/* The examples of FIPS 180. */
static void test_examples(void **state) {
    char *million = malloc(1000000);

    (void)state;
    assert_non_null(million);
    memset(million, 'a', 1000000);
    check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check(million, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(million);
}

/* Where the padding just fits into the last block, just not, and is a block of its own. */
static void test_ends_of_blocks(void **state) {
    char text[128];

    (void)state;
    memset(text, 'a', sizeof text);
    check(text, 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check(text, 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    check(text, 56, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    check(text, 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    check(text, 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    check(text, 65, "11655326c708d70319be2610e8a57d9a5b959d3b");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_ends_of_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
