/* SPDX-License-Identifier: Apache-2.0
 *
 * test_observe.c - every cell of the two tables of observers: what is told, and the thread that looks.
 */
#include "core/observe.h"
#include "../support/test.h"

enum { NEVER = TELLING_NEVER, IGNORED = TELLING_IGNORED };

static const int telling_cells[TELLING_STATES][TELLING_EVENTS] = {
    /* POST, CALL, RETURN, END */
    [TELLING_NOTHING] = {TELLING_POSTED, TELLING_CALLING, NEVER, TELLING_OVER},
    [TELLING_POSTED] = {IGNORED, TELLING_CALLING, NEVER, TELLING_OVER},
    [TELLING_CALLING] = {IGNORED, NEVER, TELLING_NOTHING, TELLING_LAST},
    [TELLING_LAST] = {IGNORED, NEVER, TELLING_OVER, NEVER},
    [TELLING_OVER] = {IGNORED, IGNORED, NEVER, NEVER},
};

static void test_every_cell_of_telling(void **state) {
    (void)state;
    for (int from = 0; from < TELLING_STATES; from++)
        for (int event = 0; event < TELLING_EVENTS; event++)
            if (pawl__telling_move((enum telling_state)from, (enum telling_event)event) != telling_cells[from][event])
                fail_msg("state %d, event %d: not %d", from, event, telling_cells[from][event]);
}

/* After pawl_unobserve no event has the callback run again. */
static void test_nothing_leads_back(void **state) {
    (void)state;
    for (int from = TELLING_LAST; from <= TELLING_OVER; from++)
        for (int event = 0; event < TELLING_EVENTS; event++)
            assert_true(pawl__telling_move((enum telling_state)from, (enum telling_event)event) >= TELLING_OVER);
}

static const int looking_cells[LOOKING_STATES][LOOKING_EVENTS] = {
    /* START, LEAVE, JOIN */
    [LOOKING_NONE] = {LOOKING_RUNS, LOOKING_NEVER, LOOKING_NEVER},
    [LOOKING_RUNS] = {LOOKING_IGNORED, LOOKING_OVER, LOOKING_NEVER},
    [LOOKING_OVER] = {LOOKING_NEVER, LOOKING_NEVER, LOOKING_NONE},
};

static void test_every_cell_of_looking(void **state) {
    (void)state;
    for (int from = 0; from < LOOKING_STATES; from++)
        for (int event = 0; event < LOOKING_EVENTS; event++)
            if (pawl__looking_move((enum looking_state)from, (enum looking_event)event) != looking_cells[from][event])
                fail_msg("state %d, event %d: not %d", from, event, looking_cells[from][event]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell_of_telling),
        cmocka_unit_test(test_nothing_leads_back),
        cmocka_unit_test(test_every_cell_of_looking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
