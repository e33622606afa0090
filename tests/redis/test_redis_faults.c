/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redis_faults.c - a server, and a connection to it that misbehaves: lost answers, cuts, half-open connections, servers that
 * stop, forget or restart. What a server refuses is in test_redis_refusals.c. The names of the bugs are those of the libraries
 * whose users met them.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../support/redis_far.h"

/* The next write that has this text in it finds its connection broken: it is reset, and nobody has read of that yet. The library writes
 * by this, too. */
static const char *_Atomic unwritable;

ssize_t send(int fd, const void *data, size_t size, int flags) {
    const char *text = atomic_load(&unwritable);

    if (text && memmem(data, size, text, strlen(text)) && atomic_exchange(&unwritable, NULL)) {
        errno = ECONNRESET;
        return -1;
    }
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}

/* Behind one name are two servers, and the inbox comes to lead to the other one, where nobody ever publishes to it: that is noticed, and
 * both connections are made anew, at one server. The hold is not there, and that is told. */
static void test_the_inbox_leads_elsewhere(void **state) {
    struct losses losses = LOSSES_INIT;
    struct redis_server second = {0};
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    redis_server_start(&second);
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_close(near);
    near = NULL;
    proxy_aim(proxy, second.port);
    assert_in_range(redis_server_integer(&server, "CLIENT KILL TYPE pubsub"), 1, 2); /* the other one's may still be there */
    await_integer(&server, "EXISTS lock", 0);                                        /* renewed there no more */
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&second, "EXISTS lock"), 1);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(far);
    far = NULL;
    redis_server_free(&second);
}

/* Nothing was sent, so no answer is missing; it must be asked all the same when the connection is there again. */
static void test_acquire_cannot_be_written(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    atomic_store(&unwritable, "pawl:who:{lock}");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_null(atomic_load(&unwritable));
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void test_release_cannot_be_written(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(redis_server_integer(&server, "PERSIST lock"), 1); /* no end of a lease helps */
    atomic_store(&unwritable, "pawl:who:{lock}");
    assert_works(pawl_release(lock, &error), &error);
    assert_null(atomic_load(&unwritable));
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(other, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* One that waits asks again by its timer, and finds the connection broken; meanwhile the server forgets that it waits. */
static void test_waiter_cannot_write(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    start_holder(&taker, lock, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    atomic_store(&unwritable, "pawl:queue:{lock}");
    await(!atomic_load(&unwritable), "it never asks again");
    freeReplyObject(redis_server_command(&server, "DEL pawl:queue:{lock}"));
    pawl_release(other, &error);
    assert_int_equal(end_taker(&taker), 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Redisson #1966, #4109: the server acquired, and the answer was lost. */
static void test_answer_to_acquire_is_lost(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");

    (void)state;
    proxy_drop_answer_to(proxy, "pawl:who:{lock}");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(proxy_dropped(proxy));
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* The acquire gave up before the connection was back: the hold that the server has must not stay. */
static void test_unknown_outcome_is_released(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");

    (void)state;
    proxy_freeze(proxy, true);
    assert_true(pawl_acquire(lock, 50, &error) < 0);
    proxy_freeze(proxy, false);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(other, &error), &error);
    await_integer(&server, "EXISTS lock pawl:queue:{lock}", 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Redisson #4871: the release was carried out, its answer lost; asking again must not be taken for a loss. */
static void test_answer_to_release_is_lost(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    proxy_drop_answer_to(proxy, "pawl:who:{lock}");
    assert_works(pawl_release(lock, &error), &error);
    await_integer(&server, "EXISTS lock", 0);
    await(proxy_dropped(proxy), "the answer was never held back");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void note_result(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)why;
    *(int *)data = result;
}

/* A hold that came to the service thread is released by another: nobody parks for the answer, and the service thread must be listening
 * for it, not only look at it by chance when its next timer wakes it. */
static void test_answer_to_release_is_listened_for(void **state) {
    struct server *one = server_of(near);
    struct pawl_lock *lock;
    int result = 1;

    (void)state;
    assert_works(pawl_mutex_new(near, "lock", PAWL_TASK, &lock, &error), &error);
    assert_works(pawl_acquire_start(lock, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, note_result, &result, &error), &error);
    await(pawl_dispatch(near) == 1, "it is never granted");
    assert_int_equal(result, 0);
    await(!owes_answers(one), "answers never come");
    kill(server.pid, SIGSTOP);
    assert_works(pawl_release(lock, &error), &error);
    pawl__redis_lock(one->redis);
    result = !TAILQ_EMPTY(&one->commands.sent) && one->commands.watched & EPOLLIN;
    pawl__redis_unlock(one->redis);
    kill(server.pid, SIGCONT);
    assert_true(result);
    await_integer(&server, "EXISTS lock", 0);
    pawl_lock_free(lock);
}

/* The first in the queue is dead, and it was written down more than six seconds ago who waited. A client that has asked since then is not
 * taken for dead: it keeps its place before one that came later. */
static void test_a_living_waiter_keeps_its_place(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *behind = mutex_of(near, "lock");
    struct taker first, second;
    char marked[100];

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock somebody 1"));
    freeReplyObject(
        redis_server_command(&server, "ZADD pawl:queue:{lock} 0 %s", "00000000-0000-8000-8000-000000000000:0 x 1 1 pawl1"));
    start_holder(&first, lock, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 2);
    freeReplyObject(
        redis_server_command(&server, "EVAL %s 0",
                             "for _, member in ipairs(redis.call('ZRANGE', 'pawl:queue:{lock}', 0, -1)) do "
                             "redis.call('HSET', 'pawl:roll:{lock}', 'begun', redis.call('TIME')[1] - 7 .. '000000', member, '') "
                             "end"));
    snprintf(marked, sizeof marked, "HEXISTS pawl:roll:{lock} %s", redis_of(far->engine)->uuid);
    await_integer(&server, marked, 1);
    start_holder(&second, behind, PATIENCE_MS);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 3);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    assert_int_equal(end_taker(&first), 0);
    assert_true(taker_waits(&second));
    assert_int_equal(redis_server_integer(&server, "ZCARD pawl:queue:{lock}"), 1);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    assert_int_equal(end_taker(&second), 0);
    pawl_lock_free(lock);
    pawl_lock_free(behind);
}

/* Redisson #4698, #3854: cut off for longer than the lease, the holder is told, by its own clock; no renewal leaves after that. */
static void test_cut_off_longer_than_the_lease(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    proxy_isolate(proxy, true);
    await_loss(&losses);
    assert_true(losses.token == token);
    assert_int_equal(pawl_remaining_ms(lock), 0);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    proxy_isolate(proxy, false);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 2); /* the other's, untouched */
    assert_works(pawl_release(other, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* #3194: and it can be held and renewed again */
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A renewal that finds another's hold leaves it as it is; one that finds nothing revives nothing. */
static void test_late_renewal_changes_nothing(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    freeReplyObject(redis_server_command(&server, "HSET lock somebody-else:1 1"));
    freeReplyObject(redis_server_command(&server, "PEXPIRE lock 100000"));
    await_loss(&losses);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 1);
    assert_int_equal(redis_server_integer(&server, "HEXISTS lock somebody-else:1"), 1);
    assert_in_range(redis_server_integer(&server, "PTTL lock"), LEASE_MS + 1, 100000);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_int_equal(redis_server_integer(&server, "HLEN lock"), 1);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    losses.lost = 0;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "DEL lock"));
    await_loss(&losses);
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

/* Redisson #7272: after the release nothing renews any more. */
static void test_renewal_stops_with_the_release(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");
    long scripts;

    (void)state;
    for (int i = 0; i < 200; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
    }
    assert_int_equal(redis_server_integer(&server, "EXISTS lock"), 0);
    await(!owes_answers(server_of(far)), "answers never come");
    scripts = redis_server_scripts(&server);
    freeReplyObject(redis_server_command(&server, "SET moment 1 PX 3000"));
    await_integer(&server, "EXISTS moment", 0); /* that was twice the lease */
    assert_int_equal(redis_server_scripts(&server), scripts);
    pawl_lock_free(lock);
}

static void test_flushall_is_a_loss(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(far, "lock");
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    freeReplyObject(redis_server_command(&server, "FLUSHALL"));
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(lock) > token); /* the counter is gone too, and tokens rise all the same */
    pawl_lock_free(lock);
}

/* A restart or a failover may bring back an older counter; connections end with that. Tokens rise all the same. */
static void test_tokens_rise_over_an_older_counter(void **state) {
    struct pawl_lock *lock = mutex_of(near, "lock");
    uint64_t first = 0, last = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(lock) > last);
        last = pawl_token(lock);
        first = first ? first : last;
        assert_works(pawl_release(lock, &error), &error);
    }
    freeReplyObject(redis_server_command(&server, "SET redisson_lock_token:{lock} %llu", (unsigned long long)first));
    freeReplyObject(redis_server_command(&server, "CLIENT KILL TYPE normal SKIPME yes"));
    for (int i = 0; i < 3; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(lock) > last);
        last = pawl_token(lock);
        assert_works(pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
}

static void test_script_flush(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&server, "SCRIPT FLUSH"));
    assert_works(pawl_release(lock, &error), &error);
    freeReplyObject(redis_server_command(&server, "SCRIPT FLUSH"));
    assert_works(pawl_acquire(lock, 0, &error), &error);
    freeReplyObject(redis_server_command(&server, "SCRIPT FLUSH"));
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* longer than the lease: renewals need the script too */
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
}

static void *run_long_script(void *data) {
    redisContext *context = redisConnectUnix(server.socket_path);
    redisReply *reply = redisCommand(context, "EVAL %s 0",
                                     "local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + 1200000 "
                                     "repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e return 1");

    (void)data;
    freeReplyObject(reply);
    redisFree(context);
    return NULL;
}

/* Redisson PR #3334: BUSY stopped the watchdog. */
static void test_busy_server(void **state) {
    struct pawl *client = open_at(proxy_port(proxy), "", 5000);
    struct pawl_lock *held = mutex_of(client, "held"), *lock = mutex_of(client, "lock");
    pthread_t thread;

    (void)state;
    freeReplyObject(redis_server_command(&server, "CONFIG SET busy-reply-threshold 20"));
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    assert_int_equal(pthread_create(&thread, NULL, run_long_script, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* so that the script runs: it can't be asked */
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pthread_join(thread, NULL);
    assert_int_equal(pawl_state(held), PAWL_HELD);
    assert_works(pawl_release(held, &error), &error);
    freeReplyObject(redis_server_command(&server, "CONFIG SET busy-reply-threshold 5000"));
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_stopped_server(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(near, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    kill(server.pid, SIGSTOP);
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_acquire(lock, 0, &error), &error);
    kill(server.pid, SIGCONT);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

/* Nothing comes, and nothing says that nothing will. */
static void test_half_open_connection(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");

    (void)state;
    proxy_freeze(proxy, true);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 100, &error), &error);
    assert_contains(error.text, "has not answered"); /* and not that others hold it */
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 3000, &error), &error);
    proxy_isolate(proxy, true); /* and the connections that are stuck in it are gone */
    proxy_freeze(proxy, false);
    proxy_isolate(proxy, false);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

static void test_try_without_a_connection(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");
    int rc;

    (void)state;
    proxy_isolate(proxy, true);
    for (int i = 0; i < PATIENCE_MS; i++) {
        rc = pawl_acquire(lock, 0, &error);
        if (rc == PAWL_ECONNLOST)
            break;
        assert_int_equal(rc, 0); /* it had not noticed yet */
        pawl_release(lock, NULL);
    }
    assert_int_equal(rc, PAWL_ECONNLOST);
    proxy_isolate(proxy, false);
    pawl_lock_free(lock);
}

static void test_tries_to_reconnect_are_bounded(void **state) {
    struct pawl *client = open_at(proxy_port(proxy), "?retry=1,5,3", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock"), *held = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    proxy_isolate(proxy, true);
    assert_int_equal(end_taker(&taker), PAWL_ECONNLOST);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
}

/* The same when only the inbox can't be opened: an acquire is on its way on the other connection. Its answer is for nobody, and what it got
 * is given back. */
static void test_gives_up_while_an_answer_is_due(void **state) {
    struct pawl *client = open_at(proxy_port(proxy), "?retry=1,5,3&command=60000", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock");
    struct taker taker;

    (void)state;
    proxy_delay(proxy, LEASE_MS / 2);
    proxy_refuse(proxy, true);
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "EXISTS lock", 1);
    redis_server_integer(&server, "CLIENT KILL TYPE pubsub");
    assert_int_equal(end_taker(&taker), PAWL_ECONNLOST);
    pawl_lock_free(lock);
    await_integer(&server, "EXISTS lock", 0);
    assert_true(owes_answers(server_of(client))); /* so that was not the end of its lease */
    await(!owes_answers(server_of(client)), "the answer never comes");
    proxy_refuse(proxy, false);
    proxy_delay(proxy, 0);
    pawl_close(client);
}

/* Those that were given up still stand in the queue of a server that could not be told. When it can be, they leave: each would have its
 * turn, for as long as a grant waits to be confirmed, while all others wait. */
static void test_given_up_and_still_in_the_queue(void **state) {
    enum { WAITERS = 3 };
    struct pawl *client = open_at(proxy_port(proxy), "?retry=1,5,3&handoff=0", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock"), *held = mutex_of(near, "lock");
    struct taker takers[WAITERS];

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    for (int i = 0; i < WAITERS; i++)
        start_taker(&takers[i], lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", WAITERS);
    proxy_isolate(proxy, true);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(end_taker(&takers[i]), PAWL_ECONNLOST);
    assert_int_equal(redis_server_integer(&server, "ZCARD pawl:queue:{lock}"), WAITERS);
    proxy_isolate(proxy, false);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 0);
    assert_works(pawl_release(held, &error), &error);
    assert_works(pawl_acquire(held, 0, &error), &error);
    assert_works(pawl_release(held, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
}

/* Has it a server again that has answered all? */
static bool is_through(struct pawl *client) {
    struct server *its = server_of(client);
    bool up;

    pawl__redis_lock(its->redis);
    up = pawl__server_up(its);
    pawl__redis_unlock(its->redis);
    return up && !owes_answers(its);
}

/* The server can be told, and can't write: it is told again. */
static void test_given_up_and_not_to_be_undone_yet(void **state) {
    struct pawl *client = open_at(proxy_port(proxy), "?retry=1,5,3", LEASE_MS);
    struct pawl_lock *lock = mutex_of(client, "lock"), *held = mutex_of(near, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_acquire(held, PATIENCE_MS, &error), &error);
    start_taker(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    proxy_isolate(proxy, true);
    assert_int_equal(end_taker(&taker), PAWL_ECONNLOST);
    freeReplyObject(redis_server_command(&server, "CONFIG SET min-replicas-to-write 1"));
    proxy_isolate(proxy, false);
    await(is_through(client), "it is never connected again");
    assert_int_equal(redis_server_integer(&server, "ZCARD pawl:queue:{lock}"), 1);
    freeReplyObject(redis_server_command(&server, "CONFIG SET min-replicas-to-write 0"));
    await_integer(&server, "ZCARD pawl:queue:{lock}", 0);
    pawl_release(held, NULL);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
}

/* Redisson #6026: after a restart the subscription is made again, and the waiter asks again. */
static void test_restart_of_the_server(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl_lock *lock = mutex_of(near, "lock"), *other = mutex_of(far, "lock");
    struct taker taker;

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    start_taker(&taker, other, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    redis_server_stop(&server, SIGKILL);
    redis_server_start(&server);
    assert_int_equal(end_taker(&taker), 0); /* the lock is gone with the server's memory; its holder hears of it */
    await_loss(&losses);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Redisson #5761: everything comes late, nothing is missed. */
static void test_slow_connection(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock"), *other = mutex_of(near, "lock");

    (void)state;
    proxy_delay(proxy, 30);
    for (int i = 0; i < 5; i++) {
        struct taker taker;

        assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
        start_taker(&taker, lock, PAWL_FOREVER);
        await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
        assert_works(pawl_release(other, &error), &error);
        assert_int_equal(end_taker(&taker), 0);
    }
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* A grant that is pushed too late to be believed may be an earlier one than that which the server has by now: granted, expired, queued
 * again and granted again, while the first message lay in the socket. The token is that of the later one. */
static void test_late_grant_has_the_token_of_the_last(void **state) {
    struct pawl_lock *lock = mutex_of(far, "lock");
    redisReply *queue, *end;
    struct taker taker;
    char owner[64];

    (void)state;
    freeReplyObject(redis_server_command(&server, "HSET lock foreign 1"));
    start_holder(&taker, lock, PAWL_FOREVER);
    await_integer(&server, "ZCARD pawl:queue:{lock}", 1);
    queue = redis_server_command(&server, "ZRANGE pawl:queue:{lock} 0 0");
    assert_int_equal(sscanf(queue->element[0]->str, "%63s", owner), 1);
    freeReplyObject(queue);
    end = redis_server_command(
        &server, "EVAL %s 0 %s",
        "redis.call('DEL', 'lock', 'pawl:queue:{lock}')"
        "redis.call('HSET', 'lock', ARGV[1], 1, '@' .. ARGV[1], '4000000000000000 1 x 1 1 pawl1')"
        "redis.call('PEXPIRE', 'lock', 30000)"
        "local uuid, number = string.match(ARGV[1], '(.*):(.*)')"
        "return redis.call('PUBLISH', 'pawl:inbox:' .. uuid, 'g ' .. number .. ' 1000000000000000 1 1 2000')",
        owner);
    assert_int_equal(end->integer, 1);
    freeReplyObject(end);
    assert_int_equal(end_taker(&taker), 0);
    assert_true(taker.token == 4000000000000000);
    pawl_lock_free(lock);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_acquire_cannot_be_written),
        TEST(test_the_inbox_leads_elsewhere),
        TEST(test_release_cannot_be_written),
        TEST(test_waiter_cannot_write),
        TEST(test_answer_to_acquire_is_lost),
        TEST(test_unknown_outcome_is_released),
        TEST(test_answer_to_release_is_lost),
        TEST(test_answer_to_release_is_listened_for),
        TEST(test_a_living_waiter_keeps_its_place),
        TEST(test_cut_off_longer_than_the_lease),
        TEST(test_late_renewal_changes_nothing),
        TEST(test_late_grant_has_the_token_of_the_last),
        TEST(test_renewal_stops_with_the_release),
        TEST(test_flushall_is_a_loss),
        TEST(test_tokens_rise_over_an_older_counter),
        TEST(test_script_flush),
        TEST(test_busy_server),
        TEST(test_stopped_server),
        TEST(test_half_open_connection),
        TEST(test_try_without_a_connection),
        TEST(test_tries_to_reconnect_are_bounded),
        TEST(test_gives_up_while_an_answer_is_due),
        TEST(test_given_up_and_still_in_the_queue),
        TEST(test_given_up_and_not_to_be_undone_yet),
        TEST(test_restart_of_the_server),
        TEST(test_slow_connection),
    };

    return run_redis_tests(argc, argv, "redis faults", tests, "test_busy_server", NULL, stop_server);
}
