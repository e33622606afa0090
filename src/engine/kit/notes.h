/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.h - what is noted while an engine's mutex is held, and told once it is free: the listener may be slow.
 */
#ifndef PAWL_KIT_NOTES_H
#define PAWL_KIT_NOTES_H

#include <stdarg.h>

#include "engine/engine.h"

struct kit_notes {
    char *text; /* lines, each with its kind in front and a NUL behind */
    size_t used, size;
};

enum kit_note { KIT_NOTE = 'n', KIT_WARNING = 'w' };

/* Keep one, about the lock of this name if it is not NULL. Without memory it is dropped. */
void pawl__kit_notes_add(struct kit_notes *notes, enum kit_note kind, const char *name, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
/* Take what is kept, with the mutex held; ... */
struct kit_notes pawl__kit_notes_take(struct kit_notes *notes);
/* ... and tell it, without. */
void pawl__kit_notes_tell(const struct pawl__engine *engine, struct kit_notes notes);

#endif
