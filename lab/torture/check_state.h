/* SPDX-License-Identifier: Apache-2.0
 *
 * check_state.h - what the checker keeps of a history: between check.c, which reads it, and check_rules.c, which judges.
 */
#ifndef PAWL_TORTURE_CHECK_STATE_H
#define PAWL_TORTURE_CHECK_STATE_H

#include "check.h"

#define NEVER INT64_MAX

/* One acquire, and the hold it became. Times are ns since the run began. */
struct attempt {
    int64_t call;
    int64_t granted;   /* when acquire returned 0; NEVER: it did not */
    int64_t downgrade; /* from when on it is shared; NEVER */
    int64_t promise;   /* the end of what it was assured of; NEVER: for ever */
    int64_t believed;  /* until when: see check.h */
    int64_t ended;     /* when the last call of it returned, or the process was gone */
    int64_t seen;      /* from when on it is known to be queued; NEVER: not known */
    int64_t extend;    /* when it was last about to be extended, ... */
    int64_t limit;     /* ... and the ns that it may last from then on; NEVER: it has no limit, or nobody knows it */
    uint64_t token;
    uint64_t version; /* of the store, when it read */
    uint32_t process; /* a number for SLOT.LIFE */
    uint32_t permits;
    size_t rank;  /* in check->by_token */
    size_t chain; /* see check_values.c */
    struct who who;
    short lock;
    char mode;
    bool has_read;
    bool part;       /* of several that are taken as one: while it waits for the others it may have this one already */
    bool kept;       /* until its release, which said so */
    bool foreign;    /* of a program that is not pawl: it has no token */
    bool alone;      /* nobody held the lock when it came, nor for a while before, and nobody wanted it */
    uint64_t number; /* of those who ever wanted the lock */
};

struct stroke_seen {
    int64_t begin, end;
    enum fault fault;
    int lock; /* the one that it hit, or one of these */
};
enum { ANY_LOCK = -1, NO_LOCK = -2 };

struct process {
    unsigned life;
    uint32_t number;
    int64_t killed; /* NEVER */
    bool alive, foreign;
    ptrdiff_t open[HISTORY_THREADS];    /* the attempt of each thread; -1 */
    short blinks[HISTORY_THREADS];      /* the lock that a thread enters and leaves, plus 1; 0: none */
    size_t open_value[HISTORY_THREADS]; /* what it does with a value: its place in check->values, from 1 on; 0 */
};

/* A value, or a note, that was written, or read. */
struct value_op {
    int64_t begin, end;          /* end NEVER: nobody knows what came of it */
    int64_t since;               /* when the hold was granted */
    uint64_t token;              /* of the hold; 0: it was read without one */
    uint64_t number;             /* of the write; 0: there was no value */
    uint64_t version, shown;     /* what a reader was told of it: its version, and the writer's token */
    size_t rank, chain;          /* see check_values.c */
    const struct value_op *seen; /* of a write: the first that read it */
    const struct value_op *of;   /* of a read: the write; NULL: of none */
    struct who who;
    int code;
    short lock;
    bool writes;
    bool note;     /* the second value beside the lock */
    bool by_token; /* written in the name of the hold, not by its holder */
    bool mixed;    /* somebody wrote by token in its chain */
    bool told;     /* not read, but told to who observes the lock: it may be old */
};

struct lock_state {
    char kind; /* m mutex, r read-write, s semaphore; '\0': not declared */
    uint32_t limit;
    uint64_t version, highest; /* the fenced store */
    uint64_t wants;            /* attempts so far, and of these ... */
    uint32_t open;             /* ... those that have not ended ... */
    int64_t left;              /* ... and when the last one did */
};

/* What the history says of the run as a whole. */
struct terms {
    bool votes;    /* the engine is Redlock */
    bool early;    /* an observer is told what too few replicas have, and a failover may take back */
    bool proves;   /* an answer assures holds from the one before it on */
    bool hears;    /* threads that share a claim have no bounds before they hear that others want it */
    bool counted;  /* such a foreigner takes part that pawl does not share permits with */
    bool nests;    /* acquires are ended for a deadlock's sake */
    bool apart;    /* the servers do not show the same time */
    int64_t lease; /* ns */
    int64_t keep;  /* ns that a claim is kept while nobody holds it; 0: none is */
    uint64_t handoff;
};

struct check {
    struct verdict verdict;
    const char *table;
    struct oracle oracle;
    bool has_oracle, ended;
    struct terms terms;
    int64_t now;          /* ns; the latest time seen */
    size_t lines, offset; /* of the next line, in the file */
    struct who dying;     /* is being killed just now; slot -1: nobody is */
    int64_t died;         /* when the last one was; -NEVER: nobody */
    struct lock_state locks[HISTORY_LOCKS];
    struct process *processes[HISTORY_SLOTS];
    uint32_t process_count;
    struct attempt *attempts;
    size_t attempt_count, attempt_room;
    struct stroke_seen *strokes; /* those of all ids; by id */
    size_t stroke_count, stroke_room;
    uint64_t asked[FAULT_KINDS];
    bool asks[FAULT_KINDS];
    struct value_op *values;
    size_t value_count, value_room;
    struct attempt **by_token; /* those that were granted, by lock, and then by token; while the rules are applied */
    size_t granted_count;
};

__attribute__((format(printf, 3, 4))) void check_complain(struct check *check, enum rule rule, const char *format, ...);
/* Make room for one more. False: out of memory. */
bool check_room(void *array, size_t *room, size_t count, size_t size);

/* Which errors may a call end with? */
bool check_expects(const struct check *check, int code);

/* check_values.c: a record about a value; false: it can't be. The rule, which needs the whole history. */
bool check_value(struct check *check, const struct record *record, struct process *process);
void check_values(struct check *check);

/* The rules that need the whole history. */
void check_rules(struct check *check);

#endif
