/* SPDX-License-Identifier: Apache-2.0
 *
 * url.c - a small parser that works in one copy of the text: each step cuts off what it has understood with a NUL.
 */
#include "base/url.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Decode percent escapes in place. An escaped NUL would cut the text off for its next reader, so it is refused. */
static int unescape(char *text, struct pawl_error *reterr) {
    char *to = text;

    for (const char *from = text; *from; from++) {
        unsigned byte = 0;

        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        if (isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]))
            sscanf(from + 1, "%2x", &byte);
        if (byte == 0)
            return pawl__fail(reterr, PAWL_EURL,
                              "the URL has a '%%' that two hex digits (not 00) must follow: write %%25 for '%%'");
        *to++ = (char)byte;
        from += 2;
    }
    *to = '\0';
    return 0;
}

const char *pawl__url_host_port(const char *host, unsigned port, char ret[PAWL__URL_HOST_PORT]) {
    snprintf(ret, PAWL__URL_HOST_PORT, strchr(host, ':') ? "[%.255s]:%u" : "%.255s:%u", host, port);
    return ret;
}

static int parse_host(char *text, struct pawl__url *url, struct pawl_error *reterr) {
    struct pawl__url_host *host;
    char *colon, *end, *bracket = NULL;

    if (url->host_count == PAWL__URL_HOSTS)
        return pawl__fail(reterr, PAWL_EURL, "the URL has more than %d hosts", PAWL__URL_HOSTS);
    host = &url->hosts[url->host_count];
    if (text[0] == '[') {
        bracket = strchr(text, ']');
        if (!bracket || (bracket[1] && bracket[1] != ':'))
            return pawl__fail(reterr, PAWL_EURL, "the URL's host '%.60s' lacks its ']'", text);
        *bracket = '\0';
        text++;
        colon = bracket[1] == ':' ? bracket + 1 : NULL;
    } else {
        colon = strchr(text, ':');
    }
    if (colon) {
        unsigned long port;

        *colon = '\0';
        errno = 0;
        port = strtoul(colon + 1, &end, 10);
        if (!isdigit((unsigned char)colon[1]) || *end || errno || port < 1 || port > 65535)
            return pawl__fail(reterr, PAWL_EURL, "the URL's port '%.20s' is not a number from 1 to 65535", colon + 1);
        host->port = (unsigned)port;
    }
    if (!*text)
        return pawl__fail(reterr, PAWL_EURL, "the URL has an empty host name");
    host->name = text;
    url->host_count++;
    return unescape(text, reterr);
}

/* user:password@host:port,host:port */
static int parse_authority(char *text, struct pawl__url *url, struct pawl_error *reterr) {
    char *at = strrchr(text, '@'), *colon, *host;
    int rc;

    if (at) {
        *at = '\0';
        colon = strchr(text, ':');
        if (colon) {
            *colon = '\0';
            url->password = colon + 1;
            if ((rc = unescape(colon + 1, reterr)) < 0)
                return rc;
        }
        url->user = text;
        if ((rc = unescape(text, reterr)) < 0)
            return rc;
        text = at + 1;
    }
    if (!*text)
        return 0;
    while ((host = strsep(&text, ",")))
        if ((rc = parse_host(host, url, reterr)) < 0)
            return rc;
    return 0;
}

static int parse_option(char *text, struct pawl__url *url, struct pawl_error *reterr) {
    struct pawl__url_option *option;
    char *equals = strchr(text, '=');
    int rc;

    if (url->option_count == PAWL__URL_OPTIONS)
        return pawl__fail(reterr, PAWL_EURL, "the URL has more than %d options", PAWL__URL_OPTIONS);
    if (!*text || equals == text)
        return pawl__fail(reterr, PAWL_EURL, "the URL has an option without a name: write ?name=value&name=value");
    option = &url->options[url->option_count++];
    option->key = text;
    option->value = "";
    if (equals) {
        *equals = '\0';
        option->value = equals + 1;
        if ((rc = unescape(equals + 1, reterr)) < 0)
            return rc;
    }
    if ((rc = unescape(text, reterr)) < 0)
        return rc;
    for (const struct pawl__url_option *other = url->options; other < option; other++)
        if (strcmp(other->key, option->key) == 0)
            return pawl__fail(reterr, PAWL_EOPTION, "the URL's option '%.40s' is given twice", option->key);
    return 0;
}

static int parse_options(char *text, struct pawl__url *url, struct pawl_error *reterr) {
    char *option;
    int rc;

    while ((option = strsep(&text, "&")))
        if ((rc = parse_option(option, url, reterr)) < 0)
            return rc;
    return 0;
}

static int parse_scheme(struct pawl__url *url, char **rest, struct pawl_error *reterr) {
    char *colon = url->text;

    while (isalnum((unsigned char)*colon) || *colon == '+' || *colon == '-' || *colon == '.') {
        *colon = (char)tolower((unsigned char)*colon);
        colon++;
    }
    if (*colon != ':' || !isalpha((unsigned char)url->text[0]))
        return pawl__fail(reterr, PAWL_EURL, "the URL does not begin with a scheme and a colon, such as local: or local:/dir");
    *colon = '\0';
    url->scheme = url->text;
    *rest = colon + 1;
    return 0;
}

/* redis:host:7777/3 would be a path, and the host the default: not what was meant. A secret is not shown. */
static int refuse_bare_host(const struct pawl__url *url, const char *rest, struct pawl_error *reterr) {
    const char *at = strrchr(rest, '@');

    if (!*rest || *rest == '/' || strcmp(url->scheme, "local") == 0 || strstr(url->scheme, "unix"))
        return 0; /* of what names a file, its engine speaks */
    return pawl__fail(reterr, PAWL_EURL, "the URL's host needs two slashes before it: write %s://%s%.100s", url->scheme,
                      at ? "USER:PASSWORD@" : "", at ? at + 1 : rest);
}

int pawl__url_parse(const char *text, struct pawl__url *ret, struct pawl_error *reterr) {
    char *rest = NULL, *query, *path;
    int rc;

    memset(ret, 0, sizeof *ret);
    ret->path = "";
    if (strnlen(text, PAWL__URL_MAX + 1) > PAWL__URL_MAX)
        return pawl__fail(reterr, PAWL_EURL, "the URL is longer than %d bytes", PAWL__URL_MAX);
    strcpy(ret->text, text);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return pawl__fail(reterr, PAWL_EURL, "the URL has a control character (0x%02x): leave it out", (unsigned char)*c);
    if ((rc = parse_scheme(ret, &rest, reterr)) < 0)
        return rc;
    query = strchr(rest, '?');
    if (query) {
        *query++ = '\0';
        if ((rc = parse_options(query, ret, reterr)) < 0)
            return rc;
    }
    if (strncmp(rest, "//", 2) == 0) {
        rest += 2;
        path = strchr(rest, '/');
        if (path) {
            /* The path keeps its slash: move the authority one byte to the left, onto the second slash, to make room for its NUL. */
            memmove(rest - 1, rest, (size_t)(path - rest));
            path[-1] = '\0';
            rest--;
        }
        if ((rc = parse_authority(rest, ret, reterr)) < 0)
            return rc;
        rest = path ? path : NULL;
    } else if ((rc = refuse_bare_host(ret, rest, reterr)) < 0) {
        return rc;
    }
    if (!rest)
        return 0;
    ret->path = rest;
    return unescape(rest, reterr);
}

const char *pawl__url_option(struct pawl__url *url, const char *key) {
    for (size_t i = 0; i < url->option_count; i++)
        if (strcmp(url->options[i].key, key) == 0) {
            url->options[i].taken = true;
            return url->options[i].value;
        }
    return NULL;
}

int pawl__url_number(struct pawl__url *url, const char *key, long long low, long long high, long long *ret,
                     struct pawl_error *reterr) {
    const char *text = pawl__url_option(url, key);
    long long number;
    char *end;

    if (!text)
        return 0;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (!(isdigit((unsigned char)*text) || *text == '-') || *end || errno || number < low || number > high)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option %s=%.40s is not a whole number from %lld to %lld", key, text, low,
                          high);
    *ret = number;
    return 0;
}

int pawl__url_either(struct pawl__url *url, const char *key, const char *first, const char *second, bool *ret,
                     struct pawl_error *reterr) {
    const char *text = pawl__url_option(url, key);

    if (text && strcmp(text, first) != 0 && strcmp(text, second) != 0)
        return pawl__fail(reterr, PAWL_EOPTION, "the URL's option %s=%.40s is neither %s nor %s", key, text, first, second);
    if (text)
        *ret = strcmp(text, first) == 0;
    return 0;
}

int pawl__url_leftover(const struct pawl__url *url, struct pawl_error *reterr) {
    for (size_t i = 0; i < url->option_count; i++)
        if (!url->options[i].taken)
            return pawl__fail(reterr, PAWL_EOPTION, "the URL's option '%.40s' is not one that %s: knows", url->options[i].key,
                              url->scheme);
    return 0;
}

/* Levenshtein's distance, given up beyond 15 characters: schemes and commands are short. */
static size_t edits(const char *a, const char *b) {
    enum { LONGEST = 15 };
    size_t row[LONGEST + 1], la = strlen(a), lb = strlen(b);

    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = replace < best ? replace : best;
        }
    }
    return row[lb];
}

const char *pawl__nearest(const char *word, const char *words, char *buffer, size_t size) {
    const char *found = NULL;
    size_t best = 3;
    char candidate[32];
    int used;

    for (; sscanf(words, "%31s%n", candidate, &used) == 1; words += used) {
        size_t distance = edits(word, candidate);

        if (distance < best && distance < strlen(candidate)) {
            best = distance;
            snprintf(buffer, size, "%s", candidate);
            found = buffer;
        }
    }
    return found;
}
