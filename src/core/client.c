/* SPDX-License-Identifier: Apache-2.0
 *
 * client.c - opening and closing clients.
 *
 * A client is freed when pawl_close has been called and its last handle is gone; between the two, handles find it `closed`.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/claim.h"
#include "core/set.h"
#include "base/error.h"
#include "base/lease.h"
#include "os/uncancelled.h"
#include "base/url.h"

enum { HANDOFFS_MAX = 100000, HANDOFF_MS = 10, HANDOFF_MS_MAX = 60000, HANDOFF_US = 100, HANDOFF_US_MAX = 1000000 };
enum { LEASE_MS_MIN = 100, LEASE_MS_MAX = 86400000 };

#define STRING(x) #x
#define VERSION(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *pawl_version(void) {
    return VERSION(PAWL_VERSION_MAJOR, PAWL_VERSION_MINOR, PAWL_VERSION_PATCH);
}

const char *pawl_engines(void) {
    return pawl__engine_list();
}

/* ---- Options -------------------------------------------------------------------------------------------------------------- */

/* The caller's options in today's size: one built against an older header passes fewer fields, a newer one must not mean what we
 * don't know. */
static int take_options(const struct pawl_options *given, struct pawl_options *ret, struct pawl_error *reterr) {
    const unsigned char *bytes = (const unsigned char *)given;

    memset(ret, 0, sizeof *ret);
    if (!given)
        return 0;
    if (given->size < offsetof(struct pawl_options, lease_ms) || given->size > 4096)
        return pawl__fail(reterr, PAWL_EOPTION, "options.size is %zu: set it to sizeof(struct pawl_options)", given->size);
    memcpy(ret, given, given->size < sizeof *ret ? given->size : sizeof *ret);
    for (size_t i = sizeof *ret; i < given->size; i++)
        if (bytes[i])
            return pawl__fail(reterr, PAWL_EOPTION, "options has a field that this version of pawl (%s) does not know",
                              pawl_version());
    if (ret->flags & ~(unsigned)(PAWL_OPEN_INHERIT | PAWL_OPEN_LOSS_BY_DISPATCH | PAWL_OPEN_TRACE | PAWL_OPEN_LOOK))
        return pawl__fail(reterr, PAWL_EOPTION, "options.flags has a bit that pawl does not know: 0x%x", ret->flags);
    if (ret->lease_ms && (ret->lease_ms < LEASE_MS_MIN || ret->lease_ms > LEASE_MS_MAX))
        return pawl__fail(reterr, PAWL_EOPTION, "a lease of %lld ms is out of range: %d to %d, or 0 for the engine's own",
                          (long long)ret->lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);
    if (ret->connect_ms < 0)
        return pawl__fail(reterr, PAWL_EOPTION, "options.connect_ms is %lld: it is at least 1, or 0 for the URL's own",
                          (long long)ret->connect_ms);
    if (ret->max_hold_ms && ret->max_hold_ms < PAWL_MAX_HOLD_MS_MIN)
        return pawl__fail(reterr, PAWL_EOPTION, "options.max_hold_ms is %lld: it is at least %d, or 0 for no limit",
                          (long long)ret->max_hold_ms, PAWL_MAX_HOLD_MS_MIN);
    return 0;
}

/* How much of the text fits, in whole characters of UTF-8. */
static size_t fitting(const char *text, size_t room) {
    size_t length = strlen(text);

    if (length <= room)
        return length;
    while (room > 0 && ((unsigned char)text[room] & 0xc0) == 0x80)
        room--;
    return room;
}

/* The name of a program is not the caller's to choose: what does not fit is cut off, and what would garble a terminal is '?'. */
static void take_command(const char *text, char *to, size_t size) {
    size_t length = fitting(text, size - 1);

    for (size_t i = 0; i < length; i++)
        to[i] = (char)(iscntrl((unsigned char)text[i]) ? '?' : text[i]);
    to[length] = '\0';
}

static int take_identity(const struct pawl *client, const struct pawl_options *options, struct pawl__identity *ret,
                         struct pawl_error *reterr) {
    const char *around = secure_getenv("PAWL_AGENT"), *label = options->label ? options->label : "";
    int rc = pawl__label_check("options.label", label, reterr);

    if (rc < 0)
        return rc;
    memset(ret, 0, sizeof *ret);
    strcpy(ret->agent, client->agent);
    if (around && pawl__agent_is(around))
        strcpy(ret->around, around);
    if (gethostname(ret->host, sizeof ret->host - 1) < 0)
        strcpy(ret->host, "?");
    ret->pid = getpid();
    take_command(options->command ? options->command : program_invocation_short_name, ret->command, sizeof ret->command);
    strcpy(ret->label, label);
    return 0;
}

/* ?handoff=N[,MS[,US]] */
static int take_handoff(struct pawl__url *url, struct pawl *client, struct pawl_error *reterr) {
    enum { UNSAID = -1 };
    const char *text = pawl__url_option(url, "handoff");
    long count = PAWL_HANDOFFS, ms = HANDOFF_MS, us = UNSAID, most;
    char *end;

    if (text) {
        count = strtol(text, &end, 10);
        if (*end == ',' && isdigit((unsigned char)end[1]))
            ms = strtol(end + 1, &end, 10);
        if (*end == ',' && isdigit((unsigned char)end[1]))
            us = strtol(end + 1, &end, 10);
        if (!isdigit((unsigned char)*text) || *end || count > HANDOFFS_MAX || ms > HANDOFF_MS_MAX || us > HANDOFF_US_MAX)
            return pawl__fail(
                reterr, PAWL_EOPTION,
                "the URL's option handoff=%.40s is not N, N,MS or N,MS,US with N up to %d, MS up to %d and US up to %d", text,
                HANDOFFS_MAX, HANDOFF_MS_MAX, HANDOFF_US_MAX);
    }
    most = ms * 1000;
    if (us > most)
        return pawl__fail(
            reterr, PAWL_EOPTION,
            "the URL's option handoff=%.40s lets a thread be passed for longer (%ld us) than threads may hand on at all (%ld ms)",
            text, us, ms);
    if (us == UNSAID)
        us = HANDOFF_US < most ? HANDOFF_US : most;
    client->options.handoffs = (uint32_t)count;
    client->options.handoff_ns = ms * PAWL__NS_PER_MS;
    client->options.slice_ns = us * INT64_C(1000);
    return 0;
}

/* ?max-hold=MS, and the options': the shorter one. */
static int take_max_hold(struct pawl__url *url, int64_t given_ms, struct pawl *client, struct pawl_error *reterr) {
    long long ms = given_ms ? given_ms : PAWL_FOREVER;
    int rc = pawl__url_number(url, "max-hold", PAWL_MAX_HOLD_MS_MIN, PAWL_FOREVER, &ms, reterr);

    if (given_ms && given_ms < ms)
        ms = given_ms;
    client->options.max_hold_ns = ms == PAWL_FOREVER ? 0 : pawl__deadline(0, ms);
    return rc;
}

/* ?keep=MS */
static int take_keep(struct pawl__url *url, const struct pawl__engine_impl *impl, struct pawl *client, struct pawl_error *reterr) {
    enum { UNSAID = -1 };
    long long ms = UNSAID;
    int rc = pawl__url_number(url, "keep", 0, PAWL_KEEP_MS_MAX, &ms, reterr);

    if (rc == 0 && ms == UNSAID) {
        client->options.keep_ns = impl->keeping && impl->keeping->always ? PAWL__NEVER : 0;
        return 0;
    }
    client->options.keep_ns = ms * PAWL__NS_PER_MS;
    return rc == 0 && ms ? pawl__keep_check(impl, client->options.handoffs, reterr) : rc;
}

/* ?deadlock=report|break|off */
static int take_deadlock(struct pawl__url *url, struct pawl *client, struct pawl_error *reterr) {
    static const char *const rules[] = {[DEADLOCK_REPORT] = "report", [DEADLOCK_BREAK] = "break", [DEADLOCK_OFF] = "off"};
    const char *text = pawl__url_option(url, "deadlock");

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!text || strcmp(text, rules[i]) == 0) {
            client->options.deadlock = (enum deadlock_rule)i;
            return 0;
        }
    return pawl__fail(reterr, PAWL_EOPTION, "the URL's option deadlock=%.40s is not report, break or off", text);
}

/* ---- The log -------------------------------------------------------------------------------------------------------------- */

static void tell_log(const struct pawl *client, enum pawl_log_level level, const char *text) {
    struct calling calling;

    pawl__calling_begin(&calling, CALLING_LOG, client);
    client->callbacks.log(level, text, client->callbacks.log_data);
    pawl__calling_end(&calling);
}

static void log_warning(void *data, const char *text) {
    const struct pawl *client = data;

    tell_log(client, PAWL_LOG_WARNING, text);
}

static void log_note(void *data, const struct pawl__claim *claim, const char *text) {
    struct pawl *client = data;
    int64_t us = (pawl__boottime() - client->opened_at) / 1000;
    char line[640];

    snprintf(line, sizeof line, "+%lld.%06llds %s%s%s%s", (long long)(us / 1000000), (long long)(us % 1000000), claim ? "'" : "",
             claim ? claim->name : "", claim ? "' " : "", text);
    if (client->callbacks.log)
        tell_log(client, PAWL_LOG_TRACE, line);
    else
        fprintf(stderr, "pawl[%d] %s\n", (int)getpid(), line);
}

static bool trace_wanted(const struct pawl *client) {
    const char *value = secure_getenv("PAWL_TRACE");

    return client->flags & PAWL_OPEN_TRACE || (value && *value && strcmp(value, "0") != 0);
}

/* ---- Open ----------------------------------------------------------------------------------------------------------------- */

static const struct pawl__engine_impl *find_engine(const struct pawl__url *url, struct pawl_error *reterr) {
    /* Engines of pawl's that a build may lack; named so that a typo in them gets its suggestion all the same. */
    static const char known[] = "local redis rediss redis+unix unix redis-sentinel rediss-sentinel redis-cluster rediss-cluster "
                                "redlock redlocks zk zks";
    const struct pawl__engine_impl *impl = pawl__engine_find(url->scheme);
    char buffer[32];
    const char *near;

    if (impl)
        return impl;
    near = pawl__nearest(url->scheme, known, buffer, sizeof buffer);
    if (near && strcmp(near, url->scheme) == 0)
        pawl__fail(reterr, PAWL_EENGINE, "the engine for %s: is not in this build of pawl, which has: %s", url->scheme,
                   pawl__engine_list());
    else if (near)
        pawl__fail(reterr, PAWL_EENGINE, "there is no engine for '%.30s:': did you mean %s: ?", url->scheme, near);
    else
        pawl__fail(reterr, PAWL_EENGINE, "there is no engine for '%.30s:': this build of pawl has: %s", url->scheme,
                   pawl__engine_list());
    return NULL;
}

/* ---- The service thread's work --------------------------------------------------------------------------------------------- */

/* Look at every cohort; on the way, drop those that nobody needs any more. Returns the next moment to look. */
static int64_t tick_all(struct pawl *client, int64_t now) {
    int64_t due = PAWL__NEVER, when;
    struct cohort *cohort, *next;

    pthread_mutex_lock(&client->mutex);
    for (cohort = TAILQ_FIRST(&client->table.every); cohort; cohort = next) {
        next = TAILQ_NEXT(cohort, every);
        pthread_mutex_lock(&cohort->mutex);
        when = pawl__cohort_tick(cohort, now);
        pawl__cohort_unlock(cohort);
        due = when < due ? when : due;
        pawl__cohort_reap(cohort);
    }
    pthread_mutex_unlock(&client->mutex);
    if (client->look_due) {
        client->look_due = false;
        pawl__stakes_look(client->look_since);
    }
    return due;
}

static const struct service_ops service_ops = {tick_all, pawl__events_serve};

/* ---- Open ----------------------------------------------------------------------------------------------------------------- */

static int open_engine(struct pawl *client, const struct pawl__engine_impl *impl, struct pawl__setup *setup,
                       struct pawl_error *reterr) {
    struct pawl__engine *engine = calloc(1, impl->engine_size);
    int rc;

    if (!engine)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    client->engine = engine;
    engine->impl = impl;
    engine->tell = pawl__tell;
    engine->changed = pawl__observers_changed;
    engine->core = client;
    engine->interruptible = client->callbacks.interrupted;
    client->service.ops = &service_ops;
    if (client->callbacks.log) {
        engine->warn = log_warning;
        engine->warn_data = client;
    }
    if (trace_wanted(client)) {
        engine->note = log_note;
        engine->note_data = client;
    }
    client->opened_at = pawl__boottime();
    rc = impl->open(engine, setup, reterr);
    if (rc < 0)
        return rc;
    rc = pawl__url_leftover(setup->url, reterr);
    if (rc == 0 && engine->note && !pawl__trace_install(engine))
        rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if (rc < 0) {
        impl->close(engine, pawl__boottime());
        return rc;
    }
    client->notes = engine->note;
    client->does_io = !impl->extras->check || client->notes;
    client->info.engine = impl->name;
    client->info.flags = client->flags & ~(unsigned)PAWL_OPEN_INHERIT;
    impl->describe(engine, &client->info);
    return 0;
}

static int open_engine_with_password(struct pawl *client, const struct pawl__engine_impl *impl, struct pawl__setup *setup,
                                     struct pawl_error *reterr) {
    char password[PAWL__PASSWORD_SIZE];
    int rc = pawl__password_take(setup->url, password, reterr);

    if (rc == 0)
        rc = open_engine(client, impl, setup, reterr);
    explicit_bzero(password, sizeof password);
    return rc;
}

/* Is there something that ends by itself on every engine? */
static bool takes_time(const struct pawl *client) {
    return client->options.max_hold_ns || (client->options.keep_ns && client->options.keep_ns != PAWL__NEVER);
}

static int open_client(struct pawl__url *url, const struct pawl_options *options, struct pawl *client, struct pawl_error *reterr) {
    struct pawl__setup setup = {
        .url = url,
        .lease_ns = options->lease_ms * PAWL__NS_PER_MS,
        .patience_ns = options->connect_ms ? pawl__deadline(0, options->connect_ms) : PAWL__NEVER,
        .inherit = options->flags & PAWL_OPEN_INHERIT,
        .look = options->flags & PAWL_OPEN_LOOK,
    };
    const struct pawl__engine_impl *impl;
    int rc;

    impl = find_engine(url, reterr);
    if (!impl)
        return PAWL_EENGINE;
    if (!pawl__random(&client->id, sizeof client->id))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    pawl__fork_agent(client->id, client->agent);
    if ((rc = take_identity(client, options, &setup.identity, reterr)) < 0 || (rc = take_handoff(url, client, reterr)) < 0 ||
        (rc = take_max_hold(url, options->max_hold_ms, client, reterr)) < 0 || (rc = take_keep(url, impl, client, reterr)) < 0 ||
        (rc = take_deadlock(url, client, reterr)) < 0 || (rc = open_engine_with_password(client, impl, &setup, reterr)) < 0)
        return rc;
    /* Leases are renewed by it, holds ended and kept locks given back, also while a caller waits for a claim. */
    if ((!impl->parking || impl->renew || (takes_time(client) && !setup.look)) && !pawl__service_start(client)) {
        impl->close(client->engine, pawl__boottime());
        pawl__trace_remove(client->engine);
        return pawl__fail(reterr, PAWL_ESYSTEM, "the service thread can't be started");
    }
    return 0;
}

int pawl_open(const char *url_text, const struct pawl_options *given, struct pawl **ret, struct pawl_error *reterr) {
    struct pawl_options options;
    struct pawl__url *url;
    struct pawl *client;
    int rc;
    UNCANCELLED;

    if (!ret)
        return pawl__fail(reterr, PAWL_EINVAL, "there is no place for the client: ret is NULL");
    if (pawl__in_log())
        return pawl__refuse_in_log(reterr);
    rc = take_options(given, &options, reterr);
    if (rc < 0)
        return rc;
    if (url_text && !*url_text)
        return pawl__fail(reterr, PAWL_EURL, "the URL is empty: leave it out for $PAWL_URL, or else local:");
    if (!url_text)
        url_text = secure_getenv("PAWL_URL");
    if (!url_text || !*url_text)
        url_text = "local:";
    url = malloc(sizeof *url);
    client = pawl__client_new(&options);
    pawl__fork_hold();
    if (!url || !client)
        rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    else if ((rc = pawl__url_parse(url_text, url, reterr)) == 0)
        rc = open_client(url, &options, client, reterr);
    pawl__fork_go_on(rc < 0 ? NULL : client);
    free(url);
    if (rc < 0) {
        if (client)
            pawl__client_free(client);
        return rc;
    }
    *ret = client;
    return 0;
}

void pawl_describe(const struct pawl *client, struct pawl_info *ret) {
    *ret = client->info;
}

const char *pawl_agent(const struct pawl *client) {
    return client->agent;
}

/* ---- Ending acquires ------------------------------------------------------------------------------------------------------- */

/* End the pending acquires of the handle; with NULL, of the whole cohort. */
static int end_waiters(struct cohort *cohort, const struct pawl_lock *lock, int code, const char *why) {
    struct claim *claim;
    struct waiter *waiter;
    int count = 0;

restart: /* ending a waiter may end its claim */
    TAILQ_FOREACH(claim, &cohort->claims, link) {
        TAILQ_FOREACH_REVERSE(waiter, &claim->waiters, waiter_list,
                              link) {                             /* else each would be called when the one before it ends */
            if (lock && (waiter->lock != lock || waiter->in_set)) /* a set has one end for all its parts: pawl__set_end() */
                continue;
            pawl__cohort_end(waiter, code, "the acquire of '%s' was ended: %s", cohort->name, why);
            count++;
            goto restart;
        }
    }
    return count;
}

void pawl_lock_free(struct pawl_lock *lock) {
    struct cohort *cohort;
    struct hold *hold;
    UNCANCELLED;

    if (!lock || atomic_load(&lock->client->forked) || pawl__in_log())
        return;
    cohort = lock->cohort;
    pawl__set_end(cohort, lock, PAWL_ECANCELED);
    /* Before the mutex is taken: of several that go at once, the last to have it sees that none is left. */
    atomic_fetch_sub(&cohort->users, 1);
    pthread_mutex_lock(&cohort->mutex);
    if (lock->on_loss)
        atomic_fetch_sub(&lock->client->loss_callbacks, 1);
    lock->on_loss = NULL;
    /* On a closed client none of this reaches the engine: no waiter is left, and no hold has a claim. */
    end_waiters(cohort, lock, PAWL_ECANCELED, "its handle was freed");
    while ((hold = TAILQ_FIRST(&lock->holds)))
        pawl__cohort_leave(hold);
    if (atomic_load(&cohort->users) == 0 && lock->client->options.keep_ns == PAWL__NEVER) /* no time ends it */
        pawl__cohort_give_back(cohort);
    pawl__cohort_finish(cohort);
    pawl__events_quiesce(lock);
    pawl__lock_put(lock);
}

static void close_cohort(struct cohort *cohort) {
    struct claim *claim;
    struct hold *hold;

    pawl__set_end(cohort, NULL, PAWL_ECLOSED);
    pthread_mutex_lock(&cohort->mutex);
    end_waiters(cohort, NULL, PAWL_ECLOSED, "the client was closed");
restart: /* the last hold takes its claim with it */
    TAILQ_FOREACH(claim, &cohort->claims, link) {
        if ((hold = TAILQ_FIRST(&claim->holds))) {
            pawl__cohort_leave(hold);
            goto restart;
        }
    }
    pawl__cohort_give_back(cohort);
    pawl__cohort_finish(cohort);
}

int pawl_cancel(struct pawl_lock *lock) {
    int count, sets;
    UNCANCELLED;

    if (!lock)
        return PAWL_EINVAL;
    if ((count = pawl__lock_check_alive(lock, NULL)) < 0)
        return count;
    sets = pawl__set_end(lock->cohort, lock, PAWL_ECANCELED);
    if ((count = pawl__lock_cohort(lock, NULL)) < 0)
        return count;
    count = end_waiters(lock->cohort, lock, PAWL_ECANCELED, "it was cancelled");
    pawl__cohort_finish(lock->cohort);
    return count + sets;
}

/* ---- Close ---------------------------------------------------------------------------------------------------------------- */

/* Empty every cohort. Its own reference keeps each in place, since the table's mutex can't be held meanwhile. */
static void close_cohorts(struct pawl *client) {
    struct cohort *cohort, *next;

    pthread_mutex_lock(&client->mutex);
    for (cohort = TAILQ_FIRST(&client->table.every); cohort; cohort = next) {
        cohort->references++;
        pthread_mutex_unlock(&client->mutex);
        close_cohort(cohort);
        pthread_mutex_lock(&client->mutex);
        next = TAILQ_NEXT(cohort, every);
        pawl__cohort_put(cohort);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* Wait until nobody is in the engine any more (they were all told to leave), and until it has settled what was withdrawn, or the
 * deadline has passed. */
static void wait_idle(struct pawl *client, int64_t deadline) {
    pthread_mutex_lock(&client->events.mutex);
    while (atomic_load(&client->inside))
        pthread_cond_wait(&client->events.idle, &client->events.mutex);
    while (atomic_load(&client->leaving) && pawl__boottime() < deadline)
        pawl__wait_until(&client->events.idle, &client->events.mutex, deadline);
    pthread_mutex_unlock(&client->events.mutex);
}

/* Free the cohorts without handles, with the claims in them that the engine never settled. */
static void reap_cohorts(struct pawl *client) {
    struct cohort *cohort, *next;

    pthread_mutex_lock(&client->mutex);
    for (cohort = TAILQ_FIRST(&client->table.every); cohort; cohort = next) {
        next = TAILQ_NEXT(cohort, every);
        pawl__cohort_reap(cohort);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* It would wait for the callback in which it is called, or free what that returns to. */
static int refuse_close(const struct pawl *client, const char *callback) {
    if (!pawl__in_log())
        pawl__warn(client->engine,
                   "pawl_close was called in the callback of %s, for which it would wait, and has closed nothing: "
                   "call it when the callback has returned",
                   callback);
    return PAWL_EDEADLK;
}

int pawl_close(struct pawl *client) {
    const char *callback;
    int64_t deadline;
    UNCANCELLED;

    if (!client)
        return 0;
    if (atomic_load(&client->forked))
        return PAWL_EFORKED;
    if ((callback = pawl__close_waits_for(client)))
        return refuse_close(client, callback);
    if (atomic_exchange(&client->closed, true))
        return PAWL_ECLOSED;
    deadline = pawl__boottime() + PAWL__CLOSE_NS;
    pawl__observers_stop(client);
    close_cohorts(client);
    wait_idle(client, deadline);
    pawl__observers_end(client);
    pawl__service_stop(client);
    client->service.self = pthread_self(); /* what the service thread left undone is done here */
    pawl__events_serve(client);
    pawl__fork_forget(client);
    impl_of(client)->close(client->engine, deadline);
    pawl__trace_remove(client->engine);
    atomic_store(&client->ended, true);
    pawl_dispatch(client); /* those whose acquires were ended are told now, or never */
    reap_cohorts(client);
    pawl__client_put(client);
    return 0;
}
