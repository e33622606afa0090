/* SPDX-License-Identifier: Apache-2.0
 *
 * name.h - what may be the name of a lock: 1 to 255 bytes of UTF-8 without control characters.
 */
#ifndef PAWL_NAME_H
#define PAWL_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "pawl.h"

enum { PAWL__NAME_MAX = 255 };

/* 0, or PAWL_ENAME with a sentence that says what is wrong with it. */
int pawl__name_check(const char *name, struct pawl_error *reterr);

/* 32 bits of FNV-1a. Part of the local engine's file format: a name must find its bucket in every version. */
uint32_t pawl__name_hash(const char *name, size_t length);

#endif
