/* SPDX-License-Identifier: Apache-2.0
 *
 * servers.c - see servers.h: starting and ending servers of any kind.
 */
#include "servers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../cli/common/cli.h"
#include "clock.h"
#include "files.h"
#include "proxy.h"

enum { READY_MS = 60000, ATTEMPTS = 3 };

static const struct topology *const topologies[] = {&redis_topology,     &redis_replicas_topology, &sentinel_topology,
                                                    &sentinels_topology, &cluster_topology,        &cluster_bare_topology,
                                                    &redlock_topology,   &zookeeper_topology,      &zookeeper3_topology};
enum { TOPOLOGIES = sizeof topologies / sizeof topologies[0] };

const struct topology *topology_find(const char *word) {
    for (int i = 0; i < TOPOLOGIES; i++)
        if (strcmp(topologies[i]->word, word) == 0)
            return topologies[i];
    return NULL;
}

const char *topology_words(void) {
    static char words[256];
    size_t used = 0;

    for (int i = 0; i < TOPOLOGIES && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > 0 ? " " : "", topologies[i]->word);
    return words;
}

/* ---- Where they are ------------------------------------------------------------------------------------------------------- */

static const char loopback[] = "127.0.0.1";

const char *servers_host(const struct servers *servers) {
    return servers->host != NULL ? servers->host : loopback;
}

const char *servers_address(const struct servers *servers) {
    return servers->proxied ? loopback : servers_host(servers);
}

unsigned server_port(const struct servers *servers, int index) {
    const struct server *server = &servers->list[index];

    return server->proxy != NULL ? proxy_port(server->proxy) : server->port;
}

size_t servers_places(const struct servers *servers, int first, int count, bool proxied, char *ret, size_t size) {
    const char *host = proxied ? servers_host(servers) : servers_address(servers);
    size_t used = 0;

    for (int i = first; i < first + count && used < size; i++)
        used += (size_t)snprintf(ret + used, size - used, strchr(host, ':') != NULL ? "%s[%s]:%u" : "%s%s:%u", i > first ? "," : "",
                                 host, proxied ? server_port(servers, i) : servers->list[i].port);
    return used;
}

bool server_ask(const struct servers *servers, int index, const char *text, const char *until, char *answer, size_t size) {
    return ask_at(servers_address(servers), servers->list[index].port, text, until, answer, size);
}

/* ---- One server ----------------------------------------------------------------------------------------------------------- */

struct child {
    struct servers *servers;
    int index;
};

static void become(void *data) {
    const struct child *child = data;
    const struct clock_page *clock = child->servers->list[child->index].clock;

    if (clock != NULL)
        clock_lie(child->servers->shim, clock->fd);
    child->servers->topology->become(child->servers, child->index);
}

bool server_spawn(struct servers *servers, int index) {
    struct child child = {servers, index};
    pid_t pid = start_process(servers->list[index].directory, become, &child);

    servers->list[index].pid = pid > 0 ? pid : 0;
    return pid > 0;
}

void server_kill(struct servers *servers, int index) {
    struct server *server = &servers->list[index];

    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

bool server_await(struct servers *servers, int index) {
    struct server *server = &servers->list[index];
    int64_t deadline = deadline_in(READY_MS);

    while (poll_timeout(deadline) > 0) {
        /* It may be another's that answers there: then ours ends soon. */
        bool ready = servers->topology->ready(servers, index);

        if (server->pid == 0 || waitpid(server->pid, NULL, WNOHANG) != 0) {
            server->pid = 0;
            snprintf(servers->why, sizeof servers->why, "server %d ended; see %s/output", index, server->directory);
            return false;
        }
        if (ready)
            return true;
        poll(NULL, 0, 10);
    }
    snprintf(servers->why, sizeof servers->why, "server %d does not serve; see %s/output", index, server->directory);
    return false;
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

int servers_clocks(const struct servers *servers) {
    return servers->topology->clocks > 0 ? servers->topology->clocks : servers->count;
}

static bool make_directories(struct servers *servers) {
    const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";

    snprintf(servers->directory, sizeof servers->directory, "%.100s/pawl-servers-XXXXXX", base);
    if (mkdtemp(servers->directory) == NULL) {
        servers->directory[0] = '\0';
        snprintf(servers->why, sizeof servers->why, "cannot make a directory in %s: %s", base, strerror(errno));
        return false;
    }
    for (int i = 0; i < servers->count; i++) {
        snprintf(servers->list[i].directory, sizeof servers->list[i].directory, "%.120s/%d", servers->directory, i);
        if (mkdir(servers->list[i].directory, 0700) < 0)
            return false;
    }
    return true;
}

struct proxy *server_proxy(struct servers *servers, unsigned target) {
    struct proxy *proxy = servers->host == NULL ? proxy_new(target, NULL, NULL, NULL) : proxy_new_for_all(target);

    if (proxy == NULL)
        snprintf(servers->why, sizeof servers->why, "cannot make a proxy: %s", strerror(errno));
    return proxy;
}

/* One for clients and two for the others, for each. */
static bool choose_ports(struct servers *servers) {
    unsigned ports[3 * SERVERS_MAX] = {0};

    if (!free_ports(ports, 3 * (size_t)servers->count)) {
        snprintf(servers->why, sizeof servers->why, "no free port: %s", strerror(errno));
        return false;
    }
    if (servers->port > 0)
        ports[0] = servers->port;
    for (int i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];

        server->port = ports[3 * i];
        server->peers[0] = ports[3 * i + 1];
        server->peers[1] = ports[3 * i + 2];
        if (servers->proxied && (server->proxy = server_proxy(servers, server->port)) == NULL)
            return false;
    }
    return true;
}

static bool make_clocks(struct servers *servers) {
    for (int i = 0; servers->shim != NULL && i < servers_clocks(servers); i++)
        if ((servers->list[i].clock = clock_new()) == NULL) {
            snprintf(servers->why, sizeof servers->why, "cannot make a clock: %s", strerror(errno));
            return false;
        }
    return true;
}

static bool start(struct servers *servers) {
    const struct topology *topology = servers->topology;

    if (!make_directories(servers) || !make_clocks(servers) || !choose_ports(servers) || !topology->prepare(servers))
        return false;
    for (int i = 0; i < servers->count; i++)
        if (!server_spawn(servers, i))
            return false;
    for (int i = 0; i < servers->count; i++)
        if (!server_await(servers, i))
            return false;
    return topology->join == NULL || topology->join(servers);
}

bool servers_start(struct servers *servers, const struct topology *topology) {
    const char *missing = topology->missing();

    servers->topology = topology;
    servers->count = topology->count;
    if (missing != NULL) {
        snprintf(servers->why, sizeof servers->why, "%s", missing);
        return false;
    }
    /* Somebody else may take a port before its server does. */
    for (int attempt = 1; !start(servers); attempt++) {
        if (attempt == ATTEMPTS)
            return false;
        servers_stop(servers);
        servers->count = topology->count;
    }
    return true;
}

bool servers_stop(struct servers *servers) {
    bool removed = servers->directory[0] == '\0';

    for (int i = 0; i < servers->count; i++) {
        struct server *server = &servers->list[i];

        server_kill(servers, i);
        clock_free(server->clock);
        proxy_free(server->proxy);
        proxy_free(server->bus);
        for (int j = 0; j < 2 * SERVERS_MAX; j++)
            proxy_free(server->to[j / 2][j % 2]);
        *server = (struct server){0};
    }
    servers->count = 0;
    if (servers->topology != NULL && servers->topology->finish != NULL)
        servers->topology->finish(servers);
    if (!removed)
        removed = remove_tree(servers->directory);
    if (removed)
        servers->directory[0] = '\0';
    return removed;
}
