/* SPDX-License-Identifier: Apache-2.0
 *
 * many.c - see many.h.
 *
 * Schedules have numbers, and each is played by the worker whose turn the number is. Workers send what came of each through a pipe, whole
 * and in one piece; the results are put back into the order of their numbers before they count, so that the hash of all does not depend on
 * how many workers there were.
 */
#include "many.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"
#include "buffer.h"
#include "regressions.h"
#include "run.h"
#include "shrink.h"

enum { CPU_SECONDS = 120, SHRUNK_MAX = 3 };

struct result {
    uint64_t index;
    struct outcome outcome;
};
_Static_assert(sizeof(struct result) <= PIPE_BUF, "a result is written in one piece");

static int64_t real_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool many_plan(const struct many *many, uint64_t index, struct plan *ret) {
    const struct sim_service *service = many->services[index % (uint64_t)many->service_count];
    char why[160];

    plan_draw(ret, service, many->one ? many->seed : plan_seed(many->seed, index));
    if (many->options != NULL) {
        if (!plan_read_options(ret, many->options, why, sizeof why)) {
            fprintf(stderr, "pawl-sim: --options: %s\n", why);
            return false;
        }
        plan_draw_strokes(ret);
    }
    if (many->strokes != NULL && !strokes_read(many->strokes, &ret->strokes)) {
        fprintf(stderr, "pawl-sim: --strokes wants FAULT@AT+SPAN#TARGET,... or -, not '%s'\n", many->strokes);
        return false;
    }
    return true;
}

/* ---- What is said --------------------------------------------------------------------------------------------------------- */

void tally_add(struct tally *tally, const struct outcome *outcome, const char *rule) {
    tally->schedules++;
    tally->faults += outcome->strokes;
    tally->violations += outcome_breaks(outcome, rule);
    tally->hash = (tally->hash ^ outcome->hash) * UINT64_C(0x9fb21c651e98df25);
    tally->hash ^= tally->hash >> 29;
}

void tally_print(const struct tally *tally) {
    printf("%" PRIu64 " schedules, %" PRIu64 " faults, %" PRIu64 " violations, hash %016" PRIx64 "\n", tally->schedules,
           tally->faults, tally->violations, tally->hash);
}

void violation_print(const struct many *many, const struct plan *plan, const struct outcome *outcome, bool whole) {
    static char options[4096], strokes[STROKES_MAX * 64];

    printf("VIOLATION  %s, seed %" PRIu64 "\n", plan->service->word, plan->seed);
    for (unsigned i = 0; i < outcome->findings; i++)
        printf("           %s: %s\n", outcome->list[i].rule, outcome->list[i].text);
    printf("           %s --service %s --seed %" PRIu64, many->program, plan->service->word, plan->seed);
    if (whole) {
        plan_write_options(plan, options, sizeof options);
        strokes_write(&plan->strokes, strokes, sizeof strokes);
        printf(" --options '%s' --strokes '%s'", options, strokes);
    } else {
        if (many->options != NULL)
            printf(" --options '%s'", many->options);
        if (many->strokes != NULL)
            printf(" --strokes '%s'", many->strokes);
    }
    printf(" --trace\n");
    fflush(stdout);
}

static void shrink_and_print(struct plan *plan, const char *rule) {
    static char line[STROKES_MAX * 64 + 8192];
    size_t strokes = plan->strokes.count;
    clock_t began = clock();
    unsigned tries = shrink_plan(plan, rule, SHRINK_MS);

    regression_write(plan, rule, true, line, sizeof line);
    printf("           shrunk from %zu to %zu strokes by %u tries in %.1f s:\n%s\n", strokes, plan->strokes.count, tries,
           (double)(clock() - began) / CLOCKS_PER_SEC, line);
    fflush(stdout);
}

static void report(const struct many *many, const struct result *result, struct tally *tally) {
    struct plan *plan = malloc(sizeof *plan);

    tally_add(tally, &result->outcome, many->rule);
    if (plan == NULL || !many_plan(many, result->index, plan))
        abort();
    if (many->hash_each)
        printf("%s %" PRIu64 " %016" PRIx64 "\n", plan->service->word, plan->seed, result->outcome.hash);
    if (outcome_breaks(&result->outcome, many->rule)) {
        violation_print(many, plan, &result->outcome, false);
        if (many->shrink && tally->violations <= SHRUNK_MAX)
            shrink_and_print(plan, many->rule != NULL ? many->rule : result->outcome.list[0].rule);
    }
    free(plan);
}

/* ---- One process ---------------------------------------------------------------------------------------------------------- */

static void play_one(const struct many *many, uint64_t index, struct outcome *ret) {
    struct plan *plan = malloc(sizeof *plan);

    if (plan == NULL || !many_plan(many, index, plan))
        abort();
    crash_begin(CPU_SECONDS, "--service %s --seed %" PRIu64 "\n", plan->service->word, plan->seed);
    run_plan(plan, many->trace, ret);
    crash_end();
    free(plan);
}

static bool is_over(const struct many *many, uint64_t index, int64_t deadline) {
    return many->count > 0 ? index >= many->count : real_ms() >= deadline;
}

static void play_here(const struct many *many, struct tally *tally) {
    int64_t deadline = real_ms() + many->time_ms;
    struct result result;

    for (uint64_t i = 0; !is_over(many, i, deadline); i++) {
        result.index = i;
        play_one(many, i, &result.outcome);
        if (many->history != NULL && !buffer_save(many->history))
            fprintf(stderr, "pawl-sim: cannot write %s: %s\n", many->history, strerror(errno));
        report(many, &result, tally);
        if (many->until_violation && tally->violations > 0)
            return;
    }
}

/* ---- Several ---------------------------------------------------------------------------------------------------------------- */

static void work(const struct many *many, int worker, int pipe_fd) {
    int64_t deadline = real_ms() + many->time_ms;
    struct result result;

    for (uint64_t i = (uint64_t)worker; !is_over(many, i, deadline); i += (uint64_t)many->jobs) {
        result.index = i;
        play_one(many, i, &result.outcome);
        if (write(pipe_fd, &result, sizeof result) != sizeof result)
            _exit(3);
    }
    _exit(0);
}

/* Results that came before their turn. */
struct waiting {
    struct result **list; /* by number */
    uint64_t room, next;
};

static void keep(struct waiting *waiting, const struct result *result) {
    struct result *copy = malloc(sizeof *copy);

    if (result->index >= waiting->room) {
        uint64_t room = 2 * result->index + 1024;

        waiting->list = realloc(waiting->list, room * sizeof waiting->list[0]);
        if (waiting->list != NULL)
            memset(waiting->list + waiting->room, 0, (room - waiting->room) * sizeof waiting->list[0]);
        waiting->room = room;
    }
    if (copy == NULL || waiting->list == NULL)
        abort();
    *copy = *result;
    waiting->list[result->index] = copy;
}

/* Those whose turn it is; in the end all that are there. False: that was enough. */
static bool take_turns(const struct many *many, struct waiting *waiting, struct tally *tally, bool all) {
    for (; waiting->next < waiting->room; waiting->next++) {
        struct result *result = waiting->list[waiting->next];

        if (result == NULL && !all)
            return true;
        if (result == NULL)
            continue;
        waiting->list[waiting->next] = NULL;
        report(many, result, tally);
        free(result);
        if (many->until_violation && tally->violations > 0)
            return false;
    }
    return true;
}

static bool start_workers(const struct many *many, pid_t *workers, int pipe_fds[2]) {
    fflush(stdout);
    if (pipe(pipe_fds) < 0)
        return false;
    for (int i = 0; i < many->jobs; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            close(pipe_fds[0]);
            work(many, i, pipe_fds[1]);
        }
    }
    close(pipe_fds[1]);
    return true;
}

/* A worker that died has said of what. */
static void end_workers(const struct many *many, const pid_t *workers, bool at_once, struct tally *tally) {
    int status;

    for (int i = 0; i < many->jobs; i++) {
        if (workers[i] <= 0)
            continue;
        if (at_once)
            kill(workers[i], SIGKILL);
        if (waitpid(workers[i], &status, 0) == workers[i] && status != 0 && !at_once)
            tally->violations++;
    }
}

static void play_by_workers(const struct many *many, struct tally *tally) {
    pid_t *workers = calloc((size_t)many->jobs, sizeof *workers);
    struct waiting waiting = {0};
    struct result result;
    int pipe_fds[2];
    bool go_on = true;

    if (workers == NULL || !start_workers(many, workers, pipe_fds)) {
        fprintf(stderr, "pawl-sim: no workers can be started: %s\n", strerror(errno));
        free(workers);
        return;
    }
    while (go_on && read(pipe_fds[0], &result, sizeof result) == sizeof result) {
        keep(&waiting, &result);
        go_on = take_turns(many, &waiting, tally, false);
    }
    if (go_on)
        go_on = take_turns(many, &waiting, tally, true);
    end_workers(many, workers, !go_on, tally);
    close(pipe_fds[0]);
    for (uint64_t i = 0; i < waiting.room; i++)
        free(waiting.list[i]);
    free(waiting.list);
    free(workers);
}

uint64_t many_play(const struct many *many) {
    struct tally tally = {0};

    if (many->jobs > 1)
        play_by_workers(many, &tally);
    else
        play_here(many, &tally);
    tally_print(&tally);
    return tally.violations;
}
