/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - the embedded engine at the seam.
 *
 * No server, no thread, no signal, no state outside of `struct local`: processes of one host meet in a directory. docs/local.md tells
 * how, local.h which file does what.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "base/error.h"

static void init(struct local *local) {
    local->directory_fd = local->sessions_fd = local->table_fd = -1;
    local->lifeline_fd = -1;
    local->pulse_fd = -1;
    pthread_mutex_init(&local->channels.mutex, NULL);
    pthread_mutex_init(&local->served.mutex, NULL);
    local->looking.mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* whom a look tells may look again */
}

static void finish(struct local *local) {
    pawl__local_pool_close(local);
    pawl__local_detach(local);
    pthread_mutex_destroy(&local->channels.mutex);
    pthread_mutex_destroy(&local->served.mutex);
    pthread_mutex_destroy(&local->looking.mutex);
}

/* What comes after attaching. */
static int join(struct local *local, const struct pawl__identity *identity, struct pawl_error *reterr) {
    int rc = pawl__local_pool_open(local, reterr);
    bool was_full = false;

    if (rc == 0)
        rc = pawl__local_slot_open(local, identity, &was_full, reterr);
    if (rc == 0 && was_full)
        pawl__local_recover_all(local);
    return rc;
}

/* What can't be freed by the deadline is freed by the next process that meets it: with the lifeline closed we count as dead. */
static void leave(struct local *local, int64_t deadline) {
    if (!pawl__local_gone(local))
        pawl__local_recover(local, local->owner, deadline);
    pawl__local_slot_close(local);
}

static int open_engine(struct pawl__engine *engine, const struct pawl__setup *setup, struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    int rc;

    init(local);
    local->inherit = setup->inherit;
    local->look = setup->look;
    local->looking.identity = setup->identity;
    rc = pawl__local_choose_path(local, setup->url, reterr);
    if (rc == 0)
        rc = local->look ? pawl__local_look_open(local, reterr) : pawl__local_attach(local, reterr);
    if (rc == 0 && !local->look)
        rc = join(local, &setup->identity, reterr);
    if (rc < 0) {
        finish(local);
        return rc;
    }
    if (pawl__noting(engine) && !local->look)
        pawl__note(engine, NULL, "attached to %s as session %u.%u", local->path, local->slot, local->generation);
    return 0;
}

static void close_engine(struct pawl__engine *engine, int64_t deadline) {
    struct local *local = local_of(engine);

    if (!local->look)
        leave(local, deadline);
    pawl__local_serve_finish(local);
    pawl__local_channels_close(local);
    finish(local);
}

/* Attach as any other, to the directory that we only look at. */
static int open_fully(const struct local *look, struct local **ret, struct pawl_error *reterr) {
    struct local *full = aligned_alloc(_Alignof(struct local), sizeof *full);
    int rc;

    if (!full)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    memset(full, 0, sizeof *full);
    full->engine = look->engine;
    init(full);
    full->path = strdup(look->path);
    rc = full->path ? pawl__local_attach(full, reterr) : pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if (rc == 0)
        rc = join(full, &look->looking.identity, reterr);
    if (rc < 0) {
        finish(full);
        free(full);
        return rc;
    }
    *ret = full;
    return 0;
}

static void close_fully(struct local *full) {
    leave(full, pawl__boottime() + 2000 * MS);
    finish(full);
    free(full);
}

/* The lifeline keeps holds alive, the pulse says that the parent is; the shared flock on the table would make it look in use. The rest is
 * closed for tidiness, as far as that needs no lock. Channels are left: a thread of the parent's may be changing the array. They keep
 * nobody alive. */
static void forked(struct pawl__engine *engine) {
    struct local *local = local_of(engine);

    if (local->inherit)
        local->lifeline_fd = -1;
    pawl__local_close_files(local);
}

static void describe(const struct pawl__engine *engine, struct pawl_info *ret) {
    const struct local *local = local_of(engine);

    ret->url = local->url;
    ret->lease_ms = PAWL_FOREVER;
    ret->notice_ms = 0;
    ret->flags |= local->inherit ? PAWL_OPEN_INHERIT : 0;
}

/* An adopted claim is the serving thread's to change. */
static int withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local_claim *state = state_of_claim(claim);

    if (!state->adopted)
        return pawl__local_withdraw(local_of(engine), state);
    pawl__local_serve_wants(local_of(engine), state, EVENT_WITHDRAWN);
    return PAWL__PENDING;
}

static int downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    struct local_claim *state = state_of_claim(claim);

    if (!state->adopted)
        return pawl__local_downgrade(local_of(engine), state);
    pawl__local_serve_wants(local_of(engine), state, EVENT_DOWNGRADED);
    return PAWL__PENDING;
}

/* Who only looks has one copy of the table, read anew for each look: one looks at a time. */
static int begin_look(struct local *local, struct pawl_error *reterr) {
    if (!local->look)
        return 0;
    pthread_mutex_lock(&local->looking.mutex);
    return pawl__local_look_again(local, reterr);
}

static int end_look(struct local *local, int rc) {
    if (local->look)
        pthread_mutex_unlock(&local->looking.mutex);
    return rc;
}

static int survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    int rc = begin_look(local, reterr);

    return end_look(local, rc < 0 ? rc : pawl__local_survey(local, name, visit, data, reterr));
}

static int examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct local *local = local_of(engine);
    int rc = begin_look(local, reterr);

    return end_look(local, rc < 0 ? rc : pawl__local_examine(local, visit, data, reterr));
}

static int break_hold(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct local *local = local_of(engine), *full = local;
    int rc = begin_look(local, reterr);

    if (rc == 0 && local->look && !local->looking.absent)
        rc = open_fully(local, &full, reterr);
    if (rc == 0)
        rc = pawl__local_break(full, name, token, now, reterr);
    if (full != local)
        close_fully(full);
    return end_look(local, rc);
}

const struct pawl__engine_impl pawl__local_engine = {
    .name = "local",
    .schemes = (const char *const[]){"local", NULL},
    .engine_size = sizeof(struct local),
    .claim_size = sizeof(struct local_claim),
    .open = open_engine,
    .close = close_engine,
    .forked = forked,
    .describe = describe,
    .submit = pawl__local_submit,
    .withdraw = withdraw,
    .serve = pawl__local_serve,
    .wake = pawl__local_wake,
    .parking =
        &(const struct pawl__parking){
            .park = pawl__local_park,
            .unpark = pawl__local_unpark,
            .adopt = pawl__local_adopt,
        },
    .operators =
        &(const struct pawl__operators){
            .survey = survey,
            .break_hold = break_hold,
            .examine = examine,
        },
    .extras =
        &(const struct pawl__extras){
            .downgrade = downgrade,
            .retoken = pawl__local_retoken,
            .check = pawl__local_check,
        },
    .keeping =
        &(const struct pawl__keeping){
            .rest = pawl__local_rest,
            .resume = pawl__local_resume,
            .is_wanted = pawl__local_is_wanted,
            .always = true,
        },
    .values =
        &(const struct pawl__values){
            .sign = pawl__local_value_sign,
            .set = pawl__local_value_set,
            .get = pawl__local_value_get,
            .observe = pawl__local_observe,
            .unobserve = pawl__local_unobserve,
        },
};
