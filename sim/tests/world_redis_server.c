/* SPDX-License-Identifier: Apache-2.0
 *
 * world_redis_server.c - tests/support/redis_server.h for tests that live in the simulated world: Redis servers that are simulated.
 *
 * A place is a port at which there is, or was, a server; what a test calls its pid and its Unix socket are made of the port, too. A server
 * that is started anew has what the configuration in `extra` says: nothing, or all with `appendonly yes`. This file is outside of the
 * world: it calls the world's own functions by their names.
 */
#include "world_redis.h"

#include <stdlib.h>
#include <string.h>

#include "../../tests/support/test.h"
#include "../world/names.h"
#include "../world/world.h"

enum { FIRST_PORT = 6379, PLACES = 512, PATIENCE_MS = 30000 };

struct place {
    struct redis *redis;       /* NULL: nobody is there any more */
    struct redis_group *group; /* of one that is alone in it; NULL */
    bool borrowed;             /* somebody else frees it */
    struct site *site;
};
static struct place places[PLACES];
static unsigned ports_given;

static struct place *place_of(const struct redis_server *server) {
    assert_in_range(server->port, FIRST_PORT, FIRST_PORT + PLACES - 1);
    return &places[server->port - FIRST_PORT];
}

static void on_due(void *site) {
    world_site_touch(site);
}

bool redis_server_exists(const char **why) {
    (void)why;
    return true;
}

void redis_free_ports(unsigned *ports, size_t count) {
    for (size_t i = 0; i < count; i++)
        ports[i] = FIRST_PORT + ports_given++;
    assert_true(ports_given <= PLACES);
}

struct redis_settings world_redis_settings(unsigned ports) {
    struct redis_settings settings = {.wall_ns = world_wall_ms() * WORLD_MS - world_now() / WORLD_MS * WORLD_MS, .no_aof = true};

    settings.port = FIRST_PORT + ports_given;
    ports_given += ports;
    assert_true(ports_given <= PLACES);
    sim_getrandom(&settings.seed, sizeof settings.seed, 0);
    return settings;
}

static void set_paths(struct redis_server *server) {
    snprintf(server->directory, sizeof server->directory, "/simulated");
    snprintf(server->socket_path, sizeof server->socket_path, "/simulated/%u", server->port);
}

static void open_place(struct redis_server *server, struct redis *redis) {
    struct place *place = place_of(server);
    char name[16];

    snprintf(name, sizeof name, "redis:%u", server->port);
    place->redis = redis;
    place->site = world_site(server->port, name, &redis_ops, redis);
    redis_on_due(redis, on_due, place->site);
    server->pid = world_site_pid(place->site);
}

void world_redis_place(struct redis_server *server, struct redis *redis) {
    server->port = redis_port(redis);
    set_paths(server);
    open_place(server, redis);
    place_of(server)->borrowed = true;
}

/* ---- What its configuration says ------------------------------------------------------------------------------------------ */

/* The value of a setting in the lines of `extra`; "" if it is not there. */
static const char *setting(const struct redis_server *server, const char *name, char *value, size_t size) {
    const char *line = server->extra;
    size_t length = strlen(name);

    value[0] = '\0';
    while (line != NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            snprintf(value, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return value;
}

/* Those that can be set while it runs are set; the rest is done by the one that makes it. */
static void configure(const struct redis_server *server, struct redis *redis) {
    char line[sizeof server->extra], value[64], *rest = line, *one;
    unsigned long delay_us;

    snprintf(line, sizeof line, "%s", server->extra);
    while ((one = strsep(&rest, "\n")) != NULL)
        if (strncmp(one, "replicaof ", 10) == 0)
            redis_do(redis, world_now(), NULL, 0, "%s", one);
        else if (one[0] != '\0')
            redis_do(redis, world_now(), NULL, 0, "CONFIG SET %s", one);
    delay_us = strtoul(setting(server, "key-load-delay", value, sizeof value), NULL, 10);
    if (delay_us > 0)
        redis_load_until(redis, world_now() + (int64_t)(delay_us * redis_key_count(redis)) * 1000);
}

/* One that nobody has made yet. */
static void make(struct redis_server *server) {
    struct redis_settings settings = world_redis_settings(0);
    struct place *place = place_of(server);
    char value[64];

    settings.port = server->port;
    settings.version = server->version;
    if (strcmp(setting(server, "cluster-enabled", value, sizeof value), "yes") == 0) {
        place->group = redis_group_new(&(struct redis_group_settings){.kind = REDIS_CLUSTERED, .server = settings, .primaries = 1},
                                       world_now());
        open_place(server, redis_group_server(place->group, 0));
    } else {
        open_place(server, redis_new(&settings));
    }
}

/* ---- Start and stop ------------------------------------------------------------------------------------------------------- */

void redis_server_prepare(struct redis_server *server) {
    if (server->directory[0] != '\0')
        return;
    if (server->port == 0)
        redis_free_ports(&server->port, 1);
    set_paths(server);
}

/* There is no TLS here: papers that nobody looks at. */
void redis_server_certify(struct redis_server *server) {
    (void)server;
}

void redis_server_launch(struct redis_server *server) {
    struct place *place = place_of(server);
    char value[64];

    if (place->redis == NULL) {
        make(server);
    } else {
        bool keeps = strcmp(setting(server, "appendonly", value, sizeof value), "yes") == 0;

        redis_start(place->redis, world_now(), keeps ? REDIS_KEEPS_ALL : REDIS_FORGETS, 0);
        world_site_up(place->site);
        server->pid = world_site_pid(place->site);
    }
    configure(server, place->redis);
}

bool redis_server_await(struct redis_server *server) {
    for (int i = 0; i < PATIENCE_MS / 5; i++) {
        if (redis_server_answers(server))
            return true;
        sim_nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return false;
}

void redis_server_start(struct redis_server *server) {
    redis_server_prepare(server);
    redis_server_launch(server);
    if (!redis_server_await(server))
        fail_msg("the simulated server does not answer");
}

void redis_server_stop(struct redis_server *server, int signal) {
    (void)signal;
    if (server->context)
        redisFree(server->context);
    server->context = NULL;
    if (server->pid == 0)
        return;
    world_site_down(place_of(server)->site);
    redis_stop(place_of(server)->redis, world_now());
    server->pid = 0;
}

void redis_server_free(struct redis_server *server) {
    struct place *place;

    redis_server_stop(server, 0);
    if (server->directory[0] == '\0')
        return;
    place = place_of(server);
    if (place->group != NULL)
        redis_group_free(place->group);
    else if (!place->borrowed)
        redis_free(place->redis);
    *place = (struct place){.site = place->site};
    server->directory[0] = '\0';
    server->port = 0; /* it is somebody else who comes */
}

void redis_server_let_save(struct redis_server *server, bool possible) {
    redis_fail_writes(place_of(server)->redis, possible ? NULL : REDIS_MISCONF);
}
