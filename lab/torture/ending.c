/* SPDX-License-Identifier: Apache-2.0
 *
 * ending.c - see ending.h.
 */
#include "ending.h"

/* What an operator sees: entries of clients that live, or of all. */
struct survey {
    const struct ending *ending;
    bool of_the_living, aloud; /* they are noted */
    int count;
};

static int on_entry(const struct pawl_entry *entry, void *data) {
    struct survey *survey = data;
    const struct ending *ending = survey->ending;

    if (survey->of_the_living && !ending->is_alive(ending->rig, entry->pid))
        return 0;
    survey->count++;
    if (survey->aloud)
        ending->note(ending->rig, RECORD_RESIDUE, "%s of pid %lld%s on %s is still there: %.1000s",
                     entry->flags & PAWL_ENTRY_WAITER ? "a claim" : "a hold", (long long)entry->pid,
                     survey->of_the_living ? ", which lives and wants nothing," : "", entry->name, entry->raw);
    return 0;
}

static void await_nothing(const struct ending *ending, struct pawl *pawl, bool of_the_living, int64_t deadline) {
    struct survey survey = {.ending = ending, .of_the_living = of_the_living};

    do {
        survey.count = 0;
        if (pawl_inspect(pawl, NULL, on_entry, &survey, NULL) == 0 && survey.count == 0)
            return;
    } while (ending->now() < deadline && ending->pause());
    survey.aloud = true;
    pawl_inspect(pawl, NULL, on_entry, &survey, NULL);
}

/* The next client gets the whole lock. Asking for it also removes what the dead have left that ends by no time, or only after long: their
 * places in the queue of a lock that nobody has asked for since. */
static void take_whole(const struct ending *ending, struct pawl *pawl, const struct rig_lock *lock, int64_t deadline) {
    int64_t now = ending->now(), patience_ms = deadline > now ? (deadline - now) / 1000000 : 0;
    struct pawl_lock *handle = NULL;
    struct pawl_error error;
    int result = rig_lock_new(pawl, lock, 0, &handle, &error);

    if (result == 0)
        result = lock->kind == PAWL_SEMAPHORE ? pawl_acquire_permits(handle, lock->limit, patience_ms, &error)
                                              : pawl_acquire(handle, patience_ms, &error);
    if (result == 0)
        result = pawl_release(handle, &error);
    if (result < 0 && !(result == PAWL_ELIMIT && ending->permits_leak))
        ending->note(ending->rig, RECORD_RESIDUE, "in the end nobody can have %s: %.1000s", lock->name, error.text);
    pawl_lock_free(handle);
}

bool ending_look(const struct ending *ending, bool of_the_living, bool take) {
    struct pawl_options options = {.size = sizeof options, .lease_ms = ending->page->lease_ms, .label = "torture"};
    struct pawl_error error;
    struct pawl *pawl;

    if (pawl_open(ending->page->direct, &options, &pawl, &error) != 0) {
        ending->note(ending->rig, RECORD_RESIDUE, "in the end it could not be opened: %s", error.text);
        return false;
    }
    int64_t deadline = ending->now() + ending->mend_ns;

    for (int i = 0; take && i < rig_locks(ending->page); i++)
        take_whole(ending, pawl, &ending->page->lock[i], deadline);
    await_nothing(ending, pawl, of_the_living, deadline);
    pawl_close(pawl);
    return true;
}
