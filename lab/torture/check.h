/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h - was a lock ever held twice? Decides by a history alone, and by the table of guarantees.
 *
 * A hold is BELIEVED from the moment acquire returned until the first of: the client begins to release it; it is told of its loss; it is
 * killed; what it was last assured of (pawl_remaining_ms, counted from before it asked) runs out. A paused client goes on believing: that
 * is the point. Nobody else's clock comes into it.
 *
 * The rules, by their names in a verdict:
 *
 *   exclusion  what excludes each other was never believed at the same moment, but for overlaps that a fault of the table explains
 *   permits    the same for semaphores: the permits that are believed never exceed the limit
 *   token      each is used once; tokens rise from hold to hold, and if one acquire ended before another began
 *   store      a store that refuses tokens below the highest it has seen loses no update
 *   value      what lies beside a lock is what its holders wrote, in the order of their tokens: check_values.c
 *   reentry    who enters again has the same token
 *   told       a hold that a fault took is not believed for longer than the table says; lost is final
 *   order      who was seen in the queue is not overtaken by one that asked later, but for hand-offs within a process
 *   wakeup     nobody waits for longer than the table says while the lock is free
 *   try        who does not wait is not refused while nobody holds the lock, nor wants it; a process that only keeps it gives it back
 *   residue    nothing is left behind
 *   herd       a release does not wake everybody
 *   error      no acquire or release fails with an error that its faults don't explain
 *   crash      no client ends by itself
 *   hit        every fault that was asked for took effect as often as was asked
 *   history    the history is one
 *
 * Cost: reading is linear; then each rule sorts once and sweeps once, with what is believed at one moment at hand: O(n log n) for n
 * acquires, times what one lock's holders are in number.
 */
#ifndef PAWL_TORTURE_CHECK_H
#define PAWL_TORTURE_CHECK_H

#include "history.h"
#include "oracle.h"

#define RULES(X)                                                                                                                   \
    X(EXCLUSION, "exclusion")                                                                                                      \
    X(PERMITS, "permits")                                                                                                          \
    X(TOKEN, "token")                                                                                                              \
    X(STORE, "store")                                                                                                              \
    X(VALUE, "value")                                                                                                              \
    X(REENTRY, "reentry")                                                                                                          \
    X(TOLD, "told")                                                                                                                \
    X(ORDER, "order")                                                                                                              \
    X(WAKEUP, "wakeup")                                                                                                            \
    X(TRY, "try")                                                                                                                  \
    X(RESIDUE, "residue")                                                                                                          \
    X(HERD, "herd")                                                                                                                \
    X(ERROR, "error")                                                                                                              \
    X(CRASH, "crash")                                                                                                              \
    X(HIT, "hit")                                                                                                                  \
    X(HISTORY, "history")

enum rule {
#define RULE_ENUM(name, word) RULE_##name,
    RULES(RULE_ENUM)
#undef RULE_ENUM
        RULE_COUNT
};

extern const char *const rule_names[RULE_COUNT];

enum { CHECK_TEXTS = 64 };

struct violation {
    enum rule rule;
    char text[240];
};

struct verdict {
    uint64_t violations[RULE_COUNT], total;
    struct violation first[CHECK_TEXTS]; /* the first of each rule */
    size_t texts;
    uint64_t attempts, exclusive, shared, permits, reentries, downgrades; /* acquires that began; holds of each mode; ... */
    uint64_t held, timed_out, cancelled, unreachable, other;              /* acquires that ended otherwise: refused, ... */
    uint64_t lost;                                                        /* holds told as lost */
    uint64_t overlaps;                                                    /* explained by the table */
    uint64_t accepted, refused;                                           /* by the fenced store */
    uint64_t values;                                                      /* that were written, or read */
    uint64_t watched;                                                     /* waiters that were seen in their queue */
    uint64_t kills, torn;                                                 /* records that a kill cut off */
    uint64_t strokes[FAULT_KINDS], hits[FAULT_KINDS];
};

struct check;

/* `table`: oracle_text, or what stands in for it. NULL: out of memory. */
struct check *check_new(const char *table);
/* The next line of the history, without its newline. */
void check_line(struct check *check, const char *line, size_t length);
/* After the last one. */
void check_finish(struct check *check, struct verdict *ret);
void check_free(struct check *check);

#endif
