/* SPDX-License-Identifier: Apache-2.0
 *
 * sight.h - a lock as the server has it.
 */
#ifndef PAWL_REDIS_SIGHT_H
#define PAWL_REDIS_SIGHT_H

#include "base/record.h"
#include "engine/redis/wire/wire.h"

/* The parts of the script's answer. */
enum { AT_TYPE, AT_LEFT, AT_CONTENT, AT_WHO, AT_QUEUE, AT_OUT, AT_HOLDS, AT_TIME, AT_COUNT };

/* A lock as the server has it. */
struct sight {
    struct redis *redis;
    const char *name;
    redisReply *reply;
    enum pawl_kind kind;
    int64_t now_ms;
    unsigned limit;
};

static inline const redisReply *sight_part(const struct sight *sight, int which) {
    return sight->reply->element[which];
}

/* `TOKEN COUNT MODE PERMITS SINCE RECORD`, the mode in capitals after a break; or of a waiter `OWNER MODE PERMITS SINCE RECORD`. */
struct facts {
    unsigned long long token;
    unsigned count, permits;
    long long since_ms;
    char mode;
    struct pawl__identity identity;
    bool known;
};

/* One holder, as it is found in the lock's key; valid as long as the reply that it was read from. */
struct holder {
    const char *owner; /* what the server calls it: bytes of any kind, however many */
    size_t length;
    enum pawl_mode mode;
    int64_t left_ms; /* -1: no end */
    unsigned permits;
    char count[24]; /* how often Redisson's holder entered */
    bool broken;
    struct facts facts;
    uint64_t token;
};

/* Read it. The caller frees the reply. */
int pawl__sight_look(struct redis *redis, const char *name, struct sight *ret, struct pawl_error *reterr);
/* What is known of one that waits. */
void pawl__sight_waiter(const redisReply *member, struct facts *ret);
/* Call `fn` for each holder, until it returns something else than 0: that is returned. */
typedef int holder_fn(const struct sight *sight, const struct holder *holder, void *data);
int pawl__sight_holders(const struct sight *sight, holder_fn *fn, void *data);

#endif
