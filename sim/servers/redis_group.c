/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_group.c - see redis_group.h: how posts travel, and what an operator does to a group.
 */
#include <stdio.h>

#include "redis_group.h"

/* ---- Posts ---------------------------------------------------------------------------------------------------------------- */

struct slots *redis__slots_ref(struct slots *slots) {
    if (slots)
        slots->refs++;
    return slots;
}

void redis__slots_unref(struct slots *slots) {
    if (slots && --slots->refs == 0)
        free(slots);
}

struct post *redis__post_new(struct redis *from, enum post_kind kind) {
    struct post *post = redis_alloc(sizeof *post);

    post->from = from;
    post->kind = kind;
    post->node = post->other = -1;
    return post;
}

static void free_post(struct post *post) {
    if (post->deed)
        redis__deed_unref(post->deed);
    redis__slots_unref(post->slots);
    free(post);
}

void redis__touch(struct redis *redis) {
    if (redis->on_due)
        redis->on_due(redis->on_due_data);
}

static int64_t draw_delay(struct redis_group *group, const struct peer *to) {
    int64_t near = group->near_ns + to->lag_near, far = group->far_ns + to->lag_far;

    return near + (far > near ? (int64_t)(redis_draw(&group->random) % (uint64_t)(far - near)) : 0);
}

static void deliver(struct post *post, int64_t now) {
    struct peer *to = post->to->peer;
    unsigned from = post->from->peer->index;
    struct post *after;

    post->at = now + draw_delay(to->group, to);
    if (post->at <= to->last_at[from])
        post->at = to->last_at[from] + 1;
    to->last_at[from] = post->at;
    TAILQ_FOREACH_REVERSE(after, &to->inbox, posts, entry) {
        if (after->at <= post->at)
            break;
    }
    if (after)
        TAILQ_INSERT_AFTER(&to->inbox, after, post, entry);
    else
        TAILQ_INSERT_HEAD(&to->inbox, post, entry);
    redis__touch(post->to);
}

static bool is_cut(const struct post *post) {
    return post->from->peer->apart || post->to->peer->apart;
}

void redis__post_send(struct redis *to, struct post *post) {
    post->to = to;
    if (!to->up && !is_cut(post))
        free_post(post);
    else if (is_cut(post))
        TAILQ_INSERT_TAIL(&to->peer->group->held, post, entry);
    else
        deliver(post, post->from->now);
}

void redis__post_simple(struct redis *from, struct redis *to, enum post_kind kind) {
    redis__post_send(to, redis__post_new(from, kind));
}

static void drop_posts(struct posts *posts, const struct redis *to) {
    struct post *post, *next;

    for (post = TAILQ_FIRST(posts); post; post = next) {
        next = TAILQ_NEXT(post, entry);
        if (to && post->to != to)
            continue;
        TAILQ_REMOVE(posts, post, entry);
        free_post(post);
    }
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

int64_t redis__cron_period(const struct redis_group *group) {
    int64_t period = group->down_after / 10;

    return period < 20 * MS ? 20 * MS : period > 500 * MS ? 500 * MS : period;
}

int64_t redis__peer_due(const struct redis *redis) {
    const struct peer *peer = redis->peer;
    const struct post *first = TAILQ_FIRST(&peer->inbox);
    int64_t due = peer->cron_at, next = redis__replication_due(redis);

    due = next < due ? next : due;
    return first && first->at < due ? first->at : due;
}

static void hear(struct redis *redis, struct post *post) {
    if (redis->peer->sentinel)
        redis__sentinel_hear(redis, post);
    else if (post->kind >= POST_BEAT)
        redis__bus_hear(redis, post);
    else
        redis__replication_hear(redis, post);
    if (post->kind == POST_GONE && redis->peer->node)
        redis__bus_hear(redis, post);
}

void redis__peer_tick(struct redis *redis) {
    struct peer *peer = redis->peer;
    struct post *post;

    while ((post = TAILQ_FIRST(&peer->inbox)) && post->at <= redis->now && redis->up) {
        TAILQ_REMOVE(&peer->inbox, post, entry);
        hear(redis, post);
        free_post(post);
    }
    redis__replication_tick(redis);
    if (redis->now < peer->cron_at)
        return;
    peer->cron_at = redis->now + redis__cron_period(peer->group);
    if (peer->sentinel)
        redis__sentinel_cron(redis);
    if (peer->node)
        redis__bus_cron(redis);
}

void redis__peer_stopped(struct redis *redis) {
    struct redis_group *group = redis->peer->group;

    drop_posts(&redis->peer->inbox, NULL);
    drop_posts(&group->held, redis);
    for (unsigned i = 0; i < group->count; i++)
        if (group->servers[i] != redis)
            redis__post_simple(redis, group->servers[i], POST_GONE);
}

void redis__peer_started(struct redis *redis) {
    struct peer *peer = redis->peer;

    memset(peer->followers, 0, sizeof peer->followers);
    peer->cron_at = redis->now + (int64_t)(redis_draw(&peer->random) % (uint64_t)redis__cron_period(peer->group));
    if (peer->sentinel) {
        redis__sentinel_free(redis);
        redis__sentinel_init(redis);
        return;
    }
    redis__replication_init(redis, peer->primary, redis->now);
    if (peer->node)
        redis__bus_started(redis);
    redis__touch(redis);
}

bool redis__peer_is_replica(const struct redis *redis) {
    return redis->elsewhere || (redis->peer && redis->peer->primary);
}

bool redis__peer_is_sentinel(const struct redis *redis) {
    return redis->peer && redis->peer->sentinel;
}

bool redis__peer_clustered(const struct redis *redis) {
    return redis->peer && redis->peer->node;
}

/* ---- Making one ----------------------------------------------------------------------------------------------------------- */

static struct redis *make_server(struct redis_group *group, const struct redis_group_settings *settings, unsigned index) {
    struct redis_settings one = settings->server;
    struct redis *redis;
    char name[64];

    one.port += index;
    one.seed = redis_mix(one.seed, index + 1);
    snprintf(name, sizeof name, "%s-%u", index < group->server_count ? (one.name ? one.name : "redis") : "sentinel", index);
    one.name = name;
    redis = redis_new(&one);
    redis->peer = redis_alloc(sizeof *redis->peer);
    redis->peer->group = group;
    redis->peer->index = index;
    redis->peer->random = redis_mix(one.seed, 77);
    TAILQ_INIT(&redis->peer->inbox);
    return redis;
}

static void init_server(struct redis_group *group, unsigned index, int64_t now) {
    struct redis *redis = group->servers[index];

    redis__set_now(redis, now);
    redis->started = now;
    redis->peer->cron_at = now + (int64_t)(redis_draw(&redis->peer->random) % (uint64_t)redis__cron_period(group));
    if (index >= group->server_count) {
        redis__sentinel_init(redis);
        return;
    }
    redis__replication_init(redis, index < group->primaries ? NULL : group->servers[index % group->primaries], now);
    if (group->kind == REDIS_CLUSTERED)
        redis__bus_init(redis, now);
}

struct redis_group *redis_group_new(const struct redis_group_settings *settings, int64_t now) {
    struct redis_group *group = redis_alloc(sizeof *group);
    bool drawn = settings->near_ns || settings->far_ns;

    group->kind = settings->kind;
    group->primaries = settings->kind != REDIS_CLUSTERED ? 1 : settings->primaries ? settings->primaries : 3;
    group->server_count = group->primaries * (1 + settings->replicas);
    group->count = group->server_count + (settings->kind == REDIS_WATCHED ? settings->sentinels : 0);
    if (group->count > GROUP_MAX)
        abort();
    group->near_ns = drawn ? settings->near_ns : 50000;
    group->far_ns = drawn ? settings->far_ns : 300000;
    group->down_after = settings->down_after_ns ? settings->down_after_ns : 1000 * MS;
    group->failover_timeout = settings->failover_timeout_ns ? settings->failover_timeout_ns : 3000 * MS;
    group->random = redis_mix(settings->server.seed, 4711);
    snprintf(group->primary_name, sizeof group->primary_name, "%s", settings->primary_name ? settings->primary_name : "mymaster");
    TAILQ_INIT(&group->held);
    for (unsigned i = 0; i < group->count; i++)
        group->servers[i] = make_server(group, settings, i);
    for (unsigned i = 0; i < group->count; i++)
        init_server(group, i, now);
    return group;
}

void redis_group_free(struct redis_group *group) {
    if (!group)
        return;
    drop_posts(&group->held, NULL);
    for (unsigned i = 0; i < group->count; i++) {
        struct redis *redis = group->servers[i];

        drop_posts(&redis->peer->inbox, NULL);
        redis__sentinel_free(redis);
        redis__bus_free(redis);
        free(redis->peer);
        redis->peer = NULL;
        redis_free(redis);
    }
    free(group);
}

unsigned redis_group_count(const struct redis_group *group) {
    return group->count;
}

unsigned redis_group_servers(const struct redis_group *group) {
    return group->server_count;
}

struct redis *redis_group_server(struct redis_group *group, unsigned index) {
    return index < group->count ? group->servers[index] : NULL;
}

/* ---- Who is what ---------------------------------------------------------------------------------------------------------- */

bool redis_is_primary(const struct redis *redis) {
    return !redis__peer_is_replica(redis) && !redis__peer_is_sentinel(redis);
}

/* By the word of most sentinels that are up, or of most primaries of a cluster that are up. */
static bool is_acknowledged(const struct redis_group *group, unsigned index, unsigned slot) {
    unsigned yes = 0, all = 0;

    if (group->kind == REDIS_REPLICATED)
        return true;
    for (unsigned i = 0; i < group->count; i++) {
        const struct redis *redis = group->servers[i];

        if (!redis->up || (group->kind == REDIS_WATCHED ? i < group->server_count : !redis_is_primary(redis)))
            continue;
        all++;
        yes += group->kind == REDIS_WATCHED ? redis__sentinel_primary(redis) == (int)index
                                            : redis->peer->node->owner[slot] == index;
    }
    return yes * 2 > all;
}

int redis_group_primary(const struct redis_group *group, unsigned slot) {
    for (unsigned i = 0; i < group->server_count; i++)
        if (group->servers[i]->up && redis_is_primary(group->servers[i]) && is_acknowledged(group, i, slot))
            return (int)i;
    return -1;
}

/* All nodes see the same: everybody is there, and has the same slots for everybody. */
static bool nodes_agree(const struct redis_group *group) {
    const struct node *first = group->servers[0]->peer->node;

    for (unsigned i = 0; i < group->server_count; i++) {
        const struct node *node = group->servers[i]->peer->node;

        if (!node->ok || node->moving_count || memcmp(node->owner, first->owner, sizeof node->owner) != 0)
            return false;
        for (unsigned j = 0; j < group->server_count; j++)
            if (node->views[j].missed || node->views[j].failed || node->views[j].primary != redis_is_primary(group->servers[j]))
                return false;
    }
    return true;
}

/* By the latest of their clocks: a sentinel that was stopped, and has not looked since, is about to miss everybody. */
static int64_t latest(const struct redis_group *group) {
    int64_t now = 0;

    for (unsigned i = 0; i < group->count; i++)
        now = group->servers[i]->now > now ? group->servers[i]->now : now;
    return now;
}

static bool sentinels_agree(const struct redis_group *group) {
    int primary = redis_group_primary(group, 0);

    for (unsigned i = group->server_count; i < group->count; i++)
        if (redis__sentinel_primary(group->servers[i]) != primary || !redis__sentinel_calm(group->servers[i], latest(group)))
            return false;
    return true;
}

bool redis_group_whole(const struct redis_group *group) {
    unsigned primaries = 0;

    for (unsigned i = 0; i < group->count; i++) {
        const struct redis *redis = group->servers[i];

        if (!redis->up || redis->peer->apart)
            return false;
        if (i >= group->server_count)
            continue;
        primaries += redis_is_primary(redis);
        if (redis__peer_is_replica(redis) && !redis__in_step(redis))
            return false;
    }
    if (primaries != group->primaries)
        return false;
    return group->kind == REDIS_CLUSTERED ? nodes_agree(group) : sentinels_agree(group);
}

/* ---- The operator --------------------------------------------------------------------------------------------------------- */

void redis_set_lag(struct redis *redis, int64_t near_ns, int64_t far_ns) {
    redis->peer->lag_near = near_ns;
    redis->peer->lag_far = far_ns;
}

void redis_part(struct redis *redis, int64_t now, bool apart) {
    struct redis_group *group = redis->peer->group;
    struct post *post, *next;

    redis->peer->apart = apart;
    if (apart)
        return;
    for (post = TAILQ_FIRST(&group->held); post; post = next) {
        next = TAILQ_NEXT(post, entry);
        if (is_cut(post))
            continue;
        TAILQ_REMOVE(&group->held, post, entry);
        if (post->to->up)
            deliver(post, now);
        else
            free_post(post);
    }
}

void redis_replicate(struct redis *redis, int64_t now, struct redis *primary) {
    redis__set_now(redis, now);
    if (!primary)
        redis__become_primary(redis);
    else if (primary != redis)
        redis__become_replica(redis, primary);
    redis__touch(redis);
}

void redis_promote(struct redis *redis, int64_t now) {
    redis__set_now(redis, now);
    if (!redis__peer_is_replica(redis))
        return;
    if (redis->peer->node)
        redis__bus_take_over(redis);
    else
        redis__become_primary(redis);
    redis__touch(redis);
}
