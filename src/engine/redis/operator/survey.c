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

/* The kinds differ in what lies beside the lock: it is looked at as each of them. */
struct looked_at {
    struct redis_keys rwlock, semaphore;
};

static void *fill(const struct redis *redis, const char *name, const char *argv[LOOK_ARGS]) {
    struct looked_at *at = malloc(sizeof *at);

    if (!at)
        return NULL;
    pawl__redis_keys(redis, name, PAWL_RWLOCK, &at->rwlock);
    pawl__redis_keys(redis, name, PAWL_SEMAPHORE, &at->semaphore);
    memcpy(argv,
           (const char *[]){at->rwlock.lock, at->rwlock.token, at->rwlock.queue, at->rwlock.who, at->semaphore.beside,
                            at->rwlock.beside},
           LOOK_ARGS * sizeof *argv);
    return at;
}

int pawl__redis_look(struct redis *redis, const char *name, struct lock_view *ret, redisReply **retreply,
                     struct pawl_error *reterr) {
    char *const names[] = {(char *)name};
    int rc = pawl__redis_check_name(redis, name, reterr);

    if (rc == 0)
        rc = pawl__look(pawl__server_having(redis, name), names, 1, fill, retreply, reterr);
    if (rc == 0)
        pawl__lock_view_take(redis, name, (*retreply)->element[0], ret);
    return rc;
}

int pawl__redis_look_by(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                        struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    const char *argv[LOOK_ARGS + 1];
    const struct redis_ask ask = {.script = SCRIPT_SURVEY, .keys = LOOK_KEYS, .argc = LOOK_ARGS + 1, .argv = argv};
    struct redis_answer answer = {0};
    struct lock_view view;
    int rc = pawl__redis_check_name(redis, name, reterr);
    void *memory = rc == 0 ? fill(redis, name, argv) : NULL;

    if (!memory)
        return rc < 0 ? rc : pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    argv[LOOK_ARGS] = "holders"; /* and not who waits */
    rc = pawl__call_until(redis, name, &ask, deadline, &answer, reterr);
    if (rc == 0)
        rc = pawl__look_check(answer.reply, 1, reterr);
    if (rc == 0) {
        pawl__lock_view_take(redis, name, answer.reply->element[0], &view);
        rc = pawl__lock_view_show(&view, visit, data, reterr);
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
    rc = pawl__lock_view_show(&view, visit, data, reterr);
    freeReplyObject(reply);
    return rc;
}

static int scan_all(struct redis *redis, struct names *names, struct pawl_error *reterr) {
    struct server *server = NULL;
    int rc = 0;

    while (rc == 0 && (server = pawl__server_next(redis, server))) {
        rc = pawl__names_scan(server, REDIS_QUEUE_PREFIX, -1, names, reterr);
        if (rc == 0)
            rc = pawl__names_scan(server, "pawl:who", -1, names, reterr);
        /* The counters of tokens are those of all locks that ever were: only what is held is of interest. */
        if (rc == 0 && redis->options.layout == LAYOUT_REDISSON)
            rc = pawl__names_scan(server, REDIS_TOKEN_PREFIX, SCRIPT_HELD, names, reterr);
    }
    return rc;
}

int pawl__redis_survey(struct pawl__engine *engine, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    size_t batch = pawl__script_locks(redis, LOOK_MOST);
    struct pawl_error local;
    struct names names = {0};
    int rc;

    reterr = reterr ? reterr : &local;
    if (name)
        return survey_one(redis, name, visit, data, reterr);
    rc = scan_all(redis, &names, reterr);
    pawl__names_sort(&names);
    for (size_t i = 0; i < names.count && rc == 0; i += batch) {
        size_t count = names.count - i < batch ? names.count - i : batch;

        rc = pawl__look_show(pawl__server_having(redis, names.list[i]), names.list + i, count, fill, visit, data, reterr);
    }
    pawl__names_free(&names);
    return rc;
}
