/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - all locks of a server: found by one SCAN for records, queues and counters of tokens.
 *
 * The counters are those of all locks that ever were. So what has one is looked at page by page, and kept if it is held; what has a record
 * or a queue is looked at in the end, unless it was seen by then. All are kept until they are shown, since that is by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/name.h"
#include "engine/redis/view/view.h"

enum { SCAN_ROUNDS = 20000, NAMES_MAX = 100000, PATTERN_MAX = 256 };

const char *pawl__names_of_key(const struct redis *redis, const char *key, size_t length, const char *prefix,
                               char buffer[REDIS_KEY_MAX]) {
    size_t skip = strlen(prefix), own = strlen(redis->options.prefix);

    if (length <= skip + 1 || length - skip >= REDIS_KEY_MAX || memcmp(key, prefix, skip) != 0 || key[skip] != ':')
        return NULL;
    key += skip + 1;
    length -= skip + 1;
    if (memchr(key, '\0', length))
        return NULL;
    memcpy(buffer, key, length);
    buffer[length] = '\0';
    /* `{name}` with no further brace is ours to take off; other braces are the name's own. */
    if (buffer[0] == '{' && buffer[length - 1] == '}' && !strchr(buffer + 1, '{')) {
        buffer[length - 1] = '\0';
        memmove(buffer, buffer + 1, length - 1);
    }
    if (strncmp(buffer, redis->options.prefix, own) != 0)
        return NULL;
    return buffer + own;
}

static bool make_room(struct named_locks *named_locks) {
    size_t size = named_locks->size * 2 + 64;
    struct named_lock *bigger = named_locks->count < named_locks->size ? named_locks->list
                                                                       : realloc(named_locks->list, size * sizeof *bigger);

    if (!bigger)
        return false;
    if (named_locks->count == named_locks->size)
        named_locks->size = size;
    named_locks->list = bigger;
    return true;
}

/* Add one; the reply is kept with it, or freed. */
static int add_named_lock(struct named_locks *named_locks, const char *name, redisReply *reply, struct pawl_error *reterr) {
    char *copy = strdup(name);

    if (copy && named_locks->count < NAMES_MAX && make_room(named_locks)) {
        named_locks->list[named_locks->count++] = (struct named_lock){copy, reply};
        return 0;
    }
    free(copy);
    freeReplyObject(reply);
    return named_locks->count < NAMES_MAX
               ? pawl__fail(reterr, PAWL_ENOMEM, "out of memory")
               : pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
}

/* By name, and of one name first what was seen. */
static int compare_named_locks(const void *a, const void *b) {
    const struct named_lock *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : !x->reply - !y->reply;
}

static void free_named_lock(struct named_lock *named_lock) {
    free(named_lock->name);
    freeReplyObject(named_lock->reply);
}

/* Sort those from `first` on, each once. */
static void sort_named_locks(struct named_locks *named_locks, size_t first) {
    size_t kept = first;

    if (named_locks->count > first)
        qsort(named_locks->list + first, named_locks->count - first, sizeof *named_locks->list, compare_named_locks);
    for (size_t i = first; i < named_locks->count; i++)
        if (kept > first && strcmp(named_locks->list[i].name, named_locks->list[kept - 1].name) == 0)
            free_named_lock(&named_locks->list[i]);
        else
            named_locks->list[kept++] = named_locks->list[i];
    named_locks->count = kept;
}

void pawl__named_locks_free(struct named_locks *named_locks) {
    for (size_t i = 0; i < named_locks->count; i++)
        free_named_lock(&named_locks->list[i]);
    free(named_locks->list);
}

/* ---- Looking at those that were found ------------------------------------------------------------------------------------- */

/* The answer about one lock, which is not freed with the others. */
static redisReply *take_out(redisReply *reply, size_t which) {
    redisReply *one = reply->element[which];

    reply->element[which] = NULL;
    return one;
}

/* Of those that have a counter, add what is held. */
static int look_at_found(struct server *server, const struct lock_finder *finder, const struct named_locks *found,
                         struct named_locks *named_locks, struct pawl_error *reterr) {
    size_t batch = pawl__script_locks(server->redis, LOOK_MAX), count;
    char *names[LOOK_MAX];
    redisReply *reply;
    int rc = 0;

    for (size_t first = 0; first < found->count && rc == 0; first += count) {
        for (count = 0; count < batch && first + count < found->count; count++)
            names[count] = found->list[first + count].name;
        rc = pawl__look(server, names, count, true, finder->fill, &reply, reterr);
        if (rc < 0)
            break;
        for (size_t i = 0; i < count && rc == 0; i++)
            if (reply->element[i]->type == REDIS_REPLY_ARRAY)
                rc = add_named_lock(named_locks, names[i], take_out(reply, i), reterr);
        freeReplyObject(reply);
    }
    return rc;
}

/* Look at those from `first` on that were not seen yet. */
static int look_at_rest(struct server *server, const struct lock_finder *finder, struct named_locks *named_locks, size_t first,
                        struct pawl_error *reterr) {
    struct named_lock *rest[LOOK_MAX];
    size_t batch = pawl__script_locks(server->redis, LOOK_MAX), count;
    char *names[LOOK_MAX];
    redisReply *reply;
    int rc = 0;

    while (first < named_locks->count && rc == 0) {
        for (count = 0; first < named_locks->count && count < batch; first++)
            if (!named_locks->list[first].reply) {
                rest[count] = &named_locks->list[first];
                names[count++] = named_locks->list[first].name;
            }
        if (count == 0 || (rc = pawl__look(server, names, count, false, finder->fill, &reply, reterr)) < 0)
            break;
        for (size_t i = 0; i < count; i++)
            rest[i]->reply = take_out(reply, i);
        freeReplyObject(reply);
    }
    return rc;
}

/* ---- Finding them --------------------------------------------------------------------------------------------------------- */

/* Add the name that the key has behind this prefix. */
static int add_key(const struct redis *redis, const redisReply *key, const char *prefix, struct named_locks *named_locks,
                   struct pawl_error *reterr) {
    char buffer[REDIS_KEY_MAX];
    const char *name = pawl__names_of_key(redis, key->str, key->len, prefix, buffer);

    /* Other programs may have keys that look like ours: what can't be a name of a lock is none, and must reach no terminal. */
    return name && pawl__name_check(name, NULL) == 0 ? add_named_lock(named_locks, name, NULL, reterr) : 0;
}

/* Take the names out of one answer to SCAN. */
static int read_page(struct server *server, const redisReply *keys, const struct lock_finder *finder,
                     struct named_locks *named_locks, struct pawl_error *reterr) {
    const struct redis *redis = server->redis;
    struct named_locks found = {0};
    int rc = 0;

    for (size_t i = 0; i < keys->elements && rc == 0; i++) {
        const redisReply *key = keys->element[i];

        if (key->type == REDIS_REPLY_STRING && (rc = add_key(redis, key, finder->prefixes[0], named_locks, reterr)) == 0 &&
            (rc = add_key(redis, key, finder->prefixes[1], named_locks, reterr)) == 0 && finder->counter)
            rc = add_key(redis, key, finder->counter, &found, reterr);
    }
    if (rc == 0)
        rc = look_at_found(server, finder, &found, named_locks, reterr);
    pawl__named_locks_free(&found);
    return rc;
}

/* One pattern for all prefixes, since each SCAN goes through all keys of the server: in each place any of the characters that they have
 * there, as far as the shortest goes. It may find a few keys of others. */
static void make_pattern(const struct lock_finder *finder, char ret[PATTERN_MAX]) {
    const char *first = finder->prefixes[0], *second = finder->prefixes[1], *third = finder->counter ? finder->counter : first;
    char *to = ret;

    for (size_t i = 0; first[i] && second[i] && third[i] && to < ret + PATTERN_MAX - 8; i++)
        to += sprintf(to, "[%c%c%c]", first[i], second[i], third[i]);
    strcpy(to, "*");
}

static int scan(struct server *server, const struct lock_finder *finder, struct named_locks *named_locks,
                struct pawl_error *reterr) {
    char cursor[24] = "0", match[PATTERN_MAX];
    int rc = 0;

    make_pattern(finder, match);
    for (int round = 0; round < SCAN_ROUNDS; round++) {
        const char *argv[] = {"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
        redisReply *reply = server->redis->call(server, -1, 0, 6, argv, NULL, reterr);

        if (!reply)
            return reterr->code;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            rc = read_page(server, reply->element[1], finder, named_locks, reterr);
        } else {
            rc = pawl__fail(reterr, PAWL_EFORMAT,
                            "the server's answer to SCAN is of no known form: check that the URL names a Redis server itself");
        }
        freeReplyObject(reply);
        if (rc < 0 || strcmp(cursor, "0") == 0)
            return rc;
    }
    return pawl__fail(reterr, PAWL_EFULL, "the server has too many keys to look through: ask for a lock by its name");
}

int pawl__named_locks_find(struct server *server, const struct lock_finder *finder, struct named_locks *named_locks,
                           struct pawl_error *reterr) {
    size_t first = named_locks->count;
    int rc = scan(server, finder, named_locks, reterr);

    sort_named_locks(named_locks, first);
    return rc < 0 ? rc : look_at_rest(server, finder, named_locks, first, reterr);
}

int pawl__named_locks_show(const struct redis *redis, struct named_locks *named_locks, pawl_visit_fn *visit, void *data,
                           struct pawl_error *reterr) {
    struct lock_view view;
    int rc = 0;

    sort_named_locks(named_locks, 0);
    for (size_t i = 0; i < named_locks->count && rc == 0; i++) {
        pawl__view_take(redis, named_locks->list[i].name, named_locks->list[i].reply, &view);
        rc = pawl__view_show(&view, visit, data, reterr);
        if (rc == PAWL_EKIND) /* it does not keep the others from being shown */
            rc = 0;
    }
    return rc;
}
