/* SPDX-License-Identifier: Apache-2.0
 *
 * pump.c - what the voters say becomes events of votes and bids; and the two kinds of threads that let it in: serve() and park().
 *
 * The service thread reads answers only if no caller does and claims that it looks after wait for them, or where they have been due for
 * LATE_NS: so that those which come right after the caller had its quorum wake nobody, and are read with its next request.
 */
#include "engine/redlock/redlock.h"
#include "base/lease.h"

#define LATE_NS (10 * REDLOCK_MS)

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- Voters that come and go ---------------------------------------------------------------------------------------------- */

static void step_all(struct redlock *redlock, struct bid_list *bids, enum bid_event event, unsigned seat) {
    struct bid_input input = {.seat = seat};
    struct bid *bid, *next;

    for (bid = TAILQ_FIRST(bids); bid; bid = next) {
        next = TAILQ_NEXT(bid, all);
        pawl__bid_step(redlock, bid, event, &input);
    }
}

/* Does it answer now? True: it did before, and does not any more. */
static bool look_at(struct redlock *redlock, unsigned i) {
    struct seat *seat = &redlock->seats[i];
    bool was_usable = seat->usable;
    struct pawl__voter_view view;

    pawl__seat_listen(redlock, i, pawl__boottime());
    pawl__voter_look(redlock->crew.members[i], &view);
    seat->tracks = view.tracks;
    seat->usable = pawl__seat_usable(redlock, i);
    if (seat->usable && !was_usable) {
        step_all(redlock, &redlock->holding, BID_CAME, i);
        step_all(redlock, &redlock->bids, BID_CAME, i);
    }
    return was_usable && !seat->usable;
}

void pawl__seats_look(struct redlock *redlock) {
    bool went = false;

    for (unsigned i = 0; i < redlock->crew.count; i++)
        went |= look_at(redlock, i);
    atomic_store(&redlock->base.link, pawl__seats_usable(redlock) >= redlock->quorum ? 0 : PAWL_ECONNLOST);
    if (went)
        step_all(redlock, &redlock->bids, BID_WENT, 0);
}

/* ---- What is said of a vote ----------------------------------------------------------------------------------------------- */

static struct vote *vote_of(struct pawl__claim *claim) {
    return (struct vote *)((char *)claim - offsetof(struct vote, claim));
}

/* Begin an upcall. */
static struct vote *hear(struct redlock *redlock, struct pawl__claim *claim) {
    struct vote *vote = vote_of(claim);

    pawl__kit_lock(&redlock->kit);
    pawl__seat_heard(redlock, vote->seat);
    return vote;
}

/* What the vote makes of it, and then its bid. */
static void step(struct redlock *redlock, struct vote *vote, enum vote_event event, enum bid_event then,
                 const struct pawl_error *why) {
    struct bid_input input = {.vote = vote, .seat = vote->seat, .why = why};
    unsigned means = vote->bid ? pawl__vote_step(vote, event) : 0;

    if (means & VOTE_TAKES) {
        vote->token = vote->claim.token;
        vote->token_count = vote->claim.token_count;
        vote->sent_at = vote->claim.sent_at;
        vote->lease_ns = vote->claim.lease_ns;
    }
    if (means & VOTE_ANSWERS)
        vote->bid->answered++;
    if (means & VOTE_NEWS)
        pawl__bid_step(redlock, vote->bid, then, &input);
}

/* The vote is no more: refused, or back at its voter. */
static void end(struct redlock *redlock, struct vote *vote, enum bid_event event, const struct pawl_error *why) {
    struct bid_input input = {.seat = vote->seat, .why = why};
    struct bid *bid = vote->bid;

    pawl__vote_free(redlock, vote);
    if (bid)
        pawl__bid_step(redlock, bid, event, &input);
}

static void returned(struct redlock *redlock, struct vote *vote) {
    if (pawl__voter_awaited(&vote->claim))
        pawl__bid_yield(redlock, &vote->claim);
    if (vote->bid)
        vote->bid->lost_votes += pawl__voter_was_lost(&vote->claim);
    end(redlock, vote, BID_RETURNED, NULL);
}

void pawl__redlock_tell(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);

    switch (news) {
    case NEWS_GRANTED:
        step(redlock, vote, VOTE_YES, BID_YES, NULL);
        break;
    case NEWS_REFUSED:
        end(redlock, vote, BID_REFUSED, why);
        break;
    case NEWS_GONE:
        returned(redlock, vote);
        break;
    case NEWS_RENEWED:
        step(redlock, vote, VOTE_RENEWED, BID_RENEWED, NULL);
        break;
    case NEWS_LOST:
        step(redlock, vote, VOTE_LOST, pawl__voter_freed(claim) ? BID_FREED : BID_FORGOTTEN, why);
        break;
    case NEWS_BROKEN:
        step(redlock, vote, VOTE_LOST, BID_BROKEN, why);
        break;
    case NEWS_DOWNGRADED: /* nobody asks a voter for it */
        break;
    }
    pawl__kit_unlock(&redlock->kit);
}

void pawl__redlock_waits(void *core, struct pawl__claim *claim, int64_t when) {
    struct redlock *redlock = core;
    struct vote *vote = hear(redlock, claim);

    vote->again_at = when;
    vote->crowd = pawl__voter_crowd(claim);
    step(redlock, vote, VOTE_NO, BID_NO, NULL);
    pawl__kit_unlock(&redlock->kit);
}

/* ---- The service thread --------------------------------------------------------------------------------------------------- */

/* Does a claim that this thread looks after wait for answers that nobody else reads? */
static bool must_read(const struct redlock *redlock) {
    const struct bid *bid;

    if (redlock->reader.taken)
        return false;
    TAILQ_FOREACH(bid, &redlock->bids, all) {
        if (bid->kit.adopted && bid->state != BID_RESTING && bid->state != BID_QUEUED)
            return true;
    }
    return false;
}

void pawl__redlock_serve(struct pawl__engine *engine, int64_t deadline) {
    struct redlock *redlock = redlock_of(engine);
    int64_t now = pawl__boottime(), due, owed;
    uint32_t late;

    pawl__kit_lock(&redlock->kit);
    pawl__seats_look(redlock);
    due = sooner(deadline, pawl__bids_tick(redlock, now));
    owed = pawl__crew_oldest(&redlock->crew, must_read(redlock) ? PAWL__NEVER : now - LATE_NS, &late);
    due = sooner(due, pawl__time_add(owed, LATE_NS));
    if (!TAILQ_EMPTY(&redlock->kit.outbox))
        due = 0;
    redlock->kit.asleep_until = due;
    redlock->kit.wakes = false; /* we are awake */
    pawl__kit_unlock(&redlock->kit);
    pawl__crew_serve(&redlock->crew, due, late);
    pawl__kit_lock(&redlock->kit);
    redlock->kit.asleep_until = 0;
    pawl__seats_look(redlock);
    pawl__bids_tick(redlock, pawl__boottime());
    pawl__kit_tell_all(&redlock->kit);
    pawl__kit_unlock(&redlock->kit);
}

void pawl__redlock_wake(struct pawl__engine *engine) {
    pawl__crew_wake(&redlock_of(engine)->crew);
}

/* ---- A caller ------------------------------------------------------------------------------------------------------------- */

/* Is the next answer worth looking for? The first one takes as long as the voters do, which may run on our CPUs; the others are close
 * behind it. And who follows has use for the CPU, too. */
static bool is_eager(const struct redlock *redlock, const struct bid *bid) {
    return bid->state != BID_RESTING && bid->answered > 0 && TAILQ_EMPTY(&redlock->reader.followers);
}

/* Sleep until an answer comes, or until time asks for something. */
static void read_votes(struct kit *kit, struct kit_reader *reader, struct kit_claim *claim, int64_t deadline) {
    struct redlock *redlock = redlock_of(kit->engine);
    int64_t due = sooner(deadline, pawl__bids_tick(redlock, pawl__boottime()));
    bool eager;

    if (claim->news & KIT_PARKED)
        return;
    eager = is_eager(redlock, (struct bid *)claim);
    reader->sleeper = claim;
    redlock->reading = pthread_self();
    /* So that somebody looks at answers that this thread does not wait for. */
    pawl__redlock_due(redlock, pawl__boottime() + LATE_NS);
    pawl__kit_unlock(kit);
    pawl__crew_lead(&redlock->crew, due, eager);
    pawl__kit_lock(kit);
    reader->sleeper = NULL;
}

/* It works on what it reads, and may be at that. */
static void wake_reader(struct kit *kit, struct kit_reader *reader) {
    struct redlock *redlock = redlock_of(kit->engine);

    (void)reader;
    if (!pthread_equal(redlock->reading, pthread_self()))
        pawl__crew_rouse(&redlock->crew);
}

static void left(struct kit *kit, struct kit_reader *reader) {
    (void)reader;
    kit->wakes |= must_read(redlock_of(kit->engine));
}

const struct kit_ops pawl__redlock_kit = {.read = read_votes, .wake_reader = wake_reader, .left = left};

int pawl__redlock_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct kit *kit = &redlock_of(engine)->kit;
    int rc;

    pawl__kit_lock(kit);
    rc = pawl__kit_park(kit, &bid_of(claim)->kit, deadline, reterr);
    pawl__kit_unlock(kit);
    return rc;
}

void pawl__redlock_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct kit *kit = &redlock_of(engine)->kit;

    pawl__kit_lock(kit);
    pawl__kit_unpark(kit, &bid_of(claim)->kit);
    pawl__kit_unlock(kit);
}

void pawl__redlock_adopt(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct kit *kit = &redlock_of(engine)->kit;

    pawl__kit_lock(kit);
    kit->wakes = true;
    pawl__kit_adopt(kit, &bid_of(claim)->kit);
    pawl__kit_unlock(kit);
}
