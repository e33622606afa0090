/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - sockets that listen, for the code in the world: so a test's proxy runs there as it does on a real machine.
 *
 * A socket that listens is a server as server.h has it. Each of its sessions is a socket of the same process, whose other end is the
 * client's. It waits in a row until it is accepted. When the one that listens is closed, all that came by it end.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "internal.h"
#include "names.h"

enum { FIRST_PORT = 30000 };

static void *take_client(void *server, struct link *link, int64_t now) {
    struct file *listener = server, *file = calloc(1, sizeof *file), **last = &listener->waiting;

    (void)now;
    *file = (struct file){
        .kind = FILE_SOCKET, .process = listener->process, .expires = WORLD_NEVER, .state = SOCKET_OPEN, .client = link};
    while (*last != NULL)
        last = &(*last)->waiting;
    *last = file;
    world_notify(file->process);
    return file;
}

static void take_bytes(void *server, void *session, const char *bytes, size_t size, int64_t now) {
    struct file *file = session;

    (void)server;
    (void)now;
    socket_take(file, bytes, size);
    world_notify(file->process);
}

static void end_client(void *server, void *session, int64_t now) {
    struct file *file = session;

    (void)server;
    (void)now;
    file->client = NULL;
    file->state = SOCKET_ENDED;
    world_notify(file->process);
}

static int64_t never_due(const void *server) {
    (void)server;
    return SERVER_NEVER;
}

static void tick(void *server, int64_t now) {
    (void)server;
    (void)now;
}

const struct server_ops listener_ops = {
    .accept = take_client, .input = take_bytes, .gone = end_client, .due = never_due, .tick = tick};

int sim_bind(int fd, const struct sockaddr *address, socklen_t length) {
    struct file *file = file_of(fd, FILE_SOCKET);
    unsigned port = ntohs(((const struct sockaddr_in *)address)->sin_port);

    (void)length;
    if (file == NULL)
        return -1;
    file->port = port != 0 ? port : FIRST_PORT + world.ports_given++;
    return 0;
}

int sim_listen(int fd, int most) {
    struct file *file = file_of(fd, FILE_SOCKET);

    (void)most;
    if (file == NULL)
        return -1;
    file->site = world_site(file->port, "listener", &listener_ops, file);
    file->state = SOCKET_LISTENS;
    return 0;
}

int sim_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    struct file *listener = file_of(fd, FILE_SOCKET), *file;

    world_charge();
    if (listener == NULL)
        return -1;
    while (listener->waiting == NULL) {
        errno = listener->state == SOCKET_LISTENS ? EAGAIN : EINVAL;
        if (listener->state != SOCKET_LISTENS || listener->nonblocking)
            return -1;
        world_block(NULL, true, WORLD_NEVER);
    }
    file = listener->waiting;
    listener->waiting = file->waiting;
    file->waiting = NULL;
    file->nonblocking = flags & SOCK_NONBLOCK;
    if (address != NULL)
        *(struct sockaddr_in *)address = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (size != NULL)
        *size = sizeof(struct sockaddr_in);
    return file_place(file);
}

int sim_accept(int fd, struct sockaddr *address, socklen_t *size) {
    return sim_accept4(fd, address, size, 0);
}

void listener_close(struct file *file) {
    struct file *next;

    world_site_down(file->site);
    for (struct file *waiting = file->waiting; waiting != NULL; waiting = next) {
        next = waiting->waiting;
        free(waiting->in);
        free(waiting);
    }
    file->waiting = NULL;
    file->site = NULL;
    file->state = SOCKET_ENDED;
}
