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

static bool make_room(struct spots *spots) {
    size_t size = spots->size * 2 + 64;
    struct spot *bigger = spots->count < spots->size ? spots->list : realloc(spots->list, size * sizeof *bigger);

    if (!bigger)
        return false;
    if (spots->count == spots->size)
        spots->size = size;
    spots->list = bigger;
    return true;
}

/* Add one; the reply is kept with it, or freed. */
static int add_spot(struct spots *spots, const char *name, redisReply *reply, struct pawl_error *reterr) {
    char *copy = strdup(name);

    if (copy && spots->count < NAMES_MAX && make_room(spots)) {
        spots->list[spots->count++] = (struct spot){copy, reply};
        return 0;
    }
    free(copy);
    freeReplyObject(reply);
    return spots->count < NAMES_MAX
               ? pawl__fail(reterr, PAWL_ENOMEM, "out of memory")
               : pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
}

/* By name, and of one name first what was seen. */
static int compare_spots(const void *a, const void *b) {
    const struct spot *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : !x->reply - !y->reply;
}

static void free_spot(struct spot *spot) {
    free(spot->name);
    freeReplyObject(spot->reply);
}

/* Sort those from `first` on, each once. */
static void sort_spots(struct spots *spots, size_t first) {
    size_t kept = first;

    if (spots->count > first)
        qsort(spots->list + first, spots->count - first, sizeof *spots->list, compare_spots);
    for (size_t i = first; i < spots->count; i++)
        if (kept > first && strcmp(spots->list[i].name, spots->list[kept - 1].name) == 0)
            free_spot(&spots->list[i]);
        else
            spots->list[kept++] = spots->list[i];
    spots->count = kept;
}

void pawl__spots_free(struct spots *spots) {
    for (size_t i = 0; i < spots->count; i++)
        free_spot(&spots->list[i]);
    free(spots->list);
}

/* ---- Looking at those that were found ------------------------------------------------------------------------------------- */

/* The answer about one lock, which is not freed with the others. */
static redisReply *take_out(redisReply *reply, size_t which) {
    redisReply *one = reply->element[which];

    reply->element[which] = NULL;
    return one;
}

/* Of those that have a counter, add what is held. */
static int look_at_found(struct server *server, const struct tracks *tracks, const struct spots *found, struct spots *spots,
                         struct pawl_error *reterr) {
    size_t batch = pawl__script_locks(server->redis, LOOK_MAX), count;
    char *names[LOOK_MAX];
    redisReply *reply;
    int rc = 0;

    for (size_t first = 0; first < found->count && rc == 0; first += count) {
        for (count = 0; count < batch && first + count < found->count; count++)
            names[count] = found->list[first + count].name;
        rc = pawl__look(server, names, count, true, tracks->fill, &reply, reterr);
        if (rc < 0)
            break;
        for (size_t i = 0; i < count && rc == 0; i++)
            if (reply->element[i]->type == REDIS_REPLY_ARRAY)
                rc = add_spot(spots, names[i], take_out(reply, i), reterr);
        freeReplyObject(reply);
    }
    return rc;
}

/* Look at those from `first` on that were not seen yet. */
static int look_at_rest(struct server *server, const struct tracks *tracks, struct spots *spots, size_t first,
                        struct pawl_error *reterr) {
    struct spot *rest[LOOK_MAX];
    size_t batch = pawl__script_locks(server->redis, LOOK_MAX), count;
    char *names[LOOK_MAX];
    redisReply *reply;
    int rc = 0;

    while (first < spots->count && rc == 0) {
        for (count = 0; first < spots->count && count < batch; first++)
            if (!spots->list[first].reply) {
                rest[count] = &spots->list[first];
                names[count++] = spots->list[first].name;
            }
        if (count == 0 || (rc = pawl__look(server, names, count, false, tracks->fill, &reply, reterr)) < 0)
            break;
        for (size_t i = 0; i < count; i++)
            rest[i]->reply = take_out(reply, i);
        freeReplyObject(reply);
    }
    return rc;
}

/* ---- Finding them --------------------------------------------------------------------------------------------------------- */

/* Add the name that the key has behind this prefix. */
static int add_key(const struct redis *redis, const redisReply *key, const char *prefix, struct spots *spots,
                   struct pawl_error *reterr) {
    char buffer[REDIS_KEY_MAX];
    const char *name = pawl__names_of_key(redis, key->str, key->len, prefix, buffer);

    /* Other programs may have keys that look like ours: what can't be a name of a lock is none, and must reach no terminal. */
    return name && pawl__name_check(name, NULL) == 0 ? add_spot(spots, name, NULL, reterr) : 0;
}

/* Take the names out of one answer to SCAN. */
static int read_page(struct server *server, const redisReply *keys, const struct tracks *tracks, struct spots *spots,
                     struct pawl_error *reterr) {
    const struct redis *redis = server->redis;
    struct spots found = {0};
    int rc = 0;

    for (size_t i = 0; i < keys->elements && rc == 0; i++) {
        const redisReply *key = keys->element[i];

        if (key->type == REDIS_REPLY_STRING && (rc = add_key(redis, key, tracks->prefixes[0], spots, reterr)) == 0 &&
            (rc = add_key(redis, key, tracks->prefixes[1], spots, reterr)) == 0 && tracks->counter)
            rc = add_key(redis, key, tracks->counter, &found, reterr);
    }
    if (rc == 0)
        rc = look_at_found(server, tracks, &found, spots, reterr);
    pawl__spots_free(&found);
    return rc;
}

/* One pattern for all prefixes, since each SCAN goes through all keys of the server: in each place any of the characters that they have
 * there, as far as the shortest goes. It may find a few keys of others. */
static void make_pattern(const struct tracks *tracks, char ret[PATTERN_MAX]) {
    const char *first = tracks->prefixes[0], *second = tracks->prefixes[1], *third = tracks->counter ? tracks->counter : first;
    char *to = ret;

    for (size_t i = 0; first[i] && second[i] && third[i] && to < ret + PATTERN_MAX - 8; i++)
        to += sprintf(to, "[%c%c%c]", first[i], second[i], third[i]);
    strcpy(to, "*");
}

static int scan(struct server *server, const struct tracks *tracks, struct spots *spots, struct pawl_error *reterr) {
    char cursor[24] = "0", match[PATTERN_MAX];
    int rc = 0;

    make_pattern(tracks, match);
    for (int round = 0; round < SCAN_ROUNDS; round++) {
        const char *argv[] = {"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
        redisReply *reply = server->redis->call(server, -1, 0, 6, argv, NULL, reterr);

        if (!reply)
            return reterr->code;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            rc = read_page(server, reply->element[1], tracks, spots, reterr);
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

int pawl__spots_find(struct server *server, const struct tracks *tracks, struct spots *spots, struct pawl_error *reterr) {
    size_t first = spots->count;
    int rc = scan(server, tracks, spots, reterr);

    sort_spots(spots, first);
    return rc < 0 ? rc : look_at_rest(server, tracks, spots, first, reterr);
}

int pawl__spots_show(const struct redis *redis, struct spots *spots, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct lock_view view;
    int rc = 0;

    sort_spots(spots, 0);
    for (size_t i = 0; i < spots->count && rc == 0; i++) {
        pawl__view_take(redis, spots->list[i].name, spots->list[i].reply, &view);
        rc = pawl__view_show(&view, visit, data, reterr);
        if (rc == PAWL_EKIND) /* it does not keep the others from being shown */
            rc = 0;
    }
    return rc;
}
