/* SPDX-License-Identifier: Apache-2.0
 *
 * service_cluster.c - `--start cluster`: a failover, nodes that are cut off from each other, and slots that move.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service_redis.h"

enum { NODES = 2 * CLUSTER_PRIMARIES, PATIENCE_MS = 60000, KEYS_AT_ONCE = 100, RESTARTS = 10 };

/* A slot that has keys of locks, and the primary that has it. */
struct place {
    int node;
    unsigned slot;
};

enum { PLACES = 1024 };

/* Keys by the line, of one node: their slots are its slots. */
static size_t add_places(const struct servers *servers, int node, struct place *places, size_t count) {
    static char answer[65536], number[256];
    char *rest = answer, *line;

    if (!redis_is_primary(servers, node) || !redis_ask(servers, node, answer, sizeof answer, "KEYS *"))
        return count;
    while ((line = strsep(&rest, "\n")) != NULL && count < PLACES) {
        line[strcspn(line, "\r")] = '\0';
        if (strstr(line, "torture-") == NULL || !redis_ask(servers, node, number, sizeof number, "CLUSTER KEYSLOT %.200s", line) ||
            number[0] != ':')
            continue;
        places[count++] = (struct place){node, (unsigned)strtoul(number + 1, NULL, 10)};
    }
    return count;
}

/* After a FLUSHALL it takes a moment until there are any. False: none. */
static bool choose_place(const struct servers *servers, uint64_t target, struct place *ret) {
    static struct place places[PLACES];
    int64_t deadline = deadline_in(PATIENCE_MS);
    size_t count = 0;

    while (count == 0 && poll_timeout(deadline) > 0) {
        for (int i = 0; i < NODES; i++)
            count = add_places(servers, i, places, count);
        if (count == 0)
            poll(NULL, 0, 20);
    }
    if (count > 0)
        *ret = places[target % count];
    return count > 0;
}

static int another_primary(const struct servers *servers, int node, uint64_t target) {
    for (int i = 0; i < NODES; i++) {
        int other = (int)((target + (uint64_t)i) % NODES);

        if (other != node && redis_is_primary(servers, other))
            return other;
    }
    return -1;
}

/* ---- A slot moves --------------------------------------------------------------------------------------------------------- */

static struct place moving;
static int moving_to;
static unsigned moved; /* keys */

static bool is_done(const struct servers *servers, int node, const char *command, int other) {
    char answer[256];

    return redis_ask(servers, node, answer, sizeof answer, "CLUSTER SETSLOT %u %s %s", moving.slot, command,
                     redis_node_id(other)) &&
           strncmp(answer, "+OK", 3) == 0;
}

/* Move keys until so many are left behind. */
static bool move_keys(const struct servers *servers, unsigned leave) {
    static char answer[16384];
    char reply[256];

    for (int round = 0; round < PATIENCE_MS / 10; round++) {
        char *rest = answer, *line;
        unsigned seen = 0;

        if (!redis_ask(servers, moving.node, answer, sizeof answer, "CLUSTER GETKEYSINSLOT %u %d", moving.slot, KEYS_AT_ONCE))
            return false;
        while ((line = strsep(&rest, "\n")) != NULL) {
            line[strcspn(line, "\r")] = '\0';
            if (line[0] == '*' || line[0] == '$' || line[0] == '\0' || seen++ < leave)
                continue;
            moved += redis_ask(servers, moving.node, reply, sizeof reply, "MIGRATE 127.0.0.1 %u %s 0 30000",
                               servers->list[moving_to].port, line) &&
                     strncmp(reply, "+OK", 3) == 0;
        }
        if (seen <= leave)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* The slot is being moved, and about half of what is in it is there already. */
static void begin_move(struct servers *servers, uint64_t target) {
    moving.node = -1;
    moved = 0;
    if (!cluster_await_whole(servers) || !choose_place(servers, target, &moving))
        return;
    moving_to = another_primary(servers, moving.node, target);
    if (moving_to < 0 || !is_done(servers, moving_to, "IMPORTING", moving.node) ||
        !is_done(servers, moving.node, "MIGRATING", moving_to)) {
        moving.node = -1;
        return;
    }
    move_keys(servers, 2);
}

static unsigned end_move(struct servers *servers) {
    if (moving.node < 0 || !move_keys(servers, 0) || !is_done(servers, moving_to, "NODE", moving_to))
        return 0;
    bool done = is_done(servers, moving.node, "NODE", moving_to);

    for (int i = 0; i < NODES; i++)
        if (i != moving_to && i != moving.node && redis_is_primary(servers, i))
            is_done(servers, i, "NODE", moving_to);
    return done && cluster_await_whole(servers) ? moved : 0;
}

/* ---- A primary dies, or is cut off ---------------------------------------------------------------------------------------- */

static int struck = -1;
static bool promotes; /* the partition lasts until another is primary in its place */

/* Its slots have another primary, by the word of all but itself. */
static bool await_successor(const struct servers *servers, int old) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    bool found = false;

    while (!found && poll_timeout(deadline) > 0) {
        int primaries = 0;

        for (int i = 0; i < NODES; i++)
            primaries += i != old && redis_is_primary(servers, i);
        found = primaries == CLUSTER_PRIMARIES;
        if (!found)
            poll(NULL, 0, 20);
    }
    return found;
}

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    struct place place;

    struck = -1;
    if (fault == FAULT_SLOT_MIGRATION) {
        begin_move(servers, target);
        return 0;
    }
    if (!cluster_await_whole(servers) || !choose_place(servers, target, &place))
        return 0;
    if (fault == FAULT_FLUSHALL)
        return redis_flush(servers, place.node);
    struck = place.node;
    promotes = target / 2 % 2 == 0;
    redis_depose(servers, fault, struck);
    return 0;
}

/* Its port may have been given to another while it was down, as one that nobody uses: that one will be gone soon. */
static bool bring_back(struct servers *servers, int index) {
    for (int tries = 0; tries < RESTARTS; tries++) {
        if (server_spawn(servers, index) && server_await(servers, index))
            return true;
        say("%s", servers->why);
        if (servers->list[index].pid != 0)
            return false;
        poll(NULL, 0, 1000);
    }
    return false;
}

/* A successor, or the fault was none; and the old one comes back as its replica. */
static unsigned heal(struct servers *servers, enum fault fault, uint64_t target) {
    unsigned hits;

    (void)target;
    if (fault == FAULT_SLOT_MIGRATION)
        return end_move(servers);
    if (struck < 0 || (fault != FAULT_FAILOVER && fault != FAULT_PARTITION_SERVERS))
        return 0;
    if (fault == FAULT_PARTITION_SERVERS) {
        bool good = !promotes || await_successor(servers, struck);

        hits = redis_join(servers);
        return good && cluster_await_whole(servers) ? hits : 0;
    }
    hits = await_successor(servers, struck);
    return bring_back(servers, struck) && cluster_await_whole(servers) ? hits : 0;
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    if (!cluster_await_whole(servers))
        found("in the end the cluster is not whole", data);
    for (int i = 0; i < NODES; i++)
        redis_residue_of(servers, i, found, data);
}

const struct service cluster_service = {
    .word = "cluster",
    .engine = "cluster",
    .topology = &cluster_topology,
    .lines = REDIS_LINES,
    .given_up_leases = 2,
    .replicated = true,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = redis_litter,
};
