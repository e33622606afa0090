/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - what connections have to say is pulled here, and handed on: to claims, or to the route.
 *
 * Nothing below calls up: a connection that is dropped in the midst of anything says so later, when it is asked. So whoever holds the mutex
 * pumps before it lets go (pump.c): the claims that an answer is about are there until then.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "engine/redis/lock/lock.h"
#include "os/descriptor.h"

/* ---- Homes ------------------------------------------------------------------------------------------------------------------ */

int pawl__home_made(struct server *server) {
    struct home *home = home_of(server);

    home->read_bell = above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (home->read_bell < 0)
        return -1;
    pawl__spin_init(&home->spin, server->redis->options.spin_ns);
    TAILQ_INIT(&home->to_renew);
    pawl__kit_reader_init(&home->reader);
    TAILQ_INIT(&home->to_secure);
    TAILQ_INIT(&home->in_round);
    return 0;
}

void pawl__home_gone(struct server *server) {
    close(home_of(server)->read_bell);
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

/* ---- Up and down -------------------------------------------------------------------------------------------------------------- */

/* It is unreachable: has it been tried often enough? */
static void look_for_others(struct home *home) {
    struct redis *redis = home->server.redis;
    unsigned failures = pawl__server_failures(&home->server);

    if (in_cluster(redis) && home->server.wanted && failures) {
        pawl__cluster_refresh(redis);
        pawl__claims_refuse_tries(home);
    }
    if (redis->options.retry.tries && failures >= redis->options.retry.tries) {
        home->gave_up = true;
        pawl__claims_give_up(home);
    }
}

/* The states of its connections have changed: tell the core, and go on with the claims. */
static void changed(struct home *home) {
    struct redis *redis = home->server.redis;
    bool up = pawl__server_up(&home->server);

    redis->kit.wakes = true;
    if (up && !pawl__server_is_one(&home->server))
        return;
    pawl__secure_anew(home);
    pawl__redis_set_link(redis);
    pawl__home_kick_reader(home);
    pthread_cond_broadcast(&claims_of(redis)->called); /* somebody may wait for the server */
    if (up) {
        home->gave_up = false;
        pawl__push_track(home);
    } else {
        look_for_others(home);
    }
    if (home->server.commands.state == LINK_UP) {
        pawl__cluster_reached(redis);
        pawl__claims_drive(home);
        pawl__renew_flush(home);
    }
}

static void take_up(struct link *link) {
    struct home *home = home_of(link->server);

    if (link == &link->server->inbox)
        pawl__push_listen_again(home);
    if (link == &link->server->commands)
        pawl__renew_all(home); /* it may be another server than before, or have forgotten */
    if (link != &link->server->guide)
        changed(home);
}

static void take_down(struct link *link) {
    if (link == &link->server->guide) {
        pawl__sentinel_changed(link->server);
        return;
    }
    if (link->redis->options.topology == TOPOLOGY_SENTINEL && link->state == LINK_DOWN)
        link->server->found = false;
    changed(home_of(link->server));
}

/* ---- Messages ----------------------------------------------------------------------------------------------------------------- */

/* To SSUBSCRIBE: the slot is elsewhere, or nowhere; who waits asks again. */
static void take_refusal(struct link *link, const redisReply *reply) {
    pawl__kit_note(&link->redis->kit, NULL, "connection (%s): %.100s", link->what, reply->str);
    pawl__ears_refused(home_of(link->server));
    pawl__push_deaf(home_of(link->server));
    pawl__cluster_refresh(link->redis);
}

static void take_push(struct link *link, const redisReply *reply) {
    const char *word, *channel;

    if (reply->type == REDIS_REPLY_ERROR) {
        take_refusal(link, reply);
        return;
    }
    word = reply->element[0]->str;
    channel = reply->element[1]->type == REDIS_REPLY_STRING ? reply->element[1]->str : "";
    if (link == &link->server->guide)
        pawl__sentinel_push(link->server, reply);
    else if (strstr(word, "message"))
        pawl__push_take(home_of(link->server), reply);
    else if (!pawl__ear_told(home_of(link->server), channel, word[1] == 's'))
        pawl__push_foreign(link->redis, channel, word[1] == 's');
}

/* ---- Where claims are --------------------------------------------------------------------------------------------------------- */

static void follow_slots(struct redis *redis) {
    struct route *route = route_of(redis);
    struct rclaim *claim, *next;
    struct server *server;

    route->moved = false;
    for (claim = TAILQ_FIRST(&claims_of(redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        server = route->slots[claim->slot];
        if (server && server != &claim->home->server) {
            home_of(server)->token_floor = 0; /* it was set when others had the lock's counter */
            pawl__claim_rehome(redis, claim, home_of(server));
        }
    }
    if (route->remapped) {
        pawl__cluster_settle(redis);
        pawl__redis_set_link(redis);
    }
}

bool pawl__claims_moved(struct redis *redis, struct server *from, const redisReply *reply) {
    bool moved = pawl__cluster_moved(from, reply);

    if (route_of(redis)->moved)
        follow_slots(redis);
    return moved;
}

/* ---- The pump ----------------------------------------------------------------------------------------------------------------- */

/* Whoever asked frees the answer. */
static void take_answer(struct redis *redis, struct request *request, redisReply *reply) {
    if (request->answered)
        request->answered(redis, request, reply);
    else
        freeReplyObject(reply);
}

/* The greeting left after the connection was begun. A voter's clock is looked at before anything is asked of it. */
static void take_greeting(struct link *link, const struct request *request, const redisReply *reply) {
    char time[32];

    if (request->step == GREET_CHECK && reply->type == REDIS_REPLY_STRING && is_voter(link->redis)) {
        pawl__reply_info(reply->str, "server_time_usec", time, sizeof time);
        if (time[0])
            pawl__push_tie(home_of(link->server), link->started_at, strtoll(time, NULL, 10));
    }
    pawl__route_judge(link->server, (enum greeting)request->step, reply);
}

static void take_event(struct redis *redis, const struct wire_event *event) {
    switch (event->kind) {
    case WIRE_REPLY:
        take_answer(redis, event->request, event->reply);
        break;
    case WIRE_GREETING:
        take_greeting(event->link, event->request, event->reply);
        freeReplyObject(event->reply);
        break;
    case WIRE_PUSH:
        take_push(event->link, event->reply);
        freeReplyObject(event->reply);
        break;
    case WIRE_UP:
        take_up(event->link);
        break;
    case WIRE_DOWN:
        take_down(event->link);
        break;
    }
    free(event->request);
}

void pawl__events_take(struct redis *redis) {
    struct wire_event event;

    for (;;) {
        if (route_of(redis)->moved)
            follow_slots(redis);
        if (!pawl__wire_next(redis, &event))
            return;
        take_event(redis, &event);
    }
}

void pawl__events_end(struct redis *redis) {
    struct wire_event event;

    while (pawl__wire_next(redis, &event)) {
        if (event.kind == WIRE_REPLY)
            take_answer(redis, event.request, event.reply);
        else
            freeReplyObject(event.reply);
        free(event.request);
    }
}
