/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - names and texts of the codes, from the one list in pawl.h.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *pawl_error_name(int code) {
    switch (code) {
#define NAME(name, number, text)                                                                                                   \
    case PAWL_##name:                                                                                                              \
        return "PAWL_" #name;
        PAWL_ERRORS(NAME)
#undef NAME
    case 0:
        return "PAWL_OK";
    default:
        return "PAWL_E?";
    }
}

const char *pawl_error_text(int code) {
    switch (code) {
#define TEXT(name, number, text)                                                                                                   \
    case PAWL_##name:                                                                                                              \
        return text;
        PAWL_ERRORS(TEXT)
#undef TEXT
    case 0:
        return "success";
    default:
        return "not a code of pawl's";
    }
}

/* `why` may be NULL. */
__attribute__((format(printf, 4, 0))) static int fail(struct pawl_error *reterr, int code, const char *why, const char *format,
                                                      va_list args) {
    size_t used;

    if (!reterr)
        return code;
    reterr->code = code;
    vsnprintf(reterr->text, sizeof reterr->text, format, args);
    used = strlen(reterr->text);
    if (why)
        snprintf(reterr->text + used, sizeof reterr->text - used, ": %s", why);
    return code;
}

int pawl__fail(struct pawl_error *reterr, int code, const char *format, ...) {
    va_list args;

    va_start(args, format);
    code = fail(reterr, code, NULL, format, args);
    va_end(args);
    return code;
}

static int code_of_errno(int number) {
    switch (number) {
    case ENOMEM:
        return PAWL_ENOMEM;
    case EACCES:
    case EPERM:
    case EROFS:
        return PAWL_EACCES;
    case ENOSPC:
    case EDQUOT:
        return PAWL_ENOSPACE;
    default:
        return PAWL_ESYSTEM;
    }
}

int pawl__fail_errno(struct pawl_error *reterr, const char *format, ...) {
    int number = errno, code;
    va_list args;

    va_start(args, format);
    code = fail(reterr, code_of_errno(number), strerrordesc_np(number), format, args);
    va_end(args);
    return code;
}
