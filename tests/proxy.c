/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.c - see proxy.h. One thread polls everything; a mutex guards what the test changes.
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 128, CHUNK = 65536 };

/* One direction: what was read and not judged yet, and what waits to be written. */
struct stream {
    unsigned char *in, *out;
    size_t in_length, out_length;
    int64_t not_before; /* ms; of what is in `in` */
};

struct pair {
    bool used, closing; /* closing: when all is written */
    bool marked;        /* its latest request contains proxy->drop_text */
    unsigned number;
    int fds[2];               /* by enum proxy_side */
    struct stream streams[2]; /* by who sent it */
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    int listener, wake;
    unsigned port, target, count;
    bool stop, refuse, freeze, cut, dropped;
    char drop_text[64]; /* "": no answer is to be dropped */
    int64_t delay_ms;
    proxy_frame_fn *frame;
    proxy_judge_fn *judge;
    void *data;
    struct pair pairs[PAIRS];
};

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void append(unsigned char **to, size_t *length, const unsigned char *bytes, size_t count) {
    unsigned char *longer = realloc(*to, *length + count);

    if (!longer)
        abort();
    memcpy(longer + *length, bytes, count);
    *to = longer;
    *length += count;
}

static void consume(unsigned char *bytes, size_t *length, size_t count) {
    memmove(bytes, bytes + count, *length - count);
    *length -= count;
}

static void pair_close(struct pair *pair) {
    for (int side = 0; side < 2; side++) {
        if (pair->fds[side] >= 0)
            close(pair->fds[side]);
        free(pair->streams[side].in);
        free(pair->streams[side].out);
    }
    memset(pair, 0, sizeof *pair);
}

/* ---- Connections ---------------------------------------------------------------------------------------------------------- */

static int connect_to(unsigned port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static struct pair *free_pair(struct proxy *proxy) {
    for (int i = 0; i < PAIRS; i++)
        if (!proxy->pairs[i].used)
            return &proxy->pairs[i];
    return NULL;
}

static void take_connection(struct proxy *proxy) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC), server = -1, one = 1;
    struct pair *pair = free_pair(proxy);

    if (client < 0)
        return;
    if (!proxy->refuse && pair && (server = connect_to(proxy->target)) >= 0) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        *pair = (struct pair){.used = true, .number = ++proxy->count, .fds = {client, server}};
        return;
    }
    close(client);
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

/* Is this the answer that is to be dropped? */
static bool is_to_drop(struct proxy *proxy, struct pair *pair, enum proxy_side from, const unsigned char *message, size_t length) {
    const char *text = proxy->drop_text;

    if (*text && from == PROXY_CLIENT)
        pair->marked = memmem(message, length, text, strlen(text)) != NULL;
    if (!*text || from == PROXY_CLIENT || !pair->marked)
        return false;
    proxy->drop_text[0] = '\0';
    return proxy->dropped = true;
}

/* Judge the messages that are complete. False: the connection is closed. */
static bool judge_messages(struct proxy *proxy, struct pair *pair, enum proxy_side from) {
    struct stream *stream = &pair->streams[from];
    size_t length;

    while (stream->in_length && !pair->closing && now_ms() >= stream->not_before) {
        enum proxy_verdict verdict = PROXY_PASS;

        length = proxy->frame ? proxy->frame(from, stream->in, stream->in_length) : stream->in_length;
        if (length == 0 || length > stream->in_length)
            return true;
        if (is_to_drop(proxy, pair, from, stream->in, length))
            verdict = PROXY_CUT_BEFORE;
        else if (proxy->judge)
            verdict = proxy->judge(proxy->data, pair->number, from, stream->in, length);
        if (verdict == PROXY_CUT_BEFORE) {
            pair_close(pair);
            return false;
        }
        if (verdict != PROXY_DROP)
            append(&stream->out, &stream->out_length, stream->in, length);
        pair->closing = verdict == PROXY_CUT_AFTER;
        consume(stream->in, &stream->in_length, length);
    }
    return true;
}

static bool read_from(struct proxy *proxy, struct pair *pair, enum proxy_side from) {
    struct stream *stream = &pair->streams[from];
    unsigned char chunk[CHUNK];
    ssize_t n = recv(pair->fds[from], chunk, sizeof chunk, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        pair_close(pair);
        return false;
    }
    if (stream->in_length == 0)
        stream->not_before = now_ms() + (from == PROXY_SERVER ? proxy->delay_ms : 0);
    append(&stream->in, &stream->in_length, chunk, (size_t)n);
    return true;
}

/* Write what came from `from` to the other side. */
static bool write_on(struct pair *pair, enum proxy_side from) {
    struct stream *stream = &pair->streams[from];
    ssize_t n;

    if (stream->out_length == 0)
        return true;
    n = send(pair->fds[!from], stream->out, stream->out_length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        consume(stream->out, &stream->out_length, (size_t)n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        pair_close(pair);
        return false;
    }
    return true;
}

static void move_on(struct proxy *proxy, struct pair *pair) {
    for (int from = 0; from < 2; from++)
        if (!judge_messages(proxy, pair, from) || !write_on(pair, from))
            return;
    if (pair->closing && pair->streams[0].out_length == 0 && pair->streams[1].out_length == 0)
        pair_close(pair);
}

/* ---- The thread ----------------------------------------------------------------------------------------------------------- */

static void act(struct proxy *proxy, const struct pollfd *fds) {
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = &proxy->pairs[i];

        if (pair->used && proxy->cut)
            pair_close(pair);
        if (!pair->used || proxy->freeze)
            continue;
        if (fds[2 + 2 * i].revents & (POLLIN | POLLHUP | POLLERR) && !read_from(proxy, pair, PROXY_CLIENT))
            continue;
        if (fds[3 + 2 * i].revents & (POLLIN | POLLHUP | POLLERR) && !read_from(proxy, pair, PROXY_SERVER))
            continue;
        move_on(proxy, pair);
    }
    proxy->cut = false;
}

/* Fill in what to wait for; returns for how long. */
static int prepare(struct proxy *proxy, struct pollfd *fds) {
    int span = 1000;

    fds[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = &proxy->pairs[i];

        for (int side = 0; side < 2; side++) {
            bool write = pair->used && pair->streams[!side].out_length;

            fds[2 + 2 * i + side] = (struct pollfd){.fd = pair->used && !proxy->freeze ? pair->fds[side] : -1,
                                                    .events = (short)(POLLIN | (write ? POLLOUT : 0))};
            if (pair->used && pair->streams[side].in_length && proxy->delay_ms)
                span = 1;
        }
    }
    return span;
}

static void *run(void *data) {
    struct proxy *proxy = data;
    struct pollfd fds[2 + 2 * PAIRS];
    uint64_t count;

    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stop) {
        int span = prepare(proxy, fds);

        pthread_mutex_unlock(&proxy->mutex);
        poll(fds, 2 + 2 * PAIRS, span);
        pthread_mutex_lock(&proxy->mutex);
        if (fds[0].revents && read(proxy->wake, &count, sizeof count) < 0)
            break;
        act(proxy, fds);
        if (fds[1].revents)
            take_connection(proxy);
    }
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

static void change(struct proxy *proxy) {
    const uint64_t one = 1;

    pthread_mutex_unlock(&proxy->mutex);
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort();
}

/* ---- For tests ------------------------------------------------------------------------------------------------------------ */

static bool listen_on(struct proxy *proxy) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;

    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener < 0 || bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 64) < 0 || getsockname(proxy->listener, (struct sockaddr *)&address, &length) < 0)
        return false;
    proxy->port = ntohs(address.sin_port);
    return true;
}

struct proxy *proxy_new(unsigned target, proxy_frame_fn *frame, proxy_judge_fn *judge, void *data) {
    struct proxy *proxy = calloc(1, sizeof *proxy);

    if (!proxy)
        return NULL;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->target = target;
    proxy->frame = frame;
    proxy->judge = judge;
    proxy->data = data;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    if (proxy->wake >= 0 && listen_on(proxy) && pthread_create(&proxy->thread, NULL, run, proxy) == 0)
        return proxy;
    free(proxy);
    return NULL;
}

void proxy_free(struct proxy *proxy) {
    if (!proxy)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    change(proxy);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i].used)
            pair_close(&proxy->pairs[i]);
    close(proxy->listener);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

unsigned proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

void proxy_cut(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = true;
    change(proxy);
}

void proxy_refuse(struct proxy *proxy, bool refuse) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = refuse;
    change(proxy);
}

void proxy_isolate(struct proxy *proxy, bool isolate) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = isolate;
    proxy->cut = proxy->cut || isolate;
    change(proxy);
}

void proxy_freeze(struct proxy *proxy, bool freeze) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->freeze = freeze;
    change(proxy);
}

void proxy_delay(struct proxy *proxy, int64_t ms) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->delay_ms = ms;
    change(proxy);
}

void proxy_drop_answer_to(struct proxy *proxy, const char *text) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->dropped = false;
    snprintf(proxy->drop_text, sizeof proxy->drop_text, "%s", text);
    change(proxy);
}

bool proxy_dropped(struct proxy *proxy) {
    bool dropped;

    pthread_mutex_lock(&proxy->mutex);
    dropped = proxy->dropped;
    pthread_mutex_unlock(&proxy->mutex);
    return dropped;
}

unsigned proxy_connections(struct proxy *proxy) {
    unsigned count;

    pthread_mutex_lock(&proxy->mutex);
    count = proxy->count;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
