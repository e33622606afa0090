/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_subcommands.c - commands of two words: which there are, and with how many arguments. It is looked at before anything else is, as
 * a real server does.
 */
#include <ctype.h>
#include <stdio.h>

#include "redis_commands.h"

static const struct {
    const char *command, *name;
    int arity;
} subs[] = {
    {"acl", "cat", -2},
    {"acl", "deluser", -3},
    {"acl", "log", -2},
    {"acl", "setuser", -3},
    {"acl", "users", 2},
    {"acl", "whoami", 2},
    {"client", "caching", 3},
    {"client", "getname", 2},
    {"client", "getredir", 2},
    {"client", "id", 2},
    {"client", "info", 2},
    {"client", "kill", -3},
    {"client", "list", -2},
    {"client", "no-evict", 3},
    {"client", "pause", -3},
    {"client", "setname", 3},
    {"client", "tracking", -3},
    {"client", "unpause", 2},
    {"cluster", "addslots", -3},
    {"cluster", "addslotsrange", -4},
    {"cluster", "countkeysinslot", 3},
    {"cluster", "delslots", -3},
    {"cluster", "failover", -2},
    {"cluster", "getkeysinslot", 4},
    {"cluster", "info", 2},
    {"cluster", "keyslot", 3},
    {"cluster", "myid", 2},
    {"cluster", "nodes", 2},
    {"cluster", "replicate", 3},
    {"cluster", "setslot", -4},
    {"cluster", "shards", 2},
    {"cluster", "slots", 2},
    {"config", "get", -3},
    {"config", "resetstat", 2},
    {"config", "rewrite", 2},
    {"config", "set", -4},
    {"object", "encoding", 3},
    {"object", "refcount", 3},
    {"pubsub", "channels", -2},
    {"pubsub", "numpat", 2},
    {"pubsub", "numsub", -2},
    {"pubsub", "shardchannels", -2},
    {"pubsub", "shardnumsub", -2},
    {"script", "exists", -3},
    {"script", "flush", -2},
    {"script", "kill", 2},
    {"script", "load", 3},
    {"sentinel", "failover", 3},
    {"sentinel", "get-master-addr-by-name", 3},
    {"sentinel", "master", 3},
    {"sentinel", "masters", 2},
    {"sentinel", "myid", 2},
    {"sentinel", "replicas", 3},
    {"sentinel", "sentinels", 3},
    {"sentinel", "slaves", 3},
};

enum { SUBS = sizeof subs / sizeof subs[0] };

/* Its arity; 0: there is no such one. */
static int arity_of(const struct command *command, struct text name) {
    for (size_t i = 0; i < SUBS; i++)
        if (strcmp(subs[i].command, command->name) == 0 && redis__text_is(name, subs[i].name))
            return subs[i].arity;
    return 0;
}

const char *redis__subcommand_name(const struct command *command, int argc, const struct text *argv) {
    for (size_t i = 0; argc >= 2 && i < SUBS; i++)
        if (strcmp(subs[i].command, command->name) == 0 && redis__text_is(argv[1], subs[i].name))
            return subs[i].name;
    return NULL;
}

bool redis__subcommand_known(const struct command *command, int argc, const struct text *argv) {
    return argc < 2 || !redis__has_subcommands(command) || arity_of(command, argv[1]);
}

bool redis__arity_fits(const struct command *command, int argc, const struct text *argv) {
    int arity = argc >= 2 && redis__has_subcommands(command) ? arity_of(command, argv[1]) : command->arity;

    return arity > 0 ? argc == arity : argc >= -arity;
}

void redis__acl_command_name(const struct command *command, int argc, const struct text *argv, char *ret, size_t size) {
    size_t n = (size_t)snprintf(ret, size, "%s", command->name);

    if (argc < 2 || !redis__has_subcommands(command))
        return;
    snprintf(ret + n, size - n, "|%.*s", (int)argv[1].n, argv[1].s);
    for (; ret[n]; n++)
        ret[n] = (char)tolower((unsigned char)ret[n]);
}

void redis__reply_unknown_subcommand(struct ctx *ctx) {
    char upper[32];
    size_t i;

    for (i = 0; ctx->command->name[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)ctx->command->name[i]);
    upper[i] = '\0';
    redis__reply_error(ctx, "ERR unknown subcommand '%.*s'. Try %s HELP.", (int)(ctx->argv[1].n < 128 ? ctx->argv[1].n : 128),
                       ctx->argv[1].s, upper);
}

void redis__reply_sub_arity(struct ctx *ctx) {
    char name[64];

    redis__acl_command_name(ctx->command, ctx->argc, ctx->argv, name, sizeof name);
    redis__reply_error(ctx, "ERR wrong number of arguments for '%s' command", name);
}
