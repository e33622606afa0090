/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_config.c - CONFIG: settings by name. Most are only remembered; some change what the server does.
 */
#include <ctype.h>
#include <stdio.h>

#include "redis_commands.h"

struct setting {
    const char *name;
    char *value; /* NULL: as it was at the start */
};

/* Names, and what they are at the start. */
static const char *const defaults[][2] = {
    {"appendfsync", "always"},
    {"appendonly", "yes"},
    {"busy-reply-threshold", "5000"},
    {"cluster-enabled", "no"},
    {"cluster-node-timeout", "15000"},
    {"databases", "16"},
    {"dir", "/"},
    {"hash-max-listpack-entries", "128"},
    {"hash-max-ziplist-entries", "128"},
    {"maxclients", "10000"},
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {"min-replicas-max-lag", "10"},
    {"min-replicas-to-write", "0"},
    {"min-slaves-to-write", "0"},
    {"notify-keyspace-events", ""},
    {"port", "0"},
    {"replica-read-only", "yes"},
    {"requirepass", ""},
    {"save", ""},
    {"stop-writes-on-bgsave-error", "yes"},
    {"timeout", "0"},
    {"tracking-table-max-keys", "1000000"},
};

enum { SETTINGS = sizeof defaults / sizeof defaults[0] };

void redis__settings_init(struct redis *redis) {
    char text[32];

    redis->settings = redis_alloc(SETTINGS * sizeof *redis->settings);
    redis->setting_count = SETTINGS;
    for (size_t i = 0; i < SETTINGS; i++)
        redis->settings[i].name = defaults[i][0];
    redis->hash_most = 128;
    snprintf(text, sizeof text, "%u", redis->port);
    redis__setting_put(redis, "port", text);
    if (!redis->aof)
        redis__setting_put(redis, "appendonly", "no");
    if (redis->max_clients != 10000) {
        snprintf(text, sizeof text, "%u", redis->max_clients);
        redis__setting_put(redis, "maxclients", text);
    }
}

void redis__settings_free(struct redis *redis) {
    for (size_t i = 0; i < redis->setting_count; i++)
        free(redis->settings[i].value);
    free(redis->settings);
}

static const char *value_of(const struct redis *redis, size_t i) {
    return redis->settings[i].value ? redis->settings[i].value : defaults[i][1];
}

const char *redis__setting_get(const struct redis *redis, const char *name) {
    for (size_t i = 0; i < SETTINGS; i++)
        if (strcmp(defaults[i][0], name) == 0)
            return value_of(redis, i);
    return NULL;
}

/* What has another name too is set under both. */
static const char *other_name(const char *name) {
    static const char *const pairs[][2] = {{"hash-max-listpack-entries", "hash-max-ziplist-entries"},
                                           {"min-replicas-to-write", "min-slaves-to-write"}};

    for (size_t i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (strcmp(pairs[i][j], name) == 0)
                return pairs[i][!j];
    return NULL;
}

static void put(struct redis *redis, const char *name, const char *value) {
    for (size_t i = 0; name && i < SETTINGS; i++)
        if (strcmp(defaults[i][0], name) == 0) {
            free(redis->settings[i].value);
            redis->settings[i].value = (char *)redis__text_copy((struct text){value, strlen(value)}).s;
        }
}

void redis__setting_put(struct redis *redis, const char *name, const char *value) {
    put(redis, name, value);
    put(redis, other_name(name), value);
    if (strncmp(name, "hash-max-", 9) == 0)
        redis->hash_most = strtoul(value, NULL, 10);
    else if (strcmp(name, "maxmemory") == 0)
        redis->max_memory = strtoll(value, NULL, 10);
    else if (strncmp(name, "min-", 4) == 0 && strstr(name, "to-write"))
        redis->min_replicas = strtoll(value, NULL, 10);
    else if (strcmp(name, "maxclients") == 0)
        redis->max_clients = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "appendonly") == 0)
        redis->aof = strcmp(value, "yes") == 0;
    else if (strcmp(name, "replica-read-only") == 0)
        redis->replica_writes = strcmp(value, "no") == 0;
    else if (strcmp(name, "requirepass") == 0)
        redis__acl_require(redis, value);
}

/* ---- CONFIG --------------------------------------------------------------------------------------------------------------- */

static bool asked_for(struct ctx *ctx, size_t i) {
    for (int j = 2; j < ctx->argc; j++) {
        struct text pattern = redis__text_copy(ctx->argv[j]);
        bool matches;

        for (size_t k = 0; k < pattern.n; k++)
            ((char *)pattern.s)[k] = (char)tolower((unsigned char)pattern.s[k]);
        matches = redis__text_matches((struct text){defaults[i][0], strlen(defaults[i][0])}, pattern);
        text_free(pattern);
        if (matches)
            return true;
    }
    return false;
}

static void config_get(struct ctx *ctx) {
    int64_t count = 0;

    for (size_t i = 0; i < SETTINGS; i++)
        count += asked_for(ctx, i);
    redis__reply_array(ctx, count * 2);
    for (size_t i = 0; i < SETTINGS; i++)
        if (asked_for(ctx, i)) {
            redis__reply_string(ctx, defaults[i][0]);
            redis__reply_string(ctx, value_of(ctx->redis, i));
        }
}

static const char *name_of(struct text text) {
    for (size_t i = 0; i < SETTINGS; i++)
        if (redis__text_is(text, defaults[i][0]))
            return defaults[i][0];
    return NULL;
}

static void config_set(struct ctx *ctx) {
    if (ctx->argc % 2) {
        redis__reply_sub_arity(ctx);
        return;
    }
    for (int i = 2; i < ctx->argc; i += 2)
        if (!name_of(ctx->argv[i])) {
            redis__reply_error(ctx, "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'", (int)ctx->argv[i].n,
                               ctx->argv[i].s);
            return;
        }
    for (int i = 2; i < ctx->argc; i += 2) {
        struct text value = redis__text_copy(ctx->argv[i + 1]);

        redis__setting_put(ctx->redis, name_of(ctx->argv[i]), value.s);
        text_free(value);
    }
    redis__reply_status(ctx, "OK");
}

void redis__command_config(struct ctx *ctx) {
    struct text word = ctx->argv[1];

    if (redis__text_is(word, "GET") && ctx->argc >= 3)
        config_get(ctx);
    else if (redis__text_is(word, "SET") && ctx->argc >= 4)
        config_set(ctx);
    else if (redis__text_is(word, "RESETSTAT") && ctx->argc == 2) {
        memset(ctx->redis->stats, 0, redis__command_count() * sizeof *ctx->redis->stats);
        ctx->redis->counts.commands = ctx->redis->counts.calls = 0;
        ctx->redis->connections = 0;
        redis__reply_status(ctx, "OK");
    } else if (redis__text_is(word, "REWRITE") && ctx->argc == 2)
        redis__reply_error(ctx, "ERR The server is running without a config file");
    else if (redis__text_is(word, "GET") || redis__text_is(word, "SET") || redis__text_is(word, "RESETSTAT"))
        redis__reply_sub_arity(ctx);
    else
        redis__reply_unknown_subcommand(ctx);
}
