/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_command.c - which commands there are, what is checked before one is carried out, and what follows.
 *
 * The checks come in a real server's order, so that of two things that are wrong the same one is said: is there such a command, has it
 * enough arguments, who asks, may they, are the keys here, may the server write, is the connection one that only listens, ...
 */
#include <ctype.h>
#include <stdio.h>

#include "redis_commands.h"

#define W (CMD_WRITE)
#define WM (CMD_WRITE | CMD_DENYOOM)
#define R (CMD_READ)
#define LS (CMD_LOADING | CMD_STALE)
#define LISTEN (CMD_PUBSUB | CMD_PUBSUB_RIGHTS | CMD_NOSCRIPT | LS)

static const struct command table[] = {
    {"get", 2, R | CMD_FAST, 1, 1, 1, redis__command_get},
    {"set", -3, WM, 1, 1, 1, redis__command_set},
    {"setnx", 3, WM | CMD_FAST, 1, 1, 1, redis__command_setnx},
    {"setex", 4, WM, 1, 1, 1, redis__command_setex},
    {"psetex", 4, WM, 1, 1, 1, redis__command_setex},
    {"getset", 3, WM | CMD_FAST, 1, 1, 1, redis__command_getset},
    {"getdel", 2, W | CMD_FAST, 1, 1, 1, redis__command_getdel},
    {"mget", -2, R | CMD_FAST, 1, -1, 1, redis__command_mget},
    {"mset", -3, WM, 1, -1, 2, redis__command_mset},
    {"strlen", 2, R | CMD_FAST, 1, 1, 1, redis__command_strlen},
    {"append", 3, WM | CMD_FAST, 1, 1, 1, redis__command_append},
    {"incr", 2, WM | CMD_FAST, 1, 1, 1, redis__command_incr},
    {"decr", 2, WM | CMD_FAST, 1, 1, 1, redis__command_decr},
    {"incrby", 3, WM | CMD_FAST, 1, 1, 1, redis__command_incrby},
    {"decrby", 3, WM | CMD_FAST, 1, 1, 1, redis__command_decrby},

    {"hset", -4, WM | CMD_FAST, 1, 1, 1, redis__command_hset},
    {"hmset", -4, WM | CMD_FAST, 1, 1, 1, redis__command_hset},
    {"hsetnx", 4, WM | CMD_FAST, 1, 1, 1, redis__command_hsetnx},
    {"hget", 3, R | CMD_FAST, 1, 1, 1, redis__command_hget},
    {"hmget", -3, R | CMD_FAST, 1, 1, 1, redis__command_hmget},
    {"hgetall", 2, R, 1, 1, 1, redis__command_hgetall},
    {"hkeys", 2, R, 1, 1, 1, redis__command_hkeys},
    {"hvals", 2, R, 1, 1, 1, redis__command_hvals},
    {"hlen", 2, R | CMD_FAST, 1, 1, 1, redis__command_hlen},
    {"hexists", 3, R | CMD_FAST, 1, 1, 1, redis__command_hexists},
    {"hstrlen", 3, R | CMD_FAST, 1, 1, 1, redis__command_hstrlen},
    {"hdel", -3, W | CMD_FAST, 1, 1, 1, redis__command_hdel},
    {"hincrby", 4, WM | CMD_FAST, 1, 1, 1, redis__command_hincrby},

    {"zadd", -4, WM | CMD_FAST, 1, 1, 1, redis__command_zadd},
    {"zincrby", 4, WM | CMD_FAST, 1, 1, 1, redis__command_zadd},
    {"zrem", -3, W | CMD_FAST, 1, 1, 1, redis__command_zrem},
    {"zcard", 2, R | CMD_FAST, 1, 1, 1, redis__command_zcard},
    {"zscore", 3, R | CMD_FAST, 1, 1, 1, redis__command_zscore},
    {"zrank", 3, R | CMD_FAST, 1, 1, 1, redis__command_zrank},
    {"zrevrank", 3, R | CMD_FAST, 1, 1, 1, redis__command_zrank},
    {"zrange", -4, R, 1, 1, 1, redis__command_zrange},
    {"zrevrange", -4, R, 1, 1, 1, redis__command_zrevrange},
    {"zrangebyscore", -4, R, 1, 1, 1, redis__command_zrangebyscore},
    {"zrevrangebyscore", -4, R, 1, 1, 1, redis__command_zrevrangebyscore},
    {"zcount", 4, R | CMD_FAST, 1, 1, 1, redis__command_zcount},
    {"zremrangebyscore", 4, W, 1, 1, 1, redis__command_zremrangebyscore},
    {"zremrangebyrank", 4, W, 1, 1, 1, redis__command_zremrangebyrank},
    {"zpopmin", -2, W | CMD_FAST, 1, 1, 1, redis__command_zpop},
    {"zpopmax", -2, W | CMD_FAST, 1, 1, 1, redis__command_zpop},

    {"lpush", -3, WM | CMD_FAST, 1, 1, 1, redis__command_lpush},
    {"rpush", -3, WM | CMD_FAST, 1, 1, 1, redis__command_rpush},
    {"lpop", -2, W | CMD_FAST, 1, 1, 1, redis__command_lpop},
    {"rpop", -2, W | CMD_FAST, 1, 1, 1, redis__command_rpop},
    {"llen", 2, R | CMD_FAST, 1, 1, 1, redis__command_llen},
    {"lindex", 3, R, 1, 1, 1, redis__command_lindex},
    {"lrange", 4, R, 1, 1, 1, redis__command_lrange},
    {"lrem", 4, W, 1, 1, 1, redis__command_lrem},

    {"del", -2, W, 1, -1, 1, redis__command_del},
    {"unlink", -2, W | CMD_FAST, 1, -1, 1, redis__command_del},
    {"exists", -2, R | CMD_FAST, 1, -1, 1, redis__command_exists},
    {"touch", -2, R | CMD_FAST, 1, -1, 1, redis__command_exists},
    {"type", 2, R | CMD_FAST, 1, 1, 1, redis__command_type},
    {"rename", 3, W, 1, 2, 1, redis__command_rename},
    {"renamenx", 3, W | CMD_FAST, 1, 2, 1, redis__command_rename},
    {"object", -2, CMD_TWO_WORDS | R, 2, 2, 1, redis__command_object},
    {"expire", -3, W | CMD_FAST, 1, 1, 1, redis__command_expire},
    {"pexpire", -3, W | CMD_FAST, 1, 1, 1, redis__command_expire},
    {"expireat", -3, W | CMD_FAST, 1, 1, 1, redis__command_expire},
    {"pexpireat", -3, W | CMD_FAST, 1, 1, 1, redis__command_expire},
    {"persist", 2, W | CMD_FAST, 1, 1, 1, redis__command_persist},
    {"ttl", 2, R | CMD_FAST, 1, 1, 1, redis__command_ttl},
    {"pttl", 2, R | CMD_FAST, 1, 1, 1, redis__command_ttl},
    {"expiretime", 2, R | CMD_FAST, 1, 1, 1, redis__command_ttl},
    {"pexpiretime", 2, R | CMD_FAST, 1, 1, 1, redis__command_ttl},
    {"keys", 2, R | CMD_DANGEROUS, 0, 0, 0, redis__command_keys},
    {"scan", -2, R, 0, 0, 0, redis__command_scan},
    {"dbsize", 1, R | CMD_FAST, 0, 0, 0, redis__command_dbsize},
    {"flushall", -1, W | CMD_DANGEROUS, 0, 0, 0, redis__command_flush},
    {"flushdb", -1, W | CMD_DANGEROUS, 0, 0, 0, redis__command_flush},
    {"time", 1, LS | CMD_FAST, 0, 0, 0, redis__command_time},

    {"eval", -3, CMD_NOSCRIPT | CMD_STALE | CMD_REPLICATES | CMD_SCRIPTING, -1, 0, 0, redis__command_eval},
    {"evalsha", -3, CMD_NOSCRIPT | CMD_STALE | CMD_REPLICATES | CMD_SCRIPTING, -1, 0, 0, redis__command_evalsha},
    {"script", -2, CMD_TWO_WORDS | CMD_NOSCRIPT | CMD_SCRIPTING, 0, 0, 0, redis__command_script},

    {"subscribe", -2, LISTEN | CMD_SENTINEL, 0, 0, 0, redis__command_subscribe},
    {"unsubscribe", -1, LISTEN | CMD_SENTINEL, 0, 0, 0, redis__command_unsubscribe},
    {"psubscribe", -2, LISTEN | CMD_SENTINEL, 0, 0, 0, redis__command_psubscribe},
    {"punsubscribe", -1, LISTEN | CMD_SENTINEL, 0, 0, 0, redis__command_punsubscribe},
    {"ssubscribe", -2, LISTEN, 1, -1, 1, redis__command_ssubscribe},
    {"sunsubscribe", -1, LISTEN, 1, -1, 1, redis__command_sunsubscribe},
    {"publish", 3, LS | CMD_REPLICATES | CMD_FAST | CMD_PUBSUB_RIGHTS | CMD_SENTINEL, 0, 0, 0, redis__command_publish},
    {"spublish", 3, LS | CMD_REPLICATES | CMD_FAST | CMD_PUBSUB_RIGHTS, 1, 1, 1, redis__command_spublish},
    {"pubsub", -2, CMD_TWO_WORDS | LS | CMD_PUBSUB_RIGHTS, 0, 0, 0, redis__command_pubsub},

    {"ping", -1, CMD_PUBSUB | CMD_FAST | CMD_SENTINEL | CMD_CONNECTION | LS, 0, 0, 0, redis__command_ping},
    {"echo", 2, LS | CMD_FAST | CMD_CONNECTION, 0, 0, 0, redis__command_echo},
    {"select", 2, LS | CMD_FAST | CMD_CONNECTION, 0, 0, 0, redis__command_select},
    {"quit", -1, CMD_PUBSUB | CMD_NOAUTH | CMD_NOSCRIPT | CMD_SENTINEL | CMD_CONNECTION | LS, 0, 0, 0, redis__command_quit},
    {"reset", 1, CMD_PUBSUB | CMD_NOAUTH | CMD_NOSCRIPT | CMD_CONNECTION | LS, 0, 0, 0, redis__command_reset},
    {"hello", -1, CMD_NOAUTH | CMD_NOSCRIPT | CMD_SENTINEL | CMD_CONNECTION | LS, 0, 0, 0, redis__command_hello},
    {"client", -2, CMD_TWO_WORDS | CMD_NOSCRIPT | CMD_SENTINEL | CMD_CONNECTION | LS, 0, 0, 0, redis__command_client},
    {"auth", -2, CMD_NOAUTH | CMD_NOSCRIPT | CMD_SENTINEL | CMD_CONNECTION | LS, 0, 0, 0, redis__command_auth},
    {"acl", -2, CMD_TWO_WORDS | CMD_NOSCRIPT | CMD_ADMIN | CMD_DANGEROUS | CMD_SENTINEL | LS, 0, 0, 0, redis__command_acl},
    {"multi", 1, CMD_NOSCRIPT | CMD_NOMULTI | CMD_FAST | LS, 0, 0, 0, redis__command_multi},
    {"exec", 1, CMD_NOSCRIPT | CMD_NOMULTI | LS, 0, 0, 0, redis__command_exec},
    {"discard", 1, CMD_NOSCRIPT | CMD_NOMULTI | CMD_FAST | LS, 0, 0, 0, redis__command_discard},
    {"wait", 3, CMD_NOSCRIPT, 0, 0, 0, redis__command_wait},
    {"command", -1, LS | CMD_SENTINEL, 0, 0, 0, redis__command_command},

    {"info", -1, LS | CMD_SENTINEL | CMD_DANGEROUS, 0, 0, 0, redis__command_info},
    {"config", -2, CMD_TWO_WORDS | CMD_NOSCRIPT | CMD_ADMIN | CMD_DANGEROUS | LS, 0, 0, 0, redis__command_config},
    {"debug", -2, CMD_NOSCRIPT | CMD_ADMIN | CMD_DANGEROUS | LS, 0, 0, 0, redis__command_debug},
    {"lastsave", 1, LS | CMD_FAST | CMD_DANGEROUS, 0, 0, 0, redis__command_lastsave},
    {"bgsave", -1, CMD_NOSCRIPT | CMD_ADMIN | CMD_DANGEROUS, 0, 0, 0, redis__command_bgsave},
    {"bgrewriteaof", 1, CMD_NOSCRIPT | CMD_ADMIN | CMD_DANGEROUS, 0, 0, 0, redis__command_bgsave},

    {"role", 1, CMD_NOSCRIPT | LS | CMD_FAST | CMD_SENTINEL | CMD_DANGEROUS, 0, 0, 0, redis__command_role},
    {"replicaof", 3, CMD_NOSCRIPT | CMD_ADMIN | CMD_STALE | CMD_DANGEROUS, 0, 0, 0, redis__command_replicaof},
    {"slaveof", 3, CMD_NOSCRIPT | CMD_ADMIN | CMD_STALE | CMD_DANGEROUS, 0, 0, 0, redis__command_replicaof},
    {"sentinel", -2, CMD_TWO_WORDS | CMD_SENTINEL | CMD_SENTINEL_ONLY | CMD_ADMIN, 0, 0, 0, redis__command_sentinel},
    {"cluster", -2, CMD_TWO_WORDS | CMD_STALE, 0, 0, 0, redis__command_cluster},
    {"asking", 1, CMD_FAST, 0, 0, 0, redis__command_asking},
    {"readonly", 1, LS | CMD_FAST, 0, 0, 0, redis__command_readonly},
    {"readwrite", 1, LS | CMD_FAST, 0, 0, 0, redis__command_readonly},
    {"migrate", -6, W, 3, 3, 1, redis__command_migrate},
};

/* Less than any server needs. */
enum { LITTLE_MEMORY = 100000 };
enum { COMMANDS = sizeof table / sizeof table[0], INDEX = 1024 };

size_t redis__command_count(void) {
    return COMMANDS;
}

size_t redis__command_number(const struct command *command) {
    return (size_t)(command - table);
}

const struct command *redis__command_at(size_t number) {
    return &table[number];
}

static unsigned place_of(const char *name, size_t n) {
    unsigned hash = (unsigned)n;

    for (size_t i = 0; i < n; i++)
        hash = hash * 31 + (unsigned char)(name[i] | 32);
    return hash % INDEX;
}

const struct command *redis__command_find(struct text name) {
    static uint8_t by_name[INDEX]; /* number + 1 */
    unsigned at;

    if (!by_name[place_of("get", 3)])
        for (unsigned i = 0; i < COMMANDS; i++) {
            for (at = place_of(table[i].name, strlen(table[i].name)); by_name[at]; at = (at + 1) % INDEX)
                continue;
            by_name[at] = (uint8_t)(i + 1);
        }
    for (at = place_of(name.s, name.n); by_name[at]; at = (at + 1) % INDEX)
        if (redis__text_is(name, table[by_name[at] - 1].name))
            return &table[by_name[at] - 1];
    return NULL;
}

int redis__command_keys_of(const struct command *command, int argc, const struct text *argv, struct text *ret, int most) {
    int first = command->first, last = command->last < 0 ? argc + command->last : command->last, count = 0;
    int64_t keys;

    if (command->first == 0)
        return 0;
    if (command->first < 0) {
        if (argc < 3 || !redis__text_to_int(argv[2], &keys) || keys < 0 || keys > argc - 3)
            return 0;
        first = 3;
        last = 2 + (int)keys;
    }
    if (command->run == redis__command_migrate && argv[first].n == 0) { /* ... "" db timeout KEYS key ... */
        for (first = 6; first < argc && !redis__text_is(argv[first], "keys"); first++)
            continue;
        first++;
        last = argc - 1;
    }
    for (int i = first; i <= last && i < argc; i += command->step ? command->step : 1)
        if (count++ < most)
            ret[count - 1] = argv[i];
    return count;
}

/* ---- Before --------------------------------------------------------------------------------------------------------------- */

static void reply_unknown(struct ctx *ctx) {
    char args[256] = "";
    size_t used = 0;

    for (int i = 1; i < ctx->argc && used < 128; i++) {
        int most = (int)(128 - used), n = ctx->argv[i].n < (size_t)most ? (int)ctx->argv[i].n : most;

        used += (size_t)snprintf(args + used, sizeof args - used, "'%.*s' ", n, ctx->argv[i].s);
    }
    redis__reply_error(ctx, "ERR unknown command '%.*s', with args beginning with: %s",
                       (int)(ctx->argv[0].n < 128 ? ctx->argv[0].n : 128), ctx->argv[0].s, args);
}

/* Why the server does not write; NULL: it does. One write has come nearer to the one that is to fail. */
const char *redis__write_refused(struct redis *redis) {
    if (redis->fail_always[0])
        return redis->fail_always;
    if (redis->fail_at && --redis->fail_at == 0) {
        redis->write_failed = true;
        return redis->fail_text;
    }
    return NULL;
}

static bool may_write(struct ctx *ctx) {
    struct redis *redis = ctx->redis;
    const char *why;

    if ((ctx->command->flags & CMD_DENYOOM) && redis->max_memory > 0 && redis->max_memory < LITTLE_MEMORY &&
        !(ctx->script && redis->dirty != redis->dirty_before)) { /* a script that has written goes on */
        redis__reply_error(ctx, REDIS_OOM);
        return false;
    }
    if (ctx->command->run == redis__command_ping && !ctx->script && strncmp(redis->fail_always, "MISCONF", 7) == 0) {
        redis__reply_error(ctx, "%s", redis->fail_always);
        return false;
    }
    if (!(ctx->command->flags & CMD_WRITE))
        return true;
    if (redis->min_replicas > 0 && !redis__peer_is_replica(redis) && redis__peer_good_replicas(redis) < redis->min_replicas) {
        redis__reply_error(ctx, "NOREPLICAS Not enough good replicas to write.");
        return false;
    }
    if (redis__peer_is_replica(redis) && !redis->replica_writes) {
        redis__reply_error(ctx, REDIS_READONLY);
        return false;
    }
    why = redis__write_refused(redis);
    if (why)
        redis__reply_error(ctx, "%s", why);
    return !why;
}

/* Inside a script. Servers from 7.2 on say all of it in the same words. */
static void refuse_script(struct ctx *ctx, enum acl_denied why, int index) {
    const char *user = redis__acl_user_name(ctx->session->user);
    char command[128];

    redis__acl_command_name(ctx->command, ctx->argc, ctx->argv, command, sizeof command);
    if (strverscmp(ctx->redis->version, "7.2") < 0)
        redis__reply_error(ctx, "ERR The user executing the script can't %s",
                           why == ACL_COMMAND ? "run this command or subcommand"
                           : why == ACL_KEY   ? "access at least one of the keys mentioned in the command arguments"
                                              : "publish to the channel mentioned in the command");
    else if (why == ACL_COMMAND)
        redis__reply_error(ctx, "ERR ACL failure in script: User %s has no permissions to run the '%s' command", user, command);
    else
        redis__reply_error(ctx, "ERR ACL failure in script: User %s has no permissions to access the '%.*s' %s", user,
                           (int)ctx->argv[index].n, ctx->argv[index].s, why == ACL_KEY ? "key" : "channel");
}

static bool may_user(struct ctx *ctx) {
    static const char *const texts[] = {"", "", "NOPERM this user has no permissions to access one of the keys used as arguments",
                                        "NOPERM this user has no permissions to access one of the channels used as arguments"};
    enum acl_denied why;
    int index = 0;

    if (ctx->session->own || (ctx->command->flags & CMD_NOAUTH))
        return true;
    if (!ctx->session->user) {
        redis__reply_error(ctx, "NOAUTH Authentication required.");
        return false;
    }
    why = redis__acl_check(ctx->redis, ctx->session->user, ctx->command, ctx->argc, ctx->argv, &index);
    if (why == ACL_OK)
        return true;
    redis__acl_note(ctx, why, index);
    if (ctx->script) {
        refuse_script(ctx, why, index);
    } else if (why == ACL_COMMAND) {
        char name[128];

        redis__acl_command_name(ctx->command, ctx->argc, ctx->argv, name, sizeof name);
        redis__reply_error(ctx, "NOPERM this user has no permissions to run the '%s' command", name);
    } else {
        redis__reply_error(ctx, "%s", texts[why]);
    }
    return false;
}

static bool is_known(struct ctx *ctx) {
    bool sentinel = redis__peer_is_sentinel(ctx->redis);

    ctx->command = redis__command_find(ctx->argv[0]);
    if (ctx->command && (sentinel ? !(ctx->command->flags & CMD_SENTINEL) : (ctx->command->flags & CMD_SENTINEL_ONLY) != 0))
        ctx->command = NULL;
    return ctx->command != NULL;
}

/* What the state of connection and server forbid. */
static bool may_now(struct ctx *ctx) {
    struct redis *redis = ctx->redis;
    unsigned flags = ctx->command->flags;

    if (redis__session_subscribed(ctx->session) && !(flags & CMD_PUBSUB)) {
        char name[128];

        redis__acl_command_name(ctx->command, ctx->argc, ctx->argv, name, sizeof name);
        redis__reply_error(
            ctx, "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            name);
        return false;
    }
    if (redis->busy_until && !ctx->session->own && !(flags & CMD_NOAUTH)) {
        redis__reply_error(ctx, "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
        return false;
    }
    if (redis->now < redis->loading_until && !(flags & CMD_LOADING)) {
        redis__reply_error(ctx, "LOADING Redis is loading the dataset in memory");
        return false;
    }
    return true;
}

static bool may_run(struct ctx *ctx) {
    if (!is_known(ctx)) {
        reply_unknown(ctx);
        return false;
    }
    if (!redis__subcommand_known(ctx->command, ctx->argc, ctx->argv)) {
        redis__reply_unknown_subcommand(ctx);
        return false;
    }
    if (!redis__arity_fits(ctx->command, ctx->argc, ctx->argv)) {
        redis__reply_sub_arity(ctx);
        return false;
    }
    return may_user(ctx) && (!redis__peer_clustered(ctx->redis) || redis__peer_redirect(ctx)) && may_write(ctx) && may_now(ctx);
}

/* ---- While and after ------------------------------------------------------------------------------------------------------ */

void redis__command_run_now(struct ctx *ctx) {
    struct redis *redis = ctx->redis;
    struct stats *stats = &redis->stats[redis__command_number(ctx->command)];
    bool failed = ctx->sink->failed;

    ctx->sink->failed = false;
    stats->calls++;
    redis__spend(redis);
    ctx->command->run(ctx);
    stats->failed += ctx->sink->failed;
    ctx->sink->failed |= failed;
    if ((ctx->command->flags & CMD_READ) && redis->tracking_clients)
        redis__tracking_remember(ctx);
}

static void enqueue(struct ctx *ctx) {
    struct session *session = ctx->session;
    struct queued *queued;

    session->queue = redis_grow(session->queue, (session->queue_count + 1) * sizeof *session->queue);
    queued = &session->queue[session->queue_count++];
    queued->argc = ctx->argc;
    queued->argv = redis_alloc((size_t)ctx->argc * sizeof *queued->argv);
    for (int i = 0; i < ctx->argc; i++)
        queued->argv[i] = redis__text_copy(ctx->argv[i]);
    redis__reply_status(ctx, "QUEUED");
}

/* Does CLIENT PAUSE hold it back? */
static bool is_paused(const struct ctx *ctx) {
    const struct redis *redis = ctx->redis;

    if (redis->now >= redis->paused_until || ctx->session->own)
        return false;
    return !redis->paused_writes_only || (ctx->command->flags & (CMD_WRITE | CMD_REPLICATES)) != 0 ||
           (ctx->command->run == redis__command_exec && ctx->session->multi);
}

/* The true answer, but for one of its numbers. False: it has none. */
static bool twist_number(struct redis *redis, struct buffer *out, size_t from) {
    static const char *const numbers[] = {":0\r\n", ":-1\r\n", ":2147483648\r\n", ":9223372036854775807\r\n"};
    const char *number = numbers[redis_draw(&redis->random) % (sizeof numbers / sizeof numbers[0])];
    size_t count = 0, place = 0, end;

    for (size_t i = from; i < out->size; i++)
        if (out->bytes[i] == ':' && (i == from || out->bytes[i - 1] == '\n') && redis_draw(&redis->random) % ++count == 0)
            place = i;
    if (count == 0)
        return false;
    for (end = place; end < out->size && out->bytes[end] != '\n'; end++)
        ;
    end += end < out->size;
    struct text rest = redis__text_copy((struct text){out->bytes + end, out->size - end});

    out->size = place;
    redis__buffer_add(out, number, strlen(number));
    redis__buffer_add(out, rest.s, rest.n);
    text_free(rest);
    return true;
}

/* A reply that is whole and makes no sense. */
static void talk_nonsense(struct redis *redis, struct buffer *out, size_t from) {
    static const char *const replies[] = {":0\r\n",
                                          ":-1\r\n",
                                          ":9223372036854775807\r\n",
                                          "$-1\r\n",
                                          "*-1\r\n",
                                          "*0\r\n",
                                          "$0\r\n\r\n",
                                          "+OK\r\n",
                                          "*1\r\n:1\r\n",
                                          "*1\r\n$-1\r\n",
                                          "*2\r\n:1\r\n:-9223372036854775808\r\n",
                                          "*4\r\n:1\r\n$1\r\nx\r\n*0\r\n:0\r\n",
                                          "*5\r\n:0\r\n:-5\r\n:-7\r\n$3\r\nabc\r\n:2\r\n",
                                          "*3\r\n:1\r\n:18446744073709551615\r\n:0\r\n",
                                          "-ERR unknown nonsense\r\n",
                                          "-\r\n",
                                          "$20\r\n99999999999999999999\r\n"};
    const char *reply = replies[redis_draw(&redis->random) % (sizeof replies / sizeof replies[0])];

    if (redis_draw(&redis->random) % 2 == 0 && twist_number(redis, out, from))
        return;
    out->size = from;
    redis__buffer_add(out, reply, strlen(reply));
}

static void finish(struct ctx *ctx, size_t from, uint64_t dirty) {
    struct session *session = ctx->session;
    struct redis *redis = ctx->redis;

    redis__store_commit(redis);
    if (redis->dirty != dirty)
        session->last_write = redis__peer_offset(redis);
    if (ctx->command && ctx->command->run != redis__command_client)
        session->caching = session->caching_no = false;
    if (ctx->command && ctx->command->run != redis__command_asking)
        session->asking = false;
    if (redis->nonsense && ctx->command && !(ctx->command->flags & CMD_PUBSUB_RIGHTS) && session->out.size > from &&
        redis_draw(&redis->random) % redis->nonsense == 0)
        talk_nonsense(redis, &session->out, from);
    redis__tracking_afterwards(session);
    if (session->out.size)
        redis__session_wants_to_write(session);
}

/* EXEC that is refused ends the transaction. */
static void abort_exec(struct ctx *ctx, size_t from) {
    struct buffer *out = &ctx->session->out;
    size_t skip = out->size - from > 5 && memcmp(out->bytes + from, "-ERR ", 5) == 0 ? 5 : 1;
    struct text why = redis__text_copy((struct text){out->bytes + from + skip, out->size - from - skip - 2});

    out->size = from;
    redis__queue_clear(ctx->session);
    redis__reply_error(ctx, "EXECABORT Transaction discarded because of: %s", why.s);
    text_free(why);
}

bool redis__command_run(struct session *session, int argc, const struct text *argv) {
    struct redis *redis = session->redis;
    struct sink sink = {.bytes = &session->out};
    struct ctx ctx = {.redis = redis, .session = session, .argc = argc, .argv = argv, .sink = &sink};
    size_t from = session->out.size;
    uint64_t dirty = redis->dirty;

    redis__begin_moment(redis);
    redis->current = session;
    if (is_known(&ctx) && is_paused(&ctx)) {
        redis->current = NULL;
        return false;
    }
    if (!may_run(&ctx)) {
        session->multi_failed = true;
        if (ctx.command && ctx.command->run == redis__command_exec)
            abort_exec(&ctx, from);
        if (ctx.command)
            redis->stats[redis__command_number(ctx.command)].rejected++;
    } else if (session->multi && !(ctx.command->flags & CMD_NOMULTI)) {
        enqueue(&ctx);
    } else {
        session->last_command = ctx.command->name;
        session->last_subcommand = redis__has_subcommands(ctx.command) ? redis__subcommand_name(ctx.command, argc, argv) : NULL;
        redis->counts.commands++;
        redis__command_run_now(&ctx);
    }
    finish(&ctx, from, dirty);
    redis->current = NULL;
    return true;
}

void redis__command_call(struct ctx *caller, int argc, const struct text *argv, struct sink *sink) {
    struct redis *redis = caller->redis;
    struct ctx ctx = {
        .redis = redis, .session = caller->session, .argc = argc, .argv = argv, .sink = sink, .script = true, .caller = caller};

    if (!is_known(&ctx) || !redis__subcommand_known(ctx.command, argc, argv))
        redis__reply_error(&ctx, "ERR Unknown Redis command called from script");
    else if (!redis__arity_fits(ctx.command, argc, argv))
        redis__reply_error(&ctx, "ERR Wrong number of args calling Redis command from script");
    else if (ctx.command->flags & CMD_NOSCRIPT)
        redis__reply_error(&ctx, "ERR This Redis command is not allowed from script");
    else if (may_user(&ctx) && may_write(&ctx) && (!redis__peer_clustered(redis) || redis__peer_script_may(&ctx))) {
        redis->counts.calls++;
        redis__command_run_now(&ctx);
    }
}
