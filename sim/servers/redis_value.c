/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_value.c - what a key holds: a string, a hash, a sorted set or a list.
 *
 * A value may be shared, by the journal and by replicas: to change one, a command makes sure that nobody else has it (store_open).
 *
 * A small hash has its fields in the order in which they came, as a real server has; once it is large (many fields, or a long one) a
 * real server's order is nobody's business, and here it is drawn: by a hash of the field's name and the server's seed.
 *
 * Sets are small, so that a walk over an array is as good as anything cleverer.
 */
#include <stdio.h>

#include "redis_internal.h"

/* Fields and values above that length make a hash a large one. */
enum { SMALL_LENGTH = 64 };

void *redis_alloc(size_t size) {
    void *memory = calloc(1, size);

    if (!memory)
        abort();
    return memory;
}

void *redis_grow(void *old, size_t size) {
    void *memory = realloc(old, size);

    if (!memory)
        abort();
    return memory;
}

struct text redis__text_copy(struct text text) {
    char *copy = redis_grow(NULL, text.n + 1);

    memcpy(copy, text.s, text.n);
    copy[text.n] = '\0';
    return (struct text){copy, text.n};
}

/* ---- All of them ---------------------------------------------------------------------------------------------------------- */

struct value *redis__value_new(enum value_type type, uint64_t seed) {
    struct value *value = redis_alloc(sizeof *value);

    value->refs = 1;
    value->type = type;
    value->seed = seed;
    return value;
}

struct value *redis__value_string(struct text text) {
    struct value *value = redis__value_new(VALUE_STRING, 0);

    value->string = redis__text_copy(text);
    return value;
}

struct value *redis__value_ref(struct value *value) {
    if (value)
        value->refs++;
    return value;
}

static void free_content(struct value *value) {
    for (size_t i = 0; i < value->count; i++) {
        if (value->type == VALUE_HASH) {
            text_free(value->fields[i].name);
            text_free(value->fields[i].value);
        } else if (value->type == VALUE_ZSET) {
            text_free(value->members[i].name);
        } else {
            text_free(value->items[i]);
        }
    }
    if (value->type == VALUE_STRING)
        text_free(value->string);
    else
        free(value->fields); /* any of the three */
}

void redis__value_unref(struct value *value) {
    if (!value || --value->refs)
        return;
    free_content(value);
    free(value);
}

static size_t entry_size(enum value_type type) {
    return type == VALUE_HASH ? sizeof(struct field) : type == VALUE_ZSET ? sizeof(struct member) : sizeof(struct text);
}

struct value *redis__value_copy(const struct value *value) {
    struct value *copy;

    if (value->type == VALUE_STRING)
        return redis__value_string(value->string);
    copy = redis__value_new(value->type, value->seed);
    copy->large = value->large;
    copy->count = copy->room = value->count;
    copy->fields = redis_alloc(value->count * entry_size(value->type) + 1);
    for (size_t i = 0; i < value->count; i++) {
        if (value->type == VALUE_HASH)
            copy->fields[i] = (struct field){redis__text_copy(value->fields[i].name), redis__text_copy(value->fields[i].value),
                                             value->fields[i].order};
        else if (value->type == VALUE_ZSET)
            copy->members[i] = (struct member){value->members[i].score, redis__text_copy(value->members[i].name)};
        else
            copy->items[i] = redis__text_copy(value->items[i]);
    }
    return copy;
}

const char *redis__value_type_name(enum value_type type) {
    static const char *const names[] = {"string", "hash", "zset", "list"};

    return names[type];
}

/* Room for one entry at this place; those behind it move up. */
static void *open_gap(struct value *value, size_t at) {
    size_t size = entry_size(value->type);
    char *base;

    if (value->count == value->room) {
        value->room = value->room ? value->room * 2 : 4;
        value->fields = redis_grow(value->fields, value->room * size);
    }
    base = (char *)value->fields;
    memmove(base + (at + 1) * size, base + at * size, (value->count - at) * size);
    value->count++;
    return base + at * size;
}

static void close_gap(struct value *value, size_t at, size_t count) {
    size_t size = entry_size(value->type);
    char *base = (char *)value->fields;

    memmove(base + at * size, base + (at + count) * size, (value->count - at - count) * size);
    value->count -= count;
}

/* ---- Hashes --------------------------------------------------------------------------------------------------------------- */

static uint64_t order_of(uint64_t seed, struct text name) {
    uint64_t hash = seed ^ UINT64_C(14695981039346656037);

    for (size_t i = 0; i < name.n; i++)
        hash = (hash ^ (unsigned char)name.s[i]) * UINT64_C(1099511628211);
    return redis_mix(seed, hash);
}

static int compare_fields(const void *a, const void *b) {
    const struct field *one = a, *other = b;

    if (one->order != other->order)
        return one->order < other->order ? -1 : 1;
    return text_compare(one->name, other->name);
}

struct field *redis__hash_find(const struct value *hash, struct text name) {
    struct field wanted = {.name = name};

    if (hash->large) {
        wanted.order = order_of(hash->seed, name);
        return hash->count ? bsearch(&wanted, hash->fields, hash->count, sizeof *hash->fields, compare_fields) : NULL;
    }
    for (size_t i = 0; i < hash->count; i++)
        if (text_equal(hash->fields[i].name, name))
            return &hash->fields[i];
    return NULL;
}

static void make_large(struct value *hash) {
    hash->large = true;
    for (size_t i = 0; i < hash->count; i++)
        hash->fields[i].order = order_of(hash->seed, hash->fields[i].name);
    if (hash->count)
        qsort(hash->fields, hash->count, sizeof *hash->fields, compare_fields);
}

bool redis__hash_set(struct value *hash, struct text name, struct text value, size_t most) {
    struct field *field, made;
    size_t at = hash->count;

    if (!hash->large && (name.n > SMALL_LENGTH || value.n > SMALL_LENGTH))
        make_large(hash);
    field = redis__hash_find(hash, name);
    if (field) {
        text_free(field->value);
        field->value = redis__text_copy(value);
        return false;
    }
    made = (struct field){redis__text_copy(name), redis__text_copy(value), hash->large ? order_of(hash->seed, name) : 0};
    if (hash->large)
        for (at = 0; at < hash->count && compare_fields(&hash->fields[at], &made) < 0; at++)
            continue;
    *(struct field *)open_gap(hash, at) = made;
    if (!hash->large && hash->count > most)
        make_large(hash);
    return true;
}

bool redis__hash_remove(struct value *hash, struct text name) {
    struct field *field = redis__hash_find(hash, name);

    if (!field)
        return false;
    text_free(field->name);
    text_free(field->value);
    close_gap(hash, (size_t)(field - hash->fields), 1);
    return true;
}

/* ---- Sorted sets ---------------------------------------------------------------------------------------------------------- */

long redis__zset_find(const struct value *zset, struct text name) {
    for (size_t i = 0; i < zset->count; i++)
        if (text_equal(zset->members[i].name, name))
            return (long)i;
    return -1;
}

size_t redis__zset_lower(const struct value *zset, double score, bool above) {
    size_t low = 0, high = zset->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        double at = zset->members[middle].score;

        if (at < score || (above && at == score))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void redis__zset_add(struct value *zset, struct text name, double score) {
    size_t at = redis__zset_lower(zset, score, false);

    while (at < zset->count && zset->members[at].score == score && text_compare(zset->members[at].name, name) < 0)
        at++;
    /* What is small is kept as whole numbers where it can: a negative zero is lost. */
    *(struct member *)open_gap(zset, at) = (struct member){score == 0 ? 0 : score, redis__text_copy(name)};
}

void redis__zset_remove(struct value *zset, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        text_free(zset->members[i].name);
    close_gap(zset, first, count);
}

/* ---- Lists ---------------------------------------------------------------------------------------------------------------- */

void redis__list_insert(struct value *list, size_t at, struct text item) {
    struct text copy = redis__text_copy(item);

    *(struct text *)open_gap(list, at) = copy;
}

void redis__list_remove(struct value *list, size_t at) {
    text_free(list->items[at]);
    close_gap(list, at, 1);
}
