/* SPDX-License-Identifier: Apache-2.0
 *
 * warn.c - what the server is, and what about it makes locks vanish: said once, at open, through the log.
 *
 * None of this stops anybody: a lock that may vanish is still a lock, with tokens that tell. What a user may not read (INFO and CONFIG are
 * rights of their own) is not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/redis.h"

void pawl__server_info(const char *info, const char *key, char *ret, size_t size) {
    size_t length = strlen(key);
    const char *line = info;

    ret[0] = '\0';
    while (line) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            snprintf(ret, size, "%.*s", (int)strcspn(line + length + 1, "\r\n"), line + length + 1);
            return;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
}

/* The greeting left after the connection was begun. */
static void check_time(struct server *server, const char *info) {
    char time[32];

    pawl__server_info(info, "server_time_usec", time, sizeof time);
    if (!time[0])
        return;
    pawl__push_tie(home_of(server), server->commands.started_at, strtoll(time, NULL, 10));
}

/* Replicas know the cluster, too; and channels have slots since 7.0. */
static void check_cluster(struct server *server, const char *version) {
    if (!server->facts.in_cluster)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is not part of a cluster: write redis: instead of redis-cluster:");
    else if (version[0] && atoi(version) < 7)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the node's version is %s: in a cluster pawl needs 7.0 or later",
                        version);
}

/* Not in a cluster: one that others vote with is looked at by those who count (redlock/engine.c). */
static void check_alone(struct server *server, const char *version, const char *mode) {
    if (strcmp(mode, "sentinel") == 0)
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is a sentinel: write redis-sentinel://HOST:PORT/NAME");
    else if (server->facts.is_replica)
        pawl__link_drop(&server->commands, PAWL_ECONNLOST,
                        "the server is a replica and takes no locks: name the primary in the URL");
    else if (server->facts.in_cluster && !is_voter(server->redis))
        pawl__link_drop(&server->commands, PAWL_ETOPOLOGY, "it is one node of a cluster: write redis-cluster: instead of redis:");
    else if (version[0] && atoi(version) < 5)
        pawl__link_drop(&server->commands, PAWL_EVERSION, "the server's version is %s: pawl needs 5.0 or later", version);
}

static void check_info(struct server *server, const char *info) {
    char version[32], role[16], aof[8], saves[16], replicas[16], loading[8], cluster[8], mode[16];

    pawl__server_info(info, "redis_version", version, sizeof version);
    pawl__server_info(info, "role", role, sizeof role);
    pawl__server_info(info, "aof_enabled", aof, sizeof aof);
    pawl__server_info(info, "connected_slaves", replicas, sizeof replicas);
    pawl__server_info(info, "rdb_last_save_time", saves, sizeof saves);
    pawl__server_info(info, "loading", loading, sizeof loading);
    pawl__server_info(info, "run_id", server->facts.run_id, sizeof server->facts.run_id);
    pawl__server_info(info, "cluster_enabled", cluster, sizeof cluster);
    pawl__server_info(info, "redis_mode", mode, sizeof mode);
    server->facts.in_cluster = strcmp(cluster, "1") == 0;
    server->facts.is_replica = strcmp(role, "slave") == 0;
    if (is_voter(server->redis))
        check_time(server, info);
    pawl__kit_note(&server->redis->kit, NULL, "server: version %s, %s", version, role);
    if (in_cluster(server->redis))
        check_cluster(server, version);
    else
        check_alone(server, version, mode);
    server->facts.known = true;
    server->facts.replicas = (unsigned)strtoul(replicas, NULL, 10);
    server->facts.aof = strcmp(aof, "0") != 0;
}

/* CONFIG GET's answer: name and value. */
static const char *config_value(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || reply->element[1]->type != REDIS_REPLY_STRING)
        return NULL;
    return reply->element[1]->str;
}

static void warn_once(struct server *server, const char *policy) {
    const struct redis *redis = server->redis;

    if (server->facts.warned)
        return;
    server->facts.warned = true;
    if (policy && strcmp(policy, "noeviction") != 0)
        pawl__warn(
            &redis->base,
            "%.200s may evict keys when its memory is full (maxmemory-policy is %s), and locks with them: set maxmemory-policy "
            "noeviction",
            redis->url, policy);
    if (server->facts.known && !server->facts.aof)
        pawl__warn(&redis->base, "%.200s writes no append-only file: a restart forgets locks that are held; set appendonly yes",
                   redis->url);
    if (server->facts.replicas && !server->facts.min_replicas && !redis->options.replicas)
        pawl__warn(&redis->base,
                   "%.200s has replicas but does not wait for them: a failover may forget locks that are held; write ?replicas=1 "
                   "into the URL",
                   redis->url);
}

void pawl__server_answer(struct server *server, unsigned index, const redisReply *reply) {
    const char *value = config_value(reply);

    if (index == 0 && reply->type == REDIS_REPLY_STRING)
        check_info(server, reply->str);
    else if (index == 1 && value)
        snprintf(server->facts.policy, sizeof server->facts.policy, "%s", value);
    else if (index == 2 && value)
        server->facts.min_replicas = (unsigned)strtoul(value, NULL, 10);
}

void pawl__server_warn(struct server *server) {
    warn_once(server, server->facts.policy[0] ? server->facts.policy : NULL);
}
