/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_traps.c - what can go wrong among processes that are killed, stopped, forked, or not who they were.
 */
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/ptrace.h>

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

static struct keeper semaphore_keeper(const char *directory, const char *name, uint32_t permits, struct board *board, int word) {
    struct keeper keeper = mutex_keeper(directory, name, board, word);

    keeper.kind = PAWL_SEMAPHORE;
    keeper.mode = PAWL_PERMITS;
    keeper.permits = permits;
    keeper.limit = 2;
    return keeper;
}

/* Long enough for a waiter to have gone from the futex to poll(). */
static void let_it_poll(void) {
    sleep_ms(40);
}

/* Faster than the periodic look, in one of a few tries: then it was the watch that noticed. */
static void assert_noticed_at_once(bool (*trial)(const char *directory), const char *directory) {
    for (int i = 0; i < 5; i++)
        if (trial(directory))
            return;
    fail_msg("a death is noticed only by the periodic test");
}

static bool semaphore_trial(const char *directory) {
    struct board *board = board_new();
    struct keeper a = semaphore_keeper(directory, "semaphore", 1, board, 0),
                  b = semaphore_keeper(directory, "semaphore", 1, board, 1),
                  c = semaphore_keeper(directory, "semaphore", 1, board, 2);
    pid_t pids[3];
    int64_t start;
    bool quick;

    pids[0] = spawn(keep, &a);
    assert_true(await_word(&board->words[0], 2));
    pids[1] = spawn(keep, &b);
    assert_true(await_word(&board->words[1], 2));
    pids[2] = spawn(keep, &c);
    assert_true(await_word(&board->words[2], 1));
    let_it_poll();
    start = pawl__boottime();
    kill_and_reap(pids[0]); /* not the one that stands directly before the waiter */
    assert_true(await_word(&board->words[2], 2));
    quick = pawl__boottime() - start < 800 * MS;
    kill_and_reap(pids[1]);
    kill_and_reap(pids[2]);
    board_free(board);
    return quick;
}

static void test_unwatched_holder_of_a_semaphore_dies(void **data) {
    assert_noticed_at_once(semaphore_trial, *data);
}

static void test_holder_dies_while_first_waiter_is_stopped(void **data) {
    struct board *board = board_new();
    struct keeper keepers[3];
    pid_t pids[3];

    for (int i = 0; i < 3; i++) {
        keepers[i] = mutex_keeper(*data, "mutex", board, i);
        if (i == 2)
            keepers[i].hold_ms = 0;
        pids[i] = spawn(keep, &keepers[i]);
        assert_true(await_word(&board->words[i], i == 0 ? 2 : 1));
    }
    let_it_poll();
    stop_and_wait(pids[1]);
    kill_and_reap(pids[0]);
    assert_true(await_word(&board->words[2], 3)); /* the second got it, past the stopped one, */
    assert_int_equal(atomic_load(&board->words[1]), 1);
    kill(pids[1], SIGCONT);
    assert_true(await_word(&board->words[1], 2)); /* which has queued again */
    kill_and_reap(pids[1]);
    reap(pids[2]);
    board_free(board);
}

static void test_granted_but_stopped_is_passed_over(void **data) {
    struct board *board = board_new();
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *first = mutex_claim("mutex"), *last = mutex_claim("mutex");
    struct keeper keeper = mutex_keeper(*data, "mutex", board, 0);
    pid_t pid;

    assert_int_equal(acquire(engine, first, 0), PAWL__DONE);
    pid = spawn(keep, &keeper);
    assert_true(await_word(&board->words[0], 1));
    assert_int_equal(acquire(other, last, 20 * MS), PAWL__PENDING);
    stop_and_wait(pid);
    assert_int_equal(release(engine, first), PAWL__DONE); /* granted to one that sleeps */
    assert_int_equal(park(other, last, LONG), PAWL__DONE);
    kill(pid, SIGCONT);
    let_it_poll();
    assert_int_equal(atomic_load(&board->words[0]), 1);
    assert_int_equal(release(other, last), PAWL__DONE);
    assert_true(await_word(&board->words[0], 2));
    kill_and_reap(pid);
    engine_close(other);
    engine_close(engine);
    free(first), free(last);
    board_free(board);
}

/* Broken over its head before it knew that it holds: it must not take the missing node for damage. */
static void test_granted_and_broken_before_it_looked(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *first = mutex_claim("mutex"), *waiter = mutex_claim("mutex");

    assert_int_equal(acquire(engine, first, 0), PAWL__DONE);
    assert_int_equal(acquire(other, waiter, 20 * MS), PAWL__PENDING);
    assert_int_equal(release(engine, first), PAWL__DONE); /* granted, with the next token */
    assert_int_equal(engine->impl->operators->break_hold(engine, "mutex", first->token + 1, true, NULL), 0);
    assert_int_equal(park(other, waiter, LONG), PAWL__DONE);
    assert_true(waiter->token > first->token + 1);
    assert_int_equal(release(other, waiter), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(first), free(waiter);
}

static void test_try_behind_a_dead_waiter_of_a_dead_holder(void **data) {
    struct board *board = board_new();
    struct keeper keepers[3];
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim("mutex");
    pid_t pids[3];

    for (int i = 0; i < 3; i++) {
        keepers[i] = mutex_keeper(*data, "mutex", board, i);
        pids[i] = spawn(keep, &keepers[i]);
        assert_true(await_word(&board->words[i], i == 0 ? 2 : 1));
    }
    assert_int_equal(acquire_now(engine, claim), PAWL_EHELD);
    for (int i = 2; i >= 0; i--)
        stop_and_wait(pids[i]);
    for (int i = 2; i >= 0; i--)
        kill_and_reap(pids[i]);
    assert_int_equal(acquire_now(engine, claim), PAWL__DONE);
    release(engine, claim);
    engine_close(engine);
    free(claim);
    board_free(board);
}

static void test_timed_acquire_behind_the_dead(void **data) {
    struct board *board = board_new();
    struct keeper keeper = mutex_keeper(*data, "mutex", board, 0);
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim("mutex");
    pid_t pid = spawn(keep, &keeper);

    assert_true(await_word(&board->words[0], 2));
    kill_and_reap(pid);
    assert_int_equal(acquire(engine, claim, 1), PAWL__DONE); /* a nanosecond is enough: the dead are in nobody's way */
    release(engine, claim);
    engine_close(engine);
    free(claim);
    board_free(board);
}

/* A FIFO that is opened for reading only says POLLHUP for ever. */
static void test_waiting_costs_no_processor(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("mutex"), *waits = mutex_claim("mutex");
    struct timespec before, after;

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(acquire(other, waits, 600 * MS), PAWL__PENDING);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true((after.tv_sec - before.tv_sec) * SECOND + after.tv_nsec - before.tv_nsec < 150 * MS);
    release(other, waits);
    release(engine, held);
    engine_close(other);
    engine_close(engine);
    free(held), free(waits);
}

struct piper {
    const char *directory;
    pid_t waiter;
    struct board *board;
};

static void release_to_the_dead(void *data) {
    struct piper *piper = data;
    struct pawl__engine *engine = engine_open(piper->directory);
    struct pawl__claim *claim = mutex_claim("mutex");

    signal(SIGPIPE, SIG_DFL);
    acquire(engine, claim, 0);
    atomic_store(&piper->board->words[1], 1);
    while (atomic_load(&piper->board->words[2]) == 0)
        sleep_ms(1);
    release(engine, claim); /* grants to the dead one, and wakes it */
    engine_close(engine);
}

static void test_waking_the_dead_raises_no_signal(void **data) {
    struct board *board = board_new();
    struct keeper keeper = mutex_keeper(*data, "mutex", board, 0);
    struct piper piper = {.directory = *data, .board = board};
    pid_t holder, waiter;
    int status;

    holder = spawn(release_to_the_dead, &piper);
    assert_true(await_word(&board->words[1], 1));
    waiter = spawn(keep, &keeper);
    assert_true(await_word(&board->words[0], 1));
    let_it_poll();
    kill_and_reap(waiter);
    atomic_store(&board->words[2], 1);
    status = reap(holder);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    board_free(board);
}

/* ---- Slots and generations ---- */

static void find_session(struct pawl__engine *engine, const char *name, uint32_t *ret_slot, uint32_t *ret_generation) {
    struct table *table = table_of(engine);
    uint32_t hash = pawl__name_hash(name, strlen(name)), ref = GET(table->buckets[hash & (BUCKET_COUNT - 1)].head);

    assert_true(ref > 0);
    *ret_slot = (uint32_t)GET(table->nodes[ref - 1].owner) - 1;
    *ret_generation = (uint32_t)(GET(table->nodes[ref - 1].owner) >> 32);
}

/* The waiter can't see POLLERR: when it wakes, the lifeline has a new owner. */
static void test_slot_is_claimed_again_before_the_waiter_looks(void **data) {
    struct board *board = board_new();
    struct keeper holder = mutex_keeper(*data, "mutex", board, 0), waiter = mutex_keeper(*data, "mutex", board, 1);
    struct pawl__engine *engine, *successor;
    uint32_t slot, generation;
    pid_t pids[2];

    pids[0] = spawn(keep, &holder); /* takes the lowest slot */
    assert_true(await_word(&board->words[0], 2));
    engine = engine_open(*data);
    find_session(engine, "mutex", &slot, &generation);
    pids[1] = spawn(keep, &waiter);
    assert_true(await_word(&board->words[1], 1));
    let_it_poll();
    stop_and_wait(pids[1]);
    kill_and_reap(pids[0]);
    assert_true(pawl__local_dead(local_of(engine), owner_word(slot, generation)));
    assert_true(pawl__local_recover(local_of(engine), owner_word(slot, generation), pawl__boottime() + LONG));
    successor = engine_open(*data);
    assert_int_equal(local_of(successor)->slot, slot);
    assert_int_equal(local_of(successor)->generation, generation + 1);
    assert_true(pawl__local_dead(local_of(engine), owner_word(slot, generation))); /* the generation is what dies, not the slot */
    assert_false(pawl__local_dead(local_of(engine), owner_word(slot, generation + 1)));
    kill(pids[1], SIGCONT);
    assert_true(await_word(&board->words[1], 2));
    kill_and_reap(pids[1]);
    engine_close(successor);
    engine_close(engine);
    board_free(board);
}

static const char GUARDED[] = "guarded";

/* Enter the guard and die in it; or say so and stay. */
static void die_in_guard(void *data) {
    struct pawl__engine *engine = engine_open(data);
    struct guard_visit visit;

    pawl__local_enter(local_of(engine), &visit, pawl__name_hash(GUARDED, strlen(GUARDED)), pawl__boottime() + LONG, NULL);
    kill(getpid(), SIGKILL);
}

struct guest {
    const char *directory;
    struct board *board;
    int word;
    bool trace;
};

static void stay_in_guard(void *data) {
    struct guest *guest = data;
    struct pawl__engine *engine = engine_open(guest->directory);
    struct guard_visit visit;

    if (guest->trace) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
    }
    if (pawl__local_enter(local_of(engine), &visit, pawl__name_hash(GUARDED, strlen(GUARDED)), pawl__boottime() + LONG, NULL) !=
        PAWL__DONE)
        return;
    atomic_store(&guest->board->words[guest->word], 1);
    while (atomic_load(&guest->board->words[guest->word]) != 2)
        sleep_ms(1);
    pawl__local_leave(local_of(engine), &visit);
    atomic_store(&guest->board->words[guest->word], 3);
    engine_close(engine);
}

/* Run the traced child to the return of the system call that finds the owner of the guard dead. */
static bool step_to_verdict(pid_t pid) {
    int status;

    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return false;
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
    for (int i = 0; i < 10000; i++) {
        struct ptrace_syscall_info info;

        if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
            return false;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) < 0)
            return false;
        if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.is_error && info.exit.rval == -ENXIO)
            return true;
    }
    return false;
}

/* A finds slot S dead in the guard, and stops. S is recovered, claimed again, and its new owner enters the same guard. A goes on. */
static void test_guard_of_another_generation_is_not_stolen(void **data) {
    struct board *board = board_new();
    struct guest slow = {*data, board, 0, true}, successor = {*data, board, 1, false};
    struct pawl__engine *engine;
    struct bucket *bucket;
    uint64_t owner, heir_owner;
    pid_t a, p;

    engine = engine_open(*data);
    reap(spawn(die_in_guard, *data));
    bucket = &table_of(engine)->buckets[pawl__name_hash(GUARDED, strlen(GUARDED)) & (BUCKET_COUNT - 1)];
    owner = pawl__local_guard_owner(local_of(engine), (uint32_t)(bucket - table_of(engine)->buckets));
    assert_true(owner != 0);
    a = spawn(stay_in_guard, &slow);
    if (!step_to_verdict(a)) {
        kill_and_reap(a);
        print_message("no ptrace here\n");
        skip();
    }
    assert_true(pawl__local_recover(local_of(engine), owner, pawl__boottime() + LONG));
    p = spawn(stay_in_guard, &successor);
    assert_true(await_word(&board->words[1], 1));
    heir_owner = pawl__local_guard_owner(local_of(engine), (uint32_t)(bucket - table_of(engine)->buckets));
    assert_int_equal(heir_owner, owner_word(slot_of(owner), generation_of(owner) + 1));
    ptrace(PTRACE_DETACH, a, NULL, NULL);
    sleep_ms(100);
    assert_int_equal(atomic_load(&board->words[0]), 0); /* P is inside, so A is not */
    atomic_store(&board->words[1], 2);
    assert_true(await_word(&board->words[0], 1));
    assert_int_equal(atomic_load(&board->words[1]), 3);
    atomic_store(&board->words[0], 2);
    reap(a);
    reap(p);
    engine_close(engine);
    board_free(board);
}

static void test_death_in_the_guard_is_taken_over(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *claim = mutex_claim(GUARDED);

    reap(spawn(die_in_guard, *data));
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    assert_int_equal(release(engine, claim), PAWL__DONE);
    engine_close(engine);
    free(claim);
}

/* ---- Stopped inside the guard ---- */

static void catch_warning(void *data, const char *text) {
    snprintf(data, 512, "%s", text);
}

static int count_stopped(const struct pawl_entry *entry, void *data) {
    if (entry->flags & PAWL_ENTRY_STOPPED)
        ++*(int *)data;
    return 0;
}

static void test_stopped_inside_the_guard(void **data) {
    struct board *board = board_new();
    struct guest guest = {*data, board, 0, false};
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *held = mutex_claim(GUARDED), *claim = mutex_claim(GUARDED);
    char warning[512] = "";
    int64_t start = pawl__boottime();
    int stopped = 0;
    pid_t pid;

    engine->warn = catch_warning;
    engine->warn_data = warning;
    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    pid = spawn(stay_in_guard, &guest);
    assert_true(await_word(&board->words[0], 1));
    stop_and_wait(pid);
    assert_int_equal(acquire(engine, claim, 300 * MS), PAWL__PENDING); /* the deadline is kept */
    assert_int_equal(engine->impl->operators->survey(engine, GUARDED, count_stopped, &stopped, NULL), 0);
    assert_true(stopped > 0);
    assert_int_equal(engine->impl->withdraw(engine, claim), PAWL__PENDING);
    assert_int_equal(engine->impl->withdraw(engine, held), PAWL__PENDING);
    assert_int_equal(park(engine, held, 50 * MS), PAWL__PENDING);
    assert_int_equal(engine->impl->extras->retoken(engine, held), 0);
    assert_string_equal(warning, ""); /* it may be waiting for a processor, and none of its fault */
    assert_true(pawl__boottime() - start < 20 * SECOND);
    atomic_store(&board->words[0], 2);
    kill(pid, SIGCONT);
    assert_int_equal(park(engine, held, LONG), PAWL__DONE);
    assert_int_equal(park(engine, claim, LONG), PAWL__DONE);
    reap(pid);
    assert_int_equal(acquire(engine, claim, LONG), PAWL__DONE);
    release(engine, claim);
    engine_close(engine);
    free(held), free(claim);
    board_free(board);
}

/* ---- Fork, namespaces, users ---- */

struct family {
    const char *directory;
    bool inherit;
    struct board *board;
};

static void hold_and_fork(void *data) {
    struct family *family = data;
    struct pawl__engine *engine = NULL;
    struct pawl__claim *claim = mutex_claim("mutex");
    char url[PATH_MAX + 8];
    pid_t pid;

    snprintf(url, sizeof url, "local:%s", family->directory);
    if (try_open_url(url, family->inherit, &engine, NULL) < 0 || acquire(engine, claim, 0) != PAWL__DONE)
        return;
    pid = fork();
    if (pid == 0) {
        engine->impl->forked(engine); /* as the core does */
        atomic_store(&family->board->words[0], getpid());
        for (int i = 0; i < 600; i++)
            sleep_ms(1000);
        _exit(0);
    }
    for (int i = 0; i < 600; i++)
        sleep_ms(1000);
}

static void check_family(const char *directory, bool inherit) {
    struct board *board = board_new();
    struct family family = {directory, inherit, board};
    struct pawl__engine *engine = engine_open(directory), *late;
    struct pawl__claim *claim = mutex_claim("mutex");
    pid_t parent, child;

    parent = spawn(hold_and_fork, &family);
    assert_true(await_word(&board->words[0], 1));
    child = (pid_t)atomic_load(&board->words[0]);
    kill_and_reap(parent);
    if (inherit) {
        assert_int_equal(acquire_now(engine, claim), PAWL_EHELD);
        engine_close(engine); /* alone now, but for the child: nothing may be wiped */
        engine = engine_open(directory);
        late = engine_open(directory);
        assert_int_equal(acquire_now(engine, claim), PAWL_EHELD);
        engine_close(late);
        claim->try_only = false;
        assert_int_equal(submit(engine, claim), PAWL__PENDING);
        assert_int_equal(park(engine, claim, 100 * MS), PAWL__PENDING);
        kill(child, SIGKILL);
        assert_int_equal(park(engine, claim, LONG), PAWL__DONE);
    } else {
        assert_int_equal(acquire_now(engine, claim), PAWL__DONE);
        kill(child, SIGKILL);
    }
    release(engine, claim);
    engine_close(engine);
    free(claim);
    board_free(board);
}

static void test_fork_without_exec_keeps_nothing(void **data) {
    check_family(*data, false);
}

static void test_inherited_lifeline_keeps_the_hold(void **data) {
    check_family(*data, true);
}

/* Keep as pid 1 of a namespace of its own; its pid out here goes to the board. */
static void become_init_and_keep(void *data) {
    struct keeper *keeper = data;
    pid_t pid;

    if (unshare(CLONE_NEWPID) < 0) {
        atomic_store(&keeper->board->words[keeper->word], 100);
        return;
    }
    pid = fork();
    if (pid == 0) {
        keep(data);
        _exit(0);
    }
    atomic_store(&keeper->board->words[keeper->word + 10], pid);
    waitpid(pid, NULL, 0);
}

static int first_pid(const struct pawl_entry *entry, void *data) {
    *(int64_t *)data = entry->pid;
    return 1;
}

static void test_pid_namespaces(void **data) {
    struct board *board = board_new();
    struct keeper holder = mutex_keeper(*data, "mutex", board, 0), waiter = mutex_keeper(*data, "mutex", board, 1);
    struct pawl__engine *engine;
    int64_t pid_seen = 0;
    pid_t pids[2];

    pids[0] = spawn(become_init_and_keep, &holder);
    assert_true(await_word(&board->words[0], 2));
    if (atomic_load(&board->words[0]) == 100) {
        reap(pids[0]);
        board_free(board);
        print_message("no pid namespaces for this user\n");
        skip();
    }
    pids[1] = spawn(become_init_and_keep, &waiter); /* both are pid 1 */
    assert_true(await_word(&board->words[1], 1));
    engine = engine_open(*data);
    assert_int_equal(engine->impl->operators->survey(engine, "mutex", first_pid, &pid_seen, NULL), 1);
    assert_int_equal(pid_seen, 1);
    let_it_poll();
    assert_int_equal(atomic_load(&board->words[1]), 1);
    kill((pid_t)atomic_load(&board->words[10]), SIGKILL);
    assert_true(await_word(&board->words[1], 2));
    kill((pid_t)atomic_load(&board->words[11]), SIGKILL);
    reap(pids[0]);
    reap(pids[1]);
    engine_close(engine);
    board_free(board);
}

static void keep_as_nobody(void *data) {
    if (setgid(65534) < 0 || setuid(65534) < 0)
        _exit(1);
    umask(077);
    keep(data);
}

static void open_as_nobody(void *data) {
    struct pawl__engine *engine;
    struct pawl_error error = {0};

    if (setgid(65534) < 0 || setuid(65534) < 0)
        _exit(1);
    _exit(try_open(data, &engine, &error) == PAWL_EACCES && strstr(error.text, data) ? 0 : 2);
}

static void test_other_users(void **data) {
    struct board *board = board_new();
    struct keeper keeper = mutex_keeper(*data, "mutex", board, 0);
    struct pawl__engine *engine;
    struct pawl__claim *claim = mutex_claim("mutex");
    struct stat status;
    char path[PATH_MAX + 16];
    pid_t pid;

    if (geteuid() != 0) {
        print_message("needs root\n");
        board_free(board);
        skip();
    }
    assert_int_equal(WEXITSTATUS(reap(spawn(open_as_nobody, *data))), 0); /* 0700, root's */
    assert_int_equal(chmod(*data, 01777), 0);
    pid = spawn(keep_as_nobody, &keeper);
    assert_true(await_word(&board->words[0], 2));
    engine = engine_open(*data);
    assert_int_equal(acquire_now(engine, claim), PAWL_EHELD);
    claim->try_only = false;
    assert_int_equal(acquire(engine, claim, 50 * MS), PAWL__PENDING);
    kill_and_reap(pid);
    assert_int_equal(park(engine, claim, LONG), PAWL__DONE);
    atomic_store(&board->words[0], 0);
    pid = spawn(keep_as_nobody, &keeper); /* and the other way round: nobody is woken by root */
    assert_true(await_word(&board->words[0], 1));
    let_it_poll();
    release(engine, claim);
    assert_true(await_word(&board->words[0], 2));
    kill_and_reap(pid);
    snprintf(path, sizeof path, "%s/table", (const char *)*data);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0666); /* the umask did not narrow it */
    snprintf(path, sizeof path, "%s/s/00000", (const char *)*data);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0666);
    snprintf(path, sizeof path, "%s/s", (const char *)*data);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 01777);
    engine_close(engine);
    free(claim);
    board_free(board);
}

/* ---- Threads of one process ---- */

struct sleeper {
    struct pawl__engine *engine;
    struct pawl__claim *claim;
    int rc;
};

static void *sleep_in_park(void *data) {
    struct sleeper *sleeper = data;

    sleeper->rc = park(sleeper->engine, sleeper->claim, LONG);
    return NULL;
}

static void test_unpark(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *held = mutex_claim("mutex"), *waits = mutex_claim("mutex");
    struct sleeper sleeper = {engine, waits, 100};
    pthread_t thread;

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(submit(engine, waits), PAWL__PENDING);
    engine->impl->parking->unpark(engine, waits); /* before park: sticks */
    assert_int_equal(park(engine, waits, LONG), PAWL__PENDING);
    for (int ms = 0; ms <= 20; ms += 20) { /* on the futex, and in poll() */
        sleeper.rc = 100;
        assert_int_equal(pthread_create(&thread, NULL, sleep_in_park, &sleeper), 0);
        sleep_ms(ms);
        engine->impl->parking->unpark(engine, waits);
        pthread_join(thread, NULL);
        assert_int_equal(sleeper.rc, PAWL__PENDING);
    }
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_park, &sleeper), 0);
    sleep_ms(10);
    release(engine, held); /* a thread of the same process is granted */
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.rc, PAWL__DONE);
    release(engine, waits);
    engine_close(engine);
    free(held), free(waits);
}

/* ---- Others ---- */

static void test_directory_removed_under_us(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("mutex"), *waits = mutex_claim("mutex");
    struct pawl_error error = {0};
    int rc = 0;

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(engine->impl->extras->check(engine, held), 0);
    assert_int_equal(submit(other, waits), PAWL__PENDING);
    directory_remove(*data);
    rc = other->impl->parking->park(other, waits, pawl__boottime() + LONG, &error);
    assert_int_equal(rc, PAWL_EGONE);
    assert_non_null(strstr(error.text, *data));
    sleep_ms(150);
    claim_reset(waits);
    assert_int_equal(engine->impl->submit(engine, waits, &error), PAWL_EGONE);
    assert_int_equal(engine->impl->extras->check(engine, held), PAWL_EGONE);
    assert_int_equal(release(engine, held), PAWL_ELOST);
    engine_close(other);
    engine_close(engine);
    free(held), free(waits);
}

static void test_kind_and_limit(void **data) {
    struct board *board = board_new();
    struct keeper keeper = semaphore_keeper(*data, "name", 1, board, 0);
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *mutex = mutex_claim("name"), *semaphore = claim_new("name", PAWL_SEMAPHORE, PAWL_PERMITS, 1, 3);
    pid_t pid = spawn(keep, &keeper);

    assert_true(await_word(&board->words[0], 2));
    assert_int_equal(acquire(engine, mutex, LONG), PAWL_EKIND);
    assert_int_equal(acquire_now(engine, mutex), PAWL_EKIND);
    assert_int_equal(acquire(engine, semaphore, LONG), PAWL_ELIMIT);
    mutex->try_only = false;
    kill_and_reap(pid);
    assert_int_equal(acquire(engine, mutex, LONG), PAWL__DONE);
    assert_int_equal(acquire(engine, semaphore, LONG), PAWL_EKIND);
    release(engine, mutex);
    assert_int_equal(acquire(engine, semaphore, LONG), PAWL__DONE);
    release(engine, semaphore);
    engine_close(engine);
    free(mutex), free(semaphore);
    board_free(board);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_unwatched_holder_of_a_semaphore_dies),
        T(test_holder_dies_while_first_waiter_is_stopped),
        T(test_granted_but_stopped_is_passed_over),
        T(test_granted_and_broken_before_it_looked),
        T(test_try_behind_a_dead_waiter_of_a_dead_holder),
        T(test_timed_acquire_behind_the_dead),
        T(test_waiting_costs_no_processor),
        T(test_waking_the_dead_raises_no_signal),
        T(test_slot_is_claimed_again_before_the_waiter_looks),
        T(test_guard_of_another_generation_is_not_stolen),
        T(test_death_in_the_guard_is_taken_over),
        T(test_stopped_inside_the_guard),
        T(test_fork_without_exec_keeps_nothing),
        T(test_inherited_lifeline_keeps_the_hold),
        T(test_pid_namespaces),
        T(test_other_users),
        T(test_unpark),
        T(test_directory_removed_under_us),
        T(test_kind_and_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
