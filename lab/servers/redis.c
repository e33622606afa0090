/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - see redis.h. One Redis, and the five of a Redlock, which know nothing of each other.
 */
#include "redis.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "proxy.h"

enum { SLOTS = 16384, VOTERS = 5 };

const char *redis_missing(void) {
    return has_command("redis-server") ? NULL : "there is no redis-server (Debian: redis-server)";
}

bool redis_configure(const char *directory, const char *address, unsigned port, const char *lines) {
    return write_file(directory, "redis.conf", "bind %s\nport %u\ndir %s\nprotected-mode no\n%s\n", address, port, directory,
                      lines);
}

void redis_become(const char *directory, bool sentinel) {
    char path[SERVERS_PATH + 16];

    snprintf(path, sizeof path, "%s/redis.conf", directory);
    execlp("redis-server", "redis-server", path, sentinel ? "--sentinel" : NULL, (char *)NULL);
}

const char *redis_node_id(int index) {
    static char ids[SERVERS_MAX][41];

    snprintf(ids[index], sizeof ids[index], "%040d", index + 1);
    return ids[index];
}

bool redis_write_nodes(const char *directory, const struct redis_nodes *nodes, int myself) {
    int primaries = nodes->alone ? nodes->count : nodes->count / 2;
    char text[2048];
    size_t used = 0;

    for (int i = 0; i < nodes->count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s:%u@%u %s", redis_node_id(i), nodes->host, nodes->ports[i],
                                 nodes->buses[i], i == myself ? "myself," : "");
        if (i < primaries)
            used += (size_t)snprintf(text + used, sizeof text - used, "master - 0 0 %d connected %d-%d\n", i + 1,
                                     (SLOTS * i + primaries / 2) / primaries, (SLOTS * (i + 1) + primaries / 2) / primaries - 1);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "slave %s 0 0 %d connected\n", redis_node_id(i - primaries),
                                     i - primaries + 1);
    }
    return write_file(directory, "nodes.conf", "%svars currentEpoch %d lastVoteEpoch 0\n", text, primaries);
}

/* ---- One of several ------------------------------------------------------------------------------------------------------- */

bool redis_prepare(struct servers *servers, int index, const char *lines) {
    const struct server *server = &servers->list[index];
    char source[64] = "", all[2048];

    /* By the address that it comes from a proxy tells a server from a client. */
    if (servers->proxied)
        snprintf(source, sizeof source, "bind-source-addr 127.0.0.%d\n", PROXY_SOURCE + index);
    snprintf(all, sizeof all, "save \"\"\n%s%s%s", source, lines, servers->lines != NULL ? servers->lines : "");
    if (redis_configure(server->directory, servers_address(servers), server->port, all))
        return true;
    snprintf(servers->why, sizeof servers->why, "cannot write %s/redis.conf", server->directory);
    return false;
}

void redis_run(struct servers *servers, int index) {
    redis_become(servers->list[index].directory, false);
}

/* One that wants a password first serves, too. */
bool redis_ready(struct servers *servers, int index) {
    char answer[64];

    return server_ask(servers, index, "PING\r\n", "\r\n", answer, sizeof answer) &&
           (strncmp(answer, "+PONG", 5) == 0 || strncmp(answer, "-NOAUTH", 7) == 0);
}

bool redis_ask(const struct servers *servers, int index, char *answer, size_t size, const char *format, ...) {
    char question[1024], *end;
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(question, sizeof question, format, arguments);
    va_end(arguments);
    snprintf(question + length, sizeof question - (size_t)length, "\r\nECHO pawl-end\r\n");
    if (servers->list[index].pid == 0 || !server_ask(servers, index, question, "pawl-end", answer, size))
        return false;
    end = strstr(answer, "$8\r\npawl-end");
    if (end != NULL)
        *end = '\0';
    return true;
}

bool redis_is_primary(const struct servers *servers, int index) {
    char answer[4096];

    return redis_ask(servers, index, answer, sizeof answer, "INFO replication") && strstr(answer, "role:master") != NULL;
}

/* ---- Those that know nothing of each other -------------------------------------------------------------------------------- */

static bool prepare(struct servers *servers) {
    bool good = true;

    for (int i = 0; good && i < servers->count; i++)
        good = redis_prepare(servers, i, "");
    return good;
}

static void redis_url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, servers->count > 1 ? "redlock://" : "redis://");

    servers_places(servers, 0, servers->count, proxied, ret + used, size - used);
}

const struct topology redis_topology = {
    .word = "redis",
    .count = 1,
    .missing = redis_missing,
    .prepare = prepare,
    .become = redis_run,
    .ready = redis_ready,
    .url = redis_url,
};

const struct topology redlock_topology = {
    .word = "redlock",
    .count = VOTERS,
    .missing = redis_missing,
    .prepare = prepare,
    .become = redis_run,
    .ready = redis_ready,
    .url = redis_url,
};
