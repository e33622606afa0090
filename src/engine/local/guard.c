/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.c - one process at a time inside a bucket.
 *
 * The guard is a word: 0, or the name of the session that is inside and a bit that says that somebody sleeps. It is held for some
 * tens of instructions, never across a system call that may wait. Still its owner may die there, or be stopped.
 *
 *   - Dead: a waiter tests, at each time-out (1 ms, doubling to 50), whether the owner lives, the process itself and not what has
 *     inherited its holds, and takes the guard from a dead one by one CAS from the very word it tested. The word names the generation:
 *     a dead session's word can never appear again, so the CAS succeeds only while the dead one is still inside. The thief repairs the
 *     list before anything else.
 *   - Stopped: nobody can help. A waiter keeps its deadline. `pawl status` and `pawl doctor` tell who stands there; we don't, for on
 *     a machine with much to do it may be one that merely waits for its turn.
 *
 * Liveness is tested outside of any guard.
 */
#include <stdio.h>

#include "engine/local/local.h"
#include "os/futex.h"
#include "os/sleep.h"
#include "os/uncancelled.h"

enum { TRIES = 40 };
#define FIRST_WAIT MS
#define LONGEST_WAIT (50 * MS)

static void begin(struct local *local, struct guard_visit *visit, uint32_t hash) {
    visit->bucket = &local->table->buckets[hash & (BUCKET_COUNT - 1)];
    visit->damaged = false;
    visit->more = false;
    visit->need_tokens = false;
    visit->taken_from = 0;
    visit->wake_count = 0;
}

static bool take(struct local *local, struct bucket *bucket, uint64_t sleepers) {
    uint64_t nobody = 0;

    return atomic_compare_exchange_strong_explicit(&bucket->guard, &nobody, local->guard | sleepers, memory_order_acquire,
                                                   memory_order_relaxed);
}

bool pawl__local_enter_try(struct local *local, struct guard_visit *visit, uint32_t hash) {
    begin(local, visit, hash);
    for (int i = 0; i < TRIES; i++) {
        if (take(local, visit->bucket, 0))
            return true;
        SPIN_PAUSE();
    }
    return false;
}

/* The session in the guard's word; 0 if no session is called that. */
static uint64_t owner_of(uint64_t word) {
    uint32_t slot = ((uint32_t)word >> 1) - 1;

    return slot < SESSION_COUNT ? owner_word(slot, generation_of(word)) : 0;
}

uint64_t pawl__local_guard_owner(struct local *local, uint32_t bucket) {
    return owner_of(atomic_load(&local->table->buckets[bucket].guard));
}

/* Take the guard from its owner if that one is dead. */
static COLD bool steal(struct local *local, struct guard_visit *visit, uint64_t word) {
    uint64_t owner = owner_of(word);

    if (owner != 0 && !pawl__local_dead(local, owner) && !pawl__local_process_over(local, owner))
        return false;
    if (!atomic_compare_exchange_strong_explicit(&visit->bucket->guard, &word, local->guard | GUARD_SLEEPERS, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    visit->taken_from = (uint32_t)owner;
    pawl__local_repair(local, visit);
    return true;
}

/* Sleep until the guard is free, or the time is up. */
static void sleep_on(struct bucket *bucket, uint64_t word, int64_t ns) {
    if (!(word & GUARD_SLEEPERS) && !atomic_compare_exchange_strong(&bucket->guard, &word, word | GUARD_SLEEPERS))
        return;
    futex_wait(&bucket->guard, (uint32_t)(word | GUARD_SLEEPERS), ns);
}

int pawl__local_enter(struct local *local, struct guard_visit *visit, uint32_t hash, int64_t deadline, const _Atomic bool *stop) {
    int64_t wait = FIRST_WAIT, now, until;
    uint64_t word;

    if (pawl__local_enter_try(local, visit, hash))
        return PAWL__DONE;
    now = pawl__boottime();
    for (;;) {
        until = now + wait;
        while ((word = atomic_load(&visit->bucket->guard)) != 0 && now < until && now < deadline && !(stop && atomic_load(stop))) {
            sleep_on(visit->bucket, word, (until < deadline ? until : deadline) - now);
            now = pawl__boottime();
        }
        /* Others may sleep too, and the bit that said so is gone: set it again; the one that leaves wakes once too often. */
        if (word == 0 && take(local, visit->bucket, GUARD_SLEEPERS))
            return PAWL__DONE;
        if (word != 0 && steal(local, visit, word))
            return PAWL__DONE;
        if (now >= deadline || (stop && atomic_load(stop)))
            return PAWL__PENDING;
        wait = wait < LONGEST_WAIT ? 2 * wait : LONGEST_WAIT;
    }
}

static APART void unlock_slowly(struct local *local, struct bucket *bucket, uint64_t word) {
    if ((word & ~GUARD_SLEEPERS) != local->guard) { /* taken from us as from the dead: then we are, to all the others */
        atomic_store(&local->gone, true);
        return;
    }
    atomic_exchange_explicit(&bucket->guard, 0, memory_order_release);
    futex_wake(&bucket->guard, 1);
}

/* One CAS if nobody sleeps. */
static inline void unlock(struct local *local, struct bucket *bucket) {
    uint64_t word = local->guard;

    if (!LIKELY(atomic_compare_exchange_strong_explicit(&bucket->guard, &word, 0, memory_order_release, memory_order_relaxed)))
        unlock_slowly(local, bucket, word);
}

static void wake_all(struct local *local, struct guard_visit *visit) {
    for (unsigned i = 0; i < visit->wake_count; i++) {
        const struct wake *wake = &visit->wakes[i];

        if (wake->channel == 0)
            futex_wake(&local->table->nodes[wake->ref - 1].state, INT_MAX);
        else
            pawl__local_channel_poke(local, wake->slot, wake->channel - 1);
    }
    visit->wake_count = 0;
}

static COLD void note_taken(struct local *local, struct guard_visit *visit) {
    char who[WHO_SIZE];

    if (pawl__noting(&local->engine))
        pawl__note(&local->engine, NULL, "session %u (%s) died in the guard of bucket %u: repaired", visit->taken_from - 1,
                   pawl__local_who(local, visit->taken_from - 1, who, sizeof who),
                   (unsigned)(visit->bucket - local->table->buckets));
    visit->taken_from = 0;
}

/* More are to be granted than can be woken in one go. */
static COLD void go_on(struct local *local, struct guard_visit *visit, uint32_t hash) {
    UNCANCELLED;

    while (visit->more && pawl__local_enter(local, visit, hash, pawl__boottime() + 1000 * MS, NULL) == PAWL__DONE) {
        pawl__local_regrant_all(local, visit);
        unlock(local, visit->bucket);
        wake_all(local, visit);
    }
}

/* With the guard left behind: wake whom we granted or poked, and go on with what is left. */
static APART void finish(struct local *local, struct guard_visit *visit) {
    uint32_t hash = (uint32_t)(visit->bucket - local->table->buckets);
    bool damaged = visit->damaged, need_tokens = visit->need_tokens;

    wake_all(local, visit);
    if (visit->taken_from != 0)
        note_taken(local, visit);
    if (visit->more)
        go_on(local, visit, hash);
    visit->damaged |= damaged;
    visit->need_tokens |= need_tokens;
}

void pawl__local_leave(struct local *local, struct guard_visit *visit) {
    unlock(local, visit->bucket);
    if (!LIKELY((visit->wake_count | visit->taken_from | visit->more) == 0))
        finish(local, visit);
}
