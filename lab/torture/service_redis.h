/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redis.h - what the services that are made of Redis servers share.
 */
#ifndef PAWL_TORTURE_SERVICE_REDIS_H
#define PAWL_TORTURE_SERVICE_REDIS_H

#include "../servers/redis_group.h"
#include "service.h"

/* They write everything to their disk before they answer. */
#define REDIS_LINES "appendonly yes\nappendfsync always\n"

/* Without its append-only file it comes back empty. */
void redis_forget(struct servers *servers, int index);
bool redis_flush(const struct servers *servers, int index);
/* Take a primary from the others, as the fault says: kill it, or cut it off from them, whose connections come from addresses of their own,
 * and from nobody else. */
void redis_depose(struct servers *servers, enum fault fault, int index);
/* The cut is over. Returns how many connections had something to say meanwhile. */
unsigned redis_join(const struct servers *servers);
/* While clients are idle: keys that would stay for ever. */
void redis_litter(struct servers *servers, residue_fn *found, void *data);
/* Keys that should not be there. */
void redis_residue_of(const struct servers *servers, int index, residue_fn *found, void *data);

#endif
