/* SPDX-License-Identifier: Apache-2.0
 *
 * raw_redis.c - bare operations on one Redis, by hiredis on a blocking connection: PING, EVALSHA of a script that does nothing, GET.
 *
 * Requests are counted by the server (INFO commandstats), which counts what a script calls too. The engine asks by scripts alone; so the
 * calls that no script makes are the requests.
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "raw.h"

struct redis {
    redisContext *context;
    char sha[41];
    char id[32];
};

static redisReply *ask(redisContext *context, const char *first, const char *second, const char *third) {
    const char *words[] = {first, second, third};
    int count = second == NULL ? 1 : third == NULL ? 2 : 3;
    redisReply *reply = redisCommandArgv(context, count, words, NULL);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        snprintf(context->errstr, sizeof context->errstr, "%s", reply->str);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static bool succeeds(redisContext *context, const char *first, const char *second, const char *third) {
    redisReply *reply = ask(context, first, second, third);

    freeReplyObject(reply);
    return reply != NULL;
}

static redisContext *connect_to(const struct address *address) {
    const struct timeval patience = {.tv_sec = 10};
    const char *port = address->hosts[0].port[0] != '\0' ? address->hosts[0].port : "6379";
    redisContext *context = address->host_count > 0 && address->hosts[0].name[0] != '\0'
                                ? redisConnectWithTimeout(address->hosts[0].name, atoi(port), patience)
                                : redisConnectUnixWithTimeout(address->path, patience);

    if (context != NULL && context->err == 0)
        redisSetTimeout(context, patience);
    return context;
}

static bool log_in(redisContext *context, const struct address *address) {
    char db[32];
    bool named = address->user[0] != '\0';

    if (address->secret[0] != '\0' &&
        !succeeds(context, "AUTH", named ? address->user : address->secret, named ? address->secret : NULL))
        return false;
    address_option(address, "db", db, sizeof db);
    if (db[0] == '\0' && address->host_count > 0)
        snprintf(db, sizeof db, "%s", address->path[0] == '/' ? address->path + 1 : "");
    return db[0] == '\0' || succeeds(context, "SELECT", db, NULL);
}

static void *redis_open(const struct address *address, const char *id, char *why, size_t size) {
    struct redis *redis = calloc(1, sizeof *redis);
    redisReply *reply = NULL;

    if (address->host_count > 1) {
        snprintf(why, size, "there are several servers in the URL");
        free(redis);
        return NULL;
    }
    if (redis != NULL) {
        snprintf(redis->id, sizeof redis->id, "%s", id);
        redis->context = connect_to(address);
    }
    if (redis != NULL && redis->context != NULL && redis->context->err == 0 && log_in(redis->context, address))
        reply = ask(redis->context, "SCRIPT", "LOAD", "return 1");
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        snprintf(why, size, "%s", redis != NULL && redis->context != NULL ? redis->context->errstr : "out of memory");
        if (redis != NULL && redis->context != NULL)
            redisFree(redis->context);
        free(redis);
        redis = NULL;
    } else {
        snprintf(redis->sha, sizeof redis->sha, "%s", reply->str);
    }
    freeReplyObject(reply);
    return redis;
}

static void redis_close(void *connection) {
    struct redis *redis = connection;

    redisFree(redis->context);
    free(redis);
}

static int64_t redis_act(void *connection, enum raw_act act) {
    struct redis *redis = connection;
    int64_t begin = bench_now_ns();
    bool good = act == RAW_TRIP    ? succeeds(redis->context, "PING", NULL, NULL)
                : act == RAW_WRITE ? succeeds(redis->context, "EVALSHA", redis->sha, "0")
                                   : succeeds(redis->context, "GET", redis->id, NULL);

    return good ? bench_now_ns() - begin : -1;
}

static bool called_by_scripts(const char *line) {
    static const char *const own[] = {"evalsha:", "eval:", "evalsha_ro:", "fcall:", "ping:", "subscribe:", "unsubscribe:", "wait:"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(line, own[i], strlen(own[i])) == 0)
            return false;
    return true;
}

static double redis_requests(void *connection) {
    struct redis *redis = connection;
    redisReply *reply = ask(redis->context, "INFO", "commandstats", NULL);
    double total = reply != NULL ? 0 : -1;

    for (const char *at = reply != NULL ? reply->str : NULL; at != NULL && (at = strstr(at, "cmdstat_")) != NULL; at++) {
        at += strlen("cmdstat_");
        const char *calls = strstr(at, "calls=");

        if (calls != NULL && !called_by_scripts(at))
            total += strtod(calls + strlen("calls="), NULL);
    }
    freeReplyObject(reply);
    return total;
}

static void redis_describe(void *connection, char *out, size_t size) {
    struct redis *redis = connection;
    redisReply *reply = ask(redis->context, "INFO", "server", NULL);
    const char *valkey = reply != NULL ? strstr(reply->str, "valkey_version:") : NULL;
    const char *version = reply != NULL ? strstr(reply->str, "redis_version:") : NULL;
    const char *found = valkey != NULL ? valkey : version;

    out[0] = '\0';
    if (found != NULL) {
        found = strchr(found, ':') + 1;
        snprintf(out, size, "%s %.*s", valkey != NULL ? "Valkey" : "Redis", (int)strcspn(found, "\r\n"), found);
    }
    freeReplyObject(reply);
}

/* All keys with the id in them: the lock's own, and those beside it (docs/redis.md). */
static bool redis_clean(void *connection) {
    struct redis *redis = connection;
    char cursor[32] = "0", pattern[48];

    snprintf(pattern, sizeof pattern, "*%s*", redis->id);
    do {
        redisReply *reply = redisCommand(redis->context, "SCAN %s MATCH %s COUNT 1000", cursor, pattern);

        if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
            freeReplyObject(reply);
            return false;
        }
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++)
            succeeds(redis->context, "DEL", reply->element[1]->element[i]->str, NULL);
        freeReplyObject(reply);
    } while (strcmp(cursor, "0") != 0);
    return true;
}

const struct raw_impl raw_redis = {
    .schemes = {"redis", "valkey", "redis+unix", "unix"},
    .names = {"PING", "EVALSHA", "GET"},
    .open = redis_open,
    .close = redis_close,
    .act = redis_act,
    .requests = redis_requests,
    .describe = redis_describe,
    .clean = redis_clean,
};
