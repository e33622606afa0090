/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_values_moved.c - what lies beside a lock while its slot moves, while its primary is replaced, and while replicas are missing.
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../support/names.h"
#include "../support/redis_test.h"
#include "../support/redis_topology.h"

static struct redis_cluster cluster = {.node_timeout_ms = 4000};
static struct redis_watched watched = {.down_after_ms = 1000};
static bool used; /* a failover has been there */

#define LEASE_MS 20000

static int set_up_cluster(void **state) {
    (void)state;
    if (!cluster.nodes[0].pid)
        redis_cluster_start(&cluster);
    redis_cluster_flush(&cluster);
    return 0;
}

static int set_up_watched(void **state) {
    (void)state;
    if (!watched.url[0])
        redis_watched_start(&watched);
    else if (used)
        redis_watched_reset(&watched);
    used = false;
    freeReplyObject(redis_server_command(&watched.servers[0], "FLUSHALL"));
    return 0;
}

static int stop_servers(void **state) {
    (void)state;
    if (cluster.nodes[0].pid)
        redis_cluster_free(&cluster);
    if (watched.url[0])
        redis_watched_free(&watched);
    return 0;
}

static int put(struct pawl_lock *lock, const char *text) {
    return pawl_value_set(lock, text, strlen(text), &error);
}

static void assert_read(struct pawl *client, const char *text) {
    const struct pawl_value *value;

    assert_works(pawl_value_read(client, "lock", &value, &error), &error);
    assert_non_null(value);
    assert_int_equal(value->size, strlen(text));
    assert_memory_equal(value->bytes, text, value->size);
    pawl_value_free(value);
}

/* ---- Slots ---------------------------------------------------------------------------------------------------------------- */

static struct redis_server *another(const struct redis_server *node) {
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (&cluster.nodes[i] != node && cluster.nodes[i].pid && redis_cluster_has_slots(&cluster.nodes[i]))
            return &cluster.nodes[i];
    fail_msg("there is no other primary");
    return NULL;
}

static void test_follows_its_slot(void **state) {
    struct pawl *one = open_client(LEASE_MS, "%s", cluster.url), *two = open_client(LEASE_MS, "%s", cluster.url);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct pawl_lock *lock = mutex_of(one, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(put(lock, "one"), &error);
    assert_read(two, "one");
    redis_cluster_move(&cluster, "lock", to);
    assert_read(two, "one");
    assert_works(put(lock, "two"), &error);
    assert_int_equal(redis_server_integer(to, "HEXISTS pawl:value:{lock} value"), 1);
    assert_read(two, "two");
    assert_works(pawl_release(lock, &error), &error);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

struct writer {
    pthread_t thread;
    struct pawl_lock *lock;
    _Atomic bool done;
    int result;
};

static void *write_it(void *data) {
    struct writer *writer = data;

    writer->result = pawl_value_set(writer->lock, "late", 4, NULL);
    atomic_store(&writer->done, true);
    return NULL;
}

/* Half way, a write waits; what has arrived at the other node is read there. */
static void test_a_write_crosses_a_move(void **state) {
    struct pawl *one = open_client(LEASE_MS, "%s", cluster.url), *two = open_client(LEASE_MS, "%s", cluster.url);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct writer writer = {0};
    struct pawl_lock *lock;

    (void)state;
    assert_works(pawl_mutex_new(one, "lock", PAWL_TASK, &lock, &error), &error);
    writer.lock = lock;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(put(lock, "early"), &error);
    redis_cluster_move_begin(&cluster, slot, from, to);
    assert_read(two, "early");
    redis_cluster_move_keys(&cluster, slot, from, to);
    assert_read(two, "early");
    freeReplyObject(redis_server_command(to, "CONFIG RESETSTAT"));
    freeReplyObject(redis_server_command(from, "CONFIG RESETSTAT"));
    assert_int_equal(pthread_create(&writer.thread, NULL, write_it, &writer), 0);
    await(redis_server_stat(from, "evalsha", "rejected_calls") + redis_server_stat(to, "evalsha", "rejected_calls") +
                  redis_server_stat(to, "eval", "rejected_calls") >
              0,
          "it is not refused");
    assert_false(atomic_load(&writer.done));
    redis_cluster_move_end(&cluster, slot, from, to);
    pthread_join(writer.thread, NULL);
    assert_int_equal(writer.result, 0);
    assert_read(two, "late");
    assert_works(pawl_release(lock, &error), &error);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

static int see(const struct pawl_entry *entry, void *data) {
    (void)entry;
    (void)data;
    return 0;
}

static void assert_no_node_yet(int rc) {
    assert_fails(PAWL_ECONNLOST, rc, &error);
    assert_contains(error.text, "MOVED");
    assert_null(strstr(error.text, "redis-cluster:"));
}

/* Each of two nodes says that the other one has the slot. Calls end in time, and don't say that the URL, which names a cluster, should. */
static void test_nodes_disagree_about_a_slot(void **state) {
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct pawl *client = open_client(LEASE_MS, "%s", cluster.url);
    struct pawl_lock *lock = mutex_of(client, "lock");
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    const struct pawl_value *value;

    (void)state;
    freeReplyObject(
        redis_server_command(from, "CLUSTER SETSLOT %u NODE %s", slot, redis_cluster_id(redis_cluster_index(&cluster, to))));
    assert_no_node_yet(pawl_value_read(client, "lock", &value, &error));
    assert_no_node_yet(pawl_value_set_as(client, "lock", 1, "one", 3, &error));
    assert_no_node_yet(pawl_inspect(client, "lock", see, NULL, &error));
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 300, &error), &error);
    freeReplyObject(
        redis_server_command(from, "CLUSTER SETSLOT %u NODE %s", slot, redis_cluster_id(redis_cluster_index(&cluster, from))));
    await(pawl_value_read(client, "lock", &value, &error) == 0, "it is never there again");
    pawl_lock_free(lock);
    pawl_close(client);
}

static _Atomic unsigned told;

static void hear(void *core, struct pawl__observer *observer) {
    (void)core;
    (void)observer;
    atomic_fetch_add(&told, 1);
}

/* Who observes follows, too, and hears at the new node. */
static void test_observed_slot_moves(void **state) {
    struct pawl *client = open_client(LEASE_MS, "%s", cluster.url);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct pawl__observer observer = {.name = "lock", .name_length = 4};
    unsigned before;

    (void)state;
    client->engine->changed = hear;
    atomic_store(&told, 0);
    assert_works(client->engine->impl->values->observe(client->engine, &observer, &error), &error);
    await(redis_server_stat(from, "client|caching", "calls") > 0 || redis_server_stat(from, "client", "calls") > 0, "not tracked");
    before = atomic_load(&told);
    freeReplyObject(redis_server_command(from, "HSET lock x 1"));
    await(atomic_load(&told) > before, "it is not told");
    redis_cluster_move(&cluster, "lock", to);
    await(redis_server_integer(to, "HSET lock y 1") >= 0 && atomic_load(&told) > before + 2, "it is not told at the new node");
    client->engine->impl->values->unobserve(client->engine, &observer);
    redis_cluster_move(&cluster, "lock", from);
    pawl_close(client);
}

static void count(const struct pawl_observed *seen, void *data) {
    (void)seen;
    atomic_fetch_add((_Atomic unsigned *)data, 1);
}

static struct pawl_observer *observe(struct pawl *client, const char *name, _Atomic unsigned *ret_told) {
    struct pawl_observer *observer;

    assert_works(pawl_observe(client, name, count, ret_told, &observer, &error), &error);
    return observer;
}

/* One thread looks at all that a client observes. Locks of a node that is down don't keep it from those of the others; and are told of,
 * too, as soon as another node has them. */
static void test_observed_beside_a_node_that_is_down(void **state) {
    enum { LOCKS = 20 };
    struct pawl *client = open_client(LEASE_MS, "%s", cluster.url);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to;
    _Atomic unsigned there = 0, elsewhere = 0;
    char name[16] = "a";
    int64_t begin;

    (void)state;
    while (redis_cluster_node(&cluster, name, -1) == from)
        name[0]++;
    redis_server_stop(from, SIGKILL);
    begin = pawl__boottime();
    for (int i = 0; i < LOCKS; i++) {
        char one[16];

        snprintf(one, sizeof one, "{lock}%d", i);
        observe(client, one, &there);
    }
    observe(client, name, &elsewhere);
    await(atomic_load(&elsewhere) == 1, "who observes a lock is never told of it");
    assert_true(pawl__boottime() - begin < PAWL__NS_PER_S); /* the others' node is not replaced yet */
    assert_int_equal(atomic_load(&there), 0);
    to = redis_cluster_node(&cluster, "lock", redis_cluster_index(&cluster, from));
    await(atomic_load(&there) == LOCKS, "who observes a lock is not told of it when its node was replaced");
    redis_server_start(from);
    redis_await_replicas(to, 1);
    pawl_close(client); /* which ends its observers */
}

/* ---- Replicas ------------------------------------------------------------------------------------------------------------- */

/* What was answered survives the primary, and so does the hold, which goes on writing. */
static void test_over_a_failover(void **state) {
    struct pawl *one = open_client(LEASE_MS, "%s?replicas=2", watched.url), *two = open_client(LEASE_MS, "%s", watched.url);
    struct pawl_lock *lock = mutex_of(one, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(put(lock, "one"), &error);
    pawl_close(one); /* its hold ends: the lock is not what this is about */
    pawl_lock_free(lock);
    used = true;
    redis_server_stop(&watched.servers[0], SIGKILL);
    redis_watched_primary(&watched, 0);
    await(pawl_inspect(two, "lock", see, NULL, NULL) == 0, "the new primary is not found");
    assert_read(two, "one");
    pawl_close(two);
}

static void test_too_few_replicas(void **state) {
    struct pawl *client = open_client(LEASE_MS, "%s?replicas=2&command=600", watched.url);
    struct pawl_lock *lock = mutex_of(client, "lock");
    const struct pawl_value *value;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(put(lock, "one"), &error);
    assert_int_equal(redis_server_integer(&watched.servers[1], "HLEN pawl:value:{lock}"), 5);
    assert_int_equal(redis_server_integer(&watched.servers[2], "HLEN pawl:value:{lock}"), 5);
    assert_int_equal(kill(watched.servers[2].pid, SIGSTOP), 0);
    assert_fails(PAWL_EREPLICAS, put(lock, "two"), &error);
    assert_fails(PAWL_EREPLICAS, pawl_value_read(client, "lock", &value, &error), &error);
    assert_int_equal(kill(watched.servers[2].pid, SIGCONT), 0);
    await(pawl_value_read(client, "lock", &value, &error) == 0, "it never has them again");
    assert_memory_equal(value->bytes, "two", 3); /* it was written */
    pawl_value_free(value);
    assert_works(put(lock, "three"), &error);
    assert_int_equal(kill(watched.servers[2].pid, SIGSTOP), 0);
    freeReplyObject(redis_server_command(&watched.servers[0], "DEL lock"));
    assert_fails(PAWL_ELOST, put(lock, "four"), &error); /* too few replicas have nothing of it */
    assert_int_equal(kill(watched.servers[2].pid, SIGCONT), 0);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_follows_its_slot, set_up_cluster),
        cmocka_unit_test_setup(test_a_write_crosses_a_move, set_up_cluster),
        cmocka_unit_test_setup(test_nodes_disagree_about_a_slot, set_up_cluster),
        cmocka_unit_test_setup(test_observed_slot_moves, set_up_cluster),
        cmocka_unit_test_setup(test_observed_beside_a_node_that_is_down, set_up_cluster),
        cmocka_unit_test_setup(test_over_a_failover, set_up_watched),
        cmocka_unit_test_setup(test_too_few_replicas, set_up_watched),
    };

    return run_redis_tests(argc, argv, "values that move", tests, "", NULL, stop_servers);
}
