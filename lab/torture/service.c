/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c - see service.h: hurting servers of any kind.
 */
#include "service.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../servers/clock.h"
#include "../servers/files.h"
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

bool service_start(const struct service *service, struct servers *servers, int64_t lease_ms) {
    servers->proxied = true;
    servers->lines = service->lines;
    servers->down_after_ms = service->given_up_leases * lease_ms;
    return servers_start(servers, service->topology);
}

unsigned service_count_from(const struct servers *servers, uint32_t address) {
    unsigned count = 0;

    for (int i = 0; i < servers->count; i++)
        count += proxy_count_from(servers->list[i].proxy, address);
    return count;
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

/* Is it this one's clock that the stroke is about? Clocks that were wrong stay ahead: those of servers that take over from each other
 * must stay ahead together. A lease that ends in a minute by the clock of a primary ends later on a replica that is behind. */
static bool is_mistimed(const struct service *service, const struct servers *servers, const struct stroke *stroke, int index) {
    return service->replicated || index == (int)(stroke->target % (uint64_t)servers_clocks(servers));
}

/* All the proxies do it, to all connections or to every second one. */
static void begin_proxy_fault(struct servers *servers, const struct stroke *stroke, int64_t lease_ms) {
    static const enum proxy_fault proxy_faults[FAULT_KINDS] = {[FAULT_CUT] = PROXY_FAULT_CUT,
                                                               [FAULT_HALF_OPEN] = PROXY_FAULT_FREEZE,
                                                               [FAULT_SLOW] = PROXY_FAULT_SLOW,
                                                               [FAULT_REORDER] = PROXY_FAULT_REORDER};
    struct dice dice = dice_new(stroke->target, 1);
    unsigned share = (unsigned)dice_between(&dice, 1, 2), remainder = (unsigned)dice_below(&dice, 2);
    int64_t delay_ms = dice_between(&dice, lease_ms / 100 + 1, lease_ms / 8 + 1);

    for (int i = 0; i < servers->count; i++)
        proxy_begin(servers->list[i].proxy, proxy_faults[stroke->fault], share, remainder, delay_ms);
}

static unsigned end_proxy_fault(struct servers *servers) {
    unsigned hits = 0;

    for (int i = 0; i < servers->count; i++)
        hits += proxy_end(servers->list[i].proxy);
    return hits;
}

static int index_of(const struct service *service, const struct servers *servers, const struct stroke *stroke) {
    if (servers->count == 0 || (stroke->fault == FAULT_SERVER_RESTART && service->one_forgets))
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
static bool is_out(const struct service *service, struct servers *servers, int index) {
    struct server *server = &servers->list[index];

    if (server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) != 0)
        server->pid = 0;
    return server->pid == 0 || (service->refuses != NULL && service->refuses(servers, index));
}

/* It took effect if the server is out; and there is room again. */
static unsigned empty_disk(const struct service *service, struct servers *servers, int index) {
    int64_t deadline = deadline_in(READY_MS);
    bool out;

    while (!(out = is_out(service, servers, index)) && poll_timeout(deadline) > 0)
        poll(NULL, 0, 10);
    server_kill(servers, index);
    if (service->tidy != NULL)
        service->tidy(servers, index);
    return server_spawn(servers, index) && server_await(servers, index) && out;
}

unsigned service_begin(const struct service *service, struct servers *servers, const struct stroke *stroke, int64_t lease_ms) {
    int index = index_of(service, servers, stroke);

    switch (stroke->fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
        begin_proxy_fault(servers, stroke, lease_ms);
        return 0;
    case FAULT_SERVER_RESTART:
        server_kill(servers, index);
        if (service->forget != NULL)
            service->forget(servers, index);
        return 0;
    case FAULT_SERVER_RESTART_AOF:
        server_kill(servers, index);
        return 0;
    case FAULT_SERVER_STOP:
        kill(servers->list[index].pid, SIGSTOP);
        return 0;
    case FAULT_DISK_FULL:
        if (servers->count == 0)
            return service->begin(servers, stroke->fault, stroke->target);
        fill_disk(&servers->list[index]);
        return 0;
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
        for (int i = 0; i < servers_clocks(servers); i++)
            if (is_mistimed(service, servers, stroke, i))
                clock_distort(servers->list[i].clock, stroke->fault == FAULT_SERVER_FAST, stroke->target);
        return 0;
    default:
        return service->begin(servers, stroke->fault, stroke->target);
    }
}

unsigned service_heal(const struct service *service, struct servers *servers, const struct stroke *stroke) {
    int index = index_of(service, servers, stroke);
    unsigned hits = 0;

    switch (stroke->fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
        return end_proxy_fault(servers);
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_RESTART_AOF:
        hits = servers->list[index].pid == 0;
        return server_spawn(servers, index) && server_await(servers, index) ? hits : 0;
    case FAULT_SERVER_STOP:
        hits = process_is_stopped(servers->list[index].pid);
        kill(servers->list[index].pid, SIGCONT);
        return hits;
    case FAULT_DISK_FULL:
        if (servers->count == 0)
            return service->heal(servers, stroke->fault, stroke->target);
        return empty_disk(service, servers, index);
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
        for (int i = 0; i < servers_clocks(servers); i++)
            if (is_mistimed(service, servers, stroke, i))
                hits += clock_straighten(servers->list[i].clock, true);
        return hits;
    default:
        return service->heal != NULL ? service->heal(servers, stroke->fault, stroke->target) : 0;
    }
}
