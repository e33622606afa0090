/* SPDX-License-Identifier: Apache-2.0
 *
 * service_zookeeper.c - `--start zookeeper`, one server, and `--start zookeeper3`, an ensemble: leaders that die, and servers that are cut
 * off from the others and still serve their clients.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../servers/proxy.h"
#include "../servers/zookeeper_group.h"
#include "service.h"

enum { ENSEMBLE = 3, PEER_PORTS = 2, LEADER_MS = 20000, LOG_HEAD = 16 };

/* One of an ensemble that has lost its log goes on running, and waits for better times. */
static bool refuses(struct servers *servers, int index) {
    char answer[4096];

    return server_ask(servers, index, "srvr", NULL, answer, sizeof answer) && strstr(answer, "not currently serving") != NULL;
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

/* Cut one off from the others, or end that. */
static unsigned isolate(const struct servers *servers, int index, bool begin) {
    unsigned hits = 0;

    for (int other = 0; other < servers->count; other++)
        for (int port = 0; port < PEER_PORTS && other != index; port++) {
            struct proxy *both[2] = {servers->list[index].to[other][port], servers->list[other].to[index][port]};

            for (int i = 0; i < 2; i++) {
                if (begin)
                    proxy_begin(both[i], PROXY_FAULT_FREEZE, 1, 0, 0);
                else
                    hits += proxy_end(both[i]);
            }
        }
    return hits;
}

/* It does not start with a log whose head is not complete, and leaves it to the operator to remove it: nothing in it was ever
 * acknowledged. */
static void tidy(struct servers *servers, int index) {
    char path[SERVERS_PATH + 32], name[SERVERS_PATH + 300];
    const struct dirent *entry;
    struct stat status;
    DIR *directory;

    snprintf(path, sizeof path, "%s/data/version-2", servers->list[index].directory);
    directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (strncmp(entry->d_name, "log.", 4) == 0 && stat(name, &status) == 0 && status.st_size < LOG_HEAD)
            unlink(name);
    }
    if (directory != NULL)
        closedir(directory);
}

static int struck = -1; /* by the fault that goes on */

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    int leader = zookeeper_await_whole(servers);

    struck = -1;
    if (leader < 0)
        return 0;
    if (fault == FAULT_LEADER_KILL) {
        struck = leader;
        server_kill(servers, leader);
        return 1;
    }
    struck = fault == FAULT_FOLLOWER_ISOLATE ? (leader + 1 + (int)(target % 2)) % ENSEMBLE : (int)(target % ENSEMBLE);
    isolate(servers, struck, true);
    return 0;
}

static unsigned heal(struct servers *servers, enum fault fault, uint64_t target) {
    (void)target;
    if (struck < 0)
        return 0;
    if (fault != FAULT_LEADER_KILL)
        return isolate(servers, struck, false);
    server_spawn(servers, struck);
    return !server_await(servers, struck) ? 0 : 1;
}

/* ---- What is left --------------------------------------------------------------------------------------------------------- */

/* A number that the server tells; -1: it doesn't. */
static int64_t ask_number(const struct servers *servers, int index, const char *word, const char *name) {
    static char answer[65536];
    const char *place;

    if (!server_ask(servers, index, word, NULL, answer, sizeof answer) || (place = strstr(answer, name)) == NULL)
        return -1;
    return strtoll(place + strlen(name), NULL, 10);
}

/* Ask every server for a number that should be 0. */
static void find_any(struct servers *servers, const char *word, const char *name, const char *what, residue_fn *found, void *data) {
    char text[128];

    for (int i = 0; i < servers->count; i++) {
        int64_t deadline = deadline_in(LEADER_MS), count; /* one that was away may be joining the others still */

        while ((count = ask_number(servers, i, word, name)) != 0 && poll_timeout(deadline) > 0)
            usleep(20000);
        if (count != 0) {
            snprintf(text, sizeof text, "%lld %s at server %d", (long long)count, what, i);
            found(text, data);
        }
    }
}

/* At every server: one that has lost a deletion shows nodes that the others have not. */
static void residue(struct servers *servers, residue_fn *found, void *data) {
    find_any(servers, "mntr", "zk_ephemerals_count\t", "ephemeral nodes", found, data);
}

/* Clients are connected, and hold nothing and wait for nothing: every watch is a leak. */
static void litter(struct servers *servers, residue_fn *found, void *data) {
    find_any(servers, "wchs", "Total watches:", "watches of idle clients", found, data);
}

static int64_t wakes(struct servers *servers) {
    static const char *const names[] = {"zk_sum_node_deleted_watch_count\t", "zk_sum_node_children_watch_count\t",
                                        "zk_sum_node_changed_watch_count\t"};
    int64_t total = 0;

    for (int i = 0; i < servers->count; i++)
        for (int j = 0; j < 3; j++) {
            int64_t count = ask_number(servers, i, "mntr", names[j]);

            total += count > 0 ? count : 0;
        }
    return total;
}

const struct service zookeeper_service = {
    .word = "zookeeper",
    .engine = "zookeeper",
    .topology = &zookeeper_topology,
    .refuses = refuses,
    .tidy = tidy,
    .residue = residue,
    .litter = litter,
    .wakes = wakes,
};

const struct service zookeeper3_service = {
    .word = "zookeeper3",
    .engine = "zookeeper3",
    .topology = &zookeeper3_topology,
    .lines = "syncLimit=4\n",
    .refuses = refuses,
    .tidy = tidy,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = litter,
    .wakes = wakes,
};
