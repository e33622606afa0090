/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_rig.h - what the services that are made of Redis servers share.
 */
#ifndef PAWL_TORTURE_REDIS_RIG_H
#define PAWL_TORTURE_REDIS_RIG_H

#include "servers.h"

struct proxy;

/* True, and said in servers->why: there is no redis-server. */
bool redis_missing(struct servers *servers);
/* A port and a proxy for each. */
bool redis_ports(struct servers *servers);
/* `more`: further lines. */
bool redis_write_config(struct servers *servers, int index, const char *more);
void redis_run(const struct servers *servers, int index);
bool redis_ready(struct servers *servers, int index);
/* Without its append-only file it comes back empty. */
void redis_forget(struct servers *servers, int index);
/* Ask one command; the answer as it came over the wire. False: none in time. */
bool redis_ask(const struct servers *servers, int index, char *answer, size_t size, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool redis_is_primary(const struct servers *servers, int index);
bool redis_flush(const struct servers *servers, int index);
/* Take a primary from the others, as the fault says: kill it, or cut it off from them, whose connections come from addresses of their own,
 * and from nobody else. `buses`: further proxies, one for each; may be NULL. */
void redis_depose(struct servers *servers, struct proxy *const *buses, enum fault fault, int index);
/* The cut is over. Returns how many connections had something to say meanwhile. */
unsigned redis_join(const struct servers *servers, struct proxy *const *buses);
/* While clients are idle: keys that would stay for ever. */
void redis_litter(struct servers *servers, residue_fn *found, void *data);
/* Keys that should not be there. */
void redis_residue_of(const struct servers *servers, int index, residue_fn *found, void *data);

#endif
