/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - text as a terminal sees it, and time as a person says it.
 *
 * Records come from other programs, some of them not ours: what is printed of them must neither move the cursor nor break a table.
 * So everything passes through printable() once; the other functions take what it made; but json_string() takes anything.
 */
#include "cli.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <wchar.h>

/* Decode one character; returns its length in bytes, 0 if it is not well-formed UTF-8 (RFC 3629). */
static size_t decode(const unsigned char *in, uint32_t *ret) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = in[0] < 0x80 ? 1 : in[0] >> 5 == 6 ? 2 : in[0] >> 4 == 14 ? 3 : in[0] >> 3 == 30 ? 4 : 0;
    uint32_t code = length > 1 ? in[0] & (0x7fu >> length) : in[0];

    for (size_t i = 1; i < length; i++) {
        if ((in[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (in[i] & 0x3f);
    }
    if (length == 0 || code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret = code;
    return length;
}

size_t utf8_length(const char *text) {
    uint32_t code;

    return decode((const unsigned char *)text, &code);
}

size_t utf8_write(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((length == 2 ? 0xc0 : length == 3 ? 0xe0 : 0xf0) | code);
    return length;
}

/* C0, DEL, C1, line and paragraph separators, and what turns the direction of writing. */
static bool is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

char *printable(char *out, size_t size, const char *in) {
    size_t used = 0;

    while (*in != '\0') {
        uint32_t code = 0;
        size_t length = decode((const unsigned char *)in, &code);
        bool shown = length > 0 && !is_control(code);
        size_t needed = shown ? length : 1;

        if (used + needed >= size)
            break;
        if (shown)
            memcpy(out + used, in, length);
        else
            out[used] = '?';
        used += needed;
        in += length > 0 ? length : 1;
    }
    out[used] = '\0';
    return out;
}

/* How wide one character is. The terminal decides; the C library's table is the best guess, in any locale. */
static int width_of(uint32_t code) {
    static bool ready;

    if (!ready && setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        setlocale(LC_CTYPE, "");
    ready = true;
    int width = wcwidth((wchar_t)code);
    return width < 0 ? 1 : width;
}

/* Walk until the end or until the next character would pass the limit; returns the columns so far. */
static int walk(const char *text, int limit, size_t *ret_bytes) {
    int columns = 0;
    size_t at = 0;

    while (text[at] != '\0') {
        uint32_t code = (unsigned char)text[at];
        size_t length = decode((const unsigned char *)text + at, &code);
        int width = code < 0x7f ? 1 : width_of(code);

        if (columns + width > limit)
            break;
        columns += width;
        at += length > 0 ? length : 1;
    }
    *ret_bytes = at;
    return columns;
}

int columns_of(const char *text) {
    size_t bytes;

    return walk(text, INT_MAX, &bytes);
}

void cut_to_columns(char *text, int columns) {
    size_t bytes;

    walk(text, columns, &bytes);
    text[bytes] = '\0';
}

char *duration_in_words(char *out, size_t size, int64_t ms) {
    int64_t s = ms / 1000, min = s / 60, h = min / 60;

    if (ms < 0)
        ms = s = min = h = 0;
    if (ms < 1000)
        snprintf(out, size, "%" PRId64 " ms", ms);
    else if (s < 60)
        snprintf(out, size, "%" PRId64 " s", s);
    else if (min < 60)
        snprintf(out, size, s % 60 ? "%" PRId64 " min %" PRId64 " s" : "%" PRId64 " min", min, s % 60);
    else if (h < 24)
        snprintf(out, size, min % 60 ? "%" PRId64 " h %" PRId64 " min" : "%" PRId64 " h", h, min % 60);
    else
        snprintf(out, size, h % 24 ? "%" PRId64 " d %" PRId64 " h" : "%" PRId64 " d", h / 24, h % 24);
    return out;
}

void shell_quote(char *out, size_t size, const char *text) {
    size_t used = (size_t)snprintf(out, size, "'");

    for (; *text != '\0' && used + 8 < size; text++)
        used += (size_t)snprintf(out + used, size - used, *text == '\'' ? "'\\''" : "%c", *text);
    snprintf(out + used, size - used, "'");
}

int terminal_columns(int fd) {
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void json_string(FILE *out, const char *text) {
    fputc('"', out);
    while (*text != '\0') {
        unsigned char byte = (unsigned char)*text;
        size_t length = byte < 0x80 ? 0 : utf8_length(text);

        if (length > 0)
            fwrite(text, 1, length, out);
        else if (byte >= 0x80)
            fputs("\\ufffd", out);
        else if (byte < 0x20 || byte == 0x7f)
            fprintf(out, "\\u%04x", byte);
        else
            fprintf(out, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
        text += length > 0 ? length : 1;
    }
    fputc('"', out);
}

void json_skip(const char **at) {
    *at += strspn(*at, " \t\r\n");
}

bool json_word(const char **at, const char *word) {
    size_t length = strlen(word);

    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

char json_escape(char letter) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = letter != '\0' ? strchr(letters, letter) : NULL;

    return found != NULL ? meanings[found - letters] : '\0';
}

bool json_code(const char **at, uint32_t *ret) {
    char digits[5] = "";

    if (strspn(*at, "0123456789abcdefABCDEF") < 4)
        return false;
    memcpy(digits, *at, 4);
    *at += 4;
    *ret = (uint32_t)strtoul(digits, NULL, 16);
    return true;
}

static int64_t clock_ms(clockid_t clock) {
    struct timespec time;

    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int64_t now_ms(void) {
    return clock_ms(CLOCK_BOOTTIME);
}

int64_t wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

int64_t deadline_in(int64_t ms) {
    int64_t now = now_ms();

    return ms >= PAWL_FOREVER - now ? PAWL_FOREVER : now + ms;
}

int poll_timeout(int64_t deadline) {
    if (deadline == PAWL_FOREVER)
        return -1;
    int64_t left = deadline - now_ms();
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}
