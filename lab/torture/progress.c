/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - see progress.h.
 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "../../cli/common/cli.h"

enum { REFRESH_MS = 250 };

static struct {
    int64_t due;
    bool shown;
} line;

static void put(const char *text, size_t length) {
    if (write(STDERR_FILENO, text, length) < 0)
        return;
}

void progress_draw(const struct progress *progress) {
    char text[256], output[300];

    if (now_ms() < line.due || !isatty(STDERR_FILENO))
        return;
    line.due = now_ms() + REFRESH_MS;
    line.shown = true;
    snprintf(text, sizeof text,
             "%" PRId64 "/%" PRId64 " s: %" PRIu64 " acquired, %" PRIu64 " not, %" PRIu64 " lost; %" PRIu64 " faults, %" PRIu64
             " took effect%s%s",
             progress->elapsed_ms / 1000, progress->total_ms / 1000, progress->acquired, progress->failed, progress->lost,
             progress->strokes, progress->hits, progress->fault[0] != '\0' ? "; now: " : "", progress->fault);
    cut_to_columns(text, terminal_columns(STDERR_FILENO) - 3);
    int length = snprintf(output, sizeof output, "\r%s\033[K", text);

    put(output, (size_t)length);
}

void progress_end(void) {
    if (line.shown)
        put("\r\033[K", 4);
    line.shown = false;
}
