/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lease.c - the arithmetic of leases and deadlines at its edges.
 */
#include "../support/test.h"

#include "engine/engine.h"
#include "base/lease.h"

#define S INT64_C(1000000000)

static void test_order_of_moments(void **state) {
    (void)state;
    for (int64_t lease = S / 10; lease <= 86400 * S; lease = lease * 3 + 7) {
        int64_t sent = 12345 * S;

        assert_true(sent < pawl__lease_renew_at(sent, lease));
        assert_true(pawl__lease_renew_at(sent, lease) < pawl__lease_suspect_at(sent, lease));
        assert_true(pawl__lease_suspect_at(sent, lease) < pawl__lease_assured_until(sent, lease));
        assert_true(pawl__lease_assured_until(sent, lease) < sent + lease);
    }
}

static void test_counts_from_departure(void **state) {
    (void)state;
    assert_int_equal(pawl__lease_assured_until(0, 30 * S), 30 * S - 3 * S / 10 - S / 500);
    assert_int_equal(pawl__lease_assured_until(5 * S, 30 * S) - pawl__lease_assured_until(0, 30 * S), 5 * S);
}

static void test_never(void **state) {
    (void)state;
    assert_int_equal(pawl__lease_renew_at(S, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__lease_suspect_at(S, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__lease_assured_until(S, PAWL__NEVER), PAWL__NEVER);
    assert_int_equal(pawl__time_add(PAWL__NEVER, 1), PAWL__NEVER);
    assert_int_equal(pawl__time_add(PAWL__NEVER - 5, 6), PAWL__NEVER);
}

static void test_deadlines(void **state) {
    (void)state;
    assert_int_equal(pawl__deadline(S, 0), S);
    assert_int_equal(pawl__deadline(S, 1500), S + 3 * S / 2);
    assert_int_equal(pawl__deadline(S, PAWL_FOREVER), PAWL__NEVER);
    assert_int_equal(pawl__deadline(S, PAWL_FOREVER - 1), PAWL__NEVER);
    assert_int_equal(pawl__deadline(S, INT64_MAX / 1000000), PAWL__NEVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_moments),
        cmocka_unit_test(test_counts_from_departure),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_deadlines),
    };

    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
