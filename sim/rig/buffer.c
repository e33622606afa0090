/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.c - see buffer.h. The memory is kept from one run to the next.
 */
#include "buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/world.h"

static char *text;
static size_t used, room;

static void append(const void *bytes, size_t size) {
    if (used + size > room) {
        room = 2 * (used + size) + 65536;
        text = realloc(text, room);
        if (text == NULL)
            abort();
    }
    memcpy(text + used, bytes, size);
    used += size;
}

static void take(const void *bytes, size_t size) {
    append(bytes, size);
    world_hash_add(bytes, size);
    if (world_traced())
        world_trace("history: %.*s", (int)size - 1, (const char *)bytes);
}

int buffer_open(void) {
    used = 0;
    return world_sink(take);
}

const char *buffer_text(size_t *ret_size) {
    *ret_size = used;
    return text;
}

void buffer_add(const char *line) {
    append(line, strlen(line));
}

bool buffer_save(const char *path) {
    FILE *file = fopen(path, "we");
    bool good = file != NULL && fwrite(text, 1, used, file) == used;

    if (file != NULL && fclose(file) != 0)
        good = false;
    return good;
}
