/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - a server: its connections, and what it says of itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/wire/wire.h"
#include "base/error.h"
#include "os/clock.h"

/* Before connections that led to different servers are made anew. */
#define STRAY_NS (200 * REDIS_MS)

void pawl__wire_init(struct redis *redis) {
    TAILQ_INIT(&redis->servers);
    TAILQ_INIT(&redis->links);
    TAILQ_INIT(&redis->speaking);
}

/* A random UUID, version 8: by that the scripts tell our owners from Redisson's, whose UUIDs are of version 4. */
int pawl__redis_uuid(char *ret, struct pawl_error *reterr) {
    unsigned char b[16];

    if (!pawl__random(b, sizeof b))
        return pawl__fail_errno(reterr, "cannot read random numbers");
    b[6] = (b[6] & 0x0f) | 0x80;
    b[8] = (b[8] & 0x3f) | 0x80;
    snprintf(ret, REDIS_UUID + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return 0;
}

struct server *pawl__server_new(struct redis *redis, struct pawl_error *reterr) {
    struct server *server = calloc(1, redis->server_size);

    if (!server) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    server->redis = redis;
    server->url = redis->url;
    if (redis->made(server) < 0) {
        pawl__fail_errno(reterr, "cannot create an eventfd");
        free(server);
        return NULL;
    }
    pawl__link_init(&server->commands, server, false, "commands");
    pawl__link_init(&server->inbox, server, true, "inbox");
    if (redis->options.replicas)
        pawl__link_init(&server->replicas, server, false, "replicas");
    server->link_count = redis->options.replicas ? 3 : 2;
    TAILQ_INSERT_TAIL(&redis->servers, server, entry);
    return server;
}

void pawl__server_close(struct server *server) {
    struct link *link;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        pawl__link_close(link);
}

void pawl__server_free(struct server *server) {
    struct link *link;

    TAILQ_REMOVE(&server->redis->servers, server, entry);
    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        pawl__link_free(link);
    server->redis->gone(server);
    pawl__addresses_put(server->addresses);
    free(server);
}

bool pawl__server_is_at(const struct server *server, const char *host, unsigned port) {
    return server->addresses && pawl__addresses_port(server->addresses) == port &&
           strcmp(pawl__addresses_host(server->addresses), host) == 0;
}

bool pawl__server_put_at(struct server *server, const char *host, unsigned port) {
    struct link *link;

    pawl__addresses_put(server->addresses);
    server->addresses = pawl__addresses_new(host, port);
    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        link->addresses = server->addresses;
    return server->addresses;
}

/* The connection that is not there, or the last one. */
static struct link *weakest(const struct server *server) {
    struct link *link, *last = NULL;

    for (int i = 0; (link = pawl__server_link((struct server *)server, i)); i++) {
        last = link;
        if (link->state != LINK_UP)
            break;
    }
    return last;
}

bool pawl__server_up(const struct server *server) {
    return weakest(server)->state == LINK_UP;
}

const char *pawl__server_errortext(const struct server *server) {
    const struct link *link = weakest(server);

    return link->why.code ? link->why.text : "the server is not connected yet";
}

int pawl__server_errorcode(const struct server *server) {
    return weakest(server)->why.code == PAWL_EACCES ? PAWL_EACCES : PAWL_ECONNLOST;
}

unsigned pawl__server_failures(struct server *server) {
    const struct link *link;
    unsigned most = 0;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        most = link->failures > most ? link->failures : most;
    return most;
}

/* Behind one name there may be several servers, and what one of them was told another does not know: how far a write has come, or who
 * listens. All connections are made anew then, since nobody knows which of the servers is the one; not at once, for it may be so again. */
bool pawl__server_is_one(struct server *server) {
    struct link *link;
    bool same = true;

    for (int i = 1; same && (link = pawl__server_link(server, i)); i++)
        same = !link->run_id[0] || !server->commands.run_id[0] || strcmp(link->run_id, server->commands.run_id) == 0;
    for (int i = 0; !same && (link = pawl__server_link(server, i)); i++) {
        pawl__link_drop(link, PAWL_ECONNLOST, "its connections lead to different servers: name one of them in the URL");
        link->retry_at = pawl__boottime() + STRAY_NS;
    }
    return same;
}

/* ---- What it says of itself ------------------------------------------------------------------------------------------------- */

static void take_info(struct server_facts *facts, const char *info) {
    char role[16], aof[8], replicas[16], cluster[8];

    pawl__reply_info(info, "redis_version", facts->version, sizeof facts->version);
    pawl__reply_info(info, "redis_mode", facts->mode, sizeof facts->mode);
    pawl__reply_info(info, "run_id", facts->run_id, sizeof facts->run_id);
    pawl__reply_info(info, "role", role, sizeof role);
    pawl__reply_info(info, "aof_enabled", aof, sizeof aof);
    pawl__reply_info(info, "connected_slaves", replicas, sizeof replicas);
    pawl__reply_info(info, "cluster_enabled", cluster, sizeof cluster);
    facts->in_cluster = strcmp(cluster, "1") == 0;
    facts->is_replica = strcmp(role, "slave") == 0;
    facts->replicas = (unsigned)strtoul(replicas, NULL, 10);
    facts->aof = strcmp(aof, "0") != 0;
    facts->known = true;
}

void pawl__server_check(struct server *server) {
    const struct server_facts *facts = &server->facts;

    if (strcmp(facts->mode, "sentinel") == 0)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is a sentinel: write redis-sentinel://HOST:PORT/NAME");
    else if (facts->is_replica)
        pawl__link_drop(&server->commands, PAWL_ECONNLOST,
                        "the server is a replica and takes no locks: name the primary in the URL");
    else if (facts->version[0] && atoi(facts->version) < 5)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the server's version is %s: pawl needs 5.0 or later", facts->version);
}

/* CONFIG GET's answer: name and value. */
static const char *config_value(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || reply->element[1]->type != REDIS_REPLY_STRING)
        return NULL;
    return reply->element[1]->str;
}

bool pawl__server_said(struct server *server, int step, const redisReply *reply) {
    struct server_facts *facts = &server->facts;
    const char *value = config_value(reply);

    if (step == GREET_CHECK && reply->type == REDIS_REPLY_STRING) {
        take_info(facts, reply->str);
        pawl__kit_note(&server->redis->kit, NULL, "server: version %s, %s", facts->version, facts->is_replica ? "slave" : "master");
        return true;
    }
    if (step == GREET_CHECK + 1 && value)
        snprintf(facts->policy, sizeof facts->policy, "%s", value);
    else if (step == GREET_CHECK + 2 && value)
        facts->min_replicas = (unsigned)strtoul(value, NULL, 10);
    return false;
}
