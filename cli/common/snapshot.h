/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.h - a copy of what pawl_inspect() visits, to be laid out in one go.
 */
#ifndef PAWL_CLI_SNAPSHOT_H
#define PAWL_CLI_SNAPSHOT_H

#include "cli.h"

struct snapshot {
    struct pawl_entry *entries; /* lock by lock, by name; holders first, waiters in order */
    size_t count, room;
};

/* `name` NULL: of all locks. Returns 0, or a negative code with its text in `error`. */
int snapshot_take(struct snapshot *snapshot, struct pawl *client, const char *name, struct pawl_error *error);
/* Add a copy. False: out of memory. What was not added in order wants snapshot_sort() when all are there. */
bool snapshot_add(struct snapshot *snapshot, const struct pawl_entry *entry);
void snapshot_sort(struct snapshot *snapshot);
void snapshot_finish(struct snapshot *snapshot);

/* The first entry after `from` that belongs to another lock. */
size_t snapshot_next_lock(const struct snapshot *snapshot, size_t from);

bool is_waiter(const struct pawl_entry *entry);
/* Is it this process? */
bool is_own(const struct pawl_entry *entry);
/* Of this host, and there is no such process: then what it started keeps the hold. */
bool is_gone(const struct pawl_entry *entry);
/* Where others have leases (the client has `lease_ms`), this holder has none, and nobody would notice its death: only an operator
 * ends it. */
bool is_endless(const struct pawl_entry *entry, int64_t lease_ms);
const char *kind_name(enum pawl_kind kind);
const char *mode_name(enum pawl_mode mode);

#endif
