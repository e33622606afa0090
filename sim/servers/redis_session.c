/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_session.c - connections: what has come is cut into requests, what is to be said is sent.
 *
 * As in a real server everything that was said while one piece of input was handled is sent at its end, in one piece for each
 * connection; and the connection that was told last is written to first.
 *
 * A script that takes longer than a moment (it can only do so by asking for the time, again and again) keeps the server busy until then:
 * its client is answered at the end, and requests of the others wait, or are answered BUSY after a while.
 */
#include <stdio.h>

#include "redis_commands.h"

#define LONG_NS (20 * MS)

struct session *redis__session_new(struct redis *redis, struct link *link, int64_t now) {
    struct session *session = redis_alloc(sizeof *session);

    session->redis = redis;
    session->link = link;
    session->since = now;
    session->last_command = "NULL";
    TAILQ_INIT(&session->listens);
    session->own = !link;
    if (link) {
        session->id = ++redis->next_session;
        TAILQ_INSERT_TAIL(&redis->sessions, session, entry);
        redis->session_count++;
        redis->connections++;
    }
    session->user = redis__acl_default_open(redis) ? redis__acl_default(redis) : NULL;
    return session;
}

void redis__session_free(struct session *session) {
    struct redis *redis = session->redis;

    redis__unsubscribe_all(session);
    redis__tracking_end(session);
    redis__queue_clear(session);
    if (session->waits)
        redis->waiting--;
    if (session->writing)
        TAILQ_REMOVE(&redis->writers, session, writes);
    if (session->link) {
        TAILQ_REMOVE(&redis->sessions, session, entry);
        redis->session_count--;
    }
    redis__buffer_free(&session->in);
    redis__buffer_free(&session->out);
    redis__buffer_free(&session->pending);
    free(session);
}

struct session *redis__session_find(struct redis *redis, uint64_t id) {
    struct session *session;

    TAILQ_FOREACH(session, &redis->sessions, entry) {
        if (session->id == id && !session->closing)
            return session;
    }
    return NULL;
}

size_t redis__session_subscriptions(const struct session *session) {
    return session->channel_counts[CHANNEL_PLAIN] + session->channel_counts[CHANNEL_PATTERN];
}

bool redis__session_subscribed(const struct session *session) {
    return redis__session_subscriptions(session) + session->channel_counts[CHANNEL_SHARD] > 0;
}

void redis__session_wants_to_write(struct session *session) {
    if (session->writing || !session->link)
        return;
    session->writing = true;
    TAILQ_INSERT_HEAD(&session->redis->writers, session, writes);
}

void redis__session_close_soon(struct session *session) {
    session->closing = true;
    redis__session_wants_to_write(session);
}

void redis__sessions_write(struct redis *redis) {
    struct session *session, *next;

    redis__tracking_broadcast(redis);
    for (session = TAILQ_FIRST(&redis->writers); session; session = next) {
        next = TAILQ_NEXT(session, writes);
        if (session->held)
            continue;
        TAILQ_REMOVE(&redis->writers, session, writes);
        session->writing = false;
        if (session->out.size)
            link_send(session->link, session->out.bytes, session->out.size);
        session->out.size = 0;
        if (session->closing) {
            link_close(session->link);
            redis__session_free(session);
        }
    }
}

/* Is what has come to be left for later? */
static bool must_wait(const struct session *session) {
    return session->waits || session->closing || session->held;
}

static void protocol_error(struct session *session, const char *error) {
    char text[256];
    int n = snprintf(text, sizeof text, "ERR %s", error);

    redis__bytes_line(&session->out, '-', text, (size_t)n);
    redis__session_close_soon(session);
}

static void be_busy(struct session *session) {
    struct redis *redis = session->redis;

    session->held = true;
    redis->busy_from = redis->handed_in;
    redis->busy_until = redis->now;
}

void redis__session_process(struct session *session) {
    struct redis *redis = session->redis;
    struct words *words = &redis->words;
    char error[128];

    while (!must_wait(session) && session->parsed < session->in.size) {
        long taken = redis__request_parse(session->in.bytes + session->parsed, session->in.size - session->parsed, words, error,
                                          sizeof error);

        if (taken < 0)
            protocol_error(session, error);
        if (taken <= 0)
            break;
        if (words->count && !redis__command_run(session, words->count, words->list))
            break;
        session->parsed += (size_t)taken;
        if (redis->now - redis->handed_in > LONG_NS && !redis->busy_until)
            be_busy(session);
    }
    if (session->parsed == session->in.size) {
        session->parsed = session->in.size = 0;
    } else if (session->parsed) {
        memmove(session->in.bytes, session->in.bytes + session->parsed, session->in.size - session->parsed);
        session->in.size -= session->parsed;
        session->parsed = 0;
    }
}

/* ---- As the world sees it ------------------------------------------------------------------------------------------------- */

/* From when on a server that is busy says so. */
static int64_t busy_reply_at(const struct redis *redis) {
    int64_t at = redis->busy_from + strtoll(redis__setting_get(redis, "busy-reply-threshold"), NULL, 10) * MS;

    return at < redis->busy_until ? at : redis->busy_until;
}

static void *on_accept(void *server, struct link *link, int64_t now) {
    struct redis *redis = server;
    struct session *session;

    redis__set_now(redis, now);
    session = redis__session_new(redis, link, now);
    if (redis->session_count > redis->max_clients) {
        static const char full[] = "ERR max number of clients reached";

        redis__bytes_line(&session->out, '-', full, sizeof full - 1);
        session->refused = true; /* it is closed when its first bytes come, or in the next tick */
        redis->refused = true;
    }
    return session;
}

static void on_input(void *server, void *data, const char *bytes, size_t size, int64_t now) {
    struct redis *redis = server;
    struct session *session = data;

    redis__set_now(redis, now);
    redis__buffer_add(&session->in, bytes, size);
    if (session->refused)
        redis__session_close_soon(session);
    if (redis->busy_until && now < busy_reply_at(redis))
        return;
    redis__session_process(session);
    redis__sessions_write(redis);
}

static void on_gone(void *server, void *data, int64_t now) {
    redis__set_now(server, now);
    redis__session_free(data);
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* When a wall clock shows this, in true time. */
static int64_t true_time(const struct server_clock *clock, int64_t wall_ms) {
    double ahead = (double)(wall_ms * MS - clock->base);

    return clock->since + (int64_t)(ahead / (clock->rate > 0 ? clock->rate : 1)) + MS;
}

static int64_t on_due(const void *server) {
    const struct redis *redis = server;
    const struct session *session;
    int64_t due = SERVER_NEVER;

    if (!redis->up)
        return SERVER_NEVER;
    if (redis->refused)
        return redis->now;
    if (redis->busy_until)
        return redis->handed_in < busy_reply_at(redis) ? busy_reply_at(redis) : redis->busy_until;
    if (redis->paused_until)
        due = earlier(due, redis->paused_until);
    if (redis->next_expiry != INT64_MAX && (redis->tracking_clients || redis->peer) && !redis__peer_is_replica(redis))
        due = earlier(due, true_time(&redis->clock, redis->next_expiry) + redis->expiry_delay);
    if (redis->waiting)
        TAILQ_FOREACH(session, &redis->sessions, entry) {
            if (session->waits)
                due = earlier(due, session->wait_until);
        }
    return redis->peer ? earlier(due, redis__peer_due(redis)) : due;
}

static void process_all(struct redis *redis) {
    struct session *session, *next;

    for (session = TAILQ_FIRST(&redis->sessions); session; session = next) {
        next = TAILQ_NEXT(session, entry);
        if (session->in.size)
            redis__session_process(session);
    }
}

/* The script has ended; or it goes on, and others are told so. */
static void look_busy(struct redis *redis) {
    struct session *session;

    if (redis->handed_in >= redis->busy_until) {
        redis->busy_until = 0;
        TAILQ_FOREACH(session, &redis->sessions, entry)
        session->held = false;
    }
    process_all(redis);
}

static void close_refused(struct redis *redis) {
    struct session *session;

    redis->refused = false;
    TAILQ_FOREACH(session, &redis->sessions, entry) {
        if (session->refused)
            redis__session_close_soon(session);
    }
}

static void on_tick(void *server, int64_t now) {
    struct redis *redis = server;

    redis__set_now(redis, now);
    if (!redis->up)
        return;
    redis__begin_moment(redis);
    if (redis->refused)
        close_refused(redis);
    if (redis->busy_until)
        look_busy(redis);
    if (redis->paused_until && now >= redis->paused_until) {
        redis->paused_until = 0;
        process_all(redis);
    }
    if (redis->next_expiry <= redis->wall_ms && (redis->tracking_clients || redis->peer) && !redis__peer_is_replica(redis)) {
        redis__store_expire(redis);
        redis->expiry_delay = (int64_t)(redis_draw(&redis->random) % (100 * MS));
    }
    if (redis->peer)
        redis__peer_tick(redis);
    if (redis->waiting)
        redis__wait_look(redis);
    redis__sessions_write(redis);
}

const struct server_ops redis_ops = {.accept = on_accept, .input = on_input, .gone = on_gone, .due = on_due, .tick = on_tick};
