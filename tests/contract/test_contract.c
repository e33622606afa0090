/* SPDX-License-Identifier: Apache-2.0
 *
 * test_contract.c - what every engine must do, run on every engine in the build. The rows of the table in pawl.h are tests in
 * contract_locks.c; asynchronous use, inspection and break, sets of locks, and stress have files of their own.
 */
#include "contract.h"

#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_REDIS
#include "../support/redis_topology.h"
#endif
#ifdef HAVE_ZOOKEEPER
#include "../support/zookeeper_server.h"
#endif

struct contract_engine *contract_engine;
struct pawl *one, *two;

/* ---- The engines ---------------------------------------------------------------------------------------------------------- */

static int local_set_up(void) {
    char directory[128];

    snprintf(directory, sizeof directory, "%s/pawl-contract-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(directory))
        return -1;
    snprintf(contract_engine->url, sizeof contract_engine->url, "local:%s", directory);
    return 0;
}

static void local_tear_down(void) {
    char command[300];

    snprintf(command, sizeof command, "rm -rf '%s'", contract_engine->url + strlen("local:"));
    assert_int_equal(system(command), 0);
}

#ifdef HAVE_REDIS
/* One server for all tests: each finds it empty. */
static struct redis_server redis;

static const char *redis_begin(void) {
    const char *missing = NULL;

    if (!redis_server_exists(&missing))
        return missing;
    if (!redis.pid)
        redis_server_start(&redis);
    return NULL;
}

static int redis_set_up(void) {
    freeReplyObject(redis_server_command(&redis, "FLUSHALL"));
    snprintf(contract_engine->url, sizeof contract_engine->url, "redis://127.0.0.1:%u", redis.port);
    return 0;
}

static int plain_set_up(void) {
    int rc = redis_set_up();

    strcat(contract_engine->url, "?layout=plain");
    return rc;
}

/* After every test nothing of it is left but the counters of tokens and of semaphores, and what forgets itself. */
static void redis_is_empty(struct redis_server *at) {
    char type[16];

    assert_int_equal(redis_server_integer(at, "EXISTS pawl:queue:{lock} pawl:who:{lock} {lock}:timeout"), 0);
    assert_string_not_equal(redis_server_text(at, type, sizeof type, "TYPE lock"), "hash");
}

static void redis_tear_down(void) {
    redis_is_empty(&redis);
}

/* The same over sentinels, and with a replica that must have everything. */
static struct redis_watched watched;

static const char *sentinel_begin(void) {
    const char *missing = NULL;

    if (redis_server_exists(&missing))
        redis_watched_start(&watched);
    return missing;
}

static int sentinel_set_up(void) {
    freeReplyObject(redis_server_command(&watched.servers[0], "FLUSHALL"));
    snprintf(contract_engine->url, sizeof contract_engine->url, "%s?replicas=1", watched.url);
    return 0;
}

static void sentinel_tear_down(void) {
    redis_is_empty(&watched.servers[0]);
}

static void sentinel_end(void) {
    redis_watched_free(&watched);
}

/* Five independent ones. */
enum { VOTERS = 5 };
static struct redis_server voters[VOTERS];

static const char *redlock_begin(void) {
    const char *missing = NULL;

    if (!redis_server_exists(&missing))
        return missing;
    for (int i = 0; i < VOTERS; i++)
        redis_server_start(&voters[i]);
    return NULL;
}

static void redlock_end(void) {
    for (int i = 0; i < VOTERS; i++)
        redis_server_free(&voters[i]);
}

static int redlock_set_up(void) {
    char *url = contract_engine->url;

    strcpy(url, "redlock://");
    for (int i = 0; i < VOTERS; i++) {
        freeReplyObject(redis_server_command(&voters[i], "FLUSHALL"));
        sprintf(url + strlen(url), "%s127.0.0.1:%u", i ? "," : "", voters[i].port);
    }
    return 0;
}

static void redlock_tear_down(void) {
    for (int i = 0; i < VOTERS; i++)
        assert_int_equal(redis_server_integer(&voters[i], "EXISTS lock pawl:wait:{lock}"), 0);
}

/* In a cluster all of it is at one of three primaries. */
static struct redis_cluster cluster;

static const char *cluster_begin(void) {
    const char *missing = NULL;

    if (redis_server_exists(&missing))
        redis_cluster_start(&cluster);
    return missing;
}

static int cluster_set_up(void) {
    redis_cluster_flush(&cluster);
    snprintf(contract_engine->url, sizeof contract_engine->url, "%s", cluster.url);
    return 0;
}

static void cluster_tear_down(void) {
    redis_is_empty(redis_cluster_node(&cluster, "lock", -1));
}

static void cluster_end(void) {
    redis_cluster_free(&cluster);
}
#endif

#ifdef HAVE_ZOOKEEPER
static struct zookeeper_server zookeeper;

/* One server for all tests, a path for each. */
static const char *zookeeper_begin(void) {
    const char *missing = zookeeper_server_missing();

    if (!missing && !zookeeper_server_start(&zookeeper, 1)) {
        printf("Bail out! ZooKeeper does not start\n");
        exit(1);
    }
    return missing;
}

static void zookeeper_end(void) {
    zookeeper_server_stop(&zookeeper);
}

static int zookeeper_set_up(void) {
    static int count;

    snprintf(contract_engine->url, sizeof contract_engine->url, "zk://127.0.0.1:%u/contract/%d", zookeeper.ports[0], count++);
    return 0;
}

static void zookeeper_tear_down(void) {
    /* Nobody waits any more, so nobody watches. */
    assert_int_equal(zookeeper_server_watches(zookeeper.ports[0]), 0);
}
#endif

static struct contract_engine engines[] = {
    {.name = "local", .keeps = true, .set_up = local_set_up, .tear_down = local_tear_down},
#ifdef HAVE_REDIS
    {.name = "redis", .keeps = true, .begin = redis_begin, .set_up = redis_set_up, .tear_down = redis_tear_down},
    {.name = "redis",
     .keeps = true,
     .begin = redis_begin,
     .set_up = plain_set_up,
     .tear_down = redis_tear_down,
     .mutex_only = true},
    /* A lease that a busy machine's replicas keep up with. */
    {.name = "sentinel",
     .keeps = true,
     .engine = "redis",
     .begin = sentinel_begin,
     .end = sentinel_end,
     .set_up = sentinel_set_up,
     .tear_down = sentinel_tear_down,
     .lease_ms = 6000},
    {.name = "redlock",
     .begin = redlock_begin,
     .end = redlock_end,
     .set_up = redlock_set_up,
     .tear_down = redlock_tear_down,
     .mutex_only = true,
     .no_values = true,
     .unordered = true},
    {.name = "cluster",
     .keeps = true,
     .engine = "redis",
     .begin = cluster_begin,
     .end = cluster_end,
     .set_up = cluster_set_up,
     .tear_down = cluster_tear_down},
#endif
#ifdef HAVE_ZOOKEEPER
    /* A session that a busy machine can keep alive: nothing here waits for its end. */
    {.name = "zk",
     .paths = true,
     .keeps = true,
     .begin = zookeeper_begin,
     .end = zookeeper_end,
     .set_up = zookeeper_set_up,
     .tear_down = zookeeper_tear_down,
     .lease_ms = 15000},
#endif
};

/* ---- Clients and locks ---------------------------------------------------------------------------------------------------- */

/* For longer than a test takes, so that nothing is given back for being idle but where the next one wants it. */
#define KEEP_MS "60000"

struct pawl *contract_open_as(const char *options, struct pawl_options how) {
    struct pawl_error error;
    struct pawl *client;
    char url[512];

    how.size = sizeof how;
    how.label = "contract";
    how.lease_ms = contract_engine->lease_ms ? contract_engine->lease_ms : 2000;
    snprintf(url, sizeof url, "%s%s", contract_engine->url, options);
    if (strchr(contract_engine->url, '?') && *options)
        url[strlen(contract_engine->url)] = '&';
    /* With handoff=0 each acquire has its place in the queue, and nothing is kept. */
    if (contract_engine->keep && !strstr(url, "handoff=0"))
        strcat(url, strchr(url, '?') ? "&keep=" KEEP_MS : "?keep=" KEEP_MS);
    assert_works(pawl_open(url, &how, &client, &error), &error);
    return client;
}

struct pawl *contract_open(const char *options) {
    return contract_open_as(options, (struct pawl_options){0});
}

int contract_set_up(void **state) {
    (void)state;
    if (contract_engine->set_up() < 0)
        return -1;
    one = contract_open("");
    two = contract_open("");
    return 0;
}

int contract_tear_down(void **state) {
    (void)state;
    pawl_close(one);
    pawl_close(two);
    contract_engine->tear_down();
    return 0;
}

struct pawl *contract_open_traced(pawl_log_fn *log, void *data) {
    return contract_open_as("", (struct pawl_options){.flags = PAWL_OPEN_TRACE, .log = log, .log_data = data});
}

struct pawl_lock *contract_mutex(struct pawl *client, unsigned flags) {
    struct pawl_error error;
    struct pawl_lock *lock;

    assert_works(pawl_mutex_new(client, "lock", flags, &lock, &error), &error);
    return lock;
}

struct pawl_lock *contract_rwlock(struct pawl *client, unsigned flags) {
    struct pawl_error error;
    struct pawl_lock *lock;

    assert_works(pawl_rwlock_new(client, "lock", flags, &lock, &error), &error);
    return lock;
}

struct pawl_lock *contract_semaphore(struct pawl *client, unsigned limit, unsigned flags) {
    struct pawl_error error;
    struct pawl_lock *lock;

    assert_works(pawl_semaphore_new(client, "lock", limit, flags, &lock, &error), &error);
    return lock;
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------- */

static void *thread_main(void *data) {
    struct contract_thread *thread = data;
    struct pawl_error error;
    int result;

    if (thread->mode == PAWL_SHARED)
        result = pawl_acquire_shared(thread->lock, thread->timeout_ms, &error);
    else
        result = pawl_acquire(thread->lock, thread->timeout_ms, &error);
    pthread_mutex_lock(&thread->mutex);
    thread->result = result;
    thread->token = result == 0 ? pawl_token(thread->lock) : 0;
    thread->ended = true;
    pthread_cond_broadcast(&thread->changed);
    while (!thread->let_go)
        pthread_cond_wait(&thread->changed, &thread->mutex);
    pthread_mutex_unlock(&thread->mutex);
    if (result == 0 && thread->mode == PAWL_SHARED)
        pawl_release_shared(thread->lock, &error);
    else if (result == 0)
        pawl_release(thread->lock, &error);
    return NULL;
}

void contract_start(struct contract_thread *thread, struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms) {
    *thread = (struct contract_thread){
        .lock = lock,
        .mode = mode,
        .timeout_ms = timeout_ms,
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    assert_int_equal(pthread_create(&thread->thread, NULL, thread_main, thread), 0);
}

bool contract_has_ended(struct contract_thread *thread) {
    bool ended;

    pthread_mutex_lock(&thread->mutex);
    ended = thread->ended;
    pthread_mutex_unlock(&thread->mutex);
    return ended;
}

int contract_await(struct contract_thread *thread) {
    struct timespec until;
    int rc = 0, result;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&thread->mutex);
    while (!thread->ended && rc == 0)
        rc = pthread_cond_timedwait(&thread->changed, &thread->mutex, &until);
    result = thread->result;
    pthread_mutex_unlock(&thread->mutex);
    if (rc != 0)
        fail_msg("an acquire has not ended");
    return result;
}

void contract_finish(struct contract_thread *thread) {
    pthread_mutex_lock(&thread->mutex);
    thread->let_go = true;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->mutex);
    pthread_join(thread->thread, NULL);
}

/* ---- Without blocking ----------------------------------------------------------------------------------------------------- */

void contract_acquired(struct pawl_lock *lock, int result, const struct pawl_error *why, void *data) {
    struct contract_outcome *outcome = data;

    (void)lock;
    outcome->calls++;
    outcome->result = result;
    assert_true(result == 0 ? why == NULL : why->code == result);
}

int contract_await_outcome(struct pawl *client, const struct contract_outcome *outcome) {
    struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};

    while (!outcome->calls) {
        if (poll(&fd, 1, PATIENCE_MS) != 1)
            fail_msg("no callback became due");
        pawl_dispatch(client);
    }
    assert_int_equal(outcome->calls, 1);
    assert_int_equal(pawl_dispatch(client), 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    return outcome->result;
}

/* ---- Seen from outside ---------------------------------------------------------------------------------------------------- */

struct counts {
    unsigned holders, waiters;
};

static int count_entry(const struct pawl_entry *entry, void *data) {
    struct counts *counts = data;

    if (entry->flags & PAWL_ENTRY_WAITER)
        counts->waiters++;
    else
        counts->holders++;
    return 0;
}

static struct counts count(struct pawl *client) {
    struct counts counts = {0, 0};
    struct pawl_error error;

    assert_works(pawl_inspect(client, "lock", count_entry, &counts, &error), &error);
    return counts;
}

unsigned contract_holders(struct pawl *client) {
    return count(client).holders;
}

unsigned contract_waiters(struct pawl *client) {
    return count(client).waiters;
}

void contract_await_waiters(struct pawl *client, unsigned wanted) {
    await(count(client).waiters == wanted, "there are never %u waiters", wanted);
}

/* Is the word one of the words? */
static bool listed(const char *words, const char *word) {
    size_t length = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

int contract_run_group(const struct CMUnitTest *tests, size_t count, const char *needs) {
    static const char of_order[] =
        "test_first_come_first_served test_threads_and_tasks_in_one_queue test_handled_signal_keeps_the_place "
        "test_a_broken_hold_is_not_handed_on";
#ifdef PAWL_IN_WORLD
    static const char of_machines[] = "test_fork test_over_two_engines test_cancelled_thread test_values_after_close_and_fork "
                                      "test_observers_after_fork test_stdio_is_closed test_agent_is_the_process";
#else
    static const char of_machines[] = "";
#endif
    static char name[64];
    struct CMUnitTest chosen[64];
    size_t used = 0;

    assert_true(count <= sizeof chosen / sizeof chosen[0]);
    for (size_t i = 0; i < count; i++)
        if (!(contract_engine->mutex_only && listed(needs, tests[i].name)) &&
            !(contract_engine->unordered && listed(of_order, tests[i].name)) && !listed(of_machines, tests[i].name))
            chosen[used++] = tests[i];
    snprintf(name, sizeof name, "%s%s%s", contract_engine->name, contract_engine->mutex_only ? ", mutexes only" : "",
             contract_engine->keep ? ", kept" : "");
    return _cmocka_run_group_tests(name, chosen, used, NULL, NULL);
}

/* An engine whose server is not there is a skip that is counted and said. */
static void skip_engine(const char *reason) {
    printf("1..1\nok 1 - the contract on %s # SKIP %s\n", contract_engine->name, reason);
    fflush(stdout);
}

static int run_groups(void) {
    return contract_run_locks() + contract_run_async() + contract_run_callbacks() + contract_run_lease() + contract_run_operator() +
           contract_run_label() + contract_run_sets() + contract_run_signals() + contract_run_stress() + contract_run_values() +
           contract_run_observe() + contract_run_deadlock();
}

/* With an argument: that engine alone; with a second one: those tests of it that the pattern fits. */
int main(int argc, char **argv) {
    int failed = 0;

    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++) {
        const char *missing;

        contract_engine = &engines[i];
        if (argc > 1 && strcmp(argv[1], contract_engine->name) != 0)
            continue;
        missing = contract_engine->begin ? contract_engine->begin() : NULL;
        if (missing) {
            skip_engine(missing);
            continue;
        }
        failed += run_groups();
        contract_engine->keep = contract_engine->keeps;
        if (contract_engine->keep)
            failed += run_groups();
        contract_engine->keep = false;
        failed += contract_run_keep();
        if (contract_engine->end)
            contract_engine->end();
    }
#ifdef HAVE_REDIS
    redis_server_free(&redis);
#endif
    return failed ? 1 : 0;
}
