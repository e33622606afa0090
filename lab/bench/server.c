/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - the processes of servers on this host, and what a process uses.
 *
 * A server is on this host if a connection to it has the same address at both ends. Who listens at its port is found as ss(8) does:
 * /proc/net/tcp names the socket, and the descriptors of all processes tell who has it.
 */
#include "server.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static bool same_address(const struct sockaddr_storage *one, const struct sockaddr_storage *two) {
    const struct sockaddr_in *one4 = (const void *)one, *two4 = (const void *)two;
    const struct sockaddr_in6 *one6 = (const void *)one, *two6 = (const void *)two;

    if (one->ss_family != two->ss_family)
        return false;
    if (one->ss_family == AF_INET)
        return one4->sin_addr.s_addr == two4->sin_addr.s_addr;
    return one->ss_family == AF_INET6 && memcmp(&one6->sin6_addr, &two6->sin6_addr, sizeof one6->sin6_addr) == 0;
}

/* The port of a server on this host that `fd` is connected to; 0: it is elsewhere. */
static unsigned port_here(int fd) {
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_size = sizeof own, other_size = sizeof other;

    if (getsockname(fd, (struct sockaddr *)&own, &own_size) < 0 || getpeername(fd, (struct sockaddr *)&other, &other_size) < 0)
        return 0;
    if (!same_address(&own, &other))
        return 0;
    /* At the same offset for both families. */
    return ntohs(((struct sockaddr_in *)&other)->sin_port);
}

/* The inode of the socket that listens at this port; 0: none. */
static unsigned long listener_of(const char *table, unsigned port) {
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");

    while (file != NULL && inode == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned found_port, state;
        unsigned long found_inode;

        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu", &found_port, &state,
                   &found_inode) == 3 &&
            found_port == port && state == 10)
            inode = found_inode;
    }
    if (file != NULL)
        fclose(file);
    return inode;
}

static bool has_socket(const char *pid, const char *wanted) {
    char path[512], link[64];
    bool found = false;
    struct dirent *entry;

    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *directory = opendir(path);
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);

        found = length > 0 && (size_t)length == strlen(wanted) && memcmp(link, wanted, (size_t)length) == 0;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Our own children may have inherited nothing of it: the first that has the socket is the server. */
static pid_t owner_of_socket(unsigned long inode) {
    char wanted[64];
    struct dirent *entry;
    pid_t pid = 0;
    DIR *directory = opendir("/proc");

    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    while (directory != NULL && pid == 0 && (entry = readdir(directory)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]) && has_socket(entry->d_name, wanted))
            pid = (pid_t)atoi(entry->d_name);
    if (directory != NULL)
        closedir(directory);
    return pid;
}

static pid_t owner_of_port(unsigned port) {
    unsigned long inode = listener_of("/proc/net/tcp", port);

    if (inode == 0)
        inode = listener_of("/proc/net/tcp6", port);
    return inode != 0 ? owner_of_socket(inode) : 0;
}

static pid_t owner_of_path(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred server = {0};
    socklen_t size = sizeof server;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof address.sun_path)
        return 0;
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size);
    close(fd);
    return server.pid;
}

static void note_server(struct target *target, pid_t pid) {
    if (pid > 0)
        target->servers[target->server_count++] = pid;
}

void servers_find(struct target *target) {
    const struct address *address = &target->address;

    target->server_count = 0;
    if (strcmp(target->engine, "local") == 0)
        return;
    if (address->host_count == 0 || address->hosts[0].name[0] == '\0')
        note_server(target, owner_of_path(address->path));
    for (size_t i = 0; i < address->host_count && address->hosts[i].name[0] != '\0'; i++) {
        int fd = address_connect(address, i, strcmp(target->engine, "zk") == 0 ? "2181" : "6379");
        unsigned port = fd >= 0 ? port_here(fd) : 0;

        if (fd >= 0)
            close(fd);
        if (port != 0)
            note_server(target, owner_of_port(port));
    }
}

double process_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0;
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

double process_memory(pid_t pid) {
    char path[64], line[256];
    double kb = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && kb == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            kb = strtod(line + 8, NULL);
    if (file != NULL)
        fclose(file);
    return kb * 1024;
}
