/* SPDX-License-Identifier: Apache-2.0
 *
 * look.c - looking at locks: many of them by one script (lua/survey.lua), since a request costs more than what it asks for.
 *
 * So many at once that the server is busy for about a millisecond, in which others wait.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/view/view.h"

struct looking {
    const char *argv[LOOK_MAX * LOOK_KEYS];
    void *memory[LOOK_MAX];
};

static bool fill_all(const struct redis *redis, char *const names[], size_t count, view_fill_fn *fill, struct looking *ret) {
    for (size_t i = 0; i < count; i++) {
        ret->memory[i] = fill(redis, names[i], ret->argv + i * LOOK_KEYS);
        if (!ret->memory[i])
            return false;
    }
    return true;
}

static bool is_list_of_texts(const redisReply *reply) {
    bool is = reply->type == REDIS_REPLY_ARRAY;

    for (size_t i = 0; is && i < reply->elements; i++)
        is = reply->element[i]->type == REDIS_REPLY_STRING;
    return is;
}

/* Is it what the script says of one lock? Then it can be read without looking at types. */
static bool is_view(const redisReply *reply) {
    redisReply *const *part = reply->element;
    bool fits = reply->type == REDIS_REPLY_ARRAY && (reply->elements == AT_WHO || reply->elements == AT_COUNT) &&
                part[AT_TYPE]->type == REDIS_REPLY_STRING && part[AT_LEFT]->type == REDIS_REPLY_INTEGER &&
                is_list_of_texts(part[AT_CONTENT]) && part[AT_LAST]->type == REDIS_REPLY_STRING;

    for (int i = AT_WHO; fits && i < AT_HOLDS && reply->elements == AT_COUNT; i++)
        fits = is_list_of_texts(part[i]);
    return fits && (strcmp(part[AT_TYPE]->str, "string") != 0 || part[AT_CONTENT]->elements > 0);
}

int pawl__look_check(const redisReply *reply, size_t count, bool found, struct pawl_error *reterr) {
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == count;

    for (size_t i = 0; fits && i < count; i++)
        fits = (found && reply->element[i]->type == REDIS_REPLY_INTEGER) || is_view(reply->element[i]);
    if (fits)
        return 0;
    return pawl__fail(reterr, PAWL_EFORMAT,
                      "the server's answer about its locks is of no known form: check that the URL names a Redis server itself");
}

int pawl__look(struct server *server, char *const names[], size_t count, bool found, view_fill_fn *fill, redisReply **ret,
               struct pawl_error *reterr) {
    struct looking *looking = calloc(1, sizeof *looking);
    int argc = (int)count * LOOK_KEYS, rc;
    redisReply *reply = NULL;

    if (looking && fill_all(server->redis, names, count, fill, looking)) {
        reply = server->redis->call(server, SCRIPT_SURVEY, found ? 0 : argc, argc, looking->argv, NULL, reterr);
        rc = reply ? pawl__look_check(reply, count, found, reterr) : reterr->code;
    } else {
        rc = pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    }
    for (size_t i = 0; looking && i < count; i++)
        free(looking->memory[i]);
    free(looking);
    if (rc == 0)
        *ret = reply;
    else
        freeReplyObject(reply);
    return rc;
}
