/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h - the memory of a value beside a lock: made once, never changed, and counted, so that those who read it copy nothing.
 */
#ifndef PAWL_VALUE_H
#define PAWL_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "pawl.h"

/* What a server says of a write beside its bytes. */
struct pawl__stamp {
    uint64_t token;     /* of the hold that wrote it */
    uint64_t version;   /* above that of every earlier write to the same lock */
    int64_t written_us; /* when, by the server's clock: us since 1970 */
};

struct pawl__value;

/* A copy of the bytes, with one reference. NULL: out of memory. */
struct pawl__value *pawl__value_new(const void *bytes, size_t size, const struct pawl__stamp *stamp);
/* NULL is fine for both. */
struct pawl__value *pawl__value_ref(struct pawl__value *value);
void pawl__value_put(struct pawl__value *value);

/* A value that is read again and again under one mutex: references are taken from a stock, so that most cost no atomic operation. All
 * zero is an empty one. */
struct pawl__value_stock {
    struct pawl__value *value; /* NULL: nothing lies there, or nothing is known */
    uint32_t references;       /* of it that nobody has yet */
};

/* Put a value in, with its reference. The stock is empty. */
void pawl__value_stock_fill(struct pawl__value_stock *stock, struct pawl__value *value);
/* One more reference to it, for who asks. */
struct pawl__value *pawl__value_stock_take(struct pawl__value_stock *stock);
/* Empty it. */
void pawl__value_stock_drop(struct pawl__value_stock *stock);

/* As the user sees it, and back. NULL is NULL. */
const struct pawl_value *pawl__value_shown(const struct pawl__value *value);
struct pawl__value *pawl__value_of(const struct pawl_value *shown);

#endif
