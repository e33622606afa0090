/* SPDX-License-Identifier: Apache-2.0
 *
 * world_zookeeper.c - tests/support/zookeeper_server.h and tests/support/zookeeper_network.h for tests that live in the simulated world:
 * ZooKeeper servers that are simulated, with the settings that the real ones have there. This file is outside: it calls the world's
 * sockets by their names.
 */
#include "../../tests/support/zookeeper_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../servers/zookeeper.h"
#include "../world/names.h"
#include "../world/world.h"

enum { PATIENCE_MS = 60000, STEP_MS = 50, ENSEMBLES = 8, FIRST_PORT = 2181 };

struct ensemble {
    const struct zookeeper_server *server; /* NULL: this place is free */
    struct zookeeper *zookeeper;
    struct site *sites[ZOOKEEPER_SERVERS_MAX];
};
static struct ensemble ensembles[ENSEMBLES];
static unsigned ports_given;

static struct ensemble *ensemble_of(const struct zookeeper_server *server) {
    for (int i = 0; i < ENSEMBLES; i++)
        if (ensembles[i].server == server)
            return &ensembles[i];
    abort();
}

/* Of real servers with the same data the one with the highest number leads; here it is the first member. */
static unsigned member_of(const struct zookeeper_server *server, int index) {
    return (unsigned)(server->count - 1 - index);
}

const char *zookeeper_server_missing(void) {
    return NULL;
}

/* ---- Four-letter words ---------------------------------------------------------------------------------------------------- */

static bool ask(unsigned port, const char *word, char *answer, size_t size) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = sim_socket(AF_INET, SOCK_STREAM, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    ssize_t n = 0;

    if (sim_connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && sim_send(fd, word, strlen(word), 0) > 0)
        while (used + 1 < size && sim_poll(&wait, 1, PATIENCE_MS) == 1 && (n = sim_recv(fd, answer + used, size - 1 - used, 0)) > 0)
            used += (size_t)n;
    sim_close(fd);
    answer[used] = '\0';
    return used > 0;
}

int zookeeper_server_watches(unsigned port) {
    char answer[4096];
    const char *total;

    if (!ask(port, "wchs", answer, sizeof answer) || !(total = strstr(answer, "Total watches:")))
        return -1;
    return atoi(total + strlen("Total watches:"));
}

/* `mode` NULL: any in which it serves. */
static bool await_mode(struct zookeeper_server *server, int index, const char *mode) {
    char answer[4096];
    const char *found;

    for (int i = 0; i < PATIENCE_MS / STEP_MS; i++) {
        found = ask(server->ports[index], "srvr", answer, sizeof answer) ? strstr(answer, "Mode: ") : NULL;
        if (found && (mode ? strncmp(found + 6, mode, strlen(mode)) == 0 : strncmp(found + 6, "read-only", 9) != 0))
            return true;
        sim_nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
    }
    return false;
}

bool zookeeper_server_await_mode(struct zookeeper_server *server, int index, const char *mode) {
    return await_mode(server, index, mode);
}

int zookeeper_server_leader(struct zookeeper_server *server) {
    char answer[4096];

    for (int i = 0; i < server->count; i++)
        if (server->pids[i] && ask(server->ports[i], "srvr", answer, sizeof answer) && strstr(answer, "Mode: leader"))
            return i;
    return -1;
}

/* ---- Processes ------------------------------------------------------------------------------------------------------------ */

bool zookeeper_server_start_as(struct zookeeper_server *server, int count, const struct zookeeper_how *how) {
    struct ensemble *ensemble = ensemble_of(NULL);
    struct zookeeper_options options = {
        .count = (unsigned)count,
        .seed = ports_given + 1,
        .wall_ms = world_wall_ms() - world_now() / WORLD_MS,
        .tick_ms = 500,
        .min_session_ms = 1000,
        .max_session_ms = how->longest ? how->longest : 60000,
        .sync_limit = 10,
        .quota = how->quota,
        .read_only = how->read_only,
        .words = how->words,
    };

    memset(server, 0, sizeof *server);
    server->count = count;
    server->how = *how;
    *ensemble = (struct ensemble){.server = server, .zookeeper = zookeeper_new(&options)};
    for (int i = 0; i < count; i++) {
        char name[32];

        server->pids[i] = 1;
        server->ports[i] = FIRST_PORT + ports_given++;
        snprintf(name, sizeof name, "zookeeper %d", i + 1);
        ensemble->sites[i] = world_site(server->ports[i], name, &zookeeper_ops,
                                        zookeeper_member(ensemble->zookeeper, member_of(server, i)));
    }
    for (int i = 0; i < count; i++)
        if (!await_mode(server, i, NULL))
            return false;
    return true;
}

bool zookeeper_server_start(struct zookeeper_server *server, int count) {
    return zookeeper_server_start_as(server, count, &(struct zookeeper_how){.words = NULL});
}

void zookeeper_server_signal(struct zookeeper_server *server, int index, int number) {
    struct ensemble *ensemble = ensemble_of(server);
    unsigned member = member_of(server, index);

    if (!server->pids[index])
        return;
    if (number == SIGSTOP) {
        world_site_pause(ensemble->sites[index]);
        zookeeper_pause(ensemble->zookeeper, member, world_now());
    } else if (number == SIGCONT) {
        zookeeper_resume(ensemble->zookeeper, member, world_now());
        world_site_resume(ensemble->sites[index]);
    }
    world_site_touch(ensemble->sites[index]);
}

void zookeeper_server_kill(struct zookeeper_server *server, int index) {
    struct ensemble *ensemble = ensemble_of(server);

    if (!server->pids[index])
        return;
    world_site_down(ensemble->sites[index]);
    zookeeper_kill(ensemble->zookeeper, member_of(server, index), world_now());
    world_site_touch(ensemble->sites[index]);
    server->pids[index] = 0;
}

bool zookeeper_server_spawn(struct zookeeper_server *server, int index) {
    struct ensemble *ensemble = ensemble_of(server);

    zookeeper_restart(ensemble->zookeeper, member_of(server, index), world_now());
    world_site_up(ensemble->sites[index]);
    server->pids[index] = 1;
    return true;
}

bool zookeeper_server_restart(struct zookeeper_server *server, int index) {
    return zookeeper_server_spawn(server, index) && await_mode(server, index, NULL);
}

const char *zookeeper_network_prepare(struct zookeeper_how *how) {
    (void)how;
    return NULL;
}

void zookeeper_network_cut(struct zookeeper_server *server) {
    struct ensemble *ensemble = ensemble_of(server);

    zookeeper_isolate(ensemble->zookeeper, member_of(server, FOLLOWER), world_now());
    world_site_touch(ensemble->sites[FOLLOWER]);
}

void zookeeper_network_mend(struct zookeeper_server *server) {
    struct ensemble *ensemble = ensemble_of(server);

    zookeeper_join(ensemble->zookeeper, member_of(server, FOLLOWER), world_now());
    world_site_touch(ensemble->sites[FOLLOWER]);
}

/* Its memory stays until the world ends: connections to it may still be on their way to it. */
void zookeeper_server_stop(struct zookeeper_server *server) {
    for (int i = 0; i < server->count; i++)
        zookeeper_server_kill(server, i);
}
