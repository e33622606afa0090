/* SPDX-License-Identifier: Apache-2.0
 *
 * breaks.h - what came of the holds that were asked back (pawl break without --now)? Read off a history, line by line.
 *
 * A claim is asked back by its first token. The hold that has this token is by that claim, and so is each that its process was granted
 * exclusively before the claim was seen on the servers once more. Of those that lasted until the break had been answered, or were
 * granted after that:
 *
 *   - none is renewed without being told: what it is assured of ends a lease after the answer at the latest, or it is told in a moment.
 *     No fault keeps a renewal that gets through from seeing the break, but one that makes a server forget it;
 *   - where there is no fault at all, it is told of its loss in a moment;
 *   - it stays in the way of others until its release, or until what it was assured of is over.
 */
#ifndef PAWL_SIM_BREAKS_H
#define PAWL_SIM_BREAKS_H

#include "torture/history.h"
#include "torture/oracle.h"

enum { BREAKS_SLOTS = 64, BREAKS_PARTS = 48, BREAKS_HOLDS = 16384, BREAKS_MAX = 4096, BREAKS_STROKES = 1024 };

/* Times are ns since the run began; INT64_MAX: never. */
struct breaks_hold {
    struct who who;
    uint64_t token;
    int64_t granted, believed, promise;
    int64_t left; /* when its release began, or its process ended */
    short lock;
    char mode;
    bool has_limit;
};

/* A claim that is sure to have been asked back. */
struct breaks_asked {
    struct who holder;
    int lock;
    uint64_t token;
    int64_t known; /* since then */
    int64_t seen;  /* then it was on the servers, or later */
};

struct breaks_stroke {
    int64_t begin, end;
    bool forgets;  /* a server may have lost the break with the hold */
    bool frees;    /* what was asked back may be freed at once */
    bool distorts; /* a client's clock is wrong: what it is assured of is more, or less */
};

enum breaks_wrong { BREAKS_RENEWED, BREAKS_NOT_TOLD, BREAKS_NOT_IN_THE_WAY, BREAKS_WRONGS };

struct breaks {
    const struct oracle *oracle;
    int64_t lease_ns;
    int64_t moment_ns; /* so long it may take until it is told, where nothing is in the way of that */
    bool calm;         /* nothing is */
    struct breaks_hold holds[BREAKS_HOLDS];
    struct breaks_asked asked[BREAKS_MAX];
    struct breaks_stroke strokes[BREAKS_STROKES];
    int hold_count, asked_count, stroke_count;
    int open[BREAKS_SLOTS][BREAKS_PARTS]; /* the hold of each thread, plus 1 */
    char modes[BREAKS_SLOTS][BREAKS_PARTS];
    unsigned wrong[BREAKS_WRONGS];
    struct {
        const struct breaks_hold *hold;
        const struct breaks_asked *asked;
        int64_t ns; /* by so much */
    } first[BREAKS_WRONGS];
};

/* `oracle`: which faults make a server forget. */
void breaks_begin(struct breaks *breaks, const struct oracle *oracle, int64_t moment_ns, bool calm);
void breaks_line(struct breaks *breaks, const char *line, size_t length);
/* After the last one. */
void breaks_judge(struct breaks *breaks);

#endif
