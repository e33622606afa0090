/* SPDX-License-Identifier: Apache-2.0
 *
 * test_queue.c - the queue rule by brute force: over every small queue and every order in which its claims leave, nobody who may not
 * hold does, and nobody who may hold sleeps on because it watched the wrong ones.
 */
#include "../support/test.h"

#include "base/rule.h"

enum { LONGEST = 6 };

/* A claim that sleeps, and whom it watches, by number. */
struct sleeper {
    unsigned number;
    struct pawl__ticket ticket;
    bool holds;
    unsigned watched; /* a bit per number */
};

static unsigned long checked;

static void evaluate(struct sleeper *queue, size_t index, const struct pawl__ticket *tickets, uint32_t limit) {
    size_t first, last;

    queue[index].watched = 0;
    queue[index].holds = !pawl__queue_watches(tickets, index, limit, &first, &last);
    if (queue[index].holds)
        return;
    assert_true(first <= last && last < index);
    for (size_t i = first; i <= last; i++)
        queue[index].watched |= 1u << queue[i].number;
}

/* No two hold that must not, and who may hold is awake. */
static void check(const struct sleeper *queue, size_t count, const struct pawl__ticket *tickets, uint32_t limit) {
    uint64_t permits = 0;
    size_t exclusive = 0, holders = 0;

    for (size_t i = 0; i < count; i++) {
        assert_true(queue[i].holds == pawl__queue_holds(tickets, i, limit));
        if (!queue[i].holds)
            continue;
        holders++;
        permits += tickets[i].permits;
        exclusive += tickets[i].mode == PAWL_EXCLUSIVE;
    }
    assert_true(exclusive == 0 || holders == 1);
    assert_true(count == 0 || holders > 0);
    if (count && tickets[0].mode == PAWL_PERMITS)
        assert_true(permits <= limit);
    checked++;
}

/* Try every one that might leave next. */
static void leave_in_every_order(const struct sleeper *queue, size_t count, uint32_t limit) {
    struct pawl__ticket tickets[LONGEST];
    struct sleeper rest[LONGEST];

    for (size_t gone = 0; gone < count; gone++) {
        size_t left = 0;

        for (size_t i = 0; i < count; i++)
            if (i != gone) {
                rest[left] = queue[i];
                tickets[left++] = queue[i].ticket;
            }
        for (size_t i = 0; i < left; i++)
            if (rest[i].watched & 1u << queue[gone].number)
                evaluate(rest, i, tickets, limit);
        check(rest, left, tickets, limit);
        leave_in_every_order(rest, left, limit);
    }
}

static void try_queue(const struct pawl__ticket *tickets, size_t count, uint32_t limit) {
    struct sleeper queue[LONGEST];

    for (size_t i = 0; i < count; i++) {
        queue[i] = (struct sleeper){.number = (unsigned)i, .ticket = tickets[i]};
        evaluate(queue, i, tickets, limit);
    }
    check(queue, count, tickets, limit);
    leave_in_every_order(queue, count, limit);
}

static void test_readers_and_writers(void **state) {
    struct pawl__ticket tickets[LONGEST];

    (void)state;
    for (size_t count = 1; count <= LONGEST; count++)
        for (unsigned writers = 0; writers < 1u << count; writers++) {
            for (size_t i = 0; i < count; i++)
                tickets[i] = (struct pawl__ticket){writers >> i & 1 ? PAWL_EXCLUSIVE : PAWL_SHARED, 1};
            try_queue(tickets, count, 1);
        }
    assert_true(checked > 10000);
}

static void test_permits(void **state) {
    struct pawl__ticket tickets[LONGEST - 1];

    (void)state;
    for (uint32_t limit = 1; limit <= 3; limit++)
        for (size_t count = 1; count < LONGEST; count++)
            for (unsigned code = 0; code < 243; code++) { /* 3 to the power of 5 */
                unsigned rest = code;

                for (size_t i = 0; i < count; i++, rest /= 3)
                    tickets[i] = (struct pawl__ticket){PAWL_PERMITS, 1 + rest % 3 % limit};
                try_queue(tickets, count, limit);
            }
}

/* kazoo #649: a reader must not wait for a writer that came after it. */
static void test_reader_ignores_later_writer(void **state) {
    const struct pawl__ticket queue[] = {{PAWL_EXCLUSIVE, 1}, {PAWL_SHARED, 1}, {PAWL_EXCLUSIVE, 1}};
    size_t first, last;

    (void)state;
    assert_true(pawl__queue_watches(queue, 1, 1, &first, &last));
    assert_int_equal(first, 0);
    assert_int_equal(last, 0);
}

/* Watching only the one at the distance of the limit loses wake-ups: the reference's own trap. */
static void test_permits_watch_as_many_as_the_limit(void **state) {
    const struct pawl__ticket queue[] = {{PAWL_PERMITS, 1}, {PAWL_PERMITS, 1}, {PAWL_PERMITS, 1}, {PAWL_PERMITS, 1}};
    size_t first, last;

    (void)state;
    assert_true(pawl__queue_watches(queue, 3, 2, &first, &last));
    assert_int_equal(first, 1);
    assert_int_equal(last, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_and_writers),
        cmocka_unit_test(test_permits),
        cmocka_unit_test(test_reader_ignores_later_writer),
        cmocka_unit_test(test_permits_watch_as_many_as_the_limit),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
