/* SPDX-License-Identifier: Apache-2.0
 *
 * raw_zookeeper.c - bare operations on ZooKeeper, by Apache's C client in one thread: exists, create and delete of an ephemeral node,
 * getData. `srvr`, a word that every server answers, tells how many packets each has had.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "raw.h"

enum { PATIENCE_NS = 1000000000, PATIENCE = 20 };

struct zookeeper {
    zhandle_t *handle;
    const struct address *address;
    char id[32];
    char base[ADDRESS_SIZE]; /* "" for the root */
    size_t kept;             /* bytes of `base` that were there before us */
    bool done;               /* the one request that is under way has its answer ... */
    int result;              /* ... this one */
    struct String_vector children;
};

static void ignore_watch(zhandle_t *handle, int type, int state, const char *path, void *data) {
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)data;
}

static bool step(zhandle_t *handle) {
    struct timeval patience = {0};
    struct pollfd source = {.fd = -1};
    int interest = 0;

    if (zookeeper_interest(handle, &source.fd, &interest, &patience) != ZOK && is_unrecoverable(handle) != ZOK)
        return false;
    source.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    int64_t ms = (int64_t)patience.tv_sec * 1000 + patience.tv_usec / 1000;
    poll(&source, source.fd >= 0, (int)(ms < 1000 ? ms : 1000));
    int events = (source.revents & POLLOUT ? ZOOKEEPER_WRITE : 0) | (source.revents & ~POLLOUT ? ZOOKEEPER_READ : 0);
    zookeeper_process(handle, events);
    return is_unrecoverable(handle) == ZOK;
}

/* Run the client until the answer is there. Returns its code. */
static int complete(struct zookeeper *zk, int asked) {
    int64_t end = bench_now_ns() + (int64_t)PATIENCE * PATIENCE_NS;

    if (asked != ZOK)
        return asked;
    while (!zk->done)
        if (!step(zk->handle) || bench_now_ns() > end)
            return ZOPERATIONTIMEOUT;
    return zk->result;
}

static void finished(int result, const void *data) {
    struct zookeeper *zk = (struct zookeeper *)data;

    zk->done = true;
    zk->result = result;
}

static void finished_string(int result, const char *value, const void *data) {
    (void)value;
    finished(result, data);
}

static void finished_stat(int result, const struct Stat *stat, const void *data) {
    (void)stat;
    finished(result, data);
}

static void finished_data(int result, const char *value, int length, const struct Stat *stat, const void *data) {
    (void)value;
    (void)length;
    (void)stat;
    finished(result, data);
}

static void finished_children(int result, const struct String_vector *strings, const void *data) {
    struct zookeeper *zk = (struct zookeeper *)data;

    if (result == ZOK && strings != NULL) {
        zk->children = (struct String_vector){0};
        allocate_String_vector(&zk->children, strings->count);
        for (int i = 0; i < strings->count; i++)
            zk->children.data[i] = strdup(strings->data[i]);
    }
    finished(result, data);
}

static int exists(struct zookeeper *zk, const char *path) {
    zk->done = false;
    return complete(zk, zoo_aexists(zk->handle, path, 0, finished_stat, zk));
}

static int read_node(struct zookeeper *zk, const char *path) {
    zk->done = false;
    return complete(zk, zoo_aget(zk->handle, path, 0, finished_data, zk));
}

static int create(struct zookeeper *zk, const char *path, int flags) {
    zk->done = false;
    return complete(zk, zoo_acreate(zk->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, finished_string, zk));
}

static int set_node(struct zookeeper *zk, const char *path) {
    zk->done = false;
    return complete(zk, zoo_aset(zk->handle, path, BENCH_VALUE, sizeof BENCH_VALUE - 1, -1, finished_stat, zk));
}

static int delete_node(struct zookeeper *zk, const char *path) {
    zk->done = false;
    return complete(zk, zoo_adelete(zk->handle, path, -1, finished, zk));
}

static int list(struct zookeeper *zk, const char *path) {
    zk->done = false;
    return complete(zk, zoo_aget_children(zk->handle, path, 0, finished_children, zk));
}

/* Every directory of the base, from the top: `visit` sees each as a path of its own. */
static size_t next_directory(const char *base, size_t at) {
    return at + 1 + strcspn(base + at + 1, "/");
}

static size_t count_existing(struct zookeeper *zk) {
    char path[ADDRESS_SIZE];
    size_t kept = 0;

    for (size_t at = 0; zk->base[at] != '\0';) {
        at = next_directory(zk->base, at);
        snprintf(path, sizeof path, "%.*s", (int)at, zk->base);
        if (exists(zk, path) != ZOK)
            break;
        kept = at;
    }
    return kept;
}

static bool join_hosts(const struct address *address, char *out, size_t size) {
    size_t length = 0;

    for (size_t i = 0; i < address->host_count && length < size; i++) {
        const char *port = address->hosts[i].port[0] != '\0' ? address->hosts[i].port : "2181";

        length += (size_t)snprintf(out + length, size - length, "%s%s:%s", i > 0 ? "," : "", address->hosts[i].name, port);
    }
    return length < size;
}

static bool log_in(struct zookeeper *zk) {
    char secret[520];

    if (zk->address->user[0] == '\0')
        return true;
    snprintf(secret, sizeof secret, "%s:%s", zk->address->user, zk->address->secret);
    zk->done = false;
    return complete(zk, zoo_add_auth(zk->handle, "digest", secret, (int)strlen(secret), finished, zk)) == ZOK;
}

static bool connect_to(struct zookeeper *zk) {
    char hosts[ADDRESS_HOSTS * 272];

    if (!join_hosts(zk->address, hosts, sizeof hosts))
        return false;
    zk->handle = zookeeper_init(hosts, ignore_watch, 15000, NULL, NULL, 0);
    return zk->handle != NULL && log_in(zk) && exists(zk, "/") == ZOK;
}

static void *zookeeper_open(const struct address *address, const char *id, char *why, size_t size) {
    struct zookeeper *zk = calloc(1, sizeof *zk);
    size_t length = strlen(address->path);

    if (zk == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    zk->address = address;
    snprintf(zk->id, sizeof zk->id, "%s", id);
    while (length > 0 && address->path[length - 1] == '/')
        length--;
    snprintf(zk->base, sizeof zk->base, "%.*s", (int)length, address->path);
    zoo_set_debug_level(0);
    if (!connect_to(zk)) {
        snprintf(why, size, "a plain client of ZooKeeper gets no answer");
        if (zk->handle != NULL)
            zookeeper_close(zk->handle);
        free(zk);
        return NULL;
    }
    zk->kept = count_existing(zk);
    return zk;
}

static void zookeeper_leave(void *connection) {
    struct zookeeper *zk = connection;

    if (zk->handle != NULL)
        zookeeper_close(zk->handle);
    free(zk);
}

static bool create_and_delete(struct zookeeper *zk) {
    char path[ADDRESS_SIZE + 64];

    snprintf(path, sizeof path, "/%s-raw-%d", zk->id, (int)getpid());
    return create(zk, path, ZOO_EPHEMERAL) == ZOK && delete_node(zk, path) == ZOK;
}

/* The node goes with the session. */
static bool set_bytes(struct zookeeper *zk) {
    char path[ADDRESS_SIZE + 64];

    snprintf(path, sizeof path, "/%s-set-%d", zk->id, (int)getpid());
    return set_node(zk, path) == ZOK || (create(zk, path, ZOO_EPHEMERAL) == ZOK && set_node(zk, path) == ZOK);
}

static int64_t zookeeper_act(void *connection, enum raw_act act) {
    struct zookeeper *zk = connection;
    int64_t begin = bench_now_ns();
    bool good = act == RAW_TRIP    ? exists(zk, "/") == ZOK
                : act == RAW_WRITE ? create_and_delete(zk)
                : act == RAW_SET   ? set_bytes(zk)
                                   : read_node(zk, "/zookeeper") == ZOK;

    return good ? bench_now_ns() - begin : -1;
}

/* Ask one server for its figures; it closes when it has said all. */
static bool ask_server(const struct address *address, size_t host, char *out, size_t size) {
    int fd = address_connect(address, host, "2181");
    size_t length = 0;
    ssize_t got;

    if (fd < 0)
        return false;
    if (send(fd, "srvr", 4, MSG_NOSIGNAL) == 4)
        while (length < size - 1 && (got = read(fd, out + length, size - 1 - length)) > 0)
            length += (size_t)got;
    out[length] = '\0';
    close(fd);
    return length > 0;
}

static double zookeeper_requests(void *connection) {
    struct zookeeper *zk = connection;
    double total = 0;
    char text[2048];

    for (size_t i = 0; i < zk->address->host_count; i++) {
        const char *received = ask_server(zk->address, i, text, sizeof text) ? strstr(text, "Received: ") : NULL;

        if (received == NULL)
            return -1;
        total += strtod(received + strlen("Received: "), NULL);
    }
    return total;
}

static void zookeeper_describe(void *connection, char *out, size_t size) {
    struct zookeeper *zk = connection;
    char text[2048];
    const char *version = ask_server(zk->address, 0, text, sizeof text) ? strstr(text, "version: ") : NULL;
    size_t count = zk->address->host_count;

    snprintf(out, size, "ZooKeeper");
    if (version != NULL) {
        version += strlen("version: ");
        snprintf(out, size, "ZooKeeper %.*s, %zu node%s", (int)strcspn(version, "-,\n"), version, count, count > 1 ? "s" : "");
    }
}

/* Remove what is below, and the node itself: sessions of processes that were killed may not have ended yet. */
static bool remove_tree(struct zookeeper *zk, const char *path, int depth) {
    if (depth > 0 && list(zk, path) == ZOK) {
        struct String_vector children = zk->children;

        for (int i = 0; i < children.count; i++) {
            char child[3 * ADDRESS_SIZE];

            snprintf(child, sizeof child, "%.2000s/%s", path, children.data[i]);
            remove_tree(zk, child, depth - 1);
        }
        deallocate_String_vector(&children);
    }
    int result = delete_node(zk, path);
    return result == ZOK || result == ZNONODE;
}

static bool clean_children(struct zookeeper *zk) {
    bool clean = true;

    if (list(zk, zk->base[0] != '\0' ? zk->base : "/") != ZOK)
        return true;
    struct String_vector children = zk->children;
    for (int i = 0; i < children.count; i++) {
        char path[2 * ADDRESS_SIZE];

        if (strncmp(children.data[i], zk->id, strlen(zk->id)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", zk->base, children.data[i]);
        clean = remove_tree(zk, path, 2) && clean;
    }
    deallocate_String_vector(&children);
    return clean;
}

static bool zookeeper_clean(void *connection) {
    struct zookeeper *zk = connection;
    char path[2 * ADDRESS_SIZE];

    /* Nobody has spoken for this session while others were measured: it may long have expired. */
    zookeeper_close(zk->handle);
    if (!connect_to(zk))
        return false;
    bool clean = clean_children(zk);

    snprintf(path, sizeof path, "%s/pawl.values", zk->base);
    delete_node(zk, path); /* unless somebody else has values there */
    /* The directories above that were not there before, from the bottom; unless somebody else uses them by now. */
    snprintf(path, sizeof path, "%s", zk->base);
    while (strlen(path) > zk->kept) {
        if (delete_node(zk, path) == ZNOTEMPTY)
            break;
        *strrchr(path, '/') = '\0';
    }
    return clean;
}

const struct raw_impl raw_zookeeper = {
    .schemes = {"zk", "zookeeper"},
    .names = {"exists", "create + delete", "getData"},
    .set = "setData of the same bytes",
    .open = zookeeper_open,
    .close = zookeeper_leave,
    .act = zookeeper_act,
    .requests = zookeeper_requests,
    .describe = zookeeper_describe,
    .clean = zookeeper_clean,
};
