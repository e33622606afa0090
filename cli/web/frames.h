/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.h - what differed, look by look: kept once for all readers of the stream, up to a bound. A reader that falls behind it
 * begins anew. Pure.
 */
#ifndef PAWL_CLI_FRAMES_H
#define PAWL_CLI_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMES_ROOM = 256, FRAMES_BYTES = 1 << 20 };

struct frame {
    char *text;
    size_t length;
};

/* Looks are counted from 1, and each has one frame: those from `oldest` to `newest` are kept. */
struct frames {
    struct frame ring[FRAMES_ROOM];
    uint64_t oldest, newest; /* oldest > newest: there are none */
    size_t bytes;
};

/* Where a reader is: it has read all up to the look `read`, and `offset` bytes of the next frame. */
struct reader {
    uint64_t read;
    size_t offset;
};

void frames_init(struct frames *frames);
/* The frame of the next look; `text` was allocated by malloc(). One that is longer than all may be is not kept, and nothing before
 * it. */
void frames_add(struct frames *frames, char *text, size_t length);
/* The next bytes for this reader; 0: it has read all. False: what it needs is not kept any more, or was never there. */
bool frames_read(const struct frames *frames, struct reader *reader, char *out, size_t room, size_t *ret);
void frames_finish(struct frames *frames);

#endif
