/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - the data of a value's znode: one line that says who wrote it, then the bytes, as they are.
 *
 *     pawl-value 1 token=1408 by=5f0c...-8000-8000-... number=3
 *
 * A program of others skips the line. Words that it does not know, a later pawl's, a reader leaves out; another number after `pawl-value`
 * would be another format. More bytes than a value can have were not written by a pawl.
 */
#include "engine/zookeeper/value/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char format_name[] = "pawl-value 1 ";

char *pawl__zk_value_format(const struct zk_value *value, int *ret_length) {
    char *data = malloc(ZK_VALUE_HEAD + value->size);
    int head;

    if (!data)
        return NULL;
    head = snprintf(data, ZK_VALUE_HEAD, "%stoken=%" PRIu64 " by=%s number=%" PRIu64 "\n", format_name, value->token, value->by,
                    value->number);
    if (value->size)
        memcpy(data + head, value->bytes, value->size);
    *ret_length = head + (int)value->size;
    return data;
}

/* The word after ` key=` in the line; NULL: it is not there. */
static const char *word_of(const char *line, const char *key) {
    const char *found = strstr(line, key);

    return found ? found + strlen(key) : NULL;
}

static bool take_number(const char *line, const char *key, uint64_t *ret) {
    const char *word = word_of(line, key);
    char *end;

    if (!word || *word < '0' || *word > '9')
        return false;
    *ret = strtoull(word, &end, 10);
    return *end == ' ' || *end == '\0';
}

static bool take_author(const char *line, char ret[ZK_GUID_SIZE]) {
    const char *word = word_of(line, " by=");
    size_t length = word ? strcspn(word, " ") : 0;

    if (length == 0 || length >= ZK_GUID_SIZE)
        return false;
    memcpy(ret, word, length);
    ret[length] = '\0';
    return true;
}

bool pawl__zk_value_parse(const char *data, int length, struct zk_value *ret) {
    const char *end = data ? memchr(data, '\n', (size_t)(length < ZK_VALUE_HEAD ? length : ZK_VALUE_HEAD)) : NULL;
    char line[ZK_VALUE_HEAD + 1];

    if (!end)
        return false;
    memcpy(line, data, (size_t)(end - data));
    line[end - data] = '\0';
    if (strlen(line) != (size_t)(end - data) || strncmp(line, format_name, strlen(format_name)) != 0 ||
        !take_number(line, " token=", &ret->token) || !take_number(line, " number=", &ret->number) || !take_author(line, ret->by))
        return false;
    ret->bytes = end + 1;
    ret->size = (size_t)(length - (end + 1 - data));
    return ret->size <= PAWL_VALUE_MAX; /* a server lets others write more */
}
