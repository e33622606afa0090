/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - the model: from what pawl_inspect() visits to locks that need attention, and what differs between two looks. Pure; watch.c is
 * what asks the servers.
 */
#include "look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *state_name(enum lock_state state) {
    static const char *const names[LOCK_STATES] = {
        [LOCK_STOPPED] = "stopped", [LOCK_SUSPECT] = "suspect", [LOCK_BROKEN] = "broken",
        [LOCK_FOREIGN] = "foreign", [LOCK_HELD] = "held",       [LOCK_FREE] = "free",
    };

    return names[state];
}

enum { LOOK_SHARE = 50, LONGEST_PAUSE_MS = 30000 };

int64_t look_pause_ms(const struct look *look) {
    double longest = 0;

    for (size_t i = 0; i < look->count; i++)
        if (look->places[i].code == 0 && look->places[i].took_ms > longest)
            longest = look->places[i].took_ms;
    return longest * LOOK_SHARE < LONGEST_PAUSE_MS ? (int64_t)(longest * LOOK_SHARE) : LONGEST_PAUSE_MS;
}

/* Renewed at a third of the lease, so that two thirds are always left while renewals get through. */
int64_t age_ms(const struct pawl_entry *entry, int64_t time_ms) {
    if (entry->since_ms == 0)
        return -1;
    return entry->since_ms < time_ms ? time_ms - entry->since_ms : 0;
}

/* What a hold has in the beginning may be less than its lease: on Redis who is handed a lock has little until its first renewal. */
bool is_suspect(const struct pawl_entry *entry, int64_t time_ms) {
    int64_t lease_ms = entry->lease_ms, left_ms = entry->remaining_ms, age = age_ms(entry, time_ms);

    if (is_waiter(entry) || lease_ms <= 0 || lease_ms == PAWL_FOREVER || left_ms < 0 || left_ms >= lease_ms / 3)
        return false;
    return age < 0 || age >= lease_ms - lease_ms / 3;
}

char *who(char *out, size_t size, const struct pawl_entry *entry) {
    char text[1024], pid[32] = "";

    if (entry->pid != 0)
        snprintf(pid, sizeof pid, ":%" PRId64, entry->pid);
    snprintf(text, sizeof text, "%s%s%s%s", entry->command, entry->command[0] != '\0' && entry->host[0] != '\0' ? " " : "",
             entry->host, pid);
    if (text[0] == '\0')
        snprintf(text, sizeof text, "%s", entry->label[0] != '\0' ? entry->label : "not known");
    return printable(out, size, text);
}

/* ---- from entries to locks ------------------------------------------------------------------------------------------------ */

static enum lock_state state_of(const struct lock_seen *lock, int64_t time_ms) {
    enum lock_state state = lock->holders > 0 ? LOCK_HELD : LOCK_FREE;

    for (size_t i = 0; i < lock->holders + lock->waiters; i++) {
        const struct pawl_entry *entry = &lock->entries[i];
        enum lock_state its = entry->flags & PAWL_ENTRY_STOPPED   ? LOCK_STOPPED
                              : is_waiter(entry)                  ? LOCK_FREE
                              : is_suspect(entry, time_ms)        ? LOCK_SUSPECT
                              : entry->flags & PAWL_ENTRY_BROKEN  ? LOCK_BROKEN
                              : entry->flags & PAWL_ENTRY_FOREIGN ? LOCK_FOREIGN
                                                                  : LOCK_HELD;

        if (its < state)
            state = its;
    }
    return state;
}

static void take_in(struct lock_seen *lock, const struct pawl_entry *entry, int64_t time_ms) {
    int64_t age = age_ms(entry, time_ms);
    int64_t *longest = is_waiter(entry) ? &lock->wait_ms : &lock->held_ms;

    if (age > *longest)
        *longest = age;
    if (is_waiter(entry)) {
        lock->waiters++;
        return;
    }
    if (lock->holders == 0 || entry->remaining_ms < lock->left_ms)
        lock->left_ms = entry->remaining_ms;
    lock->holders++;
}

static size_t count_locks(const struct snapshot *snapshot) {
    size_t count = 0;

    for (size_t i = 0; i < snapshot->count; i = snapshot_next_lock(snapshot, i))
        count++;
    return count;
}

static bool settle_place(struct place *place, int64_t time_ms) {
    const struct snapshot *snapshot = &place->snapshot;

    place->locks = calloc(count_locks(snapshot) + 1, sizeof place->locks[0]);
    if (place->locks == NULL)
        return false;
    for (size_t i = 0, next; i < snapshot->count; i = next) {
        struct lock_seen *lock = &place->locks[place->count++];

        next = snapshot_next_lock(snapshot, i);
        *lock = (struct lock_seen){.place = place,
                                   .name = snapshot->entries[i].name,
                                   .entries = &snapshot->entries[i],
                                   .wait_ms = -1,
                                   .held_ms = -1,
                                   .left_ms = -1};
        for (size_t j = i; j < next; j++)
            take_in(lock, &snapshot->entries[j], time_ms);
        lock->state = state_of(lock, time_ms);
    }
    return true;
}

bool look_start(struct look *look, size_t count, int64_t time_ms) {
    *look = (struct look){.time_ms = time_ms, .places = calloc(count > 0 ? count : 1, sizeof look->places[0])};
    if (look->places != NULL)
        look->count = count;
    return look->places != NULL;
}

bool look_settle(struct look *look) {
    for (size_t i = 0; i < look->count; i++)
        if (!settle_place(&look->places[i], look->time_ms))
            return false;
    return graph_build(look);
}

bool findings_add(struct findings *findings, const struct pawl_finding *finding) {
    struct pawl_finding *items = reallocarray(findings->items, findings->count + 1, sizeof items[0]);

    if (items == NULL)
        return false;
    findings->items = items;
    struct pawl_finding *copy = &items[findings->count];
    *copy = (struct pawl_finding){finding->severity, strdup(finding->what), strdup(finding->advice)};
    findings->count++;
    return copy->what != NULL && copy->advice != NULL;
}

void findings_finish(struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        free((char *)findings->items[i].what);
        free((char *)findings->items[i].advice);
    }
    free(findings->items);
    *findings = (struct findings){0};
}

void look_finish(struct look *look) {
    for (size_t i = 0; i < look->count; i++) {
        struct place *place = &look->places[i];

        free(place->url);
        free(place->engine);
        free(place->error);
        free(place->locks);
        snapshot_finish(&place->snapshot);
        findings_finish(&place->findings);
    }
    free(look->places);
    graph_finish(&look->graph);
    *look = (struct look){0};
}

/* ---- what needs attention ------------------------------------------------------------------------------------------------- */

int compare_attention(const void *left, const void *right) {
    const struct lock_seen *a = *(const struct lock_seen *const *)left, *b = *(const struct lock_seen *const *)right;

    if (a->in_cycle != b->in_cycle)
        return a->in_cycle ? -1 : 1;
    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    if (a->wait_ms != b->wait_ms)
        return a->wait_ms > b->wait_ms ? -1 : 1;
    int by_name = strcmp(a->name, b->name);
    return by_name != 0 ? by_name : strcmp(a->place->url, b->place->url);
}

const struct lock_seen **look_by_attention(const struct look *look, size_t *count) {
    size_t total = 0;

    for (size_t i = 0; i < look->count; i++)
        total += look->places[i].count;
    const struct lock_seen **locks = total > 0 ? calloc(total, sizeof *locks) : NULL;
    *count = 0;
    if (locks == NULL)
        return NULL;
    for (size_t i = 0; i < look->count; i++)
        for (size_t j = 0; j < look->places[i].count; j++)
            locks[(*count)++] = &look->places[i].locks[j];
    qsort(locks, total, sizeof *locks, compare_attention);
    return locks;
}

void totals_add(struct totals *totals, const struct place *place) {
    for (size_t i = 0; i < place->count; i++) {
        const struct lock_seen *lock = &place->locks[i];

        totals->locks++;
        totals->holders += lock->holders;
        totals->waiters += lock->waiters;
        totals->in_cycle += lock->in_cycle;
        totals->states[lock->entries[0].kind][lock->state]++;
        if (lock->wait_ms > totals->wait_ms)
            totals->wait_ms = lock->wait_ms;
        if (lock->held_ms > totals->held_ms)
            totals->held_ms = lock->held_ms;
    }
}

size_t totals_of_state(const struct totals *totals, enum lock_state state) {
    return totals->states[PAWL_MUTEX][state] + totals->states[PAWL_RWLOCK][state] + totals->states[PAWL_SEMAPHORE][state];
}

/* ---- two looks ------------------------------------------------------------------------------------------------------------ */

static const struct place *place_of(const struct look *look, const char *url) {
    for (size_t i = 0; look != NULL && i < look->count; i++)
        if (strcmp(look->places[i].url, url) == 0)
            return &look->places[i];
    return NULL;
}

static void compare_places(const struct place *before, const struct place *now, pair_fn *visit, void *data) {
    size_t i = 0, j = 0, old = before != NULL ? before->count : 0;

    while (i < old || j < now->count) {
        int order = i == old ? 1 : j == now->count ? -1 : strcmp(before->locks[i].name, now->locks[j].name);
        const struct lock_seen *was = order <= 0 ? &before->locks[i++] : NULL;

        visit(was, order >= 0 ? &now->locks[j++] : NULL, data);
    }
}

void look_compare(const struct look *before, const struct look *now, pair_fn *visit, void *data) {
    for (size_t i = 0; i < now->count; i++)
        if (now->places[i].code == 0)
            compare_places(place_of(before, now->places[i].url), &now->places[i], visit, data);
}

bool same_claim(const struct pawl_entry *left, const struct pawl_entry *right) {
    if (left->claim[0] != '\0' && right->claim[0] != '\0')
        return strcmp(left->claim, right->claim) == 0;
    if (is_waiter(left) != is_waiter(right))
        return false;
    return left->token == right->token && (!is_waiter(left) || left->since_ms == right->since_ms) && left->pid == right->pid &&
           strcmp(left->host, right->host) == 0;
}

/* Not where there is no lease, or nothing is known of it. */
static bool has_end(const struct pawl_entry *entry) {
    return entry->remaining_ms >= 0 && entry->remaining_ms != PAWL_FOREVER;
}

/* What is left of a lease becomes less as time passes; if not by as much, it was renewed. */
static bool left_differs(const struct pawl_entry *before, const struct pawl_entry *now, int64_t passed_ms) {
    enum { TOLERANCE_MS = 500 };

    if (!has_end(before) || !has_end(now))
        return before->remaining_ms != now->remaining_ms;
    int64_t surplus = now->remaining_ms - (before->remaining_ms - passed_ms);
    return surplus > TOLERANCE_MS || surplus < -TOLERANCE_MS;
}

static bool entry_changed(const struct pawl_entry *before, const struct pawl_entry *now) {
    return !same_claim(before, now) || before->flags != now->flags || before->position != now->position ||
           before->token != now->token || before->mode != now->mode || before->permits != now->permits ||
           before->since_ms != now->since_ms || strcmp(before->label, now->label) != 0;
}

static bool lock_differs(const struct lock_seen *before, const struct lock_seen *now) {
    if (before->state != now->state || before->in_cycle != now->in_cycle || before->holders != now->holders ||
        before->waiters != now->waiters)
        return true;
    for (size_t i = 0; i < now->holders + now->waiters; i++)
        if (entry_changed(&before->entries[i], &now->entries[i]))
            return true;
    return false;
}

enum lock_change lock_changed(const struct lock_seen *before, int64_t before_ms, const struct lock_seen *now, int64_t now_ms) {
    if (lock_differs(before, now))
        return CHANGE_OTHER;
    for (size_t i = 0; i < now->holders; i++)
        if (left_differs(&before->entries[i], &now->entries[i], now_ms - before_ms))
            return CHANGE_LEASE;
    return CHANGE_NONE;
}
