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

struct node *pawl__node_new(struct redis *redis, struct pawl_error *reterr) {
    struct node *node = calloc(1, sizeof *node);
    struct link *link;

    if (!node) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    node->redis = redis;
    node->lead_fd = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (node->lead_fd < 0) {
        pawl__fail_errno(reterr, "no descriptors can be had");
        free(node);
        return NULL;
    }
    pawl__spin_init(&node->spin, redis->options.spin_ns);
    TAILQ_INIT(&node->to_renew);
    TAILQ_INIT(&node->followers);
    TAILQ_INIT(&node->to_secure);
    TAILQ_INIT(&node->in_round);
    pawl__link_init(&node->commands, node, false, "commands");
    pawl__link_init(&node->inbox, node, true, "inbox");
    pawl__link_init(&node->witness, node, false, "witness");
    pawl__link_init(&node->guide, node, true, "sentinel");
    for (int i = 0; in_cluster(redis) && (link = pawl__node_link(node, i)); i++)
        link->retry_at = PAWL__NEVER; /* until it is wanted */
    TAILQ_INSERT_TAIL(&redis->nodes, node, entry);
    return node;
}

void pawl__node_free(struct node *node) {
    TAILQ_REMOVE(&node->redis->nodes, node, entry);
    pawl__link_free(&node->commands);
    pawl__link_free(&node->inbox);
    pawl__link_free(&node->witness);
    pawl__link_free(&node->guide);
    close(node->lead_fd);
    pawl__addresses_put(node->addresses);
    free(node);
}

struct link *pawl__node_link(struct node *node, int i) {
    const struct redis_options *options = &node->redis->options;
    struct link *links[] = {&node->commands, &node->inbox, options->replicas ? &node->witness : NULL,
                            options->topology == TOPOLOGY_SENTINEL ? &node->guide : NULL};

    for (size_t j = 0; j < sizeof links / sizeof links[0]; j++)
        if (links[j] && i-- == 0)
            return links[j];
    return NULL;
}

bool pawl__node_is_at(const struct node *node, const char *host, unsigned port) {
    return node->addresses && pawl__addresses_port(node->addresses) == port &&
           strcmp(pawl__addresses_host(node->addresses), host) == 0;
}

bool pawl__node_put_at(struct node *node, const char *host, unsigned port) {
    struct link *link;

    pawl__addresses_put(node->addresses);
    node->addresses = pawl__addresses_new(host, port);
    for (int i = 0; (link = pawl__node_link(node, i)); i++)
        if (link != &node->guide)
            link->addresses = node->addresses;
    return node->addresses;
}

/* The connection that is not there, or the last one. */
static struct link *weakest(const struct node *node) {
    struct link *link, *last = NULL;

    for (int i = 0; (link = pawl__node_link((struct node *)node, i)) && link != &node->guide; i++) {
        last = link;
        if (link->state != LINK_UP)
            break;
    }
    return last;
}

bool pawl__node_up(const struct node *node) {
    return weakest(node)->state == LINK_UP;
}

const char *pawl__node_errortext(const struct node *node) {
    const struct link *link = weakest(node);

    return link->why.code ? link->why.text : "the server is not connected yet";
}

int pawl__node_errorcode(const struct node *node) {
    return weakest(node)->why.code == PAWL_EACCES ? PAWL_EACCES : PAWL_ECONNLOST;
}

static unsigned most_failures(struct node *node) {
    const struct link *link;
    unsigned most = 0;

    for (int i = 0; (link = pawl__node_link(node, i)); i++)
        most = link->failures > most ? link->failures : most;
    return most;
}

void pawl__redis_set_link(struct redis *redis) {
    struct node *node;
    bool cluster = in_cluster(redis);
    int code = 0;

    TAILQ_FOREACH(node, &redis->nodes, entry) {
        if (cluster && (!node->wanted || !node->slot_count))
            continue;
        if (!pawl__node_up(node))
            code = PAWL_ECONNLOST;
        else if (!code && node->replicas_short)
            code = PAWL_EREPLICAS;
    }
    atomic_store(&redis->base.link, code);
}

bool pawl__node_hopeful(struct node *node) {
    return in_cluster(node->redis) && most_failures(node) == 0;
}

/* Behind one name there may be several servers, and what one of them was told another does not know: how far a write has come, or who
 * listens. All connections are made anew then, since nobody knows which of the servers is the one; not at once, for it may be so again. */
static bool same_server(struct node *node) {
    struct link *link;
    bool same = true;

    for (int i = 1; same && (link = pawl__node_link(node, i)) && link != &node->guide; i++)
        same = !link->run_id[0] || !node->commands.run_id[0] || strcmp(link->run_id, node->commands.run_id) == 0;
    for (int i = 0; !same && (link = pawl__node_link(node, i)) && link != &node->guide; i++) {
        pawl__link_drop(link, PAWL_ECONNLOST, "its connections lead to different servers: name one of them in the URL");
        link->retry_at = pawl__boottime() + STRAY_NS;
    }
    return same;
}

void pawl__node_changed(struct node *node) {
    struct redis *redis = node->redis;
    bool up = pawl__node_up(node);

    redis->wake_service = true;
    if (up && !same_server(node))
        return;
    pawl__secure_anew(node);
    pawl__redis_set_link(redis);
    pawl__node_kick_leader(node);
    pthread_cond_broadcast(&redis->called); /* somebody may wait for the node */
    if (!up && in_cluster(redis) && node->wanted && most_failures(node)) {
        pawl__cluster_refresh(redis);
        pawl__claims_refuse_tries(node);
    }
    if (up) {
        node->gave_up = false;
        pawl__push_track(node);
    } else if (redis->options.retry_tries && most_failures(node) >= redis->options.retry_tries) {
        node->gave_up = true;
        pawl__claims_give_up(node);
    }
    if (node->commands.state == LINK_UP) {
        pawl__cluster_reached(redis);
        pawl__claims_drive(node);
        pawl__renew_flush(node);
    }
}
