/* SPDX-License-Identifier: Apache-2.0
 *
 * sentinel.c - see redis_group.h: a primary with two replicas, and three sentinels that watch it. `redis-replicas`: the same, and a grant
 * counts only when both replicas have it. `sentinels`: three sentinels alone, which watch what their further lines say.
 *
 * With proxies all of them know each other by the proxies' ports, so that what the sentinels tell a client leads through a proxy, too.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "../../cli/common/cli.h"
#include "proxy.h"
#include "redis_group.h"

enum { ALL = SENTINEL_SERVERS + SENTINEL_SENTINELS, PATIENCE_MS = 60000, DOWN_AFTER_MS = 60000 };

static const char name[] = "mymaster";

static bool prepare_sentinel(struct servers *servers, int index) {
    const char *host = servers_host(servers);
    int64_t down_after = servers->down_after_ms > 0 ? servers->down_after_ms : DOWN_AFTER_MS;
    const struct server *server = &servers->list[index];
    char source[64] = "", lines[1024];

    if (servers->proxied)
        snprintf(source, sizeof source, "bind-source-addr 127.0.0.%d\n", PROXY_SOURCE + index);
    snprintf(lines, sizeof lines,
             "%ssentinel announce-ip %s\nsentinel announce-port %u\nsentinel monitor %s %s %u 2\n"
             "sentinel down-after-milliseconds %s %" PRId64 "\nsentinel failover-timeout %s %" PRId64 "\n",
             source, host, server_port(servers, index), name, host, server_port(servers, 0), name, down_after, name, down_after);
    if (redis_configure(server->directory, servers_address(servers), server->port, lines))
        return true;
    snprintf(servers->why, sizeof servers->why, "cannot write %s/redis.conf", server->directory);
    return false;
}

static bool prepare(struct servers *servers) {
    const char *host = servers_host(servers);
    bool good = true;
    char lines[256];

    for (int i = 0; good && i < SENTINEL_SERVERS; i++) {
        int used = snprintf(lines, sizeof lines, "replica-announce-ip %s\nreplica-announce-port %u\nrepl-diskless-sync-delay 0\n",
                            host, server_port(servers, i));

        if (i > 0)
            snprintf(lines + used, sizeof lines - (size_t)used, "replicaof %s %u\n", host, server_port(servers, 0));
        good = redis_prepare(servers, i, lines);
    }
    for (int i = SENTINEL_SERVERS; good && i < ALL; i++)
        good = prepare_sentinel(servers, i);
    return good;
}

/* The last three are the sentinels. */
static int first_sentinel(const struct servers *servers) {
    return servers->count - SENTINEL_SENTINELS;
}

static void run(struct servers *servers, int index) {
    redis_become(servers->list[index].directory, index >= first_sentinel(servers));
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redis-sentinel://");

    used += servers_places(servers, first_sentinel(servers), SENTINEL_SENTINELS, proxied, ret + used, size - used);
    snprintf(ret + used, size - used, "/%s", name);
}

static void url_with_replicas(const struct servers *servers, bool proxied, char *ret, size_t size) {
    url(servers, proxied, ret, size);
    size_t used = strlen(ret);

    snprintf(ret + used, size - used, "?replicas=%d", SENTINEL_SERVERS - 1);
}

/* ---- Who is what ---------------------------------------------------------------------------------------------------------- */

/* The primary that a majority of the sentinels name, and that agrees; -1: none. */
static int primary_of(const struct servers *servers) {
    int votes[SENTINEL_SERVERS] = {0};
    char answer[256], port[16];

    for (int i = SENTINEL_SERVERS; i < ALL; i++) {
        if (!redis_ask(servers, i, answer, sizeof answer, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", name))
            continue;
        for (int j = 0; j < SENTINEL_SERVERS; j++) {
            snprintf(port, sizeof port, "\n%u\r", server_port(servers, j));
            votes[j] += strstr(answer, port) != NULL;
        }
    }
    for (int j = 0; j < SENTINEL_SERVERS; j++)
        if (votes[j] * 2 > SENTINEL_SENTINELS && redis_is_primary(servers, j))
            return j;
    return -1;
}

int sentinel_await_primary(const struct servers *servers, int other) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    int primary;

    while (((primary = primary_of(servers)) < 0 || primary == other) && poll_timeout(deadline) > 0)
        poll(NULL, 0, 50);
    return primary == other ? -1 : primary;
}

/* Are both replicas of this one in step, and do the sentinels know of each other? */
static bool is_whole(const struct servers *servers, int primary) {
    char answer[8192];

    if (primary < 0 || !redis_ask(servers, primary, answer, sizeof answer, "INFO replication"))
        return false;
    const char *first = strstr(answer, "state=online");

    if (first == NULL || strstr(first + 1, "state=online") == NULL)
        return false;
    for (int i = SENTINEL_SERVERS; i < ALL; i++)
        if (!redis_ask(servers, i, answer, sizeof answer, "SENTINEL MASTER %s", name) ||
            strstr(answer, "num-slaves\r\n$1\r\n2") == NULL || strstr(answer, "num-other-sentinels\r\n$1\r\n2") == NULL)
            return false;
    return true;
}

int sentinel_await_whole(const struct servers *servers) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    int primary;

    while (!is_whole(servers, primary = primary_of(servers))) {
        if (poll_timeout(deadline) == 0)
            return -1;
        poll(NULL, 0, 50);
    }
    return primary;
}

static bool join(struct servers *servers) {
    if (sentinel_await_whole(servers) >= 0)
        return true;
    snprintf(servers->why, sizeof servers->why, "the sentinels and replicas do not find each other");
    return false;
}

/* ---- Sentinels alone ------------------------------------------------------------------------------------------------------ */

static bool prepare_alone(struct servers *servers) {
    bool good = true;

    for (int i = 0; good && i < servers->count; i++)
        good = redis_configure(servers->list[i].directory, servers_address(servers), servers->list[i].port,
                               servers->lines != NULL ? servers->lines : "");
    return good;
}

const struct topology sentinels_topology = {
    .word = "sentinels",
    .count = SENTINEL_SENTINELS,
    .missing = redis_missing,
    .prepare = prepare_alone,
    .become = run,
    .ready = redis_ready,
    .url = url,
};

const struct topology sentinel_topology = {
    .word = "sentinel",
    .count = ALL,
    .clocks = SENTINEL_SERVERS, /* a sentinel whose clock jumps does nothing for 30 s */
    .missing = redis_missing,
    .prepare = prepare,
    .become = run,
    .ready = redis_ready,
    .join = join,
    .url = url,
};

const struct topology redis_replicas_topology = {
    .word = "redis-replicas",
    .count = ALL,
    .clocks = SENTINEL_SERVERS,
    .missing = redis_missing,
    .prepare = prepare,
    .become = run,
    .ready = redis_ready,
    .join = join,
    .url = url_with_replicas,
};
