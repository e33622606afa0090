/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - what the fuzz targets share.
 */
#ifndef PAWL_FUZZ_H
#define PAWL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert, with NDEBUG too. */
#define CHECK(condition)                                                                                                           \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                                \
            abort();                                                                                                               \
        }                                                                                                                          \
    } while (0)

/* A copy of exactly this size, so that a read beyond it is seen; `extra` bytes of zero follow. Free it. */
static inline char *fuzz_copy(const uint8_t *data, size_t size, size_t extra) {
    char *copy = malloc(size + extra + !(size + extra));

    CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    memset(copy + size, 0, extra);
    return copy;
}

#endif
