/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - what a row of looks tells that one does not: events, the last holds of each lock, how often it changes hands.
 *
 * Only what was seen is known. A hold that began and ended between two looks is counted where the engine counts turns, and not listed.
 * From outside a release can't be told from a loss: a hold that is gone *went*; it was *lost* only if it was suspect, and its lease
 * ran out.
 */
#ifndef PAWL_CLI_HISTORY_H
#define PAWL_CLI_HISTORY_H

#include "look.h"

enum event_kind {
    EVENT_TOOK,
    EVENT_WENT,
    EVENT_LOST,        /* its lease ran out */
    EVENT_SUSPECT,     /* its renewals do not get through */
    EVENT_BROKEN,      /* an operator asked it to give up */
    EVENT_STOPPED,     /* a process stopped where it is in everybody's way */
    EVENT_WAITS_LONG,  /* somebody has waited for LONG_WAIT_MS */
    EVENT_CYCLE,       /* it is part of a likely deadlock */
    EVENT_UNREACHABLE, /* the place */
    EVENT_REACHED,
    EVENT_BREAK, /* somebody asked for it here, done or not; no look sees that */
    EVENT_KINDS,
};
enum { LONG_WAIT_MS = 60000 };

struct event {
    uint64_t number; /* they are counted from 1 */
    int64_t time_ms;
    enum event_kind kind;
    char *url;
    char *lock; /* "" of a place */
    char *what; /* who it was; of a place: why */
    uint64_t token;
    int64_t ms; /* how long it held, or waits; -1: not known */
};

/* The newest of one sort: that which is usual must not drive out what is not. */
struct events {
    struct event *ring;
    size_t room, next; /* `next` counts on; the place of an event is next % room */
};

struct hold_seen {
    uint64_t token;
    int64_t from_ms, to_ms; /* to_ms 0: holds still */
    enum event_kind end;    /* EVENT_WENT, EVENT_LOST; EVENT_BROKEN: after it was asked to give up */
    char who[64];
};

enum { HOLDS_MAX = 64, RATE_CELLS = 8 };

struct lock_past {
    char *url, *name;
    int64_t seen_ms;
    struct hold_seen *holds; /* the oldest first */
    size_t hold_count, hold_room;
    uint64_t turns;                      /* hand-offs that were seen, or that the engine counted */
    int64_t rate_ms[RATE_CELLS + 1];     /* when, */
    uint64_t rate_turns[RATE_CELLS + 1]; /* and how many there had been; the oldest first */
    size_t rate_count;
};

/* How many there were of each kind, at one place. */
struct event_counts {
    char *url;
    uint64_t counts[EVENT_KINDS];
};

struct history {
    struct lock_past **locks; /* by name, then by URL */
    size_t count, hold_count;
    struct events usual, trouble; /* took and went; all others */
    uint64_t event_count;
    struct event_counts *places;
    size_t place_count;
    bool failed; /* out of memory: something is missing */
};

bool history_init(struct history *history);
/* Take in what differs. `before` NULL: `now` is the first look. */
void history_add(struct history *history, const struct look *before, const struct look *now);
/* Add one that no look saw; its texts are copied. */
void history_note(struct history *history, const struct event *event);
void history_finish(struct history *history);

const struct lock_past *history_of(const struct history *history, const char *url, const char *name);
/* Hand-offs a second over the last looks; -1: only one look so far. `past` may be NULL. */
double hand_off_rate(const struct lock_past *past);
/* Those of each of the last looks, the oldest first; cells that are not known yet are -1. */
void hand_off_cells(const struct lock_past *past, double ret[RATE_CELLS]);
/* The newest, the last first; `url` and `lock` NULL: of all. Returns how many. */
size_t history_events(const struct history *history, const char *url, const char *lock, const struct event *ret[], size_t most);
/* How many events of that kind there were at this place. */
uint64_t history_count(const struct history *history, const char *url, enum event_kind kind);
const char *event_name(enum event_kind kind);

#endif
