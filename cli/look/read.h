/* SPDX-License-Identifier: Apache-2.0
 *
 * read.h - looks from a file: the lines of `pawl status --json --watch`.
 */
#ifndef PAWL_CLI_READ_H
#define PAWL_CLI_READ_H

#include "look.h"

/* Reads on where it was: a line that names a URL for the second time begins the next look. */
struct recording {
    FILE *file;
    char *line;    /* read already, and the first of the next look; NULL: none */
    size_t number; /* of the last line that was read */
};

enum read_result { READ_LOOK, READ_END, READ_BAD };

/* READ_BAD: the line with that number is not such a document, or out of memory. */
enum read_result look_read(struct recording *recording, struct look *ret);
void recording_finish(struct recording *recording);
/* One document into an empty place; `time_ms`: when it was seen. False: it is none, or out of memory. */
bool place_read(const char *text, struct place *ret, int64_t *time_ms);

#endif
