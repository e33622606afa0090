/* SPDX-License-Identifier: Apache-2.0
 *
 * redis.c - one simulated server as a whole: its time, its stops and restarts, and what the operator does to it.
 *
 * Time. `now` is handed in with every call; what the server does takes some of it (spend), so that TIME goes on within a script, as it does
 * in a real server up to 7.0. Keys end by the wall clock as it was when the command, or the script around it, began.
 */
#include <stdio.h>

#include "redis_commands.h"

/* 2026-01-01, 00:00 UTC. */
static const int64_t some_day_ns = INT64_C(1767225600) * 1000000000;

/* ---- Chance and time ------------------------------------------------------------------------------------------------------ */

uint64_t redis_mix(uint64_t a, uint64_t b) {
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t redis_draw(uint64_t *state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return redis_mix(*state, 1);
}

void redis_hex(struct redis *redis, char *ret, size_t n) {
    for (size_t i = 0; i < n; i++)
        ret[i] = "0123456789abcdef"[redis_draw(&redis->random) % 16];
    ret[n] = '\0';
}

void redis__set_now(struct redis *redis, int64_t now) {
    redis->handed_in = now;
    if (now > redis->now)
        redis->now = now;
}

int64_t redis__wall_ns(const struct redis *redis) {
    return server_clock_read(&redis->clock, redis->now);
}

int64_t redis__wall_ms_now(const struct redis *redis) {
    return redis->frozen_time ? redis->wall_ms : redis__wall_ns(redis) / MS;
}

void redis__begin_moment(struct redis *redis) {
    redis->moment_ns = redis__wall_ns(redis);
    redis->wall_ms = redis->moment_ns / MS;
}

/* A microsecond, more or less. */
void redis__spend(struct redis *redis) {
    redis->now += (int64_t)(redis_draw(&redis->random) % 1500);
}

/* ---- Making one ----------------------------------------------------------------------------------------------------------- */

struct redis *redis_new(const struct redis_settings *settings) {
    struct redis *redis = redis_alloc(sizeof *redis);

    snprintf(redis->name, sizeof redis->name, "%s", settings->name ? settings->name : "redis");
    snprintf(redis->host, sizeof redis->host, "%s", settings->host ? settings->host : "127.0.0.1");
    snprintf(redis->version, sizeof redis->version, "%s", settings->version ? settings->version : "7.0.15");
    redis->port = settings->port;
    redis->seed = settings->seed;
    redis->random = redis_mix(settings->seed, settings->port);
    redis->clock = (struct server_clock){.base = settings->wall_ns ? settings->wall_ns : some_day_ns, .rate = 1};
    redis->frozen_time = settings->frozen_time;
    redis->aof = !settings->no_aof;
    redis->journal_ns = settings->journal_ns;
    redis->max_clients = settings->max_clients ? settings->max_clients : 10000;
    redis->nonsense = settings->nonsense;
    redis->up = true;
    redis->next_expiry = INT64_MAX;
    TAILQ_INIT(&redis->journal);
    TAILQ_INIT(&redis->sessions);
    TAILQ_INIT(&redis->writers);
    TAILQ_INIT(&redis->tracked);
    for (int kind = 0; kind < CHANNEL_KINDS; kind++)
        TAILQ_INIT(&redis->channels[kind]);
    redis->stats = redis_alloc(redis__command_count() * sizeof *redis->stats);
    redis_hex(redis, redis->run_id, RUN_ID);
    redis__settings_init(redis);
    redis__acl_init(redis);
    redis->own_session = redis__session_new(redis, NULL, 0);
    return redis;
}

void redis_free(struct redis *redis) {
    struct session *session;

    if (!redis)
        return;
    while ((session = TAILQ_FIRST(&redis->sessions)))
        redis__session_free(session);
    redis__session_free(redis->own_session);
    redis__tracking_free(redis);
    redis__store_free(redis);
    redis__settings_free(redis);
    redis__acl_free(redis);
    free(redis->scripts);
    free(redis->broadcasts);
    free(redis->stats);
    free(redis->words.list);
    free(redis->words.inline_copy);
    free(redis);
}

unsigned redis_port(const struct redis *redis) {
    return redis->port;
}

const char *redis_name(const struct redis *redis) {
    return redis->name;
}

struct server_clock *redis_clock(struct redis *redis) {
    return &redis->clock;
}

void redis_on_due(struct redis *redis, void (*due)(void *data), void *data) {
    redis->on_due = due;
    redis->on_due_data = data;
}

/* ---- Stops and restarts --------------------------------------------------------------------------------------------------- */

void redis_stop(struct redis *redis, int64_t now) {
    struct session *session;

    redis__set_now(redis, now);
    if (!redis->up)
        return;
    redis->up = false;
    while ((session = TAILQ_FIRST(&redis->sessions))) {
        link_close(session->link);
        redis__session_free(session);
    }
    redis->paused_until = redis->loading_until = redis->busy_until = 0;
    redis__scripts_forget(redis);
    if (redis->peer)
        redis__peer_stopped(redis);
}

void redis_start(struct redis *redis, int64_t now, enum redis_memory memory, int64_t since) {
    if (redis->up)
        return;
    redis__set_now(redis, now);
    redis__store_forget(redis, memory, since);
    redis->up = true;
    redis->started = now;
    redis->next_session = 0;
    redis_hex(redis, redis->run_id, RUN_ID);
    memset(redis->stats, 0, redis__command_count() * sizeof *redis->stats);
    if (redis->peer)
        redis__peer_started(redis);
}

void redis_restart(struct redis *redis, int64_t now, enum redis_memory memory, int64_t since) {
    redis_stop(redis, now);
    redis_start(redis, now, memory, since);
}

bool redis_is_up(const struct redis *redis) {
    return redis->up;
}

void redis_load_until(struct redis *redis, int64_t until) {
    redis->loading_until = until;
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

void redis_fail_write(struct redis *redis, uint64_t k, const char *error) {
    redis->fail_at = k;
    redis->write_failed = false;
    snprintf(redis->fail_text, sizeof redis->fail_text, "%s", error ? error : REDIS_OOM);
}

void redis_fail_writes(struct redis *redis, const char *error) {
    snprintf(redis->fail_always, sizeof redis->fail_always, "%s", error ? error : "");
}

bool redis_write_failed(const struct redis *redis) {
    return redis->write_failed;
}

void redis_set_nonsense(struct redis *redis, unsigned one_in) {
    redis->nonsense = one_in;
}

void redis_flush_all(struct redis *redis, int64_t now) {
    redis_do(redis, now, NULL, 0, "FLUSHALL");
}

/* ---- The operator --------------------------------------------------------------------------------------------------------- */

static bool say_reply(struct session *session, char *reply, size_t size) {
    size_t n = session->out.size < size ? session->out.size : size - 1;
    bool good = session->out.size > 0 && session->out.bytes[0] != '-';

    if (reply && size) {
        memcpy(reply, session->out.bytes, n);
        reply[n] = '\0';
    }
    session->out.size = 0;
    return good;
}

bool redis_do(struct redis *redis, int64_t now, char *reply, size_t size, const char *format, ...) {
    struct session *session = redis->own_session;
    struct words words = {0};
    char *line = NULL, error[128];
    va_list args;
    bool good;
    int n;

    if (reply && size)
        reply[0] = '\0';
    va_start(args, format);
    n = vasprintf(&line, format, args);
    va_end(args);
    if (n < 0)
        abort();
    redis__set_now(redis, now);
    line[n] = '\n'; /* in the place of the end, which inline_parse does not look for */
    if (!redis->up || redis__inline_parse(line, (size_t)n + 1, &words, error, sizeof error) <= 0 || words.count == 0) {
        good = false;
    } else {
        unsigned nonsense = redis->nonsense;

        redis->nonsense = 0;
        redis__command_run(session, words.count, words.list);
        redis->nonsense = nonsense;
        good = say_reply(session, reply, size);
        redis__sessions_write(redis);
        if (redis->on_due)
            redis->on_due(redis->on_due_data);
    }
    free(line);
    free(words.list);
    free(words.inline_copy);
    return good;
}

/* ---- What is in it -------------------------------------------------------------------------------------------------------- */

size_t redis_key_count(const struct redis *redis) {
    return redis->dbs[0].count;
}

struct redis_counts redis_counts(const struct redis *redis) {
    return redis->counts;
}

static void add_part(struct buffer *text, struct text part) {
    if (text->size)
        redis__buffer_add(text, " ", 1);
    redis__buffer_add(text, part.s, part.n);
}

static void add_value(struct buffer *text, const struct value *value) {
    char number[64];

    if (value->type == VALUE_STRING)
        redis__buffer_add(text, value->string.s, value->string.n);
    for (size_t i = 0; value->type != VALUE_STRING && i < value->count; i++) {
        if (value->type == VALUE_LIST) {
            add_part(text, value->items[i]);
        } else if (value->type == VALUE_HASH) {
            add_part(text, value->fields[i].name);
            add_part(text, value->fields[i].value);
        } else {
            add_part(text, value->members[i].name);
            add_part(text, (struct text){number, redis__double_text(value->members[i].score, number, sizeof number)});
        }
    }
    redis__buffer_add(text, "", 1);
}

static int compare_keys(const void *a, const void *b) {
    return text_compare((*(struct key *const *)a)->name, (*(struct key *const *)b)->name);
}

void redis_each_key(struct redis *redis, int64_t now, redis_key_fn *each, void *data) {
    size_t count = 0;
    struct key *key, **list;

    redis__set_now(redis, now);
    redis__begin_moment(redis);
    if (!redis->dbs[0].count)
        return;
    list = redis_alloc(redis->dbs[0].count * sizeof *list);
    TAILQ_FOREACH(key, &redis->dbs[0].keys, entry) {
        if (!redis__store_ended(redis, key))
            list[count++] = key;
    }
    qsort(list, count, sizeof *list, compare_keys);
    for (size_t i = 0; i < count; i++) {
        struct buffer text = {0};

        add_value(&text, list[i]->value);
        each(list[i]->name.s, redis__value_type_name(list[i]->value->type), list[i]->expires, text.bytes, data);
        redis__buffer_free(&text);
    }
    free(list);
}
