/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_zsets.c - commands on sorted sets.
 */
#include <math.h>

#include "redis_commands.h"

/* From first to last as a command has them (from the end if negative) to the half-open range of what is there. */
void redis__range_of(int64_t count, int64_t *first, int64_t *last) {
    *first = *first < 0 ? *first + count : *first;
    *last = *last < 0 ? *last + count : *last;
    *first = *first < 0 ? 0 : *first;
    *last = *last >= count ? count - 1 : *last;
    if (*first > *last || *first >= count)
        *first = *last = 0;
    else
        ++*last;
}

/* ---- ZADD ----------------------------------------------------------------------------------------------------------------- */

struct zadd {
    bool nx, xx, gt, lt, changed, incr;
    int first; /* where the scores begin */
    int added, updated;
    bool is_nan, has_score;
    double score; /* the last */
};

static bool parse_zadd(struct ctx *ctx, struct zadd *ret) {
    int i = 2;

    for (; i < ctx->argc; i++) {
        if (redis__text_is(ctx->argv[i], "NX"))
            ret->nx = true;
        else if (redis__text_is(ctx->argv[i], "XX"))
            ret->xx = true;
        else if (redis__text_is(ctx->argv[i], "GT"))
            ret->gt = true;
        else if (redis__text_is(ctx->argv[i], "LT"))
            ret->lt = true;
        else if (redis__text_is(ctx->argv[i], "CH"))
            ret->changed = true;
        else if (redis__text_is(ctx->argv[i], "INCR"))
            ret->incr = true;
        else
            break;
    }
    ret->first = i;
    if ((ctx->argc - i) % 2 || ctx->argc == i)
        redis__reply_syntax(ctx);
    else if (ret->nx && ret->xx)
        redis__reply_error(ctx, "ERR XX and NX options at the same time are not compatible");
    else if ((ret->gt && ret->nx) || (ret->lt && ret->nx) || (ret->gt && ret->lt))
        redis__reply_error(ctx, "ERR GT, LT, and/or NX options at the same time are not compatible");
    else if (ret->incr && ctx->argc - i > 2)
        redis__reply_error(ctx, "ERR INCR option supports a single increment-element pair");
    else
        return true;
    return false;
}

static void add_one(struct value *zset, struct zadd *how, double score, struct text name) {
    long rank = redis__zset_find(zset, name);

    if (rank < 0) {
        if (how->xx)
            return;
        redis__zset_add(zset, name, score);
        how->added++;
    } else {
        double old = zset->members[rank].score;

        if (how->nx)
            return;
        score = how->incr ? old + score : score;
        how->is_nan = isnan(score);
        if (how->is_nan || (how->lt && score >= old) || (how->gt && score <= old))
            return;
        if (score != old) {
            redis__zset_remove(zset, (size_t)rank, 1);
            redis__zset_add(zset, name, score);
            how->updated++;
        }
    }
    how->has_score = true;
    how->score = score;
}

static void add_all(struct ctx *ctx, struct zadd *how) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    struct value *zset;
    double score;

    if (!ok)
        return;
    if (key || !how->xx) {
        zset = key ? redis__store_open(ctx->redis, ctx->session->db, key) : redis__value_new(VALUE_ZSET, 0);
        for (int i = how->first; i + 1 < ctx->argc && !how->is_nan; i += 2) {
            redis__text_to_double(ctx->argv[i], &score);
            add_one(zset, how, score, ctx->argv[i + 1]);
        }
        if (!key)
            redis__store_put(ctx->redis, ctx->session->db, ctx->argv[1], zset, -1);
        else if (how->added || how->updated)
            redis__store_changed(ctx->redis, ctx->session->db, key);
    }
    if (how->is_nan)
        redis__reply_error(ctx, "ERR resulting score is not a number (NaN)");
    else if (!how->incr)
        redis__reply_int(ctx, how->changed ? how->added + how->updated : how->added);
    else if (how->has_score)
        redis__reply_double(ctx, how->score);
    else
        redis__reply_nil(ctx);
}

void redis__command_zadd(struct ctx *ctx) {
    struct zadd how = {.incr = ctx->command->name[1] == 'i'};
    double score;

    if (how.incr)
        how.first = 2;
    else if (!parse_zadd(ctx, &how))
        return;
    for (int i = how.first; i < ctx->argc; i += 2)
        if (!redis__arg_double(ctx, i, &score))
            return;
    add_all(ctx, &how);
}

/* ---- One member, or their number ------------------------------------------------------------------------------------------ */

void redis__command_zrem(struct ctx *ctx) {
    bool ok, any = false;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    struct value *zset;
    int gone = 0;

    if (!ok)
        return;
    for (int i = 2; i < ctx->argc && key; i++)
        any |= redis__zset_find(key->value, ctx->argv[i]) >= 0;
    if (any) {
        zset = redis__store_open(ctx->redis, ctx->session->db, key);
        for (int i = 2; i < ctx->argc; i++) {
            long rank = redis__zset_find(zset, ctx->argv[i]);

            if (rank >= 0) {
                redis__zset_remove(zset, (size_t)rank, 1);
                gone++;
            }
        }
        redis__store_changed(ctx->redis, ctx->session->db, key);
    }
    redis__reply_int(ctx, gone);
}

void redis__command_zcard(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);

    if (ok)
        redis__reply_int(ctx, key ? (int64_t)key->value->count : 0);
}

void redis__command_zscore(struct ctx *ctx) {
    bool ok;
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    long rank = ok && key ? redis__zset_find(key->value, ctx->argv[2]) : -1;

    if (rank >= 0)
        redis__reply_double(ctx, key->value->members[rank].score);
    else if (ok)
        redis__reply_nil(ctx);
}

void redis__command_zrank(struct ctx *ctx) {
    bool ok, reverse = ctx->command->name[1] == 'r' && ctx->command->name[2] == 'e';
    struct key *key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    long rank = ok && key ? redis__zset_find(key->value, ctx->argv[2]) : -1;

    if (rank >= 0)
        redis__reply_int(ctx, reverse ? (int64_t)key->value->count - 1 - rank : rank);
    else if (ok)
        redis__reply_nil(ctx);
}

/* ---- Ranges --------------------------------------------------------------------------------------------------------------- */

struct bounds {
    double min, max;
    bool above_min, below_max; /* without the ends */
};

static bool parse_bound(struct text text, double *ret, bool *open) {
    char copy[256], *end;
    size_t skip = text.n && text.s[0] == '(';

    *open = skip;
    if (text.n - skip >= sizeof copy)
        return false;
    memcpy(copy, text.s + skip, text.n - skip);
    copy[text.n - skip] = '\0';
    *ret = strtod(copy, &end);
    return !*end && !isnan(*ret);
}

static bool parse_bounds(struct ctx *ctx, int min, int max, struct bounds *ret) {
    if (parse_bound(ctx->argv[min], &ret->min, &ret->above_min) && parse_bound(ctx->argv[max], &ret->max, &ret->below_max))
        return true;
    redis__reply_error(ctx, "ERR min or max is not a float");
    return false;
}

/* As the half-open range of ranks. */
static void ranks_of(const struct value *zset, const struct bounds *bounds, int64_t *first, int64_t *last) {
    *first = *last = 0;
    if (!zset || bounds->min > bounds->max || (bounds->min == bounds->max && (bounds->above_min || bounds->below_max)))
        return;
    *first = (int64_t)redis__zset_lower(zset, bounds->min, bounds->above_min);
    *last = (int64_t)redis__zset_lower(zset, bounds->max, !bounds->below_max);
    if (*last < *first)
        *last = *first;
}

struct zrange {
    bool by_score, reverse, scores, limited;
    int64_t offset, limit;
};

static bool parse_zrange(struct ctx *ctx, struct zrange *ret, bool may_choose) {
    for (int i = 4; i < ctx->argc; i++) {
        struct text word = ctx->argv[i];

        if (redis__text_is(word, "WITHSCORES"))
            ret->scores = true;
        else if (redis__text_is(word, "LIMIT") && i + 2 < ctx->argc) {
            if (!redis__arg_int(ctx, i + 1, &ret->offset) || !redis__arg_int(ctx, i + 2, &ret->limit))
                return false;
            ret->limited = true;
            i += 2;
        } else if (may_choose && redis__text_is(word, "REV"))
            ret->reverse = true;
        else if (may_choose && redis__text_is(word, "BYSCORE"))
            ret->by_score = true;
        else {
            redis__reply_syntax(ctx);
            return false;
        }
    }
    if (ret->limit != -1 && ret->limited && !ret->by_score) {
        redis__reply_error(ctx, "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
        return false;
    }
    return true;
}

static void reply_range(struct ctx *ctx, const struct value *zset, const struct zrange *how, int64_t first, int64_t last) {
    int64_t count = last - first, skip = 0;

    if (how->limited && how->by_score) {
        skip = how->offset < 0 || how->offset > count ? count : how->offset;
        count -= skip;
        count = how->limit >= 0 && how->limit < count ? how->limit : count;
    }
    redis__reply_array(ctx, count * (1 + how->scores));
    for (int64_t i = 0; i < count; i++) {
        const struct member *member = &zset->members[how->reverse ? last - 1 - skip - i : first + skip + i];

        redis__reply_bulk(ctx, member->name);
        if (how->scores)
            redis__reply_double(ctx, member->score);
    }
}

static void range_command(struct ctx *ctx, struct zrange how, bool may_choose) {
    struct bounds bounds = {0};
    int64_t first, last;
    struct key *key;
    bool ok;

    if (!parse_zrange(ctx, &how, may_choose))
        return;
    if (how.by_score) {
        if (!parse_bounds(ctx, how.reverse ? 3 : 2, how.reverse ? 2 : 3, &bounds))
            return;
    } else if (!redis__arg_int(ctx, 2, &first) || !redis__arg_int(ctx, 3, &last)) {
        return;
    }
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    if (!ok)
        return;
    if (how.by_score) {
        ranks_of(key ? key->value : NULL, &bounds, &first, &last);
    } else {
        int64_t count = key ? (int64_t)key->value->count : 0;

        redis__range_of(count, &first, &last);
        if (how.reverse && first < last) {
            int64_t swap = first;

            first = count - last;
            last = count - swap;
        }
    }
    reply_range(ctx, key ? key->value : NULL, &how, first, last);
}

void redis__command_zrange(struct ctx *ctx) {
    range_command(ctx, (struct zrange){.limit = -1}, true);
}

void redis__command_zrevrange(struct ctx *ctx) {
    range_command(ctx, (struct zrange){.limit = -1, .reverse = true}, false);
}

void redis__command_zrangebyscore(struct ctx *ctx) {
    range_command(ctx, (struct zrange){.limit = -1, .by_score = true}, false);
}

void redis__command_zrevrangebyscore(struct ctx *ctx) {
    range_command(ctx, (struct zrange){.limit = -1, .by_score = true, .reverse = true}, false);
}

void redis__command_zcount(struct ctx *ctx) {
    struct bounds bounds;
    int64_t first, last;
    struct key *key;
    bool ok;

    if (!parse_bounds(ctx, 2, 3, &bounds))
        return;
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    if (!ok)
        return;
    ranks_of(key ? key->value : NULL, &bounds, &first, &last);
    redis__reply_int(ctx, last - first);
}

/* ---- Ranges that go ------------------------------------------------------------------------------------------------------- */

static void remove_range(struct ctx *ctx, struct key *key, int64_t first, int64_t last) {
    if (first < last) {
        redis__zset_remove(redis__store_open(ctx->redis, ctx->session->db, key), (size_t)first, (size_t)(last - first));
        redis__store_changed(ctx->redis, ctx->session->db, key);
    }
}

void redis__command_zremrangebyscore(struct ctx *ctx) {
    struct bounds bounds;
    int64_t first, last;
    struct key *key;
    bool ok;

    if (!parse_bounds(ctx, 2, 3, &bounds))
        return;
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    if (!ok)
        return;
    ranks_of(key ? key->value : NULL, &bounds, &first, &last);
    remove_range(ctx, key, first, last);
    redis__reply_int(ctx, last - first);
}

void redis__command_zremrangebyrank(struct ctx *ctx) {
    int64_t first, last;
    struct key *key;
    bool ok;

    if (!redis__arg_int(ctx, 2, &first) || !redis__arg_int(ctx, 3, &last))
        return;
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    if (!ok)
        return;
    redis__range_of(key ? (int64_t)key->value->count : 0, &first, &last);
    remove_range(ctx, key, first, last);
    redis__reply_int(ctx, last - first);
}

void redis__command_zpop(struct ctx *ctx) {
    bool ok, most = ctx->command->name[5] == 'a';
    int64_t wanted = 1, count;
    struct key *key;

    if (ctx->argc > 3) {
        redis__reply_syntax(ctx);
        return;
    }
    if (ctx->argc > 2 && (!redis__text_to_int(ctx->argv[2], &wanted) || wanted < 0)) {
        redis__reply_error(ctx, "ERR value is out of range, must be positive");
        return;
    }
    key = redis__look_typed(ctx, ctx->argv[1], VALUE_ZSET, &ok);
    if (!ok)
        return;
    count = key ? (int64_t)key->value->count : 0;
    wanted = wanted < count ? wanted : count;
    redis__reply_array(ctx, wanted * 2);
    for (int64_t i = 0; i < wanted; i++) {
        const struct member *member = &key->value->members[most ? count - 1 - i : i];

        redis__reply_bulk(ctx, member->name);
        redis__reply_double(ctx, member->score);
    }
    remove_range(ctx, key, most ? count - wanted : 0, most ? count : wanted);
}
