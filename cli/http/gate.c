/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.c - may this request in? See gate.h.
 */
#include "gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAD_REQUEST = 400, UNAUTHORIZED = 401, FORBIDDEN = 403, TOO_LARGE = 413, MISDIRECTED = 421, HEAD_TOO_LARGE = 431 };

bool is_key(const char *text) {
    return strlen(text) == KEY_DIGITS && strspn(text, "0123456789abcdef") == KEY_DIGITS;
}

/* In a time that does not tell how much of it is right. */
static bool same_key(const char *left, const char *right) {
    volatile unsigned char difference = 0;

    for (size_t i = 0; i < KEY_DIGITS; i++)
        difference |= (unsigned char)(left[i] ^ right[i]);
    return difference == 0;
}

static bool has_key(const struct gate *gate, const char *authorization) {
    static const char scheme[] = "Bearer ";

    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return false;
    authorization += sizeof scheme - 1;
    return is_key(authorization) && is_key(gate->key) && same_key(authorization, gate->key);
}

/* How long the name is without its port. */
static size_t without_port(const char *host) {
    const char *colon = strrchr(host, ':');
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;

    return digits >= 1 && digits <= 5 && colon[1 + digits] == '\0' ? (size_t)(colon - host) : strlen(host);
}

static bool is_ours(const struct gate *gate, const char *host) {
    size_t length = gate->any_port ? without_port(host) : strlen(host);

    for (size_t i = 0; i < gate->host_count; i++)
        if (strlen(gate->hosts[i]) == length && strncasecmp(gate->hosts[i], host, length) == 0)
            return true;
    return false;
}

/* Programs that are no browsers do not say where they come from. */
static bool is_from_here(const char *site) {
    return site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

/* The status for what it says of its body; 0: nothing is wrong. */
static unsigned judge_body(const struct asked *asked) {
    size_t digits = asked->length != NULL ? strspn(asked->length, "0123456789") : 0;

    if (asked->length == NULL)
        return asked->flags & ROUTE_BODY ? BAD_REQUEST : 0;
    if (digits == 0 || asked->length[digits] != '\0')
        return BAD_REQUEST;
    if (digits > 9 || strtoul(asked->length, NULL, 10) > (asked->flags & ROUTE_BODY ? BODY_MAX : 0))
        return TOO_LARGE;
    return 0;
}

unsigned gate_judge(const struct gate *gate, const struct asked *asked) {
    if (asked->head > HEAD_MAX)
        return HEAD_TOO_LARGE;
    if (asked->hosts > 1 || asked->authorizations > 1 || asked->lengths > 1 || asked->chunks)
        return BAD_REQUEST;
    if (asked->host == NULL || !is_ours(gate, asked->host))
        return MISDIRECTED;
    if (!(asked->flags & ROUTE_LANDING) && !is_from_here(asked->site))
        return FORBIDDEN;
    if (asked->flags & ROUTE_PRIVATE && !has_key(gate, asked->authorization))
        return UNAUTHORIZED;
    return judge_body(asked);
}

static bool add(struct gate *gate, char *host) {
    if (gate->host_count == GATE_HOSTS || host == NULL) {
        free(host);
        return false;
    }
    gate->hosts[gate->host_count++] = host;
    return true;
}

/* Browsers leave out port 80. */
bool gate_add_own(struct gate *gate, const char *name, unsigned port) {
    char *with_port;

    if (gate->any_port || port == 80)
        return add(gate, strdup(name));
    return asprintf(&with_port, "%s:%u", name, port) >= 0 && add(gate, with_port);
}

bool gate_add_host(struct gate *gate, const char *name, unsigned port) {
    size_t length = without_port(name);

    if (gate->any_port)
        return add(gate, strndup(name, length));
    if (name[length] == '\0' && !gate_add_own(gate, name, port))
        return false;
    return add(gate, strdup(name));
}

void gate_finish(struct gate *gate) {
    while (gate->host_count > 0)
        free(gate->hosts[--gate->host_count]);
}
