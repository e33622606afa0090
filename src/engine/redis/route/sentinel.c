/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel.c - asking sentinels where the primary is.
 *
 * There is one server, and it is where the sentinels say. Whenever one of its connections is to be made, they are asked anew:
 *
 *     ask --> connect to a sentinel --> SENTINEL get-master-addr-by-name --> the server's address; its connections begin
 *              ^         |                        |
 *              |         v any failure            v not known there
 *              +---- the next sentinel <----------+           after a whole round without one: that is why the server is not up
 *
 * The one who answered is kept, and tells of +switch-master: a hint, upon which they are asked again. What the server at that place
 * says of itself (ROLE) counts; if it is no primary the next sentinel is asked, since the last one may be behind the others.
 *
 * Invariants
 *   - The link to a sentinel is DOWN, on its way to sentinel number `at`, or UP and subscribed.
 *   - A connection of the server that waits for an answer is DOWN with retry_at NEVER; the end of every round sees to all of those.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/route/route.h"
#include "base/error.h"

/* ---- A round ---------------------------------------------------------------------------------------------------------------- */

static void next_sentinel(struct redis *redis) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;

    sentinel->at = (sentinel->at + 1) % redis->options.host_count;
    sentinel->link.addresses = sentinel->list[sentinel->at];
    sentinel->link.retry_at = 0;
    pawl__redis_due(redis, 0);
}

/* Find out where the primary is, and make the connections that wait for that. */
static void ask_sentinels(struct redis *redis) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;

    if (sentinel->asking)
        return;
    pawl__link_drop(&sentinel->link, PAWL_ECONNLOST, "the sentinels are asked anew");
    sentinel->link.news.fell = false; /* which is no failure of this round */
    sentinel->link.failures = 0;
    sentinel->asking = true;
    sentinel->asked = sentinel->unknowing = 0;
    next_sentinel(redis);
}

/* Why a whole round found no primary. */
static void explain(struct redis *redis, struct pawl_error *ret) {
    const struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    const struct redis_options *options = &redis->options;

    if (sentinel->unknowing)
        pawl__fail(ret, PAWL_EURL,
                   "%.200s: %u of the %zu sentinels answer, and none knows a primary named '%s': look at the URL's path",
                   redis->url, sentinel->unknowing, options->host_count, options->primary_name);
    else
        pawl__fail(ret, sentinel->link.why.code == PAWL_EACCES ? PAWL_EACCES : PAWL_ECONNLOST,
                   "none of the %zu sentinels tells where '%s' is; the last one: %s", options->host_count, options->primary_name,
                   sentinel->link.why.text);
}

static void end_round(struct redis *redis, const struct pawl_error *why) {
    struct link *link;

    route_of(redis)->sentinel.asking = false;
    for (int i = 0; (link = pawl__server_link(TAILQ_FIRST(&redis->servers), i)); i++) {
        if (link->state != LINK_DOWN || link->retry_at != PAWL__NEVER)
            continue;
        if (why)
            pawl__link_fail(link, why);
        else
            pawl__link_start(link);
    }
}

/* This sentinel was of no use: the next one, or the end of the round. */
static void go_on(struct redis *redis) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    struct pawl_error why;

    if (++sentinel->asked < redis->options.host_count) {
        next_sentinel(redis);
        return;
    }
    sentinel->link.retry_at = PAWL__NEVER;
    explain(redis, &why);
    end_round(redis, &why);
}

static void sentinel_down(struct redis *redis) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;

    if (sentinel->link.state != LINK_DOWN)
        return;
    if (sentinel->asking)
        go_on(redis);
    else
        sentinel->link.retry_at = PAWL__NEVER; /* it only had hints to give */
}

/* ---- Answers ---------------------------------------------------------------------------------------------------------------- */

/* The primary is there. */
static void found(struct redis *redis, const char *host, const char *port_text) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    struct server *server = TAILQ_FIRST(&redis->servers);
    unsigned port = (unsigned)strtoul(port_text, NULL, 10);
    char where[PAWL__URL_HOST_PORT];
    struct link *link;

    pawl__kit_note(&redis->kit, NULL, "sentinel %s: '%s' is at %s", pawl__addresses_where(sentinel->link.addresses),
                   redis->options.primary_name, pawl__url_host_port(host, port, where));
    if (!pawl__server_is_at(server, host, port)) {
        /* What is connected to the old one is of no use; it is to be connected to the new one at once. */
        for (int i = 0; (link = pawl__server_link(server, i)); i++) {
            pawl__link_drop(link, PAWL_ECONNLOST, "the primary is another now: %s", where);
            link->retry_at = PAWL__NEVER;
        }
        pawl__server_put_at(server, host, port);
    }
    sentinel->found = true;
    end_round(redis, NULL);
}

/* Where the primary is, by the sentinel's words; one that is of no use is dropped. */
static void take_answer(struct redis *redis, const redisReply *reply) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    struct pawl_error why;

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_STRING) {
        found(redis, reply->element[0]->str, reply->element[1]->str);
        return;
    }
    if (reply->type == REDIS_REPLY_NIL) {
        sentinel->unknowing++;
        pawl__link_drop(&sentinel->link, PAWL_EURL, "it knows no primary named '%s'", redis->options.primary_name);
    } else if (pawl__reply_class(reply, &why) != REPLY_OK && why.code != PAWL_EFORMAT) {
        pawl__link_drop(&sentinel->link, why.code, "%s", why.text);
    } else {
        pawl__link_drop(&sentinel->link, PAWL_ETOPOLOGY, "it is no sentinel: name the sentinels in the URL, not the servers");
    }
}

/* +switch-master NAME OLD-HOST OLD-PORT HOST PORT */
static void take_hint(struct redis *redis, const redisReply *reply) {
    const redisReply *text = reply->element[2];
    size_t length = strlen(redis->options.primary_name);

    if (text->type != REDIS_REPLY_STRING || strncmp(text->str, redis->options.primary_name, length) != 0 ||
        text->str[length] != ' ')
        return;
    pawl__kit_note(&redis->kit, NULL, "+switch-master %s", text->str);
    route_of(redis)->sentinel.hinted = true;
}

/* Is it time to connect to the server, and not known where it is? Its connections wait until it is. */
static bool is_sought(struct redis *redis, int64_t now) {
    struct link *link;
    bool sought = false;

    if (route_of(redis)->sentinel.found)
        return false;
    for (int i = 0; (link = pawl__server_link(TAILQ_FIRST(&redis->servers), i)); i++)
        if (link->state == LINK_DOWN && now >= link->retry_at) {
            link->retry_at = PAWL__NEVER;
            sought = true;
        }
    return sought;
}

static void sentinel_tick(struct redis *redis, int64_t now) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    bool sought = is_sought(redis, now);

    pawl__link_tick(&sentinel->link, now);
    if (sought || sentinel->hinted)
        ask_sentinels(redis);
    sentinel->hinted = false;
}

/* The server at the place that they gave: is it a primary? */
static void check_role(struct server *server, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || !reply->elements || reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, "master") == 0)
        return; /* or it may not say: READONLY will */
    pawl__link_drop(
        &server->commands, PAWL_ETOPOLOGY,
        "it is the primary '%s' by a sentinel's words, and a replica by its own: a failover is under way, or the sentinels "
        "disagree",
        server->redis->options.primary_name);
}

static bool sentinel_heard(struct redis *redis, const struct wire_event *event) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;

    if (event->link == &sentinel->link) {
        if (event->kind == WIRE_GREETING)
            take_answer(redis, event->reply);
        else if (event->kind == WIRE_PUSH)
            take_hint(redis, event->reply);
        else if (event->kind == WIRE_DOWN)
            sentinel_down(redis);
        return true;
    }
    if (event->kind == WIRE_DOWN && event->link->state == LINK_DOWN)
        sentinel->found = false;
    if (event->kind == WIRE_GREETING && event->request->step == GREET_ROLE)
        check_role(event->link->server, event->reply);
    return pawl__single_heard(redis, event);
}

/* A sentinel is asked where the primary is; and the server there, whether it is one. */
static bool sentinel_greet(struct link *link) {
    if (!link->to_sentinel)
        return pawl__link_greet(link, GREET_ROLE, 1, (const char *[]){"ROLE"});
    return pawl__link_greet(link, GREET_PRIMARY, 3,
                            (const char *[]){"SENTINEL", "get-master-addr-by-name", link->redis->options.primary_name}) &&
           pawl__link_greet(link, GREET_SUBSCRIBE, 2, (const char *[]){"SUBSCRIBE", "+switch-master"});
}

/* ---- Opening -------------------------------------------------------------------------------------------------------------- */

static int sentinel_open(struct redis *redis, struct pawl_error *reterr) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;
    size_t count = redis->options.host_count;
    int64_t deadline = pawl__route_names_until(redis);
    struct server *server = pawl__single_new(redis, reterr);

    if (!server)
        return reterr->code;
    pawl__link_init(&sentinel->link, server, true, "sentinel");
    sentinel->link.to_sentinel = true;
    sentinel->link.retry_at = PAWL__NEVER;
    sentinel->list = calloc(count, sizeof *sentinel->list);
    if (!sentinel->list)
        return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        sentinel->list[i] = pawl__addresses_new(redis->options.hosts[i].host, redis->options.hosts[i].port);
        if (!sentinel->list[i])
            return pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        pawl__addresses_begin(sentinel->list[i]);
    }
    for (size_t i = 0; i < count; i++)
        pawl__addresses_await(sentinel->list[i], deadline); /* one that is not known is one that does not answer */
    sentinel->at = redis->kit.random % count;
    return 0;
}

void pawl__sentinel_free(struct redis *redis) {
    struct sentinel_route *sentinel = &route_of(redis)->sentinel;

    if (sentinel->link.redis)
        pawl__link_free(&sentinel->link);
    for (size_t i = 0; sentinel->list && i < redis->options.host_count; i++)
        pawl__addresses_put(sentinel->list[i]);
    free(sentinel->list);
    sentinel->list = NULL;
}

const struct route_kind pawl__route_sentinel = {
    .traits = {.several = true, .greet = sentinel_greet},
    .open = sentinel_open,
    .ready = pawl__single_ready,
    .heard = sentinel_heard,
    .tick = sentinel_tick,
};
