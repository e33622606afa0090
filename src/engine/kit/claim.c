/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - see claim.h.
 */
#include "engine/kit/claim.h"

#include <assert.h>
#include <stdlib.h>

#include "os/bell.h"
#include "os/futex.h"

/* ---- The mutex ------------------------------------------------------------------------------------------------------------ */

void pawl__kit_init(struct kit *kit, struct pawl__engine *engine, const struct kit_ops *ops) {
    kit->engine = engine;
    kit->ops = ops;
    kit->bell = -1;
    pthread_mutex_init(&kit->mutex, NULL);
    TAILQ_INIT(&kit->outbox);
    TAILQ_INIT(&kit->timers);
}

void pawl__kit_free(struct kit *kit) {
    free(kit->notes.text);
    kit->notes = (struct kit_notes){0};
    pthread_mutex_destroy(&kit->mutex);
}

void pawl__kit_unlock_quietly(struct kit *kit) {
    struct kit_notes notes = pawl__kit_notes_take(&kit->notes);
    bool wakes = kit->wakes;

    kit->wakes = false;
    pthread_mutex_unlock(&kit->mutex);
    if (wakes)
        bell_ring(kit->bell);
    if (notes.used)
        pawl__kit_notes_tell(kit->engine, notes);
}

void pawl__kit_unlock(struct kit *kit) {
    if (kit->ops->unlocking)
        kit->ops->unlocking(kit);
    pawl__kit_unlock_quietly(kit);
}

static const char *name_of(const struct kit_claim *claim) {
    return claim ? claim->claim->name : NULL;
}

void pawl__kit_note(struct kit *kit, const struct kit_claim *claim, const char *format, ...) {
    va_list args;

    if (!pawl__noting(kit->engine))
        return;
    va_start(args, format);
    pawl__kit_notes_add(&kit->notes, KIT_NOTE, name_of(claim), format, args);
    va_end(args);
}

void pawl__kit_warn(struct kit *kit, const struct kit_claim *claim, const char *format, ...) {
    va_list args;

    if (!kit->engine->warn)
        return;
    va_start(args, format);
    pawl__kit_notes_add(&kit->notes, KIT_WARNING, name_of(claim), format, args);
    va_end(args);
}

/* ---- Telling -------------------------------------------------------------------------------------------------------------- */

/* `I`: it means nothing now, and is ignored. `X`: never. */
enum { X = KIT_NEVER, I = KIT_IGNORED };

static const uint8_t telling_moves[KIT_TELLINGS][KIT_TELLING_EVENTS] = {
    /* HAS_NEWS UNTELLS CALLS CALLS_LAST RETURNS */
    [KIT_IDLE] = {KIT_QUEUED, I, X, X, X},
    [KIT_QUEUED] = {I, KIT_IDLE, KIT_TELLING, KIT_LAST, X},
    [KIT_TELLING] = {I, I, X, X, KIT_IDLE}, /* news of that time is queued afterwards */
    [KIT_LAST] = {I, I, X, X, X},           /* who returns has the claim no more */
};

int pawl__kit_telling_move(enum kit_telling state, enum kit_telling_event event) {
    return telling_moves[state][event];
}

/* False: the event means nothing to it now. */
static bool step(struct kit_claim *claim, enum kit_telling_event event) {
    int next = telling_moves[claim->telling][event];

    assert(next != KIT_NEVER);
    if (next >= KIT_TELLINGS)
        return false;
    claim->telling = (enum kit_telling)next;
    return true;
}

static unsigned serves_news(const struct kit_claim *claim) {
    return claim->adopted ? claim->news : claim->news & ~(unsigned)KIT_PARKED;
}

static void queue(struct kit *kit, struct kit_claim *claim) {
    if (!serves_news(claim) || !step(claim, KIT_HAS_NEWS))
        return;
    TAILQ_INSERT_TAIL(&kit->outbox, claim, outbox);
    if (!kit->telling)
        kit->wakes = true;
}

void pawl__kit_wake_claim(struct kit *kit, struct kit_claim *claim) {
    if (claim->reader && claim->reader->sleeper == claim)
        kit->ops->wake_reader(kit, claim->reader);
    if (atomic_exchange(&claim->word, 0))
        futex_wake_own(&claim->word, 1);
}

void pawl__kit_tell(struct kit *kit, struct kit_claim *claim, unsigned news) {
    claim->news |= news;
    queue(kit, claim);
    if (news & KIT_PARKED && !claim->adopted)
        pawl__kit_wake_claim(kit, claim);
}

void pawl__kit_untell(struct kit *kit, struct kit_claim *claim) {
    claim->news &= KIT_PARKED;
    if (serves_news(claim) || !step(claim, KIT_UNTELLS))
        return;
    TAILQ_REMOVE(&kit->outbox, claim, outbox);
}

void pawl__kit_adopt(struct kit *kit, struct kit_claim *claim) {
    claim->adopted = true;
    queue(kit, claim);
}

static void fill_claim(const struct kit_claim *claim, unsigned news) {
    const struct kit_grant *grant = &claim->grant;

    if (news & KIT_GRANTED) {
        claim->claim->token = grant->token;
        claim->claim->token_count = grant->token_count;
        claim->claim->wanted = claim->wanted;
    }
    if (news & (KIT_GRANTED | KIT_RENEWED)) {
        claim->claim->sent_at = grant->sent_at;
        claim->claim->lease_ns = grant->lease_ns;
    }
}

static void call_up(const struct pawl__engine *engine, struct pawl__claim *claim, unsigned news, const struct pawl_error *why) {
    static const enum pawl__news order[] = {NEWS_GRANTED, NEWS_RENEWED, NEWS_WANTED, NEWS_LOST, NEWS_BROKEN, NEWS_DOWNGRADED};

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (news & 1u << order[i])
            engine->tell(engine->core, claim, order[i], 1u << order[i] & KIT_WHY ? why : NULL);
    if (news & KIT_REFUSED)
        engine->tell(engine->core, claim, NEWS_REFUSED, why);
    else if (news & KIT_GONE)
        engine->tell(engine->core, claim, NEWS_GONE, NULL);
}

static void tell_one(struct kit *kit, struct kit_claim *claim) {
    unsigned news = serves_news(claim);
    struct pawl_error why = claim->why;
    bool ends = news & (KIT_REFUSED | KIT_GONE);

    TAILQ_REMOVE(&kit->outbox, claim, outbox);
    claim->news &= ~news;
    step(claim, ends ? KIT_CALLS_LAST : KIT_CALLS);
    fill_claim(claim, news);
    pawl__kit_unlock(kit);
    call_up(kit->engine, claim->claim, news, &why);
    pawl__kit_lock(kit);
    if (ends)
        return; /* its memory is not ours any more */
    step(claim, KIT_RETURNS);
    queue(kit, claim);
    pawl__kit_wake_claim(kit, claim);
}

void pawl__kit_tell_all(struct kit *kit) {
    struct kit_claim *claim;

    while ((claim = TAILQ_FIRST(&kit->outbox)))
        tell_one(kit, claim);
    kit->telling = false;
    kit->wakes = false;
}

int pawl__kit_outcome(struct kit_claim *claim, struct pawl_error *reterr) {
    unsigned news = claim->news & KIT_PARKED;

    claim->news &= ~news;
    fill_claim(claim, news);
    if (news & KIT_REFUSED) {
        if (reterr)
            *reterr = claim->why;
        return claim->why.code;
    }
    return news & KIT_GONE && claim->was_lost ? PAWL_ELOST : PAWL__DONE;
}
