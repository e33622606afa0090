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

enum { LOOK_OTHERS = LOOK_ARGS - LOOK_KEYS };

/* What the script is sent: first the keys of all locks, then the arguments of all. */
struct looking {
    const char *argv[LOOK_MOST * LOOK_ARGS];
    void *memory[LOOK_MOST];
};

static bool fill_all(const struct redis *redis, char *const names[], size_t count, view_fill_fn *fill, struct looking *ret) {
    const char *argv[LOOK_ARGS];

    for (size_t i = 0; i < count; i++) {
        ret->memory[i] = fill(redis, names[i], argv);
        if (!ret->memory[i])
            return false;
        memcpy(ret->argv + i * LOOK_KEYS, argv, LOOK_KEYS * sizeof *argv);
        memcpy(ret->argv + count * LOOK_KEYS + i * LOOK_OTHERS, argv + LOOK_KEYS, LOOK_OTHERS * sizeof *argv);
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

    return reply->type == REDIS_REPLY_ARRAY && reply->elements == AT_COUNT && part[AT_TYPE]->type == REDIS_REPLY_STRING &&
           part[AT_LEFT]->type == REDIS_REPLY_INTEGER && is_list_of_texts(part[AT_CONTENT]) && is_list_of_texts(part[AT_WHO]) &&
           is_list_of_texts(part[AT_QUEUE]) && is_list_of_texts(part[AT_OUT]) &&
           (strcmp(part[AT_TYPE]->str, "string") != 0 || part[AT_CONTENT]->elements > 0);
}

int pawl__look_check(const redisReply *reply, size_t count, struct pawl_error *reterr) {
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == count;

    for (size_t i = 0; fits && i < count; i++)
        fits = is_view(reply->element[i]);
    if (fits)
        return 0;
    return pawl__fail(reterr, PAWL_EFORMAT,
                      "the server's answer about its locks is of no known form: check that the URL names a Redis server itself");
}

int pawl__look(struct server *server, char *const names[], size_t count, view_fill_fn *fill, redisReply **ret,
               struct pawl_error *reterr) {
    struct looking *looking = calloc(1, sizeof *looking);
    redisReply *reply = NULL;
    int rc;

    if (looking && fill_all(server->redis, names, count, fill, looking)) {
        reply = server->redis->call(server, SCRIPT_SURVEY, (int)count * LOOK_KEYS, (int)count * LOOK_ARGS, looking->argv, NULL,
                                    reterr);
        rc = reply ? pawl__look_check(reply, count, reterr) : reterr->code;
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

int pawl__look_show(struct server *server, char *const names[], size_t count, view_fill_fn *fill, pawl_visit_fn *visit, void *data,
                    struct pawl_error *reterr) {
    struct lock_view view;
    redisReply *reply;
    int rc = pawl__look(server, names, count, fill, &reply, reterr);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count && rc == 0; i++) {
        pawl__lock_view_take(server->redis, names[i], reply->element[i], &view);
        rc = pawl__lock_view_show(&view, visit, data, reterr);
        if (rc == PAWL_EKIND) /* it does not keep the others from being shown */
            rc = 0;
    }
    freeReplyObject(reply);
    return rc;
}
