/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.c - see clients.h. As with real ones, what is done to a client is written down before it is done.
 */
#include "clients.h"

#include <stdio.h>
#include <string.h>

static void note(struct sim_clients *clients, enum record_kind kind, int slot) {
    history_append(clients->history, history_now(clients->history), history_rig, kind, "%d.%u", slot, clients->list[slot].life);
}

static void note_exit(struct sim_clients *clients, int slot, int status) {
    history_append(clients->history, history_now(clients->history), history_rig, RECORD_EXIT, "%d.%u %d", slot,
                   clients->list[slot].life, status);
}

/* ---- Start and end -------------------------------------------------------------------------------------------------------- */

static int run_client(void *data) {
    const struct birth *birth = data;

    return client_main(birth->page, birth->history, birth->slot, birth->life);
}

static int run_observer(void *data) {
    const struct birth *birth = data;

    return observer_main(birth->page, birth->history);
}

static void set_clock(const struct sim_client *client) {
    if (client->process != NULL)
        world_set_clock(client->process, client->ahead_ns, client->rate);
}

static void start(struct sim_clients *clients, int slot) {
    struct sim_client *client = &clients->list[slot];
    struct page *page = clients->page;
    char name[24];

    client->life++;
    client->stopped = false;
    client->birth = (struct birth){.page = page, .history = clients->history, .slot = slot, .life = client->life};
    atomic_store(&page->slots[slot].holds, 0);
    snprintf(name, sizeof name, "client %d.%u", slot, client->life);
    client->process = world_spawn(name, run_client, &client->birth);
    set_clock(client);
    atomic_store(&page->slots[slot].life, client->life);
    atomic_store(&page->slots[slot].pid, world_pid(client->process));
}

static void bury(struct sim_clients *clients, int slot) {
    struct sim_client *client = &clients->list[slot];

    world_reap(client->process);
    client->process = NULL;
}

static void end(struct sim_clients *clients, int slot) {
    note(clients, RECORD_KILL, slot);
    world_kill(clients->list[slot].process);
    note_exit(clients, slot, 0);
    bury(clients, slot);
}

void clients_open(struct sim_clients *clients, struct page *page, const struct history *history) {
    *clients = (struct sim_clients){.page = page, .history = history, .count = page->clients};
    for (int i = 0; i < clients->count; i++)
        clients->list[i].rate = 1;
}

void clients_start_all(struct sim_clients *clients, bool observer) {
    for (int i = 0; i < clients->count; i++)
        start(clients, i);
    clients->observer_birth = (struct birth){.page = clients->page, .history = clients->history};
    if (observer)
        clients->observer = world_spawn("observer", run_observer, &clients->observer_birth);
}

/* What it leaves says something only if it came to its end. */
static void look_back(struct sim_clients *clients, const struct process *process, const char *who) {
    if (world_status(process) == 0)
        clients->leaked += world_leaked(process) > clients->kept ? world_leaked(process) - clients->kept : 0;
    else if (clients->words[0] == '\0')
        snprintf(clients->words, sizeof clients->words, "%s: status %d, %.200s", who, world_status(process), world_words(process));
}

void clients_reap(struct sim_clients *clients) {
    for (int i = 0; i < clients->count; i++) {
        struct process *process = clients->list[i].process;

        if (process == NULL || !world_ended(process))
            continue;
        look_back(clients, process, "a client");
        note_exit(clients, i, world_status(process));
        bury(clients, i);
        if (atomic_load(&clients->page->phase) == PHASE_RUN)
            start(clients, i);
    }
}

/* ---- Faults --------------------------------------------------------------------------------------------------------------- */

/* The target, or the next one after it that runs; for every second target, the next one that holds something, if any does. -1: none
 * runs. */
static int choose(const struct sim_clients *clients, uint64_t target) {
    int count = clients->count, first = -1;

    for (int i = 0; i < count; i++) {
        int slot = (int)((target / 2 + (uint64_t)i) % (uint64_t)count);

        if (clients->list[slot].process == NULL || clients->list[slot].stopped)
            continue;
        if (target % 2 == 0 || atomic_load(&clients->page->slots[slot].holds) > 0)
            return slot;
        if (first < 0)
            first = slot;
    }
    return first;
}

bool clients_suffer(int fault) {
    switch (fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CLIENT_STOP:
    case FAULT_CLIENT_CLOCK:
    case FAULT_CLIENT_FAST:
    case FAULT_PARTITION_CLIENT:
    case SIM_PAUSE:
    case SIM_CLIENT_JUMP:
    case SIM_CLIENT_RATE:
        return true;
    default:
        return false;
    }
}

static int set_clock_of(struct sim_clients *clients, const struct sim_stroke *stroke, int64_t ahead_ns, double rate) {
    struct sim_client *client = &clients->list[stroke->target % (uint64_t)clients->count];

    client->ahead_ns = ahead_ns;
    client->rate = rate;
    set_clock(client);
    return 1;
}

/* By a little or by a lot, back or forth. */
static int64_t jump_of(uint64_t target) {
    static const int64_t spans[] = {WORLD_MS, 100 * WORLD_MS, 10 * WORLD_SECOND, 7200 * WORLD_SECOND};
    int64_t span = 1 + (int64_t)((target >> 20) % (uint64_t)spans[(target >> 8) % 4]);

    return target >> 16 & 1 ? span : -span;
}

/* Not slower than the margin of a lease allows: docs/guarantees.md, "What is not promised". */
static double rate_of(uint64_t target) {
    return (target >> 8) % 4 == 0 ? 0.995 : 1 + (double)((target >> 8) % 200) / 100;
}

static int begin_stop(struct sim_clients *clients, int slot) {
    note(clients, RECORD_STOP, slot);
    world_pause(clients->list[slot].process);
    clients->list[slot].stopped = true;
    return 1;
}

int clients_begin(struct sim_clients *clients, const struct sim_stroke *stroke) {
    int slot = choose(clients, stroke->target);
    struct process *process = slot >= 0 ? clients->list[slot].process : NULL;

    switch (stroke->fault) {
    case FAULT_CLIENT_CLOCK:
        return set_clock_of(clients, stroke, (INT64_C(60) + (int64_t)(stroke->target % 7200)) * WORLD_SECOND, 1);
    case SIM_CLIENT_JUMP:
        return set_clock_of(clients, stroke, jump_of(stroke->target), 1);
    case FAULT_CLIENT_FAST:
        return set_clock_of(clients, stroke, 0, 2);
    case SIM_CLIENT_RATE:
        return set_clock_of(clients, stroke, 0, rate_of(stroke->target));
    default:
        break;
    }
    if (process == NULL)
        return 0;
    switch (stroke->fault) {
    case FAULT_CLIENT_KILL:
        end(clients, slot);
        start(clients, slot);
        return 1;
    case FAULT_CLIENT_STOP:
        return begin_stop(clients, slot);
    case FAULT_PARTITION_CLIENT:
        clients->cut_off = slot + 1;
        return (int)world_hole(NULL, process, true);
    default:
        clients->pausing = slot + 1;
        world_pause_later(process, 1 + (unsigned)(stroke->target >> 8) % 200, stroke->span_ms * WORLD_MS);
        return 1;
    }
}

/* It goes on, or will not stand still any more. */
static void end_pause(struct sim_clients *clients) {
    struct sim_client *client = &clients->list[clients->pausing - 1];

    clients->pausing = 0;
    if (client->process == NULL)
        return;
    world_pause_later(client->process, 0, 0);
    if (world_paused(client->process) && !client->stopped)
        world_resume(client->process);
}

int clients_heal(struct sim_clients *clients, const struct sim_stroke *stroke) {
    switch (stroke->fault) {
    case FAULT_CLIENT_STOP:
        for (int i = 0; i < clients->count; i++)
            if (clients->list[i].stopped && clients->list[i].process != NULL) {
                note(clients, RECORD_CONT, i);
                world_resume(clients->list[i].process);
                clients->list[i].stopped = false;
            }
        return 0;
    case FAULT_CLIENT_CLOCK:
    case FAULT_CLIENT_FAST:
    case SIM_CLIENT_JUMP:
    case SIM_CLIENT_RATE:
        set_clock_of(clients, stroke, 0, 1);
        return 0;
    case FAULT_PARTITION_CLIENT:
        if (clients->cut_off > 0 && clients->list[clients->cut_off - 1].process != NULL)
            world_hole(NULL, clients->list[clients->cut_off - 1].process, false);
        clients->cut_off = 0;
        return 0;
    case SIM_PAUSE:
        if (clients->pausing > 0)
            end_pause(clients);
        return 0;
    default:
        return 0;
    }
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

static int count_running(const struct sim_clients *clients) {
    int running = 0;

    for (int i = 0; i < clients->count; i++)
        running += clients->list[i].process != NULL && !world_ended(clients->list[i].process);
    return running;
}

static bool are_idle(void *data) {
    const struct sim_clients *clients = data;

    return atomic_load(&clients->page->idle) >= count_running(clients);
}

static bool are_gone(void *data) {
    const struct sim_clients *clients = data;

    return count_running(clients) == 0;
}

static bool observer_is_gone(void *data) {
    const struct sim_clients *clients = data;

    return world_ended(clients->observer);
}

bool clients_await_idle(struct sim_clients *clients, int64_t patience_ns) {
    bool idle = world_wait(are_idle, clients, world_now() + patience_ns);

    clients_reap(clients);
    return idle;
}

void clients_await_end(struct sim_clients *clients, int64_t patience_ns) {
    world_wait(are_gone, clients, world_now() + patience_ns);
    clients_reap(clients);
    for (int i = 0; i < clients->count; i++)
        if (clients->list[i].process != NULL) {
            note(clients, RECORD_HUNG, i);
            end(clients, i);
        }
    if (clients->observer == NULL)
        return;
    if (world_wait(observer_is_gone, clients, world_now() + patience_ns))
        look_back(clients, clients->observer, "the observer");
    else
        snprintf(clients->words, sizeof clients->words, "the observer did not come to an end");
    world_reap(clients->observer);
    clients->observer = NULL;
}
