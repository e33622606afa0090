/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.h - the engine for Redis: the objects, and who guards them. lock/lock.h has the life of a claim, and who reads.
 *
 *     struct claims         the engine, with its claims; it begins with                                             lock/lock.h
 *     struct route          where locks are: sentinels, the map of slots of a cluster; it begins with               route/route.h
 *     struct redis          options, servers                                                                        wire/wire.h
 *       struct server       a server                                                                                wire/server.c
 *         struct link       a connection: `commands`, `inbox` (a subscriber, where grants and breaks are pushed),   wire/link.c
 *                           and `replicas`, which counts those where the URL asks for them                          lock/secure.c
 *           struct request  something asked on `commands`, in the order in which the answers will come
 *       struct home         a server as claims see it: who reads its answers, what is renewed there, its clock      lock/home.c
 *       struct rclaim       a claim's state; it is at one home at a time                                            lock/claim.c
 *       struct watch        a lock that is observed                                                                 lock/observe.c
 *       struct subscription in a cluster: a channel of a lock that is waited for or held                            lock/listen.c
 *
 * No room calls one above it. What connections have to say is pulled (pawl__wire_next), at one place: lock/events.c.
 *
 * One mutex guards all of it; it is never held over a system call that blocks, an upcall, or a note.
 */
#ifndef PAWL_REDIS_H
#define PAWL_REDIS_H

#include "engine/redis/lock/lock.h"
#include "engine/redis/operator/operator.h"
#include "engine/redis/value/value.h"

#endif
