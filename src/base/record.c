/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - writing and reading the owner's record.
 */
#include "base/record.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

static const char magic[] = "pawl1";

/* Append ` key=value`, escaped. The buffer is known to be large enough (PAWL__RECORD_MAX), and is checked all the same. */
static size_t append(char *buffer, size_t size, size_t used, const char *key, const char *value) {
    int n = snprintf(buffer + used, size - used, " %s=", key);

    if (n < 0 || (size_t)n >= size - used)
        return used;
    used += (size_t)n;
    for (; *value && used + 4 < size; value++) {
        unsigned char c = (unsigned char)*value;

        if (c <= ' ' || c == '%' || c == '=' || c == 0x7f)
            used += (size_t)snprintf(buffer + used, size - used, "%%%02x", c);
        else
            buffer[used++] = (char)c;
    }
    buffer[used] = '\0';
    return used;
}

static size_t append_number(char *buffer, size_t size, size_t used, const char *key, int64_t number) {
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)number);
    return append(buffer, size, used, key, text);
}

size_t pawl__record_format(const struct pawl__identity *identity, char *buffer, size_t size) {
    size_t used = (size_t)snprintf(buffer, size, "%s", magic);

    used = append(buffer, size, used, "host", identity->host);
    used = append_number(buffer, size, used, "pid", identity->pid);
    used = append(buffer, size, used, "cmd", identity->command);
    used = append(buffer, size, used, "label", identity->label);
    if (*identity->agent)
        used = append(buffer, size, used, "id", identity->agent);
    if (*identity->around)
        used = append(buffer, size, used, "up", identity->around);
    if (identity->lease_ms > 0)
        used = append_number(buffer, size, used, "ttl", identity->lease_ms);
    return used;
}

char *pawl__record_put(char *to, const char *record, const char *label) {
    const char *own = label ? strstr(record, " label=") : NULL; /* nothing else looks so: values have no blanks */
    size_t used;

    if (!own)
        return stpcpy(to, record);
    used = (size_t)(own - record);
    memcpy(to, record, used);
    used = append(to, PAWL__RECORD_MAX, used, "label", label);
    return stpcpy(to + used, own + 1 + strcspn(own + 1, " "));
}

bool pawl__agent_is(const char *text) {
    return strspn(text, "0123456789abcdef") == PAWL__AGENT_SIZE - 1 && text[PAWL__AGENT_SIZE - 1] == '\0';
}

/* Copy a value of `length` bytes, unescaped and cut to fit. What would garble a terminal is shown as '?'. */
static void copy_value(const char *from, size_t length, char *to, size_t size) {
    size_t used = 0;

    for (size_t i = 0; i < length && used + 1 < size; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c == '%' && i + 2 < length && isxdigit((unsigned char)from[i + 1]) && isxdigit((unsigned char)from[i + 2])) {
            const char digits[] = {from[i + 1], from[i + 2], '\0'};

            c = (unsigned char)strtoul(digits, NULL, 16);
            i += 2;
        }
        to[used++] = (char)(c < ' ' || c == 0x7f ? '?' : c);
    }
    to[used] = '\0';
}

static bool key_is(const char *word, const char *equals, const char *key) {
    return (size_t)(equals - word) == strlen(key) && memcmp(word, key, strlen(key)) == 0;
}

static int64_t number_of(const char *value, size_t length) {
    char text[24];

    copy_value(value, length, text, sizeof text);
    return strtoll(text, NULL, 10);
}

/* Another form than ours is as good as none. */
static void copy_agent(const char *value, size_t length, char to[PAWL__AGENT_SIZE]) {
    char text[PAWL__AGENT_SIZE + 1]; /* one that is too long stays so */

    copy_value(value, length, text, sizeof text);
    if (pawl__agent_is(text))
        memcpy(to, text, PAWL__AGENT_SIZE);
}

static void take_word(const char *word, size_t length, struct pawl__identity *identity) {
    const char *equals = memchr(word, '=', length), *value;
    size_t value_length;
    int64_t lease_ms;

    if (!equals)
        return;
    value = equals + 1;
    value_length = length - (size_t)(value - word);
    if (key_is(word, equals, "host")) {
        copy_value(value, value_length, identity->host, sizeof identity->host);
    } else if (key_is(word, equals, "cmd")) {
        copy_value(value, value_length, identity->command, sizeof identity->command);
    } else if (key_is(word, equals, "label")) {
        copy_value(value, value_length, identity->label, sizeof identity->label);
    } else if (key_is(word, equals, "pid")) {
        identity->pid = number_of(value, value_length);
    } else if (key_is(word, equals, "id")) {
        copy_agent(value, value_length, identity->agent);
    } else if (key_is(word, equals, "up")) {
        copy_agent(value, value_length, identity->around);
    } else if (key_is(word, equals, "ttl") && (lease_ms = number_of(value, value_length)) > 0) {
        identity->lease_ms = lease_ms;
    }
}

bool pawl__record_parse(const char *text, size_t length, struct pawl__identity *ret) {
    const char *end = text + length, *word = text;
    size_t prefix = sizeof magic - 1;

    memset(ret, 0, sizeof *ret);
    if (length < prefix || memcmp(text, magic, prefix) != 0 || (length > prefix && text[prefix] != ' '))
        return false;
    while (word < end) {
        const char *blank = memchr(word, ' ', (size_t)(end - word));
        const char *stop = blank ? blank : end;

        take_word(word, (size_t)(stop - word), ret);
        word = stop + 1;
    }
    return true;
}

void pawl__record_show(const struct pawl__identity *identity, struct pawl_entry *ret) {
    ret->host = identity->host;
    ret->pid = identity->pid;
    ret->command = identity->command;
    ret->label = identity->label;
    ret->agent = identity->agent;
    ret->around = identity->around;
    ret->lease_ms = identity->lease_ms ? identity->lease_ms : -1;
}
