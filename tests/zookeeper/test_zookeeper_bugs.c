/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_bugs.c - the bugs that users of other clients had, by name, each forced.
 */
#include "../support/zookeeper_harness.h"

#include <poll.h>

/* A dying session's node in the queue is waited for, not taken for ours. */
static void test_curator_604_node_of_another_session(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct acquire waiter;
    struct listing listing;

    (void)state;
    acquire(lock);
    release(lock);
    await_nodes("", 0);
    raw_create("", "_c_00000000-0000-8000-8010-000000000000-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    listing = await_nodes("", 2);
    assert_false(atomic_load(&waiter.ended));
    for (int i = 0; i < 2; i++)
        if (strncmp(listing.names[i], "_c_00000000-0000", 16) == 0)
            raw_delete("", listing.names[i]);
    assert_int_equal(acquire_wait(&waiter), 0);
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Not even one that has the name of ours, whose reply was lost: the session that owns it decides. */
static void test_curator_604_own_name_in_another_session(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, PAWL_TASK);
    char name[3 + ZK_GUID_SIZE + sizeof "lock-"];
    struct acquire waiter;
    struct listing listing;

    (void)state;
    acquire(lock);
    release(lock);
    await_nodes("", 0);
    proxy_refuse(proxy, true);
    strike_at(OP_CREATE, true, PROXY_CUT_BEFORE);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await_strike();
    listing = await_nodes("", 1);
    snprintf(name, sizeof name, "%.*slock-", 3 + ZK_GUID_SIZE, listing.names[0]);
    raw_delete("", listing.names[0]);
    raw_create("", name, ZOO_EPHEMERAL | ZOO_SEQUENCE);
    proxy_refuse(proxy, false);
    assert_int_equal(acquire_wait(&waiter), 0);
    listing = await_nodes("", 1); /* what had its name was swept away */
    assert_true(strncmp(listing.names[0], name, strlen(name)) != 0);
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* The same for a waiter whose session expires: a new node with a new GUID, at the end of the queue. */
static void test_curator_498_a_new_session_has_a_new_guid(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0);
    struct acquire waiter;
    struct listing before, after;
    int kept = 0;

    (void)state;
    acquire(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    before = await_nodes("", 2);
    expire(client);
    await_link(client, true);
    after = await_nodes("", 2);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            kept += strncmp(before.names[i], after.names[j], 3 + ZK_GUID_SIZE) == 0;
    assert_int_equal(kept, 1); /* the holder's */
    assert_false(atomic_load(&waiter.ended));
    release(held);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(pawl_state(lock), PAWL_HELD);
    assert_true(pawl_token(lock) > 0);
    release(lock);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

static void note_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    (void)lock;
    (void)token;
    if (state == PAWL_LOST)
        atomic_store((_Atomic int *)data, why->code);
}

/* Also 653, 620: who lost its session does not go on leading, and is told at once, not when its lease ends. */
static void test_curator_696_session_expires_while_holding(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *next = new_mutex(other, 0);
    struct acquire waiter;
    _Atomic int why = 0;
    uint64_t token;

    (void)state;
    assert_works(pawl_on_loss(lock, note_loss, &why, &error), &error);
    acquire(lock);
    token = pawl_token(lock);
    acquire_start(&waiter, next, false, PAWL_FOREVER);
    await_nodes("", 2);
    expire(client);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_true(pawl_token(next) > token);
    await_state(lock, PAWL_LOST);
    assert_int_equal(pawl_remaining_ms(lock), 0);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    await_link(client, true);
    assert_int_equal(why, PAWL_ELOST);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    release(next);
    acquire(lock); /* the client is as good as new */
    release(lock);
    pawl_lock_free(lock);
    pawl_lock_free(next);
    pawl_close(client);
    pawl_close(other);
}

/* etcd #11456: it was let in, but its session was over before it could hear of that. Others were let in since: it queues anew. */
static void test_etcd_11456_let_in_when_the_session_is_over(void **state) {
    struct pawl *client = open_proxied("?session=3000"), *other = open_direct(""), *third = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0), *next = new_mutex(third, 0);
    struct acquire waiter;

    (void)state;
    acquire(held);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    await_nodes("", 2);
    await_watches(2);
    proxy_freeze(proxy, true);
    release(held); /* the server tells the waiter, but nothing comes through */
    await_nodes("", 0);
    acquire(next);
    proxy_freeze(proxy, false);
    await_nodes("", 2);
    assert_false(atomic_load(&waiter.ended));
    assert_int_equal(pawl_state(next), PAWL_HELD);
    release(next);
    assert_int_equal(acquire_wait(&waiter), 0);
    release(lock);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_lock_free(next);
    pawl_close(client);
    pawl_close(other);
    pawl_close(third);
}

/* A try that fails leaves no node, even if its clean-up was cut. */
static void test_kazoo_732_try_leaves_nothing(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0);

    (void)state;
    acquire(held);
    strike_at(OP_DELETE, false, PROXY_CUT_BEFORE);
    assert_fails(PAWL_EHELD, pawl_acquire(lock, 0, &error), &error);
    await_strike();
    await_nodes("", 1);
    release(held);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

/* Given up between the sending of create and its reply: the node is found and swept. Also vitess #15756: by a clean-up whose time is
 * not the acquire's. */
static void test_curator_79_given_up_before_the_reply(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    acquire(lock);
    release(lock);
    await_nodes("", 0);
    for (int i = 0; i < 2; i++) {
        proxy_delay(proxy, 200);
        assert_fails(PAWL_ETIMEOUT, pawl_acquire(lock, 20, &error), &error);
        if (i)
            cut_and_reconnect(client); /* and now it can't even be known by its reply */
        proxy_delay(proxy, 0);
        await_link(client, true);
        await_nodes("", 0);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

static void test_sequence_near_its_end(void **state) {
    struct pawl *client = open_direct(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *waits = new_mutex(other, 0), *late = NULL;
    struct pawl *third = open_direct("");
    struct acquire waiter;
    int64_t limit = pawl__zk_sequence_limit;
    uint64_t token = 0;

    (void)state;
    pawl__zk_sequence_limit = 4;
    for (int i = 0; i < 12; i++) { /* an empty directory is replaced, and tokens go on rising */
        acquire(lock);
        assert_true(pawl_token(lock) > token);
        token = pawl_token(lock);
        release(lock);
    }
    acquire(lock);
    acquire_start(&waiter, waits, false, PAWL_FOREVER);
    await_nodes("", 2);
    await_watches(3);            /* the waiter has looked at its number by now */
    pawl__zk_sequence_limit = 0; /* with others in line there is no way out: an error of its own */
    late = new_mutex(third, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pawl_acquire(late, PATIENCE_MS, &error), PAWL_EOVERFLOW);
    pawl__zk_sequence_limit = limit;
    release(lock);
    assert_int_equal(acquire_wait(&waiter), 0);
    release(waits);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_lock_free(waits);
    pawl_lock_free(late);
    pawl_close(client);
    pawl_close(other);
    pawl_close(third);
}

struct heard {
    _Atomic int suspect, lost;
};

static void on_loss(struct pawl_lock *lock, enum pawl_state state, uint64_t token, const struct pawl_error *why, void *data) {
    struct heard *heard = data;

    (void)lock;
    (void)token;
    (void)why;
    atomic_fetch_add(state == PAWL_LOST ? &heard->lost : &heard->suspect, 1);
}

/* CURATOR-206: a holder hears of its loss though nothing comes through; and 460: before the server lets the next one in. */
static void test_curator_206_460_half_open(void **state) {
    struct pawl *client = open_proxied("?session=6000"), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *next = new_mutex(other, 0);
    struct heard heard = {0};
    struct acquire waiter;

    (void)state;
    assert_works(pawl_on_loss(lock, on_loss, &heard, &error), &error);
    acquire(lock);
    acquire_start(&waiter, next, false, PAWL_FOREVER);
    await_nodes("", 2);
    proxy_freeze(proxy, true);
    await_state(lock, PAWL_LOST);
    assert_false(atomic_load(&waiter.ended)); /* the server still waits */
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(atomic_load(&heard.suspect), 1);
    assert_int_equal(atomic_load(&heard.lost), 1);
    proxy_freeze(proxy, false);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    release(next);
    await_nodes("", 0);
    pawl_lock_free(lock);
    pawl_lock_free(next);
    pawl_close(client);
    pawl_close(other);
}

/* Also a young hold is confirmed by its first heartbeat. */
static void test_extended_when_it_is_young(void **state) {
    struct pawl *client = open_direct("?session=6000");
    struct pawl_lock *lock = new_mutex(client, 0);
    int64_t began;

    (void)state;
    assert_works(pawl_set_max_hold(lock, 60000, &error), &error);
    acquire(lock);
    began = pawl__boottime();
    assert_works(pawl_extend(lock, 60000, 5000, &error), &error);
    assert_true(pawl__boottime() - began < 100 * ZK_MS);
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* However long it was idle: there is always a recent answer to count from, so its second request proves the session. */
static void test_acquired_after_a_rest(void **state) {
    struct pawl *client = open_direct("?session=6000");
    struct pawl_lock *lock = new_mutex(client, 0);

    (void)state;
    for (int64_t rest_ms = 500; rest_ms < 20000; rest_ms += 700) {
        int64_t began;

        nanosleep(&(struct timespec){.tv_sec = rest_ms / 1000, .tv_nsec = rest_ms % 1000 * ZK_MS}, NULL);
        began = pawl__boottime();
        acquire(lock);
        assert_true(pawl__boottime() - began < 100 * ZK_MS);
        assert_true(pawl_remaining_ms(lock) > 800); /* a third of 2,500 */
        release(lock);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Also 645, 504: the one ahead leaves, and the next one keeps its own node. */
static void test_curator_644_no_reset(void **state) {
    struct pawl *a = open_direct(""), *b = open_direct(""), *c = open_direct("");
    struct pawl_lock *held = new_mutex(a, 0), *middle = new_mutex(b, 0), *last = new_mutex(c, 0);
    struct acquire first, second;
    struct listing before, after;

    (void)state;
    acquire(held);
    acquire_start(&first, middle, false, PAWL_FOREVER);
    await_nodes("", 2);
    acquire_start(&second, last, false, PAWL_FOREVER);
    before = await_nodes("", 3);
    assert_int_equal(pawl_cancel(middle), 1);
    assert_int_equal(acquire_wait(&first), PAWL_ECANCELED);
    after = await_nodes("", 2);
    for (int i = 0; i < 2; i++) {
        bool known = false;

        for (int j = 0; j < 3; j++)
            known |= strcmp(after.names[i], before.names[j]) == 0;
        assert_true(known);
    }
    assert_false(atomic_load(&second.ended));
    release(held);
    assert_int_equal(acquire_wait(&second), 0);
    release(last);
    await_no_watches();
    pawl_lock_free(held);
    pawl_lock_free(middle);
    pawl_lock_free(last);
    pawl_close(a);
    pawl_close(b);
    pawl_close(c);
}

/* Also 276: a writer that waits is not let in by a downgrade; a cut in the middle of it changes nothing. */
static void downgrade(int op, bool reply) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_rwlock(client, 0), *writer = new_rwlock(other, 0);
    struct acquire waiter;
    uint64_t token;

    acquire(lock);
    token = pawl_token(lock);
    acquire_start(&waiter, writer, false, PAWL_FOREVER);
    await_nodes("", 2);
    if (op)
        strike_at(op, reply, PROXY_CUT_BEFORE);
    assert_works(pawl_downgrade(lock, &error), &error);
    if (op)
        await_strike();
    for (struct listing listing = raw_list(""); !strstr(listing.names[0], "__READ__") && !strstr(listing.names[1], "__READ__");)
        listing = raw_list("");
    assert_int_equal(await_nodes("", 2).count, 2);
    assert_false(atomic_load(&waiter.ended));
    assert_true(pawl_token(lock) == token);
    assert_works(pawl_release_shared(lock, &error), &error);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_true(pawl_token(writer) > token);
    release(writer);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_lock_free(writer);
    pawl_close(client);
    pawl_close(other);
}

static void test_curator_621_downgrade(void **state) {
    (void)state;
    downgrade(0, false);
    downgrade(OP_MULTI, false);
    downgrade(OP_MULTI, true);
}

/* W, R, W: the reader waits for the first writer only. */
static void test_kazoo_649_later_writers_do_not_count(void **state) {
    struct pawl *a = open_direct(""), *b = open_direct(""), *c = open_direct("");
    struct pawl_lock *held = new_rwlock(a, 0), *reader = new_rwlock(b, 0), *later = new_rwlock(c, 0);
    struct acquire first, second;

    (void)state;
    acquire(held);
    acquire_start(&first, reader, true, PAWL_FOREVER);
    await_nodes("", 2);
    acquire_start(&second, later, false, PAWL_FOREVER);
    await_nodes("", 3);
    release(held);
    assert_int_equal(acquire_wait(&first), 0);
    assert_false(atomic_load(&second.ended));
    assert_works(pawl_release_shared(reader, &error), &error);
    assert_int_equal(acquire_wait(&second), 0);
    release(later);
    pawl_lock_free(held);
    pawl_lock_free(reader);
    pawl_lock_free(later);
    pawl_close(a);
    pawl_close(b);
    pawl_close(c);
}

/* Also 335, 462: leases whose making was cut are found, or swept. */
static void test_curator_315_no_orphaned_leases(void **state) {
    static const bool replies[] = {false, true};
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_semaphore(client, 3);

    (void)state;
    for (int i = 0; i < 2; i++) {
        strike_at(OP_MULTI, replies[i], PROXY_CUT_BEFORE);
        assert_works(pawl_acquire_permits(lock, 2, PATIENCE_MS, &error), &error);
        await_strike();
        await_nodes("/leases", 2);
        await_nodes("/locks", 0);
        release(lock);
        await_nodes("/leases", 0);
        proxy_delay(proxy, 100);
        assert_fails(PAWL_ETIMEOUT, pawl_acquire_permits(lock, 2, 150, &error), &error);
        if (i)
            cut_and_reconnect(client);
        proxy_delay(proxy, 0);
        await_nodes("/leases", 0);
        await_nodes("/locks", 0);
    }
    await_no_watches();
    pawl_lock_free(lock);
    pawl_close(client);
}

/* go-zookeeper: acquires though its own node is gone. */
static void test_go_own_node_deleted_while_waiting(void **state) {
    struct pawl *a = open_direct(""), *b = open_direct("");
    struct pawl_lock *held = new_mutex(a, 0), *lock = new_mutex(b, 0);
    struct acquire waiter;
    struct listing first, both;

    (void)state;
    acquire(held);
    first = await_nodes("", 1);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    both = await_nodes("", 2);
    for (int i = 0; i < 2; i++)
        if (strcmp(both.names[i], first.names[0]) != 0)
            raw_delete("", both.names[i]);
    await_nodes("", 1);
    release(held);
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(await_nodes("", 1).count, 1);
    release(lock);
    await_nodes("", 0);
    await_no_watches();
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(a);
    pawl_close(b);
}

/* The last in line first. */
static void delete_all(void *data) {
    struct listing nodes = raw_list("");
    bool later = nodes.count == 2 && strcmp(strrchr(nodes.names[0], '-'), strrchr(nodes.names[1], '-')) < 0;

    (void)data;
    assert_int_equal(nodes.count, 2);
    raw_delete("", nodes.names[later]);
    raw_delete("", nodes.names[!later]);
}

/* Its own node is deleted, and then the one ahead of it, before it watches its own: it does not hold what nobody else sees. */
static void test_own_node_deleted_before_it_is_watched(void **state) {
    struct pawl *client = open_proxied(""), *other = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0), *held = new_mutex(other, 0);
    struct acquire waiter;

    (void)state;
    acquire(held);
    strike_hook(OP_GET, delete_all, NULL);
    atomic_store(&strike.skip, 1); /* the first is about the one ahead */
    acquire_start(&waiter, lock, false, PATIENCE_MS);
    await_strike();
    assert_int_equal(acquire_wait(&waiter), 0);
    assert_int_equal(raw_list("").count, 1);
    release(lock);
    assert_fails(PAWL_ELOST, pawl_release(held, &error), &error);
    pawl_lock_free(lock);
    pawl_lock_free(held);
    pawl_close(client);
    pawl_close(other);
}

static void test_own_node_deleted_while_holding(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct heard heard = {0};

    (void)state;
    assert_works(pawl_on_loss(lock, on_loss, &heard, &error), &error);
    acquire(lock);
    raw_delete("", await_nodes("", 1).names[0]);
    await_state(lock, PAWL_LOST);
    assert_fails(PAWL_ELOST, pawl_release(lock, &error), &error);
    acquire(lock);
    release(lock);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Kazoo's time-out begins anew with every wake-up. Here those ahead leave one by one; the acquire ends before they are all gone. */
static void test_kazoo_timeout_is_absolute(void **state) {
    enum { AHEAD = 40 };
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct acquire waiter;
    struct listing listing;
    int left = AHEAD;

    (void)state;
    acquire(lock);
    release(lock);
    await_nodes("", 0);
    for (int i = 0; i < AHEAD; i++)
        raw_create("", "_c_00000000-0000-4000-8010-000000000000-lock-", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    acquire_start(&waiter, lock, false, 400);
    listing = await_nodes("", AHEAD + 1);
    while (!atomic_load(&waiter.ended) && left > 1) { /* the nearest first: each is a wake-up */
        int nearest = -1;
        int64_t number, highest = -1;

        for (int i = 0; i < listing.count; i++)
            if (strncmp(listing.names[i], "_c_00000000-0000-4000", 21) == 0 && pawl__zk_number(listing.names[i], &number) &&
                number > highest) {
                highest = number;
                nearest = i;
            }
        raw_delete("", listing.names[nearest]);
        listing.names[nearest][0] = '\0';
        left--;
        poll(NULL, 0, 30);
    }
    assert_int_equal(acquire_wait(&waiter), PAWL_ETIMEOUT);
    assert_true(left > 1);
    await_nodes("", left);
    await_no_watches();
    pawl_lock_free(lock);
    pawl_close(client);
}

static void let_go_in_between(void *data) {
    release(data);
    await_nodes("", 1);
}

/* A deletes its node between B's list and B's watch. B must not sleep. */
static void test_curator_527_gone_between_list_and_watch(void **state) {
    struct pawl *a = open_direct(""), *b = open_proxied("");
    struct pawl_lock *held = new_mutex(a, 0), *lock = new_mutex(b, 0);

    (void)state;
    acquire(held);
    strike_hook(OP_GET, let_go_in_between, held);
    acquire(lock);
    await_strike();
    release(lock);
    await_no_watches();
    pawl_lock_free(held);
    pawl_lock_free(lock);
    pawl_close(a);
    pawl_close(b);
}

/* Also 436, 180; kazoo #563: the directory was reaped. */
static void test_curator_724_parent_gone(void **state) {
    struct pawl *client = open_direct("");
    struct pawl_lock *lock = new_mutex(client, 0);
    uint64_t token;

    (void)state;
    acquire(lock);
    token = pawl_token(lock);
    release(lock);
    await_nodes("", 0);
    raw_delete("", NULL);
    acquire(lock);
    assert_true(pawl_token(lock) > token); /* though its number is 0 again */
    release(lock);
    pawl_lock_free(lock);
    pawl_close(client);
}

/* kazoo #482: a client that is closed while it can't reach its server ends what is pending. */
static void test_kazoo_482_close_while_cut_off(void **state) {
    struct pawl *client = open_proxied("");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct acquire waiter;

    (void)state;
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    await_link(client, false);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 0, &error), &error);
    assert_fails(PAWL_ECONNLOST, pawl_acquire(lock, 30, &error), &error);
    acquire_start(&waiter, lock, false, PAWL_FOREVER);
    poll(NULL, 0, 20);
    pawl_close(client);
    assert_int_equal(acquire_wait(&waiter), PAWL_ECLOSED);
    pawl_lock_free(lock);
}

/* With an argument: only the tests whose names match it. */
/* A tick that leaves nothing of the session assured: an acquire would succeed, and be lost at once. */
static void test_a_tick_longer_than_the_session(void **state) {
    struct pawl *client;
    char url[160];

    (void)state;
    snprintf(url, sizeof url, "zk://127.0.0.1:%u%s?session=2000&tick=2001", server.ports[0], harness_path());
    assert_int_equal(pawl_open(url, NULL, &client, &error), PAWL_EOPTION);
    client = open_direct("?session=2000&tick=2000");
    pawl_close(client);
}

/* Let a server have more transactions than the other: else it sends clients away that have seen more than it has. */
static void advance(unsigned port) {
    struct pawl *client;
    struct pawl_lock *lock;
    char url[64];

    snprintf(url, sizeof url, "zk://127.0.0.1:%u/other", port);
    assert_works(pawl_open(url, NULL, &client, &error), &error);
    lock = new_mutex(client, 0);
    for (int i = 0; i < 100; i++) {
        assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
        assert_works(pawl_release(lock, &error), &error);
    }
    pawl_lock_free(lock);
    pawl_close(client);
}

/* Another server grants shorter sessions than the first: what was right at open is not any more, and a lock that is lost at once is not
 * handed out. */
static void test_a_tick_longer_than_the_next_session(void **state) {
    struct pawl *client = open_proxied("?session=4000&tick=3000");
    struct pawl_lock *lock = new_mutex(client, 0);
    struct zookeeper_server second;
    int rc;

    (void)state;
    assert_works(pawl_acquire(lock, PATIENCE_MS, &error), &error);
    assert_works(pawl_release(lock, &error), &error);
    assert_true(zookeeper_server_start_as(&second, 1, &(struct zookeeper_how){.longest = 2000}));
    advance(second.ports[0]);
    proxy_aim(proxy, second.ports[0]);
    proxy_cut(proxy);
    do /* until the new session is there */
        rc = pawl_acquire(lock, 100, &error);
    while (rc == PAWL_ECONNLOST || rc == PAWL_ETIMEOUT);
    assert_int_equal(rc, PAWL_EOPTION);
    assert_contains(error.text, "?session=");
    pawl_lock_free(lock);
    pawl_close(client);
    zookeeper_server_stop(&second);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_tick_longer_than_the_session),
        TEST(test_a_tick_longer_than_the_next_session),
        TEST(test_curator_604_node_of_another_session),
        TEST(test_curator_604_own_name_in_another_session),
        TEST(test_curator_498_a_new_session_has_a_new_guid),
        TEST(test_curator_696_session_expires_while_holding),
        TEST(test_etcd_11456_let_in_when_the_session_is_over),
        TEST(test_kazoo_732_try_leaves_nothing),
        TEST(test_curator_79_given_up_before_the_reply),
        TEST(test_sequence_near_its_end),
        TEST(test_curator_206_460_half_open),
        TEST(test_extended_when_it_is_young),
        TEST(test_acquired_after_a_rest),
        TEST(test_curator_644_no_reset),
        TEST(test_curator_621_downgrade),
        TEST(test_kazoo_649_later_writers_do_not_count),
        TEST(test_curator_315_no_orphaned_leases),
        TEST(test_go_own_node_deleted_while_waiting),
        TEST(test_own_node_deleted_before_it_is_watched),
        TEST(test_own_node_deleted_while_holding),
        TEST(test_kazoo_timeout_is_absolute),
        TEST(test_curator_527_gone_between_list_and_watch),
        TEST(test_curator_724_parent_gone),
        TEST(test_kazoo_482_close_while_cut_off),
    };

    return harness_run(argc, argv, "test_zookeeper_bugs", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
