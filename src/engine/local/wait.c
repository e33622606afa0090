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
 * Watching the predecessor alone would lose deaths, for instance of the unwatched one of two holders of a semaphore. So whoever
 * becomes first without watching every holder is poked (list.c), who stood behind one that gave up is poked, and everybody looks for
 * itself every second or so: tests the holders, takes the guard from the dead, grants what is due.
 *
 * A waiter that was granted and does not claim within 100 ms of being seen is stopped, or might as well be: it is parked, that is,
 * taken out of the list, and queues again at the end when it wakes.
 *
 * Nothing sleeps on a condition that changed before it slept: state and channel of the node, and `unparked` and the channel of the
 * claim, are each written in one order and read in the other.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "local.h"
#include "error.h"
#include "futex.h"
#include "sleep.h"
#include "uncancelled.h"

#define NAP (2 * MS)
#define TICK (1000 * MS)
#define TICK_PER_PLACE (8 * MS)
#define TICK_BLIND (50 * MS) /* without descriptors there is nothing to poll */
#define CLAIM_WITHIN (100 * MS)

void pawl__local_wait_init(struct wait *wait) {
    wait->vigil.count = 0;
    wait->tick = 0;
    wait->haste = 0;
    wait->refused = 0;
    wait->laggard = 0;
    wait->passed_over = 0;
}

void pawl__local_wait_finish(struct wait *wait) {
    for (unsigned i = 0; i < wait->vigil.count; i++)
        if (wait->vigil.watches[i].fd >= 0)
            close(wait->vigil.watches[i].fd);
    wait->vigil.count = 0;
}

/* ---- The queue, as one waiter sees it ---- */

struct peer {
    uint32_t slot, generation;
    bool watch; /* else only test */
};

struct view {
    enum node_watching watching;
    uint64_t distance; /* how many tickets behind the first that waits */
    unsigned count;
    struct peer peers[WATCHES_MAX];
    struct node *laggard; /* was granted and has not claimed */
};

static void view_add(struct local *local, struct view *view, const struct node *node) {
    uint64_t owner = GET(node->owner);
    struct peer peer = {(uint32_t)owner - 1, (uint32_t)(owner >> 32), false};

    if (owner == local->owner || view->count == WATCHES_MAX)
        return; /* we can't die before ourselves; and the rest is tested when these have gone */
    for (unsigned i = 0; i < view->count; i++)
        if (view->peers[i].slot == peer.slot && view->peers[i].generation == peer.generation)
            return;
    view->peers[view->count++] = peer;
}

/* Who is in the way of this node, under the guard. */
static void survey_queue(struct local *local, struct section *section, struct node *node, struct view *view) {
    struct node *first = NULL, *previous;
    uint32_t steps = 0;

    view->count = 0;
    view->laggard = NULL;
    for (struct node *other = pawl__local_next(local, section, NULL, &steps); other && !first;
         other = pawl__local_next(local, section, other, &steps)) {
        uint32_t word = GET(other->state);

        if (!pawl__local_same_name(other, node))
            continue;
        if (!holds(word)) {
            first = other;
            break;
        }
        if (state_of(word) == NODE_GRANTED && other != node && !view->laggard)
            view->laggard = other;
        view_add(local, view, other);
    }
    steps = 0;
    for (previous = pawl__local_prev(local, section, node, &steps); previous && !pawl__local_same_name(previous, node);)
        previous = pawl__local_prev(local, section, previous, &steps);
    if (section->damaged)
        return;
    view->distance = first && GET(node->ticket) > GET(first->ticket) ? GET(node->ticket) - GET(first->ticket) : 0;
    SET(node->watched, previous ? (uint32_t)GET(previous->owner) : 0);
    view->watching = first == node || previous == first ? WATCHING_ALL : WATCHING_PREDECESSOR;
    if (view->watching == WATCHING_ALL) {
        if (previous)
            view_add(local, view, previous);
        for (unsigned i = 0; i < view->count; i++)
            view->peers[i].watch = true;
    } else if (previous) {
        if (view->count == WATCHES_MAX)
            view->count--;
        view_add(local, view, previous);
        if (view->count > 0)
            view->peers[view->count - 1].watch = GET(previous->owner) != local->owner;
    }
    SET(node->watching, view->watching);
}

/* Time is up for one that was granted and does not claim: out with it. */
static void pass_over(struct local *local, struct section *section, struct node *laggard, struct wait *wait) {
    if (!pawl__local_turn(laggard, NODE_GRANTED, NODE_PARKED))
        return;
    pawl__local_drop(local, section, pawl__local_ref(local, laggard), NODE_PARKED);
    pawl__local_poke(local, section, laggard);
    wait->passed_over = (uint32_t)GET(laggard->owner);
}

/* Outside of the guard: whoever listens may be slow. */
static void note_passed_over(struct local *local, struct wait *wait) {
    uint32_t slot = wait->passed_over - 1;
    char who[WHO_SIZE];

    if (wait->passed_over != 0 && pawl__noting(&local->engine))
        pawl__note(&local->engine, NULL, "session %u (%s) was granted and did not move: passed over", slot,
                   pawl__local_who(local, slot, who, sizeof who));
    wait->passed_over = 0;
}

static void mind_laggard(struct local *local, struct section *section, struct node *laggard, struct wait *wait) {
    int64_t now = pawl__boottime();

    if (!laggard) {
        wait->laggard = 0;
        return;
    }
    if (wait->laggard != pawl__local_ref(local, laggard) || wait->laggard_token != GET(laggard->token)) {
        wait->laggard = pawl__local_ref(local, laggard);
        wait->laggard_token = GET(laggard->token);
        wait->laggard_until = now + CLAIM_WITHIN;
    } else if (now >= wait->laggard_until) {
        pass_over(local, section, laggard, wait);
        wait->laggard = 0;
    }
}

/* ---- The vigil ---- */

static struct watch *find_watch(struct vigil *vigil, const struct peer *peer) {
    for (unsigned i = 0; i < vigil->count; i++)
        if (vigil->watches[i].slot == peer->slot && vigil->watches[i].generation == peer->generation)
            return &vigil->watches[i];
    return NULL;
}

enum watched { WATCHED_ALIVE, WATCHED_DEAD, WATCHED_BLIND };

static enum watched keep_watch(struct local *local, struct local_claim *state, struct vigil *vigil, const struct peer *peer) {
    struct watch *watch = find_watch(vigil, peer);
    uint64_t live = session_word(peer->generation, SESSION_LIVE);
    char who[WHO_SIZE];
    int fd;

    if (peer->slot >= SESSION_COUNT || atomic_load(&local->table->words[peer->slot]) != live)
        return WATCHED_DEAD;
    if (watch) {
        watch->keep = true;
        return WATCHED_ALIVE;
    }
    if (vigil->count == WATCHES_MAX)
        return WATCHED_BLIND;
    fd = pawl__local_watch(local, peer->slot);
    if (fd < 0)
        return errno == ENXIO || (errno == ENOENT && pawl__local_dead(local, peer->slot, peer->generation)) ? WATCHED_DEAD
               : errno == ENOENT                                                                            ? WATCHED_ALIVE
                                                                                                            : WATCHED_BLIND;
    if (atomic_load(&local->table->words[peer->slot]) != live) { /* this is its successor's lifeline */
        close(fd);
        return WATCHED_DEAD;
    }
    vigil->watches[vigil->count++] = (struct watch){peer->slot, peer->generation, fd, true};
    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, state->claim, "watching session %u (%s)", peer->slot,
                   pawl__local_who(local, peer->slot, who, sizeof who));
    return WATCHED_ALIVE;
}

static void drop_watches(struct vigil *vigil) {
    unsigned kept = 0;

    for (unsigned i = 0; i < vigil->count; i++) {
        if (vigil->watches[i].keep)
            vigil->watches[kept++] = vigil->watches[i];
        else
            close(vigil->watches[i].fd);
    }
    vigil->count = kept;
}

/* When to look again if nothing happens. Those far behind look less often: ten thousand that wait must not be a load. */
static int64_t tick_after(struct local *local, int64_t now, uint64_t distance) {
    int64_t tick = TICK + (int64_t)(distance < 1000 ? distance : 1000) * TICK_PER_PLACE;

    return tick + ((now >> 10) * 7919 + local->slot * INT64_C(104729)) % (tick / 2);
}

/* Watch or test everybody in the way; recover the dead. Says when to look again: 0 means at once. */
static int64_t renew_vigil(struct local *local, struct local_claim *state, struct wait *wait, const struct view *view,
                           int64_t deadline) {
    int64_t now = pawl__boottime();
    int64_t tick = tick_after(local, now, view->distance);
    bool recovered = false;

    for (unsigned i = 0; i < wait->vigil.count; i++)
        wait->vigil.watches[i].keep = false;
    for (unsigned i = 0; i < view->count; i++) {
        const struct peer *peer = &view->peers[i];
        enum watched watched;

        if (peer->watch)
            watched = keep_watch(local, state, &wait->vigil, peer);
        else
            watched = pawl__local_dead(local, peer->slot, peer->generation) ? WATCHED_DEAD : WATCHED_ALIVE;
        if (watched == WATCHED_DEAD)
            recovered |= pawl__local_recover(local, peer->slot, peer->generation, deadline);
        if (watched != WATCHED_ALIVE)
            tick = TICK_BLIND;
    }
    drop_watches(&wait->vigil);
    if (!recovered)
        wait->haste = 0;
    else if (wait->haste++ < 1000) /* else the table makes no sense, but it must not keep a processor busy */
        return 0;
    if (wait->laggard && wait->laggard_until < now + tick)
        return wait->laggard_until;
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
            if (!pawl__local_turn(node, NODE_GRANTED, NODE_HELD))
                break;
            if (pawl__noting(&local->engine))
                pawl__note(&local->engine, state->claim, "woken by grant");
            pawl__local_granted(local, state);
            return PAWL__DONE;
        case NODE_PARKED:
            if (pawl__noting(&local->engine))
                pawl__note(&local->engine, state->claim, "was passed over: queues again");
            state->phase = PHASE_UNLINKED;
            return PAWL__PENDING;
        default:
            if (pawl__local_gone(local))
                return pawl__local_fail_gone(local, reterr);
            return pawl__local_fail_damaged(local, state->claim->name_hash, reterr);
        }
    }
}

int pawl__local_look(struct local *local, struct local_claim *state, struct wait *wait, int64_t deadline,
                     struct pawl_error *reterr) {
    struct node *node = &local->table->nodes[GET(state->ref) - 1];
    uint32_t hash = state->claim->name_hash;
    struct section section;
    struct view view;
    int rc;

    wait->tick = 0;
    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    /* Never sleep for the guard here: thousands that look would stand in the way of the one that releases. */
    if (pawl__local_enter(local, &section, hash, 0, NULL) != PAWL__DONE) {
        wait->refused += wait->refused < 6;
        wait->tick = pawl__boottime() + (MS << wait->refused);
        return settle(local, state, reterr);
    }
    wait->refused = 0;
    view.count = 0;
    view.distance = 0;
    view.laggard = NULL;
    if (state_of(GET(node->state)) == NODE_WAITING) {
        pawl__local_regrant(local, &section, node);
        survey_queue(local, &section, node, &view);
        mind_laggard(local, &section, view.laggard, wait);
    }
    pawl__local_leave(local, &section);
    note_passed_over(local, wait);
    if (section.damaged)
        return pawl__local_abandon(local, state, deadline, pawl__local_fail_damaged(local, hash, reterr));
    if (section.need_tokens) {
        rc = pawl__local_tokens_extend(local, deadline, reterr);
        return rc < 0 && rc != PAWL_ETIMEOUT ? pawl__local_abandon(local, state, deadline, rc) : PAWL__PENDING;
    }
    rc = settle(local, state, reterr);
    if (rc == PAWL__PENDING && state->phase == PHASE_WAITING)
        wait->tick = renew_vigil(local, state, wait, &view, deadline);
    return rc;
}

/* ---- Sleeping ---- */

static bool unparked(struct local_claim *state) {
    return atomic_load(&state->unparked);
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
        futex_wait(&node->state, word, pawl__nap_ns(now, until));
    }
}

/* Sleep in poll() until the channel is rung, somebody who is watched dies, or it is time. */
static void poll_once(struct local *local, struct wait *wait, struct channel *channel, int64_t until) {
    struct pollfd fds[1 + WATCHES_MAX] = {{.fd = pawl__local_channel_mend(local, channel), .events = POLLIN}};
    struct vigil *vigil = &wait->vigil;

    for (unsigned i = 0; i < vigil->count; i++)
        fds[1 + i] = (struct pollfd){.fd = vigil->watches[i].fd};
    if (!pawl__sleep(fds, 1 + vigil->count, until, NULL))
        return;
    if (fds[0].revents)
        pawl__local_channel_drain(channel);
    for (unsigned i = 0; i < vigil->count; i++)
        vigil->watches[i].keep = fds[1 + i].revents == 0; /* looked at anew: opening it again tells who is dead */
    drop_watches(vigil);
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
        rc = pawl__local_look(local, state, &wait, deadline, reterr);
        if (rc != PAWL__PENDING || state->phase != PHASE_WAITING || unparked(state))
            break;
        if (wait.tick == 0 && (wait.haste < 16 || pawl__boottime() < deadline))
            continue;
        if (pawl__boottime() >= deadline)
            break;
        until = wait.tick < deadline ? wait.tick : deadline;
        if (!channel)
            rc = nap(local, state, until < pawl__boottime() + TICK_BLIND ? until : pawl__boottime() + TICK_BLIND, reterr);
        else if (!restless(local, state, word))
            poll_once(local, &wait, channel, until);
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

    if (!state->napped) {
        rc = nap(local, state, deadline < now + NAP ? deadline : now + NAP, reterr);
        if (rc != PAWL__PENDING || state->phase != PHASE_WAITING || unparked(state))
            return rc;
    }
    state->napped = true;
    /* Even if time is up: who is in the way may be dead. */
    channel = pawl__local_channel_get(local);
    atomic_store(&state->channel, channel);
    atomic_store(&node->channel, channel ? channel->number + 1 : 0);
    rc = watch_and_wait(local, state, channel, deadline, reterr);
    atomic_store(&node->channel, 0);
    SET(node->watching, WATCHING_NOTHING);
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
