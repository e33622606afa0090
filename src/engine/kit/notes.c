/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.c - see notes.h.
 */
#include "engine/kit/notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512, ROOM = 1024 };

void pawl__kit_notes_add(struct kit_notes *notes, enum kit_note kind, const char *name, const char *format, va_list args) {
    char line[LINE] = {(char)kind}, *bigger;
    size_t length = 1;

    if (name)
        length += (size_t)snprintf(line + 1, sizeof line - 1, "'%s' ", name);
    vsnprintf(line + length, sizeof line - length, format, args);
    length = strlen(line) + 1;
    if (notes->used + length > notes->size) {
        bigger = realloc(notes->text, notes->used + length + ROOM);
        if (!bigger)
            return;
        notes->text = bigger;
        notes->size = notes->used + length + ROOM;
    }
    memcpy(notes->text + notes->used, line, length);
    notes->used += length;
}

struct kit_notes pawl__kit_notes_take(struct kit_notes *notes) {
    struct kit_notes taken = *notes;

    *notes = (struct kit_notes){0};
    return taken;
}

void pawl__kit_notes_tell(const struct pawl__engine *engine, struct kit_notes notes) {
    for (size_t at = 0; at < notes.used; at += strlen(notes.text + at) + 1) {
        const char *line = notes.text + at;

        if (*line == KIT_WARNING)
            pawl__warn(engine, "%s", line + 1);
        else
            pawl__note(engine, NULL, "%s", line + 1);
    }
    free(notes.text);
}
