/* SPDX-License-Identifier: Apache-2.0
 *
 * textbook_redis.c - see textbook.h: the lock with one key.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "textbook.h"

#include "os/sleep.h"

static const char release_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
static const char renew_script[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

static const char *name_of(const struct textbook_claim *claim) {
    return claim->simple.kit.claim->name;
}

static int redis_open(struct simple *simple, struct pawl_error *reterr) {
    struct textbook *textbook = textbook_of(simple);
    redisContext *context = redisConnectWithTimeout("127.0.0.1", (int)textbook->port, (struct timeval){.tv_sec = 3});

    if (context && !context->err && redisSetTimeout(context, (struct timeval){.tv_sec = 3}) == REDIS_OK) {
        textbook->server = context;
        return 0;
    }
    redisFree(context);
    return pawl__textbook_unreachable(textbook, reterr);
}

static void redis_close(struct simple *simple) {
    redisFree(textbook_of(simple)->server);
}

/* What the server says, as a number: 1 for OK and for our own name as the owner, 0 for nil; -1: it says nothing. */
static long long say(struct textbook *textbook, const struct textbook_claim *claim, const char *format, ...) {
    long long value = -1;
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(textbook->server, format, args);
    va_end(args);
    if (!reply) {
        redisReconnect(textbook->server);
        return -1;
    }
    if (reply->type == REDIS_REPLY_INTEGER)
        value = reply->integer;
    else if (reply->type == REDIS_REPLY_STATUS)
        value = 1;
    else if (reply->type == REDIS_REPLY_STRING)
        value = strcmp(reply->str, claim->owner) == 0;
    else if (reply->type == REDIS_REPLY_NIL)
        value = 0;
    freeReplyObject(reply);
    return value;
}

static long long lease_ms(const struct textbook *textbook) {
    return textbook->simple.lease_ns / 1000000;
}

/* As say(). */
static long long take(struct textbook *textbook, const struct textbook_claim *claim) {
    const char *name = name_of(claim);
    long long taken;

    if (textbook->expiry == EXPIRY_ATOMIC)
        return say(textbook, claim, "SET %s %s NX PX %lld", name, claim->owner, lease_ms(textbook));
    taken = say(textbook, claim, "SETNX %s %s", name, claim->owner);
    if (taken == 1 && textbook->expiry == EXPIRY_SECOND) {
        pawl__textbook_pause(textbook);
        say(textbook, claim, "PEXPIRE %s %lld", name, lease_ms(textbook));
    }
    return taken;
}

static enum simple_answer redis_acquire(struct simple *simple, struct simple_claim *simple_claim, struct pawl_error *retwhy) {
    struct textbook *textbook = textbook_of(simple);
    struct textbook_claim *claim = claim_of(simple_claim);
    const uint64_t *id = simple_claim->kit.claim->id;
    long long taken;

    snprintf(claim->owner, sizeof claim->owner, "%016llx-%llu", (unsigned long long)id[0], (unsigned long long)id[1]);
    taken = take(textbook, claim);
    if (taken < 0)
        pawl__textbook_unreachable(textbook, retwhy);
    if (taken != 1)
        return SIMPLE_NOT_YET;
    pawl__textbook_granted(textbook, claim, (uint64_t)say(textbook, claim, "INCR redisson_lock_token:{%s}", name_of(claim)));
    claim->renew_at = pawl__boottime() + simple->lease_ns / 3;
    return SIMPLE_YES;
}

static enum simple_answer redis_release(struct simple *simple, struct simple_claim *simple_claim) {
    struct textbook *textbook = textbook_of(simple);
    struct textbook_claim *claim = claim_of(simple_claim);

    if (!claim->taken)
        return SIMPLE_YES;
    if (textbook->release == RELEASE_SCRIPT) {
        say(textbook, claim, "EVAL %s 1 %s %s", release_script, name_of(claim), claim->owner);
        return SIMPLE_YES;
    }
    if (textbook->release == RELEASE_CHECK) {
        if (say(textbook, claim, "GET %s", name_of(claim)) != 1)
            return SIMPLE_YES;
        pawl__textbook_pause(textbook);
    }
    say(textbook, claim, "DEL %s", name_of(claim));
    return SIMPLE_YES;
}

static enum simple_answer redis_renew(struct simple *simple, struct simple_claim *simple_claim) {
    struct textbook *textbook = textbook_of(simple);
    struct textbook_claim *claim = claim_of(simple_claim);

    return say(textbook, claim, "EVAL %s 1 %s %s %lld", renew_script, name_of(claim), claim->owner, lease_ms(textbook)) == 1
               ? SIMPLE_YES
               : SIMPLE_NO;
}

/* Renew what is there, ours or not. The core does not ask for it: it was told that the hold does not end. */
static int64_t renew_unchecked(struct textbook *textbook, struct textbook_claim *claim) {
    int64_t now = pawl__boottime();

    if (!claim->taken || claim->simple.state != SIMPLE_HELD)
        return PAWL__NEVER;
    if (now >= claim->renew_at) {
        claim->renew_at = now + textbook->simple.lease_ns / 3;
        say(textbook, claim, "PEXPIRE %s %lld", name_of(claim), lease_ms(textbook));
    }
    return claim->renew_at;
}

static void redis_listen(struct simple *simple, int64_t until) {
    struct textbook *textbook = textbook_of(simple);
    struct pollfd bell = {.fd = simple->kit.bell, .events = POLLIN};

    if (textbook->renew == RENEW_UNCHECKED)
        for (struct simple_claim *claim = pawl__simple_next(simple, NULL); claim; claim = pawl__simple_next(simple, claim)) {
            int64_t due = renew_unchecked(textbook, claim_of(claim));

            until = due < until ? due : until;
        }
    pawl__sleep(&bell, 1, until, NULL);
}

const struct simple_ops pawl__textbook_redis = {
    .open = redis_open,
    .close = redis_close,
    .acquire = redis_acquire,
    .release = redis_release,
    .renew = redis_renew,
    .listen = redis_listen,
};
