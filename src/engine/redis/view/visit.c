/* SPDX-License-Identifier: Apache-2.0
 *
 * visit.c - a server that is none of the engine's, asked by the thread that wants to know.
 *
 * It has a wire of its own, with one connection, which the thread itself looks after: no other thread knows of it, and no mutex is held.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/view/view.h"
#include "os/sleep.h"

static int made(struct server *server) {
    (void)server;
    return 0;
}

static void gone(struct server *server) {
    (void)server;
}

static void answered(struct redis *visit, struct request *request, redisReply *reply) {
    redisReply **ret = request->data;

    (void)visit;
    *ret = reply;
}

/* What the server says in its greeting does not matter: it is not to have locks. */
static void hear(struct redis *visit) {
    struct wire_event event;

    while (pawl__wire_next(visit, &event)) {
        if (event.kind == WIRE_REPLY && event.request->answered)
            event.request->answered(visit, event.request, event.reply);
        else
            freeReplyObject(event.reply);
        free(event.request);
    }
}

/* Sleep until something comes or is due, and see to it. */
static void run_once(struct link *link) {
    bool writes = link->state == LINK_CONNECTING || link->out.used || link->ssl_wants_write;
    struct pollfd fd = {.fd = link->fd, .events = writes ? POLLIN | POLLOUT : POLLIN};

    if (pawl__sleep(&fd, 1, pawl__link_due(link), NULL) > 0)
        pawl__link_progress(link);
    pawl__link_tick(link, pawl__boottime());
    hear(link->redis);
}

static redisReply *call(struct server *server, int script, int keys, int argc, const char **argv, const size_t *lengths,
                        struct pawl_error *reterr) {
    struct link *link = &server->commands;
    redisReply *reply = NULL;
    struct request request = {.answered = answered, .data = &reply, .script = -1};

    (void)script, (void)keys, (void)lengths; /* commands alone */
    if (link->state == LINK_UP)
        pawl__link_say(link, argc, argv, &request);
    while (link->state == LINK_UP && !reply)
        run_once(link);
    if (!reply)
        *reterr = link->why;
    if (!reply || pawl__reply_class(reply, reterr) == REPLY_OK)
        return reply;
    freeReplyObject(reply);
    return NULL;
}

/* One try, over all addresses of the host. */
static bool connect_it(struct link *link, int64_t deadline) {
    while (link->state != LINK_UP && !link->failures && pawl__boottime() < deadline)
        run_once(link);
    return link->state == LINK_UP;
}

static void end(struct redis *visit, struct server *server) {
    if (server) {
        pawl__server_close(server);
        hear(visit);
        pawl__server_free(server);
    }
    pawl__kit_free(&visit->kit);
    explicit_bzero(&visit->options, sizeof visit->options);
    free(visit);
}

struct server *pawl__visit(const struct redis *redis, const char *host, unsigned port) {
    struct redis *visit = calloc(1, sizeof *visit);
    struct pawl_error ignored;
    struct server *server;

    if (!visit)
        return NULL;
    visit->options = redis->options;
    visit->options.socket_path[0] = '\0';
    visit->tls = redis->tls;
    visit->server_size = sizeof *server;
    visit->made = made;
    visit->gone = gone;
    visit->call = call;
    pawl__url_host_port(host, port, visit->url);
    pawl__kit_init(&visit->kit, redis->kit.engine, NULL);
    pawl__wire_init(visit);
    server = pawl__server_new(visit, &ignored);
    if (server && pawl__server_put_at(server, host, port) &&
        connect_it(&server->commands, pawl__boottime() + redis->options.connect_ns))
        return server;
    end(visit, server);
    return NULL;
}

void pawl__visit_end(struct server *server) {
    end(server->redis, server);
}
