/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: what the servers together say of a lock; breaking a hold; and a look at all servers.
 *
 * Each server is asked, and what they say is put together: entries are the same if they have the same client and token, of those that
 * wait the same client and moment, of foreign programs the same value. Who is on a majority of the servers holds; who is on fewer wants to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redlock/redlock.h"
#include "engine/redis/view/view.h"
#include "base/error.h"

#define CALL_NS (5000 * REDLOCK_MS)
enum { ENTRIES_MAX = 100000, CLIENT_BYTES = 36 };

/* An entry, and how many servers have it. */
struct sighting {
    struct pawl_entry entry;
    char *name, *host, *command, *label, *raw, *agent, *around;
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
    to->entry.agent = to->agent = strdup(entry->agent);
    to->entry.around = to->around = strdup(entry->around);
    to->entry.raw = to->raw = strdup(entry->raw);
    return to->name && to->host && to->command && to->label && to->raw && to->agent && to->around;
}

static void free_sighting(struct sighting *sighting) {
    free(sighting->name);
    free(sighting->host);
    free(sighting->command);
    free(sighting->label);
    free(sighting->raw);
    free(sighting->agent);
    free(sighting->around);
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
        bigger = all->count < 2 * ENTRIES_MAX ? realloc(all->list, (all->size * 2 + 16) * sizeof *bigger) : NULL;
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
    all->failed |= all->count > ENTRIES_MAX;
}

static bool usable(struct redlock *redlock, unsigned voter) {
    bool usable;

    pawl__kit_lock(&redlock->wire.kit);
    pawl__voters_listen(redlock, pawl__boottime());
    usable = pawl__voter_usable(redlock, voter);
    pawl__kit_unlock(&redlock->wire.kit);
    return usable;
}

/* ---- Asking one server ------------------------------------------------------------------------------------------------------ */

/* Wait until it is answered, reading meanwhile if nobody else does. */
static bool await(struct redlock *redlock, const struct redlock_call *call, int64_t deadline) {
    struct kit *kit = &redlock->wire.kit;
    bool reads = false;

    while (!call->done && pawl__boottime() < deadline) {
        if (!reads)
            reads = pawl__kit_take_reading(kit, &redlock->reader);
        if (reads) {
            kit->ops->read(kit, &redlock->reader, NULL, deadline);
        } else {
            pawl__redlock_events_take(redlock);
            pawl__wait_until(&redlock->called, &kit->mutex, deadline);
        }
    }
    if (reads)
        pawl__kit_pass_reading(kit, &redlock->reader);
    return call->done;
}

static redisReply *call_once(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                             struct pawl_error *reterr) {
    struct redlock *redlock = (struct redlock *)server->redis;
    struct redlock_call *call = calloc(1, sizeof *call);
    struct request request = {.data = call, .script = -1};
    redisReply *reply = NULL;
    bool ok;

    if (!call) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    pawl__kit_lock(&redlock->wire.kit);
    ok = server->commands.state == LINK_UP && (script < 0 ? pawl__link_say(&server->commands, argc, argv, &request)
                                                          : pawl__script_send(server, script, keys, argc, argv, lengths, &request));
    if (ok && await(redlock, call, pawl__boottime() + CALL_NS))
        reply = call->reply;
    if (!reply)
        pawl__fail(reterr, PAWL_ECONNLOST, "%s",
                   server->commands.why.code ? pawl__server_errortext(server) : "the server does not answer");
    if (ok && !call->done)
        call->abandoned = true;
    else
        free(call);
    pawl__kit_unlock(&redlock->wire.kit);
    return reply;
}

redisReply *pawl__redlock_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                               struct pawl_error *reterr) {
    for (;;) {
        redisReply *reply = call_once(server, script, keys, argc, argv, lengths, reterr);
        enum reply_class class = reply ? pawl__reply_class(reply, reterr) : REPLY_OK;

        if (class == REPLY_OK)
            return reply;
        freeReplyObject(reply);
        if (class != REPLY_NOSCRIPT)
            return NULL;
    }
}

/* What scripts are sent about one lock. `holds`: what the hold keys of a read-write lock would begin with. */
struct view_call {
    struct voter_keys keys;
    char rest[REDIS_KEY_MAX], floor[24], holds[REDIS_KEY_MAX];
    const char *argv[VIEW_ARGS];
};

static void fill_keys(const struct redlock *redlock, const char *name, struct view_call *ret) {
    const char *lock = ret->keys.lock;
    bool bare;

    pawl__voter_keys(redlock, name, &ret->keys);
    bare = strchr(lock, '{');
    strcpy(stpcpy(stpcpy(ret->holds, bare ? "" : "{"), lock), bare ? ":" : "}:");
}

/* Keys and arguments of scripts that begin with common.lua. */
static void fill_break(const struct redlock *redlock, const char *name, struct view_call *ret) {
    fill_keys(redlock, name, ret);
    strcpy(pawl__put_number(ret->rest, (uint64_t)(redlock->wire.options.claim_ns / REDLOCK_MS)), "\npawl:inbox:\n\n\n");
    pawl__put_number(ret->floor, REDIS_TOKEN_MAX);
    memcpy(
        ret->argv,
        (const char *[]){ret->keys.lock, ret->keys.ballot, ret->keys.wait, ret->keys.ballot, "", ret->rest, ret->floor, ret->holds},
        sizeof ret->argv);
}

static void *fill_look(const struct redis *wire, const char *name, const char *argv[LOOK_KEYS]) {
    struct voter_keys *keys = malloc(sizeof *keys);

    if (!keys)
        return NULL;
    pawl__voter_keys((const struct redlock *)wire, name, keys);
    memcpy(argv, (const char *[]){keys->lock, keys->ballot, keys->wait, keys->ballot}, LOOK_KEYS * sizeof *argv);
    return keys;
}

static int look_at(struct server *server, const char *name, struct lock_view *ret, redisReply **retreply,
                   struct pawl_error *reterr) {
    char *const names[] = {(char *)name};
    int rc = pawl__look(server, names, 1, false, fill_look, retreply, reterr);

    if (rc == 0)
        pawl__view_take(server->redis, name, (*retreply)->element[0], ret);
    return rc;
}

static int survey_one(struct server *server, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct lock_view view;
    redisReply *reply;
    int rc = look_at(server, name, &view, &reply, reterr);

    if (rc < 0)
        return rc;
    rc = pawl__view_show(&view, visit, data, reterr);
    freeReplyObject(reply);
    return rc;
}

static int survey_server(struct server *server, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    static const struct lock_finder finder = {.prefixes = {"pawl:wait", "pawl:wait"}, .counter = "pawl:vote", .fill = fill_look};
    struct named_locks named_locks = {0};
    int rc;

    if (name)
        return survey_one(server, name, visit, data, reterr);
    rc = pawl__named_locks_find(server, &finder, &named_locks, reterr);
    if (rc == 0)
        rc = pawl__named_locks_show(server->redis, &named_locks, visit, data, reterr);
    pawl__named_locks_free(&named_locks);
    return rc;
}

static int break_at(struct server *server, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct view_call call;
    struct lock_view view;
    redisReply *reply;
    int rc = look_at(server, name, &view, &reply, reterr);

    if (rc < 0)
        return rc;
    fill_break((struct redlock *)server->redis, name, &call);
    rc = pawl__view_break(&view, server, SCRIPT_BREAK, call.argv, token, now, reterr);
    freeReplyObject(reply);
    return rc;
}

/* ---- All of them ------------------------------------------------------------------------------------------------------------ */

/* Ask all that can be asked. A majority must answer: else what one sees says little about who holds. */
static int look(struct redlock *redlock, const char *name, struct sightings *ret, struct pawl_error *reterr) {
    struct pawl_error why = {.code = 0};
    unsigned answered = 0;

    for (unsigned i = 0; i < redlock->count && !ret->failed; i++) {
        if (usable(redlock, i) && survey_server(&redlock->voters[i]->server, name, collect, ret, &why) >= 0)
            answered++;
        if (!ret->failed)
            merge_all(ret);
    }
    if (ret->failed)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory, or more locks than can be listed: ask for one by its name");
    if (answered < redlock->quorum)
        return pawl__fail(reterr, PAWL_ECONNLOST, "%u of the %u servers of %.200s answered, and %u are needed%s%.200s", answered,
                          redlock->count, redlock->wire.url, redlock->quorum, why.code ? ": " : "", why.code ? why.text : "");
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
    char raw[1200], claim[CLIENT_BYTES + 24];
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
        snprintf(raw, sizeof raw, "%.1100s on %u of %u servers", all->list[i].raw, all->list[i].servers, redlock->count);
        entry->raw = raw;
        /* Each of its votes has an owner's name of its own. */
        snprintf(claim, sizeof claim, "%.*s:%" PRIu64, CLIENT_BYTES, all->list[i].raw, number_of(entry));
        entry->claim = claim;
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

    for (unsigned i = 0; i < redlock->count; i++) {
        if (!usable(redlock, i))
            continue;
        if (break_at(&redlock->voters[i]->server, name, token, now, &one) >= 0)
            done++;
        else if (!why.code || one.code != PAWL_ETOKEN) /* servers that never had it say less than one that failed */
            why = one;
    }
    if (done)
        return 0;
    if (!why.code)
        return pawl__fail(reterr, PAWL_ECONNLOST, "no server of %.200s can be reached", redlock->wire.url);
    return pawl__fail(reterr, why.code, "%s", why.text);
}

/* ---- The doctor ----------------------------------------------------------------------------------------------------------- */

struct place {
    const char *where;
    pawl_finding_fn *visit;
    void *data;
};

static int with_place(const struct pawl_finding *finding, void *data) {
    const struct place *place = data;
    struct pawl_finding own = *finding;
    char what[700];

    snprintf(what, sizeof what, "%s: %s", place->where, finding->what);
    own.what = what;
    return place->visit(&own, place->data);
}

static int tell(pawl_finding_fn *visit, void *data, enum pawl_severity severity, const char *what, const char *advice) {
    const struct pawl_finding finding = {.severity = severity, .what = what, .advice = advice};

    return visit(&finding, data);
}

static int examine_majority(const struct redlock *redlock, unsigned answered, pawl_finding_fn *visit, void *data) {
    unsigned spare = answered < redlock->quorum ? 0 : answered - redlock->quorum;
    char what[200];

    snprintf(what, sizeof what, "%u of %u servers answer; %u are needed, so %u more may fail", answered, redlock->count,
             redlock->quorum, spare);
    if (answered == redlock->count)
        return tell(visit, data, PAWL_FINDING_GOOD, what, "");
    return tell(visit, data, PAWL_FINDING_WARNING, what, "bring the others back");
}

static int examine_number(const struct redlock *redlock, pawl_finding_fn *visit, void *data) {
    char what[200], advice[100];

    if (redlock->count % 2)
        return 0;
    snprintf(what, sizeof what, "the URL names %u servers: of an even number no more may fail than of one less", redlock->count);
    snprintf(advice, sizeof advice, "name %u or %u", redlock->count - 1, redlock->count + 1);
    return tell(visit, data, PAWL_FINDING_WARNING, what, advice);
}

static int examine_one(struct redlock *redlock, unsigned voter, pawl_finding_fn *visit, void *data, unsigned *answered) {
    struct place place = {.where = redlock->voters[voter]->where, .visit = visit, .data = data};
    struct examination exam = {.server = &redlock->voters[voter]->server, .exam = {.visit = with_place, .data = &place}};
    struct pawl_error why = {.code = 0};
    int rc = PAWL_ECONNLOST;
    char what[700];

    if (usable(redlock, voter))
        rc = pawl__examine_server(&exam, &why);
    if (rc == 0)
        pawl__examine_clocks(&exam);
    if (rc >= 0) {
        *answered += 1;
        return exam.exam.rc;
    }
    snprintf(what, sizeof what, "%s does not answer%s%s", place.where, why.code ? ": " : "", why.code ? why.text : "");
    return tell(visit, data, PAWL_FINDING_WARNING, what, "bring it back: a hold needs a majority of the servers");
}

int pawl__redlock_examine(struct pawl__engine *engine, pawl_finding_fn *visit, void *data, struct pawl_error *reterr) {
    struct redlock *redlock = redlock_of(engine);
    unsigned answered = 0;
    int rc = 0;

    (void)reterr;
    for (unsigned i = 0; i < redlock->count && rc == 0; i++)
        rc = examine_one(redlock, i, visit, data, &answered);
    if (rc == 0)
        rc = examine_majority(redlock, answered, visit, data);
    return rc ? rc : examine_number(redlock, visit, data);
}
