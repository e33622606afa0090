/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_tracking.c - CLIENT TRACKING: who has read a key is told, once, that it has changed.
 *
 * With RESP2 the words go to another connection, which is subscribed to __redis__:invalidate (REDIRECT). In broadcast mode nothing is
 * remembered: every change of a key that begins with one of the prefixes is told, those of one turn of the server together.
 */
#include "redis_commands.h"

struct tracked {
    TAILQ_ENTRY(tracked) entry;
    uint64_t session;
    struct text key;
};

static void forget(struct redis *redis, struct tracked *tracked) {
    TAILQ_REMOVE(&redis->tracked, tracked, entry);
    redis->tracked_count--;
    text_free(tracked->key);
    free(tracked);
}

void redis__tracking_free(struct redis *redis) {
    struct tracked *tracked;

    while ((tracked = TAILQ_FIRST(&redis->tracked)))
        forget(redis, tracked);
}

static void remember(struct redis *redis, uint64_t session, struct text key) {
    struct tracked *tracked;

    TAILQ_FOREACH(tracked, &redis->tracked, entry) {
        if (tracked->session == session && text_equal(tracked->key, key))
            return;
    }
    tracked = redis_alloc(sizeof *tracked);
    tracked->session = session;
    tracked->key = redis__text_copy(key);
    TAILQ_INSERT_TAIL(&redis->tracked, tracked, entry);
    redis->tracked_count++;
}

/* What a script has read: up to 7.0 it is the script's keys that count, not those of the command. */
void redis__tracking_remember(struct ctx *ctx) {
    const struct ctx *asked = ctx->caller && !ctx->redis->frozen_time ? ctx->caller : ctx;
    struct session *session = ctx->session;
    struct text keys[64];
    int count;

    if (!session->tracking || session->tracking_bcast || (session->tracking_optin && !session->caching) ||
        (session->tracking_optout && session->caching_no))
        return;
    count = redis__command_keys_of(asked->command, asked->argc, asked->argv, keys, 64);
    for (int i = 0; i < count && i < 64; i++)
        remember(ctx->redis, session->id, keys[i]);
}

/* `key` without text: all of them. */
static void tell(struct session *session, struct text key) {
    static const struct text channel = {"__redis__:invalidate", 20};
    struct session *to = session->redirect ? redis__session_find(session->redis, session->redirect) : NULL;
    struct buffer *out;

    if (!to || !redis__session_subscribed(to))
        return;
    out = session == session->redis->current ? &session->pending : &to->out; /* of its own doing it is told afterwards */
    redis__bytes_array(out, 3);
    redis__bytes_bulk(out, TEXT("message"));
    redis__bytes_bulk(out, channel);
    if (key.s) {
        redis__bytes_array(out, 1);
        redis__bytes_bulk(out, key);
    } else {
        redis__buffer_add(out, "*-1\r\n", 5);
    }
    redis__session_wants_to_write(to);
}

void redis__tracking_afterwards(struct session *session) {
    struct session *to;

    if (!session->pending.size)
        return;
    to = redis__session_find(session->redis, session->redirect);
    if (to) {
        redis__buffer_add(&to->out, session->pending.bytes, session->pending.size);
        redis__session_wants_to_write(to);
    }
    session->pending.size = 0;
}

static bool begins(struct text key, struct text prefix) {
    return key.n >= prefix.n && memcmp(key.s, prefix.s, prefix.n) == 0;
}

/* In the order of their names; who changed it last. */
static void note_broadcast(struct redis *redis, struct text key) {
    uint64_t by = redis->current ? redis->current->id : 0;
    size_t at = 0;

    while (at < redis->broadcast_count && text_compare(redis->broadcasts[at].key, key) < 0)
        at++;
    if (at < redis->broadcast_count && text_equal(redis->broadcasts[at].key, key)) {
        redis->broadcasts[at].by = by;
        return;
    }
    redis->broadcasts = redis_grow(redis->broadcasts, (redis->broadcast_count + 1) * sizeof *redis->broadcasts);
    memmove(redis->broadcasts + at + 1, redis->broadcasts + at, (redis->broadcast_count - at) * sizeof *redis->broadcasts);
    redis->broadcasts[at] = (struct broadcast){redis__text_copy(key), by};
    redis->broadcast_count++;
}

static bool concerns(const struct session *session, const struct broadcast *broadcast, struct text prefix) {
    return begins(broadcast->key, prefix) && !(session->tracking_noloop && broadcast->by == session->id);
}

static void tell_broadcast(struct session *session, struct text prefix) {
    struct redis *redis = session->redis;
    struct session *to = session->redirect ? redis__session_find(redis, session->redirect) : NULL;
    int64_t count = 0;

    for (size_t i = 0; i < redis->broadcast_count; i++)
        count += concerns(session, &redis->broadcasts[i], prefix);
    if (!to || !redis__session_subscribed(to) || !count)
        return;
    redis__bytes_array(&to->out, 3);
    redis__bytes_bulk(&to->out, TEXT("message"));
    redis__bytes_bulk(&to->out, TEXT("__redis__:invalidate"));
    redis__bytes_array(&to->out, count);
    for (size_t i = 0; i < redis->broadcast_count; i++)
        if (concerns(session, &redis->broadcasts[i], prefix))
            redis__bytes_bulk(&to->out, redis->broadcasts[i].key);
    redis__session_wants_to_write(to);
}

void redis__tracking_changed(struct redis *redis, struct text key) {
    struct tracked *tracked, *next;
    struct session *session;

    for (tracked = redis->tracked_count ? TAILQ_FIRST(&redis->tracked) : NULL; tracked; tracked = next) {
        next = TAILQ_NEXT(tracked, entry);
        if (!text_equal(tracked->key, key))
            continue;
        session = redis__session_find(redis, tracked->session);
        if (session && session->tracking && !session->tracking_bcast && !(session->tracking_noloop && session == redis->current))
            tell(session, key);
        forget(redis, tracked);
    }
    if (redis->tracking_bcasts)
        note_broadcast(redis, key);
}

/* The end of a turn. */
void redis__tracking_broadcast(struct redis *redis) {
    struct session *session;

    if (!redis->broadcast_count)
        return;
    TAILQ_FOREACH(session, &redis->sessions, entry) {
        if (!session->tracking_bcast)
            continue;
        for (size_t i = 0; i < session->prefix_count; i++)
            tell_broadcast(session, session->prefixes[i]);
    }
    for (size_t i = 0; i < redis->broadcast_count; i++)
        text_free(redis->broadcasts[i].key);
    redis->broadcast_count = 0;
}

void redis__tracking_flushed(struct redis *redis) {
    struct session *session;

    redis__tracking_free(redis);
    if (redis->tracking_clients)
        TAILQ_FOREACH(session, &redis->sessions, entry) {
            if (session->tracking)
                tell(session, (struct text){NULL, 0});
        }
}

/* What it has read before stays known: if it tracks again by then, it is told. */
void redis__tracking_off(struct session *session) {
    struct redis *redis = session->redis;

    if (!session->tracking)
        return;
    redis->tracking_clients--;
    redis->tracking_bcasts -= session->tracking_bcast;
    for (size_t i = 0; i < session->prefix_count; i++)
        text_free(session->prefixes[i]);
    free(session->prefixes);
    session->prefixes = NULL;
    session->prefix_count = 0;
    session->redirect = 0;
    session->tracking = session->tracking_bcast = session->tracking_optin = session->tracking_optout = session->tracking_noloop =
        false;
}

void redis__tracking_end(struct session *session) {
    struct redis *redis = session->redis;
    struct tracked *tracked, *next;

    redis__tracking_off(session);
    for (tracked = redis->tracked_count ? TAILQ_FIRST(&redis->tracked) : NULL; tracked; tracked = next) {
        next = TAILQ_NEXT(tracked, entry);
        if (tracked->session == session->id)
            forget(redis, tracked);
    }
}

/* ---- CLIENT TRACKING ------------------------------------------------------------------------------------------------------ */

struct tracking_options {
    bool bcast, optin, optout, noloop;
    int64_t redirect;
    int prefixes;
};

static bool parse_redirect(struct ctx *ctx, int index, struct tracking_options *ret) {
    if (ret->redirect) {
        redis__reply_error(ctx, "ERR A client can only redirect to a single other client");
        return false;
    }
    if (!redis__arg_int(ctx, index, &ret->redirect))
        return false;
    if (redis__session_find(ctx->redis, (uint64_t)ret->redirect))
        return true;
    redis__reply_error(ctx, "ERR The client ID you want redirect to does not exist");
    return false;
}

static bool parse_options(struct ctx *ctx, struct tracking_options *ret) {
    for (int i = 3; i < ctx->argc; i++) {
        bool more = i + 1 < ctx->argc;

        if (redis__text_is(ctx->argv[i], "REDIRECT") && more) {
            if (!parse_redirect(ctx, ++i, ret))
                return false;
        } else if (redis__text_is(ctx->argv[i], "BCAST"))
            ret->bcast = true;
        else if (redis__text_is(ctx->argv[i], "OPTIN"))
            ret->optin = true;
        else if (redis__text_is(ctx->argv[i], "OPTOUT"))
            ret->optout = true;
        else if (redis__text_is(ctx->argv[i], "NOLOOP"))
            ret->noloop = true;
        else if (redis__text_is(ctx->argv[i], "PREFIX") && more) {
            ret->prefixes++;
            i++;
        } else {
            redis__reply_syntax(ctx);
            return false;
        }
    }
    return true;
}

static const char *objection(const struct session *session, const struct tracking_options *options) {
    if (options->prefixes && !options->bcast)
        return "ERR PREFIX option requires BCAST mode to be enabled";
    if (session->tracking && session->tracking_bcast != options->bcast)
        return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a "
               "different mode.";
    if (options->bcast && (options->optin || options->optout))
        return "ERR OPTIN and OPTOUT are not compatible with BCAST";
    if (options->optin && options->optout)
        return "ERR You can't specify both OPTIN mode and OPTOUT mode";
    if (session->tracking && ((options->optin && session->tracking_optout) || (options->optout && session->tracking_optin)))
        return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a "
               "different mode.";
    return NULL;
}

/* In the order of their names. */
static void add_prefix(struct session *session, struct text prefix) {
    size_t at = 0;

    while (at < session->prefix_count && text_compare(session->prefixes[at], prefix) < 0)
        at++;
    if (at < session->prefix_count && text_equal(session->prefixes[at], prefix))
        return;
    session->prefixes = redis_grow(session->prefixes, (session->prefix_count + 1) * sizeof *session->prefixes);
    memmove(session->prefixes + at + 1, session->prefixes + at, (session->prefix_count - at) * sizeof *session->prefixes);
    session->prefixes[at] = redis__text_copy(prefix);
    session->prefix_count++;
}

/* One begins with the other: a change would be told twice. */
static bool overlap(struct text a, struct text b) {
    return memcmp(a.s, b.s, a.n < b.n ? a.n : b.n) == 0;
}

static bool prefixes_fit(struct ctx *ctx) {
    const struct session *session = ctx->session;

    for (int i = 3; i + 1 < ctx->argc; i++) {
        if (!redis__text_is(ctx->argv[i], "PREFIX"))
            continue;
        i++;
        for (size_t j = 0; j < session->prefix_count; j++)
            if (overlap(session->prefixes[j], ctx->argv[i])) {
                redis__reply_error(
                    ctx, "ERR Prefix '%.*s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.",
                    (int)ctx->argv[i].n, ctx->argv[i].s, session->prefixes[j].s);
                return false;
            }
    }
    return true;
}

static void tracking_on(struct ctx *ctx, const struct tracking_options *options) {
    struct session *session = ctx->session;

    if (!session->tracking)
        ctx->redis->tracking_clients++;
    if (options->bcast && !session->tracking_bcast)
        ctx->redis->tracking_bcasts++;
    session->tracking = true;
    session->tracking_bcast = options->bcast;
    session->tracking_optin = options->optin;
    session->tracking_optout = options->optout;
    session->tracking_noloop = options->noloop;
    session->redirect = (uint64_t)options->redirect;
    for (int i = 3; options->bcast && i + 1 < ctx->argc; i++)
        if (redis__text_is(ctx->argv[i], "PREFIX"))
            add_prefix(session, ctx->argv[++i]);
    if (options->bcast && !options->prefixes)
        add_prefix(session, TEXT(""));
}

void redis__client_tracking(struct ctx *ctx) {
    struct tracking_options options = {0};
    const char *why;

    if (!parse_options(ctx, &options))
        return;
    if (redis__text_is(ctx->argv[2], "ON")) {
        why = objection(ctx->session, &options);
        if (why) {
            redis__reply_error(ctx, "%s", why);
            return;
        }
        if (!prefixes_fit(ctx))
            return;
        tracking_on(ctx, &options);
    } else if (redis__text_is(ctx->argv[2], "OFF")) {
        redis__tracking_off(ctx->session);
    } else {
        redis__reply_syntax(ctx);
        return;
    }
    redis__reply_status(ctx, "OK");
}

void redis__client_caching(struct ctx *ctx) {
    struct session *session = ctx->session;
    bool yes = redis__text_is(ctx->argv[2], "YES");

    if (!session->tracking)
        redis__reply_error(
            ctx, "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
    else if (!yes && !redis__text_is(ctx->argv[2], "NO"))
        redis__reply_syntax(ctx);
    else if (yes && !session->tracking_optin)
        redis__reply_error(ctx, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    else if (!yes && !session->tracking_optout)
        redis__reply_error(ctx, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    else {
        session->caching = yes;
        session->caching_no = !yes;
        redis__reply_status(ctx, "OK");
    }
}
