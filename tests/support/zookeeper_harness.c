/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_harness.c - see zookeeper_harness.h.
 */
#include "zookeeper_harness.h"

#include <arpa/inet.h>
#include <poll.h>
#include <time.h>

struct zookeeper_server server;
struct proxy *proxy;
struct strike strike = {.mutex = PTHREAD_MUTEX_INITIALIZER};
struct pawl_error error;

static char path[64];
static zhandle_t *raw;

static void nap(void) {
    const struct timespec moment = {.tv_nsec = 2000000};

    nanosleep(&moment, NULL);
}

/* ---- The proxy's eye for ZooKeeper ---------------------------------------------------------------------------------------- */

static int32_t number_at(const unsigned char *bytes) {
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return (int32_t)ntohl(number);
}

static size_t frame(enum proxy_side from, const unsigned char *bytes, size_t length) {
    (void)from;
    return length < 4 ? 0 : (size_t)number_at(bytes) + 4;
}

static enum proxy_verdict hit(void) {
    void (*hook)(void *) = strike.hook;
    void *data = strike.hook_data;

    strike.op = 0;
    pthread_mutex_unlock(&strike.mutex);
    if (hook)
        hook(data);
    pthread_mutex_lock(&strike.mutex);
    atomic_fetch_add(&strike.hits, 1);
    return hook ? PROXY_PASS : strike.verdict;
}

static enum proxy_verdict judge(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                size_t length) {
    enum proxy_verdict verdict = PROXY_PASS;
    int32_t xid;

    (void)data;
    if (length < 12)
        return PROXY_PASS;
    xid = number_at(message + 4);
    pthread_mutex_lock(&strike.mutex);
    if (strike.op && from == PROXY_CLIENT && xid > 0 && number_at(message + 8) == strike.op && strike.skip-- == 0) {
        strike.xid = xid;
        strike.connection = connection;
        if (!strike.reply)
            verdict = hit();
    } else if (strike.op && from == PROXY_SERVER && strike.reply && strike.connection == connection && xid == strike.xid) {
        if (strike.change) /* the proxy passes on what lies there */
            strike.change((unsigned char *)(uintptr_t)message, length);
        verdict = hit();
    } else if (strike.op == OP_EVENT && from == PROXY_SERVER && xid == -1) {
        verdict = hit();
    }
    pthread_mutex_unlock(&strike.mutex);
    return verdict;
}

static void arm(int op, bool reply, enum proxy_verdict verdict, void (*hook)(void *), void *data,
                void (*change)(unsigned char *, size_t)) {
    pthread_mutex_lock(&strike.mutex);
    strike.change = change;
    strike.reply = reply;
    strike.verdict = verdict;
    strike.hook = hook;
    strike.hook_data = data;
    strike.connection = 0;
    strike.skip = 0;
    strike.hits = 0;
    strike.op = op;
    pthread_mutex_unlock(&strike.mutex);
}

void strike_at(int op, bool reply, enum proxy_verdict verdict) {
    arm(op, reply, verdict, NULL, NULL, NULL);
}

void strike_hook(int op, void (*hook)(void *), void *data) {
    arm(op, false, PROXY_PASS, hook, data, NULL);
}

void strike_change(int op, void (*change)(unsigned char *message, size_t length)) {
    arm(op, true, PROXY_PASS, NULL, NULL, change);
}

void await_strike(void) {
    for (int i = 0; i < PATIENCE_MS / 2 && !atomic_load(&strike.hits); i++)
        nap();
    assert_int_equal(atomic_load(&strike.hits), 1);
}

/* ---- A plain client ------------------------------------------------------------------------------------------------------- */

struct answer {
    bool done;
    int rc;
    struct listing listing;
};

static void on_children(int rc, const struct String_vector *children, const void *data) {
    struct answer *answer = (struct answer *)(uintptr_t)data;

    answer->done = true;
    answer->rc = rc;
    for (int i = 0; rc == ZOK && i < children->count && i < 64; i++)
        snprintf(answer->listing.names[answer->listing.count++], 128, "%s", children->data[i]);
}

static void on_void(int rc, const void *data) {
    struct answer *answer = (struct answer *)(uintptr_t)data;

    answer->done = true;
    answer->rc = rc;
}

static void on_string(int rc, const char *value, const void *data) {
    (void)value;
    on_void(rc, data);
}

static void ignore_string(int rc, const char *value, const void *data) {
    (void)rc;
    (void)value;
    (void)data;
}

static void ignore_log(const char *message) {
    (void)message;
}

static void on_event(zhandle_t *handle, int type, int state, const char *node, void *data) {
    (void)handle;
    (void)type;
    (void)state;
    (void)node;
    (void)data;
}

static zhandle_t *raw_open(unsigned port, const clientid_t *session) {
    zhandle_t *handle;
    char hosts[32];

    snprintf(hosts, sizeof hosts, "127.0.0.1:%u", port);
    pthread_mutex_lock(&pawl__zk_mutex);
    handle = zookeeper_init2(hosts, on_event, 30000, session, NULL, 0, ignore_log);
    zoo_set_servers_resolution_delay(handle, -1);
    pthread_mutex_unlock(&pawl__zk_mutex);
    return handle;
}

/* One turn of the library's loop; it shares its static state with pawl's clients. */
static void raw_turn(zhandle_t *handle) {
    struct timeval span = {0, 0};
    int fd = -1, interest = 0;
    struct pollfd wait;

    pthread_mutex_lock(&pawl__zk_mutex);
    zookeeper_interest(handle, &fd, &interest, &span);
    pthread_mutex_unlock(&pawl__zk_mutex);
    wait = (struct pollfd){
        .fd = fd, .events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0))};
    poll(&wait, 1, 20);
    interest = (wait.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (wait.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    pthread_mutex_lock(&pawl__zk_mutex);
    if (interest)
        zookeeper_process(handle, interest);
    pthread_mutex_unlock(&pawl__zk_mutex);
}

static void raw_connect(zhandle_t *handle) {
    for (int i = 0; i < PATIENCE_MS / 20 && zoo_state(handle) != ZOO_CONNECTED_STATE; i++)
        raw_turn(handle);
    assert_int_equal(zoo_state(handle), ZOO_CONNECTED_STATE);
}

static void raw_wait(struct answer *answer) {
    for (int i = 0; i < PATIENCE_MS / 20 && !answer->done; i++)
        raw_turn(raw);
    assert_true(answer->done);
}

static void raw_close(zhandle_t *handle) {
    pthread_mutex_lock(&pawl__zk_mutex);
    zookeeper_close(handle);
    pthread_mutex_unlock(&pawl__zk_mutex);
}

static void raw_path(const char *below, const char *child, char buffer[256]) {
    snprintf(buffer, 256, "%s/lock%s%s%s", path, below, child ? "/" : "", child ? child : "");
}

struct listing raw_list(const char *below) {
    struct answer answer = {.done = false};
    char node[256];

    raw_path(below, NULL, node);
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_async(raw, node, ignore_string, NULL);
    zoo_aget_children(raw, node, 0, on_children, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    return answer.listing;
}

void raw_delete(const char *below, const char *child) {
    struct answer answer = {.done = false};
    char node[256];

    raw_path(below, child, node);
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_adelete(raw, node, -1, on_void, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_int_equal(answer.rc, ZOK);
}

struct data_answer {
    struct answer answer;
    char *data;
    size_t size;
    int version;
    int64_t czxid;
};

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    struct data_answer *answer = (struct data_answer *)(uintptr_t)data;

    on_void(rc, &answer->answer);
    if (rc != ZOK)
        return;
    assert_true((size_t)length < answer->size);
    memcpy(answer->data, value, (size_t)length);
    answer->data[length] = '\0';
    answer->version = stat->version;
    answer->czxid = stat->czxid;
}

static void on_stat(int rc, const struct Stat *stat, const void *data) {
    (void)stat;
    on_void(rc, data);
}

static void get_at(const char *node, struct data_answer *answer) {
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_async(raw, node, ignore_string, NULL);
    zoo_aget(raw, node, 0, on_data, answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer->answer);
}

int raw_get(const char *where, char *ret, size_t size) {
    struct data_answer answer = {.data = ret, .size = size};
    char node[256];

    snprintf(node, sizeof node, "%s/%s", path, where);
    get_at(node, &answer);
    return answer.answer.rc == ZOK ? answer.version : answer.answer.rc;
}

uint64_t raw_token(const char *below) {
    struct listing nodes = raw_list(below);
    char node[256], data[1024];
    struct data_answer answer = {.data = data, .size = sizeof data};

    assert_int_equal(nodes.count, 1);
    raw_path(below, nodes.names[0], node);
    get_at(node, &answer);
    assert_int_equal(answer.answer.rc, ZOK);
    return (uint64_t)answer.czxid << ZK_TOKEN_BITS;
}

void raw_set(const char *where, const char *data) {
    struct answer answer = {.done = false};
    char node[256];

    snprintf(node, sizeof node, "%s/%s", path, where);
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_aset(raw, node, data, (int)strlen(data), -1, on_stat, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_int_equal(answer.rc, ZOK);
}

void raw_remove(const char *where) {
    struct answer answer = {.done = false};
    char node[256];

    snprintf(node, sizeof node, "%s/%s", path, where);
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_adelete(raw, node, -1, on_void, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_int_equal(answer.rc, ZOK);
}

static void permit_at(const char *node, int permissions) {
    struct ACL everybody = {.perms = permissions, .id = ZOO_ANYONE_ID_UNSAFE};
    struct ACL_vector list = {.count = 1, .data = &everybody};
    struct answer answer = {.done = false};

    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_aset_acl(raw, node, -1, &list, on_void, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_int_equal(answer.rc, ZOK);
}

void raw_permit(int permissions) {
    char node[256];

    raw_path("", NULL, node);
    permit_at(node, permissions);
}

static void create_at(const char *node, const char *data) {
    struct answer answer = {.done = false};

    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_acreate(raw, node, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, on_string, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_true(answer.rc == ZOK || answer.rc == ZNODEEXISTS);
}

void raw_make(const char *node, int permissions) {
    create_at(node, "");
    raw_permit_at(node, permissions);
}

void raw_permit_at(const char *node, int permissions) {
    permit_at(node, permissions | ZOO_PERM_ADMIN);
}

void raw_limit(int nodes) {
    char node[256], limit[64];

    create_at("/zookeeper/quota/test", "");
    snprintf(node, sizeof node, "/zookeeper/quota%s", path);
    create_at(node, "");
    snprintf(node, sizeof node, "/zookeeper/quota%s/zookeeper_stats", path);
    create_at(node, "count=1,bytes=0");
    snprintf(node, sizeof node, "/zookeeper/quota%s/zookeeper_limits", path);
    snprintf(limit, sizeof limit, "count=-1,bytes=-1,byteHardLimit=-1,countHardLimit=%d", nodes);
    create_at(node, limit);
}

void raw_create(const char *below, const char *child, int flags) {
    struct answer answer = {.done = false};
    char node[256];

    raw_path(below, child, node);
    pthread_mutex_lock(&pawl__zk_mutex);
    zoo_acreate(raw, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, on_string, &answer);
    pthread_mutex_unlock(&pawl__zk_mutex);
    raw_wait(&answer);
    assert_int_equal(answer.rc, ZOK);
}

struct listing await_nodes(const char *below, int count) {
    struct listing listing = {.count = -1};

    for (int i = 0; i < PATIENCE_MS / 2; i++) {
        listing = raw_list(below);
        if (listing.count == count)
            return listing;
        nap();
    }
    fail_msg("%s/lock%s has %d children, never %d", path, below, listing.count, count);
    return listing;
}

void await_no_watches(void) {
    int watches = -1;

    for (int i = 0; i < PATIENCE_MS / 2 && watches; i++) {
        watches = zookeeper_server_watches(server.ports[0]);
        if (watches)
            nap();
    }
    assert_int_equal(watches, 0);
}

/* ---- Clients -------------------------------------------------------------------------------------------------------------- */

static struct pawl *open_at(unsigned port, const char *options, pawl_log_fn *log) {
    struct pawl_options how = {.size = sizeof how, .label = "test", .log = log};
    struct pawl *client;
    char url[256];

    snprintf(url, sizeof url, "zk://127.0.0.1:%u%s%s", port, path, options);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    return client;
}

struct pawl *open_direct(const char *options) {
    return open_at(server.ports[0], options, NULL);
}

struct pawl *open_proxied(const char *options) {
    return open_at(proxy_port(proxy), options, NULL);
}

struct pawl *open_logged(pawl_log_fn *log) {
    return open_at(proxy_port(proxy), "", log);
}

struct pawl_lock *new_mutex(struct pawl *client, unsigned flags) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK | flags, &lock, &error), &error);
    return lock;
}

struct pawl_lock *new_rwlock(struct pawl *client, unsigned flags) {
    struct pawl_lock *lock;

    assert_works(pawl_rwlock_new(client, "lock", PAWL_TASK | flags, &lock, &error), &error);
    return lock;
}

struct pawl_lock *new_semaphore(struct pawl *client, unsigned limit) {
    struct pawl_lock *lock;

    assert_works(pawl_semaphore_new(client, "lock", limit, PAWL_TASK, &lock, &error), &error);
    return lock;
}

static void *acquire_main(void *data) {
    struct acquire *acquire = data;

    acquire->result = acquire->shared ? pawl_acquire_shared(acquire->lock, acquire->timeout_ms, NULL)
                                      : pawl_acquire(acquire->lock, acquire->timeout_ms, NULL);
    atomic_store(&acquire->ended, true);
    return NULL;
}

void acquire_start(struct acquire *acquire, struct pawl_lock *lock, bool shared, int64_t timeout_ms) {
    acquire->lock = lock;
    acquire->shared = shared;
    acquire->timeout_ms = timeout_ms;
    atomic_store(&acquire->ended, false);
    assert_int_equal(pthread_create(&acquire->thread, NULL, acquire_main, acquire), 0);
}

int acquire_wait(struct acquire *acquire) {
    for (int i = 0; i < PATIENCE_MS / 2 && !atomic_load(&acquire->ended); i++)
        nap();
    if (!atomic_load(&acquire->ended))
        fail_msg("an acquire has not ended");
    pthread_join(acquire->thread, NULL);
    return acquire->result;
}

static struct zk_engine *engine_of(struct pawl *client) {
    return (struct zk_engine *)client->engine;
}

bool is_connected(struct pawl *client) {
    bool connected;

    pawl__zk_lock();
    connected = zk_is_connected(&engine_of(client)->session);
    pawl__zk_unlock(&engine_of(client)->session);
    return connected;
}

void await_link(struct pawl *client, bool connected) {
    for (int i = 0; i < PATIENCE_MS / 2 && is_connected(client) != connected; i++)
        nap();
    assert_int_equal(is_connected(client), connected);
}

void cut_and_reconnect(struct pawl *client) {
    unsigned before = proxy_connections(proxy);

    proxy_cut(proxy);
    for (int i = 0; i < PATIENCE_MS / 2 && proxy_connections(proxy) == before; i++)
        nap(); /* that it is without one may be too short to be seen */
    assert_true(proxy_connections(proxy) > before);
    await_link(client, true);
}

void await_watches(int count) {
    for (int i = 0; i < PATIENCE_MS / 2 && zookeeper_server_watches(server.ports[0]) < count; i++)
        nap();
    assert_true(zookeeper_server_watches(server.ports[0]) >= count);
}

void await_state(struct pawl_lock *lock, enum pawl_state state) {
    for (int i = 0; i < PATIENCE_MS / 2 && pawl_state(lock) != state; i++)
        nap();
    assert_int_equal(pawl_state(lock), state);
}

void expire(struct pawl *client) {
    clientid_t session;
    zhandle_t *twin;

    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(client, false);
    pthread_mutex_lock(&pawl__zk_mutex);
    session = *zoo_client_id(engine_of(client)->session.handle);
    pthread_mutex_unlock(&pawl__zk_mutex);
    twin = raw_open(server.ports[0], &session);
    raw_connect(twin);
    raw_close(twin);
    proxy_refuse(proxy, false);
}

/* ---- Around the tests ----------------------------------------------------------------------------------------------------- */

bool harness_begin(const char *program, int servers, const struct zookeeper_how *how) {
    const char *missing = zookeeper_server_missing();

    if (missing)
        printf("1..1\nok 1 - %s # SKIP %s\n", program, missing);
    else if (!zookeeper_server_start_as(&server, servers, how))
        printf("1..1\nnot ok 1 - %s: ZooKeeper does not start\n", program);
    else
        return true;
    return false;
}

void harness_end(void) {
    zookeeper_server_stop(&server);
}

int harness_run(int argc, char **argv, const char *program, int servers, const struct zookeeper_how *how,
                const struct CMUnitTest *tests, size_t count) {
    int failures;

    if (!harness_begin(program, servers, how))
        return 0;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    failures = _cmocka_run_group_tests(program, tests, count, NULL, NULL);
    harness_end();
    return failures ? 1 : 0;
}

int harness_set_up(void **state) {
    static int count;

    (void)state;
    snprintf(path, sizeof path, "/test%d", count++);
    strike.op = 0;
    proxy = proxy_new(server.ports[0], frame, judge, NULL);
    raw = raw_open(server.ports[0], NULL);
    raw_connect(raw);
    return proxy ? 0 : -1;
}

int harness_tear_down(void **state) {
    (void)state;
    raw_close(raw);
    proxy_free(proxy);
    return 0;
}

const char *harness_path(void) {
    return path;
}
