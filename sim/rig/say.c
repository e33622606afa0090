/* SPDX-License-Identifier: Apache-2.0
 *
 * say.c - what a client of the rig says when it gives up: in the world there is no terminal, so the command's own say() is left out.
 */
#include <stdarg.h>
#include <stdio.h>

#include "../../cli/common/cli.h"

void say(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
