/* SPDX-License-Identifier: Apache-2.0
 *
 * events.c - what connections have to say is pulled here, and handed on: to claims, or to the route.
 *
 * Nothing below calls up: a connection that is dropped in the midst of anything says so later, when it is asked. So a thread that has the
 * mutex pumps before it lets go (pump.c): the claims that an answer is about are there until then.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/lock/lock.h"

/* ---- Up and down -------------------------------------------------------------------------------------------------------------- */

/* It is unreachable. Refuse the tries; and those who wait, once ?retry= is used up. */
static void check_retries(struct home *home) {
    struct redis *redis = home->server.redis;
    unsigned failures = pawl__server_failures(&home->server);

    if (pawl__route_hopeless(&home->server)) /* tries have waited for its first connection */
        pawl__rclaims_refuse_tries(home);
    if (redis->options.retry.tries && failures >= redis->options.retry.tries) {
        home->gave_up = true;
        pawl__rclaims_give_up(home);
    }
}

/* Who hears nothing may be left out when its turn comes, and queues again when it asks the next time. */
static void lose_places(struct home *home) {
    struct rclaim *claim;

    TAILQ_FOREACH(claim, &claims_of(home->server.redis)->all, all) {
        if (claim->home == home && claim->ask_number && !rclaim_holds(claim))
            pawl__place_lost(claim->kit.claim);
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
    pawl__home_wake_reader(home);
    pthread_cond_broadcast(&claims_of(redis)->called); /* somebody may wait for the server */
    if (up) {
        home->gave_up = false;
        pawl__listen_track(home);
        pawl__watch_all(home, false);
        pawl__renew_hearers(home);
    } else {
        pawl__kept_unheard_all(home);
        lose_places(home);
        check_retries(home);
    }
    if (home->server.commands.state == LINK_UP) {
        pawl__send_undos(redis);
        pawl__rclaims_drive(home);
        pawl__renew_flush(home);
    }
}

static void take_up(struct link *link) {
    struct home *home = home_of(link->server);

    home->up_since = pawl__boottime();
    if (link == &link->server->inbox)
        pawl__listen_again(home);
    /* It may be another server than before, or have forgotten; or have told us of a break while we were deaf. */
    if (link != &link->server->replicas)
        pawl__renew_all(home);
    changed(home);
}

/* ---- Messages ----------------------------------------------------------------------------------------------------------------- */

/* To SSUBSCRIBE: the slot is elsewhere, or nowhere; who waits asks again. */
static void take_refusal(struct link *link, const redisReply *reply) {
    struct home *home = home_of(link->server);
    struct rclaim *claim;

    pawl__kit_note(&link->redis->kit, NULL, "connection (%s): %.100s", link->what, reply->str);
    TAILQ_FOREACH(claim, &claims_of(link->redis)->all, all) {
        if (rclaim_holds(claim) && pawl__subscription_asked(claim, home)) /* who waits asks again by its timer */
            pawl__rclaim_try_later(link->redis, claim);
    }
    pawl__subscriptions_refused(home);
    pawl__listen_all_off(home);
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
    if (strstr(word, "message"))
        pawl__push_take(home_of(link->server), reply);
    else
        pawl__push_channel(home_of(link->server), channel, word[1] == 's');
}

/* ---- Where claims are --------------------------------------------------------------------------------------------------------- */

/* The claim's slot is at another node now. */
static void move(struct redis *redis, struct rclaim *claim, struct home *home) {
    int64_t now = pawl__boottime();
    bool restless = rclaim_moved_lately(claim, now);

    claim->moved_at = now;
    pawl__place_lost(claim->kit.claim); /* it may ask there later than others do */
    pawl__kit_note(&redis->kit, &claim->kit, "slot %u is at %s now", claim->slot, pawl__addresses_where(home->server.addresses));
    pawl__rclaim_detach(redis, claim);
    pawl__rclaim_unlist(claim);
    pawl__listen_no_more(redis, claim);
    /* A release that is on its way may be carried out yet, and the keys move without what it freed. */
    if (claim->asked)
        pawl__rclaim_step(redis, claim, RCLAIM_UNANSWERED);
    claim->renewal.sent = claim->asked = false;
    claim->ask_number += claim->ask_number > 0;
    pawl__rclaim_step(redis, claim, RCLAIM_MOVED);
    pawl__kept_unlist(claim);
    pawl__kit_move(&redis->kit, &claim->kit, &home->reader);
    claim->home->server.users--;
    home->server.users++;
    claim->home = home;
    pawl__kept_follow(claim);
    pawl__route_want(&home->server);
    pawl__renew_want(claim);
    if (rclaim_holds(claim))
        pawl__subscription_open(redis, claim);
    if (restless) {
        pawl__rclaim_set_timer(redis, claim, now + REDIS_MOVE_NS, true);
        home->renew_at = now + REDIS_MOVE_NS;
        return;
    }
    pawl__rclaim_drive(redis, claim);
    pawl__renew_flush(home);
}

static void follow_slots(struct redis *redis) {
    struct rclaim *claim, *next;
    struct server *server;

    for (claim = TAILQ_FIRST(&claims_of(redis)->all); claim; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (pawl__rclaim_slot_moved(redis, claim)) {
            server = pawl__route_at(redis, claim->slot);
            home_of(server)->clock.floor = 0; /* it was set when others had the lock's counter */
            move(redis, claim, home_of(server));
        }
    }
    pawl__watches_follow(redis);
    pawl__cluster_settle(redis);
}

/* ---- The pump ----------------------------------------------------------------------------------------------------------------- */

static void take_answer(struct redis *redis, struct request *request, redisReply *reply) {
    if (request->answered) { /* of the route, or of a call: it frees the reply */
        request->answered(redis, request, reply);
        return;
    }
    switch ((enum asked)request->what) {
    case ASKED_NOTHING:
        break;
    case ASKED_ACQUIRE:
    case ASKED_RELEASE:
    case ASKED_DOWNGRADE:
    case ASKED_MORE_TOKENS:
        pawl__answer(redis, request, reply);
        break;
    case ASKED_UNDO:
        pawl__undo_answered(redis, request, reply);
        break;
    case ASKED_RENEWAL:
        pawl__renew_answer(redis, request, reply);
        break;
    case ASKED_SET:
        pawl__redis_set_answer(redis, request, reply);
        break;
    case ASKED_WITNESS:
        pawl__secure_wrote(redis, request, reply);
        break;
    case ASKED_COUNT:
        pawl__secure_counted(redis, request, reply);
        break;
    case ASKED_TRACKING:
        pawl__listen_tracked(home_of(request->server), reply);
        pawl__watch_all(home_of(request->server), false);
        break;
    case ASKED_CHANNEL:
        pawl__push_listened(redis, reply);
        break;
    case ASKED_WATCH:
        pawl__watch_read(redis, request, reply);
        break;
    case ASKED_WATCH_TIME:
        pawl__watch_timed(request, reply);
        break;
    }
    freeReplyObject(reply);
}

/* Something may wait to be secured; in a cluster not only at the server that has answered. */
static void begin_rounds(struct redis *redis) {
    struct server *server;

    TAILQ_FOREACH(server, &redis->servers, entry) {
        pawl__secure_begin(home_of(server));
    }
}

static void take_event(struct redis *redis, const struct wire_event *event) {
    if (event->kind != WIRE_REPLY && pawl__route_heard(redis, event)) {
        freeReplyObject(event->reply);
        free(event->request);
        return;
    }
    switch (event->kind) {
    case WIRE_REPLY:
        take_answer(redis, event->request, event->reply);
        break;
    case WIRE_GREETING:
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
        changed(home_of(event->link->server));
        break;
    }
    if (redis->options.replicas)
        begin_rounds(redis);
    free(event->request);
}

void pawl__redis_take_events(struct redis *redis) {
    struct wire_event event;

    for (;;) {
        if (pawl__route_has_moved(redis))
            follow_slots(redis);
        if (!pawl__wire_next(redis, &event))
            return;
        take_event(redis, &event);
    }
}

void pawl__redis_end_events(struct redis *redis) {
    struct wire_event event;

    while (pawl__wire_next(redis, &event)) {
        if (event.kind == WIRE_REPLY)
            take_answer(redis, event.request, event.reply);
        else
            freeReplyObject(event.reply);
        free(event.request);
    }
}
