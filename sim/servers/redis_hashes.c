/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_hashes.c - commands on hashes.
 */
#include <stdio.h>

#include "redis_commands.h"

/* The hash to be changed: the one that is there, or a new one. NULL: something else is there, and that was said. */
static struct value *open_hash(struct ctx *ctx, struct key **ret) {
    bool ok;

    *ret = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, &ok);
    if (!ok)
        return NULL;
    return *ret ? redis__store_open(ctx->redis, ctx->session->db, *ret) : redis__value_new(VALUE_HASH, ctx->redis->seed);
}

static void put_hash(struct ctx *ctx, struct key *key, struct value *hash) {
    if (key)
        redis__store_changed(ctx->redis, ctx->session->db, key);
    else
        redis__store_put(ctx->redis, ctx->session->db, ctx->argv[1], hash, -1);
}

static struct field *find(struct ctx *ctx, struct text name, bool *ok) {
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, ok);

    return *ok && key ? redis__hash_find(key->value, name) : NULL;
}

void redis__command_hset(struct ctx *ctx) {
    struct value *hash;
    struct key *key;
    int made = 0;

    if (ctx->argc % 2) {
        redis__reply_arity(ctx);
        return;
    }
    hash = open_hash(ctx, &key);
    if (!hash)
        return;
    for (int i = 2; i < ctx->argc; i += 2)
        made += redis__hash_set(hash, ctx->argv[i], ctx->argv[i + 1], ctx->redis->hash_most);
    put_hash(ctx, key, hash);
    if (ctx->command->name[1] == 'm')
        redis__reply_status(ctx, "OK");
    else
        redis__reply_int(ctx, made);
}

void redis__command_hsetnx(struct ctx *ctx) {
    struct value *hash;
    struct key *key;
    bool ok, there = find(ctx, ctx->argv[2], &ok) != NULL;

    if (!ok)
        return;
    if (!there) {
        hash = open_hash(ctx, &key);
        redis__hash_set(hash, ctx->argv[2], ctx->argv[3], ctx->redis->hash_most);
        put_hash(ctx, key, hash);
    }
    redis__reply_int(ctx, !there);
}

void redis__command_hget(struct ctx *ctx) {
    bool ok;
    struct field *field = find(ctx, ctx->argv[2], &ok);

    if (ok && field)
        redis__reply_bulk(ctx, field->value);
    else if (ok)
        redis__reply_nil(ctx);
}

void redis__command_hmget(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, &ok);

    if (!ok)
        return;
    redis__reply_array(ctx, ctx->argc - 2);
    for (int i = 2; i < ctx->argc; i++) {
        struct field *field = key ? redis__hash_find(key->value, ctx->argv[i]) : NULL;

        if (field)
            redis__reply_bulk(ctx, field->value);
        else
            redis__reply_nil(ctx);
    }
}

static void reply_fields(struct ctx *ctx, bool names, bool values) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, &ok);
    size_t count = key ? key->value->count : 0;

    if (!ok)
        return;
    redis__reply_array(ctx, (int64_t)(count * (size_t)(names + values)));
    for (size_t i = 0; i < count; i++) {
        if (names)
            redis__reply_bulk(ctx, key->value->fields[i].name);
        if (values)
            redis__reply_bulk(ctx, key->value->fields[i].value);
    }
}

void redis__command_hgetall(struct ctx *ctx) {
    reply_fields(ctx, true, true);
}

void redis__command_hkeys(struct ctx *ctx) {
    reply_fields(ctx, true, false);
}

void redis__command_hvals(struct ctx *ctx) {
    reply_fields(ctx, false, true);
}

void redis__command_hlen(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, &ok);

    if (ok)
        redis__reply_int(ctx, key ? (int64_t)key->value->count : 0);
}

void redis__command_hexists(struct ctx *ctx) {
    bool ok, there = find(ctx, ctx->argv[2], &ok) != NULL;

    if (ok)
        redis__reply_int(ctx, there);
}

void redis__command_hstrlen(struct ctx *ctx) {
    bool ok;
    struct field *field = find(ctx, ctx->argv[2], &ok);

    if (ok)
        redis__reply_int(ctx, field ? (int64_t)field->value.n : 0);
}

void redis__command_hdel(struct ctx *ctx) {
    bool ok, any = false;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_HASH, &ok);
    struct value *hash;
    int gone = 0;

    if (!ok)
        return;
    for (int i = 2; i < ctx->argc && key; i++)
        any |= redis__hash_find(key->value, ctx->argv[i]) != NULL;
    if (any) {
        hash = redis__store_open(ctx->redis, ctx->session->db, key);
        for (int i = 2; i < ctx->argc; i++)
            gone += redis__hash_remove(hash, ctx->argv[i]);
        redis__store_changed(ctx->redis, ctx->session->db, key);
    }
    redis__reply_int(ctx, gone);
}

void redis__command_hincrby(struct ctx *ctx) {
    int64_t by, number = 0;
    struct field *field;
    struct value *hash;
    struct key *key;
    char text[32];
    bool ok;

    if (!redis__arg_int(ctx, 3, &by))
        return;
    field = find(ctx, ctx->argv[2], &ok);
    if (!ok)
        return;
    if (field && !redis__text_to_int(field->value, &number)) {
        redis__reply_error(ctx, "ERR hash value is not an integer");
    } else if (__builtin_add_overflow(number, by, &number)) {
        redis__reply_error(ctx, "ERR increment or decrement would overflow");
    } else {
        hash = open_hash(ctx, &key);
        snprintf(text, sizeof text, "%lld", (long long)number);
        redis__hash_set(hash, ctx->argv[2], (struct text){text, strlen(text)}, ctx->redis->hash_most);
        put_hash(ctx, key, hash);
        redis__reply_int(ctx, number);
    }
}
