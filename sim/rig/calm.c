/* SPDX-License-Identifier: Apache-2.0
 *
 * calm.c - see calm.h. Whenever something happens to a lock, all waiters of it are checked. What counts is the time from when a waiter
 * could have the lock until it has it, or until it can no longer have it.
 */
#include "calm.h"

#include <string.h>

/* How often something is under way, at the most, until who asks is in the queue: in a cluster it asks, subscribes, and asks again. */
enum { ROUND_TRIPS = 60, TO_QUEUE = 5 };
#define ON_ITS_WAY INT64_C(1000000) /* from when a client says that it asks until it does */
#define NEVER INT64_MAX
#define MOMENT INT64_C(100000000) /* what was under way so long ago has arrived */
#define ALIVE                                                                                                                      \
    INT64_C(2600000000) /* who waits asks again within that time: ALIVE_NS in src/engine/redis/lock/answer.c, and a quarter of it */

void calm_begin(struct calm *calm, int clients, int64_t far_us) {
    memset(calm, 0, sizeof *calm);
    calm->clients = clients;
    calm->bound_ns = INT64_C(1000000000) + ROUND_TRIPS * far_us * 1000;
    calm->queues_ns = TO_QUEUE * far_us * 1000 + ON_ITS_WAY;
    for (int i = 0; i < CALM_SLOTS; i++)
        for (int j = 0; j < CALM_THREADS; j++)
            calm->threads[i][j].lock = -1;
    for (int i = 0; i < CALM_SLOTS; i++)
        for (int j = 0; j < CALM_LOCKS; j++)
            calm->could[i][j] = -NEVER;
}

/* Must the one wait for the other? */
static bool is_ahead(const struct calm *calm, const struct calm_thread *other, int slot, const struct calm_thread *waiter) {
    if (other->holds)
        return true;
    return (slot < calm->clients || calm->one_queue) && waiter->mode != 'x' && other->queued < waiter->asked + calm->queues_ns;
}

/* Could it have the lock? `early`: who lets go just now may have done so. */
static bool is_able(const struct calm *calm, const struct calm_thread *waiter, bool early) {
    int64_t permits = waiter->permits;

    for (int i = 0; i < calm->slots; i++)
        for (int j = 0; j < calm->width; j++) {
            const struct calm_thread *other = &calm->threads[i][j];

            if (other == waiter || other->lock != waiter->lock || (early && other->drops) || !is_ahead(calm, other, i, waiter))
                continue;
            if (waiter->mode == 'x' || other->mode == 'x')
                return false;
            permits += waiter->mode == 'p' ? other->permits : 0;
        }
    return waiter->mode != 'p' || permits <= calm->locks[waiter->lock].limit;
}

static void measure(struct calm *calm, int slot, int thread, int64_t now) {
    const struct calm_thread *waiter = &calm->threads[slot][thread];
    int64_t dead_until = calm->locks[waiter->lock].dead_until;
    int64_t since = waiter->able < dead_until ? dead_until : waiter->able;

    if (slot >= calm->clients && calm->locks[waiter->lock].passed - waiter->passed > calm->starved)
        calm->starved = calm->locks[waiter->lock].passed - waiter->passed;
    if (slot >= calm->clients || waiter->able == NEVER || now - since <= calm->worst_ns)
        return;
    calm->worst_ns = now - since;
    calm->worst_at = now;
    calm->worst = (struct who){.slot = slot, .thread = thread, .life = waiter->life};
    calm->worst_lock = waiter->lock;
}

/* Something has happened to the lock. */
static void look(struct calm *calm, int lock, int64_t now) {
    for (int i = 0; i < calm->slots; i++)
        for (int j = 0; j < calm->width; j++) {
            struct calm_thread *waiter = &calm->threads[i][j];

            if (waiter->lock != lock || waiter->holds)
                continue;
            if (is_able(calm, waiter, false)) {
                waiter->able = waiter->able < now ? waiter->able : now;
            } else {
                measure(calm, i, j, now);
                waiter->able = NEVER;
            }
        }
}

/* It waits no more, or does not hold any more. */
static void leave(struct calm *calm, int slot, int thread, int64_t now) {
    struct calm_thread *self = &calm->threads[slot][thread];
    int lock = self->lock;

    if (lock < 0)
        return;
    if (self->holds || is_able(calm, self, true))
        calm->could[slot][lock] = now;
    if (!self->holds)
        measure(calm, slot, thread, now);
    *self = (struct calm_thread){.lock = -1};
    look(calm, lock, now);
}

/* Since when may the claim be there that it waits for? Permits are claims of their own. */
static int64_t queued_since(const struct calm *calm, const struct record *record) {
    int64_t since = record->time;

    for (int i = 0; i < calm->width && record->mode != 'p'; i++) {
        const struct calm_thread *other = &calm->threads[record->who.slot][i];

        if (other->lock == record->lock && other->mode == record->mode && !other->holds && other->queued < since)
            since = other->queued;
    }
    return since;
}

/* What is taken together with others may be held while those are waited for: it counts as held from the beginning. */
static void want(struct calm *calm, struct calm_thread *self, const struct record *record) {
    *self = (struct calm_thread){.came = record->time,
                                 .asked = record->time,
                                 .queued = queued_since(calm, record),
                                 .able = NEVER,
                                 .lock = (short)record->lock,
                                 .mode = record->mode,
                                 .holds = record->kind == RECORD_PART,
                                 .permits = record->numbers[0],
                                 .life = record->who.life,
                                 .passed = calm->locks[record->lock].passed};
    look(calm, record->lock, record->time);
}

/* A claim is granted to as many readers of its process as it has tokens. For the others, who came while it was asked for, there is another
 * claim from now on, behind those who have queued meanwhile. And claims that are not granted yet are younger than the request of who has
 * one that is: its was the last when it came. */
static void ask_anew(struct calm *calm, const struct record *record, int64_t came) {
    for (int i = 0; i < calm->width; i++) {
        struct calm_thread *other = &calm->threads[record->who.slot][i];

        if (other->lock != record->lock || other->holds)
            continue;
        if (other->mode == 's')
            other->asked = record->time;
        other->queued = other->queued < came ? came : other->queued;
    }
}

/* Does another thread of this client wait for the lock? */
static bool has_waiter(const struct calm *calm, const struct record *record) {
    for (int i = 0; i < calm->width; i++) {
        const struct calm_thread *other = &calm->threads[record->who.slot][i];

        if (i != record->who.thread && other->lock == record->lock && !other->holds)
            return true;
    }
    return false;
}

/* From one client to another it goes by the server; and so it does where a thread has it twice running, if it was not kept, and no other
 * thread waits, for which the claim would be left open. */
static void pass_on(struct calm *calm, const struct record *record) {
    struct who *last = &calm->locks[record->lock].last;
    bool again = record->who.thread == last->thread && !calm->keeps && !has_waiter(calm, record);

    calm->locks[record->lock].passed += record->who.slot != last->slot || again;
    *last = record->who;
}

static void by_client(struct calm *calm, const struct record *record) {
    int slot = record->who.slot, thread = record->who.thread;

    if (slot >= CALM_SLOTS || thread >= CALM_THREADS || record->lock >= CALM_LOCKS)
        return;
    struct calm_thread *self = &calm->threads[slot][thread];

    calm->slots = calm->slots > slot ? calm->slots : slot + 1;
    calm->width = calm->width > thread ? calm->width : thread + 1;
    switch (record->kind) {
    case RECORD_WANT:
    case RECORD_PART:
        want(calm, self, record);
        break;
    case RECORD_GOT:
        if (!self->holds)
            measure(calm, slot, thread, record->time);
        self->holds = true;
        pass_on(calm, record);
        ask_anew(calm, record, self->came);
        look(calm, record->lock, record->time);
        break;
    case RECORD_DOWN:
        if (self->lost)
            break;
        self->downs = true;
        self->mode = 's';
        look(calm, record->lock, record->time);
        break;
    case RECORD_LOST: /* it may have been lost before it could be downgraded */
        self->lost = true;
        self->mode = self->downs ? 'x' : self->mode;
        break;
    case RECORD_DROP:
        self->drops = true;
        break;
    case RECORD_FAIL:
    case RECORD_GONE:
        leave(calm, slot, thread, record->time);
        break;
    default:
        break;
    }
}

/* How long may it last what this client leaves behind? */
static int64_t remains(const struct calm *calm, int slot, int lock, int64_t now) {
    int64_t most = calm->lease_ns > ALIVE ? calm->lease_ns : ALIVE;
    bool has = calm->keeps || calm->could[slot][lock] > now - MOMENT - calm->bound_ns / 10, waits = false;

    for (int i = 0; i < calm->width; i++) {
        const struct calm_thread *thread = &calm->threads[slot][i];

        if (thread->lock == lock && (thread->holds || is_able(calm, thread, true)))
            has = true;
        else if (thread->lock == lock)
            waits = true;
    }
    /* Where the first in the queue are dead too, those behind them don't wait for the end of the lease: they ask when it is time. */
    if (has)
        return waits || calm->locks[lock].dead_until > now ? calm->lease_ns + ALIVE : most;
    return waits && calm->locks[lock].shared ? ALIVE : 0;
}

static void kill(struct calm *calm, int slot, int64_t now) {
    for (int lock = 0; lock < CALM_LOCKS && slot < CALM_SLOTS; lock++) {
        int64_t until = now + remains(calm, slot, lock, now);

        if (until > now && until > calm->locks[lock].dead_until)
            calm->locks[lock].dead_until = until;
    }
}

static void by_rig(struct calm *calm, const struct record *record) {
    switch (record->kind) {
    case RECORD_LEASE:
        calm->lease_ns = record->numbers[0];
        break;
    case RECORD_KEEP:
        calm->keeps = record->numbers[0] > 0;
        break;
    case RECORD_LOCK:
        if (record->lock >= CALM_LOCKS)
            break;
        calm->locks[record->lock].limit = record->numbers[0];
        calm->locks[record->lock].shared = record->text[0] != 'm';
        break;
    case RECORD_KILL:
        kill(calm, record->process.slot, record->time);
        break;
    case RECORD_EXIT:
        for (int i = 0; i < calm->width && record->process.slot < CALM_SLOTS; i++)
            leave(calm, record->process.slot, i, record->time);
        break;
    default:
        break;
    }
}

void calm_line(struct calm *calm, const char *line, size_t length) {
    struct record record;

    if (!history_parse(line, length, &record))
        return;
    calm->hung += record.kind == RECORD_HUNG;
    calm->lost += record.kind == RECORD_LOST && record.who.slot < calm->clients;
    if (calm->hasty)
        return;
    if (record.who.slot >= 0)
        by_client(calm, &record);
    else
        by_rig(calm, &record);
}
