/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_cluster.c - a cluster of three primaries with a replica each: slots that move while their locks are held, waited for and
 * asked for; slots that are half moved; a primary that dies; names and clusters that don't fit. Sets are in test_redis_cluster_sets.c.
 */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/core.h"
#include "../support/findings.h"
#include "../support/names.h"
#include "../support/redis_cluster_test.h"
#include "../support/redis_keep.h"
#include "../support/redis_rivals.h"

static void test_locks_are_everywhere(void **state) {
    enum { LOCKS = 30 };
    struct pawl *one = open_url("", LEASE_MS), *two = open_url("", LEASE_MS);
    struct pawl_lock *locks[LOCKS], *other;
    char name[16];

    (void)state;
    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "lock%d", i);
        locks[i] = mutex_of(one, name);
        other = mutex_of(two, name);
        assert_works(pawl_acquire(locks[i], PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(redis_cluster_node(&cluster, name, -1), "HLEN %s", name), 2);
        assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
        pawl_lock_free(other);
    }
    for (int i = 0; i < LOCKS; i++) {
        assert_works(pawl_release(locks[i], &error), &error);
        pawl_lock_free(locks[i]);
    }
    pawl_close(one);
    pawl_close(two);
}

static int count_entry(const struct pawl_entry *entry, void *data) {
    (void)entry;
    ++*(int *)data;
    return 0;
}

static void test_survey_of_all_nodes(void **state) {
    struct pawl *one = open_url("", LEASE_MS), *two = open_url("", LEASE_MS);
    struct pawl_lock *locks[9];
    char name[16];
    int count = 0;

    (void)state;
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "lock%d", i);
        locks[i] = mutex_of(one, name);
        assert_works(pawl_acquire(locks[i], PATIENCE_MS, &error), &error);
    }
    assert_works(pawl_inspect(two, NULL, count_entry, &count, &error), &error); /* nodes that it was not connected to */
    assert_int_equal(count, 9);
    assert_works(pawl_break(two, "lock3", pawl_token(locks[3]), 1, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(locks[3], &error), &error);
    for (int i = 0; i < 9; i++) {
        if (i != 3)
            assert_works(pawl_release(locks[i], &error), &error);
        pawl_lock_free(locks[i]);
    }
    pawl_close(one);
    pawl_close(two);
}

/* The slot moves while the lock is held and waited for: the hold goes on, and the waiter is served at the new node. */
static void moves_while_held(const char *options) {
    struct pawl *one = open_url(options, LEASE_MS), *two = open_url(options, LEASE_MS);
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    struct taker taker;
    uint64_t token;

    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    start_taker(&taker, other, PATIENCE_MS);
    await_integer(from, "ZCARD pawl:queue:{lock}", 1);
    redis_cluster_move(&cluster, "lock", to);
    await_integer(to, "ZCARD pawl:queue:{lock}", 1);
    assert_true(taker_waits(&taker));
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    assert_true(taker.token > token);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* and back, the holder alone */
    redis_cluster_move(&cluster, "lock", from);
    assert_works(pawl_release(lock, &error), &error);
    await_integer(from, "EXISTS lock pawl:who:{lock} pawl:queue:{lock}", 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(one);
    pawl_close(two);
}

static void test_a_slot_moves(void **state) {
    (void)state;
    moves_while_held("");
}

static void test_a_slot_moves_with_replicas(void **state) {
    (void)state;
    moves_while_held("?replicas=1");
}

/* A slot that is half moved for longer than the lease: renewals find their keys (ASK), nothing is lost, who asks waits. */
static void test_a_slot_is_half_moved(void **state) {
    struct pawl *one = open_url("", 3000), *two = open_url("", 3000);
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "{lock}2");
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    redis_cluster_move_begin(&cluster, slot, from, to);
    redis_cluster_move_keys(&cluster, slot, from, to);
    start_taker(&taker, other, PATIENCE_MS);
    nanosleep(&(struct timespec){.tv_sec = 5}, NULL); /* more than a lease */
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_true(taker_waits(&taker));
    redis_cluster_move_end(&cluster, slot, from, to);
    assert_int_equal(end_taker(&taker), 0);
    assert_works(pawl_release(lock, &error), &error);
    await_integer(to, "EXISTS lock pawl:who:{lock}", 0);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(one);
    pawl_close(two);
}

/* Has it refused such a command since its statistics were reset? */
static bool has_refused(struct redis_server *node, const char *command) {
    return redis_server_stat(node, command, "rejected_calls") > 0;
}

/* A slot that is about to move, with all keys still where they were. A release of the last permits makes keys vanish, and would find itself
 * cut short by that: halfway, with the permits gone from one key and not back in the other. It waits instead. */
static void test_permits_in_a_slot_that_moves(void **state) {
    struct pawl *one = open_url("", LEASE_MS), *two = open_url("", LEASE_MS);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct pawl_lock *lock, *other;
    struct taker taker;
    pthread_t releaser;
    void *released;

    (void)state;
    assert_works(pawl_semaphore_new(one, "lock", 3, PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_semaphore_new(two, "lock", 3, 0, &other, &error), &error);
    assert_works(pawl_acquire_permits(lock, 3, PATIENCE_MS, &error), &error);
    start_taker(&taker, other, PATIENCE_MS);
    await_integer(from, "ZCARD pawl:queue:{lock}", 1);
    redis_cluster_move_begin(&cluster, slot, from, to);
    freeReplyObject(redis_server_command(from, "CONFIG RESETSTAT"));
    assert_int_equal(pthread_create(&releaser, NULL, release_it, lock), 0);
    await(has_refused(from, "eval") || has_refused(from, "evalsha"), "the release is never put off");
    assert_true(taker_waits(&taker));
    redis_cluster_move_keys(&cluster, slot, from, to);
    redis_cluster_move_end(&cluster, slot, from, to);
    pthread_join(releaser, &released);
    assert_null(released);
    assert_int_equal(end_taker(&taker), 0);
    assert_int_equal(redis_server_integer(to, "ZCARD {lock}:timeout"), 0);
    assert_int_equal(redis_server_integer(to, "INCRBY lock 0"), 3);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(one);
    pawl_close(two);
}

/* Of a reader and of permits the lock's own key is at the new node, and what says that they hold is not: nothing is lost by that. */
static void test_holds_that_are_half_moved(void **state) {
    struct pawl *client = open_url("", 6000);
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to = another(from);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct pawl_lock *shared, *permits;
    redisReply *moved;

    (void)state;
    assert_works(pawl_rwlock_new(client, "lock", 0, &shared, &error), &error);
    assert_works(pawl_semaphore_new(client, "{lock}2", 3, 0, &permits, &error), &error);
    assert_works(pawl_acquire_shared(shared, PATIENCE_MS, &error), &error);
    assert_works(pawl_acquire_permits(permits, 2, PATIENCE_MS, &error), &error);
    redis_cluster_move_begin(&cluster, slot, from, to);
    moved = redis_server_command(from, "MIGRATE 127.0.0.1 %u %s 0 30000 KEYS lock pawl:who:{lock} {lock}2 pawl:who:{lock}2",
                                 to->port, "");
    assert_string_equal(moved->str, "OK");
    freeReplyObject(moved);
    assert_int_equal(redis_server_integer(from, "EXISTS {lock}2:timeout"), 1);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL); /* a renewal was due */
    assert_int_not_equal(pawl_state(shared), PAWL_LOST);
    assert_int_not_equal(pawl_state(permits), PAWL_LOST);
    redis_cluster_move_keys(&cluster, slot, from, to);
    redis_cluster_move_end(&cluster, slot, from, to);
    nanosleep(&(struct timespec){.tv_sec = 4}, NULL); /* more than a lease, in all */
    assert_int_not_equal(pawl_state(shared), PAWL_LOST);
    assert_int_not_equal(pawl_state(permits), PAWL_LOST);
    assert_works(pawl_release_shared(shared, &error), &error);
    assert_works(pawl_release(permits, &error), &error);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(shared);
    pawl_lock_free(permits);
    pawl_close(client);
}

/* Threads of two clients that take and release all the while their slot goes round. */
static void test_a_slot_moves_mid_call(void **state) {
    enum { CLIENTS = 4, MOVES = 12 };
    struct rivals rivals = {0};
    struct pawl *clients[CLIENTS];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_url("?handoff=0", LEASE_MS);
        rivals_add(&rivals, mutex_of(clients[i], "lock"));
    }
    for (int i = 0; i < MOVES; i++) {
        redis_cluster_move(&cluster, "lock", another(redis_cluster_node(&cluster, "lock", -1)));
        nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    }
    rivals_end(&rivals);
    assert_int_equal(rivals.lost, 0);
    for (int i = 0; i < CLIENTS; i++) {
        pawl_lock_free(rivals.members[i].lock);
        pawl_close(clients[i]);
    }
}

/* What `keeping` keeps goes back when another client tries. */
static void assert_given_to_a_try(struct pawl *keeping, struct pawl_lock *lock, const char *name) {
    struct keeper *keeper = keep_mutex(keeping, name);

    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered");
    keeper_idles(keeper);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    keeper_leave(keeper);
}

/* A kept lock is entered once its channel is subscribed to and the server has said since that nobody waits. Who waits tells, also at the
 * node to which the slot has moved; a try does not fail, though it must subscribe first. */
static void test_a_kept_lock(void **state) {
    struct pawl *one = open_url("", LEASE_MS), *two = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(two, "lock");
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1);
    struct keeper *keeper = keep_mutex(one, "lock");
    struct taker taker;

    (void)state;
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered");
    redis_cluster_move(&cluster, "lock", another(from));
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered after the move");
    start_taker(&taker, lock, PATIENCE_MS);
    keeper_await_wanted(keeper);
    assert_int_equal(keeper_resumes(keeper), PAWL_EHELD);
    keeper_leave(keeper);
    assert_int_equal(end_taker(&taker), 0);
    redis_cluster_move(&cluster, "lock", from);
    pawl_lock_free(lock);
    lock = mutex_of(two, "other");
    assert_given_to_a_try(one, lock, "other");
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
    keepers_free();
}

/* Who tries can't be told that it is its turn, and so can't queue: it asks once more when the time for that is over. */
static void test_a_try_that_can_not_be_told(void **state) {
    struct pawl *one = open_url("", LEASE_MS), *deaf;
    struct keeper *keeper;
    struct pawl_lock *lock;

    (void)state;
    for (int i = 0; i < CLUSTER_NODES; i++)
        freeReplyObject(redis_server_command(&cluster.nodes[i], "ACL SETUSER deaf on >deaf ~* &* +@all -ssubscribe"));
    deaf = open_client(LEASE_MS, "redis-cluster://deaf:deaf@127.0.0.1:%u", redis_cluster_node(&cluster, "lock", -1)->port);
    lock = mutex_of(deaf, "lock");
    keeper = keep_mutex(one, "lock");
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered");
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error); /* it does not go back */
    keeper_leave(keeper);
    assert_given_to_a_try(one, lock, "lock");
    pawl_lock_free(lock);
    pawl_close(deaf);
    pawl_close(one);
    keepers_free();
}

/* The channel of a kept lock went off with its slot, and nobody has that: it is not entered until it can be heard again. */
static void test_a_kept_lock_without_its_channel(void **state) {
    struct pawl *client = open_url("", LEASE_MS);
    struct redis_server *node = redis_cluster_node(&cluster, "lock", -1);
    unsigned slot = redis_cluster_slot(&cluster, "lock");
    struct keeper *keeper = keep_mutex(client, "lock");

    (void)state;
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered");
    freeReplyObject(redis_server_command(node, "CLUSTER DELSLOTS %u", slot));
    await(keeper_resumes(keeper) == PAWL_EHELD, "it is entered though it could not be heard");
    freeReplyObject(redis_server_command(node, "CLUSTER ADDSLOTS %u", slot));
    await(keeper_resumes(keeper) == PAWL__DONE, "it is never entered again");
    keeper_leave(keeper);
    pawl_close(client);
    keepers_free();
}

/* A holder whose channel is not subscribed to at the moment, be it that its grant has just come or that its connection is new, hears of a
 * break all the same: it is told until it hears. */
static void test_break_that_nobody_hears_at_first(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *one = open_url("?retry=2000,2000", 60000), *two = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(one, "lock");
    struct redis_server *node = redis_cluster_node(&cluster, "lock", -1);

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await(redis_server_integer(node, "CLIENT KILL TYPE pubsub") > 0, "nobody listens"); /* it comes back half a second later */
    assert_works(pawl_break(two, "lock", pawl_token(lock), false, &error), &error);
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_integer(node, "EXISTS lock", 0);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

/* The channels of holders and waiters of the lock that are subscribed to here. */
static size_t channels_at(struct redis_server *node) {
    redisReply *reply = redis_server_command(node, "PUBSUB SHARDCHANNELS pawl:inbox:{lock}:*");
    size_t count = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;

    freeReplyObject(reply);
    return count;
}

/* A node gives a slot up, and with it the channels there, and for a while nobody has it (CLUSTERDOWN): the holder subscribes again when
 * it can, though the slot has not moved and no connection was lost; long before its next renewal. */
static void test_a_holder_hears_again(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *one = open_url("", 6 * PATIENCE_MS), *two = open_url("", LEASE_MS);
    struct pawl_lock *lock = mutex_of(one, "lock");
    struct redis_server *node = redis_cluster_node(&cluster, "lock", -1);
    unsigned slot = redis_cluster_slot(&cluster, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    await(channels_at(node) == 1, "nobody subscribes");
    freeReplyObject(redis_server_command(node, "CONFIG RESETSTAT"));
    freeReplyObject(redis_server_command(node, "CLUSTER DELSLOTS %u", slot));
    await(has_refused(node, "ssubscribe"), "no subscription is ever refused");
    freeReplyObject(redis_server_command(node, "CLUSTER ADDSLOTS %u", slot));
    redis_cluster_node(&cluster, "lock", -1);
    await(channels_at(node) == 1, "nobody subscribes");
    assert_int_equal(redis_server_integer(node, "EXISTS lock"), 1);
    assert_works(pawl_break(two, "lock", pawl_token(lock), false, &error), &error);
    await_loss(&losses);
    pawl_release(lock, NULL);
    pawl_lock_free(lock);
    pawl_close(one);
    pawl_close(two);
}

static void test_doctor_looks_at_all_primaries(void **state) {
    struct findings findings = {.text = ""};
    struct pawl *client = open_url("", LEASE_MS);

    (void)state;
    assert_works(pawl_examine(client, add_finding, &findings, &error), &error);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        char part[64];

        snprintf(part, sizeof part, "good: 127.0.0.1:%u is a Redis", cluster.nodes[i].port);
        assert_int_equal(strstr(findings.text, part) != NULL, redis_cluster_has_slots(&cluster.nodes[i]));
    }
    assert_contains(findings.text, "warning: it has 1 replica, and does not wait until they have a lock");
    assert_contains(findings.text, "the clocks of the 6 servers are");
    pawl_close(client);
}

static void test_bad_input(void **state) {
    static const char *const names[] = {"a}b", "a{b", "{}x"};
    struct pawl *client = open_url("", LEASE_MS);
    struct redis_server alone = {.pid = 0};
    struct pawl_lock *lock;

    (void)state;
    for (int i = 0; i < 3; i++) {
        lock = mutex_of(client, names[i]);
        assert_fails(PAWL_ENAME, pawl_acquire(lock, 0, &error), &error);
        pawl_lock_free(lock);
    }
    lock = mutex_of(client, "a{b}c");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
    assert_fails(PAWL_EURL, try_open("%s/1", cluster.url), &error);
    assert_fails(PAWL_ECONNLOST, try_open("redis-cluster://127.0.0.1:1,127.0.0.1:2"), &error);
    assert_works(try_open("redis+cluster://127.0.0.1:1,127.0.0.1:%u/0", cluster.nodes[5].port),
                 &error); /* a replica knows it, too */
    redis_server_start(&alone);
    assert_fails(PAWL_ETOPOLOGY, try_open("redis-cluster://127.0.0.1:%u", alone.port), &error);
    assert_contains(error.text, "cluster");
    redis_server_free(&alone);
    /* One of its servers, as if it were alone: also where that one has the lock's slot, for it may move. */
    for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
        assert_fails(PAWL_ETOPOLOGY, try_open("redis://127.0.0.1:%u", cluster.nodes[i].port), &error);
        assert_contains(error.text, "redis-cluster:");
    }
}

/* Each node has one replica. No matter how long is waited for the second: the error says what is missing. */
/* There is nobody at the first address of that name. */
static void test_the_second_address(void **state) {
    (void)state;
    pawl_close(open_client(LEASE_MS, "redis-cluster://" NAME_OF_BOTH ":%u", cluster.nodes[0].port));
}

static void test_more_replicas_than_there_are(void **state) {
    struct pawl *client = open_url("?replicas=2", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_fails(PAWL_EREPLICAS, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_EREPLICAS, pawl_acquire(lock, 300, &error), &error);
    assert_contains(error.text, "too few replicas");
    pawl_lock_free(lock);
    pawl_close(client);
    await_integer(redis_cluster_node(&cluster, "lock", -1), "EXISTS lock", 0);
}

static void test_uncovered_slots(void **state) {
    struct redis_server *node = redis_cluster_node(&cluster, "lock", -1);
    unsigned slot = redis_cluster_slot(&cluster, "lock");

    (void)state;
    for (int i = 0; i < CLUSTER_NODES; i++)
        freeReplyObject(redis_server_command(&cluster.nodes[i], "CLUSTER DELSLOTS %u", slot));
    assert_fails(PAWL_ETOPOLOGY, try_open("redis-cluster://127.0.0.1:%u", node->port), &error);
    assert_contains(error.text, "slots have no primary");
    freeReplyObject(redis_server_command(node, "CLUSTER ADDSLOTS %u", slot));
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (&cluster.nodes[i] != node)
            freeReplyObject(redis_server_command(&cluster.nodes[i], "CLUSTER SETSLOT %u NODE %s", slot,
                                                 redis_cluster_id(redis_cluster_index(&cluster, node))));
    redis_cluster_node(&cluster, "lock", -1);
}

/* A primary dies while its lock is held and waited for, and its replica takes over. */
struct maps {
    pthread_mutex_t mutex;
    pthread_cond_t come;
    int count;
};

static void count_map(enum pawl_log_level level, const char *text, void *data) {
    struct maps *maps = data;

    (void)level;
    if (!strstr(text, "CLUSTER SLOTS: "))
        return;
    pthread_mutex_lock(&maps->mutex);
    maps->count++;
    pthread_cond_broadcast(&maps->come);
    pthread_mutex_unlock(&maps->mutex);
}

static void await_map(struct maps *maps, int count) {
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&maps->mutex);
    while (maps->count < count && pthread_cond_timedwait(&maps->come, &maps->mutex, &until) == 0)
        continue;
    assert_true(maps->count >= count);
    pthread_mutex_unlock(&maps->mutex);
}

/* A node that is stopped keeps its connections. When it is asked for the map, another one is asked soon, and not when its time is up. */
static void test_a_silent_node_is_asked_for_the_map(void **state) {
    struct maps maps = {.mutex = PTHREAD_MUTEX_INITIALIZER, .come = PTHREAD_COND_INITIALIZER};
    struct pawl_options how = {.size = sizeof how, .flags = PAWL_OPEN_TRACE, .log = count_map, .log_data = &maps};
    struct pawl_lock *locks[CLUSTER_PRIMARIES];
    struct pawl *client;
    struct redis *redis;
    char url[300];

    (void)state;
    snprintf(url, sizeof url, "%s?command=600000", cluster.url);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    for (int i = 0; i < CLUSTER_PRIMARIES; i++) { /* connect to all of them */
        locks[i] = mutex_of(client, (const char *[]){"a", "b", "c"}[i]);
        assert_works(pawl_acquire(locks[i], PATIENCE_MS, &error), &error);
    }
    redis = redis_of(client->engine);
    kill(redis_cluster_node(&cluster, "a", -1)->pid, SIGSTOP);
    for (int i = 0; i < CLUSTER_PRIMARIES; i++) { /* they are asked in turn: one of these times it is the silent one's */
        int before = maps.count;

        pawl__redis_lock(redis);
        pawl__cluster_refresh(redis);
        pawl__redis_unlock(redis);
        await_map(&maps, before + 1);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        kill(cluster.nodes[i].pid, SIGCONT);
    for (int i = 0; i < CLUSTER_PRIMARIES; i++) {
        pawl_release(locks[i], &error); /* one that was stopped for long may have been replaced, and forgotten it */
        pawl_lock_free(locks[i]);
    }
    pawl_close(client);
}

static void test_a_primary_dies(void **state) {
    struct pawl *one = open_url("?replicas=1&retry=20,200", 30000), *two = open_url("?replicas=1&retry=20,200", 30000);
    struct pawl_lock *lock = mutex_of(one, "lock"), *other = mutex_of(two, "lock");
    struct redis_server *from = redis_cluster_node(&cluster, "lock", -1), *to;
    struct taker taker;
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    start_taker(&taker, other, 2 * PATIENCE_MS);
    await_integer(from, "ZCARD pawl:queue:{lock}", 1);
    assert_int_equal(redis_server_integer(from, "WAIT 1 30000"), 1);
    redis_server_stop(from, SIGKILL);
    to = redis_cluster_node(&cluster, "lock", redis_cluster_index(&cluster, from));
    redis_server_start(from); /* it comes back as a replica, which ?replicas=1 needs */
    redis_await_replicas(to, 1);
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    assert_true(taker.token > token);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    pawl_close(one);
    pawl_close(two);
}

/* With an argument: the tests that the pattern fits. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_locks_are_everywhere, set_up),
        cmocka_unit_test_setup(test_survey_of_all_nodes, set_up),
        cmocka_unit_test_setup(test_bad_input, set_up),
        cmocka_unit_test_setup(test_the_second_address, set_up),
        cmocka_unit_test_setup(test_more_replicas_than_there_are, set_up),
        cmocka_unit_test_setup(test_a_slot_moves, set_up),
        cmocka_unit_test_setup(test_a_slot_moves_with_replicas, set_up),
        cmocka_unit_test_setup(test_a_slot_is_half_moved, set_up),
        cmocka_unit_test_setup(test_permits_in_a_slot_that_moves, set_up),
        cmocka_unit_test_setup(test_holds_that_are_half_moved, set_up),
        cmocka_unit_test_setup(test_break_that_nobody_hears_at_first, set_up),
        cmocka_unit_test_setup(test_a_holder_hears_again, set_up),
        cmocka_unit_test_setup(test_a_kept_lock, set_up),
        cmocka_unit_test_setup(test_a_try_that_can_not_be_told, set_up),
        cmocka_unit_test_setup(test_a_kept_lock_without_its_channel, set_up),
        cmocka_unit_test_setup(test_doctor_looks_at_all_primaries, set_up),
        cmocka_unit_test_setup(test_a_slot_moves_mid_call, set_up),
        cmocka_unit_test_setup(test_a_silent_node_is_asked_for_the_map, set_up),
        cmocka_unit_test_setup(test_a_primary_dies, set_up),
        /* The last: it leaves the cluster's epochs in disorder. */
        cmocka_unit_test_setup(test_uncovered_slots, set_up),
    };

    return run_redis_tests(argc, argv, "redis cluster", tests, "", NULL, stop_servers);
}
