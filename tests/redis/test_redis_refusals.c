/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_refusals.c - a server that is there and refuses: it is out of memory, may not write, loads, is a replica, lets nobody in; and
 * addresses at which there is none.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../support/redis_far.h"

/* Nobody is let in, and who waits is told when it asks again, and leaves the queue; what is held can be released. */
static void test_out_of_memory(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock"), *held = mutex_of(near, "held"), *waiting = mutex_of(far, "held");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, waiting, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{held}", 1);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 1"));
    assert_fails(PAWL_ENOSPACE, pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_int_equal(end_taker(&taker), PAWL_ENOSPACE);
    await_integer(&server, "EXISTS pawl:queue:{held}", 0);
    assert_works(pawl_release(held, &error), &error);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 0"));
    assert_int_equal(redis_server_integer(&server, "EXISTS lock held"), 0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_lock_free(waiting);
}

/* Holds of every kind are renewed all the same: the lease passes twice. */
static void test_renewed_out_of_memory(void **state) {
    struct pawl *client = open_at(server.port, "", 600);
    struct pawl_lock *locks[4];

    (void)state;
    assert_works(pawl_mutex_new(client, "m", 0, &locks[0], &error), &error);
    assert_works(pawl_rwlock_new(client, "w", 0, &locks[1], &error), &error);
    assert_works(pawl_rwlock_new(client, "r", 0, &locks[2], &error), &error);
    assert_works(pawl_semaphore_new(client, "s", 3, 0, &locks[3], &error), &error);
    assert_works(pawl_acquire(locks[0], PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire(locks[1], PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_shared(locks[2], PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_permits(locks[3], 2, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 1"));
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pawl_state(locks[i]), PAWL_HELD);
    assert_int_equal(redis_server_integer(&server, "ZCARD {s}:timeout"), 2);
    assert_works(pawl_release_shared(locks[2], &error), &error);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            assert_works(pawl_release(locks[i], &error), &error);
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxmemory 0"));
    for (int i = 0; i < 4; i++)
        pawl_lock_free(locks[i]);
    pawl_close(client);
}

/* The server may not write: it can't save to its disk (MISCONF), or has too few replicas (NOREPLICAS). Nobody is let in, a try ends at once
 * and says why, who waits goes on waiting, and what is released meanwhile is released when the server can. */
static void refused_for_a_while(const char *word, int code, void (*may_write)(bool may)) {
    struct pawl *client = open_at(server.port, "", 3600000); /* nothing of its ends by itself */
    struct pawl_lock *held = mutex_of(client, "held"), *next = mutex_of(near, "held"), *lock = mutex_of(near, "lock");
    struct taker taker;
    int tries = 0;

    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    may_write(false);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(redis_server_integer(&server, "HLEN held"), 2);
    assert_fails(code, pawl_acquire(lock, 0, &error), &error);
    assert_contains(error.text, word);
    do /* the first answer may take longer than that */
        assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 100 << tries, &error), &error);
    while (!strstr(error.text, word) && ++tries < 8);
    assert_contains(error.text, word);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    start_taker(&taker, lock, PAWL_FOREVER);
    may_write(true);
    assert_int_equal(end_taker(&taker), 0);
    assert_works(pawl_acquire(next, PATIENCE_MS, &error), &error);
    pawl_lock_free(held);
    pawl_lock_free(next);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void need_no_replicas(bool may) {
    freeReplyObject(redis_server_command(&server, "CONFIG SET min-replicas-to-write %s", may ? "0" : "1"));
}

static void test_too_few_replicas(void **state) {
    (void)state;
    refused_for_a_while("NOREPLICAS", PAWL_EREPLICAS, need_no_replicas);
}

#ifdef PAWL_IN_WORLD /* where it takes no time, and is exact */
/* A renewal that was refused for a while is asked for again in a moment, and not when something else happens. */
static void test_refused_renewal_is_tried_again(void **state) {
    struct pawl *client = open_at(server.port, "", 30000);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    nanosleep(&(struct timespec){.tv_sec = 9}, NULL);
    need_no_replicas(false);
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* at a third of the lease a renewal was refused */
    assert_true(redis_server_integer(&server, "PTTL lock") < 20000);
    need_no_replicas(true);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_true(redis_server_integer(&server, "PTTL lock") > 29000);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}
#endif

static void let_it_save(bool possible) {
    redis_server_let_save(&server, possible);
}

static void test_server_that_cannot_save(void **state) {
    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG SET save %s", "3600 1000000"));
    refused_for_a_while("MISCONF", PAWL_ENOSPACE, let_it_save);
    freeReplyObject(redis_server_command(&server, "CONFIG SET save %s", ""));
}

/* A restart with a file that takes seconds to read: the server is there, and answers LOADING. A try says so, and who waits does so until it
 * has loaded; holds live through it. */
static void test_server_that_is_loading(void **state) {
    static struct redis_server slow;
    struct pawl_lock *held, *lock, *waiting;
    struct pawl *one, *two, *late = NULL;
    struct taker taker;
    char url[64];

    (void)state;
    strcpy(slow.extra, "appendonly yes\nappendfsync always\naof-use-rdb-preamble no\nkey-load-delay 400\n");
    redis_server_start(&slow);
    freeReplyObject(redis_server_command(&slow, "EVAL %s 0", "for i = 1, 10000 do redis.call('SET', 'key' .. i, i) end"));
    one = open_at(slow.port, "", 60000);
    two = open_at(slow.port, "", 60000);
    held = mutex_of(one, "lock");
    waiting = mutex_of(two, "lock");
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, waiting, PAWL_FOREVER);
    await_integer(&slow, "ZCARD pawl:queue:{lock}", 1);
    redis_server_stop(&slow, SIGKILL);
    redis_server_launch(&slow);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", slow.port);
    await(pawl_open(url, NULL, &late, &error) == 0, "it never even listens: %s", error.text);
    lock = mutex_of(late, "other");
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 0, &error), &error);
    assert_contains(error.text, "LOADING");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(redis_server_await(&slow));
    assert_int_equal(pawl_state(held), PAWL_HELD);
    assert_works(pawl_release(held, &error), &error); /* the file had it: it is not lost */
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_lock_free(waiting);
    pawl_close(one);
    pawl_close(two);
    pawl_close(late);
    redis_server_free(&slow);
}

static void test_readonly_replica(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    struct pawl *client;
    char url[64];

    (void)state;
    freeReplyObject(redis_server_command(&server, "REPLICAOF 127.0.0.1 1"));
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 300, &error), &error);
    assert_contains(error.text, "is a replica");
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", server.port);
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "replica");
    freeReplyObject(redis_server_command(&server, "REPLICAOF NO ONE"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

/* The server does not let us in any more: who waits hears why, and not that it should check that the server is running. */
static void test_shut_out_later(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxclients 1"));
    proxy_cut(proxy);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 500, &error), &error);
    assert_contains(error.text, "raise its maxclients");
    freeReplyObject(redis_server_command(&server, "CONFIG SET maxclients 10000"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER default resetpass >hush"));
    proxy_cut(proxy);
    assert_fails(PAWL_EACCES, pawl_acquire(lock, 500, &error), &error);
    assert_contains(error.text, "wants a password");
    assert_fails(PAWL_EACCES, pawl_acquire(lock, 0, &error), &error);
    freeReplyObject(redis_server_command(&server, "ACL SETUSER default nopass"));
    proxy_cut(proxy);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

/* Something that listens and is no Redis. */
static void *answer_garbage(void *data) {
    int listener = *(int *)data, fd;

    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        char request[4096];

        if (send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL) == 28 && shutdown(fd, SHUT_WR) == 0)
            while (recv(fd, request, sizeof request, 0) > 0)
                continue;
        close(fd);
    }
    return NULL;
}

static void test_bad_addresses(void **state) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pawl *client;
    pthread_t thread;
    char url[128];

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_garbage, &listener), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", ntohs(address.sin_port));
    assert_fails(PAWL_EFORMAT, pawl_open(url, NULL, &client, &error), &error);
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
    assert_fails(PAWL_ECONNLOST, pawl_open("redis://no.such.host.invalid", NULL, &client, &error), &error);
    assert_fails(PAWL_EURL, pawl_open("redis://a,b", NULL, &client, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_open("redis://a?layout=x", NULL, &client, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_open("redis://a?retry=x", NULL, &client, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_open("redis://a?spin=-1", NULL, &client, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_open("redis://a?spin=1s", NULL, &client, &error), &error);
    assert_fails(PAWL_EOPTION, pawl_open("redlock://a,b,c?spin=10001", NULL, &client, &error), &error);
    assert_fails(PAWL_EURL, pawl_open("redis://a/x", NULL, &client, &error), &error);
    assert_fails(PAWL_EURL, pawl_open("redis:/a", NULL, &client, &error), &error);
    assert_non_null(strstr(error.text, "names no host before '/a': write redis://HOST"));
    assert_fails(PAWL_EURL, pawl_open("redis+unix://a/x", NULL, &client, &error), &error);
    proxy_freeze(proxy, true);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u?connect=200", proxy_port(proxy));
    assert_fails(PAWL_ECONNLOST, pawl_open(url, NULL, &client, &error), &error);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#ifdef PAWL_IN_WORLD
        TEST(test_refused_renewal_is_tried_again),
#endif
        TEST(test_out_of_memory),
        TEST(test_renewed_out_of_memory),
        TEST(test_too_few_replicas),
        TEST(test_server_that_cannot_save),
        TEST(test_server_that_is_loading),
        TEST(test_readonly_replica),
        TEST(test_shut_out_later),
        TEST(test_bad_addresses),
    };

    return run_redis_tests(argc, argv, "redis refusals", tests, "", NULL, stop_server);
}
