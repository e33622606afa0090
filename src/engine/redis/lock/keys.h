/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h - how names become keys, and keys what scripts are sent.
 */
#ifndef PAWL_REDIS_KEYS_H
#define PAWL_REDIS_KEYS_H

#include "base/record.h"
#include "engine/redis/lock/home.h"

struct redis_keys {
    char lock[REDIS_KEY_MAX], token[REDIS_KEY_MAX], queue[REDIS_KEY_MAX], who[REDIS_KEY_MAX];
    char witness[REDIS_KEY_MAX]; /* written so that replicas can be counted */
    char inbox[REDIS_KEY_MAX];   /* where pawls are told of it: with the client's uuid behind it, the channel */
    char channel[REDIS_KEY_MAX]; /* where Redisson listens; "": nowhere */
    char beside[REDIS_KEY_MAX];  /* prefix of the hold keys of a read-write lock; the sorted set of a semaphore */
};
void pawl__redis_keys(const struct redis *redis, const char *name, enum pawl_kind kind, struct redis_keys *ret);
/* The key of what lies beside it. */
void pawl__redis_part_key(const struct redis *redis, const char *name, enum pawl__part part, char ret[REDIS_KEY_MAX]);
/* Is the record of a hold in the lock's own key, which is a hash? */
bool pawl__redis_is_hash(const struct redis *redis, enum pawl_kind kind);
/* Has the layout locks of this kind? */
int pawl__redis_check_kind(const struct redis *redis, const char *name, enum pawl_kind kind, struct pawl_error *reterr);
/* How many keys a renewal names for each hold: the lock's own, that of the record, and that which says whether the hold is there. */
enum { REDIS_RENEW_KEYS = 3 };
size_t pawl__redis_renew_keys(const struct redis *redis, enum pawl_kind kind);
/* Are all keys of this lock in one slot of a cluster? */
int pawl__redis_check_name(const struct redis *redis, const char *name, struct pawl_error *reterr);
/* What the keys of the counters of tokens begin with, and those of the queues. */
#define REDIS_TOKEN_PREFIX "redisson_lock_token"
#define REDIS_QUEUE_PREFIX "pawl:queue"

/* What every script about one lock is sent: KEYS, ARGV, and room for what is the operation's own. Each argument costs the server as much as
 * a command does: what the common cases do not read is packed into one of them, `rest`. */
enum { REDIS_CALL_KEYS = 4, REDIS_CALL_COMMON = 7, REDIS_ACQUIRE_ARGS = 10 };
struct redis_call {
    struct redis_keys keys;
    char lease[24], floor[24], rest[3 * REDIS_KEY_MAX + PAWL__RECORD_MAX + 128];
    char *extra; /* the end of `rest`, where the operation's own goes */
    char want[24], record[PAWL__RECORD_MAX + 96];
    char *terms;      /* of an acquire: where in `record` what it asks for begins; */
    const char *asks; /* and how it asks: "0" it would wait, "1" it only looks, "2" it tries */
    const char *argv[REDIS_ACQUIRE_ARGS];
};
/* `home`, whose floor for tokens is sent, may be NULL where the mutex is not held: then the server's clock is asked. */
void pawl__call_fill(const struct redis *redis, const struct home *home, const char *name, enum pawl_kind kind, const char *owner,
                     struct redis_call *ret);

#endif
