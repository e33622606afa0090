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

static bool copy_entry(struct pawl_entry *copy, const struct pawl_entry *entry) {
    *copy = *entry;
    copy->name = strdup(entry->name);
    copy->host = strdup(entry->host);
    copy->command = strdup(entry->command);
    copy->label = strdup(entry->label);
    copy->raw = strdup(entry->raw);
    return copy->name != NULL && copy->host != NULL && copy->command != NULL && copy->label != NULL && copy->raw != NULL;
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

static int visit(const struct pawl_entry *entry, void *data) {
    struct snapshot *snapshot = data;

    if (!make_room(snapshot))
        return OUT_OF_MEMORY;
    return copy_entry(&snapshot->entries[snapshot->count++], entry) ? 0 : OUT_OF_MEMORY;
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
    else if (snapshot->count > 1)
        qsort(snapshot->entries, snapshot->count, sizeof snapshot->entries[0], compare_entries);
    return result < 0 ? result : 0;
}

void snapshot_finish(struct snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->count; i++) {
        struct pawl_entry *entry = &snapshot->entries[i];

        free((char *)entry->name);
        free((char *)entry->host);
        free((char *)entry->command);
        free((char *)entry->label);
        free((char *)entry->raw);
    }
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

bool is_endless(const struct pawl_entry *entry, const struct pawl_info *info) {
    return !is_waiter(entry) && entry->remaining_ms == PAWL_FOREVER && info->lease_ms != PAWL_FOREVER;
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
