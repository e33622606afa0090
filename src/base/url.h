/* SPDX-License-Identifier: Apache-2.0
 *
 * url.h - URLs that name an engine and a place:
 *
 *     scheme:[//[user[:password]@]host[:port][,host[:port]...]][path][?option=value[&option=value...]]
 *
 * Percent escapes are decoded in every part. An option may be asked for once it is known; what nobody asked for is an error.
 */
#ifndef PAWL_URL_H
#define PAWL_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "pawl.h"

enum { PAWL__URL_MAX = 4096, PAWL__URL_HOSTS = 64, PAWL__URL_OPTIONS = 32, PAWL__URL_HOST_PORT = 272 };

struct pawl__url_host {
    const char *name;
    unsigned port; /* 0: not given */
};

struct pawl__url_option {
    const char *key;
    const char *value; /* "" where there was no '=' */
    bool taken;
};

/* A parsed URL. All strings lie in `text`. */
struct pawl__url {
    const char *scheme;   /* lower case */
    const char *user;     /* NULL: not given */
    const char *password; /* NULL: not given */
    struct pawl__url_host hosts[PAWL__URL_HOSTS];
    size_t host_count;
    const char *path; /* "" where there is none */
    struct pawl__url_option options[PAWL__URL_OPTIONS];
    size_t option_count;
    char text[PAWL__URL_MAX + 1];
};

int pawl__url_parse(const char *text, struct pawl__url *ret, struct pawl_error *reterr);

/* The value of an option, marked as taken; NULL: not given. */
const char *pawl__url_option(struct pawl__url *url, const char *key);

/* A whole number from the option, within limits; *ret stays as it is where the option is not given. */
int pawl__url_number(struct pawl__url *url, const char *key, long long low, long long high, long long *ret,
                     struct pawl_error *reterr);

/* One of two words from the option: is it the first? *ret stays as it is where the option is not given. */
int pawl__url_either(struct pawl__url *url, const char *key, const char *first, const char *second, bool *ret,
                     struct pawl_error *reterr);

/* A host and its port as they stand in a URL: an address of IPv6 in brackets. Returns `ret`. */
const char *pawl__url_host_port(const char *host, unsigned port, char ret[PAWL__URL_HOST_PORT]);

/* PAWL_EOPTION if an option was given that nobody took. */
int pawl__url_leftover(const struct pawl__url *url, struct pawl_error *reterr);

/* The entry of `words` (blank-separated) that is nearest to `word`, within two edits; NULL if none is. Written to `buffer`. */
const char *pawl__nearest(const char *word, const char *words, char *buffer, size_t size);

#endif
