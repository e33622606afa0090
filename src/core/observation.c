/* SPDX-License-Identifier: Apache-2.0
 *
 * observation.c - what an observer sees of a lock: who holds it, and the value beside it, in memory of its own. Counted; never changed.
 *
 * Whose is the value? It is read first, and the holder afterwards. An entry shows the first token of those that it has; those of earlier
 * entries are below it, and later entries come only after it. So a value with that token or a higher one was written by this very holder;
 * one that it writes while it is being looked at is seen at the next look.
 */
#include <stdlib.h>
#include <string.h>

#include "core/observation.h"
#include "base/error.h"

struct observation *pawl__observation_ref(struct observation *observation) {
    atomic_fetch_add(&observation->references, 1);
    return observation;
}

void pawl__observation_put(struct observation *observation) {
    if (!observation || atomic_fetch_sub(&observation->references, 1) != 1)
        return;
    pawl__value_put(observation->value);
    free(observation->strings);
    free(observation);
}

/* ---- Copying an entry ------------------------------------------------------------------------------------------------------ */

enum { STRINGS = 8 };

static void list_strings(struct pawl_entry *entry, const char **ret[STRINGS]) {
    const char **all[STRINGS] = {&entry->name, &entry->host,  &entry->command, &entry->label,
                                 &entry->raw,  &entry->agent, &entry->around,  &entry->claim};

    memcpy(ret, all, sizeof all);
}

/* Copy the strings into one block. False: out of memory. */
static bool keep_strings(struct observation *observation) {
    const char **strings[STRINGS];
    size_t size = 0;
    char *to;

    list_strings(&observation->entry, strings);
    for (int i = 0; i < STRINGS; i++)
        size += strlen(*strings[i] ? *strings[i] : "") + 1;
    if (!(to = observation->strings = malloc(size)))
        return false;
    for (int i = 0; i < STRINGS; i++) {
        strcpy(to, *strings[i] ? *strings[i] : "");
        *strings[i] = to;
        to += strlen(to) + 1;
    }
    return true;
}

/* The first of those who hold is enough. */
enum { SEEN = 1, NO_MEMORY = 2 };

static int see_entry(const struct pawl_entry *entry, void *data) {
    struct observation *observation = data;

    if (entry->flags & PAWL_ENTRY_WAITER)
        return 0;
    observation->entry = *entry;
    if (!keep_strings(observation))
        return NO_MEMORY;
    observation->held = true;
    return SEEN;
}

/* ---- Looking, comparing ---------------------------------------------------------------------------------------------------- */

static bool wrote_it(const struct pawl_entry *entry, const struct pawl__value *value) {
    return value && entry->token && !(entry->flags & PAWL_ENTRY_FOREIGN) && entry->mode != PAWL_PERMITS &&
           pawl__value_shown(value)->token >= entry->token;
}

static int look_for_holder(struct pawl__engine *engine, const char *name, int64_t deadline, struct observation *observation,
                           struct pawl_error *reterr) {
    const struct pawl__engine_impl *impl = engine->impl;

    if (impl->values->look)
        return impl->values->look(engine, name, see_entry, observation, deadline, reterr);
    return impl->operators->survey(engine, name, see_entry, observation, reterr);
}

struct observation *pawl__observation_take(struct pawl *client, const char *name, int64_t deadline, struct pawl_error *reterr) {
    struct pawl__engine *engine = client->engine;
    struct observation *observation = calloc(1, sizeof *observation);
    struct pawl_error error;
    int rc;

    *reterr = (struct pawl_error){0};
    if (!observation)
        return NULL;
    atomic_init(&observation->references, 1);
    rc = engine->impl->values->get(engine, name, PART_VALUE, FRESH_TOLD, deadline, &observation->value, NULL, &error);
    if (rc == PAWL_EACCES)
        *reterr = error;
    if (rc == PAWL_EFORMAT || rc == PAWL_EACCES) /* nothing that a pawl has written, or that it may read: there is still a holder */
        rc = 0;
    if (rc == 0)
        rc = look_for_holder(engine, name, deadline, observation, &error);
    if (rc < 0)
        *reterr = error;
    if (rc < 0 || rc == NO_MEMORY) {
        pawl__observation_put(observation);
        return NULL;
    }
    observation->value_is_holders = observation->held && wrote_it(&observation->entry, observation->value);
    return observation;
}

static bool same_holder(const struct pawl_entry *a, const struct pawl_entry *b) {
    return a->token == b->token && a->mode == b->mode && a->pid == b->pid && !((a->flags ^ b->flags) & PAWL_ENTRY_BROKEN) &&
           strcmp(a->claim, b->claim) == 0 && strcmp(a->host, b->host) == 0 && strcmp(a->label, b->label) == 0;
}

static bool same_value(const struct pawl__value *a, const struct pawl__value *b) {
    if (!a || !b)
        return a == b;
    return pawl__value_shown(a)->version == pawl__value_shown(b)->version &&
           pawl__value_shown(a)->token == pawl__value_shown(b)->token;
}

bool pawl__observation_same(const struct observation *a, const struct observation *b) {
    return a->held == b->held && (!a->held || same_holder(&a->entry, &b->entry)) && same_value(a->value, b->value) &&
           a->value_is_holders == b->value_is_holders;
}

int64_t pawl__observation_ends(const struct observation *observation, int64_t now) {
    if (!observation->held || observation->entry.remaining_ms < 0 || observation->entry.remaining_ms == PAWL_FOREVER)
        return PAWL__NEVER;
    return pawl__deadline(now, observation->entry.remaining_ms);
}
