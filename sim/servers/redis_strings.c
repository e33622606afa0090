/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_strings.c - commands on strings.
 */
#include <stdio.h>

#include "redis_commands.h"

static void put_string(struct ctx *ctx, struct text name, struct text text, int64_t expires) {
    redis__store_put(ctx->redis, ctx->session->db, name, redis__value_string(text), expires);
}

/* The string, or nil; false: it is something else, and that was said. */
static bool reply_get(struct ctx *ctx, struct text name) {
    bool ok;
    struct key *key = redis__look_typed(ctx, name, VALUE_STRING, &ok);

    if (ok && key)
        redis__reply_bulk(ctx, key->value->string);
    else if (ok)
        redis__reply_nil(ctx);
    return ok;
}

void redis__command_get(struct ctx *ctx) {
    reply_get(ctx, ctx->argv[1]);
}

/* ---- SET ------------------------------------------------------------------------------------------------------------------ */

struct set_options {
    bool nx, xx, get, keep;
    int time;     /* index of the option that gives a time; 0: none */
    int64_t when; /* wall ms; -1: none */
};

static bool parse_set(struct ctx *ctx, struct set_options *ret) {
    static const char *const times[] = {"EX", "PX", "EXAT", "PXAT"};

    *ret = (struct set_options){.when = -1};
    for (int i = 3; i < ctx->argc; i++) {
        struct text word = ctx->argv[i];
        bool is_time = false;

        for (int t = 0; t < 4; t++)
            is_time |= redis__text_is(word, times[t]);
        if (redis__text_is(word, "NX") && !ret->xx)
            ret->nx = true;
        else if (redis__text_is(word, "XX") && !ret->nx)
            ret->xx = true;
        else if (redis__text_is(word, "GET"))
            ret->get = true;
        else if (redis__text_is(word, "KEEPTTL") && !ret->time)
            ret->keep = true;
        else if (is_time && !ret->keep && !ret->time && i + 1 < ctx->argc)
            ret->time = i++;
        else {
            redis__reply_syntax(ctx);
            return false;
        }
    }
    return true;
}

/* A time to live, or a time, of such a unit, as wall ms. */
static bool parse_time(struct ctx *ctx, struct text unit, int index, int64_t *ret) {
    bool seconds = redis__text_is(unit, "EX") || redis__text_is(unit, "EXAT"), absolute = unit.n > 2;
    int64_t number, base = absolute ? 0 : redis__wall_ms_now(ctx->redis);

    if (!redis__arg_int(ctx, index, &number))
        return false;
    if (number <= 0 || (seconds && number > INT64_MAX / 1000) || (seconds ? number * 1000 : number) > INT64_MAX - base) {
        redis__reply_error(ctx, "ERR invalid expire time in '%s' command", ctx->command->name);
        return false;
    }
    *ret = (seconds ? number * 1000 : number) + base;
    return true;
}

void redis__command_set(struct ctx *ctx) {
    struct set_options options;
    struct key *key;

    if (!parse_set(ctx, &options) || (options.time && !parse_time(ctx, ctx->argv[options.time], options.time + 1, &options.when)))
        return;
    if (options.get && !reply_get(ctx, ctx->argv[1]))
        return;
    key = redis__look(ctx, ctx->argv[1]);
    if ((options.nx && key) || (options.xx && !key)) {
        if (!options.get)
            redis__reply_nil(ctx);
        return;
    }
    put_string(ctx, ctx->argv[1], ctx->argv[2], options.keep && key ? key->expires : options.when);
    if (!options.get)
        redis__reply_status(ctx, "OK");
}

void redis__command_setnx(struct ctx *ctx) {
    bool there = redis__look(ctx, ctx->argv[1]) != NULL;

    if (!there)
        put_string(ctx, ctx->argv[1], ctx->argv[2], -1);
    redis__reply_int(ctx, !there);
}

void redis__command_setex(struct ctx *ctx) {
    int64_t when;

    if (!parse_time(ctx, ctx->command->name[0] == 'p' ? TEXT("PX") : TEXT("EX"), 2, &when))
        return;
    put_string(ctx, ctx->argv[1], ctx->argv[3], when);
    redis__reply_status(ctx, "OK");
}

void redis__command_getset(struct ctx *ctx) {
    if (reply_get(ctx, ctx->argv[1]))
        put_string(ctx, ctx->argv[1], ctx->argv[2], -1);
}

void redis__command_getdel(struct ctx *ctx) {
    struct key *key;

    if (reply_get(ctx, ctx->argv[1]) && (key = redis__look(ctx, ctx->argv[1])))
        redis__store_remove(ctx->redis, ctx->session->db, key);
}

void redis__command_mget(struct ctx *ctx) {
    redis__reply_array(ctx, ctx->argc - 1);
    for (int i = 1; i < ctx->argc; i++) {
        struct key *key = redis__look(ctx, ctx->argv[i]);

        if (key && key->value->type == VALUE_STRING)
            redis__reply_bulk(ctx, key->value->string);
        else
            redis__reply_nil(ctx);
    }
}

void redis__command_mset(struct ctx *ctx) {
    if (ctx->argc % 2 == 0) {
        redis__reply_arity(ctx);
        return;
    }
    for (int i = 1; i < ctx->argc; i += 2)
        put_string(ctx, ctx->argv[i], ctx->argv[i + 1], -1);
    redis__reply_status(ctx, "OK");
}

void redis__command_strlen(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_STRING, &ok);

    if (ok)
        redis__reply_int(ctx, key ? (int64_t)key->value->string.n : 0);
}

void redis__command_append(struct ctx *ctx) {
    struct buffer joined = {0};
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_STRING, &ok);

    if (!ok)
        return;
    if (key)
        redis__buffer_add(&joined, key->value->string.s, key->value->string.n);
    redis__buffer_add(&joined, ctx->argv[2].s, ctx->argv[2].n);
    put_string(ctx, ctx->argv[1], (struct text){joined.bytes, joined.size}, key ? key->expires : -1);
    redis__reply_int(ctx, (int64_t)joined.size);
    redis__buffer_free(&joined);
}

/* ---- Counters ------------------------------------------------------------------------------------------------------------- */

static void add(struct ctx *ctx, int64_t by) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_STRING, &ok);
    int64_t number = 0;
    char text[32];

    if (!ok)
        return;
    if (key && !redis__text_to_int(key->value->string, &number)) {
        redis__reply_error(ctx, "ERR value is not an integer or out of range");
        return;
    }
    if (__builtin_add_overflow(number, by, &number)) {
        redis__reply_error(ctx, "ERR increment or decrement would overflow");
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)number);
    put_string(ctx, ctx->argv[1], (struct text){text, strlen(text)}, key ? key->expires : -1);
    redis__reply_int(ctx, number);
}

void redis__command_incr(struct ctx *ctx) {
    add(ctx, 1);
}

void redis__command_decr(struct ctx *ctx) {
    add(ctx, -1);
}

void redis__command_incrby(struct ctx *ctx) {
    int64_t by;

    if (redis__arg_int(ctx, 2, &by))
        add(ctx, by);
}

void redis__command_decrby(struct ctx *ctx) {
    int64_t by;

    if (!redis__arg_int(ctx, 2, &by))
        return;
    if (by == INT64_MIN)
        redis__reply_error(ctx, "ERR decrement would overflow");
    else
        add(ctx, -by);
}
