/* SPDX-License-Identifier: Apache-2.0
 *
 * test_deadlock_engines.c - a deadlock over clients of three engines in one process, on real servers; and in a child after fork.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/redis_server.h"
#include "../support/test.h"
#include "../support/zookeeper_server.h"

enum { ENGINES = 3, RING = 10, PATIENCE_MS = 60000 };

static struct pawl_error error;
static struct redis_server redis;
static struct zookeeper_server zookeeper;
static char directory[64], urls[ENGINES][128];
static _Atomic unsigned told, ended;

static void on_deadlock(const struct pawl_deadlock *found, void *data) {
    (void)data;
    told++;
    for (size_t i = 0; i < found->count; i++)
        ended += found->members[i]->ended != 0;
}

static struct pawl *open_one(const char *url, const char *rule) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = 20000, .deadlock = on_deadlock};
    struct pawl *client;
    char full[192];

    snprintf(full, sizeof full, "%s?deadlock=%s", url, rule);
    assert_works(pawl_open(full, &options, &client, &error), &error);
    return client;
}

static struct pawl_lock *make(struct pawl *client, int number) {
    struct pawl_lock *lock;
    char name[16];

    snprintf(name, sizeof name, "lock %d", number);
    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    return lock;
}

struct player {
    pthread_t thread;
    struct pawl_lock *first, *second;
    int result;
};

static pthread_barrier_t all_have_one;

static void *play(void *data) {
    struct player *player = data;
    int rc = pawl_acquire(player->first, PAWL_FOREVER, NULL);

    pthread_barrier_wait(&all_have_one);
    player->result = rc < 0 ? rc : pawl_acquire(player->second, PAWL_FOREVER, NULL);
    if (player->result == 0)
        pawl_release(player->second, NULL);
    if (rc == 0)
        pawl_release(player->first, NULL);
    return NULL;
}

static void test_ring_over_engines(void **state) {
    struct pawl_counters stats = {.size = sizeof stats};
    struct player players[RING];
    struct pawl *clients[ENGINES];
    uint64_t counted = 0;
    int victims = 0;

    (void)state;
    told = ended = 0;
    for (int i = 0; i < ENGINES; i++)
        clients[i] = open_one(urls[i], "break");
    pthread_barrier_init(&all_have_one, NULL, RING);
    for (int i = 0; i < RING; i++) {
        players[i].first = make(clients[i % ENGINES], i);
        players[i].second = make(clients[(i + 1) % RING % ENGINES], (i + 1) % RING);
    }
    for (int i = 0; i < RING; i++)
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    for (int i = 0; i < RING; i++) {
        pthread_join(players[i].thread, NULL);
        assert_true(players[i].result == 0 || players[i].result == PAWL_EDEADLK);
        victims += players[i].result == PAWL_EDEADLK;
    }
    for (int i = 0; i < RING; i++) {
        pawl_lock_free(players[i].first);
        pawl_lock_free(players[i].second);
    }
    for (int i = 0; i < ENGINES; i++) {
        assert_int_equal(pawl_stats(clients[i], &stats), 0);
        counted += stats.deadlocks;
        pawl_close(clients[i]);
    }
    assert_int_equal(victims, 1);
    assert_int_equal(counted, 1);
    assert_int_equal(told, 1);
    assert_int_equal(ended, 1);
    pthread_barrier_destroy(&all_have_one);
}

/* A callback with a point at which its thread may be cancelled. */
static void cancel_here(void) {
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void cancel_at_a_deadlock(const struct pawl_deadlock *found, void *data) {
    on_deadlock(found, data);
    cancel_here();
}

static int cancel_at_a_signal(void *data) {
    *(_Atomic bool *)data = true;
    cancel_here();
    return 0;
}

enum { CANCELLED_INSIDE = 1 };

static void *play_once(void *data) {
    struct player *player = data;
    int before, rc = pawl_acquire(player->first, PAWL_FOREVER, NULL);

    player->result = CANCELLED_INSIDE;
    pthread_barrier_wait(&all_have_one);
    rc = rc < 0 ? rc : pawl_acquire(player->second, PAWL_FOREVER, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    player->result = rc;
    if (rc == 0)
        pawl_release(player->second, NULL);
    pawl_release(player->first, NULL);
    return NULL;
}

/* A thread that is cancelled in a callback comes to the end of its acquire all the same. */
static void test_cancelled_in_a_callback(void **state) {
    (void)state;
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        _Atomic bool asked = false;
        struct pawl_options options = {.size = sizeof options, .deadlock = by_signal ? on_deadlock : cancel_at_a_deadlock};
        struct player players[2];
        struct pawl *client;
        char full[192];

        told = ended = 0;
        if (by_signal)
            options.interrupted = cancel_at_a_signal, options.interrupted_data = &asked;
        snprintf(full, sizeof full, "%s?deadlock=break", urls[0]);
        assert_works(pawl_open(full, &options, &client, &error), &error);
        pthread_barrier_init(&all_have_one, NULL, 2);
        for (int i = 0; i < 2; i++) {
            players[i].first = make(client, i);
            players[i].second = make(client, 1 - i);
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&players[i].thread, NULL, play_once, &players[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(players[i].thread, NULL);
        assert_true(players[0].result == PAWL_EDEADLK || players[1].result == PAWL_EDEADLK);
        assert_int_equal(players[0].result + players[1].result, PAWL_EDEADLK);
        assert_true(asked == (by_signal == 1));
        assert_int_equal(told, 1);
        for (int i = 0; i < 2; i++) {
            pawl_lock_free(players[i].first);
            pawl_lock_free(players[i].second);
        }
        pawl_close(client);
        pthread_barrier_destroy(&all_have_one);
    }
}

/* It has a lock, and waits for another until its time is up: on the way it looks. 0: as it should be. */
static int wait_in_child(void) {
    struct pawl *client;
    struct pawl_lock *own, *wanted;
    int rc;

    if (pawl_open(urls[0], NULL, &client, NULL) < 0 || pawl_mutex_new(client, "child's", 0, &own, NULL) < 0 ||
        pawl_mutex_new(client, "lock 0", 0, &wanted, NULL) < 0 || pawl_acquire(own, 0, NULL) < 0)
        return 1;
    rc = pawl_acquire(wanted, 1500, NULL);
    pawl_lock_free(own);
    pawl_lock_free(wanted);
    pawl_close(client);
    return rc == PAWL_ETIMEOUT ? 0 : 2;
}

/* Those who wait for each other stay in the parent. */
static void test_after_fork(void **state) {
    struct player players[2];
    struct pawl *client;
    int status;
    pid_t pid;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in a child of a process that has some */
#endif
    told = ended = 0;
    client = open_one(urls[0], "report");
    pthread_barrier_init(&all_have_one, NULL, 2);
    for (int i = 0; i < 2; i++) {
        players[i].first = make(client, i);
        players[i].second = make(client, 1 - i);
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    await(told == 1, "it is not told");
    pid = fork();
    if (pid == 0)
        _exit(wait_in_child());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(told, 1);
    assert_int_equal(ended, 0);
    assert_int_equal(pawl_cancel(players[0].second), 1);
    for (int i = 0; i < 2; i++)
        pthread_join(players[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        pawl_lock_free(players[i].first);
        pawl_lock_free(players[i].second);
    }
    assert_int_equal(players[0].result, PAWL_ECANCELED);
    assert_int_equal(players[1].result, 0);
    pawl_close(client);
    pthread_barrier_destroy(&all_have_one);
}

static int begin(void **state) {
    (void)state;
    strcpy(directory, "/tmp/pawl-deadlock-XXXXXX");
    if (!mkdtemp(directory) || !zookeeper_server_start(&zookeeper, 1))
        return -1;
    redis_server_start(&redis);
    snprintf(urls[0], sizeof urls[0], "local:%s", directory);
    snprintf(urls[1], sizeof urls[1], "redis://127.0.0.1:%u", redis.port);
    snprintf(urls[2], sizeof urls[2], "zk://127.0.0.1:%u/deadlock", zookeeper.ports[0]);
    return 0;
}

static int end(void **state) {
    char command[128];

    (void)state;
    redis_server_free(&redis);
    zookeeper_server_stop(&zookeeper);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_over_engines),
        cmocka_unit_test(test_cancelled_in_a_callback),
        cmocka_unit_test(test_after_fork),
    };
    const char *missing = zookeeper_server_missing();

    if (missing || !redis_server_exists(&missing)) {
        printf("1..0 # SKIP %s\n", missing);
        return 0;
    }
    return cmocka_run_group_tests_name("deadlocks over engines", tests, begin, end);
}
