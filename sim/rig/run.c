/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h: setting up, and the strokes.
 */
#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "wire_faults.h"

/* A stroke whose time has not come, since the servers are not whole, is asked for again so often; and is given up in the end. */
#define AGAIN (20 * WORLD_MS)
#define PATIENCE (60 * WORLD_SECOND)
/* So long is looked for a holder that could be broken. */
#define BREAK (2 * WORLD_SECOND)
/* Where a deadlock is only told, who waits in it gives up by then: after it was told. */
enum { NEST_MS = 4000 };
/* How often something is under way before a hold with a limit is granted, at the most, as a rule. */
enum { ROUND_TRIPS = 3 };

void rig_note(struct rig *rig, enum record_kind kind, const char *format, ...) {
    char text[HISTORY_LINE / 2];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    history_append(&rig->history, history_now(&rig->history), history_rig, kind, "%s", text);
}

/* ---- Strokes -------------------------------------------------------------------------------------------------------------- */

static int begin_break(struct rig *rig) {
    atomic_store(&rig->page->breaks.wanted, atomic_load(&rig->page->breaks.done) + 1);
    rig->break_by = world_now() + BREAK;
    return 0;
}

/* The observer does it as soon as it sees a holder. What has not come about by then is not to come when nobody expects it any more. */
static int heal_break(struct rig *rig) {
    uint64_t done = atomic_load(&rig->page->breaks.done);

    if (done < atomic_load(&rig->page->breaks.wanted) && world_now() < rig->break_by)
        return NOT_YET;
    return done >= atomic_exchange(&rig->page->breaks.wanted, done);
}

static int begin_fault(struct rig *rig, const struct sim_stroke *stroke) {
    if (clients_suffer(stroke->fault))
        return clients_begin(&rig->clients, stroke);
    if (wire_faults_is(stroke->fault))
        return wire_faults_begin(&rig->servers, &rig->clients, stroke);
    if (stroke->fault == FAULT_BREAK_NOW)
        return begin_break(rig);
    return rig->plan->service->begin(&rig->servers, stroke);
}

static int heal_fault(struct rig *rig, const struct sim_stroke *stroke) {
    if (clients_suffer(stroke->fault))
        return clients_heal(&rig->clients, stroke);
    if (wire_faults_is(stroke->fault))
        return wire_faults_heal(&rig->servers, &rig->clients, stroke);
    if (stroke->fault == FAULT_BREAK_NOW)
        return heal_break(rig);
    return rig->plan->service->heal(&rig->servers, stroke);
}

/* It is over when the servers are as they were. */
static void heal(struct rig *rig, struct active *active) {
    int hits = active->healing ? 0 : heal_fault(rig, &active->stroke);
    bool late = world_now() >= active->gives_up;

    active->hits += hits > 0 ? hits : 0;
    active->healing |= hits != NOT_YET;
    if (!late &&
        (!active->healing || (sim_lane(active->stroke.fault) == LANE_SERVER && !rig->plan->service->whole(&rig->servers)))) {
        active->ends = world_now() + AGAIN;
        return;
    }
    if (late)
        rig_note(rig, RECORD_RESIDUE, "the servers are not whole long after %s", sim_word(active->stroke.fault));
    active->used = false;
    world_trace("stroke %zu is over: %s", active->number, sim_word(active->stroke.fault));
    rig_note(rig, RECORD_HEALED, "%zu %d", active->number, active->hits);
}

static void note_fault(struct rig *rig, const struct active *active) {
    const struct sim_stroke *stroke = &active->stroke;

    world_trace("stroke %zu: %s@%" PRId64 "+%" PRId64 "#%" PRIu64, active->number, sim_word(stroke->fault), stroke->at_ms,
                stroke->span_ms, stroke->target);
    rig_note(rig, RECORD_FAULT, "%zu %s %" PRIu64, active->number, fault_classes[sim_row(stroke->fault)].word, stroke->target);
}

/* What is done to a client is written down before it is done. Servers may not be ready for their fault; nobody runs between that and the
 * record. False: not yet. */
static bool begin(struct rig *rig, struct active *active, const struct sim_stroke *stroke) {
    bool early = clients_suffer(stroke->fault);

    *active = (struct active){.number = rig->strokes, .stroke = *stroke, .ends = world_now() + stroke->span_ms * WORLD_MS};
    active->gives_up = active->ends + PATIENCE;
    if (early)
        note_fault(rig, active);
    int hits = begin_fault(rig, stroke);

    if (hits == NOT_YET)
        return false;
    if (!early)
        note_fault(rig, active);
    active->used = true;
    active->hits = hits;
    rig->strokes++;
    rig->facts.strokes += 1;
    if (stroke->span_ms == 0 || stroke->fault == FAULT_CLIENT_KILL)
        heal(rig, active);
    return true;
}

/* The next stroke of a lane; NULL: there is none. */
static const struct sim_stroke *upcoming(struct rig *rig, int lane) {
    const struct strokes *strokes = &rig->plan->strokes;

    while (rig->next[lane] < strokes->count && sim_lane(strokes->list[rig->next[lane]].fault) != lane)
        rig->next[lane]++;
    return rig->next[lane] < strokes->count ? &strokes->list[rig->next[lane]] : NULL;
}

/* Begin or end what is due in a lane. One fault ends before the next begins: a lane that is late stays late. Returns when to look again. */
static int64_t strike_lane(struct rig *rig, int lane) {
    struct active *active = &rig->active[lane];
    const struct sim_stroke *stroke = upcoming(rig, lane);

    if (active->used && active->ends <= world_now())
        heal(rig, active);
    while (!active->used && !rig->calm && stroke != NULL && rig->began + stroke->at_ms * WORLD_MS <= world_now()) {
        if (!begin(rig, active, stroke))
            return world_now() + AGAIN;
        rig->next[lane]++;
        stroke = upcoming(rig, lane);
    }
    return active->used ? active->ends : stroke != NULL && !rig->calm ? rig->began + stroke->at_ms * WORLD_MS : WORLD_NEVER;
}

/* Until then at the latest. */
static void go_on(struct rig *rig, int64_t until) {
    int64_t next = world_now() + 200 * WORLD_MS;

    for (int lane = 0; lane < SIM_LANES; lane++) {
        int64_t due = strike_lane(rig, lane);

        next = due < next ? due : next;
    }
    clients_reap(&rig->clients);
    world_sleep(next < until ? next : until);
}

static bool is_struck(const struct rig *rig) {
    for (int lane = 0; lane < SIM_LANES; lane++)
        if (rig->active[lane].used)
            return true;
    return false;
}

static void run(struct rig *rig) {
    struct schedule_options options = {.time_ms = rig->plan->time, .lease_ms = rig->plan->lease};
    int64_t calm = schedule_calm_ms(&options) * WORLD_MS, end;

    clients_start_all(&rig->clients, rig->plan->observer != 0);
    foreigners_start(&rig->foreigners, rig->plan, rig->page, &rig->history);
    end = rig->began + rig->plan->time * WORLD_MS - calm;
    while (world_now() < end)
        go_on(rig, end);
    rig->calm = true;
    while (is_struck(rig))
        go_on(rig, WORLD_NEVER);
    /* What was hurt has healed: from now on it is calm, so that every lock is asked for once more. */
    for (end = world_now() + calm; world_now() < end;)
        go_on(rig, end);
}

/* ---- Set up --------------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[PAWL_MUTEX] = "mutex", [PAWL_RWLOCK] = "rwlock", [PAWL_SEMAPHORE] = "semaphore"};

/* Until observers know the last state. Where nothing struck, and nothing is left to a lease, they are told of it at once; else their own
 * look at its end may have to do. And the last deadlocks may have to be ended before. */
static int64_t watch_ms_of(const struct plan *plan) {
    bool calm = plan_is_calm(plan) && !plan_keeps(plan) && plan->throttle == 0 && !plan_has_foreigners(plan) && !plan_breaks(plan);

    return (calm ? 2000 : 4000 + 2 * plan->lease) + (plan->nests > 0 ? PLAN_DEADLOCKS_MS : 0);
}

/* Who looks in the end keeps nothing, and does not give up. */
static void set_up_urls(struct rig *rig) {
    const struct plan *plan = rig->plan;
    char options[sizeof plan->url + 64];
    size_t used = (size_t)snprintf(options, sizeof options, "%s", plan->url);

    servers_url(&rig->servers, plan->url, rig->page->direct, sizeof rig->page->direct);
    if (plan_keeps(plan))
        used += (size_t)snprintf(options + used, sizeof options - used, "%skeep=%" PRId64, used > 0 ? "&" : "", plan->keep);
    if (plan_gives_up(plan))
        snprintf(options + used, sizeof options - used, "%sretry=5,50,%" PRId64, used > 0 ? "&" : "", plan->tries);
    servers_url(&rig->servers, options, rig->page->url, sizeof rig->page->url);
}

static void set_up_page(struct rig *rig) {
    const struct plan *plan = rig->plan;
    struct page *page = rig->page;

    page->seed = plan->seed;
    page->lease_ms = plan->lease;
    page->longest_ms = plan->lease * 5 / 4;
    page->hold_ms = plan->hold;
    page->clients = (int)plan->clients;
    page->threads = (int)plan->threads;
    page->locks = (int)plan->locks;
    page->sets = (int)plan->sets;
    page->nests = plan->sets == 0 ? (int)plan->nests : 0;
    page->nest_ms = strstr(plan->url, "deadlock=break") == NULL ? NEST_MS : 0;
    page->values = (int)plan->values;
    page->notes = (int)plan->notes;
    page->by_token = (int)plan->bytoken;
    page->uses.extend = (int)plan->extend;
    page->uses.limit_ms = PAWL_MAX_HOLD_MS_MIN + ROUND_TRIPS * 2 * plan->far / 1000;
    page->uses.per_use = plan->peruse != 0;
    page->uses.gives_up = plan_gives_up(plan);
    page->watch_ms = watch_ms_of(plan);
    page->breaks.share = plan_breaks(plan) ? (int)plan->breaks : 0;
    page->watch = plan_refuses_often(plan) ? 0 : (int)plan->watch;
    for (int i = 0, kind = 0; i < page->locks; i++, kind++) {
        while (!plan->kinds[kind % 3])
            kind++;
        page->lock[i].kind = (enum pawl_kind)(kind % 3);
        page->lock[i].limit = kind % 3 == PAWL_SEMAPHORE ? 3 : 1;
        snprintf(page->lock[i].name, sizeof page->lock[i].name, "torture-%s-%s%d", kind_names[kind % 3],
                 plan->together != 0 ? "{t}" : "", i);
    }
    for (int i = page->locks; i < rig_locks(page); i++) {
        page->lock[i] = (struct rig_lock){.kind = PAWL_MUTEX, .limit = 1};
        snprintf(page->lock[i].name, sizeof page->lock[i].name, "torture-own-%s%d", plan->together != 0 ? "{t}" : "",
                 i - page->locks);
    }
    page->pause_ms = plan_keeps(plan) ? plan->keep : 0;
    set_up_urls(rig);
}

/* How often a hold may be handed on inside a client: one thread hands on to nobody. */
static long handoffs_of(const struct plan *plan) {
    const char *option = strstr(plan->url, "handoff=");

    if (plan->threads < 2)
        return 0;
    return option != NULL ? strtol(option + strlen("handoff="), NULL, 10) : PAWL_HANDOFFS;
}

/* A process that opens the place and closes it again: what the place says of itself goes into the history, and what memory is left then is
 * what such a process keeps for good, for all of its clients. */
static int examine(void *data) {
    struct rig *rig = data;
    struct pawl_options options = {.size = sizeof options, .lease_ms = rig->page->lease_ms, .label = "torture"};
    struct pawl *pawl;
    struct pawl_info info;
    struct pawl_error error;

    if (pawl_open(rig->page->direct, &options, &pawl, &error) < 0) {
        rig_note(rig, RECORD_RESIDUE, "it could not be opened: %s: %s", rig->page->direct, error.text);
        return 1;
    }
    pawl_describe(pawl, &info);
    rig->lease_ms = info.lease_ms;
    pawl_close(pawl);
    return 0;
}

static bool has_ended(void *data) {
    return world_ended(data);
}

static void examine_place(struct rig *rig) {
    struct process *process = world_spawn("examiner", examine, rig);

    rig->lease_ms = rig->plan->lease;
    world_wait(has_ended, process, world_now() + PATIENCE);
    rig->clients.kept = world_leaked(process);
    world_reap(process);
}

/* The first records: what a checker must know. */
static void write_head(struct rig *rig) {
    const struct plan *plan = rig->plan;

    rig_note(rig, RECORD_VERSION, "%d", HISTORY_VERSION);
    rig_note(rig, RECORD_ENGINE, "%s", plan->service->engine);
    rig_note(rig, RECORD_SEED, "%" PRIu64, plan->seed);
    rig_note(rig, RECORD_LEASE, "%" PRId64, rig->lease_ms * WORLD_MS);
    rig_note(rig, RECORD_HANDOFF, "%ld", handoffs_of(plan));
    if (plan_keeps(plan))
        rig_note(rig, RECORD_KEEP, "%" PRId64, plan->keep * WORLD_MS);
    if (plan->apart > 0)
        rig_note(rig, RECORD_APART, "%" PRId64, plan->apart * WORLD_MS);
    if (rig->page->nests > 0)
        rig_note(rig, RECORD_NESTS, "%d", rig->page->nest_ms == 0);
    for (int i = 0; i < rig_locks(rig->page); i++)
        rig_note(rig, RECORD_LOCK, "%d %s %u", i, kind_names[rig->page->lock[i].kind], rig->page->lock[i].limit);
    for (int i = 0; i < SIM_FAULT_KINDS; i++)
        if (plan->faults[i])
            rig_note(rig, RECORD_ASKS, "%s 0", fault_classes[sim_row(i)].word);
}

static void await_servers(struct rig *rig) {
    int64_t deadline = world_now() + PATIENCE;

    while (!rig->plan->service->whole(&rig->servers) && world_now() < deadline)
        world_sleep(world_now() + WORLD_MS);
}

static void run_in_world(void *data) {
    struct rig *rig = data;

    rig->history.fd = buffer_open();
    servers_start(&rig->servers, rig->plan);
    set_up_page(rig);
    await_servers(rig);
    rig->history.began = rig->page->began = history_clock();
    rig->page->began_wall = servers_wall_ns() + rig->page->began;
    clients_open(&rig->clients, rig->page, &rig->history);
    examine_place(rig);
    write_head(rig);
    rig->began = world_now();
    rig->facts.messages_before = servers_messages(&rig->servers);
    run(rig);
    rig_finish(rig);
    rig->facts.leaked = rig->clients.leaked;
}

/* Long enough for all that may be waited for, one after the other. */
static int64_t limit_of(const struct plan *plan) {
    int64_t usual = (plan->time + 20 * plan->lease) * WORLD_MS + 6 * PATIENCE;

    return plan_refuses_often(plan) ? 4 * usual : usual;
}

void run_plan(const struct plan *plan, FILE *trace, struct outcome *ret) {
    struct world_options options = {
        .seed = plan->seed,
        .preempt = (unsigned)plan->preempt,
        .priorities = (unsigned)plan->priorities,
        .near_ns = plan->near * 1000,
        .far_ns = plan->far * 1000,
        .one_byte = (unsigned)plan->onebyte,
        .limit_ns = limit_of(plan),
        .trace = trace,
    };
    struct rig *rig = calloc(1, sizeof *rig);

    rig->plan = plan;
    rig->oracle = service_oracle(plan->service);
    rig->page = calloc(1, sizeof *rig->page);
    rig->facts.end = world_run(&options, run_in_world, rig);
    rig->facts.hash = world_hash();
    rig->facts.steps = world_steps();
    memcpy(rig->facts.words, rig->clients.words, sizeof rig->facts.words);
    servers_stop(&rig->servers);
    verdict_give(plan, &rig->facts, ret);
    free(rig->page);
    free(rig);
}
