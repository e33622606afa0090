/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_harness.h - what the tests of the ZooKeeper engine share: a server, a proxy that knows ZooKeeper's messages and strikes
 * at a chosen one, a plain client to look and to meddle, and clients of pawl's.
 */
#ifndef PAWL_ZOOKEEPER_HARNESS_H
#define PAWL_ZOOKEEPER_HARNESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/claim.h"
#include "engine/zookeeper/lock/lock.h"
#include "../../lab/servers/proxy.h"
#include "test.h"
#include "zookeeper_server.h"

#define PATIENCE_MS 60000

/* Request types on the wire; and the events that the server sends by itself. */
enum {
    OP_EVENT = -1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_GET = 4,
    OP_SET = 5,
    OP_ACL = 6,
    OP_LIST = 8,
    OP_LIST_STAT = 12,
    OP_MULTI = 14,
    OP_CREATE = 15
};

/* Where the proxy strikes: at the `skip`th next request of this type, or at its reply. */
struct strike {
    pthread_mutex_t mutex;
    _Atomic int op; /* 0: nowhere */
    _Atomic int skip;
    bool reply;
    enum proxy_verdict verdict;
    void (*hook)(void *data); /* instead of a verdict: called, then the message passes */
    void *hook_data;
    void (*change)(unsigned char *message, size_t length); /* likewise: it passes as it is then */
    int32_t xid;                                           /* whose reply is waited for */
    unsigned connection;
    _Atomic unsigned hits;
};

extern struct zookeeper_server server; /* one for the whole program */
extern struct proxy *proxy;
extern struct strike strike;
extern struct pawl_error error;

/* Start the server. False: it is not there, which is a named skip, or does not start, which is a failure; it was said. */
bool harness_begin(const char *program, int servers, const struct zookeeper_how *how);
void harness_end(void);
/* Both, and the tests in between: all, or those that argv[1] says. What main() is to return. */
int harness_run(int argc, char **argv, const char *program, int servers, const struct zookeeper_how *how,
                const struct CMUnitTest *tests, size_t count);
/* Around each test: a proxy, and a path of its own. */
int harness_set_up(void **state);
int harness_tear_down(void **state);
const char *harness_path(void); /* "/test/3" */

/* A client, straight to the server or through the proxy. `options` begin with '?', or are "". */
struct pawl *open_direct(const char *options);
struct pawl *open_proxied(const char *options);
struct pawl *open_logged(pawl_log_fn *log);                       /* behind the proxy, too */
struct pawl_lock *new_mutex(struct pawl *client, unsigned flags); /* all on the name "lock" */
struct pawl_lock *new_rwlock(struct pawl *client, unsigned flags);
struct pawl_lock *new_semaphore(struct pawl *client, unsigned limit);

/* Strike at a request or at its reply. */
void strike_at(int op, bool reply, enum proxy_verdict verdict);
void strike_hook(int op, void (*hook)(void *), void *data);
/* At the reply to a request: alter it. */
void strike_change(int op, void (*change)(unsigned char *message, size_t length));
void await_strike(void);

/* An acquire in a thread of its own; the lock is a task's. */
struct acquire {
    pthread_t thread;
    struct pawl_lock *lock;
    bool shared;
    int64_t timeout_ms;
    _Atomic bool ended;
    int result;
};
void acquire_start(struct acquire *acquire, struct pawl_lock *lock, bool shared, int64_t timeout_ms);
int acquire_wait(struct acquire *acquire);

/* Looking and meddling, past pawl. `below`: of the lock's path: "" or "/leases". */
struct listing {
    int count;
    char names[64][128];
};
struct listing raw_list(const char *below);
void raw_delete(const char *below, const char *child);
void raw_create(const char *below, const char *child, int flags);
/* Beside the lock's path: "pawl.values/lock". The data with a NUL behind it; the version of the node, or ZNONODE. */
int raw_get(const char *where, char *ret, size_t size);
uint64_t raw_token(const char *below); /* that the only child of the lock's path gives its holder */
void raw_set(const char *where, const char *data);
void raw_remove(const char *where);
/* What everybody may do with the lock's path: ZOO_PERM_ALL, or less. */
void raw_permit(int permissions);
/* The same with any node, and to change that again; one that is not there is to be made. */
void raw_permit_at(const char *node, int permissions);
void raw_make(const char *node, int permissions);
/* No more nodes than that below the tests' path, itself counted: a quota. */
void raw_limit(int nodes);
/* Wait until the lock's path has so many children. */
struct listing await_nodes(const char *below, int count);
void await_no_watches(void);
/* End the session of a client that is connected through the proxy, as its expiry would. */
void expire(struct pawl *client);
bool is_connected(struct pawl *client);
void await_link(struct pawl *client, bool connected);
/* Cut the connection of a client through the proxy, and wait until it has another. */
void cut_and_reconnect(struct pawl *client);
/* Wait until the server has at least so many watches. */
void await_watches(int count);
void await_state(struct pawl_lock *lock, enum pawl_state state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_set_up, harness_tear_down)

static inline void release(struct pawl_lock *lock) {
    assert_works(pawl_release(lock, &error), &error);
}

static inline void acquire(struct pawl_lock *lock) {
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
}

#endif
