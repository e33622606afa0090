/* SPDX-License-Identifier: Apache-2.0
 *
 * name.c - checking and hashing names of locks.
 */
#include "base/name.h"

#include <string.h>

#include "base/error.h"

/* The length of the UTF-8 sequence at `s`, or 0 if it is not one: overlong forms, surrogates and what lies beyond U+10FFFF are not. */
static size_t utf8_sequence(const unsigned char *s) {
    static const struct {
        unsigned char mask, lead;
        uint32_t lowest;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t extra = 0; extra < 4; extra++) {
        uint32_t point;

        if ((s[0] & forms[extra].mask) != forms[extra].lead)
            continue;
        point = s[0] & (unsigned char)~forms[extra].mask;
        for (size_t i = 1; i <= extra; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            point = point << 6 | (s[i] & 0x3f);
        }
        if (point < forms[extra].lowest || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
            return 0;
        return extra + 1;
    }
    return 0;
}

static int is_control(const unsigned char *s) {
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

int pawl__name_check(const char *name, struct pawl_error *reterr) {
    const unsigned char *s = (const unsigned char *)name;
    size_t length, step;

    if (!name)
        return pawl__fail(reterr, PAWL_ENAME, "the lock's name is missing: pass 1 to %d bytes of UTF-8", PAWL__NAME_MAX);
    length = strnlen(name, PAWL__NAME_MAX + 1);
    if (length == 0)
        return pawl__fail(reterr, PAWL_ENAME, "the lock's name is empty: pass 1 to %d bytes of UTF-8", PAWL__NAME_MAX);
    if (length > PAWL__NAME_MAX)
        return pawl__fail(reterr, PAWL_ENAME, "the lock's name '%.40s...' is longer than %d bytes: choose a shorter one", name,
                          PAWL__NAME_MAX);
    for (size_t i = 0; i < length; i += step) {
        step = utf8_sequence(s + i);
        if (step == 0)
            return pawl__fail(reterr, PAWL_ENAME, "the lock's name is not UTF-8 at byte %zu (0x%02x): encode it as UTF-8", i, s[i]);
        if (is_control(s + i))
            return pawl__fail(reterr, PAWL_ENAME, "the lock's name has a control character at byte %zu (0x%02x): leave it out", i,
                              s[i]);
    }
    return 0;
}

uint32_t pawl__name_hash(const char *name, size_t length) {
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}
