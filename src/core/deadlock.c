/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.c - does this process wait for itself? Looks at all of its clients, tells, and ends a wait if that is wanted.
 *
 * Who looks: an acquire that has waited for PAWL__LOOK_NS, and whose thread, or whose set, has something else. It looks again later, since
 * what it sees may become certain only then. Nobody else looks: a waiter that holds nothing is in a deadlock only if it stands ahead of
 * another waiter, and that one looks.
 *
 * One look is enough for all who waited when it began, for any lock: so there is at most one in PAWL__LOOK_NS.
 *
 * What is seen: stakes (base/deadlock.h), cohort by cohort, each with its mutex held, so not all at one moment. If they make a deadlock a
 * second look follows, and only what was seen in both counts: a wait has a number, and the number of a claim is never used again, so that
 * was there all the time, and all of it at the moment between the two. Nobody in a deadlock can let go by himself; so it stands.
 *
 *     a hold of a thread                  the thread's; the thread waits, or it does not
 *     ... through a PAWL_TASK handle      nobody's: any thread may release it. In a set that is being acquired it is the set's
 *     a hold that was lost or broken      none; nor one that is suspect, or whose time is up
 *     one that is being downgraded        shared
 *     one with a limit                    ends by itself
 *     a wait in a pending claim           behind the waits of earlier pending claims of its cohort
 *     ... that the server has not         behind no other, and no other behind it: where it stands is not known
 *         taken, or that queued again
 *     ... for a claim that is held        behind its holders only: how those who joined it go on is not decided yet
 *     a wait with a time-out              ends by itself
 *     locks of the same URL and name      are the same, in all clients
 *     other processes                     are not known: who waits for them is taken to go on
 *
 * A third walk then does what follows: each wait is marked as told, and the victim's ended. All of it happens with the list of the clients
 * locked, so one look comes after the other. Callbacks are called afterwards, with no mutex held.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/claim.h"
#include "core/set.h"
#include "base/deadlock.h"
#include "base/error.h"
#include "base/lease.h"

/* So many members are named in the text. */
enum { NAMED_MAX = 8, TEXT_SIZE = 4096 };

/* A cohort that was seen. */
struct seen_cohort {
    struct pawl *client; /* stays while the list of the clients is locked */
    char *name;
    enum pawl_kind kind;
    uint32_t limit;
    uint64_t lock; /* its number */
};

/* What is known of a stake beyond its part in the graph. */
struct note {
    size_t cohort; /* its number in the view */
    uint64_t thread;
    bool told;
};

struct view {
    struct pawl__stake *stakes;
    struct note *notes;
    size_t count, room;
    struct seen_cohort *cohorts;
    size_t cohort_count, cohort_room;
    int64_t now;
    bool failed; /* out of memory: nothing is told */
};

/* ---- The walk --------------------------------------------------------------------------------------------------------------- */

/* Visit every cohort of every client, locked; the visitor unlocks it. */
static void walk(void (*visit)(struct cohort *cohort, void *data), void *data) {
    struct pawl *client = NULL;
    struct cohort *cohort;

    while ((client = pawl__clients_next(client))) {
        pthread_mutex_lock(&client->mutex);
        TAILQ_FOREACH(cohort, &client->table.every, every) {
            pthread_mutex_lock(&cohort->mutex);
            visit(cohort, data);
        }
        pthread_mutex_unlock(&client->mutex);
    }
}

/* ---- What is seen ----------------------------------------------------------------------------------------------------------- */

/* Room for one more. */
static bool grow(void **array, size_t size, size_t count, size_t *room) {
    size_t more = *room ? 2 * *room : 64;
    void *larger;

    if (count < *room)
        return true;
    larger = reallocarray(*array, more, size);
    if (!larger)
        return false;
    *array = larger;
    *room = more;
    return true;
}

static bool grow_stakes(struct view *view) {
    size_t room = view->room;

    return grow((void **)&view->stakes, sizeof *view->stakes, view->count, &room) &&
           grow((void **)&view->notes, sizeof *view->notes, view->count, &view->room);
}

static void add_cohort(struct view *view, const struct cohort *cohort) {
    char *name = grow((void **)&view->cohorts, sizeof *view->cohorts, view->cohort_count, &view->cohort_room) ? strdup(cohort->name)
                                                                                                              : NULL;

    view->failed |= !name;
    if (name)
        view->cohorts[view->cohort_count++] = (struct seen_cohort){cohort->client, name, cohort->kind, cohort->limit, 0};
}

static void add_stake(struct view *view, const struct claim *claim, struct pawl__stake stake, struct note note) {
    if (view->failed || !grow_stakes(view)) {
        view->failed = true;
        return;
    }
    note.cohort = view->cohort_count - 1;
    stake.mode = claim->downgrading ? PAWL_SHARED : claim->seam.mode;
    stake.permits = claim->seam.permits;
    stake.limit = claim->seam.limit;
    stake.line = view->cohort_count;
    stake.id[0] = claim->seam.id[0];
    stake.id[1] = claim->seam.id[1];
    stake.tag = view->count;
    view->notes[view->count] = note;
    view->stakes[view->count++] = stake;
}

/* Is what is held under it certainly in the way of others? */
static bool is_sound(const struct claim *claim, int64_t now) {
    const struct pawl__engine *engine = claim->cohort->engine;
    const struct claim_lease *lease = &claim->lease;

    return claim->state == CLAIM_HELD && !lease->suspect && now < lease->suspect_at && now < lease->assured_until &&
           (!engine->impl->extras->check || engine->impl->extras->check(engine, &claim->seam) == 0);
}

/* Who would have to let go of it; 0: anybody may. */
static uint64_t holder_of(const struct hold *hold) {
    const struct part *part;

    if (!(hold->lock->flags & PAWL_TASK))
        return hold->owner;
    TAILQ_FOREACH(part, &hold->lock->cohort->parts, link) {
        if (part->lock == hold->lock)
            return part->set->owner;
    }
    return 0;
}

static void see_holds(struct view *view, const struct claim *claim) {
    const struct hold *hold;

    if (!is_sound(claim, view->now))
        return;
    TAILQ_FOREACH(hold, &claim->holds, of_claim) {
        uint64_t owner = hold->lost ? 0 : holder_of(hold);

        if (owner)
            add_stake(view, claim, (struct pawl__stake){.owner = owner, .until = claim->lease.hold_until}, (struct note){0});
    }
}

/* Where it stands in the engine's queue. A try may pass those who wait for room. */
static uint32_t place_of(const struct claim *claim) {
    return claim->state == CLAIM_PENDING && !claim->seam.try_only ? atomic_load(&claim->seam.place) : 0;
}

static void see_waiters(struct view *view, const struct claim *claim) {
    const struct waiter *waiter;

    TAILQ_FOREACH(waiter, &claim->waiters, link) {
        if (waiter->since) /* else its thread is not there yet */
            add_stake(view, claim,
                      (struct pawl__stake){
                          .waits = true,
                          .place = place_of(claim),
                          .may_end = claim->cohort->client->options.deadlock == DEADLOCK_BREAK,
                          .owner = waiter->blocked,
                          .id = {0, 0, waiter->number},
                          .since = waiter->since,
                          .until = waiter->deadline,
                      },
                      (struct note){.thread = waiter->event ? 0 : (uint64_t)waiter->thread, .told = waiter->told});
    }
}

static void see(struct cohort *cohort, void *data) {
    struct view *view = data;
    const struct claim *claim;

    if (!TAILQ_EMPTY(&cohort->claims))
        add_cohort(view, cohort);
    TAILQ_FOREACH(claim, &cohort->claims, link) {
        see_holds(view, claim);
        see_waiters(view, claim);
    }
    pawl__cohort_let_go(cohort);
}

static int compare_cohorts(const void *left, const void *right) {
    const struct seen_cohort *a = *(struct seen_cohort *const *)left, *b = *(struct seen_cohort *const *)right;
    int rc = a->client == b->client ? 0 : strcmp(a->client->info.url, b->client->info.url);

    if (rc == 0)
        rc = strcmp(a->name, b->name);
    if (rc == 0)
        rc = (int)a->kind - (int)b->kind;
    return rc ? rc : a->limit < b->limit ? -1 : a->limit > b->limit;
}

/* Give the same number to what is the same lock. */
static void number_locks(struct view *view) {
    struct seen_cohort **sorted = calloc(view->cohort_count + 1, sizeof(struct seen_cohort *));

    view->failed |= !sorted;
    if (view->failed) {
        free(sorted);
        return;
    }
    for (size_t i = 0; i < view->cohort_count; i++)
        sorted[i] = &view->cohorts[i];
    qsort(sorted, view->cohort_count, sizeof(struct seen_cohort *), compare_cohorts);
    for (size_t i = 1; i < view->cohort_count; i++)
        sorted[i]->lock = sorted[i - 1]->lock + (compare_cohorts(&sorted[i - 1], &sorted[i]) != 0);
    free(sorted);
    for (size_t i = 0; i < view->count; i++)
        view->stakes[i].lock = view->cohorts[view->notes[view->stakes[i].tag].cohort].lock;
}

static void look_once(struct view *view) {
    *view = (struct view){.now = pawl__boottime()};
    walk(see, view);
    number_locks(view);
}

static void view_free(struct view *view) {
    for (size_t i = 0; i < view->cohort_count; i++)
        free(view->cohorts[i].name);
    free(view->cohorts);
    free(view->notes);
    free(view->stakes);
}

/* ---- The report ------------------------------------------------------------------------------------------------------------- */

/* One deadlock that is told. */
struct report {
    struct report *next;
    struct pawl_deadlock told;
    struct pawl_blocked *members;
    const struct pawl_blocked **listed; /* the same, as the user gets them */
    char **strings;                     /* of the members: the URL, and behind it the name */
    const struct pawl__stake **stakes;  /* of the members */
    struct pawl **clients;              /* of the members, each once, with a reference; NULL-terminated */
    char text[TEXT_SIZE];
};

struct finding {
    struct view view;
    struct pawl__fate *fates;
    struct report *reports;
};

static void report_free(struct report *report) {
    for (size_t i = 0; report->clients && report->clients[i]; i++) {
        pawl__client_one_less(report->clients[i], &report->clients[i]->inside);
        pawl__client_put(report->clients[i]);
    }
    for (size_t i = 0; report->strings && i < report->told.count; i++)
        free(report->strings[i]);
    free(report->strings);
    free(report->clients);
    free(report->stakes);
    free(report->listed);
    free(report->members);
    free(report);
}

static const struct seen_cohort *seen_of(const struct view *view, const struct pawl__stake *stake) {
    return &view->cohorts[view->notes[stake->tag].cohort];
}

/* Which of the members is this owner? */
static size_t member_of(const struct report *report, uint64_t owner) {
    size_t i = 0;

    while (i < report->told.count && report->stakes[i]->owner != owner)
        i++;
    return i;
}

/* The members, from the youngest on, each before the one that it waits for; then those who are not on that way. */
static void order_members(struct report *report, const struct finding *finding) {
    const struct pawl__stake *next;
    size_t first = 0;

    for (size_t i = 1; i < report->told.count; i++)
        if (report->stakes[i]->since > report->stakes[first]->since)
            first = i;
    for (size_t i = 0; i < report->told.count && first >= i && first < report->told.count; i++) {
        next = report->stakes[first];
        report->stakes[first] = report->stakes[i];
        report->stakes[i] = next;
        first = member_of(report, finding->view.stakes[finding->fates[next - finding->view.stakes].by].owner);
    }
}

static bool fill_members(struct report *report, const struct finding *finding) {
    const struct view *view = &finding->view;

    for (size_t i = 0; i < report->told.count; i++) {
        const struct pawl__stake *stake = report->stakes[i];
        const struct pawl__fate *fate = &finding->fates[stake - view->stakes];
        const struct seen_cohort *seen = seen_of(view, stake);
        const char *url = seen->client->info.url;

        if (asprintf(&report->strings[i], "%s%c%s", url, '\0', seen->name) < 0) {
            report->strings[i] = NULL;
            return false;
        }
        report->listed[i] = &report->members[i];
        report->members[i] = (struct pawl_blocked){
            .url = report->strings[i],
            .name = report->strings[i] + strlen(url) + 1,
            .mode = stake->mode,
            .thread = view->notes[stake->tag].thread,
            .waited_ms = (view->now - stake->since) / PAWL__NS_PER_MS,
            .by = member_of(report, view->stakes[fate->by].owner),
            .ahead = view->stakes[fate->by].waits,
            .ended = fate->is_victim,
        };
        if (fate->until != PAWL__NEVER)
            report->told.left_ms = fate->until > view->now ? (fate->until - view->now) / PAWL__NS_PER_MS : 0;
    }
    return true;
}

/* The clients are kept until the callbacks have been called. One that is being closed is left out: nothing is told of it any more. */
static void keep_clients(struct report *report, const struct finding *finding) {
    size_t count = 0;

    for (size_t i = 0; i < report->told.count; i++) {
        struct pawl *client = seen_of(&finding->view, report->stakes[i])->client;
        size_t same = 0;

        while (same < count && report->clients[same] != client)
            same++;
        if (same < count)
            continue;
        atomic_fetch_add(&client->inside, 1);
        if (atomic_load(&client->closed)) {
            pawl__client_one_less(client, &client->inside);
            continue;
        }
        pawl__client_ref(client);
        report->clients[count++] = client;
    }
}

static void name_owner(const struct pawl_blocked *blocked, char *text, size_t size) {
    if (blocked->thread)
        snprintf(text, size, "thread 0x%llx", (unsigned long long)blocked->thread);
    else
        snprintf(text, size, "an asynchronous set");
}

static const char *const modes[] = {[PAWL_EXCLUSIVE] = "", [PAWL_SHARED] = " to read it", [PAWL_PERMITS] = " as a semaphore"};

/* Add to the text; what does not fit is left out. */
static void say(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct report *report, const char *format, ...) {
    size_t used = strlen(report->text);
    va_list args;

    va_start(args, format);
    vsnprintf(report->text + used, sizeof report->text - used, format, args);
    va_end(args);
}

static void write_text(struct report *report) {
    char who[48], other[48];

    say(report, "deadlock:");
    for (size_t i = 0; i < report->told.count && i < NAMED_MAX; i++) {
        const struct pawl_blocked *blocked = &report->members[i];

        name_owner(blocked, who, sizeof who);
        name_owner(&report->members[blocked->by], other, sizeof other);
        say(report, "%s %s waits for '%s'%s at %s (%s by %s)", i ? ";" : "", who, blocked->name, modes[blocked->mode], blocked->url,
            blocked->ahead ? "preceded" : "held", blocked->by == i ? "itself" : other);
    }
    if (report->told.count > NAMED_MAX)
        say(report, "; and %zu more", report->told.count - NAMED_MAX);
    for (size_t i = 0; i < report->told.count; i++)
        if (report->members[i].ended) {
            name_owner(&report->members[i], who, sizeof who);
            say(report, ". The acquire of '%s' by %s is ended with PAWL_EDEADLK", report->members[i].name, who);
            return;
        }
    if (report->told.left_ms != PAWL_FOREVER)
        say(report, ". It ends by itself within %lld ms", (long long)report->told.left_ms);
    else
        say(report, ". None of them ever goes on: take locks in one order, use pawl_acquire_all, or open with ?deadlock=break");
}

/* Is there something to tell that was not, or somebody to be ended? */
static bool is_new(const struct finding *finding, unsigned number, size_t *retcount) {
    bool fresh = false;

    *retcount = 0;
    for (size_t i = 0; i < finding->view.count; i++) {
        if (finding->fates[i].deadlock != number)
            continue;
        ++*retcount;
        fresh |= finding->fates[i].is_victim || !finding->view.notes[finding->view.stakes[i].tag].told;
    }
    return fresh;
}

/* Make the report of one deadlock; NULL: out of memory, or it was told before. */
static struct report *write_report(const struct finding *finding, unsigned number) {
    struct report *report;
    size_t count, filled = 0;

    if (!is_new(finding, number, &count) || !(report = calloc(1, sizeof *report)))
        return NULL;
    report->members = calloc(count, sizeof *report->members);
    report->listed = calloc(count, sizeof *report->listed);
    report->strings = calloc(count, sizeof *report->strings);
    report->stakes = calloc(count, sizeof *report->stakes);
    report->clients = calloc(count + 1, sizeof *report->clients);
    if (report->members && report->listed && report->strings && report->stakes && report->clients) {
        for (size_t i = 0; i < finding->view.count; i++)
            if (finding->fates[i].deadlock == number)
                report->stakes[filled++] = &finding->view.stakes[i];
        report->told = (struct pawl_deadlock){
            .size = sizeof report->told, .members = report->listed, .count = count, .left_ms = PAWL_FOREVER, .text = report->text};
        order_members(report, finding);
        if (fill_members(report, finding)) {
            write_text(report);
            keep_clients(report, finding);
            return report;
        }
    }
    report_free(report);
    return NULL;
}

/* ---- What follows ----------------------------------------------------------------------------------------------------------- */

/* Is this the wait that was seen? */
static bool is_seen(const struct pawl__stake *stake, const struct waiter *waiter) {
    const struct claim *claim = waiter->claim;

    return stake->id[0] == claim->seam.id[0] && stake->id[1] == claim->seam.id[1] && stake->id[2] == waiter->number;
}

/* The member that this wait is, of any report; NULL: of none. */
static const struct pawl_blocked *find_member(const struct report *reports, const struct waiter *waiter) {
    for (const struct report *report = reports; report && waiter->since; report = report->next)
        for (size_t i = 0; i < report->told.count; i++)
            if (is_seen(report->stakes[i], waiter))
                return &report->members[i];
    return NULL;
}

/* Mark what is told; ends at most one. Returns whether it was asynchronous. */
static bool mark_cohort(struct cohort *cohort, const struct report *reports) {
    struct waiter *waiter, *victim = NULL;
    struct claim *claim;
    bool async;

    TAILQ_FOREACH(claim, &cohort->claims, link) {
        TAILQ_FOREACH(waiter, &claim->waiters, link) {
            const struct pawl_blocked *member = find_member(reports, waiter);

            waiter->told |= member != NULL;
            victim = member && member->ended ? waiter : victim;
        }
    }
    if (!victim)
        return false;
    async = victim->event;
    pawl__cohort_end(victim, PAWL_EDEADLK,
                     "'%s' could never be acquired: those who hold it wait for what is held here. Release that, and try again",
                     cohort->name);
    return async;
}

static void act(struct cohort *cohort, void *data) {
    const struct finding *finding = data;

    if (mark_cohort(cohort, finding->reports)) /* nobody comes back to settle what was withdrawn */
        pawl__cohort_unlock(cohort);
    else
        pawl__cohort_let_go(cohort);
}

/* It is counted once, with the youngest of its members. */
static void count_deadlock(const struct finding *finding, const struct report *report) {
    const struct seen_cohort *seen = seen_of(&finding->view, report->stakes[0]);

    pthread_mutex_lock(&seen->client->mutex);
    seen->client->counts[seen->kind].deadlocks++;
    pthread_mutex_unlock(&seen->client->mutex);
}

static void call(const struct report *report, const struct pawl *client) {
    struct calling calling;

    pawl__calling_begin(&calling, CALLING_DEADLOCK, client);
    calling.others = report->clients;
    client->callbacks.deadlock(&report->told, client->callbacks.deadlock_data);
    pawl__calling_end(&calling);
}

/* Call each callback once, though several clients may have it. */
static void tell(const struct report *report) {
    for (size_t i = 0; report->clients[i]; i++) {
        const struct pawl *client = report->clients[i], *other;
        bool logged = false, called = false;

        for (size_t j = 0; j < i; j++) {
            other = report->clients[j];
            logged |= other->callbacks.log == client->callbacks.log && other->callbacks.log_data == client->callbacks.log_data;
            called |= other->callbacks.deadlock == client->callbacks.deadlock &&
                      other->callbacks.deadlock_data == client->callbacks.deadlock_data;
        }
        if (client->callbacks.log && !logged)
            client->engine->warn(client->engine->warn_data, report->text);
        if (client->callbacks.deadlock && !called)
            call(report, client);
    }
}

/* ---- The look --------------------------------------------------------------------------------------------------------------- */

static int find(struct finding *finding) {
    struct view *view = &finding->view;

    free(finding->fates);
    finding->fates = view->failed ? NULL : calloc(view->count + 1, sizeof *finding->fates);
    return finding->fates ? pawl__deadlock_find(view->stakes, view->count, finding->fates) : -1;
}

/* Look twice, if there is reason to. Returns how many deadlocks there are. */
static int look_twice(struct finding *finding) {
    struct view first;
    int count;

    look_once(&finding->view);
    count = find(finding);
    if (count <= 0)
        return 0;
    first = finding->view;
    look_once(&finding->view);
    if (!finding->view.failed)
        finding->view.count = pawl__deadlock_confirm(first.stakes, first.count, finding->view.stakes, finding->view.count);
    view_free(&first);
    return find(finding);
}

static void find_and_act(struct finding *finding) {
    int count = look_twice(finding);

    for (int number = 1; number <= count; number++) {
        struct report *report = write_report(finding, (unsigned)number);

        if (!report)
            continue;
        report->next = finding->reports;
        finding->reports = report;
        count_deadlock(finding, report);
    }
    if (finding->reports)
        walk(act, finding);
}

void pawl__stakes_look(int64_t since) {
    static int64_t last; /* when the last look began; guarded by the list of the clients */
    struct finding finding = {.reports = NULL};
    struct report *report;

    pawl__clients_lock();
    if (last <= since) {
        last = pawl__boottime();
        find_and_act(&finding);
    }
    pawl__clients_unlock();
    while ((report = finding.reports)) {
        finding.reports = report->next;
        tell(report);
        report_free(report);
    }
    free(finding.fates);
    view_free(&finding.view);
}
