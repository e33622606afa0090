/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_protocol.c - requests out of a stream of bytes, and replies.
 *
 * A reply goes to a client, as RESP2, or to a script, as values on its stack: then nothing is written that would have to be read again.
 * An array is announced with its length; what follows fills it.
 */
#include <ctype.h>
#include <errno.h>
#include <lua5.1/lua.h>
#include <math.h>
#include <stdio.h>

#include "redis_internal.h"

enum { INLINE_MAX = 65536, ARGUMENTS_MAX = 1024 * 1024, BULK_MAX = 512 * 1024 * 1024 };

/* ---- Text ----------------------------------------------------------------------------------------------------------------- */

bool redis__text_is(struct text text, const char *word) {
    for (size_t i = 0; i < text.n; i++)
        if (!word[i] || tolower((unsigned char)text.s[i]) != tolower((unsigned char)word[i]))
            return false;
    return !word[text.n];
}

bool redis__text_to_int(struct text text, int64_t *ret) {
    bool negative = text.n && text.s[0] == '-';
    uint64_t number = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    size_t i = negative;

    if (text.n == 1 && text.s[0] == '0') {
        *ret = 0;
        return true;
    }
    if (i == text.n || text.s[i] < '1' || text.s[i] > '9' || text.n > 20)
        return false;
    for (; i < text.n; i++) {
        unsigned digit = (unsigned)(text.s[i] - '0');

        if (digit > 9 || number > (limit - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

bool redis__text_to_double(struct text text, double *ret) {
    char copy[256], *end;

    if (text.n == 0 || text.n >= sizeof copy || isspace((unsigned char)text.s[0]) || memchr(text.s, '\0', text.n))
        return false;
    memcpy(copy, text.s, text.n);
    copy[text.n] = '\0';
    errno = 0;
    *ret = strtod(copy, &end);
    return !*end && !isnan(*ret) && !(errno == ERANGE && (*ret == HUGE_VAL || *ret == -HUGE_VAL || fpclassify(*ret) == FP_ZERO));
}

/* One [...] of a pattern; `at` is behind the bracket, and goes behind the closing one. */
static bool matches_class(struct text pattern, size_t *at, char c) {
    bool inverted = *at < pattern.n && pattern.s[*at] == '^', found = false;
    size_t i = *at + inverted;

    for (; i < pattern.n && pattern.s[i] != ']'; i++) {
        if (pattern.s[i] == '\\' && i + 1 < pattern.n) {
            found |= pattern.s[++i] == c;
        } else if (i + 2 < pattern.n && pattern.s[i + 1] == '-') {
            unsigned char from = (unsigned char)pattern.s[i], to = (unsigned char)pattern.s[i + 2], it = (unsigned char)c;

            found |= from <= to ? it >= from && it <= to : it >= to && it <= from;
            i += 2;
        } else {
            found |= pattern.s[i] == c;
        }
    }
    *at = i < pattern.n ? i + 1 : i;
    return found != inverted;
}

bool redis__text_matches(struct text text, struct text pattern) {
    size_t t = 0, p = 0;

    while (p < pattern.n) {
        char c = pattern.s[p++];

        if (c == '*') {
            while (p < pattern.n && pattern.s[p] == '*')
                p++;
            for (size_t rest = t; rest <= text.n; rest++)
                if (redis__text_matches((struct text){text.s + rest, text.n - rest}, (struct text){pattern.s + p, pattern.n - p}))
                    return true;
            return false;
        }
        if (t == text.n)
            return false;
        if (c == '[') {
            if (!matches_class(pattern, &p, text.s[t]))
                return false;
        } else if (c != '?') {
            if (c == '\\' && p < pattern.n)
                c = pattern.s[p++];
            if (c != text.s[t])
                return false;
        }
        t++;
    }
    return t == text.n;
}

/* As a server writes a score. */
size_t redis__double_text(double number, char *ret, size_t size) {
    if (isinf(number))
        return (size_t)snprintf(ret, size, number > 0 ? "inf" : "-inf");
    if (number == 0)
        return (size_t)snprintf(ret, size, signbit(number) ? "-0" : "0");
    if (number > -4503599627370495.0 && number < 4503599627370496.0 && number == (double)(int64_t)number)
        return (size_t)snprintf(ret, size, "%lld", (long long)number);
    return (size_t)snprintf(ret, size, "%.17g", number);
}

/* ---- Bytes ---------------------------------------------------------------------------------------------------------------- */

void redis__buffer_add(struct buffer *buffer, const void *bytes, size_t size) {
    if (buffer->size + size > buffer->room) {
        buffer->room = (buffer->size + size) * 2 + 64;
        buffer->bytes = redis_grow(buffer->bytes, buffer->room);
    }
    if (size)
        memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

void redis__buffer_print(struct buffer *buffer, const char *format, ...) {
    char line[512];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    redis__buffer_add(buffer, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

void redis__buffer_free(struct buffer *buffer) {
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

static void add_head(struct buffer *buffer, char kind, int64_t number) {
    char text[32], *at = text + sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    *--at = kind;
    redis__buffer_add(buffer, at, (size_t)(text + sizeof text - at));
}

void redis__bytes_bulk(struct buffer *buffer, struct text text) {
    add_head(buffer, '$', (int64_t)text.n);
    redis__buffer_add(buffer, text.s, text.n);
    redis__buffer_add(buffer, "\r\n", 2);
}

void redis__bytes_array(struct buffer *buffer, int64_t count) {
    add_head(buffer, '*', count);
}

void redis__bytes_int(struct buffer *buffer, int64_t number) {
    add_head(buffer, ':', number);
}

/* One line: what would end it becomes a space. */
void redis__bytes_line(struct buffer *buffer, char kind, const char *text, size_t size) {
    size_t from;

    redis__buffer_add(buffer, &kind, 1);
    from = buffer->size;
    redis__buffer_add(buffer, text, size);
    for (; from < buffer->size; from++)
        if (buffer->bytes[from] == '\r' || buffer->bytes[from] == '\n')
            buffer->bytes[from] = ' ';
    redis__buffer_add(buffer, "\r\n", 2);
}

/* ---- Replies -------------------------------------------------------------------------------------------------------------- */

/* A value has come onto the stack: it is an element of the array that is open, if one is. */
static void pushed(struct sink *sink) {
    while (sink->depth > 0) {
        int top = sink->depth - 1;

        lua_rawseti(sink->lua, -2, sink->frames[top].next++);
        if (--sink->frames[top].left > 0)
            return;
        sink->depth--;
    }
}

static void push_field(struct sink *sink, const char *name, const char *text, size_t size) {
    lua_createtable(sink->lua, 0, 1);
    lua_pushlstring(sink->lua, text, size);
    lua_setfield(sink->lua, -2, name);
    pushed(sink);
}

void redis__reply_status(struct ctx *ctx, const char *status) {
    if (ctx->sink->lua)
        push_field(ctx->sink, "ok", status, strlen(status));
    else
        redis__bytes_line(ctx->sink->bytes, '+', status, strlen(status));
}

void redis__reply_error(struct ctx *ctx, const char *format, ...) {
    char text[1024];
    va_list args;
    size_t size;

    va_start(args, format);
    size = (size_t)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size = size < sizeof text ? size : sizeof text - 1;
    ctx->sink->failed = true;
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\r' || text[i] == '\n')
            text[i] = ' ';
    if (ctx->sink->lua)
        push_field(ctx->sink, "err", text, size);
    else
        redis__bytes_line(ctx->sink->bytes, '-', text, size);
}

void redis__reply_int(struct ctx *ctx, int64_t number) {
    if (!ctx->sink->lua) {
        redis__bytes_int(ctx->sink->bytes, number);
        return;
    }
    lua_pushnumber(ctx->sink->lua, (lua_Number)number);
    pushed(ctx->sink);
}

void redis__reply_bulk(struct ctx *ctx, struct text text) {
    if (!ctx->sink->lua) {
        redis__bytes_bulk(ctx->sink->bytes, text);
        return;
    }
    lua_pushlstring(ctx->sink->lua, text.s, text.n);
    pushed(ctx->sink);
}

void redis__reply_string(struct ctx *ctx, const char *text) {
    redis__reply_bulk(ctx, (struct text){text, strlen(text)});
}

void redis__reply_double(struct ctx *ctx, double number) {
    char text[64];
    size_t n = redis__double_text(number, text, sizeof text);

    redis__reply_bulk(ctx, (struct text){text, n});
}

void redis__reply_number(struct ctx *ctx, int64_t number) {
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)number);

    redis__reply_bulk(ctx, (struct text){text, (size_t)n});
}

void redis__reply_nil(struct ctx *ctx) {
    if (!ctx->sink->lua) {
        redis__buffer_add(ctx->sink->bytes, "$-1\r\n", 5);
        return;
    }
    lua_pushboolean(ctx->sink->lua, 0);
    pushed(ctx->sink);
}

void redis__reply_nil_array(struct ctx *ctx) {
    if (ctx->sink->lua)
        redis__reply_nil(ctx);
    else
        redis__buffer_add(ctx->sink->bytes, "*-1\r\n", 5);
}

void redis__reply_array(struct ctx *ctx, int64_t count) {
    struct sink *sink = ctx->sink;

    if (!sink->lua) {
        redis__bytes_array(sink->bytes, count);
        return;
    }
    lua_createtable(sink->lua, count < INT32_MAX ? (int)count : 0, 0);
    if (count == 0) {
        pushed(sink);
        return;
    }
    if (sink->depth == FRAMES)
        abort();
    sink->frames[sink->depth].left = count;
    sink->frames[sink->depth++].next = 1;
}

void redis__reply_wrong_type(struct ctx *ctx) {
    redis__reply_error(ctx, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

void redis__reply_syntax(struct ctx *ctx) {
    redis__reply_error(ctx, "ERR syntax error");
}

void redis__reply_arity(struct ctx *ctx) {
    redis__reply_error(ctx, "ERR wrong number of arguments for '%s' command", ctx->command->name);
}

bool redis__arg_int(struct ctx *ctx, int index, int64_t *ret) {
    if (redis__text_to_int(ctx->argv[index], ret))
        return true;
    redis__reply_error(ctx, "ERR value is not an integer or out of range");
    return false;
}

bool redis__arg_double(struct ctx *ctx, int index, double *ret) {
    if (redis__text_to_double(ctx->argv[index], ret))
        return true;
    redis__reply_error(ctx, "ERR value is not a valid float");
    return false;
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

static void add_word(struct words *words, struct text word) {
    if (words->count == words->room) {
        words->room = words->room ? words->room * 2 : 16;
        words->list = redis_grow(words->list, (size_t)words->room * sizeof *words->list);
    }
    words->list[words->count++] = word;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* A character behind a backslash in "..."; `at` is there. Returns it, and goes behind it. */
static char unescape(const char *line, size_t size, size_t *at) {
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    const char *found;

    if (line[*at] == 'x' && *at + 2 < size && isxdigit((unsigned char)line[*at + 1]) && isxdigit((unsigned char)line[*at + 2])) {
        *at += 3;
        return (char)(hex_digit(line[*at - 2]) * 16 + hex_digit(line[*at - 1]));
    }
    found = strchr(from, line[*at]);
    return found && line[(*at)++] ? to[found - from] : line[(*at)++];
}

/* One word of a line, which may be quoted in part. False: a quote is not closed. */
static bool split_word(const char *line, size_t size, size_t *at, char *to, size_t *length) {
    char quote = 0;

    *length = 0;
    for (; *at < size; (*at)++) {
        char c = line[*at];

        if (!quote && isspace((unsigned char)c))
            return true;
        if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote && c == quote) {
            (*at)++;
            return *at == size || isspace((unsigned char)line[*at]);
        } else if (quote == '"' && c == '\\' && *at + 1 < size) {
            (*at)++;
            to[(*length)++] = unescape(line, size, at);
            (*at)--;
        } else if (quote == '\'' && c == '\\' && *at + 1 < size && line[*at + 1] == '\'') {
            (*at)++;
            to[(*length)++] = '\'';
        } else {
            to[(*length)++] = c;
        }
    }
    return !quote;
}

/* A line of words, as people type them. */
long redis__inline_parse(const char *bytes, size_t size, struct words *ret, char *error, size_t error_size) {
    const char *end = size ? memchr(bytes, '\n', size) : NULL;
    size_t line, at = 0, used = 0, length;

    ret->count = 0;
    if (!end) {
        if (size <= INLINE_MAX)
            return 0;
        snprintf(error, error_size, "Protocol error: too big inline request");
        return -1;
    }
    line = (size_t)(end - bytes);
    if (line && bytes[line - 1] == '\r')
        line--;
    ret->inline_copy = redis_grow(ret->inline_copy, line + 1);
    while (at < line) {
        if (isspace((unsigned char)bytes[at])) {
            at++;
            continue;
        }
        if (!split_word(bytes, line, &at, ret->inline_copy + used, &length)) {
            snprintf(error, error_size, "Protocol error: unbalanced quotes in request");
            return -1;
        }
        add_word(ret, (struct text){ret->inline_copy + used, length});
        used += length;
    }
    return end - bytes + 1;
}

/* A number and its line end behind `at`. 1: read; 0: not there yet; -1: no number. */
static int read_number(const char *bytes, size_t size, size_t *at, int64_t *ret) {
    const char *end = memchr(bytes + *at, '\r', size - *at);

    if (!end || (size_t)(end - bytes) + 1 >= size)
        return size - *at > INLINE_MAX ? -1 : 0;
    if (!redis__text_to_int((struct text){bytes + *at, (size_t)(end - bytes) - *at}, ret))
        return -1;
    *at = (size_t)(end - bytes) + 2;
    return 1;
}

long redis__request_parse(const char *bytes, size_t size, struct words *ret, char *error, size_t error_size) {
    int64_t count, length;
    size_t at = 1;
    int rc;

    ret->count = 0;
    if (size == 0)
        return 0;
    if (bytes[0] != '*')
        return redis__inline_parse(bytes, size, ret, error, error_size);
    rc = read_number(bytes, size, &at, &count);
    if (rc == 0)
        return 0;
    if (rc < 0 || count > ARGUMENTS_MAX) {
        snprintf(error, error_size, "Protocol error: invalid multibulk length");
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        if (at >= size)
            return 0;
        if (bytes[at] != '$') {
            snprintf(error, error_size, "Protocol error: expected '$', got '%c'", bytes[at]);
            return -1;
        }
        at++;
        rc = read_number(bytes, size, &at, &length);
        if (rc == 0)
            return 0;
        if (rc < 0 || length < 0 || length > BULK_MAX) {
            snprintf(error, error_size, "Protocol error: invalid bulk length");
            return -1;
        }
        if (size - at < (size_t)length + 2)
            return 0;
        add_word(ret, (struct text){bytes + at, (size_t)length});
        at += (size_t)length + 2;
    }
    return (long)at;
}
