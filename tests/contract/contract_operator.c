/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_operator.c - what an operator sees and may do; and how a holder hears of it.
 */
#include "contract.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct pawl_error error;

/* The entries as text, one a line. */
struct listing {
    char text[4096];
    size_t used;
    int stop_after;
};

static int list_entry(const struct pawl_entry *entry, void *data) {
    static const char *const modes[] = {"exclusive", "shared", "permits"};
    struct listing *listing = data;

    assert_int_equal(entry->pid, getpid());
    assert_string_equal(entry->label, "contract");
    assert_true(entry->host[0] && entry->command[0] && entry->raw[0]);
    assert_true(entry->since_ms > 0);
    assert_string_equal(entry->agent, pawl_agent(one));
    assert_true((entry->token > 0) == !(entry->flags & PAWL_ENTRY_WAITER));
    listing->used += (size_t)snprintf(listing->text + listing->used, sizeof listing->text - listing->used, "%s %d %s %u %u/%u%s\n",
                                      entry->name, entry->kind, modes[entry->mode], entry->position, entry->permits, entry->limit,
                                      entry->flags & PAWL_ENTRY_BROKEN ? " broken" : "");
    return listing->stop_after && --listing->stop_after == 0 ? 42 : 0;
}

static void test_holders_and_waiters_in_order(void **state) {
    struct pawl_lock *held = contract_rwlock(one, 0), *other = contract_rwlock(two, 0), *sem;
    struct contract_thread first, second;
    struct listing listing = {.used = 0};

    (void)state;
    assert_works(pawl_inspect(one, NULL, list_entry, &listing, &error), &error);
    assert_string_equal(listing.text, "");
    assert_works(pawl_acquire_shared(held, PAWL_FOREVER, &error), &error);
    contract_start(&first, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    contract_start(&second, other, PAWL_SHARED, PAWL_FOREVER);
    contract_await_waiters(one, 2);
    assert_works(pawl_inspect(two, "lock", list_entry, &listing, &error), &error);
    assert_string_equal(listing.text, "lock 1 shared 0 1/1\nlock 1 exclusive 1 1/1\nlock 1 shared 2 1/1\n");
    assert_works(pawl_semaphore_new(one, "sem", 7, 0, &sem, &error), &error);
    assert_works(pawl_acquire_permits(sem, 3, PAWL_FOREVER, &error), &error);
    listing = (struct listing){.used = 0};
    assert_works(pawl_inspect(two, NULL, list_entry, &listing, &error), &error);
    assert_contains(listing.text, "sem 2 permits 0 3/7\n");
    assert_contains(listing.text, "lock 1 shared 0 1/1\nlock 1 exclusive 1 1/1\nlock 1 shared 2 1/1\n");
    listing = (struct listing){.stop_after = 2};
    assert_int_equal(pawl_inspect(two, NULL, list_entry, &listing, &error), 42);
    assert_works(pawl_release_shared(held, &error), &error);
    assert_int_equal(contract_await(&first), 0);
    contract_finish(&first);
    assert_int_equal(contract_await(&second), 0);
    contract_finish(&second);
    pawl_lock_free(held);
    pawl_lock_free(other);
    pawl_lock_free(sem);
}

/* Who was handed the lock is as well known as who took it. */
static void test_who_was_handed_it(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread next;
    struct listing listing = {.used = 0};

    (void)state;
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    contract_start(&next, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(contract_await(&next), 0);
    assert_works(pawl_inspect(one, "lock", list_entry, &listing, &error), &error);
    assert_string_equal(listing.text, "lock 0 exclusive 0 1/1\n");
    contract_finish(&next);
    pawl_lock_free(held);
    pawl_lock_free(other);
}

/* What is remembered of an entry. */
struct seen {
    int count;
    unsigned flags;
    char claim[100], around[20];
    int64_t lease_ms;
    uint64_t turns;
};

static int see(const struct pawl_entry *entry, void *data) {
    struct seen *seen = data;

    if (seen->count == 0 || entry->flags & PAWL_ENTRY_WAITER) /* who waits, or else who holds */
        *seen = (struct seen){.count = seen->count, .flags = entry->flags, .lease_ms = entry->lease_ms, .turns = entry->turns};
    else
        return 0;
    seen->count++;
    snprintf(seen->claim, sizeof seen->claim, "%s", entry->claim);
    snprintf(seen->around, sizeof seen->around, "%s", entry->around);
    return 0;
}

static void test_claim_and_lease(void **state) {
    struct pawl_lock *held = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct seen waits = {0}, holds = {0};
    struct contract_thread thread;
    struct pawl_info info;

    (void)state;
    pawl_describe(two, &info);
    assert_works(pawl_acquire(held, PAWL_FOREVER, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_inspect(one, "lock", see, &waits, &error), &error);
    assert_true(waits.flags & PAWL_ENTRY_WAITER && waits.claim[0]);
    assert_int_equal(waits.lease_ms, info.lease_ms);
    assert_works(pawl_release(held, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_works(pawl_inspect(one, "lock", see, &holds, &error), &error);
    assert_false(holds.flags & PAWL_ENTRY_WAITER);
    if (strcmp(contract_engine->name, "redlock") != 0)
        assert_string_equal(holds.claim, waits.claim);
    assert_string_equal(holds.around, "");
    assert_int_equal(holds.turns, strcmp(contract_engine->name, "zk") == 0 ? 2 : 0);
    contract_finish(&thread);
    pawl_lock_free(held);
    pawl_lock_free(other);
}

/* In a child: 0 if it has a number of its own. */
static int child_has_its_own(const char *parent) {
    struct pawl *client = NULL;

    if (pawl_open(contract_engine->url, NULL, &client, NULL) < 0)
        return 100;
    return strcmp(pawl_agent(client), parent) == 0;
}

static void test_agent_is_the_process(void **state) {
    int status;
    pid_t pid;

    (void)state;
    assert_string_equal(pawl_agent(one), pawl_agent(two));
    assert_int_equal(strspn(pawl_agent(one), "0123456789abcdef"), 16);
#ifdef __SANITIZE_THREAD__
    print_message("# ThreadSanitizer allows no threads in a child of a process that has some\n");
    skip();
#endif
    pid = fork();
    if (pid == 0)
        _exit(child_has_its_own(pawl_agent(one)));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_bad_input(void **state) {
    struct listing listing = {.used = 0};

    (void)state;
    assert_fails(PAWL_ENAME, pawl_inspect(one, "", list_entry, &listing, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_inspect(one, NULL, NULL, NULL, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_inspect(NULL, NULL, list_entry, &listing, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_examine(one, NULL, NULL, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_examine(NULL, NULL, NULL, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_break(one, "lock", 0, 0, &error), &error);
    assert_fails(PAWL_ETOKEN, pawl_break(one, "lock", 12345, 0, &error), &error);
    assert_fails(PAWL_ENAME, pawl_break(one, "\n", 1, 0, &error), &error);
    assert_fails(PAWL_EINVAL, pawl_break(one, "lock", 1, 1u << 20, &error), &error);
}

static int count_finding(const struct pawl_finding *finding, void *data) {
    int *count = data;

    assert_true(finding->what[0] && (finding->advice[0] || finding->severity == PAWL_FINDING_GOOD));
    return ++*count == 2 ? 42 : 0;
}

static void test_examination(void **state) {
    int count = 0, rc = pawl_examine(one, count_finding, &count, &error);

    (void)state;
    if (rc < 0)
        assert_int_equal(rc, PAWL_EUNSUPPORTED);
    else
        assert_int_equal(rc, count == 2 ? 42 : 0);
}

/* What the loss callback heard; it runs on the service thread. */
struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int calls;
    enum pawl_state state;
    uint64_t token;
};

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct heard *heard = data;

    (void)lock;
    pthread_mutex_lock(&heard->mutex);
    heard->calls += why->code == PAWL_EBROKEN;
    heard->state = state;
    heard->token = token;
    pthread_cond_broadcast(&heard->changed);
    pthread_mutex_unlock(&heard->mutex);
}

static void await_loss(struct heard *heard) {
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&heard->mutex);
    while (heard->state != PAWL_LOST && rc == 0)
        rc = pthread_cond_timedwait(&heard->changed, &heard->mutex, &until);
    pthread_mutex_unlock(&heard->mutex);
    if (rc != 0)
        fail_msg("the loss was not told");
}

static void test_break_tells_and_waits_for_the_release(void **state) {
    struct heard heard = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct pawl_lock *lock = contract_mutex(one, PAWL_TASK), *other = contract_mutex(two, 0);
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(lock, on_loss, &heard, &error), &error);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    token = pawl_token(lock);
    assert_fails(PAWL_ETOKEN, pawl_break(two, "lock", token + 1000, 0, &error), &error);
    assert_works(pawl_break(two, "lock", token, 0, &error), &error);
    await_loss(&heard);
    assert_int_equal(heard.calls, 1);
    assert_true(heard.token == token);
    assert_int_equal(pawl_state(lock), PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(lock), 0);
    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error); /* still in the way: it was not acknowledged */
    assert_fails(PAWL_ELOST, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(other) > token);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static void test_break_without_a_callback(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
    await(pawl_remaining_ms(lock) == 0, "the word never comes through");
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(other, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

/* Where holders see for themselves (local:), nobody of the process has looked: that is the point. Others are told. */
static void await_word(const struct pawl_lock *lock) {
    if (strcmp(contract_engine->name, "local") != 0)
        await(pawl_state(lock) == PAWL_LOST, "the word never comes through");
}

static void test_break_now_frees_at_once(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;
    uint64_t token;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    token = pawl_token(lock);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    assert_works(pawl_break(two, "lock", token, PAWL_BREAK_NOW, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_true(thread.token > token);
    if (contract_engine->keep) /* then a release asks no server: it must have been told */
        await_word(lock);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error); /* and takes nothing from the new holder */
    assert_int_equal(contract_holders(one), 1);
    contract_finish(&thread);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(other);
}

static int see_holder(const struct pawl_entry *entry, void *data) {
    if (!(entry->flags & PAWL_ENTRY_WAITER))
        *(uint64_t *)data = entry->token;
    return 0;
}

/* A token of the process is left when its hold is taken away, and a writer has the lock: no reader of the process comes in by that. */
static void test_nobody_joins_what_was_taken_away(void **state) {
    struct pawl_lock *reader = contract_rwlock(one, PAWL_TASK), *beside = contract_rwlock(one, 0),
                     *writer = contract_rwlock(two, 0);
    uint64_t token = 0; /* as an operator sees it: several share the entry */

    (void)state;
    for (int i = 0; i < 12; i++) { /* until it is kept without being asked to */
        assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
        assert_works(pawl_release_shared(reader, &error), &error);
    }
    assert_works(pawl_acquire_shared(reader, PATIENCE_MS, &error), &error);
    assert_true(pawl_token(reader) > 0);
    assert_works(pawl_acquire_shared(beside, PATIENCE_MS, &error), &error);
    assert_works(pawl_release_shared(beside, &error), &error);
    assert_works(pawl_inspect(two, "lock", see_holder, &token, &error), &error);
    assert_works(pawl_break(two, "lock", token, PAWL_BREAK_NOW, &error), &error);
    assert_works(pawl_acquire(writer, PATIENCE_MS, &error), &error);
    await_word(reader);
    assert_fails(PAWL_EHELD, pawl_acquire_shared(beside, 0, &error), &error);
    assert_works(pawl_release(writer, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release_shared(reader, &error), &error);
    pawl_lock_free(reader);
    pawl_lock_free(beside);
    pawl_lock_free(writer);
}

/* Its holder does nothing, and knows nothing: those of its process who wait for it come in like others. */
static void test_waiters_beside_what_was_taken_away(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *beside = contract_mutex(one, 0), *task = contract_mutex(one, PAWL_TASK);
    struct contract_outcome outcome = {0, 1};
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    contract_start(&thread, beside, PAWL_EXCLUSIVE, PAWL_FOREVER);
    assert_works(pawl_break(two, "lock", pawl_token(lock), PAWL_BREAK_NOW, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_works(pawl_acquire_start(task, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, contract_acquired, &outcome, &error), &error);
    assert_works(pawl_break(two, "lock", thread.token, PAWL_BREAK_NOW, &error), &error);
    assert_int_equal(contract_await_outcome(one, &outcome), 0);
    contract_finish(&thread);
    assert_works(pawl_release(task, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(beside);
    pawl_lock_free(task);
}

/* A broken hold is handed to nobody: who waits for it inside the process gets a place of its own in the queue at once. */
static void test_a_broken_hold_is_not_handed_on(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0), *beside = contract_mutex(one, PAWL_TASK), *other = contract_mutex(two, 0);
    struct contract_outcome outcome = {0, 1};
    struct contract_thread thread;

    (void)state;
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    assert_works(pawl_acquire_start(beside, PAWL_EXCLUSIVE, 1, PAWL_FOREVER, contract_acquired, &outcome, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(two, 1);
    assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
    await(pawl_state(lock) == PAWL_LOST, "the word never comes through");
    contract_await_waiters(two, 2);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    assert_int_equal(pawl_dispatch(one), 0);
    contract_finish(&thread);
    assert_int_equal(contract_await_outcome(one, &outcome), 0);
    assert_true(pawl_token(beside) > thread.token);
    assert_works(pawl_release(beside, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(beside);
    pawl_lock_free(other);
}

/* It fails, and changes nothing: what is to be released is still the exclusive acquire. */
static void test_downgrade_of_a_lost_hold(void **state) {
    struct pawl_lock *lock = contract_rwlock(one, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
    await(pawl_state(lock) == PAWL_LOST, "the word never comes through");
    assert_fails(PAWL_ELOST, pawl_downgrade(lock, &error), &error);
    assert_fails(PAWL_ENOTHELD, pawl_release_shared(lock, &error), &error);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    pawl_lock_free(lock);
}

/* After pawl_lock_free, or after the callback was taken back, none is running and none will come. */
static void test_no_callback_after_free(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct heard *heard = calloc(1, sizeof *heard);
        struct pawl_lock *lock = contract_mutex(one, PAWL_TASK);

        assert_non_null(heard);
        pthread_mutex_init(&heard->mutex, NULL);
        pthread_cond_init(&heard->changed, NULL);
        assert_works(pawl_on_loss(lock, on_loss, heard, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
        if (i % 2)
            assert_works(pawl_on_loss(lock, NULL, NULL, &error), &error);
        else
            pawl_lock_free(lock);
        memset(heard, 0xee, sizeof *heard);
        free(heard);
        if (i % 2)
            pawl_lock_free(lock);
    }
}

/* Who only looks sees all, breaks, and has no locks. */
static void test_only_looking(void **state) {
    struct pawl_options options = {.size = sizeof options, .flags = PAWL_OPEN_LOOK};
    struct pawl_lock *lock = contract_mutex(one, 0), *none = NULL;
    struct pawl *looker;

    (void)state;
    assert_works(pawl_open(contract_engine->url, &options, &looker, &error), &error);
    assert_int_equal(contract_holders(looker), 0);
    assert_works(pawl_acquire(lock, PAWL_FOREVER, &error), &error);
    await(contract_holders(looker) == 1, "it does not see who holds");
    assert_fails(PAWL_EINVAL, pawl_mutex_new(looker, "lock", 0, &none, &error), &error);
    assert_works(pawl_break(looker, "lock", pawl_token(lock), 0, &error), &error);
    await(pawl_state(lock) == PAWL_LOST, "it does not break");
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await(contract_holders(looker) == 0, "it does not see that nobody holds");
    pawl_close(looker);
    pawl_lock_free(lock);
}

static struct pawl_counters stats_of(struct pawl *client) {
    struct pawl_counters stats = {.size = sizeof stats};

    assert_int_equal(pawl_stats(client, &stats), 0);
    return stats;
}

static uint64_t count_waits(const struct pawl_counters *stats) {
    uint64_t sum = 0;

    for (int i = 0; i < PAWL_WAIT_BUCKETS; i++)
        sum += stats->waits[i];
    return sum;
}

/* The counters are what the program did. */
static void test_counters(void **state) {
    struct pawl *own = contract_open("?handoff=9,60000"); /* so that it is certainly handed on */
    struct pawl_lock *lock = contract_mutex(own, 0), *other = contract_mutex(two, 0);
    struct contract_thread thread;
    struct pawl_counters stats;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
        if (i < 2)
            assert_works(pawl_release(lock, &error), &error);
    }
    stats = stats_of(own);
    assert_int_equal(stats.granted, 3);
    assert_int_equal(stats.reentered, 3);
    assert_int_equal(stats.releases, 2);
    assert_int_equal(stats.holding, 1);
    assert_true(stats.claims >= 1 && stats.claims <= 3);

    assert_fails(PAWL_EHELD, pawl_acquire(other, 0, &error), &error);
    assert_fails(PAWL_ETIMEOUT, pawl_acquire(other, 30, &error), &error);
    contract_start(&thread, other, PAWL_EXCLUSIVE, PAWL_FOREVER);
    contract_await_waiters(one, 1);
    stats = stats_of(two);
    assert_int_equal(stats.waiting, 1);
    assert_int_equal(pawl_cancel(other), 1);
    assert_int_equal(contract_await(&thread), PAWL_ECANCELED);
    contract_finish(&thread);
    stats = stats_of(two);
    assert_int_equal(stats.granted, 0);
    assert_int_equal(stats.held, 1);
    assert_int_equal(stats.timed_out, 1);
    assert_int_equal(stats.cancelled, 1);
    assert_int_equal(stats.waiting, 0);
    assert_true(stats.contended >= 2 && stats.contended == count_waits(&stats)); /* a try may wait for the server's word */
    assert_true(stats.waited_ns >= 30 * INT64_C(1000000));

    contract_start(&thread, lock, PAWL_EXCLUSIVE, PAWL_FOREVER); /* another thread of the same client */
    await(stats_of(own).waiting == 1, "it does not wait");
    assert_works(pawl_release(lock, &error), &error);
    assert_int_equal(contract_await(&thread), 0);
    contract_finish(&thread);
    stats = stats_of(own);
    assert_int_equal(stats.granted, 4);
    if (strcmp(contract_engine->name, "local") == 0) /* others may lack a token for it */
        assert_int_equal(stats.handoffs, 1);
    assert_int_equal(stats.holding, 0);
    pawl_lock_free(lock);
    pawl_lock_free(other);
    assert_int_equal(stats_of(own).granted, 4); /* and stay when the handles are gone */
    pawl_close(own);
}

static void test_counted_loss(void **state) {
    struct pawl_lock *lock = contract_mutex(one, 0);

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_break(two, "lock", pawl_token(lock), 0, &error), &error);
    await(pawl_state(lock) == PAWL_LOST, "it does not break");
    assert_int_equal(stats_of(one).lost_broken, 1);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    assert_int_equal(stats_of(one).releases, 1);
    pawl_lock_free(lock);
}

int contract_run_operator(void) {
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(test_holders_and_waiters_in_order),
        CONTRACT_TEST(test_who_was_handed_it),
        CONTRACT_TEST(test_claim_and_lease),
        CONTRACT_TEST(test_agent_is_the_process),
        CONTRACT_TEST(test_bad_input),
        CONTRACT_TEST(test_examination),
        CONTRACT_TEST(test_break_tells_and_waits_for_the_release),
        CONTRACT_TEST(test_break_without_a_callback),
        CONTRACT_TEST(test_break_now_frees_at_once),
        CONTRACT_TEST(test_nobody_joins_what_was_taken_away),
        CONTRACT_TEST(test_waiters_beside_what_was_taken_away),
        CONTRACT_TEST(test_a_broken_hold_is_not_handed_on),
        CONTRACT_TEST(test_downgrade_of_a_lost_hold),
        CONTRACT_TEST(test_no_callback_after_free),
        CONTRACT_TEST(test_only_looking),
        CONTRACT_TEST(test_counters),
        CONTRACT_TEST(test_counted_loss),
    };

    return contract_run_group(
        tests, sizeof tests / sizeof tests[0],
        "test_holders_and_waiters_in_order test_downgrade_of_a_lost_hold test_nobody_joins_what_was_taken_away");
}
