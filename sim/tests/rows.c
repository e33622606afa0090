/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - see rows.h.
 */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

#include "../../tests/support/test.h"

struct sim_servers servers;
static const struct rows *played;

static void play_row(void *row) {
    const char *service = *(const char *const *)row;
    struct plan *plan = calloc(1, sizeof *plan);

    plan->service = service_find(service, strlen(service));
    plan->lease = plan->down = played->lease_ms;
    servers_start(&servers, plan);
    while (!plan->service->whole(&servers))
        world_sleep(world_now() + WORLD_MS);
    played->play(row);
    free(plan);
}

static void test_row(void **state) {
    struct world_options options = {.seed = 1, .near_ns = WORLD_MS, .far_ns = WORLD_MS, .limit_ns = played->limit_ns};

    assert_int_equal(world_run(&options, play_row, *state), WORLD_DONE);
    servers_stop(&servers);
}

int rows_run(const struct rows *rows) {
    struct CMUnitTest *tests = calloc(rows->count, sizeof *tests);
    char(*names)[ROW_NAME] = calloc(rows->count, sizeof *names);
    int failures;

    played = rows;
    for (size_t i = 0; i < rows->count; i++) {
        const void *row = (const char *)rows->table + i * rows->size;

        rows->name(row, names[i]);
        tests[i] = (struct CMUnitTest){.name = names[i], .test_func = test_row, .initial_state = (void *)(uintptr_t)row};
    }
    failures = _cmocka_run_group_tests(rows->group, tests, rows->count, NULL, NULL);
    free(names);
    free(tests);
    return failures;
}
