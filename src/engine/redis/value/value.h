/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - what lies beside locks.
 */
#ifndef PAWL_REDIS_VALUE_H
#define PAWL_REDIS_VALUE_H

#include "engine/engine.h"
#include "engine/redis/wire/wire.h"

/* value.c */
/* Does this answer of lua/write.lua say that it was written? Then also when, unless it was asked again; all but the token. */
bool pawl__redis_stamp(const redisReply *reply, struct pawl__stamp *ret);

extern const struct pawl__values pawl__redis_values;

#endif
