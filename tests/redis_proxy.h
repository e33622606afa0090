/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_proxy.h - a TCP proxy on loopback, in a thread of the test's own, that can be told to misbehave.
 */
#ifndef PAWL_REDIS_PROXY_H
#define PAWL_REDIS_PROXY_H

#include <stdbool.h>
#include <stddef.h>

struct proxy;

/* Listen on a free port of loopback and forward to `port`. */
struct proxy *proxy_new(unsigned port);
void proxy_free(struct proxy *proxy);
unsigned proxy_port(const struct proxy *proxy);

/* Close all connections, and refuse new ones until told otherwise. */
void proxy_cut(struct proxy *proxy, bool cut);
/* Half-open: connections stay, and new ones are accepted, but nothing is forwarded in either direction. What comes meanwhile is kept. */
void proxy_freeze(struct proxy *proxy, bool frozen);
/* Forward answers only so many ms after they came. */
void proxy_delay(struct proxy *proxy, unsigned ms);
/* Once: of the next answer on a connection whose latest request contains `text`, forward nothing, and close that connection. */
void proxy_drop_answer_to(struct proxy *proxy, const char *text);
/* Was that answer dropped by now? */
bool proxy_dropped(struct proxy *proxy);
/* How many connections were accepted so far. */
unsigned proxy_accepted(struct proxy *proxy);

#endif
