/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - processes: what is theirs alone, and how they end.
 *
 * The code in the world has global variables, and its processes must not share them. They lie in a section of their own
 * (sim/build-inside puts them there); when another process runs than before, the values of the one are put away and those of the other
 * are put in place. A new process begins with the values that the program began with.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

extern char __start_sim_globals[], __stop_sim_globals[];

static char *first_globals; /* as the program began */

static size_t globals_size(void) {
    return (size_t)(__stop_sim_globals - __start_sim_globals);
}

#if defined(__SANITIZE_ADDRESS__)
/* AddressSanitizer surrounds each variable with bytes that nobody may touch: here they go along. */
__attribute__((no_sanitize_address)) static void copy(void *to, const void *from, size_t size) {
    volatile uint64_t *words = to;
    const volatile uint64_t *old = from;

    for (size_t i = 0; i < size / sizeof *words; i++)
        words[i] = old[i];
    for (size_t i = size / sizeof *words * sizeof *words; i < size; i++)
        ((volatile char *)to)[i] = ((const volatile char *)from)[i];
}
#else
static void copy(void *to, const void *from, size_t size) {
    memcpy(to, from, size);
}
#endif

void process_load(struct process *process) {
    char *globals = __start_sim_globals;

    if (world.loaded == process)
        return;
    if (world.loaded != NULL)
        copy(world.loaded->globals, globals, globals_size());
    copy(globals, process->globals, globals_size());
    world.loaded = process;
}

static void *process_main(void *data) {
    struct process *process = data;

    process_end(process, process->main(process->data));
    return NULL;
}

struct process *world_spawn(const char *name, int (*main)(void *data), void *data) {
    struct process *process = calloc(1, sizeof *process);

    if (first_globals == NULL) {
        first_globals = malloc(globals_size());
        copy(first_globals, __start_sim_globals, globals_size());
    }
    snprintf(process->name, sizeof process->name, "%s", name);
    process->pid = world.next_pid++;
    process->main = main;
    process->data = data;
    process->resume_at = WORLD_NEVER;
    process->clock = (struct server_clock){.base = world.now, .since = world.now, .rate = 1};
    process->chance = chance_new(world.options.seed, (uint64_t)process->pid << 8 | 5);
    process->globals = malloc(globals_size());
    copy(process->globals, first_globals, globals_size());
    TAILQ_INIT(&process->threads);
    TAILQ_INIT(&process->blocks);
    TAILQ_INIT(&process->freed);
    TAILQ_INSERT_TAIL(&world.processes, process, link);
    thread_new(process, process_main, process);
    return process;
}

const void *world_global(const struct process *process, const void *variable) {
    if (world.loaded == process)
        return variable;
    return process->globals + ((const char *)variable - __start_sim_globals);
}

pid_t world_pid(const struct process *process) {
    return process->pid;
}

bool world_ended(const struct process *process) {
    return process->ended;
}

int world_status(const struct process *process) {
    return process->status;
}

const char *world_words(const struct process *process) {
    return process->words;
}

size_t world_leaked(const struct process *process) {
    return process->allocated;
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

void process_end(struct process *process, int status) {
    bool own = world.current != NULL && world.current->process == process;

    if (process->ended)
        return;
    process->ended = true;
    process->status = status;
    world_trace("%s (%d) ended: %d", process->name, (int)process->pid, status);
    files_close_all(process);
    if (own) {
        world.current->state = THREAD_DEAD;
        thread_leave(); /* the scheduler frees its threads */
    }
    while (!TAILQ_EMPTY(&process->threads))
        thread_free(TAILQ_FIRST(&process->threads));
}

void process_die(int status, const char *format, ...) {
    struct process *process = world.current->process;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(process->words, sizeof process->words, format, arguments);
    va_end(arguments);
    world_trace("%s (%d): %s", process->name, (int)process->pid, process->words);
    if (process == world.main)
        fprintf(stderr, "# %s\n", process->words); /* the world ends with it, and nobody is left who could ask */
    process_end(process, status);
    abort(); /* it does not come back */
}

void process_free(struct process *process) {
    process_end(process, -9);
    memory_free_all(process);
    net_forget(process);
    TAILQ_REMOVE(&world.processes, process, link);
    if (world.loaded == process)
        world.loaded = NULL;
    free(process->globals);
    free(process);
}

void world_reap(struct process *process) {
    process_free(process);
}

void world_kill(struct process *process) {
    process_end(process, -9);
}

/* ---- Stopped, and clocks -------------------------------------------------------------------------------------------------- */

void world_pause(struct process *process) {
    world_trace("%s (%d) is stopped", process->name, (int)process->pid);
    process->paused = true;
}

void world_resume(struct process *process) {
    world_trace("%s (%d) goes on", process->name, (int)process->pid);
    process->paused = false;
    process->resume_at = WORLD_NEVER;
}

bool world_paused(const struct process *process) {
    return process->paused;
}

void world_pause_later(struct process *process, unsigned switches, int64_t span_ns) {
    process->pause_in = switches;
    process->pause_span = span_ns;
}

int64_t process_true_time(const struct process *process, int64_t deadline) {
    int64_t left = deadline - process_clock(process);

    if (deadline == WORLD_NEVER || left > WORLD_NEVER / 4)
        return WORLD_NEVER;
    if (left <= 0)
        return world.now;
    /* Not a moment too soon: by its own clock the time must have come. */
    return world.now + (process->clock.rate == 1 ? left : (int64_t)((double)left / process->clock.rate) + 2);
}

void world_set_clock(struct process *process, int64_t wall_ahead_ns, double rate) {
    struct thread *thread;

    process->wall_ahead = wall_ahead_ns;
    if (rate == process->clock.rate)
        return;
    server_clock_set(&process->clock, world.now, 0, rate);
    TAILQ_FOREACH(thread, &process->threads, link) {
        if (thread->state == THREAD_BLOCKED) {
            thread->until = process_true_time(process, thread->deadline);
            world_due(thread->until);
        }
    }
}
