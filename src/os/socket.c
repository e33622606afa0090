/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.c - see socket.h.
 */
#include "os/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "os/clock.h"
#include "os/descriptor.h"

static void set_options(int fd, int64_t patience_ns) {
    int yes = 1;
    unsigned patience_ms = (unsigned)(patience_ns / PAWL__NS_PER_MS);

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

int pawl__socket_connect(const struct sockaddr_storage *address, socklen_t length, int64_t patience_ns, int *reterror) {
    int fd = above_stdio(socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    if (fd < 0)
        return -1;
    if (address->ss_family != AF_UNIX)
        set_options(fd, patience_ns);
    *reterror = connect(fd, (const struct sockaddr *)address, length) < 0 && errno != EINPROGRESS ? errno : 0;
    return fd;
}

int pawl__socket_error(int fd) {
    socklen_t size = sizeof(int);
    int error = 0;

    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

bool pawl__socket_decided(int fd) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 || pawl__socket_error(fd) != 0;
}

static bool not_now(void) {
    return errno == EAGAIN || errno == EINTR;
}

ssize_t pawl__socket_write(int fd, const void *data, size_t size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

    return n < 0 && not_now() ? 0 : n;
}

ssize_t pawl__socket_read(int fd, void *buffer, size_t size) {
    ssize_t n = recv(fd, buffer, size, 0);

    return n > 0 ? n : n < 0 && not_now() ? 0 : -1;
}

bool pawl__socket_silent(int fd) {
    struct pollfd readable = {.fd = fd, .events = POLLIN};

    return poll(&readable, 1, 0) == 0;
}

void pawl__socket_forget(int fd) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}
