/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_proxy.c - see redis_proxy.h. One thread and poll(2); the settings are read in every round.
 */
#include "redis_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 128, CHUNK = 65536 };

/* One direction: what was read and not yet written. */
struct pipe_end {
    char *data;
    size_t used, size;
    int64_t due; /* not before */
};

struct pair {
    int client, server; /* -1: free */
    struct pipe_end up, down;
    bool marked; /* its latest request contains the text */
};

struct proxy {
    pthread_t thread;
    int listener, wake[2];
    unsigned port, target;
    struct pair pairs[PAIRS];
    pthread_mutex_t mutex; /* guards what follows */
    bool stop, cut, frozen, dropped;
    unsigned delay_ms, accepted;
    char drop_text[64];
};

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int listen_somewhere(unsigned *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        abort();
    *port = ntohs(address.sin_port);
    return fd;
}

static int connect_to(unsigned port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void close_pair(struct pair *pair) {
    const struct linger reset = {.l_onoff = 1};

    if (pair->client < 0)
        return;
    setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(pair->client);
    close(pair->server);
    pair->client = pair->server = -1;
    pair->up.used = pair->down.used = 0;
    pair->marked = false;
}

static void accept_one(struct proxy *proxy, bool cut) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC), server;

    if (client < 0)
        return;
    server = cut ? -1 : connect_to(proxy->target);
    for (int i = 0; i < PAIRS && server >= 0; i++)
        if (proxy->pairs[i].client < 0) {
            proxy->pairs[i].client = client;
            proxy->pairs[i].server = server;
            proxy->accepted++;
            return;
        }
    close(client);
    if (server >= 0)
        close(server);
}

/* False: the end. */
static bool take(int fd, struct pipe_end *end, unsigned delay_ms) {
    ssize_t n;

    if (end->used + CHUNK > end->size) {
        end->size = end->used + CHUNK;
        end->data = realloc(end->data, end->size);
        if (!end->data)
            abort();
    }
    n = recv(fd, end->data + end->used, CHUNK, MSG_DONTWAIT);
    if (n <= 0)
        return false;
    if (!end->used)
        end->due = now_ms() + delay_ms;
    end->used += (size_t)n;
    return true;
}

static bool give(int fd, struct pipe_end *end) {
    ssize_t n;

    if (!end->used || now_ms() < end->due)
        return true;
    n = send(fd, end->data, end->used, MSG_NOSIGNAL);
    if (n <= 0)
        return false;
    end->used -= (size_t)n;
    memmove(end->data, end->data + n, end->used);
    return true;
}

static void forward(struct proxy *proxy, struct pair *pair, short client_ready, short server_ready) {
    const char *text = proxy->drop_text;
    bool ok = true;

    if (client_ready) {
        ok = take(pair->client, &pair->up, 0);
        if (ok && *text)
            pair->marked = memmem(pair->up.data, pair->up.used, text, strlen(text)) != NULL;
    }
    if (ok && server_ready)
        ok = take(pair->server, &pair->down, proxy->delay_ms);
    if (ok && pair->marked && pair->down.used && *text) {
        proxy->drop_text[0] = '\0';
        proxy->dropped = true;
        ok = false;
    }
    if (!ok || !give(pair->server, &pair->up) || !give(pair->client, &pair->down))
        close_pair(pair);
}

/* One round. The settings are held still meanwhile; nothing here blocks but for the poll. */
static void run_round(struct proxy *proxy) {
    struct pollfd fds[2 + 2 * PAIRS];
    int timeout = 1000;
    bool pending = false;

    fds[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
    for (int i = 0; i < PAIRS; i++) {
        struct pair *pair = &proxy->pairs[i];

        fds[2 + 2 * i] = (struct pollfd){.fd = proxy->frozen ? -1 : pair->client, .events = POLLIN};
        fds[3 + 2 * i] = (struct pollfd){.fd = proxy->frozen ? -1 : pair->server, .events = POLLIN};
        pending |= pair->client >= 0 && (pair->down.used || pair->up.used);
    }
    if (pending && !proxy->frozen)
        timeout = 1;
    pthread_mutex_unlock(&proxy->mutex);
    poll(fds, 2 + 2 * PAIRS, timeout);
    pthread_mutex_lock(&proxy->mutex);
    if (fds[1].revents) {
        char drain[64];
        ssize_t n = read(proxy->wake[0], drain, sizeof drain);

        (void)n;
    }
    if (fds[0].revents)
        accept_one(proxy, proxy->cut);
    for (int i = 0; i < PAIRS; i++)
        if (proxy->pairs[i].client >= 0 && proxy->cut)
            close_pair(&proxy->pairs[i]);
        else if (proxy->pairs[i].client >= 0 && !proxy->frozen && fds[2 + 2 * i].fd == proxy->pairs[i].client)
            forward(proxy, &proxy->pairs[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
}

static void *proxy_main(void *data) {
    struct proxy *proxy = data;

    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stop)
        run_round(proxy);
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

struct proxy *proxy_new(unsigned port) {
    struct proxy *proxy = calloc(1, sizeof *proxy);

    if (!proxy || pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    proxy->target = port;
    proxy->listener = listen_somewhere(&proxy->port);
    for (int i = 0; i < PAIRS; i++)
        proxy->pairs[i].client = proxy->pairs[i].server = -1;
    pthread_mutex_init(&proxy->mutex, NULL);
    if (pthread_create(&proxy->thread, NULL, proxy_main, proxy) != 0)
        abort();
    return proxy;
}

/* Unlock after a change, and have the thread see it. */
static void changed(struct proxy *proxy) {
    ssize_t n;

    pthread_mutex_unlock(&proxy->mutex);
    n = write(proxy->wake[1], "", 1);
    (void)n;
}

void proxy_free(struct proxy *proxy) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->stop = true;
    changed(proxy);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PAIRS; i++) {
        close_pair(&proxy->pairs[i]);
        free(proxy->pairs[i].up.data);
        free(proxy->pairs[i].down.data);
    }
    close(proxy->listener);
    close(proxy->wake[0]);
    close(proxy->wake[1]);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

unsigned proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

void proxy_cut(struct proxy *proxy, bool cut) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut = cut;
    changed(proxy);
}

void proxy_freeze(struct proxy *proxy, bool frozen) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->frozen = frozen;
    changed(proxy);
}

void proxy_delay(struct proxy *proxy, unsigned ms) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->delay_ms = ms;
    changed(proxy);
}

void proxy_drop_answer_to(struct proxy *proxy, const char *text) {
    pthread_mutex_lock(&proxy->mutex);
    proxy->dropped = false;
    strncpy(proxy->drop_text, text, sizeof proxy->drop_text - 1);
    changed(proxy);
}

bool proxy_dropped(struct proxy *proxy) {
    bool dropped;

    pthread_mutex_lock(&proxy->mutex);
    dropped = proxy->dropped;
    pthread_mutex_unlock(&proxy->mutex);
    return dropped;
}

unsigned proxy_accepted(struct proxy *proxy) {
    unsigned accepted;

    pthread_mutex_lock(&proxy->mutex);
    accepted = proxy->accepted;
    pthread_mutex_unlock(&proxy->mutex);
    return accepted;
}
