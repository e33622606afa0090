/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - see value.h.
 */
#include "base/value.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STOCK = 1 << 12 }; /* references at a time: users may have four billion, and no more */

struct pawl__value {
    struct pawl_value shown; /* first: see pawl__value_of() */
    _Atomic uint32_t references;
    char bytes[];
};

struct pawl__value *pawl__value_new(const void *bytes, size_t size, const struct pawl__stamp *stamp) {
    struct pawl__value *value = malloc(sizeof *value + size);

    if (!value)
        return NULL;
    if (size > 0)
        memcpy(value->bytes, bytes, size);
    value->shown = (struct pawl_value){
        .bytes = value->bytes,
        .size = size,
        .token = stamp->token,
        .version = stamp->version,
        .written_ms = stamp->written_us / 1000,
    };
    atomic_init(&value->references, 1);
    return value;
}

struct pawl__value *pawl__value_ref(struct pawl__value *value) {
    if (value)
        atomic_fetch_add_explicit(&value->references, 1, memory_order_relaxed);
    return value;
}

static void put(struct pawl__value *value, uint32_t references) {
    if (value && atomic_fetch_sub_explicit(&value->references, references, memory_order_acq_rel) == references)
        free(value);
}

void pawl__value_put(struct pawl__value *value) {
    put(value, 1);
}

void pawl__value_stock_fill(struct pawl__value_stock *stock, struct pawl__value *value) {
    stock->value = value;
    stock->references = value ? 1 : 0;
}

struct pawl__value *pawl__value_stock_take(struct pawl__value_stock *stock) {
    if (!stock->value)
        return NULL;
    if (stock->references == 1) { /* the last one keeps it */
        atomic_fetch_add_explicit(&stock->value->references, STOCK, memory_order_relaxed);
        stock->references += STOCK;
    }
    stock->references--;
    return stock->value;
}

void pawl__value_stock_drop(struct pawl__value_stock *stock) {
    put(stock->value, stock->references);
    *stock = (struct pawl__value_stock){0};
}

const struct pawl_value *pawl__value_shown(const struct pawl__value *value) {
    return value ? &value->shown : NULL;
}

struct pawl__value *pawl__value_of(const struct pawl_value *shown) {
    return (struct pawl__value *)(uintptr_t)shown;
}
