/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook.c - see textbook.h: the seam's side, the same for both kinds of servers.
 */
#include "textbook.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/bell.h"
#include "base/error.h"
#include "base/url.h"

#define MS INT64_C(1000000)
#define POLL (10 * MS)
#define LEASE (3000 * MS)

static struct textbook *textbook_of(struct pawl__engine *engine) {
    return (struct textbook *)engine;
}

static struct textbook_claim *state_of(struct pawl__claim *claim) {
    return pawl__claim_state(claim);
}

void pawl__textbook_pause(const struct textbook *textbook) {
    poll(NULL, 0, (int)textbook->gap_ms);
}

/* ---- Open and close ------------------------------------------------------------------------------------------------------- */

/* Which of the words, by its number; the first if the option is not given. */
static int take_switch(struct pawl__url *url, const char *key, const char *const words[], int *ret, struct pawl_error *reterr) {
    const char *value = pawl__url_option(url, key);

    for (*ret = 0; value && words[*ret] && strcmp(words[*ret], value) != 0;)
        ++*ret;
    return words[*ret] ? 0 : pawl__fail(reterr, PAWL_EOPTION, "%s=%s is no setting of the textbook", key, value);
}

static int take_options(struct textbook *textbook, struct pawl__url *url, struct pawl_error *reterr) {
    int persistent, drops, reused, rc;
    const struct {
        const char *key, *words[4];
        int *place;
    } switches[] = {
        {"expiry", {"atomic", "second", "none"}, &textbook->expiry},
        {"release", {"script", "check", "delete"}, &textbook->release},
        {"renew", {"checked", "unchecked", "off"}, &textbook->renew},
        {"watch", {"get", "exists", "children"}, &textbook->watch},
        {"node", {"ephemeral", "persistent"}, &persistent},
        {"wake", {"heard", "dropped"}, &drops},
        {"token", {"rising", "reused"}, &reused},
    };

    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if ((rc = take_switch(url, switches[i].key, switches[i].words, switches[i].place, reterr)) < 0)
            return rc;
    textbook->persistent = persistent;
    textbook->drops_wakes = drops;
    textbook->reuses_tokens = reused;
    return pawl__url_number(url, "gap", 0, 60000, &textbook->gap_ms, reterr);
}

static int textbook_open(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct textbook *textbook = textbook_of(engine);
    int rc = take_options(textbook, setup->url, reterr);

    if (rc < 0)
        return rc;
    textbook->backend = strstr(setup->url->scheme, "zk") ? &pawl__textbook_zk : &pawl__textbook_redis;
    textbook->lease_ns = setup->lease_ns ? setup->lease_ns : LEASE;
    textbook->port = setup->url->host_count ? setup->url->hosts[0].port : 0;
    snprintf(textbook->url, sizeof textbook->url, "%s://127.0.0.1:%u", setup->url->scheme, textbook->port);
    TAILQ_INIT(&textbook->claims);
    pthread_mutex_init(&textbook->mutex, NULL);
    textbook->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (textbook->wake < 0 || !textbook->backend->open(textbook, setup->url)) {
        close(textbook->wake);
        return pawl__fail(reterr, PAWL_ECONNLOST, "the textbook can't reach its server at port %u", textbook->port);
    }
    return 0;
}

static void textbook_close(struct pawl__engine *engine, int64_t deadline) {
    struct textbook *textbook = textbook_of(engine);

    (void)deadline;
    textbook->backend->close(textbook);
    close(textbook->wake);
    pthread_mutex_destroy(&textbook->mutex);
}

static void textbook_describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct textbook *textbook = (const struct textbook *)engine;

    ret->url = textbook->url;
    ret->lease_ms = ret->notice_ms = textbook->lease_ns / MS;
}

/* ---- Claims --------------------------------------------------------------------------------------------------------------- */

static void textbook_wake(struct pawl__engine *engine) {
    bell_ring(textbook_of(engine)->wake);
}

static int textbook_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    struct textbook *textbook = textbook_of(engine);
    struct textbook_claim *state = state_of(claim);

    if (claim->kind != PAWL_MUTEX)
        return pawl__fail(reterr, PAWL_EUNSUPPORTED, "the textbook knows mutexes only");
    state->claim = claim;
    snprintf(state->owner, sizeof state->owner, "%016llx-%llu", (unsigned long long)claim->id[0], (unsigned long long)claim->id[1]);
    pthread_mutex_lock(&textbook->mutex);
    TAILQ_INSERT_TAIL(&textbook->claims, state, link);
    pthread_mutex_unlock(&textbook->mutex);
    textbook_wake(engine);
    return PAWL__PENDING;
}

static int textbook_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    atomic_store(&state_of(claim)->state, TEXTBOOK_LEAVING);
    textbook_wake(engine);
    return PAWL__PENDING;
}

static int textbook_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine;
    (void)claim;
    return PAWL_EUNSUPPORTED;
}

static void textbook_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    state_of(claim)->renew = true;
    textbook_wake(engine);
}

static void remove_claim(struct textbook *textbook, struct textbook_claim *state) {
    pthread_mutex_lock(&textbook->mutex);
    TAILQ_REMOVE(&textbook->claims, state, link);
    pthread_mutex_unlock(&textbook->mutex);
}

/* ---- The work ------------------------------------------------------------------------------------------------------------- */

/* Those who never renew, or renew whatever is there, do not count the time either. */
static int64_t assured(const struct textbook *textbook) {
    return textbook->renew != RENEW_CHECKED || textbook->expiry == EXPIRY_NONE ? PAWL__NEVER : textbook->lease_ns;
}

static bool ask(struct textbook *textbook, struct textbook_claim *state) {
    struct pawl__engine *engine = &textbook->base;
    int64_t sent_at = pawl__boottime();
    int asking = TEXTBOOK_ASKING;
    struct pawl_error why;

    if (sent_at < state->due)
        return false;
    state->due = sent_at + POLL;
    if (textbook->backend->acquire(textbook, state) != TEXTBOOK_YES) {
        if (!state->claim->try_only || !atomic_compare_exchange_strong(&state->state, &asking, TEXTBOOK_LEAVING))
            return false;
        textbook->backend->release(textbook, state);
        remove_claim(textbook, state);
        pawl__fail(&why, PAWL_EHELD, "held by another");
        engine->tell(engine->core, state->claim, NEWS_REFUSED, &why);
        return true;
    }
    state->held = true;
    state->claim->token = textbook->reuses_tokens ? 1 : state->token;
    state->claim->token_count = 1;
    state->claim->sent_at = sent_at;
    state->claim->lease_ns = assured(textbook);
    if (!atomic_compare_exchange_strong(&state->state, &asking, TEXTBOOK_HELD))
        return false; /* withdrawn meanwhile */
    state->due = sent_at + textbook->lease_ns / 3;
    engine->tell(engine->core, state->claim, NEWS_GRANTED, NULL);
    return true;
}

/* The core asks for it where leases count; else it is time to do it blindly. */
static bool keep(struct textbook *textbook, struct textbook_claim *state) {
    struct pawl__engine *engine = &textbook->base;
    int64_t sent_at = pawl__boottime();
    struct pawl_error why;

    if (textbook->renew == RENEW_UNCHECKED && sent_at >= state->due) {
        state->due = sent_at + textbook->lease_ns / 3;
        textbook->backend->renew(textbook, state);
    }
    if (!state->renew)
        return false;
    state->renew = false;
    if (textbook->backend->renew(textbook, state) == TEXTBOOK_NO) {
        pawl__fail(&why, PAWL_ELOST, "the server has given it to another");
        engine->tell(engine->core, state->claim, NEWS_LOST, &why);
        return true;
    }
    state->claim->sent_at = sent_at;
    engine->tell(engine->core, state->claim, NEWS_RENEWED, NULL);
    return true;
}

/* One step of one claim; true: the core was told of something, and the list may be another now. */
static bool step(struct textbook *textbook, struct textbook_claim *state) {
    switch (atomic_load(&state->state)) {
    case TEXTBOOK_ASKING:
        return ask(textbook, state);
    case TEXTBOOK_HELD:
        return keep(textbook, state);
    default:
        textbook->backend->release(textbook, state);
        remove_claim(textbook, state);
        textbook->base.tell(textbook->base.core, state->claim, NEWS_GONE, NULL);
        return true;
    }
}

static struct textbook_claim *next_of(struct textbook *textbook, struct textbook_claim *state) {
    pthread_mutex_lock(&textbook->mutex);
    state = state ? TAILQ_NEXT(state, link) : TAILQ_FIRST(&textbook->claims);
    pthread_mutex_unlock(&textbook->mutex);
    return state;
}

static void textbook_serve(struct pawl__engine *engine, int64_t deadline) {
    struct textbook *textbook = textbook_of(engine);
    struct pollfd wait = {.fd = textbook->wake, .events = POLLIN};
    int64_t left = (deadline - pawl__boottime()) / MS;
    bool told = false;

    for (struct textbook_claim *state = next_of(textbook, NULL); state && !told; state = told ? NULL : next_of(textbook, state))
        told = step(textbook, state);
    if (told)
        return;
    left = left < 0 ? 0 : left > 10 ? 10 : left;
    if (textbook->backend->turn)
        textbook->backend->turn(textbook, (int)left / 2);
    if (poll(&wait, 1, (int)left / 2) == 1)
        bell_silence(textbook->wake);
}

/* Nobody is shown: the rig looks at the server itself. */
static int textbook_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data,
                           struct pawl_error *reterr) {
    (void)engine;
    (void)name;
    (void)visit;
    (void)data;
    (void)reterr;
    return 0;
}

static int textbook_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    (void)engine;
    (void)token;
    (void)now;
    return pawl__fail(reterr, PAWL_EUNSUPPORTED, "%s: the textbook breaks nothing on request", name);
}

static void textbook_forked(struct pawl__engine *engine) {
    (void)engine;
}

static const char *const schemes[] = {"textbook+redis", "textbook+zk", NULL};

const struct pawl__engine_impl pawl__textbook_engine = {
    .name = "textbook",
    .schemes = schemes,
    .engine_size = sizeof(struct textbook),
    .claim_size = sizeof(struct textbook_claim),
    .open = textbook_open,
    .close = textbook_close,
    .forked = textbook_forked,
    .describe = textbook_describe,
    .submit = textbook_submit,
    .withdraw = textbook_withdraw,
    .serve = textbook_serve,
    .wake = textbook_wake,
    .renew = textbook_renew,
    .operators =
        &(const struct pawl__operators){
            .survey = textbook_survey,
            .break_hold = textbook_break,
        },
    .extras =
        &(const struct pawl__extras){
            .downgrade = textbook_downgrade,
        },
};
