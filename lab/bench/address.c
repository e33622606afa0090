/* SPDX-License-Identifier: Apache-2.0
 *
 * address.c - where the server behind a URL is. The library has judged the URL already: this only has to find the parts.
 */
#include "address.h"

#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static bool copy(char *out, size_t size, const char *from, size_t length) {
    if (length >= size)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

/* Percent escapes, in place. */
static void decode(char *text) {
    char *to = text;

    for (; *text != '\0'; text++) {
        if (text[0] == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2])) {
            *to++ = (char)strtol((char[]){text[1], text[2], '\0'}, NULL, 16);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

static bool take_user(struct address *address, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    size_t user = colon != NULL ? (size_t)(colon - text) : length;

    if (!copy(address->user, sizeof address->user, text, user))
        return false;
    if (colon != NULL && !copy(address->secret, sizeof address->secret, colon + 1, length - user - 1))
        return false;
    decode(address->user);
    decode(address->secret);
    return true;
}

static bool take_host(struct address *address, const char *text, size_t length) {
    const char *end = text + length, *bracket = text[0] == '[' ? memchr(text, ']', length) : NULL;
    const char *name = bracket != NULL ? text + 1 : text, *after = bracket != NULL ? bracket + 1 : text;
    const char *colon = memchr(after, ':', (size_t)(end - after));
    const char *name_end = bracket != NULL ? bracket : colon != NULL ? colon : end;
    size_t at = address->host_count++;

    return at < ADDRESS_HOSTS && copy(address->hosts[at].name, sizeof address->hosts[at].name, name, (size_t)(name_end - name)) &&
           (colon == NULL || copy(address->hosts[at].port, sizeof address->hosts[at].port, colon + 1, (size_t)(end - colon - 1)));
}

static bool take_hosts(struct address *address, const char *text, size_t length) {
    const char *end = text + length;

    for (const char *comma; text < end; text = comma + 1) {
        comma = memchr(text, ',', (size_t)(end - text));
        if (comma == NULL)
            comma = end;
        if (!take_host(address, text, (size_t)(comma - text)))
            return false;
    }
    return true;
}

static bool take_authority(struct address *address, const char *text, size_t length) {
    const char *at = memrchr(text, '@', length);

    if (at != NULL && !take_user(address, text, (size_t)(at - text)))
        return false;
    const char *hosts = at != NULL ? at + 1 : text;
    return take_hosts(address, hosts, (size_t)(text + length - hosts));
}

bool address_parse(struct address *address, const char *url) {
    const char *colon = strchr(url, ':'), *question = strchr(url, '?');
    const char *end = question != NULL ? question : url + strlen(url);

    memset(address, 0, sizeof *address);
    if (colon == NULL || colon > end || !copy(address->scheme, sizeof address->scheme, url, (size_t)(colon - url)))
        return false;
    const char *rest = colon + 1;
    if (strncmp(rest, "//", 2) == 0) {
        const char *authority = rest + 2;
        size_t length = strcspn(authority, "/?");

        if (!take_authority(address, authority, length))
            return false;
        rest = authority + length;
    }
    if (!copy(address->path, sizeof address->path, rest, (size_t)(end - rest)))
        return false;
    decode(address->path);
    return question == NULL || copy(address->options, sizeof address->options, question + 1, strlen(question + 1));
}

const char *address_option(const struct address *address, const char *key, char *out, size_t size) {
    size_t key_length = strlen(key);

    out[0] = '\0';
    for (const char *at = address->options; *at != '\0'; at += strcspn(at, "&"), at += *at == '&') {
        if (strncmp(at, key, key_length) != 0 || at[key_length] != '=')
            continue;
        if (copy(out, size, at + key_length + 1, strcspn(at + key_length + 1, "&")))
            decode(out);
        break;
    }
    return out;
}

int address_connect(const struct address *address, size_t host, const char *default_port) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = 5};
    const char *port = address->hosts[host].port[0] != '\0' ? address->hosts[host].port : default_port;
    struct addrinfo *found;
    int fd = -1;

    if (getaddrinfo(address->hosts[host].name, port, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}
