/* SPDX-License-Identifier: Apache-2.0
 *
 * world.c - the scheduler and the clock.
 *
 *     while the main thread has not returned:
 *         some thread can run      -> choose one by the seed, and let it run until it blocks or loses its turn
 *         nobody can               -> the clock goes on to the next thing that is due: bytes that arrive, a server's own moment, a
 *                                     sleeper's deadline
 *
 * Each call of the system costs a thread some virtual time, so that a loop that only looks at the clock ends. What becomes due
 * meanwhile happens at once, in that thread's call: a thread that looks again and again sees bytes arrive.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "points.h"

enum { STEPS_A_SECOND = 400000, STEPS_A_BYTE = 32, COST_LOW = 20, COST_HIGH = 2000, PRIORITY_SPAN = 4000 };
/* No thread passes so many places where it might lose its turn without sleeping once. The most that was seen is an eighth of it. */
enum { RESTLESS_MAX = 4000000 };
/* Nor does one look so often in a row for what was due before: it would have done that. The most that was seen is less than 40. */
enum { FOR_NOTHING_MAX = 1000 };
#define BEGIN (3600 * WORLD_SECOND)
/* When a world begins, by the wall clock: some day, and in the middle of a millisecond. */
#define WALL_BEGIN (INT64_C(1800000000) * WORLD_SECOND + 437123)

struct world world;

/* ---- What is seen of it --------------------------------------------------------------------------------------------------- */

int64_t world_now(void) {
    return world.now;
}

int64_t world_wall_ms(void) {
    return (WALL_BEGIN + world.now - BEGIN) / WORLD_MS;
}

uint64_t world_hash(void) {
    return world.hash;
}

void world_hash_add(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t hash = world.hash ^ size;

    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    for (; size > 0; size--)
        hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
    world.hash = hash;
}

uint64_t world_steps(void) {
    return world.steps;
}

bool world_traced(void) {
    return world.options.trace != NULL;
}

void world_trace(const char *format, ...) {
    va_list arguments;

    if (world.options.trace == NULL)
        return;
    fprintf(world.options.trace, "%12.6f  ", (double)(world.now - BEGIN) / 1e9);
    va_start(arguments, format);
    vfprintf(world.options.trace, format, arguments);
    va_end(arguments);
    fputc('\n', world.options.trace);
}

static void (*on_event)(struct process *process, enum world_event event);

void world_on_event(void (*seen)(struct process *process, enum world_event event)) {
    on_event = seen;
}

void world_event(struct process *process, enum world_event event) {
    if (on_event != NULL && !process->ended)
        on_event(process, event);
}

/* ---- Due ------------------------------------------------------------------------------------------------------------------ */

void world_due(int64_t when) {
    if (when < world.due)
        world.due = when;
}

static void make_ready(struct thread *thread, bool timed_out) {
    thread->state = THREAD_READY;
    thread->timed_out = timed_out;
    thread->key = NULL;
    thread->polls = false;
    thread->until = WORLD_NEVER;
}

/* Sleepers whose time has come; returns when the next one's will. */
static int64_t wake_sleepers(void) {
    int64_t next = WORLD_NEVER;
    struct process *process;
    struct thread *thread;

    TAILQ_FOREACH(process, &world.processes, link) {
        if (process->resume_at <= world.now)
            world_resume(process);
        else if (process->resume_at < next)
            next = process->resume_at;
        TAILQ_FOREACH(thread, &process->threads, link) {
            if (thread->state != THREAD_BLOCKED)
                continue;
            if (thread->until <= world.now) {
                world_event(process, EVENT_TIMER);
                make_ready(thread, true);
            } else if (thread->until < next)
                next = thread->until;
        }
    }
    return next;
}

/* All that is due by now. */
static void happen(void) {
    int64_t sleepers, bytes;

    world.due = WORLD_NEVER;
    bytes = net_carry();
    sleepers = wake_sleepers();
    world_due(bytes < sleepers ? bytes : sleepers);
}

void world_charge(void) {
    world.now += dice_between(&world.cost, COST_LOW, COST_HIGH);
    if (world.now >= world.due)
        happen();
}

/* ---- Blocking and waking -------------------------------------------------------------------------------------------------- */

void world_looked(bool for_nothing) {
    struct thread *self = world.current;

    self->for_nothing = for_nothing ? self->for_nothing + 1 : 0;
    world.restless |= self->for_nothing > FOR_NOTHING_MAX;
}

bool world_block(const void *key, bool polls, int64_t deadline) {
    struct thread *self = world.current;

    self->key = key;
    self->polls = polls;
    self->deadline = deadline;
    self->until = process_true_time(self->process, deadline);
    self->state = THREAD_BLOCKED;
    self->interrupted = false;
    self->restless = 0;
    world_looked(process_clock(self->process) >= deadline);
    world_due(self->until);
    thread_leave();
    return !self->timed_out;
}

int world_wake(struct process *process, const void *key, int count) {
    struct thread *thread;
    int woken = 0;

    TAILQ_FOREACH(thread, &process->threads, link) {
        if (woken == count)
            break;
        if (thread->state == THREAD_BLOCKED && thread->key == key) {
            make_ready(thread, false);
            woken++;
        }
    }
    return woken;
}

void world_interrupt(struct process *process, uint64_t number) {
    struct thread *thread;

    TAILQ_FOREACH(thread, &process->threads, link) {
        if (thread->number != number || thread->state != THREAD_BLOCKED)
            continue;
        make_ready(thread, false);
        thread->interrupted = true;
    }
}

void world_notify(struct process *process) {
    struct thread *thread;

    TAILQ_FOREACH(thread, &process->threads, link) {
        if (thread->state == THREAD_BLOCKED && thread->polls)
            make_ready(thread, false);
    }
}

void world_yield(void) {
    world.current->state = THREAD_READY;
    thread_leave();
}

void world_may_switch(void) {
    if (world.current == NULL)
        return;
    world.restless |= ++world.current->restless > RESTLESS_MAX;
    if (world.restless || dice_one_in(&world.schedule, world.options.preempt))
        world_yield();
}

void sim_point(void) {
    world_may_switch();
}

/* ---- The scheduler -------------------------------------------------------------------------------------------------------- */

static bool can_run(const struct process *process, const struct thread *thread) {
    return thread->state == THREAD_READY && !process->paused;
}

/* With priorities: the highest; and at some moments the running one becomes the lowest, so that also rare orders come about. */
static struct thread *choose_highest(void) {
    struct thread *best = NULL, *thread;
    struct process *process;

    TAILQ_FOREACH(process, &world.processes, link) {
        TAILQ_FOREACH(thread, &process->threads, link) {
            if (can_run(process, thread) && (best == NULL || thread->priority > best->priority))
                best = thread;
        }
    }
    if (best != NULL && world.priority_changes > 0 && dice_one_in(&world.schedule, PRIORITY_SPAN)) {
        best->priority = (unsigned)world.priority_changes--;
        return choose_highest();
    }
    return best;
}

static struct thread *choose_any(void) {
    struct thread *chosen = NULL, *thread;
    struct process *process;
    unsigned ready = 0;

    TAILQ_FOREACH(process, &world.processes, link) {
        TAILQ_FOREACH(thread, &process->threads, link) {
            if (can_run(process, thread)) {
                chosen = thread;
                ready++;
            }
        }
    }
    if (ready < 2)
        return chosen;
    uint64_t turn = dice_below(&world.schedule, ready);

    TAILQ_FOREACH(process, &world.processes, link) {
        TAILQ_FOREACH(thread, &process->threads, link) {
            if (can_run(process, thread) && turn-- == 0)
                return thread;
        }
    }
    return chosen;
}

/* A process that ends frees its threads here, where none of them runs. */
static void after(struct thread *thread) {
    struct process *process = thread->process;

    if (process->ended) {
        while (!TAILQ_EMPTY(&process->threads))
            thread_free(TAILQ_FIRST(&process->threads));
    } else if (thread->state == THREAD_DEAD && thread->detached) {
        thread_free(thread);
    } else if (thread->state == THREAD_DEAD) {
        world_wake(process, &thread->result, -1);
    }
}

static bool is_paused_now(struct process *process) {
    if (process->pause_in == 0 || --process->pause_in > 0)
        return false;
    process->resume_at = world.now + process->pause_span;
    world_due(process->resume_at);
    world_pause(process);
    return true;
}

/* Who reads a long answer byte by byte wakes up for each of them, and gets somewhere: that much more is allowed. */
static bool is_livelock(void) {
    int64_t second = world.now / WORLD_SECOND;

    world.steps++;
    if (second != world.second) {
        world.second = second;
        world.steps_in_second = world.dribbled = 0;
    }
    return world.restless || ++world.steps_in_second > STEPS_A_SECOND + STEPS_A_BYTE * world.dribbled;
}

static void look_whether_done(void) {
    struct thread *thread = TAILQ_FIRST(&world.main->threads);

    if (world.done != NULL && thread->state == THREAD_BLOCKED && world.done(world.done_data))
        make_ready(thread, false);
}

static enum world_end run(void) {
    while (!world.main->ended) {
        struct thread *thread = world.options.priorities > 0 ? choose_highest() : choose_any();

        if (thread == NULL) {
            if (world.due == WORLD_NEVER)
                return WORLD_STUCK;
            if (world.due > world.now)
                world.now = world.due;
            happen();
        } else if (!is_paused_now(thread->process)) {
            thread_run(thread);
            after(thread);
            world_charge();
        }
        look_whether_done();
        if (is_livelock())
            return WORLD_LIVELOCK;
        if (world.now > BEGIN + world.options.limit_ns)
            return WORLD_LATE;
    }
    return WORLD_DONE;
}

/* ---- The main thread ------------------------------------------------------------------------------------------------------ */

struct main_call {
    void (*main)(void *data);
    void *data;
};

static int run_main(void *data) {
    struct main_call *call = data;

    call->main(call->data);
    return 0;
}

void world_sleep(int64_t until) {
    while (world.now < until)
        world_block(NULL, false, until);
}

bool world_wait(bool (*done)(void *data), void *data, int64_t until) {
    while (!done(data)) {
        if (world.now >= until)
            return false;
        world.done = done;
        world.done_data = data;
        world_block(NULL, false, until);
        world.done = NULL;
    }
    return true;
}

enum world_end world_run(const struct world_options *options, void (*main)(void *data), void *data) {
    struct main_call call = {.main = main, .data = data};
    enum world_end end;

    world = (struct world){
        .options = *options,
        .now = BEGIN,
        .due = WORLD_NEVER,
        .schedule = chance_new(options->seed, 1),
        .cost = chance_new(options->seed, 2),
        .wire = chance_new(options->seed, 3),
        .fate = chance_new(options->seed, 4),
        .priority_changes = options->priorities,
        .next_pid = 1000,
    };
    if (world.options.far_ns == 0) {
        world.options.near_ns = 20000;
        world.options.far_ns = 200000;
    }
    if (world.options.limit_ns == 0)
        world.options.limit_ns = 3600 * WORLD_SECOND;
    TAILQ_INIT(&world.processes);
    net_begin();
    world.main = world_spawn("main", run_main, &call);
    end = run();
    world.ending = true;
    while (!TAILQ_EMPTY(&world.processes))
        process_free(TAILQ_FIRST(&world.processes));
    net_end();
    return end;
}
