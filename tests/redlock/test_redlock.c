/* SPDX-License-Identifier: Apache-2.0
 *
 * test_redlock.c - five servers, of which some are stopped, restarted or cut off. What every engine must do is in test_contract.c,
 * what is refused at open in test_redlock_open.c, who else holds it or waits for it in test_redlock_rivals.c; the names of the bugs are
 * those of the libraries whose users met them.
 */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/claim.h"
#include "engine/redlock/redlock.h"
#include "../support/redlock_test.h"

/* ---- Limits ----------------------------------------------------------------------------------------------------------------- */

/* A limit within the lease is written once, at each server; another is written when it is asked for, and lasts until then. */
static void test_extended_at_the_servers(void **state) {
    struct pawl *client = open_all("", 30000, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_set_max_hold(lock, 5000, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 1, 5000);
    assert_works(pawl_extend(lock, 20000, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 5001, 20000);
    for (int i = 0; i < NODES; i++)
        await(redis_server_integer(&servers[i], "PTTL lock") > 5000, "server %d has the old limit", i);
    assert_works(pawl_extend(lock, 10000, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 1, 10000);
    assert_works(pawl_extend(lock, PAWL_FOREVER, PATIENCE_MS, &error), &error);
    assert_in_range(pawl_remaining_ms(lock), 20001, 30000);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Is the vote there? And how long it counts by the answer that granted it; 0: it was renewed since. */
static bool has_vote(struct pawl *client, struct pawl_lock *lock, int node, int64_t *retlease_ms) {
    struct redlock *redlock = redlock_of(client->engine);
    struct pawl__claim *claim = &TAILQ_FIRST(&lock->cohort->claims)->seam;
    const struct vote *vote;
    bool has;

    pawl__kit_lock(&redlock->wire.kit);
    vote = bid_of(claim)->votes[node];
    has = vote && vote->state == VOTE_GRANTED;
    *retlease_ms = has && vote->grant.sent_at == vote->held_since ? vote->grant.lease_ns / REDLOCK_MS : 0;
    pawl__kit_unlock(&redlock->wire.kit);
    return has;
}

/* A server that comes later was asked by the old limit: until it has the new one, its vote counts for no longer than that. */
static void test_extended_while_a_vote_is_on_its_way(void **state) {
    enum { LAST = NODES - 1 };
    struct pawl_lock *lock;
    struct pawl *client;
    int64_t lease_ms;

    (void)state;
    use_proxies();
    client = open_all("?retry=10,50", 60000, NULL);
    lock = mutex_of(client, "lock");
    assert_works(pawl_set_max_hold(lock, 5000, &error), &error);
    proxy_isolate(proxies[LAST], true);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    proxy_delay(proxies[LAST], 400);
    proxy_isolate(proxies[LAST], false);
    await_integer(&servers[LAST], "EXISTS lock", 1);
    assert_works(pawl_extend(lock, 50000, PATIENCE_MS, &error), &error);
    await(has_vote(client, lock, LAST, &lease_ms), "it has no vote");
    assert_true(lease_ms <= 5000);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* So long its vote counts yet. */
static int64_t vote_left_ms(struct pawl *client, struct pawl_lock *lock, int node) {
    struct redlock *redlock = redlock_of(client->engine);
    const struct vote *vote;
    int64_t until;

    pawl__kit_lock(&redlock->wire.kit);
    vote = bid_of(&TAILQ_FIRST(&lock->cohort->claims)->seam)->votes[node];
    until = vote->grant.sent_at + vote->grant.lease_ns;
    pawl__kit_unlock(&redlock->wire.kit);
    return (until - pawl__boottime()) / REDLOCK_MS;
}

/* Servers that were asked for less may have done so, though they have not answered: their votes count for no longer, and a hold that is
 * extended again meanwhile is not assured by them. */
static void test_extended_to_less_and_not_answered(void **state) {
    struct pawl_lock *lock;
    struct pawl *client;

    (void)state;
    use_proxies();
    client = open_all("?retry=10,50", 60000, NULL);
    lock = mutex_of(client, "lock");
    assert_works(pawl_set_max_hold(lock, 50000, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < NODES; i++)
        await_integer(&servers[i], "EXISTS lock", 1);
    for (int i = 0; i < NODES; i++)
        proxy_delay(proxies[i], 400);
    assert_fails(PAWL_ETIMEOUT, pawl_extend(lock, 20000, 1, &error), &error);
    for (int i = 0; i < NODES; i++)
        await(redis_server_integer(&servers[i], "PTTL lock") <= 20000, "server %d has the old limit", i);
    for (int i = 0; i < NODES; i++)
        assert_in_range(vote_left_ms(client, lock, i), 1, 20000);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Servers that don't answer -------------------------------------------------------------------------------------------- */

/* A stopped server still accepts connections and requests. Nobody waits for it; it is left out; and it gets its vote once it goes on. */
static void test_one_node_stopped(void **state) {
    struct log log = LOG_INIT;
    struct pawl *client;
    struct pawl_lock *lock;
    uint64_t token = 0;

    (void)state;
    client = open_all("", LONG_MS, &log);
    lock = mutex_of(client, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    stop(4);
    for (int i = 0; i < 100000 && !log_has(&log, "is silent"); i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_true(pawl_token(lock) > token);
        token = pawl_token(lock);
        assert_true(nodes_with_lock(0, 3) >= QUORUM);
        assert_works(pawl_release(lock, &error), &error);
    }
    assert_true(log_has(&log, "is silent"));
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(lock) > token);
    go_on(4);
    await_integer(&servers[4], "EXISTS lock", 1);
    assert_works(pawl_release(lock, &error), &error);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A client that comes while two of five are stopped. */
static void test_two_nodes_stopped(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;

    (void)state;
    stop(0);
    stop(3);
    client = open_all("?connect=2000", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    for (int i = 0; i < 5; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_int_equal(redis_server_integer(&servers[1], "EXISTS lock"), 1);
        assert_works(pawl_release(lock, &error), &error);
    }
    go_on(0);
    go_on(3);
    pawl_lock_free(lock);
    pawl_close(client);
    await_free(0, 4);
}

/* No majority: an error in time, nothing left at those that answer; and it works again when one is back. */
static void test_three_nodes_stopped(void **state) {
    struct pawl *client = open_all("?connect=1000&command=500", LONG_MS, NULL), *other;
    struct pawl_lock *lock = mutex_of(client, "lock");
    int rc;

    (void)state;
    for (int i = 0; i < QUORUM; i++)
        stop(i);
    rc = pawl_acquire(lock, 300, &error);
    assert_true(rc == PAWL_ECONNLOST || rc == PAWL_ETIMEOUT);
    await_free(3, 4);
    assert_fails(PAWL_ECONNLOST, pawl_open(url_of(NODES, "?connect=300"), NULL, &other, &error), &error);
    assert_contains(error.text, "of the 5 servers");
    go_on(0);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    go_on(1);
    go_on(2);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The majority does not answer for longer than the lease: the hold is lost by our own clock. */
static void test_majority_cut_off_longer_than_the_lease(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_all("", 1500, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < QUORUM; i++)
        stop(i);
    await_loss(&losses);
    assert_int_equal(pawl_remaining_ms(lock), 0);
    for (int i = 0; i < QUORUM; i++)
        go_on(i);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Servers that forget -------------------------------------------------------------------------------------------------- */

static void test_restarted_node_is_topped_up(void **state) {
    struct pawl *client = open_all("?retry=10,200", 2000, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    for (int i = 0; i < NODES; i++)
        await_integer(&servers[i], "EXISTS lock", 1);
    for (int i = 0; i < 2; i++) {
        restart(i);
        await_integer(&servers[i], "EXISTS lock", 1);
        assert_true(counter_of(i) >= (long long)token);
    }
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_true(pawl_token(lock) == token);
    assert_works(pawl_release(lock, &error), &error);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* redsync #186: a bare majority, and one of it restarts. What came back before is topped up, so the hold goes on. */
static void test_bare_majority_then_a_restart(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;

    (void)state;
    redis_server_stop(&servers[3], SIGKILL);
    redis_server_stop(&servers[4], SIGKILL);
    client = open_all("?retry=10,200", 2000, NULL);
    lock = mutex_of(client, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_int_equal(nodes_with_lock(0, 2), QUORUM);
    for (int i = 3; i < NODES; i++) {
        redis_server_start(&servers[i]);
        await_integer(&servers[i], "EXISTS lock", 1);
    }
    restart(0);
    await_integer(&servers[0], "EXISTS lock", 1);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* A bare majority that nobody could top up, and one of it forgets: another may have got a majority, so that is a loss. */
static void test_votes_below_the_majority_are_a_loss(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client;
    struct pawl_lock *lock;

    (void)state;
    redis_server_stop(&servers[3], SIGKILL);
    redis_server_stop(&servers[4], SIGKILL);
    client = open_all("?retry=10,200", 6000, NULL);
    lock = mutex_of(client, "lock");
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    freeReplyObject(redis_server_command(&servers[0], "FLUSHALL"));
    await_loss(&losses);
    assert_contains(losses.why.text, "on fewer than 3 of the 5 servers"); /* its time was not over yet */
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* One has forgotten the hold and has it again, and two don't answer: on these three another may have had it in between. So the new vote
 * does not make up for those that are not renewed. */
static void test_new_vote_does_not_hide_a_loss(void **state) {
    struct losses losses = LOSSES_INIT;
    struct pawl *client = open_all("", 2000, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock");

    (void)state;
    assert_works(pawl_on_loss(lock, hear_loss, &losses, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    for (int i = 0; i < NODES; i++)
        await_integer(&servers[i], "EXISTS lock", 1);
    stop(2);
    stop(3);
    freeReplyObject(redis_server_command(&servers[0], "FLUSHALL"));
    await_integer(&servers[0], "EXISTS lock", 1);
    await_loss(&losses);
    go_on(2);
    go_on(3);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Answers that are lost ------------------------------------------------------------------------------------------------ */

/* A majority takes the lock, and its answers are lost. */
static void test_answers_to_acquire_are_lost(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;

    (void)state;
    use_proxies();
    client = open_all("?retry=10,200", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    for (int i = 0; i < QUORUM; i++)
        proxy_drop_answer_to(proxies[i], "pawl:vote:{lock}");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_true(nodes_with_lock(0, 4) >= QUORUM);
    assert_works(pawl_release(lock, &error), &error);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* An acquire is given up while nobody knows what the servers did. */
static void test_unknown_outcome_is_released(void **state) {
    struct pawl *client, *other;
    struct pawl_lock *lock, *rival;

    (void)state;
    other = open_all("", LONG_MS, NULL);
    use_proxies();
    client = open_all("?retry=10,200&command=500", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    rival = mutex_of(other, "lock");
    for (int i = 0; i < QUORUM; i++)
        proxy_freeze(proxies[i], true);
    assert_true(pawl_acquire(lock, 100, &error) < 0);
    for (int i = 0; i < QUORUM; i++)
        proxy_freeze(proxies[i], false);
    assert_works(pawl_acquire(rival, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(rival, &error), &error);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_lock_free(rival);
    pawl_close(client);
    pawl_close(other);
}

/* A release that a minority does not hear of is one all the same; they hear of it later. */
static void test_release_of_unknown_outcome(void **state) {
    struct pawl *client, *other;
    struct pawl_lock *lock, *rival;
    uint64_t token;

    (void)state;
    other = open_all("", LONG_MS, NULL);
    use_proxies();
    client = open_all("?retry=10,200&command=500", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    rival = mutex_of(other, "lock");
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    for (int i = 0; i < NODES; i++)
        await_integer(&servers[i], "EXISTS lock", 1);
    proxy_freeze(proxies[0], true);
    proxy_freeze(proxies[4], true);
    assert_works(pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(rival, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(rival) > token);
    proxy_freeze(proxies[0], false);
    proxy_freeze(proxies[4], false);
    assert_works(pawl_release(rival, &error), &error);
    await_free(0, 4);
    pawl_lock_free(lock);
    pawl_lock_free(rival);
    pawl_close(client);
    pawl_close(other);
}

/* ---- Time ----------------------------------------------------------------------------------------------------------------- */

/* node-redlock #296: what is assured counts from the attempt that got the lock, not from the first one. */
static void test_validity_counts_from_the_last_attempt(void **state) {
    struct pawl *client = open_all("", 3000, NULL), *other = open_all("", 3000, NULL);
    struct pawl_lock *lock = mutex_of(client, "lock"), *rival = mutex_of(other, "lock");
    struct taker taker;
    int64_t assured;
    int longer = 0;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    start_taker(&taker, rival, PATIENCE_MS);
    nanosleep(&(struct timespec){.tv_sec = 4}, NULL); /* it waits for longer than its lease */
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(end_taker(&taker), 0);
    assert_works(pawl_acquire(rival, PATIENCE_MS, &error), &error);
    for (int i = 0; i < NODES; i++) {
        long long left = redis_server_integer(&servers[i], "PTTL lock");

        assured = pawl_remaining_ms(rival);
        longer += left >= assured;
    }
    assert_true(longer >= QUORUM);
    assert_works(pawl_release(rival, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(rival);
    pawl_close(client);
    pawl_close(other);
}

/* The client that is paused: what it holds, how long, and what it is told afterwards. */
static int hold_and_be_paused(const char *url, int out) {
    struct pawl_options how = {.size = sizeof how, .lease_ms = 1000};
    struct pawl_lock *lock;
    struct pawl *client;
    uint64_t token;
    char end = '?';

    if (pawl_open(url, &how, &client, NULL) < 0 || pawl_mutex_new(client, "lock", 0, &lock, NULL) < 0 ||
        pawl_acquire(lock, PATIENCE_MS, NULL) < 0)
        return 1;
    token = pawl_token(lock);
    if (write(out, &token, sizeof token) != sizeof token)
        return 1;
    raise(SIGSTOP);
    if (pawl_remaining_ms(lock) == 0 && pawl_state(lock) == PAWL_LOST && pawl_release(lock, NULL) == PAWL_ELOST)
        end = 'l';
    return write(out, &end, 1) == 1 ? 0 : 1;
}

static void test_paused_client(void **state) {
    struct pawl *client;
    struct pawl_lock *lock;
    uint64_t token;
    int ends[2];
    pid_t child;
    char end;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char number[16];

        snprintf(number, sizeof number, "%d", ends[1]);
        execl("/proc/self/exe", "test_redlock", "--be-paused", url_of(NODES, ""), number, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(read(ends[0], &token, sizeof token), sizeof token);
    client = open_all("", 0, NULL);
    lock = mutex_of(client, "lock");
    waitpid(child, NULL, WUNTRACED);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error); /* nobody can keep it: the lease ends */
    assert_true(pawl_token(lock) > token);
    kill(child, SIGCONT);
    assert_int_equal(read(ends[0], &end, 1), 1);
    assert_int_equal(end, 'l');
    waitpid(child, NULL, 0);
    assert_true(nodes_with_lock(0, 4) >= QUORUM); /* and it took nothing from us */
    assert_works(pawl_release(lock, &error), &error);
    close(ends[0]);
    close(ends[1]);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------- */

/* The servers' counters differ, and so do the majorities: {1,2,3}, then {3,4,5}. */
static void test_tokens_rise_when_majorities_differ(void **state) {
    struct pawl *client = open_all("?connect=500&command=500", LONG_MS, NULL), *late;
    struct pawl_lock *lock = mutex_of(client, "lock"), *rival;
    uint64_t token;
    int written = 0;

    (void)state;
    freeReplyObject(redis_server_command(&servers[0], "SET pawl:vote:{lock} 4000000000000000"));
    freeReplyObject(redis_server_command(&servers[1], "SET pawl:vote:{lock} 3000000000000000"));
    stop(3);
    stop(4);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    token = pawl_token(lock);
    assert_true(token > 4000000000000000);
    for (int i = 0; i < QUORUM; i++)
        written += counter_of(i) >= (long long)token;
    assert_int_equal(written, QUORUM);
    assert_works(pawl_release(lock, &error), &error);
    go_on(3);
    go_on(4);
    await_free(0, 4);
    stop(0);
    stop(1);
    late = open_all("?connect=2000", LONG_MS, NULL);
    rival = mutex_of(late, "lock");
    assert_works(pawl_acquire(rival, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(rival) > token);
    assert_works(pawl_release(rival, &error), &error);
    go_on(0);
    go_on(1);
    pawl_lock_free(lock);
    pawl_lock_free(rival);
    pawl_close(client);
    pawl_close(late);
}

/* What would raise the counter to the token does not arrive. */
static enum proxy_verdict cut_before_raise(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                           size_t length) {
    (void)connection;
    return from == PROXY_CLIENT && memmem(message, length, data, strlen(data)) ? PROXY_CUT_BEFORE : PROXY_PASS;
}

/* Of the quorum that votes one has a lower counter. Nobody is told of the token before that one has it, too: another quorum would give the
 * same once more. */
static void test_token_is_not_told_before_it_is_written(void **state) {
    static char token[] = "4000000000000001";
    struct pawl *client;
    struct pawl_lock *lock;
    int rc;

    (void)state;
    freeReplyObject(redis_server_command(&servers[0], "SET pawl:vote:{lock} 4000000000000000"));
    freeReplyObject(redis_server_command(&servers[1], "SET pawl:vote:{lock} 4000000000000000"));
    proxies[2] = proxy_new(servers[2].port, NULL, cut_before_raise, token);
    client = open_all("?connect=500&command=500", LONG_MS, NULL);
    lock = mutex_of(client, "lock");
    stop(3);
    stop(4);
    rc = pawl_acquire(lock, 1000, &error);
    assert_true(rc == PAWL_ETIMEOUT || rc == PAWL_ECONNLOST); /* by whether the third is connected at that moment */
    assert_true(counter_of(2) < 4000000000000000);
    go_on(3);
    go_on(4);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* How many tokens the claim that waits asks for, by the threads that have joined it. */
static uint32_t tokens_wanted(struct pawl_lock *lock) {
    struct claim *claim;
    uint32_t want;

    pthread_mutex_lock(&lock->cohort->mutex);
    claim = TAILQ_FIRST(&lock->cohort->claims);
    want = claim ? atomic_load(&claim->seam.token_want) : 0;
    pthread_mutex_unlock(&lock->cohort->mutex);
    return want;
}

/* A vote that was asked for before others joined comes with the token of the hold, and with fewer than they need: its voter is asked to
 * write the rest. Two of three servers are there, the first one with a counter above the time. */
static void test_an_earlier_vote_has_too_few_tokens(void **state) {
    enum { TAKERS = 3 };
    struct taker takers[TAKERS];
    struct pawl_lock *lock;
    struct pawl *client;

    (void)state;
    freeReplyObject(redis_server_command(&servers[0], "SET pawl:vote:{lock} 4000000000000000"));
    freeReplyObject(redis_server_command(&servers[1], "SET lock other PX %d", LONG_MS));
    use_proxies();
    proxy_isolate(proxies[2], true);
    client = open_client(LONG_MS, "%s", url_of(3, "?connect=2000&command=60000"));
    lock = mutex_of(client, "lock");
    proxy_freeze(proxies[0], true);
    start_taker(&takers[0], lock, PATIENCE_MS);
    await_integer(&servers[1], "ZCARD pawl:wait:{lock}", 1);
    for (int i = 1; i < TAKERS; i++)
        start_taker(&takers[i], lock, PATIENCE_MS);
    await(tokens_wanted(lock) >= TAKERS, "the others never join");
    freeReplyObject(redis_server_command(&servers[1], "DEL lock"));
    await_integer(&servers[1], "EXISTS lock", 1);
    proxy_freeze(proxies[0], false);
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(end_taker(&takers[i]), 0);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* From the first message with the token on nothing arrives. */
struct deaf {
    const char *token;
    _Atomic bool now;
};

static enum proxy_verdict be_deaf(void *data, unsigned connection, enum proxy_side from, const unsigned char *message,
                                  size_t length) {
    struct deaf *deaf = data;

    (void)connection;
    if (from == PROXY_CLIENT && memmem(message, length, deaf->token, strlen(deaf->token)))
        deaf->now = true;
    return deaf->now ? PROXY_DROP : PROXY_PASS;
}

static void count_attempts(enum pawl_log_level level, const char *text, void *data) {
    (void)level;
    if (strstr(text, "taken back"))
        atomic_fetch_add((_Atomic int *)data, 1);
}

/* A vote that is being taken back can't be asked for. Where too many are, the bid rests: attempts in which nobody is asked would follow
 * each other within a ms, until the voters are given up. */
static void test_who_waits_for_returned_votes_rests(void **state) {
    struct deaf deaf = {.token = "4000000000000001"};
    _Atomic int attempts = 0;
    struct pawl_options how = {
        .size = sizeof how, .lease_ms = 500, .flags = PAWL_OPEN_TRACE, .log = count_attempts, .log_data = &attempts};
    struct pawl *client;
    struct pawl_lock *lock;

    (void)state;
    freeReplyObject(redis_server_command(&servers[0], "SET pawl:vote:{lock} 4000000000000000"));
    for (int i = 0; i < QUORUM; i++)
        proxies[i] = proxy_new(servers[i].port, NULL, be_deaf, &deaf);
    assert_works(pawl_open(url_of(NODES, "?command=30000"), &how, &client, &error), &error);
    lock = mutex_of(client, "lock");
    stop(3);
    stop(4);
    assert_true(pawl_acquire(lock, 1000, &error) < 0);
    assert_true(deaf.now);
    assert_in_range(attempts, 1, 20);
    pawl_lock_free(lock);
    pawl_close(client);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_extended_at_the_servers),
        TEST(test_extended_while_a_vote_is_on_its_way),
        TEST(test_extended_to_less_and_not_answered),
        TEST(test_one_node_stopped),
        TEST(test_two_nodes_stopped),
        TEST(test_three_nodes_stopped),
        TEST(test_majority_cut_off_longer_than_the_lease),
        TEST(test_restarted_node_is_topped_up),
        TEST(test_bare_majority_then_a_restart),
        TEST(test_votes_below_the_majority_are_a_loss),
        TEST(test_new_vote_does_not_hide_a_loss),
        TEST(test_answers_to_acquire_are_lost),
        TEST(test_unknown_outcome_is_released),
        TEST(test_release_of_unknown_outcome),
        TEST(test_validity_counts_from_the_last_attempt),
        TEST(test_paused_client),
        TEST(test_tokens_rise_when_majorities_differ),
        TEST(test_token_is_not_told_before_it_is_written),
        TEST(test_an_earlier_vote_has_too_few_tokens),
        TEST(test_who_waits_for_returned_votes_rests),
    };

    if (argc == 4 && strcmp(argv[1], "--be-paused") == 0)
        return hold_and_be_paused(argv[2], atoi(argv[3]));
    return run_redis_tests(argc, argv, "redlock", tests, "test_paused_client", NULL, stop_servers);
}
