/* SPDX-License-Identifier: Apache-2.0
 *
 * raw.h - the server without the library: what a bare operation costs there, how many requests it has had, and how to leave it as it was.
 */
#ifndef PAWL_CLI_BENCH_RAW_H
#define PAWL_CLI_BENCH_RAW_H

#include "address.h"
#include "bench.h"

/* The bare operations, in the order of their rows. Those that are BUSY are of a client that looks for the answer for a while before it
 * sleeps, as the library does: like is to be compared with like. */
enum raw_act {
    RAW_TRIP,
    RAW_WRITE,
    RAW_READ,
    RAW_TRIP_BUSY,
    RAW_WRITE_BUSY,
    RAW_ACTS,
    RAW_MESSAGE = RAW_ACTS /* kept.c */,
    RAW_SET
};

struct raw_impl {
    const char *schemes[10];     /* of URLs; NULL at the end */
    const char *names[RAW_ACTS]; /* NULL: there is no such thing here */
    const char *message;         /* likewise: to another process, and its answer to that */
    const char *set;             /* likewise: what a value is written by, without the question whether the lock is held */
    /* Where the URL names those who know the servers: put the servers in their place. NULL: it never does. False: `why` says why not. */
    bool (*resolve)(struct address *address, char *why, size_t size);
    /* A connection of its own. `id` is what all names begin with. NULL: `why` says why not. */
    void *(*open)(const struct address *address, const char *id, char *why, size_t size);
    void (*close)(void *connection);
    /* One bare operation. Returns how long it took in ns; -1: it failed, or is not to be done. */
    int64_t (*act)(void *connection, enum raw_act act);
    /* Requests that all servers have had. -1: they don't tell. */
    double (*requests)(void *connection);
    void (*describe)(void *connection, char *out, size_t size);
    /* Remove all that begins with the id. False: something may have stayed. */
    bool (*clean)(void *connection);
};

struct raw {
    const struct raw_impl *impl;
    void *connection;
};

/* Once, before it is opened: from now on the address is that of the servers. False: `why` says why not. */
bool raw_resolve(struct address *address, char *why, size_t size);
/* NULL: not for this URL, or not now; `why` says it. */
struct raw *raw_open(const struct address *address, const char *id, char *why, size_t size);
void raw_close(struct raw *raw);

extern const struct raw_impl raw_local;
extern const struct raw_impl raw_redis;
extern const struct raw_impl raw_zookeeper;

#endif
