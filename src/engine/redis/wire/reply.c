/* SPDX-License-Identifier: Apache-2.0
 *
 * reply.c - what the server's answers mean.
 *
 *   AGAIN      for a while the server can't: another client's script runs (BUSY), it loads its data, ...: ask again, later
 *   NOSCRIPT   ask again, with the script's body
 *   READONLY   it has become a replica: this connection is of no use, look for the primary
 *   MOVED      in a cluster: another node has the slot; ASK: another node may have the key already
 *   REFUSED    it will not, and asking again would not help: the one who asked must know
 *
 * A server's own words are shown to people, but never more than a line of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/redis/wire/wire.h"
#include "base/error.h"

struct meaning {
    const char *word;
    enum reply_class class;
    int code;
    const char *advice;
};

static const struct meaning meanings[] = {
    {"NOSCRIPT", REPLY_NOSCRIPT, PAWL_EUNKNOWN, ""},
    {"BUSY", REPLY_AGAIN, PAWL_ECONNLOST, "it runs another client's script: SCRIPT KILL ends it"},
    {"LOADING", REPLY_AGAIN, PAWL_ECONNLOST, "it is loading its data: wait"},
    {"TRYAGAIN", REPLY_AGAIN, PAWL_ECONNLOST, "wait"},
    {"CLUSTERDOWN", REPLY_AGAIN, PAWL_ETOPOLOGY, "the cluster, or a part of it, is without a primary: see CLUSTER INFO"},
    {"MASTERDOWN", REPLY_AGAIN, PAWL_ECONNLOST, "its primary can't be reached"},
    {"NOREPLICAS", REPLY_AGAIN, PAWL_EREPLICAS, "it wants more replicas before it writes: look at min-replicas-to-write"},
    {"MISCONF", REPLY_AGAIN, PAWL_ENOSPACE, "it can't save to its disk and refuses to write: look at its log"},
    {"READONLY", REPLY_READONLY, PAWL_ECONNLOST, "it is a replica: name the primary in the URL"},
    {"OOM", REPLY_REFUSED, PAWL_ENOSPACE, "it has no memory left: raise maxmemory, or free some"},
    {"NOPERM", REPLY_REFUSED, PAWL_EACCES, "the user lacks a right: docs/redis.md lists those that pawl needs"},
    {"NOAUTH", REPLY_REFUSED, PAWL_EACCES, "it wants a password: write it into the URL"},
    {"WRONGPASS", REPLY_REFUSED, PAWL_EACCES, "the user name or the password in the URL is wrong"},
    {"WRONGTYPE", REPLY_REFUSED, PAWL_EKIND, "a key that the lock needs holds something else"},
    {"MOVED", REPLY_MOVED, PAWL_ETOPOLOGY, "it is one node of a cluster: write redis-cluster: instead of redis:"},
    {"ASK", REPLY_ASK, PAWL_ECONNLOST, "the slot is being moved: wait"},
    {"SELECT", REPLY_REFUSED, PAWL_EURL, "the URL names a database that it does not have"},
    {"MAXCLIENTS", REPLY_AGAIN, PAWL_ECONNLOST, "raise its maxclients, or close connections"},
    {"CROSSSLOT", REPLY_REFUSED, PAWL_ETOPOLOGY, "it is one node of a cluster: write redis-cluster: instead of redis:"},
};

/* What the server says without a word in front, and the word that it is as good as. */
static const char *const phrases[][2] = {
    {"attempted to access a non local key", "TRYAGAIN"}, /* it is at the other node while its slot moves */
    {"The user executing the script can't", "NOPERM"},   /* until 7.0 */
    {"ACL failure in script", "NOPERM"},                 /* from 7.2 on */
    {"value is not an integer", "WRONGTYPE"},            /* a counter that is none */
    {"DB index is out of range", "SELECT"},
    {"max number of clients", "MAXCLIENTS"},
};

static bool begins(const char *text, const char *word) {
    size_t length = strlen(word);

    return strncmp(text, word, length) == 0 && (text[length] == ' ' || text[length] == '\0');
}

/* Errors raised inside a script are wrapped: older servers put the word somewhere behind. */
static const struct meaning *find(const char *text) {
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (strstr(text, phrases[i][0]))
            text = phrases[i][1];
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (begins(text, meanings[i].word))
            return &meanings[i];
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        char inner[32];

        snprintf(inner, sizeof inner, ": -%s ", meanings[i].word);
        if (strstr(text, inner) ||
            (meanings[i].class == REPLY_REFUSED && strstr(text, "OOM command") && begins("OOM", meanings[i].word)))
            return &meanings[i];
    }
    return NULL;
}

static void copy_line(char *to, size_t size, const char *from) {
    size_t i;

    for (i = 0; i + 1 < size && from[i] && from[i] != '\r' && from[i] != '\n'; i++)
        to[i] = (char)((unsigned char)from[i] < ' ' || from[i] == 0x7f ? '?' : from[i]);
    to[i] = '\0';
}

enum reply_class pawl__reply_class(const redisReply *reply, struct pawl_error *ret) {
    const struct meaning *meaning;
    char words[200];

    if (reply->type != REDIS_REPLY_ERROR)
        return REPLY_OK;
    copy_line(words, sizeof words, reply->str);
    meaning = find(words);
    if (!meaning) {
        pawl__fail(ret, PAWL_EFORMAT, "the server refused with '%s'", words);
        return REPLY_REFUSED;
    }
    pawl__fail(ret, meaning->code, "the server said '%s': %s", words, meaning->advice);
    return meaning->class;
}

bool pawl__reply_grants(const redisReply *reply) {
    int64_t token = pawl__reply_number(reply, 1, 0), count = pawl__reply_number(reply, 2, 0);

    return pawl__reply_number(reply, 0, 0) == 1 && token > 0 && token <= (int64_t)REDIS_TOKEN_MAX && count > 0 &&
           count <= REDIS_TOKENS_MAX;
}

int64_t pawl__reply_span(const redisReply *reply, size_t index) {
    int64_t ms = pawl__reply_number(reply, index, -1);

    return ms < 0 ? -1 : ms < REDIS_SPAN_MAX ? ms : REDIS_SPAN_MAX;
}

int64_t pawl__reply_number(const redisReply *reply, size_t index, int64_t otherwise) {
    const redisReply *element;

    if (reply->type != REDIS_REPLY_ARRAY || index >= reply->elements)
        return otherwise;
    element = reply->element[index];
    if (element->type == REDIS_REPLY_INTEGER)
        return element->integer;
    return element->type == REDIS_REPLY_STRING ? strtoll(element->str, NULL, 10) : otherwise;
}

void pawl__reply_info(const char *info, const char *key, char *ret, size_t size) {
    size_t length = strlen(key);
    const char *line = info;

    ret[0] = '\0';
    while (line) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            snprintf(ret, size, "%.*s", (int)strcspn(line + length + 1, "\r\n"), line + length + 1);
            return;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
}
