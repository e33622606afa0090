/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_talk.c - the part of redis_server.h that only talks to a server, by its Unix socket: the same for real servers and for simulated
 * ones.
 */
#include "redis_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

bool redis_server_answers(struct redis_server *server) {
    const struct timeval patience = {.tv_sec = 5};
    redisReply *reply;
    bool ok;

    redisFree(server->context);
    server->context = redisConnectUnixWithTimeout(server->socket_path, patience);
    if (!server->context || server->context->err) {
        redisFree(server->context);
        server->context = NULL;
        return false;
    }
    redisSetTimeout(server->context, (struct timeval){.tv_sec = 30});
    reply = redisCommand(server->context, "PING");
    ok = reply && (reply->type == REDIS_REPLY_STATUS || strncmp(reply->str, "NOAUTH", 6) == 0);
    freeReplyObject(reply);
    if (!ok) { /* it is loading */
        redisFree(server->context);
        server->context = NULL;
    }
    return ok;
}

static redisReply *command(struct redis_server *server, const char *format, va_list args) {
    redisReply *reply = NULL;
    va_list again;

    /* A sentinel closes all connections to a server that it makes a replica: then once more. */
    for (int i = 0; i < 2 && !reply; i++) {
        if (i > 0 && !redis_server_answers(server))
            fail_msg("the test's own connection broke, and can't be made anew");
        va_copy(again, args);
        reply = redisvCommand(server->context, format, again);
        va_end(again);
    }
    if (!reply)
        fail_msg("the test's own connection broke: %s", server->context->errstr);
    return reply;
}

redisReply *redis_server_command(struct redis_server *server, const char *format, ...) {
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    return reply;
}

long long redis_server_integer(struct redis_server *server, const char *format, ...) {
    redisReply *reply;
    long long number;
    va_list args;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
    freeReplyObject(reply);
    return number;
}

const char *redis_server_text(struct redis_server *server, char *buffer, size_t size, const char *format, ...) {
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = command(server, format, args);
    va_end(args);
    snprintf(buffer, size, "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return buffer;
}

long long redis_server_plain(struct redis_server *server, const char *text) {
    const char *argv[16];
    char *copy = strdup(text), *rest = copy, *word;
    redisReply *reply;
    long long number;
    int argc = 0;

    while (argc < 16 && (word = strsep(&rest, " ")))
        argv[argc++] = word;
    reply = redisCommandArgv(server->context, argc, argv, NULL);
    free(copy);
    if (!reply)
        fail_msg("the test's own connection broke: %s", server->context->errstr);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : 0;
    freeReplyObject(reply);
    return number;
}

long redis_server_stat(struct redis_server *server, const char *command, const char *what) {
    redisReply *reply = redis_server_command(server, "INFO commandstats");
    char key[64];
    const char *line, *at;
    long number;

    snprintf(key, sizeof key, "cmdstat_%s:", command);
    line = strstr(reply->str, key);
    snprintf(key, sizeof key, "%s=", what);
    at = line ? strstr(line, key) : NULL;
    number = at && at < strchr(line, '\n') ? strtol(at + strlen(key), NULL, 10) : 0;
    freeReplyObject(reply);
    return number;
}

long redis_server_calls(struct redis_server *server, const char *command) {
    return redis_server_stat(server, command, "calls");
}

long redis_server_scripts(struct redis_server *server) {
    return redis_server_calls(server, "eval") + redis_server_calls(server, "evalsha");
}
