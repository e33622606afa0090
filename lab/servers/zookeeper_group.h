/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_group.h - one ZooKeeper, or an ensemble, and what they say of themselves.
 */
#ifndef PAWL_SERVERS_ZOOKEEPER_GROUP_H
#define PAWL_SERVERS_ZOOKEEPER_GROUP_H

#include "servers.h"
#include "zookeeper.h"

/* Which one leads? -1: none. */
int zookeeper_leader(const struct servers *servers);
/* The leader, once all serve; -1: they never do. */
int zookeeper_await_whole(struct servers *servers);

#endif
