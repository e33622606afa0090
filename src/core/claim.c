/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - the life of a claim: submitted, held, lost or withdrawn, gone. The only file that calls the engine about claims.
 *
 * Invariants
 *   - A claim is in cohort->claims while it is PENDING or HELD, in the order of submission, and in cohort->leaving while it is LEAVING.
 *     It is in cohort->unsettled too while its withdrawal or downgrade is under way and nobody looks after it: the thread that unlocks
 *     the cohort next does.
 *   - PENDING: it has waiters and no holds; or it is doomed, has neither, and the thread that is parked on it withdraws it.
 *   - HELD: it has holds; it has waiters only if it is exclusive.
 *   - Nothing but unpark() is called for a claim while `parked`; whoever parks looks at it afterwards and cleans up.
 *   - Lost is final for the holds, never for the claim: it is withdrawn until it is gone.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "base/error.h"
#include "base/lease.h"

/* How long a thread that let go of something waits for the engine to take note, before the service thread does. */
#define SETTLE_NS (20 * INT64_C(1000000))
/* May a claim go on beyond its bounds? It asks when a quarter of its hand-offs is left, or half of its time: so that where holds are
 * shorter than that somebody joins in the second half. After a question in vain, 1, 3, 7, ... up to EXTEND_RESTS claims do not ask. None
 * goes on for ever: its tokens are counted in 32 bits. */
enum { EXTEND_HANDOFFS = 4, EXTEND_TIME = 2, EXTEND_RESTS = 63, EXTEND_SERVED = 1 << 30 };
/* The part of a lease by which a hold may be renewed earlier than it must, together with others. */
enum { RENEW_EARLY = 30 };

static const bool claim_transitions[][CLAIM_GONE + 1] = {
    [CLAIM_NEW] = {[CLAIM_PENDING] = true, [CLAIM_HELD] = true, [CLAIM_GONE] = true},
    [CLAIM_PENDING] = {[CLAIM_HELD] = true, [CLAIM_LEAVING] = true, [CLAIM_GONE] = true},
    [CLAIM_HELD] = {[CLAIM_LEAVING] = true, [CLAIM_GONE] = true},
    [CLAIM_LEAVING] = {[CLAIM_GONE] = true},
    [CLAIM_GONE] = {false},
};

static void set_state(struct claim *claim, enum claim_state state) {
    assert(claim_transitions[claim->state][state]);
    claim->state = state;
}

struct claim *pawl__claim_new(struct cohort *cohort, const struct waiter *waiter, bool try_only) {
    struct pawl *client = cohort->client;
    size_t state_size = cohort->engine->impl->claim_size;
    struct claim *claim = cohort->spare;

    cohort->spare = NULL;
    if (!claim && !(claim = malloc(sizeof *claim + state_size)))
        return NULL;
    memset(claim, 0, sizeof *claim + state_size);
    claim->cohort = cohort;
    claim->serves_most = 1 + client->handoffs;
    TAILQ_INIT(&claim->waiters);
    TAILQ_INIT(&claim->holds);
    claim->seam = (struct pawl__claim){
        .id = {client->id, cohort->next_id++},
        .name = cohort->name,
        .name_length = cohort->name_length,
        .name_hash = cohort->name_hash,
        .kind = cohort->kind,
        .mode = waiter->mode,
        .permits = waiter->permits,
        .limit = cohort->limit,
        .nonreentrant = cohort->nonreentrant,
        .try_only = try_only,
        .max_hold_ns = waiter->max_hold_ns,
        .token_want = pawl__cohort_tokens(cohort, cohort->tokens_used),
    };
    cohort->claim_count++;
    return claim;
}

/* The engine has forgotten the claim, and so do we. */
static void gone(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    struct pawl *client = cohort->client;

    assert(TAILQ_EMPTY(&claim->waiters) && TAILQ_EMPTY(&claim->holds));
    if (claim->state == CLAIM_LEAVING) {
        TAILQ_REMOVE(&cohort->leaving, claim, link);
        pawl__client_one_less(client, &client->leaving);
    }
    set_state(claim, CLAIM_GONE);
    cohort->claim_count--;
    if (cohort->spare)
        free(claim);
    else
        cohort->spare = claim;
}

bool pawl__claim_served(const struct claim *claim) {
    return claim->adopted || !claim->cohort->engine->impl->parking;
}

uint64_t pawl__claim_token(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;

    if (claim->tokens_used < claim->seam.token_count)
        return claim->seam.token + claim->tokens_used++;
    return engine->impl->extras->retoken ? engine->impl->extras->retoken(engine, &claim->seam) : 0;
}

static bool nears_bounds(const struct claim *claim) {
    const struct pawl *client = claim->cohort->client;

    return claim->served + client->handoffs / EXTEND_HANDOFFS >= claim->serves_most ||
           (claim->join_until && pawl__boottime() >= claim->join_until - client->handoff_ns / EXTEND_TIME);
}

void pawl__claim_ask_to_go_on(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    struct pawl__engine *engine = cohort->engine;

    if (!engine->impl->extras->extend || claim->state != CLAIM_HELD || claim->seam.mode != PAWL_EXCLUSIVE || claim->extend_sent ||
        cohort->extend_rests || claim->served >= EXTEND_SERVED || !nears_bounds(claim))
        return;
    claim->extend_sent = pawl__boottime();
    engine->impl->extras->extend(engine, &claim->seam, claim->served + cohort->client->handoffs - claim->seam.token_count);
}

void pawl__claim_go_on(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    uint32_t more;

    if (!claim->extend_sent)
        return;
    more = cohort->engine->impl->extras->extended(cohort->engine, &claim->seam);
    claim->extend_missed = more == 0;
    if (!more)
        return;
    claim->seam.token_count += more;
    claim->serves_most = claim->seam.token_count;
    claim->join_until = pawl__time_add(claim->extend_sent, cohort->client->handoff_ns);
    claim->extend_sent = 0;
    cohort->extend_misses = 0;
    pawl__note(cohort->engine, &claim->seam, "goes on, since nobody else waits: %u tokens more", more);
}

/* The claim ends. Was it in vain that it asked? Then the next ones do not: others want the lock, or the answer takes too long. */
static void judge_extension(const struct claim *claim) {
    struct cohort *cohort = claim->cohort;

    if (cohort->extend_rests) {
        cohort->extend_rests--;
    } else if (claim->extend_missed) {
        if (cohort->extend_misses < EXTEND_RESTS)
            cohort->extend_misses = 2 * cohort->extend_misses + 1;
        cohort->extend_rests = cohort->extend_misses;
    }
}

static void note_lease(struct claim *claim) {
    int64_t sent_at = claim->seam.sent_at, lease = claim->seam.lease_ns;

    claim->lease_ns = lease;
    claim->renew_at = pawl__lease_renew_at(sent_at, lease);
    claim->suspect_at = pawl__lease_suspect_at(sent_at, lease);
    claim->assured_until = pawl__lease_assured_until(sent_at, lease);
    if (claim->hold_until <=
        pawl__time_add(sent_at, lease)) { /* so its last one: there is nothing to renew, and nothing is amiss */
        claim->renew_at = claim->suspect_at = PAWL__NEVER;
        if (claim->hold_until < claim->assured_until)
            claim->assured_until = claim->hold_until;
    }
    if (claim->assured_until != PAWL__NEVER)
        pawl__service_due(claim->cohort->client, claim->renew_at < claim->assured_until ? claim->renew_at : claim->assured_until);
}

/* When the claim's time is over, however often it is renewed. */
static int64_t hold_until(const struct claim *claim) {
    const struct pawl__claim *seam = &claim->seam;

    if (!seam->max_hold_ns)
        return PAWL__NEVER;
    return pawl__time_add(seam->lease_ns == PAWL__NEVER ? pawl__boottime() : seam->sent_at, seam->max_hold_ns);
}

/* The engine has granted the claim: so are its first waiter, or all that share it. */
static void granted(struct claim *claim) {
    struct waiter *waiter;
    uint64_t token;

    assert(claim->seam.token_count > 0);
    set_state(claim, CLAIM_HELD);
    claim->hold_until = hold_until(claim);
    note_lease(claim);
    if (TAILQ_EMPTY(&claim->waiters)) {
        pawl__claim_retire(claim);
        return;
    }
    while ((waiter = TAILQ_FIRST(&claim->waiters)) && (token = pawl__claim_token(claim))) {
        pawl__cohort_grant(claim, waiter, token);
        if (claim->seam.mode != PAWL_SHARED)
            return;
    }
    pawl__cohort_rehome(claim);
}

/* The engine does not want the claim, and has forgotten it. */
void pawl__claim_refused(struct claim *claim, const struct pawl_error *why) {
    struct waiter *waiter;

    if (claim->state == CLAIM_PENDING)
        TAILQ_REMOVE(&claim->cohort->claims, claim, link);
    claim->doomed = true; /* so that ending its last waiter does not withdraw it */
    while ((waiter = TAILQ_FIRST(&claim->waiters)))
        pawl__cohort_end(waiter, why->code, "%s", why->text);
    gone(claim);
}

/* The engine's answer to submit. */
static void submitted(struct claim *claim, int rc, const struct pawl_error *error) {
    if (rc < 0) {
        pawl__claim_refused(claim, error);
        return;
    }
    TAILQ_INSERT_TAIL(&claim->cohort->claims, claim, link);
    if (rc == PAWL__DONE) {
        granted(claim);
        return;
    }
    set_state(claim, CLAIM_PENDING);
    pawl__cohort_nudge(claim);
}

void pawl__claim_submit(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    struct pawl_error error;

    submitted(claim, engine->impl->submit(engine, &claim->seam, &error), &error);
}

void pawl__claim_submit_all(struct claim *const claims[], size_t count) {
    struct pawl__engine *engine = claims[0]->cohort->engine;
    struct pawl__claim *seams[PAWL__TOGETHER_MAX] = {NULL};
    struct pawl_error error;
    int rc;

    for (size_t i = 0; i < count; i++)
        seams[i] = &claims[i]->seam;
    rc = engine->impl->extras->submit_all(engine, seams, count, &error);
    for (size_t i = 0; i < count; i++)
        submitted(claims[i], rc, &error);
}

int pawl__claim_retire(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    struct pawl__engine *engine = cohort->engine;
    int rc;

    assert(TAILQ_EMPTY(&claim->waiters) && TAILQ_EMPTY(&claim->holds));
    if (claim->parked) {
        claim->doomed = true;
        engine->impl->parking->unpark(engine, &claim->seam);
        return 0;
    }
    if (claim->tokens_used)
        cohort->tokens_used = claim->tokens_used;
    judge_extension(claim);
    TAILQ_REMOVE(&cohort->claims, claim, link);
    rc = engine->impl->withdraw(engine, &claim->seam);
    if (rc != PAWL__PENDING) {
        gone(claim);
        return rc < 0 ? rc : 0;
    }
    set_state(claim, CLAIM_LEAVING);
    claim->retired_by = pthread_self();
    TAILQ_INSERT_TAIL(&cohort->leaving, claim, link);
    atomic_fetch_add(&cohort->client->leaving, 1);
    if (!pawl__claim_served(claim))
        TAILQ_INSERT_TAIL(&cohort->unsettled, claim, unsettled);
    return 0;
}

/* Run park() without the mutex. The caller is counted in client->inside, so that the engine stays open. */
static int park(struct claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct cohort *cohort = claim->cohort;
    struct pawl *client = cohort->client;
    int rc;

    claim->parked = true;
    pawl__cohort_let_go(cohort);
    rc = client->engine->impl->parking->park(client->engine, &claim->seam, deadline, reterr);
    pthread_mutex_lock(&cohort->mutex);
    claim->parked = false;
    return rc;
}

void pawl__claim_park(struct claim *claim, int64_t deadline) {
    struct pawl_error error;
    int rc = park(claim, deadline, &error);

    if (rc == PAWL__DONE)
        granted(claim);
    else if (rc < 0)
        pawl__claim_refused(claim, &error);
    else if (TAILQ_EMPTY(&claim->waiters))
        pawl__claim_retire(claim);
    else
        pawl__cohort_nudge(claim);
}

bool pawl__claim_adopt(struct claim *claim) {
    struct pawl *client = claim->cohort->client;

    if (!pawl__service_start(client))
        return false;
    claim->adopted = true;
    client->engine->impl->parking->adopt(client->engine, &claim->seam);
    client->engine->impl->wake(client->engine);
    return true;
}

static void downgraded(struct claim *claim) {
    claim->downgrading = false;
    claim->seam.mode = PAWL_SHARED;
}

/* The engine has done, in this thread, what was asked of it last. */
static void settled(struct claim *claim) {
    if (claim->state == CLAIM_LEAVING) {
        gone(claim);
        return;
    }
    if (claim->downgrading)
        downgraded(claim);
    if (claim->doomed)
        pawl__claim_retire(claim);
}

/* Let the engine finish in this thread; if that takes longer than a moment, in the service thread. PAWL_ELOST: what this thread
 * released had been lost before. */
static int settle(struct claim *claim) {
    struct pawl *client = claim->cohort->client;
    bool ours = claim->state == CLAIM_LEAVING && pthread_equal(claim->retired_by, pthread_self());
    int rc;

    do {
        rc = park(claim, pawl__boottime() + SETTLE_NS, NULL);
        if (rc != PAWL__PENDING) {
            settled(claim);
            return ours && rc == PAWL_ELOST ? rc : 0;
        }
    } while (!pawl__claim_adopt(claim) && !atomic_load(&client->closed));
    if (claim->doomed && claim->state == CLAIM_HELD) /* it was to be withdrawn while its downgrade was under way */
        pawl__claim_retire(claim);
    return 0;
}

int pawl__claim_settle_all(struct cohort *cohort) {
    struct claim *claim;
    int rc = 0;

    if (TAILQ_EMPTY(&cohort->unsettled))
        return 0;
    atomic_fetch_add(&cohort->client->inside, 1);
    while ((claim = TAILQ_FIRST(&cohort->unsettled))) {
        TAILQ_REMOVE(&cohort->unsettled, claim, unsettled);
        if (settle(claim) == PAWL_ELOST)
            rc = PAWL_ELOST;
    }
    pawl__client_one_less(cohort->client, &cohort->client->inside);
    return rc;
}

void pawl__claim_adopt_all(struct cohort *cohort) {
    struct claim *claim;

    while ((claim = TAILQ_FIRST(&cohort->unsettled)) && pawl__claim_adopt(claim))
        TAILQ_REMOVE(&cohort->unsettled, claim, unsettled);
}

static void post_loss(struct hold *hold, enum pawl_state state, const struct pawl_error *why) {
    struct event *event;

    if (!hold->lock->on_loss || !(event = calloc(1, sizeof *event)))
        return;
    event->lock = hold->lock;
    event->lock->references++;
    event->state = state;
    event->token = hold->token;
    event->error = *why;
    pawl__event_post(hold->lock->client, event);
}

/* The holds are lost. After a break the claim stays until they are released: that is what the one who broke it waits for. */
static void lose(struct claim *claim, bool broken, const struct pawl_error *why) {
    struct hold *hold;

    if (claim->lost)
        return;
    claim->lost = true;
    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        hold->lost = true;
        post_loss(hold, PAWL_LOST, why);
    }
    pawl__cohort_rehome(claim);
    if (broken)
        return;
    while ((hold = TAILQ_FIRST(&claim->holds))) {
        TAILQ_REMOVE(&claim->holds, hold, of_claim);
        hold->claim = NULL;
    }
    pawl__claim_retire(claim);
}

static void lose_broken(struct claim *claim) {
    struct pawl_error why;

    pawl__fail(&why, PAWL_EBROKEN, "the hold of '%s' was broken by an operator: stop and release it", claim->cohort->name);
    lose(claim, true, &why);
}

static void lose_gone(struct claim *claim) {
    struct pawl_error why;

    pawl__fail(&why, PAWL_ELOST,
               "'%s' is lost: %s was removed or renamed while this process used it, and others may be in a new one",
               claim->cohort->name, claim->cohort->client->info.url);
    lose(claim, false, &why);
}

/* Ask an engine whose holders can see for themselves. True: it is lost, and its holders are told. */
static bool look(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    int rc = engine->impl->extras->check ? engine->impl->extras->check(engine, &claim->seam) : 0;

    if (rc == PAWL_EGONE)
        lose_gone(claim);
    else if (rc < 0)
        lose_broken(claim);
    return rc < 0;
}

static void lose_expired(struct claim *claim) {
    struct pawl_error why;

    if (claim->renew_at == PAWL__NEVER)
        pawl__fail(&why, PAWL_EEXPIRED, "'%s' was held for %lld ms, as long as its max-hold allows", claim->cohort->name,
                   (long long)(claim->seam.max_hold_ns / 1000000));
    else
        pawl__fail(&why, PAWL_EEXPIRED, "the lease of '%s' ran out: it could not be renewed in time", claim->cohort->name);
    lose(claim, false, &why);
}

void pawl__claim_refresh(struct claim *claim) {
    if (claim->state != CLAIM_HELD || claim->lost || look(claim))
        return;
    if (claim->assured_until != PAWL__NEVER && pawl__boottime() >= claim->assured_until)
        lose_expired(claim);
}

static void suspect(struct claim *claim) {
    struct pawl_error why;
    struct hold *hold;

    claim->suspect = true;
    pawl__fail(&why, PAWL_ELOST, "the lease of '%s' was not renewed for two thirds of its time", claim->cohort->name);
    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        post_loss(hold, PAWL_SUSPECT, &why);
    }
}

/* Renewed after all. */
static void recover(struct claim *claim) {
    struct pawl_error why;
    struct hold *hold;

    claim->suspect = false;
    pawl__fail(&why, 0, "the lease of '%s' is renewed again", claim->cohort->name);
    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        post_loss(hold, PAWL_HELD, &why);
    }
}

int64_t pawl__claim_tick(struct claim *claim, int64_t now) {
    struct pawl__engine *engine = claim->cohort->engine;

    if (claim->state != CLAIM_HELD || claim->lost)
        return PAWL__NEVER;
    if (atomic_load(&claim->cohort->client->attentive) && look(claim))
        return PAWL__NEVER;
    if (claim->assured_until == PAWL__NEVER)
        return PAWL__NEVER;
    if (now >= claim->assured_until) {
        lose_expired(claim);
        return PAWL__NEVER;
    }
    /* Holds whose time has nearly come go along: so that thousands of them are renewed in a few rounds, not one by one. */
    if (!claim->renewing && claim->renew_at != PAWL__NEVER && now >= claim->renew_at - claim->lease_ns / RENEW_EARLY) {
        claim->renewing = true;
        engine->impl->renew(engine, &claim->seam);
    }
    if (!claim->suspect && now >= claim->suspect_at)
        suspect(claim);
    if (!claim->renewing && claim->renew_at != PAWL__NEVER)
        return claim->renew_at;
    return claim->suspect || claim->suspect_at == PAWL__NEVER ? claim->assured_until : claim->suspect_at;
}

int pawl__claim_downgrade(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    struct pawl__engine *engine = cohort->engine;
    int rc;

    /* Its exclusive waiters can't be served by a shared claim: they queue anew, behind the readers that come in now. */
    pawl__cohort_rehome(claim);
    rc = engine->impl->extras->downgrade(engine, &claim->seam);
    if (rc < 0) {
        if (!look(claim))
            lose_broken(claim);
        return PAWL_ELOST;
    }
    if (rc == PAWL__DONE) {
        downgraded(claim);
        return 0;
    }
    claim->downgrading = true;
    if (!pawl__claim_served(claim))
        TAILQ_INSERT_TAIL(&cohort->unsettled, claim, unsettled);
    return 0;
}

static void renewed(struct claim *claim) {
    /* An answer that came too late changes nothing: what was lost stays lost. */
    pawl__claim_refresh(claim);
    if (claim->state != CLAIM_HELD || claim->lost)
        return;
    claim->renewing = false;
    if (claim->suspect)
        recover(claim);
    note_lease(claim);
}

static void told_lost(struct claim *claim, bool broken, const struct pawl_error *why) {
    struct pawl_error told = *why;

    told.code = broken ? PAWL_EBROKEN : why->code;
    if (claim->state == CLAIM_HELD)
        lose(claim, broken, &told);
    pawl__claim_adopt_all(claim->cohort); /* this thread keeps time: it must not stop to settle anything itself */
}

static void take_news(struct claim *claim, enum pawl__news news, const struct pawl_error *why) {
    switch (news) {
    case NEWS_GRANTED:
        if (claim->state == CLAIM_PENDING)
            granted(claim);
        break;
    case NEWS_REFUSED:
        pawl__claim_refused(claim, why);
        break;
    case NEWS_GONE:
        gone(claim);
        break;
    case NEWS_DOWNGRADED:
        if (claim->state == CLAIM_HELD && claim->downgrading) /* else it was withdrawn since, and GONE will follow */
            downgraded(claim);
        break;
    case NEWS_RENEWED:
        renewed(claim);
        break;
    case NEWS_LOST:
    case NEWS_BROKEN:
        told_lost(claim, news == NEWS_BROKEN, why);
        break;
    }
}

/* The claim can't vanish before the mutex is taken: only GONE and REFUSED end it. */
void pawl__tell(void *core, struct pawl__claim *seam, enum pawl__news news, const struct pawl_error *why) {
    struct claim *claim = claim_of(seam);
    struct cohort *cohort = claim->cohort;

    (void)core;
    pthread_mutex_lock(&cohort->mutex);
    take_news(claim, news, why);
    pawl__cohort_unlock(cohort);
}
