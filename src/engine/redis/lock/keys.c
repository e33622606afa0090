/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.c - how a name becomes keys and channels, and what scripts are sent of them. docs/redis.md has the table.
 *
 * The lock's own key is the prefix and the name as they are. Everything beside it has the name in braces, so that a cluster keeps it
 * on the same node, unless the name has a brace of its own; that is Redisson's rule, and it must be followed to the byte.
 */
#include <string.h>

#include "engine/redis/lock/keys.h"
#include "base/error.h"

/* How far tokens may stay behind the server's time, about, where that is their floor. Each acquire would else have to look at the clock. */
#define TOKEN_LAG_US 1000000

/* A prefix and a name are at most REDIS_KEY_MAX - 128 bytes together, and what is put around them is shorter than that. */

/* `bare`: the key has a brace of its own. */
static void before(char *to, const char *prefix, const char *key, bool bare) {
    to = stpcpy(stpcpy(to, prefix), bare ? ":" : ":{");
    strcpy(stpcpy(to, key), bare ? "" : "}");
}

static void after(char *to, const char *key, bool bare, const char *suffix) {
    to = stpcpy(stpcpy(to, bare ? "" : "{"), key);
    strcpy(stpcpy(to, bare ? ":" : "}:"), suffix);
}

void pawl__redis_keys(const struct redis *redis, const char *name, enum pawl_kind kind, struct redis_keys *ret) {
    bool bare;

    strcpy(stpcpy(ret->lock, redis->options.prefix), name);
    bare = strchr(ret->lock, '{');
    before(ret->token, REDIS_TOKEN_PREFIX, ret->lock, bare);
    before(ret->queue, REDIS_QUEUE_PREFIX, ret->lock, bare);
    before(ret->who, "pawl:who", ret->lock, bare);
    before(ret->witness, "pawl:witness", ret->lock, bare);
    if (redis->traits.lock_channels) {
        before(ret->inbox, "pawl:inbox", ret->lock, bare);
        strcat(ret->inbox, ":");
    } else {
        strcpy(ret->inbox, "pawl:inbox:");
    }
    ret->channel[0] = ret->beside[0] = '\0';
    if (kind == PAWL_RWLOCK) {
        before(ret->channel, "redisson_rwlock", ret->lock, bare);
        after(ret->beside, ret->lock, bare, "");
    } else if (kind == PAWL_SEMAPHORE) {
        before(ret->channel, "redisson_sc", ret->lock, bare);
        after(ret->beside, ret->lock, bare, "timeout");
    } else if (redis->options.layout == LAYOUT_REDISSON) {
        before(ret->channel, "redisson_lock__channel", ret->lock, bare);
    }
}

bool pawl__redis_is_hash(const struct redis *redis, enum pawl_kind kind) {
    return kind == PAWL_MUTEX && redis->options.layout == LAYOUT_REDISSON;
}

void pawl__redis_part_key(const struct redis *redis, const char *name, enum pawl__part part, char ret[REDIS_KEY_MAX]) {
    static const char *const prefixes[PARTS] = {[PART_VALUE] = "pawl:value", [PART_NOTE] = "pawl:note"};
    char lock[REDIS_KEY_MAX];

    strcpy(stpcpy(lock, redis->options.prefix), name);
    before(ret, prefixes[part], lock, strchr(lock, '{'));
}

int pawl__redis_check_kind(const struct redis *redis, const char *name, enum pawl_kind kind, struct pawl_error *reterr) {
    if (redis->options.layout == LAYOUT_REDISSON || kind == PAWL_MUTEX)
        return 0;
    return pawl__fail(reterr, PAWL_EUNSUPPORTED, "'%s' is not a mutex, and layout=plain has only those: leave the option out",
                      name);
}

/* A key that is not there must not be named: while its slot moves to another node of a cluster, a script whose keys are not all there is
 * refused. In a cluster the key that decides is named, too: else, while its slot moves, a script that finds the lock at one node would take
 * a hold for lost that is at the other. */
size_t pawl__redis_renew_keys(const struct redis *redis, enum pawl_kind kind) {
    if (pawl__redis_is_hash(redis, kind))
        return 1;
    return kind != PAWL_MUTEX && redis->traits.sharded ? REDIS_RENEW_KEYS : 2;
}

int pawl__redis_check_name(const struct redis *redis, const char *name, struct pawl_error *reterr) {
    struct redis_keys keys;
    unsigned slot;

    if (!redis->traits.sharded)
        return 0;
    pawl__redis_keys(redis, name, PAWL_SEMAPHORE, &keys);
    slot = pawl__route_key_slot(keys.lock);
    if (slot == pawl__route_key_slot(keys.who) && slot == pawl__route_key_slot(keys.beside))
        return 0;
    return pawl__fail(
        reterr, PAWL_ENAME,
        "the braces in '%s' put its keys into different slots of the cluster: leave them out, or write {...} around a part", name);
}

/* The least value of the next token. With one server its time at the connect is enough: it counts on from there. With several, an old
 * primary may still grant beside its successor; only the time keeps their tokens in order, so it is the time now. */
static uint64_t token_floor(const struct home *home) {
    int64_t now_us;

    if (!home || !home_knows_clock(home) || !home->clock.floor)
        return REDIS_TOKEN_MAX;
    if (!home->server.redis->traits.several)
        return (uint64_t)home->clock.floor;
    now_us = home->clock.sample_server + (pawl__boottime() - home->clock.sample_local) / 1000;
    return (uint64_t)(now_us - TOKEN_LAG_US > home->clock.floor ? now_us - TOKEN_LAG_US : home->clock.floor);
}

/* The keys and arguments of all scripts about one lock; lua/common.lua reads them. */
void pawl__call_fill(const struct redis *redis, const struct home *home, const char *name, enum pawl_kind kind, const char *owner,
                     struct redis_call *ret) {
    char *end;

    pawl__redis_keys(redis, name, kind, &ret->keys);
    pawl__put_number(ret->floor, token_floor(home));
    end = stpcpy(pawl__put_number(ret->rest, (uint64_t)(redis->options.claim_ns / REDIS_MS)), "\n");
    end = stpcpy(stpcpy(end, ret->keys.inbox), "\n");
    end = stpcpy(stpcpy(end, ret->keys.channel), "\n");
    ret->extra = stpcpy(stpcpy(end, ret->keys.beside), "\n");
    ret->argv[0] = ret->keys.lock;
    ret->argv[1] = ret->keys.token;
    ret->argv[2] = ret->keys.queue;
    ret->argv[3] = ret->keys.who;
    ret->argv[4] = owner;
    ret->argv[5] = ret->rest;
    ret->argv[6] = ret->floor;
}
