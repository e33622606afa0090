/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - which node has which slot, and what follows when that changes.
 *
 * A lock's keys and channels are in one slot, and a slot is at one primary at a time: `slots` says where, as far as we know. A node is
 * connected when a lock there is first asked for. The map is asked for (CLUSTER SLOTS) at open, when a node says that a slot has
 * moved, and when a node can't be reached; from any node that can, and from the next one if that is silent. What MOVED says counts at once.
 *
 * When a slot moves, its claims follow (lock/events.c): a request on its way to the old node counts no more, and is asked again at
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
#include "os/clock.h"

/* The map is asked for at most so often; and from another node when there is no answer for so long. */
#define REFRESH_NS (200 * REDIS_MS)
#define SILENT_NS (500 * REDIS_MS)
/* More nodes than a cluster has that works: beyond that a place is taken from one that is not used. */
enum { NODES_MAX = 1000 };

/* ---- Nodes -------------------------------------------------------------------------------------------------------------------- */

static bool is_idle(struct server *server) {
    struct link *link;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        if (link->state != LINK_DOWN)
            return false;
    return !node_of(server)->wanted && !node_of(server)->slot_count && !server->users;
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
    if (count >= NODES_MAX)
        return (server = idle_node(redis)) && pawl__server_put_at(server, host, port) ? server : NULL;
    server = pawl__server_new(redis, &ignored);
    if (server && !pawl__server_put_at(server, host, port)) {
        pawl__server_free(server);
        server = NULL;
    }
    for (int i = 0; server && i < server->link_count; i++)
        server->links[i].retry_at = PAWL__NEVER; /* until it is wanted */
    return server;
}

/* A node without slots is of no use any more. */
static void leave_nodes(struct redis *redis) {
    struct server *server;
    struct link *link;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        if (!node_of(server)->wanted || node_of(server)->slot_count || server->users)
            continue;
        node_of(server)->wanted = false;
        for (int i = 0; (link = pawl__server_link(server, i)); i++) {
            pawl__link_drop(link, PAWL_ECONNLOST, "it has no slots any more");
            link->retry_at = PAWL__NEVER;
            link->failures = 0;
        }
    }
}

void pawl__cluster_settle(struct redis *redis) {
    struct cluster_route *cluster = &route_of(redis)->cluster;

    if (cluster->remapped)
        leave_nodes(redis);
    cluster->remapped = false;
}

/* ---- The map -------------------------------------------------------------------------------------------------------------------- */

static void set_slot(struct redis *redis, unsigned slot, struct server *server) {
    struct cluster_route *cluster = &route_of(redis)->cluster;

    if (cluster->slots[slot])
        node_of(cluster->slots[slot])->slot_count--;
    cluster->slots[slot] = server;
    if (server)
        node_of(server)->slot_count++;
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
    struct cluster_route *cluster = &route_of(redis)->cluster;
    unsigned left = REDIS_SLOTS;

    cluster->uncovered = 0;
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        set_slot(redis, slot, NULL);
    for (size_t i = 0; i < reply->elements && i < REDIS_SLOTS && left; i++)
        take_range(redis, from, reply->element[i], &left);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        cluster->uncovered += !cluster->slots[slot];
    cluster->mapped = true;
    pawl__kit_note(&redis->kit, NULL, "CLUSTER SLOTS: %zu ranges, %u slots uncovered", reply->elements, cluster->uncovered);
    cluster->moved = cluster->remapped = true;
}

/* The answer of a node that was silent for long is older than that of one which was asked after it. */
static void map_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct cluster_route *cluster = &route_of(redis)->cluster;
    struct pawl_error why;

    if (request->step < cluster->map_turn_known) {
        freeReplyObject(reply);
        return;
    }
    cluster->map_turn_known = request->step;
    route_of(redis)->due = PAWL__NEVER;
    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        take_map(redis, request->server, reply);
    } else if (reply) {
        if (pawl__reply_class(reply, &why) == REPLY_OK)
            pawl__fail(&why, PAWL_EFORMAT,
                       "the server's answer to CLUSTER SLOTS is of no known form: check that the URL names a Redis server itself");
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
    struct cluster_route *cluster = &route_of(redis)->cluster;
    int64_t when = cluster->refreshed_at + REFRESH_NS;

    if (!cluster->slots || redis->closing || route_of(redis)->due != PAWL__NEVER)
        return;
    route_of(redis)->due = when;
    pawl__redis_due(redis, when);
}

/* Is there an answer to come? */
static bool map_asked(const struct cluster_route *cluster) {
    return cluster->map_turn != cluster->map_turn_known;
}

/* A node is connected. */
static void reached(struct redis *redis) {
    struct cluster_route *cluster = &route_of(redis)->cluster;

    if (route_of(redis)->due == PAWL__NEVER || map_asked(cluster))
        return;
    route_of(redis)->due = 0; /* it can be asked now */
    pawl__redis_due(redis, 0);
}

static struct server *after(const struct redis *redis, const struct server *server) {
    struct server *next = server ? TAILQ_NEXT(server, entry) : NULL;

    return next ? next : TAILQ_FIRST(&redis->servers);
}

/* Go on along the list of nodes: to one that is connected, or else to the next, which could be. */
static struct server *next_node(struct redis *redis) {
    struct cluster_route *cluster = &route_of(redis)->cluster;
    struct server *first = after(redis, cluster->refresh_server), *server = first;

    while (server->commands.state != LINK_UP) {
        server = after(redis, server);
        if (server == first)
            break;
    }
    cluster->refresh_server = server;
    return server;
}

static void cluster_tick(struct redis *redis, int64_t now) {
    struct cluster_route *cluster = &route_of(redis)->cluster;
    struct request request = {.answered = map_answered, .script = -1, .step = cluster->map_turn + 1};
    struct server *server;
    bool asked = false;

    if (now < route_of(redis)->due)
        return;
    server = next_node(redis);
    cluster->refreshed_at = now;
    if (server->commands.state == LINK_UP)
        asked = pawl__link_say(&server->commands, 2, (const char *[]){"CLUSTER", "SLOTS"}, &request);
    else
        pawl__route_want(server); /* and then */
    cluster->map_turn += asked;
    route_of(redis)->due = now + (asked ? SILENT_NS : REFRESH_NS);
    pawl__redis_due(redis, route_of(redis)->due);
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

bool pawl__cluster_moved(struct server *from, const redisReply *reply, struct pawl_error *why) {
    struct redis *redis = from->redis;
    struct server *server;
    unsigned slot;

    if (!redis->traits.sharded || !(server = named_node(redis, from, reply->str, &slot)))
        return false;
    pawl__kit_note(&redis->kit, NULL, "%.100s", reply->str);
    set_slot(redis, slot, server);
    route_of(redis)->cluster.moved = true;
    pawl__cluster_refresh(redis);
    pawl__fail(why, PAWL_ECONNLOST, "the server said '%.100s', and the node that it names has not answered yet: wait", reply->str);
    return true;
}

struct server *pawl__cluster_asked(struct server *from, const redisReply *reply) {
    struct server *server;
    unsigned slot;

    if (!from->redis->traits.sharded || !(server = named_node(from->redis, from, reply->str, &slot)))
        return NULL;
    pawl__route_want(server);
    return server;
}

struct server *pawl__cluster_again(struct server *from, const redisReply *reply, enum reply_class class, struct pawl_error *why) {
    struct server *other = NULL;

    if (!from->redis->traits.sharded)
        return NULL;
    if (class == REPLY_MOVED) {
        pawl__redis_lock(from->redis);
        if (pawl__cluster_moved(from, reply, why))
            other = pawl__cluster_asked(from, reply);
        pawl__redis_unlock(from->redis);
        return other;
    }
    if (class != REPLY_ASK && class != REPLY_AGAIN)
        return NULL;
    pawl__pause(50 * PAWL__NS_PER_MS); /* until the slot has moved */
    return from;
}

/* ---- Nodes' own words ----------------------------------------------------------------------------------------------------------- */

/* Replicas know the cluster, too; and channels have slots since 7.0. */
static void judge(struct server *server) {
    const struct server_facts *facts = &server->facts;

    if (!facts->in_cluster)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is not part of a cluster: write redis: instead of redis-cluster:");
    else if (facts->version[0] && atoi(facts->version) < 7)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the node's version is %s: in a cluster pawl needs 7.0 or later",
                        facts->version);
}

static bool cluster_heard(struct redis *redis, const struct wire_event *event) {
    struct server *server = event->link->server;

    if (event->kind == WIRE_GREETING && pawl__server_said(server, event->request->step, event->reply))
        judge(server);
    if (event->kind != WIRE_UP && event->kind != WIRE_DOWN)
        return false;
    if (!pawl__server_up(server) && node_of(server)->wanted && pawl__server_failures(server))
        pawl__cluster_refresh(redis);
    if (server->commands.state == LINK_UP)
        reached(redis);
    return false;
}

/* ---- Opening -------------------------------------------------------------------------------------------------------------------- */

static int cluster_open(struct redis *redis, struct pawl_error *reterr) {
    struct cluster_route *cluster = &route_of(redis)->cluster;
    const struct redis_options *options = &redis->options;
    int64_t deadline = pawl__route_names_until(redis);
    struct server *server;

    route_of(redis)->due = 0;
    cluster->slots = calloc(REDIS_SLOTS, sizeof *cluster->slots);
    for (size_t i = 0; i < options->host_count; i++) {
        server = cluster->slots ? node_at(redis, options->hosts[i].host, options->hosts[i].port) : NULL;
        if (!server)
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        pawl__addresses_begin(server->addresses);
    }
    TAILQ_FOREACH(server, &redis->servers, entry) {
        pawl__addresses_await(server->addresses, deadline); /* one that is not known is one that can't be reached */
    }
    return 0;
}

/* Have all of the nodes that are known failed? Then why the last one did; else NULL. */
static const struct pawl_error *all_failed(const struct redis *redis) {
    const struct pawl_error *why = NULL;
    struct server *server;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        if (!server->commands.failures)
            return NULL;
        why = &server->commands.why;
    }
    return why;
}

/* Once a node has told the map. */
static int cluster_ready(struct redis *redis, bool late, struct pawl_error *reterr) {
    const struct cluster_route *cluster = &route_of(redis)->cluster;
    const struct pawl_error *why = cluster->mapped ? NULL : all_failed(redis);

    if (why)
        return pawl__fail(reterr, why->code, "%s", why->text);
    if (!cluster->mapped && late)
        return pawl__fail(reterr, PAWL_ECONNLOST, "%.200s: none of the %zu nodes answers", redis->url, redis->options.host_count);
    if (cluster->mapped && cluster->uncovered)
        return pawl__fail(reterr, PAWL_ETOPOLOGY, "%.200s: %u of the cluster's %d slots have no primary: see CLUSTER INFO",
                          redis->url, cluster->uncovered, REDIS_SLOTS);
    return cluster->mapped;
}

const struct route_kind pawl__route_cluster = {
    .traits = {.several = true, .sharded = true, .lock_channels = true},
    .open = cluster_open,
    .ready = cluster_ready,
    .heard = cluster_heard,
    .tick = cluster_tick,
};
