/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - see names.h.
 */
#include "names.h"

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

bool (*name_is_known)(const char *host);

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
    static const char *const both[] = {"127.0.0.3", "127.0.0.1"};
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **), rc = 0;
    size_t length = host ? strlen(host) : 0;
    bool has_both = host && strcmp(host, NAME_OF_BOTH) == 0;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (length <= 5 || strcmp(host + length - 5, ".test") != 0)
        return real(host, service, hints, ret);
    if (hints->ai_flags & AI_NUMERICHOST || (!has_both && (!name_is_known || !name_is_known(host))))
        return EAI_NONAME;
    for (int i = has_both ? 0 : 1; i < 2 && rc == 0; i++) {
        rc = real(both[i], service, hints, ret);
        ret = &(*ret)->ai_next;
    }
    return rc;
}
