/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: who holds a lock and who waits for it; and finding all locks.
 *
 * All locks are found by SCAN for records, queues and counters of tokens; so what only foreign programs hold is shown when it is asked
 * for by name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"

static void *fill(const struct redis *redis, const char *name, const char *argv[LOOK_KEYS]) {
    struct redis_keys *keys = malloc(sizeof *keys);

    if (!keys)
        return NULL;
    pawl__redis_keys(redis, name, PAWL_MUTEX, keys);
    memcpy(argv, (const char *[]){keys->lock, keys->token, keys->queue, keys->who}, LOOK_KEYS * sizeof *argv);
    return keys;
}

int pawl__redis_look(struct redis *redis, const char *name, struct lock_view *ret, redisReply **retreply,
                     struct pawl_error *reterr) {
    char *const names[] = {(char *)name};
    int rc = pawl__redis_check_name(redis, name, reterr);

    if (rc == 0)
        rc = pawl__look(pawl__server_having(redis, name), names, 1, false, fill, retreply, reterr);
    if (rc == 0)
        pawl__view_take(redis, name, (*retreply)->element[0], ret);
    return rc;
}

int pawl__redis_look_by(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                        struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    const char *argv[LOOK_KEYS + 1];
    const struct redis_ask ask = {.script = SCRIPT_SURVEY, .keys = LOOK_KEYS, .argc = LOOK_KEYS + 1, .argv = argv, .hurried = true};
    struct redis_answer answer = {0};
    struct lock_view view;
    int rc = pawl__redis_check_name(redis, name, reterr);
    void *memory = rc == 0 ? fill(redis, name, argv) : NULL;

    if (!memory)
        return rc < 0 ? rc : pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    argv[LOOK_KEYS] = "holders"; /* and not who waits */
    rc = pawl__call_until(redis, name, &ask, deadline, &answer, reterr);
    if (rc == 0)
        rc = pawl__look_check(answer.reply, 1, false, reterr);
    if (rc == 0) {
        pawl__view_take(redis, name, answer.reply->element[0], &view);
        rc = pawl__view_show(&view, visit, data, reterr);
    }
    freeReplyObject(answer.reply);
    free(memory);
    return rc;
}

static int survey_one(struct redis *redis, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct lock_view view;
    redisReply *reply;
    int rc = pawl__redis_look(redis, name, &view, &reply, reterr);

    if (rc < 0)
        return rc;
    rc = pawl__view_show(&view, visit, data, reterr);
    freeReplyObject(reply);
    return rc;
}

int pawl__redis_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    const struct lock_finder finder = {.prefixes = {REDIS_QUEUE_PREFIX, "pawl:who"},
                                       .counter = redis->options.layout == LAYOUT_REDISSON ? REDIS_TOKEN_PREFIX : NULL,
                                       .fill = fill};
    struct server *server = NULL;
    struct named_locks named_locks = {0};
    struct pawl_error local;
    int rc = 0;

    reterr = reterr ? reterr : &local;
    if (name)
        return survey_one(redis, name, visit, data, reterr);
    while (rc == 0 && (server = pawl__server_next(redis, server)))
        rc = pawl__named_locks_find(server, &finder, &named_locks, reterr);
    if (rc == 0)
        rc = pawl__named_locks_show(redis, &named_locks, visit, data, reterr);
    pawl__named_locks_free(&named_locks);
    return rc;
}
