/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.h - the rig's hand on the wire: a TCP proxy before a server that cuts, holds back and delays, and counts what it did.
 */
#ifndef PAWL_TORTURE_PROXY_H
#define PAWL_TORTURE_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;

enum mischief {
    MISCHIEF_NONE,
    MISCHIEF_CUT,     /* connections are reset, and new ones too as long as it lasts */
    MISCHIEF_FREEZE,  /* connections stay, new ones are taken, nothing goes through: half-open */
    MISCHIEF_SLOW,    /* everything comes later */
    MISCHIEF_REORDER, /* every answer comes later by another time: over one connection in order, over several not */
};

/* In front of 127.0.0.1:target; on all addresses, on a port of its own. NULL: it can't be. */
struct proxy *proxy_new(unsigned target);
void proxy_free(struct proxy *proxy);
unsigned proxy_port(const struct proxy *proxy);

/* Where servers come from that connect to each other through proxies: number i from 127.0.0.(PROXY_SOURCE + i). */
enum { PROXY_SOURCE = 10 };

/* Begin. `share`: of the connections, numbered as they came, one in so many (1: all), those with this remainder. */
void proxy_begin(struct proxy *proxy, enum mischief mischief, unsigned share, unsigned remainder, int64_t delay_ms);
/* Freeze all that comes from some servers, by a bit for each number, and leave the others alone. */
void proxy_part(struct proxy *proxy, uint32_t sources);
/* How many connections there are from an address, in the order of bytes of this machine. */
unsigned proxy_count_from(struct proxy *proxy, uint32_t address);
/* Back to normal. Returns how often it took effect meanwhile: connections cut, messages held back or delayed. */
unsigned proxy_end(struct proxy *proxy);

#endif
