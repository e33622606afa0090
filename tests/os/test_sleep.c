/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sleep.c - how long one sleeps, what has come, and when looking for it is given up.
 */
#include "../support/test.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/bell.h"
#include "engine/engine.h"
#include "os/sleep.h"

#define S INT64_C(1000000000)
#define US INT64_C(1000)

static void test_naps_are_bounded(void **state) {
    (void)state;
    assert_int_equal(pawl__nap_ns(5 * S, 5 * S), 0);
    assert_int_equal(pawl__nap_ns(5 * S, 4 * S), 0);
    assert_int_equal(pawl__nap_ns(5 * S, 0), 0);
    assert_int_equal(pawl__nap_ns(5 * S, 5 * S + 1), 1);
    assert_int_equal(pawl__nap_ns(5 * S, 65 * S), 60 * S);
    assert_int_equal(pawl__nap_ns(5 * S, 66 * S), 60 * S);
    assert_int_equal(pawl__nap_ns(5 * S, PAWL__NEVER), 60 * S);
}

/* Two bells; the second one rings if `rings`. */
static void set_up(struct pollfd fds[2], bool rings) {
    for (int i = 0; i < 2; i++) {
        fds[i] = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .events = POLLIN, .revents = POLLERR};
        assert_true(fds[i].fd >= 0);
    }
    if (rings)
        bell_ring(fds[1].fd);
}

static void tear_down(const struct pollfd fds[2]) {
    close(fds[0].fd);
    close(fds[1].fd);
}

static void test_tells_what_came(void **state) {
    struct spin looks = {.span_ns = S}, *const spins[] = {NULL, &looks};
    struct pollfd fds[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        set_up(fds, true);
        assert_true(pawl__sleep(fds, 2, PAWL__NEVER, spins[i]));
        assert_int_equal(fds[0].revents, 0);
        assert_int_equal(fds[1].revents, POLLIN);
        tear_down(fds);
    }
}

static void test_tells_that_nothing_came(void **state) {
    struct spin looks = {.span_ns = 10 * US}, *const spins[] = {NULL, &looks};
    struct pollfd fds[2];

    (void)state;
    for (int i = 0; i < 4; i++) {
        int64_t until = i < 2 ? 0 : pawl__boottime() + 1000 * US;

        set_up(fds, false);
        assert_false(pawl__sleep(fds, 2, until, spins[i % 2]));
        assert_int_equal(fds[0].revents, 0);
        assert_int_equal(fds[1].revents, 0);
        assert_true(pawl__boottime() >= until);
        tear_down(fds);
    }
}

static void sleep_in_vain(struct spin *spin) {
    struct pollfd fds[2];

    set_up(fds, false);
    assert_false(pawl__sleep(fds, 2, pawl__boottime() + 100 * US, spin));
    tear_down(fds);
}

static void test_looks_less_where_it_is_in_vain(void **state) {
    struct spin spin = {.span_ns = US};

    (void)state;
    for (unsigned misses = 1; misses <= 12; misses++) {
        unsigned waits = misses < 10 ? 1u << misses : 1u << 10;

        sleep_in_vain(&spin); /* it looked */
        assert_int_equal(spin.skips_left, waits);
        for (unsigned i = 0; misses < 4 && i < waits; i++) {
            sleep_in_vain(&spin);
            assert_int_equal(spin.skips_left, waits - i - 1);
        }
        spin.skips_left = 0;
    }
}

static void test_looks_more_where_it_helps(void **state) {
    struct spin spin = {.span_ns = S, .misses = 2};
    struct pollfd fds[2];

    (void)state;
    set_up(fds, true);
    for (int i = 0; i < 3; i++) {
        assert_true(pawl__sleep(fds, 2, PAWL__NEVER, &spin));
        assert_int_equal(spin.misses, i == 0 ? 1 : 0);
        assert_int_equal(spin.skips_left, 0);
    }
    tear_down(fds);
}

static void test_what_is_over_teaches_nothing(void **state) {
    struct spin spin = {.span_ns = S, .skips_left = 3};
    struct pollfd fds[2];

    (void)state;
    set_up(fds, false);
    assert_false(pawl__sleep(fds, 2, 0, &spin));
    assert_int_equal(spin.skips_left, 3);
    assert_int_equal(spin.misses, 0);
    tear_down(fds);
}

/* With one CPU a thread that looks keeps the one that it waits for from running. */
static void test_never_looks_on_one_cpu(void **state) {
    cpu_set_t all, one;
    struct spin spin;
    int cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pawl__spin_init(&spin, S);
    assert_int_equal(spin.span_ns, 0);
    sleep_in_vain(&spin);
    assert_int_equal(spin.misses, 0);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    pawl__spin_init(&spin, S);
    assert_int_equal(spin.span_ns, CPU_COUNT(&all) > 1 ? S : 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naps_are_bounded),          cmocka_unit_test(test_tells_what_came),
        cmocka_unit_test(test_tells_that_nothing_came),   cmocka_unit_test(test_looks_less_where_it_is_in_vain),
        cmocka_unit_test(test_looks_more_where_it_helps), cmocka_unit_test(test_what_is_over_teaches_nothing),
        cmocka_unit_test(test_never_looks_on_one_cpu),
    };

    return cmocka_run_group_tests_name("sleep", tests, NULL, NULL);
}
