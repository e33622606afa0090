/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_bytes.h - ZooKeeper's requests, put together by hand: for tests of the simulated server.
 */
#ifndef PAWL_SIM_ZOOKEEPER_BYTES_H
#define PAWL_SIM_ZOOKEEPER_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_GET_DATA = 4,
    OP_SET_DATA = 5,
    OP_GET_ACL = 6,
    OP_SET_ACL = 7,
    OP_GET_CHILDREN = 8,
    OP_SYNC = 9,
    OP_PING = 11,
    OP_GET_CHILDREN2 = 12,
    OP_CHECK = 13,
    OP_MULTI = 14,
    OP_CREATE2 = 15,
    OP_CHECK_WATCHES = 17,
    OP_REMOVE_WATCHES = 18,
    OP_CREATE_CONTAINER = 19,
    OP_CREATE_TTL = 21,
    OP_AUTH = 100,
    OP_SET_WATCHES = 101,
    OP_UNKNOWN = 99,
    OP_CLOSE = -11,
};

struct bytes {
    char *at;
    size_t used, size;
};

static inline void add(struct bytes *bytes, const void *from, size_t size) {
    if (bytes->size < bytes->used + size) {
        bytes->size = 2 * (bytes->used + size) + 256;
        bytes->at = realloc(bytes->at, bytes->size);
        if (!bytes->at)
            abort();
    }
    if (size > 0)
        memcpy(bytes->at + bytes->used, from, size);
    bytes->used += size;
}

static inline void add_int(struct bytes *bytes, int32_t number) {
    const char four[4] = {(char)(number >> 24), (char)(number >> 16), (char)(number >> 8), (char)number};

    add(bytes, four, 4);
}

static inline void add_long(struct bytes *bytes, int64_t number) {
    add_int(bytes, (int32_t)(number >> 32));
    add_int(bytes, (int32_t)number);
}

static inline void add_string(struct bytes *bytes, const char *text) {
    add_int(bytes, (int32_t)strlen(text));
    add(bytes, text, strlen(text));
}

static inline void add_bool(struct bytes *bytes, bool value) {
    add(bytes, value ? "\1" : "\0", 1);
}

/* A number of 1, 4 or 8 bytes. */
static inline int64_t number_at(const char *bytes, int size) {
    uint64_t number = 0;

    for (int i = 0; i < size; i++)
        number = number << 8 | (unsigned char)bytes[i];
    return size == 4 ? (int32_t)(uint32_t)number : (int64_t)number;
}

#endif
