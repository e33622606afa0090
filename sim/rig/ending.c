/* SPDX-License-Identifier: Apache-2.0
 *
 * ending.c - the end of a simulated run: what litters the servers while clients are idle, and what is left when all have gone.
 */
#include <inttypes.h>

#include "run.h"
#include "torture/ending.h"

#define FINISH (5 * WORLD_SECOND)
#define LOOK (50 * WORLD_MS)
/* What lives for a second at most, such as the keys by which replicas are seen to be in step, may still be there; and a server that was
 * away may be joining the others still. */
#define LEFTOVER (20 * WORLD_SECOND)

/* How long all may need in the end. What takes some round trips takes some seconds where requests are refused; and many may wait. */
static int64_t mend_of(const struct rig *rig) {
    int64_t usual = bound_ns(rig->oracle->mend, rig->plan->lease * WORLD_MS);

    if (rig->plan->nests > 0)
        usual += PLAN_DEADLOCKS_MS * WORLD_MS;
    return plan_refuses_often(rig->plan) ? 4 * usual : usual;
}

static void on_residue(const char *what, void *data) {
    rig_note(data, RECORD_RESIDUE, "%s", what);
}

static bool is_alive(const struct rig *rig, int64_t pid) {
    for (int i = 0; i < rig->clients.count; i++)
        if (rig->clients.list[i].process != NULL && world_pid(rig->clients.list[i].process) == pid)
            return true;
    return false;
}

static bool pause_a_moment(void) {
    world_sleep(world_now() + LOOK);
    return true;
}

/* What foreigners leave behind is theirs. */
static void find_leftovers(struct rig *rig, int (*find)(struct sim_servers *, residue_fn *, void *)) {
    int64_t deadline = world_now() + LEFTOVER;

    if (plan_has_foreigners(rig->plan))
        return;
    while (find(&rig->servers, NULL, NULL) > 0 && world_now() < deadline)
        pause_a_moment();
    find(&rig->servers, on_residue, rig);
}

/* Clients are idle: what is theirs now is a leak. But a replica that was promoted may not have heard of the end of a wait, and shows it
 * until somebody asks; and so does a server that was started again with what it had some time ago. */
static void look_for_litter(struct rig *rig, const struct ending *ending) {
    const struct sim_service *service = rig->plan->service;

    if (rig->plan->throttle > 0 && rig->plan->watch > 0)
        return; /* a server that refuses to take an observer's watch back keeps it until the value changes */
    if (ending_look(ending, true, service->replicated || rig->plan->faults[FAULT_SERVER_RESTART]))
        find_leftovers(rig, service->litter);
}

void rig_finish(struct rig *rig) {
    const struct sim_service *service = rig->plan->service;
    const struct ending ending = {rig,      rig->page, mend_of(rig), rig->plan->actors[ACTOR_CLASS_redisson_semaphore],
                                  rig_note, is_alive,  world_now,    pause_a_moment};

    rig->facts.messages = servers_messages(&rig->servers);
    for (int i = 0; i < rig->servers.count; i++)
        rig->facts.at_site[i] = world_site_messages(rig->servers.sites[i]);
    atomic_store(&rig->page->phase, PHASE_FINISH);
    /* Those that finish serve the ones that wait: all come to an end, or a wake-up was lost. */
    if (clients_await_idle(&rig->clients, ending.mend_ns))
        look_for_litter(rig, &ending);
    if (service->wakes != NULL && rig->plan->watch == 0) /* those who observe are woken, too */
        rig_note(rig, RECORD_WAKES, "%" PRId64, service->wakes(&rig->servers));
    atomic_store(&rig->page->phase, PHASE_LEAVE);
    clients_await_end(&rig->clients, FINISH);
    if (foreigners_await_end(&rig->foreigners, FINISH) > 0)
        rig_note(rig, RECORD_RESIDUE, "a foreigner did not come to an end");
    /* What the killed left goes when its time is up, or when the next client asks; what is there after that stays for ever. */
    if (ending_look(&ending, false, true))
        find_leftovers(rig, service->residue);
    rig_note(rig, RECORD_END, "%s", "");
}
