/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_group.c - see zookeeper_group.h.
 *
 * With proxies the servers of an ensemble reach each other through proxies, too, so that one of them can be cut off from the others and
 * still serve its clients. Each server's configuration names the others by the proxies between the two: an ensemble does not mind.
 */
#include "zookeeper_group.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "../../cli/common/cli.h"
#include "proxy.h"

enum { ENSEMBLE = 3, PEER_PORTS = 2 /* of the quorum, and of elections */, PATIENCE_MS = 60000, MODE = 32 };

static void mode_of(const struct servers *servers, int index, char *ret) {
    zookeeper_mode(servers_address(servers), servers->list[index].port, ret, MODE);
}

static unsigned peer_port(const struct servers *servers, int from, int to, int port) {
    const struct proxy *proxy = servers->list[from].to[to][port];

    return proxy != NULL ? proxy_port(proxy) : servers->list[to].peers[port];
}

static bool prepare_one(struct servers *servers, int index) {
    const struct server *server = &servers->list[index];
    char lines[2048] = "";
    size_t used = 0;

    for (int i = 0; servers->count > 1 && i < servers->count; i++)
        used += (size_t)snprintf(lines + used, sizeof lines - used, "server.%d=127.0.0.1:%u:%u\n", i + 1,
                                 peer_port(servers, index, i, 0), peer_port(servers, index, i, 1));
    snprintf(lines + used, sizeof lines - used, "%s", servers->lines != NULL ? servers->lines : "");
    if (zookeeper_configure(server->directory, index, servers_address(servers), server->port, lines))
        return true;
    snprintf(servers->why, sizeof servers->why, "cannot write %s/zoo.cfg", server->directory);
    return false;
}

static bool make_peer_proxies(struct servers *servers) {
    for (int from = 0; from < servers->count; from++)
        for (int to = 0; to < servers->count; to++)
            for (int port = 0; port < PEER_PORTS && from != to; port++) {
                struct proxy *proxy = server_proxy(servers, servers->list[to].peers[port]);

                if (proxy == NULL)
                    return false;
                servers->list[from].to[to][port] = proxy;
            }
    return true;
}

static bool prepare(struct servers *servers) {
    bool good = !servers->proxied || make_peer_proxies(servers);

    for (int i = 0; good && i < servers->count; i++)
        good = prepare_one(servers, i);
    return good;
}

static void run(struct servers *servers, int index) {
    zookeeper_become(servers->list[index].directory, servers->java);
}

static bool ready(struct servers *servers, int index) {
    char mode[MODE];

    mode_of(servers, index, mode);
    return mode[0] != '\0';
}

static void url(const struct servers *servers, bool proxied, char *ret, size_t size) {
    size_t used = (size_t)snprintf(ret, size, "zk://");

    used += servers_places(servers, 0, servers->count, proxied, ret + used, size - used);
    snprintf(ret + used, size - used, "/locks");
}

int zookeeper_leader(const struct servers *servers) {
    char mode[MODE];

    for (int i = 0; i < servers->count; i++) {
        if (servers->list[i].pid == 0)
            continue;
        mode_of(servers, i, mode);
        if (strcmp(mode, "leader") == 0)
            return i;
    }
    return -1;
}

int zookeeper_await_whole(struct servers *servers) {
    int64_t deadline = deadline_in(PATIENCE_MS);
    int leader = -1;

    while (poll_timeout(deadline) > 0) {
        int serve = 0;

        leader = zookeeper_leader(servers);
        for (int i = 0; i < servers->count; i++)
            serve += ready(servers, i);
        if (leader >= 0 && serve == servers->count)
            break;
        poll(NULL, 0, 20);
    }
    return leader;
}

const struct topology zookeeper_topology = {
    .word = "zookeeper",
    .count = 1,
    .missing = zookeeper_missing,
    .prepare = prepare,
    .become = run,
    .ready = ready,
    .url = url,
};

const struct topology zookeeper3_topology = {
    .word = "zookeeper3",
    .count = ENSEMBLE,
    .missing = zookeeper_missing,
    .prepare = prepare,
    .become = run,
    .ready = ready,
    .url = url,
};
