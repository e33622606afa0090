/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_network.h - for tests that cut a follower off from its leader, by the network, while its clients still reach it. In an ensemble
 * of three it is server 0: the one with the lowest number never leads, as long as all have the same data.
 */
#ifndef PAWL_ZOOKEEPER_NETWORK_H
#define PAWL_ZOOKEEPER_NETWORK_H

#include "zookeeper_server.h"

enum { FOLLOWER = 0 };

/* Before the servers are started, as `how` says then. NULL: it can be done; else why not. */
const char *zookeeper_network_prepare(struct zookeeper_how *how);
/* Cut the follower off; join it again. */
void zookeeper_network_cut(struct zookeeper_server *server);
void zookeeper_network_mend(struct zookeeper_server *server);

#endif
