/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_faults.c - see wire_faults.h. It strikes all clients or every second one, at all servers or at one of them; as with the torture's
 * proxies, neither the observer nor the rig.
 */
#include "wire_faults.h"

#include "plan.h"

bool wire_faults_is(int fault) {
    switch (fault) {
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_REORDER:
    case SIM_REPLY_LOST:
    case SIM_CUT_INSIDE:
    case SIM_MOST_AWAY:
    case SIM_SILENT:
        return true;
    default:
        return false;
    }
}

/* Whom a stroke is about: the same at its beginning and at its end. */
struct scope {
    unsigned share, remainder; /* of the clients, one in so many */
    struct site *site;         /* NULL: all of them */
    int64_t delay_ns;
    enum world_cut how;
};

static struct scope scope_of(const struct sim_servers *servers, const struct sim_stroke *stroke) {
    struct dice dice = dice_new(stroke->target, 1);
    struct scope scope = {.share = (unsigned)dice_between(&dice, 1, 2)};
    int64_t lease_ns = servers->plan->lease * WORLD_MS;

    scope.remainder = (unsigned)dice_below(&dice, 2);
    scope.delay_ns = dice_between(&dice, lease_ns / 100, lease_ns / 8);
    scope.how = dice_percent(&dice, 50) ? CUT_RESET : CUT_CLOSE;
    if (servers->count > 1 && dice_percent(&dice, 50))
        scope.site = servers->sites[dice_below(&dice, (uint64_t)servers->count)];
    if (stroke->fault == FAULT_REORDER)
        scope.delay_ns /= 4;
    return scope;
}

static bool is_in(const struct scope *scope, int slot) {
    return scope->share == 1 || (unsigned)slot % scope->share == scope->remainder;
}

static int strike_clients(const struct scope *scope, struct sim_clients *clients, int fault, bool on) {
    unsigned hits = 0;

    for (int i = 0; i < clients->count; i++) {
        struct process *process = clients->list[i].process;

        if (process == NULL || !is_in(scope, i))
            continue;
        if (fault == FAULT_CUT)
            hits += world_cut(scope->site, process, scope->how);
        else if (fault == SIM_CUT_INSIDE)
            hits += world_cut(scope->site, process, CUT_INSIDE);
        else if (fault == SIM_SILENT)
            hits += world_cut(scope->site, process, CUT_SILENT);
        else if (fault == FAULT_HALF_OPEN)
            hits += world_hole(scope->site, process, on);
        else
            hits += world_slow(scope->site, process, on ? scope->delay_ns : 0);
    }
    return (int)hits;
}

/* So many in a row, from any of them on, that fewer than a half are left. */
static int part_from_most(const struct scope *scope, const struct sim_servers *servers, struct sim_clients *clients,
                          uint64_t target, bool on) {
    unsigned count = (unsigned)servers->count;
    int hits = 0;

    for (unsigned i = 0; i <= count / 2; i++) {
        struct scope one = *scope;

        one.site = servers->sites[((target >> 8) + i) % count];
        hits += strike_clients(&one, clients, FAULT_HALF_OPEN, on);
    }
    return hits;
}

static struct site *reply_at(const struct sim_servers *servers, const struct sim_stroke *stroke) {
    return servers->sites[reply_site(stroke->target) % (unsigned)servers->count];
}

int wire_faults_begin(struct sim_servers *servers, struct sim_clients *clients, const struct sim_stroke *stroke) {
    struct scope scope = scope_of(servers, stroke);

    if (stroke->fault == SIM_MOST_AWAY)
        return part_from_most(&scope, servers, clients, stroke->target, true);
    if (stroke->fault != SIM_REPLY_LOST)
        return strike_clients(&scope, clients, stroke->fault, true);
    world_lose_reply(reply_at(servers, stroke), reply_number(stroke->target), reply_before(stroke->target));
    return 1;
}

int wire_faults_heal(struct sim_servers *servers, struct sim_clients *clients, const struct sim_stroke *stroke) {
    struct scope scope = scope_of(servers, stroke);

    if (stroke->fault == SIM_REPLY_LOST)
        world_lose_reply(reply_at(servers, stroke), 0, false);
    else if (stroke->fault == SIM_MOST_AWAY)
        part_from_most(&scope, servers, clients, stroke->target, false);
    else if (stroke->fault != SIM_CUT_INSIDE && stroke->fault != SIM_SILENT)
        strike_clients(&scope, clients, stroke->fault, false);
    return 0;
}
