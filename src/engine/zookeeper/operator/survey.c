/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: who holds, who waits; and breaking a hold.
 *
 * Of all locks so many are asked about at once (LOCKS_AT_ONCE) that round trips do not add up. One lock is read as a whole: its path, its
 * nodes with data and Stat, a semaphore's two directories. Then who holds is decided by the queue rule, as every contender decides it for
 * itself, and only then is anybody shown anything, without the mutex. The server is asked to catch up with its leader first.
 *
 * A break that does not insist is a change of the holder's node, as Curator's Revoker makes it: a pawl's record gets one more word, a
 * foreign node Curator's own message. Holders of ours take any change of their node for a break.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rule.h"
#include "engine/zookeeper/lock/order.h"
#include "engine/zookeeper/lock/path.h"
#include "engine/zookeeper/operator/operator.h"

#define PATIENCE_NS (10 * ZK_S)

/* Requests for the nodes of one lock, and locks, that are under way at once. */
enum { DEPTH = 8, AT_ONCE = 32, FIRST = 8, LOCKS_AT_ONCE = 128 };

static const char revoke[] = "__REVOKE__";

/* One node that holds or waits. */
struct entry {
    char *path;
    struct zk_call *asked; /* for its data; NULL: not yet, or it was answered */
    char *data;
    struct Stat stat;
    struct pawl__identity identity;
    bool foreign, holds;
    bool keeps; /* its process may keep it */
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    uint64_t token, turns;
    size_t watches; /* the entry that it waits for; its own index: none */
    char *raw;
};

struct survey {
    struct zk_session *session;
    int64_t deadline;
    struct pawl_error *reterr;
    pawl_visit_fn *visit;
    void *data;
};

struct entries {
    struct entry *list;
    size_t count, room;
};

static void entries_free(struct entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        pawl__zk_call_free(entries->list[i].asked);
        free(entries->list[i].path);
        free(entries->list[i].data);
        free(entries->list[i].raw);
    }
    free(entries->list);
    *entries = (struct entries){0};
}

static int explain(const struct survey *survey, int rc, const char *path) {
    struct pawl_error *reterr = survey->reterr;

    if (rc == ZNOAUTH)
        return pawl__fail(reterr, PAWL_EACCES, "this client may not read or change %.200s: look at its ACL and at the URL's user",
                          path);
    if (pawl__zk_reply_lost(rc))
        return pawl__fail(reterr, PAWL_ECONNLOST, "no answer from %s: look whether the servers run", survey->session->options.url);
    return pawl__fail(reterr, PAWL_EFORMAT, "%.200s: %s", path, zerror(rc));
}

/* ---- Reading one lock ----------------------------------------------------------------------------------------------------- */

/* The value of ` key=` in a record of ours; `otherwise` where it is not there. */
static uint64_t number_in(const char *data, const char *key, uint64_t otherwise) {
    const char *found = data ? strstr(data, key) : NULL;

    return found ? strtoull(found + strlen(key), NULL, 10) : otherwise;
}

static struct entry *add_entry(struct entries *entries, const char *dir, const char *child) {
    struct entry *list;

    if (entries->count == entries->room) {
        entries->room = entries->room ? entries->room * 2 : 16;
        list = realloc(entries->list, entries->room * sizeof *list);
        if (!list)
            return NULL;
        entries->list = list;
    }
    list = &entries->list[entries->count];
    *list = (struct entry){.path = pawl__zk_text("%s/%s", dir, child), .permits = 1, .limit = 1};
    if (!list->path)
        return NULL;
    entries->count++;
    return list;
}

static void take_data(struct entry *entry, struct zk_call *call) {
    entry->data = call->data;
    call->data = NULL;
    entry->stat = call->stat;
    entry->foreign = !entry->data || !pawl__record_parse(entry->data, strlen(entry->data), &entry->identity);
    entry->token = (uint64_t)entry->stat.czxid << ZK_TOKEN_BITS;
    if (!entry->foreign)
        entry->token = number_in(entry->data, " token=", entry->token);
}

/* How many nodes were ever made in a directory: its cversion counts those and the ones that went. */
static uint64_t count_turns(const struct Stat *stat) {
    return ((uint64_t)(uint32_t)stat->cversion + (uint64_t)(uint32_t)stat->numChildren) / 2;
}

/* Ask for the data of some, unless that was done. */
static void ask_entries(struct survey *survey, struct entries *entries, size_t from, size_t to) {
    for (size_t i = from; i < to && i < entries->count; i++)
        if (!entries->list[i].asked)
            entries->list[i].asked = pawl__zk_call(survey->session, ZK_CALL_GET, entries->list[i].path, NULL);
}

/* ZOK, or ZNONODE: it went; else *retrc says why it can't be read. */
static int read_entry(struct survey *survey, struct entry *entry, int *retrc) {
    int answer = pawl__zk_call_wait(survey->session, entry->asked, survey->deadline);

    if (answer == ZOK)
        take_data(entry, entry->asked);
    else if (answer != ZNONODE && *retrc == ZOK)
        *retrc = explain(survey, answer, entry->path);
    pawl__zk_call_free(entry->asked);
    entry->asked = NULL;
    return answer;
}

/* Read all nodes; those that went meanwhile are left out. */
static int read_entries(struct survey *survey, struct entries *entries) {
    size_t kept = 0;
    int rc = ZOK;

    for (size_t i = 0; i < entries->count; i++) {
        struct entry *entry = &entries->list[i];

        if (i % AT_ONCE == 0)
            ask_entries(survey, entries, i, i + AT_ONCE);
        if (read_entry(survey, entry, &rc) == ZOK) {
            if (kept++ != i) {
                entries->list[kept - 1] = *entry;
                *entry = (struct entry){.path = NULL};
            }
        } else {
            free(entry->path);
            *entry = (struct entry){.path = NULL};
        }
    }
    entries->count = kept;
    return rc;
}

static int by_number(const void *a, const void *b) {
    const struct entry *one = a, *two = b;
    int64_t first = 0, second = 0;

    pawl__zk_number(one->path, &first);
    pawl__zk_number(two->path, &second);
    return first != second ? (first < second ? -1 : 1) : (one->stat.czxid > two->stat.czxid) - (one->stat.czxid < two->stat.czxid);
}

static const char *child_of(const char *path) {
    return strrchr(path, '/') + 1;
}

/* Who holds in a queue of one directory, and who waits for whom. */
static bool apply_rule(struct entries *entries) {
    struct pawl__ticket *queue = calloc(entries->count + 1, sizeof *queue);
    size_t first, last;

    if (!queue)
        return false;
    if (entries->count)
        qsort(entries->list, entries->count, sizeof *entries->list, by_number);
    for (size_t i = 0; i < entries->count; i++)
        queue[i] = (struct pawl__ticket){entries->list[i].mode, 1};
    for (size_t i = 0; i < entries->count; i++) {
        entries->list[i].watches = i;
        entries->list[i].holds = !pawl__queue_watches(queue, i, 1, &first, &last);
        if (!entries->list[i].holds)
            entries->list[i].watches = last;
    }
    free(queue);
    return true;
}

static int no_memory(const struct survey *survey) {
    return pawl__fail(survey->reterr, PAWL_ENOMEM, "out of memory");
}

static struct zk_call *ask_list(struct survey *survey, const char *path) {
    pawl__zk_call_free(pawl__zk_call(survey->session, ZK_CALL_SYNC, path, NULL));
    return pawl__zk_call(survey->session, ZK_CALL_LIST, path, NULL);
}

/* The answer to ask_list(); no such node counts as empty. */
static int await_list(struct survey *survey, const char *path, struct zk_call *call) {
    int rc = pawl__zk_call_wait(survey->session, call, survey->deadline);

    return rc == ZOK || rc == ZNONODE ? 0 : explain(survey, rc, path);
}

/* List a directory. *ret is to be freed. */
static int list(struct survey *survey, const char *path, struct zk_call **ret) {
    struct zk_call *call = ask_list(survey, path);
    int rc = await_list(survey, path, call);

    if (rc < 0)
        pawl__zk_call_free(call);
    *ret = rc < 0 ? NULL : call;
    return rc;
}

/* The contenders among the children of a mutex or a read-write lock; not read yet. */
static int list_queue(struct survey *survey, const char *dir, const struct zk_call *listing, struct entries *ret) {
    int64_t number;

    for (int i = 0; i < listing->count; i++) {
        const char *child = listing->children[i];
        bool reads = strstr(child, pawl__zk_read_name) != NULL;
        struct entry *entry;

        if (!pawl__zk_number(child, &number) || pawl__zk_is_twin(child))
            continue;
        if (!(entry = add_entry(ret, dir, child)))
            return no_memory(survey);
        entry->turns = count_turns(&listing->stat);
        entry->kind = reads || strstr(child, pawl__zk_write_name) ? PAWL_RWLOCK : PAWL_MUTEX;
        entry->mode = reads ? PAWL_SHARED : PAWL_EXCLUSIVE;
        entry->keeps = pawl__zk_guid_limit(child) == ZK_KEEPS;
    }
    return 0;
}

static int read_listed(struct survey *survey, struct entries *ret) {
    int rc = read_entries(survey, ret);

    if (rc == 0 && !apply_rule(ret))
        rc = no_memory(survey);
    return rc;
}

static int read_queue(struct survey *survey, const char *dir, const struct zk_call *listing, struct entries *ret) {
    int rc = list_queue(survey, dir, listing, ret);

    return rc == 0 ? read_listed(survey, ret) : rc;
}

/* ---- Semaphores ----------------------------------------------------------------------------------------------------------- */

static void take_semaphore(struct entry *entry) {
    bool mutex = entry->data && strstr(entry->data, " kind=mutex");

    entry->kind = mutex ? PAWL_MUTEX : PAWL_SEMAPHORE;
    entry->mode = mutex ? PAWL_EXCLUSIVE : PAWL_PERMITS;
    entry->permits = (uint32_t)number_in(entry->foreign ? NULL : entry->data, " permits=", 1);
    entry->limit = pawl__zk_guid_limit(child_of(entry->path)); /* 0: a foreign client does not tell */
}

static bool same_guid(const char *one, const char *two) {
    return pawl__zk_guid_limit(one) && pawl__zk_guid_limit(two) && strncmp(one + 3, two + 3, ZK_GUID_SIZE - 1) == 0;
}

static bool find_guid(const struct entries *entries, const char *child) {
    for (size_t i = 0; i < entries->count; i++)
        if (same_guid(child_of(entries->list[i].path), child))
            return true;
    return false;
}

static bool lists_guid(const struct zk_call *listing, const char *child) {
    for (int i = 0; i < listing->count; i++)
        if (same_guid(listing->children[i], child))
            return true;
    return false;
}

/* One entry per claim: of the leases with one GUID the one that speaks for all. */
static void merge_leases(struct entries *leases) {
    size_t kept = 0;

    for (size_t i = 0; i < leases->count; i++) {
        struct entry entry = leases->list[i];
        bool pawls = pawl__zk_guid_limit(child_of(entry.path)) != 0;

        if (pawls && entry.foreign) { /* no record: not the first of its claim */
            free(entry.path);
            free(entry.data);
            continue;
        }
        take_semaphore(&entry);
        entry.holds = true;
        entry.watches = kept;
        leases->list[kept++] = entry;
    }
    leases->count = kept;
}

/* Add those in `locks` that have no lease yet. With more leases than permits the claim that is still in `locks` waits for room. */
static bool merge_locks(struct entries *leases, struct entries *locks, int total) {
    for (size_t i = 0; i < leases->count; i++) {
        struct entry *entry = &leases->list[i];

        if (entry->limit && (uint32_t)total > entry->limit && find_guid(locks, child_of(entry->path)))
            entry->holds = false;
    }
    for (size_t i = 0; i < locks->count; i++) {
        struct entry *entry;

        if (find_guid(leases, child_of(locks->list[i].path)))
            continue;
        if (!(entry = add_entry(leases, "", "")))
            return false;
        free(entry->path);
        *entry = locks->list[i];
        locks->list[i].path = locks->list[i].data = NULL;
        take_semaphore(entry);
        entry->holds = false;
        entry->watches = leases->count - 1;
    }
    return true;
}

static int read_directory(struct survey *survey, const char *home, const char *child, struct entries *ret, int *ret_total) {
    char *path = pawl__zk_text("%s/%s", home, child);
    struct zk_call *listing = NULL;
    struct entry *entry;
    int rc = path ? list(survey, path, &listing) : no_memory(survey);

    *ret_total = listing ? listing->count : 0;
    for (int i = 0; rc == 0 && i < listing->count; i++)
        if ((entry = add_entry(ret, path, listing->children[i])))
            entry->turns = count_turns(&listing->stat);
        else
            rc = no_memory(survey);
    if (rc == 0)
        rc = read_entries(survey, ret);
    pawl__zk_call_free(listing);
    free(path);
    return rc;
}

static int read_semaphore(struct survey *survey, const char *home, struct entries *ret) {
    struct entries locks = {0};
    int total, waiting, rc;

    /* Leases first: a client that gets one in between is then seen in `locks`, if at all, as one that waits. */
    rc = read_directory(survey, home, "leases", ret, &total);
    if (rc == 0)
        rc = read_directory(survey, home, "locks", &locks, &waiting);
    if (rc == 0) {
        if (locks.count)
            qsort(locks.list, locks.count, sizeof *locks.list, by_number);
        merge_leases(ret);
        if (!merge_locks(ret, &locks, total))
            rc = no_memory(survey);
    }
    entries_free(&locks);
    return rc;
}

static bool has_child(const struct zk_call *listing, const char *child) {
    for (int i = 0; i < listing->count; i++)
        if (strcmp(listing->children[i], child) == 0)
            return true;
    return false;
}

/* Everybody at one path, whose queue was listed. */
static int read_lock(struct survey *survey, const char *home, const struct zk_call *listing, struct entries *ret) {
    int rc = read_listed(survey, ret);

    if (rc == 0 && ret->count == 0 && (has_child(listing, "leases") || has_child(listing, "locks")))
        rc = read_semaphore(survey, home, ret);
    return rc;
}

/* ---- Showing it ----------------------------------------------------------------------------------------------------------- */

static void make_raw(struct entries *entries) {
    for (size_t i = 0; i < entries->count; i++) {
        struct entry *entry = &entries->list[i];
        bool watches = entry->watches != i;

        entry->raw = pawl__zk_text("%s session 0x%llx czxid 0x%llx%s%s", entry->path,
                                   (unsigned long long)entry->stat.ephemeralOwner, (unsigned long long)entry->stat.czxid,
                                   watches ? " watches " : "", watches ? pawl__zk_short(entries->list[entry->watches].path) : "");
    }
}

/* The GUID, where there is one: the same in all nodes of a claim. */
static const char *claim_of(const struct entry *entry, char buffer[ZK_GUID_SIZE]) {
    const char *child = child_of(entry->path);

    if (strncmp(child, "_c_", 3) != 0 || strlen(child + 3) < ZK_GUID_SIZE)
        return child;
    memcpy(buffer, child + 3, ZK_GUID_SIZE - 1);
    buffer[ZK_GUID_SIZE - 1] = '\0';
    return buffer;
}

static int show(const struct survey *survey, const char *name, const struct entry *entry, unsigned position) {
    char guid[ZK_GUID_SIZE];
    struct pawl_entry shown = {
        .name = name,
        .kind = entry->kind,
        .mode = entry->mode,
        .flags = (entry->holds ? 0 : PAWL_ENTRY_WAITER) | (entry->stat.version ? PAWL_ENTRY_BROKEN : 0) |
                 (entry->foreign ? PAWL_ENTRY_FOREIGN : 0) | (entry->keeps && entry->holds ? PAWL_ENTRY_KEEPS : 0),
        .position = position,
        .permits = entry->permits,
        .limit = entry->limit,
        .token = entry->holds ? entry->token : 0,
        .since_ms = entry->stat.ctime,
        .remaining_ms = -1,
        .raw = entry->raw ? entry->raw : "",
        .claim = claim_of(entry, guid),
        .turns = entry->turns,
    };

    pawl__record_show(&entry->identity, &shown);
    return survey->visit(&shown, survey->data);
}

static int show_all(const struct survey *survey, const char *name, struct entries *entries) {
    unsigned waiting = 0;
    int rc = 0;

    make_raw(entries);
    for (int holds = 1; holds >= 0; holds--)
        for (size_t i = 0; i < entries->count && rc == 0; i++)
            if (entries->list[i].holds == holds)
                rc = show(survey, name, &entries->list[i], holds ? 0 : ++waiting);
    return rc;
}

static int show_held(const struct survey *survey, const char *name, struct entries *entries) {
    int rc = 0;

    make_raw(entries);
    for (size_t i = 0; i < entries->count && rc == 0; i++)
        if (entries->list[i].holds)
            rc = show(survey, name, &entries->list[i], 0);
    return rc;
}

/* May the child be a lock, or a directory with locks below it? */
static bool is_named(const char *home, const char *child) {
    int64_t number;

    return !pawl__zk_number(child, &number) && strcmp(child, "leases") != 0 && strcmp(child, "locks") != 0 &&
           strcmp(child, pawl__zk_values_name) != 0 && (*home || strcmp(child, "zookeeper") != 0);
}

/* A lock that is being looked at. */
struct place {
    char *path, *name;
    struct zk_call *listing;
    struct entries entries;
};

static void place_free(struct place *place) {
    entries_free(&place->entries);
    pawl__zk_call_free(place->listing);
    free(place->path);
    free(place->name);
    *place = (struct place){.path = NULL};
}

static int survey_below(struct survey *survey, const struct place *above, int deep);

/* Its listing is here: ask for the nodes that it names. */
static int place_listed(struct survey *survey, struct place *place) {
    int rc = await_list(survey, place->path, place->listing);

    if (rc == 0 && *place->name)
        rc = list_queue(survey, place->path, place->listing, &place->entries);
    if (rc == 0)
        ask_entries(survey, &place->entries, 0, FIRST);
    return rc;
}

/* The rest of it, and with `deep` the locks below it. */
static int survey_place(struct survey *survey, struct place *place, int deep) {
    int rc = *place->name ? read_lock(survey, place->path, place->listing, &place->entries) : 0;

    if (rc == 0 && place->entries.count) {
        pawl__zk_unlock(survey->session);
        rc = show_all(survey, place->name, &place->entries);
        pawl__zk_lock();
    }
    return rc == 0 && deep > 0 ? survey_below(survey, place, deep) : rc;
}

/* Some places: what is asked about each is under way before the first answer is awaited. They are freed. */
static int survey_places(struct survey *survey, struct place *places, size_t count, int deep) {
    int rc = 0;

    for (size_t i = 0; i < count; i++)
        places[i].listing = ask_list(survey, places[i].path);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = place_listed(survey, &places[i]);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0)
            rc = survey_place(survey, &places[i], deep);
        place_free(&places[i]);
    }
    return rc;
}

static int survey_below(struct survey *survey, const struct place *above, int deep) {
    struct place places[LOCKS_AT_ONCE] = {{.path = NULL}};
    const char *home = strcmp(above->path, "/") == 0 ? "" : above->path;
    size_t count = 0;
    int rc = 0;

    for (int i = 0; rc == 0 && i < above->listing->count; i++) {
        const char *child = above->listing->children[i];

        if (!is_named(home, child))
            continue;
        places[count].path = pawl__zk_text("%s/%s", home, child);
        places[count].name = pawl__zk_text("%s%s%s", above->name, *above->name ? "/" : "", child);
        if (!places[count].path || !places[count].name)
            rc = no_memory(survey);
        if (++count == LOCKS_AT_ONCE && rc == 0) {
            rc = survey_places(survey, places, count, deep - 1);
            count = 0;
        }
    }
    if (rc == 0)
        return survey_places(survey, places, count, deep - 1);
    for (size_t i = 0; i < count; i++)
        place_free(&places[i]);
    return rc;
}

/* One lock, and with `deep` those below it. The mutex is held on entry and on return. */
static int survey_path(struct survey *survey, const char *home, const char *name, int deep) {
    struct place place = {.path = strdup(*home ? home : "/"), .name = strdup(name)};

    if (place.path && place.name)
        return survey_places(survey, &place, 1, deep);
    place_free(&place);
    return no_memory(survey);
}

int pawl__zk_survey(struct zk_session *session, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct survey survey = {
        .session = session, .deadline = pawl__boottime() + PATIENCE_NS, .reterr = reterr, .visit = visit, .data = data};
    char *home = NULL;
    int rc = 0;

    if (name && !(home = pawl__zk_home(session->options.base_path, name, reterr, &rc)))
        return rc;
    pawl__zk_lock();
    rc = survey_path(&survey, name ? home : session->options.base_path, name ? name : "", name ? 0 : DEPTH);
    pawl__zk_unlock(session);
    free(home);
    return rc;
}

/* ---- Who holds, and no more ------------------------------------------------------------------------------------------------- */

/* The one contender who holds in any case. What went since it was listed: the next one. */
static int look_at_first(struct survey *survey, const char *home, struct zk_call **listing, struct entries *ret) {
    int rc = 0;

    while (rc == 0 && ret->count == 0) {
        size_t count = (size_t)(*listing)->count, first = pawl__zk_first_of((const char *const *)(*listing)->children, count);
        struct zk_call one = **listing;

        if (first == count)
            break;
        one.children = &(*listing)->children[first];
        one.count = 1;
        rc = read_queue(survey, home, &one, ret);
        if (rc == 0 && ret->count == 0) {
            pawl__zk_call_free(*listing);
            rc = list(survey, home, listing);
        }
    }
    return rc;
}

/* Its leases; of those who wait only the names, which tell the claims that wait for room though they have leases. */
static int look_at_leases(struct survey *survey, const char *home, struct entries *ret) {
    char *path = pawl__zk_text("%s/locks", home);
    struct zk_call *locks = NULL;
    int total, rc = path ? read_directory(survey, home, "leases", ret, &total) : no_memory(survey);

    if (rc == 0)
        rc = list(survey, path, &locks);
    if (rc == 0)
        merge_leases(ret);
    for (size_t i = 0; rc == 0 && i < ret->count; i++) {
        struct entry *entry = &ret->list[i];

        if (entry->limit && (uint32_t)total > entry->limit)
            entry->holds = !lists_guid(locks, child_of(entry->path));
    }
    pawl__zk_call_free(locks);
    free(path);
    return rc;
}

int pawl__zk_look_by(struct zk_session *session, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                     struct pawl_error *reterr) {
    struct survey survey = {.session = session, .deadline = deadline, .reterr = reterr, .visit = visit, .data = data};
    struct entries entries = {0};
    struct zk_call *listing = NULL;
    int rc = 0;
    char *home = pawl__zk_home(session->options.base_path, name, reterr, &rc);

    if (!home)
        return rc;
    pawl__zk_lock();
    rc = list(&survey, home, &listing);
    if (rc == 0)
        rc = look_at_first(&survey, home, &listing, &entries);
    if (rc == 0 && entries.count == 0 && (has_child(listing, "leases") || has_child(listing, "locks")))
        rc = look_at_leases(&survey, home, &entries);
    pawl__zk_call_free(listing);
    pawl__zk_unlock(session);
    if (rc == 0)
        rc = show_held(&survey, name, &entries);
    entries_free(&entries);
    free(home);
    return rc;
}

/* ---- Breaking ------------------------------------------------------------------------------------------------------------- */

static int change(struct survey *survey, const struct entry *entry) {
    char *marked = entry->foreign ? strdup(revoke) : pawl__zk_text("%s broken=1", entry->data);
    struct zk_call *call = marked ? pawl__zk_call(survey->session, ZK_CALL_SET, entry->path, marked) : NULL;
    int rc = pawl__zk_call_wait(survey->session, call, survey->deadline);

    pawl__zk_call_free(call);
    free(marked);
    return rc;
}

/* Delete all nodes of the hold: for a semaphore, all leases with its GUID. */
static int remove_hold(struct survey *survey, const struct entry *entry) {
    char *dir = strndup(entry->path, (size_t)(child_of(entry->path) - 1 - entry->path));
    struct zk_call *listing = NULL, *call;
    int rc = dir ? list(survey, dir, &listing) : no_memory(survey);

    for (int i = 0; rc == 0 && i < listing->count; i++) {
        const char *child = listing->children[i];
        char *path;

        if (strcmp(child, child_of(entry->path)) != 0 && !same_guid(child, child_of(entry->path)))
            continue;
        path = pawl__zk_text("%s/%s", dir, child);
        call = path ? pawl__zk_call(survey->session, ZK_CALL_DELETE, path, NULL) : NULL;
        rc = pawl__zk_call_wait(survey->session, call, survey->deadline);
        rc = rc == ZNONODE ? ZOK : rc;
        pawl__zk_call_free(call);
        free(path);
    }
    pawl__zk_call_free(listing);
    free(dir);
    return rc;
}

static const struct entry *find_token(const struct entries *entries, uint64_t token) {
    for (size_t i = 0; i < entries->count; i++)
        if (entries->list[i].holds && entries->list[i].token >> ZK_TOKEN_BITS == token >> ZK_TOKEN_BITS)
            return &entries->list[i];
    return NULL;
}

/* All who hold or wait, as they are now. */
static int look_at_all(struct survey *survey, const char *home, struct entries *ret) {
    struct zk_call *listing;
    int rc = list(survey, home, &listing);

    if (rc < 0)
        return rc;
    rc = list_queue(survey, home, listing, ret);
    if (rc == 0)
        rc = read_lock(survey, home, listing, ret);
    pawl__zk_call_free(listing);
    return rc;
}

/* Marked first in any case: so that the holder hears of it before the next one is let in. ZNONODE: its node is gone. */
static int break_entry(struct survey *survey, const struct entry *entry, bool now) {
    int answer = change(survey, entry), removed = ZOK;

    if (now && (answer == ZOK || answer == ZNONODE))
        removed = remove_hold(survey, entry);
    return removed == ZOK ? answer : removed;
}

/* A node that is gone is what was asked for; but a writer that has become a reader has the same hold by another node. So it is looked for
 * once more: that happens to a hold once at most. */
static int break_token(struct survey *survey, const char *home, const char *name, uint64_t token, bool now) {
    bool found = false, again = true;
    int rc = 0;

    while (rc == 0 && again) {
        struct entries entries = {0};
        const struct entry *entry;

        rc = look_at_all(survey, home, &entries);
        entry = rc == 0 ? find_token(&entries, token) : NULL;
        int answer = entry ? break_entry(survey, entry, now) : ZOK;

        if (answer != ZOK && answer != ZNONODE)
            rc = explain(survey, answer, entry->path);
        found = found || entry;
        again = answer == ZNONODE;
        entries_free(&entries);
    }
    if (rc == 0 && !found)
        rc = pawl__fail(survey->reterr, PAWL_ETOKEN, "no hold of '%s' has the token %llu: look at who holds it now", name,
                        (unsigned long long)token);
    return rc;
}

int pawl__zk_break(struct zk_session *session, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct survey survey = {.session = session, .deadline = pawl__boottime() + PATIENCE_NS, .reterr = reterr};
    int rc = 0;
    char *home = pawl__zk_home(session->options.base_path, name, reterr, &rc);

    if (!home)
        return rc;
    pawl__zk_lock();
    rc = break_token(&survey, home, name, token, now);
    pawl__zk_unlock(session);
    free(home);
    return rc;
}
