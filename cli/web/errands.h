/* SPDX-License-Identifier: Apache-2.0
 *
 * errands.h - what a request wants of a server, and the one who serves must not wait for: a look at one lock, and a break. A
 * thread of its own does them, one after the other and breaks first, with clients of its own: a look at all locks may take long.
 */
#ifndef PAWL_CLI_ERRANDS_H
#define PAWL_CLI_ERRANDS_H

#include "breaking.h"
#include "../http/http.h"
#include "looker.h"

struct errands;

struct errand {
    struct errand *next;
    struct exchange *exchange; /* of a break; who waits for a look is in glances.h */
    bool breaks;
    struct breaking what; /* of a look: url and name alone */
    char who[96];         /* breaks */
    unsigned status;      /* of HTTP, when it is done, */
    char *text;           /* and the answer, to be freed; JSON if it is a look that was taken */
    size_t length;
};

/* NULL: out of memory, or no thread can be started. */
struct errands *errands_start(const char *const urls[], size_t count, struct looker *looker);
/* Ends when the errand that is being done is; what was not begun is dropped. */
void errands_stop(struct errands *errands);
/* `errand` was allocated by malloc(). */
void errands_add(struct errands *errands, struct errand *errand);
/* Readable while one is done. */
int errands_fd(const struct errands *errands);
/* One that is done; NULL: there is none. The caller frees it. */
struct errand *errands_collect(struct errands *errands);
void errand_free(struct errand *errand);

#endif
