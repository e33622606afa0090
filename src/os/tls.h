/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.h - TLS over a socket that does not block.
 */
#ifndef PAWL_TLS_H
#define PAWL_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "os/openssl.h"

struct tls_options {
    bool on, verify;
    char ca[1024], cert[1024], key[1024], name[256];
};

/* *ret stays NULL if TLS is not asked for. */
int pawl__tls_setup(const struct tls_options *options, SSL_CTX **ret, struct pawl_error *reterr);
/* A session over this socket, to a server at `host`; NULL: it can't be set up. */
SSL *pawl__tls_new(SSL_CTX *context, const struct tls_options *options, const char *host, int fd);
/* 1: done; 0: not yet; -1: it failed. *retwrites: what it waits for is that the socket can be written to. */
int pawl__tls_handshake(SSL *ssl, bool *retwrites);
/* How many bytes; 0: none just now; -1: the end, or broken. */
ssize_t pawl__tls_write(SSL *ssl, const void *data, size_t size, bool *retwrites);
ssize_t pawl__tls_read(SSL *ssl, void *buffer, size_t size, bool *retwrites);
/* What went wrong, in words; and its code. `worked`: the connection had been of use. */
int pawl__tls_error(SSL *ssl, bool worked, char *ret, size_t size);

#endif
