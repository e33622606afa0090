/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_test.h - what the tests of the Redis engine share: clients, threads that acquire, losses that are told.
 */
#ifndef PAWL_REDIS_TEST_H
#define PAWL_REDIS_TEST_H

#include <pthread.h>
#include <time.h>

#include "core/claim.h"
#include "engine/redis/redis.h"
#include "redis_server.h"
#include "test.h"

#define PATIENCE_MS 30000

static struct pawl_error error;

/* Is the word one of the words? */
static inline bool is_listed(const char *words, const char *word) {
    size_t length = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

#ifdef PAWL_IN_WORLD
enum { IN_WORLD = true };
#else
enum { IN_WORLD = false };
#endif

/* Is it to be run here? */
static inline bool is_chosen(int argc, char **argv, const char *name, const char *machine) {
    if (is_listed(machine, name))
        return !IN_WORLD;
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2 || strcmp(argv[1], "--smoke") != 0;
}

/* What main() returns. `machine` names, separated by blanks, the tests that need a real machine: those are left out in the simulated world.
 * Arguments: a pattern that names must match; or `--smoke` and names, for those alone and what needs a real machine. */
static inline int run_chosen_tests(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t count,
                                   const char *machine, CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    struct CMUnitTest chosen[64];
    size_t used = 0;
    const char *why;

    if (!redis_server_exists(&why)) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--smoke") != 0)
        cmocka_set_test_filter(argv[1]);
    assert_true(count <= sizeof chosen / sizeof chosen[0]);
    for (size_t i = 0; i < count; i++)
        if (is_chosen(argc, argv, tests[i].name, machine))
            chosen[used++] = tests[i];
    return _cmocka_run_group_tests(group, chosen, used, set_up, tear_down);
}
#define run_redis_tests(argc, argv, name, tests, machine, set_up, tear_down)                                                       \
    run_chosen_tests(argc, argv, name, tests, sizeof(tests) / sizeof(tests)[0], machine, set_up, tear_down)

/* A client of such a URL; `lease_ms` 0: the default. */
static inline struct pawl *open_client(int64_t lease_ms, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct pawl *open_client(int64_t lease_ms, const char *format, ...) {
    struct pawl_options how = {.size = sizeof how, .label = "test", .lease_ms = lease_ms};
    struct pawl *client;
    char url[512];
    va_list args;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    return client;
}

/* A client at a port of loopback. */
static inline struct pawl *open_at(unsigned port, const char *options, int64_t lease_ms) {
    return open_client(lease_ms, "redis://127.0.0.1:%u%s", port, options);
}

/* Does such a URL open? */
static inline int try_open(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline int try_open(const char *format, ...) {
    struct pawl *client;
    char url[512];
    va_list args;
    int rc;

    va_start(args, format);
    vsnprintf(url, sizeof url, format, args);
    va_end(args);
    rc = pawl_open(url, NULL, &client, &error);
    if (rc == 0)
        pawl_close(client);
    return rc;
}

static inline struct pawl_lock *mutex_of(struct pawl *client, const char *name) {
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, name, 0, &lock, &error), &error);
    return lock;
}

/* The server of a client that has one. */
static inline struct server *server_of(struct pawl *client) {
    return TAILQ_FIRST(&redis_of(client->engine)->servers);
}

/* Are answers of this server outstanding? */
static inline bool owes_answers(const struct server *server) {
    bool owes;

    pawl__redis_lock(server->redis);
    owes = !TAILQ_EMPTY(&server->commands.sent);
    pawl__redis_unlock(server->redis);
    return owes;
}

/* Ask for more tokens for the hold of a lock that is held, as the core does. */
static inline int ask_for_tokens(struct pawl_lock *lock, uint32_t want, uint32_t *ret) {
    struct claim *claim = TAILQ_FIRST(&lock->cohort->claims);

    return lock->cohort->engine->impl->extras->tokens(lock->cohort->engine, &claim->seam, want, ret);
}

/* A thread that acquires, and releases at once unless it is to keep. */
struct taker {
    pthread_t thread;
    struct pawl_lock *lock;
    enum pawl_mode mode;
    int64_t timeout_ms;
    bool keeps;
    int result;
    uint64_t token;
    enum pawl_state state; /* right after the acquire */
};

static inline void *taker_main(void *data) {
    struct taker *taker = data;

    taker->result = taker->mode == PAWL_SHARED ? pawl_acquire_shared(taker->lock, taker->timeout_ms, NULL)
                                               : pawl_acquire(taker->lock, taker->timeout_ms, NULL);
    taker->state = pawl_state(taker->lock);
    taker->token = taker->result == 0 ? pawl_token(taker->lock) : 0;
    if (taker->result != 0 || taker->keeps)
        return NULL;
    if (taker->mode == PAWL_SHARED)
        pawl_release_shared(taker->lock, NULL);
    else
        pawl_release(taker->lock, NULL);
    return NULL;
}

static inline void start_taker(struct taker *taker, struct pawl_lock *lock, int64_t timeout_ms) {
    *taker = (struct taker){.lock = lock, .timeout_ms = timeout_ms, .result = 1};
    assert_int_equal(pthread_create(&taker->thread, NULL, taker_main, taker), 0);
}

/* The same; it holds when its thread has ended. */
static inline void start_holder(struct taker *taker, struct pawl_lock *lock, int64_t timeout_ms) {
    *taker = (struct taker){.lock = lock, .timeout_ms = timeout_ms, .keeps = true, .result = 1};
    assert_int_equal(pthread_create(&taker->thread, NULL, taker_main, taker), 0);
}

/* Does it still wait? */
static inline bool taker_waits(struct taker *taker) {
    return pthread_tryjoin_np(taker->thread, NULL) != 0;
}

static inline int end_taker(struct taker *taker) {
    pthread_join(taker->thread, NULL);
    return taker->result;
}

/* What the loss callback heard. */
struct losses {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int lost;
    uint64_t token;
    struct pawl_error why;
};
#define LOSSES_INIT                                                                                                                \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static inline void hear_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why,
                             void *data) {
    struct losses *losses = data;

    (void)lock;
    pthread_mutex_lock(&losses->mutex);
    losses->lost += state == PAWL_LOST;
    losses->token = token;
    losses->why = *why;
    pthread_cond_broadcast(&losses->changed);
    pthread_mutex_unlock(&losses->mutex);
}

static inline void await_loss(struct losses *losses) {
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&losses->mutex);
    while (!losses->lost && rc == 0)
        rc = pthread_cond_timedwait(&losses->changed, &losses->mutex, &until);
    pthread_mutex_unlock(&losses->mutex);
    if (rc != 0)
        fail_msg("the loss was not told");
}

/* Give a user the rights that docs/redis.md lists as the smallest set. */
static inline void give_smallest_rights(struct redis_server *server, const char *user) {
    const char *source = getenv("SOURCE_DIR");
    char path[1024], line[512], *at;
    bool found = false;
    FILE *file;

    snprintf(path, sizeof path, "%s/docs/redis.md", source ? source : ".");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && !(found && line[0] == '\n')) {
        at = strstr(line, " >PASSWORD ");
        if (!found && !at)
            continue;
        found = true;
        for (char *rule = strtok(at ? strchr(at + 1, ' ') : line, " \n"); rule; rule = strtok(NULL, " \n")) {
            redisReply *reply = redis_server_command(server, "ACL SETUSER %s %s", user, rule);

            assert_int_equal(reply->type, REDIS_REPLY_STATUS);
            freeReplyObject(reply);
        }
    }
    assert_true(found);
    fclose(file);
}

static inline void await_integer(struct redis_server *server, const char *command, long long wanted) {
    await(redis_server_plain(server, command) == wanted, "%s is never %lld", command, wanted);
}

#endif
