/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_names.c - hosts whose names nobody answers for. Names are looked up here: the linker takes this program's
 * getaddrinfo() for the library's.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>

#include "engine/zookeeper/session/session.h"
#include "../support/test.h"

/* `slow.test` is looked up for as long as the gate is shut. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open;
    int started, ended;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int pass(void) {
    pthread_mutex_lock(&gate.mutex);
    gate.started++;
    while (!gate.is_open)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.ended++;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
    return EAI_NONAME;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(host, "slow.test") == 0)
        return hints->ai_flags & AI_NUMERICHOST ? EAI_NONAME : pass();
    return real(host, service, hints, ret);
}

static void open_gate(void) {
    pthread_mutex_lock(&gate.mutex);
    gate.is_open = true;
    pthread_cond_broadcast(&gate.changed);
    while (gate.ended < gate.started)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

static void test_names_are_not_waited_for_without_end(void **state) {
    struct zk_host hosts[] = {{.name = "slow.test", .port = 2181}, {.name = "127.0.0.1", .port = 2182}};
    struct zk_session session = {.options = {.hosts = hosts, .host_count = 1, .connect_ns = 100 * ZK_MS, .url = "zk://slow.test"}};
    struct pawl_error error;
    char *servers;

    (void)state;
    assert_null(pawl__zk_resolve(&session, &error));
    assert_int_equal(error.code, PAWL_ECONNLOST);
    assert_non_null(strstr(error.text, "none of the hosts of zk://slow.test is known"));
    session.options.host_count = 2;
    servers = pawl__zk_resolve(&session, &error);
    assert_string_equal(servers, "127.0.0.1:2182");
    free(servers);
    open_gate();
}

/* What `pawl doctor` asks every server, and an open that nobody answered. */
static void test_words_do_not_wait_for_names(void **state) {
    struct zk_host host = {.name = "slow.test", .port = 2181, .where = "slow.test:2181"};
    const struct zk_options options = {.hosts = &host, .host_count = 1};
    char text[64];

    (void)state;
    gate.is_open = false;
    assert_int_equal(pawl__zk_word(&host, "srvr", pawl__boottime() + 100 * ZK_MS, text, sizeof text), ZK_WORD_NOBODY);
    pawl__zk_word_why(&options, text, sizeof text);
    assert_string_equal(text, "look whether the servers run and can be reached");
    open_gate();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_are_not_waited_for_without_end),
                                       cmocka_unit_test(test_words_do_not_wait_for_names)};

    return cmocka_run_group_tests_name("zookeeper_names", tests, NULL, NULL);
}
