/* SPDX-License-Identifier: Apache-2.0
 *
 * test.h - what every unit test includes: cmocka with what it needs, and a few assertions of our own.
 */
#ifndef PAWL_TEST_H
#define PAWL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "pawl.h"

#define assert_contains(text, part)                                                                                                \
    do {                                                                                                                           \
        if (!strstr((text), (part)))                                                                                               \
            fail_msg("'%s' does not contain '%s'", (text), (part));                                                                \
    } while (0)

/* The call fails with `wanted`, and says so in the error too. */
#define assert_fails(wanted, call, error)                                                                                          \
    do {                                                                                                                           \
        int rc__ = (call);                                                                                                         \
        if (rc__ != (wanted))                                                                                                      \
            fail_msg("%s: got %s, wanted %s", #call, pawl_error_name(rc__), pawl_error_name(wanted));                              \
        assert_int_equal((error)->code, (wanted));                                                                                 \
        assert_true((error)->text[0]);                                                                                             \
    } while (0)

#define assert_works(call, error)                                                                                                  \
    do {                                                                                                                           \
        int rc__ = (call);                                                                                                         \
        if (rc__ < 0)                                                                                                              \
            fail_msg("%s: %s: %s", #call, pawl_error_name(rc__), (error)->text);                                                   \
    } while (0)

/* What others have, know, or agree on makes no sound: it can only be looked for, and for a minute at most. */
#define await(condition, ...)                                                                                                      \
    do {                                                                                                                           \
        int left__ = 60000 / 2;                                                                                                    \
                                                                                                                                   \
        while (!(condition) && left__-- > 0)                                                                                       \
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);                                                               \
        if (left__ < 0)                                                                                                            \
            fail_msg(__VA_ARGS__);                                                                                                 \
    } while (0)

#endif
