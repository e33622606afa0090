/* SPDX-License-Identifier: Apache-2.0
 *
 * service_sentinel.c - `--start sentinel`: a primary with two replicas, and three sentinels that watch it. `--start redis-replicas`: the
 * same, and a grant counts only when both replicas have it.
 *
 * All of them know each other by the proxies' ports, so that what the sentinels tell a client leads through a proxy too. They connect from
 * addresses of their own, by which a proxy tells them from clients. A server is given up only after more time than any fault but
 * a failover, or a partition, takes.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "../servers/proxy.h"
#include "redis_rig.h"

enum { REDISES = 3, SENTINELS = 3, PATIENCE_MS = 60000 };

static const char name[] = "torture";

static unsigned outer_port(const struct servers *servers, int index) {
    return proxy_port(servers->list[index].proxy);
}

static bool write_sentinel_config(struct servers *servers, int index) {
    struct server *server = &servers->list[index];

    return write_file(server->directory, "redis.conf",
                      "bind 127.0.0.1\nport %u\ndir %s\nprotected-mode no\nbind-source-addr 127.0.0.%d\nsentinel announce-ip %s\n"
                      "sentinel announce-port %u\nsentinel monitor %s %s %u 2\nsentinel down-after-milliseconds %s %" PRId64
                      "\nsentinel failover-timeout %s %" PRId64 "\n",
                      server->port, server->directory, PROXY_SOURCE + index, servers->host, outer_port(servers, index), name,
                      servers->host, outer_port(servers, 0), name, 3 * servers->lease_ms, name, 3 * servers->lease_ms);
}

static bool prepare(struct servers *servers) {
    bool good = !redis_missing(servers) && redis_ports(servers);
    char more[256];

    for (int i = 0; good && i < REDISES; i++) {
        int used = snprintf(more, sizeof more, "replica-announce-ip %s\nreplica-announce-port %u\nrepl-diskless-sync-delay 0\n",
                            servers->host, outer_port(servers, i));

        if (i > 0)
            snprintf(more + used, sizeof more - (size_t)used, "replicaof %s %u\n", servers->host, outer_port(servers, 0));
        good = redis_write_config(servers, i, more);
    }
    for (int i = REDISES; good && i < REDISES + SENTINELS; i++)
        good = write_sentinel_config(servers, i);
    return good;
}

static void run(const struct servers *servers, int index) {
    char path[SERVERS_PATH + 16];

    if (index < REDISES)
        redis_run(servers, index);
    snprintf(path, sizeof path, "%s/redis.conf", servers->list[index].directory);
    execlp("redis-server", "redis-server", path, "--sentinel", (char *)NULL);
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redis-sentinel://");

    used += servers_places(servers, REDISES, SENTINELS, proxied, ret + used, size - used);
    snprintf(ret + used, size - used, "/%s", name);
}

static void url_with_replicas(const struct servers *servers, bool proxied, char *ret, size_t size) {
    url(servers, proxied, ret, size);
    size_t used = strlen(ret);

    snprintf(ret + used, size - used, "?replicas=%d", REDISES - 1);
}

/* ---- Who is what ---------------------------------------------------------------------------------------------------------- */

/* The primary that a majority of the sentinels name, and that agrees; -1: none. */
static int primary_of(const struct servers *servers) {
    int votes[REDISES] = {0};
    char answer[256], port[16];

    for (int i = REDISES; i < REDISES + SENTINELS; i++) {
        if (!redis_ask(servers, i, answer, sizeof answer, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", name))
            continue;
        for (int j = 0; j < REDISES; j++) {
            snprintf(port, sizeof port, "\n%u\r", outer_port(servers, j));
            votes[j] += strstr(answer, port) != NULL;
        }
    }
    for (int j = 0; j < REDISES; j++)
        if (votes[j] * 2 > SENTINELS && redis_is_primary(servers, j))
            return j;
    return -1;
}

/* Wait for a primary other than this one. */
static int await_primary(const struct servers *servers, int other) {
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
    for (int i = REDISES; i < REDISES + SENTINELS; i++)
        if (!redis_ask(servers, i, answer, sizeof answer, "SENTINEL MASTER %s", name) ||
            strstr(answer, "num-slaves\r\n$1\r\n2") == NULL || strstr(answer, "num-other-sentinels\r\n$1\r\n2") == NULL)
            return false;
    return true;
}

/* The primary, once all is as it should be; -1: it never is. */
static int await_whole(const struct servers *servers) {
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
    if (await_whole(servers) >= 0)
        return true;
    snprintf(servers->why, sizeof servers->why, "the sentinels and replicas do not find each other");
    return false;
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static int struck = -1;
static bool promotes; /* the partition lasts until another is primary in its place */

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    int primary = await_whole(servers);

    struck = -1;
    if (primary < 0)
        return 0;
    if (fault == FAULT_FLUSHALL)
        return redis_flush(servers, primary);
    struck = primary;
    promotes = target / 2 % 4 == 0;
    redis_depose(servers, NULL, fault, struck);
    return 0;
}

/* A new primary, or the fault was none. The old one comes back as a replica, by an operator's word: the sentinels would let some
 * seconds go by. */
static unsigned heal_failover(struct servers *servers) {
    int successor = await_primary(servers, struck);
    char answer[256];

    server_spawn(servers, struck);
    if (!server_await(servers, struck) || successor < 0)
        return 0;
    redis_ask(servers, struck, answer, sizeof answer, "REPLICAOF %s %u", servers->host, outer_port(servers, successor));
    return 1;
}

/* If another was promoted there are two primaries, and that ends only when the sentinels demote the old one. */
static unsigned heal_partition(struct servers *servers) {
    bool good = !promotes || await_primary(servers, struck) >= 0;
    unsigned hits = redis_join(servers, NULL);

    return good && await_whole(servers) >= 0 ? hits : 0;
}

static unsigned heal(struct servers *servers, enum fault fault, uint64_t target) {
    (void)target;
    if (struck < 0)
        return 0;
    return fault == FAULT_FAILOVER ? heal_failover(servers) : fault == FAULT_PARTITION_SERVERS ? heal_partition(servers) : 0;
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    int primary = await_whole(servers);

    if (primary < 0)
        found("in the end the servers are not whole", data);
    else
        redis_residue_of(servers, primary, found, data);
}

const struct service sentinel_service = {
    .word = "sentinel",
    .engine = "sentinel",
    .count = REDISES + SENTINELS,
    .tcp = true,
    .clocks = REDISES, /* a sentinel whose clock jumps does nothing for 30 s */
    .replicated = true,
    .prepare = prepare,
    .run = run,
    .ready = redis_ready,
    .join = join,
    .url = url,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = redis_litter,
};

const struct service redis_replicas_service = {
    .word = "redis-replicas",
    .engine = "redis-replicas",
    .count = REDISES + SENTINELS,
    .clocks = REDISES,
    .tcp = true,
    .replicated = true,
    .prepare = prepare,
    .run = run,
    .ready = redis_ready,
    .join = join,
    .url = url_with_replicas,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = redis_litter,
};
