/* SPDX-License-Identifier: Apache-2.0
 *
 * verdict.h - what is to be said of a simulated run: all that the torture's checker says of its history, and what only a simulation can
 * tell.
 *
 * The checker's rules are in lab/torture/check.h. In addition:
 *
 *   calm      without faults nobody waits for a second for a lock that it could have, and nobody loses one; a little longer under faults
 *             that can cost no more than that (verdict.c)
 *   hung      every client comes to an end in time once the faults are over
 *   livelock  nobody runs on and on without getting anywhere
 *   stuck     it never comes to it that nobody can run and nothing will ever happen
 *   late      the run comes to its end
 *   leak      a client that closes what it opened has given back all of its memory
 *   requests  without faults, no more messages per hold than the plan says
 *   deadlock  no wait is ended for a deadlock that is none; and without faults each deadlock is ended, where that is asked for
 *   broken    a hold that was asked back (pawl break without --now) is told of that, and never renewed again; and it stays in the way
 *             until it is released (breaks.h)
 */
#ifndef PAWL_SIM_VERDICT_H
#define PAWL_SIM_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "world/world.h"

struct plan;

enum { FACTS_SITES = 8 };

/* What the rig knows beside the history. */
struct facts {
    enum world_end end;
    uint64_t hash, steps, strokes;
    uint64_t messages_before, messages; /* that reached the servers, when clients started and when they were told to finish */
    uint64_t at_site[FACTS_SITES];      /* of the latter, by server */
    size_t leaked;
    char words[256]; /* of a process that did not end well */
};

enum { FINDINGS = 6, RULE_WORD = 16 };

struct finding {
    char rule[RULE_WORD];
    char text[260];
};

struct outcome {
    uint64_t hash, steps, strokes, messages, holds, watched;
    uint64_t at_site[FACTS_SITES]; /* messages */
    unsigned violations;           /* of all rules */
    struct finding list[FINDINGS]; /* the first of each rule */
    unsigned findings;
};

/* Judge what is in the buffer. */
void verdict_give(const struct plan *plan, const struct facts *facts, struct outcome *ret);
/* Was this rule broken? NULL: any. */
bool outcome_breaks(const struct outcome *outcome, const char *rule);
/* Is there such a rule? */
bool verdict_knows(const char *rule);

#endif
