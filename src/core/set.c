/* SPDX-License-Identifier: Apache-2.0
 *
 * set.c - several locks acquired as one: all of them, or none.
 *
 * A set is taken in three steps; the first part that is refused ends it, and what was taken is given back:
 *
 *     by right     what its owner has already is entered again: that waits for nobody, and what can never be had (EDEADLK) is found
 *                  before anything was waited for
 *     together     what is left is asked for at once, if the engine can do that and this process has no claims on any of it. One that
 *                  is not free: none was taken
 *     in order     then one after the other, each waited for while those before it are held
 *
 * The canonical order is by URL, then by name. In that order a thread waits only for a lock that comes after all that it has; in
 * a circle of such waits somebody would wait for an earlier one. Those who take single locks wait with nothing in their hands.
 *
 * A set has one deadline, and one fate, decided once: by its owner, or by pawl_cancel, pawl_lock_free or pawl_close on any of its
 * handles. Who wants to end it decides its fate first and then goes through its parts; who waits for a part looks at the fate after it
 * has locked the part's cohort. So whichever comes second sees the other.
 *
 * Asynchronous acquires go from part to part in pawl_dispatch(), where the outcomes of the parts are events like any others.
 */
#include <stdlib.h>
#include <string.h>

#include "core/set.h"
#include "base/error.h"
#include "base/lease.h"
#include "os/uncancelled.h"

/* The fate of a set; below zero, the code with which it was ended. */
enum { FATE_OPEN = 0, FATE_OVER = 1 };

/* ---- The set -------------------------------------------------------------------------------------------------------------- */

static int compare_parts(const void *left, const void *right) {
    const struct pawl_lock *a = ((const struct part *)left)->lock, *b = ((const struct part *)right)->lock;
    int urls = a->client == b->client ? 0 : strcmp(a->client->info.url, b->client->info.url);

    return urls ? urls : strcmp(a->cohort->name, b->cohort->name);
}

static unsigned permits_of(const struct pawl_part *part) {
    return part->mode == PAWL_PERMITS ? part->permits : 1;
}

static int check_parts(const struct pawl_part parts[], size_t count, int64_t timeout_ms, struct pawl_error *reterr) {
    int rc = 0;

    if (!parts || count == 0)
        return pawl__fail(reterr, PAWL_EINVAL, "there is no lock in the set: name one at least");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = pawl__lock_check(parts[i].lock, parts[i].mode, permits_of(&parts[i]), timeout_ms, reterr);
    return rc;
}

static struct set *new_set(const struct pawl_part parts[], size_t count, int64_t timeout_ms) {
    struct set *set = calloc(1, sizeof *set + count * sizeof set->parts[0]);
    int64_t now;

    if (!set)
        return NULL;
    now = pawl__boottime();
    atomic_init(&set->references, 1);
    pthread_mutex_init(&set->mutex, NULL);
    set->timeout_ms = timeout_ms;
    set->deadline = timeout_ms ? pawl__deadline(now, timeout_ms) : now + PAWL__TRY_NS;
    set->first = parts[0].lock;
    set->count = count;
    for (size_t i = 0; i < count; i++) {
        struct part *part = &set->parts[i];

        part->set = set;
        part->lock = parts[i].lock;
        part->mode = parts[i].mode;
        part->permits = permits_of(&parts[i]);
    }
    qsort(set->parts, count, sizeof set->parts[0], compare_parts);
    return set;
}

static void put(struct set *set) {
    if (atomic_fetch_sub(&set->references, 1) != 1)
        return;
    for (size_t i = 0; i < set->count; i++)
        if (set->parts[i].enlisted)
            pawl__lock_put(set->parts[i].lock);
    pthread_mutex_destroy(&set->mutex);
    free(set);
}

static int find_twins(struct set *set) {
    for (size_t i = 1; i < set->count; i++)
        if (compare_parts(&set->parts[i - 1], &set->parts[i]) == 0)
            return pawl__fail(&set->error, PAWL_EINVAL, "'%s' is twice in the set: leave one out",
                              set->parts[i].lock->cohort->name);
    return 0;
}

/* From here on the part is found by those who end acquires, and its handle stays. */
static int enlist(struct part *part) {
    struct pawl_lock *lock = part->lock;
    int rc;

    if ((rc = pawl__lock_make_way(lock, pawl__owner_self(), &part->set->error)) < 0 ||
        (rc = pawl__lock_cohort(lock, &part->set->error)) < 0)
        return rc;
    rc = pawl__lock_check_busy(lock, &part->set->error);
    if (rc == 0) {
        part->enlisted = true;
        lock->references++;
        lock->pending++;
        TAILQ_INSERT_TAIL(&lock->cohort->parts, part, link);
    }
    pthread_mutex_unlock(&lock->cohort->mutex);
    return rc;
}

static void discharge(struct part *part) {
    if (!part->enlisted)
        return;
    pthread_mutex_lock(&part->lock->cohort->mutex);
    part->lock->pending--;
    TAILQ_REMOVE(&part->lock->cohort->parts, part, link);
    pthread_mutex_unlock(&part->lock->cohort->mutex);
}

/* ---- Its fate ------------------------------------------------------------------------------------------------------------- */

static bool decide(struct set *set, int fate) {
    int open = FATE_OPEN;

    return atomic_compare_exchange_strong(&set->fate, &open, fate);
}

/* 0, or the code of the one who has ended it. */
static int check_fate(struct set *set) {
    int fate = atomic_load(&set->fate);

    if (fate >= 0)
        return 0;
    return pawl__fail(&set->error, fate, "the acquire of %zu locks was ended: %s", set->count,
                      fate == PAWL_ECLOSED ? "a client was closed" : "it was cancelled, or a handle was freed");
}

/* End the claim that the set waits for. No mutex is held. */
static void end_waits(struct set *set, int code) {
    for (size_t i = 0; i < set->count; i++) {
        struct part *part = &set->parts[i];
        struct cohort *cohort = part->lock->cohort;

        pthread_mutex_lock(&cohort->mutex);
        if (part->waiter && is_waiting(part->waiter))
            pawl__cohort_end(part->waiter, code, "the acquire of '%s' was ended with the others of its set", cohort->name);
        pawl__cohort_finish(cohort);
    }
}

/* A set of the handle, or (NULL) of any, whose fate was open until now; NULL: there is none. */
static struct set *doom(struct cohort *cohort, const struct pawl_lock *lock, int code) {
    struct set *found = NULL;
    struct part *part;

    pthread_mutex_lock(&cohort->mutex);
    TAILQ_FOREACH(part, &cohort->parts, link) {
        if ((!lock || part->lock == lock) && decide(part->set, code)) {
            found = part->set;
            atomic_fetch_add(&found->references, 1);
            break;
        }
    }
    pthread_mutex_unlock(&cohort->mutex);
    return found;
}

int pawl__set_end(struct cohort *cohort, const struct pawl_lock *lock, int code) {
    struct set *set;
    int count = 0;

    for (; (set = doom(cohort, lock, code)); count++) {
        end_waits(set, code);
        put(set);
    }
    return count;
}

/* ---- Taking --------------------------------------------------------------------------------------------------------------- */

static pawl_acquired_fn part_ended;

static int reenter(struct part *part) {
    int rc = pawl__lock_cohort(part->lock, &part->set->error);

    if (rc < 0)
        return rc;
    rc = pawl__lock_reenter(part->lock, part->mode, &part->set->error);
    part->taken = part->reentered = rc == 0;
    pawl__cohort_unlock(part->lock->cohort);
    return rc < 0 ? rc : 0;
}

static int begin(struct set *set) {
    int rc = find_twins(set);

    for (size_t i = 0; i < set->count && rc == 0; i++)
        rc = enlist(&set->parts[i]);
    for (size_t i = 0; i < set->count && rc == 0; i++)
        rc = reenter(&set->parts[i]);
    return rc;
}

/* Somebody to wait for the part: the calling thread, or an event. The cohort is locked. NULL: out of memory. */
static struct waiter *make_waiter(struct part *part) {
    struct set *set = part->set;
    struct event *event = set->fn ? pawl__lock_event(part->lock, part_ended, part) : NULL;
    struct waiter *waiter = event ? event->waiter : &part->own;

    if ((set->fn && !event) || !pawl__lock_waiter(part->lock, waiter, part->mode, part->permits, set->timeout_ms, &set->error)) {
        if (event)
            pawl__lock_event_free(event);
        pawl__fail(&set->error, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    waiter->deadline = set->deadline;
    waiter->in_set = true;
    waiter->blocked = set->owner;
    waiter->has_more &= !event; /* this thread does not wait for it */
    for (size_t i = 0; i < set->count; i++)
        waiter->has_more |= set->parts[i].taken;
    part->waiter = waiter;
    if (event) {
        pawl__lock_expect(event);
        set->awaited++; /* nobody else counts before the cohort is unlocked */
    }
    return waiter;
}

/* Queue up for one part, and wait, if a thread does. */
static int take_part(struct part *part) {
    struct set *set = part->set;
    struct cohort *cohort = part->lock->cohort;
    struct waiter *waiter;
    int rc = pawl__lock_cohort(part->lock, &set->error);

    if (rc < 0)
        return rc;
    rc = check_fate(set);
    waiter = rc < 0 ? NULL : make_waiter(part);
    if (!waiter) {
        pawl__cohort_unlock(cohort);
        return set->error.code;
    }
    if (set->fn) {
        pawl__cohort_enter(cohort, waiter);
        pawl__cohort_unlock(cohort);
        return 0;
    }
    rc = pawl__lock_queue_up(part->lock, waiter, &set->error);
    part->taken = rc == 0;
    return rc;
}

static struct part *next_part(struct set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (!set->parts[i].taken)
            return &set->parts[i];
    return NULL;
}

/* ---- Together ------------------------------------------------------------------------------------------------------------- */

/* The parts that are left, if there are several that an engine could be asked for together; else 0. */
static size_t those_left(struct set *set, struct part *ret[PAWL__TOGETHER_MAX]) {
    const struct pawl *client = set->first->client;
    size_t count = 0;

    if (!impl_of(client)->extras->submit_all)
        return 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->parts[i].taken)
            continue;
        if (set->parts[i].lock->client != client || count == PAWL__TOGETHER_MAX)
            return 0;
        ret[count++] = &set->parts[i];
    }
    return count > 1 ? count : 0;
}

static void unlock_cohorts(struct part *const parts[], size_t count) {
    while (count-- > 0)
        pawl__cohort_let_go(parts[count]->lock->cohort);
}

/* Lock the cohorts of all, in their order. 0, or the client is closed, and none is locked. */
static int lock_cohorts(struct part *const parts[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        int rc = pawl__lock_cohort(parts[i]->lock, &parts[i]->set->error);

        if (rc < 0) {
            unlock_cohorts(parts, i);
            return rc;
        }
    }
    return 0;
}

/* Has this process nothing to do with any of them? Else the claims that are there are joined, or waited for, one by one. */
static bool unclaimed(struct part *const parts[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!TAILQ_EMPTY(&parts[i]->lock->cohort->claims))
            return false;
    return true;
}

/* With all cohorts locked: ask for the parts. 1: the outcomes will be known. */
static int ask(struct set *set, struct part *const parts[], size_t count) {
    int64_t soon = pawl__boottime() + PAWL__TRY_NS;
    struct waiter *waiters[PAWL__TOGETHER_MAX] = {NULL};

    for (size_t i = 0; i < count; i++) {
        waiters[i] = make_waiter(parts[i]);
        if (!waiters[i]) {
            for (size_t made = 0; made < i; made++)
                pawl__cohort_end(waiters[made], PAWL_ENOMEM, "out of memory");
            return i > 0 ? 1 : PAWL_ENOMEM;
        }
        waiters[i]->try_only = true;
        waiters[i]->deadline = soon < set->deadline ? soon : set->deadline;
    }
    pawl__cohort_enter_all(waiters, count);
    return 1;
}

/* 1: all that is left was asked for; the outcomes will be known. 0: it can't be asked for together. */
static int ask_together(struct set *set) {
    struct part *parts[PAWL__TOGETHER_MAX] = {NULL};
    size_t count = those_left(set, parts);
    int rc;

    if (count == 0)
        return 0;
    rc = lock_cohorts(parts, count);
    if (rc < 0)
        return rc;
    rc = check_fate(set);
    if (rc == 0 && unclaimed(parts, count)) {
        set->together = true;
        rc = ask(set, parts, count);
    }
    if (rc == 1 && !set->fn) /* this thread will come back for the outcomes: pawl_close waits for it */
        atomic_fetch_add(&set->first->client->inside, 1);
    unlock_cohorts(parts, count);
    return rc;
}

/* Wait, in this thread, for the outcomes of what was asked for together. */
static int collect(struct set *set) {
    struct pawl_error error;
    int rc = 0;

    for (size_t i = 0; i < set->count; i++) {
        struct part *part = &set->parts[i];

        if (!part->waiter)
            continue;
        pthread_mutex_lock(&part->lock->cohort->mutex);
        part->taken = pawl__lock_await(part->lock, part->waiter, &error) == 0;
        if (!part->taken && rc == 0) {
            set->error = error;
            rc = error.code;
        }
    }
    pawl__client_one_less(set->first->client, &set->first->client->inside);
    return rc;
}

/* They could not be had at once: may they be had one by one? */
static bool worth_waiting(const struct set *set, int rc) {
    switch (rc) {
    case PAWL_EUNSUPPORTED: /* not together: whether at all is found out one by one */
        return true;
    case PAWL_EHELD:
    case PAWL_ETIMEOUT:
    case PAWL_ECONNLOST:
        return set->timeout_ms > 0;
    default:
        return false;
    }
}

/* ---- Giving back, and the end --------------------------------------------------------------------------------------------- */

/* Give back what was taken, the last first; or only what was not the owner's before. The engine's answers are waited for all together,
 * and where nobody may wait, by the service thread. */
static void undo(struct set *set, bool keep_reentered) {
    bool later = set->fn != NULL;

    for (size_t i = set->count; i-- > 0;) {
        struct part *part = &set->parts[i];

        if (!part->taken || (keep_reentered && part->reentered))
            continue;
        pawl__lock_give_back(part->lock, part->mode == PAWL_SHARED, later, NULL);
        part->taken = false;
    }
    for (size_t i = 0; i < set->count && !later; i++)
        pawl__lock_settle(set->parts[i].lock, NULL);
}

/* All is taken, or something went wrong: the last word. What was taken first may have been lost while the rest was waited for. */
static int finish(struct set *set, int rc) {
    if (rc == 0)
        rc = check_fate(set);
    for (size_t i = 0; i < set->count && rc == 0; i++)
        rc = pawl__lock_check_held(set->parts[i].lock, &set->error);
    if (!decide(set, FATE_OVER) && rc == 0)
        rc = check_fate(set);
    if (rc < 0)
        undo(set, false);
    for (size_t i = 0; i < set->count; i++)
        discharge(&set->parts[i]);
    return rc;
}

static int take(struct set *set) {
    struct part *part;
    int rc = begin(set);

    if (rc < 0)
        return rc;
    rc = ask_together(set);
    if (rc == 1)
        rc = collect(set);
    if (rc < 0 && !worth_waiting(set, rc))
        return rc;
    if (rc < 0)
        undo(set, true);
    while ((part = next_part(set)))
        if ((rc = take_part(part)) < 0)
            return rc;
    return 0;
}

int pawl_acquire_all(const struct pawl_part parts[], size_t count, int64_t timeout_ms, struct pawl_error *reterr) {
    struct set *set;
    int rc = check_parts(parts, count, timeout_ms, reterr);
    UNCANCELLED;

    if (rc < 0)
        return rc;
    set = new_set(parts, count, timeout_ms);
    if (!set)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    set->owner = pawl__owner_self();
    rc = finish(set, take(set));
    for (size_t i = 0; i < count && rc == 0; i++)
        pawl__owner_counts(parts[i].lock, 1);
    if (rc < 0 && reterr)
        *reterr = set->error;
    put(set);
    return rc;
}

/* ---- Without blocking ----------------------------------------------------------------------------------------------------- */

/* 1: something was started. 0: all is taken. */
static int start_next(struct set *set) {
    struct part *part = next_part(set);
    int rc = part ? take_part(part) : 0;

    return part && rc == 0 ? 1 : rc;
}

/* All that was awaited is known: go on, or tell. */
static void proceed(struct set *set) {
    int rc = set->error.code;

    if (rc < 0 && set->together && worth_waiting(set, rc)) {
        undo(set, true);
        rc = set->error.code = 0;
    }
    set->together = false;
    atomic_fetch_add(&set->references, 1); /* another thread may dispatch what is started here, and be done first */
    if (rc == 0)
        rc = start_next(set);
    if (rc <= 0) {
        rc = finish(set, rc);
        set->fn(set->first, rc, rc < 0 ? &set->error : NULL, set->data);
        put(set);
    }
    put(set);
}

static void part_ended(struct pawl_lock *lock, int result, const struct pawl_error *error, void *data) {
    struct part *part = data;
    struct set *set = part->set;
    bool last;

    pthread_mutex_lock(&lock->cohort->mutex);
    part->waiter = NULL;
    pthread_mutex_unlock(&lock->cohort->mutex);
    pthread_mutex_lock(&set->mutex);
    if (result == 0)
        part->taken = true;
    else if (!set->error.code)
        set->error = *error;
    last = --set->awaited == 0;
    pthread_mutex_unlock(&set->mutex);
    if (last)
        proceed(set);
}

/* Everything was entered by right: that too is told later. */
static int tell_later(struct part *part) {
    struct cohort *cohort = part->lock->cohort;
    struct waiter *waiter;
    int rc = pawl__lock_cohort(part->lock, &part->set->error);

    if (rc < 0)
        return rc;
    waiter = make_waiter(part);
    if (waiter)
        pawl__waiter_conclude(waiter, WAITER_GRANT);
    pawl__cohort_unlock(cohort);
    return waiter ? 1 : PAWL_ENOMEM;
}

/* 1: the outcome will be told. */
static int launch(struct set *set) {
    int rc = begin(set);

    if (rc == 0)
        rc = ask_together(set);
    if (rc == 0)
        rc = start_next(set);
    if (rc == 0)
        rc = tell_later(&set->parts[0]);
    return rc;
}

static int check_tasks(const struct pawl_part parts[], size_t count, struct pawl_error *reterr) {
    for (size_t i = 0; i < count; i++)
        if (!(parts[i].lock->flags & PAWL_TASK))
            return pawl__fail(reterr, PAWL_EINVAL, "an asynchronous acquire needs handles made with PAWL_TASK; '%s' is not one",
                              parts[i].lock->cohort->name);
    return 0;
}

int pawl_acquire_all_start(const struct pawl_part parts[], size_t count, int64_t timeout_ms, pawl_acquired_fn *fn, void *data,
                           struct pawl_error *reterr) {
    struct set *set;
    int rc = check_parts(parts, count, timeout_ms, reterr);
    UNCANCELLED;

    if (rc < 0 || (rc = check_tasks(parts, count, reterr)) < 0)
        return rc;
    if (!fn)
        return pawl__fail(reterr, PAWL_EINVAL, "an asynchronous acquire needs a callback");
    set = new_set(parts, count, timeout_ms);
    if (!set)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    set->owner = pawl__owner_new();
    set->fn = fn;
    set->data = data;
    atomic_fetch_add(&set->references, 1); /* another thread may dispatch, and be done, before this one has returned */
    rc = launch(set);
    if (rc < 0) {
        finish(set, rc);
        if (reterr)
            *reterr = set->error;
        put(set);
    }
    put(set);
    return rc < 0 ? rc : 0;
}

/* ---- What one holds ------------------------------------------------------------------------------------------------------- */

/* Keep the worst of what went wrong: that a hold was lost. */
static void note_failure(int *worst, int rc, const struct pawl_error *error, struct pawl_error *reterr) {
    if (rc >= 0 || *worst == PAWL_ELOST || (*worst < 0 && rc != PAWL_ELOST))
        return;
    *worst = rc;
    if (reterr)
        *reterr = *error;
}

int pawl_release_all(const struct pawl_part parts[], size_t count, struct pawl_error *reterr) {
    struct pawl_error error;
    int worst = 0, rc;
    UNCANCELLED;

    if (!parts)
        return pawl__fail(reterr, PAWL_EINVAL, "there is no set to release");
    for (size_t i = count; i-- > 0;) {
        rc = parts[i].lock ? pawl__lock_give_back(parts[i].lock, parts[i].mode == PAWL_SHARED, false, &error)
                           : pawl__fail(&error, PAWL_EINVAL, "a lock of the set is NULL");
        if (parts[i].lock && (rc == 0 || rc == PAWL_ELOST))
            pawl__owner_counts(parts[i].lock, -1);
        note_failure(&worst, rc, &error, reterr);
    }
    for (size_t i = 0; i < count; i++)
        if (parts[i].lock)
            note_failure(&worst, pawl__lock_settle(parts[i].lock, &error), &error, reterr);
    return worst;
}

int64_t pawl_remaining_all_ms(const struct pawl_part parts[], size_t count) {
    int64_t least = parts && count ? PAWL_FOREVER : 0;

    for (size_t i = 0; i < count && least > 0; i++) {
        int64_t remaining = pawl_remaining_ms(parts[i].lock);

        least = remaining < least ? remaining : least;
    }
    return least;
}
