/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - all locks of a server: found by SCAN for records, queues and counters of tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/name.h"
#include "engine/redis/view/view.h"

enum { SCAN_ROUNDS = 20000, NAMES_MOST = 100000, HELD_BATCH = 100 };

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

void pawl__names_free(struct names *names) {
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
        const char *name = pawl__names_of_key(server->redis, key->str, key->len, prefix, buffer);

        /* Other programs may have keys that look like ours: what can't be a name of a lock is none, and must reach no terminal. */
        if (name && pawl__name_check(name, NULL) == 0 && !add_name(names, name))
            return pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    }
    return 0;
}

/* Add those of `used` that are held, `count` of them in one script. */
static int add_held(struct server *server, int script, char *const *used, size_t count, struct names *names,
                    struct pawl_error *reterr) {
    char keys[HELD_BATCH][REDIS_KEY_MAX];
    const char *argv[HELD_BATCH];
    redisReply *reply;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        strcpy(stpcpy(keys[i], server->redis->options.prefix), used[i]);
        argv[i] = keys[i];
    }
    reply = server->redis->call(server, script, 0, (int)count, argv, NULL, reterr);
    if (!reply)
        return reterr ? reterr->code : PAWL_ECONNLOST;
    for (size_t i = 0; i < count && rc == 0; i++)
        if (pawl__reply_number(reply, i, 0) == 1 && !add_name(names, used[i]))
            rc = pawl__fail(reterr, PAWL_EFULL, "there are more locks than can be listed: ask for one by its name");
    freeReplyObject(reply);
    return rc;
}

/* The counters of tokens are those of all locks that ever were: only what is held is of interest. */
static int read_held(struct server *server, const redisReply *keys, const char *prefix, int script, struct names *names,
                     struct pawl_error *reterr) {
    size_t batch = pawl__script_locks(server->redis, HELD_BATCH);
    struct names used = {0};
    int rc = read_page(server, keys, prefix, &used, reterr);

    for (size_t i = 0; i < used.count && rc == 0; i += batch)
        rc = add_held(server, script, used.list + i, used.count - i < batch ? used.count - i : batch, names, reterr);
    pawl__names_free(&used);
    return rc;
}

int pawl__names_scan(struct server *server, const char *prefix, int held, struct names *names, struct pawl_error *reterr) {
    char cursor[24] = "0", match[64];
    int rc = 0;

    snprintf(match, sizeof match, "%s:*", prefix);
    for (int round = 0; round < SCAN_ROUNDS; round++) {
        const char *argv[] = {"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
        redisReply *reply = server->redis->call(server, -1, 0, 6, argv, NULL, reterr);

        if (!reply)
            return reterr ? reterr->code : PAWL_ECONNLOST;
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            rc = held < 0 ? read_page(server, reply->element[1], prefix, names, reterr)
                          : read_held(server, reply->element[1], prefix, held, names, reterr);
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

void pawl__names_sort(struct names *names) {
    size_t kept = 0;

    if (names->count)
        qsort(names->list, names->count, sizeof *names->list, compare_names);
    for (size_t i = 0; i < names->count; i++)
        if (kept && strcmp(names->list[i], names->list[kept - 1]) == 0)
            free(names->list[i]);
        else
            names->list[kept++] = names->list[i];
    names->count = kept;
}
