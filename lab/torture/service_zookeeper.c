/* SPDX-License-Identifier: Apache-2.0
 *
 * service_zookeeper.c - `--start zookeeper`, one server, and `--start zookeeper3`, an ensemble whose servers reach each other through
 * proxies too, so that one of them can be cut off from the others and still serve its clients.
 *
 * Each server's configuration names the others by the proxies that stand between the two: an ensemble does not mind.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "../servers/proxy.h"
#include "servers.h"

static const char jar[] = "/usr/share/java/zookeeper.jar";

enum { ENSEMBLE = 3, PEER_PORTS = 2 /* of the quorum, and of elections */, LEADER_MS = 20000, PATIENCE_MS = 60000, LOG_HEAD = 16 };

/* Between server `from` and port number `port` of server `to`. */
static struct proxy *between[ENSEMBLE][ENSEMBLE][PEER_PORTS];

static unsigned peer_port(const struct servers *servers, int from, int to, int port) {
    return from == to ? servers->list[to].peers[port] : proxy_port(between[from][to][port]);
}

static bool write_configuration(struct servers *servers, int index) {
    struct server *server = &servers->list[index];
    char peers[512] = "", data[SERVERS_PATH + 8], id[16];
    size_t used = 0;

    for (int i = 0; servers->count > 1 && i < servers->count; i++)
        used += (size_t)snprintf(peers + used, sizeof peers - used, "server.%d=127.0.0.1:%u:%u\n", i + 1,
                                 peer_port(servers, index, i, 0), peer_port(servers, index, i, 1));
    snprintf(data, sizeof data, "%s/data", server->directory);
    snprintf(id, sizeof id, "%d\n", index + 1);
    return mkdir(data, 0700) == 0 && write_file(data, "myid", "%s", id) &&
           write_file(server->directory, "log4j.properties",
                      "log4j.rootLogger=WARN, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n"
                      "log4j.appender.A.layout=org.apache.log4j.SimpleLayout\n") &&
           write_file(server->directory, "zoo.cfg",
                      "tickTime=500\ninitLimit=20\nsyncLimit=4\ndataDir=%s\nclientPort=%u\nclientPortAddress=127.0.0.1\n"
                      "maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nadmin.enableServer=false\n"
                      "4lw.commands.whitelist=*\n%s",
                      data, server->port, peers);
}

static bool make_peer_proxies(struct servers *servers) {
    for (int from = 0; from < servers->count; from++)
        for (int to = 0; to < servers->count; to++)
            for (int port = 0; port < PEER_PORTS && from != to; port++)
                if ((between[from][to][port] = server_proxy(servers, servers->list[to].peers[port])) == NULL)
                    return false;
    return true;
}

static bool prepare(struct servers *servers) {
    bool good = true;

    if (access(jar, R_OK) != 0 || access("/usr/bin/java", X_OK) != 0) {
        snprintf(servers->why, sizeof servers->why, "there is no ZooKeeper (Debian: zookeeper, default-jre-headless)");
        return false;
    }
    for (int i = 0; good && i < servers->count; i++) {
        struct server *server = &servers->list[i];

        server->port = free_port();
        server->peers[0] = free_port();
        server->peers[1] = free_port();
        server->proxy = server_proxy(servers, server->port);
        good = server->port > 0 && server->peers[0] > 0 && server->peers[1] > 0 && server->proxy != NULL;
    }
    good = good && (servers->count == 1 || make_peer_proxies(servers));
    for (int i = 0; good && i < servers->count; i++)
        good = write_configuration(servers, i);
    if (!good)
        snprintf(servers->why, sizeof servers->why, "no port, no proxy, or no file");
    return good;
}

static void finish(struct servers *servers) {
    (void)servers;
    for (int i = 0; i < ENSEMBLE * ENSEMBLE * PEER_PORTS; i++)
        proxy_free((&between[0][0][0])[i]);
}

static void run(const struct servers *servers, int index) {
    const char *directory = servers->list[index].directory;
    char path[1024], config[SERVERS_PATH + 16];

    snprintf(path, sizeof path, "%s:%s:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar", directory, jar);
    snprintf(config, sizeof config, "%s/zoo.cfg", directory);
    execl("/usr/bin/java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true",
          "-Dzookeeper.preAllocSize=1024", "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
}

/* The port opens before the database is loaded: only its own word tells. */
static bool ready(struct servers *servers, int index) {
    char answer[4096];

    return ask_port(servers->list[index].port, "srvr", NULL, answer, sizeof answer) && strstr(answer, "Mode:") != NULL;
}

/* One of an ensemble that has lost its log goes on running, and waits for better times. */
static bool refuses(struct servers *servers, int index) {
    char answer[4096];

    return ask_port(servers->list[index].port, "srvr", NULL, answer, sizeof answer) &&
           strstr(answer, "not currently serving") != NULL;
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "zk://");

    used += servers_places(servers, 0, servers->count, proxied, ret + used, size - used);
    snprintf(ret + used, size - used, "/torture");
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static int leader_of(const struct servers *servers) {
    char answer[4096];

    for (int i = 0; i < servers->count; i++)
        if (servers->list[i].pid > 0 && ask_port(servers->list[i].port, "srvr", NULL, answer, sizeof answer) &&
            strstr(answer, "Mode: leader") != NULL)
            return i;
    return -1;
}

/* Cut one off from the others, or end that. */
static unsigned isolate(const struct servers *servers, int index, bool begin) {
    unsigned hits = 0;

    for (int other = 0; other < servers->count; other++)
        for (int port = 0; port < PEER_PORTS && other != index; port++) {
            struct proxy *both[2] = {between[index][other][port], between[other][index][port]};

            for (int i = 0; i < 2; i++) {
                if (begin)
                    proxy_begin(both[i], MISCHIEF_FREEZE, 1, 0, 0);
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

/* The leader, once all serve; -1: they never do. */
static int await_whole(struct servers *servers) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    int leader;

    while (((leader = leader_of(servers)) < 0 || !ready(servers, 0) || !ready(servers, 1) || !ready(servers, 2)) &&
           poll_timeout(deadline) > 0)
        poll(NULL, 0, 20);
    return leader;
}

static unsigned begin(struct servers *servers, enum fault fault, uint64_t target) {
    int leader = await_whole(servers);

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
static int64_t ask_number(unsigned port, const char *word, const char *name) {
    static char answer[65536];
    const char *place;

    if (!ask_port(port, word, NULL, answer, sizeof answer) || (place = strstr(answer, name)) == NULL)
        return -1;
    return strtoll(place + strlen(name), NULL, 10);
}

/* Ask every server for a number that should be 0. */
static void find_any(struct servers *servers, const char *word, const char *name, const char *what, residue_fn *found, void *data) {
    char text[128];

    for (int i = 0; i < servers->count; i++) {
        int64_t deadline = deadline_in(LEADER_MS), count; /* one that was away may be joining the others still */

        while ((count = ask_number(servers->list[i].port, word, name)) != 0 && poll_timeout(deadline) > 0)
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

/* Clients are connected, and hold nothing and wait for nothing: whatever is watched is watched for nobody. */
static void litter(struct servers *servers, residue_fn *found, void *data) {
    find_any(servers, "wchs", "Total watches:", "watches of idle clients", found, data);
}

static int64_t wakes(struct servers *servers) {
    static const char *const names[] = {"zk_sum_node_deleted_watch_count\t", "zk_sum_node_children_watch_count\t",
                                        "zk_sum_node_changed_watch_count\t"};
    int64_t total = 0;

    for (int i = 0; i < servers->count; i++)
        for (int j = 0; j < 3; j++) {
            int64_t count = ask_number(servers->list[i].port, "mntr", names[j]);

            total += count > 0 ? count : 0;
        }
    return total;
}

const struct service zookeeper_service = {
    .word = "zookeeper",
    .engine = "zookeeper",
    .count = 1,
    .tcp = true,
    .prepare = prepare,
    .run = run,
    .ready = ready,
    .refuses = refuses,
    .tidy = tidy,
    .url = url,
    .residue = residue,
    .litter = litter,
    .wakes = wakes,
};

const struct service zookeeper3_service = {
    .word = "zookeeper3",
    .engine = "zookeeper3",
    .count = ENSEMBLE,
    .tcp = true,
    .prepare = prepare,
    .finish = finish,
    .run = run,
    .ready = ready,
    .refuses = refuses,
    .tidy = tidy,
    .url = url,
    .begin = begin,
    .heal = heal,
    .residue = residue,
    .litter = litter,
    .wakes = wakes,
};
