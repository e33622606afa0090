/* SPDX-License-Identifier: Apache-2.0
 *
 * raw.c - the server without the library: which of them.
 */
#include "raw.h"

#include <stdlib.h>
#include <string.h>

static const struct raw_impl *const impls[] = {
    &raw_local,
#ifdef HAVE_REDIS
    &raw_redis,
#endif
#ifdef HAVE_ZOOKEEPER
    &raw_zookeeper,
#endif
};

static const struct raw_impl *find(const char *scheme) {
    for (size_t i = 0; i < sizeof impls / sizeof impls[0]; i++)
        for (const char *const *known = impls[i]->schemes; *known != NULL; known++)
            if (strcmp(*known, scheme) == 0)
                return impls[i];
    return NULL;
}

bool raw_resolve(struct address *address, char *why, size_t size) {
    const struct raw_impl *impl = find(address->scheme);

    return impl == NULL || impl->resolve == NULL || impl->resolve(address, why, size);
}

struct raw *raw_open(const struct address *address, const char *id, char *why, size_t size) {
    const struct raw_impl *impl = find(address->scheme);
    struct raw *raw = malloc(sizeof *raw);

    if (impl == NULL || raw == NULL) {
        snprintf(why, size, impl == NULL ? "bare operations are not measured on %s: URLs" : "out of memory", address->scheme);
        free(raw);
        return NULL;
    }
    raw->impl = impl;
    raw->connection = impl->open(address, id, why, size);
    if (raw->connection == NULL) {
        free(raw);
        return NULL;
    }
    return raw;
}

void raw_close(struct raw *raw) {
    if (raw == NULL)
        return;
    raw->impl->close(raw->connection);
    free(raw);
}
