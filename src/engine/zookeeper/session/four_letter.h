/* SPDX-License-Identifier: Apache-2.0
 *
 * four_letter.h - see four_letter.c. No mutex is needed for it.
 */
#ifndef PAWL_ZK_WORD_H
#define PAWL_ZK_WORD_H

#include "engine/zookeeper/session/session.h"

enum zk_word {
    ZK_WORD_NOBODY,  /* no connection */
    ZK_WORD_SILENCE, /* and no answer */
    ZK_WORD_REFUSED, /* it is not on the server's list */
    ZK_WORD_ANSWER,
};

/* Ask; the answer is cut to `size`. */
enum zk_word pawl__zk_word(const struct zk_host *host, const char *word, int64_t deadline, char *ret, size_t size);
/* What follows `key` at the beginning of a line, to the answer's end; NULL: there is no such line. */
const char *pawl__zk_word_line(const char *answer, const char *key);
/* Why is no host reachable? A sentence that says what to do; takes a second at most. */
void pawl__zk_word_why(const struct zk_options *options, char *ret, size_t size);
bool pawl__zk_word_number(const char *answer, const char *key, int64_t *ret);

#endif
