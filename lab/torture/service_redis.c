/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redis.c - `--start redis`: one Redis, which writes everything to its disk before it answers.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../servers/files.h"
#include "../servers/proxy.h"
#include "service_redis.h"

/* What lives for a second at most, such as the keys by which replicas are seen to be in step, may still be there. */
enum { RESIDUE_MS = 5000 };

bool redis_flush(const struct servers *servers, int index) {
    char answer[64];

    return server_ask(servers, index, "FLUSHALL\r\n", "+OK", answer, sizeof answer);
}

void redis_forget(struct servers *servers, int index) {
    char path[SERVERS_PATH + 32];

    snprintf(path, sizeof path, "%s/appendonlydir", servers->list[index].directory);
    remove_tree(path);
}

static void part(const struct servers *servers, int index) {
    const uint32_t all = (UINT32_C(1) << servers->count) - 1, it = UINT32_C(1) << index;

    for (int i = 0; i < servers->count; i++) {
        proxy_part(servers->list[i].proxy, i == index ? all : it);
        if (servers->list[i].bus != NULL)
            proxy_part(servers->list[i].bus, i == index ? all : it);
    }
}

void redis_depose(struct servers *servers, enum fault fault, int index) {
    if (fault == FAULT_PARTITION_SERVERS)
        part(servers, index);
    else
        server_kill(servers, index);
}

unsigned redis_join(const struct servers *servers) {
    unsigned hits = 0;

    for (int i = 0; i < servers->count; i++)
        hits += proxy_end(servers->list[i].proxy) + (servers->list[i].bus != NULL ? proxy_end(servers->list[i].bus) : 0);
    return hits;
}

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    return fault == FAULT_FLUSHALL && redis_flush(servers, (int)(target % (uint64_t)servers->count));
}

static const char *lacks(enum fault fault) {
    return fault == FAULT_FAILOVER ? "there is only one server" : NULL;
}

/* What stays on purpose: the last token (a voter's has who took it beside it), a semaphore's count of free permits, with its limit, and
 * values and notes. */
static bool belongs(const char *key) {
    return strncmp(key, "redisson_lock_token:", 20) == 0 || strncmp(key, "pawl:vote:", 10) == 0 ||
           strncmp(key, "pawl:limit:", 11) == 0 || strncmp(key, "pawl:value:", 11) == 0 || strncmp(key, "pawl:note:", 10) == 0 ||
           strncmp(key, "torture-semaphore-", 18) == 0;
}

/* Who waited when a holder's time ran out: of use for some seconds, and then it goes by itself. */
static bool goes_by_itself(const char *key) {
    return strncmp(key, "pawl:roll:", 10) == 0;
}

/* Is there no end to its time? The permits of a semaphore have times of their own, and are collected by the next client that asks. */
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
        if (line[0] == '*' || line[0] == '$' || line[0] == '\0' || belongs(line) ||
            (lasting ? !lasts(servers, index, line) : goes_by_itself(line)))
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
    .topology = &redis_topology,
    .lines = REDIS_LINES,
    .lacks = lacks,
    .forget = redis_forget,
    .begin = begin,
    .residue = residue,
    .litter = redis_litter,
};
