/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redlock_table.c - every cell of the tables of bids and votes: what is not written down here is ignored; and what is done where there
 * is no memory.
 */
#include "../support/test.h"

#include "engine/redlock/redlock.h"

struct vote_cell {
    int event, state;
    struct vote_move move;
};

static const struct vote_cell vote_cells[] = {
    {VOTE_ASK, VOTE_NONE, {VOTE_ASKED, VOTE_NEWS}},
    {VOTE_ASK, VOTE_WAITS, {VOTE_ASKED, VOTE_NEWS}},
    {VOTE_YES, VOTE_ASKED, {VOTE_GRANTED, VOTE_NEWS | VOTE_ANSWERS | VOTE_TAKES}},
    {VOTE_NO, VOTE_ASKED, {VOTE_WAITS, VOTE_NEWS | VOTE_ANSWERS}},
    {VOTE_NO, VOTE_WAITS, {VOTE_WAITS, VOTE_NEWS}}, /* a hint: it may be free now */
    {VOTE_RENEWED, VOTE_GRANTED, {VOTE_GRANTED, VOTE_NEWS | VOTE_TAKES}},
    {VOTE_LOST, VOTE_GRANTED, {VOTE_OVER, VOTE_NEWS}}, /* the bid decides whether it is given back */
    {VOTE_RETURN, VOTE_ASKED, {VOTE_LEAVING, VOTE_NEWS}},
    {VOTE_RETURN, VOTE_WAITS, {VOTE_LEAVING, VOTE_NEWS}},
    {VOTE_RETURN, VOTE_GRANTED, {VOTE_RETURNING, VOTE_NEWS}},
    {VOTE_RETURN, VOTE_OVER, {VOTE_RETURNING, VOTE_NEWS}},
    {VOTE_UNANSWERED, VOTE_RETURNING, {VOTE_LEAVING, VOTE_NEWS}},
    {VOTE_GONE, VOTE_ASKED, {VOTE_NONE, VOTE_NEWS}}, /* refused */
    {VOTE_GONE, VOTE_WAITS, {VOTE_NONE, VOTE_NEWS}},
    {VOTE_GONE, VOTE_RETURNING, {VOTE_NONE, VOTE_NEWS}},
    {VOTE_GONE, VOTE_LEAVING, {VOTE_NONE, VOTE_NEWS}},
};

static void test_votes(void **state) {
    (void)state;
    for (int from = 0; from < VOTE_STATES; from++)
        for (int event = 0; event < VOTE_EVENTS; event++) {
            struct vote vote = {.state = (enum vote_state)from};
            struct vote_move wanted = {(uint8_t)from, 0};

            for (size_t i = 0; i < sizeof vote_cells / sizeof vote_cells[0]; i++)
                if (vote_cells[i].event == event && vote_cells[i].state == from)
                    wanted = vote_cells[i].move;
            if (pawl__vote_step(&vote, (enum vote_event)event) != wanted.means || vote.state != wanted.next)
                fail_msg("a vote in state %d, event %d: state %d", from, event, (int)vote.state);
        }
}

struct bid_cell {
    int event, state;
    struct bid_move move;
};

static const struct bid_cell bid_cells[] = {
    {BID_SUBMIT, BID_NONE, {BID_QUEUED, 0}},
    {BID_BEGIN, BID_QUEUED, {BID_ASKING, BID_ATTEMPT}},
    {BID_FIRST, BID_QUEUED, {BID_RESTING, BID_SOON}},
    {BID_TIMER, BID_ASKING, {BID_ASKING, BID_GIVE_UP}},
    {BID_TIMER, BID_RAISING, {BID_RAISING, BID_GIVE_UP}},
    {BID_TIMER, BID_RESTING, {BID_ASKING, BID_ATTEMPT}},
    {BID_TIMER, BID_LEAVING, {BID_NONE, BID_END}},
    {BID_CAME, BID_RESTING, {BID_RESTING, BID_PLAN}},
    {BID_CAME, BID_HOLDING, {BID_HOLDING, BID_TOP_UP}},
    {BID_WENT, BID_ASKING, {BID_ASKING, BID_JUDGE}},
    {BID_WENT, BID_RAISING, {BID_RAISING, BID_JUDGE}},
    {BID_YES, BID_ASKING, {BID_ASKING, BID_JUDGE}},
    {BID_YES, BID_RAISING, {BID_RAISING, BID_JUDGE}},
    {BID_YES, BID_RESTING, {BID_RESTING, BID_RETURN}},
    {BID_YES, BID_HOLDING, {BID_HOLDING, BID_COUNT}},
    {BID_NO, BID_ASKING, {BID_ASKING, BID_JUDGE}},
    {BID_NO, BID_RAISING, {BID_RAISING, BID_JUDGE}},
    {BID_NO, BID_RESTING, {BID_RESTING, BID_PLAN}},
    {BID_NO, BID_HOLDING, {BID_HOLDING, BID_RETURN}},
    {BID_RENEWED, BID_ASKING, {BID_ASKING, BID_JUDGE}},
    {BID_RENEWED, BID_RAISING, {BID_RAISING, BID_JUDGE}},
    {BID_RENEWED, BID_HOLDING, {BID_HOLDING, BID_COUNT}},
    {BID_FORGOTTEN, BID_ASKING, {BID_ASKING, BID_FORGET | BID_JUDGE}},
    {BID_FORGOTTEN, BID_RAISING, {BID_RAISING, BID_FORGET | BID_JUDGE}},
    {BID_FORGOTTEN, BID_RESTING, {BID_RESTING, BID_FORGET}},
    {BID_FORGOTTEN, BID_HOLDING, {BID_HOLDING, BID_FORGET | BID_COUNT}},
    {BID_FREED, BID_ASKING, {BID_ASKING, BID_FORGET | BID_JUDGE}},
    {BID_FREED, BID_RAISING, {BID_RAISING, BID_FORGET | BID_JUDGE}},
    {BID_FREED, BID_RESTING, {BID_RESTING, BID_FORGET}},
    {BID_FREED, BID_HOLDING, {BID_HOLDING, BID_LOSE}},
    {BID_BROKEN, BID_ASKING, {BID_ASKING, BID_RETURN | BID_JUDGE}}, /* what it wants back it has: it is asked for anew */
    {BID_BROKEN, BID_RAISING, {BID_RAISING, BID_RETURN | BID_JUDGE}},
    {BID_BROKEN, BID_RESTING, {BID_RESTING, BID_RETURN}},
    {BID_BROKEN, BID_HOLDING, {BID_HOLDING, BID_BREAK}},
    {BID_REFUSED, BID_ASKING, {BID_ASKING, BID_TALLY | BID_JUDGE}},
    {BID_REFUSED, BID_RAISING, {BID_RAISING, BID_TALLY | BID_JUDGE}},
    {BID_REFUSED, BID_LEAVING, {BID_LEAVING, BID_LOOK}},
    {BID_RETURNED, BID_RESTING, {BID_RESTING, BID_PLAN}},
    {BID_RETURNED, BID_HOLDING, {BID_HOLDING, BID_TOP_UP}},
    {BID_RETURNED, BID_LEAVING, {BID_LEAVING, BID_LOOK}},
    {BID_IMPOSSIBLE, BID_ASKING, {BID_RESTING, BID_PAUSE}},
    {BID_IMPOSSIBLE, BID_RAISING, {BID_RESTING, BID_PAUSE}},
    {BID_HOPELESS, BID_ASKING, {BID_NONE, BID_REFUSE}},
    {BID_HOPELESS, BID_RAISING, {BID_NONE, BID_REFUSE}},
    {BID_QUORUM, BID_ASKING, {BID_RAISING, BID_CHOOSE}},
    {BID_WRITTEN, BID_RAISING, {BID_HOLDING, BID_HOLD}},
    {BID_FREE, BID_LEAVING, {BID_NONE, BID_END}},
    {BID_WITHDRAW, BID_NONE, {BID_NONE, BID_SAY_GONE}},
    {BID_WITHDRAW, BID_QUEUED, {BID_LEAVING, BID_LEAVE}},
    {BID_WITHDRAW, BID_ASKING, {BID_LEAVING, BID_LEAVE}},
    {BID_WITHDRAW, BID_RAISING, {BID_LEAVING, BID_LEAVE}},
    {BID_WITHDRAW, BID_RESTING, {BID_LEAVING, BID_LEAVE}},
    {BID_WITHDRAW, BID_HOLDING, {BID_LEAVING, BID_PASS_ON | BID_LEAVE}},
};

static void test_bids(void **state) {
    (void)state;
    for (int from = 0; from < BID_STATES; from++)
        for (int event = 0; event < BID_EVENTS; event++) {
            struct bid_move wanted = {(uint8_t)from, 0}, found = pawl__bid_move((enum bid_state)from, (enum bid_event)event);

            for (size_t i = 0; i < sizeof bid_cells / sizeof bid_cells[0]; i++)
                if (bid_cells[i].event == event && bid_cells[i].state == from)
                    wanted = bid_cells[i].move;
            if (found.next != wanted.next || found.actions != wanted.actions)
                fail_msg("a bid in state %d, event %d: state %d, actions %x", from, event, found.next, found.actions);
        }
}

/* ---- No memory ------------------------------------------------------------------------------------------------------------ */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have one of their own */
#define HAVE_NO_MEMORY
static bool no_memory;
static void *(*volatile take)(size_t) = malloc; /* or the compiler makes one calloc() of both */

/* The linker takes this one for the library's. */
void *calloc(size_t count, size_t size) {
    void *memory = no_memory ? NULL : take(count * size);

    return memory ? memset(memory, 0, count * size) : NULL;
}

/* A renewal for which there is no memory is put off, not asked for again as fast as can be. */
static void test_renewals_rest_without_memory(void **state) {
    static struct redlock redlock;
    static struct voter voter = {.server.commands.state = LINK_UP};
    struct vote vote = {.state = VOTE_GRANTED};

    (void)state;
    redlock.voters[0] = &voter;
    TAILQ_INIT(&voter.to_renew);
    pawl__vote_renew(&redlock, &vote);
    no_memory = true;
    pawl__voter_renew(&redlock, &voter);
    no_memory = false;
    assert_true(voter.renew_at > pawl__boottime());
    assert_ptr_equal(TAILQ_FIRST(&voter.to_renew), &vote);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_bids),
#ifdef HAVE_NO_MEMORY
        cmocka_unit_test(test_renewals_rest_without_memory),
#endif
    };

    return cmocka_run_group_tests_name("redlock_table", tests, NULL, NULL);
}
