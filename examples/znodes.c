/* SPDX-License-Identifier: Apache-2.0
 *
 * znodes.c - what ZooKeeper's locks are made of, without pawl: the four types of nodes and which of them outlive their session; the four
 * watch events, each of which comes once; and the simplest lock, one node that only one client can create.
 *
 *     znodes 127.0.0.1:2181
 *
 * The library's single-threaded variant does nothing by itself: await() is its loop. Every call here is asynchronous; its answer is
 * waited for before the next, which a real program would not do.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

static struct {
    int done, rc;
    char path[256];
} answer;

static struct { int count, type; } event;

static void fail(const char *what, int rc) {
    fprintf(stderr, "znodes: %s: %s\n", what, zerror(rc));
    exit(1);
}

static void expect(int condition, const char *what) {
    if (!condition)
        fail(what, ZSYSTEMERROR);
    printf("    %s\n", what);
}

/* ---- The loop ------------------------------------------------------------------------------------------------------------- */

static void turn(zhandle_t *handle) {
    struct timeval span;
    int fd = -1, interest = 0;
    struct pollfd wait;

    if (zookeeper_interest(handle, &fd, &interest, &span) != ZOK)
        fail("the connection", ZCONNECTIONLOSS);
    wait = (struct pollfd){
        .fd = fd, .events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0))};
    poll(&wait, 1, 100);
    interest = (wait.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (wait.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    if (interest)
        zookeeper_process(handle, interest);
}

static int await(zhandle_t *handle) {
    for (int i = 0; i < 300 && !answer.done; i++)
        turn(handle);
    if (!answer.done)
        fail("no answer", ZOPERATIONTIMEOUT);
    answer.done = 0;
    return answer.rc;
}

static void on_text(int rc, const char *text, const void *data) {
    (void)data;
    answer.done = 1;
    answer.rc = rc;
    snprintf(answer.path, sizeof answer.path, "%s", text ? text : "");
}

static void on_void(int rc, const void *data) {
    on_text(rc, NULL, data);
}

static void on_stat(int rc, const struct Stat *stat, const void *data) {
    (void)stat;
    on_text(rc, NULL, data);
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    (void)value;
    (void)length;
    on_stat(rc, stat, data);
}

static void on_strings(int rc, const struct String_vector *strings, const void *data) {
    (void)strings;
    on_text(rc, NULL, data);
}

/* Session events reach every watcher; they are not what it waits for. */
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *data) {
    (void)handle;
    (void)state;
    (void)path;
    (void)data;
    if (type == ZOO_SESSION_EVENT)
        return;
    event.count++;
    event.type = type;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *data) {
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)data;
}

static zhandle_t *connect_to(const char *host) {
    zhandle_t *handle = zookeeper_init(host, on_session, 10000, NULL, NULL, 0);

    if (!handle)
        fail(host, ZSYSTEMERROR);
    for (int i = 0; i < 300 && zoo_state(handle) != ZOO_CONNECTED_STATE; i++)
        turn(handle);
    if (zoo_state(handle) != ZOO_CONNECTED_STATE)
        fail(host, ZCONNECTIONLOSS);
    return handle;
}

/* ---- Requests ------------------------------------------------------------------------------------------------------------- */

static char base[64];

static int create(zhandle_t *handle, const char *name, int type) {
    char path[128];

    snprintf(path, sizeof path, "%s%s", base, name);
    zoo_acreate(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, type, on_text, NULL);
    return await(handle);
}

static int remove_node(zhandle_t *handle, const char *path) {
    zoo_adelete(handle, path, -1, on_void, NULL);
    return await(handle);
}

static int exists(zhandle_t *handle, const char *path) {
    zoo_aexists(handle, path, 0, on_stat, NULL);
    return await(handle) == ZOK;
}

/* ---- The four types ------------------------------------------------------------------------------------------------------- */

static void show_types(const char *host, zhandle_t *checker) {
    static const struct {
        const char *name;
        int type, survives;
    } kinds[] = {
        {"/persistent", 0, 1},
        {"/persistent-sequential-", 2, 1},
        {"/ephemeral", 1, 0},
        {"/ephemeral-sequential-", 3, 0},
    };
    zhandle_t *session = connect_to(host);
    char paths[4][256];

    printf("the four types of nodes, made by a session that then ends:\n");
    for (int i = 0; i < 4; i++) {
        if (create(session, kinds[i].name, kinds[i].type) != ZOK)
            fail(kinds[i].name, answer.rc);
        strcpy(paths[i], answer.path);
    }
    zookeeper_close(session);
    for (int i = 0; i < 4; i++) {
        printf("    %-32s %s\n", paths[i] + strlen(base), exists(checker, paths[i]) ? "is still there" : "is gone");
        if (exists(checker, paths[i]) != kinds[i].survives)
            fail(paths[i], ZSYSTEMERROR);
        if (kinds[i].survives)
            remove_node(checker, paths[i]);
    }
}

/* ---- The four events ------------------------------------------------------------------------------------------------------ */

static void await_event(zhandle_t *handle, int type, const char *what) {
    for (int i = 0; i < 300 && !event.count; i++)
        turn(handle);
    expect(event.count == 1 && event.type == type, what);
    event.count = 0;
}

static void show_events(zhandle_t *watcher, zhandle_t *other) {
    char path[128];

    snprintf(path, sizeof path, "%s/watched", base);
    printf("the four events, each of them once:\n");
    zoo_awexists(watcher, path, on_event, NULL, on_stat, NULL);
    await(watcher);
    create(other, "/watched", 0);
    await_event(watcher, ZOO_CREATED_EVENT, "created");

    zoo_awget(watcher, path, on_event, NULL, on_data, NULL);
    await(watcher);
    zoo_aset(other, path, "1", 1, -1, on_stat, NULL);
    await(other);
    await_event(watcher, ZOO_CHANGED_EVENT, "data changed");
    zoo_aset(other, path, "2", 1, -1, on_stat, NULL);
    await(other);
    exists(watcher, path); /* an event would have come before this answer */
    expect(event.count == 0, "changed again: no event, the watch was used up");

    zoo_awget_children(watcher, path, on_event, NULL, on_strings, NULL);
    await(watcher);
    create(other, "/watched/child", ZOO_EPHEMERAL);
    await_event(watcher, ZOO_CHILD_EVENT, "children changed");
    remove_node(other, answer.path);

    zoo_awget(watcher, path, on_event, NULL, on_data, NULL);
    await(watcher);
    remove_node(other, path);
    await_event(watcher, ZOO_DELETED_EVENT, "deleted");
}

/* ---- The one-node lock ---------------------------------------------------------------------------------------------------- */

static void show_lock(zhandle_t *one, zhandle_t *two) {
    char path[128];

    snprintf(path, sizeof path, "%s/lock", base);
    printf("the one-node lock: who creates it, holds it\n");
    expect(create(one, "/lock", ZOO_EPHEMERAL) == ZOK, "the first create works");
    expect(create(two, "/lock", ZOO_EPHEMERAL) == ZNODEEXISTS, "the second fails: node exists");
    remove_node(one, path);
    expect(create(two, "/lock", ZOO_EPHEMERAL) == ZOK, "after the delete it works");
    remove_node(two, path);
}

int main(int argc, char **argv) {
    zhandle_t *one, *two;

    if (argc != 2) {
        fprintf(stderr, "usage: znodes HOST:PORT\n");
        return 64;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    one = connect_to(argv[1]);
    two = connect_to(argv[1]);
    snprintf(base, sizeof base, "/znodes-%d", (int)getpid());
    if (create(one, "", 0) != ZOK)
        fail(base, answer.rc);
    show_types(argv[1], one);
    show_events(one, two);
    show_lock(one, two);
    remove_node(one, base);
    zookeeper_close(one);
    zookeeper_close(two);
    return 0;
}
