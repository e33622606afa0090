/* SPDX-License-Identifier: Apache-2.0
 *
 * test_local_states.c - the two tables of the local engine, cell by cell: what becomes of a node, and of a claim's phase. And what a visit
 * of the guard may wake, on a table that is nobody's.
 */
#include <sys/mman.h>

#include "../support/local_harness.h"

/* ---- Nodes ---- */

enum { NEVER = -1 };

/* Written down once more. */
static const struct {
    int from;
    int to[NODE_EVENTS]; /* HOLD, QUEUE, LEAVE, GRANT, PASS_OVER, REVOKE, TAKE, CLAIM, REST, RESUME, LET_GO */
} node_cells[] = {
    {NODE_FREE, {NODE_HELD, NODE_WAITING, NODE_FREE, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER}},
    {NODE_WAITING, {NEVER, NEVER, NODE_FREE, NODE_GRANTED, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER}},
    {NODE_GRANTED, {NEVER, NEVER, NODE_FREE, NEVER, NODE_PASSED_OVER, NEVER, NEVER, NODE_HELD, NEVER, NEVER, NEVER}},
    {NODE_HELD, {NEVER, NEVER, NODE_FREE, NEVER, NEVER, NODE_REVOKED, NEVER, NEVER, NODE_KEPT, NEVER, NODE_KEPT}},
    {NODE_PASSED_OVER, {NODE_HELD, NODE_WAITING, NODE_FREE, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER}},
    {NODE_REVOKED, {NEVER, NEVER, NODE_FREE, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER}},
    {NODE_KEPT, {NEVER, NEVER, NODE_FREE, NEVER, NEVER, NEVER, NODE_REVOKED, NEVER, NEVER, NODE_HELD, NEVER}},
    {7, {NEVER, NEVER, NODE_FREE, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER}},
};

/* What an event leaves of the marks, and which it does not happen to. */
static const struct {
    uint32_t leaves, against;
} node_marks[NODE_EVENTS] = {
    [NODE_GRANT] = {NODE_WANTED, 0},
    [NODE_PASS_OVER] = {NODE_WANTED, 0},
    [NODE_REVOKE] = {NODE_WANTED, 0},
    [NODE_TAKE] = {NODE_WANTED, 0},
    [NODE_CLAIM] = {NODE_MARKS, 0},
    [NODE_REST] = {0, NODE_MARKS},
    [NODE_RESUME] = {NODE_WANTED, NODE_BROKEN},
    [NODE_LET_GO] = {NODE_WANTED, NODE_BROKEN},
};

/* Stores keep the pokes, CASes add one. */
static void try_cell(size_t from, int event, uint32_t marks) {
    uint32_t before = 5 * NODE_POKE | marks | (uint32_t)node_cells[from].from, pokes = event <= NODE_LEAVE ? 5 : 6;
    int to = marks & node_marks[event].against ? NEVER : node_cells[from].to[event];
    struct node node = {0};

    SET(node.state, before);
    assert_int_equal(node_move(&node, (enum node_event)event), to != NEVER);
    assert_int_equal(GET(node.state), to == NEVER ? before : pokes * NODE_POKE | (marks & node_marks[event].leaves) | (uint32_t)to);
}

static void test_every_cell_of_the_nodes(void **data) {
    static const uint32_t marks[] = {0, NODE_BROKEN, NODE_WANTED, NODE_MARKS};

    (void)data;
    assert_int_equal(sizeof node_cells / sizeof node_cells[0], NODE_STATE_MASK + 1);
    for (size_t from = 0; from <= NODE_STATE_MASK; from++)
        for (int event = 0; event < NODE_EVENTS; event++)
            for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
                try_cell(from, event, marks[i]);
}

/* Processes of other versions share the table. */
static void test_numbers_of_the_states(void **data) {
    (void)data;
    assert_int_equal(NODE_FREE, 0);
    assert_int_equal(NODE_WAITING, 1);
    assert_int_equal(NODE_GRANTED, 2);
    assert_int_equal(NODE_HELD, 3);
    assert_int_equal(NODE_PASSED_OVER, 4);
    assert_int_equal(NODE_REVOKED, 5);
    assert_int_equal(NODE_KEPT, 6);
    assert_int_equal(FORMAT_MAJOR, 2); /* those of 1 know nothing of kept nodes */
}

/* ---- Phases ---- */

static const int phase_cells[PHASES][EVENTS] = {
    /* POSTPONED, QUEUED, HELD, PASSED_OVER, WITHDRAWN, DOWNGRADED, SHARED, GONE */
    [PHASE_NONE] = {PHASE_UNLINKED, PHASE_WAITING, PHASE_NONE, NEVER, PHASE_LEAVING, PHASE_DOWNGRADING, PHASE_NONE, PHASE_NONE},
    [PHASE_UNLINKED] = {NEVER, PHASE_WAITING, PHASE_NONE, NEVER, PHASE_LEAVING, NEVER, NEVER, PHASE_NONE},
    [PHASE_WAITING] = {NEVER, NEVER, PHASE_NONE, PHASE_UNLINKED, PHASE_LEAVING, NEVER, NEVER, PHASE_NONE},
    [PHASE_LEAVING] = {NEVER, NEVER, NEVER, NEVER, PHASE_LEAVING, NEVER, NEVER, PHASE_NONE},
    [PHASE_DOWNGRADING] = {NEVER, NEVER, NEVER, NEVER, PHASE_LEAVING, PHASE_DOWNGRADING, PHASE_NONE, PHASE_NONE},
};

static void test_every_cell_of_the_phases(void **data) {
    (void)data;
    for (int phase = 0; phase < PHASES; phase++)
        for (int event = 0; event < EVENTS; event++) {
            struct local_claim state = {.phase = (uint8_t)phase};
            int to = phase_cells[phase][event];

            assert_int_equal(pawl__local_step(&state, (enum phase_event)event), to != NEVER);
            assert_int_equal(state.phase, to == NEVER ? phase : to);
        }
}

/* ---- What is woken ---- */

enum { READERS = 100, BLOCKS_OF_READERS = READERS / BLOCK_NODES };

/* So many readers stand in a bucket, in this state, with tokens from 1 on. */
static void line_up(struct local *local, enum node_state state) {
    void *map = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct bucket *bucket;

    assert_true(map != MAP_FAILED);
    memset(local, 0, sizeof *local);
    local->table = map;
    SET(local->table->header.block_high, BLOCKS_OF_READERS);
    SET(local->table->header.token_ceiling, 1000);
    bucket = &local->table->buckets[0];
    for (uint32_t i = 0; i < READERS; i++) {
        struct node *node = &local->table->nodes[i];

        SET(node->owner, owner_word(0, 1));
        SET(node->mode, PAWL_SHARED);
        SET(node->state, state);
        SET(node->token, state == NODE_WAITING ? 0 : i + 1);
        SET(node->ticket, i + 1);
        SET(node->next, i + 1 < READERS ? i + 2 : 0);
        SET(node->prev, i);
    }
    SET(bucket->head, 1);
    SET(bucket->tail, READERS);
    SET(bucket->token, state == NODE_WAITING ? 0 : READERS);
}

static struct guard_visit *come_in(struct local *local, struct guard_visit *visit) {
    *visit = (struct guard_visit){.bucket = &local->table->buckets[0]};
    return visit;
}

/* One visit grants no more than it can wake, and says that there is more to do. */
static void test_more_than_a_visit_can_wake(void **data) {
    static struct local local;
    struct guard_visit visit;
    unsigned granted = 0, visits = 0;

    (void)data;
    line_up(&local, NODE_WAITING);
    do {
        pawl__local_regrant_all(&local, come_in(&local, &visit));
        assert_true(visit.wake_count <= GRANTS_MAX);
        granted += visit.wake_count;
        visits++;
    } while (visit.more && visits < READERS);
    assert_int_equal(granted, READERS);
    assert_int_equal(visits, (READERS + GRANTS_MAX - 1) / GRANTS_MAX);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(state_of(GET(local.table->nodes[i].state)), NODE_GRANTED);
    munmap(local.table, sizeof(struct table));
}

/* Who takes the guard from a dead process wakes all that one can have granted: the last tokens. There is room for a poke after that. */
static void test_a_repair_wakes_whom_the_dead_granted(void **data) {
    static struct local local;
    struct guard_visit visit;

    (void)data;
    line_up(&local, NODE_GRANTED);
    pawl__local_repair(&local, come_in(&local, &visit));
    assert_false(visit.damaged);
    assert_int_equal(visit.wake_count, GRANTS_MAX);
    for (unsigned i = 0; i < GRANTS_MAX; i++)
        assert_int_equal(visit.wakes[i].ref, READERS - GRANTS_MAX + i + 1);
    assert_true(pawl__local_pass_over(&local, &visit, &local.table->nodes[0]));
    assert_int_equal(visit.wakes[visit.wake_count - 1].ref, 1);
    munmap(local.table, sizeof(struct table));
}

/* What is kept stays in the list, and its owner may hold it again: also if somebody died in the guard. */
static void test_a_repair_leaves_what_is_kept(void **data) {
    static struct local local;
    struct guard_visit visit;
    uint32_t steps = 0, count = 0;

    (void)data;
    line_up(&local, NODE_KEPT);
    SET(local.table->nodes[7].state, NODE_REVOKED); /* half taken out */
    pawl__local_repair(&local, come_in(&local, &visit));
    assert_false(visit.damaged);
    FOR_NODES(node, &local, &visit, &steps) {
        assert_int_equal(state_of(GET(node->state)), NODE_KEPT);
        count++;
    }
    assert_int_equal(count, READERS - 1);
    munmap(local.table, sizeof(struct table));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell_of_the_nodes),
        cmocka_unit_test(test_numbers_of_the_states),
        cmocka_unit_test(test_every_cell_of_the_phases),
        cmocka_unit_test(test_more_than_a_visit_can_wake),
        cmocka_unit_test(test_a_repair_wakes_whom_the_dead_granted),
        cmocka_unit_test(test_a_repair_leaves_what_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
