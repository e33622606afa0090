/* SPDX-License-Identifier: Apache-2.0
 *
 * survey.c - for operators: who holds a lock and who waits for it; and finding all locks.
 *
 * All locks are found by SCAN for records, queues and counters of tokens; so what only foreign programs hold is shown when it is asked
 * for by name.
 */
#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"

int pawl__lock_view_look(struct redis *redis, const char *name, struct lock_view *ret, struct pawl_error *reterr) {
    struct redis_keys rwlock;
    struct redis_call call;
    redisReply *reply;
    int rc = pawl__redis_check_name(redis, name, reterr);

    if (rc < 0)
        return rc;
    pawl__redis_keys(redis, name, PAWL_RWLOCK, &rwlock);
    pawl__call_fill(redis, NULL, name, PAWL_SEMAPHORE, "", &call);
    call.argv[REDIS_CALL_COMMON] = rwlock.beside;
    reply = pawl__server_call(pawl__server_having(redis, name), SCRIPT_SURVEY, REDIS_CALL_KEYS, REDIS_CALL_COMMON + 1, call.argv,
                              NULL, reterr);
    return reply ? pawl__lock_view_take(redis, name, reply, ret, reterr) : reterr->code;
}

static int survey_one(struct redis *redis, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct lock_view view;
    int rc = pawl__lock_view_look(redis, name, &view, reterr);

    return rc < 0 ? rc : pawl__lock_view_show(&view, visit, data, reterr);
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
    struct pawl_error local;
    struct names names = {0};
    int rc;

    reterr = reterr ? reterr : &local;
    if (name)
        return survey_one(redis, name, visit, data, reterr);
    rc = scan_all(redis, &names, reterr);
    pawl__names_sort(&names);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        rc = survey_one(redis, names.list[i], visit, data, reterr);
        rc = rc == PAWL_EKIND ? 0 : rc; /* it does not keep the others from being shown */
    }
    pawl__names_free(&names);
    return rc;
}
