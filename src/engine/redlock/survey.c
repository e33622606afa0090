/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: what the servers together say of a lock; breaking a hold; and a look at all servers.
 *
 * Each server is asked, and what they say is put together: entries are the same if they have the same client and token, of those that
 * wait the same client and moment, of foreign programs the same value. Who is on a majority of the servers holds; who is on fewer wants to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "base/error.h"

enum { ENTRIES_MOST = 100000, CLIENT_BYTES = 36 };

/* An entry, and how many servers have it. */
struct sighting {
    struct pawl_entry entry;
    char *name, *host, *command, *label, *raw;
    unsigned servers;
};

struct sightings {
    struct sighting *list;
    size_t count, size;
    bool failed;
};

/* What tells two holds, or two waits, of one client apart. */
static uint64_t number_of(const struct pawl_entry *entry) {
    return entry->flags & PAWL_ENTRY_WAITER ? (uint64_t)entry->since_ms : entry->token;
}

/* Sightings of one entry stand together, whichever servers they are from. */
static int by_identity(const void *a, const void *b) {
    const struct sighting *x = a, *y = b;
    unsigned flags = PAWL_ENTRY_WAITER | PAWL_ENTRY_FOREIGN;
    int order = strcmp(x->name, y->name);
    uint64_t one, other;

    if (!order)
        order = (int)(x->entry.flags & flags) - (int)(y->entry.flags & flags);
    if (!order)
        order = x->entry.flags & PAWL_ENTRY_FOREIGN ? strcmp(x->raw, y->raw) : strncmp(x->raw, y->raw, CLIENT_BYTES);
    if (order || x->entry.flags & PAWL_ENTRY_FOREIGN)
        return order;
    one = number_of(&x->entry);
    other = number_of(&y->entry);
    return one < other ? -1 : one > other;
}

static bool copy_entry(struct sighting *to, const struct pawl_entry *entry) {
    *to = (struct sighting){.entry = *entry, .servers = 1};
    to->entry.name = to->name = strdup(entry->name);
    to->entry.host = to->host = strdup(entry->host);
    to->entry.command = to->command = strdup(entry->command);
    to->entry.label = to->label = strdup(entry->label);
    to->entry.raw = to->raw = strdup(entry->raw);
    return to->name && to->host && to->command && to->label && to->raw;
}

static void free_sighting(struct sighting *sighting) {
    free(sighting->name);
    free(sighting->host);
    free(sighting->command);
    free(sighting->label);
    free(sighting->raw);
}

static void free_sightings(struct sightings *all) {
    for (size_t i = 0; i < all->count; i++)
        free_sighting(&all->list[i]);
    free(all->list);
}

static void merge(struct sighting *into, const struct sighting *other) {
    into->servers += other->servers;
    into->entry.flags |= other->entry.flags;
    /* It holds as long as most of its servers have it; the shortest of them is not too much to promise. */
    if (other->entry.remaining_ms < into->entry.remaining_ms)
        into->entry.remaining_ms = other->entry.remaining_ms;
}

static int collect(const struct pawl_entry *entry, void *data) {
    struct sightings *all = data;
    struct sighting *bigger;

    if (all->count == all->size) {
        bigger = all->count < 2 * ENTRIES_MOST ? realloc(all->list, (all->size * 2 + 16) * sizeof *bigger) : NULL;
        if (!bigger) {
            all->failed = true;
            return 1;
        }
        all->list = bigger;
        all->size = all->size * 2 + 16;
    }
    all->failed |= !copy_entry(&all->list[all->count++], entry);
    return all->failed;
}

/* One sighting of each entry: after every server, so that there are never more than two lists of them. */
static void merge_all(struct sightings *all) {
    size_t kept = 0;

    if (all->count == 0)
        return;
    qsort(all->list, all->count, sizeof all->list[0], by_identity);
    for (size_t i = 1; i < all->count; i++)
        if (by_identity(&all->list[kept], &all->list[i]) == 0) {
            merge(&all->list[kept], &all->list[i]);
            free_sighting(&all->list[i]);
        } else {
            all->list[++kept] = all->list[i];
        }
    all->count = kept + 1;
    all->failed |= all->count > ENTRIES_MOST;
}

static bool usable(struct redlock *redlock, unsigned seat) {
    bool usable;

    pawl__kit_lock(&redlock->kit);
    pawl__seats_listen(redlock, pawl__boottime());
    usable = pawl__seat_usable(redlock, seat);
    pawl__kit_unlock(&redlock->kit);
    return usable;
}

/* Ask all that can be asked. A majority must answer: else what one sees says little about who holds. */
static int look(struct redlock *redlock, const char *name, struct sightings *ret, struct pawl_error *reterr) {
    struct pawl_error why = {.code = 0};
    unsigned answered = 0;

    for (unsigned i = 0; i < redlock->crew.count && !ret->failed; i++) {
        struct pawl__engine *voter = redlock->crew.members[i];

        if (usable(redlock, i) && voter->impl->operators->survey(voter, name, collect, ret, &why) >= 0)
            answered++;
        if (!ret->failed)
            merge_all(ret);
    }
    if (ret->failed)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory, or more locks than can be listed: ask for one by its name");
    if (answered < redlock->quorum)
        return pawl__fail(reterr, PAWL_ECONNLOST, "%u of the %u servers of %.200s answered, and %u are needed%s%.200s", answered,
                          redlock->crew.count, redlock->url, redlock->quorum, why.code ? ": " : "", why.code ? why.text : "");
    return 0;
}

/* By name; holders first, then by how long they have waited. */
static int compare(const void *a, const void *b) {
    const struct sighting *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    if (order)
        return order;
    if ((x->entry.flags ^ y->entry.flags) & PAWL_ENTRY_WAITER)
        return x->entry.flags & PAWL_ENTRY_WAITER ? 1 : -1;
    return x->entry.since_ms < y->entry.since_ms ? -1 : x->entry.since_ms > y->entry.since_ms;
}

static void sort_out(const struct redlock *redlock, struct sightings *all) {
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].servers < redlock->quorum)
            all->list[i].entry.flags |= PAWL_ENTRY_WAITER;
    if (all->count)
        qsort(all->list, all->count, sizeof all->list[0], compare);
}

static int show(const struct redlock *redlock, struct sightings *all, pawl_visit_fn *visit, void *data) {
    unsigned position = 0;
    char raw[1200];
    int rc = 0;

    for (size_t i = 0; i < all->count && rc == 0; i++) {
        struct pawl_entry *entry = &all->list[i].entry;

        if (i == 0 || strcmp(entry->name, all->list[i - 1].name) != 0)
            position = 0;
        if (entry->flags & PAWL_ENTRY_WAITER) {
            entry->position = ++position;
            entry->token = 0;
            entry->remaining_ms = -1;
        }
        snprintf(raw, sizeof raw, "%.1100s on %u of %u servers", all->list[i].raw, all->list[i].servers, redlock->crew.count);
        entry->raw = raw;
        rc = visit(entry, data);
    }
    return rc;
}

int pawl__redlock_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data,
                         struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct sightings all = {.count = 0};
    int rc = look(redlock, name, &all, reterr);

    if (rc == 0) {
        sort_out(redlock, &all);
        rc = show(redlock, &all, visit, data);
    }
    free_sightings(&all);
    return rc;
}

int pawl__redlock_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    struct pawl_error why = {.code = 0}, one;
    unsigned done = 0;

    for (unsigned i = 0; i < redlock->crew.count; i++) {
        struct pawl__engine *voter = redlock->crew.members[i];

        if (!usable(redlock, i))
            continue;
        if (voter->impl->operators->break_hold(voter, name, token, now, &one) >= 0)
            done++;
        else if (!why.code || one.code != PAWL_ETOKEN) /* servers that never had it say less than one that failed */
            why = one;
    }
    if (done)
        return 0;
    if (!why.code)
        return pawl__fail(reterr, PAWL_ECONNLOST, "no server of %.200s can be reached", redlock->url);
    return pawl__fail(reterr, why.code, "%s", why.text);
}

/* ---- The doctor ----------------------------------------------------------------------------------------------------------- */

struct examination {
    const char *where;
    pawl_finding_fn *visit;
    void *data;
};

static int with_place(const struct pawl_finding *finding, void *data) {
    const struct examination *exam = data;
    struct pawl_finding own = *finding;
    char what[700];

    snprintf(what, sizeof what, "%s: %s", exam->where, finding->what);
    own.what = what;
    return exam->visit(&own, exam->data);
}

static int tell(pawl_finding_fn *visit, void *data, enum pawl_severity severity, const char *what, const char *advice) {
    const struct pawl_finding finding = {.severity = severity, .what = what, .advice = advice};

    return visit(&finding, data);
}

static int examine_majority(const struct redlock *redlock, unsigned answered, pawl_finding_fn *visit, void *data) {
    unsigned spare = answered < redlock->quorum ? 0 : answered - redlock->quorum;
    char what[200];

    snprintf(what, sizeof what, "%u of %u servers answer; %u are needed, so %u more may fail", answered, redlock->crew.count,
             redlock->quorum, spare);
    if (answered == redlock->crew.count)
        return tell(visit, data, PAWL_FINDING_GOOD, what, "");
    return tell(visit, data, PAWL_FINDING_WARNING, what, "bring the others back");
}

static int examine_number(const struct redlock *redlock, pawl_finding_fn *visit, void *data) {
    char what[200], advice[100];

    if (redlock->crew.count % 2)
        return 0;
    snprintf(what, sizeof what, "the URL names %u servers: of an even number no more may fail than of one less",
             redlock->crew.count);
    snprintf(advice, sizeof advice, "name %u or %u", redlock->crew.count - 1, redlock->crew.count + 1);
    return tell(visit, data, PAWL_FINDING_WARNING, what, advice);
}

static int examine_one(struct redlock *redlock, unsigned seat, pawl_finding_fn *visit, void *data, unsigned *answered) {
    struct examination exam = {.where = redlock->seats[seat].where, .visit = visit, .data = data};
    struct pawl__engine *voter = redlock->crew.members[seat];
    struct pawl_error why = {.code = 0};
    int rc = PAWL_ECONNLOST;
    char what[700];

    if (usable(redlock, seat))
        rc = voter->impl->operators->examine(voter, with_place, &exam, &why);
    if (rc >= 0) {
        *answered += 1;
        return rc;
    }
    snprintf(what, sizeof what, "%s does not answer%s%s", exam.where, why.code ? ": " : "", why.code ? why.text : "");
    return tell(visit, data, PAWL_FINDING_WARNING, what, "bring it back: a hold needs a majority of the servers");
}

int pawl__redlock_examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    unsigned answered = 0;
    int rc = 0;

    (void)reterr;
    for (unsigned i = 0; i < redlock->crew.count && rc == 0; i++)
        rc = examine_one(redlock, i, visit, data, &answered);
    if (rc == 0)
        rc = examine_majority(redlock, answered, visit, data);
    return rc ? rc : examine_number(redlock, visit, data);
}
