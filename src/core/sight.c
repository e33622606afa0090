/* SPDX-License-Identifier: Apache-2.0
 *
 * sight.c - what an observer sees of a lock: who holds it, and the value beside it, in memory of its own. Counted; never changed.
 *
 * Whose is the value? It is read first, and the holder afterwards. An entry shows the first token of those that it has; those of earlier
 * entries are below it, and later entries come only after it. So a value with that token or a higher one was written by this very holder;
 * one that it writes while it is being looked at is seen at the next look.
 */
#include <stdlib.h>
#include <string.h>

#include "core/sight.h"
#include "base/error.h"

struct sight *pawl__sight_ref(struct sight *sight) {
    atomic_fetch_add(&sight->references, 1);
    return sight;
}

void pawl__sight_put(struct sight *sight) {
    if (!sight || atomic_fetch_sub(&sight->references, 1) != 1)
        return;
    pawl__value_put(sight->value);
    free(sight->strings);
    free(sight);
}

/* ---- Copying an entry ------------------------------------------------------------------------------------------------------ */

enum { STRINGS = 8 };

static void list_strings(struct pawl_entry *entry, const char **ret[STRINGS]) {
    const char **all[STRINGS] = {&entry->name, &entry->host,  &entry->command, &entry->label,
                                 &entry->raw,  &entry->agent, &entry->around,  &entry->claim};

    memcpy(ret, all, sizeof all);
}

/* Copy the strings into one block. False: out of memory. */
static bool keep_strings(struct sight *sight) {
    const char **strings[STRINGS];
    size_t size = 0;
    char *to;

    list_strings(&sight->entry, strings);
    for (int i = 0; i < STRINGS; i++)
        size += strlen(*strings[i] ? *strings[i] : "") + 1;
    if (!(to = sight->strings = malloc(size)))
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
    struct sight *sight = data;

    if (entry->flags & PAWL_ENTRY_WAITER)
        return 0;
    sight->entry = *entry;
    if (!keep_strings(sight))
        return NO_MEMORY;
    sight->held = true;
    return SEEN;
}

/* ---- Looking, comparing ---------------------------------------------------------------------------------------------------- */

static bool wrote_it(const struct pawl_entry *entry, const struct pawl__value *value) {
    return value && entry->token && !(entry->flags & PAWL_ENTRY_FOREIGN) && entry->mode != PAWL_PERMITS &&
           pawl__value_shown(value)->token >= entry->token;
}

static int look_for_holder(struct pawl__engine *engine, const char *name, int64_t deadline, struct sight *sight,
                           struct pawl_error *reterr) {
    const struct pawl__engine_impl *impl = engine->impl;

    if (impl->values->look)
        return impl->values->look(engine, name, see_entry, sight, deadline, reterr);
    return impl->operators->survey(engine, name, see_entry, sight, reterr);
}

struct sight *pawl__sight_look(struct pawl *client, const char *name, int64_t deadline, struct pawl_error *reterr) {
    struct pawl__engine *engine = client->engine;
    struct sight *sight = calloc(1, sizeof *sight);
    struct pawl_error error;
    int rc;

    *reterr = (struct pawl_error){0};
    if (!sight)
        return NULL;
    atomic_init(&sight->references, 1);
    rc = engine->impl->values->get(engine, name, PART_VALUE, FRESH_TOLD, deadline, &sight->value, NULL, &error);
    if (rc == PAWL_EACCES)
        *reterr = error;
    if (rc == PAWL_EFORMAT || rc == PAWL_EACCES) /* nothing that a pawl has written, or that it may read: there is still a holder */
        rc = 0;
    if (rc == 0)
        rc = look_for_holder(engine, name, deadline, sight, &error);
    if (rc < 0)
        *reterr = error;
    if (rc < 0 || rc == NO_MEMORY) {
        pawl__sight_put(sight);
        return NULL;
    }
    sight->value_is_holders = sight->held && wrote_it(&sight->entry, sight->value);
    return sight;
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

bool pawl__sight_same(const struct sight *a, const struct sight *b) {
    return a->held == b->held && (!a->held || same_holder(&a->entry, &b->entry)) && same_value(a->value, b->value) &&
           a->value_is_holders == b->value_is_holders;
}

int64_t pawl__sight_ends(const struct sight *sight, int64_t now) {
    if (!sight->held || sight->entry.remaining_ms < 0 || sight->entry.remaining_ms == PAWL_FOREVER)
        return PAWL__NEVER;
    return pawl__deadline(now, sight->entry.remaining_ms);
}
