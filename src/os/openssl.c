/* SPDX-License-Identifier: Apache-2.0
 *
 * openssl.c - OpenSSL, loaded when a URL asks for TLS.
 *
 * The version is that of the headers: its functions are then where the compiler thought they are. It stays loaded: callbacks of
 * its own may be registered anywhere.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define OPENSSL_ITSELF
#include "os/openssl.h"
#include "base/error.h"

#define AS_TEXT(number) #number
#define LIBRARY(number) "libssl.so." AS_TEXT(number)

struct openssl pawl__openssl;

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define OPENSSL_PLACE(name) {#name, offsetof(struct openssl, name)},
    OPENSSL_FUNCTIONS(OPENSSL_PLACE)
#undef OPENSSL_PLACE
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

/* What libssl needs of libcrypto came with it. */
static void load(void) {
    void *library = dlopen(LIBRARY(OPENSSL_SHLIB_VERSION), RTLD_NOW | RTLD_LOCAL);

    loaded = library != NULL;
    for (size_t i = 0; loaded && i < sizeof(functions) / sizeof(functions[0]); i++) {
        void **place = (void **)((char *)&pawl__openssl + functions[i].offset);

        *place = dlsym(library, functions[i].name);
        loaded = *place != NULL;
    }
}

int pawl__openssl_load(struct pawl_error *reterr) {
    pthread_once(&once, load);
    if (loaded)
        return 0;
    return pawl__fail(reterr, PAWL_EUNSUPPORTED, "TLS needs OpenSSL, and %s can't be loaded: install it (Debian: libssl3)",
                      LIBRARY(OPENSSL_SHLIB_VERSION));
}
