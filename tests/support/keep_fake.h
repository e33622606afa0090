/* SPDX-License-Identifier: Apache-2.0
 *
 * keep_fake.h - an engine that keeps claims and does what the test says, in one thread: for tests of the core.
 *
 * What the core asked of it is a string: s submit, w withdraw, k rest (K: refused), t resume (T: refused), d downgrade, o more tokens.
 */
#ifndef PAWL_TEST_KEEP_FAKE_H
#define PAWL_TEST_KEEP_FAKE_H

#include "core/claim.h"
#include "test.h"

enum { TOKENS = 128 };
#define KEEP_MS 1000
#define LEASE_NS (10 * INT64_C(1000000000))

/* ---- The engine ----------------------------------------------------------------------------------------------------------- */

static struct {
    char asked[4096];
    size_t length;
    bool queues; /* submit is PENDING */
    bool wanted; /* grants say so */
    bool rest_fails, resume_fails;
    uint32_t tokens; /* with each grant */
    uint64_t token;  /* the last */
    int more;        /* what becomes of an order of tokens: so many are given; 0: it takes time; less: none are */
    bool ordered;
    uint32_t want;
    struct pawl__claim *last;
} fake;

static struct pawl *client;
static struct pawl_error error;

static void note(char what) {
    if (fake.length < sizeof fake.asked - 1)
        fake.asked[fake.length++] = what;
    fake.asked[fake.length] = '\0';
}

static void fill(struct pawl__claim *claim) {
    claim->token = fake.token + 1;
    claim->token_count = fake.tokens;
    fake.token += fake.tokens;
    claim->sent_at = pawl__boottime();
    claim->lease_ns = LEASE_NS;
    claim->wanted = fake.wanted;
}

static int fake_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    (void)engine, (void)reterr;
    note('s');
    fake.last = claim;
    if (fake.queues)
        return PAWL__PENDING;
    fill(claim);
    return PAWL__DONE;
}

static int fake_submit_all(struct pawl__engine *engine, struct pawl__claim *const claims[], size_t count,
                           struct pawl_error *reterr) {
    for (size_t i = 0; i < count; i++)
        fake_submit(engine, claims[i], reterr);
    return PAWL__DONE;
}

static int fake_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note('w');
    return PAWL__DONE;
}

static int fake_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note('d');
    return PAWL__DONE;
}

static int fake_rest(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note(fake.rest_fails ? 'K' : 'k');
    return fake.rest_fails ? PAWL_EHELD : PAWL__DONE;
}

static int fake_resume(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
    note(fake.resume_fails ? 'T' : 't');
    return fake.resume_fails ? PAWL_EHELD : PAWL__DONE;
}

static int fake_tokens(struct pawl__engine *engine, struct pawl__claim *claim, uint32_t want, uint32_t *ret) {
    (void)engine, (void)claim;
    if (!fake.ordered) {
        note('o');
        fake.ordered = true;
        fake.want = want;
        return PAWL__PENDING;
    }
    if (fake.more < 1)
        return fake.more < 0 ? PAWL_EHELD : PAWL__PENDING;
    fake.ordered = false;
    fake.token += (uint64_t)fake.more;
    *ret = (uint32_t)fake.more;
    return PAWL__DONE;
}

static void fake_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    (void)engine, (void)claim;
}

static void fake_close(struct pawl__engine *engine, int64_t deadline) {
    (void)engine, (void)deadline;
}

static void fake_nothing(struct pawl__engine *engine) {
    (void)engine;
}

static const struct pawl__keeping fake_keeping = {.rest = fake_rest, .resume = fake_resume};
static const struct pawl__extras fake_extras = {.submit_all = fake_submit_all, .downgrade = fake_downgrade};
static const struct pawl__engine_impl fake_impl = {
    .name = "fake",
    .submit = fake_submit,
    .withdraw = fake_withdraw,
    .renew = fake_renew,
    .close = fake_close,
    .forked = fake_nothing,
    .wake = fake_nothing,
    .extras = &fake_extras,
    .keeping = &fake_keeping,
};

/* The same with more tokens, and ears for claims that may not be kept. */
static inline void use_ears(void) {
    static const struct pawl__keeping keeping = {.hears = true, .rest = fake_rest, .resume = fake_resume};
    static const struct pawl__extras extras = {.submit_all = fake_submit_all, .downgrade = fake_downgrade, .tokens = fake_tokens};
    static struct pawl__engine_impl impl;

    impl = fake_impl;
    impl.keeping = &keeping;
    impl.extras = &extras;
    client->engine->impl = &impl;
}

/* A client whose service thread is the test itself. */
static struct pawl *open_fake(void) {
    struct pawl *made = pawl__client_new(&(struct pawl_options){0});

    made->engine = calloc(1, sizeof *made->engine);
    made->engine->impl = &fake_impl;
    made->engine->tell = pawl__tell;
    made->options.handoffs = PAWL_HANDOFFS;
    made->options.handoff_ns = 10 * INT64_C(1000000);
    made->options.keep_ns = KEEP_MS * INT64_C(1000000);
    made->info.url = "fake:";
    atomic_store(&made->service.state, SERVICE_RUNS);
    pawl__fork_hold();
    pawl__fork_go_on(made);
    return made;
}

static void close_fake(void) {
    if (client) {
        atomic_store(&client->service.state, SERVICE_NONE);
        pawl_close(client);
    }
    client = NULL;
}

static int set_up(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.tokens = TOKENS;
    client = open_fake();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    close_fake();
    return 0;
}

/* ---- What tests do -------------------------------------------------------------------------------------------------------- */

static struct pawl_lock *mutex(const char *name, unsigned flags) {
    struct pawl_lock *lock = NULL;

    assert_works(pawl_mutex_new(client, name, flags, &lock, &error), &error);
    return lock;
}

static inline struct pawl_lock *rwlock(const char *name) {
    struct pawl_lock *lock = NULL;

    assert_works(pawl_rwlock_new(client, name, PAWL_TASK, &lock, &error), &error);
    return lock;
}

static void acquire(struct pawl_lock *lock) {
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
}

static void release(struct pawl_lock *lock) {
    assert_works(pawl_release(lock, &error), &error);
}

static inline void use(struct pawl_lock *lock) {
    acquire(lock);
    release(lock);
}

static inline void share(struct pawl_lock *lock) {
    assert_works(pawl_acquire_shared(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_release_shared(lock, &error), &error);
}

/* All that was asked since the last time. */
static inline void assert_asked(const char *what) {
    assert_string_equal(fake.asked, what);
    fake.length = 0;
    fake.asked[0] = '\0';
}

static struct claim *last_claim(const struct pawl_lock *lock) {
    return TAILQ_LAST(&lock->cohort->claims, claim_list);
}

static inline bool is_kept(const struct pawl_lock *lock) {
    const struct claim *claim = last_claim(lock);

    return claim && claim->state == CLAIM_KEPT;
}

static inline void tell(const struct pawl_lock *lock, enum pawl__news news) {
    struct pawl_error why = {.code = PAWL_ELOST, .text = "so says the test"};

    pawl__tell(client, &last_claim(lock)->seam, news, &why);
}

/* The service thread looks at the clock. */
static inline int64_t tick(const struct pawl_lock *lock, int64_t now) {
    int64_t due;

    pthread_mutex_lock(&lock->cohort->mutex);
    due = pawl__cohort_tick(lock->cohort, now);
    pawl__cohort_unlock(lock->cohort);
    return due;
}

static int losses;

static inline void count_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why,
                              void *data) {
    (void)lock, (void)state, (void)token, (void)why, (void)data;
    losses++;
}

static int outcomes;

static void count_outcome(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock, (void)why, (void)data;
    assert_int_equal(result, 0);
    outcomes++;
}

static struct pawl_lock *tasks[200];

/* So many tasks queue up for "lock"; and their handles are freed. */
static inline void queue_up(int count) {
    for (int i = 0; i < count; i++) {
        tasks[i] = mutex("lock", PAWL_TASK);
        assert_works(pawl_acquire_start(tasks[i], PAWL_EXCLUSIVE, 1, PAWL_FOREVER, count_outcome, NULL, &error), &error);
    }
}

static inline void free_tasks(int count) {
    for (int i = 0; i < count; i++)
        pawl_lock_free(tasks[i]);
    pawl_dispatch(client);
}

#endif
