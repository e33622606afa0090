/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h - what was seen at one moment, at one or several URLs: the model that status, top, export and web show.
 *
 *   look             all that was seen
 *     place          one URL: its locks, or why they could not be seen; what pawl doctor finds there
 *       lock_seen    one name: its holders and waiters, and what an operator must know of it first
 *     graph          who waits for whom, over all places (graph.h)
 *
 * A look owns all that it points to, and never changes once it is settled: one thread may show it while another takes the next.
 * look_take() asks the servers. Everything else is pure: looks are made from a file (read.h) and by tests, too.
 */
#ifndef PAWL_CLI_LOOK_H
#define PAWL_CLI_LOOK_H

#include "../common/snapshot.h"
#include "graph.h"

/* In the order in which they need attention. */
enum lock_state {
    LOCK_STOPPED, /* a process stopped where it keeps all others from moving */
    LOCK_SUSPECT, /* less than a third of a lease is left: its renewals do not get through */
    LOCK_BROKEN,  /* a holder was asked to give up, and has not yet */
    LOCK_FOREIGN, /* a holder is not pawl */
    LOCK_HELD,
    LOCK_FREE, /* only waited for: the next one is being let in */
    LOCK_STATES,
};

struct lock_seen {
    const struct place *place;
    const char *name;
    const struct pawl_entry *entries; /* holders first, waiters in order */
    size_t holders, waiters;
    enum lock_state state;
    bool in_cycle;
    int64_t wait_ms; /* the longest; -1: nobody waits, or since when is not known */
    int64_t held_ms; /* the longest; -1: nobody holds, or since when is not known */
    int64_t left_ms; /* the least of a holder's lease; PAWL_FOREVER: no lease; -1: not known */
};

/* What pawl_examine() told, the last time that it was asked. */
struct findings {
    struct pawl_finding *items;
    size_t count;
};

/* Add a copy. False: out of memory. */
bool findings_add(struct findings *findings, const struct pawl_finding *finding);
void findings_finish(struct findings *findings);

struct place {
    char *url;    /* resolved; as it was given if it never could be opened */
    char *engine; /* "" likewise */
    int64_t lease_ms, notice_ms;
    int code;          /* 0: seen; else why not, and `error` says it */
    char *error;       /* "" if seen */
    double took_ms;    /* how long the look took */
    uint64_t failures; /* looks at this place that failed, this one included */
    struct snapshot snapshot;
    struct lock_seen *locks; /* by name */
    size_t count;
    struct findings findings;
};

struct look {
    int64_t time_ms; /* Unix time, by this host's clock */
    struct place *places;
    size_t count;
    struct graph graph;
};

/* ---- the URLs that are looked at ------------------------------------------------------------------------------------------ */

struct watched {
    const char *url;             /* as given; NULL: $PAWL_URL, else local: */
    struct pawl *_Atomic client; /* opened by who looks; pawl top breaks by it meanwhile, see watch_client() */
    struct findings findings;
    int64_t examined_at; /* of now_ms(); 0: not yet */
    uint64_t failures;
    char *resolved;          /* as it was named first; so it stays */
    int64_t retry_at;        /* of now_ms(): after a look that failed slowly it is let be for a while, */
    struct pawl_error error; /* and this is why */
};

struct watch {
    struct watched *urls;
    size_t count;
    pawl_log_fn *log;   /* of the library; NULL: nobody hears it */
    const char *name;   /* NULL: all locks */
    int64_t examine_ms; /* how often pawl_examine() is asked; 0: never */
};

/* `urls` stay the caller's and must outlive it; none: the default. A server that can't be reached is looked for again by every look, but a
 * URL that is wrong ends it here. Returns 0, or the exit status after having said what is wrong. */
int watch_open(struct watch *watch, const char *const urls[], size_t count, pawl_log_fn *log);
/* The same, and nothing is opened yet. False: out of memory. */
bool watch_prepare(struct watch *watch, const char *const urls[], size_t count, pawl_log_fn *log);
void watch_close(struct watch *watch);
/* The client of a place, by its URL in a look; NULL: there is none, or it is not open. May be called while another thread takes a look. */
struct pawl *watch_client(const struct watch *watch, const char *url);
/* The same; those that are not open yet are opened to find it, but not at once again where that has just failed. */
struct pawl *watch_reach(struct watch *watch, const char *url);

/* ---- looks ---------------------------------------------------------------------------------------------------------------- */

/* Look at all of them, one after the other. A place that can't be seen is in the look, with its error. False: out of memory. */
bool look_take(struct look *look, struct watch *watch);
/* Space for `count` places, all empty; the caller fills what is above `locks` in struct place. False: out of memory. */
bool look_start(struct look *look, size_t count, int64_t time_ms);
/* From entries to locks, states and the graph. False: out of memory. */
bool look_settle(struct look *look);
void look_finish(struct look *look);
/* For how long to look no more after this one: a look takes at most a fiftieth of each server's time. What could not be seen took
 * none of it, and a pause is never so long that what is shown is of no use. */
int64_t look_pause_ms(const struct look *look);

const char *state_name(enum lock_state state);
/* As the entry's own lease says, by the time of the look; never where that is not known. */
bool is_suspect(const struct pawl_entry *entry, int64_t time_ms);
/* For how long it holds or waits, by the time of the look; -1: not known. */
int64_t age_ms(const struct pawl_entry *entry, int64_t time_ms);
/* command host:pid, as much of it as is known. Returns `out`. */
char *who(char *out, size_t size, const struct pawl_entry *entry);

/* Needs attention first: in a cycle, then by state, then who waits longest; as qsort wants it, on pointers to struct lock_seen. */
int compare_attention(const void *left, const void *right);
/* All locks of the look in that order, to be freed; `count` of them. NULL: there are none, or out of memory. */
const struct lock_seen **look_by_attention(const struct look *look, size_t *count);

/* Sums over a place. */
struct totals {
    size_t locks, holders, waiters, in_cycle;
    size_t states[PAWL_SEMAPHORE + 1][LOCK_STATES]; /* by kind and state */
    int64_t wait_ms, held_ms;                       /* the longest; 0: none */
};
void totals_add(struct totals *totals, const struct place *place);
size_t totals_of_state(const struct totals *totals, enum lock_state state);

/* Visit every lock of both looks, place by place and by name: with what it was, and what it is; one of them NULL where it was not seen. A
 * place that can't be seen now is left out: nothing is known of its locks. `before` may be NULL. */
typedef void pair_fn(const struct lock_seen *before, const struct lock_seen *now, void *data);
void look_compare(const struct look *before, const struct look *now, pair_fn *visit, void *data);
/* Would a reader who counts the time by itself see a difference, and which? */
enum lock_change {
    CHANGE_NONE,
    CHANGE_LEASE, /* renewed, and nothing else */
    CHANGE_OTHER,
};
enum lock_change lock_changed(const struct lock_seen *before, int64_t before_ms, const struct lock_seen *now, int64_t now_ms);
/* The same holder or waiter, in two looks. */
bool same_claim(const struct pawl_entry *left, const struct pawl_entry *right);

#endif
