/* SPDX-License-Identifier: Apache-2.0
 *
 * route.c - what is the same for one server, for sentinels and for a cluster.
 */
#include <stdio.h>
#include <string.h>

#include "engine/redis/route/route.h"

int64_t pawl__route_names_until(const struct redis *redis) {
    const struct redis_options *options = &redis->options;

    return pawl__boottime() + (options->connect_ns < options->patience_ns ? options->connect_ns : options->patience_ns);
}

int64_t pawl__route_patience(const struct redis *redis) {
    int64_t patience = redis->options.connect_ns * (redis->traits.several ? 2 : 1);

    return patience < redis->options.patience_ns ? patience : redis->options.patience_ns;
}

/* CRC-16 with the polynomial 0x1021, as the cluster's specification has it. */
static unsigned crc16(const char *data, size_t length) {
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc & 0xffff;
}

unsigned pawl__route_key_slot(const char *key) {
    const char *open = strchr(key, '{'), *close = open ? strchr(open + 1, '}') : NULL;

    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOTS;
    return crc16(key, strlen(key)) % REDIS_SLOTS;
}

unsigned pawl__route_slot(const struct redis *redis, const char *name) {
    char key[REDIS_KEY_MAX];

    if (!redis->traits.sharded)
        return 0;
    snprintf(key, sizeof key, "%s%s", redis->options.prefix, name);
    return pawl__route_key_slot(key);
}

struct server *pawl__route_at(const struct redis *redis, unsigned slot) {
    struct server **slots = ((const struct route *)redis)->cluster.slots;

    return slots ? slots[slot] : TAILQ_FIRST(&redis->servers);
}

struct server *pawl__route_only(const struct redis *redis) {
    return redis->traits.sharded ? NULL : TAILQ_FIRST(&redis->servers);
}

struct server *pawl__route_server(const struct redis *redis, const char *name) {
    struct server *server = pawl__route_at(redis, pawl__route_slot(redis, name));

    return server ? server : TAILQ_FIRST(&redis->servers); /* it will say that nobody has the slot */
}

struct server *pawl__route_next(const struct redis *redis, const struct server *server) {
    struct server *next = server ? TAILQ_NEXT(server, entry) : TAILQ_FIRST(&redis->servers);

    while (next && !node_of(next)->slot_count)
        next = TAILQ_NEXT(next, entry);
    return next;
}

void pawl__route_want(struct server *server) {
    struct link *link;

    if (node_of(server)->wanted)
        return;
    node_of(server)->wanted = true;
    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        link->retry_at = 0;
    pawl__redis_due(server->redis, 0);
}

bool pawl__route_hopeful(struct server *server) {
    return server->redis->traits.sharded && pawl__server_failures(server) == 0;
}

bool pawl__route_hopeless(struct server *server) {
    return server->redis->traits.sharded && pawl__server_failures(server) > 0 && node_of(server)->wanted;
}
