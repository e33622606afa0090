/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_field.c - what users of the embedded engine have met: crowds, stops, cleaners of temporary files, boots, other users.
 */
#include <dirent.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "../support/findings.h"
#include "../support/local_harness.h"

static struct keeper mutex_keeper(const char *directory, const char *name, struct board *board, int word) {
    return (struct keeper){.directory = directory,
                           .name = name,
                           .kind = PAWL_MUTEX,
                           .mode = PAWL_EXCLUSIVE,
                           .permits = 1,
                           .limit = 1,
                           .board = board,
                           .word = word,
                           .hold_ms = -1};
}

/* Long enough for a waiter to have gone from the futex to poll(). */
static void let_it_poll(void) {
    sleep_ms(40);
}

/* Try until it works: the stopped ones ahead are passed over one by one. False: never. */
static bool try_for_a_while(struct pawl__engine *engine, struct pawl__claim *claim) {
    int rc = PAWL_EHELD;

    for (int64_t end = pawl__boottime() + LONG; rc == PAWL_EHELD && pawl__boottime() < end; sleep_ms(10))
        rc = acquire_now(engine, claim);
    return rc == PAWL__DONE;
}

/* ---- Crowds ---- */

enum { CROWD = 70 }; /* more than one waiter watches */

/* All permits are held, each by a process of its own, and one waits. Whichever of them dies, the waiter gets in. */
static void check_crowd(const char *directory, int victim) {
    struct board *board = board_new();
    struct keeper keepers[CROWD + 1];
    pid_t pids[CROWD + 1];

    for (int i = 0; i <= CROWD; i++) {
        keepers[i] = mutex_keeper(directory, "crowd", board, i);
        keepers[i].kind = PAWL_SEMAPHORE;
        keepers[i].mode = PAWL_PERMITS;
        keepers[i].limit = CROWD;
        pids[i] = spawn(keep, &keepers[i]);
        assert_true(await_word(&board->words[i], i < CROWD ? 2 : 1));
    }
    let_it_poll();
    kill_and_reap(pids[victim]);
    assert_true(await_word(&board->words[CROWD], 2));
    for (int i = 0; i <= CROWD; i++)
        if (i != victim)
            kill_and_reap(pids[i]);
    board_free(board);
}

static void test_death_in_a_crowd(void **data) {
    check_crowd(*data, CROWD - 1);
    check_crowd(*data, 64);
    check_crowd(*data, 0);
}

/* ---- Stopped while they wait ---- */

static int count_holders(const struct pawl_entry *entry, void *data) {
    if (!(entry->flags & PAWL_ENTRY_WAITER))
        ++*(int *)data;
    return 0;
}

/* Granted while it was stopped: it neither holds, nor is it for ever in the way of those who only try. */
static void test_try_behind_one_that_was_granted_and_is_stopped(void **data) {
    struct board *board = board_new();
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *first = mutex_claim("mutex"), *tried = mutex_claim("mutex");
    struct keeper keepers[2];
    int holders = 0;
    pid_t pids[2];

    assert_int_equal(acquire(engine, first, 0), PAWL__DONE);
    for (int i = 0; i < 2; i++) {
        keepers[i] = mutex_keeper(*data, "mutex", board, i);
        pids[i] = spawn(keep, &keepers[i]);
        assert_true(await_word(&board->words[i], 1));
    }
    for (int i = 0; i < 2; i++)
        stop_and_wait(pids[i]);
    assert_int_equal(release(engine, first), PAWL__DONE); /* granted to the first of them */
    assert_int_equal(other->impl->operators->survey(other, "mutex", count_holders, &holders, NULL), 0);
    assert_int_equal(holders, 0);
    assert_true(try_for_a_while(other, tried));
    for (int i = 0; i < 2; i++)
        kill(pids[i], SIGCONT);
    let_it_poll();
    for (int i = 0; i < 2; i++)
        assert_int_equal(atomic_load(&board->words[i]), 1); /* they have queued again */
    assert_int_equal(release(other, tried), PAWL__DONE);
    await(atomic_load(&board->words[0]) == 2 || atomic_load(&board->words[1]) == 2, "neither of them gets it");
    for (int i = 0; i < 2; i++)
        kill_and_reap(pids[i]);
    engine_close(other);
    engine_close(engine);
    free(first), free(tried);
    board_free(board);
}

/* ---- What a process leaves behind ---- */

static struct findings examine(struct pawl__engine *engine) {
    struct findings findings = {0};

    assert_int_equal(engine->impl->operators->examine(engine, add_finding, &findings, NULL), 0);
    return findings;
}

enum last_act { DIES_IN_THE_GUARD, DIES_WAITING };

/* A process whose child has inherited its holds. */
struct parent {
    const char *directory;
    struct board *board; /* 0: the child's pid; 1: it waits */
    enum last_act act;
};

static const char GUARDED[] = "guarded";

static void leave_a_child(void *data) {
    struct parent *parent = data;
    struct pawl__engine *engine = NULL;
    struct pawl__claim *held = mutex_claim("held"), *waits = mutex_claim(GUARDED);
    struct guard_visit visit;
    char url[PATH_MAX + 8];

    snprintf(url, sizeof url, "local:%s", parent->directory);
    if (try_open_url(url, true, &engine, NULL) < 0 || acquire(engine, held, 0) != PAWL__DONE)
        return;
    if (fork() == 0) {
        engine->impl->forked(engine); /* as the core does */
        atomic_store(&parent->board->words[0], getpid());
        for (int i = 0; i < 600; i++)
            sleep_ms(1000);
        _exit(0);
    }
    await_word(&parent->board->words[0], 1);
    if (parent->act == DIES_IN_THE_GUARD) {
        pawl__local_enter(local_of(engine), &visit, pawl__name_hash(GUARDED, strlen(GUARDED)), pawl__boottime() + LONG, NULL);
        kill(getpid(), SIGKILL);
    }
    submit(engine, waits);
    atomic_store(&parent->board->words[1], 1);
    park(engine, waits, LONG);
}

/* The child keeps what was held, but it is not inside the guard, and never was. */
static void test_death_in_the_guard_while_a_child_lives(void **data) {
    struct board *board = board_new();
    struct parent parent = {*data, board, DIES_IN_THE_GUARD};
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim(GUARDED), *held = mutex_claim("held");

    reap(spawn(leave_a_child, &parent));
    assert_int_equal(examine(engine).warnings, 0);
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    assert_int_equal(acquire_now(engine, held), PAWL_EHELD);
    kill((pid_t)atomic_load(&board->words[0]), SIGKILL);
    held->try_only = false;
    assert_int_equal(acquire(engine, held, LONG), PAWL__DONE);
    engine_close(engine);
    free(claim), free(held);
    board_free(board);
}

/* Nor does it wait for anything: what its parent waited for is in nobody's way. */
static void test_death_in_the_queue_while_a_child_lives(void **data) {
    struct board *board = board_new();
    struct parent parent = {*data, board, DIES_WAITING};
    struct keeper keeper = mutex_keeper(*data, GUARDED, board, 2);
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *claim = mutex_claim(GUARDED), *held = mutex_claim("held"), *tried = mutex_claim(GUARDED);
    pid_t pid, behind;

    assert_int_equal(acquire(engine, claim, 0), PAWL__DONE);
    pid = spawn(leave_a_child, &parent);
    assert_true(await_word(&board->words[1], 1));
    behind = spawn(keep, &keeper);
    assert_true(await_word(&board->words[2], 1));
    kill_and_reap(pid);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    assert_true(await_word(&board->words[2], 2));
    kill_and_reap(behind);
    assert_true(try_for_a_while(other, tried));
    assert_int_equal(acquire_now(engine, held), PAWL_EHELD);
    kill((pid_t)atomic_load(&board->words[0]), SIGKILL);
    engine_close(other);
    engine_close(engine);
    free(claim), free(held), free(tried);
    board_free(board);
}

/* ---- Cleaners of temporary files ---- */

static void remove_files(const char *directory) {
    DIR *opened = opendir(directory);
    struct dirent *entry;

    assert_non_null(opened);
    while ((entry = readdir(opened)))
        if (entry->d_name[0] != '.')
            assert_int_equal(unlinkat(dirfd(opened), entry->d_name, 0), 0);
    closedir(opened);
}

/* Lifelines and channels were removed: the living count as alive, the dead as dead, and waiters are let in. */
static void test_files_of_the_living_are_removed(void **data) {
    struct board *board = board_new();
    struct keeper holder = mutex_keeper(*data, "mutex", board, 0), waiter = mutex_keeper(*data, "mutex", board, 1);
    struct pawl__engine *engine;
    struct pawl__claim *claim = mutex_claim("mutex");
    char sessions[PATH_MAX + 16];
    pid_t pids[2];

    snprintf(sessions, sizeof sessions, "%s/s", (const char *)*data);
    pids[0] = spawn(keep, &holder);
    assert_true(await_word(&board->words[0], 2));
    remove_files(sessions);
    engine = engine_open(*data); /* has a lifeline of its own */
    assert_int_equal(examine(engine).warnings, 1);
    assert_contains(examine(engine).text, "warning: files in s/ were removed");
    assert_int_equal(acquire_now(engine, claim), PAWL_EHELD);
    claim->try_only = false;
    assert_int_equal(acquire(engine, claim, 50 * MS), PAWL__PENDING);
    pids[1] = spawn(keep, &waiter);
    assert_true(await_word(&board->words[1], 1));
    let_it_poll();
    remove_files(sessions);
    kill_and_reap(pids[0]);
    assert_int_equal(park(engine, claim, LONG), PAWL__DONE);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    assert_true(await_word(&board->words[1], 2));
    kill_and_reap(pids[1]);
    assert_true(try_for_a_while(engine, claim));
    engine_close(engine);
    free(claim);
    board_free(board);
}

/* The same for a hold that a child has inherited, with nobody else there. */
static void test_files_of_the_bereaved_are_removed(void **data) {
    struct board *board = board_new();
    struct parent parent = {*data, board, DIES_IN_THE_GUARD};
    struct pawl__engine *engine;
    struct pawl__claim *held = mutex_claim("held");
    char sessions[PATH_MAX + 16];

    snprintf(sessions, sizeof sessions, "%s/s", (const char *)*data);
    reap(spawn(leave_a_child, &parent));
    remove_files(sessions);
    engine = engine_open(*data);
    assert_int_equal(acquire_now(engine, held), PAWL_EHELD);
    kill((pid_t)atomic_load(&board->words[0]), SIGKILL);
    held->try_only = false;
    assert_int_equal(acquire(engine, held, LONG), PAWL__DONE);
    engine_close(engine);
    free(held);
    board_free(board);
}

/* ---- The directory is taken away ---- */

static const char *in(const char *directory, const char *name) {
    static char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static struct pawl *client_open(const char *directory) {
    struct pawl *client = NULL;
    struct pawl_error error;
    char url[PATH_MAX + 8];

    snprintf(url, sizeof url, "local:%s", directory);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    return client;
}

struct told {
    _Atomic int code;
    char text[PAWL_ERROR_TEXT_SIZE];
};

static void hear_of_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct told *told = data;

    (void)lock, (void)token;
    snprintf(told->text, sizeof told->text, "%s", why->text);
    if (state == PAWL_LOST)
        atomic_store(&told->code, why->code);
}

static void take_away(const char *directory, bool rename_it) {
    char other[PATH_MAX + 16];

    snprintf(other, sizeof other, "%s.moved", directory);
    if (rename_it)
        assert_int_equal(rename(directory, other), 0);
    else
        directory_remove(directory);
}

/* A newcomer has a directory of its own then, and the lock: its holder before is told so, asked or not. */
static void check_taken_away(const char *directory, bool rename_it) {
    struct pawl *old = client_open(directory), *watched = client_open(directory), *new;
    struct pawl_lock *lock, *other, *newcomer;
    struct told told = {0};
    struct pawl_error error;
    char moved[PATH_MAX + 16];

    assert_works(pawl_mutex_new(old, "one", 0, &lock, &error), &error);
    assert_works(pawl_mutex_new(watched, "two", 0, &other, &error), &error);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    assert_works(pawl_acquire(other, 0, &error), &error);
    assert_works(pawl_on_loss(other, hear_of_loss, &told, &error), &error);
    take_away(directory, rename_it);
    new = client_open(directory);
    assert_works(pawl_mutex_new(new, "one", 0, &newcomer, &error), &error);
    assert_works(pawl_acquire(newcomer, 0, &error), &error);
    await(pawl_state(lock) == PAWL_LOST, "it holds, and so does a newcomer");
    assert_int_equal(pawl_remaining_ms(lock), 0);
    assert_fails(PAWL_ELOST, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await(atomic_load(&told.code) != 0, "nobody is told");
    assert_int_equal(atomic_load(&told.code), PAWL_ELOST);
    assert_contains(told.text, directory);
    assert_int_equal(pawl_state(newcomer), PAWL_HELD);
    pawl_lock_free(lock), pawl_lock_free(other), pawl_lock_free(newcomer);
    pawl_close(old), pawl_close(watched), pawl_close(new);
    snprintf(moved, sizeof moved, "%s.moved", directory);
    directory_remove(moved);
}

static void test_directory_is_removed_and_made_anew(void **data) {
    check_taken_away(*data, false);
}

static void test_directory_is_renamed_and_made_anew(void **data) {
    check_taken_away(*data, true);
}

/* Released without a question in between. */
static void test_release_after_the_directory_was_removed(void **data) {
    struct pawl *client = client_open(*data);
    struct pawl_lock *lock;
    struct pawl_error error;

    assert_works(pawl_mutex_new(client, "one", 0, &lock, &error), &error);
    assert_works(pawl_acquire(lock, 0, &error), &error);
    directory_remove(*data);
    sleep_ms(1100); /* more than it may go unnoticed */
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_close(client);
}

static void hold_in_a_jail(void *data) {
    struct pawl__engine *engine = engine_open(data);
    struct pawl__claim *claim = mutex_claim("one");

    if (acquire(engine, claim, 0) != PAWL__DONE || mkdir(in(data, "jail"), 0700) < 0 || chroot(in(data, "jail")) < 0)
        _exit(77);
    for (int i = 0; i < 5; i++, sleep_ms(250)) /* it looks once a second */
        if (engine->impl->extras->check(engine, claim) < 0)
            _exit(1);
    _exit(release(engine, claim) == PAWL__DONE ? 0 : 2);
}

/* Its path leads nowhere there, but the directory is what it was. */
static void test_chroot_is_no_loss(void **data) {
    int status = reap(spawn(hold_in_a_jail, *data));

    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("no chroot for this user\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_death_in_a_crowd),
        T(test_try_behind_one_that_was_granted_and_is_stopped),
        T(test_death_in_the_guard_while_a_child_lives),
        T(test_death_in_the_queue_while_a_child_lives),
        T(test_files_of_the_living_are_removed),
        T(test_files_of_the_bereaved_are_removed),
        T(test_directory_is_removed_and_made_anew),
        T(test_directory_is_renamed_and_made_anew),
        T(test_release_after_the_directory_was_removed),
        T(test_chroot_is_no_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
