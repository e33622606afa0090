/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_keys.c - commands on keys of any type: whether they are there, and for how long.
 */
#include <stdio.h>

#include "redis_commands.h"

void redis__command_del(struct ctx *ctx) {
    int gone = 0;

    for (int i = 1; i < ctx->argc; i++) {
        struct key *key = redis__look(ctx, ctx->argv[i]);

        if (key) {
            redis__store_remove(ctx->redis, ctx->session->db, key);
            gone++;
        }
    }
    redis__reply_int(ctx, gone);
}

void redis__command_exists(struct ctx *ctx) {
    int count = 0;

    for (int i = 1; i < ctx->argc; i++)
        count += redis__look(ctx, ctx->argv[i]) != NULL;
    redis__reply_int(ctx, count);
}

void redis__command_type(struct ctx *ctx) {
    struct key *key = redis__look(ctx, ctx->argv[1]);

    redis__reply_status(ctx, key ? redis__value_type_name(key->value->type) : "none");
}

void redis__command_rename(struct ctx *ctx) {
    bool only_new = ctx->command->name[6] == 'n';
    struct key *key = redis__look(ctx, ctx->argv[1]);
    struct value *value;
    int64_t expires;

    if (!key) {
        redis__reply_error(ctx, "ERR no such key");
        return;
    }
    if (text_equal(ctx->argv[1], ctx->argv[2]) || (only_new && redis__look(ctx, ctx->argv[2]))) {
        if (only_new)
            redis__reply_int(ctx, 0);
        else
            redis__reply_status(ctx, "OK");
        return;
    }
    value = redis__value_ref(key->value);
    expires = key->expires;
    redis__store_remove(ctx->redis, ctx->session->db, key);
    redis__store_put(ctx->redis, ctx->session->db, ctx->argv[2], value, expires);
    if (only_new)
        redis__reply_int(ctx, 1);
    else
        redis__reply_status(ctx, "OK");
}

void redis__command_object(struct ctx *ctx) {
    struct key *key = ctx->argc == 3 ? redis__look(ctx, ctx->argv[2]) : NULL;
    int64_t number;

    if (ctx->argc != 3 || !(redis__text_is(ctx->argv[1], "ENCODING") || redis__text_is(ctx->argv[1], "REFCOUNT"))) {
        redis__reply_error(ctx, "ERR unknown subcommand or wrong number of arguments for '%.128s'. Try OBJECT HELP.",
                           ctx->argv[1].s);
    } else if (!key) {
        redis__reply_nil(ctx);
    } else if (redis__text_is(ctx->argv[1], "REFCOUNT")) {
        redis__reply_int(ctx, 1);
    } else if (key->value->type == VALUE_STRING) {
        redis__reply_string(ctx, redis__text_to_int(key->value->string, &number) ? "int"
                                 : key->value->string.n <= 44                    ? "embstr"
                                                                                 : "raw");
    } else if (key->value->type == VALUE_HASH) {
        redis__reply_string(ctx, key->value->large ? "hashtable" : "listpack");
    } else {
        redis__reply_string(ctx, key->value->type == VALUE_LIST ? "quicklist" : "listpack");
    }
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

enum { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };

static bool parse_expire(struct ctx *ctx, unsigned *ret) {
    static const char *const words[] = {"NX", "XX", "GT", "LT"};

    *ret = 0;
    for (int i = 3; i < ctx->argc; i++) {
        unsigned w = 0;

        while (w < 4 && !redis__text_is(ctx->argv[i], words[w]))
            w++;
        *ret |= 1U << w;
        if (w == 4) {
            redis__reply_error(ctx, "ERR Unsupported option %.*s", (int)ctx->argv[i].n, ctx->argv[i].s);
            return false;
        }
    }
    if ((*ret & EXPIRE_NX) && (*ret & ~(unsigned)EXPIRE_NX))
        redis__reply_error(ctx, "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if ((*ret & EXPIRE_GT) && (*ret & EXPIRE_LT))
        redis__reply_error(ctx, "ERR GT and LT options at the same time are not compatible");
    else
        return true;
    return false;
}

static bool expire_applies(const struct key *key, unsigned flags, int64_t when) {
    if ((flags & EXPIRE_NX) && key->expires >= 0)
        return false;
    if ((flags & EXPIRE_XX) && key->expires < 0)
        return false;
    if ((flags & EXPIRE_GT) && (key->expires < 0 || when <= key->expires))
        return false;
    return !((flags & EXPIRE_LT) && key->expires >= 0 && when >= key->expires);
}

/* EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT. */
void redis__command_expire(struct ctx *ctx) {
    const char *name = ctx->command->name;
    bool seconds = name[0] == 'e', absolute = strcmp(name + strlen(name) - 2, "at") == 0;
    int64_t when, now = redis__wall_ms_now(ctx->redis), base = absolute ? 0 : now;
    struct key *key;
    unsigned flags;

    if (!parse_expire(ctx, &flags) || !redis__arg_int(ctx, 2, &when))
        return;
    if ((seconds && (when > INT64_MAX / 1000 || when < INT64_MIN / 1000)) || (seconds ? when * 1000 : when) > INT64_MAX - base) {
        redis__reply_error(ctx, "ERR invalid expire time in '%s' command", name);
        return;
    }
    when = (seconds ? when * 1000 : when) + base;
    key = redis__look(ctx, ctx->argv[1]);
    if (!key || !expire_applies(key, flags, when)) {
        redis__reply_int(ctx, 0);
        return;
    }
    if (when <= now && !redis__peer_is_replica(ctx->redis))
        redis__store_remove(ctx->redis, ctx->session->db, key);
    else
        redis__store_set_expiry(ctx->redis, ctx->session->db, key, when);
    redis__reply_int(ctx, 1);
}

void redis__command_persist(struct ctx *ctx) {
    struct key *key = redis__look(ctx, ctx->argv[1]);
    bool had = key && key->expires >= 0;

    if (had)
        redis__store_set_expiry(ctx->redis, ctx->session->db, key, -1);
    redis__reply_int(ctx, had);
}

/* TTL, PTTL, EXPIRETIME, PEXPIRETIME. */
void redis__command_ttl(struct ctx *ctx) {
    bool ms = ctx->command->name[0] == 'p', absolute = strstr(ctx->command->name, "time") != NULL;
    struct key *key = redis__look(ctx, ctx->argv[1]);
    int64_t left;

    if (!key || key->expires < 0) {
        redis__reply_int(ctx, key ? -1 : -2);
        return;
    }
    left = absolute ? key->expires : key->expires - redis__wall_ms_now(ctx->redis);
    left = left < 0 ? 0 : left;
    redis__reply_int(ctx, ms ? left : (left + 500) / 1000);
}

void redis__command_time(struct ctx *ctx) {
    int64_t us = (ctx->redis->frozen_time && ctx->redis->in_script ? ctx->redis->moment_ns : redis__wall_ns(ctx->redis)) / 1000;

    redis__reply_array(ctx, 2);
    redis__reply_number(ctx, us / 1000000);
    redis__reply_number(ctx, us % 1000000);
}

/* ---- All keys ------------------------------------------------------------------------------------------------------------- */

static bool shown(struct ctx *ctx, const struct key *key, struct text pattern) {
    return !redis__store_ended(ctx->redis, key) && redis__text_matches(key->name, pattern);
}

void redis__command_keys(struct ctx *ctx) {
    struct database *db = &ctx->redis->dbs[ctx->session->db];
    struct key *key;
    int64_t count = 0;

    if (!db->count) {
        redis__reply_array(ctx, 0);
        return;
    }
    TAILQ_FOREACH(key, &db->keys, entry)
    count += shown(ctx, key, ctx->argv[1]);
    redis__reply_array(ctx, count);
    TAILQ_FOREACH(key, &db->keys, entry) {
        if (shown(ctx, key, ctx->argv[1]))
            redis__reply_bulk(ctx, key->name);
    }
}

struct scan {
    int64_t cursor, count;
    struct text match, type;
};

static bool parse_scan(struct ctx *ctx, struct scan *ret) {
    *ret = (struct scan){.count = 10, .match = TEXT("*")};
    if (!redis__text_to_int(ctx->argv[1], &ret->cursor) || ret->cursor < 0) {
        redis__reply_error(ctx, "ERR invalid cursor");
        return false;
    }
    for (int i = 2; i < ctx->argc; i += 2) {
        if (i + 1 < ctx->argc && redis__text_is(ctx->argv[i], "COUNT")) {
            if (!redis__arg_int(ctx, i + 1, &ret->count))
                return false;
            if (ret->count >= 1)
                continue;
        } else if (i + 1 < ctx->argc && redis__text_is(ctx->argv[i], "MATCH")) {
            ret->match = ctx->argv[i + 1];
            continue;
        } else if (i + 1 < ctx->argc && redis__text_is(ctx->argv[i], "TYPE")) {
            ret->type = ctx->argv[i + 1];
            continue;
        }
        redis__reply_syntax(ctx);
        return false;
    }
    return true;
}

/* In order of their making: the cursor is the number of the last one that was looked at, so that none is passed over. */
void redis__command_scan(struct ctx *ctx) {
    struct database *db = &ctx->redis->dbs[ctx->session->db];
    struct key *key, *first, *end;
    int64_t found = 0, looked = 0;
    struct scan scan;

    if (!parse_scan(ctx, &scan))
        return;
    first = db->count ? TAILQ_FIRST(&db->keys) : NULL;
    while (first && first->serial <= (uint64_t)scan.cursor)
        first = TAILQ_NEXT(first, entry);
    for (end = first; end && looked < scan.count; end = TAILQ_NEXT(end, entry), looked++)
        found += shown(ctx, end, scan.match) &&
                 (!scan.type.n || redis__text_is(scan.type, redis__value_type_name(end->value->type)));
    redis__reply_array(ctx, 2);
    redis__reply_number(ctx, end ? (int64_t)TAILQ_PREV(end, keys, entry)->serial : 0);
    redis__reply_array(ctx, found);
    for (key = first; key != end; key = TAILQ_NEXT(key, entry))
        if (shown(ctx, key, scan.match) && (!scan.type.n || redis__text_is(scan.type, redis__value_type_name(key->value->type))))
            redis__reply_bulk(ctx, key->name);
}

void redis__command_dbsize(struct ctx *ctx) {
    redis__reply_int(ctx, (int64_t)ctx->redis->dbs[ctx->session->db].count);
}

/* FLUSHALL, FLUSHDB. */
void redis__command_flush(struct ctx *ctx) {
    if (ctx->argc > 2 || (ctx->argc == 2 && !redis__text_is(ctx->argv[1], "SYNC") && !redis__text_is(ctx->argv[1], "ASYNC"))) {
        redis__reply_syntax(ctx);
        return;
    }
    redis__store_flush(ctx->redis, ctx->command->name[5] == 'a' ? -1 : (int)ctx->session->db);
    redis__reply_status(ctx, "OK");
}
