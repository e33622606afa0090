/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_network.c - see zookeeper_network.h.
 *
 *        this network namespace                                the follower's
 *      servers 2 and 3, clients on lo                          server 1
 *      198.18.0.1 on lo  ------- to-peers  198.18.1.1 --X-- 198.18.1.2
 *      clients           ------- to-client 198.18.2.1 ----- 198.18.2.2
 *
 * The program makes both namespaces for itself, as root or in a user namespace: nothing of it is seen outside, or left.
 */
#include "zookeeper_network.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "test.h"

enum { PATIENCE_MS = 60000 };

static int to_child[2], to_parent[2];

static bool run(const char *format, ...) {
    char command[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

static void signal_other(int fd) {
    assert_int_equal(write(fd, "", 1), 1);
}

static void await_other(int fd) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
}

/* In the child that becomes a server: the follower has a network of its own. */
static void enter_namespace(int index) {
    if (index != FOLLOWER)
        return;
    if (unshare(CLONE_NEWNET) < 0)
        _exit(126);
    signal_other(to_parent[1]);
    await_other(to_child[0]);
    if (!run("ip link set lo up && ip addr add 198.18.1.2/30 dev peers && ip link set peers up && "
             "ip addr add 198.18.2.2/30 dev client && ip link set client up && ip route add 198.18.0.1 via 198.18.1.1"))
        _exit(126);
}

static void connect_namespace(int index, pid_t pid) {
    if (index != FOLLOWER)
        return;
    await_other(to_parent[0]);
    assert_true(run(
        "ip link add to-peers type veth peer name peers netns %d && ip link add to-client type veth peer name client netns %d &&"
        "ip addr add 198.18.1.1/30 dev to-peers && ip link set to-peers up && "
        "ip addr add 198.18.2.1/30 dev to-client && ip link set to-client up",
        (int)pid, (int)pid));
    signal_other(to_child[1]);
}

static bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* A network namespace of our own. NULL: we have one; else why not. */
static const char *leave_the_network(void) {
    char map[64];

    snprintf(map, sizeof map, "0 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWNET) < 0 && (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 || !write_file("/proc/self/uid_map", map)))
        return "network namespaces can't be made here";
    if (!run("command -v ip >/dev/null"))
        return "there is no ip (Debian: iproute2)";
    if (!run("ip link set lo up && ip addr add 198.18.0.1/32 dev lo && ip link add probe type veth && ip link del probe"))
        return "network namespaces have no veth here";
    return pipe(to_child) < 0 || pipe(to_parent) < 0 ? strerror(errno) : NULL;
}

const char *zookeeper_network_prepare(struct zookeeper_how *how) {
    static const char *const addresses[][2] = {{"198.18.2.2", "198.18.1.2"}, {NULL, "198.18.0.1"}, {NULL, "198.18.0.1"}};

    memcpy(how->addresses, addresses, sizeof addresses);
    how->inside = enter_namespace;
    how->outside = connect_namespace;
    return leave_the_network();
}

void zookeeper_network_cut(struct zookeeper_server *server) {
    (void)server;
    assert_true(run("ip link set to-peers down"));
}

void zookeeper_network_mend(struct zookeeper_server *server) {
    (void)server;
    assert_true(run("ip link set to-peers up"));
}
