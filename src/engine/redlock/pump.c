/* SPDX-License-Identifier: Apache-2.0
 *
 * pump.c - the two kinds of threads that let answers in: serve() and park().
 *
 * The service thread reads answers only if no caller does and claims that it looks after wait for them, or where they have been due for
 * LATE_NS: so that those which come right after the caller had its quorum wake nobody, and are read with its next request.
 */
#include <poll.h>

#include "engine/redlock/redlock.h"
#include "base/lease.h"
#include "os/bell.h"

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- Voters that come and go ---------------------------------------------------------------------------------------------- */

static void step_all(struct redlock *redlock, struct bid_list *bids, enum bid_event event, unsigned voter) {
    struct bid_input input = {.voter = voter};
    struct bid *bid, *next;

    for (bid = TAILQ_FIRST(bids); bid; bid = next) {
        next = TAILQ_NEXT(bid, all);
        pawl__bid_step(redlock, bid, event, &input);
    }
}

/* Does it answer now? True: it did before, and does not any more. */
static bool look_at(struct redlock *redlock, unsigned i) {
    struct voter *voter = redlock->voters[i];
    bool was_usable = voter->usable;

    pawl__voter_listen(redlock, i, pawl__boottime());
    voter->usable = pawl__voter_usable(redlock, i);
    if (voter->usable && !was_usable) {
        step_all(redlock, &redlock->holding, BID_CAME, i);
        step_all(redlock, &redlock->bids, BID_CAME, i);
    }
    return was_usable && !voter->usable;
}

void pawl__voters_look(struct redlock *redlock) {
    bool went = false;

    for (unsigned i = 0; i < redlock->count; i++)
        went |= look_at(redlock, i);
    if (went)
        step_all(redlock, &redlock->bids, BID_WENT, 0);
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

/* Those that owe an answer since before `then` (bits), and since when the others do; PAWL__NEVER: they don't. */
static int64_t oldest(const struct redlock *redlock, int64_t then, uint32_t *retset) {
    int64_t oldest = PAWL__NEVER;

    *retset = 0;
    for (unsigned i = 0; i < redlock->count; i++) {
        const struct link *link = &redlock->voters[i]->server.commands;
        int64_t since = link->state == LINK_UP && !TAILQ_EMPTY(&link->sent) ? TAILQ_FIRST(&link->sent)->sent_at : PAWL__NEVER;

        if (since < then)
            *retset |= UINT32_C(1) << i;
        else
            oldest = sooner(oldest, since);
    }
    return oldest;
}

/* What the clock asks for. */
static void tick(struct redlock *redlock, int64_t now) {
    struct kit_timers due;
    struct kit_timer *timer;
    struct link *link;

    for (unsigned i = 0; i < redlock->count; i++) {
        for (int j = 0; (link = pawl__server_link(&redlock->voters[i]->server, j)); j++)
            pawl__link_tick(link, now);
        pawl__redlock_events_take(redlock);
        pawl__voter_renew(redlock, redlock->voters[i]);
    }
    pawl__kit_timers_take(&redlock->retries, now, &due);
    TAILQ_FOREACH(timer, &due, due) {
        pawl__vote_send(redlock, (struct vote *)((char *)timer - offsetof(struct vote, timer)));
    }
    pawl__redlock_events_take(redlock);
}

/* What is due, and then what came of it. Returns when the next bid is: it may have been set by what was heard last. */
static int64_t tend(struct redlock *redlock, int64_t now) {
    pawl__bids_tick(redlock, now);
    pawl__redlock_events_take(redlock);
    return pawl__kit_timers_next(&redlock->wire.kit.timers);
}

/* What is to be watched, and until when. */
struct watch {
    struct pollfd fds[2 + 2 * REDLOCK_MAX];
    struct link *links[2 + 2 * REDLOCK_MAX];
    nfds_t count;
};
enum { AT_BELL, AT_TIMER, AT_LINKS };

static int64_t watch_all(const struct redlock *redlock, uint32_t answers, int64_t until, struct watch *ret) {
    struct link *link;

    ret->fds[AT_BELL] = (struct pollfd){.fd = redlock->wire.kit.bell, .events = POLLIN};
    ret->fds[AT_TIMER] = (struct pollfd){.fd = redlock->timer_fd, .events = POLLIN};
    ret->count = AT_LINKS;
    for (unsigned i = 0; i < redlock->count; i++)
        for (int j = 0; (link = pawl__server_link(&redlock->voters[i]->server, j)); j++) {
            bool reads = link->subscriber || answers >> i & 1;

            until = sooner(until, pawl__link_due(link));
            ret->links[ret->count] = link;
            ret->fds[ret->count++] = (struct pollfd){.fd = link->fd, .events = (short)pawl__link_events(link, reads)};
        }
    return sooner(until, pawl__kit_timers_next(&redlock->retries));
}

void pawl__redlock_run(struct redlock *redlock, int64_t until, uint32_t answers) {
    struct kit *kit = &redlock->wire.kit;
    struct watch watch;

    until = watch_all(redlock, answers, until, &watch);
    for (unsigned i = 0; i < redlock->count; i++)
        if (!TAILQ_EMPTY(&redlock->voters[i]->to_renew) && redlock->voters[i]->server.commands.state == LINK_UP)
            until = sooner(until, redlock->voters[i]->renew_at);
    if (!TAILQ_EMPTY(&kit->outbox))
        until = 0;
    kit->asleep_until = until;
    kit->wakes = false; /* we are awake */
    pawl__kit_unlock(kit);
    pawl__sleep(watch.fds, watch.count, until, NULL);
    pawl__kit_lock(kit);
    kit->asleep_until = 0;
    if (watch.fds[AT_BELL].revents)
        bell_silence(kit->bell);
    if (watch.fds[AT_TIMER].revents)
        bell_silence(redlock->timer_fd);
    for (nfds_t i = AT_LINKS; i < watch.count; i++)
        if (watch.fds[i].revents && watch.links[i]->fd == watch.fds[i].fd && watch.fds[i].fd >= 0) {
            pawl__link_progress(watch.links[i]);
            pawl__redlock_events_take(redlock);
        }
    tick(redlock, pawl__boottime());
}

void pawl__redlock_serve(struct pawl__engine *engine, int64_t deadline) {
    struct redlock *redlock = redlock_of(engine);
    int64_t now = pawl__boottime(), due, owed;
    uint32_t late;

    pawl__kit_lock(&redlock->wire.kit);
    pawl__voters_look(redlock);
    due = sooner(deadline, tend(redlock, now));
    owed = oldest(redlock, must_read(redlock) ? PAWL__NEVER : now - LATE_NS, &late);
    due = sooner(due, pawl__time_add(owed, LATE_NS));
    pawl__redlock_run(redlock, due, late);
    pawl__voters_look(redlock);
    tend(redlock, pawl__boottime());
    pawl__kit_tell_all(&redlock->wire.kit);
    pawl__kit_unlock(&redlock->wire.kit);
}

void pawl__redlock_wake(struct pawl__engine *engine) {
    bell_ring(redlock_of(engine)->wire.kit.bell);
}

/* ---- A caller ------------------------------------------------------------------------------------------------------------- */

/* Is the next answer worth looking for? The first one takes as long as the voters do, which may run on our CPUs; the others are close
 * behind it. And who follows has use for the CPU, too. */
static bool is_eager(const struct redlock *redlock, const struct bid *bid) {
    return bid->state != BID_RESTING && bid->answered > 0 && TAILQ_EMPTY(&redlock->reader.followers);
}

/* Sleep until an answer comes, or until time asks for something. `claim` NULL: for a call that is about none. */
static void read_votes(struct kit *kit, struct kit_reader *reader, struct kit_claim *claim, int64_t deadline) {
    struct redlock *redlock = redlock_of(kit->engine);
    int64_t due = sooner(deadline, tend(redlock, pawl__boottime()));
    struct pollfd fds[1 + REDLOCK_MAX] = {{.fd = redlock->read_bell, .events = POLLIN}};
    bool eager;
    int came;

    if (claim && claim->news & KIT_PARKED)
        return;
    eager = claim && is_eager(redlock, (struct bid *)claim);
    for (unsigned i = 0; i < redlock->count; i++) { /* also of one that owes nothing: it may be asked meanwhile */
        const struct link *link = &redlock->voters[i]->server.commands;

        fds[1 + i] = (struct pollfd){.fd = link->state == LINK_UP ? link->fd : -1, .events = POLLIN};
    }
    reader->sleeper = claim;
    /* So that somebody looks at answers that this thread does not wait for. */
    pawl__redlock_due(redlock, pawl__boottime() + LATE_NS);
    pawl__kit_unlock(kit);
    came = pawl__sleep(fds, 1 + redlock->count, due, eager ? &redlock->spin : NULL);
    pawl__kit_lock(kit);
    reader->sleeper = NULL;
    if (came < 0)
        pawl__kit_interrupt(kit, claim);
    if (fds[0].revents)
        bell_silence(redlock->read_bell);
    for (unsigned i = 0; i < redlock->count; i++) {
        struct link *link = &redlock->voters[i]->server.commands;

        if (fds[1 + i].revents && link->fd == fds[1 + i].fd && link->state == LINK_UP)
            pawl__link_read(link);
    }
    pawl__redlock_events_take(redlock);
}

static void wake_reader(struct kit *kit, struct kit_reader *reader) {
    (void)reader;
    pawl__redlock_wake_reader(redlock_of(kit->engine));
}

static void left(struct kit *kit, struct kit_reader *reader) {
    (void)reader;
    kit->wakes |= must_read(redlock_of(kit->engine));
}

static void unlocking(struct kit *kit) {
    pawl__redlock_events_take(redlock_of(kit->engine));
}

const struct kit_ops pawl__redlock_kit = {.unlocking = unlocking, .read = read_votes, .wake_reader = wake_reader, .left = left};

int pawl__redlock_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct kit *kit = &redlock_of(engine)->wire.kit;
    int rc;

    pawl__kit_lock(kit);
    rc = pawl__kit_park(kit, &bid_of(claim)->kit, deadline, reterr);
    pawl__kit_unlock(kit);
    return rc;
}

void pawl__redlock_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct kit *kit = &redlock_of(engine)->wire.kit;

    pawl__kit_lock(kit);
    pawl__kit_unpark(kit, &bid_of(claim)->kit);
    pawl__kit_unlock(kit);
}

void pawl__redlock_adopt(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct kit *kit = &redlock_of(engine)->wire.kit;

    pawl__kit_lock(kit);
    kit->wakes = true;
    pawl__kit_adopt(kit, &bid_of(claim)->kit);
    pawl__kit_unlock(kit);
}
