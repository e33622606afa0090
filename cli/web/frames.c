/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c - what differed, look by look. See frames.h.
 */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

static struct frame *frame_of(const struct frames *frames, uint64_t look) {
    return (struct frame *)&frames->ring[look % FRAMES_ROOM];
}

void frames_init(struct frames *frames) {
    *frames = (struct frames){.oldest = 1};
}

static void forget_oldest(struct frames *frames) {
    struct frame *frame = frame_of(frames, frames->oldest++);

    frames->bytes -= frame->length;
    free(frame->text);
    *frame = (struct frame){0};
}

void frames_add(struct frames *frames, char *text, size_t length) {
    while (frames->oldest <= frames->newest &&
           (frames->bytes + length > FRAMES_BYTES || frames->newest - frames->oldest + 1 == FRAMES_ROOM))
        forget_oldest(frames);
    frames->newest++;
    if (length > FRAMES_BYTES) {
        frames->oldest = frames->newest + 1;
        free(text);
        return;
    }
    *frame_of(frames, frames->newest) = (struct frame){.text = text, .length = length};
    frames->bytes += length;
}

bool frames_read(const struct frames *frames, struct reader *reader, char *out, size_t room, size_t *ret) {
    size_t used = 0;

    if (reader->read > frames->newest || reader->read + 1 < frames->oldest)
        return false;
    while (used < room && reader->read < frames->newest) {
        const struct frame *frame = frame_of(frames, reader->read + 1);
        size_t left = frame->length - reader->offset, taken = left < room - used ? left : room - used;

        memcpy(out + used, frame->text + reader->offset, taken);
        used += taken;
        reader->offset += taken;
        if (reader->offset == frame->length)
            *reader = (struct reader){.read = reader->read + 1};
    }
    *ret = used;
    return true;
}

void frames_finish(struct frames *frames) {
    while (frames->oldest <= frames->newest)
        forget_oldest(frames);
}
