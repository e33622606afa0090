/* SPDX-License-Identifier: Apache-2.0
 *
 * address.h - where the server behind a URL is, for those parts of the benchmark that talk to it without the library.
 */
#ifndef PAWL_CLI_BENCH_ADDRESS_H
#define PAWL_CLI_BENCH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_SIZE = 1024, ADDRESS_HOSTS = 64 };

struct address {
    char scheme[32];
    char user[256], secret[256]; /* "": not given */
    struct {
        char name[256];
        char port[8]; /* "": not given */
    } hosts[ADDRESS_HOSTS];
    size_t host_count;
    char path[ADDRESS_SIZE];
    char options[ADDRESS_SIZE];
};

/* Take a URL apart that the library has accepted. False: there is more in it than fits here. */
bool address_parse(struct address *address, const char *url);
/* The value of an option; "" where it is not given. */
const char *address_option(const struct address *address, const char *key, char *out, size_t size);
/* Connect to one of the hosts; returns the socket, or -1. */
int address_connect(const struct address *address, size_t host, const char *default_port);

#endif
