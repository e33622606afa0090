/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: showing who holds a lock and who waits for it; and finding all locks.
 *
 * All locks are found by SCAN for records, queues and counters of tokens; so what only foreign programs hold is shown when it is asked
 * for by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"
#include "engine/redis/operator/sight.h"

enum { SCAN_ROUNDS = 20000, NAMES_MOST = 100000, HELD_BATCH = 100 };

/* ---- Showing it ----------------------------------------------------------------------------------------------------------- */

struct showing {
    pawl_visit_fn *visit;
    void *data;
};

static void printable(char *to, size_t size, const char *from, size_t length) {
    size_t used = 0;

    for (size_t i = 0; i < length && used + 4 < size; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c < ' ' || c >= 0x7f)
            used += (size_t)snprintf(to + used, size - used, "\\x%02x", c);
        else
            to[used++] = (char)c;
    }
    to[used] = '\0';
}

static int show_holder(const struct sight *sight, const struct holder *holder, void *data) {
    const struct showing *showing = data;
    char owner[300], raw[400];
    struct pawl_entry entry = {
        .name = sight->name,
        .kind = sight->kind,
        .mode = holder->mode,
        .flags = (holder->facts.known ? 0 : PAWL_ENTRY_FOREIGN) | (holder->broken ? PAWL_ENTRY_BROKEN : 0),
        .permits = holder->permits,
        .limit = sight->limit,
        .token = holder->token,
        .host = holder->facts.identity.host,
        .pid = holder->facts.identity.pid,
        .command = holder->facts.identity.command,
        .label = holder->facts.identity.label,
        .since_ms = holder->facts.since_ms,
        .remaining_ms = holder->left_ms == -1 ? PAWL_FOREVER : holder->left_ms,
        .raw = raw,
    };

    printable(owner, sizeof owner, holder->owner, holder->length);
    if (holder->count[0])
        snprintf(raw, sizeof raw, "%s = %s", owner, holder->count);
    else
        snprintf(raw, sizeof raw, "%s", owner);
    return showing->visit(&entry, showing->data);
}

static int show_waiters(const struct sight *sight, const struct showing *showing) {
    const redisReply *queue = sight_part(sight, AT_QUEUE);
    unsigned position = 0;
    int rc = 0;

    for (size_t i = 0; i < queue->elements && rc == 0; i++) {
        const redisReply *owner = queue->element[i];
        struct facts facts;
        struct pawl_entry entry;

        pawl__sight_waiter(owner, &facts);
        if (!facts.known)
            continue;
        entry = (struct pawl_entry){
            .name = sight->name,
            .kind = sight->kind,
            .mode = facts.mode == 's'   ? PAWL_SHARED
                    : facts.mode == 'p' ? PAWL_PERMITS
                                        : PAWL_EXCLUSIVE,
            .flags = PAWL_ENTRY_WAITER,
            .position = ++position,
            .permits = facts.permits,
            .limit = sight->limit,
            .host = facts.identity.host,
            .pid = facts.identity.pid,
            .command = facts.identity.command,
            .label = facts.identity.label,
            .since_ms = facts.since_ms,
            .remaining_ms = -1,
            .raw = owner->str,
        };
        rc = showing->visit(&entry, showing->data);
    }
    return rc;
}

/* Is there something under the lock's name that no lock is made of? */
static bool is_no_lock(const struct sight *sight) {
    const char *type = sight_part(sight, AT_TYPE)->str;

    return strcmp(type, "none") != 0 && strcmp(type, "hash") != 0 && strcmp(type, "string") != 0;
}

static int survey_one(struct redis *redis, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct showing showing = {visit, data};
    struct sight sight;
    int rc = pawl__sight_look(redis, name, &sight, reterr);

    if (rc < 0)
        return rc;
    if (is_no_lock(&sight))
        rc = pawl__fail(reterr, PAWL_EKIND, "the key of '%s' holds a %s, which is no lock", name, sight_part(&sight, AT_TYPE)->str);
    else
        rc = pawl__sight_holders(&sight, show_holder, &showing);
    if (rc == 0)
        rc = show_waiters(&sight, &showing);
    freeReplyObject(sight.reply);
    return rc;
}

/* ---- All locks ------------------------------------------------------------------------------------------------------------ */

struct names {
    char **list;
    size_t count, size;
};

static bool add_name(struct names *names, const char *name) {
    if (names->count == names->size) {
        char **bigger = realloc(names->list, (names->size * 2 + 64) * sizeof *bigger);

        if (!bigger)
            return false;
        names->list = bigger;
        names->size = names->size * 2 + 64;
    }
    names->list[names->count] = strdup(name);
    return names->list[names->count] && ++names->count <= NAMES_MOST;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

/* Take the names out of one answer to SCAN. */
static int read_page(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                     struct pawl_error *reterr) {
    char buffer[REDIS_KEY_MAX];

    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        const char *name = pawl__redis_name_of(server->redis, key->str, key->len, prefix, buffer);

        if (name && *name && !add_name(names, name))
            return pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    }
    return 0;
}

typedef int page_fn(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                    struct pawl_error *reterr);

static int scan(struct server *server, const char *prefix, page_fn *page, struct names *names, struct pawl_error *reterr) {
    char cursor[24] = "0", match[64];
    int rc = 0;

    snprintf(match, sizeof match, "%s:*", prefix);
    for (int round = 0; round < SCAN_ROUNDS; round++) {
        const char *argv[] = {"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
        redisReply *reply = pawl__server_call(server, -1, 0, 6, argv, NULL, reterr);

        if (!reply)
            return reterr ? reterr->code : PAWL_ECONNLOST;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            rc = page(server, reply->element[1], prefix, names, reterr);
        } else {
            rc = pawl__fail(reterr, PAWL_EFORMAT, "the server's answer to SCAN makes no sense");
        }
        freeReplyObject(reply);
        if (rc < 0 || strcmp(cursor, "0") == 0)
            return rc;
    }
    return pawl__fail(reterr, PAWL_EFULL, "the server has too many keys to look through: ask for a lock by its name");
}

/* Add those of `used` that are held, `count` of them in one script. */
static int add_held(struct server *server, char *const *used, size_t count, struct names *names, struct pawl_error *reterr) {
    char keys[HELD_BATCH][REDIS_KEY_MAX];
    const char *argv[HELD_BATCH];
    redisReply *reply;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        strcpy(stpcpy(keys[i], server->redis->options.prefix), used[i]);
        argv[i] = keys[i];
    }
    reply = pawl__server_call(server, SCRIPT_HELD, 0, (int)count, argv, NULL, reterr);
    if (!reply)
        return reterr ? reterr->code : PAWL_ECONNLOST;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (pawl__reply_number(reply, i, 0) == 1 && !add_name(names, used[i]))
            rc = pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    freeReplyObject(reply);
    return rc;
}

/* The counters of tokens are those of all locks that ever were: only what is held is of interest. */
static int read_tokens(struct server *server, const redisReply *keys, const char *prefix, struct names *names,
                       struct pawl_error *reterr) {
    size_t batch = in_cluster(server->redis) ? 1 : HELD_BATCH; /* there, a script is of one slot */
    struct names used = {0};
    int rc = read_page(server, keys, prefix, &used, reterr);

    for (size_t i = 0; i < used.count && rc == 0; i += batch)
        rc = add_held(server, used.list + i, used.count - i < batch ? used.count - i : batch, names, reterr);
    free_names(&used);
    return rc;
}

static int scan_all(struct redis *redis, struct names *names, struct pawl_error *reterr) {
    struct server *server = NULL;
    int rc = 0;

    while (rc == 0 && (server = pawl__server_next(redis, server))) {
        rc = scan(server, pawl__redis_queue_prefix(redis), read_page, names, reterr);
        if (rc == 0 && !is_voter(redis))
            rc = scan(server, "pawl:who", read_page, names, reterr);
        if (rc == 0 && redis->options.layout != LAYOUT_PLAIN)
            rc = scan(server, pawl__redis_token_prefix(redis), read_tokens, names, reterr);
    }
    return rc;
}

int pawl__redis_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct pawl_error local;
    struct names names = {0};
    int rc;

    reterr = reterr ? reterr : &local;
    if (name)
        return survey_one(redis, name, visit, data, reterr);
    rc = scan_all(redis, &names, reterr);
    if (names.count)
        qsort(names.list, names.count, sizeof *names.list, compare_names);
    for (size_t i = 0; i < names.count && rc == 0; i++)
        if (i == 0 || strcmp(names.list[i], names.list[i - 1]) != 0) {
            rc = survey_one(redis, names.list[i], visit, data, reterr);
            rc = rc == PAWL_EKIND ? 0 : rc; /* it does not keep the others from being shown */
        }
    free_names(&names);
    return rc;
}
