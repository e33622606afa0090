/* SPDX-License-Identifier: Apache-2.0
 *
 * sim.c - see sim.h. The server keeps one list of entries in the order of their tickets, and applies the queue rule (queue.c) to it.
 *
 *     client                                          server
 *       submit ------------ SUBMIT ------------------> entry
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
#include "engine/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "lease.h"
#include "queue.h"
#include "url.h"

#define MS INT64_C(1000000)

enum { DELAY_NS = 1000000, SIM_TOKENS = 128 };
#define RESEND_NS (200 * MS)
#define LEASE_NS (3000 * MS)

enum message_kind { SUBMIT, RENEW, DOWNGRADE, WITHDRAW, GRANTED, QUEUED, OFFER, RENEWED, DOWNGRADED, REFUSED, GONE, LOST };

/* What a claim asks for, as it was when it was submitted: the claim itself is the core's to change. */
struct wish {
    char name[256];
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    bool try_only;
};

struct message {
    TAILQ_ENTRY(message) link; /* server->messages, by arrival */
    int64_t arrives;
    struct sim_engine *client; /* from or to */
    enum message_kind kind;
    uint64_t id;
    int64_t asked_at;    /* when the request left that this is, or answers */
    int code;            /* REFUSED; LOST: 1 if broken */
    struct wish request; /* SUBMIT: what it asks for */
    uint64_t token;
};

struct sim_entry {
    TAILQ_ENTRY(sim_entry) link;
    struct sim_engine *client;
    struct pawl__identity identity;
    uint64_t id;
    struct wish wish;
    bool held, broken;
    uint64_t token;
    int64_t lease_ns, expires;
};

TAILQ_HEAD(message_list, message);

struct sim_server {
    TAILQ_ENTRY(sim_server) link;
    char name[64];
    bool virtual_clock;
    int64_t clock;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct message_list messages;
    TAILQ_HEAD(, sim_entry) entries;
    uint64_t token;
};

enum sim_state { ASKING, WAITING, CONFIRMING, HOLDING, DOWNGRADING, LEAVING };

/* The engine's state of a claim. */
struct sim_claim {
    TAILQ_ENTRY(sim_claim) link;
    struct pawl__claim *claim;
    struct wish wish;
    enum sim_state state;
    int64_t resend_at; /* PAWL__NEVER: nothing is unanswered */
};

struct sim_engine {
    struct pawl__engine base;
    struct sim_server *server;
    struct pawl__identity identity;
    int64_t lease_ns, delay_ns;
    bool is_cut, duplicates, woken;
    unsigned drops, requests;
    TAILQ_HEAD(, sim_claim) claims;
};

static pthread_mutex_t servers_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, sim_server) servers = TAILQ_HEAD_INITIALIZER(servers);

static struct sim_engine *sim_of(struct pawl__engine *engine) {
    return (struct sim_engine *)engine;
}

static struct sim_claim *state_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

static int64_t sim_now(const struct pawl__engine *engine) {
    const struct sim_server *server = ((const struct sim_engine *)engine)->server;

    return server && server->virtual_clock ? server->clock : pawl__boottime();
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static void enqueue(struct sim_server *server, const struct message *message) {
    struct message *copy = malloc(sizeof *copy), *other;

    if (!copy)
        abort();
    *copy = *message;
    TAILQ_FOREACH_REVERSE(other, &server->messages, message_list, link) {
        if (other->arrives <= copy->arrives)
            break;
    }
    if (other)
        TAILQ_INSERT_AFTER(&server->messages, other, copy, link);
    else
        TAILQ_INSERT_HEAD(&server->messages, copy, link);
    pthread_cond_broadcast(&server->changed);
}

static void transmit(struct sim_engine *sim, struct message *message) {
    if (sim->is_cut)
        return;
    if (message->kind >= GRANTED && sim->drops) {
        sim->drops--;
        return;
    }
    message->client = sim;
    message->arrives = sim_now(&sim->base) + sim->delay_ns;
    enqueue(sim->server, message);
    if (sim->duplicates)
        enqueue(sim->server, message);
}

static void reply(struct sim_engine *sim, enum message_kind kind, const struct message *request, struct sim_entry *entry,
                  int code) {
    struct message message = {
        .kind = kind,
        .id = entry ? entry->id : request->id,
        .asked_at = request ? request->asked_at : 0,
        .code = code,
        .token = entry ? entry->token : 0,
    };

    transmit(sim, &message);
}

/* Ask, and note when to ask again. */
static void request(struct sim_engine *sim, struct pawl__claim *claim, enum message_kind kind) {
    int64_t now = sim_now(&sim->base);
    struct message message = {.kind = kind, .id = claim->id[1], .asked_at = now};

    state_of(claim)->resend_at = now + RESEND_NS;
    if (kind == SUBMIT)
        message.request = state_of(claim)->wish;
    transmit(sim, &message);
}

/* ---- The server ----------------------------------------------------------------------------------------------------------- */

static struct sim_entry *find_entry(struct sim_engine *sim, uint64_t id) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->client == sim && entry->id == id)
            return entry;
    }
    return NULL;
}

/* May the entry hold, by the rule, among those of its name? */
static bool may_hold(struct sim_server *server, const struct sim_entry *wanted) {
    struct pawl__ticket queue[1024];
    struct sim_entry *entry;
    size_t count = 0;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (strcmp(entry->wish.name, wanted->wish.name) != 0)
            continue;
        queue[count++] = (struct pawl__ticket){entry->wish.mode, entry->wish.permits};
        if (entry == wanted || count == sizeof queue / sizeof queue[0])
            break;
    }
    return pawl__queue_holds(queue, count - 1, wanted->wish.limit);
}

static void hold(struct sim_server *server, struct sim_entry *entry, int64_t now) {
    entry->held = true;
    entry->token = (server->token += SIM_TOKENS);
    entry->expires = pawl__time_add(now, entry->lease_ns);
}

/* After a change: who may hold now? */
static void grant_next(struct sim_server *server, const char *name, int64_t now) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (entry->held || strcmp(entry->wish.name, name) != 0 || !may_hold(server, entry))
            continue;
        hold(server, entry, now);
        reply(entry->client, OFFER, NULL, entry, 0);
    }
}

static void remove_entry(struct sim_server *server, struct sim_entry *entry, int64_t now) {
    char name[sizeof entry->wish.name];

    strcpy(name, entry->wish.name);
    TAILQ_REMOVE(&server->entries, entry, link);
    free(entry);
    grant_next(server, name, now);
}

static int misfit(struct sim_server *server, const struct wish *wish) {
    struct sim_entry *entry;

    TAILQ_FOREACH(entry, &server->entries, link) {
        if (strcmp(entry->wish.name, wish->name) != 0)
            continue;
        if (entry->wish.kind != wish->kind)
            return PAWL_EKIND;
        if (entry->wish.limit != wish->limit)
            return PAWL_ELIMIT;
    }
    return 0;
}

static struct sim_entry *new_entry(struct sim_engine *sim, const struct message *message) {
    struct sim_entry *entry = calloc(1, sizeof *entry);

    if (!entry)
        abort();
    entry->client = sim;
    entry->identity = sim->identity;
    entry->id = message->id;
    entry->wish = message->request;
    entry->lease_ns = sim->lease_ns;
    TAILQ_INSERT_TAIL(&sim->server->entries, entry, link);
    return entry;
}

static void serve_submit(struct sim_engine *sim, const struct message *message, int64_t now) {
    struct sim_entry *entry = find_entry(sim, message->id);
    int rc;

    if (!entry) {
        rc = misfit(sim->server, &message->request);
        if (rc < 0) {
            reply(sim, REFUSED, message, NULL, rc);
            return;
        }
        entry = new_entry(sim, message);
        if (may_hold(sim->server, entry)) {
            hold(sim->server, entry, now);
        } else if (message->request.try_only) {
            TAILQ_REMOVE(&sim->server->entries, entry, link);
            free(entry);
            reply(sim, REFUSED, message, NULL, PAWL_EHELD);
            return;
        }
    }
    reply(sim, entry->held ? GRANTED : QUEUED, message, entry, 0);
}

static void serve_request(struct sim_engine *sim, const struct message *message, int64_t now) {
    struct sim_entry *entry = find_entry(sim, message->id);

    sim->requests++;
    if (message->kind == SUBMIT) {
        serve_submit(sim, message, now);
    } else if (message->kind == WITHDRAW) {
        if (entry)
            remove_entry(sim->server, entry, now);
        reply(sim, GONE, message, NULL, 0);
    } else if (!entry || !entry->held) {
        reply(sim, LOST, message, NULL, 0);
    } else if (message->kind == RENEW) {
        entry->expires = pawl__time_add(now, entry->lease_ns);
        reply(sim, RENEWED, message, entry, 0);
    } else {
        entry->wish.mode = PAWL_SHARED;
        reply(sim, DOWNGRADED, message, entry, 0);
        grant_next(sim->server, entry->wish.name, now);
    }
}

static void expire_entries(struct sim_server *server, int64_t now) {
    struct sim_entry *entry;

restart:
    TAILQ_FOREACH(entry, &server->entries, link) {
        if (entry->held && entry->expires <= now) {
            remove_entry(server, entry, now);
            goto restart;
        }
    }
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
        pawl__fail(&verdict->why, message->code, "'%s': %s", state->claim->name, pawl_error_text(message->code));
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
    int64_t now = sim_now(&sim->base);
    struct message *message;
    struct sim_claim *state;

    verdict->what = TELL_NOTHING;
    expire_entries(server, now);
    resend(sim, now);
    TAILQ_FOREACH(message, &server->messages, link) {
        if (message->arrives <= now && (message->client == sim || message->kind < GRANTED))
            break;
    }
    if (!message)
        return false;
    TAILQ_REMOVE(&server->messages, message, link);
    if (message->kind < GRANTED) {
        serve_request(message->client, message, now);
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
        next = next - now < 1000 * MS ? next - now : 1000 * MS;
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

static int sim_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);
    struct sim_claim *state = state_of(claim);

    if (claim->try_only && atomic_load(&engine->link))
        return pawl__fail(reterr, PAWL_ECONNLOST, "no connection to the simulated server");
    pthread_mutex_lock(&sim->server->mutex);
    state->claim = claim;
    state->wish = (struct wish){
        .kind = claim->kind, .mode = claim->mode, .permits = claim->permits, .limit = claim->limit, .try_only = claim->try_only};
    memcpy(state->wish.name, claim->name, claim->name_length + 1);
    state->state = ASKING;
    TAILQ_INSERT_TAIL(&sim->claims, state, link);
    request(sim, claim, SUBMIT);
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
    struct sim_server *server;

    pthread_mutex_lock(&servers_mutex);
    TAILQ_FOREACH(server, &servers, link) {
        if (strcmp(server->name, name) == 0)
            break;
    }
    pthread_mutex_unlock(&servers_mutex);
    if (!server)
        return pawl__fail(reterr, PAWL_ECONNLOST, "there is no simulated server '%s'", name);
    sim->server = server;
    sim->identity = setup->identity;
    sim->lease_ns = setup->lease_ns ? setup->lease_ns : LEASE_NS;
    sim->delay_ns = DELAY_NS;
    engine->stepped = server->virtual_clock;
    TAILQ_INIT(&sim->claims);
    return 0;
}

static void forget(struct sim_engine *sim) {
    struct sim_entry *entry;
    struct message *message, *next;

    for (message = TAILQ_FIRST(&sim->server->messages); message; message = next) {
        next = TAILQ_NEXT(message, link);
        if (message->client == sim) {
            TAILQ_REMOVE(&sim->server->messages, message, link);
            free(message);
        }
    }
restart:
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->client == sim) {
            remove_entry(sim->server, entry, sim_now(&sim->base));
            goto restart;
        }
    }
}

static void sim_close(struct pawl__engine *engine, int64_t deadline) {
    struct sim_engine *sim = sim_of(engine);

    (void)deadline;
    pthread_mutex_lock(&sim->server->mutex);
    forget(sim);
    pthread_mutex_unlock(&sim->server->mutex);
}

static void sim_forked(struct pawl__engine *engine) {
    (void)engine;
}

static void sim_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct sim_engine *sim = (const struct sim_engine *)engine;

    ret->url = "sim:";
    ret->lease_ms = ret->notice_ms = sim->lease_ns / MS;
}

static int visit_entry(const struct sim_entry *entry, unsigned position, int64_t now, pawl_visit_fn *visit, void *data) {
    struct pawl_entry shown = {
        .name = entry->wish.name,
        .kind = entry->wish.kind,
        .mode = entry->wish.mode,
        .flags = (entry->held ? 0 : PAWL_ENTRY_WAITER) | (entry->broken ? PAWL_ENTRY_BROKEN : 0),
        .position = position,
        .permits = entry->wish.permits,
        .limit = entry->wish.limit,
        .token = entry->held ? entry->token : 0,
        .host = entry->identity.host,
        .pid = entry->identity.pid,
        .command = entry->identity.command,
        .label = entry->identity.label,
        .since_ms = 1,
        .remaining_ms = entry->held ? (entry->expires - now) / MS : -1,
        .raw = "simulated",
    };

    return visit(&shown, data);
}

/* All entries of the name that `first` is the first of. */
static int survey_name(struct sim_engine *sim, const struct sim_entry *first, pawl_visit_fn *visit, void *data) {
    unsigned waiting = 0;
    const struct sim_entry *entry;
    int rc = 0;

    for (int held = 1; held >= 0 && rc == 0; held--)
        for (entry = first; entry && rc == 0; entry = TAILQ_NEXT(entry, link))
            if (entry->held == held && strcmp(entry->wish.name, first->wish.name) == 0)
                rc = visit_entry(entry, held ? 0 : ++waiting, sim_now(&sim->base), visit, data);
    return rc;
}

static bool first_of_name(struct sim_server *server, const struct sim_entry *entry) {
    struct sim_entry *other;

    TAILQ_FOREACH(other, &server->entries, link) {
        if (strcmp(other->wish.name, entry->wish.name) == 0)
            return other == entry;
    }
    return false;
}

static int sim_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);
    struct sim_entry *entry;
    int rc = 0;

    (void)reterr;
    pthread_mutex_lock(&sim->server->mutex);
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if ((!name || strcmp(name, entry->wish.name) == 0) && first_of_name(sim->server, entry) &&
            (rc = survey_name(sim, entry, visit, data)) != 0)
            break;
    }
    pthread_mutex_unlock(&sim->server->mutex);
    return rc;
}

static int sim_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct sim_engine *sim = sim_of(engine);
    struct sim_entry *entry;
    int rc = 0;

    pthread_mutex_lock(&sim->server->mutex);
    TAILQ_FOREACH(entry, &sim->server->entries, link) {
        if (entry->held && strcmp(entry->wish.name, name) == 0 && token >= entry->token && token < entry->token + SIM_TOKENS)
            break;
    }
    if (!entry) {
        rc = pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' has token %llu", name, (unsigned long long)token);
    } else {
        entry->broken = true;
        reply(entry->client, LOST, NULL, entry, 1);
        if (now)
            remove_entry(sim->server, entry, sim_now(engine));
    }
    pthread_mutex_unlock(&sim->server->mutex);
    return rc;
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
    .withdraw = sim_withdraw,
    .downgrade = sim_downgrade,
    .serve = sim_serve,
    .wake = sim_wake,
    .renew = sim_renew,
    .survey = sim_survey,
    .break_hold = sim_break,
    .now = sim_now,
};

/* ---- For tests ------------------------------------------------------------------------------------------------------------ */

struct sim_server *pawl__sim_server_new(const char *name, bool virtual_clock) {
    struct sim_server *server = calloc(1, sizeof *server);

    if (!server)
        abort();
    snprintf(server->name, sizeof server->name, "%s", name);
    server->virtual_clock = virtual_clock;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->changed, NULL);
    TAILQ_INIT(&server->messages);
    TAILQ_INIT(&server->entries);
    pthread_mutex_lock(&servers_mutex);
    TAILQ_INSERT_TAIL(&servers, server, link);
    pthread_mutex_unlock(&servers_mutex);
    return server;
}

void pawl__sim_server_free(struct sim_server *server) {
    pthread_mutex_lock(&servers_mutex);
    TAILQ_REMOVE(&servers, server, link);
    pthread_mutex_unlock(&servers_mutex);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}

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
    forget(sim_of_client(client));
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
}

size_t pawl__sim_entries(struct sim_server *server) {
    struct sim_entry *entry;
    size_t count = 0;

    pthread_mutex_lock(&server->mutex);
    TAILQ_FOREACH(entry, &server->entries, link) {
        count++;
    }
    pthread_mutex_unlock(&server->mutex);
    return count;
}

unsigned pawl__sim_requests(struct pawl *client) {
    unsigned requests;

    pthread_mutex_lock(&sim_of_client(client)->server->mutex);
    requests = sim_of_client(client)->requests;
    pthread_mutex_unlock(&sim_of_client(client)->server->mutex);
    return requests;
}
