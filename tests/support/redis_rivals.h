/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_rivals.h - threads that want one lock all the time, while the test makes trouble; and see that it is a lock.
 *
 * Each counts itself in and out, so that two at once are seen, and looks whether its token is higher than the last one's. Holds that were
 * lost, as their release says, are counted; whether there may be any is for the test to say.
 */
#ifndef PAWL_REDIS_RIVALS_H
#define PAWL_REDIS_RIVALS_H

#include "redis_test.h"

struct rivals {
    atomic_bool stop;
    atomic_int inside, violations, failures, lost;
    _Atomic uint64_t last_token;
    size_t count;
    struct rival {
        pthread_t thread;
        struct rivals *rivals;
        struct pawl_lock *lock;
        _Atomic unsigned taken;
    } members[16];
};

static inline void rival_take(struct rival *member) {
    struct rivals *rivals = member->rivals;
    uint64_t token;
    struct pawl_error why;

    if (pawl_acquire(member->lock, 2 * PATIENCE_MS, &why) < 0) {
        fprintf(stderr, "# %s\n", why.text);
        atomic_fetch_add(&rivals->failures, 1);
        return;
    }
    token = pawl_token(member->lock);
    if (atomic_fetch_add(&rivals->inside, 1) != 0 || atomic_exchange(&rivals->last_token, token) >= token)
        atomic_fetch_add(&rivals->violations, 1);
    atomic_fetch_sub(&rivals->inside, 1);
    atomic_fetch_add(&member->taken, 1);
    if (pawl_release(member->lock, &why) < 0) {
        fprintf(stderr, "# %s\n", why.text);
        atomic_fetch_add(&rivals->lost, 1);
    }
}

static inline void *rival_main(void *data) {
    struct rival *member = data;

    while (!atomic_load(&member->rivals->stop) && !atomic_load(&member->rivals->failures))
        rival_take(member);
    return NULL;
}

/* One more of them, by this handle, which may be another's too. */
static inline void rivals_add(struct rivals *rivals, struct pawl_lock *lock) {
    struct rival *member = &rivals->members[rivals->count++];

    assert_true(rivals->count <= sizeof rivals->members / sizeof rivals->members[0]);
    *member = (struct rival){.rivals = rivals, .lock = lock};
    assert_int_equal(pthread_create(&member->thread, NULL, rival_main, member), 0);
}

/* How often has the least lucky of them had it? */
static inline unsigned rivals_least(const struct rivals *rivals) {
    unsigned least = UINT_MAX;

    for (size_t i = 0; i < rivals->count; i++)
        if (atomic_load(&rivals->members[i].taken) < least)
            least = atomic_load(&rivals->members[i].taken);
    return least;
}

/* tools/run-tests knows the words: there is no second try after them. */
static inline void rivals_end(struct rivals *rivals) {
    atomic_store(&rivals->stop, true);
    for (size_t i = 0; i < rivals->count; i++)
        pthread_join(rivals->members[i].thread, NULL);
    if (atomic_load(&rivals->violations))
        fail_msg("LOCK VIOLATED %d times: two were let in, or a token did not rise", atomic_load(&rivals->violations));
    assert_int_equal(atomic_load(&rivals->failures), 0);
    assert_true(rivals_least(rivals) > 0);
}

#endif
