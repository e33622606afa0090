/* SPDX-License-Identifier: Apache-2.0
 *
 * swarm.c - from a seed to a plan. Every run has options of its own, and only some of the faults: what never strikes can't hide what
 * another fault would show.
 *
 * Each purpose has a stream of its own, so that what is drawn for one does not depend on what is drawn, or asked for, of the others.
 */
#include <stdio.h>
#include <string.h>

#include "pawl.h"
#include "foreigners.h"
#include "plan.h"

/* What a stream is for. Numbers stay as they are, so that seeds keep their meaning. */
enum purpose {
    FOR_FAULTS = 100,
    FOR_SIZE = 101,
    FOR_TIMES = 102,
    FOR_THREADS = 103,
    FOR_WIRE = 104,
    FOR_URL = 105,
    FOR_SERVERS = 106,
    FOR_KINDS = 107,
    FOR_OBSERVER = 108,
    FOR_ACTORS = 109,
    FOR_SETS = 110,
    FOR_APART = 111,
    FOR_KEEP = 112,
    FOR_VALUES = 113,
    FOR_WATCH = 114,
    FOR_BARGING = 115,
    FOR_BY_TOKEN = 116,
    FOR_NESTS = 117,
    FOR_NOTES = 118,
    FOR_BREAKS = 119,
    FOR_EXTEND = 120,
    FOR_PER_USE = 121,
    FOR_TRIES = 122,
};

enum { TIME_MS = 5000, MOMENTS_MS = 1500, CALM_PERCENT = 12 };

uint64_t plan_seed(uint64_t seed, uint64_t index) {
    struct dice dice = dice_new(seed, UINT64_C(0x706c616e) + index);

    return dice_number(&dice) % UINT64_C(1000000000000);
}

/* Real servers refuse a script at its first write or not at all, so a script that is cut off in the middle is for those who ask for it. */
static bool is_drawn(const struct plan *plan, int fault) {
    return fault != SIM_WRITE_INSIDE && service_has(plan->service, fault);
}

/* Some runs have none: then it must be calm. Else each is in by a coin; a kind that others would drown out comes alone now and then. */
static void draw_faults(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_FAULTS);
    uint64_t roll = dice_below(&dice, 100), share = 15 + dice_below(&dice, 50);

    for (int i = 0; i < SIM_FAULT_KINDS; i++) {
        bool in = dice_below(&dice, 100) < share;

        plan->faults[i] = roll >= CALM_PERCENT && in && is_drawn(plan, i);
    }
}

static void draw_kinds(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_KINDS);
    uint64_t set = dice_between(&dice, 1, 7);

    for (int i = 0; i < 3; i++)
        plan->kinds[i] = set >> i & 1;
    if (plan->service->mutex_only) {
        plan->kinds[PAWL_MUTEX] = true;
        plan->kinds[PAWL_RWLOCK] = plan->kinds[PAWL_SEMAPHORE] = false;
    }
}

static void draw_size(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_SIZE);

    plan->clients = dice_between(&dice, 2, dice_percent(&dice, 30) ? 6 : 3);
    plan->threads = dice_between(&dice, 1, dice_percent(&dice, 30) ? 4 : 2);
    plan->locks = dice_between(&dice, 1, dice_percent(&dice, 30) ? 4 : 2);
}

/* Several locks as one: in some runs. In a cluster one script takes them, if they are in one slot. */
static void draw_sets(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_SETS);

    plan->sets = dice_percent(&dice, 25) ? dice_between(&dice, 10, 60) : 0;
    plan->together = dice_percent(&dice, 30);
}

/* Mostly holds that last: an acquire costs real time, and idle time costs nothing. */
static void draw_times(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_TIMES);

    plan->time = TIME_MS;
    plan->lease = dice_between(&dice, 10, 40) * 100;
    plan->pace = dice_between(&dice, 100, 400);
    plan->hold = dice_percent(&dice, 80) ? dice_between(&dice, 100, 600) : dice_between(&dice, 10, 100);
}

static void draw_threads(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_THREADS);

    plan->preempt = dice_percent(&dice, 30) ? 0 : dice_between(&dice, 2, 41);
    plan->priorities = dice_percent(&dice, 20) ? dice_between(&dice, 1, 6) : 0;
}

/* From the same host to another continent. */
static void draw_wire(struct plan *plan) {
    static const struct {
        int64_t near, far;
    } profiles[] = {{0, 0}, {0, 0}, {0, 0}, {5, 60}, {200, 3000}, {1000, 1500}, {2000, 30000}};
    struct dice dice = dice_new(plan->seed, FOR_WIRE);
    size_t profile = dice_below(&dice, sizeof profiles / sizeof profiles[0]);

    plan->near = profiles[profile].near;
    plan->far = profiles[profile].far;
    plan->onebyte = dice_percent(&dice, 20) ? dice_between(&dice, 1, 40) : 0;
}

static void add_option(struct plan *plan, const char *option) {
    size_t used = strlen(plan->url);

    snprintf(plan->url + used, sizeof plan->url - used, "%s%s", used > 0 ? "&" : "", option);
}

/* How often a process hands a hold on, for how long, and how long its newcomers may pass those who sleep: mostly as it is, now and then
 * with a time of its own. The commas are written as a URL may have them, since those of a plan part its options. */
static void add_handoff(struct plan *plan, uint64_t roll) {
    static const int64_t slices_us[] = {0, 10, 1000, 50000};
    static const char *const counts[] = {"0", "1", "3"};
    struct dice dice = dice_new(plan->seed, FOR_BARGING);
    bool sliced = dice_percent(&dice, 25);
    int64_t span_ms = dice_between(&dice, 1, dice_percent(&dice, 50) ? 5 : 200);
    int64_t slice_us = slices_us[dice_below(&dice, 4)];
    bool counted = roll < sizeof counts / sizeof counts[0];
    char option[64];

    /* Nobody may be passed for longer than hand-ons last. */
    slice_us = slice_us < span_ms * 1000 ? slice_us : span_ms * 1000;

    if (sliced && roll != 0)
        snprintf(option, sizeof option, "handoff=%s%%2C%d%%2C%d", counted ? counts[roll] : "127", (int)span_ms, (int)slice_us);
    else if (counted)
        snprintf(option, sizeof option, "handoff=%s", counts[roll]);
    if ((sliced && roll != 0) || counted)
        add_option(plan, option);
}

/* What the engines' URLs take: docs/redis.md, docs/zookeeper.md. */
static void draw_url(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_URL);
    uint64_t handoff = dice_below(&dice, 10);
    bool spin = dice_percent(&dice, 30), plain = dice_percent(&dice, 12), retry = dice_percent(&dice, 20),
         command = dice_percent(&dice, 20), claim = dice_percent(&dice, 20);
    bool redis = strncmp(plan->service->prefix, "redis", 5) == 0;
    bool zookeeper = strncmp(plan->service->prefix, "zk", 2) == 0;
    bool kazoo = zookeeper && dice_percent(&dice, 12), tick = zookeeper && dice_percent(&dice, 25);

    plan->url[0] = '\0';
    add_handoff(plan, handoff);
    if (kazoo)
        add_option(plan, "compat=kazoo");
    if (tick)
        add_option(plan, "tick=500"); /* service_zookeeper.c */
    if (!redis)
        return;
    if (spin)
        add_option(plan, "spin=0");
    if (retry)
        add_option(plan, "retry=5");
    if (command)
        add_option(plan, "command=150");
    if (claim)
        add_option(plan, "claim=300");
    /* The plain layout has mutexes alone. */
    if (plain) {
        add_option(plan, "layout=plain");
        plan->kinds[PAWL_MUTEX] = true;
        plan->kinds[PAWL_RWLOCK] = plan->kinds[PAWL_SEMAPHORE] = false;
    }
}

/* Locks that are nested: in some runs of clients with several threads, where no sets are taken. Mostly a deadlock is ended; in the others
 * it is told alone, and the waits in it end by themselves. */
static void draw_nests(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_NESTS);
    bool any = dice_percent(&dice, 15), report = dice_percent(&dice, 25);
    int64_t nests = dice_between(&dice, 5, 40);

    plan->nests = 0;
    if (!any || plan->sets > 0 || plan->threads < 2)
        return;
    plan->nests = nests;
    add_option(plan, report ? "deadlock=report" : "deadlock=break");
}

static void draw_servers(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_SERVERS);

    plan->down = plan->lease * dice_between(&dice, 30, 150) / 100;
    plan->version = dice_below(&dice, 6);
    bool nonsense = dice_percent(&dice, 3), throttle = dice_percent(&dice, 4);
    bool zookeeper = strncmp(plan->service->prefix, "zk", 2) == 0;

    /* Seldom or often: the more of it, the more kinds of answers it meets; but a client that hears nothing else gets nowhere. */
    plan->nonsense = !nonsense ? 0 : zookeeper ? dice_between(&dice, 20, 2000) : INT64_C(4) << dice_below(&dice, 8);
    plan->throttle = throttle && zookeeper ? dice_between(&dice, 2, 50) : 0;
}

/* What time of day it is the servers of a Redlock need not agree on: by little, or by hours. */
static void draw_apart(struct plan *plan) {
    static const int64_t most[] = {5, 500, 60000, 7200000};
    struct dice dice = dice_new(plan->seed, FOR_APART);
    bool apart = dice_percent(&dice, 40) && strncmp(plan->service->prefix, "redlock", 7) == 0;

    plan->apart = apart ? dice_between(&dice, 1, most[dice_below(&dice, 4)]) : 0;
    plan->forgetful = 0;
}

/* In every third run locks are kept: mostly for a moment, so that many are given back for being idle, or for longer than most runs. */
static void draw_keep(struct plan *plan) {
    static const int64_t most[] = {20, 200, 1000, 1000};
    struct dice dice = dice_new(plan->seed, FOR_KEEP);
    bool keeps = dice_percent(&dice, 33);
    int64_t keep = dice_between(&dice, 1, most[dice_below(&dice, 4)]);

    plan->keep = keeps && plan->service->keeps ? keep : 0;
}

/* In every second run what lies beside locks is used: now and then, or all the time. */
static void draw_values(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_VALUES);
    bool any = dice_percent(&dice, 50);
    int64_t values = dice_between(&dice, 10, dice_percent(&dice, 50) ? 30 : 90);

    plan->values = any ? values : 0;
}

/* In every third of those some are notes. */
static void draw_notes(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_NOTES);
    bool any = dice_percent(&dice, 33);
    int64_t share = dice_between(&dice, 10, 60);

    plan->notes = any && plan->values > 0 ? share : 0;
}

/* In every third of those some write by token. */
static void draw_by_token(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_BY_TOKEN);
    bool any = dice_percent(&dice, 33);
    int64_t share = dice_between(&dice, 5, dice_percent(&dice, 50) ? 20 : 60);

    plan->bytoken = any && plan->values > 0 ? share : 0;
}

/* In every fourth run holds have limits, and are extended. */
static void draw_extend(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_EXTEND);
    bool any = dice_percent(&dice, 25);
    int64_t share = dice_between(&dice, 10, 70);

    plan->extend = any ? share : 0;
}

/* In every fifth run there is a handle for each use. */
static void draw_per_use(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_PER_USE);

    plan->peruse = dice_percent(&dice, 20);
}

/* In every fifth run acquires end soon where there is no connection: at the first failure or a few more. */
static void draw_tries(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_TRIES);
    bool any = dice_percent(&dice, 20);
    int64_t tries = dice_between(&dice, 1, dice_percent(&dice, 60) ? 2 : 6);

    plan->tries = any && strstr(plan->url, "retry=") == NULL ? tries : 0;
}

/* In every fourth run clients observe locks, too: each change makes each of them look. */
static void draw_watch(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_WATCH);
    bool any = dice_percent(&dice, 25);
    int64_t watch = dice_between(&dice, 10, dice_percent(&dice, 70) ? 40 : 100);

    plan->watch = any ? watch : 0;
}

static void draw_observer(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_OBSERVER);

    /* Looking costs as much as all the rest. Without somebody who looks, nobody breaks a hold. */
    plan->observer = dice_percent(&dice, 40);
    plan->faults[FAULT_BREAK_NOW] = plan->faults[FAULT_BREAK_NOW] && plan->observer != 0;
    plan->requests = plan->patience = 0;
    plan->textbook = 0;
}

/* In some of the runs with somebody who looks holds are asked back: a few of them, or nearly all. */
static void draw_breaks(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_BREAKS);
    bool any = dice_percent(&dice, 50);
    int64_t breaks = dice_percent(&dice, 60) ? dice_between(&dice, 1, 10) : dice_between(&dice, 10, 100);

    plan->breaks = any && plan->observer != 0 && plan->nests == 0 ? breaks : 0;
}

/* What a foreigner does not survive, with pawl or without: a script of its own that ends half way; and, for those that write down
 * times of their own clock, a server whose clock is another. `calm`: no fault at all. */
static void spare_foreigners(struct plan *plan, bool calm) {
    bool by_their_clock = plan->actors[ACTOR_CLASS_redisson_permits];

    plan->nonsense = plan->throttle = 0;
    for (int i = 0; i < SIM_FAULT_KINDS; i++) {
        int row = sim_row(i);

        if (calm || row == FAULT_DISK_FULL || (by_their_clock && (row == FAULT_SERVER_CLOCK || row == FAULT_SERVER_FAST)))
            plan->faults[i] = false;
    }
}

/* How pawl gives way to foreigners, and hears of them, is a matter of microseconds: holds that last a moment, and a short time, since
 * each of so many acquires costs real time. A client that is alone with them has no other that would wake it by chance. */
static void draw_moments(struct plan *plan, struct dice *dice) {
    plan->hold = 0;
    plan->time = MOMENTS_MS;
    plan->clients = dice_percent(dice, 50) ? 1 : dice_between(dice, 2, 4);
    plan->threads = plan->clients == 1 ? dice_between(dice, 1, 8) : dice_between(dice, 1, 3);
    plan->locks = dice_between(dice, 1, 2);
}

/* These do not go together with pawl's locks, and are left to scenes of their own: RSemaphore, whose permits are out without a trace,
 * so that pawl does not share them; and FairLock, whose release tells nobody but the first of its own queue. */
static bool is_at_odds(int class) {
    return class == ACTOR_CLASS_redisson_semaphore || class == ACTOR_CLASS_redisson_fair;
}

/* Foreigners are in every fifth run, and then one or more of those that fit. */
static void draw_actors(struct plan *plan) {
    struct dice dice = dice_new(plan->seed, FOR_ACTORS);
    bool any = dice_percent(&dice, 20), found = false, calm = dice_percent(&dice, 60), moments = dice_percent(&dice, 60);

    for (int i = 0; i < ACTOR_CLASSES; i++) {
        bool in = dice_percent(&dice, 40);

        plan->actors[i] = any && in && !is_at_odds(i) && foreigner_fits(plan, i);
        found |= plan->actors[i];
    }
    if (!found)
        return;
    if (plan->actors[ACTOR_CLASS_zk_stray])
        plan->actors[ACTOR_CLASS_go_lock] = false; /* it fails by itself where it can't read a name */
    spare_foreigners(plan, calm);
    if (moments)
        draw_moments(plan, &dice);
}

void plan_draw_strokes(struct plan *plan) {
    struct schedule_options options = {
        .seed = plan->seed, .time_ms = plan->time, .lease_ms = plan->lease, .pace = (unsigned)plan->pace};

    strokes_draw(&options, plan->faults, &plan->strokes);
}

void plan_draw(struct plan *plan, const struct sim_service *service, uint64_t seed) {
    plan->service = service;
    plan->seed = seed;
    draw_faults(plan);
    draw_kinds(plan);
    draw_size(plan);
    draw_sets(plan);
    draw_times(plan);
    draw_threads(plan);
    draw_wire(plan);
    draw_url(plan);
    draw_nests(plan);
    draw_servers(plan);
    draw_apart(plan);
    draw_keep(plan);
    draw_values(plan);
    draw_notes(plan);
    draw_by_token(plan);
    draw_watch(plan);
    draw_observer(plan);
    draw_breaks(plan);
    draw_extend(plan);
    draw_per_use(plan);
    draw_tries(plan);
    draw_actors(plan);
    plan_draw_strokes(plan);
}
