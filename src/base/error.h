/* SPDX-License-Identifier: Apache-2.0
 *
 * error.h - filling in a caller's struct pawl_error.
 */
#ifndef PAWL_ERROR_H
#define PAWL_ERROR_H

#include "pawl.h"

/* Write code and sentence to `reterr` unless it is NULL; return the code, so that failing is one statement. */
int pawl__fail(struct pawl_error *reterr, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* As pawl__fail, for a system call that set errno: appends its text, and picks the code that fits (ENOSPC, EACCES, ...). */
int pawl__fail_errno(struct pawl_error *reterr, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
