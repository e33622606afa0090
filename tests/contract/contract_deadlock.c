/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_deadlock.c - threads of one process that wait for each other: found by the second of a wait, told once, and ended if wanted.
 *
 * Players take one lock, wait until they are sent, and then want another. Whether something is *not* told can't be waited for; but one look
 * is at all of a process, so what was not told when a deadlock beside it was is not told.
 */
#include "contract.h"

enum { PLAYERS = 64, RING_MAX = 10 };

static struct pawl_error error;

/* ---- What is told ----------------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    unsigned logged, told, members, ended;
    int64_t left_ms;
    char text[4096], names[512];
} heard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void log_line(enum pawl_log_level level, const char *text, void *data) {
    (void)data;
    if (level != PAWL_LOG_WARNING || strncmp(text, "deadlock", strlen("deadlock")) != 0)
        return;
    pthread_mutex_lock(&heard.mutex);
    heard.logged++;
    snprintf(heard.text, sizeof heard.text, "%s", text);
    pthread_mutex_unlock(&heard.mutex);
}

static void on_deadlock(const struct pawl_deadlock *found, void *data) {
    (void)data;
    pthread_mutex_lock(&heard.mutex);
    heard.told++;
    heard.members = (unsigned)found->count;
    heard.left_ms = found->left_ms;
    for (size_t i = 0; i < found->count; i++) {
        heard.ended += found->members[i]->ended != 0;
        if (found->members[i]->by >= found->count || !strstr(found->text, "waits for"))
            heard.told += 1000;
        strcat(strcat(heard.names, " "), found->members[i]->name);
    }
    pthread_mutex_unlock(&heard.mutex);
}

static unsigned told(void) {
    unsigned count;

    pthread_mutex_lock(&heard.mutex);
    count = heard.told;
    pthread_mutex_unlock(&heard.mutex);
    return count;
}

static struct pawl *open_with(const char *options) {
    return contract_open_as(options, (struct pawl_options){.log = log_line, .deadlock = on_deadlock});
}

/* ---- Players ---------------------------------------------------------------------------------------------------------------- */

struct player {
    pthread_t thread;
    struct pawl_lock *first, *second; /* the first may be NULL */
    bool first_shared, second_shared;
    int64_t timeout_ms;
    bool sent;
    uint64_t token; /* of the first */
    int result;
};

static struct player players[PLAYERS];
static size_t count, ready, done; /* so many have their first, and so many are through */
static struct pawl_lock *locks[2 * PLAYERS];
static size_t lock_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int take(struct pawl_lock *lock, bool shared, int64_t timeout_ms) {
    return shared ? pawl_acquire_shared(lock, timeout_ms, NULL) : pawl_acquire(lock, timeout_ms, NULL);
}

static void give(struct pawl_lock *lock, bool shared) {
    if (shared)
        pawl_release_shared(lock, NULL);
    else
        pawl_release(lock, NULL);
}

static void *play(void *data) {
    struct player *player = data;
    int rc = player->first ? take(player->first, player->first_shared, PAWL_FOREVER) : 0;

    pthread_mutex_lock(&mutex);
    player->result = rc;
    player->token = player->first ? pawl_token(player->first) : 0;
    ready++;
    pthread_cond_broadcast(&changed);
    while (!player->sent)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    if (rc == 0)
        player->result = take(player->second, player->second_shared, player->timeout_ms);
    if (rc == 0 && player->result == 0)
        give(player->second, player->second_shared);
    if (rc == 0 && player->first)
        give(player->first, player->first_shared);
    pthread_mutex_lock(&mutex);
    done++;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static bool all_done(void) {
    bool all;

    pthread_mutex_lock(&mutex);
    all = done == count;
    pthread_mutex_unlock(&mutex);
    return all;
}

static struct pawl_lock *keep(struct pawl_lock *lock) {
    return locks[lock_count++] = lock;
}

static struct pawl_lock *make(struct pawl *client, const char *name, enum pawl_kind kind, unsigned flags) {
    struct pawl_lock *lock;
    int rc = kind == PAWL_MUTEX    ? pawl_mutex_new(client, name, flags, &lock, &error)
             : kind == PAWL_RWLOCK ? pawl_rwlock_new(client, name, flags, &lock, &error)
                                   : pawl_semaphore_new(client, name, 2, flags, &lock, &error);

    assert_works(rc, &error);
    return keep(lock);
}

static struct player *add(struct pawl_lock *first, struct pawl_lock *second) {
    players[count] = (struct player){.first = first, .second = second, .timeout_ms = PAWL_FOREVER};
    return &players[count++];
}

/* Each has its own, and wants that of the next. */
static void add_ring(struct pawl *const clients[], size_t client_count, const char *name, size_t size, unsigned flags) {
    char own[32], next[32];

    for (size_t i = 0; i < size; i++) {
        size_t after = (i + 1) % size;

        snprintf(own, sizeof own, "%s%zu", name, i);
        snprintf(next, sizeof next, "%s%zu", name, after);
        add(make(clients[i % client_count], own, PAWL_MUTEX, flags), make(clients[after % client_count], next, PAWL_MUTEX, flags));
    }
}

static void begin(void) {
    pthread_mutex_lock(&heard.mutex);
    heard.logged = heard.told = heard.members = heard.ended = 0;
    heard.text[0] = heard.names[0] = '\0';
    pthread_mutex_unlock(&heard.mutex);
    count = ready = done = lock_count = 0;
}

/* All have their first. */
static void start(void) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    pthread_mutex_lock(&mutex);
    while (ready < count)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void send(struct player *player) {
    pthread_mutex_lock(&mutex);
    player->sent = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void start_and_send(void) {
    start();
    for (size_t i = 0; i < count; i++)
        send(&players[i]);
}

static void finish(void) {
    await(all_done(), "they wait for each other for ever");
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(players[i].thread, NULL), 0);
    for (size_t i = 0; i < lock_count; i++)
        pawl_lock_free(locks[i]);
}

static uint64_t waiting(struct pawl *client) {
    struct pawl_counters stats = {.size = sizeof stats};

    assert_int_equal(pawl_stats(client, &stats), 0);
    return stats.waiting;
}

static uint64_t counted(struct pawl *client) {
    struct pawl_counters stats = {.size = sizeof stats};

    assert_int_equal(pawl_stats(client, &stats), 0);
    return stats.deadlocks;
}

static size_t with_result(int result) {
    size_t number = 0;

    for (size_t i = 0; i < count; i++)
        number += players[i].result == result;
    return number;
}

/* ---- The tests -------------------------------------------------------------------------------------------------------------- */

/* Over two clients; told once to each callback, counted once, and nobody is ended. */
static void test_told(void **state) {
    struct pawl *clients[] = {open_with(""), open_with("?deadlock=report")};

    (void)state;
    begin();
    add_ring(clients, 2, "told", 4, 0);
    start_and_send();
    await(told() == 1, "the deadlock is not told");
    await(counted(clients[0]) + counted(clients[1]) == 1, "it is not counted");
    assert_int_equal(waiting(clients[0]) + waiting(clients[1]), 4);
    assert_int_equal(pawl_cancel(players[0].second), 1);
    finish();
    assert_int_equal(with_result(PAWL_ECANCELED), 1);
    assert_int_equal(with_result(0), 3);
    assert_int_equal(heard.logged, 1);
    assert_int_equal(heard.told, 1);
    assert_int_equal(heard.members, 4);
    assert_int_equal(heard.ended, 0);
    assert_true(heard.left_ms == PAWL_FOREVER);
    assert_contains(heard.names, "told0");
    assert_contains(heard.names, "told3");
    assert_contains(heard.text, "waits for 'told0'");
    pawl_close(clients[0]);
    pawl_close(clients[1]);
}

/* Rings of two to ten: one of each is ended, and all others go on. */
static void test_broken_up(void **state) {
    struct pawl *client = open_with("?deadlock=break");
    struct pawl_counters stats = {.size = sizeof stats};
    char name[16];

    (void)state;
    begin();
    for (size_t size = 2; size <= RING_MAX; size++) {
        snprintf(name, sizeof name, "ring%zu-", size);
        add_ring(&client, 1, name, size, 0);
    }
    start_and_send();
    finish();
    assert_int_equal(with_result(PAWL_EDEADLK), RING_MAX - 1);
    assert_int_equal(with_result(0), count - (RING_MAX - 1));
    assert_int_equal(pawl_stats(client, &stats), 0);
    assert_int_equal(stats.deadlocks, RING_MAX - 1);
    assert_int_equal(stats.deadlocked, RING_MAX - 1);
    assert_int_equal(heard.ended, RING_MAX - 1);
    pawl_close(client);
}

/* Of two clients only one lets its acquires be ended: so it is one of these, though the other is younger. */
static void test_only_where_it_is_wanted(void **state) {
    struct pawl *clients[] = {open_with("?deadlock=break"), open_with("?deadlock=off")};
    struct pawl_lock *a, *b;

    (void)state;
    begin();
    a = make(clients[0], "a", PAWL_MUTEX, 0);
    b = make(clients[1], "b", PAWL_MUTEX, 0);
    add(b, a);
    add(a, b);
    start();
    send(&players[0]);
    await(waiting(clients[0]) == 1, "the first does not wait");
    send(&players[1]);
    finish();
    assert_int_equal(players[0].result, PAWL_EDEADLK);
    assert_int_equal(players[1].result, 0);
    pawl_close(clients[0]);
    pawl_close(clients[1]);
}

static int count_waiter(const struct pawl_entry *entry, void *data) {
    *(unsigned *)data += (entry->flags & PAWL_ENTRY_WAITER) != 0;
    return 0;
}

/* How many does the server have in the queue? */
static unsigned queued(struct pawl *client, const char *name) {
    unsigned waiters = 0;

    assert_works(pawl_inspect(client, name, count_waiter, &waiters, &error), &error);
    return waiters;
}

/* One reads A and wants B; another, with nothing, wants to write A; the third has B, and wants to read A behind that one. */
static void test_ahead(void **state) {
    struct pawl *client = open_with("?deadlock=break");
    struct pawl_lock *a, *b;

    (void)state;
    begin();
    a = make(client, "a", PAWL_RWLOCK, 0);
    b = make(client, "b", PAWL_MUTEX, 0);
    add(a, b)->first_shared = true;
    add(NULL, a);
    add(b, a)->second_shared = true;
    start();
    for (size_t i = 0; i < 3; i++) {
        send(&players[i]);
        await(i == 2 || waiting(client) == i + 1, "player %zu does not wait", i);
        await(i != 1 || queued(client, "a") == 1, "the one who writes is not in the queue");
    }
    finish();
    assert_int_equal(players[2].result, PAWL_EDEADLK);
    assert_int_equal(with_result(0), 2);
    assert_int_equal(heard.members, 3);
    assert_contains(heard.text, "preceded by");
    pawl_close(client);
}

/* Two permits, one each, and both want another: through two clients, too. */
static void test_permits(void **state) {
    struct pawl *clients[] = {open_with("?deadlock=break"), open_with("?deadlock=break")};
    struct pawl_lock *semaphores[2];

    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        begin();
        semaphores[0] = make(clients[0], "permits", PAWL_SEMAPHORE, 0);
        semaphores[1] = make(clients[apart], "permits", PAWL_SEMAPHORE, 0);
        add(semaphores[0], semaphores[0]);
        add(semaphores[1], semaphores[1]);
        start_and_send();
        finish();
        assert_int_equal(with_result(PAWL_EDEADLK), 1);
        assert_int_equal(with_result(0), 1);
    }
    pawl_close(clients[0]);
    pawl_close(clients[1]);
}

/* One gives up by itself: it is told when, and nobody is ended. */
static void test_deadline(void **state) {
    struct pawl *client = open_with("?deadlock=break");

    (void)state;
    begin();
    add_ring(&client, 1, "deadline", 3, 0);
    players[1].timeout_ms = 3000;
    start_and_send();
    finish();
    assert_int_equal(players[1].result, PAWL_ETIMEOUT);
    assert_int_equal(with_result(0), 2);
    assert_int_equal(heard.told, 1);
    assert_int_equal(heard.ended, 0);
    assert_in_range(heard.left_ms, 0, 3000);
    assert_contains(heard.text, "ends by itself within");
    pawl_close(client);
}

/* A set is one owner: it has A through a handle that is no thread's, and waits for B, whose thread wants A. */
static void set_against_thread(bool async) {
    struct pawl *client = open_with("?deadlock=break");
    struct contract_outcome outcome = {0};
    struct pawl_part parts[2];
    struct pawl_lock *a, *b;
    int result;

    begin();
    a = make(client, "a", PAWL_MUTEX, 0);
    b = make(client, "b", PAWL_MUTEX, 0);
    parts[0] = (struct pawl_part){.lock = make(client, "a", PAWL_MUTEX, PAWL_TASK)};
    parts[1] = (struct pawl_part){.lock = make(client, "b", PAWL_MUTEX, PAWL_TASK)};
    assert_works(pawl_acquire(parts[0].lock, PATIENCE_MS, &error), &error); /* it is the set's from its beginning */
    add(b, a);
    start_and_send();
    await(waiting(client) == 1, "the player does not wait");
    if (async)
        assert_works(pawl_acquire_all_start(parts, 2, PAWL_FOREVER, contract_acquired, &outcome, &error), &error);
    result = async ? contract_await_outcome(client, &outcome) : pawl_acquire_all(parts, 2, PAWL_FOREVER, &error);
    assert_int_equal(result, PAWL_EDEADLK);
    assert_int_equal(pawl_state(parts[0].lock), PAWL_HELD); /* as before the set */
    pawl_release(parts[0].lock, NULL);
    finish();
    assert_int_equal(players[0].result, 0);
    assert_int_equal(heard.ended, 1);
    pawl_close(client);
}

static void test_set_is_one_owner(void **state) {
    (void)state;
    set_against_thread(false);
    set_against_thread(true);
}

/* Handles that own their holds may be released by any thread; and what an operator has broken is no part of a deadlock. */
static void test_none(void **state) {
    struct pawl *client = open_with("?deadlock=break");

    (void)state;
    begin();
    add_ring(&client, 1, "task", 2, PAWL_TASK);
    add_ring(&client, 1, "broken", 2, 0);
    players[2].timeout_ms = players[3].timeout_ms = PATIENCE_MS;
    add_ring(&client, 1, "true", 2, 0);
    start();
    assert_works(pawl_break(client, "broken0", players[2].token, 0, &error), &error);
    for (size_t i = 0; i < 6; i++)
        send(&players[i]);
    await(told() == 1, "the true one is not told");
    assert_contains(heard.names, "true0");
    assert_int_equal(heard.members, 2);
    assert_int_equal(pawl_cancel(players[0].second), 1);
    pawl_cancel(players[2].second);
    finish();
    assert_int_equal(with_result(PAWL_EDEADLK), 1);
    assert_true(players[4].result == PAWL_EDEADLK || players[5].result == PAWL_EDEADLK);
    pawl_close(client);
}

static void test_option(void **state) {
    struct pawl *client;
    char url[512];

    (void)state;
    snprintf(url, sizeof url, "%s%cdeadlock=perhaps", contract_engine->url, strchr(contract_engine->url, '?') ? '&' : '?');
    assert_fails(PAWL_EOPTION, pawl_open(url, NULL, &client, &error), &error);
    assert_contains(error.text, "report, break or off");
}

int contract_run_deadlock(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_told),
        CONTRACT_TEST(test_broken_up),
        CONTRACT_TEST(test_only_where_it_is_wanted),
        CONTRACT_TEST(test_ahead),
        CONTRACT_TEST(test_permits),
        CONTRACT_TEST(test_deadline),
        CONTRACT_TEST(test_set_is_one_owner),
        CONTRACT_TEST(test_none),
        CONTRACT_TEST(test_option),
    };

    return contract_run_group(tests, sizeof tests / sizeof tests[0], "test_ahead test_permits");
}
