/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - for operators: calls that are about no claim, and wait for their answer.
 */
#include <stdlib.h>

#include "base/error.h"
#include "engine/redis/lock/home.h"
#include "engine/redis/operator/operator.h"

#define CALL_NS (5000 * REDIS_MS)
#define AGAIN_NS (50 * REDIS_MS)

struct sync_call {
    bool done, abandoned;
    unsigned number; /* of the connection that it was sent on */
    redisReply *reply;
};

static void call_answered(struct redis *redis, struct request *request, redisReply *reply) {
    struct sync_call *call = request->data;

    (void)redis;
    if (call->abandoned) {
        freeReplyObject(reply);
        free(call);
        return;
    }
    call->reply = reply;
    call->done = true;
    pawl__home_called(home_of(request->server));
}

/* Wait until it is up: a node of a cluster that may be so in a moment, since it is connected when it is first asked for something; any
 * other until `deadline`, where that is not 0. */
static void await_up(struct server *server, int64_t deadline) {
    int64_t hope = pawl__boottime() + server->redis->options.connect_ns;
    bool never = false;

    pawl__route_want(server);
    if (pawl__server_up(server) || (!deadline && !pawl__route_hopeful(server)))
        return;
    pawl__redis_unlock(server->redis); /* which has the service thread see to it */
    pawl__redis_lock(server->redis);
    while (!pawl__server_up(server) && pawl__boottime() < (deadline ? deadline : hope) && (deadline || pawl__route_hopeful(server)))
        pawl__home_wait(home_of(server), &never, pawl__boottime() + 20 * REDIS_MS);
}

static bool send_ask(struct server *server, const struct redis_ask *ask, bool asking, const struct request *request) {
    static const struct request no_reply = {.script = -1};

    if (server->commands.state != LINK_UP)
        return false;
    if (asking && !pawl__link_say(&server->commands, 1, (const char *[]){"ASKING"}, &no_reply))
        return false;
    if (ask->script >= 0)
        return pawl__script_send(server, ask->script, ask->keys, ask->argc, ask->argv, ask->lengths, request);
    return pawl__link_say(&server->commands, ask->argc, ask->argv, request);
}

/* Ask, and wait for the answer. False: none came; why, in reterr. ret->unsure: it was sent all the same. */
static bool call_server(struct server *server, const struct redis_ask *ask, bool asking, int64_t up_by, int64_t deadline,
                        struct redis_answer *ret, struct pawl_error *reterr) {
    struct redis *redis = server->redis;
    struct sync_call *call = calloc(1, sizeof *call);
    struct request request = {.answered = call_answered, .data = call, .script = -1};
    bool sent;

    ret->reply = NULL;
    if (!call) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return false;
    }
    pawl__redis_lock(redis);
    server->users++;
    await_up(server, up_by);
    call->number = server->commands.number;
    sent = send_ask(server, ask, asking, &request);
    if (sent && pawl__home_wait(home_of(server), &call->done, deadline))
        ret->reply = call->reply;
    if (!ret->reply) {
        ret->unsure |= sent;
        pawl__fail(reterr, PAWL_ECONNLOST, "%s",
                   server->commands.why.code ? pawl__server_errortext(server) : "the server does not answer");
    }
    ret->server = server;
    ret->number = call->number;
    server->users--;
    if (sent && !call->done)
        call->abandoned = true;
    else
        free(call);
    pawl__redis_unlock(redis);
    return ret->reply;
}

/* The second MOVED in a row: nodes do not agree yet who has the slot, and would say so as fast as they are asked. */
static bool moved_again(enum reply_class class, bool *moved) {
    bool again = class == REPLY_MOVED && *moved;

    *moved = class == REPLY_MOVED;
    return again;
}

/* Whom to ask again after an error; NULL: that would not help. */
static struct server *ask_again(struct server *server, const redisReply *reply, enum reply_class class, struct pawl_error *why) {
    return class == REPLY_NOSCRIPT ? server : pawl__cluster_again(server, reply, class, why);
}

redisReply *pawl__server_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                              struct pawl_error *reterr) {
    const struct redis_ask ask = {.script = script, .keys = keys, .argc = argc, .argv = argv, .lengths = lengths};
    struct redis_answer answer = {0};
    struct pawl_error why = {0};
    enum reply_class class;
    bool moved = false;

    for (int tries = 0; server && tries < 50; tries++) {
        if (!call_server(server, &ask, false, 0, pawl__boottime() + CALL_NS, &answer, reterr))
            return NULL;
        class = pawl__reply_class(answer.reply, &why);
        if (class == REPLY_OK)
            return answer.reply;
        server = ask_again(server, answer.reply, class, &why);
        if (moved_again(class, &moved))
            pawl__pause(AGAIN_NS);
        freeReplyObject(answer.reply);
    }
    if (reterr)
        *reterr = why;
    return NULL;
}

/* ---- Until a deadline -------------------------------------------------------------------------------------------------------- */

/* What an error that may pass asks for. `asked`: the node that may have the keys already. False: it will not pass. */
static bool may_pass(struct server *server, const redisReply *reply, struct pawl_error *why, enum reply_class class,
                     struct server **asked) {
    bool passes = class != REPLY_REFUSED;

    pawl__redis_lock(server->redis);
    if (class == REPLY_READONLY)
        pawl__link_drop(&server->commands, why->code, "%s", why->text);
    else if (class == REPLY_MOVED)
        passes = pawl__cluster_moved(server, reply, why);
    else if (class == REPLY_ASK && !*asked)
        *asked = pawl__cluster_asked(server, reply);
    else
        *asked = NULL;
    pawl__redis_unlock(server->redis);
    return passes;
}

/* How long a server that is down is waited for before it is looked again who has the lock. */
static int64_t wait_for_up(const struct redis_ask *ask, int64_t now, int64_t deadline) {
    return ask->hurried ? now : now + AGAIN_NS < deadline ? now + AGAIN_NS : deadline;
}

int pawl__call_until(struct redis *redis, const char *name, const struct redis_ask *ask, int64_t deadline, struct redis_answer *ret,
                     struct pawl_error *reterr) {
    struct server *asked = NULL;
    enum reply_class class;
    bool moved = false;
    int64_t now;

    *reterr = (struct pawl_error){0};
    for (now = pawl__boottime(); now < deadline; now = pawl__boottime()) {
        struct server *server = asked ? asked : pawl__server_having(redis, name);

        if (!call_server(server, ask, asked, wait_for_up(ask, now, deadline), deadline, ret, reterr)) {
            if (ask->hurried)
                break;
            asked = NULL;
            continue;
        }
        class = pawl__reply_class(ret->reply, reterr);
        if (class == REPLY_OK)
            return 0;
        bool passes = may_pass(server, ret->reply, reterr, class, &asked);
        bool rests = class == REPLY_AGAIN || (class == REPLY_ASK && !asked);

        rests |= moved_again(class, &moved);
        freeReplyObject(ret->reply);
        ret->reply = NULL;
        if (!passes || (rests && ask->hurried))
            return reterr->code;
        if (rests)
            pawl__pause(AGAIN_NS);
    }
    return reterr->code ? reterr->code : pawl__fail(reterr, PAWL_ETIMEOUT, "the time is over");
}

struct server *pawl__server_next(struct redis *redis, struct server *server) {
    pawl__redis_lock(redis);
    server = pawl__route_next(redis, server);
    pawl__redis_unlock(redis);
    return server;
}

struct server *pawl__server_having(struct redis *redis, const char *name) {
    struct server *server;

    pawl__redis_lock(redis);
    server = pawl__route_server(redis, name);
    pawl__redis_unlock(redis);
    return server;
}
