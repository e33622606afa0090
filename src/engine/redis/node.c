/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - a server: its connections, and what changes when they come and go.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/redis/redis.h"
#include "error.h"

struct node *pawl__node_new(struct redis *redis, struct pawl_error *reterr) {
    struct node *node = calloc(1, sizeof *node);

    if (!node) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    node->redis = redis;
    node->lead_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (node->lead_fd < 0) {
        pawl__fail_errno(reterr, "no descriptors can be had");
        free(node);
        return NULL;
    }
    TAILQ_INIT(&node->to_renew);
    TAILQ_INIT(&node->followers);
    pawl__link_init(&node->commands, node, false, "commands");
    pawl__link_init(&node->inbox, node, true, "inbox");
    TAILQ_INSERT_TAIL(&redis->nodes, node, entry);
    return node;
}

void pawl__node_free(struct node *node) {
    TAILQ_REMOVE(&node->redis->nodes, node, entry);
    pawl__link_free(&node->commands);
    pawl__link_free(&node->inbox);
    close(node->lead_fd);
    pawl__node_forget_addresses(node);
    free(node);
}

struct node *pawl__node_for(const struct redis *redis, const char *lock) {
    (void)lock;
    return TAILQ_FIRST(&redis->nodes);
}

bool pawl__node_up(const struct node *node) {
    return node->commands.state == LINK_UP && node->inbox.state == LINK_UP;
}

const char *pawl__node_errortext(const struct node *node) {
    const struct link *link = node->commands.state == LINK_UP ? &node->inbox : &node->commands;

    return link->why.code ? link->why.text : "the server is not connected yet";
}

void pawl__node_changed(struct node *node) {
    struct redis *redis = node->redis;
    unsigned failures = node->commands.failures > node->inbox.failures ? node->commands.failures : node->inbox.failures;
    bool up = pawl__node_up(node);

    redis->wake_service = true;
    atomic_store(&redis->base.link, up ? 0 : PAWL_ECONNLOST);
    pawl__node_kick_leader(node);
    if (up) {
        node->gave_up = false;
        pawl__push_track(node);
    } else if (redis->options.retry_tries && failures >= redis->options.retry_tries) {
        node->gave_up = true;
        pawl__claims_give_up(node);
    }
    if (node->inbox.state == LINK_UP)
        pawl__push_listen_again(node);
    if (node->commands.state == LINK_UP) {
        pawl__claims_drive(node);
        pawl__renew_flush(node);
    }
}
