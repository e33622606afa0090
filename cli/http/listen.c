/* SPDX-License-Identifier: Apache-2.0
 *
 * listen.c - the socket that --listen asks for. A unix socket is its owner's alone (0600); one that a server of ours left behind
 * when it was killed is taken over, one that answers is not.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/cli.h"

enum { BACKLOG = 128, PORTS_TRIED = 16 };

static int refused(const char *where) {
    int reason = errno;

    if (reason == EADDRINUSE)
        say("can't listen at %s: another program does so already; port 0 takes one that is free (--listen 127.0.0.1:0)", where);
    else if (reason == EADDRNOTAVAIL)
        say("can't listen at %s: this machine has no such address", where);
    else
        say("can't listen at %s: %s", where, strerror(reason));
    return reason == EACCES || reason == EPERM ? EXIT_PERMISSION : EXIT_SYSTEM;
}

/* A socket that nobody listens at: what is left of a server that was killed. */
static bool is_left_behind(const struct sockaddr_un *address) {
    struct stat info;
    int fd, result;

    if (lstat(address->sun_path, &info) < 0 || !S_ISSOCK(info.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    result = fd >= 0 ? connect(fd, (const struct sockaddr *)address, sizeof *address) : 0;
    bool nobody = result < 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return nobody;
}

static int open_unix(const char *path, struct listening *ret) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path)
        return usage_error("--listen unix:PATH wants a path of 1 to %zu bytes", sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    if (is_left_behind(&address))
        unlink(path);
    ret->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ret->fd < 0)
        return refused(path);
    mode_t before = umask(0177);
    int result = bind(ret->fd, (const struct sockaddr *)&address, sizeof address);
    umask(before);
    if (result < 0 || listen(ret->fd, BACKLOG) < 0) {
        int status = refused(path);

        close(ret->fd);
        return status;
    }
    ret->path = path;
    return 0;
}

/* Split at the last colon; the brackets of an IPv6 address are left out. */
static bool split(const char *where, char *address, size_t size, const char **ret_port) {
    const char *colon = strrchr(where, ':');
    size_t length = colon != NULL ? (size_t)(colon - where) : 0;

    if (length == 0 || colon[1] == '\0')
        return false;
    if (where[0] == '[' && where[length - 1] == ']') {
        where++;
        length -= 2;
    } else if (memchr(where, ':', length) != NULL) {
        return false;
    }
    if (length == 0 || length >= size)
        return false;
    memcpy(address, where, length);
    address[length] = '\0';
    *ret_port = colon + 1;
    return true;
}

static void describe(struct listening *listening) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } own = {0};
    socklen_t size = sizeof own;
    char text[INET6_ADDRSTRLEN] = "";

    getsockname(listening->fd, &own.any, &size);
    if (own.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &own.v6.sin6_addr, text, sizeof text);
        listening->port = ntohs(own.v6.sin6_port);
        listening->everywhere = IN6_IS_ADDR_UNSPECIFIED(&own.v6.sin6_addr);
        snprintf(listening->address, sizeof listening->address, "[%s]", text);
    } else {
        inet_ntop(AF_INET, &own.v4.sin_addr, text, sizeof text);
        listening->port = ntohs(own.v4.sin_port);
        listening->everywhere = own.v4.sin_addr.s_addr == htonl(INADDR_ANY);
        snprintf(listening->address, sizeof listening->address, "%s", text);
    }
}

static int open_at(const char *where, const struct addrinfo *found, struct listening *ret) {
    int on = 1;

    ret->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (ret->fd < 0)
        return refused(where);
    setsockopt(ret->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(ret->fd, found->ai_addr, found->ai_addrlen) < 0 || listen(ret->fd, BACKLOG) < 0) {
        int status = refused(where);

        close(ret->fd);
        return status;
    }
    describe(ret);
    return 0;
}

/* A browser that is sent to localhost may try ::1 first: nobody else is to listen there. -1: somebody does (errno EADDRINUSE), or this
 * machine has no such address. */
static int open_beside(unsigned port) {
    const struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_port = htons((in_port_t)port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Both loopbacks. A port that was free at the one may be taken at the other: then another is tried, unless one was asked for. */
static int open_localhost(const char *where, const struct addrinfo *found, bool any_port, struct listening *ret) {
    for (int tries = 0;; tries++) {
        int status = open_at(where, found, ret);

        if (status != 0)
            return status;
        ret->beside = open_beside(ret->port);
        if (ret->beside >= 0 || errno != EADDRINUSE)
            return 0;
        if (!any_port || tries == PORTS_TRIED) {
            char own[64];

            snprintf(own, sizeof own, "[::1]:%u", ret->port);
            errno = EADDRINUSE;
            status = refused(own);
        }
        close(ret->fd);
        ret->fd = -1;
        if (status != 0)
            return status;
    }
}

int listen_open(const char *where, struct listening *ret) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;
    char address[64];
    const char *port;

    *ret = (struct listening){.fd = -1, .beside = -1};
    if (strncmp(where, "unix:", 5) == 0)
        return open_unix(where + 5, ret);
    if (!split(where, address, sizeof address, &port))
        return usage_error("--listen wants ADDRESS:PORT, such as localhost:7295 or [::1]:7295, or unix:PATH, not '%s'", where);
    bool both = strcmp(address, "localhost") == 0;
    if (both)
        strcpy(address, "127.0.0.1");
    if (strlen(port) > 5 || strspn(port, "0123456789") != strlen(port) || atoi(port) > 65535)
        return usage_error("--listen wants a port from 0 to 65535, not '%s'", port);
    if (getaddrinfo(address, port, &hints, &found) != 0)
        return usage_error("--listen wants a numeric address of this machine, such as 127.0.0.1:7295 or [::1]:7295, not '%s'",
                           where);
    int status = both ? open_localhost(where, found, atoi(port) == 0, ret) : open_at(where, found, ret);
    freeaddrinfo(found);
    return status;
}

int host_list_add(struct host_list *hosts, const char *name) {
    if (hosts->count == HOSTS_MAX)
        return usage_error("--host was given more than %d times", HOSTS_MAX);
    if (name[0] == '\0' || strcspn(name, "/@ \t") != strlen(name))
        return usage_error("--host wants a name, or NAME:PORT, as it stands in the browser's address, not '%s'", name);
    hosts->names[hosts->count++] = name;
    return 0;
}

int listen_names(const struct listening *listening, const struct host_list *hosts, struct gate *gate) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    bool done = true;

    if (listening->everywhere && hosts->count == 0)
        return usage_error("%s:%u is every address of this machine: say by --host NAME under which name it will be reached",
                           listening->address, listening->port);
    gate->any_port = listening->path != NULL;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        done = done && gate_add_own(gate, own[i], listening->port);
    if (listening->address[0] != '\0' && !listening->everywhere)
        done = done && gate_add_own(gate, listening->address, listening->port);
    for (size_t i = 0; i < hosts->count; i++)
        done = done && gate_add_host(gate, hosts->names[i], listening->port);
    if (done)
        return 0;
    say("out of memory");
    return EXIT_SYSTEM;
}

char *listen_shown(const struct listening *listening, const struct host_list *hosts, char *out, size_t size) {
    const char *name = listening->everywhere ? hosts->names[0] : listening->address;
    const char *colon = strrchr(name, ':');
    bool has_port = colon != NULL && colon[1] != '\0' && strspn(colon + 1, "0123456789") == strlen(colon + 1) &&
                    (name[0] != '[' || colon[-1] == ']');

    if (has_port)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "%s:%u", name, listening->port);
    return out;
}

void listen_close(struct listening *listening) {
    if (listening->fd >= 0)
        close(listening->fd);
    if (listening->beside >= 0)
        close(listening->beside);
    if (listening->path != NULL)
        unlink(listening->path);
    listening->fd = listening->beside = -1;
}
