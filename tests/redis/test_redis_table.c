/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_table.c - every cell of the tables of claims, and of the tokens that they ask for: what is not written down here is ignored,
 * and of tokens never happens.
 */
#include "../support/test.h"

#include "engine/redis/lock/lock.h"

#define ALL(...) ((const uint8_t[]){__VA_ARGS__, RCLAIM_STATES})

/* An event; the states in which it does this; and what it does. */
static const struct cell {
    enum rclaim_event event;
    const uint8_t *states;
    struct rclaim_move move;
} cells[] = {
    {RCLAIM_SUBMIT, ALL(RCLAIM_NONE), {RCLAIM_ASKING, 0, 0}},
    {RCLAIM_QUEUED, ALL(RCLAIM_ASKING, RCLAIM_WAITING), {RCLAIM_WAITING, 0, 0}},
    {RCLAIM_GRANTED, ALL(RCLAIM_ASKING, RCLAIM_WAITING, RCLAIM_SECURING), {RCLAIM_HOLDING, KIT_GRANTED, RCLAIM_HEARS}},
    {RCLAIM_UNSECURED, ALL(RCLAIM_ASKING, RCLAIM_WAITING), {RCLAIM_SECURING, 0, 0}},
    {RCLAIM_TOO_LATE, ALL(RCLAIM_ASKING, RCLAIM_WAITING, RCLAIM_SECURING), {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS}},
    {RCLAIM_REFUSED, ALL(RCLAIM_ASKING, RCLAIM_WAITING), {RCLAIM_NONE, KIT_REFUSED, RCLAIM_ENDS}},
    {RCLAIM_STALE, ALL(RCLAIM_ASKING, RCLAIM_WAITING), {RCLAIM_ASKING, 0, RCLAIM_ASKS}},
    {RCLAIM_STALE, ALL(RCLAIM_SECURING), {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS}},
    {RCLAIM_SHORT, ALL(RCLAIM_SECURING), {RCLAIM_UNDOING, 0, RCLAIM_ASKS}},
    {RCLAIM_UNSURE, ALL(RCLAIM_SECURING), {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS}},
    {RCLAIM_NOT_MINE, ALL(RCLAIM_HOLDING), {RCLAIM_LOST, KIT_LOST, 0}},
    {RCLAIM_NOT_MINE, ALL(RCLAIM_DOWNGRADING), {RCLAIM_LOST, KIT_LOST | KIT_DOWNGRADED, 0}},
    {RCLAIM_BROKEN, ALL(RCLAIM_HOLDING), {RCLAIM_LOST, KIT_BROKEN, 0}},
    {RCLAIM_BROKEN, ALL(RCLAIM_DOWNGRADING), {RCLAIM_LOST, KIT_BROKEN | KIT_DOWNGRADED, 0}},
    {RCLAIM_DOWNGRADE, ALL(RCLAIM_HOLDING), {RCLAIM_DOWNGRADING, 0, RCLAIM_ASKS}},
    {RCLAIM_DOWNGRADE, ALL(RCLAIM_LOST), {RCLAIM_LOST, KIT_DOWNGRADED, 0}},
    {RCLAIM_DOWNGRADED, ALL(RCLAIM_DOWNGRADING), {RCLAIM_HOLDING, KIT_DOWNGRADED, 0}},
    {RCLAIM_WITHDRAW, ALL(RCLAIM_NONE), {RCLAIM_NONE, KIT_GONE, 0}},
    {RCLAIM_WITHDRAW, ALL(RCLAIM_ASKING, RCLAIM_WAITING, RCLAIM_SECURING, RCLAIM_UNDOING), {RCLAIM_LEAVING, 0, RCLAIM_ASKS}},
    {RCLAIM_WITHDRAW, ALL(RCLAIM_HOLDING, RCLAIM_DOWNGRADING, RCLAIM_LOST), {RCLAIM_RELEASING, 0, RCLAIM_ASKS}},
    {RCLAIM_UNSENT, ALL(RCLAIM_ASKING), {RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS}},
    {RCLAIM_RELEASED, ALL(RCLAIM_UNDOING), {RCLAIM_ASKING, 0, RCLAIM_ANEW}},
    {RCLAIM_RELEASED, ALL(RCLAIM_RELEASING, RCLAIM_LEAVING), {RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS}},
    {RCLAIM_NOTHING, ALL(RCLAIM_UNDOING), {RCLAIM_ASKING, 0, RCLAIM_ANEW}},
    {RCLAIM_NOTHING, ALL(RCLAIM_RELEASING), {RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS | RCLAIM_WAS_LOST}},
    {RCLAIM_NOTHING, ALL(RCLAIM_LEAVING), {RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS}},
    {RCLAIM_UNANSWERED, ALL(RCLAIM_RELEASING), {RCLAIM_LEAVING, 0, 0}},
    {RCLAIM_UNANSWERED, ALL(RCLAIM_UNDOING), {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_RENAMES}},
    {RCLAIM_MOVED, ALL(RCLAIM_SECURING), {RCLAIM_ASKING, 0, RCLAIM_ANEW}},
};

static bool is_of(const struct cell *cell, int state, int event) {
    for (const uint8_t *at = cell->states; *at != RCLAIM_STATES; at++)
        if (*at == state && (int)cell->event == event)
            return true;
    return false;
}

static const struct cell *find(int state, int event) {
    const struct cell *found = NULL;

    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        if (is_of(&cells[i], state, event)) {
            assert_null(found); /* it is here once */
            found = &cells[i];
        }
    return found;
}

static void test_every_cell(void **unused) {
    struct rclaim_move move;

    (void)unused;
    for (int state = 0; state < RCLAIM_STATES; state++)
        for (int event = 0; event < RCLAIM_EVENTS; event++) {
            bool moves = pawl__rclaim_moves((enum rclaim_state)state, (enum rclaim_event)event, &move);
            const struct cell *cell = find(state, event);

            if (moves != (cell != NULL) || (cell && memcmp(&move, &cell->move, sizeof move) != 0))
                fail_msg("state %d, event %d: next %d, news %x, actions %x", state, event, move.next, move.news, move.actions);
        }
}

/* A claim that is withdrawn comes to its end after every event, and only that way leads out of there. */
static void test_ways_out(void **unused) {
    struct rclaim_move move;

    (void)unused;
    for (int state = RCLAIM_ASKING; state < RCLAIM_STATES; state++)
        for (int event = 0; event < RCLAIM_EVENTS; event++)
            if (pawl__rclaim_moves((enum rclaim_state)state, (enum rclaim_event)event, &move)) {
                if (state >= RCLAIM_RELEASING)
                    assert_true(move.next == RCLAIM_NONE || move.next == RCLAIM_LEAVING);
                assert_int_equal(move.next == RCLAIM_NONE, (move.actions & RCLAIM_ENDS) != 0);
                assert_int_equal(move.next == RCLAIM_NONE, (move.news & (KIT_GONE | KIT_REFUSED)) != 0);
            }
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------- */

static const int tokens_cells[TOKENS_STATES][TOKENS_EVENTS] = {
    /* ASK, GIVE, REFUSE, TAKE */
    [TOKENS_NOT_ASKED] = {TOKENS_ASKED, TOKENS_NEVER, TOKENS_REFUSED, TOKENS_NEVER},
    [TOKENS_ASKED] = {TOKENS_NEVER, TOKENS_GIVEN, TOKENS_REFUSED, TOKENS_NEVER},
    [TOKENS_GIVEN] = {TOKENS_NEVER, TOKENS_NEVER, TOKENS_NEVER, TOKENS_NOT_ASKED},
    [TOKENS_REFUSED] = {TOKENS_NEVER, TOKENS_NEVER, TOKENS_NEVER, TOKENS_NEVER},
};

static void test_every_cell_of_the_tokens(void **unused) {
    (void)unused;
    for (int state = 0; state < TOKENS_STATES; state++)
        for (int event = 0; event < TOKENS_EVENTS; event++) {
            struct rclaim claim = {.tokens.state = (enum tokens_state)state};
            int to = tokens_cells[state][event];

            assert_int_equal(pawl__rclaim_tokens_move((enum tokens_state)state, (enum tokens_event)event), to);
            if (to != TOKENS_NEVER)
                pawl__rclaim_tokens_step(&claim, (enum tokens_event)event);
            assert_int_equal(claim.tokens.state, to == TOKENS_NEVER ? state : to);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cell), cmocka_unit_test(test_ways_out),
                                       cmocka_unit_test(test_every_cell_of_the_tokens)};

    return cmocka_run_group_tests_name("redis_table", tests, NULL, NULL);
}
