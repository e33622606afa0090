/* SPDX-License-Identifier: Apache-2.0
 *
 * registry.c - what every engine may use: notes for the trace, warnings; and the list of the engines in this build.
 */
#include "engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct pawl__engine_impl *const engines[] = {
    &pawl__local_engine,
#ifdef HAVE_REDIS
    &pawl__redis_engine,     &pawl__redlock_engine,
#endif
#ifdef HAVE_ZOOKEEPER
    &pawl__zookeeper_engine,
#endif
#ifdef PAWL_WITH_TEXTBOOK
    &pawl__textbook_engine,
#endif
};

const struct pawl__engine_impl *pawl__engine_find(const char *scheme) {
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        for (const char *const *s = engines[i]->schemes; *s; s++)
            if (strcmp(*s, scheme) == 0)
                return engines[i];
    return NULL;
}

const char *pawl__engine_list(void) {
    return "local"
#ifdef HAVE_REDIS
           " redis redlock"
#endif
#ifdef HAVE_ZOOKEEPER
           " zk"
#endif
        ;
}

void pawl__note(const struct pawl__engine *engine, const struct pawl__claim *claim, const char *format, ...) {
    char text[512];
    va_list args;

    if (!engine->note)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    engine->note(engine->note_data, claim, text);
}

void pawl__warn(const struct pawl__engine *engine, const char *format, ...) {
    char text[512];
    va_list args;

    if (!engine->warn)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    engine->warn(engine->warn_data, text);
}
