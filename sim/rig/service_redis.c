/* SPDX-License-Identifier: Apache-2.0
 *
 * service_redis.c - the services that are made of Redis servers: one; a primary with two replicas and three sentinels, with and without
 * `?replicas=`; a cluster of three primaries with a replica each; five for Redlock.
 */
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "servers/redis.h"
#include "services.h"

enum { REPLICAS = 2, SENTINELS = 3, PRIMARIES = 3, VOTERS = 5 };

#define SENTINEL_NAME "torture"

/* ---- Start and stop ------------------------------------------------------------------------------------------------------- */

static void on_due(void *site) {
    world_site_touch(site);
}

static void add_site(struct sim_servers *servers, struct redis *redis) {
    struct site *site = world_site(SERVICE_PORT + (unsigned)servers->count, redis_name(redis), &redis_ops, redis);

    servers->redis[servers->count] = redis;
    servers->sites[servers->count++] = site;
    redis_on_due(redis, on_due, site);
}

static struct redis_settings settings_of(const struct sim_servers *servers) {
    return (struct redis_settings){
        .seed = servers->plan->seed,
        .port = SERVICE_PORT,
        .wall_ns = servers_wall_ns(),
        .frozen_time = servers->plan->version % 2 == 1,
        .nonsense = (unsigned)servers->plan->nonsense,
        .journal_ns = 2 * servers->plan->lease * WORLD_MS,
    };
}

static void start_alone(struct sim_servers *servers, unsigned count) {
    struct redis_settings settings = settings_of(servers);
    char name[24];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "redis %u", i);
        settings.name = name;
        settings.port = SERVICE_PORT + i;
        settings.seed = servers->plan->seed + i;
        add_site(servers, redis_new(&settings));
    }
}

/* None shows the time that the others do. */
static void set_apart(struct sim_servers *servers) {
    struct dice dice = dice_new(servers->plan->seed, 2);

    for (int i = 0; i < servers->count && servers->plan->apart > 0; i++)
        server_clock_set(redis_clock(servers->redis[i]), world_now(), dice_between(&dice, 0, servers->plan->apart * WORLD_MS), 1);
}

static void start_one(struct sim_servers *servers) {
    start_alone(servers, 1);
}

static void start_voters(struct sim_servers *servers) {
    start_alone(servers, VOTERS);
    set_apart(servers);
}

static void start_group(struct sim_servers *servers, struct redis_group_settings *settings) {
    settings->server = settings_of(servers);
    settings->down_after_ns = servers->plan->down * WORLD_MS;
    settings->failover_timeout_ns = settings->down_after_ns;
    servers->group = redis_group_new(settings, world_now());
    for (unsigned i = 0; i < redis_group_count(servers->group); i++)
        add_site(servers, redis_group_server(servers->group, i));
}

static void start_watched(struct sim_servers *servers) {
    struct redis_group_settings settings = {
        .kind = REDIS_WATCHED, .replicas = REPLICAS, .sentinels = SENTINELS, .primary_name = SENTINEL_NAME};

    start_group(servers, &settings);
}

static void start_cluster(struct sim_servers *servers) {
    struct redis_group_settings settings = {.kind = REDIS_CLUSTERED, .primaries = PRIMARIES, .replicas = 1};

    start_group(servers, &settings);
}

static void stop(struct sim_servers *servers) {
    if (servers->group != NULL)
        redis_group_free(servers->group);
    for (int i = 0; servers->group == NULL && i < servers->count; i++)
        redis_free(servers->redis[i]);
}

/* ---- Which ---------------------------------------------------------------------------------------------------------------- */

/* Those that keep keys. */
static int keepers(const struct sim_servers *servers) {
    return servers->group != NULL ? (int)redis_group_servers(servers->group) : servers->count;
}

/* Where FLUSHALL strikes, and what a partition or a failover is about. -1: nobody can be named just now. */
static int primary_of(struct sim_servers *servers, uint64_t target) {
    unsigned slot = 0;

    if (servers->group == NULL)
        return servers->service == &sim_redlock ? 0 : (int)(target % (uint64_t)servers->count);
    if (servers->service == &sim_cluster && !redis_slot_in_use(servers->group, world_now(), target, &slot))
        return -1;
    return redis_group_primary(servers->group, slot);
}

static bool is_whole(struct sim_servers *servers) {
    return servers->group == NULL || redis_group_whole(servers->group);
}

static void touch(struct sim_servers *servers) {
    for (int i = 0; i < servers->count; i++)
        world_site_touch(servers->sites[i]);
}

static void kill_server(struct sim_servers *servers, int index) {
    world_site_down(servers->sites[index]);
    redis_stop(servers->redis[index], world_now());
}

static void revive(struct sim_servers *servers, int index, enum redis_memory memory, int64_t since) {
    redis_start(servers->redis[index], world_now(), memory, since);
    world_site_up(servers->sites[index]);
    touch(servers);
}

/* ---- Clocks --------------------------------------------------------------------------------------------------------------- */

/* Servers that take over from each other are wrong together: see is_mistimed() in lab/torture/servers.c. */
static int set_clocks(struct sim_servers *servers, const struct sim_stroke *stroke, int64_t jump_ns, double rate) {
    int hits = 0;

    for (int i = 0; i < keepers(servers); i++)
        if (servers->service->replicated || i == (int)(stroke->target % (uint64_t)keepers(servers))) {
            server_clock_set(redis_clock(servers->redis[i]), world_now(), jump_ns, rate);
            hits++;
        }
    touch(servers);
    return hits;
}

static int64_t jump_of(const struct sim_servers *servers, const struct sim_stroke *stroke) {
    if (stroke->fault == FAULT_SERVER_CLOCK)
        return (INT64_C(60) + (int64_t)(stroke->target % 7200)) * WORLD_SECOND;
    return 1 + (int64_t)((stroke->target >> 8) % (uint64_t)(2 * servers->plan->lease * WORLD_MS));
}

static double rate_of(const struct sim_stroke *stroke) {
    return stroke->fault == FAULT_SERVER_FAST ? 2 : 0.5 + (double)((stroke->target >> 8) % 250) / 100;
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

static bool has_alone(int fault) {
    switch (fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_RESTART_AOF:
    case FAULT_SERVER_STOP:
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
    case FAULT_FLUSHALL:
    case FAULT_DISK_FULL:
    case SIM_WRITE_ERROR:
    case SIM_WRITE_INSIDE:
    case SIM_SERVER_JUMP:
    case SIM_SERVER_RATE:
        return true;
    default:
        return false;
    }
}

static bool has_voters(int fault) {
    return has_alone(fault) || fault == SIM_MOST_AWAY;
}

static bool has_group(int fault) {
    switch (fault) {
    case FAULT_SERVER_STOP:
    case FAULT_SERVER_CLOCK:
    case FAULT_SERVER_FAST:
    case FAULT_FLUSHALL:
    case FAULT_FAILOVER:
    case FAULT_PARTITION_SERVERS:
    case FAULT_SLOT_MIGRATION:
    case SIM_SERVER_JUMP:
    case SIM_SERVER_RATE:
        return true;
    default:
        return false;
    }
}

/* Which one a stroke is about that may be any of them. The one that forgets is always the first: the others remember. */
static int index_of(const struct sim_servers *servers, const struct sim_stroke *stroke) {
    if (stroke->fault == FAULT_SERVER_RESTART && servers->service == &sim_redlock)
        return 0;
    return (int)(stroke->target % (uint64_t)servers->count);
}

/* A full disk: a Redis that logs every write ends at the first that it can't log; one that saves from time to time refuses to write. */
static bool refuses(const struct sim_stroke *stroke) {
    return stroke->target >> 8 & 1;
}

static int begin_move(struct sim_servers *servers, uint64_t target) {
    unsigned count = redis_group_servers(servers->group);
    int64_t now = world_now();

    if (!is_whole(servers) || !redis_slot_in_use(servers->group, now, target, &servers->slot))
        return NOT_YET;
    int from = redis_group_primary(servers->group, servers->slot);

    for (unsigned i = 0; i < count; i++) {
        unsigned to = (unsigned)((target + i) % count);

        if ((int)to == from || !redis_is_primary(servers->redis[to]) ||
            !redis_slot_move_begin(servers->group, now, servers->slot, to))
            continue;
        servers->struck = from;
        /* All keys of it, some or none: also who finds all of its keys must know that the slot moves. */
        servers->moved = redis_slot_move_keys(servers->group, now, servers->slot, (unsigned)(target >> 8));
        touch(servers);
        return 0;
    }
    return 0;
}

static int end_move(struct sim_servers *servers) {
    int64_t now = world_now();

    if (servers->struck < 0)
        return 0;
    servers->moved += redis_slot_move_keys(servers->group, now, servers->slot, 0);
    bool done = redis_slot_move_end(servers->group, now, servers->slot);

    touch(servers);
    return done ? (int)servers->moved : NOT_YET;
}

static int begin_deposing(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int primary = is_whole(servers) ? primary_of(servers, stroke->target) : -1;

    if (primary < 0)
        return NOT_YET;
    servers->struck = primary;
    servers->promotes = stroke->fault == FAULT_FAILOVER || stroke->target / 2 % (servers->service == &sim_cluster ? 2 : 4) == 0;
    if (stroke->fault == FAULT_FAILOVER)
        kill_server(servers, primary);
    else
        redis_part(servers->redis[primary], world_now(), true);
    touch(servers);
    return 0;
}

/* Is another primary in the place of the one that was struck? */
static bool has_successor(const struct sim_servers *servers) {
    int primaries = 0;

    for (int i = 0; i < keepers(servers); i++)
        primaries += i != servers->struck && redis_is_up(servers->redis[i]) && redis_is_primary(servers->redis[i]);
    return primaries == (servers->service == &sim_cluster ? PRIMARIES : 1);
}

/* It comes back; under Sentinel as a replica, by an operator's word. */
static int end_deposing(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int64_t now = world_now();

    if (servers->struck < 0)
        return 0;
    struct redis *old = servers->redis[servers->struck];

    if (servers->promotes && !has_successor(servers))
        return NOT_YET;
    if (stroke->fault == FAULT_PARTITION_SERVERS) {
        redis_part(old, now, false);
    } else {
        revive(servers, servers->struck, REDIS_KEEPS_ALL, 0);
        for (int i = 0; servers->service != &sim_cluster && i < keepers(servers); i++)
            if (i != servers->struck && redis_is_primary(servers->redis[i]))
                redis_replicate(old, now, servers->redis[i]);
    }
    touch(servers);
    servers->struck = -1;
    return 1;
}

static int begin(struct sim_servers *servers, const struct sim_stroke *stroke) {
    static const char *const errors[] = {REDIS_OOM, REDIS_MISCONF, REDIS_MISCONF_AOF};
    int index = index_of(servers, stroke), primary;
    int64_t now = world_now();

    switch (stroke->fault) {
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_RESTART_AOF:
        kill_server(servers, index);
        return 1;
    case FAULT_SERVER_STOP:
        world_site_pause(servers->sites[index]);
        return 1;
    case FAULT_SERVER_CLOCK:
    case SIM_SERVER_JUMP:
        return set_clocks(servers, stroke, jump_of(servers, stroke), 1);
    case FAULT_SERVER_FAST:
    case SIM_SERVER_RATE:
        return set_clocks(servers, stroke, 0, rate_of(stroke));
    case FAULT_FLUSHALL:
        primary = is_whole(servers) ? primary_of(servers, stroke->target) : -1;
        if (primary < 0)
            return NOT_YET;
        for (int i = 0; i == 0 || i < (int)servers->plan->forgetful; i++)
            redis_flush_all(servers->redis[(primary + i) % servers->count], now);
        touch(servers);
        return 1;
    case FAULT_DISK_FULL:
        if (refuses(stroke))
            redis_fail_writes(servers->redis[index], REDIS_MISCONF);
        else
            kill_server(servers, index);
        return 1;
    case SIM_WRITE_ERROR:
        redis_fail_write(servers->redis[index], 1, errors[(stroke->target >> 16) % 3]);
        return 0;
    case SIM_WRITE_INSIDE:
        redis_fail_write(servers->redis[index], 2 + (stroke->target >> 8) % 40, errors[(stroke->target >> 16) % 3]);
        return 0;
    case FAULT_SLOT_MIGRATION:
        return begin_move(servers, stroke->target);
    default:
        return begin_deposing(servers, stroke);
    }
}

/* What a restart leaves: nothing, or what was there some time ago. */
static int heal_restart(struct sim_servers *servers, const struct sim_stroke *stroke, int index) {
    int64_t back = (int64_t)((stroke->target >> 8) % (uint64_t)servers->plan->lease) * WORLD_MS;

    if (stroke->target >> 32 & 1)
        revive(servers, index, REDIS_FORGETS, 0);
    else
        revive(servers, index, REDIS_FORGETS_SINCE, world_now() - back);
    return 0;
}

static int heal(struct sim_servers *servers, const struct sim_stroke *stroke) {
    int index = index_of(servers, stroke);

    switch (stroke->fault) {
    case FAULT_SERVER_RESTART:
        return heal_restart(servers, stroke, index);
    case FAULT_SERVER_RESTART_AOF:
        revive(servers, index, REDIS_KEEPS_ALL, 0);
        return 0;
    case FAULT_SERVER_STOP:
        world_site_resume(servers->sites[index]);
        return 0;
    case FAULT_SERVER_FAST:
    case SIM_SERVER_RATE:
        set_clocks(servers, stroke, 0, 1);
        return 0;
    case FAULT_DISK_FULL:
        if (refuses(stroke))
            redis_fail_writes(servers->redis[index], NULL);
        else
            revive(servers, index, REDIS_KEEPS_ALL, 0);
        return 0;
    case SIM_WRITE_ERROR:
    case SIM_WRITE_INSIDE: {
        bool struck = redis_write_failed(servers->redis[index]);

        redis_fail_write(servers->redis[index], 0, NULL);
        return struck;
    }
    case FAULT_SLOT_MIGRATION:
        return end_move(servers);
    case FAULT_FAILOVER:
    case FAULT_PARTITION_SERVERS:
        return end_deposing(servers, stroke);
    default:
        return 0;
    }
}

/* ---- What is left --------------------------------------------------------------------------------------------------------- */

struct search {
    residue_fn *found;
    void *data;
    bool lasting; /* only keys that no time ends */
    int count;
};

/* What stays on purpose: the last token (a voter's has who took it beside it), a semaphore's count of free permits, with its limit, and
 * values and notes. */
static bool belongs(const char *key) {
    return strncmp(key, "redisson_lock_token:", 20) == 0 || strncmp(key, "pawl:vote:", 10) == 0 ||
           strncmp(key, "pawl:limit:", 11) == 0 || strncmp(key, "pawl:value:", 11) == 0 || strncmp(key, "pawl:note:", 10) == 0 ||
           strncmp(key, "torture-semaphore-", 18) == 0;
}

static void on_key(const char *key, const char *type, int64_t expires_ms, const char *text, void *data) {
    struct search *search = data;
    size_t length = strlen(key);
    char what[300];

    if (belongs(key))
        return;
    /* The permits of a semaphore have times of their own, and are collected by the next client that asks. */
    if (search->lasting && (expires_ms >= 0 || (length > 8 && strcmp(key + length - 8, ":timeout") == 0)))
        return;
    search->count++;
    snprintf(what, sizeof what, "a key%s: %.100s, %s, %.100s", search->lasting ? " that no time ends" : "", key, type, text);
    if (search->found != NULL)
        search->found(what, search->data);
}

static int search_keys(struct sim_servers *servers, struct search *search) {
    for (int i = 0; i < keepers(servers); i++)
        if (servers->group == NULL || redis_is_primary(servers->redis[i]))
            redis_each_key(servers->redis[i], world_now(), on_key, search);
    return search->count;
}

static int residue(struct sim_servers *servers, residue_fn *found, void *data) {
    return search_keys(servers, &(struct search){.found = found, .data = data});
}

static int litter(struct sim_servers *servers, residue_fn *found, void *data) {
    return search_keys(servers, &(struct search){.found = found, .data = data, .lasting = true});
}

/* ---- The services --------------------------------------------------------------------------------------------------------- */

#define REDIS_SERVICE                                                                                                              \
    .stop = stop, .begin = begin, .heal = heal, .whole = is_whole, .residue = residue, .litter = litter, .suffix = ""

const struct sim_service sim_redis = {REDIS_SERVICE,        .keeps = true,    .word = "redis",   .engine = "redis",
                                      .prefix = "redis://", .has = has_alone, .start = start_one};

const struct sim_service sim_redlock = {
    REDIS_SERVICE,          .word = "redlock",  .engine = "redlock",
    .mutex_only = true,     .replicated = true, /* as to clocks: one that is ahead takes the floor from the tokens of the others */
    .prefix = "redlock://", .has = has_voters,  .start = start_voters,
};

#define WATCHED_SERVICE                                                                                                            \
    .stop = stop, .begin = begin, .heal = heal, .whole = is_whole, .residue = residue, .litter = litter, .keeps = true,            \
    .replicated = true, .prefix = "redis-sentinel://", .first = 1 + REPLICAS, .has = has_group, .start = start_watched

const struct sim_service sim_sentinel = {
    WATCHED_SERVICE,
    .word = "sentinel",
    .engine = "sentinel",
    .suffix = "/" SENTINEL_NAME,
};

const struct sim_service sim_redis_replicas = {
    WATCHED_SERVICE,
    .word = "redis-replicas",
    .engine = "redis-replicas",
    .suffix = "/" SENTINEL_NAME "?replicas=2",
};

const struct sim_service sim_cluster = {
    REDIS_SERVICE,       .keeps = true,          .word = "cluster",
    .engine = "cluster", .replicated = true,     .prefix = "redis-cluster://",
    .has = has_group,    .start = start_cluster,
};
