/* SPDX-License-Identifier: Apache-2.0
 *
 * contract.h - what the contract tests share: the engines they run on, clients, and threads that acquire.
 */
#ifndef PAWL_CONTRACT_H
#define PAWL_CONTRACT_H

#include <pthread.h>
#include <stdatomic.h>

#include "../support/test.h"

/* Long enough for any machine; a test that gets here fails. */
#define PATIENCE_MS 20000

/* The engine that the current group of tests runs on. */
struct contract_engine {
    const char *name;
    const char *engine;         /* as pawl_describe names it; NULL: the same */
    const char *(*begin)(void); /* before all tests; what is missing, or NULL */
    void (*end)(void);
    int64_t lease_ms; /* 0: the tests' own */
    bool mutex_only;  /* it has no other kinds of locks: tests that need them are left out */
    bool unordered;   /* it promises no order: so are those of it */
    bool paths;       /* its names are paths: "." and the like are refused */
    bool no_values;   /* nothing lies beside its locks, and nobody observes them */
    bool keeps;       /* all tests run once more, with clients that keep what they release */
    bool keep;        /* this is that */
    int (*set_up)(void);
    void (*tear_down)(void);
    char url[256];
};
extern struct contract_engine *contract_engine;

/* Two clients, open during each test that is made so. */
extern struct pawl *one, *two;
int contract_set_up(void **state);
int contract_tear_down(void **state);
#define CONTRACT_TEST(name) cmocka_unit_test_setup_teardown(name, contract_set_up, contract_tear_down)

struct pawl *contract_open(const char *options);
struct pawl *contract_open_as(const char *options, struct pawl_options how);
struct pawl *contract_open_traced(pawl_log_fn *log, void *data);
struct pawl_lock *contract_mutex(struct pawl *client, unsigned flags);
struct pawl_lock *contract_rwlock(struct pawl *client, unsigned flags);
struct pawl_lock *contract_semaphore(struct pawl *client, unsigned limit, unsigned flags);

/* A thread that makes one acquire and says how it ended; it holds until told to let go. */
struct contract_thread {
    pthread_t thread;
    struct pawl_lock *lock;
    enum pawl_mode mode;
    int64_t timeout_ms;
    int result;
    uint64_t token;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ended, let_go;
};

void contract_start(struct contract_thread *thread, struct pawl_lock *lock, enum pawl_mode mode, int64_t timeout_ms);
int contract_await(struct contract_thread *thread);   /* the acquire's result */
void contract_finish(struct contract_thread *thread); /* release and end */
bool contract_has_ended(struct contract_thread *thread);

/* What the callback of an asynchronous acquire, which this is, has told. */
struct contract_outcome {
    int calls, result;
};
pawl_acquired_fn contract_acquired;
/* What a loop does: sleep on the descriptor, then dispatch, until it was told; nothing is due afterwards. Returns the result. */
int contract_await_outcome(struct pawl *client, const struct contract_outcome *outcome);

/* How many hold, how many wait for "lock", as an operator sees it. */
unsigned contract_holders(struct pawl *client);
unsigned contract_waiters(struct pawl *client);
/* Wait until so many wait. */
void contract_await_waiters(struct pawl *client, unsigned count);

/* Run a group; `needs` names the tests that engines with mutexes only can't run, separated by blanks. */
int contract_run_group(const struct CMUnitTest *tests, size_t count, const char *needs);

/* The groups; each file has one. */
int contract_run_locks(void);
int contract_run_async(void);
int contract_run_callbacks(void);
int contract_run_deadlock(void);
int contract_run_keep(void);
int contract_run_label(void);
int contract_run_lease(void);
int contract_run_observe(void);
int contract_run_operator(void);
int contract_run_sets(void);
int contract_run_signals(void);
int contract_run_stress(void);
int contract_run_values(void);

#endif
