/* SPDX-License-Identifier: Apache-2.0
 *
 * service_zookeeper.c - the services that are made of ZooKeeper servers: one, and an ensemble of three.
 */
#include <stdio.h>

#include "plan.h"
#include "servers/zookeeper.h"
#include "services.h"

enum { ENSEMBLE = 3, TICK_MS = 500 };

/* ---- Start and stop ------------------------------------------------------------------------------------------------------- */

static void start(struct sim_servers *servers, unsigned count) {
    static const enum zookeeper_version versions[] = {ZOOKEEPER_3_8, ZOOKEEPER_3_6, ZOOKEEPER_3_5};
    struct zookeeper_options options = {
        .count = count,
        .seed = servers->plan->seed,
        .version = versions[servers->plan->version % 3],
        .wall_ms = servers_wall_ns() / WORLD_MS,
        .tick_ms = TICK_MS,
        .min_session_ms = 2 * TICK_MS,
        .max_session_ms = 60000,
        .sync_limit = 4,
    };
    char name[24];

    servers->zk = zookeeper_new(&options);
    zookeeper_nonsense(servers->zk, (unsigned)servers->plan->nonsense);
    zookeeper_throttle(servers->zk, (unsigned)servers->plan->throttle);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "zookeeper %u", i);
        servers->sites[servers->count++] = world_site(SERVICE_PORT + i, name, &zookeeper_ops, zookeeper_member(servers->zk, i));
    }
}

static void start_one(struct sim_servers *servers) {
    start(servers, 1);
}

static void start_ensemble(struct sim_servers *servers) {
    start(servers, ENSEMBLE);
}

static void stop(struct sim_servers *servers) {
    zookeeper_free(servers->zk);
}

static void touch(const struct sim_servers *servers) {
    world_site_touch(servers->sites[0]);
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static bool has(int fault) {
    switch (fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_STOP:
    case FAULT_SERVER_FAST:
    case FAULT_DISK_FULL:
    case SIM_SERVER_RATE:
        return true;
    default:
        return false;
    }
}

static bool has_ensemble(int fault) {
    return has(fault) || fault == FAULT_PARTITION_SERVERS || fault == FAULT_LEADER_KILL || fault == FAULT_FOLLOWER_ISOLATE ||
           fault == SIM_MOST_AWAY;
}

static bool is_whole(struct sim_servers *servers) {
    for (unsigned i = 0; i < (unsigned)servers->count; i++)
        if (!zookeeper_serves(servers->zk, i))
            return false;
    return zookeeper_leader(servers->zk) >= 0;
}

/* Which one the stroke is about; -1: none can be named just now. */
static int index_of(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int leader = zookeeper_leader(servers->zk);

    switch (stroke->fault) {
    case FAULT_LEADER_KILL:
        return is_whole(servers) ? leader : -1;
    case FAULT_FOLLOWER_ISOLATE:
        return is_whole(servers) ? (leader + 1 + (int)(stroke->target % 2)) % ENSEMBLE : -1;
    case FAULT_PARTITION_SERVERS:
        return is_whole(servers) ? (int)(stroke->target % ENSEMBLE) : -1;
    default:
        return (int)(stroke->target % (uint64_t)servers->count);
    }
}

static void kill_server(struct sim_servers *servers, int index) {
    world_site_down(servers->sites[index]);
    zookeeper_kill(servers->zk, (unsigned)index, world_now());
}

static void revive(struct sim_servers *servers, int index) {
    zookeeper_restart(servers->zk, (unsigned)index, world_now());
    world_site_up(servers->sites[index]);
}

static double rate_of(const struct sim_stroke *stroke) {
    return stroke->fault == FAULT_SERVER_FAST ? 2 : 0.5 + (double)((stroke->target >> 8) % 250) / 100;
}

/* Clocks of a rate of their own: in a lane of their own, so they do not touch what the fault of the servers' lane remembers. */
static int set_rate(struct sim_servers *servers, const struct sim_stroke *stroke, double rate) {
    zookeeper_set_clock(servers->zk, (unsigned)(stroke->target % (uint64_t)servers->count), 0, rate, world_now());
    touch(servers);
    return 1;
}

static int begin(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int index = index_of(servers, stroke);
    int64_t now = world_now();

    if (stroke->fault == FAULT_SERVER_FAST || stroke->fault == SIM_SERVER_RATE)
        return set_rate(servers, stroke, rate_of(stroke));
    if (index < 0)
        return NOT_YET;
    servers->struck = index;
    switch (stroke->fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_LEADER_KILL:
        kill_server(servers, index);
        break;
    case FAULT_SERVER_STOP:
        world_site_pause(servers->sites[index]);
        zookeeper_pause(servers->zk, (unsigned)index, now);
        break;
    case FAULT_DISK_FULL:
        zookeeper_disk_full(servers->zk, (unsigned)index, 1);
        break;
    default:
        zookeeper_isolate(servers->zk, (unsigned)index, now);
        break;
    }
    touch(servers);
    return stroke->fault != FAULT_DISK_FULL;
}

static int heal(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int index = servers->struck, hits = 0;
    int64_t now = world_now();

    if (stroke->fault == FAULT_SERVER_FAST || stroke->fault == SIM_SERVER_RATE)
        return set_rate(servers, stroke, 1) - 1;
    if (index < 0)
        return 0;
    switch (stroke->fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_LEADER_KILL:
        revive(servers, index);
        break;
    case FAULT_SERVER_STOP:
        zookeeper_resume(servers->zk, (unsigned)index, now);
        world_site_resume(servers->sites[index]);
        break;
    case FAULT_DISK_FULL:
        zookeeper_disk_full(servers->zk, (unsigned)index, 0);
        hits = !zookeeper_is_up(servers->zk, (unsigned)index);
        if (hits > 0)
            revive(servers, index);
        break;
    default:
        zookeeper_join(servers->zk, (unsigned)index, now);
        break;
    }
    touch(servers);
    servers->struck = -1;
    return hits;
}

/* ---- What is left --------------------------------------------------------------------------------------------------------- */

/* A number of each server's that should be 0. */
static int find_any(struct sim_servers *servers, unsigned (*count)(const struct zookeeper *, int), const char *what,
                    residue_fn *found, void *data) {
    char text[128];
    int total = 0;

    for (int i = 0; i < servers->count; i++) {
        unsigned number = count(servers->zk, i);

        total += (int)number;
        if (number == 0 || found == NULL)
            continue;
        snprintf(text, sizeof text, "%u %s at server %d", number, what, i);
        found(text, data);
    }
    return total;
}

/* At every server: one that has lost a deletion shows nodes that the others have not. */
static int residue(struct sim_servers *servers, residue_fn *found, void *data) {
    return find_any(servers, zookeeper_ephemeral_count, "ephemeral nodes", found, data);
}

/* Clients are connected, and hold nothing and wait for nothing: a watch that is there is left over. */
static int litter(struct sim_servers *servers, residue_fn *found, void *data) {
    return find_any(servers, zookeeper_watch_count, "watches of idle clients", found, data);
}

static int64_t wakes(struct sim_servers *servers) {
    return (int64_t)zookeeper_watches_fired(servers->zk);
}

#define ZOOKEEPER_SERVICE                                                                                                          \
    .stop = stop, .begin = begin, .heal = heal, .whole = is_whole, .residue = residue, .litter = litter, .wakes = wakes,           \
    .prefix = "zk://", .suffix = "/torture"

const struct sim_service sim_zookeeper = {ZOOKEEPER_SERVICE,     .keeps = true, .word = "zookeeper",
                                          .engine = "zookeeper", .has = has,    .start = start_one};

const struct sim_service sim_zookeeper3 = {ZOOKEEPER_SERVICE,      .keeps = true,       .word = "zookeeper3",
                                           .engine = "zookeeper3", .has = has_ensemble, .start = start_ensemble};
