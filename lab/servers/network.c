/* SPDX-License-Identifier: Apache-2.0
 *
 * network.c - see network.h. A namespace lives as long as a descriptor of it; links are made and cut by ip(8).
 *
 * The rig's end of a link is what goes down: at the client's end the route stays and packets get lost on the way, as they would in a
 * network. Were it the client's own end, its system would tell it at once.
 */
#include "network.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 64 << 8, STRIDE = 4 };
static const uint32_t range = UINT32_C(198) << 24 | 18 << 16;

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *format, ...) {
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command) == 0;
}

static bool put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return done;
}

/* As root, or as root of a user namespace of our own. */
static bool leave(void) {
    char map[64];

    snprintf(map, sizeof map, "0 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWNET) < 0 && (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 || !put("/proc/self/uid_map", map)))
        return false;
    return run("ip link set lo up && ip addr add " NETWORK_HOST "/32 dev lo");
}

/* It must be tried, by somebody who is not missed: it may be forbidden in more ways than can be asked for. */
const char *network_hindrance(void) {
    static int known = -1;
    int status = 1;

    if (known < 0) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(leave() && run("ip link add probe type veth && ip link del probe") ? 0 : 1);
        known = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    }
    return known ? NULL : "network namespaces can't be made here (they take root, or user namespaces; and iproute2)";
}

static int here(void) {
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

bool network_leave(struct network *network) {
    if (!leave())
        return false;
    network->home = here();
    return network->home > 0;
}

uint32_t network_address(int client) {
    return range + FIRST + (uint32_t)(client * STRIDE) + 2;
}

static void print_address(uint32_t address, char ret[16]) {
    snprintf(ret, 16, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

/* This thread moves into a new namespace, is connected with the rig's, and comes back. */
static bool make_room(struct network *network, int client) {
    char near[16], far[16];
    bool made;

    print_address(network_address(client) - 1, near);
    print_address(network_address(client), far);
    if (unshare(CLONE_NEWNET) < 0)
        return false;
    network->rooms[client] = here();
    made = network->rooms[client] > 0 && setns(network->home, CLONE_NEWNET) == 0 &&
           run("ip link add c%d type veth peer name uplink netns /proc/%d/fd/%d && ip addr add %s/30 dev c%d && ip link set c%d up",
               client, (int)getpid(), network->rooms[client], near, client, client) &&
           setns(network->rooms[client], CLONE_NEWNET) == 0 &&
           run("ip link set lo up && ip addr add %s/30 dev uplink && ip link set uplink up && ip route add default via %s", far,
               near);
    return setns(network->home, CLONE_NEWNET) == 0 && made;
}

bool network_open(struct network *network, int clients) {
    network->rooms = calloc((size_t)clients, sizeof *network->rooms);
    if (network->rooms == NULL)
        return false;
    for (; network->count < clients; network->count++)
        if (!make_room(network, network->count))
            return false;
    return true;
}

void network_close(struct network *network) {
    for (int i = 0; i < network->count; i++)
        close(network->rooms[i]);
    if (network->home > 0)
        close(network->home);
    free(network->rooms);
    *network = (struct network){0};
}

bool network_enter(const struct network *network, int client) {
    return client >= network->count || setns(network->rooms[client], CLONE_NEWNET) == 0;
}

bool network_cut(const struct network *network, int client) {
    return client < network->count && run("ip link set c%d down", client);
}

bool network_mend(const struct network *network, int client) {
    return client < network->count && run("ip link set c%d up", client);
}
