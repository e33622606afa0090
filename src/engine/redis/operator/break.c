/* SPDX-License-Identifier: Apache-2.0
 *
 * break.c - for operators: breaking a hold.
 */
#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"

int pawl__redis_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct redis_call call;
    struct pawl_error local;
    struct lock_view view;
    redisReply *reply;
    int rc;

    reterr = reterr ? reterr : &local;
    rc = pawl__redis_look(redis, name, &view, &reply, reterr);
    if (rc < 0)
        return rc;
    pawl__call_fill(redis, NULL, name, view.kind, "", &call);
    rc = pawl__view_break(&view, pawl__server_having(redis, name), SCRIPT_BREAK + (int)view.kind, call.argv, token, now, reterr);
    freeReplyObject(reply);
    return rc;
}
