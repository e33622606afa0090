/* SPDX-License-Identifier: Apache-2.0
 *
 * ending.c - the end of a simulated run, as nemesis.c has it: what litters the servers while clients are idle, and what is left when all
 * have gone.
 */
#include <inttypes.h>

#include "run.h"

#define FINISH (5 * WORLD_SECOND)
#define LOOK (50 * WORLD_MS)
/* What lives for a second at most, such as the keys by which replicas are seen to be in step, may still be there; and a server that was
 * away may be joining the others still. */
#define LEFTOVER (20 * WORLD_SECOND)

static void on_residue(const char *what, void *data) {
    rig_note(data, RECORD_RESIDUE, "%s", what);
}

/* What an operator sees: entries of clients that live, or of all. */
struct survey {
    struct rig *rig;
    bool of_the_living, aloud; /* they are noted */
    int count;
};

static bool is_alive(const struct rig *rig, int64_t pid) {
    for (int i = 0; i < rig->clients.count; i++)
        if (rig->clients.list[i].process != NULL && world_pid(rig->clients.list[i].process) == pid)
            return true;
    return false;
}

static int on_entry(const struct pawl_entry *entry, void *data) {
    struct survey *survey = data;

    if (survey->of_the_living && !is_alive(survey->rig, entry->pid))
        return 0;
    survey->count++;
    if (survey->aloud)
        rig_note(survey->rig, RECORD_RESIDUE, "%s of pid %lld%s on %s is still there: %.1000s",
                 entry->flags & PAWL_ENTRY_WAITER ? "a claim" : "a hold", (long long)entry->pid,
                 survey->of_the_living ? ", which lives and wants nothing," : "", entry->name, entry->raw);
    return 0;
}

static struct pawl *open_to_look(struct rig *rig) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = rig->page->lease_ms, .label = "torture"};
    struct pawl_error error;
    struct pawl *pawl;

    if (pawl_open(rig->page->direct, &options, &pawl, &error) == 0)
        return pawl;
    rig_note(rig, RECORD_RESIDUE, "in the end it could not be opened: %s", error.text);
    return NULL;
}

/* How long all may need after a fault. */
static int64_t mend_ns(const struct rig *rig) {
    return bound_ns(rig->oracle->mend, rig->plan->lease * WORLD_MS);
}

/* Nothing is there to be seen any more; what is there at the deadline is noted. */
static void await_nothing(struct rig *rig, struct pawl *pawl, bool of_the_living, int64_t deadline) {
    struct survey survey = {.rig = rig, .of_the_living = of_the_living};

    for (;;) {
        survey.count = 0;
        if (pawl_inspect(pawl, NULL, on_entry, &survey, NULL) == 0 && survey.count == 0)
            return;
        if (world_now() >= deadline)
            break;
        world_sleep(world_now() + LOOK);
    }
    survey.aloud = true;
    pawl_inspect(pawl, NULL, on_entry, &survey, NULL);
}

/* The next client gets the whole lock. Asking for it also removes what the dead have left that ends by no time, or only after long: their
 * places in the queue of a lock that nobody has asked for since. */
static void take(struct rig *rig, struct pawl *pawl, const struct rig_lock *lock, int64_t deadline) {
    int64_t patience_ms = deadline > world_now() ? (deadline - world_now()) / WORLD_MS : 0;
    struct pawl_lock *handle = NULL;
    struct pawl_error error;
    int result = rig_lock_new(pawl, lock, 0, &handle, &error);

    if (result == 0)
        result = lock->kind == PAWL_SEMAPHORE ? pawl_acquire_permits(handle, lock->limit, patience_ms, &error)
                                              : pawl_acquire(handle, patience_ms, &error);
    if (result == 0)
        result = pawl_release(handle, &error);
    /* The permits of a RSemaphore that did not give them back are out for ever. */
    if (result < 0 && !(result == PAWL_ELIMIT && rig->plan->actors[ACTOR_CLASS_redisson_semaphore]))
        rig_note(rig, RECORD_RESIDUE, "in the end nobody can have %s: %.1000s", lock->name, error.text);
    pawl_lock_free(handle);
}

static void take_each(struct rig *rig, struct pawl *pawl, int64_t deadline) {
    for (int i = 0; i < rig->page->locks; i++)
        take(rig, pawl, &rig->page->lock[i], deadline);
}

/* Ask until there is nothing, or for so long; then say what there is. */
static void find_leftovers(struct rig *rig, int (*find)(struct sim_servers *, residue_fn *, void *)) {
    int64_t deadline = world_now() + LEFTOVER;

    while (find(&rig->servers, NULL, NULL) > 0 && world_now() < deadline)
        world_sleep(world_now() + LOOK);
    find(&rig->servers, on_residue, rig);
}

/* Clients are there, and have ended all that they began: what is theirs now is a leak. But a replica that was promoted may not have heard
 * of the end of a wait, and shows it until somebody asks; and so does a server that was started again with what it had some time ago. */
static void look_for_litter(struct rig *rig) {
    const struct sim_service *service = rig->plan->service;
    struct pawl *pawl = open_to_look(rig);
    int64_t deadline = world_now() + mend_ns(rig);

    if (pawl == NULL)
        return;
    if (service->replicated || rig->plan->faults[FAULT_SERVER_RESTART])
        take_each(rig, pawl, deadline);
    await_nothing(rig, pawl, true, deadline);
    pawl_close(pawl);
    if (!plan_has_foreigners(rig->plan))
        find_leftovers(rig, service->litter);
}

/* What the killed left goes when its time is up, or when the next one asks; what is there after that stays for ever. */
static void look_for_residue(struct rig *rig) {
    struct pawl *pawl = open_to_look(rig);
    int64_t deadline = world_now() + mend_ns(rig);

    if (pawl == NULL)
        return;
    take_each(rig, pawl, deadline);
    await_nothing(rig, pawl, false, deadline);
    pawl_close(pawl);
    /* What foreigners leave behind is theirs. */
    if (!plan_has_foreigners(rig->plan))
        find_leftovers(rig, rig->plan->service->residue);
}

void rig_finish(struct rig *rig) {
    const struct sim_service *service = rig->plan->service;

    rig->facts.messages = servers_messages(&rig->servers);
    for (int i = 0; i < rig->servers.count; i++)
        rig->facts.at_site[i] = world_site_messages(rig->servers.sites[i]);
    atomic_store(&rig->page->phase, PHASE_FINISH);
    /* Who waits is served by those that finish: all come to an end, or there is a lost wake-up. */
    if (clients_await_idle(&rig->clients, mend_ns(rig)))
        look_for_litter(rig);
    if (service->wakes != NULL)
        rig_note(rig, RECORD_WAKES, "%" PRId64, service->wakes(&rig->servers));
    atomic_store(&rig->page->phase, PHASE_LEAVE);
    clients_await_end(&rig->clients, FINISH);
    if (foreigners_await_end(&rig->foreigners, FINISH) > 0)
        rig_note(rig, RECORD_RESIDUE, "a foreigner did not come to an end");
    look_for_residue(rig);
    rig_note(rig, RECORD_END, "%s", "");
}
