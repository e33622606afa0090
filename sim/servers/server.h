/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h - what a simulated server is to the world: bytes in, bytes out, and a clock that is handed in.
 *
 * A server never reads a clock, never sleeps and never opens a socket. The world (sim/world/net.c) carries the bytes on virtual time; the
 * differential tests carry them by function call and compare with a real server. Both provide link_send() and link_close().
 */
#ifndef PAWL_SIM_SERVER_H
#define PAWL_SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_NEVER INT64_MAX

/* A connection, as the server sees it. */
struct link;

/* Send to the client. A link that was closed or cut swallows it. */
void link_send(struct link *link, const void *bytes, size_t size);
/* Close it: what was sent before still arrives. No gone() follows. */
void link_close(struct link *link);

/* `now` is nanoseconds of true virtual time; it never goes back. */
struct server_ops {
    /* A client has connected. Returns what the server keeps of it: the `session` of the calls below. */
    void *(*accept)(void *server, struct link *link, int64_t now);
    /* Bytes have come; any cut of the stream into pieces. */
    void (*input)(void *server, void *session, const char *bytes, size_t size, int64_t now);
    /* The client has closed, or the connection was cut. The session and its link are no more. */
    void (*gone)(void *server, void *session, int64_t now);
    /* When tick() must be called; SERVER_NEVER. Asked again after every call. */
    int64_t (*due)(const void *server);
    void (*tick)(void *server, int64_t now);
};

/* A clock that may be wrong: what it shows is base + (now - since) * rate. */
struct server_clock {
    int64_t base, since; /* ns */
    double rate;         /* 1 is right */
};
static inline int64_t server_clock_read(const struct server_clock *clock, int64_t now) {
    if (clock->rate == 1)
        return clock->base + (now - clock->since);
    return clock->base + (int64_t)((double)(now - clock->since) * clock->rate);
}
/* From `now` on it is ahead by so much more, and runs at this rate. */
static inline void server_clock_set(struct server_clock *clock, int64_t now, int64_t jump_ns, double rate) {
    clock->base = server_clock_read(clock, now) + jump_ns;
    clock->since = now;
    clock->rate = rate;
}

#endif
