/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_sessions.c - how long sessions live, and the handshake that makes one or takes one up again.
 *
 * It is the leader who ends them, by its clock. A session's end is rounded up to the next tick, so that all that end in a tick end
 * together. Every request of its client moves it. What a client sends to a follower the leader hears only with the follower's next
 * answer to a ping, twice in a tick; a follower that is cut off tells nothing, and goes on answering its clients.
 *
 * A new leader knows of all sessions, but not when they were last heard of: they all get their whole time again.
 */
#include <stdlib.h>
#include <string.h>

#include "zookeeper_internal.h"

enum { PASSWORD = 16 };

/* ---- Clocks --------------------------------------------------------------------------------------------------------------- */

int64_t zk_clock_ms(const struct zookeeper_member *member, int64_t now) {
    return server_clock_read(&member->clock, now) / ZK_MS;
}

int64_t zk_wall_ms(const struct zookeeper_member *member, int64_t now) {
    return member->zk->options.wall_ms + server_clock_read(&member->wall, now) / ZK_MS;
}

int64_t zk_clock_when(const struct zookeeper_member *member, int64_t ms) {
    const struct server_clock *clock = &member->clock;
    int64_t when = clock->since + (int64_t)((double)(ms * ZK_MS - clock->base) / clock->rate);

    while (zk_clock_ms(member, when) < ms)
        when += 1000;
    return when;
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

static struct zk_session **bucket_of(struct zookeeper *zk, int64_t id) {
    return &zk->buckets[((uint64_t)id * 0x9e3779b97f4a7c15u) >> 58];
}

struct zk_session *zk_session_find(const struct zookeeper *zk, int64_t id) {
    struct zk_session *session = *bucket_of((struct zookeeper *)zk, id);

    while (session && session->id != id)
        session = session->chained;
    return session;
}

static int64_t round_up(const struct zookeeper *zk, int64_t ms) {
    return (ms / zk->options.tick_ms + 1) * zk->options.tick_ms;
}

/* The first end may be sooner now. */
static void note_end(struct zookeeper *zk, const struct zk_session *session) {
    int64_t when = zk_clock_when(&zk->members[zk->leader], session->expire_ms);

    if (when < zk->expiry_at)
        zk->expiry_at = when;
}

static void set_end(struct zookeeper *zk, struct zk_session *session, int32_t timeout_ms, int64_t at) {
    if (zk->leader < 0)
        return; /* the next leader will begin anew */
    session->expire_ms = round_up(zk, zk_clock_ms(&zk->members[zk->leader], at) + timeout_ms);
    note_end(zk, session);
}

struct zk_session *zk_session_new(struct zookeeper *zk, int64_t id, int32_t timeout_ms) {
    struct zk_session *session = zk_memory(sizeof *session), **bucket = bucket_of(zk, id);

    session->id = id;
    session->timeout_ms = timeout_ms;
    session->owner = -1;
    session->touch_at = SERVER_NEVER;
    session->chained = *bucket;
    *bucket = session;
    session->before = zk->youngest;
    *(zk->youngest ? &zk->youngest->after : &zk->oldest) = session;
    zk->youngest = session;
    zk->session_count++;
    set_end(zk, session, timeout_ms, zk->now);
    return session;
}

void zk_session_free(struct zookeeper *zk, struct zk_session *session) {
    struct zk_session **place = bucket_of(zk, session->id);

    while (*place != session)
        place = &(*place)->chained;
    *place = session->chained;
    *(session->before ? &session->before->after : &zk->oldest) = session->after;
    *(session->after ? &session->after->before : &zk->youngest) = session->before;
    zk->session_count--;
    free(session);
}

void zk_sessions_clear(struct zookeeper *zk) {
    while (zk->oldest)
        zk_session_free(zk, zk->oldest);
}

/* ---- Being heard of ------------------------------------------------------------------------------------------------------- */

bool zk_session_renew(struct zookeeper *zk, struct zk_session *session, int32_t timeout_ms, int64_t at) {
    if (!session || session->closing)
        return false;
    set_end(zk, session, timeout_ms, at);
    return true;
}

/* What a follower told has arrived meanwhile. Later words may have come since, from another server: the end never moves back. */
static void settle(struct zookeeper *zk, struct zk_session *session) {
    int64_t end = session->expire_ms;

    if (session->touch_at > zk->now)
        return;
    zk_session_renew(zk, session, session->touch_timeout_ms, session->touch_at);
    if (session->expire_ms < end)
        session->expire_ms = end;
    session->touch_at = SERVER_NEVER;
}

/* The next ping that the leader sends after `at`: there are two in a tick. */
static int64_t next_ping(const struct zookeeper_member *member, int64_t at) {
    int64_t beat = member->zk->options.tick_ms * ZK_MS / 2;
    int64_t phase = (int64_t)(member->zk->options.seed * 2654435761u + member->index * 40503u) & 0x3fffffff;

    return ((at + phase) / beat + 1) * beat - phase;
}

/* When does the leader know what the follower tells it with the answer to a ping? No request that is forwarded after the answer to another
 * one that came behind the ping is there before it. */
static int64_t answered_ping(const struct zookeeper_member *member, int64_t at) {
    return at + member->zk->options.near_ns;
}

static void tell_at(struct zookeeper_member *member, struct zk_session *session, int32_t timeout_ms, int64_t when) {
    if (session->touch_at != SERVER_NEVER)
        return;
    session->touch_at = when;
    session->touch_timeout_ms = timeout_ms;
    session->touch_from = (int)member->index;
}

bool zk_session_touch(struct zk_conn *conn) {
    struct zookeeper_member *member = conn->member;
    struct zookeeper *zk = member->zk;
    struct zk_session *session = zk_session_find(zk, conn->session);

    conn->touched_at = zk->now;
    zk_conn_not_idle(conn, conn->timeout_ms);
    if (zk_leads(member))
        return zk_session_renew(zk, session, conn->timeout_ms, zk->now);
    if (!session || !zk_linked(member))
        return true; /* it does not know better */
    settle(zk, session);
    tell_at(member, session, conn->timeout_ms, answered_ping(member, next_ping(member, zk->now)));
    return true;
}

void zk_sessions_unheard(struct zookeeper *zk, unsigned member) {
    for (struct zk_session *session = zk->oldest; session; session = session->after)
        if (session->touch_at != SERVER_NEVER && session->touch_from == (int)member) {
            settle(zk, session);
            session->touch_at = SERVER_NEVER;
        }
}

/* Pings that were under way arrive late, as all that has to be sent again does, but ahead of the answers that follow. */
static int64_t first_ping(struct zookeeper_member *member) {
    struct zookeeper *zk = member->zk;
    int64_t next = next_ping(member, zk->now), span = next_ping(member, next) - next;

    if (next_ping(member, member->cut_at) == next)
        return next;
    span = zk->now - member->cut_at < span ? zk->now - member->cut_at : span;
    member->down_at = zk->now + zk_hop(zk) + zk_draw(zk, 0, span);
    return member->down_at;
}

/* What it has read since it answered the last ping before the cut. */
void zk_sessions_heard(struct zookeeper_member *member) {
    int64_t half_tick = (int64_t)member->zk->options.tick_ms * ZK_MS / 2, when = answered_ping(member, first_ping(member));
    int64_t reported = next_ping(member, member->cut_at) - half_tick;

    for (struct zk_conn *conn = member->conns; conn; conn = conn->after) {
        struct zk_session *session = conn->state == CONN_OPEN ? zk_session_find(member->zk, conn->session) : NULL;

        if (session && conn->touched_at >= reported)
            tell_at(member, session, conn->timeout_ms, when);
    }
}

int32_t zk_session_check(struct zookeeper *zk, int64_t id, unsigned member) {
    struct zk_session *session = zk_session_find(zk, id);

    if (!session)
        return ZK_UNKNOWN_SESSION;
    if (session->closing)
        return ZK_SESSION_EXPIRED;
    if (session->owner < 0)
        session->owner = (int)member;
    return session->owner == (int)member ? 0 : ZK_SESSION_MOVED;
}

void zk_sessions_restart(struct zookeeper *zk) {
    zk->expiry_at = SERVER_NEVER;
    for (struct zk_session *session = zk->oldest; session; session = session->after) {
        session->owner = -1;
        session->touch_at = SERVER_NEVER;
        set_end(zk, session, session->timeout_ms, zk->now);
    }
}

/* End those whose time has come, and find out when the next one's will. */
void zk_sessions_expire(struct zookeeper *zk) {
    int64_t ms = zk_clock_ms(&zk->members[zk->leader], zk->now);

    zk->expiry_at = SERVER_NEVER;
    for (struct zk_session *session = zk->oldest, *next; session; session = next) {
        next = session->after;
        if (session->closing)
            continue;
        settle(zk, session);
        if (session->expire_ms > ms) {
            note_end(zk, session);
            continue;
        }
        zk_prepare_close(zk, session->id, zk_log_append(zk, NULL, session->id));
        zk_log_added(zk); /* may free the session, and no other */
        if (zk->leader < 0)
            return;
    }
}

/* ---- The handshake -------------------------------------------------------------------------------------------------------- */

static void password_of(const struct zookeeper *zk, int64_t session, char ret[PASSWORD]) {
    uint64_t state = (uint64_t)session ^ zk->options.seed;

    for (int i = 0; i < PASSWORD; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ret[i] = (char)(state >> 56);
    }
}

void zk_handshake_end(struct zk_conn *conn, bool valid) {
    char password[PASSWORD] = {0};
    struct zk_writer writer;

    if (valid)
        password_of(conn->member->zk, conn->session, password);
    zk_writer_begin(&writer);
    zk_write_int(&writer, 0);
    zk_write_int(&writer, valid ? conn->timeout_ms : 0);
    zk_write_long(&writer, valid ? conn->session : 0);
    zk_write_buffer(&writer, password, PASSWORD);
    if (!conn->old_client)
        zk_write_bool(&writer, conn->read_only);
    zk_write_frame(&writer, conn->link);
    zk_writer_end(&writer);
    conn->member->sent++;
    if (!valid) {
        zk_conn_drop(conn, true);
        return;
    }
    conn->state = CONN_OPEN;
    zk_conn_opened(conn);
}

static void ask_leader(struct zk_conn *conn, int type) {
    struct zk_request *request = zk_request_new(conn, 0, type, "", 0);

    request->waits = true;
    zk_submit(request);
}

static void new_session(struct zk_conn *conn) {
    struct zookeeper_member *member = conn->member;

    conn->session = (int64_t)member->next_session++;
    if (conn->read_only)
        zk_handshake_end(conn, true);
    else
        ask_leader(conn, OP_CREATE_SESSION);
}

/* The leader knows by itself; so does one that has been deposed and has not noticed. */
static void old_session(struct zk_conn *conn) {
    struct zookeeper_member *member = conn->member;
    struct zk_session *session = zk_session_find(member->zk, conn->session);
    bool valid;

    if (member->role == ROLE_FOLLOWING) {
        ask_leader(conn, OP_REVALIDATE);
        return;
    }
    if (conn->read_only || !zk_leads(member)) {
        valid = session != NULL;
    } else {
        valid = zk_session_renew(member->zk, session, conn->timeout_ms, member->zk->now);
        if (valid)
            session->owner = (int)member->index;
    }
    zk_handshake_end(conn, valid);
}

static int32_t negotiate(const struct zookeeper *zk, int32_t wanted) {
    int32_t low = (int32_t)zk->options.min_session_ms, high = (int32_t)zk->options.max_session_ms;

    return wanted < low ? low : wanted > high ? high : wanted;
}

void zk_handshake(struct zk_conn *conn, const char *bytes, size_t size) {
    struct zk_reader reader = {.at = bytes, .end = bytes + size};
    struct zookeeper_member *member = conn->member;
    struct zk_conn *earlier;
    struct zk_text password;
    char wanted[PASSWORD];
    int64_t seen, id;
    int32_t timeout;
    bool read_only;

    zk_read_int(&reader);
    seen = zk_read_long(&reader);
    timeout = zk_read_int(&reader);
    id = zk_read_long(&reader);
    password = zk_read_buffer(&reader);
    conn->old_client = reader.at == reader.end;
    read_only = !conn->old_client && zk_read_bool(&reader);
    if (reader.bad || !zk_serves(member) || (member->read_only && !read_only) || seen > member->tree.zxid) {
        zk_conn_drop(conn, true);
        return;
    }
    conn->read_only = member->read_only;
    conn->timeout_ms = negotiate(member->zk, timeout);
    conn->state = CONN_OPENING;
    if (id == 0) {
        new_session(conn);
        return;
    }
    earlier = zk_conn_of(member, id);
    if (earlier)
        zk_conn_drop(earlier, true);
    conn->session = id;
    password_of(member->zk, id, wanted);
    if (password.size != PASSWORD || memcmp(password.bytes, wanted, PASSWORD) != 0)
        zk_handshake_end(conn, false);
    else
        old_session(conn);
}
