/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - the owner's record: who holds or waits, as every engine stores it.
 *
 * One line of text: `pawl1 host=H pid=N cmd=C label=L id=A up=A ttl=MS`, values percent-escaped where they contain blanks, '%', '=' or
 * control characters. Readers skip keys that they don't know, so that later versions may add some; what is not known is left out (the last
 * three were not always there). Anything else is foreign.
 */
#ifndef PAWL_RECORD_H
#define PAWL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pawl_entry;

/* The number of an agent, which is a process that has locks: 16 hex digits. Host and pid do not tell agents apart: hosts may have equal
 * names, and pids are used again. */
enum { PAWL__AGENT_SIZE = 17 };

/* With its NUL. */
enum { PAWL__LABEL_SIZE = 128 };

/* Who is asking: goes into the engine's records as it is. */
struct pawl__identity {
    char host[64];
    int64_t pid;
    char command[64];
    char label[PAWL__LABEL_SIZE];  /* a claim may have another: struct pawl__claim */
    char agent[PAWL__AGENT_SIZE];  /* its own; the same on all engines. "": not known */
    char around[PAWL__AGENT_SIZE]; /* of the `pawl run` that started it; "": none */
    int64_t lease_ms;              /* of its holds; 0: none, or not known */
};

/* The longest record, with its NUL: every byte of every value escaped. */
enum { PAWL__RECORD_MAX = 896 };

/* Returns the length. `size` of PAWL__RECORD_MAX is always enough. */
size_t pawl__record_format(const struct pawl__identity *identity, char *buffer, size_t size);

/* Copy a record; with another label than its own, unless that is NULL. Returns the end. PAWL__RECORD_MAX is always enough room. */
char *pawl__record_put(char *to, const char *record, const char *label);

/* False: not a record of ours; *ret is then all empty. */
bool pawl__record_parse(const char *text, size_t length, struct pawl__identity *ret);

/* Is it the number of an agent? */
bool pawl__agent_is(const char *text);

/* Fill in what an entry says of its process. The strings are the identity's. */
void pawl__record_show(const struct pawl__identity *identity, struct pawl_entry *ret);

#endif
