/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c - what becomes of a claim, and of the tokens that it asks for: for each state, what an event makes of it. lock.h has the words.
 *
 * The caller has looked at everything else (is it the answer to what was asked last? is the grant still worth something? does
 * the URL ask for replicas?), and chooses the event by that. What is not in the table is ignored. What is asked of the server in a
 * state, and again after a lost answer, is pawl__rclaim_drive's to know. Of tokens nothing is ignored: what is not in their table never
 * happens.
 */
#include <assert.h>

#include "engine/redis/lock/lock.h"

/* Not granted yet: asking, and waiting in the queue, differ in little. */
#define PENDING(state)                                                                                                             \
    [RCLAIM_QUEUED] = {RCLAIM_WAITING, 0, 0}, [RCLAIM_GRANTED] = {RCLAIM_HOLDING, KIT_GRANTED, RCLAIM_HEARS},                      \
    [RCLAIM_UNSECURED] = {RCLAIM_SECURING, 0, 0}, [RCLAIM_TOO_LATE] = {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS},               \
    [RCLAIM_STALE] = {RCLAIM_ASKING, 0, RCLAIM_ASKS}, [RCLAIM_REFUSED] = {RCLAIM_NONE, KIT_REFUSED, RCLAIM_ENDS}

/* What is taken back before it was held, or is not held any more. */
#define GIVES_UP [RCLAIM_WITHDRAW] = {RCLAIM_LEAVING, 0, RCLAIM_ASKS}
#define GIVES_BACK [RCLAIM_WITHDRAW] = {RCLAIM_RELEASING, 0, RCLAIM_ASKS}
#define RELEASED                                                                                                                   \
    { RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS }

static const struct rclaim_move moves[RCLAIM_STATES][RCLAIM_EVENTS] = {
    [RCLAIM_NONE] = {[RCLAIM_SUBMIT] = {RCLAIM_ASKING, 0, 0}, [RCLAIM_WITHDRAW] = {RCLAIM_NONE, KIT_GONE, 0}},
    [RCLAIM_ASKING] = {PENDING(RCLAIM_ASKING), GIVES_UP, [RCLAIM_UNSENT] = RELEASED},
    [RCLAIM_WAITING] = {PENDING(RCLAIM_WAITING), GIVES_UP},
    [RCLAIM_SECURING] = {[RCLAIM_GRANTED] = {RCLAIM_HOLDING, KIT_GRANTED, RCLAIM_HEARS},
                         [RCLAIM_TOO_LATE] = {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS},
                         [RCLAIM_SHORT] = {RCLAIM_UNDOING, 0, RCLAIM_ASKS},
                         [RCLAIM_UNSURE] = {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS},
                         [RCLAIM_STALE] = {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_ASKS},
                         [RCLAIM_MOVED] = {RCLAIM_ASKING, 0, RCLAIM_ANEW},
                         GIVES_UP},
    [RCLAIM_UNDOING] = {[RCLAIM_RELEASED] = {RCLAIM_ASKING, 0, RCLAIM_ANEW},
                        [RCLAIM_NOTHING] = {RCLAIM_ASKING, 0, RCLAIM_ANEW},
                        [RCLAIM_UNANSWERED] = {RCLAIM_ASKING, 0, RCLAIM_ANEW | RCLAIM_RENAMES},
                        GIVES_UP},
    [RCLAIM_HOLDING] = {[RCLAIM_NOT_MINE] = {RCLAIM_LOST, KIT_LOST, 0},
                        [RCLAIM_BROKEN] = {RCLAIM_LOST, KIT_BROKEN, 0},
                        [RCLAIM_DOWNGRADE] = {RCLAIM_DOWNGRADING, 0, RCLAIM_ASKS},
                        GIVES_BACK},
    [RCLAIM_DOWNGRADING] = {[RCLAIM_NOT_MINE] = {RCLAIM_LOST, KIT_LOST | KIT_DOWNGRADED, 0},
                            [RCLAIM_BROKEN] = {RCLAIM_LOST, KIT_BROKEN | KIT_DOWNGRADED, 0},
                            [RCLAIM_DOWNGRADED] = {RCLAIM_HOLDING, KIT_DOWNGRADED, 0},
                            GIVES_BACK},
    [RCLAIM_LOST] = {[RCLAIM_DOWNGRADE] = {RCLAIM_LOST, KIT_DOWNGRADED, 0}, GIVES_BACK},
    /* That nothing was there to be released proves a loss only if it was asked for once. */
    [RCLAIM_RELEASING] = {[RCLAIM_RELEASED] = RELEASED,
                          [RCLAIM_NOTHING] = {RCLAIM_NONE, KIT_GONE, RCLAIM_ENDS | RCLAIM_WAS_LOST},
                          [RCLAIM_UNANSWERED] = {RCLAIM_LEAVING, 0, 0}},
    [RCLAIM_LEAVING] = {[RCLAIM_RELEASED] = RELEASED, [RCLAIM_NOTHING] = RELEASED},
};

bool pawl__rclaim_moves(enum rclaim_state state, enum rclaim_event event, struct rclaim_move *ret) {
    *ret = moves[state][event];
    return ret->next || ret->news;
}

/* `x`: never. One answer comes to what was asked, if it is heard at all, and the core takes what is given before it asks again. */
enum { x = TOKENS_NEVER };

static const uint8_t tokens_moves[TOKENS_STATES][TOKENS_EVENTS] = {
    /* ASK GIVE REFUSE TAKE */
    [TOKENS_NOT_ASKED] = {TOKENS_ASKED, x, TOKENS_REFUSED, x},
    [TOKENS_ASKED] = {x, TOKENS_GIVEN, TOKENS_REFUSED, x},
    [TOKENS_GIVEN] = {x, x, x, TOKENS_NOT_ASKED},
    [TOKENS_REFUSED] = {x, x, x, x},
};

int pawl__rclaim_tokens_move(enum tokens_state state, enum tokens_event event) {
    return tokens_moves[state][event];
}

void pawl__rclaim_tokens_step(struct rclaim *claim, enum tokens_event event) {
    int next = pawl__rclaim_tokens_move(claim->tokens.state, event);

    assert(next != x);
    if (next != x)
        claim->tokens.state = (enum tokens_state)next;
}
