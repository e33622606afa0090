/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c - events, holds and rates, from a row of looks. Pure: time is that of the looks.
 *
 * A lock that was not seen for FORGET_MS is forgotten; at once, where there are more than LOCKS_MAX. Memory is bounded: HOLDS_MAX holds
 * of a lock, ALL_HOLDS of all (those of a lock then push out each other earlier), EVENTS_MAX events of each sort.
 */
#include "history.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 512, ALL_HOLDS = 150000, FORGET_MS = 600000, LOCKS_MAX = 20000 };

const char *event_name(enum event_kind kind) {
    static const char *const names[EVENT_KINDS] = {
        [EVENT_TOOK] = "took",
        [EVENT_WENT] = "went",
        [EVENT_LOST] = "lost",
        [EVENT_SUSPECT] = "suspect",
        [EVENT_BROKEN] = "broken",
        [EVENT_BREAK] = "break",
        [EVENT_STOPPED] = "stopped",
        [EVENT_CYCLE] = "cycle",
        [EVENT_REACHED] = "reached",
        [EVENT_WAITS_LONG] = "waits long",
        [EVENT_UNREACHABLE] = "unreachable",
    };

    return names[kind];
}

bool history_init(struct history *history) {
    *history = (struct history){0};
    history->usual = (struct events){.ring = calloc(EVENTS_MAX, sizeof(struct event)), .room = EVENTS_MAX};
    history->trouble = (struct events){.ring = calloc(EVENTS_MAX, sizeof(struct event)), .room = EVENTS_MAX};
    if (history->usual.ring != NULL && history->trouble.ring != NULL)
        return true;
    history_finish(history);
    return false;
}

static void event_finish(struct event *event) {
    free(event->url);
    free(event->lock);
    free(event->what);
}

static void past_finish(struct lock_past *past) {
    free(past->url);
    free(past->name);
    free(past->holds);
    free(past);
}

static void events_finish(struct events *events) {
    for (size_t i = 0; events->ring != NULL && i < events->room; i++)
        event_finish(&events->ring[i]);
    free(events->ring);
}

void history_finish(struct history *history) {
    for (size_t i = 0; i < history->count; i++)
        past_finish(history->locks[i]);
    free(history->locks);
    events_finish(&history->usual);
    events_finish(&history->trouble);
    for (size_t i = 0; i < history->place_count; i++)
        free(history->places[i].url);
    free(history->places);
    *history = (struct history){0};
}

/* ---- events --------------------------------------------------------------------------------------------------------------- */

static struct event_counts *counts_of(const struct history *history, const char *url) {
    for (size_t i = 0; i < history->place_count; i++)
        if (strcmp(history->places[i].url, url) == 0)
            return &history->places[i];
    return NULL;
}

static void count_event(struct history *history, const char *url, enum event_kind kind) {
    struct event_counts *counts = counts_of(history, url);

    if (counts == NULL) {
        struct event_counts *places = reallocarray(history->places, history->place_count + 1, sizeof places[0]);
        char *copy = strdup(url);

        if (places != NULL)
            history->places = places;
        if (places == NULL || copy == NULL) {
            free(copy);
            history->failed = true;
            return;
        }
        counts = &places[history->place_count++];
        *counts = (struct event_counts){.url = copy};
    }
    counts->counts[kind]++;
}

uint64_t history_count(const struct history *history, const char *url, enum event_kind kind) {
    const struct event_counts *counts = counts_of(history, url);

    return counts != NULL ? counts->counts[kind] : 0;
}

static void add_event(struct history *history, struct event event) {
    bool usual = event.kind == EVENT_TOOK || event.kind == EVENT_WENT;
    struct events *events = usual ? &history->usual : &history->trouble;
    struct event *slot = &events->ring[events->next++ % events->room];

    count_event(history, event.url, event.kind);
    event_finish(slot);
    event.number = ++history->event_count;
    event.url = strdup(event.url);
    event.lock = strdup(event.lock);
    event.what = strdup(event.what);
    if (event.url == NULL || event.lock == NULL || event.what == NULL) {
        event_finish(&event);
        event = (struct event){0};
        history->failed = true;
    }
    *slot = event;
}

void history_note(struct history *history, const struct event *event) {
    add_event(history, *event);
}

/* What happened to one entry of a lock. */
static void note(struct history *history, enum event_kind kind, const struct lock_seen *lock, const struct pawl_entry *entry,
                 int64_t time_ms) {
    char text[256];

    add_event(history, (struct event){.time_ms = time_ms,
                                      .kind = kind,
                                      .url = lock->place->url,
                                      .lock = (char *)lock->name,
                                      .what = who(text, sizeof text, entry),
                                      .token = entry->token,
                                      .ms = age_ms(entry, time_ms)});
}

static size_t kept(const struct events *events) {
    return events->next < events->room ? events->next : events->room;
}

static bool is_wanted(const struct event *event, const char *url, const char *lock) {
    return event->number != 0 && (url == NULL || strcmp(event->url, url) == 0) && (lock == NULL || strcmp(event->lock, lock) == 0);
}

size_t history_events(const struct history *history, const char *url, const char *lock, const struct event *ret[], size_t most) {
    const struct events *both[2] = {&history->usual, &history->trouble};
    size_t back[2] = {0, 0}, count = 0;

    while (count < most) {
        const struct event *newest = NULL;
        int from = 0;

        for (int i = 0; i < 2; i++) {
            const struct event *event = back[i] < kept(both[i]) ? &both[i]->ring[(both[i]->next - 1 - back[i]) % both[i]->room]
                                                                : NULL;

            if (event != NULL && (newest == NULL || event->number > newest->number)) {
                newest = event;
                from = i;
            }
        }
        if (newest == NULL)
            break;
        back[from]++;
        if (is_wanted(newest, url, lock))
            ret[count++] = newest;
    }
    return count;
}

/* ---- holds ---------------------------------------------------------------------------------------------------------------- */

static struct hold_seen *find_hold(struct lock_past *past, const struct pawl_entry *entry) {
    char name[sizeof past->holds[0].who];

    who(name, sizeof name, entry);
    for (size_t i = past->hold_count; i-- > 0;)
        if (past->holds[i].to_ms == 0 && past->holds[i].token == entry->token && strcmp(past->holds[i].who, name) == 0)
            return &past->holds[i];
    return NULL;
}

static bool room_for_hold(struct history *history, struct lock_past *past) {
    size_t room = past->hold_room == 0 ? 2 : past->hold_room * 2;

    if (past->hold_count < past->hold_room)
        return true;
    if (past->hold_room == HOLDS_MAX || (past->hold_room > 0 && history->hold_count > ALL_HOLDS))
        return false;
    struct hold_seen *holds = reallocarray(past->holds, room, sizeof holds[0]);
    if (holds == NULL) {
        history->failed = true;
        return false;
    }
    history->hold_count += room - past->hold_room;
    past->holds = holds;
    past->hold_room = room;
    return true;
}

static void begin_hold(struct history *history, struct lock_past *past, const struct pawl_entry *entry, int64_t from_ms) {
    if (!room_for_hold(history, past)) {
        if (past->hold_count == 0)
            return;
        memmove(past->holds, past->holds + 1, --past->hold_count * sizeof past->holds[0]);
    }
    struct hold_seen *hold = &past->holds[past->hold_count++];
    *hold = (struct hold_seen){.token = entry->token, .from_ms = from_ms};
    who(hold->who, sizeof hold->who, entry);
}

/* The same entry in the other look; it stands about where it stood, so the search begins there. */
static const struct pawl_entry *match(const struct lock_seen *lock, const struct pawl_entry *entry, size_t from) {
    size_t count = lock != NULL ? lock->holders + lock->waiters : 0;

    for (size_t i = 0; i < count; i++) {
        const struct pawl_entry *other = &lock->entries[(from + i) % count];

        if (same_claim(other, entry))
            return other;
    }
    return NULL;
}

static bool had(const struct lock_seen *lock, const struct pawl_entry *entry, size_t from) {
    const struct pawl_entry *other = match(lock, entry, from);

    return other != NULL && !is_waiter(other);
}

/* It was seen to begin if it was not there before; when, its own clock says, and the looks bound that. */
static int64_t began(const struct pawl_entry *entry, int64_t before_ms, int64_t now_ms) {
    int64_t since = entry->since_ms != 0 ? entry->since_ms : now_ms;

    return since < before_ms ? before_ms : since > now_ms ? now_ms : since;
}

/* ---- one lock in two looks ------------------------------------------------------------------------------------------------ */

struct step {
    struct history *history;
    const struct look *before, *now;
    size_t sorted; /* so many of history->locks are in order: those that were there before */
};

static enum event_kind how_it_ended(const struct pawl_entry *entry, int64_t seen_ms, int64_t passed_ms) {
    if (entry->flags & PAWL_ENTRY_BROKEN)
        return EVENT_BROKEN;
    return is_suspect(entry, seen_ms) && passed_ms >= entry->remaining_ms ? EVENT_LOST : EVENT_WENT;
}

static void end_holds(const struct step *step, struct lock_past *past, const struct lock_seen *before,
                      const struct lock_seen *now) {
    for (size_t i = 0; before != NULL && i < before->holders; i++) {
        const struct pawl_entry *entry = &before->entries[i];

        if (had(now, entry, i))
            continue;
        struct hold_seen *hold = find_hold(past, entry);
        enum event_kind end = how_it_ended(entry, step->before->time_ms, step->now->time_ms - step->before->time_ms);
        note(step->history, end == EVENT_LOST ? EVENT_LOST : EVENT_WENT, before, entry, step->now->time_ms);
        if (hold != NULL) {
            hold->to_ms = step->now->time_ms;
            hold->end = end;
        }
    }
}

/* Those that ended while the place could not be seen. */
static void end_forgotten(struct lock_past *past, const struct lock_seen *now, int64_t time_ms) {
    for (size_t i = 0; i < past->hold_count; i++) {
        struct hold_seen *hold = &past->holds[i];
        bool holds = hold->to_ms != 0;

        for (size_t j = 0; !holds && now != NULL && j < now->holders; j++)
            holds = now->entries[j].token == hold->token;
        if (!holds) {
            hold->to_ms = time_ms;
            hold->end = EVENT_WENT;
        }
    }
}

static void begin_holds(const struct step *step, struct lock_past *past, const struct lock_seen *before,
                        const struct lock_seen *now) {
    for (size_t i = 0; now != NULL && i < now->holders; i++) {
        const struct pawl_entry *entry = &now->entries[i];

        if (had(before, entry, i) || find_hold(past, entry) != NULL)
            continue;
        begin_hold(step->history, past, entry, began(entry, step->before != NULL ? step->before->time_ms : 0, step->now->time_ms));
        if (step->before == NULL)
            continue;
        note(step->history, EVENT_TOOK, now, entry, step->now->time_ms);
        past->turns += entry->turns == 0;
    }
}

/* Flags that were not there before, of holders and of who stands in everybody's way. */
static void note_flags(const struct step *step, const struct lock_seen *before, const struct lock_seen *now) {
    for (size_t i = 0; i < now->holders + now->waiters; i++) {
        const struct pawl_entry *entry = &now->entries[i];
        unsigned flags = entry->flags & (PAWL_ENTRY_BROKEN | PAWL_ENTRY_STOPPED);
        bool suspect = is_suspect(entry, step->now->time_ms);

        if (flags == 0 && !suspect)
            continue;
        const struct pawl_entry *was = match(before, entry, i);
        unsigned fresh = flags & ~(was != NULL ? was->flags : 0);
        if (fresh & PAWL_ENTRY_BROKEN)
            note(step->history, EVENT_BROKEN, now, entry, step->now->time_ms);
        if (fresh & PAWL_ENTRY_STOPPED)
            note(step->history, EVENT_STOPPED, now, entry, step->now->time_ms);
        if (suspect && (was == NULL || !is_suspect(was, step->before->time_ms)))
            note(step->history, EVENT_SUSPECT, now, entry, step->now->time_ms);
    }
}

static const struct pawl_entry *longest_waiter(const struct lock_seen *lock, int64_t time_ms) {
    for (size_t i = lock->holders; i < lock->holders + lock->waiters; i++)
        if (age_ms(&lock->entries[i], time_ms) == lock->wait_ms)
            return &lock->entries[i];
    return NULL;
}

static void note_lock(const struct step *step, const struct lock_seen *before, const struct lock_seen *now) {
    const struct pawl_entry *waiter = longest_waiter(now, step->now->time_ms);

    if (waiter == NULL)
        return;
    if (now->wait_ms >= LONG_WAIT_MS && (before == NULL || before->wait_ms < LONG_WAIT_MS))
        note(step->history, EVENT_WAITS_LONG, now, waiter, step->now->time_ms);
    if (now->in_cycle && (before == NULL || !before->in_cycle))
        note(step->history, EVENT_CYCLE, now, waiter, step->now->time_ms);
}

/* How many turns there were since the last look, where the engine counts them. */
static void count_turns(struct lock_past *past, const struct lock_seen *before, const struct lock_seen *now) {
    uint64_t was = before != NULL ? before->entries[0].turns : 0, is = now != NULL ? now->entries[0].turns : 0;

    if (was != 0 && is > was)
        past->turns += is - was;
}

static void sample_rate(struct lock_past *past, int64_t time_ms) {
    if (past->rate_count == RATE_CELLS + 1) {
        memmove(past->rate_ms, past->rate_ms + 1, RATE_CELLS * sizeof past->rate_ms[0]);
        memmove(past->rate_turns, past->rate_turns + 1, RATE_CELLS * sizeof past->rate_turns[0]);
        past->rate_count--;
    }
    past->rate_ms[past->rate_count] = time_ms;
    past->rate_turns[past->rate_count++] = past->turns;
}

/* ---- the records ---------------------------------------------------------------------------------------------------------- */

static int compare_past(const void *left, const void *right) {
    const struct lock_past *a = *(struct lock_past *const *)left, *b = *(struct lock_past *const *)right;
    int by_name = strcmp(a->name, b->name);

    return by_name != 0 ? by_name : strcmp(a->url, b->url);
}

static struct lock_past *find_past(const struct history *history, size_t count, const char *url, const char *name) {
    struct lock_past wanted = {.url = (char *)url, .name = (char *)name}, *key = &wanted;
    struct lock_past **found = count > 0 ? bsearch(&key, history->locks, count, sizeof key, compare_past) : NULL;

    return found != NULL ? *found : NULL;
}

static struct lock_past *new_past(const char *url, const char *name) {
    struct lock_past *past = calloc(1, sizeof *past);

    if (past == NULL)
        return NULL;
    past->url = strdup(url);
    past->name = strdup(name);
    if (past->url != NULL && past->name != NULL)
        return past;
    past_finish(past);
    return NULL;
}

/* New ones go to the end; they are sorted in when all locks were visited, each of them once. */
static struct lock_past *past_of(struct step *step, const struct lock_seen *lock) {
    struct history *history = step->history;
    struct lock_past *past = find_past(history, step->sorted, lock->place->url, lock->name);

    if (past == NULL && (past = new_past(lock->place->url, lock->name)) != NULL)
        history->locks[history->count++] = past;
    if (past == NULL)
        history->failed = true;
    return past;
}

static void forget_the_old(struct history *history, int64_t now_ms) {
    int64_t patience_ms = history->count > LOCKS_MAX ? 1 : FORGET_MS;
    size_t kept_count = 0;

    for (size_t i = 0; i < history->count; i++) {
        struct lock_past *past = history->locks[i];

        if (now_ms - past->seen_ms < patience_ms) {
            history->locks[kept_count++] = past;
        } else {
            history->hold_count -= past->hold_room;
            past_finish(past);
        }
    }
    history->count = kept_count;
}

static void take_in(const struct lock_seen *before, const struct lock_seen *now, void *data) {
    struct step *step = data;
    struct lock_past *past = past_of(step, now != NULL ? now : before);

    if (past == NULL)
        return;
    past->seen_ms = step->now->time_ms;
    end_holds(step, past, before, now);
    end_forgotten(past, now, step->now->time_ms);
    begin_holds(step, past, before, now);
    count_turns(past, before, now);
    if (now != NULL) {
        note_flags(step, before, now);
        note_lock(step, before, now);
    }
    sample_rate(past, step->now->time_ms);
}

static const struct place *find_place(const struct look *look, const char *url) {
    for (size_t i = 0; look != NULL && i < look->count; i++)
        if (strcmp(look->places[i].url, url) == 0)
            return &look->places[i];
    return NULL;
}

static void note_places(struct history *history, const struct look *before, const struct look *now) {
    for (size_t i = 0; i < now->count; i++) {
        const struct place *place = &now->places[i], *was = find_place(before, place->url);
        bool was_seen = was == NULL || was->code == 0;

        if (was_seen != (place->code == 0))
            add_event(history, (struct event){.time_ms = now->time_ms,
                                              .kind = was_seen ? EVENT_UNREACHABLE : EVENT_REACHED,
                                              .url = place->url,
                                              .lock = (char *)"",
                                              .what = place->error,
                                              .ms = -1});
    }
}

void history_add(struct history *history, const struct look *before, const struct look *now) {
    struct step step = {.history = history, .before = before, .now = now, .sorted = history->count};
    size_t most = history->count;

    for (size_t i = 0; i < now->count; i++)
        most += now->places[i].count;
    for (size_t i = 0; before != NULL && i < before->count; i++)
        most += before->places[i].count;
    struct lock_past **locks = reallocarray(history->locks, most + 1, sizeof locks[0]);
    if (locks == NULL) {
        history->failed = true;
        return;
    }
    history->locks = locks;
    note_places(history, before, now);
    look_compare(before, now, take_in, &step);
    forget_the_old(history, now->time_ms);
    if (history->count > 1)
        qsort(history->locks, history->count, sizeof locks[0], compare_past);
}

/* ---- questions ------------------------------------------------------------------------------------------------------------ */

const struct lock_past *history_of(const struct history *history, const char *url, const char *name) {
    return find_past(history, history->count, url, name);
}

double hand_off_rate(const struct lock_past *past) {
    if (past == NULL || past->rate_count < 2)
        return -1;
    size_t last = past->rate_count - 1;
    int64_t ms = past->rate_ms[last] - past->rate_ms[0];
    return ms > 0 ? (double)(past->rate_turns[last] - past->rate_turns[0]) * 1e3 / (double)ms : -1;
}

void hand_off_cells(const struct lock_past *past, double ret[RATE_CELLS]) {
    size_t known = past != NULL && past->rate_count > 1 ? past->rate_count - 1 : 0;

    for (size_t i = 0; i < RATE_CELLS; i++)
        ret[i] = -1;
    for (size_t i = 0; i < known; i++) {
        int64_t ms = past->rate_ms[i + 1] - past->rate_ms[i];

        ret[RATE_CELLS - known + i] = ms > 0 ? (double)(past->rate_turns[i + 1] - past->rate_turns[i]) * 1e3 / (double)ms : 0;
    }
}
