/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - values beside locks: persistent znodes in BASE/pawl.values, on the claims (lock/), which alone may write them.
 *
 *     record.c   what such a znode has as data, pure        write.c   writing, in the name of a claim
 *     holder.c   who has a token?                            read.c    reading; the servers' clock
 */
#ifndef PAWL_ZK_VALUE_H
#define PAWL_ZK_VALUE_H

#include "engine/zookeeper/lock/lock.h"

/* ---- record.c ------------------------------------------------------------------------------------------------------------- */

enum { ZK_VALUE_HEAD = 160 };

/* A value, and who wrote it. */
struct zk_value {
    uint64_t token;
    char by[ZK_GUID_SIZE]; /* the GUID of the claim that wrote it, or one of the write's own */
    uint64_t number;       /* of the claim's writes */
    const char *bytes;     /* in the data that it was read from */
    size_t size;
};

/* One line, and the bytes: allocated, *ret_length of them; NULL: out of memory. */
char *pawl__zk_value_format(const struct zk_value *value, int *ret_length);
/* False: a pawl did not write it. */
bool pawl__zk_value_parse(const char *data, int length, struct zk_value *ret);

/* ---- holder.c ------------------------------------------------------------------------------------------------------------- */

/* The path of the znode that holds `name` exclusively with this token, and is not broken; to be freed. NULL: *ret says why. The mutex
 * is held. */
char *pawl__zk_holder(struct zk_session *session, const char *name, uint64_t token, int64_t deadline, int *ret,
                      struct pawl_error *reterr);

/* ---- read.c --------------------------------------------------------------------------------------------------------------- */

/* No connection, or no answer, by the deadline. */
int pawl__zk_value_no_answer(const struct zk_session *session, const char *name, struct pawl_error *reterr);
/* Write, and change nothing: what is read behind it is no older than it (pawl__zk_caught_up). */
struct zk_call *pawl__zk_value_barrier(struct zk_session *session, const char *path);
/* An answer was lost, or the server too busy to give one: wait for a connection, or for a moment. False: the deadline has passed. */
bool pawl__zk_value_again(struct zk_session *session, int64_t deadline);
/* Make the directory of values. ZooKeeper's code; the answer that made it says what the servers' clock is. The mutex is held. */
int pawl__zk_value_directory(struct zk_session *session, int64_t deadline, struct Stat *ret);

/* ---- The seam: see struct pawl__values -------------------------------------------------------------------------------------- */

void pawl__zk_value_sign(struct pawl__engine *engine, struct pawl__claim *claim, struct pawl__author *ret);
int pawl__zk_value_set(struct pawl__engine *engine, const struct pawl__write *write, int64_t deadline, struct pawl__stamp *ret,
                       struct pawl_error *reterr);
int pawl__zk_value_get(struct pawl__engine *engine, const char *name, enum pawl__part part, enum pawl__fresh fresh,
                       int64_t deadline, struct pawl__value **ret, int64_t *retnow, struct pawl_error *reterr);

#endif
