/* SPDX-License-Identifier: Apache-2.0
 *
 * test_look.c - the model behind status, top, export and web, on looks that are made up: states, order, graph, differences, history.
 */
#include "../support/test.h"

#include <stdlib.h>

#include "../../cli/look/json.h"
#include "../../cli/web/state.h"
#include "../../cli/look/read.h"
#include "../../cli/look/tree.h"

enum { NOW = 1000000 };

/* One holder or waiter in a few words. `flags`: of enum pawl_entry_flags. */
struct made {
    const char *name;
    int64_t pid;
    unsigned flags;
    uint64_t token;
    enum pawl_mode mode;
    unsigned permits;
    int64_t since_ms, remaining_ms, lease_ms;
    const char *agent, *around;
};

#define HOLDS(lock, process, its_token)                                                                                            \
    { .name = lock, .pid = process, .token = its_token }
#define WAITS(lock, process, since)                                                                                                \
    { .name = lock, .pid = process, .flags = PAWL_ENTRY_WAITER, .since_ms = since }

static struct pawl_entry entry_of(const struct made *made, unsigned position) {
    return (struct pawl_entry){
        .name = made->name,
        .kind = made->mode == PAWL_PERMITS  ? PAWL_SEMAPHORE
                : made->mode == PAWL_SHARED ? PAWL_RWLOCK
                                            : PAWL_MUTEX,
        .mode = made->mode,
        .flags = made->flags,
        .position = made->flags & PAWL_ENTRY_WAITER ? position : 0,
        .permits = made->permits,
        .limit = made->mode == PAWL_PERMITS ? 2 : 0,
        .token = made->token,
        .host = "h",
        .pid = made->pid,
        .command = "c",
        .label = "",
        .since_ms = made->since_ms,
        .remaining_ms = made->remaining_ms != 0 ? made->remaining_ms : PAWL_FOREVER,
        .raw = "",
        .agent = made->agent != NULL ? made->agent : "",
        .around = made->around != NULL ? made->around : "",
        .claim = "",
        .lease_ms = made->lease_ms != 0 ? made->lease_ms : -1,
    };
}

static void fill(struct look *look, size_t place, const char *url, const struct made *made, size_t count) {
    look->places[place].url = strdup(url);
    look->places[place].engine = strdup("local");
    look->places[place].error = strdup("");
    look->places[place].lease_ms = PAWL_FOREVER;
    for (size_t i = 0; i < count; i++) {
        struct pawl_entry entry = entry_of(&made[i], (unsigned)i + 1);

        assert_true(snapshot_add(&look->places[place].snapshot, &entry));
    }
    snapshot_sort(&look->places[place].snapshot);
}

static struct look look_of(const struct made *made, size_t count, int64_t time_ms) {
    struct look look;

    assert_true(look_start(&look, 1, time_ms));
    fill(&look, 0, "local:/a", made, count);
    assert_true(look_settle(&look));
    return look;
}

#define LOOK(made) look_of(made, sizeof(made) / sizeof((made)[0]), NOW)
#define LOOK_AT(made, time) look_of(made, sizeof(made) / sizeof((made)[0]), time)

static void test_needs_attention_first(void **state) {
    const struct made made[] = {
        HOLDS("idle", 1, 1),
        {.name = "foreign", .pid = 2, .flags = PAWL_ENTRY_FOREIGN, .token = 2},
        {.name = "broken", .pid = 3, .flags = PAWL_ENTRY_BROKEN, .token = 3},
        {.name = "stopped", .pid = 4, .flags = PAWL_ENTRY_WAITER | PAWL_ENTRY_STOPPED},
        HOLDS("wanted", 5, 5),
        WAITS("wanted", 6, NOW - 5000),
        HOLDS("wanted more", 7, 6),
        WAITS("wanted more", 8, NOW - 9000),
        HOLDS("x", 10, 7),
        WAITS("x", 11, NOW - 1),
        HOLDS("y", 11, 8),
        WAITS("y", 10, NOW - 1),
    };
    const char *wanted[] = {"x", "y", "stopped", "broken", "foreign", "wanted more", "wanted", "idle"};
    struct look look = LOOK(made);
    size_t count;
    const struct lock_seen **locks = look_by_attention(&look, &count);

    (void)state;
    assert_int_equal(count, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(locks[i]->name, wanted[i]);
    assert_int_equal(locks[5]->wait_ms, 9000);
    free(locks);
    look_finish(&look);
}

static void test_totals(void **state) {
    const struct made made[] = {
        HOLDS("a", 1, 1),
        WAITS("a", 2, NOW - 700),
        {.name = "s", .pid = 3, .token = 3, .mode = PAWL_PERMITS, .permits = 1, .since_ms = NOW - 50},
        {.name = "s", .pid = 4, .token = 4, .mode = PAWL_PERMITS, .permits = 1, .since_ms = NOW - 90},
    };
    struct look look = LOOK(made);
    struct totals totals = {0};

    (void)state;
    totals_add(&totals, &look.places[0]);
    assert_int_equal(totals.locks, 2);
    assert_int_equal(totals.holders, 3);
    assert_int_equal(totals.waiters, 1);
    assert_int_equal(totals.states[PAWL_SEMAPHORE][LOCK_HELD], 1);
    assert_int_equal(totals_of_state(&totals, LOCK_HELD), 2);
    assert_int_equal(totals.wait_ms, 700);
    assert_int_equal(totals.held_ms, 90);
    look_finish(&look);
}

/* ---- who waits for whom --------------------------------------------------------------------------------------------------- */

static size_t cycles_of(const struct made *made, size_t count) {
    struct look look = look_of(made, count, NOW);
    size_t cycles = look.graph.cycle_count;

    for (size_t i = 0; i < cycles; i++)
        for (size_t j = 0; j < look.graph.cycles[i].count; j++) {
            const struct cycle *cycle = &look.graph.cycles[i];

            assert_int_equal(look.graph.edges[cycle->edges[j]].to, look.graph.edges[cycle->edges[(j + 1) % cycle->count]].from);
        }
    look_finish(&look);
    return cycles;
}

#define CYCLES(made) cycles_of(made, sizeof(made) / sizeof((made)[0]))

static void test_two_in_a_circle(void **state) {
    const struct made circle[] = {HOLDS("a", 1, 1), WAITS("a", 2, 1), HOLDS("b", 2, 2), WAITS("b", 1, 1)};
    const struct made chain[] = {HOLDS("a", 1, 1), WAITS("a", 2, 1), HOLDS("b", 2, 2), WAITS("b", 3, 1)};

    (void)state;
    assert_int_equal(CYCLES(circle), 1);
    assert_int_equal(CYCLES(chain), 0);
}

/* A queue in front of a circle is not in it; two circles that touch through a wait are two. */
static void test_circles_and_queues(void **state) {
    const struct made made[] = {
        HOLDS("a", 1, 1), WAITS("a", 2, 1), HOLDS("b", 2, 2), WAITS("b", 1, 1), WAITS("b", 9, 2), WAITS("b", 8, 3),
        HOLDS("c", 3, 3), WAITS("c", 4, 1), HOLDS("d", 4, 4), WAITS("d", 3, 1), WAITS("a", 3, 5),
    };

    (void)state;
    assert_int_equal(CYCLES(made), 2);
}

/* The circle goes over two places, by host and pid. */
static void test_over_two_places(void **state) {
    const struct made left[] = {HOLDS("a", 1, 1), WAITS("a", 2, 1)}, right[] = {HOLDS("a", 2, 1), WAITS("a", 1, 1)};
    struct look look;

    (void)state;
    assert_true(look_start(&look, 2, NOW));
    fill(&look, 0, "local:/a", left, 2);
    fill(&look, 1, "local:/b", right, 2);
    assert_true(look_settle(&look));
    assert_int_equal(look.graph.cycle_count, 1);
    assert_true(look.places[0].locks[0].in_cycle && look.places[1].locks[0].in_cycle);
    look_finish(&look);
}

/* T1 reads A and waits for B; T2 waits to write A; T3 has B and waits to read A behind T2: the edge from T3 to T2 is soft. */
static void test_soft_edge(void **state) {
    const struct made made[] = {
        {.name = "A", .pid = 1, .token = 1, .mode = PAWL_SHARED},
        {.name = "A", .pid = 2, .flags = PAWL_ENTRY_WAITER},
        {.name = "A", .pid = 3, .flags = PAWL_ENTRY_WAITER, .mode = PAWL_SHARED},
        HOLDS("B", 3, 3),
        WAITS("B", 1, 1),
    };
    const struct made without_writer[] = {made[0], made[2], made[3], made[4]};

    (void)state;
    assert_int_equal(CYCLES(made), 1);
    assert_int_equal(CYCLES(without_writer), 0);
}

/* With permits a circle is not enough: process 3 will give its permit back. */
static void test_permits(void **state) {
    const struct made made[] = {
        {.name = "s", .pid = 1, .token = 1, .mode = PAWL_PERMITS, .permits = 1},
        {.name = "s", .pid = 3, .token = 2, .mode = PAWL_PERMITS, .permits = 1},
        {.name = "s", .pid = 2, .flags = PAWL_ENTRY_WAITER, .mode = PAWL_PERMITS, .permits = 1},
        HOLDS("b", 2, 3),
        WAITS("b", 1, 1),
    };
    struct made both[5];

    (void)state;
    assert_int_equal(CYCLES(made), 0);
    memcpy(both, made, sizeof made);
    both[1].pid = 1;
    assert_int_equal(CYCLES(both), 1);
}

/* Entries of nobody that is known lie between those of the circle in memory, and do not part them. */
static void test_circle_among_unknown(void **state) {
    const struct made made[] = {
        HOLDS("a", 5, 1), WAITS("a", 0, 1), WAITS("a", 2, 2), HOLDS("b", 0, 2), HOLDS("c", 2, 3), WAITS("c", 0, 3),
        WAITS("c", 3, 3), HOLDS("d", 0, 4), HOLDS("e", 3, 5), WAITS("e", 0, 6), WAITS("e", 5, 7),
    };

    (void)state;
    assert_int_equal(CYCLES(made), 1);
}

/* Threads of one process that want the same lock; who is not known; who was asked to give up and has a lease. */
static void test_no_circle(void **state) {
    const struct made itself[] = {HOLDS("a", 1, 1), WAITS("a", 1, 1), WAITS("a", 1, 2)};
    const struct made unknown[] = {HOLDS("a", 0, 1), WAITS("a", 0, 1), HOLDS("b", 0, 2), WAITS("b", 0, 1)};
    const struct made ending[] = {{.name = "a", .pid = 1, .flags = PAWL_ENTRY_BROKEN, .token = 1, .remaining_ms = 5000},
                                  WAITS("a", 2, 1),
                                  HOLDS("b", 2, 2),
                                  WAITS("b", 1, 1)};

    (void)state;
    assert_int_equal(CYCLES(itself), 0);
    assert_int_equal(CYCLES(unknown), 0);
    assert_int_equal(CYCLES(ending), 0);
}

/* pawl run a -- pawl run b, and pawl run b -- pawl run a: each outer one holds until its inner one ends. */
static void test_nested(void **state) {
    const struct made made[] = {
        {.name = "a", .pid = 1, .token = 1, .agent = "1"},
        {.name = "b", .pid = 2, .token = 2, .agent = "2"},
        {.name = "b", .pid = 3, .flags = PAWL_ENTRY_WAITER, .agent = "3", .around = "1"},
        {.name = "a", .pid = 4, .flags = PAWL_ENTRY_WAITER, .agent = "4", .around = "2"},
    };
    struct made apart[4];

    (void)state;
    assert_int_equal(CYCLES(made), 1);
    memcpy(apart, made, sizeof made);
    apart[3].around = "9";
    assert_int_equal(CYCLES(apart), 0);
}

/* The same process number on two hosts of the same name, as containers have it: the agents tell them apart. */
static void test_agents_apart(void **state) {
    const struct made made[] = {
        {.name = "a", .pid = 1, .token = 1, .agent = "1"},
        {.name = "a", .pid = 2, .flags = PAWL_ENTRY_WAITER, .agent = "2"},
        {.name = "b", .pid = 2, .token = 2, .agent = "3"},
        {.name = "b", .pid = 1, .flags = PAWL_ENTRY_WAITER, .agent = "4"},
    };

    (void)state;
    assert_int_equal(CYCLES(made), 0);
}

/* A long queue behind a circle costs edges and steps in proportion to it. */
static void test_long_queue(void **state) {
    enum { COUNT = 5000 };
    struct made *made = calloc(COUNT + 2, sizeof made[0]);

    (void)state;
    made[0] = (struct made)HOLDS("a", 1, 1);
    for (int i = 1; i < COUNT; i++)
        made[i] = (struct made)WAITS("a", i + 1, i);
    made[COUNT] = (struct made)HOLDS("b", COUNT, 2);
    made[COUNT + 1] = (struct made)WAITS("b", 1, 1);
    struct look look = look_of(made, COUNT + 2, NOW);
    assert_int_equal(look.graph.cycle_count, 1);
    assert_true(look.graph.edge_count < 2 * COUNT + 2);
    look_finish(&look);
    free(made);
}

/* Circles first, and a way out; then chains from those who hold others up. */
static void test_tree(void **state) {
    const struct made made[] = {HOLDS("a", 1, 1), WAITS("a", 2, NOW - 2000), HOLDS("b", 2, 2), WAITS("b", 1, NOW - 1000),
                                HOLDS("c", 3, 3), WAITS("c", 4, NOW - 3000), HOLDS("d", 4, 4), WAITS("d", 5, NOW)};
    const char *wanted[] = {
        "likely deadlock: 2 processes wait for each other",
        "  c h:1 waits for b, held by c h:2  1 s",
        "  c h:2 waits for a, held by c h:1  2 s",
        "  a way out: pawl break -u 'local:/a' --token 1 -- 'a'",
        "c h:3",
        "`- c -> c h:4  3 s",
        "   `- d -> c h:5  0 ms",
        "c h:1",
        "`- a -> c h:2  2 s",
        "   `- b -> c h:1  1 s  (see above)",
    };
    struct look look = LOOK(made);
    struct tree tree;

    (void)state;
    assert_true(tree_build(&tree, &look, true));
    for (size_t i = 0; i < tree.count && i < sizeof wanted / sizeof wanted[0]; i++)
        assert_string_equal(tree.lines[i].text, wanted[i]);
    assert_int_equal(tree.count, sizeof wanted / sizeof wanted[0]);
    tree_finish(&tree);
    look_finish(&look);
}

/* What an operator is told to type is one command, also where the name of a lock is odd. */
static void test_command_of_odd_names(void **state) {
    const struct made made[] = {HOLDS("x'; reboot; '", 1, 1), WAITS("x'; reboot; '", 2, NOW - 2000), HOLDS("-u", 2, 2),
                                WAITS("-u", 1, NOW - 1000)};
    const struct made other[] = {HOLDS("x'; reboot; '", 1, 1), WAITS("x'; reboot; '", 2, NOW - 1000), HOLDS("-u", 2, 2),
                                 WAITS("-u", 1, NOW - 2000)};
    struct look look = LOOK(made), other_look = LOOK(other);
    struct tree tree;

    (void)state;
    assert_true(tree_build(&tree, &look, true));
    assert_string_equal(tree.lines[3].text, "  a way out: pawl break -u 'local:/a' --token 1 -- 'x'\\''; reboot; '\\'''");
    tree_finish(&tree);
    assert_true(tree_build(&tree, &other_look, true));
    assert_string_equal(tree.lines[3].text, "  a way out: pawl break -u 'local:/a' --token 2 -- '-u'");
    tree_finish(&tree);
    look_finish(&look);
    look_finish(&other_look);
}

/* Names that are used once, as of jobs, are forgotten sooner where there are very many. */
static void test_history_of_many_names(void **state) {
    enum { ROUNDS = 8, NAMES = 5000 };
    struct history history;
    struct look before, now;

    (void)state;
    assert_true(history_init(&history));
    for (int round = 0; round < ROUNDS; round++) {
        struct made *made = calloc(NAMES, sizeof made[0]);
        char(*names)[16] = calloc(NAMES, sizeof names[0]);

        for (int i = 0; i < NAMES; i++) {
            snprintf(names[i], sizeof names[i], "job-%06d", round * NAMES + i);
            made[i] = (struct made)HOLDS(names[i], 1, (uint64_t)(round * NAMES + i + 1));
        }
        now = look_of(made, NAMES, NOW + round * 1000);
        history_add(&history, round > 0 ? &before : NULL, &now);
        if (round > 0)
            look_finish(&before);
        before = now;
        assert_true(history.count <= 20000 + NAMES);
        assert_non_null(history_of(&history, "local:/a", names[0]));
        free(names);
        free(made);
    }
    look_finish(&before);
    history_finish(&history);
}

/* A look takes a fiftieth of a server's time; one that failed took none, and no pause is so long that pages and metrics are of no use. */
static void test_pause(void **state) {
    struct look look;

    (void)state;
    assert_true(look_start(&look, 3, NOW));
    look.places[0].took_ms = 10;
    look.places[1].took_ms = 40;
    look.places[2].took_ms = 10000;
    look.places[2].code = PAWL_ECONNLOST;
    assert_int_equal(look_pause_ms(&look), 2000);
    look.places[1].took_ms = 5000;
    assert_int_equal(look_pause_ms(&look), 30000);
    look_finish(&look);
}

/* ---- two looks ------------------------------------------------------------------------------------------------------------ */

static void add_events(const struct history *history, char *out, size_t size) {
    const struct event *events[32];
    size_t count = history_events(history, NULL, NULL, events, 32), used = strlen(out);

    for (size_t i = count; i-- > 0;)
        used += (size_t)snprintf(out + used, size - used, "%s%s %s", used > 0 ? ", " : "", events[i]->lock,
                                 event_name(events[i]->kind));
}

/* What two looks, a second apart, tell. */
static void assert_events(const struct made *before, size_t old, const struct made *now, size_t count, const char *wanted) {
    struct look first = look_of(before, old, NOW), second = look_of(now, count, NOW + 1000);
    struct history history;
    char text[1024] = "";

    assert_true(history_init(&history));
    history_add(&history, NULL, &first);
    history_add(&history, &first, &second);
    add_events(&history, text, sizeof text);
    assert_string_equal(text, wanted);
    history_finish(&history);
    look_finish(&first);
    look_finish(&second);
}

#define EVENTS(before, now, wanted)                                                                                                \
    assert_events(before, sizeof(before) / sizeof((before)[0]), now, sizeof(now) / sizeof((now)[0]), wanted)

static void test_a_turn(void **state) {
    const struct made before[] = {HOLDS("a", 1, 1), WAITS("a", 2, NOW - 10)}, now[] = {HOLDS("a", 2, 2)};

    (void)state;
    EVENTS(before, now, "a went, a took");
}

static void test_broken_then_gone(void **state) {
    const struct made before[] = {HOLDS("a", 1, 1), HOLDS("b", 2, 2)};
    const struct made now[] = {{.name = "a", .pid = 1, .flags = PAWL_ENTRY_BROKEN, .token = 1}};

    (void)state;
    EVENTS(before, now, "a broken, b went");
}

/* Its renewals do not get through, and then its lease runs out. */
static void test_suspect_then_lost(void **state) {
    const struct made good[] = {{.name = "a", .pid = 1, .token = 1, .remaining_ms = 1100, .lease_ms = 3000}};
    const struct made suspect[] = {{.name = "a", .pid = 1, .token = 1, .remaining_ms = 900, .lease_ms = 3000}};
    const struct made next[] = {HOLDS("a", 2, 2)};

    (void)state;
    EVENTS(good, suspect, "a suspect");
    EVENTS(suspect, next, "a suspect, a lost, a took");
    EVENTS(good, next, "a went, a took");
}

/* Who was just handed a lock has little of its lease until its first renewal. */
static void test_not_suspect_in_the_beginning(void **state) {
    struct made made[] = {{.name = "a", .pid = 1, .token = 1, .remaining_ms = 900, .lease_ms = 3000, .since_ms = NOW - 1999}};
    struct look young = LOOK(made);

    (void)state;
    assert_int_equal(young.places[0].locks[0].state, LOCK_HELD);
    made[0].since_ms = NOW - 2000;
    struct look old = LOOK(made);
    assert_int_equal(old.places[0].locks[0].state, LOCK_SUSPECT);
    look_finish(&old);
    look_finish(&young);
}

static void test_waits_long(void **state) {
    const struct made before[] = {HOLDS("a", 1, 1), WAITS("a", 2, NOW + 500 - LONG_WAIT_MS)};

    (void)state;
    EVENTS(before, before, "a waits long");
}

static void test_stopped_and_circle(void **state) {
    const struct made before[] = {HOLDS("a", 1, 1), WAITS("a", 2, NOW), HOLDS("b", 2, 2)};
    const struct made now[] = {
        {.name = "a", .pid = 1, .flags = PAWL_ENTRY_STOPPED, .token = 1}, before[1], before[2], WAITS("b", 1, NOW)};

    (void)state;
    EVENTS(before, now, "a stopped, a cycle, b cycle");
}

/* A place that can't be seen says nothing of its locks, and its holds go on when it can be seen again. */
static void test_place_goes_and_comes(void **state) {
    const struct made made[] = {HOLDS("a", 1, 1)};
    struct look looks[3] = {LOOK_AT(made, NOW), look_of(NULL, 0, NOW + 1000), LOOK_AT(made, NOW + 2000)};
    struct history history;
    char text[256] = "";

    (void)state;
    looks[1].places[0].code = PAWL_ECONNLOST;
    assert_true(history_init(&history));
    for (int i = 0; i < 3; i++)
        history_add(&history, i > 0 ? &looks[i - 1] : NULL, &looks[i]);
    add_events(&history, text, sizeof text);
    assert_string_equal(text, " unreachable,  reached");
    assert_int_equal(history_of(&history, "local:/a", "a")->hold_count, 1);
    history_finish(&history);
    for (int i = 0; i < 3; i++)
        look_finish(&looks[i]);
}

static void test_holds_and_rate(void **state) {
    struct history history;
    struct look before = {0};

    (void)state;
    assert_true(history_init(&history));
    for (unsigned i = 1; i <= 200; i++) {
        const struct made made[] = {HOLDS("a", i, i)};
        struct look now = LOOK_AT(made, NOW + i * 500);

        history_add(&history, i > 1 ? &before : NULL, &now);
        look_finish(&before);
        before = now;
    }
    const struct lock_past *past = history_of(&history, "local:/a", "a");
    assert_int_equal(past->hold_count, HOLDS_MAX);
    assert_int_equal(past->holds[HOLDS_MAX - 1].token, 200);
    assert_int_equal(past->holds[HOLDS_MAX - 1].to_ms, 0);
    assert_int_equal(past->holds[0].token, 200 - HOLDS_MAX + 1);
    assert_true(hand_off_rate(past) > 1.99 && hand_off_rate(past) < 2.01);
    look_finish(&before);
    history_finish(&history);
}

/* A lease that runs down is no change; one that was renewed is. */
static void test_what_changed(void **state) {
    struct made made[] = {{.name = "a", .pid = 1, .token = 1, .remaining_ms = 20000}};
    struct look first = LOOK(made);

    (void)state;
    made[0].remaining_ms = 19000;
    struct look later = LOOK_AT(made, NOW + 1000);
    assert_int_equal(CHANGE_NONE, lock_changed(&first.places[0].locks[0], NOW, &later.places[0].locks[0], NOW + 1000));
    look_finish(&later);
    made[0].remaining_ms = 30000;
    struct look renewed = LOOK_AT(made, NOW + 1000);
    assert_int_equal(CHANGE_LEASE, lock_changed(&first.places[0].locks[0], NOW, &renewed.places[0].locks[0], NOW + 1000));
    look_finish(&renewed);
    look_finish(&first);
}

/* Where there is no lease nothing counts down; where it is not known, neither. */
static void test_what_has_no_end_does_not_change(void **state) {
    static const int64_t endless[] = {PAWL_FOREVER, -1};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct made made[] = {{.name = "a", .pid = 1, .token = 1, .remaining_ms = endless[i]}};
        struct look first = LOOK(made), later = LOOK_AT(made, NOW + 1000);

        assert_int_equal(CHANGE_NONE, lock_changed(&first.places[0].locks[0], NOW, &later.places[0].locks[0], NOW + 1000));
        look_finish(&later);
        made[0].remaining_ms = 20000;
        later = LOOK_AT(made, NOW + 1000);
        assert_int_equal(CHANGE_LEASE, lock_changed(&first.places[0].locks[0], NOW, &later.places[0].locks[0], NOW + 1000));
        look_finish(&later);
        look_finish(&first);
    }
}

/* What the page of pawl web is told: of what was renewed the lease alone. */
static void test_differences(void **state) {
    const struct made before[] = {
        {.name = "a", .pid = 1, .token = 1, .remaining_ms = 20000}, HOLDS("b", 2, 2), HOLDS("c", 3, 3), HOLDS("d", 4, 4)};
    const struct made now[] = {
        {.name = "a", .pid = 1, .token = 1, .remaining_ms = 30000}, HOLDS("b", 5, 5), HOLDS("d", 4, 4), HOLDS("e", 6, 6)};
    struct look first = LOOK(before), second = LOOK_AT(now, NOW + 1000);
    struct history history;
    char *text = NULL;
    size_t size;

    (void)state;
    assert_true(history_init(&history));
    history_add(&history, NULL, &first);
    history_add(&history, &first, &second);
    FILE *out = open_memstream(&text, &size);
    write_difference(out, 2, &first, &second, &history, 0);
    fclose(out);
    assert_ptr_equal(strstr(text, "id: 2\nevent: state\ndata: {\"look\":2,"), text);
    assert_string_equal(text + size - 3, "}\n\n");
    assert_non_null(strstr(text, "\"changed\":[{\"name\":\"b\","));
    assert_non_null(strstr(text, ",{\"name\":\"e\","));
    assert_null(strstr(text, "{\"name\":\"a\","));
    assert_null(strstr(text, "{\"name\":\"d\","));
    assert_non_null(strstr(text, "\"gone\":[\"c\"],\"leases\":{\"a\":[30000]},\"rates\":{"));
    free(text);
    history_finish(&history);
    look_finish(&first);
    look_finish(&second);
}

/* ---- as JSON -------------------------------------------------------------------------------------------------------------- */

static void test_json(void **state) {
    const struct made made[] = {HOLDS("a", 1, 18446744073709551615u), WAITS("a", 2, 7)};
    struct look look = LOOK(made);
    char *text = NULL;
    size_t size;

    (void)state;
    FILE *out = open_memstream(&text, &size);
    json_look(out, &look, &(struct json_options){0});
    fclose(out);
    assert_non_null(strstr(text, "{\"format\":1,\"time_ms\":1000000,\"places\":[{\"format\":1,"));
    assert_non_null(strstr(text, "\"token\":\"18446744073709551615\""));
    assert_non_null(strstr(text, "\"state\":\"held\",\"cycle\":false"));
    assert_non_null(strstr(text, "],\"deadlocks\":[],\"events\":[],\"findings\":[]}"));
    free(text);
    look_finish(&look);
}

/* What is written is read again, and written the same. */
static void test_json_and_back(void **state) {
    const struct made made[] = {{.name = "a\"\\\xe5\xa4\x9c",
                                 .pid = 1,
                                 .token = 18446744073709551615u,
                                 .agent = "1f",
                                 .remaining_ms = 500,
                                 .lease_ms = 3000},
                                {.name = "a\"\\\xe5\xa4\x9c",
                                 .pid = 2,
                                 .flags = PAWL_ENTRY_WAITER | PAWL_ENTRY_STOPPED,
                                 .since_ms = 7,
                                 .remaining_ms = -1}};
    struct look look = LOOK(made), again;
    char *text[2] = {NULL, NULL};
    size_t size;

    (void)state;
    look.places[0].lease_ms = 30000;
    assert_true(look_start(&again, 1, 0));
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&text[i], &size);

        json_place(out, i == 0 ? &look : &again, i == 0 ? &look.places[0] : &again.places[0], &(struct json_options){.raw = true});
        fclose(out);
        if (i == 0)
            assert_true(place_read(text[0], &again.places[0], &again.time_ms) && look_settle(&again));
    }
    assert_string_equal(text[0], text[1]);
    /* Cut anywhere, or with any byte changed: refused, or read, and no more than that. */
    for (size_t i = 0; i < strlen(text[1]); i++) {
        struct look broken;
        int64_t ignored;

        assert_true(look_start(&broken, 1, 0));
        text[0][i] ^= (char)(i % 3 == 0 ? 0x7f : i % 3 == 1 ? '"' : 0x20);
        place_read(text[0], &broken.places[0], &ignored);
        look_finish(&broken);
        text[0][i] = '\0';
        assert_true(look_start(&broken, 1, 0));
        assert_false(place_read(text[0], &broken.places[0], &ignored));
        look_finish(&broken);
        text[0][i] = text[1][i];
    }
    for (int i = 0; i < 2; i++)
        free(text[i]);
    look_finish(&look);
    look_finish(&again);
}

/* Holders come first, also where a file has odd places for its waiters. */
static void test_waiters_stay_behind_holders(void **state) {
    static const char text[] =
        "{\"format\":1,\"url\":\"u\",\"locks\":[{\"name\":\"a\",\"holders\":[{\"token\":\"7\"}],\"waiters\":["
        "{\"position\":0,\"pid\":1},{\"position\":4294967296,\"pid\":2},{\"position\":-1,\"pid\":3}]}]}";
    struct look look;
    int64_t ignored;

    (void)state;
    assert_true(look_start(&look, 1, 0));
    assert_true(place_read(text, &look.places[0], &ignored) && look_settle(&look));
    assert_int_equal(look.places[0].count, 1);
    assert_int_equal(look.places[0].locks[0].holders, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(look.places[0].locks[0].entries[i].pid, i);
        assert_int_equal(look.places[0].locks[0].entries[i].position, i);
    }
    look_finish(&look);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needs_attention_first),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_two_in_a_circle),
        cmocka_unit_test(test_circles_and_queues),
        cmocka_unit_test(test_over_two_places),
        cmocka_unit_test(test_soft_edge),
        cmocka_unit_test(test_permits),
        cmocka_unit_test(test_circle_among_unknown),
        cmocka_unit_test(test_no_circle),
        cmocka_unit_test(test_long_queue),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_command_of_odd_names),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_history_of_many_names),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_agents_apart),
        cmocka_unit_test(test_suspect_then_lost),
        cmocka_unit_test(test_not_suspect_in_the_beginning),
        cmocka_unit_test(test_a_turn),
        cmocka_unit_test(test_broken_then_gone),
        cmocka_unit_test(test_waits_long),
        cmocka_unit_test(test_stopped_and_circle),
        cmocka_unit_test(test_place_goes_and_comes),
        cmocka_unit_test(test_holds_and_rate),
        cmocka_unit_test(test_what_changed),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_what_has_no_end_does_not_change),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_and_back),
        cmocka_unit_test(test_waiters_stay_behind_holders),
    };

    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
