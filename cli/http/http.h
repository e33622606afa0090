/* SPDX-License-Identifier: Apache-2.0
 *
 * http.h - a small server for HTTP, on libmicrohttpd: routes, limits, and the gate before them (gate.h).
 *
 * One thread: it polls http_fd() and calls http_run(), and everything below is called in it. A route answers at once, or later, or
 * as a stream. Every answer ends its connection.
 *
 * A visitor has ten seconds for its whole request, and ten more to take its answer (a second more for each 256 kB), but for streams.
 * Beyond 256 connections the slowest is closed, which has used up most of its time; so those who are slow do not keep out one who is not.
 * Streams, and those that wait for an answer, are not closed: a route bounds how many of them there may be.
 */
#ifndef PAWL_CLI_HTTP_H
#define PAWL_CLI_HTTP_H

#include <sys/types.h>

#include "gate.h"

struct http;     /* the server */
struct exchange; /* one request, and its answer */
struct document; /* an answer, which may be sent to many */

struct route {
    const char *method, *path;
    unsigned flags; /* of enum route_flags */
    /* Ends in exchange_answer() or exchange_stream(), now or later. */
    void (*serve)(struct exchange *exchange, void *data);
};

/* On a socket that listens, and another one beside it, or -1; they stay the caller's. `routes` end with a NULL path. NULL: it can't be
 * started. */
struct http *http_start(int socket, int beside, const struct gate *gate, const struct route *routes, void *data);
/* What waits for an answer gets 503, and so does a request that arrives meanwhile. */
void http_stop(struct http *http);
/* Readable when http_run() has something to do; it has, too, when http_due() is over, a moment of now_ms(). */
int http_fd(const struct http *http);
int64_t http_due(const struct http *http);
void http_run(struct http *http);

/* ---- documents ------------------------------------------------------------------------------------------------------------ */

/* `text` was allocated by malloc(), and is the document's from now on. NULL: out of memory. */
struct document *document_new(const char *type, char *text, size_t length);
/* Of bytes that are there as long as the program; `tag` names this version of them. */
struct document *document_of(const char *type, const void *text, size_t length, const char *tag);
/* One more owner, who will drop it, too. Returns it. */
struct document *document_keep(struct document *document);
/* The caller needs it no more; who is being sent it does. */
void document_drop(struct document *document);

/* ---- exchanges ------------------------------------------------------------------------------------------------------------ */

/* Of the query; NULL: not given, or not a text. */
const char *exchange_argument(struct exchange *exchange, const char *name);
const char *exchange_header(struct exchange *exchange, const char *name);
/* Does its Accept name this type? */
bool exchange_accepts(struct exchange *exchange, const char *type);
/* Ends with a NUL that is not part of it. */
const char *exchange_body(const struct exchange *exchange, size_t *ret_length);
/* Who is at the other end of a unix socket; false: it can't be told. */
bool exchange_peer(const struct exchange *exchange, uid_t *ret);
/* The address of who is at the other end, with its port; false: it has none, or it can't be told. */
bool exchange_address(const struct exchange *exchange, char *out, size_t size);

void exchange_answer(struct exchange *exchange, unsigned status, struct document *document);
/* One sentence, as text. */
__attribute__((format(printf, 3, 4))) void exchange_say(struct exchange *exchange, unsigned status, const char *format, ...);

/* The next bytes of a stream; 0: there are none until exchange_wake(); -1: it has ended. */
typedef ssize_t pull_fn(void *stream, char *out, size_t room);
/* `end` is called once, when the exchange is over. */
void exchange_stream(struct exchange *exchange, const char *type, pull_fn *pull, void (*end)(void *stream), void *stream);
void exchange_wake(struct exchange *exchange);

#endif
