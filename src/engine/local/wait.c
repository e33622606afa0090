/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting in the calling thread: park and unpark.
 *
 * First a nap of 2 ms on the node's own futex: most hand-offs come within it, and cost one context switch. Who waits longer is woken
 * through a channel, and meanwhile watches, by poll(), the sessions whose death concerns it:
 *
 *     the first that waits     every holder
 *     the second               the first, and every holder: the first may be stopped when a holder dies
 *     everybody else           who stands directly before it: so that a death wakes one, not all
 *
 * WATCHES_MAX of them at most; holders beyond that are tested at each look.
 *
 * Watching the predecessor alone would lose deaths, for instance of the unwatched one of two holders of a semaphore. So a waiter that
 * becomes first without watching every holder is poked (list.c), who stood behind one that gave up is poked, and everybody looks for
 * itself every second or so: tests the holders, takes the guard from the dead, grants what is due.
 *
 * A waiter that was granted and does not claim within 100 ms of being seen is stopped, or might as well be: it is passed over, that is,
 * taken out of the list, and queues again at the end when it wakes. Those who only try do the same (claim.c).
 *
 * Nothing sleeps on a condition that changed before it slept: state and channel of the node, and `unparked` and the channel of the
 * claim, are each written in one order and read in the other.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "base/error.h"
#include "os/futex.h"
#include "os/sleep.h"
#include "os/uncancelled.h"

#define NAP (2 * MS)
#define TICK (1000 * MS)
#define TICK_PER_PLACE (8 * MS)
#define TICK_BLIND (50 * MS) /* without descriptors there is nothing to poll */

void pawl__local_wait_init(struct wait *wait) {
    *wait = (struct wait){.room = WATCHES_MAX};
    wait->owners = wait->few;
}

void pawl__local_wait_finish(struct wait *wait) {
    for (unsigned i = 0; i < wait->watches.count; i++)
        close(wait->watches.all[i].fd);
    wait->watches.count = 0;
    if (wait->owners != wait->few)
        free(wait->owners);
    wait->owners = wait->few;
}

/* ---- The queue, as one waiter sees it ---- */

struct view {
    enum node_watching watching;
    uint64_t distance;         /* how many tickets behind the first that waits */
    uint64_t previous;         /* owner of what stands directly before it; 0: nobody else's */
    size_t count;              /* of holders; more than wait->room: not all of them were written down */
    struct node *slow_claimer; /* was granted and has not claimed */
};

/* Our own session is left out: nobody waits for their own death. Most that hold twice stand side by side; the others are sorted out
 * later, outside of the guard. */
static void view_add(struct local *local, struct view *view, struct wait *wait, uint64_t owner) {
    if (owner == local->owner || (view->count > 0 && view->count <= wait->room && wait->owners[view->count - 1] == owner))
        return;
    if (view->count < wait->room)
        wait->owners[view->count] = owner;
    view->count++;
}

/* Who is in the way of this node, under the guard. */
static void survey_queue(struct local *local, struct guard_visit *visit, struct node *node, struct wait *wait, struct view *view) {
    struct node *first = NULL, *previous;
    uint32_t steps = 0;

    FOR_NODES(other, local, visit, &steps) {
        uint32_t word = GET(other->state);

        if (!pawl__local_same_name(other, node))
            continue;
        if (state_of(word) == NODE_KEPT) /* in nobody's way */
            continue;
        if (!holds(word)) {
            first = other;
            break;
        }
        if (state_of(word) == NODE_GRANTED && other != node && !view->slow_claimer)
            view->slow_claimer = other;
        view_add(local, view, wait, GET(other->owner));
    }
    steps = 0;
    previous = pawl__local_before(local, visit, node, node, &steps);
    if (visit->damaged)
        return;
    view->distance = first && GET(node->ticket) > GET(first->ticket) ? GET(node->ticket) - GET(first->ticket) : 0;
    SET(node->watched, previous ? (uint32_t)GET(previous->owner) : 0);
    view->watching = first == node || previous == first ? WATCHING_ALL : WATCHING_PREDECESSOR;
    if (previous && GET(previous->owner) != local->owner)
        view->previous = GET(previous->owner);
    SET(node->watching, view->watching);
}

/* Room to write down so many; false: there is no memory, and it stays as it is. */
static bool make_room(struct wait *wait, size_t count) {
    size_t room = count + count / 4;
    uint64_t *owners = malloc(room * sizeof *owners);

    if (!owners)
        return false;
    if (wait->owners != wait->few)
        free(wait->owners);
    wait->owners = owners;
    wait->room = room;
    return true;
}

/* Returns slot + 1 of the session that was passed over; 0: none was. */
static uint32_t mind_slow_claimer(struct local *local, struct guard_visit *visit, struct node *slow_claimer, struct wait *wait) {
    int64_t now = pawl__boottime();
    uint32_t ref = slow_claimer ? pawl__local_ref(local, slow_claimer) : 0;

    if (!slow_claimer) {
        wait->slow_claimer.ref = 0;
    } else if (wait->slow_claimer.ref != ref || wait->slow_claimer.token != GET(slow_claimer->token)) {
        wait->slow_claimer = (struct slow_claimer){ref, GET(slow_claimer->token), now + CLAIM_WITHIN};
    } else if (now >= wait->slow_claimer.until) {
        wait->slow_claimer.ref = 0;
        return pawl__local_pass_over(local, visit, slow_claimer) ? (uint32_t)GET(slow_claimer->owner) : 0;
    }
    return 0;
}

/* ---- The watches ---- */

static void drop_watches(struct watches *watches) {
    unsigned kept = 0;

    for (unsigned i = 0; i < watches->count; i++) {
        if (watches->all[i].mark)
            watches->all[kept++] = watches->all[i];
        else
            close(watches->all[i].fd);
    }
    watches->count = kept;
}

void pawl__local_watches_poll(const struct watches *watches, struct pollfd fds[]) {
    for (unsigned i = 0; i < watches->count; i++)
        fds[i] = (struct pollfd){.fd = watches->all[i].fd};
}

bool pawl__local_watches_polled(struct watches *watches, const struct pollfd fds[]) {
    unsigned count = watches->count;

    for (unsigned i = 0; i < count; i++)
        watches->all[i].mark = fds[i].revents == 0;
    drop_watches(watches);
    return watches->count < count;
}

static int compare_owners(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

/* Each holder once. */
static void sort_out(struct wait *wait, struct view *view) {
    size_t kept = 0;

    if (view->count > wait->room)
        view->count = wait->room;
    if (view->count > 1)
        qsort(wait->owners, view->count, sizeof wait->owners[0], compare_owners);
    for (size_t i = 0; i < view->count; i++)
        if (kept == 0 || wait->owners[kept - 1] != wait->owners[i])
            wait->owners[kept++] = wait->owners[i];
    view->count = kept;
}

/* Close what need not be watched any more. */
static void keep_wanted(struct wait *wait, const struct view *view) {
    struct watches *watches = &wait->watches;

    for (unsigned i = 0; i < watches->count; i++) {
        struct watch *watch = &watches->all[i];

        watch->mark = watch->owner == view->previous ||
                      (view->watching == WATCHING_ALL &&
                       bsearch(&watch->owner, wait->owners, view->count, sizeof watch->owner, compare_owners));
    }
    drop_watches(watches);
}

enum watched { WATCHED_ALIVE, WATCHED_DEAD, WATCHED_BLIND };

static enum watched test(struct local *local, uint64_t owner) {
    return pawl__local_dead(local, owner) ? WATCHED_DEAD : WATCHED_ALIVE;
}

/* Watch the session, or test it, if there are too many to watch. */
static enum watched watch(struct local *local, struct local_claim *state, struct watches *watches, uint64_t owner) {
    uint64_t live = session_word(generation_of(owner), SESSION_LIVE);
    uint32_t slot = slot_of(owner);
    char who[WHO_SIZE];
    int fd;

    if (slot >= SESSION_COUNT || atomic_load(&local->table->words[slot]) != live)
        return WATCHED_DEAD;
    for (unsigned i = 0; i < watches->count; i++)
        if (watches->all[i].owner == owner)
            return WATCHED_ALIVE;
    if (watches->count == WATCHES_MAX)
        return test(local, owner);
    fd = pawl__local_watch(local, slot);
    if (fd < 0)
        return errno == ENXIO ? WATCHED_DEAD : errno == ENOENT ? test(local, owner) : WATCHED_BLIND;
    if (atomic_load(&local->table->words[slot]) != live) { /* this is its successor's lifeline */
        close(fd);
        return WATCHED_DEAD;
    }
    watches->all[watches->count++] = (struct watch){owner, fd, true};
    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, state->claim, "watching session %u (%s)", slot, pawl__local_who(local, slot, who, sizeof who));
    return WATCHED_ALIVE;
}

/* When to look again if nothing happens. Those far behind look less often: ten thousand that wait must not be a load. */
static int64_t tick_after(struct local *local, int64_t now, uint64_t distance) {
    int64_t tick = TICK + (int64_t)(distance < 1000 ? distance : 1000) * TICK_PER_PLACE;

    return tick + ((now >> 10) * 7919 + local->slot * INT64_C(104729)) % (tick / 2);
}

/* What came of looking after those in the way. */
struct round {
    bool recovered; /* somebody was dead: the queue is not what it was */
    bool blind;     /* somebody is neither watched nor known to live */
};

static void look_after(struct local *local, enum watched watched, uint64_t owner, int64_t deadline, struct round *round) {
    if (watched == WATCHED_DEAD)
        round->recovered |= pawl__local_recover(local, owner, deadline);
    round->blind |= watched != WATCHED_ALIVE;
}

/* Watch or test everybody in the way; recover the dead. Who is far behind tests a few of the holders at a time, in turn: those in
 * front watch them, and thousands that wait must not be a load. */
static struct round look_after_all(struct local *local, struct local_claim *state, struct wait *wait, const struct view *view,
                                   int64_t deadline) {
    bool far = view->watching == WATCHING_PREDECESSOR;
    size_t count = far && view->count > WATCHES_MAX ? WATCHES_MAX : view->count;
    struct round round = {0};

    if (view->previous != 0)
        look_after(local, watch(local, state, &wait->watches, view->previous), view->previous, deadline, &round);
    for (size_t i = 0; i < count; i++) {
        uint64_t owner = wait->owners[far ? (wait->turn + i) % view->count : i];

        if (owner != view->previous)
            look_after(local, far ? test(local, owner) : watch(local, state, &wait->watches, owner), owner, deadline, &round);
    }
    wait->turn += count;
    return round;
}

/* Look after those in the way. Says when to look again: 0 means at once. */
static int64_t renew_watches(struct local *local, struct local_claim *state, struct wait *wait, struct view *view,
                             int64_t deadline) {
    int64_t now = pawl__boottime(), tick = tick_after(local, now, view->distance);
    struct round round;

    sort_out(wait, view);
    keep_wanted(wait, view);
    round = look_after_all(local, state, wait, view, deadline);
    if (round.blind)
        tick = TICK_BLIND;
    if (!round.recovered)
        wait->immediate_looks = 0;
    else if (wait->immediate_looks++ < 1000) /* else the table makes no sense, but it must not keep a processor busy */
        return 0;
    if (wait->slow_claimer.ref != 0 && wait->slow_claimer.until < now + tick)
        return wait->slow_claimer.until;
    return now + tick;
}

/* ---- One look ---- */

/* What the node's state says. */
static int settle(struct local *local, struct local_claim *state, struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];

    for (;;) {
        switch (state_of(atomic_load(&node->state))) {
        case NODE_WAITING:
            return PAWL__PENDING;
        case NODE_GRANTED:
            if (!node_move(node, NODE_CLAIM))
                break;
            if (pawl__noting(&local->engine))
                pawl__note(&local->engine, state->claim, "woken by grant");
            pawl__local_granted(local, state);
            return PAWL__DONE;
        case NODE_PASSED_OVER:
            if (pawl__noting(&local->engine))
                pawl__note(&local->engine, state->claim, "was passed over: queues again");
            pawl__place_lost(state->claim);
            pawl__local_step(state, EVENT_PASSED_OVER);
            return PAWL__PENDING;
        default:
            if (pawl__local_gone(local))
                return pawl__local_fail_gone(local, reterr);
            return pawl__local_fail_damaged(local, state->claim->name_hash, reterr);
        }
    }
}

int pawl__local_inspect_queue(struct local *local, struct local_claim *state, struct wait *wait, int64_t deadline,
                              struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];
    uint32_t hash = state->claim->name_hash, passed_over = 0;
    struct view view = {0};
    struct guard_visit visit;
    int rc;

    wait->tick = 0;
    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    /* Never sleep for the guard here: thousands that look would stand in the way of the one that releases. */
    if (pawl__local_enter(local, &visit, hash, 0, NULL) != PAWL__DONE) {
        wait->refused += wait->refused < 6;
        wait->tick = pawl__boottime() + (MS << wait->refused);
        return settle(local, state, reterr);
    }
    wait->refused = 0;
    if (state_of(GET(node->state)) == NODE_WAITING) {
        pawl__local_regrant(local, &visit, node);
        survey_queue(local, &visit, node, wait, &view);
        passed_over = mind_slow_claimer(local, &visit, view.slow_claimer, wait);
    }
    pawl__local_leave(local, &visit);
    if (passed_over != 0)
        pawl__local_note_passed_over(local, passed_over - 1);
    if (visit.damaged)
        return pawl__local_abandon(local, state, deadline, pawl__local_fail_damaged(local, hash, reterr));
    if (visit.need_tokens) {
        rc = pawl__local_tokens_extend(local, deadline, reterr);
        return rc < 0 && rc != PAWL_ETIMEOUT ? pawl__local_abandon(local, state, deadline, rc) : PAWL__PENDING;
    }
    rc = settle(local, state, reterr);
    if (rc == PAWL__PENDING && view.count > wait->room && make_room(wait, view.count))
        return rc; /* a crowd: look again, there is room for all of them now */
    if (rc == PAWL__PENDING && state->phase == PHASE_WAITING)
        wait->tick = renew_watches(local, state, wait, &view, deadline);
    return rc;
}

/* ---- Sleeping ---- */

static bool unparked(struct local_claim *state) {
    return atomic_load(&state->unparked);
}

/* A signal ended the sleep: where the core is to hear of that, park() returns. */
static void interrupt(struct local *local, struct local_claim *state) {
    if (local->engine.interruptible)
        atomic_store(&state->unparked, true);
}

/* Sleep on the node's futex until its state changes. */
static int nap(struct local *local, struct local_claim *state, int64_t until, struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];
    int64_t now;
    uint32_t word;
    int rc;

    for (;;) {
        word = atomic_load(&node->state);
        rc = settle(local, state, reterr);
        if (rc != PAWL__PENDING || state->phase != PHASE_WAITING || unparked(state))
            return rc;
        now = pawl__boottime();
        if (now >= until)
            return PAWL__PENDING;
        if (!futex_wait(&node->state, word, pawl__nap_ns(now, until)))
            interrupt(local, state);
    }
}

/* Sleep in poll() until the channel is rung, somebody who is watched dies, or it is time. */
static void poll_once(struct local *local, struct local_claim *state, struct wait *wait, struct channel *channel, int64_t until) {
    struct pollfd fds[1 + WATCHES_MAX] = {{.fd = pawl__local_channel_mend(local, channel), .events = POLLIN}};

    int came;

    pawl__local_watches_poll(&wait->watches, fds + 1);
    came = pawl__sleep(fds, 1 + wait->watches.count, until, NULL);
    if (came < 0)
        interrupt(local, state);
    if (came <= 0)
        return;
    if (fds[0].revents)
        pawl__local_channel_drain(channel);
    pawl__local_watches_polled(&wait->watches, fds + 1);
}

/* Has anything changed that makes sleeping wrong? */
static bool restless(struct local *local, struct local_claim *state, uint32_t word) {
    return atomic_load(&local->table->nodes[GET(state->ref) - 1].state) != word || unparked(state);
}

static int watch_and_wait(struct local *local, struct local_claim *state, struct channel *channel, int64_t deadline,
                          struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];
    struct wait wait;
    int64_t until;
    uint32_t word;
    int rc;

    pawl__local_wait_init(&wait);
    for (;;) {
        word = atomic_load(&node->state);
        rc = pawl__local_inspect_queue(local, state, &wait, deadline, reterr);
        if (rc != PAWL__PENDING || state->phase != PHASE_WAITING || unparked(state))
            break;
        if (wait.tick == 0 && (wait.immediate_looks < 16 || pawl__boottime() < deadline))
            continue;
        if (pawl__boottime() >= deadline)
            break;
        until = wait.tick < deadline ? wait.tick : deadline;
        if (!channel)
            rc = nap(local, state, until < pawl__boottime() + TICK_BLIND ? until : pawl__boottime() + TICK_BLIND, reterr);
        else if (!restless(local, state, word))
            poll_once(local, state, &wait, channel, until);
        if (rc != PAWL__PENDING)
            break;
    }
    pawl__local_wait_finish(&wait);
    return rc;
}

static int wait_for_grant(struct local *local, struct local_claim *state, int64_t deadline, struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];
    int64_t now = pawl__boottime();
    struct channel *channel;
    int rc;

    if (!state->waited_long) {
        rc = nap(local, state, deadline < now + NAP ? deadline : now + NAP, reterr);
        if (rc != PAWL__PENDING || state->phase != PHASE_WAITING || unparked(state))
            return rc;
    }
    state->waited_long = true;
    /* Even if time is up: who is in the way may be dead. */
    channel = pawl__local_channel_get(local);
    atomic_store(&state->channel, channel);
    atomic_store(&node->channel, channel ? channel->number + 1 : 0);
    rc = watch_and_wait(local, state, channel, deadline, reterr);
    if (GET(state->ref) != 0) { /* else it was abandoned, and another thread may wait with this node */
        atomic_store(&node->channel, 0);
        SET(node->watching, WATCHING_NOTHING);
    }
    atomic_store(&state->channel, NULL);
    if (channel)
        pawl__local_channel_put(local, channel);
    return rc;
}

int pawl__local_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);
    enum phase phase;
    int rc;
    UNCANCELLED;

    do {
        phase = state->phase;
        switch (phase) {
        case PHASE_UNLINKED:
            rc = pawl__local_link(local, state, deadline, reterr);
            break;
        case PHASE_WAITING:
            rc = wait_for_grant(local, state, deadline, reterr);
            break;
        case PHASE_LEAVING:
        case PHASE_DOWNGRADING:
            rc = pawl__local_finish(local, state, deadline, reterr);
            break;
        default:
            return PAWL__DONE;
        }
    } while (rc == PAWL__PENDING && state->phase != phase && !unparked(state));
    atomic_store(&state->unparked, false);
    return rc;
}

void pawl__local_unpark(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);
    uint32_t ref = GET(state->ref);
    struct channel *channel;
    struct node *node;

    atomic_store(&state->unparked, true);
    if (ref == 0)
        return;
    node = &local->table->nodes[ref - 1];
    atomic_fetch_add(&node->state, NODE_POKE);
    futex_wake(&node->state, INT_MAX);
    channel = atomic_load(&state->channel);
    if (channel)
        pawl__local_channel_ring(local, channel);
}
