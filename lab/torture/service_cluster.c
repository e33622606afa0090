/* SPDX-License-Identifier: Apache-2.0
 *
 * service_cluster.c - `--start cluster`: three primaries with a replica each, and slots that move.
 *
 * A node announces the ports of the two proxies before it, one for clients and replicas, one for the bus, so that whoever finds a node
 * through the cluster finds a proxy. Nodes connect from addresses of their own, by which a proxy tells them from clients: a partition
 * between nodes holds back what they say to each other, and lets clients through to both sides.
 *
 * The cluster is written down, not made: each node starts with a file that says what it would know had it been there before.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "../servers/proxy.h"
#include "redis_rig.h"

enum { PRIMARIES = 3, NODES = 2 * PRIMARIES, PATIENCE_MS = 60000, ID_LENGTH = 40, KEYS_AT_ONCE = 100, RESTARTS = 10 };

static struct proxy *buses[NODES];

/* A node is given up after more time than any fault but a failover, or a partition, takes. */
static int64_t node_timeout(const struct servers *servers) {
    return 2 * servers->lease_ms;
}

/* ---- Start ---------------------------------------------------------------------------------------------------------------- */

static const char *id_of(int index) {
    static char ids[NODES][ID_LENGTH + 1];

    snprintf(ids[index], sizeof ids[index], "%040d", index + 1);
    return ids[index];
}

/* What this node knows of all. */
static bool write_nodes(const struct servers *servers, int myself) {
    static const char *const slots[PRIMARIES] = {"0-5460", "5461-10922", "10923-16383"};
    char text[2048];
    size_t used = 0;

    for (int i = 0; i < NODES; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s:%u@%u %s", id_of(i), servers->host,
                                 proxy_port(servers->list[i].proxy), proxy_port(buses[i]), i == myself ? "myself," : "");
        if (i < PRIMARIES)
            used += (size_t)snprintf(text + used, sizeof text - used, "master - 0 0 %d connected %s\n", i + 1, slots[i]);
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "slave %s 0 0 %d connected\n", id_of(i - PRIMARIES),
                                     i - PRIMARIES + 1);
    }
    return write_file(servers->list[myself].directory, "nodes.conf", "%svars currentEpoch %d lastVoteEpoch 0\n", text, PRIMARIES);
}

static bool write_config(struct servers *servers, int index) {
    struct server *server = &servers->list[index];
    char more[512];

    snprintf(more, sizeof more,
             "cluster-enabled yes\ncluster-port %u\ncluster-announce-ip %s\ncluster-announce-port %u\n"
             "cluster-announce-bus-port %u\ncluster-node-timeout %" PRId64 "\ncluster-allow-replica-migration no\n"
             "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n",
             server->peers[0], servers->host, proxy_port(server->proxy), proxy_port(buses[index]), node_timeout(servers));
    return redis_write_config(servers, index, more);
}

static bool prepare(struct servers *servers) {
    bool good = !redis_missing(servers) && redis_ports(servers);

    for (int i = 0; good && i < NODES; i++) {
        servers->list[i].peers[0] = free_port();
        buses[i] = servers->list[i].peers[0] > 0 ? server_proxy(servers, servers->list[i].peers[0]) : NULL;
        good = buses[i] != NULL;
        if (!good)
            snprintf(servers->why, sizeof servers->why, "no port, or no proxy, for the bus");
    }
    for (int i = 0; good && i < NODES; i++)
        good = write_config(servers, i) && write_nodes(servers, i);
    return good;
}

static void finish(struct servers *servers) {
    (void)servers;
    for (int i = 0; i < NODES; i++)
        proxy_free(buses[i]);
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "redis-cluster://");

    servers_places(servers, 0, NODES, proxied, ret + used, size - used);
}

/* ---- Who is what ---------------------------------------------------------------------------------------------------------- */

/* A number that CLUSTER INFO tells; -1: it does not. */
static long long epoch_of(const char *info) {
    const char *place = strstr(info, "cluster_current_epoch:");

    return place != NULL ? strtoll(strchr(place, ':') + 1, NULL, 10) : -1;
}

/* What a node says of itself and of the cluster. */
struct word {
    bool answers, serves, is_primary, is_linked;
    long long epoch;
};

static struct word word_of(const struct servers *servers, int index) {
    struct word word = {.epoch = -1};
    char answer[4096];

    if (!redis_ask(servers, index, answer, sizeof answer, "CLUSTER INFO"))
        return word;
    word.serves = strstr(answer, "cluster_state:ok") != NULL;
    word.epoch = epoch_of(answer);
    word.answers = redis_ask(servers, index, answer, sizeof answer, "INFO replication");
    word.is_primary = word.answers && strstr(answer, "role:master") != NULL;
    word.is_linked = word.answers && strstr(answer, "master_link_status:up") != NULL;
    return word;
}

/* Does every node say that the cluster serves, in the same epoch: has the last change been heard of everywhere? And are there three
 * primaries, and are the replicas' links up? */
static bool is_whole(const struct servers *servers) {
    long long epoch = -1;
    int primaries = 0;

    for (int i = 0; i < NODES; i++) {
        struct word word = word_of(servers, i);

        if (!word.answers || !word.serves || !(word.is_primary || word.is_linked) || (epoch >= 0 && word.epoch != epoch))
            return false;
        epoch = word.epoch;
        primaries += word.is_primary;
    }
    return primaries == PRIMARIES;
}

/* Why it is not, for whoever has to find out. */
static void say_why(const struct servers *servers) {
    char text[512] = "";
    size_t used = 0;

    for (int i = 0; i < NODES; i++) {
        struct word word = word_of(servers, i);

        used += (size_t)snprintf(text + used, sizeof text - used, "%s node %d ", i > 0 ? ";" : "", i);
        if (servers->list[i].pid == 0 || !word.answers)
            used += (size_t)snprintf(text + used, sizeof text - used, servers->list[i].pid == 0 ? "is down" : "does not answer");
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "is a %s in epoch %lld%s",
                                     word.is_primary  ? "primary"
                                     : word.is_linked ? "replica"
                                                      : "replica without a link",
                                     word.epoch, word.serves ? "" : " and does not serve");
    }
    say("the cluster is not whole after %d s:%s", PATIENCE_MS / 1000, text);
}

/* All of it, as it should be, before the next thing befalls it; else it is said what is not. */
static bool await_whole(const struct servers *servers) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    bool whole;

    while (!(whole = is_whole(servers)) && poll_timeout(deadline) > 0)
        poll(NULL, 0, 50);
    if (!whole)
        say_why(servers);
    return whole;
}

static bool join(struct servers *servers) {
    if (await_whole(servers))
        return true;
    snprintf(servers->why, sizeof servers->why, "the nodes of the cluster do not find each other");
    return false;
}

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

    return redis_ask(servers, node, answer, sizeof answer, "CLUSTER SETSLOT %u %s %s", moving.slot, command, id_of(other)) &&
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
static void begin_move(const struct servers *servers, uint64_t target) {
    moving.node = -1;
    moved = 0;
    if (!await_whole(servers) || !choose_place(servers, target, &moving))
        return;
    moving_to = another_primary(servers, moving.node, target);
    if (moving_to < 0 || !is_done(servers, moving_to, "IMPORTING", moving.node) ||
        !is_done(servers, moving.node, "MIGRATING", moving_to)) {
        moving.node = -1;
        return;
    }
    move_keys(servers, 2);
}

static unsigned end_move(const struct servers *servers) {
    if (moving.node < 0 || !move_keys(servers, 0) || !is_done(servers, moving_to, "NODE", moving_to))
        return 0;
    bool done = is_done(servers, moving.node, "NODE", moving_to);

    for (int i = 0; i < NODES; i++)
        if (i != moving_to && i != moving.node && redis_is_primary(servers, i))
            is_done(servers, i, "NODE", moving_to);
    return done && await_whole(servers) ? moved : 0;
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
        found = primaries == PRIMARIES;
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
    if (!await_whole(servers) || !choose_place(servers, target, &place))
        return 0;
    if (fault == FAULT_FLUSHALL)
        return redis_flush(servers, place.node);
    struck = place.node;
    promotes = target / 2 % 2 == 0;
    redis_depose(servers, buses, fault, struck);
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

        hits = redis_join(servers, buses);
        return good && await_whole(servers) ? hits : 0;
    }
    hits = await_successor(servers, struck);
    return bring_back(servers, struck) && await_whole(servers) ? hits : 0;
}

static void residue(struct servers *servers, residue_fn *found, void *data) {
    if (!await_whole(servers))
        found("in the end the cluster is not whole", data);
    for (int i = 0; i < NODES; i++)
        redis_residue_of(servers, i, found, data);
}

const struct service cluster_service = {
    .word = "cluster",
    .engine = "cluster",
    .count = NODES,
    .tcp = true,
    .replicated = true,
    .prepare = prepare,
    .finish = finish,
    .run = redis_run,
    .ready = redis_ready,
    .join = join,
    .url = url,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = redis_litter,
};
