/* SPDX-License-Identifier: Apache-2.0
 *
 * lock_view.c - who holds a lock and who waits for it, as the server has it.
 *
 * One script reads all of a lock (lua/survey.lua). The lock's own key says who holds, also where a foreign client wrote it; the records
 * (docs/redis.md says where they lie) only add names to owners that are pawl's. A holder without a record is foreign. It has no token, or
 * one that is not ours to know, and still must be named in order to be broken: it is shown with a number made of its owner's name.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/redis/view/view.h"

/* The value that follows `key` in a flat list of pairs. */
static const redisReply *pair_value(const redisReply *list, const char *key, size_t length) {
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (list->element[i]->len == length && memcmp(list->element[i]->str, key, length) == 0)
            return list->element[i + 1];
    return NULL;
}

static enum pawl_kind kind_of(const struct lock_view *view) {
    const redisReply *content = lock_view_part(view, AT_CONTENT), *queue = lock_view_part(view, AT_QUEUE);

    if (strcmp(lock_view_part(view, AT_TYPE)->str, "hash") == 0)
        return pair_value(content, "mode", 4) ? PAWL_RWLOCK : PAWL_MUTEX;
    if (lock_view_part(view, AT_OUT)->elements)
        return PAWL_SEMAPHORE;
    if (strcmp(lock_view_part(view, AT_TYPE)->str, "string") == 0 && view->redis->options.layout == LAYOUT_REDISSON &&
        strspn(content->element[0]->str, "0123456789") == (size_t)content->element[0]->len && content->element[0]->len < 8)
        return PAWL_SEMAPHORE;
    for (size_t i = 0; i < queue->elements; i++) {
        const char *mode = strchr(queue->element[i]->str, ' ');

        if (mode && (mode[1] == 's' || mode[1] == 'p'))
            return mode[1] == 's' ? PAWL_RWLOCK : PAWL_SEMAPHORE;
    }
    return PAWL_MUTEX;
}

/* The record of a holder: beside the lock, or behind an `@` in its key. */
static const redisReply *record_of(const struct lock_view *view, const struct holder *holder) {
    const redisReply *who = lock_view_part(view, AT_WHO), *content = lock_view_part(view, AT_CONTENT);

    if (who->elements || strcmp(lock_view_part(view, AT_TYPE)->str, "hash") != 0)
        return pair_value(who, holder->owner, holder->length);
    for (size_t i = 0; i + 1 < content->elements; i += 2)
        if (content->element[i]->len == holder->length + 1 && content->element[i]->str[0] == '@' &&
            memcmp(content->element[i]->str + 1, holder->owner, holder->length) == 0)
            return content->element[i + 1];
    return NULL;
}

static void read_holder(const redisReply *value, struct facts *ret) {
    int used = 0;

    memset(ret, 0, sizeof *ret);
    ret->permits = 1;
    if (!value ||
        sscanf(value->str, "%llu %u %c %u %lld %n", &ret->token, &ret->count, &ret->mode, &ret->permits, &ret->since_ms, &used) < 5)
        return;
    ret->known = pawl__record_parse(value->str + used, value->len - (size_t)used, &ret->identity);
}

static void read_waiter(const redisReply *member, struct facts *ret) {
    int used = 0;

    memset(ret, 0, sizeof *ret);
    ret->permits = 1;
    if (sscanf(member->str, "%*s %c %u %lld %n", &ret->mode, &ret->permits, &ret->since_ms, &used) < 3)
        return;
    ret->known = pawl__record_parse(member->str + used, member->len - (size_t)used, &ret->identity);
}

/* A number for a holder that has no token: FNV-1a of its name, in the upper half so that it can't be taken for one. */
static uint64_t foreign_token(const char *owner, size_t length) {
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)owner[i]) * UINT64_C(1099511628211);
    return hash | UINT64_C(1) << 63;
}

static void complete_holder(const struct lock_view *view, struct holder *holder) {
    const char *last = lock_view_part(view, AT_LAST)->str;

    read_holder(record_of(view, holder), &holder->facts);
    if (holder->facts.known && holder->facts.token == 0 && last[0]) /* see lua/with_token.lua */
        holder->facts.token = strtoull(last, NULL, 10) - holder->facts.count + 1;
    holder->token = holder->facts.known ? holder->facts.token : foreign_token(holder->owner, holder->length);
    holder->broken = isupper((unsigned char)holder->facts.mode);
}

static void set_owner(struct holder *holder, const char *text, size_t length) {
    memset(holder, 0, sizeof *holder);
    holder->owner = text;
    holder->length = length;
    holder->permits = 1;
}

static int each_field(const struct lock_view *view, holder_fn *fn, void *data) {
    const redisReply *content = lock_view_part(view, AT_CONTENT), *holds = lock_view_part(view, AT_HOLDS);
    struct holder holder;
    int rc;

    for (size_t i = 0; i + 1 < content->elements; i += 2) {
        const char *field = content->element[i]->str;
        size_t length = content->element[i]->len;
        bool write = length > 6 && strcmp(field + length - 6, ":write") == 0 && view->kind == PAWL_RWLOCK;

        if (strcmp(field, "mode") == 0 || field[0] == '@')
            continue;
        set_owner(&holder, field, write ? length - 6 : length);
        holder.mode = view->kind == PAWL_RWLOCK && !write ? PAWL_SHARED : PAWL_EXCLUSIVE;
        holder.left_ms = holder.mode == PAWL_SHARED ? pawl__reply_number(holds, i / 2, -1) : lock_view_part(view, AT_LEFT)->integer;
        snprintf(holder.count, sizeof holder.count, "%.20s", content->element[i + 1]->str);
        if (holder.left_ms == -2)
            continue; /* a reader that died, and nobody has cleared away yet */
        complete_holder(view, &holder);
        if ((rc = fn(view, &holder, data)) != 0)
            return rc;
    }
    return 0;
}

/* Permits that are out: those of one owner of ours, owner:1, owner:2, ..., are one holder. */
static int each_permit(const struct lock_view *view, holder_fn *fn, void *data) {
    const redisReply *out = lock_view_part(view, AT_OUT);
    struct holder holder;
    int rc;

    for (size_t i = 0; i + 1 < out->elements; i += 2) {
        const char *member = out->element[i]->str, *colon = strrchr(member, ':');
        double ends = strtod(out->element[i + 1]->str, NULL);

        set_owner(&holder, member, colon ? (size_t)(colon - member) : out->element[i]->len);
        complete_holder(view, &holder);
        if (!holder.facts.known)
            set_owner(&holder, member, out->element[i]->len);
        else if (colon && strcmp(colon, ":1") != 0)
            continue;
        holder.mode = PAWL_PERMITS;
        holder.left_ms = ends - (double)view->now_ms > 1e12 ? -1 : (int64_t)(ends - (double)view->now_ms);
        if (holder.left_ms < 0 && holder.left_ms != -1)
            continue;
        complete_holder(view, &holder);
        holder.permits = holder.facts.known ? holder.facts.permits : 1;
        if ((rc = fn(view, &holder, data)) != 0)
            return rc;
    }
    return 0;
}

int pawl__view_holders(const struct lock_view *view, holder_fn *fn, void *data) {
    const redisReply *content = lock_view_part(view, AT_CONTENT);
    struct holder holder;

    if (view->kind == PAWL_SEMAPHORE)
        return each_permit(view, fn, data);
    if (strcmp(lock_view_part(view, AT_TYPE)->str, "hash") == 0)
        return each_field(view, fn, data);
    if (strcmp(lock_view_part(view, AT_TYPE)->str, "string") != 0)
        return 0;
    set_owner(&holder, content->element[0]->str, content->element[0]->len);
    holder.left_ms = lock_view_part(view, AT_LEFT)->integer;
    complete_holder(view, &holder);
    return fn(view, &holder, data);
}

void pawl__view_take(const struct redis *redis, const char *name, const redisReply *reply, struct lock_view *ret) {
    *ret = (struct lock_view){.redis = redis, .name = name, .reply = reply, .limit = 1};
    ret->kind = kind_of(ret);
    ret->now_ms = pawl__reply_number(reply, AT_TIME, 0) / 1000;
    if (ret->kind == PAWL_SEMAPHORE && lock_view_part(ret, AT_CONTENT)->elements)
        ret->limit = (unsigned)strtol(lock_view_part(ret, AT_CONTENT)->element[0]->str, NULL, 10) +
                     (unsigned)lock_view_part(ret, AT_OUT)->elements / 2;
}

/* ---- Showing it ----------------------------------------------------------------------------------------------------------- */

struct showing {
    pawl_visit_fn *visit;
    void *data;
};

static void printable(char *to, size_t size, const char *from, size_t length) {
    size_t used = 0;

    for (size_t i = 0; i < length && used + 4 < size; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c < ' ' || c >= 0x7f)
            used += (size_t)snprintf(to + used, size - used, "\\x%02x", c);
        else
            to[used++] = (char)c;
    }
    to[used] = '\0';
}

/* A claim that its process may keep says so by its number: +N, but not +0N (lua/common.lua). */
static bool keeps(const struct holder *holder) {
    const char *number = holder->owner + REDIS_UUID + 1;

    return holder->facts.known && holder->length > REDIS_UUID + 2 && number[0] == '+' &&
           (number[1] != '0' || holder->length == REDIS_UUID + 3);
}

static int show_holder(const struct lock_view *view, const struct holder *holder, void *data) {
    const struct showing *showing = data;
    char owner[300], raw[400];
    struct pawl_entry entry = {
        .name = view->name,
        .kind = view->kind,
        .mode = holder->mode,
        .flags = (holder->facts.known ? 0 : PAWL_ENTRY_FOREIGN) | (holder->broken ? PAWL_ENTRY_BROKEN : 0) |
                 (keeps(holder) ? PAWL_ENTRY_KEEPS : 0),
        .permits = holder->permits,
        .limit = view->limit,
        .token = holder->token,
        .since_ms = holder->facts.since_ms,
        .remaining_ms = holder->left_ms == -1 ? PAWL_FOREVER : holder->left_ms,
        .raw = raw,
        .claim = owner,
    };

    pawl__record_show(&holder->facts.identity, &entry);
    printable(owner, sizeof owner, holder->owner, holder->length);
    if (holder->count[0])
        snprintf(raw, sizeof raw, "%s = %s", owner, holder->count);
    else
        snprintf(raw, sizeof raw, "%s", owner);
    return showing->visit(&entry, showing->data);
}

static int show_waiters(const struct lock_view *view, const struct showing *showing) {
    const redisReply *queue = lock_view_part(view, AT_QUEUE);
    unsigned position = 0;
    int rc = 0;

    for (size_t i = 0; i < queue->elements && rc == 0; i++) {
        const redisReply *owner = queue->element[i];
        struct facts facts;
        struct pawl_entry entry;
        char claim[300];

        read_waiter(owner, &facts);
        if (!facts.known)
            continue;
        entry = (struct pawl_entry){
            .name = view->name,
            .kind = view->kind,
            .mode = facts.mode == 's'   ? PAWL_SHARED
                    : facts.mode == 'p' ? PAWL_PERMITS
                                        : PAWL_EXCLUSIVE,
            .flags = PAWL_ENTRY_WAITER,
            .position = ++position,
            .permits = facts.permits,
            .limit = view->limit,
            .since_ms = facts.since_ms,
            .remaining_ms = -1,
            .raw = owner->str,
            .claim = claim,
        };
        printable(claim, sizeof claim, owner->str, strcspn(owner->str, " "));
        pawl__record_show(&facts.identity, &entry);
        rc = showing->visit(&entry, showing->data);
    }
    return rc;
}

/* Is there something under the lock's name that no lock is made of? */
static bool is_no_lock(const struct lock_view *view) {
    const char *type = lock_view_part(view, AT_TYPE)->str;

    return strcmp(type, "none") != 0 && strcmp(type, "hash") != 0 && strcmp(type, "string") != 0;
}

int pawl__view_show(const struct lock_view *view, pawl_visit_fn *visit, void *data, struct pawl_error *reterr) {
    struct showing showing = {visit, data};
    int rc;

    if (is_no_lock(view))
        rc = pawl__fail(reterr, PAWL_EKIND, "the key of '%s' holds a %s, which is no lock", view->name,
                        lock_view_part(view, AT_TYPE)->str);
    else if ((rc = pawl__view_holders(view, show_holder, &showing)) == 0)
        rc = show_waiters(view, &showing);
    return rc;
}
