/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_given.c - what a thread does with a node that was given away since it read its number.
 */
#include <semaphore.h>

#include "../support/local_harness.h"

/* ---- A thread of the core's, and the serving thread, at one claim ---- */

/* One that calls into the engine is stopped where it first touches the claim's node, if it does: its number it has read before. */
typedef int call_fn(struct pawl__engine *engine, struct pawl__claim *claim);

static struct {
    pthread_t thread;
    void *page;
    sem_t there, go_on; /* it is stopped, or through; it may go on */
    struct sigaction before;
    struct pawl__engine *engine;
    struct pawl__claim *claim;
    call_fn *call;
    int rc;
} caller;

static void on_touch(int number) {
    (void)number;
    mprotect(caller.page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
    sem_post(&caller.there);
    while (sem_wait(&caller.go_on) != 0)
        ;
}

static void *call_in_thread(void *data) {
    caller.rc = caller.call(caller.engine, caller.claim);
    sem_post(&caller.there);
    return data;
}

static void begin_call(struct pawl__engine *engine, struct pawl__claim *claim, call_fn *call) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_handler = on_touch, .sa_flags = (int)SA_RESETHAND};

    caller.page = (void *)((uintptr_t)&table_of(engine)->nodes[inner(claim)->ref - 1] & ~(uintptr_t)(size - 1));
    caller.engine = engine, caller.claim = claim, caller.call = call;
    sem_init(&caller.there, 0, 0), sem_init(&caller.go_on, 0, 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &caller.before), 0);
    assert_int_equal(mprotect(caller.page, size, PROT_NONE), 0);
    assert_int_equal(pthread_create(&caller.thread, NULL, call_in_thread, NULL), 0);
    while (sem_wait(&caller.there) != 0)
        ;
    assert_int_equal(mprotect(caller.page, size, PROT_READ | PROT_WRITE), 0);
    sigaction(SIGSEGV, &caller.before, NULL);
}

static int end_call(void) {
    sem_post(&caller.go_on);
    pthread_join(caller.thread, NULL);
    return caller.rc;
}

static int withdraw(struct pawl__engine *engine, struct pawl__claim *claim) {
    return engine->impl->withdraw(engine, claim);
}

static int check(struct pawl__engine *engine, struct pawl__claim *claim) {
    return engine->impl->extras->check(engine, claim);
}

/* Of another lock in the same bucket: so that it gets the node which the serving thread gives away. */
static struct pawl__claim *neighbour(const struct pawl__claim *claim) {
    struct pawl__claim *other = mutex_claim("neighbour");

    other->name_hash = claim->name_hash ^ BUCKET_COUNT;
    return other;
}

/* The serving thread ends the adopted claim, and another lock has its node, while a thread is about to do something with that. */
static void assert_neighbour_is_left_alone(struct pawl__engine *engine, struct pawl__engine *other, struct log *log,
                                           struct pawl__claim *adopted, call_fn *call, int rc) {
    struct pawl__claim *next = neighbour(adopted), *rival = neighbour(adopted);
    uint32_t ref = inner(adopted)->ref;

    begin_call(engine, adopted, call);
    for (int64_t end = pawl__boottime() + LONG; inner(adopted)->ref != 0 && pawl__boottime() < end;)
        engine->impl->serve(engine, pawl__boottime() + 100 * MS);
    assert_int_equal(log->refused + log->settled + log->downgraded, 1);
    assert_int_equal(inner(adopted)->ref, 0);
    assert_int_equal(acquire(engine, next, 0), PAWL__DONE);
    assert_int_equal(inner(next)->ref, ref);
    assert_int_equal(end_call(), rc);
    assert_int_equal(acquire_now(other, rival), PAWL_EHELD); /* else two hold it */
    assert_int_equal(check(engine, next), 0);
    assert_int_equal(release(engine, next), PAWL__DONE);
    free(next), free(rival);
}

/* Cancelled, while the serving thread refuses it. */
static void test_withdrawn_while_it_is_refused(void **data) {
    struct log log;
    struct pawl__engine *engine = open_served(*data, &log), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *adopted = mutex_claim("name");

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopted->try_only = true;
    adopt_pending(engine, adopted);
    assert_neighbour_is_left_alone(engine, other, &log, adopted, withdraw, PAWL__PENDING);
    assert_int_equal(log.refused + log.settled, 1);
    release(other, held);
    engine_close(other);
    engine_close(engine);
    free(held), free(adopted);
}

/* Its downgrade is under way, and finds that it was revoked. */
static void check_revoked_before_its_downgrade(const char *directory, call_fn *call, int rc) {
    struct log log;
    struct pawl__engine *engine = open_served(directory, &log), *other = engine_open(directory);
    struct pawl__claim *held = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1),
                       *writer = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1);

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    adopt_pending(engine, writer);
    release(other, held);
    serve_until(engine, &log.granted, 1);
    assert_int_equal(other->impl->operators->break_hold(other, "name", writer->token, true, NULL), 0);
    assert_int_equal(engine->impl->extras->downgrade(engine, writer), PAWL__PENDING);
    assert_neighbour_is_left_alone(engine, other, &log, writer, call, rc);
    if (log.settled == 0 && call != withdraw)
        engine->impl->withdraw(engine, writer);
    serve_until(engine, &log.settled, 1);
    engine_close(other);
    engine_close(engine);
    free(held), free(writer);
}

static void test_withdrawn_while_it_is_downgraded(void **data) {
    check_revoked_before_its_downgrade(*data, withdraw, PAWL__PENDING);
}

static void test_checked_while_it_is_downgraded(void **data) {
    check_revoked_before_its_downgrade(*data, check, PAWL_ELOST);
}

/* It was revoked before its downgrade could have the guard: there is nothing left, neither to be kept. */
static void test_downgrade_of_what_was_revoked(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *writer = claim_new("name", PAWL_RWLOCK, PAWL_EXCLUSIVE, 1, 1);
    struct guard_visit visit;

    assert_int_equal(acquire(engine, writer, 0), PAWL__DONE);
    assert_true(pawl__local_enter_try(local_of(other), &visit, writer->name_hash));
    assert_int_equal(engine->impl->extras->downgrade(engine, writer), PAWL__PENDING);
    pawl__local_leave(local_of(other), &visit);
    assert_int_equal(other->impl->operators->break_hold(other, "name", writer->token, true, NULL), 0);
    assert_int_equal(park(engine, writer, LONG), PAWL_ELOST);
    assert_int_equal(check(engine, writer), PAWL_ELOST);
    assert_int_equal(rest(engine, writer), PAWL_EHELD);
    assert_int_equal(local_of(engine)->keeping, 0);
    assert_int_equal(engine->impl->withdraw(engine, writer), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(writer);
}

/* Who was granted the lock and did not claim it in time has done so, and its node is granted another lock, with the same token: tokens are
 * counted by bucket. */
static void test_slow_claimer_in_another_bucket(void **data) {
    struct pawl__engine *engine = engine_open(*data), *other = engine_open(*data);
    struct pawl__claim *held = mutex_claim("one"), *granted = mutex_claim("one"), *elsewhere = mutex_claim("two");
    struct guard_visit visit;
    uint32_t ref;

    assert_int_equal(acquire(other, held, 0), PAWL__DONE);
    assert_int_equal(submit(engine, granted), PAWL__PENDING);
    ref = inner(granted)->ref;
    release(other, held);
    assert_true((held->name_hash ^ elsewhere->name_hash) & (BUCKET_COUNT - 1));
    assert_true(pawl__local_enter_try(local_of(other), &visit, elsewhere->name_hash));
    assert_null(pawl__local_find_granted(local_of(other), &visit, ref, held->token + 1));
    pawl__local_leave(local_of(other), &visit);
    assert_true(pawl__local_enter_try(local_of(other), &visit, held->name_hash));
    assert_null(pawl__local_find_granted(local_of(other), &visit, ref, held->token));
    assert_ptr_equal(pawl__local_find_granted(local_of(other), &visit, ref, held->token + 1), &table_of(other)->nodes[ref - 1]);
    pawl__local_leave(local_of(other), &visit);
    assert_int_equal(park(engine, granted, LONG), PAWL__DONE);
    assert_true(pawl__local_enter_try(local_of(other), &visit, held->name_hash));
    assert_null(pawl__local_find_granted(local_of(other), &visit, ref, held->token + 1));
    pawl__local_leave(local_of(other), &visit);
    assert_int_equal(release(engine, granted), PAWL__DONE);
    engine_close(other);
    engine_close(engine);
    free(held), free(granted), free(elsewhere);
}

/* It can't be waited for any more: nobody rings for it, nor for who has its node next. */
static void test_abandoned_node_has_no_channel(void **data) {
    struct pawl__engine *engine = engine_open(*data);
    struct pawl__claim *held = mutex_claim("name"), *waits = mutex_claim("name");
    _Atomic uint32_t *channel;

    assert_int_equal(acquire(engine, held, 0), PAWL__DONE);
    assert_int_equal(submit(engine, waits), PAWL__PENDING);
    channel = &table_of(engine)->nodes[inner(waits)->ref - 1].channel;
    atomic_store(channel, 3);
    assert_int_equal(pawl__local_abandon(local_of(engine), inner(waits), pawl__boottime() + LONG, PAWL_ENOSPACE), PAWL_ENOSPACE);
    assert_int_equal(inner(waits)->ref, 0);
    assert_int_equal(atomic_load(channel), 0);
    assert_int_equal(release(engine, held), PAWL__DONE);
    engine_close(engine);
    free(held), free(waits);
}

int main(int argc, char **argv) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup_directory, teardown_directory)
    const struct CMUnitTest tests[] = {
        T(test_withdrawn_while_it_is_refused), T(test_withdrawn_while_it_is_downgraded), T(test_checked_while_it_is_downgraded),
        T(test_downgrade_of_what_was_revoked), T(test_slow_claimer_in_another_bucket),   T(test_abandoned_node_has_no_channel),
    };

    choose_tests(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
