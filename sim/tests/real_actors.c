/* SPDX-License-Identifier: Apache-2.0
 *
 * real_actors.c - the foreigners of the simulated world (sim/actors) on real servers: each takes part in a lock beside pawl, or beside
 * another of its own kind, and excludes it there as it does in the world. What they speak is what these servers understand.
 *
 * Both sides count themselves in and out in shared memory. Nothing here is timed: a test ends when everybody has had its turns.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tests/support/redis_server.h"
#include "../../tests/support/test.h"
#include "../../tests/support/zookeeper_server.h"
#include "actors/actors.h"

enum { TURNS = 10, LIMIT = 3, ACTORS = 2, LEASE_MS = 10000 };

/* Seen by all processes. */
struct view {
    _Atomic bool over;
    _Atomic int writers, readers, permits; /* of pawl and of foreigners, at the moment */
    _Atomic int overlaps;
    _Atomic int turns[ACTORS]; /* of each foreigner */
    _Atomic int failures;
};

static struct view *view;
static struct redis_server redis;
static struct zookeeper_server zookeeper;
static struct pawl_error error;

static void come_in(char mode, unsigned permits) {
    if (mode == 'x' && (atomic_fetch_add(&view->writers, 1) > 0 || atomic_load(&view->readers) > 0))
        atomic_fetch_add(&view->overlaps, 1);
    if (mode == 's' && (atomic_fetch_add(&view->readers, 1), atomic_load(&view->writers) > 0))
        atomic_fetch_add(&view->overlaps, 1);
    if (mode == 'p' && atomic_fetch_add(&view->permits, (int)permits) + (int)permits > LIMIT)
        atomic_fetch_add(&view->overlaps, 1);
}

static void go_out(char mode, unsigned permits) {
    atomic_fetch_sub(mode == 'x' ? &view->writers : mode == 's' ? &view->readers : &view->permits, mode == 'p' ? (int)permits : 1);
}

/* ---- Foreigners ------------------------------------------------------------------------------------------------------------- */

static bool is_over(void *data) {
    (void)data;
    return atomic_load(&view->over);
}

static void on_note(void *data, enum actor_word word, const struct actor_note *note) {
    _Atomic int *turns = data;

    if (word == ACTOR_GOT) {
        come_in(note->mode, note->permits);
        atomic_fetch_add(turns, 1);
    }
    if (word == ACTOR_DROP)
        go_out(note->mode, note->permits);
    if (word == ACTOR_LOST || (word == ACTOR_GONE && note->code != 0) || (word == ACTOR_FAIL && note->code != PAWL_ECANCELED))
        atomic_fetch_add(&view->failures, 1);
}

/* In a process of its own: some of the libraries have static variables. */
static pid_t start(const struct actor_class *class, const char *name, char kind, int number) {
    struct actor_place place = {
        .host = "127.0.0.1",
        .port = class->server == 'r' ? redis.port : zookeeper.ports[0],
        .name = name,
        .kind = kind,
        .seed = (uint64_t)getpid() * ACTORS + (uint64_t)number,
        .lease_ms = LEASE_MS,
        .hold_ms = 2,
        .rest_ms = 2,
        .limit = LIMIT,
        .over = is_over,
        .note = on_note,
        .data = &view->turns[number],
    };
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        signal(SIGPIPE, SIG_IGN);
        _exit(class->run(&place));
    }
    return pid;
}

static void end(pid_t pid) {
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- pawl ------------------------------------------------------------------------------------------------------------------- */

static struct pawl_lock *new_lock(struct pawl *pawl, const char *name, char kind) {
    struct pawl_lock *lock = NULL;

    assert_works(kind == 'm'   ? pawl_mutex_new(pawl, name, 0, &lock, &error)
                 : kind == 'r' ? pawl_rwlock_new(pawl, name, 0, &lock, &error)
                               : pawl_semaphore_new(pawl, name, LIMIT, 0, &lock, &error),
                 &error);
    return lock;
}

static void hold_once(struct pawl_lock *lock, char mode, unsigned permits) {
    assert_works(mode == 's'   ? pawl_acquire_shared(lock, PAWL_FOREVER, &error)
                 : mode == 'p' ? pawl_acquire_permits(lock, permits, PAWL_FOREVER, &error)
                               : pawl_acquire(lock, PAWL_FOREVER, &error),
                 &error);
    come_in(mode, permits);
    go_out(mode, permits);
    assert_works(mode == 's' ? pawl_release_shared(lock, &error) : pawl_release(lock, &error), &error);
}

static bool all_had_turns(const struct actor_class *class, int actors) {
    for (int i = 0; i < actors && class->holds; i++)
        if (atomic_load(&view->turns[i]) < TURNS)
            return false;
    return true;
}

/* Take turns until everybody has had some. */
static void take_part(const struct actor_class *class, int actors, const char *url, const char *name, char kind) {
    struct pawl *pawl = NULL;

    assert_works(pawl_open(url, &(struct pawl_options){.size = sizeof(struct pawl_options), .lease_ms = LEASE_MS}, &pawl, &error),
                 &error);
    struct pawl_lock *lock = new_lock(pawl, name, kind);

    for (int turn = 0; turn < TURNS || (!all_had_turns(class, actors) && turn < 1000 * TURNS); turn++) {
        hold_once(lock, kind == 's' ? 'p' : kind == 'r' && turn % 2 ? 's' : 'x', 1 + (unsigned)turn % LIMIT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* pollers must find it free now and then */
    }
    pawl_lock_free(lock);
    pawl_close(pawl);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------------------ */

/* `url`: what pawl uses; NULL: it does not take part. */
static void play(int number, char kind, const char *url) {
    const struct actor_class *class = &actor_classes[number];
    char name[64];
    pid_t pids[ACTORS];

    *view = (struct view){0};
    snprintf(name, sizeof name, "%s%s", class->server == 'z' ? "/base/" : "", class->name);
    for (int i = 0; i < ACTORS; i++)
        pids[i] = start(class, name, kind, i);
    if (url != NULL)
        take_part(class, ACTORS, url, class->name, kind);
    await(all_had_turns(class, ACTORS), "%s had %d and %d turns", class->name, atomic_load(&view->turns[0]),
          atomic_load(&view->turns[1]));
    atomic_store(&view->over, true);
    for (int i = 0; i < ACTORS; i++)
        end(pids[i]);
    assert_int_equal(atomic_load(&view->overlaps), 0);
    assert_int_equal(atomic_load(&view->failures), 0);
}

/* Those that do not go together with pawl's locks at least exclude each other. */
static bool is_at_odds(int number) {
    return number == ACTOR_CLASS_redisson_semaphore || number == ACTOR_CLASS_redisson_fair;
}

static void test_on_redis(void **state) {
    char url[96];

    (void)state;
    for (int i = 0; i < ACTOR_CLASSES; i++) {
        if (actor_classes[i].server != 'r')
            continue;
        snprintf(url, sizeof url, "redis://127.0.0.1:%u%s", redis.port, i == ACTOR_CLASS_redis_py ? "?layout=plain" : "");
        play(i, actor_classes[i].kind == '*' ? 'm' : actor_classes[i].kind, is_at_odds(i) ? NULL : url);
    }
}

static void test_on_zookeeper(void **state) {
    char url[96];

    (void)state;
    for (int i = 0; i < ACTOR_CLASSES; i++) {
        if (actor_classes[i].server != 'z')
            continue;
        snprintf(url, sizeof url, "zk://127.0.0.1:%u/base%s", zookeeper.ports[0],
                 i == ACTOR_CLASS_kazoo_lock ? "?compat=kazoo" : "");
        play(i, actor_classes[i].kind, url);
    }
}

static int start_redis(void **state) {
    (void)state;
    redis_server_start(&redis);
    return 0;
}

static int stop_redis(void **state) {
    (void)state;
    redis_server_free(&redis);
    return 0;
}

static int start_zookeeper(void **state) {
    (void)state;
    return zookeeper_server_start(&zookeeper, 1) ? 0 : -1;
}

static int stop_zookeeper(void **state) {
    (void)state;
    zookeeper_server_stop(&zookeeper);
    return 0;
}

static void skip_redis(void **state) {
    const char *why = "";

    (void)state;
    redis_server_exists(&why);
    print_message("# skipped: %s\n", why);
    skip();
}

static void skip_zookeeper(void **state) {
    (void)state;
    print_message("# skipped: %s\n", zookeeper_server_missing());
    skip();
}

int main(void) {
    const char *why;
    const struct CMUnitTest on_redis[] = {cmocka_unit_test_setup_teardown(test_on_redis, start_redis, stop_redis)};
    const struct CMUnitTest on_zookeeper[] = {cmocka_unit_test_setup_teardown(test_on_zookeeper, start_zookeeper, stop_zookeeper)};
    const struct CMUnitTest no_redis[] = {cmocka_unit_test(skip_redis)}, no_zookeeper[] = {cmocka_unit_test(skip_zookeeper)};

    view = mmap(NULL, sizeof *view, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (view == MAP_FAILED)
        return 1;
    int failed = redis_server_exists(&why) ? cmocka_run_group_tests(on_redis, NULL, NULL)
                                           : cmocka_run_group_tests(no_redis, NULL, NULL);

    failed += zookeeper_server_missing() == NULL ? cmocka_run_group_tests(on_zookeeper, NULL, NULL)
                                                 : cmocka_run_group_tests(no_zookeeper, NULL, NULL);
    return failed;
}
