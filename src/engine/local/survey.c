/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: who holds, who waits; and breaking a hold.
 *
 * A bucket's nodes are copied under its guard and told outside of it, after the dead among them have been recovered. If a process is
 * stopped inside the guard the copy is made without it: the list does not change as long as that process stands there, each of its
 * prefixes is a list, and every entry says STOPPED.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/local/local.h"
#include "base/error.h"

#define GUARD_WITHIN (200 * MS)
enum { ROUNDS = 8, RAW_SIZE = 256 };

/* What was copied of a bucket. */
struct copy {
    struct node *nodes;
    uint32_t *refs;
    size_t count, room;
    bool stopped; /* somebody stands in the guard */
};

static bool copy_grow(struct copy *copy) {
    size_t room = copy->room ? 4 * copy->room : 64;
    struct node *nodes = NULL;
    uint32_t *refs = realloc(copy->refs, room * sizeof *refs);

    if (refs)
        copy->refs = refs;
    if (!refs || posix_memalign((void **)&nodes, 64, room * sizeof *nodes) != 0)
        return false;
    free(copy->nodes);
    copy->nodes = nodes;
    copy->room = room;
    return true;
}

/* Nobody has what is kept. */
static bool is_shown(uint32_t word) {
    return holds(word) || state_of(word) == NODE_WAITING;
}

/* Copy as many as there is room for; false: there are more. */
static bool copy_nodes(struct local *local, struct guard_visit *visit, const char *name, size_t length, struct copy *copy) {
    uint32_t steps = 0;

    copy->count = 0;
    FOR_NODES(node, local, visit, &steps) {
        if (name && (node->name_length != length || memcmp(node->name, name, length) != 0))
            continue;
        if (copy->count == copy->room)
            return false;
        copy->refs[copy->count] = pawl__local_ref(local, node);
        memcpy(&copy->nodes[copy->count], node, sizeof *node);
        copy->count += is_shown(GET(copy->nodes[copy->count].state));
    }
    return true;
}

static int copy_bucket(struct local *local, uint32_t hash, const char *name, size_t length, struct copy *copy,
                       struct pawl_error *reterr) {
    struct guard_visit visit;
    bool complete;

    do {
        if (!copy->room && !copy_grow(copy))
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        if (local->look)
            visit = (struct guard_visit){.bucket = &local->table->buckets[hash & (BUCKET_COUNT - 1)]};
        copy->stopped = local->look ? pawl__local_stands_still(local, hash & (BUCKET_COUNT - 1))
                                    : pawl__local_enter(local, &visit, hash, pawl__boottime() + GUARD_WITHIN, NULL) != PAWL__DONE;
        complete = copy_nodes(local, &visit, name, length, copy);
        if (!copy->stopped && !local->look)
            pawl__local_leave(local, &visit);
        if (!complete && !copy_grow(copy))
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    } while (!complete);
    return visit.damaged && !copy->stopped && !local->look ? pawl__local_fail_damaged(local, hash, reterr) : 0;
}

/* Who only looks leaves them where they are, and out. */
static void leave_out_dead(struct local *local, struct copy *copy) {
    for (size_t i = 0; i < copy->count; i++) {
        uint64_t owner = GET(copy->nodes[i].owner);

        if (pawl__local_dead(local, owner))
            copy->refs[i] = 0;
    }
}

/* Recover the dead among those copied. True: there were some. */
static bool recover_dead(struct local *local, const struct copy *copy) {
    int64_t deadline = pawl__boottime() + GUARD_WITHIN;
    uint64_t last = 0;
    bool any = false;

    for (size_t i = 0; i < copy->count && !copy->stopped; i++) {
        uint64_t owner = GET(copy->nodes[i].owner);

        if (owner == last || !pawl__local_dead(local, owner))
            last = owner;
        else if (pawl__local_recover(local, owner, deadline))
            any = true;
    }
    return any;
}

static void describe_session(struct local *local, uint64_t owner, struct pawl__identity *ret) {
    if (!pawl__local_identify(local, slot_of(owner), ret) ||
        GET(local->table->words[slot_of(owner)]) != session_word(generation_of(owner), SESSION_LIVE))
        memset(ret, 0, sizeof *ret);
}

/* The claim's own label, instead of its session's. What would garble a terminal is shown as '?', as in a record. */
static void describe_label(const struct node *node, char to[PAWL__LABEL_SIZE]) {
    const char *from = node->name + node->name_length, *end = node->name + sizeof node->name;
    size_t used = 0;

    if (node->labelled != GET(node->owner))
        return;
    for (; from < end && *from && used + 1 < PAWL__LABEL_SIZE; from++)
        to[used++] = (char)((unsigned char)*from < ' ' || *from == 0x7f ? '?' : *from);
    to[used] = '\0';
}

static const char *const state_names[] = {"FREE", "WAITING", "GRANTED", "HELD", "PASSED_OVER", "REVOKED", "KEPT", "?"};

static int tell(struct local *local, const struct copy *copy, size_t at, unsigned position, pawl_visit_fn *visit, void *data,
                struct pawl_error *reterr) {
    const struct node *node = &copy->nodes[at];
    uint32_t word = GET(node->state);
    uint64_t owner = GET(node->owner);
    struct pawl__identity identity;
    char name[PAWL__NAME_MAX + 1], raw[RAW_SIZE], claim[64];
    struct pawl_entry entry;

    memcpy(name, node->name, node->name_length);
    name[node->name_length] = '\0';
    if (kind_of(node) > PAWL_SEMAPHORE || GET(node->mode) > PAWL_PERMITS || pawl__name_check(name, NULL) < 0)
        return local->look ? 0 : pawl__local_fail_damaged(local, GET(node->hash), reterr);
    describe_session(local, owner, &identity);
    describe_label(node, identity.label);
    snprintf(raw, sizeof raw, "bucket %u node %u state %s ticket %" PRIu64 " session %u.%u channel %u watches %u",
             GET(node->hash) & (BUCKET_COUNT - 1), copy->refs[at], state_names[state_of(word)], GET(node->ticket), slot_of(owner),
             generation_of(owner), GET(node->channel), GET(node->watched));
    snprintf(claim, sizeof claim, "%u.%u.%" PRIu64, slot_of(owner), generation_of(owner), GET(node->ticket));
    entry = (struct pawl_entry){
        .name = name,
        .kind = (enum pawl_kind)kind_of(node),
        .mode = (enum pawl_mode)GET(node->mode),
        .flags = (position ? PAWL_ENTRY_WAITER : 0) | (word & NODE_BROKEN ? PAWL_ENTRY_BROKEN : 0) |
                 (copy->stopped ? PAWL_ENTRY_STOPPED : 0),
        .position = position,
        .permits = node->permits,
        .limit = node->limit,
        .token = position ? 0 : GET(node->token),
        .since_ms = position || GET(node->since_ms) > node->granted_ms ? GET(node->since_ms) : node->granted_ms,
        .remaining_ms = PAWL_FOREVER,
        .raw = raw,
        .claim = claim,
    };
    pawl__record_show(&identity, &entry);
    entry.lease_ms = PAWL_FOREVER;
    return visit(&entry, data);
}

/* Tell lock by lock: the list mixes the names of a bucket, but within a name it is in order, holders first. */
static int tell_all(struct local *local, struct copy *copy, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    int rc = 0;

    for (size_t i = 0; i < copy->count && rc == 0; i++) {
        unsigned position = 0;

        if (copy->refs[i] == 0)
            continue;
        for (size_t j = i; j < copy->count && rc == 0; j++) {
            if (copy->refs[j] == 0 || (j != i && !pawl__local_same_name(&copy->nodes[i], &copy->nodes[j])))
                continue;
            if (state_of(GET(copy->nodes[j].state)) != NODE_HELD) /* GRANTED: it is its turn, but it does not know yet */
                position++;
            rc = tell(local, copy, j, position, visit, data, reterr);
            copy->refs[j] = 0;
        }
    }
    return rc;
}

int pawl__local_survey(struct local *local, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    size_t length = name ? strlen(name) : 0;
    uint32_t first = name ? pawl__name_hash(name, length) & (BUCKET_COUNT - 1) : 0, last = name ? first : BUCKET_COUNT - 1;
    struct copy copy = {0};
    int rc = 0;

    if (local->looking.absent)
        return 0;
    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    for (uint32_t bucket = first; bucket <= last && rc == 0; bucket++) {
        int rounds = 0;

        if (atomic_load(&local->table->buckets[bucket].head) == 0)
            continue;
        do
            rc = copy_bucket(local, bucket, name, length, &copy, reterr);
        while (rc == 0 && !local->look && rounds++ < ROUNDS && recover_dead(local, &copy));
        if (rc == 0 && local->look)
            leave_out_dead(local, &copy);
        if (rc == 0)
            rc = tell_all(local, &copy, visit, data, reterr);
    }
    free(copy.nodes);
    free(copy.refs);
    return rc;
}

/* ---- Breaking ---- */

struct node *pawl__local_find_holder(struct local *local, struct guard_visit *visit, const char *name, uint64_t token,
                                     uint64_t *ret_other) {
    size_t length = strlen(name);
    uint32_t steps = 0;

    *ret_other = 0;
    FOR_NODES(node, local, visit, &steps) {
        if (node->name_length != length || memcmp(node->name, name, length) != 0 || !holds(GET(node->state)))
            continue;
        if (GET(node->token) == token)
            return node;
        *ret_other = GET(node->token);
    }
    return NULL;
}

static int fail_token(const char *name, uint64_t token, uint64_t other, struct pawl_error *reterr) {
    if (other == 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "nobody holds %s: there is nothing with token %" PRIu64 " to break", name, token);
    return pawl__fail(reterr, PAWL_ETOKEN, "no hold of %s has token %" PRIu64 ": it is held with token %" PRIu64, name, token,
                      other);
}

/* The process that took it can't be asked any more: say who has it now. */
static int fail_orphan(struct local *local, const char *name, uint32_t slot, struct pawl_error *reterr) {
    int64_t pids[8] = {0};
    char text[8 * 24] = "", who[WHO_SIZE];
    size_t count = pawl__local_inheritors(&local->table->sessions[slot], false, pids, sizeof pids / sizeof pids[0]), used = 0;

    for (size_t i = 0; i < sizeof pids / sizeof pids[0] && pids[i] != 0; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%spid %" PRId64, i > 0 ? ", " : "", pids[i]);
    return pawl__fail(reterr, PAWL_EORPHAN,
                      "%s is held by what %s left behind (%s%s), which can't be asked to give up: end it, or break the hold --now",
                      name, pawl__local_who(local, slot, who, sizeof who), text,
                      count > sizeof pids / sizeof pids[0] ? ", ..." : "");
}

/* Is it that of a process that is gone, whose holds others keep? Outside of the guard. */
static bool is_orphan(struct local *local, const char *name, uint64_t token, uint32_t *ret_slot) {
    uint32_t hash = pawl__name_hash(name, strlen(name));
    struct guard_visit visit;
    struct node *node;
    uint64_t other, owner;

    if (pawl__local_enter(local, &visit, hash, pawl__boottime() + 2000 * MS, NULL) != PAWL__DONE)
        return false;
    node = pawl__local_find_holder(local, &visit, name, token, &other);
    owner = node ? GET(node->owner) : 0;
    pawl__local_leave(local, &visit);
    *ret_slot = slot_of(owner);
    return owner != 0 && pawl__local_process_over(local, owner) && !pawl__local_dead(local, owner);
}

int pawl__local_break(struct local *local, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    uint32_t hash = pawl__name_hash(name, strlen(name)), slot, channel;
    struct guard_visit visit;
    struct node *node;
    uint64_t other, owner;

    if (local->looking.absent)
        return fail_token(name, token, 0, reterr);
    if (pawl__local_gone(local))
        return pawl__local_fail_gone(local, reterr);
    if (!now && is_orphan(local, name, token, &slot))
        return fail_orphan(local, name, slot, reterr);
    if (pawl__local_enter(local, &visit, hash, pawl__boottime() + 2000 * MS, NULL) != PAWL__DONE)
        return pawl__fail(reterr, PAWL_ETIMEOUT, "a process stands still inside the table's guard for %s: see `pawl status`", name);
    node = pawl__local_find_holder(local, &visit, name, token, &other);
    if (!node) {
        pawl__local_leave(local, &visit);
        return visit.damaged ? pawl__local_fail_damaged(local, hash, reterr) : fail_token(name, token, other, reterr);
    }
    owner = GET(node->owner);
    slot = slot_of(owner) & (SESSION_COUNT - 1);
    if (!now)
        atomic_fetch_or(&node->state, NODE_BROKEN);
    else if (!pawl__local_revoke(local, &visit, node))
        pawl__local_pass_over(local, &visit, node); /* granted, and does not know yet that it holds anything: it queues again */
    atomic_fetch_add(&local->table->sessions[slot].breaks, 1);
    channel = atomic_load(&local->table->sessions[slot].serve_channel);
    pawl__local_leave(local, &visit);
    if (channel != 0)
        pawl__local_channel_poke(local, slot, channel - 1);
    if (pawl__local_dead(local, owner)) /* nobody will let go: do it for it */
        pawl__local_recover(local, owner, pawl__boottime() + GUARD_WITHIN);
    return 0;
}
