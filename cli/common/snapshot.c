/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.c - a copy of what pawl_inspect() visits, to be laid out in one go.
 */
#include "snapshot.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only to end the inspection: distinct from every code of the library. */
enum { OUT_OF_MEMORY = 1 };

/* The strings of an entry, which the copy has in one block. */
enum { STRINGS = 8 };

static void strings_of(struct pawl_entry *entry, const char **ret[STRINGS]) {
    const char **strings[STRINGS] = {&entry->name, &entry->host,  &entry->command, &entry->label,
                                     &entry->raw,  &entry->agent, &entry->around,  &entry->claim};

    memcpy(ret, strings, sizeof strings);
}

static bool copy_entry(struct pawl_entry *copy, const struct pawl_entry *entry) {
    const char **strings[STRINGS];
    size_t lengths[STRINGS], total = 0;

    *copy = *entry;
    strings_of(copy, strings);
    for (int i = 0; i < STRINGS; i++)
        total += lengths[i] = strlen(*strings[i]) + 1;
    char *block = malloc(total);
    if (block == NULL)
        return false;
    for (int i = 0; i < STRINGS; i++) {
        *strings[i] = memcpy(block, *strings[i], lengths[i]);
        block += lengths[i];
    }
    return true;
}

static bool make_room(struct snapshot *snapshot) {
    if (snapshot->count < snapshot->room)
        return true;
    size_t room = snapshot->room == 0 ? 16 : snapshot->room * 2;
    struct pawl_entry *entries = reallocarray(snapshot->entries, room, sizeof entries[0]);
    if (entries == NULL)
        return false;
    snapshot->entries = entries;
    snapshot->room = room;
    return true;
}

bool snapshot_add(struct snapshot *snapshot, const struct pawl_entry *entry) {
    if (!make_room(snapshot) || !copy_entry(&snapshot->entries[snapshot->count], entry))
        return false;
    snapshot->count++;
    return true;
}

static int visit(const struct pawl_entry *entry, void *data) {
    return snapshot_add(data, entry) ? 0 : OUT_OF_MEMORY;
}

/* By name, so that a look is like the one before; within a lock as it was visited: holders, then waiters by their place. */
static int compare_entries(const void *left, const void *right) {
    const struct pawl_entry *a = left, *b = right;
    int by_name = strcmp(a->name, b->name);

    if (by_name != 0)
        return by_name;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

void snapshot_sort(struct snapshot *snapshot) {
    if (snapshot->count > 1)
        qsort(snapshot->entries, snapshot->count, sizeof snapshot->entries[0], compare_entries);
}

int snapshot_take(struct snapshot *snapshot, struct pawl *client, const char *name, struct pawl_error *error) {
    *snapshot = (struct snapshot){0};
    int result = pawl_inspect(client, name, visit, snapshot, error);
    if (result == OUT_OF_MEMORY) {
        error->code = PAWL_ENOMEM;
        snprintf(error->text, sizeof error->text, "%s", pawl_error_text(PAWL_ENOMEM));
        result = PAWL_ENOMEM;
    }
    if (result < 0)
        snapshot_finish(snapshot);
    else
        snapshot_sort(snapshot);
    return result < 0 ? result : 0;
}

void snapshot_finish(struct snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->count; i++)
        free((char *)snapshot->entries[i].name); /* the block's beginning */
    free(snapshot->entries);
    *snapshot = (struct snapshot){0};
}

size_t snapshot_next_lock(const struct snapshot *snapshot, size_t from) {
    size_t next = from;

    while (next < snapshot->count && strcmp(snapshot->entries[next].name, snapshot->entries[from].name) == 0)
        next++;
    return next;
}

bool is_waiter(const struct pawl_entry *entry) {
    return (entry->flags & PAWL_ENTRY_WAITER) != 0;
}

static bool is_of_this_host(const struct pawl_entry *entry) {
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    return strcmp(entry->host, host) == 0;
}

bool is_own(const struct pawl_entry *entry) {
    return entry->pid == getpid() && is_of_this_host(entry);
}

bool is_gone(const struct pawl_entry *entry) {
    return entry->pid > 0 && is_of_this_host(entry) && kill((pid_t)entry->pid, 0) < 0 && errno == ESRCH;
}

bool is_endless(const struct pawl_entry *entry, int64_t lease_ms) {
    return !is_waiter(entry) && entry->remaining_ms == PAWL_FOREVER && lease_ms != PAWL_FOREVER;
}

const char *kind_name(enum pawl_kind kind) {
    switch (kind) {
    case PAWL_MUTEX:
        return "mutex";
    case PAWL_RWLOCK:
        return "rwlock";
    case PAWL_SEMAPHORE:
        return "semaphore";
    }
    return "unknown";
}

const char *mode_name(enum pawl_mode mode) {
    switch (mode) {
    case PAWL_EXCLUSIVE:
        return "exclusive";
    case PAWL_SHARED:
        return "shared";
    case PAWL_PERMITS:
        return "permits";
    }
    return "unknown";
}
