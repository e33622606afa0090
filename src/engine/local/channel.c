/* SPDX-License-Identifier: Apache-2.0
 *
 * channel.c - wake channels: FIFOs that a waiter polls together with the lifelines it watches, and that others write a byte to.
 *
 * s/NNNNN.K is the K-th channel of the session in slot NNNNN. Its owner has it open for reading and writing, so that poll() never
 * says POLLHUP. The one that wakes opens it for reading and writing too: then there is always a reader, and no SIGPIPE. (That is why the
 * lifeline is another file: a reader there would count as life.) A full FIFO is readable, so a byte that did not fit is not missed.
 * The files stay for the slot's next owner; a stale byte wakes somebody who looks and sleeps on. One that was removed is made anew
 * before the next sleep; till then its owner looks for itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "os/uncancelled.h"

enum { CHANNELS_MAX = 65536 };

static const char *channel_name(uint32_t slot, uint32_t number, char buffer[32]) {
    snprintf(buffer, 32, "%05u.%u", slot, number);
    return buffer;
}

/* One that is not busy, open if possible. */
static struct channel *idle(struct local *local) {
    struct channel *closed = NULL;

    for (struct channel *channel = local->channels.all; channel; channel = channel->next) {
        if (!channel->busy && channel->fd >= 0)
            return channel;
        if (!channel->busy)
            closed = channel;
    }
    return closed;
}

static struct channel *add(struct local *local) {
    struct channel *channel = local->channels.count < CHANNELS_MAX ? malloc(sizeof *channel) : NULL;

    if (!channel)
        return NULL;
    *channel = (struct channel){.fd = -1, .number = local->channels.count++, .next = local->channels.all};
    local->channels.all = channel;
    return channel;
}

/* With the mutex: open the channel's file, unless it is open and still there. */
static void open_file(struct local *local, struct channel *channel) {
    char name[32];
    int fd;

    if (channel->fd >= 0 && !pawl__local_is_removed(channel->fd))
        return;
    fd = pawl__local_fifo(local, channel_name(local->slot, channel->number, name));
    if (fd < 0)
        return; /* the old one is better than none: this process can ring it */
    if (channel->fd >= 0)
        close(channel->fd);
    channel->fd = fd;
}

int pawl__local_channel_mend(struct local *local, struct channel *channel) {
    if (pawl__local_is_removed(channel->fd)) {
        pthread_mutex_lock(&local->channels.mutex);
        open_file(local, channel);
        pthread_mutex_unlock(&local->channels.mutex);
    }
    return channel->fd;
}

struct channel *pawl__local_channel_get(struct local *local) {
    struct channel *channel;

    pthread_mutex_lock(&local->channels.mutex);
    channel = idle(local);
    if (!channel)
        channel = add(local);
    if (channel)
        open_file(local, channel);
    if (channel && channel->fd < 0)
        channel = NULL;
    if (channel)
        channel->busy = true;
    pthread_mutex_unlock(&local->channels.mutex);
    return channel;
}

void pawl__local_channel_put(struct local *local, struct channel *channel) {
    pthread_mutex_lock(&local->channels.mutex);
    if (channel->number >= CHANNELS_KEPT) {
        close(channel->fd);
        channel->fd = -1;
    }
    channel->busy = false;
    pthread_mutex_unlock(&local->channels.mutex);
}

void pawl__local_channel_drain(const struct channel *channel) {
    char bytes[256];

    while (read(channel->fd, bytes, sizeof bytes) == sizeof bytes)
        ;
}

void pawl__local_channel_ring(struct local *local, struct channel *channel) {
    UNCANCELLED;

    /* With the mutex: the number of a descriptor that was closed may be the application's by now. */
    pthread_mutex_lock(&local->channels.mutex);
    if (channel->fd >= 0)
        (void)!write(channel->fd, "", 1);
    pthread_mutex_unlock(&local->channels.mutex);
}

void pawl__local_channel_poke(struct local *local, uint32_t slot, uint32_t number) {
    char name[32];
    int fd;
    UNCANCELLED;

    if (slot >= SESSION_COUNT || number >= CHANNELS_MAX)
        return;
    fd = pawl__local_open(local->sessions_fd, channel_name(slot, number, name), O_RDWR, S_IFIFO);
    if (fd < 0)
        return; /* whom it was for looks for itself, once a second */
    (void)!write(fd, "", 1);
    close(fd);
}

void pawl__local_channels_close(struct local *local) {
    struct channel *channel;

    while ((channel = local->channels.all)) {
        local->channels.all = channel->next;
        pawl__local_close_fd(&channel->fd);
        free(channel);
    }
    local->channels.count = 0;
}
