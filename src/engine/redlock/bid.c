/* SPDX-License-Identifier: Apache-2.0
 *
 * bid.c - attempts: all voters are asked at once, and their votes counted as they come. redlock.h draws the states.
 *
 * An attempt ends with the first vote that decides it: a quorum is there, or can't be reached any more. When a quorum of voters has
 * answered and it is still open, the others get as long as those took, a few times over, and count as silent after that: so a machine that
 * is slow as a whole is waited for, and a voter that alone is slow is not.
 *
 * After an attempt that failed every vote is taken back, those too that silent voters may have given; one that comes late is taken back
 * when it comes. Voters that said no keep us on their list of those that wait. The end of a hold is told to the one that waits longest, the
 * same at all voters (lua/release.lua). Who waits alone also hears of every change of the key, for holders that are not pawl's tell
 * nobody. When so many voters have said so that a quorum may be free, the next attempt begins. Were all told that wait, they would take
 * each other's votes, the more the more they are. Bids that did wait a random while first, twice as long each time.
 *
 * Who lets go of a lock that others wait for, and wants it again at once, lines up behind them: it would always be ahead of them
 * otherwise, by the way that the news of its release has to go.
 *
 * Of the bids of one client for one name only the oldest tries (it is the head); those behind it are QUEUED and ask nobody, since they
 * would only take votes from each other. The next becomes the head when this one is granted, refused or withdrawn: then it waits like
 * those of other clients, and has no better chance than they.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"
#include "base/lease.h"
#include "engine/kit/retry.h"

#define STRAGGLERS_NS (20 * REDLOCK_MS)
#define SPLIT_NS REDLOCK_MS
#define YIELD_NS REDLOCK_MS
#define REST_PER_OTHER_NS (100 * REDLOCK_MS)
#define APART_NS (5 * REDLOCK_MS)
enum { STRAGGLERS_TIMES = 3, SPLITS_MAX = 8, OTHERS_MAX = 10, SINCE_MOST_MS = 1000 };

static int64_t between(struct redlock *redlock, int64_t low, int64_t high) {
    return kit_between(&redlock->wire.kit.random, low, high);
}

static void set_timer(struct redlock *redlock, struct bid *bid, int64_t when) {
    pawl__kit_timer_set(&redlock->wire.kit.timers, &bid->timer, when, true);
    pawl__redlock_due(redlock, when);
}

/* ---- The queue of this client ----------------------------------------------------------------------------------------------- */

static bool wants(const struct bid *bid) {
    return bid->state == BID_QUEUED || bid->state == BID_ASKING || bid->state == BID_RAISING || bid->state == BID_RESTING;
}

/* The oldest bid that waits for the name. A try is nobody's head: it does not wait. */
static struct bid *head_of(const struct redlock *redlock, const struct pawl__claim *claim) {
    struct bid *bid;

    TAILQ_FOREACH(bid, &redlock->bids, all) {
        if (bid->kit.claim->name_hash == claim->name_hash && wants(bid) && !bid->kit.claim->try_only &&
            strcmp(bid->kit.claim->name, claim->name) == 0)
            return bid;
    }
    return NULL;
}

/* This bid does not wait any more: the next of its name does. */
static void make_way(struct redlock *redlock, const struct bid *bid) {
    struct bid *head = head_of(redlock, bid->kit.claim);

    if (head)
        pawl__bid_step(redlock, head, BID_FIRST, NULL);
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static void over(struct redlock *redlock, struct bid *bid, unsigned tell) {
    pawl__votes_detach(bid);
    TAILQ_REMOVE(&redlock->bids, bid, all);
    pawl__kit_timer_end(&redlock->wire.kit.timers, &bid->timer);
    make_way(redlock, bid);
    pawl__kit_untell(&redlock->wire.kit, &bid->kit);
    pawl__kit_tell(&redlock->wire.kit, &bid->kit, tell);
}

static void end(struct redlock *redlock, struct bid *bid) {
    bid->kit.was_lost = bid->granted_votes && bid->granted_votes - bid->lost_votes < redlock->quorum;
    over(redlock, bid, KIT_GONE);
}

static void say_why(const struct redlock *redlock, struct bid *bid) {
    if (bid->errors > redlock->count - redlock->quorum)
        return; /* what the last of these voters said */
    if (bid->answered < redlock->quorum)
        pawl__fail(&bid->kit.why, PAWL_ECONNLOST, "%u of the %u servers of %.200s answered, and %u are needed", bid->answered,
                   redlock->count, redlock->wire.url, redlock->quorum);
    else
        pawl__fail(&bid->kit.why, PAWL_EHELD, "'%s' is held by another, or others want it at this moment", bid->kit.claim->name);
}

/* The next bid can start once a quorum has none of our votes any more. */
static void look_whether_free(struct redlock *redlock, struct bid *bid) {
    unsigned left = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        left += bid->votes[i] != NULL;
    if (!left || redlock->count - left >= redlock->quorum)
        pawl__bid_step(redlock, bid, BID_FREE, NULL);
}

/* ---- Between attempts ----------------------------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The voter owes an answer to what it was asked, or to what was taken back: it can't be asked, and its answer changes the plan. */
static bool is_open(const struct vote *vote) {
    return vote && (vote->state == VOTE_ASKED || vote->state == VOTE_RETURNING || vote->state == VOTE_LEAVING);
}

/* When a quorum of voters may be free, as far as they have said. */
static int64_t quorum_free_at(const struct redlock *redlock, const struct bid *bid) {
    int64_t times[REDLOCK_MAX];

    for (unsigned i = 0; i < redlock->count; i++) {
        const struct vote *vote = bid->votes[i];

        if (!pawl__voter_usable(redlock, i) || is_open(vote))
            times[i] = PAWL__NEVER;
        else
            times[i] = vote && vote->state == VOTE_WAITS ? vote->again_at : 0;
    }
    qsort(times, redlock->count, sizeof times[0], compare_times);
    return times[redlock->quorum - 1];
}

static bool quorum_tracks(const struct redlock *redlock) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        count += redlock->voters[i]->tracks;
    return count >= redlock->quorum;
}

/* How many others wait, as the voter says where that are fewest. */
static unsigned fewest_others(const struct redlock *redlock, const struct bid *bid) {
    unsigned others = UINT_MAX;

    for (unsigned i = 0; i < redlock->count; i++) {
        const struct vote *vote = bid->votes[i];

        if (vote && vote->state == VOTE_WAITS && vote->others_waiting < others)
            others = vote->others_waiting;
    }
    return others == UINT_MAX ? 0 : others;
}

/* How long it rests if it hears nothing. Who waits alone hears of all changes, if it asks once more: that is then tracked. Of many, each is
 * told when it is its turn; and they ask the less often the more they are. */
static int64_t rest(struct redlock *redlock, const struct bid *bid, int64_t others) {
    if (others)
        return between(redlock, others * REST_PER_OTHER_NS, others * REST_PER_OTHER_NS * 3 / 2);
    if (bid->attempts == 1)
        return between(redlock, 0, REDLOCK_MS);
    if (quorum_tracks(redlock))
        return between(redlock, 1000 * REDLOCK_MS, 1500 * REDLOCK_MS);
    return between(redlock, 50 * REDLOCK_MS, 150 * REDLOCK_MS);
}

static void plan(struct redlock *redlock, struct bid *bid) {
    unsigned others = fewest_others(redlock, bid);
    int64_t now = pawl__boottime(), when = quorum_free_at(redlock, bid), latest;

    others = others < OTHERS_MAX ? others : OTHERS_MAX;
    /* Of those that took each other's votes one must go on. */
    latest = bid->splits ? bid->not_before : now + rest(redlock, bid, others);
    if (when > now && when < latest) /* a holder's time ends, and nobody is told */
        when += between(redlock, 0, others * APART_NS);
    when = when < bid->not_before ? bid->not_before : when;
    set_timer(redlock, bid, when < latest ? when : latest);
}

/* What need not be taken back: a no, and what will be one in a moment, or else is taken back then. */
static bool stays(const struct redlock *redlock, const struct vote *vote) {
    return vote->state == VOTE_WAITS || (vote->state == VOTE_ASKED && pawl__voter_usable(redlock, vote->voter));
}

/* Returns how many it had. */
static unsigned give_back(struct redlock *redlock, struct bid *bid, bool all) {
    unsigned had = 0;

    for (unsigned i = 0; i < redlock->count; i++) {
        struct vote *vote = bid->votes[i];

        had += vote && vote->state == VOTE_GRANTED;
        if (vote && (all || !stays(redlock, vote)))
            pawl__vote_return(redlock, vote);
    }
    pawl__kit_note(&redlock->wire.kit, &bid->kit, "%u votes of %u, %u needed: taken back", had, redlock->count, redlock->quorum);
    return had;
}

static void refuse(struct redlock *redlock, struct bid *bid) {
    give_back(redlock, bid, true);
    say_why(redlock, bid);
    over(redlock, bid, KIT_REFUSED);
}

static void rest_a_while(struct redlock *redlock, struct bid *bid) {
    bool split = give_back(redlock, bid, false) > 0;

    bid->splits = split ? bid->splits + (bid->splits < SPLITS_MAX) : 0;
    bid->not_before = pawl__boottime() + between(redlock, 0, SPLIT_NS << bid->splits);
    plan(redlock, bid);
}

static void fail_attempt(struct redlock *redlock, struct bid *bid) {
    bool hopeless = bid->kit.claim->try_only || bid->errors > redlock->count - redlock->quorum;

    pawl__bid_step(redlock, bid, hopeless ? BID_HOPELESS : BID_IMPOSSIBLE, NULL);
}

/* Names may share a place here: then one of them waits for a moment longer, or for one less. */
static int64_t *yield_until(struct redlock *redlock, uint32_t name_hash) {
    return &redlock->yield_until[name_hash % YIELD_NAMES];
}

void pawl__bid_yield(struct redlock *redlock, uint32_t name_hash) {
    *yield_until(redlock, name_hash) = pawl__boottime() + YIELD_NS + 2 * redlock->attempt_ns;
}

/* ---- Attempts ------------------------------------------------------------------------------------------------------------- */

static void hold(struct redlock *redlock, struct bid *bid) {
    pawl__kit_note(&redlock->wire.kit, &bid->kit, "held by %u votes of %u", pawl__votes_count(redlock, bid, pawl__boottime()),
                   redlock->count);
    TAILQ_REMOVE(&redlock->bids, bid, all);
    TAILQ_INSERT_TAIL(&redlock->holding, bid, all);
    bid->timer.at = PAWL__NEVER;
    make_way(redlock, bid);
    pawl__kit_tell(&redlock->wire.kit, &bid->kit, KIT_GRANTED);
    bid->began_at = pawl__boottime();
    pawl__bid_recount(redlock, bid);
    bid->held_since = bid->kit.grant.sent_at;
    redlock->attempt_ns = pawl__boottime() - bid->started_at;
    for (unsigned i = 0; i < redlock->count; i++)
        if (bid->votes[i] && bid->votes[i]->state == VOTE_WAITS)
            pawl__vote_return(redlock, bid->votes[i]);
}

static unsigned count_pending(const struct redlock *redlock, const struct bid *bid) {
    unsigned count = 0;

    for (unsigned i = 0; i < redlock->count; i++)
        count += bid->votes[i] && bid->votes[i]->state == VOTE_ASKED && pawl__voter_usable(redlock, i);
    return count;
}

/* A quorum has answered, and it is still open. */
static void hurry(struct redlock *redlock, struct bid *bid, int64_t now) {
    int64_t more = (now - bid->started_at) * STRAGGLERS_TIMES;

    more = now + (more < STRAGGLERS_NS ? STRAGGLERS_NS : more);
    if (bid->state == BID_ASKING && bid->answered >= redlock->quorum && more < bid->timer.at)
        set_timer(redlock, bid, more);
}

/* A quorum of votes: which token is it to be? From here on nobody is hurried any more. */
static void choose_token(struct redlock *redlock, struct bid *bid, int64_t now) {
    bid->kit.grant.token = pawl__token_choose(redlock, bid, now);
    set_timer(redlock, bid, bid->started_at + redlock->wire.options.lease_ns / 2);
}

static void judge(struct redlock *redlock, struct bid *bid) {
    int64_t now = pawl__boottime();
    unsigned count = pawl__votes_count(redlock, bid, now);

    if (count + count_pending(redlock, bid) < redlock->quorum) {
        fail_attempt(redlock, bid);
        return;
    }
    if (count >= redlock->quorum)
        pawl__bid_step(redlock, bid, BID_QUORUM, &(struct bid_input){.now = now});
    if (bid->state == BID_RAISING)
        pawl__token_raise(redlock, bid);
    if (bid->state == BID_RAISING && pawl__token_written(redlock, bid, now) >= redlock->quorum)
        pawl__bid_step(redlock, bid, BID_WRITTEN, NULL);
    else
        hurry(redlock, bid, now);
}

static void attempt(struct redlock *redlock, struct bid *bid, int64_t now) {
    uint64_t floor = pawl__token_floor(redlock);

    pawl__voters_listen(redlock, now);
    bid->started_at = now;
    bid->attempts++;
    bid->answered = bid->errors = 0;
    bid->owner = ++redlock->next_id;
    bid->kit.grant.token_count = atomic_load(&bid->kit.claim->token_want);
    bid->kit.grant.token_count = bid->kit.grant.token_count ? bid->kit.grant.token_count : 1;
    set_timer(redlock, bid, now + redlock->wire.options.lease_ns / 2); /* what would be granted later is not worth having */
    for (unsigned i = 0; i < redlock->count; i++)
        pawl__vote_ask(redlock, bid, i, floor, bid->kit.claim->try_only);
    judge(redlock, bid);
}

/* Those that have not answered are silent, or slow: it is decided without them. */
static void give_up(struct redlock *redlock, struct bid *bid, int64_t now) {
    for (unsigned i = 0; i < redlock->count; i++)
        if (bid->votes[i] && bid->votes[i]->state == VOTE_ASKED && pawl__voter_owes(redlock, i, now))
            pawl__voter_silent(redlock, i);
    fail_attempt(redlock, bid);
}

/* An answer that will not change by asking again ends it, once there are too many of them. */
static void tally(struct bid *bid, const struct pawl_error *why) {
    bid->answered += why->code != PAWL_ECONNLOST;
    if (why->code == PAWL_EHELD || why->code == PAWL_ECONNLOST)
        return;
    bid->errors++;
    bid->kit.why = *why;
}

/* ---- The end of a hold ---------------------------------------------------------------------------------------------------- */

static void pass_on(struct redlock *redlock, struct bid *bid) {
    TAILQ_REMOVE(&redlock->holding, bid, all);
    TAILQ_INSERT_TAIL(&redlock->bids, bid, all);
    for (unsigned i = 0; i < redlock->count; i++)
        if (bid->votes[i]) {
            bid->granted_votes += bid->votes[i]->state == VOTE_GRANTED || bid->votes[i]->state == VOTE_OVER;
            bid->votes[i]->passes_on = true;
        }
}

static void leave(struct redlock *redlock, struct bid *bid) {
    bid->lost_votes = 0;
    make_way(redlock, bid);
    for (unsigned i = 0; i < redlock->count; i++)
        if (bid->votes[i])
            pawl__vote_return(redlock, bid->votes[i]);
    set_timer(redlock, bid, pawl__boottime() + redlock->wire.options.lease_ns);
    look_whether_free(redlock, bid);
}

static void forget(struct redlock *redlock, const struct bid *bid, struct vote *vote) {
    pawl__kit_note(&redlock->wire.kit, &bid->kit, "%s has forgotten it", redlock->voters[vote->voter]->where);
    pawl__vote_return(redlock, vote);
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

/* While votes are counted: both states of it are alike but for what the quorum brings. */
#define COUNTING(state)                                                                                                            \
    [BID_TIMER] = {state, BID_GIVE_UP}, [BID_WENT] = {state, BID_JUDGE}, [BID_YES] = {state, BID_JUDGE},                           \
    [BID_NO] = {state, BID_JUDGE}, [BID_RENEWED] = {state, BID_JUDGE}, [BID_FORGOTTEN] = {state, BID_FORGET | BID_JUDGE},          \
    [BID_FREED] = {state, BID_FORGET | BID_JUDGE}, [BID_BROKEN] = {state, BID_RETURN | BID_JUDGE},                                 \
    [BID_REFUSED] = {state, BID_TALLY | BID_JUDGE}, [BID_IMPOSSIBLE] = {BID_RESTING, BID_PAUSE},                                   \
    [BID_HOPELESS] = {BID_NONE, BID_REFUSE}, [BID_WITHDRAW] = {BID_LEAVING, BID_LEAVE}

/* What is not here is ignored. */
static const struct bid_move moves[BID_STATES][BID_EVENTS] = {
    [BID_NONE] = {[BID_SUBMIT] = {BID_QUEUED, 0}, [BID_WITHDRAW] = {BID_NONE, BID_SAY_GONE}},
    [BID_QUEUED] = {[BID_BEGIN] = {BID_ASKING, BID_ATTEMPT},
                    /* From the timer: the caller may be at work on a bid of its own. */
                    [BID_FIRST] = {BID_RESTING, BID_SOON},
                    [BID_WITHDRAW] = {BID_LEAVING, BID_LEAVE}},
    [BID_ASKING] = {COUNTING(BID_ASKING), [BID_QUORUM] = {BID_RAISING, BID_CHOOSE}},
    [BID_RAISING] = {COUNTING(BID_RAISING), [BID_WRITTEN] = {BID_HOLDING, BID_HOLD}},
    [BID_RESTING] = {[BID_TIMER] = {BID_ASKING, BID_ATTEMPT},
                     [BID_CAME] = {BID_RESTING, BID_PLAN},
                     [BID_YES] = {BID_RESTING, BID_RETURN}, /* too late: the attempt has failed */
                     [BID_NO] = {BID_RESTING, BID_PLAN},
                     [BID_FORGOTTEN] = {BID_RESTING, BID_FORGET},
                     [BID_FREED] = {BID_RESTING, BID_FORGET},
                     [BID_BROKEN] = {BID_RESTING, BID_RETURN},
                     [BID_RETURNED] = {BID_RESTING, BID_PLAN},
                     [BID_WITHDRAW] = {BID_LEAVING, BID_LEAVE}},
    [BID_HOLDING] = {[BID_CAME] = {BID_HOLDING, BID_TOP_UP},
                     [BID_YES] = {BID_HOLDING, BID_COUNT},
                     [BID_NO] = {BID_HOLDING, BID_RETURN}, /* a holder does not wait; once that is through, it asks anew */
                     [BID_RENEWED] = {BID_HOLDING, BID_COUNT},
                     [BID_FORGOTTEN] = {BID_HOLDING, BID_FORGET | BID_COUNT},
                     [BID_FREED] = {BID_HOLDING, BID_LOSE},
                     [BID_BROKEN] = {BID_HOLDING, BID_BREAK},
                     [BID_RETURNED] = {BID_HOLDING, BID_TOP_UP},
                     [BID_WITHDRAW] = {BID_LEAVING, BID_PASS_ON | BID_LEAVE}},
    [BID_LEAVING] = {[BID_TIMER] = {BID_NONE, BID_END}, /* what the voters still have of it has expired */
                     [BID_REFUSED] = {BID_LEAVING, BID_LOOK},
                     [BID_RETURNED] = {BID_LEAVING, BID_LOOK},
                     [BID_FREE] = {BID_NONE, BID_END}},
};

struct bid_move pawl__bid_move(enum bid_state state, enum bid_event event) {
    struct bid_move move = moves[state][event];

    return move.next || move.actions ? move : (struct bid_move){(uint8_t)state, 0};
}

/* What is done about votes, or about the attempt. */
static void act(struct redlock *redlock, struct bid *bid, uint32_t actions, const struct bid_input *input) {
    if (actions & BID_FORGET)
        forget(redlock, bid, input->vote);
    if (actions & BID_RETURN)
        pawl__vote_return(redlock, input->vote);
    if (actions & BID_TALLY)
        tally(bid, input->why);
    if (actions & BID_JUDGE)
        judge(redlock, bid);
    if (actions & BID_COUNT)
        pawl__bid_recount(redlock, bid);
    if (actions & BID_PLAN)
        plan(redlock, bid);
    if (actions & BID_ATTEMPT)
        attempt(redlock, bid, input->now);
    if (actions & BID_GIVE_UP)
        give_up(redlock, bid, input->now);
    if (actions & BID_PAUSE)
        rest_a_while(redlock, bid);
    if (actions & BID_CHOOSE)
        choose_token(redlock, bid, input->now);
    if (actions & BID_TOP_UP)
        pawl__bid_top_up(redlock, bid, input->voter);
    if (actions & BID_SOON)
        set_timer(redlock, bid, pawl__boottime());
}

/* What begins or ends a hold, or the bid. */
static void conclude(struct redlock *redlock, struct bid *bid, uint32_t actions, const struct bid_input *input) {
    if (actions & BID_HOLD)
        hold(redlock, bid);
    if (actions & (BID_LOSE | BID_BREAK))
        pawl__bid_lose(redlock, bid, actions & BID_BREAK ? KIT_BROKEN : KIT_LOST, input->why);
    if (actions & BID_PASS_ON)
        pass_on(redlock, bid);
    if (actions & BID_LEAVE)
        leave(redlock, bid);
    if (actions & BID_LOOK)
        look_whether_free(redlock, bid);
    if (actions & BID_REFUSE)
        refuse(redlock, bid);
    if (actions & BID_END)
        end(redlock, bid);
    if (actions & BID_SAY_GONE && bid->kit.telling != KIT_LAST)
        pawl__kit_tell(&redlock->wire.kit, &bid->kit, KIT_GONE);
}

enum { CONCLUDES = BID_HOLD | BID_LOSE | BID_BREAK | BID_PASS_ON | BID_LEAVE | BID_LOOK | BID_REFUSE | BID_END | BID_SAY_GONE };

void pawl__bid_step(struct redlock *redlock, struct bid *bid, enum bid_event event, const struct bid_input *input) {
    struct bid_move move = pawl__bid_move(bid->state, event);

    bid->state = move.next;
    if (move.actions & CONCLUDES)
        conclude(redlock, bid, move.actions, input);
    else
        act(redlock, bid, move.actions, input);
}

void pawl__bids_tick(struct redlock *redlock, int64_t now) {
    struct kit_timers due;
    struct kit_timer *timer;

    pawl__kit_timers_take(&redlock->wire.kit.timers, now, &due);
    TAILQ_FOREACH(timer, &due, due) {
        struct bid *bid = (struct bid *)((char *)timer - offsetof(struct bid, timer));

        if (timer->at == PAWL__NEVER) /* else one of the others has set it anew */
            pawl__bid_step(redlock, bid, BID_TIMER, &(struct bid_input){.now = now});
    }
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

/* Since when it wants the lock. Two bids that wait have not the same, or an operator would see one. But those of a client that makes more
 * than one in a millisecond, or whose clock was set back, must stay near the time: who waits longest has the next turn. */
static int64_t new_since(struct redlock *redlock) {
    int64_t ms = pawl__wall_us() / 1000, next = redlock->last_since_ms + 1;

    redlock->last_since_ms = next > ms && next <= ms + SINCE_MOST_MS ? next : ms;
    return redlock->last_since_ms;
}

/* The first attempt: if we owe others the precedence, behind them. */
static void begin(struct redlock *redlock, struct bid *bid) {
    int64_t now = pawl__boottime();

    bid->behind_others = now < *yield_until(redlock, bid->kit.claim->name_hash);
    pawl__bid_step(redlock, bid, BID_BEGIN, &(struct bid_input){.now = now});
}

int pawl__redlock_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    if (claim->kind != PAWL_MUTEX)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED,
                          "'%s' is not a mutex, and over several servers there are only those: use one server for it (redis:)",
                          claim->name);
    pawl__kit_lock(&redlock->wire.kit);
    bid->kit.claim = claim;
    bid->kit.reader = &redlock->reader;
    bid->since_ms = new_since(redlock);
    pawl__kit_timer_init(&bid->timer);
    pawl__bid_step(redlock, bid, BID_SUBMIT, NULL);
    TAILQ_INSERT_TAIL(&redlock->bids, bid, all);
    if (claim->try_only || head_of(redlock, claim) == bid)
        begin(redlock, bid);
    pawl__kit_unlock(&redlock->wire.kit);
    return PAWL__PENDING;
}

int pawl__redlock_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct redlock *redlock = redlock_of(engine);
    struct bid *bid = bid_of(claim);

    pawl__kit_lock(&redlock->wire.kit);
    bid->kit.news &= ~(unsigned)KIT_GRANTED;
    pawl__bid_step(redlock, bid, BID_WITHDRAW, NULL);
    pawl__kit_unlock(&redlock->wire.kit);
    return PAWL__PENDING;
}

/* There are no shared holds here. */
int pawl__redlock_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine;
    (void)claim;
    return PAWL_EUNSUPPORTED;
}

int pawl__redlock_why(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *ret) {
    struct redlock *redlock = redlock_of(engine);
    unsigned usable;

    (void)claim;
    pawl__kit_lock(&redlock->wire.kit);
    usable = pawl__voters_usable(redlock);
    pawl__kit_unlock(&redlock->wire.kit);
    if (usable >= redlock->quorum)
        return 0;
    return pawl__fail(ret, PAWL_ECONNLOST, "%u of %u servers can be reached, %u are needed; check that they are running", usable,
                      redlock->count, redlock->quorum);
}
