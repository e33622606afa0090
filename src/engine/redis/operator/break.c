/* SPDX-License-Identifier: Apache-2.0
 *
 * break.c - for operators: breaking a hold.
 */
#include <string.h>

#include "base/error.h"
#include "engine/redis/lock/keys.h"
#include "engine/redis/operator/operator.h"
#include "engine/redis/operator/sight.h"

/* How long a holder that is asked to give up may be deaf: it may be connecting anew, or in a cluster not have subscribed yet. */
#define DEAF_NS (3000 * REDIS_MS)
#define DEAF_STEP_NS (20 * REDIS_MS)

struct search {
    uint64_t token;
    struct holder found;
    bool any;
};

static int match_token(const struct sight *sight, const struct holder *holder, void *data) {
    struct search *search = data;
    uint64_t first = holder->token, count = holder->facts.known ? holder->facts.count : 1;

    (void)sight;
    if (search->token < first || search->token - first >= count)
        return 0;
    search->found = *holder;
    search->any = true;
    return 1;
}

/* How many were told; -1: it does not hold; else reterr says why. */
static int call_break(struct redis *redis, const char *name, enum pawl_kind kind, const struct holder *holder, bool now,
                      int *rettold, struct pawl_error *reterr) {
    enum { ARGS = REDIS_CALL_COMMON + 1 };
    struct redis_call call;
    size_t lengths[ARGS];
    redisReply *reply;

    pawl__call_fill(redis, NULL, name, kind, holder->owner, &call);
    call.argv[REDIS_CALL_COMMON] = now ? "1" : "0";
    for (int i = 0; i < ARGS; i++) /* Redisson's permits are bytes of any kind */
        lengths[i] = call.argv[i] == holder->owner ? holder->length : strlen(call.argv[i]);
    reply = pawl__server_call(pawl__server_having(redis, name), SCRIPT_BREAK + (int)kind, REDIS_CALL_KEYS, ARGS, call.argv, lengths,
                              reterr);
    if (!reply)
        return reterr->code;
    *rettold = reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : -1;
    freeReplyObject(reply);
    return 0;
}

/* A holder that is asked to give up is told until it hears. It may be dead: then its lease ends it. */
static int run_break(struct redis *redis, const char *name, enum pawl_kind kind, const struct holder *holder, bool now,
                     struct pawl_error *reterr) {
    int64_t deadline = pawl__boottime() + DEAF_NS;
    int told, rc = call_break(redis, name, kind, holder, now, &told, reterr);

    if (rc == 0 && told < 0)
        return pawl__fail(reterr, PAWL_ETOKEN, "the hold of '%s' was released meanwhile", name);
    while (rc == 0 && told == 0 && !now && pawl__boottime() < deadline) {
        pawl__pause(DEAF_STEP_NS);
        rc = call_break(redis, name, kind, holder, now, &told, reterr);
    }
    return rc;
}

int pawl__redis_break(struct pawl__engine *engine, const char *name, uint64_t token, bool now, struct pawl_error *reterr) {
    struct redis *redis = redis_of(engine);
    struct search search = {.token = token};
    struct pawl_error local;
    struct sight sight;
    int rc;

    reterr = reterr ? reterr : &local;
    rc = pawl__sight_look(redis, name, &sight, reterr);
    if (rc < 0)
        return rc;
    pawl__sight_holders(&sight, match_token, &search);
    if (!search.any)
        rc = pawl__fail(reterr, PAWL_ETOKEN, "no hold of '%s' has token %llu: pawl status shows them", name,
                        (unsigned long long)token);
    else if (!search.found.facts.known && !now)
        rc = pawl__fail(reterr, PAWL_EUNSUPPORTED, "the holder of '%s' is not a pawl and can't be asked: only --now frees it",
                        name);
    else
        rc = run_break(redis, name, sight.kind, &search.found, now, reterr);
    freeReplyObject(sight.reply);
    return rc;
}
