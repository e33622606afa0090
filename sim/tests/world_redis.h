/* SPDX-License-Identifier: Apache-2.0
 *
 * world_redis.h - what stands behind tests/support/redis_server.h in the simulated world.
 */
#ifndef PAWL_SIM_WORLD_REDIS_H
#define PAWL_SIM_WORLD_REDIS_H

#include "../../tests/support/redis_server.h"
#include "../servers/redis.h"

/* For one that is made here: a port of its own, the true time, chance by the world's seed. */
struct redis_settings world_redis_settings(unsigned ports);
/* From now on `server` is this one, of a group that somebody else frees; its port and its name are known. It runs. */
void world_redis_place(struct redis_server *server, struct redis *redis);

#endif
