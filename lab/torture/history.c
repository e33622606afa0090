/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - see history.h.
 */
#include "history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *word, *arguments;
    size_t length;
} words[RECORD_KINDS] = {
#define RECORD_WORD(name, word, arguments) {word, arguments, sizeof word - 1},
    RECORDS(RECORD_WORD)
#undef RECORD_WORD
};

const struct who history_rig = {.slot = -1};

/* ---- Writing -------------------------------------------------------------------------------------------------------------- */

int64_t history_clock(void) {
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool history_append(const struct history *history, int64_t time, struct who who, enum record_kind kind, const char *format, ...) {
    char line[HISTORY_LINE];
    va_list arguments;
    int used;

    if (who.slot < 0)
        used = snprintf(line, sizeof line, "%" PRId64 " rig %s", time, words[kind].word);
    else
        used = snprintf(line, sizeof line, "%" PRId64 " %d.%u.%d %s", time, who.slot, who.life, who.thread, words[kind].word);
    va_start(arguments, format);
    int more = vsnprintf(line + used + 1, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    if (more > 0) {
        line[used] = ' ';
        used += 1 + more;
    }
    if (used > (int)sizeof line - 1)
        used = sizeof line - 1;
    line[used++] = '\n';
    return write(history->fd, line, (size_t)used) == used;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------- */

/* What is left of a line. */
struct cursor {
    const char *at, *end;
};

static bool take_char(struct cursor *cursor, char wanted) {
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

static bool take_number(struct cursor *cursor, uint64_t limit, uint64_t *ret) {
    const char *start = cursor->at;
    uint64_t value = 0;

    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        unsigned digit = (unsigned)(*cursor->at - '0');

        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return cursor->at > start;
}

static bool take_signed(struct cursor *cursor, int64_t *ret) {
    bool negative = take_char(cursor, '-');
    uint64_t value;

    if (!take_number(cursor, INT64_MAX, &value))
        return false;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static bool take_process(struct cursor *cursor, struct who *ret) {
    uint64_t slot, life;

    if (!take_number(cursor, HISTORY_SLOTS - 1, &slot) || !take_char(cursor, '.') || !take_number(cursor, UINT32_MAX, &life))
        return false;
    *ret = (struct who){.slot = (int)slot, .life = (unsigned)life};
    return true;
}

static bool take_who(struct cursor *cursor, struct who *ret) {
    uint64_t thread;

    if (cursor->end - cursor->at >= 3 && memcmp(cursor->at, "rig", 3) == 0) {
        cursor->at += 3;
        *ret = history_rig;
        return true;
    }
    if (!take_process(cursor, ret) || !take_char(cursor, '.') || !take_number(cursor, HISTORY_THREADS - 1, &thread))
        return false;
    ret->thread = (int)thread;
    return true;
}

static size_t word_length(const struct cursor *cursor) {
    const char *blank = memchr(cursor->at, ' ', (size_t)(cursor->end - cursor->at));

    return (size_t)((blank != NULL ? blank : cursor->end) - cursor->at);
}

static bool take_kind(struct cursor *cursor, enum record_kind *ret) {
    size_t length = word_length(cursor);

    for (int i = 0; i < RECORD_KINDS; i++)
        if (words[i].length == length && memcmp(words[i].word, cursor->at, length) == 0) {
            cursor->at += length;
            *ret = (enum record_kind)i;
            return true;
        }
    return false;
}

static bool take_text(struct cursor *cursor, size_t length, struct record *record) {
    record->text = cursor->at;
    record->text_length = length;
    cursor->at += length;
    return length > 0;
}

static bool take_argument(struct cursor *cursor, char letter, int *numbers, struct record *record) {
    uint64_t number;

    switch (letter) {
    case 'n':
        /* Tokens are 64 bits: kept as they are. */
        if (!take_number(cursor, UINT64_MAX, &number))
            return false;
        record->numbers[(*numbers)++] = (int64_t)number;
        return true;
    case 'i':
        return take_signed(cursor, &record->numbers[(*numbers)++]);
    case 'l':
        if (!take_number(cursor, HISTORY_LOCKS - 1, &number))
            return false;
        record->lock = (int)number;
        return true;
    case 'm':
        record->mode = cursor->at < cursor->end ? *cursor->at : '\0';
        return take_char(cursor, 'x') || take_char(cursor, 's') || take_char(cursor, 'p');
    case 'p':
        return take_process(cursor, &record->process);
    case 'w':
        return take_text(cursor, word_length(cursor), record);
    default:
        return take_text(cursor, (size_t)(cursor->end - cursor->at), record);
    }
}

bool history_parse(const char *line, size_t length, struct record *ret) {
    struct cursor cursor = {.at = line, .end = line + length};
    int numbers = 0;

    *ret = (struct record){.text = ""};
    if (!take_signed(&cursor, &ret->time) || !take_char(&cursor, ' ') || !take_who(&cursor, &ret->who) ||
        !take_char(&cursor, ' ') || !take_kind(&cursor, &ret->kind))
        return false;
    /* The rig says what the rig says, and a client what a client does. */
    if ((ret->who.slot < 0) != (ret->kind < RECORD_START))
        return false;
    for (const char *letter = words[ret->kind].arguments; *letter != '\0'; letter++)
        if (!take_char(&cursor, ' ') || !take_argument(&cursor, *letter, &numbers, ret))
            return false;
    return cursor.at == cursor.end;
}
