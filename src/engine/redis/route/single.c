/* SPDX-License-Identifier: Apache-2.0
 *
 * single.c - there is one server, and the URL names it.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/route/route.h"
#include "base/error.h"

static void judge(struct server *server) {
    pawl__server_check(server);
    if (server->facts.in_cluster)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is one node of a cluster: write redis-cluster: instead of redis:");
}

bool pawl__single_heard(struct redis *redis, const struct wire_event *event) {
    (void)redis;
    if (event->kind == WIRE_GREETING && pawl__server_said(event->link->server, event->request->step, event->reply))
        judge(event->link->server);
    return false;
}

/* Have all of the server's addresses failed? Under Sentinel another server may take the place of one that is unreachable. */
static bool has_failed(const struct link *link) {
    struct addresses *addresses = link->server->addresses;

    if (!link->failures || !addresses)
        return link->failures;
    return !link->redis->traits.several && link->failures >= pawl__addresses_count(addresses);
}

/* Why there is no connection; NULL: that is not known yet. */
static const struct pawl_error *why_not(struct server *server, bool late) {
    const struct link *link;

    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        if (link->state != LINK_UP && (has_failed(link) || (late && link->why.code)))
            return &link->why;
    return NULL;
}

/* Where the URL asks for more replicas than there are no lock could be had. */
static int enough_replicas(const struct server *server, struct pawl_error *reterr) {
    const struct redis *redis = server->redis;

    if (!server->facts.known || server->facts.replicas >= redis->options.replicas)
        return 1;
    return pawl__fail(reterr, PAWL_EREPLICAS,
                      "%.200s has %u replicas, and the URL asks for %u: look at the replicas, or ask for fewer", redis->url,
                      server->facts.replicas, redis->options.replicas);
}

/* Some failures come with the first try; a server that is just starting gets the whole time. */
int pawl__single_ready(struct redis *redis, bool late, struct pawl_error *reterr) {
    struct server *server = TAILQ_FIRST(&redis->servers);
    const struct pawl_error *why;

    if (pawl__server_up(server))
        return enough_replicas(server, reterr);
    if ((why = why_not(server, late)))
        return pawl__fail(reterr, why->code, "%s", why->text);
    if (late)
        return pawl__fail(reterr, PAWL_ECONNLOST, "%.200s: %s within %lld ms", redis->url, pawl__link_missing(&server->commands),
                          (long long)(pawl__route_patience(redis) / REDIS_MS));
    return 0;
}

struct server *pawl__single_new(struct redis *redis, struct pawl_error *reterr) {
    struct server *server = pawl__server_new(redis, reterr);

    if (!server)
        return NULL;
    node_of(server)->wanted = true;
    node_of(server)->slot_count = REDIS_SLOTS;
    return server;
}

static int single_open(struct redis *redis, struct pawl_error *reterr) {
    const struct redis_options *options = &redis->options;
    struct server *server = pawl__single_new(redis, reterr);
    int rc;

    if (!server)
        return reterr->code;
    if (options->socket_path[0])
        return 0;
    if (!pawl__server_put_at(server, options->hosts[0].host, options->hosts[0].port))
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    if (!pawl__addresses_begin(server->addresses))
        return 0;
    rc = pawl__addresses_await(server->addresses, pawl__route_names_until(redis));
    return rc == 0 ? 0
                   : pawl__fail(reterr, PAWL_ECONNLOST, "the host '%.100s' of the URL is not known: %s", options->hosts[0].host,
                                gai_strerror(rc));
}

const struct route_kind pawl__route_single = {
    .open = single_open,
    .ready = pawl__single_ready,
    .heard = pawl__single_heard,
};
