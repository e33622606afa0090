/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_bus.c - the nodes of a cluster among each other: who is there, who has which slots, and who follows a primary that is gone.
 *
 * Every node tells every other one, a few times within the time after which it would be missed, what it is, which slots it has and by which
 * epoch, and whom it misses itself. Of two that claim a slot the higher epoch wins; who has lost its last slot becomes the replica of the
 * winner. When most primaries miss one it has failed: a replica of it asks the primaries for their votes in a new epoch, and takes
 * its slots with those of most. A primary that most others can't be seen from stops serving.
 */
#include <stdio.h>

#include "redis_group.h"

enum { ELECTION_MS = 500, REJOIN_MS = 500, REJOIN_MOST_MS = 5000, START_MS = 2000 };

static const struct redis_group *group_of(const struct redis *redis) {
    return redis->peer->group;
}

static struct node *node_of(const struct redis *redis) {
    return redis->peer->node;
}

static struct view *own_view(const struct redis *redis) {
    return &node_of(redis)->views[redis->peer->index];
}

/* ---- Slots ---------------------------------------------------------------------------------------------------------------- */

/* What it has, as others are told. */
static struct slots *own_slots(struct redis *redis) {
    struct node *node = node_of(redis);

    if (!node->own) {
        node->own = redis_alloc(sizeof *node->own);
        node->own->refs = 1;
        for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++)
            if (node->owner[slot] == redis->peer->index) {
                node->own->bits[slot / 8] |= (unsigned char)(1 << slot % 8);
                node->own->count++;
            }
    }
    return node->own;
}

static void forget_own(struct node *node) {
    redis__slots_unref(node->own);
    node->own = NULL;
}

struct moving *redis__moving_find(struct node *node, unsigned slot, bool importing) {
    for (size_t i = 0; i < node->moving_count; i++)
        if (node->moving[i].slot == slot && node->moving[i].importing == importing)
            return &node->moving[i];
    return NULL;
}

static void stop_moving(struct node *node, unsigned slot, bool importing) {
    struct moving *moving = redis__moving_find(node, slot, importing);

    if (moving)
        *moving = node->moving[--node->moving_count];
}

void redis__bus_set_slot(struct redis *redis, unsigned slot, unsigned owner) {
    struct node *node = node_of(redis);
    bool was_own = node->owner[slot] == redis->peer->index;

    if (node->owner[slot] == owner)
        return;
    if (node->owner[slot] != NO_NODE)
        node->views[node->owner[slot]].disputed = true; /* it may still claim it */
    node->counts[node->owner[slot]]--;
    node->counts[owner]++;
    node->owner[slot] = (unsigned char)owner;
    if (was_own || owner == redis->peer->index)
        forget_own(node);
    if (was_own) {
        stop_moving(node, slot, false);
        redis__unsubscribe_slot(redis, slot);
    }
    if (owner == redis->peer->index)
        stop_moving(node, slot, true);
}

/* Keys of slots that it has no more are of no use, and would be a mistake if it had the slots again. */
static void drop_foreign_keys(struct redis *redis) {
    struct key *key, *next;

    if (!redis->dbs[0].count)
        return;
    for (key = TAILQ_FIRST(&redis->dbs[0].keys); key; key = next) {
        next = TAILQ_NEXT(key, entry);
        if (node_of(redis)->owner[redis_slot_of(key->name.s, key->name.n)] != redis->peer->index)
            redis__store_remove(redis, 0, key);
    }
    redis__store_commit(redis);
}

static unsigned count_slots(const struct node *node, unsigned owner) {
    return node->counts[owner];
}

/* ---- Who is there --------------------------------------------------------------------------------------------------------- */

/* Primaries that have slots, and those of them that are seen. */
static void count_primaries(const struct redis *redis, unsigned *all, unsigned *seen) {
    const struct node *node = node_of(redis);

    *all = *seen = 0;
    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        if (node->counts[i] && node->views[i].primary) {
            ++*all;
            *seen += !node->views[i].missed && !node->views[i].failed;
        }
}

static bool all_covered(const struct redis *redis) {
    const struct node *node = node_of(redis);

    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        if (node->counts[i] && node->views[i].failed)
            return false;
    return node->counts[NO_NODE] == 0;
}

static int64_t rejoin_delay(const struct redis *redis) {
    int64_t delay = group_of(redis)->down_after;

    return delay < REJOIN_MS * MS ? REJOIN_MS * MS : delay > REJOIN_MOST_MS * MS ? REJOIN_MOST_MS * MS : delay;
}

void redis__bus_look(struct redis *redis) {
    struct node *node = node_of(redis);
    unsigned all, seen;
    bool covered = all_covered(redis);

    count_primaries(redis, &all, &seen);
    if (seen * 2 <= all) {
        if (redis_is_primary(redis)) /* not at once when it sees them again: its slots may be another's by then */
            node->ok_since_allowed = redis->now + rejoin_delay(redis);
        node->ok = false;
        return;
    }
    if (!covered)
        node->ok = false;
    else if (redis->now >= node->ok_since_allowed || !redis_is_primary(redis))
        node->ok = true;
}

static void declare_failed(struct redis *redis, unsigned index) {
    struct view *view = &node_of(redis)->views[index];

    if (view->failed)
        return;
    view->failed = true;
    view->failed_at = redis->now;
    for (unsigned i = 0; i < group_of(redis)->server_count; i++) {
        struct post *post;

        if (i == redis->peer->index || i == index)
            continue;
        post = redis__post_new(redis, POST_FAIL);
        post->node = (int)index;
        redis__post_send(group_of(redis)->servers[i], post);
    }
}

/* Do most primaries miss it, as far as this one knows? */
static void look_at(struct redis *redis, unsigned index) {
    struct node *node = node_of(redis);
    struct view *view = &node->views[index];
    unsigned all, seen, reports = redis_is_primary(redis);

    if (!view->missed || view->failed)
        return;
    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        if ((view->reports >> i & 1) && node->views[i].primary &&
            redis->now - view->reported_at[i] < 2 * group_of(redis)->down_after)
            reports++;
    count_primaries(redis, &all, &seen);
    if (reports * 2 > all)
        declare_failed(redis, index);
}

static void look_around(struct redis *redis) {
    struct node *node = node_of(redis);

    for (unsigned i = 0; i < group_of(redis)->server_count; i++) {
        if (i == redis->peer->index)
            continue;
        if (redis->now - node->views[i].heard_at > group_of(redis)->down_after)
            node->views[i].missed = true;
        look_at(redis, i);
    }
}

/* It is there after all. A primary that was taken for failed counts again only when nobody has taken its slots meanwhile. */
static void see(struct redis *redis, unsigned index) {
    struct view *view = &node_of(redis)->views[index];

    view->heard_at = redis->now;
    view->missed = false;
    if (view->failed && (!view->primary || count_slots(node_of(redis), index) == 0 ||
                         redis->now - view->failed_at > 2 * group_of(redis)->down_after))
        view->failed = false;
}

/* ---- Saying --------------------------------------------------------------------------------------------------------------- */

/* `asks`: it wants to hear at once what the other one knows. */
static void beat(struct redis *redis, unsigned to, bool asks) {
    struct node *node = node_of(redis);
    struct post *post = redis__post_new(redis, POST_BEAT);

    post->other = asks;
    post->epoch = node->epoch;
    post->config_epoch = own_view(redis)->epoch;
    post->flag = redis_is_primary(redis);
    post->node = redis->peer->primary ? (int)redis->peer->primary->peer->index : -1;
    post->offset = redis->peer->offset;
    post->slots = redis__slots_ref(own_slots(redis));
    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        post->mask |= (uint32_t)(node->views[i].missed || node->views[i].failed) << i;
    redis__post_send(group_of(redis)->servers[to], post);
}

void redis__bus_beat_all(struct redis *redis) {
    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        if (i != redis->peer->index)
            beat(redis, i, node_of(redis)->fresh || node_of(redis)->views[i].missed);
    node_of(redis)->fresh = false;
    node_of(redis)->beat_at = redis->now + group_of(redis)->down_after * 2 / 5;
}

void redis__bus_bump(struct redis *redis) {
    struct node *node = node_of(redis);
    uint64_t most = node->epoch;

    for (unsigned i = 0; i < group_of(redis)->server_count; i++)
        most = node->views[i].epoch > most ? node->views[i].epoch : most;
    node->epoch = most + 1;
    own_view(redis)->epoch = node->epoch;
}

/* ---- Hearing -------------------------------------------------------------------------------------------------------------- */

/* It has lost its last slot to that one, or its primary has. */
static void yield_to(struct redis *redis, unsigned winner) {
    struct view *own = own_view(redis);

    own->primary = false;
    own->primary_index = (int)winner;
    node_of(redis)->moving_count = 0;
    redis__become_replica(redis, group_of(redis)->servers[winner]);
}

/* Somebody's claim to slots, by its epoch: slots are taken from a node whose epoch is lower. */
static void take_claim(struct redis *redis, unsigned claimer, uint64_t epoch, const struct slots *slots) {
    struct node *node = node_of(redis);
    int followed = redis->peer->primary ? (int)redis->peer->primary->peer->index : (int)redis->peer->index;
    bool lost = false;

    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++) {
        unsigned owner = node->owner[slot];

        if (!(slots->bits[slot / 8] >> slot % 8 & 1) || owner == claimer || redis__moving_find(node, slot, true))
            continue;
        if (owner != NO_NODE && node->views[owner].epoch >= epoch)
            continue;
        lost |= (int)owner == followed;
        redis__bus_set_slot(redis, slot, claimer);
    }
    if (!lost || followed == (int)claimer)
        return;
    if (count_slots(node, (unsigned)followed) == 0)
        yield_to(redis, claimer);
    else if (redis_is_primary(redis))
        drop_foreign_keys(redis);
}

/* It claims what a higher epoch has given to another: it does not know yet. False: it does not. */
static bool correct(struct redis *redis, struct redis *claimer, uint64_t epoch, const struct slots *slots) {
    struct node *node = node_of(redis);

    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++) {
        unsigned owner = node->owner[slot];
        struct post *post;

        if (!(slots->bits[slot / 8] >> slot % 8 & 1) || owner == claimer->peer->index || owner == NO_NODE ||
            node->views[owner].epoch <= epoch || !node->views[owner].said)
            continue;
        post = redis__post_new(redis, POST_UPDATE);
        post->node = (int)owner;
        post->config_epoch = node->views[owner].epoch;
        post->slots = redis__slots_ref(owner == redis->peer->index ? own_slots(redis) : node->views[owner].said);
        redis__post_send(claimer, post);
        return true;
    }
    return false;
}

static void take_reports(struct redis *redis, unsigned from, uint32_t mask) {
    struct node *node = node_of(redis);

    for (unsigned i = 0; i < group_of(redis)->server_count; i++) {
        struct view *view = &node->views[i];

        view->reports = (view->reports & ~(UINT32_C(1) << from)) | (mask >> i & 1) << from;
        if (mask >> i & 1)
            view->reported_at[from] = redis->now;
    }
}

static void take_beat(struct redis *redis, struct post *post) {
    struct node *node = node_of(redis);
    unsigned from = post->from->peer->index;
    struct view *view = &node->views[from];
    bool fresh;

    node->epoch = post->epoch > node->epoch ? post->epoch : node->epoch;
    view->primary = post->flag;
    view->primary_index = post->node;
    view->offset = post->offset;
    see(redis, from);
    take_reports(redis, from, post->mask);
    if (post->other == 1)
        beat(redis, from, false);
    if (!post->flag)
        return;
    view->epoch = post->config_epoch > view->epoch ? post->config_epoch : view->epoch;
    /* Two of the same epoch can't decide anything: one of them takes a new one. */
    if (redis_is_primary(redis) && view->epoch == own_view(redis)->epoch && from > redis->peer->index)
        redis__bus_bump(redis);
    fresh = view->said != post->slots || view->said_epoch != post->config_epoch;
    redis__slots_unref(view->said);
    view->said = redis__slots_ref(post->slots);
    view->said_epoch = post->config_epoch;
    if (fresh)
        take_claim(redis, from, post->config_epoch, post->slots);
    if (fresh || view->disputed)
        view->disputed = correct(redis, post->from, post->config_epoch, post->slots);
}

/* ---- Elections ------------------------------------------------------------------------------------------------------------ */

static void ask_for_votes(struct redis *redis) {
    struct node *node = node_of(redis);

    node->election_epoch = ++node->epoch;
    node->votes = 0;
    node->election_at = SERVER_NEVER;
    for (unsigned i = 0; i < group_of(redis)->server_count; i++) {
        struct post *post;

        if (i == redis->peer->index)
            continue;
        post = redis__post_new(redis, POST_CANDIDATE);
        post->epoch = node->election_epoch;
        post->node = (int)redis->peer->primary->peer->index;
        redis__post_send(group_of(redis)->servers[i], post);
    }
}

static void vote(struct redis *redis, const struct post *post) {
    struct node *node = node_of(redis);
    struct view *failed = &node->views[post->node];
    struct post *answer;

    node->epoch = post->epoch > node->epoch ? post->epoch : node->epoch;
    if (!redis_is_primary(redis) || !own_slots(redis)->count || post->epoch < node->epoch || node->last_vote >= post->epoch ||
        !failed->failed || (failed->voted_at && redis->now - failed->voted_at < 2 * group_of(redis)->down_after))
        return;
    node->last_vote = post->epoch;
    failed->voted_at = redis->now;
    answer = redis__post_new(redis, POST_VOTE);
    answer->epoch = post->epoch;
    redis__post_send(post->from, answer);
}

void redis__bus_take_over(struct redis *redis) {
    struct node *node = node_of(redis);
    unsigned old = redis->peer->primary->peer->index;

    if (own_view(redis)->epoch < node->epoch)
        own_view(redis)->epoch = node->epoch;
    redis__bus_bump(redis);
    redis__become_primary(redis);
    own_view(redis)->primary = true;
    own_view(redis)->primary_index = -1;
    node->views[old].primary = false;
    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++)
        if (node->owner[slot] == old)
            redis__bus_set_slot(redis, slot, redis->peer->index);
    node->election_at = node->election_until = SERVER_NEVER;
    node->election_epoch = 0;
    redis__bus_look(redis);
    redis__bus_beat_all(redis);
}

static void count_vote(struct redis *redis, const struct post *post) {
    struct node *node = node_of(redis);
    unsigned all, seen;

    if (redis_is_primary(redis) || post->epoch != node->election_epoch)
        return;
    count_primaries(redis, &all, &seen);
    if (++node->votes * 2 > all)
        redis__bus_take_over(redis);
}

/* A replica whose primary has failed. Who has more asks earlier. */
static void look_at_election(struct redis *redis) {
    struct node *node = node_of(redis);
    int64_t again = 4 * group_of(redis)->down_after, chance;
    unsigned primary, rank = 0;

    if (!redis->peer->primary)
        return;
    primary = redis->peer->primary->peer->index;
    if (!node->views[primary].failed || count_slots(node, primary) == 0) {
        node->election_at = SERVER_NEVER;
        node->election_until = 0;
        return;
    }
    if (redis->now >= node->election_at && redis->now < node->election_until) {
        ask_for_votes(redis);
    } else if (redis->now >= node->election_until) {
        for (unsigned i = 0; i < group_of(redis)->server_count; i++)
            rank += node->views[i].primary_index == (int)primary && node->views[i].offset > redis->peer->offset;
        chance = (int64_t)(redis_draw(&redis->peer->random) % (ELECTION_MS * MS));
        node->election_at = redis->now + ELECTION_MS * MS + chance + rank * 1000 * MS;
        node->election_until = redis->now + (again > 4000 * MS ? again : 4000 * MS);
    }
}

/* ---- All of it ------------------------------------------------------------------------------------------------------------ */

void redis__bus_hear(struct redis *redis, struct post *post) {
    struct node *node = node_of(redis);

    switch (post->kind) {
    case POST_BEAT:
        take_beat(redis, post);
        break;
    case POST_FAIL:
        if (post->node != (int)redis->peer->index && !node->views[post->node].failed) {
            node->views[post->node].failed = true;
            node->views[post->node].failed_at = redis->now;
        }
        break;
    case POST_CANDIDATE:
        vote(redis, post);
        break;
    case POST_VOTE:
        count_vote(redis, post);
        break;
    case POST_UPDATE:
        if (post->config_epoch > node->views[post->node].epoch) {
            node->views[post->node].epoch = post->config_epoch;
            node->views[post->node].primary = true;
        }
        take_claim(redis, (unsigned)post->node, post->config_epoch, post->slots);
        break;
    default:
        break;
    }
    redis__bus_look(redis);
}

void redis__bus_cron(struct redis *redis) {
    struct node *node = node_of(redis);

    own_view(redis)->primary = redis_is_primary(redis);
    own_view(redis)->primary_index = redis->peer->primary ? (int)redis->peer->primary->peer->index : -1;
    look_around(redis);
    look_at_election(redis);
    redis__bus_look(redis);
    if (redis->now >= node->beat_at)
        redis__bus_beat_all(redis);
}

void redis__bus_init(struct redis *redis, int64_t now) {
    const struct redis_group *group = group_of(redis);
    struct node *node = redis_alloc(sizeof *node);

    redis->peer->node = node;
    snprintf(node->id, sizeof node->id, "%040u", redis->peer->index + 1);
    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++) {
        unsigned owner = (slot * 2 + 1) * group->primaries / (2 * REDIS_SLOT_COUNT); /* as redis-cli parts them */

        node->owner[slot] = (unsigned char)owner;
        node->counts[owner]++;
    }
    for (unsigned i = 0; i < group->server_count; i++)
        node->views[i] = (struct view){.primary = i < group->primaries,
                                       .primary_index = i < group->primaries ? -1 : (int)(i % group->primaries),
                                       .epoch = i < group->primaries ? i + 1 : 0,
                                       .heard_at = now};
    node->epoch = group->primaries;
    node->ok = true;
    node->beat_at = now;
    node->election_at = SERVER_NEVER;
}

void redis__bus_started(struct redis *redis) {
    struct node *node = node_of(redis);

    for (unsigned i = 0; i < group_of(redis)->server_count; i++) {
        node->views[i].heard_at = redis->now;
        node->views[i].missed = node->views[i].failed = false;
        node->views[i].reports = 0;
        redis__slots_unref(node->views[i].said);
        node->views[i].said = NULL;
    }
    node->ok = false;
    node->fresh = true;
    node->ok_since_allowed = redis->now + START_MS * MS;
    node->beat_at = redis->now;
    node->election_at = SERVER_NEVER;
    node->election_until = 0;
}

void redis__bus_free(struct redis *redis) {
    struct node *node = node_of(redis);

    if (!node)
        return;
    for (unsigned i = 0; i < GROUP_MAX; i++)
        redis__slots_unref(node->views[i].said);
    forget_own(node);
    free(node);
    redis->peer->node = NULL;
}
