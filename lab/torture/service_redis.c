/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redis.c - `--start redis`: one Redis, which writes everything to its disk before it answers.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "../servers/proxy.h"
#include "redis_rig.h"

/* What lives for a second at most, such as the keys by which replicas are seen to be in step, may still be there. */
enum { RESIDUE_MS = 5000 };

bool redis_write_config(struct servers *servers, int index, const char *more) {
    struct server *server = &servers->list[index];

    return write_file(server->directory, "redis.conf",
                      "bind 127.0.0.1\nport %u\ndir %s\nsave \"\"\nappendonly yes\nappendfsync always\nprotected-mode no\n"
                      "bind-source-addr 127.0.0.%d\n%s",
                      server->port, server->directory, PROXY_SOURCE + index, more);
}

bool redis_ports(struct servers *servers) {
    for (int i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];

        server->port = free_port();
        server->proxy = server->port > 0 ? server_proxy(servers, server->port) : NULL;
        if (server->proxy == NULL) {
            snprintf(servers->why, sizeof servers->why, "no port, or no proxy");
            return false;
        }
    }
    return true;
}

bool redis_missing(struct servers *servers) {
    if (access("/usr/bin/redis-server", X_OK) == 0 || access("/usr/local/bin/redis-server", X_OK) == 0)
        return false;
    snprintf(servers->why, sizeof servers->why, "there is no redis-server (Debian: redis-server)");
    return true;
}

static bool prepare(struct servers *servers) {
    return !redis_missing(servers) && redis_ports(servers) && redis_write_config(servers, 0, "");
}

void redis_run(const struct servers *servers, int index) {
    char path[SERVERS_PATH + 16];

    snprintf(path, sizeof path, "%s/redis.conf", servers->list[index].directory);
    execlp("redis-server", "redis-server", path, (char *)NULL);
}

bool redis_ready(struct servers *servers, int index) {
    char answer[64];

    return ask_port(servers->list[index].port, "PING\r\n", "PONG", answer, sizeof answer);
}

bool redis_ask(const struct servers *servers, int index, char *answer, size_t size, const char *format, ...) {
    char question[1024], *end;
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(question, sizeof question, format, arguments);
    va_end(arguments);
    snprintf(question + length, sizeof question - (size_t)length, "\r\nECHO pawl-end\r\n");
    if (servers->list[index].pid == 0 || !ask_port(servers->list[index].port, question, "pawl-end", answer, size))
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

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redis://");

    servers_places(servers, 0, 1, proxied, ret + used, size - used);
}

bool redis_flush(const struct servers *servers, int index) {
    char answer[64];

    return ask_port(servers->list[index].port, "FLUSHALL\r\n", "+OK", answer, sizeof answer);
}

void redis_forget(struct servers *servers, int index) {
    char path[SERVERS_PATH + 32];

    snprintf(path, sizeof path, "%s/appendonlydir", servers->list[index].directory);
    remove_tree(path);
}

static void part(const struct servers *servers, struct proxy *const *buses, int index) {
    const uint32_t all = (UINT32_C(1) << servers->count) - 1, it = UINT32_C(1) << index;

    for (int i = 0; i < servers->count; i++) {
        proxy_part(servers->list[i].proxy, i == index ? all : it);
        if (buses != NULL)
            proxy_part(buses[i], i == index ? all : it);
    }
}

void redis_depose(struct servers *servers, struct proxy *const *buses, enum fault fault, int index) {
    if (fault == FAULT_PARTITION_SERVERS)
        part(servers, buses, index);
    else
        server_kill(servers, index);
}

unsigned redis_join(const struct servers *servers, struct proxy *const *buses) {
    unsigned hits = 0;

    for (int i = 0; i < servers->count; i++)
        hits += proxy_end(servers->list[i].proxy) + (buses != NULL ? proxy_end(buses[i]) : 0);
    return hits;
}

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    return fault == FAULT_FLUSHALL && redis_flush(servers, (int)(target % (uint64_t)servers->count));
}

static const char *lacks(enum fault fault) {
    return fault == FAULT_FAILOVER ? "there is only one server" : NULL;
}

/* What stays on purpose: the last token (a voter's has who took it beside it), and a semaphore's count of free permits, with its limit. */
static bool belongs(const char *key) {
    return strncmp(key, "redisson_lock_token:", 20) == 0 || strncmp(key, "pawl:vote:", 10) == 0 ||
           strncmp(key, "pawl:limit:", 11) == 0 || strncmp(key, "torture-semaphore-", 18) == 0;
}

/* Is there no end to its time? The permits of a semaphore have times of their own, and are collected by whoever asks next. */
static bool lasts(const struct servers *servers, int index, const char *key) {
    char answer[64];
    size_t length = strlen(key);

    if (length > 8 && strcmp(key + length - 8, ":timeout") == 0)
        return false;
    return redis_ask(servers, index, answer, sizeof answer, "PTTL %.200s", key) && strncmp(answer, ":-1\r", 4) == 0;
}

/* Keys that don't belong, one by one, or only those that last; returns how many. `found` may be NULL. */
static int leftovers(const struct servers *servers, int index, bool lasting, residue_fn *found, void *data) {
    static char answer[65536];
    char text[300], *rest = answer, *line;
    int count = 0;

    if (!redis_ask(servers, index, answer, sizeof answer, "KEYS *")) {
        if (found != NULL)
            found("the server can't be asked for its keys", data);
        return 1;
    }
    while ((line = strsep(&rest, "\n")) != NULL) {
        line[strcspn(line, "\r")] = '\0';
        if (line[0] == '*' || line[0] == '$' || line[0] == '\0' || belongs(line) || (lasting && !lasts(servers, index, line)))
            continue;
        count++;
        snprintf(text, sizeof text, lasting ? "a key that no time ends: %.200s" : "a key: %.200s", line);
        if (found != NULL)
            found(text, data);
    }
    return count;
}

void redis_residue_of(const struct servers *servers, int index, residue_fn *found, void *data) {
    int64_t deadline = deadline_in(RESIDUE_MS);

    while (leftovers(servers, index, false, NULL, NULL) > 0 && poll_timeout(deadline) > 0)
        poll(NULL, 0, 50);
    leftovers(servers, index, false, found, data);
}

/* Nobody holds anything: what is there is of the dead, and would go even if nobody ever asked again. */
void redis_litter(struct servers *servers, residue_fn *found, void *data) {
    for (int i = 0; i < servers->count; i++)
        if (redis_is_primary(servers, i))
            leftovers(servers, i, true, found, data);
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    redis_residue_of(servers, 0, found, data);
}

const struct service redis_service = {
    .word = "redis",
    .engine = "redis",
    .count = 1,
    .tcp = true,
    .lacks = lacks,
    .prepare = prepare,
    .run = redis_run,
    .ready = redis_ready,
    .forget = redis_forget,
    .url = url,
    .begin = begin,
    .residue = residue,
    .litter = redis_litter,
};
