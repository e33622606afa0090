/* SPDX-License-Identifier: Apache-2.0
 *
 * redlock_test.h - what the tests of locks over several servers share: five of them, and clients.
 */
#ifndef PAWL_REDLOCK_TEST_H
#define PAWL_REDLOCK_TEST_H

#include <signal.h>

#include "../../lab/servers/proxy.h"
#include "redis_test.h"

enum { NODES = 5, QUORUM = 3 };

/* A lease that outlasts every test's patience: nothing is free because of its end. */
#define LONG_MS 300000

static struct redis_server servers[NODES];
static struct proxy *proxies[NODES];

/* ---- Servers and clients -------------------------------------------------------------------------------------------------- */

static inline int set_up(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) {
        if (!servers[i].pid)
            redis_server_start(&servers[i]);
        freeReplyObject(redis_server_command(&servers[i], "FLUSHALL"));
    }
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) {
        if (proxies[i])
            proxy_free(proxies[i]);
        proxies[i] = NULL;
        if (servers[i].pid)
            kill(servers[i].pid, SIGCONT);
    }
    return 0;
}

static inline int stop_servers(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++)
        redis_server_free(&servers[i]);
    return 0;
}

static inline void stop(int node) {
    kill(servers[node].pid, SIGSTOP);
}

static inline void go_on(int node) {
    kill(servers[node].pid, SIGCONT);
}

/* It comes back knowing nothing. */
static inline void restart(int node) {
    redis_server_stop(&servers[node], SIGKILL);
    redis_server_start(&servers[node]);
}

static inline void use_proxies(void) {
    for (int i = 0; i < NODES; i++)
        proxies[i] = proxy_new(servers[i].port, NULL, NULL, NULL);
}

static inline const char *url_of(int count, const char *options) {
    static char url[512];

    strcpy(url, "redlock://");
    for (int i = 0; i < count; i++)
        sprintf(url + strlen(url), "%s127.0.0.1:%u", i ? "," : "", proxies[i] ? proxy_port(proxies[i]) : servers[i].port);
    return strcat(url, options);
}

/* What the log says is kept: the last of it. */
struct log {
    pthread_mutex_t mutex;
    char text[65536];
    size_t used;
};
#define LOG_INIT                                                                                                                   \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

static inline void keep_log(enum pawl_log_level level, const char *text, void *data) {
    struct log *log = data;
    size_t length = strlen(text);

    (void)level;
    pthread_mutex_lock(&log->mutex);
    if (log->used + length + 2 > sizeof log->text)
        log->used = 0;
    memcpy(log->text + log->used, text, length + 1);
    log->used += length;
    pthread_mutex_unlock(&log->mutex);
}

static inline bool log_has(struct log *log, const char *part) {
    bool has;

    pthread_mutex_lock(&log->mutex);
    has = strstr(log->text, part);
    pthread_mutex_unlock(&log->mutex);
    return has;
}

static inline struct pawl *open_all(const char *options, int64_t lease_ms, struct log *log) {
    struct pawl_options how = {.size = sizeof how, .label = "test", .lease_ms = lease_ms};
    struct pawl *client;

    if (log) {
        how.flags = PAWL_OPEN_TRACE;
        how.log = keep_log;
        how.log_data = log;
    }
    assert_works(pawl_open(url_of(NODES, options), &how, &client, &error), &error);
    return client;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Nobody has the lock at these servers, nor waits for it there. */
static inline void await_free(int from, int to) {
    for (int i = from; i <= to; i++)
        await_integer(&servers[i], "EXISTS lock pawl:wait:{lock}", 0);
}

static inline long long counter_of(int node) {
    return redis_server_integer(&servers[node], "GET pawl:vote:{lock}"); /* begins with it */
}

static inline int nodes_with_lock(int from, int to) {
    int count = 0;

    for (int i = from; i <= to; i++)
        count += (int)redis_server_integer(&servers[i], "EXISTS lock");
    return count;
}

#endif
