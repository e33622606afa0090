/* SPDX-License-Identifier: Apache-2.0
 *
 * claim.c - one entry in the engine's queue, from submit to gone. The only file that calls the engine about claims.
 *
 * It calls nothing above it, and does not look at waiters and holds: each function makes one call, moves the claim by the table below, and
 * returns what became of it. What follows for those who wait and hold is cohort.c's.
 *
 * Invariants
 *   - A claim is in cohort->claims while it is PENDING, HELD, KEPT or LOST, in the order of submission, and in cohort->leaving while it is
 *     LEAVING. It is in cohort->unsettled too while its withdrawal or downgrade is under way and nobody looks after it: the thread that
 *     unlocks the cohort next does, or the one that withdrew it comes back to it (sets: `awaited`), or nobody can for now (no service
 *     thread).
 *   - PENDING: it has waiters and no holds; or neither, with withdraw_after_park: the thread that is parked on it withdraws it.
 *   - HELD: it has holds; it has waiters only if it is exclusive.
 *   - OPEN: it is exclusive, has waiters and no holds, and the first waiter is a thread that was called (handoff.c).
 *   - KEPT: it has neither, and is the last of cohort->claims. keep.c has the rules.
 *   - LOST: its holds were told. It is withdrawn at once, or after a break when they have let go.
 *   - Nothing but unpark() is called for a claim while `parked`; the thread that parks looks at it afterwards and cleans up.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/claim.h"
#include "base/error.h"
#include "base/lease.h"
#include "os/uncancelled.h"

/* How long a thread that let go of something waits for the engine to take note, before the service thread does. */
#define SETTLE_NS (20 * INT64_C(1000000))
/* A claim that nobody else wants orders more tokens, as many as it had so far, within these bounds, when half of its stock is drawn. With
 * less than ORDER_LEAST in stock it waits until a quarter is left, since that may be enough. ORDER_LAST: a claim counts its tokens in 32
 * bits. */
enum { ORDER_LEAST = 1 + PAWL_HANDOFFS, ORDER_MAX = 1024, ORDER_LAST = 1 << 30 };
/* How many tokens are asked for with a claim that may be kept: each engine has so many. */
enum { KEEP_TOKENS = 1 + PAWL_HANDOFFS };
/* A cohort takes so many numbers for its claims at a time: a program that makes a handle for each use has a new cohort each time, and 2^46
 * of them are enough. */
enum { NUMBERS = 1 << 16 };
/* Less assured time than that is none: pawl_remaining_ms() says 0 of it. */
#define LEAST_NS INT64_C(1000000)
/* The clock's ticks are relied on while so much is left: they come late where the CPU that makes them is not run. */
#define FRESH_NS PAWL__NS_PER_S
/* A hold may be renewed by this part of its lease too early, so that many go in one request. */
enum { RENEW_EARLY = 30 };

/* ---- The states ----------------------------------------------------------------------------------------------------------- */

/* `i`: it means nothing any more, and is ignored. `x`: an engine never says so. */
enum { x = CLAIM_NEVER, i = CLAIM_IGNORED };
enum { P = CLAIM_PENDING, H = CLAIM_HELD, O = CLAIM_OPEN, K = CLAIM_KEPT, L = CLAIM_LOST, W = CLAIM_LEAVING, G = CLAIM_GONE };

static const uint8_t moves[CLAIM_STATES][CLAIM_OUTCOMES] = {
    /* GRANTED REFUSED GONE DOWNGRADED RENEWED LOST BROKEN WANTED | QUEUED LEAVES OPENS RESTS RESUMES */
    [CLAIM_NEW] = {H, G, x, x, x, x, x, x, P, x, x, x, x},     /* made, and not submitted yet */
    [CLAIM_PENDING] = {H, G, G, i, i, P, P, P, P, W, x, x, x}, /* submitted */
    [CLAIM_HELD] = {i, x, G, H, H, L, L, H, x, W, O, K, x},    /* granted */
    [CLAIM_OPEN] = {i, x, G, x, O, L, L, O, x, W, O, K, H},    /* granted, and for the first thread of this process that comes */
    [CLAIM_KEPT] = {i, x, G, x, K, L, L, K, x, W, x, x, H},    /* granted, and nobody in this process holds it */
    [CLAIM_LOST] = {i, x, G, L, i, i, i, i, x, W, x, x, x},    /* granted, and not to be relied on any more */
    [CLAIM_LEAVING] = {i, G, G, i, i, i, i, i, x, x, x, x, x}, /* withdrawn; a refusal may have been on its way */
    [CLAIM_GONE] = {x, x, x, x, x, x, x, x, x, x, x, x, x},    /* the engine has forgotten it */
};

int pawl__claim_move(enum claim_state state, int outcome) {
    return moves[state][outcome];
}

/* In which list it is: none, cohort->claims, or cohort->leaving. */
enum { LIST_NONE, LIST_CLAIMS, LIST_LEAVING };
static const uint8_t lists[CLAIM_STATES] = {
    [CLAIM_PENDING] = LIST_CLAIMS, [CLAIM_HELD] = LIST_CLAIMS, [CLAIM_OPEN] = LIST_CLAIMS,
    [CLAIM_KEPT] = LIST_CLAIMS,    [CLAIM_LOST] = LIST_CLAIMS, [CLAIM_LEAVING] = LIST_LEAVING,
};

static void change_list(struct claim *claim, int from, int to) {
    struct cohort *cohort = claim->cohort;

    if (from == LIST_CLAIMS) {
        TAILQ_REMOVE(&cohort->claims, claim, link);
    } else if (from == LIST_LEAVING) {
        TAILQ_REMOVE(&cohort->leaving, claim, link);
        pawl__client_one_less(cohort->client, &cohort->client->leaving);
    }
    if (to == LIST_CLAIMS) {
        TAILQ_INSERT_TAIL(&cohort->claims, claim, link);
    } else if (to == LIST_LEAVING) {
        TAILQ_INSERT_TAIL(&cohort->leaving, claim, link);
        atomic_fetch_add(&cohort->client->leaving, 1);
    }
}

/* The only one that changes the state. False: the outcome means nothing to a claim in this state. */
static inline bool step(struct claim *claim, int outcome) {
    int next = moves[claim->state][outcome];

    assert(next != CLAIM_NEVER);
    if (next == CLAIM_NEVER || next == CLAIM_IGNORED)
        return false;
    if (lists[claim->state] != lists[next])
        change_list(claim, lists[claim->state], lists[next]);
    claim->state = (enum claim_state)next;
    return true;
}

static bool is_granted(const struct claim *claim) {
    return claim->state == CLAIM_HELD || claim->state == CLAIM_OPEN || claim->state == CLAIM_KEPT;
}

/* ---- Memory --------------------------------------------------------------------------------------------------------------- */

uint32_t pawl__claim_tokens(const struct cohort *cohort, uint32_t used) {
    uint32_t most = 1 + cohort->client->options.handoffs;

    return used < 2 ? used : used < most / 2 ? used * 2 : most;
}

/* What is the same for all claims of the cohort. */
static struct claim *make_claim(struct cohort *cohort) {
    struct claim *claim = malloc(sizeof *claim + cohort->engine->impl->claim_size);

    if (!claim)
        return NULL;
    claim->cohort = cohort;
    TAILQ_INIT(&claim->waiters);
    TAILQ_INIT(&claim->holds);
    claim->seam = (struct pawl__claim){
        .id = {cohort->client->id},
        .name = cohort->name,
        .name_length = cohort->name_length,
        .name_hash = cohort->name_hash,
        .kind = cohort->kind,
        .limit = cohort->limit,
        .nonreentrant = cohort->nonreentrant,
    };
    return claim;
}

/* Of one client no two claims have the same, and a cohort's rise. Servers send them back, and are read by strtoll(): all that a client will
 * ever need must be positive, and below 2^62, where an engine's own begin (redis/lock/claim.c). */
static uint64_t take_number(struct cohort *cohort) {
    if (cohort->next_id % NUMBERS == 0)
        cohort->next_id = atomic_fetch_add(&cohort->client->blocks, 1) * NUMBERS;
    return cohort->next_id++;
}

struct claim *pawl__claim_new(struct cohort *cohort, const struct claim_terms *terms) {
    struct claim *claim = cohort->spare ? cohort->spare : make_claim(cohort);

    if (!claim)
        return NULL;
    cohort->spare = NULL;
    cohort->claim_count++;
    cohort->counts.claims++;
    memset((char *)claim + offsetof(struct claim, state), 0, offsetof(struct claim, seam) - offsetof(struct claim, state));
    memset(pawl__engine_state(&claim->seam), 0, cohort->engine->impl->claim_size);
    claim->bounds.join_limit = 1 + cohort->client->options.handoffs;
    claim->label = terms->label;
    if (terms->label)
        terms->label->references++;
    claim->seam.label = terms->label ? terms->label->text : NULL;
    claim->seam.id[1] = take_number(cohort);
    claim->seam.mode = terms->mode;
    claim->seam.permits = terms->permits;
    claim->seam.try_only = terms->try_only;
    claim->seam.max_hold_ns = terms->max_hold_ns;
    atomic_init(&claim->seam.hold_until, 0);
    claim->seam.keep_ns = pawl__keep_ns(cohort, terms);
    claim->seam.hears = pawl__keep_hears(cohort, terms);
    atomic_init(&claim->seam.handed_on, false);
    atomic_init(&claim->seam.place, 0);
    claim->seam.token = 0;
    claim->seam.token_count = 0;
    claim->seam.wanted = false;
    atomic_init(&claim->seam.token_want, claim->seam.keep_ns ? KEEP_TOKENS : pawl__claim_tokens(cohort, cohort->tokens_used));
    return claim;
}

void pawl__claim_free(struct claim *claim) {
    struct cohort *cohort = claim->cohort;

    assert(claim->state == CLAIM_GONE && TAILQ_EMPTY(&claim->waiters) && TAILQ_EMPTY(&claim->holds));
    cohort->claim_count--;
    if (claim->keeping.counted)
        atomic_fetch_sub(&cohort->client->keeping, 1);
    if (claim->label)
        pawl__label_put(claim->label);
    if (cohort->spare)
        free(claim);
    else
        cohort->spare = claim;
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------- */

/* A hold is begun only if there is a token for it, and gets it when it first asks: most never do. So pawl_token() asks nobody, and no
 * server is asked for tokens that nobody uses. Late is not wrong: what a claim has in stock is above the tokens of all claims before it,
 * and below those of all that come after it. Under one claim exclusive holds follow each other, and so do their tokens.
 *
 * Where a claim may last for long its stock is filled up in the background. If it is empty before that, the claim is given back. */

static int ask_for_tokens(struct claim *claim, uint32_t *ret) {
    struct pawl__engine *engine = claim->cohort->engine;
    uint32_t want = claim->seam.token_count;

    UNCANCELLED_IF(does_io(claim));
    want = want < ORDER_LEAST ? ORDER_LEAST : want < ORDER_MAX ? want : ORDER_MAX;
    return engine->impl->extras->tokens(engine, &claim->seam, want, ret);
}

/* After the stock was filled: at what level more are ordered. 0 for a stock of one, since an engine that gives one has no more. */
static void note_stock(struct claim *claim) {
    const struct pawl__extras *extras = claim->cohort->engine->impl->extras;
    bool orders = extras->tokens && is_told(claim) && claim->seam.token_count < ORDER_LAST;

    claim->tokens.low = !orders ? 0 : claim->tokens.stock / (claim->tokens.stock < ORDER_LEAST ? 4 : 2);
}

static bool may_ask(const struct claim *claim) {
    return is_granted(claim) && !claim->parked && !claim->downgrading;
}

static void order_tokens(struct claim *claim) {
    uint32_t none;

    if (claim->tokens.ordered || claim->wanted || claim->seam.mode != PAWL_EXCLUSIVE || !may_ask(claim))
        return;
    claim->tokens.ordered = true;
    ask_for_tokens(claim, &none); /* the answer is taken when it is needed */
}

void pawl__claim_restock(struct claim *claim) {
    uint32_t more = 0;
    int rc;

    if (!claim->tokens.ordered || claim->tokens.stock > claim->tokens.reserved || !may_ask(claim))
        return;
    rc = ask_for_tokens(claim, &more);
    if (rc == PAWL__PENDING)
        return;
    claim->tokens.ordered = false;
    claim->seam.token_count += more;
    claim->tokens.stock += more;
    note_stock(claim);
    if (rc != PAWL__DONE)
        claim->tokens.low = 0;
    else
        pawl__note(claim->cohort->engine, &claim->seam, "%u tokens more", more);
}

uint64_t pawl__claim_draw(struct claim *claim) {
    assert(claim->tokens.reserved > 0 && claim->tokens.stock >= claim->tokens.reserved);
    claim->tokens.reserved--;
    claim->tokens.stock--;
    if (claim->tokens.stock <= claim->tokens.low && claim->tokens.low)
        order_tokens(claim);
    return claim->tokens.next++;
}

void pawl__claim_unreserve(struct claim *claim) {
    claim->tokens.reserved--;
}

/* The engine makes one token at a time. It goes into the stock if that is empty; else it belongs to the hold that is begun now. */
static uint64_t fresh_token(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;

    return engine->impl->extras->retoken ? engine->impl->extras->retoken(engine, &claim->seam) : 0;
}

static bool make_stock(struct claim *claim) {
    uint64_t token = claim->tokens.stock == 0 ? fresh_token(claim) : 0;

    if (token) {
        claim->tokens.next = token;
        claim->tokens.stock = 1;
    }
    return token;
}

static bool enter_by_fresh_token(struct claim *claim, uint64_t *rettoken) {
    *rettoken = 0;
    if (claim->tokens.stock > 0)
        return (*rettoken = fresh_token(claim));
    claim->tokens.reserved = make_stock(claim);
    return claim->tokens.reserved;
}

static bool take_token(struct claim *claim, uint64_t *rettoken) {
    if (claim->tokens.stock == claim->tokens.reserved)
        pawl__claim_restock(claim);
    if (claim->tokens.stock == claim->tokens.reserved)
        return enter_by_fresh_token(claim, rettoken);
    claim->tokens.reserved++;
    claim->tokens.used++;
    *rettoken = claim->bounds.entered ? 0 : pawl__claim_draw(claim); /* what operators are shown is the first hold's */
    return true;
}

bool pawl__claim_enter(struct claim *claim, uint64_t *rettoken) {
    bool enters = take_token(claim, rettoken);

    if (enters && claim->state == CLAIM_OPEN)
        step(claim, CLAIM_RESUMES);
    return enters;
}

void pawl__claim_open(struct claim *claim) {
    step(claim, CLAIM_OPENS);
}

/* ---- From submit to held -------------------------------------------------------------------------------------------------- */

static void note_lease(struct claim *claim) {
    struct claim_lease *lease = &claim->lease;

    lease->sent_at = claim->seam.sent_at;
    lease->ns = claim->seam.lease_ns;
    lease->fresh_tick = 0;
    if (lease->ns == PAWL__NEVER && lease->hold_until == PAWL__NEVER) {
        lease->renew_at = lease->suspect_at = lease->assured_until = PAWL__NEVER;
        return;
    }
    lease->renew_at = pawl__lease_renew_at(lease->sent_at, lease->ns);
    lease->suspect_at = pawl__lease_suspect_at(lease->sent_at, lease->ns);
    lease->assured_until = pawl__lease_assured_until(lease->sent_at, lease->ns);
    /* The last one before max_hold: never renewed or suspect. */
    if (lease->hold_until <= pawl__time_add(lease->sent_at, lease->ns)) {
        lease->renew_at = lease->suspect_at = PAWL__NEVER;
        if (lease->hold_until < lease->assured_until)
            lease->assured_until = lease->hold_until;
    }
    if (lease->assured_until != PAWL__NEVER)
        pawl__service_due(claim->cohort->client, lease->renew_at < lease->assured_until ? lease->renew_at : lease->assured_until);
}

/* When the claim's time is over, however often it is renewed. */
static void set_limit(struct claim *claim) {
    const struct pawl__claim *seam = &claim->seam;

    claim->lease.hold_until = PAWL__NEVER;
    if (!seam->max_hold_ns)
        return;
    claim->lease.held_since = seam->lease_ns == PAWL__NEVER ? pawl__boottime() : seam->sent_at;
    claim->lease.hold_until = pawl__time_add(claim->lease.held_since, seam->max_hold_ns);
}

static void begin_hold(struct claim *claim) {
    assert(claim->seam.token_count > 0);
    claim->tokens.next = claim->seam.token;
    claim->tokens.stock = claim->seam.token_count;
    note_stock(claim);
    set_limit(claim);
    note_lease(claim);
    if (is_told(claim) && (claim->seam.wanted || claim->wanted))
        pawl__keep_wanted(claim);
}

/* The engine's answer to submit and to park. */
static int answered(struct claim *claim, int rc) {
    int outcome = rc < 0 ? NEWS_REFUSED : rc == PAWL__DONE ? NEWS_GRANTED : CLAIM_QUEUED;

    step(claim, outcome);
    if (outcome == NEWS_GRANTED)
        begin_hold(claim);
    return outcome;
}

int pawl__claim_submit(struct claim *claim, struct pawl_error *reterr) {
    struct pawl__engine *engine = claim->cohort->engine;
    int outcome;
    UNCANCELLED_IF(does_io(claim));

    outcome = answered(claim, engine->impl->submit(engine, &claim->seam, reterr));
    pawl__keep_note(claim, outcome == NEWS_GRANTED && !claim->seam.wanted);
    return outcome;
}

int pawl__claim_submit_all(struct claim *const claims[], size_t count, struct pawl_error *reterr) {
    struct pawl__engine *engine = claims[0]->cohort->engine;
    struct pawl__claim *seams[PAWL__TOGETHER_MAX] = {NULL};
    int rc, outcome = CLAIM_NOTHING;
    UNCANCELLED_IF(does_io(claims[0]));

    for (size_t n = 0; n < count; n++)
        seams[n] = &claims[n]->seam;
    rc = engine->impl->extras->submit_all(engine, seams, count, reterr);
    for (size_t n = 0; n < count; n++)
        outcome = answered(claims[n], rc);
    return outcome;
}

int pawl__claim_drop(struct claim *claim) {
    step(claim, NEWS_REFUSED);
    return NEWS_REFUSED;
}

/* Run park() without the mutex. The caller is counted in client->inside, so that the engine stays open. */
static int park(struct claim *claim, int64_t deadline, struct pawl_error *reterr) {
    struct cohort *cohort = claim->cohort;
    struct pawl__engine *engine = cohort->engine;
    int rc;
    UNCANCELLED_IF(does_io(claim));

    claim->parked = true;
    pawl__cohort_let_go(cohort);
    rc = engine->impl->parking->park(engine, &claim->seam, deadline, reterr);
    pthread_mutex_lock(&cohort->mutex);
    claim->parked = false;
    return rc;
}

int pawl__claim_wait(struct claim *claim, int64_t deadline, struct pawl_error *reterr) {
    return answered(claim, park(claim, deadline, reterr));
}

void pawl__claim_unpark(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    UNCANCELLED_IF(does_io(claim));

    engine->impl->parking->unpark(engine, &claim->seam);
}

bool pawl__claim_adopt(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    UNCANCELLED_IF(does_io(claim));

    if (!pawl__service_start(claim->cohort->client))
        return false;
    claim->adopted = true;
    engine->impl->parking->adopt(engine, &claim->seam);
    engine->impl->wake(engine);
    return true;
}

bool pawl__claim_is_adopted(const struct claim *claim) {
    return claim->adopted || !claim->cohort->engine->impl->parking;
}

int pawl__claim_why(struct claim *claim, struct pawl_error *ret) {
    struct pawl__engine *engine = claim->cohort->engine;
    pawl__why_fn *why = engine->impl->extras->why;

    return why && (claim->state == CLAIM_PENDING || is_granted(claim)) ? why(engine, &claim->seam, ret) : 0;
}

/* ---- Held, and lost ------------------------------------------------------------------------------------------------------- */

static int lost(struct claim *claim) {
    step(claim, NEWS_LOST);
    return NEWS_LOST;
}

static int broken(struct claim *claim, struct pawl_error *ret) {
    pawl__fail(ret, PAWL_EBROKEN, "the hold of '%s' was broken by an operator: stop and release it", claim->cohort->name);
    step(claim, NEWS_BROKEN);
    return NEWS_BROKEN;
}

int pawl__claim_lose_early(struct claim *claim, struct pawl_error *ret) {
    if (!claim->lost_early)
        return CLAIM_NOTHING;
    if (claim->lost_early == NEWS_BROKEN)
        return broken(claim, ret);
    pawl__fail(ret, PAWL_ELOST, "the hold of '%s' was lost as soon as it was granted", claim->cohort->name);
    return lost(claim);
}

static int expired(struct claim *claim, struct pawl_error *ret) {
    if (claim->lease.renew_at == PAWL__NEVER)
        pawl__fail(ret, PAWL_EEXPIRED, "'%s' was held for %lld ms, as long as its max-hold allows", claim->cohort->name,
                   (long long)((claim->lease.hold_until - claim->lease.held_since) / 1000000));
    else
        pawl__fail(ret, PAWL_EEXPIRED, "the lease of '%s' ran out: it could not be renewed in time", claim->cohort->name);
    return lost(claim);
}

/* Ask an engine whose holders can see for themselves. */
static int look(struct claim *claim, struct pawl_error *ret) {
    struct pawl__engine *engine = claim->cohort->engine;
    int rc = engine->impl->extras->check ? engine->impl->extras->check(engine, &claim->seam) : 0;

    if (rc >= 0)
        return CLAIM_NOTHING;
    if (rc != PAWL_EGONE && claim->state == CLAIM_KEPT)
        pawl__keep_learn(claim); /* who wanted it took it away */
    if (rc != PAWL_EGONE)
        return broken(claim, ret);
    pawl__fail(ret, PAWL_ELOST,
               "'%s' is lost: %s was removed or renamed while this process used it, and others may be in a new one",
               claim->cohort->name, claim->cohort->client->info.url);
    return lost(claim);
}

/* The clock was looked at in this tick already, and what is assured ends later than the next one. */
static bool is_same_tick(const struct claim *claim) {
    return claim->lease.fresh_tick && claim->lease.fresh_tick == pawl__tick();
}

static bool has_expired(const struct claim *claim) {
    return is_granted(claim) && claim->lease.assured_until != PAWL__NEVER && !is_same_tick(claim) &&
           claim->lease.assured_until - pawl__boottime() < LEAST_NS;
}

bool pawl__claim_is_over(const struct claim *claim) {
    const struct pawl__engine *engine = claim->cohort->engine;
    bool may_look = is_granted(claim) && claim->state != CLAIM_KEPT && engine->impl->extras->check;

    return has_expired(claim) || (may_look && engine->impl->extras->check(engine, &claim->seam) < 0);
}

int pawl__claim_look_at(struct claim *claim, struct pawl_error *ret) {
    int outcome;

    if (!is_granted(claim))
        return CLAIM_NOTHING;
    if ((outcome = look(claim, ret)) != CLAIM_NOTHING)
        return outcome;
    return has_expired(claim) ? expired(claim, ret) : CLAIM_NOTHING;
}

static void renew(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;
    UNCANCELLED_IF(does_io(claim));

    claim->lease.renewing = true;
    engine->impl->renew(engine, &claim->seam);
}

/* The lease of a granted claim. */
static int tick_lease(struct claim *claim, int64_t now, int64_t *retdue, struct pawl_error *ret) {
    struct claim_lease *lease = &claim->lease;
    int outcome = CLAIM_NOTHING;

    if (lease->assured_until == PAWL__NEVER)
        return CLAIM_NOTHING;
    if (now >= lease->assured_until)
        return expired(claim, ret);
    /* Holds whose time has nearly come go along: so that thousands of them are renewed in a few rounds, not one by one. */
    if (!lease->renewing && lease->renew_at != PAWL__NEVER && now >= lease->renew_at - lease->ns / RENEW_EARLY)
        renew(claim);
    if (!lease->suspect && now >= lease->suspect_at) {
        lease->suspect = true;
        claim->cohort->counts.suspects++;
        outcome = CLAIM_SUSPECT;
    }
    if (!lease->renewing && lease->renew_at != PAWL__NEVER)
        *retdue = lease->renew_at;
    else
        *retdue = lease->suspect || lease->suspect_at == PAWL__NEVER ? lease->assured_until : lease->suspect_at;
    return outcome;
}

int pawl__claim_tick(struct claim *claim, int64_t now, int64_t *retdue, struct pawl_error *ret) {
    int64_t look_again = PAWL__NEVER;
    int outcome;

    *retdue = PAWL__NEVER;
    if (!is_granted(claim))
        return CLAIM_NOTHING;
    if ((atomic_load(&claim->cohort->client->loss_callbacks) || !TAILQ_EMPTY(&claim->waiters)) &&
        (outcome = look(claim, ret)) != CLAIM_NOTHING)
        return outcome;
    if (pawl__keep_is_over(claim, now, &look_again))
        return CLAIM_IDLE;
    outcome = tick_lease(claim, now, retdue, ret);
    *retdue = look_again < *retdue ? look_again : *retdue;
    return outcome;
}

/* The limit is no longer what it was. What is assured may become less by that at once, and more only by an answer of the engine's. */
static void change_limit(struct claim *claim, int64_t until) {
    int64_t most = claim->cohort->client->options.max_hold_ns;

    if (most && until > pawl__time_add(claim->lease.held_since, most))
        until = pawl__time_add(claim->lease.held_since, most);
    atomic_store(&claim->seam.hold_until, until);
    claim->lease.hold_until = until;
    if (claim->lease.ns == PAWL__NEVER) {
        note_lease(claim);
    } else if (until < claim->lease.assured_until) {
        claim->lease.fresh_tick = 0;
        claim->lease.renew_at = claim->lease.suspect_at = PAWL__NEVER;
        claim->lease.assured_until = until;
        pawl__service_due(claim->cohort->client, until);
    }
}

bool pawl__claim_extend(struct claim *claim, int64_t until, int64_t *retasked_at) {
    if (claim->seam.max_hold_ns)
        change_limit(claim, until);
    *retasked_at = pawl__boottime(); /* what left before may have been for the old limit */
    if (claim->lease.ns == PAWL__NEVER)
        return true;
    renew(claim);
    return false;
}

static int renewed(struct claim *claim) {
    int outcome = claim->lease.suspect ? CLAIM_RECOVERED : NEWS_RENEWED;

    if (claim->seam.sent_at == claim->lease.sent_at && claim->seam.lease_ns < claim->lease.ns) { /* it is only shorter */
        note_lease(claim);
        return CLAIM_NOTHING;
    }
    pawl__count_renewed(claim->cohort, claim->lease.suspect, claim->lease.assured_until - pawl__boottime());
    claim->lease.renewing = false;
    claim->lease.suspect = false;
    note_lease(claim);
    if (claim->lease.sent_at >= claim->lease.denied_at)
        claim->lease.denied_at = 0;
    else
        renew(claim); /* this one was on its way already */
    return outcome;
}

void pawl__claim_ask(struct claim *claim) {
    claim->lease.denied_at = pawl__boottime();
    if (claim->cohort->engine->impl->renew && !claim->lease.renewing && claim->lease.renew_at != PAWL__NEVER)
        renew(claim);
}

void pawl__claim_forget_value(struct claim *claim) {
    pawl__value_stock_drop(&claim->value.stock);
    claim->value.known = false;
}

/* ---- Kept ----------------------------------------------------------------------------------------------------------------- */

/* Is there room for one more that is kept? A claim is counted the first time, until it ends: it may be kept and entered often. */
static bool begin_to_keep(struct claim *claim) {
    _Atomic unsigned *keeping = &claim->cohort->client->keeping;

    if (claim->keeping.counted)
        return true;
    claim->keeping.counted = atomic_fetch_add(keeping, 1) < PAWL__KEEPS_MAX;
    if (!claim->keeping.counted)
        atomic_fetch_sub(keeping, 1);
    return claim->keeping.counted;
}

bool pawl__claim_rest(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;

    /* Whether its time is over is looked at when it is entered again. */
    if (!begin_to_keep(claim) || engine->impl->keeping->rest(engine, &claim->seam) != PAWL__DONE) {
        pawl__keep_note(claim, false);
        return false;
    }
    step(claim, CLAIM_RESTS);
    pawl__keep_begin(claim);
    return true;
}

/* Has it been renewed as it should be? A hold that would be suspect from its start is not begun, however long it is still assured. */
static bool is_fresh(struct claim *claim) {
    int64_t tick, left;

    if (claim->lease.suspect || claim->lease.suspect_at == PAWL__NEVER || is_same_tick(claim))
        return !claim->lease.suspect;
    tick = pawl__tick();
    left = claim->lease.suspect_at - pawl__boottime();
    claim->lease.fresh_tick = left > FRESH_NS ? tick : 0;
    return left > 0;
}

bool pawl__claim_resume(struct claim *claim) {
    struct pawl__engine *engine = claim->cohort->engine;

    /* Get the token first: if none is left the claim is withdrawn, and others must not see it as held. */
    if (!is_fresh(claim) || (claim->tokens.stock == 0 && !make_stock(claim)))
        return false;
    if (engine->impl->keeping->resume(engine, &claim->seam) != PAWL__DONE) {
        pawl__keep_learn(claim);
        return false;
    }
    step(claim, CLAIM_RESUMES);
    claim->keeping.entered_again = true;
    return true;
}

/* ---- Letting go ----------------------------------------------------------------------------------------------------------- */

/* What was asked is under way. Unless serve() sees to it, somebody else has to. */
static void leave_unsettled(struct claim *claim) {
    if (pawl__claim_is_adopted(claim))
        return;
    TAILQ_INSERT_TAIL(&claim->cohort->unsettled, claim, unsettled);
    claim->is_unsettled = true;
}

void pawl__claim_take_up(struct claim *claim) {
    if (claim->is_unsettled)
        TAILQ_REMOVE(&claim->cohort->unsettled, claim, unsettled);
    claim->is_unsettled = false;
}

int pawl__claim_withdraw(struct claim *claim) {
    struct cohort *cohort = claim->cohort;
    struct pawl__engine *engine = cohort->engine;
    int rc;
    UNCANCELLED_IF(does_io(claim));

    if (claim->tokens.used)
        cohort->tokens_used = claim->tokens.used;
    pawl__claim_forget_value(claim);
    pawl__claim_take_up(claim); /* its downgrade may be under way, and nobody looks after that yet */
    rc = engine->impl->withdraw(engine, &claim->seam);
    if (rc != PAWL__PENDING) {
        step(claim, NEWS_GONE);
        return rc < 0 ? rc : 0;
    }
    step(claim, CLAIM_LEAVES);
    claim->retired_by = pthread_self();
    leave_unsettled(claim);
    return 0;
}

static int downgraded(struct claim *claim) {
    claim->downgrading = false;
    claim->seam.mode = PAWL_SHARED;
    pawl__claim_forget_value(claim);
    return NEWS_DOWNGRADED;
}

int pawl__claim_downgrade(struct claim *claim, struct pawl_error *reterr) {
    struct pawl__engine *engine = claim->cohort->engine;
    int rc;
    UNCANCELLED_IF(does_io(claim));

    rc = engine->impl->extras->downgrade(engine, &claim->seam);
    if (rc < 0) {
        int outcome = look(claim, reterr);

        return outcome != CLAIM_NOTHING ? outcome : broken(claim, reterr);
    }
    if (rc == PAWL__DONE)
        return downgraded(claim);
    claim->downgrading = true;
    leave_unsettled(claim);
    return CLAIM_NOTHING;
}

int pawl__claim_finish(struct claim *claim, bool *retlost) {
    bool ours = claim->state == CLAIM_LEAVING && pthread_equal(claim->retired_by, pthread_self());
    int64_t until;
    int rc;

    do {
        until = pawl__boottime() + SETTLE_NS;
        do /* a signal may end it early */
            rc = park(claim, until, NULL);
        while (rc == PAWL__PENDING && claim->cohort->engine->interruptible && !claim->withdraw_after_park &&
               pawl__boottime() < until);
        if (rc == PAWL__PENDING)
            continue;
        *retlost = ours && rc == PAWL_ELOST;
        if (claim->state != CLAIM_LEAVING)
            return downgraded(claim);
        step(claim, NEWS_GONE);
        return NEWS_GONE;
    } while (!pawl__claim_adopt(claim) && !atomic_load(&claim->cohort->client->closed));
    return CLAIM_NOTHING;
}

/* ---- What the engine tells ------------------------------------------------------------------------------------------------ */

int pawl__claim_news(struct claim *claim, enum pawl__news news, struct pawl_error *why) {
    int outcome;

    /* An answer that came too late changes nothing: what was lost stays lost. */
    if (news == NEWS_RENEWED && (outcome = pawl__claim_look_at(claim, why)) != CLAIM_NOTHING)
        return outcome;
    if (!step(claim, (int)news))
        return CLAIM_NOTHING;
    switch (news) {
    case NEWS_GRANTED:
        begin_hold(claim);
        return NEWS_GRANTED;
    case NEWS_DOWNGRADED:
        return claim->downgrading ? downgraded(claim) : CLAIM_NOTHING;
    case NEWS_RENEWED:
        return renewed(claim);
    case NEWS_WANTED:
        if (!is_told(claim))
            return CLAIM_NOTHING;
        pawl__keep_wanted(claim);
        return NEWS_WANTED;
    case NEWS_LOST:
    case NEWS_BROKEN:
        if (claim->state == CLAIM_PENDING) {
            claim->lost_early = news;
            return CLAIM_NOTHING;
        }
        if (news == NEWS_BROKEN)
            why->code = PAWL_EBROKEN;
        return (int)news;
    default:
        return (int)news;
    }
}
