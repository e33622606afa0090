/* SPDX-License-Identifier: Apache-2.0
 *
 * resolve.c - where a host is. Names are looked up by a thread of their own, since that may take as long as it likes: what was known
 * before serves meanwhile. Only open() waits for it, up to a moment.
 */
#include "os/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "os/clock.h"

enum { ADDRESSES = 8 };

/* Shared by the engine and the thread that looks them up: freed by the last. */
struct addresses {
    pthread_mutex_t mutex;
    pthread_cond_t looked;
    int references;
    bool looking, unknown;
    int rc; /* of the last look-up that failed */
    char host[256];
    unsigned port;
    char where[PAWL__URL_HOST_PORT]; /* both, for people */
    struct sockaddr_storage list[ADDRESSES];
    socklen_t lengths[ADDRESSES];
    size_t count, at; /* the one that all connections are made to, until it fails */
};

static void look_up(struct addresses *addresses, int flags) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL, *one;
    char port[8];
    int rc;

    snprintf(port, sizeof port, "%u", addresses->port);
    rc = getaddrinfo(addresses->host, port, &hints, &found);
    if (rc != 0) {
        pthread_mutex_lock(&addresses->mutex);
        addresses->unknown = !flags;
        addresses->rc = rc;
        pthread_mutex_unlock(&addresses->mutex);
        return;
    }
    pthread_mutex_lock(&addresses->mutex);
    addresses->count = 0;
    for (one = found; one && addresses->count < ADDRESSES; one = one->ai_next) {
        memcpy(&addresses->list[addresses->count], one->ai_addr, one->ai_addrlen);
        addresses->lengths[addresses->count++] = one->ai_addrlen;
    }
    pthread_mutex_unlock(&addresses->mutex);
    freeaddrinfo(found);
}

struct addresses *pawl__addresses_new(const char *host, unsigned port) {
    struct addresses *addresses = calloc(1, sizeof *addresses);

    if (!addresses)
        return NULL;
    pthread_mutex_init(&addresses->mutex, NULL);
    pthread_cond_init(&addresses->looked, NULL);
    addresses->references = 1;
    addresses->port = port;
    snprintf(addresses->host, sizeof addresses->host, "%s", host);
    pawl__url_host_port(host, port, addresses->where);
    look_up(addresses, AI_NUMERICHOST | AI_NUMERICSERV); /* asks nobody */
    return addresses;
}

void pawl__addresses_put(struct addresses *addresses) {
    bool last;

    if (!addresses)
        return;
    pthread_mutex_lock(&addresses->mutex);
    last = --addresses->references == 0;
    pthread_mutex_unlock(&addresses->mutex);
    if (last) {
        pthread_cond_destroy(&addresses->looked);
        pthread_mutex_destroy(&addresses->mutex);
        free(addresses);
    }
}

static void *look_up_again(void *data) {
    struct addresses *addresses = data;

    look_up(addresses, 0);
    pthread_mutex_lock(&addresses->mutex);
    addresses->looking = false;
    pthread_cond_broadcast(&addresses->looked);
    pthread_mutex_unlock(&addresses->mutex);
    pawl__addresses_put(addresses);
    return NULL;
}

void pawl__addresses_refresh(struct addresses *addresses) {
    pthread_attr_t attributes;
    pthread_t thread;
    bool start;

    pthread_mutex_lock(&addresses->mutex);
    start = !addresses->looking;
    if (start) {
        addresses->looking = true;
        addresses->unknown = false;
        addresses->references++;
    }
    pthread_mutex_unlock(&addresses->mutex);
    if (!start)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, look_up_again, addresses) != 0) {
        pthread_mutex_lock(&addresses->mutex);
        addresses->looking = false;
        addresses->unknown = true;
        addresses->rc = EAI_MEMORY;
        pthread_mutex_unlock(&addresses->mutex);
        pawl__addresses_put(addresses);
    }
    pthread_attr_destroy(&attributes);
}

bool pawl__addresses_begin(struct addresses *addresses) {
    if (addresses->count) /* nobody else knows of it yet */
        return false;
    pawl__addresses_refresh(addresses);
    return true;
}

int pawl__addresses_await(struct addresses *addresses, int64_t deadline) {
    int rc;

    pthread_mutex_lock(&addresses->mutex);
    while (addresses->looking && !addresses->count && pawl__boottime() < deadline)
        pawl__wait_until(&addresses->looked, &addresses->mutex, deadline);
    rc = addresses->count ? 0 : addresses->looking ? EAI_AGAIN : addresses->rc;
    pthread_mutex_unlock(&addresses->mutex);
    return rc;
}

bool pawl__addresses_unknown(struct addresses *addresses) {
    bool unknown;

    pthread_mutex_lock(&addresses->mutex);
    unknown = addresses->unknown;
    pthread_mutex_unlock(&addresses->mutex);
    return unknown;
}

socklen_t pawl__addresses_choose(struct addresses *addresses, struct sockaddr_storage *ret, size_t *retnumber) {
    socklen_t length = 0;
    size_t i;

    pthread_mutex_lock(&addresses->mutex);
    if (addresses->count) {
        i = addresses->at % addresses->count;
        *ret = addresses->list[i];
        length = addresses->lengths[i];
    }
    *retnumber = addresses->at;
    pthread_mutex_unlock(&addresses->mutex);
    return length;
}

void pawl__addresses_failed(struct addresses *addresses, size_t number) {
    pthread_mutex_lock(&addresses->mutex);
    addresses->at += addresses->at == number; /* else another connection has found out before */
    pthread_mutex_unlock(&addresses->mutex);
}

size_t pawl__addresses_count(struct addresses *addresses) {
    size_t count;

    pthread_mutex_lock(&addresses->mutex);
    count = addresses->count;
    pthread_mutex_unlock(&addresses->mutex);
    return count;
}

const char *pawl__addresses_host(const struct addresses *addresses) {
    return addresses->host;
}

const char *pawl__addresses_where(const struct addresses *addresses) {
    return addresses->where;
}

unsigned pawl__addresses_port(const struct addresses *addresses) {
    return addresses->port;
}
