/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.h - one ZooKeeper server, from Debian's jars, in a directory: what it is made of.
 */
#ifndef PAWL_SERVERS_ZOOKEEPER_H
#define PAWL_SERVERS_ZOOKEEPER_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: it is here; else what to install. */
const char *zookeeper_missing(void);
/* Write what server number `index` starts with; `lines` are further lines of zoo.cfg, those of an ensemble among them. */
bool zookeeper_configure(const char *directory, int index, const char *address, unsigned port, const char *lines);
/* In a child: become the server of this directory. `options` of the Java machine, up to NULL. */
void zookeeper_become(const char *directory, const char *const *options);
/* What it calls its mode: "leader", "follower", "standalone", "read-only". "": it does not serve. The port opens before the database
 * is loaded: only its own word tells. */
void zookeeper_mode(const char *address, unsigned port, char *ret, size_t size);

#endif
