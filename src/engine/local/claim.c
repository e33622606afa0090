/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - what begins at the seam: submit, withdraw, downgrade, rest, resume, retoken, check.
 *
 * None of them blocks. If the guard of the bucket is busy they remember in state->phase what is to be done, answer PENDING, and
 * park() or serve() finish it through link() and finish(), which may wait.
 *
 * The uncontended pair is the path that must be short: a node from the shelf, the guard, an empty list, the guard; and back. No system
 * call, no allocation, one reading of the coarse clock.
 */
#include <string.h>

#include "engine/local/local.h"
#include "base/error.h"
#include "os/futex.h"

/* A phase and an event make the next phase; what is not here can't come, or does not matter. */
static const uint8_t phase_moves[PHASES][EVENTS] = {
    [PHASE_NONE] = {[EVENT_POSTPONED] = TO(PHASE_UNLINKED),
                    [EVENT_QUEUED] = TO(PHASE_WAITING),
                    [EVENT_HELD] = TO(PHASE_NONE),
                    [EVENT_WITHDRAWN] = TO(PHASE_LEAVING),
                    [EVENT_DOWNGRADED] = TO(PHASE_DOWNGRADING),
                    [EVENT_SHARED] = TO(PHASE_NONE),
                    [EVENT_GONE] = TO(PHASE_NONE)},
    [PHASE_UNLINKED] = {[EVENT_QUEUED] = TO(PHASE_WAITING),
                        [EVENT_HELD] = TO(PHASE_NONE),
                        [EVENT_WITHDRAWN] = TO(PHASE_LEAVING),
                        [EVENT_GONE] = TO(PHASE_NONE)},
    [PHASE_WAITING] = {[EVENT_HELD] = TO(PHASE_NONE),
                       [EVENT_PASSED_OVER] = TO(PHASE_UNLINKED),
                       [EVENT_WITHDRAWN] = TO(PHASE_LEAVING),
                       [EVENT_GONE] = TO(PHASE_NONE)},
    [PHASE_LEAVING] = {[EVENT_WITHDRAWN] = TO(PHASE_LEAVING), [EVENT_GONE] = TO(PHASE_NONE)},
    [PHASE_DOWNGRADING] = {[EVENT_WITHDRAWN] = TO(PHASE_LEAVING),
                           [EVENT_DOWNGRADED] = TO(PHASE_DOWNGRADING),
                           [EVENT_SHARED] = TO(PHASE_NONE),
                           [EVENT_GONE] = TO(PHASE_NONE)},
};

bool pawl__local_step(struct local_claim *state, enum phase_event event) {
    uint8_t next = phase_moves[state->phase][event];

    if (next != 0)
        state->phase = next - 1;
    return next != 0;
}

/* What of it fits, in whole characters. Whose it is comes last: who dies before has no label. */
static COLD void put_label(struct node *node, const char *label, uint64_t owner) {
    size_t length = strlen(label), room = sizeof node->name - node->name_length - 1;

    if (length > room)
        length = room;
    while (length > 0 && ((unsigned char)label[length] & 0xc0) == 0x80)
        length--;
    memcpy(node->name + node->name_length, label, length);
    node->name[node->name_length + length] = '\0';
    node->labelled = owner;
}

/* The node is in no list, or about to leave it, and ours. */
static void take_label_off(struct node *node, const struct pawl__claim *claim) {
    if (claim->label)
        node->labelled = 0;
}

/* Everything about a node that does not depend on the queue. It is in no list; but who writes a value may look at it (value.c). */
static void fill(struct node *node, const struct pawl__claim *claim, uint64_t owner, int64_t now_ms) {
    COMMIT(node->hash, claim->name_hash);
    COMMIT(node->mode, (uint8_t)claim->mode);
    SET(node->watching, WATCHING_NOTHING);
    node->kind = (uint8_t)((unsigned)claim->kind | (claim->keep_ns ? NODE_KEEPS : 0));
    node->permits = claim->permits;
    node->limit = claim->limit;
    SET(node->since_ms, now_ms);
    node->name_length = (uint8_t)claim->name_length;
    memcpy(node->name, claim->name, claim->name_length);
    if (claim->label)
        put_label(node, claim->label, owner);
}

static struct node *node_of(struct local *local, const struct local_claim *state) {
    return &local->table->nodes[GET(state->ref) - 1];
}

void pawl__local_granted(struct local *local, struct local_claim *state) {
    struct pawl__claim *claim = state->claim;

    claim->token = GET(node_of(local, state)->token);
    claim->token_count = 1;
    claim->sent_at = 0;
    claim->lease_ns = PAWL__NEVER;
    claim->wanted = GET(node_of(local, state)->state) & NODE_WANTED;
    pawl__local_step(state, EVENT_HELD);
    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, claim, "holds with token %llu", (unsigned long long)claim->token);
}

/* Where in the queue a claim was put, for the trace. Looked up inside the guard and told outside: the listener may be slow. */
struct position {
    uint64_t ticket, before; /* 0: not to be told */
    uint32_t slot;           /* whose ticket `before` is */
};

/* It waits, behind others. Under the guard. */
static void queued(struct local *local, struct guard_visit *visit, struct local_claim *state, struct position *ret) {
    const struct node *node = node_of(local, state), *previous;
    uint32_t steps = 0;

    pawl__local_step(state, EVENT_QUEUED);
    if (!pawl__noting(&local->engine))
        return;
    previous = pawl__local_before(local, visit, node, node, &steps);
    ret->ticket = GET(node->ticket);
    ret->before = previous ? GET(previous->ticket) : 0;
    ret->slot = previous ? slot_of(GET(previous->owner)) : SESSION_COUNT;
}

static void note_position(struct local *local, struct local_claim *state, const struct position *position) {
    char who[WHO_SIZE];

    if (position->ticket != 0)
        pawl__note(&local->engine, state->claim, "queued as ticket %llu behind ticket %llu (%s)",
                   (unsigned long long)position->ticket, (unsigned long long)position->before,
                   pawl__local_who(local, position->slot, who, sizeof who));
}

/* The claim is over, and its node is in no list. */
static void put_back(struct local *local, struct local_claim *state) {
    struct node *node = node_of(local, state);
    uint32_t ref = GET(state->ref);

    take_label_off(node, state->claim);
    node_move(node, NODE_LEAVE);
    SET(state->ref, 0); /* before another may have the node: see check() */
    pawl__local_node_put(local, ref, state->claim->name_hash);
    pawl__local_step(state, EVENT_GONE);
}

/* link() has to see who is in the way, or to wait for the guard; others may queue before. */
static int postpone(struct local_claim *state) {
    pawl__place_lost(state->claim);
    pawl__local_step(state, EVENT_POSTPONED);
    return PAWL__PENDING;
}

/* It was not free. */
static APART int submit_slowly(struct local *local, struct guard_visit *visit, struct local_claim *state, enum verdict verdict,
                               struct pawl_error *reterr) {
    struct position position = {0};

    if (verdict == VERDICT_WAITING) {
        queued(local, visit, state, &position);
        pawl__place_take(&local->engine, state->claim);
    }
    pawl__local_leave(local, visit);
    note_position(local, state, &position);
    if (verdict == VERDICT_WAITING)
        return PAWL__PENDING;
    if (verdict != VERDICT_DAMAGED)
        return postpone(state);
    put_back(local, state);
    return pawl__local_fail_damaged(local, state->claim->name_hash, reterr);
}

int pawl__local_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);
    uint32_t hash = claim->name_hash, ref = 0;
    int64_t now_ms = pawl__local_wall_ms();
    struct guard_visit visit;
    enum verdict verdict;
    bool inside;
    int rc;

    state->claim = claim;
    if (pawl__local_gone_cheaply(local, now_ms))
        return pawl__local_fail_gone(local, reterr);
    inside = pawl__local_has_spare(local, hash) && pawl__local_enter_try(local, &visit, hash);
    if (inside && (ref = pawl__local_take_spare(local, hash)) == 0) { /* another thread was faster */
        pawl__local_leave(local, &visit);
        inside = false;
    }
    if (ref == 0 && (rc = pawl__local_node_get(local, hash, &ref, reterr)) < 0)
        return rc;
    SET(state->ref, ref);
    fill(&local->table->nodes[ref - 1], claim, local->owner, now_ms);
    if (!inside && !pawl__local_enter_try(local, &visit, hash))
        return postpone(state);
    verdict = pawl__local_enqueue(local, &visit, ref, claim->try_only);
    if (!LIKELY(verdict == VERDICT_HELD))
        return submit_slowly(local, &visit, state, verdict, reterr);
    pawl__local_leave(local, &visit);
    pawl__local_granted(local, state);
    return PAWL__DONE;
}

/* ---- Those in the way of a claim that does not queue ---- */

enum { PEERS = 64 };
#define SLOW_CLAIMER_LOOK (2 * MS)

struct peer {
    uint64_t owner;
    uint32_t ref;
    enum node_state state;
    uint64_t token;
    int64_t granted_ms;
};

struct obstacles {
    uint32_t skip; /* so many were found alive before */
    unsigned count;
    bool kept; /* a kept one was seen. If nothing else is in the way, deciding again takes it out */
    struct peer peers[PEERS];
};

/* Copy the next few nodes that are in the way: they are tested outside of the guard. */
static void find_obstacles(struct local *local, struct guard_visit *visit, const struct node *node, bool mismatch,
                           struct obstacles *ret) {
    bool only_exclusive = !mismatch && GET(node->mode) == PAWL_SHARED;
    uint32_t steps = 0, seen = 0;

    ret->count = 0;
    ret->kept = false;
    FOR_NODES(other, local, visit, &steps) {
        if (ret->count == PEERS)
            return;
        if (!pawl__local_same_name(other, node) || (only_exclusive && GET(other->mode) != PAWL_EXCLUSIVE))
            continue;
        if (state_of(GET(other->state)) == NODE_KEPT) {
            ret->kept = true;
            continue;
        }
        if (seen++ < ret->skip)
            continue;
        ret->peers[ret->count++] = (struct peer){
            .owner = GET(other->owner),
            .ref = pawl__local_ref(local, other),
            .state = state_of(GET(other->state)),
            .token = GET(other->token),
            .granted_ms = other->granted_ms,
        };
    }
    if (ret->kept) /* it may have been let go with others behind it: they are next */
        pawl__local_regrant(local, visit, node);
}

static int refuse(struct local *local, struct local_claim *state, enum verdict verdict, uint32_t slot, struct pawl_error *reterr) {
    struct pawl__claim *claim = state->claim;
    char who[WHO_SIZE];

    put_back(local, state);
    pawl__local_who(local, slot, who, sizeof who);
    if (verdict == VERDICT_KIND)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is in use as another kind of lock by %s", claim->name, who);
    if (verdict == VERDICT_LIMIT)
        return pawl__fail(reterr, PAWL_ELIMIT, "'%s' is in use as a semaphore of another limit than %u by %s", claim->name,
                          claim->limit, who);
    return pawl__fail(reterr, PAWL_EHELD, "'%s' is held by %s", claim->name, who);
}

/* Has it still not claimed what it was granted? */
static bool lags(struct local *local, const struct slow_claimer *slow_claimer) {
    const struct node *node = &local->table->nodes[slow_claimer->ref - 1];

    return state_of(atomic_load(&node->state)) == NODE_GRANTED && GET(node->token) == slow_claimer->token;
}

/* Give it its time. False: that is not over, but ours is. */
static bool give_time(struct local *local, struct local_claim *state, int64_t deadline) {
    const struct slow_claimer *slow_claimer = &state->slow_claimer;
    const struct node *node = &local->table->nodes[slow_claimer->ref - 1];
    int64_t now;

    while (lags(local, slow_claimer) && (now = pawl__boottime()) < slow_claimer->until) {
        if (now >= deadline || atomic_load(&state->unparked))
            return false;
        futex_wait(&node->state, GET(node->state), SLOW_CLAIMER_LOOK); /* who claims wakes nobody */
    }
    return true;
}

/* Nobody is in the way who holds, but one was granted and has not claimed. It is about to, or it is stopped: then it must not keep
 * others out. The wall clock only tells whether it is worth watching; how long, our own does. DONE: decide again. PENDING: not
 * yet. PAWL_EHELD: it is too early to tell. */
static int mind_slow_claimer(struct local *local, struct local_claim *state, const struct peer *peer, int64_t deadline) {
    int64_t age_ms = pawl__local_wall_ms() - peer->granted_ms;
    struct slow_claimer *slow_claimer = &state->slow_claimer;
    struct guard_visit visit;
    struct node *node;
    bool passed;

    if (slow_claimer->ref != peer->ref || slow_claimer->token != peer->token) {
        if (slow_claimer->ref == 0 && age_ms >= 0 && age_ms < CLAIM_WITHIN / MS)
            return PAWL_EHELD;
        *slow_claimer = (struct slow_claimer){peer->ref, peer->token, pawl__boottime() + CLAIM_WITHIN};
    }
    if (!give_time(local, state, deadline))
        return PAWL__PENDING;
    if (!lags(local, slow_claimer))
        return PAWL__DONE;
    if (pawl__local_enter(local, &visit, state->claim->name_hash, deadline, &state->unparked) != PAWL__DONE)
        return PAWL__PENDING;
    node = pawl__local_find_granted(local, &visit, slow_claimer->ref, slow_claimer->token);
    passed = node && pawl__local_pass_over(local, &visit, node);
    pawl__local_leave(local, &visit);
    if (passed)
        pawl__local_note_passed_over(local, slot_of(peer->owner));
    return PAWL__DONE;
}

/* Test those in the way. DONE: decide again; *ret_wait: but not before more time has passed. Negative: refused. */
static int test_obstacles(struct local *local, struct local_claim *state, enum verdict verdict, struct obstacles *obstacles,
                          int64_t deadline, bool *ret_wait, struct pawl_error *reterr) {
    bool any_blocks = verdict != VERDICT_BLOCKED || state->claim->mode != PAWL_PERMITS;
    const struct peer *slow_claimer = NULL, *living = NULL;
    bool dead = false;
    int rc;

    for (unsigned i = 0; i < obstacles->count; i++) {
        const struct peer *peer = &obstacles->peers[i];

        if (pawl__local_dead(local, peer->owner)) {
            dead = true;
            if (!pawl__local_recover(local, peer->owner, deadline))
                return PAWL__DONE;
        } else if (any_blocks && peer->state == NODE_HELD) {
            return refuse(local, state, verdict, slot_of(peer->owner), reterr);
        } else if (peer->state == NODE_GRANTED) {
            slow_claimer = slow_claimer ? slow_claimer : peer;
        }
        living = living ? living : peer;
    }
    if (dead || (obstacles->kept && !slow_claimer) || (obstacles->count == 0 && obstacles->skip > 0)) {
        obstacles->skip = 0;
        return PAWL__DONE;
    }
    rc = slow_claimer ? mind_slow_claimer(local, state, slow_claimer, deadline) : PAWL_EHELD;
    if (rc >= 0) {
        obstacles->skip = 0;
        *ret_wait = rc == PAWL__PENDING;
        return PAWL__DONE;
    }
    if (any_blocks || obstacles->count < PEERS)
        return refuse(local, state, verdict, living ? slot_of(living->owner) : SESSION_COUNT, reterr);
    obstacles->skip += obstacles->count;
    return PAWL__DONE;
}

int pawl__local_link(struct local *local, struct local_claim *state, int64_t deadline, struct pawl_error *reterr) {
    uint32_t hash = state->claim->name_hash;
    struct obstacles obstacles = {0};
    struct guard_visit visit;
    struct position position;
    enum verdict verdict;
    bool wait = false;
    int rc;

    /* A try is decided even if its time is up, but not for ever. */
    for (int rounds = 0;; rounds++) {
        if (pawl__local_enter(local, &visit, hash, deadline, &state->unparked) != PAWL__DONE)
            return PAWL__PENDING;
        position.ticket = 0;
        verdict = pawl__local_enqueue(local, &visit, GET(state->ref), state->claim->try_only);
        if (verdict == VERDICT_WAITING)
            queued(local, &visit, state, &position);
        if (verdict == VERDICT_BLOCKED || verdict == VERDICT_KIND || verdict == VERDICT_LIMIT)
            find_obstacles(local, &visit, node_of(local, state), verdict != VERDICT_BLOCKED, &obstacles);
        pawl__local_leave(local, &visit);
        note_position(local, state, &position);
        switch (verdict) {
        case VERDICT_HELD:
            pawl__local_granted(local, state);
            return PAWL__DONE;
        case VERDICT_WAITING:
            return PAWL__PENDING;
        case VERDICT_DAMAGED:
            put_back(local, state);
            return pawl__local_fail_damaged(local, hash, reterr);
        case VERDICT_TOKENS:
            rc = pawl__local_tokens_extend(local, deadline, reterr);
            if (rc < 0 && rc != PAWL_ETIMEOUT)
                put_back(local, state);
            break;
        default:
            rc = test_obstacles(local, state, verdict, &obstacles, deadline, &wait, reterr);
        }
        if (rc == PAWL_ETIMEOUT || wait || (rc >= 0 && rounds >= 16 && pawl__boottime() >= deadline))
            return PAWL__PENDING;
        if (rc < 0)
            return rc;
    }
}

/* ---- Letting go ---- */

/* Take the claim's node out, inside the guard. DONE or PAWL_ELOST; *ret_free: the node may be used again. */
static int leave(struct local *local, struct guard_visit *visit, const struct local_claim *state, struct node *node,
                 bool *ret_free) {
    uint32_t word = GET(node->state);
    int rc = word & NODE_BROKEN && !state->let_go ? PAWL_ELOST : PAWL__DONE;

    *ret_free = false;
    if (GET(node->owner) != local->owner || GET(local->gone))
        return PAWL_ELOST; /* taken from us as from the dead */
    take_label_off(node, state->claim);
    if (LIKELY(stands(word))) {
        pawl__local_drop(local, visit, GET(state->ref));
        *ret_free = !visit->damaged;
        return rc;
    }
    if (state_of(word) != NODE_REVOKED && state_of(word) != NODE_PASSED_OVER && state_of(word) != NODE_FREE) {
        visit->damaged = true;
        return PAWL_ELOST;
    }
    node_move(node, NODE_LEAVE);
    *ret_free = true;
    return state_of(word) == NODE_REVOKED && !state->let_go ? PAWL_ELOST : rc;
}

static int leave_and_note(struct local *local, struct guard_visit *visit, struct local_claim *state) {
    uint32_t ref = GET(state->ref), hash = state->claim->name_hash;
    struct node *node = &local->table->nodes[ref - 1];
    bool reuse, waited = state_of(GET(node->state)) == NODE_WAITING;
    int rc = leave(local, visit, state, node, &reuse);

    SET(state->ref, 0); /* before another may have the node: see check() */
    reuse = reuse && !pawl__local_put_spare(local, ref, hash);
    pawl__local_leave(local, visit);
    if (reuse)
        pawl__local_node_put(local, ref, hash);
    if (state->keeps)
        atomic_fetch_sub(&local->keeping, 1);
    state->keeps = false;
    pawl__local_step(state, EVENT_GONE);
    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, state->claim, rc < 0 ? "released, and had been broken" : waited ? "gave up" : "released");
    return rc;
}

/* Nobody holds it from now on; till its node is taken out it is in nobody's way. Not so permits, of which one sum is taken. */
void pawl__local_let_go(struct local *local, struct local_claim *state) {
    uint32_t ref = GET(state->ref);
    struct node *node = &local->table->nodes[ref - (ref > 0)];

    if (ref != 0 && state->claim->mode != PAWL_PERMITS && GET(node->owner) == local->owner && !GET(local->gone))
        atomic_store(&state->let_go, node_move(node, NODE_LET_GO));
}

int pawl__local_withdraw(struct local *local, struct local_claim *state) {
    struct guard_visit visit;

    if (GET(state->ref) == 0)
        return PAWL__DONE;
    if (pawl__local_enter_try(local, &visit, state->claim->name_hash))
        return leave_and_note(local, &visit, state);
    pawl__local_let_go(local, state);
    pawl__local_step(state, EVENT_WITHDRAWN);
    return PAWL__PENDING;
}

static int downgrade(struct local *local, struct guard_visit *visit, struct local_claim *state) {
    struct node *node = node_of(local, state);

    if (state_of(GET(node->state)) != NODE_HELD) /* revoked: there is nothing to keep */
        return leave_and_note(local, visit, state) < 0 ? PAWL_ELOST : PAWL__DONE;
    SET(node->mode, PAWL_SHARED);
    pawl__local_regrant(local, visit, node);
    pawl__local_leave(local, visit);
    pawl__local_step(state, EVENT_SHARED);
    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, state->claim, "downgraded");
    return PAWL__DONE;
}

int pawl__local_downgrade(struct local *local, struct local_claim *state) {
    struct guard_visit visit;

    if (pawl__local_enter_try(local, &visit, state->claim->name_hash))
        return downgrade(local, &visit, state);
    pawl__local_step(state, EVENT_DOWNGRADED);
    return PAWL__PENDING;
}

int pawl__local_finish(struct local *local, struct local_claim *state, int64_t deadline, struct pawl_error *reterr) {
    struct guard_visit visit;
    int rc;

    if (GET(state->ref) == 0) {
        pawl__local_step(state, EVENT_GONE);
        return PAWL__DONE;
    }
    if (pawl__local_enter(local, &visit, state->claim->name_hash, deadline, &state->unparked) != PAWL__DONE)
        return PAWL__PENDING;
    if (state->phase == PHASE_DOWNGRADING)
        rc = downgrade(local, &visit, state);
    else
        rc = leave_and_note(local, &visit, state);
    return rc < 0 ? pawl__fail(reterr, rc, "%s was broken", state->claim->name) : rc;
}

int pawl__local_abandon(struct local *local, struct local_claim *state, int64_t deadline, int rc) {
    struct guard_visit visit;

    if (GET(local->gone)) /* nobody is left to mind */
        return rc;
    if (pawl__local_enter(local, &visit, state->claim->name_hash, deadline, NULL) != PAWL__DONE)
        return PAWL__PENDING;
    atomic_store(&node_of(local, state)->channel, 0); /* afterwards it is not ours to say so */
    leave_and_note(local, &visit, state);
    return rc;
}

/* ---- Keeping ---- */

/* May this claim's node stay in the table though nobody holds it? There is room for so many only, and no thread that would end them. */
static COLD bool begin_to_keep(struct local *local, struct local_claim *state) {
    if (GET(state->ref) == 0) /* its downgrade found it revoked, and the core has yet to see that */
        return false;
    if (!state->claim->keep_ns || state->claim->mode == PAWL_PERMITS || GET(local->table->header.block_high) > BLOCK_COUNT / 2)
        return false;
    state->keeps = atomic_fetch_add(&local->keeping, 1) < KEEPS_MAX;
    if (!state->keeps)
        atomic_fetch_sub(&local->keeping, 1);
    return state->keeps;
}

/* Tokens rise all the same. A hold under a kept claim has a token that was taken under the guard while its node stood in the list. Who
 * conflicts with it holds before that claim was granted, and took its token before; or after the claim was withdrawn or its node taken, and
 * then takes its token under the guard, later. So neither rest() nor resume() needs one. */
int pawl__local_rest(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);
    struct node *node;

    if ((!LIKELY(state->keeps) && !begin_to_keep(local, state)) || pawl__local_gone_roughly(local))
        return PAWL_EHELD;
    node = node_of(local, state);
    if (GET(node->owner) != local->owner || !node_move(node, NODE_REST))
        return PAWL_EHELD;
    if (pawl__noting(engine))
        pawl__note(engine, claim, "released, and kept");
    return PAWL__DONE;
}

int pawl__local_resume(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    struct node *node = node_of(local, state_of_claim(claim));
    int64_t now_ms = pawl__local_wall_ms();

    if (pawl__local_gone_cheaply(local, now_ms) || GET(node->owner) != local->owner || !node_move(node, NODE_RESUME))
        return PAWL_EHELD;
    SET(node->since_ms, now_ms);
    if (pawl__noting(engine))
        pawl__note(engine, claim, "holds what it kept");
    return PAWL__DONE;
}

bool pawl__local_is_wanted(const struct pawl__engine *engine, const struct pawl__claim *claim) {
    const struct local_claim *state = (const struct local_claim *)(const void *)(claim + 1);
    uint32_t ref = GET(state->ref); /* 0: it was refused, and the thread that parked has yet to say so */

    return ref && GET(local_of(engine)->table->nodes[ref - 1].state) & NODE_WANTED;
}

/* ---- While it is held ---- */

uint64_t pawl__local_retoken(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);
    struct node *node = node_of(local, state);
    struct guard_visit visit;
    uint64_t token = 0;
    uint32_t word;

    if (!pawl__local_enter_try(local, &visit, claim->name_hash))
        return 0;
    word = GET(node->state);
    if (GET(node->owner) == local->owner && ((word & (NODE_STATE_MASK | NODE_BROKEN)) == NODE_HELD || state_of(word) == NODE_KEPT))
        token = pawl__local_token(local, visit.bucket);
    if (token != 0)
        SET(node->token, token);
    pawl__local_leave(local, &visit);
    return token;
}

int pawl__local_check(const struct pawl__engine *engine, const struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    const struct local_claim *state = (const struct local_claim *)(const void *)(claim + 1);
    uint32_t ref = GET(state->ref), word;

    if (ref == 0)
        return PAWL_ELOST;
    if (pawl__local_gone_roughly(local))
        return PAWL_EGONE;
    word = SEE(local->table->nodes[ref - 1].state);
    if ((word & (NODE_STATE_MASK | NODE_BROKEN)) != NODE_HELD && state_of(word) != NODE_KEPT)
        return PAWL_ELOST;
    /* Else a downgrade found it revoked, and what was read may be another claim's. */
    return GET(state->ref) == ref ? 0 : PAWL_ELOST;
}
