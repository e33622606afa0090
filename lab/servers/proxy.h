/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.h - a hand on the wire: a TCP proxy before a real server on loopback, for the rig and for tests. It cuts, holds back, delays,
 * drops, and counts what it did.
 *
 * It knows no protocol: a test that wants to judge messages gives it a function that finds where one ends, and one that says what
 * becomes of each.
 */
#ifndef PAWL_TORTURE_PROXY_H
#define PAWL_TORTURE_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

enum proxy_side { PROXY_CLIENT, PROXY_SERVER }; /* who sent it */

enum proxy_verdict {
    PROXY_PASS,
    PROXY_DROP,       /* swallow this message */
    PROXY_CUT_BEFORE, /* swallow it and close the connection */
    PROXY_CUT_AFTER,  /* pass it on, then close the connection */
};

/* The length of the first message in `bytes`; 0: it is not complete yet. NULL as the function: each chunk is one message. */
typedef size_t proxy_frame_fn(enum proxy_side from, const unsigned char *bytes, size_t length);
/* What becomes of a message. `connection` counts from 1. Runs on the proxy's thread. */
typedef enum proxy_verdict proxy_judge_fn(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                          size_t length);

/* In front of 127.0.0.1:target, on a port of its own of loopback. Without `judge` everything passes. NULL: it can't be. */
struct proxy *proxy_new(unsigned target, proxy_frame_fn *frame, proxy_judge_fn *judge, void *data);
/* The same on all addresses, and without a judge: for clients in other networks. */
struct proxy *proxy_new_for_all(unsigned target);
void proxy_free(struct proxy *proxy);
unsigned proxy_port(const struct proxy *proxy);

/* ---- What tests do -------------------------------------------------------------------------------------------------------- */

/* Close all connections. */
void proxy_cut(struct proxy *proxy);
/* New connections lead to this port of loopback. */
void proxy_aim(struct proxy *proxy, unsigned target);
/* New connections are closed at once. */
void proxy_refuse(struct proxy *proxy, bool refuse);
/* Both: nobody is connected, nor can be, until told otherwise. */
void proxy_isolate(struct proxy *proxy, bool isolate);
/* Connections stay open and nothing goes through, old ones and new: half-open. What was sent meanwhile comes through afterwards. */
void proxy_freeze(struct proxy *proxy, bool freeze);
/* Every message from the server comes so much later. */
void proxy_delay(struct proxy *proxy, int64_t ms);
/* Once: of the next answer on a connection whose latest request contains `text`, pass nothing on, and close that connection. */
void proxy_drop_answer_to(struct proxy *proxy, const char *text);
/* Was that answer dropped by now? */
bool proxy_dropped(struct proxy *proxy);
/* How many connections there have been. */
unsigned proxy_connections(struct proxy *proxy);

/* ---- What the rig does ---------------------------------------------------------------------------------------------------- */

enum proxy_fault {
    PROXY_FAULT_NONE,
    PROXY_FAULT_CUT,     /* connections are reset, and new ones too as long as it lasts */
    PROXY_FAULT_FREEZE,  /* connections stay, new ones are taken, nothing goes through: half-open */
    PROXY_FAULT_SLOW,    /* everything comes later */
    PROXY_FAULT_ANSWERS, /* what the server says comes later */
    PROXY_FAULT_REORDER, /* every answer comes later by another time: over one connection in order, over several not */
};

/* Where servers come from that connect to each other through proxies: number i from 127.0.0.(PROXY_SOURCE + i). */
enum { PROXY_SOURCE = 10 };

/* Begin. `share`: of the connections, numbered as they came, one in so many (1: all), those with this remainder. */
void proxy_begin(struct proxy *proxy, enum proxy_fault fault, unsigned share, unsigned remainder, int64_t delay_ms);
/* Freeze all that comes from some servers, by a bit for each number, and leave the others alone. */
void proxy_part(struct proxy *proxy, uint32_t sources);
/* Back to normal. Returns how often it took effect meanwhile: connections cut, messages held back or delayed. */
unsigned proxy_end(struct proxy *proxy);
/* How many connections there are from an address, in the order of bytes of this machine. */
unsigned proxy_count_from(struct proxy *proxy, uint32_t address);

#endif
