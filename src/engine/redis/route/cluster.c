/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - which node has which slot, and what follows when that changes.
 *
 * A lock's keys and channels are in one slot, and a slot is at one primary at a time: route->slots says where, as far as we know. A node is
 * connected when a lock there is first asked for. The map is asked for (CLUSTER SLOTS) at open, when a node says that a slot has
 * moved, and when a node can't be reached; from any node that can, and from the next one if that is silent. What MOVED says counts at once.
 *
 * When a slot moves, its claims follow (lock/events.c): whatever was on its way to the old node counts no more, and is asked again at
 * the new one. Every request may be asked twice, so that nothing else is to be done; holds are renewed at once, to see that they are there.
 *
 * While a slot is being moved, key by key, scripts over several keys can't be run in it: where some keys are there and some are not
 * (and not all of a lock's keys always exist) both nodes say TRYAGAIN, or ASK. Only what finds all of its keys at the other side is
 * served there: renewals are (ASKING), everything else waits until the slot has moved.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/route/route.h"
#include "base/error.h"

/* The map is asked for at most so often; and from another node when there is no answer for so long. */
#define REFRESH_NS (200 * REDIS_MS)
#define SILENT_NS (500 * REDIS_MS)
/* More nodes than a cluster has that works: beyond that a place is taken from one that is not used. */
enum { NODES_MOST = 1000 };

/* ---- Slots -------------------------------------------------------------------------------------------------------------------- */

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

unsigned pawl__cluster_slot(const char *key) {
    const char *open = strchr(key, '{'), *close = open ? strchr(open + 1, '}') : NULL;

    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOTS;
    return crc16(key, strlen(key)) % REDIS_SLOTS;
}

unsigned pawl__cluster_slot_of(const struct redis *redis, const char *name) {
    char key[REDIS_KEY_MAX];

    snprintf(key, sizeof key, "%s%s", redis->options.prefix, name);
    return pawl__cluster_slot(key);
}

struct server *pawl__server_for(const struct redis *redis, const char *name) {
    struct server *server;

    if (!in_cluster(redis))
        return TAILQ_FIRST(&redis->servers);
    server = ((const struct route *)redis)->slots[pawl__cluster_slot_of(redis, name)];
    return server ? server : TAILQ_FIRST(&redis->servers); /* it will say that nobody has the slot */
}

/* ---- Nodes -------------------------------------------------------------------------------------------------------------------- */

static bool is_idle(struct server *server) {
    struct link *link;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        if (link->state != LINK_DOWN)
            return false;
    return !server->wanted && !server->slot_count && !server->users;
}

/* There are as many as there may be: one that was named once and is of no use, the latest first; those of the URL come first of all. */
static struct server *idle_node(struct redis *redis) {
    struct server *server;

    TAILQ_FOREACH_REVERSE(server, &redis->servers, server_list, entry) {
        if (is_idle(server))
            return server;
    }
    return NULL;
}

static struct server *node_at(struct redis *redis, const char *host, unsigned port) {
    struct pawl_error ignored;
    struct server *server;
    unsigned count = 0;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        count++;
        if (pawl__server_is_at(server, host, port))
            return server;
    }
    if (count >= NODES_MOST)
        return (server = idle_node(redis)) && pawl__server_put_at(server, host, port) ? server : NULL;
    server = pawl__server_new(redis, &ignored);
    if (server && !pawl__server_put_at(server, host, port)) {
        pawl__server_free(server);
        server = NULL;
    }
    return server;
}

void pawl__server_want(struct server *server) {
    struct link *link;

    if (server->wanted)
        return;
    server->wanted = true;
    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        link->retry_at = 0;
    pawl__redis_due(server->redis, 0);
}

/* A node without slots is of no use any more. */
static void leave_nodes(struct redis *redis) {
    struct server *server;
    struct link *link;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        if (!server->wanted || server->slot_count || server->users)
            continue;
        server->wanted = false;
        for (int i = 0; (link = pawl__server_link(server, i)); i++) {
            pawl__link_drop(link, PAWL_ECONNLOST, "it has no slots any more");
            link->retry_at = PAWL__NEVER;
            link->failures = 0;
        }
    }
}

void pawl__cluster_settle(struct redis *redis) {
    struct route *route = route_of(redis);

    if (route->remapped)
        leave_nodes(redis);
    route->remapped = false;
}

/* ---- The map -------------------------------------------------------------------------------------------------------------------- */

static void set_slot(struct redis *redis, unsigned slot, struct server *server) {
    struct route *route = route_of(redis);

    if (route->slots[slot])
        route->slots[slot]->slot_count--;
    route->slots[slot] = server;
    if (server)
        server->slot_count++;
}

/* One range of CLUSTER SLOTS' answer: first, last, {host, port, ...} of the primary, and of replicas. All ranges together have no more than
 * all slots. */
static void take_range(struct redis *redis, const struct server *from, const redisReply *range, unsigned *left) {
    const redisReply *primary;
    const char *host;
    struct server *server;
    int64_t last;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 || range->element[2]->type != REDIS_REPLY_ARRAY ||
        range->element[2]->elements < 2)
        return;
    primary = range->element[2];
    host = primary->element[0]->type == REDIS_REPLY_STRING ? primary->element[0]->str : "";
    if (strcmp(host, "?") == 0)
        return; /* it does not know itself */
    if (!host[0])
        host = pawl__addresses_host(from->addresses);
    server = node_at(redis, host, (unsigned)pawl__reply_number(primary, 1, 0));
    last = pawl__reply_number(range, 1, -1);
    for (int64_t slot = pawl__reply_number(range, 0, 0); server && slot >= 0 && slot <= last && slot < REDIS_SLOTS && *left;
         slot++) {
        set_slot(redis, (unsigned)slot, server);
        --*left;
    }
}

static void take_map(struct redis *redis, const struct server *from, const redisReply *reply) {
    struct route *route = route_of(redis);
    unsigned left = REDIS_SLOTS;

    route->uncovered = 0;
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        set_slot(redis, slot, NULL);
    for (size_t i = 0; i < reply->elements && i < REDIS_SLOTS && left; i++)
        take_range(redis, from, reply->element[i], &left);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        route->uncovered += !route->slots[slot];
    route->mapped = true;
    pawl__kit_note(&redis->kit, NULL, "CLUSTER SLOTS: %zu ranges, %u slots uncovered", reply->elements, route->uncovered);
    route->moved = route->remapped = true;
}

/* The answer of a node that was silent for long is older than that of one which was asked after it. */
static void map_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct route *route = route_of(redis);
    struct pawl_error why;

    if (request->step < route->map_turn_known) {
        freeReplyObject(reply);
        return;
    }
    route->map_turn_known = request->step;
    route->refresh_at = PAWL__NEVER;
    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        take_map(redis, request->server, reply);
    } else if (reply) {
        if (pawl__reply_class(reply, &why) == REPLY_OK)
            pawl__fail(&why, PAWL_EFORMAT, "the server's answer to CLUSTER SLOTS makes no sense");
        freeReplyObject(reply);
        pawl__link_drop(&request->server->commands, why.code == PAWL_EFORMAT ? PAWL_ETOPOLOGY : why.code, "it tells no slots: %s",
                        why.text);
        return;
    } else {
        pawl__cluster_refresh(redis);
    }
    freeReplyObject(reply);
}

void pawl__cluster_refresh(struct redis *redis) {
    struct route *route = route_of(redis);
    int64_t when = route->refreshed_at + REFRESH_NS;

    if (!in_cluster(redis) || redis->closing || route->refresh_at != PAWL__NEVER)
        return;
    route->refresh_at = when;
    pawl__redis_due(redis, when);
}

/* Is there an answer to come? */
static bool map_asked(const struct route *route) {
    return route->map_turn != route->map_turn_known;
}

void pawl__cluster_reached(struct redis *redis) {
    struct route *route = route_of(redis);

    if (!in_cluster(redis) || route->refresh_at == PAWL__NEVER || map_asked(route))
        return;
    route->refresh_at = 0; /* it can be asked now */
    pawl__redis_due(redis, 0);
}

static struct server *after(const struct redis *redis, const struct server *server) {
    struct server *next = server ? TAILQ_NEXT(server, entry) : NULL;

    return next ? next : TAILQ_FIRST(&redis->servers);
}

/* Go on along the list of nodes: to one that is connected, or else to the next, which could be. */
static struct server *next_node(struct redis *redis) {
    struct route *route = route_of(redis);
    struct server *first = after(redis, route->refresh_server), *server = first;

    while (server->commands.state != LINK_UP) {
        server = after(redis, server);
        if (server == first)
            break;
    }
    route->refresh_server = server;
    return server;
}

void pawl__cluster_tick(struct redis *redis, int64_t now) {
    struct route *route = route_of(redis);
    struct request request = {.answered = map_answered, .script = -1, .step = route->map_turn + 1};
    struct server *server;
    bool asked = false;

    if (!in_cluster(redis) || now < route->refresh_at)
        return;
    server = next_node(redis);
    route->refreshed_at = now;
    if (server->commands.state == LINK_UP)
        asked = pawl__link_say(&server->commands, 2, (const char *[]){"CLUSTER", "SLOTS"}, &request);
    else
        pawl__server_want(server); /* and then */
    route->map_turn += asked;
    route->refresh_at = now + (asked ? SILENT_NS : REFRESH_NS);
    pawl__redis_due(redis, route->refresh_at);
}

/* `MOVED SLOT HOST:PORT`, or ASK: the node that it names; NULL: none that makes sense. */
static struct server *named_node(struct redis *redis, const struct server *from, const char *text, unsigned *slot) {
    char host[256];
    const char *colon = strrchr(text, ':');
    int used = 0;
    size_t length;

    if (sscanf(text, "%*s %u %n", slot, &used) != 1 || !used || *slot >= REDIS_SLOTS || !colon || colon < text + used)
        return NULL;
    length = (size_t)(colon - text) - (size_t)used;
    if (length >= sizeof host)
        return NULL;
    memcpy(host, text + used, length);
    host[length] = '\0';
    return node_at(redis, length ? host : pawl__addresses_host(from->addresses), (unsigned)strtoul(colon + 1, NULL, 10));
}

bool pawl__cluster_moved(struct server *from, const redisReply *reply) {
    struct redis *redis = from->redis;
    struct server *server;
    unsigned slot;

    if (!in_cluster(redis) || !(server = named_node(redis, from, reply->str, &slot)))
        return false;
    pawl__kit_note(&redis->kit, NULL, "%.100s", reply->str);
    set_slot(redis, slot, server);
    route_of(redis)->moved = true;
    pawl__cluster_refresh(redis);
    return true;
}

struct server *pawl__cluster_asked(struct server *from, const redisReply *reply) {
    struct server *server;
    unsigned slot;

    if (!in_cluster(from->redis) || !(server = named_node(from->redis, from, reply->str, &slot)))
        return NULL;
    pawl__server_want(server);
    return server;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------------------- */

int pawl__cluster_setup(struct redis *redis, struct pawl_error *reterr) {
    struct route *route = route_of(redis);
    const struct redis_options *options = &redis->options;
    int64_t deadline = pawl__redis_names_until(options);
    struct server *server;

    route->refresh_at = 0;
    route->slots = calloc(REDIS_SLOTS, sizeof *route->slots);
    for (size_t i = 0; i < options->place_count; i++) {
        server = route->slots ? node_at(redis, options->places[i].host, options->places[i].port) : NULL;
        if (!server)
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        pawl__addresses_begin(server->addresses);
    }
    TAILQ_FOREACH(server, &redis->servers, entry) {
        pawl__addresses_await(server->addresses, deadline); /* one that is not known is one that can't be reached */
    }
    return 0;
}

const struct pawl_error *pawl__cluster_failed(struct redis *redis) {
    const struct pawl_error *why = NULL;
    struct server *server;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        if (!server->commands.failures)
            return NULL;
        why = &server->commands.why;
    }
    return why;
}
