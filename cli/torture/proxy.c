/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.c - see proxy.h. One thread polls everything; a mutex guards what the rig changes. What was read waits as a chunk with the time
 * before which it must not go on; chunks of one direction keep their order.
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../cli.h"

enum { PAIRS = 512, CHUNK = 16384, HELD_MAX = 256 };
enum { CLIENT, SERVER }; /* who sent it */

struct chunk {
    STAILQ_ENTRY(chunk) link;
    int64_t due; /* ms; not before */
    size_t length, sent;
    char bytes[];
};
STAILQ_HEAD(chunks, chunk);

struct pair {
    bool used;
    unsigned number;
    uint32_t address; /* of the client */
    uint32_t source;  /* the bit of the server that it comes from; 0: a client */
    int fds[2];
    struct chunks chunks[2];
    unsigned count[2];
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    int listener, wake;
    unsigned port, target, count, hits;
    bool stop;
    enum mischief mischief;
    unsigned share, remainder;
    uint32_t sources; /* 0: whoever it comes from */
    int64_t delay_ms;
    uint32_t dice;
    struct pair pairs[PAIRS];
};

static bool is_struck(const struct proxy *proxy, const struct pair *pair) {
    return proxy->mischief != MISCHIEF_NONE && (proxy->sources == 0 || proxy->sources & pair->source) &&
           pair->number % proxy->share == proxy->remainder % proxy->share;
}

static bool is_frozen(const struct proxy *proxy, const struct pair *pair) {
    return proxy->mischief == MISCHIEF_FREEZE && is_struck(proxy, pair);
}

static void pair_close(struct pair *pair, bool reset) {
    const struct linger linger = {.l_onoff = reset};

    for (int side = 0; side < 2; side++) {
        setsockopt(pair->fds[side], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(pair->fds[side]);
        while (!STAILQ_EMPTY(&pair->chunks[side])) {
            struct chunk *chunk = STAILQ_FIRST(&pair->chunks[side]);

            STAILQ_REMOVE_HEAD(&pair->chunks[side], link);
            free(chunk);
        }
        pair->count[side] = 0;
    }
    pair->used = false;
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
    server = pair != NULL ? connect_to(proxy->target) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *pair = (struct pair){.used = true, .number = ++proxy->count, .fds = {client, server}, .address = ntohl(peer.sin_addr.s_addr)};
    pair->source = source_of(pair->address);
    STAILQ_INIT(&pair->chunks[CLIENT]);
    STAILQ_INIT(&pair->chunks[SERVER]);
    if (proxy->mischief == MISCHIEF_CUT && is_struck(proxy, pair)) {
        proxy->hits++;
        pair_close(pair, true);
    }
}

/* ---- Messages ------------------------------------------------------------------------------------------------------------- */

static int64_t delay_of(struct proxy *proxy, const struct pair *pair, int from) {
    if (!is_struck(proxy, pair))
        return 0;
    if (proxy->mischief == MISCHIEF_SLOW)
        return proxy->delay_ms;
    if (proxy->mischief != MISCHIEF_REORDER || from != SERVER)
        return 0;
    proxy->dice = proxy->dice * 1664525 + 1013904223;
    return (int64_t)(proxy->dice >> 16) % (2 * proxy->delay_ms + 1);
}

/* False: the connection is over. */
static bool read_from(struct proxy *proxy, struct pair *pair, int from) {
    struct chunk *chunk = malloc(sizeof *chunk + CHUNK);
    ssize_t length = chunk != NULL ? recv(pair->fds[from], chunk->bytes, CHUNK, MSG_DONTWAIT) : -1;

    if (length <= 0) {
        free(chunk);
        return length < 0 && (errno == EAGAIN || errno == EINTR);
    }
    int64_t delay = delay_of(proxy, pair, from);

    proxy->hits += delay > 0;
    chunk->due = delay > 0 ? now_ms() + delay : 0;
    chunk->length = (size_t)length;
    chunk->sent = 0;
    STAILQ_INSERT_TAIL(&pair->chunks[from], chunk, link);
    pair->count[from]++;
    return true;
}

static bool write_on(struct pair *pair, int from) {
    while (!STAILQ_EMPTY(&pair->chunks[from])) {
        struct chunk *chunk = STAILQ_FIRST(&pair->chunks[from]);

        if (chunk->due > 0 && chunk->due > now_ms())
            return true;
        ssize_t length = send(pair->fds[!from], chunk->bytes + chunk->sent, chunk->length - chunk->sent,
                              MSG_DONTWAIT | MSG_NOSIGNAL);

        if (length < 0)
            return errno == EAGAIN || errno == EINTR;
        chunk->sent += (size_t)length;
        if (chunk->sent < chunk->length)
            return true;
        STAILQ_REMOVE_HEAD(&pair->chunks[from], link);
        pair->count[from]--;
        free(chunk);
    }
    return true;
}

/* ---- The thread ----------------------------------------------------------------------------------------------------------- */

static void move_on(struct proxy *proxy, struct pair *pair, const struct pollfd *fds) {
    for (int side = 0; side < 2; side++)
        if (fds[side].fd == pair->fds[side] && fds[side].revents & (POLLIN | POLLHUP | POLLERR) && !read_from(proxy, pair, side)) {
            pair_close(pair, false);
            return;
        }
    if (!write_on(pair, CLIENT) || !write_on(pair, SERVER))
        pair_close(pair, false);
}

/* What to wait for on one side; and, at most, until when. */
static struct pollfd prepare_side(const struct proxy *proxy, const struct pair *pair, int side, int64_t *until) {
    const struct chunk *first = pair->used ? STAILQ_FIRST(&pair->chunks[!side]) : NULL;
    struct pollfd wait = {.fd = -1};

    if (!pair->used || is_frozen(proxy, pair))
        return wait;
    wait.fd = pair->fds[side];
    wait.events = pair->count[side] < HELD_MAX ? POLLIN : 0;
    if (first != NULL && first->due > 0 && first->due > now_ms())
        *until = first->due < *until ? first->due : *until;
    else if (first != NULL)
        wait.events |= POLLOUT;
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
        int64_t until = now_ms() + 1000;

        fds[0] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (int i = 0; i < 2 * PAIRS; i++)
            fds[2 + i] = prepare_side(proxy, &proxy->pairs[i / 2], i % 2, &until);
        pthread_mutex_unlock(&proxy->mutex);
        poll(fds, 2 + 2 * PAIRS, poll_timeout(until));
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
        return;
}

/* ---- For the rig ---------------------------------------------------------------------------------------------------------- */

static bool listen_on(struct proxy *proxy) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;

    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (proxy->listener < 0 || bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 128) < 0 || getsockname(proxy->listener, (struct sockaddr *)&address, &length) < 0)
        return false;
    proxy->port = ntohs(address.sin_port);
    return true;
}

struct proxy *proxy_new(unsigned target) {
    struct proxy *proxy = calloc(1, sizeof *proxy);

    if (proxy == NULL)
        return NULL;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->target = target;
    proxy->share = 1;
    proxy->listener = -1;
    proxy->wake = eventfd(0, EFD_CLOEXEC);
    if (proxy->wake >= 0 && listen_on(proxy) && pthread_create(&proxy->thread, NULL, run, proxy) == 0)
        return proxy;
    if (proxy->wake >= 0)
        close(proxy->wake);
    if (proxy->listener >= 0)
        close(proxy->listener);
    free(proxy);
    return NULL;
}

void proxy_free(struct proxy *proxy) {
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    changed(proxy);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i].used)
            pair_close(&proxy->pairs[i], false);
    close(proxy->listener);
    close(proxy->wake);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

unsigned proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

void proxy_begin(struct proxy *proxy, enum mischief mischief, unsigned share, unsigned remainder, int64_t delay_ms) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->mischief = mischief;
    proxy->sources = 0;
    proxy->share = share;
    proxy->remainder = remainder;
    proxy->delay_ms = delay_ms;
    proxy->dice = remainder;
    proxy->hits = 0;
    for (int i = 0; i < PAIRS && mischief == MISCHIEF_CUT; i++)
        if (proxy->pairs[i].used && is_struck(proxy, &proxy->pairs[i])) {
            proxy->hits++;
            pair_close(&proxy->pairs[i], true);
        }
    changed(proxy);
}

void proxy_part(struct proxy *proxy, uint32_t sources) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->mischief = MISCHIEF_FREEZE;
    proxy->sources = sources;
    proxy->share = 1;
    proxy->hits = 0;
    changed(proxy);
}

unsigned proxy_count_from(struct proxy *proxy, uint32_t address) {
    unsigned count = 0;

    pthread_mutex_lock(&proxy->mutex);
    for (int i = 0; i < PAIRS; i++)
        count += proxy->pairs[i].used && proxy->pairs[i].address == address;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

unsigned proxy_end(struct proxy *proxy) {
    unsigned hits;

    pthread_mutex_lock(&proxy->mutex);
    /* Held back is what waits to be read now. */
    for (int i = 0; i < PAIRS && proxy->mischief == MISCHIEF_FREEZE; i++) {
        struct pollfd wait[2];

        if (!proxy->pairs[i].used || !is_struck(proxy, &proxy->pairs[i]))
            continue;
        for (int side = 0; side < 2; side++)
            wait[side] = (struct pollfd){.fd = proxy->pairs[i].fds[side], .events = POLLIN};
        proxy->hits += poll(wait, 2, 0) > 0;
    }
    hits = proxy->hits;
    proxy->mischief = MISCHIEF_NONE;
    changed(proxy);
    return hits;
}
