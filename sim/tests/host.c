/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - the main program of a test that lives in the simulated world: the test's own main() is a process there.
 *
 * The seed is the same in every run, or PAWL_SIM_SEED: a test must pass with all of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../world/world.h"

int inside_main(int argc, char **argv);

struct call {
    int argc;
    char **argv;
    int status;
};

static void run_test(void *data) {
    struct call *call = data;

    call->status = inside_main(call->argc, call->argv);
}

int main(int argc, char **argv) {
    static const char *const words[] = {"done", "it took too long", "nothing can happen any more", "it turns in circles"};
    const char *seed = getenv("PAWL_SIM_SEED");
    struct call call = {.argc = argc, .argv = argv, .status = 1};
    struct world_options options = {
        .seed = seed != NULL ? strtoull(seed, NULL, 10) : 1,
        .preempt = 7,
        .limit_ns = 24 * 3600 * WORLD_SECOND,
        .trace = getenv("PAWL_SIM_TRACE") != NULL ? stderr : NULL,
    };
    enum world_end end = world_run(&options, run_test, &call);

    if (end != WORLD_DONE)
        printf("Bail out! the simulated world: %s\n", words[end]);
    return end == WORLD_DONE ? call.status : 1;
}
