/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - the value beside a lock: written by who holds it exclusively, read by anybody, remembered while it is held.
 *
 * A write is decided by the server. Here it is only seen to that the calling owner holds; the engine notes who that is (sign), under the
 * cohort's mutex, and then writes without it. The claim may be gone by then: the server finds no entry, and refuses.
 *
 * Invariants
 *   - The writes of a claim are numbered, and an older one never replaces a newer one at the server. So a write that lay in a broken
 *     connection does no harm once another was written.
 *   - A claim with a write that had no answer (is_unsure) is neither handed on nor joined nor kept: it is withdrawn, and with it goes the
 *     entry in whose name the write could still come through. So no write of one hold happens during another.
 *   - What is remembered belongs to the claim: it was read or written while the claim was held. A writer needs an exclusive claim, and
 *     there is none beside a shared one: so that is as good for all its holds, and while it is kept. Under an exclusive claim
 *     it ends with the hold, since others may write in its name (pawl_value_set_as). It is forgotten when a write begins, and only what
 *     is certain is remembered: what was read, or written, while no other write was under way.
 *   - A call under way has a reference to its handle, and is counted in client->inside.
 */
#include <string.h>

#include "core/claim.h"
#include "base/error.h"
#include "base/name.h"
#include "os/uncancelled.h"

/* A call about the value of a handle's lock, while no mutex is held. */
struct call {
    struct pawl_lock *lock;
    uint64_t claim_id; /* of the claim under which the calling owner holds; 0: it does not */
    uint64_t writes;   /* of that claim when the call began */
    uint32_t entered;  /* likewise: how many holds it had had; */
    bool exclusive;    /* ... and whether it was */
    bool alone;        /* no other write of it was under way then */
    enum pawl__part part;
};

/* ---- Is it possible? ------------------------------------------------------------------------------------------------------ */

int pawl__client_check_values(const struct pawl *client, struct pawl_error *reterr) {
    if (impl_of(client)->values)
        return 0;
    return pawl__fail(reterr, PAWL_EUNSUPPORTED, "%s: has no values beside its locks, and nobody can observe them",
                      impl_of(client)->name);
}

static int check_lock(const struct pawl_lock *lock, struct pawl_error *reterr) {
    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if (lock->cohort->kind == PAWL_SEMAPHORE)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is a semaphore: it has no value", lock->cohort->name);
    return pawl__client_check_values(lock->client, reterr);
}

static int check_bytes(const char *name, const void *bytes, size_t size, struct pawl_error *reterr) {
    if (!bytes && size > 0)
        return pawl__fail(reterr, PAWL_EINVAL, "the value of '%s' is NULL, and %zu bytes long: to delete it, say 0", name, size);
    if (size > PAWL_VALUE_MAX)
        return pawl__fail(reterr, PAWL_ETOOLARGE,
                          "%zu bytes are too many for the value of '%s': %u at most; store them elsewhere, "
                          "and where they are here",
                          size, name, PAWL_VALUE_MAX);
    return 0;
}

/* ---- Calls under way ------------------------------------------------------------------------------------------------------- */

/* The claim of the call, if it is still granted. The cohort is locked. */
static struct claim *claim_of_call(const struct call *call) {
    struct claim *claim;

    TAILQ_FOREACH(claim, &call->lock->cohort->claims, link) {
        if (call->claim_id && claim->seam.id[1] + 1 == call->claim_id)
            return claim;
    }
    return NULL;
}

/* The cohort is locked, and unlocked afterwards. */
static void begin_call(struct call *call, const struct hold *hold) {
    struct pawl_lock *lock = call->lock;

    call->claim_id = hold ? hold->claim->seam.id[1] + 1 : 0;
    call->writes = hold ? hold->claim->value.writes : 0;
    call->entered = hold ? hold->claim->bounds.entered : 0;
    call->exclusive = hold && hold->claim->seam.mode == PAWL_EXCLUSIVE;
    lock->references++;
    atomic_fetch_add(&lock->client->inside, 1);
    pawl__cohort_unlock(lock->cohort);
}

/* The cohort is locked, and unlocked afterwards. The handle may be freed. */
static void end_call(const struct call *call) {
    struct pawl_lock *lock = call->lock;

    pawl__cohort_unlock(lock->cohort);
    pawl__client_one_less(lock->client, &lock->client->inside);
    pawl__lock_put(lock);
}

static int fail_lost(const struct pawl_lock *lock, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' was lost: release it, and acquire it again", lock->cohort->name);
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

/* The hold in whose name the calling owner writes. NULL: none, and reterr says why. The cohort is locked. */
static struct hold *writing_hold(const struct pawl_lock *lock, struct pawl_error *reterr, int *retrc) {
    struct hold *hold = pawl__lock_hold(lock);

    if (!hold)
        *retrc = pawl__fail(reterr, PAWL_ENOTHELD, "'%s' is not held: its value is written by who holds it", lock->cohort->name);
    else if (hold->lost)
        *retrc = fail_lost(lock, reterr);
    else if (!hold->exclusive)
        *retrc = pawl__fail(reterr, PAWL_ENOTHELD, "'%s' is held shared: its value is written by who holds it exclusively",
                            lock->cohort->name);
    else
        return hold;
    return NULL;
}

static int begin_write(struct call *call, struct pawl__write *write, struct pawl__author *author, struct pawl_error *reterr) {
    struct pawl_lock *lock = call->lock;
    struct cohort *cohort = lock->cohort;
    struct hold *hold;
    int rc;

    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    if (!(hold = writing_hold(lock, reterr, &rc))) {
        pawl__cohort_unlock(cohort);
        return rc;
    }
    write->name = cohort->name;
    write->name_length = cohort->name_length;
    write->name_hash = cohort->name_hash;
    write->token = pawl__hold_token(hold);
    write->author = author;
    write->number = ++hold->claim->value.writes;
    impl_of(lock->client)->values->sign(cohort->engine, &hold->claim->seam, author);
    call->alone = hold->claim->value.writing++ == 0;
    pawl__claim_forget_value(hold->claim);
    begin_call(call, hold);
    return 0;
}

/* Written while no other write was under way, and none before it can come any more: that is what lies there, if the engine can tell (a
 * version). */
static void remember_written(const struct call *call, struct claim *claim, const struct pawl__write *write,
                             const struct pawl__stamp *stamp) {
    if (call->part != PART_VALUE || !call->alone || claim->value.writes != write->number || is_unsure(claim) || !stamp->version)
        return;
    pawl__value_stock_fill(&claim->value.stock, write->bytes ? pawl__value_new(write->bytes, write->size, stamp) : NULL);
    claim->value.known = !write->bytes || claim->value.stock.value;
}

static void end_write(struct call *call, const struct pawl__write *write, int rc, const struct pawl__stamp *stamp) {
    struct claim *claim;

    pthread_mutex_lock(&call->lock->cohort->mutex);
    if ((claim = claim_of_call(call))) {
        uint64_t *unsure = &claim->value.unsure[call->part];

        claim->value.writing--;
        pawl__claim_forget_value(claim);
        if (rc == PAWL_EUNKNOWN && *unsure < write->number)
            *unsure = write->number;
        else if ((rc == 0 || rc == PAWL_EREPLICAS) && *unsure < write->number)
            *unsure = 0;
        if (rc == 0)
            remember_written(call, claim, write, stamp);
        if (rc == PAWL_ELOST && claim->state == CLAIM_HELD)
            pawl__claim_ask(claim);
    }
    end_call(call);
}

static int set(struct pawl_lock *lock, enum pawl__part part, const void *bytes, size_t size, struct pawl_error *reterr) {
    struct call call = {.lock = lock, .part = part};
    struct pawl__write write = {.part = part, .bytes = bytes, .size = size};
    struct pawl__author author;
    struct pawl__stamp stamp;
    int rc;
    UNCANCELLED;

    if ((rc = check_lock(lock, reterr)) < 0 || (rc = check_bytes(lock->cohort->name, bytes, size, reterr)) < 0 ||
        (rc = pawl__client_check_asks(lock->client, reterr)) < 0 || (rc = begin_write(&call, &write, &author, reterr)) < 0)
        return rc;
    rc = impl_of(lock->client)->values->set(lock->client->engine, &write, pawl__boottime() + PAWL__VALUE_NS, &stamp, reterr);
    end_write(&call, &write, rc, &stamp);
    return rc;
}

int pawl_value_set(struct pawl_lock *lock, const void *bytes, size_t size, struct pawl_error *reterr) {
    return set(lock, PART_VALUE, bytes, size, reterr);
}

int pawl_note_set(struct pawl_lock *lock, const void *bytes, size_t size, struct pawl_error *reterr) {
    return set(lock, PART_NOTE, bytes, size, reterr);
}

int pawl_value_set_as(struct pawl *client, const char *name, uint64_t token, const void *bytes, size_t size,
                      struct pawl_error *reterr) {
    struct pawl__write write = {.name = name, .part = PART_VALUE, .bytes = bytes, .size = size, .token = token};
    struct pawl__stamp stamp;
    int rc;
    UNCANCELLED;

    if ((rc = pawl__client_check(client, reterr)) < 0 || (rc = pawl__name_check(name, reterr)) < 0 ||
        (rc = pawl__client_check_values(client, reterr)) < 0 || (rc = check_bytes(name, bytes, size, reterr)) < 0 ||
        (rc = pawl__client_check_asks(client, reterr)) < 0)
        return rc;
    if (client->flags & PAWL_OPEN_LOOK)
        return pawl__fail(reterr, PAWL_EINVAL, "the client was opened only to look (PAWL_OPEN_LOOK): open another to write values");
    if (token == 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "writing the value of '%s' needs the token of the hold in whose name it is written",
                          name);
    write.name_length = (uint32_t)strlen(name);
    write.name_hash = pawl__name_hash(name, write.name_length);
    return impl_of(client)->values->set(client->engine, &write, pawl__boottime() + PAWL__VALUE_NS, &stamp, reterr);
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

static int ask(struct pawl *client, const char *name, enum pawl__part part, enum pawl__fresh fresh, struct pawl__value **ret,
               int64_t *retnow, struct pawl_error *reterr) {
    int rc = pawl__client_check_asks(client, reterr);
    UNCANCELLED;

    if (rc < 0)
        return rc;
    return impl_of(client)->values->get(client->engine, name, part, fresh, pawl__boottime() + PAWL__VALUE_NS, ret, retnow, reterr);
}

/* What was read in an exclusive hold is of use to that alone: neither to the next one under the claim, nor after a downgrade. */
static bool is_another_hold(const struct call *call, const struct claim *claim) {
    return call->exclusive &&
           (claim->seam.mode != PAWL_EXCLUSIVE || claim->bounds.entered != call->entered || TAILQ_EMPTY(&claim->holds));
}

/* Read by a call that had no write beside it, under a claim that is still granted. */
static void remember_read(const struct call *call, struct pawl__value *value) {
    struct claim *claim = claim_of_call(call);

    if (!claim || (claim->state != CLAIM_HELD && claim->state != CLAIM_KEPT) || is_unsure(claim) ||
        claim->value.writes != call->writes || claim->value.known || is_another_hold(call, claim))
        return;
    pawl__value_stock_fill(&claim->value.stock, pawl__value_ref(value));
    claim->value.known = true;
}

/* Ask the engine. The cohort is locked, and unlocked afterwards. */
static int get_by_request(struct pawl_lock *lock, const struct hold *hold, enum pawl__part part, struct pawl__value **ret,
                          int64_t *retnow, struct pawl_error *reterr) {
    struct call call = {.lock = lock, .part = part};
    int rc;

    begin_call(&call, hold);
    rc = ask(lock->client, lock->cohort->name, part, hold ? FRESH_GRANT : FRESH_LATEST, ret, retnow, reterr);
    pthread_mutex_lock(&lock->cohort->mutex);
    if (rc == 0 && part == PART_VALUE)
        remember_read(&call, *ret);
    end_call(&call);
    return rc;
}

static int get(struct pawl_lock *lock, enum pawl__part part, const struct pawl_value **ret, int64_t *retnow,
               struct pawl_error *reterr) {
    struct pawl__value *value = NULL;
    const struct hold *hold;
    int rc;

    if ((rc = check_lock(lock, reterr)) < 0)
        return rc;
    if (!ret)
        return pawl__fail(reterr, PAWL_EINVAL, "there is no place for the value: ret is NULL");
    UNCANCELLED_IF(lock->client->notes);
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    hold = pawl__lock_hold(lock);
    if (hold && hold->lost) {
        pawl__cohort_unlock(lock->cohort);
        return fail_lost(lock, reterr);
    }
    if (part == PART_VALUE && hold && hold->claim->value.known) {
        value = pawl__value_stock_take(&hold->claim->value.stock);
        pawl__cohort_unlock(lock->cohort);
    } else if ((rc = get_by_request(lock, hold, part, &value, retnow, reterr)) < 0) {
        return rc;
    }
    *ret = pawl__value_shown(value);
    return 0;
}

int pawl_value_get(struct pawl_lock *lock, const struct pawl_value **ret, struct pawl_error *reterr) {
    return get(lock, PART_VALUE, ret, NULL, reterr);
}

int pawl_note_get(struct pawl_lock *lock, const struct pawl_value **ret, int64_t *retnow_ms, struct pawl_error *reterr) {
    int64_t now_us = 0;
    int rc = get(lock, PART_NOTE, ret, retnow_ms ? &now_us : NULL, reterr);

    if (rc == 0 && retnow_ms)
        *retnow_ms = now_us / 1000;
    return rc;
}

int pawl_value_read(struct pawl *client, const char *name, const struct pawl_value **ret, struct pawl_error *reterr) {
    struct pawl__value *value = NULL;
    int rc;

    if ((rc = pawl__client_check(client, reterr)) < 0 || (rc = pawl__name_check(name, reterr)) < 0 ||
        (rc = pawl__client_check_values(client, reterr)) < 0)
        return rc;
    if (!ret)
        return pawl__fail(reterr, PAWL_EINVAL, "there is no place for the value: ret is NULL");
    if ((rc = ask(client, name, PART_VALUE, FRESH_LATEST, &value, NULL, reterr)) == 0)
        *ret = pawl__value_shown(value);
    return rc;
}

void pawl_value_free(const struct pawl_value *value) {
    pawl__value_put(pawl__value_of(value));
}
