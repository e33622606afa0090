/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - hosts that only tests know. The linker takes this getaddrinfo() for the library's.
 */
#ifndef PAWL_NAMES_H
#define PAWL_NAMES_H

#include <stdbool.h>

/* Two addresses, with nobody at the first. */
#define NAME_OF_BOTH "both.test"

/* Is another host whose name ends with `.test` known? Then it is 127.0.0.1. NULL: none is. */
extern bool (*name_is_known)(const char *host);

#endif
