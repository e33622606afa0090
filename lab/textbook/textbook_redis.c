/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook_redis.c - see textbook.h: the lock with one key.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "textbook.h"

static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
static const char renew_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

static bool redis_open(struct textbook *textbook, struct pawl__url *url) {
    redisContext *context = redisConnectWithTimeout("127.0.0.1", (int)textbook->port, (struct timeval){.tv_sec = 3});

    (void)url;
    if (context && !context->err && redisSetTimeout(context, (struct timeval){.tv_sec = 3}) == REDIS_OK) {
        textbook->server = context;
        return true;
    }
    redisFree(context);
    return false;
}

static void redis_close(struct textbook *textbook) {
    redisFree(textbook->server);
}

/* What the server says, as a number: 1 for OK, 0 for nil; -1: it says nothing. Frees the reply. */
static long long number(struct textbook *textbook, void *answer) {
    redisReply *reply = answer;
    long long value = -1;

    if (!reply) {
        redisReconnect(textbook->server);
        return -1;
    }
    if (reply->type == REDIS_REPLY_INTEGER)
        value = reply->integer;
    else if (reply->type == REDIS_REPLY_STATUS)
        value = 1;
    else if (reply->type == REDIS_REPLY_NIL)
        value = 0;
    freeReplyObject(reply);
    return value;
}

static bool is_ours(struct textbook *textbook, const struct textbook_claim *state) {
    redisReply *reply = redisCommand(textbook->server, "GET %s", state->claim->name);
    bool ours = reply && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, state->owner) == 0;

    if (!reply)
        redisReconnect(textbook->server);
    else
        freeReplyObject(reply);
    return ours;
}

static long long lease_ms(const struct textbook *textbook) {
    return textbook->lease_ns / 1000000;
}

static bool take(struct textbook *textbook, const struct textbook_claim *state) {
    const char *name = state->claim->name;

    if (textbook->expiry == EXPIRY_ATOMIC)
        return number(textbook, redisCommand(textbook->server, "SET %s %s NX PX %lld", name, state->owner, lease_ms(textbook))) ==
               1;
    if (number(textbook, redisCommand(textbook->server, "SETNX %s %s", name, state->owner)) != 1)
        return false;
    if (textbook->expiry == EXPIRY_SECOND) {
        pawl__textbook_pause(textbook);
        number(textbook, redisCommand(textbook->server, "PEXPIRE %s %lld", name, lease_ms(textbook)));
    }
    return true;
}

static enum textbook_answer redis_acquire(struct textbook *textbook, struct textbook_claim *state) {
    if (!take(textbook, state))
        return TEXTBOOK_NOT_YET;
    state->token = (uint64_t)number(textbook, redisCommand(textbook->server, "INCR redisson_lock_token:{%s}", state->claim->name));
    return TEXTBOOK_YES;
}

static void redis_release(struct textbook *textbook, struct textbook_claim *state) {
    const char *name = state->claim->name;

    if (!state->held)
        return;
    if (textbook->release == RELEASE_SCRIPT) {
        number(textbook, redisCommand(textbook->server, "EVAL %s 1 %s %s", release_script, name, state->owner));
        return;
    }
    if (textbook->release == RELEASE_CHECK) {
        if (!is_ours(textbook, state))
            return;
        pawl__textbook_pause(textbook);
    }
    number(textbook, redisCommand(textbook->server, "DEL %s", name));
}

static enum textbook_answer redis_renew(struct textbook *textbook, struct textbook_claim *state) {
    const char *name = state->claim->name;

    if (textbook->renew == RENEW_CHECKED)
        return number(textbook, redisCommand(textbook->server, "EVAL %s 1 %s %s %lld", renew_script, name, state->owner,
                                             lease_ms(textbook))) == 1
                   ? TEXTBOOK_YES
                   : TEXTBOOK_NO;
    number(textbook, redisCommand(textbook->server, "PEXPIRE %s %lld", name, lease_ms(textbook)));
    return TEXTBOOK_YES;
}

const struct textbook_backend pawl__textbook_redis = {
    .open = redis_open,
    .close = redis_close,
    .acquire = redis_acquire,
    .release = redis_release,
    .renew = redis_renew,
};
