/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets.c - TCP sockets, for the code in the world: the client's end of a connection (net.c has the rest).
 *
 * Every address of the loopback leads to the same servers; the port says which. The path of a Unix socket is one, too: /simulated/6379.
 *
 * A test that is linked with the world may have functions of its own in place of connect(), send() and getaddrinfo(), as it may on a real
 * machine. Theirs call these by syscall() and dlsym().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "internal.h"
#include "names.h"

enum { SHORT_WRITE_ONE_IN = 60 };

static int fail(int error) {
    errno = error;
    return -1;
}

unsigned socket_ready(const struct file *file) {
    unsigned events = 0;

    switch (file->state) {
    case SOCKET_NEW:
        return POLLOUT | POLLHUP;
    case SOCKET_CONNECTING:
        return 0;
    case SOCKET_OPEN:
        if (file->client != NULL || net_room(file->far) > 0)
            events |= POLLOUT;
        break;
    case SOCKET_ENDED:
        events |= POLLIN | POLLOUT;
        break;
    case SOCKET_BROKEN:
        events |= POLLIN | POLLOUT | POLLERR | POLLHUP;
        break;
    case SOCKET_LISTENS:
        return file->waiting != NULL ? POLLIN : 0;
    }
    if (file->in_at < file->in_used)
        events |= POLLIN;
    return events;
}

void socket_close(struct file *file) {
    if (file->site != NULL)
        listener_close(file);
    if (file->client != NULL)
        link_close(file->client);
    if (file->far != NULL)
        net_close(file->far, file->forgets);
    file->far = file->client = NULL;
}

void socket_take(struct file *file, const char *bytes, size_t size) {
    if (file->in_at == file->in_used)
        file->in_at = file->in_used = 0;
    if (file->in_used + size > file->in_room) {
        file->in_room = (file->in_used + size) * 2;
        file->in = realloc(file->in, file->in_room);
    }
    memcpy(file->in + file->in_used, bytes, size);
    file->in_used += size;
}

int sim_socket(int family, int type, int protocol) {
    (void)protocol;
    world_charge();
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return fail(EAFNOSUPPORT);
    return file_add(FILE_SOCKET, type & SOCK_NONBLOCK);
}

static unsigned port_of(const struct sockaddr *address) {
    if (address->sa_family == AF_UNIX) {
        const char *path = ((const struct sockaddr_un *)address)->sun_path, *last = strrchr(path, '/');

        return last != NULL ? (unsigned)strtoul(last + 1, NULL, 10) : 0;
    }
    /* The port is at the same place in both families. */
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

/* Of IPv4's addresses 127.0.0.1 and 0.0.0.0 are here. At another there is nobody, as at port 0. */
static unsigned place_of(const struct sockaddr *address) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    bool elsewhere = in->sin_family == AF_INET && in->sin_addr.s_addr != htonl(INADDR_LOOPBACK) &&
                     in->sin_addr.s_addr != INADDR_ANY;

    return elsewhere ? 0 : port_of(address);
}

static bool is_connecting(const struct file *file) {
    return file->state == SOCKET_CONNECTING;
}

__attribute__((weak, alias("socket_connect"))) int sim_connect(int fd, const struct sockaddr *address, socklen_t length);

int socket_connect(int fd, const struct sockaddr *address, socklen_t length) {
    struct file *file = file_of(fd, FILE_SOCKET);
    int error;

    (void)length;
    world_charge();
    if (file == NULL)
        return -1;
    if (file->state == SOCKET_OPEN)
        return fail(EISCONN);
    if (file->state == SOCKET_CONNECTING)
        return fail(EALREADY);
    file->port = place_of(address);
    error = net_connect(file, file->port);
    if (error != 0)
        return fail(error);
    if (file->nonblocking)
        return fail(EINPROGRESS);
    while (is_connecting(file))
        world_block(NULL, true, WORLD_NEVER);
    error = file->error;
    file->error = 0;
    return error != 0 ? fail(error) : 0;
}

/* ---- Bytes ---------------------------------------------------------------------------------------------------------------- */

/* Until something can be read, or the time that was set is up. */
static bool await_bytes(const struct file *file, bool waits) {
    int64_t deadline = file->receive_ns > 0 ? process_clock(file->process) + file->receive_ns : WORLD_NEVER;

    while (file->in_at == file->in_used && file->state == SOCKET_OPEN) {
        if (!waits || process_clock(file->process) >= deadline)
            return false;
        world_block(NULL, true, deadline);
    }
    return true;
}

ssize_t sim_recv(int fd, void *to, size_t size, int flags) {
    struct file *file = file_of(fd, FILE_SOCKET);
    size_t count;

    world_charge();
    if (file == NULL)
        return -1;
    if (file->state == SOCKET_NEW || file->state == SOCKET_CONNECTING)
        return fail(file->state == SOCKET_NEW ? ENOTCONN : EAGAIN);
    if (!await_bytes(file, !file->nonblocking && !(flags & MSG_DONTWAIT)))
        return fail(EAGAIN);
    if (file->in_at == file->in_used) {
        if (file->state == SOCKET_ENDED || file->error == 0)
            return 0;
        int error = file->error;

        file->error = 0;
        return fail(error);
    }
    count = file->in_used - file->in_at < size ? file->in_used - file->in_at : size;
    if (file->dribble > 0 && !(flags & MSG_PEEK)) {
        count = 1;
        file->dribble--;
        world.dribbled++;
    }
    memcpy(to, file->in + file->in_at, count);
    if (!(flags & MSG_PEEK))
        file->in_at += count;
    return (ssize_t)count;
}

__attribute__((weak, alias("socket_send"))) ssize_t sim_send(int fd, const void *from, size_t size, int flags);

ssize_t socket_send(int fd, const void *from, size_t size, int flags) {
    struct file *file = file_of(fd, FILE_SOCKET);
    size_t taken;

    world_charge();
    if (file == NULL)
        return -1;
    if (file->client != NULL) {
        link_send(file->client, from, size);
        return (ssize_t)size;
    }
    if (file->state == SOCKET_NEW || file->state == SOCKET_CONNECTING)
        return fail(file->state == SOCKET_NEW ? EPIPE : EAGAIN);
    if (file->state == SOCKET_BROKEN || file->far == NULL)
        return fail(EPIPE);
    if (size > 1 && dice_one_in(&world.wire, world.options.short_writes))
        size = 1 + dice_below(&world.wire, size - 1);
    while ((taken = net_send(file->far, from, size)) == 0 && size > 0) {
        if (file->nonblocking || flags & MSG_DONTWAIT)
            return fail(EAGAIN);
        world_block(NULL, true, WORLD_NEVER);
        if (file->state == SOCKET_BROKEN)
            return fail(EPIPE);
    }
    world_may_switch();
    return (ssize_t)taken;
}

int sim_shutdown(int fd, int how) {
    struct file *file = file_of(fd, FILE_SOCKET);

    (void)how;
    if (file == NULL) /* on a real machine its number may be another's by now */
        process_die(-6, "shutdown() of a descriptor that is closed");
    if (file->state == SOCKET_NEW)
        return fail(ENOTCONN);
    socket_close(file);
    file->state = SOCKET_ENDED;
    world_notify(file->process); /* who sits in accept() */
    return 0;
}

/* ---- Options and names ---------------------------------------------------------------------------------------------------- */

int sim_setsockopt(int fd, int level, int option, const void *value, socklen_t size) {
    struct file *file = file_of(fd, FILE_SOCKET);

    (void)size;
    if (file == NULL)
        return -1;
    if (level == SOL_SOCKET && option == SO_RCVTIMEO) {
        const struct timeval *time = value;

        file->receive_ns = time->tv_sec * WORLD_SECOND + time->tv_usec * 1000;
    } else if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT) {
        file->user_timeout_ns = *(const unsigned *)value * WORLD_MS;
    } else if (level == SOL_SOCKET && option == SO_LINGER) {
        const struct linger *linger = value;

        file->forgets = linger->l_onoff && linger->l_linger == 0;
    }
    return 0;
}

int sim_getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
    struct file *file = file_of(fd, FILE_SOCKET);

    if (file == NULL)
        return -1;
    memset(value, 0, *size);
    if (level == SOL_SOCKET && option == SO_ERROR) {
        memcpy(value, &file->error, sizeof file->error);
        file->error = 0;
    }
    return 0;
}

static void write_address(unsigned port, struct sockaddr *to, socklen_t *size) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    memcpy(to, &address, *size < sizeof address ? *size : sizeof address);
    *size = sizeof address;
}

int sim_getpeername(int fd, struct sockaddr *to, socklen_t *size) {
    struct file *file = file_of(fd, FILE_SOCKET);

    if (file == NULL)
        return -1;
    if (file->state != SOCKET_OPEN && file->state != SOCKET_ENDED)
        return fail(ENOTCONN);
    write_address(file->port, to, size);
    return 0;
}

int sim_getsockname(int fd, struct sockaddr *to, socklen_t *size) {
    const struct file *file = file_of(fd, FILE_SOCKET);

    if (file == NULL)
        return -1;
    write_address(file->state == SOCKET_LISTENS ? file->port : (unsigned)(40000 + fd), to, size);
    return 0;
}

__attribute__((weak, alias("socket_look_up"))) int sim_getaddrinfo(const char *host, const char *service,
                                                                   const struct addrinfo *hints, struct addrinfo **ret);

/* Numbers, and localhost: nobody else is known. */
int socket_look_up(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } * found;
    struct in_addr number;

    if (host == NULL || inet_pton(AF_INET, host, &number) != 1) {
        if (hints != NULL && hints->ai_flags & AI_NUMERICHOST)
            return EAI_NONAME;
        world_charge();
        if (host != NULL && strcmp(host, "localhost") != 0)
            return EAI_NONAME;
        number.s_addr = htonl(INADDR_LOOPBACK);
    }
    found = sim_calloc(1, sizeof *found);
    found->address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)(service != NULL ? atoi(service) : 0)), .sin_addr = number};
    found->info = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_protocol = IPPROTO_TCP,
                                    .ai_addrlen = sizeof found->address,
                                    .ai_addr = (struct sockaddr *)&found->address};
    *ret = &found->info;
    return 0;
}

void sim_freeaddrinfo(struct addrinfo *info) {
    struct addrinfo *next;

    for (; info != NULL; info = next) {
        next = info->ai_next;
        sim_free(info);
    }
}
