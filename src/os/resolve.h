/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve.h - the addresses of a host. Looking them up may take long, and is done in a thread of its own.
 */
#ifndef PAWL_RESOLVE_H
#define PAWL_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addresses *pawl__addresses_new(const char *host, unsigned port); /* NULL: no memory */
void pawl__addresses_put(struct addresses *addresses);
/* Begin to look those of new addresses up; false: they are known, the host is a number. Wait for that, until `deadline`: 0, or what
 * getaddrinfo said; EAI_AGAIN: nothing yet. */
bool pawl__addresses_begin(struct addresses *addresses);
int pawl__addresses_await(struct addresses *addresses, int64_t deadline);
/* Look them up again, in a thread. */
void pawl__addresses_refresh(struct addresses *addresses);
/* Nobody knew the host when it was last looked up, and it is not being looked up anew. */
bool pawl__addresses_unknown(struct addresses *addresses);
/* The one to connect to, and its number; 0: none is known. The same for all connections to a host, since behind each there may be another
 * server; until it failed, then the next one. */
socklen_t pawl__addresses_choose(struct addresses *addresses, struct sockaddr_storage *ret, size_t *retnumber);
void pawl__addresses_failed(struct addresses *addresses, size_t number);
/* How many are known. */
size_t pawl__addresses_count(struct addresses *addresses);
const char *pawl__addresses_host(const struct addresses *addresses);
const char *pawl__addresses_where(const struct addresses *addresses); /* host and port, for people */
unsigned pawl__addresses_port(const struct addresses *addresses);

#endif
