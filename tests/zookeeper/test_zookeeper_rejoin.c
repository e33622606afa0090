/* SPDX-License-Identifier: Apache-2.0
 *
 * test_zookeeper_rejoin.c - getting in line again behind somebody whom we saw there: with fewer requests, and right also
 * if that one, our own node or the connection is gone. Memories last for ever here, so that nothing depends on how fast the machine is.
 */
#include "../support/zookeeper_harness.h"

enum { FIRST, SECOND, SELF, THIRD, LAST, PEOPLE };

static struct pawl *clients[PEOPLE];
static struct pawl_lock *locks[PEOPLE];
static struct acquire waits[PEOPLE];

static void wait_in_line(int who, int nodes) {
    acquire_start(&waits[who], locks[who], false, PAWL_FOREVER);
    await_nodes("", nodes);
}

static void gets_it(int who) {
    assert_int_equal(acquire_wait(&waits[who]), 0);
}

/* Whom does the claim of SELF wait for, and has the server heard of it? */
static bool watches(const char *child) {
    struct zk_engine *zk = zk_of(clients[SELF]->engine);
    struct zk_claim *claim;
    bool found = false;

    pawl__zk_lock();
    TAILQ_FOREACH(claim, &zk->claims, link) {
        const struct zk_watch *ahead = claim->watch.ahead;

        found |= ahead && ahead->state == ZK_WATCH_ARMED && strcmp(strrchr(ahead->path, '/') + 1, child) == 0;
    }
    pawl__zk_unlock(&zk->session);
    return found;
}

static void await_watch(const char *child) {
    await(watches(child), "%s is not watched", child);
}

static void note_list(void *data) {
    atomic_store((_Atomic bool *)data, true);
}

/* The name in a list that has the highest number. */
static const char *highest(const struct listing *listing) {
    int64_t number, most = -1;
    const char *name = NULL;

    for (int i = 0; i < listing->count; i++)
        if (pawl__zk_number(listing->names[i], &number) && number > most) {
            most = number;
            name = listing->names[i];
        }
    return name;
}

/* SELF sees two behind itself when the second ahead has gone; then it has its turn. *last is the node of LAST. */
static void hold_with_two_behind(char last[128]) {
    struct listing line;

    acquire(locks[FIRST]);
    wait_in_line(SECOND, 2);
    wait_in_line(SELF, 3);
    wait_in_line(THIRD, 4);
    acquire_start(&waits[LAST], locks[LAST], false, PAWL_FOREVER);
    line = await_nodes("", 5);
    snprintf(last, 128, "%s", highest(&line));
    release(locks[FIRST]);
    gets_it(SECOND);
    release(locks[SECOND]);
    gets_it(SELF);
}

/* SELF has let go, and stands in line again behind LAST, which it watches. */
static void line_up_again(char last[128]) {
    hold_with_two_behind(last);
    release(locks[SELF]);
    gets_it(THIRD);
    wait_in_line(SELF, 3);
    await_watch(last);
}

static void end_all(void) {
    await_nodes("", 0);
    await_no_watches();
}

/* It has its turn, and nothing is left. */
static void end_with_self(void) {
    gets_it(SELF);
    release(locks[SELF]);
    end_all();
}

/* Those ahead of it have theirs first. */
static void pass_on_to_self(void) {
    release(locks[THIRD]);
    gets_it(LAST);
    release(locks[LAST]);
    end_with_self();
}

/* It does not look before that one has gone. And the one that it watches is not the one that lets it in. */
static void test_in_line_again_without_a_list(void **state) {
    _Atomic bool listed = false;
    char last[128];

    (void)state;
    hold_with_two_behind(last);
    release(locks[SELF]);
    gets_it(THIRD);
    strike_hook(OP_LIST, note_list, &listed);
    wait_in_line(SELF, 3);
    await_watch(last);
    assert_false(atomic_load(&listed));
    release(locks[THIRD]);
    gets_it(LAST);
    assert_false(atomic_load(&waits[SELF].ended));
    release(locks[LAST]);
    gets_it(SELF);
    assert_true(atomic_load(&listed)); /* that is when it looked */
    release(locks[SELF]);
    end_all();
}

/* It watches the last one, and others came in between: it has to wait for them too. */
static void test_others_came_in_between(void **state) {
    char last[128];

    (void)state;
    hold_with_two_behind(last);
    wait_in_line(FIRST, 4);
    wait_in_line(SECOND, 5);
    release(locks[SELF]);
    gets_it(THIRD);
    wait_in_line(SELF, 5);
    await_watch(last);
    release(locks[THIRD]);
    gets_it(LAST);
    release(locks[LAST]);
    gets_it(FIRST);
    assert_false(atomic_load(&waits[SELF].ended));
    release(locks[FIRST]);
    gets_it(SECOND);
    assert_false(atomic_load(&waits[SELF].ended));
    release(locks[SECOND]);
    end_with_self();
}

/* The guess was wrong: that one has left before. */
static void test_gone_before_we_came(void **state) {
    char last[128];

    (void)state;
    hold_with_two_behind(last);
    assert_int_equal(pawl_cancel(locks[LAST]), 1);
    assert_int_equal(acquire_wait(&waits[LAST]), PAWL_ECANCELED);
    await_nodes("", 2);
    release(locks[SELF]);
    gets_it(THIRD);
    wait_in_line(SELF, 2);
    release(locks[THIRD]);
    end_with_self();
}

/* Nobody is there any more at all: nothing would ever wake it. */
static void test_all_gone_before_we_came(void **state) {
    char last[128];

    (void)state;
    hold_with_two_behind(last);
    release(locks[SELF]);
    gets_it(THIRD);
    release(locks[THIRD]);
    gets_it(LAST);
    release(locks[LAST]);
    await_nodes("", 0);
    acquire(locks[SELF]);
    release(locks[SELF]);
    end_all();
}

/* It gives up while we watch it: somebody else holds, so that we must not. */
static void test_it_gives_up(void **state) {
    struct listing left;
    char last[128];

    (void)state;
    line_up_again(last);
    assert_int_equal(pawl_cancel(locks[LAST]), 1);
    assert_int_equal(acquire_wait(&waits[LAST]), PAWL_ECANCELED);
    left = await_nodes("", 2);
    await(watches(left.names[0]) || watches(left.names[1]), "nobody is watched");
    assert_false(atomic_load(&waits[SELF].ended));
    release(locks[THIRD]);
    end_with_self();
}

/* Our own node is not watched meanwhile. When it comes to it, the list tells that it is gone. */
static void test_own_node_deleted_meanwhile(void **state) {
    struct listing line;
    char last[128];

    (void)state;
    line_up_again(last);
    line = raw_list("");
    raw_delete("", highest(&line));
    await_nodes("", 2);
    wait_in_line(FIRST, 3);
    release(locks[THIRD]);
    gets_it(LAST);
    release(locks[LAST]);
    gets_it(FIRST);
    await_nodes("", 2); /* it has queued anew, behind that one */
    assert_false(atomic_load(&waits[SELF].ended));
    release(locks[FIRST]);
    end_with_self();
}

static void cut_at(int op, bool reply) {
    char last[128];

    hold_with_two_behind(last);
    release(locks[SELF]);
    gets_it(THIRD);
    strike_at(op, reply, PROXY_CUT_BEFORE);
    acquire_start(&waits[SELF], locks[SELF], false, PAWL_FOREVER);
    await_strike();
    await_nodes("", 3);
    pass_on_to_self();
}

static void test_cut_at_the_create(void **state) {
    (void)state;
    cut_at(OP_CREATE, false);
}

static void test_cut_at_the_answer_to_create(void **state) {
    (void)state;
    cut_at(OP_CREATE, true);
}

static void test_cut_at_the_watch(void **state) {
    (void)state;
    cut_at(OP_GET, false);
}

static void test_cut_at_the_answer_to_the_watch(void **state) {
    (void)state;
    cut_at(OP_GET, true);
}

/* The session ends while it watches: a new node, and a new place. */
static void test_expiry_meanwhile(void **state) {
    char last[128];

    (void)state;
    line_up_again(last);
    expire(clients[SELF]);
    await_nodes("", 3);
    pass_on_to_self();
}

static int set_up(void **state) {
    if (harness_set_up(state) != 0)
        return -1;
    for (int i = 0; i < PEOPLE; i++) {
        clients[i] = i == SELF ? open_proxied("") : open_direct("");
        locks[i] = new_mutex(clients[i], PAWL_TASK);
    }
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < PEOPLE; i++) {
        pawl_lock_free(locks[i]);
        pawl_close(clients[i]);
    }
    return harness_tear_down(state);
}

#define IN_LINE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        IN_LINE(test_in_line_again_without_a_list),
        IN_LINE(test_others_came_in_between),
        IN_LINE(test_gone_before_we_came),
        IN_LINE(test_all_gone_before_we_came),
        IN_LINE(test_it_gives_up),
        IN_LINE(test_own_node_deleted_meanwhile),
        IN_LINE(test_cut_at_the_create),
        IN_LINE(test_cut_at_the_answer_to_create),
        IN_LINE(test_cut_at_the_watch),
        IN_LINE(test_cut_at_the_answer_to_the_watch),
        IN_LINE(test_expiry_meanwhile),
    };

    pawl__zk_rejoin_ns = INT64_MAX / 100;
    return harness_run(argc, argv, "test_zookeeper_rejoin", 1, &(struct zookeeper_how){0}, tests, sizeof tests / sizeof tests[0]);
}
