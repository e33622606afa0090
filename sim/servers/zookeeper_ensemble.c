/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_ensemble.c - the log, and its way from member to member on virtual time.
 *
 * Requests that need the leader are queued (`up`), be it that they come from another member or from the leader's own clients. What
 * the leader has accepted is an entry of the log. It is committed when it is on enough disks: from then on it is never lost. Each
 * member applies entries in their order. Other answers of the leader (`down`) do not overtake the entries that went before them.
 *
 * A server that is alone is its own leader, and all this happens at once.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { LOG_MIN = 64 };

uint64_t zk_random(struct zookeeper *zk) {
    return dice_number(&zk->dice);
}

int64_t zk_draw(struct zookeeper *zk, int64_t low, int64_t high) {
    return high <= low ? low : low + (int64_t)(zk_random(zk) % (uint64_t)(high - low + 1));
}

bool zk_one_in(struct zookeeper *zk, unsigned sides) {
    return sides > 0 && (sides == 1 || zk_random(zk) % sides == 0);
}

int64_t zk_hop(struct zookeeper *zk) {
    return zk_draw(zk, zk->options.near_ns, zk->options.far_ns);
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Queues --------------------------------------------------------------------------------------------------------------- */

void zk_queue_add(struct zk_queue *queue, int64_t at, uint64_t after, struct zk_request *request, bool valid) {
    struct zk_packet *packet = zk_memory(sizeof *packet);

    packet->at = at;
    packet->after = after;
    packet->request = zk_request_ref(request);
    packet->valid = valid;
    *(queue->last ? &queue->last->next : &queue->first) = packet;
    queue->last = packet;
}

static void queue_pop(struct zk_queue *queue) {
    struct zk_packet *packet = queue->first;

    queue->first = packet->next;
    if (!queue->first)
        queue->last = NULL;
    zk_request_unref(packet->request);
    free(packet);
}

void zk_queue_clear(struct zk_queue *queue) {
    while (queue->first)
        queue_pop(queue);
}

void zk_submit(struct zk_request *request) {
    struct zookeeper_member *member = request->conn->member;
    struct zookeeper *zk = member->zk;

    member->up_at = zk_leads(member) ? zk->now : later(member->up_at, zk->now + zk_hop(zk));
    zk_queue_add(&member->up, member->up_at, 0, request, false);
}

/* To the member that has asked, behind the entries up to `after`. */
static void send_down(struct zookeeper_member *member, uint64_t after, struct zk_request *request, bool valid) {
    struct zookeeper *zk = member->zk;

    member->down_at = zk_leads(member) ? zk->now : later(member->down_at, zk->now + zk_hop(zk));
    zk_queue_add(&member->down, member->down_at, after, request, valid);
}

/* ---- The log -------------------------------------------------------------------------------------------------------------- */

struct zk_entry *zk_log_at(const struct zookeeper *zk, uint64_t number) {
    return zk->log[number & (zk->log_size - 1)];
}

static void log_grow(struct zookeeper *zk) {
    uint64_t size = zk->log_size ? 2 * zk->log_size : LOG_MIN;
    struct zk_entry **log = zk_memory(size * sizeof *log);

    for (uint64_t i = zk->log_begin; i < zk->log_end; i++)
        log[i & (size - 1)] = zk_log_at(zk, i);
    free(zk->log);
    zk->log = log;
    zk->log_size = size;
}

static void entry_free(struct zk_entry *entry) {
    zk_request_unref(entry->request);
    zk_txn_clear(&entry->txn);
    free(entry);
}

/* Entries that everybody has applied are of no use any more. */
static void trim(struct zookeeper *zk) {
    uint64_t first = zk->committed;

    for (unsigned i = 0; i < zk->count; i++)
        if (!zk->members[i].wiped && zk->members[i].applied < first)
            first = zk->members[i].applied;
    for (; zk->log_begin < first; zk->log_begin++)
        entry_free(zk_log_at(zk, zk->log_begin));
}

struct zk_entry *zk_log_append(struct zookeeper *zk, struct zk_request *request, int64_t session) {
    struct zk_entry *entry = zk_memory(sizeof *entry);
    int64_t quorum = zk->count > 1 ? zk_hop(zk) + zk_hop(zk) : 0;

    if (zk->log_end - zk->log_begin == zk->log_size)
        log_grow(zk);
    entry->number = zk->log_end;
    entry->zxid = ++zk->zxid;
    entry->wall_ms = zk_wall_ms(zk_leader(zk), zk->now);
    entry->session = session;
    entry->request = request ? zk_request_ref(request) : NULL;
    entry->commit_at = zk->now + quorum + zk_draw(zk, zk->options.disk_min_ns, zk->options.disk_max_ns);
    if (zk->log_end > zk->committed)
        entry->commit_at = later(entry->commit_at, zk_log_at(zk, zk->log_end - 1)->commit_at);
    zk->log[zk->log_end++ & (zk->log_size - 1)] = entry;
    return entry;
}

void zk_log_free(struct zookeeper *zk) {
    for (; zk->log_begin < zk->log_end; zk->log_begin++)
        entry_free(zk_log_at(zk, zk->log_begin));
    free(zk->log);
}

/* It is written now, by the leader and by all who follow. */
void zk_log_added(struct zookeeper *zk) {
    for (unsigned i = 0; i < zk->count; i++) {
        struct zookeeper_member *member = &zk->members[i];

        if (member->disk_full == 0 || !zk_linked(member) || --member->disk_full > 0)
            continue;
        if (zk_leads(member))
            zk_log_at(zk, zk->log_end - 1)->lost = zk->count == 1;
        zk_exit(member);
    }
}

static void commit_next(struct zookeeper *zk) {
    struct zk_entry *entry = zk_log_at(zk, zk->committed++);
    struct zk_session *session = zk_session_find(zk, entry->session);

    entry->commit_at = zk->now;
    if (session && entry->txn.type == OP_CLOSE_SESSION)
        zk_session_free(zk, session);
    for (unsigned i = 0; i < zk->count; i++)
        zk_next_apply(&zk->members[i]);
}

/* It never was. */
static void lose_last(struct zookeeper *zk) {
    struct zk_entry *entry = zk_log_at(zk, --zk->log_end);
    struct zk_session *session = zk_session_find(zk, entry->session);

    if (session && entry->txn.type == OP_CREATE_SESSION)
        zk_session_free(zk, session);
    if (session && entry->txn.type == OP_CLOSE_SESSION)
        session->closing = false;
    entry_free(entry);
    zk->stale_head = true;
}

void zk_log_settle(struct zookeeper *zk) {
    uint64_t most = zk->committed, kept;

    while (most < zk->log_end && !zk_log_at(zk, most)->lost)
        most++;
    kept = (uint64_t)zk_draw(zk, (int64_t)zk->committed, (int64_t)most);
    while (zk->log_end > kept)
        lose_last(zk);
    while (zk->committed < zk->log_end)
        commit_next(zk);
}

/* ---- Applying ------------------------------------------------------------------------------------------------------------- */

/* Not even the leader does it at once: a follower, and its clients, may be faster. */
static int64_t way_down(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    int64_t way = zk->count == 1 ? 0 : zk_leads(member) ? zk_draw(zk, 0, zk->options.far_ns) : zk_hop(zk);

    return way + zk_draw(zk, member->lag_near, member->lag_far);
}

void zk_next_apply(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;

    if (member->apply_at != SERVER_NEVER || member->applied >= zk->committed || !zk_linked(member))
        return;
    member->down_at = later(member->down_at, zk_log_at(zk, member->applied)->commit_at + way_down(member));
    member->apply_at = later(zk->now, member->down_at);
}

void zk_catch_up(struct zookeeper_member *member) {
    while (member->applied < member->zk->committed)
        zk_tree_apply(&member->tree, zk_log_at(member->zk, member->applied++), NULL, NULL);
    member->apply_at = SERVER_NEVER;
}

/* What the client of a transaction is told that came out as an error. */
static int32_t error_of(const struct zk_txn *txn) {
    if (txn->type == OP_MULTI)
        return txn->error == ZK_SESSION_MOVED ? txn->error : 0;
    return txn->type == OP_ERROR ? txn->error : 0;
}

static void tell(struct zookeeper_member *member, struct zk_entry *entry, const struct zk_writer *results) {
    struct zk_request *request = entry->request && entry->request->member == member->index ? entry->request : NULL;
    struct zk_conn *conn;

    if (entry->txn.type == OP_CLOSE_SESSION) {
        zk_conn_session_ended(member, entry->session, request);
    } else if (!request) {
        return;
    } else if (entry->txn.type == OP_CREATE_SESSION) {
        conn = zk_request_take(request);
        if (conn)
            zk_handshake_end(conn, true);
    } else {
        zk_request_answer(request, error_of(&entry->txn), results);
    }
}

static void apply_next(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    struct zk_entry *entry = zk_log_at(zk, member->applied++);
    bool asked = entry->request && entry->request->member == member->index && entry->request->conn;
    struct zk_writer results;

    zk_writer_begin(&results);
    zk_tree_apply(&member->tree, entry, member, asked ? &results : NULL);
    tell(member, entry, &results);
    zk_writer_end(&results);
    member->apply_at = SERVER_NEVER;
    zk_next_apply(member);
    trim(zk);
}

/* ---- The leader's work ---------------------------------------------------------------------------------------------------- */

static void revalidate(struct zookeeper *zk, struct zk_request *request) {
    struct zk_session *session = zk_session_find(zk, request->session);
    bool valid = zk_session_renew(zk, session, request->timeout_ms, zk->now);

    if (valid)
        session->owner = (int)request->member;
    send_down(&zk->members[request->member], zk->committed, request, valid);
}

static void take_up(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    struct zk_request *request = zk_request_ref(member->up.first->request);

    queue_pop(&member->up);
    if (request->type == OP_REVALIDATE) {
        revalidate(zk, request);
    } else if (request->type == OP_SYNC) {
        send_down(member, zk->log_end, request, true);
    } else {
        zk_prepare(zk, request, zk_log_append(zk, request, request->session));
        zk_log_added(zk);
    }
    zk_request_unref(request);
}

static void take_down(struct zookeeper_member *member) {
    struct zk_packet *packet = member->down.first;
    struct zk_request *request = zk_request_ref(packet->request);
    bool valid = packet->valid;
    struct zk_conn *conn;

    queue_pop(&member->down);
    if (request->type == OP_SYNC) {
        zk_request_answer(request, 0, NULL);
    } else {
        conn = zk_request_take(request);
        if (conn)
            zk_handshake_end(conn, valid);
    }
    zk_request_unref(request);
}

static void remove_containers(struct zookeeper *zk) {
    int64_t wall_ms = zk_wall_ms(zk_leader(zk), zk->now), span = zk->options.container_check_ms * ZK_MS;
    bool late = zk->now > zk->container_at; /* there was nothing to look at, at the time */

    zk->container_at += ((zk->now - zk->container_at) / span + 1) * span;
    if (late)
        return;
    for (struct zk_node *node = zk->head.owned, *next; node && zk->leader >= 0; node = next) {
        next = node->owned_after;
        if (zk_is_spent(node, wall_ms)) {
            zk_prepare_removal(zk, node, zk_log_append(zk, NULL, 0));
            zk_log_added(zk);
        }
    }
}

static void drop_idle(struct zookeeper *zk) {
    zk->idle_at = SERVER_NEVER;
    for (unsigned i = 0; i < zk->count; i++) {
        int64_t ms = zk_clock_ms(&zk->members[i], zk->now);

        for (struct zk_conn *conn = zk->members[i].conns, *next; conn && !zk->members[i].paused; conn = next) {
            next = conn->after;
            if (conn->idle_ms <= ms)
                zk_conn_drop(conn, true);
            else
                zk->idle_at = zk->now + 10000 * ZK_MS;
        }
    }
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

enum happening { NOTHING, QUORUM, COMMIT, DOWN, APPLY, EXPIRY, UP, CONTAINERS, IDLE };

struct next {
    int64_t at;
    enum happening what;
    struct zookeeper_member *member;
};

static void consider(struct next *next, int64_t at, enum happening what, struct zookeeper_member *member) {
    if (at < next->at)
        *next = (struct next){at, what, member};
}

static void consider_member(struct next *next, struct zookeeper_member *member, bool quorum) {
    bool answered = member->down.first && member->down.first->after <= member->applied;

    if (!zk_linked(member))
        return;
    if (answered)
        consider(next, member->down.first->at, DOWN, member);
    else
        consider(next, member->apply_at, APPLY, member);
    if (quorum && member->up.first)
        consider(next, member->up.first->at, UP, member);
}

static struct next find_next(const struct zookeeper *zk) {
    struct next next = {.at = SERVER_NEVER};
    bool quorum = zk_quorum(zk);

    consider(&next, zk_quorum_due(zk), QUORUM, NULL);
    if (quorum && zk->committed < zk->log_end)
        consider(&next, zk_log_at(zk, zk->committed)->commit_at, COMMIT, NULL);
    if (quorum)
        consider(&next, zk->expiry_at, EXPIRY, NULL);
    for (unsigned i = 0; i < zk->count; i++)
        consider_member(&next, &zk->members[i], quorum);
    if (quorum && zk->head.owned)
        consider(&next, zk->container_at, CONTAINERS, NULL);
    consider(&next, zk->idle_at, IDLE, NULL);
    return next;
}

int64_t zk_due(const struct zookeeper *zk) {
    return find_next(zk).at;
}

static void happen(struct zookeeper *zk, struct next next) {
    switch (next.what) {
    case QUORUM:
        zk_quorum_step(zk);
        break;
    case COMMIT:
        commit_next(zk);
        break;
    case DOWN:
        take_down(next.member);
        break;
    case APPLY:
        apply_next(next.member);
        break;
    case EXPIRY:
        zk_sessions_expire(zk);
        break;
    case UP:
        take_up(next.member);
        break;
    case CONTAINERS:
        remove_containers(zk);
        break;
    case IDLE:
        drop_idle(zk);
        break;
    default:
        break;
    }
}

void zk_run(struct zookeeper *zk, int64_t now) {
    struct next next;

    while ((next = find_next(zk)).at <= now) {
        zk->now = later(zk->now, next.at);
        happen(zk, next);
    }
    zk->now = later(zk->now, now);
}

void zk_enter(struct zookeeper *zk, int64_t now) {
    zk_run(zk, now);
}

/* Connections that were closed are freed when nobody can be in the middle of their bytes. */
void zk_leave(struct zookeeper *zk) {
    zk_run(zk, zk->now);
    while (zk->dead) {
        struct zk_conn *conn = zk->dead;

        zk->dead = conn->after;
        zk_acl_unref(conn->client);
        free(conn->input);
        free(conn);
    }
}
