/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel.c - asking sentinels where the primary is.
 *
 * There is one node, and it is wherever the sentinels say. Whenever one of its connections is to be made, they are asked anew:
 *
 *     ask --> connect to a sentinel --> SENTINEL get-master-addr-by-name --> the node's place; its connections begin
 *              ^         |                        |
 *              |         v any failure            v not known there
 *              +---- the next sentinel <----------+           after a whole round without one: that is why the node is not up
 *
 * The one who answered is kept, and tells of +switch-master: a hint, upon which they are asked again. What the server at that place
 * says of itself (ROLE) counts; if it is no primary the next sentinel is asked, since the last one may be behind the others.
 *
 * Invariants
 *   - `guide` is DOWN, on its way to sentinel number `sentinel_at`, or UP and subscribed.
 *   - A connection of the node that waits for an answer is DOWN with retry_at NEVER; the end of every round sees to all of those.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/route/route.h"
#include "base/error.h"

/* ---- A round ---------------------------------------------------------------------------------------------------------------- */

static void next_sentinel(struct server *server) {
    struct redis *redis = server->redis;
    struct route *route = route_of(redis);

    route->sentinel_at = (route->sentinel_at + 1) % redis->options.place_count;
    server->guide.addresses = route->sentinels[route->sentinel_at];
}

/* Find out where the primary is, and make the connections that wait for that. */
static void ask_sentinels(struct server *server) {
    if (server->asking_sentinels)
        return;
    pawl__link_drop(&server->guide, PAWL_ECONNLOST, "the sentinels are asked anew");
    server->guide.news.fell = false; /* which is no failure of this round */
    server->asking_sentinels = true;
    server->sentinels_asked = server->sentinels_unknowing = 0;
    next_sentinel(server);
    server->guide.failures = 0;
    server->guide.retry_at = 0;
    pawl__redis_due(server->redis, 0);
}

/* Why a whole round found no primary. */
static void explain(const struct server *server, struct pawl_error *ret) {
    const struct redis_options *options = &server->redis->options;

    if (server->sentinels_unknowing)
        pawl__fail(ret, PAWL_EURL,
                   "%.200s: %u of the %zu sentinels answer, and none knows a primary named '%s': look at the URL's path",
                   server->redis->url, server->sentinels_unknowing, options->place_count, options->primary_name);
    else
        pawl__fail(ret, server->guide.why.code == PAWL_EACCES ? PAWL_EACCES : PAWL_ECONNLOST,
                   "none of the %zu sentinels tells where '%s' is; the last one: %s", options->place_count, options->primary_name,
                   server->guide.why.text);
}

static void end_round(struct server *server, const struct pawl_error *why) {
    struct link *link;

    server->asking_sentinels = false;
    for (int i = 0; (link = pawl__server_link(server, i)); i++) {
        if (link == &server->guide || link->state != LINK_DOWN || link->retry_at != PAWL__NEVER)
            continue;
        if (why)
            pawl__link_fail(link, why);
        else
            pawl__link_start(link);
    }
}

/* This sentinel was of no use: the next one, or the end of the round. */
static void go_on(struct server *server) {
    struct pawl_error why;

    if (++server->sentinels_asked < server->redis->options.place_count) {
        next_sentinel(server);
        server->guide.retry_at = 0;
        pawl__redis_due(server->redis, 0);
        return;
    }
    server->guide.retry_at = PAWL__NEVER;
    explain(server, &why);
    end_round(server, &why);
}

void pawl__sentinel_changed(struct server *server) {
    if (server->guide.state != LINK_DOWN)
        return;
    if (server->asking_sentinels)
        go_on(server);
    else
        server->guide.retry_at = PAWL__NEVER; /* it only had hints to give */
}

/* ---- Answers ---------------------------------------------------------------------------------------------------------------- */

/* The primary is there. */
static void found(struct server *server, const char *host, const char *port_text) {
    unsigned port = (unsigned)strtoul(port_text, NULL, 10);
    char where[PAWL__URL_PLACE];
    struct link *link;

    pawl__kit_note(&server->redis->kit, NULL, "sentinel %s: '%s' is at %s", pawl__addresses_where(server->guide.addresses),
                   server->redis->options.primary_name, pawl__url_place(host, port, where));
    if (!pawl__server_is_at(server, host, port)) {
        /* What is connected to the old one is of no use; it is to be connected to the new one at once. */
        for (int i = 0; (link = pawl__server_link(server, i)) && link != &server->guide; i++) {
            pawl__link_drop(link, PAWL_ECONNLOST, "the primary is another now: %s", where);
            link->retry_at = PAWL__NEVER;
        }
        pawl__server_put_at(server, host, port);
    }
    server->found = true;
    end_round(server, NULL);
}

void pawl__sentinel_answer(struct server *server, const redisReply *reply) {
    struct pawl_error why;

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_STRING) {
        found(server, reply->element[0]->str, reply->element[1]->str);
        return;
    }
    if (reply->type == REDIS_REPLY_NIL) {
        server->sentinels_unknowing++;
        pawl__link_drop(&server->guide, PAWL_EURL, "it knows no primary named '%s'", server->redis->options.primary_name);
    } else if (pawl__reply_class(reply, &why) != REPLY_OK && why.code != PAWL_EFORMAT) {
        pawl__link_drop(&server->guide, why.code, "%s", why.text);
    } else {
        pawl__link_drop(&server->guide, PAWL_ETOPOLOGY, "it is no sentinel: name the sentinels in the URL, not the servers");
    }
}

/* +switch-master NAME OLD-HOST OLD-PORT HOST PORT */
void pawl__sentinel_push(struct server *server, const redisReply *reply) {
    const redisReply *text = reply->element[2];
    size_t length = strlen(server->redis->options.primary_name);

    if (text->type != REDIS_REPLY_STRING || strncmp(text->str, server->redis->options.primary_name, length) != 0 ||
        text->str[length] != ' ')
        return;
    pawl__kit_note(&server->redis->kit, NULL, "+switch-master %s", text->str);
    server->sentinels_hinted = true;
}

void pawl__sentinel_tick(struct server *server) {
    if (!server->sentinels_hinted && !server->sought)
        return;
    server->sentinels_hinted = server->sought = false;
    ask_sentinels(server);
}

/* The server at the place that they gave: is it a primary? */
void pawl__sentinel_check_role(struct server *server, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || !reply->elements || reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") == 0)
        return; /* or it may not say: READONLY will */
    pawl__link_drop(
        &server->commands, PAWL_ETOPOLOGY,
        "it is the primary '%s' by a sentinel's words, and a replica by its own: a failover is under way, or the sentinels "
        "disagree",
        server->redis->options.primary_name);
}

/* ---- Opening -------------------------------------------------------------------------------------------------------------- */

int pawl__sentinel_setup(struct server *server, struct pawl_error *reterr) {
    struct redis *redis = server->redis;
    struct route *route = route_of(redis);
    int64_t deadline = pawl__redis_names_until(&redis->options);
    struct link *link;

    route->sentinels = calloc(redis->options.place_count, sizeof *route->sentinels);
    if (!route->sentinels)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < redis->options.place_count; i++) {
        route->sentinels[i] = pawl__addresses_new(redis->options.places[i].host, redis->options.places[i].port);
        if (!route->sentinels[i])
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        pawl__addresses_begin(route->sentinels[i]);
    }
    for (size_t i = 0; i < redis->options.place_count; i++)
        pawl__addresses_await(route->sentinels[i], deadline); /* one that is not known is one that does not answer */
    for (int i = 0; (link = pawl__server_link(server, i)); i++)
        link->retry_at = link == &server->guide ? PAWL__NEVER : 0;
    route->sentinel_at = redis->kit.random % redis->options.place_count;
    return 0;
}

void pawl__sentinel_free(struct redis *redis) {
    struct route *route = route_of(redis);

    for (size_t i = 0; route->sentinels && i < redis->options.place_count; i++)
        pawl__addresses_put(route->sentinels[i]);
    free(route->sentinels);
    route->sentinels = NULL;
}
