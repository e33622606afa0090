/* SPDX-License-Identifier: Apache-2.0
 *
 * breaking.c - what the body of POST /api/break says: an object of JSON that has texts and flags in it, and no more than that. See
 * breaking.h.
 */
#include "breaking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cli.h"

struct cursor {
    const char *at; /* the body ends with a NUL */
};

/* Skip spaces, and this one if it is next. */
static bool take(struct cursor *cursor, char wanted) {
    json_skip(&cursor->at);
    if (*cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

/* Behind \u. A character beyond 16 bits is two of them; half of one, and a NUL, are refused. */
static bool take_unicode(struct cursor *cursor, char *out, size_t *length) {
    uint32_t code, low;

    if (!json_code(&cursor->at, &code) || code == 0 || (code >= 0xdc00 && code < 0xe000))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (!json_word(&cursor->at, "\\u") || !json_code(&cursor->at, &low) || low < 0xdc00 || low >= 0xe000)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *length = utf8_write(code, out);
    return true;
}

/* Behind a backslash. */
static bool take_escape(struct cursor *cursor, char *out, size_t *length) {
    char letter = *cursor->at++;

    if (letter == 'u')
        return take_unicode(cursor, out, length);
    out[0] = json_escape(letter);
    *length = 1;
    return out[0] != '\0';
}

static bool take_text(struct cursor *cursor, char *out, size_t room) {
    size_t used = 0;

    if (!take(cursor, '"'))
        return false;
    while (*cursor->at != '"') {
        char piece[4] = {*cursor->at};
        size_t length = 1;

        if ((unsigned char)piece[0] < 0x20)
            return false;
        cursor->at++;
        if ((piece[0] == '\\' && !take_escape(cursor, piece, &length)) || used + length >= room)
            return false;
        memcpy(out + used, piece, length);
        used += length;
    }
    cursor->at++;
    out[used] = '\0';
    return true;
}

static bool take_flag(struct cursor *cursor, bool *ret) {
    json_skip(&cursor->at);
    *ret = json_word(&cursor->at, "true");
    return *ret || json_word(&cursor->at, "false");
}

static bool take_value(struct cursor *cursor, const char *key, struct breaking *breaking) {
    char token[32];

    if (strcmp(key, "url") == 0)
        return take_text(cursor, breaking->url, sizeof breaking->url);
    if (strcmp(key, "name") == 0)
        return take_text(cursor, breaking->name, sizeof breaking->name);
    if (strcmp(key, "now") == 0)
        return take_flag(cursor, &breaking->now);
    if (strcmp(key, "token") != 0 || !take_text(cursor, token, sizeof token))
        return false;
    errno = 0;
    breaking->token = strtoull(token, NULL, 10);
    return errno == 0 && token[0] != '\0' && strspn(token, "0123456789") == strlen(token);
}

const char *breaking_read(const char *body, size_t length, struct breaking *ret) {
    static const char usage[] = "the body is to be {\"url\":\"...\",\"name\":\"...\",\"token\":\"...\",\"now\":false}";
    struct cursor cursor = {body};
    char key[8];

    *ret = (struct breaking){0};
    if (strlen(body) != length || !take(&cursor, '{'))
        return usage;
    do {
        if (!take_text(&cursor, key, sizeof key) || !take(&cursor, ':') || !take_value(&cursor, key, ret))
            return usage;
    } while (take(&cursor, ','));
    if (!take(&cursor, '}'))
        return usage;
    json_skip(&cursor.at);
    if (*cursor.at != '\0' || ret->name[0] == '\0' || ret->url[0] == '\0' || ret->token == 0)
        return usage;
    return NULL;
}
