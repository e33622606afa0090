/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_slots.c - the slots of a cluster: where a key is, what a node says when it is not there, and how a slot is moved.
 *
 * While a slot moves, its keys are at one node or at the other. The one that gives it away answers for keys that are there, and for the
 * rest says ASK; the one that gets it answers only to who says ASKING. A request whose keys are not all at one node is told TRYAGAIN.
 */
#include <stdio.h>

#include "redis_group.h"

static unsigned crc16(const char *data, size_t length) {
    static uint16_t table[256];
    unsigned crc = 0;

    if (!table[1])
        for (unsigned i = 0; i < 256; i++) {
            unsigned rest = i << 8;

            for (int bit = 0; bit < 8; bit++)
                rest = rest & 0x8000 ? rest << 1 ^ 0x1021 : rest << 1;
            table[i] = (uint16_t)rest;
        }
    for (size_t i = 0; i < length; i++)
        crc = (crc << 8 ^ table[(crc >> 8 ^ (unsigned char)data[i]) & 0xff]) & 0xffff;
    return crc;
}

unsigned redis_slot_of(const char *key, size_t length) {
    const char *open = memchr(key, '{', length), *close;

    if (open) {
        close = memchr(open + 1, '}', length - (size_t)(open + 1 - key));
        if (close && close > open + 1)
            return crc16(open + 1, (size_t)(close - open - 1)) % REDIS_SLOT_COUNT;
    }
    return crc16(key, length) % REDIS_SLOT_COUNT;
}

/* ---- Where a request belongs ---------------------------------------------------------------------------------------------- */

enum place { PLACE_HERE, PLACE_MOVED, PLACE_ASK, PLACE_AGAIN, PLACE_CROSS, PLACE_UNBOUND, PLACE_DOWN };

struct place_found {
    enum place place;
    unsigned slot;
    int node;
};

static bool is_there(struct ctx *ctx, struct text name) {
    struct key *key = redis__store_find(ctx->redis, 0, name);

    return key && !redis__store_ended(ctx->redis, key);
}

/* A slot that is here, or is coming here: are all the keys? */
static enum place look_at_move(struct ctx *ctx, const struct text *keys, int count, const struct moving *moving, bool here) {
    int missing = 0;

    if (ctx->command->run == redis__command_migrate)
        return PLACE_HERE;
    for (int i = 0; i < count; i++)
        missing += !is_there(ctx, keys[i]);
    if (moving->importing && !here)
        return !ctx->session->asking ? PLACE_MOVED : count > 1 && missing ? PLACE_AGAIN : PLACE_HERE;
    if (!missing)
        return PLACE_HERE;
    return missing < count ? PLACE_AGAIN : PLACE_ASK;
}

static struct place_found find_place(struct ctx *ctx) {
    struct node *node = ctx->redis->peer->node;
    unsigned index = ctx->redis->peer->index;
    struct text keys[256];
    int count = redis__command_keys_of(ctx->command, ctx->argc, ctx->argv, keys, 256);
    struct place_found found = {.place = PLACE_HERE, .node = (int)index};
    struct moving *moving;
    bool shard = (ctx->command->flags & CMD_PUBSUB_RIGHTS) != 0, here;

    if (count == 0)
        return found;
    count = count > 256 ? 256 : count;
    found.slot = redis_slot_of(keys[0].s, keys[0].n);
    found.node = node->owner[found.slot];
    if (found.node == NO_NODE) {
        found.place = PLACE_UNBOUND;
        return found;
    }
    for (int i = 1; i < count; i++)
        if (redis_slot_of(keys[i].s, keys[i].n) != found.slot) {
            found.place = PLACE_CROSS;
            return found;
        }
    if (!node->ok && !shard) {
        found.place = PLACE_DOWN;
        return found;
    }
    here = found.node == (int)index;
    found.place = here ? PLACE_HERE : PLACE_MOVED;
    moving = redis__moving_find(node, found.slot, !here);
    if (moving && !shard) {
        found.place = look_at_move(ctx, keys, count, moving, here);
        found.node = found.place == PLACE_ASK ? moving->other : found.node;
    }
    if (found.place == PLACE_MOVED && (ctx->session->readonly || shard) && !(ctx->command->flags & CMD_WRITE) &&
        ctx->redis->peer->primary && (int)ctx->redis->peer->primary->peer->index == found.node)
        found.place = PLACE_HERE;
    return found;
}

bool redis__peer_redirect(struct ctx *ctx) {
    struct place_found found = find_place(ctx);
    const struct redis *other = found.node < GROUP_MAX ? ctx->redis->peer->group->servers[found.node] : NULL;

    switch (found.place) {
    case PLACE_HERE:
        return true;
    case PLACE_MOVED:
        redis__reply_error(ctx, "MOVED %u %s:%u", found.slot, other->host, other->port);
        break;
    case PLACE_ASK:
        redis__reply_error(ctx, "ASK %u %s:%u", found.slot, other->host, other->port);
        break;
    case PLACE_AGAIN:
        redis__reply_error(ctx, "TRYAGAIN Multiple keys request during rehashing of slot");
        break;
    case PLACE_CROSS:
        redis__reply_error(ctx, "CROSSSLOT Keys in request don't hash to the same slot");
        break;
    case PLACE_UNBOUND:
        redis__reply_error(ctx, "CLUSTERDOWN Hash slot not served");
        break;
    case PLACE_DOWN:
        redis__reply_error(ctx, "CLUSTERDOWN The cluster is down");
        break;
    }
    return false;
}

bool redis__peer_script_may(struct ctx *ctx) {
    struct place_found found = find_place(ctx);

    if (found.place == PLACE_HERE)
        return true;
    redis__reply_error(ctx, found.place == PLACE_DOWN ? "ERR Script attempted to execute a command while the cluster is down"
                                                      : "ERR Script attempted to access a non local key in a cluster node");
    return false;
}

/* ---- Moving --------------------------------------------------------------------------------------------------------------- */

/* The first key of a slot from there on, in order of their making. */
static struct key *key_in_slot(struct redis *redis, struct key *from, unsigned slot) {
    struct key *key = from ? TAILQ_NEXT(from, entry) : redis->dbs[0].count ? TAILQ_FIRST(&redis->dbs[0].keys) : NULL;

    while (key && redis_slot_of(key->name.s, key->name.n) != slot)
        key = TAILQ_NEXT(key, entry);
    return key;
}

static unsigned keys_in_slot(struct redis *redis, unsigned slot) {
    unsigned count = 0;

    for (struct key *key = NULL; (key = key_in_slot(redis, key, slot));)
        count++;
    return count;
}

static void move_key(struct redis *from, struct redis *to, struct key *key) {
    redis__set_now(to, from->now);
    redis__store_put(to, 0, key->name, redis__value_ref(key->value), key->expires);
    redis__store_commit(to);
    redis__store_remove(from, 0, key);
    redis__store_commit(from);
}

static bool set_moving(struct redis *redis, unsigned slot, bool importing, int other) {
    struct node *node = redis->peer->node;
    struct moving *moving = redis__moving_find(node, slot, importing);

    if (!moving && node->moving_count == MOVING_MAX)
        return false;
    if (!moving)
        moving = &node->moving[node->moving_count++];
    *moving = (struct moving){slot, importing, other};
    return true;
}

static void end_moving(struct redis *redis, unsigned slot, bool importing) {
    struct node *node = redis->peer->node;
    struct moving *moving = redis__moving_find(node, slot, importing);

    if (moving)
        *moving = node->moving[--node->moving_count];
}

/* SETSLOT NODE. */
static void assign(struct redis *redis, unsigned slot, unsigned to) {
    struct node *node = redis->peer->node;

    if (node->owner[slot] == redis->peer->index && !keys_in_slot(redis, slot))
        end_moving(redis, slot, false);
    if (to == redis->peer->index && redis__moving_find(node, slot, true)) {
        redis__bus_bump(redis);
        end_moving(redis, slot, true);
    }
    redis__bus_set_slot(redis, slot, to);
    redis__bus_look(redis);
    redis__bus_beat_all(redis);
}

/* ---- For the operator ----------------------------------------------------------------------------------------------------- */

bool redis_slot_in_use(struct redis_group *group, int64_t now, uint64_t draw, unsigned *ret_slot) {
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        size_t left = count ? draw % count : 0;

        for (unsigned i = 0; i < group->server_count; i++) {
            struct redis *redis = group->servers[i];
            struct key *key;

            if (!redis->up || !redis_is_primary(redis) || !redis->dbs[0].count)
                continue;
            redis__set_now(redis, now);
            redis__begin_moment(redis);
            TAILQ_FOREACH(key, &redis->dbs[0].keys, entry) {
                if (redis__store_ended(redis, key))
                    continue;
                *ret_slot = redis_slot_of(key->name.s, key->name.n);
                count += pass == 0;
                if (pass == 1 && left-- == 0)
                    return true;
            }
        }
        if (!count)
            return false;
    }
    return false;
}

/* Who gives the slot away, if it moves; -1. */
static int giver_of(const struct redis_group *group, unsigned slot) {
    for (unsigned i = 0; i < group->server_count; i++)
        if (redis__moving_find(group->servers[i]->peer->node, slot, false))
            return (int)i;
    return -1;
}

bool redis_slot_moving(const struct redis_group *group, unsigned slot) {
    return giver_of(group, slot) >= 0;
}

bool redis_slot_move_begin(struct redis_group *group, int64_t now, unsigned slot, unsigned to) {
    int from = redis_group_primary(group, slot);

    if (from < 0 || from == (int)to || to >= group->server_count || !group->servers[to]->up ||
        !redis_is_primary(group->servers[to]) || redis_slot_moving(group, slot))
        return false;
    redis__set_now(group->servers[from], now);
    redis__set_now(group->servers[to], now);
    return set_moving(group->servers[to], slot, true, from) && set_moving(group->servers[from], slot, false, (int)to);
}

unsigned redis_slot_move_keys(struct redis_group *group, int64_t now, unsigned slot, unsigned leave) {
    int from = giver_of(group, slot);
    struct redis *giver, *taker;
    struct key *key, *next;
    unsigned seen = 0, moved = 0;

    if (from < 0)
        return 0;
    giver = group->servers[from];
    taker = group->servers[redis__moving_find(giver->peer->node, slot, false)->other];
    if (!giver->up || !taker->up)
        return 0;
    redis__set_now(giver, now);
    redis__begin_moment(giver);
    for (key = key_in_slot(giver, NULL, slot); key; key = next) {
        next = key_in_slot(giver, key, slot);
        if (redis__store_ended(giver, key) || leave >> seen++ % 32 & 1)
            continue;
        move_key(giver, taker, key);
        moved++;
    }
    redis__sessions_write(giver);
    redis__sessions_write(taker);
    return moved;
}

bool redis_slot_move_end(struct redis_group *group, int64_t now, unsigned slot) {
    int from = giver_of(group, slot), to;

    if (from < 0)
        return false;
    to = redis__moving_find(group->servers[from]->peer->node, slot, false)->other;
    redis_slot_move_keys(group, now, slot, 0);
    for (unsigned i = 0; i <= group->server_count; i++) { /* first who gets it, then who gave it, then the others */
        unsigned index = i == 0 ? (unsigned)to : i == 1 ? (unsigned)from : i - 2;
        struct redis *redis = group->servers[index];

        if (i > 1 && (index == (unsigned)to || index == (unsigned)from))
            continue;
        if (index >= group->server_count || !redis->up || !redis_is_primary(redis))
            continue;
        redis__set_now(redis, now);
        assign(redis, slot, (unsigned)to);
        redis__sessions_write(redis);
        redis__touch(redis);
    }
    return true;
}

/* ---- CLUSTER -------------------------------------------------------------------------------------------------------------- */

static int node_by_id(const struct redis_group *group, struct text id) {
    for (unsigned i = 0; i < group->server_count; i++)
        if (id.n == RUN_ID && memcmp(group->servers[i]->peer->node->id, id.s, RUN_ID) == 0)
            return (int)i;
    return -1;
}

static bool arg_slot(struct ctx *ctx, int index, unsigned *ret) {
    int64_t number;

    if (!redis__text_to_int(ctx->argv[index], &number) || number < 0 || number >= REDIS_SLOT_COUNT) {
        redis__reply_error(ctx, "ERR Invalid or out of range slot");
        return false;
    }
    *ret = (unsigned)number;
    return true;
}

static void reply_node(struct ctx *ctx, const struct redis *redis) {
    redis__reply_array(ctx, 4);
    redis__reply_string(ctx, redis->host);
    redis__reply_int(ctx, redis->port);
    redis__reply_string(ctx, redis->peer->node->id);
    redis__reply_array(ctx, 0);
}

/* The end of the range of slots of one owner that begins here. */
static unsigned range_end(const struct node *node, unsigned first) {
    unsigned last = first;

    while (last + 1 < REDIS_SLOT_COUNT && node->owner[last + 1] == node->owner[first])
        last++;
    return last;
}

/* Replicas of that one, as far as this node sees, that have not failed. */
static bool is_replica_of(const struct node *node, unsigned index, unsigned primary) {
    return !node->views[index].primary && node->views[index].primary_index == (int)primary && !node->views[index].failed;
}

static void cluster_slots(struct ctx *ctx) {
    const struct redis_group *group = ctx->redis->peer->group;
    const struct node *node = ctx->redis->peer->node;
    int64_t count = 0;

    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot = range_end(node, slot) + 1)
        count += node->owner[slot] != NO_NODE;
    redis__reply_array(ctx, count);
    for (unsigned slot = 0, last; slot < REDIS_SLOT_COUNT; slot = last + 1) {
        unsigned owner = node->owner[slot], replicas = 0;

        last = range_end(node, slot);
        if (owner == NO_NODE)
            continue;
        for (unsigned i = 0; i < group->server_count; i++)
            replicas += is_replica_of(node, i, owner);
        redis__reply_array(ctx, 3 + replicas);
        redis__reply_int(ctx, slot);
        redis__reply_int(ctx, last);
        reply_node(ctx, group->servers[owner]);
        for (unsigned i = 0; i < group->server_count; i++)
            if (is_replica_of(node, i, owner))
                reply_node(ctx, group->servers[i]);
    }
}

static void add_node_line(struct ctx *ctx, struct buffer *text, unsigned index) {
    const struct redis_group *group = ctx->redis->peer->group;
    const struct node *node = ctx->redis->peer->node;
    const struct view *view = &node->views[index];
    const struct redis *it = group->servers[index];
    char line[256];
    int n = snprintf(line, sizeof line, "%s %s:%u@%u %s%s%s %s 0 0 %llu %s", it->peer->node->id, it->host, it->port,
                     it->port + 10000, it == ctx->redis ? "myself," : "", view->primary ? "master" : "slave",
                     view->failed   ? ",fail"
                     : view->missed ? ",fail?"
                                    : "",
                     view->primary || view->primary_index < 0 ? "-" : group->servers[view->primary_index]->peer->node->id,
                     (unsigned long long)view->epoch, view->missed || view->failed ? "disconnected" : "connected");

    redis__buffer_add(text, line, (size_t)n);
    for (unsigned slot = 0, last; slot < REDIS_SLOT_COUNT; slot = last + 1) {
        last = range_end(node, slot);
        if (node->owner[slot] != index)
            continue;
        n = last > slot ? snprintf(line, sizeof line, " %u-%u", slot, last) : snprintf(line, sizeof line, " %u", slot);
        redis__buffer_add(text, line, (size_t)n);
    }
    for (size_t i = 0; it == ctx->redis && i < node->moving_count; i++) {
        const struct moving *moving = &node->moving[i];

        n = snprintf(line, sizeof line, " [%u-%s-%s]", moving->slot, moving->importing ? "<" : ">",
                     group->servers[moving->other]->peer->node->id);
        redis__buffer_add(text, line, (size_t)n);
    }
    redis__buffer_add(text, "\n", 1);
}

static void cluster_nodes(struct ctx *ctx) {
    struct buffer text = {0};

    for (unsigned i = 0; i < ctx->redis->peer->group->server_count; i++)
        add_node_line(ctx, &text, i);
    redis__reply_bulk(ctx, (struct text){text.bytes, text.size});
    redis__buffer_free(&text);
}

static void cluster_info(struct ctx *ctx) {
    const struct node *node = ctx->redis->peer->node;
    unsigned assigned = 0, failed = 0, primaries = 0;
    char text[512];

    for (unsigned slot = 0; slot < REDIS_SLOT_COUNT; slot++) {
        assigned += node->owner[slot] != NO_NODE;
        failed += node->owner[slot] != NO_NODE && node->views[node->owner[slot]].failed;
    }
    for (unsigned i = 0; i < ctx->redis->peer->group->server_count; i++)
        primaries += node->views[i].primary;
    snprintf(
        text, sizeof text,
        "cluster_state:%s\r\ncluster_slots_assigned:%u\r\ncluster_slots_ok:%u\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:%u\r\n"
        "cluster_known_nodes:%u\r\ncluster_size:%u\r\ncluster_current_epoch:%llu\r\ncluster_my_epoch:%llu\r\n",
        node->ok ? "ok" : "fail", assigned, assigned - failed, failed, ctx->redis->peer->group->server_count, primaries,
        (unsigned long long)node->epoch, (unsigned long long)node->views[ctx->redis->peer->index].epoch);
    redis__reply_string(ctx, text);
}

static void setslot_move(struct ctx *ctx, unsigned slot, bool importing) {
    struct redis *redis = ctx->redis;
    bool owner = redis->peer->node->owner[slot] == redis->peer->index;
    int other = node_by_id(redis->peer->group, ctx->argv[4]);

    if (!importing && !owner)
        redis__reply_error(ctx, "ERR I'm not the owner of hash slot %u", slot);
    else if (importing && owner)
        redis__reply_error(ctx, "ERR I'm already the owner of hash slot %u", slot);
    else if (other < 0)
        redis__reply_error(ctx, "ERR I don't know about node %.*s", (int)ctx->argv[4].n, ctx->argv[4].s);
    else if (set_moving(redis, slot, importing, other))
        redis__reply_status(ctx, "OK");
    else
        redis__reply_error(ctx, "ERR more slots move than are simulated");
}

static void setslot_node(struct ctx *ctx, unsigned slot) {
    struct redis *redis = ctx->redis;
    int other = node_by_id(redis->peer->group, ctx->argv[4]), index = (int)redis->peer->index;

    if (other < 0) {
        redis__reply_error(ctx, "ERR Unknown node %.*s", (int)ctx->argv[4].n, ctx->argv[4].s);
    } else if (redis->peer->node->owner[slot] == index && other != index && keys_in_slot(redis, slot)) {
        redis__reply_error(ctx, "ERR Can't assign hashslot %u to a different node while I still hold keys for this hash slot.",
                           slot);
    } else {
        assign(redis, slot, (unsigned)other);
        redis__reply_status(ctx, "OK");
    }
}

static void cluster_setslot(struct ctx *ctx) {
    unsigned slot;

    if (redis__peer_is_replica(ctx->redis)) {
        redis__reply_error(ctx, "ERR Please use SETSLOT only with masters.");
        return;
    }
    if (!arg_slot(ctx, 2, &slot))
        return;
    if (redis__text_is(ctx->argv[3], "STABLE") && ctx->argc == 4) {
        end_moving(ctx->redis, slot, true);
        end_moving(ctx->redis, slot, false);
        redis__reply_status(ctx, "OK");
    } else if (redis__text_is(ctx->argv[3], "MIGRATING") && ctx->argc == 5) {
        setslot_move(ctx, slot, false);
    } else if (redis__text_is(ctx->argv[3], "IMPORTING") && ctx->argc == 5) {
        setslot_move(ctx, slot, true);
    } else if (redis__text_is(ctx->argv[3], "NODE") && ctx->argc == 5) {
        setslot_node(ctx, slot);
    } else {
        redis__reply_error(ctx, "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");
    }
}

/* ADDSLOTS, DELSLOTS, ADDSLOTSRANGE. */
static void cluster_change_slots(struct ctx *ctx, bool add, bool ranges) {
    struct redis *redis = ctx->redis;
    struct node *node = redis->peer->node;
    unsigned first, last;

    for (int i = 2; i < ctx->argc; i += 1 + ranges) {
        if (!arg_slot(ctx, i, &first) || !arg_slot(ctx, i + (ranges && i + 1 < ctx->argc), &last))
            return;
        for (unsigned slot = first; slot <= last; slot++)
            if (add == (node->owner[slot] != NO_NODE)) {
                redis__reply_error(ctx, add ? "ERR Slot %u is already busy" : "ERR Slot %u is already unassigned", slot);
                return;
            }
        for (unsigned slot = first; slot <= last; slot++) {
            end_moving(redis, slot, true);
            redis__bus_set_slot(redis, slot, add ? redis->peer->index : NO_NODE);
        }
    }
    redis__bus_look(redis);
    redis__bus_beat_all(redis);
    redis__reply_status(ctx, "OK");
}

static void cluster_keys(struct ctx *ctx, bool count_only) {
    int64_t most = 0, count = 0;
    struct key *key = NULL;
    unsigned slot;

    if (!arg_slot(ctx, 2, &slot) || (!count_only && !redis__arg_int(ctx, 3, &most)))
        return;
    count = keys_in_slot(ctx->redis, slot);
    if (count_only) {
        redis__reply_int(ctx, count);
        return;
    }
    count = count < most ? count : most;
    redis__reply_array(ctx, count);
    while (count-- > 0 && (key = key_in_slot(ctx->redis, key, slot)))
        redis__reply_bulk(ctx, key->name);
}

static void cluster_failover(struct ctx *ctx) {
    if (!redis__peer_is_replica(ctx->redis)) {
        redis__reply_error(ctx, "ERR You should send CLUSTER FAILOVER to a replica");
        return;
    }
    redis__bus_take_over(ctx->redis);
    redis__reply_status(ctx, "OK");
}

static void cluster_replicate(struct ctx *ctx) {
    int other = node_by_id(ctx->redis->peer->group, ctx->argv[2]);

    if (other < 0 || other == (int)ctx->redis->peer->index) {
        redis__reply_error(ctx, other < 0 ? "ERR Unknown node %.*s" : "ERR Can't replicate myself", (int)ctx->argv[2].n,
                           ctx->argv[2].s);
        return;
    }
    redis__become_replica(ctx->redis, ctx->redis->peer->group->servers[other]);
    redis__reply_status(ctx, "OK");
}

void redis__command_cluster(struct ctx *ctx) {
    struct text word = ctx->argv[1];

    if (redis__text_is(word, "KEYSLOT") && redis__peer_clustered(ctx->redis))
        redis__reply_int(ctx, redis_slot_of(ctx->argv[2].s, ctx->argv[2].n));
    else if (!redis__peer_clustered(ctx->redis))
        redis__reply_error(ctx, "ERR This instance has cluster support disabled");
    else if (redis__text_is(word, "SLOTS"))
        cluster_slots(ctx);
    else if (redis__text_is(word, "NODES"))
        cluster_nodes(ctx);
    else if (redis__text_is(word, "INFO"))
        cluster_info(ctx);
    else if (redis__text_is(word, "MYID"))
        redis__reply_string(ctx, ctx->redis->peer->node->id);
    else if (redis__text_is(word, "SETSLOT"))
        cluster_setslot(ctx);
    else if (redis__text_is(word, "ADDSLOTS") || redis__text_is(word, "DELSLOTS"))
        cluster_change_slots(ctx, redis__text_is(word, "ADDSLOTS"), false);
    else if (redis__text_is(word, "ADDSLOTSRANGE"))
        cluster_change_slots(ctx, true, true);
    else if (redis__text_is(word, "COUNTKEYSINSLOT"))
        cluster_keys(ctx, true);
    else if (redis__text_is(word, "GETKEYSINSLOT"))
        cluster_keys(ctx, false);
    else if (redis__text_is(word, "FAILOVER"))
        cluster_failover(ctx);
    else if (redis__text_is(word, "REPLICATE"))
        cluster_replicate(ctx);
    else
        redis__reply_error(ctx, "ERR %.*s is not simulated", (int)word.n, word.s);
}

void redis__command_asking(struct ctx *ctx) {
    if (!redis__peer_clustered(ctx->redis)) {
        redis__reply_error(ctx, "ERR This instance has cluster support disabled");
        return;
    }
    ctx->session->asking = true;
    redis__reply_status(ctx, "OK");
}

void redis__command_readonly(struct ctx *ctx) {
    if (!redis__peer_clustered(ctx->redis)) {
        redis__reply_error(ctx, "ERR This instance has cluster support disabled");
        return;
    }
    ctx->session->readonly = ctx->command->name[4] == 'o';
    redis__reply_status(ctx, "OK");
}

/* ---- MIGRATE -------------------------------------------------------------------------------------------------------------- */

/* MIGRATE host port key db timeout [KEYS key ...]: between two of ours, in no time. */
void redis__command_migrate(struct ctx *ctx) {
    struct redis *redis = ctx->redis, *to = NULL;
    int first = 3, last = 3;
    int64_t port = 0;
    bool any = false;

    redis__text_to_int(ctx->argv[2], &port);
    for (unsigned i = 0; redis->peer && i < redis->peer->group->server_count; i++)
        if (redis->peer->group->servers[i]->port == (unsigned)port)
            to = redis->peer->group->servers[i];
    for (int i = 6; i < ctx->argc; i++)
        if (redis__text_is(ctx->argv[i], "KEYS")) {
            first = i + 1;
            last = ctx->argc - 1;
            break;
        }
    if (!to || !to->up || to->peer->apart || redis->peer->apart) {
        redis__reply_error(ctx, "IOERR error or timeout connecting to the client");
        return;
    }
    for (int i = first; i <= last; i++) {
        struct key *key = redis__look(ctx, ctx->argv[i]);

        if (!key)
            continue;
        any = true;
        redis__store_put(to, 0, key->name, redis__value_ref(key->value), key->expires);
        redis__store_commit(to);
        redis__store_remove(redis, 0, key);
    }
    redis__touch(to);
    redis__reply_status(ctx, any ? "OK" : "NOKEY");
}
