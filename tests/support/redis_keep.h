/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_keep.h - claims that may be kept, at the seam: they are submitted to the engine of a client that has no other claims, and what is
 * told of them is written down.
 */
#ifndef PAWL_REDIS_KEEP_H
#define PAWL_REDIS_KEEP_H

#include "redis_test.h"

enum { KEEPERS_MAX = 16, TOKENS_WANTED = 4 };

struct keeper {
    struct pawl__engine *engine;
    struct pawl__claim *seam;
    bool obeys; /* it goes back as soon as it is wanted: it is idle */
    atomic_int wanted, lost, gone;
    _Atomic int64_t wanted_at;
};

static struct keeper keepers[KEEPERS_MAX];
static unsigned keeper_count;

static inline void keeper_told(void *core, struct pawl__claim *seam, enum pawl__news news, const struct pawl_error *why) {
    struct keeper *keeper = keepers;

    (void)core;
    (void)why;
    while (keeper->seam != seam)
        keeper++;
    if (news == NEWS_WANTED) {
        atomic_store(&keeper->wanted_at, pawl__boottime());
        atomic_fetch_add(&keeper->wanted, 1);
        if (keeper->obeys)
            keeper->engine->impl->withdraw(keeper->engine, seam);
    }
    atomic_fetch_add(&keeper->lost, news == NEWS_LOST || news == NEWS_BROKEN);
    atomic_fetch_add(&keeper->gone, news == NEWS_GONE);
}

/* Asked for, and not waited for. `keep_ms` 0: it may not be kept; less: neither, but it hears. */
static inline struct keeper *keeper_ask(struct pawl *client, const char *name, enum pawl_kind kind, enum pawl_mode mode,
                                        int64_t keep_ms) {
    struct pawl__engine *engine = client->engine;
    struct pawl__claim *seam = calloc(1, sizeof *seam + engine->impl->claim_size);
    struct keeper *keeper = &keepers[keeper_count++];

    assert_true(keeper_count <= KEEPERS_MAX);
    *seam = (struct pawl__claim){.id = {1, 100 + keeper_count},
                                 .name = name,
                                 .name_length = (uint32_t)strlen(name),
                                 .kind = kind,
                                 .mode = mode,
                                 .permits = 1,
                                 .limit = 1,
                                 .keep_ns = keep_ms > 0 ? keep_ms * 1000000 : 0,
                                 .hears = keep_ms < 0};
    atomic_init(&seam->token_want, TOKENS_WANTED);
    engine->tell = keeper_told;
    *keeper = (struct keeper){.engine = engine, .seam = seam};
    assert_int_equal(engine->impl->submit(engine, seam, &error), PAWL__PENDING);
    return keeper;
}

static inline void keeper_await(struct keeper *keeper) {
    int64_t deadline = pawl__boottime() + PATIENCE_MS * INT64_C(1000000);

    assert_int_equal(keeper->engine->impl->parking->park(keeper->engine, keeper->seam, deadline, &error), PAWL__DONE);
}

static inline struct keeper *keeper_new(struct pawl *client, const char *name, enum pawl_kind kind, enum pawl_mode mode,
                                        int64_t keep_ms) {
    struct keeper *keeper = keeper_ask(client, name, kind, mode, keep_ms);

    keeper_await(keeper);
    return keeper;
}

static inline struct keeper *keep_mutex(struct pawl *client, const char *name) {
    return keeper_new(client, name, PAWL_MUTEX, PAWL_EXCLUSIVE, 60000);
}

/* From now on it is idle: the service thread has it, and gives it back when it is wanted. */
static inline void keeper_idles(struct keeper *keeper) {
    assert_int_equal(keeper->engine->impl->keeping->rest(keeper->engine, keeper->seam), PAWL__DONE);
    keeper->obeys = true;
    keeper->engine->impl->parking->adopt(keeper->engine, keeper->seam);
}

static inline int keeper_resumes(struct keeper *keeper) {
    return keeper->engine->impl->keeping->resume(keeper->engine, keeper->seam);
}

static inline int keeper_rests(struct keeper *keeper) {
    return keeper->engine->impl->keeping->rest(keeper->engine, keeper->seam);
}

static inline void keeper_await_wanted(struct keeper *keeper) {
    await(atomic_load(&keeper->wanted), "nobody told that others want it");
}

/* End it, unless it has gone by itself. */
static inline void keeper_leave(struct keeper *keeper) {
    if (keeper->obeys) {
        if (!atomic_load(&keeper->wanted))
            keeper->engine->impl->withdraw(keeper->engine, keeper->seam);
        await(atomic_load(&keeper->gone), "it does not go");
    } else {
        keeper->engine->impl->withdraw(keeper->engine, keeper->seam);
        keeper->engine->impl->parking->park(keeper->engine, keeper->seam, PAWL__NEVER, &error);
    }
}

/* After the clients are closed. */
static inline void keepers_free(void) {
    for (unsigned i = 0; i < keeper_count; i++)
        free(keepers[i].seam);
    keeper_count = 0;
}

#endif
