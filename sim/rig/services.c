/* SPDX-License-Identifier: Apache-2.0
 *
 * services.c - see services.h: what is the same for every service.
 */
#include "services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan.h"
#include "world/names.h"

static const struct sim_service *const services[] = {&sim_redis,   &sim_redis_replicas, &sim_sentinel,  &sim_cluster,
                                                     &sim_redlock, &sim_zookeeper,      &sim_zookeeper3};
enum { SERVICES = sizeof services / sizeof services[0] };

const struct sim_service *service_find(const char *word, size_t length) {
    for (int i = 0; i < SERVICES; i++)
        if (strlen(services[i]->word) == length && memcmp(services[i]->word, word, length) == 0)
            return services[i];
    return NULL;
}

const struct sim_service *service_number(int number) {
    return number < SERVICES ? services[number] : NULL;
}

const struct oracle *service_oracle(const struct sim_service *service) {
    static struct oracle oracles[SERVICES];
    static bool known[SERVICES];
    char why[256];
    int i = 0;

    while (services[i] != service)
        i++;
    if (!known[i] && !oracle_read(oracle_text, service->engine, &oracles[i], why, sizeof why)) {
        fprintf(stderr, "pawl-sim: %s\n", why);
        abort();
    }
    known[i] = true;
    return &oracles[i];
}

bool service_has(const struct sim_service *service, int fault) {
    if (!service_oracle(service)->faults[sim_row(fault)].known)
        return false;
    switch (fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CLIENT_STOP:
    case FAULT_CLIENT_CLOCK:
    case FAULT_CLIENT_FAST:
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
    case FAULT_PARTITION_CLIENT:
    case FAULT_BREAK_NOW:
    case SIM_REPLY_LOST:
    case SIM_CUT_INSIDE:
    case SIM_SILENT:
    case SIM_PAUSE:
    case SIM_CLIENT_JUMP:
    case SIM_CLIENT_RATE:
        return true;
    default:
        return service->has(fault);
    }
}

void servers_start(struct sim_servers *servers, const struct plan *plan) {
    *servers = (struct sim_servers){.service = plan->service, .plan = plan, .struck = -1};
    plan->service->start(servers);
}

void servers_stop(struct sim_servers *servers) {
    servers->service->stop(servers);
}

void servers_url(const struct sim_servers *servers, const char *options, char *ret, size_t size) {
    const struct sim_service *service = servers->service;
    int end = service->places > 0 ? service->first + service->places : servers->count;
    size_t used = (size_t)snprintf(ret, size, "%s%s", servers->plan->textbook != 0 ? "textbook+" : "", service->prefix);

    for (int i = service->first; i < end; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s127.0.0.1:%d", i > service->first ? "," : "", SERVICE_PORT + i);
    snprintf(ret + used, size - used, "%s%s%s", service->suffix,
             options[0] == '\0'                     ? ""
             : strchr(service->suffix, '?') != NULL ? "&"
                                                    : "?",
             options);
}

int64_t servers_wall_ns(void) {
    struct timespec now;

    sim_clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * WORLD_SECOND + now.tv_nsec - world_now();
}

uint64_t servers_messages(const struct sim_servers *servers) {
    uint64_t total = 0;

    for (int i = 0; i < servers->count; i++)
        total += world_site_messages(servers->sites[i]);
    return total;
}
