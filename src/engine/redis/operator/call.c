/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - for operators: calls that are about no claim, and wait for their answer.
 */
#include <stdlib.h>

#include "base/error.h"
#include "engine/redis/lock/home.h"
#include "engine/redis/operator/operator.h"

#define CALL_NS (5000 * REDIS_MS)

struct sync_call {
    bool done, abandoned;
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

/* In a cluster a node is connected when it is first asked for something. */
static void await_node(struct server *server) {
    int64_t deadline = pawl__boottime() + server->redis->options.connect_ns;
    bool never = false;

    pawl__route_want(server);
    if (pawl__server_up(server) || !pawl__route_hopeful(server))
        return;
    pawl__redis_unlock(server->redis); /* which has the service thread see to it */
    pawl__redis_lock(server->redis);
    while (!pawl__server_up(server) && pawl__route_hopeful(server) && pawl__boottime() < deadline)
        pawl__home_wait(home_of(server), &never, pawl__boottime() + 20 * REDIS_MS);
}

/* Run a command (script -1) or a script, and wait. NULL: reterr says why. */
static redisReply *call_server(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                               struct pawl_error *reterr) {
    struct redis *redis = server->redis;
    struct sync_call *call = calloc(1, sizeof *call);
    struct request request = {.answered = call_answered, .data = call, .script = -1};
    redisReply *reply = NULL;
    bool ok;

    if (!call) {
        pawl__fail(reterr, PAWL_ENOMEM, "out of memory");
        return NULL;
    }
    pawl__redis_lock(redis);
    server->users++;
    await_node(server);
    if (server->commands.state != LINK_UP)
        ok = false;
    else if (script >= 0)
        ok = pawl__script_send(server, script, keys, argc, argv, lengths, &request);
    else
        ok = pawl__link_say(&server->commands, argc, argv, &request);
    if (ok && pawl__home_wait(home_of(server), &call->done, pawl__boottime() + CALL_NS))
        reply = call->reply;
    if (!reply)
        pawl__fail(reterr, PAWL_ECONNLOST, "%s",
                   server->commands.why.code ? pawl__server_errortext(server) : "the server does not answer");
    server->users--;
    if (ok && !call->done)
        call->abandoned = true;
    else
        free(call);
    pawl__redis_unlock(redis);
    return reply;
}

/* Whom to ask again after an error; NULL: that would not help. */
static struct server *ask_again(struct server *server, const redisReply *reply, enum reply_class class) {
    struct server *other = NULL;

    if (class == REPLY_NOSCRIPT)
        return server;
    if (!server->redis->traits.sharded)
        return NULL;
    if (class == REPLY_MOVED) {
        pawl__redis_lock(server->redis);
        if (pawl__cluster_moved(server, reply))
            other = pawl__cluster_asked(server, reply);
        pawl__redis_unlock(server->redis);
        return other;
    }
    if (class != REPLY_ASK && class != REPLY_AGAIN)
        return NULL;
    pawl__pause(50 * PAWL__NS_PER_MS); /* until the slot has moved */
    return server;
}

redisReply *pawl__server_call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                              struct pawl_error *reterr) {
    struct pawl_error why = {0};
    enum reply_class class;
    redisReply *reply;

    for (int tries = 0; server && tries < 50; tries++) {
        reply = call_server(server, script, keys, argc, argv, lengths, reterr);
        if (!reply)
            return NULL;
        class = pawl__reply_class(reply, &why);
        if (class == REPLY_OK)
            return reply;
        server = ask_again(server, reply, class);
        freeReplyObject(reply);
    }
    if (reterr)
        *reterr = why;
    return NULL;
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
