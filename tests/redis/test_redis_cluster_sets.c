/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_cluster_sets.c - sets of locks that are in one slot of a cluster: it stays, moves, or has moved; and what is asked of a node
 * that answers only when the slot is another's: sets, releases, tokens.
 */
#include <signal.h>

#include "core/core.h"
#include "../support/redis_cluster_test.h"

static struct pawl_part *make_set(struct pawl *client, struct pawl_part parts[3]) {
    static const char *const names[] = {"lock", "{lock}2", "{lock}3"}; /* in one slot */

    for (int i = 0; i < 3; i++)
        parts[i] = (struct pawl_part){.lock = mutex_of(client, names[i]), .mode = PAWL_EXCLUSIVE};
    return parts;
}

static void free_set(struct pawl_part parts[3]) {
    for (int i = 0; i < 3; i++)
        pawl_lock_free(parts[i].lock);
}

/* As on one server: one script, if all are in one slot. */
static void test_a_set_in_one_slot(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct redis_server *node = redis_cluster_node(&cluster, "lock", -1);
    struct pawl_part parts[3];
    long before;

    (void)state;
    make_set(client, parts);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error); /* its node is known and connected from here on */
    assert_works(pawl_release_all(parts, 3, &error), &error);
    before = redis_server_scripts(node);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_scripts(node) - before, 1);
    assert_int_equal(redis_server_integer(node, "EXISTS lock {lock}2 {lock}3"), 3);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    free_set(parts);
    pawl_close(client);
}

struct set_taker {
    pthread_t thread;
    struct pawl_part *parts;
    int result;
};

static void *take_set(void *data) {
    struct set_taker *taker = data;

    taker->result = pawl_acquire_all(taker->parts, 3, PATIENCE_MS, NULL);
    if (taker->result == 0)
        taker->result = pawl_release_all(taker->parts, 3, NULL);
    return NULL;
}

/* Its slot is half moved: no node runs the script. A try says so, and nothing is left; who has time waits, and gets it where it is then. */
static void test_a_set_in_a_slot_that_moves(void **state) {
    struct pawl *client = open_url("", 30000);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct pawl_part parts[3];
    struct set_taker taker = {.parts = make_set(client, parts), .result = 1};

    (void)state;
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    redis_cluster_move_begin(&cluster, slot, from, to);
    redis_cluster_move_keys(&cluster, slot, from, to); /* the counters: so keys of it are at both */
    assert_fails(PAWL_ECONNLOST, pawl_acquire_all(parts, 3, 0, &error), &error);
    assert_int_equal(redis_server_integer(from, "CLUSTER COUNTKEYSINSLOT %u", slot), 0);
    assert_int_equal(pthread_create(&taker.thread, NULL, take_set, &taker), 0);
    redis_cluster_move_end(&cluster, slot, from, to);
    pthread_join(taker.thread, NULL);
    assert_int_equal(taker.result, 0);
    redis_cluster_move(&cluster, "lock", from);
    free_set(parts);
    pawl_close(client);
}

/* It has moved, and we do not know that yet. */
static void test_a_set_in_a_slot_that_has_moved(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct pawl_part parts[3];

    (void)state;
    make_set(client, parts);
    for (int i = 0; i < 2; i++) {
        assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
        assert_works(pawl_release_all(parts, 3, &error), &error);
        if (i == 0)
            redis_cluster_move(&cluster, "lock", to);
    }
    redis_cluster_move(&cluster, "lock", from);
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(from, "EXISTS lock {lock}2 {lock}3"), 3);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    free_set(parts);
    pawl_close(client);
}

/* Take and release a lock of that node. */
static void connect_to(struct pawl *client, struct redis_server *node) {
    char name[16];
    struct pawl_lock *lock;
    int i = 0;

    do
        snprintf(name, sizeof name, "near%d", i++);
    while (redis_cluster_node(&cluster, name, -1) != node);
    lock = mutex_of(client, name);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

/* The slot is given to another node while this one is stopped: the others hear of it, and it does when it goes on. */
static void give_away(unsigned slot, struct redis_server *from, struct redis_server *to) {
    const char *id = redis_cluster_id(redis_cluster_index(&cluster, to));

    freeReplyObject(
        redis_server_command(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, redis_cluster_id(redis_cluster_index(&cluster, from))));
    freeReplyObject(redis_server_command(to, "CLUSTER SETSLOT %u NODE %s", slot, id));
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (&cluster.nodes[i] != from && redis_cluster_has_slots(&cluster.nodes[i]))
            freeReplyObject(redis_server_command(&cluster.nodes[i], "CLUSTER SETSLOT %u NODE %s", slot, id));
}

/* At the end of a test that gave the slot of "lock" away. */
static void take_back(struct pawl *client, struct redis_server *from, const struct redis_server *to) {
    pawl_close(client);
    await(redis_cluster_node(&cluster, "lock", -1) == to, "the node never hears who has the slot");
    redis_cluster_move(&cluster, "lock", from);
}

/* The map of slots is asked for at once, of the node after this one, which does not answer. */
static void ask_another_for_the_map(struct server *server) {
    struct route *route = route_of(server->redis);

    pawl__redis_lock(server->redis);
    route->cluster.refresh_server = server;
    route->cluster.refreshed_at = 0;
    pawl__cluster_refresh(server->redis);
    pawl__redis_unlock(server->redis);
}

/* A set is on its way to a node that does not answer, its slot moves, it is had and let go elsewhere, and its locks are gone when the
 * answer comes: that is for nobody. */
static void test_a_set_that_is_answered_too_late(void **state) {
    struct pawl *client = open_url("?command=60000", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct pawl_part parts[3];
    struct set_taker taker = {.parts = make_set(client, parts), .result = 1};
    struct server *server;

    (void)state;
    assert_works(pawl_acquire_all(parts, 3, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_all(parts, 3, &error), &error);
    server = route_of(redis_of(client->engine))->cluster.slots[slot];
    kill(from->pid, SIGSTOP);
    assert_int_equal(pthread_create(&taker.thread, NULL, take_set, &taker), 0);
    await(owes_answers(server), "the set is never asked for");
    give_away(slot, from, to);
    ask_another_for_the_map(server);
    pthread_join(taker.thread, NULL);
    assert_int_equal(taker.result, 0);
    assert_true(owes_answers(server));
    free_set(parts);
    kill(from->pid, SIGCONT);
    await(!owes_answers(server), "the node never answers");
    take_back(client, from, to);
}

static void *take_it(void *lock) {
    return (void *)(intptr_t)pawl_acquire(lock, PATIENCE_MS, NULL);
}

/* A node takes a slot over with an old copy of its keys, which lacks the last tokens: what it gives is higher all the same, though it was
 * connected to before those were given, and its counter has been above that time already. */
static void test_tokens_rise_where_some_were_lost(void **state) {
    struct pawl *client = open_url("?command=60000", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct route *route = route_of(redis_of(client->engine));
    struct pawl_lock *lock;
    uint64_t token;
    pthread_t thread;
    void *result;

    (void)state;
    connect_to(client, to);
    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error); /* another thread takes it */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    assert_works(pawl_release(lock, &error), &error);
    kill(from->pid, SIGSTOP);
    assert_int_equal(pthread_create(&thread, NULL, take_it, lock), 0);
    await(owes_answers(route->cluster.slots[slot]), "the lock is never asked for");
    give_away(slot, from, to);
    freeReplyObject(redis_server_command(to, "SET redisson_lock_token:{lock} %llu", (unsigned long long)token - 2));
    ask_another_for_the_map(route->cluster.slots[slot]);
    pthread_join(thread, &result);
    assert_int_equal((int)(intptr_t)result, 0);
    assert_true(pawl_token(lock) > token);
    assert_works(pawl_release(lock, &error), &error);
    kill(from->pid, SIGCONT);
    pawl_lock_free(lock);
    take_back(client, from, to);
}

/* A release is on its way to a node whose slot moves meanwhile, without the key that it frees: asked for again, it finds nothing, and
 * that is no loss. */
static void test_a_release_that_is_answered_too_late(void **state) {
    struct pawl *client = open_url("?command=60000", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct pawl_lock *lock;
    struct server *server;
    pthread_t thread;
    void *result;

    (void)state;
    assert_works(pawl_mutex_new(client, "lock", PAWL_TASK, &lock, &error), &error); /* another thread releases it */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    server = route_of(redis_of(client->engine))->cluster.slots[slot];
    kill(from->pid, SIGSTOP);
    assert_int_equal(pthread_create(&thread, NULL, release_it, lock), 0);
    await(owes_answers(server), "the release is never asked for");
    give_away(slot, from, to);
    ask_another_for_the_map(server);
    pthread_join(thread, &result);
    assert_int_equal((int)(intptr_t)result, 0);
    assert_true(owes_answers(server));
    pawl_lock_free(lock); /* and with it the claim, which is kept for the next acquire otherwise */
    kill(from->pid, SIGCONT);
    await(!owes_answers(server), "the node never answers");
    take_back(client, from, to);
}

/* More tokens are asked for, and the slot moves with the hold before the answer comes: there will be none. */
static void test_tokens_that_are_asked_for_in_vain(void **state) {
    struct pawl *client = open_url("?command=60000", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct server *server;
    redisReply *hold;
    uint32_t more;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    server = route_of(redis_of(client->engine))->cluster.slots[redis_cluster_slot(&cluster, "lock")];
    hold = redis_server_command(from, "HGETALL lock");
    kill(from->pid, SIGSTOP);
    assert_int_equal(ask_for_tokens(lock, 1, &more), PAWL__PENDING);
    give_away(redis_cluster_slot(&cluster, "lock"), from, to);
    for (size_t i = 0; i < hold->elements; i += 2)
        freeReplyObject(redis_server_command(to, "HSET lock %s %s", hold->element[i]->str, hold->element[i + 1]->str));
    ask_another_for_the_map(server);
    await(ask_for_tokens(lock, 1, &more) == PAWL_EHELD, "it hopes for tokens for ever");
    kill(from->pid, SIGCONT);
    await(!owes_answers(server), "the node never answers");
    assert_works(pawl_release(lock, &error), &error);
    freeReplyObject(hold);
    pawl_lock_free(lock);
    take_back(client, from, to);
}

/* With an argument: the tests that the pattern fits. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_set_in_one_slot, set_up),
        cmocka_unit_test_setup(test_a_set_in_a_slot_that_moves, set_up),
        cmocka_unit_test_setup(test_a_set_in_a_slot_that_has_moved, set_up),
        cmocka_unit_test_setup(test_a_set_that_is_answered_too_late, set_up),
        cmocka_unit_test_setup(test_tokens_rise_where_some_were_lost, set_up),
        cmocka_unit_test_setup(test_a_release_that_is_answered_too_late, set_up),
        cmocka_unit_test_setup(test_tokens_that_are_asked_for_in_vain, set_up),
    };

    return run_redis_tests(argc, argv, "redis cluster sets", tests, "", NULL, stop_servers);
}
