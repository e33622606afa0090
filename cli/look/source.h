/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - where looks come from, one after the other: from servers, by a thread that waits for them, or from a file.
 */
#ifndef PAWL_CLI_SOURCE_H
#define PAWL_CLI_SOURCE_H

#include <pthread.h>

#include "read.h"

struct source {
    struct watch watch;
    struct recording recording; /* `file` NULL: from servers */
    const char *path;           /* of the file */
    /* The thread, where there is one. It takes a look when it is asked to, and never else: so all below is either its or ours. */
    pthread_t thread;
    bool has_thread, asked;
    int ask_fd, done_fd;
    struct look look;
    bool good;
};

/* `path` NULL: from servers. Returns 0, or the exit status after having said what is wrong. */
int source_open(struct source *source, const char *path, const char *const urls[], size_t count);
void source_close(struct source *source);
/* The next look, now. READ_BAD: said why. */
enum read_result source_next(struct source *source, struct look *ret);

/* Without waiting: ask, and take it when source_fd() is readable. False: the thread can't be started. */
bool source_ask(struct source *source);
int source_fd(const struct source *source);
enum read_result source_take(struct source *source, struct look *ret);

#endif
