/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - see sim.h. The client's half; the server's is in sim_server.c.
 *
 *     client                                          server
 *       submit ------------ SUBMIT ------------------> entry (submit_all: SUBMIT_ALL, one for all; afterwards each is on its own)
 *       granted <---------- GRANTED (at once), or <--- the rule
 *               <---------- OFFER (later)
 *               ----------- RENEW -------------------> the lease counts from here: that is how an offer gets its anchor
 *       granted <---------- RENEWED
 *       withdraw ---------- WITHDRAW ----------------> entry removed, the next ones get their OFFER
 *       settled <---------- GONE
 *
 * Every request is sent again until it is answered; the server takes each one twice without harm, since entries are known by the
 * claim's id.
 */
#include "engine/sim_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "lease.h"
#include "url.h"

enum { DELAY_NS = 1000000 };
#define RESEND_NS (200 * SIM_MS)
#define LEASE_NS (3000 * SIM_MS)

enum sim_state { ASKING, WAITING, CONFIRMING, HOLDING, DOWNGRADING, LEAVING };

/* The engine's state of a claim. */
struct sim_claim {
    TAILQ_ENTRY(sim_claim) link;
    struct pawl__claim *claim;
    struct wish wish;
    enum sim_state state;
    int64_t resend_at; /* PAWL__NEVER: nothing is unanswered */
};

static struct sim_engine *sim_of(struct pawl__engine *engine) {
    return (struct sim_engine *)engine;
}

static struct sim_claim *state_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

/* Ask, and note when to ask again. */
static void request(struct sim_engine *sim, struct pawl__claim *claim, enum message_kind kind) {
    int64_t now = pawl__sim_now(&sim->base);
    struct message message = {.kind = kind, .id = claim->id[1], .asked_at = now};

    state_of(claim)->resend_at = now + RESEND_NS;
    if (kind == SUBMIT)
        message.request = state_of(claim)->wish;
    pawl__sim_transmit(sim, &message);
}

/* ---- The client ----------------------------------------------------------------------------------------------------------- */

/* What the core is to be told, once the server's mutex is released. */
struct verdict {
    enum { TELL_NOTHING, TELL_GRANTED, TELL_REFUSED, TELL_SETTLED, TELL_DOWNGRADED, TELL_RENEWED, TELL_LOST } what;
    struct pawl__claim *claim;
    bool broken;
    struct pawl_error why;
};

static void answered(struct sim_claim *state) {
    state->resend_at = PAWL__NEVER;
}

static void held_since(struct sim_engine *sim, struct sim_claim *state, const struct message *message) {
    answered(state);
    state->claim->sent_at = message->asked_at;
    state->claim->lease_ns = sim->lease_ns;
}

static int start_holding(struct sim_engine *sim, struct sim_claim *state, const struct message *message) {
    held_since(sim, state, message);
    state->state = HOLDING;
    state->claim->token = message->token;
    state->claim->token_count = SIM_TOKENS;
    return TELL_GRANTED;
}

static int finish(struct sim_engine *sim, struct sim_claim *state, int what) {
    TAILQ_REMOVE(&sim->claims, state, link);
    return what;
}

static int take_lost(struct sim_engine *sim, struct sim_claim *state, const struct message *message, struct verdict *verdict) {
    if (state->state == CONFIRMING || state->state == WAITING) { /* forgotten before it was ever held: ask anew */
        state->state = ASKING;
        request(sim, state->claim, SUBMIT);
        return TELL_NOTHING;
    }
    if (state->state != HOLDING && state->state != DOWNGRADING)
        return TELL_NOTHING;
    answered(state);
    verdict->broken = message->code;
    pawl__fail(&verdict->why, PAWL_ELOST, message->code ? "broken" : "the server has forgotten the claim");
    return TELL_LOST;
}

/* The states and what each message means in them; whatever is not here is late or double, and ignored. */
static int take_message(struct sim_engine *sim, struct sim_claim *state, const struct message *message, struct verdict *verdict) {
    switch (message->kind) {
    case GRANTED:
        return state->state == ASKING ? start_holding(sim, state, message) : TELL_NOTHING;
    case QUEUED:
        if (state->state == ASKING) {
            state->state = WAITING;
            answered(state);
        }
        return TELL_NOTHING;
    case OFFER:
        if (state->state != ASKING && state->state != WAITING)
            return TELL_NOTHING;
        state->state = CONFIRMING;
        state->claim->token = message->token;
        request(sim, state->claim, RENEW);
        return TELL_NOTHING;
    case RENEWED:
        if (state->state == CONFIRMING)
            return start_holding(sim, state, message);
        if (state->state != HOLDING || message->asked_at <= state->claim->sent_at)
            return TELL_NOTHING;
        held_since(sim, state, message);
        return TELL_RENEWED;
    case DOWNGRADED:
        if (state->state != DOWNGRADING)
            return TELL_NOTHING;
        answered(state);
        state->state = HOLDING;
        return TELL_DOWNGRADED;
    case REFUSED:
        if (state->state != ASKING)
            return TELL_NOTHING;
        pawl__fail(&verdict->why, message->code, "'%s': %s", message->request.name, pawl_error_text(message->code));
        return finish(sim, state, TELL_REFUSED);
    case GONE:
        return state->state == LEAVING ? finish(sim, state, TELL_SETTLED) : TELL_NOTHING;
    case LOST:
        return take_lost(sim, state, message, verdict);
    default:
        return TELL_NOTHING;
    }
}

/* Ask again what was not answered. */
static void resend(struct sim_engine *sim, int64_t now) {
    static const enum message_kind asked[] = {[ASKING] = SUBMIT, [WAITING] = SUBMIT,        [CONFIRMING] = RENEW,
                                              [HOLDING] = RENEW, [DOWNGRADING] = DOWNGRADE, [LEAVING] = WITHDRAW};
    struct sim_claim *state;

    TAILQ_FOREACH(state, &sim->claims, link) {
        if (state->resend_at <= now)
            request(sim, state->claim, asked[state->state]);
    }
}

/* Deliver one message that has arrived for the server or for this client. False: there is none. */
static bool deliver_one(struct sim_engine *sim, struct verdict *verdict) {
    struct sim_server *server = sim->server;
    int64_t now = pawl__sim_now(&sim->base);
    struct message *message;
    struct sim_claim *state;

    verdict->what = TELL_NOTHING;
    pawl__sim_expire(server, now);
    resend(sim, now);
    TAILQ_FOREACH(message, &server->messages, link) {
        if (message->arrives <= now && (message->client == sim || message->kind < GRANTED))
            break;
    }
    if (!message)
        return false;
    TAILQ_REMOVE(&server->messages, message, link);
    if (message->kind < GRANTED) {
        pawl__sim_receive(message->client, message, now);
    } else {
        TAILQ_FOREACH(state, &sim->claims, link) {
            if (state->claim->id[1] == message->id)
                break;
        }
        if (state) {
            verdict->claim = state->claim;
            verdict->what = take_message(sim, state, message, verdict);
        }
    }
    free(message);
    return true;
}

static void tell(struct sim_engine *sim, const struct verdict *verdict) {
    const struct pawl__upcalls *up = sim->base.up;
    void *core = sim->base.core;

    switch (verdict->what) {
    case TELL_NOTHING:
        break;
    case TELL_GRANTED:
        up->granted(core, verdict->claim);
        break;
    case TELL_REFUSED:
        up->refused(core, verdict->claim, &verdict->why);
        break;
    case TELL_SETTLED:
        up->settled(core, verdict->claim);
        break;
    case TELL_DOWNGRADED:
        up->downgraded(core, verdict->claim);
        break;
    case TELL_RENEWED:
        up->renewed(core, verdict->claim);
        break;
    case TELL_LOST:
        up->lost(core, verdict->claim, verdict->broken, &verdict->why);
        break;
    }
}

/* When something happens next that this client, or the server through it, must see to. */
static int64_t next_event(struct sim_engine *sim) {
    int64_t next = PAWL__NEVER;
    struct message *message;
    struct sim_entry *entry;
    struct sim_claim *state;

    TAILQ_FOREACH(message, &sim->server->messages, link) {
        if ((message->client == sim || message->kind < GRANTED) && message->arrives < next)
            next = message->arrives;
    }
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->held && entry->expires < next)
            next = entry->expires;
    }
    TAILQ_FOREACH(state, &sim->claims, link) {
        if (state->resend_at < next)
            next = state->resend_at;
    }
    return next;
}

/* Real clock: sleep until something is to be done. */
static void await_event(struct sim_engine *sim, int64_t deadline) {
    int64_t next, now = pawl__boottime();
    struct timespec until;

    while (!sim->woken) {
        next = next_event(sim);
        next = next < deadline ? next : deadline;
        if (next <= now)
            break;
        next = next - now < 1000 * SIM_MS ? next - now : 1000 * SIM_MS;
        clock_gettime(CLOCK_MONOTONIC, &until);
        next += until.tv_nsec;
        until.tv_sec += next / 1000000000;
        until.tv_nsec = next % 1000000000;
        pthread_cond_clockwait(&sim->server->changed, &sim->server->mutex, CLOCK_MONOTONIC, &until);
        now = pawl__boottime();
    }
    sim->woken = false;
}

static void sim_serve(struct pawl__engine *engine, int64_t deadline) {
    struct sim_engine *sim = sim_of(engine);
    struct verdict verdict;
    bool more = true;

    pthread_mutex_lock(&sim->server->mutex);
    if (!sim->server->virtual_clock)
        await_event(sim, deadline);
    while (more) {
        more = deliver_one(sim, &verdict);
        pthread_mutex_unlock(&sim->server->mutex);
        tell(sim, &verdict);
        pthread_mutex_lock(&sim->server->mutex);
    }
    pthread_mutex_unlock(&sim->server->mutex);
}

static void sim_wake(struct pawl__engine *engine) {
    struct sim_engine *sim = sim_of(engine);

    pthread_mutex_lock(&sim->server->mutex);
    sim->woken = true;
    pthread_cond_broadcast(&sim->server->changed);
    pthread_mutex_unlock(&sim->server->mutex);
}

static void begin(struct sim_engine *sim, struct pawl__claim *claim) {
    struct sim_claim *state = state_of(claim);

    state->claim = claim;
    state->wish = (struct wish){
        .kind = claim->kind, .mode = claim->mode, .permits = claim->permits, .limit = claim->limit, .try_only = claim->try_only};
    memcpy(state->wish.name, claim->name, claim->name_length + 1);
    state->state = ASKING;
    TAILQ_INSERT_TAIL(&sim->claims, state, link);
}

static int sim_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);

    if (claim->try_only && atomic_load(&engine->link))
        return pawl__fail(reterr, PAWL_ECONNLOST, "no connection to the simulated server");
    pthread_mutex_lock(&sim->server->mutex);
    begin(sim, claim);
    request(sim, claim, SUBMIT);
    pthread_mutex_unlock(&sim->server->mutex);
    return PAWL__PENDING;
}

static int sim_submit_all(struct pawl__engine *engine, struct pawl__claim *const claims[], size_t count,
                          struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);
    struct message message = {.kind = SUBMIT_ALL, .count = count, .asked_at = pawl__sim_now(engine)};

    if (count > SIM_TOGETHER)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "%zu claims at once are too many for the simulated server", count);
    if (atomic_load(&engine->link))
        return pawl__fail(reterr, PAWL_ECONNLOST, "no connection to the simulated server");
    pthread_mutex_lock(&sim->server->mutex);
    for (size_t i = 0; i < count; i++) {
        begin(sim, claims[i]);
        state_of(claims[i])->resend_at = message.asked_at + RESEND_NS;
        message.all[i].id = claims[i]->id[1];
        message.all[i].wish = state_of(claims[i])->wish;
    }
    pawl__sim_transmit(sim, &message);
    pthread_mutex_unlock(&sim->server->mutex);
    return PAWL__PENDING;
}

static int ask(struct pawl__engine *engine, struct pawl__claim *claim, enum sim_state next, enum message_kind kind) {
    struct sim_engine *sim = sim_of(engine);

    pthread_mutex_lock(&sim->server->mutex);
    state_of(claim)->state = next;
    request(sim, claim, kind);
    pthread_mutex_unlock(&sim->server->mutex);
    return PAWL__PENDING;
}

static int sim_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    return ask(engine, claim, LEAVING, WITHDRAW);
}

static int sim_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    return ask(engine, claim, DOWNGRADING, DOWNGRADE);
}

static void sim_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    ask(engine, claim, state_of(claim)->state, RENEW);
}

/* ---- Open, close, inspect ------------------------------------------------------------------------------------------------- */

static int sim_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);
    const char *name = setup->url->host_count ? setup->url->hosts[0].name : "";
    struct sim_server *server = pawl__sim_server_find(name);

    if (!server)
        return pawl__fail(reterr, PAWL_ECONNLOST, "there is no simulated server '%s'", name);
    sim->server = server;
    snprintf(sim->url, sizeof sim->url, "sim://%s", name);
    sim->identity = setup->identity;
    sim->lease_ns = setup->lease_ns ? setup->lease_ns : LEASE_NS;
    sim->delay_ns = DELAY_NS;
    engine->stepped = server->virtual_clock;
    TAILQ_INIT(&sim->claims);
    return 0;
}

static void sim_close(struct pawl__engine *engine, int64_t deadline) {
    struct sim_engine *sim = sim_of(engine);

    (void)deadline;
    pthread_mutex_lock(&sim->server->mutex);
    pawl__sim_forget_client(sim);
    pthread_mutex_unlock(&sim->server->mutex);
}

static void sim_forked(struct pawl__engine *engine) {
    (void)engine;
}

static void sim_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct sim_engine *sim = (const struct sim_engine *)engine;

    ret->url = sim->url;
    ret->lease_ms = ret->notice_ms = sim->lease_ns / SIM_MS;
}

static const char *const sim_schemes[] = {"sim", NULL};

const struct pawl__engine_impl pawl__sim_engine = {
    .name = "sim",
    .schemes = sim_schemes,
    .engine_size = sizeof(struct sim_engine),
    .claim_size = sizeof(struct sim_claim),
    .open = sim_open,
    .close = sim_close,
    .forked = sim_forked,
    .describe = sim_describe,
    .submit = sim_submit,
    .submit_all = sim_submit_all,
    .withdraw = sim_withdraw,
    .downgrade = sim_downgrade,
    .serve = sim_serve,
    .wake = sim_wake,
    .renew = sim_renew,
    .survey = pawl__sim_survey,
    .break_hold = pawl__sim_break,
    .now = pawl__sim_now,
};

/* ---- For tests ------------------------------------------------------------------------------------------------------------ */

void pawl__sim_run(struct sim_server *server, struct pawl *const *clients, size_t count, int64_t ns) {
    int64_t end = server->clock + ns;

    while (server->clock < end) {
        int64_t next = end;

        for (size_t i = 0; i < count; i++) {
            int64_t event = next_event(sim_of(clients[i]->engine)), due = atomic_load(&clients[i]->due);

            event = event < due ? event : due;
            next = event < next ? event : next;
        }
        /* The past is where what was due at once lies: it is seen to at the present moment. */
        server->clock = next > server->clock ? next : server->clock;
        for (size_t i = 0; i < count; i++) {
            sim_serve(clients[i]->engine, 0);
            pawl__service_tick(clients[i]);
        }
        if (next >= end)
            break;
    }
}

static struct sim_engine *sim_of_client(struct pawl *client) {
    return sim_of(client->engine);
}

void pawl__sim_delay(struct pawl *client, int64_t ns) {
    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    sim_of_client(client)->delay_ns = ns;
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

void pawl__sim_cut(struct pawl *client, bool cut) {
    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    sim_of_client(client)->is_cut = cut;
    atomic_store(&client->engine->link, cut ? PAWL_ECONNLOST : 0);
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

void pawl__sim_drop_replies(struct pawl *client, unsigned n) {
    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    sim_of_client(client)->drops = n;
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

void pawl__sim_duplicate(struct pawl *client, bool duplicate) {
    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    sim_of_client(client)->duplicates = duplicate;
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

void pawl__sim_forget(struct pawl *client) {
    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    pawl__sim_forget_client(sim_of_client(client));
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

unsigned pawl__sim_requests(struct pawl *client) {
    unsigned requests;

    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    requests = sim_of_client(client)->requests;
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
    return requests;
}
