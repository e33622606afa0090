/* SPDX-License-Identifier: Apache-2.0
 *
 * local_harness.h - for the tests of the embedded engine: engines and claims driven directly at the seam, and processes to be killed.
 */
#ifndef PAWL_TESTS_LOCAL_HARNESS_H
#define PAWL_TESTS_LOCAL_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "base/error.h"
#include "engine/local/local.h"
#include "base/name.h"
#include "base/url.h"

#define SECOND INT64_C(1000000000)
/* Against hangs only: nothing that works takes so long. */
#define LONG (30 * SECOND)

/* Assertions would jump into the runner: not in a child. */
static bool in_child;

/* A directory of the test's own. */
static char test_directory[PATH_MAX];

static inline const char *directory_new(void) {
    const char *base = getenv("TMPDIR");

    snprintf(test_directory, sizeof test_directory, "%s/pawl-local-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(test_directory));
    return test_directory;
}

static inline int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static inline void directory_remove(const char *path) {
    /* Processes that use it may take files away meanwhile, or put some back. */
    for (int i = 0; i < 100 && access(path, F_OK) == 0; i++)
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int setup_directory(void **data) {
    *data = (void *)directory_new();
    return 0;
}

static inline int teardown_directory(void **data) {
    directory_remove(*data);
    return 0;
}

/* The tests of this program that fit the pattern; without one, all. */
static inline void choose_tests(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}

/* ---- Engines ---- */

static inline int try_open_url(const char *text, bool inherit, struct pawl__engine **ret, struct pawl_error *reterr) {
    const struct pawl__engine_impl *impl = &pawl__local_engine;
    struct pawl__setup setup = {.inherit = inherit, .identity = {.host = "here", .pid = getpid(), .command = "test"}};
    struct pawl__engine *engine;
    struct pawl__url *url = malloc(sizeof *url);
    int rc;

    setup.url = url;
    rc = pawl__url_parse(text, url, reterr);
    if (rc < 0) {
        free(url);
        return rc;
    }
    engine = aligned_alloc(64, (impl->engine_size + 63) / 64 * 64);
    memset(engine, 0, impl->engine_size);
    engine->impl = impl;
    rc = impl->open(engine, &setup, reterr);
    free(url);
    if (rc < 0)
        free(engine);
    else
        *ret = engine;
    return rc;
}

static inline int try_open(const char *directory, struct pawl__engine **ret, struct pawl_error *reterr) {
    char text[PATH_MAX + 8];

    snprintf(text, sizeof text, "local:%s", directory);
    return try_open_url(text, false, ret, reterr);
}

static inline struct pawl__engine *engine_open(const char *directory) {
    struct pawl__engine *engine = NULL;
    struct pawl_error error = {0};

    if (try_open(directory, &engine, &error) < 0) {
        if (in_child) {
            fprintf(stderr, "open: %s\n", error.text);
            _exit(99);
        }
        fail_msg("open: %s", error.text);
    }
    return engine;
}

static inline void engine_close(struct pawl__engine *engine) {
    engine->impl->close(engine, pawl__boottime() + 2 * SECOND);
    free(engine);
}

static inline struct table *table_of(struct pawl__engine *engine) {
    return ((struct local *)engine)->table;
}

/* ---- Claims ---- */

static inline struct pawl__claim *claim_new(const char *name, enum pawl_kind kind, enum pawl_mode mode, uint32_t permits,
                                            uint32_t limit) {
    struct pawl__claim *claim = calloc(1, sizeof *claim + pawl__local_engine.claim_size);

    claim->name = name;
    claim->name_length = (uint32_t)strlen(name);
    claim->name_hash = pawl__name_hash(name, claim->name_length);
    claim->kind = kind;
    claim->mode = mode;
    claim->permits = permits;
    claim->limit = limit;
    claim->keep_ns = PAWL__NEVER;
    return claim;
}

static inline struct pawl__claim *mutex_claim(const char *name) {
    return claim_new(name, PAWL_MUTEX, PAWL_EXCLUSIVE, 1, 1);
}

static inline void claim_reset(struct pawl__claim *claim) {
    memset(claim + 1, 0, pawl__local_engine.claim_size);
}

static inline struct local_claim *inner(struct pawl__claim *claim) {
    return pawl__engine_state(claim);
}

static inline int submit(struct pawl__engine *engine, struct pawl__claim *claim) {
    claim_reset(claim);
    return engine->impl->submit(engine, claim, NULL);
}

static inline int park(struct pawl__engine *engine, struct pawl__claim *claim, int64_t ns) {
    return engine->impl->parking->park(engine, claim, pawl__boottime() + ns, NULL);
}

/* Acquire within the time: DONE, PENDING (the claim is still queued), or an error. */
static inline int acquire(struct pawl__engine *engine, struct pawl__claim *claim, int64_t ns) {
    int rc = submit(engine, claim);

    return rc == PAWL__PENDING ? park(engine, claim, ns) : rc;
}

static inline int acquire_now(struct pawl__engine *engine, struct pawl__claim *claim) {
    claim->try_only = true;
    return acquire(engine, claim, 2 * SECOND);
}

static inline int release(struct pawl__engine *engine, struct pawl__claim *claim) {
    int rc = engine->impl->withdraw(engine, claim);

    return rc == PAWL__PENDING ? park(engine, claim, LONG) : rc;
}

/* What the core does instead of releasing, and of acquiring anew. */
static inline int rest(struct pawl__engine *engine, struct pawl__claim *claim) {
    return engine->impl->keeping->rest(engine, claim);
}

static inline int resume(struct pawl__engine *engine, struct pawl__claim *claim) {
    return engine->impl->keeping->resume(engine, claim);
}

static inline bool is_waiting(struct pawl__engine *engine, struct pawl__claim *claim) {
    uint32_t ref = inner(claim)->ref;

    return ref != 0 && state_of(GET(table_of(engine)->nodes[ref - 1].state)) == NODE_WAITING;
}

/* ---- A core that only counts ---- */

struct log {
    int granted, refused, settled, downgraded, lost;
    struct pawl_error error;
    struct pawl__claim *last;
};

static inline void on_news(void *core, struct pawl__claim *claim, enum pawl__news news, const struct pawl_error *why) {
    struct log *log = core;

    log->granted += news == NEWS_GRANTED;
    log->refused += news == NEWS_REFUSED;
    log->settled += news == NEWS_GONE;
    log->downgraded += news == NEWS_DOWNGRADED;
    log->lost += news == NEWS_LOST || news == NEWS_BROKEN;
    log->last = claim;
    if (why)
        log->error = *why;
}

static inline struct pawl__engine *open_served(const char *directory, struct log *log) {
    struct pawl__engine *engine = engine_open(directory);

    memset(log, 0, sizeof *log);
    engine->tell = on_news;
    engine->core = log;
    return engine;
}

/* Serve until the count is reached. */
static inline void serve_until(struct pawl__engine *engine, const int *count, int wanted) {
    for (int64_t end = pawl__boottime() + LONG; *count < wanted && pawl__boottime() < end;)
        engine->impl->serve(engine, pawl__boottime() + 100 * MS);
    assert_int_equal(*count, wanted);
}

static inline void serve_briefly(struct pawl__engine *engine, int64_t ns) {
    for (int64_t end = pawl__boottime() + ns; pawl__boottime() < end;)
        engine->impl->serve(engine, end);
}

static inline void adopt_pending(struct pawl__engine *engine, struct pawl__claim *claim) {
    assert_int_equal(submit(engine, claim), PAWL__PENDING);
    engine->impl->parking->adopt(engine, claim);
    engine->impl->wake(engine);
}

/* ---- Other processes ---- */

static inline void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Words that the test's processes share. */
struct board {
    _Atomic int64_t words[4096];
};

static inline struct board *board_new(void) {
    void *map = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    return map;
}

static inline void board_free(struct board *board) {
    munmap(board, sizeof *board);
}

/* Wait until the word is at least `value`. False: it took too long. */
static inline bool await_word(_Atomic int64_t *word, int64_t value) {
    for (int64_t end = pawl__boottime() + LONG; pawl__boottime() < end; sleep_ms(1))
        if (atomic_load(word) >= value)
            return true;
    return false;
}

typedef void child_fn(void *data);

/* Run `fn` in a process of its own. It ends with status 0 when it returns. */
static inline pid_t spawn(child_fn *fn, void *data) {
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        in_child = true;
        fn(data);
        _exit(0);
    }
    return pid;
}

static inline int reap(pid_t pid) {
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return status;
}

/* False: it had ended by itself. */
static inline bool kill_and_reap(pid_t pid) {
    int status;

    kill(pid, SIGKILL);
    status = reap(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Is the process in this state, as ps(1) writes it? */
static inline bool process_is(pid_t pid, char state) {
    char path[64], text[512] = "";
    const char *paren;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return false;
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    paren = strrchr(text, ')');
    return paren && paren[1] == ' ' && paren[2] == state;
}

static inline void stop_and_wait(pid_t pid) {
    kill(pid, SIGSTOP);
    for (int i = 0; i < 5000 && !process_is(pid, 'T'); i++)
        sleep_ms(1);
}

/* Is a process to be stepped here? */
static inline bool can_trace(void) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(1);
        raise(SIGSTOP);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return false;
    kill_and_reap(pid);
    return true;
}

/* A process that takes a lock, says so on the board, and keeps it. */
struct keeper {
    const char *directory;
    const char *name;
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    struct board *board;
    int word;    /* 1: asked; 2: holds; 3: released */
    int hold_ms; /* then releases; -1: never */
};

static inline void keep(void *data) {
    struct keeper *keeper = data;
    struct pawl__engine *engine = engine_open(keeper->directory);
    struct pawl__claim *claim = claim_new(keeper->name, keeper->kind, keeper->mode, keeper->permits, keeper->limit);
    int rc = submit(engine, claim);

    while (rc == PAWL__PENDING && !is_waiting(engine, claim))
        rc = park(engine, claim, 1000);
    atomic_store(&keeper->board->words[keeper->word], 1);
    while (rc == PAWL__PENDING)
        rc = park(engine, claim, LONG);
    atomic_store(&keeper->board->words[keeper->word], rc == PAWL__DONE ? 2 : 100);
    if (keeper->hold_ms < 0)
        for (int i = 0; i < 600; i++)
            sleep_ms(1000);
    sleep_ms(keeper->hold_ms);
    release(engine, claim);
    atomic_store(&keeper->board->words[keeper->word], 3);
    engine_close(engine);
    free(claim);
}

#endif
