/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.c - see proxy.h. One thread polls everything; a mutex guards what its user changes.
 *
 *     recv -> chunks, each with the time before which it must not go on -> in -> judged, message by message -> out -> send
 *
 * What goes one way over one connection keeps its order, also if chunks are delayed differently.
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
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 512, CHUNK = 16384, HELD_MAX = 256, SPAN_MS = 1000 };

struct chunk {
    STAILQ_ENTRY(chunk) link;
    int64_t due; /* ms; not before */
    size_t length;
    unsigned char bytes[];
};
STAILQ_HEAD(chunks, chunk);

/* One direction. */
struct stream {
    struct chunks chunks; /* were read */
    unsigned count;
    unsigned char *in, *out; /* not judged yet; to be written */
    size_t in_length, out_length;
};

struct pair {
    bool used, closing; /* closing: when all is written */
    bool marked;        /* its latest request contains proxy->drop_text */
    unsigned number;
    uint32_t address;         /* of the client */
    uint32_t source;          /* the bit of the server that it comes from; 0: a client */
    int fds[2];               /* by enum proxy_side */
    struct stream streams[2]; /* by who sent it */
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    int listener, wake;
    unsigned port, target, count, hits;
    bool stop, refuse, dropped;
    char drop_text[64]; /* "": no answer is to be dropped */
    enum proxy_fault fault;
    unsigned share, remainder;
    uint32_t sources; /* 0: from anywhere */
    int64_t delay_ms;
    uint32_t dice;
    proxy_frame_fn *frame;
    proxy_judge_fn *judge;
    void *data;
    struct pair pairs[PAIRS];
};

static int64_t clock_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_struck(const struct proxy *proxy, const struct pair *pair) {
    return proxy->fault != PROXY_FAULT_NONE && (proxy->sources == 0 || proxy->sources & pair->source) &&
           pair->number % proxy->share == proxy->remainder % proxy->share;
}

static bool is_frozen(const struct proxy *proxy, const struct pair *pair) {
    return proxy->fault == PROXY_FAULT_FREEZE && is_struck(proxy, pair);
}

static void append(unsigned char **to, size_t *length, const unsigned char *bytes, size_t count) {
    unsigned char *longer = realloc(*to, *length + count);

    if (longer == NULL)
        abort();
    memcpy(longer + *length, bytes, count);
    *to = longer;
    *length += count;
}

static void consume(unsigned char *bytes, size_t *length, size_t count) {
    memmove(bytes, bytes + count, *length - count);
    *length -= count;
}

/* ---- Connections ---------------------------------------------------------------------------------------------------------- */

static struct chunk *take_chunk(struct stream *stream) {
    struct chunk *chunk = STAILQ_FIRST(&stream->chunks);

    STAILQ_REMOVE_HEAD(&stream->chunks, link);
    stream->count--;
    return chunk;
}

static void pair_close(struct pair *pair, bool reset) {
    const struct linger linger = {.l_onoff = reset};

    for (int side = 0; side < 2; side++) {
        struct stream *stream = &pair->streams[side];

        setsockopt(pair->fds[side], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(pair->fds[side]);
        while (!STAILQ_EMPTY(&stream->chunks))
            free(take_chunk(stream));
        free(stream->in);
        free(stream->out);
    }
    memset(pair, 0, sizeof *pair);
}

static void close_all(struct proxy *proxy) {
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i].used)
            pair_close(&proxy->pairs[i], false);
}

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

static uint32_t source_of(uint32_t address) {
    uint32_t number = address - (INADDR_LOOPBACK - 1 + PROXY_SOURCE);

    return number < 32 ? UINT32_C(1) << number : 0;
}

/* The server may be stopped: a connection is still made, by the kernel; dead, and it is refused, as it would be without a proxy. */
static void take_connection(struct proxy *proxy) {
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof peer;
    int client = accept4(proxy->listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC), server, one = 1;
    struct pair *pair = free_pair(proxy);

    if (client < 0)
        return;
    server = pair != NULL && !proxy->refuse ? connect_to(proxy->target) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *pair = (struct pair){.used = true, .number = ++proxy->count, .fds = {client, server}, .address = ntohl(peer.sin_addr.s_addr)};
    pair->source = source_of(pair->address);
    STAILQ_INIT(&pair->streams[PROXY_CLIENT].chunks);
    STAILQ_INIT(&pair->streams[PROXY_SERVER].chunks);
    if (proxy->fault == PROXY_FAULT_CUT && is_struck(proxy, pair)) {
        proxy->hits++;
        pair_close(pair, true);
    }
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static int64_t delay_of(struct proxy *proxy, const struct pair *pair, enum proxy_side from) {
    if (!is_struck(proxy, pair))
        return 0;
    if (proxy->fault == PROXY_FAULT_SLOW || (proxy->fault == PROXY_FAULT_ANSWERS && from == PROXY_SERVER))
        return proxy->delay_ms;
    if (proxy->fault != PROXY_FAULT_REORDER || from != PROXY_SERVER)
        return 0;
    proxy->dice = proxy->dice * 1664525 + 1013904223;
    return (int64_t)(proxy->dice >> 16) % (2 * proxy->delay_ms + 1);
}

/* False: the connection is over. */
static bool read_from(struct proxy *proxy, struct pair *pair, enum proxy_side from) {
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK);
    ssize_t length = chunk != NULL ? recv(pair->fds[from], chunk->bytes, CHUNK, MSG_DONTWAIT) : -1;

    if (length <= 0) {
        free(chunk);
        return length < 0 && (errno == EAGAIN || errno == EINTR);
    }
    int64_t delay = delay_of(proxy, pair, from);

    proxy->hits += delay > 0;
    chunk->due = delay > 0 ? clock_ms() + delay : 0;
    chunk->length = (size_t)length;
    STAILQ_INSERT_TAIL(&pair->streams[from].chunks, chunk, link);
    pair->streams[from].count++;
    return true;
}

static bool is_due(const struct stream *stream) {
    const struct chunk *first = STAILQ_FIRST(&stream->chunks);

    return first != NULL && (first->due == 0 || first->due <= clock_ms());
}

/* Is this the answer that is to be dropped? */
static bool is_to_drop(struct proxy *proxy, struct pair *pair, enum proxy_side from, const unsigned char *message, size_t length) {
    const char *text = proxy->drop_text;

    if (text[0] != '\0' && from == PROXY_CLIENT)
        pair->marked = memmem(message, length, text, strlen(text)) != NULL;
    if (text[0] == '\0' || from == PROXY_CLIENT || !pair->marked)
        return false;
    proxy->drop_text[0] = '\0';
    return proxy->dropped = true;
}

/* Judge the messages that are complete. False: the connection is over. */
static bool judge_messages(struct proxy *proxy, struct pair *pair, enum proxy_side from) {
    struct stream *stream = &pair->streams[from];

    while (stream->in_length > 0 && !pair->closing) {
        size_t length = proxy->frame != NULL ? proxy->frame(from, stream->in, stream->in_length) : stream->in_length;
        enum proxy_verdict verdict = PROXY_PASS;

        if (length == 0 || length > stream->in_length)
            return true;
        if (is_to_drop(proxy, pair, from, stream->in, length))
            return false;
        if (proxy->judge != NULL)
            verdict = proxy->judge(proxy->data, pair->number, from, stream->in, length);
        if (verdict == PROXY_CUT_BEFORE)
            return false;
        if (verdict != PROXY_DROP)
            append(&stream->out, &stream->out_length, stream->in, length);
        pair->closing = verdict == PROXY_CUT_AFTER;
        consume(stream->in, &stream->in_length, length);
    }
    return true;
}

static bool pass_on(struct proxy *proxy, struct pair *pair, enum proxy_side from) {
    struct stream *stream = &pair->streams[from];

    while (is_due(stream)) {
        struct chunk *chunk = take_chunk(stream);

        append(&stream->in, &stream->in_length, chunk->bytes, chunk->length);
        free(chunk);
    }
    if (!judge_messages(proxy, pair, from))
        return false;
    ssize_t length = stream->out_length > 0 ? send(pair->fds[!from], stream->out, stream->out_length, MSG_DONTWAIT | MSG_NOSIGNAL)
                                            : 0;

    if (length > 0)
        consume(stream->out, &stream->out_length, (size_t)length);
    return length >= 0 || errno == EAGAIN || errno == EINTR;
}

/* ---- The thread ----------------------------------------------------------------------------------------------------------- */

static void move_on(struct proxy *proxy, struct pair *pair, const struct pollfd *fds) {
    for (int side = 0; side < 2; side++)
        if (fds[side].fd == pair->fds[side] && fds[side].revents & (POLLIN | POLLHUP | POLLERR) && !read_from(proxy, pair, side)) {
            pair_close(pair, false);
            return;
        }
    if (!pass_on(proxy, pair, PROXY_CLIENT) || !pass_on(proxy, pair, PROXY_SERVER) ||
        (pair->closing && pair->streams[0].out_length == 0 && pair->streams[1].out_length == 0))
        pair_close(pair, false);
}

/* What to wait for on one side; and, at most, until when. */
static struct pollfd prepare_side(const struct proxy *proxy, const struct pair *pair, int side, int64_t *until) {
    struct pollfd wait = {.fd = -1};

    if (!pair->used || is_frozen(proxy, pair))
        return wait;
    const struct chunk *first = STAILQ_FIRST(&pair->streams[side].chunks);

    wait.fd = pair->fds[side];
    wait.events = (short)((pair->streams[side].count < HELD_MAX ? POLLIN : 0) |
                          (pair->streams[!side].out_length > 0 ? POLLOUT : 0));
    if (first != NULL && first->due < *until)
        *until = first->due;
    return wait;
}

static void *run(void *data) {
    struct proxy *proxy = data;
    struct pollfd *fds = calloc(2 + 2 * PAIRS, sizeof *fds);
    uint64_t count;

    if (fds == NULL)
        return NULL;
    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stop) {
        int64_t now = clock_ms(), until = now + SPAN_MS;

        fds[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (int i = 0; i < 2 * PAIRS; i++)
            fds[2 + i] = prepare_side(proxy, &proxy->pairs[i / 2], i % 2, &until);
        pthread_mutex_unlock(&proxy->mutex);
        poll(fds, 2 + 2 * PAIRS, until > now ? (int)(until - now) : 0);
        pthread_mutex_lock(&proxy->mutex);
        if (fds[0].revents && read(proxy->wake, &count, sizeof count) < 0)
            break;
        for (int i = 0; i < PAIRS; i++)
            if (proxy->pairs[i].used && !is_frozen(proxy, &proxy->pairs[i]))
                move_on(proxy, &proxy->pairs[i], &fds[2 + 2 * i]);
        if (fds[1].revents)
            take_connection(proxy);
    }
    pthread_mutex_unlock(&proxy->mutex);
    free(fds);
    return NULL;
}

/* Unlock after a change, and have the thread see it. */
static void changed(struct proxy *proxy) {
    const uint64_t one = 1;

    pthread_mutex_unlock(&proxy->mutex);
    if (write(proxy->wake, &one, sizeof one) < 0)
        abort();
}

/* ---- Begin and end -------------------------------------------------------------------------------------------------------- */

static bool listen_on(struct proxy *proxy, uint32_t host) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    socklen_t length = sizeof address;

    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (proxy->listener < 0 || bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 128) < 0 || getsockname(proxy->listener, (struct sockaddr *)&address, &length) < 0)
        return false;
    proxy->port = ntohs(address.sin_port);
    return true;
}

static struct proxy *start(uint32_t host, unsigned target, proxy_frame_fn *frame, proxy_judge_fn *judge, void *data) {
    struct proxy *proxy = calloc(1, sizeof *proxy);

    if (proxy == NULL)
        return NULL;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->target = target;
    proxy->frame = frame;
    proxy->judge = judge;
    proxy->data = data;
    proxy->share = 1;
    proxy->listener = -1;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    if (proxy->wake >= 0 && listen_on(proxy, host) && pthread_create(&proxy->thread, NULL, run, proxy) == 0)
        return proxy;
    if (proxy->wake >= 0)
        close(proxy->wake);
    if (proxy->listener >= 0)
        close(proxy->listener);
    free(proxy);
    return NULL;
}

struct proxy *proxy_new(unsigned target, proxy_frame_fn *frame, proxy_judge_fn *judge, void *data) {
    return start(INADDR_LOOPBACK, target, frame, judge, data);
}

struct proxy *proxy_new_for_all(unsigned target) {
    return start(INADDR_ANY, target, NULL, NULL, NULL);
}

void proxy_free(struct proxy *proxy) {
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    changed(proxy);
    pthread_join(proxy->thread, NULL);
    close_all(proxy);
    close(proxy->listener);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

unsigned proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

/* ---- What tests do -------------------------------------------------------------------------------------------------------- */

void proxy_cut(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    close_all(proxy);
    changed(proxy);
}

void proxy_aim(struct proxy *proxy, unsigned target) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->target = target;
    changed(proxy);
}

void proxy_refuse(struct proxy *proxy, bool refuse) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = refuse;
    changed(proxy);
}

void proxy_isolate(struct proxy *proxy, bool isolate) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = isolate;
    if (isolate)
        close_all(proxy);
    changed(proxy);
}

void proxy_freeze(struct proxy *proxy, bool freeze) {
    proxy_begin(proxy, freeze ? PROXY_FAULT_FREEZE : PROXY_FAULT_NONE, 1, 0, 0);
}

void proxy_delay(struct proxy *proxy, int64_t ms) {
    proxy_begin(proxy, ms > 0 ? PROXY_FAULT_ANSWERS : PROXY_FAULT_NONE, 1, 0, ms);
}

void proxy_drop_answer_to(struct proxy *proxy, const char *text) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->dropped = false;
    snprintf(proxy->drop_text, sizeof proxy->drop_text, "%s", text);
    changed(proxy);
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

/* ---- What the rig does ---------------------------------------------------------------------------------------------------- */

void proxy_begin(struct proxy *proxy, enum proxy_fault fault, unsigned share, unsigned remainder, int64_t delay_ms) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->fault = fault;
    proxy->sources = 0;
    proxy->share = share;
    proxy->remainder = remainder;
    proxy->delay_ms = delay_ms;
    proxy->dice = remainder;
    proxy->hits = 0;
    for (int i = 0; i < PAIRS && fault == PROXY_FAULT_CUT; i++)
        if (proxy->pairs[i].used && is_struck(proxy, &proxy->pairs[i])) {
            proxy->hits++;
            pair_close(&proxy->pairs[i], true);
        }
    changed(proxy);
}

void proxy_part(struct proxy *proxy, uint32_t sources) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->fault = PROXY_FAULT_FREEZE;
    proxy->sources = sources;
    proxy->share = 1;
    proxy->hits = 0;
    changed(proxy);
}

unsigned proxy_end(struct proxy *proxy) {
    unsigned hits;

    pthread_mutex_lock(&proxy->mutex);
    /* Held back is what waits to be read now. */
    for (int i = 0; i < PAIRS && proxy->fault == PROXY_FAULT_FREEZE; i++) {
        struct pollfd wait[2];

        if (!proxy->pairs[i].used || !is_struck(proxy, &proxy->pairs[i]))
            continue;
        for (int side = 0; side < 2; side++)
            wait[side] = (struct pollfd){.fd = proxy->pairs[i].fds[side], .events = POLLIN};
        proxy->hits += poll(wait, 2, 0) > 0;
    }
    hits = proxy->hits;
    proxy->fault = PROXY_FAULT_NONE;
    changed(proxy);
    return hits;
}

unsigned proxy_count_from(struct proxy *proxy, uint32_t address) {
    unsigned count = 0;

    pthread_mutex_lock(&proxy->mutex);
    for (int i = 0; i < PAIRS; i++)
        count += proxy->pairs[i].used && proxy->pairs[i].address == address;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
