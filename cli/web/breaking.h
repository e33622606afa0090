/* SPDX-License-Identifier: Apache-2.0
 *
 * breaking.h - what the body of POST /api/break says. Pure.
 */
#ifndef PAWL_CLI_BREAKING_H
#define PAWL_CLI_BREAKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BREAKING_TEXT = 1024 };

struct breaking {
    char url[BREAKING_TEXT], name[BREAKING_TEXT];
    uint64_t token; /* never 0 */
    bool now;
};

/* {"url":"...","name":"...","token":"1042","now":false}, in any order; the token is a text, since it has 64 bits. NULL: it was
 * read; else what is wrong with it. */
const char *breaking_read(const char *body, size_t length, struct breaking *ret);

#endif
