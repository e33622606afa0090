/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_client.c - commands about the connection itself: PING, SELECT, CLIENT, MULTI, WAIT.
 */
#include <stdio.h>

#include "redis_commands.h"

void redis__command_ping(struct ctx *ctx) {
    if (ctx->argc > 2) {
        redis__reply_arity(ctx);
    } else if (redis__session_subscribed(ctx->session) && !ctx->script) {
        redis__reply_array(ctx, 2);
        redis__reply_string(ctx, "pong");
        redis__reply_bulk(ctx, ctx->argc == 2 ? ctx->argv[1] : TEXT(""));
    } else if (ctx->argc == 2) {
        redis__reply_bulk(ctx, ctx->argv[1]);
    } else {
        redis__reply_status(ctx, "PONG");
    }
}

void redis__command_echo(struct ctx *ctx) {
    redis__reply_bulk(ctx, ctx->argv[1]);
}

void redis__command_select(struct ctx *ctx) {
    int64_t number;

    if (!redis__text_to_int(ctx->argv[1], &number)) {
        redis__reply_error(ctx, "ERR value is not an integer or out of range");
    } else if (number < INT32_MIN || number > INT32_MAX) {
        redis__reply_error(ctx, "ERR value is out of range, value must between -2147483648 and 2147483647");
    } else if (redis__peer_clustered(ctx->redis) && number != 0) {
        redis__reply_error(ctx, "ERR SELECT is not allowed in cluster mode");
    } else if (number < 0 || number >= DATABASES) {
        redis__reply_error(ctx, "ERR DB index is out of range");
    } else {
        ctx->session->db = (unsigned)number;
        redis__reply_status(ctx, "OK");
    }
}

void redis__command_quit(struct ctx *ctx) {
    redis__reply_status(ctx, "OK");
    redis__session_close_soon(ctx->session);
}

void redis__command_reset(struct ctx *ctx) {
    struct session *session = ctx->session;

    redis__unsubscribe_all(session);
    redis__tracking_off(session);
    redis__queue_clear(session);
    session->db = 0;
    session->readonly = false;
    session->user = redis__acl_default_open(ctx->redis) ? redis__acl_default(ctx->redis) : NULL;
    redis__reply_status(ctx, "RESET");
}

void redis__command_hello(struct ctx *ctx) {
    int64_t version = 2;

    if (ctx->argc > 1 && !redis__text_to_int(ctx->argv[1], &version)) {
        redis__reply_error(ctx, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2) { /* 3 is not simulated: nothing here speaks it */
        redis__reply_error(ctx, "NOPROTO unsupported protocol version");
        return;
    }
    if (!ctx->session->user && !ctx->session->own) {
        redis__reply_error(
            ctx, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> "
                 "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
        return;
    }
    redis__reply_array(ctx, 14);
    redis__reply_string(ctx, "server");
    redis__reply_string(ctx, "redis");
    redis__reply_string(ctx, "version");
    redis__reply_string(ctx, ctx->redis->version);
    redis__reply_string(ctx, "proto");
    redis__reply_int(ctx, 2);
    redis__reply_string(ctx, "id");
    redis__reply_int(ctx, (int64_t)ctx->session->id);
    redis__reply_string(ctx, "mode");
    redis__reply_string(ctx, redis__peer_is_sentinel(ctx->redis) ? "sentinel"
                             : redis__peer_clustered(ctx->redis) ? "cluster"
                                                                 : "standalone");
    redis__reply_string(ctx, "role");
    redis__reply_string(ctx, redis__peer_is_replica(ctx->redis) ? "replica" : "master");
    redis__reply_string(ctx, "modules");
    redis__reply_array(ctx, 0);
}

void redis__command_command(struct ctx *ctx) {
    if (ctx->argc == 2 && redis__text_is(ctx->argv[1], "COUNT"))
        redis__reply_int(ctx, (int64_t)redis__command_count());
    else
        redis__reply_array(ctx, 0);
}

/* ---- CLIENT --------------------------------------------------------------------------------------------------------------- */

static void flags_of(const struct session *session, char *ret) {
    char *end = ret;

    if (redis__session_subscribed(session))
        *end++ = 'P';
    if (session->multi)
        *end++ = 'x';
    if (session->waits)
        *end++ = 'b';
    if (session->tracking)
        *end++ = 't';
    if (session->tracking && session->redirect && !redis__session_find(session->redis, session->redirect))
        *end++ = 'R';
    if (session->tracking_bcast)
        *end++ = 'B';
    if (session->closing)
        *end++ = 'c';
    if (end == ret)
        *end++ = 'N';
    *end = '\0';
}

static void add_line(struct buffer *text, const struct session *session) {
    const struct redis *redis = session->redis;
    char flags[16], line[768];
    int64_t age = (redis->now - session->since) / (1000 * MS);
    int n;

    flags_of(session, flags);
    n = snprintf(
        line, sizeof line,
        "id=%llu addr=127.0.0.1:%u laddr=127.0.0.1:%u fd=%u name=%s age=%lld idle=0 flags=%s db=%u sub=%zu psub=%zu ssub=%zu "
        "multi=%d qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=1024 rbp=0 obl=0 oll=0 omem=0 tot-mem=1800 events=r cmd=%s%s%s "
        "user=%s redir=%lld resp=2\n",
        (unsigned long long)session->id, 30000 + (unsigned)(session->id % 30000), redis->port, 8 + (unsigned)session->id % 1000,
        session->name, (long long)age, flags, session->db, session->channel_counts[CHANNEL_PLAIN],
        session->channel_counts[CHANNEL_PATTERN], session->channel_counts[CHANNEL_SHARD],
        session->multi ? (int)session->queue_count : -1, session->last_command, session->last_subcommand ? "|" : "",
        session->last_subcommand ? session->last_subcommand : "",
        session->user ? redis__acl_user_name(session->user) : "(superuser)",
        session->tracking ? (long long)session->redirect : -1LL);
    redis__buffer_add(text, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

static void client_list(struct ctx *ctx) {
    struct buffer text = {0};
    struct session *session;

    TAILQ_FOREACH(session, &ctx->redis->sessions, entry)
    add_line(&text, session);
    redis__reply_bulk(ctx, (struct text){text.bytes ? text.bytes : "", text.size});
    redis__buffer_free(&text);
}

static const char *type_of(const struct session *session) {
    return redis__session_subscribed(session) ? "pubsub" : "normal";
}

struct kill {
    int64_t id;
    struct text type;
    bool skip_me;
};

static bool parse_kill(struct ctx *ctx, struct kill *ret) {
    for (int i = 2; i + 1 < ctx->argc; i += 2) {
        struct text value = ctx->argv[i + 1];

        if (redis__text_is(ctx->argv[i], "ID")) {
            if (!redis__text_to_int(value, &ret->id) || ret->id <= 0) {
                redis__reply_error(ctx, "ERR client-id should be greater than 0");
                return false;
            }
        } else if (redis__text_is(ctx->argv[i], "TYPE")) {
            ret->type = value;
            if (!redis__text_is(value, "normal") && !redis__text_is(value, "pubsub") && !redis__text_is(value, "master") &&
                !redis__text_is(value, "slave") && !redis__text_is(value, "replica")) {
                redis__reply_error(ctx, "ERR Unknown client type '%.*s'", (int)value.n, value.s);
                return false;
            }
        } else if (redis__text_is(ctx->argv[i], "SKIPME")) {
            ret->skip_me = redis__text_is(value, "yes");
        } else {
            redis__reply_syntax(ctx);
            return false;
        }
    }
    return true;
}

static void client_kill(struct ctx *ctx) {
    struct kill kill = {.skip_me = true};
    struct session *session;
    int64_t count = 0;

    if (ctx->argc == 3) {
        redis__reply_error(ctx, "ERR No such client");
        return;
    }
    if (ctx->argc % 2) {
        redis__reply_syntax(ctx);
        return;
    }
    if (!parse_kill(ctx, &kill))
        return;
    TAILQ_FOREACH(session, &ctx->redis->sessions, entry) {
        if (session->closing || (kill.id && session->id != (uint64_t)kill.id) ||
            (kill.type.n && !redis__text_is(kill.type, type_of(session))) || (kill.skip_me && session == ctx->session))
            continue;
        redis__session_close_soon(session);
        count++;
    }
    redis__reply_int(ctx, count);
}

static void client_pause(struct ctx *ctx) {
    int64_t ms;

    if (!redis__text_to_int(ctx->argv[2], &ms)) {
        redis__reply_error(ctx, "ERR timeout is not an integer or out of range");
        return;
    }
    if (ms < 0) {
        redis__reply_error(ctx, "ERR timeout is negative");
        return;
    }
    if (ctx->argc == 4 && !redis__text_is(ctx->argv[3], "WRITE") && !redis__text_is(ctx->argv[3], "ALL")) {
        redis__reply_error(ctx, "ERR CLIENT PAUSE mode must be WRITE or ALL");
        return;
    }
    ctx->redis->paused_until = ctx->redis->now + ms * MS;
    ctx->redis->paused_writes_only = ctx->argc == 4 && redis__text_is(ctx->argv[3], "WRITE");
    redis__reply_status(ctx, "OK");
}

static void client_name(struct ctx *ctx) {
    if (ctx->argc == 2) {
        if (ctx->session->name[0])
            redis__reply_string(ctx, ctx->session->name);
        else
            redis__reply_nil(ctx);
        return;
    }
    snprintf(ctx->session->name, sizeof ctx->session->name, "%.*s", (int)ctx->argv[2].n, ctx->argv[2].s);
    redis__reply_status(ctx, "OK");
}

static void client_id(struct ctx *ctx) {
    redis__reply_int(ctx, (int64_t)ctx->session->id);
}

static void client_getredir(struct ctx *ctx) {
    redis__reply_int(ctx, ctx->session->tracking ? (int64_t)ctx->session->redirect : -1);
}

static void client_unpause(struct ctx *ctx) {
    ctx->redis->paused_until = ctx->redis->paused_until ? ctx->redis->now : 0;
    redis__reply_status(ctx, "OK");
}

static void client_info(struct ctx *ctx) {
    struct buffer text = {0};

    add_line(&text, ctx->session);
    redis__reply_bulk(ctx, (struct text){text.bytes, text.size});
    redis__buffer_free(&text);
}

static void client_ok(struct ctx *ctx) {
    redis__reply_status(ctx, "OK");
}

void redis__command_client(struct ctx *ctx) {
    static const struct {
        const char *name;
        command_fn *run;
    } subs[] = {
        {"ID", client_id},
        {"LIST", client_list},
        {"KILL", client_kill},
        {"PAUSE", client_pause},
        {"UNPAUSE", client_unpause},
        {"GETNAME", client_name},
        {"SETNAME", client_name},
        {"TRACKING", redis__client_tracking},
        {"CACHING", redis__client_caching},
        {"GETREDIR", client_getredir},
        {"INFO", client_info},
        {"NO-EVICT", client_ok},
    };

    for (size_t i = 0; i < sizeof subs / sizeof subs[0]; i++)
        if (redis__text_is(ctx->argv[1], subs[i].name)) {
            subs[i].run(ctx);
            return;
        }
}

/* ---- MULTI ---------------------------------------------------------------------------------------------------------------- */

void redis__queue_clear(struct session *session) {
    for (size_t i = 0; i < session->queue_count; i++) {
        for (int j = 0; j < session->queue[i].argc; j++)
            text_free(session->queue[i].argv[j]);
        free(session->queue[i].argv);
    }
    free(session->queue);
    session->queue = NULL;
    session->queue_count = 0;
    session->multi = session->multi_failed = false;
}

void redis__command_multi(struct ctx *ctx) {
    if (ctx->session->multi) {
        redis__reply_error(ctx, "ERR MULTI calls can not be nested");
        return;
    }
    ctx->session->multi = true;
    ctx->session->multi_failed = false;
    redis__reply_status(ctx, "OK");
}

void redis__command_discard(struct ctx *ctx) {
    if (!ctx->session->multi) {
        redis__reply_error(ctx, "ERR DISCARD without MULTI");
        return;
    }
    redis__queue_clear(ctx->session);
    redis__reply_status(ctx, "OK");
}

void redis__command_exec(struct ctx *ctx) {
    struct session *session = ctx->session;

    if (!session->multi) {
        redis__reply_error(ctx, "ERR EXEC without MULTI");
        return;
    }
    if (session->multi_failed) {
        redis__queue_clear(session);
        redis__reply_error(ctx, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    redis__reply_array(ctx, (int64_t)session->queue_count);
    for (size_t i = 0; i < session->queue_count; i++) {
        struct ctx each = *ctx;

        each.argc = session->queue[i].argc;
        each.argv = session->queue[i].argv;
        each.command = redis__command_find(each.argv[0]);
        redis__command_run_now(&each);
    }
    redis__queue_clear(session);
}

/* ---- WAIT ----------------------------------------------------------------------------------------------------------------- */

void redis__command_wait(struct ctx *ctx) {
    struct session *session = ctx->session;
    struct redis *redis = ctx->redis;
    int64_t wanted, timeout, acks;

    if (redis__peer_is_replica(redis)) {
        redis__reply_error(ctx,
                           "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is "
                           "configured to be writable (which is not the default) writes to replicas are just local and are not "
                           "propagated.");
        return;
    }
    if (!redis__arg_int(ctx, 1, &wanted))
        return;
    if (!redis__text_to_int(ctx->argv[2], &timeout)) {
        redis__reply_error(ctx, "ERR timeout is not an integer or out of range");
        return;
    }
    if (timeout < 0) {
        redis__reply_error(ctx, "ERR timeout is negative");
        return;
    }
    acks = redis__peer_acks(redis, session->last_write);
    if (acks >= wanted || session->multi || session->own) {
        redis__reply_int(ctx, acks);
        return;
    }
    session->waits = true;
    session->wait_count = wanted;
    session->wait_offset = session->last_write;
    session->wait_until = timeout ? redis->now + timeout * MS : SERVER_NEVER;
    redis->waiting++;
    redis__peer_ask_acks(redis);
}

static void end_wait(struct session *session, int64_t acks) {
    session->waits = false;
    session->redis->waiting--;
    redis__bytes_int(&session->out, acks);
    redis__session_wants_to_write(session);
}

void redis__wait_look(struct redis *redis) {
    struct session *session, *next;

    for (session = TAILQ_FIRST(&redis->sessions); session; session = next) {
        int64_t acks;

        next = TAILQ_NEXT(session, entry);
        if (!session->waits || session->closing)
            continue;
        acks = redis__peer_acks(redis, session->wait_offset);
        if (acks < session->wait_count && redis->now < session->wait_until)
            continue;
        end_wait(session, acks);
        redis__session_process(session);
    }
}

/* It has become a replica: each client that waits is told, and its connection ends. */
void redis__wait_end_all(struct redis *redis) {
    static const char text[] = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    struct session *session;

    TAILQ_FOREACH(session, &redis->sessions, entry) {
        if (!session->waits)
            continue;
        session->waits = false;
        redis->waiting--;
        redis__bytes_line(&session->out, '-', text, sizeof text - 1);
        redis__session_close_soon(session);
    }
}
