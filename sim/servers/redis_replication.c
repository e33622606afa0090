/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_replication.c - a primary and its replicas.
 *
 *     replica: not linked --SYNC--> CONTINUE, or FULL --> linked: DEED, DEED, ...; ACK every second, and when asked
 *
 * Histories have a name (replid) and an offset. A replica that becomes a primary begins a history of a new name, and remembers up to
 * where it is the same as the old one (replid2, second_offset): who was no further may go on from there, everybody else gets all of it
 * anew and loses what it had beyond. A replica's posts are of one connection (serial); what comes of an earlier one counts no more.
 */
#include <stdio.h>

#include "redis_group.h"

/* A history does not begin at 0: its first bytes are a ping. */
enum { FIRST_OFFSET = 14 };
enum { ACK_MS = 1000, CONNECT_MS = 1000, GOOD_LAG_MS = 10000 };

void redis__replication_init(struct redis *redis, struct redis *primary, int64_t now) {
    struct peer *peer = redis->peer;

    peer->primary = primary;
    peer->linked = false;
    redis_hex(redis, peer->replid, RUN_ID);
    memset(peer->replid2, '0', RUN_ID);
    peer->second_offset = -1;
    peer->offset = primary ? 0 : FIRST_OFFSET;
    peer->connect_at = primary ? now + (int64_t)(redis_draw(&peer->random) % (5 * MS)) : SERVER_NEVER;
    peer->ack_at = SERVER_NEVER;
}

/* ---- The primary's side --------------------------------------------------------------------------------------------------- */

int64_t redis__peer_offset(const struct redis *redis) {
    return redis->peer ? redis->peer->offset : 0;
}

/* About as many bytes as the commands would be. */
static int64_t size_of(const struct deed *deed) {
    int64_t size = 30;

    for (size_t i = 0; i < deed->change_count; i++)
        size += 40 + (int64_t)deed->changes[i].key.n;
    for (size_t i = 0; i < deed->message_count; i++)
        size += 40 + (int64_t)(deed->messages[i].channel.n + deed->messages[i].text.n);
    return size;
}

static void send_deed(struct redis *redis, unsigned to, enum post_kind kind, struct deed *deed) {
    struct post *post = redis__post_new(redis, kind);

    post->serial = redis->peer->followers[to].serial;
    memcpy(post->replid, redis->peer->replid, sizeof post->replid);
    post->offset = redis->peer->offset;
    if (kind == POST_DEED && deed->offset < post->offset)
        post->offset = deed->offset; /* one of the journal's */
    post->deed = deed;
    redis__post_send(redis->peer->group->servers[to], post);
}

void redis__peer_wrote(struct redis *redis, struct deed *deed) {
    struct peer *peer = redis->peer;

    if (peer->primary) { /* by a replica's own doing, or its primary's: the offset is that one's */
        deed->offset = peer->offset;
        return;
    }
    peer->offset += size_of(deed);
    deed->offset = peer->offset;
    for (unsigned i = 0; i < peer->group->server_count; i++)
        if (peer->followers[i].online)
            send_deed(redis, i, POST_DEED, redis__deed_ref(deed));
}

/* Everything, as one deed. */
static struct deed *snapshot(struct redis *redis) {
    struct deed *deed = redis_alloc(sizeof *deed);
    size_t count = 0;

    deed->refs = 1;
    for (unsigned db = 0; db < DATABASES; db++)
        count += redis->dbs[db].count;
    deed->changes = redis_alloc((count + 1) * sizeof *deed->changes);
    for (unsigned db = 0; db < DATABASES; db++) {
        struct key *key;

        if (redis->dbs[db].count)
            TAILQ_FOREACH(key, &redis->dbs[db].keys, entry)
        deed->changes[deed->change_count++] = (struct change){
            .db = db, .key = redis__text_copy(key->name), .after = redis__value_ref(key->value), .expires_after = key->expires};
    }
    return deed;
}

/* Can one that has the history of this name up to there go on? */
static bool can_continue(const struct redis *redis, const struct post *post) {
    const struct peer *peer = redis->peer;
    const struct deed *first = TAILQ_FIRST(&redis->journal), *deed;

    if (strcmp(post->replid, peer->replid) != 0 && (strcmp(post->replid, peer->replid2) != 0 || post->offset > peer->second_offset))
        return false;
    if (post->offset == peer->offset)
        return true;
    if (post->offset > peer->offset || !first)
        return false;
    TAILQ_FOREACH(deed, &redis->journal, entry) {
        if (deed->offset == post->offset)
            return true;
    }
    return false;
}

static void serve_sync(struct redis *redis, const struct post *post) {
    struct peer *peer = redis->peer;
    unsigned index = post->from->peer->index;
    struct follower *follower = &peer->followers[index];
    struct deed *deed;

    if (peer->primary && !peer->linked)
        return; /* it has nothing to give yet: it is asked again */
    *follower = (struct follower){.online = true, .serial = post->serial, .acked = post->offset, .acked_at = redis->now};
    if (!can_continue(redis, post)) {
        follower->acked = 0;
        send_deed(redis, index, POST_FULL, snapshot(redis));
        return;
    }
    send_deed(redis, index, POST_CONTINUE, NULL);
    TAILQ_FOREACH(deed, &redis->journal, entry) {
        if (deed->offset > post->offset)
            send_deed(redis, index, POST_DEED, redis__deed_ref(deed));
    }
}

int64_t redis__peer_acks(const struct redis *redis, int64_t offset) {
    int64_t count = 0;

    for (unsigned i = 0; redis->peer && i < redis->peer->group->server_count; i++)
        count += redis->peer->followers[i].ready && redis->peer->followers[i].acked >= offset;
    return count;
}

unsigned redis__peer_good_replicas(const struct redis *redis) {
    unsigned count = 0;

    for (unsigned i = 0; redis->peer && i < redis->peer->group->server_count; i++)
        count += redis->peer->followers[i].ready && redis->now - redis->peer->followers[i].acked_at <= (int64_t)GOOD_LAG_MS * MS;
    return count;
}

void redis__peer_ask_acks(struct redis *redis) {
    struct peer *peer = redis->peer;

    for (unsigned i = 0; peer && i < peer->group->server_count; i++)
        if (peer->followers[i].online)
            send_deed(redis, i, POST_GETACK, NULL);
}

static void take_ack(struct redis *redis, const struct post *post) {
    struct follower *follower = &redis->peer->followers[post->from->peer->index];

    if (!follower->online || follower->serial != post->serial)
        return;
    follower->ready = true;
    follower->acked = post->offset;
    follower->acked_at = redis->now;
}

/* ---- The replica's side --------------------------------------------------------------------------------------------------- */

static void connect_later(struct redis *redis) {
    struct peer *peer = redis->peer;

    peer->linked = false;
    peer->ack_at = SERVER_NEVER;
    peer->connect_at = redis->now + (int64_t)(redis_draw(&peer->random) % ((uint64_t)CONNECT_MS * MS));
}

static void connect_now(struct redis *redis) {
    struct peer *peer = redis->peer;
    struct post *post = redis__post_new(redis, POST_SYNC);

    post->serial = ++peer->serial;
    memcpy(post->replid, peer->replid, sizeof post->replid);
    post->offset = peer->offset;
    redis__post_send(peer->primary, post);
    peer->connect_at = redis->now + 3 * (int64_t)CONNECT_MS * MS; /* unless it is answered */
}

static void send_ack(struct redis *redis) {
    struct peer *peer = redis->peer;
    struct post *post = redis__post_new(redis, POST_ACK);

    post->serial = peer->serial;
    post->offset = peer->offset;
    redis__post_send(peer->primary, post);
    peer->ack_at = redis->now + (int64_t)ACK_MS * MS;
}

static void apply(struct redis *redis, const struct deed *deed) {
    for (size_t i = 0; i < deed->change_count; i++) {
        const struct change *change = &deed->changes[i];

        redis__store_put(redis, change->db, change->key, redis__value_ref(change->after), change->expires_after);
    }
    for (size_t i = 0; i < deed->message_count; i++)
        redis__publish(redis, deed->messages[i].channel, deed->messages[i].text, false);
}

static void be_linked(struct redis *redis, const struct post *post) {
    struct peer *peer = redis->peer;

    memcpy(peer->replid, post->replid, sizeof peer->replid);
    peer->linked = true;
    peer->linked_at = redis->now;
    peer->connect_at = SERVER_NEVER;
}

static void take_all(struct redis *redis, const struct post *post) {
    redis__store_flush(redis, -1);
    apply(redis, post->deed);
    redis__store_forget(redis, REDIS_KEEPS_ALL, 0); /* a new history: the journal of the old one is of no use */
    redis->peer->offset = post->offset;
    be_linked(redis, post);
    send_ack(redis);
}

/* What a primary says to this replica. */
static void follow(struct redis *redis, struct post *post) {
    struct peer *peer = redis->peer;

    if (post->from != peer->primary || post->serial != peer->serial)
        return;
    if (post->kind == POST_FULL) {
        take_all(redis, post);
    } else if (post->kind == POST_CONTINUE) {
        be_linked(redis, post);
        send_ack(redis);
    } else if (!peer->linked) {
        return;
    } else if (post->kind == POST_DEED) {
        peer->offset = post->offset;
        apply(redis, post->deed);
        redis__store_commit(redis);
        for (unsigned i = 0; i < peer->group->server_count; i++)
            if (peer->followers[i].online)
                send_deed(redis, i, POST_DEED, redis__deed_ref(post->deed));
    } else {
        send_ack(redis);
    }
}

static void missed(struct redis *redis, const struct redis *other) {
    struct peer *peer = redis->peer;

    peer->followers[other->peer->index].online = peer->followers[other->peer->index].ready = false;
    if (other == peer->primary)
        connect_later(redis);
}

void redis__replication_hear(struct redis *redis, struct post *post) {
    switch (post->kind) {
    case POST_GONE:
        missed(redis, post->from);
        break;
    case POST_SYNC:
        serve_sync(redis, post);
        break;
    case POST_ACK:
        take_ack(redis, post);
        break;
    case POST_PING:
        redis__answer_ping(redis, post);
        break;
    case POST_OBEY:
        redis__obey(redis, post);
        break;
    default:
        follow(redis, post);
    }
}

int64_t redis__replication_due(const struct redis *redis) {
    const struct peer *peer = redis->peer;

    if (!peer->primary)
        return SERVER_NEVER;
    return peer->connect_at < peer->ack_at ? peer->connect_at : peer->ack_at;
}

void redis__replication_tick(struct redis *redis) {
    struct peer *peer = redis->peer;

    if (!peer->primary)
        return;
    if (redis->now >= peer->connect_at)
        connect_now(redis);
    if (redis->now >= peer->ack_at)
        send_ack(redis);
}

bool redis__in_step(const struct redis *redis) {
    const struct peer *peer = redis->peer;

    return peer->primary && peer->linked && peer->primary->up && peer->offset == peer->primary->peer->offset &&
           peer->primary->peer->followers[peer->index].ready && strcmp(peer->replid, peer->primary->peer->replid) == 0;
}

int64_t redis_behind(const struct redis *redis) {
    const struct redis *primary = redis->peer ? redis->peer->primary : NULL;

    return primary ? primary->peer->offset - redis->peer->offset : 0;
}

/* ---- Changing sides ------------------------------------------------------------------------------------------------------- */

static void drop_followers(struct redis *redis) {
    struct peer *peer = redis->peer;

    for (unsigned i = 0; i < peer->group->server_count; i++)
        if (peer->followers[i].online) {
            peer->followers[i].online = peer->followers[i].ready = false;
            redis__post_simple(redis, peer->group->servers[i], POST_GONE);
        }
}

void redis__become_primary(struct redis *redis) {
    struct peer *peer = redis->peer;

    if (!redis__peer_is_replica(redis))
        return;
    redis->elsewhere = false;
    peer->primary = NULL;
    peer->linked = false;
    peer->connect_at = peer->ack_at = SERVER_NEVER;
    memcpy(peer->replid2, peer->replid, sizeof peer->replid2);
    peer->second_offset = peer->offset;
    redis_hex(redis, peer->replid, RUN_ID);
    drop_followers(redis);
}

void redis__become_replica(struct redis *redis, struct redis *primary) {
    struct peer *peer = redis->peer;

    if (peer->primary == primary && !redis->elsewhere)
        return;
    redis->elsewhere = false;
    redis__wait_end_all(redis);
    drop_followers(redis);
    peer->primary = primary;
    peer->linked = false;
    peer->ack_at = SERVER_NEVER;
    peer->connect_at = redis->now;
    redis__sessions_write(redis);
}

/* The replica of a server that is none of ours, and does not answer. */
static void follow_nobody(struct redis *redis, struct text host, unsigned port) {
    redis__wait_end_all(redis);
    redis->elsewhere = true;
    redis->elsewhere_port = port;
    snprintf(redis->elsewhere_host, sizeof redis->elsewhere_host, "%.*s", (int)host.n, host.s);
    if (!redis->peer)
        return;
    drop_followers(redis);
    redis->peer->primary = NULL;
    redis->peer->linked = false;
    redis->peer->connect_at = redis->peer->ack_at = SERVER_NEVER;
}

static const char *primary_host(const struct redis *redis) {
    return redis->elsewhere ? redis->elsewhere_host : redis->peer->primary->host;
}

static unsigned primary_port(const struct redis *redis) {
    return redis->elsewhere ? redis->elsewhere_port : redis->peer->primary->port;
}

static bool is_linked(const struct redis *redis) {
    return !redis->elsewhere && redis->peer->linked;
}

/* ---- Commands ------------------------------------------------------------------------------------------------------------- */

static void role_primary(struct ctx *ctx) {
    const struct peer *peer = ctx->redis->peer;
    int64_t count = 0;

    for (unsigned i = 0; peer && i < peer->group->server_count; i++)
        count += peer->followers[i].ready;
    redis__reply_array(ctx, 3);
    redis__reply_string(ctx, "master");
    redis__reply_int(ctx, redis__peer_offset(ctx->redis));
    redis__reply_array(ctx, count);
    for (unsigned i = 0; peer && i < peer->group->server_count; i++)
        if (peer->followers[i].ready) {
            redis__reply_array(ctx, 3);
            redis__reply_string(ctx, peer->group->servers[i]->host);
            redis__reply_number(ctx, peer->group->servers[i]->port);
            redis__reply_number(ctx, peer->followers[i].acked);
        }
}

void redis__command_role(struct ctx *ctx) {
    const struct peer *peer = ctx->redis->peer;

    if (redis__peer_is_sentinel(ctx->redis)) {
        redis__reply_array(ctx, 2);
        redis__reply_string(ctx, "sentinel");
        redis__reply_array(ctx, 1);
        redis__reply_string(ctx, peer->group->primary_name);
    } else if (redis__peer_is_replica(ctx->redis)) {
        redis__reply_array(ctx, 5);
        redis__reply_string(ctx, "slave");
        redis__reply_string(ctx, primary_host(ctx->redis));
        redis__reply_int(ctx, primary_port(ctx->redis));
        redis__reply_string(ctx, is_linked(ctx->redis) ? "connected" : "connect");
        redis__reply_int(ctx, is_linked(ctx->redis) ? peer->offset : -1);
    } else {
        role_primary(ctx);
    }
}

void redis__command_replicaof(struct ctx *ctx) {
    struct redis *redis = ctx->redis, *primary = NULL;
    int64_t port;

    if (redis__peer_clustered(redis)) {
        redis__reply_error(ctx, "ERR REPLICAOF not allowed in cluster mode.");
        return;
    }
    if (redis__text_is(ctx->argv[1], "no") && redis__text_is(ctx->argv[2], "one")) {
        redis->elsewhere &= redis->peer != NULL;
        if (redis->peer)
            redis__become_primary(redis);
        redis__reply_status(ctx, "OK");
        return;
    }
    if (!redis__text_to_int(ctx->argv[2], &port) || port < 0 || port > 65535) {
        redis__reply_error(ctx, "ERR Invalid master port");
        return;
    }
    for (unsigned i = 0; redis->peer && i < redis->peer->group->server_count; i++)
        if (redis->peer->group->servers[i]->port == (unsigned)port)
            primary = redis->peer->group->servers[i];
    if (primary == redis || !primary) {
        follow_nobody(redis, ctx->argv[1], (unsigned)port);
    } else if (redis->peer->primary == primary && !redis->elsewhere) {
        redis__reply_status(ctx, "OK Already connected to specified master");
        return;
    } else {
        redis__become_replica(redis, primary);
    }
    redis__reply_status(ctx, "OK");
}

/* ---- INFO ----------------------------------------------------------------------------------------------------------------- */

static void info_replica(const struct redis *redis, struct buffer *text) {
    bool linked = is_linked(redis);
    long long offset = (long long)redis__peer_offset(redis);

    redis__buffer_print(text, "role:slave\r\nmaster_host:%s\r\nmaster_port:%u\r\nmaster_link_status:%s\r\n", primary_host(redis),
                        primary_port(redis), linked ? "up" : "down");
    redis__buffer_print(text, "master_last_io_seconds_ago:%d\r\nmaster_sync_in_progress:0\r\nslave_read_repl_offset:%lld\r\n",
                        linked ? 0 : -1, offset);
    redis__buffer_print(text, "slave_repl_offset:%lld\r\nslave_priority:100\r\nslave_read_only:%d\r\nreplica_announced:1\r\n",
                        offset, !redis->replica_writes);
}

void redis__peer_info_replication(struct redis *redis, struct buffer *text) {
    const struct peer *peer = redis->peer;
    unsigned count = 0;

    redis__buffer_print(text, "# Replication\r\n");
    if (redis__peer_is_replica(redis))
        info_replica(redis, text);
    else
        redis__buffer_print(text, "role:master\r\n");
    for (unsigned i = 0; peer && i < peer->group->server_count; i++)
        count += peer->followers[i].online;
    redis__buffer_print(text, "connected_slaves:%u\r\n", count);
    count = 0;
    for (unsigned i = 0; peer && i < peer->group->server_count; i++)
        if (peer->followers[i].online)
            redis__buffer_print(text, "slave%u:ip=%s,port=%u,state=%s,offset=%lld,lag=%lld\r\n", count++,
                                peer->group->servers[i]->host, peer->group->servers[i]->port,
                                peer->followers[i].ready ? "online" : "wait_bgsave", (long long)peer->followers[i].acked,
                                (long long)((redis->now - peer->followers[i].acked_at) / (1000 * MS)));
    redis__buffer_print(text,
                        "master_failover_state:no-failover\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\nmaster_repl_offset:%lld\r\n",
                        peer ? peer->replid : redis->run_id, peer ? peer->replid2 : "0000000000000000000000000000000000000000",
                        (long long)redis__peer_offset(redis));
    redis__buffer_print(text, "second_repl_offset:%lld\r\n",
                        peer && peer->second_offset >= 0 ? (long long)peer->second_offset + 1 : -1LL);
}
