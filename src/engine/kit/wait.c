/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - see wait.h.
 */
#include "engine/kit/wait.h"

#include "os/futex.h"
#include "os/sleep.h"

void pawl__kit_reader_init(struct kit_reader *reader) {
    *reader = (struct kit_reader){0};
    TAILQ_INIT(&reader->followers);
}

static bool can_read(const struct kit *kit, const struct kit_reader *reader) {
    return !kit->ops->can_read || kit->ops->can_read(reader);
}

bool pawl__kit_take_reading(struct kit *kit, struct kit_reader *reader) {
    if (reader->taken || !can_read(kit, reader))
        return false;
    return reader->taken = true;
}

void pawl__kit_pass_reading(struct kit *kit, struct kit_reader *reader) {
    struct kit_claim *next = can_read(kit, reader) ? TAILQ_FIRST(&reader->followers) : NULL;

    reader->taken = next != NULL;
    if (!next) {
        kit->ops->left(kit, reader);
        return;
    }
    TAILQ_REMOVE(&reader->followers, next, follower);
    next->waits = KIT_READS_NEXT;
    pawl__kit_wake_claim(kit, next);
}

static void stop_following(struct kit_claim *claim) {
    if (claim->waits != KIT_FOLLOWS)
        return;
    TAILQ_REMOVE(&claim->reader->followers, claim, follower);
    claim->waits = KIT_AWAKE;
}

void pawl__kit_interrupt(struct kit *kit, struct kit_claim *claim) {
    if (claim && kit->engine->interruptible)
        claim->unparked = true;
}

static void follow(struct kit *kit, struct kit_claim *claim, int64_t deadline) {
    bool undisturbed;

    atomic_store(&claim->word, 1);
    claim->waits = KIT_FOLLOWS;
    TAILQ_INSERT_TAIL(&claim->reader->followers, claim, follower);
    pawl__kit_unlock(kit);
    undisturbed = futex_wait_own(&claim->word, 1, pawl__nap_ns(pawl__boottime(), deadline));
    pawl__kit_lock(kit);
    if (!undisturbed)
        pawl__kit_interrupt(kit, claim);
    atomic_store(&claim->word, 0);
    stop_following(claim);
}

/* Is it to read next? Then it does. */
static bool inherits(struct kit_claim *claim) {
    bool next = claim->waits == KIT_READS_NEXT;

    claim->waits = KIT_AWAKE;
    return next;
}

/* One step of waiting. *reads is where this thread reads, or NULL. */
static void wait_once(struct kit *kit, struct kit_claim *claim, struct kit_reader **reads, int64_t deadline) {
    struct kit_reader *reader = claim->reader;
    bool open = !(claim->news & KIT_PARKED);

    if (inherits(claim))
        *reads = reader;
    /* The claim has another reader now; or there is nothing to read; or it is decided, and serve() is in its upcall. */
    if (*reads && (*reads != reader || !can_read(kit, reader) || !open)) {
        pawl__kit_pass_reading(kit, *reads);
        *reads = NULL;
    }
    if (!*reads && open && pawl__kit_take_reading(kit, reader))
        *reads = reader;
    if (*reads)
        kit->ops->read(kit, reader, claim, deadline);
    else
        follow(kit, claim, deadline);
}

int pawl__kit_park(struct kit *kit, struct kit_claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct kit_reader *reads = NULL;

    while (!pawl__kit_decided(claim) && !claim->unparked && pawl__boottime() < deadline)
        wait_once(kit, claim, &reads, deadline);
    if (inherits(claim))
        reads = claim->reader;
    if (reads)
        pawl__kit_pass_reading(kit, reads);
    claim->unparked = false;
    return pawl__kit_decided(claim) ? pawl__kit_outcome(claim, reterr) : PAWL__PENDING;
}

void pawl__kit_unpark(struct kit *kit, struct kit_claim *claim) {
    claim->unparked = true;
    pawl__kit_wake_claim(kit, claim);
}

void pawl__kit_move(struct kit *kit, struct kit_claim *claim, struct kit_reader *reader) {
    struct kit_reader *old = claim->reader;

    pawl__kit_wake_claim(kit, claim);
    stop_following(claim);
    if (inherits(claim))
        pawl__kit_pass_reading(kit, old);
    claim->reader = reader;
}
