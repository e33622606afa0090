/* SPDX-License-Identifier: Apache-2.0
 *
 * examine.c - see examine.h.
 */
#include "engine/examine.h"

#include <stdarg.h>
#include <stdio.h>

void pawl__found(struct pawl__exam *exam, enum pawl_severity severity, const char *advice, const char *format, ...) {
    struct pawl_finding finding = {.severity = severity, .advice = advice};
    char what[512];
    va_list args;

    if (exam->rc != 0)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    finding.what = what;
    exam->rc = exam->visit(&finding, exam->data);
}
