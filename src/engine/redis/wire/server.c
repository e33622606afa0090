/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - a server: its connections, and what changes when they come and go.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redis/redis.h"
#include "os/descriptor.h"
#include "base/error.h"

/* Before connections that led to different servers are made anew. */
#define STRAY_NS (200 * REDIS_MS)

struct server *pawl__server_new(struct redis *redis, struct pawl_error *reterr) {
    struct server *server = calloc(1, sizeof(struct home));
    struct link *link;

    if (!server) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    server->redis = redis;
    home_of(server)->read_bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (home_of(server)->read_bell < 0) {
        pawl__fail_errno(reterr, "no descriptors can be had");
        free(server);
        return NULL;
    }
    pawl__spin_init(&home_of(server)->spin, redis->options.spin_ns);
    TAILQ_INIT(&home_of(server)->to_renew);
    pawl__kit_reader_init(&home_of(server)->reader);
    TAILQ_INIT(&home_of(server)->to_secure);
    TAILQ_INIT(&home_of(server)->in_round);
    pawl__link_init(&server->commands, server, false, "commands");
    pawl__link_init(&server->inbox, server, true, "inbox");
    pawl__link_init(&server->witness, server, false, "witness");
    pawl__link_init(&server->guide, server, true, "sentinel");
    for (int i = 0; in_cluster(redis) && (link = pawl__server_link(server, i)); i++)
        link->retry_at = PAWL__NEVER; /* until it is wanted */
    TAILQ_INSERT_TAIL(&redis->servers, server, entry);
    return server;
}

void pawl__server_free(struct server *server) {
    TAILQ_REMOVE(&server->redis->servers, server, entry);
    pawl__link_free(&server->commands);
    pawl__link_free(&server->inbox);
    pawl__link_free(&server->witness);
    pawl__link_free(&server->guide);
    close(home_of(server)->read_bell);
    pawl__addresses_put(server->addresses);
    free(server);
}

struct link *pawl__server_link(struct server *server, int i) {
    const struct redis_options *options = &server->redis->options;
    struct link *links[] = {&server->commands, &server->inbox, options->replicas ? &server->witness : NULL,
                            options->topology == TOPOLOGY_SENTINEL ? &server->guide : NULL};

    for (size_t j = 0; j < sizeof links / sizeof links[0]; j++)
        if (links[j] && i-- == 0)
            return links[j];
    return NULL;
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
        if (link != &server->guide)
            link->addresses = server->addresses;
    return server->addresses;
}

/* The connection that is not there, or the last one. */
static struct link *weakest(const struct server *server) {
    struct link *link, *last = NULL;

    for (int i = 0; (link = pawl__server_link((struct server *)server, i)) && link != &server->guide; i++) {
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

static unsigned most_failures(struct server *server) {
    const struct link *link;
    unsigned most = 0;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        most = link->failures > most ? link->failures : most;
    return most;
}

void pawl__redis_set_link(struct redis *redis) {
    struct server *server;
    bool cluster = in_cluster(redis);
    int code = 0;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        if (cluster && (!server->wanted || !server->slot_count))
            continue;
        if (!pawl__server_up(server))
            code = PAWL_ECONNLOST;
        else if (!code && home_of(server)->replicas_short)
            code = PAWL_EREPLICAS;
    }
    atomic_store(&redis->base.link, code);
}

bool pawl__server_hopeful(struct server *server) {
    return in_cluster(server->redis) && most_failures(server) == 0;
}

/* Behind one name there may be several servers, and what one of them was told another does not know: how far a write has come, or who
 * listens. All connections are made anew then, since nobody knows which of the servers is the one; not at once, for it may be so again. */
static bool same_server(struct server *server) {
    struct link *link;
    bool same = true;

    for (int i = 1; same && (link = pawl__server_link(server, i)) && link != &server->guide; i++)
        same = !link->run_id[0] || !server->commands.run_id[0] || strcmp(link->run_id, server->commands.run_id) == 0;
    for (int i = 0; !same && (link = pawl__server_link(server, i)) && link != &server->guide; i++) {
        pawl__link_drop(link, PAWL_ECONNLOST, "its connections lead to different servers: name one of them in the URL");
        link->retry_at = pawl__boottime() + STRAY_NS;
    }
    return same;
}

void pawl__server_changed(struct server *server) {
    struct redis *redis = server->redis;
    bool up = pawl__server_up(server);

    redis->kit.wakes = true;
    if (up && !same_server(server))
        return;
    pawl__secure_anew(home_of(server));
    pawl__redis_set_link(redis);
    pawl__home_kick_reader(home_of(server));
    pthread_cond_broadcast(&redis->called); /* somebody may wait for the node */
    if (!up && in_cluster(redis) && server->wanted && most_failures(server)) {
        pawl__cluster_refresh(redis);
        pawl__claims_refuse_tries(home_of(server));
    }
    if (up) {
        home_of(server)->gave_up = false;
        pawl__push_track(home_of(server));
    } else if (redis->options.retry_tries && most_failures(server) >= redis->options.retry_tries) {
        home_of(server)->gave_up = true;
        pawl__claims_give_up(home_of(server));
    }
    if (server->commands.state == LINK_UP) {
        pawl__cluster_reached(redis);
        pawl__claims_drive(home_of(server));
        pawl__renew_flush(home_of(server));
    }
}
