/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.h - the socket that --listen asks for.
 */
#ifndef PAWL_CLI_LISTEN_H
#define PAWL_CLI_LISTEN_H

#include "gate.h"

struct listening {
    int fd;
    int beside;       /* localhost: [::1] beside 127.0.0.1, with the same port; else -1 */
    char address[64]; /* as in a URL: 127.0.0.1, [::1]; "" on a unix socket */
    unsigned port;
    bool everywhere;  /* 0.0.0.0 or [::]: which of our names a request will say can't be known */
    const char *path; /* of a unix socket, borrowed; else NULL */
};

/* ADDRESS:PORT, [ADDRESS]:PORT, localhost:PORT, or unix:PATH; port 0: one that is free. Returns 0, or the exit status after having said
 * what is wrong. */
int listen_open(const char *where, struct listening *ret);
/* --host, several times. */
enum { HOSTS_MAX = 4 };
struct host_list {
    const char *names[HOSTS_MAX];
    size_t count;
};
/* Returns 0, or the exit status after having said what is wrong. */
int host_list_add(struct host_list *hosts, const char *name);
/* The names that a request may be for: what one types for this machine, where we listen, and what --host says. Returns 0, or the exit
 * status after having said what is wrong. */
int listen_names(const struct listening *listening, const struct host_list *hosts, struct gate *gate);

/* What a browser has to be sent to: NAME:PORT, where NAME may say another port itself. Returns `out`. */
char *listen_shown(const struct listening *listening, const struct host_list *hosts, char *out, size_t size);
/* Stop listening; a unix socket's file is removed. */
void listen_close(struct listening *listening);

#endif
