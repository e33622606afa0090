/* SPDX-License-Identifier: Apache-2.0
 *
 * simple.c - see simple.h. The mutex is kit.mutex; only serve() takes claims out of the list.
 */
#include "simple.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "os/bell.h"
#include "os/sleep.h"

#define MS INT64_C(1000000)
#define LEASE (3000 * MS)
/* Others have the lock; the server does not answer. */
#define POLL (10 * MS)
#define PAUSE (50 * MS)

static struct simple *simple_of(struct pawl__engine *engine) {
    return (struct simple *)engine;
}

static struct simple_claim *state_of(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

/* ---- States --------------------------------------------------------------------------------------------------------------- */

enum simple_state pawl__simple_move(enum simple_state state, enum simple_event event) {
    enum { A = SIMPLE_ASKING, H = SIMPLE_HELD, L = SIMPLE_LEAVING, G = SIMPLE_GONE };
    static const uint8_t moves[SIMPLE_EVENTS][SIMPLE_STATES] = {
        [SIMPLE_GRANTED] = {H, H, L, G},
        [SIMPLE_REFUSED] = {L, H, L, G},
        [SIMPLE_WITHDRAWN] = {L, L, L, G},
        [SIMPLE_RELEASED] = {A, H, G, G},
    };

    return (enum simple_state)moves[event][state];
}

/* The only one that changes the state. False: it is the same. */
static bool step(struct simple_claim *claim, enum simple_event event) {
    enum simple_state before = claim->state;

    claim->state = pawl__simple_move(before, event);
    claim->due = 0;
    return claim->state != before;
}

struct simple_claim *pawl__simple_next(struct simple *simple, struct simple_claim *claim) {
    pawl__kit_lock(&simple->kit);
    claim = claim ? TAILQ_NEXT(claim, link) : TAILQ_FIRST(&simple->claims);
    pawl__kit_unlock(&simple->kit);
    return claim;
}

/* ---- The seam ------------------------------------------------------------------------------------------------------------- */

int pawl__simple_open(struct simple *simple, const struct simple_ops *ops, const struct pawl__setup *setup,
                      struct pawl_error *reterr) {
    static const struct kit_ops no_parking = {0};
    int rc;

    TAILQ_INIT(&simple->claims);
    simple->ops = ops;
    simple->lease_ns = setup->lease_ns ? setup->lease_ns : LEASE;
    pawl__kit_init(&simple->kit, &simple->base, &no_parking);
    simple->kit.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = simple->kit.bell < 0 ? pawl__fail_errno(reterr, "cannot create an eventfd") : ops->open(simple, reterr);
    if (rc == 0)
        return 0;
    if (simple->kit.bell >= 0)
        close(simple->kit.bell);
    pawl__kit_free(&simple->kit);
    return rc;
}

void pawl__simple_close(struct pawl__engine *engine, int64_t deadline) {
    struct simple *simple = simple_of(engine);

    (void)deadline;
    simple->ops->close(simple);
    close(simple->kit.bell);
    pawl__kit_free(&simple->kit);
}

void pawl__simple_forked(struct pawl__engine *engine) {
    close(simple_of(engine)->kit.bell);
}

void pawl__simple_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct simple *simple = (const struct simple *)engine;

    ret->url = simple->url;
    ret->lease_ms = ret->notice_ms = simple->lease_ns / MS;
}

void pawl__simple_wake(struct pawl__engine *engine) {
    bell_ring(simple_of(engine)->kit.bell);
}

static void unlock_and_wake(struct simple *simple) {
    simple->kit.wakes = true;
    pawl__kit_unlock(&simple->kit);
}

int pawl__simple_submit(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *reterr) {
    struct simple *simple = simple_of(engine);
    struct simple_claim *claim = state_of(seam);

    if (seam->kind != PAWL_MUTEX)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "%s: there are only mutexes", simple->base.impl->name);
    claim->kit.claim = seam;
    claim->kit.adopted = true;
    claim->kit.grant = (struct kit_grant){.token_count = 1, .lease_ns = simple->lease_ns};
    pawl__kit_lock(&simple->kit);
    TAILQ_INSERT_TAIL(&simple->claims, claim, link);
    unlock_and_wake(simple);
    return PAWL__PENDING;
}

int pawl__simple_withdraw(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct simple *simple = simple_of(engine);

    pawl__kit_lock(&simple->kit);
    step(state_of(seam), SIMPLE_WITHDRAWN);
    unlock_and_wake(simple);
    return PAWL__PENDING;
}

void pawl__simple_renew(struct pawl__engine *engine, struct pawl__claim *seam) {
    struct simple *simple = simple_of(engine);

    pawl__kit_lock(&simple->kit);
    state_of(seam)->renews = true;
    unlock_and_wake(simple);
}

static int downgrade(struct pawl__engine *engine, struct pawl__claim *seam) {
    (void)engine;
    (void)seam;
    return PAWL_EUNSUPPORTED;
}

static int why(struct pawl__engine *engine, struct pawl__claim *seam, struct pawl_error *ret) {
    struct simple *simple = simple_of(engine);
    struct pawl_error delay;

    pawl__kit_lock(&simple->kit);
    delay = state_of(seam)->delay;
    pawl__kit_unlock(&simple->kit);
    if (delay.code)
        *ret = delay;
    return delay.code;
}

static int survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct simple *simple = simple_of(engine);

    return simple->ops->survey ? simple->ops->survey(engine, name, visit, data, reterr) : 0;
}

static int break_hold(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    (void)token;
    (void)now;
    return pawl__fail(reterr, PAWL_EUNSUPPORTED, "'%s': %s: breaks nothing on request", name, engine->impl->name);
}

const struct pawl__operators pawl__simple_operators = {.survey = survey, .break_hold = break_hold};
const struct pawl__extras pawl__simple_extras = {.downgrade = downgrade, .why = why};

/* ---- The work: the mutex is held, and free while the server is asked ------------------------------------------------------ */

static enum simple_answer ask(struct simple *simple, struct simple_claim *claim,
                              enum simple_answer (*call)(struct simple *, struct simple_claim *)) {
    enum simple_answer answer;

    pawl__kit_unlock(&simple->kit);
    answer = call(simple, claim);
    pawl__kit_lock(&simple->kit);
    return answer;
}

static void acquire(struct simple *simple, struct simple_claim *claim, int64_t now) {
    struct pawl_error why = {0};
    enum simple_answer answer;

    pawl__kit_unlock(&simple->kit);
    answer = simple->ops->acquire(simple, claim, &why);
    pawl__kit_lock(&simple->kit);
    claim->delay = why;
    claim->due = now + (why.code ? PAUSE : POLL);
    if (answer == SIMPLE_YES) {
        claim->kit.grant.sent_at = now;
        if (step(claim, SIMPLE_GRANTED))
            pawl__kit_tell(&simple->kit, &claim->kit, KIT_GRANTED);
    } else if (answer == SIMPLE_NO || claim->kit.claim->try_only) {
        if (!why.code)
            pawl__fail(&why, PAWL_EHELD, "held by another");
        claim->kit.why = why;
        claim->refused = step(claim, SIMPLE_REFUSED);
    }
}

static void renew(struct simple *simple, struct simple_claim *claim, int64_t now) {
    enum simple_answer answer = ask(simple, claim, simple->ops->renew);

    claim->due = now + POLL;
    claim->renews = answer == SIMPLE_NOT_YET;
    if (answer == SIMPLE_YES) {
        claim->kit.grant.sent_at = now;
        pawl__kit_tell(&simple->kit, &claim->kit, KIT_RENEWED);
    } else if (answer == SIMPLE_NO) {
        pawl__fail(&claim->kit.why, PAWL_ELOST, "the server has given it to another");
        pawl__kit_tell(&simple->kit, &claim->kit, KIT_LOST);
    }
}

static void release(struct simple *simple, struct simple_claim *claim, int64_t now) {
    if (ask(simple, claim, simple->ops->release) == SIMPLE_NOT_YET) {
        claim->due = now + PAUSE;
        return;
    }
    step(claim, SIMPLE_RELEASED);
    TAILQ_REMOVE(&simple->claims, claim, link);
    pawl__kit_untell(&simple->kit, &claim->kit);
    pawl__kit_tell(&simple->kit, &claim->kit, claim->refused ? KIT_REFUSED : KIT_GONE);
}

/* One claim. Returns when it has to be looked at again. */
static int64_t work(struct simple *simple, struct simple_claim *claim) {
    int64_t now = pawl__boottime();

    if (claim->state == SIMPLE_HELD && !claim->renews)
        return PAWL__NEVER;
    if (now < claim->due)
        return claim->due;
    if (claim->state == SIMPLE_ASKING)
        acquire(simple, claim, now);
    else if (claim->state == SIMPLE_HELD)
        renew(simple, claim, now);
    else
        release(simple, claim, now);
    return claim->due;
}

/* Until then, or until the bell rings. */
static void rest(struct simple *simple, int64_t until) {
    struct pollfd bell = {.fd = simple->kit.bell, .events = POLLIN};

    pawl__kit_unlock(&simple->kit);
    if (simple->ops->listen)
        simple->ops->listen(simple, until);
    else
        pawl__sleep(&bell, 1, until, NULL);
    bell_silence(simple->kit.bell);
    pawl__kit_lock(&simple->kit);
}

void pawl__simple_serve(struct pawl__engine *engine, int64_t deadline) {
    struct simple *simple = simple_of(engine);
    struct simple_claim *claim, *next;
    int64_t until = deadline, due;

    pawl__kit_lock(&simple->kit);
    simple->kit.telling = true;
    for (claim = TAILQ_FIRST(&simple->claims); claim; claim = next) {
        next = TAILQ_NEXT(claim, link);
        due = work(simple, claim);
        until = due < until ? due : until;
    }
    if (TAILQ_EMPTY(&simple->kit.outbox))
        rest(simple, until);
    pawl__kit_tell_all(&simple->kit);
    pawl__kit_unlock(&simple->kit);
}
