/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_pubsub.c - channels, patterns, and channels of a cluster's slots.
 *
 * What is published is queued to each connection at once, in order of publishing; the count is of those that are subscribed as far as the
 * server knows.
 */
#include "redis_commands.h"

static const char *const verbs[CHANNEL_KINDS] = {"subscribe", "psubscribe", "ssubscribe"};
static const char *const un_verbs[CHANNEL_KINDS] = {"unsubscribe", "punsubscribe", "sunsubscribe"};

static struct listened *find(struct redis *redis, enum channel_kind kind, struct text name) {
    struct listened *channel;

    TAILQ_FOREACH(channel, &redis->channels[kind], entry) {
        if (text_equal(channel->name, name))
            return channel;
    }
    return NULL;
}

static struct listening *find_own(struct session *session, enum channel_kind kind, struct text name) {
    struct listening *listening;

    TAILQ_FOREACH(listening, &session->listens, of_session) {
        if (listening->channel->kind == kind && text_equal(listening->channel->name, name))
            return listening;
    }
    return NULL;
}

static void listen_to(struct session *session, enum channel_kind kind, struct text name) {
    struct redis *redis = session->redis;
    struct listened *channel = find(redis, kind, name);
    struct listening *listening = redis_alloc(sizeof *listening);

    if (!channel) {
        channel = redis_alloc(sizeof *channel);
        channel->kind = kind;
        channel->name = redis__text_copy(name);
        TAILQ_INIT(&channel->sessions);
        TAILQ_INSERT_TAIL(&redis->channels[kind], channel, entry);
    }
    listening->session = session;
    listening->channel = channel;
    channel->count++;
    session->channel_counts[kind]++;
    TAILQ_INSERT_TAIL(&channel->sessions, listening, of_channel);
    TAILQ_INSERT_TAIL(&session->listens, listening, of_session);
}

static void stop_listening(struct listening *listening) {
    struct listened *channel = listening->channel;
    struct session *session = listening->session;

    TAILQ_REMOVE(&channel->sessions, listening, of_channel);
    TAILQ_REMOVE(&session->listens, listening, of_session);
    session->channel_counts[channel->kind]--;
    if (--channel->count == 0) {
        TAILQ_REMOVE(&session->redis->channels[channel->kind], channel, entry);
        text_free(channel->name);
        free(channel);
    }
    free(listening);
}

static size_t count_of(const struct session *session, enum channel_kind kind) {
    return kind == CHANNEL_SHARD ? session->channel_counts[kind] : redis__session_subscriptions(session);
}

/* What a client is told of its subscriptions. `name` without text: nil. */
static void confirm(struct session *session, const char *verb, struct text name, size_t count) {
    redis__bytes_array(&session->out, 3);
    redis__bytes_bulk(&session->out, (struct text){verb, strlen(verb)});
    if (name.s)
        redis__bytes_bulk(&session->out, name);
    else
        redis__buffer_add(&session->out, "$-1\r\n", 5);
    redis__bytes_int(&session->out, (int64_t)count);
}

static void subscribe(struct ctx *ctx, enum channel_kind kind) {
    struct session *session = ctx->session;

    for (int i = 1; i < ctx->argc; i++) {
        if (!find_own(session, kind, ctx->argv[i]))
            listen_to(session, kind, ctx->argv[i]);
        confirm(session, verbs[kind], ctx->argv[i], count_of(session, kind));
    }
}

static void unsubscribe_one(struct session *session, enum channel_kind kind, struct text name) {
    struct listening *listening = find_own(session, kind, name);
    struct text copy = redis__text_copy(name);

    if (listening)
        stop_listening(listening);
    confirm(session, un_verbs[kind], copy, count_of(session, kind));
    text_free(copy);
}

static void unsubscribe(struct ctx *ctx, enum channel_kind kind) {
    struct session *session = ctx->session;
    struct listening *listening, *next;
    bool any = false;

    for (int i = 1; i < ctx->argc; i++)
        unsubscribe_one(session, kind, ctx->argv[i]);
    if (ctx->argc > 1)
        return;
    for (listening = TAILQ_FIRST(&session->listens); listening; listening = next) {
        next = TAILQ_NEXT(listening, of_session);
        if (listening->channel->kind == kind) {
            any = true;
            unsubscribe_one(session, kind, listening->channel->name);
        }
    }
    if (!any)
        confirm(session, un_verbs[kind], (struct text){NULL, 0}, count_of(session, kind));
}

void redis__command_subscribe(struct ctx *ctx) {
    subscribe(ctx, CHANNEL_PLAIN);
}

void redis__command_psubscribe(struct ctx *ctx) {
    subscribe(ctx, CHANNEL_PATTERN);
}

void redis__command_ssubscribe(struct ctx *ctx) {
    subscribe(ctx, CHANNEL_SHARD);
}

void redis__command_unsubscribe(struct ctx *ctx) {
    unsubscribe(ctx, CHANNEL_PLAIN);
}

void redis__command_punsubscribe(struct ctx *ctx) {
    unsubscribe(ctx, CHANNEL_PATTERN);
}

void redis__command_sunsubscribe(struct ctx *ctx) {
    unsubscribe(ctx, CHANNEL_SHARD);
}

void redis__unsubscribe_all(struct session *session) {
    struct listening *listening;

    while ((listening = TAILQ_FIRST(&session->listens)))
        stop_listening(listening);
}

/* The slot is not here any more: those who listen to its channels are told. */
void redis__unsubscribe_slot(struct redis *redis, unsigned slot) {
    struct listened *channel, *next;

    for (channel = TAILQ_FIRST(&redis->channels[CHANNEL_SHARD]); channel; channel = next) {
        next = TAILQ_NEXT(channel, entry);
        if (redis_slot_of(channel->name.s, channel->name.n) != slot)
            continue;
        for (size_t left = channel->count; left > 0; left--) {
            struct session *session = TAILQ_FIRST(&channel->sessions)->session;

            unsubscribe_one(session, CHANNEL_SHARD, channel->name);
            redis__session_wants_to_write(session);
        }
    }
}

void redis__pubsub_free(struct redis *redis) {
    struct session *session;

    TAILQ_FOREACH(session, &redis->sessions, entry)
    redis__unsubscribe_all(session);
}

/* ---- Publishing ----------------------------------------------------------------------------------------------------------- */

static void deliver(struct session *session, const char *kind, const struct text *parts, int count) {
    redis__bytes_array(&session->out, count + 1);
    redis__bytes_bulk(&session->out, (struct text){kind, strlen(kind)});
    for (int i = 0; i < count; i++)
        redis__bytes_bulk(&session->out, parts[i]);
    redis__session_wants_to_write(session);
    session->redis->counts.messages++;
}

int64_t redis__publish(struct redis *redis, struct text name, struct text message, bool shard) {
    struct listened *channel = find(redis, shard ? CHANNEL_SHARD : CHANNEL_PLAIN, name);
    struct listening *listening;
    int64_t count = 0;

    if (channel)
        TAILQ_FOREACH(listening, &channel->sessions, of_channel) {
            deliver(listening->session, shard ? "smessage" : "message", (struct text[]){name, message}, 2);
            count++;
        }
    if (shard)
        return count;
    TAILQ_FOREACH(channel, &redis->channels[CHANNEL_PATTERN], entry) {
        if (!redis__text_matches(name, channel->name))
            continue;
        TAILQ_FOREACH(listening, &channel->sessions, of_channel) {
            deliver(listening->session, "pmessage", (struct text[]){channel->name, name, message}, 3);
            count++;
        }
    }
    return count;
}

void redis__command_publish(struct ctx *ctx) {
    redis__reply_int(ctx, redis__publish(ctx->redis, ctx->argv[1], ctx->argv[2], false));
    if (!redis__peer_clustered(ctx->redis))
        redis__store_message(ctx->redis, ctx->argv[1], ctx->argv[2]);
}

void redis__command_spublish(struct ctx *ctx) {
    redis__reply_int(ctx, redis__publish(ctx->redis, ctx->argv[1], ctx->argv[2], true));
}

/* ---- PUBSUB --------------------------------------------------------------------------------------------------------------- */

static void reply_channels(struct ctx *ctx, enum channel_kind kind) {
    struct text pattern = ctx->argc > 2 ? ctx->argv[2] : TEXT("*");
    struct listened *channel;
    int64_t count = 0;

    TAILQ_FOREACH(channel, &ctx->redis->channels[kind], entry)
    count += redis__text_matches(channel->name, pattern);
    redis__reply_array(ctx, count);
    TAILQ_FOREACH(channel, &ctx->redis->channels[kind], entry) {
        if (redis__text_matches(channel->name, pattern))
            redis__reply_bulk(ctx, channel->name);
    }
}

static void reply_counts(struct ctx *ctx, enum channel_kind kind) {
    redis__reply_array(ctx, (ctx->argc - 2) * 2);
    for (int i = 2; i < ctx->argc; i++) {
        struct listened *channel = find(ctx->redis, kind, ctx->argv[i]);

        redis__reply_bulk(ctx, ctx->argv[i]);
        redis__reply_int(ctx, channel ? (int64_t)channel->count : 0);
    }
}

void redis__command_pubsub(struct ctx *ctx) {
    struct text word = ctx->argv[1];
    struct listened *channel;
    int64_t count = 0;

    if (redis__text_is(word, "NUMSUB"))
        reply_counts(ctx, CHANNEL_PLAIN);
    else if (redis__text_is(word, "SHARDNUMSUB"))
        reply_counts(ctx, CHANNEL_SHARD);
    else if (redis__text_is(word, "CHANNELS") && ctx->argc <= 3)
        reply_channels(ctx, CHANNEL_PLAIN);
    else if (redis__text_is(word, "SHARDCHANNELS") && ctx->argc <= 3)
        reply_channels(ctx, CHANNEL_SHARD);
    else if (redis__text_is(word, "NUMPAT") && ctx->argc == 2) {
        TAILQ_FOREACH(channel, &ctx->redis->channels[CHANNEL_PATTERN], entry)
        count++;
        redis__reply_int(ctx, count);
    } else
        redis__reply_unknown_subcommand(ctx);
}
