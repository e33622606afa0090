/* SPDX-License-Identifier: Apache-2.0
 *
 * test_waiter.c - every cell of the table of a waiter's states.
 */
#include "core/core.h"
#include "../support/test.h"

enum { NEVER = WAITER_NEVER, IGNORED = WAITER_IGNORED };

static const int cells[WAITER_STATES][WAITER_EVENTS] = {
    /* QUEUE, CALL, TURN, GRANT, END */
    [WAITER_NEW] = {WAITER_WAITING, NEVER, NEVER, WAITER_GRANTED, WAITER_ENDED},
    [WAITER_WAITING] = {WAITER_WAITING, WAITER_CALLED, NEVER, WAITER_GRANTED, WAITER_ENDED},
    [WAITER_CALLED] = {WAITER_WAITING, IGNORED, WAITER_DUE, WAITER_GRANTED, WAITER_ENDED},
    [WAITER_DUE] = {WAITER_WAITING, NEVER, IGNORED, WAITER_GRANTED, WAITER_ENDED},
    [WAITER_GRANTED] = {NEVER, NEVER, NEVER, NEVER, NEVER},
    [WAITER_ENDED] = {NEVER, NEVER, NEVER, NEVER, NEVER},
};

static void test_every_cell(void **state) {
    (void)state;
    for (int from = 0; from < WAITER_STATES; from++)
        for (int event = 0; event < WAITER_EVENTS; event++) {
            struct waiter waiter = {.state = (enum waiter_state)from};
            int to = cells[from][event];

            if (pawl__waiter_move((enum waiter_state)from, (enum waiter_event)event) != to)
                fail_msg("state %d, event %d: not %d", from, event, to);
            if (to == NEVER)
                continue;
            assert_int_equal(pawl__waiter_step(&waiter, (enum waiter_event)event), to != IGNORED);
            assert_int_equal(waiter.state, to == IGNORED ? from : to);
        }
}

/* Who waits can be granted the lock and can end at any time; who does not wait any more, never. */
static void test_who_waits_may_end(void **state) {
    (void)state;
    for (int from = WAITER_WAITING; from < WAITER_STATES; from++) {
        struct waiter waiter = {.state = (enum waiter_state)from};
        bool ends = pawl__waiter_move(waiter.state, WAITER_END) == WAITER_ENDED;

        assert_int_equal(is_waiting(&waiter), ends);
        assert_int_equal(pawl__waiter_move(waiter.state, WAITER_GRANT) == WAITER_GRANTED, ends);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_who_waits_may_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
