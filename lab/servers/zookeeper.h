/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.h - servers of ZooKeeper, from Debian's jars: one, or an ensemble.
 */
#ifndef PAWL_SERVERS_ZOOKEEPER_H
#define PAWL_SERVERS_ZOOKEEPER_H

#include "servers.h"

/* NULL: it is here; else what to install. */
const char *zookeeper_missing(void);
/* Write what server number `index` starts with; `lines` are further lines of zoo.cfg, those of an ensemble among them. */
bool zookeeper_configure(const char *directory, int index, const char *address, unsigned port, const char *lines);
/* In a child: become the server of this directory. `options` of the Java machine, up to NULL. */
void zookeeper_become(const char *directory, const char *const *options);
/* What it calls its mode: "leader", "follower", "standalone", "read-only". "": it does not serve. The port opens before the database
 * is loaded: only its own word tells. */
void zookeeper_mode(const char *address, unsigned port, char *ret, size_t size);

/* ---- One of several ------------------------------------------------------------------------------------------------------- */

/* Which one leads? -1: none. */
int zookeeper_leader(const struct servers *servers);
/* The leader, once all serve; -1: they never do. */
int zookeeper_await_whole(struct servers *servers);

#endif
