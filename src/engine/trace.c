/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - a decorator in front of any engine: notes every call across the seam, downwards with '>' and upwards with '<'. The engine
 * adds the steps between them in its own words (pawl__note).
 *
 * It is the same engine object with other tables: copies of the engine's own, with the noteworthy operations replaced, so that what
 * the engine lacks (NULL) stays lacking.
 */
#include <stdlib.h>

#include "engine/engine.h"

static const char *const mode_names[] = {[PAWL_EXCLUSIVE] = "exclusive", [PAWL_SHARED] = "shared", [PAWL_PERMITS] = "permits"};

static const char *answer(int rc) {
    return rc == PAWL__DONE ? "done" : rc == PAWL__PENDING ? "pending" : pawl_error_name(rc);
}

static void note_grant(struct pawl__engine *engine, const struct pawl__claim *claim) {
    pawl__note(engine, claim, "< granted, token %llu", (unsigned long long)claim->token);
}

static void note_submit(struct pawl__engine *engine, const struct pawl__claim *claim, const char *or_else) {
    if (claim->mode == PAWL_PERMITS)
        pawl__note(engine, claim, "> submit: %u of %u permits%s", claim->permits, claim->limit, or_else);
    else
        pawl__note(engine, claim, "> submit: %s%s", mode_names[claim->mode], or_else);
}

static void note_answer(struct pawl__engine *engine, const struct pawl__claim *claim, int rc) {
    if (rc == PAWL__DONE)
        note_grant(engine, claim);
    else
        pawl__note(engine, claim, "< %s", answer(rc));
}

static int trace_submit(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl_error *reterr) {
    int rc;

    note_submit(engine, claim, claim->try_only ? ", or nothing" : "");
    rc = engine->traced_impl->submit(engine, claim, reterr);
    note_answer(engine, claim, rc);
    return rc;
}

static int trace_submit_all(struct pawl__engine *engine, struct pawl__claim *const claims[], size_t count,
                            struct pawl_error *reterr) {
    int rc;

    for (size_t i = 0; i < count; i++)
        note_submit(engine, claims[i], ", all or nothing");
    rc = engine->traced_impl->extras->submit_all(engine, claims, count, reterr);
    for (size_t i = 0; i < count; i++)
        note_answer(engine, claims[i], rc);
    return rc;
}

static int trace_park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t deadline, struct pawl_error *reterr) {
    int rc = engine->traced_impl->parking->park(engine, claim, deadline, reterr);

    pawl__note(engine, claim, "< waited: %s, token %llu", answer(rc), (unsigned long long)claim->token);
    return rc;
}

/* Only the answers of these are traced: the claim may be gone with them, so the note comes first. */
static int trace_withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    pawl__note(engine, claim, "> withdraw (token %llu)", (unsigned long long)claim->token);
    return engine->traced_impl->withdraw(engine, claim);
}

static int trace_downgrade(struct pawl__engine *engine, struct pawl__claim *claim) {
    pawl__note(engine, claim, "> downgrade (token %llu)", (unsigned long long)claim->token);
    return engine->traced_impl->extras->downgrade(engine, claim);
}

static void trace_renew(struct pawl__engine *engine, struct pawl__claim *claim) {
    pawl__note(engine, claim, "> renew");
    engine->traced_impl->renew(engine, claim);
}

static int trace_rest(struct pawl__engine *engine, struct pawl__claim *claim) {
    int rc = engine->traced_impl->keeping->rest(engine, claim);

    pawl__note(engine, claim, rc == PAWL__DONE ? "> keep" : "> keep: others want it");
    return rc;
}

static int trace_resume(struct pawl__engine *engine, struct pawl__claim *claim) {
    int rc = engine->traced_impl->keeping->resume(engine, claim);

    pawl__note(engine, claim, rc == PAWL__DONE ? "> take again what is kept" : "> take again what is kept: it must be asked for");
    return rc;
}

static const char *const part_names[] = {[PART_VALUE] = "value", [PART_NOTE] = "note"};

/* No claim is at hand: so these name the lock themselves. */
static int trace_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                     struct pawl_error *reterr) {
    int rc;

    pawl__note(engine, NULL, "'%s' > write its %s: %zu bytes, token %llu%s%s", write->name, part_names[write->part], write->size,
               (unsigned long long)write->token, write->author ? "" : ", by token", write->bytes ? "" : ", delete");
    rc = engine->traced_impl->values->set(engine, write, deadline, ret, reterr);
    pawl__note(engine, NULL, "'%s' < %s", write->name, rc == 0 ? "written" : pawl_error_name(rc));
    return rc;
}

static int trace_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh, int64_t deadline,
                     struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr) {
    int rc;

    pawl__note(engine, NULL, "'%s' > read its %s%s", name, part_names[part], fresh == FRESH_GRANT ? ", held" : "");
    rc = engine->traced_impl->values->get(engine, name, part, fresh, deadline, ret, retnow, reterr);
    if (rc < 0)
        pawl__note(engine, NULL, "'%s' < %s", name, pawl_error_name(rc));
    else if (*ret)
        pawl__note(engine, NULL, "'%s' < %zu bytes, token %llu", name, pawl__value_shown(*ret)->size,
                   (unsigned long long)pawl__value_shown(*ret)->token);
    else
        pawl__note(engine, NULL, "'%s' < nothing", name);
    return rc;
}

static int trace_observe(struct pawl__engine *engine, struct pawl__observer *observer, struct pawl_error *reterr) {
    pawl__note(engine, NULL, "'%s' > observe", observer->name);
    return engine->traced_impl->values->observe(engine, observer, reterr);
}

static void trace_unobserve(struct pawl__engine *engine, struct pawl__observer *observer) {
    pawl__note(engine, NULL, "'%s' > observe no more", observer->name);
    engine->traced_impl->values->unobserve(engine, observer);
}

static void trace_changed(void *core, struct pawl__observer *observer) {
    struct pawl__engine *engine = core;

    pawl__note(engine, NULL, "'%s' < may have changed", observer->name);
    engine->traced_changed(engine->traced_core, observer);
}

static const char *const news_names[] = {
    [NEWS_REFUSED] = "refused", [NEWS_GONE] = "settled", [NEWS_DOWNGRADED] = "downgraded", [NEWS_RENEWED] = "renewed",
    [NEWS_LOST] = "lost",       [NEWS_BROKEN] = "lost",  [NEWS_WANTED] = "wanted",
};

/* While the trace stands between, the engine's `core` is the engine itself. */
static void trace_tell(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    struct pawl__engine *engine = core;

    if (news == NEWS_GRANTED)
        note_grant(engine, claim);
    else if (why)
        pawl__note(engine, claim, "< %s: %s", news_names[news], news == NEWS_REFUSED ? pawl_error_name(why->code) : why->text);
    else
        pawl__note(engine, claim, "< %s", news_names[news]);
    engine->traced_tell(engine->traced_core, claim, news, why);
}

/* The tables that stand in front. */
struct trace {
    struct pawl__engine_impl impl; /* first: freed as such */
    struct pawl__parking parking;
    struct pawl__extras extras;
    struct pawl__keeping keeping;
    struct pawl__values values;
};

bool pawl__trace_install(struct pawl__engine *engine) {
    const struct pawl__engine_impl *impl = engine->impl;
    struct trace *trace = malloc(sizeof *trace);

    if (!trace)
        return false;
    trace->impl = *impl;
    trace->impl.submit = trace_submit;
    trace->impl.withdraw = trace_withdraw;
    if (impl->renew)
        trace->impl.renew = trace_renew;
    if (impl->parking) {
        trace->parking = *impl->parking;
        trace->parking.park = trace_park;
        trace->impl.parking = &trace->parking;
    }
    if (impl->keeping) {
        trace->keeping = *impl->keeping;
        trace->keeping.rest = trace_rest;
        trace->keeping.resume = trace_resume;
        trace->impl.keeping = &trace->keeping;
    }
    if (impl->values) {
        trace->values = *impl->values;
        trace->values.set = trace_set;
        trace->values.get = trace_get;
        trace->values.observe = trace_observe;
        trace->values.unobserve = trace_unobserve;
        trace->impl.values = &trace->values;
    }
    trace->extras = *impl->extras;
    trace->extras.downgrade = trace_downgrade;
    if (impl->extras->submit_all)
        trace->extras.submit_all = trace_submit_all;
    trace->impl.extras = &trace->extras;
    engine->traced_impl = engine->impl;
    engine->traced_tell = engine->tell;
    engine->traced_changed = engine->changed;
    engine->traced_core = engine->core;
    engine->impl = &trace->impl;
    engine->tell = trace_tell;
    engine->changed = trace_changed;
    engine->core = engine;
    return true;
}

void pawl__trace_remove(struct pawl__engine *engine) {
    const struct pawl__engine_impl *impl = engine->impl;

    if (!engine->traced_impl)
        return;
    engine->impl = engine->traced_impl;
    engine->tell = engine->traced_tell;
    engine->changed = engine->traced_changed;
    engine->core = engine->traced_core;
    engine->traced_impl = NULL;
    free((void *)(uintptr_t)impl);
}
