/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.c - handles: who owns what, re-entry, and the public calls.
 *
 * A handle's holds are told apart by owner: a thread's number, or with PAWL_TASK the handle's own. For a mutex and a read-write lock
 * an owner has at most one hold per handle, which counts its exclusive and shared acquires; the engine sees one claim. For a
 * semaphore every acquire is a hold of its own, the latest first.
 *
 * What the same owner may do on top of what it has:
 *
 *     has          wants exclusive       wants shared
 *     exclusive    enters (*)            enters
 *     shared       EDEADLK               enters
 *     lost         ELOST                 ELOST          (*) EDEADLK where the mutex is PAWL_NONREENTRANT
 */
#include <stdlib.h>
#include <string.h>

#include "core/claim.h"
#include "base/error.h"
#include "base/lease.h"
#include "base/name.h"
#include "os/uncancelled.h"

static _Atomic uint64_t owners; /* numbers given to threads and task handles so far */

/* Sixteen bytes of the initial TLS block: every acquire asks for them. */
static _Thread_local struct {
    uint64_t owner; /* 0: it has no number yet */
    /* Acquires by this thread as owner that it has not released. Too many where another ended a hold, by pawl_close or pawl_lock_free:
     * then it looks for deadlocks without need. */
    int64_t acquires;
} self __attribute__((tls_model("initial-exec")));

static uint64_t next_owner(void) {
    return atomic_fetch_add(&owners, 1) + 1;
}

static uint64_t thread_owner(void) {
    if (!self.owner)
        self.owner = next_owner();
    return self.owner;
}

uint64_t pawl__owner_new(void) {
    return next_owner();
}

uint64_t pawl__owner_self(void) {
    return thread_owner();
}

static inline void count_acquires(const struct pawl_lock *lock, int acquires) {
    if (!(lock->flags & PAWL_TASK))
        self.acquires += acquires;
}

void pawl__owner_counts(const struct pawl_lock *lock, int acquires) {
    count_acquires(lock, acquires);
}

static uint64_t owner_of(const struct pawl_lock *lock) {
    return lock->flags & PAWL_TASK ? lock->owner : thread_owner();
}

/* The owner's hold; of a semaphore its latest. */
static struct hold *find_hold(const struct pawl_lock *lock, uint64_t owner) {
    struct hold *hold;

    TAILQ_FOREACH(hold, &lock->holds, of_lock) {
        if (hold->owner == owner)
            return hold;
    }
    return NULL;
}

int pawl__lock_check_alive(const struct pawl_lock *lock, struct pawl_error *reterr) {
    if (atomic_load_explicit(&lock->client->forked, memory_order_relaxed))
        return pawl__fail(reterr, PAWL_EFORKED, "the client was opened before fork(): open one of its own in the child");
    if (atomic_load_explicit(&lock->client->closed, memory_order_acquire))
        return pawl__fail(reterr, PAWL_ECLOSED, "the client of '%s' is closed", lock->cohort->name);
    return pawl__in_log() ? pawl__refuse_in_log(reterr) : 0;
}

/* Lock it, unless it must not be touched: after fork the mutex may be one that a thread of the parent holds, in the log's callback one that
 * this thread has. False: it is not locked. */
static inline bool lock_cohort(const struct pawl_lock *lock) {
    if (atomic_load_explicit(&lock->client->forked, memory_order_relaxed) || pawl__in_log())
        return false;
    pthread_mutex_lock(&lock->cohort->mutex);
    if (!atomic_load_explicit(&lock->client->closed, memory_order_acquire))
        return true;
    pthread_mutex_unlock(&lock->cohort->mutex);
    return false;
}

int pawl__lock_cohort(const struct pawl_lock *lock, struct pawl_error *reterr) {
    return lock_cohort(lock) ? 0 : pawl__lock_check_alive(lock, reterr);
}

/* ---- Handles -------------------------------------------------------------------------------------------------------------- */

static int lock_new(struct pawl *client, const char *name, enum pawl_kind kind, unsigned limit, unsigned flags,
                    struct pawl_lock **ret, struct pawl_error *reterr) {
    struct pawl_lock *lock;
    int rc;

    if (!client || !ret)
        return pawl__fail(reterr, PAWL_EINVAL, "a lock needs a client and a place for its handle; one of them is NULL");
    if ((rc = pawl__client_check(client, reterr)) < 0)
        return rc;
    if (client->flags & PAWL_OPEN_LOOK)
        return pawl__fail(reterr, PAWL_EINVAL, "the client was opened only to look (PAWL_OPEN_LOOK): open another for locks");
    rc = pawl__name_check(name, reterr);
    if (rc < 0)
        return rc;
    lock = calloc(1, sizeof *lock);
    if (!lock)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    pthread_mutex_lock(&client->mutex);
    lock->cohort = pawl__cohort_get(client, name, kind, limit, flags & PAWL_NONREENTRANT);
    client->references += lock->cohort != NULL;
    pthread_mutex_unlock(&client->mutex);
    if (!lock->cohort) {
        free(lock);
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    lock->client = client;
    lock->flags = flags;
    lock->owner = flags & PAWL_TASK ? next_owner() : 0;
    lock->references = 1;
    lock->max_hold_ns = client->options.max_hold_ns;
    lock->keep_ns = kind == PAWL_SEMAPHORE ? 0 : client->options.keep_ns;
    TAILQ_INIT(&lock->holds);
    *ret = lock;
    return 0;
}

static int check_flags(unsigned flags, unsigned allowed, struct pawl_error *reterr) {
    if (flags & ~allowed)
        return pawl__fail(reterr, PAWL_EINVAL, "flag 0x%x is not one that this kind of lock takes", flags & ~allowed);
    return 0;
}

int pawl_mutex_new(struct pawl *client, const char *name, unsigned flags, struct pawl_lock **ret, struct pawl_error *reterr) {
    int rc = check_flags(flags, PAWL_TASK | PAWL_NONREENTRANT, reterr);

    return rc < 0 ? rc : lock_new(client, name, PAWL_MUTEX, 1, flags, ret, reterr);
}

int pawl_rwlock_new(struct pawl *client, const char *name, unsigned flags, struct pawl_lock **ret, struct pawl_error *reterr) {
    int rc = check_flags(flags, PAWL_TASK, reterr);

    return rc < 0 ? rc : lock_new(client, name, PAWL_RWLOCK, 1, flags, ret, reterr);
}

int pawl_semaphore_new(struct pawl *client, const char *name, unsigned limit, unsigned flags, struct pawl_lock **ret,
                       struct pawl_error *reterr) {
    int rc = check_flags(flags, PAWL_TASK, reterr);

    if (rc < 0)
        return rc;
    if (limit < 1 || limit > PAWL_PERMITS_MAX)
        return pawl__fail(reterr, PAWL_EPERMITS, "a semaphore of %u permits is not possible: choose 1 to %u", limit,
                          PAWL_PERMITS_MAX);
    return lock_new(client, name, PAWL_SEMAPHORE, limit, flags, ret, reterr);
}

int pawl_set_max_hold(struct pawl_lock *lock, int64_t max_hold_ms, struct pawl_error *reterr) {
    int64_t most, wanted;
    int rc;
    UNCANCELLED;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if (max_hold_ms && max_hold_ms < PAWL_MAX_HOLD_MS_MIN)
        return pawl__fail(reterr, PAWL_EDURATION, "a hold of at most %lld ms is too short: %d ms or more, or 0 for no limit",
                          (long long)max_hold_ms, PAWL_MAX_HOLD_MS_MIN);
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    most = lock->client->options.max_hold_ns;
    wanted = pawl__deadline(0, max_hold_ms);
    lock->max_hold_ns = most && (!wanted || most < wanted) ? most : wanted;
    pawl__cohort_unlock(lock->cohort);
    if (max_hold_ms && !pawl__service_start(lock->client))
        return pawl__fail(reterr, PAWL_ESYSTEM, "the service thread can't be started: nobody would end the holds in time");
    return 0;
}

/* May locks be kept on this client? 0, or why not. */
static int check_keeps(const struct pawl_lock *lock, struct pawl_error *reterr) {
    if (lock->cohort->kind == PAWL_SEMAPHORE)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is a semaphore: permits can't be kept", lock->cohort->name);
    return pawl__keep_check(impl_of(lock->client), lock->client->options.handoffs, reterr);
}

int pawl_set_keep(struct pawl_lock *lock, int64_t keep_ms, struct pawl_error *reterr) {
    int rc;
    UNCANCELLED;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if (keep_ms < 0 || keep_ms > PAWL_KEEP_MS_MAX)
        return pawl__fail(reterr, PAWL_EDURATION, "a lock can't be kept for %lld ms: choose 1 to %d, or 0 to give it back",
                          (long long)keep_ms, PAWL_KEEP_MS_MAX);
    if (keep_ms && (rc = check_keeps(lock, reterr)) < 0)
        return rc;
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    lock->keep_ns = pawl__deadline(0, keep_ms);
    if (!keep_ms)
        pawl__cohort_give_back(lock->cohort);
    pawl__cohort_finish(lock->cohort);
    if (keep_ms && !pawl__service_start(lock->client))
        return pawl__fail(reterr, PAWL_ESYSTEM, "the service thread can't be started: nobody would give the lock back in time");
    return 0;
}

/* ---- Acquire -------------------------------------------------------------------------------------------------------------- */

static int fail_deadlock(const struct pawl_lock *lock, const struct hold *hold, struct pawl_error *reterr) {
    if (hold->exclusive)
        return pawl__fail(reterr, PAWL_EDEADLK, "this owner holds the non-reentrant '%s' already: it would wait for itself",
                          lock->cohort->name);
    return pawl__fail(reterr, PAWL_EDEADLK, "this owner holds '%s' shared: release that before acquiring it exclusively",
                      lock->cohort->name);
}

/* One more acquire by an owner that has a hold. */
static int reenter(const struct pawl_lock *lock, struct hold *hold, enum pawl_mode mode, struct pawl_error *reterr) {
    if (hold->lost)
        return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' was lost: release it before acquiring it again",
                          lock->cohort->name);
    if (mode == PAWL_SHARED) {
        hold->shared++;
        lock->cohort->counts.reentered++;
        return 0;
    }
    if (!hold->exclusive || lock->flags & PAWL_NONREENTRANT)
        return fail_deadlock(lock, hold, reterr);
    hold->exclusive++;
    lock->cohort->counts.reentered++;
    return 0;
}

int pawl__lock_check(const struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                     struct pawl_error *reterr) {
    enum pawl_kind kind;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    kind = lock->cohort->kind;
    if (timeout_ms < 0)
        return pawl__fail(reterr, PAWL_EDURATION, "a time-out of %lld ms is negative: pass 0 to try, PAWL_FOREVER to wait",
                          (long long)timeout_ms);
    if (mode == PAWL_SHARED && kind != PAWL_RWLOCK)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is not a read-write lock: it can't be shared", lock->cohort->name);
    if (mode == PAWL_PERMITS && kind != PAWL_SEMAPHORE)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is not a semaphore: it has no permits", lock->cohort->name);
    if (mode == PAWL_PERMITS && (permits < 1 || permits > lock->cohort->limit))
        return pawl__fail(reterr, PAWL_EPERMITS, "%u permits of '%s' are not possible: it has %u", permits, lock->cohort->name,
                          lock->cohort->limit);
    return 0;
}

int pawl__lock_check_busy(const struct pawl_lock *lock, struct pawl_error *reterr) {
    if (lock->flags & PAWL_TASK && lock->pending)
        return pawl__fail(reterr, PAWL_EBUSY, "the handle of '%s' has a pending acquire already", lock->cohort->name);
    return 0;
}

int pawl__lock_reenter(struct pawl_lock *lock, enum pawl_mode mode, struct pawl_error *reterr) {
    struct hold *hold;
    int rc;

    if (lock->cohort->kind == PAWL_SEMAPHORE || !(hold = find_hold(lock, owner_of(lock))))
        return 1;
    if (hold->claim)
        pawl__cohort_refresh(hold->claim);
    rc = reenter(lock, hold, mode, reterr);
    if (rc < 0)
        pawl__count_end(lock->cohort, rc);
    return rc;
}

/* Memory for the hold to be, so that granting can't fail. */
static struct hold *take_hold(struct pawl_lock *lock, struct pawl_error *reterr) {
    struct hold *hold = lock->spare;

    lock->spare = NULL;
    if (!hold && !(hold = malloc(sizeof *hold)))
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    return hold;
}

/* A semaphore's one permit may be asked for by pawl_acquire. */
static enum pawl_mode mode_of(const struct pawl_lock *lock, enum pawl_mode mode) {
    return lock->cohort->kind == PAWL_SEMAPHORE ? PAWL_PERMITS : mode;
}

/* Field by field, and without the error: it is large, and written only when there is one. */
static void fill_waiter(struct pawl_lock *lock, struct waiter *waiter, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                        struct hold *hold) {
    waiter->lock = lock;
    waiter->claim = NULL;
    waiter->hold = hold;
    waiter->state = WAITER_NEW;
    waiter->mode = mode_of(lock, mode);
    waiter->permits = permits;
    waiter->owner = owner_of(lock);
    waiter->blocked = thread_owner();
    waiter->has_more = self.acquires != 0;
    waiter->told = false;
    waiter->since = 0;
    waiter->deadline = 0;
    waiter->timeout_ms = timeout_ms;
    waiter->max_hold_ns = lock->max_hold_ns;
    waiter->try_only = timeout_ms == 0;
    waiter->in_set = false;
    waiter->event = NULL;
    atomic_init(&waiter->sleeping, 0);
}

bool pawl__lock_waiter(struct pawl_lock *lock, struct waiter *waiter, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                       struct pawl_error *reterr) {
    fill_waiter(lock, waiter, mode, permits, timeout_ms, take_hold(lock, reterr));
    return waiter->hold;
}

/* The deadline needs the clock, which a lock that is free does not: so it is set when it is known that the waiter waits. One of a set
 * has the deadline of the set. */
static void set_deadline(struct waiter *waiter, int64_t now) {
    if (!waiter->deadline)
        waiter->deadline = waiter->try_only ? now + PAWL__TRY_NS : pawl__deadline(now, waiter->timeout_ms);
}

/* Waited PAWL__LOOK_NS with another lock in hand: look for a deadlock. */
static void look(struct cohort *cohort, struct waiter *waiter) {
    int64_t since = waiter->look_at - PAWL__LOOK_NS;
    struct calling calling;
    UNCANCELLED; /* it calls back */

    pawl__cohort_let_go(cohort);
    pawl__calling_begin(&calling, CALLING_DEADLOCK, cohort->client);
    calling.cohort = cohort;
    pawl__stakes_look(since);
    pawl__calling_end(&calling);
    pthread_mutex_lock(&cohort->mutex);
    waiter->look_at = pawl__boottime() + PAWL__LOOK_AGAIN_NS;
}

/* Wait. The handle may be freed and the client closed meanwhile: the caller has a reference to both until end_wait(). */
static void wait_for(struct pawl_lock *lock, struct waiter *waiter) {
    int64_t now = pawl__boottime();

    set_deadline(waiter, now);
    pawl__waiter_waits(waiter, now);
    lock->references++;
    lock->pending++;
    atomic_fetch_add(&lock->client->inside, 1);
    waiter->thread = pthread_self();
    while (pawl__cohort_wait(lock->cohort, waiter), is_waiting(waiter))
        look(lock->cohort, waiter);
    pawl__count_waited(lock->cohort, pawl__boottime() - now);
    lock->pending--;
}

static void end_wait(struct pawl_lock *lock) {
    pawl__client_one_less(lock->client, &lock->client->inside);
    pawl__lock_put(lock);
}

int pawl__lock_await(struct pawl_lock *lock, struct waiter *waiter, struct pawl_error *reterr) {
    bool waited = is_waiting(waiter);

    if (waited)
        wait_for(lock, waiter);
    if (waiter->state == WAITER_GRANTED) {
        pawl__cohort_unlock(lock->cohort);
    } else {
        free(lock->spare);
        lock->spare = waiter->hold;
        pawl__cohort_finish(lock->cohort);
        if (reterr)
            *reterr = waiter->error;
    }
    if (waited)
        end_wait(lock);
    return waiter->state == WAITER_GRANTED ? 0 : waiter->error.code;
}

int pawl__lock_queue_up(struct pawl_lock *lock, struct waiter *waiter, struct pawl_error *reterr) {
    pawl__cohort_enter(lock->cohort, waiter);
    return pawl__lock_await(lock, waiter, reterr);
}

/* Nobody of this process has the lock, or waits for it: then it is asked for without a waiter, which one that is free does not need. */
static int acquire_alone(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                         struct pawl_error *reterr) {
    struct claim_terms terms = {mode_of(lock, mode), permits, timeout_ms == 0, lock->max_hold_ns, lock->keep_ns, lock->label};
    struct hold *hold = take_hold(lock, reterr);
    struct claim *claim = NULL;
    struct pawl_error why;
    struct waiter waiter;
    int outcome;

    if (!hold) {
        pawl__cohort_unlock(lock->cohort);
        return PAWL_ENOMEM;
    }
    outcome = pawl__cohort_enter_alone(lock, &terms, hold, owner_of(lock), &claim, &why);
    if (outcome == CLAIM_QUEUED) {
        fill_waiter(lock, &waiter, mode, permits, timeout_ms, hold);
        pawl__cohort_begin(claim, &waiter);
        return pawl__lock_await(lock, &waiter, reterr);
    }
    if (outcome != NEWS_GRANTED) {
        lock->spare = hold;
        pawl__count_end(lock->cohort, why.code);
    }
    pawl__cohort_unlock(lock->cohort);
    if (outcome != NEWS_GRANTED && reterr)
        *reterr = why;
    return outcome == NEWS_GRANTED ? 0 : why.code;
}

/* It has to be asked for, or waited for. The cohort is locked, and unlocked afterwards. */
static int acquire_by_claim(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                            struct pawl_error *reterr) {
    struct waiter waiter;
    UNCANCELLED_IF(lock->client->does_io);

    if (TAILQ_EMPTY(&lock->cohort->claims))
        return acquire_alone(lock, mode, permits, timeout_ms, reterr);
    if (pawl__lock_waiter(lock, &waiter, mode, permits, timeout_ms, reterr))
        return pawl__lock_queue_up(lock, &waiter, reterr);
    pawl__cohort_unlock(lock->cohort);
    return PAWL_ENOMEM;
}

static int acquire(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms, struct pawl_error *reterr) {
    int rc = pawl__lock_check(lock, mode, permits, timeout_ms, reterr);

    if (rc < 0)
        return rc;
    UNCANCELLED_IF(lock->client->notes);
    if ((rc = pawl__lock_make_way(lock, thread_owner(), reterr)) < 0)
        return rc;
    if (!lock_cohort(lock))
        return pawl__lock_check_alive(lock, reterr);
    rc = pawl__lock_check_busy(lock, reterr);
    if (rc == 0)
        rc = pawl__lock_reenter(lock, mode, reterr);
    if (rc == 1 && pawl__cohort_enter_idle(lock, mode_of(lock, mode), owner_of(lock)))
        rc = 0;
    if (rc == 1)
        return acquire_by_claim(lock, mode, permits, timeout_ms, reterr);
    pawl__cohort_unlock(lock->cohort);
    return rc;
}

static int acquire_counted(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms,
                           struct pawl_error *reterr) {
    int rc = acquire(lock, mode, permits, timeout_ms, reterr);

    if (rc == 0)
        count_acquires(lock, 1);
    return rc;
}

int pawl_acquire(struct pawl_lock *lock, int64_t timeout_ms, struct pawl_error *reterr) {
    return acquire_counted(lock, PAWL_EXCLUSIVE, 1, timeout_ms, reterr);
}

int pawl_acquire_shared(struct pawl_lock *lock, int64_t timeout_ms, struct pawl_error *reterr) {
    return acquire_counted(lock, PAWL_SHARED, 1, timeout_ms, reterr);
}

int pawl_acquire_permits(struct pawl_lock *lock, unsigned permits, int64_t timeout_ms, struct pawl_error *reterr) {
    return acquire_counted(lock, PAWL_PERMITS, permits, timeout_ms, reterr);
}

struct event *pawl__lock_event(struct pawl_lock *lock, pawl_acquired_fn *fn, void *data) {
    struct event *event = calloc(1, sizeof *event);

    if (!event)
        return NULL;
    event->waiter = calloc(1, sizeof *event->waiter);
    if (!event->waiter) {
        free(event);
        return NULL;
    }
    event->lock = lock;
    event->acquired = fn;
    event->data = data;
    return event;
}

void pawl__lock_event_free(struct event *event) {
    free(event->waiter->hold);
    free(event->waiter);
    free(event);
}

void pawl__lock_expect(struct event *event) {
    struct pawl_lock *lock = event->lock;

    event->waiter->event = event;
    if (!event->waiter->in_set) { /* its thread is not blocked, and the handle may be released by any */
        event->waiter->blocked = lock->owner;
        event->waiter->has_more = false;
    }
    lock->references++; /* for the event */
    lock->pending++;
    set_deadline(event->waiter, pawl__boottime());
}

/* Queue up, or enter by right, and have the event come. The cohort is locked. */
static int start(struct event *event, enum pawl_mode mode, unsigned permits, int64_t timeout_ms, struct pawl_error *reterr) {
    struct pawl_lock *lock = event->lock;
    int rc;

    if ((rc = pawl__lock_check_busy(lock, reterr)) < 0)
        return rc;
    if (!pawl__lock_waiter(lock, event->waiter, mode, permits, timeout_ms, reterr))
        return PAWL_ENOMEM;
    if ((rc = pawl__lock_reenter(lock, mode, reterr)) < 0)
        return rc;
    pawl__lock_expect(event);
    if (rc == 1)
        pawl__cohort_enter(lock->cohort, event->waiter);
    else
        pawl__event_post(lock->client, event);
    return 0;
}

int pawl_acquire_start(struct pawl_lock *lock, enum pawl_mode mode, unsigned permits, int64_t timeout_ms, pawl_acquired_fn *fn,
                       void *data, struct pawl_error *reterr) {
    struct event *event;
    int rc;
    UNCANCELLED;

    permits = mode == PAWL_PERMITS ? permits : 1;
    rc = pawl__lock_check(lock, mode, permits, timeout_ms, reterr);
    if (rc < 0)
        return rc;
    if (!fn || !(lock->flags & PAWL_TASK))
        return pawl__fail(reterr, PAWL_EINVAL, "an asynchronous acquire needs a callback and a handle made with PAWL_TASK");
    event = pawl__lock_event(lock, fn, data);
    if (!event)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    pawl__lock_make_way(lock, thread_owner(), NULL);
    rc = pawl__lock_cohort(lock, reterr);
    if (rc == 0) {
        rc = start(event, mode, permits, timeout_ms, reterr);
        pawl__cohort_unlock(lock->cohort);
    }
    if (rc < 0)
        pawl__lock_event_free(event);
    return rc;
}

/* ---- Release -------------------------------------------------------------------------------------------------------------- */

int pawl__lock_fail_not_held(const struct pawl_lock *lock, bool shared, struct pawl_error *reterr) {
    const char *how = shared ? " shared" : "";
    bool others = !TAILQ_EMPTY(&lock->holds) && !find_hold(lock, owner_of(lock));

    if (others)
        return pawl__fail(reterr, PAWL_ENOTOWNER, "'%s' is held%s by another thread, not by this one: let that one release it",
                          lock->cohort->name, how);
    return pawl__fail(reterr, PAWL_ENOTHELD, "'%s' is not held%s through this handle", lock->cohort->name, how);
}

/* Has it a (shared or exclusive) acquire to give back? */
static bool has_acquire(const struct hold *hold, bool shared) {
    return hold && (shared ? hold->shared : hold->exclusive);
}

/* The calling owner's hold that has one; NULL: none, and reterr says why. */
static struct hold *releasable(const struct pawl_lock *lock, bool shared, struct pawl_error *reterr, int *ret_rc) {
    struct hold *hold = find_hold(lock, owner_of(lock));

    if (has_acquire(hold, shared)) {
        if (hold->claim)
            pawl__cohort_refresh(hold->claim);
        return hold;
    }
    *ret_rc = pawl__lock_fail_not_held(lock, shared, reterr);
    return NULL;
}

/* Give back the calling owner's last acquire, if the claim is kept then: in one step, since most are. Else nothing has changed. */
static bool leave_kept(const struct pawl_lock *lock, bool shared) {
    struct hold *hold = find_hold(lock, owner_of(lock));

    return has_acquire(hold, shared) && hold->exclusive + hold->shared == 1 && pawl__cohort_leave_kept(hold);
}

/* One acquire less. */
static int give_back(struct hold *hold, bool shared) {
    if (shared)
        hold->shared--;
    else
        hold->exclusive--;
    if (hold->exclusive + hold->shared == 0)
        return pawl__cohort_leave(hold);
    if (hold->lost)
        return PAWL_ELOST;
    if (!shared && hold->exclusive == 0)
        return pawl__cohort_downgrade(hold->claim);
    return 0;
}

static int fail_lost(const struct pawl_lock *lock, struct pawl_error *reterr) {
    return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' was lost before it was released: others may have been let in",
                      lock->cohort->name);
}

static int release(struct pawl_lock *lock, bool shared, struct pawl_error *reterr) {
    struct hold *hold;
    int rc, found;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    UNCANCELLED_IF(lock->client->notes);
    if (!lock_cohort(lock))
        return pawl__lock_check_alive(lock, reterr);
    if (leave_kept(lock, shared)) {
        count_acquires(lock, -1);
        pawl__cohort_finish(lock->cohort);
        return 0;
    }
    hold = releasable(lock, shared, reterr, &rc);
    if (hold) {
        count_acquires(lock, -1);
        rc = give_back(hold, shared);
    }
    found = pawl__cohort_finish(lock->cohort); /* the engine may find only now that it is gone */
    if (hold && (rc == PAWL_ELOST || found == PAWL_ELOST))
        rc = fail_lost(lock, reterr);
    return rc;
}

int pawl__lock_give_back(struct pawl_lock *lock, bool shared, bool later, struct pawl_error *reterr) {
    struct hold *hold;
    int rc;

    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    hold = releasable(lock, shared, reterr, &rc);
    if (hold && (rc = give_back(hold, shared)) == PAWL_ELOST)
        fail_lost(lock, reterr);
    if (later)
        pawl__cohort_unlock(lock->cohort);
    else
        pawl__cohort_let_go_unsettled(lock->cohort);
    return rc;
}

int pawl__lock_settle(struct pawl_lock *lock, struct pawl_error *reterr) {
    if (pawl__lock_cohort(lock, NULL) < 0)
        return 0;
    return pawl__cohort_finish(lock->cohort) == PAWL_ELOST ? fail_lost(lock, reterr) : 0;
}

int pawl_release(struct pawl_lock *lock, struct pawl_error *reterr) {
    return release(lock, false, reterr);
}

int pawl_release_shared(struct pawl_lock *lock, struct pawl_error *reterr) {
    return release(lock, true, reterr);
}

int pawl_downgrade(struct pawl_lock *lock, struct pawl_error *reterr) {
    struct hold *hold;
    int rc;
    UNCANCELLED;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if (lock->cohort->kind != PAWL_RWLOCK)
        return pawl__fail(reterr, PAWL_EKIND, "'%s' is not a read-write lock: it can't be downgraded", lock->cohort->name);
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    hold = releasable(lock, false, reterr, &rc);
    if (hold) {
        hold->shared++;
        rc = give_back(hold, false);
    }
    if (hold && rc == PAWL_ELOST) { /* a call that fails changes nothing: what is to be released is still the exclusive acquire */
        hold->shared--;
        hold->exclusive++;
        fail_lost(lock, reterr);
    }
    pawl__cohort_finish(lock->cohort);
    return rc;
}

/* ---- What one holds ------------------------------------------------------------------------------------------------------- */

struct hold *pawl__lock_hold(const struct pawl_lock *lock) {
    struct hold *hold = find_hold(lock, owner_of(lock));

    if (hold && hold->claim)
        pawl__cohort_refresh(hold->claim);
    return hold;
}

/* The same, with the cohort locked first; NULL (and unlocked): none. */
static struct hold *lock_hold(const struct pawl_lock *lock) {
    struct hold *hold;

    if (!lock || pawl__lock_cohort(lock, NULL) < 0)
        return NULL;
    hold = pawl__lock_hold(lock);
    if (!hold)
        pawl__cohort_unlock(lock->cohort);
    return hold;
}

enum pawl_state pawl_state(const struct pawl_lock *lock) {
    UNCANCELLED_IF(lock && lock->client->does_io);
    struct hold *hold = lock_hold(lock);
    enum pawl_state state = PAWL_HELD;

    if (!hold)
        return PAWL_NOT_HELD;
    if (hold->lost)
        state = PAWL_LOST;
    else if (hold->claim->lease.suspect_at != PAWL__NEVER && pawl__boottime() >= hold->claim->lease.suspect_at)
        state = PAWL_SUSPECT;
    pawl__cohort_unlock(lock->cohort);
    return state;
}

int pawl__lock_check_held(const struct pawl_lock *lock, struct pawl_error *reterr) {
    int rc = pawl__lock_check_alive(lock, reterr);

    if (rc < 0)
        return rc;
    switch (pawl_state(lock)) {
    case PAWL_NOT_HELD:
        return pawl__fail(reterr, PAWL_ENOTHELD, "'%s' was released while the others were being acquired", lock->cohort->name);
    case PAWL_LOST:
        return pawl__fail(reterr, PAWL_ELOST, "the hold of '%s' was lost while the others were being acquired: try again",
                          lock->cohort->name);
    default:
        return 0;
    }
}

uint64_t pawl_token(const struct pawl_lock *lock) {
    UNCANCELLED_IF(lock && lock->client->does_io);
    struct hold *hold = lock_hold(lock);
    uint64_t token;

    if (!hold)
        return 0;
    token = pawl__hold_token(hold);
    pawl__cohort_unlock(lock->cohort);
    return token;
}

int64_t pawl_remaining_ms(const struct pawl_lock *lock) {
    UNCANCELLED_IF(lock && lock->client->does_io);
    struct hold *hold = lock_hold(lock);
    int64_t remaining = 0;

    if (!hold)
        return 0;
    if (!hold->lost && hold->claim->lease.assured_until == PAWL__NEVER)
        remaining = PAWL_FOREVER;
    else if (!hold->lost)
        remaining = (hold->claim->lease.assured_until - pawl__boottime()) / 1000000;
    if (remaining <= 0 && !hold->lost)
        pawl__cohort_refresh(hold->claim); /* its time was up just now, and stays so */
    pawl__cohort_unlock(lock->cohort);
    return remaining < 0 ? 0 : remaining;
}

int pawl_on_loss(struct pawl_lock *lock, pawl_loss_fn *fn, void *data, struct pawl_error *reterr) {
    int rc;
    UNCANCELLED;

    if (!lock)
        return pawl__fail(reterr, PAWL_EINVAL, "the lock is NULL");
    if ((rc = pawl__lock_cohort(lock, reterr)) < 0)
        return rc;
    if (!lock->on_loss != !fn)
        atomic_fetch_add(&lock->client->loss_callbacks, fn ? 1u : -1u);
    lock->on_loss = fn;
    lock->on_loss_data = data;
    pawl__cohort_unlock(lock->cohort);
    if (!fn)
        pawl__events_quiesce(lock);
    else if (!pawl__service_start(lock->client))
        return pawl__fail(reterr, PAWL_ESYSTEM, "the service thread can't be started: losses would not be told");
    return 0;
}
