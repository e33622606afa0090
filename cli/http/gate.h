/* SPDX-License-Identifier: Apache-2.0
 *
 * gate.h - may this request in? Pure: it is given what the request says of itself, and answers with a status of HTTP.
 *
 * Loopback is no boundary: every user of the machine can connect, and every page in its owner's browser can send requests here. So:
 *
 *   - the Host must be one of ours, else 421. A name of somebody else's that was made to point here (DNS rebinding) is not.
 *   - a browser says where a request comes from (Sec-Fetch-Site): only our own page, and the person at the keyboard, get an
 *     answer, else 403. The page itself may be reached by a link from elsewhere: it has no secrets.
 *   - what shows locks wants the key (Authorization: Bearer), else 401. There is no cookie, so no other page can use what this one knows.
 *   - what two readers may understand in two ways is refused: two Hosts, two lengths, a body in chunks (400). Every answer ends the
 *     connection, so nothing is ever read behind a request.
 */
#ifndef PAWL_CLI_GATE_H
#define PAWL_CLI_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEY_DIGITS = 32, /* 128 bits, in hex */
    GATE_HOSTS = 16,
    HEAD_MAX = 8192,
    BODY_MAX = 4096,
};

struct gate {
    char key[KEY_DIGITS + 1];
    char *hosts[GATE_HOSTS]; /* as a browser sends them, the port included */
    size_t host_count;
    bool any_port; /* on a unix socket, which is reached by a port of somebody else's (ssh -L) */
};

enum route_flags {
    ROUTE_PRIVATE = 1 << 0, /* wants the key */
    ROUTE_LANDING = 1 << 1, /* a link on another site may lead here */
    ROUTE_BODY = 1 << 2,    /* has one */
};

/* What a request says of itself; NULL: nothing. */
struct asked {
    unsigned flags; /* of the route */
    const char *host, *site, *authorization, *length;
    unsigned hosts, authorizations, lengths; /* how often each was sent */
    bool chunks;                             /* there is a Transfer-Encoding */
    size_t head;                             /* bytes */
};

/* 0: it may; else the status to answer with. */
unsigned gate_judge(const struct gate *gate, const struct asked *asked);
/* Add a name of this machine's, which counts with our port only. False: there are too many, or out of memory. */
bool gate_add_own(struct gate *gate, const char *name, unsigned port);
/* Add a name that an operator gave: NAME, or NAME:PORT. Without a port it counts with ours, and with none: behind a proxy it has
 * none. */
bool gate_add_host(struct gate *gate, const char *name, unsigned port);
void gate_finish(struct gate *gate);
/* Are these 32 lower-case hex digits? */
bool is_key(const char *text);

#endif
