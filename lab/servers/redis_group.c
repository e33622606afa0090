/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_group.c - see redis_group.h. One Redis, and the five of a Redlock, which know nothing of each other.
 */
#include "redis_group.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proxy.h"

enum { VOTERS = 5 };

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
