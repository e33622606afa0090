/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_info.c - INFO, and what else is said about the server as a whole.
 */
#include <stdio.h>

#include "redis_commands.h"

static void info_server(struct redis *redis, struct buffer *text) {
    redis__buffer_print(
        text, "# Server\r\nredis_version:%s\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_mode:%s\r\nos:Linux\r\n",
        redis->version,
        redis__peer_is_sentinel(redis) ? "sentinel"
        : redis__peer_clustered(redis) ? "cluster"
                                       : "standalone");
    redis__buffer_print(text, "arch_bits:64\r\nprocess_id:1\r\nrun_id:%s\r\ntcp_port:%u\r\nserver_time_usec:%lld\r\n",
                        redis->run_id, redis->port, (long long)(redis__wall_ns(redis) / 1000));
    redis__buffer_print(text, "uptime_in_seconds:%lld\r\nuptime_in_days:0\r\nhz:10\r\n",
                        (long long)((redis->now - redis->started) / (1000 * MS)));
}

static void info_clients(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text,
                        "# Clients\r\nconnected_clients:%zu\r\nmaxclients:%u\r\nblocked_clients:%zu\r\ntracking_clients:%zu\r\n",
                        redis->session_count, redis->max_clients, redis->waiting, redis->tracking_clients);
}

static void info_memory(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text, "# Memory\r\nused_memory:1000000\r\nmaxmemory:%lld\r\nmaxmemory_policy:%s\r\n",
                        (long long)redis->max_memory, redis__setting_get(redis, "maxmemory-policy"));
}

static void info_persistence(struct redis *redis, struct buffer *text) {
    redis__buffer_print(
        text,
        "# "
        "Persistence\r\nloading:%d\r\nrdb_changes_since_last_save:%llu\r\nrdb_bgsave_in_progress:0\r\nrdb_last_save_time:%lld\r\n",
        redis->now < redis->loading_until, (unsigned long long)redis->dirty,
        (long long)(server_clock_read(&redis->clock, redis->started) / 1000 / MS));
    redis__buffer_print(text, "rdb_last_bgsave_status:%s\r\naof_enabled:%d\r\naof_last_write_status:%s\r\n",
                        strncmp(redis->fail_always, "MISCONF Redis", 13) == 0 ? "err" : "ok", redis->aof,
                        strncmp(redis->fail_always, "MISCONF Errors", 14) == 0 ? "err" : "ok");
}

static void info_stats(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text,
                        "# Stats\r\ntotal_connections_received:%llu\r\ntotal_commands_processed:%llu\r\nrejected_connections:0\r\n",
                        (unsigned long long)redis->connections, (unsigned long long)(redis->counts.commands + redis->counts.calls));
    redis__buffer_print(text, "tracking_total_keys:%zu\r\n", redis->tracked_count);
}

static void info_keyspace(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text, "# Keyspace\r\n");
    for (unsigned db = 0; db < DATABASES; db++) {
        size_t expires = 0;
        struct key *key;

        if (!redis->dbs[db].count)
            continue;
        TAILQ_FOREACH(key, &redis->dbs[db].keys, entry)
        expires += key->expires >= 0;
        redis__buffer_print(text, "db%u:keys=%zu,expires=%zu,avg_ttl=0\r\n", db, redis->dbs[db].count, expires);
    }
}

static void info_commandstats(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text, "# Commandstats\r\n");
    for (size_t i = 0; i < redis__command_count(); i++) {
        const struct stats *stats = &redis->stats[i];

        if (stats->calls || stats->failed || stats->rejected)
            redis__buffer_print(text,
                                "cmdstat_%s:calls=%llu,usec=%llu,usec_per_call=1.00,rejected_calls=%llu,failed_calls=%llu\r\n",
                                redis__command_at(i)->name, (unsigned long long)stats->calls, (unsigned long long)stats->calls,
                                (unsigned long long)stats->rejected, (unsigned long long)stats->failed);
    }
}

static void info_cluster(struct redis *redis, struct buffer *text) {
    redis__buffer_print(text, "# Cluster\r\ncluster_enabled:%d\r\n", redis__peer_clustered(redis));
}

struct section {
    const char *name;
    bool by_default;
    void (*add)(struct redis *redis, struct buffer *text);
};

static const struct section sections[] = {
    {"server", true, info_server},
    {"clients", true, info_clients},
    {"memory", true, info_memory},
    {"persistence", true, info_persistence},
    {"stats", true, info_stats},
    {"replication", true, redis__peer_info_replication},
    {"commandstats", false, info_commandstats},
    {"cluster", true, info_cluster},
    {"keyspace", true, info_keyspace},
};

static bool wanted(struct ctx *ctx, const struct section *section) {
    if (ctx->argc == 1)
        return section->by_default;
    for (int i = 1; i < ctx->argc; i++) {
        if (redis__text_is(ctx->argv[i], section->name) || redis__text_is(ctx->argv[i], "all") ||
            redis__text_is(ctx->argv[i], "everything"))
            return true;
        if (redis__text_is(ctx->argv[i], "default") && section->by_default)
            return true;
    }
    return false;
}

void redis__command_info(struct ctx *ctx) {
    struct buffer text = {0};

    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!wanted(ctx, &sections[i]))
            continue;
        if (text.size)
            redis__buffer_print(&text, "\r\n");
        sections[i].add(ctx->redis, &text);
    }
    if (redis__peer_is_sentinel(ctx->redis))
        redis__peer_info_sentinel(ctx->redis, &text);
    redis__reply_bulk(ctx, (struct text){text.bytes ? text.bytes : "", text.size});
    redis__buffer_free(&text);
}

/* ---- Others --------------------------------------------------------------------------------------------------------------- */

void redis__command_debug(struct ctx *ctx) {
    if (redis__text_is(ctx->argv[1], "SLEEP") || redis__text_is(ctx->argv[1], "SET-ACTIVE-EXPIRE") ||
        redis__text_is(ctx->argv[1], "JMAP"))
        redis__reply_status(ctx, "OK");
    else
        redis__reply_unknown_subcommand(ctx);
}

void redis__command_lastsave(struct ctx *ctx) {
    redis__reply_int(ctx, server_clock_read(&ctx->redis->clock, ctx->redis->started) / 1000 / MS);
}

void redis__command_bgsave(struct ctx *ctx) {
    redis__reply_status(ctx, ctx->command->name[2] == 's' ? "Background saving started"
                                                          : "Background append only file rewriting started");
}
