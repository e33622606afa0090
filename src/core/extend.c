/* SPDX-License-Identifier: Apache-2.0
 *
 * extend.c - pawl_extend: another limit for a hold, and the engine's word that it is still ours.
 *
 * The limit is that of the claim: a hold with a limit has its claim for itself (see pawl_set_max_hold). The engine is asked to renew it by
 * the new limit; how long it is assured follows from the answer, as for any renewal. So what was asked may be lost, or be answered late:
 * the engine asks again, each time for what is left until that limit, and never beyond.
 *
 * The caller waits for the answer to a request that left after it asked. It sleeps on `changes` of its handle, which is rung when a hold of
 * the handle was renewed or lost, or is over; then it looks at its own, which it finds by the token.
 */
#include "core/claim.h"
#include "base/error.h"
#include "base/lease.h"
#include "os/sleep.h"
#include "os/uncancelled.h"

struct extension {
    struct pawl_lock *lock;
    uint64_t token;
    int64_t asked_at, deadline;
    int64_t timeout_ms;
};

static const struct hold *find_hold(const struct extension *extension) {
    const struct hold *hold;

    TAILQ_FOREACH(hold, &extension->lock->holds, of_lock) {
        if (hold->token == extension->token)
            return hold;
    }
    return NULL;
}

static int fail_lost(const struct pawl_lock *lock, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' was lost: stop, and release it", lock->cohort->name);
}

static int fail_late(const struct extension *extension, struct claim *claim, struct pawl_error *reterr) {
    const char *name = extension->lock->cohort->name;
    struct pawl_error why;

    if (pawl__claim_why(claim, &why))
        return pawl__fail(reterr, why.code, "the hold of '%s' was not confirmed within %lld ms: %s", name,
                          (long long)extension->timeout_ms, why.text);
    return pawl__fail(reterr, PAWL_ETIMEOUT, "the hold of '%s' was not confirmed within %lld ms: the server has not answered", name,
                      (long long)extension->timeout_ms);
}

/* 0: the engine has answered; negative: it is over. 1: not yet. */
static int look(const struct extension *extension, int64_t now, struct pawl_error *reterr) {
    const struct pawl_lock *lock = extension->lock;
    const struct hold *hold = find_hold(extension);
    int rc;

    if ((rc = pawl__lock_check_alive(lock, reterr)) < 0)
        return rc;
    if (!hold)
        return pawl__fail(reterr, PAWL_ENOTHELD, "'%s' was released while it was being extended", lock->cohort->name);
    if (hold->lost)
        return fail_lost(lock, reterr);
    if (hold->claim->lease.sent_at >= extension->asked_at)
        return 0;
    return now < extension->deadline ? 1 : fail_late(extension, hold->claim, reterr);
}

/* Sleep until something changes. True: a signal handler wants the wait to end. */
static bool sleep_once(struct pawl_lock *lock, int64_t now, int64_t deadline) {
    const struct pawl *client = lock->client;
    uint32_t seen = atomic_load(&lock->changes);
    int64_t until = client->callbacks.interrupted && deadline - now > PAWL__LISTEN_NS ? now + PAWL__LISTEN_NS : deadline;
    bool over;

    pawl__cohort_let_go(lock->cohort);
    futex_wait_own(&lock->changes, seen, pawl__nap_ns(now, until));
    over = pawl__ask_interrupted(client, NULL);
    pthread_mutex_lock(&lock->cohort->mutex);
    return over;
}

static int wait_for_answer(const struct extension *extension, struct pawl_error *reterr) {
    struct pawl_lock *lock = extension->lock;
    int64_t now = pawl__boottime();
    int rc;

    for (; (rc = look(extension, now, reterr)) == 1; now = pawl__boottime())
        if (sleep_once(lock, now, extension->deadline))
            return pawl__fail(reterr, PAWL_ECANCELED, "extending '%s' was ended: a signal interrupted it", lock->cohort->name);
    return rc;
}

/* The handle may be freed and the client closed while it waits: both are kept until it has returned. The cohort is locked, and unlocked
 * afterwards. */
static int confirm(const struct extension *extension, struct pawl_error *reterr) {
    struct pawl_lock *lock = extension->lock;
    int rc;

    lock->references++;
    lock->extending++;
    atomic_fetch_add(&lock->client->inside, 1);
    rc = wait_for_answer(extension, reterr);
    lock->extending--;
    pawl__cohort_unlock(lock->cohort);
    pawl__client_one_less(lock->client, &lock->client->inside);
    pawl__lock_put(lock);
    return rc;
}

static int check_times(int64_t max_hold_ms, int64_t timeout_ms, struct pawl_error *reterr) {
    if (max_hold_ms < PAWL_MAX_HOLD_MS_MIN)
        return pawl__fail(reterr, PAWL_EDURATION, "a hold can't be given %lld ms: %d ms at least, or PAWL_FOREVER",
                          (long long)max_hold_ms, PAWL_MAX_HOLD_MS_MIN);
    if (timeout_ms < 0)
        return pawl__fail(reterr, PAWL_EDURATION, "a time-out of %lld ms is negative: pass PAWL_FOREVER to wait",
                          (long long)timeout_ms);
    return 0;
}

/* Is this the thread that would hear the answer? What has no lease needs none. */
static bool waits_for_itself(const struct hold *hold) {
    return hold->claim->lease.ns != PAWL__NEVER && pawl__service_calls(hold->lock->client);
}

/* The cohort is locked, and unlocked afterwards. */
static int extend(struct extension *extension, int64_t max_hold_ms, struct pawl_error *reterr) {
    struct pawl_lock *lock = extension->lock;
    struct hold *hold = pawl__lock_hold(lock);
    int rc = 0;

    if (!hold)
        rc = pawl__lock_fail_not_held(lock, false, reterr);
    else if (hold->lost)
        rc = fail_lost(lock, reterr);
    else if (waits_for_itself(hold))
        rc = pawl__fail(reterr, PAWL_EDEADLK,
                        "'%s' can't be extended in this callback, which runs in the thread that renews: do it in another",
                        lock->cohort->name);
    else
        extension->token = pawl__hold_token(hold);
    if (rc == 0 && !pawl__claim_extend(hold->claim, pawl__deadline(extension->asked_at, max_hold_ms), &extension->asked_at))
        return confirm(extension, reterr);
    pawl__cohort_unlock(lock->cohort);
    return rc;
}

int pawl_extend(struct pawl_lock *lock, int64_t max_hold_ms, int64_t timeout_ms, struct pawl_error *reterr) {
    int64_t now = pawl__boottime();
    struct extension extension = {lock, .asked_at = now, .deadline = pawl__deadline(now, timeout_ms), .timeout_ms = timeout_ms};
    int rc;
    UNCANCELLED;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if ((rc = check_times(max_hold_ms, timeout_ms, reterr)) < 0 || (rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    return extend(&extension, max_hold_ms, reterr);
}
