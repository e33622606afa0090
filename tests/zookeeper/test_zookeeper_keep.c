/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_keep.c - locks that are kept: taken again without a request, and given back to everybody who wants them; cuts, and what an
 * operator sees. Readers, tries and other kinds are in test_zookeeper_keep_kinds.c.
 */
#include <poll.h>

#include "../support/zookeeper_keep.h"

/* ---- Taken again ----------------------------------------------------------------------------------------------------------- */

static void test_taken_again_without_a_request(void **state) {
    uint64_t before;

    (void)state;
    keep_mutex();
    before = requests(keeper);
    for (int i = 0; i < 1000; i++)
        use(kept);
    assert_int_equal(requests(keeper), before);
    assert_non_null(strstr(await_nodes("", 1).names[0], KEPT_GUID));
}

/* It costs a list and the watch on the own node, once. */
static void test_what_keeping_costs(void **state) {
    uint64_t before;

    (void)state;
    kept = new_mutex(keeper, 0);
    use(kept);
    await_listens(keeper);
    pawl_lock_free(kept);
    pawl_close(keeper);
    await_nodes("", 0);
    keeper = open_proxied(KEEPS);
    kept = new_mutex(keeper, 0);
    await(requests(keeper) > 0, "no sign of life of the new session");
    before = requests(keeper);
    use(kept);
    await_listens(keeper);
    assert_int_equal(requests(keeper) - before, 4); /* create, list; list with a watch, get with a watch */
}

static void test_nothing_is_watched_without_keep(void **state) {
    uint64_t before;

    (void)state;
    wants = new_mutex(rival, 0);
    use(wants);
    await_nodes("", 0);
    before = requests(rival);
    use(wants);
    await_nodes("", 0);
    assert_int_equal(requests(rival) - before, 3); /* create, list, delete */
    await_no_watches();
}

static void wait_for_a_word(void *data) {
    while (!atomic_load((_Atomic bool *)data))
        poll(NULL, 0, 1);
}

/* While the list is on its way it may be entered: what the list will say comes as soon as an event would. */
static void test_entered_while_the_list_is_on_its_way(void **state) {
    _Atomic bool go_on = false;
    uint64_t before;

    (void)state;
    kept = new_mutex(keeper, 0);
    acquire(kept);
    strike_hook(OP_LIST, wait_for_a_word, &go_on);
    release(kept);
    before = requests(keeper);
    for (int i = 0; i < 10; i++)
        use(kept);
    assert_in_range(requests(keeper), before, before + 1); /* the watch on its own node */
    atomic_store(&go_on, true);
    await_strike();
    await_listens(keeper);
    await_nodes("", 1);
}

static void test_every_hold_has_a_token(void **state) {
    uint64_t token = 0;
    int64_t first, last;

    (void)state;
    keep_mutex();
    pawl__zk_number(await_nodes("", 1).names[0], &first);
    for (int i = 0; i < 300; i++) {
        acquire(kept);
        assert_true(pawl_token(kept) > token);
        token = pawl_token(kept);
        release(kept);
    }
    pawl__zk_number(await_nodes("", 1).names[0], &last);
    assert_int_equal(last - first, 2); /* 128 to a node */
}

/* ---- Wanted ---------------------------------------------------------------------------------------------------------------- */

static void test_given_back_to_one_that_comes(void **state) {
    (void)state;
    keep_mutex();
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
    use(kept); /* and back */
}

static void line_up(void *data) {
    (void)data;
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    await_nodes("", 2);
}

/* It comes after the last release and before the server has heard of the watch: the list tells of it. */
static void test_wanted_before_the_list_is_answered(void **state) {
    (void)state;
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    acquire(kept);
    strike_hook(OP_LIST, line_up, NULL);
    release(kept);
    await_strike();
    rival_gets_it();
}

/* What was said with the grant of the client's only claim. */
static bool granted_wanted(struct pawl *client) {
    return TAILQ_FIRST(&zk_of(client->engine)->claims)->claim->wanted;
}

/* It stood behind already when the lock was granted: the grant says so, and the release gives it back. */
static void test_wanted_when_it_was_granted(void **state) {
    struct acquire first;

    (void)state;
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    acquire(wants);
    acquire_start(&first, kept, false, PAWL_FOREVER);
    await_nodes("", 2);
    raw_create("", "_c_00000000-0000-4000-8000-000000000000-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    cut_and_reconnect(keeper);
    raw_create("", "_c_00000000-0000-4000-8000-000000000001-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    release(wants);
    assert_int_equal(acquire_wait(&first), 0);
    assert_true(granted_wanted(keeper));
    release(kept);
    await_nodes("", 2);
}

/* The one that it had to wait for does not want it. */
static void test_kept_after_waiting_for_it(void **state) {
    struct acquire first;

    (void)state;
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    acquire(wants);
    acquire_start(&first, kept, false, PAWL_FOREVER);
    await_nodes("", 2);
    await_watches(1);
    release(wants);
    assert_int_equal(acquire_wait(&first), 0);
    assert_false(granted_wanted(keeper));
    release(kept);
    await_listens(keeper);
    await_nodes("", 1);
}

/* While somebody in the process holds it: it is given back when that one lets go. */
static void test_wanted_while_it_is_used(void **state) {
    (void)state;
    keep_mutex();
    acquire(kept);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    await_nodes("", 2);
    assert_false(atomic_load(&waiter.ended));
    release(kept);
    rival_gets_it();
}

struct loop {
    pthread_t thread;
    struct pawl_lock *lock;
    _Atomic bool ends;
};

static void *go_round(void *data) {
    struct loop *loop = data;

    while (!atomic_load(&loop->ends)) {
        acquire(loop->lock);
        poll(NULL, 0, 1);
        release(loop->lock);
    }
    return NULL;
}

/* Threads that hand it on to each other never let it rest; who waits is heard all the same. */
static void test_wanted_while_threads_hand_it_on(void **state) {
    struct loop loops[3];

    (void)state;
    wants = new_mutex(rival, 0);
    for (int i = 0; i < 3; i++) {
        atomic_init(&loops[i].ends, false);
        loops[i].lock = new_mutex(keeper, 0);
        assert_int_equal(pthread_create(&loops[i].thread, NULL, go_round, &loops[i]), 0);
    }
    await_listens(keeper);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), 0);
    for (int i = 0; i < 3; i++)
        atomic_store(&loops[i].ends, true);
    release(wants);
    for (int i = 0; i < 3; i++) {
        pthread_join(loops[i].thread, NULL);
        pawl_lock_free(loops[i].lock);
    }
}

/* Others' nodes are heard of as pawl's are. */
static void wanted_by(const char *name) {
    struct listing listing;

    keep_mutex();
    raw_create("", name, ZOO_EPHEMERAL | ZOO_SEQUENCE);
    await(!strstr((listing = await_nodes("", 1)).names[0], KEPT_GUID), "it was not given back");
    raw_delete("", listing.names[0]);
    use(kept);
}

static void test_wanted_by_curator(void **state) {
    (void)state;
    wanted_by("_c_00000000-0000-4000-8000-000000000000-lock-");
}

static void test_wanted_by_kazoo(void **state) {
    (void)state;
    pawl_close(keeper);
    keeper = open_proxied(KEEPS "&compat=kazoo");
    kept = new_mutex(keeper, 0);
    use(kept);
    await_listens(keeper);
    await_nodes("", 2); /* it has a twin */
    raw_create("", "0123456789abcdef0123456789abcdef__lock__", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    assert_null(strstr(await_nodes("", 1).names[0], KEPT_GUID));
}

static void take_back(void *data) {
    struct listing listing = await_nodes("", 2);

    (void)data;
    for (int i = 0; i < 2; i++)
        if (!strstr(listing.names[i], KEPT_GUID))
            raw_delete("", listing.names[i]);
}

/* One that tries is gone before anybody has looked. Its next try must not find the lock held by nobody. */
static void test_wanted_by_one_that_came_and_went(void **state) {
    (void)state;
    keep_mutex();
    strike_hook(OP_LIST, take_back, NULL);
    raw_create("", "_c_00000000-0000-4000-8000-000000000000-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    await_strike();
    await_nodes("", 0);
}

/* A lock below is a child of the directory, and wants nothing. */
static void test_a_lock_below_it_wants_nothing(void **state) {
    struct pawl_lock *below;
    uint64_t before;

    (void)state;
    keep_mutex();
    assert_works(pawl_mutex_new(rival, "lock/below", PAWL_TASK, &below, &error), &error);
    use(below);
    await_nodes("", 2);
    before = requests(keeper);
    await_listens(keeper); /* it has looked, and watches again */
    use(kept);
    assert_in_range(requests(keeper), before, before + 1);
    assert_int_equal(await_nodes("", 2).count, 2);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), 0);
    release(wants);
    pawl_lock_free(below);
}

/* ---- Faults ---------------------------------------------------------------------------------------------------------------- */

/* Who can't be heard of must not be kept out: without a connection it is not entered. */
static void test_not_entered_without_a_connection(void **state) {
    (void)state;
    keep_mutex();
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(keeper, false);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(kept, 100, &error), &error);
    proxy_refuse(proxy, false);
    await_link(keeper, true);
    use(kept);
}

static uint64_t session_of(struct pawl *client) {
    return zk_of(client->engine)->session.number;
}

/* It came while the keeper was cut off, and no event will tell of it. */
static void test_wanted_during_a_cut(void **state) {
    uint64_t session;

    (void)state;
    keep_mutex();
    session = session_of(keeper);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(keeper, false);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    await_nodes("", 2);
    proxy_refuse(proxy, false);
    rival_gets_it();
    assert_int_equal(session_of(keeper), session);
}

/* Kept over a cut, and entered again when it is over, with the same node. */
static void test_kept_over_a_cut(void **state) {
    struct listing before;

    (void)state;
    keep_mutex();
    before = await_nodes("", 1);
    cut_and_reconnect(keeper);
    await_listens(keeper);
    use(kept);
    assert_string_equal(await_nodes("", 1).names[0], before.names[0]);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
}

/* A reader between two looks has no watch that a cut could take: it is deaf all the same. */
static void test_readers_are_deaf_without_a_connection(void **state) {
    (void)state;
    kept = new_rwlock(keeper, 0);
    wants = new_rwlock(rival, 0);
    read_once(kept);
    await_listens(keeper);
    read_once(wants); /* fires the watch; the next look is later */
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(keeper, false);
    assert_fails(PAWL_ECONNLOST, pawl_acquire_shared(kept, 100, &error), &error);
    proxy_refuse(proxy, false);
    await_link(keeper, true);
    read_once(kept);
}

static void cut_at_the_list(bool reply) {
    kept = new_mutex(keeper, 0);
    wants = new_mutex(rival, 0);
    acquire(kept);
    strike_at(OP_LIST, reply, PROXY_CUT_BEFORE);
    release(kept);
    await_strike();
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
}

static void test_cut_at_the_list(void **state) {
    (void)state;
    cut_at_the_list(false);
}

static void test_cut_at_the_answer_to_the_list(void **state) {
    (void)state;
    cut_at_the_list(true);
}

static void test_cut_at_the_event(void **state) {
    (void)state;
    keep_mutex();
    strike_at(OP_EVENT, true, PROXY_CUT_BEFORE);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    rival_gets_it();
}

static void on_loss(struct pawl_lock *lock, enum pawl_state how, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock, (void)how, (void)token, (void)why;
    atomic_store((_Atomic bool *)data, true);
}

/* Nobody held it: nobody is told. */
static void test_expiry_while_kept(void **state) {
    _Atomic bool told = false;

    (void)state;
    keep_mutex();
    assert_works(pawl_on_loss(kept, on_loss, &told, &error), &error);
    expire(keeper);
    await_nodes("", 0);
    use(wants);
    await_link(keeper, true);
    use(kept);
    assert_false(atomic_load(&told));
    await_nodes("", 1);
}

/* The connection is open, and nothing comes over it: the end of what is assured is the bound. */
static void test_not_entered_when_it_is_not_assured(void **state) {
    (void)state;
    pawl_close(keeper);
    keeper = open_proxied("?keep=600000&session=4000");
    keep_mutex();
    proxy_freeze(proxy, true);
    acquire_start(&waiter, wants, false, PAWL_FOREVER);
    assert_int_equal(acquire_wait(&waiter), 0); /* by the end of the keeper's session */
    assert_true(pawl_acquire(kept, 10, &error) < 0);
    proxy_freeze(proxy, false);
    release(wants);
    await_link(keeper, true);
    use(kept);
}

/* ---- Operators ------------------------------------------------------------------------------------------------------------- */

struct seen {
    unsigned count, keeps;
    uint64_t token;
};

static int see(const struct pawl_entry *entry, void *data) {
    struct seen *seen = data;

    seen->count++;
    seen->keeps += (entry->flags & PAWL_ENTRY_KEEPS) != 0;
    seen->token = entry->token;
    return 0;
}

static struct seen inspect(void) {
    struct seen seen = {0};

    assert_works(pawl_inspect(rival, "lock", see, &seen, &error), &error);
    return seen;
}

static void test_status_shows_that_it_is_kept(void **state) {
    (void)state;
    keep_mutex();
    assert_int_equal(inspect().count, 1);
    assert_int_equal(inspect().keeps, 1);
    acquire(wants);
    assert_int_equal(inspect().keeps, 0);
    release(wants);
}

/* What nobody holds is given back at once, and nobody is told. */
static void broken(unsigned flags) {
    _Atomic bool told = false;

    keep_mutex();
    assert_works(pawl_on_loss(kept, on_loss, &told, &error), &error);
    assert_works(pawl_break(rival, "lock", inspect().token + 5, flags, &error), &error);
    await_nodes("", 0);
    use(kept);
    assert_false(atomic_load(&told));
}

static void test_broken_while_kept(void **state) {
    (void)state;
    broken(0);
}

static void test_broken_now_while_kept(void **state) {
    (void)state;
    broken(PAWL_BREAK_NOW);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        KEPT(test_taken_again_without_a_request),
        KEPT(test_what_keeping_costs),
        KEPT(test_nothing_is_watched_without_keep),
        KEPT(test_entered_while_the_list_is_on_its_way),
        KEPT(test_every_hold_has_a_token),
        KEPT(test_given_back_to_one_that_comes),
        KEPT(test_wanted_before_the_list_is_answered),
        KEPT(test_wanted_when_it_was_granted),
        KEPT(test_kept_after_waiting_for_it),
        KEPT(test_wanted_while_it_is_used),
        KEPT(test_wanted_while_threads_hand_it_on),
        KEPT(test_wanted_by_curator),
        KEPT(test_wanted_by_kazoo),
        KEPT(test_wanted_by_one_that_came_and_went),
        KEPT(test_a_lock_below_it_wants_nothing),
        KEPT(test_not_entered_without_a_connection),
        KEPT(test_wanted_during_a_cut),
        KEPT(test_kept_over_a_cut),
        KEPT(test_readers_are_deaf_without_a_connection),
        KEPT(test_cut_at_the_list),
        KEPT(test_cut_at_the_answer_to_the_list),
        KEPT(test_cut_at_the_event),
        KEPT(test_expiry_while_kept),
        KEPT(test_not_entered_when_it_is_not_assured),
        KEPT(test_status_shows_that_it_is_kept),
        KEPT(test_broken_while_kept),
        KEPT(test_broken_now_while_kept),
    };

    return harness_run(argc, argv, "test_zookeeper_keep", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
