/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_sentinel.c - sentinels: they watch a primary, agree that it is down, and let one of them make a replica the primary.
 *
 *     CALM --(down for a quorum; after a random while)--> ELECTION --(most vote for it)--> PROMOTING --(it says it is a primary)--> CALM
 *                                                            `-- time is up --> CALM          `-- time is up --> CALM
 *
 * Each has a vote in an epoch, and gives it to who asks first. A failover has an epoch of its own, by which the word of the one who did
 * it wins over older words: the others hear it with the next hello (two seconds at most), and name the old primary until then. A
 * server that calls itself a primary, and is none by the word of the sentinels, is told to be a replica after a while; its clients are
 * disconnected.
 */
#include <stdio.h>

#include "redis_group.h"

enum { PING_MS = 1000, HELLO_MS = 2000, ASK_MS = 1000, DEMOTE_MS = 8000, DESYNC_MS = 1000, FIRST_WORD_MS = 10000 };

/* What a sentinel knows of another server or sentinel. */
struct watched {
    int64_t heard_at;
    bool primary;          /* by its own word */
    int64_t primary_since; /* ... for so long against ours */
    int reported;          /* whose replica it says it is; -1 */
    bool linked;
    int64_t offset;
    bool says_down; /* a sentinel: the primary is */
    int64_t said_at;
    int vote;
    uint64_t vote_epoch;
};

enum work { CALM, ELECTION, PROMOTING };

struct sentinel {
    struct watched watched[GROUP_MAX];
    int primary;
    uint64_t epoch, config_epoch;
    int vote;
    uint64_t vote_epoch;
    int64_t ping_at, hello_at, ask_at;
    enum work work;
    bool forced; /* SENTINEL FAILOVER */
    int64_t work_until, next_try;
    int chosen;
};

void redis__sentinel_init(struct redis *redis) {
    struct peer *peer = redis->peer;
    struct sentinel *sentinel = redis_alloc(sizeof *sentinel);
    int64_t jitter = (int64_t)(redis_draw(&peer->random) % (500 * MS));
    int primary = 0;

    for (unsigned i = 0; i < peer->group->count; i++) {
        struct redis *other = peer->group->servers[i];

        sentinel->watched[i] = (struct watched){.heard_at = redis->now, .reported = -1, .vote = -1};
        if (i >= peer->group->server_count && other != redis && other->peer->sentinel &&
            other->peer->sentinel->config_epoch >= sentinel->config_epoch) { /* its file knew */
            sentinel->config_epoch = other->peer->sentinel->config_epoch;
            primary = other->peer->sentinel->primary;
        }
    }
    sentinel->epoch = sentinel->config_epoch;
    sentinel->primary = primary;
    sentinel->vote = sentinel->chosen = -1;
    sentinel->ping_at = redis->now;
    sentinel->hello_at = redis->now + jitter;
    sentinel->ask_at = redis->now;
    peer->sentinel = sentinel;
}

void redis__sentinel_free(struct redis *redis) {
    free(redis->peer->sentinel);
    redis->peer->sentinel = NULL;
}

int redis__sentinel_primary(const struct redis *redis) {
    return redis->peer->sentinel->primary;
}

/* ---- Little things -------------------------------------------------------------------------------------------------------- */

static bool is_down(const struct redis *redis, unsigned index) {
    return redis->now - redis->peer->sentinel->watched[index].heard_at > redis->peer->group->down_after;
}

bool redis__sentinel_calm(const struct redis *redis, int64_t now) {
    const struct sentinel *sentinel = redis->peer->sentinel;
    const struct redis_group *group = redis->peer->group;

    for (unsigned i = 0; i < group->server_count; i++)
        if (now - sentinel->watched[i].heard_at > group->down_after ||
            sentinel->watched[i].primary != ((int)i == sentinel->primary))
            return false;
    return sentinel->work == CALM;
}

static unsigned sentinel_count(const struct redis_group *group) {
    return group->count - group->server_count;
}

static unsigned quorum(const struct redis_group *group) {
    return sentinel_count(group) / 2 + 1;
}

/* How many, itself included, say that the primary is down. */
static unsigned count_down(const struct redis *redis) {
    const struct redis_group *group = redis->peer->group;
    const struct sentinel *sentinel = redis->peer->sentinel;
    unsigned count = 1;

    for (unsigned i = group->server_count; i < group->count; i++)
        count += i != redis->peer->index && sentinel->watched[i].says_down &&
                 redis->now - sentinel->watched[i].said_at < 5 * (int64_t)ASK_MS * MS;
    return count;
}

static void announce(struct redis *redis, int from, int to) {
    const struct redis_group *group = redis->peer->group;
    const struct redis *old = group->servers[from], *new = group->servers[to];
    char text[256];

    snprintf(text, sizeof text, "%s %s %u %s %u", group->primary_name, old->host, old->port, new->host, new->port);
    redis__publish(redis, TEXT("+switch-master"), (struct text){text, strlen(text)}, false);
}

static void switch_primary(struct redis *redis, int to, uint64_t config_epoch) {
    struct sentinel *sentinel = redis->peer->sentinel;
    int from = sentinel->primary;

    sentinel->config_epoch = config_epoch;
    sentinel->work = CALM;
    if (from == to)
        return;
    sentinel->primary = to;
    for (unsigned i = 0; i < redis->peer->group->server_count; i++)
        sentinel->watched[i].primary_since = redis->now;
    sentinel->watched[to].heard_at = redis->now;
    announce(redis, from, to);
}

/* ---- Posts ---------------------------------------------------------------------------------------------------------------- */

static void say_hello(struct redis *redis) {
    struct redis_group *group = redis->peer->group;
    struct sentinel *sentinel = redis->peer->sentinel;

    sentinel->hello_at = redis->now + (int64_t)HELLO_MS * MS;
    for (unsigned i = group->server_count; i < group->count; i++) {
        struct post *post;

        if (i == redis->peer->index)
            continue;
        post = redis__post_new(redis, POST_HELLO);
        post->epoch = sentinel->epoch;
        post->config_epoch = sentinel->config_epoch;
        post->node = sentinel->primary;
        redis__post_send(group->servers[i], post);
    }
}

static void ask_others(struct redis *redis) {
    struct redis_group *group = redis->peer->group;
    struct sentinel *sentinel = redis->peer->sentinel;

    sentinel->ask_at = redis->now + (int64_t)ASK_MS * MS;
    for (unsigned i = group->server_count; i < group->count; i++) {
        struct post *post;

        if (i == redis->peer->index)
            continue;
        post = redis__post_new(redis, POST_ASK);
        post->epoch = sentinel->epoch;
        post->node = sentinel->primary;
        post->flag = sentinel->work == ELECTION;
        redis__post_send(group->servers[i], post);
    }
}

static void tell_to_follow(struct redis *redis, int server, int primary) {
    struct post *post = redis__post_new(redis, POST_OBEY);

    post->node = primary;
    redis__post_send(redis->peer->group->servers[server], post);
}

static int vote_for(struct redis *redis, int candidate, uint64_t epoch) {
    struct sentinel *sentinel = redis->peer->sentinel;

    if (epoch > sentinel->epoch)
        sentinel->epoch = epoch;
    if (sentinel->vote_epoch < epoch && sentinel->epoch <= epoch) {
        sentinel->vote = candidate;
        sentinel->vote_epoch = epoch;
        if (candidate != (int)redis->peer->index) /* let that one try first */
            sentinel->next_try = redis->now + 2 * redis->peer->group->failover_timeout +
                                 (int64_t)(redis_draw(&redis->peer->random) % ((uint64_t)DESYNC_MS * MS));
    }
    return sentinel->vote;
}

static void answer(struct redis *redis, const struct post *asked) {
    struct sentinel *sentinel = redis->peer->sentinel;
    struct post *post = redis__post_new(redis, POST_ANSWER);

    post->flag = asked->node == sentinel->primary && is_down(redis, (unsigned)sentinel->primary);
    if (asked->flag)
        vote_for(redis, (int)asked->from->peer->index, asked->epoch);
    post->node = sentinel->vote;
    post->epoch = sentinel->vote_epoch;
    redis__post_send(asked->from, post);
}

static void take_answer(struct redis *redis, const struct post *post) {
    struct watched *other = &redis->peer->sentinel->watched[post->from->peer->index];

    other->says_down = post->flag;
    other->said_at = redis->now;
    other->vote = post->node;
    other->vote_epoch = post->epoch;
}

static void take_pong(struct redis *redis, const struct post *post) {
    struct sentinel *sentinel = redis->peer->sentinel;
    unsigned index = post->from->peer->index;
    struct watched *other = &sentinel->watched[index];

    other->heard_at = redis->now;
    if (post->flag != other->primary)
        other->primary_since = redis->now;
    other->primary = post->flag;
    other->reported = post->node;
    other->linked = post->other == 1;
    other->offset = post->offset;
}

void redis__sentinel_hear(struct redis *redis, struct post *post) {
    struct sentinel *sentinel = redis->peer->sentinel;

    switch (post->kind) {
    case POST_PONG:
        take_pong(redis, post);
        redis__sentinel_cron(redis);
        break;
    case POST_ASK:
        answer(redis, post);
        break;
    case POST_ANSWER:
        take_answer(redis, post);
        redis__sentinel_cron(redis);
        break;
    case POST_HELLO:
        sentinel->watched[post->from->peer->index].heard_at = redis->now;
        if (post->epoch > sentinel->epoch)
            sentinel->epoch = post->epoch;
        if (post->config_epoch > sentinel->config_epoch)
            switch_primary(redis, post->node, post->config_epoch);
        break;
    default:
        break;
    }
}

/* ---- A server's side ------------------------------------------------------------------------------------------------------ */

void redis__answer_ping(struct redis *redis, const struct post *ping) {
    struct post *post = redis__post_new(redis, POST_PONG);

    post->flag = redis_is_primary(redis);
    post->node = redis->peer->primary ? (int)redis->peer->primary->peer->index : -1;
    post->other = redis->peer->linked;
    post->offset = redis->peer->offset;
    redis__post_send(ping->from, post);
}

void redis__obey(struct redis *redis, const struct post *post) {
    struct session *session;

    if (post->node < 0)
        redis__become_primary(redis);
    else if (post->node != (int)redis->peer->index)
        redis__become_replica(redis, redis->peer->group->servers[post->node]);
    TAILQ_FOREACH(session, &redis->sessions, entry)
    redis__session_close_soon(session);
}

/* ---- Failover ------------------------------------------------------------------------------------------------------------- */

/* The replica that is there and has most; -1: none. */
static int choose(const struct redis *redis) {
    const struct sentinel *sentinel = redis->peer->sentinel;
    const struct redis_group *group = redis->peer->group;
    int best = -1;

    for (unsigned i = 0; i < group->server_count; i++) {
        const struct watched *it = &sentinel->watched[i];

        if ((int)i == sentinel->primary || it->primary || redis->now - it->heard_at > 5 * (int64_t)PING_MS * MS ||
            is_down(redis, i))
            continue;
        if (best < 0 || it->offset > sentinel->watched[best].offset)
            best = (int)i;
    }
    return best;
}

static void begin_promotion(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;

    sentinel->chosen = choose(redis);
    if (sentinel->chosen < 0) {
        sentinel->work = CALM;
        return;
    }
    sentinel->work = PROMOTING;
    sentinel->work_until = redis->now + redis->peer->group->failover_timeout;
    tell_to_follow(redis, sentinel->chosen, -1);
}

static void begin_election(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;
    int64_t patience = redis->peer->group->failover_timeout, most = 10000 * (int64_t)MS;

    sentinel->work = ELECTION;
    sentinel->forced = false;
    sentinel->epoch++;
    vote_for(redis, (int)redis->peer->index, sentinel->epoch);
    sentinel->work_until = redis->now + (patience < most ? patience : most);
    sentinel->next_try = redis->now + 2 * patience + (int64_t)(redis_draw(&redis->peer->random) % ((uint64_t)DESYNC_MS * MS));
    ask_others(redis);
}

static void look_at_election(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;
    const struct redis_group *group = redis->peer->group;
    unsigned votes = 0;

    for (unsigned i = group->server_count; i < group->count; i++) {
        if (i == redis->peer->index)
            votes += sentinel->vote == (int)i && sentinel->vote_epoch == sentinel->epoch;
        else
            votes += sentinel->watched[i].vote == (int)redis->peer->index && sentinel->watched[i].vote_epoch == sentinel->epoch;
    }
    if (votes >= quorum(group))
        begin_promotion(redis);
    else if (redis->now >= sentinel->work_until)
        sentinel->work = CALM;
}

/* It has said that it is a primary: now all others are told. */
static void look_at_promotion(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;
    const struct redis_group *group = redis->peer->group;
    int chosen = sentinel->chosen, old = sentinel->primary;

    if (!sentinel->watched[chosen].primary) {
        if (redis->now >= sentinel->work_until)
            sentinel->work = CALM;
        return;
    }
    switch_primary(redis, chosen, sentinel->epoch);
    for (unsigned i = 0; i < group->server_count; i++)
        if ((int)i != chosen && (int)i != old && !is_down(redis, i))
            tell_to_follow(redis, (int)i, chosen);
    if (sentinel->forced)
        tell_to_follow(redis, old, chosen);
    sentinel->hello_at = redis->now;
}

/* Who takes itself for a primary, or follows another one, for too long. */
static void correct_servers(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;

    for (unsigned i = 0; i < redis->peer->group->server_count; i++) {
        struct watched *it = &sentinel->watched[i];
        bool right = it->primary ? (int)i == sentinel->primary : it->reported == sentinel->primary;

        if (right || (int)i == sentinel->primary || is_down(redis, i) || !sentinel->watched[sentinel->primary].primary ||
            is_down(redis, (unsigned)sentinel->primary))
            it->primary_since = redis->now;
        else if (redis->now - it->primary_since > (int64_t)DEMOTE_MS * MS) {
            it->primary_since = redis->now;
            tell_to_follow(redis, (int)i, sentinel->primary);
        }
    }
}

void redis__sentinel_cron(struct redis *redis) {
    struct sentinel *sentinel = redis->peer->sentinel;
    struct redis_group *group = redis->peer->group;
    bool down = is_down(redis, (unsigned)sentinel->primary);

    if (redis->now >= sentinel->ping_at) {
        int64_t period = group->down_after / 2 < (int64_t)PING_MS * MS ? group->down_after / 2 : (int64_t)PING_MS * MS;

        sentinel->ping_at = redis->now + (sentinel->work == PROMOTING ? period / 4 : period);
        for (unsigned i = 0; i < group->server_count; i++)
            redis__post_simple(redis, group->servers[i], POST_PING);
    }
    if (down && redis->now >= sentinel->ask_at)
        ask_others(redis);
    if (sentinel->work == ELECTION)
        look_at_election(redis);
    else if (sentinel->work == PROMOTING)
        look_at_promotion(redis);
    else if (down && count_down(redis) >= quorum(group) && redis->now >= sentinel->next_try)
        begin_election(redis);
    correct_servers(redis);
    if (redis->now >= sentinel->hello_at)
        say_hello(redis);
}

/* ---- SENTINEL ------------------------------------------------------------------------------------------------------------- */

static void pair(struct ctx *ctx, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void pair(struct ctx *ctx, const char *name, const char *format, ...) {
    char text[128];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redis__reply_string(ctx, name);
    redis__reply_string(ctx, text);
}

static void flags_of(struct ctx *ctx, unsigned index, char *ret, size_t size) {
    const struct redis *redis = ctx->redis;
    const struct sentinel *sentinel = redis->peer->sentinel;
    bool primary = (int)index == sentinel->primary, down = is_down(redis, index);
    const char *what = index >= redis->peer->group->server_count ? "sentinel" : primary ? "master" : "slave";

    snprintf(ret, size, "%s%s%s%s%s", down ? "s_down," : "",
             down && primary && count_down(redis) >= quorum(redis->peer->group) ? "o_down," : "", what, down ? ",disconnected" : "",
             primary && sentinel->work != CALM ? ",failover_in_progress" : "");
}

/* What is said of every one. `pairs` follow of its own kind. */
static void reply_instance(struct ctx *ctx, unsigned index, int pairs) {
    const struct redis *redis = ctx->redis, *it = redis->peer->group->servers[index];
    const struct watched *watched = &redis->peer->sentinel->watched[index];
    long long ago = (long long)((redis->now - watched->heard_at) / MS);
    char flags[96];

    flags_of(ctx, index, flags, sizeof flags);
    redis__reply_array(ctx, (14 + pairs) * 2);
    if ((int)index == redis->peer->sentinel->primary)
        pair(ctx, "name", "%s", redis->peer->group->primary_name);
    else if (index >= redis->peer->group->server_count)
        pair(ctx, "name", "%s", it->run_id);
    else
        pair(ctx, "name", "%s:%u", it->host, it->port);
    pair(ctx, "ip", "%s", it->host);
    pair(ctx, "port", "%u", it->port);
    pair(ctx, "runid", "%s", it->run_id);
    pair(ctx, "flags", "%s", flags);
    pair(ctx, "link-pending-commands", "0");
    pair(ctx, "link-refcount", "1");
    pair(ctx, "last-ping-sent", "0");
    pair(ctx, "last-ok-ping-reply", "%lld", ago);
    pair(ctx, "last-ping-reply", "%lld", ago);
    pair(ctx, "down-after-milliseconds", "%lld", (long long)(redis->peer->group->down_after / MS));
    if (index >= redis->peer->group->server_count) {
        pair(ctx, "last-hello-message", "%lld", ago);
        pair(ctx, "voted-leader", "?");
        pair(ctx, "voted-leader-epoch", "0");
        return;
    }
    pair(ctx, "info-refresh", "%lld", ago);
    pair(ctx, "role-reported", "%s", watched->primary ? "master" : "slave");
    pair(ctx, "role-reported-time", "0");
}

static void reply_primary(struct ctx *ctx) {
    const struct redis_group *group = ctx->redis->peer->group;
    const struct sentinel *sentinel = ctx->redis->peer->sentinel;

    reply_instance(ctx, (unsigned)sentinel->primary, 6);
    pair(ctx, "config-epoch", "%llu", (unsigned long long)sentinel->config_epoch);
    pair(ctx, "num-slaves", "%u", group->server_count - 1);
    pair(ctx, "num-other-sentinels", "%u", sentinel_count(group) - 1);
    pair(ctx, "quorum", "%u", quorum(group));
    pair(ctx, "failover-timeout", "%lld", (long long)(group->failover_timeout / MS));
    pair(ctx, "parallel-syncs", "1");
}

static void reply_replicas(struct ctx *ctx) {
    const struct redis_group *group = ctx->redis->peer->group;
    const struct sentinel *sentinel = ctx->redis->peer->sentinel;
    const struct redis *primary = group->servers[sentinel->primary];

    redis__reply_array(ctx, group->server_count - 1);
    for (unsigned i = 0; i < group->server_count; i++) {
        if ((int)i == sentinel->primary)
            continue;
        reply_instance(ctx, i, 7);
        pair(ctx, "master-link-down-time", "0");
        pair(ctx, "master-link-status", "%s", sentinel->watched[i].linked ? "ok" : "err");
        pair(ctx, "master-host", "%s", primary->host);
        pair(ctx, "master-port", "%u", primary->port);
        pair(ctx, "slave-priority", "100");
        pair(ctx, "slave-repl-offset", "%lld", (long long)sentinel->watched[i].offset);
        pair(ctx, "replica-announced", "1");
    }
}

static void reply_sentinels(struct ctx *ctx) {
    const struct redis_group *group = ctx->redis->peer->group;

    redis__reply_array(ctx, sentinel_count(group) - 1);
    for (unsigned i = group->server_count; i < group->count; i++)
        if (i != ctx->redis->peer->index)
            reply_instance(ctx, i, 0);
}

static void reply_address(struct ctx *ctx, bool known) {
    const struct sentinel *sentinel = ctx->redis->peer->sentinel;
    const struct redis *primary = ctx->redis->peer->group->servers[sentinel->primary];

    if (!known) {
        redis__reply_nil_array(ctx);
        return;
    }
    redis__reply_array(ctx, 2);
    redis__reply_string(ctx, primary->host);
    redis__reply_number(ctx, primary->port);
}

static void force_failover(struct ctx *ctx) {
    struct sentinel *sentinel = ctx->redis->peer->sentinel;

    if (sentinel->work != CALM) {
        redis__reply_error(ctx, "INPROG Failover already in progress");
        return;
    }
    if (choose(ctx->redis) < 0) {
        redis__reply_error(ctx, "NOGOODSLAVE No suitable replica to promote");
        return;
    }
    sentinel->epoch++;
    begin_promotion(ctx->redis);
    sentinel->forced = true;
    redis__reply_status(ctx, "OK");
}

void redis__command_sentinel(struct ctx *ctx) {
    const char *name = ctx->redis->peer->group->primary_name;
    struct text word = ctx->argv[1];
    bool known = ctx->argc > 2 && ctx->argv[2].n == strlen(name) && memcmp(ctx->argv[2].s, name, ctx->argv[2].n) == 0;

    if (redis__text_is(word, "get-master-addr-by-name"))
        reply_address(ctx, known);
    else if (redis__text_is(word, "myid"))
        redis__reply_string(ctx, ctx->redis->run_id);
    else if (redis__text_is(word, "masters")) {
        redis__reply_array(ctx, 1);
        reply_primary(ctx);
    } else if (!known)
        redis__reply_error(ctx, "ERR No such master with that name");
    else if (redis__text_is(word, "master"))
        reply_primary(ctx);
    else if (redis__text_is(word, "replicas") || redis__text_is(word, "slaves"))
        reply_replicas(ctx);
    else if (redis__text_is(word, "sentinels"))
        reply_sentinels(ctx);
    else
        force_failover(ctx);
}

void redis__peer_info_sentinel(struct redis *redis, struct buffer *text) {
    const struct redis_group *group = redis->peer->group;
    const struct redis *primary = group->servers[redis->peer->sentinel->primary];
    char line[256];
    int n = snprintf(line, sizeof line,
                     "\r\n# Sentinel\r\nsentinel_masters:1\r\nmaster0:name=%s,status=%s,address=%s:%u,slaves=%u,sentinels=%u\r\n",
                     group->primary_name, is_down(redis, (unsigned)redis->peer->sentinel->primary) ? "sdown" : "ok", primary->host,
                     primary->port, group->server_count - 1, sentinel_count(group));

    redis__buffer_add(text, line, (size_t)n);
}
