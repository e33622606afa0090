/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_partition.c - a follower that is cut off from its leader, by the network, while its clients still reach it. The
 * leader lets their sessions expire and others hold their locks, and the follower goes on answering pings: clients must know before
 * that.
 *
 *        this network namespace                                the follower's
 *      servers 2 and 3, clients on lo                          server 1
 *      198.18.0.1 on lo  ------- to-peers  198.18.1.1 --X-- 198.18.1.2
 *      clients           ------- to-client 198.18.2.1 ----- 198.18.2.2
 *
 * The program makes both namespaces for itself, as root or in a user namespace: nothing of it is seen outside, or left.
 */
#include "findings.h"
#include "zookeeper_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

enum { FOLLOWER = 0 }; /* whoever has the lowest number never leads, as long as all have the same data */

static int to_child[2], to_parent[2];

/* ---- The network ---------------------------------------------------------------------------------------------------------- */

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

static const struct zookeeper_how how = {
    .read_only = true,
    .addresses = {{"198.18.2.2", "198.18.1.2"}, {NULL, "198.18.0.1"}, {NULL, "198.18.0.1"}},
    .inside = enter_namespace,
    .outside = connect_namespace,
};

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

static void cut(void) {
    assert_true(run("ip link set to-peers down"));
}

static void mend(void) {
    assert_true(run("ip link set to-peers up"));
}

/* ---- The tests ------------------------------------------------------------------------------------------------------------ */

static struct pawl *open_at(const char *hosts, const char *options) {
    struct pawl *client;
    char url[256];

    snprintf(url, sizeof url, "zk://%s/test%s", hosts, options);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

static char majority[64], minority[64];

static void expect_leader(void) {
    await(zookeeper_server_leader(&server) >= 0, "nobody leads");
    assert_true(zookeeper_server_leader(&server) > FOLLOWER);
}

/* The one that the leader lets in next holds only when the one at the follower has heard that it lost. */
static void test_follower_cut_off_by_the_network(void **state) {
    struct pawl *one, *two;
    struct pawl_lock *held, *lock;
    struct acquire waiter;
    uint64_t token;

    (void)state;
    expect_leader();
    one = open_at(minority, "?session=4000");
    two = open_at(majority, "?session=20000");
    held = new_mutex(one, 0);
    lock = new_mutex(two, 0);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    token = pawl_token(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    cut();
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(pawl_state(held), PAWL_LOST);
    assert_true(pawl_token(lock) > token);
    mend();
    assert_fails(PAWL_ELOST, pawl_release(held, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    await_link(one, true);
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error); /* and all is well again */
    assert_true(pawl_token(held) > token);
    assert_works(pawl_release(held, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* A server that is cut off for so long that it turns read-only: nobody locks there, and the doctor tells. */
static void test_read_only_while_the_others_serve(void **state) {
    struct findings findings = {0};
    struct pawl *client;
    char url[256];

    (void)state;
    expect_leader();
    cut();
    assert_true(zookeeper_server_await_mode(&server, FOLLOWER, "read-only"));
    snprintf(url, sizeof url, "zk://%s/test?connect=1500", minority);
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "198.18.2.2");
    assert_contains(error.text, "is read-only");
    snprintf(url, sizeof url, "%s,%s", minority, majority);
    client = open_at(url, ""); /* goes on to the other one */
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    assert_contains(findings.text, "is cut off from its ensemble, and only read from");
    assert_contains(findings.text, "good: the ensemble has 3 servers, and bears the loss of 1");
    pawl_close(client);
    mend();
    assert_true(zookeeper_server_await_mode(&server, FOLLOWER, "follower"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follower_cut_off_by_the_network),
        cmocka_unit_test(test_read_only_while_the_others_serve),
    };
    const char *why = leave_the_network();
    int failed;

    if (why) {
        printf("1..1\nok 1 - test_zookeeper_partition # SKIP %s\n", why);
        return 0;
    }
    if (!harness_begin("test_zookeeper_partition", 3, &how))
        return 0;
    snprintf(minority, sizeof minority, "198.18.2.2:%u", server.ports[FOLLOWER]);
    snprintf(majority, sizeof majority, "127.0.0.1:%u,127.0.0.1:%u", server.ports[1], server.ports[2]);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    harness_end();
    return failed ? 1 : 0;
}
