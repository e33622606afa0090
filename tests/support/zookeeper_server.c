/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_server.c - see zookeeper_server.h.
 */
#include "zookeeper_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/servers/files.h"
#include "../../lab/servers/zookeeper.h"

enum { PATIENCE_MS = 60000, STEP_MS = 50, TRIES = 3, MODE = 32 };

const char *zookeeper_server_missing(void) {
    return zookeeper_missing();
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------- */

static const char *address_of(const struct zookeeper_server *server, int index, int of_peers) {
    const char *address = server->how.addresses[index][of_peers];

    return address ? address : "127.0.0.1";
}

static void directory_of(const struct zookeeper_server *server, int index, char *ret, size_t size) {
    snprintf(ret, size, "%s/%d", server->directory, index);
}

static bool write_files(struct zookeeper_server *server) {
    unsigned ports[3 * ZOOKEEPER_SERVERS_MAX];
    char directory[512], lines[1024];
    int used;

    if (!free_ports(ports, 3 * (size_t)server->count))
        return false;
    used = snprintf(lines, sizeof lines, "4lw.commands.whitelist=%s\n", server->how.words ? server->how.words : "*");
    for (int i = 0; server->count > 1 && i < server->count; i++)
        used += snprintf(lines + used, sizeof lines - (size_t)used, "server.%d=%s:%u:%u\n", i + 1, address_of(server, i, 1),
                         ports[3 * i + 1], ports[3 * i + 2]);
    for (int i = 0; i < server->count; i++) {
        server->ports[i] = ports[3 * i];
        directory_of(server, i, directory, sizeof directory);
        mkdir(directory, 0700);
        if (!zookeeper_configure(directory, i, address_of(server, i, 0), server->ports[i], lines))
            return false;
    }
    return true;
}

int zookeeper_server_watches(unsigned port) {
    char answer[4096];
    const char *total;

    if (!ask_at("127.0.0.1", port, "wchs", NULL, answer, sizeof answer) || !(total = strstr(answer, "Total watches:")))
        return -1;
    return atoi(total + strlen("Total watches:"));
}

/* ---- Processes ------------------------------------------------------------------------------------------------------------ */

struct child {
    const struct zookeeper_server *server;
    int index;
};

static void become(void *data) {
    const struct child *child = data;
    const struct zookeeper_how *how = &child->server->how;
    const char *options[3] = {how->read_only ? "-Dreadonlymode.enabled=true" : "-Dreadonlymode.enabled=false",
                              how->quota ? "-Dzookeeper.enforceQuota=true" : "-Dzookeeper.enforceQuota=false"};
    char directory[512];

    if (how->inside)
        how->inside(child->index);
    directory_of(child->server, child->index, directory, sizeof directory);
    zookeeper_become(directory, options);
}

bool zookeeper_server_spawn(struct zookeeper_server *server, int index) {
    struct child child = {server, index};
    char directory[512];

    directory_of(server, index, directory, sizeof directory);
    pid_t pid = start_process(directory, become, &child);

    server->pids[index] = pid > 0 ? pid : 0;
    if (pid > 0 && server->how.outside)
        server->how.outside(index, pid);
    return pid > 0;
}

static void nap(void) {
    const struct timespec moment = {.tv_nsec = STEP_MS * 1000000};

    nanosleep(&moment, NULL);
}

/* `mode` NULL: any in which it serves. */
static bool await_mode(struct zookeeper_server *server, int index, const char *mode) {
    char found[MODE];

    for (int i = 0; i < PATIENCE_MS / STEP_MS; i++) {
        zookeeper_mode(address_of(server, index, 0), server->ports[index], found, sizeof found);
        if (mode ? strcmp(found, mode) == 0 : found[0] != '\0' && strcmp(found, "read-only") != 0)
            return true;
        if (waitpid(server->pids[index], NULL, WNOHANG) != 0) {
            server->pids[index] = 0;
            return false;
        }
        nap();
    }
    return false;
}

bool zookeeper_server_await_mode(struct zookeeper_server *server, int index, const char *mode) {
    return await_mode(server, index, mode);
}

/* What the servers said: it tells why they don't serve. */
static void show_output(const struct zookeeper_server *server) {
    char path[512], line[1024];
    FILE *file;

    for (int i = 0; i < server->count; i++) {
        snprintf(path, sizeof path, "%s/%d/output", server->directory, i);
        if (!(file = fopen(path, "r")))
            continue;
        printf("# %s:\n", path);
        for (int lines = 0; lines < 50 && fgets(line, sizeof line, file); lines++)
            printf("#   %s", line);
        fclose(file);
    }
}

static bool start_once(struct zookeeper_server *server, int count, const struct zookeeper_how *how) {
    bool up = true;

    memset(server, 0, sizeof *server);
    server->count = count;
    server->how = *how;
    snprintf(server->directory, sizeof server->directory, "%s/pawl-zookeeper-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(server->directory) || !write_files(server))
        return false;
    for (int i = 0; up && i < count; i++)
        up = zookeeper_server_spawn(server, i);
    for (int i = 0; up && i < count; i++)
        up = await_mode(server, i, NULL);
    if (!up) {
        show_output(server);
        zookeeper_server_stop(server);
    }
    return up;
}

bool zookeeper_server_start_as(struct zookeeper_server *server, int count, const struct zookeeper_how *how) {
    for (int i = 0; i < TRIES; i++) /* between being found free and being used a port may be taken by another */
        if (start_once(server, count, how))
            return true;
    return false;
}

bool zookeeper_server_start(struct zookeeper_server *server, int count) {
    const struct zookeeper_how as_usual = {0};

    return zookeeper_server_start_as(server, count, &as_usual);
}

void zookeeper_server_signal(struct zookeeper_server *server, int index, int number) {
    if (server->pids[index])
        kill(server->pids[index], number);
}

void zookeeper_server_kill(struct zookeeper_server *server, int index) {
    if (!server->pids[index])
        return;
    kill(server->pids[index], SIGKILL);
    waitpid(server->pids[index], NULL, 0);
    server->pids[index] = 0;
}

bool zookeeper_server_restart(struct zookeeper_server *server, int index) {
    return zookeeper_server_spawn(server, index) && await_mode(server, index, NULL);
}

void zookeeper_server_stop(struct zookeeper_server *server) {
    for (int i = 0; i < server->count; i++)
        zookeeper_server_kill(server, i);
    if (!remove_tree(server->directory))
        fprintf(stderr, "# %s could not be removed\n", server->directory);
}

int zookeeper_server_leader(struct zookeeper_server *server) {
    char mode[MODE];

    for (int i = 0; i < server->count; i++) {
        zookeeper_mode(address_of(server, i, 0), server->ports[i], mode, sizeof mode);
        if (server->pids[i] && strcmp(mode, "leader") == 0)
            return i;
    }
    return -1;
}
