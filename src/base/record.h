/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - the owner's record: who holds or waits, as every engine stores it.
 *
 * One line of text: `pawl1 host=H pid=N cmd=C label=L`, values percent-escaped where they contain blanks, '%', '=' or control
 * characters. Readers skip keys that they don't know, so that later versions may add some. Anything else is foreign.
 */
#ifndef PAWL_RECORD_H
#define PAWL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who is asking: goes into the engine's records as it is. */
struct pawl__identity {
    char host[64];
    int64_t pid;
    char command[64];
    char label[128];
};

/* The longest record, with its NUL: every byte of every value escaped. */
enum { PAWL__RECORD_MAX = 896 };

/* Returns the length. `size` of PAWL__RECORD_MAX is always enough. */
size_t pawl__record_format(const struct pawl__identity *identity, char *buffer, size_t size);

/* False: not a record of ours; *ret is then all empty. */
bool pawl__record_parse(const char *text, size_t length, struct pawl__identity *ret);

#endif
