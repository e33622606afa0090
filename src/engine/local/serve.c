/* SPDX-License-Identifier: Apache-2.0
 *
 * serve.c - claims that no thread of the caller's waits for: the service thread does, for all of them in one poll().
 *
 * It has a channel of its own, published in the session: adopted claims are woken through it, and so is the session itself when one
 * of its holds is broken. An adopted claim goes through the same steps as in wait.c, each with a deadline of now: nothing here waits
 * for one claim while others could move. A guard that is busy is tried again after 1 ms, doubling to 50.
 *
 * Only the serving thread changes an adopted claim and takes it off the list; others put claims on it (under served.mutex) and leave
 * word in state->wanted. So the list may be walked without the mutex from a head read with it, and upcalls are made with nothing held.
 *
 * Nor may others touch its node: what they find in state->ref may be on a shelf by then, or in another claim of this process, since the
 * serving thread gives a node away without the cohort's mutex. Between the news that it is held, or was made shared, and the next word
 * that is left, it does not come near the claim: then it is `at_rest`, and who withdraws it lets go of its node at once. A claim is
 * withdrawn once: that `at_rest` is set too late, when word was left meanwhile, does no harm.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "os/sleep.h"

#define PAUSE_FIRST MS
#define PAUSE_LONGEST (50 * MS)
#define TICK_BLIND (20 * MS)
#define LOOK (1000 * MS)

void pawl__local_wake(struct pawl__engine *engine) {
    struct local *local = local_of(engine);
    struct channel *channel;

    atomic_store(&local->served.woken, true);
    channel = atomic_load(&local->served.channel);
    if (channel)
        pawl__local_channel_ring(local, channel);
}

void pawl__local_adopt(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local *local = local_of(engine);
    struct local_claim *state = state_of_claim(claim);

    state->adopted = true;
    atomic_store(&state->unparked, false);
    pthread_mutex_lock(&local->served.mutex);
    state->next = local->served.claims;
    local->served.claims = state;
    pthread_mutex_unlock(&local->served.mutex);
}

void pawl__local_serve_wants(struct local *local, struct local_claim *state, enum phase_event wanted) {
    if (atomic_exchange(&state->at_rest, false) && wanted == EVENT_WITHDRAWN)
        pawl__local_let_go(local, state);
    atomic_store(&state->wanted, (int)wanted);
    pawl__local_wake(&local->engine);
}

static void remove_adopted(struct local *local, struct local_claim *state) {
    struct local_claim **link;

    pthread_mutex_lock(&local->served.mutex);
    for (link = &local->served.claims; *link != state; link = &(*link)->next)
        ;
    *link = state->next;
    pthread_mutex_unlock(&local->served.mutex);
}

/* ---- What an adopted claim remembers while it waits ---- */

static void drop_wait(struct wait *wait) {
    pawl__local_wait_finish(wait);
    LIST_REMOVE(wait, link);
    free(wait);
}

static void end_wait(struct local *local, struct local_claim *state) {
    if (GET(state->ref) != 0 && state->wait)
        atomic_store(&local->table->nodes[GET(state->ref) - 1].channel, 0);
    if (state->wait)
        drop_wait(state->wait);
    state->wait = NULL;
}

static bool begin_wait(struct local *local, struct local_claim *state) {
    struct channel *channel = atomic_load(&local->served.channel);
    struct wait *wait;

    if (state->wait)
        return true;
    wait = channel ? malloc(sizeof *wait) : NULL;
    if (!wait)
        return false;
    pawl__local_wait_init(wait);
    LIST_INSERT_HEAD(&local->served.waits, wait, link);
    state->wait = wait;
    state->seen = 0;
    atomic_store(&local->table->nodes[GET(state->ref) - 1].channel, channel->number + 1);
    return true;
}

/* ---- One step for one claim. True: an upcall was made, and the claim may be freed ---- */

static void pause_claim(struct local_claim *state) {
    state->pause = state->pause == 0 ? PAUSE_FIRST : state->pause < PAUSE_LONGEST / 2 ? 2 * state->pause : PAUSE_LONGEST;
    state->retry_at = pawl__boottime() + state->pause;
}

static bool settle(struct local *local, struct local_claim *state, int rc, const struct pawl_error *error) {
    struct pawl__claim *claim = state->claim;

    state->pause = 0;
    state->retry_at = PAWL__NEVER;
    end_wait(local, state);
    if (rc == PAWL__DONE) {
        atomic_store(&state->at_rest, true);
        local->engine.tell(local->engine.core, claim, NEWS_GRANTED, NULL);
    } else {
        remove_adopted(local, state);
        local->engine.tell(local->engine.core, claim, NEWS_REFUSED, error);
    }
    return true;
}

static bool attend_wait(struct local *local, struct local_claim *state, struct pawl_error *error) {
    _Atomic uint32_t *place = &local->table->nodes[GET(state->ref) - 1].state;
    uint32_t word;
    int rc;

    if (!begin_wait(local, state)) {
        pause_claim(state);
        return false;
    }
    for (int i = 0; i < 8; i++) {
        word = atomic_load(place);
        rc = pawl__local_inspect_queue(local, state, state->wait, pawl__boottime(), error);
        if (rc != PAWL__PENDING)
            return settle(local, state, rc, error);
        if (state->phase != PHASE_WAITING) {
            end_wait(local, state);
            state->retry_at = 0;
            return false;
        }
        if (state->wait->tick != 0 && atomic_load(place) == word)
            break;
    }
    state->seen = word;
    state->retry_at = state->wait->tick != 0 ? state->wait->tick : pawl__boottime() + PAUSE_FIRST;
    return false;
}

static bool attend_link(struct local *local, struct local_claim *state, struct pawl_error *error) {
    int rc = pawl__local_link(local, state, pawl__boottime(), error);

    if (rc != PAWL__PENDING)
        return settle(local, state, rc, error);
    if (state->phase == PHASE_UNLINKED) {
        pause_claim(state);
        return false;
    }
    return attend_wait(local, state, error);
}

static bool attend_finish(struct local *local, struct local_claim *state) {
    struct pawl__claim *claim = state->claim;
    bool leaving = state->phase == PHASE_LEAVING;
    int rc;

    end_wait(local, state);
    rc = pawl__local_finish(local, state, pawl__boottime(), NULL);
    if (rc == PAWL__PENDING) {
        pause_claim(state);
        return false;
    }
    state->pause = 0;
    state->retry_at = PAWL__NEVER;
    if (leaving) {
        remove_adopted(local, state);
        local->engine.tell(local->engine.core, claim, NEWS_GONE, NULL);
    } else {
        atomic_store(&state->at_rest, true);
        local->engine.tell(local->engine.core, claim, NEWS_DOWNGRADED, NULL);
    }
    return true;
}

static bool attend(struct local *local, struct local_claim *state, struct pawl_error *error) {
    enum phase_event wanted = (enum phase_event)atomic_exchange(&state->wanted, 0);

    if (wanted != 0) {
        pawl__local_step(state, wanted);
        state->retry_at = 0;
    }
    if (state->phase == PHASE_WAITING && state->wait && GET(local->table->nodes[GET(state->ref) - 1].state) != state->seen)
        state->retry_at = 0;
    if (state->phase == PHASE_NONE || pawl__boottime() < state->retry_at)
        return false;
    switch (state->phase) {
    case PHASE_UNLINKED:
        return attend_link(local, state, error);
    case PHASE_WAITING:
        return attend_wait(local, state, error);
    default:
        return attend_finish(local, state);
    }
}

static struct local_claim *first_adopted(struct local *local) {
    struct local_claim *first;

    pthread_mutex_lock(&local->served.mutex);
    first = local->served.claims;
    pthread_mutex_unlock(&local->served.mutex);
    return first;
}

static bool attend_all(struct local *local) {
    struct local_claim *next;
    struct pawl_error error;
    bool upcalls = false;

    for (struct local_claim *state = first_adopted(local); state; state = next) {
        next = state->next;
        upcalls |= attend(local, state, &error);
    }
    return upcalls;
}

/* ---- Sleeping ---- */

static bool open_channel(struct local *local) {
    struct channel *channel;

    if (atomic_load(&local->served.channel))
        return true;
    channel = pawl__local_channel_get(local);
    if (!channel)
        return false;
    atomic_store(&local->served.channel, channel);
    atomic_store(&local->table->sessions[local->slot].serve_channel, channel->number + 1);
    return true;
}

/* Has a hold of ours been broken since we looked last? */
static bool broken(struct local *local) {
    uint32_t breaks = atomic_load(&local->table->sessions[local->slot].breaks);
    bool news = breaks != local->served.breaks_seen;

    local->served.breaks_seen = breaks;
    return news;
}

/* All that is to be polled: the channel, and every watch. Returns how many; less than all if memory is short. */
static size_t gather(struct local *local) {
    const struct wait *wait;
    size_t count = 1;

    LIST_FOREACH(wait, &local->served.waits, link) {
        count += wait->watches.count;
    }
    if (count > local->served.fd_count) {
        struct pollfd *grown = realloc(local->served.fds, 2 * count * sizeof *grown);

        if (!grown)
            return 0;
        local->served.fds = grown;
        local->served.fd_count = 2 * count;
    }
    local->served.fds[0] = (struct pollfd){.fd = pawl__local_channel_mend(local, atomic_load(&local->served.channel)),
                                           .events = POLLIN};
    count = 1;
    LIST_FOREACH(wait, &local->served.waits, link) {
        pawl__local_watches_poll(&wait->watches, &local->served.fds[count]);
        count += wait->watches.count;
    }
    return count;
}

static void scatter(struct local *local) {
    const struct pollfd *fds = local->served.fds + 1;
    struct wait *wait;

    LIST_FOREACH(wait, &local->served.waits, link) {
        unsigned count = wait->watches.count;

        if (pawl__local_watches_polled(&wait->watches, fds))
            wait->tick = 0;
        fds += count;
    }
}

static int64_t next_due(struct local *local, int64_t deadline) {
    for (const struct local_claim *state = first_adopted(local); state; state = state->next)
        if (state->phase != PHASE_NONE && state->retry_at < deadline)
            deadline = state->retry_at;
    return deadline;
}

static void sleep_until(struct local *local, int64_t until) {
    int64_t now = pawl__boottime();
    size_t count = atomic_load(&local->served.channel) ? gather(local) : 0;

    if (count == 0 && until - now > TICK_BLIND)
        until = now + TICK_BLIND;
    if (pawl__sleep(local->served.fds, count, until, NULL) <= 0)
        return;
    if (local->served.fds[0].revents)
        pawl__local_channel_drain(atomic_load(&local->served.channel));
    scatter(local);
    for (struct local_claim *state = first_adopted(local); state; state = state->next)
        if (state->wait && state->wait->tick == 0)
            state->retry_at = 0;
}

void pawl__local_serve(struct pawl__engine *engine, int64_t deadline) {
    struct local *local = local_of(engine);
    int64_t until, now;

    open_channel(local);
    for (;;) {
        if (attend_all(local) || broken(local) || atomic_exchange(&local->served.woken, false))
            return;
        until = next_due(local, deadline);
        now = pawl__boottime();
        if (now >= deadline)
            return;
        until = until < now + LOOK ? until : now + LOOK; /* the directory may be taken away: nobody tells */
        sleep_until(local, until);
        if (pawl__local_gone(local))
            return; /* the core asks check() */
    }
}

void pawl__local_serve_finish(struct local *local) {
    while (!LIST_EMPTY(&local->served.waits))
        drop_wait(LIST_FIRST(&local->served.waits));
    free(local->served.fds);
    local->served.fds = NULL;
}
