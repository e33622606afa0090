/* SPDX-License-Identifier: Apache-2.0
 *
 * servers.c - see servers.h: starting, hurting and ending servers, whatever they are.
 */
#include "servers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "files.h"
#include "../servers/proxy.h"

enum { READY_MS = 60000 };

static const struct service *const services[] = {&local_service,   &redis_service,   &redis_replicas_service, &sentinel_service,
                                                 &cluster_service, &redlock_service, &zookeeper_service,      &zookeeper3_service};
enum { SERVICES = sizeof services / sizeof services[0] };

const struct service *service_find(const char *word) {
    for (int i = 0; i < SERVICES; i++)
        if (strcmp(services[i]->word, word) == 0)
            return services[i];
    return NULL;
}

const char *service_words(void) {
    static char words[256];
    size_t used = 0;

    for (int i = 0; i < SERVICES && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > 0 ? " " : "", services[i]->word);
    return words;
}

bool process_is_stopped(pid_t pid) {
    char path[64], text[512] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);

    fclose(file);
    text[length] = '\0';
    /* The name in parentheses may contain anything. */
    const char *parenthesis = strrchr(text, ')');

    return parenthesis != NULL && parenthesis[1] == ' ' && parenthesis[2] == 'T';
}

/* ---- One server ----------------------------------------------------------------------------------------------------------- */

bool server_spawn(struct servers *servers, int index) {
    struct server *server = &servers->list[index];
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (server->clock != NULL)
            clock_lie(servers->shim, server->clock);
        signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to be told */
        redirect_output(server->directory);
        servers->service->run(servers, index);
        _exit(EXIT_NOT_FOUND);
    }
    server->pid = pid > 0 ? pid : 0;
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

struct proxy *server_proxy(const struct servers *servers, unsigned target) {
    return strcmp(servers->host, "127.0.0.1") == 0 ? proxy_new(target, NULL, NULL, NULL) : proxy_new_for_all(target);
}

bool server_await(struct servers *servers, int index) {
    struct server *server = &servers->list[index];
    int64_t deadline = deadline_in(READY_MS);

    while (poll_timeout(deadline) > 0) {
        if (servers->service->ready(servers, index))
            return true;
        if (server->pid == 0 || waitpid(server->pid, NULL, WNOHANG) != 0) {
            server->pid = 0;
            snprintf(servers->why, sizeof servers->why, "server %d ended; see %s/output", index, server->directory);
            return false;
        }
        poll(NULL, 0, 10);
    }
    snprintf(servers->why, sizeof servers->why, "server %d does not serve; see %s/output", index, server->directory);
    return false;
}

unsigned servers_count_from(const struct servers *servers, uint32_t address) {
    unsigned count = 0;

    for (int i = 0; i < servers->count; i++)
        count += proxy_count_from(servers->list[i].proxy, address);
    return count;
}

size_t servers_places(const struct servers *servers, int first, int count, bool proxied, char *ret, size_t size) {
    size_t used = 0;

    for (int i = first; i < first + count; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s%s:%u", i > first ? "," : "", proxied ? servers->host : "127.0.0.1",
                                 proxied ? proxy_port(servers->list[i].proxy) : servers->list[i].port);
    return used;
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

static bool make_directories(struct servers *servers) {
    const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";

    snprintf(servers->directory, sizeof servers->directory, "%.100s/pawl-torture-XXXXXX", base);
    if (mkdtemp(servers->directory) == NULL) {
        servers->directory[0] = '\0';
        snprintf(servers->why, sizeof servers->why, "no directory can be made in %s: %s", base, strerror(errno));
        return false;
    }
    for (int i = 0; i < servers->count; i++) {
        snprintf(servers->list[i].directory, sizeof servers->list[i].directory, "%.120s/%d", servers->directory, i);
        if (mkdir(servers->list[i].directory, 0700) < 0)
            return false;
    }
    return true;
}

static int clocks_of(const struct servers *servers) {
    return servers->service->clocks > 0 ? servers->service->clocks : servers->count;
}

bool servers_start(struct servers *servers, const struct service *service) {
    servers->service = service;
    servers->count = service->count;
    if (!make_directories(servers))
        return false;
    for (int i = 0; i < clocks_of(servers); i++)
        if (servers->shim != NULL && (servers->list[i].clock = clock_new()) == NULL)
            return false;
    if (!service->prepare(servers))
        return false;
    for (int i = 0; service->run != NULL && i < servers->count; i++)
        if (!server_spawn(servers, i))
            return false;
    for (int i = 0; service->run != NULL && i < servers->count; i++)
        if (!server_await(servers, i))
            return false;
    return service->join == NULL || service->join(servers);
}

void servers_stop(struct servers *servers) {
    for (int i = 0; i < servers->count; i++) {
        server_kill(servers, i);
        clock_free(servers->list[i].clock);
        proxy_free(servers->list[i].proxy);
    }
    if (servers->service != NULL && servers->service->finish != NULL)
        servers->service->finish(servers);
    if (servers->mounted[0] != '\0')
        umount2(servers->mounted, MNT_DETACH);
    if (servers->directory[0] != '\0' && !remove_tree(servers->directory))
        say("%s could not be removed", servers->directory);
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static struct server *chosen(struct servers *servers, const struct stroke *stroke) {
    return &servers->list[stroke->target % (uint64_t)servers->count];
}

/* Is it this one's clock that the stroke is about? Clocks that were wrong stay ahead: those of servers that take over from each other
 * must stay ahead together. A lease that ends in a minute by the clock of a primary ends later on a replica that is behind. */
static bool is_mistimed(const struct servers *servers, const struct stroke *stroke, int index) {
    return servers->service->replicated || index == (int)(stroke->target % (uint64_t)clocks_of(servers));
}

/* All the proxies do it, to all connections or to every second one. */
static void begin_mischief(struct servers *servers, const struct stroke *stroke) {
    static const enum mischief mischiefs[FAULT_KINDS] = {[FAULT_CUT] = MISCHIEF_CUT,
                                                         [FAULT_HALF_OPEN] = MISCHIEF_FREEZE,
                                                         [FAULT_SLOW] = MISCHIEF_SLOW,
                                                         [FAULT_REORDER] = MISCHIEF_REORDER};
    struct dice dice = dice_new(stroke->target, 1);
    unsigned share = (unsigned)dice_between(&dice, 1, 2), remainder = (unsigned)dice_below(&dice, 2);
    int64_t delay_ms = dice_between(&dice, servers->lease_ms / 100 + 1, servers->lease_ms / 8 + 1);

    for (int i = 0; i < servers->count; i++)
        proxy_begin(servers->list[i].proxy, mischiefs[stroke->fault], share, remainder, delay_ms);
}

static unsigned end_mischief(struct servers *servers) {
    unsigned hits = 0;

    for (int i = 0; i < servers->count; i++)
        hits += proxy_end(servers->list[i].proxy);
    return hits;
}

static int index_of(const struct servers *servers, const struct stroke *stroke) {
    if (servers->count == 0 || (stroke->fault == FAULT_SERVER_RESTART && servers->service->one_forgets))
        return 0;
    return (int)(stroke->target % (uint64_t)servers->count);
}

/* No file of a server's may grow: what a full disk is to it. Servers end, or stop to serve, rather than go on without their log. */
static void fill_disk(const struct server *server) {
    struct rlimit limit;

    if (server->pid == 0 || prlimit(server->pid, RLIMIT_FSIZE, NULL, &limit) < 0)
        return;
    limit.rlim_cur = 0;
    prlimit(server->pid, RLIMIT_FSIZE, &limit, NULL);
}

/* Does it not serve any more, since it ended or by its own word? */
static bool is_out(struct servers *servers, int index) {
    struct server *server = &servers->list[index];

    if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) != 0)
        server->pid = 0;
    return server->pid == 0 || (servers->service->refuses != NULL && servers->service->refuses(servers, index));
}

/* It took effect if the server is out; and there is room again. */
static unsigned empty_disk(struct servers *servers, int index) {
    int64_t deadline = deadline_in(READY_MS);
    bool out;

    while (!(out = is_out(servers, index)) && poll_timeout(deadline) > 0)
        poll(NULL, 0, 10);
    server_kill(servers, index);
    if (servers->service->tidy != NULL)
        servers->service->tidy(servers, index);
    return server_spawn(servers, index) && server_await(servers, index) && out;
}

unsigned servers_begin(struct servers *servers, const struct stroke *stroke) {
    int index = index_of(servers, stroke);

    switch (stroke->fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
        begin_mischief(servers, stroke);
        return 0;
    case FAULT_SERVER_RESTART:
        server_kill(servers, index);
        if (servers->service->forget != NULL)
            servers->service->forget(servers, index);
        return 0;
    case FAULT_SERVER_RESTART_AOF:
        server_kill(servers, index);
        return 0;
    case FAULT_SERVER_STOP:
        kill(servers->list[index].pid, SIGSTOP);
        return 0;
    case FAULT_DISK_FULL:
        if (servers->service->run == NULL)
            return servers->service->begin(servers, stroke->fault, stroke->target);
        fill_disk(&servers->list[index]);
        return 0;
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
        for (int i = 0; i < clocks_of(servers); i++)
            if (is_mistimed(servers, stroke, i))
                clock_distort(servers->list[i].clock, stroke->fault == FAULT_SERVER_FAST, stroke->target);
        return 0;
    default:
        return servers->service->begin(servers, stroke->fault, stroke->target);
    }
}

unsigned servers_heal(struct servers *servers, const struct stroke *stroke) {
    int index = index_of(servers, stroke);
    unsigned hits = 0;

    switch (stroke->fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
        return end_mischief(servers);
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_RESTART_AOF:
        hits = servers->list[index].pid == 0;
        return server_spawn(servers, index) && server_await(servers, index) ? hits : 0;
    case FAULT_SERVER_STOP:
        hits = process_is_stopped(chosen(servers, stroke)->pid);
        kill(servers->list[index].pid, SIGCONT);
        return hits;
    case FAULT_DISK_FULL:
        if (servers->service->run == NULL)
            return servers->service->heal(servers, stroke->fault, stroke->target);
        return empty_disk(servers, index);
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
        for (int i = 0; i < clocks_of(servers); i++)
            if (is_mistimed(servers, stroke, i))
                hits += clock_straighten(servers->list[i].clock, true);
        return hits;
    default:
        return servers->service->heal != NULL ? servers->service->heal(servers, stroke->fault, stroke->target) : 0;
    }
}
