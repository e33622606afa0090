/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_lists.c - commands on lists: those that programs use which queue by one.
 */
#include "redis_commands.h"

static void push(struct ctx *ctx, bool left) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);
    struct value *list;
    size_t count;

    if (!ok)
        return;
    list = key ? redis__store_open(ctx->redis, ctx->session->db, key) : redis__value_new(VALUE_LIST, 0);
    for (int i = 2; i < ctx->argc; i++)
        redis__list_insert(list, left ? 0 : list->count, ctx->argv[i]);
    count = list->count;
    if (key)
        redis__store_changed(ctx->redis, ctx->session->db, key);
    else
        redis__store_put(ctx->redis, ctx->session->db, ctx->argv[1], list, -1);
    redis__reply_int(ctx, (int64_t)count);
}

void redis__command_lpush(struct ctx *ctx) {
    push(ctx, true);
}

void redis__command_rpush(struct ctx *ctx) {
    push(ctx, false);
}

static void pop(struct ctx *ctx, bool left) {
    bool ok, many = ctx->argc > 2;
    int64_t wanted = 1;
    struct value *list;
    struct key *key;

    if (ctx->argc > 3) {
        redis__reply_arity(ctx);
        return;
    }
    if (many && (!redis__text_to_int(ctx->argv[2], &wanted) || wanted < 0)) {
        redis__reply_error(ctx, "ERR value is out of range, must be positive");
        return;
    }
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);
    if (!ok)
        return;
    if (!key) {
        if (many)
            redis__reply_nil_array(ctx);
        else
            redis__reply_nil(ctx);
        return;
    }
    if (many) {
        wanted = wanted < (int64_t)key->value->count ? wanted : (int64_t)key->value->count;
        redis__reply_array(ctx, wanted);
        if (wanted == 0)
            return;
    }
    list = redis__store_open(ctx->redis, ctx->session->db, key);
    for (int64_t i = 0; i < wanted; i++) {
        size_t at = left ? 0 : list->count - 1;

        redis__reply_bulk(ctx, list->items[at]);
        redis__list_remove(list, at);
    }
    redis__store_changed(ctx->redis, ctx->session->db, key);
}

void redis__command_lpop(struct ctx *ctx) {
    pop(ctx, true);
}

void redis__command_rpop(struct ctx *ctx) {
    pop(ctx, false);
}

void redis__command_llen(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);

    if (ok)
        redis__reply_int(ctx, key ? (int64_t)key->value->count : 0);
}

void redis__command_lindex(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);
    int64_t at, count = ok && key ? (int64_t)key->value->count : 0;

    if (!ok)
        return;
    if (!key) {
        redis__reply_nil(ctx);
        return;
    }
    if (!redis__arg_int(ctx, 2, &at))
        return;
    at = at < 0 ? at + count : at;
    if (at >= 0 && at < count)
        redis__reply_bulk(ctx, key->value->items[at]);
    else
        redis__reply_nil(ctx);
}

void redis__command_lrange(struct ctx *ctx) {
    int64_t first, last, count;
    struct key *key;
    bool ok;

    if (!redis__arg_int(ctx, 2, &first) || !redis__arg_int(ctx, 3, &last))
        return;
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);
    if (!ok)
        return;
    count = key ? (int64_t)key->value->count : 0;
    redis__range_of(count, &first, &last);
    redis__reply_array(ctx, last - first);
    for (int64_t i = first; i < last; i++)
        redis__reply_bulk(ctx, key->value->items[i]);
}

void redis__command_lrem(struct ctx *ctx) {
    int64_t most, gone = 0;
    struct value *list;
    struct key *key;
    bool ok, backward;

    if (!redis__arg_int(ctx, 2, &most))
        return;
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_LIST, &ok);
    if (!ok)
        return;
    backward = most < 0;
    most = most == INT64_MIN ? INT64_MAX : backward ? -most : most;
    for (size_t i = 0; key && i < key->value->count; i++)
        gone += text_equal(key->value->items[i], ctx->argv[3]);
    gone = most && most < gone ? most : gone;
    if (gone) {
        int64_t left = gone;

        list = redis__store_open(ctx->redis, ctx->session->db, key);
        for (size_t i = 0; i < list->count && left;) {
            size_t at = backward ? list->count - 1 - i : i;

            if (text_equal(list->items[at], ctx->argv[3])) {
                redis__list_remove(list, at);
                left--;
            } else {
                i++;
            }
        }
        redis__store_changed(ctx->redis, ctx->session->db, key);
    }
    redis__reply_int(ctx, gone);
}
