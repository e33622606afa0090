/* SPDX-License-Identifier: Apache-2.0
 *
 * http.c - a small server for HTTP, on libmicrohttpd. See http.h.
 *
 * A visitor is a connection, an exchange the one request on it. An exchange without an answer is suspended, and libmicrohttpd calls
 * on_request() again when it is resumed; a suspended one is never freed.
 */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/cli.h"

enum {
    VISITORS_MAX = 256,
    VISITORS_SPARE = 32, /* the newest are let in before the slowest has gone */
    REQUEST_MS = 10000,
    ANSWER_MS = 10000,     /* for an answer, and */
    ANSWER_RATE = 256,     /* a millisecond more for each so many bytes of it */
    IDLE_S = 10,           /* a reader that takes nothing for so long is gone */
    MEMORY = 2 * HEAD_MAX, /* of a connection: a head that is too long is read, and answered */
    STREAM_BLOCK = 16 * 1024,
    URI_MAX = 64,
    TICK_MS = 1000,
    RETRY_MS = 100, /* who could not be let in is tried again */
};

struct visitor {
    TAILQ_ENTRY(visitor) link;
    int fd;
    int64_t since;    /* it sends, or takes, */
    int64_t deadline; /* of its request, then of its answer; PAWL_FOREVER while we are to answer, and of a stream */
    bool asked;       /* its request is complete */
    bool turned_away;
};

struct exchange {
    LIST_ENTRY(exchange) link; /* among those that are suspended */
    struct http *http;
    struct MHD_Connection *connection;
    const struct route *route;
    struct document *answer;
    unsigned status;
    bool begun, served, answered, suspended;
    char uri[URI_MAX + 1]; /* as it was sent, and as far as a route may need it */
    size_t uri_length;
    pull_fn *pull;
    void (*end)(void *stream);
    void *stream;
    size_t length;
    char body[BODY_MAX + 1];
};

/* Its owners are of this thread; libmicrohttpd counts by itself who is being sent the response. */
struct document {
    struct MHD_Response *response;
    size_t length; /* 0: a stream */
    unsigned owners;
};

struct http {
    struct MHD_Daemon *daemon;
    int beside;   /* listens, too; libmicrohttpd knows of one alone */
    bool waits;   /* there may be somebody at `beside` who could not be let in */
    int watching; /* an epoll set: libmicrohttpd's own, and `beside` */
    const struct gate *gate;
    const struct route *routes;
    void *data;
    TAILQ_HEAD(, visitor) visitors; /* the oldest first */
    size_t count;
    LIST_HEAD(, exchange) suspended;
    bool stopping;
};

/* ---- answers -------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *value;
} common_headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Connection", "close"},
};

static struct document *document_make(struct MHD_Response *response, const char *type, const char *cache) {
    struct document *document = response != NULL ? malloc(sizeof *document) : NULL;

    if (document == NULL) {
        if (response != NULL)
            MHD_destroy_response(response);
        return NULL;
    }
    *document = (struct document){.response = response, .owners = 1};
    for (size_t i = 0; i < sizeof common_headers / sizeof common_headers[0]; i++)
        MHD_add_response_header(response, common_headers[i].name, common_headers[i].value);
    MHD_add_response_header(response, "Cache-Control", cache);
    MHD_add_response_header(response, "Content-Type", type);
    return document;
}

struct document *document_new(const char *type, char *text, size_t length) {
    struct MHD_Response *response = MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);

    if (response == NULL)
        free(text);
    struct document *document = document_make(response, type, "no-store");
    if (document != NULL)
        document->length = length;
    return document;
}

struct document *document_of(const char *type, const void *text, size_t length, const char *tag) {
    struct MHD_Response *response = MHD_create_response_from_buffer(length, (void *)text, MHD_RESPMEM_PERSISTENT);

    if (response != NULL)
        MHD_add_response_header(response, "ETag", tag);
    struct document *document = document_make(response, type, "no-cache");
    if (document != NULL)
        document->length = length;
    return document;
}

struct document *document_keep(struct document *document) {
    if (document != NULL)
        document->owners++;
    return document;
}

void document_drop(struct document *document) {
    if (document == NULL || --document->owners > 0)
        return;
    MHD_destroy_response(document->response);
    free(document);
}

static struct document *sentence(const char *format, va_list arguments) {
    char *text;

    if (vasprintf(&text, format, arguments) < 0)
        return NULL;
    return document_new("text/plain; charset=utf-8", text, strlen(text));
}

/* ---- exchanges ------------------------------------------------------------------------------------------------------------ */

static void resume(struct exchange *exchange) {
    if (!exchange->suspended)
        return;
    exchange->suspended = false;
    LIST_REMOVE(exchange, link);
    MHD_resume_connection(exchange->connection);
}

static void suspend(struct exchange *exchange) {
    exchange->suspended = true;
    LIST_INSERT_HEAD(&exchange->http->suspended, exchange, link);
    MHD_suspend_connection(exchange->connection);
}

void exchange_answer(struct exchange *exchange, unsigned status, struct document *document) {
    exchange->status = status;
    exchange->answer = document_keep(document);
    exchange->answered = true;
    resume(exchange);
}

void exchange_say(struct exchange *exchange, unsigned status, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    struct document *document = sentence(format, arguments);
    va_end(arguments);
    exchange_answer(exchange, status, document);
    document_drop(document);
}

static void say_ending(struct exchange *exchange) {
    exchange_say(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "pawl is ending\n");
}

static ssize_t pull(void *data, uint64_t position, char *out, size_t room) {
    struct exchange *exchange = data;
    ssize_t length = exchange->http->stopping ? -1 : exchange->pull(exchange->stream, out, room);

    (void)position;
    if (length < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (length == 0)
        suspend(exchange);
    return length;
}

void exchange_stream(struct exchange *exchange, const char *type, pull_fn *pull_next, void (*end)(void *stream), void *stream) {
    exchange->pull = pull_next;
    exchange->end = end;
    exchange->stream = stream;
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, pull, exchange, NULL);
    struct document *document = document_make(response, type, "no-store");
    exchange_answer(exchange, MHD_HTTP_OK, document);
    document_drop(document);
}

void exchange_wake(struct exchange *exchange) {
    resume(exchange);
}

/* A NUL inside would be the end of it for us, and not for others. */
static const char *text_value(struct exchange *exchange, enum MHD_ValueKind kind, const char *name) {
    const char *value = NULL;
    size_t size = 0;

    if (MHD_lookup_connection_value_n(exchange->connection, kind, name, strlen(name), &value, &size) == MHD_NO || value == NULL)
        return NULL;
    return strlen(value) == size ? value : NULL;
}

const char *exchange_argument(struct exchange *exchange, const char *name) {
    return text_value(exchange, MHD_GET_ARGUMENT_KIND, name);
}

const char *exchange_header(struct exchange *exchange, const char *name) {
    return text_value(exchange, MHD_HEADER_KIND, name);
}

bool exchange_accepts(struct exchange *exchange, const char *type) {
    const char *accepted = exchange_header(exchange, "Accept");

    return accepted != NULL && strstr(accepted, type) != NULL;
}

const char *exchange_body(const struct exchange *exchange, size_t *ret_length) {
    *ret_length = exchange->length;
    return exchange->body;
}

static struct visitor *visitor_of(const struct exchange *exchange) {
    return MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

bool exchange_peer(const struct exchange *exchange, uid_t *ret) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    const struct visitor *visitor = visitor_of(exchange);

    if (visitor == NULL || getsockopt(visitor->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid == (uid_t)-1)
        return false;
    *ret = peer.uid;
    return true;
}

bool exchange_address(const struct exchange *exchange, char *out, size_t size) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    const struct visitor *visitor = visitor_of(exchange);

    if (visitor == NULL || getpeername(visitor->fd, (struct sockaddr *)&peer, &length) < 0 || peer.ss_family == AF_UNIX ||
        getnameinfo((struct sockaddr *)&peer, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    snprintf(out, size, peer.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------- */

struct reading {
    struct asked asked;
    size_t bytes; /* of the head, as far as it was understood */
};

static enum MHD_Result read_header(void *data, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                                   size_t value_size) {
    struct reading *reading = data;
    struct asked *asked = &reading->asked;

    (void)kind;
    reading->bytes += name_size + strlen(": ") + value_size + strlen("\r\n");
    if (value == NULL) {
        return MHD_YES;
    } else if (strcasecmp(name, "Host") == 0) {
        asked->host = value;
        asked->hosts++;
    } else if (strcasecmp(name, "Authorization") == 0) {
        asked->authorization = value;
        asked->authorizations++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        asked->length = value;
        asked->lengths++;
    } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
        asked->site = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        asked->chunks = true;
    }
    return MHD_YES;
}

/* The route; NULL: `ret_status` says why there is none. The path of one that exists with another method is 405. The path is
 * compared as it was sent: none of ours needs a %. */
static const struct route *find_route(const struct http *http, const char *method, const char *uri, unsigned *ret_status) {
    size_t length = strcspn(uri, "?");

    *ret_status = MHD_HTTP_NOT_FOUND;
    for (const struct route *route = http->routes; route->path != NULL; route++) {
        if (strlen(route->path) != length || strncmp(route->path, uri, length) != 0)
            continue;
        if (strcmp(route->method, method) == 0)
            return route;
        *ret_status = MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    return NULL;
}

/* Every byte of the head is part of what we understood. Where it is not, a NUL cut something off, or it was written in a way that
 * others may read differently. */
static bool is_understood(struct exchange *exchange, const struct reading *reading, const char *method) {
    size_t line = strlen(method) + exchange->uri_length + strlen("  HTTP/1.1\r\n");

    return reading->asked.head == line + reading->bytes + strlen("\r\n");
}

static unsigned judge(struct exchange *exchange, const char *method) {
    struct reading reading = {0};
    unsigned missing, status;
    const union MHD_ConnectionInfo *head = MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    exchange->route = find_route(exchange->http, method, exchange->uri, &missing);
    /* What is not there is as private as what is: who has no key learns nothing. */
    reading.asked.flags = exchange->route != NULL ? exchange->route->flags : is_key(exchange->http->gate->key) ? ROUTE_PRIVATE : 0;
    reading.asked.head = head != NULL ? head->header_size : 0;
    MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, read_header, &reading);
    status = gate_judge(exchange->http->gate, &reading.asked);
    if (status == 0 && !is_understood(exchange, &reading, method))
        status = MHD_HTTP_BAD_REQUEST;
    return status != 0 ? status : exchange->route == NULL ? missing : 0;
}

static const char *why(unsigned status) {
    switch (status) {
    case MHD_HTTP_UNAUTHORIZED:
        return "this wants the key that pawl web printed: Authorization: Bearer KEY";
    case MHD_HTTP_FORBIDDEN:
        return "this is only for the page of pawl web itself";
    case MHD_HTTP_NOT_FOUND:
        return "there is nothing here; begin at /";
    case MHD_HTTP_METHOD_NOT_ALLOWED:
        return "this is there for another method";
    case 413:
        return "this is longer than it may be";
    case MHD_HTTP_MISDIRECTED_REQUEST:
        return "this server is not known by the name in Host; pawl web --host NAME makes it so";
    case 431:
        return "the head of the request is longer than 8 KiB";
    default:
        return "this request can be understood in two ways, or not at all";
    }
}

/* Who asked has so long to take its answer. Who was refused before its request was complete has no more time than for that. */
static void await_reader(const struct exchange *exchange) {
    struct visitor *visitor = visitor_of(exchange);

    if (visitor != NULL && visitor->asked && exchange->pull == NULL) {
        visitor->since = now_ms();
        visitor->deadline = visitor->since + ANSWER_MS + (int64_t)(exchange->answer->length / ANSWER_RATE);
    }
}

/* Send it; libmicrohttpd keeps what it needs of the document. */
static enum MHD_Result send_answer(struct exchange *exchange) {
    if (exchange->answer == NULL)
        return MHD_NO;
    await_reader(exchange);
    enum MHD_Result result = MHD_queue_response(exchange->connection, exchange->status, exchange->answer->response);
    document_drop(exchange->answer);
    exchange->answer = NULL;
    return result;
}

/* A request begins. What is returned is what on_request() gets as its state. */
static void *on_uri(void *data, const char *uri, struct MHD_Connection *connection) {
    struct exchange *exchange = calloc(1, sizeof *exchange);

    if (exchange == NULL)
        return NULL;
    *exchange = (struct exchange){.http = data, .connection = connection, .uri_length = strlen(uri)};
    snprintf(exchange->uri, sizeof exchange->uri, "%s", uri);
    return exchange;
}

/* The head is there. Who is not let in is told so at once, and its body is not read. */
static enum MHD_Result begin(struct exchange *exchange, const char *method) {
    unsigned status = judge(exchange, method);

    exchange->begun = true;
    if (status == 0)
        return MHD_YES;
    exchange->served = true;
    exchange_say(exchange, status, "%s\n", why(status));
    if (status == MHD_HTTP_UNAUTHORIZED && exchange->answer != NULL)
        MHD_add_response_header(exchange->answer->response, "WWW-Authenticate", "Bearer");
    return send_answer(exchange);
}

/* Not more than it said, which is not more than there is room for. */
static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t *size) {
    if (exchange->length + *size > BODY_MAX)
        return MHD_NO;
    memcpy(exchange->body + exchange->length, data, *size);
    exchange->length += *size;
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state) {
    struct http *http = data;
    struct exchange *exchange = *state;

    (void)connection, (void)path, (void)version;
    if (exchange == NULL)
        return MHD_NO;
    if (!exchange->begun)
        return begin(exchange, method);
    if (*upload_size > 0)
        return take_body(exchange, upload, upload_size);
    if (!exchange->served) {
        struct visitor *visitor = visitor_of(exchange);

        if (visitor != NULL) {
            visitor->asked = true;
            visitor->deadline = PAWL_FOREVER;
        }
        exchange->served = true;
        if (http->stopping) /* nobody would resume it any more */
            say_ending(exchange);
        else
            exchange->route->serve(exchange, http->data);
    }
    if (exchange->answered)
        return send_answer(exchange);
    suspend(exchange);
    return MHD_YES;
}

static void on_completed(void *data, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode reason) {
    struct exchange *exchange = *state;

    (void)data, (void)connection, (void)reason;
    if (exchange == NULL)
        return;
    *state = NULL;
    if (exchange->end != NULL)
        exchange->end(exchange->stream);
    document_drop(exchange->answer);
    free(exchange);
}

/* ---- visitors ------------------------------------------------------------------------------------------------------------- */

/* Only its way to us is closed: libmicrohttpd then sees its end, and closes the rest. */
static void turn_away(struct visitor *visitor) {
    if (!visitor->turned_away)
        shutdown(visitor->fd, SHUT_RDWR);
    visitor->turned_away = true;
}

/* How much of its time it has used up. */
static double slowness(const struct visitor *visitor, int64_t now) {
    return (double)(now - visitor->since) / (double)(visitor->deadline - visitor->since);
}

/* Who waits for us, and who reads a stream, is not slow; how many of them there are is bounded by those who serve them. */
static void turn_slowest_away(struct http *http) {
    struct visitor *visitor, *slowest = NULL;
    int64_t now = now_ms();

    TAILQ_FOREACH(visitor, &http->visitors, link)
    if (visitor->deadline != PAWL_FOREVER && !visitor->turned_away &&
        (slowest == NULL || slowness(visitor, now) > slowness(slowest, now)))
        slowest = visitor;
    if (slowest != NULL)
        turn_away(slowest);
}

static void on_connection(void *data, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code) {
    struct http *http = data;
    struct visitor *visitor = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        visitor = calloc(1, sizeof *visitor);
        if (visitor == NULL)
            return;
        visitor->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        visitor->since = now_ms();
        visitor->deadline = visitor->since + REQUEST_MS;
        TAILQ_INSERT_TAIL(&http->visitors, visitor, link);
        *context = visitor;
        if (++http->count > VISITORS_MAX)
            turn_slowest_away(http);
    } else if (visitor != NULL) {
        TAILQ_REMOVE(&http->visitors, visitor, link);
        http->count--;
        free(visitor);
        *context = NULL;
    }
}

static void sweep(struct http *http) {
    struct visitor *visitor;
    int64_t now = now_ms();

    TAILQ_FOREACH(visitor, &http->visitors, link)
    if (visitor->deadline <= now)
        turn_away(visitor);
}

/* ---- the server ----------------------------------------------------------------------------------------------------------- */

/* Of `beside` each arrival is told once: who can't be let in must not keep us awake. */
static bool watch(const struct http *http) {
    int own = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    struct epoll_event readable = {.events = EPOLLIN}, arrival = {.events = EPOLLIN | EPOLLET};

    return http->watching >= 0 && epoll_ctl(http->watching, EPOLL_CTL_ADD, own, &readable) == 0 &&
           (http->beside < 0 || epoll_ctl(http->watching, EPOLL_CTL_ADD, http->beside, &arrival) == 0);
}

static void end(struct http *http) {
    if (http->daemon != NULL)
        MHD_stop_daemon(http->daemon);
    if (http->watching >= 0)
        close(http->watching);
    free(http);
}

struct http *http_start(int socket, int beside, const struct gate *gate, const struct route *routes, void *data) {
    struct http *http = calloc(1, sizeof *http);

    if (http == NULL)
        return NULL;
    *http = (struct http){.beside = beside, .watching = epoll_create1(EPOLL_CLOEXEC), .gate = gate, .routes = routes, .data = data};
    TAILQ_INIT(&http->visitors);
    LIST_INIT(&http->suspended);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, socket,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(VISITORS_MAX + VISITORS_SPARE), MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
        http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
    if (http->daemon != NULL && watch(http))
        return http;
    end(http);
    return NULL;
}

int http_fd(const struct http *http) {
    return http->watching;
}

int64_t http_due(const struct http *http) {
    MHD_UNSIGNED_LONG_LONG ms = 0;
    int64_t wait_ms = http->waits ? RETRY_MS : TAILQ_EMPTY(&http->visitors) ? PAWL_FOREVER : TICK_MS;

    if (MHD_get_timeout(http->daemon, &ms) == MHD_YES && ms < (uint64_t)wait_ms)
        wait_ms = (int64_t)ms;
    return deadline_in(wait_ms);
}

/* No more than may come in at once, and no more than there are descriptors for: who is beyond that is let in when others have gone. */
static void accept_beside(struct http *http) {
    struct epoll_event told[2];
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;

    epoll_wait(http->watching, told, 2, 0); /* takes what was told of arrivals; what is there is found by asking */
    http->waits = true;
    for (int fd; http->count < VISITORS_MAX + VISITORS_SPARE; size = sizeof peer) {
        fd = accept4(http->beside, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            http->waits = errno != EAGAIN;
            return;
        }
        MHD_add_connection(http->daemon, fd, (struct sockaddr *)&peer, size); /* closes it where it fails */
    }
}

void http_run(struct http *http) {
    sweep(http);
    if (http->beside >= 0)
        accept_beside(http);
    MHD_run(http->daemon);
}

/* Bounded: each one that is resumed has its answer or its end, and nobody is let in any more. A request that arrives in the last run is
 * answered in it: libmicrohttpd does not end while one is suspended. */
void http_stop(struct http *http) {
    http->stopping = true;
    MHD_socket listening = MHD_quiesce_daemon(http->daemon);
    (void)listening; /* the caller's */
    while (!LIST_EMPTY(&http->suspended)) {
        struct exchange *exchange = LIST_FIRST(&http->suspended);

        if (exchange->pull == NULL)
            say_ending(exchange);
        else
            resume(exchange);
    }
    MHD_run(http->daemon);
    end(http);
}
